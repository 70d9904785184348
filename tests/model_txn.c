/* The transaction machinery against a model: SQLite itself. Every colfam table has a twin, an ordinary
** table in the same database; the same random statements go to both, in the same transactions, on two
** connections. After every step each connection must see the same rows in both, whatever its snapshot.
**
** What happens at random: writes in all conflict modes, key changes, nested savepoints, commits that fail
** (BUSY behind a reader, commit-hook veto, deferred foreign key) and are continued, retried or rolled
** back, flushes and compactions with the removal of old files, the same computed beforehand by either
** connection and published by whatever commit comes next, cursors held across all that, DDL in
** savepoints, checkpoints, VACUUM, closing and opening. A seed is one database; even seeds use WAL, odd
** ones DELETE; two of three let batches be so small that transactions spill, at almost every row in some.
** COLFAM_SEED replays one seed, COLFAM_STEPS sets the number of steps. */
#include <dirent.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness_model.h"
#include "harness_sql.h"

#define SEEDS 12
#define STEPS 3000
#define DEPTH_MAX 6
#define LOG_LINES 60

/* A half-read cursor and the rows it still has to give. */
struct held {
  sqlite3_stmt *stmt;
  char *rows;
  const char *next;
};

struct conn {
  const char *title;
  sqlite3 *db;
  sqlite3_stmt *find;
  sqlite3_stmt *full[MODEL_TABLES][2];
  char full_name[MODEL_TABLES][16]; /* the name that full[i][0] was prepared for */
  struct held held;
  bool snapshot; /* a read transaction is held on purpose */
  bool digest_known[MODEL_TABLES];
  uint64_t digest[MODEL_TABLES]; /* of the rows seen in that snapshot */
};

struct counts {
  unsigned writes, commits, busy, vetoes, foreign_keys, rollbacks, rollbacks_to;
  unsigned commands, computed, ddl, reopened, held_rows, checks;
  sqlite3_int64 spills;
};

struct model {
  uint64_t seed;
  unsigned step;
  bool wal;
  struct harness_random random;
  struct conn writer, other;
  int depth;        /* savepoints open on the writer */
  bool outer;       /* the lowest of them opened the transaction */
  int savepoint_id; /* names are never used twice */
  int savepoints[DEPTH_MAX];
  bool veto;
  struct counts counts;
  char *log[LOG_LINES];
  unsigned logged;
};

static unsigned below(struct model *m, unsigned bound) {
  return (unsigned)harness_below(&m->random, bound);
}
static bool chance(struct model *m, unsigned percent) {
  return below(m, 100) < percent;
}

/* ---- Failing and running */

static void wrong(struct model *m, const char *format, ...) {
  va_list args;
  va_start(args, format);
  char *text = sqlite3_vmprintf(format, args);
  va_end(args);
  for (unsigned i = m->logged > LOG_LINES ? m->logged - LOG_LINES : 0; i < m->logged; i++)
    fprintf(stderr, "  %s\n", m->log[i % LOG_LINES]);
  ck_abort_msg("COLFAM_SEED=%llu, step %u: %s", (unsigned long long)m->seed, m->step, text);
}

static void note(struct model *m, const struct conn *c, const char *sql, int rc) {
  char **line = &m->log[m->logged++ % LOG_LINES];
  sqlite3_free(*line);
  *line = sqlite3_mprintf("%u %s %d%s: %.300s", m->step, c->title, rc,
                          sqlite3_get_autocommit(c->db) ? "" : " in", sql);
}

static int run(struct model *m, struct conn *c, const char *sql) {
  int rc = sqlite3_exec(c->db, sql, NULL, NULL, NULL);
  note(m, c, sql, rc);
  int primary = rc & 0xff;
  if (primary != SQLITE_OK && primary != SQLITE_BUSY && primary != SQLITE_CONSTRAINT)
    wrong(m, "%s: code %d: %s: %s", c->title, rc, sqlite3_errmsg(c->db), sql);
  return rc;
}

static int runf(struct model *m, struct conn *c, const char *format, ...) {
  va_list args;
  va_start(args, format);
  char *sql = sqlite3_vmprintf(format, args);
  va_end(args);
  int rc = run(m, c, sql);
  sqlite3_free(sql);
  return rc;
}

static void must(struct model *m, struct conn *c, const char *sql) {
  int rc = run(m, c, sql);
  if (rc != SQLITE_OK) wrong(m, "%s: code %d: %s", c->title, rc, sql);
}

/* The name that the table has now in the eyes of this connection; NULL: absent, or the database is busy. */
static const char *name_of(struct conn *c, int pair) {
  const char *const *names = model_tables[pair].names;
  int at = -1;
  if (!c->find) {
    const char *sql = "SELECT name = ?2 FROM sqlite_schema WHERE name IN (?1, ?2)";
    if (sqlite3_prepare_v2(c->db, sql, -1, &c->find, NULL) != SQLITE_OK) return NULL;
  }
  for (int i = 0; i < 2; i++) sqlite3_bind_text(c->find, i + 1, names[i], -1, SQLITE_STATIC);
  if (sqlite3_step(c->find) == SQLITE_ROW) at = sqlite3_column_int(c->find, 0);
  sqlite3_reset(c->find);
  return at < 0 ? NULL : names[at];
}

/* ---- The same to both tables of a pair */

/* Runs a write on the colfam table and on its twin: same code, same number of changes. */
static void write_both(struct model *m, struct conn *c, int pair, const char *sql) {
  const char *name = name_of(c, pair);
  if (!name) return;
  char *texts[2] = {model_sql(sql, name), model_sql(sql, model_tables[pair].twin)};
  int codes[2], changes[2];
  sqlite3_int64 rowids[2];
  for (int i = 0; i < 2; i++) {
    codes[i] = run(m, c, texts[i]);
    changes[i] = sqlite3_changes(c->db);
    rowids[i] = sqlite3_last_insert_rowid(c->db);
    sqlite3_free(texts[i]);
  }
  if (codes[0] != codes[1]) wrong(m, "code %d, the twin's %d: %s", codes[0], codes[1], sql);
  if (codes[0] == SQLITE_OK && changes[0] != changes[1])
    wrong(m, "changes() %d, the twin's %d: %s", changes[0], changes[1], sql);
  if (codes[0] == SQLITE_OK && rowids[0] != rowids[1])
    wrong(m, "last_insert_rowid() %lld, the twin's %lld: %s", rowids[0], rowids[1], sql);
  m->counts.writes++;
}

static void append_row(sqlite3_str *text, sqlite3_stmt *stmt) {
  for (int i = 0; i < sqlite3_column_count(stmt); i++) {
    const char *value = (const char *)sqlite3_column_text(stmt, i);
    sqlite3_str_appendf(text, "%d:%s|", sqlite3_column_type(stmt, i), value ? value : "");
  }
  sqlite3_str_appendchar(text, 1, '\n');
}

/* All rows as text, or NULL with BUSY. */
static char *rows_of(struct model *m, struct conn *c, const char *sql) {
  sqlite3_stmt *stmt = NULL;
  int rc = sqlite3_prepare_v2(c->db, sql, -1, &stmt, NULL);
  sqlite3_str *text = sqlite3_str_new(NULL);
  if (rc == SQLITE_OK) {
    while (sqlite3_step(stmt) == SQLITE_ROW) append_row(text, stmt);
    rc = sqlite3_finalize(stmt);
  }
  note(m, c, sql, rc);
  if (rc != SQLITE_OK && (rc & 0xff) != SQLITE_BUSY)
    wrong(m, "%s: code %d: %s: %s", c->title, rc, sqlite3_errmsg(c->db), sql);
  char *rows = sqlite3_str_finish(text);
  if (rc == SQLITE_OK) return rows ? rows : sqlite3_mprintf("");
  sqlite3_free(rows);
  return NULL;
}

static void read_both(struct model *m, struct conn *c, int pair, const char *sql) {
  const char *name = name_of(c, pair);
  if (!name) return;
  char *texts[2] = {model_sql(sql, name), model_sql(sql, model_tables[pair].twin)};
  char *rows[2];
  for (int i = 0; i < 2; i++) rows[i] = rows_of(m, c, texts[i]);
  if (!rows[0] != !rows[1] || (rows[0] && strcmp(rows[0], rows[1]) != 0))
    wrong(m, "%s: %s\n--- colfam\n%s--- twin\n%s", c->title, sql, rows[0] ? rows[0] : "busy",
          rows[1] ? rows[1] : "busy");
  for (int i = 0; i < 2; i++) {
    sqlite3_free(texts[i]);
    sqlite3_free(rows[i]);
  }
}

/* ---- All rows of both, after every step */

static bool prepare_full(struct model *m, struct conn *c, int pair, const char *name) {
  if (strcmp(c->full_name[pair], name) == 0) return true;
  const char *tables[2] = {name, model_tables[pair].twin};
  for (int i = 0; i < 2; i++) {
    sqlite3_finalize(c->full[pair][i]);
    char *sql =
        sqlite3_mprintf("SELECT * FROM %s ORDER BY %s", tables[i], model_tables[pair].order);
    int rc = sqlite3_prepare_v3(c->db, sql, -1, SQLITE_PREPARE_PERSISTENT, &c->full[pair][i], NULL);
    sqlite3_free(sql);
    c->full_name[pair][0] = 0;
    if ((rc & 0xff) == SQLITE_BUSY) return false;
    if (rc != SQLITE_OK) wrong(m, "%s: %s: %s", c->title, name, sqlite3_errmsg(c->db));
  }
  snprintf(c->full_name[pair], sizeof c->full_name[pair], "%s", name);
  return true;
}

static void finalize_full(struct conn *c) {
  sqlite3_finalize(c->find);
  c->find = NULL;
  for (int pair = 0; pair < MODEL_TABLES; pair++) {
    for (int i = 0; i < 2; i++) {
      sqlite3_finalize(c->full[pair][i]);
      c->full[pair][i] = NULL;
    }
    c->full_name[pair][0] = 0;
  }
}

static bool same_value(sqlite3_stmt *a, sqlite3_stmt *b, int column, uint64_t *digest) {
  int size = sqlite3_column_bytes(a, column);
  const unsigned char *bytes = sqlite3_column_blob(a, column);
  const void *other = sqlite3_column_blob(b, column);
  for (int i = 0; i < size; i++) *digest = (*digest ^ bytes[i]) * 0x100000001b3u;
  *digest = (*digest ^ (unsigned)size) * 0x100000001b3u;
  return sqlite3_column_type(a, column) == sqlite3_column_type(b, column) &&
         size == sqlite3_column_bytes(b, column) && (!size || !memcmp(bytes, other, (size_t)size));
}

static void compare_rows(struct model *m, struct conn *c, int pair, uint64_t *digest) {
  sqlite3_stmt *a = c->full[pair][0], *b = c->full[pair][1];
  for (int row = 0, left = SQLITE_ROW; left == SQLITE_ROW; row++) {
    left = sqlite3_step(a);
    int right = sqlite3_step(b);
    if (left != right)
      wrong(m, "%s: %s, row %d: code %d (%s), the twin's %d", c->title, c->full_name[pair], row,
            left, sqlite3_errmsg(c->db), right);
    for (int i = 0; left == SQLITE_ROW && i < sqlite3_column_count(a); i++) {
      if (!same_value(a, b, i, digest))
        wrong(m, "%s: %s, row %d, key %s: column %d is %.40s, the twin's %.40s of key %s", c->title,
              c->full_name[pair], row, sqlite3_column_text(a, 0), i, sqlite3_column_text(a, i),
              sqlite3_column_text(b, i), sqlite3_column_text(b, 0));
    }
    if ((left & 0xff) == SQLITE_BUSY)
      *digest = 0;
    else if (left != SQLITE_ROW && left != SQLITE_DONE)
      wrong(m, "%s: %s: code %d: %s", c->title, c->full_name[pair], left, sqlite3_errmsg(c->db));
  }
  sqlite3_reset(a);
  sqlite3_reset(b);
}

static void compare_all(struct model *m, struct conn *c) {
  for (int pair = 0; pair < MODEL_TABLES; pair++) {
    const char *name = name_of(c, pair);
    if (!name || !prepare_full(m, c, pair, name)) continue;
    uint64_t digest = 0xcbf29ce484222325u;
    compare_rows(m, c, pair, &digest);
    if (!c->snapshot || !digest) continue;
    if (c->digest_known[pair] && c->digest[pair] != digest)
      wrong(m, "%s: %s changed inside a held snapshot", c->title, name);
    c->digest[pair] = digest;
    c->digest_known[pair] = true;
  }
}

/* ---- Held cursors */

static void release_held(struct conn *c) {
  sqlite3_finalize(c->held.stmt);
  sqlite3_free(c->held.rows);
  memset(&c->held, 0, sizeof c->held);
}

/* The rows are the twin's of now: ordinary cursors see later writes of their own connection. */
static void open_held(struct model *m, struct conn *c, int pair) {
  const char *name = name_of(c, pair);
  if (!name) return;
  char *sql = sqlite3_mprintf("SELECT * FROM %s ORDER BY %s", model_tables[pair].twin,
                              model_tables[pair].order);
  c->held.rows = rows_of(m, c, sql);
  sqlite3_free(sql);
  if (!c->held.rows) return;
  c->held.next = c->held.rows;
  sql = sqlite3_mprintf("SELECT * FROM %s ORDER BY %s", name, model_tables[pair].order);
  int rc = sqlite3_prepare_v2(c->db, sql, -1, &c->held.stmt, NULL);
  if (rc != SQLITE_OK) wrong(m, "%s: %s", sql, sqlite3_errmsg(c->db));
  sqlite3_free(sql);
}

/* Takes some rows; the cursor goes at its end. */
static void step_held(struct model *m, struct conn *c, unsigned rows) {
  struct held *held = &c->held;
  while (held->stmt && rows--) {
    int rc = sqlite3_step(held->stmt);
    if (rc != SQLITE_ROW) {
      if (rc != SQLITE_DONE && (rc & 0xff) != SQLITE_ABORT && (rc & 0xff) != SQLITE_BUSY)
        wrong(m, "%s: held cursor: code %d: %s", c->title, rc, sqlite3_errmsg(c->db));
      if (rc == SQLITE_DONE && *held->next)
        wrong(m, "%s: held cursor ended before %.60s", c->title, held->next);
      release_held(c);
      return;
    }
    sqlite3_str *text = sqlite3_str_new(NULL);
    append_row(text, held->stmt);
    char *row = sqlite3_str_finish(text);
    if (strncmp(row, held->next, strlen(row)) != 0)
      wrong(m, "%s: held cursor gave %.60s, not %.60s", c->title, row, held->next);
    held->next += strlen(row);
    m->counts.held_rows++;
    sqlite3_free(row);
  }
}

static void move_held(struct model *m, struct conn *c) {
  if (!c->held.stmt) {
    open_held(m, c, (int)below(m, MODEL_TABLES));
    step_held(m, c, 1);
  } else if (chance(m, 80)) {
    step_held(m, c, 1 + below(m, 20));
  } else {
    release_held(c);
  }
}

/* ---- Life of the connections */

static int veto_commit(void *context) {
  return ((struct model *)context)->veto;
}

static void open_conn(struct model *m, struct conn *c) {
  c->db = sql_open(sql_path("model.db"));
  must(m, c, "PRAGMA foreign_keys = on");
  run(m, c, "PRAGMA synchronous = normal"); /* BUSY is no matter */
  sqlite3_commit_hook(c->db, c == &m->writer ? veto_commit : NULL, m);
}

/* A transaction in progress is rolled back by closing. */
static void close_conn(struct conn *c) {
  release_held(c);
  finalize_full(c);
  c->snapshot = false;
  sql_close(c->db);
  c->db = NULL;
}

static void follow_autocommit(struct model *m) {
  if (sqlite3_get_autocommit(m->writer.db)) m->depth = 0;
}

static void create_pair(struct model *m, struct conn *c, int pair) {
  const struct model_table *p = &model_tables[pair];
  int rc = runf(m, c, "CREATE VIRTUAL TABLE %s USING colfam(%s, memtable_bytes = 16384)",
                p->names[below(m, 2)], p->columns);
  if (rc != SQLITE_OK) return;
  rc = runf(m, c, "CREATE TABLE %s(%s) %s", p->twin, p->columns, p->kind);
  if (rc != SQLITE_OK) wrong(m, "the twin could not be created");
}

/* ---- Steps: writing and reading */

static void step_write(struct model *m) {
  int pair = (int)below(m, MODEL_TABLES);
  char *sql = model_write(&m->random, pair);
  write_both(m, &m->writer, pair, sql);
  sqlite3_free(sql);
  follow_autocommit(m);
}

static void step_read(struct model *m) {
  int pair = (int)below(m, MODEL_TABLES);
  char *sql = model_read(&m->random, pair);
  read_both(m, &m->writer, pair, sql);
  read_both(m, &m->other, pair, sql);
  sqlite3_free(sql);
}

static void step_command(struct model *m) {
  static const char *const commands[] = {
      "flush",          "flush",         "flush",         "flush",
      "compact",        "compact",       "compact",       "track_rows=on",
      "track_rows=off", "filter_bits=0", "filter_bits=8", "memtable_bytes=32768",
      "value_bytes=4",  "value_bytes=0",
  };
  const char *name = name_of(&m->writer, (int)below(m, MODEL_TABLES));
  if (!name) return;
  const char *command = commands[below(m, sizeof commands / sizeof *commands)];
  runf(m, &m->writer, "INSERT INTO %s(%s) VALUES('%s')", name, name, command);
  m->counts.commands++;
}

/* Work that waits for a commit, now and then given up after its first row. */
static void step_compute(struct model *m) {
  struct conn *c = chance(m, 60) ? &m->writer : &m->other;
  const char *name = name_of(c, (int)below(m, MODEL_TABLES));
  if (!name) return;
  runf(m, c, "SELECT * FROM %s('%s') LIMIT %d", chance(m, 60) ? "colfam_flush" : "colfam_compact",
       name, chance(m, 20) ? 1 : 100);
  m->counts.computed++;
}

static void step_check(struct model *m) {
  struct conn *c = chance(m, 50) ? &m->writer : &m->other;
  const char *name = name_of(c, (int)below(m, MODEL_TABLES));
  if (!name) return;
  char *sql = sqlite3_mprintf("SELECT * FROM colfam_check('%s')", name);
  char *problems = rows_of(m, c, sql);
  if (problems && *problems) wrong(m, "%s: %s", sql, problems);
  sqlite3_free(problems);
  sqlite3_free(sql);
  m->counts.checks++;
}

static void step_cursor(struct model *m) {
  move_held(m, chance(m, 50) ? &m->writer : &m->other);
}

/* ---- Steps: transactions of the writer */

static void step_begin(struct model *m) {
  if (!sqlite3_get_autocommit(m->writer.db)) return;
  static const char *const begins[] = {"BEGIN", "BEGIN IMMEDIATE", "BEGIN EXCLUSIVE"};
  run(m, &m->writer, begins[below(m, 3)]);
}

static void step_savepoint(struct model *m) {
  if (m->depth == DEPTH_MAX) return;
  bool outer = sqlite3_get_autocommit(m->writer.db);
  int id = ++m->savepoint_id;
  runf(m, &m->writer, "SAVEPOINT s%d", id);
  if (outer)
    m->outer = true;
  else if (!m->depth)
    m->outer = false;
  m->savepoints[m->depth++] = id;
}

static void step_rollback_to(struct model *m) {
  if (!m->depth) return;
  int at = (int)below(m, (unsigned)m->depth);
  if (runf(m, &m->writer, "ROLLBACK TO s%d", m->savepoints[at]) != SQLITE_OK)
    wrong(m, "ROLLBACK TO failed");
  m->depth = at + 1;
  m->counts.rollbacks_to++;
}

static void count_commit(struct model *m, int rc) {
  struct counts *n = &m->counts;
  if (rc == SQLITE_OK)
    n->commits++;
  else if ((rc & 0xff) == SQLITE_BUSY)
    n->busy++;
  else if (rc == SQLITE_CONSTRAINT_COMMITHOOK)
    n->vetoes++;
  else if (rc == SQLITE_CONSTRAINT_FOREIGNKEY)
    n->foreign_keys++;
  else
    wrong(m, "a commit failed with code %d", rc);
}

static void step_release(struct model *m) {
  if (!m->depth) return;
  int at = (int)below(m, (unsigned)m->depth);
  bool commits = at == 0 && m->outer;
  int rc = runf(m, &m->writer, "RELEASE s%d", m->savepoints[at]);
  if (commits)
    count_commit(m, rc);
  else if (rc != SQLITE_OK)
    wrong(m, "RELEASE failed");
  if (rc == SQLITE_OK) m->depth = at;
  follow_autocommit(m);
}

/* A commit that may be made to fail; what follows is left to chance. */
static void step_commit(struct model *m) {
  if (sqlite3_get_autocommit(m->writer.db)) return;
  if (chance(m, 15))
    run(m, &m->writer, "INSERT INTO child VALUES(abs(random()) % 100000)");
  else if (chance(m, 50))
    run(m, &m->writer, "DELETE FROM child WHERE id NOT IN (SELECT id FROM parent)");
  m->veto = chance(m, 10);
  count_commit(m, run(m, &m->writer, "COMMIT"));
  m->veto = false;
  follow_autocommit(m);
}

static void step_rollback(struct model *m) {
  if (sqlite3_get_autocommit(m->writer.db)) return;
  must(m, &m->writer, "ROLLBACK");
  m->depth = 0;
  m->counts.rollbacks++;
}

/* ---- Steps: DDL */

static void step_ddl(struct model *m) {
  int pair = chance(m, 60) ? MODEL_EXTRA : (int)below(m, MODEL_TABLES);
  const struct model_table *p = &model_tables[pair];
  struct conn *c = &m->writer;
  release_held(c);
  const char *name = name_of(c, pair);
  m->counts.ddl++;
  if (!name) {
    create_pair(m, c, pair);
  } else if (chance(m, 60)) {
    runf(m, c, "ALTER TABLE %s RENAME TO %s", name, p->names[name == p->names[0]]);
  } else if (runf(m, c, "DROP TABLE %s", name) == SQLITE_OK) {
    if (runf(m, c, "DROP TABLE %s", p->twin) != SQLITE_OK) wrong(m, "the twin was not dropped");
  }
}

/* In autocommit a DROP must not go through without its twin's. */
static void step_ddl_in_transaction(struct model *m) {
  if (sqlite3_get_autocommit(m->writer.db) && run(m, &m->writer, "BEGIN IMMEDIATE") != SQLITE_OK)
    return;
  if (chance(m, 50)) step_savepoint(m);
  step_ddl(m);
  follow_autocommit(m);
}

/* Counters go with the last connection. */
static void count_spills(struct model *m) {
  m->counts.spills +=
      sql_int(m->writer.db, "SELECT sum(value) FROM colfam_stats WHERE name = 'spills'");
}

static void step_reopen(struct model *m) {
  struct conn *c = chance(m, 60) ? &m->writer : &m->other;
  close_conn(c);
  open_conn(m, c);
  follow_autocommit(m);
  m->counts.reopened++;
}

static void step_maintain(struct model *m) {
  struct conn *c = chance(m, 60) ? &m->writer : &m->other;
  static const char *const texts[] = {"PRAGMA wal_checkpoint(passive)",
                                      "PRAGMA wal_checkpoint(full)",
                                      "PRAGMA wal_checkpoint(truncate)", "VACUUM"};
  if (!sqlite3_get_autocommit(c->db) || c->held.stmt) return;
  const char *sql = texts[below(m, 4)];
  int rc = sqlite3_exec(c->db, sql, NULL, NULL, NULL);
  note(m, c, sql, rc);
  if (rc != SQLITE_OK && (rc & 0xff) != SQLITE_BUSY && (rc & 0xff) != SQLITE_LOCKED)
    wrong(m, "%s: code %d: %s", sql, rc, sqlite3_errmsg(c->db));
}

/* ---- Steps: the second connection */

static void step_snapshot(struct model *m) {
  struct conn *c = &m->other;
  if (c->snapshot) {
    release_held(c);
    c->snapshot = false;
    must(m, c, "COMMIT");
  } else if (sqlite3_get_autocommit(c->db)) {
    must(m, c, "BEGIN");
    memset(c->digest_known, 0, sizeof c->digest_known);
    c->snapshot = true;
  }
}

static void step_other_writes(struct model *m) {
  struct conn *c = &m->other;
  if (c->snapshot || run(m, c, "BEGIN IMMEDIATE") != SQLITE_OK) return;
  for (unsigned n = 1 + below(m, 4); n; n--) {
    int pair = (int)below(m, MODEL_TABLES);
    char *sql = model_write(&m->random, pair);
    write_both(m, c, pair, sql);
    sqlite3_free(sql);
  }
  const char *name = name_of(c, MODEL_NUM);
  if (name && chance(m, 20)) runf(m, c, "INSERT INTO %s(%s) VALUES('compact')", name, name);
  if (chance(m, 80) && run(m, c, "COMMIT") == SQLITE_OK) return;
  must(m, c, "ROLLBACK");
}

/* ---- The whole */

static const struct {
  unsigned weight;
  void (*take)(struct model *m);
} steps[] = {
    {400, step_write},       {100, step_read},
    {60, step_command},      {60, step_compute},
    {70, step_begin},        {90, step_savepoint},
    {40, step_release},      {50, step_rollback_to},
    {90, step_commit},       {15, step_rollback},
    {30, step_cursor},       {40, step_snapshot},
    {40, step_other_writes}, {25, step_ddl_in_transaction},
    {6, step_reopen},        {10, step_maintain},
    {10, step_check},
};
#define STEP_KINDS (sizeof steps / sizeof *steps)

static void take_step(struct model *m) {
  unsigned total = 0;
  for (size_t i = 0; i < STEP_KINDS; i++) total += steps[i].weight;
  unsigned at = below(m, total);
  size_t i = 0;
  while (at >= steps[i].weight) at -= steps[i++].weight;
  steps[i].take(m);
}

static unsigned batch_bytes(const struct model *m) {
  static const unsigned sizes[] = {67108864, 4096, 5120};
  return sizes[m->seed / 2 % 3];
}

static void set_up(struct model *m) {
  m->writer.title = "A";
  m->other.title = "B";
  open_conn(m, &m->writer);
  must(m, &m->writer, m->wal ? "PRAGMA journal_mode = wal" : "PRAGMA journal_mode = delete");
  must(m, &m->writer,
       "CREATE TABLE parent(id INTEGER PRIMARY KEY);"
       "CREATE TABLE child(id INT REFERENCES parent DEFERRABLE INITIALLY DEFERRED)");
  for (int pair = 0; pair < MODEL_TABLES; pair++) create_pair(m, &m->writer, pair);
  open_conn(m, &m->other);
  sql_okf(m->writer.db, "SELECT colfam_config('batch_bytes', %u)", batch_bytes(m));
}

/* ---- The end: nothing wrong, no file too many */

/* The table files that the manifests name, or that lie in the directory, one a line, sorted. */
static char *named_files(struct model *m, struct conn *c) {
  sqlite3_str *sql = sqlite3_str_new(NULL);
  sqlite3_str_appendall(sql, "SELECT printf('%016x.sst', id) FROM (SELECT 0 AS id WHERE 0");
  for (int pair = 0; pair < MODEL_TABLES; pair++) {
    const char *name = name_of(c, pair);
    if (name) sqlite3_str_appendf(sql, " UNION ALL SELECT id FROM %s_cffile", name);
  }
  sqlite3_str_appendall(sql, ") ORDER BY 1");
  char *text = sqlite3_str_finish(sql);
  char *rows = rows_of(m, c, text);
  sqlite3_free(text);
  return rows;
}

static char *files_on_disk(struct model *m, struct conn *c) {
  sqlite3_str *sql = sqlite3_str_new(NULL);
  sqlite3_str_appendall(sql, "SELECT column1 FROM (VALUES(NULL)");
  DIR *dir = opendir(sql_path("model.db-colfam"));
  for (struct dirent *entry; dir && (entry = readdir(dir));)
    if (entry->d_name[0] != '.') sqlite3_str_appendf(sql, ",(%Q)", entry->d_name);
  if (dir) closedir(dir);
  sqlite3_str_appendall(sql, ") WHERE column1 IS NOT NULL ORDER BY 1");
  char *text = sqlite3_str_finish(sql);
  char *rows = rows_of(m, c, text);
  sqlite3_free(text);
  return rows;
}

/* Closed in between: a merge under way has a file that is not named yet. */
static void check_files(struct model *m, struct conn *c) {
  char *named = named_files(m, c);
  close_conn(c);
  open_conn(m, c);
  char *present = files_on_disk(m, c);
  if (strcmp(named, present) != 0) wrong(m, "files named\n%sfiles on disk\n%s", named, present);
  sqlite3_free(named);
  sqlite3_free(present);
}

static void finish(struct model *m) {
  struct conn *c = &m->writer;
  close_conn(&m->other);
  close_conn(c);
  m->depth = 0;
  open_conn(m, c);
  compare_all(m, c);
  for (int pair = 0; pair < MODEL_TABLES; pair++) {
    if (!name_of(c, pair)) create_pair(m, c, pair);
    const char *name = name_of(c, pair);
    char *sql = sqlite3_mprintf("SELECT * FROM colfam_check('%s')", name);
    char *problems = rows_of(m, c, sql);
    if (*problems) wrong(m, "%s: %s", sql, problems);
    sqlite3_free(sql);
    sqlite3_free(problems);
  }
  write_both(m, c, MODEL_NUM, "INSERT OR REPLACE INTO @ VALUES(1000, 'last')");
  compare_all(m, c);
  check_files(m, c);
  close_conn(c);
  for (int i = 0; i < LOG_LINES; i++) sqlite3_free(m->log[i]);
}

/* What the engine counted since the last time that both connections were closed, the tables that are left. */
static void report_engine(struct model *m) {
  char *rows =
      sql_query(m->writer.db, "SELECT group_concat(name || ' ' || n, ', ') FROM (SELECT name,"
                              " sum(value) AS n FROM colfam_stats WHERE name IN ('flushes',"
                              " 'compactions', 'files_removed', 'spills') GROUP BY name)");
  printf("  engine: %s\n", rows);
  sqlite3_free(rows);
}

static void report(const struct model *m) {
  const struct counts *n = &m->counts;
  printf("seed %llu (%s): %u steps, %u writes, %u commits, failed %u busy %u veto %u foreign key, "
         "%u rollbacks, %u to savepoints, %u commands, %u computed, %u ddl, %u reopened, %u held "
         "rows, %u checks, %lld spills\n",
         (unsigned long long)m->seed, m->wal ? "wal" : "delete", m->step, n->writes, n->commits,
         n->busy, n->vetoes, n->foreign_keys, n->rollbacks, n->rollbacks_to, n->commands,
         n->computed, n->ddl, n->reopened, n->held_rows, n->checks, n->spills);
}

/* A full run that never failed a commit, rolled back or changed the schema would have shown nothing. */
static void check_coverage(const struct model *m) {
  const struct counts *n = &m->counts;
  if (m->step < STEPS) return;
  ck_assert_uint_gt(n->commits, 0);
  ck_assert_uint_gt(n->vetoes, 0);
  ck_assert_uint_gt(n->foreign_keys, 0);
  ck_assert_uint_gt(n->rollbacks, 0);
  ck_assert_uint_gt(n->rollbacks_to, 0);
  ck_assert_uint_gt(n->commands, 0);
  ck_assert_uint_gt(n->computed, 0);
  ck_assert_uint_gt(n->ddl, 0);
  ck_assert_uint_gt(n->reopened, 0);
  ck_assert_uint_gt(n->held_rows, 0);
  ck_assert_uint_gt(n->checks, 0);
  if (!m->wal) ck_assert_uint_gt(n->busy, 0);
  if (batch_bytes(m) < 67108864) ck_assert_int_gt(n->spills, 0);
}

static void run_seed(uint64_t seed) {
  const char *text = getenv("COLFAM_STEPS");
  unsigned last = text ? (unsigned)strtoul(text, NULL, 10) : STEPS;
  struct model m = {.seed = seed, .wal = seed % 2 == 0};
  harness_seed(&m.random, seed);
  set_up(&m);
  for (m.step = 1; m.step <= last; m.step++) {
    take_step(&m);
    compare_all(&m, &m.writer);
    compare_all(&m, &m.other);
  }
  m.step = last;
  report_engine(&m);
  count_spills(&m);
  finish(&m);
  report(&m);
  check_coverage(&m);
}

START_TEST(random_transactions_equal_ordinary_tables) {
  const char *seed = getenv("COLFAM_SEED");
  if (!seed)
    run_seed((uint64_t)_i + 1);
  else if (_i == 0)
    run_seed(strtoull(seed, NULL, 10));
}
END_TEST

int main(void) {
  Suite *suite = suite_create("model of transactions");
  TCase *tc = tcase_create("seeds");
  tcase_set_timeout(tc, 600);
  tcase_add_loop_test(tc, random_transactions_equal_ordinary_tables, 0, SEEDS);
  suite_add_tcase(suite, tc);
  return harness_run(suite);
}
