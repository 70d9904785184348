/* Puts of a write batch of which it is not known whether they add a row: nobody has looked yet whether their
** keys are there below the batch. The keys wait, up to KV_UNCOUNTED_MAX of them, to be looked up together;
** of those that were, a bit each stays, so that a rollback takes back what they counted. Thread rule: the
** batch's. */
#ifndef KV_UNCOUNTED_H
#define KV_UNCOUNTED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "buf.h"
#include "status.h"

#define KV_UNCOUNTED_MAX 4096

/* All 0 at first but for the buffers. */
struct kv_uncounted {
  struct kv_buf keys; /* that wait, one after another */
  struct kv_buf ends; /* of each of them in `keys`, size_t */
  uint64_t *added;    /* a bit for each that was looked up: it was not there */
  size_t capacity;    /* words */
  size_t settled;     /* that were looked up */
  int64_t rows;       /* of these, that were not there */
};
void kv_uncounted_init(struct kv_uncounted *uncounted);
void kv_uncounted_release(struct kv_uncounted *uncounted);
size_t kv_uncounted_bytes(const struct kv_uncounted *uncounted); /* heap memory */

/* Room for one more key, so that the push cannot fail. KV_MISUSE when KV_UNCOUNTED_MAX wait. */
kv_status kv_uncounted_reserve(struct kv_uncounted *uncounted, size_t key_size, struct kv_err *err);
void kv_uncounted_push(struct kv_uncounted *uncounted, struct kv_slice key);
/* All that were pushed, and those of them that wait. */
size_t kv_uncounted_count(const struct kv_uncounted *uncounted);
size_t kv_uncounted_waiting(const struct kv_uncounted *uncounted);
/* keys[i], borrowed until the next change, of the ith that waits. */
void kv_uncounted_keys(const struct kv_uncounted *uncounted, struct kv_slice *keys);
/* found[i] says whether the ith that waits was there: none waits any more. */
void kv_uncounted_settle(struct kv_uncounted *uncounted, const bool *found);
/* Takes back all but the first `count`. */
void kv_uncounted_truncate(struct kv_uncounted *uncounted, size_t count);

#endif
