/* colfam_config: settings are read and set, each acts, and what is not allowed says what is. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "harness_sql.h"

static sqlite3 *db;

static void open_database(void) {
  sql_use_threads(1); /* as it is at first */
  db = sql_open(sql_path("app.db"));
}

static void close_database(void) {
  sql_close(db);
}

/* About 400 kB of texts, uncompressed, in one file. */
static void make_table(void) {
  sql_ok(db,
         "CREATE VIRTUAL TABLE t USING colfam(k INT PRIMARY KEY, v TEXT, compression = none,"
         " filter_bits = 0);"
         "WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n WHERE i < 1000)"
         "INSERT INTO t SELECT i, printf('%0400d', i) FROM n; INSERT INTO t(t) VALUES('flush')");
}

static sqlite3_int64 counter(const char *name) {
  char *sql = sqlite3_mprintf("SELECT sum(value) FROM colfam_stats WHERE name = %Q", name);
  sqlite3_int64 value = sql_int(db, sql);
  sqlite3_free(sql);
  return value;
}

START_TEST(defaults) {
  sql_rows(db,
           "SELECT colfam_config('cache_bytes'), colfam_config('threads'),"
           " colfam_config('batch_bytes'), colfam_config('verify_checksums')",
           "67108864|1|67108864|on");
}
END_TEST

START_TEST(setting_gives_the_new_value_to_every_connection) {
  sql_rows(db, "SELECT colfam_config('cache_bytes', 1000000)", "1000000");
  sql_rows(db, "SELECT colfam_config('CACHE_BYTES', '2000000')", "2000000");
  sql_rows(db, "SELECT colfam_config('threads', 0)", "0");
  sql_rows(db, "SELECT colfam_config('batch_bytes', 4096)", "4096");
  sql_rows(db, "SELECT colfam_config('batch_bytes', 1099511627776)", "1099511627776");
  sql_rows(db, "SELECT colfam_config('batch_bytes', 67108864)", "67108864");
  sql_rows(db, "SELECT colfam_config('verify_checksums', 'OFF')", "off");
  sqlite3 *other = sql_open(":memory:");
  sql_rows(other,
           "SELECT colfam_config('cache_bytes'), colfam_config('threads'),"
           " colfam_config('verify_checksums')",
           "2000000|0|off");
  sql_close(other);
}
END_TEST

START_TEST(settings_belong_to_no_transaction) {
  sql_ok(db, "BEGIN; SELECT colfam_config('cache_bytes', 5000); ROLLBACK");
  sql_rows(db, "SELECT colfam_config('cache_bytes')", "5000");
}
END_TEST

START_TEST(wrong_names_and_values) {
  static const struct {
    const char *call, *text;
  } calls[] = {
      {"('cache')", "unknown setting cache: the settings are cache_bytes, threads, batch_bytes,"
                    " verify_checksums"},
      {"('', 1)", "unknown setting : the settings are"},
      {"(NULL)", "unknown setting NULL: the settings are"},
      {"(7)", "unknown setting 7: the settings are"},
      {"()", "wrong number of arguments"},
      {"('threads', 1, 1)", "wrong number of arguments"},
      {"('cache_bytes', -1)", "setting cache_bytes cannot be '-1': allowed are 0 to 1099511627776"},
      {"('cache_bytes', 1099511627777)", "allowed are 0 to 1099511627776"},
      {"('cache_bytes', 1.5)", "allowed are 0 to"},
      {"('cache_bytes', '64k')", "cannot be '64k'"},
      {"('cache_bytes', x'31')", "allowed are 0 to"},
      {"('cache_bytes', NULL)", "cannot be 'NULL'"},
      {"('threads', 2)", "setting threads cannot be '2': allowed are 0 and 1"},
      {"('threads', 'on')", "allowed are 0 and 1"},
      {"('batch_bytes', 4095)",
       "setting batch_bytes cannot be '4095': allowed are 4096 to 1099511627776"},
      {"('batch_bytes', -9223372036854775808)", "allowed are 4096 to"},
      {"('batch_bytes', 1099511627777)", "allowed are 4096 to"},
      {"('verify_checksums', 1)",
       "setting verify_checksums cannot be '1': allowed are on, merges and off"},
      {"('verify_checksums', NULL)", "allowed are on, merges and off"},
      {"('verify_checksums', '')", "allowed are on, merges and off"},
  };
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
    char *sql = sqlite3_mprintf("SELECT colfam_config%s", calls[i].call);
    sql_fails(db, sql, SQLITE_ERROR, calls[i].text);
    sqlite3_free(sql);
  }
  sql_rows(db,
           "SELECT colfam_config('cache_bytes'), colfam_config('threads'),"
           " colfam_config('batch_bytes'), colfam_config('verify_checksums')",
           "67108864|1|67108864|on");
}
END_TEST

START_TEST(smaller_cache_lets_go_at_once_and_reads_go_on) {
  make_table();
  sql_rows(db, "SELECT count(v) FROM t", "1000");
  ck_assert_int_gt(counter("cache_bytes"), 300000);
  sql_ok(db, "SELECT colfam_config('cache_bytes', 100000)");
  ck_assert_int_le(counter("cache_bytes"), 100000);
  ck_assert_int_eq(counter("cache_budget_bytes"), 100000);
  sql_rows(db, "SELECT count(v), sum(v) FROM t", "1000|500500");
  ck_assert_int_le(counter("cache_bytes"), 100000);
}
END_TEST

START_TEST(cache_of_nothing_reads_every_block_again) {
  make_table();
  sql_ok(db, "SELECT colfam_config('cache_bytes', 0)");
  sqlite3_int64 before = counter("blocks_read");
  for (int i = 0; i < 5; i++) sql_rows(db, "SELECT length(v) FROM t WHERE k = 500", "400");
  ck_assert_int_eq(counter("blocks_read"), before + 5);
  ck_assert_int_eq(counter("cache_bytes"), 0);
  sql_ok(db, "SELECT colfam_config('cache_bytes', 1000000)");
  for (int i = 0; i < 5; i++) sql_rows(db, "SELECT length(v) FROM t WHERE k = 500", "400");
  ck_assert_int_eq(counter("blocks_read"), before + 6);
}
END_TEST

START_TEST(cursor_goes_on_when_the_cache_shrinks_under_it) {
  make_table();
  sqlite3_stmt *stmt;
  ck_assert_int_eq(sqlite3_prepare_v2(db, "SELECT k, v FROM t ORDER BY k", -1, &stmt, NULL),
                   SQLITE_OK);
  for (int i = 1; i <= 1000; i++) {
    ck_assert_int_eq(sqlite3_step(stmt), SQLITE_ROW);
    ck_assert_int_eq(sqlite3_column_int(stmt, 0), i);
    ck_assert_int_eq(sqlite3_column_int(stmt, 1), i);
    if (i % 100 == 0) sql_okf(db, "SELECT colfam_config('cache_bytes', %d)", i % 200 ? 0 : 100000);
  }
  ck_assert_int_eq(sqlite3_step(stmt), SQLITE_DONE);
  sqlite3_finalize(stmt);
}
END_TEST

START_TEST(checksums_are_skipped_on_load_only_while_off) {
  make_table();
  close_database();
  open_database();
  sql_ok(db, "SELECT colfam_config('verify_checksums', 'off')");
  sql_rows(db, "SELECT length(v) FROM t WHERE k = 500", "400");
  sql_rows(db, "SELECT count(v) FROM t WHERE k IN (1, 999)", "2");
  sqlite3_int64 checked = counter("checksums"), skipped = counter("checksums_skipped");
  ck_assert_int_eq(checked, 0);
  ck_assert_int_eq(skipped, 3);
  ck_assert_int_eq(skipped, counter("blocks_read"));
  sql_ok(db, "SELECT colfam_config('verify_checksums', 'on')");
  sql_rows(db, "SELECT length(v) FROM t WHERE k = 250", "400");
  ck_assert_int_eq(counter("checksums"), 1);
  ck_assert_int_eq(counter("checksums_skipped"), 3);
}
END_TEST

/* Changes the last digit of the text of row 500 in the table's file. */
static void damage_row(void) {
  char path[4096], bytes[4096];
  char *id = sql_query(db, "SELECT id FROM colfam_files('t')");
  snprintf(path, sizeof path, "%s-colfam/%s.sst", sql_path("app.db"), id);
  sqlite3_free(id);
  int file = open(path, O_RDWR);
  ck_assert_int_ge(file, 0);
  for (off_t at = 0;; at += 1000) {
    ssize_t n = pread(file, bytes, sizeof bytes, at);
    ck_assert_int_gt(n, 0);
    char *found = memmem(bytes, (size_t)n, "0000500", 7);
    if (!found) continue;
    ck_assert_int_eq(pwrite(file, "7", 1, at + (found - bytes) + 6), 1);
    break;
  }
  close(file);
}

/* Nobody looks but the check, and what is written on has a right checksum. */
START_TEST(damage_is_seen_by_check_alone_while_off) {
  make_table();
  damage_row();
  close_database();
  open_database();
  sql_ok(db, "SELECT colfam_config('verify_checksums', 'off')");
  sql_rows(db, "SELECT v + 0 FROM t WHERE k = 500", "507");
  sql_rows(db, "SELECT count(*) > 0 FROM colfam_check('t') WHERE text LIKE '%bad checksum%'", "1");
  sql_ok(db, "INSERT INTO t VALUES(2000, 'x')");
  sqlite3_int64 checked = counter("checksums");
  sql_ok(db, "INSERT INTO t(t) VALUES('compact')");
  ck_assert_int_eq(counter("checksums"), checked);
  sql_ok(db, "SELECT colfam_config('verify_checksums', 'on')");
  sql_rows(db, "SELECT v + 0 FROM t WHERE k = 500", "507");
  sql_rows(db, "SELECT count(*) FROM colfam_check('t') WHERE severity = 'error'", "0");
}
END_TEST

/* What a SELECT then gives is what is there; nothing is written on from it, and the check tells. */
START_TEST(damage_is_seen_by_check_and_compaction_without_those_of_reads) {
  make_table();
  damage_row();
  close_database();
  open_database();
  sql_fails(db, "SELECT v + 0 FROM t WHERE k = 500", SQLITE_CORRUPT_VTAB, "bad checksum");
  sql_ok(db, "SELECT colfam_config('verify_checksums', 'merges')");
  sql_rows(db, "SELECT v + 0 FROM t WHERE k = 500", "507");
  sql_rows(db, "SELECT count(*) > 0 FROM colfam_check('t') WHERE text LIKE '%bad checksum%'", "1");
  sql_ok(db, "INSERT INTO t VALUES(2000, 'x')");
  sql_fails(db, "INSERT INTO t(t) VALUES('compact')", SQLITE_CORRUPT_VTAB, "bad checksum");
  sql_fails(db, "SELECT * FROM colfam_compact('t')", SQLITE_CORRUPT_VTAB, "bad checksum");
}
END_TEST

START_TEST(not_for_views_and_triggers) {
  sql_ok(db, "CREATE VIEW s AS SELECT colfam_config('cache_bytes', 0) AS x;"
             "CREATE VIEW g AS SELECT colfam_config('cache_bytes') AS x;"
             "CREATE TABLE o(k); CREATE TRIGGER r AFTER INSERT ON o BEGIN"
             " SELECT colfam_config('cache_bytes', 0); END");
  for (int i = 0; i < 2; i++) {
    sql_fails(db, "SELECT x FROM s", SQLITE_ERROR, "unsafe use of colfam_config");
    sql_fails(db, "SELECT x FROM g", SQLITE_ERROR, "unsafe use of colfam_config");
    sql_fails(db, "INSERT INTO o VALUES(1)", SQLITE_ERROR, "unsafe use of colfam_config");
    sql_ok(db, "PRAGMA trusted_schema = off");
  }
  sql_rows(db, "SELECT colfam_config('cache_bytes')", "67108864");
}
END_TEST

int main(void) {
  Suite *suite = suite_create("sql_config");
  TCase *tc = tcase_create("sql_config");
  tcase_add_checked_fixture(tc, open_database, close_database);
  tcase_add_test(tc, defaults);
  tcase_add_test(tc, setting_gives_the_new_value_to_every_connection);
  tcase_add_test(tc, settings_belong_to_no_transaction);
  tcase_add_test(tc, wrong_names_and_values);
  tcase_add_test(tc, smaller_cache_lets_go_at_once_and_reads_go_on);
  tcase_add_test(tc, cache_of_nothing_reads_every_block_again);
  tcase_add_test(tc, cursor_goes_on_when_the_cache_shrinks_under_it);
  tcase_add_test(tc, checksums_are_skipped_on_load_only_while_off);
  tcase_add_test(tc, damage_is_seen_by_check_alone_while_off);
  tcase_add_test(tc, damage_is_seen_by_check_and_compaction_without_those_of_reads);
  tcase_add_test(tc, not_for_views_and_triggers);
  suite_add_tcase(suite, tc);
  return harness_run(suite);
}
