/* See harness_twins.h. */
#include "harness_twins.h"

sqlite3 *a, *b;

sqlite3 *twins_connect(void) {
  sqlite3 *db = sql_open(sql_path("app.db"));
  sql_ok(db, "PRAGMA foreign_keys = on");
  return db;
}

void twins_open_delete(void) {
  a = twins_connect();
  sql_ok(a, TWINS_SCHEMA "CREATE TABLE parent(id INTEGER PRIMARY KEY);"
                         "CREATE TABLE child(id REFERENCES parent DEFERRABLE INITIALLY DEFERRED)");
  b = twins_connect();
}

void twins_open_wal(void) {
  twins_open_delete();
  sql_rows(a, "PRAGMA journal_mode = wal", "wal");
}

void twins_same(sqlite3 *db) {
  sql_same(db, "SELECT k, v FROM t ORDER BY k", "SELECT k, v FROM o ORDER BY k");
  sql_same(db, "SELECT count(*) FROM t", "SELECT count(*) FROM o");
}

void twins_close(void) {
  if (sqlite3_get_autocommit(a)) twins_same(a);
  sql_close(b);
  sql_close(a);
  a = twins_connect();
  twins_same(a);
  if (sql_int(a, "SELECT count(*) FROM sqlite_schema WHERE name = 't'"))
    sql_rows(a, "SELECT * FROM colfam_check('t')", "");
  sql_close(a);
}

void twins_both(sqlite3 *db, const char *sql) {
  for (int i = 0; i < 2; i++) {
    sqlite3_str *text = sqlite3_str_new(db);
    for (const char *p = sql; *p; p++) {
      if (*p == '@')
        sqlite3_str_appendchar(text, 1, "to"[i]);
      else
        sqlite3_str_appendchar(text, 1, *p);
    }
    char *full = sqlite3_str_finish(text);
    sql_ok(db, full);
    sqlite3_free(full);
  }
}

void twins_insert(sqlite3 *db, int first, int last) {
  for (int i = 0; i < 2; i++)
    sql_okf(db,
            "WITH RECURSIVE n(i) AS (VALUES(%d) UNION ALL SELECT i + 1 FROM n WHERE i < %d)"
            "INSERT INTO %s SELECT i, 'value ' || i FROM n",
            first, last, i ? "o" : "t");
}

sqlite3_stmt *twins_reader(const char *table) {
  sqlite3_stmt *reader;
  char *sql = sqlite3_mprintf("SELECT * FROM %s", table);
  ck_assert_int_eq(sqlite3_prepare_v2(b, sql, -1, &reader, NULL), SQLITE_OK);
  ck_assert_int_eq(sqlite3_step(reader), SQLITE_ROW);
  sqlite3_free(sql);
  return reader;
}
