/* Random tables: t and u of random shapes in random schemas, the ordinary table r, and what else a script
** has besides: a view, triggers that write colfam tables. */
#include "harness_random_sql.h"

#include <string.h>

static const char *const types[] = {
    "",        "",     "BLOB",    "BLOB",    "TEXT",        "TEXT",   "TEXT",           "INTEGER",
    "INT",     "INT",  "REAL",    "NUMERIC", "REAL",        "DATE",   "FLOATING POINT", "TEXT",
    "NUMERIC", "CLOB", "TINYINT", "DOUBLE",  "VARCHAR(20)", "DECIMAL"};

const char *random_key_name(const struct random_table *table, int i) {
  return table->key_count ? table->columns[table->key[i]].name : "rowid";
}

const char *random_key_type(const struct random_table *table, int i) {
  return table->key_count ? table->columns[table->key[i]].type : "INTEGER";
}

enum random_affinity random_affinity(const char *type) {
  if (strstr(type, "INT")) return RANDOM_INTEGER;
  if (strstr(type, "CHAR") || strstr(type, "CLOB") || strstr(type, "TEXT")) return RANDOM_TEXT;
  if (strstr(type, "BLOB") || !*type) return RANDOM_BLOB;
  if (strstr(type, "REAL") || strstr(type, "FLOA") || strstr(type, "DOUB")) return RANDOM_REAL;
  return RANDOM_NUMERIC;
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
  static const char *const collation[] = {"NOCASE", "RTRIM", "BINARY"};
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
    if (!table->rowid && random_once_in(g, 4)) column->collation = RANDOM_OF(g, collation);
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

static const char *draw_schema(struct random_sql *g) {
  static const char *const schemas[] = {"main", "main", "main", "main", "aux", "aux", "temp"};
  return RANDOM_OF(g, schemas);
}

static void draw_table(struct random_sql *g, struct random_table *table, const char *name) {
  memset(table, 0, sizeof *table);
  table->name = name;
  table->schema = draw_schema(g);
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
  if (random_once_in(g, 2)) random_add(g, ", value_bytes = %d", (int)random_below(g, 30));
}

static char *create_table(struct random_sql *g, const struct random_table *table, bool subject) {
  g->text = sqlite3_str_new(NULL);
  random_add(g, subject ? "CREATE VIRTUAL TABLE %s.%s USING colfam(" : "CREATE TABLE %s.%s(",
             table->schema, table->name);
  add_columns(g, table, subject);
  if (subject) add_options(g);
  if (subject && table->replaces) random_add(g, ", conflict = replace");
  random_add(g, ")%s", subject || table->rowid ? "" : " WITHOUT ROWID");
  return sqlite3_str_finish(g->text);
}

/* ---- Names */

const struct random_table *random_table(struct random_sql *g) {
  return &g->tables[random_once_in(g, 4)];
}

const char *random_name(struct random_sql *g, const struct random_table *table) {
  static const char *const names[2][3] = {{"main.t", "aux.t", "temp.t"},
                                          {"main.u", "aux.u", "temp.u"}};
  if (!random_once_in(g, 6)) return table->name;
  int schema = *table->schema == 'm' ? 0 : *table->schema == 'a' ? 1 : 2;
  return names[table != g->tables][schema];
}

const char *random_column_name(struct random_sql *g, const struct random_table *table) {
  return table->columns[random_below(g, (uint64_t)table->column_count)].name;
}

bool random_is_key(const struct random_table *table, int column) {
  for (int i = 0; i < table->key_count; i++)
    if (table->key[i] == column) return true;
  return false;
}

/* ---- View and triggers: in the temp schema when their tables are not all in main */

static const char *of_temp(const struct random_sql *g) {
  return strcmp(g->tables[0].schema, "main") != 0 ? "TEMP " : "";
}

static char *create_view(struct random_sql *g) {
  const struct random_table *table = &g->tables[0];
  static const char *const joins[] = {"JOIN", "LEFT JOIN"};
  static const char *const columns[] = {"x", "i", "y"};
  g->text = sqlite3_str_new(NULL);
  random_add(g, "CREATE %sVIEW w AS SELECT q.%s AS k, q.%s AS v, r.i AS i, r.x AS x FROM t AS q",
             of_temp(g), random_key_name(table, 0), random_column_name(g, table));
  random_add(g, " %s r ON r.%s = q.%s", RANDOM_OF(g, joins), RANDOM_OF(g, columns),
             random_column_name(g, table));
  return sqlite3_str_finish(g->text);
}

static void row_from(struct random_sql *g, const char *row) {
  static const char *const values[] = {"i", "x", "y", "z", "i % 5"};
  const struct random_table *table = &g->tables[0];
  for (int i = 0; i < table->column_count; i++) {
    bool id = table->rowid && random_is_key(table, i);
    random_add(g, "%s%s.%s", i ? ", " : "", row, id ? "i" : RANDOM_OF(g, values));
  }
}

/* Whenever a row comes into r, one comes into t. */
static char *insert_trigger(struct random_sql *g) {
  const struct random_table *table = &g->tables[0];
  g->text = sqlite3_str_new(NULL);
  random_add(g, "CREATE %sTRIGGER tr_insert AFTER INSERT ON r BEGIN %s INTO t VALUES(", of_temp(g),
             random_once_in(g, 2) ? "REPLACE" : "INSERT OR IGNORE");
  row_from(g, "new");
  random_add(g, "); UPDATE t SET %s = %s WHERE %s = new.i; END", table->columns[0].name,
             table->columns[0].name, random_key_name(table, 0));
  return sqlite3_str_finish(g->text);
}

/* Whenever a row leaves r, rows leave t, or none may. */
static char *delete_trigger(struct random_sql *g) {
  static const char *const actions[] = {"ABORT, 'kept'", "FAIL, 'kept'", "IGNORE",
                                        "ROLLBACK, 'all'"};
  const char *key = random_key_name(&g->tables[0], 0);
  g->text = sqlite3_str_new(NULL);
  random_add(g,
             "CREATE %sTRIGGER tr_delete BEFORE DELETE ON r BEGIN DELETE FROM t WHERE %s = old.%s;",
             of_temp(g), key, random_once_in(g, 2) ? "i" : "x");
  if (random_once_in(g, 2))
    random_add(g, " SELECT RAISE(%s) WHERE EXISTS (SELECT 1 FROM t WHERE %s > old.i);",
               RANDOM_OF(g, actions), key);
  random_add(g, " END");
  return sqlite3_str_finish(g->text);
}

/* Whenever a row of r changes, t gets the new one. */
static char *update_trigger(struct random_sql *g) {
  g->text = sqlite3_str_new(NULL);
  random_add(g,
             "CREATE %sTRIGGER tr_update AFTER UPDATE ON r WHEN old.x IS NOT new.x BEGIN"
             " INSERT %s INTO t VALUES(",
             of_temp(g), random_once_in(g, 2) ? "OR REPLACE" : "");
  row_from(g, random_once_in(g, 2) ? "new" : "old");
  random_add(g, "); END");
  return sqlite3_str_finish(g->text);
}

/* ---- A script's beginning */

static void add_setup(struct random_scenario *scenario, char *oracle, char *subject, bool temp) {
  scenario->setups[scenario->setup_count++] = (struct random_setup){{oracle, subject}, temp, false};
}

static void add_common_setup(struct random_sql *g, struct random_scenario *scenario,
                             char *(*create)(struct random_sql *)) {
  uint64_t state = g->random.state;
  char *oracle = create(g);
  g->random.state = state;
  add_setup(scenario, oracle, create(g), *of_temp(g));
}

static char *create_other(struct random_sql *g) {
  (void)g;
  return sqlite3_mprintf(
      "CREATE TABLE r(i INTEGER PRIMARY KEY, x TEXT, y, z REAL);"
      "INSERT INTO r VALUES(1, 'a', 1, 1.0), (2, 'b', 'a', 2.5), (3, '1', '1', 3.0),"
      " (4, '01', 1.0, -0.0), (5, NULL, NULL, NULL), (6, 'ab', x'61', 1e300),"
      " (7, ' 1', 40, 40.0), (8, 'x1', '1.0', 0.5), (9, char(0), 'ab', 9),"
      " (12, '12', 12, 12), (13, 'A1', 'b2', '+x'), (14, '10', 5, '12ab')");
}

/* No exclusive locking: with a persistent journal a failing statement then undoes others before it in an
** ordinary table too (SQLite's fault, seen with 3.40). */
static void draw_scenario(struct random_sql *g, struct random_scenario *scenario) {
  static const char *const journal_modes[] = {"memory", "wal",      "delete", "persist",
                                              "wal",    "truncate", "delete"};
  static const char *const levels[] = {"normal", "full", "extra"};
  static const char *const settings[] = {
      "cache_size = 5",         "page_size = 512",           "page_size = 65536",
      "auto_vacuum = full",     "auto_vacuum = incremental", "temp_store = memory",
      "recursive_triggers = on"};
  memset(scenario, 0, sizeof *scenario);
  scenario->journal_mode = RANDOM_OF(g, journal_modes);
  scenario->synchronous = random_once_in(g, 8) ? RANDOM_OF(g, levels) : "off";
  scenario->on_disk = random_once_in(g, 16);
  scenario->settings = random_once_in(g, 3) ? RANDOM_OF(g, settings) : "page_size = 4096";
  for (int i = 0; i < 2; i++) {
    const struct random_table *table = &g->tables[i];
    uint64_t state = g->random.state;
    char *oracle = create_table(g, table, false);
    g->random.state = state;
    add_setup(scenario, oracle, create_table(g, table, true), *table->schema == 't');
    scenario->attached = scenario->attached || *table->schema == 'a';
  }
  scenario->setups[scenario->setup_count++] =
      (struct random_setup){{create_other(g), create_other(g)}, false, false};
  g->view = random_once_in(g, 2);
  if (g->view) add_common_setup(g, scenario, create_view);
  if (random_once_in(g, 3)) add_common_setup(g, scenario, insert_trigger);
  if (random_once_in(g, 3)) add_common_setup(g, scenario, delete_trigger);
  if (random_once_in(g, 3)) add_common_setup(g, scenario, update_trigger);
}

void random_sql_init(struct random_sql *g, uint64_t seed, struct random_scenario *scenario) {
  memset(g, 0, sizeof *g);
  harness_seed(&g->random, seed);
  draw_table(g, &g->tables[0], "t");
  draw_table(g, &g->tables[1], "u");
  draw_scenario(g, scenario);
}

void random_scenario_release(struct random_scenario *scenario) {
  for (int i = 0; i < scenario->setup_count; i++) {
    sqlite3_free(scenario->setups[i].sql[0]);
    sqlite3_free(scenario->setups[i].sql[1]);
  }
}
