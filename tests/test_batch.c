/* Batch: puts, deletes, savepoints and iterators against a model, costs by counting, failing allocations.
** The encoding is in test_batch_code.c. */
#include "batch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "batch_inside.h"
#include "harness.h"
#include "harness_comparator.h"
#include "hash.h"
#include "key.h"
#include "mem.h"

/* ck_assert for hot loops: that one writes to the runner's pipe each time. */
static void must(bool condition) {
  if (!condition) ck_abort();
}

static struct kv_slice text(const char *string) {
  return kv_slice_of(string, strlen(string));
}

static struct kv_batch *new_batch(void) {
  struct kv_batch *batch;
  ck_assert_int_eq(kv_batch_new(NULL, &batch, NULL), KV_OK);
  kv_batch_order_by(batch, harness_comparator());
  return batch;
}

static void put(struct kv_batch *batch, const char *key, const char *value) {
  ck_assert_int_eq(kv_batch_put(batch, text(key), text(value), 1, NULL), KV_OK);
}

static void remove_key(struct kv_batch *batch, const char *key) {
  ck_assert_int_eq(kv_batch_delete(batch, text(key), -1, NULL), KV_OK);
}

/* "value", "-" for a tombstone, "" for none */
static const char *get(const struct kv_batch *batch, const char *key) {
  static char found[64];
  struct kv_slice value = {NULL, 0};
  switch (kv_batch_get(batch, text(key), kv_hash_key(text(key)), &value)) {
    case KV_BATCH_NONE:
      return "";
    case KV_BATCH_DELETED:
      return "-";
    case KV_BATCH_PUT:
      break;
  }
  snprintf(found, sizeof found, "%.*s", (int)value.size, (const char *)value.data);
  return found;
}

/* "a=1 b- c=3" */
static const char *listing(struct kv_iter *iter) {
  static char all[512];
  size_t size = 0;
  all[0] = 0;
  for (kv_iter_seek_first(iter); iter->valid; kv_iter_next(iter)) {
    size += (size_t)snprintf(all + size, sizeof all - size, "%s%.*s%s%.*s", size ? " " : "",
                             (int)iter->key.size, (const char *)iter->key.data,
                             iter->deleted ? "-" : "=", (int)iter->value.size,
                             (const char *)iter->value.data);
  }
  return all;
}

static const char *list(struct kv_batch *batch) {
  struct kv_iter *iter;
  ck_assert_int_eq(kv_batch_iter(batch, &iter, NULL), KV_OK);
  const char *all = listing(iter);
  kv_iter_free(iter);
  return all;
}

static void free_all(struct kv_batch *batch) {
  kv_batch_unref(batch);
  ck_assert_int_eq(kv_mem_live_blocks(), 0);
}

START_TEST(empty_batch) {
  struct kv_batch *batch = new_batch();
  ck_assert_str_eq(get(batch, "a"), "");
  ck_assert_str_eq(list(batch), harness_in_order(""));
  ck_assert_uint_eq(kv_batch_count(batch), 0);
  ck_assert_int_eq(kv_batch_rows_delta(batch), 0);
  kv_batch_rollback(batch, kv_batch_mark(batch));
  free_all(batch);
  kv_batch_unref(NULL);
}
END_TEST

START_TEST(put_overwrite_delete) {
  struct kv_batch *batch = new_batch();
  put(batch, "b", "1");
  put(batch, "a", "2");
  put(batch, "b", "3");
  remove_key(batch, "c");
  remove_key(batch, "a");
  ck_assert_str_eq(get(batch, "b"), "3");
  ck_assert_str_eq(get(batch, "a"), "-");
  ck_assert_str_eq(get(batch, "c"), "-");
  ck_assert_str_eq(get(batch, "d"), "");
  ck_assert_int_eq(kv_batch_get(batch, text("b"), kv_hash_key(text("b")), NULL), KV_BATCH_PUT);
  ck_assert_str_eq(list(batch), harness_in_order("a- b=3 c-"));
  ck_assert_uint_eq(kv_batch_count(batch), 3);
  ck_assert_int_eq(kv_batch_rows_delta(batch), 1);
  put(batch, "a", "4");
  ck_assert_str_eq(list(batch), harness_in_order("a=4 b=3 c-"));
  free_all(batch);
}
END_TEST

START_TEST(input_may_change_after_put) {
  struct kv_batch *batch = new_batch();
  char key[] = "key", value[] = "value";
  put(batch, key, value);
  key[0] = value[0] = 'x';
  ck_assert_str_eq(get(batch, "key"), "value");
  free_all(batch);
}
END_TEST

START_TEST(keys_and_values_at_their_bounds) {
  struct kv_batch *batch = new_batch();
  static uint8_t bytes[KV_KEY_BYTES_MAX + 1];
  struct kv_slice longest = {bytes, KV_KEY_BYTES_MAX}, over = {bytes, KV_KEY_BYTES_MAX + 1};
  struct kv_slice none = {NULL, 0}, large = {bytes, (size_t)KV_ENTRY_VALUE_MAX + 1}, value;
  struct kv_err err;
  ck_assert_int_eq(kv_batch_put(batch, longest, none, 0, NULL), KV_OK);
  ck_assert_int_eq(kv_batch_put(batch, none, longest, 0, NULL), KV_OK);
  ck_assert_int_eq(kv_batch_put(batch, over, none, 0, &err), KV_MISUSE);
  ck_assert_ptr_nonnull(strstr(err.text, "65537"));
  ck_assert_int_eq(kv_batch_delete(batch, over, 0, NULL), KV_MISUSE);
  ck_assert_int_eq(kv_batch_put(batch, longest, large, 0, &err), KV_MISUSE);
  ck_assert_ptr_nonnull(strstr(err.text, "4294967296"));
  ck_assert_uint_eq(kv_batch_count(batch), 2);
  ck_assert_int_eq(kv_batch_get(batch, none, kv_hash_key(none), &value), KV_BATCH_PUT);
  ck_assert_uint_eq(value.size, KV_KEY_BYTES_MAX);
  ck_assert_int_eq(kv_batch_get(batch, longest, kv_hash_key(longest), &value), KV_BATCH_PUT);
  ck_assert_uint_eq(value.size, 0);
  free_all(batch);
}
END_TEST

START_TEST(too_many_writes_are_refused) {
  struct kv_batch *batch = new_batch();
  put(batch, "a", "1");
  put(batch, "a", "2");
  batch->entries.places.limit = batch->entries.places.end;
  size_t bytes = kv_batch_bytes(batch);
  ck_assert_int_eq(kv_batch_put(batch, text("b"), text("3"), 1, NULL), KV_MISUSE);
  ck_assert_uint_eq(kv_batch_bytes(batch), bytes);
  ck_assert_int_eq(kv_batch_rows_delta(batch), 2);
  ck_assert_str_eq(list(batch), harness_in_order("a=2"));
  free_all(batch);
}
END_TEST

START_TEST(rollback_brings_back_what_was_replaced) {
  struct kv_batch *batch = new_batch();
  put(batch, "a", "1");
  struct kv_batch_mark outer = kv_batch_mark(batch);
  put(batch, "a", "2");
  struct kv_batch_mark inner = kv_batch_mark(batch);
  remove_key(batch, "a");
  put(batch, "b", "3");
  ck_assert_str_eq(list(batch), harness_in_order("a- b=3"));
  kv_batch_rollback(batch, inner);
  ck_assert_str_eq(list(batch), harness_in_order("a=2"));
  ck_assert_int_eq(kv_batch_rows_delta(batch), 2);
  put(batch, "c", "4");
  kv_batch_rollback(batch, outer);
  ck_assert_str_eq(list(batch), harness_in_order("a=1"));
  ck_assert_int_eq(kv_batch_rows_delta(batch), 1);
  kv_batch_rollback(batch, outer);
  ck_assert_str_eq(get(batch, "a"), "1");
  free_all(batch);
}
END_TEST

START_TEST(version_moves_with_every_change_only) {
  struct kv_batch *batch = new_batch();
  uint64_t version = kv_batch_version(batch);
  put(batch, "a", "1");
  ck_assert_uint_ne(kv_batch_version(batch), version);
  version = kv_batch_version(batch);
  struct kv_batch_mark mark = kv_batch_mark(batch);
  list(batch);
  kv_batch_rollback(batch, mark);
  ck_assert_uint_eq(kv_batch_version(batch), version);
  remove_key(batch, "a");
  uint64_t written = kv_batch_version(batch);
  ck_assert_uint_ne(written, version);
  kv_batch_rollback(batch, mark);
  ck_assert_uint_ne(kv_batch_version(batch), written);
  ck_assert_uint_ne(kv_batch_version(batch), version);
  free_all(batch);
}
END_TEST

START_TEST(iterator_is_fixed_when_opened) {
  struct kv_batch *batch = new_batch();
  put(batch, "a", "1");
  put(batch, "b", "2");
  struct kv_batch_mark mark = kv_batch_mark(batch);
  put(batch, "c", "3");
  struct kv_iter *iter;
  ck_assert_int_eq(kv_batch_iter(batch, &iter, NULL), KV_OK);
  put(batch, "b", "later");
  put(batch, "d", "later");
  ck_assert_str_eq(listing(iter), harness_in_order("a=1 b=2 c=3"));
  kv_batch_rollback(batch, mark);
  put(batch, "e", "other");
  ck_assert_str_eq(list(batch), harness_in_order("a=1 b=2 e=other"));
  ck_assert_str_eq(listing(iter), harness_in_order("a=1 b=2 c=3"));
  kv_batch_rollback(batch, (struct kv_batch_mark){0});
  for (int i = 0; i < 1000; i++) put(batch, "b", "again");
  ck_assert_str_eq(listing(iter), harness_in_order("a=1 b=2 c=3"));
  kv_batch_unref(batch);
  ck_assert_str_eq(listing(iter), harness_in_order("a=1 b=2 c=3"));
  kv_iter_free(iter);
  ck_assert_int_eq(kv_mem_live_blocks(), 0);
}
END_TEST

START_TEST(pinned_value_outlives_rollback_and_writes) {
  struct kv_batch *batch = new_batch();
  struct kv_batch_mark mark = kv_batch_mark(batch);
  put(batch, "key", "pinned");
  struct kv_slice value;
  kv_batch_get(batch, text("key"), kv_hash_key(text("key")), &value);
  struct kv_batch *pin = kv_batch_ref(batch);
  kv_batch_rollback(batch, mark);
  for (int i = 0; i < 1000; i++) put(batch, "key", "poison");
  ck_assert(kv_slice_equal(value, text("pinned")));
  kv_batch_unref(batch);
  ck_assert(kv_slice_equal(value, text("pinned")));
  free_all(pin);
}
END_TEST

START_TEST(iterator_moves_seeks_and_ends) {
  struct kv_batch *batch = new_batch();
  const char *keys[] = {"b", "bb", "d", "prefix-of-eight-1", "prefix-of-eight-2"};
  for (int i = 0; i < 5; i++) put(batch, keys[i], "v");
  struct kv_iter *iter;
  ck_assert_int_eq(kv_batch_iter(batch, &iter, NULL), KV_OK);
  ck_assert(!iter->valid);
  kv_iter_next(iter);
  kv_iter_prev(iter);
  ck_assert(!iter->valid);
  if (!harness_ascends()) {
    kv_iter_free(iter);
    free_all(batch);
    return;
  }
  const char *sought[] = {"", "b", "ba", "c", "e", "prefix-of-eight-10", "z"};
  int found[] = {0, 0, 1, 2, 3, 4, 5};
  for (int i = 0; i < 7; i++) {
    kv_iter_seek(iter, text(sought[i]));
    ck_assert_int_eq(iter->valid, found[i] < 5);
    if (iter->valid) ck_assert(kv_slice_equal(iter->key, text(keys[found[i]])));
  }
  kv_iter_prev(iter);
  ck_assert_msg(!iter->valid, "an end stays the end until the next seek");
  kv_iter_seek_last(iter);
  for (int i = 4; i >= 0; i--, kv_iter_prev(iter)) {
    ck_assert(iter->valid && kv_slice_equal(iter->key, text(keys[i])));
  }
  kv_iter_next(iter);
  ck_assert(!iter->valid);
  kv_iter_seek(iter, text("c"));
  kv_iter_prev(iter);
  kv_iter_next(iter);
  ck_assert(kv_slice_equal(iter->key, text("d")));
  kv_iter_free(iter);
  free_all(batch);
}
END_TEST

START_TEST(statistics_count_each_event_once) {
  struct kv_stats stats = {0};
  struct kv_batch *batch;
  ck_assert_int_eq(kv_batch_new(&stats, &batch, NULL), KV_OK);
  put(batch, "a", "1");
  struct kv_batch_mark mark = kv_batch_mark(batch);
  put(batch, "a", "2");
  remove_key(batch, "a");
  remove_key(batch, "b");
  kv_batch_rollback(batch, mark);
  kv_batch_rollback(batch, mark);
  ck_assert_uint_eq(kv_stats_get(&stats, KV_STAT_BATCH_PUTS), 2);
  ck_assert_uint_eq(kv_stats_get(&stats, KV_STAT_BATCH_DELETES), 2);
  ck_assert_uint_eq(kv_stats_get(&stats, KV_STAT_BATCH_OVERWRITES), 2);
  ck_assert_uint_eq(kv_stats_get(&stats, KV_STAT_BATCH_ROLLBACKS), 1);
  free_all(batch);
}
END_TEST

/* ---- Costs */

static void put_number(struct kv_batch *batch, uint64_t number) {
  uint64_t key = number * 0x9e3779b97f4a7c15u;
  struct kv_slice value = kv_slice_of("xxx", 3);
  kv_status status = kv_batch_put(batch, kv_slice_of(&key, sizeof key), value, 1, NULL);
  must(status == KV_OK);
}

START_TEST(rollback_costs_what_was_written_since) {
  struct kv_batch *batch = new_batch();
  uint64_t written = 0;
  for (uint64_t size = 1000; size <= 1000000; size *= 1000) {
    while (written < size) put_number(batch, written++);
    struct kv_batch_mark mark = kv_batch_mark(batch);
    uint64_t walked = batch->entries.walked;
    for (uint64_t i = 0; i < 10; i++) put_number(batch, i % 2 ? i : size + i);
    kv_batch_rollback(batch, mark);
    ck_assert_uint_eq(batch->entries.walked - walked, 10);
    ck_assert_uint_eq(kv_batch_count(batch), size);
  }
  free_all(batch);
}
END_TEST

/* As many as failing statements of one long transaction: each undoes its own writes and nothing else. */
START_TEST(sixty_thousand_rollbacks_cost_their_own_writes) {
  enum { ROLLBACKS = 60000, WRITES = 5 };
  struct kv_batch *batch = new_batch();
  for (uint64_t i = 0; i < 20000; i++) put_number(batch, i);
  struct kv_batch_mark mark = kv_batch_mark(batch);
  uint64_t walked = batch->entries.walked;
  size_t bytes = kv_batch_bytes(batch), moved = 0;
  kv_mem_fail_nth(0, 0);
  for (uint64_t round = 0; round < ROLLBACKS; round++) {
    for (uint64_t i = 0; i < WRITES; i++) {
      put_number(batch, round * 7 + i * 9000);
      if (batch->entries.slots.moved > moved) moved = batch->entries.slots.moved;
    }
    kv_batch_rollback(batch, mark);
  }
  ck_assert_uint_eq(batch->entries.walked - walked, ROLLBACKS * WRITES);
  ck_assert_uint_le(moved, 768);
  ck_assert_uint_le(kv_mem_fail_nth(0, 0), ROLLBACKS);
  ck_assert_uint_le(kv_batch_bytes(batch), bytes + 65536);
  ck_assert_uint_eq(kv_batch_count(batch), 20000);
  free_all(batch);
}
END_TEST

START_TEST(rolled_back_memory_is_used_again) {
  struct kv_batch *batch = new_batch();
  char value[1001];
  memset(value, 'v', 1000);
  value[1000] = 0;
  put(batch, "kept", "1");
  struct kv_batch_mark mark = kv_batch_mark(batch);
  size_t most = 0;
  for (int i = 0; i < 10000; i++) {
    put(batch, "key", value);
    put(batch, "other", value);
    kv_batch_rollback(batch, mark);
    if (kv_batch_bytes(batch) > most) most = kv_batch_bytes(batch);
  }
  ck_assert_uint_lt(most, 65536);
  ck_assert_str_eq(list(batch), harness_in_order("kept=1"));
  free_all(batch);
}
END_TEST

START_TEST(rollback_of_everything_frees_the_index) {
  struct kv_batch *batch = new_batch();
  size_t empty = kv_batch_bytes(batch);
  struct kv_batch_mark start = kv_batch_mark(batch);
  for (int i = 0; i < 10000; i++) put_number(batch, (uint64_t)i);
  ck_assert_uint_gt(kv_batch_bytes(batch), 100000);
  kv_batch_rollback(batch, start);
  ck_assert_uint_eq(kv_batch_bytes(batch), empty);
  put(batch, "a", "1");
  ck_assert_str_eq(list(batch), harness_in_order("a=1"));
  free_all(batch);
}
END_TEST

/* Rolling back to one mark again and again while somebody reads: the bytes must stay, and each time costs
** only what was written since the time before. */
START_TEST(rollbacks_under_a_reader_cost_their_own_writes) {
  enum { ROUNDS = 1000, WRITES = 7 };
  struct kv_batch *batch = new_batch();
  for (uint64_t i = 0; i < 100; i++) put_number(batch, i);
  struct kv_batch_mark mark = kv_batch_mark(batch);
  size_t bytes = kv_batch_bytes(batch);
  struct kv_iter *iter;
  for (uint64_t i = 0; i < WRITES; i++) put_number(batch, 200 + i);
  ck_assert_int_eq(kv_batch_iter(batch, &iter, NULL), KV_OK);
  uint64_t walked = batch->entries.walked;
  for (uint64_t round = 0; round < ROUNDS; round++) {
    kv_batch_rollback(batch, mark);
    for (uint64_t i = 0; i < WRITES; i++) put_number(batch, round % 50 + i * 20);
    ck_assert_uint_ge(kv_batch_count(batch), 100);
  }
  ck_assert_uint_eq(batch->entries.walked - walked, ROUNDS * WRITES);
  uint64_t seen = 0;
  for (kv_iter_seek_first(iter); iter->valid; kv_iter_next(iter)) seen++;
  ck_assert_uint_eq(seen, 100 + WRITES);
  kv_iter_free(iter);
  kv_batch_rollback(batch, mark);
  ck_assert_uint_le(kv_batch_bytes(batch), bytes);
  ck_assert_uint_eq(kv_batch_count(batch), 100);
  free_all(batch);
}
END_TEST

START_TEST(an_entry_takes_little_beyond_key_and_value) {
  enum { KEY_BYTES = 16, VALUE_BYTES = 3 };
  struct kv_batch *batch = new_batch();
  uint8_t key[KEY_BYTES] = {0};
  size_t most = 0;
  for (uint64_t i = 0; i < 300000; i++) {
    uint64_t number = i * 0x9e3779b97f4a7c15u;
    memcpy(key, &number, sizeof number);
    must(kv_batch_put(batch, kv_slice_of(key, sizeof key), kv_slice_of("xxx", VALUE_BYTES), 1,
                      NULL) == KV_OK);
    if (i < 10000 || i % 1000) continue;
    size_t beyond = kv_batch_bytes(batch) / (i + 1) - KEY_BYTES - VALUE_BYTES;
    if (beyond > most) most = beyond;
  }
  ck_assert_uint_le(most, 24);
  free_all(batch);
}
END_TEST

START_TEST(a_million_writes_each_move_little) {
  enum { COUNT = 1000000 };
  struct kv_batch *batch = new_batch();
  size_t most = 0;
  for (uint64_t i = 0; i < COUNT; i++) {
    put_number(batch, i);
    if (batch->entries.slots.moved > most) most = batch->entries.slots.moved;
  }
  ck_assert_uint_le(most, 768);
  for (uint64_t i = 0; i < COUNT; i += 3) put_number(batch, i);
  ck_assert_uint_eq(kv_batch_count(batch), COUNT);
  struct kv_iter *iter;
  ck_assert_int_eq(kv_batch_iter(batch, &iter, NULL), KV_OK);
  uint64_t seen = 0;
  for (kv_iter_seek_first(iter); iter->valid; kv_iter_next(iter)) seen++;
  ck_assert_uint_eq(seen, COUNT);
  kv_iter_free(iter);
  free_all(batch);
}
END_TEST

/* ---- A model: the state of every key, a stack of savepoints with copies, iterators with copies */

enum { KEYS = 120, SAVEPOINTS = 12, ITERS = 6 };
struct model {
  uint32_t state[KEYS]; /* 0 = none, 1 = tombstone, else the value */
  int64_t rows;
};
struct world {
  struct harness_random random;
  struct kv_batch *batch;
  struct model now;
  struct model saved[SAVEPOINTS];
  struct kv_batch_mark marks[SAVEPOINTS];
  size_t depth;
  struct kv_iter *iters[ITERS];
  struct model iter_models[ITERS];
  uint32_t next_value;
};

static struct kv_slice bytewise_key(char buffer[32], unsigned number) {
  int size = snprintf(buffer, 32, "k%03u%s", number / 2, number % 2 ? "-and-more-bytes" : "");
  return kv_slice_of(buffer, (size_t)size);
}

static int compare_numbers(const void *a, const void *b) {
  char x[32], y[32];
  return harness_compare(bytewise_key(x, *(const unsigned *)a),
                         bytewise_key(y, *(const unsigned *)b));
}

/* Keys of several lengths, some of them prefixes of others; the number orders as the keys do. */
static struct kv_slice model_key(char buffer[32], unsigned number) {
  static unsigned in_order[KEYS];
  static bool made;
  for (unsigned i = 0; i < KEYS && !made; i++) in_order[i] = i;
  if (!made) qsort(in_order, KEYS, sizeof *in_order, compare_numbers);
  made = true;
  return bytewise_key(buffer, in_order[number]);
}

static struct kv_slice model_value(char buffer[32], uint32_t value) {
  return kv_slice_of(buffer, (size_t)snprintf(buffer, 32, "%u", value));
}

static void check_entry(const struct kv_iter *iter, const struct model *model, unsigned number) {
  char key[32], value[32];
  must(kv_slice_equal(iter->key, model_key(key, number)));
  must(iter->deleted == (model->state[number] == 1));
  struct kv_slice expected = model_value(value, model->state[number]);
  if (iter->deleted) expected.size = 0;
  must(kv_slice_equal(iter->value, expected));
}

static unsigned model_next(const struct model *model, unsigned from) {
  while (from < KEYS && !model->state[from]) from++;
  return from;
}

static unsigned model_prev(const struct model *model, unsigned from) { /* below from, or KEYS */
  while (from-- > 0) {
    if (model->state[from]) return from;
  }
  return KEYS;
}

/* A walk both ways from a random place, with turns. */
static void check_walk(struct world *world, struct kv_iter *iter, const struct model *model) {
  char key[32];
  unsigned at = (unsigned)harness_below(&world->random, KEYS);
  kv_iter_seek(iter, model_key(key, at));
  at = model_next(model, at);
  for (int steps = 0; at < KEYS && steps < 40; steps++) {
    must(iter->valid);
    check_entry(iter, model, at);
    bool forward = harness_below(&world->random, 2);
    at = forward ? model_next(model, at + 1) : model_prev(model, at);
    forward ? kv_iter_next(iter) : kv_iter_prev(iter);
  }
  must(iter->valid == (at < KEYS));
  kv_iter_seek_last(iter);
  must(iter->valid == (model_prev(model, KEYS) < KEYS));
  if (iter->valid) check_entry(iter, model, model_prev(model, KEYS));
}

static void check_scan(struct kv_iter *iter, const struct model *model) {
  kv_iter_seek_first(iter);
  for (unsigned at = model_next(model, 0); at < KEYS; at = model_next(model, at + 1)) {
    must(iter->valid);
    check_entry(iter, model, at);
    kv_iter_next(iter);
  }
  must(!iter->valid);
}

static void check_points(const struct world *world) {
  size_t live = 0;
  for (unsigned i = 0; i < KEYS; i++) {
    char key[32], value[32];
    struct kv_slice found = {NULL, 0}, name = model_key(key, i);
    uint32_t state = world->now.state[i];
    enum kv_batch_answer answer = kv_batch_get(world->batch, name, kv_hash_key(name), &found);
    live += state != 0;
    must(answer == (state > 1 ? KV_BATCH_PUT : state ? KV_BATCH_DELETED : KV_BATCH_NONE));
    if (state > 1) must(kv_slice_equal(found, model_value(value, state)));
  }
  ck_assert_uint_eq(kv_batch_count(world->batch), live);
  ck_assert_int_eq(kv_batch_rows_delta(world->batch), world->now.rows);
}

static void step_write(struct world *world) {
  unsigned number = (unsigned)harness_below(&world->random, KEYS);
  int delta = (int)harness_below(&world->random, 3) - 1;
  char key[32], value[32];
  kv_status status;
  if (harness_below(&world->random, 3)) {
    uint32_t state = world->next_value++;
    world->now.state[number] = state;
    status =
        kv_batch_put(world->batch, model_key(key, number), model_value(value, state), delta, NULL);
  } else {
    world->now.state[number] = 1;
    status = kv_batch_delete(world->batch, model_key(key, number), delta, NULL);
  }
  ck_assert_int_eq(status, KV_OK);
  world->now.rows += delta;
}

static void step_savepoint(struct world *world) {
  if (world->depth < SAVEPOINTS && harness_below(&world->random, 2)) {
    world->marks[world->depth] = kv_batch_mark(world->batch);
    world->saved[world->depth++] = world->now;
  } else if (world->depth && harness_below(&world->random, 3)) {
    size_t to = harness_below(&world->random, world->depth);
    kv_batch_rollback(world->batch, world->marks[to]);
    world->now = world->saved[to];
    world->depth = to + 1;
  } else if (world->depth) { /* release */
    world->depth = harness_below(&world->random, world->depth);
  }
}

static void step_iterator(struct world *world) {
  size_t slot = harness_below(&world->random, ITERS);
  if (!world->iters[slot]) {
    ck_assert_int_eq(kv_batch_iter(world->batch, &world->iters[slot], NULL), KV_OK);
    world->iter_models[slot] = world->now;
    return;
  }
  check_scan(world->iters[slot], &world->iter_models[slot]);
  check_walk(world, world->iters[slot], &world->iter_models[slot]);
  if (harness_below(&world->random, 2)) return;
  kv_iter_free(world->iters[slot]);
  world->iters[slot] = NULL;
}

static void step_reset(struct world *world) {
  kv_batch_rollback(world->batch, (struct kv_batch_mark){0});
  memset(&world->now, 0, sizeof world->now);
  world->depth = 0;
}

START_TEST(random_writes_savepoints_and_iterators_match_a_model) {
  static struct world world;
  uint64_t seed = harness_seed_env(100 + (uint64_t)_i);
  printf("batch model, seed %lu\n", seed);
  memset(&world, 0, sizeof world);
  harness_seed(&world.random, seed);
  world.batch = new_batch();
  world.next_value = 2;
  for (int step = 0; step < 6000; step++) {
    uint64_t kind = harness_below(&world.random, 1000);
    if (kind < 650)
      step_write(&world);
    else if (kind < 800)
      step_savepoint(&world);
    else if (kind < 960)
      step_iterator(&world);
    else if (kind < 998)
      check_points(&world);
    else
      step_reset(&world);
  }
  check_points(&world);
  kv_batch_unref(world.batch);
  for (size_t i = 0; i < ITERS; i++) {
    if (world.iters[i]) check_scan(world.iters[i], &world.iter_models[i]);
    kv_iter_free(world.iters[i]);
  }
  ck_assert_int_eq(kv_mem_live_blocks(), 0);
}
END_TEST

/* ---- Memory runs out */

/* A put, a delete or a scan, each until it succeeds; what failed must not have shown. */
START_TEST(failed_allocation_leaves_the_batch_as_it_was) {
  static struct world world;
  memset(&world, 0, sizeof world);
  harness_seed(&world.random, 5);
  world.batch = new_batch();
  int failures = 0;
  for (unsigned i = 0; i < 3 * KEYS; i++) {
    char key[32], value[32];
    struct kv_slice name = model_key(key, i * 7 % KEYS), bytes = model_value(value, i + 2);
    for (uint64_t nth = 1;; nth++) {
      kv_mem_fail_nth(nth, nth % 2);
      struct kv_iter *iter = NULL;
      kv_status status = i % 3 ? kv_batch_put(world.batch, name, bytes, 1, NULL)
                               : kv_batch_delete(world.batch, name, 1, NULL);
      if (status == KV_OK) {
        world.now.state[i * 7 % KEYS] = i % 3 ? i + 2 : 1;
        world.now.rows++;
        for (;; nth++) {
          kv_mem_fail_nth(nth, 0);
          status = kv_batch_iter(world.batch, &iter, NULL);
          if (status == KV_OK) break;
          failures++;
        }
      }
      kv_mem_fail_nth(0, 0);
      check_points(&world);
      if (iter) check_scan(iter, &world.now);
      kv_iter_free(iter);
      if (status == KV_OK) break;
      ck_assert_int_eq(status, KV_NOMEM);
      failures++;
    }
  }
  ck_assert_int_gt(failures, 20);
  free_all(world.batch);
  kv_mem_fail_nth(1, 0);
  ck_assert_int_eq(kv_batch_new(NULL, &world.batch, NULL), KV_NOMEM);
  kv_mem_fail_nth(0, 0);
}
END_TEST

START_TEST(iterator_without_memory_leaves_nothing) {
  int failures = 0;
  for (uint64_t nth = 1;; nth++) {
    struct kv_batch *batch = new_batch();
    for (uint64_t i = 0; i < 100; i++) put_number(batch, i);
    struct kv_iter *iter = NULL;
    kv_mem_fail_nth(nth, 1);
    kv_status status = kv_batch_iter(batch, &iter, NULL);
    kv_mem_fail_nth(0, 0);
    if (status == KV_OK) kv_iter_free(iter);
    free_all(batch);
    if (status == KV_OK) break;
    failures++;
  }
  ck_assert_int_ge(failures, 3);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("batch");
  TCase *tests = tcase_create("batch");
  tcase_set_timeout(tests, 60);
  tcase_add_test(tests, empty_batch);
  tcase_add_test(tests, put_overwrite_delete);
  tcase_add_test(tests, input_may_change_after_put);
  tcase_add_test(tests, keys_and_values_at_their_bounds);
  tcase_add_test(tests, too_many_writes_are_refused);
  tcase_add_test(tests, rollback_brings_back_what_was_replaced);
  tcase_add_test(tests, version_moves_with_every_change_only);
  tcase_add_test(tests, iterator_is_fixed_when_opened);
  tcase_add_test(tests, pinned_value_outlives_rollback_and_writes);
  tcase_add_test(tests, iterator_moves_seeks_and_ends);
  tcase_add_test(tests, statistics_count_each_event_once);
  tcase_add_test(tests, rollback_costs_what_was_written_since);
  tcase_add_test(tests, sixty_thousand_rollbacks_cost_their_own_writes);
  tcase_add_test(tests, rolled_back_memory_is_used_again);
  tcase_add_test(tests, rollback_of_everything_frees_the_index);
  tcase_add_test(tests, rollbacks_under_a_reader_cost_their_own_writes);
  tcase_add_test(tests, an_entry_takes_little_beyond_key_and_value);
  tcase_add_test(tests, a_million_writes_each_move_little);
  tcase_add_loop_test(tests, random_writes_savepoints_and_iterators_match_a_model, 0, 8);
  tcase_add_test(tests, failed_allocation_leaves_the_batch_as_it_was);
  tcase_add_test(tests, iterator_without_memory_leaves_nothing);
  suite_add_tcase(suite, tests);
  return harness_run(suite);
}
