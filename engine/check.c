/* The check of a view: reads everything and reports what is not as it must be.
**
** Damage is the result, not a failure: every problem goes to the caller's function and the check goes on.
** Only the caller's own status and a lack of memory end it. What a view proves when it is built (the total
** order of runs, no overlap inside a run) is not asked again; that the files keep to the bounds that this
** proof used is.
**
** Checked:
**   every file    opens as the manifest describes it, and kv_table_verify: checksums, order, bounds, counts,
**                 filter and hash index answers
**   memtables     keys ascend
**   references    of key files: to value files that the manifest names
**   order         an application's comparator tells all keys that it is asked about apart
**   rows          a scan of everything reads every value that is stored apart, and finds as many rows as are
**                 counted: a row more would be one whose tombstone went before it
**   keys          the newest entry of each key, of all memtables and runs merged, is what a get finds, which
**                 asks them one by one through bounds, filters and hash indexes, and ends at the first that
**                 has the key: deleted keys are not found, others have that value; as many as the scan found
** What cannot be told from what is there is whether an older entry stands where a newer one was: entries have
** no number of their own. For that each job's input is held against its output before it is published.
** Thread rule: as for reads. */
#include <string.h>

#include "custom.h"
#include "mem.h"
#include "merge.h"
#include "run_iter.h"
#include "values.h"
#include "view.h"

struct check {
  struct kv_view *view;
  kv_problem_fn report;
  void *ctx;
  uint64_t problems;
};

/* Reports the problem that `found` describes; the caller's answer says whether the check goes on. */
static kv_status report(struct check *check, uint64_t file, kv_status found,
                        const struct kv_err *text) {
  if (found == KV_OK) return KV_OK;
  check->problems++;
  return check->report(check->ctx, "error", file, 0, text->text);
}

/* Whether the status says something of the data: the others end the check. */
static bool is_finding(kv_status status) {
  return status == KV_CORRUPT || status == KV_IO || status == KV_DENIED || status == KV_MISSING ||
         status == KV_VERSION;
}

/* Turns a finding into a report; any other failure is the check's. */
static kv_status settle(struct check *check, uint64_t file, kv_status status,
                        const struct kv_err *found, struct kv_err *err) {
  if (is_finding(status)) return report(check, file, status, found);
  if (status != KV_OK && err) *err = *found;
  return status;
}

/* ---- Files */

static kv_status check_references(const struct check *check, const struct kv_table *table,
                                  struct kv_err *err) {
  const struct kv_value_uses *uses = kv_table_uses(table);
  for (size_t i = 0; i < uses->count; i++)
    if (!kv_layout_value_file(check->view->layout, uses->uses[i].file))
      return kv_fail(err, KV_CORRUPT,
                     "table %016llx refers to value file %016llx, which the manifest does not name",
                     (unsigned long long)kv_table_id(table),
                     (unsigned long long)uses->uses[i].file);
  return KV_OK;
}

/* Opened anew: what this process holds open or in memory may be gone from the disk. */
static kv_status check_file(struct check *check, const struct kv_file_info *file,
                            struct kv_err *err) {
  struct kv_family *family = check->view->family;
  struct kv_err found;
  struct kv_table *table = NULL;
  memset(&found, 0, sizeof found);
  kv_status status = kv_table_open(kv_family_table_config(family), file, kv_family_cache(family),
                                   kv_family_stats(family), &table, &found);
  if (status == KV_OK) {
    status = kv_table_verify(table, NULL, &found);
    if (status == KV_OK) status = check_references(check, table, &found);
    kv_table_close(table);
  }
  return settle(check, file->id, status, &found, err);
}

static kv_status check_files(struct check *check, struct kv_err *err) {
  const struct kv_view *view = check->view;
  kv_status status = KV_OK;
  for (size_t i = 0; i < view->file_count && status == KV_OK; i++) {
    status = check_file(check, kv_sst_info(view->files[i]), err);
  }
  return status;
}

/* ---- Memtables */

/* Walks an iterator; *ordered is false when a key is not above the one before it. */
static kv_status walk(const struct kv_comparator *by, struct kv_iter *iter, bool *ordered,
                      struct kv_err *err) {
  struct kv_buf last;
  kv_buf_init(&last);
  *ordered = true;
  kv_iter_seek_first(iter);
  for (bool first = true; iter->valid && last.status == KV_OK; first = false) {
    if (!first && !kv_key_ascends(by, kv_buf_slice(&last), iter->key)) *ordered = false;
    kv_buf_clear(&last);
    kv_buf_append(&last, iter->key.data, iter->key.size);
    kv_iter_next(iter);
  }
  kv_status status = last.status == KV_OK ? iter->status : kv_fail_nomem(err);
  if (iter->status != KV_OK && err) *err = iter->err;
  kv_buf_release(&last);
  return status;
}

static kv_status check_memtable(struct check *check, struct kv_memtable *table,
                                struct kv_err *err) {
  struct kv_err found;
  struct kv_iter *iter = NULL;
  bool ordered = true;
  memset(&found, 0, sizeof found);
  kv_status status = kv_memtable_iter(table, check->view->log.window, &iter, &found);
  if (status == KV_OK) status = walk(kv_view_comparator(check->view), iter, &ordered, &found);
  kv_iter_free(iter);
  if (status == KV_OK && !ordered)
    status = kv_fail(&found, KV_CORRUPT, "memtable %llu: keys do not ascend",
                     (unsigned long long)kv_memtable_gen(table));
  return settle(check, 0, status, &found, err);
}

/* ---- Rows */

/* The head is what the value makes of it, and the value the one that its file has for the key. */
static kv_status check_apart(const struct kv_view *view, struct kv_value_reader *reader,
                             const struct kv_scan *scan, struct kv_slice value,
                             struct kv_err *err) {
  struct kv_slice again = {NULL, 0}, head = kv_scan_head(scan);
  struct kv_apart apart;
  struct kv_buf wanted;
  kv_status status = KV_CORRUPT;
  kv_buf_init(&wanted);
  bool same = kv_family_head(view->family, value, &wanted) && !wanted.status &&
              kv_slice_equal(kv_buf_slice(&wanted), head);
  if (wanted.status) {
    status = kv_fail_nomem(err);
  } else if (!same || !kv_scan_reference(scan, &apart)) {
    status = kv_fail(err, KV_CORRUPT, "a key has the head of another value");
  } else {
    status = kv_value_reader_get(reader, kv_scan_key(scan), &apart, &again, err);
  }
  kv_buf_release(&wanted);
  if (status != KV_OK || kv_slice_equal(value, again)) return status;
  return kv_fail(err, KV_CORRUPT,
                 "value file %016llx: a reference leads to the value of another key",
                 (unsigned long long)apart.file);
}

static kv_status check_row(const struct kv_view *view, struct kv_value_reader *reader,
                           struct kv_scan *scan, struct kv_err *err) {
  struct kv_slice value;
  struct kv_apart apart;
  kv_status status = kv_scan_value(scan, &value, err);
  if (status != KV_OK || !kv_scan_reference(scan, &apart)) return status;
  return check_apart(view, reader, scan, value, err);
}

static kv_status count_rows(struct kv_view *view, uint64_t *rows, struct kv_err *err) {
  struct kv_scan *scan = NULL;
  struct kv_value_reader *reader = NULL;
  const struct kv_bounds everything = {.has_upper = false};
  *rows = 0;
  kv_status status = kv_value_reader_new(view->layout, &reader, err);
  if (status == KV_OK) status = kv_scan_open(view, NULL, &everything, &scan, err);
  if (status == KV_OK) status = kv_scan_first(scan, err);
  while (status == KV_OK && kv_scan_valid(scan)) {
    ++*rows;
    status = check_row(view, reader, scan, err);
    if (status == KV_OK) status = kv_scan_next(scan, err);
  }
  kv_scan_close(scan);
  kv_value_reader_free(reader);
  return status;
}

/* ---- Keys */

static kv_status open_sources(const struct kv_view *view, struct kv_iter **sources, size_t *count,
                              struct kv_err *err) {
  kv_status status = KV_OK;
  for (size_t i = 0; i < view->log.table_count && status == KV_OK; i++) {
    status = kv_memtable_iter(view->log.tables[i], view->log.window, &sources[*count], err);
    if (status == KV_OK) ++*count;
  }
  for (size_t i = 0; i < view->run_count && status == KV_OK; i++) {
    status = kv_run_iter(&view->runs[i], false, &sources[*count], err);
    if (status == KV_OK) ++*count;
  }
  return status;
}

static kv_status open_newest(const struct kv_view *view, struct kv_iter **newest,
                             struct kv_err *err) {
  size_t count = 0;
  struct kv_iter **sources = kv_alloc(view->log.table_count + view->run_count, sizeof *sources);
  if (!sources) return kv_fail_nomem(err);
  kv_status status = open_sources(view, sources, &count, err);
  if (status == KV_OK) {
    status = kv_merge_new(sources, count, kv_view_comparator(view), newest, err);
  } else {
    for (size_t i = 0; i < count; i++) kv_iter_free(sources[i]);
  }
  kv_free(sources);
  return status;
}

static kv_status check_key(struct kv_view *view, const struct kv_iter *entry, struct kv_err *err) {
  struct kv_value value = {.found = false};
  kv_status status = kv_get_head(view, NULL, entry->key, &value, err);
  bool same = value.found != entry->deleted && value.apart == entry->apart &&
              (entry->deleted || kv_slice_equal(value.bytes, entry->value));
  kv_value_release(&value);
  if (status != KV_OK || same) return status;
  return kv_fail(err, KV_CORRUPT, "a get does not find the newest entry of a key, which is %s",
                 entry->deleted ? "deleted" : "there");
}

static kv_status check_keys(struct kv_view *view, uint64_t rows, struct kv_err *err) {
  struct kv_iter *newest = NULL;
  uint64_t found = 0;
  kv_status status = open_newest(view, &newest, err);
  if (status != KV_OK) return status;
  for (kv_iter_seek_first(newest); newest->valid && status == KV_OK; kv_iter_next(newest)) {
    found += !newest->deleted;
    status = check_key(view, newest, err);
  }
  if (status == KV_OK && newest->status != KV_OK) {
    status = newest->status;
    if (err) *err = newest->err;
  }
  kv_iter_free(newest);
  if (status != KV_OK || found == rows) return status;
  return kv_fail(err, KV_CORRUPT, "a scan finds %llu rows, %llu keys have a value",
                 (unsigned long long)rows, (unsigned long long)found);
}

static kv_status check_rows(struct check *check, struct kv_err *err) {
  struct kv_err found;
  uint64_t rows = 0;
  int64_t tracked = check->view->rows;
  memset(&found, 0, sizeof found);
  kv_status status = count_rows(check->view, &rows, &found);
  if (status == KV_OK) status = check_keys(check->view, rows, &found);
  if (status == KV_OK && tracked >= 0 && (uint64_t)tracked != rows)
    status = kv_fail(&found, KV_CORRUPT, "the row count is %lld, a scan finds %llu rows",
                     (long long)tracked, (unsigned long long)rows);
  return settle(check, 0, status, &found, err);
}

kv_status kv_check(struct kv_view *view, kv_problem_fn report_problem, void *ctx,
                   struct kv_err *err) {
  struct check check = {.view = view, .report = report_problem, .ctx = ctx};
  struct kv_err found;
  uint64_t faults = kv_custom_faults(kv_view_comparator(view));
  kv_status status = check_files(&check, err);
  for (size_t i = 0; i < view->log.table_count && status == KV_OK; i++) {
    status = check_memtable(&check, view->log.tables[i], err);
  }
  /* A scan through damage that is reported already would only say it again. */
  if (status == KV_OK && check.problems == 0) status = check_rows(&check, err);
  if (status != KV_OK) return status;
  return report(&check, 0, kv_custom_check(faults, kv_view_comparator(view), &found), &found);
}
