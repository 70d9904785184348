/* The sorted order of entries, made when something asks for it, and the iterator over it that batch and
** memtable share. An order is immutable and reference-counted: it shows one entry a key, the newest, of
** the positions below `upto`, and is extended by sorting only the positions since.
** The entries' memory is the owner's: whoever keeps an order keeps the owner too.
** Thread rule: references any thread; an iterator by one thread at a time. */
#ifndef KV_ORDER_H
#define KV_ORDER_H

#include <stddef.h>
#include <stdint.h>

#include "entries.h"
#include "iter.h"

struct kv_order_item {
  uint64_t prefix; /* kv_prefix64 of the key: most comparisons need no more; 0 under a comparator */
  const struct kv_entry *entry;
};
struct kv_order {
  int64_t refs;                   /* atomic */
  uint32_t upto;                  /* positions below it are covered */
  const struct kv_comparator *by; /* the entries' */
  size_t count;
  struct kv_order_item items[]; /* ascending by key, distinct */
};

/* The order of all positions in use. `base` is an earlier order of the same entries with none popped
** below base->upto since, or NULL; it stays as it is. */
kv_status kv_order_new(const struct kv_entries *entries, struct kv_order *base,
                       struct kv_order **order, struct kv_err *err);
struct kv_order *kv_order_ref(struct kv_order *order);
void kv_order_unref(struct kv_order *order);         /* NULL is allowed */
size_t kv_order_bytes(const struct kv_order *order); /* of heap memory; 0 for NULL */

/* The head of an owner's iterator. */
struct kv_order_iter {
  struct kv_iter iter;
  struct kv_order *order;
  size_t index;
  /* The version of an item to show, or NULL to pass it by. */
  const struct kv_entry *(*visible)(const struct kv_order_iter *iter,
                                    const struct kv_entry *newest);
  /* Frees the iterator's memory and lets go of the owner; the order has been let go of. */
  void (*drop)(struct kv_order_iter *iter);
};
/* Fills the head; takes over one reference to the order. */
void kv_order_iter_init(struct kv_order_iter *iter, struct kv_order *order,
                        const struct kv_entry *(*visible)(const struct kv_order_iter *iter,
                                                          const struct kv_entry *newest),
                        void (*drop)(struct kv_order_iter *iter));

#endif
