/* The heap, its faults on demand, and the arena. */
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

START_TEST(arena_release_of_unused_does_nothing) {
  struct kv_arena arena;
  kv_arena_init(&arena);
  ck_assert_uint_eq(arena.bytes, 0);
  kv_arena_rewind(&arena, kv_arena_mark(&arena));
  kv_arena_release(&arena);
  kv_arena_release(&arena);
}
END_TEST

static bool all_are(const uint8_t *bytes, size_t size, uint8_t byte) {
  for (size_t i = 0; i < size; i++) {
    if (bytes[i] != byte) return false;
  }
  return true;
}

/* Every allocation is filled with its own byte; at the end all must stand. */
START_TEST(arena_pointers_stay_good_and_aligned) {
  int64_t before = kv_mem_live_blocks();
  struct kv_arena arena;
  kv_arena_init(&arena);
  enum { N = 3000 };
  static uint8_t *parts[N];
  static size_t sizes[N];
  struct harness_random random;
  harness_seed(&random, 11);
  for (int i = 0; i < N; i++) {
    sizes[i] = harness_below(&random, i % 100 ? 300 : 20000);
    parts[i] = kv_arena_alloc(&arena, sizes[i]);
    ck_assert_ptr_nonnull(parts[i]);
    ck_assert_uint_eq((uintptr_t)parts[i] % 8, 0);
    memset(parts[i], i & 0xff, sizes[i]);
  }
  for (int i = 0; i < N; i++) {
    ck_assert(all_are(parts[i], sizes[i], i & 0xff));
  }
  kv_arena_release(&arena);
  ck_assert_uint_eq(arena.bytes, 0);
  ck_assert_int_eq(kv_mem_live_blocks(), before);
}
END_TEST

START_TEST(arena_chunks_double_up_to_a_limit) {
  struct kv_arena arena;
  kv_arena_init(&arena);
  size_t seen = 0;
  int chunks = 0;
  while (arena.bytes < (size_t)8 << 20) {
    if (!kv_arena_alloc(&arena, 64)) ck_abort_msg("memory");
    if (arena.bytes == seen) continue;
    size_t chunk = arena.bytes - seen;
    ck_assert_uint_ge(chunk, 4096);
    ck_assert_uint_le(chunk, (size_t)1 << 20);
    if (seen && seen <= (size_t)1 << 20) ck_assert_uint_eq(chunk, seen);
    seen = arena.bytes;
    chunks++;
  }
  ck_assert_int_lt(chunks, 20);
  kv_arena_release(&arena);
}
END_TEST

START_TEST(arena_large_request_has_a_chunk_of_its_size) {
  struct kv_arena arena;
  kv_arena_init(&arena);
  size_t size = (size_t)3 << 20;
  uint8_t *large = kv_arena_alloc(&arena, size);
  ck_assert_ptr_nonnull(large);
  memset(large, 7, size);
  ck_assert_uint_lt(arena.bytes, size + 100);
  uint8_t *small = kv_arena_alloc(&arena, 8);
  ck_assert_ptr_nonnull(small);
  memset(small, 8, 8);
  ck_assert_uint_eq(large[size - 1], 7);
  kv_arena_release(&arena);
}
END_TEST

START_TEST(arena_absurd_size_is_refused) {
  struct kv_arena arena;
  kv_arena_init(&arena);
  ck_assert_ptr_null(kv_arena_alloc(&arena, SIZE_MAX));
  ck_assert_ptr_null(kv_arena_alloc(&arena, (size_t)PTRDIFF_MAX));
  ck_assert_uint_eq(arena.bytes, 0);
  ck_assert_ptr_nonnull(kv_arena_alloc(&arena, 0));
  kv_arena_release(&arena);
}
END_TEST

START_TEST(arena_rewind_frees_what_came_after_the_mark) {
  int64_t before = kv_mem_live_blocks();
  struct kv_arena arena;
  kv_arena_init(&arena);
  uint8_t *kept = kv_arena_alloc(&arena, 100);
  ck_assert_ptr_nonnull(kept);
  memset(kept, 5, 100);
  struct kv_arena_mark mark = kv_arena_mark(&arena);
  size_t bytes = arena.bytes;
  void *next = kv_arena_alloc(&arena, 16);
  for (int i = 0; i < 1000; i++) ck_assert_ptr_nonnull(kv_arena_alloc(&arena, 500));
  ck_assert_uint_gt(arena.bytes, bytes);
  kv_arena_rewind(&arena, mark);
  ck_assert_uint_eq(arena.bytes, bytes);
  ck_assert_uint_eq(kept[99], 5);
  ck_assert_ptr_eq(kv_arena_alloc(&arena, 16), next);
  kv_arena_release(&arena);
  ck_assert_int_eq(kv_mem_live_blocks(), before);
}
END_TEST

START_TEST(arena_rewind_to_empty_frees_all) {
  int64_t before = kv_mem_live_blocks();
  struct kv_arena arena;
  kv_arena_init(&arena);
  struct kv_arena_mark mark = kv_arena_mark(&arena);
  ck_assert_ptr_nonnull(kv_arena_alloc(&arena, 10));
  ck_assert_ptr_nonnull(kv_arena_alloc(&arena, 10000));
  kv_arena_rewind(&arena, mark);
  ck_assert_uint_eq(arena.bytes, 0);
  ck_assert_int_eq(kv_mem_live_blocks(), before);
  kv_arena_release(&arena);
}
END_TEST

START_TEST(arena_nested_marks_rewind_in_turn) {
  struct kv_arena arena;
  kv_arena_init(&arena);
  struct kv_arena_mark marks[50];
  uint8_t *parts[50];
  size_t bytes[50];
  for (int i = 0; i < 50; i++) {
    marks[i] = kv_arena_mark(&arena);
    bytes[i] = arena.bytes;
    parts[i] = kv_arena_alloc(&arena, 700);
    ck_assert_ptr_nonnull(parts[i]);
    memset(parts[i], i, 700);
  }
  for (int i = 49; i >= 0; i--) {
    kv_arena_rewind(&arena, marks[i]);
    ck_assert_uint_eq(arena.bytes, bytes[i]);
    if (i) ck_assert_uint_eq(parts[i - 1][699], i - 1);
  }
  kv_arena_release(&arena);
}
END_TEST

START_TEST(arena_failed_alloc_leaves_it_unchanged) {
  struct kv_arena arena;
  kv_arena_init(&arena);
  (void)kv_mem_fail_nth(1, 0);
  ck_assert_ptr_null(kv_arena_alloc(&arena, 10));
  ck_assert_uint_eq(arena.bytes, 0);
  uint8_t *first = kv_arena_alloc(&arena, 10);
  ck_assert_ptr_nonnull(first);
  size_t bytes = arena.bytes;
  (void)kv_mem_fail_nth(1, 0);
  ck_assert_ptr_null(kv_arena_alloc(&arena, 100000));
  ck_assert_uint_eq(arena.bytes, bytes);
  ck_assert_ptr_eq(kv_arena_alloc(&arena, 8), first + 16);
  (void)kv_mem_fail_nth(0, 0);
  kv_arena_release(&arena);
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
  TCase *arena = tcase_create("arena");
  tcase_add_test(arena, arena_release_of_unused_does_nothing);
  tcase_add_test(arena, arena_pointers_stay_good_and_aligned);
  tcase_add_test(arena, arena_chunks_double_up_to_a_limit);
  tcase_add_test(arena, arena_large_request_has_a_chunk_of_its_size);
  tcase_add_test(arena, arena_absurd_size_is_refused);
  tcase_add_test(arena, arena_rewind_frees_what_came_after_the_mark);
  tcase_add_test(arena, arena_rewind_to_empty_frees_all);
  tcase_add_test(arena, arena_nested_marks_rewind_in_turn);
  tcase_add_test(arena, arena_failed_alloc_leaves_it_unchanged);
  suite_add_tcase(suite, arena);
  return harness_run(suite);
}
