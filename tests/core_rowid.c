/* Rowids when the largest one is taken: SQLite then tries others at random, a hundred times. Chance is taken
** out here: this program has sqlite3_randomness itself. */
#include <string.h>

#include "harness_sql.h"

static uint64_t next_byte; /* what all bytes are, counted up from call to call */
static uint64_t step;
static int calls;

/* Visible, so that the library's own code calls it too. */
__attribute__((visibility("default"))) void sqlite3_randomness(int size, void *bytes) {
  if (size <= 0) return;
  memset(bytes, (int)(next_byte & 0xff), (size_t)size);
  next_byte += step;
  calls++;
}

/* The rowid that eight such bytes make. */
static sqlite3_int64 rowid_of_byte(int byte) {
  sqlite3_int64 rowid;
  memset(&rowid, byte, sizeof rowid);
  return (rowid & (INT64_MAX >> 1)) + 1;
}

static sqlite3 *open_table(void) {
  sqlite3 *db = sql_open(sql_path("rowid.db"));
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(id INTEGER PRIMARY KEY, v);"
             "INSERT INTO t VALUES(9223372036854775807, 'largest')");
  return db;
}

START_TEST(unused_rowid_is_found_in_the_end) {
  next_byte = 1;
  step = 1;
  sqlite3 *db = open_table();
  for (int byte = 10; byte < 100; byte++)
    sql_okf(db, "INSERT INTO t VALUES(%lld, 'taken')", rowid_of_byte(byte));
  sql_ok(db, "BEGIN");
  next_byte = 10;
  calls = 0;
  sql_ok(db, "INSERT INTO t(v) VALUES('found')");
  ck_assert_int_eq(calls, 91);
  ck_assert_int_eq(sqlite3_last_insert_rowid(db), rowid_of_byte(100));
  sql_ok(db, "COMMIT");
  sql_rows(db, "SELECT count(*) FROM t", "92");
  sql_close(db);
}
END_TEST

/* SQLite takes the transaction back. */
START_TEST(no_unused_rowid_is_full) {
  next_byte = step = 1;
  sqlite3 *db = open_table();
  sql_ok(db, "CREATE TABLE o(id INTEGER PRIMARY KEY, v); INSERT INTO o SELECT * FROM t");
  for (int side = 0; side < 2; side++) {
    for (int ignore = 0; ignore < 2; ignore++) {
      char name = "ot"[side];
      sql_okf(db, "INSERT OR IGNORE INTO %c VALUES(%lld, 'taken')", name, rowid_of_byte(7));
      sql_okf(db, "BEGIN; INSERT INTO %c VALUES(5, 'lost')", name);
      next_byte = 7;
      step = 0;
      char *sql = sqlite3_mprintf("INSERT %s INTO %c(v) VALUES('no place')",
                                  ignore ? "OR IGNORE" : "", name);
      sql_fails(db, sql, SQLITE_FULL, "database or disk is full");
      sqlite3_free(sql);
      next_byte = step = 1;
      ck_assert_int_eq(sqlite3_get_autocommit(db), 1);
    }
  }
  sql_same(db, "SELECT * FROM t", "SELECT * FROM o");
  sql_close(db);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("core_rowid");
  TCase *tcase = tcase_create("rowid");
  tcase_add_test(tcase, unused_rowid_is_found_in_the_end);
  tcase_add_test(tcase, no_unused_rowid_is_full);
  suite_add_tcase(suite, tcase);
  return harness_run(suite);
}
