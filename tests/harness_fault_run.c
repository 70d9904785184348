/* See harness_fault_run.h.
**
** A scenario is first run without a fault: what each statement returns and what the tables are after it is
** noted. Then a run a fault. It goes on to the first statement that fails, and the fault is cleared. The code
** must be one of the fault's; the tables must be as they were before that statement, or, when a commit
** failed, as they would be after it; rows that it returned before must be right. Then the rest is done again,
** in one of three ways: in the same transaction where there is one still; after ROLLBACK; or by another
** process, that finds the disk as it is. At the end all is as in the run without a fault, also for a new
** connection; a few commits later only files that are named are there; and memory and open files are those
** from before. */
#include "harness_fault_run.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "colfam.h"
#include "engine/mem.h"
#include "harness_power.h"
#include "harness_sql.h"

enum { ROWS_MAX = 400, SETTLING_COMMITS = 3 };

enum recovery { RECOVER_ON, RECOVER_ROLLBACK, RECOVER_PROCESS, RECOVERIES };

/* What a statement gives when nothing fails. */
struct outcome {
  uint64_t rows[ROWS_MAX]; /* digest of all rows up to this one */
  int row_count;
  uint64_t state; /* the tables after it */
  bool committed; /* no transaction is open after it */
};

struct run {
  const struct scenario *scenario;
  const struct variant *variant;
  struct disk *fixture;
  struct disk *disk;
  sqlite3 *db;
  int steps;
  char *texts[SCENARIO_STEPS]; /* of the steps: nothing is allocated for them under faults */
  char message[500];           /* of the step that failed last */
  uint64_t start;              /* state */
  struct outcome outcomes[SCENARIO_STEPS];
  bool recording; /* outcomes are noted, not compared */
  int64_t blocks;
  sqlite3_int64 bytes;
  char where[300];
};

static void wrong(const struct run *run, const char *format, ...) {
  char text[1200];
  va_list list;
  va_start(list, format);
  vsnprintf(text, sizeof text, format, list);
  va_end(list);
  ck_abort_msg("%s: %s", run->where, text);
}

/* ---- The disk and connections */

static struct disk *copy_of(const struct disk *disk) {
  struct disk *copy = disk_new(1);
  for (size_t i = 0; i < disk->entry_count; i++)
    disk_add_base(copy, disk->entries[i].name, disk->entries[i].file->is_dir,
                  disk->entries[i].file->image);
  return copy;
}

static void mount(struct run *run, struct disk *disk) {
  disk_unref(run->disk);
  run->disk = disk;
  disk_mount(disk);
}

static const char *type_of_keys(sqlite3_context *context) {
  return ((const struct variant *)sqlite3_user_data(context))->key;
}

static void key_function(sqlite3_context *context, int argc, sqlite3_value **argv) {
  (void)argc;
  int i = sqlite3_value_int(argv[0]);
  const char *type = type_of_keys(context);
  char text[40];
  snprintf(text, sizeof text, "key-%06d", i);
  if (strcmp(type, "INT") == 0)
    sqlite3_result_int(context, i);
  else if (strcmp(type, "REAL") == 0)
    sqlite3_result_double(context, i + 0.5);
  else if (strcmp(type, "BLOB") == 0)
    sqlite3_result_blob(context, text, (int)strlen(text), SQLITE_TRANSIENT);
  else
    sqlite3_result_text(context, text, -1, SQLITE_TRANSIENT);
}

static void path_function(sqlite3_context *context, int argc, sqlite3_value **argv) {
  (void)argc;
  const char *name = (const char *)sqlite3_value_text(argv[0]);
  sqlite3_result_text(context, disk_path(name ? name : ""), -1, SQLITE_TRANSIENT);
}

/* Codes below are those of the first call that failed. */
static int exec_quiet(sqlite3 *db, int rc, const char *sql) {
  return rc == SQLITE_OK && sql ? sqlite3_exec(db, sql, NULL, NULL, NULL) : rc;
}

static int open_quiet(struct run *run) {
  void *context = (void *)(uintptr_t)run->variant;
  sqlite3 *db = NULL;
  int flags = SQLITE_UTF8 | SQLITE_DETERMINISTIC;
  int rc = sqlite3_open(disk_path("db"), &db);
  run->db = db;
  if (rc == SQLITE_OK) sqlite3_extended_result_codes(db, 1);
  if (rc == SQLITE_OK) rc = sql_load(db, NULL);
  if (rc == SQLITE_OK)
    rc = sqlite3_create_function(db, "key", 1, flags, context, key_function, NULL, NULL);
  if (rc == SQLITE_OK)
    rc = sqlite3_create_function(db, "path", 1, flags, context, path_function, NULL, NULL);
  if (run->scenario->attaches) rc = exec_quiet(db, rc, "ATTACH path('aux.db') AS x");
  return exec_quiet(db, rc, run->variant->pragmas);
}

static void open_database(struct run *run) {
  int rc = open_quiet(run);
  if (rc != SQLITE_OK) wrong(run, "cannot open: code %d: %s", rc, sqlite3_errmsg(run->db));
}

static void close_database(struct run *run) {
  int rc = sqlite3_close(run->db);
  if (rc != SQLITE_OK) wrong(run, "cannot close: %s", sqlite3_errmsg(run->db));
  run->db = NULL;
}

static void must(const struct run *run, int rc, const char *sql) {
  if (rc != SQLITE_OK) wrong(run, "%s: code %d: %s", sql, rc, sqlite3_errmsg(run->db));
}

static void exec(const struct run *run, const char *sql) {
  must(run, exec_quiet(run->db, SQLITE_OK, sql), sql);
}

/* ---- Texts */

static char *replaced(char *text, const char *what, const char *with) {
  char *at;
  while ((at = strstr(text, what))) {
    char *longer = sqlite3_mprintf("%.*s%s%s", (int)(at - text), text, with, at + strlen(what));
    sqlite3_free(text);
    text = longer;
  }
  return text;
}

static char *text_of(const struct run *run, const char *template) {
  char *text = sqlite3_mprintf("%s", template);
  return replaced(replaced(text, "$KEY", run->variant->key), "$WITH", run->variant->with);
}

static void exec_text(const struct run *run, const char *template) {
  char *text = text_of(run, template ? template : "");
  exec(run, text);
  sqlite3_free(text);
}

/* ---- What the tables are */

/* Asks for no conversion, which would need memory. */
static uint64_t digest_row(sqlite3_stmt *statement, uint64_t digest) {
  for (int i = 0; i < sqlite3_column_count(statement); i++) {
    int type = sqlite3_column_type(statement, i);
    sqlite3_int64 integer = type == SQLITE_INTEGER ? sqlite3_column_int64(statement, i) : type;
    double real = type == SQLITE_FLOAT ? sqlite3_column_double(statement, i) : 0;
    digest = power_mix(power_mix(digest, &integer, sizeof integer), &real, sizeof real);
    if (type == SQLITE_TEXT || type == SQLITE_BLOB)
      digest = power_mix(digest, sqlite3_column_blob(statement, i),
                         (size_t)sqlite3_column_bytes(statement, i));
  }
  return digest;
}

static uint64_t digest_of(const struct run *run, const char *sql) {
  sqlite3_stmt *statement;
  uint64_t digest = 0xcbf29ce484222325u;
  must(run, sqlite3_prepare_v2(run->db, sql, -1, &statement, NULL), sql);
  while (sqlite3_step(statement) == SQLITE_ROW) digest = digest_row(statement, digest + 1);
  must(run, sqlite3_finalize(statement), sql);
  return digest;
}

static bool has_table(const struct run *run, const char *schema, const char *name) {
  char sql[120];
  snprintf(sql, sizeof sql, "SELECT 1 FROM %s.sqlite_schema WHERE name = '%s'", schema, name);
  return digest_of(run, sql) != 0xcbf29ce484222325u;
}

/* 0 when it is not there. */
static uint64_t digest_table(const struct run *run, const char *schema, const char *name) {
  char sql[120];
  if (!has_table(run, schema, name)) return 0;
  snprintf(sql, sizeof sql, "SELECT k, v FROM %s.%s ORDER BY k", schema, name);
  return digest_of(run, sql);
}

/* Outside transactions a colfam table and its twin must be the same. */
static uint64_t state_of(const struct run *run) {
  static const char *const pairs[][2] = {{"t", "o"}, {"n", "m"}};
  uint64_t state = 7;
  for (int i = 0; i < 2 * (1 + run->scenario->attaches); i++) {
    const char *schema = i < 2 ? "main" : "x", *const *pair = pairs[i % 2];
    uint64_t both[2];
    for (int j = 0; j < 2; j++) both[j] = digest_table(run, schema, pair[j]);
    if (both[0] != both[1] && sqlite3_get_autocommit(run->db))
      wrong(run, "%s.%s and its twin are not the same", schema, pair[0]);
    state = power_mix(state, both, sizeof both);
  }
  return state;
}

/* ---- Steps */

struct rows {
  uint64_t digest;
  int count;
};

/* What may say more when something fails, or never the same. */
static bool is_report(const char *sql) {
  return strncmp(sql, "SELECT * FROM colfam_", 21) == 0 || strncmp(sql, "PRAGMA", 6) == 0;
}

static void note_rows(struct run *run, int step, const struct rows *rows) {
  struct outcome *outcome = &run->outcomes[step];
  if (is_report(run->texts[step])) return;
  if (rows->count > ROWS_MAX) wrong(run, "step %d: too many rows", step);
  if (run->recording) {
    outcome->rows[rows->count - 1] = rows->digest;
    outcome->row_count = rows->count;
  } else if (rows->count > outcome->row_count || outcome->rows[rows->count - 1] != rows->digest) {
    wrong(run, "step %d: row %d is wrong", step, rows->count);
  }
}

static int exec_sql(struct run *run, int step, const char *sql, struct rows *rows) {
  sqlite3_stmt *statement;
  int rc = sqlite3_prepare_v2(run->db, sql, -1, &statement, NULL);
  while (rc == SQLITE_OK && (rc = sqlite3_step(statement)) == SQLITE_ROW) {
    rows->digest = digest_row(statement, rows->digest + 1);
    rows->count++;
    note_rows(run, step, rows);
    rc = SQLITE_OK;
  }
  int ended = sqlite3_finalize(statement);
  return ended != SQLITE_OK ? ended : rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static const struct colfam_api *api_of(sqlite3 *db, int *rc) {
  const struct colfam_api *api = NULL;
  sqlite3_stmt *statement;
  *rc = sqlite3_prepare_v2(db, "SELECT colfam_api(?1)", -1, &statement, NULL);
  if (*rc != SQLITE_OK) return NULL;
  sqlite3_bind_pointer(statement, 1, (void *)&api, COLFAM_API_POINTER, NULL);
  sqlite3_step(statement);
  *rc = sqlite3_finalize(statement);
  return api;
}

/* Keys as key(i) gives them, which a statement keeps. */
static int key_values(sqlite3_stmt *statement, struct colfam_value *values) {
  int count = sqlite3_column_count(statement);
  for (int i = 0; i < count; i++)
    values[i] = (struct colfam_value){.type = sqlite3_column_type(statement, i),
                                      .integer = sqlite3_column_int64(statement, i),
                                      .real = sqlite3_column_double(statement, i),
                                      .bytes = sqlite3_column_blob(statement, i),
                                      .size = sqlite3_column_bytes(statement, i)};
  return count;
}

static int read_values(struct run *run, int step, const struct colfam_api *api,
                       struct colfam_result *result, int count, struct rows *rows) {
  struct colfam_value value;
  int rc = SQLITE_OK;
  for (int i = 0; rc == SQLITE_OK && i < count; i++) {
    rows->count++;
    rows->digest++;
    if (api->found(result, 0, i)) {
      rc = api->column(result, 0, i, 1, &value);
      if (rc == SQLITE_OK) rows->digest = power_mix(rows->digest, value.bytes, (size_t)value.size);
    }
    if (rc == SQLITE_OK) note_rows(run, step, rows);
  }
  return rc;
}

static int call_api(struct run *run, int step, struct rows *rows, char **message) {
  struct colfam_value values[8];
  struct colfam_result *result = NULL;
  unsigned char there[8];
  int rc;
  const struct colfam_api *api = api_of(run->db, &rc);
  sqlite3_stmt *keys = NULL;
  if (rc == SQLITE_OK)
    rc = sqlite3_prepare_v2(run->db, "SELECT key(2), key(30), key(7), key(4444), key(59)", -1,
                            &keys, NULL);
  if (rc == SQLITE_OK && sqlite3_step(keys) == SQLITE_ROW) {
    int count = key_values(keys, values);
    struct colfam_request request = {"t", {values, count, 1}};
    rc = api->multi_get(api, &request, 1, &result, message);
    if (rc == SQLITE_OK) rc = read_values(run, step, api, result, count, rows);
    api->free_result(result);
    if (rc == SQLITE_OK) rc = api->exists(api, &request, 1, there, message);
    for (int i = 0; rc == SQLITE_OK && i < count; i++) {
      rows->digest = power_mix(rows->digest + 1, &there[i], 1);
      rows->count++;
      note_rows(run, step, rows);
    }
  }
  int ended = sqlite3_finalize(keys);
  return rc != SQLITE_OK ? rc : ended;
}

/* What was said about an error. */
static void keep_message(struct run *run, const char *message) {
  snprintf(run->message, sizeof run->message, "%s", message ? message : "");
}

static int exec_step(struct run *run, int step) {
  struct rows rows = {0};
  char *message = NULL;
  keep_message(run, "out of memory");
  bool is_api = strcmp(run->texts[step], "api") == 0;
  int rc =
      is_api ? call_api(run, step, &rows, &message) : exec_sql(run, step, run->texts[step], &rows);
  if (rc != SQLITE_OK && (message || !is_api || rc != SQLITE_NOMEM))
    keep_message(run, message ? message : sqlite3_errmsg(run->db));
  sqlite3_free(message);
  if (rc == SQLITE_OK && !is_report(run->texts[step]) &&
      rows.count != run->outcomes[step].row_count)
    wrong(run, "step %d: %d rows instead of %d", step, rows.count, run->outcomes[step].row_count);
  return rc;
}

/* One that must work. */
static void do_step(struct run *run, int step) {
  int rc = exec_step(run, step);
  if (rc != SQLITE_OK) wrong(run, "again: %.200s: code %d: %s", run->texts[step], rc, run->message);
}

/* ---- The end of each run */

static const char *const families[] = {"t", "n", "u"};
enum { FAMILIES = sizeof families / sizeof *families };

static const char *schema_of(int i) {
  return i < FAMILIES ? "main" : "x";
}

static void no_rows(const struct run *run, const char *sql) {
  sqlite3_stmt *statement;
  must(run, sqlite3_prepare_v2(run->db, sql, -1, &statement, NULL), sql);
  if (sqlite3_step(statement) == SQLITE_ROW)
    wrong(run, "%s: %s %s %s %s", sql, sqlite3_column_text(statement, 0),
          sqlite3_column_text(statement, 1), sqlite3_column_text(statement, 2),
          sqlite3_column_text(statement, 3));
  must(run, sqlite3_finalize(statement), sql);
}

static int family_count(const struct run *run) {
  return run->scenario->attaches ? 2 * FAMILIES : FAMILIES;
}

static void check_tables(const struct run *run) {
  char sql[100];
  for (int i = 0; i < family_count(run); i++) {
    const char *name = families[i % FAMILIES];
    if (!has_table(run, schema_of(i), name)) continue;
    snprintf(sql, sizeof sql, "SELECT * FROM colfam_check('%s.%s')", schema_of(i), name);
    no_rows(run, sql);
  }
}

/* Commits after which nothing waits to be removed. */
static void settle(const struct run *run) {
  static const char *const plain[] = {"o", "m"};
  char sql[300];
  for (int i = 0; i < SETTLING_COMMITS * family_count(run); i++) {
    int at = i % family_count(run), which = at % FAMILIES;
    const char *schema = schema_of(at), *name = families[which];
    if (!has_table(run, schema, name)) continue;
    if (which == 2)
      snprintf(sql, sizeof sql, "INSERT OR REPLACE INTO %s.u VALUES(1, %d)", schema, i);
    else
      snprintf(sql, sizeof sql,
               "BEGIN; INSERT OR REPLACE INTO %s.%s VALUES(key(9999), %d);"
               "INSERT OR REPLACE INTO %s.%s VALUES(key(9999), %d); COMMIT",
               schema, name, i, schema, plain[which], i);
    exec(run, sql);
  }
}

static int count_named(const struct run *run, const char *schema, const char *database) {
  char sql[160], name[160];
  int count = 0;
  for (int i = 0; i < FAMILIES; i++) {
    sqlite3_stmt *statement;
    if (!has_table(run, schema, families[i])) continue;
    snprintf(sql, sizeof sql, "SELECT printf('%s-colfam/%%016x.sst', id) FROM %s.%s_cffile",
             database, schema, families[i]);
    must(run, sqlite3_prepare_v2(run->db, sql, -1, &statement, NULL), sql);
    while (sqlite3_step(statement) == SQLITE_ROW) {
      snprintf(name, sizeof name, "%s", sqlite3_column_text(statement, 0));
      if (!disk_find(run->disk, name)) wrong(run, "%s is not there", name);
      count++;
    }
    must(run, sqlite3_finalize(statement), sql);
  }
  return count;
}

/* As many files in the directory as are named, each of which is there. */
static void check_files(const struct run *run, const char *schema, const char *database) {
  char dir[40];
  int named = count_named(run, schema, database), found = 0;
  snprintf(dir, sizeof dir, "%s-colfam/", database);
  for (size_t i = 0; i < run->disk->entry_count; i++)
    found += strncmp(run->disk->entries[i].name, dir, strlen(dir)) == 0;
  if (found != named) wrong(run, "%d files in %s, %d are named", found, dir, named);
}

static void check_no_leak(struct run *run, bool compare) {
  int64_t blocks = kv_mem_live_blocks(), handles = faults_open_handles();
  sqlite3_int64 bytes = sqlite3_memory_used();
  if (handles) wrong(run, "%" PRId64 " files or locks are left open", handles);
  if (compare && blocks != run->blocks)
    wrong(run, "%" PRId64 " blocks of the engine, %" PRId64 " before", blocks, run->blocks);
  if (compare && bytes != run->bytes)
    wrong(run, "%lld bytes of SQLite's memory, %lld before", bytes, run->bytes);
  run->blocks = blocks;
  run->bytes = bytes;
}

static void check_state(const struct run *run, uint64_t expected, const char *when) {
  if (state_of(run) != expected) wrong(run, "%s the tables have other rows", when);
}

static uint64_t final_state(const struct run *run) {
  return run->outcomes[run->steps - 1].state;
}

/* For a new connection, and some commits later. */
static void check_again(struct run *run) {
  open_database(run);
  check_state(run, final_state(run), "opened again");
  no_rows(run, "SELECT * FROM pragma_integrity_check WHERE integrity_check <> 'ok'");
  settle(run);
  check_tables(run);
  check_files(run, "main", "db");
  if (run->scenario->attaches) check_files(run, "x", "aux.db");
  close_database(run);
}

/* Without memory nothing is written that would not be written with it: every third run is enough to look at
** again. A store of another run may have been left with files that wait to be removed. */
static void check_end(struct run *run, enum fault_kind kind, enum recovery recovery) {
  check_state(run, final_state(run), "in the end");
  check_tables(run);
  close_database(run);
  bool again = kind > FAULT_ENGINE_MEMORY || recovery == RECOVER_ON;
  if (again) check_again(run);
  check_no_leak(run, again && recovery != RECOVER_PROCESS);
}

/* ---- A run with a fault */

static bool is_right_code(enum fault_kind kind, int rc) {
  int primary = rc & 0xff;
  switch (kind) {
    case FAULT_SQLITE_MEMORY:
    case FAULT_ENGINE_MEMORY:
      return primary == SQLITE_NOMEM || rc == SQLITE_IOERR_NOMEM;
    case FAULT_PAGER_OPEN:
      return primary == SQLITE_CANTOPEN;
    case FAULT_PAGER_FULL:
    case FAULT_FILES_FULL:
      return primary == SQLITE_FULL;
    case FAULT_FILES_SHORT:
    case FAULT_FILES_FLIP:
      return rc == SQLITE_CORRUPT_VTAB;
    case FAULT_PAGER_IO:
      return primary == SQLITE_IOERR || primary == SQLITE_CANTOPEN;
    default:
      return primary == SQLITE_IOERR;
  }
}

/* What cannot be removed when the disk is gone stays, and the next call names it. */
static void remove_half_copy(const struct run *run) {
  for (size_t i = run->disk->entry_count; i-- > 0;)
    if (strncmp(run->disk->entries[i].name, "copy.db", 7) == 0)
      disk_remove(run->disk, run->disk->entries[i].name);
}

static void judge_error(const struct run *run, enum fault_kind kind, int rc) {
  const char *message = run->message;
  if (!is_right_code(kind, rc)) wrong(run, "code %d: %s", rc, message);
  bool is_ours = kind >= FAULT_FILES_IO;
  if (!*message || strcmp(message, "not an error") == 0 ||
      (is_ours && strcmp(message, sqlite3_errstr(rc)) == 0))
    wrong(run, "code %d with the text %s", rc, message);
}

/* The steps of the transaction that step `at` is in begin behind this one. */
static int last_commit(const struct run *run, int at) {
  while (at > 0 && !run->outcomes[at - 1].committed) at--;
  return at;
}

static uint64_t state_before(const struct run *run, int at) {
  return at ? run->outcomes[at - 1].state : run->start;
}

static void become_another_process(struct run *run) {
  struct disk *left = copy_of(run->disk);
  if (run->db) close_database(run);
  mount(run, left);
  open_database(run);
}

/* The tables after step `at` has failed, and where to go on. */
static int resume_at(struct run *run, int at, enum recovery recovery) {
  int begin = last_commit(run, at);
  if (recovery == RECOVER_PROCESS) become_another_process(run);
  if (recovery == RECOVER_ROLLBACK && !sqlite3_get_autocommit(run->db)) exec(run, "ROLLBACK");
  uint64_t state = state_of(run);
  bool inside = !sqlite3_get_autocommit(run->db);
  if (state == state_before(run, inside ? at : begin)) return inside ? at : begin;
  if (inside || at == run->steps || !run->outcomes[at].committed ||
      state != run->outcomes[at].state)
    wrong(run, "the tables are neither as before nor as after step %d", at);
  return at + 1;
}

/* The rest. A transaction that could not record a savepoint for lack of memory can only be rolled back. */
static void go_on(struct run *run, int at, enum fault_kind kind) {
  bool may_be_lost = kind <= FAULT_ENGINE_MEMORY && !sqlite3_get_autocommit(run->db);
  while (at < run->steps) {
    int rc = may_be_lost ? exec_step(run, at) : SQLITE_OK;
    if (!may_be_lost) do_step(run, at);
    if (rc != SQLITE_OK && !is_right_code(kind, rc)) wrong(run, "step %d again: %d", at, rc);
    if (rc == SQLITE_OK) {
      at++;
      continue;
    }
    if (!sqlite3_get_autocommit(run->db)) exec(run, "ROLLBACK");
    may_be_lost = false;
    at = last_commit(run, at);
  }
}

/* Steps up to the first that fails; *rc is its code. */
static int do_steps(struct run *run, int *rc) {
  int at = 0;
  *rc = SQLITE_OK;
  while (at < run->steps) {
    *rc = exec_step(run, at);
    if (*rc != SQLITE_OK) break;
    at++;
  }
  return at;
}

static void prepare(struct run *run) {
  mount(run, copy_of(run->fixture));
  run->db = NULL;
  if (!run->scenario->prepare) return;
  open_database(run);
  exec_text(run, run->scenario->prepare);
}

/* Whether anything failed: if not there are fewer than n places. */
static bool run_with_fault(struct run *run, enum fault_kind kind, int n, bool sticky,
                           enum recovery recovery) {
  int at = 0, rc = SQLITE_OK;
  snprintf(run->where, sizeof run->where, "%s (%s %s, %s): %s, number %d%s, recovery %d",
           run->scenario->name, run->variant->journal, run->variant->key, run->variant->with,
           fault_name(kind), n, sticky ? " and all later" : "", (int)recovery);
  prepare(run);
  faults_arm(kind, n, sticky);
  if (!run->db) rc = open_quiet(run);
  bool opened = rc == SQLITE_OK;
  if (opened)
    at = do_steps(run, &rc);
  else
    keep_message(run, "cannot open");
  bool struck = faults_disarm();
  if (!struck && rc != SQLITE_OK) wrong(run, "code %d for nothing: %s", rc, run->message);
  if (rc != SQLITE_OK) {
    size_t length = strlen(run->where);
    snprintf(run->where + length, sizeof run->where - length, ", step %d", at);
    judge_error(run, kind, rc);
    if (!opened) {
      close_database(run);
      open_database(run);
    }
    int next = resume_at(run, at, recovery);
    if (sticky) remove_half_copy(run);
    go_on(run, next, kind);
  }
  check_end(run, kind, recovery);
  return struck;
}

static void run_everywhere(struct run *run, enum fault_kind kind, struct fault_totals *totals) {
  bool memory = kind <= FAULT_ENGINE_MEMORY, struck = true;
  unsigned long long *runs = memory ? &totals->memory : &totals->io;
  for (int n = 1; struck; n++) {
    for (int i = 0; struck && i < 2; i++) {
      for (int recovery = 0; struck && recovery < RECOVERIES; recovery++) {
        if (memory && recovery != n % RECOVERIES) continue;
        struck = run_with_fault(run, kind, n, i, (enum recovery)recovery);
        *runs += struck;
      }
    }
  }
}

/* ---- The run without a fault */

static void make_fixture(struct run *run) {
  const struct scenario *scenario = run->scenario;
  char text[80];
  mount(run, disk_new(1));
  sqlite3_randomness(0, NULL);
  open_database(run);
  snprintf(text, sizeof text, "PRAGMA main.journal_mode = %s", run->variant->journal);
  exec(run, text);
  snprintf(text, sizeof text, "PRAGMA x.journal_mode = %s", run->variant->journal);
  if (scenario->attaches) exec(run, text);
  exec_text(run, scenario->setup);
  exec_text(run, scenario->crash);
  if (scenario->crash) run->fixture = copy_of(run->disk);
  close_database(run);
  if (!scenario->crash) run->fixture = copy_of(run->disk);
}

static void record(struct run *run, struct fault_totals *totals) {
  snprintf(run->where, sizeof run->where, "%s (%s) without a fault", run->scenario->name,
           run->variant->journal);
  for (; run->steps < SCENARIO_STEPS && run->scenario->steps[run->steps]; run->steps++)
    run->texts[run->steps] = text_of(run, run->scenario->steps[run->steps]);
  make_fixture(run);
  prepare(run);
  if (!run->db) open_database(run);
  run->start = state_of(run);
  run->recording = true;
  for (int i = 0; i < run->steps; i++) {
    faults_operations();
    faults_allocations();
    do_step(run, i);
    totals->operations += faults_operations();
    totals->allocations += faults_allocations();
    run->outcomes[i].committed = sqlite3_get_autocommit(run->db);
    run->outcomes[i].state = state_of(run);
  }
  run->recording = false;
  check_end(run, FAULT_KINDS, RECOVER_PROCESS);
}

void fault_run(const struct scenario *scenario, const struct variant *variant,
               struct fault_totals *totals) {
  static struct run run;
  run = (struct run){.scenario = scenario, .variant = variant};
  record(&run, totals);
  for (int kind = 0; kind < FAULT_KINDS; kind++)
    run_everywhere(&run, (enum fault_kind)kind, totals);
  for (int i = 0; i < run.steps; i++) sqlite3_free(run.texts[i]);
  disk_unref(run.fixture);
  mount(&run, NULL);
}
