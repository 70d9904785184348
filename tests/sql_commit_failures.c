/* Commits that fail after xSync has run (BUSY, veto, foreign key, interrupt, full database) and what may
** follow: retry, more writes, ROLLBACK TO, ROLLBACK. The rules: engine/README.md, invariants 1, 3 and 6. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "harness_twins.h"

static int file_count(sqlite3 *db) {
  return (int)sql_int(db, "SELECT count(*) FROM t_cffile");
}

START_TEST(own_row_is_not_seen_after_busy_commit) {
  twins_both(a, "INSERT INTO @ VALUES(0, 'first')");
  twins_both(a, "BEGIN; INSERT INTO @ VALUES(1, 'kept'); COMMIT");
  sql_ok(a, "BEGIN");
  twins_both(a, "INSERT INTO @ VALUES(2, 'kept')");
  sql_ok(a, "SAVEPOINT s");
  twins_both(a, "INSERT INTO @ VALUES(3, 'undone')");
  sqlite3_stmt *reader = twins_reader("o");
  sql_fails(a, "COMMIT", SQLITE_BUSY, NULL);
  sql_rows(a, "SELECT k FROM t", "0\n1\n2\n3");
  sql_ok(a, "ROLLBACK TO s");
  sql_rows(a, "SELECT k FROM t", "0\n1\n2");
  sqlite3_finalize(reader);
  sql_ok(a, "COMMIT");
  twins_same(a);
  twins_same(b);
  sql_rows(b, "SELECT k FROM t", "0\n1\n2");
}
END_TEST

START_TEST(busy_commit_then_rollback) {
  twins_insert(a, 1, 3);
  sql_ok(a, "BEGIN");
  twins_insert(a, 4, 9);
  sqlite3_stmt *reader = twins_reader("t");
  sql_fails(a, "COMMIT", SQLITE_BUSY, NULL);
  sql_ok(a, "ROLLBACK");
  sql_rows(a, "SELECT k FROM t", "1\n2\n3");
  sqlite3_finalize(reader);
  twins_same(a);
  twins_same(b);
}
END_TEST

START_TEST(busy_commit_then_more_writes_then_commit) {
  twins_insert(a, 1, 3);
  sql_ok(a, "BEGIN");
  twins_insert(a, 4, 9);
  sqlite3_stmt *reader = twins_reader("t");
  sql_fails(a, "COMMIT", SQLITE_BUSY, NULL);
  twins_insert(a, 10, 12);
  twins_both(a, "DELETE FROM @ WHERE k IN (1, 4)");
  sql_fails(a, "COMMIT", SQLITE_BUSY, NULL);
  twins_both(a, "UPDATE @ SET k = k + 100 WHERE k = 5");
  sqlite3_finalize(reader);
  sql_ok(a, "COMMIT");
  twins_same(b);
  sql_rows(b, "SELECT k FROM t", "2\n3\n6\n7\n8\n9\n10\n11\n12\n105");
}
END_TEST

START_TEST(busy_commit_then_all_writes_undone_then_commit) {
  twins_insert(a, 1, 3);
  sqlite3_int64 rows = sql_int(a, "SELECT count(*) FROM t_cflog");
  sql_ok(a, "BEGIN; SAVEPOINT s");
  twins_insert(a, 4, 9);
  sqlite3_stmt *reader = twins_reader("t");
  sql_fails(a, "COMMIT", SQLITE_BUSY, NULL);
  sql_ok(a, "ROLLBACK TO s");
  sqlite3_finalize(reader);
  sql_ok(a, "COMMIT");
  ck_assert_int_eq(sql_int(a, "SELECT count(*) FROM t_cflog"), rows);
  twins_insert(a, 20, 21);
  twins_same(b);
}
END_TEST

START_TEST(second_sync_of_a_transaction_keeps_its_job) {
  twins_insert(a, 1, 50);
  sql_ok(a, "BEGIN");
  twins_insert(a, 51, 60);
  sql_ok(a, "INSERT INTO t(t) VALUES('flush')");
  sqlite3_stmt *reader = twins_reader("o");
  sql_fails(a, "COMMIT", SQLITE_BUSY, NULL);
  sql_fails(a, "COMMIT", SQLITE_BUSY, NULL);
  twins_insert(a, 61, 65);
  sqlite3_finalize(reader);
  sql_ok(a, "COMMIT");
  ck_assert_int_eq(file_count(a), 1);
  sql_rows(a, "SELECT * FROM colfam_check('t')", "");
  twins_same(b);
}
END_TEST

START_TEST(publish_then_rollback_to_then_commit) {
  twins_insert(a, 1, 50);
  sql_ok(a, "BEGIN");
  twins_insert(a, 51, 60);
  sql_ok(a, "SAVEPOINT s; INSERT INTO t(t) VALUES('compact')");
  sqlite3_stmt *reader = twins_reader("o");
  sql_fails(a, "COMMIT", SQLITE_BUSY, NULL);
  sql_ok(a, "ROLLBACK TO s");
  twins_same(a);
  sqlite3_finalize(reader);
  sql_ok(a, "COMMIT");
  twins_same(a);
  twins_same(b);
  sql_rows(a, "SELECT * FROM colfam_check('t')", "");
}
END_TEST

START_TEST(flush_published_by_a_failed_commit_then_compact) {
  twins_insert(a, 1, 50);
  sql_ok(a, "INSERT INTO t(t) VALUES('flush')");
  twins_insert(a, 51, 100);
  sql_ok(a, "BEGIN; INSERT INTO t(t) VALUES('flush')");
  sqlite3_stmt *reader = twins_reader("o");
  sql_fails(a, "COMMIT", SQLITE_BUSY, NULL);
  sql_ok(a, "INSERT INTO t(t) VALUES('compact')");
  sqlite3_finalize(reader);
  sql_ok(a, "COMMIT");
  ck_assert_int_eq(file_count(a), 1);
  twins_same(a);
  twins_same(b);
  sql_rows(a, "SELECT * FROM colfam_check('t')", "");
}
END_TEST

START_TEST(compact_published_by_a_failed_commit_then_flush) {
  twins_insert(a, 1, 50);
  sql_ok(a, "INSERT INTO t(t) VALUES('flush')");
  twins_insert(a, 51, 100);
  sql_ok(a, "BEGIN; INSERT INTO t(t) VALUES('compact')");
  sqlite3_stmt *reader = twins_reader("o");
  sql_fails(a, "COMMIT", SQLITE_BUSY, NULL);
  sql_ok(a, "INSERT INTO t(t) VALUES('flush')");
  sqlite3_finalize(reader);
  sql_ok(a, "COMMIT");
  twins_same(a);
  twins_same(b);
  sql_rows(a, "SELECT * FROM colfam_check('t')", "");
}
END_TEST

START_TEST(table_dropped_after_a_failed_commit_published_a_compaction) {
  twins_insert(a, 1, 50);
  sql_ok(a, "INSERT INTO t(t) VALUES('flush')");
  twins_insert(a, 51, 100);
  sql_ok(a, "BEGIN; INSERT INTO t(t) VALUES('compact')");
  sqlite3_stmt *reader = twins_reader("o");
  sql_fails(a, "COMMIT", SQLITE_BUSY, NULL);
  sql_ok(a, "DROP TABLE t");
  sqlite3_finalize(reader);
  sql_ok(a, "COMMIT; DROP TABLE o;" TWINS_SCHEMA);
  ck_assert_int_ne(access(sql_path("app.db-colfam"), F_OK), 0);
}
END_TEST

START_TEST(connection_closed_after_a_failed_commit_of_a_drop) {
  twins_insert(a, 1, 50);
  sql_ok(a, "INSERT INTO t(t) VALUES('flush'); BEGIN");
  twins_insert(a, 51, 60);
  sql_ok(a, "DROP TABLE t");
  sqlite3_stmt *reader = twins_reader("o");
  sql_fails(a, "COMMIT", SQLITE_BUSY, NULL);
  sql_close(a);
  sqlite3_finalize(reader);
  a = twins_connect();
  ck_assert_int_eq(sql_int(a, "SELECT count(*) FROM t"), 50);
}
END_TEST

START_TEST(check_after_a_failed_commit_published_a_flush) {
  for (int i = 0; i < 10; i++) twins_insert(a, i, i);
  sql_ok(a, "BEGIN; INSERT INTO t(t) VALUES('flush')");
  sqlite3_stmt *reader = twins_reader("o");
  sql_fails(a, "COMMIT", SQLITE_BUSY, NULL);
  sql_rows(a, "SELECT * FROM colfam_check('t')", "");
  sqlite3_finalize(reader);
  sql_ok(a, "COMMIT");
  sql_rows(a, "SELECT * FROM colfam_check('t')", "");
}
END_TEST

START_TEST(release_of_the_outermost_savepoint_fails_then_works) {
  twins_insert(a, 1, 2);
  sql_ok(a, "SAVEPOINT s");
  twins_insert(a, 3, 4);
  sqlite3_stmt *reader = twins_reader("t");
  sql_fails(a, "RELEASE s", SQLITE_BUSY, NULL);
  twins_insert(a, 5, 6);
  sqlite3_finalize(reader);
  sql_ok(a, "RELEASE s");
  ck_assert_int_ne(sqlite3_get_autocommit(a), 0);
  twins_same(b);
}
END_TEST

static int refuse(void *count) {
  return --*(int *)count >= 0;
}

START_TEST(vetoed_commit_rolls_back_both) {
  twins_insert(a, 1, 50);
  int left = 1;
  sqlite3_commit_hook(a, refuse, &left);
  sql_ok(a, "BEGIN");
  twins_insert(a, 51, 60);
  sql_ok(a, "INSERT INTO t(t) VALUES('flush')");
  sql_fails(a, "COMMIT", SQLITE_CONSTRAINT_COMMITHOOK, NULL);
  ck_assert_int_ne(sqlite3_get_autocommit(a), 0);
  ck_assert_int_eq(sql_int(a, "SELECT count(*) FROM t"), 50);
  ck_assert_int_eq(file_count(a), 0);
  twins_same(a);
  twins_insert(a, 51, 60);
  twins_same(b);
}
END_TEST

START_TEST(deferred_foreign_key_fails_the_commit_then_is_mended) {
  sql_ok(a, "BEGIN");
  twins_insert(a, 1, 5);
  sql_ok(a, "INSERT INTO child VALUES(7)");
  sql_fails(a, "COMMIT", SQLITE_CONSTRAINT_FOREIGNKEY, NULL);
  twins_insert(a, 6, 9);
  twins_same(a);
  sql_ok(a, "INSERT INTO parent VALUES(7); COMMIT");
  twins_same(b);
}
END_TEST

START_TEST(deferred_foreign_key_fails_the_commit_then_rollback_to_before) {
  sql_ok(a, "BEGIN");
  twins_insert(a, 1, 5);
  sql_ok(a, "SAVEPOINT s; INSERT INTO child VALUES(7)");
  twins_insert(a, 6, 9);
  sql_fails(a, "COMMIT", SQLITE_CONSTRAINT_FOREIGNKEY, NULL);
  sql_ok(a, "ROLLBACK TO s; COMMIT");
  sql_rows(b, "SELECT k FROM t", "1\n2\n3\n4\n5");
  twins_same(b);
}
END_TEST

static int interrupt_at(void *left) {
  return --*(int *)left == 0;
}

/* SQLite may report an interrupt that came right after the commit. */
START_TEST(interrupted_commit_is_all_or_nothing) {
  twins_insert(a, 1, 30);
  int interrupted = 0;
  bool done = false;
  for (int n = 1; !done; n += 1 + n / 20) {
    sql_ok(a, "BEGIN");
    twins_both(a, "INSERT OR REPLACE INTO @ VALUES(100, 'new')");
    sql_ok(a, "INSERT INTO t(t) VALUES('flush')");
    int left = n;
    sqlite3_progress_handler(a, 1, interrupt_at, &left);
    int rc = sqlite3_exec(a, "COMMIT", NULL, NULL, NULL);
    sqlite3_progress_handler(a, 0, NULL, NULL);
    ck_assert_msg(rc == SQLITE_OK || rc == SQLITE_INTERRUPT, "step %d: code %d", n, rc);
    if (!sqlite3_get_autocommit(a)) sql_ok(a, "ROLLBACK");
    twins_same(a);
    done = sql_int(a, "SELECT count(*) FROM t") == 31;
    interrupted += !done;
  }
  ck_assert_int_gt(interrupted, 3);
}
END_TEST

/* A flush that fails is no reason to refuse a commit until the log has twice its budget. */
START_TEST(directory_that_cannot_be_made_stops_commits_at_twice_the_log_budget) {
  fclose(fopen(sql_path("app.db-colfam"), "w"));
  int rc = SQLITE_OK, commits = 0;
  while (rc == SQLITE_OK && commits < 100) {
    sql_ok(a, "BEGIN");
    twins_both(a, "INSERT INTO @ SELECT count(*), printf('%02000d', 1) FROM @");
    rc = sqlite3_exec(a, "COMMIT", NULL, NULL, NULL);
    commits += rc == SQLITE_OK;
  }
  ck_assert_msg((rc & 0xff) == SQLITE_IOERR, "code %d: %s", rc, sqlite3_errmsg(a));
  ck_assert_ptr_nonnull(strstr(sqlite3_errmsg(a), "app.db-colfam"));
  ck_assert_int_ge(commits, 16);
  ck_assert_int_le(commits, 18);
  ck_assert_int_ne(sqlite3_get_autocommit(a), 0);
  ck_assert_int_eq(sql_int(a, "SELECT count(*) FROM t"), commits);
  twins_same(b);
  ck_assert_int_eq(unlink(sql_path("app.db-colfam")), 0);
  twins_insert(a, 1000, 1001);
  ck_assert_int_eq(file_count(a), 1);
}
END_TEST

START_TEST(full_database_at_commit_rolls_back_both) {
  twins_insert(a, 1, 30);
  sql_okf(a, "PRAGMA max_page_count = %lld", sql_int(a, "PRAGMA page_count"));
  sql_ok(a, "BEGIN");
  sql_ok(a, "INSERT INTO t VALUES(100, randomblob(12000))");
  sql_fails(a, "COMMIT", SQLITE_FULL, NULL);
  ck_assert_int_ne(sqlite3_get_autocommit(a), 0);
  twins_same(a);
  sql_ok(a, "PRAGMA max_page_count = 100000");
  twins_insert(a, 31, 60);
  twins_same(b);
}
END_TEST

START_TEST(created_in_a_savepoint_with_a_busy_commit_then_rolled_back_to) {
  twins_insert(a, 1, 3);
  sql_ok(a, "BEGIN; SAVEPOINT s; CREATE VIRTUAL TABLE n USING colfam(k PRIMARY KEY, v);"
            "INSERT INTO n VALUES(1, 1)");
  twins_insert(a, 4, 5);
  sqlite3_stmt *reader = twins_reader("o");
  sql_fails(a, "COMMIT", SQLITE_BUSY, NULL);
  sql_ok(a, "ROLLBACK TO s");
  sqlite3_finalize(reader);
  sql_ok(a, "COMMIT");
  sql_rows(b, "SELECT name FROM sqlite_schema WHERE name GLOB 'n*'", "");
  twins_same(b);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("failing commits");
  TCase *tc = tcase_create("failing commits");
  tcase_add_checked_fixture(tc, twins_open_delete, twins_close);
  tcase_add_test(tc, own_row_is_not_seen_after_busy_commit);
  tcase_add_test(tc, busy_commit_then_rollback);
  tcase_add_test(tc, busy_commit_then_more_writes_then_commit);
  tcase_add_test(tc, busy_commit_then_all_writes_undone_then_commit);
  tcase_add_test(tc, second_sync_of_a_transaction_keeps_its_job);
  tcase_add_test(tc, publish_then_rollback_to_then_commit);
  tcase_add_test(tc, flush_published_by_a_failed_commit_then_compact);
  tcase_add_test(tc, compact_published_by_a_failed_commit_then_flush);
  tcase_add_test(tc, table_dropped_after_a_failed_commit_published_a_compaction);
  tcase_add_test(tc, connection_closed_after_a_failed_commit_of_a_drop);
  tcase_add_test(tc, check_after_a_failed_commit_published_a_flush);
  tcase_add_test(tc, release_of_the_outermost_savepoint_fails_then_works);
  tcase_add_test(tc, vetoed_commit_rolls_back_both);
  tcase_add_test(tc, deferred_foreign_key_fails_the_commit_then_is_mended);
  tcase_add_test(tc, deferred_foreign_key_fails_the_commit_then_rollback_to_before);
  tcase_add_test(tc, interrupted_commit_is_all_or_nothing);
  tcase_add_test(tc, directory_that_cannot_be_made_stops_commits_at_twice_the_log_budget);
  tcase_add_test(tc, full_database_at_commit_rolls_back_both);
  tcase_add_test(tc, created_in_a_savepoint_with_a_busy_commit_then_rolled_back_to);
  suite_add_tcase(suite, tc);
  return harness_run(suite);
}
