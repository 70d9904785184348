/* See entries.h.
**
** Positions: blocks of pointers, each as large as all before it, so that nothing moves when they grow.
**
** Index: extendible hashing. A directory of 2^depth places, chosen by the high bits of a tag, leads to
** segments; a segment is an open-addressing table of (tag, position) with linear probing, at most
** 85 % full. A full one first grows (16 to 512 slots by doubling, to 768 by steps of 128, which keeps
** the load above 60 %: about 11 bytes a key), then splits in two by the next bit of the tag. So a push
** never moves more than one segment's slots, and there is no rehash of the whole. The directory
** doubles by copying pointers, one for some 300 keys.
**
** Keys whose tags are all alike cannot be split apart. The directory therefore grows only as fast as
** the number of entries allows; otherwise the segment doubles: slow, but right and bounded in memory.
**
** Up to SCAN_MAX entries there is no index: the newest entry with the key is the one. */
#include "entries.h"

#include <string.h>

#include "mem.h"

#define SCAN_MAX 8u
#define SLOTS_FIRST 16u
#define SLOTS_DOUBLE_MAX 512u  /* by doubling up to here, */
#define SLOTS_STEP 128u        /* by steps of this up to */
#define SLOTS_SPLIT 768u       /* here, where a segment splits into two of SLOTS_DOUBLE_MAX */
#define ENTRIES_PER_PLACE 128u /* the directory does not double with fewer entries a place */
#define DEPTH_MAX 31u
#define BLOCK_FIRST 64u /* positions of blocks 0 and 1 */

struct slot {
  uint32_t tag;
  uint32_t place; /* position + 1; 0 = empty */
};

struct kv_entry_segment {
  uint32_t depth; /* high tag bits that all its tags share */
  uint32_t size;  /* slots */
  uint32_t used;
  struct slot slots[];
};

void kv_entry_fill(struct kv_entry *entry, uint64_t hash, struct kv_slice key,
                   struct kv_slice value, bool deleted) {
  *entry = (struct kv_entry){.tag = kv_entry_tag(hash),
                             .older = KV_NO_POSITION,
                             .value_size = (uint32_t)value.size,
                             .key_size = (uint32_t)key.size & 0x7fffffff,
                             .deleted = deleted};
  uint8_t *bytes = (uint8_t *)(entry + 1);
  if (key.size) memcpy(bytes, key.data, key.size);
  if (value.size) memcpy(bytes + key.size, value.data, value.size);
}

/* ---- Positions */

static uint32_t block_of(uint32_t position) {
  return position < BLOCK_FIRST ? 0 : 26u - (uint32_t)__builtin_clz(position);
}

static uint32_t block_start(uint32_t block) {
  return block ? BLOCK_FIRST << (block - 1) : 0;
}

static size_t block_size(uint32_t block) {
  return block ? (size_t)BLOCK_FIRST << (block - 1) : BLOCK_FIRST;
}

struct kv_entry *kv_entries_at(const struct kv_entries *entries, uint32_t position) {
  uint32_t block = block_of(position);
  return entries->blocks[block][position - block_start(block)];
}

static kv_status make_block(struct kv_entries *entries, uint32_t block, struct kv_err *err) {
  if (entries->blocks[block]) return KV_OK;
  entries->blocks[block] = kv_alloc(block_size(block), sizeof(struct kv_entry *));
  if (!entries->blocks[block]) return kv_fail_nomem(err);
  entries->bytes += block_size(block) * sizeof(struct kv_entry *);
  return KV_OK;
}

/* ---- Segments */

static size_t segment_bytes(uint32_t size) {
  return sizeof(struct kv_entry_segment) + size * sizeof(struct slot);
}

static struct kv_entry_segment *segment_new(struct kv_entries *entries, uint32_t size,
                                            uint32_t depth) {
  struct kv_entry_segment *segment = kv_alloc_zero(1, segment_bytes(size));
  if (!segment) return NULL;
  segment->size = size;
  segment->depth = depth;
  entries->bytes += segment_bytes(size);
  return segment;
}

static void segment_free(struct kv_entries *entries, struct kv_entry_segment *segment) {
  if (!segment) return;
  entries->bytes -= segment_bytes(segment->size);
  kv_free(segment);
}

/* The slot where the search for a tag begins: all bits of the tag matter, as the high ones are alike
** within a segment. */
static uint32_t home(const struct kv_entry_segment *segment, uint32_t tag) {
  uint32_t mixed = tag * 0x9e3779b1u;
  return (uint32_t)(((uint64_t)mixed * segment->size) >> 32);
}

static uint32_t after(const struct kv_entry_segment *segment, uint32_t slot) {
  return slot + 1 == segment->size ? 0 : slot + 1;
}

static bool has_room(uint32_t used, uint32_t size) {
  return ((uint64_t)used + 1) * 100 <= (uint64_t)size * 85;
}

static void segment_insert(struct kv_entry_segment *segment, struct slot slot) {
  uint32_t at = home(segment, slot.tag);
  while (segment->slots[at].place) at = after(segment, at);
  segment->slots[at] = slot;
  segment->used++;
}

/* Empties a slot and closes the gap: a later slot of the cluster moves down unless its home lies behind
** the gap. */
static void segment_remove(struct kv_entry_segment *segment, uint32_t gap) {
  struct slot *slots = segment->slots;
  for (uint32_t at = after(segment, gap); slots[at].place; at = after(segment, at)) {
    uint32_t from = home(segment, slots[at].tag);
    bool behind_gap = gap <= at ? gap < from && from <= at : gap < from || from <= at;
    if (behind_gap) continue;
    slots[gap] = slots[at];
    gap = at;
  }
  slots[gap] = (struct slot){0, 0};
  segment->used--;
}

/* ---- Directory */

static size_t directory_index(const struct kv_entries *entries, uint32_t tag) {
  return entries->depth ? tag >> (32 - entries->depth) : 0;
}

static struct kv_entry_segment *segment_of(const struct kv_entries *entries, uint32_t tag) {
  return entries->directory[directory_index(entries, tag)];
}

static bool double_directory(struct kv_entries *entries) {
  size_t places = (size_t)1 << entries->depth;
  struct kv_entry_segment **wide = kv_alloc(2 * places, sizeof *wide);
  if (!wide) return false;
  for (size_t i = 0; i < places; i++) wide[2 * i] = wide[2 * i + 1] = entries->directory[i];
  kv_free(entries->directory);
  entries->directory = wide;
  entries->depth++;
  entries->bytes += places * sizeof *wide;
  return true;
}

/* Puts `low` (and `high`, its sibling by one more bit, or NULL) where `old` stood, and frees it. */
static void replace_segment(struct kv_entries *entries, uint32_t tag, struct kv_entry_segment *old,
                            struct kv_entry_segment *low, struct kv_entry_segment *high) {
  size_t span = (size_t)1 << (entries->depth - old->depth);
  struct kv_entry_segment **places =
      entries->directory + (directory_index(entries, tag) & ~(span - 1));
  for (size_t i = 0; i < span; i++) places[i] = high && i >= span / 2 ? high : low;
  for (uint32_t i = 0; i < old->size; i++) {
    struct slot slot = old->slots[i];
    if (!slot.place) continue;
    bool up = high && slot.tag >> (32 - high->depth) & 1;
    segment_insert(up ? high : low, slot);
  }
  entries->moved += old->used;
  segment_free(entries, old);
}

static bool grow_segment(struct kv_entries *entries, uint32_t tag, struct kv_entry_segment *old) {
  bool stepwise = old->size >= SLOTS_DOUBLE_MAX && old->size < SLOTS_SPLIT;
  if (old->size > UINT32_MAX / 2) return false;
  uint32_t size = stepwise ? old->size + SLOTS_STEP : old->size * 2;
  struct kv_entry_segment *large = segment_new(entries, size, old->depth);
  if (!large) return false;
  replace_segment(entries, tag, old, large, NULL);
  return true;
}

/* Slots for a half with `used` of them taken: a split can be uneven. */
static uint32_t size_for(uint32_t used) {
  uint32_t size = SLOTS_DOUBLE_MAX;
  while (!has_room(used, size)) size += SLOTS_STEP;
  return size;
}

static bool split_segment(struct kv_entries *entries, uint32_t tag, struct kv_entry_segment *old) {
  uint32_t depth = old->depth + 1;
  uint32_t up = 0;
  for (uint32_t i = 0; i < old->size; i++) {
    if (old->slots[i].place) up += old->slots[i].tag >> (32 - depth) & 1;
  }
  struct kv_entry_segment *low = segment_new(entries, size_for(old->used - up), depth);
  struct kv_entry_segment *high = segment_new(entries, size_for(up), depth);
  if (low && high) {
    replace_segment(entries, tag, old, low, high);
    return true;
  }
  segment_free(entries, low);
  segment_free(entries, high);
  return false;
}

/* Room for one more slot in the segment of a tag. */
static bool make_room(struct kv_entries *entries, uint32_t tag) {
  for (;;) {
    struct kv_entry_segment *segment = segment_of(entries, tag);
    if (has_room(segment->used, segment->size)) return true;
    bool may_split = segment->size >= SLOTS_SPLIT;
    if (may_split && segment->depth == entries->depth) {
      may_split =
          entries->depth < DEPTH_MAX && entries->count >> entries->depth >= ENTRIES_PER_PLACE;
      if (may_split && !double_directory(entries)) return false;
    }
    bool made =
        may_split ? split_segment(entries, tag, segment) : grow_segment(entries, tag, segment);
    if (!made) return false;
  }
}

/* ---- Keys */

static bool holds_key(const struct kv_entries *entries, uint32_t position, struct kv_slice key,
                      uint32_t tag) {
  const struct kv_entry *entry = kv_entries_at(entries, position);
  return entry->tag == tag && kv_slice_equal(kv_entry_key(entry), key);
}

static uint32_t scan(const struct kv_entries *entries, struct kv_slice key, uint32_t tag) {
  for (uint32_t position = entries->count; position-- > 0;) {
    if (holds_key(entries, position, key, tag)) return position;
  }
  return KV_NO_POSITION;
}

/* The slot of a key, or NULL. */
static struct slot *find_slot(const struct kv_entries *entries, struct kv_slice key, uint32_t tag) {
  struct kv_entry_segment *segment = segment_of(entries, tag);
  for (uint32_t at = home(segment, tag); segment->slots[at].place; at = after(segment, at)) {
    struct slot *slot = &segment->slots[at];
    if (slot->tag == tag && holds_key(entries, slot->place - 1, key, tag)) return slot;
  }
  return NULL;
}

/* Leads the key of an entry to a position; *older is where it led before. */
static kv_status index_entry(struct kv_entries *entries, const struct kv_entry *entry,
                             uint32_t position, uint32_t *older, struct kv_err *err) {
  struct slot *slot = find_slot(entries, kv_entry_key(entry), entry->tag);
  *older = slot ? slot->place - 1 : KV_NO_POSITION;
  if (slot) {
    slot->place = position + 1;
    return KV_OK;
  }
  if (!make_room(entries, entry->tag)) return kv_fail_nomem(err);
  segment_insert(segment_of(entries, entry->tag), (struct slot){entry->tag, position + 1});
  return KV_OK;
}

/* The index of the entries scanned until now: they fit one segment. */
static kv_status make_index(struct kv_entries *entries, struct kv_err *err) {
  struct kv_entry_segment **directory = kv_alloc(1, sizeof *directory);
  struct kv_entry_segment *segment = segment_new(entries, SLOTS_FIRST, 0);
  if (!directory || !segment) {
    segment_free(entries, segment);
    kv_free(directory);
    return kv_fail_nomem(err);
  }
  *directory = segment;
  entries->directory = directory;
  entries->bytes += sizeof *directory;
  kv_status status = KV_OK;
  uint32_t older;
  for (uint32_t i = 0; !status && i < entries->count; i++) {
    status = index_entry(entries, kv_entries_at(entries, i), i, &older, err);
  }
  return status;
}

/* ---- Public */

void kv_entries_init(struct kv_entries *entries) {
  *entries = (struct kv_entries){.limit = UINT32_MAX};
}

static void free_index(struct kv_entries *entries) {
  if (!entries->directory) return;
  size_t places = (size_t)1 << entries->depth;
  for (size_t i = 0; i < places;) {
    struct kv_entry_segment *segment = entries->directory[i];
    i += (size_t)1 << (entries->depth - segment->depth);
    segment_free(entries, segment);
  }
  kv_free(entries->directory);
}

void kv_entries_release(struct kv_entries *entries) {
  free_index(entries);
  for (uint32_t i = 0; i < KV_ENTRY_BLOCKS; i++) kv_free(entries->blocks[i]);
  const struct kv_comparator *comparator = entries->comparator;
  kv_entries_init(entries);
  entries->comparator = comparator;
}

uint32_t kv_entries_find(const struct kv_entries *entries, struct kv_slice key, uint32_t tag) {
  if (!entries->directory) return scan(entries, key, tag);
  const struct slot *slot = find_slot(entries, key, tag);
  return slot ? slot->place - 1 : KV_NO_POSITION;
}

kv_status kv_entries_push(struct kv_entries *entries, struct kv_entry *entry, struct kv_err *err) {
  uint32_t position = entries->count;
  if (position >= entries->limit) {
    return kv_fail(err, KV_MISUSE, "more than %lu writes in one batch or memtable",
                   (unsigned long)entries->limit);
  }
  entries->moved = 0;
  kv_status status = make_block(entries, block_of(position), err);
  if (!status && !entries->directory && position >= SCAN_MAX) status = make_index(entries, err);
  if (status) return status;
  uint32_t older = KV_NO_POSITION;
  if (entries->directory) {
    status = index_entry(entries, entry, position, &older, err);
    if (status) return status;
  } else {
    older = scan(entries, kv_entry_key(entry), entry->tag);
  }
  entry->older = older;
  entries->blocks[block_of(position)][position - block_start(block_of(position))] = entry;
  entries->live += older == KV_NO_POSITION;
  entries->count++;
  return KV_OK;
}

static void unindex(struct kv_entries *entries, const struct kv_entry *entry, uint32_t position) {
  struct kv_entry_segment *segment = segment_of(entries, entry->tag);
  uint32_t at = home(segment, entry->tag);
  while (segment->slots[at].place != position + 1) at = after(segment, at);
  if (entry->older == KV_NO_POSITION) {
    segment_remove(segment, at);
  } else {
    segment->slots[at].place = entry->older + 1;
  }
}

void kv_entries_pop(struct kv_entries *entries) {
  uint32_t position = entries->count - 1;
  const struct kv_entry *entry = kv_entries_at(entries, position);
  if (entries->directory) unindex(entries, entry, position);
  entries->live -= entry->older == KV_NO_POSITION;
  entries->count = position;
  entries->popped++;
}
