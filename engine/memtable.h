/* One memtable generation: log batches applied to an arena, with a hash index for points and a lazily
** sorted order for scans. Entries belong to a commit's seq; a key's versions hang newest first, and a reader
** sees the newest with flushed < seq <= upper.
** Thread rule: any thread; one internal lock, held for the call. Entries never move and live as long as
** the memtable. */
#ifndef KV_MEMTABLE_H
#define KV_MEMTABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "batch.h"
#include "buf.h"
#include "compare.h"
#include "digest.h"
#include "iter.h"
#include "status.h"

struct kv_memtable;

/* The part of the log that a view sees: flushed < seq <= upper. */
struct kv_window {
  uint64_t flushed_seq;
  uint64_t upper_seq;
};

/* The comparator is borrowed. */
kv_status kv_memtable_new(uint64_t gen, const struct kv_comparator *comparator,
                          struct kv_memtable **table, struct kv_err *err);
struct kv_memtable *kv_memtable_ref(struct kv_memtable *table);
void kv_memtable_unref(struct kv_memtable *table);

/* Applies one encoded log batch (checked here; its checksum only with an uuid). All or nothing: on any
** failure no reader ever sees part of it. seq must be above every seq added before, else KV_MISUSE. *bytes
** (may be NULL) are the batch's when its values are not compressed. */
kv_status kv_memtable_add(struct kv_memtable *table, uint64_t seq, struct kv_slice encoded,
                          const uint8_t uuid[16], size_t *bytes, struct kv_err *err);
/* The same of a batch that is still at hand, which is only read; *bytes of its entries. */
kv_status kv_memtable_add_batch(struct kv_memtable *table, uint64_t seq, struct kv_batch *batch,
                                size_t *bytes, struct kv_err *err);

/* As kv_batch_get; *value (may be NULL) is borrowed as long as the memtable lives. */
enum kv_batch_answer kv_memtable_get(struct kv_memtable *table, struct kv_window window,
                                     struct kv_slice key, uint64_t hash, struct kv_slice *value);
/* The same of up to KV_ENTRIES_GROUP keys, their loads overlapping, under one lock. */
void kv_memtable_get_many(struct kv_memtable *table, struct kv_window window,
                          const struct kv_slice *keys, const uint64_t *hashes, size_t count,
                          enum kv_batch_answer *answers, struct kv_slice *values);
/* Over one entry a key: the newest in the window. Fixed when opened. Holds a reference. */
kv_status kv_memtable_iter(struct kv_memtable *table, struct kv_window window,
                           struct kv_iter **iter, struct kv_err *err);
/* The same; the versions in the window that are older than one that it shows are added to *passed, which must
** outlive it. */
kv_status kv_memtable_iter_counted(struct kv_memtable *table, struct kv_window window,
                                   struct kv_digest *passed, struct kv_iter **iter,
                                   struct kv_err *err);
/* All versions in the window, summed up as they came. */
struct kv_digest kv_memtable_digest(struct kv_memtable *table, struct kv_window window);

uint64_t kv_memtable_gen(const struct kv_memtable *table);
uint64_t kv_memtable_first_seq(struct kv_memtable *table); /* 0 while empty */
uint64_t kv_memtable_last_seq(struct kv_memtable *table);
size_t kv_memtable_bytes(struct kv_memtable *table); /* memory held */

#endif
