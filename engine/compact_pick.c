/* See compact_pick.h. Leveled compaction as in O'Neil et al., The Log-Structured Merge-Tree, Acta Informatica
** 1996, with fixed-size parts of a level merged at a time; size-tiered runs above it. */
#include "compact_pick.h"

#define LEVEL_RATIO 10
#define LEVEL_1_BUDGETS 16 /* memtable budgets that level 1 may hold */
#define LARGE_BUDGETS 2    /* memtable budgets of a run that no flush of the log makes */
#define TIER_RUNS 4
#define MANY_RUNS 8 /* of level 0, all of which a read asks */
/* Entries for each of those that go down, up to which tombstones are in a hurry. */
#define HIDDEN_MAX 16

uint64_t kv_level_bytes_max(uint64_t memtable_bytes, uint32_t level) {
  uint64_t bytes = LEVEL_1_BUDGETS * memtable_bytes;
  for (; level > 1 && bytes <= UINT64_MAX / LEVEL_RATIO; level--) bytes *= LEVEL_RATIO;
  return bytes;
}

uint32_t kv_level_for(uint64_t memtable_bytes, uint64_t bytes) {
  uint32_t level = 1;
  while (kv_level_bytes_max(memtable_bytes, level) < bytes) level++;
  return level;
}

static const struct kv_pick nothing = {KV_PICK_NONE, 0, 0};

/* Level 0 as a whole, and what is below it. */
struct sums {
  size_t young;   /* runs of level 0 */
  uint64_t bytes; /* of them together */
  bool large;     /* one of them is */
  uint64_t level_1_bytes;
  uint64_t tombstones; /* in runs of level 0 that are mostly tombstones */
  uint64_t hidden;     /* entries of other runs that are older than one of these */
};

static bool is_dense(const struct kv_run_size *run) {
  return run->tombstones > run->entries / 2;
}

static struct sums sum_up(const struct kv_shape *shape) {
  struct sums sums = {0};
  for (size_t i = 0; i < shape->run_count; i++) {
    const struct kv_run_size *run = &shape->runs[i];
    bool young = run->level == 0;
    sums.young += young;
    if (young) sums.bytes += run->bytes;
    if (young && run->bytes >= LARGE_BUDGETS * shape->memtable_bytes) sums.large = true;
    if (young && is_dense(run))
      sums.tombstones += run->tombstones;
    else if (sums.tombstones)
      sums.hidden += run->entries;
    if (run->level == 1) sums.level_1_bytes = run->bytes;
  }
  return sums;
}

/* Runs of level 0, from `first` on, none of which is larger than all before it together, or by a part of
** `slack`. */
static struct kv_pick tier_from(const struct kv_shape *shape, size_t first, size_t young,
                                uint64_t slack, uint64_t *bytes) {
  size_t count = 1;
  *bytes = shape->runs[first].bytes;
  for (; first + count < young && shape->runs[first + count].bytes <= *bytes + *bytes / slack;
       count++)
    *bytes += shape->runs[first + count].bytes;
  return count >= TIER_RUNS ? (struct kv_pick){KV_PICK_TIER, first, count} : nothing;
}

static struct kv_pick find_tier(const struct kv_shape *shape, size_t young, uint64_t *bytes) {
  struct kv_pick pick = nothing;
  for (size_t first = 0; first + TIER_RUNS <= young && pick.kind == KV_PICK_NONE; first++)
    pick = tier_from(shape, first, young, UINT64_MAX, bytes);
  return pick;
}

struct kv_pick kv_compact_pick_newest(const struct kv_shape *shape, size_t young) {
  uint64_t bytes;
  return young < TIER_RUNS ? nothing : tier_from(shape, 0, young, 4, &bytes);
}

/* A tier that ends with the oldest run goes down when level 1 is not much larger. */
static struct kv_pick pick_tier(const struct kv_shape *shape, const struct sums *sums) {
  uint64_t bytes = 0;
  struct kv_pick pick = find_tier(shape, sums->young, &bytes);
  bool ends_level = pick.first + pick.count == sums->young;
  if (pick.kind == KV_PICK_TIER && ends_level && sums->level_1_bytes / 2 <= bytes)
    pick.kind = KV_PICK_DOWN;
  return pick;
}

/* Level 0 that is too large: its oldest run piece by piece when that is large by itself. */
static struct kv_pick pick_down(const struct kv_shape *shape, const struct sums *sums) {
  uint64_t oldest = shape->runs[sums->young - 1].bytes;
  if (oldest >= kv_level_bytes_max(shape->memtable_bytes, 1))
    return (struct kv_pick){KV_PICK_PUSH, sums->young - 1, 1};
  return (struct kv_pick){KV_PICK_DOWN, 0, sums->young};
}

static double ratio(uint64_t bytes, uint64_t bytes_max) {
  return (double)bytes / (double)(bytes_max ? bytes_max : 1);
}

/* What is mostly tombstones is as urgent as a level of twice its size, so that of two that are equally due it
** goes first, and what is more than that too large is not kept waiting. Each time it goes down a level it is
** rewritten once with what it hides, which must not be too much. */
static double hasten(double pressure, bool dense) {
  return dense ? 1 + (pressure > 1 ? pressure : 1) : pressure;
}

/* How much level 0 calls for work, 1 or more: it does. */
static double young_pressure(const struct kv_shape *shape, const struct sums *sums) {
  double by_bytes = ratio(sums->bytes, kv_level_bytes_max(shape->memtable_bytes, 1));
  double by_runs = (double)sums->young / (4 * TIER_RUNS);
  bool dense = sums->hidden && sums->tombstones >= sums->hidden / HIDDEN_MAX;
  return hasten(by_bytes > by_runs ? by_bytes : by_runs, dense);
}

/* Whole files of tombstones, over a level that is not many times larger than this one. */
static bool is_in_a_hurry(const struct kv_shape *shape, size_t index) {
  const struct kv_run_size *run = &shape->runs[index];
  return run->dense_bytes && index + 1 < shape->run_count &&
         run->entries >= run[1].entries / HIDDEN_MAX;
}

/* The level that is due most; NULL when none is. */
static const struct kv_run_size *fullest(const struct kv_shape *shape, double *pressure) {
  const struct kv_run_size *found = NULL;
  *pressure = 1;
  for (size_t i = 0; i < shape->run_count; i++) {
    const struct kv_run_size *run = &shape->runs[i];
    if (run->level == 0) continue;
    double here = ratio(run->bytes, kv_level_bytes_max(shape->memtable_bytes, run->level));
    here = hasten(here, is_in_a_hurry(shape, i));
    if (here <= *pressure) continue;
    *pressure = here;
    found = run;
  }
  return found;
}

/* Large runs of level 0, as large transactions make them in haste, over a level that is not larger: when
** nothing else is due. */
static struct kv_pick pick_large(const struct kv_shape *shape, const struct sums *sums) {
  if (!sums->large || sums->level_1_bytes > sums->bytes) return nothing;
  return pick_down(shape, sums);
}

/* Files of tombstones over a level many times as large: when nothing else is due. */
static struct kv_pick pick_dense(const struct kv_shape *shape, const struct sums *sums) {
  for (size_t i = sums->young; i + 1 < shape->run_count; i++)
    if (shape->runs[i].dense_bytes) return (struct kv_pick){KV_PICK_PUSH, i, 1};
  return nothing;
}

struct kv_pick kv_compact_pick(const struct kv_shape *shape) {
  struct sums sums = sum_up(shape);
  double level_pressure = 1;
  double pressure = young_pressure(shape, &sums);
  const struct kv_run_size *level = fullest(shape, &level_pressure);
  struct kv_pick tier = pick_tier(shape, &sums);
  if (tier.kind != KV_PICK_NONE && sums.young >= MANY_RUNS) return tier;
  if (level && level_pressure > pressure)
    return (struct kv_pick){KV_PICK_PUSH, (size_t)(level - shape->runs), 1};
  struct kv_pick down = pressure >= 1 ? pick_down(shape, &sums) : nothing;
  if (down.kind == KV_PICK_DOWN) return down;
  if (tier.kind != KV_PICK_NONE) return tier;
  if (down.kind != KV_PICK_NONE) return down;
  if (level) return (struct kv_pick){KV_PICK_PUSH, (size_t)(level - shape->runs), 1};
  struct kv_pick large = pick_large(shape, &sums);
  return large.kind != KV_PICK_NONE ? large : pick_dense(shape, &sums);
}
