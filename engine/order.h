/* The sorted order of entries, made when something asks for it, and the iterator over it that batch and
** memtable share. An order is a few sorted runs, each of the entries between two places, one entry a key in a
** run; only what has come since the last time is sorted, and runs are merged when the one before is not
** several times larger. So keeping an order up with single writes costs each of them a few moves, and an
** iterator merges the runs as it goes: one in the usual case, about log4 of the entries at most.
** Runs are immutable and reference-counted. The entries' memory is the owner's: whoever keeps an iterator
** keeps the owner too.
** Thread rule: the owner locks the order; references any thread; an iterator by one thread at a time. */
#ifndef KV_ORDER_H
#define KV_ORDER_H

#include <stddef.h>
#include <stdint.h>

#include "compare.h"
#include "entries.h"
#include "iter.h"

#define KV_ORDER_RUNS_MAX 24u

/* Where the keys of items are, and their order. */
struct kv_order_keys {
  const struct kv_entries *entries;
  const struct kv_comparator *by; /* NULL: bytewise */
};
struct kv_order_item {
  uint64_t
      prefix; /* the key's first 12 bytes, zero-padded: most comparisons need no more; 0 under a comparator */
  uint32_t prefix_rest;
  uint32_t place;
};
struct kv_order_run {
  int64_t refs;  /* atomic */
  uint32_t upto; /* the entries between the run before and this place */
  size_t count;
  struct kv_order_item items[]; /* ascending by key, distinct */
};

struct kv_order {
  const struct kv_comparator *by;               /* the owner's, or NULL */
  struct kv_order_run *runs[KV_ORDER_RUNS_MAX]; /* oldest first */
  uint32_t run_count;
  uint32_t upto;  /* places below it are covered */
  uint32_t split; /* the last rollback went to here, as the next may: a run ends here */
  uint64_t moved; /* for tests: items sorted or merged since init */
};

void kv_order_init(struct kv_order *order, const struct kv_comparator *by);
void kv_order_release(struct kv_order *order);
size_t kv_order_bytes(const struct kv_order *order); /* of heap memory */
/* Covers all entries of now. KV_NOMEM: still an order of what it covered, or of more. */
kv_status kv_order_extend(struct kv_order *order, const struct kv_entries *entries,
                          struct kv_err *err);
/* Forgets the entries from a place on: they have been undone. */
void kv_order_cut(struct kv_order *order, uint32_t place);

/* The head of an owner's iterator. */
struct kv_order_iter {
  struct kv_iter iter;
  struct kv_order_keys keys;
  struct kv_order_run *runs[KV_ORDER_RUNS_MAX];
  size_t at[KV_ORDER_RUNS_MAX]; /* items of a run that are below the current key */
  uint32_t run_count;
  uint32_t current; /* bits of the runs that have the current key */
  /* Shows another version of the newest entry, at `place`, or returns false to pass the key by. NULL: all
  ** are shown. */
  bool (*visible)(const struct kv_order_iter *iter, uint32_t place, struct kv_entry *entry);
  /* Frees the iterator's memory and lets go of the owner; the runs have been let go of. */
  void (*drop)(struct kv_order_iter *iter);
};
/* Fills the head; takes references to the runs. */
void kv_order_iter_init(struct kv_order_iter *iter, const struct kv_order *order,
                        const struct kv_entries *entries,
                        bool (*visible)(const struct kv_order_iter *iter, uint32_t place,
                                        struct kv_entry *entry),
                        void (*drop)(struct kv_order_iter *iter));

#endif
