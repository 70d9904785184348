/* What lies beside a database and in its directory of table files, put there by others: links, FIFOs,
** sockets, devices, directories, names like those of table files. Nothing outside of the directory is
** touched, whatever is done to the database; nothing is followed or waited for; what is in the way is an
** error that names it, on which an ordinary table in the same database goes on; and all is well when it is
** away. */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "harness_files.h"
#include "harness_sql.h"
#include "harness_tree.h"

#define DATA "app.db-colfam"

static void put(const char *path, const char *text) {
  FILE *file = fopen(path, "w");
  ck_assert_ptr_nonnull(file);
  fputs(text, file);
  ck_assert_int_eq(fclose(file), 0);
}

static void make_database(const char *name) {
  sqlite3 *db = sql_open(sql_path(name));
  sql_ok(db, "CREATE TABLE o(k INT PRIMARY KEY, v) WITHOUT ROWID;"
             "CREATE VIRTUAL TABLE t USING colfam(k INT PRIMARY KEY, v);"
             "INSERT INTO o VALUES(1, 'a'), (2, 'b'); INSERT INTO t SELECT * FROM o;"
             "INSERT INTO t(t) VALUES('flush')");
  sql_close(db);
}

/* All that changes files. */
static void live(const char *name) {
  sqlite3 *db = sql_open(sql_path(name));
  sql_ok(
      db,
      "INSERT OR REPLACE INTO t VALUES(3, 'c'); INSERT INTO t(t) VALUES('flush');"
      "INSERT INTO t VALUES(4, 'd'); INSERT INTO t(t) VALUES('compact');"
      "BEGIN; INSERT INTO t VALUES(5, 'e'); INSERT INTO t(t) VALUES('flush'); ROLLBACK;"
      "CREATE VIRTUAL TABLE u USING colfam(k INT PRIMARY KEY, v); INSERT INTO u VALUES(1, 1);"
      "INSERT INTO u(u) VALUES('flush'); DROP TABLE u; VACUUM;"
      "PRAGMA journal_mode = wal; INSERT INTO t VALUES(5, 'e'); INSERT INTO t(t) VALUES('flush');"
      "DELETE FROM t WHERE k = 5; INSERT INTO t(t) VALUES('compact');"
      "PRAGMA wal_checkpoint; UPDATE t SET v = v");
  sql_rows(db, "SELECT count(*) FROM t", "4");
  sql_rows(db, "SELECT * FROM colfam_check('t')", "");
  sql_ok(db, "PRAGMA journal_mode = delete; DELETE FROM t WHERE k > 2");
  sql_close(db);
}

/* ---- Beside the database */

START_TEST(nothing_beside_is_touched) {
  make_database("app.db");
  make_database("victim.db");
  make_database("app.dbx");
  put(sql_path("0123456789abcde0.sst"), "not a table");
  put(sql_path("0123456789abcde0.sst.new"), "not a table");
  put(sql_path("notes"), "notes");
  ck_assert_int_eq(mkdir(sql_path("-colfam"), 0700), 0);
  ck_assert_int_eq(mkfifo(sql_path("fifo.sst"), 0600), 0);
  ck_assert_int_eq(symlink("notes", sql_path("0123456789abcde1.sst")), 0);
  ck_assert_int_eq(symlink("/nowhere/at/all", sql_path("dangling")), 0);
  ck_assert_int_eq(mkdir(sql_path("other"), 0700), 0);
  char *parent = tree_lines(harness_dir(), "app.db");
  char *like_named = tree_lines(sql_path("app.dbx-colfam"), NULL);
  live("app.db");
  sqlite3 *db = sql_open(sql_path("app.db"));
  sql_ok(db, "DROP TABLE t");
  sql_close(db);
  ck_assert_int_eq(access(sql_path(DATA), F_OK), -1);
  tree_is(harness_dir(), "app.db", parent);
  tree_is(sql_path("app.dbx-colfam"), NULL, like_named);
}
END_TEST

/* ---- In its directory */

static void make_device(const char *path, int minor) {
  if (mknod(path, S_IFCHR | 0600, makedev(1, minor)) == 0) return;
  ck_assert_int_eq(errno, EPERM);
  printf("devices cannot be made here: a link to one instead\n");
  ck_assert_int_eq(symlink(minor == 3 ? "/dev/null" : "/dev/zero", path), 0);
}

enum { KINDS = 9 };

static void put_strange(const char *path, int kind) {
  char inside[4200];
  snprintf(inside, sizeof inside, "%s/kept", path);
  switch (kind) {
    case 0:
      ck_assert_int_eq(mkfifo(path, 0600), 0);
      break;
    case 1:
      ck_assert_int_eq(mknod(path, S_IFSOCK | 0600, 0), 0);
      break;
    case 2:
      ck_assert_int_eq(mkdir(path, 0700), 0);
      put(inside, "kept");
      break;
    case 3:
      ck_assert_int_eq(symlink(sql_path("notes"), path), 0);
      break;
    case 4:
      ck_assert_int_eq(symlink("/nowhere/at/all", path), 0);
      break;
    case 5:
      ck_assert_int_eq(symlink(".", path), 0);
      break;
    case 6:
      make_device(path, 3);
      break;
    case 7:
      make_device(path, 5);
      break;
    default:
      ck_assert_int_eq(symlink(sql_path("elsewhere.sst"), path), 0);
  }
}

/* Names that the sweep takes for table files that nobody names, and others. */
START_TEST(strange_entries_stay_and_hurt_nobody) {
  static const char *const names[] = {"0123456789abcde%d.sst", "0123456789abcde%d.sst.new",
                                      "0123456789ABCDE%d.sst", "strange%d"};
  make_database("app.db");
  put(sql_path("notes"), "notes");
  put(sql_path("elsewhere.sst"), "not a table");
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    for (int kind = 0; kind < KINDS; kind++) {
      char path[4200], name[64];
      snprintf(name, sizeof name, names[i], kind);
      snprintf(path, sizeof path, "%s/%s", sql_path(DATA), name);
      put_strange(path, kind);
    }
  }
  char *parent = tree_lines(harness_dir(), "app.db");
  int before = files_on_disk(sql_path("app.db"));
  live("app.db");
  ck_assert_int_eq(files_on_disk(sql_path("app.db")), before);
  tree_is(harness_dir(), "app.db", parent);
}
END_TEST

/* An outside file under a second name in the directory: the name may go, the file stays as it is. */
START_TEST(linked_file_loses_a_name_at_most) {
  make_database("app.db");
  put(sql_path("notes"), "notes");
  ck_assert_int_eq(link(sql_path("notes"), sql_path(DATA "/0123456789abcde0.sst")), 0);
  ck_assert_int_eq(link(sql_path("notes"), sql_path(DATA "/0123456789abcde1.sst.new")), 0);
  char *parent = tree_lines(harness_dir(), "app.db");
  live("app.db");
  tree_is(harness_dir(), "app.db", parent);
}
END_TEST

static void only_file(const char *database, char *path, size_t size) {
  sqlite3 *db = sql_open(sql_path(database));
  char *id = sql_query(db, "SELECT id FROM colfam_files('t')");
  snprintf(path, size, "%s-colfam/%s.sst", sql_path(database), id);
  sqlite3_free(id);
  sql_close(db);
}

START_TEST(strange_entry_in_a_files_place_is_an_error_that_names_it) {
  char path[4200], away[4210], *name;
  make_database("app.db");
  put(sql_path("notes"), "notes");
  only_file("app.db", path, sizeof path);
  name = strrchr(path, '/') + 1;
  /* A link to the very file, outside, is not followed either. */
  snprintf(away, sizeof away, "%s", sql_path("elsewhere.sst"));
  ck_assert_int_eq(rename(path, away), 0);
  put_strange(path, _i);
  sqlite3 *db = sql_open(sql_path("app.db"));
  ck_assert_int_ne(sqlite3_exec(db, "SELECT v FROM t WHERE k = 1", NULL, NULL, NULL), SQLITE_OK);
  ck_assert_msg(strstr(sqlite3_errmsg(db), name) != NULL, "%s", sqlite3_errmsg(db));
  ck_assert_int_ne(sqlite3_exec(db, "INSERT INTO t VALUES(1, 'x')", NULL, NULL, NULL), SQLITE_OK);
  ck_assert_int_gt(sql_int(db, "SELECT count(*) FROM colfam_check('t')"), 0);
  sql_ok(db, "INSERT INTO o VALUES(3, 'c')");
  harness_remove_tree(path);
  ck_assert_int_eq(rename(away, path), 0);
  sql_rows(db, "SELECT group_concat(v) FROM t", "a,b");
  sql_rows(db, "SELECT * FROM colfam_check('t')", "");
  sql_ok(db, "INSERT INTO t(t) VALUES('compact')");
  sql_close(db);
}
END_TEST

/* ---- The directory itself */

/* A link to a directory that holds the very files: neither read nor written through. */
START_TEST(directory_behind_a_link_is_refused) {
  make_database("app.db");
  ck_assert_int_eq(rename(sql_path(DATA), sql_path("moved")), 0);
  ck_assert_int_eq(symlink("moved", sql_path(DATA)), 0);
  char *moved = tree_lines(sql_path("moved"), NULL);
  char *copy = sqlite3_mprintf("SELECT * FROM colfam_backup(%Q)", sql_path("copy.db"));
  const char *const statements[] = {"SELECT * FROM t",
                                    "SELECT v FROM t WHERE k = 1",
                                    "INSERT INTO t VALUES(1, 'x')",
                                    "INSERT INTO t(t) VALUES('flush')",
                                    "INSERT INTO t(t) VALUES('compact')",
                                    copy};
  sqlite3 *db = sql_open(sql_path("app.db"));
  sql_ok(db, "INSERT OR REPLACE INTO t VALUES(9, 'z')"); /* which reads nothing */
  for (size_t i = 0; i < sizeof statements / sizeof *statements; i++)
    sql_fails(db, statements[i], SQLITE_CANTOPEN, DATA " is a symbolic link");
  sqlite3_free(copy);
  sql_ok(db, "INSERT INTO o VALUES(3, 'c')");
  tree_is(sql_path("moved"), NULL, moved);
  ck_assert_int_eq(unlink(sql_path(DATA)), 0);
  ck_assert_int_eq(rename(sql_path("moved"), sql_path(DATA)), 0);
  sql_rows(db, "SELECT group_concat(v) FROM t", "a,b,z");
  sql_ok(db, "INSERT INTO t(t) VALUES('compact')");
  files_agree(db, "t");
  sql_close(db);
}
END_TEST

static void copy_file(const char *from, const char *to) {
  char bytes[65536];
  FILE *in = fopen(from, "r"), *out = fopen(to, "w");
  ck_assert(in && out);
  size_t size = fread(bytes, 1, sizeof bytes, in);
  ck_assert_int_eq(fwrite(bytes, 1, size, out), size);
  ck_assert(feof(in));
  fclose(in);
  ck_assert_int_eq(fclose(out), 0);
}

/* A copy of the database file alone, whose directory leads to that of the original, names its very files. */
START_TEST(files_of_another_database_survive_a_drop) {
  make_database("victim.db");
  copy_file(sql_path("victim.db"), sql_path("app.db"));
  char *victim = tree_lines(harness_dir(), "app.db");
  ck_assert_int_eq(symlink("victim.db-colfam", sql_path(DATA)), 0);
  sqlite3 *db = sql_open(sql_path("app.db"));
  sql_fails(db, "SELECT * FROM t", SQLITE_CANTOPEN, "symbolic link");
  sql_ok(db, "DROP TABLE t; CREATE VIRTUAL TABLE u USING colfam(k PRIMARY KEY);"
             "INSERT INTO u VALUES(1); INSERT INTO u VALUES(2)");
  sql_fails(db, "INSERT INTO u(u) VALUES('flush')", SQLITE_CANTOPEN, "symbolic link");
  sql_rows(db, "SELECT group_concat(k) FROM u", "1,2");
  sql_close(db);
  tree_is(harness_dir(), "app.db", victim);
}
END_TEST

/* Commits go on as long as the log holds them; then they wait for the directory. */
START_TEST(what_is_in_the_directorys_place_stops_flushes_only) {
  sqlite3 *db = sql_open(sql_path("app.db"));
  put(sql_path("notes"), "notes");
  sql_ok(db, "CREATE TABLE o(k INT PRIMARY KEY, v) WITHOUT ROWID;"
             "CREATE VIRTUAL TABLE t USING colfam(k INT PRIMARY KEY, v, memtable_bytes = 16384)");
  put_strange(sql_path(DATA), _i);
  char *parent = tree_lines(harness_dir(), "app.db");
  int kept = 0, rc = SQLITE_OK;
  while (rc == SQLITE_OK && kept < 100) {
    rc = sqlite3_exec(db, "INSERT INTO t SELECT count(*), hex(randomblob(1000)) FROM t", NULL, NULL,
                      NULL);
    kept += rc == SQLITE_OK;
  }
  bool is_directory = _i == 2;
  if (is_directory) {
    ck_assert_int_eq(rc, SQLITE_OK);
  } else {
    ck_assert_msg(rc == SQLITE_CANTOPEN || rc == SQLITE_IOERR, "code %d after %d", rc, kept);
    ck_assert_ptr_nonnull(strstr(sqlite3_errmsg(db), DATA));
    ck_assert_int_gt(kept, 8);
    ck_assert_int_eq(sql_int(db, "SELECT count(v) FROM t"), kept);
    sql_ok(db, "INSERT INTO o VALUES(1, 'a')");
    harness_remove_tree(sql_path(DATA));
  }
  sql_ok(db, "INSERT INTO t VALUES(-1, 'works')");
  ck_assert_int_eq(sql_int(db, "SELECT count(v) FROM t"), kept + 1);
  sql_close(db);
  tree_is(harness_dir(), "app.db", parent);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("strange files");
  TCase *tests = tcase_create("strange files");
  tcase_set_timeout(tests, 60);
  tcase_add_test(tests, nothing_beside_is_touched);
  tcase_add_test(tests, strange_entries_stay_and_hurt_nobody);
  tcase_add_test(tests, linked_file_loses_a_name_at_most);
  tcase_add_loop_test(tests, strange_entry_in_a_files_place_is_an_error_that_names_it, 0, KINDS);
  tcase_add_test(tests, directory_behind_a_link_is_refused);
  tcase_add_test(tests, files_of_another_database_survive_a_drop);
  tcase_add_loop_test(tests, what_is_in_the_directorys_place_stops_flushes_only, 0, KINDS);
  suite_add_tcase(suite, tests);
  return harness_run(suite);
}
