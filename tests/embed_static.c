/* An application in C that links build/libcolfam.a beside SQLite: in every connection by
** sqlite3_auto_extension, or in one by calling the entry point. */
#include "harness_embed.h"
#include "harness_sql.h"

int sqlite3_colfam_init(sqlite3 *db, char **message, const sqlite3_api_routines *api);

static sqlite3 *open_plain(const char *path) {
  sqlite3 *db;
  ck_assert_int_eq(sqlite3_open(path, &db), SQLITE_OK);
  return db;
}

START_TEST(in_every_connection_by_auto_extension) {
  ck_assert_int_eq(sqlite3_auto_extension((void (*)(void))sqlite3_colfam_init), SQLITE_OK);
  embed_scenario(open_plain);
  sqlite3_reset_auto_extension();
}
END_TEST

START_TEST(in_one_connection_by_calling_the_entry_point) {
  embed_scenario(sql_open);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("embed_static");
  TCase *tcase = tcase_create("static");
  tcase_add_test(tcase, in_every_connection_by_auto_extension);
  tcase_add_test(tcase, in_one_connection_by_calling_the_entry_point);
  suite_add_tcase(suite, tcase);
  return harness_run(suite);
}
