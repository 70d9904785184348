/* See slots.h.
**
** Extendible hashing. A directory of 2^depth places, chosen by the high bits of a tag, leads to segments; a
** segment is an open-addressing table of buckets with linear probing from bucket to bucket, at most 85 %
** full. A full one first grows (2 to 64 buckets by doubling, then to 96, which keeps the load above
** 56 %: about 11 bytes a key), then splits in two by the next bit of the tag. So an insertion never moves
** more than one segment's slots, and there is no rehash of the whole. The directory doubles by copying, a
** place for some 300 keys.
**
** Keys whose tags are all alike cannot be split apart. The directory therefore grows only as fast as the
** number of keys allows; otherwise the segment doubles: slow, but right and bounded in memory.
**
** A search ends at the first bucket that is not full. A removal keeps that true: the last slot of the bucket
** closes the gap, and a bucket that was full takes in a slot from a later one whose search comes through it.
** The owner's thread. */
#include "slots.h"

#include <string.h>

#include "mem.h"

#define BUCKETS_FIRST 2u
#define BUCKETS_DOUBLE_MAX 64u /* by doubling up to here, */
#define BUCKETS_SPLIT 96u /* then to here, where a segment splits into two of BUCKETS_DOUBLE_MAX */
#define BUCKETS_MAX (1u << 26)
#define FILLED_BUCKETS_MAX 128u /* of a segment that is filled by count */
#define KEYS_PER_PLACE 128u     /* the directory does not double with fewer keys a place */
#define DEPTH_MAX 31u
#define LINE ((size_t)64)

/* Ends where the buckets begin; as large as the heap's alignment. */
struct head {
  uint64_t offset; /* bytes from the heap block's start to the buckets */
  uint64_t unused;
};

/* ---- Segments */

static struct head *head_of(const struct kv_slots_segment *segment) {
  return (struct head *)segment->buckets - 1;
}

static size_t segment_bytes(uint32_t size) {
  return LINE + size * sizeof(struct kv_slots_bucket);
}

static bool segment_new(struct kv_slots *slots, uint32_t size, uint32_t depth,
                        struct kv_slots_segment *segment) {
  uint8_t *block = kv_alloc_zero(1, segment_bytes(size));
  if (!block) return false;
  size_t offset = LINE - (uintptr_t)block % LINE;
  *segment = (struct kv_slots_segment){(void *)(block + offset), size, depth, 0};
  head_of(segment)->offset = offset;
  slots->bytes += segment_bytes(size);
  return true;
}

static void segment_free(struct kv_slots *slots, const struct kv_slots_segment *segment) {
  if (!segment->buckets) return;
  slots->bytes -= segment_bytes(segment->size);
  kv_free((uint8_t *)segment->buckets - head_of(segment)->offset);
}

/* The bucket where the search for a tag begins: all bits of the tag matter, as the high ones are alike within
** a segment. */
static uint32_t home(const struct kv_slots_segment *segment, uint32_t tag) {
  uint32_t mixed = tag * 0x9e3779b1u;
  return (uint32_t)(((uint64_t)mixed * segment->size) >> 32);
}

static uint32_t after(const struct kv_slots_segment *segment, uint32_t bucket) {
  return bucket + 1 == segment->size ? 0 : bucket + 1;
}

/* How many buckets a search that begins at `from` has passed before it comes to `bucket`. */
static uint32_t distance(const struct kv_slots_segment *segment, uint32_t from, uint32_t bucket) {
  return bucket >= from ? bucket - from : bucket + segment->size - from;
}

static bool has_room(uint32_t used, uint32_t size) {
  return ((uint64_t)used + 1) * 100 <= (uint64_t)size * KV_SLOTS_PER_BUCKET * 85;
}

static bool is_full(const struct kv_slots_bucket *bucket) {
  return bucket->places[KV_SLOTS_PER_BUCKET - 1] != 0;
}

/* By halves: what is used is in front. */
static unsigned count_used(const struct kv_slots_bucket *bucket) {
  if (is_full(bucket)) return KV_SLOTS_PER_BUCKET;
  unsigned used = bucket->places[3] ? 4 : 0;
  used += bucket->places[used + 1] ? 2 : 0;
  return used + (bucket->places[used] != 0);
}

static void segment_insert(struct kv_slots_segment *segment, uint32_t tag, uint32_t place) {
  uint32_t at = home(segment, tag);
  while (is_full(&segment->buckets[at])) at = after(segment, at);
  struct kv_slots_bucket *bucket = &segment->buckets[at];
  unsigned slot = count_used(bucket);
  bucket->tags[slot] = tag;
  bucket->places[slot] = place;
  segment->used++;
}

/* The slot of a bucket whose search has passed through `gap`, or KV_SLOTS_PER_BUCKET. */
static unsigned movable(const struct kv_slots_segment *segment, uint32_t gap, uint32_t bucket) {
  unsigned slot = 0, used = count_used(&segment->buckets[bucket]);
  for (; slot < used; slot++) {
    uint32_t from = home(segment, segment->buckets[bucket].tags[slot]);
    if (distance(segment, from, bucket) >= distance(segment, gap, bucket)) return slot;
  }
  return KV_SLOTS_PER_BUCKET;
}

/* Takes a slot out of a bucket; true when searches may have gone on past the bucket until now. */
static bool take_out(struct kv_slots_bucket *bucket, unsigned slot) {
  bool was_full = is_full(bucket);
  unsigned last = count_used(bucket) - 1;
  bucket->tags[slot] = bucket->tags[last];
  bucket->places[slot] = bucket->places[last];
  bucket->places[last] = 0;
  return was_full;
}

static void segment_remove(const struct kv_slots_segment *segment, uint32_t gap, unsigned slot) {
  const unsigned last = KV_SLOTS_PER_BUCKET - 1;
  bool open = take_out(&segment->buckets[gap], slot);
  for (uint32_t at = gap; open;) {
    at = after(segment, at);
    struct kv_slots_bucket *from = &segment->buckets[at], *into = &segment->buckets[gap];
    open = is_full(from);
    slot = movable(segment, gap, at);
    if (slot == KV_SLOTS_PER_BUCKET) continue;
    into->tags[last] = from->tags[slot];
    into->places[last] = from->places[slot];
    take_out(from, slot);
    gap = at;
  }
}

/* ---- Directory */

static size_t directory_index(const struct kv_slots *slots, uint32_t tag) {
  return slots->depth ? tag >> (32 - slots->depth) : 0;
}

static struct kv_slots_segment *segment_of(const struct kv_slots *slots, uint32_t tag) {
  return &slots->directory[directory_index(slots, tag)];
}

/* The one of the directory's copies that counts. */
static struct kv_slots_segment *counting(const struct kv_slots *slots, uint32_t tag) {
  size_t index = directory_index(slots, tag);
  size_t copies = (size_t)1 << (slots->depth - slots->directory[index].depth);
  return &slots->directory[index & ~(copies - 1)];
}

static bool make_directory(struct kv_slots *slots) {
  if (slots->directory) return true;
  struct kv_slots_segment *directory = kv_alloc(1, sizeof *directory);
  if (!directory) return false;
  if (!segment_new(slots, BUCKETS_FIRST, 0, directory)) {
    kv_free(directory);
    return false;
  }
  slots->directory = directory;
  slots->bytes += sizeof *directory;
  return true;
}

static bool double_directory(struct kv_slots *slots) {
  size_t places = (size_t)1 << slots->depth;
  struct kv_slots_segment *wide = kv_alloc(2 * places, sizeof *wide);
  if (!wide) return false;
  for (size_t i = 0; i < places; i++) wide[2 * i] = wide[2 * i + 1] = slots->directory[i];
  kv_free(slots->directory);
  slots->directory = wide;
  slots->depth++;
  slots->bytes += places * sizeof *wide;
  return true;
}

static bool goes_up(const struct kv_slots_segment *high, uint32_t tag) {
  return tag >> (32 - high->depth) & 1;
}

/* A new segment while it is filled: how many slots of each bucket are used, so that this need be neither
** guessed nor read where it has just been written. */
struct filling {
  struct kv_slots_segment *segment;
  uint8_t used[FILLED_BUCKETS_MAX];
};

static void fill(struct filling *filling, uint32_t tag, uint32_t place) {
  struct kv_slots_segment *segment = filling->segment;
  if (segment->size > FILLED_BUCKETS_MAX) {
    segment_insert(segment, tag, place);
    return;
  }
  uint32_t at = home(segment, tag);
  while (filling->used[at] == KV_SLOTS_PER_BUCKET) at = after(segment, at);
  unsigned slot = filling->used[at]++;
  segment->buckets[at].tags[slot] = tag;
  segment->buckets[at].places[slot] = place;
  segment->used++;
}

/* Puts `low` (and `high`, its sibling by one more bit, or NULL) where the tag's segment stood, which is
** freed. */
static void replace_segment(struct kv_slots *slots, uint32_t tag, struct kv_slots_segment *low,
                            struct kv_slots_segment *high) {
  struct kv_slots_segment *places = counting(slots, tag), old = *places;
  struct filling halves[2] = {{.segment = low}, {.segment = high}};
  for (uint32_t at = 0; at < old.size; at++) {
    const struct kv_slots_bucket *bucket = &old.buckets[at];
    for (unsigned i = 0; i < KV_SLOTS_PER_BUCKET && bucket->places[i]; i++) {
      bool up = high && goes_up(high, bucket->tags[i]);
      fill(&halves[up], bucket->tags[i], bucket->places[i]);
    }
  }
  size_t copies = (size_t)1 << (slots->depth - old.depth);
  for (size_t i = 0; i < copies; i++) places[i] = high && i >= copies / 2 ? *high : *low;
  slots->moved += old.used;
  segment_free(slots, &old);
}

static bool grow_segment(struct kv_slots *slots, uint32_t tag) {
  const struct kv_slots_segment *old = counting(slots, tag);
  struct kv_slots_segment large;
  if (old->size >= BUCKETS_MAX) return false;
  uint32_t size = old->size == BUCKETS_DOUBLE_MAX ? BUCKETS_SPLIT : old->size * 2;
  if (!segment_new(slots, size, old->depth, &large)) return false;
  replace_segment(slots, tag, &large, NULL);
  return true;
}

/* Buckets for a half with `used` slots: a split can be uneven. */
static uint32_t size_for(uint32_t used) {
  uint32_t size = BUCKETS_DOUBLE_MAX;
  while (!has_room(used, size)) size += BUCKETS_SPLIT - BUCKETS_DOUBLE_MAX;
  return size;
}

static bool split_segment(struct kv_slots *slots, uint32_t tag) {
  const struct kv_slots_segment *old = counting(slots, tag);
  struct kv_slots_segment low, high = {NULL, 0, (old->depth + 1) & 31, 0};
  uint32_t up = 0;
  for (uint32_t at = 0; at < old->size; at++) {
    for (unsigned i = 0; i < KV_SLOTS_PER_BUCKET && old->buckets[at].places[i]; i++)
      up += goes_up(&high, old->buckets[at].tags[i]);
  }
  if (!segment_new(slots, size_for(old->used - up), high.depth, &low)) return false;
  if (!segment_new(slots, size_for(up), high.depth, &high)) {
    segment_free(slots, &low);
    return false;
  }
  replace_segment(slots, tag, &low, &high);
  return true;
}

/* The segment of a tag, with room for one more slot; NULL without memory. */
static struct kv_slots_segment *make_room(struct kv_slots *slots, uint32_t tag) {
  for (;;) {
    struct kv_slots_segment *segment = counting(slots, tag);
    if (has_room(segment->used, segment->size)) return segment;
    bool may_split = segment->size >= BUCKETS_SPLIT;
    if (may_split && segment->depth == slots->depth) {
      may_split = slots->depth < DEPTH_MAX && slots->used >> slots->depth >= KEYS_PER_PLACE;
      if (may_split && !double_directory(slots)) return NULL;
    }
    if (!(may_split ? split_segment(slots, tag) : grow_segment(slots, tag))) return NULL;
  }
}

/* ---- Public */

void kv_slots_init(struct kv_slots *slots) {
  *slots = (struct kv_slots){0};
}

void kv_slots_release(struct kv_slots *slots) {
  size_t places = slots->directory ? (size_t)1 << slots->depth : 0;
  for (size_t i = 0; i < places;) {
    struct kv_slots_segment segment = slots->directory[i];
    i += (size_t)1 << (slots->depth - segment.depth);
    segment_free(slots, &segment);
  }
  kv_free(slots->directory);
  kv_slots_init(slots);
}

/* Four tags at a time. */
typedef uint32_t lanes __attribute__((vector_size(16)));
_Static_assert(KV_SLOTS_PER_BUCKET == 2 * sizeof(lanes) / sizeof(uint32_t),
               "a bucket is two lanes");

/* Bits of the slots with a tag; empty ones may be among them. */
static unsigned match(const struct kv_slots_bucket *bucket, uint32_t tag) {
  const lanes wanted = {tag, tag, tag, tag};
  const lanes first_bits = {1, 2, 4, 8}, last_bits = {16, 32, 64, 128};
  lanes first, last;
  memcpy(&first, bucket->tags, sizeof first);
  memcpy(&last, bucket->tags + KV_SLOTS_PER_BUCKET / 2, sizeof last);
  lanes hits = ((lanes)(first == wanted) & first_bits) | ((lanes)(last == wanted) & last_bits);
  return hits[0] | hits[1] | hits[2] | hits[3];
}

uint32_t *kv_slots_next(struct kv_slots_walk *walk) {
  for (;;) {
    struct kv_slots_bucket *bucket = &walk->segment.buckets[walk->bucket];
    while (walk->hits) {
      unsigned slot = (unsigned)__builtin_ctz(walk->hits);
      walk->hits &= walk->hits - 1;
      if (bucket->places[slot]) return &bucket->places[slot];
    }
    if (!is_full(bucket)) return NULL;
    walk->bucket = after(&walk->segment, walk->bucket);
    walk->hits = match(&walk->segment.buckets[walk->bucket], walk->tag);
  }
}

uint32_t *kv_slots_first(const struct kv_slots *slots, uint32_t tag, struct kv_slots_walk *walk) {
  if (!slots->directory) return NULL;
  walk->segment = *segment_of(slots, tag);
  walk->tag = tag;
  walk->bucket = home(&walk->segment, tag);
  walk->hits = match(&walk->segment.buckets[walk->bucket], tag);
  return kv_slots_next(walk);
}

bool kv_slots_insert(struct kv_slots *slots, uint32_t tag, uint32_t place) {
  slots->moved = 0;
  struct kv_slots_segment *segment = make_directory(slots) ? make_room(slots, tag) : NULL;
  if (!segment) return false;
  segment_insert(segment, tag, place);
  slots->used++;
  return true;
}

void kv_slots_remove(struct kv_slots *slots, const struct kv_slots_walk *walk, uint32_t *slot) {
  const struct kv_slots_bucket *bucket = &walk->segment.buckets[walk->bucket];
  segment_remove(&walk->segment, walk->bucket, (unsigned)(slot - bucket->places));
  counting(slots, walk->tag)->used--;
  slots->used--;
}

void kv_slots_prefetch(const struct kv_slots *slots, uint32_t tag) {
  if (!slots->directory) return;
  const struct kv_slots_segment *segment = segment_of(slots, tag);
  kv_prefetch(&segment->buckets[home(segment, tag)]);
}
