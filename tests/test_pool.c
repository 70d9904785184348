/* Memory for decoded blocks: what is taken never overlaps, what is given back is used again, and empty
** regions go back to the system. */
#include "pool.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "env.h"
#include "harness.h"
#include "mem.h"

static struct kv_err err;

static struct kv_pool *new_pool(void) {
  struct kv_pool *pool;
  ck_assert_msg(kv_pool_new(&pool, &err) == KV_OK, "%s", err.text);
  return pool;
}

static void end_pool(struct kv_pool *pool) {
  kv_pool_free(pool);
  ck_assert_int_eq(kv_mem_live_blocks(), 0);
}

/* Bytes that are taken, all with the same value. */
struct piece {
  uint8_t *bytes;
  size_t size;
  uint8_t value;
};

static void take(struct kv_pool *pool, struct piece *piece, size_t size, uint8_t value) {
  *piece = (struct piece){kv_pool_take(pool, size), size, value};
  if (!piece->bytes) abort();
  memset(piece->bytes, value, size);
}

/* Whether its bytes are still as they were written. */
static bool give(struct kv_pool *pool, struct piece *piece) {
  bool sound = true;
  for (size_t i = 0; i < piece->size; i++) sound = sound && piece->bytes[i] == piece->value;
  kv_pool_give(pool, piece->bytes, piece->size);
  piece->bytes = NULL;
  return sound;
}

static size_t some_size(struct harness_random *random) {
  switch (harness_below(random, 8)) {
    case 0:
      return harness_below(random, 700);
    case 1:
      return harness_below(random, 2 * KV_REGION_BYTES / 8);
    case 2:
      return KV_REGION_BYTES / 8 + harness_below(random, 2);
    default:
      return 16000 + harness_below(random, 2000);
  }
}

enum { HELD = 400 };

static bool churn(struct kv_pool *pool, uint64_t seed, int rounds) {
  struct piece pieces[HELD] = {{NULL, 0, 0}};
  struct harness_random random;
  bool sound = true;
  harness_seed(&random, seed);
  for (int i = 0; i < rounds; i++) {
    struct piece *piece = &pieces[harness_below(&random, HELD)];
    if (piece->bytes)
      sound = give(pool, piece) && sound;
    else
      take(pool, piece, some_size(&random), (uint8_t)i);
  }
  for (int i = 0; i < HELD; i++) {
    if (pieces[i].bytes) sound = give(pool, &pieces[i]) && sound;
  }
  return sound;
}

START_TEST(what_is_taken_never_overlaps) {
  struct kv_pool *pool = new_pool();
  ck_assert(churn(pool, (uint64_t)_i, 4000));
  ck_assert_uint_le(kv_pool_bytes(pool), KV_REGION_BYTES);
  end_pool(pool);
}
END_TEST

/* All of them filled with blocks of one size, each second one given back: there is room for as many shorter
** ones, and for no longer one. */
START_TEST(gaps_are_filled_before_memory_grows) {
  enum { COUNT = 1000, SIZE = 16384 };
  static struct piece pieces[COUNT];
  struct kv_pool *pool = new_pool();
  for (int i = 0; i < COUNT; i++) take(pool, &pieces[i], SIZE, (uint8_t)i);
  size_t held = kv_pool_bytes(pool);
  for (int i = 0; i < COUNT; i += 2) ck_assert(give(pool, &pieces[i]));
  ck_assert_uint_eq(kv_pool_bytes(pool), held);
  for (int i = 0; i < COUNT; i += 2) take(pool, &pieces[i], SIZE - 100, (uint8_t)i);
  ck_assert_uint_eq(kv_pool_bytes(pool), held);
  for (int i = 0; i < COUNT; i += 2) ck_assert(give(pool, &pieces[i]));
  for (int i = 0; i < COUNT; i += 2) take(pool, &pieces[i], SIZE + 1024, (uint8_t)i);
  if (kv_has_regions()) ck_assert_uint_gt(kv_pool_bytes(pool), held);
  for (int i = 0; i < COUNT; i++) ck_assert(give(pool, &pieces[i]));
  end_pool(pool);
}
END_TEST

START_TEST(empty_regions_go_back_but_for_one) {
  enum { COUNT = 1000, SIZE = 16384 };
  static struct piece pieces[COUNT];
  struct kv_pool *pool = new_pool();
  ck_assert_uint_eq(kv_pool_bytes(pool), 0);
  for (int round = 0; round < 3; round++) {
    for (int i = 0; i < COUNT; i++) take(pool, &pieces[i], SIZE, (uint8_t)i);
    if (kv_has_regions()) {
      ck_assert_uint_ge(kv_pool_bytes(pool), COUNT * SIZE);
      ck_assert_uint_le(kv_pool_bytes(pool), COUNT * SIZE + COUNT * SIZE / 50 + KV_REGION_BYTES);
    }
    for (int i = 0; i < COUNT; i++) ck_assert(give(pool, &pieces[round == 1 ? COUNT - 1 - i : i]));
    ck_assert_uint_le(kv_pool_bytes(pool), KV_REGION_BYTES);
  }
  end_pool(pool);
}
END_TEST

START_TEST(nothing_taken_and_nothing_given) {
  struct kv_pool *pool = new_pool();
  struct piece a, b;
  take(pool, &a, 0, 1);
  take(pool, &b, 0, 1);
  ck_assert_ptr_ne(a.bytes, b.bytes);
  kv_pool_give(pool, NULL, 0);
  kv_pool_give(pool, NULL, 100);
  kv_pool_give(pool, NULL, KV_REGION_BYTES);
  ck_assert(give(pool, &a));
  ck_assert(give(pool, &b));
  kv_pool_free(NULL);
  end_pool(pool);
}
END_TEST

START_TEST(each_take_may_fail) {
  struct kv_pool *pool = new_pool();
  struct piece piece;
  for (size_t size = 10; size < 4 * KV_REGION_BYTES; size *= 8) {
    kv_mem_fail_nth(1, 0);
    ck_assert_ptr_null(kv_pool_take(pool, size));
    kv_mem_fail_nth(0, 0);
    take(pool, &piece, size, 7);
    ck_assert(give(pool, &piece));
  }
  end_pool(pool);
}
END_TEST

/* Whose list of regions cannot grow. */
START_TEST(no_room_for_one_more_region_is_no_memory) {
  enum { COUNT = 4 * 7, SIZE = KV_REGION_BYTES / 8 };
  struct kv_pool *pool = new_pool();
  struct piece pieces[COUNT];
  for (int i = 0; i < COUNT; i++) take(pool, &pieces[i], SIZE, (uint8_t)i);
  if (kv_has_regions()) {
    ck_assert_uint_eq(kv_pool_bytes(pool), 4 * KV_REGION_BYTES);
    kv_mem_fail_nth(2, 0);
    ck_assert_ptr_null(kv_pool_take(pool, SIZE));
    kv_mem_fail_nth(0, 0);
    ck_assert_uint_eq(kv_pool_bytes(pool), 4 * KV_REGION_BYTES);
  }
  for (int i = 0; i < COUNT; i++) ck_assert(give(pool, &pieces[i]));
  end_pool(pool);
}
END_TEST

START_TEST(every_failing_allocation_of_new_is_nomem) {
  struct kv_pool *pool = NULL;
  kv_status status = KV_NOMEM;
  for (uint64_t nth = 1; status == KV_NOMEM; nth++) {
    kv_mem_fail_nth(nth, 0);
    status = kv_pool_new(&pool, &err);
    kv_mem_fail_nth(0, 0);
    if (status) ck_assert_int_eq(kv_mem_live_blocks(), 0);
    ck_assert_uint_lt(nth, 10);
  }
  ck_assert_int_eq(status, KV_OK);
  end_pool(pool);
}
END_TEST

enum { THREADS = 4 };

static void *use_pool(void *pool) {
  static char unsound;
  struct harness_random random;
  harness_seed(&random, (uint64_t)(uintptr_t)&random);
  return churn(pool, harness_next(&random), 1000) ? NULL : &unsound;
}

START_TEST(threads_share_one_pool) {
  struct kv_pool *pool = new_pool();
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, use_pool, pool);
  for (int i = 0; i < THREADS; i++) {
    void *unsound;
    pthread_join(threads[i], &unsound);
    ck_assert_ptr_null(unsound);
  }
  end_pool(pool);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("pool");
  TCase *tests = tcase_create("pool");
  tcase_set_timeout(tests, 60);
  tcase_add_loop_test(tests, what_is_taken_never_overlaps, 1, 5);
  tcase_add_test(tests, gaps_are_filled_before_memory_grows);
  tcase_add_test(tests, empty_regions_go_back_but_for_one);
  tcase_add_test(tests, nothing_taken_and_nothing_given);
  tcase_add_test(tests, each_take_may_fail);
  tcase_add_test(tests, no_room_for_one_more_region_is_no_memory);
  tcase_add_test(tests, every_failing_allocation_of_new_is_nomem);
  tcase_add_test(tests, threads_share_one_pool);
  suite_add_tcase(suite, tests);
  return harness_run(suite);
}
