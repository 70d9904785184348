/* What is left of a colfam_backup that was killed: the next one to the same path removes it; but not what
** another one is making, nor anything that might be somebody's. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness_sql.h"
#include "harness_tree.h"

static sqlite3 *db;
static char *backup; /* the statement */

static void open_database(void) {
  db = sql_open(sql_path("app.db"));
  sql_ok(db, "PRAGMA journal_mode = wal; CREATE TABLE plain(k, v);"
             "CREATE VIRTUAL TABLE t USING colfam(k INT PRIMARY KEY, v, compression = none)");
  for (int i = 0; i < 3; i++)
    sql_okf(db,
            "WITH RECURSIVE n(k) AS (VALUES(%d) UNION ALL SELECT k + 1 FROM n LIMIT 300) INSERT "
            "INTO t SELECT k, printf('%%.*c', 3000, 'x') FROM n; INSERT INTO t(t) VALUES('flush')",
            i * 300);
  sql_ok(db, "INSERT INTO plain SELECT * FROM t; INSERT INTO t VALUES(-1, 'log')");
  backup = sqlite3_mprintf("SELECT phase FROM colfam_backup(%Q)", sql_path("copy.db"));
}

static void close_database(void) {
  sqlite3_free(backup);
  sql_close(db);
}

static sqlite3_stmt *go_to(sqlite3 *from, const char *phase) {
  sqlite3_stmt *statement;
  ck_assert_int_eq(sqlite3_prepare_v2(from, backup, -1, &statement, NULL), SQLITE_OK);
  do ck_assert_int_eq(sqlite3_step(statement), SQLITE_ROW);
  while (strcmp((const char *)sqlite3_column_text(statement, 0), phase) != 0);
  return statement;
}

static void end_well(pid_t child) {
  int status;
  ck_assert_int_eq(waitpid(child, &status, 0), child);
  ck_assert_int_eq(status, 0);
}

static void die_at(const char *phase) {
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    go_to(sql_open(sqlite3_db_filename(db, "main")), phase);
    _exit(0);
  }
  end_well(child);
}

static void copy_is_whole(void) {
  sqlite3 *copy = sql_open(sql_path("copy.db"));
  sql_rows(copy, "SELECT count(*), sum(length(v)) FROM t", "901|2700003");
  sql_rows(copy, "SELECT count(*) FROM plain", "900");
  sql_rows(copy, "SELECT * FROM colfam_check('t')", "");
  sql_close(copy);
  ck_assert_int_eq(access(sql_path("copy.db-colfam-partial"), F_OK), -1);
}

static void refused(int code, const char *text) {
  char *before = tree_lines(harness_dir(), "app.db");
  sql_fails(db, backup, code, text);
  tree_is(harness_dir(), "app.db", before);
}

START_TEST(next_one_removes_it) {
  static const char *const phases[] = {"files", "database"};
  die_at(phases[_i]);
  ck_assert_int_eq(access(sql_path("copy.db-colfam-partial"), F_OK), 0);
  sql_ok(db, backup);
  copy_is_whole();
}
END_TEST

START_TEST(other_paths_do_not) {
  die_at("database");
  char *left = tree_lines(sql_path("copy.db-colfam"), NULL);
  char *sql = sqlite3_mprintf("SELECT * FROM colfam_backup(%Q)", sql_path("copy"));
  sql_ok(db, sql);
  sqlite3_free(sql);
  tree_is(sql_path("copy.db-colfam"), NULL, left);
}
END_TEST

START_TEST(one_at_work_is_left_alone) {
  sqlite3_stmt *statement = go_to(db, "files");
  sqlite3 *other = sql_open(sql_path("app.db"));
  sql_fails(other, backup, SQLITE_BUSY, "another one is making ");
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    sql_fails(sql_open(sqlite3_db_filename(db, "main")), backup, SQLITE_BUSY, "another one");
    _exit(0);
  }
  end_well(child);
  while (sqlite3_step(statement) == SQLITE_ROW) continue;
  ck_assert_int_eq(sqlite3_finalize(statement), SQLITE_OK);
  copy_is_whole();
  sql_close(other);
}
END_TEST

static void put(const char *path, const char *text) {
  FILE *file = fopen(path, "w");
  ck_assert_ptr_nonnull(file);
  fputs(text, file);
  ck_assert_int_eq(fclose(file), 0);
}

START_TEST(what_may_be_somebodys_stays) {
  die_at("database");
  put(sql_path("copy.db-colfam/notes"), "notes");
  refused(SQLITE_ERROR, "copy.db-colfam is there already");
  ck_assert_int_eq(unlink(sql_path("copy.db-colfam/notes")), 0);
  put(sql_path("copy.db"), "a file of this name");
  refused(SQLITE_ERROR, "copy.db is there already");
  ck_assert_int_eq(unlink(sql_path("copy.db")), 0);
  ck_assert_int_eq(rename(sql_path("copy.db-colfam"), sql_path("moved")), 0);
  ck_assert_int_eq(symlink("moved", sql_path("copy.db-colfam")), 0);
  refused(SQLITE_ERROR, "copy.db-colfam is there already");
  ck_assert_int_eq(unlink(sql_path("copy.db-colfam")), 0);
  ck_assert_int_eq(rename(sql_path("moved"), sql_path("copy.db-colfam")), 0);
  put(sql_path("copy.db-colfam-partial"), "not what a backup makes");
  refused(SQLITE_ERROR, "copy.db-colfam is there already");
  ck_assert_int_eq(truncate(sql_path("copy.db-colfam-partial"), 0), 0);
  sql_ok(db, backup);
  copy_is_whole();
}
END_TEST

int main(void) {
  Suite *suite = suite_create("backup left");
  TCase *tests = tcase_create("backup left");
  tcase_set_timeout(tests, 60);
  tcase_add_checked_fixture(tests, open_database, close_database);
  tcase_add_loop_test(tests, next_one_removes_it, 0, 2);
  tcase_add_test(tests, other_paths_do_not);
  tcase_add_test(tests, one_at_work_is_left_alone);
  tcase_add_test(tests, what_may_be_somebodys_stays);
  suite_add_tcase(suite, tests);
  return harness_run(suite);
}
