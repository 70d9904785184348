/* The heap and its faults on demand. */
#include "mem.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "harness.h"

START_TEST(alloc_gives_writable_memory_and_counts_it) {
  int64_t before = kv_mem_live_blocks();
  char *a = kv_alloc(10, 10);
  char *b = kv_alloc_zero(10, 10);
  ck_assert_ptr_nonnull(a);
  ck_assert_ptr_nonnull(b);
  memset(a, 1, 100);
  for (int i = 0; i < 100; i++) ck_assert_int_eq(b[i], 0);
  ck_assert_int_eq(kv_mem_live_blocks(), before + 2);
  kv_free(a);
  kv_free(b);
  ck_assert_int_eq(kv_mem_live_blocks(), before);
}
END_TEST

START_TEST(alloc_of_nothing_can_be_freed) {
  int64_t before = kv_mem_live_blocks();
  void *a = kv_alloc(0, 8);
  void *b = kv_alloc_zero(8, 0);
  ck_assert_ptr_nonnull(a);
  ck_assert_ptr_nonnull(b);
  a = kv_realloc(a, 0, 0);
  ck_assert_ptr_nonnull(a);
  kv_free(a);
  kv_free(b);
  kv_free(NULL);
  ck_assert_int_eq(kv_mem_live_blocks(), before);
}
END_TEST

START_TEST(alloc_of_overflowing_product_is_refused) {
  int64_t before = kv_mem_live_blocks();
  size_t half = (size_t)1 << (sizeof(size_t) * 4);
  ck_assert_ptr_null(kv_alloc(half, half));
  ck_assert_ptr_null(kv_alloc(SIZE_MAX, 2));
  ck_assert_ptr_null(kv_alloc_zero(half + 1, half));
  ck_assert_ptr_null(kv_alloc(SIZE_MAX, 1));
  ck_assert_ptr_null(kv_alloc((size_t)PTRDIFF_MAX + 1, 1));
  char *kept = kv_alloc(1, 1);
  ck_assert_ptr_nonnull(kept);
  *kept = 'k';
  ck_assert_ptr_null(kv_realloc(kept, half, half));
  ck_assert_int_eq(*kept, 'k');
  kv_free(kept);
  ck_assert_int_eq(kv_mem_live_blocks(), before);
}
END_TEST

START_TEST(realloc_keeps_bytes_and_starts_from_nothing) {
  int64_t before = kv_mem_live_blocks();
  char *p = kv_realloc(NULL, 3, 1);
  ck_assert_ptr_nonnull(p);
  memcpy(p, "ab", 3);
  p = kv_realloc(p, 1000, 10);
  ck_assert_ptr_nonnull(p);
  ck_assert_str_eq(p, "ab");
  ck_assert_int_eq(kv_mem_live_blocks(), before + 1);
  kv_free(p);
  ck_assert_int_eq(kv_mem_live_blocks(), before);
}
END_TEST

START_TEST(fail_nth_fails_once) {
  (void)kv_mem_fail_nth(3, 0);
  void *got[4];
  for (int i = 0; i < 4; i++) got[i] = kv_alloc(1, 8);
  for (int i = 0; i < 4; i++) ck_assert_int_eq(got[i] == NULL, i == 2);
  for (int i = 0; i < 4; i++) kv_free(got[i]);
  ck_assert_uint_eq(kv_mem_fail_nth(0, 0), 4);
  ck_assert_uint_eq(kv_mem_fail_nth(0, 0), 0);
}
END_TEST

START_TEST(fail_nth_sticky_fails_ever_after) {
  (void)kv_mem_fail_nth(2, 1);
  void *first = kv_alloc(1, 8);
  ck_assert_ptr_nonnull(first);
  ck_assert_ptr_null(kv_alloc_zero(1, 8));
  ck_assert_ptr_null(kv_realloc(first, 2, 8));
  ck_assert_ptr_null(kv_realloc(NULL, 2, 8));
  ck_assert_uint_eq(kv_mem_fail_nth(0, 0), 4);
  void *later = kv_alloc(1, 8);
  ck_assert_ptr_nonnull(later);
  kv_free(first);
  kv_free(later);
}
END_TEST

enum { THREADS = 4, ROUNDS = 20000 };

static void *allocate_and_free(void *arg) {
  for (int i = 0; i < ROUNDS; i++) kv_free(kv_alloc(1, 16));
  return arg;
}

START_TEST(counts_are_exact_over_threads) {
  int64_t before = kv_mem_live_blocks();
  (void)kv_mem_fail_nth(0, 0);
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++) {
    ck_assert_int_eq(pthread_create(&threads[i], NULL, allocate_and_free, NULL), 0);
  }
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  ck_assert_uint_eq(kv_mem_fail_nth(0, 0), THREADS * ROUNDS);
  ck_assert_int_eq(kv_mem_live_blocks(), before);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("mem");
  TCase *heap = tcase_create("heap");
  tcase_add_test(heap, alloc_gives_writable_memory_and_counts_it);
  tcase_add_test(heap, alloc_of_nothing_can_be_freed);
  tcase_add_test(heap, alloc_of_overflowing_product_is_refused);
  tcase_add_test(heap, realloc_keeps_bytes_and_starts_from_nothing);
  tcase_add_test(heap, fail_nth_fails_once);
  tcase_add_test(heap, fail_nth_sticky_fails_ever_after);
  tcase_add_test(heap, counts_are_exact_over_threads);
  suite_add_tcase(suite, heap);
  return harness_run(suite);
}
