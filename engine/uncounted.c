/* See uncounted.h. The order is that of the pushes: the settled ones come first. */
#include "uncounted.h"

#include <string.h>

#include "mem.h"

#define WORD_BITS 64
#define ROOM_FIRST 64

void kv_uncounted_release(struct kv_uncounted *uncounted) {
  kv_free(uncounted->puts);
  kv_free(uncounted->added);
  *uncounted = (struct kv_uncounted){0};
}

size_t kv_uncounted_bytes(const struct kv_uncounted *uncounted) {
  return uncounted->room * sizeof *uncounted->puts + uncounted->capacity * sizeof *uncounted->added;
}

kv_status kv_uncounted_grow(struct kv_uncounted *uncounted, struct kv_err *err) {
  if (uncounted->waiting >= KV_UNCOUNTED_MAX)
    return kv_fail(err, KV_MISUSE, "%d keys wait to be counted", KV_UNCOUNTED_MAX);
  size_t room = uncounted->room ? uncounted->room * 2 : ROOM_FIRST;
  struct kv_uncounted_put *puts = kv_realloc(uncounted->puts, room, sizeof *puts);
  if (!puts) return kv_fail_nomem(err);
  uncounted->puts = puts;
  uncounted->room = room;
  return KV_OK;
}
_Static_assert(KV_UNCOUNTED_MAX % ROOM_FIRST == 0 &&
                   (KV_UNCOUNTED_MAX & (KV_UNCOUNTED_MAX - 1)) == 0,
               "room that doubles comes to the maximum");

/* Bits for all that wait. */
static kv_status reserve_bits(struct kv_uncounted *uncounted, struct kv_err *err) {
  size_t words = (kv_uncounted_count(uncounted) + WORD_BITS - 1) / WORD_BITS;
  if (words <= uncounted->capacity) return KV_OK;
  if (words < uncounted->capacity * 2) words = uncounted->capacity * 2;
  uint64_t *added = kv_realloc(uncounted->added, words, sizeof *added);
  if (!added) return kv_fail_nomem(err);
  memset(added + uncounted->capacity, 0, (words - uncounted->capacity) * sizeof *added);
  uncounted->added = added;
  uncounted->capacity = words;
  return KV_OK;
}

kv_status kv_uncounted_settle(struct kv_uncounted *uncounted, const bool *found,
                              struct kv_err *err) {
  kv_status status = reserve_bits(uncounted, err);
  if (status) return status;
  size_t at = uncounted->settled;
  for (size_t i = 0; i < uncounted->waiting; i++, at++) {
    uint64_t added = !found[i];
    uncounted->added[at / WORD_BITS] |= added << at % WORD_BITS;
    uncounted->rows += (int64_t)added;
  }
  uncounted->settled = at;
  uncounted->waiting = 0;
  return KV_OK;
}

void kv_uncounted_truncate(struct kv_uncounted *uncounted, size_t count) {
  if (count >= uncounted->settled) {
    if (count < kv_uncounted_count(uncounted)) uncounted->waiting = count - uncounted->settled;
    return;
  }
  uncounted->waiting = 0;
  while (uncounted->settled > count) {
    size_t at = --uncounted->settled;
    uint64_t bit = (uint64_t)1 << at % WORD_BITS, *word = &uncounted->added[at / WORD_BITS];
    uncounted->rows -= (*word & bit) != 0;
    *word &= ~bit;
  }
}
