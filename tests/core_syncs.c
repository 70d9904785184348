/* The system calls that make a flush durable, in their order: the table file, its directory and the entry of
** that one are synced before the commit that names the file touches the database or its log. Also in a
** directory that is made anew after a DROP or after somebody has removed it. And none of them while a
** file that
** may go is only held by a view. This program's fsync and fdatasync stand before those of the C library, for
** SQLite too, and note what they are called with. */
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "harness_api.h"
#include "harness_files.h"
#include "harness_sql.h"

#define SEEN_BY_ALL __attribute__((visibility("default")))

static sqlite3 *db;
static char trace[200]; /* a letter for each call */
static size_t trace_size;

static bool has_end(const char *path, const char *end) {
  size_t size = strlen(path), tail = strlen(end);
  return size >= tail && strcmp(path + size - tail, end) == 0;
}

/* f: a table file, d: their directory, p: the directory of the database, c: what commits. */
static char letter_of(const char *path) {
  char parent[PATH_MAX];
  if (has_end(path, ".sst")) return 'f';
  if (has_end(path, ".db-colfam")) return 'd';
  if (has_end(path, ".db") || has_end(path, ".db-wal")) return 'c';
  return realpath(harness_dir(), parent) && strcmp(path, parent) == 0 ? 'p' : '-';
}

static void note(int fd) {
  char link[40], path[PATH_MAX];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t size = readlink(link, path, sizeof path - 1);
  path[size > 0 ? size : 0] = '\0';
  if (trace_size < sizeof trace - 1) trace[trace_size++] = letter_of(path);
  trace[trace_size] = '\0';
}

SEEN_BY_ALL int fsync(int fd) {
  note(fd);
  return (int)syscall(SYS_fsync, fd);
}

SEEN_BY_ALL int fdatasync(int fd) {
  note(fd);
  return (int)syscall(SYS_fdatasync, fd);
}

static void open_db(const char *journal) {
  db = sql_open(sql_path("syncs.db"));
  sql_okf(db, "PRAGMA journal_mode = %s; PRAGMA synchronous = full", journal);
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(k INT PRIMARY KEY, v)");
}

static void expect_flush_is_synced(const char *when) {
  trace_size = 0;
  sql_ok(db, "BEGIN; INSERT OR REPLACE INTO t VALUES(1, randomblob(100));"
             "INSERT INTO t(t) VALUES('flush'); COMMIT");
  const char *synced = strstr(trace, "fdp"), *committed = strchr(trace, 'c');
  ck_assert_msg(synced && committed && synced < committed, "%s: %s", when, trace);
  files_agree(db, "t");
}

START_TEST(file_directory_and_entry_before_the_commit) {
  static const char *const journals[] = {"delete", "truncate", "persist", "wal"};
  open_db(journals[_i]);
  expect_flush_is_synced("a new directory");
  expect_flush_is_synced("the same directory");
  sql_ok(db, "DROP TABLE t; CREATE VIRTUAL TABLE t USING colfam(k INT PRIMARY KEY, v);"
             "INSERT INTO t VALUES(2, 2); INSERT INTO t VALUES(3, 3)");
  expect_flush_is_synced("after a DROP");
  sql_ok(db, "DROP TABLE t; CREATE TABLE o(x); INSERT INTO o VALUES(1);"
             "CREATE VIRTUAL TABLE t USING colfam(k INT PRIMARY KEY, v)");
  sql_ok(db, "INSERT INTO t VALUES(2, 2)");
  rmdir(sql_path("syncs.db-colfam"));
  ck_assert_int_ne(access(sql_path("syncs.db-colfam"), F_OK), 0);
  expect_flush_is_synced("a directory that was removed");
  sql_close(db);
}
END_TEST

/* A result keeps a file whose drop is proved long ago: commits that change nothing of that make no
** checkpoint, which would be two syncs each. */
START_TEST(a_file_that_is_only_held_costs_no_syncs) {
  const struct colfam_value key = integer(1);
  const struct colfam_request asked = request("t", &key, 1, 1);
  struct colfam_result *result = NULL;
  open_db("wal");
  sql_ok(db, "PRAGMA synchronous = normal");
  const struct colfam_api *api = api_of(db);
  sql_ok(db, "INSERT INTO t VALUES(1, 'x'); INSERT INTO t(t) VALUES('flush')");
  ck_assert_int_eq(api->multi_get(api, &asked, 1, &result, NULL), SQLITE_OK);
  sql_ok(db, "INSERT INTO t VALUES(2, 'y'); INSERT INTO t(t) VALUES('compact');"
             "INSERT INTO t VALUES(3, 'z'); INSERT INTO t VALUES(4, 'z')");
  ck_assert_int_eq(files_on_disk(sql_path("syncs.db")), 2);
  trace_size = 0;
  for (int i = 5; i < 20; i++) sql_okf(db, "INSERT INTO t VALUES(%d, 'z')", i);
  ck_assert_uint_eq(trace_size, 0);
  api->free_result(result);
  sql_ok(db, "INSERT INTO t VALUES(20, 'z')");
  files_agree(db, "t");
  sql_close(db);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("core_syncs");
  TCase *tc = tcase_create("syncs");
  tcase_add_loop_test(tc, file_directory_and_entry_before_the_commit, 0, 4);
  tcase_add_test(tc, a_file_that_is_only_held_costs_no_syncs);
  suite_add_tcase(suite, tc);
  return harness_run(suite);
}
