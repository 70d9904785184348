/* The block cache: decoded blocks, pinned while used, CLOCK with one atomic word an entry, sharded, with
** a byte budget; and the files kept open (open_files.h). One a process. Thread rule: any thread. */
#ifndef KV_CACHE_H
#define KV_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "open_files.h"
#include "status.h"

struct kv_cache;
struct kv_cache_entry; /* a pinned block: its bytes stay until unpinned, cached or not */

/* budget in bytes; 0 = nothing stays cached once unpinned. Starts with one reference. */
kv_status kv_cache_new(size_t budget, struct kv_cache **cache, struct kv_err *err);
struct kv_cache *kv_cache_ref(struct kv_cache *cache);
void kv_cache_unref(struct kv_cache *cache);
void kv_cache_set_budget(struct kv_cache *cache, size_t budget);
size_t kv_cache_budget(const struct kv_cache *cache);
/* Whose checksums are verified: those of all that is read, the default; only of what may be written on,
** which is all but the blocks that are loaded into the cache; or none. What is read to find damage (check,
** backup, salvage) is always verified. */
enum kv_verify { KV_VERIFY_ALL, KV_VERIFY_MERGES, KV_VERIFY_NONE };
void kv_cache_set_verify(struct kv_cache *cache, enum kv_verify verify);
enum kv_verify kv_cache_verify(const struct kv_cache *cache);
/* Blocks that come into the cache. */
static inline bool kv_cache_verifies_reads(const struct kv_cache *cache) {
  return kv_cache_verify(cache) == KV_VERIFY_ALL;
}
/* All else: inputs of merges, outputs read back, filters, fences, properties, log rows. */
static inline bool kv_cache_verifies_merges(const struct kv_cache *cache) {
  return kv_cache_verify(cache) != KV_VERIFY_NONE;
}
/* Bytes of the entries held now, pinned ones included; never over the budget by more than what is
** pinned. */
size_t kv_cache_bytes(const struct kv_cache *cache);
/* Borrowed. */
struct kv_open_files *kv_cache_files(struct kv_cache *cache);
/* A number no other user of this cache has had: the first half of an entry's name. */
uint64_t kv_cache_new_owner(struct kv_cache *cache);

/* The entry (owner, offset), pinned, or NULL. */
struct kv_cache_entry *kv_cache_lookup(struct kv_cache *cache, uint64_t owner, uint64_t offset);
/* Memory for the bytes of an entry; NULL when memory is out. And back, if no entry has taken it: NULL is
** allowed, `size` is as before. */
uint8_t *kv_cache_alloc(struct kv_cache *cache, size_t size);
void kv_cache_free(struct kv_cache *cache, uint8_t *bytes, size_t size);
/* What an entry holds: bytes from kv_cache_alloc, and what their owner wants to know without reading them. */
struct kv_cache_content {
  uint8_t *bytes;
  size_t size;
  uint64_t note;
};
/* The same for many; entries[i] for names[i]. Each shard is locked once for a group of them, and their loads
** overlap. */
struct kv_cache_name {
  uint64_t owner, offset;
};
void kv_cache_lookup_many(struct kv_cache *cache, const struct kv_cache_name *names, size_t n,
                          struct kv_cache_entry **entries);
/* Hands the bytes (ownership passes on success only) to the cache and returns the entry pinned. When
** (owner, offset) is there already, the bytes are freed and the existing entry pinned. */
kv_status kv_cache_insert(struct kv_cache *cache, uint64_t owner, uint64_t offset,
                          const struct kv_cache_content *content, struct kv_cache_entry **entry,
                          struct kv_err *err);
/* One more pin on an entry already pinned. */
void kv_cache_pin(struct kv_cache_entry *entry);
void kv_cache_unpin(struct kv_cache_entry *entry); /* NULL is allowed */
/* Borrowed from the entry. */
const struct kv_cache_content *kv_cache_content(const struct kv_cache_entry *entry);
/* Forgets every unpinned entry of an owner; pinned ones go when unpinned. */
void kv_cache_drop_owner(struct kv_cache *cache, uint64_t owner);

#endif
