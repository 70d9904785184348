/* What the read*.c files share, and nobody else uses: the places that are asked for a key, newest first. */
#ifndef KV_READ_INSIDE_H
#define KV_READ_INSIDE_H

#include "view.h"

/* What batch and memtables know of lookups that have a key, its hash and no answer: answer and value of each,
** their loads overlapping. */
void kv_read_memory(const struct kv_view *view, const struct kv_batch *batch,
                    struct kv_lookup *lookups, size_t n);
/* What the runs know of a lookup's key, from lookup->run on, which tells then where the search ended: NONE
** when none has it, or when a block that is not in the cache would have to be read and the mode forbids it.
** */
kv_status kv_read_runs(const struct kv_view *view, struct kv_lookup *lookup,
                       enum kv_lookup_mode mode, struct kv_err *err);
/* The same for many, a run after another: those that have an answer already are passed over. After a failure
** pins may be left, as after success. */
kv_status kv_read_runs_many(const struct kv_view *view, struct kv_lookup *lookups, size_t n,
                            enum kv_lookup_mode mode, struct kv_err *err);
/* Counts n probes: `missed` could not be answered without a block, `present` of the others are there. */
void kv_read_count_probes(const struct kv_view *view, size_t n, size_t missed, size_t present);
/* kv_get, not counted; `value` is empty before. */
kv_status kv_read_get(struct kv_view *view, struct kv_batch *batch, struct kv_slice key,
                      struct kv_value *value, struct kv_err *err);

#endif
