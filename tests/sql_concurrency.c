/* Threads of one process, each with connections of its own to one database, which they close and open at any
** time. Writers move money between accounts, in an ordinary table and in a colfam table alike, and insert and
** delete tickets; readers hold the two tables against each other, in single statements and in snapshots that
** must stand still; one thread makes, renames and drops another colfam table; one flushes and compacts, so
** that files come and go. Every answer is checked; nobody waits but inside SQLite's busy handler. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "harness_files.h"
#include "harness_sql.h"

#define ACCOUNTS 40
#define MONEY 1000 /* of an account, at first */
#define WRITERS 2
#define TICKETS_FIRST(writer) (1000000 * ((writer) + 1))
#define ROUNDS 50       /* of each thread */
#define MOVING_ROWS 200 /* of the table that comes and goes */

struct hall {
  char path[4096];
  const char *journal;
  pthread_barrier_t start;
  atomic_int deleted[WRITERS]; /* tickets whose deletion is committed: all up to this one */
};

struct worker {
  struct hall *hall;
  int number; /* of the writers: from 0 */
  struct harness_random random;
  sqlite3 *db;
  int last_ticket, first_ticket;
};

static int below(struct worker *worker, int bound) {
  return (int)harness_below(&worker->random, (uint64_t)bound);
}

static void open_connection(struct worker *worker) {
  worker->db = sql_open(worker->hall->path);
  sqlite3_busy_timeout(worker->db, 120000);
  if (strcmp(worker->hall->journal, "truncate") == 0)
    sql_ok(worker->db, "PRAGMA journal_mode = truncate");
  sql_ok(worker->db, "PRAGMA synchronous = normal");
}

static void reopen(struct worker *worker) {
  sql_close(worker->db);
  open_connection(worker);
}

/* ---- Writers */

static void change(struct worker *worker, const char *format, int first, int second) {
  static const char *const tables[] = {"plain", "family"};
  for (int i = 0; i < 2; i++) {
    char *sql = sqlite3_mprintf(format, tables[i], first, second);
    sql_ok(worker->db, sql);
    sqlite3_free(sql);
  }
}

static void move_money(struct worker *worker) {
  int from = below(worker, ACCOUNTS), to = below(worker, ACCOUNTS), amount = 1 + below(worker, 50);
  change(worker, "UPDATE %s SET amount = amount - %d WHERE id = %d", amount, from);
  change(worker, "UPDATE %s SET amount = amount + %d WHERE id = %d", amount, to);
}

static void insert_tickets(struct worker *worker) {
  for (int left = 1 + below(worker, 6); left; left--)
    change(worker, "INSERT INTO %s VALUES(%d, 0, printf('%%0*d', %d, 7))",
           TICKETS_FIRST(worker->number) + ++worker->last_ticket, 50 + below(worker, 900));
}

/* The oldest, so that "all up to this one" tells which are gone. */
static void delete_tickets(struct worker *worker) {
  int upto = worker->first_ticket + (worker->last_ticket - worker->first_ticket) / 2;
  int base = TICKETS_FIRST(worker->number);
  change(worker, "DELETE FROM %s WHERE id BETWEEN %d AND %d", base, base + upto);
  worker->first_ticket = upto;
}

static void undone_savepoint(struct worker *worker) {
  sql_ok(worker->db, "SAVEPOINT s");
  change(worker, "UPDATE %s SET amount = amount + %d WHERE id < %d", 1, ACCOUNTS);
  change(worker, "DELETE FROM %s WHERE id > %d + %d", TICKETS_FIRST(0), 0);
  sql_ok(worker->db, "ROLLBACK TO s; RELEASE s");
}

static void write_once(struct worker *worker) {
  struct worker before = *worker;
  sql_ok(worker->db, "BEGIN IMMEDIATE");
  for (int left = 1 + below(worker, 3); left; left--) move_money(worker);
  if (below(worker, 3) == 0) undone_savepoint(worker);
  if (below(worker, 2)) insert_tickets(worker);
  if (below(worker, 3) == 0) delete_tickets(worker);
  if (below(worker, 6) == 0) {
    sql_ok(worker->db, "ROLLBACK");
    worker->first_ticket = before.first_ticket;
    worker->last_ticket = before.last_ticket;
    return;
  }
  sql_ok(worker->db, "COMMIT");
  atomic_store(&worker->hall->deleted[worker->number], worker->first_ticket);
}

/* ---- Readers */

#define SAME_ROWS                                                                                \
  "SELECT (SELECT group_concat(id || ' ' || amount || ' ' || length(note), ',') FROM (SELECT * " \
  "FROM plain ORDER BY id)) = (SELECT group_concat(id || ' ' || amount || ' ' || length(note), " \
  "',') FROM (SELECT * FROM family ORDER BY id))"

static void check_one(struct worker *worker, const char *what, const char *sql) {
  sqlite3_int64 answer = sql_int(worker->db, sql);
  ck_assert_msg(answer == 1, "%s: %lld", what, (long long)answer);
}

static void check_sums(struct worker *worker) {
  char sql[400];
  snprintf(sql, sizeof sql,
           "SELECT (SELECT sum(amount) FROM family) = %d AND (SELECT sum(amount) FROM plain) = %d",
           ACCOUNTS * MONEY, ACCOUNTS * MONEY);
  check_one(worker, "sums", sql);
  check_one(worker, "counts",
            "SELECT (SELECT count(*) FROM family) = (SELECT count(*) FROM plain)");
}

static void check_points(struct worker *worker) {
  char sql[800];
  int a = below(worker, ACCOUNTS), b = below(worker, ACCOUNTS), c = below(worker, ACCOUNTS);
  snprintf(sql, sizeof sql,
           "SELECT (SELECT group_concat(amount) FROM family WHERE id IN (%d, %d, %d)) ="
           " (SELECT group_concat(amount) FROM plain WHERE id IN (%d, %d, %d))"
           " AND (SELECT amount FROM family WHERE id = %d) = (SELECT amount FROM plain"
           " WHERE id = %d) AND EXISTS(SELECT 1 FROM family WHERE id = %d)",
           a, b, c, a, b, c, a, a, b);
  check_one(worker, "points", sql);
  check_one(worker, "join",
            "SELECT count(*) = 0 FROM plain p LEFT JOIN family f ON f.id = p.id"
            " WHERE f.amount IS NOT p.amount OR f.note IS NOT p.note");
}

static void check_deleted(struct worker *worker, int writer) {
  char sql[600];
  int upto = TICKETS_FIRST(writer) + atomic_load(&worker->hall->deleted[writer]);
  snprintf(sql, sizeof sql,
           "SELECT NOT EXISTS(SELECT 1 FROM family WHERE id BETWEEN %d AND %d)"
           " AND NOT EXISTS(SELECT 1 FROM family WHERE id = %d)"
           " AND NOT EXISTS(SELECT 1 FROM family WHERE id IN (%d, %d, %d, %d))",
           TICKETS_FIRST(writer), upto, upto, upto, upto - 1, upto - 5, upto - 20);
  check_one(worker, "deleted tickets", sql);
}

static void read_once(struct worker *worker) {
  check_deleted(worker, below(worker, WRITERS));
  check_sums(worker);
  check_points(worker);
  check_one(worker, "rows", SAME_ROWS);
}

/* A half-read cursor, and the same rows read again in other ways meanwhile. */
static void read_snapshot(struct worker *worker) {
  static const char all[] = "SELECT id, amount, note FROM family ORDER BY id";
  sql_ok(worker->db, "BEGIN");
  char *before = sql_query(worker->db, all);
  sqlite3_stmt *cursor;
  ck_assert_int_eq(sqlite3_prepare_v2(worker->db, all, -1, &cursor, NULL), SQLITE_OK);
  for (int i = 0; i < 5; i++) ck_assert_int_eq(sqlite3_step(cursor), SQLITE_ROW);
  for (int i = 0; i < 4; i++) {
    sql_rows(worker->db, all, before);
    check_sums(worker);
    check_points(worker);
  }
  sqlite3_int64 rows = sql_int(worker->db, "SELECT count(*) FROM plain");
  int read = 5;
  while (sqlite3_step(cursor) == SQLITE_ROW) read++;
  ck_assert_int_eq(sqlite3_finalize(cursor), SQLITE_OK);
  ck_assert_int_eq(read, rows);
  check_one(worker, "rows", SAME_ROWS);
  sql_ok(worker->db, "COMMIT");
  sqlite3_free(before);
}

/* ---- The table that comes and goes */

static void create_moving(struct worker *worker, const char *name) {
  char *sql = sqlite3_mprintf(
      "CREATE VIRTUAL TABLE %s USING colfam(k INT PRIMARY KEY, v, memtable_bytes = 16384);"
      "WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n WHERE i < %d)"
      "INSERT INTO %s SELECT i, printf('%%0*d', 100, i) FROM n",
      name, MOVING_ROWS, name);
  sql_ok(worker->db, sql);
  sqlite3_free(sql);
}

static void move_table(struct worker *worker) {
  sql_ok(worker->db, "BEGIN IMMEDIATE");
  create_moving(worker, "moving_a");
  bool kept = below(worker, 4) != 0;
  sql_ok(worker->db, kept ? "COMMIT" : "ROLLBACK");
  if (!kept) return;
  if (below(worker, 2)) sql_ok(worker->db, "INSERT INTO moving_a(moving_a) VALUES('flush')");
  sql_ok(worker->db, "ALTER TABLE moving_a RENAME TO moving_b");
  if (below(worker, 2)) reopen(worker);
  if (below(worker, 2)) sql_ok(worker->db, "INSERT INTO moving_b(moving_b) VALUES('compact')");
  sql_ok(worker->db, "BEGIN IMMEDIATE; SAVEPOINT s; DROP TABLE moving_b; ROLLBACK TO s;"
                     "UPDATE moving_b SET v = v WHERE k % 7 = 0; COMMIT");
  sql_ok(worker->db, "DROP TABLE moving_b");
}

/* It is there with all its rows, or not at all. */
static void look_for_table(struct worker *worker) {
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

static void keep_up(struct worker *worker) {
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
      reopen(worker);
  }
}

/* ---- Threads */

static const struct {
  void (*round)(struct worker *worker);
  int reopen_in; /* rounds, about */
} roles[] = {{write_once, 15},   {write_once, 40},     {read_once, 8},   {read_once, 50},
             {read_snapshot, 5}, {look_for_table, 30}, {move_table, 20}, {keep_up, 1000}};
#define THREADS (sizeof roles / sizeof *roles)

struct thread {
  struct worker worker;
  size_t role;
  pthread_t id;
};

static void *thread_main(void *context) {
  struct thread *thread = context;
  struct worker *worker = &thread->worker;
  pthread_barrier_wait(&worker->hall->start);
  open_connection(worker);
  for (int round = 0; round < ROUNDS; round++) {
    roles[thread->role].round(worker);
    if (below(worker, roles[thread->role].reopen_in) == 0) reopen(worker);
  }
  sql_close(worker->db);
  return NULL;
}

static void run_threads(struct hall *hall, uint64_t seed) {
  struct thread threads[THREADS];
  ck_assert_int_eq(pthread_barrier_init(&hall->start, NULL, THREADS), 0);
  for (size_t i = 0; i < THREADS; i++) {
    threads[i] = (struct thread){.worker = {.hall = hall, .number = (int)i}, .role = i};
    harness_seed(&threads[i].worker.random, seed * THREADS + i);
    ck_assert_int_eq(pthread_create(&threads[i].id, NULL, thread_main, &threads[i]), 0);
  }
  for (size_t i = 0; i < THREADS; i++) ck_assert_int_eq(pthread_join(threads[i].id, NULL), 0);
  pthread_barrier_destroy(&hall->start);
}

static void set_up(struct hall *hall) {
  sqlite3 *db = sql_open(hall->path);
  sql_okf(db, "PRAGMA journal_mode = %s", hall->journal);
  sql_okf(db,
          "CREATE TABLE plain(id INTEGER PRIMARY KEY, amount INT, note);"
          "CREATE VIRTUAL TABLE family USING colfam(id INT PRIMARY KEY, amount, note,"
          " memtable_bytes = 16384);"
          "WITH RECURSIVE n(i) AS (VALUES(0) UNION ALL SELECT i + 1 FROM n WHERE i < %d)"
          "INSERT INTO plain SELECT i, %d, '' FROM n; INSERT INTO family SELECT * FROM plain",
          ACCOUNTS - 1, MONEY);
  sql_close(db);
}

/* What is left: the same rows, no damage, and of files exactly those that are named. */
static void check_left(struct hall *hall) {
  struct worker worker = {.hall = hall};
  open_connection(&worker);
  read_once(&worker);
  sql_rows(worker.db, "SELECT * FROM colfam_check('family')", "");
  for (int i = 0; i < 2; i++) sql_ok(worker.db, "UPDATE family SET amount = amount WHERE id = 0");
  files_agree(worker.db, "family");
  sql_rows(worker.db, "PRAGMA integrity_check", "ok");
  sql_close(worker.db);
}

static const char *const journals[] = {"wal", "delete", "truncate"};
#define JOURNALS ((int)(sizeof journals / sizeof *journals))

START_TEST(threads_see_whole_transactions_only) {
  struct hall hall = {.journal = journals[_i]};
  snprintf(hall.path, sizeof hall.path, "%s", sql_path("app.db"));
  set_up(&hall);
  uint64_t seed = harness_seed_env(1);
  printf("threads, %s: seed %llu\n", hall.journal, (unsigned long long)seed);
  fflush(stdout);
  run_threads(&hall, seed);
  check_left(&hall);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("concurrency");
  TCase *tc = tcase_create("one database");
  tcase_set_timeout(tc, 120);
  tcase_add_loop_test(tc, threads_see_whole_transactions_only, 0, JOURNALS);
  suite_add_tcase(suite, tc);
  return harness_run(suite);
}
