#include "harness_api.h"

const struct colfam_api *api_of(sqlite3 *connection) {
  const struct colfam_api *got = NULL;
  sqlite3_stmt *statement;
  int rc = sqlite3_prepare_v2(connection, "SELECT colfam_api(?1)", -1, &statement, NULL);
  ck_assert_int_eq(rc, SQLITE_OK);
  sqlite3_bind_pointer(statement, 1, (void *)&got, COLFAM_API_POINTER, NULL);
  ck_assert_int_eq(sqlite3_step(statement), SQLITE_ROW);
  ck_assert_int_eq(sqlite3_column_type(statement, 0), SQLITE_NULL);
  ck_assert_int_eq(sqlite3_finalize(statement), SQLITE_OK);
  ck_assert_ptr_nonnull(got);
  return got;
}

void api_make_numbers(sqlite3 *db) {
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(k INT PRIMARY KEY, v TEXT);"
             "WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n WHERE i < 100)"
             "INSERT INTO t SELECT i * 2, 'value ' || i FROM n;"
             "INSERT INTO t(t) VALUES('flush')");
}
