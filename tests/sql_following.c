/* A connection's view follows the commits of others: by their log rows alone while the manifest keeps its
** seal, and by all of the shadow tables as soon as something else may have changed. */
#include "harness_sql.h"

static sqlite3 *db, *other;

static void set_up(void) {
  db = sql_open(sql_path("app.db"));
  sql_trust(db);
  sql_ok(db, "PRAGMA journal_mode = wal;"
             "CREATE VIRTUAL TABLE t USING colfam(k INT PRIMARY KEY, v);"
             "CREATE TABLE o(k);"
             "WITH RECURSIVE n(i) AS (VALUES(0) UNION ALL SELECT i + 1 FROM n WHERE i < 99)"
             "INSERT INTO t SELECT i, 'value ' || i FROM n; INSERT INTO t(t) VALUES('flush')");
  other = sql_open(sql_path("app.db"));
  sql_trust(other);
}

static void tear_down(void) {
  sql_close(other);
  sql_close(db);
}

static sqlite3_int64 rows_replayed(sqlite3 *by) {
  return sql_int(by, "SELECT value FROM colfam_stats WHERE name = 'log_rows_replayed'");
}

START_TEST(commits_of_others_are_seen_one_by_one) {
  sql_rows(db, "SELECT v FROM t WHERE k = 5", "value 5");
  for (int i = 0; i < 50; i++) {
    sql_okf(other, "INSERT OR REPLACE INTO t VALUES(5, 'new %d')", i);
    char expected[32];
    sqlite3_snprintf(sizeof expected, expected, "new %d|100", i);
    sql_rows(db, "SELECT v, (SELECT count(*) FROM t) FROM t WHERE k = 5", expected);
  }
  sql_ok(other, "DELETE FROM t WHERE k = 5");
  sql_rows(db, "SELECT count(*) FROM t WHERE k = 5", "0");
  sql_rows(db, "SELECT count(*) FROM t", "99");
}
END_TEST

/* The first row of the log, and one after many that were not looked at. */
START_TEST(many_commits_at_once_are_followed) {
  sql_rows(db, "SELECT count(*) FROM t", "100");
  for (int i = 0; i < 200; i++) sql_okf(other, "INSERT INTO t VALUES(%d, 'more')", 1000 + i);
  sql_rows(db, "SELECT count(*), max(k) FROM t", "300|1199");
  sql_ok(other, "INSERT INTO t VALUES(2000, 'last')");
  sql_rows(db, "SELECT v FROM t WHERE k = 2000", "last");
}
END_TEST

START_TEST(flush_and_compaction_of_others_are_seen) {
  for (int i = 0; i < 20; i++) {
    sql_okf(other, "INSERT OR REPLACE INTO t VALUES(5, 'new %d')", i);
    if (i % 3 == 0) sql_ok(other, "INSERT INTO t(t) VALUES('flush')");
    if (i % 7 == 0) sql_ok(other, "INSERT INTO t(t) VALUES('compact')");
    char expected[32];
    sqlite3_snprintf(sizeof expected, expected, "new %d", i);
    sql_rows(db, "SELECT v FROM t WHERE k = 5", expected);
    sql_ok(other, "UPDATE t SET v = v || '!' WHERE k = 5");
    sqlite3_snprintf(sizeof expected, expected, "new %d!", i);
    sql_rows(db, "SELECT v FROM t WHERE k = 5", expected);
    ck_assert_int_eq(sql_int(db, "SELECT count(*) FROM colfam_files('t')"),
                     sql_int(other, "SELECT count(*) FROM colfam_files('t')"));
  }
}
END_TEST

START_TEST(own_commits_between_those_of_others) {
  for (int i = 0; i < 30; i++) {
    sql_okf(db, "INSERT OR REPLACE INTO t VALUES(1, 'own %d')", i);
    if (i % 5 == 0) sql_ok(db, "INSERT INTO t(t) VALUES('flush')");
    sql_okf(other, "INSERT OR REPLACE INTO t VALUES(2, 'theirs %d')", i);
    if (i % 4 == 0) sql_ok(db, "INSERT INTO o VALUES(1)");
    if (i % 6 == 0) sql_ok(db, "BEGIN; INSERT INTO t VALUES(500, ''); ROLLBACK");
    char expected[64];
    sqlite3_snprintf(sizeof expected, expected, "own %d\ntheirs %d", i, i);
    sql_rows(db, "SELECT v FROM t WHERE k IN (1, 2)", expected);
    sql_rows(other, "SELECT v FROM t WHERE k IN (1, 2)", expected);
  }
}
END_TEST

START_TEST(older_snapshot_is_kept) {
  sql_ok(db, "BEGIN");
  sql_rows(db, "SELECT v FROM t WHERE k = 5", "value 5");
  sql_ok(other, "UPDATE t SET v = 'new' WHERE k = 5");
  sql_rows(db, "SELECT v FROM t WHERE k = 5", "value 5");
  sql_ok(db, "COMMIT");
  sql_rows(db, "SELECT v FROM t WHERE k = 5", "new");
}
END_TEST

/* A writer that has followed knows the options of now, and who lists them too. */
START_TEST(options_that_others_change_hold_for_writes) {
  sql_rows(db, "SELECT v FROM t WHERE k = 5", "value 5");
  sql_ok(other, "INSERT INTO t(t) VALUES('conflict=replace')");
  sql_ok(other, "INSERT INTO t VALUES(5, 'replaced')");
  sql_rows(db, "SELECT v FROM t WHERE k = 5", "replaced");
  ck_assert_int_eq(
      sql_int(db, "SELECT count(*) FROM colfam_families WHERE options LIKE '%conflict = replace%'"
                  " OR options LIKE '%conflict=replace%'"),
      1);
  sql_ok(other, "INSERT INTO t(t) VALUES('conflict=abort')");
  sql_ok(other, "UPDATE t SET v = 'again' WHERE k = 5");
  sql_rows(db, "SELECT v FROM t WHERE k = 5", "again");
  sql_fails(db, "INSERT INTO t VALUES(5, 'refused')", SQLITE_CONSTRAINT, NULL);
}
END_TEST

/* The seal does not move: but this very connection wrote it. */
START_TEST(own_write_by_hand_is_noticed) {
  sql_ok(other, "UPDATE t SET v = 'new' WHERE k = 5");
  sql_rows(db, "SELECT v FROM t WHERE k = 5", "new");
  sql_ok(db, "UPDATE t_cffile SET entries = entries + 1");
  sql_fails(db, "SELECT v FROM t WHERE k = 5", SQLITE_CORRUPT_VTAB, NULL);
  sql_ok(db, "UPDATE t_cffile SET entries = entries - 1");
  sql_rows(db, "SELECT v FROM t WHERE k = 5", "new");
}
END_TEST

/* The same log position, another history. */
START_TEST(older_copy_with_other_commits_is_not_followed) {
  sql_ok(db, "BEGIN IMMEDIATE; CREATE TABLE kept AS SELECT * FROM t_cflog; COMMIT");
  sql_ok(other, "INSERT INTO t VALUES(1000, 'one'); INSERT INTO t VALUES(1001, 'two')");
  sql_rows(db, "SELECT count(*) FROM t WHERE k >= 1000", "2");
  sql_ok(other, "DELETE FROM t_cflog; INSERT INTO t_cflog SELECT * FROM kept");
  sqlite3 *third = sql_open(sql_path("app.db"));
  sql_ok(third, "INSERT INTO t VALUES(2000, 'three'); INSERT INTO t VALUES(2001, 'four');"
                "INSERT INTO t VALUES(2002, 'five')");
  sql_rows(db, "SELECT group_concat(k) FROM t WHERE k >= 1000", "2000,2001,2002");
  sql_close(third);
}
END_TEST

START_TEST(following_reads_each_row_once) {
  sql_rows(db, "SELECT v FROM t WHERE k = 5", "value 5");
  sqlite3_int64 before = rows_replayed(db);
  for (int i = 0; i < 10; i++) {
    sql_ok(other, "UPDATE t SET v = v || '+' WHERE k = 5");
    sql_rows(db, "SELECT count(*) FROM t WHERE k = 5", "1");
  }
  /* Both are of one process: whoever commits leaves the row in the memory that they share. */
  ck_assert_int_eq(rows_replayed(db), before);
}
END_TEST

#define MANY_WORDS(table)                                                              \
  "WITH RECURSIVE n(i) AS (VALUES(1000) UNION ALL SELECT i + 1 FROM n WHERE i < 1299)" \
  "INSERT INTO " table " SELECT i, 'these are the words of row ' || i FROM n"

/* Values of a log row that has many are compressed, unless the table's files are not either. Memory
** made of the writes themselves, of rows of others and of rows read anew shows the same. */
START_TEST(rows_with_compressed_values_are_read_by_all) {
  const char *const seen = "SELECT count(*), sum(v = 'these are the words of row ' || k),"
                           " (SELECT count(*) FROM colfam_check('t')) FROM t WHERE k >= 1000";
  sql_ok(db, "CREATE VIRTUAL TABLE plain USING colfam(k INT PRIMARY KEY, v, compression = none)");
  sql_ok(other, MANY_WORDS("t"));
  sql_ok(other, MANY_WORDS("plain"));
  sql_rows(db,
           "SELECT hex(substr(t.batch, 2, 1)), hex(substr(p.batch, 2, 1)),"
           " length(t.batch) < 0.75 * length(p.batch) FROM t_cflog AS t, plain_cflog AS p",
           "03|01|1");
  sql_rows(db, seen, "300|300|0");
  sql_rows(other, seen, "300|300|0");
  tear_down();
  db = sql_open(sql_path("app.db"));
  other = sql_open(sql_path("app.db"));
  sql_rows(db, seen, "300|300|0");
  sql_rows(other, "SELECT count(*), max(v) FROM plain", "300|these are the words of row 1299");
}
END_TEST

int main(void) {
  Suite *suite = suite_create("sql_following");
  TCase *tests = tcase_create("following");
  tcase_add_checked_fixture(tests, set_up, tear_down);
  tcase_add_test(tests, commits_of_others_are_seen_one_by_one);
  tcase_add_test(tests, many_commits_at_once_are_followed);
  tcase_add_test(tests, flush_and_compaction_of_others_are_seen);
  tcase_add_test(tests, own_commits_between_those_of_others);
  tcase_add_test(tests, older_snapshot_is_kept);
  tcase_add_test(tests, options_that_others_change_hold_for_writes);
  tcase_add_test(tests, own_write_by_hand_is_noticed);
  tcase_add_test(tests, older_copy_with_other_commits_is_not_followed);
  tcase_add_test(tests, following_reads_each_row_once);
  tcase_add_test(tests, rows_with_compressed_values_are_read_by_all);
  suite_add_tcase(suite, tests);
  return harness_run(suite);
}
