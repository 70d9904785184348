/* See compact_pick.h. A merge rewrites the bottom run, so it waits until the runs above are worth that, or
** are too many for a point read; and it takes the log along, so it takes the place of a flush. */
#include "compact_pick.h"

#define RUNS_WORTH_MERGING 4
#define RUNS_MAX 16

static bool is_worth_merging(const struct kv_shape *shape) {
  uint64_t half_bottom = shape->bottom_bytes - shape->bottom_bytes / 2;
  return shape->run_count >= RUNS_WORTH_MERGING && shape->upper_bytes >= half_bottom;
}

enum kv_work kv_compact_pick(const struct kv_shape *shape) {
  if (shape->run_count >= RUNS_MAX) return KV_WORK_COMPACT;
  if (shape->log_bytes <= shape->memtable_bytes) return KV_WORK_NONE;
  return is_worth_merging(shape) ? KV_WORK_COMPACT : KV_WORK_FLUSH;
}

struct kv_work_ahead kv_compact_ahead(const struct kv_shape *shape) {
  return (struct kv_work_ahead){
      .flush = shape->log_bytes > shape->memtable_bytes,
      .merge = is_worth_merging(shape) || shape->run_count >= RUNS_MAX / 2,
  };
}
