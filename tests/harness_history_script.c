/* The scripts of harness_history.h. All that is random comes from the history's own generator, so that a seed
** says everything. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "harness_history.h"

enum {
  KEYS = 32,
  VALUE_BYTES = 880,
  BULK_ROWS = 42, /* of BULK_BYTES: more than twice the log's budget */
  BULK_BYTES = 850,
  SMALL_BATCH = 12288, /* bulks spill */
  ENDS = 4             /* names of pairs beside the first */
};

struct script {
  struct history *history;
  sqlite3 *db;
  unsigned n; /* the commit that is made */
};

/* A pair of tables: plain<end> and family<end> in a schema. */
struct pair {
  const char *schema, *end;
};

static const char *const ends[ENDS] = {"2", "3", "4", "5"};

static unsigned below(struct script *script, unsigned bound) {
  return (unsigned)harness_below(&script->history->random, bound);
}

static bool one_in(struct script *script, unsigned n) {
  return below(script, n) == 0;
}

static bool has_table(const struct script *script, const struct pair *pair) {
  sqlite3_stmt *statement = history_prepare(script->history, script->db,
                                            "SELECT 1 FROM %s.sqlite_schema WHERE name = 'plain%s'",
                                            pair->schema, pair->end);
  bool there = sqlite3_step(statement) == SQLITE_ROW;
  history_finish(script->history, statement);
  return there;
}

/* ---- Changes, the same in both tables: the format takes the table's name first */

static void change_pair(const struct history *history, sqlite3 *db, const struct pair *pair,
                        const char *format, unsigned a, unsigned b, unsigned c) {
  static const char *const kinds[] = {"plain", "family"};
  char table[60];
  for (int i = 0; i < 2; i++) {
    snprintf(table, sizeof table, "%s.%s%s", pair->schema, kinds[i], pair->end);
    history_exec(history, db, format, table, a, b, c);
  }
}

static void change(struct script *script, const struct pair *pair, const char *format, unsigned a,
                   unsigned b, unsigned c) {
  change_pair(script->history, script->db, pair, format, a, b, c);
}

static void command(const struct script *script, const struct pair *pair, const char *name) {
  history_exec(script->history, script->db, "INSERT INTO %s.family%s(family%s) VALUES('%s')",
               pair->schema, pair->end, pair->end, name);
}

static void change_some(struct script *script, const struct pair *pair) {
  unsigned key = 1 + below(script, KEYS), size = 20 + below(script, VALUE_BYTES);
  switch (below(script, 6)) {
    case 0:
      change(script, pair, "DELETE FROM %s WHERE k BETWEEN %u AND %u + %u", key, key, 3);
      break;
    case 1:
      change(script, pair, "UPDATE %s SET v = substr(v, %u) || '-%u' WHERE k >= %u", 3, script->n,
             KEYS - 3 + key / 20);
      break;
    default:
      change(script, pair, "INSERT OR REPLACE INTO %s VALUES(%u, printf('%%0*d', %u, %u))", key,
             size, script->n);
  }
}

/* Straight into a run; or all of it away, so that files go too. */
static void change_much(struct script *script, const struct pair *pair) {
  if (one_in(script, 3))
    change(script, pair, "DELETE FROM %s WHERE k > %u AND v != %u || %u", KEYS, script->n,
           script->n);
  else
    change(script, pair,
           "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 42) "
           "INSERT OR REPLACE INTO %s SELECT %u + i, printf('%%0*d', %u, %u) FROM n",
           1000 + below(script, 2) * BULK_ROWS / 2, BULK_BYTES, script->n);
}

static void create_pair(const struct history *history, sqlite3 *db, const struct pair *pair,
                        const char *options) {
  history_exec(history, db,
               "CREATE TABLE %s.plain%s(k INTEGER PRIMARY KEY, v);"
               "CREATE VIRTUAL TABLE %s.family%s USING colfam(k INT PRIMARY KEY, v,"
               " memtable_bytes = 16384%s)",
               pair->schema, pair->end, pair->schema, pair->end, options);
}

static void drop_pair(const struct script *script, const struct pair *pair) {
  history_exec(script->history, script->db, "DROP TABLE %s.plain%s; DROP TABLE %s.family%s",
               pair->schema, pair->end, pair->schema, pair->end);
}

static void fill_pair(struct script *script, const struct pair *pair) {
  for (int i = 0; i < 2; i++)
    history_exec(script->history, script->db, "INSERT INTO %s.%s%s SELECT * FROM %s.plain LIMIT 12",
                 pair->schema, i ? "plain" : "family", pair->end, pair->schema);
  if (one_in(script, 2)) command(script, pair, "flush");
}

/* A pair comes or goes; or goes and comes anew under the same name. */
static void change_schema(struct script *script, const struct pair *pair) {
  bool there = has_table(script, pair);
  if (there) drop_pair(script, pair);
  if (there && !one_in(script, 4)) return;
  static const char *const options[] = {"", ", compression = none", ", value_bytes = 8",
                                        ", compression = none, value_bytes = 1"};
  create_pair(script->history, script->db, pair, options[below(script, 4)]);
  fill_pair(script, pair);
}

static void rename_pair(struct script *script, const struct pair *pair) {
  struct pair to = {pair->schema, ends[below(script, ENDS)]};
  if (!has_table(script, pair) || has_table(script, &to)) return;
  history_exec(
      script->history, script->db,
      "ALTER TABLE %s.plain%s RENAME TO plain%s; ALTER TABLE %s.family%s RENAME TO family%s",
      pair->schema, pair->end, to.end, pair->schema, pair->end, to.end);
}

/* ---- Commits */

static void count_commit(const struct history *history, sqlite3 *db, const char *schema,
                         uint64_t n) {
  history_exec(history, db,
               "UPDATE %s.plain SET v = %llu WHERE k = 0;"
               "INSERT OR REPLACE INTO %s.family VALUES(0, %llu)",
               schema, (unsigned long long)n, schema, (unsigned long long)n);
}

static void create_first(const struct history *history, sqlite3 *db, const char *schema) {
  struct pair first = {schema, ""};
  create_pair(history, db, &first, ", compression = none, value_bytes = 20");
  history_exec(history, db, "INSERT INTO %s.plain VALUES(0, 1); INSERT INTO %s.family VALUES(0, 1)",
               schema, schema);
}

void history_write_more(const struct history *history, sqlite3 *db, const char *schema,
                        uint64_t n) {
  struct pair first = {schema, ""};
  if (n == 0) {
    create_first(history, db, schema);
    return;
  }
  change_pair(history, db, &first, "INSERT OR REPLACE INTO %s VALUES(%u, 'more %u %u')", 1, 2, 3);
  count_commit(history, db, schema, n + 1);
}

static void ask_journal(const struct history *history, sqlite3 *db, char *text, size_t size) {
  sqlite3_stmt *statement = history_prepare(history, db, "PRAGMA main.journal_mode");
  if (sqlite3_step(statement) != SQLITE_ROW) history_wrong(history, "no journal mode");
  snprintf(text, size, "%s", (const char *)sqlite3_column_text(statement, 0));
  history_finish(history, statement);
}

/* A COMMIT that returned: what it promises about power loss. */
void history_mark_commit(const struct history *history, sqlite3 *db, struct disk *disk,
                         uint64_t n) {
  char journal[16];
  ask_journal(history, db, journal, sizeof journal);
  disk_mark(disk, MARK_ACKNOWLEDGED, n);
  bool extra = strcmp(history->synchronous, "EXTRA") == 0;
  bool full = extra || strcmp(history->synchronous, "FULL") == 0;
  bool deletes = strcmp(journal, "delete") == 0;
  if (!full || strcmp(journal, "memory") == 0 || strcmp(journal, "off") == 0) return;
  disk_mark(disk, deletes && !extra ? MARK_ENTRIES : MARK_DURABLE, n);
}

/* ---- What a transaction does, by kind */

static void write_mixed(struct script *script, const char *schema) {
  struct pair first = {schema, ""}, second = {schema, ends[0]};
  if (one_in(script, 12)) command(script, &first, "compact");
  for (unsigned i = below(script, 6) + 1; i; i--) change_some(script, &first);
  if (one_in(script, 8)) change_much(script, &first);
  if (one_in(script, 8)) change_schema(script, &second);
  if (one_in(script, 8)) command(script, &first, "flush");
  if (one_in(script, 14)) command(script, &first, "compact");
}

static void savepoint_inside(struct script *script, unsigned depth) {
  struct pair first = {"main", ""}, second = {"main", ends[0]};
  history_exec(script->history, script->db, "SAVEPOINT s%u", depth);
  change_some(script, &first);
  if (one_in(script, 6)) change_much(script, &first);
  if (one_in(script, 6)) change_schema(script, &second);
  if (one_in(script, 8)) command(script, &first, "flush");
  if (depth < 4 && !one_in(script, 3)) savepoint_inside(script, depth + 1);
  if (one_in(script, 2)) {
    history_exec(script->history, script->db, "ROLLBACK TO s%u", depth);
    if (one_in(script, 2)) change_some(script, &first);
  }
  if (!one_in(script, 4)) history_exec(script->history, script->db, "RELEASE s%u", depth);
}

static void write_savepoints(struct script *script) {
  struct pair first = {"main", ""};
  for (unsigned i = below(script, 3) + 1; i; i--) savepoint_inside(script, 0);
  change_some(script, &first);
}

static void write_tables(struct script *script) {
  struct pair first = {"main", ""};
  change_some(script, &first);
  for (unsigned i = 0; i < ENDS; i++) {
    struct pair pair = {"main", ends[i]};
    if (one_in(script, 5)) change_schema(script, &pair);
    if (one_in(script, 6)) rename_pair(script, &pair);
    if (!has_table(script, &pair)) continue;
    for (unsigned j = below(script, 3); j; j--) change_some(script, &pair);
    if (one_in(script, 12)) change_much(script, &pair);
    if (one_in(script, 6)) command(script, &pair, one_in(script, 3) ? "compact" : "flush");
  }
}

static void write_all(struct script *script) {
  const struct history *history = script->history;
  if (history->kind == HISTORY_SAVEPOINTS && !one_in(script, 4)) {
    write_savepoints(script);
  } else if (history->kind == HISTORY_TABLES) {
    write_tables(script);
  } else {
    for (size_t i = 0; i < history_schema_count(history); i++)
      write_mixed(script, history_schemas[i]);
  }
}

/* ---- Between transactions */

/* A checkpoint that took all of the log made every commit before it durable. */
static void checkpoint(struct script *script) {
  static const int kinds[] = {SQLITE_CHECKPOINT_PASSIVE, SQLITE_CHECKPOINT_FULL,
                              SQLITE_CHECKPOINT_RESTART, SQLITE_CHECKPOINT_TRUNCATE};
  int all = -1, done = -1;
  int rc = sqlite3_wal_checkpoint_v2(script->db, "main", kinds[below(script, 4)], &all, &done);
  if (rc != SQLITE_OK) history_wrong(script->history, "checkpoint: code %d", rc);
  if (all >= 0 && done == all && strcmp(script->history->synchronous, "OFF") != 0)
    disk_mark(script->history->disk, MARK_DURABLE, script->n - 1);
}

static void switch_journal(struct script *script) {
  static const char *const modes[] = {"delete", "truncate", "persist", "wal"};
  const char *wanted = modes[below(script, 4)];
  char now[16];
  history_exec(script->history, script->db, "PRAGMA main.journal_mode = %s", wanted);
  ask_journal(script->history, script->db, now, sizeof now);
  if (strcmp(now, wanted) != 0) history_wrong(script->history, "journal %s, not %s", now, wanted);
}

static void back_up(struct script *script) {
  char name[20];
  snprintf(name, sizeof name, "copy%u", script->n - 1);
  history_exec(script->history, script->db,
               "SELECT * FROM colfam_backup('%s') WHERE phase = 'done'", disk_path(name));
  disk_mark(script->history->disk, MARK_COPY, script->n - 1);
}

static void work_ahead(struct script *script, const char *schema) {
  const char *job = one_in(script, 3) ? "compact" : "flush";
  history_exec(script->history, script->db, "SELECT * FROM colfam_%s('%s.family')", job, schema);
}

/* Work that a later commit publishes, or finds stale; and what is no numbered commit. */
static void between(struct script *script) {
  enum history_kind kind = script->history->kind;
  for (size_t i = 0; i < history_schema_count(script->history); i++)
    if (one_in(script, 4)) work_ahead(script, history_schemas[i]);
  if (kind == HISTORY_SWITCHING && one_in(script, 3)) switch_journal(script);
  if (kind == HISTORY_SWITCHING && one_in(script, 4)) checkpoint(script);
  if ((kind == HISTORY_SWITCHING || kind == HISTORY_TABLES) && one_in(script, 8))
    history_exec(script->history, script->db, "VACUUM");
  if (kind == HISTORY_BACKUP && one_in(script, 10)) back_up(script);
}

static void write_commit(struct script *script) {
  struct history *history = script->history;
  if (script->n == 1) {
    history_exec(history, script->db, "BEGIN IMMEDIATE");
    for (size_t i = 0; i < history_schema_count(history); i++)
      create_first(history, script->db, history_schemas[i]);
    return;
  }
  between(script);
  history_exec(history, script->db, "BEGIN IMMEDIATE");
  write_all(script);
  if (history->kind != HISTORY_PLAIN && one_in(script, 10)) {
    history_exec(history, script->db, "ROLLBACK; BEGIN IMMEDIATE");
    change_some(script, &(struct pair){"main", ""});
  }
  for (size_t i = 0; i < history_schema_count(history); i++)
    count_commit(history, script->db, history_schemas[i], script->n);
}

/* What must stay as it is: beside the database, and maybe in its directory too. */
static void add_foreign_files(struct history *history) {
  static const char *const files[] = {"other-colfam/0123456789abcdef.sst", "0123456789abcdef.sst",
                                      "db-colfam2", "db-colfam/notes"};
  struct disk_image *image = disk_image_new();
  disk_image_write(&image, 0, "not ours", 8);
  disk_add_base(history->disk, "other-colfam", true, image);
  for (size_t i = 0; i < 3; i++) disk_add_base(history->disk, files[i], false, image);
  if (harness_below(&history->random, 2)) {
    disk_add_base(history->disk, "db-colfam", true, image);
    disk_add_base(history->disk, files[3], false, image);
  }
  disk_image_unref(image);
}

static void look_at_all(struct history *history, sqlite3 *db, unsigned n) {
  for (size_t i = 0; i < history_schema_count(history); i++) {
    struct history_state state = history_look(history, db, history_schemas[i]);
    if (state.commit != n) history_wrong(history, "commit %" PRIu64 " is seen", state.commit);
    history->rows[n][i] = state.rows;
  }
}

void history_run(struct history *history) {
  harness_seed(&history->random, history->seed);
  history->disk = disk_new(history->seed);
  add_foreign_files(history);
  disk_mount(history->disk);
  sqlite3_randomness(0, NULL);
  snprintf(history->where, sizeof history->where, "script");
  struct script script = {history, history_open(history, true), 0};
  history_exec(history, script.db, "SELECT colfam_config('batch_bytes', %u)",
               history->seed % 2 ? SMALL_BATCH : 67108864);
  look_at_all(history, script.db, 0);
  for (script.n = 1; script.n <= HISTORY_COMMITS; script.n++) {
    snprintf(history->where, sizeof history->where, "script at commit %u", script.n);
    write_commit(&script);
    disk_mark(history->disk, MARK_ATTEMPTED, script.n);
    history_exec(history, script.db, "COMMIT");
    history_mark_commit(history, script.db, history->disk, script.n);
    look_at_all(history, script.db, script.n);
  }
  history_close(history, script.db);
}

void history_release(struct history *history) {
  disk_unref(history->disk);
  history->disk = NULL;
}
