/* Memtable: versions and windows against a model, damage, order of commits, failing allocations, readers
** beside a writer. */
#include "memtable.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "harness_comparator.h"
#include "hash.h"
#include "mem.h"

static const uint8_t uuid[16] = "memtable's uuid";

/* ck_assert for hot loops: that one writes to the runner's pipe each time. */
static void must(bool condition) {
  if (!condition) ck_abort();
}

static struct kv_slice text(const char *string) {
  return kv_slice_of(string, strlen(string));
}

static struct kv_memtable *new_table(void) {
  struct kv_memtable *table;
  ck_assert_int_eq(kv_memtable_new(7, harness_comparator(), &table, NULL), KV_OK);
  return table;
}

static void free_table(struct kv_memtable *table) {
  kv_memtable_unref(table);
  ck_assert_int_eq(kv_mem_live_blocks(), 0);
}

static struct kv_batch *new_batch(void) {
  struct kv_batch *batch;
  must(kv_batch_new(NULL, &batch, NULL) == KV_OK);
  return batch;
}

/* Encodes the batch for `seq` and frees it. */
static struct kv_buf encoded(struct kv_batch *batch, uint64_t seq) {
  struct kv_buf bytes;
  kv_buf_init(&bytes);
  must(kv_batch_encode(batch, uuid, seq, &bytes, NULL) == KV_OK);
  kv_batch_unref(batch);
  return bytes;
}

/* One commit of "a=1 b-" form. */
static struct kv_buf commit_of(uint64_t seq, const char *writes) {
  struct kv_batch *batch = new_batch();
  char copy[128], *rest = copy;
  snprintf(copy, sizeof copy, "%s", writes);
  for (char *word; (word = strtok_r(rest, " ", &rest));) {
    size_t key = strcspn(word, "=-");
    struct kv_slice name = {(const uint8_t *)word, key};
    must((word[key] == '-' ? kv_batch_delete(batch, name, 0, NULL)
                           : kv_batch_put(batch, name, text(word + key + 1), 0, NULL)) == KV_OK);
  }
  return encoded(batch, seq);
}

static kv_status add(struct kv_memtable *table, uint64_t seq, const char *writes) {
  struct kv_buf bytes = commit_of(seq, writes);
  kv_status status = kv_memtable_add(table, seq, kv_buf_slice(&bytes), uuid, NULL, NULL);
  memset(bytes.data, 0xee, bytes.size); /* the table has copied it */
  kv_buf_release(&bytes);
  return status;
}

static const char *get(struct kv_memtable *table, uint64_t flushed, uint64_t upper,
                       const char *key) {
  static char found[64];
  struct kv_slice value = {NULL, 0};
  struct kv_window window = {flushed, upper};
  switch (kv_memtable_get(table, window, text(key), kv_hash_key(text(key)), &value)) {
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

static struct kv_iter *open_iter(struct kv_memtable *table, uint64_t flushed, uint64_t upper) {
  struct kv_iter *iter;
  must(kv_memtable_iter(table, (struct kv_window){flushed, upper}, &iter, NULL) == KV_OK);
  return iter;
}

static const char *list(struct kv_memtable *table, uint64_t flushed, uint64_t upper) {
  struct kv_iter *iter = open_iter(table, flushed, upper);
  const char *all = listing(iter);
  kv_iter_free(iter);
  return all;
}

START_TEST(empty_table) {
  struct kv_memtable *table = new_table();
  ck_assert_uint_eq(kv_memtable_gen(table), 7);
  ck_assert_uint_eq(kv_memtable_first_seq(table), 0);
  ck_assert_uint_eq(kv_memtable_last_seq(table), 0);
  ck_assert_uint_gt(kv_memtable_bytes(table), 0);
  ck_assert_str_eq(get(table, 0, UINT64_MAX, "a"), "");
  ck_assert_str_eq(list(table, 0, UINT64_MAX), harness_in_order(""));
  free_table(table);
  kv_memtable_unref(NULL);
}
END_TEST

START_TEST(windows_see_their_versions) {
  struct kv_memtable *table = new_table();
  ck_assert_int_eq(add(table, 10, "a=1 b=1"), KV_OK);
  ck_assert_int_eq(add(table, 11, "b=2 c=1"), KV_OK);
  ck_assert_int_eq(add(table, 13, "a- c=3"), KV_OK);
  ck_assert_str_eq(list(table, 0, 9), harness_in_order(""));
  ck_assert_str_eq(list(table, 9, 10), harness_in_order("a=1 b=1"));
  ck_assert_str_eq(list(table, 0, 12), harness_in_order("a=1 b=2 c=1"));
  ck_assert_str_eq(list(table, 0, 13), harness_in_order("a- b=2 c=3"));
  ck_assert_str_eq(list(table, 10, 12), harness_in_order("b=2 c=1"));
  ck_assert_str_eq(list(table, 11, 13), harness_in_order("a- c=3"));
  ck_assert_str_eq(list(table, 13, 99), harness_in_order(""));
  ck_assert_str_eq(get(table, 0, 12, "a"), "1");
  ck_assert_str_eq(get(table, 0, 13, "a"), "-");
  ck_assert_str_eq(get(table, 10, 12, "a"), "");
  ck_assert_str_eq(get(table, 13, 20, "c"), "");
  ck_assert_int_eq(
      kv_memtable_get(table, (struct kv_window){0, 13}, text("a"), kv_hash_key(text("a")), NULL),
      KV_BATCH_DELETED);
  ck_assert_uint_eq(kv_memtable_first_seq(table), 10);
  ck_assert_uint_eq(kv_memtable_last_seq(table), 13);
  free_table(table);
}
END_TEST

START_TEST(empty_commit_counts) {
  struct kv_memtable *table = new_table();
  ck_assert_int_eq(add(table, 5, ""), KV_OK);
  ck_assert_uint_eq(kv_memtable_first_seq(table), 5);
  ck_assert_uint_eq(kv_memtable_last_seq(table), 5);
  ck_assert_str_eq(list(table, 0, 5), harness_in_order(""));
  free_table(table);
}
END_TEST

START_TEST(commits_must_ascend) {
  struct kv_memtable *table = new_table();
  ck_assert_int_eq(add(table, 5, "a=1"), KV_OK);
  ck_assert_int_eq(add(table, 5, "a=2"), KV_MISUSE);
  ck_assert_int_eq(add(table, 4, "a=2"), KV_MISUSE);
  ck_assert_str_eq(list(table, 0, 9), harness_in_order("a=1"));
  ck_assert_int_eq(add(table, 6, "a=3"), KV_OK);
  free_table(table);
}
END_TEST

START_TEST(damaged_bytes_add_nothing) {
  struct kv_memtable *table = new_table();
  ck_assert_int_eq(add(table, 1, "a=1"), KV_OK);
  struct kv_buf bytes = commit_of(2, "a=2 b=2 c=2");
  for (size_t at = 0; at < bytes.size; at++) {
    bytes.data[at] ^= 0x10;
    struct kv_err err;
    kv_status status = kv_memtable_add(table, 2, kv_buf_slice(&bytes), uuid, NULL, &err);
    ck_assert_int_eq(status, KV_CORRUPT);
    ck_assert_ptr_nonnull(strstr(err.text, "log batch 2"));
    bytes.data[at] ^= 0x10;
    struct kv_slice cut = {bytes.data, at};
    ck_assert_int_eq(kv_memtable_add(table, 2, cut, uuid, NULL, NULL), KV_CORRUPT);
  }
  ck_assert_int_eq(kv_memtable_add(table, 3, kv_buf_slice(&bytes), uuid, NULL, NULL), KV_CORRUPT);
  ck_assert_uint_eq(kv_memtable_last_seq(table), 1);
  ck_assert_str_eq(list(table, 0, 9), harness_in_order("a=1"));
  ck_assert_int_eq(kv_memtable_add(table, 2, kv_buf_slice(&bytes), uuid, NULL, NULL), KV_OK);
  kv_buf_release(&bytes);
  free_table(table);
}
END_TEST

START_TEST(iterator_is_fixed_and_keeps_the_table) {
  struct kv_memtable *table = new_table();
  ck_assert_int_eq(add(table, 1, "a=1 c=1"), KV_OK);
  struct kv_iter *all = open_iter(table, 0, UINT64_MAX);
  struct kv_iter *again = open_iter(table, 0, UINT64_MAX);
  for (uint64_t seq = 2; seq < 300; seq++) {
    char writes[64];
    snprintf(writes, sizeof writes, "a=%d b=%d x%d=1", (int)seq, (int)seq, (int)seq);
    ck_assert_int_eq(add(table, seq, writes), KV_OK);
  }
  ck_assert_str_eq(listing(all), harness_in_order("a=1 c=1"));
  kv_iter_free(all);
  struct kv_slice value;
  kv_memtable_get(table, (struct kv_window){0, 1}, text("c"), kv_hash_key(text("c")), &value);
  ck_assert(kv_slice_equal(value, text("1")));
  kv_memtable_unref(kv_memtable_ref(table));
  kv_memtable_unref(table);
  ck_assert_str_eq(listing(again), harness_in_order("a=1 c=1"));
  kv_iter_free(again);
  ck_assert_int_eq(kv_mem_live_blocks(), 0);
}
END_TEST

START_TEST(iterator_seeks_over_what_its_window_hides) {
  struct kv_memtable *table = new_table();
  ck_assert_int_eq(add(table, 1, "b=1 d=1"), KV_OK);
  ck_assert_int_eq(add(table, 2, "a=2 c=2 e=2"), KV_OK);
  struct kv_iter *iter = open_iter(table, 0, 1);
  bool down = harness_compare(text("d"), text("b")) < 0;
  kv_iter_seek(iter, text("c"));
  ck_assert(iter->valid && kv_slice_equal(iter->key, text(down ? "b" : "d")));
  kv_iter_prev(iter);
  ck_assert(iter->valid && kv_slice_equal(iter->key, text(down ? "d" : "b")));
  kv_iter_prev(iter);
  ck_assert(!iter->valid);
  kv_iter_seek_last(iter);
  ck_assert(iter->valid && kv_slice_equal(iter->key, text(down ? "b" : "d")));
  kv_iter_next(iter);
  ck_assert(!iter->valid);
  kv_iter_free(iter);
  iter = open_iter(table, 2, 9);
  kv_iter_seek_first(iter);
  ck_assert(!iter->valid);
  kv_iter_seek_last(iter);
  ck_assert(!iter->valid);
  kv_iter_free(iter);
  free_table(table);
}
END_TEST

/* ---- A model: every commit's writes */

enum { KEYS = 60, COMMITS = 250 };
static uint32_t written[COMMITS + 1][KEYS]; /* 0 = not, 1 = deleted, else the value */

/* What a window sees of a key: the same code. */
static uint32_t model_state(uint64_t flushed, uint64_t upper, unsigned key) {
  if (upper > COMMITS) upper = COMMITS;
  for (uint64_t seq = upper; seq > flushed; seq--) {
    if (written[seq][key]) return written[seq][key];
  }
  return 0;
}

static struct kv_slice model_key(char buffer[32], unsigned number) {
  int size = snprintf(buffer, 32, "%s%03u", number % 2 ? "key" : "long-prefix-", number);
  return kv_slice_of(buffer, (size_t)size);
}

static bool same_value(struct kv_slice value, uint32_t state) {
  char expected[16];
  snprintf(expected, sizeof expected, "%u", state);
  return kv_slice_equal(value, text(expected));
}

static struct kv_buf model_commit(struct harness_random *random, uint64_t seq) {
  struct kv_batch *batch = new_batch();
  for (uint64_t n = harness_below(random, 12); n > 0; n--) {
    unsigned key = (unsigned)harness_below(random, KEYS);
    char name[32], value[16];
    uint32_t state = harness_below(random, 4) ? (uint32_t)(seq * 100 + n) : 1;
    snprintf(value, sizeof value, "%u", state);
    struct kv_slice slice = model_key(name, key);
    written[seq][key] = state;
    must((state == 1 ? kv_batch_delete(batch, slice, 0, NULL)
                     : kv_batch_put(batch, slice, text(value), 0, NULL)) == KV_OK);
  }
  return encoded(batch, seq);
}

static void check_points(struct kv_memtable *table, struct kv_window window) {
  for (unsigned i = 0; i < KEYS; i++) {
    char name[32];
    struct kv_slice key = model_key(name, i), value;
    uint32_t state = model_state(window.flushed_seq, window.upper_seq, i);
    enum kv_batch_answer answer = kv_memtable_get(table, window, key, kv_hash_key(key), &value);
    must(answer == (state > 1 ? KV_BATCH_PUT : state ? KV_BATCH_DELETED : KV_BATCH_NONE));
    if (state > 1) must(same_value(value, state));
  }
}

static void check_iter(struct kv_iter *iter, struct kv_window window, bool forward) {
  unsigned seen = 0, expected = 0;
  for (unsigned i = 0; i < KEYS; i++) {
    expected += model_state(window.flushed_seq, window.upper_seq, i) != 0;
  }
  struct kv_slice before = {NULL, 0};
  forward ? kv_iter_seek_first(iter) : kv_iter_seek_last(iter);
  for (; iter->valid; forward ? kv_iter_next(iter) : kv_iter_prev(iter)) {
    int order = harness_compare(before, iter->key);
    if (seen++) must(forward ? order < 0 : order > 0);
    before = iter->key;
    const uint8_t *digits = iter->key.data + iter->key.size - 3;
    unsigned number = (digits[0] - '0') * 100u + (digits[1] - '0') * 10u + (digits[2] - '0');
    char name[32];
    must(number < KEYS && kv_slice_equal(iter->key, model_key(name, number)));
    uint32_t state = model_state(window.flushed_seq, window.upper_seq, number);
    must(state && iter->deleted == (state == 1));
    must(state == 1 ? !iter->value.size : same_value(iter->value, state));
  }
  must(seen == expected);
}

/* Once from the encoded bytes, once from a batch of the same writes: the sizes told are the same. */
static void add_either_way(struct kv_memtable *table, uint64_t seq, struct kv_slice encoded) {
  struct kv_batch *batch = new_batch();
  struct kv_batch_reader reader;
  kv_status status;
  size_t bytes;
  must(kv_batch_reader_init(&reader, encoded, uuid, seq, NULL) == KV_OK);
  while (kv_batch_reader_next(&reader, &status, NULL))
    must((reader.deleted ? kv_batch_delete(batch, reader.key, 0, NULL)
                         : kv_batch_put(batch, reader.key, reader.value, 0, NULL)) == KV_OK);
  kv_batch_reader_release(&reader);
  if (seq % 2) {
    must(kv_memtable_add(table, seq, encoded, uuid, &bytes, NULL) == KV_OK);
  } else {
    must(kv_memtable_add_batch(table, seq, batch, &bytes, NULL) == KV_OK);
    bytes += kv_batch_frame_bytes(encoded);
  }
  must(bytes == encoded.size);
  kv_batch_unref(batch);
}

START_TEST(random_commits_and_windows_match_a_model) {
  uint64_t seed = harness_seed_env(200 + (uint64_t)_i);
  printf("memtable model, seed %lu\n", seed);
  struct harness_random random;
  harness_seed(&random, seed);
  memset(written, 0, sizeof written);
  struct kv_memtable *table = new_table();
  struct kv_iter *held = NULL;
  struct kv_window held_window = {0, 0};
  for (uint64_t seq = 1; seq <= COMMITS; seq++) {
    struct kv_buf bytes = model_commit(&random, seq);
    add_either_way(table, seq, kv_buf_slice(&bytes));
    kv_buf_release(&bytes);
    struct kv_window window;
    window.flushed_seq = harness_below(&random, seq + 1);
    window.upper_seq = window.flushed_seq + harness_below(&random, seq - window.flushed_seq + 1);
    check_points(table, window);
    struct kv_iter *iter = open_iter(table, window.flushed_seq, window.upper_seq);
    check_iter(iter, window, seq % 2);
    if (held) check_iter(held, held_window, seq % 3);
    if (seq % 20) {
      kv_iter_free(iter);
      continue;
    }
    kv_iter_free(held);
    held = iter;
    held_window = window;
  }
  kv_iter_free(held);
  free_table(table);
}
END_TEST

/* ---- Memory runs out */

START_TEST(failed_allocation_shows_nothing_of_the_commit) {
  int failures = 0;
  for (uint64_t nth = 1;; nth++) {
    struct kv_batch *batch = new_batch();
    for (int i = 0; i < 400; i++) {
      char name[16];
      snprintf(name, sizeof name, "%d", i);
      must(kv_batch_put(batch, text(name), text("forty bytes of value, forty bytes of v"), 0,
                        NULL) == KV_OK);
    }
    struct kv_buf bytes = encoded(batch, 2);
    struct kv_memtable *table = new_table();
    must(add(table, 1, "1=first 1000=first") == KV_OK);
    struct kv_iter *iter = open_iter(table, 0, UINT64_MAX);
    kv_mem_fail_nth(nth, nth % 2);
    kv_status status = kv_memtable_add(table, 2, kv_buf_slice(&bytes), uuid, NULL, NULL);
    kv_mem_fail_nth(0, 0);
    ck_assert_str_eq(listing(iter), harness_in_order("1=first 1000=first"));
    if (status) {
      failures++;
      ck_assert_int_eq(status, KV_NOMEM);
      ck_assert_str_eq(list(table, 0, UINT64_MAX), harness_in_order("1=first 1000=first"));
      ck_assert_str_eq(get(table, 0, 2, "399"), "");
      ck_assert_uint_eq(kv_memtable_last_seq(table), 1);
      must(kv_memtable_add(table, 2, kv_buf_slice(&bytes), uuid, NULL, NULL) == KV_OK);
    }
    ck_assert_str_ne(get(table, 0, 2, "399"), "");
    ck_assert_str_eq(get(table, 0, 1, "1"), "first");
    kv_iter_free(iter);
    kv_buf_release(&bytes);
    free_table(table);
    if (status == KV_OK) break;
  }
  ck_assert_int_gt(failures, 10);
}
END_TEST

START_TEST(new_and_iter_without_memory_leave_nothing) {
  int failures = 0;
  for (uint64_t nth = 1;; nth++) {
    struct kv_memtable *table = NULL;
    struct kv_iter *iter = NULL;
    struct kv_buf bytes = commit_of(1, "a=1 b=2");
    kv_mem_fail_nth(nth, 0);
    kv_status status = kv_memtable_new(1, NULL, &table, NULL);
    if (!status) status = kv_memtable_add(table, 1, kv_buf_slice(&bytes), uuid, NULL, NULL);
    if (!status) status = kv_memtable_iter(table, (struct kv_window){0, 1}, &iter, NULL);
    kv_mem_fail_nth(0, 0);
    kv_buf_release(&bytes);
    kv_iter_free(iter);
    free_table(table);
    if (status == KV_OK) break;
    ck_assert_int_eq(status, KV_NOMEM);
    failures++;
  }
  ck_assert_int_ge(failures, 6);
}
END_TEST

/* ---- Readers beside a writer: each commit writes its seq to every key */

enum { RACE_COMMITS = 600, RACE_KEYS = 20, READERS = 3 };
struct race {
  struct kv_memtable *table;
  uint64_t published; /* atomic */
  int wrong;          /* atomic */
};

static bool sees(struct kv_slice value, uint64_t seq) {
  char expected[24];
  snprintf(expected, sizeof expected, "%lu", seq);
  return kv_slice_equal(value, text(expected));
}

static void *read_beside(void *argument) {
  struct race *race = argument;
  for (uint64_t seq = 0; seq < RACE_COMMITS;) {
    seq = __atomic_load_n(&race->published, __ATOMIC_ACQUIRE);
    if (!seq) continue;
    struct kv_window window = {0, seq};
    struct kv_slice value = {NULL, 0};
    kv_memtable_get(race->table, window, text("k7"), kv_hash_key(text("k7")), &value);
    bool good = sees(value, seq);
    struct kv_iter *iter;
    int count = 0;
    if (kv_memtable_iter(race->table, window, &iter, NULL)) continue; /* the writer's failure */
    for (kv_iter_seek_first(iter); iter->valid; kv_iter_next(iter), count++) {
      good = good && sees(iter->value, seq);
    }
    kv_iter_free(iter);
    if (!good || count != RACE_KEYS) __atomic_store_n(&race->wrong, 1, __ATOMIC_RELAXED);
  }
  return NULL;
}

/* With `failing`, there is no memory at first: returns whether the commit was taken back once. */
static int commit_beside(struct race *race, uint64_t seq, bool failing) {
  struct kv_batch *batch = new_batch();
  char name[16], value[24];
  snprintf(value, sizeof value, "%lu", seq);
  for (int i = 0; i < RACE_KEYS; i++) {
    snprintf(name, sizeof name, "k%d", i);
    must(kv_batch_put(batch, text(name), text(value), 0, NULL) == KV_OK);
  }
  struct kv_buf bytes = encoded(batch, seq);
  kv_mem_fail_nth(failing, failing);
  kv_status status = kv_memtable_add(race->table, seq, kv_buf_slice(&bytes), uuid, NULL, NULL);
  kv_mem_fail_nth(0, 0);
  bool failed = status != KV_OK;
  if (failed) status = kv_memtable_add(race->table, seq, kv_buf_slice(&bytes), uuid, NULL, NULL);
  must(status == KV_OK);
  kv_buf_release(&bytes);
  __atomic_store_n(&race->published, seq, __ATOMIC_RELEASE);
  return failed;
}

START_TEST(readers_beside_a_writer_see_whole_commits) {
  bool failing = _i == 1;
  struct race race = {new_table(), 0, 0};
  pthread_t threads[READERS];
  int failed = 0;
  for (int i = 0; i < READERS; i++) pthread_create(&threads[i], NULL, read_beside, &race);
  for (uint64_t seq = 1; seq <= RACE_COMMITS; seq++) failed += commit_beside(&race, seq, failing);
  for (int i = 0; i < READERS; i++) pthread_join(threads[i], NULL);
  ck_assert_int_eq(race.wrong, 0);
  ck_assert_int_eq(failed > 20, failing);
  free_table(race.table);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("memtable");
  TCase *tests = tcase_create("memtable");
  tcase_set_timeout(tests, 60);
  tcase_add_test(tests, empty_table);
  tcase_add_test(tests, windows_see_their_versions);
  tcase_add_test(tests, empty_commit_counts);
  tcase_add_test(tests, commits_must_ascend);
  tcase_add_test(tests, damaged_bytes_add_nothing);
  tcase_add_test(tests, iterator_is_fixed_and_keeps_the_table);
  tcase_add_test(tests, iterator_seeks_over_what_its_window_hides);
  tcase_add_loop_test(tests, random_commits_and_windows_match_a_model, 0, 6);
  tcase_add_test(tests, failed_allocation_shows_nothing_of_the_commit);
  tcase_add_test(tests, new_and_iter_without_memory_leave_nothing);
  tcase_add_loop_test(tests, readers_beside_a_writer_see_whole_commits, 0, 2);
  suite_add_tcase(suite, tests);
  return harness_run(suite);
}
