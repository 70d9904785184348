/* Counters and their names. */
#include "stats.h"

#include <pthread.h>
#include <string.h>

#include "harness.h"

START_TEST(add_moves_only_its_counter) {
  struct kv_stats stats = {0};
  for (int i = 0; i < KV_STAT_COUNT; i++) {
    kv_stats_add(&stats, (enum kv_stat)i, 1 + (uint64_t)i);
    kv_stats_add(&stats, (enum kv_stat)i, 100);
  }
  for (int i = 0; i < KV_STAT_COUNT; i++) {
    ck_assert_uint_eq(kv_stats_get(&stats, (enum kv_stat)i), 101 + (uint64_t)i);
  }
}
END_TEST

START_TEST(add_of_nothing_moves_nothing) {
  struct kv_stats stats = {0};
  kv_stats_add(&stats, KV_STAT_GETS, 0);
  ck_assert_uint_eq(kv_stats_get(&stats, KV_STAT_GETS), 0);
}
END_TEST

START_TEST(add_beyond_64_bits_wraps) {
  struct kv_stats stats = {0};
  kv_stats_add(&stats, KV_STAT_GETS, UINT64_MAX);
  kv_stats_add(&stats, KV_STAT_GETS, 3);
  ck_assert_uint_eq(kv_stats_get(&stats, KV_STAT_GETS), 2);
}
END_TEST

START_TEST(every_counter_is_described) {
  for (int i = 0; i < KV_STAT_COUNT; i++) {
    const struct kv_stat_info *info = kv_stat_info((enum kv_stat)i);
    ck_assert_ptr_nonnull(info);
    ck_assert_ptr_nonnull(info->name);
    ck_assert_uint_gt(strlen(info->unit), 0);
    ck_assert_uint_gt(strlen(info->text), 0);
    ck_assert_uint_eq(strspn(info->name, "abcdefghijklmnopqrstuvwxyz_"), strlen(info->name));
    ck_assert_ptr_null(strchr(info->text, '\n'));
  }
}
END_TEST

START_TEST(names_are_unique) {
  for (int a = 0; a < KV_STAT_COUNT; a++) {
    for (int b = a + 1; b < KV_STAT_COUNT; b++) {
      ck_assert_str_ne(kv_stat_info((enum kv_stat)a)->name, kv_stat_info((enum kv_stat)b)->name);
    }
  }
  ck_assert_str_eq(kv_stat_info(KV_STAT_GETS)->name, "gets");
  ck_assert_str_eq(kv_stat_info(KV_STAT_WIDENED_LOOKUPS)->name, "widened_lookups");
}
END_TEST

enum { THREADS = 4, ROUNDS = 50000 };

static void *count_up(void *arg) {
  for (int i = 0; i < ROUNDS; i++) kv_stats_add(arg, KV_STAT_CACHE_HITS, 1);
  return NULL;
}

START_TEST(counts_are_exact_over_threads) {
  struct kv_stats stats = {0};
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++) {
    ck_assert_int_eq(pthread_create(&threads[i], NULL, count_up, &stats), 0);
  }
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  ck_assert_uint_eq(kv_stats_get(&stats, KV_STAT_CACHE_HITS), THREADS * ROUNDS);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("stats");
  TCase *tests = tcase_create("stats");
  tcase_add_test(tests, add_moves_only_its_counter);
  tcase_add_test(tests, add_of_nothing_moves_nothing);
  tcase_add_test(tests, add_beyond_64_bits_wraps);
  tcase_add_test(tests, every_counter_is_described);
  tcase_add_test(tests, names_are_unique);
  tcase_add_test(tests, counts_are_exact_over_threads);
  suite_add_tcase(suite, tests);
  return harness_run(suite);
}
