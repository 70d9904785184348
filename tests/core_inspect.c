/* The functions and tables for looking inside when memory runs out at every place: the statement fails with
** SQLITE_NOMEM or gives the whole answer, nothing leaks, and the next call works. */
#include <stdio.h>
#include <string.h>

#include "engine/mem.h"
#include "harness_oom.h"
#include "harness_sql.h"

static const char *const statements[] = {
    "SELECT colfam_version(), colfam_debug() NOT NULL",
    "SELECT colfam_may_exist('t', 'a', 1), colfam_may_exist('main.\"t\"', 'zz', '2')",
    "SELECT colfam_may_exist('r', 2)",
    "SELECT count(*), count(DISTINCT name) FROM colfam_stats WHERE table_name = 't'",
    "SELECT table_name, rows, bytes, levels, options, problem FROM colfam_families",
    "SELECT rows, tombstones, raw_bytes, smallest, largest, problem FROM colfam_files('t')",
    "SELECT * FROM colfam_check('t')",
    "SELECT count(*) FROM colfam_check('damaged')",
    "SELECT a, b, colfam_doubtful FROM saved",
    "SELECT k FROM saved_backwards",
};
enum { STATEMENTS = sizeof statements / sizeof *statements };

/* Two files and a log in t, a log in r, a file cut short in damaged, texts in descending order in
** backwards. */
static void make_database(const char *path) {
  sqlite3 *db = sql_open(path);
  sql_trust(db);
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(a TEXT, b INT, v, PRIMARY KEY(a, b DESC));"
             "WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n WHERE i < 50)"
             "INSERT INTO t SELECT 'key' || i, i, randomblob(100) FROM n;"
             "INSERT INTO t(t) VALUES('flush'); DELETE FROM t WHERE a = 'key7';"
             "INSERT INTO t VALUES('it''s', 1.5, 'x'); INSERT INTO t(t) VALUES('flush');"
             "INSERT INTO t VALUES('a', 1, 'x');"
             "CREATE VIRTUAL TABLE r USING colfam(v); INSERT INTO r VALUES(1), (2);"
             "CREATE VIRTUAL TABLE damaged USING colfam(k PRIMARY KEY);"
             "INSERT INTO damaged VALUES(1); INSERT INTO damaged(damaged) VALUES('flush');"
             "UPDATE damaged_cffile SET bytes = bytes + 1;"
             "CREATE VIRTUAL TABLE backwards USING colfam(k TEXT, PRIMARY KEY(k DESC));"
             "INSERT INTO backwards VALUES('one'), ('two'), ('three')");
  sql_close(db);
}

/* As sql_query, but a failure is the answer too: its code. */
static int run(sqlite3 *db, const char *sql, char **rows) {
  sqlite3_stmt *stmt = NULL;
  *rows = NULL;
  int rc = sqlite3_prepare_v2(db, sql, -1, &stmt, NULL);
  sqlite3_str *text = sqlite3_str_new(NULL);
  while (!rc && (rc = sqlite3_step(stmt)) == SQLITE_ROW) {
    for (int i = 0; i < sqlite3_column_count(stmt); i++) {
      sqlite3_str_appendf(text, "%s|", (const char *)sqlite3_column_text(stmt, i));
    }
    sqlite3_str_appendchar(text, 1, '\n');
    rc = SQLITE_OK;
  }
  rc = sqlite3_finalize(stmt);
  *rows = sqlite3_str_finish(text);
  if (*rows) sql_settle_order(sql, *rows);
  return rc;
}

static void check_rows(const char *sql, int n, const char *rows, const char *expected) {
  bool same = rows && expected ? !strcmp(rows, expected) : rows == expected;
  ck_assert_msg(same, "%s: allocation %d: %s, not %s", sql, n, rows, expected);
}

/* With the tables of salvage, for a statement that reads one. */
static sqlite3 *open_for(const char *path, const char *sql) {
  sqlite3 *db = sql_open(path);
  if (strstr(sql, "saved"))
    sql_ok(db, "CREATE VIRTUAL TABLE temp.saved USING colfam_salvage(t);"
               "CREATE VIRTUAL TABLE temp.saved_backwards USING colfam_salvage(backwards)");
  return db;
}

/* Every nth allocation of the heap fails once while `sql` runs; a fresh connection each time when cold. */
static void fail_everywhere(const char *path, const char *sql, enum oom_heap heap, bool sticky,
                            bool cold) {
  sqlite3 *db = open_for(path, sql);
  char *expected = NULL, *rows = NULL;
  ck_assert_int_eq(run(db, sql, &expected), SQLITE_OK);
  bool failed = true;
  for (int n = 1; failed; n++) {
    if (cold) {
      sql_close(db);
      db = open_for(path, sql);
    }
    oom_fail_nth(heap, n, sticky);
    int rc = run(db, sql, &rows);
    failed = oom_stop(heap);
    /* When only the copy of the answer failed there is no text. */
    ck_assert_msg(rc == SQLITE_OK || (rc & 0xff) == SQLITE_NOMEM, "%s: allocation %d: code %d: %s",
                  sql, n, rc, sqlite3_errmsg(db));
    if (rc == SQLITE_OK && rows) check_rows(sql, n, rows, expected);
    sqlite3_free(rows);
    ck_assert_int_eq(sqlite3_txn_state(db, NULL), SQLITE_TXN_NONE);
    rc = run(db, sql, &rows);
    ck_assert_msg(rc == SQLITE_OK, "%s: after allocation %d: code %d", sql, n, rc);
    check_rows(sql, n, rows, expected);
    sqlite3_free(rows);
  }
  sqlite3_free(expected);
  sql_close(db);
}

static void fail_statement(int i, enum oom_heap heap) {
  char path[4096];
  snprintf(path, sizeof path, "%s", sql_path("app.db"));
  make_database(path);
  int64_t blocks = kv_mem_live_blocks();
  sqlite3_int64 bytes = sqlite3_memory_used();
  fail_everywhere(path, statements[i], heap, false, true);
  fail_everywhere(path, statements[i], heap, false, false);
  fail_everywhere(path, statements[i], heap, true, false);
  ck_assert_int_eq(sqlite3_memory_used(), bytes);
  ck_assert_int_eq(kv_mem_live_blocks(), blocks);
}

START_TEST(every_allocation_of_sqlite_fails) {
  fail_statement(_i, OOM_SQLITE);
}
END_TEST

START_TEST(every_allocation_of_the_engine_fails) {
  fail_statement(_i, OOM_ENGINE);
}
END_TEST

int main(void) {
  oom_install();
  Suite *suite = suite_create("core_inspect");
  TCase *tcase = tcase_create("inspect");
  tcase_set_timeout(tcase, 120);
  tcase_add_loop_test(tcase, every_allocation_of_sqlite_fails, 0, STATEMENTS);
  tcase_add_loop_test(tcase, every_allocation_of_the_engine_fails, 0, STATEMENTS);
  suite_add_tcase(suite, tcase);
  return harness_run(suite);
}
