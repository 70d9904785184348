/* See orders_test.h. `test-encoder` turns the bits of each byte round and loses nothing; `test-folding`
** loses the case of ASCII letters; `test-backwards` compares from the last byte on, longer keys of equal
** ends behind. Thread rule: any thread. */
#include "orders_test.h"

#ifdef COLFAM_TEST

#include <stdlib.h>
#include <string.h>

#include "orders.h"
#include "sqlite_api.h"

static uint8_t turn_bits(uint8_t byte) {
  uint8_t turned = 0;
  for (int i = 0; i < 8; i++) turned = (uint8_t)(turned << 1 | (byte >> i & 1));
  return turned;
}

static uint8_t fold_case(uint8_t byte) {
  return byte >= 'A' && byte <= 'Z' ? byte | 0x20 : byte;
}

static int encode(void *context, const void *bytes, int size, void *into, int room) {
  uint8_t (*const *map)(uint8_t byte) = context;
  for (int i = 0; i < size && size <= room; i++)
    ((uint8_t *)into)[i] = (*map)(((const uint8_t *)bytes)[i]);
  return size;
}

static int compare_backwards(void *context, const void *a, int a_size, const void *b, int b_size) {
  const uint8_t *x = a, *y = b;
  (void)context;
  for (int i = 1; i <= a_size && i <= b_size; i++) {
    int order = x[a_size - i] - y[b_size - i];
    if (order) return order;
  }
  return (a_size > b_size) - (a_size < b_size);
}

void colfam_orders_test_register(const char *name) {
  char *message = NULL;
  static uint8_t (*turning)(uint8_t byte) = turn_bits;
  static uint8_t (*folding)(uint8_t byte) = fold_case;
  const struct kv_custom_config all[] = {
      {.name = "test-encoder", .context = &turning, .encode = encode},
      {.name = "test-folding", .context = &folding, .encode = encode},
      {.name = "test-backwards", .compare = compare_backwards, .copies = true, .copy_bytes = 64}};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (strcmp(name, all[i].name) == 0) (void)colfam_order_register(&all[i], &message);
  sqlite3_free(message);
}

void colfam_orders_test_default(struct colfam_schema *schema) {
  struct colfam_options *options = &schema->options;
  const char *name = getenv("COLFAM_TEST_COMPARATOR");
  if (!name || !*name || strcmp(options->comparator, "bytewise") != 0) return;
  sqlite3_snprintf(sizeof options->comparator, options->comparator, "%s", name);
}

#endif
