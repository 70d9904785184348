/* See harness_history.h: opening, looking, SQL. The scripts are in harness_history_script.c. */
#include "harness_history.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "harness_power.h"
#include "harness_sql.h"

const char *const history_schemas[HISTORY_SCHEMAS] = {"main", "aux"};

const char *history_kind_name(enum history_kind kind) {
  static const char *const names[HISTORY_KINDS] = {
      "mixed", "savepoints", "tables", "attached", "exclusive", "backup", "switching", "plain"};
  return names[kind];
}

size_t history_schema_count(const struct history *history) {
  return history->kind == HISTORY_ATTACHED ? 2 : 1;
}

/* ---- SQL that must work */

void history_wrong(const struct history *history, const char *format, ...) {
  char text[1000];
  va_list list;
  va_start(list, format);
  vsnprintf(text, sizeof text, format, list);
  va_end(list);
  ck_abort_msg("COLFAM_SEED=%" PRIu64 " %s/%s %s, %s: %s", history->seed, history->journal,
               history->synchronous, history_kind_name(history->kind), history->where, text);
}

static char *format_sql(const char *format, va_list list) {
  char *sql = sqlite3_vmprintf(format, list);
  ck_assert_ptr_nonnull(sql);
  return sql;
}

void history_exec(const struct history *history, sqlite3 *db, const char *format, ...) {
  va_list list;
  va_start(list, format);
  char *sql = format_sql(format, list);
  va_end(list);
  if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
    history_wrong(history, "%.300s: %s", sql, sqlite3_errmsg(db));
  sqlite3_free(sql);
}

static sqlite3_stmt *prepare(const struct history *history, sqlite3 *db, const char *sql) {
  sqlite3_stmt *statement;
  if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL) != SQLITE_OK)
    history_wrong(history, "%s: %s", sql, sqlite3_errmsg(db));
  return statement;
}

sqlite3_stmt *history_prepare(const struct history *history, sqlite3 *db, const char *format, ...) {
  va_list list;
  va_start(list, format);
  char *sql = format_sql(format, list);
  va_end(list);
  sqlite3_stmt *statement = prepare(history, db, sql);
  sqlite3_free(sql);
  return statement;
}

void history_finish(const struct history *history, sqlite3_stmt *statement) {
  sqlite3 *db = sqlite3_db_handle(statement);
  char sql[300];
  snprintf(sql, sizeof sql, "%s", sqlite3_sql(statement));
  if (sqlite3_finalize(statement) != SQLITE_OK)
    history_wrong(history, "%s: %s", sql, sqlite3_errmsg(db));
}

void history_no_rows(const struct history *history, sqlite3 *db, const char *format, ...) {
  va_list list;
  va_start(list, format);
  char *sql = format_sql(format, list);
  va_end(list);
  sqlite3_stmt *statement = prepare(history, db, sql);
  if (sqlite3_step(statement) == SQLITE_ROW) {
    char text[600] = "";
    for (int i = 0; i < sqlite3_column_count(statement); i++) {
      const char *value = (const char *)sqlite3_column_text(statement, i);
      snprintf(text + strlen(text), sizeof text - strlen(text), "%.150s|", value ? value : "NULL");
    }
    history_wrong(history, "%s: %s", sql, text);
  }
  history_finish(history, statement);
  sqlite3_free(sql);
}

/* ---- Databases */

static void open_schema(const struct history *history, sqlite3 *db, const char *schema) {
  history_exec(history, db, "PRAGMA %s.page_size = 1024; PRAGMA %s.synchronous = %s", schema,
               schema, history->synchronous);
}

void history_set_journal(const struct history *history, sqlite3 *db) {
  for (size_t i = 0; i < history_schema_count(history); i++)
    history_exec(history, db, "PRAGMA %s.journal_mode = %s", history_schemas[i], history->journal);
}

sqlite3 *history_open_file(const struct history *history, const char *name) {
  sqlite3 *db;
  if (sqlite3_open(disk_path(name), &db) != SQLITE_OK || sql_load(db, NULL) != SQLITE_OK)
    history_wrong(history, "cannot open %s: %s", name, sqlite3_errmsg(db));
  return db;
}

sqlite3 *history_open(const struct history *history, bool sets_journal) {
  sqlite3 *db = history_open_file(history, "db");
  if (history_schema_count(history) > 1)
    history_exec(history, db, "ATTACH '%s' AS aux", disk_path("aux"));
  history_exec(history, db, "PRAGMA temp_store = memory; PRAGMA wal_autocheckpoint = 40");
  if (history->kind == HISTORY_EXCLUSIVE)
    history_exec(history, db, "PRAGMA locking_mode = exclusive");
  for (size_t i = 0; i < history_schema_count(history); i++)
    open_schema(history, db, history_schemas[i]);
  if (sets_journal) history_set_journal(history, db);
  return db;
}

void history_close(const struct history *history, sqlite3 *db) {
  if (sqlite3_close(db) != SQLITE_OK) history_wrong(history, "close: %s", sqlite3_errmsg(db));
}

/* ---- What the tables hold */

enum { PAIRS_MAX = 16, NAME_BYTES = 40 };

struct names {
  size_t count;
  char names[2 * PAIRS_MAX][NAME_BYTES];
};

/* family, family2, ..., plain, plain2, ... */
static void list_tables(const struct history *history, sqlite3 *db, const char *schema,
                        struct names *names) {
  sqlite3_stmt *statement =
      history_prepare(history, db,
                      "SELECT name FROM %s.sqlite_schema WHERE type = 'table' AND (name GLOB "
                      "'plain*' OR sql GLOB 'CREATE VIRTUAL*') ORDER BY name",
                      schema);
  names->count = 0;
  while (sqlite3_step(statement) == SQLITE_ROW) {
    if (names->count == sizeof names->names / sizeof *names->names)
      history_wrong(history, "too many tables");
    snprintf(names->names[names->count++], NAME_BYTES, "%s",
             (const char *)sqlite3_column_text(statement, 0));
  }
  history_finish(history, statement);
  for (size_t i = 0; i < names->count; i++) {
    size_t half = names->count / 2;
    const char *family = names->names[i % half], *plain = names->names[half + i % half];
    if (names->count % 2 || strcmp(family + strlen("family"), plain + strlen("plain")) != 0)
      history_wrong(history, "table %s without the other", names->names[i]);
  }
}

static bool same_value(sqlite3_stmt *a, sqlite3_stmt *b, int column) {
  int type = sqlite3_column_type(a, column);
  if (type != sqlite3_column_type(b, column)) return false;
  if (type == SQLITE_INTEGER)
    return sqlite3_column_int64(a, column) == sqlite3_column_int64(b, column);
  const void *bytes = sqlite3_column_blob(a, column);
  int size = sqlite3_column_bytes(a, column);
  const void *others = sqlite3_column_blob(b, column);
  return size == sqlite3_column_bytes(b, column) &&
         (size == 0 || memcmp(bytes, others, (size_t)size) == 0);
}

static uint64_t mix_row(uint64_t digest, sqlite3_stmt *row) {
  sqlite3_int64 key = sqlite3_column_int64(row, 0);
  const unsigned char *text = sqlite3_column_text(row, 1);
  int size = sqlite3_column_bytes(row, 1);
  return power_mix(digest + 1 + (uint64_t)key * 31, text, (size_t)size);
}

/* Row by row, in step. */
static void look_at_pair(const struct history *history, sqlite3 *db, const char *schema,
                         const char *end, struct history_state *state) {
  static const char *const format = "SELECT k, v FROM %s.%s%s ORDER BY k";
  sqlite3_stmt *plain = history_prepare(history, db, format, schema, "plain", end);
  sqlite3_stmt *family = history_prepare(history, db, format, schema, "family", end);
  state->rows = power_mix(state->rows, end, strlen(end));
  for (;;) {
    bool more = sqlite3_step(plain) == SQLITE_ROW;
    if ((sqlite3_step(family) == SQLITE_ROW) != more) {
      history_finish(history, family);
      history_wrong(history, "%s.family%s has %s rows", schema, end, more ? "too few" : "too many");
    }
    if (!more) break;
    sqlite3_int64 key = sqlite3_column_int64(plain, 0);
    if (!same_value(plain, family, 0) || !same_value(plain, family, 1))
      history_wrong(history, "%s.plain%s and family%s differ at key %lld", schema, end, end,
                    (long long)key);
    if (key == 0 && !*end) state->commit = (uint64_t)sqlite3_column_int64(plain, 1);
    state->rows = mix_row(state->rows, plain);
  }
  history_finish(history, plain);
  history_finish(history, family);
}

struct history_state history_look(const struct history *history, sqlite3 *db, const char *schema) {
  struct history_state state = {0, 0xcbf29ce484222325u};
  struct names names;
  list_tables(history, db, schema, &names);
  for (size_t i = 0; i < names.count / 2; i++)
    look_at_pair(history, db, schema, names.names[i] + strlen("family"), &state);
  return state;
}
