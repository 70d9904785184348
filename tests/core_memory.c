/* DDL, writes and reads when memory runs out at every place: the script fails with SQLITE_NOMEM and changes
** nothing, or does all of it; then the table is sound, also for a process that comes later, and no memory is
** lost. The first allocations fail one by one, later ones further and further apart, at places that
** COLFAM_SEED moves; with COLFAM_EVERY_ALLOCATION set every single one fails (minutes). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/mem.h"
#include "harness_oom.h"
#include "harness_sql.h"

/* A script and what takes its effect back. */
struct scenario {
  const char *name;
  const char *script;
  const char *undo;
};

static const struct scenario scenarios[] = {
    {"create", "CREATE VIRTUAL TABLE n USING colfam(a TEXT, b, v, PRIMARY KEY(a, b DESC))",
     "DROP TABLE n"},
    {"create_and_write",
     "BEGIN; CREATE VIRTUAL TABLE n USING colfam(v); INSERT INTO n VALUES(1), ('a'); COMMIT",
     "DROP TABLE n"},
    {"insert", "INSERT INTO t VALUES(1000, 'new')", "DELETE FROM t WHERE k = 1000"},
    {"insert_or_replace", "INSERT OR REPLACE INTO t SELECT k, 'old' || k FROM t WHERE k < 30",
     "UPDATE t SET v = 'v' || k WHERE k < 30"},
    {"update_keys", "UPDATE t SET k = k + 500 WHERE k BETWEEN 10 AND 20",
     "UPDATE t SET k = k - 500 WHERE k > 500"},
    {"delete", "DELETE FROM t WHERE k IN (1, 2, 50, 51, 70)",
     "INSERT INTO t SELECT value, 'v' || value FROM json_each('[1, 2, 50, 51, 70]')"},
    {"savepoints",
     "BEGIN; INSERT INTO t VALUES(1000, 'a'); SAVEPOINT s; INSERT INTO t VALUES(1001, 'b');"
     "DELETE FROM t WHERE k < 5; ROLLBACK TO s; INSERT INTO t VALUES(1002, 'c');"
     "INSERT INTO o VALUES(1); COMMIT",
     "DELETE FROM t WHERE k >= 1000; DELETE FROM o"},
    {"rollback", "BEGIN; INSERT INTO t VALUES(1000, 'a'); DELETE FROM t WHERE k < 50; ROLLBACK",
     ""},
    {"flush", "INSERT INTO t(t) VALUES('flush')", ""},
    {"compact", "INSERT INTO t(t) VALUES('compact')", ""},
    {"compute", "SELECT * FROM colfam_flush('t'); SELECT * FROM colfam_compact('t') LIMIT 1", ""},
    {"publish", "SELECT * FROM colfam_compact('t'); INSERT INTO t VALUES(1000, 'a')",
     "DELETE FROM t WHERE k = 1000"},
    {"publish_for_another", "SELECT * FROM colfam_compact('t'); INSERT INTO d VALUES(1)",
     "DELETE FROM d"},
    {"publish_for_another_and_roll_back",
     "SELECT * FROM colfam_flush('t'); BEGIN; INSERT INTO d VALUES(1); ROLLBACK;"
     "INSERT INTO d VALUES(2)",
     "DELETE FROM d"},
    {"config", "SELECT colfam_config('cache_bytes', 67108864); SELECT colfam_config('threads')",
     ""},
    {"option", "INSERT INTO t(t) VALUES('filter_bits=5')",
     "INSERT INTO t(t) VALUES('filter_bits=10')"},
    {"rename", "ALTER TABLE t RENAME TO n", "ALTER TABLE n RENAME TO t"},
    {"drop", "DROP TABLE d", "CREATE VIRTUAL TABLE d USING colfam(k PRIMARY KEY)"},
    {"drop_taken_back", "BEGIN; DROP TABLE t; ROLLBACK", ""},
    {"get", "SELECT v FROM t WHERE k = 7; SELECT v FROM t WHERE k = 77", ""},
    {"multi_get", "SELECT v FROM t WHERE k IN (1, 7, 50, 90, 99, 100, 101)", ""},
    {"exists", "SELECT count(*) FROM t AS a WHERE EXISTS(SELECT 1 FROM t WHERE k = a.k + 1)", ""},
    {"range", "SELECT sum(length(v)) FROM t WHERE k BETWEEN 20 AND 80", ""},
    {"scan_backwards", "SELECT group_concat(v) FROM (SELECT v FROM t ORDER BY k DESC)", ""},
    {"count", "SELECT count(*) FROM t; SELECT min(k), max(k) FROM t", ""},
};
enum { SCENARIOS = sizeof scenarios / sizeof *scenarios };

static char path[4096];

/* t: two files and a log, 99 rows; d: an empty table; o: an ordinary one. */
static void make_database(void) {
  snprintf(path, sizeof path, "%s", sql_path("app.db"));
  sqlite3 *db = sql_open(path);
  sql_ok(db, "CREATE TABLE o(x); CREATE VIRTUAL TABLE d USING colfam(k PRIMARY KEY);"
             "CREATE VIRTUAL TABLE t USING colfam(k INT PRIMARY KEY, v TEXT);"
             "WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n WHERE i < 99)"
             "INSERT INTO t SELECT i, 'v' || i FROM n WHERE i <> 50;"
             "INSERT INTO t(t) VALUES('flush'); DELETE FROM t WHERE k > 90;"
             "INSERT INTO t(t) VALUES('flush');"
             "INSERT INTO t SELECT value, 'v' || value FROM json_each('[50, 91, 95, 99]')");
  sql_close(db);
}

static char *content(sqlite3 *db) {
  return sql_query(db, "SELECT (SELECT group_concat(k || v) FROM (SELECT * FROM t ORDER BY k)),"
                       " (SELECT count(*) FROM t), (SELECT group_concat(x) FROM o)");
}

/* In this connection and in a new one. */
static void check_content(sqlite3 *db, const struct scenario *scenario, int n,
                          const char *expected) {
  sqlite3 *later = sql_open(path);
  for (int i = 0; i < 2; i++) {
    sqlite3 *reader = i ? later : db;
    char *got = content(reader);
    ck_assert_msg(!strcmp(got, expected), "%s: allocation %d: %s\nnot %s", scenario->name, n, got,
                  expected);
    sqlite3_free(got);
    sql_rows(reader, "SELECT * FROM colfam_check('t')", "");
  }
  sql_close(later);
}

/* One run with the nth allocation failing; false when none had to fail any more. */
static bool fail_once(const struct scenario *scenario, enum oom_heap heap, int n,
                      const char *expected) {
  sqlite3 *db = sql_open(path);
  oom_fail_nth(heap, n, n % 2);
  int rc = sqlite3_exec(db, scenario->script, NULL, NULL, NULL);
  bool failed = oom_stop(heap);
  ck_assert_msg(rc == SQLITE_OK || (rc & 0xff) == SQLITE_NOMEM || rc == SQLITE_IOERR_NOMEM,
                "%s: allocation %d: code %d: %s", scenario->name, n, rc, sqlite3_errmsg(db));
  ck_assert_msg(failed || rc == SQLITE_OK, "%s: code %d for nothing", scenario->name, rc);
  if (!sqlite3_get_autocommit(db)) sql_ok(db, "ROLLBACK");
  if (rc == SQLITE_OK) sql_ok(db, scenario->undo);
  check_content(db, scenario, n, expected);
  sql_close(db);
  return failed;
}

static void fail_everywhere(const struct scenario *scenario, enum oom_heap heap) {
  make_database();
  int64_t blocks = kv_mem_live_blocks();
  sqlite3_int64 bytes = sqlite3_memory_used();
  sqlite3 *db = sql_open(path);
  char *expected = content(db);
  sql_close(db);
  struct harness_random random;
  harness_seed(&random, harness_seed_env(1));
  bool every = getenv("COLFAM_EVERY_ALLOCATION") != NULL;
  for (int n = 1; fail_once(scenario, heap, n, expected); n++) {
    if (!every) n += (int)harness_below(&random, (uint64_t)n / 8 + 1);
  }
  sqlite3_free(expected);
  /* Removals for which memory was out wait for the next commit. */
  db = sql_open(path);
  sql_ok(db, "INSERT INTO t VALUES(2000, 'more')");
  sql_close(db);
  ck_assert_int_eq(sqlite3_memory_used(), bytes);
  ck_assert_int_eq(kv_mem_live_blocks(), blocks);
}

START_TEST(every_allocation_of_sqlite_fails) {
  fail_everywhere(&scenarios[_i], OOM_SQLITE);
}
END_TEST

START_TEST(every_allocation_of_the_engine_fails) {
  fail_everywhere(&scenarios[_i], OOM_ENGINE);
}
END_TEST

int main(void) {
  oom_install();
  Suite *suite = suite_create("core_memory");
  TCase *tcase = tcase_create("memory");
  tcase_set_timeout(tcase, 300);
  tcase_add_loop_test(tcase, every_allocation_of_sqlite_fails, 0, SCENARIOS);
  tcase_add_loop_test(tcase, every_allocation_of_the_engine_fails, 0, SCENARIOS);
  suite_add_tcase(suite, tcase);
  return harness_run(suite);
}
