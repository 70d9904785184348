/* Statements that run inside statements on the same table: from the application's SQL functions, aggregates
** and collations, from triggers. Rows and errors are those of an ordinary table. */
#include <stdbool.h>
#include <string.h>

#include "harness_twins.h"

/* ---- Functions of the application: run(sql) gives the first value, or the error's code and text */

static void run_sql(sqlite3_context *context, const char *sql) {
  sqlite3 *db = sqlite3_context_db_handle(context);
  sqlite3_stmt *stmt = NULL;
  int rc = sqlite3_prepare_v2(db, sql, -1, &stmt, NULL);
  if (rc == SQLITE_OK) rc = sqlite3_step(stmt);
  if (rc == SQLITE_ROW) sqlite3_result_value(context, sqlite3_column_value(stmt, 0));
  rc = sqlite3_finalize(stmt);
  if (rc != SQLITE_OK) sqlite3_result_int(context, -rc);
}

static void run_function(sqlite3_context *context, int argc, sqlite3_value **argv) {
  (void)argc;
  char *sql = sqlite3_mprintf("%s", (const char *)sqlite3_value_text(argv[0]));
  run_sql(context, sql);
  sqlite3_free(sql);
}

static void last_step(sqlite3_context *context, int argc, sqlite3_value **argv) {
  run_function(context, argc, argv);
}

static void last_final(sqlite3_context *context) {
  sqlite3_result_text(context, "done", -1, SQLITE_STATIC);
}

static const char *collation_sql;

static int compare(void *db, int a_bytes, const void *a_text, int b_bytes, const void *b_text) {
  sqlite3_exec(db, collation_sql, NULL, NULL, NULL);
  int order = memcmp(a_text, b_text, (size_t)(a_bytes < b_bytes ? a_bytes : b_bytes));
  return order ? order : a_bytes - b_bytes;
}

static void open_with_functions(void) {
  twins_open_wal();
  sqlite3_create_function(a, "run", 1, SQLITE_UTF8, NULL, run_function, NULL, NULL);
  sqlite3_create_function(a, "run_all", 1, SQLITE_UTF8, NULL, NULL, last_step, last_final);
  sqlite3_create_collation(a, "runs", SQLITE_UTF8, a, compare);
  twins_insert(a, 1, 20);
  sql_ok(a, "INSERT INTO t(t) VALUES('flush')");
  twins_insert(a, 21, 30);
}

/* The text with @ for the table. */
static char *text_for(const char *text, char table) {
  char *sql = sqlite3_mprintf("%s", text);
  for (char *p = sql; *p; p++) {
    if (*p == '@') *p = table;
  }
  return sql;
}

/* Rows and outcome of a statement. */
static char *outcome(const char *text, char table) {
  char *sql = text_for(text, table);
  sqlite3_str *rows = sqlite3_str_new(NULL);
  sqlite3_stmt *stmt = NULL;
  int rc = sqlite3_prepare_v2(a, sql, -1, &stmt, NULL);
  while (rc == SQLITE_OK && sqlite3_step(stmt) == SQLITE_ROW) {
    for (int i = 0; i < sqlite3_column_count(stmt); i++)
      sqlite3_str_appendf(rows, "%s|", (const char *)sqlite3_column_text(stmt, i));
    sqlite3_str_appendchar(rows, 1, '\n');
  }
  if (rc == SQLITE_OK) rc = sqlite3_reset(stmt);
  sqlite3_str_appendf(rows, "code %d, autocommit %d", rc, sqlite3_get_autocommit(a));
  sqlite3_finalize(stmt);
  sqlite3_free(sql);
  char *text_of_rows = sqlite3_str_finish(rows);
  sql_settle_order(text, text_of_rows);
  return text_of_rows;
}

/* The statement does the same to both tables, each in a transaction of its own or not. */
static void same_outcome(const char *text, bool in_transaction) {
  char *got[2];
  for (int i = 0; i < 2; i++) {
    if (in_transaction) sql_ok(a, "BEGIN");
    got[i] = outcome(text, "to"[i]);
    if (!sqlite3_get_autocommit(a)) sql_ok(a, "COMMIT");
  }
  ck_assert_msg(!strcmp(got[0], got[1]), "%s\n%s\nnot %s", text, got[0], got[1]);
  sqlite3_free(got[0]);
  sqlite3_free(got[1]);
  twins_same(a);
}

/* Writes go where the running scan of an ordinary table does not come by. */
static const char *const statements[] = {
    "SELECT k, run('SELECT count(*) FROM @') FROM @",
    "SELECT k, run('SELECT v FROM @ WHERE k = ' || (31 - k)) FROM @ WHERE k IN (1, 5, 9, 25)",
    "SELECT k, run('INSERT INTO @ VALUES(' || -k || ', 1)') FROM @ WHERE k > 0 ORDER BY k",
    "SELECT k, run('UPDATE @ SET v = 2 WHERE k = ' || -k) FROM @ WHERE k > 0 ORDER BY k",
    "SELECT k, run('DELETE FROM @ WHERE k = ' || -k) FROM @ WHERE k > 0 ORDER BY k",
    "SELECT run_all('INSERT OR REPLACE INTO @ VALUES(0, ' || k || ')') FROM (SELECT k FROM @"
    " WHERE k > 0 ORDER BY k)",
    "INSERT INTO @ SELECT k + 500, run('INSERT INTO @ VALUES(' || (k + 600) || ', 1)') FROM @"
    " WHERE k BETWEEN 1 AND 10",
    "UPDATE @ SET v = run('SELECT v FROM @ WHERE k = ' || (k + 1)) WHERE k < 10",
    "UPDATE @ SET v = run('SELECT sum(k) FROM @') WHERE k = 3",
    "DELETE FROM @ WHERE k = 5 AND run('SELECT count(*) FROM @') > 3",
    "SELECT run('INSERT INTO @ VALUES(1, 1)') FROM @ WHERE k = 4",
    "SELECT run('DROP TABLE @') FROM @ WHERE k = 4",
    "SELECT run('SAVEPOINT s') FROM @ WHERE k = 4",
    "SELECT run('ROLLBACK TO nothing') FROM @ WHERE k < 4",
    "SELECT max(run('WITH x AS (SELECT run(''SELECT count(*) FROM @'') AS n FROM @) SELECT max(n)"
    " FROM x')) FROM @ WHERE k < 4",
};

START_TEST(statements_inside_statements) {
  same_outcome(statements[_i / 2], _i % 2);
}
END_TEST

START_TEST(rollback_and_commit_inside_a_select) {
  static const char *const ends[] = {"ROLLBACK", "COMMIT", "ROLLBACK TO s", "RELEASE s"};
  for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
    char *text = sqlite3_mprintf(
        "SELECT k, CASE WHEN k = 3 THEN run('%s') END FROM @ WHERE k < 40 ORDER BY k", ends[i]);
    char *got[2];
    for (int j = 0; j < 2; j++) {
      sql_ok(a, "BEGIN; SAVEPOINT s; INSERT INTO t VALUES(35, 1); INSERT INTO o VALUES(35, 1)");
      got[j] = outcome(text, "to"[j]);
      if (!sqlite3_get_autocommit(a)) sql_ok(a, "ROLLBACK");
      twins_same(a);
      sql_ok(a, "DELETE FROM t WHERE k = 35; DELETE FROM o WHERE k = 35");
    }
    /* Where the rows go away under the scan the ordinary table's scan may miss them. */
    if (strncmp(ends[i], "ROLLBACK", 8) != 0) ck_assert_str_eq(got[0], got[1]);
    sqlite3_free(got[0]);
    sqlite3_free(got[1]);
    sqlite3_free(text);
  }
}
END_TEST

START_TEST(flush_and_compact_inside_a_select) {
  sql_rows(a,
           "SELECT count(run('INSERT INTO t(t) VALUES(' || CASE k % 2 WHEN 0 THEN '''flush'''"
           " ELSE '''compact''' END || ')')), count(*), max(v) FROM t",
           "0|30|value 9");
  twins_same(a);
}
END_TEST

START_TEST(collation_queries_and_writes_the_table_being_sorted) {
  static const char *const texts[] = {"SELECT count(*) FROM @; SELECT v FROM @ WHERE k = 7",
                                      "UPDATE @ SET v = v || 'x' WHERE k = 2",
                                      "INSERT OR REPLACE INTO @ VALUES(-1, 'first')"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    char *got[2];
    for (int j = 0; j < 2; j++) {
      char *sql = text_for(texts[i], "to"[j]);
      collation_sql = sql;
      got[j] = outcome("SELECT v FROM @ WHERE k > 2 ORDER BY v COLLATE runs", "to"[j]);
      collation_sql = "";
      sqlite3_free(sql);
    }
    ck_assert_str_eq(got[0], got[1]);
    sqlite3_free(got[0]);
    sqlite3_free(got[1]);
    twins_same(a);
  }
}
END_TEST

START_TEST(triggers_that_write_and_read_both) {
  sql_trust(a);
  sql_ok(a, "CREATE TABLE source(k, v);"
            "CREATE TRIGGER into_t AFTER INSERT ON source BEGIN"
            "  INSERT INTO t SELECT new.k, run('SELECT count(*) FROM t');"
            "  INSERT INTO o SELECT new.k, run('SELECT count(*) FROM o');"
            "  UPDATE t SET v = run('SELECT max(k) FROM t') WHERE k = new.k - 1;"
            "  UPDATE o SET v = run('SELECT max(k) FROM o') WHERE k = new.k - 1; END");
  sql_ok(a, "INSERT INTO source SELECT k + 100, v FROM t");
  twins_same(a);
  sql_ok(a, "BEGIN; INSERT INTO source SELECT k + 1000, v FROM o; COMMIT");
  twins_same(a);
}
END_TEST

/* ---- Triggers and views where shadow tables should be */

START_TEST(trigger_on_a_shadow_table_that_keeps_rows_out_is_an_error) {
  sql_trust(a);
  static const char *const shadows[] = {"t_cflog", "t_cffile", "t_cfmeta"};
  for (int i = 0; i < 3; i++) {
    sql_okf(a, "CREATE TRIGGER keep_out BEFORE INSERT ON %s BEGIN SELECT RAISE(IGNORE); END",
            shadows[i]);
    sql_ok(a, "BEGIN; INSERT INTO t VALUES(900, 1); INSERT INTO o VALUES(900, 1);"
              "INSERT INTO t(t) VALUES('flush')");
    int rc = sqlite3_exec(a, "COMMIT", NULL, NULL, NULL);
    ck_assert_msg(i == 0 || rc == SQLITE_CONSTRAINT_TRIGGER, "%s: %d", shadows[i], rc);
    sql_okf(a, "DROP TRIGGER keep_out; DELETE FROM o WHERE k = 900; DELETE FROM t WHERE k = 900");
    twins_same(a);
  }
  sql_ok(a, "CREATE TRIGGER keep_out BEFORE INSERT ON t_cflog BEGIN SELECT RAISE(IGNORE); END");
  sql_fails(a, "INSERT INTO t VALUES(901, 1)", SQLITE_CONSTRAINT_TRIGGER, "triggers");
  sql_ok(a, "DROP TRIGGER keep_out");
  twins_same(a);
}
END_TEST

START_TEST(trigger_on_a_shadow_table_that_writes_the_table_is_an_error) {
  sql_trust(a);
  static const char *const shadows[] = {"t_cflog", "t_cffile", "t_cfmeta"};
  for (int i = 0; i < 3; i++) {
    sql_okf(a,
            "CREATE TRIGGER again AFTER INSERT ON %s BEGIN"
            "  INSERT OR REPLACE INTO t VALUES(900, 1);"
            "  INSERT INTO t(t) VALUES('filter_bits=9'); END",
            shadows[i]);
    static const char *const texts[] = {"INSERT INTO t(t) VALUES('filter_bits=8')",
                                        "BEGIN; INSERT INTO t VALUES(901, 1); COMMIT",
                                        "BEGIN; INSERT INTO t VALUES(902, 1);"
                                        "INSERT INTO t(t) VALUES('flush'); COMMIT"};
    for (int j = 0; j < 3; j++) {
      sqlite3_exec(a, texts[j], NULL, NULL, NULL);
      if (!sqlite3_get_autocommit(a)) sql_ok(a, "ROLLBACK");
    }
    sql_ok(a, "DROP TRIGGER again; DELETE FROM t WHERE k > 899");
    twins_same(a);
  }
}
END_TEST

START_TEST(view_on_the_table_in_a_shadow_tables_place_is_an_error) {
  sql_trust(a);
  sql_ok(a, "ALTER TABLE t_cfmeta RENAME TO real;"
            "CREATE VIEW t_cfmeta AS SELECT name, value FROM real WHERE (SELECT count(*) FROM t)");
  sqlite3 *fresh = twins_connect();
  int rc = sqlite3_exec(fresh, "SELECT * FROM t", NULL, NULL, NULL);
  ck_assert_int_ne(rc, SQLITE_OK);
  sql_close(fresh);
  sql_ok(a, "DROP VIEW t_cfmeta; ALTER TABLE real RENAME TO t_cfmeta");
  twins_same(a);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("sql_reentrant");
  TCase *tc = tcase_create("reentrant");
  tcase_add_checked_fixture(tc, open_with_functions, twins_close);
  tcase_add_loop_test(tc, statements_inside_statements, 0,
                      2 * (int)(sizeof statements / sizeof *statements));
  tcase_add_test(tc, rollback_and_commit_inside_a_select);
  tcase_add_test(tc, flush_and_compact_inside_a_select);
  tcase_add_test(tc, collation_queries_and_writes_the_table_being_sorted);
  tcase_add_test(tc, triggers_that_write_and_read_both);
  tcase_add_test(tc, trigger_on_a_shadow_table_that_keeps_rows_out_is_an_error);
  tcase_add_test(tc, trigger_on_a_shadow_table_that_writes_the_table_is_an_error);
  tcase_add_test(tc, view_on_the_table_in_a_shadow_tables_place_is_an_error);
  suite_add_tcase(suite, tc);
  return harness_run(suite);
}
