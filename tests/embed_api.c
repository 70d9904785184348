/* A program in C that reads through ext/colfam.h: what multi_get, exists and may_exist say is what SQL says,
** and what a result holds stays as it was read. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "harness_api.h"

static sqlite3 *db;
static const struct colfam_api *api;

static void open_database(void) {
  db = sql_open(sql_path("app.db"));
  api = api_of(db);
}

static void close_database(void) {
  sql_close(db);
}

static struct colfam_result *get(const struct colfam_request *requests, int count) {
  struct colfam_result *result = NULL;
  char *message = NULL;
  int rc = api->multi_get(api, requests, count, &result, &message);
  ck_assert_msg(rc == SQLITE_OK, "multi_get: code %d: %s", rc, message);
  ck_assert_ptr_null(message);
  return result;
}

static struct colfam_result *get_integers(const char *table, const sqlite3_int64 *keys, int count) {
  struct colfam_value values[64];
  for (int i = 0; i < count; i++) values[i] = integer(keys[i]);
  struct colfam_request one = request(table, values, 1, count);
  return get(&one, 1);
}

/* The call must fail so, and give no result. */
static void get_fails(const struct colfam_request *requests, int count, int code,
                      const char *text) {
  struct colfam_result *result = NULL;
  unsigned char answers[64];
  for (int call = 0; call < 3; call++) {
    char *message = NULL;
    int rc = call == 0   ? api->multi_get(api, requests, count, &result, &message)
             : call == 1 ? api->exists(api, requests, count, answers, &message)
                         : api->may_exist(api, requests, count, answers, &message);
    ck_assert_msg(rc == code, "call %d: code %d: %s", call, rc, message);
    ck_assert_msg(message && strstr(message, text), "call %d: no '%s' in: %s", call, text, message);
    ck_assert_ptr_null(result);
    sqlite3_free(message);
  }
  ck_assert_int_eq(api->exists(api, requests, count, answers, NULL), code);
}

/* ---- What a result says */

static void append_value(sqlite3_str *str, const struct colfam_value *value) {
  if (value->type == SQLITE_NULL) sqlite3_str_appendall(str, "NULL");
  if (value->type == SQLITE_INTEGER) sqlite3_str_appendf(str, "%lld", value->integer);
  if (value->type == SQLITE_FLOAT) sqlite3_str_appendf(str, "%!.15g", value->real);
  if (value->type == SQLITE_TEXT) sqlite3_str_append(str, value->bytes, (int)value->size);
  for (int i = 0; value->type == SQLITE_BLOB && i < value->size; i++)
    sqlite3_str_appendf(str, "%02x", ((const unsigned char *)value->bytes)[i]);
}

/* The rows of a request as text: columns by '|', rows by ' ', '-' for one that was not found. */
static void result_is(struct colfam_result *result, int number, int count, const char *expected) {
  sqlite3_str *str = sqlite3_str_new(NULL);
  for (int i = 0; i < count; i++) {
    if (i) sqlite3_str_appendchar(str, 1, ' ');
    if (!api->found(result, number, i)) {
      sqlite3_str_appendchar(str, 1, '-');
      continue;
    }
    for (int c = 0; c < api->column_count(result, number); c++) {
      struct colfam_value value;
      ck_assert_int_eq(api->column(result, number, i, c, &value), SQLITE_OK);
      if (c) sqlite3_str_appendchar(str, 1, '|');
      append_value(str, &value);
    }
  }
  char *got = sqlite3_str_finish(str);
  ck_assert_str_eq(got ? got : "", expected);
  sqlite3_free(got);
}

static void numbers_are(const char *expected) {
  struct colfam_result *result = get_integers("t", (const sqlite3_int64[]){200, 1, 4, 2, 4}, 5);
  result_is(result, 0, 5, expected);
  api->free_result(result);
}

#define ALL_NUMBERS "200|value 100 - 4|value 2 2|value 1 4|value 2"

/* ---- Reading */

START_TEST(keys_in_any_order_and_several_times) {
  api_make_numbers(db);
  numbers_are(ALL_NUMBERS);
  struct colfam_result *result = get_integers("t", (const sqlite3_int64[]){4, 1, 4}, 3);
  struct colfam_value first, again;
  ck_assert_int_eq(api->column(result, 0, 0, 1, &first), SQLITE_OK);
  ck_assert_int_eq(api->column(result, 0, 2, 1, &again), SQLITE_OK);
  ck_assert_ptr_eq(first.bytes, again.bytes);
  api->free_result(result);
  sql_rows(db, "SELECT value FROM colfam_stats WHERE name = 'multi_gets'", "2");
  sql_rows(db, "SELECT value FROM colfam_stats WHERE name = 'multi_get_keys'", "8");
}
END_TEST

START_TEST(every_type_of_column) {
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(a, k TEXT, d REAL, b BLOB, r,"
             " PRIMARY KEY(k, r DESC));"
             "INSERT INTO t VALUES(NULL, 'it''s', 1, x'00ff', 1.0), (-7, '', 2.5, x'', -0.0),"
             " (1 << 40, 'z' || char(0) || 'z', -1e300, x'00', x'0001')");
  const struct colfam_value keys[] = {text("it's"),
                                      integer(1),
                                      text(""),
                                      integer(0),
                                      bytes(SQLITE_TEXT, "z\0z", 3),
                                      bytes(SQLITE_BLOB, "\0\1", 2)};
  struct colfam_request one = request("t", keys, 2, 3);
  struct colfam_result *result = get(&one, 1);
  ck_assert_int_eq(api->column_count(result, 0), 5);
  struct colfam_value v;
  ck_assert_int_eq(api->column(result, 0, 0, 0, &v), SQLITE_OK);
  ck_assert_int_eq(v.type, SQLITE_NULL);
  ck_assert_int_eq(api->column(result, 0, 0, 2, &v), SQLITE_OK);
  ck_assert(v.type == SQLITE_FLOAT && v.real == 1.0);
  ck_assert_int_eq(api->column(result, 0, 0, 3, &v), SQLITE_OK);
  ck_assert(v.type == SQLITE_BLOB && v.size == 2 && !memcmp(v.bytes, "\0\377", 2));
  ck_assert_int_eq(api->column(result, 0, 0, 4, &v), SQLITE_OK);
  ck_assert(v.type == SQLITE_FLOAT && v.real == 1.0);
  ck_assert_int_eq(api->column(result, 0, 1, 0, &v), SQLITE_OK);
  ck_assert(v.type == SQLITE_INTEGER && v.integer == -7);
  ck_assert_int_eq(api->column(result, 0, 1, 1, &v), SQLITE_OK);
  ck_assert(v.type == SQLITE_TEXT && v.size == 0 && !v.bytes);
  ck_assert_int_eq(api->column(result, 0, 1, 4, &v), SQLITE_OK);
  ck_assert(v.type == SQLITE_FLOAT && v.real == 0 && __builtin_signbit(v.real));
  /* Bytes that decoding has to make stay where they are. */
  struct colfam_value again, blob;
  ck_assert_int_eq(api->column(result, 0, 2, 1, &v), SQLITE_OK);
  ck_assert_int_eq(api->column(result, 0, 2, 4, &blob), SQLITE_OK);
  ck_assert_int_eq(api->column(result, 0, 2, 1, &again), SQLITE_OK);
  ck_assert(v.type == SQLITE_TEXT && v.size == 3 && !memcmp(v.bytes, "z\0z", 3));
  ck_assert(blob.type == SQLITE_BLOB && blob.size == 2 && !memcmp(blob.bytes, "\0\1", 2));
  ck_assert_ptr_eq(v.bytes, again.bytes);
  api->free_result(result);
}
END_TEST

START_TEST(several_tables_in_one_call) {
  api_make_numbers(db);
  sql_ok(db, "CREATE VIRTUAL TABLE \"odd \"\"name\" USING colfam(line);"
             "INSERT INTO \"odd \"\"name\" VALUES('first'), ('second')");
  const struct colfam_value numbers[] = {integer(6), integer(7)};
  const struct colfam_value rowids[] = {integer(2), text("1"), real(1.5), null()};
  const struct colfam_request requests[] = {
      request("main.t", numbers, 1, 2),
      request("\"odd \"\"name\"", rowids, 1, 4),
      request("t", numbers, 1, 0),
      request("T", numbers, 1, 1),
  };
  struct colfam_result *result = get(requests, 4);
  result_is(result, 0, 2, "6|value 3 -");
  result_is(result, 1, 4, "second first - -");
  result_is(result, 2, 0, "");
  result_is(result, 3, 1, "6|value 3");
  struct colfam_value rowid;
  ck_assert_int_eq(api->column(result, 1, 0, -1, &rowid), SQLITE_OK);
  ck_assert(rowid.type == SQLITE_INTEGER && rowid.integer == 2);
  ck_assert_int_eq(api->column(result, 0, 0, -1, &rowid), SQLITE_RANGE);
  api->free_result(result);
  result = get(requests, 0);
  api->free_result(result);
  api->free_result(NULL);
}
END_TEST

START_TEST(tables_of_several_databases) {
  sql_okf(db, "ATTACH %Q AS aux", sql_path("aux.db"));
  static const char *const schemas[] = {"main", "aux", "temp"};
  struct colfam_request requests[4];
  const struct colfam_value key = integer(1);
  for (int i = 0; i < 3; i++) {
    sql_okf(db, "CREATE VIRTUAL TABLE %s.t USING colfam(k PRIMARY KEY, v)", schemas[i]);
    sql_okf(db, "INSERT INTO %s.t VALUES(1, %Q)", schemas[i], schemas[i]);
  }
  sql_ok(db, "BEGIN; UPDATE aux.t SET v = 'pending'");
  requests[0] = request("aux.t", &key, 1, 1);
  requests[1] = request("main.t", &key, 1, 1);
  requests[2] = request("t", &key, 1, 1);
  requests[3] = request("\"temp\".t", &key, 1, 1);
  struct colfam_result *result = get(requests, 4);
  sql_ok(db, "COMMIT; DETACH aux");
  result_is(result, 0, 1, "1|pending");
  result_is(result, 1, 1, "1|main");
  result_is(result, 2, 1, "1|temp");
  result_is(result, 3, 1, "1|temp");
  api->free_result(result);
  ck_assert_int_eq(sqlite3_txn_state(db, NULL), SQLITE_TXN_NONE);
}
END_TEST

START_TEST(rows_and_columns_that_are_not_there) {
  api_make_numbers(db);
  struct colfam_result *result = get_integers("t", (const sqlite3_int64[]){2, 3}, 2);
  static const struct {
    int request;
    sqlite3_int64 key;
    int column;
  } absent[] = {{0, 0, 2}, {0, 0, -2}, {0, 1, 0}, {0, 2, 0}, {0, -1, 0}, {1, 0, 0}, {-1, 0, 0}};
  for (size_t i = 0; i < sizeof absent / sizeof *absent; i++) {
    struct colfam_value value = integer(1);
    int rc = api->column(result, absent[i].request, absent[i].key, absent[i].column, &value);
    ck_assert_int_eq(rc, SQLITE_RANGE);
    ck_assert_int_eq(value.type, SQLITE_NULL);
  }
  ck_assert_int_eq(api->found(result, 0, 2), 0);
  ck_assert_int_eq(api->found(result, 0, -1), 0);
  ck_assert_int_eq(api->found(result, 1, 0), 0);
  ck_assert_int_eq(api->column_count(result, 1), 0);
  ck_assert_int_eq(api->column_count(result, -1), 0);
  api->free_result(result);
}
END_TEST

/* ---- Comparison: as a bound parameter in SQL */

static int bind_value(sqlite3_stmt *statement, const struct colfam_value *value) {
  switch (value->type) {
    case SQLITE_INTEGER:
      return sqlite3_bind_int64(statement, 1, value->integer);
    case SQLITE_FLOAT:
      return sqlite3_bind_double(statement, 1, value->real);
    case SQLITE_TEXT:
      return sqlite3_bind_text(statement, 1, value->bytes, (int)value->size, SQLITE_STATIC);
    case SQLITE_BLOB:
      return sqlite3_bind_blob(statement, 1, value->size ? value->bytes : "", (int)value->size,
                               SQLITE_STATIC);
    default:
      return sqlite3_bind_null(statement, 1);
  }
}

/* Rows of the ordinary table with k = the value, 0 or 1, and the row's number. */
static int plain_row(const struct colfam_value *value, sqlite3_int64 *number) {
  sqlite3_stmt *statement;
  int rc = sqlite3_prepare_v2(db, "SELECT n FROM plain WHERE k = ?", -1, &statement, NULL);
  ck_assert_int_eq(rc, SQLITE_OK);
  ck_assert_int_eq(bind_value(statement, value), SQLITE_OK);
  int found = sqlite3_step(statement) == SQLITE_ROW;
  if (found) *number = sqlite3_column_int64(statement, 0);
  ck_assert_int_eq(sqlite3_finalize(statement), SQLITE_OK);
  return found;
}

static void compare_with_plain(const char *type, const struct colfam_value *value, int at) {
  struct colfam_request one = request("t", value, 1, 1);
  struct colfam_result *result = get(&one, 1);
  unsigned char exists, may;
  sqlite3_int64 number = 0;
  int expected = plain_row(value, &number);
  ck_assert_msg(api->found(result, 0, 0) == expected, "%s: value %d: %d", type, at, expected);
  if (expected) {
    struct colfam_value n;
    ck_assert_int_eq(api->column(result, 0, 0, 1, &n), SQLITE_OK);
    ck_assert_int_eq(n.integer, number);
  }
  ck_assert_int_eq(api->exists(api, &one, 1, &exists, NULL), SQLITE_OK);
  ck_assert_int_eq(exists, expected ? COLFAM_PRESENT : COLFAM_ABSENT);
  ck_assert_int_eq(api->may_exist(api, &one, 1, &may, NULL), SQLITE_OK);
  if (may != COLFAM_UNKNOWN) ck_assert_int_eq(may, exists);
  api->free_result(result);
}

static const char *const types[] = {"INT",
                                    "TEXT",
                                    "REAL",
                                    "NUMERIC",
                                    "BLOB",
                                    "",
                                    "TEXT COLLATE NOCASE",
                                    "TEXT COLLATE RTRIM",
                                    "COLLATE NOCASE"};
enum { TYPES = sizeof types / sizeof *types };

START_TEST(values_compare_as_bound_parameters_do) {
  const struct colfam_value values[] = {
      integer(1),
      integer(0),
      integer(-5),
      real(1.0),
      real(1.5),
      real(-0.0),
      real(1e300),
      real(__builtin_inf()),
      real(__builtin_nan("")),
      text("1"),
      text("1.0"),
      text(" 1"),
      text("1.5"),
      text("abc"),
      text("ABC"),
      text("abc  "),
      text(""),
      text("1e0"),
      bytes(SQLITE_BLOB, "1", 1),
      bytes(SQLITE_BLOB, "abc", 3),
      bytes(SQLITE_BLOB, NULL, 0),
      bytes(SQLITE_TEXT, "a\0b", 3),
      integer(9007199254740993),
      integer(9007199254740992),
      real(9007199254740992.0),
      null(),
      integer(INT64_MIN),
      integer(INT64_MAX),
      real(-0x1p63),
      real(0x1p63),
      text("9007199254740993"),
      text("9223372036854775808"),
      text("0x1"),
      text("-5"),
  };
  const char *type = types[_i];
  sql_okf(db,
          "CREATE VIRTUAL TABLE t USING colfam(k %s PRIMARY KEY, n);"
          "CREATE TABLE plain(k %s PRIMARY KEY, n) WITHOUT ROWID",
          type, type);
  sql_ok(db, "INSERT INTO plain VALUES(1, 1), (0, 2), (-5, 3), (1.5, 4), (1e300, 5), ('abc', 6),"
             " (x'31', 7), (x'', 8), (9007199254740993, 9), (9e999, 10), ('', 11),"
             " (CAST(x'610062' AS TEXT), 12), (-9223372036854775808, 13),"
             " (9223372036854775807, 14), ('0x1', 15);"
             "INSERT INTO t SELECT * FROM plain");
  for (int flushed = 0; flushed < 2; flushed++) {
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
      compare_with_plain(type, &values[i], (int)i);
    sql_ok(db, "INSERT INTO t(t) VALUES('flush')");
  }
}
END_TEST

START_TEST(keys_too_long_for_any_row_are_absent) {
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(k PRIMARY KEY, n); INSERT INTO t VALUES('a', 1)");
  static char large[200000];
  memset(large, 'a', sizeof large);
  const struct colfam_value values[] = {bytes(SQLITE_TEXT, large, sizeof large), text("a"),
                                        bytes(SQLITE_BLOB, large, 65537)};
  struct colfam_request one = request("t", values, 1, 3);
  struct colfam_result *result = get(&one, 1);
  result_is(result, 0, 3, "- a|1 -");
  api->free_result(result);
}
END_TEST

/* ---- Transactions */

START_TEST(pending_writes_are_seen) {
  api_make_numbers(db);
  sql_ok(db, "BEGIN; INSERT INTO t VALUES(1, 'new'); DELETE FROM t WHERE k = 4");
  numbers_are("200|value 100 1|new - 2|value 1 -");
  sql_ok(db, "SAVEPOINT s; UPDATE t SET v = 'changed' WHERE k = 200");
  numbers_are("200|changed 1|new - 2|value 1 -");
  sql_ok(db, "ROLLBACK TO s");
  numbers_are("200|value 100 1|new - 2|value 1 -");
  sql_ok(db, "ROLLBACK");
  numbers_are(ALL_NUMBERS);
}
END_TEST

START_TEST(a_transaction_in_progress_keeps_its_snapshot) {
  sql_ok(db, "PRAGMA journal_mode = wal");
  api_make_numbers(db);
  sqlite3 *other = sql_open(sql_path("app.db"));
  sql_ok(db, "BEGIN; SELECT 1 FROM sqlite_schema");
  sql_ok(other, "UPDATE t SET v = 'later' WHERE k = 4");
  numbers_are(ALL_NUMBERS);
  sql_ok(db, "COMMIT");
  numbers_are("200|value 100 - 4|later 2|value 1 4|later");
  ck_assert_int_eq(sqlite3_txn_state(db, NULL), SQLITE_TXN_NONE);
  sql_close(other);
}
END_TEST

/* Commits elsewhere whenever the call prepares something. */
static int commit_elsewhere(void *other, int action, const char *a, const char *b, const char *c,
                            const char *d) {
  (void)action, (void)a, (void)b, (void)c, (void)d;
  sql_ok(other, "BEGIN; UPDATE t SET v = v + 1; UPDATE u SET v = v + 1; COMMIT");
  return SQLITE_OK;
}

START_TEST(all_requests_read_one_snapshot) {
  sql_ok(db, "PRAGMA journal_mode = wal;"
             "CREATE VIRTUAL TABLE t USING colfam(k PRIMARY KEY, v);"
             "CREATE VIRTUAL TABLE u USING colfam(k PRIMARY KEY, v);"
             "INSERT INTO t VALUES(1, 0); INSERT INTO u VALUES(1, 0)");
  sqlite3 *other = sql_open(sql_path("app.db"));
  const struct colfam_value key = integer(1);
  const struct colfam_request requests[] = {request("t", &key, 1, 1), request("u", &key, 1, 1),
                                            request("t", &key, 1, 1)};
  for (int i = 0; i < 20; i++) {
    sqlite3_set_authorizer(db, commit_elsewhere, other);
    struct colfam_result *result = get(requests, 3);
    sqlite3_set_authorizer(db, NULL, NULL);
    struct colfam_value v[3];
    for (int r = 0; r < 3; r++) ck_assert_int_eq(api->column(result, r, 0, 1, &v[r]), SQLITE_OK);
    ck_assert_int_eq(v[0].integer, v[1].integer);
    ck_assert_int_eq(v[0].integer, v[2].integer);
    api->free_result(result);
  }
  ck_assert_int_gt(sql_int(db, "SELECT v FROM t"), 20);
  sql_close(other);
}
END_TEST

/* ---- What a result keeps */

static void result_outlives(const char *first, const char *then) {
  api_make_numbers(db);
  sql_ok(db, first);
  sqlite3_int64 keys[] = {1, 4, 200};
  struct colfam_result *result = get_integers("t", keys, 3);
  result_is(result, 0, 3, "1|pending 4|value 2 -");
  sql_ok(db, then);
  sql_ok(db, "CREATE TABLE filler AS SELECT randomblob(1000000) AS x");
  result_is(result, 0, 3, "1|pending 4|value 2 -");
  api->free_result(result);
}

#define WRITES "BEGIN; INSERT INTO t VALUES(1, 'pending'); DELETE FROM t WHERE k = 200;"

START_TEST(result_outlives_commit) {
  result_outlives(WRITES, "COMMIT; UPDATE t SET v = 'x'; INSERT INTO t(t) VALUES('compact');"
                          "DELETE FROM t; INSERT INTO t(t) VALUES('compact')");
}
END_TEST

START_TEST(result_outlives_rollback) {
  result_outlives(WRITES, "ROLLBACK; BEGIN; DELETE FROM t; COMMIT");
}
END_TEST

START_TEST(result_outlives_rollback_to) {
  result_outlives("BEGIN; SAVEPOINT s; INSERT INTO t VALUES(1, 'pending');"
                  "DELETE FROM t WHERE k = 200",
                  "ROLLBACK TO s; INSERT INTO t SELECT k + 1, 'other' FROM t; COMMIT");
}
END_TEST

START_TEST(result_outlives_drop) {
  result_outlives(WRITES "COMMIT", "DROP TABLE t; VACUUM");
}
END_TEST

START_TEST(result_outlives_its_connection) {
  api_make_numbers(db);
  sql_ok(db, WRITES "COMMIT");
  sqlite3_int64 keys[] = {1, 4, 200};
  struct colfam_result *result = get_integers("t", keys, 3), *second = get_integers("t", keys, 1);
  close_database();
  result_is(result, 0, 3, "1|pending 4|value 2 -");
  api->free_result(second);
  result_is(result, 0, 3, "1|pending 4|value 2 -");
  api->free_result(result);
  open_database();
}
END_TEST

START_TEST(result_outlives_a_database_in_memory) {
  sqlite3 *file = db;
  db = sql_open(":memory:");
  api = api_of(db);
  api_make_numbers(db);
  sqlite3_int64 keys[] = {4, 5};
  struct colfam_result *result = get_integers("t", keys, 2);
  sql_close(db);
  db = sql_open(":memory:");
  api_make_numbers(db);
  result_is(result, 0, 2, "4|value 2 -");
  api->free_result(result);
  sql_rows(db, "SELECT v FROM t WHERE k = 4", "value 2");
  sql_close(db);
  db = file;
}
END_TEST

/* The last table of a database in memory goes, and with it all that the database had there. */
static void answers_outlive(const char *table, const char *flush, const char *then) {
  sql_ok(db, "SELECT colfam_config('cache_bytes', 0)");
  sql_ok(db, flush);
  struct colfam_value key = integer(4);
  const struct colfam_request requests[] = {request(table, &key, 1, 1)};
  sqlite3_int64 keys[] = {4, 400};
  struct colfam_result *result = get_integers(table, keys, 2);
  struct colfam_probe *probe;
  ck_assert_int_eq(api->probe(api, requests, 1, &probe, NULL), SQLITE_OK);
  ck_assert_int_eq(api->probed(probe, 0, 0), COLFAM_UNKNOWN);
  sql_ok(db, then);
  api_make_numbers(db);
  result_is(result, 0, 2, "4|value 4 -");
  ck_assert_int_eq(api->go_on(probe, NULL), SQLITE_OK);
  ck_assert_int_eq(api->probed(probe, 0, 0), COLFAM_PRESENT);
  api->free_probe(probe);
  api->free_result(result);
  sql_ok(db, "SELECT colfam_config('cache_bytes', 67108864)");
}

#define FLUSHED_ROWS(schema)                                                  \
  "CREATE VIRTUAL TABLE " schema ".s USING colfam(k INTEGER PRIMARY KEY, v);" \
  "INSERT INTO " schema ".s WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL"       \
  " SELECT i + 1 FROM c WHERE i < 300) SELECT i, 'value ' || i FROM c;"       \
  "INSERT INTO " schema ".s(s) VALUES('flush')"

START_TEST(answers_outlive_the_last_temporary_table) {
  answers_outlive("temp.s", FLUSHED_ROWS("temp"), "DROP TABLE temp.s");
}
END_TEST

START_TEST(answers_outlive_a_detached_database_in_memory) {
  answers_outlive("aux.s", "ATTACH ':memory:' AS aux;" FLUSHED_ROWS("aux"), "DETACH aux");
}
END_TEST

START_TEST(files_named_by_a_result_stay_until_it_is_freed) {
  api_make_numbers(db);
  sqlite3_int64 keys[] = {4};
  struct colfam_result *result = get_integers("t", keys, 1);
  char *id = sql_query(db, "SELECT id FROM colfam_files('t')");
  char path[4096];
  snprintf(path, sizeof path, "%s-colfam/%s.sst", sql_path("app.db"), id);
  sqlite3_free(id);
  sql_ok(db, "DELETE FROM t; INSERT INTO t(t) VALUES('compact'); INSERT INTO t VALUES(1, 1)");
  ck_assert_int_eq(access(path, F_OK), 0);
  api->free_result(result);
  sql_ok(db, "INSERT INTO t VALUES(2, 2); INSERT INTO t VALUES(3, 3)");
  ck_assert_int_ne(access(path, F_OK), 0);
}
END_TEST

/* ---- exists and may_exist */

static void answers_are(int (*call)(const struct colfam_api *, const struct colfam_request *, int,
                                    unsigned char *, char **),
                        const char *expected) {
  const struct colfam_value keys[] = {integer(1), integer(4), integer(3), null(), integer(6)};
  const struct colfam_request requests[] = {request("t", keys, 1, 3), request("t", keys + 3, 1, 2)};
  unsigned char answers[6] = {9, 9, 9, 9, 9, 9};
  ck_assert_int_eq(call(api, requests, 2, answers, NULL), SQLITE_OK);
  for (int i = 0; i < 6; i++)
    ck_assert_msg(answers[i] == expected[i] - '0', "%d: %d", i, answers[i]);
}

START_TEST(existence_in_batches) {
  api_make_numbers(db);
  close_database();
  open_database();
  answers_are(api->may_exist, "020029");
  answers_are(api->exists, "010019");
  answers_are(api->may_exist, "010019");
  sql_ok(db, "BEGIN; INSERT INTO t VALUES(1, 'new'); DELETE FROM t WHERE k = 4");
  answers_are(api->may_exist, "100019");
  answers_are(api->exists, "100019");
  sql_ok(db, "ROLLBACK");
  answers_are(api->exists, "010019");
}
END_TEST

/* ---- Errors */

START_TEST(wrong_requests_are_refused) {
  api_make_numbers(db);
  sql_ok(db, "CREATE TABLE plain(k)");
  const struct colfam_value good[] = {integer(2), integer(4)};
  const struct colfam_value bad[] = {integer(2), {.type = 9}};
  const struct colfam_value negative = {.type = SQLITE_TEXT, .bytes = "a", .size = -1};
  const struct colfam_value nowhere = {.type = SQLITE_BLOB, .bytes = NULL, .size = 1};
  const struct colfam_request requests[] = {
      request("absent", good, 1, 1), request("plain", good, 1, 1),   request("t", good, 2, 1),
      request("a.b.c", good, 1, 1),  request("t", bad, 1, 2),        request("t", &negative, 1, 1),
      request("t", &nowhere, 1, 1),  request(NULL, good, 1, 1),      request("t", good, 1, -1),
      request("t", NULL, 1, 1),      request("other.t", good, 1, 1), request("t", good, 0, 0),
  };
  static const struct {
    int code;
    const char *text;
  } expected[] = {
      {SQLITE_ERROR, "no such table: absent"},
      {SQLITE_ERROR, "plain is no colfam table"},
      {SQLITE_ERROR, "the key of table t has 1 columns, 2 values given"},
      {SQLITE_ERROR, "\"a.b.c\" is no table name"},
      {SQLITE_MISUSE, "table t: key 1 has something that is no value"},
      {SQLITE_MISUSE, "table t: key 0 has something that is no value"},
      {SQLITE_MISUSE, "table t: key 0 has something that is no value"},
      {SQLITE_MISUSE, "a request names no table"},
      {SQLITE_MISUSE, "table t: -1 keys of 1 columns cannot be"},
      {SQLITE_MISUSE, "table t: 1 keys of 1 columns cannot be"},
      {SQLITE_ERROR, "no such table: other.t"},
      {SQLITE_MISUSE, "table t: 0 keys of 0 columns cannot be"},
  };
  for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
    const struct colfam_request both[] = {request("t", good, 1, 2), requests[i]};
    get_fails(&requests[i], 1, expected[i].code, expected[i].text);
    get_fails(both, 2, expected[i].code, expected[i].text);
    ck_assert_int_eq(sqlite3_txn_state(db, NULL), SQLITE_TXN_NONE);
  }
  get_fails(requests, -1, SQLITE_MISUSE, "misuse");
}
END_TEST

START_TEST(damage_is_an_error_and_no_absence) {
  api_make_numbers(db);
  sql_ok(db, "CREATE VIRTUAL TABLE sound USING colfam(k INT PRIMARY KEY, v TEXT)");
  char *id = sql_query(db, "SELECT id FROM colfam_files('t')");
  char path[4096];
  snprintf(path, sizeof path, "%s-colfam/%s.sst", sql_path("app.db"), id);
  sqlite3_free(id);
  close_database();
  ck_assert_int_eq(truncate(path, 100), 0);
  open_database();
  const struct colfam_value key = integer(2);
  const struct colfam_request one = request("t", &key, 1, 1);
  const struct colfam_request both[] = {request("sound", &key, 1, 1), one};
  get_fails(&one, 1, SQLITE_CORRUPT_VTAB, "table t: ");
  get_fails(both, 2, SQLITE_CORRUPT_VTAB, "table t: ");
  ck_assert_int_eq(unlink(path), 0);
  get_fails(&one, 1, SQLITE_CANTOPEN, "table t: ");
}
END_TEST

START_TEST(the_function_wants_its_pointer) {
  sql_fails(db, "SELECT colfam_api(NULL)", SQLITE_ERROR, "for C programs");
  sql_fails(db, "SELECT colfam_api(1)", SQLITE_ERROR, "for C programs");
  sql_fails(db, "SELECT colfam_api()", SQLITE_ERROR, "wrong number of arguments");
  sql_ok(db, "CREATE VIEW v AS SELECT colfam_api(1)");
  sql_fails(db, "SELECT * FROM v", SQLITE_ERROR, "unsafe use of colfam_api()");
  ck_assert_int_eq(api->version, COLFAM_API_VERSION);
  ck_assert_int_eq(api->size, sizeof *api);
  ck_assert_ptr_eq(api_of(db), api);
  sqlite3 *other = sql_open(":memory:");
  ck_assert_ptr_ne(api_of(other), api);
  sql_close(other);
}
END_TEST

static int deny_all(void *unused, int action, const char *a, const char *b, const char *c,
                    const char *d) {
  (void)unused, (void)action, (void)a, (void)b, (void)c, (void)d;
  return SQLITE_DENY;
}

/* What a call leaves for the next one by the same name is worth nothing once the name means another thing. */
START_TEST(a_name_means_what_it_means_now) {
  api_make_numbers(db);
  sqlite3 *other = sql_open(sql_path("app.db"));
  const struct colfam_value key = integer(2);
  const struct colfam_request one = request("t", &key, 1, 1),
                              qualified = request("main.t", &key, 1, 1);
  const sqlite3_int64 two = 2;
  struct colfam_result *result;
  static const struct {
    const char *here, *elsewhere, *row;
  } steps[] = {
      {"", "", "2|value 1"},
      {"DROP TABLE t; CREATE VIRTUAL TABLE t USING colfam(k INT PRIMARY KEY, v);"
       "INSERT INTO t VALUES(2, 'new')",
       "", "2|new"},
      {"ALTER TABLE t RENAME TO u; CREATE VIRTUAL TABLE t USING colfam(k INT PRIMARY KEY, v);"
       "INSERT INTO t VALUES(2, 'newer')",
       "", "2|newer"},
      {"", "ALTER TABLE t RENAME TO w; ALTER TABLE u RENAME TO t", "2|new"},
      {"CREATE VIRTUAL TABLE temp.t USING colfam(k INT PRIMARY KEY, v);"
       "INSERT INTO temp.t VALUES(2, 'temp')",
       "", "2|temp"},
      {"DROP TABLE temp.t", "", "2|new"},
      {"BEGIN; DROP TABLE t; ALTER TABLE w RENAME TO t", "", "2|newer"},
      {"ROLLBACK", "", "2|new"},
  };
  for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
    sql_ok(db, steps[i].here);
    sql_ok(other, steps[i].elsewhere);
    for (int twice = 0; twice < 2; twice++) {
      result = get_integers("t", &two, 1);
      result_is(result, 0, 1, steps[i].row);
      api->free_result(result);
    }
  }
  sql_close(other);
  sql_ok(db, "CREATE TEMP TABLE t(k)");
  get_fails(&one, 1, SQLITE_ERROR, "t is no colfam table");
  result = get(&qualified, 1);
  result_is(result, 0, 1, "2|new");
  api->free_result(result);
  sqlite3_set_authorizer(db, deny_all, NULL);
  get_fails(&qualified, 1, SQLITE_AUTH, "not authorized");
  sqlite3_set_authorizer(db, NULL, NULL);
  sql_ok(db, "DROP TABLE temp.t; CREATE TEMP VIEW t AS SELECT 1");
  get_fails(&one, 1, SQLITE_ERROR, "t is no colfam table");
}
END_TEST

START_TEST(calls_from_within_a_statement) {
  api_make_numbers(db);
  sqlite3_stmt *rows;
  int rc = sqlite3_prepare_v2(db, "SELECT k FROM t ORDER BY k", -1, &rows, NULL);
  ck_assert_int_eq(rc, SQLITE_OK);
  for (int i = 1; sqlite3_step(rows) == SQLITE_ROW; i++) {
    if (i == 50) sql_ok(db, "UPDATE t SET v = 'late' WHERE k > 100");
    sqlite3_int64 key = sqlite3_column_int64(rows, 0);
    struct colfam_result *result = get_integers("t", &key, 1);
    char expected[64];
    snprintf(expected, sizeof expected, i > 50 ? "%d|late" : "%d|value %d", 2 * i, i);
    result_is(result, 0, 1, expected);
    api->free_result(result);
  }
  ck_assert_int_eq(sqlite3_finalize(rows), SQLITE_OK);
  sql_ok(db, "VACUUM");
}
END_TEST

int main(void) {
  Suite *suite = suite_create("embed_api");
  TCase *tc = tcase_create("api");
  tcase_set_timeout(tc, 60);
  tcase_add_checked_fixture(tc, open_database, close_database);
  tcase_add_test(tc, keys_in_any_order_and_several_times);
  tcase_add_test(tc, every_type_of_column);
  tcase_add_test(tc, several_tables_in_one_call);
  tcase_add_test(tc, tables_of_several_databases);
  tcase_add_test(tc, rows_and_columns_that_are_not_there);
  tcase_add_loop_test(tc, values_compare_as_bound_parameters_do, 0, TYPES);
  tcase_add_test(tc, keys_too_long_for_any_row_are_absent);
  tcase_add_test(tc, pending_writes_are_seen);
  tcase_add_test(tc, a_transaction_in_progress_keeps_its_snapshot);
  tcase_add_test(tc, all_requests_read_one_snapshot);
  tcase_add_test(tc, result_outlives_commit);
  tcase_add_test(tc, result_outlives_rollback);
  tcase_add_test(tc, result_outlives_rollback_to);
  tcase_add_test(tc, result_outlives_drop);
  tcase_add_test(tc, result_outlives_its_connection);
  tcase_add_test(tc, result_outlives_a_database_in_memory);
  tcase_add_test(tc, answers_outlive_the_last_temporary_table);
  tcase_add_test(tc, answers_outlive_a_detached_database_in_memory);
  tcase_add_test(tc, files_named_by_a_result_stay_until_it_is_freed);
  tcase_add_test(tc, existence_in_batches);
  tcase_add_test(tc, wrong_requests_are_refused);
  tcase_add_test(tc, damage_is_an_error_and_no_absence);
  tcase_add_test(tc, the_function_wants_its_pointer);
  tcase_add_test(tc, a_name_means_what_it_means_now);
  tcase_add_test(tc, calls_from_within_a_statement);
  suite_add_tcase(suite, tc);
  return harness_run(suite);
}
