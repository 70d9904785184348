/* The background thread (ext/worker.h): commits leave flushes and merges to it and publish what it has
** computed, the log stays within its limits, it ends with the last connection, and a fork leaves the child
** without it but whole. */
#include <dirent.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness_files.h"
#include "harness_sql.h"

#define BUDGET 16384
#define COMMITS_MAX 20000 /* until something that must happen has happened */

static sqlite3 *db;

static void set_up(void) {
  sql_use_threads(1);
  db = sql_open(sql_path("app.db"));
  sql_ok(db, "PRAGMA journal_mode = wal; PRAGMA synchronous = off;"
             "CREATE TABLE o(k INTEGER PRIMARY KEY, v);"
             "CREATE VIRTUAL TABLE t USING colfam(k INT PRIMARY KEY, v, memtable_bytes = 16384)");
}

static void tear_down(void) {
  sql_close(db);
}

static void open_again(void) {
  db = sql_open(sql_path("app.db"));
  sql_ok(db, "PRAGMA synchronous = off");
}

/* Of the extension: a sanitizer may have its own. */
static bool is_ours(const char *task) {
  char path[300], name[32] = "";
  snprintf(path, sizeof path, "/proc/self/task/%s/comm", task);
  FILE *file = fopen(path, "r");
  if (!file) return false;
  bool ours = fgets(name, sizeof name, file) && strcmp(name, "colfam\n") == 0;
  fclose(file);
  return ours;
}

static int threads_now(void) {
  DIR *dir = opendir("/proc/self/task");
  int count = 0;
  for (struct dirent *entry; dir && (entry = readdir(dir));) count += is_ours(entry->d_name);
  if (dir) closedir(dir);
  return count;
}

static void write_row(int i) {
  sql_okf(db,
          "BEGIN; INSERT OR REPLACE INTO t VALUES(%d, printf('%%0300d', %d));"
          "INSERT OR REPLACE INTO o VALUES(%d, printf('%%0300d', %d)); COMMIT",
          i % 1500, i, i % 1500, i);
}

static sqlite3_int64 statistic(const char *name) {
  char *sql = sqlite3_mprintf("SELECT sum(value) FROM colfam_stats WHERE name = %Q", name);
  sqlite3_int64 value = sql_int(db, sql);
  sqlite3_free(sql);
  return value;
}

static sqlite3_int64 log_bytes(void) {
  return sql_int(db, "SELECT coalesce(sum(length(batch)), 0) FROM t_cflog WHERE seq >"
                     " (SELECT value FROM t_cfmeta WHERE name = 'flushed_seq')");
}

static void same_rows(void) {
  sql_same(db, "SELECT k, v FROM t ORDER BY k", "SELECT k, v FROM o ORDER BY k");
  sql_rows(db, "SELECT * FROM colfam_check('t')", "");
}

START_TEST(commits_publish_what_the_thread_has_computed) {
  ck_assert_int_eq(threads_now(), 0); /* nothing to do yet */
  int i = 0;
  for (; i < COMMITS_MAX && statistic("compactions") < 3; i++) {
    write_row(i);
    ck_assert_int_le(log_bytes(), 2 * BUDGET + 1000);
    ck_assert_int_lt(sql_int(db, "SELECT count(DISTINCT level || '.' || seq) FROM t_cffile"), 33);
    sched_yield();
  }
  ck_assert_int_lt(i, COMMITS_MAX);
  ck_assert_int_eq(threads_now(), 1);
  ck_assert_int_gt(statistic("flushes"), 2);
  files_named_are_there(db, "t");
  same_rows();
}
END_TEST

static void write_large_row(int i) {
  sql_okf(db,
          "BEGIN; INSERT OR REPLACE INTO t VALUES(%d, zeroblob(6000));"
          "INSERT OR REPLACE INTO o VALUES(%d, zeroblob(6000)); COMMIT",
          i % 20, i % 20);
}

/* It cannot keep up: the third commit gives it a flush, for which the next ones wait, and are counted. */
START_TEST(commits_wait_for_a_thread_that_is_held_back) {
  int i = 0;
  for (; i < COMMITS_MAX && statistic("flush_waits") < 3; i++) {
    write_large_row(i);
    ck_assert_int_le(log_bytes(), 2 * BUDGET + 7000);
  }
  ck_assert_int_lt(i, COMMITS_MAX);
  ck_assert_int_ge(statistic("commit_helps"), statistic("flush_waits"));
  ck_assert_int_gt(statistic("commit_help_us"), 0);
  ck_assert_int_ge(statistic("flushes"), statistic("flush_waits"));
  sqlite3_int64 waits = statistic("flush_waits"), helps = statistic("commit_helps");
  sql_ok(db, "SELECT colfam_config('threads', 0)");
  for (int end = i + 500; i < end; i++) write_large_row(i);
  ck_assert_int_eq(statistic("flush_waits"), waits); /* there is nobody to wait for */
  ck_assert_int_gt(statistic("commit_helps"), helps);
  same_rows();
}
END_TEST

/* Descriptors of the process on the database file, its log and its journal. */
static int database_files_open(void) {
  int count = 0;
  DIR *dir = opendir("/proc/self/fd");
  for (struct dirent *entry; dir && (entry = readdir(dir));) {
    char link[300], path[4200] = "";
    snprintf(link, sizeof link, "/proc/self/fd/%s", entry->d_name);
    bool known = readlink(link, path, sizeof path - 1) > 0;
    count += known && strstr(path, "/app.db") && !strstr(path, "-colfam");
  }
  if (dir) closedir(dir);
  return count;
}

static int connections_made;
static int count_connection(sqlite3 *made, char **message, const struct sqlite3_api_routines *api) {
  (void)made, (void)message, (void)api;
  connections_made++;
  return SQLITE_OK;
}

/* Not even for a moment (invariant 4): SQLite would tell, and its files would be open once more. */
START_TEST(nobody_but_the_application_connects) {
  sqlite3_auto_extension((void (*)(void))(uintptr_t)count_connection);
  write_row(0);
  int open = database_files_open();
  for (int i = 0; i < COMMITS_MAX && statistic("compactions") < 3; i++) {
    write_row(i);
    ck_assert_int_eq(database_files_open(), open);
    sched_yield();
  }
  sql_ok(db, "SELECT * FROM colfam_compact('t'); SELECT * FROM colfam_check('t');"
             "INSERT INTO t(t) VALUES('flush'); DROP TABLE t");
  ck_assert_int_eq(connections_made, 0);
  sqlite3_reset_auto_extension();
}
END_TEST

START_TEST(thread_ends_with_the_last_connection) {
  sqlite3 *other = sql_open(sql_path("other.db"));
  sql_ok(other, "PRAGMA synchronous = off");
  for (int round = 0; round < 10; round++) {
    for (int i = 0; i < 70; i++) write_row(i); /* over the budget */
    ck_assert_int_eq(threads_now(), 1);
    sql_close(db);
    ck_assert_int_eq(threads_now(), 1);
    sql_close(other);
    ck_assert_int_eq(threads_now(), 0);
    other = sql_open(sql_path("other.db"));
    open_again();
    same_rows();
  }
  sql_close(other);
}
END_TEST

START_TEST(closing_in_the_middle_leaves_no_files) {
  for (int round = 0; round < 30; round++) {
    for (int i = 0; i < 60 + round; i++) write_row(i + round);
    sql_close(db);
    open_again();
    write_row(round); /* sweeps, if there is anything to sweep */
    files_named_are_there(db, "t");
  }
  sql_rows(db, "SELECT colfam_config('threads', 0)", "0");
  sql_ok(db, "INSERT INTO t(t) VALUES('compact')");
  write_row(1);
  write_row(2);
  files_agree(db, "t");
  same_rows();
}
END_TEST

START_TEST(setting_of_0_ends_the_thread) {
  for (int i = 0; i < 70; i++) write_row(i);
  ck_assert_int_eq(threads_now(), 1);
  sql_rows(db, "SELECT colfam_config('threads', 0)", "0");
  ck_assert_int_eq(threads_now(), 0);
  for (int i = 0; i < 200; i++) write_row(i);
  ck_assert_int_eq(threads_now(), 0);
  sql_rows(db, "SELECT colfam_config('threads', 1)", "1");
  for (int i = 0; i < 140; i++) write_row(i);
  ck_assert_int_eq(threads_now(), 1);
  same_rows();
}
END_TEST

START_TEST(tables_go_while_it_works_on_them) {
  for (int round = 0; round < 20; round++) {
    for (int i = 0; i < 65; i++) write_row(i);
    if (round % 4 == 0) sql_ok(db, "DROP TABLE t");
    if (round % 4 == 1) sql_ok(db, "ALTER TABLE t RENAME TO t2; DROP TABLE t2");
    if (round % 4 == 2) sql_ok(db, "BEGIN; DROP TABLE t; ROLLBACK; DROP TABLE t");
    if (round % 4 == 3) sql_ok(db, "DELETE FROM t; DELETE FROM o; DROP TABLE t");
    sql_ok(db, "DELETE FROM o; CREATE VIRTUAL TABLE t USING colfam(k INT PRIMARY KEY, v,"
               " memtable_bytes = 16384)");
    write_row(round);
    same_rows();
  }
}
END_TEST

/* What is logged of a directory that is none, apart from statements that fail. */
static int failures_logged;
static void note_log(void *context, int code, const char *text) {
  (void)context;
  failures_logged += code == SQLITE_IOERR && strstr(text, "app.db-colfam") != NULL &&
                     strncmp(text, "statement aborts", 16) != 0;
}

static void open_with_log(void) {
  sql_close(db);
  sqlite3_shutdown();
  ck_assert_int_eq(sqlite3_config(SQLITE_CONFIG_LOG, note_log, NULL), SQLITE_OK);
  open_again();
}

static void put_file_in_place_of_directory(void) {
  ck_assert_int_eq(rename(sql_path("app.db-colfam"), sql_path("away")), 0);
  FILE *file = fopen(sql_path("app.db-colfam"), "w");
  ck_assert_ptr_nonnull(file);
  fclose(file);
}

static void put_directory_back(void) {
  ck_assert_int_eq(unlink(sql_path("app.db-colfam")), 0);
  ck_assert_int_eq(rename(sql_path("away"), sql_path("app.db-colfam")), 0);
}

/* A commit that finds the log too long works itself: it may fail, and is then taken back. */
START_TEST(failures_are_logged_and_the_work_is_done_later) {
  for (int n = 0; n < 200; n++) write_row(n);
  open_with_log();
  put_file_in_place_of_directory();
  int i = 0;
  for (; i < COMMITS_MAX && !failures_logged; i++) {
    char sql[200];
    snprintf(sql, sizeof sql,
             "BEGIN; INSERT OR REPLACE INTO t VALUES(%d, printf('%%0300d', %d));"
             "INSERT OR REPLACE INTO o VALUES(%d, printf('%%0300d', %d)); COMMIT",
             i % 1500, i, i % 1500, i);
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK && !sqlite3_get_autocommit(db))
      sql_ok(db, "ROLLBACK");
    sched_yield();
  }
  ck_assert_int_gt(failures_logged, 0);
  put_directory_back();
  same_rows();
  for (i = 0; i < COMMITS_MAX && statistic("flushes") < 2; i++) write_row(i);
  ck_assert_int_gt(statistic("flushes"), 1);
  files_named_are_there(db, "t");
  same_rows();
}
END_TEST

START_TEST(rolled_back_commits_keep_what_it_has_computed) {
  for (int i = 0; i < 400; i++) {
    write_row(i);
    sql_okf(db, "BEGIN; INSERT OR REPLACE INTO t VALUES(%d, 'gone'); ROLLBACK", i);
  }
  same_rows();
}
END_TEST

START_TEST(memory_and_temp_have_it_too) {
  sqlite3 *memory = sql_open(":memory:");
  sql_ok(memory, "CREATE TABLE o(k INTEGER PRIMARY KEY, v);"
                 "CREATE VIRTUAL TABLE temp.t USING colfam(k INT PRIMARY KEY, v,"
                 " memtable_bytes = 16384)");
  for (int i = 0; i < 600; i++)
    sql_okf(memory,
            "BEGIN; INSERT OR REPLACE INTO t VALUES(%d, printf('%%0300d', %d));"
            "INSERT OR REPLACE INTO o VALUES(%d, printf('%%0300d', %d)); COMMIT",
            i % 200, i, i % 200, i);
  sql_same(memory, "SELECT k, v FROM t ORDER BY k", "SELECT k, v FROM o ORDER BY k");
  sql_close(memory);
}
END_TEST

/* ---- Forks */

static int child_status(pid_t child) {
  int status;
  ck_assert_int_eq(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
}

/* The allocator of the address sanitizer is not made ready for a fork: a child may find it locked for ever,
** by the thread that it has not. There it is ended after a while, which says nothing of the extension. */
#ifdef __SANITIZE_ADDRESS__
#define CHILD_SECONDS 10
#else
#define CHILD_SECONDS 0 /* no limit */
#endif

static pid_t fork_child(void) {
  pid_t child = fork();
  if (child == 0) {
    signal(SIGALRM, SIG_DFL); /* not to what Check does with it */
    alarm(CHILD_SECONDS);
  }
  return child;
}

static void expect_success(pid_t child) {
  int status = child_status(child);
  if (!CHILD_SECONDS || status != 100 + SIGALRM) ck_assert_int_eq(status, 0);
}

/* In a child no test may fail: it exits with the number of what went wrong. */
static int use_inherited(void) {
  char *message = NULL;
  int rc = sqlite3_exec(db, "SELECT * FROM t WHERE k = 1", NULL, NULL, &message);
  if (rc != SQLITE_MISUSE) return 2;
  if (!message || !strstr(message, "before fork")) return 3;
  rc = sqlite3_exec(db, "INSERT INTO t VALUES(-1, 1)", NULL, NULL, &message);
  if (rc != SQLITE_MISUSE) return 4;
  return 0;
}

static int open_own(const char *path) {
  sqlite3 *own = NULL;
  if (sqlite3_open(path, &own) != SQLITE_OK || sql_load(own, NULL) != SQLITE_OK) return 5;
  sqlite3_busy_timeout(own, 60000);
  if (sqlite3_exec(own, "PRAGMA synchronous = off", NULL, NULL, NULL) != SQLITE_OK) return 5;
  for (int i = 0; i < 150; i++) {
    char sql[200];
    snprintf(sql, sizeof sql,
             "INSERT OR REPLACE INTO t VALUES(%d, printf('%%0300d', %d));"
             "INSERT OR REPLACE INTO o VALUES(%d, printf('%%0300d', %d))",
             i, i, i, i);
    if (sqlite3_exec(own, "BEGIN IMMEDIATE", NULL, NULL, NULL) != SQLITE_OK) return 6;
    if (sqlite3_exec(own, sql, NULL, NULL, NULL) != SQLITE_OK) return 7;
    if (sqlite3_exec(own, "COMMIT", NULL, NULL, NULL) != SQLITE_OK) return 8;
  }
  return sqlite3_close(own) == SQLITE_OK ? 0 : 9;
}

START_TEST(inherited_connection_is_refused) {
  for (int i = 0; i < 70; i++) write_row(i);
  pid_t child = fork_child();
  if (child == 0) _exit(use_inherited());
  expect_success(child);
  write_row(5);
  same_rows();
}
END_TEST

/* The parent is in the middle of a transaction. */
static int write_inherited(void) {
  char *message = NULL;
  if (sqlite3_exec(db, "INSERT INTO t VALUES(-1, 1)", NULL, NULL, &message) != SQLITE_MISUSE)
    return 2;
  if (!message || !strstr(message, "before fork")) return 3;
  if (sqlite3_exec(db, "SAVEPOINT s; RELEASE s", NULL, NULL, NULL) != SQLITE_OK) return 4;
  return sqlite3_exec(db, "COMMIT", NULL, NULL, NULL) == SQLITE_OK ? 5 : 0;
}

START_TEST(inherited_transaction_is_refused) {
  sql_ok(db, "BEGIN; INSERT INTO t VALUES(2000, 'parent');"
             "INSERT INTO o VALUES(2000, 'parent')");
  pid_t child = fork_child();
  if (child == 0) _exit(write_inherited());
  expect_success(child);
  sql_rows(db, "SELECT v FROM t WHERE k = 2000", "parent");
}
END_TEST

START_TEST(child_opens_its_own) {
  const char *path = sql_path("app.db");
  for (int round = 0; round < 20; round++) {
    for (int i = 0; i < 65 + round; i++)
      write_row(i); /* the thread is in the middle of something */
    pid_t child = fork_child();
    if (child == 0) _exit(open_own(path));
    sql_ok(db, "PRAGMA busy_timeout = 60000");
    expect_success(child);
    same_rows();
  }
}
END_TEST

START_TEST(child_may_close_what_it_has_inherited) {
  sqlite3 *memory = sql_open(":memory:");
  sql_ok(memory,
         "CREATE VIRTUAL TABLE t USING colfam(k INT PRIMARY KEY, v, memtable_bytes = 16384)");
  for (int i = 0; i < 70; i++) sql_okf(memory, "INSERT INTO t VALUES(%d, printf('%%0300d', 1))", i);
  pid_t child = fork_child();
  if (child == 0) _exit(sqlite3_close(memory) == SQLITE_OK ? 0 : 2);
  expect_success(child);
  sql_rows(memory, "SELECT count(*) FROM t", "70");
  sql_close(memory);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("worker");
  TCase *tests = tcase_create("worker");
  tcase_set_timeout(tests, 120);
  tcase_add_checked_fixture(tests, set_up, tear_down);
  tcase_add_test(tests, commits_publish_what_the_thread_has_computed);
  tcase_add_test(tests, commits_wait_for_a_thread_that_is_held_back);
  tcase_add_test(tests, nobody_but_the_application_connects);
  tcase_add_test(tests, thread_ends_with_the_last_connection);
  tcase_add_test(tests, closing_in_the_middle_leaves_no_files);
  tcase_add_test(tests, setting_of_0_ends_the_thread);
  tcase_add_test(tests, tables_go_while_it_works_on_them);
  tcase_add_test(tests, failures_are_logged_and_the_work_is_done_later);
  tcase_add_test(tests, rolled_back_commits_keep_what_it_has_computed);
  tcase_add_test(tests, memory_and_temp_have_it_too);
  tcase_add_test(tests, inherited_connection_is_refused);
  tcase_add_test(tests, inherited_transaction_is_refused);
  if (FORKS_ARE_FOLLOWED) tcase_add_test(tests, child_opens_its_own);
  tcase_add_test(tests, child_may_close_what_it_has_inherited);
  suite_add_tcase(suite, tests);
  return harness_run(suite);
}
