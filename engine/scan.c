/* Scans: the live rows of (view, batch) between two bounds, both directions.
**
** One merging iterator over the batch, the memtables and the runs, newest first; tombstones are passed
** over here. Every entry is held against the bound before it is asked whether it is a tombstone, so that
** a short range beside a million deleted keys ends at its bound and not behind them.
** Thread rule: one thread at a time. */
#include "mem.h"
#include "merge.h"
#include "run_iter.h"
#include "values.h"
#include "view.h"

struct kv_scan {
  struct kv_view *view;
  struct kv_batch *batch;
  const struct kv_comparator *comparator; /* the view's */
  struct kv_iter *iter;
  struct kv_buf lower;
  struct kv_buf upper;
  bool has_upper;
  bool valid;
  struct kv_slice value; /* of the current row, when it was stored apart and read; from: */
  struct kv_cache_entry *pin;
};

static bool below_upper(const struct kv_scan *scan, struct kv_slice key) {
  return !scan->has_upper || kv_key_compare(scan->comparator, key, kv_buf_slice(&scan->upper)) < 0;
}

static bool above_lower(const struct kv_scan *scan, struct kv_slice key) {
  return !scan->lower.size ||
         kv_key_compare(scan->comparator, key, kv_buf_slice(&scan->lower)) >= 0;
}

static void forget_value(struct kv_scan *scan) {
  kv_cache_unpin(scan->pin);
  scan->pin = NULL;
}

/* ---- Sources */

static bool run_overlaps(const struct kv_run *run, const struct kv_scan *scan) {
  const struct kv_file_info *first = kv_sst_info(run->files[0]);
  const struct kv_file_info *last = kv_sst_info(run->files[run->file_count - 1]);
  return above_lower(scan, kv_buf_slice(&last->largest)) &&
         below_upper(scan, kv_buf_slice(&first->smallest));
}

/* Opens the source iterators, newest first; *count says how many there are, after a failure too. */
static kv_status open_sources(struct kv_scan *scan, struct kv_iter **sources, size_t *count,
                              struct kv_err *err) {
  const struct kv_view *view = scan->view;
  const struct kv_log_window *log = &view->log;
  kv_status status = KV_OK;
  if (scan->batch && kv_batch_count(scan->batch) > 0) {
    status = kv_batch_iter(scan->batch, &sources[*count], err);
    if (status == KV_OK) ++*count;
  }
  for (size_t i = 0; i < log->table_count && status == KV_OK; i++) {
    status = kv_memtable_iter(log->tables[i], log->window, &sources[*count], err);
    if (status == KV_OK) ++*count;
  }
  for (size_t i = 0; i < view->run_count && status == KV_OK; i++) {
    if (!run_overlaps(&view->runs[i], scan)) continue;
    status = kv_run_iter(&view->runs[i], true, &sources[*count], err);
    if (status == KV_OK) ++*count;
  }
  return status;
}

static kv_status open_merge(struct kv_scan *scan, struct kv_err *err) {
  size_t count = 0;
  size_t count_max = 1 + scan->view->log.table_count + scan->view->run_count;
  struct kv_iter **sources = kv_alloc(count_max, sizeof *sources);
  if (!sources) return kv_fail_nomem(err);
  kv_status status = open_sources(scan, sources, &count, err);
  if (status == KV_OK) {
    status = kv_merge_new(sources, count, scan->comparator, &scan->iter, err);
  } else {
    for (size_t i = 0; i < count; i++) kv_iter_free(sources[i]);
  }
  kv_free(sources);
  return status;
}

/* ---- Life */

void kv_scan_close(struct kv_scan *scan) {
  if (!scan) return;
  forget_value(scan);
  kv_iter_free(scan->iter);
  kv_buf_release(&scan->lower);
  kv_buf_release(&scan->upper);
  if (scan->batch) kv_batch_unref(scan->batch);
  kv_view_unref(scan->view);
  kv_free(scan);
}

static kv_status copy_bounds(struct kv_scan *scan, const struct kv_bounds *bounds,
                             struct kv_err *err) {
  scan->has_upper = bounds->has_upper;
  kv_buf_append(&scan->lower, bounds->lower.data, bounds->lower.size);
  if (bounds->has_upper) kv_buf_append(&scan->upper, bounds->upper.data, bounds->upper.size);
  if (scan->lower.status != KV_OK || scan->upper.status != KV_OK) return kv_fail_nomem(err);
  return KV_OK;
}

kv_status kv_scan_open(struct kv_view *view, struct kv_batch *batch, const struct kv_bounds *bounds,
                       struct kv_scan **scan, struct kv_err *err) {
  *scan = NULL;
  struct kv_scan *made = kv_alloc_zero(1, sizeof *made);
  if (!made) return kv_fail_nomem(err);
  made->view = kv_view_ref(view);
  made->comparator = kv_view_comparator(view);
  made->batch = batch ? kv_batch_ref(batch) : NULL;
  kv_buf_init(&made->lower);
  kv_buf_init(&made->upper);
  kv_status status = copy_bounds(made, bounds, err);
  if (status == KV_OK) status = open_merge(made, err);
  if (status == KV_OK) {
    kv_stats_add(kv_family_stats(view->family), KV_STAT_SCANS, 1);
    *scan = made;
  } else {
    kv_scan_close(made);
  }
  return status;
}

/* ---- Moves */

static kv_status report(struct kv_scan *scan, bool in_bounds, struct kv_err *err) {
  const struct kv_iter *iter = scan->iter;
  forget_value(scan);
  scan->valid = iter->valid && in_bounds;
  if (iter->valid || iter->status == KV_OK) return KV_OK;
  if (err) *err = iter->err;
  return iter->status;
}

static kv_status settle_forward(struct kv_scan *scan, struct kv_err *err) {
  struct kv_iter *iter = scan->iter;
  bool in_bounds = false;
  while (iter->valid && (in_bounds = below_upper(scan, iter->key)) && iter->deleted)
    kv_iter_next(iter);
  return report(scan, in_bounds, err);
}

static kv_status settle_backward(struct kv_scan *scan, struct kv_err *err) {
  struct kv_iter *iter = scan->iter;
  bool in_bounds = false;
  while (iter->valid && (in_bounds = above_lower(scan, iter->key)) && iter->deleted)
    kv_iter_prev(iter);
  return report(scan, in_bounds, err);
}

kv_status kv_scan_first(struct kv_scan *scan, struct kv_err *err) {
  if (scan->lower.size)
    kv_iter_seek(scan->iter, kv_buf_slice(&scan->lower));
  else
    kv_iter_seek_first(scan->iter);
  return settle_forward(scan, err);
}

kv_status kv_scan_last(struct kv_scan *scan, struct kv_err *err) {
  struct kv_iter *iter = scan->iter;
  if (scan->has_upper) {
    kv_iter_seek(iter, kv_buf_slice(&scan->upper));
    if (iter->valid)
      kv_iter_prev(iter);
    else if (iter->status == KV_OK)
      kv_iter_seek_last(iter);
  } else {
    kv_iter_seek_last(iter);
  }
  return settle_backward(scan, err);
}

kv_status kv_scan_seek(struct kv_scan *scan, struct kv_slice key, struct kv_err *err) {
  if (!above_lower(scan, key)) return kv_scan_first(scan, err);
  kv_iter_seek(scan->iter, key);
  return settle_forward(scan, err);
}

kv_status kv_scan_next(struct kv_scan *scan, struct kv_err *err) {
  if (!scan->valid) return kv_fail(err, KV_MISUSE, "scan: next without a current row");
  kv_iter_next(scan->iter);
  return settle_forward(scan, err);
}

kv_status kv_scan_prev(struct kv_scan *scan, struct kv_err *err) {
  if (!scan->valid) return kv_fail(err, KV_MISUSE, "scan: prev without a current row");
  kv_iter_prev(scan->iter);
  return settle_backward(scan, err);
}

bool kv_scan_valid(const struct kv_scan *scan) {
  return scan->valid;
}

struct kv_slice kv_scan_key(const struct kv_scan *scan) {
  return scan->iter->key;
}

bool kv_scan_reference(const struct kv_scan *scan, struct kv_apart *apart) {
  return scan->iter->apart && kv_apart_parse(scan->iter->value, apart);
}

struct kv_slice kv_scan_head(const struct kv_scan *scan) {
  return scan->iter->apart ? kv_apart_head(scan->iter->value) : scan->iter->value;
}

kv_status kv_scan_value(struct kv_scan *scan, struct kv_slice *value, struct kv_err *err) {
  const struct kv_iter *iter = scan->iter;
  kv_status status = KV_OK;
  *value = iter->value;
  if (!iter->apart) return KV_OK;
  if (!scan->pin)
    status =
        kv_values_get(scan->view->layout, iter->key, iter->value, &scan->value, &scan->pin, err);
  *value = scan->value;
  return status;
}
