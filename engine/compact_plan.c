/* See compact_plan.h. */
#include "compact_plan.h"

#include "mem.h"
#include "table_read.h"

#define SMALL_ENTRIES 1000000
#define SMALL_PART 32

struct kv_shape kv_layout_shape(const struct kv_layout *layout) {
  return (struct kv_shape){kv_family_options(layout->family).memtable_bytes, layout->sizes,
                           layout->run_count};
}

/* ---- Sums */

static uint64_t run_bytes(const struct kv_run *run) {
  uint64_t bytes = 0;
  for (size_t i = 0; i < run->file_count; i++) bytes += kv_sst_info(run->files[i])->bytes;
  return bytes;
}

bool kv_plan_reads(const struct kv_plan *plan, const struct kv_sst *file) {
  for (size_t i = 0; i < plan->count; i++)
    if (kv_run_find(&plan->parts[i], kv_buf_slice(&kv_sst_info(file)->smallest)) == file)
      return true;
  return false;
}

size_t kv_plan_files(const struct kv_plan *plan) {
  size_t files = 0;
  for (size_t i = 0; i < plan->count; i++) files += plan->parts[i].file_count;
  return files;
}

uint64_t kv_plan_bytes(const struct kv_plan *plan) {
  uint64_t bytes = 0;
  for (size_t i = 0; i < plan->count; i++) bytes += run_bytes(&plan->parts[i]);
  return bytes;
}

uint64_t kv_plan_entries(const struct kv_plan *plan) {
  uint64_t entries = 0;
  for (size_t i = 0; i < plan->count; i++)
    for (size_t j = 0; j < plan->parts[i].file_count; j++)
      entries += kv_sst_info(plan->parts[i].files[j])->entries;
  return entries;
}

uint64_t kv_plan_seq(const struct kv_plan *plan) {
  uint64_t seq = 0;
  for (size_t i = 0; i < plan->count; i++)
    if (plan->parts[i].seq > seq) seq = plan->parts[i].seq;
  return seq;
}

/* ---- Making it */

void kv_plan_release(struct kv_plan *plan) {
  kv_free(plan->parts);
  *plan = (struct kv_plan){0};
}

static kv_status reserve(struct kv_plan *plan, size_t parts, struct kv_err *err) {
  *plan = (struct kv_plan){0};
  plan->parts = kv_alloc(parts, sizeof *plan->parts);
  return plan->parts ? KV_OK : kv_fail_nomem(err);
}

kv_status kv_plan_all(struct kv_plan *plan, const struct kv_layout *layout, struct kv_err *err) {
  kv_status status = reserve(plan, layout->run_count, err);
  if (status != KV_OK) return status;
  for (size_t i = 0; i < layout->run_count; i++) plan->parts[plan->count++] = layout->runs[i];
  plan->older = layout->run_count;
  return KV_OK;
}

/* The keys that the plan reads lie between these. */
static void find_hull(const struct kv_plan *plan, struct kv_slice *smallest,
                      struct kv_slice *largest) {
  const struct kv_comparator *by = plan->parts[0].comparator;
  *smallest = kv_run_smallest(&plan->parts[0]);
  *largest = kv_run_largest(&plan->parts[0]);
  for (size_t i = 1; i < plan->count; i++) {
    struct kv_slice low = kv_run_smallest(&plan->parts[i]);
    struct kv_slice high = kv_run_largest(&plan->parts[i]);
    if (kv_key_compare(by, low, *smallest) < 0) *smallest = low;
    if (kv_key_compare(by, high, *largest) > 0) *largest = high;
  }
}

static struct kv_run overlap_of_plan(const struct kv_plan *plan, const struct kv_run *run) {
  struct kv_slice smallest, largest;
  find_hull(plan, &smallest, &largest);
  return kv_run_overlap(run, smallest, largest);
}

/* Takes what overlaps in the next level, if there is one, and goes there. */
static void go_down(struct kv_plan *plan, const struct kv_layout *layout) {
  plan->level = plan->parts[plan->count - 1].level + 1;
  if (plan->older == layout->run_count || layout->runs[plan->older].level != plan->level) return;
  struct kv_run part = overlap_of_plan(plan, &layout->runs[plan->older++]);
  if (part.file_count) plan->parts[plan->count++] = part;
}

/* Past levels that have nothing in this range, so that it need not be written once a level. */
static void sink(struct kv_plan *plan, const struct kv_layout *layout) {
  while (plan->older < layout->run_count &&
         overlap_of_plan(plan, &layout->runs[plan->older]).file_count == 0)
    plan->level = layout->runs[plan->older++].level;
}

/* How many bytes of the next run a file would be merged with, for each of its own. */
static double cost_of_file(struct kv_sst *file, const struct kv_run *next) {
  const struct kv_file_info *info = kv_sst_info(file);
  if (!next) return 0;
  struct kv_run overlap =
      kv_run_overlap(next, kv_buf_slice(&info->smallest), kv_buf_slice(&info->largest));
  return (double)run_bytes(&overlap) / (double)(info->bytes + 1);
}

/* The first file that is mostly tombstones, else the one that costs least. */
static size_t choose_file(const struct kv_run *run, const struct kv_run *next) {
  size_t best = 0;
  double best_cost = 0;
  for (size_t i = 0; i < run->file_count; i++) {
    if (kv_file_is_dense(kv_sst_info(run->files[i]))) return i;
    double cost = cost_of_file(run->files[i], next);
    if (i > 0 && cost >= best_cost) continue;
    best = i;
    best_cost = cost;
  }
  return best;
}

/* The chosen file of the run, and those behind it as long as they are small. */
static struct kv_run choose_part(const struct kv_layout *layout, size_t index,
                                 uint64_t file_bytes) {
  const struct kv_run *run = &layout->runs[index];
  const struct kv_run *next = index + 1 < layout->run_count ? run + 1 : NULL;
  struct kv_run part = *run;
  size_t first = choose_file(run, next);
  uint64_t bytes = kv_sst_info(run->files[first])->bytes;
  part.files += first;
  part.fences += first;
  part.file_count = 1;
  while (first + part.file_count < run->file_count) {
    bytes += kv_sst_info(run->files[first + part.file_count])->bytes;
    if (bytes > file_bytes) break;
    part.file_count++;
  }
  return part;
}

kv_status kv_plan_pick(struct kv_plan *plan, const struct kv_layout *layout,
                       const struct kv_pick *pick, uint64_t file_bytes, struct kv_err *err) {
  *plan = (struct kv_plan){0};
  if (pick->kind == KV_PICK_NONE) return KV_OK;
  kv_status status = reserve(plan, pick->count + 1, err);
  if (status != KV_OK) return status;
  for (size_t i = 0; i < pick->count; i++)
    plan->parts[plan->count++] = pick->kind == KV_PICK_PUSH
                                     ? choose_part(layout, pick->first, file_bytes)
                                     : layout->runs[pick->first + i];
  plan->older = pick->first + pick->count;
  if (pick->kind == KV_PICK_TIER) return KV_OK;
  go_down(plan, layout);
  if (kv_plan_bytes(plan) >= file_bytes / 2) sink(plan, layout);
  return KV_OK;
}

/* ---- What is known of it */

bool kv_plan_may_hide(const struct kv_plan *plan, const struct kv_layout *layout,
                      struct kv_slice key) {
  for (size_t i = plan->older; i < layout->run_count; i++)
    if (kv_run_find(&layout->runs[i], key)) return true;
  return false;
}

bool kv_plan_lasts(const struct kv_plan *plan, const struct kv_layout *layout) {
  return plan->level > 1 && plan->older == layout->run_count;
}

/* A deeper level is one run: what the output joins counts, those of its files that it replaces among them. */
bool kv_plan_is_small(const struct kv_plan *plan, const struct kv_layout *layout,
                      uint64_t entries) {
  uint64_t most = layout->entries / SMALL_PART;
  if (most < SMALL_ENTRIES) most = SMALL_ENTRIES;
  for (size_t i = 0; i < layout->run_count; i++)
    if (plan->level > 0 && layout->sizes[i].level == plan->level)
      entries += layout->sizes[i].entries;
  return entries <= most;
}

kv_status kv_plan_recompresses(const struct kv_plan *plan, int level, bool *recompresses,
                               struct kv_err *err) {
  kv_status status = KV_OK;
  *recompresses = false;
  for (size_t i = 0; i < plan->count; i++) {
    for (size_t j = 0; j < plan->parts[i].file_count && status == KV_OK && !*recompresses; j++) {
      struct kv_table *table = NULL;
      status = kv_sst_table(plan->parts[i].files[j], &table, err);
      *recompresses = status == KV_OK && kv_table_compression(table) != (uint64_t)level;
    }
  }
  return status;
}

uint64_t kv_layout_young_seq(const struct kv_layout *layout, uint64_t otherwise) {
  uint64_t seq = otherwise;
  for (size_t i = 0; i < layout->run_count; i++)
    if (layout->runs[i].level == 0 && layout->runs[i].seq < seq) seq = layout->runs[i].seq;
  return seq;
}

bool kv_layout_meets(const struct kv_layout *layout, struct kv_slice smallest,
                     struct kv_slice largest) {
  for (size_t i = 0; i < layout->run_count; i++)
    if (kv_run_overlap(&layout->runs[i], smallest, largest).file_count) return true;
  return false;
}

/* ---- Holding it against a later layout */

/* A run of level 0 is told by its seq. */
static const struct kv_run *find_run(const struct kv_layout *layout, uint32_t level, uint64_t seq) {
  for (size_t i = 0; i < layout->run_count; i++) {
    const struct kv_run *run = &layout->runs[i];
    if (run->level == level && (level > 0 || run->seq == seq)) return run;
  }
  return NULL;
}

static bool has_files(const struct kv_run *run, const struct kv_run *part) {
  for (size_t i = 0; i < part->file_count; i++) {
    const struct kv_sst *file = part->files[i];
    if (kv_run_find(run, kv_buf_slice(&kv_sst_info(file)->smallest)) != file) return false;
  }
  return true;
}

bool kv_plan_is_live(const struct kv_plan *plan, const struct kv_layout *now) {
  for (size_t i = 0; i < plan->count; i++) {
    const struct kv_run *part = &plan->parts[i];
    const struct kv_run *run = find_run(now, part->level, part->seq);
    if (!run || !has_files(run, part)) return false;
  }
  return true;
}

static bool file_overlaps(const struct kv_edit *edit, const struct kv_file_info *file,
                          const struct kv_run *run) {
  struct kv_run overlap =
      kv_run_overlap(run, kv_buf_slice(&file->smallest), kv_buf_slice(&file->largest));
  for (size_t i = 0; i < overlap.file_count; i++)
    if (!kv_edit_removes(edit, kv_sst_info(overlap.files[i])->id)) return true;
  return false;
}

bool kv_edit_overlaps(const struct kv_edit *edit, const struct kv_layout *layout, uint32_t from,
                      uint32_t to) {
  for (size_t i = 0; i < layout->run_count; i++) {
    const struct kv_run *run = &layout->runs[i];
    if (run->level < from || run->level > to) continue;
    for (size_t j = 0; j < edit->added_count; j++)
      if (edit->added[j].level != KV_LEVEL_VALUES && file_overlaps(edit, &edit->added[j], run))
        return true;
  }
  return false;
}
