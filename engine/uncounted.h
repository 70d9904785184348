/* Puts of a write batch of which it is not known whether they add a row: nobody has looked yet whether their
** keys are there below the batch. They wait, up to KV_UNCOUNTED_MAX of them, to be looked up together; of
** those that were, a bit each stays, so that a rollback takes back what they counted. Thread rule: the
** batch's. */
#ifndef KV_UNCOUNTED_H
#define KV_UNCOUNTED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "status.h"

#define KV_UNCOUNTED_MAX 4096

/* One that waits. Its key is the entry's. */
struct kv_uncounted_put {
  uint64_t hash;  /* kv_hash_key of the key */
  uint32_t place; /* of its entry in the batch */
};

/* All 0 at first. */
struct kv_uncounted {
  struct kv_uncounted_put *puts;
  size_t waiting;
  size_t room;     /* of `puts` */
  uint64_t *added; /* a bit for each that was looked up: it was not there; 0 behind them */
  size_t capacity; /* words */
  size_t settled;  /* that were looked up */
  int64_t rows;    /* of these, that were not there */
};
void kv_uncounted_release(struct kv_uncounted *uncounted);
size_t kv_uncounted_bytes(const struct kv_uncounted *uncounted); /* heap memory */

/* kv_uncounted_reserve where there is no room yet. */
kv_status kv_uncounted_grow(struct kv_uncounted *uncounted, struct kv_err *err);
/* Room for one more, so that the push cannot fail. KV_MISUSE when KV_UNCOUNTED_MAX wait. */
static inline kv_status kv_uncounted_reserve(struct kv_uncounted *uncounted, struct kv_err *err) {
  return uncounted->waiting < uncounted->room ? KV_OK : kv_uncounted_grow(uncounted, err);
}
static inline void kv_uncounted_push(struct kv_uncounted *uncounted, struct kv_uncounted_put put) {
  uncounted->puts[uncounted->waiting++] = put;
}
/* All that were pushed. */
static inline size_t kv_uncounted_count(const struct kv_uncounted *uncounted) {
  return uncounted->settled + uncounted->waiting;
}
/* found[i] says whether the ith that waits was there: none waits any more. KV_NOMEM: all still wait. */
kv_status kv_uncounted_settle(struct kv_uncounted *uncounted, const bool *found,
                              struct kv_err *err);
/* Takes back all but the first `count`. */
void kv_uncounted_truncate(struct kv_uncounted *uncounted, size_t count);

#endif
