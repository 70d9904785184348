/* Keys with COLLATE NOCASE and RTRIM, single and composite, in both directions: every statement on an
** ordinary table WITHOUT ROWID and on a colfam table of the same columns, with rows in the batch, in the log,
** in files, and in all of them. */
#include <stdbool.h>
#include <string.h>

#include "harness_both.h"

static sqlite3 *db;

static void open_database(void) {
  db = sql_open(sql_path("collations.db"));
  sql_ok(db, "PRAGMA synchronous = off");
}

static void close_database(void) {
  sql_close(db);
}

/* Columns k, j and v each. */
static const char *const shapes[] = {
    "k TEXT COLLATE NOCASE PRIMARY KEY, j, v",
    "k COLLATE RTRIM PRIMARY KEY, j COLLATE NOCASE, v",
    "k TEXT COLLATE 'rtrim', j, v, PRIMARY KEY(k DESC)",
    "v, j, k COLLATE NoCase, PRIMARY KEY(k COLLATE NOCASE DESC)",
    "k TEXT COLLATE NOCASE, j COLLATE RTRIM, v, PRIMARY KEY(k, j DESC)",
    "j TEXT COLLATE \"rtrim\", k TEXT COLLATE [nocase], v COLLATE NOCASE,"
    " PRIMARY KEY(j COLLATE RTRIM DESC, k)",
    "k TEXT COLLATE Binary PRIMARY KEY, j, v COLLATE RTRIM",
    "k INT COLLATE NOCASE, j, v, PRIMARY KEY(k)",
    "k VARCHAR(5) PRIMARY KEY COLLATE RTRIM, j, v",
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static const char *const values[] = {
    "'Abc'",
    "'aBC'",
    "'abc'",
    "'abc  '",
    "'ab'",
    "''",
    "'  '",
    "'A'",
    "'a'",
    "'['",
    "'_'",
    "'Z'",
    "'z '",
    "'a' || char(0)",
    "'A' || char(0) || 'x'",
    "'a' || char(0) || 'Y'",
    "'1'",
    "'01'",
    "'1 '",
    "1",
    "1.0",
    "-0.0",
    "0",
    "x'41'",
    "x'61'",
    "CAST(x'41fffe20' AS TEXT)",
    "CAST(x'61fffe' AS TEXT)",
    "'\xc3\x84'",
    "'\xc3\xa4'",
    "'1E5'",
    "'1e5 '",
    "9007199254740993",
    "NULL",
};
enum { VALUES = sizeof values / sizeof *values };

/* ---- Places */

enum place { BATCH, LOG, FILES, COMPACTED, MIXED, PLACES };

/* OR IGNORE: some are equal, which differs from collation to collation. */
static void insert_values(int from, int to) {
  for (int i = from; i < to; i++)
    bothf(db, "INSERT OR IGNORE INTO @(k, j, v) VALUES(%s, %s, %d)", values[i],
          values[(i * 7 + 3) % (VALUES - 1)], i);
}

static void fill(enum place place) {
  if (place == BATCH) sql_ok(db, "BEGIN");
  insert_values(0, VALUES / 2);
  if (place == MIXED) sql_ok(db, "INSERT INTO t(t) VALUES('flush'); BEGIN");
  insert_values(VALUES / 2, VALUES);
  if (place == FILES || place == COMPACTED) sql_ok(db, "INSERT INTO t(t) VALUES('flush')");
  if (place == COMPACTED) sql_ok(db, "INSERT INTO t(t) VALUES('compact')");
}

static void make(const char *shape, enum place place) {
  both_create(db, shape, " WITHOUT ROWID", place == MIXED ? ", filter_bits = 0" : "");
  fill(place);
}

static void finish(void) {
  static const char *const upkeep[] = {"", "INSERT INTO t(t) VALUES('flush')",
                                       "INSERT INTO t(t) VALUES('compact')"};
  if (!sqlite3_get_autocommit(db)) sql_ok(db, "COMMIT");
  for (int i = 0; i < 3; i++) {
    sql_ok(db, upkeep[i]);
    both(db, "SELECT k, j, v FROM @");
    sql_rows(db, "SELECT * FROM colfam_check('t')", "");
  }
  both_drop(db);
}

/* ---- Comparisons */

static void compare_with(const char *x, const char *y) {
  static const char *const conditions[] = {
      "k = %s",
      "k IS %s",
      "k <> %s",
      "k < %s",
      "k <= %s",
      "k > %s",
      "k >= %s",
      "%s = k",
      "k = %s COLLATE BINARY",
      "k = %s COLLATE NOCASE",
      "k = %s COLLATE RTRIM",
      "k > %s COLLATE BINARY",
      "k <= %s COLLATE NOCASE",
      "k >= %s COLLATE RTRIM",
      "j = %s",
      "j > %s",
  };
  for (size_t i = 0; i < sizeof conditions / sizeof *conditions; i++) {
    char *condition = sqlite3_mprintf(conditions[i], x);
    bothf(db, "SELECT k, j, v FROM @ WHERE %s", condition);
    bothf(db, "SELECT count(*), EXISTS (SELECT 1 FROM @ WHERE %s) FROM @ WHERE %s", condition,
          condition);
    sqlite3_free(condition);
  }
  bothf(db, "SELECT k, v FROM @ WHERE k IN (%s, %s, 'zz')", x, y);
  bothf(db, "SELECT k, v FROM @ WHERE k IN (%s, %s, 'ABC', 1) ORDER BY k DESC, j%s", x, y,
        sql_native() ? "" : ", v");
  bothf(db, "SELECT k, v FROM @ WHERE k NOT IN (%s, %s)", x, y);
  bothf(db, "SELECT k, v FROM @ WHERE k BETWEEN %s AND %s", x, y);
  /* which of equal ones comes first, the order of the table tells */
  bothf(db, "SELECT k, v FROM @ WHERE k > %s AND k < %s ORDER BY k%s", x, y,
        sql_native() ? "" : ", v");
  bothf(db, "SELECT k, j, v FROM @ WHERE k = %s AND j = %s", x, y);
  bothf(db, "SELECT k, j, v FROM @ WHERE k = %s AND j IN (%s, 'ab', 1)", x, y);
  bothf(db, "SELECT k, j, v FROM @ WHERE j = %s AND k >= %s", x, y);
  bothf(db,
        sql_native() ? "SELECT min(k), max(k) FROM @ WHERE k >= %s"
                     : "SELECT length(rtrim(min(k))), length(rtrim(max(k))) FROM @ WHERE k >= %s",
        x);
}

START_TEST(comparisons_of_every_value) {
  make(shapes[_i % SHAPES], (enum place)(_i / SHAPES));
  for (int i = 0; i < VALUES; i++) compare_with(values[i], values[(i + 5) % VALUES]);
  finish();
}
END_TEST

START_TEST(bound_values_compare_as_literals_do) {
  make(shapes[_i], FILES);
  sqlite3_stmt *stmts[2];
  for (int i = 0; i < 2; i++) {
    char *sql = sqlite3_mprintf("SELECT group_concat(v) FROM (SELECT 1 AS n, v FROM %c WHERE k = ?1"
                                " UNION ALL SELECT 2, v FROM %c WHERE k IN (?1, ?2)"
                                " UNION ALL SELECT 3, v FROM %c WHERE k > ?1 AND k <= ?2%s)",
                                "ot"[i], "ot"[i], "ot"[i], sql_native() ? "" : " ORDER BY n, v");
    ck_assert_int_eq(sqlite3_prepare_v2(db, sql, -1, &stmts[i], NULL), SQLITE_OK);
    sqlite3_free(sql);
  }
  static const char *const texts[] = {"ABC", "abc", "abc   ", "A", "Z", "", " ", "_", "1", "1 "};
  enum { TEXTS = sizeof texts / sizeof *texts };
  for (int i = 0; i < TEXTS * TEXTS; i++) {
    for (int side = 0; side < 2; side++) {
      sqlite3_reset(stmts[side]);
      sqlite3_bind_text(stmts[side], 1, texts[i % TEXTS], -1, SQLITE_STATIC);
      sqlite3_bind_text(stmts[side], 2, texts[i / TEXTS], -1, SQLITE_STATIC);
      ck_assert_int_eq(sqlite3_step(stmts[side]), SQLITE_ROW);
    }
    const char *o = (const char *)sqlite3_column_text(stmts[0], 0);
    const char *t = (const char *)sqlite3_column_text(stmts[1], 0);
    ck_assert_pstr_eq(t, o);
  }
  sqlite3_finalize(stmts[0]);
  sqlite3_finalize(stmts[1]);
  finish();
}
END_TEST

START_TEST(order_groups_and_joins) {
  static const char *const queries[] = {
      "SELECT k, j, v FROM @ ORDER BY k, j",
      "SELECT k, j, v FROM @ ORDER BY k DESC, j DESC",
      "SELECT k, v FROM @ ORDER BY k COLLATE BINARY, j COLLATE BINARY, v",
      "SELECT k, v FROM @ ORDER BY k COLLATE NOCASE, v",
      "SELECT k, v FROM @ ORDER BY k COLLATE RTRIM DESC, v LIMIT 5 OFFSET 2",
      "SELECT min(k), max(k) FROM @",
      "SELECT count(DISTINCT k), count(DISTINCT j), count(DISTINCT k COLLATE BINARY) FROM @",
      "SELECT count(*), sum(v) FROM @ GROUP BY k ORDER BY k",
      "SELECT count(*), sum(v) FROM @ GROUP BY k ORDER BY k DESC",
      "SELECT count(*), sum(v) FROM @ GROUP BY k, j ORDER BY k, j DESC",
      "SELECT count(*), sum(v) FROM @ GROUP BY k COLLATE BINARY",
      "SELECT count(*) FROM (SELECT DISTINCT k FROM @)",
      "SELECT k, v FROM @ WHERE k LIKE 'a%'",
      "SELECT k, v FROM @ WHERE k GLOB 'a*'",
      "SELECT k, v FROM @ WHERE k LIKE 'AB_' ESCAPE '!'",
      "SELECT r.i, k, v FROM r JOIN @ ON k = x ORDER BY r.i, k, j",
      "SELECT r.i, k, v FROM r JOIN @ ON x = k ORDER BY r.i, k, j",
      "SELECT r.i, k, v FROM r JOIN @ ON y = k ORDER BY r.i, k, j",
      "SELECT r.i, k, v FROM r JOIN @ ON k = y AND j >= x ORDER BY r.i, k, j",
      "SELECT r.i, (SELECT count(*) FROM @ WHERE k > r.x), (SELECT count(*) FROM @ WHERE r.y >= k)"
      " FROM r",
      "SELECT k, v FROM @ WHERE k IN (SELECT x FROM r)",
      "SELECT k, v FROM @ WHERE k IN (SELECT y FROM r) ORDER BY k DESC, j",
      "SELECT r.i FROM r WHERE EXISTS (SELECT 1 FROM @ WHERE k = r.x)",
      "SELECT r.i FROM r WHERE NOT EXISTS (SELECT 1 FROM @ WHERE k = r.y)",
      "SELECT a.v, b.v FROM @ a JOIN @ b ON a.k = b.j ORDER BY a.v, b.v",
      "SELECT a.v, b.v FROM @ a JOIN @ b ON a.j = b.k ORDER BY a.v, b.v",
  };
  make(shapes[_i % SHAPES], (enum place)(_i / SHAPES));
  sql_ok(db, "CREATE TABLE r(i INTEGER PRIMARY KEY, x, y TEXT COLLATE NOCASE)");
  for (int i = 0; i < VALUES; i++)
    sql_okf(db, "INSERT INTO r VALUES(%d, %s, %s)", i, values[i], values[VALUES - 1 - i]);
  for (size_t i = 0; i < sizeof queries / sizeof *queries; i++) both(db, queries[i]);
  sql_ok(db, "DROP TABLE r");
  finish();
}
END_TEST

START_TEST(plans_use_the_key_under_its_own_collation) {
  static const char *const plans[][2] = {
      {"SELECT v FROM t WHERE k = 'A' AND j = 'B'", "get k,j"},
      {"SELECT v FROM t WHERE k = 'A' AND j IN ('B', 'C')", "multi-get k,j"},
      {"SELECT 1 FROM t WHERE k = 'A' AND j = 'B'", "exists k,j"},
      {"SELECT v FROM t WHERE k > 'A' AND k < 'B' ORDER BY k DESC, j", "range k"},
      {"SELECT v FROM t WHERE k = 'A' COLLATE NOCASE ORDER BY j DESC", "range k="},
      {"SELECT v FROM t WHERE k = 'A' COLLATE BINARY", "range k="},
      {"SELECT v FROM t WHERE k > 'A' COLLATE BINARY", "scan"},
      {"SELECT v FROM t WHERE k = 'A' COLLATE RTRIM", "scan"},
      {"SELECT v FROM t WHERE k > 'A' COLLATE RTRIM", "scan"},
      {"SELECT v FROM t WHERE k = 'A' AND j = 'B' COLLATE BINARY", "get k,j"},
      {"SELECT v FROM t WHERE k IN ('A', 'a') AND j COLLATE BINARY IN ('B', 'b')", "multi-get k,j"},
      {"SELECT v FROM t WHERE k LIKE 'ab%' ORDER BY k", "range k"},
      {"SELECT v FROM t WHERE k GLOB 'aB*' ORDER BY k", "range k"},
      {"SELECT v FROM t WHERE k = 'a' AND j LIKE 'ab%'", "range k="},
      {"SELECT v FROM n WHERE id = 5", "get id"},
      {"SELECT v FROM n WHERE id = 5 COLLATE RTRIM", "get id"},
  };
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(k TEXT COLLATE NOCASE, j TEXT COLLATE RTRIM, v,"
             " PRIMARY KEY(k, j DESC));"
             "CREATE VIRTUAL TABLE n USING colfam(id INTEGER COLLATE NOCASE PRIMARY KEY, v)");
  for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
    sql_plan(db, plans[i][0], plans[i][1]);
    bool sorts = strstr(plans[i][0], "ORDER BY") != NULL;
    char *plan = sqlite3_mprintf("EXPLAIN QUERY PLAN %s", plans[i][0]);
    char *rows = sql_query(db, plan);
    ck_assert_msg(!sorts || !sql_has_ranges() || !strstr(rows, "TEMP B-TREE"), "%s", rows);
    sqlite3_free(rows);
    sqlite3_free(plan);
  }
}
END_TEST

/* ---- Writes */

START_TEST(writes_with_equal_keys) {
  static const char *const writes[] = {
      "INSERT INTO @(k, j, v) VALUES('ABC', 'ab', 100)",
      "INSERT INTO @(k, j, v) VALUES('new', 'NEW', 101), ('NEW', 'new', 102)",
      "INSERT OR IGNORE INTO @(k, j, v) VALUES('new ', 'NEW', 103), ('NEW', 'new', 104)",
      "INSERT OR REPLACE INTO @(k, j, v) VALUES('aBc', 'ab', 105), ('abc ', 'ab', 106)",
      "REPLACE INTO @(k, j, v) SELECT k, upper(j), v + 200 FROM @ ORDER BY v",
      "INSERT OR FAIL INTO @(k, j, v) VALUES('x', 'x', 1), ('X', 'x ', 2), ('y', 'y', 3)",
      "UPDATE @ SET k = upper(k)",
      "UPDATE @ SET k = k || ' '",
      "UPDATE OR IGNORE @ SET k = lower(k), j = upper(j)",
      "UPDATE OR REPLACE @ SET k = rtrim(k) WHERE k LIKE '% '",
      "UPDATE @ SET k = 'ABC' WHERE k = 'abc'",
      "UPDATE OR FAIL @ SET j = 'J '",
      "UPDATE OR REPLACE @ SET j = 'j'",
      "DELETE FROM @ WHERE k = 'A'",
      "DELETE FROM @ WHERE k IN ('Z', 'z', 1)",
      "DELETE FROM @ WHERE k > 'B' AND k < 'b'",
      "INSERT INTO @(k, j, v) VALUES('Return', 'Me ', 1) RETURNING k, j, v",
      "INSERT OR REPLACE INTO @(k, j, v) VALUES('rETURN', 'mE', 2) RETURNING k, j, v",
      "INSERT INTO @(k, j, v) VALUES(NULL, 1, 1)",
      "DELETE FROM @",
  };
  make(shapes[_i % SHAPES], (enum place)(_i / SHAPES));
  for (size_t i = 0; i < sizeof writes / sizeof *writes; i++) {
    bool several = strstr(writes[i], "UPDATE OR") || strstr(writes[i], "k || ' '");
    if (!sql_native() && several) continue; /* the outcome is told by which row comes first */
    both(db, writes[i]);
    both(db, "SELECT k, j, v FROM @");
  }
  finish();
}
END_TEST

START_TEST(writes_undone) {
  make(shapes[_i % SHAPES], (enum place)(_i / SHAPES));
  sql_ok(db, "SAVEPOINT a");
  both(db, sql_native() ? "UPDATE OR IGNORE @ SET k = upper(k)" : "UPDATE @ SET j = j || 'x'");
  sql_ok(db, "SAVEPOINT b");
  both(db, "REPLACE INTO @(k, j, v) SELECT lower(k), j, v FROM @ ORDER BY v");
  both(db, "SELECT k, j, v FROM @");
  sql_ok(db, "ROLLBACK TO b");
  both(db, "SELECT k, j, v FROM @");
  sql_ok(db, "ROLLBACK TO a; RELEASE a");
  both(db, "SELECT k, j, v FROM @");
  finish();
}
END_TEST

START_TEST(triggers_see_the_texts_as_written) {
  make(shapes[_i], LOG);
  sql_trust(db);
  sql_ok(db, "CREATE TABLE ro(x); CREATE TABLE rt(x); CREATE TABLE seen(name, what)");
  for (int i = 0; i < 2; i++)
    sql_okf(db,
            "CREATE TRIGGER r%c AFTER INSERT ON r%c BEGIN"
            " INSERT OR REPLACE INTO %c(k, j, v) VALUES(new.x, 'J', 9);"
            " INSERT INTO seen SELECT '%c', k FROM %c WHERE k = new.x;"
            " SELECT RAISE(FAIL, 'no') WHERE EXISTS (SELECT 1 FROM %c WHERE k = 'STOP'); END",
            "ot"[i], "ot"[i], "ot"[i], "ot"[i], "ot"[i], "ot"[i]);
  both(db, "INSERT INTO r@ VALUES('aBC'), ('Abc '), ('new')");
  both(db, "INSERT INTO r@ VALUES('other'), ('stop '), ('Stop'), ('STOP'), ('never')");
  both(db, "SELECT k, j, v FROM @");
  both(db, "SELECT what FROM seen WHERE name = '@'");
  sql_ok(db, "DROP TABLE ro; DROP TABLE rt; DROP TABLE seen");
  finish();
}
END_TEST

/* Groups of equal keys: each spelling in turn replaces the one before, from one place over another. */
START_TEST(equal_keys_of_other_bytes_are_one_in_every_place) {
  static const char *const groups[][3] = {
      {"k COLLATE NOCASE PRIMARY KEY, j, v", "'Abc'", "'aBC'"},
      {"k TEXT COLLATE RTRIM PRIMARY KEY, j, v", "'x '", "'x'"},
      {"k, j, v, PRIMARY KEY(k COLLATE BINARY DESC)", "1", "1.0"},
      {"k COLLATE NOCASE, j COLLATE RTRIM, v, PRIMARY KEY(j, k)", "0.0", "-0.0"},
      {"k PRIMARY KEY, j, v", "-9223372036854775808.0", "-9223372036854775808"},
  };
  const char *const *group = groups[_i];
  both_create(db, group[0], " WITHOUT ROWID", "");
  for (int step = 0; step < 8; step++) {
    const char *key = group[1 + step % 2];
    if (step == 4 || step == 6) sql_ok(db, "BEGIN");
    bothf(db, "INSERT INTO @(k, j, v) VALUES(%s, 'j', %d)", key, step);
    bothf(db, "INSERT OR IGNORE INTO @(k, j, v) VALUES(%s, 'j ', %d)", key, step);
    bothf(db, "REPLACE INTO @(k, j, v) VALUES(%s, 'j', %d), ('other', 'j', 1)", key, step);
    bothf(db, "SELECT k, j, v FROM @ WHERE k IN (%s, %s, 'none')", group[1], group[2]);
    bothf(db, "SELECT k, v FROM @ WHERE k = %s AND j = 'j'", group[2]);
    bothf(db, "SELECT k, v FROM @ WHERE j IN ('j', 'k') AND k IN (%s)", group[1]);
    bothf(db, "UPDATE @ SET k = %s WHERE k = %s", group[1 + (step + 1) % 2], key);
    bothf(db, "SELECT k, j, v FROM @ WHERE k BETWEEN %s AND %s", group[1], group[2]);
    if (step == 3) bothf(db, "DELETE FROM @ WHERE k = %s", key);
    if (step % 2) sql_ok(db, "INSERT INTO t(t) VALUES('flush')");
    if (step == 5 || step == 7) sql_ok(db, "COMMIT");
  }
  finish();
}
END_TEST

/* ---- Long keys */

/* What counts is the key's size: spaces at its end are none of it. */
START_TEST(longest_keys) {
  /* of which the bytes ascend */
  sql_okf(db, "CREATE VIRTUAL TABLE t USING colfam(k TEXT COLLATE RTRIM, PRIMARY KEY(k%s))",
          sql_reverse() ? " DESC" : "");
  sql_ok(db, "CREATE VIRTUAL TABLE n USING colfam(k COLLATE NOCASE, v, PRIMARY KEY(k DESC));"
             "INSERT INTO t VALUES('a' || printf('%*s', 500000, '')), (printf('%.*c', 65535, 'B'));"
             "INSERT INTO n VALUES(printf('%.*c', 65533, 'B'), 1)");
  sql_fails(db, "INSERT INTO t VALUES(printf('%.*c', 65536, 'B') || '  ')", SQLITE_TOOBIG,
            "table t: a key may have at most 65536 bytes when encoded");
  if (sql_native()) { /* a descending key's end and its zeros take more, in other orders not this one's */
    sql_fails(db, "INSERT INTO n VALUES(printf('%.*c', 65534, 'B'), 1)", SQLITE_TOOBIG, "table n");
    sql_fails(db, "INSERT INTO n VALUES('A' || char(0) || printf('%.*c', 40000, 'B'), 1)",
              SQLITE_TOOBIG, "table n");
  }
  for (int i = 0; i < 2; i++) {
    sql_rows(db, "SELECT length(k), rtrim(k) = 'a' FROM t", "65535|0\n500001|1");
    sql_rows(db, "SELECT length(k) FROM t WHERE k = 'a'", "500001");
    sql_rows(db, "SELECT k = printf('%.*c', 65533, 'b'), k = upper(k) COLLATE BINARY FROM n",
             "1|1");
    sql_rows(db, "SELECT count(*) FROM t WHERE k = printf('%.*c', 65536, 'B')", "0");
    sql_ok(db, "INSERT INTO t(t) VALUES('flush'); INSERT INTO n(n) VALUES('flush')");
  }
  sql_rows(db, "SELECT * FROM colfam_check('t')", "");
  sql_rows(db, "SELECT * FROM colfam_check('n')", "");
}
END_TEST

/* ---- Looking inside */

START_TEST(functions_take_and_show_folded_keys) {
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(a COLLATE NOCASE, b COLLATE RTRIM, v,"
             " PRIMARY KEY(a, b)); INSERT INTO t VALUES('Ab', 'C ', 1), ('Z', 5.0, 2)");
  sql_rows(db,
           "SELECT colfam_may_exist('t', 'AB', 'C   '), colfam_may_exist('t', 'aB', 'c'),"
           " colfam_may_exist('t', 'z', 5)",
           "1|0|1");
  sql_ok(db, "INSERT INTO t(t) VALUES('flush')");
  if (sql_native())
    sql_rows(db, "SELECT smallest, largest FROM colfam_files('t')", "'ab', 'C'|'z', 5");
}
END_TEST

/* ---- Collations of the application */

static int compare_backwards(void *unused, int a_size, const void *a, int b_size, const void *b) {
  (void)unused;
  int order = memcmp(b, a, (size_t)(a_size < b_size ? a_size : b_size));
  return order ? order : b_size - a_size;
}

static void register_backwards(void) {
  int rc = sqlite3_create_collation(db, "backwards", SQLITE_UTF8, NULL, compare_backwards);
  ck_assert_int_eq(rc, SQLITE_OK);
}

START_TEST(collation_of_the_application_on_a_value_column) {
  static const char create[] =
      "CREATE VIRTUAL TABLE t USING colfam(k PRIMARY KEY, j, v COLLATE backwards)";
  sql_fails(db, create, SQLITE_ERROR, "no such collation sequence: backwards");
  sql_rows(db, "SELECT count(*) FROM sqlite_master", "0");
  register_backwards();
  both_create(db, "k PRIMARY KEY, j, v COLLATE backwards", " WITHOUT ROWID", "");
  both(db, "INSERT INTO @ VALUES(1, 1, 'a'), (2, 2, 'c'), (3, 3, 'b')");
  both(db, "SELECT k FROM @ ORDER BY v");
  both(db, "SELECT k FROM @ WHERE v < 'b'");
  both(db, "SELECT max(v) FROM @");
}
END_TEST

/* A connection that does not know it: only what compares by it fails, until it does. */
START_TEST(collation_of_the_application_that_is_missing) {
  static const char missing[] = "no such collation sequence";
  register_backwards();
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(k TEXT COLLATE NOCASE PRIMARY KEY,"
             " j COLLATE Backwards, v COLLATE \"backwards\");"
             "INSERT INTO t VALUES('A', 1, 'a'), ('b', 2, 'c'), ('C', 3, 'b')");
  close_database();
  open_database();
  sqlite3_stmt *kept, *running;
  ck_assert_int_eq(sqlite3_prepare_v2(db, "SELECT 5", -1, &kept, NULL), SQLITE_OK);
  ck_assert_int_eq(sqlite3_prepare_v2(db, "VALUES(1), (2)", -1, &running, NULL), SQLITE_OK);
  ck_assert_int_eq(sqlite3_step(running), SQLITE_ROW);
  sql_fails(db, "SELECT k FROM t", SQLITE_ERROR, missing);
  sqlite3_finalize(running);
  sql_rows(db, "SELECT k, j, v FROM t WHERE k <> 'B'", "A|1|a\nC|3|b");
  sql_fails(db, "SELECT k FROM t ORDER BY v", SQLITE_ERROR, missing);
  sql_fails(db, "SELECT k FROM t WHERE j = 2", SQLITE_ERROR, missing);
  sql_fails(db, "SELECT 1 ORDER BY 'x' COLLATE backwards", SQLITE_ERROR, missing);
  sql_rows(db, "SELECT k FROM t WHERE v COLLATE BINARY > 'a'", "b\nC");
  sql_ok(db, "INSERT INTO t VALUES('d', 4, 'd'); UPDATE t SET v = 'changed' WHERE k = 'B';"
             "ALTER TABLE t RENAME TO u");
  ck_assert_int_eq(sqlite3_step(kept), SQLITE_ROW);
  sqlite3_finalize(kept);
  register_backwards();
  sql_rows(db, "SELECT k, v FROM u ORDER BY v", "d|d\nb|changed\nC|b\nA|a");
  close_database();
  open_database();
  sql_ok(db, "DROP TABLE u");
}
END_TEST

int main(void) {
  Suite *suite = suite_create("sql_collations");
  TCase *tcase = tcase_create("collations");
  tcase_set_timeout(tcase, 120);
  tcase_add_checked_fixture(tcase, open_database, close_database);
  tcase_add_loop_test(tcase, comparisons_of_every_value, 0, SHAPES * PLACES);
  tcase_add_loop_test(tcase, bound_values_compare_as_literals_do, 0, SHAPES);
  tcase_add_loop_test(tcase, order_groups_and_joins, 0, SHAPES * PLACES);
  tcase_add_test(tcase, plans_use_the_key_under_its_own_collation);
  tcase_add_loop_test(tcase, writes_with_equal_keys, 0, SHAPES * PLACES);
  tcase_add_loop_test(tcase, writes_undone, 0, SHAPES * PLACES);
  tcase_add_loop_test(tcase, triggers_see_the_texts_as_written, 0, SHAPES);
  tcase_add_loop_test(tcase, equal_keys_of_other_bytes_are_one_in_every_place, 0, 5);
  tcase_add_test(tcase, longest_keys);
  tcase_add_test(tcase, functions_take_and_show_folded_keys);
  tcase_add_test(tcase, collation_of_the_application_on_a_value_column);
  tcase_add_test(tcase, collation_of_the_application_that_is_missing);
  suite_add_tcase(suite, tcase);
  return harness_run(suite);
}
