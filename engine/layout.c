/* See layout.h. A manifest that does not give the total order of runs is damaged, and named as such here, so
** that nobody later has to doubt it. */
#include "layout.h"

#include <stdlib.h>

#include "mem.h"

/* ---- Runs */

/* Whether all keys of the file are below the key; prefix is the key's. */
static bool is_below(const struct kv_run *run, const struct kv_comparator *by, size_t file,
                     struct kv_slice key, uint64_t prefix) {
  uint64_t largest = run->fences[file].largest;
  if (largest != prefix) return largest < prefix;
  return kv_key_compare(by, kv_buf_slice(&kv_sst_info(run->files[file])->largest), key) < 0;
}

static bool is_above(const struct kv_run *run, size_t file, struct kv_slice key, uint64_t prefix) {
  uint64_t smallest = run->fences[file].smallest;
  if (smallest != prefix) return smallest > prefix;
  return kv_key_compare(run->comparator, kv_buf_slice(&kv_sst_info(run->files[file])->smallest),
                        key) > 0;
}

static size_t lower_bound(const struct kv_run *run, struct kv_slice key, uint64_t prefix) {
  size_t low = 0;
  size_t high = run->file_count;
  struct kv_search search;
  kv_search_begin(&search, run->comparator);
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (is_below(run, search.by, middle, key, prefix))
      low = middle + 1;
    else
      high = middle;
  }
  kv_search_end(&search);
  return low;
}

size_t kv_run_lower_bound(const struct kv_run *run, struct kv_slice key) {
  return lower_bound(run, key, kv_key_prefix(run->comparator, key));
}

struct kv_sst *kv_run_find(const struct kv_run *run, struct kv_slice key) {
  uint64_t prefix = kv_key_prefix(run->comparator, key);
  size_t at = run->file_count == 1 ? is_below(run, run->comparator, 0, key, prefix)
                                   : lower_bound(run, key, prefix);
  return at == run->file_count || is_above(run, at, key, prefix) ? NULL : run->files[at];
}

struct kv_run kv_run_overlap(const struct kv_run *run, struct kv_slice smallest,
                             struct kv_slice largest) {
  size_t first = kv_run_lower_bound(run, smallest);
  size_t end = kv_run_lower_bound(run, largest);
  struct kv_run overlap = *run;
  if (end < run->file_count &&
      kv_key_compare(run->comparator, kv_buf_slice(&kv_sst_info(run->files[end])->smallest),
                     largest) <= 0)
    end++;
  overlap.files += first;
  overlap.fences += first;
  overlap.file_count = end > first ? end - first : 0;
  return overlap;
}

struct kv_slice kv_run_smallest(const struct kv_run *run) {
  return kv_buf_slice(&kv_sst_info(run->files[0])->smallest);
}

struct kv_slice kv_run_largest(const struct kv_run *run) {
  return kv_buf_slice(&kv_sst_info(run->files[run->file_count - 1])->largest);
}

bool kv_file_is_dense(const struct kv_file_info *file) {
  return file->tombstones > file->entries / 2;
}

/* ---- Life */

static void layout_free(struct kv_layout *layout) {
  for (size_t i = 0; i < layout->file_count; i++)
    kv_family_sst_unref(layout->family, layout->files[i]);
  kv_free(layout->files);
  kv_free(layout->fences);
  kv_free(layout->runs);
  kv_free(layout->sizes);
  kv_free(layout);
}

/* An empty one with room for `count` files. */
static kv_status layout_alloc(struct kv_family *family, size_t count, struct kv_layout **out,
                              struct kv_err *err) {
  struct kv_layout *layout = kv_alloc_zero(1, sizeof *layout);
  if (!layout) return kv_fail_nomem(err);
  layout->refs = 1;
  layout->family = family;
  layout->files = kv_alloc(count, sizeof *layout->files);
  layout->fences = kv_alloc(count, sizeof *layout->fences);
  layout->runs = kv_alloc(count, sizeof *layout->runs);
  layout->sizes = kv_alloc(count, sizeof *layout->sizes);
  if (layout->files && layout->fences && layout->runs && layout->sizes) {
    *out = layout;
    return KV_OK;
  }
  layout_free(layout);
  return kv_fail_nomem(err);
}

struct kv_layout *kv_layout_ref(struct kv_layout *layout) {
  __atomic_add_fetch(&layout->refs, 1, __ATOMIC_RELAXED);
  return layout;
}

void kv_layout_unref(struct kv_layout *layout) {
  if (layout && __atomic_sub_fetch(&layout->refs, 1, __ATOMIC_ACQ_REL) == 0) layout_free(layout);
}

/* ---- Arranging */

static kv_status add_file(struct kv_layout *layout, const struct kv_file_info *info,
                          struct kv_err *err) {
  kv_status status =
      kv_family_sst_ref(layout->family, info, &layout->files[layout->file_count], err);
  if (status == KV_OK) layout->file_count++;
  return status;
}

struct kv_sst *kv_layout_value_file(const struct kv_layout *layout, uint64_t id) {
  size_t low = 0, high = layout->value_count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    uint64_t found = kv_sst_info(layout->values[middle])->id;
    if (found == id) return layout->values[middle];
    if (found < id)
      low = middle + 1;
    else
      high = middle;
  }
  return NULL;
}

static bool holds_values(const struct kv_file_info *file) {
  return file->level == KV_LEVEL_VALUES;
}

/* Whether two files belong to one run: less than, equal to or greater than 0, the newer run first. */
static int compare_runs(const struct kv_file_info *a, const struct kv_file_info *b) {
  if (a->level != b->level) return a->level < b->level ? -1 : 1;
  if (a->level > 0 || a->seq == b->seq) return 0;
  return a->seq > b->seq ? -1 : 1;
}

/* Runs newest first, files of a run by key; value files, which are the deepest, by id. */
static int compare_files(const void *left, const void *right) {
  const struct kv_file_info *a = kv_sst_info(*(struct kv_sst *const *)left);
  const struct kv_file_info *b = kv_sst_info(*(struct kv_sst *const *)right);
  int runs = compare_runs(a, b);
  if (runs != 0) return runs;
  if (holds_values(a)) return a->id < b->id ? -1 : a->id > b->id;
  return kv_key_compare(kv_sst_comparator(*(struct kv_sst *const *)left),
                        kv_buf_slice(&a->smallest), kv_buf_slice(&b->smallest));
}

static kv_status check_file(const struct kv_comparator *by, const struct kv_file_info *file,
                            uint64_t last_seq, struct kv_err *err) {
  unsigned long long id = file->id;
  if (id == 0 || file->id >> 63)
    return kv_fail(err, KV_CORRUPT, "manifest: %016llx is no file id", id);
  struct kv_slice smallest = kv_buf_slice(&file->smallest), largest = kv_buf_slice(&file->largest);
  if (!kv_slice_equal(smallest, largest) && !kv_key_ascends(by, smallest, largest))
    return kv_fail(err, KV_CORRUPT,
                   "manifest: table file %016llx has its smallest key above its "
                   "largest",
                   id);
  if (file->seq > last_seq)
    return kv_fail(err, KV_CORRUPT,
                   "manifest: table file %016llx covers commit %llu, but the last is %llu", id,
                   (unsigned long long)file->seq, (unsigned long long)last_seq);
  return KV_OK;
}

/* Two neighbours of one run. */
static kv_status check_pair(const struct kv_comparator *by, const struct kv_file_info *a,
                            const struct kv_file_info *b, struct kv_err *err) {
  unsigned long long left = a->id;
  unsigned long long right = b->id;
  if (left == right) return kv_fail(err, KV_CORRUPT, "manifest: file %016llx is named twice", left);
  if (!kv_key_ascends(by, kv_buf_slice(&a->largest), kv_buf_slice(&b->smallest)))
    return kv_fail(err, KV_CORRUPT, "manifest: files %016llx and %016llx of one run overlap", left,
                   right);
  return KV_OK;
}

/* Two neighbours of level 0 and a deeper one: what is deeper is not newer. */
static kv_status check_depth(const struct kv_file_info *young, const struct kv_file_info *deep,
                             struct kv_err *err) {
  if (deep->seq <= young->seq) return KV_OK;
  return kv_fail(err, KV_CORRUPT,
                 "manifest: table file %016llx of level %u covers commit %llu, but above it "
                 "%016llx of level 0 ends at commit %llu",
                 (unsigned long long)deep->id, deep->level, (unsigned long long)deep->seq,
                 (unsigned long long)young->id, (unsigned long long)young->seq);
}

static kv_status add_value_file(struct kv_layout *layout, size_t file,
                                const struct kv_file_info *info, struct kv_err *err) {
  if (layout->value_count == 0)
    layout->values = layout->files + file;
  else if (kv_sst_info(layout->files[file - 1])->id == info->id)
    return kv_fail(err, KV_CORRUPT, "manifest: file %016llx is named twice",
                   (unsigned long long)info->id);
  layout->value_count++;
  layout->value_file_bytes += info->bytes;
  return KV_OK;
}

static void begin_run(struct kv_layout *layout, size_t file, const struct kv_file_info *info) {
  layout->runs[layout->run_count] =
      (struct kv_run){.files = layout->files + file,
                      .fences = layout->fences + file,
                      .level = info->level,
                      .comparator = kv_family_comparator(layout->family)};
  layout->sizes[layout->run_count++] = (struct kv_run_size){.level = info->level};
}

static void count_file(struct kv_layout *layout, const struct kv_file_info *info) {
  struct kv_run *run = &layout->runs[layout->run_count - 1];
  struct kv_run_size *size = &layout->sizes[layout->run_count - 1];
  run->file_count++;
  if (info->seq > run->seq) run->seq = info->seq;
  size->bytes += info->bytes;
  size->entries += info->entries;
  size->tombstones += info->tombstones;
  if (kv_file_is_dense(info)) size->dense_bytes += info->bytes;
  layout->entries += info->entries;
}

/* Sorts the files, proves the total order and cuts them into runs. */
static kv_status arrange(struct kv_layout *layout, uint64_t last_seq, struct kv_err *err) {
  kv_status status = KV_OK;
  const struct kv_comparator *by = kv_family_comparator(layout->family);
  const struct kv_file_info *before = NULL;
  const struct kv_file_info *young = NULL; /* of the oldest run of level 0 */
  if (layout->file_count)
    qsort(layout->files, layout->file_count, sizeof *layout->files, compare_files);
  for (size_t i = 0; i < layout->file_count && status == KV_OK; i++) {
    const struct kv_file_info *file = kv_sst_info(layout->files[i]);
    bool same_run = before && compare_runs(before, file) == 0;
    status = check_file(by, file, last_seq, err);
    if (holds_values(file)) {
      if (status == KV_OK) status = add_value_file(layout, i, file, err);
      continue;
    }
    if (status == KV_OK && same_run) status = check_pair(by, before, file, err);
    if (file->level == 0) young = file;
    if (status == KV_OK && young && file->level) status = check_depth(young, file, err);
    layout->fences[i] =
        (struct kv_run_fence){.smallest = kv_key_prefix(by, kv_buf_slice(&file->smallest)),
                              .largest = kv_key_prefix(by, kv_buf_slice(&file->largest))};
    if (!same_run) begin_run(layout, i, file);
    count_file(layout, file);
    before = file;
  }
  return status;
}

static kv_status finish(struct kv_layout *made, kv_status status, uint64_t last_seq,
                        struct kv_layout **layout, struct kv_err *err) {
  if (status == KV_OK) status = arrange(made, last_seq, err);
  if (status == KV_OK)
    *layout = made;
  else
    layout_free(made);
  return status;
}

kv_status kv_layout_new(struct kv_family *family, const struct kv_file_info *files, size_t count,
                        uint64_t last_seq, struct kv_layout **layout, struct kv_err *err) {
  struct kv_layout *made;
  *layout = NULL;
  kv_status status = layout_alloc(family, count, &made, err);
  if (status != KV_OK) return status;
  for (size_t i = 0; i < count && status == KV_OK; i++) status = add_file(made, &files[i], err);
  return finish(made, status, last_seq, layout, err);
}

bool kv_edit_removes(const struct kv_edit *edit, uint64_t id) {
  for (size_t i = 0; i < edit->removed_count; i++) {
    if (edit->removed[i] == id) return true;
  }
  return false;
}

static kv_status apply(struct kv_layout *made, const struct kv_layout *base,
                       const struct kv_edit *edit, struct kv_err *err) {
  kv_status status = KV_OK;
  size_t removed = 0;
  for (size_t i = 0; i < base->file_count && status == KV_OK; i++) {
    const struct kv_file_info *file = kv_sst_info(base->files[i]);
    if (kv_edit_removes(edit, file->id))
      removed++;
    else
      status = add_file(made, file, err);
  }
  if (status == KV_OK && removed != edit->removed_count)
    return kv_fail(err, KV_BUSY, "the edit removes %zu files, the view has %zu of them",
                   edit->removed_count, removed);
  for (size_t i = 0; i < edit->added_count && status == KV_OK; i++)
    status = add_file(made, &edit->added[i], err);
  return status;
}

kv_status kv_layout_edit(const struct kv_layout *base, const struct kv_edit *edit,
                         uint64_t last_seq, struct kv_layout **layout, struct kv_err *err) {
  struct kv_layout *made;
  *layout = NULL;
  kv_status status = layout_alloc(base->family, base->file_count + edit->added_count, &made, err);
  if (status != KV_OK) return status;
  return finish(made, apply(made, base, edit, err), last_seq, layout, err);
}
