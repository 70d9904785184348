/* The virtual table object: what SQLite holds for one table of one connection between xConnect and
** xDisconnect. Connecting only parses; the table behind it (table.h) is opened by the first use, so that
** a damaged table can still be dropped. */
#ifndef COLFAM_VTAB_H
#define COLFAM_VTAB_H

#include <stdbool.h>

#include "engine/kv.h"
#include "newer.h"
#include "schema.h"
#include "sqlite_api.h"

struct colfam_conn;
struct colfam_cursor;
struct colfam_table;
struct colfam_update_scratch;

struct colfam_vtab {
  sqlite3_vtab base; /* first: SQLite's */
  struct colfam_conn *conn;
  struct colfam_schema *schema;
  char *database;                        /* schema name: "main" */
  struct colfam_table *table;            /* NULL until opened */
  struct colfam_update_scratch *scratch; /* buffers of xUpdate (update.c) */
  bool joining;                          /* between xBegin and the first savepoint callback */
  bool opening;                          /* the table, for the first time */
  struct colfam_cursor *spare_cursors;   /* closed ones, kept for the next xOpen (cursor.c) */
  sqlite3_stmt
      *kept_hold;  /* of an anchor that has ended, for the next by this name (anchor.c), or NULL */
  char *kept_name; /* NULL: none is kept */
  unsigned kept_version;    /* data version in which `kept_hold` was stepped last */
  double rows_estimate;     /* when a statement was last planned; 0 before */
  struct colfam_vtab *next; /* of the connection's vtabs */
};

/* Opens the table behind it when needed. On failure base.zErrMsg is set. */
int colfam_vtab_open(struct colfam_vtab *vtab);
/* What a statement sees now: a view with a reference that the caller drops, and the pending batch or NULL,
** borrowed (take a reference to keep it). Only inside a read or write transaction of the table's database
** (engine/README.md, invariant 1, Anchor). */
int colfam_vtab_view(struct colfam_vtab *vtab, struct kv_view **view, struct kv_batch **batch);
/* Rows of the table for planning, roughly. Opens the table when nobody has; needs no transaction. */
double colfam_vtab_rows_estimate(struct colfam_vtab *vtab);
/* Sets base.zErrMsg and returns the code. */
int colfam_vtab_fail(struct colfam_vtab *vtab, kv_status status, const struct kv_err *err);
int colfam_vtab_error(struct colfam_vtab *vtab, int rc, const char *format, ...);

/* The module; registered by colfam.c with the connection as its context. */
extern const struct colfam_module colfam_module;

#endif
