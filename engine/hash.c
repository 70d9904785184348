/* XXH3-64. The library is inlined whole, so that none of its symbols leaves this object: SQLite
** loads extensions into one name space with the application. Short input is hashed right here; long input by
** wider instructions where the processor has them (hash_wide.c). Any thread. */
#include "hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "code.h"
#include "hash_wide.h"

#define SHORT_BYTES 240 /* up to which XXH3 needs no vectors */

_Static_assert(sizeof(struct kv_hash_state) >= sizeof(XXH3_state_t),
               "a state has room for the library's");
_Static_assert(_Alignof(struct kv_hash_state) % _Alignof(XXH3_state_t) == 0,
               "a state is aligned as the library's");

#if KV_HASH_WIDE
static bool has_wide(void) {
  return __builtin_cpu_supports("avx2");
}
#endif

static uint64_t hash(const void *data, size_t size, uint64_t seed) {
#if KV_HASH_WIDE
  if (size > SHORT_BYTES && has_wide()) return kv_hash_wide(data, size, seed);
#endif
  return XXH3_64bits_withSeed(data, size, seed);
}

uint64_t kv_hash_key(struct kv_slice key) {
  return hash(key.data, key.size, 0);
}

uint64_t kv_hash_seeded(struct kv_slice bytes, uint64_t seed) {
  return hash(bytes.data, bytes.size, seed);
}

uint64_t kv_hash_place(const uint8_t uuid[16], uint64_t file_or_seq, uint64_t offset) {
  uint8_t place[32];
  memcpy(place, uuid, 16);
  kv_put_u64(place + 16, file_or_seq);
  kv_put_u64(place + 24, offset);
  return XXH3_64bits(place, sizeof place);
}

void kv_hash_begin(struct kv_hash_state *state, uint64_t seed) {
  XXH3_state_t *own = (XXH3_state_t *)state;
  XXH3_INITSTATE(own);
  XXH3_64bits_reset_withSeed(own, seed);
}

void kv_hash_add(struct kv_hash_state *state, struct kv_slice bytes) {
  if (!bytes.size) return;
#if KV_HASH_WIDE
  if (has_wide()) {
    kv_hash_wide_update(state, bytes.data, bytes.size);
    return;
  }
#endif
  XXH3_64bits_update((XXH3_state_t *)state, bytes.data, bytes.size);
}

uint64_t kv_hash_end(const struct kv_hash_state *state) {
  return XXH3_64bits_digest((const XXH3_state_t *)state);
}
