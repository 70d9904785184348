/* Format versions: a store of a newer format is refused, or read and not written, as its own rows say; DROP
** works on all of them. */
#include "harness_sql.h"

static sqlite3 *db;

static void reopen(const char *statement) {
  sql_trust(db);
  sql_ok(db, statement);
  sql_close(db);
  db = sql_open(sql_path("format.db"));
}

static void setup(void) {
  db = sql_open(sql_path("format.db"));
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(k PRIMARY KEY, v);"
             "CREATE VIRTUAL TABLE other USING colfam(k PRIMARY KEY, v);"
             "INSERT INTO t VALUES(1, 2); INSERT INTO other VALUES(3, 4);");
}

static void teardown(void) {
  sql_close(db);
}

START_TEST(newer_lowest_reader_is_refused) {
  reopen("UPDATE t_cfmeta SET value = 4 WHERE name = 'lowest_reader'");
  sql_fails(db, "SELECT * FROM t", SQLITE_ERROR, "table t: written by a newer colfam (format 4");
  sql_fails(db, "INSERT INTO t VALUES(5, 6)", SQLITE_ERROR, "written by a newer colfam");
  sql_rows(db, "SELECT * FROM other", "3|4");
  sql_ok(db, "DROP TABLE t");
}
END_TEST

START_TEST(newer_lowest_writer_is_read_only) {
  reopen("UPDATE t_cfmeta SET value = 4 WHERE name = 'lowest_writer'");
  sql_rows(db, "SELECT * FROM t", "1|2");
  sql_fails(db, "INSERT INTO t VALUES(5, 6)", SQLITE_READONLY, "may read it, not write it");
  sql_fails(db, "DELETE FROM t", SQLITE_READONLY, "may read it, not write it");
  sql_fails(db, "INSERT INTO t(t) VALUES('flush')", SQLITE_READONLY, "may read it, not write it");
  sql_rows(db, "SELECT * FROM t", "1|2");
  sql_ok(db, "INSERT INTO other VALUES(5, 6)");
  sql_ok(db, "DROP TABLE t");
}
END_TEST

START_TEST(missing_version_is_damage) {
  reopen("DELETE FROM t_cfmeta WHERE name = 'lowest_writer'");
  sql_fails(db, "SELECT * FROM t", SQLITE_CORRUPT_VTAB, "t_cfmeta: rows are missing");
  sql_ok(db, "DROP TABLE t");
}
END_TEST

START_TEST(rows_of_a_later_version_are_left_alone) {
  reopen("INSERT INTO t_cfmeta VALUES('something_new', 'x'), ('option.something_new', 'y')");
  sql_ok(db, "INSERT INTO t VALUES(5, 6); INSERT INTO t(t) VALUES('compact')");
  sql_rows(db, "SELECT * FROM t", "1|2\n5|6");
  sql_rows(db, "SELECT value FROM t_cfmeta WHERE name = 'something_new'", "x");
}
END_TEST

int main(void) {
  Suite *suite = suite_create("sql_format");
  TCase *tc = tcase_create("versions");
  tcase_add_checked_fixture(tc, setup, teardown);
  tcase_add_test(tc, newer_lowest_reader_is_refused);
  tcase_add_test(tc, newer_lowest_writer_is_read_only);
  tcase_add_test(tc, missing_version_is_damage);
  tcase_add_test(tc, rows_of_a_later_version_are_left_alone);
  suite_add_tcase(suite, tc);
  return harness_run(suite);
}
