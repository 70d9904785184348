/* See batch.h.
**
** Every put and delete is an entry (entries.h); an overwrite is a new entry whose `older` names the one it
** hides. A rollback gives each key back to the entry that was replaced, or takes it out of the index, and the
** memory too, unless an iterator or a pinned value holds a reference: then the bytes stay until a later
** rollback finds the owner alone, or the last reference goes.
**
** The sorted order is made when asked for and kept up from then on (order.h).
**
** Invariant 6: nothing here reaches shared memory; a batch is one connection's until its commit. */
#include "batch.h"

#include <inttypes.h>

#include "batch_inside.h"
#include "hash.h"
#include "key.h"
#include "mem.h"

kv_status kv_batch_new(struct kv_stats *stats, struct kv_batch **batch, struct kv_err *err) {
  struct kv_batch *made = kv_alloc_zero(1, sizeof *made);
  if (!made) return kv_fail_nomem(err);
  made->refs = 1;
  made->stats = stats;
  kv_entries_init(&made->entries);
  kv_order_init(&made->order, NULL);
  *batch = made;
  return KV_OK;
}

void kv_batch_order_by(struct kv_batch *batch, const struct kv_comparator *comparator) {
  const struct kv_comparator *before = batch->order.by;
  batch->order.by = kv_comparator_ref(comparator);
  kv_comparator_unref(before);
}

struct kv_batch *kv_batch_ref(struct kv_batch *batch) {
  batch->refs++;
  return batch;
}

void kv_batch_unref(struct kv_batch *batch) {
  if (!batch || --batch->refs > 0) return;
  kv_order_release(&batch->order);
  kv_entries_release(&batch->entries);
  kv_uncounted_release(&batch->uncounted);
  kv_comparator_unref(batch->order.by);
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

static kv_status write_entry(struct kv_batch *batch, struct kv_slice key, uint64_t hash,
                             struct kv_slice value, bool deleted, enum kv_entry_before *before,
                             struct kv_err *err) {
  kv_status status = check_sizes(key, value, err);
  if (status) return status;
  status = kv_entries_push(&batch->entries, hash, key, value, deleted, before, err);
  if (status) return status;
  batch->version++;
  count_stat(batch, deleted ? KV_STAT_BATCH_DELETES : KV_STAT_BATCH_PUTS);
  if (*before != KV_ENTRY_NEW) count_stat(batch, KV_STAT_BATCH_OVERWRITES);
  return KV_OK;
}

kv_status kv_batch_put(struct kv_batch *batch, struct kv_slice key, struct kv_slice value,
                       int rows_delta, struct kv_err *err) {
  enum kv_entry_before before;
  kv_status status = write_entry(batch, key, kv_hash_key(key), value, false, &before, err);
  if (!status) batch->rows_delta += rows_delta;
  return status;
}

kv_status kv_batch_delete(struct kv_batch *batch, struct kv_slice key, int rows_delta,
                          struct kv_err *err) {
  enum kv_entry_before before;
  const struct kv_slice none = {NULL, 0};
  kv_status status = write_entry(batch, key, kv_hash_key(key), none, true, &before, err);
  if (!status) batch->rows_delta += rows_delta;
  return status;
}

static bool is_pending(const struct kv_batch *batch, struct kv_slice key, uint64_t hash) {
  return kv_batch_get(batch, key, hash, NULL) != KV_BATCH_NONE;
}

kv_status kv_batch_put_uncounted(struct kv_batch *batch, struct kv_slice key, struct kv_slice value,
                                 struct kv_err *err) {
  enum kv_entry_before before;
  uint64_t hash = kv_hash_key(key);
  kv_status status = kv_uncounted_reserve(&batch->uncounted, err);
  if (status && !is_pending(batch, key, hash)) return status;
  status = write_entry(batch, key, hash, value, false, &before, err);
  if (status) return status;
  if (before == KV_ENTRY_NEW)
    kv_uncounted_push(&batch->uncounted, (struct kv_uncounted_put){hash, batch->entries.newest});
  batch->rows_delta += before == KV_ENTRY_OVER_TOMBSTONE;
  return KV_OK;
}

size_t kv_batch_uncounted(const struct kv_batch *batch) {
  return batch->uncounted.waiting;
}

void kv_batch_uncounted_keys(const struct kv_batch *batch, size_t first, size_t n,
                             struct kv_slice *keys, uint64_t *hashes) {
  for (size_t i = 0; i < n; i++) {
    const struct kv_uncounted_put *put = &batch->uncounted.puts[first + i];
    keys[i] = kv_entries_at(&batch->entries, put->place).key;
    hashes[i] = put->hash;
  }
}

kv_status kv_batch_count_rows(struct kv_batch *batch, const bool *found, struct kv_err *err) {
  return kv_uncounted_settle(&batch->uncounted, found, err);
}

enum kv_batch_answer kv_batch_get(const struct kv_batch *batch, struct kv_slice key, uint64_t hash,
                                  struct kv_slice *value) {
  struct kv_entry entry;
  uint32_t place = kv_entries_find(&batch->entries, key, kv_entry_tag(hash), &entry);
  if (place == KV_PLACE_NONE) return KV_BATCH_NONE;
  if (value) *value = entry.value;
  return entry.deleted ? KV_BATCH_DELETED : KV_BATCH_PUT;
}

void kv_batch_get_many(const struct kv_batch *batch, const struct kv_slice *keys,
                       const uint64_t *hashes, size_t count, enum kv_batch_answer *answers,
                       struct kv_slice *values) {
  uint32_t places[KV_ENTRIES_GROUP];
  struct kv_entry found[KV_ENTRIES_GROUP];
  kv_entries_find_many(&batch->entries, keys, hashes, count, places, found);
  for (size_t i = 0; i < count; i++) {
    answers[i] = KV_BATCH_NONE;
    if (places[i] == KV_PLACE_NONE) continue;
    answers[i] = found[i].deleted ? KV_BATCH_DELETED : KV_BATCH_PUT;
    values[i] = found[i].value;
  }
}

struct kv_batch_mark kv_batch_mark(const struct kv_batch *batch) {
  return (struct kv_batch_mark){kv_entries_mark(&batch->entries), batch->rows_delta,
                                kv_uncounted_count(&batch->uncounted)};
}

void kv_batch_rollback(struct kv_batch *batch, struct kv_batch_mark mark) {
  if (mark.entries.place >= batch->entries.places.end) return;
  bool changes = batch->entries.count > mark.entries.count;
  kv_order_cut(&batch->order, mark.entries.place);
  kv_entries_rollback(&batch->entries, mark.entries, batch->refs > 1);
  if (!changes) return;
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
  return sizeof *batch + kv_entries_bytes(&batch->entries) + kv_order_bytes(&batch->order) +
         kv_uncounted_bytes(&batch->uncounted);
}

size_t kv_batch_data_bytes(const struct kv_batch *batch) {
  return batch->entries.places.bytes;
}

uint64_t kv_batch_version(const struct kv_batch *batch) {
  return batch->version;
}

/* ---- Iterator */

struct batch_iter {
  struct kv_order_iter head;
  struct kv_batch *batch; /* keeps the arena */
  struct kv_digest *shown;
};

static bool count_shown(const struct kv_order_iter *iter, uint32_t place, struct kv_entry *entry) {
  const struct batch_iter *self = (const struct batch_iter *)iter;
  (void)place;
  kv_digest_add(self->shown, entry->key, entry->value, entry->deleted);
  return true;
}

static void batch_iter_drop(struct kv_order_iter *iter) {
  struct batch_iter *self = (struct batch_iter *)iter;
  kv_batch_unref(self->batch);
  kv_free(self);
}

/* Over all entries of now in the order's order. */
static kv_status open_iter(struct kv_batch *batch, struct kv_order *order, struct kv_digest *shown,
                           struct kv_iter **iter, struct kv_err *err) {
  kv_status status = kv_order_extend(order, &batch->entries, err);
  if (status) return status;
  struct batch_iter *made = kv_alloc(1, sizeof *made);
  if (!made) return kv_fail_nomem(err);
  kv_order_iter_init(&made->head, order, &batch->entries, shown ? count_shown : NULL,
                     batch_iter_drop);
  made->batch = kv_batch_ref(batch);
  made->shown = shown;
  *iter = &made->head.iter;
  return KV_OK;
}

kv_status kv_batch_iter(struct kv_batch *batch, struct kv_iter **iter, struct kv_err *err) {
  return open_iter(batch, &batch->order, NULL, iter, err);
}

kv_status kv_batch_iter_counted(struct kv_batch *batch, struct kv_digest *shown,
                                struct kv_iter **iter, struct kv_err *err) {
  return open_iter(batch, &batch->order, shown, iter, err);
}

kv_status kv_batch_iter_bytewise(struct kv_batch *batch, struct kv_iter **iter,
                                 struct kv_err *err) {
  if (!batch->order.by) return kv_batch_iter(batch, iter, err);
  struct kv_order plain;
  kv_order_init(&plain, NULL);
  kv_status status = open_iter(batch, &plain, NULL, iter, err);
  kv_order_release(&plain);
  return status;
}
