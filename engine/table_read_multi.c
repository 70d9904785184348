/* The batched lookup in the table files of one run: one pass over their filters for all keys, what they let
** through sorted by data block, so that a block's keys stand together, then rounds of blocks: cache, reads of
** the blocks that miss, lookups; those in blocks that were there take their steps in turn, OVERLAP at a time,
** so that their loads overlap. What a round has asked the disk for is bounded by ROUND_BYTES of stored bytes,
** what is read of it at a time by PIECE_BYTES, so that a list of any length needs bounded memory beside the
** values it pins. Thread rule: any thread. */
#include <string.h>

#include "hash.h"
#include "mem.h"
#include "table_read_inside.h"

#define ROUND_BYTES ((size_t)8 << 20)
#define PIECE_BYTES ((size_t)128 << 10)
#define LOOKUP_GROUP 64
#define OVERLAP 32
#define SMALL_BYTES 16384 /* of work arrays that need no memory of their own */
#define SORTED_BY_INSERTION 16
#define FENCE_GROUP 32

/* A lookup whose file may have the key. */
struct candidate {
  struct kv_lookup *lookup;
  uint64_t order; /* of its file, then the block where it would be */
};

/* A block wanted by the lookups candidates[first .. first + count). */
struct group {
  const struct kv_table *table;
  size_t first, count;
  uint32_t block;
  struct kv_cache_entry *entry; /* pinned while a round has it in hand */
};

/* The work arrays of one call, in one piece. */
struct multi {
  enum kv_lookup_mode mode;
  struct kv_stats *stats; /* of the family, whose all tables are */
  void *memory;           /* NULL: small */
  struct candidate *candidates;
  size_t candidate_count;
  const struct kv_filter **filters;
  uint64_t *hashes;
  struct group *groups;
  size_t group_count;
  struct kv_range *ranges;
  bool *maybe;
  uint64_t small[SMALL_BYTES / sizeof(uint64_t)];
};

static kv_status init_multi(struct multi *multi, size_t n, enum kv_lookup_mode mode,
                            struct kv_err *err) {
  size_t each = sizeof *multi->groups + sizeof *multi->ranges + sizeof *multi->candidates +
                sizeof *multi->filters + sizeof *multi->hashes + sizeof *multi->maybe;
  multi->mode = mode;
  multi->stats = NULL;
  multi->memory = NULL;
  multi->candidate_count = multi->group_count = 0;
  if (n > SMALL_BYTES / each) {
    multi->memory = kv_alloc(n, each);
    if (!multi->memory) return kv_fail_nomem(err);
  }
  multi->groups = multi->memory ? multi->memory : (void *)multi->small;
  multi->ranges = (struct kv_range *)(void *)(multi->groups + n);
  multi->candidates = (struct candidate *)(void *)(multi->ranges + n);
  multi->filters = (const struct kv_filter **)(void *)(multi->candidates + n);
  multi->hashes = (uint64_t *)(void *)(multi->filters + n);
  multi->maybe = (bool *)(multi->hashes + n);
  return KV_OK;
}

static void reset_answer(struct kv_lookup *lookup) {
  lookup->answer = KV_TABLE_NONE;
  lookup->apart = false;
  lookup->value = (struct kv_slice){0};
  lookup->pin = NULL;
}

/* The lookups that have a table. Those that have passed its filter already are let through by none. */
static void gather(struct multi *multi, struct kv_lookup *lookups, size_t n) {
  static const struct kv_filter none = {0};
  for (size_t i = 0; i < n; i++) {
    struct kv_lookup *lookup = &lookups[i];
    if (!lookup->table) continue;
    reset_answer(lookup);
    multi->stats = lookup->table->stats;
    multi->filters[multi->candidate_count] = lookup->passed ? &none : &lookup->table->parts.filter;
    multi->hashes[multi->candidate_count] = lookup->hash;
    multi->candidates[multi->candidate_count++].lookup = lookup;
  }
}

/* One pass over the filters; keeps the candidates that they let through. */
static void filter_candidates(struct multi *multi) {
  size_t n = multi->candidate_count, kept = 0, checks = 0;
  kv_filter_may_contain_many(multi->filters, multi->hashes, n, multi->maybe);
  for (size_t i = 0; i < n; i++) {
    checks += multi->filters[i]->lines != NULL;
    multi->candidates[kept] = multi->candidates[i];
    kept += multi->maybe[i];
  }
  multi->candidate_count = kept;
  if (!checks) return;
  kv_stats_add(multi->stats, KV_STAT_MULTI_GET_FILTER_PASSES, 1);
  kv_stats_add(multi->stats, KV_STAT_FILTER_CHECKS, checks);
  kv_stats_add(multi->stats, KV_STAT_FILTER_USEFUL, n - kept);
}

static uint32_t block_of(const struct candidate *candidate) {
  return (uint32_t)candidate->order;
}

/* Files in the order in which they were opened: their numbers in the cache, which do not come round. */
static uint64_t order_of(const struct kv_table *table, uint32_t block) {
  return table->owner << 32 | block;
}

/* Of up to FENCE_GROUP candidates from `first` on that one file may have; returns how many. */
static size_t find_in_file(struct candidate *first, size_t left) {
  struct kv_slice keys[FENCE_GROUP];
  uint32_t blocks[FENCE_GROUP];
  const struct kv_table *table = first->lookup->table;
  size_t n = 0;
  for (; n < left && n < FENCE_GROUP; n++) {
    if (first[n].lookup->table != table || first[n].lookup->at) break;
    keys[n] = first[n].lookup->key;
  }
  kv_fences_find_many(&table->parts.fences, keys, n, blocks);
  for (size_t i = 0; i < n; i++) first[i].order = order_of(table, blocks[i]);
  return n;
}

static void find_blocks(struct multi *multi) {
  for (size_t i = 0; i < multi->candidate_count;) {
    struct candidate *candidate = &multi->candidates[i];
    const struct kv_lookup *lookup = candidate->lookup;
    if (lookup->at) {
      candidate->order = order_of(lookup->table, lookup->at->block);
      i++;
    } else {
      i += find_in_file(candidate, multi->candidate_count - i);
    }
  }
}

static void sort_few(struct candidate *items, size_t count) {
  for (size_t i = 1; i < count; i++) {
    struct candidate item = items[i];
    size_t at = i;
    for (; at > 0 && item.order < items[at - 1].order; at--) items[at] = items[at - 1];
    items[at] = item;
  }
}

/* By one byte of the order. */
static void distribute(const struct candidate *from, size_t count, unsigned shift,
                       struct candidate *into) {
  uint32_t starts[256] = {0}, start = 0;
  for (size_t i = 0; i < count; i++) starts[from[i].order >> shift & 0xff]++;
  for (size_t value = 0; value < 256; value++) {
    uint32_t here = starts[value];
    starts[value] = start;
    start += here;
  }
  for (size_t i = 0; i < count; i++) into[starts[from[i].order >> shift & 0xff]++] = from[i];
}

/* The bits in which not all agree; 0 too when they are in order already. */
static uint64_t bits_to_sort(const struct candidate *items, size_t count) {
  uint64_t bits = 0;
  bool sorted = true;
  for (size_t i = 1; i < count; i++) {
    bits |= items[i].order ^ items[0].order;
    sorted &= items[i - 1].order <= items[i].order;
  }
  return sorted ? 0 : bits;
}

/* By bytes from the lowest on, those left out in which all agree. The groups' memory, which is not yet in
** use, is the spare; so the candidates may end there and are copied back. */
static void sort_candidates(struct multi *multi) {
  size_t n = multi->candidate_count;
  struct candidate *from = multi->candidates, *into = (struct candidate *)(void *)multi->groups;
  if (n <= SORTED_BY_INSERTION) {
    sort_few(from, n);
    return;
  }
  uint64_t bits = bits_to_sort(from, n);
  for (unsigned shift = 0; shift < 64; shift += 8) {
    if (!(bits >> shift & 0xff)) continue;
    distribute(from, n, shift, into);
    struct candidate *done = into;
    into = from;
    from = done;
  }
  if (from != multi->candidates) memcpy(multi->candidates, from, n * sizeof *from);
}

static void group_by_block(struct multi *multi) {
  struct group *end = multi->groups;
  for (size_t i = 0; i < multi->candidate_count; i++) {
    const struct candidate *candidate = &multi->candidates[i];
    const struct kv_table *table = candidate->lookup->table;
    uint32_t block = block_of(candidate);
    if (end > multi->groups && end[-1].table == table && end[-1].block == block)
      end[-1].count++;
    else
      *end++ = (struct group){table, i, 1, block, NULL};
  }
  multi->group_count = (size_t)(end - multi->groups);
  if (!multi->group_count) return;
  kv_stats_add(multi->stats, KV_STAT_MULTI_GET_BLOCKS, multi->group_count);
  kv_stats_add(multi->stats, KV_STAT_MULTI_GET_BLOCKS_SHARED,
               multi->candidate_count - multi->group_count);
}

static uint64_t offset_of(const struct group *group) {
  return kv_fences_offset(&group->table->parts.fences, group->block);
}

/* Asks the cache for the blocks of up to LOOKUP_GROUP groups from `first` on; returns how many. */
static size_t look_up_entries(const struct multi *multi, size_t first,
                              struct kv_cache_entry **entries) {
  struct kv_cache_name names[LOOKUP_GROUP];
  size_t left = multi->group_count - first, n = left < LOOKUP_GROUP ? left : LOOKUP_GROUP;
  for (size_t i = 0; i < n; i++) {
    const struct group *group = &multi->groups[first + i];
    names[i] = (struct kv_cache_name){group->table->owner, group->block};
  }
  kv_cache_lookup_many(multi->groups[first].table->cache, names, n, entries);
  return n;
}

/* Takes groups from `first` on into a round, until their missing blocks reach the budget. */
static size_t round_end(struct multi *multi, size_t first, size_t *missing) {
  struct kv_cache_entry *entries[LOOKUP_GROUP];
  size_t bytes = 0, end = first;
  *missing = 0;
  while (end < multi->group_count && bytes < ROUND_BYTES) {
    size_t n = look_up_entries(multi, end, entries), i = 0;
    for (; i < n && bytes < ROUND_BYTES; i++) {
      struct group *group = &multi->groups[end++];
      group->entry = entries[i];
      if (group->entry) continue;
      size_t size = kv_fences_size(&group->table->parts.fences, group->block);
      multi->ranges[(*missing)++] = (struct kv_range){offset_of(group), size, NULL};
      bytes += size;
    }
    for (; i < n; i++) kv_cache_unpin(entries[i]);
  }
  kv_stats_add(multi->stats, KV_STAT_CACHE_HITS, end - first - *missing);
  kv_stats_add(multi->stats, KV_STAT_CACHE_MISSES, *missing);
  return end;
}

/* The first group from `first` on whose block is not in hand. */
static size_t next_missing(const struct multi *multi, size_t first, size_t end) {
  while (first < end && multi->groups[first].entry) first++;
  return first;
}

/* The missing blocks of a round, which are its ranges. A file's are announced together, then read in pieces,
** each when its first block is needed: the next ones come from the disk while these are unpacked. */
struct reading {
  size_t next;     /* that has been read and is to be adopted */
  size_t end;      /* of those that have been read */
  size_t file_end; /* of those of this file */
};

/* How many missing blocks there are from `group` on, which is one, in the same file. */
static size_t missing_in_file(const struct multi *multi, size_t group, size_t end) {
  const struct kv_table *table = multi->groups[group].table;
  size_t count = 0;
  for (; group < end && multi->groups[group].table == table; count++)
    group = next_missing(multi, group + 1, end);
  return count;
}

/* How many of n ranges are a piece. */
static size_t piece_of(const struct kv_range *ranges, size_t n) {
  size_t count = 0, bytes = 0;
  while (count < n && bytes < PIECE_BYTES) bytes += ranges[count++].size;
  return count;
}

/* Reads the next piece, whose first block is that of `group`. */
static kv_status read_piece(struct multi *multi, struct reading *reading, size_t group, size_t end,
                            struct kv_err *err) {
  bool new_file = reading->end == reading->file_end;
  if (new_file) reading->file_end += missing_in_file(multi, group, end);
  struct kv_range *ranges = multi->ranges + reading->end;
  size_t left = reading->file_end - reading->end, n = piece_of(ranges, left);
  kv_status status = KV_OK;
  for (size_t i = 0; i < n && !status; i++) {
    ranges[i].into = kv_alloc(ranges[i].size, 1);
    if (!ranges[i].into) status = kv_fail_nomem(err);
  }
  if (!status)
    status = kv_open_file_read_ahead(multi->groups[group].table->file, ranges, n,
                                     new_file ? left : 0, err);
  reading->end += n;
  return status;
}

/* Moves one block that was read into the cache; takes the range's bytes. */
static kv_status adopt(struct group *group, struct kv_range *range, struct kv_err *err) {
  uint8_t *stored = range->into;
  range->into = NULL;
  return kv_table_adopt(group->table, group->block, stored, &group->entry, err);
}

/* Lookups that take their steps in turn. */
struct overlap {
  struct kv_block_search searches[OVERLAP];
  struct kv_lookup *lookups[OVERLAP];
  const struct group *groups[OVERLAP];
  size_t count;
};

static void add_search(struct overlap *overlap, const struct group *group,
                       struct kv_lookup *lookup) {
  struct kv_block block = kv_table_block(group->table, group->entry);
  struct kv_block_search *search = &overlap->searches[overlap->count];
  if (lookup->at)
    kv_block_search_begin_at(search, &block, lookup->key, lookup->at->offset);
  else
    kv_block_search_begin(search, &block, lookup->key, lookup->hash);
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

/* Asks for both ends of a value: whoever reads it comes at some time after the next searches. */
static void ask_for_value(struct kv_slice value) {
  if (!value.size) return;
  kv_prefetch(value.data);
  kv_prefetch(value.data + value.size - 1);
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
    const struct group *group = overlap->groups[i];
    if (!status) kv_table_answer(group->table, group->entry, answer, multi->mode, lookup);
    if (!status && lookup->pin) kv_cache_pin(lookup->pin);
    if (!status) ask_for_value(lookup->value);
  }
  if (status) {
    const struct group *failed = overlap->groups[at];
    return kv_table_fail(failed->table, failed->block, status, &inner, err);
  }
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
      add_search(&overlap, group, multi->candidates[group->first + j].lookup);
      if (overlap.count == OVERLAP) status = finish_searches(multi, &overlap, err);
    }
  }
  return status ? status : finish_searches(multi, &overlap, err);
}

static void mark_missed(const struct multi *multi, const struct group *group) {
  for (size_t j = 0; j < group->count; j++)
    multi->candidates[group->first + j].lookup->missed = true;
}

/* Works through groups [first, end); the blocks of those without entry are in the ranges, if they were to be
** read. */
static kv_status run_round(struct multi *multi, size_t first, size_t end, size_t missing,
                           struct kv_err *err) {
  bool reads = multi->mode != KV_LOOKUP_CACHED;
  struct reading reading = {0};
  kv_status status = KV_OK;
  for (size_t i = first, stop; i < end; i = stop) {
    struct group *group = &multi->groups[i];
    stop = i + 1;
    if (group->entry) {
      stop = next_missing(multi, i, end);
    } else {
      mark_missed(multi, group);
      if (!reads) continue;
      if (!status && reading.next == reading.end) status = read_piece(multi, &reading, i, end, err);
      if (!status) status = adopt(group, &multi->ranges[reading.next++], err);
    }
    if (!status) status = look_up(multi, i, stop, err);
    for (size_t j = i; j < stop; j++) kv_cache_unpin(multi->groups[j].entry);
  }
  for (size_t i = 0; i < missing; i++) kv_free(multi->ranges[i].into);
  return status;
}

kv_status kv_table_multi_get(struct kv_lookup *lookups, size_t n, enum kv_lookup_mode mode,
                             struct kv_err *err) {
  struct multi multi;
  kv_status status = init_multi(&multi, n, mode, err);
  if (status) return status;
  gather(&multi, lookups, n);
  filter_candidates(&multi);
  find_blocks(&multi);
  sort_candidates(&multi);
  group_by_block(&multi);
  for (size_t first = 0, end; first < multi.group_count && !status; first = end) {
    size_t missing;
    end = round_end(&multi, first, &missing);
    status = run_round(&multi, first, end, missing, err);
  }
  for (size_t i = 0; i < n && status; i++) {
    if (!lookups[i].table) continue;
    kv_cache_unpin(lookups[i].pin);
    reset_answer(&lookups[i]);
  }
  kv_free(multi.memory);
  return status;
}
