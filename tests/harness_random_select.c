/* Random queries. Rows are comparable in order when ORDER BY is total, or when one table is read by a plan
** that visits it by key on both sides. */
#include <string.h>

#include "harness_random_sql.h"
#include "harness_sql.h"

static void where(struct random_sql *g, const struct random_table *table, const char *alias) {
  if (random_once_in(g, 8)) return;
  int begin = random_begin(g);
  random_add(g, " WHERE ");
  random_condition(g, table, alias, 0);
  random_end(g, begin);
}

static void limit(struct random_sql *g) {
  if (!random_once_in(g, 3)) return;
  int begin = random_begin(g);
  random_add(g, " LIMIT %d", (int)random_below(g, 12) - 1);
  if (random_once_in(g, 2)) random_add(g, " OFFSET %d", (int)random_below(g, 8));
  random_end(g, begin);
}

/* A total order: by key either way, by a value or an expression and then by key, or mixed directions. */
static void order(struct random_sql *g, const struct random_table *table, const char *alias) {
  random_add(g, " ORDER BY ");
  if (random_once_in(g, 3)) {
    static const char *const forms[] = {"%s.%s, ", "%s.%s DESC, ", "%s.%s COLLATE NOCASE, ",
                                        "length(%s.%s), ", "+%s.%s, "};
    sqlite3_str_appendf(g->text, RANDOM_OF(g, forms), alias, random_column_name(g, table));
  }
  if (random_once_in(g, 5)) {
    for (int i = 0; i < random_key_width(table); i++)
      random_add(g, "%s%s.%s%s", i ? ", " : "", alias, random_key_name(table, i),
                 random_once_in(g, 2) ? " DESC" : "");
  } else {
    random_key_order(g, table, alias, random_once_in(g, 2));
  }
  if (random_once_in(g, 8)) random_add(g, ", %s.%s", alias, random_column_name(g, table));
}

static void result_columns(struct random_sql *g, const struct random_table *table,
                           const char *alias) {
  static const char *const forms[] = {"%s.%s", "quote(%s.%s)", "typeof(%s.%s)", "length(%s.%s)",
                                      "%s.%s IS NULL"};
  uint64_t kind = random_below(g, 6);
  if (kind < 2) {
    random_add(g, table->rowid ? "%s.rowid, %s.*" : "%s.*", alias, alias);
  } else if (kind < 3) {
    random_add(g, "1");
  } else if (kind < 5) {
    random_add(g, "%s.%s", alias, random_key_name(table, 0));
  } else {
    int count = 1 + (int)random_below(g, 3);
    for (int i = 0; i < count; i++) {
      if (i) random_add(g, ", ");
      sqlite3_str_appendf(g->text, RANDOM_OF(g, forms), alias, random_column_name(g, table));
    }
  }
}

const struct random_table *random_select_one(struct random_sql *g) {
  const struct random_table *table = random_table(g);
  random_add(g, "SELECT ");
  result_columns(g, table, "q");
  random_add(g, " FROM %s AS q", random_name(g, table));
  where(g, table, "q");
  if (random_once_in(g, 2)) {
    order(g, table, "q");
    g->statement->in_order = true;
  }
  if (g->ambiguous) g->statement->in_order = false;
  if (g->statement->in_order) limit(g);
  return table;
}

/* The extremes of a column may be one of several equal values (1 and 1.0): so its key is asked. */
static void aggregates(struct random_sql *g) {
  const struct random_table *table = random_table(g);
  static const char *const forms[] = {
      "count(*)",         "count(*), count(q.%s)", "min(q.%s)",
      "max(q.%s)",        "count(DISTINCT q.%s)",  "total(length(quote(q.%s)))",
      "min(quote(q.%s))", "count(q.%s IS NULL)",   "count(*) FILTER (WHERE q.%s > 1)"};
  const char *column =
      random_once_in(g, 2) ? random_key_name(table, 0) : random_column_name(g, table);
  random_add(g, "SELECT ");
  sqlite3_str_appendf(g->text, RANDOM_OF(g, forms), column);
  random_add(g, " FROM %s AS q", table->name);
  g->or_allowed = g->casts_allowed = false;
  if (random_once_in(g, 3)) return;
  where(g, table, "q");
}

/* A group may hold several equal values: never asked for just one of them. (Which one DISTINCT and UNION
** show the tables' order tells.) */
static void groups(struct random_sql *g) {
  const struct random_table *table = random_table(g);
  static const char *const forms[] = {"SELECT count(q.%s), count(*)", "SELECT max(quote(q.%s))",
                                      "SELECT count(*), min(quote(q.%s))"};
  const char *column =
      random_once_in(g, 2) ? random_key_name(table, 0) : random_column_name(g, table);
  g->or_allowed = false;
  if (random_once_in(g, 3)) {
    random_add(g,
               sql_native() ? "SELECT DISTINCT q.%s FROM %s AS q"
                            : "SELECT DISTINCT quote(q.%s) FROM %s AS q",
               column, table->name);
    where(g, table, "q");
  } else {
    sqlite3_str_appendf(g->text, RANDOM_OF(g, forms), column);
    random_add(g, " FROM %s AS q", table->name);
    where(g, table, "q");
    random_add(g, " GROUP BY q.%s", column);
    if (random_once_in(g, 3)) random_add(g, " HAVING count(*) > 1");
  }
  g->statement->in_order = false;
}

static const char *other_column(struct random_sql *g) {
  static const char *const names[] = {"r.i",
                                      "r.i",
                                      "r.x",
                                      "r.y",
                                      "r.z",
                                      "+r.i",
                                      "r.i + 1",
                                      "CAST(r.y AS TEXT)",
                                      "r.x COLLATE NOCASE"};
  return RANDOM_OF(g, names);
}

/* q.a > r.i. In r.z there are texts too, which are above all numbers. */
static void on_range(struct random_sql *g, const struct random_table *table, const char *alias) {
  static const char *const operators[] = {"<", "<=", ">", ">="};
  static const char *const names[] = {"r.i", "r.x", "r.y", "r.z", "r.i + 2", "CAST(r.i AS TEXT)",
                                      "+r.i"};
  int count = 1 + (int)random_below(g, 2);
  for (int i = 0; i < count; i++)
    random_add(g, "%s%s.%s %s %s", i ? " AND " : "", alias, random_key_name(table, 0),
               RANDOM_OF(g, operators), RANDOM_OF(g, names));
}

/* q.a = r.x AND q.b = value ...: how many key columns are joined. */
static void on_key(struct random_sql *g, const struct random_table *table, const char *alias) {
  int width = 1 + (int)random_below(g, (uint64_t)random_key_width(table));
  if (random_once_in(g, 6)) {
    on_range(g, table, alias);
    return;
  }
  for (int i = 0; i < width; i++) {
    random_add(g, "%s%s.%s = ", i ? " AND " : "", alias, random_key_name(table, i));
    if (i && random_once_in(g, 2)) {
      random_key_of(g, table, i);
    } else {
      random_add(g, "%s", other_column(g));
    }
  }
}

/* RIGHT and FULL JOIN came with SQLite 3.39. */
static const char *outer_join(struct random_sql *g) {
  static const char *const joins[] = {"LEFT", "LEFT", "RIGHT", "FULL"};
  return sqlite3_libversion_number() < 3039000 ? "LEFT" : RANDOM_OF(g, joins);
}

static void join_other(struct random_sql *g) {
  const struct random_table *table = random_table(g);
  const char *name = random_name(g, table);
  uint64_t kind = random_below(g, 5);
  random_add(g, "SELECT r.i, q.%s, q.%s FROM ", random_key_name(table, 0),
             random_column_name(g, table));
  if (kind < 2) {
    random_add(g, kind ? "%s AS q JOIN r ON " : "r JOIN %s AS q ON ", name);
    on_key(g, table, "q");
  } else if (kind < 4) {
    random_add(g, "r %s JOIN %s AS q ON ", outer_join(g), name);
    on_key(g, table, "q");
  } else {
    random_add(g, "%s AS q %s JOIN r ON ", name, outer_join(g));
    on_key(g, table, "q");
  }
  if (kind == 3) {
    random_add(g, " WHERE q.%s IS NULL", random_key_name(table, 0));
  } else if (random_once_in(g, 3)) {
    random_add(g, " WHERE ");
    random_condition(g, table, "q", 0);
  }
  g->statement->in_order = false;
}

static void join_tables(struct random_sql *g) {
  const struct random_table *t = &g->tables[0], *u = &g->tables[1];
  bool self = random_once_in(g, 3);
  if (self) u = t;
  random_add(g, "SELECT q.%s, p.%s, p.%s FROM %s AS q %sJOIN %s AS p ON p.%s = q.%s",
             random_key_name(t, 0), random_key_name(u, 0), random_column_name(g, u), t->name,
             random_once_in(g, 3) ? "LEFT " : "", u->name, random_key_name(u, 0),
             self ? random_column_name(g, t) : random_key_name(t, 0));
  if (random_once_in(g, 2)) {
    random_add(g, " WHERE ");
    random_condition(g, t, "q", 0);
  }
  g->statement->in_order = false;
}

static void correlated(struct random_sql *g) {
  static const char *const forms[] = {"EXISTS (SELECT 1 ",
                                      "NOT EXISTS (SELECT * ",
                                      "EXISTS (SELECT q.%s ",
                                      "0 < (SELECT count(*) ",
                                      "r.x IN (SELECT q.%s ",
                                      "r.y NOT IN (SELECT q.%s ",
                                      "2 > (SELECT count(DISTINCT quote(q.%s)) "};
  const struct random_table *table = random_table(g);
  random_add(g, "SELECT r.i, r.x FROM r WHERE ");
  sqlite3_str_appendf(g->text, RANDOM_OF(g, forms), random_key_name(table, 0));
  random_add(g, "FROM %s AS q WHERE ", table->name);
  on_key(g, table, "q");
  if (random_once_in(g, 3)) {
    int begin = random_begin(g);
    random_add(g, " AND ");
    random_condition(g, table, "q", 0);
    random_end(g, begin);
  }
  random_add(g, ") ORDER BY r.i");
  g->statement->in_order = true;
}

static bool has_numeric_key(const struct random_table *table) {
  for (int i = 0; i < random_key_width(table); i++) {
    if (random_affinity(random_key_type(table, i)) < RANDOM_INTEGER) return false;
  }
  return true;
}

/* The first of several rows is well told only where one number equals one key. */
static void scalar_subquery(struct random_sql *g) {
  const struct random_table *table = random_table(g);
  const char *column = random_column_name(g, table);
  bool first = has_numeric_key(table);
  random_add(g, "SELECT r.i, (SELECT ");
  random_add(g, first ? "q.%s" : "min(quote(q.%s))", column);
  random_add(g, " FROM %s AS q WHERE ", table->name);
  on_key(g, table, "q");
  if (first) {
    random_add(g, " ORDER BY ");
    random_key_order(g, table, "q", random_once_in(g, 2));
  }
  random_add(g, "), r.y IN (SELECT q.%s FROM %s AS q) FROM r ORDER BY r.i", column, table->name);
}

static void part_of_compound(struct random_sql *g, const struct random_table *table) {
  random_add(g,
             sql_native() ? "SELECT q.%s, q.%s FROM %s AS q"
                          : "SELECT quote(q.%s), quote(q.%s) FROM %s AS q",
             random_key_name(table, 0), table->columns[0].name, table->name);
  where(g, table, "q");
}

/* UNION ALL visits its parts in turn; the others keep one of several equal rows. */
static void compound(struct random_sql *g) {
  static const char *const operators[] = {" UNION ALL ", " UNION ALL ", " UNION ", " EXCEPT ",
                                          " INTERSECT "};
  const char *operator= RANDOM_OF(g, operators);
  const struct random_table *table = random_table(g);
  bool all = strstr(operator, "ALL");
  g->or_allowed = false;
  part_of_compound(g, table);
  random_add(g, "%s", operator);
  part_of_compound(g, random_once_in(g, 2) ? table : random_table(g));
  if (all && !g->ambiguous) {
    random_add(g, " LIMIT %d OFFSET %d", (int)random_below(g, 30), (int)random_below(g, 15));
  } else {
    g->statement->in_order = false;
  }
}

void random_select(struct random_sql *g) {
  static void (*const forms[])(struct random_sql *) = {
      aggregates, groups, join_other, join_tables, correlated, scalar_subquery, compound};
  static const unsigned weights[] = {2, 1, 2, 1, 2, 1, 1};
  uint64_t kind = random_below(g, 22);
  if (kind < 9) {
    random_select_one(g);
    return;
  }
  if (kind < 12) {
    random_analysis(g);
    return;
  }
  kind -= 12;
  size_t i = 0;
  while (kind >= weights[i]) kind -= weights[i++];
  forms[i](g);
}
