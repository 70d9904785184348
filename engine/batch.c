/* See batch.h.
**
** Every put and delete is an entry in the arena with a position (entries.h); an overwrite is a new
** entry whose `older` names the one it hides. So the list of positions *is* the undo log: a mark is a
** position, a rollback pops positions down to it, and each pop gives the key back to the entry that
** was replaced, or takes the key out of the index. The arena is rewound too, unless an iterator or a
** pinned value holds a reference: then its bytes stay until a later rollback finds the owner alone, or
** the last reference goes.
**
** Order: made when asked for, and extended from the last order made. A rollback below an order's end
** drops it, so a second one is kept that trails the newest by up to an eighth: scans inside a
** savepoint that is rolled back again and again then cost a merge, not a sort of everything.
**
** Invariant 6: nothing here reaches shared memory; a batch is one connection's until its commit. */
#include "batch.h"

#include <assert.h>
#include <inttypes.h>

#include "batch_inside.h"
#include "hash.h"
#include "key.h"

#define BASE_TRAILS 8u /* base_order moves up when it is 1/8 behind */

kv_status kv_batch_new(struct kv_stats *stats, struct kv_batch **batch, struct kv_err *err) {
  struct kv_batch *made = kv_alloc_zero(1, sizeof *made);
  if (!made) return kv_fail_nomem(err);
  made->refs = 1;
  made->stats = stats;
  kv_arena_init(&made->arena);
  kv_entries_init(&made->entries);
  kv_uncounted_init(&made->uncounted);
  *batch = made;
  return KV_OK;
}

void kv_batch_order_by(struct kv_batch *batch, const struct kv_comparator *comparator) {
  const struct kv_comparator *before = batch->entries.comparator;
  batch->entries.comparator = kv_comparator_ref(comparator);
  kv_comparator_unref(before);
}

struct kv_batch *kv_batch_ref(struct kv_batch *batch) {
  batch->refs++;
  return batch;
}

void kv_batch_unref(struct kv_batch *batch) {
  if (!batch || --batch->refs > 0) return;
  kv_order_unref(batch->order);
  kv_order_unref(batch->base_order);
  kv_entries_release(&batch->entries);
  kv_uncounted_release(&batch->uncounted);
  kv_comparator_unref(batch->entries.comparator);
  kv_arena_release(&batch->arena);
  kv_free(batch);
}

static void count_stat(const struct kv_batch *batch, enum kv_stat stat) {
  if (batch->stats) kv_stats_add(batch->stats, stat, 1);
}

static kv_status check_sizes(struct kv_slice key, struct kv_slice value, struct kv_err *err) {
  if (key.size > KV_KEY_BYTES_MAX) {
    return kv_fail(err, KV_MISUSE, "a key of %zu bytes; the most is %d", key.size,
                   KV_KEY_BYTES_MAX);
  }
  if (value.size > KV_ENTRY_VALUE_MAX) {
    return kv_fail(err, KV_MISUSE, "a value of %zu bytes; the most is %" PRIu32, value.size,
                   KV_ENTRY_VALUE_MAX);
  }
  return KV_OK;
}

static kv_status write_entry(struct kv_batch *batch, struct kv_slice key, struct kv_slice value,
                             bool deleted, int rows_delta, struct kv_err *err) {
  kv_status status = check_sizes(key, value, err);
  if (status) return status;
  struct kv_arena_mark mark = kv_arena_mark(&batch->arena);
  struct kv_entry *entry = kv_arena_alloc(&batch->arena, kv_entry_bytes(key, value));
  if (!entry) return kv_fail_nomem(err);
  kv_entry_fill(entry, kv_hash_key(key), key, value, deleted);
  status = kv_entries_push(&batch->entries, entry, err);
  if (status) {
    kv_arena_rewind(&batch->arena, mark);
    return status;
  }
  batch->rows_delta += rows_delta;
  batch->version++;
  count_stat(batch, deleted ? KV_STAT_BATCH_DELETES : KV_STAT_BATCH_PUTS);
  if (entry->older != KV_NO_POSITION) count_stat(batch, KV_STAT_BATCH_OVERWRITES);
  return KV_OK;
}

kv_status kv_batch_put(struct kv_batch *batch, struct kv_slice key, struct kv_slice value,
                       int rows_delta, struct kv_err *err) {
  return write_entry(batch, key, value, false, rows_delta, err);
}

kv_status kv_batch_delete(struct kv_batch *batch, struct kv_slice key, int rows_delta,
                          struct kv_err *err) {
  return write_entry(batch, key, (struct kv_slice){NULL, 0}, true, rows_delta, err);
}

kv_status kv_batch_put_uncounted(struct kv_batch *batch, struct kv_slice key, struct kv_slice value,
                                 struct kv_err *err) {
  enum kv_batch_answer pending = kv_batch_get(batch, key, kv_hash_key(key), NULL);
  if (pending != KV_BATCH_NONE)
    return kv_batch_put(batch, key, value, pending == KV_BATCH_DELETED, err);
  kv_status status = kv_uncounted_reserve(&batch->uncounted, key.size, err);
  if (!status) status = kv_batch_put(batch, key, value, 0, err);
  if (!status) kv_uncounted_push(&batch->uncounted, key);
  return status;
}

size_t kv_batch_uncounted(const struct kv_batch *batch) {
  return kv_uncounted_waiting(&batch->uncounted);
}

void kv_batch_uncounted_keys(const struct kv_batch *batch, struct kv_slice *keys) {
  kv_uncounted_keys(&batch->uncounted, keys);
}

void kv_batch_count_rows(struct kv_batch *batch, const bool *found) {
  kv_uncounted_settle(&batch->uncounted, found);
}

enum kv_batch_answer kv_batch_get(const struct kv_batch *batch, struct kv_slice key, uint64_t hash,
                                  struct kv_slice *value) {
  uint32_t position = kv_entries_find(&batch->entries, key, kv_entry_tag(hash));
  if (position == KV_NO_POSITION) return KV_BATCH_NONE;
  const struct kv_entry *entry = kv_entries_at(&batch->entries, position);
  if (value) *value = kv_entry_value(entry);
  return entry->deleted ? KV_BATCH_DELETED : KV_BATCH_PUT;
}

struct kv_batch_mark kv_batch_mark(const struct kv_batch *batch) {
  return (struct kv_batch_mark){batch->entries.count, batch->rows_delta,
                                kv_uncounted_count(&batch->uncounted),
                                kv_arena_mark(&batch->arena)};
}

static void drop_order_above(struct kv_order **order, size_t upto) {
  if (!*order || (*order)->upto <= upto) return;
  kv_order_unref(*order);
  *order = NULL;
}

void kv_batch_rollback(struct kv_batch *batch, struct kv_batch_mark mark) {
  assert(mark.undo <= batch->entries.count);
  if (mark.undo >= batch->entries.count) return;
  while (batch->entries.count > mark.undo) kv_entries_pop(&batch->entries);
  if (!mark.undo) kv_entries_release(&batch->entries);
  drop_order_above(&batch->order, mark.undo);
  drop_order_above(&batch->base_order, mark.undo);
  if (batch->refs == 1) kv_arena_rewind(&batch->arena, mark.arena);
  batch->rows_delta = mark.rows_delta;
  kv_uncounted_truncate(&batch->uncounted, mark.uncounted);
  batch->version++;
  count_stat(batch, KV_STAT_BATCH_ROLLBACKS);
}

size_t kv_batch_count(const struct kv_batch *batch) {
  return batch->entries.live;
}

int64_t kv_batch_rows_delta(const struct kv_batch *batch) {
  return batch->rows_delta + batch->uncounted.rows;
}

size_t kv_batch_bytes(const struct kv_batch *batch) {
  size_t orders = kv_order_bytes(batch->order);
  if (batch->base_order != batch->order) orders += kv_order_bytes(batch->base_order);
  return sizeof *batch + batch->arena.bytes + batch->entries.bytes + orders +
         kv_uncounted_bytes(&batch->uncounted);
}

size_t kv_batch_data_bytes(const struct kv_batch *batch) {
  return batch->arena.bytes;
}

uint64_t kv_batch_version(const struct kv_batch *batch) {
  return batch->version;
}

kv_status kv_batch_order(struct kv_batch *batch, const struct kv_order **order,
                         struct kv_err *err) {
  struct kv_order *from = batch->order ? batch->order : batch->base_order;
  struct kv_order *made;
  kv_status status = kv_order_new(&batch->entries, from, &made, err);
  if (status) return status;
  struct kv_order *base = batch->base_order;
  if (!base || made->upto - base->upto > base->upto / BASE_TRAILS) {
    kv_order_unref(base);
    batch->base_order = kv_order_ref(made);
  }
  kv_order_unref(batch->order);
  batch->order = made;
  *order = made;
  return KV_OK;
}

/* ---- Iterator */

struct batch_iter {
  struct kv_order_iter head;
  struct kv_batch *batch; /* keeps the arena */
};

static const struct kv_entry *all_visible(const struct kv_order_iter *iter,
                                          const struct kv_entry *newest) {
  (void)iter;
  return newest;
}

static void batch_iter_drop(struct kv_order_iter *iter) {
  struct batch_iter *self = (struct batch_iter *)iter;
  kv_batch_unref(self->batch);
  kv_free(self);
}

kv_status kv_batch_iter(struct kv_batch *batch, struct kv_iter **iter, struct kv_err *err) {
  const struct kv_order *order;
  kv_status status = kv_batch_order(batch, &order, err);
  if (status) return status;
  struct batch_iter *made = kv_alloc(1, sizeof *made);
  if (!made) return kv_fail_nomem(err);
  kv_order_iter_init(&made->head, kv_order_ref(batch->order), all_visible, batch_iter_drop);
  made->batch = kv_batch_ref(batch);
  *iter = &made->head.iter;
  return KV_OK;
}
