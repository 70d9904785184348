/* What tests and tools may set of a job beyond kv.h. */
#ifndef KV_COMPACT_H
#define KV_COMPACT_H

#include <stdint.h>

#include "kv.h"

/* File bytes at which an output file is closed and the next begun (64 MiB when not set). Before the first
** step only. */
void kv_job_set_file_bytes(struct kv_job *job, uint64_t bytes);

#endif
