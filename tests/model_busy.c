/* SQLITE_BUSY exactly where ordinary tables give it. Two databases of the same tables, all ordinary in
** one, one of them colfam's in the other; three connections to each. Random statements, cursors and
** transactions of one connection after the other run on both databases alike, without a busy handler: at
** each step both must give the same result code and the same rows. The colfam side flushes and merges in
** its commits and in its background thread meanwhile, and now and then a connection that is idle computes
** work, or another program's connection is closed and opened: none of that may be felt.
**
** Even seeds use WAL, odd ones DELETE, TRUNCATE or PERSIST. COLFAM_SEED replays one seed, COLFAM_STEPS
** sets the number of steps of each. */
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness_sql.h"

enum {
  SEEDS = 40,
  STEPS = 4000,
  CONNECTIONS = 3,
  SIDES = 2,
  TABLES = 2,
  KEYS = 40,
  LOG_LINES = 50
};
enum { ORACLE, SUBJECT };

struct cursor {
  sqlite3_stmt *stmts[SIDES];
  int table;
};

struct conn {
  sqlite3 *dbs[SIDES];
  struct cursor cursor;
  int savepoints;
  bool undid; /* something, by ROLLBACK TO */
};

struct model {
  uint64_t seed;
  unsigned step;
  const char *journal;
  struct harness_random random;
  struct conn conns[CONNECTIONS];
  char *log[LOG_LINES];
  unsigned logged;
  unsigned busy, snapshots, commits, statements;
};

static unsigned below(struct model *m, unsigned bound) {
  return (unsigned)harness_below(&m->random, bound);
}

/* ---- Failing and running */

static void wrong(struct model *m, const char *format, ...) {
  char text[2000];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  for (unsigned i = m->logged > LOG_LINES ? m->logged - LOG_LINES : 0; i < m->logged; i++)
    fprintf(stderr, "  %s\n", m->log[i % LOG_LINES]);
  ck_abort_msg("COLFAM_SEED=%llu, step %u, %s: %s", (unsigned long long)m->seed, m->step,
               m->journal, text);
}

static void note(struct model *m, const struct conn *c, const char *sql, int rc) {
  char **line = &m->log[m->logged++ % LOG_LINES];
  sqlite3_free(*line);
  *line = sqlite3_mprintf("%u %d %d%s: %.200s", m->step, (int)(c - m->conns), rc,
                          sqlite3_get_autocommit(c->dbs[ORACLE]) ? "" : " in", sql);
}

/* Both codes must be the same; it is the answer. */
static int agree(struct model *m, const struct conn *c, const char *sql, const int codes[SIDES]) {
  note(m, c, sql, codes[ORACLE]);
  m->statements++;
  if (codes[ORACLE] != codes[SUBJECT])
    wrong(m, "ordinary %d (%s), colfam %d (%s): %s", codes[ORACLE], sqlite3_errmsg(c->dbs[ORACLE]),
          codes[SUBJECT], sqlite3_errmsg(c->dbs[SUBJECT]), sql);
  if ((codes[ORACLE] & 0xff) == SQLITE_BUSY) m->busy++;
  if (codes[ORACLE] == SQLITE_BUSY_SNAPSHOT) m->snapshots++;
  if (sqlite3_get_autocommit(c->dbs[ORACLE]) != sqlite3_get_autocommit(c->dbs[SUBJECT]))
    wrong(m, "one is in a transaction: %s", sql);
  return codes[ORACLE];
}

static void append_row(sqlite3_str *text, sqlite3_stmt *stmt) {
  for (int i = 0; i < sqlite3_column_count(stmt); i++)
    sqlite3_str_appendf(text, "%s|", (const char *)sqlite3_column_text(stmt, i));
  sqlite3_str_appendchar(text, 1, '\n');
}

static char *run_one(sqlite3 *db, const char *sql, int *rc) {
  sqlite3_stmt *stmt = NULL;
  sqlite3_str *text = sqlite3_str_new(NULL);
  *rc = sqlite3_prepare_v2(db, sql, -1, &stmt, NULL);
  if (*rc == SQLITE_OK) {
    while (sqlite3_step(stmt) == SQLITE_ROW) append_row(text, stmt);
    *rc = sqlite3_finalize(stmt);
  }
  char *rows = sqlite3_str_finish(text);
  return rows ? rows : sqlite3_mprintf("");
}

static int run(struct model *m, struct conn *c, const char *format, ...) {
  va_list args;
  va_start(args, format);
  char *sql = sqlite3_vmprintf(format, args);
  va_end(args);
  int codes[SIDES];
  char *rows[SIDES];
  for (int side = 0; side < SIDES; side++) rows[side] = run_one(c->dbs[side], sql, &codes[side]);
  int rc = agree(m, c, sql, codes);
  if (rc == SQLITE_OK && strcmp(rows[ORACLE], rows[SUBJECT]) != 0)
    wrong(m, "%s\n--- ordinary\n%s--- colfam\n%s", sql, rows[ORACLE], rows[SUBJECT]);
  for (int side = 0; side < SIDES; side++) sqlite3_free(rows[side]);
  sqlite3_free(sql);
  if (sqlite3_get_autocommit(c->dbs[ORACLE])) {
    c->savepoints = 0;
    c->undid = false;
  }
  return rc;
}

/* ---- Connections: "t" is the colfam table, "p" is ordinary on both sides */

static const char *const tables[TABLES] = {"t", "p"};

static const char *path_of(int side) {
  static char paths[SIDES][4200];
  snprintf(paths[side], sizeof paths[side], "%s/%s.db", harness_memory_dir(),
           side == ORACLE ? "oracle" : "subject");
  return paths[side];
}

static void open_connection(struct model *m, struct conn *c) {
  for (int side = 0; side < SIDES; side++) c->dbs[side] = sql_open(path_of(side));
  run(m, c, "PRAGMA synchronous = normal");
  if (strcmp(m->journal, "wal") != 0) run(m, c, "PRAGMA journal_mode = %s", m->journal);
}

static void close_cursor(struct conn *c) {
  for (int side = 0; side < SIDES; side++) {
    sqlite3_finalize(c->cursor.stmts[side]);
    c->cursor.stmts[side] = NULL;
  }
}

static void close_connection(struct conn *c) {
  close_cursor(c);
  for (int side = 0; side < SIDES; side++) sql_close(c->dbs[side]);
  c->savepoints = 0;
}

static void set_up(struct model *m) {
  static const char *const creates[] = {
      "CREATE TABLE t(k INT PRIMARY KEY, v) WITHOUT ROWID",
      "CREATE VIRTUAL TABLE t USING colfam(k INT PRIMARY KEY, v, memtable_bytes = 16384)"};
  for (int side = 0; side < SIDES; side++) {
    sqlite3 *db = sql_open(path_of(side));
    sql_okf(db, "PRAGMA journal_mode = %s", m->journal);
    sql_ok(db, creates[side]);
    sql_ok(db, "CREATE TABLE p(k INT PRIMARY KEY, v) WITHOUT ROWID;"
               "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 20)"
               " INSERT INTO p SELECT i, i FROM n; INSERT INTO t SELECT * FROM p");
    sql_close(db);
  }
  for (int i = 0; i < CONNECTIONS; i++) open_connection(m, &m->conns[i]);
}

/* ---- Steps */

/* An ordinary cursor sees later writes of its own connection, and ends when they are undone; a colfam one
** does not. */
static void leave_table(struct conn *c, int table) {
  if (c->cursor.stmts[ORACLE] && c->cursor.table == table) close_cursor(c);
}

static void step_write(struct model *m, struct conn *c) {
  static const char *const writes[] = {
      "INSERT OR REPLACE INTO %s VALUES(%u, printf('%%0*d', %u, %u))",
      "INSERT OR REPLACE INTO %s VALUES(%u, printf('%%0*d', 2 * %u, %u))",
      "INSERT INTO %s VALUES(%u, printf('%%0*d', %u, %u))",
      "INSERT OR IGNORE INTO %s VALUES(%u, printf('%%0*d', %u, %u))",
      "UPDATE %s SET v = '%u %u %u' WHERE k = %u",
      "UPDATE %s SET v = '%u' || printf('%%0*d', %u / 3, %u) WHERE k > %u - 20",
      "DELETE FROM %s WHERE k = %u",
      "DELETE FROM %s WHERE k BETWEEN %u AND %u / 4",
  };
  int table = (int)below(m, TABLES);
  unsigned key = below(m, KEYS);
  leave_table(c, table);
  run(m, c, writes[below(m, 8)], tables[table], key, 10 + below(m, 900), m->step, key);
}

static void step_read(struct model *m, struct conn *c) {
  static const char *const reads[] = {
      "SELECT * FROM %s ORDER BY k",
      "SELECT count(*) FROM %s",
      "SELECT v FROM %s WHERE k = %u",
      "SELECT k FROM %s WHERE k IN (%u, 3, 9) ORDER BY k",
      "SELECT k, v FROM %s WHERE k > %u ORDER BY k LIMIT 3",
  };
  run(m, c, reads[below(m, 5)], tables[below(m, TABLES)], below(m, KEYS));
}

static void step_begin(struct model *m, struct conn *c) {
  static const char *const begins[] = {"BEGIN", "BEGIN IMMEDIATE", "BEGIN EXCLUSIVE"};
  if (sqlite3_get_autocommit(c->dbs[ORACLE])) run(m, c, begins[below(m, 3)]);
}

/* A COMMIT after ROLLBACK TO has undone all writes still writes the pages of ordinary tables, and makes
** the snapshots of others too old; that of a colfam table writes nothing. So it is given something to
** write. */
static void step_commit(struct model *m, struct conn *c) {
  if (sqlite3_get_autocommit(c->dbs[ORACLE])) return;
  bool rolls_back = below(m, 5) == 0;
  if (c->undid && !rolls_back) run(m, c, "PRAGMA user_version = %u", m->step + 1000);
  if (rolls_back) close_cursor(c);
  if (run(m, c, rolls_back ? "ROLLBACK" : "COMMIT") == SQLITE_OK) m->commits++;
}

static void step_savepoint(struct model *m, struct conn *c) {
  switch (c->savepoints ? below(m, 3) : 0) {
    case 0:
      if (c->savepoints < 4 && run(m, c, "SAVEPOINT s%d", c->savepoints + 1) == SQLITE_OK)
        c->savepoints++;
      break;
    case 1:
      close_cursor(c);
      c->undid = true;
      run(m, c, "ROLLBACK TO s%d", c->savepoints);
      break;
    default:
      if (c->undid) run(m, c, "PRAGMA user_version = %u", m->step + 1000);
      if (run(m, c, "RELEASE s%d", c->savepoints) == SQLITE_OK && c->savepoints) c->savepoints--;
  }
}

static void open_cursor(struct model *m, struct conn *c) {
  c->cursor.table = (int)below(m, TABLES);
  char *sql = sqlite3_mprintf("SELECT k, v FROM %s ORDER BY k", tables[c->cursor.table]);
  int codes[SIDES];
  for (int side = 0; side < SIDES; side++)
    codes[side] = sqlite3_prepare_v2(c->dbs[side], sql, -1, &c->cursor.stmts[side], NULL);
  if (agree(m, c, sql, codes) != SQLITE_OK) close_cursor(c);
  sqlite3_free(sql);
}

static void step_cursor(struct model *m, struct conn *c) {
  if (!c->cursor.stmts[ORACLE]) open_cursor(m, c);
  for (unsigned rows = 1 + below(m, 12); rows && c->cursor.stmts[ORACLE]; rows--) {
    int codes[SIDES];
    char *texts[SIDES] = {NULL, NULL};
    for (int side = 0; side < SIDES; side++) {
      codes[side] = sqlite3_step(c->cursor.stmts[side]);
      sqlite3_str *text = sqlite3_str_new(NULL);
      if (codes[side] == SQLITE_ROW) append_row(text, c->cursor.stmts[side]);
      texts[side] = sqlite3_str_finish(text);
    }
    int rc = agree(m, c, "a row of a cursor", codes);
    if (rc == SQLITE_ROW && strcmp(texts[ORACLE], texts[SUBJECT]) != 0)
      wrong(m, "a cursor's row is %.100s, ordinary %.100s", texts[SUBJECT], texts[ORACLE]);
    for (int side = 0; side < SIDES; side++) sqlite3_free(texts[side]);
    if (rc != SQLITE_ROW) close_cursor(c);
  }
  if (c->cursor.stmts[ORACLE] && below(m, 4) == 0) close_cursor(c);
}

/* In the file's header. */
static void step_version(struct model *m, struct conn *c) {
  run(m, c, below(m, 2) ? "PRAGMA user_version = %u" : "PRAGMA user_version", below(m, 1000));
}

static void step_schema(struct model *m, struct conn *c) {
  if (c->cursor.stmts[ORACLE]) return;
  run(m, c, below(m, 2) ? "CREATE TABLE IF NOT EXISTS x(a)" : "DROP TABLE IF EXISTS x");
}

/* A table that is ordinary on one side and colfam's on the other comes, is written and goes. SQLite drops
** no ordinary table while a statement of the connection reads. */
static void step_table(struct model *m, struct conn *c) {
  static const char *const creates[SIDES] = {
      "CREATE TABLE IF NOT EXISTS y(k INT PRIMARY KEY, v) WITHOUT ROWID",
      "CREATE VIRTUAL TABLE IF NOT EXISTS y USING colfam(k INT PRIMARY KEY, v)"};
  int codes[SIDES];
  if (c->cursor.stmts[ORACLE]) return;
  switch (below(m, 4)) {
    case 0:
      for (int side = 0; side < SIDES; side++)
        sqlite3_free(run_one(c->dbs[side], creates[side], &codes[side]));
      agree(m, c, "CREATE y", codes);
      break;
    case 1:
      run(m, c, "DROP TABLE IF EXISTS y");
      break;
    default:
      run(m, c, "INSERT OR REPLACE INTO y VALUES(%u, %u)", below(m, KEYS), m->step);
  }
  if (sqlite3_get_autocommit(c->dbs[ORACLE])) c->savepoints = 0;
}

/* How long the log is, and so what a checkpoint can do, is each side's own. One that begins the log anew
** makes snapshots too old, so there is none of those. */
static void step_checkpoint(struct model *m, struct conn *c) {
  int mode = below(m, 2) ? SQLITE_CHECKPOINT_PASSIVE : SQLITE_CHECKPOINT_FULL;
  for (int side = 0; side < SIDES; side++) {
    int rc = sqlite3_wal_checkpoint_v2(c->dbs[side], NULL, mode, NULL, NULL);
    if (rc != SQLITE_OK && rc != SQLITE_BUSY && rc != SQLITE_LOCKED)
      wrong(m, "a checkpoint: code %d", rc);
  }
}

/* On the colfam side alone: whatever comes of it, nobody feels it, once both sides have looked at the
** schema. */
static void step_compute(struct model *m, struct conn *c) {
  int rc;
  if (!sqlite3_get_autocommit(c->dbs[SUBJECT]) || c->cursor.stmts[SUBJECT]) return;
  if (run(m, c, "SELECT count(*) FROM t") != SQLITE_OK) return;
  sqlite3_free(run_one(
      c->dbs[SUBJECT],
      below(m, 2) ? "SELECT * FROM colfam_flush('t')" : "SELECT * FROM colfam_compact('t')", &rc));
  note(m, c, "work that waits", rc);
  if (rc != SQLITE_OK && (rc & 0xff) != SQLITE_BUSY)
    wrong(m, "code %d: %s", rc, sqlite3_errmsg(c->dbs[SUBJECT]));
}

static void step_reopen(struct model *m, struct conn *c) {
  close_connection(c);
  open_connection(m, c);
}

static const struct {
  unsigned weight;
  void (*step)(struct model *m, struct conn *c);
} kinds[] = {{30, step_write},    {20, step_read},      {12, step_begin},  {18, step_commit},
             {6, step_savepoint}, {14, step_cursor},    {2, step_version}, {2, step_schema},
             {4, step_table},     {3, step_checkpoint}, {3, step_compute}, {1, step_reopen}};
enum { KINDS = sizeof kinds / sizeof *kinds };

static void take_step(struct model *m) {
  unsigned total = 0, at = 0;
  for (int i = 0; i < KINDS; i++) total += kinds[i].weight;
  unsigned pick = below(m, total);
  while (pick >= kinds[at].weight) pick -= kinds[at++].weight;
  kinds[at].step(m, &m->conns[below(m, CONNECTIONS)]);
}

static void finish(struct model *m) {
  for (int i = 0; i < CONNECTIONS; i++) close_connection(&m->conns[i]);
  struct conn *c = &m->conns[0];
  open_connection(m, c);
  for (int i = 0; i < TABLES; i++) run(m, c, "SELECT * FROM %s ORDER BY k", tables[i]);
  sql_rows(c->dbs[SUBJECT], "SELECT * FROM colfam_check('t')", "");
  close_connection(c);
  for (int i = 0; i < LOG_LINES; i++) sqlite3_free(m->log[i]);
}

START_TEST(same_codes_at_each_step) {
  static const char *const rollback[] = {"delete", "truncate", "persist"};
  static struct model m;
  const char *wanted = getenv("COLFAM_STEPS");
  unsigned steps = wanted ? (unsigned)atoi(wanted) : STEPS;
  m.seed = getenv("COLFAM_SEED") ? harness_seed_env(0) : (uint64_t)_i + 1;
  m.journal = m.seed % 2 ? rollback[m.seed / 2 % 3] : "wal";
  harness_seed(&m.random, m.seed);
  sql_use_threads((int)below(&m, 2));
  set_up(&m);
  for (m.step = 0; m.step < steps; m.step++) take_step(&m);
  finish(&m);
  printf("seed %llu, %s: %u statements, %u commits, %u busy, %u of them snapshots too old\n",
         (unsigned long long)m.seed, m.journal, m.statements, m.commits, m.busy, m.snapshots);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("busy");
  TCase *tc = tcase_create("busy");
  tcase_set_timeout(tc, 300);
  tcase_add_loop_test(tc, same_codes_at_each_step, 0, getenv("COLFAM_SEED") ? 1 : SEEDS);
  suite_add_tcase(suite, tc);
  return harness_run(suite);
}
