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

#endif
