/* CREATE, DROP and RENAME inside transactions and savepoints, with writes pending, committed and
** undone. */
#include <unistd.h>

#include "harness_twins.h"

static int file_count(sqlite3 *db) {
  return (int)sql_int(db, "SELECT count(*) FROM t_cffile");
}

START_TEST(drop_rolled_back_to_keeps_pending_writes) {
  twins_insert(a, 1, 3);
  sql_ok(a, "BEGIN");
  twins_insert(a, 4, 6);
  sql_ok(a, "SAVEPOINT s; DROP TABLE t; ROLLBACK TO s");
  twins_same(a);
  sql_ok(a, "COMMIT");
  twins_same(a);
  twins_same(b);
  sql_rows(b, "SELECT k FROM t", "1\n2\n3\n4\n5\n6");
}
END_TEST

START_TEST(drop_rolled_back_to_then_written_and_rolled_back_to_again) {
  twins_insert(a, 1, 3);
  sql_ok(a, "BEGIN");
  twins_insert(a, 4, 6);
  sql_ok(a, "SAVEPOINT s1");
  twins_insert(a, 7, 7);
  sql_ok(a, "SAVEPOINT s2; DROP TABLE t; ROLLBACK TO s2");
  twins_insert(a, 8, 8);
  twins_same(a);
  sql_ok(a, "SAVEPOINT s3");
  twins_insert(a, 9, 9);
  sql_ok(a, "ROLLBACK TO s3");
  twins_same(a);
  sql_ok(a, "ROLLBACK TO s1");
  twins_same(a);
  twins_insert(a, 10, 10);
  sql_ok(a, "COMMIT");
  sql_rows(b, "SELECT k FROM t", "1\n2\n3\n4\n5\n6\n10");
  twins_same(b);
}
END_TEST

START_TEST(drop_rolled_back_brings_the_table_back) {
  twins_insert(a, 1, 30);
  sql_ok(a, "INSERT INTO t(t) VALUES('flush')");
  twins_insert(a, 31, 40);
  sql_ok(a, "BEGIN");
  twins_insert(a, 41, 42);
  sql_ok(a, "DROP TABLE t; ROLLBACK");
  twins_same(a);
  sql_rows(a, "SELECT * FROM colfam_check('t')", "");
  twins_insert(a, 50, 51);
  twins_same(b);
}
END_TEST

START_TEST(drop_and_create_in_one_transaction) {
  twins_insert(a, 1, 30);
  for (int commit = 0; commit < 2; commit++) {
    sql_ok(a, "BEGIN");
    twins_insert(a, 31, 35);
    sql_ok(a, "DROP TABLE t; DROP TABLE o;" TWINS_SCHEMA);
    twins_insert(a, 1000, 1003);
    twins_same(a);
    sql_ok(a, commit ? "COMMIT" : "ROLLBACK");
    twins_same(a);
    twins_same(b);
  }
  sql_rows(b, "SELECT k FROM t", "1000\n1001\n1002\n1003");
}
END_TEST

START_TEST(created_in_a_rolled_back_savepoint_then_commit) {
  sql_ok(a, "BEGIN");
  twins_insert(a, 1, 3);
  sql_ok(a, "SAVEPOINT s; CREATE VIRTUAL TABLE n USING colfam(k PRIMARY KEY, v);"
            "INSERT INTO n VALUES(1, 1), (2, 2); ROLLBACK TO s; COMMIT");
  sql_rows(a, "SELECT name FROM sqlite_schema WHERE name GLOB 'n*'", "");
  twins_same(b);
  sql_ok(a, "CREATE VIRTUAL TABLE n USING colfam(k PRIMARY KEY, v); INSERT INTO n VALUES(9, 9)");
  sql_rows(b, "SELECT * FROM n", "9|9");
}
END_TEST

START_TEST(created_and_created_again_after_rollback_to) {
  sql_ok(a, "BEGIN; SAVEPOINT s; CREATE VIRTUAL TABLE n USING colfam(k PRIMARY KEY, v);"
            "INSERT INTO n VALUES(1, 1); ROLLBACK TO s;"
            "CREATE VIRTUAL TABLE n USING colfam(k PRIMARY KEY, v); INSERT INTO n VALUES(2, 2)");
  sql_rows(a, "SELECT * FROM n", "2|2");
  sql_ok(a, "COMMIT");
  sql_rows(a, "SELECT * FROM n", "2|2");
  sql_rows(b, "SELECT * FROM n", "2|2");
}
END_TEST

START_TEST(rename_rolled_back_to_then_commit) {
  twins_insert(a, 1, 3);
  sql_ok(a, "BEGIN");
  twins_insert(a, 4, 6);
  sql_ok(a, "SAVEPOINT s; ALTER TABLE t RENAME TO u; INSERT INTO u VALUES(100, 'undone');"
            "ROLLBACK TO s");
  twins_same(a);
  twins_insert(a, 7, 8);
  sql_ok(a, "COMMIT");
  twins_same(b);
}
END_TEST

START_TEST(first_written_after_a_rename_that_is_rolled_back_to) {
  twins_insert(a, 1, 3);
  sql_ok(a, "BEGIN; SAVEPOINT s; ALTER TABLE t RENAME TO u; INSERT INTO u VALUES(100, 'undone');"
            "INSERT INTO u(u) VALUES('flush'); ROLLBACK TO s; INSERT INTO o VALUES(9, 9); COMMIT");
  sql_ok(a, "INSERT INTO t VALUES(9, 9)");
  twins_same(a);
  twins_same(b);
}
END_TEST

START_TEST(renamed_and_dropped_then_rolled_back_to_then_commit) {
  for (int pending = 0; pending < 2; pending++) {
    twins_insert(a, 100 * pending, 100 * pending + 30);
    sql_ok(a, "INSERT INTO t(t) VALUES('flush'); BEGIN; SAVEPOINT s");
    if (pending) twins_insert(a, 31, 35);
    sql_ok(a, "ALTER TABLE t RENAME TO u; DROP TABLE u; ROLLBACK TO s;"
              "INSERT INTO o VALUES(-1, -1); DELETE FROM o WHERE k = -1; COMMIT");
    twins_same(a);
    twins_same(b);
    sql_rows(a, "SELECT * FROM colfam_check('t')", "");
  }
}
END_TEST

/* The object of before the RENAME stays in the transaction when the DROP takes the newest one
** out. */
START_TEST(dropped_with_an_older_object_in_the_transaction) {
  twins_insert(a, 1, 30);
  sql_ok(a, "INSERT INTO t(t) VALUES('flush')");
  twins_insert(a, 31, 60);
  sql_ok(a, "BEGIN; INSERT INTO t VALUES(100, 1); INSERT INTO t(t) VALUES('compact');"
            "ALTER TABLE t RENAME TO u; INSERT INTO u VALUES(101, 1); DROP TABLE u; COMMIT;"
            "DROP TABLE o;" TWINS_SCHEMA);
  twins_insert(a, 1, 5);
  ck_assert_int_ne(access(sql_path("app.db-colfam"), F_OK), 0);
}
END_TEST

START_TEST(renamed_and_committed_with_writes_before_and_after) {
  twins_insert(a, 1, 3);
  sql_ok(a, "BEGIN");
  twins_insert(a, 4, 6);
  sql_ok(a, "ALTER TABLE t RENAME TO u; INSERT INTO u VALUES(7, 'x'); INSERT INTO o VALUES(7, 'x');"
            "COMMIT");
  sql_same(b, "SELECT * FROM u", "SELECT * FROM o");
  sql_ok(a, "ALTER TABLE u RENAME TO t");
  twins_same(b);
}
END_TEST

START_TEST(three_objects_of_one_table_in_one_transaction) {
  twins_insert(a, 1, 3);
  sql_ok(a, "BEGIN");
  twins_insert(a, 4, 4);
  sql_ok(a, "SAVEPOINT s1; ALTER TABLE t RENAME TO u; INSERT INTO u VALUES(5, 'x');"
            "INSERT INTO o VALUES(5, 'x')");
  sql_ok(a, "SAVEPOINT s2; ALTER TABLE u RENAME TO t");
  twins_insert(a, 6, 7);
  sql_ok(a, "SAVEPOINT s3");
  twins_both(a, "DELETE FROM @ WHERE k < 6");
  sql_ok(a, "ROLLBACK TO s3");
  twins_same(a);
  sql_ok(a, "ROLLBACK TO s2");
  sql_same(a, "SELECT * FROM u", "SELECT * FROM o");
  sql_ok(a, "ALTER TABLE u RENAME TO t");
  twins_insert(a, 8, 9);
  sql_ok(a, "COMMIT");
  sql_rows(b, "SELECT k FROM t", "1\n2\n3\n4\n5\n8\n9");
  twins_same(b);
}
END_TEST

/* SQLite tells the second object of `t`, which comes with the first single-row statement after a
** RENAME of any table, of the savepoint that is older than the transaction of `t`. */
START_TEST(second_object_joins_in_a_savepoint_older_than_the_transaction) {
  sql_ok(a, "CREATE VIRTUAL TABLE other USING colfam(k PRIMARY KEY, v)");
  twins_insert(a, 1, 5);
  sql_ok(a, "BEGIN; SAVEPOINT s");
  twins_both(a, "UPDATE @ SET v = 'undone' WHERE k > 3");
  sql_ok(a, "ALTER TABLE other RENAME TO another");
  twins_both(a, "INSERT INTO @ VALUES(7, 'undone')");
  sql_ok(a, "ROLLBACK TO s");
  twins_same(a);
  sql_ok(a, "COMMIT");
  twins_same(b);
}
END_TEST

START_TEST(option_set_in_a_rolled_back_transaction_is_undone) {
  const char *option = "SELECT value FROM t_cfmeta WHERE name = 'option.memtable_bytes'";
  sql_rows(a, option, "16384");
  sql_ok(a, "BEGIN; INSERT INTO t(t) VALUES('memtable_bytes=65536')");
  sql_rows(a, option, "65536");
  sql_ok(a, "ROLLBACK");
  sql_rows(a, option, "16384");
  for (int i = 0; i < 20; i++) {
    twins_both(a, "INSERT INTO @ SELECT coalesce(max(k), 0) + 1, printf('%02000d', 1) FROM @");
  }
  ck_assert_int_gt(file_count(a), 0);
}
END_TEST

static void add(Suite *suite, const char *name, SFun open) {
  TCase *tc = tcase_create(name);
  tcase_add_checked_fixture(tc, open, twins_close);
  tcase_add_test(tc, drop_rolled_back_to_keeps_pending_writes);
  tcase_add_test(tc, drop_rolled_back_to_then_written_and_rolled_back_to_again);
  tcase_add_test(tc, drop_rolled_back_brings_the_table_back);
  tcase_add_test(tc, drop_and_create_in_one_transaction);
  tcase_add_test(tc, created_in_a_rolled_back_savepoint_then_commit);
  tcase_add_test(tc, created_and_created_again_after_rollback_to);
  tcase_add_test(tc, rename_rolled_back_to_then_commit);
  tcase_add_test(tc, first_written_after_a_rename_that_is_rolled_back_to);
  tcase_add_test(tc, renamed_and_dropped_then_rolled_back_to_then_commit);
  tcase_add_test(tc, dropped_with_an_older_object_in_the_transaction);
  tcase_add_test(tc, renamed_and_committed_with_writes_before_and_after);
  tcase_add_test(tc, three_objects_of_one_table_in_one_transaction);
  tcase_add_test(tc, second_object_joins_in_a_savepoint_older_than_the_transaction);
  tcase_add_test(tc, option_set_in_a_rolled_back_transaction_is_undone);
  suite_add_tcase(suite, tc);
}

int main(void) {
  Suite *suite = suite_create("DDL in transactions");
  add(suite, "rollback journal", twins_open_delete);
  add(suite, "wal", twins_open_wal);
  return harness_run(suite);
}
