/* What tests and tools may set of a job beyond kv.h. */
#ifndef KV_COMPACT_H
#define KV_COMPACT_H

#include <stdint.h>

#include "compact_pick.h"
#include "kv.h"

/* File bytes at which an output file is closed and the next begun (four log budgets at least when not set).
** Before the first step only. */
void kv_job_set_file_bytes(struct kv_job *job, uint64_t bytes);

/* KV_JOB_MERGE, of what was picked and not what is due. */
kv_status kv_job_new_pick(struct kv_view *view, const struct kv_pick *pick, struct kv_job **job,
                          struct kv_err *err);

#endif
