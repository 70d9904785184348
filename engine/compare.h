/* The order of keys. Without a comparator (NULL) keys are in memcmp order, which costs no call; a
** comparator is what a family was given instead (kv_family_config), one for all its life. Contract of
** `compare`: a total order, the same for ever, 0 for equal bytes and for nothing else: filters, hash
** indexes and merges know keys by their bytes. An order that breaks it gives wrong or missing rows or
** reports of damage, never a read outside the keys or a loop without end. Thread rule: any thread, also
** several at once; `compare` runs below locks of the engine. */
#ifndef KV_COMPARE_H
#define KV_COMPARE_H

#include <stdbool.h>
#include <stdint.h>

#include "buf.h"
#include "code.h"

#define KV_ORDER_BYTEWISE "bytewise" /* the name of the order without a comparator */

struct kv_search;
struct kv_comparator {
  const char *name; /* kept in table files, which are refused under another */
  int (*compare)(const struct kv_comparator *self, struct kv_slice a, struct kv_slice b);
  /* Optional, both: what calls need (a lock, a context) is taken once for all of a search. `begin` makes the
  ** comparator that calls go to meanwhile, in the search's room. */
  const struct kv_comparator *(*begin)(const struct kv_comparator *self, struct kv_search *search);
  void (*end)(struct kv_search *search);
  bool unknown; /* nobody knows the order: what is there is taken to be in it */
  int64_t refs; /* atomic */
  void (*free)(struct kv_comparator *self); /* with the last reference; NULL: never */
};

/* <0, 0, >0. */
static inline int kv_key_compare(const struct kv_comparator *comparator, struct kv_slice a,
                                 struct kv_slice b) {
  return comparator ? comparator->compare(comparator, a, b) : kv_slice_compare(a, b);
}

/* A search in memory: some comparisons in a row, with nothing between them that waits or takes a lock. */
struct kv_search {
  const struct kv_comparator *by; /* what compares */
  void (*end)(struct kv_search *search);
  _Alignas(16) uint8_t room[128]; /* of the comparator that `begin` makes */
};
static inline void kv_search_begin(struct kv_search *search,
                                   const struct kv_comparator *comparator) {
  bool begins = comparator && comparator->begin;
  search->end = begins ? comparator->end : NULL;
  search->by = begins ? comparator->begin(comparator, search) : comparator;
}
static inline void kv_search_end(struct kv_search *search) {
  if (search->end) search->end(search);
}

/* Keys whose prefixes differ are in the order of these; under a comparator none do. */
static inline uint64_t kv_key_prefix(const struct kv_comparator *comparator, struct kv_slice key) {
  return comparator ? 0 : kv_prefix64(key);
}
/* Whether b may follow a where keys ascend strictly. */
static inline bool kv_key_ascends(const struct kv_comparator *comparator, struct kv_slice a,
                                  struct kv_slice b) {
  return kv_key_compare(comparator, a, b) < 0 || (comparator && comparator->unknown);
}
static inline const char *kv_order_name(const struct kv_comparator *comparator) {
  return comparator ? comparator->name : KV_ORDER_BYTEWISE;
}

/* NULL is allowed for both. */
static inline const struct kv_comparator *kv_comparator_ref(
    const struct kv_comparator *comparator) {
  if (comparator)
    __atomic_add_fetch(&((struct kv_comparator *)(uintptr_t)comparator)->refs, 1, __ATOMIC_RELAXED);
  return comparator;
}
static inline void kv_comparator_unref(const struct kv_comparator *comparator) {
  struct kv_comparator *self = (struct kv_comparator *)(uintptr_t)comparator;
  if (self && __atomic_sub_fetch(&self->refs, 1, __ATOMIC_ACQ_REL) == 0 && self->free)
    self->free(self);
}

#endif
