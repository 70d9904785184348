/* What connecting and opening cost: xConnect parses and declares without a statement, xOpen makes one object;
** and all of it comes back when connections close. */
#include <stdbool.h>

#include "cursor.h"
#include "engine/mem.h"
#include "harness_sql.h"

static sqlite3 *db;

static void make_table(void) {
  db = sql_open(sql_path("app.db"));
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(k INT PRIMARY KEY, v);"
             "INSERT INTO t VALUES(1, 'a'), (2, 'b'); INSERT INTO t(t) VALUES('flush')");
  sql_close(db);
  db = sql_open(sql_path("app.db"));
}

static void close_database(void) {
  sql_close(db);
}

static int64_t allocations(void) {
  sqlite3_int64 now, highest;
  ck_assert_int_eq(sqlite3_status64(SQLITE_STATUS_MALLOC_COUNT, &now, &highest, 0), SQLITE_OK);
  return now + kv_mem_live_blocks();
}

START_TEST(open_makes_one_object) {
  int64_t before = allocations();
  sqlite3_vtab vtab = {NULL, 0, NULL};
  sqlite3_vtab_cursor *cursor;
  ck_assert_int_eq(colfam_cursor_open(&vtab, &cursor), SQLITE_OK);
  ck_assert_int_eq(allocations(), before + 1);
  cursor->pVtab = &vtab;
  ck_assert_int_eq(colfam_cursor_close(cursor), SQLITE_OK);
  ck_assert_int_eq(allocations(), before);
}
END_TEST

static int statements;

static int count_statement(unsigned what, void *unused, void *statement, void *sql) {
  (void)what, (void)unused, (void)statement, (void)sql;
  statements++;
  return 0;
}

START_TEST(connecting_runs_no_statement) {
  sqlite3_trace_v2(db, SQLITE_TRACE_STMT, count_statement, NULL);
  sql_ok(db, "PRAGMA table_info(t)");
  ck_assert_int_eq(statements, 1);
  sql_rows(db, "SELECT k FROM t", "1\n2");
  ck_assert_int_gt(statements, 2);
  sqlite3_trace_v2(db, 0, NULL, NULL);
}
END_TEST

START_TEST(a_thousand_connections_leave_nothing) {
  sql_close(db);
  int64_t before = allocations();
  for (int i = 0; i < 1000; i++) {
    db = sql_open(sql_path("app.db"));
    if (i % 4 == 0) sql_rows(db, "SELECT k FROM t", "1\n2");
    if (i % 100 == 0)
      sql_ok(db, "BEGIN; DELETE FROM t; INSERT INTO t(t) VALUES('compact'); ROLLBACK");
    sql_close(db);
  }
  ck_assert_int_eq(allocations(), before);
  db = sql_open(sql_path("app.db"));
}
END_TEST

int main(void) {
  Suite *suite = suite_create("core_host");
  TCase *tc = tcase_create("host");
  tcase_set_timeout(tc, 60);
  tcase_add_checked_fixture(tc, make_table, close_database);
  tcase_add_test(tc, open_makes_one_object);
  tcase_add_test(tc, connecting_runs_no_statement);
  tcase_add_test(tc, a_thousand_connections_leave_nothing);
  suite_add_tcase(suite, tc);
  return harness_run(suite);
}
