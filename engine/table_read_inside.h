/* The inside of a kv_table, shared by the table_read*.c files and by nobody else. */
#ifndef KV_TABLE_READ_INSIDE_H
#define KV_TABLE_READ_INSIDE_H

#include "open_files.h"
#include "table_format.h"
#include "table_read.h"

/* All of a file that is no data block, held in memory. */
struct kv_table_parts {
  struct kv_table_footer footer;
  void *filter_memory;
  uint8_t *fence_memory;
  uint8_t *property_memory;
  size_t memory; /* bytes of these */
  struct kv_filter filter;
  struct kv_fences fences;
  struct kv_table_properties properties;
  struct kv_value_uses uses;      /* what references name */
  struct kv_unpacking *unpacking; /* with the dictionary of the properties, or NULL */
};

struct kv_table {
  struct kv_cache *cache;
  struct kv_stats *stats;
  const struct kv_comparator *comparator; /* NULL: bytewise */
  struct kv_open_file *file;
  bool
      known; /* the parts are those of the manifest: a file that is opened again must have them too */
  struct kv_table_place place;
  struct kv_file_info info;
  uint64_t owner; /* in the cache */
  struct kv_table_parts parts;
};

/* Reads the footer of the table's file, which says what file it is, and verifies it. */
kv_status kv_table_footer_load(struct kv_table_footer *footer, const struct kv_table *table,
                               struct kv_err *err);
/* KV_CORRUPT: a part that has another checksum than its handle says. */
kv_status kv_table_wrong_part(const struct kv_table *table, const struct kv_table_handle *handle,
                              struct kv_err *err);
/* Reads footer, filter, fences and properties of the table's file, and verifies them: the footer always, the
** rest when asked to. */
kv_status kv_table_parts_load(struct kv_table_parts *parts, const struct kv_table *table,
                              bool verify, struct kv_err *err);
void kv_table_parts_release(struct kv_table_parts *parts);

/* A stored data block that was read for the cache becomes a pinned entry: verified as the cache says,
** counted, decompressed, parsed. Takes `stored` (from kv_alloc) in any case. */
kv_status kv_table_adopt(const struct kv_table *table, uint32_t block, uint8_t *stored,
                         struct kv_cache_entry **entry, struct kv_err *err);
/* Reads one data block past the cache; *bytes from kv_alloc. */
kv_status kv_table_read_block(const struct kv_table *table, uint32_t block, bool verify,
                              uint8_t **bytes, size_t *size, struct kv_err *err);
/* The cached block, pinned and counted as hit or miss; NULL when it is not there. */
struct kv_cache_entry *kv_table_cached(const struct kv_table *table, uint32_t block);
/* One data block through the cache, pinned. */
kv_status kv_table_load(const struct kv_table *table, uint32_t block, struct kv_cache_entry **entry,
                        struct kv_err *err);
/* The parsed block in an entry of the cache. */
struct kv_block kv_table_block(const struct kv_table *table, const struct kv_cache_entry *entry);
/* Parses a plain block; errors name the file and its place. */
kv_status kv_table_parse(const struct kv_table *table, uint32_t block, struct kv_slice bytes,
                         struct kv_block *parsed, struct kv_err *err);
/* Puts file and place in front of the text of an error found in a plain block. */
kv_status kv_table_fail(const struct kv_table *table, uint32_t block, kv_status status,
                        const struct kv_err *inner, struct kv_err *err);

/* Whether the key lies between the bounds of the file. */
bool kv_table_in_bounds(const struct kv_table *table, struct kv_slice key);
/* The block that has the key, or would have it. */
uint32_t kv_table_block_of(const struct kv_table *table, const struct kv_lookup *lookup);
/* What was found in a block, and lookup->value, become the lookup's answer; of a value lookup->pin is the
** block, with the caller's pin: he adds one, or gives his away. The filter let the key through: a NONE counts
** as its false positive. */
void kv_table_answer(const struct kv_table *table, struct kv_cache_entry *entry,
                     enum kv_block_answer answer, enum kv_lookup_mode mode,
                     struct kv_lookup *lookup);

#endif
