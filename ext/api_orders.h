/* The functions of colfam.h for orders of keys. Thread rule: any thread. */
#ifndef COLFAM_API_ORDERS_H
#define COLFAM_API_ORDERS_H

#include "colfam.h"

int colfam_api_register_order(const struct colfam_api *api, const struct colfam_order *order,
                              char **message);
int colfam_api_unregister_order(const struct colfam_api *api, const char *name, char **message);
int colfam_api_check_order(const struct colfam_api *api, const char *name,
                           const struct colfam_value *values, int count, char **message);

#endif
