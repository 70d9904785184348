/* IN lists of every size, for keys of every form, in every place where a key can live: the rows of the
** ordinary table, by one multi-get, whose counters tell what it touched. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "harness_sql.h"

static sqlite3 *db;

static void open_database(void) {
  db = sql_open(sql_path("lists.db"));
  sql_ok(db, "PRAGMA synchronous = off");
}

static void close_database(void) {
  sql_close(db);
}

/* The largest list has 70,000 keys; every second one of them is in the table. */
enum { ROWS = 35000 };

/* A number i becomes a key by these; `list` holds the keys of a list. */
struct key_form {
  const char *columns;
  const char *key;    /* of i, without the columns bound by = */
  const char *row;    /* of i: all key columns */
  const char *lookup; /* what stands before IN */
  const char *plan;
};

static const struct key_form key_forms[] = {
    {"k INT PRIMARY KEY, v", "i", "i", "k", "multi-get k"},
    {"k INTEGER PRIMARY KEY, v", "i", "i", "k", "multi-get k"},
    {"k TEXT PRIMARY KEY, v", "printf('key %06d', i)", "printf('key %06d', i)", "k", "multi-get k"},
    {"k BLOB, v, PRIMARY KEY(k DESC)", "CAST(i AS BLOB)", "CAST(i AS BLOB)", "k", "multi-get k"},
    {"a TEXT, b INT, v, PRIMARY KEY(a, b DESC)", "i", "'one', i", "a = 'one' AND b",
     "multi-get a,b"},
};
enum { FORMS = sizeof key_forms / sizeof *key_forms };

/* ---- Places */

enum place { BATCH, MEMTABLE, ONE_RUN, RUNS, COMPACTED, DELETED, MIXED, PLACES };

/* The same on the ordinary table o and the colfam table t. */
static void on_both(const char *format, const char *a, const char *b) {
  const char *names[] = {"o", "t"};
  for (int i = 0; i < 2; i++) {
    char *sql = sqlite3_mprintf(format, names[i], a, b);
    sql_ok(db, sql);
    sqlite3_free(sql);
  }
}

/* The rows 2 * j with j % of = part. */
static void insert_part(const struct key_form *form, int part, int of, const char *value) {
  char where[64], select[512];
  snprintf(where, sizeof where, "i %% 2 = 0 AND i / 2 %% %d = %d", of, part);
  snprintf(select, sizeof select, "SELECT %s, '%s ' || i FROM numbers WHERE %s ORDER BY i",
           form->row, value, where);
  on_both("INSERT OR REPLACE INTO %s %s", select, "");
}

static void delete_part(int part, int of) {
  char where[64];
  snprintf(where, sizeof where, "CAST(substr(v, instr(v, ' ') + 1) AS INT) / 2 %% %d = %d", of,
           part);
  on_both("DELETE FROM %s WHERE %s", where, "");
}

static void flush(void) {
  sql_ok(db, "INSERT INTO t(t) VALUES('flush')");
}

/* Every part lies in another place; some rows are overwritten, some deleted, at each level. */
static void fill_mixed(const struct key_form *form) {
  for (int i = 0; i < 5; i++) {
    insert_part(form, i, 7, "run");
    if (i) insert_part(form, i - 1, 21, "newer run");
    delete_part(i, 35);
    flush();
    if (i == 2) sql_ok(db, "INSERT INTO t(t) VALUES('compact')");
  }
  insert_part(form, 5, 7, "memtable");
  delete_part(8, 49);
  sql_ok(db, "BEGIN");
  insert_part(form, 6, 7, "batch");
  insert_part(form, 3, 70, "newest");
  delete_part(9, 40);
}

static void fill_runs(const struct key_form *form) {
  for (int i = 0; i < 4; i++) {
    insert_part(form, i, 4, "run");
    flush();
  }
}

static void fill(const struct key_form *form, enum place place) {
  if (place == MIXED) {
    fill_mixed(form);
    return;
  }
  if (place == RUNS || place == COMPACTED) {
    fill_runs(form);
    if (place == COMPACTED) sql_ok(db, "INSERT INTO t(t) VALUES('compact')");
    return;
  }
  if (place == BATCH) sql_ok(db, "BEGIN");
  insert_part(form, 0, 1, "row");
  if (place == ONE_RUN || place == DELETED) flush();
  if (place == DELETED) delete_part(1, 2);
  if (place == DELETED) on_both("DELETE FROM %s", "", "");
}

static void make_tables(const struct key_form *form, enum place place) {
  sql_okf(db, "CREATE VIRTUAL TABLE t USING colfam(%s)", form->columns);
  sql_okf(db, "CREATE TABLE o(%s)%s", form->columns,
          strstr(form->columns, "INTEGER") ? "" : " WITHOUT ROWID");
  sql_okf(db,
          "CREATE TEMP TABLE numbers(i INTEGER PRIMARY KEY);"
          "WITH RECURSIVE n(i) AS (VALUES(0) UNION ALL SELECT i + 1 FROM n LIMIT %d)"
          "INSERT INTO numbers SELECT i FROM n;"
          "CREATE TEMP TABLE list(k)",
          2 * ROWS);
  fill(form, place);
}

/* ---- Lists */

static sqlite3_int64 stat(const char *name) {
  char sql[200];
  snprintf(sql, sizeof sql, "SELECT value FROM colfam_stats WHERE table_name = 't' AND name = '%s'",
           name);
  return sql_int(db, sql);
}

/* `size` keys spread over all numbers, half of them absent. */
static void make_list(const struct key_form *form, int size) {
  sql_ok(db, "DELETE FROM list");
  if (size)
    sql_okf(db, "INSERT INTO list SELECT %s FROM numbers WHERE i %% %d = %d", form->key,
            2 * ROWS / size, size > 1 && size < 2 * ROWS ? 1 : 0);
  sql_okf(db, "DELETE FROM list WHERE rowid > %d", size);
  if (size >= 32) ck_assert_int_eq(sql_int(db, "SELECT count(*) FROM list"), size);
}

/* The list as SQL text. */
static char *literal_list(void) {
  return sql_query(db, "SELECT ifnull(group_concat(quote(k), ', '), '') FROM list");
}

static char *list_query(const struct key_form *form, const char *table, const char *list,
                        const char *order) {
  return sqlite3_mprintf("SELECT * FROM %s WHERE %s IN (%s) %s", table, form->lookup, list, order);
}

/* Rows as the ordinary table's; one multi-get. */
static void check_list(const struct key_form *form, const char *list, int size, const char *order) {
  char *query = list_query(form, "t", list, order), *other = list_query(form, "o", list, order);
  sqlite3_int64 calls = stat("multi_gets"), keys = stat("multi_get_keys");
  sql_same(db, query, other);
  if (size > 1) {
    ck_assert_int_eq(stat("multi_gets") - calls, 1);
    ck_assert_int_eq(stat("multi_get_keys") - keys, size);
    sql_plan(db, query, form->plan);
  }
  sqlite3_free(query);
  sqlite3_free(other);
}

static void check_list_texts(const struct key_form *form, int size) {
  static const char json[] = "SELECT value FROM json_each((SELECT json_group_array(k) FROM list))";
  char *literals = literal_list();
  check_list(form, literals, size, "");
  sqlite3_free(literals);
  if (!strstr(form->columns, "BLOB")) check_list(form, json, size, "");
}

/* The longest list is written out for one form of keys only: parsing it takes longer than the answer. */
static void check_lists(const struct key_form *form, int size) {
  const char *key = form->columns[0] == 'a' ? "b" : "k";
  char order[64];
  make_list(form, size);
  check_list(form, "SELECT k FROM list", size, "");
  if (size > 1000 && form != key_forms) return;
  check_list_texts(form, size);
  snprintf(order, sizeof order, "ORDER BY %s DESC LIMIT 50", key);
  check_list(form, "SELECT k FROM list", size, order);
  snprintf(order, sizeof order, "ORDER BY %s", key);
  check_list(form, "SELECT k FROM list", size, order);
}

START_TEST(lists_of_every_size_in_every_place) {
  static const int sizes[] = {0, 1, 32, 33, 1000, 2 * ROWS};
  const struct key_form *form = &key_forms[_i / PLACES];
  enum place place = (enum place)(_i % PLACES);
  make_tables(form, place);
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) check_lists(form, sizes[i]);
  if (!sqlite3_get_autocommit(db)) sql_ok(db, "COMMIT");
  close_database();
  open_database();
  sql_same(db, "SELECT count(*), min(v), max(v) FROM t", "SELECT count(*), min(v), max(v) FROM o");
  sql_rows(db, "SELECT * FROM colfam_check('t')", "");
}
END_TEST

/* ---- Counters */

START_TEST(list_of_100_over_4_runs_passes_each_filter_once) {
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(k INT PRIMARY KEY, v, block_bytes = 1024,"
             " compression = none)");
  for (int run = 0; run < 4; run++)
    sql_okf(db,
            "WITH RECURSIVE n(i) AS (VALUES(%d) UNION ALL SELECT i + 4 FROM n WHERE i < 1990)"
            "INSERT INTO t SELECT i, printf('%%.100c', 'x') FROM n;"
            "INSERT INTO t(t) VALUES('flush')",
            run);
  ck_assert_int_eq(sql_int(db, "SELECT count(*) FROM colfam_files('t')"), 4);
  close_database();
  open_database();
  static const char query[] =
      "SELECT count(v) FROM t WHERE k IN (SELECT value FROM json_each((WITH RECURSIVE n(i) AS"
      " (VALUES(500) UNION ALL SELECT i + 1 FROM n LIMIT 100) SELECT json_group_array(i) FROM n)))";
  sql_plan(db, query, "multi-get k");
  sql_rows(db, "SELECT count(*) FROM t WHERE k = -1", "0");
  sqlite3_int64 calls = stat("multi_gets"), keys = stat("multi_get_keys"), gets = stat("gets");
  sqlite3_int64 passes = stat("multi_get_filter_passes"), checks = stat("filter_checks");
  sqlite3_int64 distinct = stat("multi_get_blocks"), read = stat("blocks_read");
  sql_rows(db, query, "100");
  ck_assert_int_eq(stat("multi_gets") - calls, 1);
  ck_assert_int_eq(stat("multi_get_keys") - keys, 100);
  ck_assert_int_eq(stat("gets"), gets);
  ck_assert_int_eq(stat("multi_get_filter_passes") - passes, 4);
  ck_assert_int_le(stat("filter_checks") - checks, 400);
  sqlite3_int64 blocks = stat("multi_get_blocks") - distinct;
  ck_assert_int_le(stat("blocks_read") - read, blocks);
  /* 25 neighbouring rows a run, 8 or 9 a block; and a block for each filter's mistake. */
  ck_assert_int_le(blocks, 4 * 5 + stat("filter_false_positives"));
  ck_assert_int_ge(stat("multi_get_blocks_shared"), 100 - blocks);
  read = stat("blocks_read");
  sql_rows(db, query, "100");
  ck_assert_int_eq(stat("blocks_read"), read);
}
END_TEST

START_TEST(list_of_absent_keys_reads_almost_no_block) {
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(k INT PRIMARY KEY, v, block_bytes = 1024);"
             "WITH RECURSIVE n(i) AS (VALUES(0) UNION ALL SELECT i + 2 FROM n LIMIT 20000)"
             "INSERT INTO t SELECT i, i FROM n; INSERT INTO t(t) VALUES('flush');"
             "CREATE TABLE absent(i); WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL"
             " SELECT i + 2 FROM n LIMIT 1000) INSERT INTO absent SELECT i FROM n");
  sqlite3_int64 useful = stat("filter_useful"), blocks = stat("multi_get_blocks");
  sql_rows(db, "SELECT count(*) FROM t WHERE k IN (SELECT i FROM absent)", "0");
  ck_assert_int_ge(stat("filter_useful") - useful, 950);
  ck_assert_int_le(stat("multi_get_blocks") - blocks, 50);
}
END_TEST

/* In seconds of this thread's processor time. */
static double seconds_for_lists(int lists, int size) {
  struct timespec begin, end;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
  for (int i = 0; i < lists; i++)
    sql_okf(db,
            "SELECT v FROM t WHERE k IN (SELECT value FROM json_each((SELECT json_group_array(k)"
            " FROM o WHERE k BETWEEN %d AND %d)))",
            i * size, i * size + size - 1);
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
  return (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) / 1e9;
}

/* Work for each row that grows with the list would make one of these about 100 times the other. */
START_TEST(rows_of_a_long_list_cost_what_they_do_in_short_ones) {
  sql_ok(db, "CREATE TABLE o(k INTEGER PRIMARY KEY);"
             "CREATE VIRTUAL TABLE t USING colfam(k INT PRIMARY KEY, v);"
             "WITH RECURSIVE n(i) AS (VALUES(0) UNION ALL SELECT i + 1 FROM n LIMIT 100000)"
             "INSERT INTO o SELECT i FROM n; INSERT INTO t SELECT k, 'v' FROM o;"
             "INSERT INTO t(t) VALUES('flush')");
  double short_lists = seconds_for_lists(400, 250), long_list = seconds_for_lists(1, 100000);
  ck_assert_msg(long_list < 10 * short_lists, "%f s in one list, %f s in 400", long_list,
                short_lists);
}
END_TEST

/* ---- What a list may hold */

static void make_small_tables(const char *type) {
  sql_okf(db,
          "CREATE VIRTUAL TABLE t USING colfam(k %s PRIMARY KEY, v);"
          "CREATE TABLE o(k %s PRIMARY KEY, v) WITHOUT ROWID;"
          "INSERT INTO o VALUES(1, 'one'), ('a', 'text'), (x'61', 'blob'), (2.5, 'real'),"
          " ('1e1', 'ten'), (-0.0, 'zero'), (9007199254740993, 'big'), ('', 'empty'), (x'', 'e');"
          "INSERT INTO t SELECT * FROM o",
          type, type);
}

START_TEST(lists_with_duplicates_nulls_and_mixed_types) {
  static const char *const lists[] = {
      "1, 1, 1.0, '1', 1",
      "NULL, 1, NULL",
      "NULL, NULL",
      "1, 'a', x'61', 2.5, NULL, '', x''",
      "'2.5', '1e1', 10, '10', 10.0, 0, -0.0, '0'",
      "9007199254740992, 9007199254740993, 9007199254740993.0",
      "SELECT v FROM o",
      "SELECT k FROM o",
      "SELECT k FROM t",
      "SELECT k FROM o WHERE 0",
      "VALUES(1), ('a'), (NULL)",
      "SELECT CAST(k AS TEXT) FROM o",
      "SELECT CAST(k AS BLOB) FROM o",
      "SELECT value FROM json_each('[1, 1.0, \"a\", null, 2.5, true, [1], {}]')",
  };
  static const char *const types[] = {"", "BLOB", "TEXT", "INT", "REAL", "NUMERIC"};
  make_small_tables(types[_i]);
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
    for (int negated = 0; negated < 2; negated++) {
      char *form = sqlite3_mprintf("SELECT k, v FROM %%s WHERE k %sIN (%s)", negated ? "NOT " : "",
                                   lists[i]);
      char *query = sqlite3_mprintf(form, "t"), *other = sqlite3_mprintf(form, "o");
      sql_same(db, query, other);
      sqlite3_free(form);
      sqlite3_free(query);
      sqlite3_free(other);
    }
  }
}
END_TEST

START_TEST(two_lists_on_a_composite_key_and_beside_other_conditions) {
  static const char *const conditions[] = {
      "a IN (1, 2, 3) AND b IN ('x', 'z')",
      "a IN (3, 1) AND b = 'y'",
      "a = 2 AND b IN ('z', 'x', 'x', NULL)",
      "a IN (SELECT a FROM o WHERE b = 'x') AND b > 'x'",
      "a IN (1, 2) AND a IN (2, 3) AND b IN ('x', 'y')",
      "(a, b) IN (VALUES(1, 'x'), (2, 'y'), (9, 'z'))",
      "a = 1 OR a = 3 OR a = 1",
      "a IN (1, 2) AND b BETWEEN 'x' AND 'y' AND v IN (1, 2, 3, 4)",
      "a IN (5, 6) AND b IN ('x')",
      "a IN (1, 2, 3) AND b IN ('x', 'z') ORDER BY a DESC, b",
      "a IN (1, 2, 3) AND b IN ('x', 'z') ORDER BY b, a",
      "a IN (1, 2, 3) AND b IN ('x', 'z') ORDER BY a, b DESC LIMIT 2 OFFSET 1",
  };
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(a, b TEXT, v, PRIMARY KEY(a, b DESC));"
             "CREATE TABLE o(a, b TEXT, v, PRIMARY KEY(a, b DESC)) WITHOUT ROWID;"
             "INSERT INTO o SELECT a.value, b.value, a.value + b.id FROM json_each('[1,2,3,4]') a,"
             " json_each('[\"x\",\"y\",\"z\"]') b; INSERT INTO t SELECT * FROM o");
  for (size_t i = 0; i < sizeof conditions / sizeof *conditions; i++) {
    char *query = sqlite3_mprintf("SELECT * FROM t WHERE %s", conditions[i]);
    char *other = sqlite3_mprintf("SELECT * FROM o WHERE %s", conditions[i]);
    sql_same(db, query, other);
    sqlite3_free(query);
    sqlite3_free(other);
  }
}
END_TEST

/* ---- Lists on several columns of a key */

static void make_cube(void) {
  sql_ok(
      db,
      "CREATE VIRTUAL TABLE t USING colfam(a INT, b TEXT, c NUMERIC, v, PRIMARY KEY(a, b DESC, c));"
      "CREATE TABLE o(a INT, b TEXT, c NUMERIC, v, PRIMARY KEY(a, b DESC, c)) WITHOUT ROWID;"
      "WITH RECURSIVE n(i) AS (VALUES(0) UNION ALL SELECT i + 1 FROM n LIMIT 8)"
      "INSERT INTO o SELECT x.i, y.i, z.i % 4, x.i * 100 + y.i * 10 + z.i FROM n x, n y, n z"
      " WHERE z.i < 4; INSERT INTO t SELECT * FROM o;"
      "INSERT INTO t(t) VALUES('flush')");
}

static const char *const cube_conditions[] = {
    "a IN (7, 1, 3, 9) AND b IN ('5', 2, '0') AND c IN (3, 0, 2.0, NULL)",
    "a IN (7, 1) AND b IN (SELECT value FROM json_each('[4, \"2\", 4]')) AND c = 1",
    "a IN (SELECT a FROM o WHERE a > 4) AND b IN (1, 2, 3)",
    "a IN (2, 3) AND b IN (1, 2) AND c > 1",
    "a IN (2, 3) AND b = '4' AND c IN (1, 2)",
    "a = 6 AND b IN ('3', '1') AND c IN (1, '1', 3)",
    "a IN (2, 3) AND b > '5'",
    "a IN (1, 2) AND b IN (3, 4) AND c IN (1, 2) AND v % 2",
    "(a = 1 OR a = 5) AND (b = '2' OR b = '6') AND (c = 0 OR c = 3)",
    "a IN (1, 2) AND b IN ('1') AND c IN ()",
    "a IN (NULL) AND b IN (1, 2)",
    "a IN (1, 2) AND b IN (3) AND c IN (x'31', 'x', 1.5, 1)",
};
static const char *const cube_orders[] = {
    "",
    "ORDER BY a, b DESC, c",
    "ORDER BY a DESC, b, c DESC",
    "ORDER BY a, b, c",
    "ORDER BY b, a, c",
    "ORDER BY a, b DESC, c LIMIT 5 OFFSET 2",
};

START_TEST(lists_on_every_column_come_in_key_order) {
  make_cube();
  for (size_t i = 0; i < sizeof cube_conditions / sizeof *cube_conditions; i++)
    for (size_t j = 0; j < sizeof cube_orders / sizeof *cube_orders; j++) {
      char *query =
          sqlite3_mprintf("SELECT * FROM t WHERE %s %s", cube_conditions[i], cube_orders[j]);
      char *other =
          sqlite3_mprintf("SELECT * FROM o WHERE %s %s", cube_conditions[i], cube_orders[j]);
      sql_same(db, query, other);
      sqlite3_free(query);
      sqlite3_free(other);
    }
}
END_TEST

START_TEST(lists_on_several_columns_are_one_multi_get) {
  make_cube();
  sqlite3_int64 calls = stat("multi_gets"), keys = stat("multi_get_keys"), scans = stat("scans");
  sql_rows(db,
           "SELECT group_concat(v) FROM t WHERE a IN (1, 5, 11) AND b IN ('2', '6') AND"
           " c IN (0, 3)",
           "160,163,120,123,560,563,520,523");
  ck_assert_int_eq(stat("multi_gets") - calls, 1);
  ck_assert_int_eq(stat("multi_get_keys") - keys, 12);
  ck_assert_int_eq(stat("scans"), scans);
  sql_rows(db, "SELECT sum(v) FROM t WHERE a IN (1, 5) AND b IN ('2', '6')", "5464");
  ck_assert_int_eq(stat("multi_gets") - calls, 1);
  ck_assert_int_eq(stat("scans") - scans, 1);
}
END_TEST

/* 300 x 300 x 2 combinations are no longer made: the first list's ranges are walked. */
START_TEST(product_beyond_its_bound_is_walked) {
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(a INT, b INT, c INT, v, PRIMARY KEY(a, b, c));"
             "CREATE TABLE o(a INT, b INT, c INT, v, PRIMARY KEY(a, b, c)) WITHOUT ROWID;"
             "CREATE TABLE list(i INTEGER PRIMARY KEY);"
             "WITH RECURSIVE n(i) AS (VALUES(0) UNION ALL SELECT i + 1 FROM n LIMIT 3000)"
             "INSERT INTO o SELECT i % 400, i * 7 % 500, i % 3, i FROM n;"
             "INSERT INTO t SELECT * FROM o;"
             "INSERT INTO list SELECT DISTINCT a FROM o WHERE a < 300");
  static const char *const forms[] = {
      "SELECT * FROM %s WHERE a IN (SELECT i FROM list) AND b IN (SELECT i FROM list) AND c IN (0, "
      "2)",
      "SELECT * FROM %s WHERE a IN (SELECT i FROM list) AND b IN (SELECT i FROM list) AND c > 0"
      " ORDER BY a DESC, b DESC, c DESC",
      "SELECT * FROM %s WHERE a IN (3, 5, 8) AND b IN (SELECT i FROM list) AND c IN (SELECT i FROM"
      " list) ORDER BY a, b, c",
  };
  for (int i = 0; i < 3; i++) {
    char *query = sqlite3_mprintf(forms[i], "t"), *other = sqlite3_mprintf(forms[i], "o");
    sqlite3_int64 calls = stat("multi_gets"), scans = stat("scans");
    sql_same(db, query, other);
    ck_assert_int_eq(stat("multi_gets"), calls);
    ck_assert_int_eq(stat("scans") - scans, 1);
    sqlite3_free(query);
    sqlite3_free(other);
  }
}
END_TEST

/* Beyond eleven columns, or thirty-one in all, the rest is left to SQLite. */
START_TEST(lists_on_a_key_of_many_columns) {
  sqlite3_str *columns = sqlite3_str_new(NULL), *where = sqlite3_str_new(NULL);
  for (int i = 0; i < 40; i++) {
    sqlite3_str_appendf(columns, "%sc%d", i ? ", " : "", i);
    sqlite3_str_appendf(where, "%sc%d %s", i ? " AND " : "", i,
                        i < 9 || i > 12 ? "= 1" : "IN (1, 2)");
  }
  char *c = sqlite3_str_finish(columns), *w = sqlite3_str_finish(where);
  sql_okf(db,
          "CREATE VIRTUAL TABLE t USING colfam(%s, PRIMARY KEY(%s));"
          "CREATE TABLE o(%s, PRIMARY KEY(%s)) WITHOUT ROWID",
          c, c, c, c);
  for (int i = 0; i < 64; i++) {
    sqlite3_str *values = sqlite3_str_new(NULL);
    for (int j = 0; j < 40; j++)
      sqlite3_str_appendf(values, "%s%d", j ? ", " : "",
                          1 + (j >= 9 && j < 14 ? i >> (j - 9) & 1
                               : j == 39        ? i >> 5
                                                : 0));
    char *v = sqlite3_str_finish(values);
    sql_okf(db, "INSERT INTO t VALUES(%s); INSERT INTO o VALUES(%s)", v, v);
    sqlite3_free(v);
  }
  char *query = sqlite3_mprintf("SELECT * FROM t WHERE %s", w);
  char *other = sqlite3_mprintf("SELECT * FROM o WHERE %s", w);
  sql_same(db, query, other);
  sqlite3_free(query);
  sqlite3_free(other);
  sqlite3_free(c);
  sqlite3_free(w);
}
END_TEST

/* Behind 32 other terms SQLite no longer tells = from IN. */
START_TEST(lists_behind_more_terms_than_are_told_apart) {
  static const char *const columns[] = {"k TEXT PRIMARY KEY", "k INT PRIMARY KEY", "k PRIMARY KEY"};
  static const char *const last[] = {"k IN ('7', '9', 'x')",
                                     "k IN (7, 9.0, '8')",
                                     "k IN (SELECT v + 1 FROM o)",
                                     "k = '7'",
                                     "k = 7",
                                     "k = v",
                                     "k IS '7'",
                                     "k = (SELECT 7)",
                                     "k > '7'"};
  sqlite3_str *terms = sqlite3_str_new(NULL);
  for (int i = 0; i < 33; i++) sqlite3_str_appendf(terms, "v > %d AND ", -i);
  char *where = sqlite3_str_finish(terms);
  for (size_t c = 0; c < sizeof columns / sizeof *columns; c++) {
    sql_okf(db, "CREATE VIRTUAL TABLE t USING colfam(%s, v); CREATE TABLE o(%s, v)", columns[c],
            columns[c]);
    for (int i = 1; i < 20; i++) sql_okf(db, "INSERT INTO o VALUES(%d, %d)", i, i);
    sql_ok(db, "INSERT INTO o VALUES('x', 99), ('7.5', 99); INSERT INTO t SELECT * FROM o");
    for (size_t i = 0; i < sizeof last / sizeof *last; i++) {
      static const char query[] = "SELECT quote(k), v FROM %s WHERE %s %s ORDER BY k";
      char *asked = sqlite3_mprintf(query, "t", where, last[i]);
      char *other = sqlite3_mprintf(query, "o", where, last[i]);
      sql_same(db, asked, other);
      sqlite3_free(asked);
      sqlite3_free(other);
    }
    sql_ok(db, "DROP TABLE t; DROP TABLE o");
  }
  sqlite3_free(where);
}
END_TEST

START_TEST(lists_that_write_the_table_they_read) {
  make_small_tables("");
  on_both("DELETE FROM %s WHERE k IN (SELECT k FROM t WHERE v > 'one')", "", "");
  sql_same(db, "SELECT * FROM t", "SELECT * FROM o");
  on_both("UPDATE %s SET v = v || '!' WHERE k IN (SELECT k FROM t)", "", "");
  sql_same(db, "SELECT * FROM t", "SELECT * FROM o");
  sql_ok(db, "DELETE FROM t WHERE k IN (SELECT k FROM o)");
  sql_rows(db, "SELECT count(*) FROM t", "0");
}
END_TEST

static Suite *suite(void) {
  Suite *s = suite_create("sql_inlists");
  TCase *tc = tcase_create("inlists");
  tcase_add_checked_fixture(tc, open_database, close_database);
  tcase_set_timeout(tc, 30);
  tcase_add_loop_test(tc, lists_of_every_size_in_every_place, 0, FORMS * PLACES);
  tcase_add_test(tc, list_of_100_over_4_runs_passes_each_filter_once);
  tcase_add_test(tc, list_of_absent_keys_reads_almost_no_block);
  tcase_add_loop_test(tc, lists_with_duplicates_nulls_and_mixed_types, 0, 6);
  tcase_add_test(tc, two_lists_on_a_composite_key_and_beside_other_conditions);
  tcase_add_test(tc, lists_on_every_column_come_in_key_order);
  tcase_add_test(tc, lists_on_several_columns_are_one_multi_get);
  tcase_add_test(tc, product_beyond_its_bound_is_walked);
  tcase_add_test(tc, lists_on_a_key_of_many_columns);
  tcase_add_test(tc, lists_behind_more_terms_than_are_told_apart);
  tcase_add_test(tc, lists_that_write_the_table_they_read);
  suite_add_tcase(s, tc);
  TCase *costs = tcase_create("costs");
  tcase_add_checked_fixture(costs, open_database, close_database);
  tcase_set_timeout(costs, 30);
  tcase_add_test(costs, rows_of_a_long_list_cost_what_they_do_in_short_ones);
  suite_add_tcase(s, costs);
  return s;
}

int main(void) {
  return harness_run(suite());
}
