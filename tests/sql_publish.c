/* What becomes of work that waits for a commit (colfam_flush, colfam_compact): published by any table's
** commit of the process, kept over commits that fail, dropped when its inputs are gone (engine/README.md,
** invariants 3 and 4). */
#include <stdbool.h>
#include <string.h>

#include "harness_work.h"

/* ---- Published */

START_TEST(published_by_the_tables_own_commit) {
  work_flush_pending();
  twins_both(a, "INSERT INTO @ VALUES(1000, 'new')");
  ck_assert_int_eq(work_named_files(a, "t"), 1);
  work_is_sound(a);
  work_is_sound(b);
  work_phases(a, "colfam_flush('t')", "verify pending");
}
END_TEST

START_TEST(published_by_another_tables_commit) {
  work_flush_pending();
  work_write_u(a);
  ck_assert_int_eq(work_named_files(a, "t"), 1);
  work_is_sound(a);
  work_is_sound(b);
}
END_TEST

/* The publishing connection has never opened the table. */
START_TEST(published_by_another_connection) {
  work_flush_pending();
  sqlite3 *c = twins_connect();
  work_write_u(c);
  /* for one that knows t's comparator: it has none while it has not opened t */
  ck_assert_int_eq(work_named_files(a, "t"), !sql_calls());
  work_is_sound(a);
  work_is_sound(c);
  sql_ok(c, "VACUUM");
  sql_close(c);
}
END_TEST

START_TEST(published_with_the_writes_of_the_same_transaction) {
  work_make_u();
  twins_insert(a, 1, 50);
  sql_ok(a, "BEGIN");
  twins_both(a, "DELETE FROM @ WHERE k < 10");
  work_phases(a, "colfam_flush('t')", "verify pending");
  sql_ok(a, "COMMIT");
  ck_assert_int_eq(work_named_files(a, "t"), 1);
  work_is_sound(a);
  work_is_sound(b);
}
END_TEST

/* Rows written between computing and publishing stay in the log, above the file. */
START_TEST(rows_written_meanwhile_stay_newer) {
  work_make_u();
  twins_insert(a, 1, 50);
  work_phases(a, "colfam_compact('t')", "verify pending");
  sql_ok(b, "BEGIN");
  twins_both(b, "DELETE FROM @ WHERE k < 20; UPDATE @ SET v = 'changed' WHERE k > 40");
  sql_ok(b, "COMMIT");
  ck_assert_int_eq(work_named_files(b, "t"), 1);
  work_is_sound(a);
  work_is_sound(b);
  sql_ok(b, "INSERT INTO t(t) VALUES('compact')");
  twins_same(a);
  work_write_u(b);
  work_is_sound(a);
}
END_TEST

START_TEST(compaction_of_files_is_published_and_they_go) {
  work_make_u();
  for (int i = 0; i < 3; i++) {
    twins_insert(a, 10 * i, 10 * i + 9);
    sql_ok(a, "INSERT INTO t(t) VALUES('flush')");
  }
  ck_assert_int_eq(work_named_files(a, "t"), 3);
  work_phases(a, "colfam_compact('t')", "verify pending");
  ck_assert_int_eq(work_named_files(a, "t"), 3);
  work_write_u(a);
  work_write_u(a);
  ck_assert_int_eq(work_named_files(a, "t"), 1);
  twins_same(b);
  work_write_u(a);
  work_is_sound(a);
}
END_TEST

START_TEST(commit_that_changes_nothing_publishes_nothing) {
  work_flush_pending();
  sql_ok(a, "DELETE FROM t WHERE k = -1; BEGIN; DELETE FROM u WHERE 0; COMMIT; BEGIN; COMMIT;"
            "INSERT INTO parent VALUES(1)");
  ck_assert_int_eq(work_named_files(a, "t"), 0);
  work_write_u(a);
  ck_assert_int_eq(work_named_files(a, "t"), 1);
}
END_TEST

START_TEST(second_call_finds_what_waits) {
  work_flush_pending();
  work_phases(a, "colfam_flush('t')", "pending");
  work_phases(b, "colfam_flush('t')", "pending");
  ck_assert_int_eq(work_files_on_disk(), 1);
  work_phases(a, "colfam_compact('t')", "verify pending");
  ck_assert_int_eq(work_files_on_disk(), 2);
  work_phases(b, "colfam_flush('t')", "pending");
  work_write_u(b);
  ck_assert_int_eq(work_named_files(a, "t"), 1);
  work_write_u(a);
  work_is_sound(a);
}
END_TEST

START_TEST(command_form_does_it_over_again) {
  work_flush_pending();
  sql_ok(b, "INSERT INTO t(t) VALUES('flush')");
  ck_assert_int_eq(work_named_files(a, "t"), 1);
  work_write_u(a);
  work_is_sound(a);
}
END_TEST

/* ---- Not published */

START_TEST(rollback_keeps_it_for_the_next_commit) {
  work_flush_pending();
  sql_ok(a, "BEGIN");
  work_write_u(a);
  sql_ok(a, "ROLLBACK");
  ck_assert_int_eq(work_named_files(a, "t"), 0);
  work_write_u(a);
  work_is_sound(a);
  ck_assert_int_eq(work_named_files(a, "t"), 1);
}
END_TEST

static int refuse(void *unused) {
  (void)unused;
  return 1;
}

START_TEST(vetoed_commit_keeps_it) {
  work_flush_pending();
  sqlite3_commit_hook(a, refuse, NULL);
  sql_fails(a, "INSERT INTO u VALUES(7, 7)", SQLITE_CONSTRAINT_COMMITHOOK, NULL);
  sqlite3_commit_hook(a, NULL, NULL);
  ck_assert_int_eq(work_named_files(a, "t"), 0);
  twins_same(a);
  work_phases(b, "colfam_flush('t')", "pending");
  twins_both(b, "INSERT INTO @ VALUES(1000, 'new')");
  ck_assert_int_eq(work_named_files(a, "t"), 1);
  work_is_sound(a);
}
END_TEST

/* A failed COMMIT has written the edit already; t is read, written and rolled back to in the same
** transaction. */
static void fail_commit_of_u(void) {
  work_flush_pending();
  sql_ok(a, "BEGIN; INSERT INTO parent VALUES(1); SAVEPOINT s");
  work_write_u(a);
  sqlite3_stmt *reader = twins_reader("o");
  sql_fails(a, "COMMIT", SQLITE_BUSY, NULL);
  ck_assert_int_eq(work_named_files(a, "t"), 1);
  twins_same(a);
  sqlite3_finalize(reader);
}

START_TEST(busy_commit_is_retried) {
  fail_commit_of_u();
  sql_ok(a, "COMMIT");
  ck_assert_int_eq(work_named_files(b, "t"), 1);
  work_is_sound(a);
  work_is_sound(b);
}
END_TEST

START_TEST(busy_commit_is_rolled_back) {
  fail_commit_of_u();
  sql_ok(a, "ROLLBACK");
  ck_assert_int_eq(work_named_files(a, "t"), 0);
  twins_same(a);
  twins_both(a, "INSERT INTO @ VALUES(1000, 'new')");
  ck_assert_int_eq(work_named_files(a, "t"), 1);
  work_is_sound(a);
}
END_TEST

START_TEST(busy_commit_then_writes_to_the_guest) {
  fail_commit_of_u();
  twins_both(a, "DELETE FROM @ WHERE k < 20");
  sql_ok(a, "SAVEPOINT x");
  twins_both(a, "DELETE FROM @ WHERE k < 30");
  sql_ok(a, "ROLLBACK TO x");
  twins_same(a);
  sql_ok(a, "COMMIT");
  sql_rows(b, "SELECT count(*), min(k) FROM t", "31|20");
  work_is_sound(b);
}
END_TEST

START_TEST(busy_commit_then_rolled_back_to_before_it) {
  fail_commit_of_u();
  sql_ok(a, "ROLLBACK TO s");
  ck_assert_int_eq(work_named_files(a, "t"), 0);
  twins_same(a);
  twins_both(a, "INSERT INTO @ VALUES(1000, 'new')");
  sql_ok(a, "COMMIT");
  ck_assert_int_eq(work_named_files(b, "t"), 1);
  work_is_sound(b);
}
END_TEST

START_TEST(busy_commit_then_nothing_is_left_to_commit) {
  fail_commit_of_u();
  sql_ok(a, "ROLLBACK TO s; COMMIT");
  twins_same(a);
  twins_both(a, "DELETE FROM @ WHERE k = 7");
  ck_assert_int_eq(work_named_files(b, "t"), 1);
  work_is_sound(b);
}
END_TEST

START_TEST(busy_commit_then_a_command) {
  fail_commit_of_u();
  sql_ok(a, "INSERT INTO t(t) VALUES('compact'); COMMIT");
  ck_assert_int_eq(work_named_files(b, "t"), 1);
  sql_rows(b, "SELECT level FROM t_cffile", "1");
  work_is_sound(b);
}
END_TEST

/* The flush covers less than the command asks for. */
START_TEST(command_after_an_older_flush_was_adopted) {
  work_make_u();
  twins_insert(a, 1, 50);
  work_phases(a, "colfam_flush('t')", "verify pending");
  sql_ok(b, "PRAGMA user_version = 7"); /* a commit without colfam tables */
  sql_ok(a, "BEGIN");
  work_write_u(a);
  sqlite3_stmt *reader = twins_reader("o");
  sql_fails(a, "COMMIT", SQLITE_BUSY, NULL);
  sqlite3_finalize(reader);
  sql_ok(a, "INSERT INTO t(t) VALUES('flush')");
  twins_insert(a, 51, 60);
  sql_ok(a, "INSERT INTO t(t) VALUES('flush'); COMMIT");
  sql_rows(b,
           "SELECT count(*) FROM t_cflog WHERE seq > (SELECT value FROM t_cfmeta"
           " WHERE name = 'flushed_seq')",
           "0");
  work_is_sound(b);
}
END_TEST

START_TEST(busy_commit_then_the_guest_is_dropped) {
  fail_commit_of_u();
  sql_ok(a, "DROP TABLE t; DROP TABLE o; COMMIT");
  ck_assert_int_eq(work_files_on_disk(), 0);
  sql_rows(b, "SELECT count(*) FROM u", "1");
  sql_ok(a, TWINS_SCHEMA);
}
END_TEST

START_TEST(busy_commit_then_the_guest_is_renamed) {
  fail_commit_of_u();
  sql_ok(a, "ALTER TABLE t RENAME TO new; COMMIT; ALTER TABLE new RENAME TO t");
  ck_assert_int_eq(work_named_files(a, "t"), 1);
  work_is_sound(b);
}
END_TEST

START_TEST(busy_commit_then_the_host_is_dropped) {
  fail_commit_of_u();
  sql_ok(a, "DROP TABLE u; COMMIT");
  ck_assert_int_eq(work_named_files(a, "t"), 1);
  work_is_sound(b);
}
END_TEST

/* ---- Inputs gone */

/* Another process has flushed meanwhile (here: a connection that the waiting work does not see), so the
** work is of no use. */
START_TEST(flush_is_dropped_when_another_flush_came_first) {
  work_make_u();
  twins_insert(a, 1, 50);
  sql_ok(b, "BEGIN IMMEDIATE; INSERT INTO t(t) VALUES('flush')");
  work_phases(a, "colfam_flush('t')", "verify pending");
  sql_ok(b, "COMMIT");
  ck_assert_int_eq(work_files_on_disk(), 2);
  work_write_u(a);
  ck_assert_int_eq(work_named_files(a, "t"), 1);
  work_is_sound(a);
}
END_TEST

START_TEST(compaction_is_dropped_when_its_files_are_gone) {
  work_make_u();
  twins_insert(a, 1, 50);
  sql_ok(a, "INSERT INTO t(t) VALUES('flush')");
  twins_insert(a, 51, 99);
  sql_ok(a, "INSERT INTO t(t) VALUES('flush')");
  sql_ok(b, "BEGIN IMMEDIATE; INSERT INTO t(t) VALUES('compact')");
  work_phases(a, "colfam_compact('t')", "verify pending");
  sql_ok(b, "COMMIT");
  work_write_u(a);
  work_write_u(a);
  ck_assert_int_eq(work_named_files(a, "t"), 1);
  work_is_sound(a);
}
END_TEST

START_TEST(dropped_table) {
  work_flush_pending();
  sql_ok(b, "DROP TABLE t");
  work_write_u(a);
  ck_assert_int_eq(work_files_on_disk(), 0);
  sql_ok(a, "DROP TABLE o;" TWINS_SCHEMA);
}
END_TEST

START_TEST(dropped_table_frees_what_waits_at_once) {
  work_flush_pending();
  sql_ok(a, "DROP TABLE t; DROP TABLE o");
  ck_assert_int_eq(work_files_on_disk(), 0);
  sql_ok(a, TWINS_SCHEMA);
}
END_TEST

START_TEST(dropped_and_made_again) {
  work_flush_pending();
  sql_ok(b, "DROP TABLE t; DROP TABLE o;" TWINS_SCHEMA);
  twins_insert(b, 7, 8);
  work_write_u(a);
  ck_assert_int_eq(work_files_on_disk(), 0);
  work_is_sound(a);
}
END_TEST

START_TEST(renamed_table) {
  work_flush_pending();
  sql_ok(b, "ALTER TABLE t RENAME TO other");
  work_write_u(a);
  ck_assert_int_eq(work_named_files(a, "other"), 1);
  sql_ok(a, "ALTER TABLE other RENAME TO t");
  work_is_sound(a);
}
END_TEST

/* What is wrong with t is no reason to refuse a commit of u. */
START_TEST(damaged_table_does_not_fail_the_others) {
  sql_trust(a);
  work_flush_pending();
  sql_ok(a, "UPDATE t_cfmeta SET value = 'x' WHERE name = 'flushed_seq'");
  work_write_u(a);
  work_write_u(b);
  sql_ok(a, "UPDATE t_cfmeta SET value = 0 WHERE name = 'flushed_seq'");
  work_write_u(a);
  work_is_sound(a);
}
END_TEST

static int deny_cffile(void *unused, int action, const char *first, const char *second,
                       const char *third, const char *fourth) {
  (void)unused, (void)second, (void)third, (void)fourth;
  bool writes = action == SQLITE_INSERT || action == SQLITE_DELETE;
  return writes && first && strcmp(first, "t_cflog") == 0 ? SQLITE_DENY : SQLITE_OK;
}

START_TEST(authorizer_that_denies_the_table_does_not_fail_the_others) {
  work_flush_pending();
  sqlite3 *c = twins_connect();
  sqlite3_set_authorizer(c, deny_cffile, NULL);
  work_write_u(c);
  sql_close(c);
  ck_assert_int_eq(work_named_files(a, "t"), 0);
  work_write_u(a);
  work_is_sound(a);
}
END_TEST

static void add_both(Suite *suite, const char *name, void (*open)(void)) {
  TCase *tc = tcase_create(name);
  tcase_set_timeout(tc, 120);
  tcase_add_checked_fixture(tc, open, twins_close);
  tcase_add_test(tc, published_by_the_tables_own_commit);
  tcase_add_test(tc, published_by_another_tables_commit);
  tcase_add_test(tc, published_by_another_connection);
  tcase_add_test(tc, published_with_the_writes_of_the_same_transaction);
  tcase_add_test(tc, rows_written_meanwhile_stay_newer);
  tcase_add_test(tc, compaction_of_files_is_published_and_they_go);
  tcase_add_test(tc, commit_that_changes_nothing_publishes_nothing);
  tcase_add_test(tc, second_call_finds_what_waits);
  tcase_add_test(tc, command_form_does_it_over_again);
  tcase_add_test(tc, rollback_keeps_it_for_the_next_commit);
  tcase_add_test(tc, vetoed_commit_keeps_it);
  tcase_add_test(tc, dropped_table);
  tcase_add_test(tc, dropped_table_frees_what_waits_at_once);
  tcase_add_test(tc, dropped_and_made_again);
  tcase_add_test(tc, renamed_table);
  tcase_add_test(tc, damaged_table_does_not_fail_the_others);
  tcase_add_test(tc, authorizer_that_denies_the_table_does_not_fail_the_others);
  suite_add_tcase(suite, tc);
}

/* Where COMMIT can fail with BUSY. */
static void add_rollback_journal(Suite *suite) {
  TCase *tc = tcase_create("rollback journal alone");
  tcase_add_checked_fixture(tc, twins_open_delete, twins_close);
  tcase_add_test(tc, busy_commit_is_retried);
  tcase_add_test(tc, busy_commit_is_rolled_back);
  tcase_add_test(tc, busy_commit_then_writes_to_the_guest);
  tcase_add_test(tc, busy_commit_then_rolled_back_to_before_it);
  tcase_add_test(tc, busy_commit_then_nothing_is_left_to_commit);
  tcase_add_test(tc, busy_commit_then_a_command);
  tcase_add_test(tc, command_after_an_older_flush_was_adopted);
  tcase_add_test(tc, busy_commit_then_the_guest_is_dropped);
  tcase_add_test(tc, busy_commit_then_the_guest_is_renamed);
  tcase_add_test(tc, busy_commit_then_the_host_is_dropped);
  suite_add_tcase(suite, tc);
}

/* Where one connection can compute while another one has a write transaction. */
static void add_wal(Suite *suite) {
  TCase *tc = tcase_create("wal alone");
  tcase_add_checked_fixture(tc, twins_open_wal, twins_close);
  tcase_add_test(tc, flush_is_dropped_when_another_flush_came_first);
  tcase_add_test(tc, compaction_is_dropped_when_its_files_are_gone);
  suite_add_tcase(suite, tc);
}

int main(void) {
  Suite *suite = suite_create("sql_publish");
  add_both(suite, "rollback journal", twins_open_delete);
  add_both(suite, "wal", twins_open_wal);
  add_rollback_journal(suite);
  add_wal(suite);
  return harness_run(suite);
}
