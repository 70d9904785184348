/* Every kind of comparison on keys against ordinary tables with the same rows: declared types x operators x
** constants x the ways a right side can come (literal, bound, cast, column of each affinity, join, list,
** pattern), without order and in both. Rows are compared in the order they come, values by quote(), so that
** integer and real stay apart.
**
** A seeded share of all statements runs; COLFAM_ALL=1 runs every one. ORDER BY gets a unary plus on the
** ordinary side, where SQLite takes `k = 1` for a proof that k is constant, though '01' and '1' may both
** be found. A rowid compared with the real -2^63 is left out (ext/README.md, Comparisons): SQLite answers
** that in two ways. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness_sql.h"

/* What keys and right sides are made of: each looks like another under some affinity. */
static const char *const constants[] = {"NULL",
                                        "0",
                                        "1",
                                        "2",
                                        "-1",
                                        "10",
                                        "1.0",
                                        "2.5",
                                        "-0.0",
                                        "1e300",
                                        "-1e300",
                                        "9007199254740993",
                                        "9007199254740992.0",
                                        "9223372036854775807",
                                        "-9223372036854775808",
                                        "9223372036854775808.0",
                                        "''",
                                        "'1'",
                                        "'01'",
                                        "' 1'",
                                        "'1.0'",
                                        "'+1'",
                                        "'1e0'",
                                        "'10'",
                                        "'a'",
                                        "'abc'",
                                        "'!'",
                                        "'+x'",
                                        "'12ab'",
                                        "'9'",
                                        "x''",
                                        "x'31'",
                                        "x'ff00'"};
enum { CONSTANTS = sizeof constants / sizeof *constants };

/* A pair of tables: t is colfam's, o SQLite's. */
struct shape {
  const char *columns;  /* and key, as module arguments */
  const char *ordinary; /* behind the columns of the ordinary table */
  bool has_j;           /* a second key column */
};
static const struct shape shapes[] = {
    {"k BLOB PRIMARY KEY, v", "WITHOUT ROWID", false},
    {"k INT PRIMARY KEY, v", "WITHOUT ROWID", false},
    {"k TEXT PRIMARY KEY, v", "WITHOUT ROWID", false},
    {"k PRIMARY KEY, v", "WITHOUT ROWID", false},
    {"k REAL PRIMARY KEY, v", "WITHOUT ROWID", false},
    {"k NUMERIC PRIMARY KEY, v", "WITHOUT ROWID", false},
    {"k TEXT, v, PRIMARY KEY(k DESC)", "WITHOUT ROWID", false},
    {"k, v, PRIMARY KEY(k DESC)", "WITHOUT ROWID", false},
    {"k TEXT, j, v, PRIMARY KEY(k, j)", "WITHOUT ROWID", true},
    {"k, j TEXT, v, PRIMARY KEY(k DESC, j DESC)", "WITHOUT ROWID", true},
    {"j INT, k, v, PRIMARY KEY(j, k DESC)", "WITHOUT ROWID", true},
    {"k INTEGER PRIMARY KEY, v", "", false},
    {"k, v", "", false},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static sqlite3 *db;
static const struct shape *shape;
static struct harness_random choice;
static uint64_t share; /* one statement in so many runs */
static int compared, differing;

static bool chosen(void) {
  return harness_below(&choice, share) == 0;
}

/* ---- Tables */

static void fill(const char *table) {
  bool subject = table[0] == 't';
  sql_ok(db, "BEGIN");
  for (int i = 1; i < CONSTANTS; i++) {
    if (subject && i == CONSTANTS / 3) sql_ok(db, "INSERT INTO t(t) VALUES('flush')");
    if (subject && i % (CONSTANTS / 3) == 0) sql_ok(db, "COMMIT; BEGIN");
    char *sql = shape->has_j
                    ? sqlite3_mprintf("INSERT OR IGNORE INTO %s(k, j, v) VALUES(%s, %d, %d)", table,
                                      constants[i], i % 3, i)
                    : sqlite3_mprintf("INSERT OR IGNORE INTO %s(k, v) VALUES(%s, %d)", table,
                                      constants[i], i);
    /* A rowid takes integers only, on both sides. */
    sqlite3_exec(db, sql, NULL, NULL, NULL);
    sqlite3_free(sql);
  }
}

/* Rows of t stand in a file, in the log and in the pending batch. */
static void open_tables(const struct shape *of) {
  shape = of;
  db = sql_open(sql_path("app.db"));
  sql_ok(db, "PRAGMA synchronous = OFF");
  sql_okf(db, "CREATE TABLE o(%s) %s", shape->columns, shape->ordinary);
  sql_okf(db, "CREATE VIRTUAL TABLE t USING colfam(%s)", shape->columns);
  sql_ok(db, "CREATE TABLE r(id INTEGER PRIMARY KEY, ri INTEGER, rt TEXT, rb, rd REAL)");
  sql_ok(db, "BEGIN");
  for (int i = 0; i < CONSTANTS; i++)
    sql_okf(db, "INSERT INTO r VALUES(%d, %s, %s, %s, %s)", i, constants[i], constants[i],
            constants[i], constants[i]);
  sql_ok(db, "COMMIT");
  fill("o");
  sql_ok(db, "COMMIT");
  fill("t");
  sql_same(db, "SELECT quote(k), v FROM t", "SELECT quote(k), v FROM o");
  share = getenv("COLFAM_ALL") ? 1 : 16;
  harness_seed(&choice, harness_seed_env(20240701) + (uint64_t)(of - shapes));
  compared = differing = 0;
}

static void close_tables(void) {
  fprintf(stderr, "%s: %d compared\n", shape->columns, compared);
  ck_assert_int_eq(differing, 0);
  ck_assert_int_gt(compared, 0);
  sql_ok(db, "COMMIT");
  sql_close(db);
}

/* ---- Comparing */

/* sql with every %s made the table's name, and # a plus for the ordinary table. */
static char *with_table(const char *sql, const char *table) {
  sqlite3_str *text = sqlite3_str_new(NULL);
  for (; *sql; sql++) {
    if (sql[0] == '%' && sql[1] == 's') {
      sqlite3_str_appendall(text, table);
      sql++;
    } else if (*sql != '#') {
      sqlite3_str_appendchar(text, 1, *sql);
    } else if (table[0] == 'o') {
      sqlite3_str_appendchar(text, 1, '+');
    }
  }
  return sqlite3_str_finish(text);
}

static void bind(sqlite3_stmt *stmt, const char *constant) {
  if (!sqlite3_bind_parameter_count(stmt)) return;
  sqlite3_stmt *value = NULL;
  char *select = sqlite3_mprintf("SELECT %s", constant);
  ck_assert_int_eq(sqlite3_prepare_v2(db, select, -1, &value, NULL), SQLITE_OK);
  ck_assert_int_eq(sqlite3_step(value), SQLITE_ROW);
  sqlite3_bind_value(stmt, 1, sqlite3_column_value(value, 0));
  sqlite3_finalize(value);
  sqlite3_free(select);
}

/* The rows, one a line. */
static char *rows_of(const char *table, const char *sql, const char *bound) {
  sqlite3_stmt *stmt = NULL;
  sqlite3_str *rows = sqlite3_str_new(NULL);
  char *text = with_table(sql, table);
  int rc = sqlite3_prepare_v2(db, text, -1, &stmt, NULL);
  ck_assert_msg(rc == SQLITE_OK, "%s: %s", text, sqlite3_errmsg(db));
  bind(stmt, bound);
  while ((rc = sqlite3_step(stmt)) == SQLITE_ROW) {
    for (int i = 0; i < sqlite3_column_count(stmt); i++) {
      const char *value = (const char *)sqlite3_column_text(stmt, i);
      sqlite3_str_appendf(rows, "%s|", value ? value : "NULL");
    }
    sqlite3_str_appendchar(rows, 1, '\n');
  }
  ck_assert_msg(rc == SQLITE_DONE, "%s: %s", text, sqlite3_errmsg(db));
  sqlite3_finalize(stmt);
  sqlite3_free(text);
  char *finished = sqlite3_str_finish(rows);
  if (finished) sql_settle_order(sql, finished);
  return finished ? finished : sqlite3_mprintf("");
}

/* What the first of several rows tells: one of equal keys, one row of those with one k. */
static bool is_chance(const char *sql) {
  return strstr(sql, "DISTINCT k") || strstr(sql, "max(k)), v") || strstr(sql, "max(k)) FROM") ||
         strstr(sql, "min(k)) FROM") || strstr(sql, "(SELECT v FROM %s WHERE k = id)") ||
         (strstr(sql, "GROUP BY k") && !shape->has_j) ||
         (strstr(sql, "row_number") && shape->has_j);
}

/* Rows of a list of rows: a virtual table's come in the list's order since SQLite looks them up one by
** one. */
static bool has_no_order(const char *sql) {
  if (!sql_native() && is_chance(sql)) return true;
  return sqlite3_libversion_number() >= 3046000 && strstr(sql, "(k, v) IN") &&
         !strstr(sql, "ORDER BY");
}

static void compare(const char *sql, const char *bound) {
  if (!chosen() || has_no_order(sql)) return;
  char *subject = rows_of("t", sql, bound), *ordinary = rows_of("o", sql, bound);
  compared++;
  if (strcmp(subject, ordinary) != 0 && differing++ < 10)
    fprintf(stderr, "%s\n%s [%s]\ncolfam:\n%sordinary:\n%s", shape->columns, sql, bound, subject,
            ordinary);
  sqlite3_free(subject);
  sqlite3_free(ordinary);
}

static void comparef(const char *bound, const char *format, ...) {
  va_list args;
  va_start(args, format);
  char *sql = sqlite3_vmprintf(format, args);
  va_end(args);
  compare(sql, bound);
  sqlite3_free(sql);
}

enum { ORDERS = 3 };

/* An order that leaves no ties. */
static const char *order_at(int i) {
  static const char *const one_column[ORDERS] = {"", "ORDER BY #k", "ORDER BY #k DESC"};
  static const char *const two_columns[ORDERS] = {"", "ORDER BY #k, #j",
                                                  "ORDER BY #k DESC, #j DESC"};
  static const char *const no_key[ORDERS] = {"", "ORDER BY #k, v", "ORDER BY #k DESC, v DESC"};
  bool ties = !sql_native() && strcmp(shape->columns, "k, v") == 0;
  return ties ? no_key[i] : shape->has_j ? two_columns[i] : one_column[i];
}

/* ---- One operator, one right side */

static const char *const operators[] = {"=", "IS", "<>", "<", "<=", ">", ">=", "IS NOT"};

/* See the head comment; `numeric` says that the right side is a column of a numeric type. */
static bool left_out(const char *constant, bool numeric) {
  bool rowid = shape->ordinary[0] == 0 && strstr(shape->columns, "INTEGER PRIMARY KEY");
  return rowid && numeric && strcmp(constant, "-9223372036854775808") == 0;
}

static void compare_right_side(const char *op, const char *right, const char *bound) {
  for (int i = 0; i < ORDERS; i++)
    comparef(bound, "SELECT quote(k), v FROM %%s WHERE k %s %s %s", op, right, order_at(i));
}

static void compare_column(const char *op, int i, const char *column) {
  bool numeric = column[1] == 'i' || column[1] == 'd';
  if (left_out(constants[i], numeric)) return;
  char *right = sqlite3_mprintf("(SELECT %s FROM r WHERE id = %d)", column, i);
  compare_right_side(op, right, "NULL");
  sqlite3_free(right);
  comparef("NULL", "SELECT quote(k), v FROM r CROSS JOIN %%s WHERE id = %d AND k %s %s %s", i, op,
           column, order_at(1));
  comparef("NULL", "SELECT count(*) FROM r CROSS JOIN %%s WHERE id = %d AND k %s %s", i, op,
           column);
  comparef("NULL", "SELECT id FROM r WHERE id = %d AND EXISTS (SELECT 1 FROM %%s WHERE k %s %s)", i,
           op, column);
  comparef("NULL", "SELECT id, quote(k) FROM r LEFT JOIN %%s ON k %s %s WHERE id = %d", op, column,
           i);
}

static void compare_constant(const char *op, int i) {
  static const char *const columns[] = {"ri", "rt", "rb", "rd"};
  const char *constant = constants[i];
  compare_right_side(op, constant, constant);
  compare_right_side(op, "?1", constant);
  compare_right_side(op, "+?1", constant);
  char *cast = sqlite3_mprintf("CAST(%s AS INTEGER)", constant);
  compare_right_side(op, cast, constant);
  sqlite3_free(cast);
  cast = sqlite3_mprintf("CAST(%s AS TEXT)", constant);
  compare_right_side(op, cast, constant);
  sqlite3_free(cast);
  for (int c = 0; c < 4; c++) compare_column(op, i, columns[c]);
}

START_TEST(one_comparison) {
  open_tables(&shapes[_i]);
  for (size_t op = 0; op < sizeof operators / sizeof *operators; op++)
    for (int i = 0; i < CONSTANTS; i++) compare_constant(operators[op], i);
  close_tables();
}
END_TEST

/* ---- Two right sides */

static void compare_pair(int a, int b) {
  static const char *const columns[] = {"ri", "rt", "rb", "rd"};
  const char *x = constants[a], *y = constants[b];
  for (int i = 0; i < ORDERS; i++) {
    comparef(x, "SELECT quote(k), v FROM %%s WHERE k BETWEEN %s AND %s %s", x, y, order_at(i));
    comparef(x, "SELECT quote(k), v FROM %%s WHERE k <= %s AND k > ?1 %s", y, order_at(i));
    comparef(x, "SELECT quote(k), v FROM %%s WHERE k IN (%s, ?1, 'zz') %s", y, order_at(i));
    comparef(x, "SELECT quote(k), v FROM %%s WHERE k IN (%s, %s, 5) AND k < ?1 %s", x, y,
             order_at(i));
  }
  for (int c = 0; c < 4; c++) {
    if (left_out(x, columns[c][1] == 'd') || left_out(y, columns[c][1] == 'd')) continue;
    comparef(x, "SELECT quote(k), v FROM %%s WHERE k IN (SELECT %s FROM r WHERE id IN (%d, %d))",
             columns[c], a, b);
  }
  comparef(x, "SELECT quote(k), v FROM %%s WHERE k = %s OR k = ?1 %s", y, order_at(2));
  comparef(x, "SELECT quote(k), v FROM %%s WHERE k = %s AND k = ?1", y);
}

START_TEST(two_comparisons) {
  open_tables(&shapes[_i]);
  for (int a = 0; a < CONSTANTS; a++)
    for (int b = 0; b < CONSTANTS; b++) compare_pair(a, b);
  close_tables();
}
END_TEST

/* ---- Patterns */

static const char *const patterns[] = {"a%", "A%", "1%",     "%",   "ab_", "1.%", "a*",  "1*",
                                       "*",  "0%", "[a-b]*", "a?c", "-*",  "",    "abc", "+%"};

static void compare_pattern(const char *op, const char *pattern) {
  char *bound = sqlite3_mprintf("%Q", pattern);
  for (int i = 0; i < ORDERS; i++) {
    comparef(bound, "SELECT quote(k), v FROM %%s WHERE k %s %s %s", op, bound, order_at(i));
    comparef(bound, "SELECT quote(k), v FROM %%s WHERE k %s ?1 %s", op, order_at(i));
    comparef(bound, "SELECT quote(k), v FROM %%s WHERE k %s %s AND k > '0' %s", op, bound,
             order_at(i));
    comparef(bound, "SELECT quote(k), v FROM %%s WHERE k %s %s AND k < 5 %s", op, bound,
             order_at(i));
    if (strcmp(op, "LIKE") == 0)
      comparef(bound, "SELECT quote(k), v FROM %%s WHERE k LIKE %s ESCAPE '!' %s", bound,
               order_at(i));
  }
  sqlite3_free(bound);
}

START_TEST(patterns_with_and_without_case) {
  static const char *const ops[] = {"LIKE", "GLOB", "NOT LIKE", "NOT GLOB"};
  open_tables(&shapes[_i]);
  for (int sensitive = 0; sensitive < 2; sensitive++) {
    sql_okf(db, "PRAGMA case_sensitive_like = %d", sensitive);
    for (int op = 0; op < 4; op++)
      for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
        compare_pattern(ops[op], patterns[i]);
  }
  close_tables();
}
END_TEST

/* ---- Other forms of conditions, orders and limits */

static const char *const conditions[] = {
    "k = ?1 COLLATE NOCASE",       "k < ?1 COLLATE nocase",
    "k COLLATE rtrim >= ?1",       "k IN (?1) OR k = 1",
    "k = ?1 OR k = 'a' OR k = 2",  "NOT k = ?1",
    "k > ?1 AND k > 0 AND k >= 1", "(k, v) = (?1, 5)",
    "(k, v) IN ((?1, 1), (1, 2))", "(k, v) > (?1, 1)",
    "k IS NULL OR k < ?1",         "k IS NOT NULL AND k >= ?1",
    "?1 > k AND k > -5",           "k < ?1 AND k > ?1",
    "k BETWEEN ?1 AND ?1",
};
static const char *const endings[] = {
    "",
    "ORDER BY #k, #v",
    "ORDER BY #v",
    "ORDER BY #v DESC, #k",
};
static const char *const limits[] = {"", "LIMIT 3", "LIMIT 2 OFFSET 1", "LIMIT -1 OFFSET 2"};

START_TEST(conditions_and_endings) {
  open_tables(&shapes[_i]);
  for (size_t c = 0; c < sizeof conditions / sizeof *conditions; c++) {
    for (int i = 0; i < CONSTANTS; i++) {
      for (size_t e = 0; e < sizeof endings / sizeof *endings; e++)
        comparef(constants[i], "SELECT quote(k), v FROM %%s WHERE %s %s", conditions[c],
                 endings[e]);
      for (int o = 0; o < ORDERS; o++)
        for (size_t l = 0; l < sizeof limits / sizeof *limits; l++)
          comparef(constants[i], "SELECT quote(k), v FROM %%s WHERE %s %s %s", conditions[c],
                   order_at(o), limits[l]);
      comparef(constants[i],
               "SELECT count(*), count(v), quote(min(k)), quote(max(k)) FROM %%s WHERE %s",
               conditions[c]);
    }
  }
  close_tables();
}
END_TEST

static const char *const whole_statements[] = {
    "SELECT count(*) FROM %s",
    "SELECT count(*), count(v), count(k) FROM %s",
    "SELECT quote(min(k)) FROM %s",
    "SELECT quote(max(k)), v FROM %s",
    "SELECT count(*), sum(v) FROM %s GROUP BY k ORDER BY #k",
    "SELECT sum(v), count(*) FROM %s GROUP BY k ORDER BY #k DESC",
    "SELECT DISTINCT quote(k) FROM %s",
    "SELECT DISTINCT k FROM %s",
    "SELECT quote(k), v FROM %s UNION ALL SELECT quote(k), v FROM %s LIMIT 7 OFFSET 31",
    "SELECT quote(k), v FROM %s LIMIT 3",
    "SELECT count(*) FROM (SELECT 1 FROM %s LIMIT 5)",
    "SELECT v FROM %s ORDER BY #k DESC, #v LIMIT 4 OFFSET 2",
    "SELECT v, row_number() OVER (ORDER BY #k DESC, #v) FROM %s",
    "SELECT a.v, b.v FROM %s a JOIN %s b ON a.k = b.k ORDER BY 1, 2",
    "SELECT a.v, b.v FROM %s a LEFT JOIN %s b ON a.k = b.v AND b.k > 3 ORDER BY 1, 2",
    "SELECT a.v FROM %s a WHERE NOT EXISTS (SELECT 1 FROM %s b WHERE b.k = a.v) ORDER BY 1",
    "SELECT v FROM %s WHERE k IN (SELECT v FROM %s) ORDER BY 1",
    "SELECT v FROM %s WHERE k NOT IN (SELECT v FROM %s) ORDER BY 1",
    "SELECT id, (SELECT v FROM %s WHERE k = id) FROM r",
};

START_TEST(whole_tables) {
  open_tables(&shapes[_i]);
  share = 1;
  for (size_t i = 0; i < sizeof whole_statements / sizeof *whole_statements; i++)
    compare(whole_statements[i], "NULL");
  close_tables();
}
END_TEST

/* ---- Composite keys: prefix, list, range and order in all mixtures */

static const char *const first_terms[] = {
    "1",
    "k = 1",
    "k = '1'",
    "k = ?1",
    "k IN ('1', 'a', 2)",
    "k IN (1, 10)",
    "k > '0'",
    "k = (SELECT ri FROM r WHERE id = 2)",
    "k IN (SELECT ri FROM r)",
};
static const char *const second_terms[] = {
    "1",
    "j = 1",
    "j = '1'",
    "j IN (0, 2)",
    "j IN ('1', 1)",
    "j > 0",
    "j <= 1",
    "j BETWEEN 0 AND 1",
    "j IN (SELECT ri FROM r)",
};
static const char *const key_orders[] = {
    "",
    "ORDER BY #k, #j",
    "ORDER BY #k DESC, #j DESC",
    "ORDER BY #k DESC, #j",
    "ORDER BY #j, #k",
    "ORDER BY #j DESC, #k DESC",
    "ORDER BY #j, #v",
    "ORDER BY #j, #k, #v",
};

START_TEST(composite_keys) {
  if (!shapes[_i].has_j) return;
  open_tables(&shapes[_i]);
  share = 1;
  sql_ok(db,
         "INSERT OR IGNORE INTO o(k, j, v) SELECT o.k, r.ri, o.v * 100 + r.id FROM o, r WHERE r.ri "
         "IS NOT NULL AND r.id < 9;"
         "INSERT OR IGNORE INTO t(k, j, v) SELECT k, j, v FROM o");
  for (size_t a = 0; a < sizeof first_terms / sizeof *first_terms; a++)
    for (size_t b = 0; b < sizeof second_terms / sizeof *second_terms; b++)
      for (size_t o = 0; o < sizeof key_orders / sizeof *key_orders; o++)
        comparef(a % 2 ? "'1'" : "1", "SELECT quote(k), quote(j), v FROM %%s WHERE %s AND %s %s",
                 first_terms[a], second_terms[b], key_orders[o]);
  close_tables();
}
END_TEST

int main(void) {
  Suite *suite = suite_create("sql_predicates");
  TCase *tcase = tcase_create("predicates");
  tcase_set_timeout(tcase, 0);
  tcase_add_loop_test(tcase, one_comparison, 0, SHAPES);
  tcase_add_loop_test(tcase, two_comparisons, 0, SHAPES);
  tcase_add_loop_test(tcase, patterns_with_and_without_case, 0, SHAPES);
  tcase_add_loop_test(tcase, conditions_and_endings, 0, SHAPES);
  tcase_add_loop_test(tcase, whole_tables, 0, SHAPES);
  tcase_add_loop_test(tcase, composite_keys, 0, SHAPES);
  suite_add_tcase(suite, tcase);
  return harness_run(suite);
}
