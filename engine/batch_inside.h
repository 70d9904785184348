/* Inside of a batch, for batch_code.c and tests. Callers see batch.h. */
#ifndef KV_BATCH_INSIDE_H
#define KV_BATCH_INSIDE_H

#include "batch.h"
#include "entries.h"
#include "order.h"

struct kv_batch {
  int64_t refs;
  struct kv_stats *stats;    /* may be NULL */
  struct kv_entries entries; /* every write since the start, which is the undo log */
  int64_t rows_delta;        /* without what `uncounted` has found out */
  struct kv_uncounted uncounted;
  uint64_t version;
  struct kv_order order; /* as far as something has asked for it */
};

/* As kv_batch_iter, in memcmp order of the keys whatever the batch's own is: whoever reads the log needs no
** comparator. */
kv_status kv_batch_iter_bytewise(struct kv_batch *batch, struct kv_iter **iter, struct kv_err *err);

#endif
