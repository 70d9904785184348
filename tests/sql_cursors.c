/* Cursors that are open while all else goes on: each kind of plan, across each kind of write and finish. A
** cursor gives what it saw at its start, to the end. And commits that write nothing. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness_twins.h"

/* ---- Plans and what happens under them */

static const char *const plans[] = {
    "SELECT k, v FROM t ORDER BY k",
    "SELECT k, v FROM t ORDER BY k DESC",
    "SELECT k, v FROM t WHERE k BETWEEN 5 AND 55 ORDER BY k",
    "SELECT k, v FROM t WHERE k IN (1, 7, 22, 45, 46, 59) ORDER BY k",
    "SELECT k, v FROM t WHERE k = 7 UNION ALL SELECT k, v FROM t WHERE k = 46",
    "SELECT a.k, a.v FROM t AS a CROSS JOIN (VALUES(1), (2), (3), (4)) WHERE a.k = 7",
    "SELECT a.k, a.v FROM t AS a CROSS JOIN (VALUES(1), (2), (3), (4)) WHERE a.k = 46",
    "SELECT a.k, a.v FROM t AS a CROSS JOIN (VALUES(1), (2), (3), (4)) WHERE a.k = 30",
    "SELECT a.k FROM t AS a CROSS JOIN (VALUES(1), (2), (3), (4)) WHERE a.k = 30",
    "SELECT 1 FROM t",
    "SELECT a.k, a.v, b.v FROM t AS a JOIN t AS b ON b.k = a.k + 1 WHERE a.k < 30",
    "SELECT k, (SELECT v FROM t AS i WHERE i.k = t.k) FROM t WHERE k < 40",
};
enum { PLANS = sizeof plans / sizeof *plans };

static const struct event {
  const char *before; /* opens a transaction or not */
  const char *after;
  bool other; /* `after` is done by the other connection */
} events[] = {
    {"", "INSERT INTO t VALUES(-5, 'new'); INSERT INTO t VALUES(33, 'new')", false},
    {"", "DELETE FROM t", false},
    {"", "UPDATE t SET v = 'changed', k = k + 1000", false},
    {"", "DELETE FROM t; INSERT INTO t(t) VALUES('compact')", false},
    {"BEGIN; INSERT INTO t VALUES(30, 'p')", "DELETE FROM t; COMMIT", false},
    {"BEGIN; INSERT INTO t VALUES(30, 'p')",
     "UPDATE t SET v = 'x'; COMMIT; INSERT INTO t(t) VALUES('flush')", false},
    {"BEGIN; INSERT INTO t VALUES(30, 'p')", "UPDATE t SET v = 'x'; ROLLBACK", false},
    {"BEGIN; INSERT INTO t VALUES(30, 'p'); SAVEPOINT s; INSERT INTO t VALUES(31, 'q')",
     "DELETE FROM t; ROLLBACK TO s; INSERT INTO t VALUES(32, 'r'); ROLLBACK TO s; COMMIT", false},
    {"BEGIN; INSERT INTO t VALUES(30, 'p'); SAVEPOINT s",
     "DELETE FROM t WHERE k > 3; RELEASE s; COMMIT", false},
    {"SAVEPOINT s; INSERT INTO t VALUES(30, 'p')", "DELETE FROM t; ROLLBACK TO s; RELEASE s",
     false},
    {"BEGIN; INSERT INTO t VALUES(30, 'p')", "INSERT OR ROLLBACK INTO t VALUES(30, 'again')",
     false},
    {"BEGIN; INSERT INTO t VALUES(30, 'p')", "INSERT INTO t VALUES(200, 1), (30, 'again')", false},
    {"", "DELETE FROM t; INSERT INTO t(t) VALUES('compact'); INSERT INTO t VALUES(1, 'other')",
     true},
    {"BEGIN; SELECT * FROM t", "DELETE FROM t; INSERT INTO t(t) VALUES('compact')", true},
    {"", "DROP TABLE t", false},
    {"", "ALTER TABLE t RENAME TO u; ALTER TABLE u RENAME TO t", false},
    {"", "CREATE VIRTUAL TABLE n USING colfam(k PRIMARY KEY); INSERT INTO n VALUES(1)", false},
    {"", "VACUUM", false},
    {"", "PRAGMA journal_mode = delete", false},
    {"BEGIN; INSERT INTO t VALUES(30, 'p')", "DROP TABLE t; ROLLBACK", false},
};
enum { EVENTS = sizeof events / sizeof *events };

static void fill(void) {
  twins_open_wal();
  twins_insert(a, 1, 29);
  sql_ok(a, "INSERT INTO t(t) VALUES('flush')");
  twins_insert(a, 40, 60);
}

static void append_row(sqlite3_str *rows, sqlite3_stmt *stmt) {
  for (int i = 0; i < sqlite3_column_count(stmt); i++)
    sqlite3_str_appendf(rows, "%s|", (const char *)sqlite3_column_text(stmt, i));
}

/* The rows of a plan, stopping after `rows` of them to let the event happen; no event when it is NULL. */
static char *rows_across(const char *plan, const struct event *event, int stop_after) {
  sqlite3_stmt *stmt;
  sqlite3_str *rows = sqlite3_str_new(NULL);
  ck_assert_int_eq(sqlite3_prepare_v2(a, plan, -1, &stmt, NULL), SQLITE_OK);
  sqlite3_str_appendall(rows, "|"); /* without rows too there is a text */
  int rc, taken = 0;
  while ((rc = sqlite3_step(stmt)) == SQLITE_ROW) {
    append_row(rows, stmt);
    if (++taken == stop_after && event)
      sqlite3_exec(event->other ? b : a, event->after, NULL, NULL, NULL);
  }
  ck_assert_msg(rc == SQLITE_DONE, "%s: code %d: %s", plan, rc, sqlite3_errmsg(a));
  sqlite3_finalize(stmt);
  return sqlite3_str_finish(rows);
}

/* Correlated subqueries and inner loops of a join start late, and see what is then. */
static bool starts_late(const char *plan) {
  if (strstr(plan, "CROSS JOIN")) return false;
  return strstr(plan, "JOIN") || strstr(plan, "(SELECT") || strstr(plan, "UNION");
}

START_TEST(cursor_across_an_event) {
  const struct event *event = &events[_i / PLANS];
  const char *plan = plans[_i % PLANS];
  sql_ok(a, event->before);
  char *expected = rows_across(plan, NULL, 0);
  char *got = rows_across(plan, event, 2);
  if (!starts_late(plan))
    ck_assert_msg(!strcmp(got, expected), "%s: %s\n%s\nnot\n%s", plan, event->after, got, expected);
  sqlite3_free(got);
  sqlite3_free(expected);
  if (!sqlite3_get_autocommit(a)) sql_ok(a, "ROLLBACK");
  sql_rows(a, "SELECT * FROM colfam_check('t')", "");
  sql_same(a, "SELECT count(*) FROM t", "SELECT count(*) FROM (SELECT v FROM t)");
  sql_same(a, "SELECT * FROM t", "SELECT k, v FROM t ORDER BY k");
  char *here = sql_query(a, "SELECT * FROM t");
  sql_rows(b, "SELECT * FROM t", here);
  sqlite3_free(here);
}
END_TEST

/* Many at once, each begun at another state. */
START_TEST(cursors_of_many_states_at_once) {
  sqlite3_stmt *cursors[20];
  sql_ok(a, "BEGIN");
  for (int i = 0; i < 20; i++) {
    sql_okf(a, "DELETE FROM t WHERE k = %d; UPDATE t SET v = 'state %d'", i + 1, i);
    if (i % 3 == 1) sql_ok(a, "SAVEPOINT s");
    ck_assert_int_eq(sqlite3_prepare_v2(a, "SELECT k, v FROM t", -1, &cursors[i], NULL), SQLITE_OK);
    ck_assert_int_eq(sqlite3_step(cursors[i]), SQLITE_ROW);
    if (i % 3 == 2) sql_ok(a, "ROLLBACK TO s");
  }
  sql_ok(a, "COMMIT; INSERT INTO t(t) VALUES('compact')");
  for (int i = 0; i < 20; i++) {
    char state[20];
    snprintf(state, sizeof state, "state %d", i);
    do ck_assert_str_eq((const char *)sqlite3_column_text(cursors[i], 1), state);
    while (sqlite3_step(cursors[i]) == SQLITE_ROW);
    ck_assert_int_eq(sqlite3_finalize(cursors[i]), SQLITE_OK);
  }
  sql_rows(a, "SELECT * FROM colfam_check('t')", "");
}
END_TEST

static void close_connections(void) {
  sql_close(b);
  sql_close(a);
}

/* ---- Commits that write nothing */

struct footprint {
  off_t size, log;
  struct timespec changed, log_changed;
  unsigned version;
};

static struct footprint look(void) {
  struct footprint found = {0};
  struct stat info;
  if (stat(sql_path("app.db"), &info) == 0) found.size = info.st_size, found.changed = info.st_mtim;
  if (stat(sql_path("app.db-wal"), &info) == 0)
    found.log = info.st_size, found.log_changed = info.st_mtim;
  sql_int(b, "SELECT count(*) FROM o");
  sqlite3_file_control(b, "main", SQLITE_FCNTL_DATA_VERSION, &found.version);
  return found;
}

static bool same_time(struct timespec x, struct timespec y) {
  return x.tv_sec == y.tv_sec && x.tv_nsec == y.tv_nsec;
}

static bool same_files(const struct footprint *x, const struct footprint *y) {
  return x->size == y->size && x->log == y->log && same_time(x->changed, y->changed) &&
         same_time(x->log_changed, y->log_changed);
}

static const char *const nothing[] = {
    "BEGIN; DELETE FROM t WHERE 0; COMMIT",
    "DELETE FROM t WHERE k = 1000",
    "INSERT OR IGNORE INTO t VALUES(1, 'other')",
    "INSERT INTO t SELECT * FROM t WHERE 0",
    "UPDATE t SET v = 1 WHERE k > 1000",
    "BEGIN; SAVEPOINT s; DELETE FROM t; ROLLBACK TO s; RELEASE s; COMMIT",
    "SAVEPOINT s; INSERT INTO t VALUES(500, 1); ROLLBACK TO s; RELEASE s",
    "BEGIN; UPDATE t SET v = 'x'; ROLLBACK",
    "BEGIN; CREATE VIRTUAL TABLE n USING colfam(k PRIMARY KEY); INSERT INTO n VALUES(1); ROLLBACK",
    "BEGIN; DROP TABLE t; ROLLBACK",
    "BEGIN IMMEDIATE; SELECT count(*) FROM t; COMMIT",
    "BEGIN; INSERT INTO t VALUES(500, 1); DELETE FROM t WHERE k = 500; SAVEPOINT s; RELEASE s; "
    "ROLLBACK",
};

START_TEST(commits_that_change_nothing_touch_no_file) {
  sql_ok(a, "SELECT count(*) FROM t");
  char *log = sql_query(a, "SELECT seq, nonce FROM t_cflog");
  for (size_t i = 0; i < sizeof nothing / sizeof *nothing; i++) {
    struct footprint before = look();
    sql_ok(a, nothing[i]);
    struct footprint after = look();
    ck_assert_msg(before.version == after.version, "%s: data version", nothing[i]);
    ck_assert_msg(same_files(&before, &after), "%s: a file", nothing[i]);
    sql_rows(a, "SELECT seq, nonce FROM t_cflog", log);
  }
  sqlite3_free(log);
}
END_TEST

START_TEST(no_directory_before_the_first_file) {
  close_connections();
  sqlite3 *db = sql_open(sql_path("fresh.db"));
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(k PRIMARY KEY); INSERT INTO t VALUES(1), (2);"
             "DELETE FROM t; INSERT INTO t VALUES(3); SELECT * FROM t");
  ck_assert_int_ne(access(sql_path("fresh.db-colfam"), F_OK), 0);
  sql_ok(db, "INSERT INTO t(t) VALUES('flush')");
  ck_assert_int_eq(access(sql_path("fresh.db-colfam"), F_OK), 0);
  sql_close(db);
  a = twins_connect();
  b = twins_connect();
}
END_TEST

int main(void) {
  Suite *suite = suite_create("sql_cursors");
  TCase *tc = tcase_create("cursors");
  tcase_set_timeout(tc, 60);
  tcase_add_checked_fixture(tc, fill, close_connections);
  tcase_add_loop_test(tc, cursor_across_an_event, 0, EVENTS * PLANS);
  tcase_add_test(tc, cursors_of_many_states_at_once);
  tcase_add_test(tc, commits_that_change_nothing_touch_no_file);
  tcase_add_test(tc, no_directory_before_the_first_file);
  suite_add_tcase(suite, tc);
  return harness_run(suite);
}
