/* Other forms of the reads of ext/colfam.h: probes that go on later, and rows into the caller's memory. */
#include <stdio.h>

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

/* ---- Probes */

/* Answers of a probe, as text. */
static void probe_is(const struct colfam_probe *probe, const char *expected) {
  for (int i = 0; expected[i]; i++)
    ck_assert_msg(api->probed(probe, i / 3, i % 3) == expected[i] - '0', "%d: %d", i,
                  api->probed(probe, i / 3, i % 3));
}

START_TEST(probes_go_on_where_they_stopped) {
  api_make_numbers(db);
  close_database();
  open_database();
  const struct colfam_value keys[] = {integer(1), integer(4), integer(3),
                                      null(),     integer(6), integer(4)};
  const struct colfam_request requests[] = {request("t", keys, 1, 3), request("t", keys + 3, 1, 3)};
  struct colfam_probe *probe = NULL, *second = NULL;
  sql_ok(db, "BEGIN; INSERT INTO t VALUES(1, 'pending')");
  ck_assert_int_eq(api->probe(api, requests, 2, &probe, NULL), SQLITE_OK);
  probe_is(probe, "120022");
  ck_assert_int_eq(api->probed(probe, 2, 0), COLFAM_ABSENT);
  ck_assert_int_eq(api->probed(probe, 0, 3), COLFAM_ABSENT);
  ck_assert_int_eq(api->probed(probe, -1, -1), COLFAM_ABSENT);
  sqlite3_int64 checks = sql_int(db, "SELECT value FROM colfam_stats WHERE name = 'filter_checks'");
  sql_ok(db, "ROLLBACK; DELETE FROM t; INSERT INTO t(t) VALUES('compact'); DROP TABLE t;"
             "CREATE VIRTUAL TABLE t USING colfam(k INT PRIMARY KEY, v)");
  ck_assert_int_ge(checks, 1);
  ck_assert_int_eq(api->go_on(probe, NULL), SQLITE_OK);
  probe_is(probe, "110011");
  ck_assert_int_eq(api->go_on(probe, NULL), SQLITE_OK);
  ck_assert_int_eq(api->probe(api, requests, 1, &second, NULL), SQLITE_OK);
  probe_is(second, "000");
  api->free_probe(second);
  close_database();
  probe_is(probe, "110011");
  api->free_probe(probe);
  open_database();
  api->free_probe(NULL);
}
END_TEST

START_TEST(probe_that_goes_on_asks_no_filter_again) {
  api_make_numbers(db);
  close_database();
  open_database();
  const struct colfam_value key = integer(4);
  const struct colfam_request one = request("t", &key, 1, 1);
  struct colfam_probe *probe = NULL;
  ck_assert_int_eq(api->probe(api, &one, 1, &probe, NULL), SQLITE_OK);
  const char *ask = "SELECT group_concat(name || '=' || value) FROM colfam_stats WHERE name IN"
                    " ('filter_checks', 'blocks_read', 'cache_misses')";
  sql_rows(db, ask, "filter_checks=1,blocks_read=0,cache_misses=1");
  ck_assert_int_eq(api->go_on(probe, NULL), SQLITE_OK);
  ck_assert_int_eq(api->probed(probe, 0, 0), COLFAM_PRESENT);
  sql_rows(db, ask, "filter_checks=1,blocks_read=1,cache_misses=2");
  api->free_probe(probe);
}
END_TEST

/* ---- Into the caller's memory */

START_TEST(rows_into_buffers_of_every_size) {
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(k INT PRIMARY KEY, v TEXT, b BLOB);"
             "INSERT INTO t VALUES(1, 'seven c', x'0102'), (2, '', x''), (3, NULL, 2.5);"
             "CREATE VIRTUAL TABLE r USING colfam(line); INSERT INTO r VALUES('of a rowid')");
  const struct colfam_value keys[] = {integer(3), integer(1), integer(7), integer(2), integer(1)};
  const struct colfam_value rowid = integer(1);
  const struct colfam_request requests[] = {request("t", keys, 1, 5), request("r", &rowid, 1, 1)};
  for (sqlite3_int64 capacity = 0; capacity < 12; capacity++) {
    static const int columns[] = {1, 2, 0}, of_rowid[] = {-1, 0};
    char memory[17][16];
    struct colfam_room rooms[17];
    memset(memory, '#', sizeof memory);
    for (int i = 0; i < 17; i++)
      rooms[i] = (struct colfam_room){.bytes = capacity ? memory[i] : NULL, .capacity = capacity};
    const struct colfam_into into[] = {{columns, 3, rooms}, {of_rowid, 2, rooms + 15}};
    ck_assert_int_eq(api->multi_get_into(api, requests, 2, into, NULL), SQLITE_OK);
    ck_assert(rooms[0].found && rooms[0].value.type == SQLITE_NULL);
    ck_assert(rooms[1].value.type == SQLITE_FLOAT && rooms[1].value.real == 2.5);
    ck_assert(rooms[2].value.type == SQLITE_INTEGER && rooms[2].value.integer == 3);
    for (int row = 1; row < 5; row += 3) {
      const struct colfam_value *v = &rooms[3 * row].value;
      ck_assert(rooms[3 * row].found && v->type == SQLITE_TEXT && v->size == 7);
      ck_assert_ptr_eq(v->bytes, capacity >= 7 ? memory[3 * row] : NULL);
      ck_assert_int_eq(memcmp(memory[3 * row], capacity >= 7 ? "seven c#" : "########", 8), 0);
      ck_assert(rooms[3 * row + 1].value.size == 2);
      ck_assert_int_eq(memory[3 * row + 1][0], capacity >= 2 ? 1 : '#');
    }
    ck_assert(!rooms[6].found && rooms[6].value.type == SQLITE_NULL && !rooms[8].found);
    ck_assert(rooms[9].found && rooms[9].value.type == SQLITE_TEXT && rooms[9].value.size == 0);
    ck_assert(rooms[10].value.type == SQLITE_BLOB && rooms[10].value.size == 0);
    ck_assert(rooms[15].value.type == SQLITE_INTEGER && rooms[15].value.integer == 1);
    ck_assert_int_eq(rooms[16].value.size, 10);
    ck_assert_ptr_eq(rooms[16].value.bytes, capacity >= 10 ? memory[16] : NULL);
  }
}
END_TEST

/* Bytes of a key have no place of their own that a row could lend. */
START_TEST(texts_and_blobs_of_keys_go_into_buffers) {
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(k TEXT, b BLOB, v, PRIMARY KEY(k, b));"
             "INSERT INTO t VALUES('one', x'0100ff', 'first'), ('', x'', 'second'),"
             " ('a longer one', x'00', 'third')");
  static const struct colfam_value keys[] = {
      {.type = SQLITE_TEXT, .bytes = "a longer one", .size = 12},
      {.type = SQLITE_BLOB, .bytes = "\0", .size = 1},
      {.type = SQLITE_TEXT},
      {.type = SQLITE_BLOB},
      {.type = SQLITE_TEXT, .bytes = "one", .size = 3},
      {.type = SQLITE_BLOB, .bytes = "\1\0\377", .size = 3},
  };
  static const int columns[] = {1, 0, 2};
  const struct colfam_request one = request("t", keys, 2, 3);
  struct colfam_result *result = NULL;
  char memory[9][12];
  struct colfam_room rooms[9];
  for (int i = 0; i < 9; i++) rooms[i] = (struct colfam_room){.bytes = memory[i], .capacity = 12};
  const struct colfam_into into = {columns, 3, rooms};
  ck_assert_int_eq(api->multi_get_into(api, &one, 1, &into, NULL), SQLITE_OK);
  ck_assert_int_eq(api->multi_get(api, &one, 1, &result, NULL), SQLITE_OK);
  for (int i = 0; i < 9; i++) {
    const struct colfam_value *got = &rooms[i].value;
    struct colfam_value wanted;
    ck_assert_int_eq(api->column(result, 0, i / 3, columns[i % 3], &wanted), SQLITE_OK);
    ck_assert(rooms[i].found && got->type == wanted.type && got->size == wanted.size);
    ck_assert_ptr_eq(got->bytes, got->size ? memory[i] : NULL);
    if (got->size) ck_assert_mem_eq(got->bytes, wanted.bytes, (size_t)got->size);
  }
  ck_assert_int_eq(rooms[1].value.size, 12);
  ck_assert_mem_eq(memory[6], "\1\0\377", 3);
  api->free_result(result);
}
END_TEST

START_TEST(columns_that_are_not_there_are_refused_before_anything_is_written) {
  api_make_numbers(db);
  static const int wrong[] = {0, -1}, beyond[] = {2};
  const struct colfam_value key = integer(2);
  const struct colfam_request requests[] = {request("t", &key, 1, 1), request("t", &key, 1, 1)};
  struct colfam_room rooms[3] = {0};
  const struct colfam_into into[] = {{wrong, 2, rooms}, {beyond, 1, rooms + 2}};
  char *message = NULL;
  ck_assert_int_eq(api->multi_get_into(api, requests, 2, into, &message), SQLITE_RANGE);
  ck_assert_str_eq(message, "table t has no column -1");
  sqlite3_free(message);
  ck_assert_int_eq(api->multi_get_into(api, requests + 1, 1, into + 1, NULL), SQLITE_RANGE);
  ck_assert_int_eq(rooms[0].found, 0);
  const struct colfam_request absent = request("absent", &key, 1, 1);
  ck_assert_int_eq(api->multi_get_into(api, &absent, 1, into, &message), SQLITE_ERROR);
  ck_assert_ptr_nonnull(strstr(message, "no such table"));
  sqlite3_free(message);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("embed_api_forms");
  TCase *tc = tcase_create("forms");
  tcase_set_timeout(tc, 60);
  tcase_add_checked_fixture(tc, open_database, close_database);
  tcase_add_test(tc, probes_go_on_where_they_stopped);
  tcase_add_test(tc, probe_that_goes_on_asks_no_filter_again);
  tcase_add_test(tc, rows_into_buffers_of_every_size);
  tcase_add_test(tc, texts_and_blobs_of_keys_go_into_buffers);
  tcase_add_test(tc, columns_that_are_not_there_are_refused_before_anything_is_written);
  suite_add_tcase(suite, tc);
  return harness_run(suite);
}
