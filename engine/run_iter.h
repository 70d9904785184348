/* The iterator over one run: its files' entries one file after the other, tombstones shown. A file is
** opened when a move first needs it. */
#ifndef KV_RUN_ITER_H
#define KV_RUN_ITER_H

#include <stdbool.h>

#include "iter.h"
#include "status.h"
#include "view.h"

/* The run, and so the view, is borrowed and must outlive the iterator. use_cache as in kv_table_iter. */
kv_status kv_run_iter(const struct kv_run *run, bool use_cache, struct kv_iter **iter,
                      struct kv_err *err);

#endif
