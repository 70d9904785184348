/* See entries.h.
**
** There is no undo log: the entries are one. A rollback walks over the entries since the mark, oldest first.
** The first one of a key has an `older` from before the mark, or none: that is what the key goes back to, or
** it leaves the index. Entries that are kept for readers get a bit that says that they are undone; the newest
** stretch of such entries is remembered, so that rolling back to one mark again and again under a reader
** costs each time what was written since the time before. */
#include "entries.h"

#include "code.h"
#include "hash.h"
#include "mem.h"

void kv_entries_init(struct kv_entries *entries) {
  *entries = (struct kv_entries){.hash = kv_hash_key};
  kv_places_init(&entries->places);
  kv_slots_init(&entries->slots);
}

void kv_entries_release(struct kv_entries *entries) {
  kv_slots_release(&entries->slots);
  kv_places_release(&entries->places);
}

size_t kv_entries_bytes(const struct kv_entries *entries) {
  return entries->places.bytes + entries->slots.bytes;
}

/* ---- Finding */

/* An entry may go on in a second cache line, which is to be on its way when its sizes are known. */
static void prefetch_rest(const uint8_t *at) {
  kv_prefetch(at + 32);
}

static size_t entry_bytes(const uint8_t *at, const struct kv_entry *entry) {
  return (size_t)(entry->value.data - at) + entry->value.size;
}

/* The slot of a key and its newest entry, from the walk's first slot on, or NULL. */
static inline uint32_t *follow(const struct kv_entries *entries, struct kv_slice key,
                               uint32_t *slot, struct kv_slots_walk *walk, struct kv_entry *entry) {
  for (; slot; slot = kv_slots_next(walk)) {
    const uint8_t *at = kv_place_at(&entries->places, *slot);
    prefetch_rest(at);
    *entry = kv_entry_read(at);
    if (kv_slice_equal(entry->key, key)) break;
  }
  return slot;
}

static uint32_t *find_slot(const struct kv_entries *entries, struct kv_slice key, uint32_t tag,
                           struct kv_slots_walk *walk, struct kv_entry *entry) {
  return follow(entries, key, kv_slots_first(&entries->slots, tag, walk), walk, entry);
}

uint32_t kv_entries_find(const struct kv_entries *entries, struct kv_slice key, uint32_t tag,
                         struct kv_entry *entry) {
  struct kv_slots_walk walk;
  const uint32_t *slot = find_slot(entries, key, tag, &walk, entry);
  return slot ? *slot : KV_PLACE_NONE;
}

void kv_entries_find_many(const struct kv_entries *entries, const struct kv_slice *keys,
                          const uint64_t *hashes, size_t count, uint32_t *places,
                          struct kv_entry *found) {
  struct kv_slots_walk walks[KV_ENTRIES_GROUP];
  uint32_t *slots[KV_ENTRIES_GROUP];
  for (size_t i = 0; i < count; i++) kv_slots_prefetch(&entries->slots, kv_entry_tag(hashes[i]));
  for (size_t i = 0; i < count; i++) {
    slots[i] = kv_slots_first(&entries->slots, kv_entry_tag(hashes[i]), &walks[i]);
    if (!slots[i]) continue;
    const uint8_t *at = kv_place_at(&entries->places, *slots[i]);
    kv_prefetch(at);
    prefetch_rest(at);
  }
  for (size_t i = 0; i < count; i++) {
    if (slots[i]) slots[i] = follow(entries, keys[i], slots[i], &walks[i], &found[i]);
    places[i] = slots[i] ? *slots[i] : KV_PLACE_NONE;
  }
}

/* ---- Pushing */

static kv_status add_entry(struct kv_entries *entries, struct kv_slice key, struct kv_slice value,
                           bool deleted, uint32_t older, uint32_t *place, struct kv_err *err) {
  uint64_t key_word = (uint64_t)key.size << 2 | (older ? KV_ENTRY_REPLACES : 0);
  uint64_t value_word = (uint64_t)value.size << 1 | deleted;
  size_t size = kv_varint_size(key_word) + kv_varint_size(value_word) + key.size + value.size;
  if (older) size += sizeof older;
  kv_status status = kv_places_add(&entries->places, size, place, err);
  if (status) return status;
  uint8_t *at = kv_place_at(&entries->places, *place);
  at += kv_put_varint(at, key_word);
  at += kv_put_varint(at, value_word);
  if (older) {
    memcpy(at, &older, sizeof older);
    at += sizeof older;
  }
  if (key.size) memcpy(at, key.data, key.size);
  if (value.size) memcpy(at + key.size, value.data, value.size);
  return KV_OK;
}

kv_status kv_entries_push(struct kv_entries *entries, uint64_t hash, struct kv_slice key,
                          struct kv_slice value, bool deleted, enum kv_entry_before *before,
                          struct kv_err *err) {
  struct kv_slots_walk walk;
  struct kv_entry old;
  uint32_t tag = kv_entry_tag(hash), mark = entries->places.end, place;
  uint32_t *slot = find_slot(entries, key, tag, &walk, &old);
  kv_status status =
      add_entry(entries, key, value, deleted, slot ? *slot : KV_PLACE_NONE, &place, err);
  if (status) return status;
  *before = KV_ENTRY_NEW;
  if (slot) {
    *before = old.deleted ? KV_ENTRY_OVER_TOMBSTONE : KV_ENTRY_OVER_PUT;
    *slot = place;
    entries->live_bytes += value.size - old.value.size;
  } else if (kv_slots_insert(&entries->slots, tag, place)) {
    entries->live++;
    entries->live_bytes += key.size + value.size;
  } else {
    kv_places_rewind(&entries->places, mark);
    return kv_fail_nomem(err);
  }
  entries->count++;
  entries->newest = place;
  return KV_OK;
}

/* ---- Walking and rolling back */

struct kv_entries_walk kv_entries_walk(const struct kv_entries *entries, uint32_t from) {
  if (from < KV_PLACE_FIRST) from = KV_PLACE_FIRST;
  return (struct kv_entries_walk){.entries = entries,
                                  .next = kv_places_from(&entries->places, from)};
}

bool kv_entries_step(struct kv_entries_walk *walk) {
  const struct kv_entries *entries = walk->entries;
  const struct kv_places *places = &entries->places;
  do {
    if (entries->undone_from <= walk->next && walk->next < entries->undone_to)
      walk->next = kv_places_from(places, entries->undone_to);
    if (walk->next >= places->end) return false;
    walk->place = walk->next;
    const uint8_t *at = kv_place_at(places, walk->place);
    walk->entry = kv_entry_read(at);
    walk->next = kv_places_next(places, walk->place, entry_bytes(at, &walk->entry));
  } while (walk->entry.undone);
  return true;
}

struct kv_entries_mark kv_entries_mark(const struct kv_entries *entries) {
  return (struct kv_entries_mark){entries->places.end, entries->count, entries->live,
                                  entries->live_bytes};
}

/* Gives a key back to what it led to before the mark. */
static void unlink_entry(struct kv_entries *entries, const struct kv_entry *entry, uint32_t mark) {
  if (entry->older >= mark || !entries->slots.directory) return;
  struct kv_slots_walk walk;
  struct kv_entry newest;
  uint32_t tag = kv_entry_tag(entries->hash(entry->key));
  uint32_t *slot = find_slot(entries, entry->key, tag, &walk, &newest);
  if (entry->older)
    *slot = entry->older;
  else
    kv_slots_remove(&entries->slots, &walk, slot);
}

static void undo_since(struct kv_entries *entries, uint32_t mark, bool keep) {
  struct kv_entries_walk walk = kv_entries_walk(entries, mark);
  while (kv_entries_step(&walk)) {
    entries->walked++;
    unlink_entry(entries, &walk.entry, mark);
    if (keep) *kv_place_at(&entries->places, walk.place) |= KV_ENTRY_UNDONE;
  }
}

static void remember_undone(struct kv_entries *entries, uint32_t mark) {
  bool goes_on = entries->undone_to == mark && entries->undone_from < mark;
  if (!goes_on) entries->undone_from = mark;
  entries->undone_to = entries->places.end;
}

static void take_back(struct kv_entries *entries, uint32_t mark) {
  kv_places_rewind(&entries->places, mark);
  if (entries->undone_to > mark) entries->undone_to = mark;
}

void kv_entries_rollback(struct kv_entries *entries, struct kv_entries_mark mark, bool keep) {
  if (mark.place < KV_PLACE_FIRST) mark.place = KV_PLACE_FIRST;
  if (mark.place >= entries->places.end) return;
  if (!mark.count) kv_slots_release(&entries->slots);
  if (mark.count || keep) undo_since(entries, mark.place, keep);
  if (keep)
    remember_undone(entries, mark.place);
  else
    take_back(entries, mark.place);
  entries->count = mark.count;
  entries->live = mark.live;
  entries->live_bytes = mark.live_bytes;
}
