/* See order.h.
**
** New entries are dealt out by the leading bits in which their prefixes differ, stably, until a few are left
** together; those and what the prefixes do not tell apart are sorted by a stable bottom-up merge sort over
** short insertion-sorted runs (entries that are in order already are only looked at once). Of equal keys the
** last is kept. Memory for the sort is one more array of the new items. Two runs are merged like halves of a
** sort, and the newer one wins a tie.
**
** Each run is more than GROWTH times as large as the next, so that there are few, and merging moves an entry
** a few times in all. A rollback takes back whole runs. Were a run to reach over the place that it goes back
** to, the entries before that place would have to be sorted again; so the place is remembered, and the next
** run begins there.
**
** An iterator stands in every run at the first item that is not below the current key, in both directions:
** the current key is the least of the items that it stands at, and the one before it the greatest of those
** that it has passed. */
#include "order.h"

#include <stdbool.h>
#include <string.h>

#include "code.h"
#include "mem.h"

#define INSERTION_ITEMS ((size_t)12)
#define MERGED_ITEMS ((size_t)32) /* so few are not dealt out */
#define HEAP_ITEMS 4u             /* are to be left together */
#define HEAP_BITS_MAX 9
#define GROWTH 4u
#define PREFIX_BYTES 12
#define AHEAD 8u /* items: entries are asked for that long before they are shown */
#define LINE_BYTES 64
#define LINES_AHEAD 8 /* of one entry, at most */

/* ---- Items */

static struct kv_slice key_at(const struct kv_order_keys *keys, const struct kv_order_item *item) {
  return kv_entries_at(keys->entries, item->place).key;
}

static struct kv_order_item item_of(const struct kv_order_keys *keys, struct kv_slice key,
                                    uint32_t place) {
  if (keys->by) return (struct kv_order_item){0, 0, place};
  uint8_t padded[PREFIX_BYTES + 4] = {0};
  if (key.size) memcpy(padded, key.data, key.size < PREFIX_BYTES ? key.size : PREFIX_BYTES);
  return (struct kv_order_item){kv_get_u64_be(padded), (uint32_t)(kv_get_u64_be(padded + 8) >> 32),
                                place};
}

static int compare_prefix(const struct kv_order_item *a, const struct kv_order_item *b) {
  if (a->prefix != b->prefix) return a->prefix < b->prefix ? -1 : 1;
  if (a->prefix_rest != b->prefix_rest) return a->prefix_rest < b->prefix_rest ? -1 : 1;
  return 0;
}

static int compare(const struct kv_order_keys *keys, const struct kv_order_item *a,
                   const struct kv_order_item *b) {
  int order = compare_prefix(a, b);
  if (order) return order;
  return kv_key_compare(keys->by, key_at(keys, a), key_at(keys, b));
}

/* ---- Sorting */

/* Items to be sorted where they are. */
struct sort {
  const struct kv_order_keys *keys;
  struct kv_order_item *items;
  struct kv_order_item *scratch; /* as many */
  size_t count;
};

static void sort_short(const struct sort *sort, size_t from, size_t count) {
  struct kv_order_item *items = sort->items + from;
  for (size_t i = 1; i < count; i++) {
    struct kv_order_item item = items[i];
    size_t at = i;
    for (; at > 0 && compare(sort->keys, &items[at - 1], &item) > 0; at--)
      items[at] = items[at - 1];
    items[at] = item;
  }
}

/* Merges [0, middle) and [middle, count) of `from` into `into`, of equals the first half's first. */
static void merge_halves(const struct kv_order_keys *keys, const struct kv_order_item *from,
                         size_t middle, size_t count, struct kv_order_item *into) {
  if (middle >= count || compare(keys, &from[middle - 1], &from[middle]) <= 0) {
    memcpy(into, from, count * sizeof *into);
    return;
  }
  size_t a = 0, b = middle;
  while (a < middle && b < count)
    *into++ = compare(keys, &from[b], &from[a]) < 0 ? from[b++] : from[a++];
  if (a < middle) memcpy(into, from + a, (middle - a) * sizeof *into);
  if (b < count) memcpy(into, from + b, (count - b) * sizeof *into);
}

static size_t least(size_t a, size_t b) {
  return a < b ? a : b;
}

static void merge_sort(const struct sort *sort) {
  struct kv_order_item *from = sort->items, *into = sort->scratch;
  size_t count = sort->count;
  for (size_t i = 0; i < count; i += INSERTION_ITEMS)
    sort_short(sort, i, least(INSERTION_ITEMS, count - i));
  for (size_t width = INSERTION_ITEMS; width < count; width *= 2) {
    for (size_t i = 0; i < count; i += 2 * width) {
      size_t n = least(2 * width, count - i);
      merge_halves(sort->keys, from + i, least(width, n), n, into + i);
    }
    struct kv_order_item *merged = into;
    into = from;
    from = merged;
  }
  if (from != sort->items) memcpy(sort->items, from, count * sizeof *from);
}

/* How prefixes are dealt out: by so many bits, from the highest on in which they differ. */
struct deal {
  uint64_t least;
  int shift;
  uint32_t heaps;
};

static int bits_of(uint64_t value) {
  return 64 - __builtin_clzll(value | 1);
}

static struct deal deal_for(const struct sort *sort) {
  uint64_t low = UINT64_MAX, high = 0;
  for (size_t i = 0; i < sort->count; i++) {
    uint64_t prefix = sort->items[i].prefix;
    if (prefix < low) low = prefix;
    if (prefix > high) high = prefix;
  }
  int differ = low < high ? bits_of(high - low) : 0;
  int bits = bits_of(sort->count / HEAP_ITEMS);
  if (bits > HEAP_BITS_MAX) bits = HEAP_BITS_MAX;
  if (bits > differ) bits = differ;
  return (struct deal){low, differ - bits, 1u << bits};
}

static uint32_t heap_of(const struct deal *deal, const struct kv_order_item *item) {
  return (uint32_t)((item->prefix - deal->least) >> deal->shift);
}

/* Into heaps, in their order; ends[i] becomes the end of heap i. */
static void deal_out(const struct sort *sort, const struct deal *deal, uint32_t *ends) {
  memset(ends, 0, (deal->heaps + 1) * sizeof *ends);
  for (size_t i = 0; i < sort->count; i++) ends[heap_of(deal, &sort->items[i]) + 1]++;
  for (uint32_t heap = 1; heap < deal->heaps; heap++) ends[heap] += ends[heap - 1];
  for (size_t i = 0; i < sort->count; i++)
    sort->scratch[ends[heap_of(deal, &sort->items[i])]++] = sort->items[i];
  memcpy(sort->items, sort->scratch, sort->count * sizeof *sort->items);
}

/* Each time the prefixes of a heap have fewer bits left: at least four of them. */
static void sort_items(const struct sort *sort) {
  uint32_t ends[(1u << HEAP_BITS_MAX) + 1];
  struct deal deal = {0, 0, 1};
  if (sort->count > MERGED_ITEMS) deal = deal_for(sort);
  if (deal.heaps == 1) {
    merge_sort(sort);
    return;
  }
  deal_out(sort, &deal, ends);
  for (uint32_t heap = 0, from = 0; heap < deal.heaps; from = ends[heap++]) {
    struct sort part = {sort->keys, sort->items + from, sort->scratch + from, ends[heap] - from};
    if (part.count > 1) sort_items(&part);
  }
}

/* Of equal neighbours keeps the last; returns how many are left. */
static size_t keep_newest(const struct kv_order_keys *keys, struct kv_order_item *items,
                          size_t count) {
  size_t kept = 0;
  for (size_t i = 0; i < count; i++) {
    if (i + 1 == count || compare(keys, &items[i], &items[i + 1])) items[kept++] = items[i];
  }
  return kept;
}

static bool ascending(const struct kv_order_keys *keys, const struct kv_order_item *items,
                      size_t count) {
  for (size_t i = 1; i < count; i++) {
    if (compare(keys, &items[i - 1], &items[i]) >= 0) return false;
  }
  return true;
}

/* ---- Runs */

static size_t run_bytes(size_t count) {
  return sizeof(struct kv_order_run) + count * sizeof(struct kv_order_item);
}

static struct kv_order_run *run_new(size_t count, uint32_t upto) {
  struct kv_order_run *run = kv_alloc(1, run_bytes(count));
  if (run) *run = (struct kv_order_run){.refs = 1, .upto = upto, .count = count};
  return run;
}

static struct kv_order_run *run_ref(struct kv_order_run *run) {
  __atomic_add_fetch(&run->refs, 1, __ATOMIC_RELAXED);
  return run;
}

static void run_unref(struct kv_order_run *run) {
  if (run && !__atomic_sub_fetch(&run->refs, 1, __ATOMIC_ACQ_REL)) kv_free(run);
}

/* Gives back the memory of items that the run turned out not to have. */
static struct kv_order_run *run_trim(struct kv_order_run *run, size_t count) {
  if (run->count == count) return run;
  run->count = count;
  struct kv_order_run *trimmed = kv_realloc(run, 1, run_bytes(count));
  return trimmed ? trimmed : run;
}

static size_t count_between(const struct kv_order_keys *keys, uint32_t from, uint32_t upto) {
  if (from == KV_PLACE_FIRST && upto == keys->entries->places.end) return keys->entries->count;
  struct kv_entries_walk walk = kv_entries_walk(keys->entries, from);
  size_t count = 0;
  while (kv_entries_step(&walk) && walk.place < upto) count++;
  return count;
}

static bool sort_run(const struct kv_order_keys *keys, struct kv_order_run **run) {
  size_t count = (*run)->count;
  if (ascending(keys, (*run)->items, count)) return true;
  struct kv_order_item *scratch = kv_alloc(count, sizeof *scratch);
  if (!scratch) return false;
  struct sort sort = {keys, (*run)->items, scratch, count};
  sort_items(&sort);
  kv_free(scratch);
  *run = run_trim(*run, keep_newest(keys, (*run)->items, count));
  return true;
}

/* A run of the `count` entries in [from, upto), or NULL without memory. */
static struct kv_order_run *fresh_run(const struct kv_order_keys *keys, uint32_t from,
                                      uint32_t upto, size_t count) {
  struct kv_order_run *run = run_new(count, upto);
  if (!run) return NULL;
  struct kv_entries_walk walk = kv_entries_walk(keys->entries, from);
  for (size_t i = 0; i < count && kv_entries_step(&walk); i++)
    run->items[i] = item_of(keys, walk.entry.key, walk.place);
  if (sort_run(keys, &run)) return run;
  run_unref(run);
  return NULL;
}

static struct kv_order_run *merged_run(const struct kv_order_keys *keys,
                                       const struct kv_order_run *older,
                                       const struct kv_order_run *newer) {
  struct kv_order_run *run = run_new(older->count + newer->count, newer->upto);
  if (!run) return NULL;
  const struct kv_order_item *a = older->items, *a_end = a + older->count;
  const struct kv_order_item *b = newer->items, *b_end = b + newer->count;
  struct kv_order_item *into = run->items;
  while (a < a_end && b < b_end) {
    int before = compare(keys, a, b);
    *into++ = before < 0 ? *a : *b;
    a += before <= 0;
    b += before >= 0;
  }
  while (a < a_end) *into++ = *a++;
  while (b < b_end) *into++ = *b++;
  return run_trim(run, (size_t)(into - run->items));
}

/* ---- Orders */

void kv_order_init(struct kv_order *order, const struct kv_comparator *by) {
  *order = (struct kv_order){.by = by, .upto = KV_PLACE_FIRST};
}

void kv_order_release(struct kv_order *order) {
  while (order->run_count) run_unref(order->runs[--order->run_count]);
  order->upto = KV_PLACE_FIRST;
}

size_t kv_order_bytes(const struct kv_order *order) {
  size_t bytes = 0;
  for (uint32_t i = 0; i < order->run_count; i++) bytes += run_bytes(order->runs[i]->count);
  return bytes;
}

/* Whether the run at `last` is to be merged with one of `count` items that follows it. */
static bool merges(const struct kv_order *order, uint32_t last, size_t count) {
  return order->runs[last]->count <= GROWTH * count || last + 1 == KV_ORDER_RUNS_MAX;
}

static kv_status add_run(struct kv_order *order, const struct kv_entries *entries, uint32_t upto,
                         struct kv_err *err) {
  const struct kv_order_keys keys = {entries, order->by};
  size_t count = count_between(&keys, order->upto, upto);
  if (!count) {
    order->upto = upto;
    return KV_OK;
  }
  struct kv_order_run *run = fresh_run(&keys, order->upto, upto, count);
  uint32_t kept = order->run_count;
  uint64_t moved = run ? run->count : 0;
  while (run && kept && merges(order, kept - 1, run->count)) {
    struct kv_order_run *merged = merged_run(&keys, order->runs[--kept], run);
    run_unref(run);
    run = merged;
    moved += run ? run->count : 0;
  }
  if (!run) return kv_fail_nomem(err);
  while (order->run_count > kept) run_unref(order->runs[--order->run_count]);
  order->runs[order->run_count++] = run;
  order->upto = upto;
  order->moved += moved;
  return KV_OK;
}

kv_status kv_order_extend(struct kv_order *order, const struct kv_entries *entries,
                          struct kv_err *err) {
  uint32_t upto = entries->places.end;
  kv_status status = KV_OK;
  if (order->upto < order->split && order->split < upto)
    status = add_run(order, entries, order->split, err);
  if (!status && order->upto < upto) status = add_run(order, entries, upto, err);
  return status;
}

void kv_order_cut(struct kv_order *order, uint32_t place) {
  if (place < KV_PLACE_FIRST) place = KV_PLACE_FIRST;
  while (order->run_count && order->runs[order->run_count - 1]->upto > place)
    run_unref(order->runs[--order->run_count]);
  order->upto = order->run_count ? order->runs[order->run_count - 1]->upto : KV_PLACE_FIRST;
  order->split = place;
}

/* ---- Iterator */

static struct kv_order_iter *head(struct kv_iter *iter) {
  return (struct kv_order_iter *)iter;
}

static const uint8_t *entry_ahead(const struct kv_order_iter *self, uint32_t run, size_t items) {
  size_t at = self->at[run] + items;
  if (at >= self->runs[run]->count) return NULL;
  return kv_place_at(&self->keys.entries->places, self->runs[run]->items[at].place);
}

/* An entry's first line, and when that has come, those that its sizes say. */
static void prefetch_ahead(const struct kv_order_iter *self, uint32_t run) {
  const uint8_t *far = entry_ahead(self, run, 2 * AHEAD), *near = entry_ahead(self, run, AHEAD);
  if (far) kv_prefetch(far);
  if (!near) return;
  struct kv_entry entry = kv_entry_read(near);
  const uint8_t *end = entry.value.data + entry.value.size;
  if (end > near + LINES_AHEAD * LINE_BYTES) end = near + LINES_AHEAD * LINE_BYTES;
  for (near += LINE_BYTES; near < end; near += LINE_BYTES) kv_prefetch(near);
}

/* Shows an item unless it is to be passed by. */
static bool show(struct kv_order_iter *self, const struct kv_order_item *item) {
  struct kv_entry entry = kv_entries_at(self->keys.entries, item->place);
  if (self->visible && !self->visible(self, item->place, &entry)) return false;
  self->iter.valid = true;
  self->iter.deleted = entry.deleted;
  self->iter.key = entry.key;
  self->iter.value = entry.value;
  return true;
}

/* The least item that the iterator stands at, of equal ones the newest, or with `passed` the greatest that it
** has passed; NULL when there is none. `current` becomes the runs that have its key. */
static const struct kv_order_item *choose(struct kv_order_iter *self, bool passed) {
  const struct kv_order_item *best = NULL;
  self->current = 0;
  for (uint32_t run = 0; run < self->run_count; run++) {
    size_t at = self->at[run] - passed;
    if (at >= self->runs[run]->count) continue; /* 0 - 1 too */
    const struct kv_order_item *item = &self->runs[run]->items[at];
    int order = !best ? -1 : compare(&self->keys, item, best);
    if (passed && best) order = -order;
    if (order > 0) continue;
    self->current = (order < 0 ? 0 : self->current) | 1u << run;
    best = item;
  }
  return best;
}

static void move_current(struct kv_order_iter *self, size_t step) {
  for (uint32_t bits = self->current; bits; bits &= bits - 1) self->at[__builtin_ctz(bits)] += step;
}

static void settle_forward(struct kv_order_iter *self) {
  const struct kv_order_item *item;
  while ((item = choose(self, false)) && !show(self, item)) move_current(self, 1);
  self->iter.valid = item != NULL;
}

static void settle_backward(struct kv_order_iter *self) {
  const struct kv_order_item *item;
  do {
    item = choose(self, true);
    move_current(self, (size_t)-1);
  } while (item && !show(self, item));
  self->iter.valid = item != NULL;
}

/* How many items of a run are below a key. */
static size_t count_below(const struct kv_order_iter *self, const struct kv_order_run *run,
                          struct kv_slice key) {
  struct kv_order_item sought = item_of(&self->keys, key, KV_PLACE_NONE);
  size_t low = 0, high = run->count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    const struct kv_order_item *item = &run->items[middle];
    int order = compare_prefix(item, &sought);
    if (!order) order = kv_key_compare(self->keys.by, key_at(&self->keys, item), key);
    if (order < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static void order_seek(struct kv_iter *iter, struct kv_slice key) {
  struct kv_order_iter *self = head(iter);
  for (uint32_t run = 0; run < self->run_count; run++)
    self->at[run] = count_below(self, self->runs[run], key);
  settle_forward(self);
}

static void order_seek_first(struct kv_iter *iter) {
  memset(head(iter)->at, 0, sizeof head(iter)->at);
  settle_forward(head(iter));
}

static void order_seek_last(struct kv_iter *iter) {
  struct kv_order_iter *self = head(iter);
  for (uint32_t run = 0; run < self->run_count; run++) self->at[run] = self->runs[run]->count;
  settle_backward(self);
}

static void order_next(struct kv_iter *iter) {
  if (!iter->valid) return;
  struct kv_order_iter *self = head(iter);
  prefetch_ahead(self, (uint32_t)__builtin_ctz(self->current));
  move_current(self, 1);
  settle_forward(self);
}

static void order_prev(struct kv_iter *iter) {
  if (iter->valid) settle_backward(head(iter));
}

static void order_free(struct kv_iter *iter) {
  struct kv_order_iter *self = head(iter);
  for (uint32_t run = 0; run < self->run_count; run++) run_unref(self->runs[run]);
  self->drop(self);
}

static const struct kv_iter_ops order_ops = {order_seek, order_seek_first, order_seek_last,
                                             order_next, order_prev,       order_free};

void kv_order_iter_init(struct kv_order_iter *iter, const struct kv_order *order,
                        const struct kv_entries *entries,
                        bool (*visible)(const struct kv_order_iter *iter, uint32_t place,
                                        struct kv_entry *entry),
                        void (*drop)(struct kv_order_iter *iter)) {
  *iter = (struct kv_order_iter){.iter = {.ops = &order_ops},
                                 .keys = {entries, order->by},
                                 .run_count = order->run_count,
                                 .visible = visible,
                                 .drop = drop};
  for (uint32_t run = 0; run < order->run_count; run++) iter->runs[run] = run_ref(order->runs[run]);
}
