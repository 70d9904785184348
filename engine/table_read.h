/* Reads one sorted table file. Footer, fences, filter and properties are read and verified when opened
** and held whole in memory; data blocks come through the cache, verified once when loaded.
** Thread rule: a kv_table may be used from any thread; an iterator by one. */
#ifndef KV_TABLE_READ_H
#define KV_TABLE_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "block.h"
#include "block.h"
#include "buf.h"
#include "cache.h"
#include "env.h"
#include "filter.h"
#include "iter.h"
#include "stats.h"
#include "status.h"
#include "table_write.h"

struct kv_table;

/* info is what the manifest says; size, footer checksum, entry counts and bounds must agree, else
** KV_CORRUPT naming the file; KV_MISSING when there is none. cache, stats and config->env must outlive
** the table; info is copied. */
kv_status kv_table_open(const struct kv_table_config *config, const struct kv_file_info *info,
                        struct kv_cache *cache, struct kv_stats *stats, struct kv_table **table,
                        struct kv_err *err);
void kv_table_close(struct kv_table *table);
uint64_t kv_table_id(const struct kv_table *table);
/* Raw bytes of keys and values before compression, from the properties. */
uint64_t kv_table_raw_bytes(const struct kv_table *table);
/* The level of compression that the properties state; 0 = none. */
uint64_t kv_table_compression(const struct kv_table *table);
/* Bits a key of its filter; 0 = none. */
uint64_t kv_table_filter_bits(const struct kv_table *table);
/* Of all entries, from the properties. */
struct kv_digest kv_table_digest(const struct kv_table *table);
uint64_t kv_table_value_bytes(const struct kv_table *table); /* of these, the values' */
/* What its references name. Borrowed. */
const struct kv_value_uses *kv_table_uses(const struct kv_table *table);
/* Memory of fences and filter. */
size_t kv_table_memory(const struct kv_table *table);

/* KV_VERSION when the file may be read but asks for a newer program to rewrite it (FORMAT.md, Versions):
** a merge asks before it takes the file as an input. */
kv_status kv_table_check_writer(const struct kv_table *table, struct kv_err *err);

/* What one run knows of a key. NONE: not in this file, ask an older run. */
enum kv_table_answer { KV_TABLE_NONE, KV_TABLE_PUT, KV_TABLE_DELETED };

/* One key of a lookup. */
struct kv_lookup {
  struct kv_slice key;
  uint64_t hash;
  size_t position, run;      /* the caller's own */
  struct kv_table *table;    /* within whose bounds the key is; NULL: the lookup is left as it is */
  bool passed;               /* its filter need not be asked: it has let the key through before */
  const struct kv_apart *at; /* where it stands, within the table's blocks; NULL: to be found */
  enum kv_table_answer answer; /* out */
  bool missed;                 /* out: set to true when the block is not in the cache */
  bool apart;                  /* out, of a PUT: the value is a reference (apart.h) */
  struct kv_slice value;       /* out: borrowed from `pin` */
  struct kv_cache_entry
      *pin; /* out: a pinned block for PUT, to be unpinned by the caller; else NULL */
};
/* What a lookup is to give and may do for it. */
enum kv_lookup_mode {
  KV_LOOKUP_VALUE,
  KV_LOOKUP_KEY,    /* whether it is there: no value, no pin */
  KV_LOOKUP_CACHED, /* the same, and no block is read: NONE with `missed` where one would have to be */
};
/* Looks n keys up in their tables, of one run or of values; the lookups are in any order. One
** pass over the filters for all, grouping by block, a file's missing blocks read in pieces, in-block
** lookups. On failure no pins are left. */
kv_status kv_table_multi_get(struct kv_lookup *lookups, size_t n, enum kv_lookup_mode mode,
                             struct kv_err *err);
/* The same for one key in a table of its bounds, if it is the lookup's, else in any. */
kv_status kv_table_get(struct kv_table *table, struct kv_lookup *lookup, enum kv_lookup_mode mode,
                       struct kv_err *err);

/* Without reading a block: ABSENT by fences or filter, PRESENT or DELETED by a cached block, else
** UNKNOWN. */
enum kv_table_probe { KV_PROBE_NONE, KV_PROBE_PUT, KV_PROBE_DELETED, KV_PROBE_UNKNOWN };
kv_status kv_table_probe(struct kv_table *table, struct kv_slice key, uint64_t hash,
                         enum kv_table_probe *answer, struct kv_err *err);

/* An iterator; use_cache=false (merges) reads past the cache. Errors name the file. */
kv_status kv_table_iter(struct kv_table *table, bool use_cache, struct kv_iter **iter,
                        struct kv_err *err);

/* Reading around damage, block by block, past the cache. */
uint32_t kv_table_block_count(const struct kv_table *table);
/* The keys that a block may have: lower <= key < upper, or <= upper when it is the last (`closed`), and where
** it stands. Borrowed from the table. */
struct kv_stretch {
  struct kv_slice lower, upper;
  bool closed;
  uint64_t position;
};
struct kv_stretch kv_table_stretch(const struct kv_table *table, uint32_t block);
/* Borrowed. */
const struct kv_filter *kv_table_filter(const struct kv_table *table);
/* Whether bounds and filter let the file have the key. */
bool kv_table_may_have(const struct kv_table *table, struct kv_slice key, uint64_t hash);
/* Reads a block, walks all of it and proves that every entry is in order and in its stretch. *bytes (from
** kv_alloc) holds what *block and later its cursors read. */
kv_status kv_table_rescue(const struct kv_table *table, uint32_t number, uint8_t **bytes,
                          struct kv_block *block, uint64_t *entries, struct kv_err *err);

/* Reads the whole file: every checksum, key order, bounds, counts, filter answers for every key, hash
** index answers. The first fault is the error; *digest (may be NULL) is the sum of all entries. */
kv_status kv_table_verify(struct kv_table *table, struct kv_digest *digest, struct kv_err *err);
/* The same in steps of one block. After a failure only free. The digest is whole when it is done; the bytes
** are those of keys and values so far. Without `checksums` those of the blocks are not looked at; the digest
** is as good. */
struct kv_table_verifier;
kv_status kv_table_verifier_new(struct kv_table *table, bool checksums,
                                struct kv_table_verifier **verifier, struct kv_err *err);
kv_status kv_table_verifier_step(struct kv_table_verifier *verifier, bool *done,
                                 struct kv_err *err);
const struct kv_digest *kv_table_verifier_digest(const struct kv_table_verifier *verifier);
uint64_t kv_table_verifier_bytes(const struct kv_table_verifier *verifier);
void kv_table_verifier_free(struct kv_table_verifier *verifier); /* NULL is allowed */

#endif
