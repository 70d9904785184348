/* Schedules: several connections to one database, in threads of which one runs at a time
** (harness_steps.h), on a disk in memory (harness_disk.h). Which one goes on at each call of the VFS or
** the environment, and at each mutex, is decided by the seed, so that what goes wrong goes wrong again.
** The threads of one schedule belong to one or two copies of the extension, which know nothing of each
** other, as two processes would, each with its background thread or without.
**
** Writers change a colfam table and an ordinary one alike; readers hold snapshots; a keeper flushes,
** compacts, checkpoints, checks and opens again; another makes and drops a table. Both tables must be the
** same in every snapshot, a snapshot must stand still, no statement may fail but with SQLITE_BUSY, and
** none of a transaction that has the write lock; at the end exactly the files that are named are there;
** after a power cut somewhere in between, both tables are at one commit.
**
** Even seeds use WAL, odd ones a rollback journal. COLFAM_SEED replays one seed, COLFAM_SCHEDULES sets how
** many are run. */
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness_power.h"
#include "harness_sql.h"
#include "harness_steps.h"

enum {
  SCHEDULES = 2000,
  SLICES = 4,
  WRITERS = 2,
  READERS = 2,
  COPIES = 2,
  ACTORS = WRITERS + READERS + 2,
  KEYS = 60,
  ROUNDS = 8, /* of each actor */
  LOG_LINES = 80
};

struct schedule {
  uint64_t seed;
  const char *journal;
  int copies;
  int checkpoint_pages;
  unsigned kill_in; /* calls of process 1; 0: it lives */
  bool kills, killed;
  bool cuts;                                     /* the power, afterwards */
  unsigned statements, busy, commits, snapshots; /* what has been done */
};

struct actor {
  struct schedule *schedule;
  int copy;
  sqlite3 *db;
  struct harness_random random;
};

static char copies[COPIES][4200]; /* of the extension */
static char original[4200];       /* the extension's own file */
static char *lines[LOG_LINES];
static unsigned line_count;

static unsigned below(struct actor *actor, unsigned bound) {
  return (unsigned)harness_below(&actor->random, bound);
}

/* ---- Failing and running */

static void wrong(const struct schedule *schedule, const char *format, ...) {
  char text[2000];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  for (unsigned i = line_count > LOG_LINES ? line_count - LOG_LINES : 0; i < line_count; i++)
    fprintf(stderr, "  %s\n", lines[i % LOG_LINES]);
  ck_abort_msg("COLFAM_SEED=%llu, %s%s, %s: %s", (unsigned long long)schedule->seed,
               schedule->journal, schedule->killed ? ", one killed" : "", steps_title(), text);
}

static void note(const struct actor *actor, const char *sql, int rc) {
  char **line = &lines[line_count++ % LOG_LINES];
  sqlite3_free(*line);
  *line = sqlite3_mprintf("%s/%d %d%s: %.150s", steps_title(), actor->copy, rc,
                          sqlite3_get_autocommit(actor->db) ? "" : " in", sql);
  actor->schedule->statements++;
}

static bool is_busy(int rc) {
  return (rc & 0xff) == SQLITE_BUSY;
}

/* False when the database is busy. */
static bool accept(const struct actor *actor, const char *sql, int rc) {
  note(actor, sql, rc);
  if (is_busy(rc)) actor->schedule->busy++;
  if (rc != SQLITE_OK && !is_busy(rc))
    wrong(actor->schedule, "code %d: %s: %.300s", rc, sqlite3_errmsg(actor->db), sql);
  return rc == SQLITE_OK;
}

static bool run(const struct actor *actor, const char *sql) {
  return accept(actor, sql, sqlite3_exec(actor->db, sql, NULL, NULL, NULL));
}

static void must(const struct actor *actor, const char *sql) {
  if (!run(actor, sql)) wrong(actor->schedule, "busy: %s", sql);
}

static void append_row(sqlite3_str *text, sqlite3_stmt *stmt) {
  for (int i = 0; i < sqlite3_column_count(stmt); i++)
    sqlite3_str_appendf(text, "%s|", (const char *)sqlite3_column_text(stmt, i));
  sqlite3_str_appendchar(text, 1, '\n');
}

/* The rows as text; NULL when the database is busy. */
static char *query(const struct actor *actor, const char *sql) {
  sqlite3_stmt *stmt = NULL;
  int rc = sqlite3_prepare_v2(actor->db, sql, -1, &stmt, NULL);
  sqlite3_str *text = sqlite3_str_new(NULL);
  if (rc == SQLITE_OK) {
    while (sqlite3_step(stmt) == SQLITE_ROW) append_row(text, stmt);
    rc = sqlite3_finalize(stmt);
  }
  char *rows = sqlite3_str_finish(text);
  if (accept(actor, sql, rc)) return rows ? rows : sqlite3_mprintf("");
  sqlite3_free(rows);
  return NULL;
}

/* ---- Connections */

/* Others go on; the statement fails in the end. */
static int wait_busy(void *context, int times) {
  struct actor *actor = context;
  steps_yield();
  return times < 100 && below(actor, 10) != 0;
}

static bool is_wal(const struct schedule *schedule) {
  return strcmp(schedule->journal, "wal") == 0;
}

static void set_journal(struct actor *actor, const char *mode) {
  char *sql = sqlite3_mprintf("PRAGMA journal_mode = %s", mode);
  run(actor, sql);
  sqlite3_free(sql);
}

static void open_connection(struct actor *actor) {
  char *message = NULL;
  if (sqlite3_open(disk_path("db"), &actor->db) != SQLITE_OK)
    wrong(actor->schedule, "open: %s", sqlite3_errmsg(actor->db));
  sqlite3_db_config(actor->db, SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 1, NULL);
  if (sqlite3_load_extension(actor->db, copies[actor->copy], "sqlite3_colfam_init", &message))
    wrong(actor->schedule, "load: %s", message);
  sqlite3_extended_result_codes(actor->db, 1);
  sqlite3_busy_handler(actor->db, wait_busy, actor);
  char *sql = sqlite3_mprintf("PRAGMA temp_store = memory; PRAGMA synchronous = normal;"
                              "PRAGMA wal_autocheckpoint = %d; PRAGMA page_size = 1024",
                              actor->schedule->checkpoint_pages);
  run(actor, sql);
  sqlite3_free(sql);
  if (!is_wal(actor->schedule)) set_journal(actor, actor->schedule->journal);
}

static void close_connection(struct actor *actor) {
  if (sqlite3_close(actor->db) != SQLITE_OK)
    wrong(actor->schedule, "close: %s", sqlite3_errmsg(actor->db));
}

/* ---- Both tables */

#define ROWS_OF(table) \
  "(SELECT group_concat(k || ' ' || v) FROM (SELECT * FROM " table " ORDER BY k))"

static void show_difference(const struct actor *actor, const char *sql) {
  char *more = query(actor, "SELECT k, length(v) FROM (SELECT * FROM t EXCEPT SELECT * FROM o)");
  char *less = query(actor, "SELECT k, length(v) FROM (SELECT * FROM o EXCEPT SELECT * FROM t)");
  wrong(actor->schedule, "%s\n--- t has\n%s--- o has\n%s", sql, more, less);
}

static void check_same(const struct actor *actor, const char *sql) {
  char *answer = query(actor, sql);
  if (answer && strcmp(answer, "1|\n") != 0) show_difference(actor, sql);
  sqlite3_free(answer);
}

static void compare(struct actor *actor) {
  char points[700];
  unsigned a = below(actor, KEYS), b = below(actor, KEYS), c = below(actor, KEYS);
  switch (below(actor, 3)) {
    case 0:
      check_same(actor, "SELECT " ROWS_OF("t") " IS " ROWS_OF("o"));
      break;
    case 1:
      check_same(actor, "SELECT (SELECT count(*) FROM t) = (SELECT count(*) FROM o)");
      break;
    default:
      snprintf(points, sizeof points,
               "SELECT (SELECT group_concat(v) FROM (SELECT * FROM t WHERE k IN (%u, %u, %u)"
               " ORDER BY k)) IS"
               " (SELECT group_concat(v) FROM o WHERE k IN (%u, %u, %u))"
               " AND (SELECT v FROM t WHERE k = %u) IS (SELECT v FROM o WHERE k = %u)"
               " AND EXISTS(SELECT 1 FROM t WHERE k = %u) = EXISTS(SELECT 1 FROM o WHERE k = %u)",
               a, b, c, a, b, c, a, a, b, b);
      check_same(actor, points);
  }
}

/* The same to both; false when the database is busy, which it can be before the first write only. */
static bool change_both(struct actor *actor, bool has_lock, const char *format, unsigned a,
                        unsigned b) {
  const char *tables[] = {"t", "o"};
  int changes[2];
  unsigned first = below(actor, 2);
  for (unsigned i = 0; i < 2; i++) {
    char *sql = sqlite3_mprintf(format, tables[(first + i) % 2], a, b);
    bool done = run(actor, sql);
    if (!done && (i || has_lock)) wrong(actor->schedule, "busy after a write: %s", sql);
    sqlite3_free(sql);
    if (!done) return false;
    changes[i] = sqlite3_changes(actor->db);
  }
  if (changes[0] != changes[1])
    wrong(actor->schedule, "%d and %d changes: %s", changes[0], changes[1], format);
  return true;
}

static bool change(struct actor *actor, bool has_lock) {
  unsigned key = below(actor, KEYS);
  switch (below(actor, 8)) {
    case 0:
      return change_both(actor, has_lock, "DELETE FROM %s WHERE k BETWEEN %u AND %u", key, key + 6);
    case 1:
      return change_both(actor, has_lock, "UPDATE %s SET v = v || %u WHERE k > %u", key, KEYS - 8);
    case 2:
      return change_both(actor, has_lock, "UPDATE %s SET v = %u || v WHERE k < %u", key, KEYS);
    case 3:
      return change_both(
          actor, has_lock,
          "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 60)"
          " INSERT OR REPLACE INTO %s SELECT i, printf('%%0*d', 300, i + %u) FROM n"
          " WHERE i %% 3 <> %u",
          key, key % 3);
    default:
      return change_both(actor, has_lock,
                         "INSERT OR REPLACE INTO %s VALUES(%u, printf('%%0*d', %u, 7))", key,
                         10 + below(actor, 900));
  }
}

/* ---- Actors */

static void commit(struct actor *actor) {
  for (int i = 0; i < 10; i++) {
    if (run(actor, "COMMIT")) {
      actor->schedule->commits++;
      return;
    }
    if (below(actor, 5) == 0) change(actor, true);
    steps_yield();
  }
  must(actor, "ROLLBACK");
}

static void write_round(struct actor *actor) {
  static const char *const begins[] = {"BEGIN", "BEGIN IMMEDIATE", "BEGIN EXCLUSIVE"};
  unsigned how = below(actor, 3);
  if (!run(actor, begins[how])) return;
  bool has_lock = how > 0;
  for (unsigned left = 1 + below(actor, 3); left; left--) {
    if (!change(actor, has_lock)) {
      must(actor, "ROLLBACK");
      return;
    }
    has_lock = true;
    if (below(actor, 4)) continue;
    must(actor, "SAVEPOINT s");
    change(actor, true);
    must(actor, "ROLLBACK TO s");
    must(actor, "RELEASE s");
  }
  if (below(actor, 2)) compare(actor);
  if (below(actor, 8) == 0)
    must(actor, "ROLLBACK");
  else
    commit(actor);
}

/* The rows of `cursor` that are left, or some of them; false at the end. */
static bool read_on(struct actor *actor, sqlite3_stmt *cursor, unsigned rows, sqlite3_str *text) {
  for (; rows; rows--) {
    int rc = sqlite3_step(cursor);
    if (rc != SQLITE_ROW) {
      if (rc != SQLITE_DONE) wrong(actor->schedule, "cursor: %s", sqlite3_errmsg(actor->db));
      return false;
    }
    append_row(text, cursor);
  }
  return true;
}

/* The snapshot again and again, beside a half-read cursor. */
static void read_snapshot(struct actor *actor, const char *all, const char *expected) {
  sqlite3_stmt *cursor;
  sqlite3_str *text = sqlite3_str_new(NULL);
  if (sqlite3_prepare_v2(actor->db, all, -1, &cursor, NULL) != SQLITE_OK)
    wrong(actor->schedule, "%s: %s", all, sqlite3_errmsg(actor->db));
  bool more = read_on(actor, cursor, 1 + below(actor, 5), text);
  for (unsigned left = 1 + below(actor, 4); left; left--) {
    compare(actor);
    char *now = query(actor, all);
    if (!now || strcmp(expected, now) != 0) wrong(actor->schedule, "a snapshot moved");
    sqlite3_free(now);
    more = more && read_on(actor, cursor, below(actor, 20), text);
  }
  if (more) read_on(actor, cursor, 2 * KEYS, text);
  sqlite3_finalize(cursor);
  char *rows = sqlite3_str_finish(text);
  if (strcmp(rows ? rows : "", expected) != 0) wrong(actor->schedule, "a cursor read other rows");
  sqlite3_free(rows);
}

static void read_round(struct actor *actor) {
  static const char all[] = "SELECT * FROM t ORDER BY k";
  must(actor, "BEGIN");
  char *rows = query(actor, all);
  if (rows) read_snapshot(actor, all, rows);
  sqlite3_free(rows);
  must(actor, "COMMIT");
  actor->schedule->snapshots++;
}

/* Now and then given up after its first row. */
static void compute(struct actor *actor, const char *name) {
  char *sql = sqlite3_mprintf("SELECT phase FROM %s('t') LIMIT %d", name, below(actor, 4) ? 99 : 1);
  sqlite3_free(query(actor, sql));
  sqlite3_free(sql);
}

static void write_alone(struct actor *actor) {
  if (!run(actor, "BEGIN IMMEDIATE")) return;
  if (below(actor, 2)) change(actor, true);
  commit(actor);
  compare(actor);
}

/* The database is this connection's alone until it has read in normal mode again, and has this journal mode
** for that time; a database in WAL mode keeps it. Not where a process dies: SQLite in exclusive mode that
** finds a hot journal and cannot have the file for itself keeps a pending lock, by which it takes the
** journal for that of a living writer at its next try, and reads what is half written. */
static void lock_others_out(struct actor *actor, const char *mode) {
  const struct schedule *schedule = actor->schedule;
  if (schedule->kills || !run(actor, "PRAGMA locking_mode = exclusive")) return;
  write_alone(actor);
  if (mode) {
    set_journal(actor, mode);
    write_alone(actor);
    if (!is_wal(schedule)) set_journal(actor, schedule->journal);
  }
  while (!run(actor, "PRAGMA locking_mode = normal") || !run(actor, "SELECT count(*) FROM o"))
    steps_yield();
}

/* Into WAL mode and out of it only alone: whoever leaves it is seen in WAL mode until its first page is
** written, holds a lock meanwhile that lets others open the log anew, and writes that page as it was before
** their commits ("malformed"; ordinary tables alone show it too, in 3.40.1 and 3.53.2). Not where the power
** is cut: SQLite does not sync the directory after it has deleted the log, which may so come back beside a
** database that has gone on with another journal. */
static void switch_journal(struct actor *actor) {
  static const char *const modes[] = {"wal", "delete", "truncate", "persist"};
  if (actor->schedule->cuts) return;
  const char *mode = modes[below(actor, 4)];
  if (is_wal(actor->schedule) || strcmp(mode, "wal") == 0)
    lock_others_out(actor, mode);
  else
    set_journal(actor, mode);
}

static void keep_round(struct actor *actor) {
  char *problems;
  switch (below(actor, 11)) {
    case 0:
      run(actor, "INSERT INTO t(t) VALUES('flush')");
      break;
    case 1:
    case 2:
      run(actor, "INSERT INTO t(t) VALUES('compact')");
      break;
    case 3:
      compute(actor, "colfam_flush");
      break;
    case 4:
    case 5:
      compute(actor, "colfam_compact");
      break;
    case 6:
      run(actor, below(actor, 2) ? "PRAGMA wal_checkpoint(truncate)" : "PRAGMA wal_checkpoint");
      break;
    case 7:
      problems = query(actor, "SELECT * FROM colfam_check('t')");
      if (problems && *problems) wrong(actor->schedule, "colfam_check: %s", problems);
      sqlite3_free(problems);
      break;
    case 8:
      lock_others_out(actor, NULL);
      break;
    case 9:
      switch_journal(actor);
      break;
    default:
      close_connection(actor);
      open_connection(actor);
  }
}

static void come_and_go_round(struct actor *actor) {
  if (!run(actor, "BEGIN IMMEDIATE")) return;
  must(actor, "CREATE VIRTUAL TABLE x USING colfam(k INT PRIMARY KEY, v, memtable_bytes = 16384)");
  must(actor, "INSERT INTO x SELECT k, v FROM o");
  if (below(actor, 3) == 0) {
    must(actor, "ROLLBACK");
    return;
  }
  commit(actor);
  if (below(actor, 2)) run(actor, "INSERT INTO x(x) VALUES('flush')");
  while (!run(actor, "DROP TABLE IF EXISTS x")) steps_yield();
}

static void act(struct actor *actor, void (*round)(struct actor *), unsigned rounds) {
  open_connection(actor);
  while (rounds--) round(actor);
  close_connection(actor);
}

static void writer(void *context) {
  act(context, write_round, ROUNDS);
}
static void reader(void *context) {
  act(context, read_round, ROUNDS / 2);
}
static void keeper(void *context) {
  act(context, keep_round, ROUNDS);
}
static void comer_and_goer(void *context) {
  act(context, come_and_go_round, 2);
}

/* ---- One schedule */

/* Settings of a process: what the last schedule has left in its cache would move this one. */
static void set_process(const struct actor *actor, int threads, bool spills) {
  char *sql =
      sqlite3_mprintf("SELECT colfam_config('cache_bytes', 0), colfam_config('threads', %d),"
                      " colfam_config('cache_bytes', 1000000), colfam_config('batch_bytes', %d)",
                      threads, spills ? 4096 : 67108864);
  must(actor, sql);
  sqlite3_free(sql);
}

static void set_up(struct schedule *schedule, struct harness_random *random) {
  for (int copy = 0; copy < COPIES; copy++) {
    struct actor actor = {schedule, copy, NULL, {1}};
    open_connection(&actor);
    int threads = (int)harness_below(random, 2);
    set_process(&actor, threads, harness_below(random, 2) == 0);
    if (copy == 0 && is_wal(schedule)) must(&actor, "PRAGMA journal_mode = wal");
    if (copy == 0)
      must(&actor,
           "BEGIN; CREATE TABLE o(k INT PRIMARY KEY, v) WITHOUT ROWID;"
           "CREATE VIRTUAL TABLE t USING colfam(k INT PRIMARY KEY, v, memtable_bytes = 16384);"
           "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 40)"
           " INSERT INTO o SELECT i, i FROM n; INSERT INTO t SELECT * FROM o; COMMIT");
    close_connection(&actor);
  }
}

static void check_sound(struct actor *actor) {
  check_same(actor, "SELECT " ROWS_OF("t") " IS " ROWS_OF("o"));
  char *problems = query(actor, "SELECT * FROM colfam_check('t')");
  if (!problems || *problems) wrong(actor->schedule, "colfam_check: %s", problems);
  sqlite3_free(problems);
  char *sound = query(actor, "PRAGMA integrity_check");
  if (!sound || strcmp(sound, "ok|\n") != 0) wrong(actor->schedule, "integrity_check: %s", sound);
  sqlite3_free(sound);
}

/* What comes up after the power was cut at some call: one commit of both tables, in which work goes on. */
static void cut_power(struct schedule *schedule, const struct disk *disk, size_t from, size_t until,
                      struct harness_random *random) {
  static const enum power_kind kinds[] = {POWER_PREFIX, POWER_LOST, POWER_MIXED, POWER_MIXED};
  struct power power;
  bool entries_kept;
  size_t at = from + (size_t)harness_below(random, until - from + 1);
  power_start(&power, disk, true);
  while (power.at < at && power_step(&power)) {
  }
  struct disk *state = power_state(&power, kinds[harness_below(random, 4)], random, &entries_kept);
  power_stop(&power);
  disk_mount(state);
  struct actor actor = {schedule, 0, NULL, {1}};
  open_connection(&actor);
  char *tables = query(&actor, "SELECT count(*) FROM sqlite_schema WHERE name IN ('t', 'o')");
  if (strcmp(tables, "2|\n") == 0) {
    check_sound(&actor);
    must(&actor, "BEGIN; UPDATE t SET v = v || 'x'; UPDATE o SET v = v || 'x'; COMMIT");
    check_sound(&actor);
  } else if (strcmp(tables, "0|\n") != 0) {
    wrong(schedule, "after power was cut at %zu, %s of two tables are there", at, tables);
  }
  sqlite3_free(tables);
  close_connection(&actor);
  disk_unref(state);
}

/* Without a thread two commits prove all that waits; the second copy's, if it had something to remove, are
** the sweep's. */
static void tear_down(struct schedule *schedule, const struct disk *disk) {
  struct actor actor = {schedule, 0, NULL, {1}};
  open_connection(&actor);
  set_process(&actor, 0, false);
  check_sound(&actor);
  must(&actor, "DROP TABLE IF EXISTS x"); /* whose maker was killed */
  for (int i = 0; i < 3; i++)
    must(&actor, "INSERT OR REPLACE INTO t VALUES(1, 1); INSERT INTO t(t) VALUES('flush')");
  char *named = query(&actor, "SELECT count(*) FROM t_cffile");
  close_connection(&actor); /* a merge under way has a file that is not named yet */
  int there = 0;
  for (size_t i = 0; i < disk->entry_count; i++)
    there += strncmp(disk->entries[i].name, "db-colfam/", 10) == 0;
  if (there != atoi(named)) wrong(schedule, "%d files, named are %s", there, named);
  sqlite3_free(named);
}

static struct schedule *current;

static void go_on(bool sleeps) {
  bool counts = current->kill_in && steps_process() == 1;
  if (counts && --current->kill_in == 0) {
    current->killed = true;
    disk_kill(1);
    steps_die();
  }
  if (sleeps)
    for (int i = 0; i < 20; i++) steps_yield();
  else
    steps_point();
  disk_set_process(steps_process());
}

/* The second process's, for one that will be killed, is never used again. */
static void make_copy(int copy) {
  static int number;
  snprintf(copies[copy], sizeof copies[copy], "%s/copy%d.so", harness_memory_dir(), number++);
  char *command = sqlite3_mprintf("cp '%s' '%s'", original, copies[copy]);
  ck_assert_int_eq(system(command), 0);
  sqlite3_free(command);
}

static void choose_schedule(struct schedule *schedule, struct harness_random *random,
                            uint64_t seed) {
  static const char *const rollback[] = {"delete", "delete", "truncate", "persist"};
  *schedule = (struct schedule){.seed = seed,
                                .journal = seed % 2 ? rollback[harness_below(random, 4)] : "wal",
                                .copies = 1 + (int)harness_below(random, COPIES),
                                .checkpoint_pages = harness_below(random, 2) ? 10 : 1000};
  schedule->kills = schedule->copies == 2 && harness_below(random, 2) == 0;
  schedule->cuts = harness_below(random, 2);
  if (schedule->kills) schedule->kill_in = 1 + (unsigned)harness_below(random, 1500);
}

static void add_actors(struct schedule *schedule, struct harness_random *random,
                       struct actor *actors) {
  static const struct {
    const char *title;
    void (*run)(void *);
  } roles[ACTORS] = {{"writer 1", writer}, {"writer 2", writer},
                     {"keeper", keeper},   {"reader 1", reader},
                     {"reader 2", reader}, {"comer and goer", comer_and_goer}};
  unsigned count = 3 + (unsigned)harness_below(random, ACTORS - 2);
  for (unsigned i = 0; i < count; i++) {
    actors[i] = (struct actor){schedule, (int)(i % (unsigned)schedule->copies), NULL, {0}};
    harness_seed(&actors[i].random, schedule->seed * 16 + i);
    steps_add(roles[i].title, actors[i].copy, roles[i].run, &actors[i]);
  }
}

static void run_schedule(struct schedule *schedule, uint64_t seed) {
  struct harness_random random;
  struct actor *actors = calloc(ACTORS, sizeof *actors);
  harness_seed(&random, seed);
  struct disk *disk = disk_new(seed);
  disk_mount(disk);
  sqlite3_randomness(0, NULL);
  choose_schedule(schedule, &random, seed);
  set_up(schedule, &random);
  size_t begin = disk->op_count;
  steps_begin(seed);
  add_actors(schedule, &random, actors);
  if (schedule->kill_in) steps_keep_mutexes();
  current = schedule;
  disk_on_call(go_on);
  steps_run();
  disk_on_call(NULL);
  disk_set_process(0);
  size_t end = disk->op_count;
  tear_down(schedule, disk);
  if (schedule->cuts) cut_power(schedule, disk, begin, end, &random);
  disk_unref(disk);
  if (schedule->killed)
    make_copy(1); /* what the dead have is theirs */
  else
    free(actors);
}

/* ---- All */

struct totals {
  unsigned long schedules, statements, commits, snapshots, busy, changes, killed;
};

static void count(struct totals *totals, const struct schedule *schedule) {
  totals->schedules++;
  totals->statements += schedule->statements;
  totals->commits += schedule->commits;
  totals->snapshots += schedule->snapshots;
  totals->busy += schedule->busy;
  totals->changes += steps_changes();
  totals->killed += schedule->killed;
}

static void prepare(void) {
  struct schedule schedule;
  const char *so = getenv("COLFAM_TEST_SO");
  snprintf(original, sizeof original, "%s", so ? so : COLFAM_TEST_SO);
  for (int i = 0; i < COPIES; i++) make_copy(i);
  disk_register_vfs();
  run_schedule(&schedule, 0); /* so that nothing is done for the first time later */
}

START_TEST(snapshots_hold_in_every_order) {
  struct totals totals = {0};
  struct schedule schedule;
  const char *wanted = getenv("COLFAM_SCHEDULES");
  uint64_t n = (wanted ? strtoull(wanted, NULL, 10) : SCHEDULES) / SLICES;
  prepare();
  if (getenv("COLFAM_SEED")) {
    run_schedule(&schedule, harness_seed_env(0));
    return;
  }
  for (uint64_t i = 0; i < n; i++) {
    run_schedule(&schedule, 1 + i * SLICES + (unsigned)_i);
    count(&totals, &schedule);
  }
  printf(
      "schedules, slice %d: %lu, %lu changes of thread, %lu statements, %lu commits, %lu snapshots,"
      " %lu busy, %lu killed\n",
      _i, totals.schedules, totals.changes, totals.statements, totals.commits, totals.snapshots,
      totals.busy, totals.killed);
}
END_TEST

START_TEST(seed_replays_its_schedule) {
  struct schedule schedule;
  prepare();
  for (uint64_t seed = 1; seed <= 8; seed++) {
    run_schedule(&schedule, seed);
    uint64_t trace = steps_trace(), changes = steps_changes();
    run_schedule(&schedule, seed + 1);
    run_schedule(&schedule, seed);
    ck_assert_msg(steps_trace() == trace && steps_changes() == changes,
                  "seed %llu changed %llu times, then %llu times", (unsigned long long)seed,
                  (unsigned long long)changes, (unsigned long long)steps_changes());
  }
}
END_TEST

int main(void) {
  Suite *suite = suite_create("schedules");
  TCase *tc = tcase_create("schedules");
  tcase_set_timeout(tc, 3000);
  tcase_add_test(tc, seed_replays_its_schedule);
  tcase_add_loop_test(tc, snapshots_hold_in_every_order, 0, SLICES);
  suite_add_tcase(suite, tc);
  return harness_run(suite);
}

/* ---- What extension and SQLite call here instead of their own */

#define SEEN_BY_ALL __attribute__((visibility("default")))

SEEN_BY_ALL int pthread_mutex_lock(pthread_mutex_t *mutex) {
  return steps_mutex_lock(mutex);
}
SEEN_BY_ALL int pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex) {
  return steps_cond_wait(cond, mutex);
}
SEEN_BY_ALL int pthread_cond_broadcast(pthread_cond_t *cond) {
  return steps_cond_broadcast(cond);
}
SEEN_BY_ALL int pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                               void *(*run_thread)(void *), void *context) {
  return steps_create(thread, attributes, run_thread, context);
}
SEEN_BY_ALL int pthread_join(pthread_t thread, void **result) {
  return steps_join(thread, result);
}
