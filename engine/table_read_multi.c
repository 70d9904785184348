/* The batched lookup of one table file: one pass over bounds and filter for all keys, keys grouped by data
** block (they come sorted, so a block's keys stand together), then rounds of blocks: cache, one grouped
** read for the blocks that miss, lookups; those in blocks that were there take their steps in turn, OVERLAP
** at a time, so that their loads overlap. A round's misses are bounded by ROUND_BYTES of stored bytes, so
** that a list of any length needs bounded memory beside the values it pins. Thread rule: any thread. */
#include <string.h>

#include "hash.h"
#include "mem.h"
#include "table_read_inside.h"

#define ROUND_BYTES ((size_t)8 << 20)
#define LOOKUP_GROUP 64
#define OVERLAP 32

/* A block wanted by the lookups candidates[first .. first + count). */
struct group {
  size_t first, count;
  uint32_t block;
  struct kv_cache_entry *entry; /* pinned while a round has it in hand */
};

/* The work arrays of one call, in one allocation. */
struct multi {
  const struct kv_table *table;
  struct kv_lookup *lookups;
  void *memory;
  uint64_t *hashes;
  size_t *candidates; /* indexes of lookups that the file may have */
  size_t candidate_count;
  struct group *groups;
  size_t group_count;
  struct kv_range *ranges;
  bool *maybe;
};

static kv_status init_multi(struct multi *multi, const struct kv_table *table,
                            struct kv_lookup *lookups, size_t n, struct kv_err *err) {
  size_t each = sizeof *multi->groups + sizeof *multi->ranges + sizeof *multi->hashes +
                sizeof *multi->candidates + sizeof *multi->maybe;
  memset(multi, 0, sizeof *multi);
  multi->memory = kv_alloc(n, each);
  if (!multi->memory) return kv_fail_nomem(err);
  multi->table = table;
  multi->lookups = lookups;
  multi->groups = multi->memory;
  multi->ranges = (struct kv_range *)(void *)(multi->groups + n);
  multi->hashes = (uint64_t *)(void *)(multi->ranges + n);
  multi->candidates = (size_t *)(void *)(multi->hashes + n);
  multi->maybe = (bool *)(multi->candidates + n);
  return KV_OK;
}

/* One pass over the filter; keeps the candidates that it lets through. */
static void filter_candidates(struct multi *multi) {
  const struct kv_table *table = multi->table;
  size_t n = multi->candidate_count, kept = 0;
  if (!table->parts.filter.lines || !n) return;
  kv_filter_may_contain_many(&table->parts.filter, multi->hashes, n, multi->maybe);
  for (size_t i = 0; i < n; i++) {
    if (multi->maybe[i]) multi->candidates[kept++] = multi->candidates[i];
  }
  multi->candidate_count = kept;
  kv_stats_add(table->stats, KV_STAT_MULTI_GET_FILTER_PASSES, 1);
  kv_stats_add(table->stats, KV_STAT_FILTER_CHECKS, n);
  kv_stats_add(table->stats, KV_STAT_FILTER_USEFUL, n - kept);
}

static void find_candidates(struct multi *multi, size_t n) {
  for (size_t i = 0; i < n; i++) {
    if (!kv_table_in_bounds(multi->table, multi->lookups[i].key)) continue;
    multi->hashes[multi->candidate_count] = multi->lookups[i].hash;
    multi->candidates[multi->candidate_count++] = i;
  }
  filter_candidates(multi);
}

static void group_by_block(struct multi *multi) {
  struct group *end = multi->groups;
  uint32_t block = 0;
  for (size_t i = 0; i < multi->candidate_count; i++) {
    struct kv_slice key = multi->lookups[multi->candidates[i]].key;
    block = kv_fences_find(&multi->table->parts.fences, key, block);
    if (end > multi->groups && end[-1].block == block) {
      end[-1].count++;
    } else {
      *end++ = (struct group){.first = i, .count = 1, .block = block};
    }
  }
  multi->group_count = (size_t)(end - multi->groups);
  struct kv_stats *stats = multi->table->stats;
  kv_stats_add(stats, KV_STAT_MULTI_GET_BLOCKS, multi->group_count);
  kv_stats_add(stats, KV_STAT_MULTI_GET_BLOCKS_SHARED, multi->candidate_count - multi->group_count);
}

/* Asks the cache for the blocks of up to LOOKUP_GROUP groups from `first` on; returns how many. */
static size_t look_up_entries(const struct multi *multi, size_t first,
                              struct kv_cache_entry **entries) {
  const struct kv_table *table = multi->table;
  uint64_t offsets[LOOKUP_GROUP];
  size_t left = multi->group_count - first, n = left < LOOKUP_GROUP ? left : LOOKUP_GROUP;
  for (size_t i = 0; i < n; i++) {
    offsets[i] = kv_fences_offset(&table->parts.fences, multi->groups[first + i].block);
  }
  kv_cache_lookup_many(table->cache, table->owner, offsets, n, entries);
  return n;
}

/* Takes groups from `first` on into a round, until their missing blocks reach the budget. */
static size_t round_end(struct multi *multi, size_t first, size_t *missing) {
  const struct kv_fences *fences = &multi->table->parts.fences;
  struct kv_cache_entry *entries[LOOKUP_GROUP];
  size_t bytes = 0, end = first;
  *missing = 0;
  while (end < multi->group_count && bytes < ROUND_BYTES) {
    size_t n = look_up_entries(multi, end, entries), i = 0;
    for (; i < n && bytes < ROUND_BYTES; i++) {
      struct group *group = &multi->groups[end++];
      group->entry = entries[i];
      if (group->entry) continue;
      size_t size = kv_fences_size(fences, group->block);
      multi->ranges[(*missing)++] =
          (struct kv_range){kv_fences_offset(fences, group->block), size, NULL};
      bytes += size;
    }
    for (; i < n; i++) kv_cache_unpin(entries[i]);
  }
  kv_stats_add(multi->table->stats, KV_STAT_CACHE_HITS, end - first - *missing);
  kv_stats_add(multi->table->stats, KV_STAT_CACHE_MISSES, *missing);
  return end;
}

static kv_status read_ranges(struct multi *multi, size_t n, struct kv_err *err) {
  for (size_t i = 0; i < n; i++) {
    multi->ranges[i].into = kv_alloc(multi->ranges[i].size, 1);
    if (!multi->ranges[i].into) return kv_fail_nomem(err);
  }
  return n ? kv_open_file_read(multi->table->file, multi->ranges, n, err) : KV_OK;
}

/* Moves one block that was read into the cache; takes the range's bytes. */
static kv_status adopt(const struct multi *multi, struct group *group, struct kv_range *range,
                       struct kv_err *err) {
  uint8_t *stored = range->into;
  range->into = NULL;
  return kv_table_adopt(multi->table, group->block, stored, &group->entry, err);
}

/* Lookups that take their steps in turn. */
struct overlap {
  struct kv_block_search searches[OVERLAP];
  struct kv_lookup *lookups[OVERLAP];
  const struct group *groups[OVERLAP];
  size_t count;
};

static void add_search(const struct kv_table *table, struct overlap *overlap,
                       const struct group *group, struct kv_lookup *lookup) {
  struct kv_block block = kv_table_block(table, group->entry);
  kv_block_search_begin(&overlap->searches[overlap->count], &block, lookup->key, lookup->hash);
  overlap->lookups[overlap->count] = lookup;
  overlap->groups[overlap->count++] = group;
}

/* Until all are done; *failed is the search that the error is of. */
static kv_status take_steps(struct overlap *overlap, size_t *failed, struct kv_err *err) {
  for (bool more = true; more;) {
    more = false;
    for (size_t i = 0; i < overlap->count; i++) {
      struct kv_block_search *search = &overlap->searches[i];
      if (search->step == KV_SEARCH_DONE) continue;
      kv_status status = kv_block_search_step(search, err);
      *failed = i;
      if (status) return status;
      more = true;
    }
  }
  return KV_OK;
}

static kv_status finish_searches(const struct multi *multi, struct overlap *overlap,
                                 struct kv_err *err) {
  struct kv_err inner;
  size_t at = 0;
  kv_status status = take_steps(overlap, &at, &inner);
  for (size_t i = 0; i < overlap->count && !status; i++) {
    struct kv_lookup *lookup = overlap->lookups[at = i];
    enum kv_block_answer answer;
    status = kv_block_search_end(&overlap->searches[i], &answer, &lookup->value, &inner);
    if (!status) kv_table_answer(multi->table, overlap->groups[i]->entry, answer, lookup);
  }
  if (status) return kv_table_fail(multi->table, overlap->groups[at]->block, status, &inner, err);
  overlap->count = 0;
  return KV_OK;
}

/* The lookups of groups [first, end), whose blocks are in hand. */
static kv_status look_up(struct multi *multi, size_t first, size_t end, struct kv_err *err) {
  struct overlap overlap;
  overlap.count = 0;
  kv_status status = KV_OK;
  for (size_t i = first; i < end; i++) {
    const struct group *group = &multi->groups[i];
    for (size_t j = 0; j < group->count && !status; j++) {
      add_search(multi->table, &overlap, group,
                 &multi->lookups[multi->candidates[group->first + j]]);
      if (overlap.count == OVERLAP) status = finish_searches(multi, &overlap, err);
    }
  }
  return status ? status : finish_searches(multi, &overlap, err);
}

/* From a group whose block is in hand to the first that has none. */
static size_t end_of_cached(const struct multi *multi, size_t first, size_t end) {
  while (first < end && multi->groups[first].entry) first++;
  return first;
}

/* Works through groups [first, end); their blocks are in hand or in the first `missing` ranges. */
static kv_status run_round(struct multi *multi, size_t first, size_t end, size_t missing,
                           struct kv_err *err) {
  for (size_t i = 0; i < missing; i++) multi->ranges[i].into = NULL;
  kv_status status = read_ranges(multi, missing, err);
  size_t next = 0;
  for (size_t i = first, stop; i < end; i = stop) {
    struct group *group = &multi->groups[i];
    stop = i + 1;
    if (group->entry) {
      stop = end_of_cached(multi, i, end);
    } else if (!status) {
      status = adopt(multi, group, &multi->ranges[next++], err);
    }
    if (!status) status = look_up(multi, i, stop, err);
    for (size_t j = i; j < stop; j++) kv_cache_unpin(multi->groups[j].entry);
  }
  for (size_t i = 0; i < missing; i++) kv_free(multi->ranges[i].into);
  return status;
}

static void reset_lookups(struct kv_lookup *lookups, size_t n) {
  for (size_t i = 0; i < n; i++) {
    lookups[i].answer = KV_TABLE_NONE;
    lookups[i].value = (struct kv_slice){0};
    lookups[i].pin = NULL;
  }
}

kv_status kv_table_multi_get(struct kv_table *table, struct kv_lookup *lookups, size_t n,
                             struct kv_err *err) {
  reset_lookups(lookups, n);
  if (!n) return KV_OK;
  struct multi multi;
  kv_status status = init_multi(&multi, table, lookups, n, err);
  if (status) return status;
  find_candidates(&multi, n);
  group_by_block(&multi);
  for (size_t first = 0, end; first < multi.group_count && !status; first = end) {
    size_t missing;
    end = round_end(&multi, first, &missing);
    status = run_round(&multi, first, end, missing, err);
  }
  if (status) {
    for (size_t i = 0; i < n; i++) kv_cache_unpin(lookups[i].pin);
    reset_lookups(lookups, n);
  }
  kv_free(multi.memory);
  return status;
}
