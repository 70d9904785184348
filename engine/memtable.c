/* See memtable.h.
**
** An entry is a version of a key; its `older` leads to the version before it. Commits come in ascending seq,
** and places ascend too: so where each commit ends says which versions are its own, and a window of seqs is a
** window of places. Versions are only ever added and nothing that was added changes, so a value or a chain
** can be read without the lock once found; the lock guards the index, the ends of commits and the sorted
** order. A reader walks from the newest version down to its window.
**
** Adding a log batch: the bytes are checked first, then all entries are pushed under the lock; when memory
** gives out they are rolled back before the lock opens.
**
** Sorting has a lock of its own, and works on the entries as they were when it began, so that reads
** and commits go on beside it. Lock order: ordering, then mutex. */
#include "memtable.h"

#include <inttypes.h>

#include "batch_inside.h"
#include "entries.h"
#include "env.h"
#include "hash.h"
#include "mem.h"
#include "order.h"

struct commit {
  uint64_t seq;
  uint32_t end;          /* the place behind its last entry */
  struct kv_digest upto; /* of all entries below that */
};

struct kv_memtable {
  int64_t refs; /* atomic */
  uint64_t gen;
  struct kv_mutex *mutex; /* guards all that follows but for the order */
  struct kv_entries entries;
  struct commit *commits; /* ascending */
  size_t commit_count;
  size_t commit_room;
  size_t order_bytes;
  struct kv_mutex *ordering; /* guards: */
  struct kv_order order;     /* as far as something has asked for it */
};

kv_status kv_memtable_new(uint64_t gen, const struct kv_comparator *comparator,
                          struct kv_memtable **table, struct kv_err *err) {
  struct kv_memtable *made = kv_alloc_zero(1, sizeof *made);
  if (!made) return kv_fail_nomem(err);
  kv_status status = kv_mutex_new(&made->mutex, err);
  if (!status) status = kv_mutex_new(&made->ordering, err);
  if (status) {
    kv_mutex_free(made->mutex);
    kv_free(made);
    return status;
  }
  made->refs = 1;
  made->gen = gen;
  kv_entries_init(&made->entries);
  kv_order_init(&made->order, comparator);
  *table = made;
  return KV_OK;
}

struct kv_memtable *kv_memtable_ref(struct kv_memtable *table) {
  __atomic_add_fetch(&table->refs, 1, __ATOMIC_RELAXED);
  return table;
}

void kv_memtable_unref(struct kv_memtable *table) {
  if (!table || __atomic_sub_fetch(&table->refs, 1, __ATOMIC_ACQ_REL) > 0) return;
  kv_order_release(&table->order);
  kv_entries_release(&table->entries);
  kv_free(table->commits);
  kv_mutex_free(table->ordering);
  kv_mutex_free(table->mutex);
  kv_free(table);
}

/* ---- Adding; all under the lock */

static uint64_t first_seq(const struct kv_memtable *table) {
  return table->commit_count ? table->commits[0].seq : 0;
}

static uint64_t last_seq(const struct kv_memtable *table) {
  return table->commit_count ? table->commits[table->commit_count - 1].seq : 0;
}

/* Of the first so many commits. */
static struct kv_digest digest_upto(const struct kv_memtable *table, size_t commits) {
  return commits ? table->commits[commits - 1].upto : (struct kv_digest){0, 0};
}

static bool make_room(struct kv_memtable *table) {
  if (table->commit_count < table->commit_room) return true;
  size_t room = table->commit_room ? 2 * table->commit_room : 8;
  struct commit *commits = kv_realloc(table->commits, room, sizeof *commits);
  if (!commits) return false;
  table->commits = commits;
  table->commit_room = room;
  return true;
}

static kv_status begin_commit(struct kv_memtable *table, uint64_t seq, struct kv_err *err) {
  if (seq <= last_seq(table)) {
    return kv_fail(err, KV_MISUSE, "memtable %" PRIu64 ": commit %" PRIu64 " after commit %" PRIu64,
                   table->gen, seq, last_seq(table));
  }
  return make_room(table) ? KV_OK : kv_fail_nomem(err);
}

/* A commit that is being pushed. */
struct pushing {
  uint64_t seq;
  struct kv_entries_mark mark;
  struct kv_digest digest; /* of the table's entries up to here */
};

static struct pushing begin_pushing(const struct kv_memtable *table, uint64_t seq) {
  return (struct pushing){seq, kv_entries_mark(&table->entries),
                          digest_upto(table, table->commit_count)};
}

static kv_status push(struct kv_memtable *table, struct pushing *pushing, struct kv_slice key,
                      struct kv_slice value, bool deleted, struct kv_err *err) {
  enum kv_entry_before before;
  uint64_t hash = kv_hash_key(key);
  kv_digest_add_hashed(&pushing->digest, hash, value, deleted);
  return kv_entries_push(&table->entries, hash, key, value, deleted, &before, err);
}

/* What was pushed is the commit, or nothing. */
static kv_status end_commit(struct kv_memtable *table, const struct pushing *pushing,
                            kv_status status) {
  if (status)
    kv_entries_rollback(&table->entries, pushing->mark, false);
  else
    table->commits[table->commit_count++] =
        (struct commit){pushing->seq, table->entries.places.end, pushing->digest};
  return status;
}

static kv_status add_all(struct kv_memtable *table, uint64_t seq, struct kv_batch_reader *reader,
                         struct kv_err *err) {
  kv_status status = begin_commit(table, seq, err);
  if (status) return status;
  struct pushing pushing = begin_pushing(table, seq);
  while (!status && kv_batch_reader_next(reader, &status, err))
    status = push(table, &pushing, reader->key, reader->value, reader->deleted, err);
  return end_commit(table, &pushing, status);
}

kv_status kv_memtable_add(struct kv_memtable *table, uint64_t seq, struct kv_slice encoded,
                          const uint8_t uuid[16], size_t *bytes, struct kv_err *err) {
  struct kv_batch_reader reader;
  kv_status status = kv_batch_reader_init(&reader, encoded, uuid, seq, err);
  if (status) return status;
  if (bytes) *bytes = reader.bytes;
  kv_mutex_lock(table->mutex);
  status = add_all(table, seq, &reader, err);
  kv_mutex_unlock(table->mutex);
  kv_batch_reader_release(&reader);
  return status;
}

static kv_status add_shown(struct kv_memtable *table, uint64_t seq, struct kv_iter *iter,
                           size_t *bytes, struct kv_err *err) {
  kv_status status = begin_commit(table, seq, err);
  if (status) return status;
  struct pushing pushing = begin_pushing(table, seq);
  for (kv_iter_seek_first(iter); !status && iter->valid; kv_iter_next(iter)) {
    *bytes += kv_batch_entry_bytes(iter->key, iter->value);
    status = push(table, &pushing, iter->key, iter->value, iter->deleted, err);
  }
  return end_commit(table, &pushing, status);
}

/* In the order that the log row has: then sorting the table has less to do. */
kv_status kv_memtable_add_batch(struct kv_memtable *table, uint64_t seq, struct kv_batch *batch,
                                size_t *bytes, struct kv_err *err) {
  struct kv_iter *iter;
  *bytes = 0;
  kv_status status = kv_batch_iter_bytewise(batch, &iter, err);
  if (status) return status;
  kv_mutex_lock(table->mutex);
  status = add_shown(table, seq, iter, bytes, err);
  kv_mutex_unlock(table->mutex);
  kv_iter_free(iter);
  return status;
}

/* ---- Reading */

/* The versions that a window of seqs shows: from <= place < upto. */
struct stretch {
  uint32_t from;
  uint32_t upto;
};

/* How many commits have a seq of at most `seq`. Under the lock. */
static size_t commits_upto(const struct kv_memtable *table, uint64_t seq) {
  size_t low = 0, high = table->commit_count;
  if (seq >= last_seq(table)) return high;
  if (seq < first_seq(table)) high = 0;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (table->commits[middle].seq <= seq)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/* The place behind the last commit whose seq is at most `seq`. Under the lock. */
static uint32_t end_of(const struct kv_memtable *table, uint64_t seq) {
  size_t commits = commits_upto(table, seq);
  return commits ? table->commits[commits - 1].end : KV_PLACE_FIRST;
}

static struct stretch stretch_of(const struct kv_memtable *table, struct kv_window window) {
  return (struct stretch){end_of(table, window.flushed_seq), end_of(table, window.upper_seq)};
}

/* Goes from the newest version to the one that the stretch shows; false when there is none. Needs no lock:
** see the head comment. */
static bool in_stretch(const struct kv_entries *entries, struct stretch stretch, uint32_t place,
                       struct kv_entry *entry) {
  while (place >= stretch.upto) {
    place = entry->older;
    if (place == KV_PLACE_NONE) return false;
    *entry = kv_entries_at(entries, place);
  }
  return place >= stretch.from;
}

enum kv_batch_answer kv_memtable_get(struct kv_memtable *table, struct kv_window window,
                                     struct kv_slice key, uint64_t hash, struct kv_slice *value) {
  struct kv_entry entry;
  kv_mutex_lock(table->mutex);
  uint32_t place = kv_entries_find(&table->entries, key, kv_entry_tag(hash), &entry);
  struct stretch stretch = stretch_of(table, window);
  kv_mutex_unlock(table->mutex);
  if (place == KV_PLACE_NONE) return KV_BATCH_NONE;
  if (!in_stretch(&table->entries, stretch, place, &entry)) return KV_BATCH_NONE;
  if (value) *value = entry.value;
  return entry.deleted ? KV_BATCH_DELETED : KV_BATCH_PUT;
}

void kv_memtable_get_many(struct kv_memtable *table, struct kv_window window,
                          const struct kv_slice *keys, const uint64_t *hashes, size_t count,
                          enum kv_batch_answer *answers, struct kv_slice *values) {
  uint32_t places[KV_ENTRIES_GROUP];
  struct kv_entry found[KV_ENTRIES_GROUP];
  kv_mutex_lock(table->mutex);
  kv_entries_find_many(&table->entries, keys, hashes, count, places, found);
  struct stretch stretch = stretch_of(table, window);
  kv_mutex_unlock(table->mutex);
  for (size_t i = 0; i < count; i++) {
    answers[i] = KV_BATCH_NONE;
    if (places[i] == KV_PLACE_NONE) continue;
    if (!in_stretch(&table->entries, stretch, places[i], &found[i])) continue;
    answers[i] = found[i].deleted ? KV_BATCH_DELETED : KV_BATCH_PUT;
    values[i] = found[i].value;
  }
}

struct memtable_iter {
  struct kv_order_iter head;
  struct kv_memtable *table;
  struct stretch stretch;
  struct kv_digest *passed;
};

static bool stretch_visible(const struct kv_order_iter *iter, uint32_t place,
                            struct kv_entry *entry) {
  const struct memtable_iter *self = (const struct memtable_iter *)iter;
  return in_stretch(iter->keys.entries, self->stretch, place, entry);
}

static bool count_passed(const struct kv_order_iter *iter, uint32_t place, struct kv_entry *entry) {
  const struct memtable_iter *self = (const struct memtable_iter *)iter;
  const struct kv_entries *entries = iter->keys.entries;
  if (!in_stretch(entries, self->stretch, place, entry)) return false;
  struct kv_entry version = *entry;
  uint64_t hash = version.older >= self->stretch.from ? kv_hash_key(entry->key) : 0;
  while (version.older >= self->stretch.from) {
    version = kv_entries_at(entries, version.older);
    kv_digest_add_hashed(self->passed, hash, version.value, version.deleted);
  }
  return true;
}

static void memtable_iter_drop(struct kv_order_iter *iter) {
  struct memtable_iter *self = (struct memtable_iter *)iter;
  kv_memtable_unref(self->table);
  kv_free(self);
}

/* Sorts what has come since the last time. Under the lock `ordering`. */
static kv_status sort(struct kv_memtable *table, struct kv_entries entries, struct kv_err *err) {
  kv_status status = kv_order_extend(&table->order, &entries, err);
  size_t bytes = kv_order_bytes(&table->order);
  kv_mutex_lock(table->mutex);
  table->order_bytes = bytes;
  kv_mutex_unlock(table->mutex);
  return status;
}

/* Covers all entries of now. Under the lock `ordering`. */
static kv_status cover(struct kv_memtable *table, struct kv_window window, struct stretch *stretch,
                       struct kv_err *err) {
  struct kv_entries entries;
  kv_mutex_lock(table->mutex);
  *stretch = stretch_of(table, window);
  bool covered = table->order.upto >= table->entries.places.end;
  if (!covered) entries = table->entries;
  kv_mutex_unlock(table->mutex);
  return covered ? KV_OK : sort(table, entries, err);
}

kv_status kv_memtable_iter(struct kv_memtable *table, struct kv_window window,
                           struct kv_iter **iter, struct kv_err *err) {
  return kv_memtable_iter_counted(table, window, NULL, iter, err);
}

kv_status kv_memtable_iter_counted(struct kv_memtable *table, struct kv_window window,
                                   struct kv_digest *passed, struct kv_iter **iter,
                                   struct kv_err *err) {
  struct memtable_iter *made = kv_alloc(1, sizeof *made);
  if (!made) return kv_fail_nomem(err);
  struct stretch stretch;
  kv_mutex_lock(table->ordering);
  kv_status status = cover(table, window, &stretch, err);
  if (!status)
    kv_order_iter_init(&made->head, &table->order, &table->entries,
                       passed ? count_passed : stretch_visible, memtable_iter_drop);
  kv_mutex_unlock(table->ordering);
  if (status) {
    kv_free(made);
    return status;
  }
  made->stretch = stretch;
  made->table = kv_memtable_ref(table);
  made->passed = passed;
  *iter = &made->head.iter;
  return KV_OK;
}

struct kv_digest kv_memtable_digest(struct kv_memtable *table, struct kv_window window) {
  kv_mutex_lock(table->mutex);
  struct kv_digest upto = digest_upto(table, commits_upto(table, window.upper_seq));
  struct kv_digest from = digest_upto(table, commits_upto(table, window.flushed_seq));
  kv_mutex_unlock(table->mutex);
  return kv_digest_without(upto, from);
}

uint64_t kv_memtable_gen(const struct kv_memtable *table) {
  return table->gen;
}

uint64_t kv_memtable_first_seq(struct kv_memtable *table) {
  kv_mutex_lock(table->mutex);
  uint64_t seq = first_seq(table);
  kv_mutex_unlock(table->mutex);
  return seq;
}

uint64_t kv_memtable_last_seq(struct kv_memtable *table) {
  kv_mutex_lock(table->mutex);
  uint64_t seq = last_seq(table);
  kv_mutex_unlock(table->mutex);
  return seq;
}

size_t kv_memtable_bytes(struct kv_memtable *table) {
  kv_mutex_lock(table->mutex);
  size_t bytes = sizeof *table + table->commit_room * sizeof *table->commits;
  bytes += kv_entries_bytes(&table->entries) + table->order_bytes;
  kv_mutex_unlock(table->mutex);
  return bytes;
}
