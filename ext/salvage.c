/* The module colfam_salvage: a table with the columns of the colfam table that its argument names, and the
** hidden column colfam_doubtful. A scan gives the rows that are certain (engine, kv.h, Damage); with
** `colfam_doubtful = 1` those that may be older than what was there, or had been deleted.
**
** The table lives in temp, where it is gone with the connection: in a file it would ask for the damaged
** table whenever the schema is read. When that table is gone meanwhile, it still connects, so that it can
** be dropped, and every use of it says so. Only committed rows are read; a manifest that is not what its
** seal says is read all the same, its files are doubtful then. Rows that do not decode are left out. Thread
** rule: the connection's. */
#include "salvage.h"

#include <string.h>

#include "catalog.h"
#include "engine/kv.h"
#include "error.h"
#include "newer.h"
#include "row.h"
#include "table.h"
#include "vtab.h"

/* Rows between two questions whether to stop. */
enum { ROWS_A_TURN = 1000 };

struct salvage_vtab {
  sqlite3_vtab base; /* first: SQLite's */
  struct colfam_conn *conn;
  char *table;                  /* as the argument names it */
  struct colfam_schema *schema; /* of the table when this one was made; NULL: it is gone */
};

struct salvage_cursor {
  sqlite3_vtab_cursor base; /* first: SQLite's */
  struct kv_salvage *salvage;
  bool doubtful; /* which rows are wanted */
  bool found;
  struct kv_salvaged row;
  sqlite3_int64 number;
};

/* ---- The table */

static char *declaration(const struct colfam_schema *schema) {
  sqlite3_str *text = sqlite3_str_new(NULL);
  sqlite3_str_appendall(text, "CREATE TABLE x(");
  for (int i = 0; schema && i < schema->column_count; i++)
    sqlite3_str_appendf(text, "\"%w\" %s, ", schema->columns[i].name,
                        schema->columns[i].type ? schema->columns[i].type : "");
  sqlite3_str_appendall(text, "colfam_doubtful INTEGER HIDDEN)");
  return sqlite3_str_finish(text);
}

/* The schema of the table that the argument names. */
static int find_schema(struct salvage_vtab *vtab, char **message) {
  struct colfam_anchor anchor;
  int rc = colfam_anchor_hold(vtab->conn, vtab->table, &anchor, message);
  if (rc != SQLITE_OK) return rc;
  vtab->schema = colfam_schema_ref(anchor.vtab->schema);
  colfam_anchor_end(&anchor);
  return SQLITE_OK;
}

static int declare(sqlite3 *db, const struct salvage_vtab *vtab) {
  char *sql = declaration(vtab->schema);
  if (!sql) return SQLITE_NOMEM;
  int rc = sqlite3_declare_vtab(db, sql);
  sqlite3_free(sql);
  if (rc == SQLITE_OK) rc = sqlite3_vtab_config(db, SQLITE_VTAB_DIRECTONLY);
  return rc;
}

static int salvage_disconnect(sqlite3_vtab *base) {
  struct salvage_vtab *vtab = (struct salvage_vtab *)base;
  colfam_schema_unref(vtab->schema);
  sqlite3_free(vtab->table);
  sqlite3_free(vtab);
  return SQLITE_OK;
}

static int check_arguments(struct colfam_conn *conn, int argc, const char *const *argv,
                           char **message) {
  int rc = colfam_conn_refuse(conn, argv[2], message);
  if (rc != SQLITE_OK) return rc;
  if (argc == 4 && sqlite3_stricmp(argv[1], "temp") == 0) return SQLITE_OK;
  return colfam_error(message, SQLITE_ERROR,
                      "colfam_salvage is used as CREATE VIRTUAL TABLE temp.%s USING "
                      "colfam_salvage(name of the damaged table)",
                      argv[2]);
}

static int make(sqlite3 *db, struct colfam_conn *conn, const char *table, bool created,
                sqlite3_vtab **out, char **message) {
  struct salvage_vtab *vtab = sqlite3_malloc64(sizeof *vtab);
  if (!vtab) return SQLITE_NOMEM;
  memset(vtab, 0, sizeof *vtab);
  vtab->conn = conn;
  vtab->table = sqlite3_mprintf("%s", table);
  int rc = vtab->table ? find_schema(vtab, message) : SQLITE_NOMEM;
  if (rc == SQLITE_ERROR && !created) {
    sqlite3_free(*message);
    *message = NULL;
    rc = SQLITE_OK;
  }
  if (rc == SQLITE_OK) rc = declare(db, vtab);
  if (rc == SQLITE_OK)
    *out = &vtab->base;
  else
    salvage_disconnect(&vtab->base);
  return rc;
}

static int salvage_create(sqlite3 *db, void *conn, int argc, const char *const *argv,
                          sqlite3_vtab **out, char **message) {
  int rc = check_arguments(conn, argc, argv, message);
  return rc == SQLITE_OK ? make(db, conn, argv[3], true, out, message) : rc;
}

static int salvage_connect(sqlite3 *db, void *conn, int argc, const char *const *argv,
                           sqlite3_vtab **out, char **message) {
  int rc = check_arguments(conn, argc, argv, message);
  return rc == SQLITE_OK ? make(db, conn, argv[3], false, out, message) : rc;
}

static int doubt_column(const struct salvage_vtab *vtab) {
  return vtab->schema ? vtab->schema->column_count : 0;
}

static int salvage_best_index(sqlite3_vtab *base, sqlite3_index_info *info) {
  const struct salvage_vtab *vtab = (const struct salvage_vtab *)base;
  info->estimatedCost = 1e9;
  info->estimatedRows = 1000000;
  for (int i = 0; i < info->nConstraint; i++) {
    const struct sqlite3_index_constraint *constraint = &info->aConstraint[i];
    if (constraint->iColumn != doubt_column(vtab) || constraint->op != SQLITE_INDEX_CONSTRAINT_EQ)
      continue;
    if (!constraint->usable) return SQLITE_CONSTRAINT;
    info->aConstraintUsage[i].argvIndex = 1;
    return SQLITE_OK;
  }
  return SQLITE_OK;
}

/* ---- Opening */

/* What the shadow tables say, though they may contradict themselves. */
static int read_state(struct colfam_catalog *catalog, struct colfam_snapshot *snapshot,
                      bool *files_doubtful, char **message) {
  struct colfam_meta meta;
  int rc = colfam_catalog_read_meta(catalog, &meta, message);
  if (rc != SQLITE_OK) return rc;
  rc = colfam_catalog_read_snapshot(catalog, &meta, snapshot, message);
  *files_doubtful = rc == SQLITE_CORRUPT_VTAB && meta.sealed;
  if (!*files_doubtful) return rc;
  meta.sealed = false;
  return colfam_catalog_read_snapshot(catalog, &meta, snapshot, message);
}

static bool is_damage(int rc) {
  int primary = rc & 0xff;
  return rc == SQLITE_OK || primary == SQLITE_CORRUPT ||
         (primary == SQLITE_IOERR && rc != SQLITE_IOERR_NOMEM);
}

static int open_salvage(struct colfam_table *table, struct kv_salvage **salvage, char **message) {
  struct colfam_snapshot snapshot;
  bool files_doubtful;
  int rc = read_state(&table->catalog, &snapshot, &files_doubtful, message);
  if (rc != SQLITE_OK) return rc;
  struct colfam_log_reader reader = {.catalog = &table->catalog,
                                     .last_seq = snapshot.snapshot.log.last_seq};
  struct kv_log_source source = colfam_log_source(&reader);
  struct kv_salvage_input input = {table->family, &snapshot.snapshot, &source, files_doubtful};
  struct kv_err err = {0};
  kv_status status = kv_salvage_open(&input, salvage, &err);
  if (status != KV_OK)
    rc = colfam_error_of(message, table->catalog.label, status, &err);
  else if (!is_damage(reader.rc))
    rc = colfam_error(message, reader.rc, "%s", reader.message ? reader.message : "");
  colfam_log_reader_close(&reader);
  colfam_snapshot_release(&snapshot);
  return rc;
}

/* The table as it is found now must still be the one that this was made for. */
static int open_table(struct salvage_vtab *vtab, struct colfam_vtab *found, char **message) {
  if (!vtab->schema || strcmp(vtab->schema->declaration, found->schema->declaration) != 0)
    return colfam_error(message, SQLITE_ERROR,
                        "table %s has changed since: drop this table and create it again",
                        vtab->table);
  int rc = colfam_vtab_open(found);
  if (rc != SQLITE_OK) {
    *message = found->base.zErrMsg;
    found->base.zErrMsg = NULL;
    return rc;
  }
  if (!found->table->txn) return SQLITE_OK;
  return colfam_error(message, SQLITE_LOCKED,
                      "table %s has been written to in this transaction: commit or roll back first",
                      found->schema->label);
}

static int start(struct salvage_cursor *cursor, char **message) {
  struct salvage_vtab *vtab = (struct salvage_vtab *)cursor->base.pVtab;
  struct colfam_anchor anchor;
  int rc = colfam_anchor_hold(vtab->conn, vtab->table, &anchor, message);
  if (rc != SQLITE_OK) return rc;
  rc = open_table(vtab, anchor.vtab, message);
  if (rc == SQLITE_OK) rc = open_salvage(anchor.vtab->table, &cursor->salvage, message);
  colfam_anchor_end(&anchor);
  return rc;
}

/* ---- The cursor */

static int salvage_open(sqlite3_vtab *base, sqlite3_vtab_cursor **out) {
  (void)base;
  struct salvage_cursor *cursor = sqlite3_malloc64(sizeof *cursor);
  if (!cursor) return SQLITE_NOMEM;
  memset(cursor, 0, sizeof *cursor);
  *out = &cursor->base;
  return SQLITE_OK;
}

static void clear(struct salvage_cursor *cursor) {
  kv_salvage_free(cursor->salvage);
  cursor->salvage = NULL;
  cursor->found = false;
  cursor->number = 0;
}

static int salvage_close(sqlite3_vtab_cursor *base) {
  clear((struct salvage_cursor *)base);
  sqlite3_free(base);
  return SQLITE_OK;
}

static const struct salvage_vtab *vtab_of(const struct salvage_cursor *cursor) {
  return (const struct salvage_vtab *)cursor->base.pVtab;
}

/* Whether it is a row of those that are asked for; SQLITE_NOMEM is not "no". */
static int is_wanted(const struct salvage_cursor *cursor, bool *wanted) {
  const struct kv_salvaged *row = &cursor->row;
  *wanted = false;
  if (row->doubtful != cursor->doubtful) return SQLITE_OK;
  int rc = colfam_row_check(vtab_of(cursor)->schema, row->key, row->value);
  *wanted = rc == SQLITE_OK;
  return rc == SQLITE_NOMEM ? rc : SQLITE_OK;
}

static int salvage_next(sqlite3_vtab_cursor *base) {
  struct salvage_cursor *cursor = (struct salvage_cursor *)base;
  const struct salvage_vtab *vtab = vtab_of(cursor);
  struct kv_err err = {0};
  bool wanted = false;
  do {
    if (++cursor->number % ROWS_A_TURN == 0 && colfam_is_interrupted(vtab->conn->db))
      return SQLITE_INTERRUPT;
    kv_status status = kv_salvage_next(cursor->salvage, &cursor->found, &cursor->row, &err);
    if (status != KV_OK)
      return colfam_error_of(&base->pVtab->zErrMsg, vtab->schema->label, status, &err);
    if (!cursor->found) return SQLITE_OK;
    int rc = is_wanted(cursor, &wanted);
    if (rc != SQLITE_OK) return rc;
  } while (!wanted);
  return SQLITE_OK;
}

static int salvage_filter(sqlite3_vtab_cursor *base, int idx_num, const char *idx_str, int argc,
                          sqlite3_value **argv) {
  (void)idx_num, (void)idx_str;
  struct salvage_cursor *cursor = (struct salvage_cursor *)base;
  clear(cursor);
  if (argc && sqlite3_value_type(argv[0]) == SQLITE_NULL) return SQLITE_OK;
  cursor->doubtful = argc && sqlite3_value_int(argv[0]) != 0;
  char *message = NULL;
  int rc = start(cursor, &message);
  if (rc == SQLITE_OK) {
    sqlite3_free(message); /* of the manifest that was read all the same */
    return salvage_next(base);
  }
  sqlite3_free(base->pVtab->zErrMsg);
  base->pVtab->zErrMsg = message;
  return rc;
}

static int salvage_eof(sqlite3_vtab_cursor *base) {
  return !((const struct salvage_cursor *)base)->found;
}

static int salvage_column(sqlite3_vtab_cursor *base, sqlite3_context *context, int column) {
  const struct salvage_cursor *cursor = (const struct salvage_cursor *)base;
  const struct colfam_schema *schema = vtab_of(cursor)->schema;
  const struct kv_salvaged *row = &cursor->row;
  if (column < schema->column_count)
    return colfam_row_result(schema, row->key, row->value, column, NULL, context);
  sqlite3_result_int(context, row->doubtful);
  return SQLITE_OK;
}

/* The table's own rowid, where it has one. */
static int salvage_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *rowid) {
  const struct salvage_cursor *cursor = (const struct salvage_cursor *)base;
  *rowid = cursor->number;
  if (vtab_of(cursor)->schema->key_form == COLFAM_KEY_ROWID)
    return colfam_rowid_of_key(vtab_of(cursor)->schema, cursor->row.key, rowid);
  return SQLITE_OK;
}

static const sqlite3_module salvage_module = {
    .iVersion = 0,
    .xCreate = salvage_create,
    .xConnect = salvage_connect,
    .xBestIndex = salvage_best_index,
    .xDisconnect = salvage_disconnect,
    .xDestroy = salvage_disconnect,
    .xOpen = salvage_open,
    .xClose = salvage_close,
    .xFilter = salvage_filter,
    .xNext = salvage_next,
    .xEof = salvage_eof,
    .xColumn = salvage_column,
    .xRowid = salvage_rowid,
};

int colfam_salvage_register(struct colfam_conn *conn) {
  return sqlite3_create_module_v2(conn->db, "colfam_salvage", &salvage_module,
                                  colfam_conn_ref(conn), colfam_conn_unref);
}
