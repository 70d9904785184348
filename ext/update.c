/* One row at a time, all or nothing: every check comes before the first change of the batch, and the one
** change after another (delete the old key, put the new one) is taken back when the second fails. SQLite
** opens no statement savepoint for a single-row INSERT. */
#include "update.h"

#include <limits.h>
#include <string.h>

#include "error.h"
#include "row.h"
#include "table.h"
#include "txn.h"
#include "vtab.h"

struct colfam_update_scratch {
  struct kv_buf old_key;
  struct colfam_row row;
};

struct change {
  struct colfam_vtab *vtab;
  const struct colfam_schema *schema;
  struct colfam_txn *txn;
  int on_conflict;
  bool has_old;                     /* UPDATE, DELETE */
  struct colfam_update_scratch *at; /* old key and new row */
  sqlite3_int64 rowid;              /* rowid tables: of the new row */
  bool rowid_is_free;               /* it was chosen because no row has it */
};

static int exists(struct change *change, struct kv_slice key, bool *found) {
  struct kv_err err;
  kv_err_init(&err);
  kv_status status = kv_exists(change->txn->view, change->txn->batch, key, found, &err);
  return status == KV_OK ? SQLITE_OK : colfam_vtab_fail(change->vtab, status, &err);
}

/* ---- Rowids */

/* An empty table has none, and none is remembered. */
static int find_max_rowid(struct change *change) {
  struct colfam_txn *txn = change->txn;
  struct kv_err err;
  kv_err_init(&err);
  struct kv_scan *scan = NULL;
  struct kv_bounds all = {{NULL, 0}, {NULL, 0}, false};
  kv_status status = kv_scan_open(txn->view, txn->batch, &all, &scan, &err);
  if (status == KV_OK)
    status = change->schema->reverse ? kv_scan_first(scan, &err) : kv_scan_last(scan, &err);
  int rc = status == KV_OK ? SQLITE_OK : colfam_vtab_fail(change->vtab, status, &err);
  if (rc == SQLITE_OK) {
    bool any = kv_scan_valid(scan);
    if (any) rc = colfam_rowid_of_key(change->schema, kv_scan_key(scan), &txn->rowid_max);
    txn->rowid_known = any && rc == SQLITE_OK;
  }
  kv_scan_close(scan);
  return rc;
}

/* As SQLite: beyond the largest rowid, unused ones are searched at random. */
static int random_rowid(struct change *change) {
  for (int tries = 0; tries < 100; tries++) {
    sqlite3_int64 rowid;
    sqlite3_randomness(sizeof rowid, &rowid);
    rowid &= LLONG_MAX >> 1;
    rowid++;
    struct kv_buf key;
    kv_buf_init(&key);
    colfam_rowid_key(change->schema, &key, rowid);
    bool found = true;
    int rc = key.status == KV_OK ? exists(change, kv_buf_slice(&key), &found) : SQLITE_NOMEM;
    kv_buf_release(&key);
    if (rc != SQLITE_OK) return rc;
    change->rowid = rowid;
    if (!found) return SQLITE_OK;
  }
  return colfam_vtab_error(change->vtab, SQLITE_FULL,
                           "database or disk is full: no free rowid in table %s",
                           change->schema->label);
}

static int assign_rowid(struct change *change) {
  struct colfam_txn *txn = change->txn;
  int rc = txn->rowid_known ? SQLITE_OK : find_max_rowid(change);
  if (rc != SQLITE_OK) return rc;
  if (txn->rowid_known && txn->rowid_max == LLONG_MAX) return random_rowid(change);
  change->rowid = txn->rowid_known ? txn->rowid_max + 1 : 1;
  return SQLITE_OK;
}

/* SQLite's OP_MustBeInt: what a rowid may be given as. */
static int take_rowid(struct change *change, sqlite3_value *value) {
  struct kv_datum datum;
  int rc = colfam_datum_stored(value, COLFAM_AFF_INTEGER, &datum);
  if (rc != SQLITE_OK) return rc;
  if (datum.type != KV_INTEGER)
    return colfam_vtab_error(change->vtab, SQLITE_MISMATCH, "datatype mismatch");
  change->rowid = datum.integer;
  return SQLITE_OK;
}

/* argv[0] old rowid or NULL, argv[1] new rowid or NULL, then the columns. */
static int new_rowid(struct change *change, sqlite3_value **argv) {
  int alias = change->schema->rowid_column;
  sqlite3_value *given = argv[1];
  if (change->has_old) {
    sqlite3_int64 old = sqlite3_value_int64(argv[0]);
    bool moved =
        sqlite3_value_type(argv[1]) != SQLITE_INTEGER || sqlite3_value_int64(argv[1]) != old;
    if (!moved && alias >= 0) given = argv[2 + alias];
    return take_rowid(change, given);
  }
  if (sqlite3_value_type(given) == SQLITE_NULL && alias >= 0) given = argv[2 + alias];
  change->rowid_is_free = sqlite3_value_type(given) == SQLITE_NULL;
  return change->rowid_is_free ? assign_rowid(change) : take_rowid(change, given);
}

/* ---- Constraints, in SQLite's wording */

static int fail_not_null(struct change *change, int column) {
  return colfam_vtab_error(change->vtab, SQLITE_CONSTRAINT_NOTNULL,
                           "NOT NULL constraint failed: %s.%s", change->schema->table,
                           change->schema->columns[column].name);
}

static int fail_unique(struct change *change) {
  const struct colfam_schema *schema = change->schema;
  if (schema->key_form == COLFAM_KEY_ROWID) {
    int alias = schema->rowid_column;
    return colfam_vtab_error(change->vtab,
                             alias >= 0 ? SQLITE_CONSTRAINT_PRIMARYKEY : SQLITE_CONSTRAINT_ROWID,
                             "UNIQUE constraint failed: %s.%s", schema->table,
                             alias >= 0 ? schema->columns[alias].name : "rowid");
  }
  sqlite3_str *names = sqlite3_str_new(change->vtab->conn->db);
  for (int i = 0; i < schema->key_count; i++)
    sqlite3_str_appendf(names, "%s%s.%s", i ? ", " : "", schema->table,
                        schema->columns[schema->key_columns[i]].name);
  char *text = sqlite3_str_finish(names);
  if (!text) return SQLITE_NOMEM;
  int rc = colfam_vtab_error(change->vtab, SQLITE_CONSTRAINT_PRIMARYKEY,
                             "UNIQUE constraint failed: %s", text);
  sqlite3_free(text);
  return rc;
}

/* ---- Keys */

static int encode_old_key(struct change *change, sqlite3_value *value) {
  const struct colfam_schema *schema = change->schema;
  change->has_old = true;
  kv_buf_clear(&change->at->old_key);
  if (schema->key_form == COLFAM_KEY_ROWID) {
    colfam_rowid_key(schema, &change->at->old_key, sqlite3_value_int64(value));
  } else if (schema->key_form == COLFAM_KEY_HIDDEN) {
    kv_buf_append(&change->at->old_key, sqlite3_value_blob(value),
                  (size_t)sqlite3_value_bytes(value));
  } else {
    struct kv_datum datum;
    enum colfam_affinity affinity = schema->columns[schema->key_columns[0]].affinity;
    int rc = colfam_datum_stored(value, affinity, &datum);
    if (rc != SQLITE_OK) return rc;
    kv_key_append(&change->at->old_key, colfam_schema_key_part(schema, 0), &datum);
  }
  return change->at->old_key.status == KV_OK ? SQLITE_OK : SQLITE_NOMEM;
}

static int set_new_row(struct change *change, sqlite3_value **argv, const struct kv_value *old) {
  int rc = colfam_row_set(&change->at->row, change->schema, argv + 2);
  if (rc == SQLITE_OK && old->found)
    rc = colfam_row_complete(&change->at->row, change->schema, argv + 2, old->bytes);
  if (rc != SQLITE_CORRUPT_VTAB) return rc;
  return colfam_vtab_error(change->vtab, rc, "table %s: the value of a row is damaged",
                           change->schema->label);
}

/* Columns to row, key and value, with the checks that an ordinary table makes before it looks for
** conflicts. `old` has the value of the row before, when it was fetched. */
static int encode_new_row(struct change *change, sqlite3_value **argv, const struct kv_value *old) {
  const struct colfam_schema *schema = change->schema;
  int rc = set_new_row(change, argv, old);
  if (rc == SQLITE_OK && schema->key_form == COLFAM_KEY_ROWID) rc = new_rowid(change, argv);
  if (rc != SQLITE_OK) return rc;
  int null_column = colfam_row_null_column(&change->at->row, schema);
  if (null_column >= 0) return fail_not_null(change, null_column);
  rc = colfam_row_encode_key(&change->at->row, schema, change->rowid);
  if (rc == SQLITE_TOOBIG)
    return colfam_vtab_error(change->vtab, rc,
                             "table %s: a key may have at most %d bytes when encoded",
                             schema->label, KV_KEY_BYTES_MAX);
  return rc == SQLITE_OK ? colfam_row_encode_value(&change->at->row, schema) : rc;
}

/* ---- Writes */

/* What is known of the key of the row that is put. */
enum taken { FREE, TAKEN, NOT_LOOKED };

/* Rows that nobody has looked for are counted in groups, at the latest by xSync. */
static int put(struct change *change, enum taken taken) {
  struct kv_batch *batch = change->txn->batch;
  struct kv_slice key = kv_buf_slice(&change->at->row.key);
  struct kv_slice value = kv_buf_slice(&change->at->row.value);
  struct kv_err err;
  kv_err_init(&err);
  kv_status status = KV_OK;
  if (taken != NOT_LOOKED) {
    status = kv_batch_put(batch, key, value, taken == FREE, &err);
  } else {
    if (kv_batch_uncounted(batch) == KV_UNCOUNTED_MAX)
      status = kv_count_rows(change->txn->view, batch, &err);
    if (status == KV_OK) status = kv_batch_put_uncounted(batch, key, value, &err);
  }
  return status == KV_OK ? SQLITE_OK : colfam_vtab_fail(change->vtab, status, &err);
}

static int delete_old(struct change *change) {
  struct kv_err err;
  kv_err_init(&err);
  kv_status status =
      kv_batch_delete(change->txn->batch, kv_buf_slice(&change->at->old_key), -1, &err);
  return status == KV_OK ? SQLITE_OK : colfam_vtab_fail(change->vtab, status, &err);
}

/* Whether a row has a key. A new key must be told apart from those that it was compared with. */
static int exists_apart(struct change *change, struct kv_slice key, bool *found) {
  struct kv_err err;
  kv_err_init(&err);
  const struct kv_comparator *by = kv_family_comparator(change->txn->table->family);
  uint64_t faults = kv_custom_faults(by);
  int rc = exists(change, key, found);
  if (rc != SQLITE_OK || !by) return rc;
  kv_status status = kv_custom_check(faults, by, &err);
  return status == KV_OK ? SQLITE_OK : colfam_vtab_fail(change->vtab, status, &err);
}

/* Whether the new key is taken, and what the conflict mode makes of it. Replacing does not look: whether
** rows are counted is fixed for the transaction, since track_rows may change inside it. */
static int resolve_conflict(struct change *change, enum taken *taken) {
  const struct colfam_options *options = &change->txn->table->options;
  bool replace =
      change->on_conflict == SQLITE_REPLACE ||
      (!change->has_old && options->conflict_replace && change->on_conflict == SQLITE_ABORT);
  bool found;
  *taken = FREE;
  if (change->rowid_is_free) return SQLITE_OK;
  *taken = kv_view_rows(change->txn->base) < 0 ? TAKEN : NOT_LOOKED;
  if (replace) return SQLITE_OK;
  int rc = exists_apart(change, kv_buf_slice(&change->at->row.key), &found);
  *taken = FREE;
  return rc == SQLITE_OK && found ? fail_unique(change) : rc;
}

static void note_rowid(struct change *change) {
  struct colfam_txn *txn = change->txn;
  if (txn->rowid_known && change->rowid > txn->rowid_max) txn->rowid_max = change->rowid;
}

static int do_delete(struct change *change) {
  bool found;
  int rc = exists(change, kv_buf_slice(&change->at->old_key), &found);
  if (rc != SQLITE_OK || !found) return rc;
  change->txn->rowid_known = false;
  return delete_old(change);
}

static int do_insert(struct change *change, sqlite3_value **argv, sqlite3_int64 *rowid) {
  static const struct kv_value no_old = {.found = false};
  int rc = encode_new_row(change, argv, &no_old);
  if (rc != SQLITE_OK) return rc;
  enum taken taken;
  rc = resolve_conflict(change, &taken);
  if (rc == SQLITE_OK) rc = put(change, taken);
  if (rc != SQLITE_OK) return rc;
  note_rowid(change);
  bool has_rowid = change->schema->key_form == COLFAM_KEY_ROWID;
  *rowid = has_rowid ? change->rowid : sqlite3_last_insert_rowid(change->vtab->conn->db);
  return SQLITE_OK;
}

static int move_row(struct change *change) {
  enum taken taken;
  int rc = resolve_conflict(change, &taken);
  if (rc != SQLITE_OK) return rc;
  struct kv_batch_mark mark = kv_batch_mark(change->txn->batch);
  rc = delete_old(change);
  if (rc == SQLITE_OK) rc = put(change, taken);
  if (rc != SQLITE_OK) kv_batch_rollback(change->txn->batch, mark);
  change->txn->rowid_known = false;
  return rc;
}

/* Whether the row is there, and its value when some columns keep theirs. */
static int find_old_row(struct change *change, sqlite3_value **argv, struct kv_value *old,
                        bool *found) {
  struct kv_slice key = kv_buf_slice(&change->at->old_key);
  if (!colfam_row_is_partial(change->schema, argv + 2)) return exists(change, key, found);
  struct kv_err err;
  kv_err_init(&err);
  kv_status status = kv_get(change->txn->view, change->txn->batch, key, old, &err);
  *found = old->found;
  return status == KV_OK ? SQLITE_OK : colfam_vtab_fail(change->vtab, status, &err);
}

/* A row that an earlier step of the same statement replaced is no longer there to be updated. */
static int do_update(struct change *change, sqlite3_value **argv) {
  struct kv_value old = {.found = false};
  bool found = false;
  int rc = find_old_row(change, argv, &old, &found);
  if (rc == SQLITE_OK && found) rc = encode_new_row(change, argv, &old);
  kv_value_release(&old);
  if (rc != SQLITE_OK || !found) return rc;
  if (kv_slice_equal(kv_buf_slice(&change->at->old_key), kv_buf_slice(&change->at->row.key)))
    return put(change, TAKEN);
  return move_row(change);
}

/* ---- Commands */

static int set_option(struct change *change, const char *text) {
  struct colfam_table *table = change->txn->table;
  if (!strchr(text, '='))
    return colfam_vtab_error(change->vtab, SQLITE_ERROR,
                             "table %s: unknown command \"%.80s\": flush, compact, or option=value",
                             change->schema->label, text);
  struct colfam_options options = table->options;
  char **message = &change->vtab->base.zErrMsg;
  const char *name;
  char value[64];
  int rc = colfam_options_change(&options, text, &name, value, message);
  if (rc == SQLITE_ERROR)
    rc = colfam_vtab_error(change->vtab, rc, "table %s: %s", change->schema->label, *message);
  if (rc != SQLITE_OK) return rc;
  change->txn->options_changed = true;
  rc = colfam_catalog_put_option(&table->catalog, name, value, message);
  if (rc == SQLITE_OK) table->options = options;
  return rc;
}

static int do_command(struct change *change, sqlite3_value *value) {
  const char *text = (const char *)sqlite3_value_text(value);
  if (!text) return SQLITE_NOMEM;
  char **message = &change->vtab->base.zErrMsg;
  if (sqlite3_stricmp(text, "flush") == 0)
    return colfam_txn_command(change->txn, KV_JOB_FLUSH, message);
  if (sqlite3_stricmp(text, "compact") == 0)
    return colfam_txn_command(change->txn, KV_JOB_COMPACT, message);
  return set_option(change, text);
}

static bool is_null(sqlite3_value *value) {
  return sqlite3_value_type(value) == SQLITE_NULL;
}

/* A row beside a command would get lost, and so would a command in an UPDATE. */
static int check_command(struct change *change, int argc, sqlite3_value **argv) {
  bool alone = is_null(argv[0]);
  int command = 2 + change->schema->command_column;
  for (int i = 1; i < argc; i++) alone = alone && (i == command || is_null(argv[i]));
  if (alone) return SQLITE_OK;
  return colfam_vtab_error(change->vtab, SQLITE_ERROR,
                           "table %s: a command is given by an INSERT into its column alone, "
                           "not by UPDATE and not beside values of other columns",
                           change->schema->label);
}

static bool is_same_blob(sqlite3_value *a, sqlite3_value *b) {
  if (sqlite3_value_type(b) != SQLITE_BLOB) return false;
  const void *bytes = sqlite3_value_blob(a), *others = sqlite3_value_blob(b);
  int size = sqlite3_value_bytes(a);
  if (size != sqlite3_value_bytes(b)) return false;
  return size == 0 || (bytes && others && memcmp(bytes, others, (size_t)size) == 0);
}

static int refuse_value(struct change *change, const char *column, const char *reason) {
  return colfam_vtab_error(change->vtab, SQLITE_ERROR, "table %s: %s takes no value: %s",
                           change->schema->table, column, reason);
}

/* Values of hidden columns would get lost. */
static int check_hidden(struct change *change, sqlite3_value **argv) {
  if (!is_null(argv[2 + change->schema->keys_column]))
    return refuse_value(change, "colfam_keys", "it is for SELECT ... WHERE colfam_keys = ?");
  if (change->schema->key_form != COLFAM_KEY_HIDDEN) return SQLITE_OK;
  sqlite3_value *key = argv[2 + change->schema->hidden_key];
  if (is_null(argv[0]) ? is_null(key) : is_same_blob(argv[0], key)) return SQLITE_OK;
  return refuse_value(change, "colfam_key", "it is made of the columns of the key");
}

static int apply(struct change *change, int argc, sqlite3_value **argv, sqlite3_int64 *rowid) {
  if (argc == 1) {
    int rc = encode_old_key(change, argv[0]);
    return rc == SQLITE_OK ? do_delete(change) : rc;
  }
  sqlite3_value *command = argv[2 + change->schema->command_column];
  int rc = is_null(command) ? check_hidden(change, argv) : check_command(change, argc, argv);
  if (rc != SQLITE_OK) return rc;
  if (!is_null(argv[0])) {
    rc = encode_old_key(change, argv[0]);
    return rc == SQLITE_OK ? do_update(change, argv) : rc;
  }
  if (is_null(command)) return do_insert(change, argv, rowid);
  *rowid = sqlite3_last_insert_rowid(change->vtab->conn->db);
  return do_command(change, command);
}

/* Made by a vtab's first write: no allocation a row afterwards. */
static int make_scratch(struct colfam_vtab *vtab) {
  if (vtab->scratch) return SQLITE_OK;
  struct colfam_update_scratch *scratch = sqlite3_malloc64(sizeof *scratch);
  if (!scratch) return SQLITE_NOMEM;
  kv_buf_init(&scratch->old_key);
  vtab->scratch = scratch;
  return colfam_row_init(&scratch->row, vtab->schema);
}

void colfam_update_release(struct colfam_vtab *vtab) {
  if (!vtab->scratch) return;
  colfam_row_release(&vtab->scratch->row);
  kv_buf_release(&vtab->scratch->old_key);
  sqlite3_free(vtab->scratch);
  vtab->scratch = NULL;
}

/* Options that a ROLLBACK TO of this transaction may have undone. */
static int settle_options(struct colfam_vtab *vtab) {
  if (!vtab->table->options_stale) return SQLITE_OK;
  int rc = colfam_vtab_open(vtab);
  return rc == SQLITE_OK ? colfam_table_settle_options(vtab->table, &vtab->base.zErrMsg) : rc;
}

int colfam_update(sqlite3_vtab *base, int argc, sqlite3_value **argv, sqlite3_int64 *rowid) {
  struct colfam_vtab *vtab = (struct colfam_vtab *)base;
  if (!vtab->table || !vtab->table->txn) return SQLITE_MISUSE;
  if (vtab->table->txn->poisoned) return SQLITE_NOMEM;
  int rc = colfam_conn_refuse_fork(vtab->conn, &vtab->base.zErrMsg);
  if (rc != SQLITE_OK) return rc;
  rc = colfam_conn_refuse(vtab->conn, vtab->schema->table, &vtab->base.zErrMsg);
  if (rc != SQLITE_OK) return rc;
  rc = make_scratch(vtab);
  if (rc != SQLITE_OK) {
    colfam_update_release(vtab);
    return rc;
  }
  rc = settle_options(vtab);
  if (rc == SQLITE_OK) rc = colfam_spill_if_full(vtab->table->txn, &vtab->base.zErrMsg);
  if (rc != SQLITE_OK) return rc;
  struct change change = {.vtab = vtab,
                          .schema = vtab->schema,
                          .txn = vtab->table->txn,
                          .on_conflict = sqlite3_vtab_on_conflict(vtab->conn->db),
                          .at = vtab->scratch};
  return apply(&change, argc, argv, rowid);
}
