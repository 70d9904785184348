/* Joins, subqueries and compound statements: the planner puts the small side outside and finds rows by key
** inside, and whatever it chooses, the rows are those of ordinary tables. Written with @a, @b, ...: a colfam
** table ta beside an ordinary oa, and so on. */
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

/* A colfam table and its ordinary twin. */
static void create(const char *name, const char *columns, const char *suffix) {
  sql_okf(db, "CREATE VIRTUAL TABLE t%s USING colfam(%s); CREATE TABLE o%s(%s)%s", name, columns,
          name, columns, suffix);
}

static sqlite3_int64 counter(const char *table, const char *name) {
  char *sql = sqlite3_mprintf("SELECT value FROM colfam_stats WHERE table_name = %Q AND name = %Q",
                              table, name);
  sqlite3_int64 value = sql_int(db, sql);
  sqlite3_free(sql);
  return value;
}

/* ---- Which table is read first */

/* Of 20,000, 20 and 5,000 rows; plain tables of 20 and of 20,000, the latter with an index. */
static void make_sizes(void) {
  sql_ok(db, "CREATE TEMP TABLE n(i INTEGER PRIMARY KEY);"
             "WITH RECURSIVE s(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM s WHERE i < 20000)"
             "INSERT INTO n SELECT i FROM s;"
             "CREATE VIRTUAL TABLE big USING colfam(k INT PRIMARY KEY, v);"
             "CREATE VIRTUAL TABLE small USING colfam(k INT PRIMARY KEY, b);"
             "CREATE VIRTUAL TABLE pairs USING colfam(a TEXT, b INT, c, PRIMARY KEY(a, b));"
             "CREATE TABLE few(id INTEGER PRIMARY KEY, b, a TEXT);"
             "CREATE TABLE many(id INTEGER PRIMARY KEY, b, x); CREATE INDEX many_b ON many(b);"
             "INSERT INTO big SELECT i, i FROM n; INSERT INTO small SELECT i, i * 7 FROM n WHERE i "
             "% 1000 = 0;"
             "INSERT INTO pairs SELECT 'a' || i % 50, i, i FROM n WHERE i <= 5000;"
             "INSERT INTO few SELECT i, i * 3, 'a' || i FROM n WHERE i <= 20;"
             "INSERT INTO many SELECT i, i % 1000, i FROM n");
}

struct order {
  const char *sql;
  const char *first,
      *second; /* lines of the plan, in this order; " * " is anything within the line */
};

/* The end of the first line that has the text before " * " in it and then the text behind; NULL without. */
static const char *find_line(const char *plan, const char *wanted) {
  const char *star = strstr(wanted, " * ");
  char head[64];
  snprintf(head, sizeof head, "%.*s", star ? (int)(star - wanted) : (int)strlen(wanted), wanted);
  for (const char *at = strstr(plan, head); at; at = strstr(at + 1, head)) {
    const char *end = strchr(at, '\n');
    const char *tail = star ? strstr(at, star + 3) : at;
    if (!end) end = at + strlen(at);
    if (tail && tail < end) return end;
  }
  return NULL;
}

static void check_order(const struct order *order) {
  if (!sql_has_ranges()) return;
  char *sql = sqlite3_mprintf("EXPLAIN QUERY PLAN %s", order->sql);
  char *plan = sql_query(db, sql);
  const char *first = find_line(plan, order->first);
  ck_assert_msg(first && (!*order->second || find_line(first, order->second)),
                "%s: not %s, then %s:\n%s", order->sql, order->first, order->second, plan);
  sqlite3_free(plan);
  sqlite3_free(sql);
}

/* True with and without ANALYZE, on a connection that has opened nothing yet and on one that has. */
static const struct order orders[] = {
    {"SELECT * FROM big JOIN small ON big.k = small.b", "SCAN small", "SCAN big * :get k"},
    {"SELECT * FROM small JOIN big ON big.k = small.b", "SCAN small", "SCAN big * :get k"},
    {"SELECT * FROM big JOIN small USING(k)", "SCAN small", "SCAN big * :get k"},
    {"SELECT * FROM small JOIN big USING(k)", "SCAN small", "SCAN big * :get k"},
    {"SELECT count(*) FROM small JOIN big USING(k)", "SCAN small", "SCAN big * :exists k"},
    {"SELECT * FROM big JOIN few ON big.k = few.b", "SCAN few", "SCAN big * :get k"},
    {"SELECT * FROM few JOIN big ON big.k = few.b", "SCAN few", "SCAN big * :get k"},
    {"SELECT * FROM many JOIN small ON many.b = small.b", "SCAN small", "many USING INDEX"},
    {"SELECT * FROM small JOIN many ON many.id = small.b", "SCAN small", "many USING INTEGER"},
    {"SELECT * FROM pairs JOIN small ON pairs.a = small.b", "SCAN small", "SCAN pairs * :range a="},
    {"SELECT * FROM pairs JOIN small ON pairs.b = small.k AND pairs.a = small.b", "SCAN small",
     "SCAN pairs * :get a,b"},
    {"SELECT * FROM big JOIN pairs ON pairs.b = big.k WHERE pairs.a = 'a5'",
     "SCAN pairs * :range a=", "SCAN big * :get k"},
    {"SELECT * FROM big x JOIN big y ON x.k = y.v WHERE y.k = 5", "SCAN y * :get k",
     "SCAN x * :get k"},
    {"SELECT * FROM big x JOIN big y ON x.k = y.v WHERE y.k IN (5, 6)", "SCAN y * :multi-get k",
     "SCAN x * :get k"},
    {"SELECT * FROM big x JOIN big y ON x.k = y.v WHERE y.k BETWEEN 5 AND 6", "SCAN y * :range k",
     "SCAN x * :get k"},
    {"SELECT * FROM big x, small y, many z WHERE x.k = y.b AND z.id = x.v", "SCAN y",
     "SCAN x * :get k"},
    {"SELECT * FROM big WHERE v IN (SELECT b FROM small) AND k IN (SELECT k FROM few JOIN small"
     " USING(b))",
     "SCAN big * :multi-get k", ""},
};

/* What SQLite cannot know before ANALYZE: that `few` is small. */
static const struct order analyzed_orders[] = {
    {"SELECT * FROM big JOIN few ON big.k = few.id", "SCAN few", "SCAN big * :get k"},
    {"SELECT * FROM few JOIN big ON big.k = few.id", "SCAN few", "SCAN big * :get k"},
    {"SELECT * FROM pairs JOIN few ON pairs.a = few.a", "SCAN few", "SCAN pairs * :range a="},
    {"SELECT * FROM few JOIN pairs ON pairs.a = few.a", "SCAN few", "SCAN pairs * :range a="},
};

static void check_orders(const struct order *list, size_t count) {
  for (size_t i = 0; i < count; i++) check_order(&list[i]);
}

START_TEST(small_tables_come_first) {
  make_sizes();
  close_database();
  open_database();
  for (int round = 0; round < 4; round++) {
    check_orders(orders, sizeof orders / sizeof *orders);
    if (round == 0) sql_ok(db, "SELECT * FROM big, small, pairs LIMIT 1");
    if (round == 1)
      sql_ok(db, "BEGIN; INSERT INTO small VALUES(1, 1); DELETE FROM pairs WHERE b = 1");
    if (round == 2) sql_ok(db, "COMMIT; ANALYZE");
  }
  check_orders(analyzed_orders, sizeof analyzed_orders / sizeof *analyzed_orders);
}
END_TEST

/* Planning opens the table; when that fails, the statement says why. */
START_TEST(a_damaged_table_is_planned_and_then_fails) {
  sql_trust(db);
  make_sizes();
  sql_ok(db, "DELETE FROM big_cfmeta WHERE name = 'uuid'");
  close_database();
  open_database();
  sql_plan(db, "SELECT * FROM big WHERE k = 5", ":get k");
  sql_plan(db, "SELECT * FROM big JOIN small ON big.k = small.b", ":get k");
  sql_fails(db, "SELECT * FROM big WHERE k = 5", SQLITE_CORRUPT_VTAB, "big");
  sql_ok(db, "DROP TABLE big");
}
END_TEST

/* ---- The same rows in every order of tables */

static void make_twins(void) {
  create("a", "k INT PRIMARY KEY, x TEXT, y", " WITHOUT ROWID");
  create("b", "k TEXT, j INT, z, PRIMARY KEY(k, j DESC)", " WITHOUT ROWID");
  create("c", "id INTEGER PRIMARY KEY, k, w COLLATE NOCASE", "");
  static const char *const fills[] = {
      "INSERT INTO @a SELECT value, 'k' || value % 4, value * 2 FROM "
      "json_each('[1,2,3,4,5,6,7,8]')",
      "INSERT INTO @a VALUES('x', '3', NULL), (2.5, 'K1', 3)",
      "INSERT INTO @b SELECT 'k' || a.value, b.value, a.value * b.value"
      " FROM json_each('[0,1,2]') a, json_each('[1,2,3,4]') b",
      "INSERT INTO @b VALUES('3', 3, 'three'), ('03', 3, 'zero three'), (x'6b31', 1, 'blob')",
      "INSERT INTO @c(k, w) SELECT x, y FROM @a ORDER BY k",
      "INSERT INTO @c(k, w) VALUES(3, 'k1'), (2, 'K2'), (NULL, NULL), (1, 3)",
  };
  for (size_t i = 0; i < sizeof fills / sizeof *fills; i++) both(db, fills[i]);
  sql_ok(db, "INSERT INTO ta(ta) VALUES('flush'); INSERT INTO tb(tb) VALUES('flush')");
}

static const char *const join_conditions[] = {
    "a.x = b.k AND b.j = a.k",
    "a.x = b.k AND b.j > a.k",
    "a.k = c.k AND b.k = c.k",
    "a.k = c.id AND b.k = a.x AND b.j = c.id",
    "a.k = b.j AND b.j = c.id AND c.k = b.k",
    "b.k = c.w AND a.k = b.j",
    "c.w = b.k AND a.y = c.id",
    "a.k IN (b.j, c.id) AND b.k = 'k1'",
    "a.k BETWEEN b.j AND c.id AND c.id < 4",
    "b.k = c.k AND b.j IN (SELECT k FROM @a WHERE y > 4) AND a.k = b.j",
    "(b.k, b.j) = (a.x, a.k) AND c.id = a.k",
    "(a.k, a.x) > (c.id, c.k) AND b.k = a.x AND b.j = 2",
    "b.k GLOB a.x || '*' AND c.id = a.k AND b.j = 1",
    "b.k IS c.k AND a.k IS b.j",
    "a.k = +c.id AND b.k = a.x AND b.j IS NOT NULL",
};
static const char *const froms[] = {
    "@a a CROSS JOIN @b b CROSS JOIN @c c",
    "@a a CROSS JOIN @c c CROSS JOIN @b b",
    "@b b CROSS JOIN @a a CROSS JOIN @c c",
    "@b b CROSS JOIN @c c CROSS JOIN @a a",
    "@c c CROSS JOIN @a a CROSS JOIN @b b",
    "@c c CROSS JOIN @b b CROSS JOIN @a a",
    "@a a, @b b, @c c",
};

START_TEST(joins_of_three_tables_in_every_order) {
  make_twins();
  for (size_t i = 0; i < sizeof join_conditions / sizeof *join_conditions; i++)
    for (size_t j = 0; j < sizeof froms / sizeof *froms; j++) {
      bothf(db, "SELECT a.k, x, b.k, j, c.id FROM %s WHERE %s ORDER BY +a.k, +b.k, +b.j, +c.id",
            froms[j], join_conditions[i]);
      bothf(db, "SELECT count(*), sum(b.j) FROM %s WHERE %s", froms[j], join_conditions[i]);
    }
}
END_TEST

static const char *const statements[] = {
    "SELECT a.k, b.j FROM @a a LEFT JOIN @b b ON b.k = a.x AND b.j = a.k ORDER BY +a.k, +b.j",
    "SELECT a.k FROM @a a LEFT JOIN @b b ON b.k = a.x AND b.j = 3 WHERE b.z IS NULL ORDER BY 1",
    "SELECT k FROM @a a WHERE EXISTS (SELECT 1 FROM @b WHERE k = a.x AND j = a.k)",
    "SELECT k FROM @a a WHERE NOT EXISTS (SELECT * FROM @b WHERE k = a.x)",
    "SELECT k, (SELECT z FROM @b WHERE k = a.x AND j = 2), (SELECT count(*) FROM @b WHERE k = a.x)"
    " FROM @a a",
    "SELECT k, (SELECT max(j) FROM @b WHERE k = a.x), (SELECT min(k) FROM @b WHERE k > a.x) FROM "
    "@a a",
    "SELECT * FROM @b WHERE (k, j) = ('k1', 2)",
    "SELECT * FROM @b WHERE (k, j) > ('k1', 2) ORDER BY k, j DESC",
    "SELECT * FROM @b WHERE (k, j) <= ('k1', 2) ORDER BY k DESC, j",
    "SELECT * FROM @b WHERE (k, j) IN (VALUES('k1', 2), ('k2', 9), ('3', 3)) ORDER BY k, j DESC",
    "SELECT * FROM @b WHERE (k, j) IN (SELECT x, k FROM @a) ORDER BY k, j DESC",
    "SELECT * FROM @b WHERE (k, j) IN (SELECT k, id FROM @c) ORDER BY k, j DESC",
    "SELECT * FROM @b WHERE (k, j) IN (SELECT +id, +id FROM @c) ORDER BY k, j DESC",
    "SELECT * FROM @b WHERE (k, j) IN (SELECT CAST(id AS TEXT), '3' FROM @c) ORDER BY k, j DESC",
    "SELECT * FROM @b WHERE (k, j) IN (VALUES(3, '3'), ('03', 3.0), (x'6b31', 1)) ORDER BY k, j "
    "DESC",
    "SELECT * FROM @a WHERE (k, x) IN (SELECT j, k FROM @b) ORDER BY k",
    "SELECT * FROM @b WHERE (k, j) BETWEEN ('k0', 2) AND ('k1', 3) ORDER BY k, j DESC",
    "SELECT * FROM @b WHERE k = NULL",
    "SELECT * FROM @b WHERE k IN (NULL) AND j IN (1, NULL)",
    "SELECT * FROM @b WHERE k IS NULL OR j IS NULL",
    "SELECT * FROM @b WHERE k BETWEEN NULL AND 'x'",
    "SELECT * FROM @b WHERE k = 'k1' AND j NOT BETWEEN 2 AND NULL",
    "SELECT * FROM @b WHERE k > NULL OR j = 3",
    "SELECT * FROM @a WHERE k > 1 AND k > 3 AND k <= 9 AND k < 7",
    "SELECT * FROM @a WHERE 7 > k AND 3 < k AND k >= 2 ORDER BY k DESC",
    "SELECT * FROM @a WHERE k > 5 AND k < 3",
    "SELECT * FROM @a WHERE k >= 4 AND k <= 4",
    "SELECT * FROM @a WHERE k > 4 AND k < 4",
    "SELECT * FROM @a WHERE k = 3 AND k = 4",
    "SELECT * FROM @a WHERE k IS 3 AND k IS NOT NULL",
    "SELECT * FROM @a WHERE k IN (1, 2, 3) AND k IN (2, 3, 4) AND k > 2",
    "SELECT min(k), max(k) FROM @a",
    "SELECT min(k) FROM @a WHERE k > 3",
    "SELECT max(k) FROM @b WHERE k < 'k2'",
    "SELECT max(j), min(j) FROM @b WHERE k = 'k1'",
    "SELECT DISTINCT k FROM @b",
    "SELECT DISTINCT k, j FROM @b ORDER BY k DESC, j",
    "SELECT k, count(*), sum(j) FROM @b GROUP BY k",
    "SELECT k, j, count(*) FROM @b GROUP BY k, j ORDER BY k DESC, j",
    "SELECT k, j, count(*) FROM @b GROUP BY k, j ORDER BY k, j DESC",
    "SELECT j, count(*) FROM @b WHERE k = 'k1' GROUP BY j ORDER BY j",
    "SELECT j, count(*) FROM @b WHERE k = 'k1' GROUP BY j ORDER BY j DESC",
    "SELECT k, j, rank() OVER (PARTITION BY k ORDER BY j DESC) FROM @b",
    "SELECT k FROM @a ORDER BY k LIMIT 3",
    "SELECT k FROM @a ORDER BY k DESC LIMIT 3 OFFSET 2",
    "SELECT k FROM @a LIMIT 0",
    "SELECT k FROM @a LIMIT -1 OFFSET 5",
    "SELECT k FROM @a WHERE y % 4 = 0 LIMIT 2 OFFSET 1",
    "SELECT k FROM @b WHERE k = 'k1' ORDER BY z LIMIT 2 OFFSET 1",
    "SELECT k FROM @a UNION ALL SELECT j FROM @b LIMIT 5 OFFSET 8",
    "SELECT * FROM (SELECT k FROM @a LIMIT 4) UNION ALL SELECT * FROM (SELECT j FROM @b LIMIT 3 "
    "OFFSET 1)"
    " LIMIT 4 OFFSET 2",
    "SELECT k FROM @a UNION SELECT j FROM @b ORDER BY 1 DESC LIMIT 4",
    "SELECT k FROM @a EXCEPT SELECT j FROM @b ORDER BY 1",
    "SELECT k FROM @b INTERSECT SELECT x FROM @a",
    "WITH x AS MATERIALIZED (SELECT * FROM @a) SELECT x.k, b.z FROM x JOIN @b b ON b.k = x.x"
    " ORDER BY x.k, b.j",
    "SELECT a.k, b.j FROM @a a JOIN @b b ON a.x = b.k AND b.j = a.k OR b.j = a.y ORDER BY +a.k, "
    "+b.j, +b.k",
    "SELECT id FROM @c WHERE id IN (SELECT j FROM @b WHERE k IN (SELECT x FROM @a))",
    "SELECT count(*) FROM @a WHERE k = 3",
    "SELECT count(*) FROM @a WHERE k IN (3, 4, 5, 99)",
};

START_TEST(statements_of_all_forms) {
  make_twins();
  for (size_t i = 0; i < sizeof statements / sizeof *statements; i++) both(db, statements[i]);
}
END_TEST

/* ---- One cursor, keys of all kinds in turn */

static const char *const keys_of_all_kinds[] = {
    "k PRIMARY KEY, v",         "k BLOB PRIMARY KEY, v",
    "k TEXT PRIMARY KEY, v",    "k TEXT COLLATE NOCASE PRIMARY KEY, v",
    "k NUMERIC PRIMARY KEY, v", "k REAL PRIMARY KEY, v",
    "k INT PRIMARY KEY, v",     "k INT COLLATE RTRIM PRIMARY KEY, v",
    "k PRIMARY KEY DESC, v",    "k TEXT, v, PRIMARY KEY(k, v)",
};

#define ALL_VALUES                                                                             \
  "('a'), (7), (NULL), ('7'), (7.0), (x'37'), ('07'), ('A'), (''), (x''), (7.5), ('7.5'), "    \
  "('a '), (x'6100'), (9007199254740993), (9007199254740992.0), ('9007199254740993'), "        \
  "(-9223372036854775808), (-9223372036854775808.0), (9223372036854775807), ('1e3'), (1000), " \
  "(-0.0), (0), ('-0'), (9e999), ('9e999'), (zeroblob(70000)), ('a')"

static const char *const right_sides[] = {
    "x",
    "+x",
    "s",
    "i",
    "r",
    "m",
    "b",
    "CAST(x AS TEXT)",
    "CAST(x AS INTEGER)",
    "CAST(x AS NUMERIC)",
    "CAST(x AS BLOB)",
    "(SELECT x)",
    "(SELECT i)",
};

static void ask_for_keys(const char *right) {
  bothf(db, "SELECT n, @.k, @.v FROM w LEFT JOIN @ ON k = %s ORDER BY n, +@.k, +@.v", right);
  bothf(db, "SELECT n, @.k FROM w LEFT JOIN @ ON k IS %s ORDER BY n, +@.k", right);
  bothf(db, "SELECT n, EXISTS(SELECT 1 FROM @ WHERE k = %s) FROM w ORDER BY n", right);
  /* the first of several */
  bothf(db, "SELECT n, (SELECT %s FROM @ WHERE k = %s AND v > 1) FROM w ORDER BY n",
        sql_native() ? "v" : "min(v)", right);
  bothf(db, "SELECT n, (SELECT count(*) FROM @ WHERE k = %s AND v = n) FROM w ORDER BY n", right);
  bothf(db, "SELECT n, (SELECT count(*) FROM @ WHERE k IN (%s, 7, 'a')) FROM w ORDER BY n", right);
  bothf(db, "SELECT count(*) FROM @ WHERE k IN (SELECT %s FROM w)", right);
  bothf(db, "SELECT n, k FROM w LEFT JOIN @ ON k = %s WHERE k = 7 OR v = 3 ORDER BY n, +k", right);
}

START_TEST(one_cursor_asks_for_keys_of_all_kinds) {
  sql_ok(db, "CREATE TABLE w(n INTEGER PRIMARY KEY, x, s TEXT, i INT, r REAL, m NUMERIC, b BLOB);"
             "INSERT INTO w(x) VALUES " ALL_VALUES ";"
             "UPDATE w SET s = x, i = x, r = x, m = x, b = x");
  for (size_t i = 0; i < sizeof keys_of_all_kinds / sizeof *keys_of_all_kinds; i++) {
    both_create(db, keys_of_all_kinds[i], " WITHOUT ROWID", "");
    both(db,
         "INSERT OR IGNORE INTO @(k, v) SELECT x, n FROM w WHERE x IS NOT NULL AND length(x) < 9");
    for (size_t j = 0; j < sizeof right_sides / sizeof *right_sides; j++)
      ask_for_keys(right_sides[j]);
    both_drop(db);
  }
}
END_TEST

START_TEST(one_cursor_asks_for_rowids_of_all_kinds) {
  sql_ok(db, "CREATE TABLE w(n INTEGER PRIMARY KEY, x, s TEXT, i INT, r REAL, m NUMERIC, b BLOB);"
             "INSERT INTO w(x) VALUES " ALL_VALUES ";"
             "DELETE FROM w WHERE x = -9223372036854775808.0;"
             "UPDATE w SET s = x, i = x, r = x, m = x, b = x");
  both_create(db, "k INTEGER PRIMARY KEY, v", "", "");
  both(db, "INSERT INTO @(k, v) VALUES(7, 2), (0, 1), (1000, 3), (9007199254740993, 4), "
           "(9007199254740992, 5), (9223372036854775807, 6)");
  for (size_t j = 0; j < sizeof right_sides / sizeof *right_sides; j++)
    ask_for_keys(right_sides[j]);
}
END_TEST

/* ---- Limits of the interface */

/* More constraints than fit a mask of 32 or 64 bits, with keys before and behind them. */
START_TEST(very_many_constraints) {
  make_twins();
  sqlite3_str *many = sqlite3_str_new(NULL);
  for (int i = 0; i < 70; i++)
    sqlite3_str_appendf(many, "%sz IS NOT %d", i ? " AND " : "", i + 100);
  char *terms = sqlite3_str_finish(many);
  static const char *const wanted[] = {"k = 'k1' AND j = 2",
                                       "k IN ('k1', 'k2', 3) AND j IN (1, 2)",
                                       "k = 'k1' AND j > 1",
                                       "k IN (1, 'k1')",
                                       "k = 3 AND j = 3",
                                       "k GLOB 'k*' AND j = 2",
                                       "(k, j) IN (VALUES('k1', 2), (3, 3))"};
  for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
    bothf(db, "SELECT * FROM @b WHERE %s AND %s ORDER BY k, j DESC", terms, wanted[i]);
    bothf(db, "SELECT * FROM @b WHERE %s AND %s ORDER BY k, j DESC LIMIT 2", wanted[i], terms);
    bothf(db, "SELECT a.k, b.j FROM @a a JOIN @b b ON b.k = a.x WHERE %s AND b.j = a.k", terms);
  }
  sqlite3_free(terms);
}
END_TEST

/* colUsed has 64 bits, the last of which stands for all columns from there on. */
START_TEST(columns_beyond_the_63rd) {
  sqlite3_str *columns = sqlite3_str_new(NULL);
  for (int i = 0; i < 80; i++) sqlite3_str_appendf(columns, "c%d, ", i);
  char *names = sqlite3_str_finish(columns);
  char *first = sqlite3_mprintf("k INT PRIMARY KEY, %slast", names);
  char *behind = sqlite3_mprintf("%sk INT, last, PRIMARY KEY(k)", names);
  create("f", first, " WITHOUT ROWID");
  create("l", behind, " WITHOUT ROWID");
  static const char *const queries[] = {
      "SELECT last FROM @%s WHERE k = 2",
      "SELECT c79 FROM @%s WHERE k = 2",
      "SELECT k FROM @%s WHERE k = 2",
      "SELECT count(*) FROM @%s WHERE k = 2",
      "SELECT count(*) FROM @%s",
      "SELECT k, c5 FROM @%s WHERE k IN (1, 3) ORDER BY k DESC",
      "SELECT max(k), last FROM @%s",
      "SELECT count(last) FROM @%s WHERE k > 1",
      "SELECT EXISTS (SELECT 1 FROM @%s WHERE k = 3)",
  };
  for (int table = 0; table < 2; table++) {
    const char *name = table ? "l" : "f";
    bothf(db,
          "INSERT INTO @%s(k, c0, c5, c79, last) VALUES(1, 'a', 5, 79, 'z'), (2, 'b', 6, 80, 'y'),"
          " (3, 'c', 7, 81, 'x')",
          name);
    for (size_t i = 0; i < sizeof queries / sizeof *queries; i++) bothf(db, queries[i], name);
    bothf(db, "UPDATE @%s SET last = last || '!' WHERE k = 2", name);
    bothf(db, "SELECT * FROM @%s", name);
  }
  sqlite3_free(names);
  sqlite3_free(first);
  sqlite3_free(behind);
}
END_TEST

/* ---- What is touched */

START_TEST(absence_and_presence_touch_no_value) {
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(k INT PRIMARY KEY, v, filter_bits = 20);"
             "CREATE TABLE r(b); WITH RECURSIVE s(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM s"
             " WHERE i < 400) INSERT INTO r SELECT i FROM s;"
             "INSERT INTO t SELECT b, b FROM r WHERE b % 2; INSERT INTO t(t) VALUES('flush')");
  static const char *const queries[][2] = {
      {"SELECT count(*) FROM r WHERE EXISTS (SELECT 1 FROM t WHERE k = b)", "200"},
      {"SELECT count(*) FROM r WHERE NOT EXISTS (SELECT 1 FROM t WHERE k = b)", "200"},
      {"SELECT count(*) FROM r LEFT JOIN t ON k = b WHERE k IS NULL", "200"},
      {"SELECT sum((SELECT count(*) FROM t WHERE k = b)) FROM r", "200"},
      {"SELECT count(*) FROM r JOIN t ON k = b", "200"},
  };
  for (size_t i = 0; i < sizeof queries / sizeof *queries; i++) {
    sqlite3_int64 probes = counter("t", "probes"), gets = counter("t", "gets");
    sql_plan(db, queries[i][0], ":exists k");
    sql_rows(db, queries[i][0], queries[i][1]);
    ck_assert_int_eq(counter("t", "probes") - probes, 400);
    ck_assert_int_eq(counter("t", "gets"), gets);
  }
}
END_TEST

static sqlite3_int64 blocks(void) {
  return counter("t", "blocks_read") + counter("t", "cache_hits");
}

/* A query that takes rows from an end of the key, and its answer: one seek, a block or two a run. */
struct ending {
  const char *query, *answer;
};

static void check_endings(const struct ending *endings, size_t count) {
  for (size_t i = 0; i < count; i++) {
    sqlite3_int64 before = blocks(), scans = counter("t", "scans");
    bool told = sql_has_ranges() || !strstr(endings[i].query, "LIMIT");
    if (told) sql_rows(db, endings[i].query, endings[i].answer);
    if (!sql_has_ranges()) continue;
    ck_assert_msg(blocks() - before <= 4, "%s: %lld blocks", endings[i].query,
                  (long long)(blocks() - before));
    ck_assert_int_eq(counter("t", "scans") - scans, 1);
  }
}

START_TEST(ends_of_the_key_are_one_seek) {
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(k INT, j TEXT, v, PRIMARY KEY(k, j DESC),"
             " block_bytes = 1024);"
             "WITH RECURSIVE s(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM s WHERE i < 20000)"
             "INSERT INTO t SELECT i / 100, 'j' || (i % 100), printf('%.40c', 'x') FROM s;"
             "INSERT INTO t(t) VALUES('flush'); SELECT count(v) FROM t");
  static const struct ending endings[] = {
      {"SELECT min(k) FROM t", "0"},
      {"SELECT max(k) FROM t", "200"},
      {"SELECT max(k) FROM t WHERE k < 77", "76"},
      {"SELECT min(j) FROM t WHERE k = 5", "j0"},
      {"SELECT max(j) FROM t WHERE k = 5", "j99"},
      {"SELECT k, j FROM t ORDER BY k LIMIT 2", "0|j99\n0|j98"},
      {"SELECT k, j FROM t ORDER BY k DESC, j LIMIT 2", "200|j0\n199|j0"},
      {"SELECT k, j FROM t WHERE k > 100 ORDER BY k, j DESC LIMIT 1", "101|j99"},
      {"SELECT k, j FROM t WHERE k IN (5, 9, 3) ORDER BY k DESC, j LIMIT 1", "9|j0"},
      {"SELECT k, j FROM t WHERE k = 7 ORDER BY j DESC LIMIT 1", "7|j99"},
      {"SELECT k FROM t LIMIT 3", "0\n0\n0"},
      {"SELECT k FROM t WHERE k >= 50 LIMIT 1 OFFSET 2", "50"},
      {"SELECT EXISTS (SELECT 1 FROM t WHERE k = 60)", "1"},
      {"SELECT EXISTS (SELECT 1 FROM t WHERE k = 60 AND j > 'j5')", "1"},
  };
  check_endings(endings, sizeof endings / sizeof *endings);
}
END_TEST

START_TEST(ends_of_the_rowids_are_one_seek) {
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(k INTEGER PRIMARY KEY, v, block_bytes = 1024);"
             "WITH RECURSIVE s(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM s WHERE i < 20000)"
             "INSERT INTO t SELECT i, printf('%.40c', 'x') FROM s;"
             "INSERT INTO t(t) VALUES('flush'); SELECT count(v) FROM t");
  static const struct ending endings[] = {
      {"SELECT min(k) FROM t", "1"},
      {"SELECT min(rowid) FROM t", "1"},
      {"SELECT max(k) FROM t", "20000"},
      {"SELECT max(rowid) FROM t", "20000"},
      {"SELECT min(k), length(v) FROM t", "1|40"},
      {"SELECT min(k) FROM t WHERE k > 77", "78"},
      {"SELECT max(k) FROM t WHERE k < 77", "76"},
      {"SELECT k FROM t ORDER BY k LIMIT 2", "1\n2"},
      {"SELECT k FROM t ORDER BY rowid DESC LIMIT 2", "20000\n19999"},
  };
  check_endings(endings, sizeof endings / sizeof *endings);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("sql_joins");
  TCase *tcase = tcase_create("joins");
  tcase_set_timeout(tcase, 60);
  tcase_add_checked_fixture(tcase, open_database, close_database);
  tcase_add_test(tcase, small_tables_come_first);
  tcase_add_test(tcase, a_damaged_table_is_planned_and_then_fails);
  tcase_add_test(tcase, joins_of_three_tables_in_every_order);
  tcase_add_test(tcase, statements_of_all_forms);
  tcase_add_test(tcase, one_cursor_asks_for_keys_of_all_kinds);
  tcase_add_test(tcase, one_cursor_asks_for_rowids_of_all_kinds);
  tcase_add_test(tcase, very_many_constraints);
  tcase_add_test(tcase, columns_beyond_the_63rd);
  tcase_add_test(tcase, absence_and_presence_touch_no_value);
  tcase_add_test(tcase, ends_of_the_key_are_one_seek);
  tcase_add_test(tcase, ends_of_the_rowids_are_one_seek);
  suite_add_tcase(suite, tcase);
  return harness_run(suite);
}
