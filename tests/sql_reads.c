/* How statements read: the plan's words, how often the engine is called for them, what a cursor
** sees while its table is written, and errors that end a statement instead of hiding rows. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness_sql.h"

static sqlite3 *db;

static void open_database(void) {
  db = sql_open(sql_path("app.db"));
  sql_ok(db, "PRAGMA synchronous = OFF");
}

static void close_database(void) {
  sql_close(db);
}

/* Rows (i, 'v' || i) of the even numbers up to 2 * n; then a file, a file and a log. */
static void fill(const char *table, int n) {
  for (int part = 0; part < 3; part++) {
    sql_okf(db,
            "WITH RECURSIVE s(i) AS (VALUES(%d) UNION ALL SELECT i + 3 FROM s WHERE i + 3 <= %d)"
            "INSERT INTO %s SELECT i * 2, 'v' || (i * 2) FROM s",
            part + 1, n, table);
    if (part < 2) sql_okf(db, "INSERT INTO %s(%s) VALUES('flush')", table, table);
  }
}

static sqlite3_int64 counter(const char *table, const char *name) {
  char *sql = sqlite3_mprintf("SELECT value FROM colfam_stats WHERE table_name = %Q AND name = %Q",
                              table, name);
  sqlite3_int64 value = sql_int(db, sql);
  sqlite3_free(sql);
  return value;
}

/* ---- Plans */

struct plan {
  const char *sql;
  const char *words;
  bool sorts;
  const char *newer_words; /* when SQLite 3.47 and newer let other ones come out */
};

static const char *words_of(const struct plan *plan) {
  bool newer = plan->newer_words && sqlite3_libversion_number() >= 3047000;
  return newer ? plan->newer_words : plan->words;
}

static void check_plan(const struct plan *plan) {
  if (!sql_has_ranges()) return;
  const char *words = words_of(plan);
  char *sql = sqlite3_mprintf("EXPLAIN QUERY PLAN %s", plan->sql);
  char *text = sql_query(db, sql);
  /* The words follow the number and stand alone. */
  const char *at = strstr(text, words);
  char before = at && at > text ? at[-1] : 0, after = at ? at[strlen(words)] : 'x';
  ck_assert_msg(before == ':' && (!after || after == '\n' || after == ' '), "%s: no '%s' in\n%s",
                plan->sql, words, text);
  bool sorts = strstr(text, "ORDER BY") != NULL;
  ck_assert_msg(sorts == plan->sorts, "%s: %s", plan->sql, text);
  sqlite3_free(text);
  sqlite3_free(sql);
}

static const struct plan plans[] = {
    /* One key column. */
    {"SELECT * FROM t", "scan", false, NULL},
    {"SELECT * FROM t WHERE v = 1", "scan", false, NULL},
    {"SELECT * FROM t WHERE k = ?", "get k", false, NULL},
    {"SELECT * FROM t WHERE k IS 5", "get k", false, NULL},
    {"SELECT v FROM t WHERE k = ? AND k > 3", "get k", false, NULL},
    {"SELECT * FROM t WHERE k = ? ORDER BY v", "get k", false, NULL},
    {"SELECT k FROM t WHERE k = ?", "exists k", false, NULL},
    {"SELECT count(*) FROM t WHERE k = ?", "exists k", false, NULL},
    {"SELECT EXISTS (SELECT 1 FROM t WHERE k = ?)", "exists k", false, NULL},
    {"SELECT EXISTS (SELECT * FROM t WHERE k = ?)", "get k", false, NULL},
    {"SELECT * FROM t WHERE k IN (1, 2, 3)", "multi-get k", false, NULL},
    {"SELECT * FROM t WHERE k IN (SELECT b FROM r)", "multi-get k", false, NULL},
    {"SELECT * FROM t WHERE k IN (1, 2, 3) ORDER BY k DESC", "multi-get k", false, NULL},
    {"SELECT * FROM t WHERE k = 1 OR k = 7", "multi-get k", false, NULL},
    {"SELECT * FROM t WHERE k > ?", "range k", false, NULL},
    {"SELECT * FROM t WHERE k < ? AND k >= ? ORDER BY k DESC", "range k", false, NULL},
    {"SELECT * FROM t WHERE k BETWEEN 1 AND 2 ORDER BY k, v", "range k", false, NULL},
    {"SELECT * FROM t ORDER BY k", "range k", false, NULL},
    {"SELECT * FROM t ORDER BY k DESC LIMIT 3", "range k", false, NULL},
    {"SELECT * FROM t ORDER BY v, k", "scan", true, NULL},
    {"SELECT max(k) FROM t", "range k", false, NULL},
    {"SELECT count(*) FROM t", "count", false, "count or scan"},
    {"SELECT count(*) FROM c", "count", false, NULL},
    {"SELECT count(*) FROM h", "count", false, NULL},
    {"SELECT k FROM c", "scan", false, NULL},
    {"SELECT count(v) FROM t", "scan", false, NULL},
    {"SELECT k FROM t", "scan", false, "count or scan"},
    {"SELECT count(*) FROM t WHERE v", "scan", false, NULL},
    {"SELECT * FROM t WHERE k NOT IN (1, 2)", "scan", false, NULL},
    {"SELECT * FROM t WHERE k <> 1", "scan", false, NULL},
    {"SELECT * FROM r LEFT JOIN t ON k = r.b", "get k", false, NULL},
    {"SELECT r.b FROM r LEFT JOIN x ON k = r.b", "exists k", false, NULL},
    {"DELETE FROM t WHERE k = 5", "exists k", false, NULL},
    {"UPDATE t SET v = 1 WHERE k = 5", "get k", false, NULL},
    /* Text: other collations are no bounds. */
    {"SELECT * FROM x WHERE k = 'a' COLLATE NOCASE", "scan", false, NULL},
    {"SELECT * FROM x WHERE k = 1 ORDER BY k", "get k", false, NULL},
    {"SELECT * FROM x WHERE k = 'a' ORDER BY v", "get k", true, NULL},
    /* Composite: k TEXT, at INTEGER DESC, n. */
    {"SELECT * FROM c WHERE k = ?", "range k=", false, NULL},
    {"SELECT * FROM c WHERE k = ? AND at = ?", "range k=,at=", false, NULL},
    {"SELECT * FROM c WHERE k = ? AND at = ? AND n = ?", "get k,at,n", false, NULL},
    {"SELECT 1 FROM c WHERE k = ? AND at = ? AND n = ?", "exists k,at,n", false, NULL},
    {"SELECT * FROM c WHERE k = ? AND at > ?", "range k=,at", false, NULL},
    {"SELECT * FROM c WHERE k > ? AND at = ?", "range k", false, NULL},
    {"SELECT * FROM c WHERE at = ?", "scan", false, NULL},
    {"SELECT * FROM c WHERE k = ? AND n = ?", "range k=", false, NULL},
    {"SELECT * FROM c WHERE k = ? AND at = ? AND n IN (1, 2)", "multi-get k,at,n", false, NULL},
    {"SELECT * FROM c WHERE k IN ('a', 'b') AND at = 1 AND n = 2", "multi-get k,at,n", false, NULL},
    {"SELECT * FROM c WHERE k IN ('a', 'b') AND at > 5", "range k=,at", false, NULL},
    {"SELECT * FROM c WHERE k IN ('a', 'b') AND at IN (1, 2)", "range k=,at=", false, NULL},
    {"SELECT * FROM c WHERE k IN ('a', 'b') AND at IN (1, 2) AND n IN (3, 4)", "multi-get k,at,n",
     false, NULL},
    {"SELECT * FROM c WHERE k IN ('a', 'b') AND at IN (1, 2) ORDER BY k DESC, at",
     "range k=,at=", false, NULL},
    {"SELECT * FROM c WHERE k IN ('a', 'b') AND at IN (1, 2) AND n > 4 ORDER BY k, at DESC, n",
     "range k=,at=,n", false, NULL},
    {"SELECT * FROM c WHERE k = ? ORDER BY at DESC LIMIT 9", "range k=", false, NULL},
    {"SELECT * FROM c WHERE k = ? ORDER BY at, n DESC", "range k=", false, NULL},
    {"SELECT * FROM c WHERE k = ? ORDER BY at, n", "range k=", true, NULL},
    {"SELECT * FROM c WHERE k = ? AND at = 5 ORDER BY n", "range k=,at=", false, NULL},
    {"SELECT * FROM c WHERE k IN ('a', 'b') ORDER BY k, at DESC", "range k=", false, NULL},
    {"SELECT * FROM c WHERE k IN ('a', 'b') ORDER BY at", "range k=", true, NULL},
    {"SELECT * FROM c ORDER BY k, at DESC, n, v", "range k", false, NULL},
    {"SELECT * FROM c ORDER BY k, at", "scan", true, NULL},
    {"SELECT * FROM c ORDER BY k DESC, at, n DESC", "range k", false, NULL},
    {"SELECT * FROM c ORDER BY at DESC", "scan", true, NULL},
    {"SELECT * FROM c WHERE at = 5 AND k = 'a' ORDER BY k, n", "range k=,at=", false, NULL},
    /* Rowids. */
    {"SELECT * FROM h WHERE rowid = 5", "get rowid", false, NULL},
    {"SELECT * FROM h WHERE rowid IN (1, 2)", "multi-get rowid", false, NULL},
    {"SELECT * FROM h ORDER BY rowid DESC", "range rowid", false, NULL},
    {"SELECT * FROM i WHERE rowid = 5", "get id", false, NULL},
    {"SELECT * FROM i WHERE id = 5", "get id", false, NULL},
    {"SELECT rowid FROM i WHERE id = 5", "exists id", false, NULL},
    {"SELECT * FROM i WHERE id > 5 ORDER BY rowid", "range id", false, NULL},
    {"SELECT * FROM i ORDER BY id, v", "range id", false, NULL},
};

START_TEST(plans_say_what_is_done) {
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(k INT PRIMARY KEY, v);"
             "CREATE VIRTUAL TABLE x USING colfam(k TEXT PRIMARY KEY, v);"
             "CREATE VIRTUAL TABLE c USING colfam(k TEXT, at INTEGER, n, v,"
             " PRIMARY KEY(k, at DESC, n));"
             "CREATE VIRTUAL TABLE h USING colfam(v);"
             "CREATE VIRTUAL TABLE i USING colfam(id INTEGER PRIMARY KEY, v);"
             "CREATE TABLE r(b)");
  for (int open = 0; open < 2; open++) {
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) check_plan(&plans[i]);
    if (open) break;
    /* Costs come from the tables once they are open. */
    fill("t", 100);
    fill("x", 100);
    sql_ok(db, "INSERT INTO c SELECT k % 5, k, k, v FROM t; INSERT INTO h SELECT v FROM t;"
               "INSERT INTO i SELECT k, v FROM t; SELECT * FROM t, x, c, h, i LIMIT 1");
  }
}
END_TEST

START_TEST(join_order_follows_costs) {
  sql_ok(db, "CREATE VIRTUAL TABLE big USING colfam(k INT PRIMARY KEY, v);"
             "CREATE TABLE small(a); INSERT INTO small VALUES(2), (4), (5)");
  fill("big", 3000);
  sql_plan(db, "SELECT * FROM big JOIN small ON big.k = small.a", "get k");
  sql_plan(db, "SELECT * FROM small JOIN big ON big.k = small.a", "get k");
  sql_rows(db, "SELECT k, v FROM big JOIN small ON big.k = small.a ORDER BY 1", "2|v2\n4|v4");
}
END_TEST

/* ---- What SQLite tests again */

/* How often the program of a statement asks for a column of a virtual table. */
static int columns_asked(const char *sql) {
  sqlite3_stmt *stmt;
  int count = 0;
  char *text = sqlite3_mprintf("EXPLAIN %s", sql);
  ck_assert_msg(sqlite3_prepare_v2(db, text, -1, &stmt, NULL) == SQLITE_OK, "%s: %s", sql,
                sqlite3_errmsg(db));
  while (sqlite3_step(stmt) == SQLITE_ROW)
    count += strcmp((const char *)sqlite3_column_text(stmt, 1), "VColumn") == 0;
  sqlite3_finalize(stmt);
  sqlite3_free(text);
  return count;
}

START_TEST(single_numeric_keys_are_not_tested_again) {
  sql_ok(db, "CREATE VIRTUAL TABLE id USING colfam(k INTEGER PRIMARY KEY, v);"
             "CREATE VIRTUAL TABLE n USING colfam(k NUMERIC PRIMARY KEY, v);"
             "CREATE VIRTUAL TABLE r USING colfam(k REAL, v, PRIMARY KEY(k DESC));"
             "CREATE VIRTUAL TABLE c USING colfam(k INT COLLATE NOCASE PRIMARY KEY, v);"
             "CREATE VIRTUAL TABLE p USING colfam(k INT, j INT, v, PRIMARY KEY(k, j));"
             "CREATE VIRTUAL TABLE x USING colfam(k TEXT PRIMARY KEY, v);"
             "CREATE VIRTUAL TABLE b USING colfam(k BLOB PRIMARY KEY, v);");
  static const struct {
    const char *where;
    int columns;
  } cases[] = {
      {"id WHERE k = ?1", 0},
      {"id WHERE rowid = ?1", 0},
      {"id WHERE ?1 = k", 0},
      {"id WHERE k IN (?1, ?2, 3)", 0},
      {"id WHERE k = ?1 AND k = ?2", 1},
      {"id WHERE k IS ?1", 1},
      {"id WHERE k > ?1", 1},
      {"n WHERE k = ?1", 0},
      {"n WHERE k IN (?1, ?2, 3)", 0},
      {"n WHERE k = ?1 COLLATE NOCASE", 1},
      {"r WHERE k = ?1", 0},
      {"c WHERE k = ?1", 1},
      {"p WHERE k = ?1 AND j = ?2", 2},
      {"x WHERE k = ?1", 1},
      {"b WHERE k = ?1", 1},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char *sql = sqlite3_mprintf("SELECT 1 FROM %s", cases[i].where);
    if (sql_has_ranges())
      ck_assert_msg(columns_asked(sql) == cases[i].columns, "%s: %d", sql, columns_asked(sql));
    sqlite3_free(sql);
  }
}
END_TEST

/* ---- Counters */

START_TEST(list_of_any_size_is_one_multi_get) {
  static const int sizes[] = {0, 1, 2, 32, 33, 1000, 70000};
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(k INT PRIMARY KEY, v);"
             "CREATE TABLE wanted(i INTEGER PRIMARY KEY)");
  fill("t", 1000);
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    sql_okf(
        db,
        "DELETE FROM wanted; WITH RECURSIVE s(i) AS (SELECT 1 WHERE %d > 0 UNION ALL SELECT i + 1 "
        "FROM s WHERE i < %d) INSERT INTO wanted SELECT i FROM s",
        sizes[i], sizes[i]);
    sqlite3_int64 calls = counter("t", "multi_gets"), keys = counter("t", "multi_get_keys");
    sqlite3_int64 gets = counter("t", "gets");
    sqlite3_int64 found = sql_int(db, "SELECT count(v) FROM t WHERE k IN (SELECT i FROM wanted)");
    ck_assert_int_eq(found, sizes[i] > 2000 ? 1000 : sizes[i] / 2);
    /* A list of one goes the way of a get. */
    ck_assert_int_eq(counter("t", "multi_gets") - calls, sizes[i] > 1);
    ck_assert_int_eq(counter("t", "multi_get_keys") - keys, sizes[i] > 1 ? sizes[i] : 0);
    ck_assert_int_eq(counter("t", "gets") - gets, sizes[i] == 1);
  }
}
END_TEST

START_TEST(null_and_double_values_of_a_list_are_no_keys) {
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(k, j, v, PRIMARY KEY(j, k));"
             "INSERT INTO t VALUES(1, 1, 'a'), ('x', 1, 'b'), (2, 2, 'c')");
  sqlite3_int64 keys = counter("t", "multi_get_keys");
  sql_rows(db, "SELECT v FROM t WHERE j = 1 AND k IN ('x', NULL, 'y', 'x', x'00', 'y')", "b");
  if (sql_has_ranges()) ck_assert_int_eq(counter("t", "multi_get_keys") - keys, 3);
  sql_rows(db, "SELECT v FROM t WHERE j = 1 AND k IN (NULL)", "");
  sql_rows(db, "SELECT v FROM t WHERE j = NULL AND k IN (1, 2)", "");
}
END_TEST

START_TEST(absent_keys_read_no_block) {
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(k INT PRIMARY KEY, v, filter_bits = 20);"
             "CREATE TABLE r(b)");
  fill("t", 2000);
  sql_ok(db, "INSERT INTO t(t) VALUES('compact');"
             "INSERT INTO r SELECT k + 1 FROM t LIMIT 500");
  close_database();
  open_database();
  sql_rows(db, "SELECT count(*) FROM r WHERE EXISTS (SELECT 1 FROM t WHERE k = b)", "0");
  ck_assert_int_eq(counter("t", "probes"), 500);
  ck_assert_int_eq(counter("t", "gets"), 0);
  ck_assert_int_lt(counter("t", "blocks_read"), 5);
  sql_rows(db, "SELECT count(*) FROM r WHERE NOT EXISTS (SELECT 1 FROM t WHERE k = b)", "500");
  sql_rows(db, "SELECT count(*) FROM r WHERE EXISTS (SELECT 1 FROM t WHERE k = b - 1)", "500");
  ck_assert_int_eq(counter("t", "gets"), 0);
}
END_TEST

START_TEST(count_touches_no_row) {
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(k INT PRIMARY KEY, v)");
  fill("t", 500);
  sql_ok(db, "INSERT INTO t(t) VALUES('flush')");
  sql_rows(db, "SELECT count(*) FROM t", "500");
  ck_assert_int_eq(counter("t", "scans"), 0);
  sql_ok(db, "BEGIN; DELETE FROM t WHERE k = 2; INSERT INTO t VALUES(1, 1), (3, 3)");
  sqlite3_int64 blocks = counter("t", "blocks_read") + counter("t", "cache_hits");
  sql_rows(db, "SELECT count(*) FROM t", "501");
  ck_assert_int_eq(counter("t", "blocks_read") + counter("t", "cache_hits"), blocks);
  sql_ok(db, "ROLLBACK");
  sql_rows(db, "SELECT count(*) FROM t", "500");
}
END_TEST

START_TEST(count_without_row_tracking_scans) {
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(k INT PRIMARY KEY, v, track_rows = off)");
  fill("t", 500);
  sql_plan(db, "SELECT count(*) FROM t", ":scan");
  sql_rows(db, "SELECT count(*) FROM t", "500");
}
END_TEST

/* A statement that uses only rowids looks like count(*) to the planner. */
START_TEST(count_that_is_asked_for_a_row_gives_it) {
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(v); INSERT INTO t VALUES('a'), ('b'), ('c')");
  sql_plan(db, "SELECT rowid FROM t", ":count");
  sql_rows(db, "SELECT rowid FROM t", "1\n2\n3");
  sql_rows(db, "SELECT CASE WHEN (SELECT count(*) FROM pragma_encoding) THEN rowid END FROM t",
           "1\n2\n3");
  sql_ok(db, "CREATE TABLE n(i); INSERT INTO n VALUES(0), (1)");
  sql_rows(db,
           "SELECT i, max(CASE WHEN i THEN t.rowid END), count(*) FROM n CROSS JOIN t GROUP BY i",
           "0|NULL|3\n1|3|3");
  sql_ok(db, "DELETE FROM t");
  sql_rows(db, "SELECT count(*) FROM t", "0");
}
END_TEST

static void asks_for_keys(sqlite3_context *context, int argc, sqlite3_value **argv) {
  (void)argc, (void)argv;
  sqlite3_result_int(context, *(int *)sqlite3_user_data(context));
}

/* Keys are asked for when the batch has changed: those of the beginning come, as in a scan. */
static void check_late_keys(const char *columns, const char *key) {
  int asks = 0;
  sqlite3_stmt *stmt;
  sqlite3_create_function(db, "asks", 0, SQLITE_UTF8, &asks, asks_for_keys, NULL, NULL);
  sql_okf(db, "CREATE VIRTUAL TABLE t USING colfam(%s); BEGIN", columns);
  sql_okf(db, "INSERT INTO t(%s, v) VALUES(2, 'a'), (4, 'b'), (6, 'c'), (8, 'd')", key);
  char *sql = sqlite3_mprintf("SELECT CASE WHEN asks() THEN %s END FROM t", key);
  ck_assert_int_eq(sqlite3_prepare_v2(db, sql, -1, &stmt, NULL), SQLITE_OK);
  ck_assert_int_eq(sqlite3_step(stmt), SQLITE_ROW);
  sql_okf(db,
          "DELETE FROM t WHERE %s <= 4; INSERT INTO t(%s, v) VALUES(1, 'x'), (3, 'y'), (9, 'z')",
          key, key);
  asks = 1;
  for (int k = 4; k <= 8; k += 2) {
    ck_assert_int_eq(sqlite3_step(stmt), SQLITE_ROW);
    ck_assert_int_eq(sqlite3_column_int(stmt, 0), sql_reverse() ? 10 - k : k);
  }
  ck_assert_int_eq(sqlite3_step(stmt), SQLITE_DONE);
  sqlite3_finalize(stmt);
  sqlite3_free(sql);
  sql_ok(db, "COMMIT; DROP TABLE t");
}

START_TEST(count_that_is_asked_for_keys_late_gives_those_of_its_start) {
  check_late_keys("v", "rowid");
  check_late_keys("k INT PRIMARY KEY, v", "k");
}
END_TEST

START_TEST(numbers_against_text_keys_are_counted) {
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(k TEXT PRIMARY KEY, v);"
             "INSERT INTO t VALUES('1', 'a'), ('01', 'b'), ('x', 'c'), ('2', 'd')");
  sql_rows(db, "SELECT v FROM t WHERE k = '1'", "a");
  sql_rows(db, "SELECT v FROM t WHERE k IN ('1', 1, 'x')", "a\nc");
  ck_assert_int_eq(counter("t", "widened_lookups"), 0);
  sql_rows(db, "SELECT v FROM t WHERE k = 1", "a");
  sql_rows(db, "SELECT v FROM t WHERE k = CAST('1' AS INTEGER)", "b\na");
  sql_rows(db, "SELECT v FROM t WHERE k < CAST(2 AS INTEGER)", "b\na");
  sql_rows(db, "SELECT v FROM t WHERE k IN (SELECT CAST(1 AS INTEGER))", "b\na");
  if (sql_has_ranges()) ck_assert_int_eq(counter("t", "widened_lookups"), 4);
}
END_TEST

/* ---- Cursors and writes */

static sqlite3_stmt *step_once(const char *sql) {
  sqlite3_stmt *stmt = NULL;
  ck_assert_msg(sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) == SQLITE_OK, "%s",
                sqlite3_errmsg(db));
  ck_assert_int_eq(sqlite3_step(stmt), SQLITE_ROW);
  return stmt;
}

/* Sum of the first column over this row and the rest. */
static sqlite3_int64 sum_rest(sqlite3_stmt *stmt) {
  sqlite3_int64 sum = sqlite3_column_int64(stmt, 0);
  int rc;
  while ((rc = sqlite3_step(stmt)) == SQLITE_ROW) sum += sqlite3_column_int64(stmt, 0);
  ck_assert_msg(rc == SQLITE_DONE, "%s", sqlite3_errmsg(db));
  sqlite3_finalize(stmt);
  return sum;
}

static const char *const readers[] = {
    "SELECT k, v FROM t",
    "SELECT k, v FROM t ORDER BY k DESC",
    "SELECT k, v FROM t WHERE k IN (SELECT value FROM json_each('[2,4,6,8,10,12,14,16,18,20]'))",
    "SELECT k, v FROM t WHERE k BETWEEN 1 AND 100",
    "SELECT k, v FROM t WHERE k <> 5",
};
enum { READERS = sizeof readers / sizeof *readers };

static void make_ten(bool in_batch) {
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(k INT PRIMARY KEY, v)");
  if (in_batch) sql_ok(db, "BEGIN");
  fill("t", 10);
}

START_TEST(cursor_does_not_see_later_writes) {
  make_ten(false);
  sql_ok(db, "BEGIN; INSERT INTO t VALUES(0, 'new')");
  sql_ok(db, "DELETE FROM t WHERE k = 0");
  sqlite3_stmt *stmt = step_once(readers[_i]);
  sql_ok(db,
         "DELETE FROM t WHERE k > 4; INSERT INTO t VALUES(5, 'x'), (7, 'x'); UPDATE t SET v = 'y'");
  ck_assert_int_eq(sum_rest(stmt), 110);
  sql_rows(db, "SELECT k, v FROM t", "2|y\n4|y\n5|y\n7|y");
  sql_ok(db, "COMMIT");
}
END_TEST

START_TEST(cursor_survives_commit) {
  make_ten(false);
  sql_ok(db, "BEGIN; INSERT INTO t VALUES(1, 'new'), (3, 'new')");
  sqlite3_stmt *stmt = step_once(readers[_i]);
  sql_ok(db, "COMMIT; DELETE FROM t");
  sqlite3_int64 sum = sum_rest(stmt);
  ck_assert_int_eq(sum, _i == 2 ? 110 : 114);
  sql_rows(db, "SELECT count(*) FROM t", "0");
}
END_TEST

START_TEST(cursor_survives_rollback_to) {
  make_ten(false);
  sql_ok(db, "BEGIN; SAVEPOINT a; INSERT INTO t VALUES(1, 'new'), (3, 'new')");
  sqlite3_stmt *stmt = step_once(readers[_i]);
  int rc = sqlite3_exec(db, "ROLLBACK TO a; INSERT INTO t VALUES(9, 'other')", NULL, NULL, NULL);
  ck_assert_msg(rc == SQLITE_OK, "%s", sqlite3_errmsg(db));
  while ((rc = sqlite3_step(stmt)) == SQLITE_ROW) {
  }
  /* SQLite itself may end readers at a rollback; what it must not do is crash or give other
  ** rows. */
  ck_assert_msg(rc == SQLITE_DONE || rc == SQLITE_ABORT_ROLLBACK, "%d: %s", rc, sqlite3_errmsg(db));
  sqlite3_finalize(stmt);
  sql_ok(db, "ROLLBACK");
  sql_rows(db, "SELECT sum(k) FROM t", "110");
}
END_TEST

START_TEST(insert_from_the_table_itself) {
  make_ten(true);
  sql_ok(db,
         "INSERT INTO t SELECT k + 1, v FROM t; INSERT OR REPLACE INTO t SELECT k + 1, 'z' FROM t");
  sql_rows(db, "SELECT count(*), sum(k), sum(v = 'z') FROM t", "21|252|20");
  sql_ok(db, "UPDATE t SET k = k + 100; DELETE FROM t WHERE k % 2");
  sql_rows(db, "SELECT count(*), min(k), max(k) FROM t", "11|102|122");
  sql_ok(db, "COMMIT");
}
END_TEST

START_TEST(inner_cursor_is_filtered_again_and_again) {
  make_ten(false);
  sql_ok(db, "CREATE TABLE n(i); INSERT INTO n VALUES(2), (3), (NULL), (4), (2)");
  sql_rows(db, "SELECT i, v FROM n LEFT JOIN t ON k = i", "2|v2\n3|NULL\nNULL|NULL\n4|v4\n2|v2");
  sql_rows(db, "SELECT i, (SELECT group_concat(k) FROM t WHERE k < i) FROM n",
           "2|NULL\n3|2\nNULL|NULL\n4|2\n2|NULL");
  sql_rows(db, "SELECT i, (SELECT count(v) FROM t WHERE k IN (i, i + 2)) FROM n",
           "2|2\n3|0\nNULL|0\n4|2\n2|2");
}
END_TEST

/* ---- Results of single rows, which SQLite has on loan */

static void make_wide(void) {
  sql_ok(db,
         "CREATE VIRTUAL TABLE t USING colfam(k TEXT PRIMARY KEY, a, b, c, d, e);"
         "CREATE TABLE w(i INTEGER PRIMARY KEY, k);"
         "WITH RECURSIVE s(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM s WHERE i < 9)"
         "INSERT INTO w SELECT i, 'k' || i FROM s;"
         "INSERT INTO t SELECT k, 'a' || i, 'b' || i, 'c' || i, 'd' || i, 'e' || (9 - i) FROM w;"
         "INSERT INTO t(k, a) SELECT 'long' || i, printf('%.*c', 1020 + i, 'x') FROM w");
}

START_TEST(values_outlive_the_cursors_that_gave_them) {
  make_wide();
  sql_rows(db,
           "SELECT (SELECT a FROM t WHERE k = 'k1'), (SELECT a FROM t WHERE k = 'k2'),"
           " (SELECT k FROM t WHERE k = 'k3' AND a > ''), (SELECT b FROM t WHERE k = 'k4'),"
           " (SELECT a FROM t WHERE k = 'k5'), (SELECT a FROM t WHERE k = 'k6'),"
           " (SELECT a FROM t WHERE k = 'k7'), (SELECT a FROM t WHERE k = 'k8')",
           "a1|a2|k3|b4|a5|a6|a7|a8");
  sql_rows(db, "SELECT k, a, b, c, d, e, k, a FROM t WHERE k = 'k3'", "k3|a3|b3|c3|d3|e6|k3|a3");
  sql_rows(db, "SELECT t.* FROM w JOIN t ON t.k = w.k WHERE i > 7 ORDER BY t.e",
           "k9|a9|b9|c9|d9|e0\nk8|a8|b8|c8|d8|e1");
  sql_rows(db, "SELECT max(t.a), t.b, min(t.k) FROM w LEFT JOIN t ON t.k = w.k", "a9|b1|k1");
  sql_rows(db, "SELECT group_concat(t.a || t.k) FROM w LEFT JOIN t ON t.k = w.k WHERE i < 4",
           "a1k1,a2k2,a3k3");
  sql_rows(db,
           "SELECT i FROM w WHERE (SELECT a FROM t WHERE k = 'long' || i) IS NOT"
           " printf('%.*c', 1020 + i, 'x')",
           "");
}
END_TEST

START_TEST(values_stay_while_other_statements_read) {
  make_wide();
  sqlite3_stmt *first, *other;
  sqlite3_prepare_v2(db, "SELECT k, a, b FROM t WHERE k = 'k1'", -1, &first, NULL);
  sqlite3_prepare_v2(db, "SELECT k, a, b FROM t WHERE k = ?1", -1, &other, NULL);
  ck_assert_int_eq(sqlite3_step(first), SQLITE_ROW);
  const char *a = (const char *)sqlite3_column_blob(first, 1);
  for (int i = 2; i < 9; i++) {
    char key[16];
    sqlite3_bind_text(other, 1, sqlite3_snprintf(sizeof key, key, "k%d", i), -1, SQLITE_STATIC);
    ck_assert_int_eq(sqlite3_step(other), SQLITE_ROW);
    ck_assert_str_eq((const char *)sqlite3_column_text(other, 0), key);
    sqlite3_reset(other);
  }
  ck_assert_mem_eq(a, "a1", 2);
  ck_assert_str_eq((const char *)sqlite3_column_text(first, 0), "k1");
  ck_assert_str_eq((const char *)sqlite3_column_text(first, 2), "b1");
  sqlite3_finalize(other);
  sql_ok(db, "DELETE FROM t");
  ck_assert_str_eq((const char *)sqlite3_column_text(first, 2), "b1");
  sqlite3_finalize(first);
}
END_TEST

/* ---- Big and odd values */

START_TEST(values_of_every_size_come_back) {
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(k TEXT PRIMARY KEY, v)");
  static const char *const sizes[] = {"0", "1", "1000", "65536", "16777216"};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    sql_okf(db, "INSERT INTO t VALUES(%s, zeroblob(%s)), ('t' || %s, hex(zeroblob(%s / 2)))",
            sizes[i], sizes[i], sizes[i], sizes[i]);
  for (int flushed = 0; flushed < 2; flushed++) {
    sql_rows(db, "SELECT k, length(v) FROM t WHERE v = zeroblob(k) ORDER BY length(k), k",
             "0|0\n1|1\n1000|1000\n65536|65536\n16777216|16777216");
    sql_rows(db, "SELECT sum(length(v)) FROM t WHERE k IN ('16777216', 't16777216')", "33554432");
    sql_ok(db, "INSERT INTO t(t) VALUES('flush')");
  }
}
END_TEST

START_TEST(text_keeps_zero_bytes_and_order) {
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(a TEXT, b TEXT, PRIMARY KEY(a, b DESC));"
             "INSERT INTO t VALUES('x' || char(0), 'y'), ('x', char(0)), ('x', ''), ('x', 'z'),"
             " ('x' || char(0) || 'q', char(0, 0))");
  sql_rows(db, "SELECT hex(a), hex(b) FROM t", "78|7A\n78|00\n78|\n7800|79\n780071|0000");
  sql_rows(db, "SELECT hex(b) FROM t WHERE a = 'x' AND b < 'z' ORDER BY b", "\n00");
  sql_rows(db, "SELECT hex(b) FROM t WHERE a = 'x' || char(0)", "79");
}
END_TEST

/* ---- Damage ends statements */

START_TEST(damaged_row_ends_the_statement) {
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(k INT PRIMARY KEY, v)");
  fill("t", 50);
  sql_ok(db, "INSERT INTO t(t) VALUES('flush')");
  close_database();
  char *command = sqlite3_mprintf("for f in '%s-colfam'/*; do printf zzzzzzzz | dd of=\"$f\" bs=1 "
                                  "seek=40 conv=notrunc 2>/dev/null;"
                                  " done",
                                  sql_path("app.db"));
  ck_assert_int_eq(system(command), 0);
  sqlite3_free(command);
  open_database();
  static const char *const statements[] = {
      "SELECT * FROM t",
      "SELECT * FROM t ORDER BY k DESC",
      "SELECT v FROM t WHERE k = 2",
      "SELECT v FROM t WHERE k IN (2, 4, 6)",
      "SELECT sum(length(v)) FROM t WHERE k > 1",
  };
  for (size_t i = 0; i < sizeof statements / sizeof *statements; i++)
    sql_fails(db, statements[i], SQLITE_CORRUPT_VTAB, "table t: ");
  sql_ok(db, "CREATE VIRTUAL TABLE other USING colfam(k); INSERT INTO other VALUES(1)");
  sql_ok(db, "DROP TABLE t");
}
END_TEST

int main(void) {
  Suite *suite = suite_create("sql_reads");
  TCase *tcase = tcase_create("reads");
  tcase_set_timeout(tcase, 120);
  tcase_add_checked_fixture(tcase, open_database, close_database);
  tcase_add_test(tcase, plans_say_what_is_done);
  tcase_add_test(tcase, join_order_follows_costs);
  tcase_add_test(tcase, single_numeric_keys_are_not_tested_again);
  tcase_add_test(tcase, list_of_any_size_is_one_multi_get);
  tcase_add_test(tcase, null_and_double_values_of_a_list_are_no_keys);
  tcase_add_test(tcase, absent_keys_read_no_block);
  tcase_add_test(tcase, count_touches_no_row);
  tcase_add_test(tcase, count_without_row_tracking_scans);
  tcase_add_test(tcase, count_that_is_asked_for_a_row_gives_it);
  tcase_add_test(tcase, count_that_is_asked_for_keys_late_gives_those_of_its_start);
  tcase_add_test(tcase, numbers_against_text_keys_are_counted);
  tcase_add_loop_test(tcase, cursor_does_not_see_later_writes, 0, READERS);
  tcase_add_loop_test(tcase, cursor_survives_commit, 0, READERS);
  tcase_add_loop_test(tcase, cursor_survives_rollback_to, 0, READERS);
  tcase_add_test(tcase, insert_from_the_table_itself);
  tcase_add_test(tcase, inner_cursor_is_filtered_again_and_again);
  tcase_add_test(tcase, values_outlive_the_cursors_that_gave_them);
  tcase_add_test(tcase, values_stay_while_other_statements_read);
  tcase_add_test(tcase, values_of_every_size_come_back);
  tcase_add_test(tcase, text_keeps_zero_bytes_and_order);
  tcase_add_test(tcase, damaged_row_ends_the_statement);
  suite_add_tcase(suite, tcase);
  return harness_run(suite);
}
