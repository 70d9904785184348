/* Inside of a batch, for batch_code.c and tests. Callers see batch.h. */
#ifndef KV_BATCH_INSIDE_H
#define KV_BATCH_INSIDE_H

#include "batch.h"
#include "entries.h"
#include "mem.h"
#include "order.h"

struct kv_batch {
  int64_t refs;
  struct kv_stats *stats;    /* may be NULL */
  struct kv_arena arena;     /* the entries */
  struct kv_entries entries; /* every write since the start is a position, which is the undo log */
  int64_t rows_delta;        /* without what `uncounted` has found out */
  struct kv_uncounted uncounted;
  uint64_t version;
  struct kv_order *order;      /* the newest one made and not undone, or NULL */
  struct kv_order *base_order; /* an older one that a rollback is likely to leave, or NULL */
};

/* The order of all live entries, owned by the batch and good until the next write or rollback. */
kv_status kv_batch_order(struct kv_batch *batch, const struct kv_order **order, struct kv_err *err);

#endif
