/* The scalar functions, and the registration of all functions and table-valued functions.
** colfam_may_exist answers from batch, memtables, fences, filters and cached blocks alone; it reads the
** table as a SELECT does, so it has a SELECT's rules for views and triggers (no flag).
** Thread rule: the connection's. */
#include <stdbool.h>
#include <string.h>

#include "api.h"
#include "config.h"
#include "conn.h"
#include "engine/kv.h"
#include "error.h"
#include "key_value.h"
#include "schema.h"
#include "table.h"
#include "tvf.h"
#include "version.h"
#include "vtab.h"
#include "work.h"
#include "salvage.h"

static void version_function(sqlite3_context *context, int argc, sqlite3_value **argv) {
  (void)argc, (void)argv;
  sqlite3_result_text(context, COLFAM_VERSION, -1, SQLITE_STATIC);
}

static void debug_function(sqlite3_context *context, int argc, sqlite3_value **argv) {
  (void)argc, (void)argv;
  char engine[256];
  kv_build_info(engine, sizeof engine);
  char *text = sqlite3_mprintf("colfam %s; SQLite %s, built for %s; %s", COLFAM_VERSION,
                               sqlite3_libversion(), SQLITE_VERSION, engine);
  if (text) {
    sqlite3_result_text(context, text, -1, sqlite3_free);
  } else {
    sqlite3_result_error_nomem(context);
  }
}

static int build_key(struct kv_buf *key, const struct colfam_vtab *vtab, int argc,
                     sqlite3_value **argv, bool *possible, char **message) {
  const struct colfam_schema *schema = vtab->schema;
  int count = colfam_key_columns(schema);
  if (argc != count) {
    return colfam_error(message, SQLITE_ERROR,
                        "colfam_may_exist: the key of table %s has %d columns, %d values given",
                        schema->label, count, argc);
  }
  *possible = true;
  for (int i = 0; i < count && *possible; i++) {
    int rc = colfam_key_append_sql(key, schema, i, argv[i], possible);
    if (rc) return rc;
  }
  if (key->size > KV_KEY_BYTES_MAX) *possible = false;
  return SQLITE_OK;
}

static int probe(const struct colfam_anchor *anchor, int argc, sqlite3_value **argv,
                 enum kv_may_exist *answer, char **message) {
  struct kv_buf key;
  struct kv_err err = {0};
  bool possible = false;
  kv_buf_init(&key);
  *answer = KV_ABSENT;
  int rc = build_key(&key, anchor->vtab, argc, argv, &possible, message);
  if (!rc && possible) {
    kv_status status =
        kv_may_exist(anchor->view, anchor->batch, kv_buf_slice(&key), answer, NULL, &err);
    if (status != KV_OK) {
      rc = colfam_error_of(message, anchor->vtab->schema->label, status, &err);
    }
  }
  kv_buf_release(&key);
  return rc;
}

static void free_anchor(void *anchor) {
  colfam_anchor_end(anchor);
  sqlite3_free(anchor);
}

/* The anchor of this statement's earlier calls with the same constant name, or a new one. SQLite keeps it
** until the statement ends, as long as the name is a constant. */
static struct colfam_anchor *anchor_of(sqlite3_context *context, bool *kept) {
  struct colfam_anchor *anchor = sqlite3_get_auxdata(context, 0);
  *kept = anchor != NULL;
  if (anchor) return anchor;
  anchor = sqlite3_malloc64(sizeof *anchor);
  if (anchor) memset(anchor, 0, sizeof *anchor);
  return anchor;
}

static void may_exist_function(sqlite3_context *context, int argc, sqlite3_value **argv) {
  enum kv_may_exist answer = KV_UNKNOWN;
  char *message = NULL;
  if (argc < 2 || sqlite3_value_type(argv[0]) != SQLITE_TEXT) {
    sqlite3_result_error(context, "colfam_may_exist takes a table's name and a key: ('t', key...)",
                         -1);
    return;
  }
  bool kept;
  struct colfam_anchor *anchor = anchor_of(context, &kept);
  const char *name = (const char *)sqlite3_value_text(argv[0]);
  int rc = SQLITE_NOMEM;
  if (anchor && name) rc = colfam_anchor_again(sqlite3_user_data(context), name, anchor, &message);
  if (!rc) {
    rc = probe(anchor, argc - 1, argv + 1, &answer, &message);
    colfam_anchor_rest(anchor);
  }
  if (rc) {
    colfam_result_error(context, rc, message);
  } else if (answer != KV_UNKNOWN) {
    sqlite3_result_int(context, answer == KV_PRESENT);
  }
  if (anchor && !kept) sqlite3_set_auxdata(context, 0, anchor, free_anchor);
}

struct function {
  const char *name;
  int argc;
  int flags;
  bool harmless; /* restricted connections have it too */
  void (*call)(sqlite3_context *, int, sqlite3_value **);
};

static const struct function functions[] = {
    {"colfam_version", 0, SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS, true, version_function},
    {"colfam_debug", 0, 0, true, debug_function},
    {"colfam_may_exist", -1, 0, true, may_exist_function},
    {"colfam_config", 1, SQLITE_DIRECTONLY, false, colfam_config_function},
    {"colfam_config", 2, SQLITE_DIRECTONLY, false, colfam_config_function},
    {"colfam_api", 1, SQLITE_DIRECTONLY, false, colfam_api_function},
};

static const struct colfam_tvf *const tables[] = {
    &colfam_stats_tvf,
    &colfam_families_tvf,
    &colfam_files_tvf,
    &colfam_check_tvf,
};

static const struct colfam_work *const works[] = {
    &colfam_flush_work,
    &colfam_compact_work,
    &colfam_backup_work,
};

static int register_function(struct colfam_conn *conn, const struct function *f) {
  /* On failure too SQLite calls the destructor. */
  return sqlite3_create_function_v2(conn->db, f->name, f->argc, SQLITE_UTF8 | f->flags,
                                    colfam_conn_ref(conn), f->call, NULL, NULL, colfam_conn_unref);
}

int colfam_functions_register(struct colfam_conn *conn) {
  bool all = !conn->readonly;
  int rc = SQLITE_OK;
  for (size_t i = 0; i < sizeof functions / sizeof *functions && !rc; i++)
    if (all || functions[i].harmless) rc = register_function(conn, &functions[i]);
  for (size_t i = 0; i < sizeof tables / sizeof *tables && !rc; i++)
    if (all || tables[i]->harmless) rc = colfam_tvf_register(conn, tables[i]);
  for (size_t i = 0; i < sizeof works / sizeof *works && !rc && all; i++)
    rc = colfam_work_register(conn, works[i]);
  if (!rc && all) rc = colfam_salvage_register(conn);
  return rc;
}
