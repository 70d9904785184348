/* What work a table needs: a pure function, sizes in, decision out. */
#ifndef KV_COMPACT_PICK_H
#define KV_COMPACT_PICK_H

#include <stddef.h>
#include <stdint.h>

#include "kv.h"

struct kv_shape {
  uint64_t log_bytes;      /* encoded bytes of live log rows */
  uint64_t memtable_bytes; /* the budget */
  size_t run_count;
  uint64_t bottom_bytes; /* of the oldest run */
  uint64_t upper_bytes;  /* of all other runs */
};
/* FLUSH when the log is over its budget; COMPACT instead when the runs above the bottom have grown to
** half of it (at least 4 runs), or when there are 16 runs. */
enum kv_work kv_compact_pick(const struct kv_shape *shape);
/* What a thread should do meanwhile, so that commits need not: a flush when the log is over its budget, a
** merge of the runs when those above the bottom have grown to half of it (at least 4 runs), or when there
** are 8. */
struct kv_work_ahead kv_compact_ahead(const struct kv_shape *shape);

#endif
