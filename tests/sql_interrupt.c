/* A progress handler that fires at the first opcode, at the second, and so on: a script of transactions on a
** colfam table and its ordinary twin is then done or undone as a whole, whatever statement is hit, those on
** shadow tables included; SQLITE_INTERRUPT is the code. And sqlite3_interrupt from another thread. */
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "harness_twins.h"

static int interrupt_at(void *left) {
  return --*(int *)left == 0;
}

/* Scripts whose last transaction does the same to both, and what takes it back. */
struct script {
  const char *name, *text, *undo;
};

static const struct script scripts[] = {
    {"insert",
     "BEGIN; INSERT INTO t VALUES(900, 'x'), (901, 'y'); INSERT INTO o VALUES(900, 'x'), (901, "
     "'y');"
     "COMMIT",
     "DELETE FROM t WHERE k >= 900; DELETE FROM o WHERE k >= 900"},
    {"insert_select",
     "BEGIN; INSERT INTO t SELECT k + 900, v FROM t; INSERT INTO o SELECT k + 900, v FROM o; "
     "COMMIT",
     "DELETE FROM t WHERE k >= 900; DELETE FROM o WHERE k >= 900"},
    {"update_keys",
     "BEGIN; UPDATE t SET k = -k WHERE k < 20; UPDATE o SET k = -k WHERE k < 20; COMMIT",
     "UPDATE t SET k = -k WHERE k < 0; UPDATE o SET k = -k WHERE k < 0"},
    {"savepoints",
     "BEGIN; INSERT INTO o VALUES(900, 'x'); SAVEPOINT s; INSERT INTO t VALUES(900, 'x');"
     "DELETE FROM t WHERE k < 20; ROLLBACK TO s; INSERT INTO t VALUES(900, 'x'); COMMIT",
     "DELETE FROM t WHERE k >= 900; DELETE FROM o WHERE k >= 900"},
    {"flush_and_compact",
     "BEGIN; DELETE FROM t WHERE k = 7; DELETE FROM o WHERE k = 7;"
     "INSERT INTO t(t) VALUES('flush'); COMMIT;"
     "INSERT INTO t(t) VALUES('compact'); INSERT INTO t(t) VALUES('filter_bits=7')",
     "INSERT OR REPLACE INTO t VALUES(7, 'x'); INSERT OR REPLACE INTO o VALUES(7, 'x')"},
    {"reads",
     "SELECT * FROM t WHERE k IN (1, 5, 900); SELECT count(*), max(k) FROM t WHERE k > 10;"
     "SELECT * FROM t ORDER BY k DESC; SELECT * FROM colfam_check('t');"
     "SELECT * FROM colfam_families; SELECT * FROM colfam_files('t')",
     ""},
    {"create",
     "BEGIN; CREATE VIRTUAL TABLE n USING colfam(k PRIMARY KEY); INSERT INTO n VALUES(1);"
     "CREATE TABLE m(k PRIMARY KEY) WITHOUT ROWID; INSERT INTO m VALUES(1); COMMIT",
     "DROP TABLE IF EXISTS n; DROP TABLE IF EXISTS m"},
    {"rename",
     "BEGIN; ALTER TABLE t RENAME TO n; INSERT INTO n VALUES(900, 'x');"
     "ALTER TABLE o RENAME TO m; INSERT INTO m VALUES(900, 'x'); COMMIT",
     "ALTER TABLE n RENAME TO t; ALTER TABLE m RENAME TO o; DELETE FROM t WHERE k = 900;"
     "DELETE FROM o WHERE k = 900"},
    {"drop",
     "BEGIN; INSERT INTO t VALUES(900, 'x'); INSERT INTO o VALUES(900, 'x'); DROP TABLE extra;"
     "DROP TABLE twin; COMMIT",
     "DELETE FROM t WHERE k = 900; DELETE FROM o WHERE k = 900;"
     "CREATE VIRTUAL TABLE IF NOT EXISTS extra USING colfam(k PRIMARY KEY);"
     "INSERT OR IGNORE INTO extra VALUES(1); INSERT INTO extra(extra) VALUES('flush');"
     "CREATE TABLE IF NOT EXISTS twin(k)"},
    {"drop_to_savepoint",
     "BEGIN; INSERT INTO t VALUES(900, 'x'); SAVEPOINT s; DROP TABLE t; ROLLBACK TO s;"
     "INSERT INTO o VALUES(900, 'x'); COMMIT",
     "DELETE FROM t WHERE k = 900; DELETE FROM o WHERE k = 900"},
};

/* Each colfam table has its ordinary twin, and its shadow tables. */
static void check_schema(void) {
  sql_rows(a,
           "SELECT colfam.name, ordinary.name FROM"
           " (VALUES('t', 'o'), ('n', 'm'), ('extra', 'twin')) AS pair"
           " LEFT JOIN sqlite_schema AS colfam ON colfam.name = pair.column1"
           " LEFT JOIN sqlite_schema AS ordinary ON ordinary.name = pair.column2"
           " WHERE (colfam.name IS NULL) <> (ordinary.name IS NULL)",
           "");
  sql_rows(a,
           "SELECT count(*) - 3 * (SELECT count(*) FROM sqlite_schema WHERE sql LIKE 'CREATE V%')"
           " FROM sqlite_schema WHERE name GLOB '*_cf*'",
           "0");
}

static bool has_table(const char *name) {
  char *sql = sqlite3_mprintf("SELECT count(*) FROM sqlite_schema WHERE name = %Q", name);
  bool found = sql_int(a, sql) > 0;
  sqlite3_free(sql);
  return found;
}

/* Takes back a script that was done, also when it was interrupted only after its COMMIT; what was not done
** has no table of the new name. */
static void take_back(const struct script *script, int n) {
  if (!sqlite3_get_autocommit(a)) sql_ok(a, "ROLLBACK");
  check_schema();
  if (has_table("t")) twins_same(a);
  for (const char *sql = script->undo; *sql;) {
    sqlite3_stmt *stmt;
    int rc = sqlite3_prepare_v2(a, sql, -1, &stmt, &sql);
    if (rc == SQLITE_OK) rc = sqlite3_step(stmt);
    sqlite3_finalize(stmt);
    const char *text = sqlite3_errmsg(a);
    ck_assert_msg(rc == SQLITE_DONE || strstr(text, "no such table"),
                  "%s: opcode %d: taking back: %s", script->name, n, text);
    while (*sql == ' ') sql++;
  }
  twins_same(a);
  sql_rows(a, "SELECT * FROM colfam_check('t')", "");
}

START_TEST(every_opcode_of_a_script) {
  const struct script *script = &scripts[_i];
  twins_insert(a, 1, 40);
  sql_ok(a, "INSERT INTO t(t) VALUES('flush')");
  twins_insert(a, 41, 60);
  sql_ok(a, "CREATE TABLE twin(k); CREATE VIRTUAL TABLE extra USING colfam(k PRIMARY KEY);"
            "INSERT INTO extra VALUES(1)");
  int interrupted = 0, rc = SQLITE_INTERRUPT;
  for (int n = 1; rc != SQLITE_OK; n += 1 + n / 40) {
    int left = n;
    sqlite3_progress_handler(a, 1, interrupt_at, &left);
    rc = sqlite3_exec(a, script->text, NULL, NULL, NULL);
    sqlite3_progress_handler(a, 0, NULL, NULL);
    ck_assert_msg(rc == SQLITE_OK || rc == SQLITE_INTERRUPT, "%s: opcode %d: code %d: %s",
                  script->name, n, rc, sqlite3_errmsg(a));
    take_back(script, n);
    interrupted++;
  }
  ck_assert_int_gt(interrupted, 50);
}
END_TEST

/* ---- From another thread */

static bool stop; /* atomic */

static void *keep_interrupting(void *db) {
  while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) sqlite3_interrupt(db);
  return NULL;
}

START_TEST(another_thread_interrupts) {
  twins_insert(a, 1, 200);
  pthread_t thread;
  ck_assert_int_eq(pthread_create(&thread, NULL, keep_interrupting, a), 0);
  int interrupted = 0;
  for (int i = 0; i < 300; i++) {
    const struct script *script = &scripts[i % 3];
    int rc = sqlite3_exec(a, script->text, NULL, NULL, NULL);
    ck_assert_msg(rc == SQLITE_OK || rc == SQLITE_INTERRUPT || rc == SQLITE_CONSTRAINT_PRIMARYKEY,
                  "code %d: %s", rc, sqlite3_errmsg(a));
    interrupted += rc == SQLITE_INTERRUPT;
    while (!sqlite3_get_autocommit(a)) sqlite3_exec(a, "ROLLBACK", NULL, NULL, NULL);
  }
  __atomic_store_n(&stop, true, __ATOMIC_RELAXED);
  pthread_join(thread, NULL);
  ck_assert_int_gt(interrupted, 0);
  twins_same(a);
  twins_same(b);
}
END_TEST

/* ---- Inside a transaction */

START_TEST(interrupted_statement_ends_the_transaction_as_ordinary_tables_do) {
  twins_insert(a, 1, 60);
  static const char *const texts[] = {"INSERT INTO %s SELECT k + 900, v FROM %s",
                                      "UPDATE %s SET v = 'x'", "DELETE FROM %s WHERE v > 'a'",
                                      "SELECT max(v) FROM %s"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    int ended[2];
    for (int j = 0; j < 2; j++) {
      const char *name = j ? "o" : "t";
      char *sql = sqlite3_mprintf(texts[i], name, name);
      sql_ok(a, "BEGIN; INSERT INTO t VALUES(800, 1); INSERT INTO o VALUES(800, 1)");
      int left = 60;
      sqlite3_progress_handler(a, 1, interrupt_at, &left);
      ck_assert_int_eq(sqlite3_exec(a, sql, NULL, NULL, NULL), SQLITE_INTERRUPT);
      sqlite3_progress_handler(a, 0, NULL, NULL);
      ended[j] = sqlite3_get_autocommit(a);
      twins_same(a);
      if (!ended[j]) sql_ok(a, "ROLLBACK");
      sqlite3_free(sql);
    }
    ck_assert_msg(ended[0] == ended[1], "%s", texts[i]);
  }
}
END_TEST

static void add_cases(Suite *suite, const char *name, SFun open) {
  TCase *tc = tcase_create(name);
  tcase_set_timeout(tc, 120);
  tcase_add_checked_fixture(tc, open, twins_close);
  tcase_add_loop_test(tc, every_opcode_of_a_script, 0, sizeof scripts / sizeof *scripts);
  tcase_add_test(tc, another_thread_interrupts);
  tcase_add_test(tc, interrupted_statement_ends_the_transaction_as_ordinary_tables_do);
  suite_add_tcase(suite, tc);
}

int main(void) {
  Suite *suite = suite_create("sql_interrupt");
  add_cases(suite, "rollback journal", twins_open_delete);
  add_cases(suite, "wal", twins_open_wal);
  return harness_run(suite);
}
