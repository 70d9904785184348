/* See drop.h. Whether a DROP stands is asked from the shadow tables in xSync, never remembered: they have
** gone through every savepoint that the transaction had. */
#include "drop.h"

#include <string.h>

#include "error.h"
#include "jobs.h"
#include "reclaim.h"
#include "txn.h"

struct colfam_drop {
  struct colfam_drop *next;
  struct colfam_table *table;
  uint64_t *ids; /* of its files */
  size_t count;
  bool gone; /* as xSync found it */
};

struct drops_vtab {
  sqlite3_vtab base;
  struct colfam_conn *conn;
};

static void free_drop(struct colfam_drop *drop) {
  sqlite3_free(drop->ids);
  sqlite3_free(drop);
}

static struct colfam_drop *take_drop(struct colfam_conn *conn) {
  struct colfam_drop *drop = conn->drops;
  conn->drops = drop->next;
  return drop;
}

/* The files to remove when the DROP commits: the committed ones. A job of this transaction that a failed
** COMMIT has published in the meantime removes its own. */
static void note_files(struct colfam_drop *drop) {
  const struct colfam_txn *txn = drop->table->txn;
  if (!txn) {
    colfam_catalog_file_ids(&drop->table->catalog, &drop->ids, &drop->count);
    return;
  }
  size_t count = kv_view_file_count(txn->base);
  drop->ids = count ? sqlite3_malloc64(count * sizeof *drop->ids) : NULL;
  for (; drop->ids && drop->count < count; drop->count++)
    drop->ids[drop->count] = kv_view_file(txn->base, drop->count)->id;
}

/* Where a DROP joins the transaction. The eponymous table belongs to main, so that writing to it takes
** main's write lock: right for a table of main, which has it. Others join by a table in temp, whose lock
** nobody else can have. */
struct door {
  const char *schema;
  bool there; /* our table is; in main it always is */
  bool taken; /* by something of the application's */
};

#define TEMP_TABLE "CREATE VIRTUAL TABLE colfam_drops USING colfam_drops"

static int find_door(sqlite3 *db, const struct colfam_table *table, struct door *door) {
  bool in_temp = sqlite3_stricmp(table->catalog.database, "main") != 0;
  *door = (struct door){in_temp ? "temp" : "main", !in_temp, false};
  char *sql = sqlite3_mprintf("SELECT sql FROM %s.sqlite_master WHERE type IN ('table', 'view')"
                              " AND name = 'colfam_drops' COLLATE NOCASE",
                              door->schema);
  if (!sql) return SQLITE_NOMEM;
  sqlite3_stmt *found;
  int rc = sqlite3_prepare_v2(db, sql, -1, &found, NULL);
  sqlite3_free(sql);
  if (rc != SQLITE_OK) return rc;
  if (sqlite3_step(found) == SQLITE_ROW) {
    const char *text = (const char *)sqlite3_column_text(found, 0);
    door->there = in_temp && text && strcmp(text, TEMP_TABLE) == 0;
    door->taken = !door->there;
  }
  return sqlite3_finalize(found);
}

/* Two rows make SQLite open a savepoint for the statement, which it tells a table that CREATE has joined to
** the transaction. Before that, it would not tell it of a ROLLBACK TO an older one. */
static int join(sqlite3 *db, const struct door *door) {
  int rc = SQLITE_OK;
  if (!door->there)
    rc = sqlite3_exec(db, "CREATE VIRTUAL TABLE temp.colfam_drops USING colfam_drops", NULL, NULL,
                      NULL);
  char *sql = sqlite3_mprintf("INSERT INTO %s.colfam_drops(dropped) VALUES(1), (2)", door->schema);
  if (!sql) return SQLITE_NOMEM;
  if (rc == SQLITE_OK) rc = sqlite3_exec(db, sql, NULL, NULL, NULL);
  sqlite3_free(sql);
  return rc;
}

/* Without callbacks a DROP leaves its files behind, and can only be had while no writes are pending: nobody
** would commit or forget them if the DROP is undone. SQLite shows no text of a failing xDestroy, but its
** log does. */
static int drop_without_callbacks(struct colfam_table *table, const struct door *door,
                                  char **message) {
  if (!table->txn) return SQLITE_OK;
  int rc = colfam_error(message, SQLITE_LOCKED,
                        "table %s: cannot be dropped in the transaction that wrote to it while "
                        "something is named %s.colfam_drops: rename that, or commit first",
                        table->catalog.label, door->schema);
  if (*message) sqlite3_log(rc, "%s", *message);
  return rc;
}

/* An authorizer may have the INSERT ignored. */
static int join_transaction(struct colfam_conn *conn, const struct door *door, char **message) {
  if (conn->drops_joined) return SQLITE_OK;
  int rc = join(conn->db, door);
  if (rc != SQLITE_OK) return colfam_error(message, rc, "%s", sqlite3_errmsg(conn->db));
  if (conn->drops_joined) return SQLITE_OK;
  return colfam_error(
      message, SQLITE_AUTH,
      "not authorized: the application's authorizer ignores writes to colfam_drops");
}

int colfam_drops_add(struct colfam_table *table, char **message) {
  struct colfam_conn *conn = table->conn;
  struct door door;
  int rc = find_door(conn->db, table, &door);
  if (rc != SQLITE_OK) return colfam_error(message, rc, "%s", sqlite3_errmsg(conn->db));
  if (door.taken) return drop_without_callbacks(table, &door, message);
  struct colfam_drop *drop = sqlite3_malloc64(sizeof *drop);
  if (!drop) return SQLITE_NOMEM;
  *drop = (struct colfam_drop){NULL, table, NULL, 0, false};
  note_files(drop);
  rc = join_transaction(conn, &door, message);
  if (rc != SQLITE_OK) {
    free_drop(drop);
    return rc;
  }
  drop->next = conn->drops;
  conn->drops = drop;
  if (table->txn) table->txn->dropped = true;
  return SQLITE_OK;
}

bool colfam_drops_has(const struct colfam_conn *conn, const struct colfam_table *table) {
  for (const struct colfam_drop *drop = conn->drops; drop; drop = drop->next)
    if (drop->table == table) return true;
  return false;
}

/* ---- The virtual table: nobody reads it, its transaction callbacks are the point */

/* Also xCreate. SQLite takes a module for eponymous when both are one function. */
static int drops_connect(sqlite3 *db, void *context, int argc, const char *const *argv,
                         sqlite3_vtab **out, char **message) {
  if (argc > 2 && strcmp(argv[2], "colfam_drops") != 0)
    return colfam_error(message, SQLITE_ERROR, "colfam_drops is no module for tables");
  int rc = sqlite3_declare_vtab(db, "CREATE TABLE x(dropped)");
  if (rc != SQLITE_OK) return rc;
  struct drops_vtab *vtab = sqlite3_malloc64(sizeof *vtab);
  if (!vtab) return SQLITE_NOMEM;
  memset(vtab, 0, sizeof *vtab);
  vtab->conn = context;
  *out = &vtab->base;
  return SQLITE_OK;
}

static int drops_disconnect(sqlite3_vtab *vtab) {
  sqlite3_free(vtab);
  return SQLITE_OK;
}

/* Not while it has something to carry. */
static int drops_destroy(sqlite3_vtab *vtab) {
  if (((struct drops_vtab *)vtab)->conn->drops) return SQLITE_LOCKED;
  return drops_disconnect(vtab);
}

static int drops_best_index(sqlite3_vtab *vtab, sqlite3_index_info *info) {
  (void)vtab, (void)info;
  return SQLITE_OK;
}

static int drops_open(sqlite3_vtab *vtab, sqlite3_vtab_cursor **cursor) {
  (void)vtab;
  *cursor = sqlite3_malloc64(sizeof **cursor);
  return *cursor ? SQLITE_OK : SQLITE_NOMEM;
}

static int drops_close(sqlite3_vtab_cursor *cursor) {
  sqlite3_free(cursor);
  return SQLITE_OK;
}

static int drops_filter(sqlite3_vtab_cursor *cursor, int idx_num, const char *idx_str, int argc,
                        sqlite3_value **argv) {
  (void)cursor, (void)idx_num, (void)idx_str, (void)argc, (void)argv;
  return SQLITE_OK;
}

static int drops_eof(sqlite3_vtab_cursor *cursor) {
  (void)cursor;
  return 1;
}

/* Writing to it joins the transaction and changes nothing. */
static int drops_update(sqlite3_vtab *vtab, int argc, sqlite3_value **argv, sqlite3_int64 *rowid) {
  (void)argc, (void)argv;
  struct colfam_conn *conn = ((struct drops_vtab *)vtab)->conn;
  conn->drops_joined = true;
  *rowid = sqlite3_last_insert_rowid(conn->db);
  return SQLITE_OK;
}

static int drops_begin(sqlite3_vtab *vtab) {
  (void)vtab;
  return SQLITE_OK;
}

/* The tables whose own vtab object has left the transaction with their writes pending. */
static struct colfam_txn *next_orphan(struct colfam_table **table) {
  while (*table) {
    struct colfam_txn *txn = (*table)->txn;
    *table = (*table)->next;
    if (txn && txn->dropped) return txn;
  }
  return NULL;
}

/* No object of such a table is left to let go of the statements used here: closing the connection would
** fail. */
static void close_catalogs(struct colfam_conn *conn) {
  for (struct colfam_table *table = conn->tables; table; table = table->next)
    if (table->vtab_count == 0) colfam_catalog_close(&table->catalog);
}

static int drops_sync(sqlite3_vtab *vtab) {
  struct colfam_conn *conn = ((struct drops_vtab *)vtab)->conn;
  int rc = SQLITE_OK;
  for (struct colfam_drop *drop = conn->drops; rc == SQLITE_OK && drop; drop = drop->next) {
    bool found = false;
    rc = colfam_catalog_find(&drop->table->catalog, &found, &vtab->zErrMsg);
    drop->gone = !found;
    if (rc == SQLITE_OK && drop->gone)
      rc = colfam_reclaim_note_journal(drop->table, &vtab->zErrMsg);
  }
  struct colfam_table *table = conn->tables;
  struct colfam_txn *txn;
  while (rc == SQLITE_OK && (txn = next_orphan(&table))) rc = colfam_txn_sync(txn, &vtab->zErrMsg);
  close_catalogs(conn);
  return rc;
}

static bool is_gone(struct colfam_conn *conn, const struct colfam_table *table) {
  for (struct colfam_drop *drop = conn->drops; drop; drop = drop->next)
    if (drop->table == table && drop->gone) return true;
  return false;
}

static int drops_commit(sqlite3_vtab *vtab) {
  struct colfam_conn *conn = ((struct drops_vtab *)vtab)->conn;
  struct colfam_table *table = conn->tables;
  struct colfam_txn *txn;
  while ((txn = next_orphan(&table))) colfam_txn_commit(txn);
  conn->drops_joined = false;
  while (conn->drops) {
    struct colfam_drop *drop = take_drop(conn);
    table = drop->gone ? drop->table : NULL;
    if (table) {
      colfam_table_forget_view(table);
      colfam_jobs_discard(table->store, table->catalog.uuid);
      colfam_reclaim_add(table->store, table->family, drop->ids, drop->count);
      colfam_reclaim_run(table);
    }
    free_drop(drop);
    if (table && !is_gone(conn, table)) colfam_table_free(table);
  }
  return SQLITE_OK;
}

static int drops_rollback(sqlite3_vtab *vtab) {
  struct colfam_conn *conn = ((struct drops_vtab *)vtab)->conn;
  struct colfam_table *table = conn->tables;
  struct colfam_txn *txn;
  while ((txn = next_orphan(&table))) colfam_txn_rollback(txn);
  conn->drops_joined = false;
  while (conn->drops) free_drop(take_drop(conn));
  return SQLITE_OK;
}

static int drops_savepoint(sqlite3_vtab *vtab, int index) {
  struct colfam_table *table = ((struct drops_vtab *)vtab)->conn->tables;
  struct colfam_txn *txn;
  while ((txn = next_orphan(&table))) colfam_txn_savepoint(txn, index);
  return SQLITE_OK;
}

static int drops_release(sqlite3_vtab *vtab, int index) {
  struct colfam_table *table = ((struct drops_vtab *)vtab)->conn->tables;
  struct colfam_txn *txn;
  while ((txn = next_orphan(&table))) colfam_txn_release(txn, index);
  return SQLITE_OK;
}

static int drops_rollback_to(sqlite3_vtab *vtab, int index) {
  struct colfam_table *table = ((struct drops_vtab *)vtab)->conn->tables;
  struct colfam_txn *txn;
  while ((txn = next_orphan(&table))) colfam_txn_rollback_to(txn, index);
  return SQLITE_OK;
}

/* It has no rows: nothing is asked of one. */
static const sqlite3_module drops_module = {
    .iVersion = 2,
    .xCreate = drops_connect,
    .xConnect = drops_connect,
    .xBestIndex = drops_best_index,
    .xDisconnect = drops_disconnect,
    .xDestroy = drops_destroy,
    .xOpen = drops_open,
    .xClose = drops_close,
    .xFilter = drops_filter,
    .xEof = drops_eof,
    .xUpdate = drops_update,
    .xBegin = drops_begin,
    .xSync = drops_sync,
    .xCommit = drops_commit,
    .xRollback = drops_rollback,
    .xSavepoint = drops_savepoint,
    .xRelease = drops_release,
    .xRollbackTo = drops_rollback_to,
};

int colfam_drops_register(struct colfam_conn *conn) {
  return sqlite3_create_module_v2(conn->db, "colfam_drops", &drops_module, colfam_conn_ref(conn),
                                  colfam_conn_unref);
}
