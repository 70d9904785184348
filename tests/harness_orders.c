#include "harness_orders.h"

#include <stdint.h>

#include "harness_sql.h"

const struct colfam_api *orders_api(sqlite3 *db) {
  const struct colfam_api *api = NULL;
  sqlite3_stmt *statement;
  int rc = sqlite3_prepare_v2(db, "SELECT colfam_api(?1)", -1, &statement, NULL);
  ck_assert_int_eq(rc, SQLITE_OK);
  sqlite3_bind_pointer(statement, 1, (void *)&api, COLFAM_API_POINTER, NULL);
  ck_assert_int_eq(sqlite3_step(statement), SQLITE_ROW);
  ck_assert_int_eq(sqlite3_finalize(statement), SQLITE_OK);
  ck_assert_ptr_nonnull(api);
  return api;
}

void orders_register(sqlite3 *db, const struct colfam_order *order) {
  const struct colfam_api *api = orders_api(db);
  struct colfam_order sized = *order;
  char *message = NULL;
  sized.size = sizeof sized;
  int rc = api->register_order(api, &sized, &message);
  ck_assert_msg(rc == SQLITE_OK, "%s: %s", order->name, message);
}

static uint8_t turned(uint8_t byte) {
  uint8_t result = 0;
  for (int i = 0; i < 8; i++) result = (uint8_t)(result << 1 | (byte >> i & 1));
  return result;
}

int orders_encode_turned(void *context, const void *bytes, int size, void *into, int room) {
  (void)context;
  for (int i = 0; i < size && size <= room; i++)
    ((uint8_t *)into)[i] = turned(((const uint8_t *)bytes)[i]);
  return size;
}

int orders_encode_folded(void *context, const void *bytes, int size, void *into, int room) {
  (void)context;
  for (int i = 0; i < size && size <= room; i++) {
    uint8_t byte = ((const uint8_t *)bytes)[i];
    ((uint8_t *)into)[i] = byte >= 'A' && byte <= 'Z' ? byte | 0x20 : byte;
  }
  return size;
}

int orders_compare_backwards(void *context, const void *a, int a_size, const void *b, int b_size) {
  const uint8_t *x = a, *y = b;
  (void)context;
  for (int i = 1; i <= a_size && i <= b_size; i++) {
    int order = x[a_size - i] - y[b_size - i];
    if (order) return order;
  }
  return (a_size > b_size) - (a_size < b_size);
}
