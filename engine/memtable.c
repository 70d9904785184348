/* See memtable.h.
**
** An entry is a version of a key: its commit seq, then a kv_entry whose `older` leads to the version
** before it. Versions are only ever added, in ascending seq, and nothing that was added changes, so a
** value or a chain can be read without the lock once found; the lock guards the index, the arena and
** the cached order. A reader walks from the newest version down to its window.
**
** Adding a log batch: the bytes are checked first, then all entries are pushed under the lock; when
** memory gives out they are popped again before the lock opens. */
#include "memtable.h"

#include <inttypes.h>

#include "entries.h"
#include "env.h"
#include "hash.h"
#include "mem.h"
#include "order.h"

struct version {
  uint64_t seq;
  struct kv_entry entry; /* followed by its bytes */
};

struct kv_memtable {
  int64_t refs; /* atomic */
  uint64_t gen;
  struct kv_mutex *mutex; /* guards all that follows */
  struct kv_arena arena;
  struct kv_entries entries;
  struct kv_order *order; /* of all entries when it was made, or NULL */
  uint64_t first_seq;
  uint64_t last_seq;
};

kv_status kv_memtable_new(uint64_t gen, const struct kv_comparator *comparator,
                          struct kv_memtable **table, struct kv_err *err) {
  struct kv_memtable *made = kv_alloc_zero(1, sizeof *made);
  if (!made) return kv_fail_nomem(err);
  kv_status status = kv_mutex_new(&made->mutex, err);
  if (status) {
    kv_free(made);
    return status;
  }
  made->refs = 1;
  made->gen = gen;
  kv_arena_init(&made->arena);
  kv_entries_init(&made->entries);
  made->entries.comparator = comparator;
  *table = made;
  return KV_OK;
}

struct kv_memtable *kv_memtable_ref(struct kv_memtable *table) {
  __atomic_add_fetch(&table->refs, 1, __ATOMIC_RELAXED);
  return table;
}

void kv_memtable_unref(struct kv_memtable *table) {
  if (!table || __atomic_sub_fetch(&table->refs, 1, __ATOMIC_ACQ_REL) > 0) return;
  kv_order_unref(table->order);
  kv_entries_release(&table->entries);
  kv_arena_release(&table->arena);
  kv_mutex_free(table->mutex);
  kv_free(table);
}

/* ---- Adding; all under the lock */

static kv_status add_version(struct kv_memtable *table, uint64_t seq,
                             const struct kv_batch_reader *from, struct kv_err *err) {
  size_t bytes = offsetof(struct version, entry) + kv_entry_bytes(from->key, from->value);
  struct version *version = kv_arena_alloc(&table->arena, bytes);
  if (!version) return kv_fail_nomem(err);
  version->seq = seq;
  kv_entry_fill(&version->entry, kv_hash_key(from->key), from->key, from->value, from->deleted);
  return kv_entries_push(&table->entries, &version->entry, err);
}

static kv_status add_all(struct kv_memtable *table, uint64_t seq, struct kv_batch_reader *reader,
                         struct kv_err *err) {
  if (seq <= table->last_seq) {
    return kv_fail(err, KV_MISUSE, "memtable %" PRIu64 ": commit %" PRIu64 " after commit %" PRIu64,
                   table->gen, seq, table->last_seq);
  }
  struct kv_arena_mark mark = kv_arena_mark(&table->arena);
  uint32_t count = table->entries.count;
  kv_status status = KV_OK;
  while (!status && kv_batch_reader_next(reader, &status, err)) {
    status = add_version(table, seq, reader, err);
  }
  if (status) {
    while (table->entries.count > count) kv_entries_pop(&table->entries);
    kv_arena_rewind(&table->arena, mark);
    return status;
  }
  if (!table->first_seq) table->first_seq = seq;
  table->last_seq = seq;
  return KV_OK;
}

kv_status kv_memtable_add(struct kv_memtable *table, uint64_t seq, struct kv_slice encoded,
                          const uint8_t uuid[16], struct kv_err *err) {
  struct kv_batch_reader reader;
  kv_status status = kv_batch_reader_init(&reader, encoded, uuid, seq, err);
  if (status) return status;
  kv_mutex_lock(table->mutex);
  status = add_all(table, seq, &reader, err);
  kv_mutex_unlock(table->mutex);
  return status;
}

/* ---- Reading */

static const struct version *version_of(const struct kv_entry *entry) {
  return (const struct version *)((const uint8_t *)entry - offsetof(struct version, entry));
}

/* The newest version in the window, or NULL. Needs no lock: see the head comment. */
static const struct kv_entry *in_window(const struct kv_entries *entries, struct kv_window window,
                                        const struct kv_entry *newest) {
  while (version_of(newest)->seq > window.upper_seq) {
    if (newest->older == KV_NO_POSITION) return NULL;
    newest = kv_entries_at(entries, newest->older);
  }
  return version_of(newest)->seq > window.flushed_seq ? newest : NULL;
}

static const struct kv_entry *find_newest(struct kv_memtable *table, struct kv_slice key,
                                          uint64_t hash) {
  kv_mutex_lock(table->mutex);
  uint32_t position = kv_entries_find(&table->entries, key, kv_entry_tag(hash));
  const struct kv_entry *entry = NULL;
  if (position != KV_NO_POSITION) entry = kv_entries_at(&table->entries, position);
  kv_mutex_unlock(table->mutex);
  return entry;
}

enum kv_batch_answer kv_memtable_get(struct kv_memtable *table, struct kv_window window,
                                     struct kv_slice key, uint64_t hash, struct kv_slice *value) {
  const struct kv_entry *entry = find_newest(table, key, hash);
  if (entry) entry = in_window(&table->entries, window, entry);
  if (!entry) return KV_BATCH_NONE;
  if (value) *value = kv_entry_value(entry);
  return entry->deleted ? KV_BATCH_DELETED : KV_BATCH_PUT;
}

struct memtable_iter {
  struct kv_order_iter head;
  struct kv_memtable *table;
  struct kv_window window;
};

static const struct kv_entry *window_visible(const struct kv_order_iter *iter,
                                             const struct kv_entry *newest) {
  const struct memtable_iter *self = (const struct memtable_iter *)iter;
  return in_window(&self->table->entries, self->window, newest);
}

static void memtable_iter_drop(struct kv_order_iter *iter) {
  struct memtable_iter *self = (struct memtable_iter *)iter;
  kv_memtable_unref(self->table);
  kv_free(self);
}

/* The order of all entries of now, with a reference for the caller. */
static kv_status current_order(struct kv_memtable *table, struct kv_order **order,
                               struct kv_err *err) {
  kv_mutex_lock(table->mutex);
  kv_status status = kv_order_new(&table->entries, table->order, order, err);
  if (!status && *order != table->order) {
    kv_order_unref(table->order);
    table->order = kv_order_ref(*order);
  }
  kv_mutex_unlock(table->mutex);
  return status;
}

kv_status kv_memtable_iter(struct kv_memtable *table, struct kv_window window,
                           struct kv_iter **iter, struct kv_err *err) {
  struct memtable_iter *made = kv_alloc(1, sizeof *made);
  if (!made) return kv_fail_nomem(err);
  struct kv_order *order;
  kv_status status = current_order(table, &order, err);
  if (status) {
    kv_free(made);
    return status;
  }
  kv_order_iter_init(&made->head, order, window_visible, memtable_iter_drop);
  made->table = kv_memtable_ref(table);
  made->window = window;
  *iter = &made->head.iter;
  return KV_OK;
}

uint64_t kv_memtable_gen(const struct kv_memtable *table) {
  return table->gen;
}

static uint64_t read_locked(struct kv_memtable *table, const uint64_t *number) {
  kv_mutex_lock(table->mutex);
  uint64_t value = *number;
  kv_mutex_unlock(table->mutex);
  return value;
}

uint64_t kv_memtable_first_seq(struct kv_memtable *table) {
  return read_locked(table, &table->first_seq);
}

uint64_t kv_memtable_last_seq(struct kv_memtable *table) {
  return read_locked(table, &table->last_seq);
}

size_t kv_memtable_bytes(struct kv_memtable *table) {
  kv_mutex_lock(table->mutex);
  size_t bytes = sizeof *table + table->arena.bytes + table->entries.bytes;
  bytes += kv_order_bytes(table->order);
  kv_mutex_unlock(table->mutex);
  return bytes;
}
