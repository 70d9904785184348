/* See harness_pair.h. */
#include "harness_pair.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness_sql.h"

static const char *const sides[] = {"ordinary", "colfam"};

/* ---- Statements */

static int bind(sqlite3 *db, sqlite3_stmt *stmt, const struct random_statement *statement) {
  for (int i = 0; i < statement->binding_count; i++) {
    char *sql = sqlite3_mprintf("SELECT %s", statement->bindings[i].sql);
    sqlite3_stmt *value = NULL;
    int rc = sqlite3_prepare_v2(db, sql, -1, &value, NULL);
    sqlite3_free(sql);
    if (rc == SQLITE_OK) sqlite3_step(value);
    if (rc == SQLITE_OK) rc = sqlite3_bind_value(stmt, i + 1, sqlite3_column_value(value, 0));
    sqlite3_finalize(value);
    if (rc != SQLITE_OK) return rc;
  }
  return SQLITE_OK;
}

static void kept_release(struct pair_kept *kept) {
  sqlite3_free(kept->sql);
  for (int i = 0; i < 2; i++) sqlite3_finalize(kept->stmts[i]);
  memset(kept, 0, sizeof *kept);
}

static struct pair_kept *kept_find(struct pair *pair, const char *sql) {
  for (int i = 0; i < PAIR_KEPT; i++)
    if (pair->kept[i].sql && !strcmp(pair->kept[i].sql, sql)) return &pair->kept[i];
  struct pair_kept *kept = &pair->kept[pair->kept_next++ % PAIR_KEPT];
  kept_release(kept);
  kept->sql = sqlite3_mprintf("%s", sql);
  return kept;
}

/* The statement with its values, kept or to be finalized. */
static int prepare(struct pair *pair, int side, const struct random_statement *statement,
                   sqlite3_stmt **stmt) {
  struct pair_kept *kept = statement->kept ? kept_find(pair, statement->sql) : NULL;
  int rc = SQLITE_OK;
  *stmt = kept ? kept->stmts[side] : NULL;
  if (!*stmt) rc = sqlite3_prepare_v2(pair->dbs[side], statement->sql, -1, stmt, NULL);
  if (kept) kept->stmts[side] = *stmt;
  return rc == SQLITE_OK ? bind(pair->dbs[side], *stmt, statement) : rc;
}

static void run(struct pair *pair, int side, const struct random_statement *statement,
                struct answer *answer) {
  sqlite3_stmt *stmt;
  answer_release(answer);
  answer_init(answer);
  int rc = prepare(pair, side, statement, &stmt);
  if (rc == SQLITE_OK) {
    answer_step(answer, stmt, INT_MAX);
  } else {
    answer_end(answer, pair->dbs[side], rc);
  }
  if (statement->kept) {
    sqlite3_reset(stmt);
  } else {
    sqlite3_finalize(stmt);
  }
}

static bool same(const struct pair *pair, bool in_order, bool counted, char **difference) {
  const struct answer *ordinary = &pair->answers[PAIR_ORACLE];
  const struct answer *colfam = &pair->answers[PAIR_SUBJECT];
  if (answer_same(ordinary, colfam, in_order, counted)) return true;
  *difference =
      answer_difference(sides[PAIR_ORACLE], ordinary, sides[PAIR_SUBJECT], colfam, in_order);
  return false;
}

static bool run_both(struct pair *pair, const struct random_statement *statement,
                     char **difference) {
  struct answer *ordinary = &pair->answers[PAIR_ORACLE], *colfam = &pair->answers[PAIR_SUBJECT];
  run(pair, PAIR_ORACLE, statement, ordinary);
  run(pair, PAIR_SUBJECT, statement, colfam);
  pair->errors += ordinary->rc != SQLITE_OK;
  bool chosen = sql_chooses_rows(statement->sql) && ordinary->rc == colfam->rc;
  if (chosen && ordinary->row_count == colfam->row_count) return true;
  bool in_order = statement->in_order && sql_keeps_order(statement->sql);
  return same(pair, in_order, statement->counted, difference);
}

/* ---- What must hold for colfam's side alone */

static void query(struct pair *pair, const char *sql, struct answer *answer) {
  run(pair, PAIR_SUBJECT, &(struct random_statement){.sql = (char *)(uintptr_t)sql}, answer);
}

static void all_rows(struct pair *pair, struct answer answers[2]) {
  query(pair, "SELECT * FROM t", &answers[0]);
  query(pair, "SELECT * FROM u", &answers[1]);
}

static bool run_upkeep(struct pair *pair, const struct random_statement *statement,
                       char **difference) {
  struct answer before[2] = {{0}}, after[2] = {{0}}, *answer = &pair->answers[PAIR_SUBJECT];
  sqlite3_int64 rowid = sqlite3_last_insert_rowid(pair->dbs[PAIR_SUBJECT]);
  all_rows(pair, before);
  run(pair, PAIR_SUBJECT, statement, answer);
  all_rows(pair, after);
  bool quiet = answer->rc == SQLITE_OK && !answer->row_count &&
               (statement->kind == RANDOM_VACUUM || answer->rowid == rowid);
  if (!quiet) *difference = answer_difference("before", &before[0], "upkeep", answer, true);
  for (int i = 0; i < 2; i++) {
    bool same =
        before[i].row_count == after[i].row_count && answer_has(&before[i], &after[i], true);
    if (quiet && !same) {
      *difference = answer_difference("before", &before[i], "after", &after[i], true);
      quiet = false;
    }
    answer_release(&before[i]);
    answer_release(&after[i]);
  }
  return quiet;
}

/* VACUUM copies the schema, and with it the rows of views and virtual tables by an INSERT that counts. */
static bool run_vacuum(struct pair *pair, const struct random_statement *statement,
                       char **difference) {
  sqlite3 *db = pair->dbs[PAIR_SUBJECT];
  sqlite3_int64 rowid = sqlite3_last_insert_rowid(db);
  bool quiet = run_upkeep(pair, statement, difference);
  sqlite3_set_last_insert_rowid(db, rowid);
  return quiet;
}

static bool run_relation(struct pair *pair, const struct random_statement *statement,
                         char **difference) {
  struct answer *answer = &pair->answers[PAIR_SUBJECT], none = {0};
  run(pair, PAIR_SUBJECT, statement, answer);
  if (answer_ones(answer)) return true;
  *difference =
      answer_difference("nothing to compare with", &none, sides[PAIR_SUBJECT], answer, true);
  return false;
}

/* ---- Schema */

static bool in_transaction(const struct pair *pair) {
  return !sqlite3_get_autocommit(pair->dbs[PAIR_SUBJECT]);
}

static bool recreate(struct pair *pair, const struct random_statement *statement,
                     char **difference) {
  const struct random_setup *setup = &pair->scenario->setups[statement->rows];
  if (!run_both(pair, statement, difference)) return false;
  if (pair->answers[PAIR_ORACLE].rc != SQLITE_OK) return true;
  for (int side = 0; side < 2; side++) {
    struct random_statement create = {.sql = setup->sql[side]};
    run(pair, side, &create, &pair->answers[side]);
  }
  return same(pair, true, false, difference);
}

static bool rename_and_back(struct pair *pair, const struct random_statement *statement,
                            char **difference) {
  if (!run_both(pair, statement, difference)) return false;
  if (pair->answers[PAIR_ORACLE].rc != SQLITE_OK) return true;
  char sql[80];
  sqlite3_snprintf(sizeof sql, sql, "SELECT * FROM renamed");
  struct random_statement next = {.sql = sql, .in_order = sql_native()};
  if (!run_both(pair, &next, difference)) return false;
  sqlite3_snprintf(sizeof sql, sql, "ALTER TABLE renamed RENAME TO %s", statement->table);
  return run_both(pair, &next, difference);
}

/* ---- Cursors */

static void cursor_release(struct pair_cursor *cursor) {
  for (int i = 0; i < 2; i++) sqlite3_finalize(cursor->stmts[i]);
  answer_release(&cursor->expected);
  answer_release(&cursor->got);
  memset(cursor, 0, sizeof *cursor);
}

/* Takes more rows; what has come must be what was there at the opening, of which all at the end. */
static bool cursor_step(struct pair_cursor *cursor, int rows, char **difference) {
  if (!cursor->stmts[PAIR_SUBJECT] || cursor->got.message) return true;
  struct answer unused;
  answer_init(&unused);
  answer_step(&unused, cursor->stmts[PAIR_ORACLE], rows);
  answer_release(&unused);
  bool more = answer_step(&cursor->got, cursor->stmts[PAIR_SUBJECT], rows);
  const struct answer *expected = &cursor->expected;
  bool right = cursor->got.rc == SQLITE_OK &&
               (more || cursor->got.row_count == expected->row_count) &&
               answer_has(expected, &cursor->got, cursor->in_order);
  if (!right)
    *difference = answer_difference("ordinary at the opening", expected, "colfam's cursor",
                                    &cursor->got, cursor->in_order);
  return right;
}

/* The oracle's cursor reads one row of the table, so that it locks what the subject's does. */
static sqlite3_stmt *stand_in(sqlite3 *db, const char *table, int rows) {
  sqlite3_stmt *stmt = NULL;
  char *sql = sqlite3_mprintf("WITH RECURSIVE n(i) AS (SELECT 1 FROM (SELECT count(*) FROM %s)"
                              " UNION ALL SELECT i + 1 FROM n) SELECT i FROM n LIMIT %d",
                              table, rows);
  ck_assert_int_eq(sqlite3_prepare_v2(db, sql, -1, &stmt, NULL), SQLITE_OK);
  sqlite3_free(sql);
  return stmt;
}

static bool cursor_open(struct pair *pair, const struct random_statement *statement,
                        char **difference) {
  struct pair_cursor *cursor = &pair->cursors[statement->cursor];
  cursor_release(cursor);
  if (sql_chooses_rows(statement->sql)) return run_both(pair, statement, difference);
  run(pair, PAIR_ORACLE, statement, &cursor->expected);
  if (cursor->expected.rc != SQLITE_OK) {
    cursor_release(cursor);
    return run_both(pair, statement, difference);
  }
  sqlite3_stmt *stmt;
  int rc = prepare(pair, PAIR_SUBJECT, statement, &stmt);
  ck_assert_msg(rc == SQLITE_OK, "%s: %s", statement->sql, sqlite3_errmsg(pair->dbs[PAIR_SUBJECT]));
  answer_init(&cursor->got);
  cursor->stmts[PAIR_SUBJECT] = stmt;
  cursor->stmts[PAIR_ORACLE] =
      stand_in(pair->dbs[PAIR_ORACLE], statement->table, cursor->expected.row_count);
  cursor->in_order = statement->in_order && sql_keeps_order(statement->sql);
  return cursor_step(cursor, statement->rows + 1, difference);
}

static bool cursor_close(struct pair_cursor *cursor, int rows, char **difference) {
  bool right = cursor_step(cursor, rows ? INT_MAX : 0, difference);
  cursor_release(cursor);
  return right;
}

static void close_cursors(struct pair *pair) {
  for (int i = 0; i < RANDOM_CURSORS_MAX; i++) cursor_release(&pair->cursors[i]);
}

/* ---- Databases */

/* Triggers may write colfam tables. */
static void configure(struct pair *pair, int side) {
  const struct random_scenario *scenario = pair->scenario;
  sqlite3 *db = pair->dbs[side];
  sqlite3_extended_result_codes(db, 1);
  sql_okf(db, "PRAGMA %s", scenario->settings);
  if (scenario->attached) {
    sql_okf(db, "ATTACH '%q-aux' AS aux", pair->paths[side]);
    sql_okf(db, "PRAGMA aux.synchronous = %s", scenario->synchronous);
  }
  sql_okf(db, "PRAGMA synchronous = %s; PRAGMA trusted_schema = on", scenario->synchronous);
}

static void set_up(struct pair *pair, bool again) {
  const struct random_scenario *scenario = pair->scenario;
  for (int i = 0; i < scenario->setup_count; i++) {
    const struct random_setup *setup = &scenario->setups[i];
    if (setup->not_needed || (again && !setup->each_time)) continue;
    for (int side = 0; side < 2; side++) sql_ok(pair->dbs[side], setup->sql[side]);
  }
}

static void open_both(struct pair *pair) {
  ck_assert_int_eq(sqlite3_open(pair->paths[PAIR_ORACLE], &pair->dbs[PAIR_ORACLE]), SQLITE_OK);
  pair->dbs[PAIR_SUBJECT] = sql_open(pair->paths[PAIR_SUBJECT]);
  for (int side = 0; side < 2; side++) configure(pair, side);
}

static void close_both(struct pair *pair) {
  close_cursors(pair);
  for (int i = 0; i < PAIR_KEPT; i++) kept_release(&pair->kept[i]);
  for (int side = 0; side < 2; side++) sql_close(pair->dbs[side]);
}

static void reopen(struct pair *pair) {
  close_both(pair);
  open_both(pair);
  set_up(pair, true);
}

void pair_open(struct pair *pair, const char *name, const struct random_scenario *scenario) {
  memset(pair, 0, sizeof *pair);
  pair->scenario = scenario;
  const char *dir = scenario->on_disk ? harness_dir() : harness_memory_dir();
  for (int side = 0; side < 2; side++)
    snprintf(pair->paths[side], sizeof pair->paths[side], "%s/%s-%s.db", dir, name, sides[side]);
  open_both(pair);
  for (int side = 0; side < 2; side++)
    sql_okf(pair->dbs[side], "PRAGMA journal_mode = %s", scenario->journal_mode);
  set_up(pair, false);
}

static void remove_database(const char *path, const char *part) {
  static const char *const endings[] = {"", "-colfam", "-wal", "-shm", "-journal"};
  for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
    char name[4200];
    snprintf(name, sizeof name, "%s%s%s", path, part, endings[i]);
    harness_remove_tree(name);
  }
}

void pair_close(struct pair *pair) {
  close_both(pair);
  for (int side = 0; side < 2; side++) {
    answer_release(&pair->answers[side]);
    remove_database(pair->paths[side], "");
    remove_database(pair->paths[side], "-aux");
  }
}

bool pair_run(struct pair *pair, const struct random_statement *statement, char **difference) {
  *difference = NULL;
  struct pair_cursor *cursor = &pair->cursors[statement->cursor];
  switch (statement->kind) {
    case RANDOM_BOTH:
      return run_both(pair, statement, difference);
    case RANDOM_VACUUM:
      close_cursors(pair);
      return in_transaction(pair) || run_vacuum(pair, statement, difference);
    case RANDOM_SETTING:
      close_cursors(pair);
      return in_transaction(pair) || run_both(pair, statement, difference);
    case RANDOM_RECREATE:
      close_cursors(pair);
      return recreate(pair, statement, difference);
    case RANDOM_RENAME:
      close_cursors(pair);
      return rename_and_back(pair, statement, difference);
    case RANDOM_UPKEEP:
      return run_upkeep(pair, statement, difference);
    case RANDOM_HOLDS:
      return run_relation(pair, statement, difference);
    case RANDOM_REOPEN:
      reopen(pair);
      return true;
    case RANDOM_CURSOR_OPEN:
      return cursor_open(pair, statement, difference);
    case RANDOM_CURSOR_STEP:
      return cursor_step(cursor, statement->rows, difference);
    default:
      return cursor_close(cursor, statement->rows, difference);
  }
}
