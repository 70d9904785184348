/* What an application may do right after any use of a colfam table: no statement, lock, transaction or
** snapshot of ours is left that an ordinary table would not leave. And its hooks, its ways to load and
** close. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "harness_twins.h"

/* ---- After each kind of use */

static const char *const uses[] = {
    "SELECT v FROM t WHERE k = 5",
    "SELECT v FROM t WHERE k BETWEEN 3 AND 50 ORDER BY k DESC",
    "SELECT v FROM t WHERE k IN (1, 2, 40, 99)",
    "SELECT 1 WHERE EXISTS (SELECT 1 FROM t WHERE k = 5)",
    "SELECT count(*) FROM t",
    "INSERT INTO t VALUES(100, 'x')",
    "UPDATE t SET k = k + 1000 WHERE k < 10",
    "DELETE FROM t WHERE k = 3",
    "DELETE FROM t WHERE 0",
    "INSERT OR IGNORE INTO t VALUES(5, 'x')",
    "BEGIN; INSERT INTO t VALUES(100, 'x'); COMMIT",
    "BEGIN; INSERT INTO t VALUES(100, 'x'); ROLLBACK",
    "BEGIN; SELECT * FROM t; COMMIT",
    "SAVEPOINT s; INSERT INTO t VALUES(100, 'x'); SAVEPOINT r; DELETE FROM t; ROLLBACK TO r; "
    "RELEASE s",
    "SAVEPOINT s; INSERT INTO t VALUES(100, 'x'); ROLLBACK TO s; RELEASE s",
    "CREATE VIRTUAL TABLE n USING colfam(k PRIMARY KEY)",
    "CREATE VIRTUAL TABLE IF NOT EXISTS t USING colfam(k PRIMARY KEY)",
    "BEGIN; CREATE VIRTUAL TABLE n USING colfam(k PRIMARY KEY); INSERT INTO n VALUES(1); ROLLBACK",
    "DROP TABLE extra",
    "DROP TABLE IF EXISTS absent",
    "BEGIN; INSERT INTO extra VALUES(5); DROP TABLE extra; ROLLBACK",
    "SAVEPOINT s; DROP TABLE extra; ROLLBACK TO s; RELEASE s",
    "ALTER TABLE extra RENAME TO other",
    "BEGIN; ALTER TABLE extra RENAME TO other; ROLLBACK",
    "INSERT INTO t(t) VALUES('flush')",
    "INSERT INTO t(t) VALUES('compact')",
    "INSERT INTO t(t) VALUES('filter_bits=5')",
    "BEGIN; INSERT INTO t VALUES(100, 'x'); INSERT INTO t(t) VALUES('compact'); COMMIT",
    "SELECT colfam_may_exist('t', 5), colfam_version(), colfam_debug()",
    "SELECT * FROM colfam_families",
    "SELECT * FROM colfam_stats",
    "SELECT * FROM colfam_files('t')",
    "SELECT * FROM colfam_check('t')",
    "PRAGMA integrity_check",
    "PRAGMA table_list",
    "PRAGMA table_info(t)",
    "INSERT INTO o SELECT k + 500, v FROM t",
    "SELECT * FROM t JOIN o USING (k) WHERE t.v > 'value 3'",
};
enum { USES = sizeof uses / sizeof *uses };

/* Statements that must fail, and leave nothing either. */
static const char *const failures[] = {
    "INSERT INTO t VALUES(1, 'x')",
    "INSERT INTO t VALUES(200, 1), (201, 1), (1, 1)",
    "UPDATE t SET k = 7",
    "INSERT INTO t(t) VALUES('nonsense')",
    "INSERT INTO t(t) VALUES('filter_bits=1000')",
    "CREATE VIRTUAL TABLE n USING colfam(k PRIMARY KEY, nonsense = 1)",
    "CREATE VIRTUAL TABLE n USING colfam",
    "CREATE VIRTUAL TABLE taken USING colfam(k PRIMARY KEY)",
    "CREATE VIRTUAL TABLE t USING colfam(k PRIMARY KEY)",
    "ALTER TABLE t RENAME TO o",
    "ALTER TABLE t RENAME TO taken",
    "ALTER TABLE t RENAME TO colfam_drops",
    "ALTER TABLE t ADD COLUMN x",
    "ALTER TABLE t DROP COLUMN v",
    "ALTER TABLE t RENAME COLUMN v TO w",
    "CREATE INDEX i ON t(v)",
    "CREATE TRIGGER r AFTER INSERT ON t BEGIN SELECT 1; END",
    "INSERT INTO t VALUES(1, 1) ON CONFLICT DO NOTHING",
    "DELETE FROM t WHERE k = 1 RETURNING k",
    "SELECT * FROM colfam_check('absent')",
    "SELECT colfam_may_exist('absent', 1)",
    "INSERT INTO child2 VALUES(1)",
    "REINDEX t; SELECT * FROM absent",
    "SELECT * FROM t INDEXED BY absent",
};
enum { FAILURES = sizeof failures / sizeof *failures };

static void open_tables(void) {
  twins_insert(a, 1, 40);
  sql_ok(a, "INSERT INTO t(t) VALUES('flush')");
  twins_insert(a, 41, 60);
  sql_ok(a, "CREATE VIRTUAL TABLE extra USING colfam(k PRIMARY KEY); INSERT INTO extra VALUES(1);"
            "INSERT INTO extra(extra) VALUES('flush'); CREATE TABLE taken_cflog(x);"
            "CREATE TABLE child2(k REFERENCES t(k))");
}

static void open_delete(void) {
  twins_open_delete();
  open_tables();
}

static void open_wal(void) {
  twins_open_wal();
  open_tables();
}

static void close_both(void) {
  sql_close(a);
  sql_close(b);
}

static void check_nothing_is_left(const char *use) {
  ck_assert_msg(sqlite3_get_autocommit(a), "%s: a transaction is open", use);
  ck_assert_msg(sqlite3_txn_state(a, NULL) == SQLITE_TXN_NONE, "%s: txn state", use);
  for (sqlite3_stmt *s = NULL; (s = sqlite3_next_stmt(a, s)) != NULL;)
    ck_assert_msg(!sqlite3_stmt_busy(s), "%s: busy: %s", use, sqlite3_sql(s));
  int rc = sqlite3_exec(b, "INSERT OR REPLACE INTO o VALUES(-1, 1)", NULL, NULL, NULL);
  ck_assert_msg(rc == SQLITE_OK, "%s: second connection: %s", use, sqlite3_errmsg(b));
  rc = sqlite3_exec(b, "INSERT OR REPLACE INTO t VALUES(-1, 1)", NULL, NULL, NULL);
  ck_assert_msg(rc == SQLITE_OK, "%s: second connection: %s", use, sqlite3_errmsg(b));
  rc = sqlite3_exec(a, "VACUUM", NULL, NULL, NULL);
  ck_assert_msg(rc == SQLITE_OK, "%s: VACUUM: %s", use, sqlite3_errmsg(a));
  rc = sqlite3_exec(b, "BEGIN EXCLUSIVE; COMMIT", NULL, NULL, NULL);
  ck_assert_msg(rc == SQLITE_OK, "%s: exclusive: %s", use, sqlite3_errmsg(b));
}

/* Alone, the connection may change the journal both ways and serialize. */
static void check_journal_changes(const char *use) {
  sql_close(b);
  static const char *const modes[] = {"delete", "wal", "truncate"};
  for (int i = 0; i < 3; i++) {
    char *sql = sqlite3_mprintf("PRAGMA journal_mode = %s", modes[i]);
    char *got = sql_query(a, sql);
    ck_assert_msg(!strcmp(got, modes[i]), "%s: %s: %s", use, sql, got);
    sqlite3_free(got);
    sqlite3_free(sql);
  }
  b = twins_connect();
}

START_TEST(nothing_is_left_after_each_use) {
  sql_ok(a, uses[_i]);
  check_nothing_is_left(uses[_i]);
  sql_ok(a, "SELECT count(*) FROM t");
  check_journal_changes(uses[_i]);
  sql_rows(a, "SELECT * FROM colfam_check('t')", "");
}
END_TEST

START_TEST(nothing_is_left_after_each_failure) {
  char *before = sql_query(a, "SELECT * FROM t");
  char *schema = sql_query(a, "SELECT * FROM sqlite_schema");
  int rc = sqlite3_exec(a, failures[_i], NULL, NULL, NULL);
  ck_assert_msg(rc != SQLITE_OK, "%s works", failures[_i]);
  sql_rows(a, "SELECT * FROM t", before);
  sql_rows(a, "SELECT * FROM sqlite_schema", schema);
  check_nothing_is_left(failures[_i]);
  check_journal_changes(failures[_i]);
  sql_ok(a, "DROP TABLE child2; DROP TABLE t; DROP TABLE extra");
  sqlite3_free(before);
  sqlite3_free(schema);
}
END_TEST

/* ---- Hooks; SQLite calls the update hook for rowid tables only: of both twins t_cflog is the one */

static int commits, rollbacks, updates, frames, traced;

static int count_commit(void *unused) {
  (void)unused;
  commits++;
  return 0;
}

static void count_rollback(void *unused) {
  (void)unused;
  rollbacks++;
}

static void count_update(void *unused, int action, const char *database, const char *table,
                         sqlite3_int64 rowid) {
  (void)unused, (void)action, (void)database, (void)rowid;
  ck_assert_ptr_nonnull(strstr("t_cflog", table));
  updates++;
}

static int count_frames(void *unused, sqlite3 *db, const char *database, int pages) {
  (void)unused, (void)db, (void)database, (void)pages;
  frames++;
  return SQLITE_OK;
}

static int count_trace(unsigned what, void *unused, void *statement, void *detail) {
  (void)what, (void)unused, (void)detail;
  char *sql = sqlite3_expanded_sql(statement);
  traced += sql != NULL;
  sqlite3_free(sql);
  return 0;
}

START_TEST(hooks_are_called_as_for_ordinary_tables) {
  sqlite3_commit_hook(a, count_commit, NULL);
  sqlite3_rollback_hook(a, count_rollback, NULL);
  sqlite3_update_hook(a, count_update, NULL);
  sqlite3_wal_hook(a, count_frames, NULL);
  sqlite3_trace_v2(a, SQLITE_TRACE_STMT | SQLITE_TRACE_PROFILE | SQLITE_TRACE_ROW, count_trace,
                   NULL);
  sql_ok(a, "INSERT INTO t VALUES(100, 'x')");
  ck_assert_int_eq(commits, 1);
  ck_assert_int_eq(frames, 1);
  sql_ok(a, "BEGIN; INSERT INTO t VALUES(101, 'x'); INSERT INTO o VALUES(101, 'x'); ROLLBACK");
  ck_assert_int_eq(rollbacks, 1);
  ck_assert_int_eq(commits, 1);
  sql_ok(a, "BEGIN; DELETE FROM t WHERE k > 50; DELETE FROM o WHERE k = 1; COMMIT");
  ck_assert_int_eq(commits, 2);
  ck_assert_int_eq(frames, 2);
  ck_assert_int_eq(updates, 2);
  ck_assert_int_gt(traced, 10);
  sql_rows(a, "SELECT count(*), max(k) FROM t", "50|50");
  sqlite3_update_hook(a, NULL, NULL);
  sqlite3_trace_v2(a, 0, NULL, NULL);
}
END_TEST

static int busy_calls;

static int give_up_at_third(void *unused, int calls) {
  (void)unused;
  busy_calls = calls + 1;
  return calls < 2;
}

START_TEST(busy_handler_is_asked_at_writes_as_for_ordinary_tables) {
  sqlite3_busy_handler(a, give_up_at_third, NULL);
  sql_ok(b, "BEGIN IMMEDIATE");
  sql_fails(a, "INSERT INTO t VALUES(100, 1)", SQLITE_BUSY, NULL);
  ck_assert_int_eq(busy_calls, 3);
  sql_rows(a, "SELECT count(*) FROM t", "60");
  sql_ok(b, "COMMIT");
  sql_ok(a, "INSERT INTO t VALUES(100, 1)");
}
END_TEST

/* ---- Loading and closing */

START_TEST(load_and_close_a_thousand_times) {
  sqlite3 *open[4] = {NULL, NULL, NULL, NULL};
  for (int i = 0; i < 1000; i++) {
    sqlite3 **db = &open[(i * 7) % 4];
    if (*db) sql_close(*db);
    *db = sql_open(sql_path("app.db"));
    if (i % 3 == 0) ck_assert_int_eq(sql_int(*db, "SELECT count(*) FROM t"), 60);
    if (i % 50 == 0) sql_ok(*db, "UPDATE t SET v = 'x' WHERE k = 1");
  }
  for (int i = 3; i >= 0; i--) sql_close(open[i]);
}
END_TEST

START_TEST(loaded_twice_into_one_connection) {
  sql_ok(a, "SELECT * FROM t; BEGIN; INSERT INTO t VALUES(100, 1)");
  char *message = NULL;
  int rc = sql_load(a, &message);
  ck_assert_msg(rc == SQLITE_OK || message, "code %d without a text", rc);
  sqlite3_free(message);
  sql_ok(a, "INSERT INTO t VALUES(101, 1); COMMIT");
  sql_rows(b, "SELECT count(*) FROM t", "62");
}
END_TEST

START_TEST(closed_with_statements_open) {
  for (int i = 0; i < 4; i++) {
    sqlite3 *db = twins_connect();
    sqlite3_stmt *reader, *writer;
    ck_assert_int_eq(sqlite3_prepare_v2(db, "SELECT k FROM t ORDER BY k", -1, &reader, NULL),
                     SQLITE_OK);
    ck_assert_int_eq(sqlite3_prepare_v2(db, "INSERT INTO t VALUES(900, 1)", -1, &writer, NULL),
                     SQLITE_OK);
    if (i & 1) sql_ok(db, "BEGIN");
    if (i & 2) ck_assert_int_eq(sqlite3_step(writer), SQLITE_DONE);
    ck_assert_int_eq(sqlite3_step(reader), SQLITE_ROW);
    ck_assert_int_eq(sqlite3_close(db), SQLITE_BUSY);
    ck_assert_int_eq(sqlite3_close_v2(db), SQLITE_OK);
    ck_assert_int_eq(sqlite3_step(reader), SQLITE_ROW);
    ck_assert_int_eq(sqlite3_column_int(reader, 0), 2);
    sqlite3_finalize(reader);
    sqlite3_finalize(writer);
    sql_ok(a, "DELETE FROM t WHERE k = 900");
    sql_rows(a, "SELECT count(*) FROM t", "60");
  }
}
END_TEST

static void add_cases(Suite *suite, const char *name, SFun open) {
  TCase *tc = tcase_create(name);
  tcase_set_timeout(tc, 60);
  tcase_add_checked_fixture(tc, open, close_both);
  tcase_add_loop_test(tc, nothing_is_left_after_each_use, 0, USES);
  tcase_add_loop_test(tc, nothing_is_left_after_each_failure, 0, FAILURES);
  tcase_add_test(tc, load_and_close_a_thousand_times);
  tcase_add_test(tc, loaded_twice_into_one_connection);
  suite_add_tcase(suite, tc);
}

int main(void) {
  Suite *suite = suite_create("sql_host");
  add_cases(suite, "rollback journal", open_delete);
  add_cases(suite, "wal", open_wal);
  TCase *tc = tcase_create("callbacks");
  tcase_add_checked_fixture(tc, open_wal, close_both);
  tcase_add_test(tc, hooks_are_called_as_for_ordinary_tables);
  tcase_add_test(tc, busy_handler_is_asked_at_writes_as_for_ordinary_tables);
  tcase_add_test(tc, closed_with_statements_open);
  suite_add_tcase(suite, tc);
  return harness_run(suite);
}
