/* The sorted order of a batch: kept up with writes and rollbacks at little cost, at every size, under a
** comparator. */
#include "order.h"

#include <stdio.h>
#include <string.h>

#include "batch_inside.h"
#include "harness.h"
#include "hash.h"
#include "mem.h"

/* ck_assert for hot loops: that one writes to the runner's pipe each time. */
static void must(bool condition) {
  if (!condition) ck_abort();
}

static struct kv_batch *new_batch(void) {
  struct kv_batch *batch;
  ck_assert_int_eq(kv_batch_new(NULL, &batch, NULL), KV_OK);
  return batch;
}

static void free_all(struct kv_batch *batch) {
  kv_batch_unref(batch);
  ck_assert_int_eq(kv_mem_live_blocks(), 0);
}

static void put_number(struct kv_batch *batch, uint64_t number) {
  uint64_t key = number * 0x9e3779b97f4a7c15u;
  struct kv_slice value = kv_slice_of("xxx", 3);
  kv_status status = kv_batch_put(batch, kv_slice_of(&key, sizeof key), value, 1, NULL);
  must(status == KV_OK);
}

/* A put and a look at what follows it, as a loop over a transaction's own rows does. */
static void scan_after_put(struct kv_batch *batch, uint64_t number) {
  struct kv_iter *iter;
  put_number(batch, number);
  ck_assert_int_eq(kv_batch_iter(batch, &iter, NULL), KV_OK);
  kv_iter_seek_first(iter);
  must(iter->valid);
  kv_iter_next(iter);
  kv_iter_free(iter);
}

START_TEST(scans_in_a_savepoint_leave_an_order_to_extend) {
  enum { ROUNDS = 20, SIZE = 5000 };
  struct kv_batch *batch = new_batch();
  for (uint64_t i = 0; i < SIZE; i++) scan_after_put(batch, i);
  uint64_t moved = 0;
  for (int round = 0; round < ROUNDS; round++) {
    if (round == 1) moved = batch->order.moved; /* the first may have to sort all once */
    struct kv_batch_mark mark = kv_batch_mark(batch);
    for (uint64_t i = 0; i < 3; i++) scan_after_put(batch, SIZE + i);
    ck_assert_uint_eq(kv_batch_count(batch), SIZE + 3);
    kv_batch_rollback(batch, mark);
    ck_assert_uint_le(batch->order.upto, mark.entries.place);
  }
  ck_assert_uint_le(batch->order.moved - moved, SIZE + ROUNDS * 20);
  free_all(batch);
}
END_TEST

START_TEST(a_scan_after_each_write_costs_a_few_moves) {
  struct kv_batch *batch = new_batch();
  uint64_t written = 0;
  for (uint64_t size = 1000; size <= 100000; size *= 10) {
    while (written < size) put_number(batch, written++);
    scan_after_put(batch, written++);
    uint64_t moved = batch->order.moved;
    for (int i = 0; i < 500; i++) scan_after_put(batch, written++);
    ck_assert_uint_le(batch->order.moved - moved, 500 * 30);
    ck_assert_uint_le(batch->order.run_count, 9);
  }
  struct kv_iter *iter;
  uint64_t seen = 0;
  ck_assert_int_eq(kv_batch_iter(batch, &iter, NULL), KV_OK);
  for (kv_iter_seek_last(iter); iter->valid; kv_iter_prev(iter)) seen++;
  ck_assert_uint_eq(seen, written);
  kv_iter_free(iter);
  free_all(batch);
}
END_TEST

START_TEST(orders_are_right_at_every_size) {
  for (uint64_t count = 0; count < 130; count++) {
    struct kv_batch *batch = new_batch();
    for (uint64_t i = 0; i < count; i++) put_number(batch, i * 7 % (count - count / 3 + 1));
    struct kv_iter *iter;
    ck_assert_int_eq(kv_batch_iter(batch, &iter, NULL), KV_OK);
    struct kv_slice before = {NULL, 0};
    size_t seen = 0;
    for (kv_iter_seek_first(iter); iter->valid; kv_iter_next(iter), seen++) {
      if (seen) ck_assert_int_lt(kv_slice_compare(before, iter->key), 0);
      before = iter->key;
    }
    ck_assert_uint_eq(seen, kv_batch_count(batch));
    kv_iter_free(iter);
    free_all(batch);
  }
}
END_TEST

/* A key of a kind: numbers spread over every scale, texts whose prefixes are few, numbers close together, and
** a number among those that stands alone. */
static size_t make_key(uint64_t i, int kind, char key[32]) {
  uint64_t mixed = i * 0x9e3779b97f4a7c15u;
  uint64_t close = (UINT64_C(1) << 40) + mixed % 5000;
  switch (kind) {
    case 0:
      return (size_t)snprintf(key, 32, "%016llx", (unsigned long long)(mixed >> (i & 63)));
    case 1:
      return (size_t)snprintf(key, 32, "customer-%llu-%llx", (unsigned long long)(i % 3),
                              (unsigned long long)mixed);
    case 2:
      return (size_t)snprintf(key, 32, "%016llx", (unsigned long long)close);
    default:
      return (size_t)snprintf(key, 32, "%016llx", (unsigned long long)(i == 77 ? ~close : close));
  }
}

/* Against what gets say: keys ascend, each once, with the value that was put last. */
START_TEST(keys_of_any_kind_are_ordered_and_the_newest_stays) {
  enum { COUNT = 20000 };
  struct kv_batch *batch = new_batch();
  for (uint64_t i = 0; i < COUNT; i++) {
    char key[32];
    struct kv_slice slice = kv_slice_of(key, make_key(i % (COUNT - COUNT / 4), _i, key));
    must(kv_batch_put(batch, slice, kv_slice_of(&i, sizeof i), 0, NULL) == KV_OK);
  }
  struct kv_iter *iter;
  struct kv_slice before = {NULL, 0}, value;
  size_t seen = 0;
  ck_assert_int_eq(kv_batch_iter(batch, &iter, NULL), KV_OK);
  for (kv_iter_seek_first(iter); iter->valid; kv_iter_next(iter), seen++) {
    must(!seen || kv_slice_compare(before, iter->key) < 0);
    must(kv_batch_get(batch, iter->key, kv_hash_key(iter->key), &value) == KV_BATCH_PUT);
    must(value.data == iter->value.data);
    before = iter->key;
  }
  ck_assert_uint_eq(seen, kv_batch_count(batch));
  kv_iter_free(iter);
  free_all(batch);
}
END_TEST

static int compare_backwards(const struct kv_comparator *self, struct kv_slice a,
                             struct kv_slice b) {
  (void)self;
  return kv_slice_compare(b, a);
}

/* Several runs, a rollback among them, under an order of the batch's own; what is encoded is in memcmp
** order. */
START_TEST(a_comparator_orders_iterators_and_not_what_is_encoded) {
  struct kv_comparator backwards = {.name = "backwards", .compare = compare_backwards, .refs = 1};
  struct kv_batch *batch = new_batch();
  kv_batch_order_by(batch, &backwards);
  for (uint64_t i = 0; i < 500; i++) scan_after_put(batch, i % 300);
  struct kv_batch_mark mark = kv_batch_mark(batch);
  for (uint64_t i = 0; i < 100; i++) scan_after_put(batch, 1000 + i);
  kv_batch_rollback(batch, mark);
  for (uint64_t i = 0; i < 50; i++) scan_after_put(batch, 250 + i * 2);
  struct kv_iter *iters[2];
  ck_assert_int_eq(kv_batch_iter(batch, &iters[0], NULL), KV_OK);
  ck_assert_int_eq(kv_batch_iter_bytewise(batch, &iters[1], NULL), KV_OK);
  kv_iter_seek_first(iters[1]);
  size_t seen = 0;
  for (kv_iter_seek_last(iters[0]); iters[0]->valid; kv_iter_prev(iters[0]), seen++) {
    must(iters[1]->valid && kv_slice_equal(iters[0]->key, iters[1]->key));
    kv_iter_next(iters[1]);
  }
  must(!iters[1]->valid);
  ck_assert_uint_eq(seen, kv_batch_count(batch));
  kv_iter_free(iters[0]);
  kv_iter_free(iters[1]);
  free_all(batch);
  ck_assert_int_eq(backwards.refs, 1);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("order");
  TCase *tests = tcase_create("order");
  tcase_set_timeout(tests, 60);
  tcase_add_test(tests, scans_in_a_savepoint_leave_an_order_to_extend);
  tcase_add_test(tests, a_scan_after_each_write_costs_a_few_moves);
  tcase_add_test(tests, orders_are_right_at_every_size);
  tcase_add_loop_test(tests, keys_of_any_kind_are_ordered_and_the_newest_stays, 0, 4);
  tcase_add_test(tests, a_comparator_orders_iterators_and_not_what_is_encoded);
  suite_add_tcase(suite, tests);
  return harness_run(suite);
}
