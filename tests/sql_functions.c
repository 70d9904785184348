/* The functions and tables for looking inside, through the extension as people load it. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/stats.h"
#include "harness_numbers.h"

static sqlite3_int64 counter(const char *table, const char *name) {
  char *sql = sqlite3_mprintf("SELECT value FROM colfam_stats WHERE table_name = %Q AND name = %Q",
                              table, name);
  sqlite3_int64 value = sql_int(db, sql);
  sqlite3_free(sql);
  return value;
}

/* ---- colfam_version, colfam_debug */

START_TEST(version_is_plain_and_allowed_everywhere) {
  sql_rows(db, "SELECT colfam_version()", "0.1.0");
  sql_ok(db, "CREATE VIEW seen AS SELECT colfam_version() AS v; PRAGMA trusted_schema = off");
  sql_rows(db, "SELECT v FROM seen", "0.1.0");
  sql_fails(db, "SELECT colfam_version(1)", SQLITE_ERROR, "wrong number of arguments");
}
END_TEST

START_TEST(debug_names_every_part_in_one_line) {
  char *text = sql_query(db, "SELECT colfam_debug()");
  static const char *const parts[] = {"colfam 0.1.0", "SQLite 3.", "built for 3.", "zstd 1.",
                                      "xxhash 0."};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    ck_assert_msg(strstr(text, parts[i]) != NULL, "no %s in %s", parts[i], text);
  }
  ck_assert_ptr_null(strchr(text, '\n'));
  sqlite3_free(text);
}
END_TEST

/* ---- colfam_may_exist */

START_TEST(may_exist_wrong_calls) {
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(a TEXT, b INT, PRIMARY KEY(a, b));"
             "CREATE TABLE plain(k PRIMARY KEY)");
  sql_fails(db, "SELECT colfam_may_exist()", SQLITE_ERROR, "takes a table's name and a key");
  sql_fails(db, "SELECT colfam_may_exist('t')", SQLITE_ERROR, "takes a table's name and a key");
  sql_fails(db, "SELECT colfam_may_exist(NULL, 1, 2)", SQLITE_ERROR, "takes a table's name");
  sql_fails(db, "SELECT colfam_may_exist(7, 1, 2)", SQLITE_ERROR, "takes a table's name");
  sql_fails(db, "SELECT colfam_may_exist('t', 'a')", SQLITE_ERROR, "2 columns, 1 values");
  sql_fails(db, "SELECT colfam_may_exist('t', 'a', 1, 2)", SQLITE_ERROR, "2 columns, 3 values");
  sql_fails(db, "SELECT colfam_may_exist('absent', 1)", SQLITE_ERROR, "absent");
  sql_fails(db, "SELECT colfam_may_exist('plain', 1)", SQLITE_ERROR, "plain");
  sql_fails(db, "SELECT colfam_may_exist('nowhere.t', 1, 2)", SQLITE_ERROR, NULL);
  sql_fails(db, "SELECT colfam_may_exist('', 1)", SQLITE_ERROR, NULL);
  sql_fails(db, "SELECT colfam_may_exist('\"t', 1, 2)", SQLITE_ERROR, NULL);
  sql_fails(db, "SELECT colfam_may_exist('a.b.c', 1, 2)", SQLITE_ERROR, NULL);
  sql_fails(db, "SELECT colfam_may_exist('t; DROP TABLE plain', 1, 2)", SQLITE_ERROR, NULL);
  sql_rows(db, "SELECT count(*) FROM plain", "0");
}
END_TEST

START_TEST(may_exist_sees_pending_committed_and_rolled_back) {
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(k TEXT PRIMARY KEY, v)");
  sql_rows(db, "SELECT colfam_may_exist('t', 'a')", "0");
  sql_ok(db, "BEGIN; INSERT INTO t VALUES('a', 1)");
  sql_rows(db, "SELECT colfam_may_exist('t', 'a')", "1");
  sql_ok(db, "ROLLBACK");
  sql_rows(db, "SELECT colfam_may_exist('t', 'a')", "0");
  sql_ok(db, "INSERT INTO t VALUES('a', 1)");
  sql_rows(db, "SELECT colfam_may_exist('t', 'a')", "1");
  sql_ok(db, "BEGIN; DELETE FROM t WHERE k = 'a'");
  sql_rows(db, "SELECT colfam_may_exist('t', 'a')", "0");
  sql_ok(db, "COMMIT");
  sql_rows(db, "SELECT colfam_may_exist('t', 'a')", "0");
}
END_TEST

START_TEST(may_exist_is_unknown_until_a_block_is_cached) {
  numbers_make();
  numbers_reopen();
  sqlite3_int64 blocks;
  sql_rows(db, "SELECT colfam_may_exist('t', 42)", "NULL");
  sql_rows(db, "SELECT colfam_may_exist('t', 0), colfam_may_exist('t', 202)", "0|0");
  blocks = counter("t", "blocks_read");
  ck_assert_int_eq(blocks, 0);
  sql_rows(db, "SELECT v FROM t WHERE k = 42", "value 21");
  sql_rows(db, "SELECT colfam_may_exist('t', 42)", "1");
  ck_assert_int_eq(counter("t", "probe_unknown"), 1);
  ck_assert_int_eq(counter("t", "probe_absent"), 2);
  ck_assert_int_eq(counter("t", "probe_present"), 1);
  /* Odd keys lie inside the file's bounds: the filter answers nearly all. */
  sqlite3_int64 absent =
      sql_int(db, "WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 2 FROM n WHERE i < 199)"
                  "SELECT count(*) FROM n WHERE colfam_may_exist('t', i) = 0");
  ck_assert_int_ge(absent, 90);
}
END_TEST

START_TEST(may_exist_applies_the_keys_affinity) {
  sql_ok(db, "CREATE VIRTUAL TABLE i USING colfam(k INT PRIMARY KEY);"
             "CREATE VIRTUAL TABLE s USING colfam(k TEXT PRIMARY KEY);"
             "CREATE VIRTUAL TABLE b USING colfam(k BLOB PRIMARY KEY);"
             "CREATE VIRTUAL TABLE r USING colfam(id INTEGER PRIMARY KEY, v);"
             "INSERT INTO i VALUES(5); INSERT INTO s VALUES('5');"
             "CREATE VIRTUAL TABLE d USING colfam(k REAL PRIMARY KEY);"
             "INSERT INTO b VALUES(5); INSERT INTO r VALUES(5, 'x');"
             "INSERT INTO d VALUES(9007199254740992.0)");
  sql_rows(db,
           "SELECT colfam_may_exist('i', 5), colfam_may_exist('i', '5'),"
           " colfam_may_exist('i', 5.0), colfam_may_exist('i', 'x')",
           "1|1|1|0");
  sql_rows(db,
           "SELECT colfam_may_exist('s', 5), colfam_may_exist('s', '5'),"
           " colfam_may_exist('s', x'35')",
           "1|1|0");
  sql_rows(db, "SELECT colfam_may_exist('b', 5), colfam_may_exist('b', '5')", "1|0");
  sql_rows(db,
           "SELECT colfam_may_exist('d', '9007199254740992'),"
           " colfam_may_exist('d', 9007199254740993)",
           "1|0");
  sql_rows(db,
           "SELECT colfam_may_exist('r', 5), colfam_may_exist('r', '5'),"
           " colfam_may_exist('r', 5.0), colfam_may_exist('r', 5.5),"
           " colfam_may_exist('r', 'x'), colfam_may_exist('r', x'35')",
           "1|1|1|0|0|0");
}
END_TEST

START_TEST(may_exist_null_or_too_long_key_is_absent) {
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(a TEXT, b INT, PRIMARY KEY(a, b DESC));"
             "CREATE VIRTUAL TABLE r USING colfam(v);"
             "INSERT INTO t VALUES('x', 1); INSERT INTO r VALUES(1)");
  sql_rows(db, "SELECT colfam_may_exist('t', 'x', 1), colfam_may_exist('t', 'x', 2)", "1|0");
  sql_rows(db, "SELECT colfam_may_exist('t', NULL, 1), colfam_may_exist('t', 'x', NULL)", "0|0");
  sql_rows(db, "SELECT colfam_may_exist('r', 1), colfam_may_exist('r', NULL)", "1|0");
  sql_rows(db, "SELECT colfam_may_exist('t', hex(zeroblob(40000)), 1)", "0");
}
END_TEST

START_TEST(may_exist_takes_names_as_sql_does) {
  sql_ok(db, "CREATE VIRTUAL TABLE \"odd \"\"name\" USING colfam(k PRIMARY KEY);"
             "INSERT INTO \"odd \"\"name\" VALUES(1);"
             "CREATE VIRTUAL TABLE Plain USING colfam(k PRIMARY KEY); INSERT INTO plain VALUES(1)");
  sql_rows(db, "SELECT colfam_may_exist('\"odd \"\"name\"', 1)", "1");
  sql_rows(db, "SELECT colfam_may_exist('main.\"odd \"\"name\"', 1)", "1");
  sql_rows(db, "SELECT colfam_may_exist('[odd \"name]', 1), colfam_may_exist('`odd \"name`', 1)",
           "1|1");
  sql_rows(db, "SELECT colfam_may_exist('''plain''', 1), colfam_may_exist('main.`plain`', 1)",
           "1|1");
  sql_fails(db, "SELECT colfam_may_exist(']plain]', 1)", SQLITE_ERROR, "no such table: ]plain]");
  sql_fails(db, "SELECT colfam_may_exist('[plain', 1)", SQLITE_ERROR, "is no table name");
  sql_fails(db, "SELECT colfam_may_exist('\"plain\"x', 1)", SQLITE_ERROR, "is no table name");
  sql_rows(db, "SELECT colfam_may_exist('PLAIN', 1), colfam_may_exist('MAIN.plain', 1)", "1|1");
}
END_TEST

START_TEST(may_exist_in_a_view_follows_trusted_schema) {
  sql_trust(db);
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(k PRIMARY KEY); INSERT INTO t VALUES(1);"
             "CREATE VIEW seen AS SELECT colfam_may_exist('t', 1) AS yes");
  sql_rows(db, "SELECT yes FROM seen", "1");
  sql_ok(db, "PRAGMA trusted_schema = off");
  sql_fails(db, "SELECT yes FROM seen", SQLITE_ERROR, "unsafe use of colfam_may_exist");
  sql_rows(db, "SELECT colfam_may_exist('t', 1)", "1");
}
END_TEST

static void next_answer(sqlite3_stmt *stmt, int expected) {
  ck_assert_int_eq(sqlite3_step(stmt), SQLITE_ROW);
  ck_assert_int_eq(sqlite3_column_int(stmt, 0), expected);
}

/* What one call keeps for the next of its statement holds nothing, and follows whatever comes between. */
START_TEST(may_exist_many_times_while_the_table_changes) {
  sql_ok(db, "CREATE TABLE o(k); INSERT INTO o VALUES(1), (1), (1), (1), (1), (1), (1);"
             "CREATE VIRTUAL TABLE t USING colfam(k INT PRIMARY KEY)");
  sqlite3 *other = sql_open(sql_path("app.db"));
  sql_rows(db, "PRAGMA journal_mode = wal", "wal");
  sqlite3_stmt *stmt;
  ck_assert_int_eq(sqlite3_prepare_v2(db, "SELECT colfam_may_exist('t', k) FROM o", -1, &stmt, 0),
                   SQLITE_OK);
  next_answer(stmt, 0);
  sql_ok(db, "INSERT INTO t VALUES(1)");
  next_answer(stmt, 1);
  sql_ok(db, "BEGIN; DELETE FROM t");
  next_answer(stmt, 0);
  sql_ok(db, "ROLLBACK");
  sqlite3_reset(stmt);
  next_answer(stmt, 1);
  sql_ok(other, "DROP TABLE t; CREATE VIRTUAL TABLE t USING colfam(k INT PRIMARY KEY)");
  next_answer(stmt, 1);
  sqlite3_reset(stmt);
  next_answer(stmt, 0);
  sql_ok(other, "DROP TABLE t");
  sqlite3_reset(stmt);
  ck_assert_int_eq(sqlite3_step(stmt), SQLITE_ERROR);
  sqlite3_finalize(stmt);
  sql_ok(db, "VACUUM");
  sql_close(other);
}
END_TEST

START_TEST(may_exist_of_names_that_are_no_constant) {
  sql_ok(db, "CREATE VIRTUAL TABLE a USING colfam(k PRIMARY KEY); INSERT INTO a VALUES(1);"
             "CREATE VIRTUAL TABLE b USING colfam(k PRIMARY KEY); INSERT INTO b VALUES(2)");
  sql_rows(db,
           "SELECT colfam_may_exist(name, 1), colfam_may_exist(name, 2) FROM"
           " (SELECT 'a' AS name UNION ALL SELECT 'b' UNION ALL SELECT 'a')",
           "1|0\n0|1\n1|0");
  sql_ok(db, "VACUUM");
}
END_TEST

START_TEST(may_exist_on_a_damaged_table_is_an_error) {
  numbers_make();
  char path[4096];
  snprintf(path, sizeof path, "%s", numbers_file("t"));
  numbers_close();
  ck_assert_int_eq(unlink(path), 0);
  numbers_open();
  sql_fails(db, "SELECT colfam_may_exist('t', 42)", SQLITE_CANTOPEN, "t");
}
END_TEST

/* ---- colfam_stats */

START_TEST(stats_has_a_row_for_each_counter_of_each_opened_table) {
  sql_rows(db, "SELECT count(*) FROM colfam_stats WHERE table_name NOT NULL", "0");
  sql_ok(db, "CREATE VIRTUAL TABLE a USING colfam(k PRIMARY KEY, v);"
             "CREATE VIRTUAL TABLE b USING colfam(k PRIMARY KEY, v);"
             "INSERT INTO a VALUES(1, 1); INSERT INTO b VALUES(1, 1)");
  char expected[64];
  int rows = KV_STAT_COUNT + 5;
  snprintf(expected, sizeof expected, "NULL|6|6\na|%d|%d\nb|%d|%d", rows, rows, rows, rows);
  sql_rows(db, "SELECT table_name, count(*), count(DISTINCT name) FROM colfam_stats GROUP BY 1",
           expected);
  sql_rows(db,
           "SELECT count(*) FROM colfam_stats WHERE unit = '' OR meaning = ''"
           " OR typeof(value) <> 'integer' OR value < 0 OR name GLOB '*[^a-z_]*'",
           "0");
  sql_rows(db, "SELECT value FROM colfam_stats WHERE name = 'cache_budget_bytes'", "67108864");
  numbers_reopen();
  sql_rows(db, "SELECT k FROM a", "1");
  sql_rows(db, "SELECT DISTINCT table_name FROM colfam_stats WHERE table_name NOT NULL", "a");
}
END_TEST

START_TEST(stats_move_by_exactly_what_a_statement_does) {
  numbers_make();
  sqlite3_int64 gets = counter("t", "gets"), calls = counter("t", "multi_gets"),
                keys = counter("t", "multi_get_keys"), puts = counter("t", "batch_puts");
  sql_rows(db, "SELECT v FROM t WHERE k = 2", "value 1");
  ck_assert_int_eq(counter("t", "gets"), gets + 1);
  sql_rows(db, "SELECT count(v) FROM t WHERE k IN (2, 4, 6, 7)", "3");
  ck_assert_int_eq(counter("t", "multi_gets"), calls + 1);
  ck_assert_int_eq(counter("t", "multi_get_keys"), keys + 4);
  sql_ok(db, "INSERT INTO t VALUES(1001, 'a'), (1002, 'b')");
  ck_assert_int_eq(counter("t", "batch_puts"), puts + 2);
}
END_TEST

/* Of what was rolled back, and of what went straight into a file, nothing was logged. */
START_TEST(log_bytes_are_those_of_committed_log_rows) {
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(k INT PRIMARY KEY, v, memtable_bytes = 16384)");
  ck_assert_int_eq(counter("t", "log_bytes"), 0);
  sql_ok(db, "INSERT INTO t VALUES(1, 'a'); INSERT INTO t VALUES(2, 'b'), (3, zeroblob(1000));"
             "DELETE FROM t WHERE k = 1");
  sqlite3_int64 logged = sql_int(db, "SELECT sum(length(batch)) FROM t_cflog");
  ck_assert_int_gt(logged, 1000);
  ck_assert_int_eq(counter("t", "log_bytes"), logged);
  sql_ok(db, "BEGIN; INSERT INTO t VALUES(4, 'c'); ROLLBACK; SELECT * FROM t");
  sql_ok(db, "BEGIN; INSERT INTO t VALUES(4, zeroblob(50000)); COMMIT");
  ck_assert_int_eq(counter("t", "flushes"), 1);
  ck_assert_int_eq(counter("t", "log_bytes"), logged);
}
END_TEST

START_TEST(stats_follow_a_rename_and_forget_a_drop) {
  sql_ok(db, "CREATE VIRTUAL TABLE a USING colfam(k PRIMARY KEY); INSERT INTO a VALUES(1);"
             "ALTER TABLE a RENAME TO \"new a\"; INSERT INTO \"new a\" VALUES(2)");
  sql_rows(db, "SELECT DISTINCT table_name FROM colfam_stats WHERE table_name NOT NULL",
           "\"new a\"");
  sql_ok(db, "DROP TABLE \"new a\"");
  sql_rows(db, "SELECT count(*) FROM colfam_stats WHERE table_name NOT NULL", "0");
}
END_TEST

START_TEST(stats_and_families_in_views_follow_trusted_schema) {
  sql_trust(db);
  sql_ok(db, "CREATE VIRTUAL TABLE a USING colfam(k PRIMARY KEY);"
             "CREATE VIEW s AS SELECT * FROM colfam_stats;"
             "CREATE VIEW f AS SELECT * FROM colfam_families");
  sql_ok(db, "SELECT * FROM s; SELECT * FROM f; PRAGMA trusted_schema = off");
  sql_fails(db, "SELECT * FROM s", SQLITE_ERROR, "unsafe use of virtual table \"colfam_stats\"");
  sql_fails(db, "SELECT * FROM f", SQLITE_ERROR, "unsafe use of virtual table \"colfam_families\"");
}
END_TEST

/* ---- colfam_families */

START_TEST(families_lists_every_table_with_its_shape) {
  numbers_make();
  sql_ok(db, "CREATE VIRTUAL TABLE \"a b\" USING colfam(v, compression = none, filter_bits = 0);"
             "CREATE VIRTUAL TABLE loose USING colfam(k PRIMARY KEY, track_rows = off);"
             "CREATE TABLE ordinary(x); CREATE TABLE fake_cfmeta(x)");
  sql_rows(db, "SELECT table_name, rows, files, runs, levels, problem FROM colfam_families",
           "\"a b\"|0|0|0||NULL\nloose|NULL|0|0||NULL\nt|100|1|1|0:1|NULL");
  sql_rows(db,
           "SELECT options LIKE '%compression = none%filter_bits = 0%' FROM colfam_families"
           " WHERE rows = 0",
           "1");
  sql_same(db, "SELECT bytes FROM colfam_families WHERE table_name = 't'",
           "SELECT sum(bytes) FROM colfam_files('t')");
  sql_ok(db, "BEGIN; INSERT INTO t VALUES(1, ''), (3, ''); DELETE FROM t WHERE k = 2");
  sql_rows(db, "SELECT rows FROM colfam_families WHERE table_name = 't'", "101");
  sql_ok(db, "ROLLBACK; INSERT INTO t VALUES(1, '')");
  sql_rows(db, "SELECT rows, log_bytes > 0 FROM colfam_families WHERE table_name = 't'", "101|1");
}
END_TEST

START_TEST(families_says_what_is_wrong_with_a_table) {
  sql_trust(db);
  numbers_make();
  sql_ok(db, "CREATE VIRTUAL TABLE sound USING colfam(k PRIMARY KEY);"
             "DELETE FROM t_cfmeta WHERE name = 'uuid'");
  numbers_reopen();
  sql_rows(db, "SELECT table_name, rows, problem LIKE '%t_cfmeta%' FROM colfam_families",
           "sound|0|NULL\nt|NULL|1");
}
END_TEST

START_TEST(families_names_can_be_given_to_functions) {
  numbers_make();
  sql_ok(db, "CREATE VIRTUAL TABLE \"x'y \"\"z\" USING colfam(k PRIMARY KEY);"
             "INSERT INTO \"x'y \"\"z\" VALUES('a'); INSERT INTO \"x'y \"\"z\"(\"x'y \"\"z\")"
             " VALUES('flush')");
  sql_rows(db,
           "SELECT f.table_name, c.rows FROM colfam_families f, colfam_files(f.table_name) c"
           " ORDER BY 1",
           "\"x'y \"\"z\"|1\nt|100");
  sql_rows(db, "SELECT * FROM colfam_families f, colfam_check(f.table_name)", "");
}
END_TEST

/* ---- colfam_files */

static const char *ends(const char *native, const char *reverse) {
  return sql_reverse() ? reverse : native;
}

START_TEST(files_shows_what_lies_on_disk) {
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(k INT PRIMARY KEY, v TEXT)");
  sql_rows(db, "SELECT * FROM colfam_files('t')", "");
  sql_ok(db, "DROP TABLE t");
  numbers_make();
  sql_rows(db, "SELECT level, rows, tombstones, smallest, largest, problem FROM colfam_files('t')",
           ends("0|100|0|2|200|NULL", "0|100|0|200|2|NULL"));
  sql_rows(db,
           "SELECT id GLOB '[0-9a-f]*' AND length(id) = 16, seq > 0, raw_bytes > 1000,"
           " abs(compression_ratio - raw_bytes * 1.0 / bytes) < 1e-9,"
           " filter_false_positive_rate FROM colfam_files('t')",
           "1|1|1|1|NULL");
  struct stat info;
  ck_assert_int_eq(stat(numbers_file("t"), &info), 0);
  ck_assert_int_eq(sql_int(db, "SELECT bytes FROM colfam_files('t')"), info.st_size);
}
END_TEST

START_TEST(files_counts_tombstones_apart_and_newest_first) {
  numbers_make();
  sql_ok(db, "DELETE FROM t WHERE k IN (2, 4); INSERT INTO t VALUES(1, 'x');"
             "INSERT INTO t(t) VALUES('flush')");
  sql_rows(db, "SELECT rows, tombstones, reclaimable, smallest, largest FROM colfam_files('t')",
           ends("1|2|0|1|4\n100|0|0|2|200", "1|2|0|4|1\n100|0|0|200|2"));
  sql_ok(db, "INSERT INTO t(t) VALUES('compact')");
  sql_rows(db, "SELECT rows, tombstones, reclaimable, smallest, largest FROM colfam_files('t')",
           ends("99|0|0|1|200", "99|0|0|200|1"));
}
END_TEST

START_TEST(files_rate_is_measured_once_absent_keys_were_asked) {
  numbers_make();
  sql_ok(db, "WITH RECURSIVE n(i) AS (VALUES(3) UNION ALL SELECT i + 2 FROM n WHERE i < 199)"
             "SELECT count(*) FROM n WHERE EXISTS(SELECT 1 FROM t WHERE k = n.i)");
  sql_rows(db, "SELECT filter_false_positive_rate BETWEEN 0 AND 0.1 FROM colfam_files('t')", "1");
}
END_TEST

/* Of a sort key its bytes, which are no literal of the row's. */
START_TEST(files_writes_keys_as_sql_literals) {
  if (!sql_native()) return;
  sql_ok(db, "CREATE VIRTUAL TABLE m USING colfam(a, b TEXT, PRIMARY KEY(a, b DESC));"
             "INSERT INTO m VALUES(-1.5, 'it''s'), (x'00ff', '');"
             "INSERT INTO m(m) VALUES('flush')");
  sql_rows(db, "SELECT smallest, largest FROM colfam_files('m')", "-1.5, 'it''s'|x'00FF', ''");
  sql_ok(db, "CREATE VIRTUAL TABLE n USING colfam(a PRIMARY KEY);"
             "INSERT INTO n VALUES(9e999), (CAST(x'610062' AS TEXT));"
             "INSERT INTO n(n) VALUES('flush')");
  sql_rows(db, "SELECT smallest, largest FROM colfam_files('n')",
           "9.0e+999|CAST(x'610062' AS TEXT)");
  sql_ok(db, "CREATE VIRTUAL TABLE r USING colfam(v); INSERT INTO r VALUES('a'), ('b');"
             "INSERT INTO r(r) VALUES('flush')");
  sql_rows(db, "SELECT smallest, largest FROM colfam_files('r')", "1|2");
  sql_ok(db, "CREATE VIRTUAL TABLE d USING colfam(a PRIMARY KEY); INSERT INTO d VALUES(0.1),"
             "(1e300), (9007199254740993), (-9223372036854775808);"
             "INSERT INTO d(d) VALUES('flush')");
  sql_rows(db, "SELECT smallest, largest FROM colfam_files('d')", "-9223372036854775808|1.0e+300");
  sql_ok(db, "CREATE VIRTUAL TABLE e USING colfam(a PRIMARY KEY);"
             "INSERT INTO e VALUES(-9e999), (0.1 + 0.2); INSERT INTO e(e) VALUES('flush')");
  sql_rows(db, "SELECT smallest FROM colfam_files('e')", "-9.0e+999");
  /* the digits are SQLite's, not alike in all versions; read back they are the number */
  char *largest = sql_query(db, "SELECT largest FROM colfam_files('e')");
  char *same = sqlite3_mprintf("SELECT 0.1 + 0.2 = %s", largest);
  sql_rows(db, same, "1");
  sqlite3_free(same);
  sqlite3_free(largest);
}
END_TEST

START_TEST(files_and_check_want_a_table) {
  static const char *const names[] = {"colfam_files", "colfam_check"};
  sql_ok(db, "CREATE TABLE plain(x); CREATE VIRTUAL TABLE t USING colfam(k PRIMARY KEY)");
  for (size_t i = 0; i < 2; i++) {
    const char *name = names[i];
    char sql[200], text[100];
    snprintf(sql, sizeof sql, "SELECT * FROM %s", name);
    snprintf(text, sizeof text, "%s needs the name of a table", name);
    sql_fails(db, sql, SQLITE_ERROR, text);
    snprintf(sql, sizeof sql, "SELECT * FROM %s()", name);
    sql_fails(db, sql, SQLITE_ERROR, text);
    snprintf(sql, sizeof sql, "SELECT * FROM %s(NULL)", name);
    sql_fails(db, sql, SQLITE_ERROR, "needs a text");
    snprintf(sql, sizeof sql, "SELECT * FROM %s(12)", name);
    sql_fails(db, sql, SQLITE_ERROR, "needs a text");
    snprintf(sql, sizeof sql, "SELECT * FROM %s('absent')", name);
    sql_fails(db, sql, SQLITE_ERROR, "absent");
    snprintf(sql, sizeof sql, "SELECT * FROM %s('plain')", name);
    sql_fails(db, sql, SQLITE_ERROR, "plain");
    snprintf(sql, sizeof sql, "SELECT * FROM %s('t', 2)", name);
    sql_fails(db, sql, SQLITE_ERROR, "too many arguments");
    snprintf(sql, sizeof sql, "CREATE VIRTUAL TABLE x USING %s", name);
    sql_fails(db, sql, SQLITE_ERROR, "no such module");
    snprintf(sql, sizeof sql, "INSERT INTO %s DEFAULT VALUES", name);
    sql_fails(db, sql, SQLITE_ERROR, "may not be modified");
  }
}
END_TEST

START_TEST(files_argument_forms_and_joins) {
  numbers_make();
  sql_ok(db, "CREATE TABLE names(n); INSERT INTO names VALUES('t'), ('main.t'), ('\"t\"')");
  sql_rows(db, "SELECT rows, table_name FROM colfam_files WHERE table_name = 't'", "100|t");
  sql_rows(db, "SELECT n, rows FROM names, colfam_files(n)", "t|100\nmain.t|100\n\"t\"|100");
  sql_rows(db, "SELECT n, rows FROM colfam_files(n), names", "t|100\nmain.t|100\n\"t\"|100");
  sql_fails(db, "SELECT n FROM colfam_files(n) CROSS JOIN names", SQLITE_ERROR, "needs the name");
  sql_rows(db, "SELECT rows FROM colfam_files('t') WHERE table_name = 'main.t'", "");
  sql_rows(db, "SELECT count(*) FROM colfam_files WHERE table_name IN ('t', 'main.t')", "2");
  sql_rows(db, "SELECT (SELECT rows FROM colfam_files(n)) FROM names LIMIT 1", "100");
  sql_rows(db, "SELECT n, f.rowid FROM names, colfam_files(n) f", "t|1\nmain.t|1\n\"t\"|1");
}
END_TEST

START_TEST(files_and_check_are_not_for_views_and_triggers) {
  numbers_make();
  sql_ok(db, "CREATE VIEW f AS SELECT * FROM colfam_files('t');"
             "CREATE VIEW c AS SELECT * FROM colfam_check('t')");
  sql_fails(db, "SELECT * FROM f", SQLITE_ERROR, "unsafe use of virtual table \"colfam_files\"");
  sql_fails(db, "SELECT * FROM c", SQLITE_ERROR, "unsafe use of virtual table \"colfam_check\"");
  sql_ok(db, "CREATE TEMP VIEW tc AS SELECT * FROM colfam_check('t'); SELECT * FROM tc");
}
END_TEST

START_TEST(files_shows_a_missing_file_beside_its_manifest) {
  numbers_make();
  char path[4096];
  snprintf(path, sizeof path, "%s", numbers_file("t"));
  numbers_close();
  ck_assert_int_eq(unlink(path), 0);
  numbers_open();
  sql_rows(db,
           "SELECT rows, raw_bytes, compression_ratio, problem LIKE '%' || id || '%'"
           " FROM colfam_files('t')",
           "100|NULL|NULL|1");
}
END_TEST

/* ---- All of them */

START_TEST(functions_leave_no_read_transaction_behind) {
  numbers_make();
  sql_ok(db, "SELECT colfam_may_exist('t', 2); SELECT * FROM colfam_files('t');"
             "SELECT * FROM colfam_check('t'); SELECT * FROM colfam_stats;"
             "SELECT * FROM colfam_families");
  ck_assert_int_eq(sqlite3_txn_state(db, NULL), SQLITE_TXN_NONE);
  ck_assert_ptr_null(
      sqlite3_next_stmt(db, NULL) && sqlite3_stmt_busy(sqlite3_next_stmt(db, NULL)) ? db : NULL);
}
END_TEST

/* The schema is read again in the middle of the call, which gives the table a new object. */
START_TEST(functions_after_another_connection_changed_the_schema) {
  numbers_make();
  sqlite3 *other = sql_open(sql_path("app.db"));
  sql_rows(db, "SELECT colfam_may_exist('t', 3)", "0");
  sql_ok(other, "CREATE TABLE x(y)");
  sql_rows(db, "SELECT colfam_may_exist('t', 3)", "0");
  sql_ok(other, "CREATE TABLE z(y)");
  sql_rows(db, "SELECT rows FROM colfam_files('t')", "100");
  sql_ok(other, "DROP TABLE t; CREATE VIRTUAL TABLE t USING colfam(a TEXT, b, PRIMARY KEY(a, b));"
                "INSERT INTO t VALUES('a', 1)");
  sql_rows(db, "SELECT colfam_may_exist('t', 'a', 1)", "1");
  sql_ok(other, "DROP TABLE t");
  sql_fails(db, "SELECT colfam_may_exist('t', 'a', 1)", SQLITE_ERROR, "no such table: t");
  sql_close(other);
}
END_TEST

START_TEST(functions_in_memory_databases) {
  sqlite3 *memory = sql_open(":memory:");
  sql_ok(memory, "CREATE VIRTUAL TABLE t USING colfam(k PRIMARY KEY); INSERT INTO t VALUES(1);"
                 "INSERT INTO t(t) VALUES('flush')");
  sql_rows(memory, "SELECT rows FROM colfam_files('t')", "1");
  sql_rows(memory, "SELECT * FROM colfam_check('t')", "");
  sql_rows(memory, "SELECT colfam_may_exist('t', 2)", "0");
  sql_rows(memory, "SELECT rows FROM colfam_families", "1");
  sql_close(memory);
}
END_TEST

START_TEST(functions_outlive_interleaved_writes) {
  numbers_make();
  sqlite3_stmt *stmt;
  ck_assert_int_eq(sqlite3_prepare_v2(db, "SELECT name FROM colfam_stats", -1, &stmt, NULL), 0);
  for (int i = 0; sqlite3_step(stmt) == SQLITE_ROW; i++) {
    if (i == 5) sql_ok(db, "INSERT INTO t VALUES(7, 'x')");
    ck_assert_ptr_nonnull(sqlite3_column_text(stmt, 0));
  }
  ck_assert_int_eq(sqlite3_finalize(stmt), SQLITE_OK);
}
END_TEST

static void add_inspection(TCase *tc) {
  tcase_add_test(tc, stats_has_a_row_for_each_counter_of_each_opened_table);
  tcase_add_test(tc, stats_move_by_exactly_what_a_statement_does);
  tcase_add_test(tc, log_bytes_are_those_of_committed_log_rows);
  tcase_add_test(tc, stats_follow_a_rename_and_forget_a_drop);
  tcase_add_test(tc, stats_and_families_in_views_follow_trusted_schema);
  tcase_add_test(tc, families_lists_every_table_with_its_shape);
  tcase_add_test(tc, families_says_what_is_wrong_with_a_table);
  tcase_add_test(tc, families_names_can_be_given_to_functions);
  tcase_add_test(tc, files_shows_what_lies_on_disk);
  tcase_add_test(tc, files_counts_tombstones_apart_and_newest_first);
  tcase_add_test(tc, files_rate_is_measured_once_absent_keys_were_asked);
  tcase_add_test(tc, files_writes_keys_as_sql_literals);
  tcase_add_test(tc, files_and_check_want_a_table);
  tcase_add_test(tc, files_argument_forms_and_joins);
  tcase_add_test(tc, files_and_check_are_not_for_views_and_triggers);
  tcase_add_test(tc, files_shows_a_missing_file_beside_its_manifest);
}

static Suite *suite(void) {
  Suite *s = suite_create("sql_functions");
  TCase *tc = tcase_create("functions");
  tcase_add_checked_fixture(tc, numbers_open, numbers_close);
  tcase_add_test(tc, version_is_plain_and_allowed_everywhere);
  tcase_add_test(tc, debug_names_every_part_in_one_line);
  tcase_add_test(tc, may_exist_wrong_calls);
  tcase_add_test(tc, may_exist_sees_pending_committed_and_rolled_back);
  tcase_add_test(tc, may_exist_is_unknown_until_a_block_is_cached);
  tcase_add_test(tc, may_exist_applies_the_keys_affinity);
  tcase_add_test(tc, may_exist_null_or_too_long_key_is_absent);
  tcase_add_test(tc, may_exist_takes_names_as_sql_does);
  tcase_add_test(tc, may_exist_in_a_view_follows_trusted_schema);
  tcase_add_test(tc, may_exist_many_times_while_the_table_changes);
  tcase_add_test(tc, may_exist_of_names_that_are_no_constant);
  tcase_add_test(tc, may_exist_on_a_damaged_table_is_an_error);
  add_inspection(tc);
  tcase_add_test(tc, functions_leave_no_read_transaction_behind);
  tcase_add_test(tc, functions_after_another_connection_changed_the_schema);
  tcase_add_test(tc, functions_in_memory_databases);
  tcase_add_test(tc, functions_outlive_interleaved_writes);
  suite_add_tcase(s, tc);
  return s;
}

int main(void) {
  return harness_run(suite());
}
