/* What one row costs in transactions of 1,000 to 1,000,000 rows: as much in the large ones as in the small,
** for puts, overwrites, gets and deletes, and for statements that fail. Steps are counted, not time:
** allocations of SQLite and of the engine, and all that the engine's own counters tell (colfam_stats). What
** the batch does inside is counted by test_batch. */
#include <inttypes.h>
#include <stdio.h>

#include "harness_oom.h"
#include "harness_sql.h"

static sqlite3 *db;

static void open_database(void) {
  db = sql_open(sql_path("costs.db"));
  sql_ok(db, "PRAGMA synchronous = off;"
             "CREATE VIRTUAL TABLE t USING colfam(k INT PRIMARY KEY, v)");
}

static void close_database(void) {
  sql_close(db);
}

/* ---- Steps */

static uint64_t counters(void) {
  return (uint64_t)sql_int(db, "SELECT sum(value) FROM colfam_stats WHERE table_name = 't'"
                               " AND unit NOT IN ('bytes')");
}

struct steps {
  uint64_t allocations, counted;
};

static void steps_begin(struct steps *steps) {
  steps->counted = counters();
  oom_count();
}

static void steps_end(struct steps *steps) {
  steps->allocations = oom_count();
  steps->counted = counters() - steps->counted;
}

/* ---- Rows */

/* In no order that the keys have. */
static sqlite3_int64 key_of(sqlite3_int64 i) {
  return (sqlite3_int64)((uint64_t)i * 0x9e3779b97f4a7c15u >> 2);
}

/* The statement once for each row. */
static void run(const char *sql, int rows, struct steps *steps) {
  sqlite3_stmt *stmt;
  ck_assert_int_eq(sqlite3_prepare_v2(db, sql, -1, &stmt, NULL), SQLITE_OK);
  steps_begin(steps);
  for (int i = 1; i <= rows; i++) {
    sqlite3_bind_int64(stmt, 1, key_of(i));
    while (sqlite3_step(stmt) == SQLITE_ROW) continue;
    int rc = sqlite3_reset(stmt);
    ck_assert_msg(rc == SQLITE_OK, "%s: %s", sql, sqlite3_errmsg(db));
  }
  steps_end(steps);
  sqlite3_finalize(stmt);
}

static const char *const phases[] = {
    "INSERT INTO t VALUES(?1, 'first')",
    "SELECT v FROM t WHERE k = ?1",
    "INSERT OR REPLACE INTO t VALUES(?1, 'second')",
    "UPDATE t SET v = 'third' WHERE k = ?1",
    "SELECT 1 FROM t WHERE k = -?1",
    "DELETE FROM t WHERE k = ?1",
    "SELECT v FROM t WHERE k = ?1",
};
enum { PHASES = sizeof phases / sizeof *phases };

static void run_all(int rows, struct steps steps[PHASES]) {
  sql_ok(db, "BEGIN");
  for (int i = 0; i < PHASES; i++) run(phases[i], rows, &steps[i]);
  sql_rows(db, "SELECT count(*) FROM t", "0");
  sql_ok(db, "ROLLBACK");
}

/* At most twice as many a row as in the smallest transaction. */
static void check_flat(const char *what, const char *sql, uint64_t steps, int rows, uint64_t least,
                       int least_rows) {
  ck_assert_msg(steps * (uint64_t)least_rows <= 2 * least * (uint64_t)rows + (uint64_t)rows / 100,
                "%s: %d rows take %" PRIu64 " %s, %d rows %" PRIu64, sql, rows, steps, what,
                least_rows, least);
}

START_TEST(rows_of_a_transaction_cost_the_same_at_every_size) {
  static struct steps steps[4][PHASES];
  for (int i = 0, rows = 1000; i < 4; i++, rows *= 10) {
    run_all(rows, steps[i]);
    for (int k = 0; k < PHASES; k++) {
      const struct steps *least = &steps[0][k], *now = &steps[i][k];
      check_flat("allocations", phases[k], now->allocations, rows, least->allocations, 1000);
      check_flat("counted steps", phases[k], now->counted, rows, least->counted, 1000);
    }
  }
}
END_TEST

/* ---- Statements that fail */

static void fail_often(int first, int count, struct steps *steps) {
  static const char sql[] = "INSERT INTO t VALUES(?1, 1), (?1 + 1, 2), (?1 + 2, 3), (1, 'again')";
  sqlite3_stmt *stmt;
  ck_assert_int_eq(sqlite3_prepare_v2(db, sql, -1, &stmt, NULL), SQLITE_OK);
  steps_begin(steps);
  for (int i = first; i < first + count; i++) {
    sqlite3_bind_int(stmt, 1, 10 * i);
    ck_assert_int_eq(sqlite3_step(stmt), SQLITE_CONSTRAINT_PRIMARYKEY);
    sqlite3_reset(stmt);
  }
  steps_end(steps);
  sqlite3_finalize(stmt);
}

START_TEST(sixty_thousand_failing_statements_cost_the_same_each) {
  enum { PART = 6000, PARTS = 10 };
  struct steps first, now;
  sql_ok(db, "BEGIN; INSERT INTO t VALUES(1, 'kept')");
  fail_often(1, 100, &first);
  fail_often(1000, PART, &first);
  sqlite3_int64 memory = sqlite3_memory_used();
  for (int i = 1; i < PARTS; i++) {
    fail_often(1000 + i * PART, PART, &now);
    ck_assert_uint_le(now.allocations, first.allocations + PART / 100);
    ck_assert_uint_le(now.counted, first.counted + PART / 100);
  }
  ck_assert_int_le(sqlite3_memory_used(), memory + 65536);
  sql_ok(db, "COMMIT");
  sql_rows(db, "SELECT * FROM t", "1|kept");
}
END_TEST

int main(void) {
  oom_install();
  Suite *suite = suite_create("core_costs");
  TCase *tcase = tcase_create("costs");
  tcase_set_timeout(tcase, 60);
  tcase_add_checked_fixture(tcase, open_database, close_database);
  tcase_add_test(tcase, rows_of_a_transaction_cost_the_same_at_every_size);
  tcase_add_test(tcase, sixty_thousand_failing_statements_cost_the_same_each);
  suite_add_tcase(suite, tcase);
  return harness_run(suite);
}
