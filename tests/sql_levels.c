/* Levels: a table of many small commits keeps few runs, gives its rows to ever deeper levels in bounded
** pieces, and lets go of what was deleted, with the thread and without. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "harness_files.h"
#include "harness_sql.h"

enum { BUDGET = 16384, COMMITS = 1500, ROWS = 20, VALUE_BYTES = 100 };

static sqlite3 *db;
static struct harness_random rnd;

static void connect_db(void) {
  db = sql_open(sql_path("levels.db"));
  sql_ok(db, "PRAGMA synchronous = off");
}

static void open_db(int threads) {
  sql_use_threads(threads);
  harness_seed(&rnd, harness_seed_env(23));
  connect_db();
  sql_ok(db, "PRAGMA journal_mode = wal;"
             "CREATE TABLE o(k BLOB PRIMARY KEY, v) WITHOUT ROWID;"
             "CREATE VIRTUAL TABLE t USING colfam(k BLOB PRIMARY KEY, v, memtable_bytes = 16384,"
             " compression = 'none')");
}

static void open_alone(void) {
  open_db(0);
}

static void open_with_thread(void) {
  open_db(1);
}

static void close_db(void) {
  sql_rows(db, "SELECT * FROM colfam_check('t')", "");
  sql_same(db, "SELECT k, v FROM t ORDER BY k", "SELECT k, v FROM o ORDER BY k");
  sql_close(db);
  sql_use_threads(0);
}

static sqlite3_int64 statistic(const char *name) {
  char *sql = sqlite3_mprintf("SELECT sum(value) FROM colfam_stats WHERE name = %Q", name);
  sqlite3_int64 value = sql_int(db, sql);
  sqlite3_free(sql);
  return value;
}

/* The same to both tables in one transaction, written with @ for the name. */
static void both(const char *sql) {
  const char *at = strchr(sql, '@');
  sql_okf(db, "BEGIN; %.*so%s; %.*st%s; COMMIT", (int)(at - sql), sql, at + 1, (int)(at - sql), sql,
          at + 1);
}

/* Random keys out of a million, new ones mostly; the values are no shorter when compressed. */
static void commit_random(void) {
  char *rows =
      sqlite3_mprintf("INSERT OR REPLACE INTO @ WITH RECURSIVE c(i, x) AS (SELECT 0, %lld UNION ALL"
                      " SELECT i + 1, (x * 1103515245 + 12345) & 0x7fffffff FROM c WHERE i < %d)"
                      " SELECT CAST(printf('%%08d', x %% 1000000) AS BLOB), CAST(printf('%%0*d', "
                      "%d, x) AS BLOB) FROM c",
                      (sqlite3_int64)(harness_next(&rnd) & 0x7fffffff), ROWS - 1, VALUE_BYTES);
  both(rows);
  sqlite3_free(rows);
}

static sqlite3_int64 young_runs(void) {
  return sql_int(db, "SELECT count(DISTINCT seq) FROM colfam_files('t') WHERE level = 0");
}

static sqlite3_int64 written(void) {
  return statistic("compact_bytes_written") + statistic("flush_bytes");
}

/* Without a thread each commit goes on with the merge that is due, however little it writes itself. */
static void pay_debt(void) {
  sql_int(db, "SELECT colfam_config('threads', 0)");
  for (sqlite3_int64 before = -1; written() != before;) {
    before = written();
    for (int i = 0; i < 50; i++) both("INSERT OR REPLACE INTO @ VALUES(x'00', 0)");
  }
}

START_TEST(random_rows_go_down_level_by_level) {
  sqlite3_int64 most_runs = 0;
  for (int i = 0; i < COMMITS; i++) {
    commit_random();
    if (i % 20) continue;
    sqlite3_int64 runs = young_runs();
    if (runs > most_runs) most_runs = runs;
  }
  ck_assert_int_lt(most_runs, 33);
  ck_assert_int_ge(sql_int(db, "SELECT max(level) FROM colfam_files('t')"), 2);
  ck_assert_int_gt(sql_int(db, "SELECT count(*) FROM colfam_files('t')"), 8);
  pay_debt();
  sqlite3_int64 payload = COMMITS * ROWS * (8 + VALUE_BYTES), logged = statistic("log_bytes");
  printf(
      "levels: %lld runs at most, %lld bytes of files and %lld of log written for %lld of rows\n",
      most_runs, written(), logged, payload);
  ck_assert_int_gt(logged, payload);
  ck_assert_int_lt(written() + logged, 12 * payload);
}
END_TEST

/* Without a thread a commit does its share and no more: a flush, or so much of a merge. What it writes is
** counted when a file of it is finished. */
START_TEST(a_commit_does_a_bounded_share) {
  sqlite3_int64 most = 0, before = 0;
  for (int i = 0; i < COMMITS; i++) {
    commit_random();
    sqlite3_int64 now = written();
    if (now - before > most) most = now - before;
    before = now;
  }
  printf("levels: %lld bytes of files written by one commit at most\n", most);
  ck_assert_int_lt(most, 12 * BUDGET);
}
END_TEST

START_TEST(rows_in_the_order_of_their_keys_are_written_twice_at_most) {
  for (int i = 0; i < COMMITS; i++) {
    char *rows = sqlite3_mprintf(
        "INSERT INTO @ WITH RECURSIVE c(i) AS (SELECT %d UNION ALL SELECT i + 1 FROM c WHERE i < "
        "%d)"
        " SELECT CAST(printf('%%08d', i) AS BLOB), CAST(printf('%%0*d', %d, i) AS BLOB) FROM c",
        i * ROWS, i * ROWS + ROWS - 1, VALUE_BYTES);
    both(rows);
    sqlite3_free(rows);
  }
  sqlite3_int64 payload = COMMITS * ROWS * (8 + VALUE_BYTES);
  printf("levels: %lld bytes of files written for %lld of rows in order\n", written(), payload);
  if (sql_native() || sql_reverse()) ck_assert_int_lt(written(), 2 * payload + 4 * BUDGET);
}
END_TEST

/* Deleted rows are passed over once, not for ever: their tombstones sink and take them along. */
START_TEST(deleted_rows_leave_the_files) {
  for (int i = 0; i < COMMITS / 2; i++) commit_random();
  sqlite3_int64 full = sql_int(db, "SELECT sum(rows) FROM colfam_files('t')");
  both("DELETE FROM @ WHERE k > CAST('00010000' AS BLOB)");
  for (int i = 0; i < COMMITS / 4; i++) {
    char *row = sqlite3_mprintf(
        "INSERT OR REPLACE INTO @ VALUES(CAST(printf('%%08d', %d) AS BLOB), zeroblob(1000))",
        i % 100);
    both(row);
    sqlite3_free(row);
    sqlite3_sleep(0);
  }
  sqlite3_int64 left = sql_int(db, "SELECT sum(rows) FROM colfam_files('t')");
  printf("levels: %lld entries in files, %lld after nearly all were deleted\n", full, left);
  ck_assert_int_lt(left, full / 4);
}
END_TEST

/* A process that ends in the middle of a merge leaves nothing of it. */
START_TEST(unfinished_merges_end_with_the_connection) {
  for (int round = 0; round < 30; round++) {
    for (int i = 0; i < 25; i++) commit_random();
    sql_close(db);
    connect_db();
    files_named_are_there(db, "t");
    ck_assert_int_lt(young_runs(), 33);
  }
}
END_TEST

/* Commits that pass twice the budget, which would go straight into files, let merges be published as well. */
START_TEST(large_commits_keep_few_runs) {
  for (int i = 0; i < 200; i++) {
    for (int j = 0; j < 2; j++) {
      sql_okf(db,
              "BEGIN; INSERT OR REPLACE INTO %s WITH RECURSIVE c(i) AS (SELECT 0 UNION ALL"
              " SELECT i + 1 FROM c LIMIT 330) SELECT CAST(printf('%%08d', (i * 7919 + %d) *"
              " 48271 %% 1000000) AS BLOB), CAST(printf('%%0*d', %d, i) AS BLOB) FROM c; COMMIT",
              j ? "t" : "o", i * 77, VALUE_BYTES);
    }
    ck_assert_int_lt(young_runs(), 33);
  }
}
END_TEST

/* Back to back, with nothing small between: of each size what is merged keeps pace with what is written. */
START_TEST(commits_of_any_size_keep_few_runs) {
  static const int budgets[] = {1, 3, 8, 20};
  int commits = 120 - 2 * budgets[_i], rows = budgets[_i] * BUDGET / 400;
  sqlite3_int64 most = 0;
  sql_ok(db, "PRAGMA cache_size = -20000");
  for (int i = 0; i < commits; i++) {
    char *sql = sqlite3_mprintf(
        "INSERT OR REPLACE INTO @ WITH RECURSIVE c(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM c"
        " LIMIT %d) SELECT CAST(printf('%%08d', (i * 7919 + %d) * 48271 %% 1000000) AS BLOB),"
        " CAST(printf('%%0*d', 380, i) AS BLOB) FROM c",
        rows, i * 77);
    both(sql);
    sqlite3_free(sql);
    sqlite3_int64 runs = young_runs();
    if (runs > most) most = runs;
  }
  printf("levels: commits of %d budgets: %lld runs at most, %lld helped, %lld bytes of files for "
         "%lld\n",
         budgets[_i], most, statistic("commit_helps"), written(),
         (sqlite3_int64)commits * rows * 390);
  ck_assert_int_lt(most, 33);
  if (sql_int(db, "SELECT colfam_config('threads')") > 0) return;
  ck_assert_int_gt(statistic("commit_helps"), commits / 2); /* nobody else merges */
  ck_assert_int_gt(statistic("commit_help_us"), 0);
}
END_TEST

static void add_case(Suite *suite, const char *name, void (*setup)(void), bool alone) {
  TCase *tests = tcase_create(name);
  tcase_add_checked_fixture(tests, setup, close_db);
  tcase_add_test(tests, random_rows_go_down_level_by_level);
  tcase_add_test(tests, rows_in_the_order_of_their_keys_are_written_twice_at_most);
  tcase_add_test(tests, unfinished_merges_end_with_the_connection);
  tcase_add_test(tests, large_commits_keep_few_runs);
  tcase_add_loop_test(tests, commits_of_any_size_keep_few_runs, 0, 4);
  if (alone) tcase_add_test(tests, a_commit_does_a_bounded_share);
  if (alone) tcase_add_test(tests, deleted_rows_leave_the_files);
  suite_add_tcase(suite, tests);
}

int main(void) {
  Suite *suite = suite_create("levels");
  add_case(suite, "without a thread", open_alone, true);
  add_case(suite, "with a thread", open_with_thread, false);
  return harness_run(suite);
}
