/* See harness_embed.h. */
#include "harness_embed.h"

#include "harness_sql.h"

#define ROWS "20000"

static void fill(sqlite3 *db) {
  sql_ok(db, "CREATE VIRTUAL TABLE items USING colfam(id INTEGER PRIMARY KEY, name TEXT NOT NULL);"
             "CREATE TABLE totals(name TEXT PRIMARY KEY, n INTEGER);"
             "BEGIN;"
             "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < " ROWS ")"
             " INSERT INTO items SELECT 2 * i, 'item ' || (2 * i) FROM n;"
             "INSERT INTO totals VALUES ('items', " ROWS ");"
             "COMMIT;"
             "INSERT INTO items(items) VALUES ('flush')");
}

static void read_back(sqlite3 *db) {
  sql_rows(db, "SELECT count(*) FROM items", ROWS);
  sql_rows(db, "SELECT name FROM items WHERE id = 40000", "item 40000");
  sql_plan(db, "SELECT name FROM items WHERE id IN (2, 3, 40)", "multi-get id");
  sql_rows(db, "SELECT id, name FROM items WHERE id IN (40, 3, 2)", "2|item 2\n40|item 40");
  sql_rows(db, "SELECT EXISTS (SELECT 1 FROM items WHERE id = 4)", "1");
  sql_rows(db, "SELECT EXISTS (SELECT 1 FROM items WHERE id = 5)", "0");
  sql_rows(db, "SELECT id FROM items WHERE id BETWEEN 7 AND 13 ORDER BY id DESC", "12\n10\n8");
}

static void roll_back(sqlite3 *db) {
  sql_ok(db, "BEGIN;"
             "INSERT INTO items VALUES (1, 'one');"
             "SAVEPOINT s;"
             "DELETE FROM items WHERE id > 1;"
             "INSERT INTO totals VALUES ('lost', 0)");
  sql_rows(db, "SELECT count(*) FROM items", "1");
  sql_ok(db, "ROLLBACK TO s");
  sql_rows(db, "SELECT count(*) - " ROWS " FROM items", "1");
  sql_ok(db, "ROLLBACK");
  sql_rows(db, "SELECT count(*) - " ROWS " FROM items", "0");
  sql_rows(db, "SELECT count(*) FROM totals", "1");
}

static void commit_both(sqlite3 *db) {
  sql_ok(db, "BEGIN;"
             "DELETE FROM items WHERE id <= 10;"
             "UPDATE items SET name = 'renamed' WHERE id = 12;"
             "UPDATE totals SET n = n - 5;"
             "COMMIT");
}

static void after_reopening(sqlite3 *db) {
  sql_rows(db, "SELECT n, (SELECT count(*) FROM items) FROM totals", "19995|19995");
  sql_rows(db, "SELECT id, name FROM items LIMIT 2", "12|renamed\n14|item 14");
  sql_rows(db, "SELECT * FROM colfam_check('items')", "");
  sql_rows(db, "PRAGMA integrity_check", "ok");
  sql_ok(db, "DROP TABLE items");
  sql_rows(db, "SELECT count(*) FROM sqlite_schema WHERE name LIKE 'items%'", "0");
}

void embed_scenario(sqlite3 *(*open)(const char *path)) {
  const char *path = sql_path("embed.db");
  sqlite3 *db = open(path);
  fill(db);
  read_back(db);
  roll_back(db);
  commit_both(db);
  sql_close(db);
  db = open(path);
  after_reopening(db);
  sql_close(db);
}
