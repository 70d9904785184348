/* See order.h.
**
** The new positions are sorted by a stable bottom-up merge sort over short insertion-sorted runs (runs
** that follow each other already are copied, so keys written in order cost one pass), of equal keys
** the last is kept, and the result is merged with the base, where the new one wins a tie. Memory for
** the sort is two arrays of the new items. */
#include "order.h"

#include <stdbool.h>
#include <string.h>

#include "code.h"
#include "mem.h"

#define RUN_ITEMS ((size_t)12) /* sorted by insertion */

/* ---- Sorting */

/* What stands for a key in most comparisons; under a comparator nothing can. */
static uint64_t prefix_of(const struct kv_comparator *by, struct kv_slice key) {
  return by ? 0 : kv_prefix64(key);
}

static int compare(const struct kv_comparator *by, const struct kv_order_item *a,
                   const struct kv_order_item *b) {
  if (a->prefix != b->prefix) return a->prefix < b->prefix ? -1 : 1;
  return kv_key_compare(by, kv_entry_key(a->entry), kv_entry_key(b->entry));
}

static void sort_run(const struct kv_comparator *by, struct kv_order_item *items, size_t count) {
  for (size_t i = 1; i < count; i++) {
    struct kv_order_item item = items[i];
    size_t at = i;
    for (; at > 0 && compare(by, &items[at - 1], &item) > 0; at--) items[at] = items[at - 1];
    items[at] = item;
  }
}

/* Merges [0, middle) and [middle, count) of `from` into `into`, of equals the first half's first. */
static void merge_halves(const struct kv_comparator *by, const struct kv_order_item *from,
                         size_t middle, size_t count, struct kv_order_item *into) {
  if (middle >= count || compare(by, &from[middle - 1], &from[middle]) <= 0) {
    memcpy(into, from, count * sizeof *into);
    return;
  }
  size_t a = 0, b = middle;
  while (a < middle && b < count)
    *into++ = compare(by, &from[b], &from[a]) < 0 ? from[b++] : from[a++];
  if (a < middle) memcpy(into, from + a, (middle - a) * sizeof *into);
  if (b < count) memcpy(into, from + b, (count - b) * sizeof *into);
}

static size_t least(size_t a, size_t b) {
  return a < b ? a : b;
}

/* Sorts items[0, count) with as much scratch; returns which of the two holds the result. */
static struct kv_order_item *sort(const struct kv_comparator *by, struct kv_order_item *items,
                                  size_t count, struct kv_order_item *scratch) {
  for (size_t i = 0; i < count; i += RUN_ITEMS)
    sort_run(by, items + i, least(RUN_ITEMS, count - i));
  for (size_t width = RUN_ITEMS; width < count; width *= 2) {
    for (size_t i = 0; i < count; i += 2 * width) {
      size_t n = least(2 * width, count - i);
      merge_halves(by, items + i, least(width, n), n, scratch + i);
    }
    struct kv_order_item *sorted = scratch;
    scratch = items;
    items = sorted;
  }
  return items;
}

/* Of equal neighbours keeps the last; returns how many are left. */
static size_t keep_newest(const struct kv_comparator *by, struct kv_order_item *items,
                          size_t count) {
  size_t kept = 0;
  for (size_t i = 0; i < count; i++) {
    if (i + 1 == count || compare(by, &items[i], &items[i + 1]) < 0) items[kept++] = items[i];
  }
  return kept;
}

/* ---- Orders */

static void merge_base(const struct kv_order *base, const struct kv_order_item *fresh, size_t count,
                       struct kv_order *order) {
  const struct kv_comparator *by = order->by;
  const struct kv_order_item *a = base ? base->items : fresh;
  const struct kv_order_item *a_end = a + (base ? base->count : 0);
  const struct kv_order_item *b = fresh, *b_end = fresh + count;
  struct kv_order_item *into = order->items;
  while (a < a_end && b < b_end) {
    int before = compare(by, a, b);
    if (before >= 0) *into++ = *b++;
    if (before < 0) *into++ = *a;
    a += before <= 0;
  }
  while (a < a_end) *into++ = *a++;
  while (b < b_end) *into++ = *b++;
  order->count = (size_t)(into - order->items);
}

static struct kv_order *merged_order(const struct kv_entries *entries, const struct kv_order *base,
                                     const struct kv_order_item *fresh, size_t count) {
  size_t most = count + (base ? base->count : 0);
  struct kv_order *order = kv_alloc(1, sizeof *order + most * sizeof *order->items);
  if (!order) return NULL;
  order->refs = 1;
  order->upto = entries->count;
  order->by = entries->comparator;
  merge_base(base, fresh, count, order);
  return order;
}

kv_status kv_order_new(const struct kv_entries *entries, struct kv_order *base,
                       struct kv_order **order, struct kv_err *err) {
  const struct kv_comparator *by = entries->comparator;
  uint32_t from = base ? base->upto : 0;
  if (base && from == entries->count) {
    *order = kv_order_ref(base);
    return KV_OK;
  }
  size_t count = entries->count - from;
  struct kv_order_item *items = kv_alloc(count, 2 * sizeof *items);
  if (!items) return kv_fail_nomem(err);
  for (size_t i = 0; i < count; i++) {
    const struct kv_entry *entry = kv_entries_at(entries, from + (uint32_t)i);
    items[i] = (struct kv_order_item){prefix_of(by, kv_entry_key(entry)), entry};
  }
  struct kv_order_item *sorted = sort(by, items, count, items + count);
  *order = merged_order(entries, base, sorted, keep_newest(by, sorted, count));
  kv_free(items);
  return *order ? KV_OK : kv_fail_nomem(err);
}

struct kv_order *kv_order_ref(struct kv_order *order) {
  __atomic_add_fetch(&order->refs, 1, __ATOMIC_RELAXED);
  return order;
}

void kv_order_unref(struct kv_order *order) {
  if (order && !__atomic_sub_fetch(&order->refs, 1, __ATOMIC_ACQ_REL)) kv_free(order);
}

size_t kv_order_bytes(const struct kv_order *order) {
  return order ? sizeof *order + order->count * sizeof *order->items : 0;
}

/* ---- Iterator */

static struct kv_order_iter *head(struct kv_iter *iter) {
  return (struct kv_order_iter *)iter;
}

/* Shows the item at `index` or the next one in `step`'s direction that is visible; running over either
** end, 0 - 1 included, is the end. */
static void settle(struct kv_order_iter *self, size_t step) {
  const struct kv_order *order = self->order;
  for (; self->index < order->count; self->index += step) {
    const struct kv_entry *entry = self->visible(self, order->items[self->index].entry);
    if (!entry) continue;
    self->iter.valid = true;
    self->iter.deleted = entry->deleted;
    self->iter.key = kv_entry_key(entry);
    self->iter.value = kv_entry_value(entry);
    return;
  }
  self->iter.valid = false;
}

#define FORWARD ((size_t)1)
#define BACKWARD ((size_t)-1)

static void order_seek(struct kv_iter *iter, struct kv_slice key) {
  struct kv_order_iter *self = head(iter);
  const struct kv_order_item *items = self->order->items;
  const struct kv_comparator *by = self->order->by;
  uint64_t prefix = prefix_of(by, key);
  size_t low = 0, high = self->order->count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    bool before = items[middle].prefix != prefix
                      ? items[middle].prefix < prefix
                      : kv_key_compare(by, kv_entry_key(items[middle].entry), key) < 0;
    if (before) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  self->index = low;
  settle(self, FORWARD);
}

static void order_seek_first(struct kv_iter *iter) {
  head(iter)->index = 0;
  settle(head(iter), FORWARD);
}

static void order_seek_last(struct kv_iter *iter) {
  head(iter)->index = head(iter)->order->count - 1;
  settle(head(iter), BACKWARD);
}

static void order_next(struct kv_iter *iter) {
  if (!iter->valid) return;
  head(iter)->index += FORWARD;
  settle(head(iter), FORWARD);
}

static void order_prev(struct kv_iter *iter) {
  if (!iter->valid) return;
  head(iter)->index += BACKWARD;
  settle(head(iter), BACKWARD);
}

static void order_free(struct kv_iter *iter) {
  kv_order_unref(head(iter)->order);
  head(iter)->drop(head(iter));
}

static const struct kv_iter_ops order_ops = {order_seek, order_seek_first, order_seek_last,
                                             order_next, order_prev,       order_free};

void kv_order_iter_init(struct kv_order_iter *iter, struct kv_order *order,
                        const struct kv_entry *(*visible)(const struct kv_order_iter *iter,
                                                          const struct kv_entry *newest),
                        void (*drop)(struct kv_order_iter *iter)) {
  *iter = (struct kv_order_iter){
      .iter = {.ops = &order_ops}, .order = order, .visible = visible, .drop = drop};
}
