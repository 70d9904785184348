/* An application in C that loads the extension at run time, as it is: no flag, no init name. */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

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

static sqlite3_api_routines api_of_this_sqlite(void) {
  sqlite3 *db;
  sqlite3_auto_extension((void (*)(void))(uintptr_t)see_api);
  ck_assert_int_eq(sqlite3_open(":memory:", &db), SQLITE_OK);
  sqlite3_reset_auto_extension();
  sqlite3_close(db);
  ck_assert_ptr_nonnull(seen_api);
  return *seen_api;
}

/* Whether a line of the process's map has the text in it. */
static bool is_mapped(const char *text) {
  char line[5000];
  bool found = false;
  FILE *maps = fopen("/proc/self/maps", "r");
  while (maps && fgets(line, sizeof line, maps)) found = found || strstr(line, text);
  if (maps) fclose(maps);
  return found;
}

/* SQLite closes the libraries of a connection with it, but for those that ask to stay; whoever closes it
** all the same does not get rid of it. */
START_TEST(the_code_stays_when_all_have_left) {
  for (int i = 0; i < 3; i++) {
    sqlite3 *db = open_and_load(":memory:");
    sql_ok(db,
           "CREATE VIRTUAL TABLE t USING colfam(k PRIMARY KEY, v); INSERT INTO t VALUES (1, 2)");
    sql_close(db);
    ck_assert(is_mapped("colfam.so"));
  }
  void *library = dlopen(sql_extension(), RTLD_NOW);
  typedef int (*init_fn)(sqlite3 *, char **, const struct sqlite3_api_routines *);
  init_fn init = (init_fn)(uintptr_t)dlsym(library, "sqlite3_colfam_init");
  sqlite3 *db = open_and_load(":memory:");
  char *message = NULL;
  (void)api_of_this_sqlite();
  ck_assert_int_eq(init(db, &message, seen_api), SQLITE_OK_LOAD_PERMANENTLY);
  sql_close(db);
  for (int i = 0; i < 5; i++) dlclose(library);
  ck_assert(is_mapped("colfam.so"));
}
END_TEST

/* Calls an entry point of the library; it must refuse with the text. */
static void check_refused(void *library, const char *entry, sqlite3 *db,
                          const sqlite3_api_routines *api, const char *text) {
  typedef int (*init_fn)(sqlite3 *, char **, const struct sqlite3_api_routines *);
  init_fn init = (init_fn)(uintptr_t)dlsym(library, entry);
  char *message = NULL;
  ck_assert_msg(init != NULL, "%s", entry);
  ck_assert_int_eq(init(db, &message, api), SQLITE_ERROR);
  ck_assert_str_eq(message, text);
  sqlite3_free(message);
}

static const char *const entries[] = {"sqlite3_colfam_init", "sqlite3_colfam_readonly_init"};
enum { ENTRIES = sizeof entries / sizeof *entries };

/* Functions of one SQLite on the connection of another would end in memory errors. */
START_TEST(loaded_by_two_copies_of_sqlite) {
  sqlite3_api_routines other = api_of_this_sqlite();
  sqlite3 *db = open_and_load(":memory:");
  void *library = dlopen(sql_extension(), RTLD_NOW);
  for (int i = 0; i < ENTRIES; i++)
    check_refused(library, entries[i], db, &other,
                  "another copy of SQLite in this process has loaded colfam already");
  sql_close(db);
  dlclose(library);
}
END_TEST

static int old_number(void) {
  return 3037002;
}

static const char *old_version(void) {
  return "3.37.2";
}

static void not_there(void) {
  ck_abort_msg("a function that an old SQLite may not have was called");
}

/* Nothing but the version is asked of an old SQLite, and a newer one is served afterwards. */
START_TEST(loaded_by_an_old_sqlite) {
  sqlite3_api_routines now = api_of_this_sqlite(), old;
  void (*const missing)(void) = not_there;
  for (size_t i = 0; i < sizeof old; i += sizeof missing)
    memcpy((char *)&old + i, &missing, sizeof missing);
  old.libversion_number = old_number;
  old.libversion = old_version;
  old.mprintf = now.mprintf;
  void *library = dlopen(sql_extension(), RTLD_NOW);
  for (int i = 0; i < ENTRIES; i++)
    check_refused(library, entries[i], NULL, &old,
                  "colfam needs SQLite 3.38 or newer, this is 3.37.2");
  sql_close(open_and_load(":memory:"));
  dlclose(library);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("embed_load");
  TCase *tcase = tcase_create("load");
  tcase_add_test(tcase, loaded_into_a_c_program);
  tcase_add_test(tcase, first_connection_closed_before_the_second);
  tcase_add_test(tcase, the_code_stays_when_all_have_left);
  tcase_add_test(tcase, loaded_twice_into_one_connection);
  tcase_add_test(tcase, loaded_by_two_copies_of_sqlite);
  tcase_add_test(tcase, loaded_by_an_old_sqlite);
  suite_add_tcase(suite, tcase);
  return harness_run(suite);
}
