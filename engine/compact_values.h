/* What a job does about values that are stored apart (apart.h). References are carried from key file to key
** file as they are. The values of a value file that is mostly dead are read and written anew with their keys;
** a value file that no live key file refers to any more goes with the job's edit.
**
** That no other file refers to a value file stays true: references come from a job's inputs only, so a file
** that appears later can refer to what its inputs referred to, and nothing else.
** Thread rule: one thread; the layout must outlive it. */
#ifndef KV_COMPACT_VALUES_H
#define KV_COMPACT_VALUES_H

#include "apart.h"
#include "compact_plan.h"

/* Zero-initialise. */
struct kv_value_plan {
  struct kv_value_uses inputs; /* what the files that are read refer to */
  struct kv_value_uses others; /* what other live files refer to, as far as it matters */
  bool all;                    /* every value file is looked at, not only what is near the inputs */
  bool *looked_at;             /* one for each value file of the layout; owned */
  bool blind; /* a file that may refer to some could not be opened: nothing is dead for sure */
  uint64_t *rewritten; /* value files that are mostly dead; owned */
  size_t rewritten_count;
  bool due; /* there is something to gain even where no key file needs work */
};
void kv_value_plan_release(struct kv_value_plan *plan);
/* `thorough` is for a compaction of everything: all value files, and a quarter of one dead is enough. Opens
** files; KV_NOMEM or the status of an input that cannot be opened. */
kv_status kv_value_plan_make(struct kv_value_plan *plan, const struct kv_layout *layout,
                             const struct kv_plan *inputs, bool thorough, struct kv_err *err);
/* Whether the value is to be read and written anew: its file is mostly dead, or everything is written anew
** and it would not be stored apart today, by the limit value_bytes. */
bool kv_value_plan_rewrites(const struct kv_value_plan *plan, const struct kv_apart *apart,
                            uint32_t limit);
/* Whether the files that the edit of such a plan removes are named by a later layout where they were: those
** that are read, and behind them value files, which no other job has found dead. */
bool kv_plan_inputs_live(const struct kv_plan *plan, const struct kv_edit *edit,
                         const struct kv_layout *now);
/* ... and, of a merge, what it adds overlaps nothing that it has not read. */
bool kv_plan_merge_fits(const struct kv_plan *plan, const struct kv_edit *edit,
                        const struct kv_layout *now);
/* Gives the value files that nobody refers to once the inputs are replaced by outputs that refer to
** `outputs`; ids has room for all of the layout. Returns how many. */
size_t kv_value_plan_dead(const struct kv_value_plan *plan, const struct kv_layout *layout,
                          const struct kv_value_uses *outputs, uint64_t *ids);

#endif
