/* Power loss at every point of a history: the pager's files and the table files are on one disk in memory,
** whose log is cut there (harness_disk.h, harness_power.h, harness_history.h). Whatever was not synced may be
** lost, in many ways; what comes up must be the state of some commit, the same in ordinary and colfam tables,
** not older than what was promised, and must go on working. One in 20 states dies again in its recovery or in
** the commit after it.
**
** Every state is opened, all rows of all tables are compared, every named file is there, one more commit
** works and is there after a reopen. integrity_check, colfam_check and the other ways of reading are
** functions of the bytes that a database consists of once it is open: they run for all bytes that none had
** before.
**
** COLFAM_STEPS=n is how many states are checked over all modes, COLFAM_STATES=n in each; COLFAM_SEED moves
** histories and choices; COLFAM_MODE=journal/synchronous and COLFAM_HISTORY=kind leave one of each,
** COLFAM_PART=i/n every nth mode; COLFAM_MUTANT switches a rule off to see that this finds it
** (tests/mutants.sh). */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness_history.h"
#include "harness_power.h"

enum {
  STATES = 6000,        /* over all modes, unless COLFAM_STEPS says otherwise */
  HISTORY_STATES = 850, /* at most, of one history */
  PASSES = 12,          /* at most, over one log */
  NESTED_ONE_IN = 20,
  REOPEN_ONE_IN = 10,
  FIRST_SEED = 1u << 20, /* of what is random in one more commit */
  SECOND_SEED,
  CHOICES = 8 /* kinds of states, as often as they are wanted */
};

struct mode {
  const char *journal, *synchronous;
  unsigned share; /* of all states, in thousandths */
};

static const struct mode modes[] = {
    {"DELETE", "NORMAL", 102}, {"DELETE", "FULL", 102},    {"TRUNCATE", "NORMAL", 102},
    {"TRUNCATE", "FULL", 102}, {"PERSIST", "NORMAL", 102}, {"PERSIST", "FULL", 102},
    {"WAL", "NORMAL", 102},    {"WAL", "FULL", 102},       {"DELETE", "EXTRA", 24},
    {"TRUNCATE", "EXTRA", 24}, {"PERSIST", "EXTRA", 24},   {"WAL", "EXTRA", 24},
    {"DELETE", "OFF", 10},     {"TRUNCATE", "OFF", 10},    {"PERSIST", "OFF", 10},
    {"WAL", "OFF", 10},        {"MEMORY", "NORMAL", 10},   {"OFF", "NORMAL", 10},
    {"any", "NORMAL", 14},     {"any", "FULL", 14},
};
enum { MODES = sizeof modes / sizeof *modes };

/* Digests of what was met already, each of a state, an oracle or a content. */
struct seen {
  uint64_t *digests;
  size_t count, capacity;
};

struct run {
  const struct mode *mode;
  struct history history;
  struct harness_random random;
  struct seen seen;
  uint64_t states, nested, histories;
  uint64_t databases, tables; /* whose content was new */
};

/* ---- What was met already */

static void put_digest(struct seen *seen, uint64_t digest) {
  size_t at = digest & (seen->capacity - 1);
  while (seen->digests[at]) at = (at + 1) & (seen->capacity - 1);
  seen->digests[at] = digest;
  seen->count++;
}

static void grow_seen(struct seen *seen) {
  struct seen bigger = {.capacity = seen->capacity ? 2 * seen->capacity : 4096};
  bigger.digests = calloc(bigger.capacity, sizeof *bigger.digests);
  ck_assert_ptr_nonnull(bigger.digests);
  for (size_t i = 0; i < seen->capacity; i++)
    if (seen->digests[i]) put_digest(&bigger, seen->digests[i]);
  free(seen->digests);
  *seen = bigger;
}

/* Of what kind the digest is, goes into it. */
static bool is_new(struct seen *seen, const char *kind, uint64_t digest) {
  if (2 * seen->count >= seen->capacity) grow_seen(seen);
  digest = power_mix(digest, kind, strlen(kind)) | 1;
  size_t at = digest & (seen->capacity - 1);
  while (seen->digests[at] && seen->digests[at] != digest) at = (at + 1) & (seen->capacity - 1);
  if (seen->digests[at]) return false;
  put_digest(seen, digest);
  return true;
}

/* ---- The oracle */

/* What may come up, of each database file: one of the script's commits, or the last with rows of its own. */
struct allowed {
  uint64_t least[HISTORY_SCHEMAS], most[HISTORY_SCHEMAS];
  uint64_t most_rows[HISTORY_SCHEMAS]; /* 0: those of the script */
  uint64_t copy;                       /* a copy of this commit is there; 0: of none */
};

static bool is_quiet_only(const struct mode *mode) {
  return strcmp(mode->journal, "MEMORY") == 0 || strcmp(mode->journal, "OFF") == 0;
}

static bool syncs_nothing(const struct mode *mode) {
  return strcmp(mode->synchronous, "OFF") == 0;
}

/* In WAL mode SQLite promises nothing over several files. */
static bool is_atomic(const struct run *run) {
  return strcmp(run->mode->journal, "WAL") != 0 && !syncs_nothing(run->mode);
}

static const char *base_of(const char *schema) {
  return strcmp(schema, "main") == 0 ? "db" : schema;
}

/* A file that a manifest names is there; its bytes, mixed. */
static uint64_t check_file(const struct run *run, const struct disk *disk, const char *schema,
                           const char *family, uint64_t id) {
  char name[80];
  snprintf(name, sizeof name, "%s-colfam/%016" PRIx64 ".sst", base_of(schema), id);
  const struct disk_file *file = disk_find(disk, name);
  if (!file)
    history_wrong(&run->history, "%s of %s.%s is named and not there", name, schema, family);
  return power_mix(power_image_digest(file->image), name, strlen(name));
}

static uint64_t mix_value(uint64_t digest, sqlite3_stmt *row, int column) {
  sqlite3_int64 number = sqlite3_column_int64(row, column);
  if (sqlite3_column_type(row, column) == SQLITE_INTEGER)
    return power_mix(digest, (const void *)&number, sizeof number);
  const void *bytes = sqlite3_column_blob(row, column);
  return power_mix(digest + 1, bytes, (size_t)sqlite3_column_bytes(row, column));
}

/* All that a colfam table consists of. Its files are there. */
static uint64_t family_digest(const struct run *run, const struct disk *disk, sqlite3 *db,
                              const char *schema, const char *family) {
  enum { COLUMNS = 10 };
  uint64_t digest = power_mix(1, family, strlen(family));
  sqlite3_stmt *rows = history_prepare(
      &run->history, db,
      "SELECT 1, id, level, seq, smallest, largest, bytes, entries, tombstones, checksum"
      " FROM %s.%s_cffile UNION ALL SELECT 2, seq, nonce, gen, rows, batch, 0, 0, 0, 0"
      " FROM %s.%s_cflog UNION ALL SELECT 3, name, value, 0, 0, 0, 0, 0, 0, 0 FROM %s.%s_cfmeta",
      schema, family, schema, family, schema, family);
  while (sqlite3_step(rows) == SQLITE_ROW) {
    for (int i = 0; i < COLUMNS; i++) digest = mix_value(digest, rows, i);
    if (sqlite3_column_int(rows, 0) == 1)
      digest += check_file(run, disk, schema, family, (uint64_t)sqlite3_column_int64(rows, 1));
  }
  history_finish(&run->history, rows);
  return digest;
}

/* By every other way of reading. */
static void check_family(const struct run *run, sqlite3 *db, const char *schema,
                         const char *family) {
  const struct history *history = &run->history;
  const char *plain_end = family + strlen("family");
  history_no_rows(history, db, "SELECT * FROM colfam_check('%s.%s')", schema, family);
  history_no_rows(history, db,
                  "SELECT p.k, p.v, f.v FROM %s.plain%s p LEFT JOIN %s.%s f ON f.k = p.k "
                  "WHERE f.v IS NOT p.v",
                  schema, plain_end, schema, family);
  history_no_rows(history, db,
                  "SELECT count(*), sum(length(v)) FROM %s.%s WHERE k IN (SELECT k + 1 FROM "
                  "%s.plain%s) EXCEPT SELECT count(*), sum(length(v)) FROM %s.plain%s WHERE k IN "
                  "(SELECT k + 1 FROM %s.plain%s)",
                  schema, family, schema, plain_end, schema, plain_end, schema, plain_end);
}

/* The pages of a database as they are now, wherever they lie. */
static uint64_t pages_digest(const struct run *run, const struct disk *disk, sqlite3 *db,
                             const char *schema) {
  char name[20];
  snprintf(name, sizeof name, "%s-wal", base_of(schema));
  const struct disk_file *wal = disk_find(disk, name);
  const struct disk_file *file = disk_find(disk, base_of(schema));
  if (!wal || !wal->image->size) return file ? power_image_digest(file->image) : 1;
  sqlite3_int64 size = 0;
  unsigned char *bytes = sqlite3_serialize(db, schema, &size, 0);
  if (!bytes && size) history_wrong(&run->history, "cannot serialize %s", schema);
  uint64_t digest = power_mix((uint64_t)size, bytes, (size_t)size);
  sqlite3_free(bytes);
  return digest;
}

/* Where a table, or its twin, is not the one that was checked before. */
static void check_families(struct run *run, const struct disk *disk, sqlite3 *db,
                           const char *schema, uint64_t rows) {
  sqlite3_stmt *names = history_prepare(
      &run->history, db,
      "SELECT name FROM %s.sqlite_schema WHERE sql GLOB 'CREATE VIRTUAL*' ORDER BY name", schema);
  while (sqlite3_step(names) == SQLITE_ROW) {
    const char *family = (const char *)sqlite3_column_text(names, 0);
    uint64_t digest = family_digest(run, disk, db, schema, family);
    if (!is_new(&run->seen, schema, digest + rows)) continue;
    run->tables++;
    check_family(run, db, schema, family);
  }
  history_finish(&run->history, names);
}

static void check_integrity(const struct run *run, sqlite3 *db) {
  history_no_rows(&run->history, db,
                  "SELECT * FROM pragma_integrity_check WHERE integrity_check != 'ok'");
}

static void check_content(struct run *run, const struct disk *disk, sqlite3 *db,
                          const struct history_state *states) {
  uint64_t digest = 1;
  for (size_t i = 0; i < history_schema_count(&run->history); i++) {
    check_families(run, disk, db, history_schemas[i], states[i].rows);
    digest = digest * 31 + pages_digest(run, disk, db, history_schemas[i]);
  }
  if (!is_new(&run->seen, "pages", digest)) return;
  run->databases++;
  check_integrity(run, db);
}

/* Rows of all files, held against what is allowed. */
static void check_rows(struct run *run, const struct disk *disk, sqlite3 *db,
                       const struct allowed *allowed, struct history_state *states) {
  const struct history *history = &run->history;
  for (size_t i = 0; i < history_schema_count(history); i++) {
    struct history_state *state = &states[i];
    *state = history_look(history, db, history_schemas[i]);
    if (state->commit < allowed->least[i] || state->commit > allowed->most[i])
      history_wrong(history, "commit %" PRIu64 " of %s came up, not one of %" PRIu64 " to %" PRIu64,
                    state->commit, history_schemas[i], allowed->least[i], allowed->most[i]);
    bool own = state->commit == allowed->most[i] && allowed->most_rows[i];
    if (state->rows != (own ? allowed->most_rows[i] : history->rows[state->commit][i]))
      history_wrong(history, "the rows of %s are not those of commit %" PRIu64, history_schemas[i],
                    state->commit);
    if (is_atomic(run) && state->commit != states[0].commit)
      history_wrong(history, "commit %" PRIu64 " in one file, %" PRIu64 " in the other",
                    states[0].commit, state->commit);
  }
  check_content(run, disk, db, states);
}

/* A copy that has its name is whole. */
static void check_copy(struct run *run, const struct disk *disk, const char *name, uint64_t n) {
  struct history *history = &run->history;
  uint64_t digest = 1;
  for (size_t i = 0; i < disk->entry_count; i++)
    if (strncmp(disk->entries[i].name, name, strlen(name)) == 0)
      digest += power_mix(power_image_digest(disk->entries[i].file->image), disk->entries[i].name,
                          strlen(disk->entries[i].name));
  if (!is_new(&run->seen, "copy", digest)) return;
  sqlite3 *db = history_open_file(history, name);
  struct history_state state = history_look(history, db, "main");
  if (state.commit != n || state.rows != history->rows[n][0])
    history_wrong(history, "%s holds commit %" PRIu64, name, state.commit);
  check_integrity(run, db);
  sqlite3_stmt *names = history_prepare(
      history, db, "SELECT name FROM sqlite_schema WHERE sql GLOB 'CREATE VIRTUAL*'");
  while (sqlite3_step(names) == SQLITE_ROW)
    check_family(run, db, "main", (const char *)sqlite3_column_text(names, 0));
  history_finish(history, names);
  history_close(history, db);
}

static void check_copies(struct run *run, const struct disk *disk, const struct allowed *allowed) {
  if (run->history.kind != HISTORY_BACKUP) return;
  char name[20];
  bool there = false;
  for (uint64_t n = 1; n <= HISTORY_COMMITS; n++) {
    snprintf(name, sizeof name, "copy%" PRIu64, n);
    if (!disk_find(disk, name)) continue;
    there = there || n == allowed->copy;
    check_copy(run, disk, name, n);
  }
  if (allowed->copy && !there)
    history_wrong(&run->history, "copy%" PRIu64 " is not there", allowed->copy);
}

/* ---- Nothing else is touched */

static bool is_name_of(const char *name, const char *base, const char *const *ends, size_t count) {
  size_t size = strlen(base);
  if (strncmp(name, base, size) != 0) return false;
  for (size_t i = 0; i < count; i++) {
    size_t end = strlen(ends[i]), rest = strlen(name + size);
    bool open = end && strchr("/j", ends[i][end - 1]); /* goes on as it likes */
    if (strncmp(name + size, ends[i], end) == 0 && (open || rest == end)) return true;
  }
  return false;
}

/* SQLite's own files, the directory, and the destination of a backup. */
static bool is_ours(const struct history *history, const char *name) {
  static const char *const ends[] = {"", "-journal", "-wal", "-mj", "-colfam", "-colfam/"};
  size_t count = sizeof ends / sizeof *ends;
  if (strcmp(name, "db-colfam/notes") == 0) return false;
  if (history->kind == HISTORY_BACKUP && strncmp(name, "copy", 4) == 0) return true;
  if (history->kind == HISTORY_ATTACHED && is_name_of(name, "aux", ends, count)) return true;
  return is_name_of(name, "db", ends, count);
}

static const char *foreign_base(const struct history *history, const struct disk *disk,
                                size_t file) {
  for (size_t i = 0; i < disk->base_count; i++)
    if (disk->base[i].file == file && !is_ours(history, disk->base[i].name))
      return disk->base[i].name;
  return NULL;
}

static void check_untouched(const struct history *history, const struct disk *disk) {
  for (size_t i = 0; i < disk->op_count; i++) {
    const struct disk_op *op = &disk->ops[i];
    const char *foreign = NULL;
    if (op->kind == DISK_LINK || op->kind == DISK_UNLINK)
      foreign = is_ours(history, op->name) ? NULL : op->name;
    else if (op->kind == DISK_WRITE || op->kind == DISK_TRUNCATE)
      foreign = foreign_base(history, disk, op->file);
    if (foreign) history_wrong(history, "%s is touched", foreign);
  }
}

/* ---- A state */

static uint64_t least_of(const struct run *run, const struct history_state *states) {
  size_t count = history_schema_count(&run->history);
  return count > 1 && states[1].commit < states[0].commit ? states[1].commit : states[0].commit;
}

static void commit_more(struct run *run, struct disk *disk, sqlite3 *db,
                        const struct history_state *states, uint64_t seed) {
  const struct history *history = &run->history;
  uint64_t least = least_of(run, states);
  disk_seed(disk, seed); /* so that the same is written each time */
  disk_mark(disk, MARK_ACKNOWLEDGED, least);
  history_exec(history, db, "BEGIN IMMEDIATE");
  for (size_t i = 0; i < history_schema_count(history); i++)
    history_write_more(history, db, history_schemas[i], states[i].commit);
  history_exec(history, db, "COMMIT");
  history_mark_commit(history, db, disk, least + 1);
}

static bool one_in(struct run *run, uint64_t n) {
  return harness_below(&run->random, n) == 0;
}

/* Again, with nothing done in between: it comes up as it did. Or it is not looked at, so that the commit that
** comes knows nothing of other tables' files. */
static sqlite3 *reopen(struct run *run, sqlite3 *db, const struct history_state *states) {
  const struct history *history = &run->history;
  history_close(history, db);
  db = history_open(history, true);
  for (size_t i = one_in(run, 2) ? HISTORY_SCHEMAS : 0; i < history_schema_count(history); i++) {
    struct history_state state = history_look(history, db, history_schemas[i]);
    if (state.commit != states[i].commit || state.rows != states[i].rows)
      history_wrong(history, "opened again, %s shows commit %" PRIu64 ", not %" PRIu64,
                    history_schemas[i], state.commit, states[i].commit);
  }
  return db;
}

/* What is there when all is closed, one commit later. */
static void check_closed(struct run *run, struct disk *disk, const struct history_state *states,
                         struct allowed *now) {
  const struct history *history = &run->history;
  sqlite3 *db = history_open(history, true);
  struct history_state closed[HISTORY_SCHEMAS] = {{0, 0}};
  for (size_t i = 0; i < history_schema_count(history); i++) {
    closed[i] = history_look(history, db, history_schemas[i]);
    if (closed[i].commit != states[i].commit + 1)
      history_wrong(history, "one more than %" PRIu64 " is lost", states[i].commit);
    now->least[i] = states[i].commit;
    now->most[i] = closed[i].commit;
    now->most_rows[i] = closed[i].rows;
  }
  check_content(run, disk, db, closed);
  history_close(history, db);
}

/* Recovery, checks, one more commit, checks again, unless all files are the same bytes that were so checked
** before and nobody asks for `now`: what a crash in all that may leave. */
static void check_state(struct run *run, struct disk *disk, const struct allowed *allowed,
                        struct allowed *now) {
  struct history *history = &run->history;
  struct history_state states[HISTORY_SCHEMAS] = {{0, 0}};
  disk_mount(disk);
  bool sets_journal = one_in(run, 2);
  sqlite3 *db = history_open(history, sets_journal);
  check_rows(run, disk, db, allowed, states);
  if (one_in(run, REOPEN_ONE_IN))
    db = reopen(run, db, states);
  else if (!sets_journal)
    history_set_journal(history, db);
  commit_more(run, disk, db, states, now ? FIRST_SEED : SECOND_SEED);
  history_close(history, db);
  struct allowed unwanted = {.copy = 0};
  uint64_t digest = power_digest_now(disk) + states[0].commit * 31;
  if (is_new(&run->seen, "closed", digest) || now)
    check_closed(run, disk, states, now ? now : &unwanted);
  check_copies(run, disk, allowed);
  check_untouched(history, disk);
}

/* ---- Choosing states */

static enum power_kind choose_kind(struct run *run) {
  static const enum power_kind kinds[CHOICES] = {POWER_KILL,  POWER_PREFIX, POWER_LOST,
                                                 POWER_MIXED, POWER_MIXED,  POWER_MIXED,
                                                 POWER_MIXED, POWER_MIXED};
  if (is_quiet_only(run->mode)) return POWER_KILL;
  return kinds[harness_below(&run->random, syncs_nothing(run->mode) ? 2 : CHOICES)];
}

static uint64_t larger(uint64_t a, uint64_t b) {
  return a > b ? a : b;
}

/* What was promised at a point to stay. */
static uint64_t least_commit(const struct power *power, enum power_kind kind, bool entries_kept) {
  uint64_t least = power->marks[MARK_DURABLE];
  if (kind == POWER_KILL) least = larger(least, power->marks[MARK_ACKNOWLEDGED]);
  if (entries_kept) least = larger(least, power->marks[MARK_ENTRIES]);
  return least;
}

static void start(const struct run *run, struct power *power, const struct disk *disk) {
  power_start(power, disk, strcmp(run->mode->synchronous, "NORMAL") == 0);
}

/* A second crash, after `stop` operations of a log. */
static void check_again(struct run *run, const struct disk *log, size_t stop,
                        struct allowed allowed) {
  struct power power;
  bool entries_kept;
  start(run, &power, log);
  while (power.at < stop && power_step(&power)) {
  }
  enum power_kind kind = choose_kind(run);
  struct disk *state = power_state(&power, kind, &run->random, &entries_kept);
  size_t length = strlen(run->history.where);
  snprintf(run->history.where + length, sizeof run->history.where - length,
           ", again after %zu of %zu, kind %d", stop, log->op_count, (int)kind);
  uint64_t least = least_commit(&power, kind, entries_kept);
  for (size_t i = 0; i < HISTORY_SCHEMAS; i++) allowed.least[i] = larger(allowed.least[i], least);
  check_state(run, state, &allowed, NULL);
  run->nested++;
  disk_unref(state);
  power_stop(&power);
}

/* Somewhere in what the check of a state did. After a kill the computer has gone on: what the dead process
** had not synced may still be lost. All other states were durable as a whole. */
static void check_nested(struct run *run, const struct power *power, enum power_kind kind,
                         const struct disk *disk, struct allowed allowed) {
  size_t stop = (size_t)harness_below(&run->random, disk->op_count + 1);
  if (kind != POWER_KILL) {
    check_again(run, disk, stop, allowed);
    return;
  }
  struct disk *joined = power_join(power->disk, power->at, disk);
  for (size_t i = 0; i < HISTORY_SCHEMAS; i++) allowed.least[i] = 0;
  check_again(run, joined, power->at + stop, allowed);
  power_join_free(joined);
}

static uint64_t digest_allowed(const struct allowed *allowed) {
  return power_mix(1, (const void *)allowed, sizeof *allowed);
}

static void check_point(struct run *run, const struct power *power) {
  bool entries_kept;
  enum power_kind kind = choose_kind(run);
  struct disk *state = power_state(power, kind, &run->random, &entries_kept);
  struct allowed allowed = {.copy = power->marks[MARK_COPY]};
  for (size_t i = 0; i < HISTORY_SCHEMAS; i++) {
    allowed.least[i] = least_commit(power, kind, entries_kept);
    allowed.most[i] = power->marks[MARK_ATTEMPTED];
  }
  uint64_t digest = power_digest(state);
  bool fresh = is_new(&run->seen, "state", digest);
  if (is_new(&run->seen, "oracle", digest + digest_allowed(&allowed))) {
    snprintf(run->history.where, sizeof run->history.where, "cut after %zu of %zu, kind %d",
             power->at, power->disk->op_count, (int)kind);
    struct allowed now = {.copy = allowed.copy};
    bool again = one_in(run, NESTED_ONE_IN) && !is_quiet_only(run->mode);
    check_state(run, state, &allowed, again ? &now : NULL);
    run->states += fresh;
    if (again) check_nested(run, power, kind, state, now);
  }
  disk_unref(state);
}

/* Where nothing is promised for a transaction on its way, points outside of them. */
static bool is_meant(const struct run *run, const struct power *power) {
  return !is_quiet_only(run->mode) ||
         power->marks[MARK_ATTEMPTED] == power->marks[MARK_ACKNOWLEDGED];
}

/* Pass after pass over the log, with new choices, until there are enough. */
static void check_history(struct run *run, uint64_t wanted) {
  const struct disk *disk = run->history.disk;
  uint64_t end = run->states + wanted;
  for (int pass = 0; pass < PASSES && run->states < end; pass++) {
    struct power power;
    start(run, &power, disk);
    while (power_step(&power) && run->states < end)
      if (harness_below(&run->random, disk->op_count) < wanted && is_meant(run, &power))
        check_point(run, &power);
    power_stop(&power);
  }
}

static enum history_kind choose_history(const struct run *run) {
  static const enum history_kind kinds[] = {HISTORY_MIXED,    HISTORY_SAVEPOINTS, HISTORY_TABLES,
                                            HISTORY_ATTACHED, HISTORY_EXCLUSIVE,  HISTORY_BACKUP};
  const char *only = getenv("COLFAM_HISTORY");
  for (int kind = 0; only && kind < HISTORY_KINDS; kind++)
    if (strcmp(only, history_kind_name((enum history_kind)kind)) == 0)
      return (enum history_kind)kind;
  if (strcmp(run->mode->journal, "any") == 0) return HISTORY_SWITCHING;
  if (strcmp(run->mode->journal, "OFF") == 0) return HISTORY_PLAIN;
  if (is_quiet_only(run->mode)) return run->histories % 2 ? HISTORY_SAVEPOINTS : HISTORY_MIXED;
  return kinds[run->histories % (sizeof kinds / sizeof *kinds)];
}

static void run_history(struct run *run, uint64_t seed, uint64_t wanted) {
  static const char *const journals[] = {"DELETE", "WAL", "PERSIST", "TRUNCATE"};
  bool any = strcmp(run->mode->journal, "any") == 0;
  run->history = (struct history){.journal = any ? journals[seed % 4] : run->mode->journal,
                                  .synchronous = run->mode->synchronous,
                                  .kind = choose_history(run),
                                  .seed = seed};
  run->histories++;
  history_run(&run->history);
  check_untouched(&run->history, run->history.disk);
  harness_seed(&run->random, seed);
  check_history(run, wanted);
  history_release(&run->history);
}

static uint64_t number_env(const char *name, uint64_t fallback) {
  const char *text = getenv(name);
  return text ? strtoull(text, NULL, 10) : fallback;
}

static uint64_t states_wanted(const struct mode *mode) {
  uint64_t share = number_env("COLFAM_STEPS", STATES) * mode->share / 1000;
  return number_env("COLFAM_STATES", share);
}

/* "1/2": of every two the second. */
static bool is_in_part(const char *part, size_t number) {
  char *rest;
  unsigned long which = strtoul(part, &rest, 10);
  unsigned long parts = *rest == '/' ? strtoul(rest + 1, NULL, 10) : 0;
  return !parts || number % parts == which;
}

static bool is_left_out(const struct mode *mode) {
  char name[40];
  const char *only = getenv("COLFAM_MODE"), *part = getenv("COLFAM_PART");
  snprintf(name, sizeof name, "%s/%s", mode->journal, mode->synchronous);
  if (part && !is_in_part(part, (size_t)(mode - modes))) return true;
  return only && strcmp(only, name) != 0;
}

START_TEST(what_comes_up_is_a_commit) {
  enum { KINDS = 6 };
  static struct run run;
  const char *so = getenv("COLFAM_TEST_SO");
  setenv("COLFAM_SO", so ? so : COLFAM_TEST_SO, 1);
  disk_register_vfs();
  run = (struct run){.mode = &modes[_i]};
  if (is_left_out(run.mode)) return;
  uint64_t seed = harness_seed_env(1), most = states_wanted(run.mode);
  uint64_t share = most / KINDS + 1 < HISTORY_STATES ? most / KINDS + 1 : HISTORY_STATES;
  while (run.states < most) {
    uint64_t left = most - run.states, before = run.states;
    run_history(&run, seed + run.histories, left < share ? left : share);
    if (run.states == before && run.histories > 1000) ck_abort_msg("no more states");
  }
  printf("%-8s %-6s %7" PRIu64 " states of %3" PRIu64 " histories, %6" PRIu64
         " cut again; new %6" PRIu64 " databases, %6" PRIu64 " tables\n",
         run.mode->journal, run.mode->synchronous, run.states, run.histories, run.nested,
         run.databases, run.tables);
  free(run.seen.digests);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("power loss");
  TCase *tc = tcase_create("joint states");
  tcase_set_timeout(tc, 3000);
  tcase_add_loop_test(tc, what_comes_up_is_a_commit, 0, MODES);
  suite_add_tcase(suite, tc);
  return harness_run(suite);
}
