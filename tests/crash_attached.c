/* Death at named places (ext/killpoint.h) of commits that span two database files. A child writes numbered
** transactions to an ordinary table and a colfam table of main and of an attached file, acknowledges each
** through a pipe, and dies by SIGKILL. Afterwards the two tables of each file have the same rows, of all that
** was acknowledged and of at most one transaction more; with rollback journals it is the same one in both.
** Temporary tables of the child take part and must not be in the way. */
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness_sql.h"

#define HITS 4           /* of a point, in each journal mode */
#define TRANSACTIONS 200 /* of a child that nothing kills */

static const char *const schemas[] = {"main", "aux"};

/* ---- The child */

static void child_run(sqlite3 *db, const char *format, ...) {
  va_list args;
  va_start(args, format);
  char *sql = sqlite3_vmprintf(format, args);
  va_end(args);
  if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK) {
    fprintf(stderr, "child: %.200s: %s\n", sql, sqlite3_errmsg(db));
    _exit(3);
  }
  sqlite3_free(sql);
}

static void child_change(sqlite3 *db, const char *schema, long long number) {
  static const char *const tables[] = {"plain", "family"};
  for (int i = 0; i < 2; i++)
    child_run(db,
              "INSERT OR REPLACE INTO %s.%s VALUES(0, %lld);"
              "WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n WHERE i < 9)"
              "INSERT OR REPLACE INTO %s.%s SELECT 1 + (i * 37 + %lld * 11) %% 500,"
              " printf('%%0*d', 200, %lld) FROM n",
              schema, tables[i], number, schema, tables[i], number, number);
}

/* A colfam table of the attached file that comes and goes with writes pending. */
static void child_ddl(sqlite3 *db, long long number) {
  if (number % 4 == 1)
    child_run(
        db,
        "CREATE VIRTUAL TABLE IF NOT EXISTS aux.other USING colfam(k INT PRIMARY KEY);"
        "INSERT OR REPLACE INTO aux.other VALUES(1); INSERT INTO aux.other(other) VALUES('flush')");
  if (number % 4 == 3)
    child_run(db, "SAVEPOINT s; DROP TABLE IF EXISTS aux.other; ROLLBACK TO s;"
                  "DROP TABLE IF EXISTS aux.other");
}

static void child_transaction(sqlite3 *db, long long number) {
  child_run(db, "BEGIN IMMEDIATE; INSERT INTO temp.scratch VALUES(%lld)", number);
  child_ddl(db, number);
  for (int i = 0; i < 2; i++) child_change(db, schemas[i], number);
  if (number % 5 == 2) child_run(db, "INSERT INTO aux.family(family) VALUES('compact')");
  if (number % 7 == 3) child_run(db, "INSERT INTO main.family(family) VALUES('flush')");
  child_run(db, "COMMIT");
}

/* argv: program, "child", main file, attached file, first number, pipe. */
static int child_main(char **argv) {
  sqlite3 *db;
  long long first = strtoll(argv[4], NULL, 10);
  int acknowledged = (int)strtol(argv[5], NULL, 10);
  if (sqlite3_open(argv[2], &db) != SQLITE_OK || sql_load(db, NULL) != SQLITE_OK) return 2;
  child_run(db, "ATTACH %Q AS aux; CREATE VIRTUAL TABLE temp.scratch USING colfam(k)", argv[3]);
  for (long long number = first; number < first + TRANSACTIONS; number++) {
    child_transaction(db, number);
    if (write(acknowledged, &number, sizeof number) != sizeof number) return 4;
  }
  sqlite3_close(db);
  return 0;
}

/* ---- The parent */

static const char *const points[] = {"job",    "published", "sync-logged", "synced",
                                     "commit", "removed",   "committed"};
#define POINTS (sizeof points / sizeof *points)

static char main_path[4096], aux_path[4096];

static void exec_child(const char *point, int nth, long long first, int pipe_end) {
  char number[32], end[32], kill_text[64];
  snprintf(number, sizeof number, "%lld", first);
  snprintf(end, sizeof end, "%d", pipe_end);
  snprintf(kill_text, sizeof kill_text, "%s:%d", point, nth);
  setenv("COLFAM_KILL", kill_text, 1);
  const char *so = getenv("COLFAM_TEST_SO");
  setenv("COLFAM_SO", so ? so : COLFAM_TEST_SO, 1);
  execl("/proc/self/exe", "crash_attached", "child", main_path, aux_path, number, end,
        (char *)NULL);
  _exit(127);
}

/* The last number that the child acknowledged. */
static long long kill_child(const char *point, int nth, long long first) {
  int ends[2], status;
  long long last = first - 1, number;
  ck_assert_int_eq(pipe(ends), 0);
  pid_t pid = fork();
  if (pid == 0) exec_child(point, nth, first, ends[1]);
  ck_assert_int_gt(pid, 0);
  close(ends[1]);
  while (read(ends[0], &number, sizeof number) == (ssize_t)sizeof number) last = number;
  close(ends[0]);
  while (waitpid(pid, &status, 0) < 0) ck_assert_int_eq(errno, EINTR);
  ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "%s:%d: wait status %d", point,
                nth, status);
  return last;
}

static sqlite3 *open_both(void) {
  sqlite3 *db = sql_open(main_path);
  sql_okf(db, "ATTACH %Q AS aux", aux_path);
  return db;
}

static void set_up(const char *journal) {
  sqlite3 *db = open_both();
  for (int i = 0; i < 2; i++)
    sql_okf(
        db,
        "PRAGMA %s.journal_mode = %s; CREATE TABLE %s.plain(k INTEGER PRIMARY KEY, v);"
        "CREATE VIRTUAL TABLE %s.family USING colfam(k INT PRIMARY KEY, v, memtable_bytes = 16384);"
        "INSERT INTO %s.plain VALUES(0, 0); INSERT INTO %s.family VALUES(0, 0)",
        schemas[i], journal, schemas[i], schemas[i], schemas[i], schemas[i]);
  sql_close(db);
}

static long long number_in(sqlite3 *db, const char *schema) {
  char *sql = sqlite3_mprintf("SELECT v FROM %s.family WHERE k = 0", schema);
  long long number = sql_int(db, sql);
  sqlite3_free(sql);
  return number;
}

static void check_schema(sqlite3 *db, const char *schema, long long acknowledged) {
  char *family = sqlite3_mprintf("SELECT k, CAST(v AS TEXT) FROM %s.family ORDER BY k", schema);
  char *plain = sqlite3_mprintf("SELECT k, CAST(v AS TEXT) FROM %s.plain ORDER BY k", schema);
  sql_same(db, family, plain);
  sqlite3_free(family);
  sqlite3_free(plain);
  long long number = number_in(db, schema);
  ck_assert_msg(number == acknowledged || number == acknowledged + 1, "%s: %lld after %lld", schema,
                number, acknowledged);
}

/* The first number for the next child. */
static long long check_both(long long acknowledged, bool as_one) {
  sqlite3 *db = open_both();
  for (int i = 0; i < 2; i++) check_schema(db, schemas[i], acknowledged);
  if (as_one) ck_assert_int_eq(number_in(db, "main"), number_in(db, "aux"));
  sql_rows(db, "SELECT f.table_name, c.* FROM colfam_families f, colfam_check(f.table_name) c", "");
  sql_rows(db, "PRAGMA main.integrity_check", "ok");
  sql_rows(db, "PRAGMA aux.integrity_check", "ok");
  long long next = acknowledged + 2;
  sql_ok(db, "BEGIN");
  for (int i = 0; i < 2; i++) child_change(db, schemas[i], next);
  sql_ok(db, "COMMIT");
  for (int i = 0; i < 2; i++) check_schema(db, schemas[i], next);
  sql_close(db);
  return next + 1;
}

START_TEST(commits_over_two_files_when_killed) {
  const char *point = points[(size_t)_i % POINTS];
  bool wal = (size_t)_i < POINTS;
  snprintf(main_path, sizeof main_path, "%s", sql_path("main.db"));
  snprintf(aux_path, sizeof aux_path, "%s", sql_path("aux.db"));
  set_up(wal ? "wal" : "delete");
  long long next = 1;
  for (int hit = 0; hit < HITS; hit++)
    next = check_both(kill_child(point, 1 + 3 * hit, next), !wal);
}
END_TEST

int main(int argc, char **argv) {
  if (argc == 6 && strcmp(argv[1], "child") == 0) return child_main(argv);
  Suite *suite = suite_create("crash_attached");
  TCase *tc = tcase_create("points");
  tcase_set_timeout(tc, 300);
  tcase_add_loop_test(tc, commits_over_two_files_when_killed, 0, 2 * (int)POINTS);
  suite_add_tcase(suite, tc);
  return harness_run(suite);
}
