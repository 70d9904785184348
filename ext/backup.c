/* colfam_backup('copy.db' [, 'schema']): a copy of a database and of the table files of its colfam tables,
** at one snapshot, while others write.
**
** A SELECT held open from beginning to end fixes the snapshot (table.h, Anchor) and so the files that it
** names: a view of each table keeps them for this process, the read transaction against others (invariant
** 5). The table files go first, each verified in its new place; then SQLite's backup interface copies the
** pages into a file of another name; and when all of it is on disk, that file gets the name that was asked
** for. So there is no copy before it is complete, and what was made is removed when the work ends early.
** Only a process that dies leaves something, which the next call to the same path removes (backup_left.c).
**
** What this connection commits meanwhile would go into the pages but not into the files: that ends the
** work. The connection on the copy is the only second one that there ever is, and it is on another file
** (invariant 4). Thread rule: the connection's. */
#include "backup.h"

#include <stdbool.h>
#include <string.h>

#include "engine/kv.h"
#include "error.h"
#include "killpoint.h"
#include "shim.h"
#include "store.h"
#include "table.h"
#include "vtab.h"
#include "work.h"

#define STEP_PAGES 64

enum phase { PHASE_FILES, PHASE_DATABASE, PHASE_NAME };

struct backup {
  struct colfam_conn *conn; /* which outlives the statement */
  char *schema;
  struct colfam_backup_names names;
  enum phase phase;
  bool finished;
  /* Source */
  sqlite3_stmt *hold;
  unsigned data_version;
  struct colfam_store *store;
  const void *file;       /* to close the store with */
  struct kv_view **views; /* of all tables */
  size_t view_count;
  /* Destination */
  struct kv_copy *copy;
  struct kv_write_file *claim; /* keeps the partial database locked; nobody writes by it */
  bool made;                   /* the database file is there: under its partial name, or */
  bool named;                  /* under its own */
  sqlite3 *target;
  sqlite3_backup *pages;
};

static int engine_error(kv_status status, const struct kv_err *err, char **message) {
  return colfam_error(message, colfam_code(status), "colfam_backup: %s", err->text);
}

/* ---- The end: all that was made goes, unless it is finished */

static void close_target(struct backup *backup) {
  sqlite3_backup_finish(backup->pages);
  sqlite3_close(backup->target);
  backup->pages = NULL;
  backup->target = NULL;
}

static void remove_database(const struct backup *backup) {
  const char *path = backup->named ? backup->names.database : backup->names.partial;
  kv_status status = kv_env_remove(colfam_backup_env(), path, NULL);
  (void)status; /* what cannot be removed stays */
}

static void end_claim(struct backup *backup) {
  if (backup->claim) kv_env_close_write(colfam_backup_env(), backup->claim);
  backup->claim = NULL;
}

/* The database file goes after the table files (backup_left.c). */
static void backup_end(void *state) {
  struct backup *backup = state;
  close_target(backup);
  kv_copy_free(backup->copy);
  if (backup->made && !backup->finished) remove_database(backup);
  end_claim(backup);
  for (size_t i = 0; i < backup->view_count; i++) kv_view_unref(backup->views[i]);
  sqlite3_free(backup->views);
  colfam_store_close(backup->store, backup->conn->db, backup->file);
  sqlite3_finalize(backup->hold);
  colfam_backup_names_release(&backup->names);
  sqlite3_free(backup->schema);
  sqlite3_free(backup);
}

/* ---- The source */

static int prepare(struct backup *backup, const char *format, sqlite3_stmt **statement,
                   char **message) {
  sqlite3 *db = backup->conn->db;
  char *sql = sqlite3_mprintf(format, backup->schema, backup->schema);
  if (!sql) return SQLITE_NOMEM;
  int rc = sqlite3_prepare_v2(db, sql, -1, statement, NULL);
  sqlite3_free(sql);
  return rc == SQLITE_OK ? rc : colfam_error(message, rc, "colfam_backup: %s", sqlite3_errmsg(db));
}

static int ask_version(const struct backup *backup, unsigned *version) {
  return sqlite3_file_control(backup->conn->db, backup->schema, SQLITE_FCNTL_DATA_VERSION, version);
}

/* One row in any database, so that the statement stays open on it. */
static int hold_source(struct backup *backup, char **message) {
  sqlite3 *db = backup->conn->db;
  int state = sqlite3_txn_state(db, backup->schema);
  if (state < 0)
    return colfam_error(message, SQLITE_ERROR, "colfam_backup: no such database: %s",
                        backup->schema);
  if (state == SQLITE_TXN_WRITE)
    return colfam_error(
        message, SQLITE_ERROR,
        "colfam_backup: inside a transaction that writes to database %s: COMMIT first",
        backup->schema);
  int rc = prepare(backup, "SELECT count(*) FROM \"%w\".sqlite_master", &backup->hold, message);
  if (rc != SQLITE_OK) return rc;
  rc = sqlite3_step(backup->hold);
  if (rc != SQLITE_ROW) return colfam_error(message, rc, "colfam_backup: %s", sqlite3_errmsg(db));
  rc = ask_version(backup, &backup->data_version);
  return rc == SQLITE_OK ? rc : colfam_error(message, rc, "cannot ask for the data version");
}

/* A transaction of somebody else cannot move the version while ours stands. */
static int check_source(const struct backup *backup, char **message) {
  unsigned version = 0;
  int rc = ask_version(backup, &version);
  bool reading = sqlite3_txn_state(backup->conn->db, backup->schema) == SQLITE_TXN_READ;
  if (rc == SQLITE_OK && reading && version == backup->data_version) return SQLITE_OK;
  return colfam_error(
      message, SQLITE_LOCKED,
      "colfam_backup: database %s was written to by this connection meanwhile: write "
      "through another one, or when the copy is done",
      backup->schema);
}

static int add_view(struct backup *backup, const struct colfam_anchor *anchor, char **message) {
  struct kv_err err = {0};
  kv_status status = KV_OK;
  struct kv_view **grown =
      sqlite3_realloc64(backup->views, sizeof *grown * (sqlite3_uint64)(backup->view_count + 1));
  if (!grown) return SQLITE_NOMEM;
  backup->views = grown;
  backup->views[backup->view_count++] = kv_view_ref(anchor->view);
  const struct colfam_table *table = anchor->vtab->table;
  const struct kv_comparator *comparator = kv_family_comparator(table->family);
  for (size_t i = 0; i < kv_view_file_count(anchor->view) && status == KV_OK; i++)
    status = kv_copy_add(backup->copy, table->catalog.uuid, kv_view_file(anchor->view, i),
                         comparator, &err);
  return status == KV_OK ? SQLITE_OK : engine_error(status, &err, message);
}

/* Every table is opened, so that what cannot be read is an error now. */
static int add_table(struct backup *backup, const char *table, char **message) {
  struct colfam_anchor anchor;
  char *name = sqlite3_mprintf("\"%w\".\"%w\"", backup->schema, table);
  if (!name) return SQLITE_NOMEM;
  int rc = colfam_anchor_begin(backup->conn, name, &anchor, message);
  sqlite3_free(name);
  if (rc == SQLITE_OK) {
    rc = add_view(backup, &anchor, message);
    colfam_anchor_end(&anchor);
  } else if (*message) {
    rc = colfam_error(message, rc, "colfam_backup: %s", *message);
  }
  return rc;
}

static int add_tables(struct backup *backup, char **message) {
  sqlite3 *db = backup->conn->db;
  sqlite3_stmt *names = NULL;
  int rc = colfam_conn_tables(backup->conn, backup->schema, &names);
  while (rc == SQLITE_OK && (rc = sqlite3_step(names)) == SQLITE_ROW) {
    const char *table = (const char *)sqlite3_column_text(names, 0);
    rc = table ? add_table(backup, table, message) : SQLITE_AUTH;
  }
  if (rc == SQLITE_DONE) rc = SQLITE_OK;
  if (rc != SQLITE_OK && !*message)
    rc = colfam_error(message, rc, "colfam_backup: %s", sqlite3_errmsg(db));
  sqlite3_finalize(names);
  return rc;
}

/* ---- Beginning */

/* Taken by exclusive creation, with the mode of the source, before SQLite opens it. */
static int make_database(struct backup *backup, char **message) {
  struct kv_err err = {0};
  kv_status status = kv_env_create(colfam_backup_env(), backup->names.partial,
                                   colfam_store_path(backup->store), &backup->claim, &err);
  backup->made = status == KV_OK;
  return status == KV_OK ? SQLITE_OK : engine_error(status, &err, message);
}

static int new_copy(struct backup *backup, char **message) {
  struct kv_err err = {0};
  struct kv_copy_config config = {.from_env = colfam_store_env(backup->store),
                                  .from_dir = colfam_store_dir(backup->store),
                                  .to_env = colfam_backup_env(),
                                  .to_dir = backup->names.dir,
                                  .like_path = colfam_store_path(backup->store),
                                  .cache = colfam_store_cache()};
  kv_status status = kv_copy_new(&config, &backup->copy, &err);
  return status == KV_OK ? SQLITE_OK : engine_error(status, &err, message);
}

static int start(struct backup *backup, const char *path, char **message) {
  int rc = colfam_backup_names_init(&backup->names, path, message);
  if (rc == SQLITE_OK) rc = hold_source(backup, message);
  if (rc == SQLITE_OK) rc = colfam_store_refuse(backup->conn->db, backup->schema, message);
  if (rc == SQLITE_OK)
    rc = colfam_store_open(backup->conn->db, backup->schema, &backup->store, &backup->file);
  if (rc == SQLITE_OK) rc = new_copy(backup, message);
  if (rc == SQLITE_OK) rc = add_tables(backup, message);
  if (rc == SQLITE_OK) rc = make_database(backup, message);
  return rc;
}

static int backup_begin(struct colfam_conn *conn, const char *path, const char *schema,
                        void **state, char **message) {
  struct backup *backup = sqlite3_malloc64(sizeof *backup);
  if (!backup) return SQLITE_NOMEM;
  memset(backup, 0, sizeof *backup);
  backup->conn = conn;
  backup->schema = sqlite3_mprintf("%s", schema ? schema : "main");
  int rc = backup->schema ? start(backup, path, message) : SQLITE_NOMEM;
  if (rc == SQLITE_OK)
    *state = backup;
  else
    backup_end(backup);
  return rc;
}

/* ---- Steps */

static int copy_files(struct backup *backup, struct colfam_progress *progress, char **message) {
  struct kv_err err = {0};
  bool done = false;
  kv_status status = kv_copy_step(backup->copy, &done, &err);
  if (status != KV_OK) return engine_error(status, &err, message);
  kv_copy_progress(backup->copy, &progress->done, &progress->total);
  progress->phase = "files";
  if (done) backup->phase = PHASE_DATABASE;
  return SQLITE_OK;
}

/* Nobody else knows the file, so it needs no journal; it is synced by the commit that ends the copying. */
static int open_target(struct backup *backup, char **message) {
  int rc = sqlite3_open_v2(backup->names.partial, &backup->target, SQLITE_OPEN_READWRITE,
                           colfam_shim_copy_vfs());
  if (rc == SQLITE_OK)
    rc = sqlite3_exec(backup->target, "PRAGMA journal_mode = off; PRAGMA synchronous = full", NULL,
                      NULL, NULL);
  if (rc == SQLITE_OK) {
    backup->pages = sqlite3_backup_init(backup->target, "main", backup->conn->db, backup->schema);
    rc = backup->pages ? SQLITE_OK : sqlite3_extended_errcode(backup->target);
  }
  if (rc == SQLITE_OK) return rc;
  return colfam_error(message, rc, "colfam_backup: cannot open %s: %s", backup->names.partial,
                      sqlite3_errmsg(backup->target));
}

static int copy_pages(struct backup *backup, struct colfam_progress *progress, char **message) {
  int rc = backup->pages ? SQLITE_OK : open_target(backup, message);
  if (rc != SQLITE_OK) return rc;
  rc = sqlite3_backup_step(backup->pages, STEP_PAGES);
  if (rc != SQLITE_OK && rc != SQLITE_DONE)
    return colfam_error(message, rc, "colfam_backup: cannot copy the database to %s: %s",
                        backup->names.partial, sqlite3_errstr(rc));
  progress->phase = "database";
  progress->total = (uint64_t)sqlite3_backup_pagecount(backup->pages);
  progress->done = progress->total - (uint64_t)sqlite3_backup_remaining(backup->pages);
  if (rc == SQLITE_DONE) backup->phase = PHASE_NAME;
  return SQLITE_OK;
}

static int give_name(struct backup *backup, struct colfam_progress *progress, char **message) {
  struct kv_err err = {0};
  struct kv_env *env = colfam_backup_env();
  close_target(backup);
  kv_status status = kv_env_rename(env, backup->names.partial, backup->names.database, &err);
  backup->named = status == KV_OK;
  /* At once: to close it later would drop the locks of who has opened the copy. */
  end_claim(backup);
  if (status == KV_OK && !colfam_is_mutant("copy-sync-name"))
    status = kv_env_sync_dir(env, backup->names.parent, &err);
  if (status != KV_OK) return engine_error(status, &err, message);
  kv_copy_keep(backup->copy);
  progress->phase = "done";
  backup->finished = progress->finished = true;
  return SQLITE_OK;
}

static int backup_step(void *state, struct colfam_progress *progress, char **message) {
  struct backup *backup = state;
  int rc = check_source(backup, message);
  if (rc != SQLITE_OK) return rc;
  if (backup->phase == PHASE_FILES) return copy_files(backup, progress, message);
  if (backup->phase == PHASE_DATABASE) return copy_pages(backup, progress, message);
  return give_name(backup, progress, message);
}

const struct colfam_work colfam_backup_work = {
    .name = "colfam_backup",
    .argument = "path",
    .option = "schema",
    .wanted =
        "the path of the copy: ('copy.db'), and for an attached database its name: ('copy.db', "
        "'aux')",
    .direct_only = true,
    .begin = backup_begin,
    .step = backup_step,
    .end = backup_end,
};
