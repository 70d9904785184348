/* A stretch of the log in memory: the commits (base_seq, last] as memtables, with each commit's nonce.
** What log.c shares between connections is one chain; a connection that needs another past gets a chain
** of its own. A commit's nonce names the commit and with it all of its history: a snapshot whose row at
** `last` has the nonce held here agrees with the whole chain.
** Thread rule: the owner locks. */
#ifndef KV_LOG_CHAIN_H
#define KV_LOG_CHAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "log.h"

struct kv_chain_row {
  uint64_t nonce;
  /* Encoded bytes, as with values that are not compressed, of the chain's rows up to and with this
  ** one, trimmed ones too. */
  uint64_t bytes_end;
  int64_t rows;
};
/* One generation; it ends where the next begins. */
struct kv_chain_part {
  struct kv_memtable *table; /* a reference */
  uint64_t first_seq;
};
struct kv_chain {
  const struct kv_comparator *comparator; /* of the memtables; borrowed */
  uint64_t base_seq;
  uint64_t base_bytes;       /* bytes_end of row base_seq */
  struct kv_chain_row *rows; /* rows[i] is commit base_seq + 1 + i */
  size_t row_count;
  size_t row_capacity;
  struct kv_chain_part *parts; /* ascending; none when there are no rows */
  size_t part_count;
  size_t part_capacity;
};

void kv_chain_init(struct kv_chain *chain, const struct kv_comparator *comparator,
                   uint64_t base_seq);
void kv_chain_release(struct kv_chain *chain);
uint64_t kv_chain_last(const struct kv_chain *chain);
/* Whether commit `seq` is in memory and is the one that the nonce names. */
bool kv_chain_holds(const struct kv_chain *chain, uint64_t seq, uint64_t nonce);
/* Generation of the newest row, 0 without rows. */
uint64_t kv_chain_gen(const struct kv_chain *chain);
/* Applies the commit after `last`. KV_CORRUPT when it is another one, its gen falls or its bytes are
** damaged. The chain is unchanged after any failure. */
kv_status kv_chain_add(struct kv_chain *chain, const struct kv_log_row *row, const uint8_t uuid[16],
                       struct kv_err *err);
/* Drops generations that end at or below flushed_seq; returns whether there were any. */
bool kv_chain_trim(struct kv_chain *chain, uint64_t flushed_seq);
size_t kv_chain_bytes(const struct kv_chain *chain);

/* Memory for a window over the chain as it is, and `more` generations. Only release is allowed, or: */
kv_status kv_chain_window_reserve(const struct kv_chain *chain, size_t more,
                                  struct kv_log_window *window, struct kv_err *err);
/* The window of a state that the chain covers: base <= flushed <= last <= the chain's last. */
void kv_chain_window_fill(const struct kv_chain *chain, const struct kv_log_state *state,
                          struct kv_log_window *window);

#endif
