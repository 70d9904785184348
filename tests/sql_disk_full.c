/* No space: on the file system of everything, on that of the table files alone, in the database file
** (PRAGMA max_page_count), beyond the size that a process may give a file. What fails says SQLITE_FULL,
** for ordinary and colfam tables alike, and undoes what SQLite undoes then; rows that were committed are
** read, in both; nothing is left of what was begun; and with space again all works on, on the same
** connection. A full file system in memory writes a part of what it is given first. Where none can be
** mounted the largest size of a file stands for it (SQLite calls that an I/O error), and the test says so. */
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness_files.h"
#include "harness_mount.h"
#include "harness_sql.h"

#define DATA "app.db-colfam"
#define KB ((size_t)1024)

static bool mounted;
static char message[1000]; /* of the last attempt */

static void limit_files(size_t bytes) {
  struct rlimit limit;
  signal(SIGXFSZ, SIG_IGN);
  ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
  limit.rlim_cur = bytes ? bytes : limit.rlim_max;
  ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void fill_file(const char *path, size_t bytes) {
  static const char zeros[4096];
  int file = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
  ck_assert_int_ge(file, 0);
  for (size_t done = 0; done < bytes; done += sizeof zeros)
    ck_assert_int_eq(write(file, zeros, sizeof zeros), sizeof zeros);
  close(file);
}

/* A file system of `bytes` below the directory, another `more` of which are there when give_space is
** called. */
static void make_tight(const char *dir, size_t bytes, size_t more) {
  char ballast[4200];
  snprintf(ballast, sizeof ballast, "%s/ballast", dir);
  mounted = mount_small(dir, bytes + more);
  if (mounted)
    fill_file(ballast, more);
  else
    limit_files(bytes / 4);
}

static void give_space(const char *dir) {
  char ballast[4200];
  snprintf(ballast, sizeof ballast, "%s/ballast", dir);
  if (mounted)
    ck_assert_int_eq(unlink(ballast), 0);
  else
    limit_files(0);
}

static void end(const char *dir) {
  if (mounted) mount_end(dir);
}

static int is_full(int rc) {
  return (rc & 0xff) == SQLITE_FULL || (!mounted && (rc & 0xff) == SQLITE_IOERR);
}

static void make_tables(sqlite3 *db, const char *journal) {
  sql_okf(db, "PRAGMA journal_mode = %s", journal);
  sql_ok(db, "CREATE TABLE o(k INT PRIMARY KEY, v) WITHOUT ROWID;"
             "CREATE VIRTUAL TABLE t USING colfam(k INT PRIMARY KEY, v, memtable_bytes = 16384)");
}

static void same(sqlite3 *db) {
  sql_same(db, "SELECT k, v FROM t", "SELECT k, v FROM o");
  sql_same(db, "SELECT count(*) FROM t", "SELECT count(*) FROM o");
}

/* The statements, undone when they fail: which is for lack of space. With a limit on files SQLite may be
** unable to roll back, and so to read, before it is gone. */
static int attempt(sqlite3 *db, const char *sql) {
  int rc = sqlite3_exec(db, sql, NULL, NULL, NULL);
  snprintf(message, sizeof message, "%s", sqlite3_errmsg(db));
  ck_assert_msg(rc == SQLITE_OK || is_full(rc), "%s: code %d: %s", sql,
                sqlite3_extended_errcode(db), sqlite3_errmsg(db));
  if (!sqlite3_get_autocommit(db)) sql_ok(db, "ROLLBACK");
  if (mounted) same(db);
  return rc;
}

#define ROW                                                                           \
  "BEGIN; INSERT INTO o SELECT 1 + coalesce(max(k), 0), hex(randomblob(400)) FROM o;" \
  "INSERT INTO t SELECT * FROM o ORDER BY k DESC LIMIT 1; COMMIT"

/* What else may be tried on a full disk: each on both tables, whole or not at all. */
static const char *const statements[] = {
    ROW,
    "BEGIN; UPDATE o SET v = v || 'x'; UPDATE t SET v = v || 'x'; COMMIT",
    "INSERT INTO t(t) VALUES('flush')",
    "INSERT INTO t(t) VALUES('compact')",
    "BEGIN; DELETE FROM o WHERE k % 7 = 3; DELETE FROM t WHERE k % 7 = 3; COMMIT",
    "SELECT * FROM colfam_flush('t')",
    "SELECT * FROM colfam_compact('t')",
    "BEGIN; CREATE VIRTUAL TABLE u USING colfam(k PRIMARY KEY); INSERT INTO u VALUES(1); DROP "
    "TABLE u; COMMIT",
    "BEGIN; WITH RECURSIVE n(k) AS (VALUES(-1) UNION ALL SELECT k - 1 FROM n LIMIT 3000)"
    "INSERT INTO t SELECT k, hex(randomblob(400)) FROM n; INSERT INTO o SELECT * FROM t WHERE k < "
    "0;"
    "COMMIT",
    ROW,
};

static const char *const journals[] = {"delete", "truncate", "persist", "wal"};
enum { JOURNALS = 4, STATEMENTS = sizeof statements / sizeof *statements };

static void works_again(sqlite3 *db) {
  for (int i = 0; i < 3; i++) sql_ok(db, ROW);
  sql_ok(db, "INSERT INTO t(t) VALUES('compact'); PRAGMA wal_checkpoint");
  for (int i = 0; i < 3; i++) sql_ok(db, ROW);
  same(db);
  sql_rows(db, "SELECT * FROM colfam_check('t')", "");
  sql_rows(db, "PRAGMA integrity_check", "ok");
}

/* ---- Everything on one file system */

START_TEST(full_disk) {
  bool threads = _i >= JOURNALS;
  sql_use_threads(threads);
  make_tight(harness_dir(), 600 * KB, 3000 * KB);
  sqlite3 *db = sql_open(sql_path("app.db"));
  make_tables(db, journals[_i % JOURNALS]);
  int rows = 0;
  while (attempt(db, ROW) == SQLITE_OK) ck_assert_int_lt(++rows, 2000);
  ck_assert_int_gt(rows, mounted ? 20 : 5);
  for (int round = 0; round < 3; round++)
    for (int i = 0; i < STATEMENTS; i++) attempt(db, statements[i]);
  if (mounted) sql_rows(db, "SELECT * FROM colfam_check('t')", "");
  give_space(harness_dir());
  works_again(db);
  if (!threads) files_agree(db, "t");
  sql_close(db);
  db = sql_open(sql_path("app.db"));
  works_again(db);
  sql_close(db);
  end(harness_dir());
}
END_TEST

/* What each kind of table says by itself, row by row. */
START_TEST(full_disk_is_said_alike) {
  make_tight(harness_dir(), 600 * KB, 1000 * KB);
  sqlite3 *db = sql_open(sql_path("app.db"));
  make_tables(db, journals[_i]);
  static const char *const tables[] = {"o", "t"};
  for (int i = 0; i < 2; i++) {
    int rc = SQLITE_OK, rows = 0;
    char *sql =
        sqlite3_mprintf("INSERT INTO %s SELECT 1 + coalesce(max(k), 0), hex(randomblob(400)) "
                        "FROM %s",
                        tables[i], tables[i]);
    for (; rc == SQLITE_OK; rows++) {
      ck_assert_int_lt(rows, 3000);
      rc = sqlite3_exec(db, sql, NULL, NULL, NULL);
    }
    ck_assert_msg(is_full(rc), "%s: code %d: %s", tables[i], rc, sqlite3_errmsg(db));
    sqlite3_free(sql);
    sql_okf(db, "DELETE FROM %s WHERE k < 0", tables[i]);
    ck_assert_int_ge(sql_int(db, "SELECT max(k) FROM o"), rows - 1);
  }
  sql_close(db);
  end(harness_dir());
}
END_TEST

/* ---- The table files on one of their own */

START_TEST(full_disk_of_table_files) {
  ck_assert_int_eq(mkdir(sql_path(DATA), 0700), 0);
  make_tight(sql_path(DATA), 200 * KB, 3000 * KB);
  sql_use_threads(_i >= JOURNALS);
  sqlite3 *db = sql_open(sql_path("app.db"));
  make_tables(db, journals[_i % JOURNALS]);
  sql_ok(db, "PRAGMA synchronous = off");
  int rows = 0;
  while (attempt(db, ROW) == SQLITE_OK) ck_assert_int_lt(++rows, 2000);
  if (mounted) ck_assert_ptr_nonnull(strstr(message, "No space left"));
  if (mounted) ck_assert_ptr_nonnull(strstr(message, DATA));
  if (mounted) sql_ok(db, "CREATE TABLE other(x); INSERT INTO other VALUES(1); DROP TABLE other");
  for (int i = 0; i < STATEMENTS; i++) attempt(db, statements[i]);
  give_space(sql_path(DATA));
  works_again(db);
  if (_i < JOURNALS) files_agree(db, "t");
  sql_close(db);
  end(sql_path(DATA));
}
END_TEST

/* ---- The database file may have no more pages */

START_TEST(no_more_pages) {
  sqlite3 *db = sql_open(sql_path("app.db"));
  mounted = true; /* SQLITE_FULL and nothing else */
  make_tables(db, journals[_i]);
  sql_ok(db, "PRAGMA synchronous = off");
  sql_okf(db, "PRAGMA max_page_count = %lld", sql_int(db, "PRAGMA page_count") + 12);
  int rows = 0;
  while (attempt(db, ROW) == SQLITE_OK) ck_assert_int_lt(++rows, 2000);
  ck_assert_int_gt(rows, 5);
  for (int round = 0; round < 3; round++)
    for (int i = 0; i < STATEMENTS; i++) attempt(db, statements[i]);
  sql_ok(db, "PRAGMA max_page_count = 1000000");
  works_again(db);
  files_agree(db, "t");
  sql_close(db);
}
END_TEST

/* ---- Files may not be larger than that */

START_TEST(no_larger_files) {
  static const size_t sizes[] = {1, 100, 1 * KB, 4 * KB, 20 * KB, 60 * KB, 100 * KB};
  sqlite3 *db = sql_open(sql_path("app.db"));
  mounted = false;
  make_tables(db, journals[_i]);
  sql_ok(db, "PRAGMA synchronous = off");
  for (int i = 0; i < 40; i++) sql_ok(db, ROW);
  for (size_t size = 0; size < sizeof sizes / sizeof *sizes; size++) {
    limit_files(sizes[size]);
    for (int i = 0; i < STATEMENTS; i++) attempt(db, statements[i]);
    limit_files(0);
    same(db);
    works_again(db);
    files_agree(db, "t");
  }
  sql_close(db);
}
END_TEST

/* ---- A copy onto a full disk */

START_TEST(backup_onto_a_full_disk) {
  ck_assert_int_eq(mkdir(sql_path("copies"), 0700), 0);
  sqlite3 *db = sql_open(sql_path("app.db"));
  make_tables(db, "wal");
  for (int i = 0; i < 150; i++) sql_ok(db, ROW);
  char *sql = sqlite3_mprintf("SELECT * FROM colfam_backup(%Q)", sql_path("copies/copy.db"));
  for (size_t size = 4 * KB; size < 140 * KB; size += 32 * KB) {
    make_tight(sql_path("copies"), size, 3000 * KB);
    int rc = sqlite3_exec(db, sql, NULL, NULL, NULL);
    ck_assert_msg(is_full(rc), "%zu bytes: code %d: %s", size, rc, sqlite3_errmsg(db));
    ck_assert_ptr_nonnull(strstr(sqlite3_errmsg(db), "copy.db-"));
    ck_assert_int_eq(access(sql_path("copies/copy.db-colfam-partial"), F_OK), -1);
    ck_assert_int_eq(access(sql_path("copies/copy.db-colfam"), F_OK), -1);
    give_space(sql_path("copies"));
    sql_ok(db, sql);
    sqlite3 *copy = sql_open(sql_path("copies/copy.db"));
    same(copy);
    sql_close(copy);
    unlink(sql_path("copies/copy.db"));
    harness_remove_tree(sql_path("copies/copy.db-colfam"));
    end(sql_path("copies"));
  }
  sqlite3_free(sql);
  sql_close(db);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("disk full");
  TCase *tests = tcase_create("disk full");
  tcase_set_timeout(tests, 120);
  tcase_add_loop_test(tests, full_disk, 0, 2 * JOURNALS);
  tcase_add_loop_test(tests, full_disk_is_said_alike, 0, JOURNALS);
  tcase_add_loop_test(tests, full_disk_of_table_files, 0, 2 * JOURNALS);
  tcase_add_loop_test(tests, no_more_pages, 0, JOURNALS);
  tcase_add_loop_test(tests, no_larger_files, 0, JOURNALS);
  tcase_add_test(tests, backup_onto_a_full_disk);
  suite_add_tcase(suite, tests);
  return harness_run(suite);
}
