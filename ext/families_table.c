/* colfam_families: every colfam table of every database of the connection, with sizes, shape and options.
** A table whose view cannot be made shows its trouble in `problem` and NULL elsewhere.
** Thread rule: the connection's. */
#include <stdbool.h>

#include "engine/kv.h"
#include "error.h"
#include "table.h"
#include "tvf.h"
#include "txn.h"
#include "vtab.h"

/* The lowest level at or above `from` that has files, and how many; false when there is none. */
static bool next_level(const struct kv_view *view, uint64_t from, uint32_t *level, int *files) {
  *files = 0;
  for (size_t i = 0; i < kv_view_file_count(view); i++) {
    uint32_t have = kv_view_file(view, i)->level;
    if (have < from || (*files && have > *level)) continue;
    *files = *files && have == *level ? *files + 1 : 1;
    *level = have;
  }
  return *files > 0;
}

/* Files of each level, as "level:files". */
static void append_levels(struct colfam_list *list, const struct kv_view *view) {
  sqlite3_str *text = sqlite3_str_new(NULL);
  uint32_t level = 0;
  int files = 0;
  for (uint64_t from = 0; next_level(view, from, &level, &files); from = (uint64_t)level + 1) {
    if (sqlite3_str_length(text)) sqlite3_str_appendall(text, " ");
    if (level == KV_LEVEL_VALUES)
      sqlite3_str_appendf(text, "values:%d", files);
    else
      sqlite3_str_appendf(text, "%u:%d", level, files);
  }
  colfam_list_str(list, text);
}

static void append_options(struct colfam_list *list, const struct colfam_options *options) {
  sqlite3_str *text = sqlite3_str_new(NULL);
  char value[64];
  const char *name;
  for (int i = 0; (name = colfam_options_get(options, i, value)) != NULL; i++) {
    sqlite3_str_appendf(text, "%s%s = %s", i ? ", " : "", name, value);
  }
  colfam_list_str(list, text);
}

static int count_pending(const struct colfam_anchor *anchor, char **message) {
  struct colfam_txn *txn = anchor->vtab->table->txn;
  return txn ? colfam_txn_count_rows(txn, message) : SQLITE_OK;
}

/* The rows as the transaction sees them, pending ones included; NULL when they are not tracked. */
static void append_rows(struct colfam_list *list, const struct colfam_anchor *anchor) {
  int64_t rows = kv_view_rows(anchor->view);
  if (rows < 0) {
    colfam_list_null(list);
  } else {
    if (anchor->batch) rows += kv_batch_rows_delta(anchor->batch);
    colfam_list_integer(list, rows);
  }
}

static void append_family(struct colfam_list *list, const struct colfam_anchor *anchor) {
  const struct kv_view *view = anchor->view;
  size_t count = kv_view_file_count(view);
  uint64_t bytes = 0;
  for (size_t i = 0; i < count; i++) bytes += kv_view_file(view, i)->bytes;
  append_rows(list, anchor);
  colfam_list_integer(list, (sqlite3_int64)bytes);
  colfam_list_integer(list, (sqlite3_int64)count);
  colfam_list_integer(list, (sqlite3_int64)kv_view_run_count(view));
  append_levels(list, view);
  colfam_list_integer(list, (sqlite3_int64)kv_view_log_bytes(view));
  append_options(list, &anchor->vtab->table->options);
  colfam_list_null(list);
}

static void append_problem(struct colfam_list *list, const char *message) {
  for (int i = 0; i < 7; i++) colfam_list_null(list);
  colfam_list_text(list, message ? message : "cannot be opened");
}

static void append_name(struct colfam_conn *conn, const char *database, const char *table,
                        struct colfam_list *list) {
  colfam_list_table(list, database, table, colfam_conn_hides(conn, table));
  colfam_list_text(list, database);
}

/* One row; none for a virtual table that is not ours. */
static int gather_table(struct colfam_conn *conn, const char *database, const char *table,
                        struct colfam_list *list) {
  struct colfam_anchor anchor;
  char *message = NULL;
  char *name = sqlite3_mprintf("\"%w\".\"%w\"", database, table);
  if (!name) return SQLITE_NOMEM;
  int rc = colfam_anchor_begin(conn, name, &anchor, &message);
  sqlite3_free(name);
  if (!rc) {
    rc = colfam_table_read_meta(anchor.vtab->table, &message);
    if (!rc) rc = count_pending(&anchor, &message);
    if (!rc) append_name(conn, database, table, list);
    if (!rc) append_family(list, &anchor);
    colfam_anchor_end(&anchor);
  }
  if (rc && rc != SQLITE_NOMEM && colfam_conn_find(conn, database, table)) {
    append_name(conn, database, table, list);
    append_problem(list, message);
  }
  sqlite3_free(message);
  return rc == SQLITE_NOMEM ? rc : SQLITE_OK;
}

static int gather_database(struct colfam_conn *conn, const char *database, struct colfam_list *list,
                           char **message) {
  sqlite3_stmt *stmt = NULL;
  int rc = colfam_conn_tables(conn, database, &stmt);
  while (!rc && (rc = sqlite3_step(stmt)) == SQLITE_ROW) {
    const char *table = (const char *)sqlite3_column_text(stmt, 0);
    rc = table ? gather_table(conn, database, table, list) : SQLITE_NOMEM;
  }
  if (rc == SQLITE_DONE) rc = SQLITE_OK;
  if (rc) rc = colfam_error(message, rc, "colfam_families: %s", sqlite3_errmsg(conn->db));
  sqlite3_finalize(stmt);
  return rc;
}

static int families_gather(struct colfam_conn *conn, const char *name, struct colfam_list *list,
                           char **message) {
  (void)name;
  sqlite3_stmt *stmt = NULL;
  int rc = sqlite3_prepare_v2(conn->db, "PRAGMA database_list", -1, &stmt, NULL);
  while (!rc && (rc = sqlite3_step(stmt)) == SQLITE_ROW) {
    const char *database = (const char *)sqlite3_column_text(stmt, 1);
    rc = database ? gather_database(conn, database, list, message) : SQLITE_NOMEM;
  }
  sqlite3_finalize(stmt);
  return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

const struct colfam_tvf colfam_families_tvf = {
    .name = "colfam_families",
    .columns =
        "table_name TEXT, schema TEXT, rows INTEGER, bytes INTEGER, files INTEGER, runs INTEGER, "
        "levels TEXT, log_bytes INTEGER, options TEXT, problem TEXT",
    .column_count = 10,
    .harmless = true,
    .gather = families_gather,
};
