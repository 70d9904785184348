/* Orders that the test build knows without a program that registers them, and the order that tables have
** there when CREATE names none: COLFAM_TEST_COMPARATOR; and whether commits ask comparators more than they
** need to. Nothing at all in production builds. */
#ifndef COLFAM_ORDERS_TEST_H
#define COLFAM_ORDERS_TEST_H

#include "schema.h"

#ifdef COLFAM_TEST
/* Registers the order of that name when it is one of them. */
void colfam_orders_test_register(const char *name);
/* Instead of bytewise, where such a key can have it. */
void colfam_orders_test_default(struct colfam_schema *schema);
/* A commit looks whether its keys are told apart (kv_check_order): some forty calls of the function a key,
** more than all else together. The flush and merges compare the keys anyway. */
#define COLFAM_ORDERS_TEST_COMMITS true
#else
#define COLFAM_ORDERS_TEST_COMMITS false
static inline void colfam_orders_test_register(const char *name) {
  (void)name;
}
static inline void colfam_orders_test_default(struct colfam_schema *schema) {
  (void)schema;
}
#endif

#endif
