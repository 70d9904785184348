/* Batched reads against single ones: keys that live in the batch, in memtables, in several runs and levels,
** asked for in any order and several times, in every form (multi-get of one and of many requests, into the
** caller's buffers, key-may-exist and exists, resumed), values with their keys or apart; with a cache of any
** size, cold and warm, and while reads fail. COLFAM_SEED sets the first seed, COLFAM_MULTI_ROUNDS how many
** worlds. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "catalog.h"
#include "harness_comparator.h"
#include "mem.h"
#include "view.h"

enum { KEYS = 600, ASKED_MAX = 400, TEXT = 48 };

static struct store store;
static struct harness_random random_source;
static char texts[KEYS][TEXT];

static size_t below(size_t bound) {
  return (size_t)harness_below(&random_source, bound);
}

/* Every other key exists or has existed; those between never. */
static struct kv_slice key_at(size_t key) {
  snprintf(texts[key], TEXT, key % 5 ? "key-%05zu" : "key-%05zu-with-a-longer-name", key);
  return slice(texts[key]);
}

static void write_some(size_t count) {
  static char value[3000];
  for (size_t i = 0; i < count; i++) {
    const char *key = (const char *)key_at(below(KEYS / 2) * 2).data;
    int size = snprintf(value, sizeof value, "%zu:", below(1000000));
    size_t fill = below(12) ? below(100) : 2000;
    memset(value + size, 'v', fill);
    value[(size_t)size + fill] = 0;
    if (below(5))
      store_put(&store, key, value);
    else
      store_delete(&store, key);
  }
}

/* Runs, generations and levels of any number, and something pending. */
static void build_world(size_t cache_bytes, uint64_t seed) {
  static const int bits[] = {10, 10, 4, 0};
  static const uint32_t limits[] = {0, 60, 1000};
  store_init(&store, seed, cache_bytes);
  struct kv_options options = kv_family_options(store.family);
  options.filter_bits = bits[below(4)];
  options.value_bytes = limits[below(3)];
  kv_family_set_options(store.family, &options);
  store.file_bytes = below(2) ? 3000 : 0;
  for (size_t commits = 1 + below(8); commits; commits--) {
    write_some(1 + below(300));
    store_commit(&store);
    size_t then = below(6);
    if (then == 0) store_rotate(&store);
    if (then == 1) store_compact(&store);
    if (then >= 4) store_flush(&store);
  }
  if (below(3) == 0) store_reopen(&store);
  if (below(2)) write_some(1 + below(40));
}

struct asked {
  struct kv_slice keys[ASKED_MAX];
  size_t count;
};

static void ask_some(struct asked *asked) {
  asked->count = below(4) ? below(ASKED_MAX) : below(3);
  for (size_t i = 0; i < asked->count; i++) {
    asked->keys[i] = i && below(6) == 0 ? asked->keys[below(i)] : key_at(below(KEYS));
  }
}

/* ---- What single gets say */

struct answer {
  bool found;
  struct kv_value value;
};

static void get_each(struct kv_view *view, struct kv_batch *batch, const struct asked *asked,
                     struct answer *answers) {
  for (size_t i = 0; i < asked->count; i++) {
    memset(&answers[i], 0, sizeof answers[i]);
    ck_assert_int_eq(kv_get(view, batch, asked->keys[i], &answers[i].value, NULL), KV_OK);
    answers[i].found = answers[i].value.found;
  }
}

static void release(struct answer *answers, size_t n) {
  for (size_t i = 0; i < n; i++) kv_value_release(&answers[i].value);
}

static void expect_result(const struct kv_result *result, size_t first, const struct answer *wanted,
                          size_t n) {
  for (size_t i = 0; i < n; i++) {
    struct kv_slice value;
    bool found = kv_result_found(result, first + i, &value);
    ck_assert_msg(found == wanted[i].found, "key %zu of %zu: found %d", i, n, found);
    if (found) ck_assert(kv_slice_equal(value, wanted[i].value.bytes));
  }
}

/* ---- Every form */

static int compare_slices(const void *a, const void *b) {
  return harness_compare(*(const struct kv_slice *)a, *(const struct kv_slice *)b);
}

static void multi_get_in_order(struct kv_view *view, const struct asked *asked) {
  struct asked sorted = *asked;
  struct answer wanted[ASKED_MAX];
  struct kv_result *result = NULL;
  size_t n = 0;
  qsort(sorted.keys, sorted.count, sizeof *sorted.keys, compare_slices);
  for (size_t i = 0; i < sorted.count; i++) {
    if (!i || !kv_slice_equal(sorted.keys[n - 1], sorted.keys[i]))
      sorted.keys[n++] = sorted.keys[i];
  }
  sorted.count = n;
  ck_assert_int_eq(kv_multi_get(view, store.batch, sorted.keys, n, &result, NULL), KV_OK);
  get_each(view, store.batch, &sorted, wanted);
  expect_result(result, 0, wanted, n);
  release(wanted, n);
  kv_result_free(result);
}

/* Three families at once: the state with the pending batch, the same without, and one that has nothing but
** two pending keys. */
static void multi_get_of_many_families(struct kv_view *view, const struct asked *asked,
                                       const struct answer *wanted) {
  struct answer committed[ASKED_MAX];
  struct kv_family_config config = store.config;
  struct kv_family *other = NULL;
  struct kv_view *empty = NULL;
  struct kv_batch *pending = NULL;
  const struct kv_snapshot nothing = {.rows = -1};
  const struct kv_log_source none = {0};
  const struct kv_slice two[] = {slice("b"), slice("a"), slice("b"), slice("c")};
  struct kv_result *result = NULL;
  config.uuid[0] ^= 1;
  ck_assert_int_eq(kv_family_new(&config, &other, NULL), KV_OK);
  ck_assert_int_eq(kv_view_new(other, &nothing, &none, &empty, NULL), KV_OK);
  ck_assert_int_eq(kv_batch_new(NULL, &pending, NULL), KV_OK);
  ck_assert_int_eq(kv_batch_put(pending, two[0], slice("of b"), 0, NULL), KV_OK);
  ck_assert_int_eq(kv_batch_put(pending, two[1], slice(""), 0, NULL), KV_OK);
  const struct kv_request requests[] = {{view, store.batch, asked->keys, asked->count, NULL},
                                        {empty, pending, two, 4, NULL},
                                        {view, NULL, NULL, 0, NULL},
                                        {view, NULL, asked->keys, asked->count, NULL}};
  ck_assert_int_eq(kv_multi_get_many(requests, 4, &result, NULL), KV_OK);
  kv_view_unref(empty);
  kv_batch_unref(pending);
  kv_family_unref(other);
  expect_result(result, 0, wanted, asked->count);
  struct kv_slice value;
  ck_assert(kv_result_found(result, asked->count, &value) && kv_slice_equal(value, slice("of b")));
  ck_assert(kv_result_found(result, asked->count + 1, &value) && value.size == 0);
  ck_assert(kv_result_found(result, asked->count + 2, &value) &&
            kv_slice_equal(value, slice("of b")));
  ck_assert(!kv_result_found(result, asked->count + 3, &value));
  get_each(view, NULL, asked, committed);
  expect_result(result, asked->count + 4, committed, asked->count);
  release(committed, asked->count);
  kv_result_free(result);
}

/* Buffers of any size: what fits is there, of what does not the length alone, and the buffer is untouched. */
static void multi_get_into_buffers(struct kv_view *view, const struct asked *asked,
                                   const struct answer *wanted) {
  static char bytes[ASKED_MAX][2200];
  struct kv_room rooms[ASKED_MAX];
  const struct kv_request request = {view, store.batch, asked->keys, asked->count, NULL};
  for (size_t i = 0; i < asked->count; i++) {
    memset(bytes[i], '#', sizeof bytes[i]);
    rooms[i] =
        (struct kv_room){.bytes = bytes[i], .capacity = below(3) ? sizeof bytes[i] : below(9)};
    if (!rooms[i].capacity) rooms[i].bytes = NULL;
  }
  ck_assert_int_eq(kv_multi_get_into(&request, 1, rooms, NULL), KV_OK);
  for (size_t i = 0; i < asked->count; i++) {
    struct kv_slice value = wanted[i].value.bytes;
    bool fits = wanted[i].found && value.size <= rooms[i].capacity;
    ck_assert_int_eq(rooms[i].found, wanted[i].found);
    ck_assert_uint_eq(rooms[i].size, wanted[i].found ? value.size : 0);
    if (fits) ck_assert(kv_slice_equal(kv_slice_of(bytes[i], value.size), value));
    ck_assert_int_eq(bytes[i][fits ? value.size : 0], '#');
  }
}

static void existence(struct kv_view *view, const struct asked *asked,
                      const struct answer *wanted) {
  enum kv_may_exist answers[ASKED_MAX];
  struct kv_resume resumes[ASKED_MAX];
  bool found[ASKED_MAX];
  ck_assert_int_eq(
      kv_may_exist_many(view, store.batch, asked->keys, asked->count, answers, resumes, NULL),
      KV_OK);
  for (size_t i = 0; i < asked->count; i++) {
    if (answers[i] != KV_UNKNOWN) ck_assert_int_eq(answers[i] == KV_PRESENT, wanted[i].found);
    if (answers[i] != KV_UNKNOWN || below(4)) continue;
    struct kv_value value = {0};
    bool there;
    ck_assert_int_eq(kv_exists_resume(view, asked->keys[i], resumes[i], &there, NULL), KV_OK);
    ck_assert_int_eq(there, wanted[i].found);
    ck_assert_int_eq(kv_get_resume(view, asked->keys[i], resumes[i], &value, NULL), KV_OK);
    ck_assert_int_eq(value.found, wanted[i].found);
    if (value.found) ck_assert(kv_slice_equal(value.bytes, wanted[i].value.bytes));
    kv_value_release(&value);
  }
  ck_assert_int_eq(kv_exists_many_resume(view, asked->keys, asked->count, answers, resumes, NULL),
                   KV_OK);
  ck_assert_int_eq(kv_exists_many(view, store.batch, asked->keys, asked->count, found, NULL),
                   KV_OK);
  for (size_t i = 0; i < asked->count; i++) {
    ck_assert_int_eq(answers[i], wanted[i].found ? KV_PRESENT : KV_ABSENT);
    ck_assert_int_eq(found[i], wanted[i].found);
  }
}

static size_t rounds(size_t fallback) {
  const char *text = getenv("COLFAM_MULTI_ROUNDS");
  return text ? (size_t)strtoull(text, NULL, 10) : fallback;
}

static void begin(uint64_t seed) {
  harness_seed(&random_source, harness_seed_env(1) + seed);
}

START_TEST(batched_reads_are_as_many_single_ones) {
  static const size_t budgets[] = {0, 4000, 1 << 20};
  for (size_t round = 0; round < rounds(60); round++) {
    begin(round);
    build_world(budgets[below(3)], round);
    for (int turn = 0; turn < 4; turn++) {
      struct asked asked;
      struct answer wanted[ASKED_MAX];
      ask_some(&asked);
      get_each(store.view, store.batch, &asked, wanted);
      multi_get_in_order(store.view, &asked);
      multi_get_of_many_families(store.view, &asked, wanted);
      multi_get_into_buffers(store.view, &asked, wanted);
      existence(store.view, &asked, wanted);
      release(wanted, asked.count);
    }
    store_release(&store);
  }
}
END_TEST

/* ---- Counters */

static const enum kv_stat counted[] = {
    KV_STAT_FILTER_CHECKS,     KV_STAT_FILTER_USEFUL,    KV_STAT_FILTER_FALSE_POSITIVES,
    KV_STAT_BLOCKS_READ,       KV_STAT_BLOCK_BYTES_READ, KV_STAT_CHECKSUMS,
    KV_STAT_CHECKSUMS_SKIPPED, KV_STAT_PART_CHECKSUMS,   KV_STAT_CACHE_MISSES,
    KV_STAT_VALUE_BLOCKS_READ, KV_STAT_VALUE_BYTES_READ,
};
enum { COUNTED = sizeof counted / sizeof *counted, WAYS = 4 };

static void count_way(int way, const struct asked *asked, uint64_t *counts) {
  struct kv_result *result = NULL;
  bool found[ASKED_MAX];
  store_reopen(&store);
  for (size_t i = 0; i < COUNTED; i++) counts[i] = store_stat(&store, counted[i]);
  if (way == 0)
    ck_assert_int_eq(kv_multi_get(store.view, NULL, asked->keys, asked->count, &result, NULL),
                     KV_OK);
  if (way == 1)
    ck_assert_int_eq(kv_exists_many(store.view, NULL, asked->keys, asked->count, found, NULL),
                     KV_OK);
  for (size_t i = 0; i < asked->count && way > 1; i++) {
    struct kv_value value = {0};
    if (way == 2) ck_assert_int_eq(kv_get(store.view, NULL, asked->keys[i], &value, NULL), KV_OK);
    if (way == 3) ck_assert_int_eq(kv_exists(store.view, NULL, asked->keys[i], found, NULL), KV_OK);
    kv_value_release(&value);
  }
  kv_result_free(result);
  for (size_t i = 0; i < COUNTED; i++) counts[i] = store_stat(&store, counted[i]) - counts[i];
}

/* The same keys cold, by each way, with room for all blocks: what gets count and what exists counts, which
** reads no value; checksums one a block read, or none. */
START_TEST(single_and_batched_reads_count_alike) {
  uint64_t apart = 0;
  for (size_t round = 0; round < 20; round++) {
    begin(round + 1000);
    build_world(1 << 22, round);
    bool verifies = round % 3 != 0;
    kv_cache_set_verify(store.cache, verifies ? KV_VERIFY_ALL : KV_VERIFY_NONE);
    struct asked asked = {.count = 0};
    for (size_t i = 0; i < KEYS && asked.count < ASKED_MAX; i++) {
      if (below(3) == 0) asked.keys[asked.count++] = key_at(i);
    }
    qsort(asked.keys, asked.count, sizeof *asked.keys, compare_slices);
    uint64_t counts[WAYS][COUNTED];
    for (int way = 0; way < WAYS; way++) {
      count_way(way, &asked, counts[way]);
      const uint64_t *batched = counts[way % 2];
      for (size_t i = 0; i < COUNTED; i++)
        ck_assert_msg(counts[way][i] == batched[i], "round %zu, way %d: %s is %llu, not %llu",
                      round, way, kv_stat_info(counted[i])->name,
                      (unsigned long long)counts[way][i], (unsigned long long)batched[i]);
      if (way % 2) ck_assert_uint_eq(counts[way][9], 0);
      apart += counts[way][9];
      ck_assert_uint_eq(counts[way][5], verifies ? counts[way][3] : 0);
      ck_assert_uint_eq(counts[way][6], verifies ? 0 : counts[way][3]);
    }
    store_release(&store);
  }
  ck_assert_uint_gt(apart, 0);
}
END_TEST

/* A block is looked into once by a call whatever the order of its keys, and a run's filters are passed once.
** */
START_TEST(a_call_touches_each_block_once) {
  for (size_t round = 0; round < 20; round++) {
    begin(round + 2000);
    build_world(0, round);
    store_reopen(&store);
    struct asked asked;
    struct kv_result *result = NULL;
    ask_some(&asked);
    const struct kv_request request = {store.view, NULL, asked.keys, asked.count, NULL};
    ck_assert_int_eq(kv_multi_get_many(&request, 1, &result, NULL), KV_OK);
    kv_result_free(result);
    uint64_t blocks = store_stat(&store, KV_STAT_MULTI_GET_BLOCKS);
    if (asked.count > 1) ck_assert_uint_eq(store_stat(&store, KV_STAT_BLOCKS_READ), blocks);
    ck_assert_uint_le(store_stat(&store, KV_STAT_MULTI_GET_FILTER_PASSES),
                      kv_view_run_count(store.view));
    store_release(&store);
  }
}
END_TEST

/* ---- Failures */

/* Answers of a call that came back well are right; of one that failed all are unknown. */
static void probe_while_failing(const struct asked *asked, const struct answer *wanted) {
  enum kv_may_exist answers[ASKED_MAX];
  struct kv_resume resumes[ASKED_MAX];
  bool found[ASKED_MAX];
  kv_status status =
      kv_may_exist_many(store.view, store.batch, asked->keys, asked->count, answers, resumes, NULL);
  for (size_t i = 0; i < asked->count; i++) {
    if (status != KV_OK) ck_assert_int_eq(answers[i], KV_UNKNOWN);
    if (wanted[i].found) ck_assert_int_ne(answers[i], KV_ABSENT);
  }
  if (status == KV_OK)
    status = kv_exists_many_resume(store.view, asked->keys, asked->count, answers, resumes, NULL);
  for (size_t i = 0; i < asked->count; i++) {
    if (wanted[i].found) ck_assert_int_ne(answers[i], KV_ABSENT);
    if (status == KV_OK) ck_assert_int_eq(answers[i] == KV_PRESENT, wanted[i].found);
  }
  status = kv_exists_many(store.view, store.batch, asked->keys, asked->count, found, NULL);
  for (size_t i = 0; i < asked->count && status == KV_OK; i++)
    ck_assert_int_eq(found[i], wanted[i].found);
}

static void get_while_failing(const struct asked *asked, const struct answer *wanted) {
  const struct kv_request request = {store.view, store.batch, asked->keys, asked->count, NULL};
  struct kv_result *result = NULL;
  if (kv_multi_get_many(&request, 1, &result, NULL) == KV_OK)
    expect_result(result, 0, wanted, asked->count);
  else
    ck_assert_ptr_null(result);
  kv_result_free(result);
}

START_TEST(existing_keys_are_never_absent_while_reads_fail) {
  for (size_t round = 0; round < rounds(60); round++) {
    begin(round + 3000);
    build_world(below(2) ? 0 : 20000, round);
    struct asked asked;
    struct answer wanted[ASKED_MAX];
    ask_some(&asked);
    get_each(store.view, store.batch, &asked, wanted);
    kv_env_fault_set(store.env, KV_FAULT_ANY, 1 + below(8), below(2), KV_IO);
    probe_while_failing(&asked, wanted);
    get_while_failing(&asked, wanted);
    kv_env_fault_set(store.env, KV_FAULT_ANY, 0, false, KV_IO);
    kv_mem_fail_nth(1 + below(8), (int)below(2));
    probe_while_failing(&asked, wanted);
    get_while_failing(&asked, wanted);
    kv_mem_fail_nth(0, 0);
    existence(store.view, &asked, wanted);
    release(wanted, asked.count);
    store_release(&store);
  }
}
END_TEST

int main(void) {
  Suite *suite = suite_create("read_multi");
  TCase *tests = tcase_create("model");
  tcase_set_timeout(tests, 120);
  tcase_add_test(tests, batched_reads_are_as_many_single_ones);
  tcase_add_test(tests, single_and_batched_reads_count_alike);
  tcase_add_test(tests, a_call_touches_each_block_once);
  tcase_add_test(tests, existing_keys_are_never_absent_while_reads_fail);
  suite_add_tcase(suite, tests);
  return harness_run(suite);
}
