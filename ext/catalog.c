/* The shadow tables, read with suspicion and written in absolute terms.
**
** Every statement names its table with the schema, so that a temp table of the same name is never meant.
** Reading steps a cached statement to its end or resets it: a statement left open would keep locks and make
** VACUUM impossible.
**
** What the application's authorizer makes SQLite ignore (SQLITE_IGNORE) looks like success: a SELECT without
** columns, a column that is NULL, a write that writes nothing. All of it is SQLITE_AUTH here. */
#include "catalog.h"

#include <string.h>

#include "catalog_inside.h"
#include "error.h"

/* Format of the shadow tables and of everything they name; FORMAT.md, Versions. Whoever writes must keep the
** seal (manifest.h), which came with 2; readers of 1 pass over it. Where there are value files, both must
** know these, which came with 3. */
#define FORMAT_VERSION 3
#define VALUES_VERSION 3
#define LOWEST_READER 1
#define LOWEST_WRITER 2

static const char *const sql_texts[COLFAM_SQL_COUNT] = {
    [COLFAM_SQL_PROBE] = "SELECT 1 FROM \"%w\".\"%w_cfmeta\" LIMIT 0",
    [COLFAM_SQL_META] = "SELECT name, value FROM \"%w\".\"%w_cfmeta\"",
    [COLFAM_SQL_FILES] =
        "SELECT id, level, seq, smallest, largest, bytes, entries, tombstones, checksum"
        " FROM \"%w\".\"%w_cffile\"",
    [COLFAM_SQL_LAST] =
        "SELECT seq, nonce, rows FROM \"%w\".\"%w_cflog\" ORDER BY seq DESC LIMIT 1",
    [COLFAM_SQL_OLDEST] = "SELECT seq, length(batch) FROM \"%w\".\"%w_cflog\" ORDER BY seq LIMIT 1",
    [COLFAM_SQL_ROWS] = "SELECT seq, nonce, gen, rows, batch FROM \"%w\".\"%w_cflog\""
                        " WHERE seq BETWEEN ?1 AND ?2 ORDER BY seq",
    [COLFAM_SQL_TAIL] = "SELECT seq, nonce, gen, rows, batch, (SELECT value FROM"
                        " \"%w\".\"%w_cfmeta\" WHERE name = 'seal') FROM \"%w\".\"%w_cflog\""
                        " WHERE seq >= ?1 ORDER BY seq LIMIT ?2",
    [COLFAM_SQL_LOG_PUT] =
        "INSERT OR REPLACE INTO \"%w\".\"%w_cflog\"(seq, nonce, gen, rows, batch)"
        " VALUES(?1, ?2, ?3, ?4, ?5)",
    [COLFAM_SQL_LOG_DELETE] = "DELETE FROM \"%w\".\"%w_cflog\" WHERE seq = ?1",
    [COLFAM_SQL_FILE_PUT] = "INSERT OR REPLACE INTO \"%w\".\"%w_cffile\"(id, level, seq, smallest,"
                            " largest, bytes, entries, tombstones, checksum)"
                            " VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
    [COLFAM_SQL_FILE_DELETE] = "DELETE FROM \"%w\".\"%w_cffile\" WHERE id = ?1",
    [COLFAM_SQL_META_PUT] =
        "INSERT OR REPLACE INTO \"%w\".\"%w_cfmeta\"(name, value) VALUES(?1, ?2)",
};

static const char *const shadow_names[] = {"cfmeta", "cffile", "cflog"};
#define SHADOW_COUNT (sizeof shadow_names / sizeof *shadow_names)

int colfam_catalog_init(struct colfam_catalog *catalog, sqlite3 *db, const char *database,
                        const char *table) {
  memset(catalog, 0, sizeof *catalog);
  catalog->db = db;
  catalog->database = sqlite3_mprintf("%s", database);
  catalog->table = sqlite3_mprintf("%s", table);
  catalog->label = colfam_label(database, table);
  if (catalog->database && catalog->table && catalog->label) return SQLITE_OK;
  colfam_catalog_release(catalog);
  return SQLITE_NOMEM;
}

void colfam_catalog_close(struct colfam_catalog *catalog) {
  for (int i = 0; i < COLFAM_SQL_COUNT; i++) {
    sqlite3_finalize(catalog->statements[i]);
    catalog->statements[i] = NULL;
  }
  catalog->stale = false;
}

void colfam_catalog_release(struct colfam_catalog *catalog) {
  colfam_catalog_close(catalog);
  sqlite3_free(catalog->database);
  sqlite3_free(catalog->table);
  sqlite3_free(catalog->label);
  memset(catalog, 0, sizeof *catalog);
}

int colfam_catalog_set_name(struct colfam_catalog *catalog, const char *table) {
  struct colfam_catalog renamed;
  int rc = colfam_catalog_init(&renamed, catalog->db, catalog->database, table);
  if (rc != SQLITE_OK) return rc;
  memcpy(renamed.uuid, catalog->uuid, sizeof renamed.uuid);
  colfam_catalog_release(catalog);
  *catalog = renamed;
  return SQLITE_OK;
}

/* SQLite's own message becomes ours; the code goes back unchanged (invariant 6). */
static int sql_error(struct colfam_catalog *catalog, int rc, char **message) {
  if (rc == SQLITE_OK || rc == SQLITE_NOMEM) return rc;
  return colfam_error(message, rc, "%s", sqlite3_errmsg(catalog->db));
}

static int damaged(struct colfam_catalog *catalog, const char *shadow, const char *what,
                   char **message) {
  return colfam_error(message, SQLITE_CORRUPT_VTAB, "table %s: %s_%s: %s", catalog->label,
                      catalog->table, shadow, what);
}

/* Nothing tells when the authorizer is taken away again: what was prepared under it must go. */
static int unauthorized(struct colfam_catalog *catalog, const char *what, char **message) {
  catalog->stale = true;
  return colfam_error(message, SQLITE_AUTH,
                      "not authorized: the application's authorizer ignores %s", what);
}

/* colfam leaves no NULLs. In a key there can be none but what an authorizer hides. */
static int null_column(struct colfam_catalog *catalog, const char *shadow, int column,
                       char **message) {
  catalog->stale = true;
  return colfam_error(message, column ? SQLITE_CORRUPT_VTAB : SQLITE_AUTH,
                      "table %s: %s_%s: column %d is NULL: %s", catalog->label, catalog->table,
                      shadow, column + 1,
                      column ? "damaged, or hidden by the application's authorizer"
                             : "the application's authorizer hides it");
}

int colfam_catalog_check_nulls(struct colfam_catalog *catalog, const char *shadow,
                               sqlite3_stmt *row, char **message) {
  for (int i = 0; i < sqlite3_column_count(row); i++)
    if (sqlite3_column_type(row, i) == SQLITE_NULL) return null_column(catalog, shadow, i, message);
  return SQLITE_OK;
}

static bool is_busy(const struct colfam_catalog *catalog) {
  for (int i = 0; i < COLFAM_SQL_COUNT; i++)
    if (catalog->statements[i] && sqlite3_stmt_busy(catalog->statements[i])) return true;
  return false;
}

/* A view or a trigger of somebody's on a shadow table may lead back to the table itself. */
static int check_idle(const struct colfam_catalog *catalog, char **message) {
  if (!is_busy(catalog)) return SQLITE_OK;
  return colfam_error(message, SQLITE_LOCKED,
                      "table %s: a view or trigger on its shadow tables uses the table itself",
                      catalog->table);
}

int colfam_catalog_prepare(struct colfam_catalog *catalog, enum colfam_sql which,
                           sqlite3_stmt **statement, char **message) {
  if (catalog->stale && !is_busy(catalog)) colfam_catalog_close(catalog);
  *statement = catalog->statements[which];
  if (*statement) return sqlite3_stmt_busy(*statement) ? check_idle(catalog, message) : SQLITE_OK;
  const char *d = catalog->database, *t = catalog->table;
  char *sql = sqlite3_mprintf(sql_texts[which], d, t, d, t);
  if (!sql) return SQLITE_NOMEM;
  int rc = sqlite3_prepare_v3(catalog->db, sql, -1, SQLITE_PREPARE_PERSISTENT, statement, NULL);
  sqlite3_free(sql);
  if (rc != SQLITE_OK) return sql_error(catalog, rc, message);
  catalog->statements[which] = *statement;
  return SQLITE_OK;
}

void colfam_catalog_put_back(struct colfam_catalog *catalog, sqlite3_stmt *statement, bool failed) {
  sqlite3_reset(statement);
  sqlite3_clear_bindings(statement);
  for (int i = 0; failed && i < COLFAM_SQL_COUNT; i++) {
    if (catalog->statements[i] != statement) continue;
    sqlite3_finalize(statement);
    catalog->statements[i] = NULL;
  }
}

int colfam_catalog_finish(struct colfam_catalog *catalog, sqlite3_stmt *statement, int rc,
                          char **message) {
  if (rc == SQLITE_ROW || rc == SQLITE_DONE) rc = SQLITE_OK;
  rc = sql_error(catalog, rc, message);
  if (rc == SQLITE_OK && !sqlite3_column_count(statement))
    rc = unauthorized(catalog, "reading of shadow tables", message);
  colfam_catalog_put_back(catalog, statement, rc != SQLITE_OK);
  return rc;
}

/* Runs a write to its end. Rows may come of PRAGMA count_changes. */
static int run(struct colfam_catalog *catalog, sqlite3_stmt *statement, char **message) {
  int rc = sqlite3_step(statement);
  while (rc == SQLITE_ROW) rc = sqlite3_step(statement);
  rc = sql_error(catalog, rc == SQLITE_DONE ? SQLITE_OK : rc, message);
  if (rc == SQLITE_OK && sqlite3_stmt_readonly(statement))
    rc = unauthorized(catalog, "writes to shadow tables", message);
  colfam_catalog_put_back(catalog, statement, rc != SQLITE_OK);
  return rc;
}

/* Runs an INSERT of one row, which a trigger of somebody's may have kept out. */
static int run_insert(struct colfam_catalog *catalog, sqlite3_stmt *statement, char **message) {
  int rc = run(catalog, statement, message);
  if (rc != SQLITE_OK || sqlite3_changes(catalog->db) == 1) return rc;
  return colfam_error(message, SQLITE_CONSTRAINT_TRIGGER,
                      "table %s: something keeps rows out of its shadow tables: drop the triggers "
                      "on them",
                      catalog->label);
}

int colfam_catalog_probe(struct colfam_catalog *catalog, bool *fresh, char **message) {
  sqlite3_stmt *probe = catalog->statements[COLFAM_SQL_PROBE];
  *fresh = !probe || catalog->stale;
  int rc = colfam_catalog_prepare(catalog, COLFAM_SQL_PROBE, &probe, message);
  if (rc != SQLITE_OK) return rc;
  rc = sqlite3_step(probe);
  if (sqlite3_stmt_status(probe, SQLITE_STMTSTATUS_REPREPARE, 1)) *fresh = true;
  return colfam_catalog_finish(catalog, probe, rc, message);
}

int colfam_catalog_prepare_all(struct colfam_catalog *catalog, char **message) {
  int rc = check_idle(catalog, message);
  if (rc != SQLITE_OK) return rc;
  colfam_catalog_close(catalog);
  for (int i = 0; i < COLFAM_SQL_COUNT && rc == SQLITE_OK; i++) {
    sqlite3_stmt *statement;
    if (i == COLFAM_SQL_ROWS || i == COLFAM_SQL_TAIL) continue;
    rc = colfam_catalog_prepare(catalog, (enum colfam_sql)i, &statement, message);
    if (rc == SQLITE_OK && i >= COLFAM_SQL_LOG_PUT && sqlite3_stmt_readonly(statement))
      rc = unauthorized(catalog, "writes to shadow tables", message);
  }
  return rc;
}

/* ---- DDL */

static int exec(struct colfam_catalog *catalog, char *sql, char **message) {
  if (!sql) return SQLITE_NOMEM;
  int rc = sqlite3_exec(catalog->db, sql, NULL, NULL, NULL);
  sqlite3_free(sql);
  return sql_error(catalog, rc, message);
}

static int shadow_is_there(struct colfam_catalog *catalog, const char *shadow, bool *there,
                           char **message) {
  char *name = sqlite3_mprintf("%s_%s", catalog->table, shadow);
  int rc = !name ? SQLITE_NOMEM
                 : sqlite3_table_column_metadata(catalog->db, catalog->database, name, NULL, NULL,
                                                 NULL, NULL, NULL, NULL);
  sqlite3_free(name);
  *there = rc == SQLITE_OK;
  return rc == SQLITE_ERROR ? SQLITE_OK : sql_error(catalog, rc, message);
}

/* DDL that the authorizer makes SQLite ignore leaves all as it was. */
static int check_shadows(struct colfam_catalog *catalog, bool expected, char **message) {
  bool there = expected;
  int rc = SQLITE_OK;
  for (size_t i = 0; i < SHADOW_COUNT && rc == SQLITE_OK && there == expected; i++)
    rc = shadow_is_there(catalog, shadow_names[i], &there, message);
  if (rc != SQLITE_OK || there == expected) return rc;
  return unauthorized(catalog, "DDL on shadow tables", message);
}

static int put_meta(struct colfam_catalog *catalog, const char *name, sqlite3_int64 value,
                    char **message) {
  sqlite3_stmt *statement;
  int rc = colfam_catalog_prepare(catalog, COLFAM_SQL_META_PUT, &statement, message);
  if (rc != SQLITE_OK) return rc;
  sqlite3_bind_text(statement, 1, name, -1, SQLITE_STATIC);
  sqlite3_bind_int64(statement, 2, value);
  return run_insert(catalog, statement, message);
}

static int put_uuid(struct colfam_catalog *catalog, char **message) {
  sqlite3_stmt *statement;
  int rc = colfam_catalog_prepare(catalog, COLFAM_SQL_META_PUT, &statement, message);
  if (rc != SQLITE_OK) return rc;
  sqlite3_bind_text(statement, 1, "uuid", -1, SQLITE_STATIC);
  sqlite3_bind_blob(statement, 2, catalog->uuid, sizeof catalog->uuid, SQLITE_STATIC);
  return run_insert(catalog, statement, message);
}

int colfam_catalog_put_option(struct colfam_catalog *catalog, const char *name, const char *value,
                              char **message) {
  sqlite3_stmt *statement;
  int rc = colfam_catalog_prepare(catalog, COLFAM_SQL_META_PUT, &statement, message);
  if (rc != SQLITE_OK) return rc;
  char *full = sqlite3_mprintf("option.%s", name);
  if (!full) return SQLITE_NOMEM;
  sqlite3_bind_text(statement, 1, full, -1, sqlite3_free);
  sqlite3_bind_text(statement, 2, value, -1, SQLITE_TRANSIENT);
  rc = run_insert(catalog, statement, message);
  /* Not kept: a trigger may write to the table itself, as above. */
  if (rc == SQLITE_OK) colfam_catalog_put_back(catalog, statement, true);
  return rc;
}

static int fill_meta(struct colfam_catalog *catalog, const struct colfam_options *options,
                     char **message) {
  const struct colfam_manifest empty = {0};
  const struct colfam_flushed flushed = {0, 0, options->track_rows ? 0 : -1};
  struct {
    const char *name;
    sqlite3_int64 value;
  } const numbers[] = {
      {"lowest_reader", LOWEST_READER},
      {"lowest_writer", LOWEST_WRITER},
      {"flushed_seq", 0},
      {"flushed_nonce", 0},
      {"flushed_rows", flushed.rows},
      {"seal", (sqlite3_int64)colfam_manifest_seal(&empty, catalog->uuid, &flushed)}};
  int rc = put_uuid(catalog, message);
  for (size_t i = 0; rc == SQLITE_OK && i < sizeof numbers / sizeof *numbers; i++)
    rc = put_meta(catalog, numbers[i].name, numbers[i].value, message);
  char value[64];
  const char *name;
  for (int i = 0; rc == SQLITE_OK && (name = colfam_options_get(options, i, value)); i++)
    rc = colfam_catalog_put_option(catalog, name, value, message);
  return rc;
}

static int create_tables(struct colfam_catalog *catalog, char **message) {
  const char *d = catalog->database, *t = catalog->table;
  char *sql = sqlite3_mprintf(
      "CREATE TABLE \"%w\".\"%w_cfmeta\"(name TEXT PRIMARY KEY, value) WITHOUT ROWID;"
      "CREATE TABLE \"%w\".\"%w_cffile\"(id INTEGER PRIMARY KEY, level INTEGER, seq INTEGER,"
      " smallest BLOB, largest BLOB, bytes INTEGER, entries INTEGER, tombstones INTEGER,"
      " checksum INTEGER);"
      "CREATE TABLE \"%w\".\"%w_cflog\"(seq INTEGER PRIMARY KEY, nonce INTEGER, gen INTEGER,"
      " rows INTEGER, batch BLOB);",
      d, t, d, t, d, t);
  int rc = exec(catalog, sql, message);
  return rc == SQLITE_OK ? check_shadows(catalog, true, message) : rc;
}

static int refuse_taken_names(struct colfam_catalog *catalog, char **message) {
  bool there = false;
  int rc = SQLITE_OK;
  size_t i = 0;
  while (i < SHADOW_COUNT && rc == SQLITE_OK && !there)
    rc = shadow_is_there(catalog, shadow_names[i++], &there, message);
  if (!there) return rc;
  return colfam_error(message, SQLITE_ERROR,
                      "colfam keeps the state of table %s in a table named %s_%s, and one of "
                      "that name exists already: rename it, or choose another name",
                      catalog->label, catalog->table, shadow_names[i - 1]);
}

int colfam_catalog_create(struct colfam_catalog *catalog, const struct colfam_options *options,
                          char **message) {
  int rc = refuse_taken_names(catalog, message);
  if (rc != SQLITE_OK) return rc;
  sqlite3_randomness(sizeof catalog->uuid, catalog->uuid);
  rc = create_tables(catalog, message);
  if (rc == SQLITE_OK) rc = fill_meta(catalog, options, message);
  return rc;
}

int colfam_catalog_drop(struct colfam_catalog *catalog, char **message) {
  int idle = check_idle(catalog, message);
  if (idle != SQLITE_OK) return idle;
  colfam_catalog_close(catalog);
  for (size_t i = 0; i < SHADOW_COUNT; i++) {
    char *sql = sqlite3_mprintf("DROP TABLE IF EXISTS \"%w\".\"%w_%s\"", catalog->database,
                                catalog->table, shadow_names[i]);
    int rc = exec(catalog, sql, message);
    if (rc != SQLITE_OK) return rc;
  }
  return check_shadows(catalog, false, message);
}

int colfam_catalog_rename(struct colfam_catalog *catalog, const char *table, char **message) {
  int idle = check_idle(catalog, message);
  if (idle != SQLITE_OK) return idle;
  colfam_catalog_close(catalog);
  for (size_t i = 0; i < SHADOW_COUNT; i++) {
    char *sql =
        sqlite3_mprintf("ALTER TABLE \"%w\".\"%w_%s\" RENAME TO \"%w_%s\"", catalog->database,
                        catalog->table, shadow_names[i], table, shadow_names[i]);
    int rc = exec(catalog, sql, message);
    if (rc != SQLITE_OK) return rc;
  }
  return check_shadows(catalog, false, message);
}

/* Whether the shadow tables of the catalog's name have its uuid. Those that cannot be understood (damaged, of
** a newer version) are nobody's. */
static int is_ours(struct colfam_catalog *catalog, bool *ours, char **message) {
  bool has_meta, has_log = false;
  *ours = false;
  int rc = shadow_is_there(catalog, "cfmeta", &has_meta, message);
  if (rc == SQLITE_OK && has_meta) rc = shadow_is_there(catalog, "cflog", &has_log, message);
  if (rc != SQLITE_OK || !has_log) return rc;
  struct colfam_meta meta;
  rc = colfam_catalog_read_meta(catalog, &meta, message);
  if (rc == SQLITE_OK) *ours = memcmp(meta.uuid, catalog->uuid, sizeof meta.uuid) == 0;
  return rc == SQLITE_ERROR || (rc & 0xff) == SQLITE_CORRUPT ? SQLITE_OK : rc;
}

struct search {
  struct colfam_catalog *catalog;
  bool found;
  int refused; /* SQLITE_AUTH when one could not be looked at */
  char **message;
};

/* Tries one table that has a t_cfmeta. */
static int try_table(void *context, const char *shadow) {
  struct search *search = context;
  if (search->found) return SQLITE_OK;
  struct colfam_catalog *catalog = search->catalog, other;
  int rc = colfam_catalog_init(&other, catalog->db, catalog->database, shadow);
  if (rc != SQLITE_OK) return rc;
  other.table[strlen(shadow) - strlen("_cfmeta")] = 0;
  memcpy(other.uuid, catalog->uuid, sizeof other.uuid);
  rc = is_ours(&other, &search->found, search->message);
  if (rc == SQLITE_AUTH) {
    search->refused = rc;
    rc = SQLITE_OK;
  }
  if (search->found) rc = colfam_catalog_set_name(catalog, other.table);
  colfam_catalog_release(&other);
  return rc;
}

int colfam_catalog_find(struct colfam_catalog *catalog, bool *found, char **message) {
  int rc = check_idle(catalog, message);
  if (rc != SQLITE_OK) return rc;
  colfam_catalog_close(catalog);
  rc = is_ours(catalog, found, message);
  if (rc != SQLITE_OK || *found) return rc;
  struct search search = {catalog, false, SQLITE_OK, message};
  rc = colfam_catalog_each(catalog->db, catalog->database, "_cfmeta", try_table, &search, message);
  *found = search.found;
  return rc == SQLITE_OK && !search.found ? search.refused : rc;
}

/* ---- t_cfmeta */

/* SEAL_DUE: whoever wrote last keeps seals. */
enum { SEEN_UUID = 1, SEEN_SEQ = 2, SEEN_NONCE = 4, SEEN_ROWS = 8, SEEN_READER = 16 };
enum { SEEN_WRITER = 32, SEEN_ALL = 63, SEEN_SEAL_DUE = 64 };

/* One row of t_cfmeta into *meta; unknown names are a later version's and no concern of readers. */
static int take_meta(struct colfam_catalog *catalog, sqlite3_stmt *row, struct colfam_meta *meta,
                     int *seen, char **message) {
  const char *name = (const char *)sqlite3_column_text(row, 0);
  sqlite3_int64 number = sqlite3_column_int64(row, 1);
  if (!name) return null_column(catalog, "cfmeta", 0, message);
  if (strncmp(name, "option.", 7) == 0) {
    const char *value = (const char *)sqlite3_column_text(row, 1);
    if (!colfam_options_known(name + 7)) return SQLITE_OK;
    int rc = colfam_options_set(&meta->options, name + 7, value ? value : "", message);
    return rc == SQLITE_ERROR ? damaged(catalog, "cfmeta", *message, message) : rc;
  }
  if (sqlite3_column_type(row, 1) == SQLITE_NULL)
    return unauthorized(catalog, "values of t_cfmeta, or one is NULL", message);
  if (strcmp(name, "uuid") == 0) {
    const void *bytes = sqlite3_column_blob(row, 1);
    if (sqlite3_column_bytes(row, 1) != sizeof meta->uuid || !bytes)
      return damaged(catalog, "cfmeta", "uuid is not 16 bytes", message);
    memcpy(meta->uuid, bytes, sizeof meta->uuid);
    *seen |= SEEN_UUID;
    return SQLITE_OK;
  }
  bool is_integer = sqlite3_column_type(row, 1) == SQLITE_INTEGER;
  if (!is_integer && strcmp(name, "seal") == 0)
    return damaged(catalog, "cfmeta", "the seal is no integer", message);
  if (!is_integer) return SQLITE_OK;
  if (strcmp(name, "flushed_seq") == 0) meta->flushed.seq = (uint64_t)number, *seen |= SEEN_SEQ;
  if (strcmp(name, "flushed_nonce") == 0)
    meta->flushed.nonce = (uint64_t)number, *seen |= SEEN_NONCE;
  if (strcmp(name, "flushed_rows") == 0) meta->flushed.rows = number, *seen |= SEEN_ROWS;
  if (strcmp(name, "seal") == 0) meta->seal = (uint64_t)number, meta->sealed = true;
  if (strcmp(name, "lowest_writer") == 0) {
    *seen |= SEEN_WRITER | (number >= LOWEST_WRITER ? SEEN_SEAL_DUE : 0);
    meta->writable = number <= FORMAT_VERSION;
  }
  if (strcmp(name, "lowest_reader") == 0) {
    *seen |= SEEN_READER;
    if (number > FORMAT_VERSION)
      return colfam_error(
          message, SQLITE_ERROR,
          "table %s: written by a newer colfam (format %lld, this library reads up to %d)",
          catalog->label, number, FORMAT_VERSION);
  }
  return SQLITE_OK;
}

int colfam_catalog_read_meta(struct colfam_catalog *catalog, struct colfam_meta *meta,
                             char **message) {
  memset(meta, 0, sizeof *meta);
  colfam_options_default(&meta->options);
  sqlite3_stmt *statement;
  int rc = colfam_catalog_prepare(catalog, COLFAM_SQL_META, &statement, message);
  if (rc != SQLITE_OK) return rc;
  int seen = 0, taken = SQLITE_OK;
  while (taken == SQLITE_OK && (rc = sqlite3_step(statement)) == SQLITE_ROW)
    taken = take_meta(catalog, statement, meta, &seen, message);
  rc = colfam_catalog_finish(catalog, statement, rc, message);
  if (taken != SQLITE_OK) return taken;
  if (rc != SQLITE_OK) return rc;
  bool unsealed = seen & SEEN_SEAL_DUE && !meta->sealed;
  if ((seen & SEEN_ALL) != SEEN_ALL || unsealed)
    return damaged(catalog, "cfmeta", "rows are missing", message);
  if ((int64_t)meta->flushed.seq < 0 || meta->flushed.rows < -1)
    return damaged(catalog, "cfmeta", "flushed_seq or flushed_rows is negative", message);
  return SQLITE_OK;
}

/* ---- t_cffile and the newest log row */

static bool take_blob(sqlite3_stmt *row, int column, struct kv_buf *buf) {
  if (sqlite3_column_type(row, column) != SQLITE_BLOB) return false;
  const void *bytes = sqlite3_column_blob(row, column);
  kv_buf_append(buf, bytes, (size_t)sqlite3_column_bytes(row, column));
  return true;
}

static int take_file(struct colfam_catalog *catalog, sqlite3_stmt *row, struct kv_file_info *info,
                     char **message) {
  int rc = colfam_catalog_check_nulls(catalog, "cffile", row, message);
  if (rc != SQLITE_OK) return rc;
  for (int i = 0; i < 9; i++) {
    bool bound = i == 3 || i == 4;
    if (bound ? sqlite3_column_type(row, i) != SQLITE_BLOB
              : sqlite3_column_type(row, i) != SQLITE_INTEGER ||
                    (i < 8 && sqlite3_column_int64(row, i) < 0))
      return damaged(catalog, "cffile", "a column has a wrong type or a negative number", message);
  }
  info->id = (uint64_t)sqlite3_column_int64(row, 0);
  if (sqlite3_column_int64(row, 1) > 64)
    return damaged(catalog, "cffile", "level over 64", message);
  info->level = (uint32_t)sqlite3_column_int64(row, 1);
  info->seq = (uint64_t)sqlite3_column_int64(row, 2);
  info->bytes = (uint64_t)sqlite3_column_int64(row, 5);
  info->entries = (uint64_t)sqlite3_column_int64(row, 6);
  info->tombstones = (uint64_t)sqlite3_column_int64(row, 7);
  info->checksum = (uint64_t)sqlite3_column_int64(row, 8);
  take_blob(row, 3, &info->smallest);
  take_blob(row, 4, &info->largest);
  return info->smallest.status == KV_OK && info->largest.status == KV_OK ? SQLITE_OK : SQLITE_NOMEM;
}

/* One more zeroed element at the end of the array. */
static struct kv_file_info *grow_files(struct colfam_snapshot *out) {
  size_t count = out->snapshot.file_count;
  if ((count & (count - 1)) == 0) {
    struct kv_file_info *files =
        sqlite3_realloc64(out->files, (count ? 2 * count : 1) * sizeof *files);
    if (!files) return NULL;
    out->files = files;
  }
  kv_file_info_init(&out->files[count]);
  out->snapshot.file_count++;
  return &out->files[count];
}

static int read_files(struct colfam_catalog *catalog, struct colfam_snapshot *out, char **message) {
  sqlite3_stmt *statement;
  int rc = colfam_catalog_prepare(catalog, COLFAM_SQL_FILES, &statement, message);
  if (rc != SQLITE_OK) return rc;
  int taken = SQLITE_OK;
  while (taken == SQLITE_OK && (rc = sqlite3_step(statement)) == SQLITE_ROW) {
    struct kv_file_info *info = grow_files(out);
    taken = info ? take_file(catalog, statement, info, message) : SQLITE_NOMEM;
  }
  rc = colfam_catalog_finish(catalog, statement, rc, message);
  return taken != SQLITE_OK ? taken : rc;
}

static int check_seal(struct colfam_catalog *catalog, const struct colfam_meta *meta,
                      const struct colfam_snapshot *read, char **message) {
  struct colfam_manifest found = {0};
  for (size_t i = 0; i < read->snapshot.file_count; i++)
    colfam_manifest_add(&found, &read->files[i]);
  if (!meta->sealed || colfam_manifest_seal(&found, meta->uuid, &meta->flushed) == meta->seal)
    return SQLITE_OK;
  return damaged(catalog, "cffile", "rows here or in _cfmeta are missing, added or changed",
                 message);
}

static int read_last(struct colfam_catalog *catalog, struct kv_snapshot *snapshot, char **message) {
  sqlite3_stmt *statement;
  int rc = colfam_catalog_prepare(catalog, COLFAM_SQL_LAST, &statement, message);
  if (rc != SQLITE_OK) return rc;
  rc = sqlite3_step(statement);
  int taken = rc == SQLITE_ROW ? colfam_catalog_check_nulls(catalog, "cflog", statement, message)
                               : SQLITE_OK;
  if (rc == SQLITE_ROW &&
      sqlite3_column_int64(statement, 0) > (sqlite3_int64)snapshot->log.flushed_seq) {
    snapshot->log.last_seq = (uint64_t)sqlite3_column_int64(statement, 0);
    snapshot->log.last_nonce = (uint64_t)sqlite3_column_int64(statement, 1);
    snapshot->rows = sqlite3_column_int64(statement, 2);
    if (snapshot->rows < -1) snapshot->rows = -1;
  }
  rc = colfam_catalog_finish(catalog, statement, rc, message);
  return taken != SQLITE_OK ? taken : rc;
}

int colfam_catalog_read_snapshot(struct colfam_catalog *catalog, const struct colfam_meta *meta,
                                 struct colfam_snapshot *out, char **message) {
  memset(out, 0, sizeof *out);
  const struct colfam_flushed *flushed = &meta->flushed;
  out->snapshot.log =
      (struct kv_log_state){flushed->seq, flushed->nonce, flushed->seq, flushed->nonce};
  out->snapshot.rows = flushed->rows;
  int rc = read_files(catalog, out, message);
  if (rc == SQLITE_OK) rc = check_seal(catalog, meta, out, message);
  if (rc == SQLITE_OK) rc = read_last(catalog, &out->snapshot, message);
  out->snapshot.files = out->files;
  if (rc != SQLITE_OK) colfam_snapshot_release(out);
  return rc;
}

void colfam_snapshot_release(struct colfam_snapshot *snapshot) {
  for (size_t i = 0; i < snapshot->snapshot.file_count; i++)
    kv_file_info_release(&snapshot->files[i]);
  sqlite3_free(snapshot->files);
  memset(snapshot, 0, sizeof *snapshot);
}

void colfam_catalog_file_ids(struct colfam_catalog *catalog, uint64_t **ids, size_t *count) {
  *ids = NULL;
  *count = 0;
  sqlite3_stmt *statement;
  char *message = NULL;
  if (colfam_catalog_prepare(catalog, COLFAM_SQL_FILES, &statement, &message) == SQLITE_OK) {
    while (sqlite3_step(statement) == SQLITE_ROW) {
      uint64_t *grown = sqlite3_realloc64(*ids, (*count + 1) * sizeof **ids);
      if (!grown) break;
      *ids = grown;
      grown[(*count)++] = (uint64_t)sqlite3_column_int64(statement, 0);
    }
    sqlite3_reset(statement);
  }
  sqlite3_free(message);
}

/* ---- Writes */

int colfam_catalog_put_log(struct colfam_catalog *catalog, const struct kv_log_row *row,
                           char **message) {
  sqlite3_stmt *statement;
  int rc = colfam_catalog_prepare(catalog, COLFAM_SQL_LOG_PUT, &statement, message);
  if (rc != SQLITE_OK) return rc;
  sqlite3_bind_int64(statement, 1, (sqlite3_int64)row->seq);
  sqlite3_bind_int64(statement, 2, (sqlite3_int64)row->nonce);
  sqlite3_bind_int64(statement, 3, (sqlite3_int64)row->gen);
  sqlite3_bind_int64(statement, 4, row->rows);
  rc = sqlite3_bind_blob64(statement, 5, row->batch.data, row->batch.size, SQLITE_STATIC);
  if (rc == SQLITE_TOOBIG)
    rc = colfam_error(message, rc,
                      "table %s: a transaction of %llu bytes is larger than SQLite's limit for "
                      "one row: commit in smaller transactions",
                      catalog->label, (unsigned long long)row->batch.size);
  if (rc != SQLITE_OK) {
    sqlite3_clear_bindings(statement);
    return rc;
  }
  return run_insert(catalog, statement, message);
}

int colfam_catalog_delete_log(struct colfam_catalog *catalog, uint64_t seq, char **message) {
  sqlite3_stmt *statement;
  int rc = colfam_catalog_prepare(catalog, COLFAM_SQL_LOG_DELETE, &statement, message);
  if (rc != SQLITE_OK) return rc;
  sqlite3_bind_int64(statement, 1, (sqlite3_int64)seq);
  return run(catalog, statement, message);
}

int colfam_catalog_trim_log(struct colfam_catalog *catalog, uint64_t flushed_seq, bool *deleted,
                            uint64_t *bytes, char **message) {
  sqlite3_stmt *statement;
  *deleted = false;
  *bytes = 0;
  int rc = colfam_catalog_prepare(catalog, COLFAM_SQL_OLDEST, &statement, message);
  if (rc != SQLITE_OK) return rc;
  rc = sqlite3_step(statement);
  sqlite3_int64 seq = sqlite3_column_int64(statement, 0);
  sqlite3_int64 size = sqlite3_column_int64(statement, 1);
  bool dead = rc == SQLITE_ROW && seq <= (sqlite3_int64)flushed_seq;
  rc = colfam_catalog_finish(catalog, statement, rc, message);
  if (rc == SQLITE_OK && dead) rc = colfam_catalog_delete_log(catalog, (uint64_t)seq, message);
  if (rc != SQLITE_OK || !dead) return rc;
  *deleted = sqlite3_changes(catalog->db) == 1;
  *bytes = (uint64_t)size;
  return SQLITE_OK;
}

int colfam_catalog_put_file(struct colfam_catalog *catalog, const struct kv_file_info *info,
                            char **message) {
  sqlite3_stmt *statement;
  int rc = colfam_catalog_prepare(catalog, COLFAM_SQL_FILE_PUT, &statement, message);
  if (rc != SQLITE_OK) return rc;
  sqlite3_bind_int64(statement, 1, (sqlite3_int64)info->id);
  sqlite3_bind_int64(statement, 2, (sqlite3_int64)info->level);
  sqlite3_bind_int64(statement, 3, (sqlite3_int64)info->seq);
  /* A zero-length key needs a pointer, or SQLite binds NULL. */
  sqlite3_bind_blob64(statement, 4, info->smallest.size ? (const void *)info->smallest.data : "",
                      info->smallest.size, SQLITE_STATIC);
  sqlite3_bind_blob64(statement, 5, info->largest.size ? (const void *)info->largest.data : "",
                      info->largest.size, SQLITE_STATIC);
  sqlite3_bind_int64(statement, 6, (sqlite3_int64)info->bytes);
  sqlite3_bind_int64(statement, 7, (sqlite3_int64)info->entries);
  sqlite3_bind_int64(statement, 8, (sqlite3_int64)info->tombstones);
  sqlite3_bind_int64(statement, 9, (sqlite3_int64)info->checksum);
  return run_insert(catalog, statement, message);
}

static int delete_file(struct colfam_catalog *catalog, uint64_t id, char **message) {
  sqlite3_stmt *statement;
  int rc = colfam_catalog_prepare(catalog, COLFAM_SQL_FILE_DELETE, &statement, message);
  if (rc != SQLITE_OK) return rc;
  sqlite3_bind_int64(statement, 1, (sqlite3_int64)id);
  return run(catalog, statement, message);
}

int colfam_catalog_publish(struct colfam_catalog *catalog, const struct colfam_meta *meta,
                           const struct kv_view *base, const struct kv_edit *edit, char **message) {
  struct colfam_flushed flushed = meta->flushed;
  if (edit->flushes)
    flushed = (struct colfam_flushed){edit->flushed_seq, edit->flushed_nonce, edit->rows};
  struct colfam_manifest after = colfam_manifest_after(base, edit);
  bool plain = after.value_files == 0;
  struct {
    const char *name;
    sqlite3_int64 value;
  } const numbers[] = {
      {"flushed_seq", (sqlite3_int64)flushed.seq},
      {"flushed_nonce", (sqlite3_int64)flushed.nonce},
      {"flushed_rows", flushed.rows},
      {"lowest_reader", plain ? LOWEST_READER : VALUES_VERSION},
      {"lowest_writer", plain ? LOWEST_WRITER : VALUES_VERSION},
      {"seal", (sqlite3_int64)colfam_manifest_seal(&after, catalog->uuid, &flushed)}};
  int rc = SQLITE_OK;
  for (size_t i = 0; rc == SQLITE_OK && i < edit->removed_count; i++)
    rc = delete_file(catalog, edit->removed[i], message);
  for (size_t i = 0; rc == SQLITE_OK && i < edit->added_count; i++)
    rc = colfam_catalog_put_file(catalog, &edit->added[i], message);
  for (size_t i = 0; rc == SQLITE_OK && i < sizeof numbers / sizeof *numbers; i++)
    rc = put_meta(catalog, numbers[i].name, numbers[i].value, message);
  return rc;
}

int colfam_catalog_unpublish(struct colfam_catalog *catalog, const struct kv_edit *edit,
                             char **message) {
  int rc = SQLITE_OK;
  for (size_t i = 0; rc == SQLITE_OK && i < edit->added_count; i++)
    rc = delete_file(catalog, edit->added[i].id, message);
  return rc;
}
