/* The blocked Bloom filter: never a false negative, a false-positive rate near theory, and no trust in
** its bytes. */
#include "filter.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "code.h"
#include "harness.h"
#include "hash.h"
#include "mem.h"

#define LINE 64

static struct kv_err err;

static uint64_t hash_of(uint64_t number) {
  return kv_hash_key(kv_slice_of(&number, sizeof number));
}

/* The filter of hash_of(0 .. n-1). */
static void build(struct kv_buf *bytes, size_t n, int bits) {
  uint64_t *hashes = malloc((n + 1) * sizeof *hashes);
  for (size_t i = 0; i < n; i++) hashes[i] = hash_of(i);
  kv_buf_init(bytes);
  ck_assert_int_eq(kv_filter_build(hashes, n, bits, bytes, &err), KV_OK);
  free(hashes);
}

START_TEST(added_keys_are_never_denied) {
  static const size_t counts[] = {1, 2, 51, 52, 500, 20000};
  for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
    for (int bits = 1; bits <= 20; bits++) {
      struct kv_buf bytes;
      struct kv_filter filter;
      build(&bytes, counts[c], bits);
      ck_assert_int_eq(kv_filter_init(&filter, kv_buf_slice(&bytes), &err), KV_OK);
      for (size_t i = 0; i < counts[c]; i++) {
        ck_assert_msg(kv_filter_may_contain(&filter, hash_of(i)), "%zu of %zu, %d bits", i,
                      counts[c], bits);
      }
      kv_buf_release(&bytes);
    }
  }
}
END_TEST

/* The rate of a plain Bloom filter; lines that got more than their share cost the blocked one some. */
static double plain_rate(int bits) {
  int probes = bits * 69 / 100 < 1 ? 1 : bits * 69 / 100;
  return pow(1 - exp(-(double)probes / bits), probes);
}

START_TEST(false_positive_rate_is_near_theory) {
  enum { KEYS = 50000, ASKED = 200000 };
  for (int bits = 1; bits <= 20; bits++) {
    struct kv_buf bytes;
    struct kv_filter filter;
    build(&bytes, KEYS, bits);
    ck_assert_int_eq(kv_filter_init(&filter, kv_buf_slice(&bytes), &err), KV_OK);
    size_t wrong = 0;
    for (uint64_t i = 0; i < ASKED; i++) {
      wrong += kv_filter_may_contain(&filter, hash_of(1000000 + i));
    }
    double rate = (double)wrong / ASKED, plain = plain_rate(bits);
    ck_assert_msg(rate < plain * 1.5 + 0.001, "%d bits: %g, plain %g", bits, rate, plain);
    ck_assert_msg(rate > plain * 0.5 - 0.001, "%d bits: %g, plain %g", bits, rate, plain);
    kv_buf_release(&bytes);
  }
}
END_TEST

START_TEST(many_answers_equal_single_answers) {
  struct kv_buf bytes;
  struct kv_filter filter;
  build(&bytes, 3000, 6);
  ck_assert_int_eq(kv_filter_init(&filter, kv_buf_slice(&bytes), &err), KV_OK);
  const struct kv_filter none = {0};
  const struct kv_filter *filters[200];
  uint64_t hashes[200];
  bool maybe[200];
  for (size_t i = 0; i < 200; i++) {
    hashes[i] = hash_of(i * 29);
    filters[i] = i % 7 ? &filter : &none;
  }
  for (size_t n = 0; n <= 200; n++) {
    memset(maybe, 2, sizeof maybe);
    kv_filter_may_contain_many(filters, hashes, n, maybe);
    for (size_t i = 0; i < n; i++) {
      ck_assert_int_eq(maybe[i], kv_filter_may_contain(filters[i], hashes[i]));
    }
  }
  kv_buf_release(&bytes);
}
END_TEST

START_TEST(no_filter_lets_everything_through) {
  struct kv_filter filter;
  const struct kv_filter *filters[3] = {&filter, &filter, &filter};
  uint64_t hashes[3] = {0, 1, UINT64_MAX};
  bool maybe[3] = {false, false, false};
  ck_assert_int_eq(kv_filter_init(&filter, kv_slice_of(NULL, 0), &err), KV_OK);
  ck_assert(kv_filter_may_contain(&filter, 7));
  kv_filter_may_contain_many(filters, hashes, 3, maybe);
  ck_assert(maybe[0] && maybe[1] && maybe[2]);
}
END_TEST

START_TEST(filter_of_no_keys_denies_everything) {
  struct kv_buf bytes;
  struct kv_filter filter;
  build(&bytes, 0, 10);
  ck_assert_uint_eq(bytes.size, 2 * LINE);
  ck_assert_int_eq(kv_filter_init(&filter, kv_buf_slice(&bytes), &err), KV_OK);
  for (uint64_t i = 0; i < 1000; i++) ck_assert(!kv_filter_may_contain(&filter, hash_of(i)));
  kv_buf_release(&bytes);
}
END_TEST

START_TEST(extreme_hashes_stay_inside) {
  static const uint64_t hashes[] = {0, 1, UINT32_MAX, (uint64_t)UINT32_MAX << 32, UINT64_MAX};
  struct kv_buf bytes;
  struct kv_filter filter;
  kv_buf_init(&bytes);
  ck_assert_int_eq(kv_filter_build(hashes, 5, 20, &bytes, &err), KV_OK);
  ck_assert_int_eq(kv_filter_init(&filter, kv_buf_slice(&bytes), &err), KV_OK);
  for (size_t i = 0; i < 5; i++) ck_assert(kv_filter_may_contain(&filter, hashes[i]));
  kv_buf_release(&bytes);
}
END_TEST

START_TEST(size_is_bits_per_key) {
  for (int bits = 1; bits <= 20; bits++) {
    struct kv_buf bytes;
    build(&bytes, 10000, bits);
    size_t wanted = (size_t)(10000 * bits) / 8;
    ck_assert_uint_ge(bytes.size, wanted);
    ck_assert_uint_le(bytes.size, wanted + 3 * LINE);
    kv_buf_release(&bytes);
  }
}
END_TEST

START_TEST(bits_out_of_range_are_misuse) {
  struct kv_buf out;
  uint64_t hash = 1;
  kv_buf_init(&out);
  ck_assert_int_eq(kv_filter_build(&hash, 1, 0, &out, &err), KV_MISUSE);
  ck_assert_int_eq(kv_filter_build(&hash, 1, 21, &out, &err), KV_MISUSE);
  ck_assert_int_eq(kv_filter_build(&hash, 1, -1, &out, &err), KV_MISUSE);
  ck_assert_uint_eq(out.size, 0);
}
END_TEST

START_TEST(build_appends_behind_what_is_there) {
  struct kv_buf out;
  uint64_t hash = hash_of(1);
  kv_buf_init(&out);
  kv_buf_append(&out, "before", 6);
  ck_assert_int_eq(kv_filter_build(&hash, 1, 10, &out, &err), KV_OK);
  ck_assert_mem_eq(out.data, "before", 6);
  struct kv_filter filter;
  ck_assert_int_eq(kv_filter_init(&filter, kv_slice_of(out.data + 6, out.size - 6), &err), KV_OK);
  ck_assert(kv_filter_may_contain(&filter, hash));
  kv_buf_release(&out);
}
END_TEST

START_TEST(every_cut_is_corrupt) {
  struct kv_buf bytes;
  struct kv_filter filter;
  build(&bytes, 300, 10);
  for (size_t size = 1; size < bytes.size; size++) {
    ck_assert_int_eq(kv_filter_init(&filter, kv_slice_of(bytes.data, size), &err), KV_CORRUPT);
    ck_assert_ptr_null(filter.lines);
  }
  kv_buf_release(&bytes);
}
END_TEST

/* A changed header is refused or harmless: no answer reads outside the bytes. */
START_TEST(every_changed_header_byte_is_safe) {
  struct kv_buf bytes;
  struct kv_filter filter;
  build(&bytes, 300, 10);
  uint8_t *copy = malloc(bytes.size);
  for (size_t at = 0; at < LINE; at++) {
    for (int value = 0; value < 256; value++) {
      memcpy(copy, bytes.data, bytes.size);
      copy[at] = (uint8_t)value;
      if (kv_filter_init(&filter, kv_slice_of(copy, bytes.size), &err)) continue;
      for (uint64_t i = 0; i < 50; i++) (void)kv_filter_may_contain(&filter, hash_of(i));
    }
  }
  free(copy);
  kv_buf_release(&bytes);
}
END_TEST

START_TEST(header_fields_out_of_range_are_refused) {
  struct kv_buf bytes;
  struct kv_filter filter;
  build(&bytes, 10, 10);
  struct kv_slice all = kv_buf_slice(&bytes);
  bytes.data[0] = 2;
  ck_assert_int_eq(kv_filter_init(&filter, all, &err), KV_VERSION);
  bytes.data[0] = 1;
  bytes.data[1] = 0;
  ck_assert_int_eq(kv_filter_init(&filter, all, &err), KV_CORRUPT);
  bytes.data[1] = 15;
  ck_assert_int_eq(kv_filter_init(&filter, all, &err), KV_CORRUPT);
  bytes.data[1] = 6;
  kv_put_u32(bytes.data + 4, 0);
  ck_assert_int_eq(kv_filter_init(&filter, all, &err), KV_CORRUPT);
  kv_put_u32(bytes.data + 4, UINT32_MAX);
  ck_assert_int_eq(kv_filter_init(&filter, all, &err), KV_CORRUPT);
  kv_buf_release(&bytes);
}
END_TEST

START_TEST(out_of_memory_leaves_the_buffer_as_it_was) {
  struct kv_buf out;
  uint64_t hash = 1;
  kv_buf_init(&out);
  kv_mem_fail_nth(1, 0);
  ck_assert_int_eq(kv_filter_build(&hash, 1, 10, &out, &err), KV_NOMEM);
  kv_mem_fail_nth(0, 0);
  ck_assert_uint_eq(out.size, 0);
  ck_assert_int_eq(kv_mem_live_blocks(), 0);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("filter");
  TCase *tests = tcase_create("filter");
  tcase_set_timeout(tests, 60);
  tcase_add_test(tests, added_keys_are_never_denied);
  tcase_add_test(tests, false_positive_rate_is_near_theory);
  tcase_add_test(tests, many_answers_equal_single_answers);
  tcase_add_test(tests, no_filter_lets_everything_through);
  tcase_add_test(tests, filter_of_no_keys_denies_everything);
  tcase_add_test(tests, extreme_hashes_stay_inside);
  tcase_add_test(tests, size_is_bits_per_key);
  tcase_add_test(tests, bits_out_of_range_are_misuse);
  tcase_add_test(tests, build_appends_behind_what_is_there);
  tcase_add_test(tests, every_cut_is_corrupt);
  tcase_add_test(tests, every_changed_header_byte_is_safe);
  tcase_add_test(tests, header_fields_out_of_range_are_refused);
  tcase_add_test(tests, out_of_memory_leaves_the_buffer_as_it_was);
  suite_add_tcase(suite, tests);
  return harness_run(suite);
}
