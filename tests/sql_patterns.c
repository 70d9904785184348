/* LIKE and GLOB on keys of every declaration: the rows of the ordinary table, in its order, as literals,
** bound, with ESCAPE, with and without case, beside bounds and in front of orders; and what they read. */
#include <stdio.h>
#include <string.h>

#include "harness_both.h"

static sqlite3 *db;

static void open_database(void) {
  db = sql_open(sql_path("app.db"));
  sql_ok(db, "PRAGMA synchronous = OFF");
}

static void close_database(void) {
  sql_close(db);
}

static const char *const shapes[] = {
    "k TEXT PRIMARY KEY, v",
    "k PRIMARY KEY, v",
    "k BLOB PRIMARY KEY, v",
    "k INT PRIMARY KEY, v",
    "k NUMERIC PRIMARY KEY, v",
    "k TEXT, v, PRIMARY KEY(k DESC)",
    "k TEXT COLLATE NOCASE PRIMARY KEY, v",
    "k COLLATE NOCASE, v, PRIMARY KEY(k DESC)",
    "k TEXT COLLATE RTRIM PRIMARY KEY, v",
    "k TEXT COLLATE NOCASE, v, PRIMARY KEY(k, v)",
    "k COLLATE RTRIM, v, PRIMARY KEY(k, v DESC)",
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static const char *const keys[] = {
    "''",
    "'a'",
    "'A'",
    "'ab'",
    "'aB'",
    "'Ab'",
    "'AB'",
    "'abc'",
    "'ABC'",
    "'ac'",
    "'AC'",
    "'b'",
    "'B'",
    "'a '",
    "'a  b'",
    "'ab '",
    "'a%'",
    "'a_'",
    "'a_b'",
    "'a' || char(64)",
    "'a' || char(64) || 'b'",
    "'aA'",
    "'az'",
    "'aZ'",
    "'a['",
    "'a{'",
    "'a`'",
    "'a*'",
    "'Z'",
    "'z'",
    "'['",
    "'{'",
    "char(64)",
    "char(64) || 'a'",
    "'1'",
    "'12'",
    "'1a'",
    "'-1'",
    "'-'",
    "'-a'",
    "'inf'",
    "'Inf'",
    "'é'",
    "'éa'",
    "'É'",
    "'\xe2\x82\xac'",
    "x'61'",
    "x'6162'",
    "x'4142'",
    "x'41'",
    "x'615f'",
    "x'7a'",
    "x'ff61'",
    "x''",
    "x'31'",
    "1",
    "12",
    "-1",
    "1.5",
    "1e999",
    "-1e999",
    "char(97, 0)",
    "char(65, 0, 98)",
    "'a' || char(127)",
};
enum { KEYS = sizeof keys / sizeof *keys };

/* A pattern matches an infinity by its text 'Inf' where it is tested against each row, and not where SQLite
** makes a range of it. */
static void make(const char *shape) {
  both_create(db, shape, " WITHOUT ROWID", "");
  for (int i = 0; i < KEYS; i++) {
    if (!sql_has_ranges() && strstr(keys[i], "e999")) continue;
    bothf(db, "INSERT OR IGNORE INTO @(k, v) VALUES(%s, %d)", keys[i], i);
    if (i == KEYS / 2) sql_ok(db, "INSERT INTO t(t) VALUES('flush')");
  }
}

static const char *const like_patterns[] = {
    "a%", "A%",  "ab%",  "aB%",  "AB_",  "a",  "ab",   "%",
    "%b", "_b%", "a_%",  "aZ%",  "az%",  "Z%", "z%",   "[%",
    "1%", "-%",  "-1%",  "inf%", "-inf", "é%", "É%",   "\xe2\x82\xac%",
    "",   "a %", "a  %", "a!_%", "a!%",  "!",  "a!a%", "1!%%",
};
static const char *const glob_patterns[] = {
    "a*",  "A*", "ab*", "aB*",  "a?", "a[b-z]*", "*",  "*b",   "?",  "a", "ab",  "a[*]", "aZ*",
    "az*", "Z*", "z*",  "[[]*", "1*", "-*",      "I*", "Inf*", "é*", "",  "a *", "a  *", "a[_]*",
};

static const char *const orders[] = {"", "ORDER BY k", "ORDER BY k DESC", "ORDER BY v DESC"};

static void check_where(const char *where) {
  const char *ties =
      sql_native() ? "" : ", v"; /* between equal keys the order of the table tells */
  for (size_t i = 0; i < sizeof orders / sizeof *orders; i++)
    bothf(db, "SELECT quote(k), v FROM @ WHERE %s %s%s", where, orders[i], i ? ties : "");
  bothf(db, "SELECT count(*) FROM @ WHERE %s", where);
}

static void check_form(const char *format, const char *pattern) {
  char *where = sqlite3_mprintf(format, pattern);
  check_where(where);
  sqlite3_free(where);
}

static void check_pattern(const char *op, const char *pattern) {
  static const char *const forms[] = {"k %s %%Q",
                                      "k NOT %s %%Q",
                                      "k %s %%Q AND k > 'aa'",
                                      "k %s %%Q AND k < 'ab'",
                                      "k %s %%Q AND k >= 'a' AND k < 'b'",
                                      "k COLLATE NOCASE %s %%Q",
                                      "k %s %%Q OR v = 3",
                                      "k %s %%Q AND k >= 'A' COLLATE NOCASE AND k <= 'AB'"};
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
    char *format = sqlite3_mprintf(forms[i], op);
    check_form(format, pattern);
    sqlite3_free(format);
  }
}

START_TEST(patterns_find_what_an_ordinary_table_does) {
  make(shapes[_i % SHAPES]);
  sql_okf(db, "PRAGMA case_sensitive_like = %d", _i / SHAPES);
  for (size_t i = 0; i < sizeof like_patterns / sizeof *like_patterns; i++) {
    check_pattern("LIKE", like_patterns[i]);
    check_form("k LIKE %Q ESCAPE '!'", like_patterns[i]);
    check_form("k LIKE %Q AND k GLOB 'a*'", like_patterns[i]);
  }
  for (size_t i = 0; i < sizeof glob_patterns / sizeof *glob_patterns; i++)
    check_pattern("GLOB", glob_patterns[i]);
  both_drop(db);
}
END_TEST

/* Literals that look like a pattern's bounds are the application's all the same. */
START_TEST(bounds_that_look_like_a_pattern) {
  static const char *const bounds[] = {
      "k >= 'a' AND k < 'b'",   "k >= 'A' AND k < 'b' COLLATE NOCASE",
      "k >= '1' AND k < '2'",   "k >= '9' AND k < ':'",
      "k < 'b' AND k >= 'a'",   "k >= 'ab' AND k < 'ac' AND k >= 'a' AND k < 'b'",
      "k > 'a' AND k < 'b'",    "k >= 'a' AND k <= 'b'",
      "k >= 'a' AND k < 'c'",   "k BETWEEN 'a' AND 'b'",
      "k >= '' AND k < ''",     "k >= 'Z' AND k < '['",
      "k >= 'a' AND k < x'62'", "k COLLATE NOCASE >= 'A' AND k COLLATE NOCASE < 'b'",
  };
  make(shapes[_i]);
  for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++) check_where(bounds[i]);
  both_drop(db);
}
END_TEST

/* ---- Bound patterns */

static void compare_bound(sqlite3_stmt *subject, sqlite3_stmt *ordinary, const char *pattern) {
  sqlite3_bind_text(subject, 1, pattern, -1, SQLITE_STATIC);
  sqlite3_bind_text(ordinary, 1, pattern, -1, SQLITE_STATIC);
  int rc;
  while ((rc = sqlite3_step(subject)) == SQLITE_ROW) {
    ck_assert_msg(sqlite3_step(ordinary) == SQLITE_ROW, "%s: a row too many", pattern);
    ck_assert_int_eq(sqlite3_column_int(subject, 0), sqlite3_column_int(ordinary, 0));
  }
  ck_assert_int_eq(rc, SQLITE_DONE);
  ck_assert_msg(sqlite3_step(ordinary) == SQLITE_DONE, "%s: a row too few", pattern);
  sqlite3_reset(subject);
  sqlite3_reset(ordinary);
}

/* Not for the other tests: there the sign stands for the table. */
static const char *const sign_patterns[] = {"a@%", "@%", "a@*", "@*", "A@%"};

START_TEST(kept_statements_with_bound_patterns) {
  make(shapes[_i]);
  static const char *const ops[] = {"LIKE ?1", "GLOB ?1", "LIKE ?1 ESCAPE '!'"};
  for (int op = 0; op < 3; op++) {
    sqlite3_stmt *subject, *ordinary;
    char *a = sqlite3_mprintf("SELECT v FROM t WHERE k %s ORDER BY v", ops[op]);
    char *b = sqlite3_mprintf("SELECT v FROM o WHERE k %s ORDER BY v", ops[op]);
    ck_assert_int_eq(sqlite3_prepare_v2(db, a, -1, &subject, NULL), SQLITE_OK);
    ck_assert_int_eq(sqlite3_prepare_v2(db, b, -1, &ordinary, NULL), SQLITE_OK);
    for (size_t i = 0; i < sizeof glob_patterns / sizeof *glob_patterns; i++)
      compare_bound(subject, ordinary, glob_patterns[i]);
    for (size_t i = 0; i < sizeof like_patterns / sizeof *like_patterns; i++)
      compare_bound(subject, ordinary, like_patterns[i]);
    for (size_t i = 0; i < sizeof sign_patterns / sizeof *sign_patterns; i++)
      compare_bound(subject, ordinary, sign_patterns[i]);
    sqlite3_finalize(subject);
    sqlite3_finalize(ordinary);
    sqlite3_free(a);
    sqlite3_free(b);
  }
  both_drop(db);
}
END_TEST

/* ---- What is read */

static sqlite3_int64 blocks(void) {
  return sql_int(db, "SELECT sum(value) FROM colfam_stats WHERE table_name = 't' AND name IN"
                     " ('blocks_read', 'cache_hits')");
}

static void check_reads(const char *sql, const char *rows, sqlite3_int64 most) {
  sqlite3_int64 before = blocks();
  sql_plan(db, sql, ":range k");
  sql_rows(db, sql, rows);
  ck_assert_msg(blocks() - before <= most || !sql_has_ranges(), "%s: %lld blocks", sql,
                (long long)(blocks() - before));
}

START_TEST(a_pattern_reads_its_range_only) {
  sql_okf(db,
          "CREATE VIRTUAL TABLE t USING colfam(k TEXT %s PRIMARY KEY, v, block_bytes = 1024);"
          "WITH RECURSIVE n(i) AS (VALUES(0) UNION ALL SELECT i + 1 FROM n LIMIT 20000)"
          "INSERT INTO t SELECT printf('%%05d-row', i), i FROM n;"
          "INSERT INTO t SELECT 'u' || k, v FROM t; INSERT INTO t(t) VALUES('compact')",
          _i ? "COLLATE NOCASE" : "");
  ck_assert_int_gt(sql_int(db, "SELECT sum(bytes) FROM colfam_files('t')"), 50 * 1024);
  check_reads("SELECT count(*), min(v), max(v) FROM t WHERE k GLOB 'u0123*'", "10|1230|1239", 4);
  check_reads("SELECT count(*), min(v), max(v) FROM t WHERE k LIKE 'u0123%'", "10|1230|1239", 6);
  check_reads("SELECT count(*) FROM t WHERE k LIKE 'U01230-R%'", "1", 8);
  check_reads("SELECT v FROM t WHERE k GLOB 'u0*' ORDER BY k DESC LIMIT 1", "9999", 4);
  check_reads("SELECT v FROM t WHERE k LIKE 'U12%' LIMIT 1", "12000", 4);
}
END_TEST

static void like_anything(sqlite3_context *context, int argc, sqlite3_value **argv) {
  (void)argc, (void)argv;
  sqlite3_result_int(context, 1);
}

/* SQLite derives no bounds then, and neither do we. */
START_TEST(functions_of_the_application_are_no_patterns) {
  both_create(db, "k TEXT PRIMARY KEY, v", " WITHOUT ROWID", "");
  both(db, "INSERT INTO @ VALUES('a', 1), ('b', 2)");
  sqlite3_create_function(db, "like", 2, SQLITE_UTF8, NULL, like_anything, NULL, NULL);
  sqlite3_create_function(db, "glob", 2, SQLITE_UTF8, NULL, like_anything, NULL, NULL);
  both(db, "SELECT * FROM @ WHERE k LIKE 'a%'");
  both(db, "SELECT * FROM @ WHERE k GLOB 'a*'");
  sql_rows(db, "SELECT count(*) FROM t WHERE k GLOB 'a*' AND k LIKE 'x%'", "2");
}
END_TEST

int main(void) {
  Suite *suite = suite_create("sql_patterns");
  TCase *tcase = tcase_create("patterns");
  tcase_set_timeout(tcase, 120);
  tcase_add_checked_fixture(tcase, open_database, close_database);
  tcase_add_loop_test(tcase, patterns_find_what_an_ordinary_table_does, 0, 2 * SHAPES);
  tcase_add_loop_test(tcase, bounds_that_look_like_a_pattern, 0, SHAPES);
  tcase_add_loop_test(tcase, kept_statements_with_bound_patterns, 0, SHAPES);
  tcase_add_loop_test(tcase, a_pattern_reads_its_range_only, 0, 2);
  tcase_add_test(tcase, functions_of_the_application_are_no_patterns);
  suite_add_tcase(suite, tcase);
  return harness_run(suite);
}
