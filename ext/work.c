/* The module behind every table-valued function that works for long (work.h). xFilter and xNext do a slice of
** the work, give its row and return, so that SQLite comes to ask for interrupts and progress handlers; newer
** versions are asked between two pieces too. A slice ends after ROW_US, with a change of phase, or with the
** work. The state lives from xFilter to the step that finishes or fails, or to the cursor's end.
** Thread rule: the connection's. */
#include "work.h"

#include <string.h>

#include "engine/kv.h"
#include "error.h"
#include "newer.h"
#include "tvf.h"

#define ROW_US 100000

enum {
  COLUMN_PHASE,
  COLUMN_DONE,
  COLUMN_TOTAL,
  COLUMN_PERCENT,
  COLUMN_SECONDS,
  COLUMN_ARGUMENT,
  COLUMN_OPTION
};

/* What a module is registered with. */
struct work_module {
  struct colfam_conn *conn;
  const struct colfam_work *work;
};

struct work_vtab {
  sqlite3_vtab base; /* first: SQLite's */
  const struct work_module *module;
};

struct work_cursor {
  sqlite3_vtab_cursor base; /* first: SQLite's */
  char *argument;
  char *option; /* NULL when it was left out */
  void *state;  /* NULL when not begun, and once the work has ended */
  struct colfam_progress progress;
  uint64_t begun_us;
  uint64_t row_us; /* when the row was made */
  sqlite3_int64 row;
  bool eof;
};

static int work_connect(sqlite3 *db, void *aux, int argc, const char *const *argv,
                        sqlite3_vtab **vtab, char **message) {
  (void)argc, (void)argv, (void)message;
  const struct work_module *module = aux;
  const char *option = module->work->option;
  char *sql = sqlite3_mprintf("CREATE TABLE x(phase TEXT, done INTEGER, total INTEGER,"
                              " percent REAL, seconds REAL, %s TEXT HIDDEN%s%s%s)",
                              module->work->argument, option ? ", " : "", option ? option : "",
                              option ? " TEXT HIDDEN" : "");
  if (!sql) return SQLITE_NOMEM;
  int rc = sqlite3_declare_vtab(db, sql);
  sqlite3_free(sql);
  if (rc) return rc;
  if (module->work->direct_only) sqlite3_vtab_config(db, SQLITE_VTAB_DIRECTONLY);
  struct work_vtab *made = sqlite3_malloc64(sizeof *made);
  if (!made) return SQLITE_NOMEM;
  memset(made, 0, sizeof *made);
  made->module = module;
  *vtab = &made->base;
  return SQLITE_OK;
}

static int work_disconnect(sqlite3_vtab *vtab) {
  sqlite3_free(vtab);
  return SQLITE_OK;
}

static int work_best_index(sqlite3_vtab *vtab, sqlite3_index_info *info) {
  const struct colfam_work *work = ((struct work_vtab *)vtab)->module->work;
  info->estimatedRows = 100;
  info->estimatedCost = 1e6;
  int rc =
      colfam_tvf_take_argument(info, COLUMN_ARGUMENT, work->name, work->wanted, &vtab->zErrMsg);
  return rc == SQLITE_OK ? colfam_tvf_take_option(info, COLUMN_OPTION) : rc;
}

static int work_open(sqlite3_vtab *vtab, sqlite3_vtab_cursor **cursor) {
  (void)vtab;
  struct work_cursor *made = sqlite3_malloc64(sizeof *made);
  if (!made) return SQLITE_NOMEM;
  memset(made, 0, sizeof *made);
  *cursor = &made->base;
  return SQLITE_OK;
}

static const struct work_module *module_of(const struct work_cursor *cursor) {
  return ((const struct work_vtab *)cursor->base.pVtab)->module;
}

static void end_work(struct work_cursor *cursor) {
  if (cursor->state) module_of(cursor)->work->end(cursor->state);
  cursor->state = NULL;
}

static void cursor_clear(struct work_cursor *cursor) {
  end_work(cursor);
  sqlite3_free(cursor->argument);
  sqlite3_free(cursor->option);
  cursor->argument = cursor->option = NULL;
  cursor->progress = (struct colfam_progress){0};
  cursor->row = 0;
  cursor->eof = false;
}

static int work_close(sqlite3_vtab_cursor *base) {
  struct work_cursor *cursor = (struct work_cursor *)base;
  cursor_clear(cursor);
  sqlite3_free(cursor);
  return SQLITE_OK;
}

static uint64_t now_us(void) {
  return kv_env_now_us(kv_env_posix());
}

static bool phase_is(const struct work_cursor *cursor, const char *phase) {
  const char *now = cursor->progress.phase;
  return now && phase ? strcmp(now, phase) == 0 : now == phase;
}

/* Ends the statement with the message, which is taken over. */
static int work_fail(struct work_cursor *cursor, int rc, char *message) {
  end_work(cursor);
  if (message) {
    sqlite3_free(cursor->base.pVtab->zErrMsg);
    cursor->base.pVtab->zErrMsg = message;
  }
  return rc;
}

/* Works until there is a row to show. */
static int work_slice(struct work_cursor *cursor) {
  const struct work_module *module = module_of(cursor);
  const char *phase = cursor->progress.phase;
  uint64_t begun = now_us();
  do {
    char *message = NULL;
    int rc = SQLITE_INTERRUPT;
    if (!colfam_is_interrupted(module->conn->db))
      rc = module->work->step(cursor->state, &cursor->progress, &message);
    if (rc) return work_fail(cursor, rc, message);
    cursor->row_us = now_us();
  } while (!cursor->progress.finished && phase_is(cursor, phase) &&
           cursor->row_us - begun < ROW_US);
  if (cursor->progress.finished) end_work(cursor);
  cursor->row++;
  return SQLITE_OK;
}

static int work_filter(sqlite3_vtab_cursor *base, int idx_num, const char *idx_str, int argc,
                       sqlite3_value **argv) {
  (void)idx_num, (void)idx_str;
  struct work_cursor *cursor = (struct work_cursor *)base;
  const struct work_module *module = module_of(cursor);
  cursor_clear(cursor);
  int rc = colfam_conn_refuse(module->conn, module->work->name, &base->pVtab->zErrMsg);
  if (rc) return rc;
  rc = colfam_tvf_copy_argument(argv[0], module->work->name, module->work->wanted,
                                &cursor->argument, &base->pVtab->zErrMsg);
  if (rc == SQLITE_OK && argc > 1)
    rc = colfam_tvf_copy_argument(argv[1], module->work->name, module->work->wanted,
                                  &cursor->option, &base->pVtab->zErrMsg);
  if (rc) return rc;
  char *message = NULL;
  cursor->begun_us = now_us();
  rc =
      module->work->begin(module->conn, cursor->argument, cursor->option, &cursor->state, &message);
  if (rc) return work_fail(cursor, rc, message);
  return work_slice(cursor);
}

static int work_next(sqlite3_vtab_cursor *base) {
  struct work_cursor *cursor = (struct work_cursor *)base;
  cursor->eof = cursor->progress.finished;
  return cursor->eof ? SQLITE_OK : work_slice(cursor);
}

static int work_eof(sqlite3_vtab_cursor *base) {
  return ((const struct work_cursor *)base)->eof;
}

static double percent(const struct colfam_progress *progress) {
  if (progress->total) return 100.0 * (double)progress->done / (double)progress->total;
  return progress->finished ? 100 : 0;
}

static int work_column(sqlite3_vtab_cursor *base, sqlite3_context *context, int column) {
  const struct work_cursor *cursor = (const struct work_cursor *)base;
  const struct colfam_progress *progress = &cursor->progress;
  switch (column) {
    case COLUMN_PHASE:
      sqlite3_result_text(context, progress->phase, -1, SQLITE_STATIC);
      break;
    case COLUMN_DONE:
      sqlite3_result_int64(context, (sqlite3_int64)progress->done);
      break;
    case COLUMN_TOTAL:
      sqlite3_result_int64(context, (sqlite3_int64)progress->total);
      break;
    case COLUMN_PERCENT:
      sqlite3_result_double(context, percent(progress));
      break;
    case COLUMN_SECONDS:
      sqlite3_result_double(context, (double)(cursor->row_us - cursor->begun_us) / 1e6);
      break;
    case COLUMN_OPTION:
      sqlite3_result_text(context, cursor->option, -1, SQLITE_TRANSIENT);
      break;
    default:
      sqlite3_result_text(context, cursor->argument, -1, SQLITE_TRANSIENT);
  }
  return SQLITE_OK;
}

static int work_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *rowid) {
  *rowid = ((const struct work_cursor *)base)->row;
  return SQLITE_OK;
}

static const sqlite3_module work_module = {
    .iVersion = 0,
    .xCreate = NULL, /* eponymous-only */
    .xConnect = work_connect,
    .xBestIndex = work_best_index,
    .xDisconnect = work_disconnect,
    .xOpen = work_open,
    .xClose = work_close,
    .xFilter = work_filter,
    .xNext = work_next,
    .xEof = work_eof,
    .xColumn = work_column,
    .xRowid = work_rowid,
};

static void module_free(void *memory) {
  struct work_module *module = memory;
  colfam_conn_unref(module->conn);
  sqlite3_free(module);
}

int colfam_work_register(struct colfam_conn *conn, const struct colfam_work *work) {
  struct work_module *module = sqlite3_malloc64(sizeof *module);
  if (!module) return SQLITE_NOMEM;
  *module = (struct work_module){colfam_conn_ref(conn), work};
  /* On failure SQLite calls module_free itself. */
  return sqlite3_create_module_v2(conn->db, work->name, &work_module, module, module_free);
}
