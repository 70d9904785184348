/* See places.h.
**
** Places are cut into chunks of 2^9 at first; after every eight chunks they double. So the chunk of a place
** is told by its highest four bits, the list of chunks has a fixed size and no chunk ever moves, and what
** the newest chunk has in reserve is an eighth of the whole at most. A part that the rest of a chunk has no
** room for begins the next one. One that is larger than a whole chunk gets a chunk of its own size under
** the places of that chunk: only where a part begins must have a place. Any owner's thread. */
#include "places.h"

#include "env.h"
#include "mem.h"

static uint32_t chunk_shift(uint32_t chunk) {
  return KV_PLACES_SHIFT_FIRST + chunk / KV_PLACES_PER_DOUBLING;
}

/* The place where a chunk begins; 2^32 after the last. */
static uint64_t chunk_start(uint32_t chunk) {
  uint64_t eighths = KV_PLACES_PER_DOUBLING + chunk % KV_PLACES_PER_DOUBLING;
  return eighths << chunk_shift(chunk);
}

static size_t chunk_bytes(const struct kv_places_chunk *chunk) {
  return sizeof *chunk + chunk->places * KV_PLACE_BYTES;
}

static uint64_t least(uint64_t a, uint64_t b) {
  return a < b ? a : b;
}

void kv_places_init(struct kv_places *places) {
  *places = (struct kv_places){.end = KV_PLACE_FIRST, .limit = UINT32_MAX};
}

void kv_places_release(struct kv_places *places) {
  kv_places_rewind(places, KV_PLACE_FIRST);
}

static bool make_chunk(struct kv_places *places, uint32_t at, size_t units) {
  size_t size = (size_t)1 << chunk_shift(at);
  if (size < units) size = units;
  struct kv_places_chunk *chunk = kv_alloc(1, sizeof *chunk + size * KV_PLACE_BYTES);
  if (!chunk) return false;
  kv_memory_make_huge(chunk, sizeof *chunk + size * KV_PLACE_BYTES);
  *chunk = (struct kv_places_chunk){.places = (uint32_t)size};
  places->chunks[at] = chunk;
  places->bytes += chunk_bytes(chunk);
  return true;
}

static void drop_chunk(struct kv_places *places, uint32_t at) {
  if (!places->chunks[at]) return;
  places->bytes -= chunk_bytes(places->chunks[at]);
  kv_free(places->chunks[at]);
  places->chunks[at] = NULL;
}

/* Walks over a copy may be reading it. */
static void set_end(struct kv_places_chunk *chunk, uint32_t end) {
  __atomic_store_n(&chunk->end, end, __ATOMIC_RELAXED);
}

kv_status kv_places_add(struct kv_places *places, size_t size, uint32_t *place,
                        struct kv_err *err) {
  size_t units = (size + KV_PLACE_BYTES - 1) / KV_PLACE_BYTES;
  uint32_t chunk = kv_place_chunk(places->end);
  uint64_t start = places->end;
  if (places->chunks[chunk] && start + units > chunk_start(chunk + 1)) start = chunk_start(++chunk);
  uint64_t end = least(start + units, chunk_start(chunk + 1));
  if (end > places->limit || units > UINT32_MAX)
    return kv_fail(err, KV_MISUSE, "more than 16 GiB of writes in one batch or memtable");
  if (!places->chunks[chunk] && !make_chunk(places, chunk, units)) return kv_fail_nomem(err);
  *place = (uint32_t)start;
  places->end = (uint32_t)end;
  set_end(places->chunks[chunk], places->end);
  return KV_OK;
}

void kv_places_rewind(struct kv_places *places, uint32_t mark) {
  if (mark >= places->end) return;
  uint32_t kept = kv_place_chunk(mark);
  for (uint32_t chunk = kv_place_chunk(places->end); chunk > kept; chunk--)
    drop_chunk(places, chunk);
  places->end = mark;
  if (mark == chunk_start(kept))
    drop_chunk(places, kept);
  else
    set_end(places->chunks[kept], mark);
}

/* A place in a chunk, or what follows the chunk when the place is behind its last part. */
static uint32_t settle(const struct kv_places *places, uint32_t chunk, uint64_t place) {
  if (place < __atomic_load_n(&places->chunks[chunk]->end, __ATOMIC_RELAXED))
    return (uint32_t)place;
  return (uint32_t)least(chunk_start(chunk + 1), places->end);
}

uint32_t kv_places_from(const struct kv_places *places, uint32_t mark) {
  return mark < places->end ? settle(places, kv_place_chunk(mark), mark) : places->end;
}

uint32_t kv_places_next(const struct kv_places *places, uint32_t place, size_t size) {
  size_t units = (size + KV_PLACE_BYTES - 1) / KV_PLACE_BYTES;
  return settle(places, kv_place_chunk(place), place + (uint64_t)units);
}
