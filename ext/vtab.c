/* The module: SQLite's callbacks in terms of schema, table, transaction and cursor. Facts relied upon
** (checked by tests): a table may have several vtab objects in one transaction, since DDL makes new ones;
** CREATE VIRTUAL TABLE joins the transaction without xBegin; xDestroy leaves it at once. */
#include "vtab.h"

#include <string.h>

#include "check_table.h"
#include "cursor.h"
#include "declare.h"
#include "drop.h"
#include "error.h"
#include "plan.h"
#include "table.h"
#include "txn.h"
#include "update.h"

/* Reading t_cfmeta may lead back here, when somebody has put a view on the table in its place. */
static int open_table(struct colfam_vtab *vtab) {
  if (vtab->opening)
    return colfam_vtab_error(vtab, SQLITE_LOCKED,
                             "table %s: its shadow tables use the table itself",
                             vtab->schema->table);
  vtab->opening = true;
  int rc = colfam_table_open(vtab, &vtab->table, &vtab->base.zErrMsg);
  vtab->opening = false;
  return rc;
}

int colfam_vtab_open(struct colfam_vtab *vtab) {
  int rc = colfam_conn_refuse_fork(vtab->conn, &vtab->base.zErrMsg);
  if (rc == SQLITE_OK && !vtab->table) rc = open_table(vtab);
  if (rc != SQLITE_OK) return rc;
  return colfam_table_follow_name(vtab->table, vtab);
}

int colfam_vtab_view(struct colfam_vtab *vtab, struct kv_view **view, struct kv_batch **batch) {
  int rc = colfam_vtab_open(vtab);
  if (rc == SQLITE_OK) rc = colfam_table_view(vtab->table, view, &vtab->base.zErrMsg);
  if (rc == SQLITE_OK) *batch = colfam_table_batch(vtab->table);
  return rc;
}

int colfam_vtab_fail(struct colfam_vtab *vtab, kv_status status, const struct kv_err *err) {
  return colfam_error_of(&vtab->base.zErrMsg, vtab->schema->label, status, err);
}

int colfam_vtab_error(struct colfam_vtab *vtab, int rc, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  rc = colfam_error_list(&vtab->base.zErrMsg, rc, format, arguments);
  va_end(arguments);
  return rc;
}

/* ---- Life of the object */

static void free_vtab(struct colfam_vtab *vtab) {
  struct colfam_vtab **link = &vtab->conn->vtabs;
  while (*link && *link != vtab) link = &(*link)->next;
  if (*link) *link = vtab->next;
  vtab->conn->vtab_moves++;
  if (vtab->conn->planned == vtab) vtab->conn->planned = NULL;
  sqlite3_finalize(vtab->kept_hold);
  sqlite3_free(vtab->kept_name);
  colfam_table_leave(vtab);
  colfam_update_release(vtab);
  colfam_cursor_free_spares(vtab);
  colfam_schema_unref(vtab->schema);
  sqlite3_free(vtab->database);
  sqlite3_free(vtab->base.zErrMsg); /* of a failed xDestroy, which nobody has taken */
  sqlite3_free(vtab);
}

static int new_vtab(sqlite3 *db, struct colfam_conn *conn, int argc, const char *const *argv,
                    struct colfam_vtab **out, char **message) {
  struct colfam_vtab *vtab = sqlite3_malloc64(sizeof *vtab);
  if (!vtab) return SQLITE_NOMEM;
  memset(vtab, 0, sizeof *vtab);
  vtab->conn = conn;
  vtab->database = sqlite3_mprintf("%s", argv[1]);
  int rc = vtab->database ? colfam_schema_new(argc, argv, &vtab->schema, message) : SQLITE_NOMEM;
  if (rc == SQLITE_OK) rc = colfam_declare(db, vtab->schema, message);
  if (rc == SQLITE_OK) rc = sqlite3_vtab_config(db, SQLITE_VTAB_CONSTRAINT_SUPPORT, 1);
  if (rc != SQLITE_OK) {
    if (!*message) colfam_error(message, rc, "%s", sqlite3_errmsg(db));
    free_vtab(vtab);
    return rc;
  }
  conn->vtab_moves++;
  vtab->next = conn->vtabs;
  conn->vtabs = vtab;
  *out = vtab;
  return SQLITE_OK;
}

static int vtab_connect(sqlite3 *db, void *context, int argc, const char *const *argv,
                        sqlite3_vtab **out, char **message) {
  struct colfam_vtab *vtab;
  int rc = new_vtab(db, context, argc, argv, &vtab, message);
  if (rc == SQLITE_OK) *out = &vtab->base;
  return rc;
}

/* DROP needs this name for itself (drop.h). */
static int refuse_name(const char *name, char **message) {
  if (sqlite3_stricmp(name, "colfam_drops") != 0) return SQLITE_OK;
  return colfam_error(message, SQLITE_ERROR,
                      "table %s: colfam needs this name for itself: choose another", name);
}

/* The shadow tables, and the transaction that CREATE itself has begun. */
static int create_table(struct colfam_vtab *vtab, char **message) {
  const char *name = vtab->schema->table;
  int rc = refuse_name(name, message);
  if (rc == SQLITE_OK)
    rc = colfam_table_refuse_place(vtab->conn->db, vtab->database, vtab->schema->label, message);
  if (rc == SQLITE_OK) rc = colfam_schema_find_order(vtab->schema, message);
  if (rc != SQLITE_OK) return rc;
  struct colfam_catalog catalog;
  rc = colfam_catalog_init(&catalog, vtab->conn->db, vtab->database, name);
  if (rc != SQLITE_OK) return rc;
  rc = colfam_catalog_create(&catalog, &vtab->schema->options, message);
  colfam_catalog_release(&catalog);
  if (rc == SQLITE_OK) rc = colfam_table_open(vtab, &vtab->table, message);
  if (rc == SQLITE_OK) rc = colfam_txn_begin(vtab->table, true, message);
  return rc;
}

static int vtab_create(sqlite3 *db, void *context, int argc, const char *const *argv,
                       sqlite3_vtab **out, char **message) {
  struct colfam_vtab *vtab;
  int rc = colfam_conn_refuse(context, argv[2], message);
  if (rc == SQLITE_OK) rc = new_vtab(db, context, argc, argv, &vtab, message);
  if (rc != SQLITE_OK) return rc;
  rc = create_table(vtab, message);
  if (rc == SQLITE_OK) {
    *out = &vtab->base;
  } else {
    if (vtab->table && vtab->table->txn) colfam_txn_rollback(vtab->table->txn);
    free_vtab(vtab);
  }
  return rc;
}

static int vtab_disconnect(sqlite3_vtab *base) {
  free_vtab((struct colfam_vtab *)base);
  return SQLITE_OK;
}

static int refuse_restricted(struct colfam_vtab *vtab) {
  return colfam_conn_refuse(vtab->conn, vtab->schema->table, &vtab->base.zErrMsg);
}

/* A table too damaged to be opened can be dropped and renamed all the same: by name. */
static int with_catalog(struct colfam_vtab *vtab, struct colfam_catalog *own,
                        struct colfam_catalog **catalog) {
  memset(own, 0, sizeof *own);
  if (colfam_vtab_open(vtab) == SQLITE_OK) {
    *catalog = &vtab->table->catalog;
    return SQLITE_OK;
  }
  sqlite3_free(vtab->base.zErrMsg);
  vtab->base.zErrMsg = NULL;
  *catalog = own;
  return colfam_catalog_init(own, vtab->conn->db, vtab->database, vtab->schema->table);
}

static int vtab_destroy(sqlite3_vtab *base) {
  struct colfam_vtab *vtab = (struct colfam_vtab *)base;
  struct colfam_catalog own, *catalog;
  if (refuse_restricted(vtab) != SQLITE_OK) return SQLITE_READONLY;
  colfam_anchor_forget(vtab->conn);
  int rc = with_catalog(vtab, &own, &catalog);
  if (rc == SQLITE_OK && vtab->table) rc = colfam_drops_add(vtab->table, &base->zErrMsg);
  if (rc == SQLITE_OK) rc = colfam_catalog_drop(catalog, &base->zErrMsg);
  colfam_catalog_release(&own);
  if (rc == SQLITE_OK) free_vtab(vtab);
  return rc;
}

/* SQLite makes a new object for the new name, which the table follows. */
static int vtab_rename(sqlite3_vtab *base, const char *name) {
  struct colfam_vtab *vtab = (struct colfam_vtab *)base;
  struct colfam_catalog own, *catalog;
  int rc = refuse_restricted(vtab);
  if (rc == SQLITE_OK) rc = refuse_name(name, &base->zErrMsg);
  if (rc != SQLITE_OK) return rc;
  colfam_anchor_forget(vtab->conn);
  rc = with_catalog(vtab, &own, &catalog);
  if (rc == SQLITE_OK) rc = colfam_catalog_rename(catalog, name, &base->zErrMsg);
  if (vtab->table) vtab->table->renamed = true;
  colfam_catalog_release(&own);
  return rc;
}

/* What SQLite has found under a name is told by whom it asks (anchor.c). */
static int vtab_best_index(sqlite3_vtab *base, sqlite3_index_info *info) {
  struct colfam_vtab *vtab = (struct colfam_vtab *)base;
  vtab->conn->planned = vtab;
  return colfam_best_index(base, info);
}

/* ---- Transactions */

static struct colfam_txn *txn_of(sqlite3_vtab *base) {
  struct colfam_table *table = ((struct colfam_vtab *)base)->table;
  return table ? table->txn : NULL;
}

/* SQLite tells an object that begins the newest savepoint only. When another object of the table began the
** transaction, that savepoint may be an older one than the transaction, or one that the other object was
** told of already: nothing to note. */
static int vtab_begin(sqlite3_vtab *base) {
  struct colfam_vtab *vtab = (struct colfam_vtab *)base;
  int rc = refuse_restricted(vtab);
  if (rc == SQLITE_OK) rc = colfam_vtab_open(vtab);
  if (rc != SQLITE_OK) return rc;
  vtab->joining = vtab->table->txn != NULL;
  return colfam_txn_begin(vtab->table, false, &base->zErrMsg);
}

static int vtab_sync(sqlite3_vtab *base) {
  struct colfam_txn *txn = txn_of(base);
  return txn ? colfam_txn_sync(txn, &base->zErrMsg) : SQLITE_OK;
}

static int vtab_commit(sqlite3_vtab *base) {
  struct colfam_txn *txn = txn_of(base);
  if (txn) colfam_txn_commit(txn);
  return SQLITE_OK;
}

static int vtab_rollback(sqlite3_vtab *base) {
  struct colfam_txn *txn = txn_of(base);
  if (txn) colfam_txn_rollback(txn);
  return SQLITE_OK;
}

static int vtab_savepoint(sqlite3_vtab *base, int index) {
  struct colfam_vtab *vtab = (struct colfam_vtab *)base;
  struct colfam_txn *txn = txn_of(base);
  if (txn && !vtab->joining) colfam_txn_savepoint(txn, index);
  vtab->joining = false;
  return SQLITE_OK;
}

static int vtab_release(sqlite3_vtab *base, int index) {
  struct colfam_txn *txn = txn_of(base);
  if (txn) colfam_txn_release(txn, index);
  return SQLITE_OK;
}

static int vtab_rollback_to(sqlite3_vtab *base, int index) {
  struct colfam_txn *txn = txn_of(base);
  if (txn) colfam_txn_rollback_to(txn, index);
  return SQLITE_OK;
}

static int shadow_name(const char *suffix) {
  return sqlite3_stricmp(suffix, "cflog") == 0 || sqlite3_stricmp(suffix, "cffile") == 0 ||
         sqlite3_stricmp(suffix, "cfmeta") == 0;
}

const struct colfam_module colfam_module = {
    .base =
        {
            .iVersion = 4,
            .xCreate = vtab_create,
            .xConnect = vtab_connect,
            .xBestIndex = vtab_best_index,
            .xDisconnect = vtab_disconnect,
            .xDestroy = vtab_destroy,
            .xOpen = colfam_cursor_open,
            .xClose = colfam_cursor_close,
            .xFilter = colfam_cursor_filter,
            .xNext = colfam_cursor_next,
            .xEof = colfam_cursor_eof,
            .xColumn = colfam_cursor_column,
            .xRowid = colfam_cursor_rowid,
            .xUpdate = colfam_update,
            .xBegin = vtab_begin,
            .xSync = vtab_sync,
            .xCommit = vtab_commit,
            .xRollback = vtab_rollback,
            .xRename = vtab_rename,
            .xSavepoint = vtab_savepoint,
            .xRelease = vtab_release,
            .xRollbackTo = vtab_rollback_to,
            .xShadowName = shadow_name,
#if SQLITE_VERSION_NUMBER >= 3044000
            .xIntegrity = colfam_integrity,
#endif
        },
#if SQLITE_VERSION_NUMBER < 3044000
    .xIntegrity = colfam_integrity,
#endif
};
