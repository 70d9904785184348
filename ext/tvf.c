/* The module behind every gathered table-valued function. xFilter gathers all rows, the rest hands them
** out, so that no engine object and no lock outlives xFilter and a cursor is safe across any write.
** The hidden argument column comes after the visible ones; SQLite passes f(x) as f.argument = x. A plan
** without a usable argument is refused with SQLITE_CONSTRAINT, a statement without one with our own text.
** Thread rule: the connection's. */
#include "tvf.h"

#include <string.h>

#include "error.h"

#define TABLE_WANTED "the name of a table: ('t')"

/* What a module is registered with. */
struct tvf_module {
  struct colfam_conn *conn;
  const struct colfam_tvf *tvf;
};

struct tvf_vtab {
  sqlite3_vtab base; /* first: SQLite's */
  const struct tvf_module *module;
};

struct tvf_cursor {
  sqlite3_vtab_cursor base; /* first: SQLite's */
  struct colfam_list list;
  sqlite3_int64 row; /* counts from 0 */
  char *table;       /* the argument, or NULL */
};

static char *declaration(const struct colfam_tvf *tvf) {
  return sqlite3_mprintf("CREATE TABLE x(%s%s)", tvf->columns,
                         tvf->takes_table ? ", table_name TEXT HIDDEN" : "");
}

static int tvf_connect(sqlite3 *db, void *aux, int argc, const char *const *argv,
                       sqlite3_vtab **vtab, char **message) {
  (void)argc, (void)argv, (void)message;
  const struct tvf_module *module = aux;
  char *sql = declaration(module->tvf);
  if (!sql) return SQLITE_NOMEM;
  int rc = sqlite3_declare_vtab(db, sql);
  sqlite3_free(sql);
  if (rc) return rc;
  if (module->tvf->direct_only) sqlite3_vtab_config(db, SQLITE_VTAB_DIRECTONLY);
  struct tvf_vtab *made = sqlite3_malloc64(sizeof *made);
  if (!made) return SQLITE_NOMEM;
  memset(made, 0, sizeof *made);
  made->module = module;
  *vtab = &made->base;
  return SQLITE_OK;
}

static int tvf_disconnect(sqlite3_vtab *vtab) {
  sqlite3_free(vtab);
  return SQLITE_OK;
}

/* The number of the constraint that gives the argument: -1 without one, -2 when none is usable here. */
static int find_argument(const sqlite3_index_info *info, int column) {
  int found = -1;
  for (int i = 0; i < info->nConstraint; i++) {
    const struct sqlite3_index_constraint *constraint = &info->aConstraint[i];
    if (constraint->iColumn != column || constraint->op != SQLITE_INDEX_CONSTRAINT_EQ) continue;
    if (constraint->usable) return i;
    found = -2;
  }
  return found;
}

int colfam_tvf_take_argument(sqlite3_index_info *info, int column, const char *name,
                             const char *wanted, char **message) {
  int argument = find_argument(info, column);
  if (argument == -2) return SQLITE_CONSTRAINT;
  if (argument == -1) return colfam_error(message, SQLITE_ERROR, "%s needs %s", name, wanted);
  info->aConstraintUsage[argument].argvIndex = 1;
  info->aConstraintUsage[argument].omit = 1;
  return SQLITE_OK;
}

int colfam_tvf_take_option(sqlite3_index_info *info, int column) {
  int option = find_argument(info, column);
  if (option == -2) return SQLITE_CONSTRAINT;
  if (option == -1) return SQLITE_OK;
  info->aConstraintUsage[option].argvIndex = 2;
  info->aConstraintUsage[option].omit = 1;
  return SQLITE_OK;
}

int colfam_tvf_copy_argument(sqlite3_value *value, const char *name, const char *wanted,
                             char **argument, char **message) {
  if (sqlite3_value_type(value) != SQLITE_TEXT)
    return colfam_error(message, SQLITE_ERROR, "%s needs a text, %s", name, wanted);
  const unsigned char *text = sqlite3_value_text(value);
  *argument = text ? sqlite3_mprintf("%s", text) : NULL;
  return *argument ? SQLITE_OK : SQLITE_NOMEM;
}

static int tvf_best_index(sqlite3_vtab *vtab, sqlite3_index_info *info) {
  const struct colfam_tvf *tvf = ((struct tvf_vtab *)vtab)->module->tvf;
  info->estimatedRows = 100;
  info->estimatedCost = 1000;
  if (!tvf->takes_table) return SQLITE_OK;
  return colfam_tvf_take_argument(info, tvf->column_count, tvf->name, TABLE_WANTED, &vtab->zErrMsg);
}

static int tvf_open(sqlite3_vtab *vtab, sqlite3_vtab_cursor **cursor) {
  (void)vtab;
  struct tvf_cursor *made = sqlite3_malloc64(sizeof *made);
  if (!made) return SQLITE_NOMEM;
  memset(made, 0, sizeof *made);
  *cursor = &made->base;
  return SQLITE_OK;
}

static void cursor_clear(struct tvf_cursor *cursor) {
  colfam_list_release(&cursor->list);
  sqlite3_free(cursor->table);
  cursor->table = NULL;
  cursor->row = 0;
}

static int tvf_close(sqlite3_vtab_cursor *base) {
  struct tvf_cursor *cursor = (struct tvf_cursor *)base;
  cursor_clear(cursor);
  sqlite3_free(cursor);
  return SQLITE_OK;
}

static int tvf_filter(sqlite3_vtab_cursor *base, int idx_num, const char *idx_str, int argc,
                      sqlite3_value **argv) {
  (void)idx_num, (void)idx_str;
  struct tvf_cursor *cursor = (struct tvf_cursor *)base;
  const struct tvf_module *module = ((struct tvf_vtab *)base->pVtab)->module;
  cursor_clear(cursor);
  if (!module->tvf->harmless) {
    int rc = colfam_conn_refuse(module->conn, module->tvf->name, &base->pVtab->zErrMsg);
    if (rc) return rc;
  }
  if (argc > 0) {
    int rc = colfam_tvf_copy_argument(argv[0], module->tvf->name, TABLE_WANTED, &cursor->table,
                                      &base->pVtab->zErrMsg);
    if (rc) return rc;
  }
  char *message = NULL;
  int rc = module->tvf->gather(module->conn, cursor->table, &cursor->list, &message);
  if (!rc) rc = cursor->list.rc;
  if (rc && message) {
    sqlite3_free(base->pVtab->zErrMsg);
    base->pVtab->zErrMsg = message;
  } else {
    sqlite3_free(message);
  }
  return rc;
}

static int tvf_next(sqlite3_vtab_cursor *base) {
  ((struct tvf_cursor *)base)->row++;
  return SQLITE_OK;
}

static int column_count_of(const struct tvf_cursor *cursor) {
  return ((const struct tvf_vtab *)cursor->base.pVtab)->module->tvf->column_count;
}

static int tvf_eof(sqlite3_vtab_cursor *base) {
  const struct tvf_cursor *cursor = (const struct tvf_cursor *)base;
  return cursor->row >= cursor->list.count / column_count_of(cursor);
}

static int tvf_column(sqlite3_vtab_cursor *base, sqlite3_context *context, int column) {
  const struct tvf_cursor *cursor = (const struct tvf_cursor *)base;
  int count = column_count_of(cursor);
  if (column >= count) {
    sqlite3_result_text(context, cursor->table, -1, SQLITE_TRANSIENT);
    return SQLITE_OK;
  }
  const struct colfam_cell *cell = &cursor->list.cells[cursor->row * count + column];
  if (cell->type == SQLITE_INTEGER) sqlite3_result_int64(context, cell->as.integer);
  if (cell->type == SQLITE_FLOAT) sqlite3_result_double(context, cell->as.real);
  if (cell->type == SQLITE_TEXT) sqlite3_result_text(context, cell->as.text, -1, SQLITE_TRANSIENT);
  return SQLITE_OK;
}

static int tvf_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *rowid) {
  *rowid = ((const struct tvf_cursor *)base)->row + 1;
  return SQLITE_OK;
}

static const sqlite3_module tvf_module = {
    .iVersion = 0,
    .xCreate = NULL, /* eponymous-only */
    .xConnect = tvf_connect,
    .xBestIndex = tvf_best_index,
    .xDisconnect = tvf_disconnect,
    .xOpen = tvf_open,
    .xClose = tvf_close,
    .xFilter = tvf_filter,
    .xNext = tvf_next,
    .xEof = tvf_eof,
    .xColumn = tvf_column,
    .xRowid = tvf_rowid,
};

static void module_free(void *memory) {
  struct tvf_module *module = memory;
  colfam_conn_unref(module->conn);
  sqlite3_free(module);
}

int colfam_tvf_register(struct colfam_conn *conn, const struct colfam_tvf *tvf) {
  struct tvf_module *module = sqlite3_malloc64(sizeof *module);
  if (!module) return SQLITE_NOMEM;
  *module = (struct tvf_module){colfam_conn_ref(conn), tvf};
  /* On failure SQLite calls module_free itself. */
  return sqlite3_create_module_v2(conn->db, tvf->name, &tvf_module, module, module_free);
}
