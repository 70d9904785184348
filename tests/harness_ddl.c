/* See harness_ddl.h. */
#include "harness_ddl.h"

#include <dirent.h>
#include <string.h>

#define SCHEMA "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY name"

int ddl_files(void) {
  DIR *dir = opendir(sql_path("app.db-colfam"));
  if (!dir) return -1;
  int count = 0;
  for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
    count += strstr(entry->d_name, ".sst") != NULL;
  }
  closedir(dir);
  return count;
}

void ddl_make_table(sqlite3 *db, const char *name, int n) {
  sql_okf(db, "CREATE VIRTUAL TABLE \"%w\" USING colfam(k INT PRIMARY KEY, v TEXT)", name);
  sql_okf(db,
          "WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n WHERE i < %d)"
          "INSERT INTO \"%w\" SELECT i, 'v' || i FROM n",
          n, name);
  sql_okf(db, "INSERT INTO \"%w\"(\"%w\") VALUES('flush')", name, name);
}

void ddl_refused(sqlite3 *db, const char *sql, int code, const char *text) {
  char *before = sql_query(db, SCHEMA);
  int files = ddl_files();
  sql_fails(db, sql, code, text);
  sql_rows(db, SCHEMA, before);
  ck_assert_int_eq(ddl_files(), files);
  ck_assert_int_eq(sqlite3_get_autocommit(db), 1);
  sqlite3_free(before);
}
