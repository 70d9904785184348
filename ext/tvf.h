/* Table-valued functions whose rows are gathered at once: a definition says the columns and how to gather,
** everything SQLite wants of a module is here. All are eponymous-only and read-only. */
#ifndef COLFAM_TVF_H
#define COLFAM_TVF_H

#include <stdbool.h>

#include "conn.h"
#include "list.h"
#include "sqlite_api.h"

struct colfam_tvf {
  const char *name;
  const char *columns; /* as in CREATE TABLE: "id TEXT, level INTEGER" */
  int column_count;
  bool takes_table; /* name('t'): the argument is the hidden column table_name, and must be given */
  bool direct_only; /* not for views and triggers */
  bool
      harmless; /* writes nothing and touches no file by name: restricted connections have it too */
  /* Appends all rows; `table` is the argument or NULL. On failure returns the code and may set *message
  ** (sqlite3_malloc). */
  int (*gather)(struct colfam_conn *conn, const char *table, struct colfam_list *list,
                char **message);
};
/* `tvf` is static storage. The module holds a reference to conn. */
int colfam_tvf_register(struct colfam_conn *conn, const struct colfam_tvf *tvf);

/* For xBestIndex: the hidden column `column` is the one argument, and must be given: SQLITE_CONSTRAINT
** for a plan without it, SQLITE_ERROR with a message for a statement without it. `wanted` says what it
** is. */
int colfam_tvf_take_argument(sqlite3_index_info *info, int column, const char *name,
                             const char *wanted, char **message);
/* The same for a second argument, which may be left out. */
int colfam_tvf_take_option(sqlite3_index_info *info, int column);
/* For xFilter: a copy of the argument (sqlite3_malloc). What is no text is an error: a silent "no rows" would
** look like an answer. */
int colfam_tvf_copy_argument(sqlite3_value *value, const char *name, const char *wanted,
                             char **argument, char **message);

extern const struct colfam_tvf colfam_stats_tvf;
extern const struct colfam_tvf colfam_families_tvf;
extern const struct colfam_tvf colfam_files_tvf;
extern const struct colfam_tvf colfam_check_tvf;

#endif
