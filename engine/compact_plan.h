/* Which files of a layout a merge reads, and where its output goes: what compact_pick.h has decided by sizes,
** made exact by keys. Thread rule: pure functions; a plan belongs to one thread. */
#ifndef KV_COMPACT_PLAN_H
#define KV_COMPACT_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "compact_pick.h"
#include "layout.h"

/* What compact_pick.h decides by; borrows from the layout. */
struct kv_shape kv_layout_shape(const struct kv_layout *layout);

/* The parts of runs that are read, newest first; they point into a layout, which must outlive them. */
struct kv_plan {
  struct kv_run *parts; /* owned */
  size_t count;
  uint32_t level; /* of the output */
  size_t older;   /* from this run of the layout on, files are older than the output and not read */
};
void kv_plan_release(struct kv_plan *plan);
/* Nothing for KV_PICK_NONE. A push takes about file_bytes. */
kv_status kv_plan_pick(struct kv_plan *plan, const struct kv_layout *layout,
                       const struct kv_pick *pick, uint64_t file_bytes, struct kv_err *err);
/* Every run, whole. */
kv_status kv_plan_all(struct kv_plan *plan, const struct kv_layout *layout, struct kv_err *err);

/* Whether the file is one of those that are read. */
bool kv_plan_reads(const struct kv_plan *plan, const struct kv_sst *file);
size_t kv_plan_files(const struct kv_plan *plan);
uint64_t kv_plan_bytes(const struct kv_plan *plan);
uint64_t kv_plan_entries(const struct kv_plan *plan);
/* The newest commit in its files; 0 without files. */
uint64_t kv_plan_seq(const struct kv_plan *plan);

/* Whether a file that is older than the output, and not read, may have the key. */
bool kv_plan_may_hide(const struct kv_plan *plan, const struct kv_layout *layout,
                      struct kv_slice key);
/* Whether the output is large and nothing older is below it: it will not be written again soon. */
bool kv_plan_lasts(const struct kv_plan *plan, const struct kv_layout *layout);
/* Whether the run that `entries` of the output are in, or join, is a small part of the layout: about a
** million entries, or a thirty-second of them. */
bool kv_plan_is_small(const struct kv_plan *plan, const struct kv_layout *layout, uint64_t entries);
/* Whether a file that is read says of itself that it is compressed at another level. Opens them. */
kv_status kv_plan_recompresses(const struct kv_plan *plan, int level, bool *recompresses,
                               struct kv_err *err);
/* The seq of the oldest run of level 0; `otherwise` when there is none, or it is newer. */
uint64_t kv_layout_young_seq(const struct kv_layout *layout, uint64_t otherwise);
/* Whether a file may have keys from smallest to largest, both included. */
bool kv_layout_meets(const struct kv_layout *layout, struct kv_slice smallest,
                     struct kv_slice largest);

/* Whether every file that was planned is still named, where it was. */
bool kv_plan_is_live(const struct kv_plan *plan, const struct kv_layout *now);
/* Whether a file that the edit adds overlaps one of the layout at level `from` to `to` that it does not
** remove. */
bool kv_edit_overlaps(const struct kv_edit *edit, const struct kv_layout *layout, uint32_t from,
                      uint32_t to);

#endif
