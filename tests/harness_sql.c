/* See harness_sql.h. */
#include "harness_sql.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef SQLITE_CORE
int sqlite3_colfam_init(sqlite3 *db, char **message, const sqlite3_api_routines *api);
#endif

#ifndef COLFAM_SO
#define COLFAM_SO "build/colfam.so"
#endif

const char *sql_extension(void) {
  const char *path = getenv("COLFAM_SO");
  return path ? path : COLFAM_SO;
}

static int load(sqlite3 *db, char **message) {
#ifdef SQLITE_CORE
  int rc = sqlite3_colfam_init(db, message, NULL);
  return rc == SQLITE_OK_LOAD_PERMANENTLY ? SQLITE_OK : rc;
#else
  sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 1, NULL);
  return sqlite3_load_extension(db, sql_extension(), "sqlite3_colfam_init", message);
#endif
}

static int threads_wanted;
static int threads_set = -1;

void sql_use_threads(int threads) {
  threads_wanted = threads;
}

/* A setting of the process, which a first connection makes. */
static void set_threads(sqlite3 *db) {
  int wanted = getenv("COLFAM_THREADS") ? 1 : threads_wanted;
  const char *sql[] = {"SELECT colfam_config('threads', 0)", "SELECT colfam_config('threads', 1)"};
  if (threads_set != wanted && sqlite3_exec(db, sql[wanted], NULL, NULL, NULL) == SQLITE_OK)
    threads_set = wanted;
}

int sql_load(sqlite3 *db, char **message) {
  int rc = load(db, message);
  if (rc == SQLITE_OK) set_threads(db);
  return rc;
}

const char *sql_path(const char *name) {
  static _Thread_local char paths[4][PATH_MAX];
  static _Thread_local int next;
  char *path = paths[next++ % 4];
  snprintf(path, PATH_MAX, "%s/%s", harness_dir(), name);
  return path;
}

/* As the shell is from 3.42 on. */
static void set_defensive(sqlite3 *db, int defensive) {
  sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, defensive, NULL);
  sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, !defensive, NULL);
}

/* A preloaded library may have been missed. */
static void check_version(void) {
  const char *version = getenv("COLFAM_SQLITE");
  if (version) ck_assert_str_eq(sqlite3_libversion(), version);
}

sqlite3 *sql_open(const char *path) {
  sqlite3 *db = NULL;
  check_version();
  char *message = NULL;
  int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_URI;
  int rc = sqlite3_open_v2(path, &db, flags, NULL);
  ck_assert_msg(rc == SQLITE_OK, "%s: %s", path, sqlite3_errmsg(db));
  rc = sql_load(db, &message);
  ck_assert_msg(rc == SQLITE_OK, "%s: %s", sql_extension(), message);
  sqlite3_extended_result_codes(db, 1);
  if (getenv("COLFAM_DEFENSIVE")) set_defensive(db, 1);
  return db;
}

void sql_trust(sqlite3 *db) {
  set_defensive(db, 0);
}

void sql_close(sqlite3 *db) {
  int rc = sqlite3_close(db);
  ck_assert_msg(rc == SQLITE_OK, "close: %s", sqlite3_errmsg(db));
}

void sql_ok(sqlite3 *db, const char *sql) {
  int rc = sqlite3_exec(db, sql, NULL, NULL, NULL);
  ck_assert_msg(rc == SQLITE_OK, "%.300s: code %d: %s", sql, rc, sqlite3_errmsg(db));
}

void sql_okf(sqlite3 *db, const char *format, ...) {
  va_list args;
  va_start(args, format);
  char *sql = sqlite3_vmprintf(format, args);
  va_end(args);
  ck_assert_ptr_nonnull(sql);
  sql_ok(db, sql);
  sqlite3_free(sql);
}

void sql_fails(sqlite3 *db, const char *sql, int code, const char *text) {
  char *message = NULL;
  int rc = sqlite3_exec(db, sql, NULL, NULL, &message);
  if (code < 256) rc &= 0xff;
  ck_assert_msg(rc == code, "%.300s: code %d, not %d: %s", sql, rc, code, message);
  ck_assert_msg(!text || (message && strstr(message, text)), "%.300s: no '%s' in: %s", sql, text,
                message);
  sqlite3_free(message);
}

static sqlite3_stmt *prepare(sqlite3 *db, const char *sql) {
  sqlite3_stmt *stmt = NULL;
  int rc = sqlite3_prepare_v2(db, sql, -1, &stmt, NULL);
  ck_assert_msg(rc == SQLITE_OK, "%.300s: code %d: %s", sql, rc, sqlite3_errmsg(db));
  ck_assert_msg(stmt != NULL, "%.300s: no statement", sql);
  return stmt;
}

static void append_value(sqlite3_str *text, sqlite3_stmt *stmt, int column) {
  int type = sqlite3_column_type(stmt, column);
  if (type == SQLITE_NULL) {
    sqlite3_str_appendall(text, "NULL");
  } else if (type == SQLITE_BLOB) {
    const unsigned char *bytes = sqlite3_column_blob(stmt, column);
    int size = sqlite3_column_bytes(stmt, column);
    sqlite3_str_appendall(text, "x'");
    for (int i = 0; i < size; i++) sqlite3_str_appendf(text, "%02x", bytes[i]);
    sqlite3_str_appendall(text, "'");
  } else {
    const char *value = (const char *)sqlite3_column_text(stmt, column);
    sqlite3_str_append(text, value, sqlite3_column_bytes(stmt, column));
  }
}

char *sql_query(sqlite3 *db, const char *sql) {
  sqlite3_stmt *stmt = prepare(db, sql);
  sqlite3_str *text = sqlite3_str_new(NULL);
  int rc, row = 0;
  while ((rc = sqlite3_step(stmt)) == SQLITE_ROW) {
    if (row++) sqlite3_str_appendchar(text, 1, '\n');
    for (int i = 0; i < sqlite3_column_count(stmt); i++) {
      if (i) sqlite3_str_appendchar(text, 1, '|');
      append_value(text, stmt, i);
    }
  }
  ck_assert_msg(rc == SQLITE_DONE, "%.300s: code %d: %s", sql, rc, sqlite3_errmsg(db));
  sqlite3_finalize(stmt);
  char *result = sqlite3_str_finish(text);
  return result ? result : sqlite3_mprintf("");
}

/* ---- Tables in another order */

bool sql_native(void) {
  return !getenv("COLFAM_TEST_COMPARATOR");
}

static bool is_order(const char *name) {
  return !sql_native() && !strcmp(getenv("COLFAM_TEST_COMPARATOR"), name);
}

bool sql_reverse(void) {
  return is_order("reverse");
}

bool sql_has_ranges(void) {
  return sql_native() || sql_reverse();
}

bool sql_calls(void) {
  return is_order("test-backwards");
}

static bool is_word(const char *at, const char *word) {
  return strncmp(at, word, strlen(word)) == 0;
}

/* Walks the text's words outside of quotes: whether the whole of it has an ORDER BY, and whether a LIMIT
** stands where none of the same query is. */
static void find_order(const char *sql, bool *ordered, bool *chosen) {
  bool seen[32] = {false};
  int depth = 0;
  *chosen = false;
  for (bool quoted = false; *sql; sql++) {
    quoted ^= *sql == '\'';
    if (quoted) continue;
    if (*sql == '(' && depth < 31) seen[++depth] = false;
    if (*sql == ')' && depth) depth--;
    if (is_word(sql, "ORDER BY")) seen[depth] = true;
    if (is_word(sql, "LIMIT") && !seen[depth]) *chosen = true;
  }
  *ordered = seen[0];
}

bool sql_keeps_order(const char *sql) {
  bool ordered, chosen;
  find_order(sql, &ordered, &chosen);
  return sql_native() || ordered;
}

bool sql_chooses_rows(const char *sql) {
  bool ordered, chosen;
  find_order(sql, &ordered, &chosen);
  return !sql_native() && chosen;
}

static int compare_texts(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The parts between these letters, with the first letter between all of them. */
static void sort_parts(char *text, const char *letters) {
  size_t count = 1, n = 0;
  for (const char *c = text; *c; c++) count += strchr(letters, *c) != NULL;
  char *copy = strdup(text), **parts = malloc(count * sizeof *parts), *rest = copy;
  for (char *part; n < count && (part = strsep(&rest, letters));) parts[n++] = part;
  qsort(parts, n, sizeof *parts, compare_texts);
  for (size_t i = 0; i < n; i++) {
    text = stpcpy(text, parts[i]);
    if (i + 1 < n) *text++ = *letters;
  }
  free(parts);
  free(copy);
}

/* What group_concat has joined, in each column of each line (of both, "t:" stands before a column). */
static void sort_groups(char *rows) {
  static const char between[] = "\n|:";
  while (*rows) {
    size_t size = strcspn(rows, between);
    char end = rows[size];
    rows[size] = 0;
    sort_parts(rows, ",;");
    rows[size] = end;
    rows += size + (end != 0);
  }
}

/* As many rows, without what they are. */
static void keep_count(char *rows) {
  char *into = rows;
  if (*rows && *rows != '\n') *into++ = '1';
  for (; *rows; rows++)
    if (*rows == '\n') *into++ = '\n';
  *into = 0;
}

void sql_settle_order(const char *sql, char *rows) {
  if (sql_chooses_rows(sql)) {
    keep_count(rows);
  } else if (!sql_keeps_order(sql)) {
    if (strstr(sql, "group_concat")) sort_groups(rows);
    sort_parts(rows, "\n");
  }
}

void sql_rows(sqlite3 *db, const char *sql, const char *expected) {
  char *rows = sql_query(db, sql), *wanted = sqlite3_mprintf("%s", expected);
  sql_settle_order(sql, rows);
  sql_settle_order(sql, wanted);
  ck_assert_msg(!strcmp(rows, wanted), "%.300s\n--- got\n%s\n--- expected\n%s", sql, rows, wanted);
  sqlite3_free(rows);
  sqlite3_free(wanted);
}

void sql_same(sqlite3 *db, const char *sql, const char *other) {
  char *expected = sql_query(db, other);
  sql_rows(db, sql, expected);
  sqlite3_free(expected);
}

sqlite3_int64 sql_int(sqlite3 *db, const char *sql) {
  sqlite3_stmt *stmt = prepare(db, sql);
  int rc = sqlite3_step(stmt);
  ck_assert_msg(rc == SQLITE_ROW, "%.300s: code %d: %s", sql, rc, sqlite3_errmsg(db));
  sqlite3_int64 value = sqlite3_column_int64(stmt, 0);
  sqlite3_finalize(stmt);
  return value;
}

void sql_plan(sqlite3 *db, const char *sql, const char *text) {
  if (!sql_has_ranges() && strstr(text, "range")) return;
  char *explain = sqlite3_mprintf("EXPLAIN QUERY PLAN %s", sql);
  char *plan = sql_query(db, explain);
  ck_assert_msg(strstr(plan, text) != NULL, "%.300s: no '%s' in plan:\n%s", sql, text, plan);
  sqlite3_free(plan);
  sqlite3_free(explain);
}
