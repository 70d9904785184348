/* Upper bounds on keys that are texts, from columns of a numeric type that hold a text which is no number:
** every text that is a number is below it. Against ordinary tables with the same rows; and how little is
** read for it (skip.c), or nothing when the bound is surely compared as a text (lookup.c). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness_sql.h"

static sqlite3 *db;

static void open_database(void) {
  db = sql_open(sql_path("app.db"));
  sql_ok(db, "PRAGMA synchronous = OFF; PRAGMA automatic_index = OFF;"
             "CREATE TABLE x(n INTEGER, m NUMERIC, d DATE)");
}

static void close_database(void) {
  sql_close(db);
}

static sqlite3_int64 counter(const char *name) {
  char *sql = sqlite3_mprintf("SELECT sum(value) FROM colfam_stats WHERE table_name = 't' AND name "
                              "IN (%s)",
                              name);
  sqlite3_int64 value = sql_int(db, sql);
  sqlite3_free(sql);
  return value;
}

static sqlite3_int64 widened(void) {
  return counter("'widened_lookups'");
}

/* The pair t (colfam) and o (ordinary); half of the rows of t are in a file. */
static void make_pair(const char *columns, const char *rows) {
  sql_okf(db, "CREATE TABLE o(%s) WITHOUT ROWID; CREATE VIRTUAL TABLE t USING colfam(%s)", columns,
          columns);
  sql_okf(db, "INSERT INTO o %s", rows);
  sql_ok(db, "INSERT INTO t SELECT * FROM o WHERE length(k) % 2; INSERT INTO t(t) VALUES('flush');"
             "INSERT INTO t SELECT * FROM o WHERE length(k) % 2 = 0");
}

/* The statement with its table in place of @, and a plus for # on the ordinary side, where SQLite may take
** k for constant and drop the order. */
static char *with_table(const char *sql, const char *table) {
  sqlite3_str *text = sqlite3_str_new(db);
  for (; *sql; sql++) {
    if (*sql == '@') {
      sqlite3_str_appendall(text, table);
    } else if (*sql != '#') {
      sqlite3_str_appendchar(text, 1, *sql);
    } else if (*table == 'o') {
      sqlite3_str_appendchar(text, 1, '+');
    }
  }
  return sqlite3_str_finish(text);
}

static void same(const char *sql) {
  char *ours = with_table(sql, "t"), *theirs = with_table(sql, "o");
  sql_same(db, ours, theirs);
  sqlite3_free(ours);
  sqlite3_free(theirs);
}

/* The first column of the first row, with '+x' bound; what is written is undone. */
static char *run_bound(const char *sql, const char *table) {
  sqlite3_stmt *stmt;
  char *text = with_table(sql, table);
  sql_ok(db, "SAVEPOINT s");
  ck_assert_msg(sqlite3_prepare_v2(db, text, -1, &stmt, NULL) == SQLITE_OK, "%s",
                sqlite3_errmsg(db));
  sqlite3_bind_text(stmt, 1, "+x", -1, SQLITE_STATIC);
  ck_assert_int_eq(sqlite3_step(stmt), SQLITE_ROW);
  char *answer = sqlite3_mprintf("%s: %s", sql, sqlite3_column_text(stmt, 0));
  ck_assert_int_eq(sqlite3_finalize(stmt), SQLITE_OK);
  sql_ok(db, "ROLLBACK TO s; RELEASE s");
  sqlite3_free(text);
  return answer;
}

/* ---- The bug by its names */

static const char *const few_texts = "VALUES('1'), ('05'), ('9'), (' 7 '), ('a'), ('-'), ('2e')";

START_TEST(text_in_a_numeric_column_is_above_numerals) {
  make_pair("k TEXT PRIMARY KEY", few_texts);
  sql_ok(db, "INSERT INTO x(n) VALUES(' q')");
  sql_rows(db, "SELECT t.k FROM x CROSS JOIN t ON t.k < x.n", " 7 \n05\n1\n9");
  sql_ok(db, "UPDATE x SET n = '+x'");
  sql_rows(db, "SELECT t.k FROM x CROSS JOIN t ON t.k <= x.n", " 7 \n05\n1\n9");
  sql_ok(db, "UPDATE x SET n = '12ab'");
  sql_rows(db, "SELECT t.k FROM x CROSS JOIN t ON t.k < x.n", " 7 \n-\n05\n1\n9");
  sql_rows(db, "SELECT t.k FROM x CROSS JOIN t ON t.k < x.n ORDER BY t.k DESC LIMIT 2", "9\n1");
  sql_rows(db, "SELECT t.k FROM x CROSS JOIN t ON t.k > '05' AND t.k < x.n", "1\n9");
  sql_rows(db, "SELECT t.k FROM x CROSS JOIN t ON t.k > '5' AND t.k < x.n", "9");
  sql_rows(db, "SELECT t.k FROM x CROSS JOIN t ON t.k > x.n", "2e\na");
  sql_ok(db, "UPDATE x SET n = x'00'");
  sql_rows(db, "SELECT count(*) FROM x CROSS JOIN t ON t.k < x.n", "7");
}
END_TEST

/* Leaping over '2024-...' must not leap over what the other range begins with. */
START_TEST(leap_backwards_stops_at_the_bound) {
  make_pair("k TEXT PRIMARY KEY",
            "VALUES('1'), ('2024'), ('2024-01-01'), ('2024-01-02'), ('2024-06-03'), "
            "('2024-06-04'), ('2025-01-01'), ('9')");
  sql_ok(db, "INSERT INTO x(d) VALUES('2024-06-02')");
  sql_rows(db, "SELECT t.k FROM x CROSS JOIN t ON t.k < x.d ORDER BY t.k DESC",
           "9\n2024-01-02\n2024-01-01\n2024\n1");
  sql_rows(db, "SELECT t.k FROM x CROSS JOIN t ON t.k < x.d", "1\n2024\n2024-01-01\n2024-01-02\n9");
}
END_TEST

/* What is bound may be a column of a numeric type after all, in a statement that stores it. */
static const char *const writes[] = {
    "INSERT INTO x(id, n) VALUES(2, ?1) RETURNING (SELECT group_concat(k) FROM"
    " (SELECT k FROM @ WHERE k < n ORDER BY k))",
    "INSERT INTO x(id, n) VALUES(1, ?1) ON CONFLICT DO UPDATE"
    " SET s = (SELECT group_concat(k) FROM (SELECT k FROM @ WHERE k < excluded.n ORDER BY k))"
    " RETURNING s",
    "UPDATE x SET n = ?1 RETURNING (SELECT group_concat(k) FROM"
    " (SELECT k FROM @ WHERE k < n ORDER BY k))",
    "INSERT INTO x(id, n, s) VALUES(3, ?1, '@') RETURNING (SELECT group_concat(k) FROM (SELECT k"
    " FROM seen ORDER BY k))",
};

START_TEST(bound_text_is_a_numeric_column_when_it_is_written) {
  sql_trust(db);
  make_pair("k TEXT PRIMARY KEY", few_texts);
  sql_ok(db, "DROP TABLE x; CREATE TABLE x(id INTEGER PRIMARY KEY, n INTEGER, s);"
             "INSERT INTO x VALUES(1, 1, NULL);"
             "CREATE TABLE seen(k);"
             "CREATE TRIGGER g BEFORE INSERT ON x WHEN new.s = 't' BEGIN"
             " INSERT INTO seen SELECT k FROM t WHERE k < new.n; END;"
             "CREATE TRIGGER h BEFORE INSERT ON x WHEN new.s = 'o' BEGIN"
             " INSERT INTO seen SELECT k FROM o WHERE k < new.n; END");
  for (size_t i = 0; i < sizeof writes / sizeof *writes; i++) {
    char *ours = run_bound(writes[i], "t"), *theirs = run_bound(writes[i], "o");
    ck_assert_str_eq(ours, theirs);
    sqlite3_free(ours);
    sqlite3_free(theirs);
  }
}
END_TEST

/* ---- All kinds of texts, bounds and orders */

/* Texts that are numbers, nearly are, or begin alike, with bytes below and above those of numbers. */
static const char *const texts =
    "WITH head(h) AS (VALUES(''), (' '), (char(9)), ('+'), ('-'), ('1'), ('12'), ('9'), ('1.'),"
    " ('.'), ('1e'), ('1e5'), ('1' || char(0)), ('/'), (':'), ('z'), ('2024-06-02')),"
    "tail(b) AS (VALUES(''), ('0'), (' '), ('-'), ('-1'), ('-2'), ('x'), (char(0)), (char(1)),"
    " (char(0) || '1'), ('.5'), ('e'), ('E-1'), (char(1114111)), (':'))";
static const char *const bounds[] = {"' q'",  "'+x'", "'12ab'", "''",    "'!'",  "char(1)",
                                     "'-'",   "'.'",  "'1e'",   "'12-'", "'9z'", "'2024-06-02'",
                                     "'1 1'", "'/'",  "':'",    "'zz'",  "x'31'"};
enum { BOUNDS = sizeof bounds / sizeof *bounds };

static const char *const shapes[] = {
    "k TEXT, j TEXT, PRIMARY KEY(k)",    "k TEXT, j TEXT, PRIMARY KEY(k DESC)",
    "k, j TEXT, PRIMARY KEY(k)",         "k, j TEXT, PRIMARY KEY(k DESC)",
    "k TEXT, j TEXT, PRIMARY KEY(k, j)", "k TEXT, j TEXT, PRIMARY KEY(j DESC, k DESC)",
    "k, j TEXT, PRIMARY KEY(j, k DESC)",
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static void make_texts(const char *columns) {
  char *rows = sqlite3_mprintf("%s SELECT DISTINCT h || b, '1' FROM head, tail", texts);
  make_pair(columns, rows);
  sqlite3_free(rows);
  static const char *const more = "SELECT k, '01' FROM o WHERE j = '1' AND length(k) < 3 "
                                  "UNION ALL SELECT x'31', '2' UNION ALL SELECT 7, 'b'";
  sql_okf(db, "INSERT OR IGNORE INTO o %s; INSERT OR IGNORE INTO t %s", more, more);
  sql_same(db, "SELECT quote(k), j FROM t ORDER BY 1, 2",
           "SELECT quote(k), j FROM o ORDER BY 1, 2");
}

static const char *const conditions[] = {
    "k < n",
    "k <= n",
    "n >= k AND k > '12'",
    "k < n AND k >= '9'",
    "k BETWEEN ' ' AND n",
    "k BETWEEN n AND m",
    "k >= 1 AND k < n",
    "k > x'00' AND k < n",
    "j = '1' AND k < n",
    "j = 1 AND k <= n",
    "j = 1 AND k < n AND k > '1'",
    "j = m AND k < n",
    "j IN ('1', '01', 'b') AND k < n",
    "j IN (1, 2) AND k <= n",
    "k = '1' AND j < n",
    "k = 1 AND j < n",
    "k < n AND j < m",
    "(k, j) < (n, m)",
};
static const char *const endings[] = {
    "",
    "ORDER BY #k, #j",
    "ORDER BY #k DESC, #j DESC",
    "ORDER BY #j, #k DESC",
    "ORDER BY #j DESC, #k LIMIT 5",
    "ORDER BY #k DESC, #j LIMIT 3 OFFSET 2",
};

/* Without an order, or with ties of what is ordered, rows are those of the key's order. */
START_TEST(all_bounds_in_all_orders) {
  make_texts(shapes[_i]);
  for (int b = 0; b < BOUNDS; b++) {
    sql_okf(db, "DELETE FROM x; INSERT INTO x(n, m) VALUES(%s, %s)", bounds[b],
            bounds[(b + 3) % BOUNDS]);
    for (size_t c = 0; c < sizeof conditions / sizeof *conditions; c++) {
      for (size_t e = 0; e < sizeof endings / sizeof *endings; e++) {
        char *sql = sqlite3_mprintf("SELECT quote(k), quote(j) FROM x CROSS JOIN @ ON %s %s",
                                    conditions[c], endings[e]);
        same(sql);
        sqlite3_free(sql);
      }
    }
  }
}
END_TEST

START_TEST(deletes_and_updates_find_all) {
  make_texts(shapes[0]);
  sql_ok(db, "INSERT INTO x(n) VALUES('12ab')");
  sql_ok(db, "UPDATE t SET j = 'u' WHERE k < (SELECT n FROM x);"
             "UPDATE o SET j = 'u' WHERE k < (SELECT n FROM x)");
  same("SELECT quote(k), j FROM @ ORDER BY #k");
  sql_ok(db, "DELETE FROM t WHERE k <= (SELECT n FROM x);"
             "DELETE FROM o WHERE k <= (SELECT n FROM x)");
  same("SELECT quote(k), j FROM @ ORDER BY #k");
}
END_TEST

/* ---- How much is read */

static void check_bound(const char *sql, const char *text, int lookups) {
  sqlite3_int64 before = widened();
  sqlite3_stmt *stmt;
  ck_assert_int_eq(sqlite3_prepare_v2(db, sql, -1, &stmt, NULL), SQLITE_OK);
  sqlite3_bind_text(stmt, 1, text, -1, SQLITE_STATIC);
  while (sqlite3_step(stmt) == SQLITE_ROW) continue;
  ck_assert_int_eq(sqlite3_finalize(stmt), SQLITE_OK);
  if (sql_has_ranges()) ck_assert_msg(widened() - before == lookups, "%s [%s]", sql, text);
}

START_TEST(bounds_that_are_no_columns_are_not_widened) {
  make_pair("k TEXT PRIMARY KEY", few_texts);
  sql_ok(db, "INSERT INTO x(n) VALUES('12ab'), (':')");
  check_bound("SELECT k FROM t WHERE k < '12ab'", "", 0);
  check_bound("SELECT k FROM t WHERE k BETWEEN '1' AND '2024-06-02' ORDER BY k DESC", "", 0);
  check_bound("SELECT k FROM t WHERE k < ?1", "2024-06-02", 0);
  check_bound("SELECT k FROM t WHERE k > '1' AND k <= ?1", "12ab", 0);
  check_bound("SELECT k FROM t WHERE k < (SELECT '2024')", "", 0);
  check_bound("SELECT k FROM x CROSS JOIN t ON k > n", "", 0);
  check_bound("SELECT k FROM x CROSS JOIN t ON k < n", "", 1);
  check_bound("SELECT k FROM t WHERE k < (SELECT '2024' || '-06')", "", 1);
}
END_TEST

/* How many of `all` blocks may be read: where keys have no ranges, all of them in each of two scans. */
static sqlite3_int64 at_most(sqlite3_int64 blocks, sqlite3_int64 all) {
  return sql_has_ranges() ? blocks : 2 * all;
}

static sqlite3_int64 blocks_touched(const char *sql) {
  sqlite3_int64 before = counter("'cache_hits', 'cache_misses'");
  sql_ok(db, sql);
  return counter("'cache_hits', 'cache_misses'") - before;
}

/* 40,000 keys of 40 years: a leap a year. */
START_TEST(upper_bound_among_dates_leaps_over_years) {
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(k TEXT PRIMARY KEY, v, block_bytes = 4096,"
             " compression = none); WITH RECURSIVE n(i) AS (VALUES(0) UNION ALL SELECT i + 1 FROM "
             "n WHERE i < 39999)"
             "INSERT INTO t SELECT printf('%d-%02d-%02d %02d', 2000 + i / 1000, i / 84 % 12 + 1,"
             " i / 3 % 28 + 1, i % 24) || '#' || i, i FROM n;"
             "INSERT INTO t VALUES('2030', 1), ('7', 2); INSERT INTO t(t) VALUES('compact');"
             "INSERT INTO x(d) VALUES('2000-01-01')");
  sqlite3_int64 all = blocks_touched("SELECT count(v) FROM t WHERE v > 0");
  ck_assert_int_gt(all, 150);
  sql_rows(db, "SELECT k FROM x CROSS JOIN t ON k < d", "2030\n7");
  sqlite3_int64 forwards = blocks_touched("SELECT k FROM x CROSS JOIN t ON k < d");
  ck_assert_int_le(forwards, at_most(40 * 2 + 10, all));
  sqlite3_int64 backwards = blocks_touched("SELECT k FROM x CROSS JOIN t ON k < d ORDER BY k DESC");
  ck_assert_int_le(backwards, at_most(40 * 3 + 10, all));
  sqlite3_int64 equal = blocks_touched("SELECT k FROM t WHERE k = CAST(2030 AS INTEGER)");
  ck_assert_int_le(equal, at_most(40, all));
  ck_assert_int_le(blocks_touched("SELECT k FROM t WHERE k < '2000-01-01'"), at_most(2, all));
}
END_TEST

/* Of 40,000 keys in each of three forms, only those are read that begin with the digits asked for. */
START_TEST(numbers_among_digits_leap_over_other_digits) {
  static const char *const forms[] = {"printf('%08d', i)", "printf('%d', i * 7919 % 40009)",
                                      "lower(hex(i * 2654435761 % 4294967296)) || '-' || i"};
  sql_okf(db,
          "CREATE VIRTUAL TABLE t USING colfam(k TEXT PRIMARY KEY, v, block_bytes = 1024,"
          " compression = none); WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM"
          " n WHERE i < 40000) INSERT INTO t SELECT %s, i FROM n;"
          "INSERT OR REPLACE INTO t VALUES('777', 0), (' 7.77e+2', 1), ('0.777e3 ', 2);"
          "INSERT INTO t(t) VALUES('compact')",
          forms[_i]);
  sqlite3_int64 all = blocks_touched("SELECT count(v) FROM t WHERE v >= 0");
  ck_assert_int_gt(all, 400);
  ck_assert_int_eq(sql_int(db, "SELECT count(*) FROM t WHERE k = CAST(777 AS INTEGER)"),
                   _i ? 3 : 4);
  sql_rows(db, "SELECT v FROM t WHERE k = 777", "0");
  ck_assert_int_le(blocks_touched("SELECT v FROM t WHERE k = 777"), at_most(all / 4, all));
  ck_assert_int_le(blocks_touched("SELECT v FROM t WHERE k IN (SELECT 777 UNION SELECT 39999.0)"),
                   at_most(all / 4, all));
  ck_assert_int_le(blocks_touched("SELECT v FROM t WHERE k = 31e-7"), at_most(all / 4, all));
}
END_TEST

/* Spellings of numbers near powers of ten, of many digits, of zero and of the largest, against numbers that
** come from a numeric column. */
START_TEST(every_spelling_is_found) {
  static const char *const numbers[] = {"0",
                                        "1",
                                        "-1",
                                        "10",
                                        "9",
                                        "12",
                                        "0.1",
                                        "0.5",
                                        "99",
                                        "100",
                                        "1e22",
                                        "1e-7",
                                        "1e300",
                                        "1e-300",
                                        "9e999",
                                        "1e-310",
                                        "9007199254740993",
                                        "0.99999999999999999",
                                        "1.0000000001",
                                        "123456789012345678",
                                        "2.5",
                                        "-0.0",
                                        "33",
                                        "3333333333.0"};
  static const char *const spellings[] = {
      "%s",   "0%s",    " %s",   "%s ", "+%s",    "00%s",    "%s0",    "%s.0", "%s.",
      "%se0", "%se+00", "%sE-0", "-%s", "%s0e-1", "%s00e-2", "%s.000", "\t%s", "%sx",
      "%se",  "x%s",    "%s%s",  "1%s", "9%s",    "%s9",     ".%s",    "0.%s"};
  sql_okf(db,
          "CREATE TABLE o(k TEXT %s PRIMARY KEY) WITHOUT ROWID;"
          "CREATE VIRTUAL TABLE t USING colfam(k TEXT%s)",
          _i ? "COLLATE RTRIM" : "",
          _i == 0   ? " PRIMARY KEY"
          : _i == 1 ? " COLLATE RTRIM PRIMARY KEY"
                    : ", PRIMARY KEY(k DESC)");
  sql_ok(db, "INSERT INTO o VALUES('0.99999999999999999'), ('9.9999999999999999999e-1'), "
             "('1e-400'), ('1e400'),"
             " ('0.000e5'), ('0x10'), ('1_0'), ('.'), ('-'), ('+'), ('e5'), ('Inf'), (x'31'), "
             "('.5e1'), ('5e-1'),"
             " ('1000000000000000000000000000000e-30'), ('0000000000000000000000000000001'),"
             " ('0.000000000000000000000000000001e30'), ('99.99999999999999999999'), ('100e-2')");
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    for (size_t j = 0; j < sizeof spellings / sizeof *spellings; j++) {
      char *text = sqlite3_mprintf(spellings[j], numbers[i], numbers[i]);
      sql_okf(db, "INSERT OR IGNORE INTO o VALUES(%Q)", text);
      sqlite3_free(text);
    }
  sql_ok(db, "INSERT OR IGNORE INTO t SELECT k FROM o WHERE length(k) % 2;"
             "INSERT INTO t(t) VALUES('flush'); INSERT OR IGNORE INTO t SELECT k FROM o");
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    static const char *const forms[] = {
        "SELECT k FROM @ WHERE k = CAST(%s AS NUMERIC) ORDER BY #k",
        "SELECT k FROM @ WHERE k = (SELECT m FROM x) ORDER BY #k",
        "SELECT k FROM @ WHERE k IN (SELECT m FROM x) ORDER BY k",
        "SELECT k FROM @ WHERE k IN (SELECT m FROM x UNION SELECT 12 UNION SELECT 0.5) ORDER BY k",
        "SELECT k FROM @ WHERE k IN (SELECT m FROM x UNION SELECT n + 100 FROM x) ORDER BY k",
    };
    sql_okf(db, "DELETE FROM x; INSERT INTO x(n, m) VALUES(%s, %s)", numbers[i], numbers[i]);
    for (size_t j = 0; j < sizeof forms / sizeof *forms; j++) {
      char *sql = sqlite3_mprintf(forms[j], numbers[i]);
      same(sql);
      sqlite3_free(sql);
    }
  }
}
END_TEST

/* A REAL column that is known to be 1.0 is handed over as that constant, which SQLite keeps as an integer
** that is a real: once it has been made a text it says of itself that it is one. */
START_TEST(constants_of_real_columns_are_numbers) {
  static const char *const keys[] = {"PRIMARY KEY(k)", "PRIMARY KEY(k DESC)", "PRIMARY KEY(v, k)",
                                     "PRIMARY KEY(k, v)"};
  static const char *const forms[] = {
      "SELECT k, r FROM @ JOIN y ON k = r WHERE r = %s",
      "SELECT k, r FROM y CROSS JOIN @ ON k = r WHERE r = %s",
      "SELECT k, r FROM y CROSS JOIN @ ON k = r AND v = r WHERE r = %s",
      "SELECT k, r FROM y CROSS JOIN @ ON k = r AND v IN (1, r, 2) WHERE r = %s",
      "SELECT k, r FROM y CROSS JOIN @ ON k IN (r, 'a', 2) WHERE r = %s",
      "SELECT k, r FROM y CROSS JOIN @ ON k >= r WHERE r = %s",
      "SELECT k, r FROM y CROSS JOIN @ ON k < r AND v = r WHERE r = %s",
      "SELECT k, r FROM y CROSS JOIN @ ON k BETWEEN r AND r WHERE r = %s",
      "SELECT r, EXISTS (SELECT 1 FROM @ WHERE k = r AND v = r) FROM y WHERE r = %s",
      "SELECT r, (SELECT count(*) FROM @ WHERE k = r) FROM y WHERE r = %s",
      "SELECT a.k, b.k FROM y CROSS JOIN @ AS a ON a.k = r CROSS JOIN @ AS b ON b.k = r AND b.v = r"
      " WHERE r = %s",
  };
  static const char *const reals[] = {"1.0", "1", "2.0", "-0.0", "2.5", "1e15"};
  sql_ok(db, "CREATE TABLE y(r REAL); INSERT INTO y VALUES(1), (1.0), (2), (0), (2.5), (1e15)");
  char *columns = sqlite3_mprintf("k TEXT, v REAL, %s", keys[_i]);
  make_pair(columns, "SELECT a.value, b.value FROM"
                     " json_each('[\"1\", \"1.0\", \" 1\", \"01\", \"2\", \"2.5\", \"0.0\", \"a\","
                     " \"1e15\", \"1.0e+15\", \"1000000000000000.0\"]') AS a,"
                     " json_each('[1, 2, 1e15, 0]') AS b WHERE 1 ON CONFLICT DO NOTHING");
  sqlite3_free(columns);
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
    for (size_t j = 0; j < sizeof reals / sizeof *reals; j++) {
      char *sql = sqlite3_mprintf(forms[i], reals[j]);
      char *sorted = sqlite3_mprintf(
          "WITH s(a, b) AS MATERIALIZED (%s) SELECT a, b FROM s ORDER BY a, b", sql);
      same(sorted);
      sqlite3_free(sorted);
      sqlite3_free(sql);
    }
}
END_TEST

int main(void) {
  Suite *suite = suite_create("sql_numerals");
  TCase *tcase = tcase_create("numerals");
  tcase_add_checked_fixture(tcase, open_database, close_database);
  tcase_set_timeout(tcase, 0);
  tcase_add_test(tcase, text_in_a_numeric_column_is_above_numerals);
  tcase_add_test(tcase, leap_backwards_stops_at_the_bound);
  tcase_add_test(tcase, bound_text_is_a_numeric_column_when_it_is_written);
  tcase_add_loop_test(tcase, all_bounds_in_all_orders, 0, SHAPES);
  tcase_add_test(tcase, deletes_and_updates_find_all);
  tcase_add_test(tcase, bounds_that_are_no_columns_are_not_widened);
  tcase_add_test(tcase, upper_bound_among_dates_leaps_over_years);
  tcase_add_loop_test(tcase, numbers_among_digits_leap_over_other_digits, 0, 3);
  tcase_add_loop_test(tcase, every_spelling_is_found, 0, 3);
  tcase_add_loop_test(tcase, constants_of_real_columns_are_numbers, 0, 4);
  suite_add_tcase(suite, tcase);
  return harness_run(suite);
}
