/* Tables in main, in an attached file, in an attached database in memory and in temp, against SQLite
** itself: each colfam table t has an ordinary twin o in its schema, the same random statements go to
** both, in the same transactions. After every step both have the same rows.
**
** What happens at random: writes, nested savepoints, DROP and CREATE and RENAME in them, flushes and
** compactions, commits that span databases and those that fail behind a reader, DETACH and ATTACH, VACUUM,
** schema changes. A seed is one history; the journal modes of the two files come from it.
** COLFAM_SEED replays one seed, COLFAM_STEPS sets the number of steps. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness_sql.h"

#define SEEDS 12
#define STEPS 1500
#define LOG_LINES 80

static const char *const schemas[] = {"main", "aux", "memory", "temp"};
#define SCHEMAS (sizeof schemas / sizeof *schemas)

static sqlite3 *db, *other; /* the second one only reads main and aux */
static struct harness_random rng;
static uint64_t seed;
static unsigned step;
static int depth;
static char *lines[LOG_LINES];
static unsigned line_count;

static unsigned below(unsigned bound) {
  return (unsigned)harness_below(&rng, bound);
}

static void wrong(const char *what, const char *sql) {
  for (unsigned i = line_count > LOG_LINES ? line_count - LOG_LINES : 0; i < line_count; i++)
    fprintf(stderr, "  %s\n", lines[i % LOG_LINES]);
  ck_abort_msg("COLFAM_SEED=%llu, step %u: %s: %s: %s", (unsigned long long)seed, step, what, sql,
               sqlite3_errmsg(db));
}

/* The extended code; only conflicts and locks may be in the way. */
static int run(const char *sql) {
  int rc = sqlite3_exec(db, sql, NULL, NULL, NULL);
  char **line = &lines[line_count++ % LOG_LINES];
  sqlite3_free(*line);
  *line =
      sqlite3_mprintf("%u %d%s: %.200s", step, rc, sqlite3_get_autocommit(db) ? "" : " in", sql);
  int primary = rc & 0xff;
  if (rc && primary != SQLITE_CONSTRAINT && primary != SQLITE_BUSY) wrong("fails", sql);
  return rc;
}

static bool has(const char *schema, const char *table) {
  return sqlite3_table_column_metadata(db, schema, table, NULL, NULL, NULL, NULL, NULL, NULL) ==
         SQLITE_OK;
}

/* The colfam table's name now: t, or u after a RENAME; NULL: there is none. */
static const char *name_in(const char *schema) {
  return has(schema, "t") ? "t" : has(schema, "u") ? "u" : NULL;
}

/* The statement in sqlite3_mprintf's format for both tables, `@` standing for the name. */
static void both(const char *schema, const char *format, unsigned key) {
  int codes[2];
  const char *names[] = {name_in(schema), "o"};
  char *text = sqlite3_mprintf(format, key, key);
  for (int i = 0; i < 2; i++) {
    sqlite3_str *sql = sqlite3_str_new(NULL);
    for (const char *p = text; *p; p++) {
      if (*p == '@')
        sqlite3_str_appendf(sql, "%s.%s", schema, names[i]);
      else
        sqlite3_str_appendchar(sql, 1, *p);
    }
    char *full = sqlite3_str_finish(sql);
    codes[i] = run(full);
    sqlite3_free(full);
  }
  if (codes[0] != codes[1]) wrong("other code than the twin", text);
  sqlite3_free(text);
}

static void create(const char *schema) {
  char *sql = sqlite3_mprintf(
      "CREATE VIRTUAL TABLE %s.t USING colfam(k INT PRIMARY KEY, v, memtable_bytes = 16384)",
      schema);
  char *twin = sqlite3_mprintf("CREATE TABLE %s.o(k INT PRIMARY KEY, v) WITHOUT ROWID", schema);
  if (run(sql) || run(twin)) wrong("fails", sql);
  sqlite3_free(sql);
  sqlite3_free(twin);
}

static void attach(void) {
  sql_okf(db, "ATTACH %Q AS aux", sql_path("aux.db"));
  if (!name_in("aux")) create("aux");
}

static void compare(const char *schema) {
  char *texts[2];
  const char *names[] = {name_in(schema), "o"};
  for (int i = 0; i < 2; i++) {
    char *sql = sqlite3_mprintf("SELECT k, v FROM %s.%s ORDER BY k", schema, names[i]);
    texts[i] = sql_query(db, sql);
    sqlite3_free(sql);
  }
  if (strcmp(texts[0], texts[1]) != 0) {
    fprintf(stderr, "%s.t: %.500s\n%s.o: %.500s\n", schema, texts[0], schema, texts[1]);
    wrong("rows differ", schema);
  }
  sqlite3_free(texts[0]);
  sqlite3_free(texts[1]);
}

static void write_something(const char *schema) {
  static const char *const statements[] = {
      "INSERT OR REPLACE INTO @ VALUES(%u, 'value %u')",
      "INSERT INTO @ VALUES(%u, %u)",
      "DELETE FROM @ WHERE k = %u",
      "UPDATE @ SET v = v || '+' WHERE k > %u AND k < %u + 20",
      "UPDATE OR IGNORE @ SET k = k + 1 WHERE k = %u",
      ("WITH RECURSIVE n(i) AS (VALUES(%u) UNION ALL SELECT i + 1 FROM n WHERE i < %u + 40)"
       " INSERT OR IGNORE INTO @ SELECT i, 'long value number ' || i FROM n"),
  };
  both(schema, statements[below(6)], below(200));
}

static void end_transaction(void) {
  if (sqlite3_get_autocommit(db)) return;
  if (below(4) == 0 || run("COMMIT") != SQLITE_OK) {
    if (!sqlite3_get_autocommit(db)) run("ROLLBACK");
  }
  depth = 0;
}

static void change_savepoints(void) {
  char sql[64];
  unsigned what = below(4);
  if (sqlite3_get_autocommit(db)) depth = 0;
  if (what < 2 || depth == 0) {
    if (depth == 0 && below(2) && sqlite3_get_autocommit(db)) run("BEGIN");
    snprintf(sql, sizeof sql, "SAVEPOINT s%d", depth++);
    run(sql);
  } else {
    int to = (int)below((unsigned)depth);
    snprintf(sql, sizeof sql, "%s s%d", what == 2 ? "ROLLBACK TO" : "RELEASE", to);
    if (run(sql) != SQLITE_OK) {
      run("ROLLBACK");
      depth = 0;
    } else {
      depth = what == 2 ? to + 1 : to;
    }
  }
}

static void rename_table(const char *schema) {
  const char *name = name_in(schema);
  char sql[64];
  snprintf(sql, sizeof sql, "ALTER TABLE %s.%s RENAME TO %s", schema, name,
           *name == 't' ? "u" : "t");
  run(sql);
}

static void change_schema(const char *schema) {
  switch (below(5)) {
    case 0:
    case 1:
      rename_table(schema);
      break;
    case 2:
    case 3:
      both(schema, "DROP TABLE @", 0);
      if (!name_in(schema) && below(2)) create(schema);
      break;
    default:
      run("CREATE TABLE temp.scratch(x); DROP TABLE temp.scratch");
  }
}

static void command(const char *schema) {
  const char *name = name_in(schema);
  char sql[64];
  snprintf(sql, sizeof sql, "INSERT INTO %s.%s(%s) VALUES('%s')", schema, name, name,
           below(3) ? "flush" : "compact");
  run(sql);
}

/* Outside of transactions only. */
static void change_databases(void) {
  end_transaction();
  switch (below(5)) {
    case 0:
      run("VACUUM aux");
      break;
    case 1:
      run("VACUUM");
      break;
    case 2:
      if (has("temp", "colfam_drops")) run("DROP TABLE temp.colfam_drops");
      break;
    default:
      sql_ok(db, "DETACH aux");
      attach();
  }
}

/* A reader in another connection: commits in rollback modes fail meanwhile. */
static void read_elsewhere(void) {
  if (sqlite3_get_autocommit(other))
    sqlite3_exec(other, "BEGIN; SELECT count(*) FROM o", NULL, NULL, NULL);
  else
    sqlite3_exec(other, "ROLLBACK", NULL, NULL, NULL);
}

static void one_step(void) {
  const char *schema = schemas[below(SCHEMAS)];
  unsigned what = below(100);
  if (what < 55 && name_in(schema)) write_something(schema);
  if (what >= 55 && what < 75) change_savepoints();
  if (what >= 75 && what < 83) end_transaction();
  if (what >= 83 && what < 88 && name_in(schema)) change_schema(schema);
  if (what >= 88 && what < 94 && name_in(schema)) command(schema);
  if (what >= 94 && what < 96) change_databases();
  if (what >= 96) read_elsewhere();
}

static void open_all(const char *journal, const char *aux_journal) {
  db = sql_open(sql_path("main.db"));
  sql_okf(db, "PRAGMA main.journal_mode = %s", journal);
  sql_ok(db, "ATTACH ':memory:' AS memory");
  attach();
  sql_okf(db, "PRAGMA aux.journal_mode = %s", aux_journal);
  for (size_t i = 0; i < SCHEMAS; i++)
    if (!name_in(schemas[i])) create(schemas[i]);
  other = sql_open(sql_path("main.db"));
}

static void play(uint64_t number) {
  static const char *const journals[] = {"wal", "delete", "truncate", "persist"};
  const char *steps = getenv("COLFAM_STEPS");
  seed = number;
  harness_seed(&rng, seed);
  depth = 0;
  open_all(journals[below(4)], journals[below(4)]);
  for (step = 0; step < (steps ? (unsigned)strtoul(steps, NULL, 10) : STEPS); step++) {
    one_step();
    for (size_t i = 0; i < SCHEMAS; i++)
      if (name_in(schemas[i])) compare(schemas[i]);
    if (sqlite3_get_autocommit(db) && sqlite3_get_autocommit(other))
      for (size_t i = 0; i < SCHEMAS; i++)
        if (!name_in(schemas[i])) create(schemas[i]);
  }
  if (!sqlite3_get_autocommit(other)) sql_ok(other, "ROLLBACK");
  if (!sqlite3_get_autocommit(db)) sql_ok(db, "ROLLBACK");
  sql_close(other);
  sql_rows(db, "SELECT c.* FROM colfam_families f, colfam_check(f.table_name) c", "");
  sql_close(db);
}

START_TEST(tables_of_all_schemas_are_as_their_twins) {
  const char *given = getenv("COLFAM_SEED");
  play(given ? strtoull(given, NULL, 10) : (uint64_t)_i + 1);
}
END_TEST

int main(void) {
  Suite *s = suite_create("model_schemas");
  TCase *tc = tcase_create("model_schemas");
  tcase_set_timeout(tc, 600);
  tcase_add_loop_test(tc, tables_of_all_schemas_are_as_their_twins, 0,
                      getenv("COLFAM_SEED") ? 1 : SEEDS);
  suite_add_tcase(s, tc);
  return harness_run(s);
}
