/* Where functions and table-valued functions may be used: views and triggers, with trusted_schema on and off.
** What writes or touches files is for top-level statements alone (DIRECTONLY). */
#include <stdbool.h>
#include <string.h>

#include "harness_sql.h"

static sqlite3 *db;

enum rule {
  EVERYWHERE,   /* innocuous */
  WHEN_TRUSTED, /* views and triggers only while the schema is trusted */
  DIRECT        /* never in views and triggers */
};

static const struct {
  const char *expression; /* of a SELECT; or after FROM, when a table */
  bool table;
  enum rule rule;
} uses[] = {
    {"colfam_version()", false, EVERYWHERE},
    {"colfam_debug()", false, WHEN_TRUSTED},
    {"colfam_may_exist('t', 1)", false, WHEN_TRUSTED},
    {"colfam_config('threads')", false, DIRECT},
    {"colfam_config('threads', 1)", false, DIRECT},
    {"colfam_connection(NULL)", false, DIRECT},
    {"colfam_stats", true, WHEN_TRUSTED},
    {"colfam_families", true, WHEN_TRUSTED},
    {"colfam_files('t')", true, DIRECT},
    {"colfam_check('t')", true, DIRECT},
    {"colfam_flush('t')", true, DIRECT},
    {"colfam_compact('t')", true, DIRECT},
};
enum { USES = sizeof uses / sizeof *uses };

static void open_database(void) {
  db = sql_open(sql_path("app.db"));
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(k INT PRIMARY KEY); INSERT INTO t VALUES(1);"
             "CREATE TABLE o(k)");
}

static void close_database(void) {
  sql_close(db);
}

static char *select_of(int i) {
  return uses[i].table ? sqlite3_mprintf("SELECT count(*) FROM %s", uses[i].expression)
                       : sqlite3_mprintf("SELECT %s", uses[i].expression);
}

/* The statement works, or is refused as unsafe. */
static void expect(const char *sql, bool allowed) {
  if (allowed)
    sql_ok(db, sql);
  else
    sql_fails(db, sql, SQLITE_ERROR, "unsafe use of ");
}

static bool is_allowed(int i, bool trusted) {
  return uses[i].rule == EVERYWHERE || (uses[i].rule == WHEN_TRUSTED && trusted);
}

START_TEST(every_use_works_at_the_top) {
  for (int trusted = 0; trusted < 2; trusted++) {
    sql_okf(db, "PRAGMA trusted_schema = %d", trusted);
    char *select = select_of(_i);
    sql_ok(db, select);
    sqlite3_free(select);
  }
}
END_TEST

START_TEST(views_and_triggers_keep_to_the_rule) {
  char *select = select_of(_i);
  sql_okf(db, "CREATE VIEW v(x) AS %s", select);
  sql_okf(db, "CREATE TRIGGER r AFTER INSERT ON o BEGIN %s; END", select);
  for (int trusted = 1; trusted >= 0; trusted--) {
    sql_okf(db, "PRAGMA trusted_schema = %d", trusted);
    expect("SELECT * FROM v", is_allowed(_i, trusted));
    expect("SELECT k FROM o WHERE k IN (SELECT x FROM v)", is_allowed(_i, trusted));
    expect("INSERT INTO o VALUES(1)", is_allowed(_i, trusted));
  }
  sql_ok(db, "PRAGMA trusted_schema = on");
  expect("INSERT INTO o SELECT 2", is_allowed(_i, true));
  sqlite3_free(select);
}
END_TEST

/* What a connection itself has made in temp is its own. */
START_TEST(views_in_temp_may_use_all_tables) {
  if (!uses[_i].table) return;
  char *select = select_of(_i);
  sql_okf(db, "CREATE TEMP VIEW v AS %s", select);
  for (int trusted = 0; trusted < 2; trusted++) {
    sql_okf(db, "PRAGMA trusted_schema = %d", trusted);
    sql_ok(db, "SELECT * FROM v");
  }
  sqlite3_free(select);
}
END_TEST

/* DEFAULT, CHECK, indexes and generated columns are schema too, and take functions. */
START_TEST(no_function_but_the_innocuous_one_hides_in_a_table) {
  if (uses[_i].table) return;
  bool allowed = uses[_i].rule == EVERYWHERE;
  char *select = sqlite3_mprintf("CREATE TABLE d(k, x DEFAULT (%s))", uses[_i].expression);
  sql_ok(db, "PRAGMA trusted_schema = off");
  int rc = sqlite3_exec(db, select, NULL, NULL, NULL);
  if (rc == SQLITE_OK) expect("INSERT INTO d(k) VALUES(1)", allowed);
  sqlite3_free(select);
}
END_TEST

/* The table itself: reading and writing are refused alike where the schema is not trusted. */
START_TEST(tables_in_views_and_triggers) {
  sql_trust(db);
  sql_ok(db, "CREATE VIEW v AS SELECT k FROM t;"
             "CREATE TRIGGER r AFTER INSERT ON o BEGIN INSERT OR REPLACE INTO t VALUES(new.k); END;"
             "CREATE TRIGGER c AFTER DELETE ON o BEGIN INSERT INTO t(t) VALUES('flush'); END");
  sql_rows(db, "SELECT k FROM v", "1");
  sql_ok(db, "INSERT INTO o VALUES(7); DELETE FROM o");
  sql_ok(db, "PRAGMA trusted_schema = off");
  sql_fails(db, "SELECT k FROM v", SQLITE_ERROR, "unsafe use of virtual table \"t\"");
  sql_fails(db, "INSERT INTO o VALUES(8)", SQLITE_ERROR, "unsafe use of virtual table \"t\"");
  sql_rows(db, "SELECT k FROM t", "1\n7");
}
END_TEST

int main(void) {
  Suite *suite = suite_create("sql_flags");
  TCase *tc = tcase_create("sql_flags");
  tcase_add_checked_fixture(tc, open_database, close_database);
  tcase_add_loop_test(tc, every_use_works_at_the_top, 0, USES);
  tcase_add_loop_test(tc, views_and_triggers_keep_to_the_rule, 0, USES);
  tcase_add_loop_test(tc, views_in_temp_may_use_all_tables, 0, USES);
  tcase_add_loop_test(tc, no_function_but_the_innocuous_one_hides_in_a_table, 0, USES);
  tcase_add_test(tc, tables_in_views_and_triggers);
  suite_add_tcase(suite, tc);
  return harness_run(suite);
}
