/* count(*) is right whoever asks and when: rows put without a look at what is there (OR REPLACE, conflict =
** replace) are counted later, together, at the latest by the COMMIT; savepoints, statement rollbacks and
** failing commits in between change nothing about that. Each answer is held against an ordinary table's and
** against a scan. COLFAM_SEED sets the seed. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "harness_sql.h"

static sqlite3 *db;

static void open_database(void) {
  db = sql_open(sql_path("app.db"));
}

static void close_database(void) {
  sql_close(db);
}

static void make_tables(const char *options) {
  sql_okf(db, "CREATE VIRTUAL TABLE t USING colfam(k INT PRIMARY KEY, v%s)", options);
  sql_ok(db, "CREATE TABLE p(k INT PRIMARY KEY, v) WITHOUT ROWID");
}

static void expect_same_count(void) {
  sql_same(db, "SELECT count(*) FROM t", "SELECT count(*) FROM p");
}

/* What the next connection reads from the log or the files. */
static void expect_committed_count(void) {
  sqlite3 *other = sql_open(sql_path("app.db"));
  sql_same(other, "SELECT count(*) FROM t", "SELECT count(*) FROM p");
  sql_same(other, "SELECT rows FROM colfam_families",
           "SELECT count(*) FROM t WHERE v IS NOT 'no such'");
  sql_close(other);
}

static void both(const char *format, long long a, long long b) {
  char *text = sqlite3_mprintf(format, "t", a, b);
  sql_ok(db, text);
  sqlite3_free(text);
  text = sqlite3_mprintf(format, "p", a, b);
  sql_ok(db, text);
  sqlite3_free(text);
}

#define SERIES "WITH n(i) AS (VALUES(%lld) UNION ALL SELECT i + 1 FROM n WHERE i < %lld) "

/* ---- Transactions of every shape */

static void write_something(struct harness_random *random) {
  long long key = (long long)harness_below(random, 400);
  switch (harness_below(random, 8)) {
    case 0:
      both("DELETE FROM %s WHERE k = %lld OR k = %lld", key, key + 1);
      break;
    case 1:
      both("DELETE FROM %s WHERE k BETWEEN %lld AND %lld", key, key + 20);
      break;
    case 2:
      both("UPDATE OR REPLACE %s SET k = %lld WHERE k = %lld", key,
           (long long)harness_below(random, 400));
      break;
    case 3:
      both("INSERT OR IGNORE INTO %s VALUES(%lld, %lld)", key, 1);
      break;
    case 4:
      both("INSERT OR REPLACE INTO %s " SERIES "SELECT i, 2 FROM n", key, key + 30);
      break;
    default:
      both("INSERT OR REPLACE INTO %s VALUES(%lld, %lld)", key, 3);
      break;
  }
}

/* A statement of many rows that fails at the last one. */
static void fail_something(struct harness_random *random) {
  long long key = (long long)harness_below(random, 400);
  for (int i = 0; i < 2; i++) {
    char *text = sqlite3_mprintf("INSERT OR REPLACE INTO %s " SERIES
                                 "SELECT CASE WHEN i < %lld THEN i END, 4 FROM n",
                                 i ? "p" : "t", key, key + 10, key + 10);
    sql_fails(db, text, SQLITE_CONSTRAINT_NOTNULL, "NOT NULL");
    sqlite3_free(text);
  }
}

static void move_savepoints(struct harness_random *random, int *depth) {
  char text[64];
  if (*depth < 5 && harness_below(random, 2)) {
    snprintf(text, sizeof text, "SAVEPOINT s%d", ++*depth);
    sql_ok(db, text);
  } else if (*depth) {
    int to = 1 + (int)harness_below(random, (uint64_t)*depth);
    bool back = harness_below(random, 3);
    snprintf(text, sizeof text, "%s s%d", back ? "ROLLBACK TO" : "RELEASE", to);
    sql_ok(db, text);
    *depth = back ? to : to - 1;
  }
}

static void run_transaction(struct harness_random *random) {
  int depth = 0;
  sql_ok(db, "BEGIN");
  for (uint64_t steps = harness_below(random, 60); steps; steps--) {
    uint64_t kind = harness_below(random, 20);
    if (kind < 12)
      write_something(random);
    else if (kind < 16)
      move_savepoints(random, &depth);
    else if (kind < 17)
      fail_something(random);
    else
      expect_same_count();
  }
  sql_ok(db, harness_below(random, 4) ? "COMMIT" : "ROLLBACK");
}

START_TEST(random_transactions_count_as_ordinary_tables_do) {
  struct harness_random random;
  harness_seed(&random, harness_seed_env(11));
  make_tables("");
  for (int i = 0; i < 120; i++) {
    run_transaction(&random);
    if (i % 10 == 5)
      sql_ok(db, i % 20 == 5 ? "INSERT INTO t(t) VALUES('flush')"
                             : "INSERT INTO t(t) VALUES('compact')");
    expect_same_count();
    if (i % 7 == 0) expect_committed_count();
  }
  sql_same(db, "SELECT * FROM t ORDER BY k", "SELECT * FROM p ORDER BY k");
}
END_TEST

/* More rows than wait at a time, some of them there, undone half way. */
START_TEST(large_transactions_count_in_groups) {
  make_tables(", conflict = replace");
  both("INSERT OR REPLACE INTO %s " SERIES "SELECT i * 3, 1 FROM n", 1, 20000);
  sql_ok(db, "INSERT INTO t(t) VALUES('flush')");
  sql_ok(db, "BEGIN");
  both("INSERT OR REPLACE INTO %s " SERIES "SELECT i, 2 FROM n", 1, 24000);
  sql_ok(db, "SAVEPOINT s");
  both("INSERT OR REPLACE INTO %s " SERIES "SELECT i * 2, 3 FROM n", 1, 36000);
  expect_same_count();
  both("INSERT OR REPLACE INTO %s " SERIES "SELECT i * 5, 3 FROM n", 1, 36000);
  sql_ok(db, "ROLLBACK TO s");
  expect_same_count();
  both("INSERT OR REPLACE INTO %s " SERIES "SELECT i * 7, 3 FROM n", 1, 36000);
  sql_ok(db, "COMMIT");
  expect_same_count();
  expect_committed_count();
}
END_TEST

/* ---- What it costs */

static sqlite3_int64 stat(const char *name) {
  char text[128];
  snprintf(text, sizeof text, "SELECT value FROM colfam_stats WHERE name = '%s'", name);
  return sql_int(db, text);
}

START_TEST(pending_keys_are_looked_up_once_and_together) {
  make_tables("");
  both("INSERT OR REPLACE INTO %s " SERIES "SELECT i, 1 FROM n", 1, 1000);
  sql_ok(db, "INSERT INTO t(t) VALUES('flush')");
  sqlite3_int64 probes = stat("probes"), passes = stat("multi_get_filter_passes");
  sql_ok(db, "BEGIN");
  for (int i = 0; i < 5; i++)
    both("INSERT OR REPLACE INTO %s " SERIES "SELECT i, 2 FROM n", 900, 1100);
  ck_assert_int_eq(stat("probes"), probes);
  sql_ok(db, "COMMIT");
  ck_assert_int_eq(stat("probes"), probes + 201);
  ck_assert_int_eq(stat("multi_get_filter_passes"), passes + 1);
  expect_same_count();
}
END_TEST

START_TEST(nothing_is_looked_up_where_rows_are_not_tracked) {
  make_tables(", track_rows = off");
  both("INSERT OR REPLACE INTO %s " SERIES "SELECT i, 1 FROM n", 1, 1000);
  ck_assert_int_eq(stat("probes"), 0);
  expect_same_count();
}
END_TEST

START_TEST(rowids_that_are_assigned_are_free) {
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(id INTEGER PRIMARY KEY, v);"
             "CREATE TABLE p(id INTEGER PRIMARY KEY, v)");
  both("INSERT INTO %s(v) " SERIES "SELECT i FROM n", 1, 1000);
  ck_assert_int_eq(stat("probes"), 0);
  sql_ok(db, "DELETE FROM t WHERE id > 990; DELETE FROM p WHERE id > 990; BEGIN");
  both("INSERT INTO %s(v) " SERIES "SELECT i FROM n", 1, 5);
  both("INSERT INTO %s(id, v) VALUES(%lld, %lld)", 5000, 1);
  both("INSERT INTO %s(v) " SERIES "SELECT i FROM n", 1, 5);
  sql_ok(db, "COMMIT");
  expect_same_count();
  sql_same(db, "SELECT id, v FROM t", "SELECT id, v FROM p");
}
END_TEST

START_TEST(changes_are_those_of_an_ordinary_table) {
  make_tables("");
  both("INSERT OR REPLACE INTO %s " SERIES "SELECT i, 1 FROM n", 1, 10);
  sql_ok(db, "BEGIN; INSERT OR REPLACE INTO t "
             "SELECT k + 5, 2 FROM p");
  sql_rows(db, "SELECT changes()", "10");
  sql_ok(db, "INSERT OR REPLACE INTO t VALUES(1, 1)");
  sql_rows(db, "SELECT changes(), count(*) FROM t", "1|15");
  sql_ok(db, "COMMIT");
}
END_TEST

/* ---- Failures */

/* The look fails when the block that it needs is damaged: the COMMIT says so, and nothing is committed. */
START_TEST(damage_found_by_the_look_fails_the_commit) {
  make_tables("");
  both("INSERT OR REPLACE INTO %s " SERIES "SELECT i, hex(randomblob(50)) FROM n", 1, 3000);
  sql_ok(db, "INSERT INTO t(t) VALUES('flush')");
  char *id = sql_query(db, "SELECT id FROM colfam_files('t')");
  char path[4096];
  snprintf(path, sizeof path, "%s-colfam/%s.sst", sql_path("app.db"), id);
  sqlite3_free(id);
  close_database();
  FILE *file = fopen(path, "r+b");
  ck_assert_ptr_nonnull(file);
  fseek(file, 40, SEEK_SET);
  int byte = fgetc(file);
  fseek(file, 40, SEEK_SET);
  fputc(byte ^ 1, file);
  fclose(file);
  open_database();
  int key = sql_reverse() ? 3000 : 1; /* in the file's first block */
  sql_okf(db,
          "BEGIN; INSERT OR REPLACE INTO t VALUES(%d, 'x'), (99999, 'y'); INSERT INTO p "
          "VALUES(99999, 1)",
          key);
  sql_fails(db, "SELECT count(*) FROM t", SQLITE_CORRUPT_VTAB, "block");
  sql_fails(db, "COMMIT", SQLITE_CORRUPT_VTAB, "block");
  ck_assert_int_eq(sqlite3_get_autocommit(db), 1);
  sql_rows(db, "SELECT count(*) FROM p", "3000");
  sql_rows(db, "SELECT count(*) FROM t", "3000");
  sql_fails(db,
            key > 1 ? "INSERT OR REPLACE INTO t VALUES(3000, 'x')"
                    : "INSERT OR REPLACE INTO t VALUES(1, 'x')",
            SQLITE_CORRUPT_VTAB, "block");
  sql_ok(db, "INSERT OR REPLACE INTO t VALUES(99999, 'y')");
  sql_rows(db, "SELECT count(*) FROM t", "3001");
}
END_TEST

int main(void) {
  Suite *suite = suite_create("counting");
  TCase *tests = tcase_create("counting");
  tcase_set_timeout(tests, 120);
  tcase_add_checked_fixture(tests, open_database, close_database);
  tcase_add_test(tests, random_transactions_count_as_ordinary_tables_do);
  tcase_add_test(tests, large_transactions_count_in_groups);
  tcase_add_test(tests, pending_keys_are_looked_up_once_and_together);
  tcase_add_test(tests, nothing_is_looked_up_where_rows_are_not_tracked);
  tcase_add_test(tests, rowids_that_are_assigned_are_free);
  tcase_add_test(tests, changes_are_those_of_an_ordinary_table);
  tcase_add_test(tests, damage_found_by_the_look_fails_the_commit);
  suite_add_tcase(suite, tests);
  return harness_run(suite);
}
