/* An application's authorizer. A script runs on a colfam table and on its ordinary twin in one database;
** every question that SQLite asks the authorizer meanwhile, also for the statements on shadow tables, is
** answered once with SQLITE_DENY and once with SQLITE_IGNORE. Each step then works as on the twin, or fails
** with SQLITE_AUTH: never wrong rows, never half of a commit; without the authorizer all works on. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "harness_ddl.h"

static sqlite3 *db;

/* ---- Questions */

struct question {
  int action;
  char first[40], second[40];
};

enum { BLOCKS = 25, BLOCK = 8, NONE = 10000 };
static struct question asked[BLOCKS * BLOCK];
static size_t asked_count;

static size_t target = NONE; /* the question that is answered with `verdict` */
static int verdict;
static bool questions_open; /* new ones are noted */

/* Both tables of a pair are one to the questions. */
static void note_name(char *into, const char *name) {
  if (!name) name = "";
  if (!strcmp(name, "o")) name = "t";
  if (!strcmp(name, "m")) name = "n";
  if (!strcmp(name, "m2")) name = "n2";
  snprintf(into, sizeof asked->first, "%s", name);
}

static int authorize(void *unused, int action, const char *first, const char *second,
                     const char *database, const char *trigger) {
  (void)unused, (void)database, (void)trigger;
  struct question question = {.action = action};
  note_name(question.first, first);
  note_name(question.second, second);
  size_t i = 0;
  while (i < asked_count && memcmp(&asked[i], &question, sizeof question) != 0) i++;
  if (i == asked_count) {
    if (!questions_open) return SQLITE_OK;
    ck_assert_uint_lt(asked_count, sizeof asked / sizeof *asked);
    asked[asked_count++] = question;
  }
  return i == target ? verdict : SQLITE_OK;
}

static char about[200]; /* the run, for messages */

static void describe(size_t index, bool warm) {
  const struct question *question = &asked[index];
  snprintf(about, sizeof about, "action %d on %s.%s %s%s", question->action, question->first,
           question->second, verdict == SQLITE_DENY ? "denied" : "ignored", warm ? ", warm" : "");
}

/* Shadow tables are the business of one of the twins only. */
static bool is_of_shadow(const struct question *question) {
  return strstr(question->first, "t_cf") || strstr(question->second, "t_cf");
}

/* ---- The script: @ is each of the pair t, o and # each of the pair n, m */

static const char *const script[] = {
    "SELECT k, v FROM @ ORDER BY k",
    "SELECT v FROM @ WHERE k IN (1, 2, 30, 77)",
    "SELECT count(*) FROM @",
    "INSERT INTO @ VALUES(101, 'a'), (102, 'b')",
    "UPDATE @ SET v = 'c' WHERE k = 101",
    "INSERT OR REPLACE INTO @ VALUES(102, 'd')",
    "DELETE FROM @ WHERE k < 5",
    "INSERT INTO t(t) VALUES('flush')",
    "SELECT count(*), max(k) FROM @",
    "BEGIN",
    "INSERT INTO @ SELECT k + 1000, v FROM @",
    "SAVEPOINT s",
    "DELETE FROM @ WHERE k > 1050",
    "ROLLBACK TO s",
    "UPDATE @ SET k = k + 5000 WHERE k > 1060",
    "SELECT k, v FROM @ ORDER BY k",
    "COMMIT",
    "SELECT count(*), max(k) FROM @",
    "INSERT INTO t(t) VALUES('filter_bits=5')",
    "BEGIN",
    "INSERT INTO @ VALUES(201, 'a')",
    "INSERT INTO t(t) VALUES('compact')",
    "COMMIT",
    "INSERT INTO @ VALUES(202, 'b')",
    "SELECT k, v FROM @ ORDER BY k",
    "BEGIN",
    "INSERT INTO @ VALUES(203, 'b')",
    "ROLLBACK",
    "SELECT * FROM colfam_check('t')",
    "CREATE VIRTUAL TABLE n USING colfam(k PRIMARY KEY, v)",
    "CREATE TABLE m(k PRIMARY KEY, v) WITHOUT ROWID",
    "INSERT INTO # VALUES('x', 1)",
    "BEGIN",
    "INSERT INTO # VALUES('y', 2)",
    "ALTER TABLE # RENAME TO #2",
    "INSERT INTO #2 VALUES('z', 3)",
    "COMMIT",
    "SELECT k, v FROM #2 ORDER BY k",
    "BEGIN",
    "DROP TABLE #2",
    "INSERT INTO @ VALUES(301, 'e')",
    "COMMIT",
    "SELECT k, v FROM @ ORDER BY k",
};

static char *text_for(const char *step, bool twin) {
  sqlite3_str *text = sqlite3_str_new(NULL);
  for (const char *p = step; *p; p++) {
    char c = *p == '@' ? "to"[twin] : *p == '#' ? "nm"[twin] : *p;
    sqlite3_str_appendchar(text, 1, c);
  }
  return sqlite3_str_finish(text);
}

/* SQLite's own, of which some come as SQLITE_ERROR; a hidden value of t_cfmeta may be a damaged one, too. */
static bool is_refusal(const char *message) {
  return strstr(message, "prohibited") || strstr(message, "not authorized") ||
         strstr(message, "application's authorizer") ||
         strstr(message, "NOT NULL constraint failed") ||
         strstr(message, "vtable constructor failed: colfam_check");
}

/* SQLite's DDL does not stand it when its own statements on the schema are ignored. */
static bool breaks_schema(void) {
  if (target == NONE || verdict != SQLITE_IGNORE) return false;
  const struct question *question = &asked[target];
  return !strcmp(question->first, "sqlite_master") || !strcmp(question->second, "like") ||
         !strncmp(question->second, "sqlite_rename", 13);
}

/* Errors that follow from an earlier refusal. */
static bool is_consequence(const char *message) {
  return strstr(message, "no such savepoint") || strstr(message, "no transaction is active") ||
         strstr(message, "within a transaction") || strstr(message, "no such table: n") ||
         strstr(message, "no such table: m") || strstr(message, "no such table: main.n") ||
         strstr(message, "no such table: main.m");
}

static void append_row(sqlite3_str *rows, sqlite3_stmt *stmt) {
  for (int i = 0; i < sqlite3_column_count(stmt); i++)
    sqlite3_str_appendf(rows, "%s|", (const char *)sqlite3_column_text(stmt, i));
  sqlite3_str_appendchar(rows, 1, '\n');
}

/* The step's rows, or NULL after a refusal. */
static char *run(const char *step, bool twin) {
  char *text = text_for(step, twin);
  sqlite3_stmt *stmt = NULL;
  sqlite3_str *rows = sqlite3_str_new(NULL);
  int rc = sqlite3_prepare_v2(db, text, -1, &stmt, NULL);
  if (rc == SQLITE_OK) {
    while (sqlite3_step(stmt) == SQLITE_ROW) append_row(rows, stmt);
    rc = sqlite3_reset(stmt);
  }
  const char *message = sqlite3_errmsg(db);
  bool refused = rc == SQLITE_AUTH || is_refusal(message);
  ck_assert_msg(rc == SQLITE_OK || refused || breaks_schema() || is_consequence(message),
                "%s: %s: code %d: %s", about, text, rc, message);
  sqlite3_finalize(stmt);
  sqlite3_free(text);
  char *result = sqlite3_str_finish(rows);
  if (result) sql_settle_order("", result); /* by keys that are ignored, ORDER BY is none */
  if (rc == SQLITE_OK) return result ? result : sqlite3_mprintf("");
  sqlite3_free(result);
  return NULL;
}

/* False when the twins have gone apart: one was refused what the other was allowed. */
static bool run_step(const char *step) {
  char *rows = run(step, false);
  bool paired = strchr(step, '@') || strchr(step, '#');
  char *other = paired && rows ? run(step, true) : NULL;
  bool together = !paired || !rows == !other;
  if (other) ck_assert_msg(!strcmp(rows, other), "%s: %s: %s, not %s", about, step, rows, other);
  sqlite3_free(rows);
  sqlite3_free(other);
  return together;
}

/* ---- Runs */

static void make_database(void) {
  db = sql_open(sql_path("app.db"));
  sql_ok(db, "PRAGMA journal_mode = wal; PRAGMA synchronous = off;"
             "CREATE TABLE o(k INT PRIMARY KEY, v) WITHOUT ROWID;"
             "CREATE VIRTUAL TABLE t USING colfam(k INT PRIMARY KEY, v, memtable_bytes = 16384);"
             "WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n WHERE i < 60)"
             "INSERT INTO o SELECT i, 'v' || i FROM n;"
             "INSERT INTO t SELECT * FROM o WHERE k < 50; INSERT INTO t(t) VALUES('flush');"
             "INSERT INTO t SELECT * FROM o WHERE k >= 50");
  sql_close(db);
}

/* Every colfam table has its three shadow tables, and nobody else has one. */
static void check_schema(void) {
  sql_rows(db,
           "SELECT name FROM sqlite_schema WHERE name GLOB '*_cf*' AND name NOT GLOB 'sqlite_*'"
           " EXCEPT SELECT t.name || s.value FROM sqlite_schema AS t,"
           "  json_each('[\"_cfmeta\", \"_cffile\", \"_cflog\"]') AS s"
           " WHERE t.sql LIKE 'CREATE VIRTUAL%'",
           "");
  ck_assert_msg(
      sql_int(db, "SELECT count(*) FROM sqlite_schema WHERE name GLOB '*_cf*'") ==
          3 * sql_int(db, "SELECT count(*) FROM sqlite_schema WHERE sql LIKE 'CREATE V%'"),
      "%s: shadow tables are missing", about);
}

static void check_afterwards(bool together) {
  sqlite3_set_authorizer(db, NULL, NULL);
  if (breaks_schema()) {
    sqlite3_close(db);
    return;
  }
  if (!sqlite3_get_autocommit(db)) sql_ok(db, "ROLLBACK");
  for (int i = 0; i < 2; i++) {
    if (together)
      sql_same(db, "SELECT k, v, (SELECT count(*) FROM t) FROM t ORDER BY k",
               "SELECT k, v, (SELECT count(*) FROM o) FROM o ORDER BY k");
    sql_rows(db, "SELECT * FROM colfam_check('t')", "");
    check_schema();
    sql_ok(db, "INSERT OR REPLACE INTO t VALUES(9000, 1); DELETE FROM t WHERE k = 9000; VACUUM");
    sql_close(db);
    db = sql_open(sql_path("app.db"));
    sql_ok(db, "PRAGMA synchronous = off");
  }
  sql_ok(db, "DROP TABLE t");
  sql_close(db);
}

static void run_script(bool warm) {
  harness_remove_tree(sql_path("app.db-colfam"));
  remove(sql_path("app.db"));
  make_database();
  db = sql_open(sql_path("app.db"));
  sql_ok(db, "PRAGMA synchronous = off");
  if (warm) sql_ok(db, "INSERT INTO t VALUES(900, 1); DELETE FROM t WHERE k = 900");
  sqlite3_set_authorizer(db, authorize, NULL);
  bool together = true;
  for (size_t i = 0; i < sizeof script / sizeof *script; i++) together &= run_step(script[i]);
  bool strict = target == NONE || is_of_shadow(&asked[target]);
  ck_assert_msg(together || !strict, "%s: twins apart", about);
  check_afterwards(together);
}

static void collect_questions(void) {
  questions_open = true;
  run_script(false);
  questions_open = false;
  ck_assert_uint_gt(asked_count, 50);
}

/* CREATE TABLE ... WITHOUT ROWID goes on with the index that it was not given. */
static bool crashes_sqlite(void) {
  return verdict == SQLITE_IGNORE && asked[target].action == SQLITE_CREATE_INDEX;
}

/* One block of the questions; half of the runs have statements prepared before the authorizer comes. */
static void answer(int block, int answer_with) {
  collect_questions();
  ck_assert_uint_lt(asked_count, BLOCKS * BLOCK);
  for (int i = 0; i < 2 * BLOCK; i++) {
    target = (size_t)block * BLOCK + (size_t)i / 2;
    if (target >= asked_count) break;
    verdict = answer_with;
    if (crashes_sqlite()) continue;
    describe(target, i % 2);
    run_script(i % 2);
  }
}

START_TEST(questions_denied) {
  answer(_i, SQLITE_DENY);
}
END_TEST

START_TEST(questions_ignored) {
  answer(_i, SQLITE_IGNORE);
}
END_TEST

/* ---- When a refusal comes */

static int refuse_log(void *unused, int action, const char *first, const char *second,
                      const char *database, const char *trigger) {
  (void)unused, (void)second, (void)database, (void)trigger;
  bool log = first && !strcmp(first, "t_cflog");
  return log && (action == SQLITE_INSERT || action == SQLITE_DELETE) ? SQLITE_DENY : SQLITE_OK;
}

START_TEST(refusal_comes_with_the_first_write) {
  make_database();
  db = sql_open(sql_path("app.db"));
  if (_i) sql_ok(db, "INSERT INTO t VALUES(900, 1)");
  sqlite3_set_authorizer(db, refuse_log, NULL);
  sql_ok(db, "BEGIN; INSERT INTO o VALUES(901, 1); SELECT * FROM t");
  sql_fails(db, "INSERT INTO t VALUES(901, 1)", SQLITE_AUTH, NULL);
  sql_ok(db, "COMMIT");
  sql_rows(db, "SELECT count(*) FROM o WHERE k = 901", "1");
  sqlite3_set_authorizer(db, NULL, NULL);
  sql_ok(db, "INSERT INTO t VALUES(901, 1)");
  sql_close(db);
}
END_TEST

START_TEST(refusal_inside_a_transaction_undoes_it_at_commit) {
  make_database();
  db = sql_open(sql_path("app.db"));
  sql_ok(db, "BEGIN; INSERT INTO o VALUES(901, 1); INSERT INTO t VALUES(901, 1)");
  sqlite3_set_authorizer(db, refuse_log, NULL);
  sql_fails(db, "COMMIT", SQLITE_AUTH, NULL);
  ck_assert_int_eq(sqlite3_get_autocommit(db), 1);
  sqlite3_set_authorizer(db, NULL, NULL);
  sql_rows(db, "SELECT (SELECT count(*) FROM t WHERE k = 901), count(*) FROM o WHERE k = 901",
           "0|0");
  sql_ok(db, "INSERT INTO t VALUES(901, 1)");
  sql_close(db);
}
END_TEST

/* Files that wait for their removal stay when it cannot be known what a commit proves. */
static int refuse_pragmas(void *answer, int action, const char *first, const char *second,
                          const char *database, const char *trigger) {
  (void)first, (void)second, (void)database, (void)trigger;
  return action == SQLITE_PRAGMA && strcmp(first, "encoding") ? *(int *)answer : SQLITE_OK;
}

START_TEST(commits_work_and_files_stay_without_pragmas) {
  int answer = _i ? SQLITE_DENY : SQLITE_IGNORE;
  make_database();
  db = sql_open(sql_path("app.db"));
  sqlite3_set_authorizer(db, refuse_pragmas, &answer);
  int files = ddl_files();
  for (int i = 0; i < 5; i++)
    sql_ok(db, "UPDATE t SET v = v || 'x'; INSERT INTO t(t) VALUES('compact')");
  ck_assert_int_eq(ddl_files(), files + 5);
  sqlite3_set_authorizer(db, NULL, NULL);
  sql_ok(db, "UPDATE t SET v = 1; INSERT INTO t(t) VALUES('compact'); UPDATE t SET v = 2");
  sql_ok(db, "INSERT INTO t(t) VALUES('compact')");
  ck_assert_int_lt(ddl_files(), 3);
  sql_rows(db, "SELECT * FROM colfam_check('t')", "");
  sql_close(db);
}
END_TEST

static int ignore_encoding(void *unused, int action, const char *first, const char *second,
                           const char *database, const char *trigger) {
  (void)unused, (void)second, (void)database, (void)trigger;
  return action == SQLITE_PRAGMA && !strcmp(first, "encoding") ? SQLITE_IGNORE : SQLITE_OK;
}

START_TEST(encoding_that_cannot_be_asked_is_an_error) {
  db = sql_open(sql_path("wide.db"));
  sql_ok(db, "PRAGMA encoding = 'UTF-16'; CREATE TABLE o(x)");
  sqlite3_set_authorizer(db, ignore_encoding, NULL);
  sql_fails(db, "CREATE VIRTUAL TABLE t USING colfam(k TEXT PRIMARY KEY)", SQLITE_AUTH, "encoding");
  sqlite3_set_authorizer(db, NULL, NULL);
  sql_rows(db, "SELECT count(*) FROM sqlite_schema", "1");
  sql_close(db);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("sql_authorizer");
  TCase *tc = tcase_create("authorizer");
  tcase_set_timeout(tc, 120);
  tcase_add_loop_test(tc, questions_denied, 0, BLOCKS);
  tcase_add_loop_test(tc, questions_ignored, 0, BLOCKS);
  tcase_add_loop_test(tc, refusal_comes_with_the_first_write, 0, 2);
  tcase_add_test(tc, encoding_that_cannot_be_asked_is_an_error);
  tcase_add_test(tc, refusal_inside_a_transaction_undoes_it_at_commit);
  tcase_add_loop_test(tc, commits_work_and_files_stay_without_pragmas, 0, 2);
  suite_add_tcase(suite, tc);
  return harness_run(suite);
}
