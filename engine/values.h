/* Reading the values that references (apart.h) name, over a layout: one, many, and one after another
** past the cache. A reference that names what is not there is damage, never "not found" (invariant 7). */
#ifndef KV_VALUES_H
#define KV_VALUES_H

#include "apart.h"
#include "layout.h"

/* One value through the cache, borrowed from *pin. */
kv_status kv_values_get(const struct kv_layout *layout, struct kv_slice key,
                        struct kv_slice reference, struct kv_slice *value,
                        struct kv_cache_entry **pin, struct kv_err *err);

/* Many, in any order: `key` and `reference` are given. */
struct kv_value_ask {
  struct kv_slice key, reference;
  size_t position; /* the caller's own index */
  struct kv_slice value;
  struct kv_cache_entry *pin; /* out: to be unpinned by the caller */
};
/* Missing blocks of a file are read in pieces. On failure no pins are left. */
kv_status kv_values_get_many(const struct kv_layout *layout, struct kv_value_ask *asks, size_t n,
                             struct kv_err *err);

/* The reference at a scan's row; false when the value is not stored apart. */
struct kv_scan;
bool kv_scan_reference(const struct kv_scan *scan, struct kv_apart *apart);

/* Values past the cache, always verified, the whole of their key too; keeps the last block, best asked in key
** order. The layout must outlive it. One thread. */
struct kv_value_reader;
kv_status kv_value_reader_new(const struct kv_layout *layout, struct kv_value_reader **reader,
                              struct kv_err *err);
/* Borrowed until the next call. */
kv_status kv_value_reader_get(struct kv_value_reader *reader, struct kv_slice key,
                              const struct kv_apart *apart, struct kv_slice *value,
                              struct kv_err *err);
void kv_value_reader_free(struct kv_value_reader *reader); /* NULL is allowed */

#endif
