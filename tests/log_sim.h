/* A simulated log for the tests of log.c: rows by seq, timelines, a source over one, and what a window over
** it must show. Included by one program each. */
#ifndef LOG_SIM_H
#define LOG_SIM_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "hash.h"
#include "log.h"
#include "mem.h"

static const uint8_t uuid[16] = "the log's uuid..";

/* ck_assert for hot loops: that one writes to the runner's pipe each time. */
static inline void must(bool condition) {
  if (!condition) ck_abort();
}

/* ---- A simulated log: an array of rows by seq, of which a timeline is a copy of the pointers */

enum { KEYS = 16, ROWS_MAX = 1200 };
struct sim_row {
  struct kv_log_row row;
  struct kv_buf bytes;
  uint32_t state[KEYS]; /* 0 = not written, 1 = deleted, else the value */
  struct sim_row *older;
};
struct line {
  struct sim_row *rows[ROWS_MAX + 1];
  uint64_t last;
  uint64_t flushed;
  uint64_t deleted; /* rows up to here are gone from the table */
};

static struct sim_row *all_rows; /* freed by free_rows */
static struct harness_random random_numbers;

static inline struct kv_slice key_of(char buffer[16], unsigned number) {
  return kv_slice_of(buffer, (size_t)snprintf(buffer, 16, "key%u", number));
}

static inline void encode_row(struct sim_row *made) {
  struct kv_batch *batch;
  must(kv_batch_new(NULL, &batch, NULL) == KV_OK);
  for (unsigned i = 0; i < KEYS; i++) {
    char name[16];
    struct kv_slice value = kv_slice_of(&made->state[i], sizeof made->state[i]);
    if (made->state[i] > 1) must(kv_batch_put(batch, key_of(name, i), value, 0, NULL) == KV_OK);
    if (made->state[i] == 1) must(kv_batch_delete(batch, key_of(name, i), 0, NULL) == KV_OK);
  }
  kv_buf_init(&made->bytes);
  must(kv_batch_encode(batch, uuid, made->row.seq, &made->bytes, NULL) == KV_OK);
  made->row.batch = kv_buf_slice(&made->bytes);
  kv_batch_unref(batch);
}

/* Appends a commit with a few random writes. */
static inline struct sim_row *append(struct line *line, uint64_t gen) {
  struct sim_row *made = calloc(1, sizeof *made);
  must(made && line->last < ROWS_MAX);
  made->row.seq = line->last + 1;
  made->row.nonce = harness_next(&random_numbers);
  made->row.gen = gen;
  made->row.rows = -1;
  for (uint64_t n = harness_below(&random_numbers, 4); n > 0; n--) {
    uint32_t state = 1 + (uint32_t)harness_below(&random_numbers, 1000000);
    made->state[harness_below(&random_numbers, KEYS)] = state;
  }
  encode_row(made);
  made->older = all_rows;
  all_rows = made;
  line->rows[++line->last] = made;
  return made;
}

static inline void append_n(struct line *line, int count, uint64_t gen) {
  while (count-- > 0) append(line, gen);
}

static inline void free_rows(void) {
  while (all_rows) {
    struct sim_row *row = all_rows;
    all_rows = row->older;
    kv_buf_release(&row->bytes);
    free(row);
  }
}

static inline uint64_t nonce_at(const struct line *line, uint64_t seq) {
  return seq ? line->rows[seq]->row.nonce : 0;
}

static inline struct kv_log_state state_of(const struct line *line) {
  return (struct kv_log_state){line->flushed, nonce_at(line, line->flushed), line->last,
                               nonce_at(line, line->last)};
}

/* A source over a timeline, which counts, fails, and lets others in between. */
struct source {
  const struct line *line;
  uint64_t at;
  int opens;
  int rows_given;
  int fail_in;    /* calls of next until one fails; 0 = never */
  int between_in; /* calls of next until `between` runs; 0 = never */
  void (*between)(void *ctx);
  void *between_ctx;
};

static inline kv_status source_open(void *ctx, uint64_t from, struct kv_err *err) {
  (void)err;
  struct source *source = ctx;
  source->opens++;
  source->at = from > source->line->deleted ? from : source->line->deleted + 1;
  return KV_OK;
}

static inline kv_status source_next(void *ctx, struct kv_log_row *row, bool *found,
                                    struct kv_err *err) {
  struct source *source = ctx;
  if (source->fail_in && !--source->fail_in) return kv_fail(err, KV_IO, "no row today");
  if (source->between_in && !--source->between_in) source->between(source->between_ctx);
  while (source->at <= source->line->last && !source->line->rows[source->at]) source->at++;
  *found = source->at <= source->line->last;
  if (!*found) return KV_OK;
  source->rows_given++;
  *row = source->line->rows[source->at++]->row;
  return KV_OK;
}

static inline kv_status read_from(struct kv_log *log, struct source *source,
                                  struct kv_log_window *window, struct kv_err *err) {
  struct kv_log_state state = state_of(source->line);
  struct kv_log_source calls = {source_open, source_next, source};
  return kv_log_read(log, &state, &calls, window, err);
}

/* ---- What a window must show */

static inline uint32_t model_state(const struct line *line, const struct kv_log_state *state,
                                   unsigned key) {
  for (uint64_t seq = state->last_seq; seq > state->flushed_seq; seq--) {
    if (line->rows[seq]->state[key]) return line->rows[seq]->state[key];
  }
  return 0;
}

static inline uint32_t window_state(const struct kv_log_window *window, unsigned key) {
  char name[16];
  struct kv_slice slice = key_of(name, key), value;
  for (size_t i = 0; i < window->table_count; i++) {
    enum kv_batch_answer answer =
        kv_memtable_get(window->tables[i], window->window, slice, kv_hash_key(slice), &value);
    if (answer == KV_BATCH_DELETED) return 1;
    if (answer == KV_BATCH_NONE) continue;
    uint32_t state;
    must(value.size == sizeof state);
    memcpy(&state, value.data, sizeof state);
    return state;
  }
  return 0;
}

static inline void check_sizes(const struct kv_log_window *window, const struct line *line,
                               const struct kv_log_state *state) {
  uint64_t bytes = 0, gen_bytes = 0, gen = 0, gens = 0;
  for (uint64_t seq = state->flushed_seq + 1; seq <= state->last_seq; seq++) {
    const struct kv_log_row *row = &line->rows[seq]->row;
    if (!gens || row->gen != gen) {
      gens++;
      gen_bytes = 0;
    }
    gen = row->gen;
    gen_bytes += row->batch.size;
    bytes += row->batch.size;
  }
  must(window->bytes == bytes && window->gen_bytes == gen_bytes && window->gen == gen);
  must(window->table_count == gens);
  for (size_t i = 1; i < window->table_count; i++) {
    must(kv_memtable_gen(window->tables[i - 1]) > kv_memtable_gen(window->tables[i]));
  }
}

static inline void check_window_at(const struct kv_log_window *window, const struct line *line,
                                   const struct kv_log_state *state) {
  must(!memcmp(&window->state, state, sizeof *state));
  must(window->window.flushed_seq == state->flushed_seq);
  must(window->window.upper_seq == state->last_seq);
  check_sizes(window, line, state);
  for (unsigned i = 0; i < KEYS; i++) must(window_state(window, i) == model_state(line, state, i));
}

static inline void check_window(const struct kv_log_window *window, const struct line *line) {
  struct kv_log_state state = state_of(line);
  check_window_at(window, line, &state);
}

#endif
