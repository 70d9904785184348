/* One colfam table of one schema as one connection sees it, found by schema, store and uuid (a copy of a
** database has the same uuids, and the same file may be attached twice): shared by all vtab objects that
** SQLite makes for it (DDL makes new ones in the middle of a transaction). Holds the cached view, the
** prepared statements on the shadow tables (catalog.h) and the transaction in progress (txn.h). */
#ifndef COLFAM_TABLE_H
#define COLFAM_TABLE_H

#include <stdbool.h>

#include "catalog.h"
#include "conn.h"
#include "engine/kv.h"
#include "schema.h"
#include "sqlite_api.h"
#include "store.h"
#include "vtab.h"

struct colfam_txn;

/* What a snapshot must have for the files of the cached view to be its own: the seal. What this connection
** itself may have written to shadow tables by hand does not move the seal: then all is read. */
struct colfam_known {
  bool sealed; /* else it is not known */
  uint64_t seal;
  struct colfam_flushed flushed;
  int changes; /* sqlite3_total_changes when the view was made */
};

struct colfam_table {
  struct colfam_conn *conn;
  struct colfam_table *next; /* of the connection */
  int vtab_count;            /* that use it */
  struct colfam_catalog catalog;
  bool is_main; /* its database is "main" */
  struct colfam_store *store;
  const void *file; /* to close the store with */
  struct kv_family *family;
  struct colfam_options options;
  struct colfam_txn *txn; /* NULL outside a write transaction on this table */
  /* The cached view: good while DATA_VERSION is the same (invariant 1, Currency). */
  struct colfam_cached_view cached;
  unsigned data_version;
  struct colfam_known known; /* of the cached view's manifest */
  bool meta_old;             /* `options` and `writable` may be those of an earlier snapshot */
  bool writable;             /* as t_cfmeta said last */
  bool dead_rows;            /* t_cflog may hold rows at or below flushed_seq */
  int64_t trimmed;    /* bytes of them that commits have deleted beyond what they have added */
  bool renamed;       /* the transaction in progress may have renamed it */
  bool options_stale; /* a command that changed options may be rolled back */
  int proof;          /* what a commit proves for removals (reclaim.c), noted by xSync */
};

/* The connection's table of this name, opened when needed (reads t_cfmeta). The vtab joins it. */
int colfam_table_open(struct colfam_vtab *vtab, struct colfam_table **table, char **message);
/* The shadow tables may have got another name since it was opened: the vtab's schema is the newest. */
int colfam_table_follow_name(struct colfam_table *table, const struct colfam_vtab *vtab);
/* README.md, Limits: only UTF-8, only where table files can be (store.h). `label` is for the message. */
int colfam_table_refuse_place(sqlite3 *db, const char *database, const char *label, char **message);
/* The vtab leaves; the table goes with the last vtab, unless a transaction still holds it. */
void colfam_table_leave(struct colfam_vtab *vtab);
/* The connection's table of this uuid in a database, whatever its name and without a vtab; opened when
** needed. NULL when the database has none. */
int colfam_table_by_uuid(struct colfam_conn *conn, const char *database, const uint8_t uuid[16],
                         struct colfam_table **table, char **message);
/* Lets go of what a table without vtab objects must not hold: statements, the cached view. */
void colfam_table_rest(struct colfam_table *table);
/* Frees the table when neither vtab nor transaction uses it. */
void colfam_table_free(struct colfam_table *table);

/* A view of the committed state, with a reference for the caller: inside a write transaction on the table
** its base view with what it has spilled (txn_spill.h), else the snapshot's. */
int colfam_table_view(struct colfam_table *table, struct kv_view **view, char **message);
/* The same for one look, without a reference in a write transaction, else with that of the cached view. It is
** given back before SQLite or a function of the application's is called. */
int colfam_table_borrow_view(struct colfam_table *table, struct kv_view **view, char **message);
void colfam_table_give_back(struct colfam_table *table, struct kv_view *view);
struct kv_batch *colfam_table_batch(struct colfam_table *table); /* borrowed, or NULL */
/* Takes `view` over as the cached one. */
void colfam_table_set_view(struct colfam_table *table, struct kv_view *view, unsigned data_version);
/* Forgets the cached view: the next read asks the shadow tables. */
void colfam_table_forget_view(struct colfam_table *table);
/* Reads what t_cfmeta says now of options and of who may write, when a view was made without. */
int colfam_table_read_meta(struct colfam_table *table, char **message);
/* Inside a write transaction: reads options again after a ROLLBACK TO that may have undone some. The family
** follows when the transaction has ended. */
int colfam_table_settle_options(struct colfam_table *table, char **message);
int colfam_table_data_version(struct colfam_table *table, unsigned *version);
/* The first column of `PRAGMA <database>.<name>` as text; "" when the application's authorizer does not
** let us ask. */
int colfam_table_pragma(struct colfam_table *table, const char *name, char *text, size_t size,
                        char **message);

/* For functions that name a table ('t', 'aux.t', quoted): finds the vtab, anchored in a read transaction
** that lasts until colfam_anchor_end (invariant 1, Anchor). Ended anchors leave to their vtab what makes the
** next call by the same name cheap. */
struct colfam_anchor {
  sqlite3_stmt
      *hold; /* an open SELECT on the schema: keeps the read transaction; NULL: others do */
  struct colfam_vtab *vtab;
  struct kv_view *view;
  struct kv_batch *batch;
  struct colfam_conn *conn;
  unsigned vtab_moves; /* of the connection, when the vtab was found */
  int prepares;        /* of `hold`, then: another number tells of a new schema or authorizer */
};
int colfam_anchor_begin(struct colfam_conn *conn, const char *name, struct colfam_anchor *anchor,
                        char **message);
/* The same without a view, for a table whose view cannot be made; nothing of it is kept for the next call. */
int colfam_anchor_hold(struct colfam_conn *conn, const char *name, struct colfam_anchor *anchor,
                       char **message);
void colfam_anchor_end(struct colfam_anchor *anchor);
/* Names may mean something else from now on: a table is renamed or dropped. */
void colfam_anchor_forget(struct colfam_conn *conn);
/* For calls that come many times in one statement. rest lets go of all but a statement that is reset;
** again begins anew, at little cost while no table of the connection has come or gone. end frees it in
** any state. */
void colfam_anchor_rest(struct colfam_anchor *anchor);
int colfam_anchor_again(struct colfam_conn *conn, const char *name, struct colfam_anchor *anchor,
                        char **message);
/* Prepares a statement that gives the names of a database's colfam tables: virtual tables beside which a
** t_cfmeta stands. */
int colfam_conn_tables(struct colfam_conn *conn, const char *database, sqlite3_stmt **names);
/* A table's vtabs are found here by schema and name (ASCII case ignored). */
struct colfam_vtab *colfam_conn_find(struct colfam_conn *conn, const char *database,
                                     const char *name);
/* Whether temp has a table of this name, which an unqualified name means then. */
bool colfam_conn_hides(struct colfam_conn *conn, const char *table);

#endif
