/* The merging iterator: one sorted stream out of several, newest source first; of equal keys the newest
** source's entry is shown and the others are passed over. Tombstones are shown. Both directions, with
** changes of direction at any place. */
#ifndef KV_MERGE_H
#define KV_MERGE_H

#include <stddef.h>

#include "compare.h"
#include "digest.h"
#include "iter.h"
#include "status.h"

/* sources[0] is the newest. Takes the sources over (they are freed with the merge, and on failure too). The
** comparator is borrowed. */
kv_status kv_merge_new(struct kv_iter **sources, size_t n, const struct kv_comparator *comparator,
                       struct kv_iter **iter, struct kv_err *err);
/* The same; what is passed over from then on is added to *passed, which must outlive the merge: in a pass
** forward from the first entry to the end that is every entry of the sources that is not shown. */
kv_status kv_merge_counted(struct kv_iter **sources, size_t n,
                           const struct kv_comparator *comparator, struct kv_digest *passed,
                           struct kv_iter **iter, struct kv_err *err);

#endif
