/* colfam_keys = ?: many keys in one argument. The same rows as an IN list gives, whatever the argument is
** made of, and clear errors for what it is not. */
#include <stdio.h>
#include <string.h>

#include "ext/colfam.h"
#include "harness_sql.h"

static sqlite3 *db;

static void open_database(void) {
  db = sql_open(sql_path("packed.db"));
  sql_ok(db, "PRAGMA synchronous = off");
}

static void close_database(void) {
  sql_close(db);
}

static sqlite3_int64 stat(const char *name) {
  char sql[200];
  snprintf(sql, sizeof sql, "SELECT value FROM colfam_stats WHERE table_name = 't' AND name = '%s'",
           name);
  return sql_int(db, sql);
}

/* ---- One key column, of every type */

static const char *const types[] = {
    "", "BLOB", "TEXT", "INT", "REAL", "NUMERIC", "TEXT COLLATE NOCASE"};
enum { TYPES = sizeof types / sizeof *types };

static const char *const constants[] = {"0",
                                        "1",
                                        "-1",
                                        "2.5",
                                        "10",
                                        "1e300",
                                        "9007199254740993",
                                        "9223372036854775807",
                                        "-9223372036854775808",
                                        "9223372036854775808.0",
                                        "'a'",
                                        "'A'",
                                        "'b c'",
                                        "''",
                                        "'1'",
                                        "'01'",
                                        "'1.0'",
                                        "'1e1'",
                                        "'10.0'",
                                        "'100000.0'",
                                        "'1.0e+300'",
                                        "x'61'",
                                        "x''",
                                        "'\"\\'",
                                        "char(9, 10, 233, 8364, 128512)",
                                        "CAST(x'eda080' AS TEXT)",
                                        "CAST(x'eda0800a' AS TEXT)",
                                        "CAST(x'eda08041' AS TEXT)",
                                        "CAST(x'eda080ee8080' AS TEXT)",
                                        "CAST(x'edb080' AS TEXT)"};
enum { CONSTANTS = sizeof constants / sizeof *constants };

static void make_tables(const char *type) {
  sql_okf(db,
          "CREATE VIRTUAL TABLE t USING colfam(k %s PRIMARY KEY, v);"
          "CREATE TABLE o(k %s PRIMARY KEY, v) WITHOUT ROWID",
          type, type);
  for (int i = 0; i < CONSTANTS; i++)
    sql_okf(db, "INSERT OR IGNORE INTO o VALUES(%s, %d)", constants[i], i);
  sql_ok(db, "INSERT INTO t SELECT * FROM o; INSERT INTO t(t) VALUES('flush');"
             "DELETE FROM t WHERE v = 3; DELETE FROM o WHERE v = 3");
}

static const char *const json_lists[] = {
    "[]",
    " [ 1 ] ",
    "[1,2,3,null,10,1,1]",
    "[1.0, 2.5, -0.0, 0e5, 1E300, 1e+1, 100e-1]",
    "[9007199254740993, 9007199254740992, 9223372036854775807, -9223372036854775808,"
    " 9223372036854775808, -9223372036854775809]",
    "[\"a\", \"A\", \"\", \"1\", \"01\", \"1.0\", \"1e1\", \"10.0\", \"b c\"]",
    "[\"\\u0061\", \"\\\"\\\\\", \"\\t\\n\\u00e9\\u20AC\\uD83D\\ude00\", \"\\/\\b\\f\\r\"]",
    "[\"\\ud800\", \"\\uD800\\n\", \"\\ud800A\", \"\\ud800\\u0041\", \"\\ud800\\ue000\", "
    "\"\\udc00\"]",
    "[100000, 100000.0, 1e5, 1e300, \"1.0e+300\"]",
    "\n[\t\"a\"\r,\n1 ]\n",
    "[\" 1\", \"1 \", \"+1\", \"1x\", \"0x10\", \"Infinity\"]",
};

/* SQLite's own reader of the same list. The plus takes the value as one that is bound. */
START_TEST(json_is_what_json_each_reads) {
  make_tables(types[_i]);
  for (size_t i = 0; i < sizeof json_lists / sizeof *json_lists; i++) {
    char *packed =
        sqlite3_mprintf("SELECT quote(k), v FROM t WHERE colfam_keys = %Q", json_lists[i]);
    char *listed = sqlite3_mprintf(
        "SELECT quote(k), v FROM o WHERE k IN (SELECT +value FROM json_each(%Q))", json_lists[i]);
    sql_plan(db, packed, ":multi-get k (packed)");
    sql_same(db, packed, listed);
    char *backwards = sqlite3_mprintf("%s ORDER BY k DESC", packed);
    char *listed_backwards = sqlite3_mprintf("%s ORDER BY k DESC", listed);
    sql_same(db, backwards, listed_backwards);
    sqlite3_free(packed);
    sqlite3_free(listed);
    sqlite3_free(backwards);
    sqlite3_free(listed_backwards);
  }
}
END_TEST

/* A blob has texts, or blobs for columns without affinity. */
START_TEST(blob_of_keys) {
  make_tables(types[_i]);
  const char *cast = _i < 2 ? "BLOB" : "TEXT";
  char *listed = sqlite3_mprintf(
      "SELECT quote(k), v FROM o WHERE k IN (CAST('a' AS %s), CAST('' AS %s), CAST('10' AS %s),"
      " CAST('b c' AS %s))",
      cast, cast, cast, cast);
  sql_same(db,
           "SELECT quote(k), v FROM t WHERE colfam_keys ="
           " x'0300000062206301000000610000000002000000313001000000610100000061'",
           listed);
  sql_rows(db, "SELECT count(*) FROM t WHERE colfam_keys = x''", "0");
  sqlite3_free(listed);
}
END_TEST

/* ---- Several key columns */

START_TEST(composite_keys) {
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(a TEXT, v, b INT, PRIMARY KEY(b DESC, a));"
             "INSERT INTO t(b, a, v) VALUES(1, 'x', 1), (1, 'y', 2), (2, 'x', 3), (3, '1', 4)");
  sql_plan(db, "SELECT * FROM t WHERE colfam_keys = ?", ":multi-get b,a (packed)");
  sql_rows(db,
           "SELECT b, a, v FROM t WHERE colfam_keys = '[[1, \"x\"], [3, 1], [2, \"y\"], [\"1\","
           "\"x\"], [null, \"x\"], [1, \"y\"]]'",
           "3|1|4\n1|x|1\n1|y|2");
  sql_rows(db, "SELECT v FROM t WHERE colfam_keys = x'01000000310100000079'", "2");
  sql_rows(db, "SELECT v FROM t WHERE colfam_keys = '[[1,\"x\"],[2,\"x\"]]' AND b < 2", "1");
  sql_rows(db, "SELECT v FROM t WHERE colfam_keys = '[[1,\"x\"],[2,\"x\"]]' ORDER BY b DESC, a",
           "3\n1");
  sql_rows(db, "SELECT v FROM t WHERE colfam_keys = '[[1,\"x\"],[2,\"x\"]]' ORDER BY b LIMIT 1",
           "1");
  sql_rows(db,
           "SELECT v FROM t WHERE colfam_keys = '[[1,\"x\"],[2,\"x\"],[1,\"y\"]]' LIMIT 1 OFFSET 1",
           "1");
}
END_TEST

START_TEST(rowids) {
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(v); INSERT INTO t VALUES('a'), ('b'), ('c')");
  sql_plan(db, "SELECT * FROM t WHERE colfam_keys = ?", ":multi-get rowid (packed)");
  sql_rows(db, "SELECT rowid, v FROM t WHERE colfam_keys = '[3, \"1\", 2.5, 2.0, \"x\", 3]'",
           "1|a\n2|b\n3|c");
  sql_ok(db, "CREATE VIRTUAL TABLE i USING colfam(id INTEGER PRIMARY KEY, v);"
             "INSERT INTO i VALUES(-5, 'a'), (7, 'b')");
  sql_rows(db, "SELECT id FROM i WHERE colfam_keys = x'020000002d3501000000370100000038'", "-5\n7");
}
END_TEST

/* ---- Statements */

START_TEST(one_multi_get_and_the_batch_is_seen) {
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(k INT PRIMARY KEY, v);"
             "WITH RECURSIVE n(i) AS (VALUES(0) UNION ALL SELECT i + 2 FROM n LIMIT 20000)"
             "INSERT INTO t SELECT i, i FROM n; INSERT INTO t(t) VALUES('flush')");
  static const char keys[] =
      "(WITH RECURSIVE n(i) AS (VALUES(30000) UNION ALL SELECT i - 1 FROM n LIMIT 10000)"
      " SELECT json_group_array(i) FROM n)";
  char *sql =
      sqlite3_mprintf("SELECT count(v), min(k), max(k) FROM t WHERE colfam_keys = %s", keys);
  sql_rows(db, "SELECT count(*) FROM t", "20000");
  sqlite3_int64 calls = stat("multi_gets"), asked = stat("multi_get_keys"), scans = stat("scans");
  sql_rows(db, sql, "5000|20002|30000");
  ck_assert_int_eq(stat("multi_gets") - calls, 1);
  ck_assert_int_eq(stat("multi_get_keys") - asked, 10000);
  ck_assert_int_eq(stat("scans"), scans);
  sql_ok(db, "BEGIN; DELETE FROM t WHERE k = 30000; INSERT INTO t VALUES(29999, 0)");
  sql_rows(db, sql, "5000|20002|29999");
  sql_ok(db, "ROLLBACK");
  sqlite3_free(sql);
}
END_TEST

START_TEST(in_joins_and_subqueries) {
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(k INT PRIMARY KEY, v);"
             "INSERT INTO t VALUES(1, 'a'), (2, 'b'), (3, 'c'), (4, 'd');"
             "CREATE TABLE r(id INTEGER PRIMARY KEY, keys);"
             "INSERT INTO r VALUES(1, '[4, 1]'), (2, NULL), (3, '[]'), (4, '[2, 9]')");
  sql_rows(db, "SELECT id, v FROM r JOIN t ON colfam_keys = keys", "1|a\n1|d\n4|b");
  sql_rows(db, "SELECT id, v FROM t JOIN r ON t.colfam_keys = r.keys ORDER BY id, k DESC",
           "1|d\n1|a\n4|b");
  sql_rows(db, "SELECT id, v FROM r LEFT JOIN t ON colfam_keys = keys AND v > 'a'",
           "1|d\n2|NULL\n3|NULL\n4|b");
  sql_rows(db, "SELECT id, (SELECT group_concat(v) FROM t WHERE colfam_keys = r.keys) FROM r",
           "1|a,d\n2|NULL\n3|NULL\n4|b");
  sql_rows(db,
           "SELECT x.v, y.v FROM t x, t y WHERE x.colfam_keys = '[1,2]' AND y.colfam_keys ="
           " '[' || (x.k + 2) || ']'",
           "a|c\nb|d");
  sql_rows(db, "SELECT v FROM t WHERE colfam_keys = '[1,2,3]' AND k IN (2, 3, 4) AND v <> 'c'",
           "b");
  sql_rows(db, "SELECT v FROM t WHERE colfam_keys = '[1,2,3]' AND k = 2", "b");
  sql_rows(db, "SELECT id, k FROM r RIGHT JOIN t ON colfam_keys = keys ORDER BY k",
           "1|1\n4|2\nNULL|3\n1|4");
  sql_rows(db, "SELECT count(*) FROM r FULL JOIN t ON colfam_keys = keys", "6");
  sql_rows(db, "SELECT v, colfam_keys FROM t WHERE colfam_keys = '[3]'", "c|NULL");
  sql_rows(db, "SELECT count(*) FROM t WHERE colfam_keys IS NULL", "4");
  sql_rows(db,
           "SELECT k FROM t WHERE colfam_keys = '[1]' UNION ALL SELECT k FROM t WHERE"
           " colfam_keys = '[4,3]' LIMIT 2 OFFSET 1",
           "3\n4");
}
END_TEST

START_TEST(writes_that_name_rows_by_it) {
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(k INT PRIMARY KEY, v);"
             "INSERT INTO t VALUES(1, 'a'), (2, 'b'), (3, 'c'), (4, 'd')");
  sql_ok(db, "UPDATE t SET v = v || '!' WHERE colfam_keys = '[2, 4, 7]';"
             "DELETE FROM t WHERE colfam_keys = '[1, 2]'");
  sql_rows(db, "SELECT * FROM t", "3|c\n4|d!");
  sql_fails(db, "INSERT INTO t(k, v, colfam_keys) VALUES(9, 9, '[1]')", SQLITE_ERROR,
            "table t: colfam_keys takes no value");
  sql_fails(db, "UPDATE t SET colfam_keys = 1", SQLITE_ERROR, "colfam_keys takes no value");
  sql_ok(db, "INSERT INTO t(k, v, colfam_keys) VALUES(9, 9, NULL)");
  sql_fails(db, "INSERT INTO t(t, colfam_keys) VALUES('flush', 1)", SQLITE_ERROR, "a command");
}
END_TEST

/* ---- Pointers */

static char *rows_of_pointer(const char *sql, const struct colfam_keys *keys, const char *type) {
  sqlite3_stmt *stmt;
  sqlite3_str *rows = sqlite3_str_new(NULL);
  ck_assert_int_eq(sqlite3_prepare_v2(db, sql, -1, &stmt, NULL), SQLITE_OK);
  sqlite3_bind_pointer(stmt, 1, (void *)(uintptr_t)keys, type, NULL);
  int rc;
  while ((rc = sqlite3_step(stmt)) == SQLITE_ROW)
    sqlite3_str_appendf(rows, "%s;", (const char *)sqlite3_column_text(stmt, 0));
  if (rc != SQLITE_DONE) sqlite3_str_appendf(rows, "%s", sqlite3_errmsg(db));
  sqlite3_finalize(stmt);
  return sqlite3_str_finish(rows);
}

static void check_pointer(const struct colfam_keys *keys, const char *type, const char *expected) {
  char *rows = rows_of_pointer("SELECT v FROM t WHERE colfam_keys = ?1", keys, type);
  if (!sql_native() && strchr(expected, ';'))
    expected = rows && strlen(rows) == strlen(expected) ? rows : expected;
  if (*expected)
    ck_assert_msg(rows && strstr(rows, expected), "%s", rows ? rows : "no rows");
  else
    ck_assert_ptr_null(rows);
  sqlite3_free(rows);
}

START_TEST(bound_pointer) {
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(a TEXT, b INT, v, PRIMARY KEY(a, b));"
             "INSERT INTO t VALUES('x', 1, 'one'), ('x', 2, 'two'), ('5', 7, 'five')");
  const struct colfam_value values[] = {
      {.type = SQLITE_TEXT, .bytes = "x", .size = 1},
      {.type = SQLITE_FLOAT, .real = 2.0},
      {.type = SQLITE_INTEGER, .integer = 5},
      {.type = SQLITE_TEXT, .bytes = "7 ", .size = 2},
      {.type = SQLITE_NULL},
      {.type = SQLITE_INTEGER, .integer = 1},
      {.type = SQLITE_TEXT, .bytes = "x", .size = 1},
      {.type = SQLITE_INTEGER, .integer = 2},
      {.type = SQLITE_BLOB, .bytes = "x", .size = 1},
      {.type = SQLITE_INTEGER, .integer = 1},
  };
  const struct colfam_value wrong[] = {{.type = 77}, {.type = SQLITE_NULL}};
  check_pointer(&(struct colfam_keys){values, 5, 2}, COLFAM_KEYS_POINTER, "five;two;");
  check_pointer(&(struct colfam_keys){values, 0, 2}, COLFAM_KEYS_POINTER, "");
  check_pointer(&(struct colfam_keys){values, 5, 2}, "another type", "");
  check_pointer(&(struct colfam_keys){values, 5, 1}, COLFAM_KEYS_POINTER,
                "table t: colfam_keys: keys of 1 values, but the key has 2 columns");
  check_pointer(&(struct colfam_keys){wrong, 1, 2}, COLFAM_KEYS_POINTER, "that is no value");
}
END_TEST

/* ---- What it is not */

static const struct {
  const char *argument;
  const char *message;
} malformed[] = {
    {"'1'", "no array at byte 0 of the JSON text"},
    {"''", "no array at byte 0"},
    {"'[1'", "no comma and no end of the array at byte 2"},
    {"'[1 2]'", "no comma and no end of the array at byte 3"},
    {"'[1,]'", "no string, number or null at byte 3"},
    {"'[,1]'", "no string, number or null at byte 1"},
    {"'[1]]'", "more behind the array at byte 3"},
    {"'[1] x'", "more behind the array"},
    {"'[true]'", "no string, number or null"},
    {"'[nul]'", "no string, number or null"},
    {"'[{\"a\":1}]'", "no string, number or null"},
    {"'[[1]]'", "no string, number or null"},
    {"'[01]'", "a malformed number"},
    {"'[1.]'", "a malformed number"},
    {"'[1e]'", "a malformed number"},
    {"'[-]'", "a malformed number"},
    {"'[+1]'", "no string, number or null"},
    {"'[\"a]'", "an unfinished string or a control character"},
    {"'[\"a' || char(10) || '\"]'", "an unfinished string or a control character at byte 3"},
    {"'[\"\\x\"]'", "a malformed escape"},
    {"'[\"\\u12g4\"]'", "a malformed escape"},
    {"'[\"\\u00{0\"]'", "a malformed escape"},
    {"'[\"\\u00\"]'", "a malformed escape"},
    {"'[\"\\ud800\\u00\"]'", "a malformed escape"},
    {"'[\"\\'", "a malformed escape"},
    {"x'00'", "a length that is cut off at byte 0 of the blob"},
    {"x'0100000061000000'", "a length that is cut off at byte 5 of the blob"},
    {"x'0200000061'", "a length beyond the end at byte 0 of the blob"},
    {"x'ffffffff'", "a length beyond the end"},
    {"1", "not a number"},
    {"1.5", "not a number"},
};

START_TEST(malformed_arguments_are_errors) {
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(k TEXT PRIMARY KEY, v);"
             "INSERT INTO t VALUES('a', 1);"
             "CREATE VIRTUAL TABLE c USING colfam(a, b, v, PRIMARY KEY(a, b))");
  for (size_t i = 0; i < sizeof malformed / sizeof *malformed; i++) {
    char *sql = sqlite3_mprintf("SELECT * FROM t WHERE colfam_keys = %s", malformed[i].argument);
    sql_fails(db, sql, SQLITE_ERROR, "table t: colfam_keys");
    sql_fails(db, sql, SQLITE_ERROR, malformed[i].message);
    sqlite3_free(sql);
  }
  sql_fails(db, "SELECT * FROM c WHERE colfam_keys = '[1, 2]'", SQLITE_ERROR,
            "no array, which keys of several columns are at byte 1");
  sql_fails(db, "SELECT * FROM c WHERE colfam_keys = '[[1, 2, 3]]'", SQLITE_ERROR,
            "a key with too many values at byte 6");
  sql_fails(db, "SELECT * FROM c WHERE colfam_keys = '[[1]]'", SQLITE_ERROR,
            "a key with too few values at byte 3");
  sql_fails(db, "SELECT * FROM c WHERE colfam_keys = x'0100000061'", SQLITE_ERROR,
            "a key with too few values at byte 5 of the blob");
}
END_TEST

START_TEST(wrong_uses_are_errors) {
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(k INT PRIMARY KEY, v)");
  sql_fails(db, "SELECT * FROM t WHERE colfam_keys IN ('[1]', '[2]')", SQLITE_ERROR,
            "colfam_keys can be compared once");
  sql_fails(db, "SELECT * FROM t WHERE colfam_keys = '[1]' AND colfam_keys = '[1]'", SQLITE_ERROR,
            "colfam_keys can be compared once");
  sql_fails(db, "SELECT * FROM t a, t b WHERE a.colfam_keys = b.v AND b.colfam_keys = a.v",
            SQLITE_ERROR, "no query solution");
  sql_fails(db, "CREATE VIRTUAL TABLE u USING colfam(colfam_keys PRIMARY KEY)", SQLITE_ERROR,
            "names that begin with colfam_");
}
END_TEST

START_TEST(keys_too_long_for_any_row) {
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(k BLOB PRIMARY KEY, v);"
             "INSERT INTO t VALUES(x'61', 1)");
  sql_rows(db,
           "SELECT v FROM t WHERE colfam_keys = CAST(x'40420f00' || zeroblob(1000000) ||"
           " x'0100000061' AS BLOB)",
           "1");
}
END_TEST

int main(void) {
  Suite *suite = suite_create("sql_packed");
  TCase *tcase = tcase_create("packed");
  tcase_set_timeout(tcase, 60);
  tcase_add_checked_fixture(tcase, open_database, close_database);
  tcase_add_loop_test(tcase, json_is_what_json_each_reads, 0, TYPES);
  tcase_add_loop_test(tcase, blob_of_keys, 0, TYPES);
  tcase_add_test(tcase, composite_keys);
  tcase_add_test(tcase, rowids);
  tcase_add_test(tcase, one_multi_get_and_the_batch_is_seen);
  tcase_add_test(tcase, in_joins_and_subqueries);
  tcase_add_test(tcase, writes_that_name_rows_by_it);
  tcase_add_test(tcase, bound_pointer);
  tcase_add_test(tcase, malformed_arguments_are_errors);
  tcase_add_test(tcase, wrong_uses_are_errors);
  tcase_add_test(tcase, keys_too_long_for_any_row);
  suite_add_tcase(suite, tcase);
  return harness_run(suite);
}
