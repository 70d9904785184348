/* Power loss at every point of a script: the pager's files and the table files are on one disk in memory,
** whose log is cut there (harness_disk.h, harness_power.h). Whatever was not synced may be lost, in many
** ways; what comes up must be the state of some commit, the same in ordinary and colfam tables, not older
** than what was promised, and must go on working. One in 20 states dies again in its recovery or in the
** commit after it.
**
** COLFAM_STATES=n is how many states each mode checks, COLFAM_SEED moves script and choices, COLFAM_MUTANT
** switches a rule off to see that this finds it (tests/mutants.sh). */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness_power.h"
#include "harness_sql.h"

enum {
  STATES = 500, /* of a mode, unless COLFAM_STATES says otherwise */
  SLICES = 2,   /* processes that share the states of a mode */
  TRANSACTIONS = 56,
  KEYS = 70,
  BULK_ROWS = 70, /* of 500 bytes: more than twice the log's budget */
  NESTED_ONE_IN = 20,
  KINDS = 8 /* states tried at a point in one round */
};

enum { MARK_ATTEMPTED, MARK_ACKNOWLEDGED };

/* What a COMMIT that returned has promised about power loss. */
enum promise {
  PREFIX,       /* some commit before it, none half */
  WITH_ENTRIES, /* itself, once the directory has been written: SQLite does not sync it */
  DURABLE       /* itself */
};

struct mode {
  const char *journal;
  const char *synchronous;
  enum promise promise;
};

static const struct mode modes[] = {
    {"DELETE", "NORMAL", PREFIX},   {"DELETE", "FULL", WITH_ENTRIES}, {"DELETE", "EXTRA", DURABLE},
    {"TRUNCATE", "NORMAL", PREFIX}, {"TRUNCATE", "FULL", DURABLE},    {"PERSIST", "NORMAL", PREFIX},
    {"PERSIST", "FULL", DURABLE},   {"WAL", "NORMAL", PREFIX},        {"WAL", "FULL", DURABLE},
};
enum { MODES = sizeof modes / sizeof *modes };

/* Digests of states that were checked already. */
struct seen {
  uint64_t *digests;
  size_t capacity;
};

struct run {
  const struct mode *mode;
  uint64_t seed;
  struct harness_random random;
  uint64_t expected[TRANSACTIONS + 2]; /* digest of the tables after each commit */
  struct seen seen;
  uint64_t states, nested;
  char where[160]; /* what is being checked */
};

/* ---- SQL that must work */

static void wrong(const struct run *run, const char *format, ...) {
  char text[1000];
  va_list list;
  va_start(list, format);
  vsnprintf(text, sizeof text, format, list);
  va_end(list);
  ck_abort_msg("COLFAM_SEED=%" PRIu64 " %s/%s %s: %s", run->seed, run->mode->journal,
               run->mode->synchronous, run->where, text);
}

static void exec(const struct run *run, sqlite3 *db, const char *format, ...) {
  va_list list;
  va_start(list, format);
  char *sql = sqlite3_vmprintf(format, list);
  va_end(list);
  if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
    wrong(run, "%.300s: %s", sql, sqlite3_errmsg(db));
  sqlite3_free(sql);
}

static sqlite3_stmt *prepare(const struct run *run, sqlite3 *db, const char *sql) {
  sqlite3_stmt *statement;
  if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL) != SQLITE_OK)
    wrong(run, "%s: %s", sql, sqlite3_errmsg(db));
  return statement;
}

static void finish(const struct run *run, sqlite3_stmt *statement) {
  sqlite3 *db = sqlite3_db_handle(statement);
  char *sql = sqlite3_mprintf("%s", sqlite3_sql(statement));
  if (sqlite3_finalize(statement) != SQLITE_OK) wrong(run, "%s: %s", sql, sqlite3_errmsg(db));
  sqlite3_free(sql);
}

static sqlite3_int64 number(const struct run *run, sqlite3 *db, const char *sql) {
  sqlite3_stmt *statement = prepare(run, db, sql);
  sqlite3_int64 value =
      sqlite3_step(statement) == SQLITE_ROW ? sqlite3_column_int64(statement, 0) : -1;
  finish(run, statement);
  return value;
}

/* Rows that must not be there: the first one is shown. */
static void no_rows(const struct run *run, sqlite3 *db, const char *sql) {
  sqlite3_stmt *statement = prepare(run, db, sql);
  if (sqlite3_step(statement) == SQLITE_ROW) {
    char text[600] = "";
    for (int i = 0; i < sqlite3_column_count(statement); i++) {
      const char *value = (const char *)sqlite3_column_text(statement, i);
      snprintf(text + strlen(text), sizeof text - strlen(text), "%.150s|", value ? value : "NULL");
    }
    wrong(run, "%s: %s", sql, text);
  }
  finish(run, statement);
}

static uint64_t digest_rows(const struct run *run, sqlite3 *db, const char *sql, uint64_t digest) {
  sqlite3_stmt *statement = prepare(run, db, sql);
  while (sqlite3_step(statement) == SQLITE_ROW) {
    for (int i = 0; i < sqlite3_column_count(statement); i++) {
      const unsigned char *text = sqlite3_column_text(statement, i);
      int size = sqlite3_column_bytes(statement, i);
      digest = power_mix(digest + 1, text, (size_t)size);
    }
  }
  finish(run, statement);
  return digest;
}

static bool has_table(const struct run *run, sqlite3 *db, const char *name) {
  char sql[120];
  snprintf(sql, sizeof sql, "SELECT count(*) FROM sqlite_schema WHERE name = '%s'", name);
  return number(run, db, sql) == 1;
}

/* Of both tables of one kind; "plain" or "family". */
static uint64_t digest_tables(const struct run *run, sqlite3 *db, const char *kind) {
  char sql[80], second[20];
  snprintf(sql, sizeof sql, "SELECT k, v FROM %s ORDER BY k", kind);
  snprintf(second, sizeof second, "%s2", kind);
  uint64_t digest = 0xcbf29ce484222325u;
  if (!has_table(run, db, kind)) return digest;
  digest = digest_rows(run, db, sql, digest);
  if (!has_table(run, db, second)) return digest;
  snprintf(sql, sizeof sql, "SELECT k, v FROM %s ORDER BY k", second);
  return digest_rows(run, db, sql, digest ^ 1);
}

/* ---- The script */

static sqlite3 *open_database(const struct run *run) {
  sqlite3 *db;
  if (sqlite3_open(disk_path("db"), &db) != SQLITE_OK || sql_load(db, NULL) != SQLITE_OK)
    wrong(run, "cannot open: %s", sqlite3_errmsg(db));
  exec(run, db, "PRAGMA page_size = 1024; PRAGMA temp_store = memory; PRAGMA synchronous = %s",
       run->mode->synchronous);
  exec(run, db, "PRAGMA journal_mode = %s; PRAGMA wal_autocheckpoint = 40", run->mode->journal);
  return db;
}

static void close_database(const struct run *run, sqlite3 *db) {
  if (sqlite3_close(db) != SQLITE_OK) wrong(run, "close: %s", sqlite3_errmsg(db));
}

/* Commit 1. */
static void create_tables(const struct run *run, sqlite3 *db) {
  exec(run, db,
       "CREATE TABLE plain(k INTEGER PRIMARY KEY, v);"
       "CREATE VIRTUAL TABLE family USING colfam(k INT PRIMARY KEY, v, memtable_bytes = 16384,"
       " compression = none);"
       "INSERT INTO plain VALUES(0, 1); INSERT INTO family VALUES(0, 1)");
}

/* The same statement for both tables: the format takes the table's name first. */
static void change_both(const struct run *run, sqlite3 *db, const char *format, unsigned a,
                        unsigned b, unsigned c) {
  static const char *const tables[] = {"plain", "family"};
  for (int i = 0; i < 2; i++) exec(run, db, format, tables[i], a, b, c);
}

static void change(struct run *run, sqlite3 *db, unsigned n) {
  unsigned key = 1 + (unsigned)harness_below(&run->random, KEYS);
  unsigned size = 20 + (unsigned)harness_below(&run->random, 600);
  switch (harness_below(&run->random, 6)) {
    case 0:
      change_both(run, db, "DELETE FROM %s WHERE k BETWEEN %u AND %u + %u", key, key, 4);
      break;
    case 1:
      change_both(run, db, "UPDATE %s SET v = substr(v, %u) || '-%u' WHERE k >= %u", 3, n,
                  KEYS - 3 + key / 20);
      break;
    default:
      change_both(run, db, "INSERT OR REPLACE INTO %s VALUES(%u, printf('%%0*d', %u, %u))", key,
                  size, n);
  }
}

/* Straight into a run; or all of it away, so that files go too. */
static void change_much(const struct run *run, sqlite3 *db, unsigned n) {
  if (n % 3 == 0)
    change_both(run, db, "DELETE FROM %s WHERE k > %u AND v != %u || %u", KEYS, n, n);
  else
    change_both(run, db,
                "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 70) "
                "INSERT OR REPLACE INTO %s SELECT %u + i, printf('%%0*d', %u, %u) FROM n",
                1000 + n % 2 * BULK_ROWS / 2, 500, n);
}

/* A second pair comes and goes. */
static void change_schema(const struct run *run, sqlite3 *db) {
  if (has_table(run, db, "plain2"))
    exec(run, db, "DROP TABLE plain2; DROP TABLE family2");
  else
    exec(run, db,
         "CREATE TABLE plain2(k INTEGER PRIMARY KEY, v);"
         "CREATE VIRTUAL TABLE family2 USING colfam(k INT PRIMARY KEY, v, memtable_bytes = 16384);"
         "INSERT INTO plain2 SELECT * FROM plain; INSERT INTO family2 SELECT * FROM plain;"
         "INSERT INTO family2(family2) VALUES('flush')");
}

static void count_commit(const struct run *run, sqlite3 *db, uint64_t n) {
  exec(run, db,
       "UPDATE plain SET v = %llu WHERE k = 0; INSERT OR REPLACE INTO family VALUES(0, %llu)",
       (unsigned long long)n, (unsigned long long)n);
}

static void transaction(struct run *run, sqlite3 *db, unsigned n) {
  /* Computed now, published with a later commit, or found stale by it. */
  if (n % 6 == 2) exec(run, db, "SELECT * FROM colfam_flush('family')");
  if (n % 12 == 7) exec(run, db, "SELECT * FROM colfam_compact('family')");
  exec(run, db, "BEGIN IMMEDIATE");
  if (n % 12 == 8) exec(run, db, "INSERT INTO family(family) VALUES('compact')");
  unsigned changes = 1 + (unsigned)harness_below(&run->random, 7);
  while (changes--) change(run, db, n);
  if (n % 9 == 5) change_much(run, db, n);
  if (n % 7 == 3) change_schema(run, db);
  if (n % 8 == 4) exec(run, db, "INSERT INTO family(family) VALUES('flush')");
  if (n % 10 == 9) {
    exec(run, db, "ROLLBACK; BEGIN IMMEDIATE");
    change(run, db, n);
  }
  if (n % 14 == 13) exec(run, db, "INSERT INTO family(family) VALUES('compact')");
  count_commit(run, db, n);
}

static struct disk *run_script(struct run *run) {
  struct disk *disk = disk_new(run->seed);
  disk_mount(disk);
  sqlite3_randomness(0, NULL);
  snprintf(run->where, sizeof run->where, "script");
  sqlite3 *db = open_database(run);
  run->expected[0] = digest_tables(run, db, "plain");
  for (unsigned n = 1; n <= TRANSACTIONS; n++) {
    snprintf(run->where, sizeof run->where, "script at commit %u", n);
    if (n == 1) {
      exec(run, db, "BEGIN IMMEDIATE");
      create_tables(run, db);
    } else {
      transaction(run, db, n);
    }
    disk_mark(disk, MARK_ATTEMPTED, n);
    exec(run, db, "COMMIT");
    disk_mark(disk, MARK_ACKNOWLEDGED, n);
    run->expected[n] = digest_tables(run, db, "plain");
    if (digest_tables(run, db, "family") != run->expected[n]) wrong(run, "tables differ");
  }
  close_database(run, db);
  return disk;
}

/* ---- The oracle */

static void check_files(const struct run *run, const struct disk *disk, sqlite3 *db,
                        const char *table) {
  char sql[100], name[80];
  snprintf(sql, sizeof sql, "SELECT printf('%%016x', id) FROM %s_cffile", table);
  sqlite3_stmt *statement = prepare(run, db, sql);
  while (sqlite3_step(statement) == SQLITE_ROW) {
    snprintf(name, sizeof name, "db-colfam/%s.sst",
             (const char *)sqlite3_column_text(statement, 0));
    if (!disk_find(disk, name)) wrong(run, "%s of %s is named and not there", name, table);
  }
  finish(run, statement);
}

/* By every way of reading. */
static void check_pair(const struct run *run, const struct disk *disk, sqlite3 *db,
                       const char *plain, const char *family) {
  char sql[300];
  check_files(run, disk, db, family);
  snprintf(sql, sizeof sql, "SELECT * FROM colfam_check('%s')", family);
  no_rows(run, db, sql);
  snprintf(sql, sizeof sql,
           "SELECT p.k, p.v, f.v FROM %s p LEFT JOIN %s f ON f.k = p.k WHERE f.v IS NOT p.v", plain,
           family);
  no_rows(run, db, sql);
  snprintf(sql, sizeof sql,
           "SELECT count(*), sum(length(v)) FROM %s WHERE k IN (SELECT k + 1 FROM %s) "
           "EXCEPT SELECT count(*), sum(length(v)) FROM %s WHERE k IN (SELECT k + 1 FROM %s)",
           family, plain, plain, plain);
  no_rows(run, db, sql);
}

/* Which commit it is. */
static uint64_t check_tables(const struct run *run, const struct disk *disk, sqlite3 *db) {
  no_rows(run, db, "SELECT * FROM pragma_integrity_check WHERE integrity_check != 'ok'");
  bool created = has_table(run, db, "plain");
  if (has_table(run, db, "family") != created) wrong(run, "one table without the other");
  if (has_table(run, db, "family2") != has_table(run, db, "plain2"))
    wrong(run, "one table of the second pair without the other");
  if (!created) return 0;
  uint64_t plain = digest_tables(run, db, "plain");
  uint64_t n = (uint64_t)number(run, db, "SELECT v FROM plain WHERE k = 0");
  uint64_t other = (uint64_t)number(run, db, "SELECT v FROM family WHERE k = 0");
  if (other != n)
    wrong(run, "ordinary table at commit %" PRIu64 ", colfam table at %" PRIu64, n, other);
  if (digest_tables(run, db, "family") != plain)
    wrong(run, "ordinary and colfam rows differ at commit %" PRIu64, n);
  check_pair(run, disk, db, "plain", "family");
  if (has_table(run, db, "plain2")) check_pair(run, disk, db, "plain2", "family2");
  return n;
}

/* What may come up: one of the script's commits, or the last one with rows of its own. */
struct allowed {
  uint64_t least, most;
  uint64_t most_digest; /* 0: that of the script */
};

/* Which of the allowed commits it is. */
static uint64_t check_commit(const struct run *run, const struct disk *disk, sqlite3 *db,
                             const struct allowed *allowed) {
  uint64_t n = check_tables(run, disk, db);
  if (n < allowed->least || n > allowed->most)
    wrong(run, "commit %" PRIu64 " came up, not one of %" PRIu64 " to %" PRIu64, n, allowed->least,
          allowed->most);
  bool own = n == allowed->most && allowed->most_digest;
  if (digest_tables(run, db, "plain") != (own ? allowed->most_digest : run->expected[n]))
    wrong(run, "the rows are not those of commit %" PRIu64, n);
  return n;
}

static void commit_more(const struct run *run, struct disk *disk, sqlite3 *db, uint64_t n) {
  disk_mark(disk, MARK_ACKNOWLEDGED, n);
  exec(run, db, "BEGIN IMMEDIATE");
  if (n == 0)
    create_tables(run, db);
  else
    change_both(run, db, "INSERT OR REPLACE INTO %s VALUES(%u, 'more %u %u')", 1, 2, 3);
  if (n) count_commit(run, db, n + 1);
  disk_mark(disk, MARK_ATTEMPTED, n + 1);
  exec(run, db, "COMMIT");
  disk_mark(disk, MARK_ACKNOWLEDGED, n + 1);
}

/* Recovery, checks, one more commit, checks again. What a crash in all that may leave. */
static struct allowed check_state(const struct run *run, struct disk *disk,
                                  const struct allowed *allowed) {
  disk_mount(disk);
  sqlite3 *db = open_database(run);
  uint64_t n = check_commit(run, disk, db, allowed);
  commit_more(run, disk, db, n);
  close_database(run, db);
  db = open_database(run);
  struct allowed now = {n, n + 1, digest_tables(run, db, "plain")};
  if (check_tables(run, disk, db) != n + 1) wrong(run, "one more than %" PRIu64 " is lost", n);
  close_database(run, db);
  return now;
}

static bool is_new(struct seen *seen, uint64_t digest) {
  size_t at = digest & (seen->capacity - 1);
  while (seen->digests[at] && seen->digests[at] != digest) at = (at + 1) & (seen->capacity - 1);
  bool fresh = !seen->digests[at];
  seen->digests[at] = digest;
  return fresh;
}

static uint64_t least_commit(const struct run *run, const struct power *power, enum power_kind kind,
                             bool entries_kept) {
  enum promise promise = run->mode->promise;
  bool promised =
      kind == POWER_KILL || promise == DURABLE || (promise == WITH_ENTRIES && entries_kept);
  return promised ? power->marks[MARK_ACKNOWLEDGED] : 0;
}

static enum power_kind choose_kind(struct run *run) {
  static const enum power_kind kinds[KINDS] = {POWER_KILL,  POWER_PREFIX, POWER_LOST,  POWER_MIXED,
                                               POWER_MIXED, POWER_MIXED,  POWER_MIXED, POWER_MIXED};
  return kinds[harness_below(&run->random, KINDS)];
}

/* A second crash, somewhere in what the check of a state did. Its own state was durable as a whole. */
static void check_nested(struct run *run, const struct disk *disk, struct allowed allowed) {
  struct power power;
  bool entries_kept;
  power_start(&power, disk, strcmp(run->mode->synchronous, "NORMAL") == 0);
  size_t stop = (size_t)harness_below(&run->random, disk->op_count + 1);
  while (power.at < stop && power_step(&power)) {
  }
  enum power_kind kind = choose_kind(run);
  struct disk *state = power_state(&power, kind, &run->random, &entries_kept);
  size_t length = strlen(run->where);
  snprintf(run->where + length, sizeof run->where - length, ", again after %zu of %zu, kind %d",
           stop, disk->op_count, (int)kind);
  uint64_t least = least_commit(run, &power, kind, entries_kept);
  if (least > allowed.least) allowed.least = least;
  check_state(run, state, &allowed);
  run->nested++;
  disk_unref(state);
  power_stop(&power);
}

static void check_point(struct run *run, const struct power *power) {
  bool entries_kept;
  enum power_kind kind = choose_kind(run);
  struct disk *state = power_state(power, kind, &run->random, &entries_kept);
  struct allowed allowed = {least_commit(run, power, kind, entries_kept),
                            power->marks[MARK_ATTEMPTED], 0};
  if (is_new(&run->seen, power_digest(state) + allowed.least * 31 + allowed.most)) {
    snprintf(run->where, sizeof run->where, "cut after %zu of %zu, kind %d", power->at,
             power->disk->op_count, (int)kind);
    struct allowed now = check_state(run, state, &allowed);
    run->states++;
    if (harness_below(&run->random, NESTED_ONE_IN) == 0) check_nested(run, state, now);
  }
  disk_unref(state);
}

/* One slice: a part of the log, round after round with new choices, until there are enough. */
static void check_slice(struct run *run, const struct disk *disk, size_t slice, uint64_t wanted) {
  uint64_t points = disk->op_count / SLICES + 1;
  while (run->states < wanted) {
    struct power power;
    power_start(&power, disk, strcmp(run->mode->synchronous, "NORMAL") == 0);
    while (power_step(&power) && run->states < wanted) {
      bool mine = power.at * SLICES / (disk->op_count + 1) == slice;
      if (mine && harness_below(&run->random, points) < wanted) check_point(run, &power);
    }
    power_stop(&power);
  }
}

static uint64_t states_wanted(void) {
  const char *text = getenv("COLFAM_STATES");
  return text ? strtoull(text, NULL, 10) : STATES;
}

START_TEST(what_comes_up_is_a_commit) {
  static struct run run;
  const char *so = getenv("COLFAM_TEST_SO");
  setenv("COLFAM_SO", so ? so : COLFAM_TEST_SO, 1);
  disk_register_vfs();
  run = (struct run){.mode = &modes[_i / SLICES], .seed = harness_seed_env(1)};
  size_t slice = (size_t)_i % SLICES;
  harness_seed(&run.random, run.seed);
  struct disk *disk = run_script(&run);
  harness_seed(&run.random, run.seed * SLICES + slice);
  uint64_t wanted = states_wanted() / SLICES;
  run.seen.capacity = 1024;
  while (run.seen.capacity < 4 * wanted) run.seen.capacity *= 2;
  run.seen.digests = calloc(run.seen.capacity, sizeof *run.seen.digests);
  ck_assert_ptr_nonnull(run.seen.digests);
  check_slice(&run, disk, slice, wanted);
  printf("%-8s %-6s slice %zu: %" PRIu64 " states, %" PRIu64 " again, of %zu operations\n",
         run.mode->journal, run.mode->synchronous, slice, run.states, run.nested, disk->op_count);
  free(run.seen.digests);
  disk_unref(disk);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("power loss");
  TCase *tc = tcase_create("joint states");
  tcase_set_timeout(tc, 3000);
  tcase_add_loop_test(tc, what_comes_up_is_a_commit, 0, MODES * SLICES);
  suite_add_tcase(suite, tc);
  return harness_run(suite);
}
