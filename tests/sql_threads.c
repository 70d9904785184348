/* Several threads, each with a connection of its own to one database: no update is lost, money moved between
** rows and tables is never made or lost in the eyes of any snapshot, files come and go meanwhile. */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "harness_twins.h"

#define THREADS 8
#define INCREMENTS 100
#define TRANSFERS 80
#define ACCOUNTS 40

/* What a thread does, and the first thing that went wrong; Check's asserts belong to the main thread. */
struct worker {
  pthread_t thread;
  int number;
  char wrong[300];
};

static sqlite3 *open_worker(struct worker *worker) {
  sqlite3 *db = NULL;
  char path[4200];
  snprintf(path, sizeof path, "%s/app.db", harness_dir());
  if (sqlite3_open(path, &db) != SQLITE_OK || sql_load(db, NULL) != SQLITE_OK)
    snprintf(worker->wrong, sizeof worker->wrong, "open: %s", sqlite3_errmsg(db));
  sqlite3_busy_timeout(db, 60000);
  return db;
}

/* False after a failure, which is noted. */
static bool run(struct worker *worker, sqlite3 *db, const char *sql) {
  if (worker->wrong[0]) return false;
  if (sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK) return true;
  snprintf(worker->wrong, sizeof worker->wrong, "%.200s: %s", sql, sqlite3_errmsg(db));
  return false;
}

static sqlite3_int64 number(struct worker *worker, sqlite3 *db, const char *sql) {
  sqlite3_stmt *stmt = NULL;
  sqlite3_int64 value = -1;
  if (sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) == SQLITE_OK && sqlite3_step(stmt) == SQLITE_ROW)
    value = sqlite3_column_int64(stmt, 0);
  else
    snprintf(worker->wrong, sizeof worker->wrong, "%.200s: %s", sql, sqlite3_errmsg(db));
  sqlite3_finalize(stmt);
  return value;
}

static void run_workers(void *(*work)(void *)) {
  struct worker workers[THREADS];
  memset(workers, 0, sizeof workers);
  for (int i = 0; i < THREADS; i++) {
    workers[i].number = i;
    ck_assert_int_eq(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
  }
  for (int i = 0; i < THREADS; i++) pthread_join(workers[i].thread, NULL);
  for (int i = 0; i < THREADS; i++) ck_assert_msg(!workers[i].wrong[0], "%s", workers[i].wrong);
}

static void *increment(void *context) {
  struct worker *worker = context;
  sqlite3 *db = open_worker(worker);
  for (int i = 0; i < INCREMENTS && !worker->wrong[0]; i++)
    run(worker, db,
        "BEGIN IMMEDIATE; UPDATE t SET v = v + 1 WHERE k = 1;"
        "UPDATE o SET v = v + 1 WHERE k = 1; COMMIT");
  sqlite3_close(db);
  return NULL;
}

START_TEST(no_update_is_lost) {
  twins_both(a, "INSERT INTO @ VALUES(1, 0)");
  run_workers(increment);
  ck_assert_int_eq(sql_int(a, "SELECT v FROM t WHERE k = 1"), THREADS * INCREMENTS);
  twins_same(a);
}
END_TEST

/* From an account of one table to one of the other. */
static void transfer(struct worker *worker, sqlite3 *db, struct harness_random *random) {
  bool to_family = harness_below(random, 2);
  char sql[500];
  unsigned from = (unsigned)harness_below(random, ACCOUNTS);
  unsigned to = (unsigned)harness_below(random, ACCOUNTS);
  unsigned amount = (unsigned)harness_below(random, 100);
  snprintf(sql, sizeof sql,
           "BEGIN IMMEDIATE; UPDATE %s SET v = v - %u WHERE k = %u; UPDATE %s SET v = v + %u"
           " WHERE k = %u; INSERT OR REPLACE INTO t VALUES(1000 + %u, printf('%%02000d', %u))",
           to_family ? "o" : "t", amount, from, to_family ? "t" : "o", amount, to, to, amount);
  if (!run(worker, db, sql)) return;
  unsigned what = (unsigned)harness_below(random, 10);
  if (what == 0) run(worker, db, "INSERT INTO t(t) VALUES('flush')");
  if (what == 1) run(worker, db, "INSERT INTO t(t) VALUES('compact')");
  run(worker, db, what == 2 ? "ROLLBACK" : "COMMIT");
}

static void audit(struct worker *worker, sqlite3 *db) {
  if (!run(worker, db, "BEGIN")) return;
  const char *sum = "SELECT (SELECT sum(v) FROM t WHERE k < 1000) + (SELECT sum(v) FROM o)";
  for (int i = 0; i < 2; i++) {
    sqlite3_int64 money = number(worker, db, sum);
    if (!worker->wrong[0] && money != 2 * ACCOUNTS * 1000)
      snprintf(worker->wrong, sizeof worker->wrong, "the sum is %lld", (long long)money);
  }
  run(worker, db, "COMMIT");
}

static void *bank(void *context) {
  struct worker *worker = context;
  struct harness_random random;
  harness_seed(&random, (uint64_t)worker->number + 1);
  sqlite3 *db = open_worker(worker);
  for (int i = 0; i < TRANSFERS && !worker->wrong[0]; i++) {
    transfer(worker, db, &random);
    audit(worker, db);
    if (i % 20 != 19) continue;
    sqlite3_close(db);
    db = open_worker(worker);
  }
  sqlite3_close(db);
  return NULL;
}

START_TEST(money_is_neither_made_nor_lost) {
  twins_both(a, "WITH RECURSIVE n(i) AS (VALUES(0) UNION ALL SELECT i + 1 FROM n WHERE i < 39)"
                "INSERT INTO @ SELECT i, 1000 FROM n");
  run_workers(bank);
  sql_rows(a, "SELECT (SELECT sum(v) FROM t WHERE k < 1000) + (SELECT sum(v) FROM o)", "80000");
  sql_rows(a, "SELECT * FROM colfam_check('t')", "");
  twins_both(a, "DELETE FROM @");
}
END_TEST

static void add(Suite *suite, const char *name, SFun open) {
  TCase *tc = tcase_create(name);
  tcase_set_timeout(tc, 60);
  tcase_add_checked_fixture(tc, open, twins_close);
  tcase_add_test(tc, no_update_is_lost);
  tcase_add_test(tc, money_is_neither_made_nor_lost);
  suite_add_tcase(suite, tc);
}

int main(void) {
  Suite *suite = suite_create("threads");
  add(suite, "rollback journal", twins_open_delete);
  add(suite, "wal", twins_open_wal);
  return harness_run(suite);
}
