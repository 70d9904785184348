/* The sweep (ext/sweep.h): files that nobody names and nobody works on go with the first commit, and no other
** file does. Processes that die are crash_kill's; here files are put and locked by hand. */
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness_files.h"
#include "harness_sql.h"

#define ORPHAN "app.db-colfam/0123456789abcdef.sst"

static sqlite3 *db;

static void open_database(void) {
  db = sql_open(sql_path("app.db"));
  sql_ok(db, "PRAGMA journal_mode = wal;"
             "CREATE TABLE o(x);"
             "CREATE VIRTUAL TABLE t USING colfam(k INT PRIMARY KEY, v);"
             "CREATE VIRTUAL TABLE u USING colfam(k INT PRIMARY KEY, v);"
             "INSERT INTO t VALUES(1, 'a'); INSERT INTO t(t) VALUES('flush');"
             "INSERT INTO u VALUES(1, 'b'); INSERT INTO u(u) VALUES('flush')");
}

static void close_database(void) {
  sql_close(db);
}

static void reopen(void) {
  sql_close(db);
  db = sql_open(sql_path("app.db"));
}

static void commit_one(void) {
  sql_ok(db, "INSERT OR REPLACE INTO t VALUES(2, abs(random()) % 1)");
}

static void put(const char *name) {
  int fd = open(sql_path(name), O_CREAT | O_EXCL | O_WRONLY, 0644);
  ck_assert_int_ge(fd, 0);
  ck_assert_int_eq(write(fd, "torn", 4), 4);
  close(fd);
}

static bool is_there(const char *name) {
  struct stat info;
  return lstat(sql_path(name), &info) == 0;
}

START_TEST(orphan_goes_with_the_first_commit) {
  put(ORPHAN);
  reopen();
  sql_rows(db, "SELECT v FROM t", "a");
  ck_assert(is_there(ORPHAN)); /* reading removes nothing */
  sql_ok(db, "BEGIN; INSERT INTO t VALUES(3, 3); ROLLBACK");
  ck_assert(is_there(ORPHAN));
  commit_one();
  ck_assert(!is_there(ORPHAN));
  ck_assert_int_eq(files_on_disk(sql_path("app.db")), 2);
  sql_rows(db, "SELECT v FROM u", "b"); /* of a table that was not open */
}
END_TEST

/* Commands alone, on a table that has nothing to flush or merge. */
START_TEST(orphan_goes_with_a_command) {
  static const char *const commands[] = {"compact", "flush", "compression=none"};
  static const char *const modes[] = {"wal", "delete", "truncate"};
  for (int mode = 0; mode < 3; mode++) {
    sql_okf(db, "PRAGMA journal_mode = %s", modes[mode]);
    for (int i = 0; i < 3; i++) {
      sql_ok(db, "CREATE VIRTUAL TABLE IF NOT EXISTS empty USING colfam(k INT PRIMARY KEY, v)");
      put(ORPHAN);
      reopen();
      sql_okf(db, "BEGIN; INSERT INTO empty(empty) VALUES('%s'); ROLLBACK", commands[i]);
      ck_assert(is_there(ORPHAN));
      sql_okf(db, "INSERT INTO empty(empty) VALUES('%s')", commands[i]);
      ck_assert_msg(!is_there(ORPHAN), "%s, %s", modes[mode], commands[i]);
      sql_rows(db, "SELECT * FROM empty", "");
    }
  }
  ck_assert_int_eq(files_on_disk(sql_path("app.db")), 2);
}
END_TEST

START_TEST(file_that_never_got_its_name_goes) {
  put(ORPHAN ".new");
  put("app.db-colfam/0123456789abcde1.sst.new");
  int fd = open(sql_path("app.db-colfam/0123456789abcde1.sst.new"), O_RDONLY);
  ck_assert_int_eq(flock(fd, LOCK_EX | LOCK_NB), 0);
  reopen();
  commit_one();
  ck_assert(!is_there(ORPHAN ".new"));
  ck_assert(is_there("app.db-colfam/0123456789abcde1.sst.new"));
  close(fd);
}
END_TEST

START_TEST(every_publish_sweeps) {
  commit_one();
  put(ORPHAN);
  commit_one();
  ck_assert(is_there(ORPHAN));
  sql_ok(db, "INSERT INTO t(t) VALUES('flush')");
  commit_one();
  ck_assert(!is_there(ORPHAN));
}
END_TEST

START_TEST(other_names_stay) {
  static const char *const names[] = {
      "app.db-colfam/notes.txt",
      "app.db-colfam/0123456789abcde.sst",
      "app.db-colfam/0123456789ABCDEF.sst",
      "app.db-colfam/8123456789abcdef.sst",
      "app.db-colfam/0123456789abcdef.sst.bak",
      "app.db-colfam/0123456789abcdeg.sst",
      "app.db-colfam/0000000000000000.sst",
  };
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) put(names[i]);
  ck_assert_int_eq(mkdir(sql_path(ORPHAN), 0755), 0);
  ck_assert_int_eq(symlink("notes.txt", sql_path("app.db-colfam/0123456789abcde0.sst")), 0);
  reopen();
  commit_one();
  commit_one();
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) ck_assert(is_there(names[i]));
  ck_assert(is_there(ORPHAN));
  ck_assert(is_there("app.db-colfam/0123456789abcde0.sst"));
}
END_TEST

START_TEST(file_that_somebody_works_on_stays) {
  put(ORPHAN);
  int fd = open(sql_path(ORPHAN), O_RDONLY);
  ck_assert_int_eq(flock(fd, LOCK_EX | LOCK_NB), 0);
  reopen();
  commit_one();
  ck_assert(is_there(ORPHAN));
  close(fd);
  sql_ok(db, "INSERT INTO t(t) VALUES('flush')");
  commit_one();
  ck_assert(!is_there(ORPHAN));
}
END_TEST

START_TEST(work_that_waits_for_its_commit_stays) {
  commit_one();
  sql_ok(db, "SELECT * FROM colfam_flush('t')"); /* pending */
  ck_assert_int_eq(files_on_disk(sql_path("app.db")), 3);
  sqlite3 *other = sql_open(sql_path("app.db"));
  sql_ok(other, "BEGIN; INSERT INTO o VALUES(1); COMMIT");
  ck_assert_int_eq(files_on_disk(sql_path("app.db")), 3);
  sql_close(other);
  commit_one();
  files_named_are_there(db, "t");
  sql_rows(db, "SELECT count(*) FROM t", "2");
}
END_TEST

/* A process that compacts t while somebody reads, and ends without removing anything. */
static void compact_and_die(void) {
  const char *path = sql_path("app.db");
  pid_t child = fork();
  if (child == 0) {
    sqlite3 *own = sql_open(path);
    sql_ok(own, "INSERT INTO t VALUES(5, 'new'); INSERT INTO t(t) VALUES('compact')");
    _exit(0);
  }
  int status;
  ck_assert_int_eq(waitpid(child, &status, 0), child);
  ck_assert_int_eq(status, 0);
}

START_TEST(file_that_an_older_snapshot_needs_stays) {
  sql_close(db);
  sqlite3 *reader = sql_open(sql_path("app.db"));
  sql_ok(reader, "BEGIN; SELECT * FROM o");
  compact_and_die();
  db = sql_open(sql_path("app.db"));
  ck_assert_int_eq(files_on_disk(sql_path("app.db")), 3);
  for (int i = 0; i < 3; i++) commit_one();
  ck_assert_int_eq(files_on_disk(sql_path("app.db")), 3);
  sql_rows(reader, "SELECT k, v FROM t", "1|a");
  sql_ok(reader, "COMMIT");
  sql_rows(reader, "SELECT k, v FROM t WHERE k <> 2", "1|a\n5|new");
  commit_one();
  ck_assert_int_eq(files_on_disk(sql_path("app.db")), 2);
  sql_close(reader);
}
END_TEST

START_TEST(commit_that_fails_sweeps_nothing) {
  put(ORPHAN);
  reopen();
  sql_ok(db, "PRAGMA journal_mode = delete");
  sqlite3 *reader = sql_open(sql_path("app.db"));
  sql_ok(reader, "BEGIN; SELECT * FROM o");
  sql_ok(db, "BEGIN; INSERT INTO t VALUES(7, 7)");
  sql_fails(db, "COMMIT", SQLITE_BUSY, NULL);
  ck_assert(is_there(ORPHAN));
  sql_ok(db, "ROLLBACK");
  ck_assert(is_there(ORPHAN));
  sql_ok(reader, "COMMIT");
  commit_one();
  ck_assert(!is_there(ORPHAN));
  sql_close(reader);
}
END_TEST

/* A compaction in a transaction that fails: what it dropped in vain stays. */
START_TEST(files_dropped_in_vain_stay) {
  sql_ok(db, "PRAGMA journal_mode = delete");
  reopen();
  sqlite3 *reader = sql_open(sql_path("app.db"));
  sql_ok(reader, "BEGIN; SELECT * FROM o");
  sql_ok(db, "BEGIN; INSERT INTO t VALUES(7, 7); INSERT INTO t(t) VALUES('compact')");
  sql_fails(db, "COMMIT", SQLITE_BUSY, NULL);
  sql_ok(db, "ROLLBACK");
  sql_ok(reader, "COMMIT");
  sql_ok(db, "INSERT INTO u VALUES(2, 'c')");
  sql_ok(db, "INSERT INTO u(u) VALUES('compact')");
  files_named_are_there(db, "t");
  files_named_are_there(db, "u");
  ck_assert_int_eq(files_on_disk(sql_path("app.db")), 2);
  sql_rows(db, "SELECT v FROM t", "a");
  sql_close(reader);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("orphans");
  TCase *tests = tcase_create("orphans");
  tcase_set_timeout(tests, 60);
  tcase_add_checked_fixture(tests, open_database, close_database);
  tcase_add_test(tests, orphan_goes_with_the_first_commit);
  tcase_add_test(tests, orphan_goes_with_a_command);
  tcase_add_test(tests, file_that_never_got_its_name_goes);
  tcase_add_test(tests, every_publish_sweeps);
  tcase_add_test(tests, other_names_stay);
  tcase_add_test(tests, file_that_somebody_works_on_stays);
  tcase_add_test(tests, work_that_waits_for_its_commit_stays);
  tcase_add_test(tests, file_that_an_older_snapshot_needs_stays);
  tcase_add_test(tests, commit_that_fails_sweeps_nothing);
  tcase_add_test(tests, files_dropped_in_vain_stay);
  suite_add_tcase(suite, tests);
  return harness_run(suite);
}
