/* Transactions larger than batch_bytes: what has been written goes into files that only the transaction
** names. Reads see all of it, every rollback takes it back, a commit makes it one run, or leaves that to the
** thread; nothing is left behind. */
#include <stdio.h>
#include <stdlib.h>

#include "harness_files.h"
#include "harness_twins.h"

enum { BUDGET = 65536 };

static void open_small(void) {
  sql_use_threads(0);
  twins_open_wal();
  sql_okf(a, "SELECT colfam_config('batch_bytes', %d)", BUDGET);
}

static void open_small_thread(void) {
  sql_use_threads(1);
  twins_open_wal();
  sql_okf(a, "SELECT colfam_config('batch_bytes', %d)", BUDGET);
}

static void open_small_delete(void) {
  sql_use_threads(0);
  twins_open_delete();
  sql_okf(a, "SELECT colfam_config('batch_bytes', %d)", BUDGET);
}

static void close_small(void) {
  twins_close();
}

static sqlite3_int64 statistic(const char *name) {
  char *sql = sqlite3_mprintf("SELECT sum(value) FROM colfam_stats WHERE name = %Q", name);
  sqlite3_int64 value = sql_int(a, sql);
  sqlite3_free(sql);
  return value;
}

/* `rows` rows of about `bytes` bytes from `first` on, `step` apart, wrapped at a prime: in order with a step
** of 1, else all over the place. */
static void insert_rows(int first, int rows, int step, int bytes) {
  for (int i = 0; i < 2; i++)
    sql_okf(a,
            "INSERT OR REPLACE INTO %s WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM"
            " n WHERE i < %d) SELECT (%d + i * %d) %% 1000003, printf('%%d %%.*c', i, %d, 'x')"
            " FROM n",
            i ? "t" : "o", rows - 1, first, step, bytes);
}

static sqlite3_int64 young_runs(void) {
  return sql_int(a, "SELECT count(DISTINCT seq) FROM t_cffile WHERE level = 0");
}

static sqlite3_int64 all_runs(void) {
  return sql_int(a, "SELECT count(DISTINCT level || ' ' || seq) FROM t_cffile");
}

static void same_every_way(void) {
  twins_same(a);
  sql_same(a, "SELECT k, v FROM t ORDER BY k DESC", "SELECT k, v FROM o ORDER BY k DESC");
  sql_same(a, "SELECT count(*) FROM t WHERE k BETWEEN 1000 AND 500000",
           "SELECT count(*) FROM o WHERE k BETWEEN 1000 AND 500000");
  const char *keys = "WITH RECURSIVE q(i) AS (VALUES(0) UNION ALL SELECT i + 1 FROM q WHERE i < "
                     "300) SELECT i * 7919 %% 1000003 AS k FROM q UNION ALL SELECT i FROM q";
  char *texts[2];
  static const char *const forms[] = {
      "SELECT k, v FROM %s WHERE k IN (SELECT k FROM (%s)) ORDER BY k",
      "SELECT q.k, EXISTS(SELECT 1 FROM %s AS x WHERE x.k = q.k) FROM (%s) AS q",
      "SELECT q.k, (SELECT length(v) FROM %s AS x WHERE x.k = q.k) FROM (%s) AS q"};
  char *list = sqlite3_mprintf(keys);
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
    for (int j = 0; j < 2; j++) texts[j] = sqlite3_mprintf(forms[i], j ? "o" : "t", list);
    sql_same(a, texts[0], texts[1]);
    for (int j = 0; j < 2; j++) sqlite3_free(texts[j]);
  }
  sql_okf(a, "SELECT CASE WHEN colfam_may_exist('t', k) = 0 THEN abs(-9223372036854775808) END"
             " FROM o LIMIT 500");
  sqlite3_free(list);
}

/* What cursors or jobs held when it was to go goes with later commits; a merge in progress has files too. */
static void sweep(void) {
  sql_ok(a, "INSERT INTO t(t) VALUES('compact')");
  for (int i = 0; i < 4; i++) twins_insert(a, 3000000 + i, 3000000 + i);
  twins_both(a, "DELETE FROM @ WHERE k >= 3000000");
  files_agree(a, "t");
}

START_TEST(all_that_is_written_is_read) {
  insert_rows(0, 500, 7919, 100);
  sql_ok(a, "INSERT INTO t(t) VALUES('flush')");
  insert_rows(500000, 50, 7919, 100);
  sql_ok(a, "BEGIN");
  insert_rows(0, 3000, 104729, 100);
  ck_assert_int_ge(statistic("spills"), 3);
  same_every_way();
  twins_both(a, "DELETE FROM @ WHERE k % 3 = 0");
  same_every_way();
  insert_rows(250, 500, 7919, 400); /* over what was deleted and what was spilled */
  twins_both(a, "UPDATE @ SET v = 'short' WHERE k % 5 = 0");
  twins_both(a, "DELETE FROM @ WHERE k BETWEEN 5000 AND 9000");
  same_every_way();
  twins_same(b);
  sql_ok(a, "COMMIT");
  same_every_way();
  twins_same(b);
  files_agree(a, "t");
  ck_assert_int_le(young_runs(), 3); /* the one of before, the log, the transaction */
}
END_TEST

START_TEST(rows_in_order_are_written_once) {
  sql_ok(a, "INSERT INTO t(t) VALUES('compression=none'); BEGIN");
  sqlite3_int64 before = statistic("flush_bytes");
  insert_rows(0, 20 * BUDGET / 100, 1, 60);
  sqlite3_int64 spills = statistic("spills");
  sqlite3_int64 files = files_on_disk(sql_path("app.db"));
  ck_assert_int_ge(spills, 12);
  sql_ok(a, "COMMIT");
  printf("spill: %lld batches, %lld files, %lld bytes written, %lld merged\n", spills, files,
         statistic("flush_bytes") - before, statistic("compact_bytes_written"));
  ck_assert_int_eq(statistic("compact_bytes_written"), 0);
  ck_assert_int_ge(sql_int(a, "SELECT count(*) FROM t_cffile"), files);
  ck_assert_int_le(young_runs(), 1);
  files_agree(a, "t");
  same_every_way();
}
END_TEST

START_TEST(rows_all_over_the_place_become_one_run) {
  sql_ok(a, "BEGIN");
  insert_rows(0, 20 * BUDGET / 100, 104729, 60);
  insert_rows(1, 20 * BUDGET / 100, 104729, 60);
  sqlite3_int64 spills = statistic("spills");
  ck_assert_int_ge(spills, 16);
  /* Those alike are merged on the way. */
  ck_assert_int_le(sql_int(a, "SELECT count(DISTINCT level || seq) FROM colfam_files('t')"),
                   spills / 4);
  same_every_way();
  sql_ok(a, "COMMIT");
  if (!getenv("COLFAM_THREADS")) ck_assert_int_eq(all_runs(), 1);
  files_agree(a, "t");
  same_every_way();
}
END_TEST

/* What they come to is recorded by later commits. */
START_TEST(a_thread_merges_runs_after_the_commit) {
  sql_ok(a, "BEGIN");
  insert_rows(0, 20 * BUDGET / 100, 104729, 60);
  ck_assert_int_ge(statistic("spills"), 8);
  same_every_way();
  sql_ok(a, "COMMIT");
  sqlite3_int64 runs = all_runs();
  ck_assert_int_gt(runs, 1);
  ck_assert_int_le(runs, statistic("spills") / 2); /* those alike were merged on the way */
  same_every_way();
  twins_same(b);
  for (int i = 0; all_runs() >= runs; i++) twins_insert(a, 2000000 + i, 2000000 + i);
  same_every_way();
  sweep();
  ck_assert_int_eq(all_runs(), 1);
  twins_same(b);
}
END_TEST

START_TEST(rollback_leaves_nothing) {
  twins_insert(a, 1, 10);
  sql_ok(a, "BEGIN");
  insert_rows(0, 3000, 7919, 100);
  ck_assert_int_gt(files_on_disk(sql_path("app.db")), 2);
  sql_ok(a, "ROLLBACK");
  ck_assert_int_eq(files_on_disk(sql_path("app.db")), 0);
  twins_same(a);
  insert_rows(0, 3000, 7919, 100); /* one statement, no BEGIN */
  twins_same(b);
  files_agree(a, "t");
}
END_TEST

/* A savepoint somewhere in a batch, then batches more; back to it, and again with other rows. */
/* What a cursor still reads when it is to go needs no later commit, since none has named it. */
START_TEST(rollback_under_a_cursor_leaves_nothing) {
  sql_ok(a, "BEGIN");
  insert_rows(0, 3000, 7919, 100);
  sqlite3_stmt *cursor;
  ck_assert_int_eq(sqlite3_prepare_v2(a, "SELECT k FROM t ORDER BY k", -1, &cursor, NULL),
                   SQLITE_OK);
  ck_assert_int_eq(sqlite3_step(cursor), SQLITE_ROW);
  sql_ok(a, "ROLLBACK");
  int rows = 1;
  while (sqlite3_step(cursor) == SQLITE_ROW) rows++;
  ck_assert_int_eq(rows, 3000);
  ck_assert_int_eq(sqlite3_finalize(cursor), SQLITE_OK);
  sql_close(b);
  sql_close(a);
  ck_assert_int_eq(files_on_disk(sql_path("app.db")), 0);
  a = twins_connect();
  b = twins_connect();
}
END_TEST

START_TEST(savepoint_between_spills) {
  for (int rows = 0; rows <= 500; rows += 50) {
    sql_ok(a, "BEGIN");
    insert_rows(rows, rows, 7919, 100);
    sql_ok(a, "SAVEPOINT s");
    for (int round = 0; round < 2; round++) {
      insert_rows(1000 * round, 1200, 104729, 100);
      twins_both(a, "DELETE FROM @ WHERE k % 2 = 0");
      twins_same(a);
      sql_ok(a, "ROLLBACK TO s");
      twins_same(a);
    }
    insert_rows(3, 5, 7919, 100);
    sql_ok(a, rows % 100 ? "ROLLBACK" : "COMMIT");
    twins_same(a);
    files_agree(a, "t");
  }
}
END_TEST

START_TEST(nested_savepoints) {
  sql_ok(a, "BEGIN");
  for (int depth = 0; depth < 12; depth++) {
    sql_okf(a, "SAVEPOINT s%d", depth);
    insert_rows(depth * 31, 130 * (depth % 4 + 1), 7919 + depth, 100);
    twins_both(a, "DELETE FROM @ WHERE k % 11 = 0");
  }
  sql_ok(a, "RELEASE s9");
  twins_same(a);
  sql_ok(a, "ROLLBACK TO s7");
  twins_same(a);
  insert_rows(99, 700, 104729, 100);
  sql_ok(a, "ROLLBACK TO s7");
  twins_same(a);
  sql_ok(a, "RELEASE s5; ROLLBACK TO s2");
  same_every_way();
  insert_rows(77, 900, 104729, 100);
  sql_ok(a, "RELEASE s1; ROLLBACK TO s0");
  twins_same(a);
  insert_rows(55, 900, 104729, 100);
  sql_ok(a, "COMMIT");
  same_every_way();
  files_agree(a, "t");
}
END_TEST

/* Savepoints that come and go, and statements that fail, make no files of their own. */
START_TEST(small_statements_make_no_small_files) {
  int statements = 0;
  sql_ok(a, "BEGIN; SAVEPOINT outermost");
  for (int i = 0; i < 600; i++, statements++) {
    if (i % 20 == 0) sql_ok(a, "SAVEPOINT s");
    insert_rows(i * 10, 10, 7919, 60);
    sql_fails(a,
              "INSERT INTO t SELECT k + 2000000, v FROM t LIMIT 20 OFFSET (SELECT count(*) - 19"
              " FROM t) - CASE WHEN 1 THEN 0 END; INSERT INTO t VALUES(2000003, 1), (2000003, 2)",
              SQLITE_CONSTRAINT, NULL);
    sql_ok(a, "DELETE FROM t WHERE k >= 2000000");
    if (i % 20 == 19) sql_ok(a, i % 3 ? "RELEASE s" : "ROLLBACK TO s; RELEASE s");
  }
  sqlite3_int64 spills = statistic("spills"), flushes = statistic("flushes");
  printf("spill: %d statements, %lld batches spilled, %lld files\n", statements, spills, flushes);
  ck_assert_int_ge(spills, 4);
  ck_assert_int_le(flushes, 2 * spills + 20); /* each, and what the open savepoint needs */
  twins_same(a);
  sql_ok(a, "COMMIT");
  files_agree(a, "t");
}
END_TEST

START_TEST(cursors_keep_what_they_saw) {
  insert_rows(0, 300, 7919, 50);
  sql_ok(a, "BEGIN");
  insert_rows(7, 1000, 104729, 100);
  char *seen = sql_query(a, "SELECT k FROM t ORDER BY k");
  sqlite3_int64 rows = sql_int(a, "SELECT count(*) FROM t");
  sqlite3_stmt *cursor;
  ck_assert_int_eq(sqlite3_prepare_v2(a, "SELECT k FROM t ORDER BY k", -1, &cursor, NULL),
                   SQLITE_OK);
  ck_assert_int_eq(sqlite3_step(cursor), SQLITE_ROW);
  sql_ok(a, "SAVEPOINT s");
  insert_rows(1, 2000, 104729, 100);
  twins_both(a, "DELETE FROM @");
  sql_ok(a, "ROLLBACK TO s");
  twins_same(a);
  insert_rows(2, 2000, 104729, 100);
  sql_ok(a, "COMMIT");
  sqlite3_int64 left = 1;
  while (sqlite3_step(cursor) == SQLITE_ROW) left++;
  ck_assert_int_eq(left, rows);
  ck_assert_int_eq(sqlite3_finalize(cursor), SQLITE_OK);
  sqlite3_free(seen);
  twins_same(b);
  sweep();
}
END_TEST

START_TEST(insert_from_itself) {
  insert_rows(0, 2000, 1, 60);
  sql_ok(a, "BEGIN");
  twins_both(a, "INSERT INTO @ SELECT k + 100000, v FROM @");
  twins_both(a, "INSERT OR REPLACE INTO @ SELECT k + 1000, v || 'y' FROM @ ORDER BY k DESC");
  twins_both(a, "UPDATE @ SET k = k + 500000 WHERE k < 3000");
  twins_both(a, "DELETE FROM @ WHERE v LIKE '1%'");
  same_every_way();
  sql_ok(a, "COMMIT");
  twins_same(b);
}
END_TEST

/* Commands find what was spilled. */
START_TEST(commands_inside) {
  insert_rows(0, 800, 7919, 100);
  insert_rows(5, 800, 7919, 100);
  sql_ok(a, "BEGIN; INSERT INTO t(t) VALUES('compact')");
  insert_rows(1, 1500, 104729, 100);
  sql_ok(a, "INSERT INTO t(t) VALUES('flush')");
  twins_both(a, "DELETE FROM @ WHERE k % 2 = 0");
  sql_ok(a, "COMMIT");
  ck_assert_int_eq(sql_int(a, "SELECT count(DISTINCT level || seq) FROM t_cffile"), 1);
  ck_assert_int_eq(sql_int(a, "SELECT sum(tombstones) FROM t_cffile"), 0);
  twins_same(b);
  sql_ok(a, "BEGIN");
  insert_rows(2, 1500, 104729, 100);
  sql_ok(a, "INSERT INTO t(t) VALUES('compact')");
  sql_ok(a, "COMMIT");
  if (!getenv("COLFAM_THREADS")) ck_assert_int_eq(all_runs(), 1);
  files_agree(a, "t");
}
END_TEST

START_TEST(row_count_may_be_given_up) {
  sql_ok(a, "INSERT INTO t(t) VALUES('track_rows=off')");
  insert_rows(1, 1500, 104729, 100);
  twins_same(a);
  sql_ok(a, "BEGIN; INSERT INTO t(t) VALUES('track_rows=on')");
  insert_rows(2, 1500, 104729, 100);
  sql_ok(a, "INSERT INTO t(t) VALUES('track_rows=off'); COMMIT");
  twins_same(a);
  twins_same(b);
}
END_TEST

/* The first COMMIT that fails has a log row; then the transaction spills; then it is rolled back to where it
** had not: each time the commit that succeeds is of the last state. */
START_TEST(commits_that_fail) {
  for (int last = 0; last < 4; last++) {
    twins_insert(a, 1000100 + 10 * last, 1000105 + 10 * last);
    sql_ok(a, "BEGIN; SAVEPOINT s0; RELEASE s0");
    twins_insert(a, 1000200 + 10 * last, 1000205 + 10 * last);
    sql_ok(a, "SAVEPOINT s");
    sqlite3_stmt *reader = twins_reader("o");
    sql_fails(a, "COMMIT", SQLITE_BUSY, NULL);
    insert_rows(last, 1500, 104729, 100);
    twins_same(a);
    sql_fails(a, "COMMIT", SQLITE_BUSY, NULL);
    twins_same(a);
    if (last > 0) insert_rows(last + 7, 900, 7919, 100);
    if (last > 1) sql_fails(a, "COMMIT", SQLITE_BUSY, NULL);
    if (last > 2) sql_ok(a, "ROLLBACK TO s");
    twins_same(a);
    ck_assert_int_eq(sqlite3_finalize(reader), SQLITE_OK);
    sql_ok(a, "COMMIT");
    twins_same(a);
    twins_same(b);
    sql_rows(b, "SELECT * FROM colfam_check('t')", "");
  }
  sweep();
}
END_TEST

START_TEST(table_made_or_dropped_in_the_transaction) {
  sql_ok(a, "BEGIN; CREATE VIRTUAL TABLE n USING colfam(k INT PRIMARY KEY, v);"
            "CREATE TABLE m(k INT PRIMARY KEY, v) WITHOUT ROWID");
  insert_rows(0, 1500, 104729, 100);
  sql_ok(a, "INSERT INTO n SELECT * FROM o; INSERT INTO m SELECT * FROM o; COMMIT");
  sql_same(b, "SELECT * FROM n", "SELECT * FROM m ORDER BY k");
  sql_ok(a,
         "BEGIN; UPDATE n SET v = v || '!'; SAVEPOINT s; UPDATE n SET v = v || '?'; DROP TABLE n;"
         "ROLLBACK TO s; COMMIT; UPDATE m SET v = v || '!'");
  sql_same(b, "SELECT * FROM n", "SELECT * FROM m ORDER BY k");
  sql_ok(a, "BEGIN; UPDATE n SET v = v || '!'; ALTER TABLE n RENAME TO nn; DROP TABLE nn; COMMIT");
  sql_ok(a, "BEGIN; CREATE VIRTUAL TABLE n USING colfam(k INT PRIMARY KEY, v); INSERT INTO n SELECT"
            " * FROM o; ROLLBACK; DROP TABLE m");
  sweep();
}
END_TEST

static void add_case(Suite *suite, const char *name, void (*setup)(void)) {
  TCase *tests = tcase_create(name);
  tcase_set_timeout(tests, 60);
  tcase_add_checked_fixture(tests, setup, close_small);
  tcase_add_test(tests, all_that_is_written_is_read);
  tcase_add_test(tests, rows_in_order_are_written_once);
  tcase_add_test(tests, rows_all_over_the_place_become_one_run);
  tcase_add_test(tests, rollback_leaves_nothing);
  tcase_add_test(tests, rollback_under_a_cursor_leaves_nothing);
  tcase_add_test(tests, savepoint_between_spills);
  tcase_add_test(tests, nested_savepoints);
  tcase_add_test(tests, small_statements_make_no_small_files);
  tcase_add_test(tests, cursors_keep_what_they_saw);
  tcase_add_test(tests, insert_from_itself);
  tcase_add_test(tests, commands_inside);
  tcase_add_test(tests, row_count_may_be_given_up);
  tcase_add_test(tests, table_made_or_dropped_in_the_transaction);
  if (setup == open_small_delete) tcase_add_test(tests, commits_that_fail);
  suite_add_tcase(suite, tests);
}

int main(void) {
  Suite *suite = suite_create("spill");
  add_case(suite, "wal", open_small);
  add_case(suite, "delete", open_small_delete);
  TCase *tests = tcase_create("thread");
  tcase_set_timeout(tests, 60);
  tcase_add_checked_fixture(tests, open_small_thread, close_small);
  tcase_add_test(tests, a_thread_merges_runs_after_the_commit);
  suite_add_tcase(suite, tests);
  return harness_run(suite);
}
