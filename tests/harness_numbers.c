/* See harness_numbers.h. */
#include "harness_numbers.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

sqlite3 *db;

void numbers_open(void) {
  db = sql_open(sql_path("app.db"));
}

void numbers_close(void) {
  sql_close(db);
}

void numbers_reopen(void) {
  numbers_close();
  numbers_open();
}

/* A table t(k INTEGER PRIMARY KEY-like, v) with even keys 2..200 in one file. */
void numbers_make(void) {
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(k INT PRIMARY KEY, v TEXT);"
             "WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n WHERE i < 100)"
             "INSERT INTO t SELECT i * 2, 'value ' || i FROM n;"
             "INSERT INTO t(t) VALUES('flush')");
}

const char *numbers_file(const char *table) {
  static char path[4096];
  char *sql = sqlite3_mprintf("SELECT id FROM colfam_files(%Q) LIMIT 1", table);
  char *id = sql_query(db, sql);
  snprintf(path, sizeof path, "%s-colfam/%s.sst", sql_path("app.db"), id);
  sqlite3_free(id);
  sqlite3_free(sql);
  return path;
}

void numbers_flip(const char *path, off_t position) {
  unsigned char byte;
  int file = open(path, O_RDWR);
  ck_assert_msg(file >= 0, "%s", path);
  ck_assert_int_eq(pread(file, &byte, 1, position), 1);
  byte ^= 0x40;
  ck_assert_int_eq(pwrite(file, &byte, 1, position), 1);
  close(file);
}
