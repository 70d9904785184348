/* See cursor.h. Three steps: xFilter gathers keys or ranges (lookup.c), makes one call of the engine, and
** the rest hands out. What is handed out is one of
**
**   one    the answer of a get or exists;
**   keys   answers of a multi-get, in key order;
**   walk   the rows of one range or several (walk.c);
**   count  as many rows as the table has, for count(*): no row is looked at.
**
** When ORDER BY was consumed counting leading key columns as constant, and a number stands for several
** texts there (lookup.c), rows are ordered by what follows these columns.
** A get takes no reference of its own to what it reads: its value holds what keeps its bytes.
** A count cursor that is asked for a column after all becomes a walk at its position.
** Thread rule: the connection's. */
#include "cursor.h"

#include <stdlib.h>
#include <string.h>

#include "engine/kv.h"
#include "error.h"
#include "lend.h"
#include "lookup.h"
#include "plan.h"
#include "row.h"
#include "txn.h"
#include "vtab.h"
#include "walk.h"

enum mode { MODE_EMPTY, MODE_ONE, MODE_KEYS, MODE_WALK, MODE_COUNT };

/* Where a key stands when keys are ordered by their last columns. */
struct place {
  struct kv_slice rest; /* of the key, behind the columns that do not order */
  size_t index;
};

struct colfam_cursor {
  sqlite3_vtab_cursor base; /* first: SQLite's */
  struct colfam_plan plan;
  int plan_code;        /* of `plan` */
  struct kv_view *view; /* references, or NULL */
  struct kv_batch *batch;
  struct colfam_lookup lookup;
  enum mode mode;
  size_t at; /* keys: position in the order handed out; count: rows handed out */
  /* One */
  struct kv_value value;
  bool value_missing; /* exists: the key is there, the value was not fetched */
  struct colfam_lender lender;
  /* Keys */
  struct kv_result *result;
  struct place *places; /* NULL: in key order */
  /* Walk */
  struct colfam_walk walk;
  /* Count */
  int64_t rows;
  struct colfam_cursor *next_spare;
};

/* What closed cursors keep: SQLite may open a new one for each row of an outer table, and closes the last
** one only then. */
enum { SPARES_MAX = 2, SPARE_BYTES_MAX = 65536 };

static struct colfam_vtab *vtab_of(struct colfam_cursor *cursor) {
  return (struct colfam_vtab *)cursor->base.pVtab;
}

static const struct colfam_schema *schema_of(struct colfam_cursor *cursor) {
  return vtab_of(cursor)->schema;
}

static int fail(struct colfam_cursor *cursor, kv_status status, const struct kv_err *err) {
  return colfam_vtab_fail(vtab_of(cursor), status, err);
}

/* ---- Open and close */

/* Nothing but a value is held without a view. */
static void release_view(struct colfam_cursor *cursor) {
  colfam_walk_release(&cursor->walk);
  sqlite3_free(cursor->places);
  kv_result_free(cursor->result);
  kv_view_unref(cursor->view);
  kv_batch_unref(cursor->batch);
  cursor->places = NULL;
  cursor->result = NULL;
  cursor->view = NULL;
  cursor->batch = NULL;
}

static void reset(struct colfam_cursor *cursor) {
  if (cursor->view) release_view(cursor);
  if (cursor->value.found) kv_value_release(&cursor->value);
  cursor->at = 0;
  cursor->value_missing = false;
  cursor->mode = MODE_EMPTY;
}

static void free_cursor(struct colfam_cursor *cursor) {
  colfam_lookup_release(&cursor->lookup);
  colfam_lender_release(&cursor->lender);
  sqlite3_free(cursor);
}

int colfam_cursor_open(sqlite3_vtab *base, sqlite3_vtab_cursor **out) {
  struct colfam_vtab *vtab = (struct colfam_vtab *)base;
  struct colfam_cursor *cursor = vtab->spare_cursors;
  if (cursor) {
    vtab->spare_cursors = cursor->next_spare;
  } else {
    cursor = sqlite3_malloc64(sizeof *cursor);
    if (!cursor) return SQLITE_NOMEM;
    memset(cursor, 0, sizeof *cursor);
    colfam_plan_decode(cursor->plan_code, &cursor->plan);
  }
  *out = &cursor->base;
  return SQLITE_OK;
}

static bool may_keep(const struct colfam_cursor *cursor, const struct colfam_vtab *vtab) {
  int count = 0;
  for (const struct colfam_cursor *at = vtab->spare_cursors; at; at = at->next_spare) count++;
  return count < SPARES_MAX && colfam_lookup_memory(&cursor->lookup) <= SPARE_BYTES_MAX;
}

int colfam_cursor_close(sqlite3_vtab_cursor *base) {
  struct colfam_cursor *cursor = (struct colfam_cursor *)base;
  struct colfam_vtab *vtab = vtab_of(cursor);
  reset(cursor);
  if (may_keep(cursor, vtab)) {
    cursor->next_spare = vtab->spare_cursors;
    vtab->spare_cursors = cursor;
  } else {
    free_cursor(cursor);
  }
  return SQLITE_OK;
}

void colfam_cursor_free_spares(struct colfam_vtab *vtab) {
  while (vtab->spare_cursors) {
    struct colfam_cursor *cursor = vtab->spare_cursors;
    vtab->spare_cursors = cursor->next_spare;
    free_cursor(cursor);
  }
}

/* Rows are ordered by the last columns of their keys. */
static bool cuts_prefix(const struct colfam_cursor *cursor) {
  return cursor->plan.order_from && cursor->lookup.widened;
}

/* ---- Keys */

static size_t key_index(const struct colfam_cursor *cursor) {
  size_t at = cursor->plan.backwards ? cursor->lookup.key_count - 1 - cursor->at : cursor->at;
  return cursor->places ? cursor->places[at].index : at;
}

static void skip_absent_keys(struct colfam_cursor *cursor) {
  while (cursor->at < cursor->lookup.key_count &&
         !kv_result_found(cursor->result, key_index(cursor), NULL))
    cursor->at++;
}

static int compare_places(const void *a, const void *b) {
  const struct place *x = a, *y = b;
  int order = kv_slice_compare(x->rest, y->rest);
  if (order) return order;
  return (x->index > y->index) - (x->index < y->index);
}

static int sort_keys_by_rest(struct colfam_cursor *cursor) {
  size_t count = cursor->lookup.key_count;
  struct kv_err err;
  kv_err_init(&err);
  cursor->places = sqlite3_malloc64(sizeof *cursor->places * count);
  if (!cursor->places) return SQLITE_NOMEM;
  for (size_t i = 0; i < count; i++) {
    struct place *place = &cursor->places[i];
    *place = (struct place){cursor->lookup.keys[i], i};
    kv_status status =
        colfam_key_cut(schema_of(cursor), cursor->plan.order_from, &place->rest, &err);
    if (status != KV_OK) return fail(cursor, status, &err);
  }
  qsort(cursor->places, count, sizeof *cursor->places, compare_places);
  return SQLITE_OK;
}

static int get_many(struct colfam_cursor *cursor) {
  struct kv_err err;
  kv_err_init(&err);
  kv_status status = kv_multi_get_heads(cursor->view, cursor->batch, cursor->lookup.keys,
                                        cursor->lookup.key_count, &cursor->result, &err);
  if (status != KV_OK) return fail(cursor, status, &err);
  return cuts_prefix(cursor) ? sort_keys_by_rest(cursor) : SQLITE_OK;
}

static int start_keys(struct colfam_cursor *cursor) {
  int rc = get_many(cursor);
  if (rc != SQLITE_OK) return rc;
  cursor->mode = MODE_KEYS;
  skip_absent_keys(cursor);
  return SQLITE_OK;
}

/* ---- Walk */

/* Reads nothing yet. */
static int open_walk(struct colfam_cursor *cursor) {
  struct kv_err err;
  kv_err_init(&err);
  cursor->walk =
      (struct colfam_walk){.view = cursor->view,
                           .batch = cursor->batch,
                           .ranges = &cursor->lookup.ranges,
                           .schema = schema_of(cursor),
                           .backwards = cursor->plan.backwards,
                           .order_from = cuts_prefix(cursor) ? cursor->plan.order_from : 0};
  kv_status status = colfam_walk_open(&cursor->walk, &err);
  return status == KV_OK ? SQLITE_OK : fail(cursor, status, &err);
}

static int start_walk(struct colfam_cursor *cursor) {
  struct kv_err err;
  kv_err_init(&err);
  int rc = cursor->walk.count ? SQLITE_OK : open_walk(cursor);
  if (rc != SQLITE_OK) return rc;
  cursor->mode = MODE_WALK;
  kv_status status = colfam_walk_start(&cursor->walk, &err);
  return status == KV_OK ? SQLITE_OK : fail(cursor, status, &err);
}

static int next_of_walk(struct colfam_cursor *cursor) {
  struct kv_err err;
  kv_err_init(&err);
  kv_status status = colfam_walk_next(&cursor->walk, &err);
  return status == KV_OK ? SQLITE_OK : fail(cursor, status, &err);
}

/* ---- Count */

/* A pending batch may change before a column is asked for: the walk that would give it is opened. */
static int start_count(struct colfam_cursor *cursor) {
  struct colfam_vtab *vtab = vtab_of(cursor);
  cursor->rows = kv_view_rows(cursor->view);
  cursor->mode = MODE_COUNT;
  if (!cursor->batch) return SQLITE_OK;
  int rc = colfam_txn_count_rows(vtab->table->txn, &vtab->base.zErrMsg);
  if (rc != SQLITE_OK) return rc;
  cursor->rows += kv_batch_rows_delta(cursor->batch);
  return kv_batch_count(cursor->batch) ? open_walk(cursor) : SQLITE_OK;
}

static int count_to_walk(struct colfam_cursor *cursor) {
  size_t skip = cursor->at;
  int rc = start_walk(cursor);
  for (; rc == SQLITE_OK && skip && colfam_walk_valid(&cursor->walk); skip--)
    rc = next_of_walk(cursor);
  if (rc == SQLITE_OK && !colfam_walk_valid(&cursor->walk))
    rc =
        colfam_vtab_error(vtab_of(cursor), SQLITE_CORRUPT_VTAB,
                          "table %s: fewer rows than its row count says", schema_of(cursor)->table);
  return rc;
}

/* ---- One key */

/* An exists may have to fetch the value later on, but for a key that tells its column by itself. */
static void hold_for_value(struct colfam_cursor *cursor, struct kv_view *view,
                           struct kv_batch *batch) {
  if (cursor->view || !cursor->value_missing || cursor->lookup.plain.type != KV_NULL) return;
  cursor->view = kv_view_ref(view);
  cursor->batch = batch ? kv_batch_ref(batch) : NULL;
}

static int get_one(struct colfam_cursor *cursor, struct kv_view *view, struct kv_batch *batch) {
  struct kv_err err;
  kv_err_init(&err);
  kv_status status;
  struct kv_slice key = cursor->lookup.keys[0];
  if (cursor->plan.kind == COLFAM_PLAN_EXISTS) {
    status = kv_exists(view, batch, key, &cursor->value_missing, &err);
    hold_for_value(cursor, view, batch);
  } else {
    status = kv_get_head(view, batch, key, &cursor->value, &err);
  }
  if (status != KV_OK) return fail(cursor, status, &err);
  if (cursor->value.found || cursor->value_missing) cursor->mode = MODE_ONE;
  return SQLITE_OK;
}

/* Functions of the application's may do anything between two comparisons, even end the transaction. */
static bool may_borrow(const struct colfam_vtab *vtab) {
  return !vtab->schema->custom;
}

static int get_borrowing(struct colfam_cursor *cursor) {
  struct colfam_vtab *vtab = vtab_of(cursor);
  struct kv_view *view;
  int rc = colfam_table_borrow_view(vtab->table, &view, &vtab->base.zErrMsg);
  if (rc != SQLITE_OK) return rc;
  rc = get_one(cursor, view, colfam_table_batch(vtab->table));
  colfam_table_give_back(vtab->table, view);
  return rc;
}

/* ---- Walking */

static int take_view(struct colfam_cursor *cursor) {
  struct kv_batch *batch;
  int rc = colfam_vtab_view(vtab_of(cursor), &cursor->view, &batch);
  if (rc == SQLITE_OK && batch) cursor->batch = kv_batch_ref(batch);
  return rc;
}

static int start_one(struct colfam_cursor *cursor) {
  if (!cursor->lookup.key_count) return SQLITE_OK;
  if (may_borrow(vtab_of(cursor))) return get_borrowing(cursor);
  int rc = take_view(cursor);
  return rc == SQLITE_OK ? get_one(cursor, cursor->view, cursor->batch) : rc;
}

static int start_any(struct colfam_cursor *cursor, sqlite3_value **argv) {
  int rc = take_view(cursor);
  if (rc != SQLITE_OK) return rc;
  cursor->lookup.view = cursor->view;
  cursor->lookup.batch = cursor->batch;
  rc = colfam_lookup_run(&cursor->lookup, &cursor->plan, argv);
  if (rc != SQLITE_OK) return rc;
  if (cursor->lookup.by_key && cursor->lookup.key_count <= 1)
    return cursor->lookup.key_count ? get_one(cursor, cursor->view, cursor->batch) : SQLITE_OK;
  if (cursor->lookup.by_key) return start_keys(cursor);
  if (cursor->plan.kind == COLFAM_PLAN_COUNT && kv_view_rows(cursor->view) >= 0)
    return start_count(cursor);
  return start_walk(cursor);
}

static int start(struct colfam_cursor *cursor, sqlite3_value **argv) {
  bool one = false;
  cursor->lookup.vtab = vtab_of(cursor);
  int rc = colfam_vtab_open(vtab_of(cursor));
  if (rc == SQLITE_OK) rc = colfam_lookup_one(&cursor->lookup, &cursor->plan, argv, &one);
  if (rc != SQLITE_OK) return rc;
  return one ? start_one(cursor) : start_any(cursor, argv);
}

int colfam_cursor_filter(sqlite3_vtab_cursor *base, int idx_num, const char *idx_str, int argc,
                         sqlite3_value **argv) {
  (void)idx_str, (void)argc;
  struct colfam_cursor *cursor = (struct colfam_cursor *)base;
  reset(cursor);
  if (idx_num != cursor->plan_code) colfam_plan_decode(idx_num, &cursor->plan);
  cursor->plan_code = idx_num;
  int rc = start(cursor, argv);
  if (rc != SQLITE_OK) reset(cursor);
  return rc;
}

int colfam_cursor_eof(sqlite3_vtab_cursor *base) {
  const struct colfam_cursor *cursor = (const struct colfam_cursor *)base;
  switch (cursor->mode) {
    case MODE_ONE:
      return cursor->at != 0;
    case MODE_KEYS:
      return cursor->at >= cursor->lookup.key_count;
    case MODE_WALK:
      return !colfam_walk_valid(&cursor->walk);
    case MODE_COUNT:
      return (int64_t)cursor->at >= cursor->rows;
    case MODE_EMPTY:
      break;
  }
  return 1;
}

int colfam_cursor_next(sqlite3_vtab_cursor *base) {
  struct colfam_cursor *cursor = (struct colfam_cursor *)base;
  if (cursor->mode == MODE_WALK) return next_of_walk(cursor);
  cursor->at++;
  if (cursor->mode == MODE_KEYS) skip_absent_keys(cursor);
  return SQLITE_OK;
}

/* ---- The current row */

/* Somebody wants to see the row, of a count too. */
static int show_row(struct colfam_cursor *cursor) {
  return cursor->mode == MODE_COUNT ? count_to_walk(cursor) : SQLITE_OK;
}

static struct kv_slice row_key(const struct colfam_cursor *cursor) {
  if (cursor->mode == MODE_ONE) return cursor->lookup.keys[0];
  return cursor->mode == MODE_KEYS ? cursor->lookup.keys[key_index(cursor)]
                                   : colfam_walk_key(&cursor->walk);
}

/* After an exists, when a column needs the value all the same. */
static int fetch_value(struct colfam_cursor *cursor) {
  struct kv_err err;
  kv_err_init(&err);
  int rc = cursor->view ? SQLITE_OK : take_view(cursor);
  if (rc != SQLITE_OK) return rc;
  kv_status status =
      kv_get_head(cursor->view, cursor->batch, cursor->lookup.keys[0], &cursor->value, &err);
  if (status == KV_OK && !cursor->value.found)
    status = kv_fail(&err, KV_CORRUPT, "a row has gone between two reads of the same state");
  if (status != KV_OK) return fail(cursor, status, &err);
  cursor->value_missing = false;
  return SQLITE_OK;
}

/* What key columns need of the value. */
static int row_head(struct colfam_cursor *cursor, struct kv_slice *head) {
  int rc = SQLITE_OK;
  if (cursor->mode == MODE_WALK) {
    *head = colfam_walk_head(&cursor->walk);
  } else if (cursor->mode == MODE_KEYS) {
    kv_result_found(cursor->result, key_index(cursor), head);
  } else {
    rc = cursor->value_missing ? fetch_value(cursor) : SQLITE_OK;
    *head = kv_value_head(&cursor->value);
  }
  return rc;
}

/* Reads values that are stored apart: of a multi-get all at once. */
static int row_value(struct colfam_cursor *cursor, struct kv_slice *value) {
  struct kv_err err;
  kv_status status;
  *value = cursor->value.bytes;
  if (cursor->value.found && !cursor->value.apart) return SQLITE_OK;
  kv_err_init(&err);
  if (cursor->mode == MODE_WALK) {
    status = colfam_walk_value(&cursor->walk, value, &err);
    return status == KV_OK ? SQLITE_OK : fail(cursor, status, &err);
  }
  int rc = row_head(cursor, value);
  if (rc != SQLITE_OK) return rc;
  status = cursor->mode == MODE_KEYS ? kv_result_load(cursor->result, cursor->lookup.keys, &err)
                                     : kv_value_load(&cursor->value, cursor->lookup.keys[0], &err);
  return status == KV_OK ? row_head(cursor, value) : fail(cursor, status, &err);
}

/* Of many rows the results are copied: the memory is used again from row to row. */
static struct colfam_lender *lender_of(struct colfam_cursor *cursor) {
  return cursor->mode == MODE_ONE ? &cursor->lender : NULL;
}

/* What keeps the bytes of the row's value, when that is a block of the cache. */
static struct kv_cache_entry *pin_of(const struct colfam_cursor *cursor) {
  if (cursor->mode == MODE_KEYS) return kv_result_pin(cursor->result, key_index(cursor));
  return cursor->mode == MODE_ONE ? cursor->value.pin : NULL;
}

/* What decoding a column gave; trouble with reading the row has its own message. */
static int decoded(struct colfam_cursor *cursor, int column, int rc) {
  const struct colfam_schema *schema = schema_of(cursor);
  if (rc != SQLITE_CORRUPT_VTAB) return rc;
  return colfam_vtab_error(vtab_of(cursor), rc, "table %s: column %s of a row is damaged",
                           schema->table, schema->columns[column].name);
}

static int value_column(struct colfam_cursor *cursor, int column, sqlite3_context *context) {
  struct kv_slice value;
  if (sqlite3_vtab_nochange(context)) return SQLITE_OK;
  int rc = row_value(cursor, &value);
  if (rc != SQLITE_OK) return rc;
  rc = colfam_row_result_of_value(schema_of(cursor), value, column, lender_of(cursor),
                                  pin_of(cursor), context);
  return decoded(cursor, column, rc);
}

static int key_column(struct colfam_cursor *cursor, int column, sqlite3_context *context) {
  bool told;
  if (cursor->mode == MODE_ONE && cursor->lookup.plain.type != KV_NULL) {
    colfam_row_result_bytes(&cursor->lookup.plain, &cursor->lender, context);
    return SQLITE_OK;
  }
  struct kv_slice value, key = row_key(cursor);
  struct colfam_lender *lender = lender_of(cursor);
  int rc = colfam_row_result_of_key(schema_of(cursor), key, column, lender, context, &told);
  if (rc != SQLITE_OK || told) return decoded(cursor, column, rc);
  rc = row_head(cursor, &value);
  if (rc != SQLITE_OK) return rc;
  rc = colfam_row_result(schema_of(cursor), key, value, column, lender, context);
  return decoded(cursor, column, rc);
}

/* Commands and lists of keys have no value. */
static int hidden_column(struct colfam_cursor *cursor, int column, sqlite3_context *context) {
  const struct colfam_schema *schema = schema_of(cursor);
  if (column == schema->command_column || column == schema->keys_column) return SQLITE_OK;
  int rc = show_row(cursor);
  if (rc != SQLITE_OK) return rc;
  struct kv_slice key = row_key(cursor);
  sqlite3_result_blob64(context, key.data, key.size, SQLITE_TRANSIENT);
  return SQLITE_OK;
}

int colfam_cursor_column(sqlite3_vtab_cursor *base, sqlite3_context *context, int column) {
  struct colfam_cursor *cursor = (struct colfam_cursor *)base;
  const struct colfam_schema *schema = schema_of(cursor);
  if (column >= schema->column_count) return hidden_column(cursor, column, context);
  int rc = show_row(cursor);
  if (rc != SQLITE_OK) return rc;
  bool is_value = schema->columns[column].value_index >= 0;
  return is_value ? value_column(cursor, column, context) : key_column(cursor, column, context);
}

int colfam_cursor_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *rowid) {
  struct colfam_cursor *cursor = (struct colfam_cursor *)base;
  int rc = show_row(cursor);
  if (rc == SQLITE_OK) rc = colfam_rowid_of_key(schema_of(cursor), row_key(cursor), rowid);
  if (rc != SQLITE_CORRUPT_VTAB) return rc;
  return colfam_vtab_error(vtab_of(cursor), rc, "table %s: the key of a row is damaged",
                           schema_of(cursor)->table);
}
