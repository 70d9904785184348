/* The orders of keys that programs have registered (colfam.h), by name: one list a process, as
** connections share families and background work has none. An order is in use while a schema or a family
** refers to it. Thread rule: any thread. */
#ifndef COLFAM_ORDERS_H
#define COLFAM_ORDERS_H

#include <stdbool.h>

#include "engine/kv.h"

#define COLFAM_ORDER_NAME_MAX 63 /* bytes */

/* Whether a name can be an order's: a letter, then letters, digits, "_", "-" and ".". */
bool colfam_order_name_is_sound(const char *name);

/* SQLITE_MISUSE for what cannot be, SQLITE_BUSY when there is one of that name (ASCII case ignored). After a
** failure the config's `free` is the caller's to call. */
int colfam_order_register(const struct kv_custom_config *config, char **message);
/* SQLITE_BUSY while it is in use, SQLITE_NOTFOUND when there is none. */
int colfam_order_unregister(const char *name, char **message);
/* One use for the caller; NULL when there is none. */
struct kv_custom *colfam_order_find(const char *name);

/* Around a fork, with the store's lock held: nobody is in the middle of a call. */
void colfam_orders_lock(void);
void colfam_orders_unlock(void);

#endif
