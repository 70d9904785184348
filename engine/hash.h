/* XXH3-64, for filters, hash indexes and checksums. */
#ifndef KV_HASH_H
#define KV_HASH_H

#include <stddef.h>
#include <stdint.h>

#include "buf.h"

/* The hash of a key. Computed once a key and statement, then handed to batch, memtable, filters and
** in-block indexes. On disk in filters: part of the format. */
uint64_t kv_hash_key(struct kv_slice key);
/* A checksum of bytes under a seed. */
uint64_t kv_hash_seeded(struct kv_slice bytes, uint64_t seed);
/* The seed that binds bytes to their place: the store (uuid, 16 bytes), the file (id) or log row (seq)
** and the offset in it. */
uint64_t kv_hash_place(const uint8_t uuid[16], uint64_t file_or_seq, uint64_t offset);

/* kv_hash_seeded of bytes that come in pieces. A state needs no release; it is the library's and is not to be
** looked into, nor moved by allocators that align to less. */
struct kv_hash_state {
  _Alignas(64) uint8_t bytes[576];
};
void kv_hash_begin(struct kv_hash_state *state, uint64_t seed);
void kv_hash_add(struct kv_hash_state *state, struct kv_slice bytes);
uint64_t kv_hash_end(const struct kv_hash_state *state);

#endif
