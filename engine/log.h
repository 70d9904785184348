/* A family's memory of the log: the memtables of the commits seen so far, shared by every connection of
** the process. It is a cache of t_cflog (engine/README.md, invariant 1): it is extended only by rows that
** follow what it holds, proved by nonces, and whoever needs a past that it no longer holds, or another
** timeline, gets memtables of their own built from their own snapshot.
** Thread rule: any thread; the internal lock is never held while a source is called. */
#ifndef KV_LOG_H
#define KV_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cache.h"
#include "memtable.h"
#include "stats.h"
#include "status.h"

/* One row of the log. */
struct kv_log_row {
  uint64_t seq;
  uint64_t nonce;        /* random, names the commit */
  uint64_t gen;          /* memtable generation, never falling along the log */
  int64_t rows;          /* rows of the table after this commit; -1 = not tracked */
  struct kv_slice batch; /* encoded */
  struct kv_batch
      *writes; /* what was encoded, where that is at hand: memory is made of it then. Else NULL */
};

/* The seal of its batch (batch.h): says nonce, generation and row count. */
uint64_t kv_log_row_seal(const struct kv_log_row *row);
/* KV_CORRUPT when the batch has a seal and it is another one; the batch itself is not looked at. */
kv_status kv_log_row_check(const struct kv_log_row *row, struct kv_err *err);

/* Where rows come from: a statement on t_cflog, or a test's array. Rows come in ascending seq, all with
** seq >= from. The row's batch is borrowed until the next call. */
struct kv_log_source {
  kv_status (*open)(void *ctx, uint64_t from, struct kv_err *err);
  kv_status (*next)(void *ctx, struct kv_log_row *row, bool *found, struct kv_err *err);
  void *ctx;
};

/* What a snapshot says of the log. With no live rows last_* equal flushed_*. */
struct kv_log_state {
  uint64_t flushed_seq;   /* rows at or below it are dead: their content is in files */
  uint64_t flushed_nonce; /* nonce of the row flushed_seq (0 when flushed_seq is 0) */
  uint64_t last_seq;
  uint64_t last_nonce;
};

/* The memtables that a snapshot sees. */
struct kv_log_window {
  struct kv_log_state state;
  struct kv_window window;
  struct kv_memtable **tables; /* newest first; each holds a reference */
  size_t table_count;
  uint64_t gen;       /* generation of the newest row, 0 without rows */
  uint64_t gen_bytes; /* encoded bytes of that generation inside the window, uncompressed */
  uint64_t bytes;     /* encoded bytes of the window's rows */
  int64_t rows;       /* of the table after the newest row; only with rows */
};
void kv_log_window_release(struct kv_log_window *window);

struct kv_log;
/* The comparator is borrowed. */
/* All borrowed. The cache says whether checksums of rows are looked at; NULL: they are. */
kv_status kv_log_new(const uint8_t uuid[16], const struct kv_comparator *comparator,
                     const struct kv_cache *cache, struct kv_stats *stats, struct kv_log **log,
                     struct kv_err *err);
void kv_log_free(struct kv_log *log);

/* Fills *window for a snapshot, asking `source` only for the rows not yet held. KV_CORRUPT when a row of
** (flushed_seq, last_seq] is missing, out of order, its gen falls, or its bytes are damaged. */
kv_status kv_log_read(struct kv_log *log, const struct kv_log_state *state,
                      const struct kv_log_source *source, struct kv_log_window *window,
                      struct kv_err *err);

/* The window after `base` plus one own commit: adds `row` (seq = base last + 1, or higher when it is flushed
** too) to the shared memory.
** On failure (memory out, or somebody else's commit came between) the log is as before and the next
** kv_log_read replays. `row` may be NULL: only flushed_* move. */
kv_status kv_log_advance(struct kv_log *log, const struct kv_log_window *base,
                         const struct kv_log_row *row, uint64_t flushed_seq, uint64_t flushed_nonce,
                         struct kv_log_window *window, struct kv_err *err);

/* Lets go of generations that lie wholly at or below flushed_seq; windows that hold them keep them. */
void kv_log_trim(struct kv_log *log, uint64_t flushed_seq);
/* Bytes of the memtables held by the log itself. */
size_t kv_log_bytes(struct kv_log *log);

#endif
