/* Orders that the test build knows without a program that registers them, and the order that tables have there
** when CREATE names none: COLFAM_TEST_COMPARATOR. Nothing at all in production builds. */
#ifndef COLFAM_ORDERS_TEST_H
#define COLFAM_ORDERS_TEST_H

#include <stddef.h>

#ifdef COLFAM_TEST
/* Registers the order of that name when it is one of them. */
void colfam_orders_test_register(const char *name);
/* NULL: bytewise. */
const char *colfam_orders_test_default(void);
#else
static inline void colfam_orders_test_register(const char *name) {
  (void)name;
}
static inline const char *colfam_orders_test_default(void) {
  return NULL;
}
#endif

#endif
