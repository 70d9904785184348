/* An append-only region whose parts never move and are named by 32-bit places: half a pointer, and found with
** two loads. Places ascend as parts are added. Not thread-safe: the owner locks; only kv_place_at, of a place
** that the caller has been handed, and walks over a copy of the struct may run beside an addition, or beside
** taking back what was added since the copy. */
#ifndef KV_PLACES_H
#define KV_PLACES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "status.h"

#define KV_PLACE_NONE 0u
#define KV_PLACE_FIRST 4096u /* of an empty region, where it ends too */
#define KV_PLACE_BYTES ((size_t)4)
#define KV_PLACES_PER_DOUBLING 8u /* chunks: each is an eighth of what the last doubling added */
#define KV_PLACES_SHIFT_FIRST 9u  /* the first chunks have 2^9 places, 2 KiB */
#define KV_PLACES_CHUNKS 160u     /* up to 2^32 places */

struct kv_places_chunk {
  uint32_t end; /* atomic; the place after its last part, at most that of the next chunk's first */
  uint32_t places;
  uint8_t data[];
};

struct kv_places {
  struct kv_places_chunk *chunks[KV_PLACES_CHUNKS];
  uint32_t end;   /* above every part: a mark to rewind to */
  uint32_t limit; /* the highest end; lowered by tests only */
  size_t bytes;   /* heap memory */
};

static inline uint32_t kv_place_shift(uint32_t place) {
  return 28u - (uint32_t)__builtin_clz(place);
}
static inline uint32_t kv_place_chunk(uint32_t place) {
  uint32_t shift = kv_place_shift(place);
  return (shift - KV_PLACES_SHIFT_FIRST - 1) * KV_PLACES_PER_DOUBLING + (place >> shift);
}
/* Only for places handed out and not rewound. */
static inline uint8_t *kv_place_at(const struct kv_places *places, uint32_t place) {
  uint32_t within = place & ((1u << kv_place_shift(place)) - 1);
  return places->chunks[kv_place_chunk(place)]->data + within * KV_PLACE_BYTES;
}

void kv_places_init(struct kv_places *places);
void kv_places_release(struct kv_places *places);
/* `size` > 0 bytes, aligned to KV_PLACE_BYTES. KV_NOMEM, or KV_MISUSE when places are used up (at 16 GiB of
** small parts; a part larger than its chunk takes no more places than the chunk has): nothing changed. */
kv_status kv_places_add(struct kv_places *places, size_t size, uint32_t *place, struct kv_err *err);
/* Takes back what was added since places->end was `mark`, O(chunks since). */
void kv_places_rewind(struct kv_places *places, uint32_t mark);
/* The first part at or above a mark, and the one after a part of `size` bytes; places->end when there is
** none. */
uint32_t kv_places_from(const struct kv_places *places, uint32_t mark);
uint32_t kv_places_next(const struct kv_places *places, uint32_t place, size_t size);

#endif
