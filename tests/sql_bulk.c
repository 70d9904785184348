/* Large commits: what passes twice the log's budget goes straight into a run, without the log, and so does
** what a flush or compact command finds written before it. The commit may fail and be tried again with other
** content; only what it finally has may be seen. */
#include "harness_twins.h"

/* `rows` rows of 500 bytes from `first` on, in both tables. */
static void insert_large(sqlite3 *db, int first, int rows) {
  for (int i = 0; i < 2; i++)
    sql_okf(db,
            "WITH RECURSIVE n(i) AS (SELECT %d UNION ALL SELECT i + 1 FROM n WHERE i < %d) "
            "INSERT INTO %s SELECT i, printf('%%d %%.*c', i, 490, 'x') FROM n",
            first, first + rows - 1, i ? "t" : "o");
}

static sqlite3_int64 log_bytes(sqlite3 *db) {
  return sql_int(db, "SELECT ifnull(sum(length(batch)), 0) FROM t_cflog WHERE seq > (SELECT value "
                     "FROM t_cfmeta WHERE name = 'flushed_seq')");
}

static sqlite3_int64 files(sqlite3 *db) {
  return sql_int(db, "SELECT count(*) FROM t_cffile");
}

static sqlite3_int64 runs(sqlite3 *db) {
  return sql_int(db, "SELECT count(DISTINCT level || ' ' || seq) FROM t_cffile");
}

START_TEST(large_commit_leaves_no_log) {
  insert_large(a, 1, 1000);
  ck_assert_int_eq(log_bytes(a), 0);
  ck_assert_int_eq(runs(a), 1);
  twins_same(a);
  twins_same(b);
  sql_rows(b, "SELECT count(*) FROM t", "1000");
  twins_insert(b, 2001, 2005);
  twins_same(a);
  ck_assert_int_eq(runs(a), 1);
}
END_TEST

START_TEST(large_commit_takes_the_log_along) {
  twins_insert(a, 5001, 5100);
  sql_ok(a, "BEGIN");
  twins_both(a, "UPDATE @ SET v = 'new' WHERE k > 5050");
  twins_both(a, "DELETE FROM @ WHERE k BETWEEN 5010 AND 5020");
  insert_large(a, 1, 200);
  sql_ok(a, "COMMIT");
  ck_assert_int_eq(log_bytes(a), 0);
  twins_same(a);
  twins_same(b);
}
END_TEST

START_TEST(large_commit_rolled_back_leaves_no_file) {
  sql_ok(a, "BEGIN");
  insert_large(a, 1, 500);
  sql_ok(a, "ROLLBACK");
  twins_same(a);
  ck_assert_int_eq(files(a), 0);
}
END_TEST

/* In DELETE mode a reader keeps the commit out after xSync has written its run; SQLite then lets no new
** reader in, so one stays for all failing commits of a transaction. */
static sqlite3_stmt *reader;

static void busy_commit(void) {
  if (!reader) reader = twins_reader("o");
  sql_fails(a, "COMMIT", SQLITE_BUSY, NULL);
}

static void let_commit(void) {
  sqlite3_finalize(reader);
  reader = NULL;
}

START_TEST(busy_then_committed_unchanged) {
  twins_insert(a, 5001, 5001);
  sql_ok(a, "BEGIN");
  insert_large(a, 1, 500);
  busy_commit();
  twins_same(a);
  let_commit();
  sql_ok(a, "COMMIT");
  twins_same(b);
  ck_assert_int_eq(runs(a), 1);
}
END_TEST

START_TEST(busy_then_more_writes) {
  twins_insert(a, 5001, 5010);
  sql_ok(a, "BEGIN");
  insert_large(a, 1, 500);
  busy_commit();
  twins_both(a, "DELETE FROM @ WHERE k <= 10");
  twins_both(a, "UPDATE @ SET v = 'after' WHERE k IN (11, 12, 5001)");
  twins_same(a);
  let_commit();
  sql_ok(a, "COMMIT");
  twins_same(a);
  twins_same(b);
  ck_assert_int_eq(runs(a), 1);
  ck_assert_int_eq(log_bytes(a), 0);
}
END_TEST

START_TEST(busy_then_rolled_back_to_little) {
  twins_insert(a, 5001, 5010);
  sql_ok(a, "BEGIN");
  twins_insert(a, 5011, 5012);
  sql_ok(a, "SAVEPOINT s");
  insert_large(a, 1, 500);
  busy_commit();
  sql_ok(a, "ROLLBACK TO s");
  twins_same(a);
  let_commit();
  sql_ok(a, "COMMIT");
  twins_same(a);
  twins_same(b);
}
END_TEST

START_TEST(busy_then_savepoint_after_it_rolled_back) {
  twins_insert(a, 5001, 5001);
  sql_ok(a, "BEGIN");
  insert_large(a, 1, 500);
  busy_commit();
  sql_ok(a, "SAVEPOINT s");
  twins_both(a, "DELETE FROM @");
  busy_commit();
  sql_ok(a, "ROLLBACK TO s");
  twins_same(a);
  busy_commit();
  twins_same(a);
  let_commit();
  sql_ok(a, "COMMIT");
  twins_same(b);
}
END_TEST

START_TEST(busy_then_everything_deleted) {
  insert_large(a, 1, 500);
  twins_insert(a, 5001, 5005);
  sql_ok(a, "BEGIN");
  insert_large(a, 1001, 500);
  sql_ok(a, "INSERT INTO t(t) VALUES('compact')");
  busy_commit();
  twins_both(a, "DELETE FROM @");
  twins_same(a);
  let_commit();
  sql_ok(a, "COMMIT");
  twins_same(a);
  twins_same(b);
  sql_rows(b, "SELECT count(*) FROM t", "0");
}
END_TEST

START_TEST(busy_then_rolled_back) {
  insert_large(a, 1, 500);
  sql_ok(a, "BEGIN");
  insert_large(a, 1001, 500);
  busy_commit();
  let_commit();
  sql_ok(a, "ROLLBACK");
  twins_same(a);
  twins_insert(a, 9001, 9002);
  twins_same(b);
}
END_TEST

START_TEST(command_after_writes_takes_them_in) {
  twins_insert(a, 1, 5);
  sql_ok(a, "BEGIN");
  twins_insert(a, 6, 10);
  sql_ok(a, "INSERT INTO t(t) VALUES('flush')");
  twins_insert(a, 11, 12);
  twins_same(a);
  sql_ok(a, "COMMIT");
  ck_assert_int_eq(log_bytes(a), 0);
  ck_assert_int_eq(runs(a), 1);
  twins_same(b);
}
END_TEST

START_TEST(command_before_writes_leaves_them_to_the_log) {
  twins_insert(a, 1, 5);
  sql_ok(a, "BEGIN; INSERT INTO t(t) VALUES('flush')");
  twins_insert(a, 6, 10);
  sql_ok(a, "COMMIT");
  ck_assert_int_eq(runs(a), 1);
  ck_assert_int_gt(log_bytes(a), 0);
  twins_same(b);
}
END_TEST

START_TEST(commands_of_every_order_with_failing_commits) {
  static const char *const commands[] = {"flush", "compact"};
  insert_large(a, 1, 300);
  for (int i = 0; i < 8; i++) {
    sql_ok(a, "BEGIN");
    sql_okf(a, "INSERT INTO t(t) VALUES(%Q)", commands[i & 1]);
    twins_insert(a, 10000 + 100 * i, 10005 + 100 * i);
    busy_commit();
    sql_okf(a, "INSERT INTO t(t) VALUES(%Q)", commands[i >> 1 & 1]);
    twins_both(a, "DELETE FROM @ WHERE k % 7 = 3 AND k < 10000");
    busy_commit();
    sql_okf(a, "INSERT INTO t(t) VALUES(%Q)", commands[i >> 2 & 1]);
    let_commit();
    sql_ok(a, i % 3 ? "COMMIT" : "ROLLBACK");
    twins_same(a);
    twins_same(b);
  }
}
END_TEST

START_TEST(row_counts_that_cannot_be_are_damage) {
  sql_trust(a);
  insert_large(a, 1, 100);
  sql_ok(a, "UPDATE t_cfmeta SET value = 99999999999 WHERE name = 'flushed_rows'");
  sql_fails(a, "SELECT count(*) FROM t", SQLITE_CORRUPT_VTAB, "missing, added or changed");
  /* as a version without seals would have left it */
  sql_ok(a, "CREATE TEMP TABLE seal AS SELECT * FROM t_cfmeta"
            " WHERE name IN ('seal', 'lowest_writer');"
            "DELETE FROM t_cfmeta WHERE name = 'seal';"
            "UPDATE t_cfmeta SET value = 1 WHERE name = 'lowest_writer'");
  sql_fails(a, "SELECT count(*) FROM t", SQLITE_CORRUPT_VTAB, "row count is 99999999999");
  sql_ok(a, "UPDATE t_cfmeta SET value = 100 WHERE name = 'flushed_rows';"
            "INSERT OR REPLACE INTO t_cfmeta SELECT * FROM seal");
  twins_insert(a, 5001, 5002);
  sql_ok(a, "UPDATE t_cflog SET rows = 9223372036854775807");
  sql_fails(a, "SELECT count(*) FROM t", SQLITE_CORRUPT_VTAB,
            "the row count is 9223372036854775807");
  sql_ok(a, "UPDATE t_cflog SET rows = 102");
  twins_same(a);
}
END_TEST

static void add_common(TCase *tc) {
  tcase_add_test(tc, large_commit_leaves_no_log);
  tcase_add_test(tc, large_commit_takes_the_log_along);
  tcase_add_test(tc, large_commit_rolled_back_leaves_no_file);
  tcase_add_test(tc, command_after_writes_takes_them_in);
  tcase_add_test(tc, command_before_writes_leaves_them_to_the_log);
  tcase_add_test(tc, row_counts_that_cannot_be_are_damage);
}

int main(void) {
  Suite *suite = suite_create("large commits");
  TCase *rollback = tcase_create("delete mode");
  tcase_add_checked_fixture(rollback, twins_open_delete, twins_close);
  add_common(rollback);
  tcase_add_test(rollback, busy_then_committed_unchanged);
  tcase_add_test(rollback, busy_then_more_writes);
  tcase_add_test(rollback, busy_then_rolled_back_to_little);
  tcase_add_test(rollback, busy_then_savepoint_after_it_rolled_back);
  tcase_add_test(rollback, busy_then_everything_deleted);
  tcase_add_test(rollback, busy_then_rolled_back);
  tcase_add_test(rollback, commands_of_every_order_with_failing_commits);
  suite_add_tcase(suite, rollback);
  TCase *wal = tcase_create("wal mode");
  tcase_add_checked_fixture(wal, twins_open_wal, twins_close);
  add_common(wal);
  suite_add_tcase(suite, wal);
  return harness_run(suite);
}
