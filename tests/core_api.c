/* The calls of ext/colfam.h when memory runs out at every place: SQLITE_NOMEM or the whole answer, nothing
** leaks, no transaction stays open, and the next call works. */
#include "ext/colfam.h"

#include <stdio.h>
#include <string.h>

#include "engine/mem.h"
#include "harness_oom.h"
#include "harness_sql.h"

static sqlite3 *db;
static const struct colfam_api *api;

static void get_api(void) {
  sqlite3_stmt *statement;
  int rc = sqlite3_prepare_v2(db, "SELECT colfam_api(?1)", -1, &statement, NULL);
  ck_assert_int_eq(rc, SQLITE_OK);
  sqlite3_bind_pointer(statement, 1, (void *)&api, COLFAM_API_POINTER, NULL);
  ck_assert_int_eq(sqlite3_step(statement), SQLITE_ROW);
  ck_assert_int_eq(sqlite3_finalize(statement), SQLITE_OK);
}

/* t: composite key with texts that have NUL bytes, rows in a file and in the log; r: rowids. */
static void make_tables(const char *path) {
  db = sql_open(path);
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(a TEXT, b INT, v, PRIMARY KEY(a, b));"
             "INSERT INTO t VALUES('x' || char(0), 1, 'one'), ('12', 2, 'two');"
             "INSERT INTO t(t) VALUES('flush'); INSERT INTO t VALUES('z', 3, 'three');"
             "CREATE VIRTUAL TABLE r USING colfam(v); INSERT INTO r VALUES('row')");
  sql_close(db);
}

#define TEXT(string, length) \
  { .type = SQLITE_TEXT, .bytes = (string), .size = (length) }
#define INTEGER(number) \
  { .type = SQLITE_INTEGER, .integer = (number) }

static const struct colfam_value keys[] = {TEXT("z", 1), INTEGER(3), TEXT("x\0", 2),  TEXT("1", 1),
                                           INTEGER(12),  INTEGER(2), TEXT("none", 4), INTEGER(1)};
static const struct colfam_value rowid = TEXT("1", 1);
static const struct colfam_request requests[] = {{"t", {keys, 4, 2}}, {"main.r", {&rowid, 1, 1}}};

static bool read_columns(struct colfam_result *result) {
  struct colfam_value made, value, row;
  ck_assert(api->found(result, 0, 0) && api->found(result, 0, 2) && !api->found(result, 0, 3));
  int rc = api->column(result, 0, 1, 0, &made);
  if (rc == SQLITE_OK) rc = api->column(result, 0, 1, 2, &value);
  if (rc == SQLITE_OK) rc = api->column(result, 1, 0, 0, &row);
  ck_assert_msg(rc == SQLITE_OK || rc == SQLITE_NOMEM, "code %d", rc);
  if (rc != SQLITE_OK) return false;
  ck_assert(made.size == 2 && !memcmp(made.bytes, "x\0", 2));
  ck_assert(value.size == 3 && !memcmp(value.bytes, "one", 3));
  ck_assert(row.size == 3 && !memcmp(row.bytes, "row", 3));
  return true;
}

static int multi_get(void) {
  struct colfam_result *result;
  char *message;
  int rc = api->multi_get(api, requests, 2, &result, &message);
  if (rc == SQLITE_OK && !read_columns(result)) rc = SQLITE_NOMEM;
  api->free_result(result);
  sqlite3_free(message);
  return rc;
}

static int exists(void) {
  unsigned char answers[5];
  char *message;
  int rc = api->exists(api, requests, 2, answers, &message);
  if (rc == SQLITE_OK) ck_assert(!memcmp(answers, "\1\1\1\0\1", 5));
  sqlite3_free(message);
  return rc;
}

static int may_exist(void) {
  unsigned char answers[5];
  int rc = api->may_exist(api, requests, 2, answers, NULL);
  if (rc == SQLITE_OK) ck_assert(answers[0] == 1 && answers[1] && answers[4] == 1);
  return rc;
}

static int (*const calls[])(void) = {multi_get, exists, may_exist};
enum { CALLS = sizeof calls / sizeof *calls };

static void fail_everywhere(enum oom_heap heap, int call, bool sticky) {
  bool failed = true;
  for (int n = 1; failed; n++) {
    oom_fail_nth(heap, n, sticky);
    int rc = calls[call]();
    failed = oom_stop(heap);
    ck_assert_msg(rc == SQLITE_OK || (rc & 0xff) == SQLITE_NOMEM, "allocation %d: code %d", n, rc);
    ck_assert_int_eq(sqlite3_txn_state(db, NULL), SQLITE_TXN_NONE);
    ck_assert_int_eq(calls[call](), SQLITE_OK);
  }
}

static void fail_call(enum oom_heap heap, int call) {
  const char *path = sql_path("app.db");
  make_tables(path); /* the process's cache stays from here on */
  int64_t blocks = kv_mem_live_blocks();
  sqlite3_int64 bytes = sqlite3_memory_used();
  for (int sticky = 0; sticky < 2; sticky++) {
    db = sql_open(path);
    get_api();
    fail_everywhere(heap, call, sticky);
    sql_close(db);
  }
  ck_assert_int_eq(sqlite3_memory_used(), bytes);
  ck_assert_int_eq(kv_mem_live_blocks(), blocks);
}

START_TEST(every_allocation_of_sqlite_fails) {
  fail_call(OOM_SQLITE, _i);
}
END_TEST

START_TEST(every_allocation_of_the_engine_fails) {
  fail_call(OOM_ENGINE, _i);
}
END_TEST

int main(void) {
  oom_install();
  Suite *suite = suite_create("core_api");
  TCase *tc = tcase_create("memory");
  tcase_set_timeout(tc, 120);
  tcase_add_loop_test(tc, every_allocation_of_sqlite_fails, 0, CALLS);
  tcase_add_loop_test(tc, every_allocation_of_the_engine_fails, 0, CALLS);
  suite_add_tcase(suite, tc);
  return harness_run(suite);
}
