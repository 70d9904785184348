/* Commands and names where nobody expects them. Options changed in the middle of a transaction: what a
** savepoint undoes must not go on working, and the row count must not depend on when an option was switched.
** Tables of the application with the names of our own. */
#include <stddef.h>
#include <unistd.h>

#include "harness_sql.h"

static sqlite3 *db;

static void open_table(void) {
  db = sql_open(sql_path("attacks.db"));
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(k TEXT PRIMARY KEY, v)");
  sql_ok(db, "INSERT INTO t VALUES('a', 1), ('b', 2)");
}

static void close_table(void) {
  sql_close(db);
}

static void check_rows(const char *expected) {
  sql_rows(db, "SELECT k, v FROM t", expected);
  sql_same(db, "SELECT count(*) FROM t", "SELECT count(*) FROM (SELECT v FROM t)");
}

START_TEST(replacing_after_track_rows_off_counts_right) {
  sql_ok(db, "BEGIN; INSERT INTO t(t) VALUES('track_rows=off')");
  sql_ok(db, "INSERT OR REPLACE INTO t VALUES('a', 3)");
  check_rows("a|3\nb|2");
  sql_ok(db, "COMMIT");
  check_rows("a|3\nb|2");
}
END_TEST

START_TEST(track_rows_off_and_on_in_one_transaction_counts_right) {
  sql_ok(db, "BEGIN; INSERT INTO t(t) VALUES('track_rows=off')");
  sql_ok(db,
         "INSERT OR REPLACE INTO t VALUES('a', 3); UPDATE OR REPLACE t SET k = 'a' WHERE k = 'b'");
  sql_ok(db, "INSERT INTO t(t) VALUES('track_rows=on')");
  check_rows("a|2");
  sql_ok(db, "COMMIT");
  check_rows("a|2");
  sql_rows(db, "SELECT * FROM colfam_check('t')", "");
}
END_TEST

START_TEST(track_rows_on_after_blind_writes_counts_right) {
  sql_ok(db, "INSERT INTO t(t) VALUES('track_rows=off')");
  sql_ok(db, "INSERT OR REPLACE INTO t VALUES('a', 3); INSERT OR REPLACE INTO t VALUES('b', 3)");
  sql_ok(db, "BEGIN; INSERT OR REPLACE INTO t VALUES('b', 4)");
  sql_ok(db, "INSERT INTO t(t) VALUES('track_rows=on'); INSERT OR REPLACE INTO t VALUES('a', 4)");
  check_rows("a|4\nb|4");
  sql_ok(db, "COMMIT");
  check_rows("a|4\nb|4");
  sql_rows(db, "SELECT * FROM colfam_check('t')", "");
}
END_TEST

START_TEST(conflict_option_rolled_back_to_works_no_more) {
  sql_ok(db, "BEGIN; SAVEPOINT s; INSERT INTO t(t) VALUES('conflict=replace')");
  sql_ok(db, "INSERT INTO t VALUES('a', 3); ROLLBACK TO s");
  sql_fails(db, "INSERT INTO t VALUES('a', 4)", SQLITE_CONSTRAINT_PRIMARYKEY, "t.k");
  sql_ok(db, "COMMIT");
  check_rows("a|1\nb|2");
}
END_TEST

START_TEST(conflict_option_of_a_failed_statement_works_no_more) {
  sql_ok(db, "BEGIN");
  sql_fails(db, "INSERT INTO t(t) VALUES('conflict=replace'), ('nonsense')", SQLITE_ERROR,
            "nonsense");
  sql_fails(db, "INSERT INTO t VALUES('a', 4)", SQLITE_CONSTRAINT_PRIMARYKEY, "t.k");
  sql_ok(db, "COMMIT");
  check_rows("a|1\nb|2");
}
END_TEST

START_TEST(option_from_before_the_savepoint_stays) {
  sql_ok(db, "BEGIN; INSERT INTO t(t) VALUES('conflict=replace'); SAVEPOINT s");
  sql_ok(db, "INSERT INTO t(t) VALUES('conflict=abort'); ROLLBACK TO s");
  sql_ok(db, "INSERT INTO t VALUES('a', 4); COMMIT; INSERT INTO t VALUES('b', 5)");
  check_rows("a|4\nb|5");
}
END_TEST

START_TEST(options_rolled_back_to_with_a_rename) {
  sql_ok(db, "BEGIN; SAVEPOINT s; INSERT INTO t(t) VALUES('conflict=replace')");
  sql_ok(db, "ALTER TABLE t RENAME TO u; INSERT INTO u VALUES('c', 1); ROLLBACK TO s");
  sql_fails(db, "INSERT INTO t VALUES('a', 4)", SQLITE_CONSTRAINT_PRIMARYKEY, "t.k");
  sql_ok(db, "INSERT INTO t(t) VALUES('filter_bits=5'); COMMIT");
  check_rows("a|1\nb|2");
  sql_rows(db, "SELECT value FROM t_cfmeta WHERE name = 'option.filter_bits'", "5");
}
END_TEST

START_TEST(row_count_goes_on_after_track_rows_off_is_rolled_back_to) {
  sql_ok(db, "BEGIN; INSERT INTO t VALUES('c', 3); SAVEPOINT s");
  sql_ok(db, "INSERT INTO t(t) VALUES('track_rows=off'); ROLLBACK TO s; COMMIT");
  check_rows("a|1\nb|2\nc|3");
  sql_rows(db, "SELECT rows FROM t_cflog ORDER BY seq DESC LIMIT 1", "3");
}
END_TEST

START_TEST(drop_under_a_temp_table_of_our_own_name) {
  sql_trust(db);
  sql_ok(db, "CREATE TEMP TABLE colfam_drops(dropped); CREATE TEMP TABLE t_cflog(x)");
  sql_ok(db, "INSERT INTO t(t) VALUES('flush'); INSERT INTO t VALUES('c', 3); DROP TABLE t");
  sql_rows(db, "SELECT count(*) FROM temp.colfam_drops", "0");
  sql_rows(db, "SELECT name FROM main.sqlite_schema", "");
  ck_assert_int_ne(access(sql_path("attacks.db-colfam"), F_OK), 0);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("Commands and names");
  TCase *tc = tcase_create("options");
  tcase_add_checked_fixture(tc, open_table, close_table);
  tcase_add_test(tc, replacing_after_track_rows_off_counts_right);
  tcase_add_test(tc, track_rows_off_and_on_in_one_transaction_counts_right);
  tcase_add_test(tc, track_rows_on_after_blind_writes_counts_right);
  tcase_add_test(tc, conflict_option_rolled_back_to_works_no_more);
  tcase_add_test(tc, conflict_option_of_a_failed_statement_works_no_more);
  tcase_add_test(tc, option_from_before_the_savepoint_stays);
  tcase_add_test(tc, options_rolled_back_to_with_a_rename);
  tcase_add_test(tc, row_count_goes_on_after_track_rows_off_is_rolled_back_to);
  tcase_add_test(tc, drop_under_a_temp_table_of_our_own_name);
  suite_add_tcase(suite, tc);
  return harness_run(suite);
}
