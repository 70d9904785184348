/* Puts whose rows are counted later: what the batch says after the keys were looked up is what a model
** counts, whatever was written, marked, rolled back and looked up in between; and no allocation that fails
** changes it. COLFAM_SEED sets the seed. */
#include "uncounted.h"

#include <stdio.h>
#include <string.h>

#include "batch.h"
#include "harness.h"
#include "hash.h"
#include "mem.h"

enum { KEYS = 300, MARKS = 6 };

struct state {
  bool there[KEYS]; /* as the batch over what is below shows it */
};

struct world {
  struct harness_random random;
  struct kv_batch *batch;
  bool below[KEYS];
  struct state now, marked[MARKS];
  struct kv_batch_mark marks[MARKS];
  size_t depth;
};

static struct kv_slice key_of(size_t key) {
  static char texts[KEYS][32];
  if (key) snprintf(texts[key], sizeof texts[key], "key %zu", key);
  return kv_slice_of(texts[key], strlen(texts[key]));
}

static size_t key_in(struct kv_slice text) {
  size_t key = 0;
  for (size_t i = 4; i < text.size; i++) key = key * 10 + (size_t)(text.data[i] - '0');
  return key;
}

static void look_up(struct world *world) {
  static struct kv_slice keys[KV_UNCOUNTED_MAX];
  static uint64_t hashes[KV_UNCOUNTED_MAX];
  static bool found[KV_UNCOUNTED_MAX];
  size_t n = kv_batch_uncounted(world->batch), half = n / 2;
  kv_batch_uncounted_keys(world->batch, 0, half, keys, hashes);
  kv_batch_uncounted_keys(world->batch, half, n - half, keys + half, hashes + half);
  for (size_t i = 0; i < n; i++) {
    ck_assert_uint_eq(hashes[i], kv_hash_key(keys[i]));
    found[i] = world->below[key_in(keys[i])];
  }
  ck_assert_int_eq(kv_batch_count_rows(world->batch, found, NULL), KV_OK);
  ck_assert_uint_eq(kv_batch_uncounted(world->batch), 0);
}

static void expect_count(struct world *world) {
  int64_t rows = 0;
  look_up(world);
  for (size_t i = 0; i < KEYS; i++) rows += world->now.there[i] - world->below[i];
  ck_assert_int_eq(kv_batch_rows_delta(world->batch), rows);
}

static void write_one(struct world *world) {
  size_t key = (size_t)harness_below(&world->random, KEYS);
  bool there = world->now.there[key];
  kv_status status = KV_OK;
  switch (harness_below(&world->random, 4)) {
    case 0:
      if (there) status = kv_batch_delete(world->batch, key_of(key), -1, NULL);
      world->now.there[key] = false;
      break;
    case 1:
      status = kv_batch_put(world->batch, key_of(key), key_of(0), !there, NULL);
      world->now.there[key] = true;
      break;
    default:
      status = kv_batch_put_uncounted(world->batch, key_of(key), key_of(0), NULL);
      world->now.there[key] = true;
      break;
  }
  ck_assert_int_eq(status, KV_OK);
}

static void mark_or_roll_back(struct world *world) {
  if (world->depth < MARKS && harness_below(&world->random, 2)) {
    world->marks[world->depth] = kv_batch_mark(world->batch);
    world->marked[world->depth++] = world->now;
  } else if (world->depth) {
    world->depth = (size_t)harness_below(&world->random, world->depth);
    world->now = world->marked[world->depth];
    kv_batch_rollback(world->batch, world->marks[world->depth]);
  }
}

static void begin(struct world *world, uint64_t seed) {
  memset(world, 0, sizeof *world);
  harness_seed(&world->random, seed);
  ck_assert_int_eq(kv_batch_new(NULL, &world->batch, NULL), KV_OK);
  for (size_t i = 0; i < KEYS; i++)
    world->below[i] = world->now.there[i] = harness_below(&world->random, 2);
}

START_TEST(counts_are_right_whatever_is_undone_between) {
  static struct world world;
  begin(&world, harness_seed_env(7) + (uint64_t)_i);
  for (int step = 0; step < 20000; step++) {
    uint64_t kind = harness_below(&world.random, 100);
    if (kind < 80)
      write_one(&world);
    else if (kind < 94)
      mark_or_roll_back(&world);
    else if (kind < 97)
      look_up(&world);
    else
      expect_count(&world);
    if (kv_batch_uncounted(world.batch) == KV_UNCOUNTED_MAX) look_up(&world);
  }
  expect_count(&world);
  kv_batch_rollback(world.batch, (struct kv_batch_mark){0});
  ck_assert_int_eq(kv_batch_rows_delta(world.batch), 0);
  ck_assert_uint_eq(kv_batch_uncounted(world.batch), 0);
  kv_batch_unref(world.batch);
}
END_TEST

START_TEST(as_many_wait_as_may_and_no_more) {
  struct kv_batch *batch;
  char key[16];
  bool found[KV_UNCOUNTED_MAX] = {true};
  ck_assert_int_eq(kv_batch_new(NULL, &batch, NULL), KV_OK);
  for (int i = 0; i <= KV_UNCOUNTED_MAX; i++) {
    struct kv_slice text = kv_slice_of(key, (size_t)snprintf(key, sizeof key, "%d", i));
    kv_status status = kv_batch_put_uncounted(batch, text, text, NULL);
    ck_assert_int_eq(status, i < KV_UNCOUNTED_MAX ? KV_OK : KV_MISUSE);
  }
  ck_assert_uint_eq(kv_batch_count(batch), KV_UNCOUNTED_MAX);
  ck_assert_uint_eq(kv_batch_uncounted(batch), KV_UNCOUNTED_MAX);
  ck_assert_int_eq(kv_batch_put_uncounted(batch, kv_slice_of("7", 1), kv_slice_of("x", 1), NULL),
                   KV_OK);
  ck_assert_int_eq(kv_batch_count_rows(batch, found, NULL), KV_OK);
  ck_assert_int_eq(kv_batch_rows_delta(batch), KV_UNCOUNTED_MAX - 1);
  kv_batch_unref(batch);
}
END_TEST

START_TEST(a_count_without_memory_is_not_taken) {
  struct kv_batch *batch;
  const bool found[1] = {false};
  ck_assert_int_eq(kv_batch_new(NULL, &batch, NULL), KV_OK);
  ck_assert_int_eq(kv_batch_put_uncounted(batch, key_of(1), key_of(0), NULL), KV_OK);
  kv_mem_fail_nth(1, 0);
  ck_assert_int_eq(kv_batch_count_rows(batch, found, NULL), KV_NOMEM);
  kv_mem_fail_nth(0, 0);
  ck_assert_uint_eq(kv_batch_uncounted(batch), 1);
  ck_assert_int_eq(kv_batch_rows_delta(batch), 0);
  ck_assert_int_eq(kv_batch_count_rows(batch, found, NULL), KV_OK);
  ck_assert_int_eq(kv_batch_rows_delta(batch), 1);
  kv_batch_unref(batch);
}
END_TEST

START_TEST(every_allocation_failing) {
  static struct world world;
  for (uint64_t n = 1; n < 40; n++) {
    begin(&world, n);
    for (size_t key = 0; key < KEYS; key++) {
      uint64_t version = kv_batch_version(world.batch);
      size_t waiting = kv_batch_uncounted(world.batch);
      kv_mem_fail_nth(1 + n % 3, 0);
      kv_status status = kv_batch_put_uncounted(world.batch, key_of(key), key_of(0), NULL);
      kv_mem_fail_nth(0, 0);
      if (status != KV_OK) {
        ck_assert_int_eq(status, KV_NOMEM);
        ck_assert_uint_eq(kv_batch_version(world.batch), version);
        ck_assert_uint_eq(kv_batch_uncounted(world.batch), waiting);
        ck_assert_int_eq(kv_batch_put_uncounted(world.batch, key_of(key), key_of(0), NULL), KV_OK);
      }
      world.now.there[key] = true;
    }
    expect_count(&world);
    kv_batch_unref(world.batch);
  }
  ck_assert_int_eq(kv_mem_live_blocks(), 0);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("uncounted");
  TCase *tests = tcase_create("uncounted");
  tcase_set_timeout(tests, 60);
  tcase_add_loop_test(tests, counts_are_right_whatever_is_undone_between, 0, 4);
  tcase_add_test(tests, as_many_wait_as_may_and_no_more);
  tcase_add_test(tests, a_count_without_memory_is_not_taken);
  tcase_add_test(tests, every_allocation_failing);
  suite_add_tcase(suite, tests);
  return harness_run(suite);
}
