/* colfam_backup when memory runs out at every place: SQLITE_NOMEM and nothing left, or a whole copy; nothing
** leaks, no transaction stays open, and the next call works. */
#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "engine/mem.h"
#include "harness_oom.h"
#include "harness_sql.h"

static char source[4096], target[4096];

static void make_database(void) {
  snprintf(source, sizeof source, "%s", sql_path("app.db"));
  snprintf(target, sizeof target, "%s", sql_path("copy.db"));
  sqlite3 *db = sql_open(source);
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(k INT PRIMARY KEY, v);"
             "WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n WHERE i < 50)"
             "INSERT INTO t SELECT i, 'v' || i FROM n; INSERT INTO t(t) VALUES('flush');"
             "DELETE FROM t WHERE k = 7; INSERT INTO t(t) VALUES('flush');"
             "INSERT INTO t VALUES(-1, 'log');"
             "CREATE VIRTUAL TABLE u USING colfam(v); INSERT INTO u VALUES(1);"
             "INSERT INTO u(u) VALUES('flush')");
  sql_close(db);
}

/* Names beside the source; removes them when told to. */
static int other_names(bool remove) {
  DIR *dir = opendir(harness_dir());
  int count = 0;
  for (struct dirent *entry; (entry = readdir(dir));) {
    if (entry->d_name[0] == '.' || !strncmp(entry->d_name, "app.db", 6)) continue;
    count++;
    if (remove) harness_remove_tree(sql_path(entry->d_name));
  }
  closedir(dir);
  return count;
}

static void check_copy(void) {
  sqlite3 *copy = sql_open(target);
  sql_rows(copy, "SELECT count(*), sum(k), (SELECT v FROM u) FROM t", "50|1267|1");
  sql_rows(copy, "SELECT * FROM colfam_check('t')", "");
  sql_close(copy);
}

static int run(sqlite3 *db) {
  char *sql = sqlite3_mprintf("SELECT * FROM colfam_backup(%Q)", target);
  int rc = sql ? sqlite3_exec(db, sql, NULL, NULL, NULL) : SQLITE_NOMEM;
  sqlite3_free(sql);
  return rc;
}

static void fail_everywhere(enum oom_heap heap, bool sticky, bool cold) {
  sqlite3 *db = sql_open(source);
  bool failed = true;
  for (int n = 1; failed; n++) {
    if (cold) {
      sql_close(db);
      db = sql_open(source);
    }
    oom_fail_nth(heap, n, sticky);
    int rc = run(db);
    failed = oom_stop(heap);
    ck_assert_msg(rc == SQLITE_OK || (rc & 0xff) == SQLITE_NOMEM || rc == SQLITE_IOERR_NOMEM,
                  "allocation %d: code %d: %s", n, rc, sqlite3_errmsg(db));
    ck_assert_int_eq(sqlite3_txn_state(db, NULL), SQLITE_TXN_NONE);
    if (rc == SQLITE_OK) check_copy();
    ck_assert_int_eq(other_names(true), rc == SQLITE_OK ? 2 : 0);
  }
  sql_close(db);
}

static void fail_heap(enum oom_heap heap) {
  make_database();
  int64_t blocks = kv_mem_live_blocks();
  sqlite3_int64 bytes = sqlite3_memory_used();
  fail_everywhere(heap, false, true);
  fail_everywhere(heap, false, false);
  fail_everywhere(heap, true, false);
  ck_assert_int_eq(sqlite3_memory_used(), bytes);
  ck_assert_int_eq(kv_mem_live_blocks(), blocks);
}

START_TEST(every_allocation_of_sqlite_fails) {
  fail_heap(OOM_SQLITE);
}
END_TEST

START_TEST(every_allocation_of_the_engine_fails) {
  fail_heap(OOM_ENGINE);
}
END_TEST

int main(void) {
  oom_install();
  Suite *suite = suite_create("core_backup");
  TCase *tc = tcase_create("memory");
  tcase_set_timeout(tc, 200);
  tcase_add_test(tc, every_allocation_of_sqlite_fails);
  tcase_add_test(tc, every_allocation_of_the_engine_fails);
  suite_add_tcase(suite, tc);
  return harness_run(suite);
}
