/* Functions that name a table (table.h). SQLITE_FCNTL_DATA_VERSION is stale outside a read transaction, and
** two nested SELECTs there may see two states (engine/README.md, invariant 1, Anchor): so one SELECT on the
** table's schema is stepped first and held over everything that follows. */
#include <string.h>

#include "error.h"
#include "table.h"
#include "txn.h"

struct colfam_vtab *colfam_conn_find(struct colfam_conn *conn, const char *database,
                                     const char *name) {
  for (struct colfam_vtab *vtab = conn->vtabs; vtab; vtab = vtab->next)
    if (sqlite3_stricmp(vtab->schema->table, name) == 0 &&
        sqlite3_stricmp(vtab->database, database) == 0)
      return vtab;
  return NULL;
}

bool colfam_conn_hides(struct colfam_conn *conn, const char *table) {
  return sqlite3_table_column_metadata(conn->db, "temp", table, NULL, NULL, NULL, NULL, NULL,
                                       NULL) == SQLITE_OK;
}

/* One identifier at *text, quoted or bare, into `into` (as long as the text); false when there is none. */
static bool take_name(const char **text, char *into) {
  const char *p = *text;
  if (*p == '"' || *p == '`' || *p == '\'' || *p == '[') {
    char quote = *p == '[' ? ']' : *p;
    for (p++;; p++) {
      if (!*p) return false;
      if (*p == quote && (quote == ']' || p[1] != quote)) break;
      if (*p == quote) p++;
      *into++ = *p;
    }
    p++;
  } else {
    while (*p && *p != '.') *into++ = *p++;
  }
  *into = 0;
  *text = p;
  return true;
}

struct table_name {
  const char *database; /* NULL when not given */
  const char *table;
  char *memory;
};

static int parse_name(const char *text, struct table_name *name, char **message) {
  size_t length = strlen(text);
  name->memory = sqlite3_malloc64(2 * length + 2);
  if (!name->memory) return SQLITE_NOMEM;
  char *first = name->memory, *second = name->memory + length + 1;
  const char *p = text;
  bool good = take_name(&p, first);
  bool qualified = good && *p == '.';
  if (qualified) {
    p++;
    good = take_name(&p, second);
  }
  if (!good || *p || !*(qualified ? second : first)) {
    sqlite3_free(name->memory);
    name->memory = NULL;
    return colfam_error(message, SQLITE_ERROR, "\"%s\" is no table name", text);
  }
  name->database = qualified ? first : NULL;
  name->table = qualified ? second : first;
  return SQLITE_OK;
}

/* Preparing a SELECT on the table makes SQLite find it, connect it and ask it for a plan. */
static int plan_table(struct colfam_conn *conn, const struct table_name *name, char **message) {
  char *sql = name->database ? sqlite3_mprintf("SELECT 1 FROM \"%w\".\"%w\" LIMIT 0",
                                               name->database, name->table)
                             : sqlite3_mprintf("SELECT 1 FROM \"%w\" LIMIT 0", name->table);
  if (!sql) return SQLITE_NOMEM;
  sqlite3_stmt *statement;
  conn->planned = NULL;
  int rc = sqlite3_prepare_v2(conn->db, sql, -1, &statement, NULL);
  sqlite3_free(sql);
  sqlite3_finalize(statement);
  return rc == SQLITE_OK ? rc : colfam_error(message, rc, "%s", sqlite3_errmsg(conn->db));
}

static int hold_transaction(sqlite3 *db, const char *database, sqlite3_stmt **hold,
                            char **message) {
  char *sql = sqlite3_mprintf("SELECT 1 FROM \"%w\".sqlite_master LIMIT 1", database);
  if (!sql) return SQLITE_NOMEM;
  int rc = sqlite3_prepare_v2(db, sql, -1, hold, NULL);
  sqlite3_free(sql);
  if (rc == SQLITE_OK) rc = sqlite3_step(*hold);
  if (rc == SQLITE_ROW || rc == SQLITE_DONE) return SQLITE_OK;
  return colfam_error(message, rc, "%s", sqlite3_errmsg(db));
}

static int find_vtab(struct colfam_conn *conn, const struct table_name *name,
                     struct colfam_vtab **vtab, char **message) {
  int rc = plan_table(conn, name, message);
  if (rc != SQLITE_OK) return rc;
  *vtab = conn->planned;
  if (*vtab && sqlite3_stricmp((*vtab)->schema->table, name->table) == 0) return SQLITE_OK;
  return colfam_error(message, SQLITE_ERROR, "%s is no colfam table", name->table);
}

/* SQLite takes a vtab's message only after its own calls: here it is ours to take. */
static int take_view(struct colfam_anchor *anchor, char **message) {
  int rc = colfam_vtab_view(anchor->vtab, &anchor->view, &anchor->batch);
  if (rc == SQLITE_OK) return rc;
  sqlite3_free(*message);
  *message = anchor->vtab->base.zErrMsg;
  anchor->vtab->base.zErrMsg = NULL;
  return rc;
}

/* ---- Estimates: xBestIndex may run outside of any transaction */

enum { ROWS_UNKNOWN = 1000000, ROWS_LEAST = 100 };

static double rows_of_view(const struct kv_view *view, const struct kv_batch *batch) {
  int64_t rows = kv_view_rows(view);
  if (rows < 0) return (double)kv_view_entries_estimate(view);
  return (double)(batch ? rows + kv_batch_rows_delta(batch) : rows);
}

/* A table that cannot be read now is planned as a large one: the statement will tell what is wrong. */
static double open_and_count(struct colfam_vtab *vtab) {
  sqlite3_stmt *hold = NULL;
  struct kv_view *view = NULL;
  struct kv_batch *batch = NULL;
  char *message = NULL;
  double rows = ROWS_UNKNOWN;
  int rc = hold_transaction(vtab->conn->db, vtab->database, &hold, &message);
  if (rc == SQLITE_OK) rc = colfam_vtab_view(vtab, &view, &batch);
  if (rc == SQLITE_OK) rows = rows_of_view(view, batch);
  kv_view_unref(view);
  sqlite3_finalize(hold);
  sqlite3_free(message);
  sqlite3_free(vtab->base.zErrMsg);
  vtab->base.zErrMsg = NULL;
  return rows;
}

/* Whether planning may read. An ordinary table's plan begins no transaction that lasts, so that a write
** that then finds the database busy can be tried again, and waits for no lock: in a rollback journal mode
** only a writer, who has the file reserved, keeps readers out. Databases in memory
** (VFS memdb) cannot tell. */
static bool may_read(sqlite3 *db, const char *database) {
  sqlite3_file *file = NULL;
  int reserved = 0;
  if (sqlite3_txn_state(db, database) != SQLITE_TXN_NONE) return true;
  if (!sqlite3_get_autocommit(db)) return false;
  int lock = SQLITE_LOCK_NONE; /* exclusive locking keeps it between transactions */
  int rc = sqlite3_file_control(db, database, SQLITE_FCNTL_LOCKSTATE, &lock);
  if (rc == SQLITE_OK && lock > SQLITE_LOCK_SHARED) return true;
  rc = sqlite3_file_control(db, database, SQLITE_FCNTL_FILE_POINTER, &file);
  if (rc == SQLITE_OK && file && file->pMethods && file->pMethods->xCheckReservedLock)
    rc = file->pMethods->xCheckReservedLock(file, &reserved);
  return rc == SQLITE_OK && !reserved;
}

/* A view in memory may be old, which does no harm. A small table may have grown when the statement runs
** again: it is taken for a little larger. */
double colfam_vtab_rows_estimate(struct colfam_vtab *vtab) {
  struct colfam_table *table = vtab->table;
  struct kv_view *cached = table ? colfam_cached_view(&table->cached) : NULL;
  if (table && table->txn) {
    vtab->rows_estimate = rows_of_view(table->txn->view, table->txn->batch);
  } else if (cached) {
    vtab->rows_estimate = rows_of_view(cached, NULL);
  } else if (vtab->rows_estimate == 0 && !may_read(vtab->conn->db, vtab->database)) {
    return ROWS_UNKNOWN;
  } else if (vtab->rows_estimate == 0) {
    vtab->rows_estimate = ROWS_UNKNOWN; /* should the shadow tables lead back here */
    vtab->rows_estimate = open_and_count(vtab);
  }
  kv_view_unref(cached);
  if (vtab->rows_estimate < ROWS_LEAST) vtab->rows_estimate = ROWS_LEAST;
  return vtab->rows_estimate;
}

/* ---- Kept statements
**
** To find a table by its name and to begin its transaction two statements have to be prepared. The second one
** stays with the vtab, reset, and stepping it again is proof that the name still means this vtab: SQLite
** prepares it anew when the schema of its database or of temp has changed, or the authorizer, and makes new
** vtab objects when a table has.
**
** In a transaction that somebody else holds it need not be stepped when nothing has been committed since it
** was and SQLite does not call it expired, which it is after DDL in temp, after DDL that was rolled back and
** by a new authorizer. DDL of other tables does not matter; of colfam's own, xRename and xDestroy tell. */

static int prepares_of(sqlite3_stmt *statement) {
  return sqlite3_stmt_status(statement, SQLITE_STMTSTATUS_REPREPARE, 0);
}

/* A name without a database may come to mean a table of one that is looked through before. */
static bool is_lasting(const struct table_name *name, const struct colfam_vtab *vtab) {
  return name->database || sqlite3_stricmp(vtab->database, "main") == 0 ||
         sqlite3_stricmp(vtab->database, "temp") == 0;
}

/* From now on statements of the vtab's anchors are kept, as long as they are asked for by this name. Without
** memory they are not. */
static void keep_name(struct colfam_vtab *vtab, const struct table_name *name, const char *text) {
  sqlite3_free(vtab->kept_name);
  vtab->kept_name = is_lasting(name, vtab) ? sqlite3_mprintf("%s", text) : NULL;
  sqlite3_finalize(vtab->kept_hold);
  vtab->kept_hold = NULL;
}

static void keep_hold(struct colfam_anchor *anchor) {
  struct colfam_vtab *vtab = anchor->vtab;
  if (!anchor->hold || anchor->vtab_moves != anchor->conn->vtab_moves) return;
  if (!vtab || !vtab->kept_name || vtab->kept_hold || prepares_of(anchor->hold) != anchor->prepares)
    return;
  if (!vtab->table || colfam_table_data_version(vtab->table, &vtab->kept_version) != SQLITE_OK)
    return;
  if (sqlite3_reset(anchor->hold) != SQLITE_OK) return;
  vtab->kept_hold = anchor->hold;
  anchor->hold = NULL;
}

static struct colfam_vtab *find_kept(const struct colfam_conn *conn, const char *text) {
  struct colfam_vtab *vtab = conn->vtabs;
  while (vtab && !(vtab->kept_hold && strcmp(vtab->kept_name, text) == 0)) vtab = vtab->next;
  return vtab;
}

/* Whether stepping the kept statement would tell nothing new, and nothing need be held. An order's functions
** may do anything while the anchor lasts; with a shared cache others change the schema meanwhile; before a
** table of an attached database one of main's may have been put. */
static bool is_known(const struct colfam_vtab *vtab) {
  struct colfam_table *table = vtab->table;
  unsigned version;
  if (!table || !table->is_main || vtab->schema->custom) return false;
  if (colfam_store_shares_cache(table->store)) return false;
  if (sqlite3_txn_state(vtab->conn->db, vtab->database) == SQLITE_TXN_NONE) return false;
  if (colfam_statement_expired(vtab->kept_hold)) return false;
  return colfam_table_data_version(table, &version) == SQLITE_OK && version == vtab->kept_version;
}

static void take_hold(struct colfam_vtab *vtab, struct colfam_anchor *anchor) {
  anchor->hold = vtab->kept_hold;
  anchor->prepares = prepares_of(vtab->kept_hold);
  vtab->kept_hold = NULL;
}

/* Whether the resting anchor's transaction could be begun again and found nothing new. */
static bool hold_again(struct colfam_anchor *anchor) {
  const struct colfam_conn *conn = anchor->conn;
  if (!anchor->hold || !conn || anchor->vtab_moves != conn->vtab_moves) return false;
  int rc = sqlite3_step(anchor->hold);
  return (rc == SQLITE_ROW || rc == SQLITE_DONE) && anchor->vtab_moves == conn->vtab_moves &&
         prepares_of(anchor->hold) == anchor->prepares;
}

/* ---- Public */

static int hold_by_name(struct colfam_conn *conn, const char *text, bool keeps,
                        struct colfam_anchor *anchor, char **message) {
  memset(anchor, 0, sizeof *anchor);
  anchor->conn = conn;
  struct table_name name = {NULL, NULL, NULL};
  int rc = parse_name(text, &name, message);
  if (rc != SQLITE_OK) return rc;
  rc = find_vtab(conn, &name, &anchor->vtab, message);
  anchor->vtab_moves = conn->vtab_moves;
  if (rc == SQLITE_OK)
    rc = hold_transaction(conn->db, anchor->vtab->database, &anchor->hold, message);
  /* The transaction may have found a newer schema, for which SQLite makes new objects. */
  if (rc == SQLITE_OK && anchor->vtab_moves != conn->vtab_moves)
    rc = find_vtab(conn, &name, &anchor->vtab, message);
  anchor->vtab_moves = conn->vtab_moves;
  if (rc == SQLITE_OK) anchor->prepares = prepares_of(anchor->hold);
  if (rc == SQLITE_OK && keeps) keep_name(anchor->vtab, &name, text);
  sqlite3_free(name.memory);
  if (rc != SQLITE_OK) colfam_anchor_end(anchor);
  return rc;
}

int colfam_anchor_hold(struct colfam_conn *conn, const char *text, struct colfam_anchor *anchor,
                       char **message) {
  return hold_by_name(conn, text, false, anchor, message);
}

static int view_of(struct colfam_anchor *anchor, int rc, char **message) {
  if (rc != SQLITE_OK) return rc;
  rc = take_view(anchor, message);
  if (rc != SQLITE_OK) colfam_anchor_end(anchor);
  return rc;
}

static int begin_anew(struct colfam_conn *conn, const char *name, struct colfam_anchor *anchor,
                      char **message) {
  return view_of(anchor, hold_by_name(conn, name, true, anchor, message), message);
}

int colfam_anchor_begin(struct colfam_conn *conn, const char *text, struct colfam_anchor *anchor,
                        char **message) {
  struct colfam_vtab *vtab = find_kept(conn, text);
  if (!vtab) return begin_anew(conn, text, anchor, message);
  *anchor = (struct colfam_anchor){.vtab = vtab, .conn = conn, .vtab_moves = conn->vtab_moves};
  if (is_known(vtab)) return view_of(anchor, SQLITE_OK, message);
  take_hold(vtab, anchor);
  if (hold_again(anchor)) return view_of(anchor, SQLITE_OK, message);
  sqlite3_finalize(anchor->hold);
  return begin_anew(conn, text, anchor, message);
}

void colfam_anchor_forget(struct colfam_conn *conn) {
  conn->vtab_moves++;
  for (struct colfam_vtab *vtab = conn->vtabs; vtab; vtab = vtab->next) {
    sqlite3_finalize(vtab->kept_hold);
    vtab->kept_hold = NULL;
  }
}

void colfam_anchor_end(struct colfam_anchor *anchor) {
  kv_view_unref(anchor->view);
  keep_hold(anchor);
  sqlite3_finalize(anchor->hold);
  memset(anchor, 0, sizeof *anchor);
}

void colfam_anchor_rest(struct colfam_anchor *anchor) {
  kv_view_unref(anchor->view);
  anchor->view = NULL;
  anchor->batch = NULL;
  sqlite3_reset(anchor->hold);
}

/* Whether somebody else, who does not end before the caller, has a transaction that the anchor can do with.
** */
static bool is_held(const struct colfam_anchor *anchor) {
  return anchor->vtab_moves == anchor->conn->vtab_moves &&
         sqlite3_txn_state(anchor->conn->db, anchor->vtab->database) != SQLITE_TXN_NONE;
}

int colfam_anchor_again(struct colfam_conn *conn, const char *name, struct colfam_anchor *anchor,
                        char **message) {
  if (!anchor->conn) return colfam_anchor_begin(conn, name, anchor, message);
  if (is_held(anchor) || hold_again(anchor)) return view_of(anchor, SQLITE_OK, message);
  colfam_anchor_end(anchor);
  return colfam_anchor_begin(conn, name, anchor, message);
}

int colfam_conn_tables(struct colfam_conn *conn, const char *database, sqlite3_stmt **names) {
  char *sql = sqlite3_mprintf(
      "SELECT name FROM \"%w\".sqlite_master AS t WHERE type = 'table' AND rootpage = 0 AND EXISTS"
      " (SELECT 1 FROM \"%w\".sqlite_master WHERE name = t.name || '_cfmeta') ORDER BY name",
      database, database);
  if (!sql) return SQLITE_NOMEM;
  int rc = sqlite3_prepare_v2(conn->db, sql, -1, names, NULL);
  sqlite3_free(sql);
  return rc;
}
