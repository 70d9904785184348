/* What connecting and opening cost: xConnect parses and declares without a statement, xOpen makes one object;
** and all of it comes back when connections close. */
#include <stdbool.h>

#include "cursor.h"
#include "engine/mem.h"
#include "harness_oom.h"
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

START_TEST(open_makes_one_object) {
  struct colfam_vtab vtab = {.base = {NULL, 0, NULL}};
  sqlite3_vtab_cursor *cursor;
  oom_fail_nth(OOM_SQLITE, 1, false);
  ck_assert_int_eq(colfam_cursor_open(&vtab.base, &cursor), SQLITE_NOMEM);
  ck_assert(oom_stop(OOM_SQLITE));
  oom_fail_nth(OOM_SQLITE, 2, false);
  oom_fail_nth(OOM_ENGINE, 1, false);
  ck_assert_int_eq(colfam_cursor_open(&vtab.base, &cursor), SQLITE_OK);
  ck_assert(!oom_stop(OOM_SQLITE));
  ck_assert(!oom_stop(OOM_ENGINE));
  cursor->pVtab = &vtab.base;
  ck_assert_int_eq(colfam_cursor_close(cursor), SQLITE_OK);
  colfam_cursor_free_spares(&vtab);
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
  int64_t blocks = kv_mem_live_blocks();
  sqlite3_int64 bytes = sqlite3_memory_used();
  for (int i = 0; i < 1000; i++) {
    db = sql_open(sql_path("app.db"));
    if (i % 4 == 0) sql_rows(db, "SELECT k FROM t", "1\n2");
    if (i % 100 == 0)
      sql_ok(db, "BEGIN; DELETE FROM t; INSERT INTO t(t) VALUES('compact'); ROLLBACK");
    sql_close(db);
  }
  ck_assert_int_eq(kv_mem_live_blocks(), blocks);
  ck_assert_int_eq(sqlite3_memory_used(), bytes);
  db = sql_open(sql_path("app.db"));
}
END_TEST

int main(void) {
  oom_install();
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
