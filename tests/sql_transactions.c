/* Transactions, case by case: savepoints, cursors that live across all of it, commits that write
** nothing, what SQLite counts, several connections. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness_model.h"
#include "harness_twins.h"

static unsigned data_version(sqlite3 *db) {
  unsigned version;
  ck_assert_int_eq(sqlite3_file_control(db, "main", SQLITE_FCNTL_DATA_VERSION, &version),
                   SQLITE_OK);
  return version;
}

/* ---- Savepoints */

START_TEST(outermost_savepoint_rolled_back_and_released) {
  twins_insert(a, 1, 2);
  sql_ok(a, "SAVEPOINT s");
  twins_insert(a, 3, 4);
  sql_ok(a, "ROLLBACK TO s");
  twins_same(a);
  twins_insert(a, 5, 6);
  sql_ok(a, "ROLLBACK TO s");
  twins_insert(a, 7, 8);
  sql_ok(a, "RELEASE s");
  sql_rows(b, "SELECT k FROM t", "1\n2\n7\n8");
  twins_same(b);
}
END_TEST

START_TEST(savepoint_opened_before_the_first_write) {
  twins_insert(a, 1, 1);
  sql_ok(a, "BEGIN; SAVEPOINT s1; SAVEPOINT s2");
  twins_insert(a, 2, 2);
  sql_ok(a, "SAVEPOINT s3");
  twins_insert(a, 3, 3);
  sql_ok(a, "ROLLBACK TO s1");
  twins_same(a);
  twins_insert(a, 4, 4);
  sql_ok(a, "RELEASE s1; COMMIT");
  sql_rows(b, "SELECT k FROM t", "1\n4");
  twins_same(b);
}
END_TEST

START_TEST(nested_savepoints_released_then_rolled_back) {
  sql_ok(a, "BEGIN");
  twins_insert(a, 1, 1);
  sql_ok(a, "SAVEPOINT s1");
  twins_insert(a, 2, 2);
  sql_ok(a, "SAVEPOINT s2");
  twins_both(a, "UPDATE @ SET k = 10 WHERE k = 1");
  sql_ok(a, "RELEASE s2");
  sql_rows(a, "SELECT k FROM t", "2\n10");
  sql_ok(a, "ROLLBACK TO s1; COMMIT");
  sql_rows(b, "SELECT k FROM t", "1");
  twins_same(b);
}
END_TEST

START_TEST(failing_statement_undoes_only_itself) {
  sql_ok(a, "BEGIN");
  twins_insert(a, 1, 3);
  for (int i = 0; i < 2; i++) {
    char *sql = sqlite3_mprintf("INSERT INTO %s VALUES(4, 'x'), (5, 'x'), (2, 'x')", i ? "o" : "t");
    sql_fails(a, sql, SQLITE_CONSTRAINT_PRIMARYKEY, "UNIQUE constraint failed");
    sqlite3_free(sql);
    sql_fails(a, i ? "UPDATE o SET k = 2" : "UPDATE t SET k = 2", SQLITE_CONSTRAINT_PRIMARYKEY,
              NULL);
  }
  sql_rows(a, "SELECT k FROM t", "1\n2\n3");
  sql_ok(a, "COMMIT");
  twins_same(b);
}
END_TEST

START_TEST(trigger_on_an_ordinary_table_writes_inside_savepoints) {
  sql_trust(a);
  sql_ok(a, "CREATE TABLE source(k, v);"
            "CREATE TRIGGER copy AFTER INSERT ON source BEGIN"
            "  INSERT INTO t VALUES(new.k, new.v); INSERT INTO o VALUES(new.k, new.v); END");
  sql_ok(a, "BEGIN; INSERT INTO source VALUES(1, 'x'), (2, 'y'); SAVEPOINT s;"
            "INSERT INTO source VALUES(3, 'z')");
  sql_fails(a, "INSERT INTO source VALUES(4, 'z'), (1, 'again')", SQLITE_CONSTRAINT, NULL);
  sql_rows(a, "SELECT k FROM t", "1\n2\n3");
  sql_ok(a, "ROLLBACK TO s; INSERT INTO source VALUES(5, 'w'); COMMIT");
  sql_rows(b, "SELECT k FROM t", "1\n2\n5");
  twins_same(b);
}
END_TEST

/* ---- Cursors across everything */

struct cursor {
  sqlite3_stmt *stmt;
  int next, last;
};

static struct cursor cursor_open(sqlite3 *db, int last) {
  struct cursor cursor = {NULL, 1, last};
  ck_assert_int_eq(sqlite3_prepare_v2(db, "SELECT k, v FROM t ORDER BY k", -1, &cursor.stmt, NULL),
                   SQLITE_OK);
  return cursor;
}

static void cursor_take(struct cursor *cursor, int rows) {
  while (rows--) {
    char expected[32];
    ck_assert_int_eq(sqlite3_step(cursor->stmt), SQLITE_ROW);
    ck_assert_int_eq(sqlite3_column_int(cursor->stmt, 0), cursor->next);
    snprintf(expected, sizeof expected, "value %d", cursor->next++);
    ck_assert_str_eq((const char *)sqlite3_column_text(cursor->stmt, 1), expected);
  }
}

static void cursor_end(struct cursor *cursor) {
  cursor_take(cursor, cursor->last - cursor->next + 1);
  ck_assert_int_eq(sqlite3_step(cursor->stmt), SQLITE_DONE);
  sqlite3_finalize(cursor->stmt);
}

START_TEST(cursor_over_a_write_does_not_see_it) {
  twins_insert(a, 1, 20);
  struct cursor cursor = cursor_open(a, 20);
  cursor_take(&cursor, 3);
  twins_both(a, "DELETE FROM @ WHERE k IN (4, 8)");
  twins_both(a, "UPDATE @ SET v = 'changed' WHERE k = 10");
  twins_insert(a, 30, 31);
  cursor_end(&cursor);
  twins_same(a);
}
END_TEST

START_TEST(cursor_over_commit_and_flush_and_compact) {
  twins_insert(a, 1, 60);
  sql_ok(a, "INSERT INTO t(t) VALUES('flush'); BEGIN");
  twins_insert(a, 61, 90);
  struct cursor cursor = cursor_open(a, 90);
  cursor_take(&cursor, 30);
  sql_ok(a, "INSERT INTO t(t) VALUES('compact'); COMMIT");
  cursor_take(&cursor, 30);
  twins_both(a, "DELETE FROM @ WHERE k > 5");
  sql_ok(a, "INSERT INTO t(t) VALUES('compact')");
  cursor_end(&cursor);
  twins_same(a);
}
END_TEST

START_TEST(cursor_over_rollback_and_rollback_to) {
  twins_insert(a, 1, 5);
  sql_ok(a, "BEGIN");
  twins_insert(a, 6, 10);
  sql_ok(a, "SAVEPOINT s");
  twins_insert(a, 11, 20);
  struct cursor cursor = cursor_open(a, 20);
  cursor_take(&cursor, 2);
  sql_ok(a, "ROLLBACK TO s");
  twins_insert(a, 500, 800);
  cursor_take(&cursor, 10);
  sql_ok(a, "ROLLBACK");
  cursor_end(&cursor);
  sql_rows(a, "SELECT k FROM t", "1\n2\n3\n4\n5");
  twins_same(a);
}
END_TEST

START_TEST(drop_with_an_open_cursor_is_refused) {
  twins_insert(a, 1, 5);
  struct cursor cursor = cursor_open(a, 5);
  cursor_take(&cursor, 1);
  sql_fails(a, "DROP TABLE t", SQLITE_LOCKED, NULL);
  cursor_end(&cursor);
  twins_same(a);
}
END_TEST

/* ---- Commits that write nothing, what SQLite counts */

START_TEST(commit_that_changes_nothing_writes_nothing) {
  twins_insert(a, 1, 5);
  sql_ok(a, "INSERT INTO t(t) VALUES('compact')");
  static const char *const nothing[] = {
      "DELETE FROM t WHERE 0",
      "UPDATE t SET v = 1 WHERE k = 99",
      "BEGIN; DELETE FROM t WHERE k = 99; COMMIT",
      "BEGIN; SAVEPOINT s; INSERT INTO t VALUES(50, 1); ROLLBACK TO s; COMMIT",
      "BEGIN; INSERT OR IGNORE INTO t VALUES(1, 1); COMMIT",
      "INSERT INTO t(t) VALUES('flush')",
      "INSERT INTO t(t) VALUES('compact')",
  };
  for (size_t i = 0; i < sizeof nothing / sizeof *nothing; i++) {
    sql_int(b, "SELECT count(*) FROM o");
    unsigned before = data_version(b);
    sql_ok(a, nothing[i]);
    sql_int(b, "SELECT count(*) FROM o");
    ck_assert_msg(data_version(b) == before, "%s", nothing[i]);
  }
  twins_same(a);
}
END_TEST

START_TEST(changes_and_last_insert_rowid_in_autocommit) {
  sql_ok(a, "CREATE VIRTUAL TABLE r USING colfam(id INTEGER PRIMARY KEY, v);"
            "CREATE TABLE p(id INTEGER PRIMARY KEY, v)");
  static const char *const texts[] = {"INSERT INTO %s(v) VALUES('a'), ('b'), ('c')",
                                      "INSERT INTO %s VALUES(70, 'x')",
                                      "UPDATE %s SET v = 'z' WHERE id < 3",
                                      "INSERT OR REPLACE INTO %s VALUES(2, 'new'), (80, 'y')",
                                      "DELETE FROM %s WHERE id > 2",
                                      "INSERT INTO %s DEFAULT VALUES",
                                      "DELETE FROM %s"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    int changes[2];
    sqlite3_int64 rowids[2];
    for (int j = 0; j < 2; j++) {
      sql_okf(a, texts[i], j ? "p" : "r");
      changes[j] = sqlite3_changes(a);
      rowids[j] = sqlite3_last_insert_rowid(a);
    }
    ck_assert_msg(changes[0] == changes[1], "%s: %d, not %d", texts[i], changes[0], changes[1]);
    ck_assert_msg(rowids[0] == rowids[1], "%s: rowid", texts[i]);
    sql_same(a, "SELECT * FROM r", "SELECT * FROM p");
  }
}
END_TEST

START_TEST(last_insert_rowid_survives_an_explicit_commit) {
  sql_ok(a, "CREATE TABLE p(id INTEGER PRIMARY KEY, v);"
            "BEGIN; INSERT INTO p VALUES(77, 'x'); INSERT INTO t VALUES(1, 1);"
            "INSERT INTO t(t) VALUES('flush'); COMMIT; DELETE FROM t");
  ck_assert_int_eq(sqlite3_last_insert_rowid(a), 77);
}
END_TEST

/* ---- Several connections */

START_TEST(connections_see_each_others_commits) {
  for (int i = 0; i < 60; i += 2) {
    twins_insert(a, i, i);
    twins_same(b);
    twins_insert(b, i + 1, i + 1);
    twins_same(a);
    if (i % 10 == 4) sql_ok(b, "INSERT INTO t(t) VALUES('flush')");
    if (i % 20 == 16) sql_ok(a, "INSERT INTO t(t) VALUES('compact')");
  }
  ck_assert_int_eq(sql_int(b, "SELECT count(*) FROM t"), 60);
}
END_TEST

/* 30 commits of a, with flushes and compactions between. */
static void churn(void) {
  for (int i = 0; i < 30; i++) {
    twins_both(a, "UPDATE @ SET v = printf('%02000d', k) WHERE k % 7 = 3");
    twins_both(a, "DELETE FROM @ WHERE k = (SELECT min(k) FROM @)");
    if (i % 10 == 5) sql_ok(a, "INSERT INTO t(t) VALUES('compact')");
  }
}

START_TEST(snapshot_that_has_read_the_table_stays) {
  twins_insert(a, 1, 100);
  sql_ok(b, "BEGIN");
  char *before = sql_query(b, "SELECT * FROM t");
  churn();
  sql_rows(b, "SELECT * FROM t", before);
  twins_same(b);
  sql_ok(b, "COMMIT");
  twins_same(b);
  sqlite3_free(before);
}
END_TEST

START_TEST(snapshot_that_first_reads_the_table_late_stays) {
  twins_insert(a, 1, 100);
  sql_ok(a, "INSERT INTO t(t) VALUES('flush')");
  twins_insert(a, 101, 120);
  sql_ok(b, "BEGIN");
  sql_int(b, "SELECT count(*) FROM o");
  churn();
  twins_same(b);
  ck_assert_int_eq(sql_int(b, "SELECT count(*) FROM t"), 120);
  sql_ok(b, "COMMIT");
  twins_same(b);
}
END_TEST

START_TEST(stale_snapshot_cannot_write) {
  twins_insert(a, 1, 5);
  sql_ok(b, "BEGIN");
  twins_same(b);
  twins_insert(a, 6, 6);
  sql_fails(b, "INSERT INTO o VALUES(7, 7)", SQLITE_BUSY_SNAPSHOT, NULL);
  sql_fails(b, "INSERT INTO t VALUES(7, 7)", SQLITE_BUSY_SNAPSHOT, NULL);
  sql_rows(b, "SELECT count(*) FROM t", "5");
  sql_ok(b, "ROLLBACK");
  twins_insert(b, 7, 7);
  twins_same(a);
}
END_TEST

START_TEST(journal_mode_changes_while_tables_are_in_use) {
  twins_insert(a, 1, 5);
  sql_close(b);
  static const char *const modes[] = {"wal", "delete", "truncate", "wal", "persist", "memory"};
  for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
    char *sql = sqlite3_mprintf("PRAGMA journal_mode = %s", modes[i]);
    sql_rows(a, sql, modes[i]);
    sqlite3_free(sql);
    twins_insert(a, 10 * (int)i + 10, 10 * (int)i + 15);
    sql_ok(a, "INSERT INTO t(t) VALUES('flush')");
    twins_same(a);
  }
  sql_ok(a, "VACUUM");
  twins_same(a);
  b = twins_connect();
}
END_TEST

/* Preparing asks for a plan. In a deferred transaction that must not begin to read: it would keep others from
** committing, and make a write that is tried again too old. */
START_TEST(preparing_in_a_deferred_transaction_takes_no_snapshot) {
  static const char *const writes[] = {
      "INSERT INTO @ VALUES(9, 9)", "UPDATE @ SET v = 8 WHERE k > 3", "DELETE FROM @ WHERE k = 1",
      "DELETE FROM @", "INSERT INTO @ SELECT k + 50, v FROM @"};
  twins_insert(a, 1, 5);
  for (size_t i = 0; i < sizeof writes / sizeof *writes; i++) {
    char *sql = model_sql(writes[i], "t");
    sql_close(b);
    b = twins_connect();
    sql_ok(b, "BEGIN");
    sqlite3_stmt *stmt;
    ck_assert_int_eq(sqlite3_prepare_v2(b, "SELECT v FROM t WHERE k = 2", -1, &stmt, NULL),
                     SQLITE_OK);
    ck_assert_int_eq(sqlite3_txn_state(b, "main"), SQLITE_TXN_NONE);
    sql_ok(a, "BEGIN IMMEDIATE; INSERT OR REPLACE INTO o VALUES(3, 'new')");
    sql_fails(b, sql, SQLITE_BUSY, NULL);
    ck_assert_int_eq(sqlite3_txn_state(b, "main"), SQLITE_TXN_NONE);
    sql_ok(a, "INSERT OR REPLACE INTO t VALUES(3, 'new'); COMMIT");
    sql_ok(b, sql);
    sql_ok(b, "ROLLBACK");
    ck_assert_int_eq(sqlite3_finalize(stmt), SQLITE_OK);
    sqlite3_free(sql);
  }
}
END_TEST

static int busy_calls;
static int count_busy(void *context, int times) {
  (void)context, (void)times;
  busy_calls++;
  return 0;
}

/* Else an application would wait for its lock twice as long as it has said. */
START_TEST(preparing_waits_for_no_lock) {
  sqlite3_stmt *stmt;
  twins_insert(a, 1, 5);
  sql_close(b);
  b = twins_connect();
  sql_rows(b, "SELECT count(*) FROM o", "5");
  sqlite3_busy_handler(b, count_busy, NULL);
  busy_calls = 0;
  sql_ok(a, "BEGIN EXCLUSIVE");
  ck_assert_int_eq(sqlite3_prepare_v2(b, "SELECT v FROM t WHERE k = 2", -1, &stmt, NULL),
                   SQLITE_OK);
  ck_assert_int_eq(busy_calls, 0);
  int rc = sqlite3_step(stmt);
  ck_assert_int_eq(busy_calls, rc == SQLITE_BUSY);
  sql_ok(a, "COMMIT");
  sqlite3_reset(stmt);
  ck_assert_int_eq(sqlite3_step(stmt), SQLITE_ROW);
  sqlite3_finalize(stmt);
}
END_TEST

/* Cases that mean the same in both kinds of journal. */
static void add_common(Suite *suite, const char *name, SFun open) {
  TCase *tc = tcase_create(name);
  tcase_set_timeout(tc, 30);
  tcase_add_checked_fixture(tc, open, twins_close);
  tcase_add_test(tc, outermost_savepoint_rolled_back_and_released);
  tcase_add_test(tc, savepoint_opened_before_the_first_write);
  tcase_add_test(tc, nested_savepoints_released_then_rolled_back);
  tcase_add_test(tc, failing_statement_undoes_only_itself);
  tcase_add_test(tc, trigger_on_an_ordinary_table_writes_inside_savepoints);
  tcase_add_test(tc, cursor_over_a_write_does_not_see_it);
  tcase_add_test(tc, cursor_over_commit_and_flush_and_compact);
  tcase_add_test(tc, cursor_over_rollback_and_rollback_to);
  tcase_add_test(tc, drop_with_an_open_cursor_is_refused);
  tcase_add_test(tc, commit_that_changes_nothing_writes_nothing);
  tcase_add_test(tc, changes_and_last_insert_rowid_in_autocommit);
  tcase_add_test(tc, last_insert_rowid_survives_an_explicit_commit);
  tcase_add_test(tc, connections_see_each_others_commits);
  tcase_add_test(tc, preparing_in_a_deferred_transaction_takes_no_snapshot);
  tcase_add_test(tc, preparing_waits_for_no_lock);
  suite_add_tcase(suite, tc);
}

static void add_wal(Suite *suite) {
  TCase *tc = tcase_create("snapshots");
  tcase_add_checked_fixture(tc, twins_open_wal, twins_close);
  tcase_add_test(tc, snapshot_that_has_read_the_table_stays);
  tcase_add_test(tc, snapshot_that_first_reads_the_table_late_stays);
  tcase_add_test(tc, stale_snapshot_cannot_write);
  tcase_add_test(tc, journal_mode_changes_while_tables_are_in_use);
  suite_add_tcase(suite, tc);
}

int main(void) {
  Suite *suite = suite_create("transactions");
  add_common(suite, "rollback journal", twins_open_delete);
  add_common(suite, "wal", twins_open_wal);
  add_wal(suite);
  return harness_run(suite);
}
