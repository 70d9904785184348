/* Merges of the newest runs of level 0, those that a transaction has written for itself, however many levels
** there are below and whatever is due there. Thread rule: as compact.c. */
#include "compact.h"

#include "compact_plan.h"
#include "view.h"

/* Runs of level 0 above the commit: these are the newest. */
static size_t count_above(const struct kv_layout *layout, uint64_t seq) {
  size_t count = 0;
  while (count < layout->run_count && layout->runs[count].level == 0 &&
         layout->runs[count].seq > seq)
    count++;
  return count;
}

kv_status kv_job_new_gather(struct kv_view *view, uint64_t seq, struct kv_job **job,
                            struct kv_err *err) {
  struct kv_pick pick = {KV_PICK_TIER, 0, count_above(view->layout, seq)};
  if (pick.count < 2) pick.kind = KV_PICK_NONE;
  return kv_job_new_pick(view, &pick, job, err);
}

kv_status kv_job_new_tier(struct kv_view *view, uint64_t seq, uint64_t *oldest, struct kv_job **job,
                          struct kv_err *err) {
  const struct kv_layout *layout = view->layout;
  struct kv_shape shape = kv_layout_shape(layout);
  struct kv_pick pick = kv_compact_pick_newest(&shape, count_above(layout, seq));
  *job = NULL;
  if (pick.kind == KV_PICK_NONE) return KV_OK;
  *oldest = layout->runs[pick.count - 1].seq;
  return kv_job_new_pick(view, &pick, job, err);
}
