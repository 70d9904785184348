/* See log.h.
**
** One chain (log_chain.h) is shared. A snapshot's state (flushed, last] meets it in one of these ways:
**
**   held      base <= flushed, last is in memory with the snapshot's nonce: no row is asked.
**   extend    base <= flushed < the chain's last < last: the snapshot's row at the chain's last has the
**             nonce held here, so the snapshot is the same timeline, further on. Only the rows after
**             it are replayed: copied out and checked first, then applied under the lock.
**   replace   the chain is empty or ends at or below flushed (after a log that was all flushed, generations
**             begin anew), or a nonce differs: another timeline (an older copy of the database was
**             restored over it). The whole of (flushed, last] is read into a
**             new chain, which becomes the shared one.
**   private   flushed < base: memory let go of what this older snapshot needs. The whole is read into a
**             chain of the caller's own; the shared one stays. After PRIVATE_RUN_MAX such reads with
**             none in between that the shared chain could serve, it serves nobody and is replaced.
**
** Sources are called without the lock, so the chain may move meanwhile; `changes` tells. An extension
** then starts over, a few times; a whole chain is right for its snapshot in any case and is merely not
** shared. Nothing here is the truth: a failure leaves a valid chain, and the next read replays
** (engine/README.md, invariants 1 and 6). Lock order: log, then memtable. */
#include "log.h"

#include <inttypes.h>
#include <string.h>

#include "compress.h"
#include "env.h"
#include "log_chain.h"
#include "mem.h"

#define TRIES_MAX 8
#define PRIVATE_RUN_MAX 4u

struct kv_log {
  uint8_t uuid[16];
  const struct kv_comparator *comparator;
  const struct kv_cache *cache; /* may be NULL */
  struct kv_stats *stats;       /* may be NULL */
  struct kv_mutex *mutex;       /* guards all that follows */
  struct kv_chain chain;
  uint64_t changes;     /* moves with every change of the chain */
  unsigned private_run; /* private reads since the shared chain served one */
};

kv_status kv_log_new(const uint8_t uuid[16], const struct kv_comparator *comparator,
                     const struct kv_cache *cache, struct kv_stats *stats, struct kv_log **log,
                     struct kv_err *err) {
  struct kv_log *made = kv_alloc_zero(1, sizeof *made);
  if (!made) return kv_fail_nomem(err);
  kv_status status = kv_mutex_new(&made->mutex, err);
  if (status) {
    kv_free(made);
    return status;
  }
  memcpy(made->uuid, uuid, sizeof made->uuid);
  made->stats = stats;
  made->comparator = comparator;
  made->cache = cache;
  kv_chain_init(&made->chain, comparator, 0);
  kv_decompressors_ref();
  *log = made;
  return KV_OK;
}

void kv_log_free(struct kv_log *log) {
  if (!log) return;
  kv_chain_release(&log->chain);
  kv_mutex_free(log->mutex);
  kv_free(log);
  kv_decompressors_unref();
}

static void count_stat(const struct kv_log *log, enum kv_stat stat, uint64_t n) {
  if (log->stats && n) kv_stats_add(log->stats, stat, n);
}

/* What the checksum of a row is held against: NULL when nobody wants to look. */
static const uint8_t *owner_of_row(const struct kv_log *log) {
  if (log->cache && !kv_cache_verifies_merges(log->cache)) return NULL;
  count_stat(log, KV_STAT_LOG_CHECKSUMS, 1);
  return log->uuid;
}

static bool is_empty(const struct kv_log_state *state) {
  return state->flushed_seq == state->last_seq;
}

/* The window of a state without live rows. */
static void fill_empty(const struct kv_log_state *state, struct kv_log_window *window) {
  *window =
      (struct kv_log_window){.state = *state, .window = {state->flushed_seq, state->last_seq}};
}

/* ---- Rows from a source */

static kv_status row_missing(uint64_t seq, struct kv_err *err) {
  return kv_fail(err, KV_CORRUPT, "log: row %" PRIu64 " is missing", seq);
}

static kv_status next_row(const struct kv_log_source *source, uint64_t expected,
                          struct kv_log_row *row, struct kv_err *err) {
  bool found = false;
  kv_status status = source->next(source->ctx, row, &found, err);
  if (status) return status;
  if (!found || row->seq > expected) return row_missing(expected, err);
  if (row->seq < expected) {
    return kv_fail(err, KV_CORRUPT, "log: row %" PRIu64 " comes where row %" PRIu64 " should",
                   row->seq, expected);
  }
  return KV_OK;
}

/* The newest row of a snapshot is the one that its state names. */
static kv_status check_newest(const struct kv_log_state *state, const struct kv_log_row *row,
                              struct kv_err *err) {
  if (row->seq != state->last_seq || row->nonce == state->last_nonce) return KV_OK;
  return kv_fail(err, KV_CORRUPT, "log: row %" PRIu64 " has another nonce than the snapshot says",
                 row->seq);
}

/* ---- The whole of a snapshot */

static kv_status read_whole(struct kv_log *log, const struct kv_log_state *state,
                            const struct kv_log_source *source, struct kv_chain *chain,
                            struct kv_err *err) {
  kv_status status = source->open(source->ctx, state->flushed_seq + 1, err);
  while (!status && kv_chain_last(chain) < state->last_seq) {
    struct kv_log_row row;
    status = next_row(source, kv_chain_last(chain) + 1, &row, err);
    if (!status) status = check_newest(state, &row, err);
    if (!status) status = kv_chain_add(chain, &row, owner_of_row(log), err);
  }
  count_stat(log, KV_STAT_LOG_ROWS_REPLAYED, chain->row_count);
  return status;
}

static bool covers(const struct kv_chain *chain, const struct kv_log_state *state) {
  return chain->base_seq <= state->flushed_seq &&
         kv_chain_holds(chain, state->last_seq, state->last_nonce);
}

static kv_status window_of(const struct kv_chain *chain, const struct kv_log_state *state,
                           struct kv_log_window *window, struct kv_err *err) {
  kv_status status = kv_chain_window_reserve(chain, 0, window, err);
  if (!status) kv_chain_window_fill(chain, state, window);
  return status;
}

static void swap_chain(struct kv_log *log, struct kv_chain *chain) {
  struct kv_chain old = log->chain;
  log->chain = *chain;
  *chain = old;
  log->changes++;
  log->private_run = 0;
}

/* Builds a chain of the snapshot's own; it becomes the shared one when `share` and that has not moved
** since `changes`. */
static kv_status use_whole(struct kv_log *log, const struct kv_log_state *state,
                           const struct kv_log_source *source, bool share, uint64_t changes,
                           struct kv_log_window *window, struct kv_err *err) {
  struct kv_chain chain;
  kv_chain_init(&chain, log->comparator, state->flushed_seq);
  kv_status status = read_whole(log, state, source, &chain, err);
  if (!status) {
    kv_mutex_lock(log->mutex);
    /* somebody else may have read the same meanwhile: then one copy is enough */
    bool shared = covers(&log->chain, state);
    status = window_of(shared ? &log->chain : &chain, state, window, err);
    if (!status && !shared && share && log->changes == changes) swap_chain(log, &chain);
    kv_mutex_unlock(log->mutex);
  }
  kv_chain_release(&chain);
  return status;
}

/* ---- Extending */

/* Rows copied out of a source: batch.data is not used, the bytes lie one after the other in `bytes`. */
struct copied {
  struct kv_log_row *rows;
  size_t count;
  size_t capacity;
  struct kv_buf bytes;
};

static void copied_release(struct copied *copied) {
  kv_free(copied->rows);
  kv_buf_release(&copied->bytes);
}

static kv_status copy_row(struct copied *copied, const struct kv_log_row *row, struct kv_err *err) {
  if (copied->count == copied->capacity) {
    size_t capacity = copied->capacity ? copied->capacity * 2 : 4;
    struct kv_log_row *rows = kv_realloc(copied->rows, capacity, sizeof *rows);
    if (!rows) return kv_fail_nomem(err);
    copied->rows = rows;
    copied->capacity = capacity;
  }
  kv_buf_append(&copied->bytes, row->batch.data, row->batch.size);
  if (copied->bytes.status) return kv_fail_nomem(err);
  copied->rows[copied->count++] = *row;
  return KV_OK;
}

/* What a look at the shared chain showed. */
struct meeting {
  enum { HELD, EXTEND, REPLACE, PRIVATE } kind;
  uint64_t changes;
  /* the chain's newest row */
  uint64_t last_seq;
  uint64_t last_nonce;
  uint64_t gen;
};

static kv_status check_unseen(const struct kv_log *log, const struct kv_log_state *state,
                              const struct kv_log_row *row, uint64_t gen, struct kv_err *err) {
  if (row->gen < gen) {
    return kv_fail(err, KV_CORRUPT,
                   "log: row %" PRIu64 " has generation %" PRIu64 " after generation %" PRIu64,
                   row->seq, row->gen, gen);
  }
  kv_status status = check_newest(state, row, err);
  if (!status) status = kv_log_row_check(row, err);
  if (status) return status;
  struct kv_batch_reader reader;
  status = kv_batch_reader_init(&reader, row->batch, owner_of_row(log), row->seq, err);
  if (!status) kv_batch_reader_release(&reader);
  return status;
}

/* Copies the rows (seen->last_seq, last] after checking all of them. *same is false, and nothing more is
** read, when the source has another commit where the chain ends. */
static kv_status copy_unseen(struct kv_log *log, const struct kv_log_state *state,
                             const struct kv_log_source *source, const struct meeting *seen,
                             struct copied *copied, bool *same, struct kv_err *err) {
  struct kv_log_row row;
  kv_status status = source->open(source->ctx, seen->last_seq, err);
  if (!status) status = next_row(source, seen->last_seq, &row, err);
  *same = !status && row.nonce == seen->last_nonce;
  uint64_t gen = seen->gen;
  for (uint64_t seq = seen->last_seq; *same && !status && seq < state->last_seq; seq++) {
    status = next_row(source, seq + 1, &row, err);
    if (!status) status = check_unseen(log, state, &row, gen, err);
    if (!status) status = copy_row(copied, &row, err);
    gen = row.gen;
  }
  return status;
}

/* Under the lock. A failure (memory) leaves the rows before it applied: they are proved, checksums too. */
static kv_status apply(struct kv_log *log, struct copied *copied, struct kv_err *err) {
  kv_status status = KV_OK;
  size_t offset = 0;
  for (size_t i = 0; !status && i < copied->count; i++) {
    struct kv_log_row *row = &copied->rows[i];
    row->batch.data = copied->bytes.data + offset;
    offset += row->batch.size;
    status = kv_chain_add(&log->chain, row, NULL, err);
    if (status) break;
    log->changes++;
    count_stat(log, KV_STAT_LOG_ROWS_REPLAYED, 1);
  }
  return status;
}

/* Extends the shared chain. *moved: it changed meanwhile and the caller looks again; *same as above. */
static kv_status extend(struct kv_log *log, const struct kv_log_state *state,
                        const struct kv_log_source *source, const struct meeting *seen, bool *moved,
                        bool *same, struct kv_log_window *window, struct kv_err *err) {
  struct copied copied = {0};
  *moved = false;
  kv_status status = copy_unseen(log, state, source, seen, &copied, same, err);
  if (!status && *same) {
    kv_mutex_lock(log->mutex);
    *moved = log->changes != seen->changes;
    if (!*moved) {
      status = apply(log, &copied, err);
      if (!status) status = window_of(&log->chain, state, window, err);
    }
    kv_mutex_unlock(log->mutex);
  }
  copied_release(&copied);
  return status;
}

/* ---- Reading */

static int meet(const struct kv_log *log, const struct kv_log_state *state) {
  const struct kv_chain *chain = &log->chain;
  uint64_t last = kv_chain_last(chain);
  if (!chain->row_count || last <= state->flushed_seq) return REPLACE;
  if (state->flushed_seq < chain->base_seq) {
    return log->private_run >= PRIVATE_RUN_MAX ? REPLACE : PRIVATE;
  }
  if (state->last_seq <= last) {
    return kv_chain_holds(chain, state->last_seq, state->last_nonce) ? HELD : REPLACE;
  }
  return EXTEND; /* if the source's row at `last` proves it */
}

/* Looks at the shared chain; fills the window when it is held. */
static kv_status look(struct kv_log *log, const struct kv_log_state *state, struct meeting *seen,
                      struct kv_log_window *window, struct kv_err *err) {
  kv_status status = KV_OK;
  kv_mutex_lock(log->mutex);
  const struct kv_chain *chain = &log->chain;
  seen->kind = meet(log, state);
  seen->changes = log->changes;
  seen->last_seq = kv_chain_last(chain);
  seen->last_nonce = chain->row_count ? chain->rows[chain->row_count - 1].nonce : 0;
  seen->gen = kv_chain_gen(chain);
  if (seen->kind == HELD) status = window_of(chain, state, window, err);
  log->private_run = seen->kind == PRIVATE ? log->private_run + 1 : 0;
  kv_mutex_unlock(log->mutex);
  return status;
}

kv_status kv_log_read(struct kv_log *log, const struct kv_log_state *state,
                      const struct kv_log_source *source, struct kv_log_window *window,
                      struct kv_err *err) {
  fill_empty(state, window);
  if (state->last_seq < state->flushed_seq) {
    return kv_fail(err, KV_CORRUPT, "log: last row %" PRIu64 " is below the flushed %" PRIu64,
                   state->last_seq, state->flushed_seq);
  }
  if (is_empty(state)) return KV_OK;
  struct meeting seen = {.kind = PRIVATE};
  for (int tries = 0; tries < TRIES_MAX; tries++) {
    bool moved, same;
    kv_status status = look(log, state, &seen, window, err);
    if (status || seen.kind == HELD) return status;
    if (seen.kind != EXTEND) break;
    status = extend(log, state, source, &seen, &moved, &same, window, err);
    if (status || (same && !moved)) return status;
    if (same) continue;
    seen.kind = REPLACE;
    break;
  }
  return use_whole(log, state, source, seen.kind == REPLACE, seen.changes, window, err);
}

/* ---- Own commits */

/* The state after an own commit, or KV_MISUSE. One that is in files wholly may have left numbers out, those
** of runs that its transaction had before. */
static kv_status advanced_state(const struct kv_log_window *base, const struct kv_log_row *row,
                                uint64_t flushed_seq, uint64_t flushed_nonce,
                                struct kv_log_state *state, struct kv_err *err) {
  *state = base->state;
  bool skips = row && row->seq > state->last_seq && row->seq == flushed_seq;
  if (row && row->seq != state->last_seq + 1 && !skips) {
    return kv_fail(err, KV_MISUSE, "log: own row %" PRIu64 " after row %" PRIu64, row->seq,
                   state->last_seq);
  }
  if (row) {
    state->last_seq = row->seq;
    state->last_nonce = row->nonce;
  }
  if (flushed_seq < state->flushed_seq || flushed_seq > state->last_seq) {
    return kv_fail(err, KV_MISUSE, "log: flushed %" PRIu64 " outside %" PRIu64 " to %" PRIu64,
                   flushed_seq, state->flushed_seq, state->last_seq);
  }
  state->flushed_seq = flushed_seq;
  state->flushed_nonce = flushed_nonce;
  return KV_OK;
}

/* Adds the row to `chain`, which ends where the row begins, and fills the window: all or nothing. */
static kv_status add_own(struct kv_log *log, struct kv_chain *chain,
                         const struct kv_log_state *state, const struct kv_log_row *row,
                         struct kv_log_window *window, struct kv_err *err) {
  kv_status status = kv_chain_window_reserve(chain, 1, window, err);
  if (status) return status;
  status = kv_chain_add(chain, row, owner_of_row(log), err);
  if (status) {
    kv_log_window_release(window);
    return status;
  }
  kv_chain_window_fill(chain, state, window);
  return KV_OK;
}

/* Nothing of the shared chain is alive for the base, which has no live rows: the row begins a new one. */
static kv_status begin_own(struct kv_log *log, const struct kv_log_state *state,
                           const struct kv_log_row *row, struct kv_log_window *window,
                           struct kv_err *err) {
  struct kv_chain chain;
  kv_chain_init(&chain, log->comparator, row->seq - 1);
  kv_status status = add_own(log, &chain, state, row, window, err);
  if (!status) swap_chain(log, &chain);
  kv_chain_release(&chain);
  return status;
}

/* Under the lock; the state has live rows. */
static kv_status advance(struct kv_log *log, const struct kv_log_state *before,
                         const struct kv_log_state *state, const struct kv_log_row *row,
                         struct kv_log_window *window, struct kv_err *err) {
  struct kv_chain *chain = &log->chain;
  /* without a row; or another connection has seen this commit already and replayed it */
  if (covers(chain, state)) return window_of(chain, state, window, err);
  uint64_t last = kv_chain_last(chain);
  if (row && is_empty(before) && (!chain->row_count || last <= before->last_seq)) {
    return begin_own(log, state, row, window, err);
  }
  if (row && last == before->last_seq && chain->base_seq <= state->flushed_seq &&
      kv_chain_holds(chain, last, before->last_nonce)) {
    kv_status status = add_own(log, chain, state, row, window, err);
    if (!status) log->changes++;
    return status;
  }
  return kv_fail(err, KV_BUSY, "log: memory ends at row %" PRIu64 ", the own commit is %" PRIu64,
                 last, state->last_seq);
}

kv_status kv_log_advance(struct kv_log *log, const struct kv_log_window *base,
                         const struct kv_log_row *row, uint64_t flushed_seq, uint64_t flushed_nonce,
                         struct kv_log_window *window, struct kv_err *err) {
  struct kv_log_state state;
  kv_status status = advanced_state(base, row, flushed_seq, flushed_nonce, &state, err);
  if (status) return status;
  fill_empty(&state, window);
  if (!is_empty(&state)) {
    kv_mutex_lock(log->mutex);
    status = advance(log, &base->state, &state, row, window, err);
    kv_mutex_unlock(log->mutex);
  }
  if (!status && row) count_stat(log, KV_STAT_COMMITS, 1);
  return status;
}

void kv_log_trim(struct kv_log *log, uint64_t flushed_seq) {
  kv_mutex_lock(log->mutex);
  if (kv_chain_trim(&log->chain, flushed_seq)) log->changes++;
  kv_mutex_unlock(log->mutex);
}

size_t kv_log_bytes(struct kv_log *log) {
  kv_mutex_lock(log->mutex);
  size_t bytes = sizeof *log + kv_chain_bytes(&log->chain);
  kv_mutex_unlock(log->mutex);
  return bytes;
}
