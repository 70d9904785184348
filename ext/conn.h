/* What one connection has of colfam: the context of every module and function registered on it, and the
** list of tables opened. Made when the extension is loaded, freed with the last module.
** Thread rule: as the connection itself. */
#ifndef COLFAM_CONN_H
#define COLFAM_CONN_H

#include <stdbool.h>

#include "sqlite_api.h"

struct api_object;
struct colfam_drop;
struct colfam_table;
struct colfam_vtab;

struct colfam_conn {
  sqlite3 *db;
  unsigned fork_number; /* of the process that made it (worker.h) */
  bool readonly;        /* existing tables can be read, nothing else (colfam_conn_restrict) */
  int refs;             /* one a registration */
  unsigned vtab_moves;  /* counts vtab objects made and freed */
  struct colfam_vtab *planned; /* the last one that SQLite asked for a plan */
  struct colfam_vtab *vtabs;   /* all connected now */
  struct colfam_table *tables; /* all opened now */
  struct colfam_drop *drops;   /* DROPs of the transaction in progress (drop.h) */
  struct api_object *api;      /* NULL until asked for (api.h) */
  bool drops_joined;           /* colfam_drops takes part in it */
};
struct colfam_conn *colfam_conn_new(sqlite3 *db);
struct colfam_conn *colfam_conn_ref(struct colfam_conn *conn);
/* SQLITE_MISUSE with a message when it was opened before a fork, in the parent: here nothing of it may be
** used, and nothing is freed. */
int colfam_conn_refuse_fork(const struct colfam_conn *conn, char **message);
bool colfam_conn_is_inherited(const struct colfam_conn *conn);
void colfam_conn_unref(void *conn); /* void * for SQLite's destructors */

/* The context of a connection that has loaded the extension, or NULL. */
struct colfam_conn *colfam_conn_of(sqlite3 *db);
/* The last step of loading: from now on colfam_conn_of finds it. */
int colfam_conn_register(struct colfam_conn *conn);
/* For good: what is loaded may be read only from now on. */
void colfam_conn_restrict(struct colfam_conn *conn);
/* SQLITE_READONLY with a message when the connection is restricted. `what` is a function's or a table's
** name. */
int colfam_conn_refuse(const struct colfam_conn *conn, const char *what, char **message);

/* Registers functions and table-valued functions (functions.c, stats_table.c, ...); on a restricted
** connection only those that neither write nor touch files. */
int colfam_functions_register(struct colfam_conn *conn);

#endif
