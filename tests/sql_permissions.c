/* What permissions forbid is SQLite's error, the same as for an ordinary table, or one that names the
** file, as soon as it is needed and not before; it does not undo the transaction. Reading works wherever
** it does in an ordinary table; a connection that only reads makes, changes and removes nothing; with the
** permission back all works on. What root makes beside somebody's database is that somebody's. The tests
** set the scene as root and act as another user by changing the effective one. Who is not root acts as
** himself on what nobody may touch; only what needs two users is left out then, which is said. */
#include <fcntl.h>
#include <grp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness_files.h"
#include "harness_mount.h"
#include "harness_sql.h"
#include "harness_tree.h"

#define DATA "app.db-colfam"
enum { NOBODY = 65534, ANNE = 54321, BEN = 54322, SHARED_GROUP = 54400 };

static void become(uid_t user) {
  const gid_t group = SHARED_GROUP;
  if (getuid() != 0) return;
  ck_assert_int_eq(seteuid(0), 0);
  ck_assert_int_eq(setgroups(user != 0, &group), 0);
  ck_assert_int_eq(setegid(user), 0);
  ck_assert_int_eq(seteuid(user), 0);
}

static void allow(const char *name, mode_t mode) {
  ck_assert_int_eq(chmod(*name ? sql_path(name) : harness_dir(), mode), 0);
}

/* A file of two rows and one in the log; everybody may do everything. */
static void make_database(const char *journal) {
  umask(0);
  allow("", 0777);
  sqlite3 *db = sql_open(sql_path("app.db"));
  sql_okf(db, "PRAGMA journal_mode = %s", journal);
  sql_ok(db, "CREATE TABLE o(k INT PRIMARY KEY, v) WITHOUT ROWID;"
             "CREATE VIRTUAL TABLE t USING colfam(k INT PRIMARY KEY, v);"
             "INSERT INTO o VALUES(1, 'a'), (2, 'b'); INSERT INTO t SELECT * FROM o;"
             "INSERT INTO t(t) VALUES('flush'); INSERT INTO o VALUES(3, 'c');"
             "INSERT INTO t VALUES(3, 'c')");
  sql_close(db);
  allow("app.db", 0666);
  allow(DATA, 0777);
}

static sqlite3 *open_as(uid_t user) {
  become(user);
  return sql_open(sql_path("app.db"));
}

static void end(sqlite3 *db) {
  sql_close(db);
  become(0);
}

static void table_file(char *path, size_t size) {
  sqlite3 *db = sql_open(sql_path("app.db"));
  char *id = sql_query(db, "SELECT id FROM colfam_files('t')");
  snprintf(path, size, "%s/%s.sst", sql_path(DATA), id);
  sqlite3_free(id);
  sql_close(db);
}

static int code(sqlite3 *db, const char *format, const char *table) {
  char *sql = sqlite3_mprintf(format, table);
  sqlite3_exec(db, sql, NULL, NULL, NULL);
  int rc = sqlite3_extended_errcode(db);
  sqlite3_free(sql);
  return rc;
}

/* Fails on both tables with the same code. */
static int fails_alike(sqlite3 *db, const char *format) {
  int ordinary = code(db, format, "o"), colfam = code(db, format, "t");
  ck_assert_int_ne(ordinary, SQLITE_OK);
  ck_assert_msg(ordinary == colfam, "%s: ordinary %d, colfam %d: %s", format, ordinary, colfam,
                sqlite3_errmsg(db));
  return ordinary;
}

static void nothing_can_be_written(sqlite3 *db) {
  static const char *const writes[] = {
      "INSERT INTO %s VALUES(7, 'x')",  "INSERT OR REPLACE INTO %s VALUES(1, 'x')",
      "UPDATE %s SET v = 'x'",          "DELETE FROM %s",
      "ALTER TABLE %s RENAME TO other", "DROP TABLE %s"};
  for (size_t i = 0; i < sizeof writes / sizeof *writes; i++) fails_alike(db, writes[i]);
  ck_assert_int_ne(code(db, "INSERT INTO %s(t) VALUES('flush')", "t"), SQLITE_OK);
  ck_assert_int_ne(code(db, "INSERT INTO %s(t) VALUES('compact')", "t"), SQLITE_OK);
  ck_assert_int_ne(code(db, "CREATE VIRTUAL TABLE %s USING colfam(k PRIMARY KEY)", "u"), SQLITE_OK);
}

static void all_can_be_read(sqlite3 *db) {
  sql_same(db, "SELECT k, v FROM t", "SELECT k, v FROM o");
  sql_rows(db, "SELECT v FROM t WHERE k IN (1, 3, 5)", "a\nc");
  sql_rows(db, "SELECT count(*) FROM t", "3");
  sql_rows(db, "SELECT * FROM colfam_check('t')", "");
  sql_rows(db, "SELECT count(*) > 0 FROM colfam_files('t')", "1");
}

static void all_works(void) {
  sqlite3 *db = open_as(NOBODY);
  sql_ok(db, "INSERT INTO t VALUES(100, 'new'); INSERT INTO t(t) VALUES('compact');"
             "DELETE FROM t WHERE k >= 100; INSERT INTO t(t) VALUES('flush');"
             "UPDATE t SET v = v WHERE k = 1");
  all_can_be_read(db);
  end(db);
  db = open_as(NOBODY); /* no merge is under way any more */
  files_agree(db, "t");
  end(db);
}

static const char *const journals[] = {"delete", "wal"};

/* ---- Reading */

START_TEST(database_that_may_only_be_read) {
  make_database(journals[_i]);
  allow("app.db", 0444);
  allow(DATA, 0555);
  allow("", _i ? 0777 : 0555); /* in WAL mode readers make a file beside it */
  char *data = tree_lines(sql_path(DATA), NULL);
  sqlite3 *db = open_as(NOBODY);
  all_can_be_read(db);
  nothing_can_be_written(db);
  all_can_be_read(db);
  end(db);
  tree_is(sql_path(DATA), NULL, data);
  allow("", 0777), allow("app.db", 0666), allow(DATA, 0777);
  unlink(sql_path("app.db-shm")); /* with the mode that the database had */
  unlink(sql_path("app.db-wal"));
  all_works();
}
END_TEST

/* An orphan, a log with rows, work by command: none of it is the business of one who only reads. (What
** colfam_flush computes on a connection that is only told to read may be published by another.) */
START_TEST(connection_that_only_reads_touches_nothing) {
  static const char *const ways[] = {"?mode=ro", "?mode=rw"};
  make_database(journals[_i / 2]);
  fclose(fopen(sql_path(DATA "/0123456789abcde0.sst"), "w"));
  sql_use_threads(1);
  sqlite3 *writer = sql_open(sql_path("app.db")); /* keeps the files of WAL mode there */
  sql_rows(writer, "SELECT count(*) FROM o", "3");
  char *parent = tree_lines(harness_dir(), "app.db-shm");
  char *uri = sqlite3_mprintf("file:%s%s", sql_path("app.db"), ways[_i % 2]);
  sqlite3 *db = sql_open(uri);
  sqlite3_free(uri);
  if (_i % 2) sql_ok(db, "PRAGMA query_only = on");
  all_can_be_read(db);
  nothing_can_be_written(db);
  if (_i % 2 == 0) {
    sql_fails(db, "SELECT * FROM colfam_flush('t')", SQLITE_READONLY, "cannot be written to");
    sql_fails(db, "SELECT * FROM colfam_compact('t')", SQLITE_READONLY, "cannot be written to");
  }
  all_can_be_read(db);
  sql_close(db);
  tree_is(harness_dir(), "app.db-shm", parent);
  sql_close(writer);
}
END_TEST

START_TEST(table_file_that_may_not_be_read) {
  char path[4200];
  make_database(journals[_i]);
  table_file(path, sizeof path);
  ck_assert_int_eq(chmod(path, 0), 0);
  sqlite3 *db = open_as(NOBODY);
  sql_fails(db, "SELECT * FROM t", SQLITE_CANTOPEN, "Permission denied");
  sql_fails(db, "SELECT v FROM t WHERE k = 1", SQLITE_CANTOPEN, strrchr(path, '/'));
  sql_rows(db, "SELECT v FROM t WHERE k = 3", "c");
  ck_assert_int_gt(sql_int(db, "SELECT count(*) FROM colfam_check('t')"), 0);
  sql_ok(db, "BEGIN; INSERT INTO o VALUES(4, 'd')");
  sql_fails(db, "INSERT INTO t VALUES(1, 'd')", SQLITE_CANTOPEN, NULL);
  sql_fails(db, "INSERT INTO t(t) VALUES('compact')", SQLITE_CANTOPEN, NULL);
  sql_ok(db, "DELETE FROM o WHERE k = 4; COMMIT");
  become(0);
  ck_assert_int_eq(chmod(path, 0666), 0);
  become(NOBODY);
  all_can_be_read(db);
  end(db);
  all_works();
}
END_TEST

/* ---- Writing */

/* The statement that is refused undoes nothing else; a COMMIT that must flush is rolled back, as SQLite
** does when it cannot write. */
START_TEST(directory_that_may_only_be_read) {
  make_database(journals[_i]);
  allow(DATA, 0555);
  sqlite3 *db = open_as(NOBODY);
  sql_ok(db, "BEGIN; INSERT INTO o VALUES(4, 'd')");
  sql_fails(db, "INSERT INTO t(t) VALUES('flush')", SQLITE_CANTOPEN, "Permission denied");
  ck_assert_int_eq(sqlite3_get_autocommit(db), 0);
  sql_ok(db, "INSERT INTO t VALUES(4, 'd'); COMMIT");
  sql_ok(db, "BEGIN; INSERT INTO o VALUES(5, 'e'); INSERT INTO t VALUES(5, 'e');"
             "INSERT INTO t(t) VALUES('flush')");
  sql_fails(db, "COMMIT", SQLITE_CANTOPEN, "Permission denied");
  ck_assert_int_ne(sqlite3_get_autocommit(db), 0);
  become(0);
  allow(DATA, 0777);
  become(NOBODY);
  sql_ok(db, "INSERT INTO t(t) VALUES('flush')");
  sql_rows(db, "SELECT group_concat(v) FROM o", "a,b,c,d");
  sql_rows(db, "SELECT group_concat(v) FROM t", "a,b,c,d");
  sql_ok(db, "DELETE FROM o WHERE k = 4; DELETE FROM t WHERE k = 4");
  end(db);
  all_works();
}
END_TEST

START_TEST(directory_that_may_not_even_be_searched) {
  make_database(journals[_i]);
  allow(DATA, 0);
  sqlite3 *db = open_as(NOBODY);
  sql_fails(db, "SELECT * FROM t", SQLITE_CANTOPEN, "Permission denied");
  sql_rows(db, "SELECT v FROM t WHERE k = 3", "c");
  sql_ok(db, "DROP TABLE t; CREATE VIRTUAL TABLE t USING colfam(k INT PRIMARY KEY, v);"
             "INSERT INTO t SELECT * FROM o");
  sql_same(db, "SELECT * FROM t", "SELECT * FROM o");
  end(db);
  allow(DATA, 0777);
  all_works();
}
END_TEST

static void fill_until_refused(sqlite3 *db, const char *text) {
  int rc = SQLITE_OK, rows = 0;
  for (; rc == SQLITE_OK && rows < 100; rows++)
    rc = code(db, "INSERT INTO %s SELECT count(*), hex(randomblob(1000)) FROM u", "u");
  ck_assert_int_eq(rc, SQLITE_CANTOPEN);
  ck_assert_msg(strstr(sqlite3_errmsg(db), text) != NULL, "%s", sqlite3_errmsg(db));
  ck_assert_int_eq(sql_int(db, "SELECT count(v) FROM u"), rows - 1);
}

START_TEST(log_that_cannot_be_flushed_stops_at_its_limit) {
  make_database(journals[_i]);
  allow(DATA, 0555);
  sqlite3 *db = open_as(NOBODY);
  sql_ok(db, "CREATE VIRTUAL TABLE u USING colfam(k INT PRIMARY KEY, v, memtable_bytes = 16384)");
  fill_until_refused(db, "Permission denied");
  sql_ok(db, "INSERT INTO o VALUES(4, 'd'); DELETE FROM o WHERE k = 4");
  become(0);
  allow(DATA, 0777);
  become(NOBODY);
  sqlite3_int64 rows = sql_int(db, "SELECT count(*) FROM u");
  sql_ok(db, "INSERT INTO u VALUES(-1, 'on')");
  ck_assert_int_eq(sql_int(db, "SELECT count(v) FROM u"), rows + 1);
  sql_ok(db, "DROP TABLE u; INSERT INTO t VALUES(4, 'd'); DELETE FROM t WHERE k = 4");
  end(db);
  all_works();
}
END_TEST

START_TEST(directory_around_that_may_only_be_read) {
  make_database(journals[_i]);
  allow("", 0555);
  char *parent = tree_lines(harness_dir(), DATA);
  sqlite3 *db = open_as(NOBODY);
  nothing_can_be_written(db);
  end(db);
  tree_is(harness_dir(), DATA, parent);
  allow("", 0777);
  all_works();
}
END_TEST

/* ---- File systems */

START_TEST(directory_on_a_file_system_that_is_read_only) {
  make_database("delete");
  if (!mount_read_only(sql_path(DATA))) return;
  sqlite3 *db = sql_open(sql_path("app.db"));
  all_can_be_read(db);
  sql_fails(db, "INSERT INTO t(t) VALUES('flush')", SQLITE_CANTOPEN, "Read-only file system");
  sql_ok(db, "INSERT INTO t VALUES(4, 'd'); DELETE FROM t WHERE k = 4");
  mount_end(sql_path(DATA));
  sql_close(db);
  all_works();
}
END_TEST

START_TEST(all_on_a_file_system_that_is_read_only) {
  make_database("delete");
  if (!mount_read_only(harness_dir())) return;
  sqlite3 *db = sql_open(sql_path("app.db"));
  all_can_be_read(db);
  nothing_can_be_written(db);
  all_can_be_read(db);
  sql_close(db);
  mount_end(harness_dir());
  all_works();
}
END_TEST

/* ---- Two users */

static bool is_root(void) {
  if (getuid() == 0) return true;
  printf("not root: two users cannot be shown\n");
  return false;
}

static void owner_is(const char *path, uid_t user, gid_t group, mode_t mode) {
  struct stat info;
  ck_assert_int_eq(stat(path, &info), 0);
  ck_assert_int_eq(info.st_uid, user);
  ck_assert_int_eq(info.st_gid, group);
  ck_assert_int_eq(info.st_mode & 07777, mode);
}

/* A private database, on which root does some work. */
START_TEST(what_root_makes_is_the_owners) {
  char path[4200];
  if (!is_root()) return;
  allow("", 0777);
  umask(022);
  sqlite3 *db = open_as(NOBODY);
  sql_ok(db, "CREATE TABLE o(k INT PRIMARY KEY, v) WITHOUT ROWID");
  end(db);
  allow("app.db", 0600);
  db = sql_open(sql_path("app.db"));
  sql_okf(db, "PRAGMA journal_mode = %s", journals[_i]);
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(k INT PRIMARY KEY, v);"
             "INSERT INTO o VALUES(1, 'a'), (2, 'b'), (3, 'c'); INSERT INTO t SELECT * FROM o;"
             "INSERT INTO t(t) VALUES('flush')");
  sql_close(db);
  table_file(path, sizeof path);
  owner_is(path, NOBODY, NOBODY, 0600);
  owner_is(sql_path(DATA), NOBODY, NOBODY, 0700);
  all_works();
}
END_TEST

/* Two users of one group, in a directory whose files are the group's. */
START_TEST(group_shares_a_database) {
  char path[4200];
  if (!is_root()) return;
  umask(002);
  ck_assert_int_eq(chown(harness_dir(), ANNE, SHARED_GROUP), 0);
  allow("", 02770);
  sqlite3 *db = open_as(ANNE);
  sql_okf(db, "PRAGMA journal_mode = %s", journals[_i]);
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(k INT PRIMARY KEY, v)");
  become(0);
  allow("app.db", 0660);
  become(ANNE);
  sql_ok(db, "INSERT INTO t VALUES(1, 'a'); INSERT INTO t(t) VALUES('flush')");
  end(db);
  db = open_as(BEN);
  sql_rows(db, "SELECT v FROM t", "a");
  sql_ok(db, "INSERT INTO t VALUES(2, 'b'); INSERT INTO t(t) VALUES('compact');"
             "UPDATE t SET v = v WHERE k = 1");
  end(db);
  db = open_as(ANNE);
  sql_rows(db, "SELECT group_concat(v) FROM t", "a,b");
  sql_ok(db, "INSERT INTO t(t) VALUES('compact'); UPDATE t SET v = v WHERE k = 1");
  files_agree(db, "t");
  end(db);
  table_file(path, sizeof path);
  owner_is(path, ANNE, SHARED_GROUP, 0660);
  owner_is(sql_path(DATA), ANNE, SHARED_GROUP, 02770);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("permissions");
  TCase *tests = tcase_create("permissions");
  tcase_set_timeout(tests, 60);
  tcase_add_loop_test(tests, database_that_may_only_be_read, 0, 2);
  tcase_add_loop_test(tests, connection_that_only_reads_touches_nothing, 0, 4);
  tcase_add_loop_test(tests, table_file_that_may_not_be_read, 0, 2);
  tcase_add_loop_test(tests, directory_that_may_only_be_read, 0, 2);
  tcase_add_loop_test(tests, directory_that_may_not_even_be_searched, 0, 2);
  tcase_add_loop_test(tests, log_that_cannot_be_flushed_stops_at_its_limit, 0, 2);
  tcase_add_loop_test(tests, directory_around_that_may_only_be_read, 0, 2);
  tcase_add_test(tests, directory_on_a_file_system_that_is_read_only);
  tcase_add_test(tests, all_on_a_file_system_that_is_read_only);
  tcase_add_loop_test(tests, what_root_makes_is_the_owners, 0, 2);
  tcase_add_loop_test(tests, group_shares_a_database, 0, 2);
  suite_add_tcase(suite, tests);
  return harness_run(suite);
}
