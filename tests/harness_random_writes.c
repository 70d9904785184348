/* Random statements that write: all conflict modes, key changes, INSERT ... SELECT from the table itself.
** Statements whose outcome depends on the order in which rows are visited get conditions that both sides
** answer in key order. */
#include "harness_random_sql.h"

#include <string.h>

#include "harness_sql.h"

static const char *const modes[] = {"",           "",           "",        "OR ABORT",
                                    "OR REPLACE", "OR IGNORE",  "OR FAIL", "OR REPLACE",
                                    "OR IGNORE",  "OR ROLLBACK"};

/* ---- INSERT */

static void key_value(struct random_sql *g, const struct random_table *table, int column) {
  int i = 0;
  while (table->key[i] != column) i++;
  g->slot = random_slot(g, table, i);
  random_key_value(g, table->columns[column].type, table->rowid);
  g->slot = 0;
}

static void column_value(struct random_sql *g, const struct random_table *table, int column) {
  if (!random_is_key(table, column)) {
    random_value(g, table->columns[column].type);
  } else if (table->rowid && random_once_in(g, 4)) {
    random_add(g, "NULL");
  } else {
    key_value(g, table, column);
  }
}

static void insert_into(struct random_sql *g, const struct random_table *table) {
  if (random_once_in(g, 10)) {
    random_add(g, "REPLACE INTO %s", random_name(g, table));
    g->strict_mode = false;
  } else {
    const char *mode = RANDOM_OF(g, modes);
    if (table->replaces && strstr(mode, "ABORT")) mode = "";
    g->strict_mode = (!*mode && !table->replaces) || strstr(mode, "ABORT");
    random_add(g, "INSERT %s INTO %s", mode, random_name(g, table));
  }
}

/* SQLite does not say which of rowid and alias was named last, so the alias is left out beside rowid. */
static void row_of_values(struct random_sql *g, const struct random_table *table, bool rowid) {
  if (random_once_in(g, 4)) random_recall(g);
  g->written_row = (int)random_below(g, RANDOM_ROWS_MAX);
  if (rowid) random_key_value(g, "INTEGER", true);
  for (int i = 0, count = rowid; i < table->column_count; i++) {
    if (rowid && random_is_key(table, i)) continue;
    if (count++) random_add(g, ", ");
    column_value(g, table, i);
  }
  g->written_row = -1;
  random_forget(g);
}

static void insert_values(struct random_sql *g, const struct random_table *table) {
  insert_into(g, table);
  bool rowid = table->rowid && random_once_in(g, 3);
  if (rowid) {
    random_add(g, "(rowid");
    for (int i = 0; i < table->column_count; i++)
      if (!random_is_key(table, i)) random_add(g, ", %s", table->columns[i].name);
    random_add(g, ")");
  }
  int rows = random_once_in(g, 10) ? 20 : random_once_in(g, 2) ? 1 : 1 + (int)random_below(g, 5);
  for (int row = 0; row < rows; row++) {
    int begin = random_begin(g);
    random_add(g, row ? ", (" : " VALUES(");
    row_of_values(g, table, rowid);
    random_add(g, ")");
    if (row) random_end(g, begin);
  }
  /* SQLite returns rows that a virtual table ignored, and no rowid that it assigned. */
  if (!table->rowid && g->strict_mode && random_once_in(g, 6)) random_add(g, " RETURNING *");
}

static void insert_some_columns(struct random_sql *g, const struct random_table *table) {
  insert_into(g, table);
  if (random_once_in(g, 6)) {
    random_add(g, " DEFAULT VALUES");
    return;
  }
  int left_out = (int)random_below(g, (uint64_t)table->column_count + 1), listed = 0;
  sqlite3_str *values = sqlite3_str_new(NULL), *statement = g->text;
  for (int i = table->column_count - 1; i >= 0; i--) {
    if (i == left_out) continue;
    random_add(g, "%s%s", listed ? ", " : "(", table->columns[i].name);
    g->text = values;
    random_add(g, listed++ ? ", " : "VALUES(");
    column_value(g, table, i);
    g->text = statement;
  }
  char *text = sqlite3_str_finish(values);
  random_add(g, listed ? ") %s)" : " DEFAULT VALUES", text);
  sqlite3_free(text);
}

/* The form of a column; a key gets nothing long, since the length of keys is limited. */
static void add_form(struct random_sql *g, const char *form, const char *name, bool key) {
  const char *hole = strstr(form, "%s");
  if (key) random_add(g, "iif(length(CAST(%s AS BLOB)) > 2000, 3, ", name);
  random_add(g, "%.*s%s%s%s", (int)(hole - form), form, name, hole + 2, key ? ")" : "");
}

/* What a column gets from a source row with the columns named here. */
static void source_expression(struct random_sql *g, const struct random_table *table, int column,
                              const char *const *names, size_t count) {
  static const char *const forms[] = {"%s",        "%s",
                                      "%s + 1",    "%s || 'x'",
                                      "%s + 100",  "%s * 2",
                                      "'b' || %s", "CAST(%s AS TEXT)",
                                      "-%s",       "ifnull(%s, 7)",
                                      "abs(%s)",   "substr(%s, 1, 40)",
                                      "%s % 7"};
  const char *name = names[random_below(g, count)];
  if (table->rowid && random_is_key(table, column)) {
    random_add(g, random_once_in(g, 2) ? "NULL" : "abs(length(%s) %% 100000) + 1", name);
    return;
  }
  add_form(g, RANDOM_OF(g, forms), name, random_is_key(table, column));
}

static void insert_select(struct random_sql *g, const struct random_table *table) {
  static const char *const numbers[] = {"i"}, *const of_r[] = {"i", "x", "y", "z"};
  const struct random_table *source = &g->tables[random_below(g, 2)];
  const char *of_table[RANDOM_COLUMNS_MAX];
  for (int i = 0; i < source->column_count; i++) of_table[i] = source->columns[i].name;
  uint64_t from = random_below(g, 6);
  insert_into(g, table);
  random_add(g, " SELECT ");
  for (int i = 0; i < table->column_count; i++) {
    if (i) random_add(g, ", ");
    if (from < 1) source_expression(g, table, i, numbers, 1);
    if (from == 1) source_expression(g, table, i, of_r, 4);
    if (from > 1) source_expression(g, table, i, of_table, (size_t)source->column_count);
  }
  if (from < 1) {
    random_add(g,
               " FROM (WITH RECURSIVE n(i) AS (VALUES(%d) UNION ALL SELECT i + %d FROM n LIMIT %d)"
               " SELECT i FROM n)",
               (int)random_below(g, 200) - 50, 1 + (int)random_below(g, 5),
               1 + (int)random_below(g, 150));
  } else if (from == 1) {
    random_add(g, " FROM r ORDER BY i");
  } else {
    random_add(g, " FROM %s WHERE ", source->name);
    g->or_allowed = g->casts_allowed = false;
    random_condition(g, source, source->name, 0);
    random_add(g, " ORDER BY ");
    random_key_order(g, source, source->name, random_once_in(g, 2));
    random_add(g, " LIMIT %d", 1 + (int)random_below(g, 100));
  }
}

/* ---- UPDATE and DELETE */

static void set_column(struct random_sql *g, const struct random_table *table, int column) {
  static const char *const forms[] = {"%s + 1",     "%s || 'x'", "-%s",
                                      "length(%s)", "NULL + %s", "%s - 1",
                                      "upper(%s)",  "%s * 10",   "substr(%s, 1, 5)"};
  const char *name = table->columns[column].name;
  random_add(g, "%s = ", name);
  if (random_once_in(g, 2)) {
    column_value(g, table, column);
  } else if (random_is_key(table, column) && table->rowid) {
    random_add(g, "%s %s %d", name, random_once_in(g, 2) ? "+" : "-", (int)random_below(g, 3));
  } else {
    const char *other = random_column_name(g, table);
    add_form(g, RANDOM_OF(g, forms), random_once_in(g, 3) ? other : name,
             random_is_key(table, column));
  }
}

static void set_swapped(struct random_sql *g, const struct random_table *table) {
  const char *a = random_key_name(table, 0), *b = random_key_name(table, 1);
  if (random_once_in(g, 2)) {
    random_add(g, "%s = %s, %s = %s", a, b, b, a);
  } else {
    random_add(g, "(%s, %s) = (SELECT x, y FROM r ORDER BY i LIMIT 1 OFFSET %d)", a, b,
               (int)random_below(g, 5));
  }
}

/* All of the key is told by =. */
static void where_one_row(struct random_sql *g, const struct random_table *table) {
  random_recall(g);
  for (int i = 0; i < random_key_width(table); i++) {
    random_add(g, "%s%s = ", i ? " AND " : " WHERE ", random_key_name(table, i));
    random_key_of(g, table, i);
  }
  random_forget(g);
}

/* Later steps of an OR REPLACE that changes keys would see rows that earlier steps replaced: SQLite reads
** an ordinary table's row again, and hands a virtual table what it read before. So it changes one row.
** Where the tables are in different orders each change of keys does, and no row stays changed before one
** that fails. */
static void update(struct random_sql *g, const struct random_table *table) {
  int column = (int)random_below(g, (uint64_t)table->column_count);
  bool swap = table->key_count > 1 && random_once_in(g, 6);
  bool key_changes = swap || random_is_key(table, column);
  const char *mode = RANDOM_OF(g, modes);
  if (table->replaces && !*mode) mode = "OR ABORT";
  bool any_order = !sql_native();
  if (any_order && strstr(mode, "FAIL")) mode = "OR ABORT";
  bool one_row = key_changes && (any_order || strstr(mode, "REPLACE"));
  g->strict_mode = !*mode || strstr(mode, "ABORT");
  g->or_allowed = g->casts_allowed = !key_changes && !*mode;
  random_add(g, "UPDATE %s %s SET ", mode, table->name);
  if (swap) {
    set_swapped(g, table);
  } else {
    set_column(g, table, column);
  }
  int more = (int)random_below(g, (uint64_t)table->column_count);
  if (!swap && more != column && !random_is_key(table, more) && random_once_in(g, 3)) {
    random_add(g, ", ");
    set_column(g, table, more);
  }
  if (one_row) {
    where_one_row(g, table);
  } else if (!random_once_in(g, 12)) {
    int begin = random_begin(g);
    random_add(g, " WHERE ");
    random_condition(g, table, table->name, 0);
    random_end(g, begin);
  }
}

/* Cannot fail: SQLite undoes nothing of an UPDATE FROM on a virtual table that fails in a transaction. */
static void update_from(struct random_sql *g, const struct random_table *table) {
  static const char *const sources[] = {"r.x", "r.y", "r.z", "r.i"};
  int column = table->column_count - 1;
  while (column >= 0 && (random_is_key(table, column) || table->columns[column].not_null)) column--;
  if (column < 0) {
    update(g, table);
    return;
  }
  random_add(g, "UPDATE %s SET %s = %s FROM r WHERE r.i = %s.%s", table->name,
             table->columns[column].name, RANDOM_OF(g, sources), table->name,
             random_key_name(table, 0));
}

/* Keeps tables small: does nothing below a number of rows. */
static void delete_many(struct random_sql *g, const struct random_table *table) {
  random_add(g,
             "DELETE FROM %s WHERE (SELECT count(*) FROM %s) > %d AND length(quote(%s)) %% 3 <> %d",
             table->name, table->name, 100 + (int)random_below(g, 300),
             random_key_name(table, random_key_width(table) - 1), (int)random_below(g, 3));
}

static void delete_rows(struct random_sql *g, const struct random_table *table) {
  if (random_once_in(g, 4)) {
    delete_many(g, table);
    return;
  }
  random_add(g, "DELETE FROM %s", random_name(g, table));
  if (random_once_in(g, 40)) return;
  random_add(g, " WHERE ");
  random_condition(g, table, table->name, 0);
}

/* An expression that fails at some row, after others were written. No constraint may fail first: UPDATE on a
** virtual table computes all rows before it changes one. */
static void fail_midway(struct random_sql *g, const struct random_table *table) {
  static const char *const forms[] = {"abs(iif(%s, -9223372036854775807 - 1, 1))",
                                      "iif(%s, json('no json'), 1)",
                                      "iif(%s, zeroblob(3000000000), 'x')"};
  const char *form = RANDOM_OF(g, forms);
  const char *column = random_column_name(g, table);
  char condition[80];
  sqlite3_snprintf(sizeof condition, condition, "instr(quote(%s), '%d')", column,
                   (int)random_below(g, 10));
  int target = table->column_count - 1;
  while (target >= 0 && (random_is_key(table, target) || table->columns[target].not_null)) target--;
  if (target < 0) {
    random_add(g, "DELETE FROM %s WHERE ", table->name);
    sqlite3_str_appendf(g->text, form, condition);
  } else {
    random_add(g, "UPDATE %s SET %s = ", table->name, table->columns[target].name);
    sqlite3_str_appendf(g->text, form, condition);
  }
}

/* r, whose triggers write t. */
static void write_other(struct random_sql *g) {
  static const char *const other_modes[] = {"OR REPLACE", "OR REPLACE", "OR IGNORE",
                                            "",           "OR FAIL",    "OR ROLLBACK"};
  uint64_t kind = random_below(g, 4);
  if (kind == 0) {
    random_add(g, "DELETE FROM r WHERE i %s %d", random_once_in(g, 4) ? ">" : "=",
               (int)random_below(g, 30));
    return;
  }
  if (kind == 1) {
    random_add(g, "UPDATE %s r SET x = ", RANDOM_OF(g, other_modes));
    random_key_value(g, "TEXT", false);
    random_add(g, " WHERE i %s %d", random_once_in(g, 4) ? ">" : "=", (int)random_below(g, 30));
    return;
  }
  random_add(g, "INSERT %s INTO r VALUES(%d, ", RANDOM_OF(g, other_modes),
             (int)random_below(g, 30));
  random_key_value(g, "TEXT", false);
  random_add(g, ", ");
  random_key_value(g, "", false);
  random_add(g, ", ");
  random_key_value(g, "REAL", false);
  random_add(g, ")");
}

void random_write(struct random_sql *g) {
  const struct random_table *table = random_table(g);
  g->statement->counted = true;
  uint64_t kind = random_below(g, 100);
  if (kind < 36) {
    insert_values(g, table);
  } else if (kind < 42) {
    insert_some_columns(g, table);
  } else if (kind < 54) {
    insert_select(g, table);
  } else if (kind < 74) {
    update(g, table);
  } else if (kind < 76) {
    update_from(g, table);
  } else if (kind < 78) {
    fail_midway(g, table);
  } else if (kind < 93) {
    delete_rows(g, table);
  } else {
    write_other(g);
  }
}
