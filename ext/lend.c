/* See lend.h. The last holder to let go frees a piece of memory. */
#include "lend.h"

#include <stdatomic.h>

#include "sqlite_api.h"

static void let_go(struct colfam_lent *lent) {
  if (lent && --lent->holders == 0) sqlite3_free(lent);
}

uint8_t *colfam_lend_other(struct colfam_lender *lender, size_t size) {
  if (size > COLFAM_LENT_BYTES_MAX) return NULL;
  size_t i = 0;
  while (i < COLFAM_LENT_COUNT && lender->lent[i] && lender->lent[i]->holders > 1) i++;
  if (i == COLFAM_LENT_COUNT) return NULL;
  if (!lender->lent[i]) {
    lender->lent[i] = sqlite3_malloc64(sizeof *lender->lent[i]);
    if (!lender->lent[i]) return NULL;
  }
  lender->lent[i]->holders = 2;
  return lender->lent[i]->bytes;
}

void colfam_lent_back(void *bytes) {
  let_go((struct colfam_lent *)(void *)((char *)bytes - offsetof(struct colfam_lent, bytes)));
}

/* ---- Pinned. SQLite gives back no more than the address, on whatever thread: the process keeps a short list
** of what is lent, in places that are taken and left without a lock. They are few: registers hold values. */

enum { PLACES = 64, PINNED_BYTES_MIN = COLFAM_LENT_BYTES_MAX + 1 };

static struct {
  _Atomic uintptr_t bytes; /* 0: free; TAKEN: somebody is at it */
  struct kv_cache_entry *pin;
} places[PLACES];

#define TAKEN ((uintptr_t)1)

/* The first place from where the address would have it on that has `wanted`, taken; PLACES when there is
** none. */
static size_t take_place(const void *bytes, uintptr_t wanted) {
  size_t first = ((uintptr_t)bytes >> 9) % PLACES;
  for (size_t i = 0; i < PLACES; i++) {
    size_t at = (first + i) % PLACES;
    uintptr_t expected = wanted;
    if (atomic_load_explicit(&places[at].bytes, memory_order_relaxed) != wanted) continue;
    if (atomic_compare_exchange_strong(&places[at].bytes, &expected, TAKEN)) return at;
  }
  return PLACES;
}

bool colfam_lend_pinned(struct kv_cache_entry *pin, const void *bytes, size_t size) {
  if (!pin || size < PINNED_BYTES_MIN) return false;
  size_t at = take_place(bytes, 0);
  if (at == PLACES) return false;
  kv_cache_pin(pin);
  places[at].pin = pin;
  atomic_store(&places[at].bytes, (uintptr_t)bytes);
  return true;
}

/* What is lent twice at one address is in the same block: any of its places will do. One of them is there as
** long as this one has not been given back, though others may be at it while they look. */
void colfam_pinned_back(void *bytes) {
  size_t at = PLACES;
  while (at == PLACES) at = take_place(bytes, (uintptr_t)bytes);
  struct kv_cache_entry *pin = places[at].pin;
  atomic_store(&places[at].bytes, 0);
  kv_cache_unpin(pin);
}

void colfam_lender_release(struct colfam_lender *lender) {
  for (size_t i = 0; i < COLFAM_LENT_COUNT; i++) {
    let_go(lender->lent[i]);
    lender->lent[i] = NULL;
  }
}
