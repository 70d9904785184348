/* The order of keys that the engine's own tests run under, by $COLFAM_TEST_COMPARATOR (make check-orders),
** and what they expect in it:
**
**   unset          bytewise, without a comparator
**   test-forwards  the same order by a registered function's comparator
**   reverse, test-backwards  the other direction; from the last byte on: comparators too */
#ifndef HARNESS_COMPARATOR_H
#define HARNESS_COMPARATOR_H

#include <stdbool.h>

#include "compare.h"

/* NULL: bytewise. Lives as long as the process. */
const struct kv_comparator *harness_comparator(void);
/* The same order of two keys: <0, 0, >0. */
int harness_compare(struct kv_slice a, struct kv_slice b);
/* Whether keys are in memcmp order: for expectations that only that has. */
bool harness_ascends(void);
/* Words with blanks between, each a key with or without "=value" or "-" behind it, as they come in that
** order. Static storage, of four texts. */
const char *harness_in_order(const char *words);

#endif
