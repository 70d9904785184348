/* Orders of keys for tests, as a program in C registers them. */
#ifndef HARNESS_ORDERS_H
#define HARNESS_ORDERS_H

#include "ext/colfam.h"

/* The functions of colfam.h over this connection. */
const struct colfam_api *orders_api(sqlite3 *db);
/* Must work. */
void orders_register(sqlite3 *db, const struct colfam_order *order);

/* A sort key with the bits of each byte turned round: another order, and nothing is lost. */
int orders_encode_turned(void *context, const void *bytes, int size, void *into, int room);
/* A sort key in which A-Z are a-z. */
int orders_encode_folded(void *context, const void *bytes, int size, void *into, int room);
/* From the last byte on; of two keys with equal ends the shorter first. */
int orders_compare_backwards(void *context, const void *a, int a_size, const void *b, int b_size);

#endif
