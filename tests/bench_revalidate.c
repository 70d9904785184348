/* What it costs a statement to see that its cached view is still good, and to catch up with one foreign
** commit: nanoseconds for a point read of a colfam table and of the same ordinary one, inside a transaction
** (nothing to ask for but the data version), in one of its own, and after a commit of another connection.
** Figures for people; it asserts nothing. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "harness_sql.h"

#define BATCHES 100 /* of which the best counts: others may be at work */
#define READS 500
#define CATCHES 2000

static sqlite3 *db, *other;

static double now_ns(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static sqlite3_stmt *prepare(sqlite3 *by, const char *format, const char *table) {
  sqlite3_stmt *made;
  char *sql = sqlite3_mprintf(format, table);
  ck_assert_int_eq(sqlite3_prepare_v2(by, sql, -1, &made, NULL), SQLITE_OK);
  sqlite3_free(sql);
  return made;
}

static void run(sqlite3_stmt *statement, int key) {
  sqlite3_bind_int(statement, 1, key);
  while (sqlite3_step(statement) == SQLITE_ROW) {
  }
  ck_assert_int_eq(sqlite3_reset(statement), SQLITE_OK);
}

static double time_reads(const char *table) {
  sqlite3_stmt *read = prepare(db, "SELECT v FROM %s WHERE k = ?1", table);
  double best = 1e18;
  for (int batch = 0; batch < BATCHES; batch++) {
    double begun = now_ns();
    for (int i = 0; i < READS; i++) run(read, i % 1000);
    double each = (now_ns() - begun) / READS;
    if (each < best) best = each;
  }
  sqlite3_finalize(read);
  return best;
}

static int compare(const void *a, const void *b) {
  double left = *(const double *)a, right = *(const double *)b;
  return (left > right) - (left < right);
}

/* The reads alone, each after a commit that is not timed: the one in the middle. */
static double time_catching_up(const char *table) {
  sqlite3_stmt *read = prepare(db, "SELECT v FROM %s WHERE k = ?1", table);
  sqlite3_stmt *write = prepare(other, "INSERT OR REPLACE INTO %s VALUES(?1, 'new')", table);
  static double samples[CATCHES];
  for (int i = 0; i < CATCHES; i++) {
    run(write, i % 1000);
    double begun = now_ns();
    run(read, i % 1000);
    samples[i] = now_ns() - begun;
  }
  sqlite3_finalize(read);
  sqlite3_finalize(write);
  qsort(samples, CATCHES, sizeof *samples, compare);
  return samples[CATCHES / 2];
}

START_TEST(revalidation) {
  static const char *const tables[] = {"o", "t"};
  for (int i = 0; i < 2; i++) {
    sql_ok(db, "BEGIN");
    double inside = time_reads(tables[i]);
    sql_ok(db, "COMMIT");
    double alone = time_reads(tables[i]);
    double after = time_catching_up(tables[i]);
    printf("%-8s in a transaction %6.0f ns, alone %6.0f ns, after a foreign commit %6.0f ns\n",
           i ? "colfam" : "ordinary", inside, alone, after);
  }
}
END_TEST

static void set_up(void) {
  db = sql_open(sql_path("app.db"));
  sql_ok(db, "PRAGMA journal_mode = wal; PRAGMA synchronous = off;"
             "CREATE TABLE o(k INT PRIMARY KEY, v) WITHOUT ROWID;"
             "CREATE VIRTUAL TABLE t USING colfam(k INT PRIMARY KEY, v);"
             "WITH RECURSIVE n(i) AS (VALUES(0) UNION ALL SELECT i + 1 FROM n WHERE i < 999)"
             "INSERT INTO o SELECT i, 'value ' || i FROM n; INSERT INTO t SELECT * FROM o;"
             "INSERT INTO t(t) VALUES('flush')");
  other = sql_open(sql_path("app.db"));
  sql_ok(other, "PRAGMA synchronous = off");
}

static void tear_down(void) {
  sql_close(other);
  sql_close(db);
}

int main(void) {
  Suite *suite = suite_create("revalidation");
  TCase *tests = tcase_create("costs");
  tcase_set_timeout(tests, 100);
  tcase_add_checked_fixture(tests, set_up, tear_down);
  tcase_add_test(tests, revalidation);
  suite_add_tcase(suite, tests);
  return harness_run(suite);
}
