/* Processes that live for one commit (engine/README.md, invariant 8): 500 of them, one after the other,
** each with 1,000 rows, which exit without closing anything, so that whatever their thread had begun is
** lost. Log, runs, files and the cost of opening stay bounded all along. And how fast rows of the log go that
** are dead (invariant 9). */
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness_files.h"
#include "harness_sql.h"

#define PROCESSES 500
#define FEWER 150 /* without a thread, where every commit does its own work */
#define KEYS 40000
#define ROWS 1000
#define BUDGET 65536
#define COMMIT_BYTES 30000 /* of a log row, at most */
#define LOOK_EVERY 25

#define THREADS_MAX (1 + FORKS_ARE_FOLLOWED)

static void make_database(void) {
  sqlite3 *db = sql_open(sql_path("app.db"));
  sql_ok(db, "PRAGMA journal_mode = wal; CREATE TABLE o(k INTEGER PRIMARY KEY, v);"
             "CREATE VIRTUAL TABLE t USING colfam(k INT PRIMARY KEY, v, memtable_bytes = 65536)");
  sql_close(db);
}

static void write_and_exit(const char *path, int number) {
  sqlite3 *db = sql_open(path);
  sql_okf(db,
          "PRAGMA synchronous = off; BEGIN;"
          "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)"
          "INSERT OR REPLACE INTO t SELECT (i * 7919 + %d) %% %d, printf('v%%d', i + %d) FROM n;"
          "INSERT OR REPLACE INTO o SELECT k, v FROM t WHERE v = 'v%d'; COMMIT",
          ROWS, number * 104729 % KEYS, KEYS, number, number + 1);
  _exit(0);
}

static void run_one(int number) {
  const char *path = sql_path("app.db");
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) write_and_exit(path, number);
  int status;
  ck_assert_int_eq(waitpid(child, &status, 0), child);
  ck_assert_int_eq(status, 0);
}

static sqlite3_int64 statistic(sqlite3 *db, const char *name) {
  char *sql =
      sqlite3_mprintf("SELECT value FROM colfam_stats WHERE name = %Q AND table_name = 't'", name);
  sqlite3_int64 value = sql_int(db, sql);
  sqlite3_free(sql);
  return value;
}

struct most {
  sqlite3_int64 log_bytes, log_rows, runs, extra_files, replayed, bytes_read;
};

static void note(sqlite3_int64 *most, sqlite3_int64 now) {
  if (now > *most) *most = now;
}

/* As a process that comes now finds it. */
static void look(struct most *most) {
  sqlite3 *db = sql_open(sql_path("app.db"));
  sql_int(db, "SELECT count(v) FROM t WHERE k BETWEEN 100 AND 120");
  note(&most->replayed, statistic(db, "log_rows_replayed"));
  note(&most->bytes_read, statistic(db, "block_bytes_read"));
  note(&most->log_bytes,
       sql_int(db, "SELECT coalesce(sum(length(batch)), 0) FROM t_cflog WHERE seq >"
                   " (SELECT value FROM t_cfmeta WHERE name = 'flushed_seq')"));
  note(&most->log_rows, sql_int(db, "SELECT count(*) FROM t_cflog"));
  note(&most->runs, sql_int(db, "SELECT count(DISTINCT level || '.' || seq) FROM t_cffile"));
  note(&most->extra_files,
       files_on_disk(sql_path("app.db")) - sql_int(db, "SELECT count(*) FROM t_cffile"));
  sql_close(db);
}

/* What the values of all keys add up to. */
static void expect(int processes, sqlite3_int64 *keys, sqlite3_int64 *sum) {
  static int values[KEYS];
  for (int key = 0; key < KEYS; key++) values[key] = 0;
  for (int number = 0; number < processes; number++)
    for (int i = 1; i <= ROWS; i++) values[(i * 7919 + number * 104729 % KEYS) % KEYS] = i + number;
  *keys = *sum = 0;
  for (int key = 0; key < KEYS; key++) {
    *keys += values[key] != 0;
    *sum += values[key];
  }
}

static void check_all(int processes) {
  sqlite3_int64 keys, sum;
  expect(processes, &keys, &sum);
  sqlite3 *db = sql_open(sql_path("app.db"));
  sql_rows(db, "SELECT * FROM colfam_check('t')", "");
  sql_rows(db, "SELECT count(*) FROM o LEFT JOIN t ON t.k = o.k WHERE t.v IS NULL", "0");
  ck_assert_int_eq(sql_int(db, "SELECT count(*) FROM t WHERE k >= 0"), keys);
  ck_assert_int_eq(sql_int(db, "SELECT sum(substr(v, 2)) FROM t"), sum);
  files_named_are_there(db, "t");
  sql_close(db);
}

START_TEST(what_they_leave_is_bounded) {
  struct most most = {0};
  sql_use_threads(_i);
  make_database();
  int processes = _i ? PROCESSES : FEWER;
  for (int i = 0; i < processes; i++) {
    run_one(i);
    if (i % LOOK_EVERY == LOOK_EVERY - 1) look(&most);
  }
  printf("short writers, thread %d: at most %lld log bytes, %lld log rows, %lld runs, %lld files "
         "without a name,"
         " %lld rows replayed and %lld block bytes read to open\n",
         _i, most.log_bytes, most.log_rows, most.runs, most.extra_files, most.replayed,
         most.bytes_read);
  ck_assert_int_le(most.log_bytes, 2 * BUDGET + COMMIT_BYTES);
  ck_assert_int_le(most.log_rows, 40);
  ck_assert_int_le(most.runs, 33);
  ck_assert_int_le(most.extra_files, 40);
  ck_assert_int_le(most.replayed, 2 * BUDGET / 10000);
  if (sql_has_ranges()) ck_assert_int_le(most.bytes_read, 33 * 20000);
  check_all(processes);
}
END_TEST

/* ---- Dead rows of the log */

static void commit_blobs(sqlite3 *db, int rows, int commits) {
  for (int i = 0; i < commits; i++)
    sql_okf(db,
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)"
            "INSERT INTO t(v) SELECT randomblob(1000) FROM n",
            rows);
}

static sqlite3_int64 dead_rows(sqlite3 *db) {
  return sql_int(db, "SELECT count(*) FROM t_cflog WHERE seq <= (SELECT value FROM t_cfmeta"
                     " WHERE name = 'flushed_seq')");
}

static sqlite3 *open_with_log(void) {
  sql_use_threads(0);
  sqlite3 *db = sql_open(sql_path("app.db"));
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(v)");
  return db;
}

/* SQLite finds the pages that a row has left for the next one. */
START_TEST(as_much_goes_as_comes) {
  sqlite3 *db = open_with_log();
  commit_blobs(db, 20, 12);
  sql_ok(db, "INSERT INTO t(t) VALUES('flush')");
  sqlite3_int64 dead = dead_rows(db), free_pages = sql_int(db, "PRAGMA freelist_count");
  ck_assert_int_gt(dead, 6);
  for (; dead > 0; dead--) {
    ck_assert_int_eq(dead_rows(db), dead);
    commit_blobs(db, 20, 1);
    ck_assert_int_le(sql_int(db, "PRAGMA freelist_count"), free_pages + 1);
  }
  ck_assert_int_eq(dead_rows(db), 0);
  sql_close(db);
}
END_TEST

START_TEST(a_large_dead_row_is_reckoned_with) {
  sqlite3 *db = open_with_log();
  commit_blobs(db, 1, 4);
  commit_blobs(db, 100, 1);
  commit_blobs(db, 1, 20);
  sql_ok(db, "INSERT INTO t(t) VALUES('flush')");
  ck_assert_int_eq(dead_rows(db), 21);
  commit_blobs(db, 1, 20);
  ck_assert_int_eq(dead_rows(db), 20);
  commit_blobs(db, 100, 2);
  ck_assert_int_eq(dead_rows(db), 0); /* all of them are less than it adds */
  sql_close(db);
}
END_TEST

/* Small dead rows are many to delete, so no more go than the commit has rows itself, and four. */
START_TEST(no_more_rows_go_than_come) {
  sqlite3 *db = open_with_log();
  commit_blobs(db, 1, 100);
  sql_ok(db, "INSERT INTO t(t) VALUES('flush')");
  sqlite3_int64 dead = dead_rows(db);
  ck_assert_int_gt(dead, 90);
  sql_ok(db, "INSERT INTO t(v) VALUES(randomblob(1000000))");
  ck_assert_int_eq(dead_rows(db), dead - 5);
  commit_blobs(db, 20, 1);
  ck_assert_int_ge(dead_rows(db), dead - 5 - 24);
  ck_assert_int_lt(dead_rows(db), dead - 5 - 10);
  sql_close(db);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("short writers");
  TCase *tests = tcase_create("one after the other");
  tcase_set_timeout(tests, 300);
  tcase_add_loop_test(tests, what_they_leave_is_bounded, 0, THREADS_MAX);
  tcase_add_test(tests, as_much_goes_as_comes);
  tcase_add_test(tests, a_large_dead_row_is_reckoned_with);
  tcase_add_test(tests, no_more_rows_go_than_come);
  suite_add_tcase(suite, tests);
  return harness_run(suite);
}
