/* Entries and a hash index from key to newest entry: the common core of batch and memtable. An entry is one
** put or delete, written once; its place (places.h) is its name and its age. The index leads from a key to
** its newest entry, `older` from there to the one that it replaced. A rollback undoes the pushes since a
** mark. Thread rule: the owner locks. Only kv_entries_at, of a place that a find or an order has given, may
** run beside a push: what it reads never moves or changes. */
#ifndef KV_ENTRIES_H
#define KV_ENTRIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "buf.h"
#include "places.h"
#include "slots.h"
#include "status.h"

#define KV_ENTRY_VALUE_MAX UINT32_MAX /* bytes */
#define KV_ENTRY_UNDONE 1u            /* bits of the first word */
#define KV_ENTRY_REPLACES 2u

/* An entry, read out of its bytes:
**   varint   key size * 4 + KV_ENTRY_REPLACES + KV_ENTRY_UNDONE
**   varint   value size * 2 + (1 for a tombstone)
**   u32      older, in the machine's order, only with KV_ENTRY_REPLACES
**   key bytes, value bytes */
struct kv_entry {
  struct kv_slice key;
  struct kv_slice value;
  uint32_t older; /* place of the entry that this one replaced, or KV_PLACE_NONE */
  bool deleted;   /* a tombstone: the value is empty */
  bool undone;    /* rolled back, and kept for those who read it still */
};

static inline uint32_t kv_entry_tag(uint64_t hash) {
  return (uint32_t)(hash >> 32);
}

static inline const uint8_t *kv_entry_word(const uint8_t *at, uint64_t *word) {
  uint64_t value = *at & 0x7fu;
  for (unsigned shift = 7; *at++ & 0x80; shift += 7) value |= (uint64_t)(*at & 0x7fu) << shift;
  *word = value;
  return at;
}

static inline struct kv_entry kv_entry_read(const uint8_t *at) {
  uint64_t key_word, value_word;
  struct kv_entry entry = {.older = KV_PLACE_NONE};
  at = kv_entry_word(kv_entry_word(at, &key_word), &value_word);
  if (key_word & KV_ENTRY_REPLACES) {
    memcpy(&entry.older, at, sizeof entry.older);
    at += sizeof entry.older;
  }
  entry.undone = key_word & KV_ENTRY_UNDONE;
  entry.deleted = value_word & 1;
  entry.key = kv_slice_of(at, key_word >> 2);
  entry.value = kv_slice_of(at + entry.key.size, value_word >> 1);
  return entry;
}

struct kv_entries {
  struct kv_places places;
  struct kv_slots slots;
  uint64_t (*hash)(struct kv_slice key); /* kv_hash_key; another one in tests only */
  uint32_t count;                        /* entries pushed and not undone */
  uint32_t live;                         /* different keys among them */
  uint32_t newest;                       /* place of the last push */
  size_t live_bytes;                     /* of the newest entries' keys and values */
  uint32_t undone_from;                  /* a stretch of places in which everything is undone: */
  uint32_t undone_to;                    /* a rollback passes over it */
  uint64_t walked;                       /* for tests: entries that rollbacks have met since init */
};

/* Where a rollback goes back to. All 0: before the first push. */
struct kv_entries_mark {
  uint32_t place;
  uint32_t count;
  uint32_t live;
  size_t live_bytes;
};

void kv_entries_init(struct kv_entries *entries);
void kv_entries_release(struct kv_entries *entries);
size_t kv_entries_bytes(const struct kv_entries *entries); /* heap memory */

/* The place of a key's newest entry, and what it is, or KV_PLACE_NONE. */
uint32_t kv_entries_find(const struct kv_entries *entries, struct kv_slice key, uint32_t tag,
                         struct kv_entry *entry);
static inline struct kv_entry kv_entries_at(const struct kv_entries *entries, uint32_t place) {
  return kv_entry_read(kv_place_at(&entries->places, place));
}
#define KV_ENTRIES_GROUP ((size_t)16) /* finds whose loads overlap */
/* kv_entries_find of up to KV_ENTRIES_GROUP keys, of which the hashes are given. */
void kv_entries_find_many(const struct kv_entries *entries, const struct kv_slice *keys,
                          const uint64_t *hashes, size_t count, uint32_t *places,
                          struct kv_entry *found);

enum kv_entry_before { KV_ENTRY_NEW, KV_ENTRY_OVER_PUT, KV_ENTRY_OVER_TOMBSTONE };
/* Copies key (within KV_KEY_BYTES_MAX) and value (within KV_ENTRY_VALUE_MAX, empty when deleted); *before
** says what the key's newest entry was. KV_NOMEM or KV_MISUSE (places used up): nothing changed. Moves at
** most a few hundred index slots. */
kv_status kv_entries_push(struct kv_entries *entries, uint64_t hash, struct kv_slice key,
                          struct kv_slice value, bool deleted, enum kv_entry_before *before,
                          struct kv_err *err);
struct kv_entries_mark kv_entries_mark(const struct kv_entries *entries);
/* Undoes the pushes since the mark, O(of them). With `keep` their bytes stay readable and hold their memory
** until a later rollback without it, to this mark or an earlier one. Cannot fail. */
void kv_entries_rollback(struct kv_entries *entries, struct kv_entries_mark mark, bool keep);

/* A walk over the entries at and above a place, oldest first, undone ones left out. */
struct kv_entries_walk {
  const struct kv_entries *entries;
  uint32_t place; /* of `entry` */
  uint32_t next;
  struct kv_entry entry;
};
struct kv_entries_walk kv_entries_walk(const struct kv_entries *entries, uint32_t from);
bool kv_entries_step(struct kv_entries_walk *walk); /* false at the end */

#endif
