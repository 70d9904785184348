/* colfam_flush('t') and colfam_compact('t'): rows of progress, early ends, calls bounded in time, other
** processes and threads meanwhile. What becomes of work that waits: sql_publish.c. */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness_files.h"
#include "harness_work.h"

/* ---- Rows */

START_TEST(rows_have_the_columns_of_all_long_work) {
  sql_rows(a, "SELECT * FROM colfam_flush('t') WHERE seconds < 0", "");
  sql_rows(a, "SELECT phase, done, total, percent FROM colfam_flush('t')", "done|0|0|100.0");
  twins_insert(a, 1, 50);
  sql_rows(a,
           "SELECT phase, done, total, percent, typeof(seconds), table_name"
           " FROM colfam_flush('main.t')",
           "verify|50|50|100.0|real|main.t\npending|50|50|100.0|real|main.t");
  sql_rows(a, "SELECT rowid, phase FROM colfam_flush('t')", "1|pending");
}
END_TEST

START_TEST(wrong_arguments) {
  sql_ok(a, "CREATE TABLE plain(k)");
  static const char *const names[] = {"colfam_flush", "colfam_compact"};
  for (int i = 0; i < 2; i++) {
    struct {
      const char *arguments, *text;
    } const calls[] = {{"", "needs the name of a table: ('t')"},
                       {"()", "needs the name of a table: ('t')"},
                       {"(NULL)", "needs a text, the name of a table"},
                       {"(7)", "needs a text"},
                       {"('absent')", "no such table: absent"},
                       {"('plain')", "plain is no colfam table"},
                       {"('')", "is no table name"},
                       {"('t', 1)", "too many arguments"}};
    for (size_t j = 0; j < sizeof calls / sizeof *calls; j++) {
      char *sql = sqlite3_mprintf("SELECT * FROM %s%s", names[i], calls[j].arguments);
      sql_fails(a, sql, SQLITE_ERROR, calls[j].text);
      sqlite3_free(sql);
    }
  }
}
END_TEST

START_TEST(argument_from_a_join) {
  work_make_u();
  twins_insert(a, 1, 9);
  work_write_u(a);
  sql_rows(a,
           "SELECT f.table_name, phase FROM colfam_families f, colfam_flush(f.table_name)"
           " WHERE phase = 'pending' ORDER BY 1",
           "t|pending\nu|pending");
  work_write_u(a);
  ck_assert_int_eq(work_named_files(a, "t") + work_named_files(a, "u"), 2);
}
END_TEST

/* ---- Ends */

START_TEST(limit_ends_the_work_and_leaves_nothing) {
  twins_insert(a, 1, 50);
  sql_rows(a, "SELECT phase FROM colfam_flush('t') LIMIT 1", "verify");
  ck_assert_int_eq(work_files_on_disk(), 0);
  sqlite3_stmt *stmt;
  ck_assert_int_eq(sqlite3_prepare_v2(a, "SELECT * FROM colfam_compact('t')", -1, &stmt, NULL),
                   SQLITE_OK);
  ck_assert_int_eq(sqlite3_step(stmt), SQLITE_ROW);
  ck_assert_int_eq(work_files_on_disk(), 1);
  ck_assert_int_eq(sqlite3_reset(stmt), SQLITE_OK);
  ck_assert_int_eq(work_files_on_disk(), 0);
  ck_assert_int_eq(sqlite3_step(stmt), SQLITE_ROW);
  sqlite3_finalize(stmt);
  ck_assert_int_eq(work_files_on_disk(), 0);
  twins_insert(a, 51, 52);
  work_is_sound(a);
}
END_TEST

/* A statement that runs to its last row, is done, even when it is never stepped past it. */
START_TEST(last_row_means_that_the_work_stands) {
  twins_insert(a, 1, 50);
  sql_rows(a, "SELECT phase FROM colfam_flush('t') LIMIT 2", "verify\npending");
  ck_assert_int_eq(work_files_on_disk(), 1);
  twins_insert(a, 51, 52);
  work_is_sound(a);
}
END_TEST

static int interrupt_at(void *left) {
  return --*(int *)left == 0;
}

START_TEST(progress_handler_ends_the_work_and_leaves_nothing) {
  twins_insert(a, 1, 50);
  int done = 0, interrupted = 0;
  for (int n = 1; !done; n++) {
    int left = n;
    sqlite3_progress_handler(a, 1, interrupt_at, &left);
    int rc = sqlite3_exec(a, "SELECT * FROM colfam_flush('t')", NULL, NULL, NULL);
    sqlite3_progress_handler(a, 0, NULL, NULL);
    ck_assert_msg(rc == SQLITE_OK || rc == SQLITE_INTERRUPT, "code %d", rc);
    interrupted += rc == SQLITE_INTERRUPT && work_files_on_disk() == 0;
    done = rc == SQLITE_OK;
  }
  ck_assert_int_gt(interrupted, 3);
  twins_insert(a, 51, 52);
  work_is_sound(a);
}
END_TEST

START_TEST(interrupt_between_rows) {
  twins_insert(a, 1, 50);
  sqlite3_stmt *stmt;
  ck_assert_int_eq(sqlite3_prepare_v2(a, "SELECT * FROM colfam_flush('t')", -1, &stmt, NULL),
                   SQLITE_OK);
  ck_assert_int_eq(sqlite3_step(stmt), SQLITE_ROW);
  sqlite3_interrupt(a);
  ck_assert_int_eq(sqlite3_step(stmt), SQLITE_INTERRUPT);
  sqlite3_finalize(stmt);
  ck_assert_int_eq(work_files_on_disk(), 0);
}
END_TEST

START_TEST(table_dropped_while_its_work_runs) {
  twins_insert(a, 1, 50);
  sqlite3_stmt *stmt;
  ck_assert_int_eq(sqlite3_prepare_v2(a, "SELECT phase FROM colfam_flush('t')", -1, &stmt, NULL),
                   SQLITE_OK);
  ck_assert_int_eq(sqlite3_step(stmt), SQLITE_ROW);
  int rc = sqlite3_exec(a, "DROP TABLE t", NULL, NULL, NULL);
  while (sqlite3_step(stmt) == SQLITE_ROW) continue;
  sqlite3_finalize(stmt);
  if (rc == SQLITE_OK)
    sql_ok(a, "DROP TABLE o;" TWINS_SCHEMA);
  else
    twins_insert(a, 51, 52);
  twins_insert(a, 100, 101);
  work_is_sound(a);
}
END_TEST

START_TEST(closing_the_last_connection_removes_what_waits) {
  work_flush_pending();
  sql_close(b);
  ck_assert_int_eq(work_files_on_disk(), 1);
  sql_close(a);
  ck_assert_int_eq(work_files_on_disk(), 0);
  a = twins_connect();
  b = twins_connect();
  ck_assert_int_eq(sql_int(a, "SELECT count(*) FROM t"), 50);
}
END_TEST

START_TEST(statements_keep_no_locks) {
  work_flush_pending();
  sql_ok(a, "VACUUM");
  sql_ok(b, "VACUUM");
  work_write_u(b);
  sql_ok(a, "VACUUM");
  work_is_sound(a);
}
END_TEST

START_TEST(read_only_connection_is_refused) {
  twins_insert(a, 1, 50);
  sqlite3 *c = NULL;
  ck_assert_int_eq(sqlite3_open_v2(sql_path("app.db"), &c, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
  ck_assert_int_eq(sql_load(c, NULL), SQLITE_OK);
  sql_fails(c, "SELECT * FROM colfam_flush('t')", SQLITE_READONLY, "cannot be written to");
  sql_close(c);
  ck_assert_int_eq(work_files_on_disk(), 0);
}
END_TEST

START_TEST(directory_that_cannot_be_made) {
  twins_insert(a, 1, 50);
  fclose(fopen(sql_path("app.db-colfam"), "w"));
  sql_fails(a, "SELECT * FROM colfam_flush('t')", SQLITE_IOERR, "app.db-colfam");
  ck_assert_int_eq(unlink(sql_path("app.db-colfam")), 0);
  work_phases(a, "colfam_flush('t')", "verify pending");
  twins_insert(a, 51, 52);
  work_is_sound(a);
}
END_TEST

START_TEST(database_in_memory) {
  sqlite3 *c = sql_open(":memory:");
  sql_ok(c, "CREATE VIRTUAL TABLE t USING colfam(k INT PRIMARY KEY); INSERT INTO t VALUES(1), (2)");
  work_phases(c, "colfam_flush('t')", "verify pending");
  sql_ok(c, "INSERT INTO t VALUES(3)");
  sql_rows(c, "SELECT count(*) FROM t_cffile", "1");
  sql_rows(c, "SELECT k FROM t", "1\n2\n3");
  work_phases(c, "colfam_compact('t')", "verify pending");
  sql_close(c);
}
END_TEST

/* ---- Bounded calls */

/* Enough work for more than one call: random texts at the slowest compression. */
static void make_heavy(void) {
  work_make_u();
  sql_ok(a, "INSERT INTO t(t) VALUES('memtable_bytes=1073741824');"
            "INSERT INTO t(t) VALUES('compression=zstd:19')");
  for (int i = 0; i < 2; i++)
    sql_okf(a,
            "WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n WHERE i < 12000)"
            "INSERT INTO %s SELECT i, hex(randomblob(150)) FROM n",
            i ? "o" : "t");
  sql_ok(a, "DELETE FROM o; INSERT INTO o SELECT * FROM t");
}

static int calls_until_pending(sqlite3 *db) {
  int calls = 1;
  for (bool more = true; more; calls += more) {
    char *last = sql_query(db, "SELECT phase FROM colfam_compact('t') WHERE phase IN"
                               " ('more', 'pending', 'done')");
    more = strcmp(last, "more") == 0;
    ck_assert_msg(more || strcmp(last, "pending") == 0, "%s", last);
    sqlite3_free(last);
    ck_assert_int_lt(calls, 1000);
  }
  return calls;
}

START_TEST(rollback_journal_works_in_bounded_calls) {
  make_heavy();
  int calls = calls_until_pending(a);
  ck_assert_int_gt(calls, 1);
  work_write_u(a);
  ck_assert_int_eq(work_named_files(a, "t"), 1);
  work_is_sound(a);
}
END_TEST

START_TEST(wal_works_in_one_call) {
  make_heavy();
  ck_assert_int_eq(calls_until_pending(a), 1);
  work_write_u(a);
  work_is_sound(a);
}
END_TEST

START_TEST(unfinished_work_goes_on_after_other_commits) {
  make_heavy();
  sql_rows(a, "SELECT phase FROM colfam_compact('t') WHERE phase IN ('more', 'pending')", "more");
  work_write_u(b);
  ck_assert_int_eq(work_named_files(a, "t"), 0);
  twins_both(b, "DELETE FROM @ WHERE k > 11000");
  calls_until_pending(b);
  work_write_u(b);
  ck_assert_int_eq(work_named_files(a, "t"), 1);
  work_is_sound(a);
}
END_TEST

START_TEST(unfinished_work_without_inputs_begins_anew) {
  make_heavy();
  sql_rows(a, "SELECT phase FROM colfam_compact('t') WHERE phase IN ('more', 'pending')", "more");
  sql_ok(b, "INSERT INTO t(t) VALUES('compression=none'); INSERT INTO t(t) VALUES('flush')");
  twins_both(b, "DELETE FROM @ WHERE k > 11000");
  calls_until_pending(a);
  work_write_u(b);
  twins_same(a);
  work_write_u(b);
  ck_assert_int_eq(work_named_files(a, "t"), 1);
  work_is_sound(a);
}
END_TEST

START_TEST(unfinished_work_goes_with_the_last_connection) {
  make_heavy();
  sql_rows(a, "SELECT phase FROM colfam_compact('t') WHERE phase IN ('more', 'pending')", "more");
  sql_close(a);
  sql_close(b);
  ck_assert_int_eq(work_files_on_disk(), 0);
  a = twins_connect();
  b = twins_connect();
}
END_TEST

/* ---- Another process */

/* A child that runs the SQL it is sent, forked before this process opens anything. */
static struct {
  pid_t pid;
  int commands, answers;
} peer;

static void peer_run(const char *path, int commands, int answers) {
  char sql[500], answer = 0;
  sqlite3 *db = NULL;
  for (ssize_t n; (n = read(commands, sql, sizeof sql - 1)) > 0;) {
    sql[n] = 0;
    if (!db) db = sql_open(path);
    sql_ok(db, sql);
    if (write(answers, &answer, 1) != 1) break;
  }
  if (db) sql_close(db);
  _exit(0);
}

static void peer_ok(const char *sql) {
  char answer;
  ck_assert_int_eq(write(peer.commands, sql, strlen(sql)), (ssize_t)strlen(sql));
  ck_assert_msg(read(peer.answers, &answer, 1) == 1, "in the other process: %s", sql);
}

static void open_with_peer(void) {
  int commands[2], answers[2];
  ck_assert(pipe(commands) == 0 && pipe(answers) == 0);
  const char *path = sql_path("app.db");
  peer.pid = fork();
  if (peer.pid == 0) {
    close(commands[1]);
    close(answers[0]);
    peer_run(path, commands[0], answers[1]);
  }
  close(commands[0]);
  close(answers[1]);
  peer.commands = commands[1];
  peer.answers = answers[0];
  twins_open_wal();
}

static void close_with_peer(void) {
  int status;
  close(peer.commands);
  close(peer.answers);
  ck_assert_int_eq(waitpid(peer.pid, &status, 0), peer.pid);
  ck_assert_int_eq(status, 0);
  twins_close();
}

START_TEST(other_process_writes_between_computing_and_publishing) {
  work_flush_pending();
  peer_ok("BEGIN; DELETE FROM t WHERE k < 20; DELETE FROM o WHERE k < 20; COMMIT");
  ck_assert_int_eq(work_named_files(a, "t"), 0);
  peer_ok("INSERT INTO u VALUES(100, 1)");
  work_write_u(a);
  ck_assert_int_eq(work_named_files(a, "t"), 1);
  work_is_sound(a);
  peer_ok("BEGIN; DELETE FROM t WHERE k < 30; DELETE FROM o WHERE k < 30; COMMIT");
  work_is_sound(a);
}
END_TEST

START_TEST(other_process_flushes_before_publishing) {
  work_flush_pending();
  peer_ok("INSERT INTO t(t) VALUES('flush')");
  peer_ok("BEGIN; DELETE FROM t WHERE k < 20; DELETE FROM o WHERE k < 20; COMMIT");
  work_write_u(a);
  ck_assert_int_eq(work_named_files(a, "t"), 1);
  work_is_sound(a);
}
END_TEST

/* An older copy is put back over the database and the other process goes on from there: the commits that
** the work was computed from never were. */
START_TEST(older_copy_put_back_before_publishing) {
  work_make_u();
  twins_insert(a, 1, 20);
  sql_okf(a, "VACUUM INTO '%s'", sql_path("copy.db"));
  twins_both(a, "DELETE FROM @ WHERE k < 10");
  work_phases(a, "colfam_flush('t')", "verify pending");
  sqlite3 *copy;
  ck_assert_int_eq(sqlite3_open(sql_path("copy.db"), &copy), SQLITE_OK);
  sqlite3_backup *backup = sqlite3_backup_init(a, "main", copy, "main");
  ck_assert_ptr_nonnull(backup);
  ck_assert_int_eq(sqlite3_backup_step(backup, -1), SQLITE_DONE);
  ck_assert_int_eq(sqlite3_backup_finish(backup), SQLITE_OK);
  sqlite3_close(copy);
  peer_ok("BEGIN; DELETE FROM t WHERE k > 10; DELETE FROM o WHERE k > 10; COMMIT");
  work_write_u(a);
  ck_assert_int_eq(work_named_files(a, "t"), 0);
  sql_rows(a, "SELECT count(*), max(k) FROM t", "10|10");
  work_is_sound(a);
}
END_TEST

/* ---- Threads */

static void *compute_and_write(void *context) {
  sqlite3 *db = twins_connect();
  const char *table = context;
  sqlite3_busy_timeout(db, 60000);
  for (int i = 0; i < 30; i++) {
    sql_okf(db, "INSERT OR REPLACE INTO %s VALUES(%d, random())", table, 1000 + i);
    sql_okf(db, "SELECT * FROM %s('t')", i % 3 ? "colfam_flush" : "colfam_compact");
    sql_okf(db, "SELECT * FROM colfam_flush('u')");
    sql_okf(db, "DELETE FROM %s WHERE k %% 5 = %d", table, i % 5);
  }
  sql_close(db);
  return NULL;
}

START_TEST(threads_compute_and_publish_for_each_other) {
  work_make_u();
  pthread_t threads[2];
  static char tables[][2] = {"t", "u"};
  for (int i = 0; i < 2; i++)
    ck_assert_int_eq(pthread_create(&threads[i], NULL, compute_and_write, tables[i]), 0);
  for (int i = 0; i < 2; i++) ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
  sql_rows(a, "SELECT * FROM colfam_check('t')", "");
  sql_rows(a, "SELECT * FROM colfam_check('u')", "");
  sql_ok(a, "DELETE FROM o; INSERT INTO o SELECT * FROM t");
}
END_TEST

static void add_both(Suite *suite, const char *name, void (*open)(void)) {
  TCase *tc = tcase_create(name);
  tcase_set_timeout(tc, 120);
  tcase_add_checked_fixture(tc, open, twins_close);
  tcase_add_test(tc, rows_have_the_columns_of_all_long_work);
  tcase_add_test(tc, wrong_arguments);
  tcase_add_test(tc, argument_from_a_join);
  tcase_add_test(tc, limit_ends_the_work_and_leaves_nothing);
  tcase_add_test(tc, last_row_means_that_the_work_stands);
  tcase_add_test(tc, progress_handler_ends_the_work_and_leaves_nothing);
  tcase_add_test(tc, interrupt_between_rows);
  tcase_add_test(tc, table_dropped_while_its_work_runs);
  tcase_add_test(tc, closing_the_last_connection_removes_what_waits);
  tcase_add_test(tc, statements_keep_no_locks);
  tcase_add_test(tc, read_only_connection_is_refused);
  tcase_add_test(tc, directory_that_cannot_be_made);
  tcase_add_test(tc, database_in_memory);
  tcase_add_test(tc, threads_compute_and_publish_for_each_other);
  suite_add_tcase(suite, tc);
}

/* Where a SELECT keeps writers out. */
static void add_rollback_journal(Suite *suite) {
  TCase *tc = tcase_create("rollback journal alone");
  tcase_set_timeout(tc, 300);
  tcase_add_checked_fixture(tc, twins_open_delete, twins_close);
  tcase_add_test(tc, rollback_journal_works_in_bounded_calls);
  tcase_add_test(tc, unfinished_work_goes_on_after_other_commits);
  tcase_add_test(tc, unfinished_work_without_inputs_begins_anew);
  tcase_add_test(tc, unfinished_work_goes_with_the_last_connection);
  suite_add_tcase(suite, tc);
}

static void add_wal(Suite *suite) {
  TCase *tc = tcase_create("wal alone");
  tcase_set_timeout(tc, 300);
  tcase_add_checked_fixture(tc, twins_open_wal, twins_close);
  tcase_add_test(tc, wal_works_in_one_call);
  suite_add_tcase(suite, tc);
}

static void add_processes(Suite *suite) {
  TCase *tc = tcase_create("processes");
  tcase_set_timeout(tc, 120);
  tcase_add_checked_fixture(tc, open_with_peer, close_with_peer);
  tcase_add_test(tc, other_process_writes_between_computing_and_publishing);
  tcase_add_test(tc, other_process_flushes_before_publishing);
  tcase_add_test(tc, older_copy_put_back_before_publishing);
  suite_add_tcase(suite, tc);
}

int main(void) {
  Suite *suite = suite_create("sql_work");
  add_both(suite, "rollback journal", twins_open_delete);
  add_both(suite, "wal", twins_open_wal);
  add_rollback_journal(suite);
  add_wal(suite);
  add_processes(suite);
  return harness_run(suite);
}
