/* One-cache-line blocked Bloom filter. A key's hash picks one 64-byte line and then bits_per_key * ln 2
** bits in it (Putze, Sanders, Singler: Cache-, Hash- and Space-Efficient Bloom Filters, 2007). Layout in
** FORMAT.md, Filter. Never answers "absent" for a key that was added. */
#ifndef KV_FILTER_H
#define KV_FILTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "buf.h"
#include "status.h"

/* Appends the filter of n key hashes (kv_hash_key) to out. bits_per_key 1..20. */
kv_status kv_filter_build(const uint64_t *hashes, size_t n, int bits_per_key, struct kv_buf *out,
                          struct kv_err *err);

/* A filter over borrowed bytes that stay as long as it is used. */
struct kv_filter {
  const uint8_t *lines; /* NULL: no filter, everything may be present */
  uint64_t line_count;
  int probes;
};
/* Checks the header against the length; empty bytes mean "no filter". */
kv_status kv_filter_init(struct kv_filter *filter, struct kv_slice bytes, struct kv_err *err);
bool kv_filter_may_contain(const struct kv_filter *filter, uint64_t hash);
/* maybe[i] for hashes[i] in filters[i], with the lines prefetched in groups. */
void kv_filter_may_contain_many(const struct kv_filter *const *filters, const uint64_t *hashes,
                                size_t n, bool *maybe);

#endif
