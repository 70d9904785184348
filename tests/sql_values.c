/* Values and keys at their limits: up to 16 MB and beyond, the longest key, the edges of numbers and rowids,
** read back bit for bit from every place by every read; and that what is not asked is not touched. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness_sql.h"

static sqlite3 *db;

static void open_database(void) {
  db = sql_open(sql_path("values.db"));
  sql_ok(db, "PRAGMA synchronous = off");
}

static void close_database(void) {
  sql_close(db);
}

static void reopen(void) {
  close_database();
  open_database();
}

/* ---- Long values: their bytes follow from their key */

enum { MIB = 1 << 20 };

struct long_value {
  int key;
  int size;
  bool text, random; /* random bytes do not compress */
};

static const struct long_value long_values[] = {
    {1, 0, false, false},
    {2, 0, true, false},
    {3, 1, false, true},
    {4, 255, true, true},
    {5, 4095, false, true},
    {6, 16383, false, true},
    {7, 16384, true, false},
    {8, 65536, false, true},
    {9, 1000003, true, true},
    {10, 4 * MIB, false, false},
    {11, 16 * MIB, false, true},
    {12, 16 * MIB + 1, true, false},
    {13, 33 * MIB + 7, false, false},
};
enum { VALUES = sizeof long_values / sizeof *long_values };

static char *contents[VALUES];

static char *make_bytes(const struct long_value *value) {
  char *bytes = malloc((size_t)value->size + 1);
  ck_assert_ptr_nonnull(bytes);
  struct harness_random random;
  harness_seed(&random, (uint64_t)value->key);
  for (int i = 0; i < value->size; i++) {
    uint64_t byte = value->random ? harness_next(&random) >> 32 : (uint64_t)i / 97;
    bytes[i] = (char)(value->text ? 'a' + byte % 26 : byte);
  }
  return bytes;
}

static void make_contents(void) {
  for (int i = 0; i < VALUES; i++) contents[i] = make_bytes(&long_values[i]);
}

static void free_contents(void) {
  for (int i = 0; i < VALUES; i++) free(contents[i]);
}

static sqlite3_stmt *prepare(const char *sql) {
  sqlite3_stmt *stmt;
  int rc = sqlite3_prepare_v2(db, sql, -1, &stmt, NULL);
  ck_assert_msg(rc == SQLITE_OK, "%s: %s", sql, sqlite3_errmsg(db));
  return stmt;
}

static void insert_long_values(void) {
  sqlite3_stmt *stmt = prepare("INSERT INTO t VALUES(?1, 'before', ?2, 'after')");
  for (int i = 0; i < VALUES; i++) {
    const struct long_value *value = &long_values[i];
    sqlite3_bind_int(stmt, 1, value->key);
    if (value->text) {
      sqlite3_bind_text(stmt, 2, contents[i], value->size, SQLITE_STATIC);
    } else {
      sqlite3_bind_blob(stmt, 2, contents[i], value->size, SQLITE_STATIC);
    }
    ck_assert_msg(sqlite3_step(stmt) == SQLITE_DONE, "%s", sqlite3_errmsg(db));
    sqlite3_reset(stmt);
    sqlite3_clear_bindings(stmt);
  }
  sqlite3_finalize(stmt);
}

/* The row (key, value, after). */
static void check_row(sqlite3_stmt *stmt) {
  int key = sqlite3_column_int(stmt, 0);
  ck_assert_int_ge(key, 1);
  ck_assert_int_le(key, VALUES);
  const struct long_value *value = &long_values[key - 1];
  const char *bytes = contents[key - 1];
  ck_assert_int_eq(sqlite3_column_type(stmt, 1), value->text ? SQLITE_TEXT : SQLITE_BLOB);
  const void *found =
      value->text ? (const void *)sqlite3_column_text(stmt, 1) : sqlite3_column_blob(stmt, 1);
  ck_assert_int_eq(sqlite3_column_bytes(stmt, 1), value->size);
  if (value->size) ck_assert_msg(!memcmp(found, bytes, (size_t)value->size), "key %d", key);
  ck_assert_str_eq((const char *)sqlite3_column_text(stmt, 2), "after");
}

static void check_query(const char *sql, int rows) {
  sqlite3_stmt *stmt = prepare(sql);
  int count = 0, rc;
  for (; (rc = sqlite3_step(stmt)) == SQLITE_ROW; count++) check_row(stmt);
  ck_assert_msg(rc == SQLITE_DONE, "%s: %s", sql, sqlite3_errmsg(db));
  ck_assert_msg(count == rows, "%s: %d rows, not %d", sql, count, rows);
  sqlite3_finalize(stmt);
}

static void check_long_values(void) {
  for (int i = 1; i <= VALUES; i++) {
    char sql[100];
    snprintf(sql, sizeof sql, "SELECT k, v, w FROM t WHERE k = %d", i);
    check_query(sql, 1);
  }
  check_query("SELECT k, v, w FROM t", VALUES);
  check_query("SELECT k, v, w FROM t ORDER BY k DESC", VALUES);
  check_query("SELECT k, v, w FROM t WHERE k IN (1, 3, 5, 9, 11, 99)", 5);
  check_query("SELECT k, v, w FROM t WHERE k BETWEEN 10 AND 12", 3);
}

START_TEST(long_values_from_every_place_by_every_read) {
  sql_okf(db, "CREATE VIRTUAL TABLE t USING colfam(k INT PRIMARY KEY, u, v, w%s)",
          _i ? ", compression = none" : "");
  make_contents();
  sql_ok(db, "BEGIN");
  insert_long_values();
  check_long_values();
  sql_ok(db, "SAVEPOINT s; DELETE FROM t WHERE k > 3; UPDATE t SET v = 'x'; ROLLBACK TO s; COMMIT");
  check_long_values();
  sql_ok(db, "INSERT INTO t(t) VALUES('flush')");
  check_long_values();
  reopen();
  check_long_values();
  sql_ok(db, "UPDATE t SET u = 'changed' WHERE k % 2; INSERT INTO t(t) VALUES('flush');"
             "INSERT INTO t(t) VALUES('compact')");
  check_long_values();
  sql_rows(db, "SELECT group_concat(u) FROM (SELECT u FROM t WHERE k < 5)",
           "changed,before,changed,before");
  sql_rows(db, "SELECT * FROM colfam_check('t')", "");
  free_contents();
}
END_TEST

START_TEST(long_values_in_the_log_survive_reopening) {
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(k INT PRIMARY KEY, v,"
             " memtable_bytes = 1073741824)");
  sql_ok(db, "INSERT INTO t VALUES(1, zeroblob(17000000)), (2, printf('%.*c', 16777217, 'x'))");
  sql_rows(db, "SELECT count(*) FROM colfam_files('t')", "0");
  for (int i = 0; i < 2; i++) {
    sql_rows(db,
             "SELECT k, typeof(v), length(v), v = zeroblob(17000000),"
             " v = printf('%.*c', 16777217, 'x') FROM t",
             "1|blob|17000000|1|0\n2|text|16777217|0|1");
    reopen();
  }
}
END_TEST

START_TEST(zeroblobs_bound_and_computed) {
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(k BLOB PRIMARY KEY, v)");
  sqlite3_stmt *stmt = prepare("INSERT INTO t VALUES(?1, ?2)");
  const int sizes[] = {0, 1, 100, sql_reverse() ? 32000 : 65000}; /* two bytes each in reverse */
  for (int i = 0; i < 4; i++) {
    ck_assert_int_eq(sqlite3_bind_zeroblob(stmt, 1, sizes[i]), SQLITE_OK);
    ck_assert_int_eq(sqlite3_bind_zeroblob64(stmt, 2, 3000000 + (unsigned)i), SQLITE_OK);
    ck_assert_int_eq(sqlite3_step(stmt), SQLITE_DONE);
    sqlite3_reset(stmt);
  }
  sqlite3_finalize(stmt);
  sql_ok(db, "INSERT INTO t VALUES(zeroblob(7), zeroblob(8))");
  for (int i = 0; i < 3; i++) {
    sql_rows(db,
             "SELECT length(k), length(v), v = zeroblob(length(v)), typeof(k), typeof(v) FROM t",
             sql_reverse() ? "0|3000000|1|blob|blob\n1|3000001|1|blob|blob\n7|8|1|blob|blob\n"
                             "100|3000002|1|blob|blob\n32000|3000003|1|blob|blob"
                           : "0|3000000|1|blob|blob\n1|3000001|1|blob|blob\n7|8|1|blob|blob\n"
                             "100|3000002|1|blob|blob\n65000|3000003|1|blob|blob");
    sql_rows(db,
             "SELECT length(v) FROM t WHERE k IN (zeroblob(100), zeroblob(101), zeroblob(32000),"
             " zeroblob(65000))",
             "3000002\n3000003");
    if (i == 0) sql_ok(db, "INSERT INTO t(t) VALUES('flush')");
    if (i == 1) reopen();
  }
}
END_TEST

START_TEST(many_columns_of_every_type_side_by_side) {
  sqlite3_str *columns = sqlite3_str_new(NULL), *values = sqlite3_str_new(NULL);
  static const char *const texts[] = {"NULL",
                                      "7",
                                      "-0.0",
                                      "'text'",
                                      "x'00ff'",
                                      "''",
                                      "x''",
                                      "9e999",
                                      "-9223372036854775808",
                                      "'a' || char(0) || 'b'"};
  for (int i = 0; i < 900; i++) {
    sqlite3_str_appendf(columns, ", c%d", i);
    sqlite3_str_appendf(values, ", %s", texts[i % 10]);
  }
  char *c = sqlite3_str_finish(columns), *v = sqlite3_str_finish(values);
  sql_okf(db,
          "CREATE VIRTUAL TABLE t USING colfam(k INT PRIMARY KEY%s);"
          "CREATE TABLE o(k INT PRIMARY KEY%s) WITHOUT ROWID;"
          "INSERT INTO t VALUES(1%s); INSERT INTO o VALUES(1%s)",
          c, c, v, v);
  sqlite3_free(c);
  sqlite3_free(v);
  for (int i = 0; i < 3; i++) {
    sql_same(db, "SELECT * FROM t", "SELECT * FROM o");
    sql_same(db, "SELECT c899, hex(c9), typeof(c0), quote(c2) FROM t WHERE k IN (1, 2)",
             "SELECT c899, hex(c9), typeof(c0), quote(c2) FROM o");
    if (i == 0) sql_ok(db, "INSERT INTO t(t) VALUES('flush')");
    if (i == 1) sql_ok(db, "UPDATE t SET c500 = 'new'; UPDATE o SET c500 = 'new'");
  }
}
END_TEST

/* ---- Keys at their limit */

static int insert_key_of(const char *sql, int size) {
  sqlite3_stmt *stmt = prepare(sql);
  ck_assert_int_eq(sqlite3_bind_zeroblob(stmt, 1, size), SQLITE_OK);
  int rc = sqlite3_step(stmt);
  sqlite3_finalize(stmt);
  return rc;
}

/* The largest size that fits, found by halving. */
static int largest_key(const char *sql) {
  int fits = 0, too_big = 1 << 20;
  while (too_big - fits > 1) {
    int size = fits + (too_big - fits) / 2, rc = insert_key_of(sql, size);
    if (rc == SQLITE_DONE) {
      fits = size;
    } else {
      ck_assert_msg(rc == SQLITE_TOOBIG, "%d bytes: code %d", size, rc);
      ck_assert_ptr_nonnull(strstr(sqlite3_errmsg(db), "65536 bytes"));
      ck_assert_ptr_nonnull(strstr(sqlite3_errmsg(db), "table t"));
      too_big = size;
    }
  }
  return fits;
}

/* Every zero byte takes two but in the last column of an ascending key. */
START_TEST(keys_as_long_as_64_kib_and_no_longer) {
  static const struct {
    const char *columns, *insert;
    int low, high;
  } cases[] = {
      {"k BLOB PRIMARY KEY, v", "INSERT INTO t VALUES(?1, 1)", 65500, 65536},
      {"k, v, PRIMARY KEY(k DESC)", "INSERT INTO t VALUES(?1, 1)", 32700, 32768},
      {"k, b, PRIMARY KEY(k, b)", "INSERT INTO t VALUES(?1, 1)", 32700, 32768},
      {"b, k TEXT, PRIMARY KEY(b, k)", "INSERT INTO t VALUES(1, CAST(?1 AS TEXT))", 65400, 65536},
  };
  sql_okf(db, "CREATE VIRTUAL TABLE t USING colfam(%s)", cases[_i].columns);
  int largest = largest_key(cases[_i].insert);
  ck_assert_int_ge(largest, sql_native() ? cases[_i].low : 32700);
  ck_assert_int_le(largest, sql_native() ? cases[_i].high : 65536);
  for (int i = 0; i < 3; i++) {
    ck_assert_int_eq(sql_int(db, "SELECT max(length(CAST(k AS BLOB))) FROM t"), largest);
    sqlite3_stmt *stmt = prepare("SELECT count(*) FROM t WHERE k IN (?1, CAST(?1 AS TEXT), 5)");
    sqlite3_bind_zeroblob(stmt, 1, largest);
    ck_assert_int_eq(sqlite3_step(stmt), SQLITE_ROW);
    ck_assert_int_eq(sqlite3_column_int(stmt, 0), 1);
    sqlite3_finalize(stmt);
    if (i == 0) sql_ok(db, "INSERT INTO t(t) VALUES('flush')");
    if (i == 1) reopen();
  }
  sql_rows(db, "SELECT * FROM colfam_check('t')", "");
}
END_TEST

START_TEST(keys_too_long_change_nothing) {
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(k PRIMARY KEY, v); INSERT INTO t VALUES(1, 2);"
             "BEGIN; INSERT INTO t VALUES(2, 3)");
  static const char *const bad[] = {
      "INSERT INTO t VALUES(zeroblob(70000), 1)",
      "INSERT OR REPLACE INTO t VALUES(3, 3), (zeroblob(70000), 1)",
      "INSERT OR IGNORE INTO t VALUES(4, 4), (zeroblob(70000), 1)",
      "UPDATE t SET k = zeroblob(70000)",
      "UPDATE OR REPLACE t SET k = zeroblob(70000) WHERE k = 1",
      "INSERT INTO t SELECT zeroblob(1000000000 / 2), 1",
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    sql_fails(db, bad[i], SQLITE_TOOBIG, "table t");
    sql_rows(db, "SELECT * FROM t", "1|2\n2|3");
  }
  sql_ok(db, "COMMIT");
  sql_rows(db, "SELECT * FROM t", "1|2\n2|3");
}
END_TEST

START_TEST(lookups_of_keys_too_long_find_nothing) {
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(k PRIMARY KEY, v);"
             "INSERT INTO t VALUES('a', 1), (x'00', 2), (x'01', 3)");
  for (int i = 0; i < 2; i++) {
    sql_rows(db, "SELECT * FROM t WHERE k = zeroblob(70000)", "");
    sql_rows(db, "SELECT * FROM t WHERE k IN (zeroblob(70000), 'a', zeroblob(80000))", "a|1");
    sql_rows(db, "SELECT v FROM t WHERE k > zeroblob(70000)", "3");
    sql_rows(db, "SELECT v FROM t WHERE k < zeroblob(70000) ORDER BY k DESC", "2\n1");
    sql_rows(db, "SELECT v FROM t WHERE k BETWEEN x'00' AND zeroblob(9000000)", "2");
    sql_rows(db, "SELECT EXISTS (SELECT 1 FROM t WHERE k = zeroblob(70000))", "0");
    sql_ok(db,
           "DELETE FROM t WHERE k = zeroblob(70000); UPDATE t SET v = 0 WHERE k = zeroblob(70000)");
    sql_ok(db, "INSERT INTO t(t) VALUES('flush')");
  }
}
END_TEST

/* ---- Numbers */

START_TEST(numbers_come_back_as_they_were_stored) {
  static const char *const types[] = {"", "BLOB", "TEXT", "INT", "REAL", "NUMERIC"};
  static const char values[] =
      "(0), (-0.0), (1), (1.0), (-1), (0.1), (9007199254740992), (9007199254740993), "
      "(9007199254740992.0), (9223372036854775807), (-9223372036854775808), "
      "(9223372036854775807.0), (-9223372036854775808.0), (1e300), (-1e300), (5e-324), (9e999), "
      "(-9e999), (1e15), (123456789012345678), ('12'), ('1e3'), (' 7 '), ('0x1F'), (x'37'), ('')";
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    sql_okf(db,
            "CREATE TABLE o(k %s PRIMARY KEY, v %s) WITHOUT ROWID;"
            "CREATE VIRTUAL TABLE t USING colfam(k %s PRIMARY KEY, v %s);"
            "INSERT OR REPLACE INTO o SELECT column1, column1 FROM (VALUES %s);"
            "INSERT OR REPLACE INTO t SELECT column1, column1 FROM (VALUES %s)",
            types[i], types[i], types[i], types[i], values, values);
    for (int place = 0; place < 2; place++) {
      sql_same(db, "SELECT typeof(k), quote(k), printf('%!.20g', k), typeof(v), quote(v) FROM t",
               "SELECT typeof(k), quote(k), printf('%!.20g', k), typeof(v), quote(v) FROM o");
      sql_same(db, "SELECT quote(a.k), quote(b.k) FROM o AS a JOIN t AS b ON +a.k = b.k",
               "SELECT quote(a.k), quote(b.k) FROM o AS a JOIN o AS b ON +a.k = b.k");
      sql_ok(db, "INSERT INTO t(t) VALUES('flush')");
    }
    sql_ok(db, "DROP TABLE o; DROP TABLE t");
  }
}
END_TEST

/* A key keeps the form that its row was written with, also when an equal one replaces it. */
START_TEST(numbers_that_are_equal_are_one_key) {
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(k PRIMARY KEY, v);"
             "INSERT INTO t VALUES(1, 'integer'), (-0.0, 'zero')");
  sql_fails(db, "INSERT INTO t VALUES(1.0, 'real')", SQLITE_CONSTRAINT_PRIMARYKEY,
            "UNIQUE constraint failed: t.k");
  sql_fails(db, "INSERT INTO t VALUES(0, 'zero')", SQLITE_CONSTRAINT_PRIMARYKEY, NULL);
  sql_ok(db, "INSERT INTO t VALUES('1', 'text'), (x'31', 'blob')");
  sql_rows(db, "SELECT quote(k), v FROM t", "0.0|zero\n1|integer\n'1'|text\nX'31'|blob");
  sql_ok(db, "REPLACE INTO t VALUES(1.0, 'real')");
  sql_rows(db, "SELECT quote(k), v FROM t WHERE k = 1", "1.0|real");
  sql_ok(db, "UPDATE t SET k = 1 WHERE k = 1");
  sql_rows(db, "SELECT quote(k), v FROM t WHERE k IN (1.0, 0)", "0.0|zero\n1|real");
  sql_rows(db, "SELECT count(*) FROM t", "4");
}
END_TEST

/* ---- Rowids */

static const char *const rowid_tables[] = {"id INTEGER PRIMARY KEY, v", "v"};

static void make_rowid_tables(int form) {
  sql_okf(db, "CREATE VIRTUAL TABLE t USING colfam(%s); CREATE TABLE o(%s)", rowid_tables[form],
          rowid_tables[form]);
}

static void rowids_alike(const char *sql) {
  char *first = sqlite3_mprintf(sql, "o"), *second = sqlite3_mprintf(sql, "t");
  int expected = sqlite3_exec(db, first, NULL, NULL, NULL);
  sqlite3_int64 rowid = sqlite3_last_insert_rowid(db);
  ck_assert_msg(sqlite3_exec(db, second, NULL, NULL, NULL) == expected, "%s: %s", second,
                sqlite3_errmsg(db));
  ck_assert_int_eq(sqlite3_last_insert_rowid(db), rowid);
  sql_same(db, "SELECT rowid, * FROM t", "SELECT rowid, * FROM o");
  sqlite3_free(first);
  sqlite3_free(second);
}

START_TEST(rowids_are_given_one_above_the_largest) {
  make_rowid_tables(_i);
  for (int round = 0; round < 2; round++) {
    if (round) sql_ok(db, "BEGIN");
    rowids_alike("INSERT INTO %s(v) VALUES('first')");
    rowids_alike("DELETE FROM %s");
    rowids_alike("INSERT INTO %s(rowid, v) VALUES(-5, 'below zero')");
    rowids_alike("INSERT INTO %s(v) VALUES('next'), ('next')");
    rowids_alike("INSERT INTO %s(rowid, v) VALUES(100, 'far'), (NULL, 'next'), (7, 'near')");
    rowids_alike("DELETE FROM %s WHERE rowid > 100");
    rowids_alike("INSERT INTO %s(v) VALUES('again')");
    rowids_alike("UPDATE %s SET rowid = 200 WHERE rowid = 100");
    rowids_alike("INSERT INTO %s(v) VALUES('after 200')");
    rowids_alike("INSERT OR IGNORE INTO %s(rowid, v) VALUES(200, 'no'), (NULL, 'yes')");
    rowids_alike("INSERT OR REPLACE INTO %s(rowid, v) VALUES(200, 'replaced'), (NULL, 'more')");
    rowids_alike("INSERT INTO %s(rowid, v) VALUES(9223372036854775806, 'huge')");
    rowids_alike("INSERT INTO %s(v) VALUES('largest')");
    rowids_alike("DELETE FROM %s");
    if (round) sql_ok(db, "COMMIT");
  }
}
END_TEST

START_TEST(rowids_beyond_the_largest_are_random_and_unused) {
  make_rowid_tables(_i);
  sql_ok(db, "INSERT INTO t(rowid, v) VALUES(9223372036854775807, 'largest')");
  for (int i = 0; i < 50; i++) {
    sql_ok(db, "INSERT INTO t(v) VALUES('random')");
    ck_assert_int_gt(sqlite3_last_insert_rowid(db), 0);
  }
  sql_rows(db, "SELECT count(*), count(DISTINCT rowid), max(rowid) FROM t",
           "51|51|9223372036854775807");
}
END_TEST

START_TEST(rowids_given_as_other_types) {
  make_rowid_tables(_i);
  rowids_alike("INSERT INTO %s(rowid, v) VALUES(3.0, 'real')");
  rowids_alike("INSERT INTO %s(rowid, v) VALUES('17', 'text')");
  rowids_alike("INSERT INTO %s(rowid, v) VALUES(' 19 ', 'text')");
  static const char *const bad[] = {"2.5", "'abc'", "x'35'", "1e19", "'9223372036854775808'", "''"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    char sql[100];
    snprintf(sql, sizeof sql, "INSERT INTO t(rowid, v) VALUES(%s, 1)", bad[i]);
    sql_fails(db, sql, SQLITE_MISMATCH, "datatype mismatch");
    snprintf(sql, sizeof sql, "UPDATE t SET rowid = %s WHERE rowid = 3", bad[i]);
    sql_fails(db, sql, SQLITE_MISMATCH, "datatype mismatch");
  }
  sql_same(db, "SELECT rowid, * FROM t", "SELECT rowid, * FROM o");
}
END_TEST

/* ---- What is not asked is not touched */

/* SQLite's memory in bytes beyond what it holds, while the query runs. */
static sqlite3_int64 memory_of(const char *sql, const char *rows) {
  sqlite3_memory_highwater(1);
  sqlite3_int64 before = sqlite3_memory_used();
  sql_rows(db, sql, rows);
  return sqlite3_memory_highwater(0) - before;
}

START_TEST(queries_that_need_no_value_copy_none) {
  static const char *const queries[][2] = {
      {"SELECT EXISTS (SELECT 1 FROM t WHERE k = 2)", "1"},
      {"SELECT EXISTS (SELECT * FROM t WHERE k = 2)", "1"},
      {"SELECT NOT EXISTS (SELECT * FROM t WHERE k = 5)", "1"},
      {"SELECT count(*) FROM t WHERE k = 2", "1"},
      {"SELECT count(*) FROM t", "3"},
      {"SELECT k FROM t WHERE k IN (1, 2, 9)", "1\n2"},
      {"SELECT k, small FROM t", "1|s1\n2|s2\n3|s3"},
      {"SELECT max(k), min(k) FROM t", "3|1"},
      {"SELECT k FROM t ORDER BY k DESC LIMIT 2", "3\n2"},
      {"SELECT small FROM t WHERE k BETWEEN 2 AND 3", "s2\ns3"},
  };
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(k INT PRIMARY KEY, large, small);"
             "INSERT INTO t VALUES(1, zeroblob(8000000), 's1'), (2, zeroblob(8000000), 's2'),"
             " (3, zeroblob(8000000), 's3')");
  for (int place = 0; place < 3; place++) {
    for (size_t i = 0; i < sizeof queries / sizeof *queries; i++) {
      sql_rows(db, queries[i][0], queries[i][1]);
      sqlite3_int64 used = memory_of(queries[i][0], queries[i][1]);
      ck_assert_msg(used < 1000000, "%s: %lld bytes", queries[i][0], used);
    }
    ck_assert_int_ge(memory_of("SELECT length(large || '') FROM t WHERE k = 2", "0"), 8000000);
    if (place == 0) sql_ok(db, "INSERT INTO t(t) VALUES('flush')");
    if (place == 1) reopen();
  }
}
END_TEST

START_TEST(exists_is_answered_by_probes_and_absence_without_a_block) {
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(k INT PRIMARY KEY, v);"
             "WITH RECURSIVE n(i) AS (VALUES(0) UNION ALL SELECT i + 2 FROM n LIMIT 5000)"
             "INSERT INTO t SELECT i, i FROM n; INSERT INTO t(t) VALUES('flush')");
  static const char query[] = "WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 2 FROM n"
                              " LIMIT 1000) SELECT count(*) FROM n WHERE EXISTS"
                              " (SELECT 1 FROM t WHERE k = n.i)";
  static const char stat[] =
      "SELECT value FROM colfam_stats WHERE table_name = 't' AND name = '%s'";
  char *absent = sqlite3_mprintf(stat, "probe_absent"), *probes = sqlite3_mprintf(stat, "probes"),
       *gets = sqlite3_mprintf(stat, "gets");
  sql_plan(db, query, "exists k");
  sql_rows(db, "SELECT count(*) FROM t", "5000");
  sqlite3_int64 probes_before = sql_int(db, probes), absent_before = sql_int(db, absent),
                gets_before = sql_int(db, gets);
  sql_rows(db, query, "0");
  ck_assert_int_eq(sql_int(db, probes) - probes_before, 1000);
  ck_assert_int_ge(sql_int(db, absent) - absent_before, 950);
  ck_assert_int_eq(sql_int(db, gets), gets_before);
  sqlite3_free(absent);
  sqlite3_free(probes);
  sqlite3_free(gets);
}
END_TEST

static void add_values(TCase *tc) {
  tcase_add_loop_test(tc, long_values_from_every_place_by_every_read, 0, 2);
  tcase_add_test(tc, long_values_in_the_log_survive_reopening);
  tcase_add_test(tc, zeroblobs_bound_and_computed);
  tcase_add_test(tc, many_columns_of_every_type_side_by_side);
  tcase_add_test(tc, queries_that_need_no_value_copy_none);
  tcase_add_test(tc, exists_is_answered_by_probes_and_absence_without_a_block);
}

static void add_keys(TCase *tc) {
  tcase_add_loop_test(tc, keys_as_long_as_64_kib_and_no_longer, 0, 4);
  tcase_add_test(tc, keys_too_long_change_nothing);
  tcase_add_test(tc, lookups_of_keys_too_long_find_nothing);
  tcase_add_test(tc, numbers_come_back_as_they_were_stored);
  tcase_add_test(tc, numbers_that_are_equal_are_one_key);
  tcase_add_loop_test(tc, rowids_are_given_one_above_the_largest, 0, 2);
  tcase_add_loop_test(tc, rowids_beyond_the_largest_are_random_and_unused, 0, 2);
  tcase_add_loop_test(tc, rowids_given_as_other_types, 0, 2);
}

static Suite *suite(void) {
  Suite *s = suite_create("sql_values");
  TCase *tc = tcase_create("values");
  tcase_add_checked_fixture(tc, open_database, close_database);
  tcase_set_timeout(tc, 120);
  add_values(tc);
  add_keys(tc);
  suite_add_tcase(s, tc);
  return s;
}

int main(void) {
  return harness_run(suite());
}
