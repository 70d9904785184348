/* Views: the files of a snapshot arranged into runs, and the memtables of its log.
**
** Files of one (level, seq) form a run: disjoint, sorted by smallest key. Runs are ordered newest first by
** seq, the newest commit they contain, and so are memtables, which are all newer than any run: a read that
** goes batch, memtables, runs and stops at the first answer sees the newest (invariant 1). A manifest that
** does not give this total order is damaged, and named as such here, so that nobody later has to doubt it.
** Thread rule: immutable after it is built; references are counted atomically. */
#include "view.h"

#include <stdlib.h>
#include <string.h>

#include "mem.h"

#define LOG_ENTRY_BYTES 16 /* a small entry, for estimates */

/* ---- Life */

static void view_free(struct kv_view *view) {
  kv_family_drop_view(view->family, view);
  for (size_t i = 0; i < view->file_count; i++) kv_family_sst_unref(view->family, view->files[i]);
  kv_free(view->files);
  kv_free(view->runs);
  kv_log_window_release(&view->log);
  kv_family_unref(view->family);
  kv_free(view);
}

/* An empty view with room for file_count files. */
static kv_status view_alloc(struct kv_family *family, size_t file_count, struct kv_view **out,
                            struct kv_err *err) {
  struct kv_view *view = kv_alloc_zero(1, sizeof *view);
  if (!view) return kv_fail_nomem(err);
  view->refs = 1;
  view->family = kv_family_ref(family);
  view->files = kv_alloc(file_count, sizeof *view->files);
  view->runs = kv_alloc(file_count, sizeof *view->runs);
  if (view->files && view->runs) {
    *out = view;
    return KV_OK;
  }
  view_free(view);
  return kv_fail_nomem(err);
}

struct kv_view *kv_view_ref(struct kv_view *view) {
  __atomic_add_fetch(&view->refs, 1, __ATOMIC_RELAXED);
  return view;
}

void kv_view_unref(struct kv_view *view) {
  if (view && __atomic_sub_fetch(&view->refs, 1, __ATOMIC_ACQ_REL) == 0) view_free(view);
}

/* ---- Runs */

static kv_status add_file(struct kv_view *view, const struct kv_file_info *info,
                          struct kv_err *err) {
  kv_status status = kv_family_sst_ref(view->family, info, &view->files[view->file_count], err);
  if (status == KV_OK) view->file_count++;
  return status;
}

/* Runs newest first, files of a run by key. */
static int compare_files(const void *left, const void *right) {
  const struct kv_file_info *a = kv_sst_info(*(struct kv_sst *const *)left);
  const struct kv_file_info *b = kv_sst_info(*(struct kv_sst *const *)right);
  if (a->seq != b->seq) return a->seq > b->seq ? -1 : 1;
  if (a->level != b->level) return a->level < b->level ? -1 : 1;
  return kv_slice_compare(kv_buf_slice(&a->smallest), kv_buf_slice(&b->smallest));
}

static kv_status check_file(const struct kv_view *view, const struct kv_file_info *file,
                            struct kv_err *err) {
  unsigned long long id = file->id;
  if (id == 0 || file->id >> 63)
    return kv_fail(err, KV_CORRUPT, "manifest: %016llx is no file id", id);
  if (kv_slice_compare(kv_buf_slice(&file->smallest), kv_buf_slice(&file->largest)) > 0)
    return kv_fail(err, KV_CORRUPT,
                   "manifest: table file %016llx has its smallest key above its "
                   "largest",
                   id);
  if (file->seq > view->log.state.last_seq)
    return kv_fail(err, KV_CORRUPT,
                   "manifest: table file %016llx covers commit %llu, but the last is %llu", id,
                   (unsigned long long)file->seq, (unsigned long long)view->log.state.last_seq);
  return KV_OK;
}

/* Two neighbours in the order of compare_files. */
static kv_status check_pair(const struct kv_file_info *a, const struct kv_file_info *b,
                            struct kv_err *err) {
  unsigned long long left = a->id;
  unsigned long long right = b->id;
  if (left == right) return kv_fail(err, KV_CORRUPT, "manifest: file %016llx is named twice", left);
  if (a->seq != b->seq) return KV_OK;
  if (a->level != b->level)
    return kv_fail(
        err, KV_CORRUPT,
        "manifest: files %016llx and %016llx of levels %u and %u both end at commit %llu", left,
        right, a->level, b->level, (unsigned long long)a->seq);
  if (kv_slice_compare(kv_buf_slice(&a->largest), kv_buf_slice(&b->smallest)) >= 0)
    return kv_fail(err, KV_CORRUPT, "manifest: files %016llx and %016llx of one run overlap", left,
                   right);
  return KV_OK;
}

/* Sorts the files, proves the total order and cuts them into runs. */
static kv_status arrange(struct kv_view *view, struct kv_err *err) {
  kv_status status = KV_OK;
  if (view->file_count) {
    qsort(view->files, view->file_count, sizeof *view->files, compare_files);
  }
  for (size_t i = 0; i < view->file_count && status == KV_OK; i++) {
    const struct kv_file_info *file = kv_sst_info(view->files[i]);
    status = check_file(view, file, err);
    if (status == KV_OK && i > 0) status = check_pair(kv_sst_info(view->files[i - 1]), file, err);
    if (i == 0 || file->seq != view->runs[view->run_count - 1].seq) {
      view->runs[view->run_count++] =
          (struct kv_run){.files = view->files + i, .level = file->level, .seq = file->seq};
    }
    view->runs[view->run_count - 1].file_count++;
  }
  return status;
}

struct kv_sst *kv_run_find(const struct kv_run *run, struct kv_slice key) {
  size_t at = kv_run_lower_bound(run, key);
  if (at == run->file_count) return NULL;
  const struct kv_file_info *file = kv_sst_info(run->files[at]);
  return kv_slice_compare(key, kv_buf_slice(&file->smallest)) < 0 ? NULL : run->files[at];
}

size_t kv_run_lower_bound(const struct kv_run *run, struct kv_slice key) {
  size_t low = 0;
  size_t high = run->file_count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (kv_slice_compare(kv_buf_slice(&kv_sst_info(run->files[middle])->largest), key) < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/* A row count that is not the newest commit's, or that the files and the log cannot hold; an entry of the log
** has at least two bytes. */
static kv_status check_rows(const struct kv_view *view, struct kv_err *err) {
  if (view->log.table_count && view->log.rows != view->rows)
    return kv_fail(err, KV_CORRUPT, "the row count is %lld, that of the newest commit %lld",
                   (long long)view->rows, (long long)view->log.rows);
  uint64_t most = view->log.bytes / 2;
  for (size_t i = 0; i < view->file_count; i++) most += kv_sst_info(view->files[i])->entries;
  if (view->rows < 0 || (uint64_t)view->rows <= most) return KV_OK;
  return kv_fail(err, KV_CORRUPT, "the row count is %lld, but files and log hold at most %llu",
                 (long long)view->rows, (unsigned long long)most);
}

/* ---- Building */

static kv_status fill(struct kv_view *view, const struct kv_snapshot *snapshot,
                      const struct kv_log_source *source, struct kv_err *err) {
  struct kv_log *log = kv_family_log(view->family);
  view->rows = snapshot->rows;
  kv_status status = kv_log_read(log, &snapshot->log, source, &view->log, err);
  for (size_t i = 0; i < snapshot->file_count && status == KV_OK; i++) {
    status = add_file(view, &snapshot->files[i], err);
  }
  if (status == KV_OK) status = arrange(view, err);
  if (status == KV_OK) status = check_rows(view, err);
  if (status == KV_OK) kv_log_trim(log, snapshot->log.flushed_seq);
  return status;
}

kv_status kv_view_new(struct kv_family *family, const struct kv_snapshot *snapshot,
                      const struct kv_log_source *source, struct kv_view **view,
                      struct kv_err *err) {
  struct kv_view *made = NULL;
  *view = NULL;
  kv_status status = view_alloc(family, snapshot->file_count, &made, err);
  if (status != KV_OK) return status;
  status = fill(made, snapshot, source, err);
  if (status == KV_OK) {
    kv_stats_add(kv_family_stats(family), KV_STAT_VIEWS_BUILT, 1);
    kv_family_add_view(family, made);
    *view = made;
  } else {
    view_free(made);
  }
  return status;
}

static bool is_removed(const struct kv_edit *edit, uint64_t id) {
  for (size_t i = 0; edit && i < edit->removed_count; i++) {
    if (edit->removed[i] == id) return true;
  }
  return false;
}

/* The base's files without the removed ones, then the added ones. */
static kv_status edit_files(struct kv_view *view, const struct kv_view *base,
                            const struct kv_edit *edit, struct kv_err *err) {
  kv_status status = KV_OK;
  size_t removed = 0;
  for (size_t i = 0; i < base->file_count && status == KV_OK; i++) {
    const struct kv_file_info *file = kv_sst_info(base->files[i]);
    if (is_removed(edit, file->id))
      removed++;
    else
      status = add_file(view, file, err);
  }
  if (!edit || status != KV_OK) return status;
  if (removed != edit->removed_count)
    return kv_fail(err, KV_BUSY, "the edit removes %zu files, the view has %zu of them",
                   edit->removed_count, removed);
  for (size_t i = 0; i < edit->added_count && status == KV_OK; i++) {
    status = add_file(view, &edit->added[i], err);
  }
  return status;
}

static kv_status advance(struct kv_view *view, const struct kv_view *base,
                         const struct kv_log_row *row, const struct kv_edit *edit,
                         struct kv_err *err) {
  const struct kv_log_state *old = &base->log.state;
  uint64_t flushed_seq = edit ? edit->flushed_seq : old->flushed_seq;
  uint64_t flushed_nonce = edit ? edit->flushed_nonce : old->flushed_nonce;
  struct kv_log *log = kv_family_log(view->family);
  if (flushed_seq < old->flushed_seq)
    return kv_fail(err, KV_BUSY, "the edit ends at commit %llu, but %llu is flushed already",
                   (unsigned long long)flushed_seq, (unsigned long long)old->flushed_seq);
  view->rows = row ? row->rows : base->rows;
  kv_status status =
      kv_log_advance(log, &base->log, row, flushed_seq, flushed_nonce, &view->log, err);
  if (status == KV_OK) status = edit_files(view, base, edit, err);
  if (status == KV_OK) status = arrange(view, err);
  if (status == KV_OK && edit) kv_log_trim(log, flushed_seq);
  return status;
}

kv_status kv_view_advance(const struct kv_view *base, const struct kv_log_row *row,
                          const struct kv_edit *edit, struct kv_view **view, struct kv_err *err) {
  struct kv_view *made = NULL;
  size_t added = edit ? edit->added_count : 0;
  *view = NULL;
  kv_status status = view_alloc(base->family, base->file_count + added, &made, err);
  if (status != KV_OK) return status;
  status = advance(made, base, row, edit, err);
  if (status != KV_OK) {
    view_free(made);
    return status;
  }
  kv_family_add_view(base->family, made);
  *view = made;
  return KV_OK;
}

/* ---- Facts */

const struct kv_log_state *kv_view_log(const struct kv_view *view) {
  return &view->log.state;
}

int64_t kv_view_rows(const struct kv_view *view) {
  return view->rows;
}

uint64_t kv_view_gen(const struct kv_view *view) {
  return view->log.gen;
}

uint64_t kv_view_gen_bytes(const struct kv_view *view) {
  return view->log.gen_bytes;
}

uint64_t kv_view_log_bytes(const struct kv_view *view) {
  return view->log.bytes;
}

bool kv_view_names_file(const struct kv_view *view, uint64_t id) {
  for (size_t i = 0; i < view->file_count; i++)
    if (kv_sst_info(view->files[i])->id == id) return true;
  return false;
}

size_t kv_view_file_count(const struct kv_view *view) {
  return view->file_count;
}

const struct kv_file_info *kv_view_file(const struct kv_view *view, size_t index) {
  return kv_sst_info(view->files[index]);
}

kv_status kv_view_file_raw_bytes(struct kv_view *view, size_t index, uint64_t *raw,
                                 struct kv_err *err) {
  struct kv_table *table;
  kv_status status = kv_sst_table(view->files[index], &table, err);
  if (status == KV_OK) *raw = kv_table_raw_bytes(table);
  return status;
}

size_t kv_view_run_count(const struct kv_view *view) {
  return view->run_count;
}

uint64_t kv_view_entries_estimate(const struct kv_view *view) {
  uint64_t entries = view->log.bytes / LOG_ENTRY_BYTES;
  for (size_t i = 0; i < view->file_count; i++) entries += kv_sst_info(view->files[i])->entries;
  return entries;
}
