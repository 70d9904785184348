/* UPDATE hands over only the columns that it sets; the others stay as they are, bit for bit and unread. Every
** statement runs on an ordinary table and on a colfam table of the same columns. */
#include "harness_both.h"

static sqlite3 *db;

static void open_database(void) {
  db = sql_open(sql_path("updates.db"));
}

static void close_database(void) {
  sql_close(db);
}

/* Columns, and what follows them in the ordinary table. */
static const char *const shapes[][2] = {
    {"k INT PRIMARY KEY, a, b TEXT, c REAL, d", " WITHOUT ROWID"},
    {"k INTEGER PRIMARY KEY, a, b TEXT, c REAL, d", ""},
    {"a, k INT, b TEXT, c REAL, d, PRIMARY KEY(k DESC)", " WITHOUT ROWID"},
    {"k INT, a, b TEXT, c REAL NOT NULL, d, PRIMARY KEY(c, k)", " WITHOUT ROWID"},
    {"k INT, a, b TEXT, c REAL, d", ""},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static void make_tables(const char *const shape[2]) {
  both_create(db, shape[0], shape[1], "");
}

static void same(void) {
  both(db, "SELECT k, a, b, c, d FROM @ ORDER BY k, quote(b), quote(a), quote(d)");
}

static void fill(void) {
  both(db, "INSERT INTO @(k, a, b, c, d) VALUES"
           "(1, NULL, 'text', 1, x'00ff'), (2, 'a' || char(0) || 'b', NULL, 2.5, 1.0),"
           "(3, -0.0, CAST(x'fffe41' AS TEXT), -0.0, zeroblob(300)),"
           "(4, 9007199254740993, 4, 4, ''), (5, x'', '', 5, printf('%.*c', 700, 'x')),"
           "(6, 1e999, '6', 6, -1e999), (7, 'seven', 'seven', 7.25, 7)");
}

static const char *const updates[] = {
    "UPDATE @ SET a = 'new' WHERE k = 3",
    "UPDATE @ SET b = k + 1, d = a",
    "UPDATE @ SET c = c + 1 WHERE k IN (2, 3, 5, 99)",
    "UPDATE @ SET a = a, d = d",
    "UPDATE @ SET k = k + 100",
    "UPDATE @ SET k = k + 1",
    "UPDATE OR REPLACE @ SET k = k + 2 WHERE k < 5",
    "UPDATE OR REPLACE @ SET k = 6 WHERE k = 1",
    "UPDATE OR IGNORE @ SET k = 6, b = 'moved' WHERE k < 4",
    "UPDATE OR FAIL @ SET k = k * 2, a = 'doubled'",
    "UPDATE @ SET k = NULL WHERE k = 2",
    "WITH r(i, x) AS (VALUES(2, 'from'), (5, NULL)) UPDATE @ SET a = x FROM r WHERE k = i",
    "WITH r(i, x) AS (VALUES(2, 20), (5, 50)) UPDATE @ SET k = x, b = a FROM r WHERE k = i",
    "UPDATE @ SET (a, b) = (SELECT max(k), 'all' FROM @) WHERE d IS NOT NULL",
};
enum { UPDATES = sizeof updates / sizeof *updates };

/* Several keys change, or rows before one that fails: the outcome depends on which row comes first. */
static bool depends_on_order(const char *update) {
  return (strstr(update, "SET k = ") && !strstr(update, "WHERE k = ")) || strstr(update, "OR FAIL");
}

static void update_and_compare(const char *update) {
  if (!sql_native() && depends_on_order(update)) return;
  both(db, update);
  same();
  sql_ok(db, "SAVEPOINT s");
  both(db, "UPDATE @ SET a = 1, d = 2");
  sql_ok(db, "ROLLBACK TO s; RELEASE s");
  same();
}

/* From the batch, from the log and from files. */
START_TEST(columns_that_are_not_set_stay_as_they_are) {
  for (int i = 0; i < UPDATES; i++) {
    for (int place = 0; place < 3; place++) {
      make_tables(shapes[_i]);
      if (place == 0) sql_ok(db, "BEGIN");
      fill();
      if (place == 2) sql_ok(db, "INSERT INTO t(t) VALUES('flush')");
      update_and_compare(updates[i]);
      if (place == 0) sql_ok(db, "COMMIT");
      same();
      sql_rows(db, "SELECT * FROM colfam_check('t')", "");
      both_drop(db);
    }
  }
}
END_TEST

START_TEST(long_values_that_are_not_set_are_not_handed_over) {
  sqlite3_int64 largest, highest;
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(k INT PRIMARY KEY, a, b, memtable_bytes = "
             "1073741824); INSERT INTO t VALUES(1, 'old', zeroblob(8000000)), (2, 'old', 'x')");
  for (int flushed = 0; flushed < 2; flushed++) {
    sql_ok(db, "BEGIN");
    ck_assert_int_eq(sqlite3_status64(SQLITE_STATUS_MALLOC_SIZE, &largest, &highest, 1), SQLITE_OK);
    sql_ok(db, "UPDATE t SET a = 'new'; UPDATE t SET a = 'newer' WHERE k = 1");
    ck_assert_int_eq(sqlite3_status64(SQLITE_STATUS_MALLOC_SIZE, &largest, &highest, 0), SQLITE_OK);
    ck_assert_msg(highest < 1000000, "%lld bytes at once", highest);
    sql_ok(db, "COMMIT");
    sql_rows(db, "SELECT k, a, length(b), b = zeroblob(8000000) FROM t",
             "1|newer|8000000|1\n2|new|1|0");
    sql_ok(db, "INSERT INTO t(t) VALUES('flush')");
  }
}
END_TEST

/* The row as it is then, not as it was when UPDATE read it. */
START_TEST(a_row_replaced_on_the_way_keeps_its_new_columns) {
  make_tables(shapes[_i]);
  fill();
  const char *one = sql_native() ? "" : " AND k = 3"; /* else the first row decides */
  bothf(db, "UPDATE OR REPLACE @ SET k = k + 1 WHERE k < 4%s", one);
  same();
  bothf(db, "UPDATE OR REPLACE @ SET k = 5 WHERE 1%s", *one ? " AND k = 2" : "");
  same();
}
END_TEST

/* README.md, Limits: an ordinary table's subqueries see the rows changed so far. */
START_TEST(subqueries_see_the_table_as_it_was) {
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(k INT PRIMARY KEY, v);"
             "INSERT INTO t VALUES(1, 1), (2, 2), (3, 3);"
             "UPDATE t SET v = (SELECT count(*) FROM t AS p WHERE p.v > t.v)");
  sql_rows(db, "SELECT * FROM t", "1|2\n2|1\n3|0");
  sql_ok(db, "UPDATE t SET v = 10 + (SELECT v FROM t AS p WHERE p.k = t.k - 1) WHERE k > 1");
  sql_rows(db, "SELECT * FROM t", "1|2\n2|12\n3|11");
}
END_TEST

int main(void) {
  Suite *suite = suite_create("sql_updates");
  TCase *tcase = tcase_create("updates");
  tcase_set_timeout(tcase, 120);
  tcase_add_checked_fixture(tcase, open_database, close_database);
  tcase_add_loop_test(tcase, columns_that_are_not_set_stay_as_they_are, 0, SHAPES);
  tcase_add_test(tcase, long_values_that_are_not_set_are_not_handed_over);
  tcase_add_loop_test(tcase, a_row_replaced_on_the_way_keeps_its_new_columns, 0, SHAPES);
  tcase_add_test(tcase, subqueries_see_the_table_as_it_was);
  suite_add_tcase(suite, tcase);
  return harness_run(suite);
}
