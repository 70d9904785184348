/* A hash index from the tags of keys to the places of their entries. Knows no keys: the owner compares them,
** and puts in one place a key. Moves a few hundred slots at most when something is put in.
** Thread rule: the owner locks. */
#ifndef KV_SLOTS_H
#define KV_SLOTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KV_SLOTS_PER_BUCKET 8u

/* One cache line. Filled from the front; a place of 0 is empty. */
struct kv_slots_bucket {
  uint32_t tags[KV_SLOTS_PER_BUCKET];
  uint32_t places[KV_SLOTS_PER_BUCKET];
};

/* Here and not behind a pointer, so that a look-up loads nothing else before its bucket. */
struct kv_slots_segment {
  struct kv_slots_bucket *buckets; /* aligned to a cache line */
  uint32_t size : 27;              /* buckets */
  uint32_t depth : 5;              /* high tag bits that all its tags share */
  uint32_t used;                   /* slots; kept in the first of the directory's copies only */
};

struct kv_slots {
  struct kv_slots_segment *directory; /* NULL while empty */
  uint32_t depth;                     /* the directory has 2^depth segments, some of them equal */
  uint32_t used;                      /* slots of all */
  size_t bytes;                       /* heap memory */
  size_t moved;                       /* for tests: slots moved by the last insertion */
};

/* A walk over the slots with a tag. */
struct kv_slots_walk {
  struct kv_slots_segment segment;
  uint32_t bucket;
  uint32_t tag;
  unsigned hits; /* bits of slots of the bucket with the tag, still to come */
};

void kv_slots_init(struct kv_slots *slots);
void kv_slots_release(struct kv_slots *slots);
/* The first and the next place under a tag, for the owner to compare and to change; NULL when there is none.
** Good until something is inserted or removed. */
uint32_t *kv_slots_first(const struct kv_slots *slots, uint32_t tag, struct kv_slots_walk *walk);
uint32_t *kv_slots_next(struct kv_slots_walk *walk);
/* False when memory is out: nothing changed. The place is not 0. */
bool kv_slots_insert(struct kv_slots *slots, uint32_t tag, uint32_t place);
/* Takes out the slot that a walk has just given. */
void kv_slots_remove(struct kv_slots *slots, const struct kv_slots_walk *walk, uint32_t *slot);
/* Asks for the line where a walk begins. */
void kv_slots_prefetch(const struct kv_slots *slots, uint32_t tag);

#endif
