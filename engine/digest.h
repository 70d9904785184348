/* An order-independent sum over entries, to compare what went in with what came out; on disk as property 5 of
** table files (FORMAT.md). Thread rule: pure functions over the caller's struct. */
#ifndef KV_DIGEST_H
#define KV_DIGEST_H

#include <stdbool.h>
#include <stdint.h>

#include "buf.h"
#include "hash.h"

/* Zero-initialise. */
struct kv_digest {
  uint64_t entries;
  uint64_t sum;
};
/* `marked` is true for a tombstone, and for an entry whose value is a reference (apart.h). */
static inline void kv_digest_add_hashed(struct kv_digest *digest, uint64_t key_hash,
                                        struct kv_slice value, bool marked) {
  digest->entries++;
  digest->sum += kv_hash_seeded(value, key_hash * 2 + marked);
}
static inline void kv_digest_add(struct kv_digest *digest, struct kv_slice key,
                                 struct kv_slice value, bool marked) {
  kv_digest_add_hashed(digest, kv_hash_key(key), value, marked);
}
/* All the entries of another sum. */
static inline void kv_digest_join(struct kv_digest *digest, struct kv_digest other) {
  digest->entries += other.entries;
  digest->sum += other.sum;
}
/* `whole` without a part of it. */
static inline struct kv_digest kv_digest_without(struct kv_digest whole, struct kv_digest part) {
  return (struct kv_digest){whole.entries - part.entries, whole.sum - part.sum};
}
static inline bool kv_digest_equal(struct kv_digest a, struct kv_digest b) {
  return a.entries == b.entries && a.sum == b.sum;
}

#endif
