/* PRAGMA integrity_check and quick_check on databases with colfam tables. Since 3.44 SQLite asks the tables
** themselves; older versions say ok, and colfam_check is there instead. */
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "harness_sql.h"

static sqlite3 *db;

static void open_database(void) {
  db = sql_open(sql_path("app.db"));
  sql_ok(db,
         "CREATE VIRTUAL TABLE t USING colfam(k INT PRIMARY KEY, v, compression = none);"
         "CREATE VIRTUAL TABLE \"odd \"\"name\" USING colfam(v);"
         "INSERT INTO t VALUES(1, 'a row of t'), (2, 'another'); INSERT INTO t(t) VALUES('flush');"
         "INSERT INTO t VALUES(3, 'in the log'); INSERT INTO \"odd \"\"name\" VALUES(1)");
}

static void close_database(void) {
  sql_close(db);
}

static void reopen(void) {
  close_database();
  db = sql_open(sql_path("app.db"));
}

/* A problem with this text on versions that ask, "ok" on others; NULL: nothing wrong. */
static void says(const char *pragma, const char *text) {
  bool asks = sqlite3_libversion_number() >= 3044000;
  char *answer = sql_query(db, pragma);
  if (!text || !asks)
    ck_assert_str_eq(answer, "ok");
  else
    ck_assert_msg(strstr(answer, text) != NULL, "%s: no '%s' in: %s", pragma, text, answer);
  sqlite3_free(answer);
}

static const char *table_file(void) {
  static char path[4096];
  char *id = sql_query(db, "SELECT id FROM colfam_files('t')");
  snprintf(path, sizeof path, "%s-colfam/%s.sst", sql_path("app.db"), id);
  sqlite3_free(id);
  return path;
}

START_TEST(sound_tables_are_ok) {
  says("PRAGMA integrity_check", NULL);
  says("PRAGMA quick_check", NULL);
  says("PRAGMA integrity_check(t)", NULL);
  says("PRAGMA main.quick_check(\"odd \"\"name\")", NULL);
  reopen();
  says("PRAGMA integrity_check", NULL);
  sql_ok(db, "BEGIN; DELETE FROM t");
  says("PRAGMA integrity_check", NULL);
  sql_ok(db, "ROLLBACK; VACUUM");
}
END_TEST

START_TEST(damaged_block_is_found_by_integrity_check_alone) {
  int file = open(table_file(), O_RDWR);
  ck_assert_int_ge(file, 0);
  char bytes[64];
  ck_assert_int_eq(pread(file, bytes, sizeof bytes, 0), (ssize_t)sizeof bytes);
  char *found = memmem(bytes, sizeof bytes, "a row of t", 10);
  ck_assert_ptr_nonnull(found);
  ck_assert_int_eq(pwrite(file, "x", 1, found - bytes), 1);
  close(file);
  reopen();
  says("PRAGMA quick_check", NULL);
  says("PRAGMA integrity_check", "colfam table main.t: table ");
  says("PRAGMA integrity_check", "bad checksum");
  says("PRAGMA integrity_check(1)", "bad checksum");
  says("PRAGMA integrity_check(\"odd \"\"name\")", NULL);
  sql_rows(db, "SELECT count(*) > 0 FROM colfam_check('t')", "1");
}
END_TEST

START_TEST(missing_file_is_found_by_both) {
  char path[4096];
  snprintf(path, sizeof path, "%s", table_file());
  ck_assert_int_eq(unlink(path), 0);
  reopen();
  says("PRAGMA quick_check", "colfam table main.t: ");
  says("PRAGMA integrity_check", "colfam table main.t: ");
}
END_TEST

START_TEST(damaged_shadow_tables_are_found_by_both) {
  sql_trust(db);
  sql_ok(db, "UPDATE t_cflog SET batch = x'00' WHERE seq = (SELECT max(seq) FROM t_cflog)");
  reopen();
  says("PRAGMA quick_check", "colfam table main.t: ");
  sql_ok(db, "DELETE FROM t_cfmeta WHERE name = 'uuid'");
  reopen();
  says("PRAGMA quick_check", "t_cfmeta: rows are missing");
  says("PRAGMA integrity_check", "t_cfmeta: rows are missing");
  sql_ok(db, "DROP TABLE t");
  says("PRAGMA integrity_check", NULL);
}
END_TEST

START_TEST(many_problems_are_one_text_with_an_end) {
  sql_trust(db);
  sql_ok(db, "WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n WHERE i < 150)"
             "INSERT INTO t_cffile SELECT i, 0, 1, x'00', x'01', 10, 1, 0, 1 FROM n");
  reopen();
  says("PRAGMA integrity_check", "colfam table main.t: ");
}
END_TEST

static int stop(void *unused) {
  (void)unused;
  return 1;
}

START_TEST(interrupt_ends_it) {
  sqlite3_progress_handler(db, 1, stop, NULL);
  sql_fails(db, "PRAGMA integrity_check", SQLITE_INTERRUPT, NULL);
  sqlite3_progress_handler(db, 0, NULL, NULL);
  says("PRAGMA integrity_check", NULL);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("sql_integrity");
  TCase *tc = tcase_create("sql_integrity");
  tcase_add_checked_fixture(tc, open_database, close_database);
  tcase_add_test(tc, sound_tables_are_ok);
  tcase_add_test(tc, damaged_block_is_found_by_integrity_check_alone);
  tcase_add_test(tc, missing_file_is_found_by_both);
  tcase_add_test(tc, damaged_shadow_tables_are_found_by_both);
  tcase_add_test(tc, many_problems_are_one_text_with_an_end);
  tcase_add_test(tc, interrupt_ends_it);
  suite_add_tcase(suite, tc);
  return harness_run(suite);
}
