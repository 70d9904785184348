/* An application in C that loads the extension at run time, as it is: no flag, no init name. */
#include <dlfcn.h>
#include <stdint.h>

/* The type of what SQLite gives to extensions, without its macros. */
#define SQLITE_CORE
#include <sqlite3ext.h>
#undef SQLITE_CORE

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

/* What SQLite gives to automatic extensions is what it gives to loaded ones. */
static struct sqlite3_api_routines *seen_api;
static int see_api(sqlite3 *db, char **message, const struct sqlite3_api_routines *api) {
  (void)db, (void)message;
  seen_api = (struct sqlite3_api_routines *)(uintptr_t)api;
  return SQLITE_OK;
}

/* Functions of one SQLite on the connection of another would end in memory errors. */
START_TEST(loaded_by_two_copies_of_sqlite) {
  typedef int (*init_fn)(sqlite3 *, char **, const struct sqlite3_api_routines *);
  sqlite3_auto_extension((void (*)(void))(uintptr_t)see_api);
  sqlite3 *db = open_and_load(":memory:");
  sqlite3_reset_auto_extension();
  void *library = dlopen(sql_extension(), RTLD_NOW);
  init_fn init = (init_fn)(uintptr_t)dlsym(library, "sqlite3_colfam_init");
  ck_assert_ptr_nonnull(seen_api);
  ck_assert(init != NULL);
  sqlite3_api_routines other = *seen_api;
  char *message = NULL;
  ck_assert_int_eq(init(db, &message, &other), SQLITE_ERROR);
  ck_assert_str_eq(message, "another copy of SQLite in this process has loaded colfam already");
  sqlite3_free(message);
  sql_close(db);
  dlclose(library);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("embed_load");
  TCase *tcase = tcase_create("load");
  tcase_add_test(tcase, loaded_into_a_c_program);
  tcase_add_test(tcase, first_connection_closed_before_the_second);
  tcase_add_test(tcase, loaded_twice_into_one_connection);
  tcase_add_test(tcase, loaded_by_two_copies_of_sqlite);
  suite_add_tcase(suite, tcase);
  return harness_run(suite);
}
