/* Rows gathered for a table-valued function. */
#ifndef COLFAM_LIST_H
#define COLFAM_LIST_H

#include <stdbool.h>

#include "sqlite_api.h"

/* Rows being gathered: one cell after the other, column by column, row by row. Appending after a failure
** does nothing; the code is in `rc`. Zero-initialise. */
struct colfam_cell {
  int type; /* SQLITE_INTEGER, SQLITE_FLOAT, SQLITE_TEXT, SQLITE_NULL */
  union {
    sqlite3_int64 integer;
    double real;
    char *text; /* owned, sqlite3_malloc */
  } as;
};
struct colfam_list {
  struct colfam_cell *cells;
  sqlite3_int64 count;
  sqlite3_int64 capacity;
  int rc; /* SQLITE_OK, SQLITE_NOMEM or SQLITE_TOOBIG */
};
void colfam_list_release(struct colfam_list *list);
void colfam_list_null(struct colfam_list *list);
void colfam_list_integer(struct colfam_list *list, sqlite3_int64 value);
void colfam_list_real(struct colfam_list *list, double value);
/* The text is copied; NULL appends NULL. */
void colfam_list_text(struct colfam_list *list, const char *text);
/* As sqlite3_mprintf. */
void colfam_list_format(struct colfam_list *list, const char *format, ...);
/* Finishes and frees the text and appends it. */
void colfam_list_str(struct colfam_list *list, sqlite3_str *text);
/* A table as SQL names it, so that it can be given to a function that takes a table: t, aux.t,
** "odd name"; main.t when `hidden` by a table in temp. */
void colfam_list_table(struct colfam_list *list, const char *database, const char *table,
                       bool hidden);

#endif
