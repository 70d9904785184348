/* See harness_work.h. */
#include "harness_work.h"

#include "harness_files.h"

#define PHASES "SELECT group_concat(phase, ' ') FROM (SELECT DISTINCT phase FROM %s)"

void work_phases(sqlite3 *db, const char *call, const char *expected) {
  char *sql = sqlite3_mprintf(PHASES, call);
  sql_rows(db, sql, expected);
  sqlite3_free(sql);
}

int work_named_files(sqlite3 *db, const char *table) {
  char *sql = sqlite3_mprintf("SELECT count(*) FROM %s_cffile", table);
  int count = (int)sql_int(db, sql);
  sqlite3_free(sql);
  return count;
}

int work_files_on_disk(void) {
  return files_on_disk(sql_path("app.db"));
}

void work_make_u(void) {
  sql_ok(a, "CREATE VIRTUAL TABLE u USING colfam(k INT PRIMARY KEY, v)");
}

void work_flush_pending(void) {
  work_make_u();
  twins_insert(a, 1, 50);
  work_phases(a, "colfam_flush('t')", "verify pending");
  ck_assert_int_eq(work_named_files(a, "t"), 0);
  ck_assert_int_eq(work_files_on_disk(), 1);
}

void work_write_u(sqlite3 *db) {
  sql_ok(db, "INSERT OR REPLACE INTO u VALUES(1, random())");
}

void work_is_sound(sqlite3 *db) {
  sql_rows(db, "SELECT * FROM colfam_check('t')", "");
  twins_same(db);
  files_agree(db, "t");
}
