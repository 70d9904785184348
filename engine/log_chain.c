/* See log_chain.h.
**
** Rows carry running sums of their bytes, so that the sizes of any window cost two look-ups. Trimming
** moves the rest of both arrays down: once a generation. */
#include "log_chain.h"

#include <inttypes.h>
#include <string.h>

#include "code.h"
#include "hash.h"
#include "mem.h"

#define ROWS_FIRST ((size_t)16)
#define PARTS_FIRST ((size_t)4)

void kv_chain_init(struct kv_chain *chain, const struct kv_comparator *comparator,
                   uint64_t base_seq) {
  *chain = (struct kv_chain){.comparator = comparator, .base_seq = base_seq};
}

void kv_chain_release(struct kv_chain *chain) {
  for (size_t i = 0; i < chain->part_count; i++) kv_memtable_unref(chain->parts[i].table);
  kv_free(chain->parts);
  kv_free(chain->rows);
  kv_chain_init(chain, chain->comparator, 0);
}

uint64_t kv_chain_last(const struct kv_chain *chain) {
  return chain->base_seq + chain->row_count;
}

bool kv_chain_holds(const struct kv_chain *chain, uint64_t seq, uint64_t nonce) {
  if (seq <= chain->base_seq || seq > kv_chain_last(chain)) return false;
  return chain->rows[seq - chain->base_seq - 1].nonce == nonce;
}

uint64_t kv_chain_gen(const struct kv_chain *chain) {
  return chain->part_count ? kv_memtable_gen(chain->parts[chain->part_count - 1].table) : 0;
}

/* ---- Rows */

uint64_t kv_log_row_seal(const struct kv_log_row *row) {
  const uint64_t numbers[] = {row->nonce, row->gen, (uint64_t)row->rows};
  uint8_t bytes[sizeof numbers];
  kv_put_u64s(bytes, numbers, 3);
  return kv_hash_seeded(kv_slice_of(bytes, sizeof bytes), row->seq);
}

kv_status kv_log_row_check(const struct kv_log_row *row, struct kv_err *err) {
  uint64_t seal;
  if (!kv_batch_seal(row->batch, &seal) || seal == kv_log_row_seal(row)) return KV_OK;
  return kv_fail(err, KV_CORRUPT,
                 "log batch %" PRIu64 ": nonce, generation or row count are not its commit's",
                 row->seq);
}

/* ---- Adding */

static kv_status reserve_rows(struct kv_chain *chain, struct kv_err *err) {
  if (chain->row_count < chain->row_capacity) return KV_OK;
  size_t capacity = chain->row_capacity ? chain->row_capacity * 2 : ROWS_FIRST;
  struct kv_chain_row *rows = kv_realloc(chain->rows, capacity, sizeof *rows);
  if (!rows) return kv_fail_nomem(err);
  chain->rows = rows;
  chain->row_capacity = capacity;
  return KV_OK;
}

static kv_status reserve_parts(struct kv_chain *chain, struct kv_err *err) {
  if (chain->part_count < chain->part_capacity) return KV_OK;
  size_t capacity = chain->part_capacity ? chain->part_capacity * 2 : PARTS_FIRST;
  struct kv_chain_part *parts = kv_realloc(chain->parts, capacity, sizeof *parts);
  if (!parts) return kv_fail_nomem(err);
  chain->parts = parts;
  chain->part_capacity = capacity;
  return KV_OK;
}

static kv_status check_row(const struct kv_chain *chain, const struct kv_log_row *row,
                           struct kv_err *err) {
  uint64_t expected = kv_chain_last(chain) + 1;
  if (row->seq > expected)
    return kv_fail(err, KV_CORRUPT, "log: row %" PRIu64 " is missing", expected);
  if (row->seq < expected) {
    return kv_fail(err, KV_CORRUPT, "log: row %" PRIu64 " comes where row %" PRIu64 " should",
                   row->seq, expected);
  }
  if (row->gen < kv_chain_gen(chain)) {
    return kv_fail(err, KV_CORRUPT,
                   "log: row %" PRIu64 " has generation %" PRIu64 " after generation %" PRIu64,
                   row->seq, row->gen, kv_chain_gen(chain));
  }
  return kv_log_row_check(row, err);
}

/* *bytes: of the batch when its values are not compressed. */
static kv_status add_batch(struct kv_memtable *table, const struct kv_log_row *row,
                           const uint8_t uuid[16], size_t *bytes, struct kv_err *err) {
  if (!row->writes) return kv_memtable_add(table, row->seq, row->batch, uuid, bytes, err);
  kv_status status = kv_memtable_add_batch(table, row->seq, row->writes, bytes, err);
  *bytes += kv_batch_frame_bytes(row->batch);
  return status;
}

/* The row into a new generation's memtable; parts have room. */
static kv_status add_part(struct kv_chain *chain, const struct kv_log_row *row,
                          const uint8_t uuid[16], size_t *bytes, struct kv_err *err) {
  struct kv_memtable *table;
  kv_status status = kv_memtable_new(row->gen, chain->comparator, &table, err);
  if (status) return status;
  status = add_batch(table, row, uuid, bytes, err);
  if (status) {
    kv_memtable_unref(table);
    return status;
  }
  chain->parts[chain->part_count++] = (struct kv_chain_part){table, row->seq};
  return KV_OK;
}

kv_status kv_chain_add(struct kv_chain *chain, const struct kv_log_row *row, const uint8_t uuid[16],
                       struct kv_err *err) {
  kv_status status = check_row(chain, row, err);
  if (!status) status = reserve_rows(chain, err);
  if (!status) status = reserve_parts(chain, err);
  if (status) return status;
  size_t bytes;
  if (chain->part_count && row->gen == kv_chain_gen(chain))
    status = add_batch(chain->parts[chain->part_count - 1].table, row, uuid, &bytes, err);
  else
    status = add_part(chain, row, uuid, &bytes, err);
  if (status) return status;
  uint64_t before =
      chain->row_count ? chain->rows[chain->row_count - 1].bytes_end : chain->base_bytes;
  chain->rows[chain->row_count++] = (struct kv_chain_row){row->nonce, before + bytes, row->rows};
  return KV_OK;
}

/* ---- Trimming */

static uint64_t part_last(const struct kv_chain *chain, size_t part) {
  return part + 1 < chain->part_count ? chain->parts[part + 1].first_seq - 1 : kv_chain_last(chain);
}

bool kv_chain_trim(struct kv_chain *chain, uint64_t flushed_seq) {
  size_t dropped = 0;
  uint64_t base = chain->base_seq;
  for (; dropped < chain->part_count && part_last(chain, dropped) <= flushed_seq; dropped++) {
    base = part_last(chain, dropped);
    kv_memtable_unref(chain->parts[dropped].table);
  }
  if (!dropped) return false;
  size_t rows = (size_t)(base - chain->base_seq);
  chain->base_bytes = chain->rows[rows - 1].bytes_end;
  chain->base_seq = base;
  chain->row_count -= rows;
  chain->part_count -= dropped;
  memmove(chain->rows, chain->rows + rows, chain->row_count * sizeof *chain->rows);
  memmove(chain->parts, chain->parts + dropped, chain->part_count * sizeof *chain->parts);
  return true;
}

size_t kv_chain_bytes(const struct kv_chain *chain) {
  size_t bytes = chain->row_capacity * sizeof *chain->rows;
  bytes += chain->part_capacity * sizeof *chain->parts;
  for (size_t i = 0; i < chain->part_count; i++) bytes += kv_memtable_bytes(chain->parts[i].table);
  return bytes;
}

/* ---- Windows */

/* Encoded bytes of the rows up to and with `seq`, which is base_seq or in memory. */
static uint64_t bytes_upto(const struct kv_chain *chain, uint64_t seq) {
  return seq == chain->base_seq ? chain->base_bytes
                                : chain->rows[seq - chain->base_seq - 1].bytes_end;
}

kv_status kv_chain_window_reserve(const struct kv_chain *chain, size_t more,
                                  struct kv_log_window *window, struct kv_err *err) {
  *window = (struct kv_log_window){0};
  window->tables = kv_alloc(chain->part_count + more, sizeof(struct kv_memtable *));
  return window->tables ? KV_OK : kv_fail_nomem(err);
}

void kv_chain_window_fill(const struct kv_chain *chain, const struct kv_log_state *state,
                          struct kv_log_window *window) {
  uint64_t flushed = state->flushed_seq, last = state->last_seq;
  window->state = *state;
  window->window = (struct kv_window){flushed, last};
  window->bytes = bytes_upto(chain, last) - bytes_upto(chain, flushed);
  window->rows = chain->rows[last - chain->base_seq - 1].rows;
  for (size_t i = chain->part_count; i-- > 0;) {
    const struct kv_chain_part *part = &chain->parts[i];
    if (part->first_seq > last || part_last(chain, i) <= flushed) continue;
    if (!window->table_count) {
      uint64_t before = part->first_seq - 1 > flushed ? part->first_seq - 1 : flushed;
      window->gen = kv_memtable_gen(part->table);
      window->gen_bytes = bytes_upto(chain, last) - bytes_upto(chain, before);
    }
    window->tables[window->table_count++] = kv_memtable_ref(part->table);
  }
}

void kv_log_window_release(struct kv_log_window *window) {
  for (size_t i = 0; i < window->table_count; i++) kv_memtable_unref(window->tables[i]);
  kv_free(window->tables);
  *window = (struct kv_log_window){0};
}
