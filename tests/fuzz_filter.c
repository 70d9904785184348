/* Filters. Of any hashes: each of them may be contained, at every size. Of any bytes: refused, or of the size
** they say, and one question is answered like many. */
#include <stdlib.h>

#include "code.h"
#include "filter.h"
#include "harness_fuzz.h"

enum { HASHES_MAX = 400 };

struct hashes {
  uint64_t items[HASHES_MAX];
  size_t count;
};

static void take_hashes(struct fuzz *in, struct hashes *hashes) {
  hashes->count = 0;
  while (fuzz_left(in) && hashes->count < HASHES_MAX)
    hashes->items[hashes->count++] = fuzz_number(in, 8);
}

/* How many may be contained, asked one by one and all at once. */
static size_t count_contained(const struct kv_filter *filter, const struct hashes *hashes) {
  const struct kv_filter *filters[HASHES_MAX];
  bool maybe[HASHES_MAX];
  size_t contained = 0;
  for (size_t i = 0; i < hashes->count; i++) filters[i] = filter;
  kv_filter_may_contain_many(filters, hashes->items, hashes->count, maybe);
  for (size_t i = 0; i < hashes->count; i++) {
    ck_assert_int_eq(maybe[i], kv_filter_may_contain(filter, hashes->items[i]));
    contained += maybe[i];
  }
  return contained;
}

static void run_built(struct fuzz *in) {
  struct hashes hashes;
  struct kv_buf bytes;
  struct kv_filter filter;
  kv_buf_init(&bytes);
  int bits = fuzz_byte(in) % 24;
  take_hashes(in, &hashes);
  kv_status status = kv_filter_build(hashes.items, hashes.count, bits, &bytes, NULL);
  ck_assert_int_eq(status, bits < 1 || bits > 20 ? KV_MISUSE : KV_OK);
  if (!status) {
    ck_assert_int_eq(kv_filter_init(&filter, kv_buf_slice(&bytes), NULL), KV_OK);
    ck_assert_uint_eq(count_contained(&filter, &hashes), hashes.count);
  }
  kv_buf_release(&bytes);
}

static void run_bytes(struct fuzz *in) {
  struct hashes hashes = {.items = {0, UINT64_MAX, UINT32_MAX, 1ULL << 32}, .count = 4};
  for (; hashes.count < 40; hashes.count++)
    hashes.items[hashes.count] = hashes.items[hashes.count - 1] * 0x9e3779b97f4a7c15u + 1;
  struct kv_slice bytes = fuzz_rest(in);
  struct kv_filter filter;
  kv_status status = kv_filter_init(&filter, bytes, NULL);
  ck_assert(status == KV_OK || status == KV_CORRUPT || status == KV_VERSION);
  if (status) return;
  size_t contained = count_contained(&filter, &hashes);
  if (!bytes.size) ck_assert_uint_eq(contained, hashes.count);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct fuzz in = fuzz_begin(data, size);
  if (fuzz_byte(&in) & 1) {
    run_bytes(&in);
  } else {
    run_built(&in);
  }
  return 0;
}

/* ---- Seeds: hashes to build of, and filters built */

static void seed_filter(const struct hashes *hashes, int bits) {
  struct kv_buf input;
  kv_buf_init(&input);
  kv_buf_append_byte(&input, 1);
  ck_assert_int_eq(kv_filter_build(hashes->items, hashes->count, bits, &input, NULL), KV_OK);
  fuzz_seed(kv_buf_slice(&input));
  kv_buf_clear(&input);
  kv_buf_append(&input, (const uint8_t[]){0, (uint8_t)bits}, 2);
  for (size_t i = 0; i < hashes->count; i++) kv_buf_append_u64(&input, hashes->items[i]);
  fuzz_seed(kv_buf_slice(&input));
  kv_buf_release(&input);
}

void fuzz_seeds(void) {
  struct harness_random random;
  struct hashes hashes = {.count = 60};
  harness_seed(&random, 1);
  for (size_t i = 0; i < hashes.count; i++) hashes.items[i] = harness_next(&random);
  seed_filter(&hashes, 20);
  hashes.count = 3;
  seed_filter(&hashes, 1);
  seed_filter(&hashes, 10);
}
