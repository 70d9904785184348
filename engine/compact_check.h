/* A check for tests (kv_drops_check) of what a job leaves out: each tombstone that it drops is looked for in
** every older file that is no input, by reading, whatever bounds and filters say. What is found there would
** come to light again. Thread rule: the switch from any thread; a check belongs to its job. */
#ifndef KV_COMPACT_CHECK_H
#define KV_COMPACT_CHECK_H

#include "compact_plan.h"
#include "view.h"

struct kv_drop_check;
/* KV_CORRUPT when one has the key. *check is made by the first call, which must find it NULL, and nothing
** when switched off. View and plan are those of the job, and outlive it. */
kv_status kv_drop_check_key(struct kv_drop_check **check, const struct kv_view *view,
                            const struct kv_plan *plan, struct kv_slice key, struct kv_err *err);
void kv_drop_check_free(struct kv_drop_check *check); /* NULL is allowed */

#endif
