/* See table.h. A colfam_table is made when a vtab object is first used, and stays with the connection
** until it closes or the table is dropped (by others: until the next table is opened): DDL disconnects
** and reconnects vtab objects at any time, and neither memtables nor a pending transaction may suffer
** from that. Without vtab objects it holds no statement and no view, so that it keeps neither locks nor
** files. */
#include "table.h"

#include <string.h>

#include "drop.h"
#include "error.h"
#include "orders.h"
#include "reclaim.h"
#include "txn.h"

int colfam_table_data_version(struct colfam_table *table, unsigned *version) {
  const char *database = table->is_main ? NULL : table->catalog.database; /* NULL: not looked for */
  *version = 0;
  return sqlite3_file_control(table->conn->db, database, SQLITE_FCNTL_DATA_VERSION, version);
}

int colfam_table_pragma(struct colfam_table *table, const char *name, char *text, size_t size,
                        char **message) {
  sqlite3 *db = table->conn->db;
  char *sql = sqlite3_mprintf("PRAGMA \"%w\".%s", table->catalog.database, name);
  if (!sql) return SQLITE_NOMEM;
  sqlite3_stmt *statement;
  int rc = sqlite3_prepare_v2(db, sql, -1, &statement, NULL);
  sqlite3_free(sql);
  text[0] = 0;
  if (rc == SQLITE_OK && sqlite3_step(statement) == SQLITE_ROW)
    sqlite3_snprintf((int)size, text, "%s", (const char *)sqlite3_column_text(statement, 0));
  if (rc == SQLITE_OK) rc = sqlite3_finalize(statement);
  if (rc == SQLITE_OK || rc == SQLITE_AUTH) return SQLITE_OK;
  return colfam_error(message, rc, "%s", sqlite3_errmsg(db));
}

void colfam_table_forget_view(struct colfam_table *table) {
  colfam_cached_set(&table->cached, NULL);
}

void colfam_table_set_view(struct colfam_table *table, struct kv_view *view,
                           unsigned data_version) {
  colfam_cached_set(&table->cached, view);
  table->data_version = data_version;
  table->known.changes = sqlite3_total_changes(table->conn->db);
}

struct kv_batch *colfam_table_batch(struct colfam_table *table) {
  return table->txn ? table->txn->batch : NULL;
}

/* How the engine makes a view of a snapshot: of all that is in it, or by following the base, the tail at
** hand. */
static int make_view(struct colfam_table *table, const struct kv_view *base,
                     const struct colfam_tail *tail, const struct kv_snapshot *snapshot,
                     struct kv_view **view, char **message) {
  struct colfam_log_reader reader = {
      .catalog = &table->catalog, .last_seq = snapshot->log.last_seq, .tail = tail};
  struct kv_log_source source = colfam_log_source(&reader);
  struct kv_err err = {0};
  int rc = SQLITE_OK;
  kv_status status = base ? kv_view_follow(base, snapshot, &source, view, &err)
                          : kv_view_new(table->family, snapshot, &source, view, &err);
  if (status != KV_OK) {
    rc = colfam_error_of(message, table->catalog.label, status, &err);
    if (reader.rc != SQLITE_OK) rc = reader.rc;
  }
  colfam_log_reader_close(&reader);
  return rc;
}

static int build_view(struct colfam_table *table, const struct colfam_meta *meta,
                      struct kv_view **view, char **message) {
  struct colfam_snapshot snapshot;
  int rc = colfam_catalog_read_snapshot(&table->catalog, meta, &snapshot, message);
  if (rc != SQLITE_OK) return rc;
  rc = make_view(table, NULL, NULL, &snapshot.snapshot, view, message);
  colfam_snapshot_release(&snapshot);
  return rc;
}

static int take_meta(struct colfam_table *table, struct colfam_meta *meta, char **message) {
  int rc = colfam_catalog_read_meta(&table->catalog, meta, message);
  if (rc != SQLITE_OK) return rc;
  if (memcmp(meta->uuid, table->catalog.uuid, sizeof meta->uuid) != 0)
    return colfam_error(message, SQLITE_CORRUPT_VTAB, "table %s: its uuid in %s_cfmeta has changed",
                        table->catalog.label, table->catalog.table);
  table->options = meta->options;
  table->options_stale = false;
  table->meta_old = false;
  table->writable = meta->writable;
  kv_family_set_options(table->family, &meta->options.kv);
  return SQLITE_OK;
}

int colfam_table_read_meta(struct colfam_table *table, char **message) {
  struct colfam_meta meta;
  return table->meta_old ? take_meta(table, &meta, message) : SQLITE_OK;
}

static int refresh(struct colfam_table *table, unsigned version, struct kv_view **out,
                   char **message) {
  struct colfam_meta meta;
  struct kv_view *view = NULL;
  int rc = take_meta(table, &meta, message);
  if (rc == SQLITE_OK) rc = build_view(table, &meta, &view, message);
  if (rc != SQLITE_OK) return rc;
  table->dead_rows = true;
  *out = kv_view_ref(view);
  colfam_table_set_view(table, view, version);
  table->known.sealed = meta.sealed;
  table->known.seal = meta.seal;
  table->known.flushed = meta.flushed;
  return SQLITE_OK;
}

/* What a snapshot has that differs from the base in its log only, which ends with the tail. */
static struct kv_snapshot snapshot_of(const struct colfam_known *known,
                                      const struct colfam_tail *tail) {
  const struct colfam_flushed *flushed = &known->flushed;
  const struct kv_log_row *last = &tail->rows[tail->count - 1];
  struct kv_snapshot snapshot = {
      .log = {flushed->seq, flushed->nonce, flushed->seq, flushed->nonce}, .rows = flushed->rows};
  if ((int64_t)last->seq <= (int64_t)flushed->seq) return snapshot;
  snapshot.log.last_seq = last->seq;
  snapshot.log.last_nonce = last->nonce;
  snapshot.rows = last->rows < -1 ? -1 : last->rows;
  return snapshot;
}

static int follow_base(struct colfam_table *table, const struct kv_view *base,
                       struct kv_view **view, char **message) {
  struct colfam_tail tail;
  int rc = colfam_catalog_read_tail(&table->catalog, kv_view_log(base)->last_seq, table->known.seal,
                                    &tail, message);
  if (rc == SQLITE_OK && tail.whole) {
    struct kv_snapshot snapshot = snapshot_of(&table->known, &tail);
    rc = make_view(table, base, &tail, &snapshot, view, message);
  }
  colfam_tail_release(&tail);
  return rc;
}

/* The view after a few commits of others that left the manifest as it is: only their log rows are read.
** Leaves *out NULL when that cannot be told. */
static int follow(struct colfam_table *table, unsigned version, struct kv_view **out,
                  char **message) {
  const struct colfam_known *known = &table->known;
  if (!known->sealed || table->options_stale) return SQLITE_OK;
  if (known->changes != sqlite3_total_changes(table->conn->db)) return SQLITE_OK;
  struct kv_view *base = colfam_cached_view(&table->cached), *view = NULL;
  if (!base) return SQLITE_OK;
  int rc = follow_base(table, base, &view, message);
  kv_view_unref(base);
  if (!view) return rc;
  table->meta_old = true;
  *out = kv_view_ref(view);
  colfam_table_set_view(table, view, version);
  return SQLITE_OK;
}

/* The view of the snapshot, outside a write transaction; `cached` asks for the cached one. */
static int view_of_snapshot(struct colfam_table *table,
                            struct kv_view *(*cached)(struct colfam_cached_view *cached),
                            struct kv_view **view, char **message) {
  unsigned version;
  *view = NULL;
  int rc = colfam_table_data_version(table, &version);
  if (rc != SQLITE_OK) return colfam_error(message, rc, "cannot ask for the data version");
  bool shared = colfam_store_shares_cache(table->store);
  bool current = table->data_version == version && !table->options_stale && !shared;
  if (current) *view = cached(&table->cached);
  if (!*view && !shared) rc = follow(table, version, view, message);
  return rc != SQLITE_OK || *view ? rc : refresh(table, version, view, message);
}

int colfam_table_view(struct colfam_table *table, struct kv_view **view, char **message) {
  if (!table->txn) return view_of_snapshot(table, colfam_cached_view, view, message);
  *view = kv_view_ref(table->txn->view);
  return SQLITE_OK;
}

int colfam_table_borrow_view(struct colfam_table *table, struct kv_view **view, char **message) {
  if (!table->txn) return view_of_snapshot(table, colfam_cached_take, view, message);
  *view = table->txn->view;
  return SQLITE_OK;
}

void colfam_table_give_back(struct colfam_table *table, struct kv_view *view) {
  if (!table->txn) colfam_cached_give(&table->cached, view);
}

int colfam_table_settle_options(struct colfam_table *table, char **message) {
  if (!table->options_stale) return SQLITE_OK;
  struct colfam_meta meta;
  int rc = colfam_catalog_read_meta(&table->catalog, &meta, message);
  if (rc != SQLITE_OK) return rc;
  table->options = meta.options;
  table->options_stale = false;
  return SQLITE_OK;
}

/* ---- Opening and leaving */

static int refuse_encoding(sqlite3 *db, const char *label, char **message) {
  sqlite3_stmt *statement;
  bool told = false, utf8 = false;
  int rc = sqlite3_prepare_v2(db, "PRAGMA encoding", -1, &statement, NULL);
  if (rc == SQLITE_OK && sqlite3_step(statement) == SQLITE_ROW) {
    told = true;
    utf8 = sqlite3_stricmp((const char *)sqlite3_column_text(statement, 0), "UTF-8") == 0;
  }
  if (rc == SQLITE_OK) rc = sqlite3_finalize(statement);
  if (rc != SQLITE_OK) return colfam_error(message, rc, "%s", sqlite3_errmsg(db));
  if (utf8) return SQLITE_OK;
  if (!told)
    return colfam_error(message, SQLITE_AUTH,
                        "not authorized: the application's authorizer ignores PRAGMA encoding");
  return colfam_error(
      message, SQLITE_ERROR,
      "table %s: colfam tables in UTF-16 databases are not supported in this version: use "
      "PRAGMA encoding = 'UTF-8' before the first table is created",
      label);
}

int colfam_table_refuse_place(sqlite3 *db, const char *database, const char *label,
                              char **message) {
  int rc = refuse_encoding(db, label, message);
  if (rc != SQLITE_OK) return rc;
  rc = colfam_store_refuse(db, database, message);
  return rc == SQLITE_ERROR ? colfam_error(message, rc, "table %s: %s", label, *message) : rc;
}

static struct colfam_table *find_table(struct colfam_conn *conn, const char *database,
                                       const uint8_t uuid[16]) {
  for (struct colfam_table *table = conn->tables; table; table = table->next)
    if (memcmp(table->catalog.uuid, uuid, 16) == 0 &&
        strcmp(table->catalog.database, database) == 0 &&
        colfam_store_is_of(table->store, conn->db, database))
      return table;
  return NULL;
}

/* Whether a table without objects is there no more: its database was detached, or other connections have
** dropped it. Only databases that are in use already are read: another one may be locked. */
static bool is_dropped(struct colfam_table *table, const char *database) {
  if (!colfam_store_is_of(table->store, table->conn->db, table->catalog.database)) return true;
  if (strcmp(table->catalog.database, database) != 0) return false;
  bool found = true;
  char *message = NULL;
  int rc = colfam_catalog_find(&table->catalog, &found, &message);
  sqlite3_free(message);
  colfam_catalog_close(&table->catalog);
  return rc == SQLITE_OK && !found;
}

/* Frees tables that nobody opens again, as far as that can be told while one of `database` is opened. */
static void free_dropped(struct colfam_conn *conn, const char *database) {
  for (struct colfam_table *table = conn->tables, *next; table; table = next) {
    next = table->next;
    if (table->vtab_count || table->txn || colfam_drops_has(conn, table)) continue;
    if (is_dropped(table, database)) colfam_table_free(table);
  }
}

/* Makes the table of a catalog, which it takes over on success. */
static int new_table(struct colfam_conn *conn, struct colfam_catalog *catalog,
                     const struct colfam_options *options, const struct kv_comparator *comparator,
                     struct colfam_table **out, char **message) {
  struct colfam_table *table = sqlite3_malloc64(sizeof *table);
  if (!table) return SQLITE_NOMEM;
  memset(table, 0, sizeof *table);
  int rc = colfam_store_open(conn->db, catalog->database, &table->store, &table->file);
  if (rc == SQLITE_OK)
    rc = colfam_store_family(table->store, catalog->uuid, &options->kv, comparator, &table->family,
                             message);
  if (rc != SQLITE_OK) {
    colfam_store_close(table->store, conn->db, table->file);
    sqlite3_free(table);
    return rc;
  }
  table->conn = conn;
  table->catalog = *catalog;
  table->is_main = strcmp(catalog->database, "main") == 0;
  table->options = *options;
  table->next = conn->tables;
  conn->tables = table;
  colfam_store_link_cached(table->store, &table->cached);
  *out = table;
  return SQLITE_OK;
}

int colfam_table_follow_name(struct colfam_table *table, const struct colfam_vtab *vtab) {
  if (strcmp(table->catalog.table, vtab->schema->table) == 0) return SQLITE_OK;
  return colfam_catalog_set_name(&table->catalog, vtab->schema->table);
}

/* Whether the shadow tables of the name that the table is known by have its uuid. */
static int keeps_name(const struct colfam_table *table, bool *keeps, char **message) {
  const struct colfam_catalog *known = &table->catalog;
  struct colfam_catalog found;
  bool is_there = false;
  int rc = colfam_catalog_init(&found, known->db, known->database, known->table);
  if (rc != SQLITE_OK) return rc;
  memcpy(found.uuid, known->uuid, sizeof found.uuid);
  rc = colfam_catalog_find(&found, &is_there, message);
  *keeps = is_there && strcmp(found.table, known->table) == 0;
  colfam_catalog_release(&found);
  return rc;
}

/* A known table that is met under another name has been renamed, unless shadow tables of both names have its
** uuid: then somebody has copied it. */
static int meet_again(struct colfam_table *table, const struct colfam_vtab *vtab, char **message) {
  bool copied = false;
  int rc = SQLITE_OK;
  if (sqlite3_stricmp(table->catalog.table, vtab->schema->table) != 0)
    rc = keeps_name(table, &copied, message);
  if (rc != SQLITE_OK) return rc;
  if (!copied) return colfam_table_follow_name(table, vtab);
  return colfam_error(message, SQLITE_CORRUPT_VTAB, "table %s: its uuid is that of table %s",
                      vtab->schema->table, table->catalog.table);
}

/* What CREATE said, which the schema has kept, and what the shadow tables say. */
static int check_order(const struct colfam_vtab *vtab, const struct colfam_meta *meta,
                       char **message) {
  const char *declared = vtab->schema->options.comparator, *found = meta->options.comparator;
  if (strcmp(declared, found) == 0) return SQLITE_OK;
  return colfam_error(message, SQLITE_CORRUPT_VTAB,
                      "table %s: it was created with comparator %s, %s_cfmeta says %s",
                      vtab->schema->label, declared, vtab->schema->table, found);
}

static int make_table(struct colfam_vtab *vtab, struct colfam_catalog *catalog,
                      const struct colfam_meta *meta, struct colfam_table **table, char **message) {
  struct kv_comparator *comparator;
  free_dropped(vtab->conn, vtab->database);
  int rc = colfam_schema_comparator(vtab->schema, &comparator);
  if (rc != SQLITE_OK) return rc;
  rc = new_table(vtab->conn, catalog, &meta->options, comparator, table, message);
  kv_comparator_unref(comparator);
  if (rc == SQLITE_OK || !*message) return rc;
  return colfam_error(message, rc, "table %s: %s", catalog->label, *message);
}

/* Finds the table by the uuid in its shadow tables, or makes it. */
static int find_or_make(struct colfam_vtab *vtab, struct colfam_table **table, char **message) {
  struct colfam_catalog catalog;
  int rc = colfam_catalog_init(&catalog, vtab->conn->db, vtab->database, vtab->schema->table);
  if (rc != SQLITE_OK) return rc;
  struct colfam_meta meta;
  rc = colfam_catalog_read_meta(&catalog, &meta, message);
  if (rc == SQLITE_OK) rc = check_order(vtab, &meta, message);
  if (rc == SQLITE_OK) {
    memcpy(catalog.uuid, meta.uuid, sizeof meta.uuid);
    struct colfam_table *known = find_table(vtab->conn, vtab->database, meta.uuid);
    if (!known) {
      rc = make_table(vtab, &catalog, &meta, table, message);
      if (rc == SQLITE_OK) return rc;
    } else {
      rc = meet_again(known, vtab, message);
      if (rc == SQLITE_OK) *table = known;
    }
  }
  colfam_catalog_release(&catalog);
  return rc;
}

/* A comparator is for those who have the schema: without it, the table is left to them. */
static bool compares_bytes(const struct colfam_options *options) {
  if (colfam_options_are_native(options)) return true;
  struct kv_custom *custom = colfam_order_find(options->comparator);
  bool encodes = custom && kv_custom_encoder(custom);
  kv_custom_unref(custom);
  return encodes;
}

/* Gives a known table the name found, or makes it; takes the catalog over when it needs it. */
static int settle_found(struct colfam_conn *conn, struct colfam_catalog *found,
                        struct colfam_table **table, char **message) {
  *table = find_table(conn, found->database, found->uuid);
  if (*table) {
    if (strcmp((*table)->catalog.table, found->table) == 0) return SQLITE_OK;
    return colfam_catalog_set_name(&(*table)->catalog, found->table);
  }
  struct colfam_meta meta;
  int rc = colfam_catalog_read_meta(found, &meta, message);
  if (rc != SQLITE_OK || !compares_bytes(&meta.options)) return rc;
  rc = new_table(conn, found, &meta.options, NULL, table, message);
  if (rc == SQLITE_OK) memset(found, 0, sizeof *found);
  return rc;
}

int colfam_table_by_uuid(struct colfam_conn *conn, const char *database, const uint8_t uuid[16],
                         struct colfam_table **table, char **message) {
  struct colfam_catalog catalog;
  bool found = false;
  *table = NULL;
  const struct colfam_table *known = find_table(conn, database, uuid);
  int rc = colfam_catalog_init(&catalog, conn->db, database, known ? known->catalog.table : "");
  if (rc != SQLITE_OK) return rc;
  memcpy(catalog.uuid, uuid, sizeof catalog.uuid);
  rc = colfam_catalog_find(&catalog, &found, message);
  if (rc == SQLITE_OK && found) rc = settle_found(conn, &catalog, table, message);
  colfam_catalog_release(&catalog);
  return rc;
}

int colfam_table_open(struct colfam_vtab *vtab, struct colfam_table **table, char **message) {
  int rc = colfam_table_refuse_place(vtab->conn->db, vtab->database, vtab->schema->label, message);
  if (rc == SQLITE_OK) rc = colfam_schema_find_order(vtab->schema, message);
  if (rc == SQLITE_OK) rc = find_or_make(vtab, table, message);
  if (rc == SQLITE_OK) (*table)->vtab_count++;
  return rc;
}

void colfam_table_leave(struct colfam_vtab *vtab) {
  struct colfam_table *table = vtab->table;
  vtab->table = NULL;
  if (table && --table->vtab_count == 0) colfam_table_rest(table);
}

void colfam_table_rest(struct colfam_table *table) {
  colfam_catalog_close(&table->catalog);
  if (colfam_conn_is_inherited(table->conn)) return;
  colfam_table_forget_view(table);
  colfam_reclaim_retry(table->store);
}

void colfam_table_free(struct colfam_table *table) {
  if (table->vtab_count || table->txn) return;
  struct colfam_table **link = &table->conn->tables;
  while (*link != table) link = &(*link)->next;
  *link = table->next;
  colfam_store_unlink_cached(table->store, &table->cached);
  colfam_store_drop_family(table->store, table->family);
  if (!colfam_conn_is_inherited(table->conn) && colfam_store_settle(table->store))
    colfam_reclaim_retry(table->store);
  colfam_store_close(table->store, table->conn->db, table->file);
  colfam_catalog_release(&table->catalog);
  sqlite3_free(table);
}
