/* The block cache. Entries live in 16 shards, each a chained hash table and a ring that the CLOCK hand
** walks, under the shard's mutex. The byte budget is shared: a shard that inserts over the budget sweeps
** itself first, then the others.
**
** An entry's atomic word holds its pins (units of PIN), a USED bit for CLOCK, a DETACHED bit: an entry
** taken out of its shard while pinned, which whoever drops the last pin frees; and an AWAITED bit: a sweep
** over the budget has met it pinned, so whoever drops the last pin takes the shard's mutex and frees it
** there if need be. Pins rise from 0 only under that mutex, so an unpinned entry seen there may be freed
** there. Invariants: an entry is in a shard or DETACHED, never both; bytes in shards above the budget are
** pinned, and AWAITED as soon as the sweep is through, so that none stays for want of somebody who looks. An
** entry of more than half the budget starts detached: one huge value must not empty the cache. The struct
** lives until the last handle and the last entry are gone, so a pin may outlive the handles. Thread rule:
** any thread. Lock order: one shard's mutex at a time, then the pool's. */
#include "cache.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "env.h"
#include "mem.h"
#include "pool.h"

#define SHARDS 16
#define BUCKETS_MIN 64
#define DETACHED 1u
#define USED 2u
#define AWAITED 4u
#define PIN 8u
#define LOOKUP_GROUP 64

struct shard;
struct kv_cache_entry {
  struct kv_cache_entry *chain; /* next in the bucket */
  uint64_t owner, offset;
  struct kv_cache_content content;
  atomic_uint word;
  struct kv_cache *cache;
  struct shard *shard;
  struct kv_cache_entry *newer, *older; /* the ring */
};

struct shard {
  struct kv_mutex *mutex;
  struct kv_cache_entry **buckets;
  size_t bucket_count; /* a power of two */
  size_t entry_count;
  struct kv_cache_entry *hand; /* NULL when empty */
  atomic_bool all_awaited;     /* the last sweep found nothing to free: every entry is AWAITED */
};

struct kv_cache {
  atomic_size_t budget;
  _Atomic enum kv_verify verify;
  atomic_size_t attached_bytes; /* of entries in shards */
  atomic_size_t detached_bytes;
  atomic_size_t handles;
  atomic_size_t holders; /* the handles as one, and every entry */
  atomic_uint_fast64_t next_owner;
  struct kv_open_files *files;
  struct kv_pool *pool; /* of the entries' bytes */
  struct shard shards[SHARDS];
};

static uint64_t mix(uint64_t owner, uint64_t offset) {
  uint64_t h = (owner ^ (offset * 0x9e3779b97f4a7c15u)) * 0xd6e8feb86659fd93u;
  h = (h ^ h >> 32) * 0xd6e8feb86659fd93u;
  return h ^ h >> 32;
}

static struct shard *shard_of(struct kv_cache *cache, uint64_t hash) {
  return &cache->shards[hash >> 60];
}

static struct kv_cache_entry **bucket_of(struct shard *shard, uint64_t hash) {
  return &shard->buckets[hash & (shard->bucket_count - 1)];
}

static size_t entry_bytes(const struct kv_cache_entry *entry) {
  return entry->content.size + sizeof *entry;
}

/* ---- Life of the cache */

static void free_cache(struct kv_cache *cache) {
  for (size_t i = 0; i < SHARDS; i++) {
    kv_mutex_free(cache->shards[i].mutex);
    kv_free(cache->shards[i].buckets);
  }
  kv_open_files_free(cache->files);
  kv_pool_free(cache->pool);
  kv_free(cache);
}

static void drop_holder(struct kv_cache *cache) {
  if (atomic_fetch_sub(&cache->holders, 1) == 1) free_cache(cache);
}

kv_status kv_cache_new(size_t budget, struct kv_cache **cache, struct kv_err *err) {
  struct kv_cache *made = kv_alloc_zero(1, sizeof *made);
  if (!made) return kv_fail_nomem(err);
  atomic_init(&made->budget, budget);
  atomic_init(&made->verify, KV_VERIFY_ALL);
  atomic_init(&made->handles, 1);
  atomic_init(&made->holders, 1);
  atomic_init(&made->next_owner, 1);
  kv_status status = kv_open_files_new(&made->files, err);
  if (status == KV_OK) status = kv_pool_new(&made->pool, err);
  for (size_t i = 0; i < SHARDS && status == KV_OK; i++) {
    struct shard *shard = &made->shards[i];
    status = kv_mutex_new(&shard->mutex, err);
    if (!status) shard->buckets = kv_alloc_zero(BUCKETS_MIN, sizeof *shard->buckets);
    if (!status && !shard->buckets) status = kv_fail_nomem(err);
    shard->bucket_count = BUCKETS_MIN;
  }
  if (status == KV_OK)
    *cache = made;
  else
    free_cache(made);
  return status;
}

struct kv_cache *kv_cache_ref(struct kv_cache *cache) {
  atomic_fetch_add(&cache->handles, 1);
  return cache;
}

/* ---- Entries (shard locked where a shard is changed) */

/* Nobody can reach the entry any more. */
static void free_entry(struct kv_cache_entry *entry) {
  struct kv_cache *cache = entry->cache;
  atomic_fetch_sub(&cache->detached_bytes, entry_bytes(entry));
  kv_pool_give(cache->pool, entry->content.bytes, entry->content.size);
  kv_free(entry);
  drop_holder(cache);
}

static struct kv_cache_entry *find(struct shard *shard, uint64_t hash, uint64_t owner,
                                   uint64_t offset) {
  struct kv_cache_entry *entry = *bucket_of(shard, hash);
  while (entry && (entry->owner != owner || entry->offset != offset)) entry = entry->chain;
  return entry;
}

/* Without memory the chains just get longer. */
static void grow_buckets(struct shard *shard) {
  size_t count = shard->bucket_count * 2;
  struct kv_cache_entry **old = shard->buckets;
  size_t old_count = shard->bucket_count;
  struct kv_cache_entry **buckets = kv_alloc_zero(count, sizeof *buckets);
  if (!buckets) return;
  shard->buckets = buckets;
  shard->bucket_count = count;
  for (size_t i = 0; i < old_count; i++) {
    for (struct kv_cache_entry *entry = old[i], *next; entry; entry = next) {
      next = entry->chain;
      struct kv_cache_entry **bucket = bucket_of(shard, mix(entry->owner, entry->offset));
      entry->chain = *bucket;
      *bucket = entry;
    }
  }
  kv_free(old);
}

static void attach(struct shard *shard, uint64_t hash, struct kv_cache_entry *entry) {
  if (shard->entry_count >= shard->bucket_count) grow_buckets(shard);
  struct kv_cache_entry **bucket = bucket_of(shard, hash);
  entry->chain = *bucket;
  *bucket = entry;
  if (!shard->hand) {
    shard->hand = entry->newer = entry->older = entry;
  } else { /* just behind the hand: the last to be looked at */
    entry->newer = shard->hand;
    entry->older = shard->hand->older;
    entry->older->newer = entry;
    shard->hand->older = entry;
  }
  shard->entry_count++;
  atomic_fetch_add(&entry->cache->attached_bytes, entry_bytes(entry));
}

/* Takes the entry out of its shard; frees it now, or leaves that to the last unpin. */
static void detach(struct kv_cache_entry *entry) {
  struct shard *shard = entry->shard;
  struct kv_cache_entry **link = bucket_of(shard, mix(entry->owner, entry->offset));
  while (*link != entry) link = &(*link)->chain;
  *link = entry->chain;
  if (shard->hand == entry) shard->hand = entry->newer == entry ? NULL : entry->newer;
  entry->newer->older = entry->older;
  entry->older->newer = entry->newer;
  shard->entry_count--;
  atomic_fetch_sub(&entry->cache->attached_bytes, entry_bytes(entry));
  atomic_fetch_add(&entry->cache->detached_bytes, entry_bytes(entry));
  if (atomic_fetch_or(&entry->word, DETACHED) < PIN) free_entry(entry);
}

static bool over_budget(struct kv_cache *cache) {
  return atomic_load(&cache->attached_bytes) > atomic_load(&cache->budget);
}

/* Whether an entry may go now; a pinned one is told to go with its last pin. */
static bool is_free(struct kv_cache_entry *entry) {
  if (atomic_load(&entry->word) < PIN) return true;
  return atomic_fetch_or(&entry->word, AWAITED) < PIN;
}

/* CLOCK: twice round at most, as the first round may only clear USED bits. */
static void sweep(struct kv_cache *cache, struct shard *shard) {
  size_t steps = shard->entry_count * 2;
  while (over_budget(cache) && steps-- > 0 && shard->hand) {
    struct kv_cache_entry *entry = shard->hand;
    shard->hand = entry->newer;
    if (!is_free(entry)) continue;
    if (atomic_load(&entry->word) & USED) {
      atomic_fetch_and(&entry->word, ~USED);
    } else {
      detach(entry);
    }
  }
  atomic_store(&shard->all_awaited, over_budget(cache));
}

/* Sweeps the shards from `first` on until the budget is met; `force` also those where all is awaited, which
** would cost a walk for nothing at every insert. */
static void trim(struct kv_cache *cache, size_t first, bool force) {
  for (size_t i = 0; i < SHARDS && over_budget(cache); i++) {
    struct shard *shard = &cache->shards[(first + i) % SHARDS];
    if (!force && atomic_load(&shard->all_awaited)) continue;
    kv_mutex_lock(shard->mutex);
    sweep(cache, shard);
    kv_mutex_unlock(shard->mutex);
  }
}

/* Detaches every entry of an owner, or of all with any_owner. */
static void drop(struct kv_cache *cache, bool any_owner, uint64_t owner) {
  for (size_t i = 0; i < SHARDS; i++) {
    struct shard *shard = &cache->shards[i];
    kv_mutex_lock(shard->mutex);
    for (size_t left = shard->entry_count; left > 0; left--) {
      struct kv_cache_entry *entry = shard->hand;
      shard->hand = entry->newer;
      if (any_owner || entry->owner == owner) detach(entry);
    }
    kv_mutex_unlock(shard->mutex);
  }
}

void kv_cache_unref(struct kv_cache *cache) {
  if (!cache || atomic_fetch_sub(&cache->handles, 1) != 1) return;
  drop(cache, true, 0);
  drop_holder(cache);
}

/* ---- Public */

void kv_cache_set_verify(struct kv_cache *cache, enum kv_verify verify) {
  atomic_store(&cache->verify, verify);
}

enum kv_verify kv_cache_verify(const struct kv_cache *cache) {
  return atomic_load_explicit(&cache->verify, memory_order_relaxed);
}

void kv_cache_set_budget(struct kv_cache *cache, size_t budget) {
  atomic_store(&cache->budget, budget);
  trim(cache, 0, true);
}

size_t kv_cache_budget(const struct kv_cache *cache) {
  return atomic_load(&cache->budget);
}

struct kv_open_files *kv_cache_files(struct kv_cache *cache) {
  return cache->files;
}

size_t kv_cache_bytes(const struct kv_cache *cache) {
  return atomic_load(&cache->attached_bytes) + atomic_load(&cache->detached_bytes);
}

uint64_t kv_cache_new_owner(struct kv_cache *cache) {
  return atomic_fetch_add(&cache->next_owner, 1);
}

static struct kv_cache_entry *pin_and_use(struct kv_cache_entry *entry) {
  atomic_fetch_add(&entry->word, PIN);
  if (!(atomic_load(&entry->word) & USED)) atomic_fetch_or(&entry->word, USED);
  return entry;
}

struct kv_cache_entry *kv_cache_lookup(struct kv_cache *cache, uint64_t owner, uint64_t offset) {
  uint64_t hash = mix(owner, offset);
  struct shard *shard = shard_of(cache, hash);
  kv_mutex_lock(shard->mutex);
  struct kv_cache_entry *entry = find(shard, hash, owner, offset);
  if (entry) pin_and_use(entry);
  kv_mutex_unlock(shard->mutex);
  return entry;
}

/* Lookups of one shard in a group: the heads of all chains are asked for before one is read. */
static void find_many(struct shard *shard, const struct kv_cache_name *names,
                      const uint64_t *hashes, const uint8_t *members, size_t n,
                      struct kv_cache_entry **entries) {
  kv_mutex_lock(shard->mutex);
  for (size_t i = 0; i < n; i++) {
    const struct kv_cache_entry *head = *bucket_of(shard, hashes[members[i]]);
    if (!head) continue;
    kv_prefetch(head);
    kv_prefetch(&head->word);
  }
  for (size_t i = 0; i < n; i++) {
    size_t at = members[i];
    entries[at] = find(shard, hashes[at], names[at].owner, names[at].offset);
    if (entries[at]) pin_and_use(entries[at]);
  }
  kv_mutex_unlock(shard->mutex);
}

/* At most LOOKUP_GROUP of them, sorted by shard. */
static void lookup_group(struct kv_cache *cache, const struct kv_cache_name *names, size_t n,
                         struct kv_cache_entry **entries) {
  uint64_t hashes[LOOKUP_GROUP];
  uint8_t members[LOOKUP_GROUP];
  size_t ends[SHARDS + 1] = {0};
  for (size_t i = 0; i < n; i++) {
    hashes[i] = mix(names[i].owner, names[i].offset);
    ends[(shard_of(cache, hashes[i]) - cache->shards) + 1]++;
  }
  for (size_t i = 1; i <= SHARDS; i++) ends[i] += ends[i - 1];
  for (size_t i = 0; i < n; i++) {
    members[ends[shard_of(cache, hashes[i]) - cache->shards]++] = (uint8_t)i;
  }
  for (size_t i = 0, start = 0; i < SHARDS; start = ends[i++]) {
    if (ends[i] == start) continue;
    find_many(&cache->shards[i], names, hashes, members + start, ends[i] - start, entries);
  }
}

void kv_cache_lookup_many(struct kv_cache *cache, const struct kv_cache_name *names, size_t n,
                          struct kv_cache_entry **entries) {
  for (size_t i = 0; i < n; i += LOOKUP_GROUP) {
    size_t group = n - i < LOOKUP_GROUP ? n - i : LOOKUP_GROUP;
    lookup_group(cache, names + i, group, entries + i);
  }
}

uint8_t *kv_cache_alloc(struct kv_cache *cache, size_t size) {
  return kv_pool_take(cache->pool, size);
}

void kv_cache_free(struct kv_cache *cache, uint8_t *bytes, size_t size) {
  kv_pool_give(cache->pool, bytes, size);
}

static struct kv_cache_entry *new_entry(struct kv_cache *cache, uint64_t owner, uint64_t offset,
                                        const struct kv_cache_content *content) {
  struct kv_cache_entry *entry = kv_alloc_zero(1, sizeof *entry);
  if (!entry) return NULL;
  entry->owner = owner;
  entry->offset = offset;
  entry->content = *content;
  entry->cache = cache;
  entry->shard = shard_of(cache, mix(owner, offset));
  atomic_init(&entry->word, PIN);
  atomic_fetch_add(&cache->holders, 1);
  return entry;
}

kv_status kv_cache_insert(struct kv_cache *cache, uint64_t owner, uint64_t offset,
                          const struct kv_cache_content *content, struct kv_cache_entry **entry,
                          struct kv_err *err) {
  struct kv_cache_entry *made = new_entry(cache, owner, offset, content);
  if (!made) return kv_fail_nomem(err);
  uint64_t hash = mix(owner, offset);
  struct shard *shard = made->shard;
  kv_mutex_lock(shard->mutex);
  struct kv_cache_entry *found = find(shard, hash, owner, offset);
  bool huge = entry_bytes(made) > atomic_load(&cache->budget) / 2;
  if (found) {
    pin_and_use(found);
  } else if (!huge) {
    if (atomic_load(&shard->all_awaited)) atomic_fetch_or(&made->word, AWAITED);
    attach(shard, hash, made);
  }
  kv_mutex_unlock(shard->mutex);
  if (found || huge) {
    atomic_fetch_add(&cache->detached_bytes, entry_bytes(made));
    atomic_fetch_or(&made->word, DETACHED);
  }
  if (found) free_entry(made);
  *entry = found ? found : made;
  if (over_budget(cache)) trim(cache, (size_t)(shard - cache->shards), false);
  return KV_OK;
}

void kv_cache_pin(struct kv_cache_entry *entry) {
  atomic_fetch_add(&entry->word, PIN);
}

/* Drops the last pin of an AWAITED entry, which goes if that still helps. Holds the cache, which may
** otherwise go with the entry while the shard is still locked. */
static void unpin_awaited(struct kv_cache_entry *entry) {
  struct shard *shard = entry->shard;
  struct kv_cache *cache = entry->cache;
  atomic_fetch_add(&cache->holders, 1);
  kv_mutex_lock(shard->mutex);
  unsigned before = atomic_fetch_sub(&entry->word, PIN);
  bool last = before < 2 * PIN;
  if (last && !(before & DETACHED)) {
    if (over_budget(cache)) {
      detach(entry);
    } else {
      atomic_fetch_and(&entry->word, ~AWAITED);
      atomic_store(&shard->all_awaited, false);
    }
  }
  kv_mutex_unlock(shard->mutex);
  if (last && before & DETACHED) free_entry(entry);
  drop_holder(cache);
}

void kv_cache_unpin(struct kv_cache_entry *entry) {
  if (!entry) return;
  unsigned word = atomic_load(&entry->word);
  do {
    if (word < 2 * PIN && (word & (AWAITED | DETACHED)) == AWAITED) {
      unpin_awaited(entry);
      return;
    }
  } while (!atomic_compare_exchange_weak(&entry->word, &word, word - PIN));
  if (word < 2 * PIN && word & DETACHED) free_entry(entry);
}

const struct kv_cache_content *kv_cache_content(const struct kv_cache_entry *entry) {
  return &entry->content;
}

void kv_cache_drop_owner(struct kv_cache *cache, uint64_t owner) {
  drop(cache, false, owner);
}
