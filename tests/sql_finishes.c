/* How a transaction may end: every order of the calls that begin and finish it, rows that were undone and
** read again through every path, buffers that the application changes once a statement has run. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "harness_twins.h"

/* ---- Every order */

static const char *const calls[] = {"BEGIN",     "COMMIT",        "ROLLBACK", "SAVEPOINT s",
                                    "RELEASE s", "ROLLBACK TO s", NULL};
enum { CALLS = sizeof calls / sizeof *calls, LENGTH = 4 };

/* One order is a number in base CALLS. Calls out of place must fail and change nothing. */
static void run_order(int order) {
  for (int i = 0; i < LENGTH; i++, order /= CALLS) {
    const char *call = calls[order % CALLS];
    if (call) {
      sqlite3_exec(a, call, NULL, NULL, NULL);
    } else {
      twins_both(a, "INSERT INTO @ SELECT ifnull(max(k), 0) + 1, 'x' FROM @");
      twins_both(a,
                 "DELETE FROM @ WHERE k = (SELECT min(k) FROM @) AND (SELECT count(*) FROM @) > 5");
    }
    twins_same(a);
  }
}

/* Every order, or every `step`th with the connection closed after each. */
static void run_orders(bool closes, int step) {
  int orders = 1;
  for (int i = 0; i < LENGTH; i++) orders *= CALLS;
  sql_ok(a, "PRAGMA synchronous = off");
  twins_insert(a, 1, 3);
  for (int order = 0; order < orders; order += step) {
    run_order(order);
    if (closes) {
      sql_close(a);
      a = twins_connect();
      sql_ok(a, "PRAGMA synchronous = off");
      twins_same(a);
    } else if (!sqlite3_get_autocommit(a)) {
      sql_ok(a, "ROLLBACK");
    }
  }
}

START_TEST(finish_calls_in_every_order) {
  run_orders(false, 1);
}
END_TEST

START_TEST(connection_closed_after_finish_calls_in_any_order) {
  run_orders(true, 5);
}
END_TEST

/* ---- Undone, then read */

static const char *const reads[] = {
    "SELECT * FROM @",
    "SELECT * FROM @ ORDER BY k DESC",
    "SELECT v FROM @ WHERE k = 5",
    "SELECT v FROM @ WHERE k = 55",
    "SELECT v FROM @ WHERE k = 15",
    "SELECT k, v FROM @ WHERE k IN (1, 5, 15, 20, 55, 56, 77)",
    "SELECT k, v FROM @ WHERE k BETWEEN 3 AND 60 ORDER BY k",
    "SELECT k FROM @ WHERE k > 12 ORDER BY k DESC LIMIT 4",
    "SELECT min(k), max(k) FROM @",
    "SELECT count(*) FROM @",
    "SELECT EXISTS (SELECT 1 FROM @ WHERE k = 15), EXISTS (SELECT 1 FROM @ WHERE k = 55)",
    "SELECT p.k FROM o AS p WHERE NOT EXISTS (SELECT 1 FROM @ AS q WHERE q.k = p.k)",
    "SELECT p.k, q.v FROM o AS p LEFT JOIN @ AS q ON q.k = p.k + 10",
    "SELECT k FROM @ WHERE v LIKE 'value 1%'",
    "SELECT group_concat(v) FROM @ WHERE k % 2",
};

static void read_every_path(sqlite3 *db) {
  for (size_t i = 0; i < sizeof reads / sizeof *reads; i++) {
    char *texts[2];
    for (int k = 0; k < 2; k++) {
      sqlite3_str *text = sqlite3_str_new(NULL);
      for (const char *p = reads[i]; *p; p++)
        sqlite3_str_appendchar(text, 1, *p == '@' ? "to"[k] : *p);
      texts[k] = sqlite3_str_finish(text);
    }
    sql_same(db, texts[0], texts[1]);
    for (int k = 0; k < 2; k++) sqlite3_free(texts[k]);
  }
  sql_rows(db, "SELECT count(*) FROM o WHERE colfam_may_exist('t', k) = 0", "0");
}

/* New rows, rows gone, rows changed, keys changed. */
static void write_much(void) {
  twins_insert(a, 50, 60);
  twins_both(a, "DELETE FROM @ WHERE k BETWEEN 10 AND 19");
  twins_both(a, "UPDATE @ SET v = 'changed' WHERE k IN (1, 5, 20)");
  twins_both(a, "UPDATE @ SET k = k + 50 WHERE k > 25 AND k < 30");
  read_every_path(a);
}

static int veto(void *context) {
  (void)context;
  return 1;
}

static void vetoed_commit(void) {
  sqlite3_commit_hook(a, veto, NULL);
  sql_fails(a, "COMMIT", SQLITE_CONSTRAINT_COMMITHOOK, NULL);
  sqlite3_commit_hook(a, NULL, NULL);
}

static void commit_kept_out(void) {
  sqlite3_stmt *reader = twins_reader("o");
  sql_fails(a, "COMMIT", SQLITE_BUSY, NULL);
  sqlite3_finalize(reader);
  sql_ok(a, "ROLLBACK");
}

static void conflict_in_the_ordinary_table(void) {
  sql_fails(a, "INSERT OR ROLLBACK INTO o VALUES(2, 'x')", SQLITE_CONSTRAINT, NULL);
}

static void conflict_in_the_colfam_table(void) {
  sql_fails(a, "INSERT OR ROLLBACK INTO t VALUES(99, 'y'), (2, 'x')", SQLITE_CONSTRAINT, NULL);
}

static void closed_connection(void) {
  sql_close(a);
  a = twins_connect();
}

static void deferred_key_fails(void) {
  sql_ok(a, "INSERT INTO child VALUES(12345)");
  sql_fails(a, "COMMIT", SQLITE_CONSTRAINT_FOREIGNKEY, NULL);
  sql_ok(a, "ROLLBACK");
}

static const struct {
  const char *begin;
  const char *end; /* NULL: the function */
  void (*undo)(void);
} undoings[] = {
    {"BEGIN", "ROLLBACK", NULL},
    {"BEGIN; SAVEPOINT s", "ROLLBACK TO s; COMMIT", NULL},
    {"SAVEPOINT s", "ROLLBACK TO s; RELEASE s", NULL},
    {"SAVEPOINT s; SAVEPOINT r", "RELEASE r; ROLLBACK TO s; RELEASE s", NULL},
    {"BEGIN", "INSERT INTO t(t) VALUES('flush'); ROLLBACK", NULL},
    {"BEGIN; INSERT INTO t(t) VALUES('compact')", "ROLLBACK", NULL},
    {"BEGIN", NULL, vetoed_commit},
    {"BEGIN", NULL, commit_kept_out},
    {"BEGIN", NULL, deferred_key_fails},
    {"BEGIN", NULL, conflict_in_the_ordinary_table},
    {"BEGIN", NULL, conflict_in_the_colfam_table},
    {"BEGIN", NULL, closed_connection},
};
enum { UNDOINGS = sizeof undoings / sizeof *undoings };

/* Rows 1 to 40, of which some are in a file and some in the log. */
static void fill(void) {
  twins_insert(a, 1, 30);
  sql_ok(a, "INSERT INTO t(t) VALUES('flush')");
  twins_insert(a, 31, 40);
  read_every_path(b);
}

START_TEST(undone_rows_are_seen_on_no_path) {
  fill();
  char *before = sql_query(a, "SELECT * FROM t");
  sql_ok(a, undoings[_i].begin);
  write_much();
  if (undoings[_i].end) sql_ok(a, undoings[_i].end);
  if (undoings[_i].undo) undoings[_i].undo();
  ck_assert(sqlite3_get_autocommit(a));
  for (int i = 0; i < 2; i++) {
    sqlite3 *db = i ? b : a;
    sql_rows(db, "SELECT * FROM t", before);
    read_every_path(db);
    sql_rows(db,
             "SELECT ifnull(colfam_may_exist('t', 55), 0), ifnull(colfam_may_exist('t', 15), 1)",
             "0|1");
  }
  twins_insert(b, 55, 56);
  read_every_path(a);
  sqlite3_free(before);
}
END_TEST

/* ---- Buffers of the application */

START_TEST(bound_buffers_may_change_once_the_statement_has_run) {
  sql_ok(a, "CREATE VIRTUAL TABLE blobs USING colfam(k BLOB PRIMARY KEY, v); BEGIN");
  sqlite3_stmt *stmt;
  ck_assert_int_eq(sqlite3_prepare_v2(a, "INSERT INTO blobs VALUES(?1, ?2)", -1, &stmt, NULL),
                   SQLITE_OK);
  enum { ROWS = 200, VALUE = 3000 };
  unsigned char key[8] = {0}, *value = malloc(VALUE);
  for (int i = 0; i < ROWS; i++) {
    key[7] = (unsigned char)i;
    memset(value, i, VALUE);
    sqlite3_bind_blob(stmt, 1, key, sizeof key, SQLITE_STATIC);
    sqlite3_bind_text(stmt, 2, (const char *)value, i ? VALUE : 0, SQLITE_STATIC);
    ck_assert_int_eq(sqlite3_step(stmt), SQLITE_DONE);
    sqlite3_reset(stmt);
    memset(value, 0xee, VALUE);
    memset(key, 0xee, sizeof key);
    memset(key, 0, sizeof key);
  }
  sqlite3_finalize(stmt);
  free(value);
  static const char all[] =
      "SELECT count(*), sum(length(CAST(v AS BLOB)) = 3000), min(hex(k)), max(hex(k)),"
      " sum(substr(hex(v), 1, 2) = substr(hex(k), 15, 2)) FROM blobs";
  for (int i = 0; i < 3; i++) {
    sql_rows(a, all, "200|199|0000000000000000|00000000000000C7|199");
    sql_ok(a, i ? "INSERT INTO blobs(blobs) VALUES('flush')" : "COMMIT");
  }
}
END_TEST

static void add_common(Suite *suite, const char *name, SFun open) {
  TCase *tc = tcase_create(name);
  tcase_set_timeout(tc, 60);
  tcase_add_checked_fixture(tc, open, twins_close);
  tcase_add_test(tc, finish_calls_in_every_order);
  tcase_add_test(tc, connection_closed_after_finish_calls_in_any_order);
  tcase_add_test(tc, bound_buffers_may_change_once_the_statement_has_run);
  suite_add_tcase(suite, tc);
}

int main(void) {
  Suite *suite = suite_create("sql_finishes");
  add_common(suite, "rollback journal", twins_open_delete);
  add_common(suite, "wal", twins_open_wal);
  TCase *tc = tcase_create("undone");
  tcase_add_checked_fixture(tc, twins_open_delete, twins_close);
  tcase_add_loop_test(tc, undone_rows_are_seen_on_no_path, 0, UNDOINGS);
  suite_add_tcase(suite, tc);
  return harness_run(suite);
}
