/* See pool.h.
**
** A region is cut into pieces of 512 bytes; a bitmap at its start says which are used. What is taken is the
** first run of free pieces that is long enough, in the first region that has one: so sizes may be mixed, and
** the last regions empty themselves when less is held. `longest` bounds a region's runs from above, so that
** one without room is not searched again and again. An empty region goes back to the system; one stays, for
** the next block. The first one has ordinary pages as long as it is alone: a small cache takes no more than
** it uses. Large sizes, and all where the system has no regions, are the heap's.
**
** Thread rule: any thread. Lock order: the pool's mutex takes no other. */
#include "pool.h"

#include <stdbool.h>
#include <string.h>

#include "env.h"
#include "mem.h"

#define PIECE_BYTES ((size_t)512)
#define PIECES ((uint32_t)(KV_REGION_BYTES / PIECE_BYTES))
#define WORDS (PIECES / 64)
#define HEADER_PIECES ((uint32_t)((sizeof(struct region) + PIECE_BYTES - 1) / PIECE_BYTES))
#define REGIONS_FIRST 4
#define POOLED_MAX (KV_REGION_BYTES / 8)

/* Stands at the start of its own memory, which is aligned to its size. */
struct region {
  uint64_t used[WORDS]; /* a bit a piece */
  uint32_t free;        /* pieces */
  uint32_t index;       /* in the pool's list */
};

struct slot {
  struct region *region;
  uint32_t longest; /* no run of free pieces is longer */
};

struct kv_pool {
  struct kv_mutex *mutex;
  struct slot *slots;
  uint32_t count, capacity;
  struct region *spare; /* of the regions the one that is empty, or NULL */
};

void kv_pool_free(struct kv_pool *pool) {
  if (!pool) return;
  for (uint32_t i = 0; i < pool->count; i++) kv_region_free(pool->slots[i].region);
  kv_free(pool->slots);
  kv_mutex_free(pool->mutex);
  kv_free(pool);
}

kv_status kv_pool_new(struct kv_pool **pool, struct kv_err *err) {
  struct kv_pool *made = kv_alloc_zero(1, sizeof *made);
  if (!made) return kv_fail_nomem(err);
  made->capacity = REGIONS_FIRST;
  made->slots = kv_alloc(made->capacity, sizeof *made->slots);
  kv_status status = made->slots ? kv_mutex_new(&made->mutex, err) : kv_fail_nomem(err);
  if (status == KV_OK)
    *pool = made;
  else
    kv_pool_free(made);
  return status;
}

/* ---- The pieces of a region */

/* The first piece from `at` on that is used, or is not, below `end`; else `end`. */
static uint32_t next_piece(const struct region *region, bool used, uint32_t at, uint32_t end) {
  while (at < end) {
    uint64_t word = used ? region->used[at / 64] : ~region->used[at / 64];
    word >>= at % 64;
    if (word) {
      at += (uint32_t)__builtin_ctzll(word);
      break;
    }
    at += 64 - at % 64;
  }
  return at < end ? at : end;
}

/* The first of n free pieces; 0 when there are not so many together, and then *longest is what there is. */
static uint32_t find_run(const struct region *region, uint32_t n, uint32_t *longest) {
  uint32_t most = 0;
  for (uint32_t at = HEADER_PIECES; at < PIECES;) {
    uint32_t start = next_piece(region, false, at, PIECES);
    uint32_t limit = start + n < PIECES ? start + n : PIECES;
    at = next_piece(region, true, start, limit);
    if (at - start == n) return start;
    if (at - start > most) most = at - start;
  }
  *longest = most;
  return 0;
}

static void flip(struct region *region, uint32_t at, uint32_t n) {
  for (uint32_t end = at + n; at < end;) {
    uint32_t bits = 64 - at % 64 < end - at ? 64 - at % 64 : end - at;
    uint64_t ones = bits == 64 ? ~(uint64_t)0 : ((uint64_t)1 << bits) - 1;
    region->used[at / 64] ^= ones << at % 64;
    at += bits;
  }
}

/* ---- Regions (mutex held) */

static bool has_place(struct kv_pool *pool) {
  if (pool->count < pool->capacity) return true;
  uint32_t capacity = pool->capacity * 2;
  struct slot *slots = kv_realloc(pool->slots, capacity, sizeof *slots);
  if (!slots) return false;
  pool->slots = slots;
  pool->capacity = capacity;
  return true;
}

/* NULL: no memory. */
static struct slot *add_region(struct kv_pool *pool) {
  struct region *region = has_place(pool) ? kv_region_new() : NULL;
  if (!region) return NULL;
  if (pool->count == 1) kv_region_make_huge(pool->slots[0].region);
  if (pool->count) kv_region_make_huge(region);
  memset(region, 0, sizeof *region);
  flip(region, 0, HEADER_PIECES);
  region->free = PIECES - HEADER_PIECES;
  region->index = pool->count;
  pool->slots[pool->count] = (struct slot){region, region->free};
  return &pool->slots[pool->count++];
}

static void remove_region(struct kv_pool *pool, struct region *region) {
  struct slot *last = &pool->slots[--pool->count];
  last->region->index = region->index;
  pool->slots[region->index] = *last;
  kv_region_free(region);
}

static uint8_t *take(struct kv_pool *pool, uint32_t n) {
  struct slot *slot = pool->slots, *end = slot + pool->count;
  uint32_t at = 0;
  for (; slot < end; slot++) {
    if (slot->longest >= n) at = find_run(slot->region, n, &slot->longest);
    if (at) break;
  }
  if (!at) {
    slot = add_region(pool);
    if (!slot) return NULL;
    at = HEADER_PIECES;
  }
  flip(slot->region, at, n);
  slot->region->free -= n;
  if (slot->region == pool->spare) pool->spare = NULL;
  return (uint8_t *)slot->region + at * PIECE_BYTES;
}

static void give(struct kv_pool *pool, uint8_t *bytes, uint32_t n) {
  size_t offset = (uintptr_t)bytes % KV_REGION_BYTES;
  struct region *region = (struct region *)(void *)(bytes - offset);
  flip(region, (uint32_t)(offset / PIECE_BYTES), n);
  region->free += n;
  pool->slots[region->index].longest = region->free;
  if (region->free < PIECES - HEADER_PIECES) return;
  if (pool->spare)
    remove_region(pool, region);
  else
    pool->spare = region;
}

/* ---- Public */

static bool is_pooled(size_t size) {
  return size <= POOLED_MAX && kv_has_regions();
}

static uint32_t pieces_of(size_t size) {
  return size ? (uint32_t)((size + PIECE_BYTES - 1) / PIECE_BYTES) : 1;
}

uint8_t *kv_pool_take(struct kv_pool *pool, size_t size) {
  if (!is_pooled(size)) return kv_alloc(size, 1);
  if (!kv_mem_enter()) return NULL;
  kv_mutex_lock(pool->mutex);
  uint8_t *bytes = take(pool, pieces_of(size));
  kv_mutex_unlock(pool->mutex);
  if (!bytes) kv_mem_leave();
  return bytes;
}

void kv_pool_give(struct kv_pool *pool, uint8_t *bytes, size_t size) {
  if (!is_pooled(size)) {
    kv_free(bytes);
    return;
  }
  if (!bytes) return;
  kv_mutex_lock(pool->mutex);
  give(pool, bytes, pieces_of(size));
  kv_mutex_unlock(pool->mutex);
  kv_mem_leave();
}

size_t kv_pool_bytes(struct kv_pool *pool) {
  kv_mutex_lock(pool->mutex);
  size_t bytes = pool->count * KV_REGION_BYTES;
  kv_mutex_unlock(pool->mutex);
  return bytes;
}
