/* Slices and growing buffers. */
#include "buf.h"

#include <string.h>

#include "harness.h"
#include "mem.h"

static struct kv_slice text(const char *bytes) {
  return kv_slice_of(bytes, strlen(bytes));
}

static int sign(int x) {
  return (x > 0) - (x < 0);
}

START_TEST(compare_is_memcmp_with_prefix_first) {
  static const char *const sorted[] = {"", "\x01", "a", "aa", "ab", "b", "b\xff", "c", "\xff"};
  int n = sizeof sorted / sizeof *sorted;
  for (int i = 0; i < n; i++) {
    for (int j = 0; j < n; j++) {
      int expected = sign(i - j);
      ck_assert_int_eq(sign(kv_slice_compare(text(sorted[i]), text(sorted[j]))), expected);
      ck_assert_int_eq(kv_slice_equal(text(sorted[i]), text(sorted[j])), !expected);
    }
  }
}
END_TEST

START_TEST(empty_slices_without_data_are_equal) {
  struct kv_slice none = kv_slice_of(NULL, 0);
  ck_assert_int_eq(kv_slice_compare(none, none), 0);
  ck_assert_int_eq(kv_slice_compare(none, text("")), 0);
  ck_assert_int_lt(kv_slice_compare(none, text("a")), 0);
  ck_assert_int_gt(kv_slice_compare(text("a"), none), 0);
  ck_assert(kv_slice_equal(none, text("")));
  ck_assert(!kv_slice_equal(none, text("a")));
  ck_assert_uint_eq(kv_slice_shared_prefix(none, text("a")), 0);
}
END_TEST

START_TEST(compare_sees_bytes_after_zero) {
  ck_assert_int_lt(kv_slice_compare(kv_slice_of("a\0b", 3), kv_slice_of("a\0c", 3)), 0);
  ck_assert(!kv_slice_equal(kv_slice_of("a\0b", 3), kv_slice_of("a\0c", 3)));
}
END_TEST

/* Every length and position of the first difference, over the 8-byte steps. */
START_TEST(shared_prefix_ends_at_first_difference) {
  for (size_t size = 0; size <= 40; size++) {
    for (size_t differs = 0; differs <= size; differs++) {
      uint8_t a[40], b[40];
      memset(a, 'x', sizeof a);
      memset(b, 'x', sizeof b);
      if (differs < size) b[differs] = 'y';
      size_t shared = kv_slice_shared_prefix(kv_slice_of(a, size), kv_slice_of(b, size));
      ck_assert_uint_eq(shared, differs);
      shared = kv_slice_shared_prefix(kv_slice_of(a, size), kv_slice_of(a, differs));
      ck_assert_uint_eq(shared, differs);
    }
  }
}
END_TEST

START_TEST(append_collects_bytes) {
  int64_t before = kv_mem_live_blocks();
  struct kv_buf buf;
  kv_buf_init(&buf);
  kv_buf_append(&buf, "hello", 5);
  kv_buf_append_byte(&buf, ' ');
  kv_buf_append(&buf, NULL, 0);
  uint8_t *into = kv_buf_extend(&buf, 5);
  ck_assert_ptr_nonnull(into);
  memcpy(into, "world", 5);
  ck_assert_int_eq(buf.status, KV_OK);
  ck_assert(kv_slice_equal(kv_buf_slice(&buf), text("hello world")));
  kv_buf_release(&buf);
  ck_assert_ptr_null(buf.data);
  ck_assert_uint_eq(buf.size, 0);
  ck_assert_int_eq(kv_mem_live_blocks(), before);
}
END_TEST

START_TEST(extend_by_nothing_is_no_failure) {
  struct kv_buf buf;
  kv_buf_init(&buf);
  ck_assert_ptr_nonnull(kv_buf_extend(&buf, 0));
  ck_assert_uint_eq(buf.size, 0);
  kv_buf_release(&buf);
}
END_TEST

START_TEST(random_appends_equal_the_model) {
  uint64_t seed = harness_seed_env(21);
  struct harness_random random;
  harness_seed(&random, seed);
  static uint8_t model[200000];
  size_t size = 0;
  struct kv_buf buf;
  kv_buf_init(&buf);
  for (int i = 0; i < 1000; i++) {
    uint8_t bytes[200];
    size_t n = harness_below(&random, sizeof bytes);
    for (size_t j = 0; j < n; j++) bytes[j] = (uint8_t)harness_next(&random);
    kv_buf_append(&buf, bytes, n);
    memcpy(model + size, bytes, n);
    size += n;
  }
  ck_assert_int_eq(buf.status, KV_OK);
  ck_assert_msg(kv_slice_equal(kv_buf_slice(&buf), kv_slice_of(model, size)), "seed %llu",
                (unsigned long long)seed);
  kv_buf_release(&buf);
}
END_TEST

START_TEST(growth_is_amortised) {
  struct kv_buf buf;
  kv_buf_init(&buf);
  (void)kv_mem_fail_nth(0, 0);
  for (int i = 0; i < 1000000; i++) kv_buf_append_byte(&buf, (uint8_t)i);
  ck_assert_uint_lt(kv_mem_fail_nth(0, 0), 20);
  ck_assert_uint_eq(buf.size, 1000000);
  kv_buf_release(&buf);
}
END_TEST

START_TEST(reserve_makes_room_for_appends_that_cannot_fail) {
  struct kv_buf buf;
  kv_buf_init(&buf);
  kv_buf_append(&buf, "abc", 3);
  ck_assert_int_eq(kv_buf_reserve(&buf, 5000), KV_OK);
  (void)kv_mem_fail_nth(1, 1);
  for (int i = 0; i < 5000; i++) kv_buf_append_byte(&buf, 'x');
  (void)kv_mem_fail_nth(0, 0);
  ck_assert_int_eq(buf.status, KV_OK);
  ck_assert_uint_eq(buf.size, 5003);
  kv_buf_release(&buf);
}
END_TEST

START_TEST(failure_sticks_and_keeps_size) {
  struct kv_buf buf;
  kv_buf_init(&buf);
  kv_buf_append(&buf, "abc", 3);
  (void)kv_mem_fail_nth(1, 0);
  ck_assert_ptr_null(kv_buf_extend(&buf, 1000));
  ck_assert_int_eq(buf.status, KV_NOMEM);
  kv_buf_append_byte(&buf, 'd');
  ck_assert_int_eq(kv_buf_reserve(&buf, 1), KV_NOMEM);
  ck_assert_ptr_null(kv_buf_extend(&buf, 0));
  ck_assert(kv_slice_equal(kv_buf_slice(&buf), text("abc")));
  kv_buf_clear(&buf);
  ck_assert_int_eq(buf.status, KV_OK);
  kv_buf_append(&buf, "new", 3);
  ck_assert(kv_slice_equal(kv_buf_slice(&buf), text("new")));
  kv_buf_release(&buf);
}
END_TEST

START_TEST(impossible_sizes_are_nomem) {
  struct kv_buf buf;
  kv_buf_init(&buf);
  kv_buf_append(&buf, "abc", 3);
  ck_assert_int_eq(kv_buf_reserve(&buf, SIZE_MAX), KV_NOMEM);
  kv_buf_clear(&buf);
  ck_assert_int_eq(kv_buf_reserve(&buf, SIZE_MAX - 2), KV_NOMEM);
  kv_buf_clear(&buf);
  ck_assert_int_eq(kv_buf_reserve(&buf, 1), KV_OK);
  kv_buf_release(&buf);
}
END_TEST

START_TEST(clear_keeps_the_memory) {
  struct kv_buf buf;
  kv_buf_init(&buf);
  kv_buf_append(&buf, "abc", 3);
  const uint8_t *data = buf.data;
  kv_buf_clear(&buf);
  ck_assert_uint_eq(buf.size, 0);
  kv_buf_append(&buf, "x", 1);
  ck_assert_ptr_eq(buf.data, data);
  kv_buf_release(&buf);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("buf");
  TCase *tests = tcase_create("buf");
  tcase_add_test(tests, compare_is_memcmp_with_prefix_first);
  tcase_add_test(tests, empty_slices_without_data_are_equal);
  tcase_add_test(tests, compare_sees_bytes_after_zero);
  tcase_add_test(tests, shared_prefix_ends_at_first_difference);
  tcase_add_test(tests, append_collects_bytes);
  tcase_add_test(tests, extend_by_nothing_is_no_failure);
  tcase_add_test(tests, random_appends_equal_the_model);
  tcase_add_test(tests, growth_is_amortised);
  tcase_add_test(tests, reserve_makes_room_for_appends_that_cannot_fail);
  tcase_add_test(tests, failure_sticks_and_keeps_size);
  tcase_add_test(tests, impossible_sizes_are_nomem);
  tcase_add_test(tests, clear_keeps_the_memory);
  suite_add_tcase(suite, tests);
  return harness_run(suite);
}
