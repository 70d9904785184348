/* What names of tables mean to calls of ext/colfam.h inside transactions of the application's, where a name
** that the last call has found is not looked for again: whatever may change its meaning must be noticed,
** though a prepared statement keeps SQLite's objects of the tables alive. */
#include "harness_api.h"

static sqlite3 *db;
static const struct colfam_api *api;
static sqlite3_stmt *reader;

#define MAKE "CREATE VIRTUAL TABLE t USING colfam(k INT PRIMARY KEY, v)"

static void open_database(void) {
  db = sql_open(sql_path("app.db"));
  api = api_of(db);
  api_make_numbers(db);
  ck_assert_int_eq(sqlite3_prepare_v2(db, "SELECT * FROM t WHERE k = 2", -1, &reader, NULL),
                   SQLITE_OK);
  ck_assert_int_eq(sqlite3_step(reader), SQLITE_ROW);
  ck_assert_int_eq(sqlite3_reset(reader), SQLITE_OK);
}

static void close_database(void) {
  sqlite3_finalize(reader);
  sql_close(db);
}

/* Whether the table has key 2, asked twice; or the code of the failure. */
static int ask(const char *table) {
  const struct colfam_value key = integer(2);
  const struct colfam_request one = request(table, &key, 1, 1);
  int said[2];
  for (int i = 0; i < 2; i++) {
    unsigned char answer = COLFAM_UNKNOWN;
    char *message = NULL;
    int rc = api->exists(api, &one, 1, &answer, &message);
    ck_assert_int_eq(rc != SQLITE_OK, message != NULL);
    sqlite3_free(message);
    said[i] = rc == SQLITE_OK ? answer == COLFAM_PRESENT : -rc;
  }
  ck_assert_int_eq(said[0], said[1]);
  return said[0];
}

enum { NONE = -SQLITE_ERROR, HERE = 1, WITHOUT = 0 };

static const char *const names[] = {"t", "u", "main.t"};
enum { NAMES = sizeof names / sizeof *names };

/* One name a run: an object keeps what it has found for the last name only. */
START_TEST(a_name_within_a_transaction) {
  sqlite3 *other = sql_open(sql_path("app.db"));
  static const struct {
    const char *here, *elsewhere, *then;
    int says[NAMES];
  } steps[] = {
      {"", "", "", {HERE, NONE, HERE}},
      {"BEGIN; SELECT count(*) FROM t", "", "", {HERE, NONE, HERE}},
      {"ALTER TABLE t RENAME TO u", "", "", {NONE, HERE, NONE}},
      {"ROLLBACK; BEGIN; SELECT count(*) FROM sqlite_schema", "", "", {HERE, NONE, HERE}},
      {"CREATE TABLE x(a)", "", "", {HERE, NONE, HERE}},
      {"ALTER TABLE x ADD COLUMN b", "", "", {HERE, NONE, HERE}},
      {"SAVEPOINT s; DROP TABLE t", "", "", {NONE, NONE, NONE}},
      {MAKE, "", "", {WITHOUT, NONE, WITHOUT}},
      {"ROLLBACK TO s", "", "", {HERE, NONE, HERE}},
      {"CREATE TEMP TABLE t(k)", "", "", {NONE, NONE, HERE}},
      {"DROP TABLE temp.t", "", "", {HERE, NONE, HERE}},
      {"CREATE VIRTUAL TABLE temp.t USING colfam(k INT PRIMARY KEY)",
       "",
       "",
       {WITHOUT, NONE, HERE}},
      {"ROLLBACK TO s", "", "", {HERE, NONE, HERE}},
      {"INSERT INTO t VALUES(1, 'one')", "", "", {HERE, NONE, HERE}},
      {"DELETE FROM t WHERE k = 2", "", "", {WITHOUT, NONE, WITHOUT}},
      {"ROLLBACK TO s", "", "", {HERE, NONE, HERE}},
      {"COMMIT", "ALTER TABLE t RENAME TO u;" MAKE, "BEGIN IMMEDIATE", {WITHOUT, HERE, WITHOUT}},
      {"COMMIT", "DROP TABLE t; ALTER TABLE u RENAME TO t", "BEGIN IMMEDIATE", {HERE, NONE, HERE}},
      {"COMMIT; BEGIN; SELECT count(*) FROM t", "", "", {HERE, NONE, HERE}},
      {"ALTER TABLE x ADD COLUMN c", "", "", {HERE, NONE, HERE}},
      {"ALTER TABLE t RENAME TO u", "", "", {NONE, HERE, NONE}},
      {"ALTER TABLE x ADD COLUMN d", "", "", {NONE, HERE, NONE}},
      {"DROP TABLE u", "", "", {NONE, NONE, NONE}},
  };
  for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
    sql_ok(db, steps[i].here);
    sql_ok(other, steps[i].elsewhere);
    sql_ok(db, steps[i].then);
    int says = ask(names[_i]);
    ck_assert_msg(says == steps[i].says[_i], "step %zu: %s says %d", i, names[_i], says);
    sqlite3_step(reader); /* has hold of the newest object from now on, if there is one */
    sqlite3_reset(reader);
  }
  sql_close(other);
}
END_TEST

static int deny_all(void *unused, int action, const char *a, const char *b, const char *c,
                    const char *d) {
  (void)unused, (void)action, (void)a, (void)b, (void)c, (void)d;
  return SQLITE_DENY;
}

START_TEST(an_authorizer_within_a_transaction) {
  sql_ok(db, "BEGIN; SELECT count(*) FROM t");
  ck_assert_int_eq(ask("t"), HERE);
  sqlite3_set_authorizer(db, deny_all, NULL);
  ck_assert_int_eq(ask("t"), -SQLITE_AUTH);
  sqlite3_set_authorizer(db, NULL, NULL);
  ck_assert_int_eq(ask("t"), HERE);
  sql_ok(db, "COMMIT");
}
END_TEST

/* A table of main's stands before one of an attached database. */
START_TEST(a_name_of_an_attached_database_within_a_transaction) {
  sql_okf(db,
          "ATTACH '%s' AS other; CREATE VIRTUAL TABLE other.w USING colfam(k INT PRIMARY KEY);"
          "INSERT INTO w VALUES(2)",
          sql_path("other.db"));
  sql_ok(db, "BEGIN; SELECT count(*) FROM w");
  ck_assert_int_eq(ask("w"), HERE);
  sql_ok(db, "CREATE TABLE w(k)");
  ck_assert_int_eq(ask("w"), NONE);
  ck_assert_int_eq(ask("other.w"), HERE);
  sql_ok(db, "ROLLBACK");
  ck_assert_int_eq(ask("w"), HERE);
}
END_TEST

static int count_statement(unsigned event, void *count, void *statement, void *text) {
  (void)event, (void)statement, (void)text;
  ++*(int *)count;
  return 0;
}

START_TEST(a_known_name_runs_no_statement) {
  int count = 0;
  ck_assert_int_eq(ask("t"), HERE);
  sqlite3_trace_v2(db, SQLITE_TRACE_STMT, count_statement, &count);
  ck_assert_int_eq(ask("t"), HERE);
  ck_assert_int_eq(count, 2);
  sql_ok(db, "BEGIN; SELECT count(*) FROM t; INSERT INTO t VALUES(1, 'one')");
  ck_assert_int_eq(ask("t"), HERE);
  count = 0;
  ck_assert_int_eq(ask("t"), HERE);
  ck_assert_int_eq(count,
                   sql_native() || sql_reverse() ? 0 : 2); /* an order's functions are asked for */
  sqlite3_trace_v2(db, 0, NULL, NULL);
  sql_ok(db, "COMMIT");
}
END_TEST

int main(void) {
  Suite *suite = suite_create("embed_api_names");
  TCase *tc = tcase_create("names");
  tcase_set_timeout(tc, 60);
  tcase_add_checked_fixture(tc, open_database, close_database);
  tcase_add_loop_test(tc, a_name_within_a_transaction, 0, NAMES);
  tcase_add_test(tc, a_name_of_an_attached_database_within_a_transaction);
  tcase_add_test(tc, an_authorizer_within_a_transaction);
  tcase_add_test(tc, a_known_name_runs_no_statement);
  suite_add_tcase(suite, tc);
  return harness_run(suite);
}
