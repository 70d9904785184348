/* sqlite3_limit with small values, and space that runs out: a statement on a colfam table works as on the
** ordinary twin, or fails with the limit's own error; rows stay right, and all works on without the limit. */
#include <stdbool.h>
#include <string.h>

#include "harness_twins.h"

struct limit {
  int id;
  const char *name;
  int values[6]; /* 0 ends them */
};

static const struct limit limits[] = {
    {SQLITE_LIMIT_LENGTH, "LENGTH", {1, 40, 200, 1000, 5000, 0}},
    {SQLITE_LIMIT_SQL_LENGTH, "SQL_LENGTH", {10, 60, 100, 150, 200, 0}},
    {SQLITE_LIMIT_COLUMN, "COLUMN", {1, 2, 3, 5, 9, 0}},
    {SQLITE_LIMIT_EXPR_DEPTH, "EXPR_DEPTH", {1, 2, 3, 4, 5, 0}},
    {SQLITE_LIMIT_COMPOUND_SELECT, "COMPOUND_SELECT", {1, 2, 0}},
    {SQLITE_LIMIT_VDBE_OP, "VDBE_OP", {1, 10, 30, 50, 100, 0}},
    {SQLITE_LIMIT_FUNCTION_ARG, "FUNCTION_ARG", {1, 2, 3, 0}},
    {SQLITE_LIMIT_ATTACHED, "ATTACHED", {1, 0}},
    {SQLITE_LIMIT_LIKE_PATTERN_LENGTH, "LIKE_PATTERN_LENGTH", {1, 3, 0}},
    {SQLITE_LIMIT_VARIABLE_NUMBER, "VARIABLE_NUMBER", {1, 2, 4, 5, 8, 0}},
    {SQLITE_LIMIT_TRIGGER_DEPTH, "TRIGGER_DEPTH", {1, 0}},
    {SQLITE_LIMIT_WORKER_THREADS, "WORKER_THREADS", {1, 2, 0}},
};

/* @ is the twin's name; statements without it run once. */
static const char *const script[] = {
    "SELECT k, v FROM @ WHERE k IN (1, 5, 30) ORDER BY k",
    "SELECT k FROM @ ORDER BY k",
    "INSERT INTO @ VALUES(300, 'a')",
    "INSERT OR REPLACE INTO @ VALUES(301, 'b')",
    "UPDATE @ SET k = k + 400 WHERE k < 3",
    "DELETE FROM @ WHERE k = 7",
    "BEGIN",
    "INSERT INTO @ VALUES(302, 'c')",
    "SAVEPOINT s",
    "DELETE FROM @ WHERE k > 20",
    "ROLLBACK TO s",
    "INSERT INTO @ VALUES(303, 'd')",
    "COMMIT",
    "INSERT INTO t(t) VALUES('flush')",
    "INSERT INTO t(t) VALUES('compact')",
    "INSERT INTO t(t) VALUES('filter_bits=6')",
    "CREATE VIRTUAL TABLE n USING colfam(k PRIMARY KEY)",
    "INSERT INTO n VALUES(1)",
    "ALTER TABLE n RENAME TO n2",
    "DROP TABLE n2",
};

static char *text_for(const char *step, char table) {
  char *sql = sqlite3_mprintf("%s", step);
  for (char *p = sql; *p; p++) {
    if (*p == '@') *p = table;
  }
  return sql;
}

static bool is_limit_error(int rc) {
  rc &= 0xff;
  return rc == SQLITE_TOOBIG || rc == SQLITE_ERROR || rc == SQLITE_NOMEM || rc == SQLITE_RANGE;
}

/* The text the application sees names the limit or follows from a statement that was refused. */
static bool is_limit_text(const char *text) {
  static const char *const known[] = {"too big",
                                      "too many",
                                      "too large",
                                      "too long",
                                      "Expression tree",
                                      "variable number",
                                      "out of memory",
                                      "no such table: n",
                                      "no such table: main.n",
                                      "too much data",
                                      "larger than SQLite's limit",
                                      "no such savepoint",
                                      "no transaction is active",
                                      "column index out of range",
                                      "bind or column index",
                                      "pattern too complex",
                                      "SQL logic error"};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (strstr(text, known[i])) return true;
  return false;
}

static int run(const char *step, char table, const char *about, int value) {
  char *sql = text_for(step, table), *message = NULL;
  int rc = sqlite3_exec(a, sql, NULL, NULL, &message);
  ck_assert_msg(rc == SQLITE_OK || (is_limit_error(rc) && is_limit_text(message ? message : "")),
                "%s = %d: %s: code %d: %s", about, value, sql, rc, message);
  sqlite3_free(message);
  sqlite3_free(sql);
  return rc;
}

static void run_pair(const char *step, const char *about, int value) {
  bool paired = strchr(step, '@') != NULL;
  if (!paired) {
    run(step, 0, about, value);
    return;
  }
  bool outermost = sqlite3_get_autocommit(a);
  sqlite3_exec(a, "SAVEPOINT pair", NULL, NULL, NULL);
  bool both =
      run(step, 't', about, value) == SQLITE_OK && run(step, 'o', about, value) == SQLITE_OK;
  if (!both && !sqlite3_get_autocommit(a)) sqlite3_exec(a, "ROLLBACK TO pair", NULL, NULL, NULL);
  if (!sqlite3_get_autocommit(a)) run("RELEASE pair", 0, about, value);
  if (outermost && !sqlite3_get_autocommit(a)) sql_ok(a, "ROLLBACK");
}

static void check_afterwards(void) {
  if (!sqlite3_get_autocommit(a)) sql_ok(a, "ROLLBACK");
  twins_same(a);
  twins_same(b);
  sql_rows(a, "SELECT * FROM colfam_check('t')", "");
  sql_rows(a,
           "SELECT count(*) - 3 * (SELECT count(*) FROM sqlite_schema WHERE sql LIKE 'CREATE V%')"
           " FROM sqlite_schema WHERE name GLOB '*_cf*'",
           "0");
  sql_ok(a, "DROP TABLE IF EXISTS n; DROP TABLE IF EXISTS n2");
}

/* Half of the runs have a connection whose statements are prepared before the limit comes. */
static void run_under(const struct limit *limit, int value, bool warm) {
  sql_close(a);
  a = twins_connect();
  sql_ok(a, "SELECT 1 FROM o"); /* reads the schema */
  if (warm) sql_ok(a, "INSERT INTO t VALUES(999, 1); DELETE FROM t WHERE k = 999");
  int before = sqlite3_limit(a, limit->id, value);
  for (size_t i = 0; i < sizeof script / sizeof *script; i++)
    run_pair(script[i], limit->name, value);
  sqlite3_limit(a, limit->id, before);
  check_afterwards();
  sql_ok(a, "DELETE FROM t WHERE k > 200; DELETE FROM o WHERE k > 200");
  twins_same(a);
}

START_TEST(script_under_small_limits) {
  const struct limit *limit = &limits[_i];
  twins_insert(a, 1, 40);
  sql_ok(a, "INSERT INTO t(t) VALUES('flush')");
  twins_insert(a, 41, 60);
  for (int i = 0; limit->values[i]; i++) {
    run_under(limit, limit->values[i], false);
    run_under(limit, limit->values[i], true);
  }
}
END_TEST

/* Rows each within the limit: the transaction as a whole may be larger. */
START_TEST(transaction_larger_than_the_longest_value) {
  sqlite3_limit(a, SQLITE_LIMIT_LENGTH, 1000);
  for (int i = 0; i < 3; i++) {
    sql_ok(a, "BEGIN");
    twins_insert(a, 1000 * i, 1000 * i + 300);
    sql_ok(a, "COMMIT");
    twins_same(a);
  }
  twins_both(a, "DELETE FROM @ WHERE k % 3");
  twins_same(a);
  twins_same(b);
}
END_TEST

START_TEST(value_longer_than_the_limit_is_refused_as_in_ordinary_tables) {
  sqlite3_limit(a, SQLITE_LIMIT_LENGTH, 1000);
  sql_ok(a, "BEGIN; INSERT INTO t VALUES(1, 'x')");
  for (int i = 0; i < 2; i++) {
    char *sql = sqlite3_mprintf("INSERT INTO %s VALUES(2, zeroblob(1001))", i ? "o" : "t");
    sql_fails(a, sql, SQLITE_TOOBIG, NULL);
    sqlite3_free(sql);
  }
  sql_ok(a, "INSERT INTO o VALUES(1, 'x'); COMMIT");
  twins_same(a);
}
END_TEST

START_TEST(space_that_runs_out_at_create_leaves_nothing) {
  sqlite3_int64 pages = sql_int(a, "PRAGMA page_count");
  for (int more = 0; more < 8; more++) {
    sql_okf(a, "PRAGMA max_page_count = %lld", pages + more);
    int rc =
        sqlite3_exec(a, "CREATE VIRTUAL TABLE n USING colfam(k PRIMARY KEY)", NULL, NULL, NULL);
    ck_assert_msg(rc == SQLITE_OK || rc == SQLITE_FULL, "%d pages: %d", more, rc);
    ck_assert_int_eq(sql_int(a, "SELECT count(*) FROM sqlite_schema WHERE name GLOB 'n*'"),
                     rc == SQLITE_OK ? 4 : 0);
    if (rc == SQLITE_OK) sql_ok(a, "INSERT INTO n VALUES(1); DROP TABLE n; VACUUM");
  }
  sql_ok(a, "PRAGMA max_page_count = 100000; CREATE VIRTUAL TABLE n USING colfam(k PRIMARY KEY);"
            "INSERT INTO n VALUES(1); DROP TABLE n");
}
END_TEST

int main(void) {
  Suite *suite = suite_create("sql_limits");
  TCase *tc = tcase_create("limits");
  tcase_set_timeout(tc, 60);
  tcase_add_checked_fixture(tc, twins_open_wal, twins_close);
  tcase_add_loop_test(tc, script_under_small_limits, 0, sizeof limits / sizeof *limits);
  tcase_add_test(tc, transaction_larger_than_the_longest_value);
  tcase_add_test(tc, value_longer_than_the_limit_is_refused_as_in_ordinary_tables);
  tcase_add_test(tc, space_that_runs_out_at_create_leaves_nothing);
  suite_add_tcase(suite, tc);
  return harness_run(suite);
}
