/* XXH3-64 of long inputs by AVX2; private to hash*.c. Gives what the plain one gives. */
#ifndef KV_HASH_WIDE_H
#define KV_HASH_WIDE_H

#include "hash.h"

#if defined(__x86_64__)
#define KV_HASH_WIDE 1
/* Only on a processor that has AVX2. */
uint64_t kv_hash_wide(const void *data, size_t size, uint64_t seed);
void kv_hash_wide_update(struct kv_hash_state *state, const void *data, size_t size);
#else
#define KV_HASH_WIDE 0
#endif

#endif
