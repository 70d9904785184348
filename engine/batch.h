/* A write batch: the pending puts and deletes of one transaction, hash-indexed, with savepoints.
** An append-only region of entries that owns their bytes, a hash index from a key to its newest entry, and
** rollbacks that cost what was written since the mark (entries.h). At least 8 GiB of small writes, more of
** large ones: beyond that a write is refused.
** Reference-counted: an iterator or a pinned value keeps the memory it reads; a rollback never reuses
** bytes while somebody but the owner holds a reference.
** Thread rule: one thread at a time (the connection's). */
#ifndef KV_BATCH_H
#define KV_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "buf.h"
#include "compare.h"
#include "digest.h"
#include "entries.h"
#include "iter.h"
#include "stats.h"
#include "status.h"
#include "uncounted.h"

struct kv_batch;

/* Where to roll back to; O(1) to take. All 0: before the first write. Valid until a rollback to an earlier
** mark. */
struct kv_batch_mark {
  struct kv_entries_mark entries;
  int64_t rows_delta;
  size_t uncounted; /* how many puts there were whose rows are not in rows_delta */
};

/* stats may be NULL; it must outlive the batch. Starts with one reference. */
kv_status kv_batch_new(struct kv_stats *stats, struct kv_batch **batch, struct kv_err *err);
struct kv_batch *kv_batch_ref(struct kv_batch *batch);
void kv_batch_unref(struct kv_batch *batch);
/* The order of iterators, before there are any; the batch keeps a reference. NULL: bytewise, as when not
** said. */
void kv_batch_order_by(struct kv_batch *batch, const struct kv_comparator *comparator);

/* Copies key and value. rows_delta is added to the batch's row count change and undone with the write.
** KV_NOMEM leaves the batch unchanged. KV_MISUSE beyond the places of entries, a key over KV_KEY_BYTES_MAX
** or a value over 2^32-1 bytes. */
kv_status kv_batch_put(struct kv_batch *batch, struct kv_slice key, struct kv_slice value,
                       int rows_delta, struct kv_err *err);
kv_status kv_batch_delete(struct kv_batch *batch, struct kv_slice key, int rows_delta,
                          struct kv_err *err);

/* A put of which nobody has looked yet whether it adds a row. Over a pending write of the key that is known
** at once. Else the key waits, with KV_UNCOUNTED_MAX others at most (KV_MISUSE), for somebody to look
** whether it is there below the batch (kv_count_rows), which must be the same until then. Undone with the
** write. */
kv_status kv_batch_put_uncounted(struct kv_batch *batch, struct kv_slice key, struct kv_slice value,
                                 struct kv_err *err);
/* Those that wait: how many, the keys and hashes of n of them from `first` on (borrowed until the next
** change), and the answer for all of them, which without memory (KV_NOMEM) is not taken. */
size_t kv_batch_uncounted(const struct kv_batch *batch);
void kv_batch_uncounted_keys(const struct kv_batch *batch, size_t first, size_t n,
                             struct kv_slice *keys, uint64_t *hashes);
kv_status kv_batch_count_rows(struct kv_batch *batch, const bool *found, struct kv_err *err);

enum kv_batch_answer { KV_BATCH_NONE, KV_BATCH_PUT, KV_BATCH_DELETED };
/* The pending state of a key, hash = kv_hash_key(key). *value (may be NULL) is borrowed until the last
** reference goes or the batch is written to or rolled back by somebody who holds the only reference. */
enum kv_batch_answer kv_batch_get(const struct kv_batch *batch, struct kv_slice key, uint64_t hash,
                                  struct kv_slice *value);
/* The same of up to KV_ENTRIES_GROUP keys, their loads overlapping. */
void kv_batch_get_many(const struct kv_batch *batch, const struct kv_slice *keys,
                       const uint64_t *hashes, size_t count, enum kv_batch_answer *answers,
                       struct kv_slice *values);

struct kv_batch_mark kv_batch_mark(const struct kv_batch *batch);
/* O(writes since the mark). Cannot fail. */
void kv_batch_rollback(struct kv_batch *batch, struct kv_batch_mark mark);

size_t kv_batch_count(const struct kv_batch *batch);       /* live entries, tombstones included */
int64_t kv_batch_rows_delta(const struct kv_batch *batch); /* without those that wait */
size_t kv_batch_bytes(const struct kv_batch *batch);       /* memory held */
/* Memory of keys and values alone, dead ones included: at most about twice what encoding them gives. */
size_t kv_batch_data_bytes(const struct kv_batch *batch);
/* Moves with every put, delete and rollback that changed something. */
uint64_t kv_batch_version(const struct kv_batch *batch);

/* An iterator over the entries live now, in key order; later writes do not show and cannot hurt it. It
** holds a reference. */
kv_status kv_batch_iter(struct kv_batch *batch, struct kv_iter **iter, struct kv_err *err);
/* The same; each entry that it shows is added to *shown, which must outlive it. */
kv_status kv_batch_iter_counted(struct kv_batch *batch, struct kv_digest *shown,
                                struct kv_iter **iter, struct kv_err *err);

/* Appends the live entries as one log batch (FORMAT.md, Log batch), in memcmp order of their keys whatever
** the batch's own is. uuid and seq seed the checksum. */
kv_status kv_batch_encode(struct kv_batch *batch, const uint8_t uuid[16], uint64_t seq,
                          struct kv_buf *out, struct kv_err *err);

/* The same with a seal: a number that says what else the catalog's row must be, covered by the checksum. With
** `packs`, values of a few KiB and more together are compressed when that saves something. */
kv_status kv_batch_encode_sealed(struct kv_batch *batch, const uint8_t uuid[16], uint64_t seq,
                                 uint64_t seal, bool packs, struct kv_buf *out, struct kv_err *err);
/* The seal of encoded bytes, unproved as long as no reader has checked them; false when there is none. */
bool kv_batch_seal(struct kv_slice encoded, uint64_t *seal);
/* Bytes of an entry where values are not compressed, and of what an encoded batch has beside entries. */
size_t kv_batch_entry_bytes(struct kv_slice key, struct kv_slice value);
size_t kv_batch_frame_bytes(struct kv_slice encoded);
/* Walks an encoded log batch after checking version, checksum and lengths. uuid NULL: the checksum is not
** looked at. */
struct kv_batch_reader {
  const uint8_t *pos;
  const uint8_t *end;
  uint64_t left; /* entries */
  bool apart;    /* values do not stand behind their keys, but in: */
  const uint8_t *values;
  uint64_t values_read;  /* bytes */
  uint8_t *unpacked;     /* the reader's own memory, or NULL */
  size_t bytes;          /* of the batch when its values are not compressed */
  struct kv_slice key;   /* the current entry, borrowed from the input */
  struct kv_slice value; /* borrowed from the input or the reader */
  bool deleted;
};
/* To be released, but for after a failure. KV_CORRUPT, KV_VERSION or KV_NOMEM. */
kv_status kv_batch_reader_init(struct kv_batch_reader *reader, struct kv_slice encoded,
                               const uint8_t uuid[16], uint64_t seq, struct kv_err *err);
void kv_batch_reader_release(struct kv_batch_reader *reader);
/* false at the end; *status is KV_CORRUPT when the bytes are not what they were. */
bool kv_batch_reader_next(struct kv_batch_reader *reader, kv_status *status, struct kv_err *err);

#endif
