/* An application in C that loads the extension at run time, as it is: no flag, no init name. */
#include "harness_embed.h"
#include "harness_sql.h"

static sqlite3 *open_and_load(const char *path) {
  sqlite3 *db;
  char *message = NULL;
  ck_assert_int_eq(sqlite3_open(path, &db), SQLITE_OK);
  sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 1, NULL);
  int rc = sqlite3_load_extension(db, sql_extension(), NULL, &message);
  ck_assert_msg(rc == SQLITE_OK, "%s", message);
  return db;
}

START_TEST(loaded_into_a_c_program) {
  embed_scenario(open_and_load);
}
END_TEST

/* The code must outlive the connection that loaded it: another one may still run it. */
START_TEST(first_connection_closed_before_the_second) {
  sqlite3 *first = open_and_load(":memory:");
  sqlite3 *second = open_and_load(":memory:");
  sql_close(first);
  sql_ok(second,
         "CREATE VIRTUAL TABLE t USING colfam(k PRIMARY KEY, v); INSERT INTO t VALUES (1, 2)");
  sql_rows(second, "SELECT v FROM t WHERE k = 1", "2");
  sql_close(second);
}
END_TEST

START_TEST(loaded_twice_into_one_connection) {
  sqlite3 *db = open_and_load(":memory:");
  ck_assert_int_eq(sqlite3_load_extension(db, sql_extension(), NULL, NULL), SQLITE_OK);
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(k PRIMARY KEY, v); INSERT INTO t VALUES (1, 2)");
  sql_rows(db, "SELECT v FROM t WHERE k = 1", "2");
  sql_close(db);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("embed_load");
  TCase *tcase = tcase_create("load");
  tcase_add_test(tcase, loaded_into_a_c_program);
  tcase_add_test(tcase, first_connection_closed_before_the_second);
  tcase_add_test(tcase, loaded_twice_into_one_connection);
  suite_add_tcase(suite, tcase);
  return harness_run(suite);
}
