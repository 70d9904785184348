/* sqlite3_colfam_readonly_init: existing tables can be read, all else is refused and says so; of both
** ways to load on one connection the restricted one wins. */
#include <stdio.h>
#include <string.h>

#include "harness_files.h"
#include "harness_sql.h"

#define RESTRICTED "loaded read-only on this connection"

static sqlite3 *db;

static int load_restricted(sqlite3 *connection, char **message) {
  sqlite3_db_config(connection, SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 1, NULL);
  return sqlite3_load_extension(connection, sql_extension(), "sqlite3_colfam_readonly_init",
                                message);
}

static void restrict_now(sqlite3 *connection) {
  char *message = NULL;
  int rc = load_restricted(connection, &message);
  ck_assert_msg(rc == SQLITE_OK, "%s", message);
}

static sqlite3 *open_restricted(void) {
  sqlite3 *opened;
  ck_assert_int_eq(sqlite3_open(sql_path("app.db"), &opened), SQLITE_OK);
  sqlite3_extended_result_codes(opened, 1);
  restrict_now(opened);
  return opened;
}

static void make_tables(void) {
  sqlite3 *maker = sql_open(sql_path("app.db"));
  sql_ok(maker,
         "CREATE VIRTUAL TABLE t USING colfam(k INT PRIMARY KEY, v);"
         "INSERT INTO t VALUES(1, 'a'), (2, 'b'), (3, 'c'); INSERT INTO t(t) VALUES('flush');"
         "INSERT INTO t VALUES(4, 'd'); CREATE TABLE o(k); INSERT INTO o VALUES(2), (9);"
         "CREATE VIEW v AS SELECT * FROM t");
  sql_close(maker);
}

static void open_database(void) {
  make_tables();
  db = open_restricted();
}

/* Loaded in full first, with everything used once. */
static void open_in_full_then_restrict(void) {
  make_tables();
  db = sql_open(sql_path("app.db"));
  sql_trust(db);
  sql_ok(db, "INSERT OR REPLACE INTO t VALUES(4, 'd'); SELECT * FROM colfam_check('t');"
             "SELECT * FROM colfam_flush('t'); SELECT colfam_config('cache_bytes')");
  restrict_now(db);
}

static void close_database(void) {
  sql_close(db);
  db = sql_open(sql_path("app.db"));
  sql_trust(db);
  sql_rows(db, "SELECT k, v FROM t", "1|a\n2|b\n3|c\n4|d");
  sql_rows(db, "SELECT * FROM colfam_check('t')", "");
  sql_close(db);
}

START_TEST(tables_are_read_as_ever) {
  sql_rows(db, "SELECT k, v FROM t", "1|a\n2|b\n3|c\n4|d");
  sql_rows(db, "SELECT v FROM t WHERE k IN (2, 4, 7)", "b\nd");
  sql_rows(db, "SELECT count(*) FROM t", "4");
  sql_rows(db, "SELECT k FROM o WHERE EXISTS (SELECT 1 FROM t WHERE t.k = o.k)", "2");
  sql_rows(db, "SELECT max(k) FROM v", "4");
  sql_plan(db, "SELECT v FROM t WHERE k IN (2, 4)", "multi-get k");
  sql_ok(db, "PRAGMA integrity_check");
  sql_ok(db, "VACUUM");
}
END_TEST

START_TEST(harmless_functions_are_there) {
  sql_rows(db, "SELECT colfam_version()", "0.1.0");
  sql_rows(db, "SELECT colfam_may_exist('t', 4), colfam_may_exist('t', 99)", "1|0");
  sql_rows(db, "SELECT table_name, rows, problem FROM colfam_families", "t|4|NULL");
  sql_ok(db, "SELECT colfam_debug()");
  sql_rows(db, "SELECT count(*) > 10 FROM colfam_stats", "1");
}
END_TEST

START_TEST(writes_are_refused) {
  static const char *const writes[] = {
      "INSERT INTO t VALUES(5, 'e')",
      "INSERT OR IGNORE INTO t VALUES(1, 'e')",
      "REPLACE INTO t VALUES(1, 'e')",
      "UPDATE t SET v = 'x'",
      "UPDATE t SET v = 'x' WHERE 0",
      "DELETE FROM t",
      "DELETE FROM t WHERE k = 99",
      "INSERT INTO t(t) VALUES('flush')",
      "INSERT INTO t(t) VALUES('compact')",
      "INSERT INTO t(t) VALUES('filter_bits=0')",
      "INSERT INTO t SELECT * FROM t",
      "CREATE VIRTUAL TABLE n USING colfam(k PRIMARY KEY)",
      "CREATE VIRTUAL TABLE temp.n USING colfam(k PRIMARY KEY)",
      "ALTER TABLE t RENAME TO n",
  };
  for (size_t i = 0; i < sizeof writes / sizeof *writes; i++) {
    sql_fails(db, writes[i], SQLITE_READONLY, RESTRICTED);
    ck_assert_int_ne(sqlite3_get_autocommit(db), 0);
  }
  /* SQLite has no text of ours for a DROP. */
  sql_fails(db, "DROP TABLE t", SQLITE_READONLY, NULL);
  sql_rows(db, "SELECT count(*) FROM t", "4");
  sql_rows(db, "SELECT group_concat(name) FROM sqlite_schema WHERE name GLOB 'n*'", "NULL");
}
END_TEST

START_TEST(writes_are_refused_inside_a_transaction_that_goes_on) {
  sql_ok(db, "BEGIN; INSERT INTO o VALUES(10); SAVEPOINT s");
  sql_fails(db, "INSERT INTO t VALUES(5, 'e')", SQLITE_READONLY, RESTRICTED);
  sql_fails(db, "DROP TABLE t", SQLITE_READONLY, NULL);
  sql_fails(db, "ALTER TABLE t RENAME TO n", SQLITE_READONLY, RESTRICTED);
  sql_rows(db, "SELECT count(*) FROM t", "4");
  sql_ok(db, "RELEASE s; INSERT INTO o VALUES(11); COMMIT");
  sql_rows(db, "SELECT k FROM o", "2\n9\n10\n11");
}
END_TEST

START_TEST(trigger_that_writes_is_refused) {
  sql_ok(db, "CREATE TEMP TRIGGER r AFTER INSERT ON o BEGIN"
             " INSERT INTO t VALUES(new.k, 'trigger'); END");
  sql_fails(db, "INSERT INTO o VALUES(50)", SQLITE_READONLY, RESTRICTED);
  sql_rows(db, "SELECT count(*) FROM o", "2");
  sql_rows(db, "SELECT count(*) FROM t", "4");
}
END_TEST

static const char *const harmful[] = {
    "SELECT * FROM colfam_check('t')",     "SELECT * FROM colfam_files('t')",
    "SELECT * FROM colfam_flush('t')",     "SELECT * FROM colfam_compact('t')",
    "SELECT colfam_config('cache_bytes')", "SELECT colfam_config('cache_bytes', 0)",
    "INSERT INTO colfam_drops VALUES(1)",
};
enum { HARMFUL_COUNT = sizeof harmful / sizeof *harmful };

START_TEST(harmful_functions_are_not_there) {
  for (int i = 0; i < HARMFUL_COUNT; i++) sql_fails(db, harmful[i], SQLITE_ERROR, "no such");
  sql_fails(db, "SELECT colfam_api(NULL)", SQLITE_ERROR, "no such function");
}
END_TEST

START_TEST(harmful_functions_are_refused) {
  for (int i = 0; i < HARMFUL_COUNT - 1; i++) {
    sql_fails(db, harmful[i], SQLITE_READONLY, RESTRICTED);
  }
}
END_TEST

START_TEST(full_loading_is_refused_afterwards) {
  char *message = NULL;
  ck_assert_int_eq(sql_load(db, &message), SQLITE_ERROR);
  ck_assert_ptr_nonnull(strstr(message, "was loaded read-only on this connection"));
  sqlite3_free(message);
  restrict_now(db);
  sql_fails(db, "INSERT INTO t VALUES(5, 'e')", SQLITE_READONLY, RESTRICTED);
  sqlite3 *other = sql_open(sql_path("app.db"));
  sql_ok(other, "INSERT INTO t VALUES(5, 'e'); DELETE FROM t WHERE k = 5");
  sql_close(other);
  sql_rows(db, "SELECT count(*) FROM t", "4");
}
END_TEST

START_TEST(no_sql_reaches_the_connection) {
  sql_rows(db, "SELECT colfam_connection(NULL)", "NULL");
  sql_rows(db, "SELECT colfam_connection(x'00000000'), colfam_connection(1)", "NULL|NULL");
}
END_TEST

/* ---- Restricted in the middle of something */

START_TEST(pending_writes_are_committed_and_no_more_are_taken) {
  make_tables();
  db = sql_open(sql_path("app.db"));
  sql_trust(db);
  sql_ok(db, "BEGIN; INSERT INTO t VALUES(5, 'e')");
  sqlite3_stmt *insert;
  ck_assert_int_eq(sqlite3_prepare_v2(db, "INSERT INTO t VALUES(6, 'f')", -1, &insert, NULL),
                   SQLITE_OK);
  restrict_now(db);
  ck_assert_int_eq(sqlite3_step(insert) & 0xff, SQLITE_READONLY);
  sqlite3_finalize(insert);
  sql_fails(db, "DELETE FROM t", SQLITE_READONLY, RESTRICTED);
  sql_ok(db, "COMMIT");
  sql_rows(db, "SELECT k FROM t", "1\n2\n3\n4\n5");
  sql_close(db);
}
END_TEST

START_TEST(loaded_by_sql_with_its_entry_point) {
  make_tables();
  sqlite3_open(sql_path("app.db"), &db);
  sqlite3_enable_load_extension(db, 1);
  sql_okf(db, "SELECT load_extension('%s', 'sqlite3_colfam_readonly_init')", sql_extension());
  sql_rows(db, "SELECT count(*) FROM t", "4");
  sql_fails(db, "DELETE FROM t", SQLITE_READONLY, RESTRICTED);
  sql_close(db);
}
END_TEST

START_TEST(file_opened_for_reading_only) {
  make_tables();
  ck_assert_int_eq(sqlite3_open_v2(sql_path("app.db"), &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
  restrict_now(db);
  sql_rows(db, "SELECT k, v FROM t", "1|a\n2|b\n3|c\n4|d");
  sql_fails(db, "DELETE FROM t", SQLITE_READONLY, NULL);
  sql_close(db);
}
END_TEST

START_TEST(views_follow_trusted_schema) {
  sql_rows(db, "SELECT count(*) FROM v", "4");
  sql_ok(db, "PRAGMA trusted_schema = off");
  sql_fails(db, "SELECT count(*) FROM v", SQLITE_ERROR, "unsafe use of virtual table");
  sql_rows(db, "SELECT count(*) FROM t", "4");
}
END_TEST

static void add_common(TCase *tc) {
  tcase_add_test(tc, tables_are_read_as_ever);
  tcase_add_test(tc, harmless_functions_are_there);
  tcase_add_test(tc, writes_are_refused);
  tcase_add_test(tc, writes_are_refused_inside_a_transaction_that_goes_on);
  tcase_add_test(tc, trigger_that_writes_is_refused);
  tcase_add_test(tc, full_loading_is_refused_afterwards);
  tcase_add_test(tc, no_sql_reaches_the_connection);
  tcase_add_test(tc, views_follow_trusted_schema);
}

int main(void) {
  Suite *suite = suite_create("sql_readonly");
  TCase *first = tcase_create("restricted at once");
  tcase_add_checked_fixture(first, open_database, close_database);
  add_common(first);
  tcase_add_test(first, harmful_functions_are_not_there);
  suite_add_tcase(suite, first);
  TCase *second = tcase_create("in full first");
  tcase_add_checked_fixture(second, open_in_full_then_restrict, close_database);
  add_common(second);
  tcase_add_test(second, harmful_functions_are_refused);
  suite_add_tcase(suite, second);
  TCase *other = tcase_create("other");
  tcase_add_test(other, pending_writes_are_committed_and_no_more_are_taken);
  tcase_add_test(other, loaded_by_sql_with_its_entry_point);
  tcase_add_test(other, file_opened_for_reading_only);
  suite_add_tcase(suite, other);
  return harness_run(suite);
}
