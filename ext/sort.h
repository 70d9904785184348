/* Sorting by a comparison that has a context and may be wrong: no order that it makes up leads out of
** the items, which qsort does not promise. */
#ifndef COLFAM_SORT_H
#define COLFAM_SORT_H

#include <stddef.h>

/* Items of at most COLFAM_SORT_BYTES_MAX each; not stable. */
enum { COLFAM_SORT_BYTES_MAX = 64 };
void colfam_sort(void *items, size_t count, size_t size,
                 int (*compare)(const void *context, const void *a, const void *b),
                 const void *context);

#endif
