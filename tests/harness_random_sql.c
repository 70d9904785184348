/* Random statements of all kinds: transactions, upkeep, cursors that stay open, statements used again. */
#include "harness_random_sql.h"

#include <string.h>

/* ---- Transactions */

static void any_transaction(struct random_sql *g) {
  static const char *const forms[] = {
      "BEGIN",      "BEGIN EXCLUSIVE", "COMMIT",         "END",
      "ROLLBACK",   "SAVEPOINT s1",    "SAVEPOINT s2",   "RELEASE s1",
      "RELEASE s2", "ROLLBACK TO s1",  "ROLLBACK TO s2", "RELEASE s3"};
  random_add(g, "%s", RANDOM_OF(g, forms));
}

static void end_transaction(struct random_sql *g, const char *sql) {
  random_add(g, "%s", sql);
  g->in_transaction = g->begun = false;
  g->savepoints = 0;
}

static void begin_transaction(struct random_sql *g) {
  static const char *const forms[] = {"BEGIN", "BEGIN", "BEGIN IMMEDIATE", "BEGIN EXCLUSIVE"};
  random_add(g, "%s", RANDOM_OF(g, forms));
  g->in_transaction = g->begun = true;
}

static void savepoint(struct random_sql *g) {
  random_add(g, "SAVEPOINT s%d", ++g->savepoints);
  g->in_transaction = true;
}

static void release(struct random_sql *g) {
  int to = 1 + (int)random_below(g, (uint64_t)g->savepoints);
  random_add(g, "RELEASE s%d", to);
  g->savepoints = to - 1;
  g->in_transaction = g->begun || g->savepoints;
}

static void roll_back_to(struct random_sql *g) {
  g->savepoints = 1 + (int)random_below(g, (uint64_t)g->savepoints);
  random_add(g, "ROLLBACK TO s%d", g->savepoints);
}

static void transaction(struct random_sql *g) {
  uint64_t kind = random_below(g, 20);
  if (kind < 2) {
    any_transaction(g);
  } else if (!g->in_transaction && kind < 10) {
    begin_transaction(g);
  } else if (!g->in_transaction || (kind < 9 && g->savepoints < 5)) {
    savepoint(g);
  } else if (g->savepoints && kind < 13) {
    roll_back_to(g);
  } else if (g->savepoints && kind < 15) {
    release(g);
  } else {
    end_transaction(g, kind < 18 ? "COMMIT" : "ROLLBACK");
  }
}

/* ---- Upkeep */

static const char *any_option(struct random_sql *g) {
  static const char *const options[] = {
      "compression=none", "compression=zstd:1", "filter_bits=0",        "filter_bits=16",
      "block_bytes=1024", "block_bytes=16384",  "memtable_bytes=16384", "memtable_bytes=4194304",
      "track_rows=off",   "track_rows=on",      "value_bytes=1",        "value_bytes=20",
      "value_bytes=0"};
  return RANDOM_OF(g, options);
}

static void upkeep(struct random_sql *g) {
  const struct random_table *table = &g->tables[random_below(g, 2)];
  const char *name = random_name(g, table);
  uint64_t kind = random_below(g, 12);
  g->statement->kind = RANDOM_UPKEEP;
  if (kind < 8) {
    random_add(g, "INSERT INTO %s(%s) VALUES('%s')", name, table->name,
               kind < 4   ? "flush"
               : kind < 6 ? "compact"
                          : any_option(g));
  } else if (kind < 10 || g->in_transaction) {
    random_add(g, "SELECT * FROM colfam_check('%s')", name);
  } else {
    g->statement->kind = RANDOM_VACUUM;
    random_add(g, "VACUUM %s", table->schema);
  }
}

/* Inside a transaction SQLite keeps the journal mode once the file is written, which colfam's tables do at
** COMMIT. With a query open case_sensitive_like fails and still changes how LIKE is planned in the whole
** process (SQLite's fault). */
static void setting(struct random_sql *g) {
  static const char *const forms[] = {"journal_mode = delete",   "journal_mode = wal",
                                      "journal_mode = truncate", "journal_mode = persist",
                                      "journal_mode = memory",   "journal_mode = wal",
                                      "case_sensitive_like = 1", "case_sensitive_like = 0",
                                      "recursive_triggers = on", "recursive_triggers = off"};
  g->statement->kind = RANDOM_SETTING;
  random_add(g, "PRAGMA %s", RANDOM_OF(g, forms));
}

static void reopen(struct random_sql *g) {
  g->statement->kind = RANDOM_REOPEN;
  end_transaction(g, "-- reopen");
}

static void recreate(struct random_sql *g) {
  int table = (int)random_below(g, 2);
  g->statement->kind = RANDOM_RECREATE;
  g->statement->rows = table;
  random_add(g, "DROP TABLE %s", random_name(g, &g->tables[table]));
}

static void rename_and_back(struct random_sql *g) {
  const struct random_table *table = &g->tables[random_below(g, 2)];
  g->statement->kind = RANDOM_RENAME;
  g->statement->table = table->name;
  random_add(g, "ALTER TABLE %s RENAME TO renamed", random_name(g, table));
}

static void event(struct random_sql *g) {
  uint64_t kind = random_below(g, 17);
  if (kind < 11) {
    upkeep(g);
  } else if (kind < 13) {
    setting(g);
  } else if (kind < 15) {
    reopen(g);
  } else if (kind < 16) {
    recreate(g);
  } else {
    rename_and_back(g);
  }
  if (g->statement->kind > RANDOM_UPKEEP) memset(g->cursors, 0, sizeof g->cursors);
}

/* ---- Cursors */

/* Rows of one scan of one table: an ordinary table shows later writes to a query that is under way, and
** SQLite begins the next scan for an OR when it comes to it. */
static void cursor(struct random_sql *g) {
  struct random_statement *statement = g->statement;
  int i = (int)random_below(g, RANDOM_CURSORS_MAX);
  if (!g->cursors[i]) {
    g->own_rows = true;
    g->or_allowed = false;
    statement->table = random_select_one(g)->name;
    statement->kind = RANDOM_CURSOR_OPEN;
    g->cursors[i] = true;
  } else if (random_once_in(g, 3)) {
    statement->kind = RANDOM_CURSOR_CLOSE;
    g->cursors[i] = false;
  } else {
    statement->kind = RANDOM_CURSOR_STEP;
  }
  statement->cursor = i;
  statement->rows = (int)random_below(g, random_once_in(g, 4) ? 40 : 4);
  if (statement->kind == RANDOM_CURSOR_OPEN) return;
  random_add(g, "-- cursor %d: %s %d", i,
             statement->kind == RANDOM_CURSOR_STEP ? "step" : "close, after all rows unless 0:",
             statement->rows);
}

/* ---- Statements used again */

static bool again(struct random_sql *g) {
  if (!g->kept_count || !random_once_in(g, 8)) return false;
  random_again(g, g->kept[random_below(g, (uint64_t)g->kept_count)]);
  return true;
}

static void keep(struct random_sql *g) {
  struct random_statement *statement = g->statement;
  if (statement->kind != RANDOM_BOTH || !statement->binding_count) return;
  int place = g->kept_count;
  if (g->kept_count < RANDOM_KEPT_MAX) {
    g->kept_count++;
  } else if (random_once_in(g, 4)) {
    place = (int)random_below(g, RANDOM_KEPT_MAX);
  } else {
    return;
  }
  statement->kept = true;
  g->kept[place] = statement;
}

/* ---- Next */

static void begin_statement(struct random_sql *g, struct random_statement *statement) {
  memset(statement, 0, sizeof *statement);
  statement->in_order = true;
  g->statement = statement;
  g->text = g->whole = sqlite3_str_new(NULL);
  g->or_allowed = g->casts_allowed = g->bindable = true;
  g->strict_mode = g->ambiguous = g->own_rows = false;
  g->slot = 0;
  g->recalled_row = g->written_row = -1;
}

static void draw(struct random_sql *g) {
  uint64_t kind = random_below(g, 100);
  if (kind < 36) {
    random_write(g);
  } else if (kind < 46) {
    transaction(g);
  } else if (kind < 50) {
    event(g);
  } else if (kind < 58) {
    cursor(g);
  } else if (kind < 62) {
    random_relation(g);
  } else {
    random_select(g);
  }
}

void random_sql_next(struct random_sql *g, struct random_statement *statement) {
  begin_statement(g, statement);
  if (!again(g)) {
    draw(g);
    keep(g);
  }
  statement->sql = sqlite3_str_finish(g->text);
}

void random_sql_whole(struct random_sql *g, int table, struct random_statement *statement) {
  begin_statement(g, statement);
  const struct random_table *whole = &g->tables[table];
  random_add(g, "SELECT %s* FROM %s", whole->rowid ? "rowid, " : "", whole->name);
  statement->sql = sqlite3_str_finish(g->text);
}

void random_statement_release(struct random_statement *statement) {
  sqlite3_free(statement->sql);
  for (int i = 0; i < statement->binding_count; i++) sqlite3_free(statement->bindings[i].sql);
}
