/* See harness_files.h. */
#include "harness_files.h"

#include <dirent.h>
#include <stdio.h>
#include <unistd.h>

#include "harness_sql.h"

int files_on_disk(const char *database) {
  char path[4200];
  snprintf(path, sizeof path, "%s-colfam", database);
  DIR *dir = opendir(path);
  int count = 0;
  for (struct dirent *entry; dir && (entry = readdir(dir));) count += entry->d_name[0] != '.';
  if (dir) closedir(dir);
  return count;
}

static int check_named(sqlite3 *db, const char *table) {
  char *sql = sqlite3_mprintf("SELECT id FROM \"%w_cffile\"", table);
  sqlite3_stmt *ids;
  ck_assert_int_eq(sqlite3_prepare_v2(db, sql, -1, &ids, NULL), SQLITE_OK);
  sqlite3_free(sql);
  int count = 0;
  for (; sqlite3_step(ids) == SQLITE_ROW; count++) {
    char path[4200];
    snprintf(path, sizeof path, "%s-colfam/%016llx.sst", sqlite3_db_filename(db, "main"),
             (unsigned long long)sqlite3_column_int64(ids, 0));
    ck_assert_msg(access(path, R_OK) == 0, "%s is named and missing", path);
  }
  ck_assert_int_eq(sqlite3_finalize(ids), SQLITE_OK);
  return count;
}

void files_named_are_there(sqlite3 *db, const char *table) {
  check_named(db, table);
}

void files_agree(sqlite3 *db, const char *table) {
  int named = check_named(db, table);
  ck_assert_int_eq(files_on_disk(sqlite3_db_filename(db, "main")), named);
}

void files_agree_when_closed(sqlite3 *db, const char *table) {
  char path[4200];
  snprintf(path, sizeof path, "%s", sqlite3_db_filename(db, "main"));
  int named = check_named(db, table);
  sql_close(db);
  ck_assert_int_eq(files_on_disk(path), named);
}
