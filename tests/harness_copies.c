/* See harness_copies.h. */
#include "harness_copies.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "harness_sql.h"

sqlite3 *copies_open(const char *path, int copy) {
  char name[16], *message = NULL;
  snprintf(name, sizeof name, "copy%d.so", copy);
  const char *so = sql_path(name);
  if (access(so, R_OK) != 0) {
    char *command = sqlite3_mprintf("cp '%s' '%s'", sql_extension(), so);
    ck_assert_int_eq(system(command), 0);
    sqlite3_free(command);
  }
  sqlite3 *db;
  ck_assert_int_eq(sqlite3_open(path, &db), SQLITE_OK);
  sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 1, NULL);
  int rc = sqlite3_load_extension(db, so, "sqlite3_colfam_init", &message);
  ck_assert_msg(rc == SQLITE_OK, "%s", message);
  sqlite3_extended_result_codes(db, 1);
  sql_ok(db, "SELECT colfam_config('threads', 0)");
  return db;
}
