/* Entries by position, and a hash index from key to position: the common core of batch and memtable.
** An entry is one put or delete; its memory is the owner's arena's. Positions count up from 0 as
** entries are pushed; the index leads from a key to its newest position, `older` from there to the one
** that it replaced. Pushing and popping are exact opposites.
** Thread rule: the owner locks. Only kv_entries_at on a position known to be pushed may run beside a
** push: what it reads never moves. */
#ifndef KV_ENTRIES_H
#define KV_ENTRIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "buf.h"
#include "compare.h"
#include "status.h"

#define KV_NO_POSITION UINT32_MAX
#define KV_ENTRY_VALUE_MAX UINT32_MAX /* bytes */

/* Followed in memory by the key's bytes, then the value's. Aligned to 4. */
struct kv_entry {
  uint32_t tag;        /* kv_entry_tag of the key */
  uint32_t older;      /* position of the entry that this one replaced, or KV_NO_POSITION */
  uint32_t value_size; /* bytes; 0 for a tombstone */
  uint32_t key_size : 31;
  uint32_t deleted : 1; /* a tombstone */
};

static inline uint32_t kv_entry_tag(uint64_t hash) {
  return (uint32_t)(hash >> 32);
}
static inline struct kv_slice kv_entry_key(const struct kv_entry *entry) {
  return (struct kv_slice){(const uint8_t *)(entry + 1), entry->key_size};
}
static inline struct kv_slice kv_entry_value(const struct kv_entry *entry) {
  return (struct kv_slice){(const uint8_t *)(entry + 1) + entry->key_size, entry->value_size};
}
/* Memory that an entry takes; the sizes are within KV_KEY_BYTES_MAX and KV_ENTRY_VALUE_MAX. */
static inline size_t kv_entry_bytes(struct kv_slice key, struct kv_slice value) {
  return sizeof(struct kv_entry) + key.size + value.size;
}
/* Fills kv_entry_bytes of memory; key and value are copied, value.size is 0 when deleted. */
void kv_entry_fill(struct kv_entry *entry, uint64_t hash, struct kv_slice key,
                   struct kv_slice value, bool deleted);

#define KV_ENTRY_BLOCKS 27 /* 64, 64, 128, 256, ... 2^31 positions: 2^32 in all */

struct kv_entry_segment;
struct kv_entries {
  const struct kv_comparator *comparator;    /* borrowed; set by the owner, who keeps it */
  struct kv_entry **blocks[KV_ENTRY_BLOCKS]; /* position -> entry */
  uint32_t count;                            /* positions in use */
  uint32_t limit;                            /* most positions; lowered by tests only */
  uint32_t live;                             /* different keys among them */
  uint32_t depth;                            /* the directory has 2^depth places */
  struct kv_entry_segment **directory;       /* NULL while few entries are scanned instead */
  size_t bytes;                              /* heap memory of all this */
  /* for tests: index slots moved by the last push, positions popped since init */
  size_t moved;
  uint64_t popped;
};

void kv_entries_init(struct kv_entries *entries);
void kv_entries_release(struct kv_entries *entries);
/* The newest position of a key, or KV_NO_POSITION. */
uint32_t kv_entries_find(const struct kv_entries *entries, struct kv_slice key, uint32_t tag);
/* Only for positions in use. */
struct kv_entry *kv_entries_at(const struct kv_entries *entries, uint32_t position);
/* Gives the entry the position `count` and sets its `older`. KV_NOMEM or KV_MISUSE (limit reached):
** nothing changed. Moves at most a few hundred index slots. */
kv_status kv_entries_push(struct kv_entries *entries, struct kv_entry *entry, struct kv_err *err);
/* Takes the last position back; there is one. */
void kv_entries_pop(struct kv_entries *entries);

#endif
