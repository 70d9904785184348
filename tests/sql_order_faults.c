/* Comparators that are none, in the test build, which asks them more than it needs: the statement that finds
** it out ends with an error that names the order, and the table stays as it was. */
#include <stdlib.h>
#include <string.h>

#include "harness_orders.h"
#include "harness_sql.h"

static sqlite3 *db;

static int fold(int byte) {
  return byte >= 'A' && byte <= 'Z' ? byte | 0x20 : byte;
}

static int compare_folded(void *context, const void *a, int a_size, const void *b, int b_size) {
  const unsigned char *x = a, *y = b;
  (void)context;
  for (int i = 0; i < a_size && i < b_size; i++)
    if (fold(x[i]) != fold(y[i])) return fold(x[i]) - fold(y[i]);
  return a_size - b_size;
}

/* Each of three last digits is below the next. */
static int compare_in_circle(void *context, const void *a, int a_size, const void *b, int b_size) {
  const unsigned char *x = a, *y = b;
  int left = a_size ? x[a_size - 1] % 3 : 0, right = b_size ? y[b_size - 1] % 3 : 0;
  (void)context;
  if (left != right) return (left + 1) % 3 == right ? -1 : 1;
  return orders_compare_backwards(NULL, a, a_size, b, b_size);
}

static int compare_one_way(void *context, const void *a, int a_size, const void *b, int b_size) {
  (void)context;
  return a_size == b_size && memcmp(a, b, (size_t)a_size) == 0 ? 0 : -1;
}

static void open_database(void) {
  const char *so = getenv("COLFAM_TEST_SO");
  setenv("COLFAM_SO", so ? so : COLFAM_TEST_SO, 1);
  db = sql_open(sql_path("app.db"));
  orders_register(db, &(struct colfam_order){.name = "loose", .compare = compare_folded});
  orders_register(db, &(struct colfam_order){.name = "circle", .compare = compare_in_circle});
  orders_register(db, &(struct colfam_order){.name = "oneway", .compare = compare_one_way});
  orders_register(db,
                  &(struct colfam_order){.name = "backwards", .compare = orders_compare_backwards});
}

static void close_database(void) {
  sql_close(db);
}

#define LOOSE "order loose is not one: its comparator calls different keys equal"

START_TEST(a_key_called_equal_to_one_in_the_log_is_refused) {
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(k TEXT PRIMARY KEY, v, comparator = loose);"
             "INSERT INTO t VALUES('a', 1), ('b', 2)");
  sql_fails(db, "INSERT INTO t VALUES('A', 3)", SQLITE_MISUSE, LOOSE);
  sql_fails(db, "INSERT OR REPLACE INTO t VALUES('A', 3)", SQLITE_MISUSE, LOOSE);
  sql_fails(db, "UPDATE t SET k = 'B' WHERE k = 'a'", SQLITE_MISUSE, LOOSE);
  sql_ok(db, "INSERT INTO t VALUES('c', 4); UPDATE t SET v = 5 WHERE k = 'a'");
  sql_rows(db, "SELECT * FROM t ORDER BY k", "a|5\nb|2\nc|4");
}
END_TEST

START_TEST(keys_of_one_transaction_are_refused_by_its_commit) {
  sql_ok(db, "CREATE TABLE o(x); CREATE VIRTUAL TABLE t USING colfam(k, n, v, PRIMARY KEY(k, n), "
             "comparator = loose); BEGIN; INSERT INTO o VALUES(1);"
             "INSERT INTO t VALUES('a', 1, 1), ('A', 1, 2)");
  sql_fails(db, "COMMIT", SQLITE_MISUSE, LOOSE);
  if (!sqlite3_get_autocommit(db)) sql_ok(db, "ROLLBACK");
  sql_rows(db, "SELECT count(*) FROM t", "0");
  sql_rows(db, "SELECT count(*) FROM o", "0");
  sql_ok(db, "INSERT INTO t VALUES('a', 1, 1), ('A', 2, 2)");
}
END_TEST

/* Without a filter, which would deny the key first. */
START_TEST(a_key_that_meets_an_end_of_a_file_is_refused) {
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(k TEXT PRIMARY KEY, v, comparator = loose, "
             "filter_bits = 0);"
             "INSERT INTO t VALUES('a', 1), ('b', 2), ('c', 3); INSERT INTO t(t) VALUES('flush')");
  sql_fails(db, "INSERT INTO t VALUES('A', 4)", SQLITE_MISUSE, LOOSE);
  sql_fails(db, "INSERT INTO t VALUES('C', 4)", SQLITE_MISUSE, LOOSE);
  sql_fails(db, "INSERT OR REPLACE INTO t VALUES('C', 4)", SQLITE_MISUSE, LOOSE);
  sql_fails(db, "BEGIN; INSERT INTO t VALUES('d', 4); INSERT INTO t VALUES('C', 4)", SQLITE_MISUSE,
            LOOSE);
  sql_ok(db, "COMMIT"); /* the statement is undone, the transaction goes on */
  sql_rows(db, "SELECT group_concat(k, '') FROM t", "abcd");
}
END_TEST

START_TEST(a_merge_that_meets_both_fails_and_rows_can_be_read) {
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(k TEXT PRIMARY KEY, v, comparator = loose);"
             "INSERT INTO t VALUES('a', 1), ('b', 2), ('c', 3); INSERT INTO t(t) VALUES('flush');"
             "INSERT INTO t VALUES('B', 4); INSERT INTO t(t) VALUES('flush')");
  sql_fails(db, "INSERT INTO t(t) VALUES('compact')", SQLITE_MISUSE, LOOSE);
  sql_rows(db, "SELECT k, v FROM t", "a|1\nB|4\nb|2\nc|3");
  sql_rows(db, "SELECT v FROM t WHERE k IN ('b', 'B')", "4\n2");
  sql_rows(db, "SELECT severity, text FROM colfam_check('t')", "error|" LOOSE);
  sql_ok(db, "CREATE VIRTUAL TABLE u USING colfam(k TEXT PRIMARY KEY, v); INSERT INTO u SELECT * "
             "FROM t; INSERT INTO u(u) VALUES('compact')");
  sql_rows(db, "SELECT count(*) FROM u", "4");
}
END_TEST

START_TEST(a_commit_that_cannot_merge_says_why) {
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(k TEXT PRIMARY KEY, v, comparator = loose, "
             "memtable_bytes = 16384);"
             "INSERT INTO t VALUES('a', 1), ('b', 2), ('c', 3); INSERT INTO t(t) VALUES('flush');"
             "INSERT INTO t VALUES('B', 4); INSERT INTO t(t) VALUES('flush')");
  int rc = SQLITE_OK, commits = 0;
  for (; rc == SQLITE_OK && commits < 1000; commits++) {
    char *sql = sqlite3_mprintf("INSERT INTO t WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT "
                                "i + 1 FROM n WHERE i < 100) SELECT 'b' || (i * 1000 + %d), "
                                "'a value of some bytes' FROM n",
                                commits);
    rc = sqlite3_exec(db, sql, NULL, NULL, NULL);
    sqlite3_free(sql);
  }
  ck_assert_int_eq(rc, SQLITE_MISUSE);
  ck_assert_msg(strstr(sqlite3_errmsg(db), LOOSE) != NULL, "%s", sqlite3_errmsg(db));
  ck_assert_int_eq(sql_int(db, "SELECT count(*) FROM t"), 4 + 100 * (commits - 1));
}
END_TEST

#define NUMBERS                                                                      \
  " WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000) " \
  "SELECT 'key' || i, i FROM n"

static void expect_contradiction(const char *order, const char *text) {
  sql_okf(db, "CREATE VIRTUAL TABLE t USING colfam(k TEXT PRIMARY KEY, v, comparator = %s)", order);
  sql_fails(db, "INSERT INTO t" NUMBERS, SQLITE_MISUSE, text);
  sql_rows(db, "SELECT count(*) FROM t", "0");
  sql_ok(db, "DROP TABLE t");
}

START_TEST(contradictions_are_found_on_samples) {
  expect_contradiction("circle", "order circle is not one: its comparator ");
  expect_contradiction("oneway", "order oneway is not one: its comparator ");
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(k TEXT PRIMARY KEY, v, comparator = backwards);"
             "INSERT INTO t" NUMBERS ";"
             "INSERT INTO t(t) VALUES('compact')");
  sql_rows(db, "SELECT count(*) FROM t", "2000");
}
END_TEST

int main(void) {
  Suite *suite = suite_create("sql_order_faults");
  TCase *tests = tcase_create("faults");
  tcase_add_checked_fixture(tests, open_database, close_database);
  tcase_add_test(tests, a_key_called_equal_to_one_in_the_log_is_refused);
  tcase_add_test(tests, keys_of_one_transaction_are_refused_by_its_commit);
  tcase_add_test(tests, a_key_that_meets_an_end_of_a_file_is_refused);
  tcase_add_test(tests, a_merge_that_meets_both_fails_and_rows_can_be_read);
  tcase_add_test(tests, a_commit_that_cannot_merge_says_why);
  tcase_add_test(tests, contradictions_are_found_on_samples);
  suite_add_tcase(suite, tests);
  return harness_run(suite);
}
