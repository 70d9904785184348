/* Threads of one process, each with connections of its own to one bank (harness_bank.h), which they close and
** open at any time. Beside writers and readers, one thread makes, renames and drops another colfam table, and
** one flushes and compacts, so that files come and go. Nobody waits but inside SQLite's busy handler. */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "harness_bank.h"
#include "harness_files.h"
#include "harness_sql.h"

#define ROUNDS 50       /* of each thread */
#define MOVING_ROWS 200 /* of the table that comes and goes */

static int below(struct bank_worker *worker, int bound) {
  return (int)harness_below(&worker->random, (uint64_t)bound);
}

/* ---- The table that comes and goes */

static void create_moving(struct bank_worker *worker, const char *name) {
  char *sql = sqlite3_mprintf(
      "CREATE VIRTUAL TABLE %s USING colfam(k INT PRIMARY KEY, v, memtable_bytes = 16384);"
      "WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n WHERE i < %d)"
      "INSERT INTO %s SELECT i, printf('%%0*d', 100, i) FROM n",
      name, MOVING_ROWS, name);
  sql_ok(worker->db, sql);
  sqlite3_free(sql);
}

static void move_table(struct bank_worker *worker) {
  sql_ok(worker->db, "BEGIN IMMEDIATE");
  create_moving(worker, "moving_a");
  bool kept = below(worker, 4) != 0;
  sql_ok(worker->db, kept ? "COMMIT" : "ROLLBACK");
  if (!kept) return;
  if (below(worker, 2)) sql_ok(worker->db, "INSERT INTO moving_a(moving_a) VALUES('flush')");
  sql_ok(worker->db, "ALTER TABLE moving_a RENAME TO moving_b");
  if (below(worker, 2)) bank_reopen(worker);
  if (below(worker, 2)) sql_ok(worker->db, "INSERT INTO moving_b(moving_b) VALUES('compact')");
  sql_ok(worker->db, "BEGIN IMMEDIATE; SAVEPOINT s; DROP TABLE moving_b; ROLLBACK TO s;"
                     "UPDATE moving_b SET v = v WHERE k % 7 = 0; COMMIT");
  sql_ok(worker->db, "DROP TABLE moving_b");
}

/* It is there with all its rows, or not at all. */
static void look_for_table(struct bank_worker *worker) {
  const char *sql = below(worker, 2) ? "SELECT count(*), sum(v) FROM moving_a"
                                     : "SELECT count(*), sum(v) FROM moving_b";
  sqlite3_stmt *stmt = NULL;
  int rc = sqlite3_prepare_v2(worker->db, sql, -1, &stmt, NULL);
  if (rc == SQLITE_OK) rc = sqlite3_step(stmt);
  if (rc == SQLITE_ROW) {
    ck_assert_int_eq(sqlite3_column_int(stmt, 0), MOVING_ROWS);
    ck_assert_int_eq(sqlite3_column_int(stmt, 1), MOVING_ROWS * (MOVING_ROWS + 1) / 2);
  } else {
    ck_assert_msg(strstr(sqlite3_errmsg(worker->db), "no such table") != NULL, "%s: code %d: %s",
                  sql, rc, sqlite3_errmsg(worker->db));
  }
  sqlite3_finalize(stmt);
}

/* ---- Upkeep */

static void keep_up(struct bank_worker *worker) {
  switch (below(worker, 5)) {
    case 0:
      sql_ok(worker->db, "INSERT INTO family(family) VALUES('flush')");
      break;
    case 1:
      sql_ok(worker->db, "INSERT INTO family(family) VALUES('compact')");
      break;
    case 2:
      sql_rows(worker->db, "SELECT * FROM colfam_check('family')", "");
      break;
    case 3:
      sql_int(worker->db, "SELECT count(*) FROM colfam_stats");
      sql_int(worker->db, "SELECT count(*) FROM colfam_files('family')");
      break;
    default:
      look_for_table(worker);
      bank_reopen(worker);
  }
}

/* ---- Threads */

static const struct {
  void (*round)(struct bank_worker *worker);
  int reopen_in; /* rounds, about */
} roles[] = {{bank_write, 15},        {bank_write, 40},     {bank_read, 8},   {bank_read, 50},
             {bank_read_snapshot, 5}, {look_for_table, 30}, {move_table, 20}, {keep_up, 1000}};
#define THREADS ((int)(sizeof roles / sizeof *roles))

struct thread {
  struct bank_worker worker;
  int role;
  pthread_barrier_t *start;
  pthread_t id;
};

static void *thread_main(void *context) {
  struct thread *thread = context;
  struct bank_worker *worker = &thread->worker;
  pthread_barrier_wait(thread->start);
  bank_open(worker);
  for (int round = 0; round < ROUNDS; round++) {
    roles[thread->role].round(worker);
    if (below(worker, roles[thread->role].reopen_in) == 0) bank_reopen(worker);
  }
  sql_close(worker->db);
  return NULL;
}

static void run_threads(struct bank *bank, uint64_t seed) {
  struct thread threads[THREADS];
  pthread_barrier_t start;
  ck_assert_int_eq(pthread_barrier_init(&start, NULL, THREADS), 0);
  for (int i = 0; i < THREADS; i++) {
    threads[i] = (struct thread){.worker = {.bank = bank, .writer = i}, .role = i, .start = &start};
    harness_seed(&threads[i].worker.random, seed * THREADS + (unsigned)i);
    ck_assert_int_eq(pthread_create(&threads[i].id, NULL, thread_main, &threads[i]), 0);
  }
  for (int i = 0; i < THREADS; i++) ck_assert_int_eq(pthread_join(threads[i].id, NULL), 0);
  pthread_barrier_destroy(&start);
}

/* Two commits of a process without readers prove all that waits. */
static void check_files(struct bank *bank) {
  struct bank_worker worker = {.bank = bank};
  bank_open(&worker);
  for (int i = 0; i < 2; i++) sql_ok(worker.db, "UPDATE family SET amount = amount WHERE id = 0");
  files_agree_when_closed(worker.db, "family");
}

static const char *const journals[] = {"wal", "delete", "truncate"};
#define JOURNALS ((int)(sizeof journals / sizeof *journals))

START_TEST(threads_see_whole_transactions_only) {
  struct bank bank;
  bank_set_up(&bank, journals[_i]);
  uint64_t seed = harness_seed_env(1);
  printf("threads, %s: seed %llu\n", bank.journal, (unsigned long long)seed);
  fflush(stdout);
  run_threads(&bank, seed);
  bank_check(&bank);
  check_files(&bank);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("concurrency");
  TCase *tc = tcase_create("threads");
  tcase_set_timeout(tc, 120);
  tcase_add_loop_test(tc, threads_see_whole_transactions_only, 0, JOURNALS);
  suite_add_tcase(suite, tc);
  return harness_run(suite);
}
