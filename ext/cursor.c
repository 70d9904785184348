/* See cursor.h. Three steps: xFilter gathers keys or ranges (lookup.c), makes one call of the engine, and
** the rest hands out. What is handed out is one of
**
**   keys   answers of get, exists or multi-get, in key order;
**   scan   the rows of one range or several, by one scan over all of them that leaps the gaps: what it sees
**          is fixed when it is opened;
**   count  as many rows as the table has, for count(*): no row is looked at.
**
** When ORDER BY was consumed counting leading key columns as constant, and a number stands for several
** texts there (lookup.c), rows are ordered by what follows these columns: keys are sorted so, and each range
** gets its own scan, to be merged.
** A count cursor that is asked for a column after all becomes a scan at its position.
** Thread rule: the connection's. */
#include "cursor.h"

#include <stdlib.h>
#include <string.h>

#include "engine/kv.h"
#include "error.h"
#include "lookup.h"
#include "plan.h"
#include "row.h"
#include "vtab.h"

enum mode { MODE_EMPTY, MODE_KEYS, MODE_SCAN, MODE_MERGE, MODE_COUNT };

/* Where a key stands when keys are ordered by their last columns. */
struct place {
  struct kv_slice rest; /* of the key, behind the columns that do not order */
  size_t index;
};

struct cursor {
  sqlite3_vtab_cursor base; /* first: SQLite's */
  struct colfam_plan plan;
  struct kv_view *view;
  struct kv_batch *batch;
  struct colfam_lookup lookup;
  enum mode mode;
  size_t at; /* keys: position in the order handed out; count: rows handed out */
  /* Keys. A single one has `value`, more have `result`. */
  struct kv_result *result;
  struct place *places; /* NULL: in key order */
  struct kv_value value;
  bool value_missing; /* exists: the key is there, the value was not fetched */
  /* Scan and merge */
  struct kv_scan **scans;
  size_t scan_count;
  size_t current; /* the scan whose row it is; scan_count at the end */
  size_t range;   /* scan: the range it is in */
  /* Count */
  int64_t rows;
};

static struct colfam_vtab *vtab_of(struct cursor *cursor) {
  return (struct colfam_vtab *)cursor->base.pVtab;
}

static const struct colfam_schema *schema_of(struct cursor *cursor) {
  return vtab_of(cursor)->schema;
}

static int fail(struct cursor *cursor, kv_status status, const struct kv_err *err) {
  return colfam_vtab_fail(vtab_of(cursor), status, err);
}

/* ---- Open and close */

static void reset(struct cursor *cursor) {
  for (size_t i = 0; i < cursor->scan_count; i++) kv_scan_close(cursor->scans[i]);
  sqlite3_free(cursor->scans);
  sqlite3_free(cursor->places);
  kv_result_free(cursor->result);
  kv_value_release(&cursor->value);
  kv_view_unref(cursor->view);
  kv_batch_unref(cursor->batch);
  cursor->scans = NULL;
  cursor->places = NULL;
  cursor->result = NULL;
  cursor->view = NULL;
  cursor->batch = NULL;
  memset(&cursor->value, 0, sizeof cursor->value);
  cursor->scan_count = cursor->current = cursor->range = cursor->at = 0;
  cursor->value_missing = false;
  cursor->mode = MODE_EMPTY;
}

int colfam_cursor_open(sqlite3_vtab *vtab, sqlite3_vtab_cursor **out) {
  (void)vtab;
  struct cursor *cursor = sqlite3_malloc64(sizeof *cursor);
  if (!cursor) return SQLITE_NOMEM;
  memset(cursor, 0, sizeof *cursor);
  *out = &cursor->base;
  return SQLITE_OK;
}

int colfam_cursor_close(sqlite3_vtab_cursor *base) {
  struct cursor *cursor = (struct cursor *)base;
  reset(cursor);
  colfam_lookup_release(&cursor->lookup);
  sqlite3_free(cursor);
  return SQLITE_OK;
}

/* ---- Order by the last columns of the key */

static bool cuts_prefix(const struct cursor *cursor) {
  return cursor->plan.order_from && cursor->lookup.widened;
}

static int cut_prefix(struct cursor *cursor, struct kv_slice *key) {
  struct kv_buf scratch;
  struct kv_datum datum;
  struct kv_err err = {0};
  kv_status status = KV_OK;
  kv_buf_init(&scratch);
  for (int i = 0; i < cursor->plan.order_from && status == KV_OK; i++) {
    kv_buf_clear(&scratch);
    status =
        kv_key_decode(key, colfam_schema_key_part(schema_of(cursor), i), &scratch, &datum, &err);
  }
  kv_buf_release(&scratch);
  return status == KV_OK ? SQLITE_OK : fail(cursor, status, &err);
}

/* ---- Keys */

static size_t key_index(const struct cursor *cursor) {
  size_t at = cursor->plan.backwards ? cursor->lookup.key_count - 1 - cursor->at : cursor->at;
  return cursor->places ? cursor->places[at].index : at;
}

static bool key_found(const struct cursor *cursor) {
  if (cursor->result) return kv_result_found(cursor->result, key_index(cursor), NULL);
  return cursor->value.found || cursor->value_missing;
}

static void skip_absent_keys(struct cursor *cursor) {
  while (cursor->at < cursor->lookup.key_count && !key_found(cursor)) cursor->at++;
}

static int compare_places(const void *a, const void *b) {
  const struct place *x = a, *y = b;
  int order = kv_slice_compare(x->rest, y->rest);
  if (order) return order;
  return (x->index > y->index) - (x->index < y->index);
}

static int sort_keys_by_rest(struct cursor *cursor) {
  size_t count = cursor->lookup.key_count;
  cursor->places = sqlite3_malloc64(sizeof *cursor->places * count);
  if (!cursor->places) return SQLITE_NOMEM;
  for (size_t i = 0; i < count; i++) {
    cursor->places[i] = (struct place){cursor->lookup.keys[i], i};
    int rc = cut_prefix(cursor, &cursor->places[i].rest);
    if (rc != SQLITE_OK) return rc;
  }
  qsort(cursor->places, count, sizeof *cursor->places, compare_places);
  return SQLITE_OK;
}

static int get_one(struct cursor *cursor) {
  struct kv_err err = {0};
  kv_status status;
  struct kv_slice key = cursor->lookup.keys[0];
  if (cursor->plan.kind == COLFAM_PLAN_EXISTS) {
    status = kv_exists(cursor->view, cursor->batch, key, &cursor->value_missing, &err);
  } else {
    status = kv_get(cursor->view, cursor->batch, key, &cursor->value, &err);
  }
  return status == KV_OK ? SQLITE_OK : fail(cursor, status, &err);
}

static int get_many(struct cursor *cursor) {
  struct kv_err err = {0};
  kv_status status = kv_multi_get(cursor->view, cursor->batch, cursor->lookup.keys,
                                  cursor->lookup.key_count, &cursor->result, &err);
  if (status != KV_OK) return fail(cursor, status, &err);
  return cuts_prefix(cursor) ? sort_keys_by_rest(cursor) : SQLITE_OK;
}

static int start_keys(struct cursor *cursor) {
  int rc = cursor->lookup.key_count == 1 ? get_one(cursor) : get_many(cursor);
  if (rc != SQLITE_OK) return rc;
  cursor->mode = MODE_KEYS;
  skip_absent_keys(cursor);
  return SQLITE_OK;
}

/* ---- Scan: one range, or several that follow one another */

static int open_scan(struct cursor *cursor, const struct kv_bounds *bounds) {
  struct kv_err err = {0};
  struct kv_scan *scan = NULL;
  kv_status status = kv_scan_open(cursor->view, cursor->batch, bounds, &scan, &err);
  if (status != KV_OK) return fail(cursor, status, &err);
  cursor->scans[cursor->scan_count++] = scan;
  return SQLITE_OK;
}

static int begin_scan(struct cursor *cursor, struct kv_scan *scan) {
  struct kv_err err = {0};
  kv_status status = cursor->plan.backwards ? kv_scan_last(scan, &err) : kv_scan_first(scan, &err);
  return status == KV_OK ? SQLITE_OK : fail(cursor, status, &err);
}

/* Behind the bounds of a range. */
static bool is_past(const struct kv_bounds *bounds, struct kv_slice key) {
  return bounds->has_upper && kv_slice_compare(key, bounds->upper) >= 0;
}

static bool is_before(const struct kv_bounds *bounds, struct kv_slice key) {
  return kv_slice_compare(key, bounds->lower) < 0;
}

/* Moves on to the next row that is in a range; false at the end. */
static kv_status settle_forwards(struct cursor *cursor, bool *found, struct kv_err *err) {
  struct kv_scan *scan = cursor->scans[0];
  while (kv_scan_valid(scan) && cursor->range < cursor->lookup.range_count) {
    struct kv_bounds bounds = colfam_lookup_range(&cursor->lookup, cursor->range);
    if (is_past(&bounds, kv_scan_key(scan))) {
      cursor->range++;
    } else if (is_before(&bounds, kv_scan_key(scan))) {
      kv_status status = kv_scan_seek(scan, bounds.lower, err);
      if (status != KV_OK) return status;
    } else {
      bool moved;
      size_t range = cursor->range;
      kv_status status = colfam_lookup_skip(&cursor->lookup, range, scan, false, &moved, err);
      *found = status == KV_OK && !moved;
      if (status != KV_OK || !moved) return status;
    }
  }
  *found = false;
  return KV_OK;
}

static kv_status settle_backwards(struct cursor *cursor, bool *found, struct kv_err *err) {
  struct kv_scan *scan = cursor->scans[0];
  while (kv_scan_valid(scan) && cursor->range < cursor->lookup.range_count) {
    size_t range = cursor->lookup.range_count - 1 - cursor->range;
    struct kv_bounds bounds = colfam_lookup_range(&cursor->lookup, range);
    if (is_before(&bounds, kv_scan_key(scan))) {
      cursor->range++;
    } else if (is_past(&bounds, kv_scan_key(scan))) {
      kv_status status = colfam_seek_below(scan, bounds.upper, err);
      if (status != KV_OK) return status;
    } else {
      bool moved;
      kv_status status = colfam_lookup_skip(&cursor->lookup, range, scan, true, &moved, err);
      *found = status == KV_OK && !moved;
      if (status != KV_OK || !moved) return status;
    }
  }
  *found = false;
  return KV_OK;
}

/* The scan's own bounds are those of a single range. */
static int settle(struct cursor *cursor) {
  struct kv_err err = {0};
  bool found = kv_scan_valid(cursor->scans[0]);
  kv_status status = KV_OK;
  if (cursor->lookup.range_count > 1 || cursor->lookup.skips) {
    status = cursor->plan.backwards ? settle_backwards(cursor, &found, &err)
                                    : settle_forwards(cursor, &found, &err);
  }
  if (status != KV_OK) return fail(cursor, status, &err);
  cursor->current = found ? 0 : cursor->scan_count;
  return SQLITE_OK;
}

/* One scan over all ranges. */
static int open_whole_scan(struct cursor *cursor) {
  cursor->scans = sqlite3_malloc64(sizeof *cursor->scans);
  if (!cursor->scans) return SQLITE_NOMEM;
  struct kv_bounds all = colfam_lookup_range(&cursor->lookup, 0);
  struct kv_bounds last = colfam_lookup_range(&cursor->lookup, cursor->lookup.range_count - 1);
  all.upper = last.upper;
  all.has_upper = last.has_upper;
  return open_scan(cursor, &all);
}

static int start_scan(struct cursor *cursor) {
  cursor->mode = MODE_SCAN;
  if (!cursor->lookup.range_count) return SQLITE_OK;
  int rc = cursor->scan_count ? SQLITE_OK : open_whole_scan(cursor);
  if (rc == SQLITE_OK) rc = begin_scan(cursor, cursor->scans[0]);
  return rc == SQLITE_OK ? settle(cursor) : rc;
}

/* ---- Merge: ranges ordered by the last columns of their keys */

static int compare_scans(struct cursor *cursor, const struct kv_scan *a, const struct kv_scan *b,
                         int *order) {
  struct kv_slice x = kv_scan_key(a), y = kv_scan_key(b);
  int rc = cut_prefix(cursor, &x);
  if (rc == SQLITE_OK) rc = cut_prefix(cursor, &y);
  *order = rc == SQLITE_OK ? kv_slice_compare(x, y) : 0;
  if (cursor->plan.backwards) *order = -*order;
  return rc;
}

static int choose_scan(struct cursor *cursor) {
  size_t best = cursor->scan_count;
  for (size_t i = 0; i < cursor->scan_count; i++) {
    int order = -1;
    if (!kv_scan_valid(cursor->scans[i])) continue;
    if (best < cursor->scan_count) {
      int rc = compare_scans(cursor, cursor->scans[i], cursor->scans[best], &order);
      if (rc != SQLITE_OK) return rc;
    }
    if (order < 0) best = i;
  }
  cursor->current = best;
  return SQLITE_OK;
}

/* A scan has its range's bounds: on to the next key in it that is wanted. */
static int settle_scan(struct cursor *cursor, size_t index) {
  struct kv_scan *scan = cursor->scans[index];
  struct kv_err err = {0};
  kv_status status = KV_OK;
  bool moved = true;
  while (status == KV_OK && moved && kv_scan_valid(scan))
    status = colfam_lookup_skip(&cursor->lookup, index, scan, cursor->plan.backwards, &moved, &err);
  return status == KV_OK ? SQLITE_OK : fail(cursor, status, &err);
}

static int start_merge(struct cursor *cursor) {
  size_t count = cursor->lookup.range_count;
  int rc = SQLITE_OK;
  cursor->mode = MODE_MERGE;
  cursor->scans = sqlite3_malloc64(sizeof *cursor->scans * (count + 1));
  if (!cursor->scans) return SQLITE_NOMEM;
  for (size_t i = 0; i < count && rc == SQLITE_OK; i++) {
    struct kv_bounds bounds = colfam_lookup_range(&cursor->lookup, i);
    rc = open_scan(cursor, &bounds);
    if (rc == SQLITE_OK) rc = begin_scan(cursor, cursor->scans[i]);
    if (rc == SQLITE_OK) rc = settle_scan(cursor, i);
  }
  return rc == SQLITE_OK ? choose_scan(cursor) : rc;
}

static int next_of_scan(struct cursor *cursor) {
  struct kv_err err = {0};
  struct kv_scan *scan = cursor->scans[cursor->current];
  kv_status status = cursor->plan.backwards ? kv_scan_prev(scan, &err) : kv_scan_next(scan, &err);
  if (status != KV_OK) return fail(cursor, status, &err);
  if (cursor->mode == MODE_SCAN) return settle(cursor);
  int rc = settle_scan(cursor, cursor->current);
  return rc == SQLITE_OK ? choose_scan(cursor) : rc;
}

/* ---- Count */

/* A pending batch may change before a column is asked for: the scan that would give it is opened, which
** reads nothing yet. */
static int start_count(struct cursor *cursor) {
  cursor->rows = kv_view_rows(cursor->view);
  cursor->mode = MODE_COUNT;
  if (!cursor->batch) return SQLITE_OK;
  cursor->rows += kv_batch_rows_delta(cursor->batch);
  return kv_batch_count(cursor->batch) ? open_whole_scan(cursor) : SQLITE_OK;
}

static int count_to_scan(struct cursor *cursor) {
  size_t skip = cursor->at;
  int rc = start_scan(cursor);
  for (; rc == SQLITE_OK && skip && cursor->current < cursor->scan_count; skip--)
    rc = next_of_scan(cursor);
  if (rc == SQLITE_OK && cursor->current == cursor->scan_count)
    rc =
        colfam_vtab_error(vtab_of(cursor), SQLITE_CORRUPT_VTAB,
                          "table %s: fewer rows than its row count says", schema_of(cursor)->table);
  return rc;
}

/* ---- Walking */

static bool wants_keys(const struct colfam_plan *plan) {
  return plan->kind == COLFAM_PLAN_GET || plan->kind == COLFAM_PLAN_EXISTS ||
         plan->kind == COLFAM_PLAN_MULTI_GET;
}

static int start(struct cursor *cursor, sqlite3_value **argv) {
  struct kv_batch *batch;
  int rc = colfam_vtab_view(vtab_of(cursor), &cursor->view, &batch);
  if (rc != SQLITE_OK) return rc;
  if (batch) cursor->batch = kv_batch_ref(batch);
  cursor->lookup.vtab = vtab_of(cursor);
  cursor->lookup.view = cursor->view;
  cursor->lookup.batch = cursor->batch;
  rc = colfam_lookup_run(&cursor->lookup, &cursor->plan, argv);
  if (rc != SQLITE_OK) return rc;
  if (wants_keys(&cursor->plan)) return cursor->lookup.key_count ? start_keys(cursor) : SQLITE_OK;
  if (cursor->plan.kind == COLFAM_PLAN_COUNT && kv_view_rows(cursor->view) >= 0)
    return start_count(cursor);
  return cuts_prefix(cursor) ? start_merge(cursor) : start_scan(cursor);
}

int colfam_cursor_filter(sqlite3_vtab_cursor *base, int idx_num, const char *idx_str, int argc,
                         sqlite3_value **argv) {
  (void)idx_str, (void)argc;
  struct cursor *cursor = (struct cursor *)base;
  reset(cursor);
  colfam_plan_decode(idx_num, &cursor->plan);
  int rc = start(cursor, argv);
  if (rc != SQLITE_OK) reset(cursor);
  return rc;
}

int colfam_cursor_eof(sqlite3_vtab_cursor *base) {
  const struct cursor *cursor = (const struct cursor *)base;
  switch (cursor->mode) {
    case MODE_KEYS:
      return cursor->at >= cursor->lookup.key_count;
    case MODE_SCAN:
    case MODE_MERGE:
      return cursor->current >= cursor->scan_count;
    case MODE_COUNT:
      return (int64_t)cursor->at >= cursor->rows;
    case MODE_EMPTY:
      break;
  }
  return 1;
}

static bool is_scanning(const struct cursor *cursor) {
  return cursor->mode == MODE_SCAN || cursor->mode == MODE_MERGE;
}

int colfam_cursor_next(sqlite3_vtab_cursor *base) {
  struct cursor *cursor = (struct cursor *)base;
  if (is_scanning(cursor)) return next_of_scan(cursor);
  cursor->at++;
  if (cursor->mode == MODE_KEYS) skip_absent_keys(cursor);
  return SQLITE_OK;
}

/* ---- The current row */

static int row_key(struct cursor *cursor, struct kv_slice *key) {
  int rc = cursor->mode == MODE_COUNT ? count_to_scan(cursor) : SQLITE_OK;
  if (rc != SQLITE_OK) return rc;
  *key = cursor->mode == MODE_KEYS ? cursor->lookup.keys[key_index(cursor)]
                                   : kv_scan_key(cursor->scans[cursor->current]);
  return SQLITE_OK;
}

/* After an exists, when a column needs the value all the same. */
static int fetch_value(struct cursor *cursor) {
  struct kv_err err = {0};
  kv_status status =
      kv_get(cursor->view, cursor->batch, cursor->lookup.keys[0], &cursor->value, &err);
  if (status == KV_OK && !cursor->value.found)
    status = kv_fail(&err, KV_CORRUPT, "a row has gone between two reads of the same state");
  if (status != KV_OK) return fail(cursor, status, &err);
  cursor->value_missing = false;
  return SQLITE_OK;
}

static int row_value(struct cursor *cursor, struct kv_slice *value) {
  if (is_scanning(cursor)) {
    *value = kv_scan_value(cursor->scans[cursor->current]);
    return SQLITE_OK;
  }
  if (cursor->result) {
    kv_result_found(cursor->result, key_index(cursor), value);
    return SQLITE_OK;
  }
  int rc = cursor->value_missing ? fetch_value(cursor) : SQLITE_OK;
  *value = cursor->value.bytes;
  return rc;
}

static int declared_column(struct cursor *cursor, struct kv_slice key, int column,
                           sqlite3_context *context) {
  bool told;
  struct kv_slice value;
  int rc = colfam_row_result_of_key(schema_of(cursor), key, column, context, &told);
  if (rc == SQLITE_OK && !told) {
    bool is_value = schema_of(cursor)->columns[column].value_index >= 0;
    if (is_value && sqlite3_vtab_nochange(context)) return SQLITE_OK;
    rc = row_value(cursor, &value);
    if (rc != SQLITE_OK) return rc;
    rc = colfam_row_result(schema_of(cursor), key, value, column, context);
  }
  if (rc != SQLITE_CORRUPT_VTAB) return rc;
  return colfam_vtab_error(vtab_of(cursor), rc, "table %s: column %s of a row is damaged",
                           schema_of(cursor)->table, schema_of(cursor)->columns[column].name);
}

int colfam_cursor_column(sqlite3_vtab_cursor *base, sqlite3_context *context, int column) {
  struct cursor *cursor = (struct cursor *)base;
  const struct colfam_schema *schema = schema_of(cursor);
  struct kv_slice key;
  if (column == schema->command_column) return SQLITE_OK;
  int rc = row_key(cursor, &key);
  if (rc != SQLITE_OK) return rc;
  if (column < schema->column_count) return declared_column(cursor, key, column, context);
  sqlite3_result_blob64(context, key.data, key.size, SQLITE_TRANSIENT);
  return SQLITE_OK;
}

int colfam_cursor_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *rowid) {
  struct cursor *cursor = (struct cursor *)base;
  struct kv_slice key;
  int rc = row_key(cursor, &key);
  if (rc == SQLITE_OK) rc = colfam_rowid_of_key(key, rowid);
  if (rc != SQLITE_CORRUPT_VTAB) return rc;
  return colfam_vtab_error(vtab_of(cursor), rc, "table %s: the key of a row is damaged",
                           schema_of(cursor)->table);
}
