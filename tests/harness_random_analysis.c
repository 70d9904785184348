/* Random queries over queries (window functions, common tables, views), and relations that must hold
** for one table without a second one to compare it with. */
#include <string.h>

#include "harness_random_sql.h"

static void where(struct random_sql *g, const struct random_table *table) {
  if (random_once_in(g, 4)) return;
  int begin = random_begin(g);
  random_add(g, " WHERE ");
  random_condition(g, table, "q", 0);
  random_end(g, begin);
}

/* ---- Queries */

static void windows(struct random_sql *g) {
  static const char *const functions[] = {"row_number()",
                                          "count(*)",
                                          "lag(quote(q.%s), 2)",
                                          "lead(q.%s)",
                                          "first_value(q.%s)",
                                          "nth_value(q.%s, 3)",
                                          "ntile(3)",
                                          "sum(length(q.%s))",
                                          "group_concat(quote(q.%s), ';')",
                                          "max(length(quote(q.%s)))"};
  static const char *const frames[] = {
      "",
      "",
      " ROWS BETWEEN 2 PRECEDING AND CURRENT ROW",
      " ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
      " ROWS BETWEEN 1 FOLLOWING AND 3 FOLLOWING",
      " ROWS BETWEEN 3 PRECEDING AND 1 FOLLOWING EXCLUDE CURRENT ROW"};
  const struct random_table *table = random_table(g);
  const char *column = random_column_name(g, table);
  g->casts_allowed = false;
  random_add(g, "SELECT q.%s, row_number() OVER (ORDER BY ", random_key_name(table, 0));
  random_key_order(g, table, "q", random_once_in(g, 2));
  random_add(g, ") AS n, ");
  sqlite3_str_appendf(g->text, RANDOM_OF(g, functions), column);
  random_add(g, " OVER (");
  if (random_once_in(g, 3)) random_add(g, "PARTITION BY typeof(q.%s) ", column);
  random_add(g, "ORDER BY ");
  random_key_order(g, table, "q", random_once_in(g, 2));
  random_add(g, "%s) FROM %s AS q", RANDOM_OF(g, frames), random_name(g, table));
  where(g, table);
  random_add(g, " ORDER BY n");
  g->statement->in_order = true;
}

static void common_table(struct random_sql *g) {
  const struct random_table *table = random_table(g);
  random_add(g, "WITH p AS %s(SELECT q.%s AS k, q.%s AS v FROM %s AS q",
             random_once_in(g, 2) ? "MATERIALIZED " : "", random_key_name(table, 0),
             random_column_name(g, table), table->name);
  where(g, table);
  random_add(g, ") SELECT count(*), min(quote(p.k)), count(p.v) FROM p WHERE p.k %s ",
             random_once_in(g, 2) ? ">" : "=");
  random_key_of(g, table, 0);
}

/* From key to next key, which is what a recursive table has for a loop. */
static void leaps(struct random_sql *g) {
  const struct random_table *table = random_table(g);
  const char *key = random_key_name(table, 0), *name = random_name(g, table);
  bool up = random_once_in(g, 2);
  random_add(g,
             "WITH RECURSIVE n(k, i) AS (SELECT %s(q.%s), 0 FROM %s AS q UNION ALL"
             " SELECT (SELECT %s(q.%s) FROM %s AS q WHERE q.%s %s n.k), i + 1 FROM n"
             " WHERE n.k IS NOT NULL AND i < 40) SELECT count(*) FROM n",
             up ? "min" : "max", key, name, up ? "min" : "max", key, name, key, up ? ">" : "<");
}

static void counted_up(struct random_sql *g) {
  const struct random_table *table = random_table(g);
  random_add(
      g,
      "WITH RECURSIVE n(i) AS (VALUES(%d) UNION ALL SELECT i + 1 FROM n LIMIT 30)"
      " SELECT n.i, EXISTS (SELECT 1 FROM %s AS q WHERE q.%s = n.i), (SELECT count(*) FROM %s"
      " AS q WHERE q.%s %s n.i) FROM n",
      (int)random_below(g, 20) - 6, random_name(g, table), random_key_name(table, 0), table->name,
      random_key_name(table, 0), random_once_in(g, 2) ? "<" : ">=");
}

static void from_view(struct random_sql *g) {
  static const char *const forms[] = {
      "SELECT * FROM w WHERE k %s ", "SELECT count(*), count(x), min(quote(v)) FROM w WHERE k %s ",
      "SELECT r.i, w.k FROM r JOIN w ON w.i = r.i AND w.k %s ",
      "SELECT DISTINCT i FROM w WHERE v %s ", "SELECT i, count(*) FROM w WHERE NOT k %s "};
  static const char *const operators[] = {"=", ">", "<=", "IS", "<>"};
  const char *form = RANDOM_OF(g, forms);
  sqlite3_str_appendf(g->text, form, RANDOM_OF(g, operators));
  random_key_of(g, &g->tables[0], 0);
  if (strstr(form, "count(*) FROM w WHERE NOT")) random_add(g, " GROUP BY i");
  g->statement->in_order = false;
}

/* A query in FROM that is told row for row, its rows taken once more. */
static void over_query(struct random_sql *g) {
  const struct random_table *table = random_table(g);
  const char *column = random_column_name(g, table);
  g->casts_allowed = false;
  random_add(
      g,
      "SELECT count(*), total(length(v)), group_concat(quote(v), ';') FROM (SELECT q.%s AS v FROM"
      " %s AS q",
      column, random_name(g, table));
  where(g, table);
  random_add(g, " ORDER BY ");
  random_key_order(g, table, "q", random_once_in(g, 2));
  random_add(g, " LIMIT %d OFFSET %d)", (int)random_below(g, 20) - 1, (int)random_below(g, 6));
}

static void exists_alone(struct random_sql *g) {
  static const char *const forms[] = {
      "SELECT EXISTS (SELECT 1 FROM %s AS q", "SELECT NOT EXISTS (SELECT * FROM %s AS q",
      "SELECT 1 WHERE 3 < (SELECT count(*) FROM %s AS q", "SELECT (SELECT 7 FROM %s AS q"};
  const struct random_table *table = random_table(g);
  g->casts_allowed = false;
  sqlite3_str_appendf(g->text, RANDOM_OF(g, forms), random_name(g, table));
  where(g, table);
  random_add(g, ")");
}

static void three_tables(struct random_sql *g) {
  static const char *const joins[] = {"JOIN", "LEFT JOIN", "CROSS JOIN"};
  const char *t = random_key_name(&g->tables[0], 0), *u = random_key_name(&g->tables[1], 0);
  static const char *const columns[] = {"i", "x", "y", "z"};
  random_add(g, "SELECT count(*), count(q.%s), count(p.%s) FROM r %s t AS q ON q.%s = r.%s", t, u,
             RANDOM_OF(g, joins), t, RANDOM_OF(g, columns));
  bool chain = random_once_in(g, 2);
  random_add(g, " %s u AS p ON p.%s = %s.%s", RANDOM_OF(g, joins), u, chain ? "q" : "r",
             chain ? t : RANDOM_OF(g, columns));
}

void random_analysis(struct random_sql *g) {
  static void (*const forms[])(struct random_sql *) = {
      windows, common_table, leaps, counted_up, from_view, over_query, exists_alone, three_tables};
  size_t kind = random_below(g, g->view ? 8 : 7);
  forms[kind < 4 || g->view ? kind : kind + 1](g);
}

/* ---- Relations */

/* A condition is true, false or unknown of each row. */
static void partition(struct random_sql *g) {
  const struct random_table *table = random_table(g);
  sqlite3_str *outer = g->text;
  g->text = sqlite3_str_new(NULL);
  random_condition(g, table, "q", 0);
  char *condition = sqlite3_str_finish(g->text);
  g->text = outer;
  const char *name = table->name;
  random_add(g,
             "SELECT (SELECT count(*) FROM %s AS q) = (SELECT count(*) FROM %s AS q WHERE %s)"
             " + (SELECT count(*) FROM %s AS q WHERE NOT (%s))"
             " + (SELECT count(*) FROM %s AS q WHERE (%s) IS NULL)",
             name, name, condition, name, condition, name, condition);
  sqlite3_free(condition);
}

/* A value of the column's own class: `+` takes the column's affinity from the comparison. */
static void own_class(struct random_sql *g, const char *type) {
  static const char *const numbers[] = {"-2", "0", "1", "3.5", "7", "9007199254740993", "-1e300"};
  static const char *const texts[] = {"'a'", "'1'", "''", "'b'", "'ab'", "'01'", "'é'"};
  static const char *const blobs[] = {"x'61'", "x''", "x'ff'", "'a'", "1", "2.0"};
  enum random_affinity affinity = random_affinity(type);
  random_add(g, "%s",
             affinity == RANDOM_BLOB   ? RANDOM_OF(g, blobs)
             : affinity == RANDOM_TEXT ? RANDOM_OF(g, texts)
                                       : RANDOM_OF(g, numbers));
}

/* The planner cannot use `+k`, and both find the same. */
static void unary_plus(struct random_sql *g) {
  static const char *const operators[] = {"=", "<", ">", "<=", ">=", "IS", "<>"};
  const struct random_table *table = random_table(g);
  int i = (int)random_below(g, (uint64_t)random_key_width(table));
  const char *key = random_key_name(table, i);
  sqlite3_str *outer = g->text;
  g->text = sqlite3_str_new(NULL);
  random_add(g, "q.%s %s ", key, RANDOM_OF(g, operators));
  own_class(g, random_key_type(table, i));
  char *term = sqlite3_str_finish(g->text);
  g->text = outer;
  static const char form[] = "(SELECT count(*) || ' ' || total(length(quote(q.%s))) FROM %s AS q"
                             " WHERE %s%s)";
  random_add(g, "SELECT ");
  random_add(g, form, key, table->name, "", term);
  random_add(g, " = ");
  random_add(g, form, key, table->name, "+", term);
  sqlite3_free(term);
}

static void key_arguments(struct random_sql *g, const struct random_table *table) {
  for (int i = 0; i < random_key_width(table); i++)
    random_add(g, ", q.%s", random_key_name(table, i));
}

/* No key that is there is said to be absent, and one said to be there is found. */
static void may_exist(struct random_sql *g) {
  const struct random_table *table = random_table(g);
  if (random_once_in(g, 2) || random_key_width(table) > 1) {
    random_add(g, "SELECT count(*) = 0 FROM %s AS q WHERE colfam_may_exist('%s.%s'", table->name,
               table->schema, table->name);
    key_arguments(g, table);
    random_add(g, ") = 0");
    return;
  }
  const char *schema = table->schema, *name = table->name;
  random_add(g,
             "SELECT (colfam_may_exist('%s.%s', r.x) IS NULL) OR colfam_may_exist('%s.%s', r.x) ="
             " EXISTS (SELECT 1 FROM %s AS q WHERE q.%s = +r.x) FROM r",
             schema, name, schema, name, name, random_key_name(table, 0));
}

void random_relation(struct random_sql *g) {
  static void (*const forms[])(struct random_sql *) = {partition, partition, unary_plus, may_exist};
  g->statement->kind = RANDOM_HOLDS;
  forms[random_below(g, 4)](g);
}
