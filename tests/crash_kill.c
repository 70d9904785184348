/* Death at named places of the commit (ext/killpoint.h; "hook" is SQLite's commit hook, which comes
** after xSync and before the commit) and in the middle of a transaction of five times the memtable. A
** child writes numbered transactions to an ordinary table and a colfam table alike, acknowledges each through
** a pipe when COMMIT has returned, and dies by SIGKILL at the nth arrival. The parent opens the database
** afterwards: both tables have the same rows, of a prefix of the transactions that lacks none acknowledged
** and has at most one more; colfam_check finds nothing; every file that the manifest names is there; one more
** commit works, and sweeps what the dead have left: the directory holds the files named and nothing else.
** Every other child has batches so small that a large transaction spills. Then the next child goes on with
** the same database. Each point is hit HITS times in WAL and as often in DELETE mode; a run that ends
** without its death fails. */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness_files.h"
#include "harness_sql.h"

#define HITS 12          /* of a point, in each journal mode */
#define TRANSACTIONS 400 /* of a child that nothing kills */
#define KEYS 300
#define LARGE_ROWS 120 /* of 700 bytes: five times the memtable */

/* ---- The child */

struct child {
  sqlite3 *db;
  struct harness_random random;
  long hook_left;   /* commits until the hook kills; 0 = never */
  long middle_left; /* large changes until one kills halfway; 0 = never */
};

static void child_run(struct child *child, const char *sql) {
  if (sqlite3_exec(child->db, sql, NULL, NULL, NULL) == SQLITE_OK) return;
  fprintf(stderr, "child: %.200s: %s\n", sql, sqlite3_errmsg(child->db));
  _exit(3);
}

static int kill_in_hook(void *context) {
  struct child *child = context;
  if (child->hook_left && --child->hook_left == 0) raise(SIGKILL);
  return 0;
}

/* The same change to both tables. */
static void child_change(struct child *child, int64_t number) {
  unsigned key = (unsigned)harness_below(&child->random, KEYS);
  unsigned size = 20 + (unsigned)harness_below(&child->random, 700);
  static const char *const tables[] = {"plain", "family"};
  for (int i = 0; i < 2; i++) {
    char *sql;
    if (key % 5 == 0)
      sql =
          sqlite3_mprintf("DELETE FROM %s WHERE k BETWEEN %u AND %u", tables[i], key + 1, key + 6);
    else
      sql = sqlite3_mprintf("INSERT OR REPLACE INTO %s VALUES(%u, printf('%%0*d', %u, %lld))",
                            tables[i], key + 1, size, (long long)number);
    child_run(child, sql);
    sqlite3_free(sql);
  }
}

/* A pair of tables that comes and goes. */
static void child_ddl(struct child *child, int64_t number) {
  if (number % 11 == 10)
    child_run(child, "DROP TABLE IF EXISTS plain2; DROP TABLE IF EXISTS family2");
  else if (number % 11 == 3)
    child_run(child,
              "CREATE TABLE IF NOT EXISTS plain2(k INTEGER PRIMARY KEY, v);"
              "CREATE VIRTUAL TABLE IF NOT EXISTS family2 USING colfam(k INT PRIMARY KEY, v);"
              "INSERT OR REPLACE INTO plain2 SELECT * FROM plain;"
              "INSERT OR REPLACE INTO family2 SELECT * FROM plain;"
              "INSERT INTO family2(family2) VALUES('compact')");
}

/* Called for each of the rows: LARGE_ROWS for plain, then as many for family, where it kills. */
static void kill_in_the_middle(sqlite3_context *context, int argc, sqlite3_value **argv) {
  struct child *child = sqlite3_user_data(context);
  (void)argc;
  bool here = sqlite3_value_int(argv[1]) == LARGE_ROWS / 2 && sqlite3_value_int(argv[2]);
  if (here && child->middle_left && --child->middle_left == 0) raise(SIGKILL);
  sqlite3_result_value(context, argv[0]);
}

/* Five times the log's budget: straight into a run. */
static void child_large_change(struct child *child, int64_t number) {
  static const char *const tables[] = {"plain", "family"};
  for (int i = 0; i < 2; i++) {
    char *sql = sqlite3_mprintf(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) "
        "INSERT OR REPLACE INTO %s SELECT 1000 + i, middle(printf('%%0*d', 700, %lld), i, %d) FROM "
        "n",
        LARGE_ROWS, tables[i], (long long)number, i);
    child_run(child, sql);
    sqlite3_free(sql);
  }
}

static void child_transaction(struct child *child, int64_t number) {
  child_run(child, "BEGIN IMMEDIATE");
  child_ddl(child, number);
  unsigned changes = 1 + (unsigned)harness_below(&child->random, 8);
  while (changes--) child_change(child, number);
  if (number % 7 == 5) child_large_change(child, number);
  if (number % 9 == 4) child_run(child, "INSERT INTO family(family) VALUES('flush')");
  if (number % 9 == 8) child_run(child, "INSERT INTO family(family) VALUES('compact')");
  char *sql = sqlite3_mprintf("UPDATE plain SET v = %lld WHERE k = 0;"
                              "INSERT OR REPLACE INTO family VALUES(0, %lld)",
                              (long long)number, (long long)number);
  child_run(child, sql);
  sqlite3_free(sql);
  child_run(child, "COMMIT");
}

/* argv: program, "child", database, first number, pipe, commits until it dies in the hook, large changes
** until it dies in one, point. */
static int child_main(char **argv) {
  struct child child = {.hook_left = strtol(argv[5], NULL, 10),
                        .middle_left = strtol(argv[6], NULL, 10)};
  int64_t first = strtoll(argv[3], NULL, 10);
  int acknowledged = (int)strtol(argv[4], NULL, 10);
  harness_seed(&child.random, (uint64_t)first);
  if (sqlite3_open(argv[2], &child.db) != SQLITE_OK || sql_load(child.db, NULL) != SQLITE_OK)
    return 2;
  if (first % 2 || !strcmp(argv[7], "spill"))
    child_run(&child, "SELECT colfam_config('batch_bytes', 16384)");
  sqlite3_commit_hook(child.db, kill_in_hook, &child);
  sqlite3_create_function(child.db, "middle", 3, SQLITE_UTF8, &child, kill_in_the_middle, NULL,
                          NULL);
  for (int64_t number = first; number < first + TRANSACTIONS; number++) {
    child_transaction(&child, number);
    if (write(acknowledged, &number, sizeof number) != sizeof number) return 4;
  }
  sqlite3_close(child.db);
  return 0;
}

/* ---- The parent */

/* What the transaction in which the process died must have become. */
enum outcome { UNDONE, DONE, EITHER };

static const struct {
  const char *name;
  const char *where;
  enum outcome outcome;
} points[] = {
    {"sync", "in xSync, before anything", UNDONE},
    {"job", "in xSync or a command, with the outputs of a job written", UNDONE},
    {"spill", "with a private run of a large transaction written", UNDONE},
    {"publish", "publishing, before", UNDONE},
    {"published", "publishing, after", UNDONE},
    {"sync-log", "in xSync, before the log row", UNDONE},
    {"sync-logged", "in xSync, after the log row", UNDONE},
    {"synced", "in xSync, at its end", UNDONE},
    {"hook", "between xSync and the commit", UNDONE},
    {"middle", "halfway through a large transaction", UNDONE},
    {"commit", "in xCommit, before anything", DONE},
    {"remove", "removing a file, before: in xCommit, or when a table is let go", EITHER},
    {"removed", "removing a file, after", EITHER},
    {"committed", "in xCommit, at its end", DONE},
};

struct run {
  const char *path;
  const char *point; /* "hook", "middle" or a kill point's name */
  int nth;
  enum outcome outcome;
  int64_t before;       /* number of the last transaction before this child */
  int64_t acknowledged; /* and of the last that it acknowledged */
};

static void exec_child(const struct run *run, int pipe_end) {
  char first[32], end[32], hook[32], middle[32], kill_text[64];
  snprintf(first, sizeof first, "%lld", (long long)run->before + 1);
  snprintf(end, sizeof end, "%d", pipe_end);
  snprintf(hook, sizeof hook, "%d", strcmp(run->point, "hook") ? 0 : run->nth);
  snprintf(middle, sizeof middle, "%d", strcmp(run->point, "middle") ? 0 : run->nth);
  snprintf(kill_text, sizeof kill_text, "%s:%d", run->point, run->nth);
  setenv("COLFAM_KILL", kill_text, 1);
  const char *so = getenv("COLFAM_TEST_SO");
  setenv("COLFAM_SO", so ? so : COLFAM_TEST_SO, 1);
  execl("/proc/self/exe", "crash_kill", "child", run->path, first, end, hook, middle, run->point,
        (char *)NULL);
  _exit(127);
}

/* What the pipe has when the child is dead. */
static void read_acknowledged(struct run *run, int pipe_end) {
  int64_t number;
  run->acknowledged = run->before;
  while (read(pipe_end, &number, sizeof number) == (ssize_t)sizeof number) {
    ck_assert_int_eq(number, run->acknowledged + 1);
    run->acknowledged = number;
  }
}

static void kill_child(struct run *run) {
  int ends[2];
  ck_assert_int_eq(pipe(ends), 0);
  pid_t pid = fork();
  if (pid == 0) exec_child(run, ends[1]);
  ck_assert_int_gt(pid, 0);
  close(ends[1]);
  read_acknowledged(run, ends[0]);
  close(ends[0]);
  int status;
  while (waitpid(pid, &status, 0) < 0) ck_assert_int_eq(errno, EINTR);
  ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL,
                "%s:%d: the child was not killed there: wait status %d after %lld transactions",
                run->point, run->nth, status, (long long)(run->acknowledged - run->before));
}

static void check_files(sqlite3 *db, const struct run *run, const char *manifest) {
  char *sql = sqlite3_mprintf("SELECT group_concat(printf('%%016x', id), ' ') FROM %s", manifest);
  char *ids = sql_query(db, sql);
  sqlite3_free(sql);
  for (char *id = strtok(ids, " "); id && strcmp(id, "NULL") != 0; id = strtok(NULL, " ")) {
    char path[4200];
    snprintf(path, sizeof path, "%s-colfam/%s.sst", run->path, id);
    ck_assert_msg(access(path, R_OK) == 0, "%s:%d: %s is named and missing", run->point, run->nth,
                  path);
  }
  sqlite3_free(ids);
}

static void check_second_pair(sqlite3 *db, const struct run *run) {
  sqlite3_int64 tables =
      sql_int(db, "SELECT count(*) FROM sqlite_schema WHERE name IN ('plain2', 'family2')");
  ck_assert_msg(tables == 0 || tables == 2, "%s:%d: one table without the other", run->point,
                run->nth);
  if (tables == 0) return;
  sql_same(db, "SELECT k, v FROM family2 ORDER BY k", "SELECT k, v FROM plain2 ORDER BY k");
  sql_rows(db, "SELECT * FROM colfam_check('family2')", "");
  check_files(db, run, "family2_cffile");
}

/* Closes the connection, with which a merge in progress ends. */
static void check_directory(sqlite3 *db, const struct run *run) {
  sqlite3_int64 named = sql_int(db, "SELECT count(*) FROM family_cffile");
  if (sql_int(db, "SELECT count(*) FROM sqlite_schema WHERE name = 'family2'"))
    named += sql_int(db, "SELECT count(*) FROM family2_cffile");
  sql_close(db);
  ck_assert_msg(files_on_disk(run->path) == named, "%s:%d: %d files, %lld of them named",
                run->point, run->nth, files_on_disk(run->path), (long long)named);
}

/* After the death; leaves the number of the last transaction in run->before. */
static void check_database(struct run *run) {
  sqlite3 *db = sql_open(run->path);
  sql_same(db, "SELECT k, CAST(v AS TEXT) FROM family ORDER BY k",
           "SELECT k, CAST(v AS TEXT) FROM plain ORDER BY k");
  sqlite3_int64 last = sql_int(db, "SELECT v FROM family WHERE k = 0");
  sqlite3_int64 least = run->acknowledged + (run->outcome == DONE);
  sqlite3_int64 most = run->acknowledged + (run->outcome != UNDONE);
  ck_assert_msg(least <= last && last <= most, "%s:%d: acknowledged %lld, found %lld", run->point,
                run->nth, (long long)run->acknowledged, (long long)last);
  sql_rows(db, "SELECT * FROM colfam_check('family')", "");
  check_files(db, run, "family_cffile");
  check_second_pair(db, run);
  sql_rows(db, "PRAGMA integrity_check", "ok");
  sql_okf(db,
          "BEGIN; UPDATE plain SET v = %lld WHERE k = 0;"
          "INSERT OR REPLACE INTO family VALUES(0, %lld); COMMIT",
          (long long)last + 1, (long long)last + 1);
  sql_same(db, "SELECT v FROM family WHERE k = 0", "SELECT v FROM plain WHERE k = 0");
  check_directory(db, run);
  run->before = last + 1;
}

static void set_up(const char *path, const char *journal) {
  sqlite3 *db = sql_open(path);
  sql_okf(db, "PRAGMA journal_mode = %s", journal);
  sql_okf(db,
          "CREATE TABLE plain(k INTEGER PRIMARY KEY, v);"
          "CREATE VIRTUAL TABLE family USING colfam(k INT PRIMARY KEY, v, memtable_bytes = 16384,"
          " value_bytes = %d);"
          "INSERT INTO plain VALUES(0, 0); INSERT INTO family VALUES(0, 0)",
          sqlite3_stricmp(journal, "wal") ? 4096 : 1);
  sql_close(db);
}

static void kill_often(size_t index, const char *journal) {
  const char *point = points[index].name;
  char name[64];
  snprintf(name, sizeof name, "%s-%s.db", point, journal);
  char *path = sqlite3_mprintf("%s", sql_path(name));
  struct run run = {.path = path, .point = point, .outcome = points[index].outcome};
  set_up(path, journal);
  for (int hit = 0; hit < HITS; hit++) {
    run.nth = 1 + hit % 4;
    kill_child(&run);
    check_database(&run);
  }
  printf("%-12s %-7s %d hits, %lld transactions\n", point, journal, HITS, (long long)run.before);
  sqlite3_free(path);
}

#define POINTS (sizeof points / sizeof *points)

START_TEST(nothing_acknowledged_is_lost_when_killed) {
  kill_often((size_t)_i % POINTS, (size_t)_i < POINTS ? "wal" : "delete");
}
END_TEST

int main(int argc, char **argv) {
  if (argc == 8 && strcmp(argv[1], "child") == 0) return child_main(argv);
  Suite *suite = suite_create("kill points");
  TCase *tc = tcase_create("points");
  tcase_set_timeout(tc, 300);
  tcase_add_loop_test(tc, nothing_acknowledged_is_lost_when_killed, 0, 2 * (int)POINTS);
  suite_add_tcase(suite, tc);
  return harness_run(suite);
}
