/* Random tables, and statements that write them: all conflict modes, key changes, INSERT ... SELECT from the
** table itself, savepoints. Statements whose outcome depends on the order in which rows are visited get
** conditions that both sides answer in key order. */
#include "harness_random_sql.h"

#include <string.h>

static const char *const types[] = {"", "BLOB", "TEXT", "INTEGER", "INT", "REAL", "NUMERIC"};
static const char *const modes[] = {"",           "",           "",        "OR ABORT",
                                    "OR REPLACE", "OR IGNORE",  "OR FAIL", "OR REPLACE",
                                    "OR IGNORE",  "OR ROLLBACK"};

/* ---- Tables */

const char *random_key_name(const struct random_table *table, int i) {
  return table->key_count ? table->columns[table->key[i]].name : "rowid";
}

const char *random_key_type(const struct random_table *table, int i) {
  return table->key_count ? table->columns[table->key[i]].type : "INTEGER";
}

int random_key_width(const struct random_table *table) {
  return table->key_count ? table->key_count : 1;
}

void random_key_order(struct random_sql *g, const struct random_table *table, const char *alias,
                      bool backwards) {
  for (int i = 0; i < random_key_width(table); i++) {
    bool descending = table->key_count && table->columns[table->key[i]].descending;
    random_add(g, "%s%s.%s%s", i ? ", " : "", alias, random_key_name(table, i),
               descending != backwards ? " DESC" : "");
  }
}

static void draw_key(struct random_sql *g, struct random_table *table) {
  static const char *const names[] = {"a", "b", "c"};
  uint64_t kind = random_below(g, 12);
  table->rowid = kind < 2;
  table->key_count = kind == 0 ? 0 : kind < 8 ? 1 : 2 + (int)random_below(g, 2);
  for (int i = 0; i < table->key_count; i++) {
    struct random_column *column = &table->columns[table->column_count];
    table->key[i] = table->column_count++;
    column->name = table->key_count == 1 ? "k" : names[i];
    column->type = table->rowid ? "INTEGER" : RANDOM_OF(g, types);
    if (!table->rowid && table->key_count == 1 && !strcmp(column->type, "INTEGER"))
      column->type = "BIGINT";
    column->descending = !table->rowid && random_once_in(g, table->key_count > 1 ? 2 : 5);
  }
}

static void draw_values(struct random_sql *g, struct random_table *table) {
  static const char *const names[] = {"v", "w", "x"};
  static const char *const collations[] = {NULL, NULL, NULL, "NOCASE", "RTRIM"};
  int count = (int)random_below(g, 4);
  if (!table->key_count && !count) count = 1;
  for (int i = 0; i < count; i++) {
    struct random_column *column = &table->columns[table->column_count++];
    column->name = names[i];
    column->type = RANDOM_OF(g, types);
    column->collation = RANDOM_OF(g, collations);
    column->not_null = random_once_in(g, 5);
  }
}

/* Moves the last column to the front: keys need not come first. */
static void rotate(struct random_table *table) {
  int last = table->column_count - 1;
  struct random_column column = table->columns[last];
  memmove(&table->columns[1], &table->columns[0], (size_t)last * sizeof column);
  table->columns[0] = column;
  for (int i = 0; i < table->key_count; i++) table->key[i] = (table->key[i] + 1) % (last + 1);
}

static void draw_table(struct random_sql *g, struct random_table *table, const char *name) {
  memset(table, 0, sizeof *table);
  table->name = name;
  draw_key(g, table);
  draw_values(g, table);
  table->replaces = table->key_count && random_once_in(g, 8);
  if (random_once_in(g, 3)) rotate(table);
  if (table->key_count > 1 && random_once_in(g, 3)) {
    int first = table->key[0];
    table->key[0] = table->key[1];
    table->key[1] = first;
  }
}

void random_sql_init(struct random_sql *g, uint64_t seed) {
  memset(g, 0, sizeof *g);
  harness_seed(&g->random, seed);
  draw_table(g, &g->tables[0], "t");
  draw_table(g, &g->tables[1], "u");
}

static void add_columns(struct random_sql *g, const struct random_table *table, bool subject) {
  for (int i = 0; i < table->column_count; i++) {
    const struct random_column *column = &table->columns[i];
    random_add(g, "%s%s %s%s", i ? ", " : "", column->name, column->type,
               column->not_null ? " NOT NULL" : "");
    if (column->collation) random_add(g, " COLLATE %s", column->collation);
  }
  for (int i = 0; i < table->key_count; i++) {
    const struct random_column *column = &table->columns[table->key[i]];
    random_add(g, "%s%s%s", i ? ", " : ", PRIMARY KEY(", column->name,
               column->descending ? " DESC" : "");
  }
  if (table->key_count) random_add(g, ")");
  if (table->replaces && !subject) random_add(g, " ON CONFLICT REPLACE");
}

static void add_options(struct random_sql *g) {
  if (random_once_in(g, 2)) random_add(g, ", memtable_bytes = 16384");
  if (random_once_in(g, 2)) random_add(g, ", block_bytes = 1024");
  if (random_once_in(g, 4)) random_add(g, ", filter_bits = 0");
  if (random_once_in(g, 4)) random_add(g, ", compression = none");
  if (random_once_in(g, 4)) random_add(g, ", track_rows = off");
}

char *random_sql_create(struct random_sql *g, int index, bool subject) {
  const struct random_table *table = &g->tables[index];
  g->text = sqlite3_str_new(NULL);
  random_add(g, subject ? "CREATE VIRTUAL TABLE %s USING colfam(" : "CREATE TABLE %s(",
             table->name);
  add_columns(g, table, subject);
  if (subject) add_options(g);
  if (subject && table->replaces) random_add(g, ", conflict = replace");
  random_add(g, ")%s", subject || table->rowid ? "" : " WITHOUT ROWID");
  return sqlite3_str_finish(g->text);
}

/* ---- INSERT */

static bool is_key(const struct random_table *table, int column) {
  for (int i = 0; i < table->key_count; i++)
    if (table->key[i] == column) return true;
  return false;
}

static void column_value(struct random_sql *g, const struct random_table *table, int column) {
  const char *type = table->columns[column].type;
  if (is_key(table, column)) {
    if (table->rowid && random_once_in(g, 4)) {
      random_add(g, "NULL");
    } else {
      random_key_value(g, type, table->rowid);
    }
  } else {
    random_value(g, type);
  }
}

static void insert_into(struct random_sql *g, const struct random_table *table) {
  if (random_once_in(g, 10)) {
    random_add(g, "REPLACE INTO %s", table->name);
    g->strict_mode = false;
  } else {
    const char *mode = RANDOM_OF(g, modes);
    if (table->replaces && strstr(mode, "ABORT")) mode = "";
    g->strict_mode = (!*mode && !table->replaces) || strstr(mode, "ABORT");
    random_add(g, "INSERT %s INTO %s", mode, table->name);
  }
}

/* SQLite does not say which of rowid and alias was named last, so the alias is left out beside rowid. */
static void row_of_values(struct random_sql *g, const struct random_table *table, bool rowid) {
  if (rowid) random_key_value(g, "INTEGER", true);
  for (int i = 0, count = rowid; i < table->column_count; i++) {
    if (rowid && is_key(table, i)) continue;
    if (count++) random_add(g, ", ");
    column_value(g, table, i);
  }
}

static void insert_values(struct random_sql *g, const struct random_table *table) {
  insert_into(g, table);
  bool rowid = table->rowid && random_once_in(g, 3);
  if (rowid) {
    random_add(g, "(rowid");
    for (int i = 0; i < table->column_count; i++)
      if (!is_key(table, i)) random_add(g, ", %s", table->columns[i].name);
    random_add(g, ")");
  }
  int rows = random_once_in(g, 10) ? 20 : random_once_in(g, 2) ? 1 : 1 + (int)random_below(g, 5);
  for (int row = 0; row < rows; row++) {
    random_add(g, row ? ", (" : " VALUES(");
    row_of_values(g, table, rowid);
    random_add(g, ")");
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
  if (table->rowid && is_key(table, column)) {
    random_add(g, random_once_in(g, 2) ? "NULL" : "abs(length(%s) %% 100000) + 1", name);
    return;
  }
  add_form(g, RANDOM_OF(g, forms), name, is_key(table, column));
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
    g->or_allowed = false;
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
  } else if (is_key(table, column) && table->rowid) {
    random_add(g, "%s %s %d", name, random_once_in(g, 2) ? "+" : "-", (int)random_below(g, 3));
  } else {
    const char *other = table->columns[random_below(g, (uint64_t)table->column_count)].name;
    add_form(g, RANDOM_OF(g, forms), random_once_in(g, 3) ? other : name, is_key(table, column));
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
  for (int i = 0; i < random_key_width(table); i++) {
    random_add(g, "%s%s = ", i ? " AND " : " WHERE ", random_key_name(table, i));
    random_key_value(g, random_key_type(table, i), false);
  }
}

/* Later steps of an OR REPLACE that changes keys would see rows that earlier steps replaced: SQLite reads
** an ordinary table's row again, and hands a virtual table what it read before. So it changes one row. */
static void update(struct random_sql *g, const struct random_table *table) {
  int column = (int)random_below(g, (uint64_t)table->column_count);
  bool swap = table->key_count > 1 && random_once_in(g, 6);
  bool key_changes = swap || is_key(table, column);
  const char *mode = RANDOM_OF(g, modes);
  if (table->replaces && !*mode) mode = "OR ABORT";
  bool one_row = key_changes && strstr(mode, "REPLACE");
  g->strict_mode = !*mode || strstr(mode, "ABORT");
  g->or_allowed = !key_changes && !*mode;
  random_add(g, "UPDATE %s %s SET ", mode, table->name);
  if (swap) {
    set_swapped(g, table);
  } else {
    set_column(g, table, column);
  }
  int more = (int)random_below(g, (uint64_t)table->column_count);
  if (!swap && more != column && !is_key(table, more) && random_once_in(g, 3)) {
    random_add(g, ", ");
    set_column(g, table, more);
  }
  if (one_row) {
    where_one_row(g, table);
  } else if (!random_once_in(g, 12)) {
    random_add(g, " WHERE ");
    random_condition(g, table, table->name, 0);
  }
}

/* Cannot fail: SQLite undoes nothing of an UPDATE FROM on a virtual table that fails in a transaction. */
static void update_from(struct random_sql *g, const struct random_table *table) {
  static const char *const sources[] = {"r.x", "r.y", "r.z", "r.i"};
  int column = table->column_count - 1;
  while (column >= 0 && (is_key(table, column) || table->columns[column].not_null)) column--;
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
  random_add(g, "DELETE FROM %s", table->name);
  if (random_once_in(g, 40)) return;
  random_add(g, " WHERE ");
  random_condition(g, table, table->name, 0);
}

static void write_other(struct random_sql *g) {
  random_add(g, "INSERT OR REPLACE INTO r VALUES(%d, ", (int)random_below(g, 30));
  random_key_value(g, "TEXT", false);
  random_add(g, ", ");
  random_key_value(g, "", false);
  random_add(g, ", ");
  random_value(g, "REAL");
  random_add(g, ")");
}

static void write(struct random_sql *g) {
  const struct random_table *table = &g->tables[random_once_in(g, 4)];
  g->statement->counted = true;
  uint64_t kind = random_below(g, 100);
  if (kind < 36) {
    insert_values(g, table);
  } else if (kind < 42) {
    insert_some_columns(g, table);
  } else if (kind < 54) {
    insert_select(g, table);
  } else if (kind < 76) {
    update(g, table);
  } else if (kind < 78) {
    update_from(g, table);
  } else if (kind < 96) {
    delete_rows(g, table);
  } else {
    write_other(g);
  }
}

/* ---- Everything else */

static void transaction(struct random_sql *g) {
  static const char *const forms[] = {"PRAGMA case_sensitive_like = 1",
                                      "PRAGMA case_sensitive_like = 0",

                                      "BEGIN",
                                      "BEGIN",
                                      "BEGIN IMMEDIATE",
                                      "COMMIT",
                                      "COMMIT",
                                      "COMMIT",
                                      "ROLLBACK",
                                      "SAVEPOINT s1",
                                      "SAVEPOINT s2",
                                      "SAVEPOINT s3",
                                      "RELEASE s1",
                                      "RELEASE s2",
                                      "RELEASE s3",
                                      "ROLLBACK TO s1",
                                      "ROLLBACK TO s2",
                                      "ROLLBACK TO s3",
                                      "SAVEPOINT s1",
                                      "ROLLBACK TO s1"};
  random_add(g, "%s", RANDOM_OF(g, forms));
}

static void event(struct random_sql *g) {
  const char *name = g->tables[random_below(g, 2)].name;
  uint64_t kind = random_below(g, 10);
  g->statement->subject_only = kind < 8;
  g->statement->reopen = kind >= 8;
  if (kind < 4) {
    random_add(g, "INSERT INTO %s(%s) VALUES('flush')", name, name);
  } else if (kind < 6) {
    random_add(g, "INSERT INTO %s(%s) VALUES('compact')", name, name);
  } else if (kind < 8) {
    random_add(g, "SELECT * FROM colfam_check('%s')", name);
  } else {
    random_add(g, "-- reopen");
  }
}

/* On r: writes t whenever r is written. */
char *random_sql_trigger(struct random_sql *g) {
  static const char *const values[] = {"new.i", "new.x", "new.y", "new.z", "new.i % 5", "7"};
  const struct random_table *table = &g->tables[0];
  g->text = sqlite3_str_new(NULL);
  random_add(g, "CREATE TRIGGER tr AFTER INSERT ON r BEGIN %s INTO t VALUES(",
             random_once_in(g, 2) ? "REPLACE" : "INSERT OR IGNORE");
  for (int i = 0; i < table->column_count; i++) {
    bool id = table->rowid && is_key(table, i);
    random_add(g, "%s%s", i ? ", " : "", id ? "new.i" : RANDOM_OF(g, values));
  }
  random_add(g, "); UPDATE t SET %s = %s WHERE %s = new.i; END", table->columns[0].name,
             table->columns[0].name, random_key_name(table, 0));
  return sqlite3_str_finish(g->text);
}

static void begin_statement(struct random_sql *g, struct random_statement *statement) {
  memset(statement, 0, sizeof *statement);
  statement->in_order = true;
  g->statement = statement;
  g->text = sqlite3_str_new(NULL);
  g->or_allowed = g->casts_allowed = g->bindable = true;
  g->strict_mode = g->ambiguous = false;
  g->list_count = 0;
}

void random_sql_next(struct random_sql *g, struct random_statement *statement) {
  begin_statement(g, statement);
  uint64_t kind = random_below(g, 100);
  if (kind < 36) {
    write(g);
  } else if (kind < 46) {
    transaction(g);
  } else if (kind < 50) {
    event(g);
  } else {
    random_select(g);
  }
  statement->sql = sqlite3_str_finish(g->text);
}

void random_sql_whole(struct random_sql *g, int table, struct random_statement *statement) {
  begin_statement(g, statement);
  const char *name = g->tables[table].name;
  random_add(g, "SELECT %s* FROM %s", g->tables[table].rowid ? "rowid, " : "", name);
  statement->sql = sqlite3_str_finish(g->text);
}

void random_statement_release(struct random_statement *statement) {
  sqlite3_free(statement->sql);
  for (int i = 0; i < statement->binding_count; i++) sqlite3_free(statement->bindings[i]);
}
