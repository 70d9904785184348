/* Random conditions: every operator on key and value columns, with the ways in which a plan may go wrong:
** bounds doubled and swapped, lists with duplicates and NULLs, collations and casts that forbid the index. */
#include <string.h>

#include "harness_random_sql.h"

static void list_values(struct random_sql *g, const char *type) {
  int row = g->recalled_row;
  int count = random_once_in(g, 12) ? 30 + (int)random_below(g, 20) : (int)random_below(g, 6);
  for (int i = 0; i < count; i++) {
    int begin = random_begin(g);
    if (i) random_add(g, ", ");
    random_key_value(g, type, false);
    g->recalled_row = -1;
    if (i) random_end(g, begin);
  }
  g->recalled_row = row;
}

static void in_list(struct random_sql *g, const char *column, const char *type) {
  static const char *const sources[] = {
      "SELECT i FROM r",
      "SELECT x FROM r",
      "SELECT y FROM r WHERE i > 3",
      "SELECT z FROM r",
      "SELECT x FROM r UNION ALL SELECT i FROM r",
      "SELECT k FROM (SELECT i % 5 AS k FROM r)",
      "SELECT value FROM json_each('[1, 2, 2, \"a\", 3.0, 2.5, null, \"1\", 40]')",
      "SELECT value FROM json_each('[\"a\", \"ab\", \"x1\", \"b2\", \"01\", 7, 8, 9]')",
      "WITH RECURSIVE n(i) AS (VALUES(-5) UNION ALL SELECT i + 1 FROM n LIMIT 66) SELECT i FROM n",
      "VALUES(1), ('a'), (x'61'), (NULL), (2.0)",
      "SELECT i FROM r WHERE 0"};
  random_add(g, "%s %sIN (", column, random_once_in(g, 8) ? "NOT " : "");
  if (random_once_in(g, 3)) {
    random_add(g, "%s", g->own_rows ? "VALUES(1), (7), ('a'), (2.0)" : RANDOM_OF(g, sources));
  } else {
    list_values(g, type);
  }
  random_add(g, ")");
}

static void bounds(struct random_sql *g, const char *column, const char *type) {
  static const char *const operators[] = {"<", "<=", ">", ">=", ">=", "<="};
  int count = 2 + (int)random_below(g, 3);
  for (int i = 0; i < count; i++) {
    int begin = random_begin(g);
    random_add(g, "%s%s %s ", i ? " AND " : "", column, RANDOM_OF(g, operators));
    random_key_value(g, type, false);
    if (i) random_end(g, begin);
  }
}

static void compare(struct random_sql *g, const char *column, const char *type) {
  static const char *const operators[] = {"=",  "=", "=",  "=",      "<",  "<=", ">",
                                          ">=", "<", "IS", "IS NOT", "<>", "=="};
  const char *operator= RANDOM_OF(g, operators);
  if (random_once_in(g, 6)) {
    random_key_value(g, type, false);
    random_add(g, " %s %s", operator, column);
  } else {
    random_add(g, "%s %s ", column, operator);
    random_key_value(g, type, false);
  }
}

static void between(struct random_sql *g, const char *column, const char *type) {
  random_add(g, "%s %sBETWEEN ", column, random_once_in(g, 6) ? "NOT " : "");
  random_key_value(g, type, false);
  random_add(g, " AND ");
  random_key_value(g, type, false);
}

static void match(struct random_sql *g, const char *column) {
  bool glob = random_once_in(g, 2);
  random_add(g, "%s %s%s ", column, random_once_in(g, 6) ? "NOT " : "", glob ? "GLOB" : "LIKE");
  random_pattern(g, glob);
  if (!glob && random_once_in(g, 5)) random_add(g, " ESCAPE '\\'");
}

/* The sides have other affinities or collations than a plain comparison. */
static void converted(struct random_sql *g, const char *column, const char *type) {
  static const char *const forms[] = {"+%s = ",
                                      "%s = +",
                                      "%s = CAST(1 AS INTEGER) + ",
                                      "%s || '' = ",
                                      "%s COLLATE NOCASE = ",
                                      "%s COLLATE RTRIM > ",
                                      "CAST(%s AS TEXT) = ",
                                      "CAST(%s AS INTEGER) = ",
                                      "%s + 0 = ",
                                      "+%s > ",
                                      "-%s < ",
                                      "%s >= +",
                                      "%s IS NULL OR 1 = ",
                                      "%s = (SELECT max(i) FROM r) - ",
                                      "quote(%s) > "};
  const char *form = RANDOM_OF(g, forms);
  if (strstr(form, " OR ") && !g->or_allowed) form = "+%s <= ";
  if (strstr(form, "FROM r") && g->own_rows) form = "%s >= +";
  if (strstr(form, " OR ")) g->statement->in_order = false;
  random_add(g, "(");
  sqlite3_str_appendf(g->text, form, column);
  random_key_value(g, type, false);
  random_add(g, ")");
}

static void casted(struct random_sql *g, const char *column) {
  static const char *const types[] = {"INTEGER", "TEXT", "REAL", "NUMERIC", "BLOB"};
  g->ambiguous = true;
  random_add(g, "%s %s CAST(", column, random_once_in(g, 3) ? "<" : "=");
  random_any_value(g);
  random_add(g, " AS %s)", RANDOM_OF(g, types));
}

static void fixed(struct random_sql *g, const char *column) {
  static const char *const forms[] = {
      "%s IS NULL",
      "%s IS NOT NULL",
      "typeof(%s) = 'text'",
      "typeof(%s) IN ('integer', 'real')",
      "length(%s) = 1",
      "%s = (SELECT x FROM r ORDER BY i LIMIT 1)",
      "%s = (SELECT y FROM r ORDER BY i DESC LIMIT 1)",
      "%s > (SELECT min(i) FROM r)",
      "%s <= (SELECT i FROM r WHERE 0)",
      "%s",
      "NOT %s",
      "instr(quote(%s), '1')",
  };
  const char *form = RANDOM_OF(g, forms);
  if (strstr(form, "FROM r") && g->own_rows) form = "%s IS NOT 1";
  sqlite3_str_appendf(g->text, form, column);
}

static void term(struct random_sql *g, const char *column, const char *type) {
  switch (random_below(g, 16)) {
    case 0:
    case 1:
      in_list(g, column, type);
      break;
    case 2:
      bounds(g, column, type);
      break;
    case 3:
      between(g, column, type);
      break;
    case 4:
      match(g, column);
      break;
    case 5:
      converted(g, column, type);
      break;
    case 6:
      if (g->casts_allowed) {
        casted(g, column);
      } else {
        fixed(g, column);
      }
      break;
    case 7:
      fixed(g, column);
      break;
    default:
      compare(g, column, type);
      break;
  }
}

static void key_term(struct random_sql *g, const struct random_table *table, const char *alias,
                     int i) {
  char column[32];
  sqlite3_snprintf(sizeof column, column, "%s.%s", alias, random_key_name(table, i));
  g->slot = random_slot(g, table, i);
  term(g, column, random_key_type(table, i));
  g->slot = 0;
}

/* = on the first columns of the key, anything on the next. */
static void key_prefix(struct random_sql *g, const struct random_table *table, const char *alias) {
  int equal = (int)random_below(g, (uint64_t)random_key_width(table));
  random_recall(g);
  for (int i = 0; i < equal; i++) {
    int begin = random_begin(g);
    random_add(g, "%s.%s %s ", alias, random_key_name(table, i), random_once_in(g, 8) ? "IS" : "=");
    random_key_of(g, table, i);
    random_add(g, " AND ");
    random_end(g, begin);
  }
  key_term(g, table, alias, equal);
  random_forget(g);
}

static void full_key(struct random_sql *g, const struct random_table *table, const char *alias) {
  random_recall(g);
  for (int i = random_key_width(table) - 1; i >= 0; i--) {
    bool list = random_once_in(g, 5);
    int begin = random_begin(g);
    random_add(g, "%s.%s %s ", alias, random_key_name(table, i), list ? "IN (" : "=");
    g->slot = random_slot(g, table, i);
    if (list) list_values(g, random_key_type(table, i));
    g->slot = 0;
    if (!list) random_key_of(g, table, i);
    random_add(g, "%s%s", list ? ")" : "", i ? " AND " : "");
    if (i) random_end(g, begin);
  }
  random_forget(g);
}

/* (a, b) > (x, y), (a, b) IN (VALUES ...). Newer libraries look up the rows of a list one by one. */
static void row_value(struct random_sql *g, const struct random_table *table, const char *alias) {
  static const char *const operators[] = {"=", "<", ">", ">=", "<=", "IS"};
  bool list = random_once_in(g, 3) && g->or_allowed;
  if (list) g->statement->in_order = false;
  int width = 2 + (int)random_below(g, (uint64_t)table->key_count - 1);
  for (int i = 0; i < width; i++)
    random_add(g, "%s%s.%s", i ? ", " : "(", alias, random_key_name(table, i));
  random_add(g, ") %s (", list ? "IN" : RANDOM_OF(g, operators));
  int rows = list ? 1 + (int)random_below(g, 4) : 1;
  for (int row = 0; row < rows; row++) {
    int begin = random_begin(g);
    random_add(g, "%s", list ? row ? ", (" : "VALUES(" : "");
    random_recall(g);
    for (int i = 0; i < width; i++) {
      random_add(g, "%s", i ? ", " : "");
      random_key_of(g, table, i);
    }
    random_forget(g);
    random_add(g, "%s", list ? ")" : "");
    if (row) random_end(g, begin);
  }
  random_add(g, ")");
}

static void value_term(struct random_sql *g, const struct random_table *table, const char *alias) {
  const struct random_column *column =
      &table->columns[random_below(g, (uint64_t)table->column_count)];
  char name[32];
  sqlite3_snprintf(sizeof name, name, "%s.%s", alias, column->name);
  term(g, name, column->type);
}

static void exists(struct random_sql *g, const struct random_table *table, const char *alias) {
  const char *column = random_column_name(g, table);
  static const char *const forms[] = {"r.x = ", "r.i = ", "r.y = ", "r.z > ", "r.y IS "};
  const char *not = random_once_in(g, 2) ? "NOT " : "";
  const struct random_table *other = &g->tables[random_below(g, 2)];
  /* While a statement changes an ordinary table SQLite looks into its key for the list. */
  bool changes = !strcmp(alias, table->name);
  switch (changes && other == table ? 0 : random_below(g, 4)) {
    case 0:
      random_add(g, "%sEXISTS (SELECT 1 FROM %s AS e WHERE e.%s = %s.%s)", not, other->name,
                 random_key_name(other, 0), alias, column);
      break;
    case 1:
      random_add(g, "%s.%s %sIN (SELECT e.%s FROM %s AS e)", alias, column, not,
                 random_column_name(g, other), other->name);
      break;
    default:
      random_add(g, "%sEXISTS (SELECT 1 FROM r WHERE %s%s.%s)", not, RANDOM_OF(g, forms), alias,
                 column);
  }
}

static void pair_of(struct random_sql *g, const struct random_table *table, const char *alias,
                    int depth) {
  bool either = g->or_allowed && random_once_in(g, 2);
  if (either) g->statement->in_order = false;
  random_add(g, "(");
  int begin = random_begin(g);
  random_condition(g, table, alias, depth + 1);
  random_add(g, either ? " OR " : " AND ");
  random_end(g, begin);
  random_condition(g, table, alias, depth + 1);
  random_add(g, ")");
}

void random_condition(struct random_sql *g, const struct random_table *table, const char *alias,
                      int depth) {
  uint64_t kind = random_below(g, 20);
  if (kind < 8) {
    key_prefix(g, table, alias);
  } else if (kind < 11) {
    full_key(g, table, alias);
  } else if (kind < 12 && table->key_count > 1) {
    row_value(g, table, alias);
  } else if (kind < 14) {
    key_term(g, table, alias, (int)random_below(g, (uint64_t)random_key_width(table)));
  } else if (kind < 16) {
    value_term(g, table, alias);
  } else if (kind < 17 && !g->own_rows) {
    exists(g, table, alias);
  } else if (kind < 18 && g->or_allowed && depth < 2) {
    g->statement->in_order = false;
    random_add(g, "NOT (");
    random_condition(g, table, alias, depth + 1);
    random_add(g, ")");
  } else if (depth < 2) {
    pair_of(g, table, alias, depth);
  } else {
    key_prefix(g, table, alias);
  }
}
