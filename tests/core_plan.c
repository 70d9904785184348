/* Plans as a number, and reads when memory runs out at every place: the statement fails with SQLITE_NOMEM or
** gives all its rows, nothing leaks, and the next statement works. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "engine/mem.h"
#include "ext/plan.h"
#include "harness_oom.h"
#include "harness_sql.h"

/* ---- The code */

static struct colfam_plan random_plan(struct harness_random *random) {
  return (struct colfam_plan){
      .kind = (enum colfam_plan_kind)harness_below(random, 7),
      .equal_count = (int)harness_below(random, COLFAM_PLAN_COLUMNS_MAX + 1),
      .lists = (unsigned)harness_below(random, 1 << COLFAM_PLAN_LIST_COLUMNS_MAX),
      .pattern = harness_below(random, 2),
      .order_from = (int)harness_below(random, COLFAM_PLAN_COLUMNS_MAX + 1),
      .has_lower = harness_below(random, 2),
      .lower_open = harness_below(random, 2),
      .has_upper = harness_below(random, 2),
      .upper_open = harness_below(random, 2),
      .upper_plain = harness_below(random, 2),
      .backwards = harness_below(random, 2)};
}

START_TEST(plan_survives_its_code) {
  struct harness_random random;
  harness_seed(&random, harness_seed_env(3));
  for (int i = 0; i < 100000; i++) {
    struct colfam_plan plan = random_plan(&random), back;
    int code = colfam_plan_encode(&plan);
    ck_assert_int_ge(code, 0);
    colfam_plan_decode(code, &back);
    ck_assert_int_eq(back.kind, plan.kind);
    ck_assert_int_eq(back.equal_count, plan.equal_count);
    ck_assert_uint_eq(back.lists, plan.lists);
    ck_assert_int_eq(back.order_from, plan.order_from);
    ck_assert(back.has_lower == plan.has_lower && back.lower_open == plan.lower_open);
    ck_assert(back.has_upper == plan.has_upper && back.upper_open == plan.upper_open);
    ck_assert(back.backwards == plan.backwards && back.upper_plain == plan.upper_plain);
    ck_assert(back.pattern == plan.pattern);
  }
}
END_TEST

START_TEST(key_of_very_many_columns) {
  sqlite3 *db = sql_open(sql_path("app.db"));
  sqlite3_str *columns = sqlite3_str_new(NULL), *where = sqlite3_str_new(NULL);
  sqlite3_str *values = sqlite3_str_new(NULL), *key = sqlite3_str_new(NULL);
  for (int i = 0; i < 200; i++) {
    sqlite3_str_appendf(columns, "c%d INT, ", i);
    sqlite3_str_appendf(key, "%sc%d%s", i ? ", " : "", i, i % 3 ? "" : " DESC");
    sqlite3_str_appendf(where, "%sc%d = %d", i ? " AND " : "", i, i);
    sqlite3_str_appendf(values, "%s%d", i ? ", " : "", i);
  }
  char *c = sqlite3_str_finish(columns), *k = sqlite3_str_finish(key);
  char *w = sqlite3_str_finish(where), *v = sqlite3_str_finish(values);
  sql_okf(db, "CREATE VIRTUAL TABLE t USING colfam(%sPRIMARY KEY(%s)); INSERT INTO t VALUES(%s)", c,
          k, v);
  char *sql = sqlite3_mprintf("SELECT c0, c127, c199 FROM t WHERE %s", w);
  sql_rows(db, sql, "0|127|199");
  sqlite3_free(sql);
  sqlite3_free(c);
  sqlite3_free(k);
  sqlite3_free(w);
  sqlite3_free(v);
  sql_close(db);
}
END_TEST

/* ---- Memory */

static const char *const statements[] = {
    "SELECT k, v FROM t WHERE k = 'key7'",
    "SELECT 1 FROM t WHERE k = 'key7'",
    "SELECT k, v FROM t WHERE k IN ('key1', 'key2', 'key3', 'none') ORDER BY k DESC",
    "SELECT k, v FROM t WHERE k BETWEEN 'key1' AND 'key3' ORDER BY k DESC",
    "SELECT count(*) FROM t",
    "SELECT k FROM t WHERE k = CAST('7' AS INTEGER)",
    "SELECT k FROM t WHERE k < CAST('8' AS INTEGER)",
    "SELECT a, b, v FROM c WHERE a IN ('x', 'y') AND b > 3",
    "SELECT a, b, v FROM c WHERE a IN ('x', 'y', 1) AND b IN ('key1', 'key3', 1, 2)",
    "SELECT a, b, v FROM c WHERE a IN (SELECT iif(k > 'key4', 'x', k) FROM t) AND b IN (SELECT k "
    "FROM t)",
    "SELECT k FROM t WHERE k GLOB 'key2*'",
    "SELECT k FROM t WHERE k LIKE 'KEY1%' ORDER BY k DESC",
    "SELECT k FROM g WHERE k LIKE 'ab%'",
    "SELECT k, v FROM t WHERE colfam_keys = '[\"key7\", \"ke\\u0079\\u0031\", 7, 2.5, null]'",
    "SELECT a, v FROM c WHERE colfam_keys = '[[\"x\", \"key3\"], [1, 1.0], [\"x\", 1e0]]'",
    "SELECT k FROM t WHERE colfam_keys = x'040000006b657937040000006b65793101000000370100000078'",
    "SELECT a, b, v FROM c WHERE a = CAST(1 AS INTEGER) ORDER BY b",
    "SELECT a, b, v FROM c WHERE a = CAST(1 AS INTEGER) AND b IN (1, 2) ORDER BY b DESC",
    "SELECT rowid FROM h",
    "SELECT k FROM u WHERE k = 1",
    "SELECT k FROM d WHERE k < (SELECT n FROM x)",
    "SELECT k FROM d WHERE k < (SELECT n FROM x) ORDER BY k DESC",
    "SELECT a, b FROM c WHERE a = CAST(1 AS INTEGER) AND b < (SELECT n FROM x) ORDER BY b",
};
enum { STATEMENTS = sizeof statements / sizeof *statements };

static void make_database(const char *path) {
  sqlite3 *db = sql_open(path);
  sql_ok(db,
         "CREATE VIRTUAL TABLE t USING colfam(k TEXT PRIMARY KEY, v);"
         "WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n WHERE i < 50)"
         "INSERT INTO t SELECT 'key' || i, i FROM n; INSERT INTO t VALUES('7', 0), ('07', 1);"
         "INSERT INTO t(t) VALUES('flush'); INSERT INTO t VALUES('key2x', 5);"
         "CREATE VIRTUAL TABLE c USING colfam(a TEXT, b, v, PRIMARY KEY(a, b DESC));"
         "INSERT INTO c SELECT 'x', k, v FROM t; INSERT INTO c VALUES('1', 1, 'a'), ('01', 2, 'b'),"
         " ('1.0', 1, 'c');"
         "CREATE VIRTUAL TABLE h USING colfam(v); INSERT INTO h VALUES(1), (2);"
         "CREATE VIRTUAL TABLE u USING colfam(k PRIMARY KEY); INSERT INTO u VALUES(1.0), ('1');"
         "CREATE VIRTUAL TABLE d USING colfam(k TEXT PRIMARY KEY, v);"
         "WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n WHERE i < 40)"
         "INSERT INTO d SELECT printf('%d-%02d', 2000 + i / 12, i % 12), i FROM n;"
         "INSERT INTO d VALUES('2002', 0), ('9', 1);"
         "INSERT INTO c VALUES('1', '7-a', 'd'), ('1', '7-b', 'd'), ('01', '8', 'e');"
         "CREATE TABLE x(n INTEGER); INSERT INTO x VALUES('+x');"
         "CREATE VIRTUAL TABLE g USING colfam(k TEXT COLLATE NOCASE PRIMARY KEY);"
         "INSERT INTO g VALUES('AB'), ('aBc'), ('b'), (x'6162')");
  sql_close(db);
}

static int run(sqlite3 *db, const char *sql, char **rows) {
  sqlite3_stmt *stmt = NULL;
  int rc = sqlite3_prepare_v2(db, sql, -1, &stmt, NULL);
  sqlite3_str *text = sqlite3_str_new(NULL);
  while (!rc && (rc = sqlite3_step(stmt)) == SQLITE_ROW) {
    for (int i = 0; i < sqlite3_column_count(stmt); i++)
      sqlite3_str_appendf(text, "%s|", (const char *)sqlite3_column_text(stmt, i));
    rc = SQLITE_OK;
  }
  rc = sqlite3_finalize(stmt);
  *rows = sqlite3_str_finish(text);
  return rc;
}

static void fail_everywhere(sqlite3 *db, const char *sql, enum oom_heap heap, bool sticky) {
  char *expected = NULL, *rows = NULL;
  ck_assert_int_eq(run(db, sql, &expected), SQLITE_OK);
  ck_assert_msg(expected != NULL, "%s", sql);
  bool failed = true;
  for (int n = 1; failed; n++) {
    oom_fail_nth(heap, n, sticky);
    int rc = run(db, sql, &rows);
    failed = oom_stop(heap);
    ck_assert_msg(rc == SQLITE_OK || (rc & 0xff) == SQLITE_NOMEM, "%s: allocation %d: code %d: %s",
                  sql, n, rc, sqlite3_errmsg(db));
    /* When only the copy of the answer failed there is no text; a cut copy has fewer rows. */
    if (rc == SQLITE_OK && rows && heap == OOM_ENGINE) ck_assert_str_eq(rows, expected);
    sqlite3_free(rows);
    ck_assert_int_eq(run(db, sql, &rows), SQLITE_OK);
    ck_assert_msg(strcmp(rows, expected) == 0, "%s: after allocation %d", sql, n);
    sqlite3_free(rows);
  }
  sqlite3_free(expected);
}

static void fail_statement(int i, enum oom_heap heap) {
  char path[4096];
  snprintf(path, sizeof path, "%s", sql_path("app.db"));
  make_database(path);
  int64_t blocks = kv_mem_live_blocks();
  sqlite3_int64 bytes = sqlite3_memory_used();
  sqlite3 *db = sql_open(path);
  fail_everywhere(db, statements[i], heap, false);
  fail_everywhere(db, statements[i], heap, true);
  sql_close(db);
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

/* Allocations of a statement for the first `rows` rows of r. */
static int64_t allocations(sqlite3 *db, const char *sql, int rows, const char *expected) {
  sqlite3_stmt *stmt;
  ck_assert_int_eq(sqlite3_prepare_v2(db, sql, -1, &stmt, NULL), SQLITE_OK);
  sqlite3_bind_int(stmt, 1, rows);
  oom_count();
  ck_assert_int_eq(sqlite3_step(stmt), SQLITE_ROW);
  int64_t count = (int64_t)oom_count();
  if (expected) ck_assert_str_eq((const char *)sqlite3_column_text(stmt, 0), expected);
  sqlite3_finalize(stmt);
  return count;
}

/* Once warm: a cursor opened for each row of another table, and a key looked up in it. */
START_TEST(a_lookup_in_a_loop_takes_no_memory) {
  static const char *const queries[][2] = {
      {"SELECT count(*) FROM r WHERE b <= ?1 AND EXISTS (SELECT 1 FROM t WHERE k = b)", "500"},
      {"SELECT count(*) FROM r WHERE b <= ?1 AND NOT EXISTS (SELECT 1 FROM t WHERE k = b)", "500"},
      {"SELECT count(k) FROM r CROSS JOIN t ON k = b WHERE b <= ?1", "500"},
      {"SELECT count(v) FROM r CROSS JOIN t ON k = b WHERE b <= ?1", "500"},
  };
  sqlite3 *db = sql_open(sql_path("app.db"));
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(k INT PRIMARY KEY, v);"
             "CREATE TABLE r(b INTEGER PRIMARY KEY); WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL"
             " SELECT i + 1 FROM n WHERE i < 1000) INSERT INTO r SELECT i FROM n;"
             "INSERT INTO t SELECT b, b FROM r WHERE b % 2; INSERT INTO t(t) VALUES('flush')");
  for (size_t i = 0; i < sizeof queries / sizeof *queries; i++) {
    allocations(db, queries[i][0], 1000, queries[i][1]);
    int64_t few = allocations(db, queries[i][0], 10, NULL);
    int64_t many = allocations(db, queries[i][0], 1000, queries[i][1]);
    ck_assert_msg(many - few <= 10, "%s: %lld allocations", queries[i][0], (long long)(many - few));
  }
  sql_close(db);
}
END_TEST

int main(void) {
  oom_install();
  Suite *suite = suite_create("core_plan");
  TCase *tcase = tcase_create("plan");
  tcase_set_timeout(tcase, 60);
  tcase_add_test(tcase, plan_survives_its_code);
  tcase_add_test(tcase, key_of_very_many_columns);
  tcase_add_test(tcase, a_lookup_in_a_loop_takes_no_memory);
  tcase_add_loop_test(tcase, every_allocation_of_sqlite_fails, 0, STATEMENTS);
  tcase_add_loop_test(tcase, every_allocation_of_the_engine_fails, 0, STATEMENTS);
  suite_add_tcase(suite, tcase);
  return harness_run(suite);
}
