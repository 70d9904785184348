/* The hash of long inputs on processors with AVX2, twice as fast there as the SSE2 that every x86-64 has.
** This file alone is compiled for AVX2, by attributes and not by flags, so that no other code is; whoever
** calls has asked the processor (hash.c). libxxhash's own dispatch is no faster and would be one more
** library to need. */
#include "hash_wide.h"

#if KV_HASH_WIDE
#include <immintrin.h>
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2")
#endif
#define XXH_VECTOR 2 /* XXH_AVX2 */
#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t kv_hash_wide(const void *data, size_t size, uint64_t seed) {
  uint64_t hash = XXH3_64bits_withSeed(data, size, seed);
  _mm256_zeroupper(); /* or the SSE code that goes on is slow; compilers forget it */
  return hash;
}

void kv_hash_wide_update(struct kv_hash_state *state, const void *data, size_t size) {
  XXH3_64bits_update((XXH3_state_t *)state, data, size);
  _mm256_zeroupper();
}

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif
