/* See uncounted.h. The order is that of the pushes: the settled ones come first. */
#include "uncounted.h"

#include <string.h>

#include "mem.h"

#define WORD_BITS 64

void kv_uncounted_init(struct kv_uncounted *uncounted) {
  memset(uncounted, 0, sizeof *uncounted);
  kv_buf_init(&uncounted->keys);
  kv_buf_init(&uncounted->ends);
}

void kv_uncounted_release(struct kv_uncounted *uncounted) {
  kv_buf_release(&uncounted->keys);
  kv_buf_release(&uncounted->ends);
  kv_free(uncounted->added);
  uncounted->added = NULL;
}

size_t kv_uncounted_bytes(const struct kv_uncounted *uncounted) {
  return uncounted->keys.capacity + uncounted->ends.capacity +
         uncounted->capacity * sizeof *uncounted->added;
}

size_t kv_uncounted_waiting(const struct kv_uncounted *uncounted) {
  return uncounted->ends.size / sizeof(size_t);
}

size_t kv_uncounted_count(const struct kv_uncounted *uncounted) {
  return uncounted->settled + kv_uncounted_waiting(uncounted);
}

/* Bits for what waits, and one more. */
static kv_status reserve_bits(struct kv_uncounted *uncounted, struct kv_err *err) {
  if (kv_uncounted_count(uncounted) < uncounted->capacity * WORD_BITS) return KV_OK;
  size_t capacity = uncounted->capacity ? uncounted->capacity * 2 : 1;
  uint64_t *added = kv_realloc(uncounted->added, capacity, sizeof *added);
  if (!added) return kv_fail_nomem(err);
  uncounted->added = added;
  uncounted->capacity = capacity;
  return KV_OK;
}

kv_status kv_uncounted_reserve(struct kv_uncounted *uncounted, size_t key_size,
                               struct kv_err *err) {
  if (kv_uncounted_waiting(uncounted) >= KV_UNCOUNTED_MAX)
    return kv_fail(err, KV_MISUSE, "%d keys wait to be counted", KV_UNCOUNTED_MAX);
  kv_status status = reserve_bits(uncounted, err);
  if (status) return status;
  status = kv_buf_reserve(&uncounted->keys, key_size);
  if (!status) status = kv_buf_reserve(&uncounted->ends, sizeof(size_t));
  if (!status) return KV_OK;
  uncounted->keys.status = uncounted->ends.status = KV_OK; /* the next push may have memory */
  return kv_fail_nomem(err);
}

void kv_uncounted_push(struct kv_uncounted *uncounted, struct kv_slice key) {
  if (key.size) kv_buf_append(&uncounted->keys, key.data, key.size);
  size_t end = uncounted->keys.size;
  kv_buf_append(&uncounted->ends, &end, sizeof end);
}

static size_t end_of(const struct kv_uncounted *uncounted, size_t i) {
  size_t end;
  memcpy(&end, uncounted->ends.data + i * sizeof end, sizeof end);
  return end;
}

void kv_uncounted_keys(const struct kv_uncounted *uncounted, struct kv_slice *keys) {
  size_t start = 0, n = kv_uncounted_waiting(uncounted);
  for (size_t i = 0; i < n; i++) {
    size_t end = end_of(uncounted, i);
    keys[i] = kv_slice_of(uncounted->keys.data + start, end - start);
    start = end;
  }
}

static void drop_waiting(struct kv_uncounted *uncounted, size_t left) {
  uncounted->keys.size = left ? end_of(uncounted, left - 1) : 0;
  uncounted->ends.size = left * sizeof(size_t);
}

void kv_uncounted_settle(struct kv_uncounted *uncounted, const bool *found) {
  size_t n = kv_uncounted_waiting(uncounted);
  for (size_t i = 0; i < n; i++) {
    size_t at = uncounted->settled++;
    uint64_t bit = (uint64_t)1 << at % WORD_BITS;
    uint64_t *word = &uncounted->added[at / WORD_BITS];
    *word = found[i] ? *word & ~bit : *word | bit;
    uncounted->rows += !found[i];
  }
  drop_waiting(uncounted, 0);
}

void kv_uncounted_truncate(struct kv_uncounted *uncounted, size_t count) {
  if (count >= uncounted->settled) {
    if (count < kv_uncounted_count(uncounted)) drop_waiting(uncounted, count - uncounted->settled);
    return;
  }
  drop_waiting(uncounted, 0);
  while (uncounted->settled > count) {
    size_t at = --uncounted->settled;
    uncounted->rows -= uncounted->added[at / WORD_BITS] >> at % WORD_BITS & 1;
  }
}
