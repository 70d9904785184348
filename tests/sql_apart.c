/* Values stored apart from keys (option value_bytes), through SQL: what key-only statements read, what
** merges write, the option changed later, files, copies and damage. Each test has an ordinary twin. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "harness_files.h"
#include "harness_sql.h"

static sqlite3 *db;

#define COLUMNS "k TEXT COLLATE NOCASE, n, v BLOB, w INTEGER, PRIMARY KEY(k, n)"

static void setup(void) {
  db = sql_open(sql_path("apart.db"));
  sql_ok(db, "PRAGMA journal_mode = wal; PRAGMA synchronous = off;"
             "CREATE TABLE o(" COLUMNS ") WITHOUT ROWID;"
             "CREATE VIRTUAL TABLE t USING colfam(" COLUMNS ", value_bytes = 100)");
}

static void teardown(void) {
  sql_rows(db, "SELECT * FROM colfam_check('t')", "");
  sql_same(db, "SELECT * FROM t ORDER BY k, n", "SELECT * FROM o ORDER BY k, n");
  files_agree(db, "t");
  sql_close(db);
}

static void reopen(void) {
  sql_close(db);
  db = sql_open(sql_path("apart.db"));
}

static sqlite3_int64 statistic(const char *name) {
  char *sql = sqlite3_mprintf(
      "SELECT sum(value) FROM colfam_stats WHERE table_name = 't' AND name = %Q", name);
  sqlite3_int64 value = sql_int(db, sql);
  sqlite3_free(sql);
  return value;
}

/* Rows first to last of both tables: keys with capitals and numbers of three kinds, values of `bytes`. */
static void fill(int first, int last, int bytes) {
  sql_okf(db,
          "CREATE TEMP TABLE fresh AS WITH RECURSIVE n(i) AS (SELECT %d UNION ALL SELECT i + 1"
          " FROM n WHERE i < %d) SELECT 'Key ' || (i / 3) AS k,"
          " CASE i %% 3 WHEN 0 THEN i WHEN 1 THEN i * 1.0 ELSE -0.0 END AS n,"
          " randomblob(%d) AS v, i AS w FROM n;"
          "BEGIN; REPLACE INTO o SELECT * FROM fresh; REPLACE INTO t SELECT * FROM fresh; COMMIT;"
          "DROP TABLE fresh; INSERT INTO t(t) VALUES('flush')",
          first, last, bytes);
}

static int value_files(void) {
  return (int)sql_int(db, "SELECT count(*) FROM colfam_files('t') WHERE level = 'values'");
}

/* ---- Reading */

static const char *const key_only[] = {
    "SELECT k, n, typeof(n) FROM %s ORDER BY k, n",
    "SELECT k, n FROM %s WHERE k = 'KEY 20' ORDER BY n",
    "SELECT k FROM %s WHERE k BETWEEN 'key 3' AND 'key 5' ORDER BY k DESC, n DESC",
    "SELECT count(*) FROM %s",
    "SELECT count(*) FROM %s WHERE k LIKE 'Key 1%%'",
    "SELECT EXISTS (SELECT 1 FROM %s WHERE k = 'key 20' AND n = 60)",
    "SELECT EXISTS (SELECT 1 FROM %s WHERE k = 'key 20' AND n = 7)",
    "SELECT count(*) FROM o WHERE NOT EXISTS (SELECT 1 FROM %s AS x WHERE x.k = o.k AND x.n = o.n)",
    "SELECT k, n FROM %s WHERE k = 'key 20' AND n = 60",
    "SELECT k, n, typeof(n) FROM %s WHERE k IN ('KEY 1', 'KEY 2', 'nothing') AND n IN (0, 3, 4, 6)"
    " ORDER BY k, n",
    "SELECT min(k), typeof(min(n)) FROM %s",
    "SELECT group_concat(DISTINCT typeof(n)) FROM %s"};

START_TEST(key_only_statements_read_no_value) {
  sql_ok(db, "SELECT colfam_config('cache_bytes', 0)");
  fill(0, 149, 3000);
  fill(100, 200, 3000);
  reopen();
  for (size_t i = 0; i < sizeof key_only / sizeof *key_only; i++) {
    char *mine = sqlite3_mprintf(key_only[i], "t"), *other = sqlite3_mprintf(key_only[i], "o");
    sql_same(db, mine, other);
    ck_assert_msg(statistic("value_bytes_read") == 0, "%s", mine);
    sqlite3_free(mine);
    sqlite3_free(other);
  }
  sql_ok(db, "BEGIN; DELETE FROM t WHERE k = 'key 3' AND n = 9; ROLLBACK");
  sql_rows(db, "SELECT colfam_may_exist('t', 'key 3', 9) IS NOT 0", "1");
  ck_assert_int_eq(statistic("value_bytes_read"), 0);
  ck_assert_int_gt(statistic("blocks_read"), 0);
  sql_same(db, "SELECT v FROM t WHERE k = 'key 3' AND n = 9",
           "SELECT v FROM o WHERE k = 'key 3' AND n = 9");
  ck_assert_int_gt(statistic("value_bytes_read"), 2900);
  ck_assert_int_lt(statistic("value_bytes_read"), 3200);
  sql_ok(db, "SELECT colfam_config('cache_bytes', 67108864)");
}
END_TEST

START_TEST(values_are_read_by_every_plan) {
  fill(0, 149, 500);
  fill(100, 200, 90);
  static const char *const statements[] = {
      "SELECT * FROM %s ORDER BY k, n",
      "SELECT * FROM %s ORDER BY k DESC, n DESC",
      "SELECT v, w FROM %s WHERE k = 'key 20' AND n = 60",
      "SELECT k, v FROM %s WHERE k IN ('KEY 1', 'KEY 40', 'nothing') AND n IN (0, 3, 4, 120)"
      " ORDER BY k, n",
      "SELECT sum(length(v)), sum(w) FROM %s",
      "SELECT max(v) FROM %s WHERE w > 120"};
  for (int pass = 0; pass < 3; pass++) {
    for (size_t i = 0; i < sizeof statements / sizeof *statements; i++) {
      char *mine = sqlite3_mprintf(statements[i], "t"),
           *other = sqlite3_mprintf(statements[i], "o");
      sql_same(db, mine, other);
      sqlite3_free(mine);
      sqlite3_free(other);
    }
    if (pass == 0) sql_ok(db, "INSERT INTO t(t) VALUES('compact')");
    if (pass == 1)
      for (int i = 0; i < 2; i++)
        sql_okf(db,
                "UPDATE %s SET w = w + 1 WHERE n > 50; DELETE FROM %s WHERE k = 'KEY 5';"
                "UPDATE %s SET n = n + 1000 WHERE k = 'key 6' AND n > 0",
                i ? "o" : "t", i ? "o" : "t", i ? "o" : "t");
  }
}
END_TEST

/* ---- Writing */

START_TEST(compaction_of_keys_does_not_write_values) {
  for (int i = 0; i < 4; i++) fill(i * 50, i * 50 + 60, 4000);
  sqlite3_int64 before = statistic("compact_bytes_written"), read = statistic("value_bytes_read");
  sql_ok(db, "INSERT INTO t(t) VALUES('compact')");
  sqlite3_int64 written = statistic("compact_bytes_written") - before;
  ck_assert_int_gt(written, 0);
  ck_assert_int_lt(written, sql_int(db, "SELECT sum(length(v)) FROM o") / 10);
  ck_assert_int_eq(statistic("value_bytes_read"), read);
  sql_rows(db, "SELECT count(*) FROM colfam_files('t') WHERE level <> 'values'", "1");
  sql_rows(db, "SELECT sum(rows) = (SELECT count(*) FROM o) FROM colfam_files('t')", "1");
  ck_assert_int_eq(value_files(), 4);
}
END_TEST

START_TEST(value_files_go_with_their_values) {
  fill(0, 50, 1000);
  fill(0, 50, 1000);
  ck_assert_int_eq(value_files(), 2);
  sql_rows(db, "SELECT DISTINCT dead_bytes FROM colfam_files('t') ORDER BY 1", "NULL\n0");
  sql_ok(db, "INSERT INTO t(t) VALUES('compact')");
  ck_assert_int_eq(value_files(), 1);
  sql_ok(db, "DELETE FROM t WHERE n > 40; DELETE FROM o WHERE n > 40;"
             "INSERT INTO t(t) VALUES('compact')");
  sql_rows(db,
           "SELECT dead_bytes BETWEEN 5000 AND raw_bytes / 2 FROM colfam_files('t')"
           " WHERE level = 'values'",
           "1");
  sql_ok(db, "DELETE FROM t; DELETE FROM o; INSERT INTO t(t) VALUES('compact')");
  ck_assert_int_eq(value_files(), 0);
}
END_TEST

START_TEST(the_option_is_changed_later) {
  sql_ok(db, "INSERT INTO t(t) VALUES('value_bytes=0')");
  fill(0, 50, 1000);
  ck_assert_int_eq(value_files(), 0);
  sql_ok(db, "INSERT INTO t(t) VALUES('value_bytes=500')");
  reopen();
  fill(51, 60, 1000);
  fill(61, 70, 400);
  ck_assert_int_eq(value_files(), 1);
  sql_ok(db, "INSERT INTO t(t) VALUES('compact')");
  ck_assert_int_eq(value_files(), 2);
  sql_ok(db, "INSERT INTO t(t) VALUES('value_bytes=0')");
  fill(71, 80, 1000);
  sql_ok(db, "INSERT INTO t(t) VALUES('compact')");
  ck_assert_int_eq(value_files(), 0);
}
END_TEST

START_TEST(versions_are_raised_only_while_there_are_value_files) {
  const char *lowest = "SELECT group_concat(value) FROM (SELECT value FROM t_cfmeta"
                       " WHERE name LIKE 'lowest%' ORDER BY name)";
  fill(0, 10, 50);
  sql_rows(db, lowest, "1,2");
  fill(0, 10, 500);
  sql_rows(db, lowest, "3,3");
  sql_ok(db, "DELETE FROM t WHERE n > 5; DELETE FROM o WHERE n > 5");
  sql_ok(db, "INSERT INTO t(t) VALUES('compact')");
  sql_rows(db, lowest, "3,3");
  sql_ok(db, "DELETE FROM t; DELETE FROM o; INSERT INTO t(t) VALUES('compact')");
  sql_rows(db, lowest, "1,2");
}
END_TEST

START_TEST(savepoints_and_rollbacks) {
  fill(0, 30, 1000);
  sql_ok(db,
         "BEGIN; SAVEPOINT s; UPDATE t SET v = zeroblob(9000);"
         "INSERT INTO t(t) VALUES('flush'); ROLLBACK TO s;"
         "UPDATE t SET v = zeroblob(300) WHERE n = 3; INSERT INTO t(t) VALUES('compact'); COMMIT;"
         "UPDATE o SET v = zeroblob(300) WHERE n = 3");
  sql_same(db, "SELECT * FROM t ORDER BY k, n", "SELECT * FROM o ORDER BY k, n");
  sql_ok(db, "BEGIN; DELETE FROM t; INSERT INTO t(t) VALUES('compact'); ROLLBACK");
}
END_TEST

/* ---- Copies and damage */

START_TEST(a_copy_has_the_values) {
  fill(0, 40, 2000);
  char *sql = sqlite3_mprintf("SELECT count(*) FROM colfam_backup(%Q) WHERE phase = 'done'",
                              sql_path("copy.db"));
  sql_rows(db, sql, "1");
  sqlite3_free(sql);
  sqlite3 *copy = sql_open(sql_path("copy.db"));
  sql_rows(copy, "SELECT * FROM colfam_check('t')", "");
  sql_same(copy, "SELECT * FROM t ORDER BY k, n", "SELECT * FROM o ORDER BY k, n");
  files_agree(copy, "t");
  sql_close(copy);
}
END_TEST

static void spoil_value_file(void) {
  char *id = sql_query(db, "SELECT id FROM colfam_files('t') WHERE level = 'values'");
  char path[600];
  snprintf(path, sizeof path, "%s-colfam/%s.sst", sql_path("apart.db"), id);
  sqlite3_free(id);
  sql_close(db);
  FILE *file = fopen(path, "r+b");
  ck_assert_ptr_nonnull(file);
  ck_assert_int_eq(fseek(file, 10, SEEK_SET), 0);
  ck_assert_int_eq(fwrite("damage", 1, 6, file), 6);
  ck_assert_int_eq(fclose(file), 0);
  db = sql_open(sql_path("apart.db"));
}

START_TEST(damage_of_a_value_leaves_its_key) {
  fill(0, 40, 2000);
  spoil_value_file();
  sql_same(db, "SELECT k, n FROM t ORDER BY k, n", "SELECT k, n FROM o ORDER BY k, n");
  sql_fails(db, "SELECT sum(length(v)) FROM t", SQLITE_CORRUPT_VTAB, "bad checksum");
  sql_same(db, "SELECT * FROM t WHERE k = 'key 12' ORDER BY n",
           "SELECT * FROM o WHERE k = 'key 12' ORDER BY n");
  sql_rows(db, "SELECT count(*) > 0 FROM colfam_check('t') WHERE text LIKE '%bad checksum%'", "1");
  sql_rows(db, "SELECT count(*) FROM colfam_check('t') WHERE text LIKE '%may be lost%'", "1");
  sql_ok(db, "CREATE VIRTUAL TABLE temp.saved USING colfam_salvage(t);"
             "CREATE TABLE lost AS SELECT k, n FROM o EXCEPT SELECT k, n FROM saved");
  sql_rows(db, "SELECT count(*) FROM lost", "1");
  sql_rows(db, "SELECT count(*) FROM saved WHERE colfam_doubtful = 1", "0");
  sql_rows(db, "SELECT count(*) FROM saved JOIN o USING (k, n) WHERE saved.v IS NOT o.v", "0");
  sql_ok(db, "DROP TABLE saved; DELETE FROM t WHERE (k, n) IN (SELECT k, n FROM lost);"
             "DELETE FROM o WHERE (k, n) IN (SELECT k, n FROM lost); DROP TABLE lost;"
             "INSERT INTO t(t) VALUES('value_bytes=0')");
  sql_ok(db, "INSERT INTO t(t) VALUES('compact')"); /* brings the sound ones back */
}
END_TEST

/* ---- Beside the background thread */

static void setup_threads(void) {
  sql_use_threads(1);
  setup();
}

static void teardown_threads(void) {
  sql_close(db); /* a merge that is under way ends here */
  sql_use_threads(0);
  db = sql_open(sql_path("apart.db"));
  teardown();
}

START_TEST(values_are_read_while_they_are_moved) {
  for (int round = 0; round < 16; round++) {
    fill(round * 10, round * 10 + 60, 1500);
    sql_okf(db, "DELETE FROM t WHERE w %% 7 = %d; DELETE FROM o WHERE w %% 7 = %d", round % 7,
            round % 7);
    sql_same(db, "SELECT * FROM t ORDER BY k, n", "SELECT * FROM o ORDER BY k, n");
    sql_same(db, "SELECT v FROM t WHERE k IN ('key 20', 'key 30', 'key 40') ORDER BY k, n",
             "SELECT v FROM o WHERE k IN ('key 20', 'key 30', 'key 40') ORDER BY k, n");
  }
}
END_TEST

int main(void) {
  Suite *suite = suite_create("values apart");
  TCase *tc = tcase_create("values apart");
  tcase_set_timeout(tc, 60);
  tcase_add_checked_fixture(tc, setup, teardown);
  tcase_add_test(tc, key_only_statements_read_no_value);
  tcase_add_test(tc, values_are_read_by_every_plan);
  tcase_add_test(tc, compaction_of_keys_does_not_write_values);
  tcase_add_test(tc, value_files_go_with_their_values);
  tcase_add_test(tc, the_option_is_changed_later);
  tcase_add_test(tc, versions_are_raised_only_while_there_are_value_files);
  tcase_add_test(tc, savepoints_and_rollbacks);
  tcase_add_test(tc, a_copy_has_the_values);
  tcase_add_test(tc, damage_of_a_value_leaves_its_key);
  suite_add_tcase(suite, tc);
  TCase *beside = tcase_create("beside the background thread");
  tcase_set_timeout(beside, 60);
  tcase_add_checked_fixture(beside, setup_threads, teardown_threads);
  tcase_add_test(beside, values_are_read_while_they_are_moved);
  suite_add_tcase(suite, beside);
  return harness_run(suite);
}
