/* See harness_bank.h. */
#include "harness_bank.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "harness_files.h"
#include "harness_sql.h"

void bank_set_up(struct bank *bank, const char *journal) {
  memset(bank, 0, sizeof *bank);
  snprintf(bank->path, sizeof bank->path, "%s", sql_path("app.db"));
  snprintf(bank->journal, sizeof bank->journal, "%s", journal);
  sqlite3 *db = sql_open(bank->path);
  sql_okf(db, "PRAGMA journal_mode = %s", journal);
  sql_okf(db,
          "CREATE TABLE plain(id INTEGER PRIMARY KEY, amount INT, note);"
          "CREATE VIRTUAL TABLE family USING colfam(id INT PRIMARY KEY, amount, note,"
          " memtable_bytes = 16384);"
          "WITH RECURSIVE n(i) AS (VALUES(0) UNION ALL SELECT i + 1 FROM n WHERE i < %d)"
          "INSERT INTO plain SELECT i, %d, '' FROM n; INSERT INTO family SELECT * FROM plain",
          BANK_ACCOUNTS - 1, BANK_MONEY);
  sql_close(db);
}

static int first_of(int writer) {
  return 1000000 * (writer + 1);
}

/* Where the last one of this number was, who may have been killed. */
static void go_on(struct bank_worker *worker) {
  char sql[200];
  int first = first_of(worker->writer), upto = atomic_load(&worker->bank->deleted[worker->writer]);
  snprintf(sql, sizeof sql,
           "SELECT max(%d, coalesce(max(id) - %d, 0)) FROM plain WHERE id BETWEEN %d AND %d", upto,
           first, first, first + 999999);
  worker->first_ticket = upto;
  worker->last_ticket = (int)sql_int(worker->db, sql);
}

void bank_open(struct bank_worker *worker) {
  worker->db = sql_open(worker->bank->path);
  sqlite3_busy_timeout(worker->db, 120000);
  if (strcmp(worker->bank->journal, "wal") != 0)
    sql_okf(worker->db, "PRAGMA journal_mode = %s", worker->bank->journal);
  sql_ok(worker->db, "PRAGMA synchronous = normal");
  go_on(worker);
}

void bank_reopen(struct bank_worker *worker) {
  sql_close(worker->db);
  bank_open(worker);
}

static int below(struct bank_worker *worker, int bound) {
  return (int)harness_below(&worker->random, (uint64_t)bound);
}

/* ---- Writers */

static void change(struct bank_worker *worker, const char *format, int first, int second) {
  static const char *const tables[] = {"plain", "family"};
  for (int i = 0; i < 2; i++) {
    char *sql = sqlite3_mprintf(format, tables[i], first, second);
    sql_ok(worker->db, sql);
    sqlite3_free(sql);
  }
}

static void move_money(struct bank_worker *worker) {
  int from = below(worker, BANK_ACCOUNTS), to = below(worker, BANK_ACCOUNTS),
      amount = 1 + below(worker, 50);
  change(worker, "UPDATE %s SET amount = amount - %d WHERE id = %d", amount, from);
  change(worker, "UPDATE %s SET amount = amount + %d WHERE id = %d", amount, to);
}

static void insert_tickets(struct bank_worker *worker) {
  for (int left = 1 + below(worker, 6); left; left--)
    change(worker, "INSERT INTO %s VALUES(%d, 0, printf('%%0*d', %d, 7))",
           first_of(worker->writer) + ++worker->last_ticket, 50 + below(worker, 900));
}

/* The oldest, so that "all up to this one" tells which are gone. */
static void delete_tickets(struct bank_worker *worker) {
  int upto = worker->first_ticket + (worker->last_ticket - worker->first_ticket) / 2;
  int base = first_of(worker->writer);
  change(worker, "DELETE FROM %s WHERE id BETWEEN %d AND %d", base, base + upto);
  worker->first_ticket = upto;
}

static void undone_savepoint(struct bank_worker *worker) {
  sql_ok(worker->db, "SAVEPOINT s");
  change(worker, "UPDATE %s SET amount = amount + %d WHERE id < %d", 1, BANK_ACCOUNTS);
  change(worker, "DELETE FROM %s WHERE id > %d + %d", first_of(0), 0);
  sql_ok(worker->db, "ROLLBACK TO s; RELEASE s");
}

void bank_write(struct bank_worker *worker) {
  struct bank_worker before = *worker;
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
  atomic_store(&worker->bank->deleted[worker->writer], worker->first_ticket);
}

/* ---- Readers */

#define SAME_ROWS                                                                                \
  "SELECT (SELECT group_concat(id || ' ' || amount || ' ' || length(note), ',') FROM (SELECT * " \
  "FROM plain ORDER BY id)) = (SELECT group_concat(id || ' ' || amount || ' ' || length(note), " \
  "',') FROM (SELECT * FROM family ORDER BY id))"

static void check_one(struct bank_worker *worker, const char *what, const char *sql) {
  sqlite3_int64 answer = sql_int(worker->db, sql);
  ck_assert_msg(answer == 1, "%s: %lld", what, (long long)answer);
}

static void check_sums(struct bank_worker *worker) {
  char sql[400];
  snprintf(sql, sizeof sql,
           "SELECT (SELECT sum(amount) FROM family) = %d AND (SELECT sum(amount) FROM plain) = %d",
           BANK_ACCOUNTS * BANK_MONEY, BANK_ACCOUNTS * BANK_MONEY);
  check_one(worker, "sums", sql);
  check_one(worker, "counts",
            "SELECT (SELECT count(*) FROM family) = (SELECT count(*) FROM plain)");
}

static void check_points(struct bank_worker *worker) {
  char sql[800];
  int a = below(worker, BANK_ACCOUNTS), b = below(worker, BANK_ACCOUNTS),
      c = below(worker, BANK_ACCOUNTS);
  snprintf(sql, sizeof sql,
           "SELECT (SELECT group_concat(amount) FROM (SELECT * FROM family WHERE id IN (%d, %d, %d)"
           " ORDER BY id)) = (SELECT group_concat(amount) FROM plain WHERE id IN (%d, %d, %d))"
           " AND (SELECT amount FROM family WHERE id = %d) = (SELECT amount FROM plain"
           " WHERE id = %d) AND EXISTS(SELECT 1 FROM family WHERE id = %d)",
           a, b, c, a, b, c, a, a, b);
  check_one(worker, "points", sql);
  check_one(worker, "join",
            "SELECT count(*) = 0 FROM plain p LEFT JOIN family f ON f.id = p.id"
            " WHERE f.amount IS NOT p.amount OR f.note IS NOT p.note");
}

static void check_deleted(struct bank_worker *worker, int writer) {
  char sql[600];
  int upto = first_of(writer) + atomic_load(&worker->bank->deleted[writer]);
  snprintf(sql, sizeof sql,
           "SELECT NOT EXISTS(SELECT 1 FROM family WHERE id BETWEEN %d AND %d)"
           " AND NOT EXISTS(SELECT 1 FROM family WHERE id = %d)"
           " AND NOT EXISTS(SELECT 1 FROM family WHERE id IN (%d, %d, %d, %d))",
           first_of(writer), upto, upto, upto, upto - 1, upto - 5, upto - 20);
  check_one(worker, "deleted tickets", sql);
}

void bank_read(struct bank_worker *worker) {
  check_deleted(worker, below(worker, BANK_WRITERS));
  check_sums(worker);
  check_points(worker);
  check_one(worker, "rows", SAME_ROWS);
}

/* A half-read cursor, and the same rows read again in other ways meanwhile. */
void bank_read_snapshot(struct bank_worker *worker) {
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

/* ---- The end */

void bank_check(struct bank *bank) {
  struct bank_worker worker = {.bank = bank};
  bank_open(&worker);
  for (int writer = 0; writer < BANK_WRITERS; writer++) check_deleted(&worker, writer);
  bank_read(&worker);
  sql_rows(worker.db, "SELECT * FROM colfam_check('family')", "");
  sql_rows(worker.db, "PRAGMA integrity_check", "ok");
  files_named_are_there(worker.db, "family");
  sql_close(worker.db);
}
