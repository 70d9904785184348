/* Long values are lent to SQLite where they lie in the cache. They are what was written however long they are
** held: over other rows, the end of the cursor, a cache that may keep nothing, merges, and threads that lend
** the same blocks. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "harness_sql.h"

enum { ROWS = 300, STATEMENTS = 150 };

static sqlite3 *db;

/* Texts and blobs of row k: of all lengths around those from which values are lent, and are stored apart. */
#define ROW(k)                                                            \
  "substr(hex(zeroblob(9000)) || " k ", -(1000 + " k " * 7 %% 9000)) || " \
  "printf('%%05d', " k ")"

static void fill(void) {
  sql_okf(db,
          "WITH RECURSIVE n(k) AS (SELECT 1 UNION ALL SELECT k + 1 FROM n WHERE k < %d)"
          "INSERT INTO t SELECT k, " ROW("k") ", CAST(" ROW("(k * 31)") " AS BLOB) FROM n",
          ROWS);
  sql_ok(db, "INSERT INTO t(t) VALUES('compact')");
}

static void open_database(void) {
  db = sql_open(sql_path("lent.db"));
  sql_ok(db, "PRAGMA journal_mode = wal; PRAGMA synchronous = off;"
             "SELECT colfam_config('cache_bytes', 33554432);"
             "CREATE VIRTUAL TABLE t USING colfam(k INTEGER PRIMARY KEY, a TEXT, b BLOB)");
  fill();
}

static void close_database(void) {
  sql_close(db);
}

static sqlite3_stmt *prepare(sqlite3 *on, const char *sql) {
  sqlite3_stmt *stmt;
  ck_assert_msg(sqlite3_prepare_v2(on, sql, -1, &stmt, NULL) == SQLITE_OK, "%s",
                sqlite3_errmsg(on));
  return stmt;
}

/* Whether the columns 1 and 2 at hand are those of the row whose key is in column 0. */
static bool is_whole(sqlite3_stmt *stmt) {
  int k = sqlite3_column_int(stmt, 0);
  for (int column = 1; column <= 2; column++) {
    int row = column == 1 ? k : k * 31;
    char tail[32];
    size_t size = (size_t)sqlite3_column_bytes(stmt, column);
    const char *bytes = sqlite3_column_blob(stmt, column);
    snprintf(tail, sizeof tail, "%d%05d", row, row);
    size_t front = 1000 + (size_t)(row * 7 % 9000) + 5 - strlen(tail);
    if (size != front + strlen(tail) || memcmp(bytes + front, tail, strlen(tail)) != 0)
      return false;
    for (size_t i = 0; i < front; i++)
      if (bytes[i] != '0') return false;
  }
  return true;
}

static int count_whole(sqlite3 *on, const char *sql) {
  sqlite3_stmt *stmt = prepare(on, sql);
  int count = 0, rc;
  while ((rc = sqlite3_step(stmt)) == SQLITE_ROW) count += is_whole(stmt);
  return sqlite3_finalize(stmt) == SQLITE_OK && rc == SQLITE_DONE ? count : -1;
}

/* All keys. */
#define KEYS \
  "WITH RECURSIVE n(k) AS (SELECT 1 UNION ALL SELECT k + 1 FROM n WHERE k < 300) SELECT k FROM n"
#define LISTED " FROM t WHERE k IN (" KEYS ")"

static const char *const reads[] = {
    "SELECT k, a, b" LISTED,
    "SELECT k, a, b" LISTED " ORDER BY a",
    "SELECT k, a, b" LISTED " GROUP BY k",
    "SELECT k, (SELECT a FROM t WHERE k IN (n.k, 100000)), (SELECT b FROM t WHERE k = n.k)"
    " FROM (" KEYS ") n",
    "SELECT k, max(a), b" LISTED " GROUP BY k + 0",
    "SELECT k, CAST(CAST(a AS BLOB) AS TEXT), b" LISTED,
};

START_TEST(each_row_is_whole) {
  static const int budgets[] = {33554432, 65536, 0};
  for (int i = 0; i < 3; i++) {
    sql_okf(db, "SELECT colfam_config('cache_bytes', %d)", budgets[i]);
    ck_assert_int_eq(count_whole(db, reads[_i]), ROWS);
  }
}
END_TEST

/* More than there are places for: the rest is copied. The cache may keep nothing, files are merged away and
** rows deleted meanwhile. */
START_TEST(many_statements_hold_their_rows) {
  static sqlite3_stmt *stmts[STATEMENTS];
  char sql[100];
  for (int i = 0; i < STATEMENTS; i++) {
    snprintf(sql, sizeof sql, "SELECT k, a, b FROM t WHERE k IN (%d, %d)", i % 90 + 1,
             i % 90 + 101);
    stmts[i] = prepare(db, sql);
    ck_assert_int_eq(sqlite3_step(stmts[i]), SQLITE_ROW);
    ck_assert(is_whole(stmts[i]));
  }
  sql_ok(db, "SELECT colfam_config('cache_bytes', 0)");
  sqlite3 *other = sql_open(sql_path("lent.db"));
  sql_ok(other, "DELETE FROM t; INSERT INTO t(t) VALUES('compact')");
  for (int i = 0; i < STATEMENTS; i++) ck_assert(is_whole(stmts[i]));
  for (int i = 0; i < STATEMENTS; i++) {
    int at = i * 7 % STATEMENTS;
    ck_assert_int_eq(sqlite3_step(stmts[at]), SQLITE_ROW);
    ck_assert(is_whole(stmts[at]));
    if (i % 3 == 0) ck_assert_int_eq(sqlite3_step(stmts[at]), SQLITE_DONE);
    sqlite3_finalize(stmts[at]);
  }
  ck_assert_int_eq(sql_int(other, "SELECT count(*) FROM t"), 0);
  sql_close(other);
}
END_TEST

/* A value that is taken away lives on its own; one that is written again is another's. */
START_TEST(values_outlive_their_statement) {
  sqlite3_stmt *stmt = prepare(db, "SELECT k, a, b FROM t WHERE k IN (7, 100000)");
  ck_assert_int_eq(sqlite3_step(stmt), SQLITE_ROW);
  sqlite3_value *kept = sqlite3_value_dup(sqlite3_column_value(stmt, 1));
  char *text = sqlite3_mprintf("%s", sqlite3_column_text(stmt, 1));
  sqlite3_finalize(stmt);
  sql_ok(db, "SELECT colfam_config('cache_bytes', 0);"
             "UPDATE t SET a = a || 'x', b = a WHERE k IN (7, 8);"
             "INSERT INTO t(t) VALUES('compact')");
  ck_assert_str_eq((const char *)sqlite3_value_text(kept), text);
  sqlite3_value_free(kept);
  char *sql =
      sqlite3_mprintf("SELECT a = %Q || 'x' AND b = %Q FROM t WHERE k IN (7, 100000)", text, text);
  ck_assert_int_eq(sql_int(db, sql), 1);
  sqlite3_free(sql);
  sqlite3_free(text);
}
END_TEST

enum { THREADS = 4 };

static void *read_all(void *arg) {
  sqlite3 *own = arg;
  static int unsound;
  for (int i = 0; i < 6; i++)
    if (count_whole(own, reads[i % 3]) != ROWS) return &unsound;
  return NULL;
}

START_TEST(threads_lend_the_same_blocks) {
  sqlite3 *own[THREADS];
  pthread_t threads[THREADS];
  sql_ok(db, "SELECT colfam_config('cache_bytes', 262144)");
  for (int i = 0; i < THREADS; i++) own[i] = sql_open(sql_path("lent.db"));
  for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, read_all, own[i]);
  for (int i = 0; i < THREADS; i++) {
    void *unsound;
    pthread_join(threads[i], &unsound);
    ck_assert_ptr_null(unsound);
  }
  for (int i = 0; i < THREADS; i++) sql_close(own[i]);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("sql_lent");
  TCase *tcase = tcase_create("lent");
  tcase_set_timeout(tcase, 60);
  tcase_add_checked_fixture(tcase, open_database, close_database);
  tcase_add_loop_test(tcase, each_row_is_whole, 0, sizeof reads / sizeof *reads);
  tcase_add_test(tcase, many_statements_hold_their_rows);
  tcase_add_test(tcase, values_outlive_their_statement);
  tcase_add_test(tcase, threads_lend_the_same_blocks);
  suite_add_tcase(suite, tcase);
  return harness_run(suite);
}
