/* XXH3-64. The library is inlined whole, so that none of its symbols leaves this object: SQLite
** loads extensions into one name space with the application. Any thread. */
#include "hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "code.h"

uint64_t kv_hash_key(struct kv_slice key) {
  return XXH3_64bits(key.data, key.size);
}

uint64_t kv_hash_seeded(struct kv_slice bytes, uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data, bytes.size, seed);
}

uint64_t kv_hash_place(const uint8_t uuid[16], uint64_t file_or_seq, uint64_t offset) {
  uint8_t place[32];
  memcpy(place, uuid, 16);
  kv_put_u64(place + 16, file_or_seq);
  kv_put_u64(place + 24, offset);
  return XXH3_64bits(place, sizeof place);
}
