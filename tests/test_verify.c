/* Whose checksums are looked at: one for each block read and none on a hit; all, those of what is written
** on, or none, as the application says, on every path; and in any case those of what is read to find damage.
** */
#include <stdio.h>
#include <string.h>

#include "catalog.h"

#define KEYS 400

static struct store store;
static const enum kv_verify settings[] = {KV_VERIFY_ALL, KV_VERIFY_MERGES, KV_VERIFY_NONE};
enum { SETTINGS = 3 };

static const char *key_of(int i) {
  static char key[16];
  snprintf(key, sizeof key, "key %05d", i);
  return key;
}

/* Two runs of several blocks, with values in them and apart, and rows in the log. */
static void set_up(void) {
  char large[600];
  store_init(&store, 1, 4 << 20);
  store.config.options.block_bytes = 1024;
  store.config.options.value_bytes = 400;
  kv_family_set_options(store.family, &store.config.options);
  memset(large, 'v', sizeof large);
  large[sizeof large - 1] = 0;
  for (int round = 0; round < 3; round++) {
    for (int i = round; i < KEYS; i += round + 1)
      store_put(&store, key_of(i), i % 10 == 3 ? large : "short");
    store_commit(&store);
    if (round < 2) store_flush(&store);
  }
}

static void tear_down(void) {
  store_release(&store);
}

/* ---- What was counted since */

struct counts {
  uint64_t blocks, checked, skipped, parts, log;
};

static struct counts counts_now(void) {
  return (struct counts){
      store_stat(&store, KV_STAT_BLOCKS_READ), store_stat(&store, KV_STAT_CHECKSUMS),
      store_stat(&store, KV_STAT_CHECKSUMS_SKIPPED), store_stat(&store, KV_STAT_PART_CHECKSUMS),
      store_stat(&store, KV_STAT_LOG_CHECKSUMS)};
}

static struct counts since(struct counts before) {
  struct counts now = counts_now();
  return (struct counts){now.blocks - before.blocks, now.checked - before.checked,
                         now.skipped - before.skipped, now.parts - before.parts,
                         now.log - before.log};
}

/* One look a block, or none. */
static void expect(struct counts got, bool looked, const char *what) {
  ck_assert_msg(got.blocks > 0, "%s has read nothing", what);
  ck_assert_msg(got.checked == (looked ? got.blocks : 0), "%s: %llu blocks, %llu checksums", what,
                (unsigned long long)got.blocks, (unsigned long long)got.checked);
  ck_assert_uint_eq(got.checked + got.skipped, got.blocks);
}

/* ---- Paths: each reads all rows, but for the log's */

static void by_get(void) {
  for (int i = 0; i < KEYS; i++) {
    struct kv_value value = {0};
    ck_assert_int_eq(kv_get(store.view, NULL, slice(key_of(i)), &value, NULL), KV_OK);
    kv_value_release(&value);
  }
}

static void by_exists(void) {
  bool found;
  for (int i = 0; i < KEYS; i++)
    ck_assert_int_eq(kv_exists(store.view, NULL, slice(key_of(i)), &found, NULL), KV_OK);
}

static void by_multi_get(void) {
  static char keys[KEYS][16];
  struct kv_slice slices[KEYS];
  struct kv_result *result = NULL;
  for (int i = 0; i < KEYS; i++) {
    strcpy(keys[i], key_of(i));
    slices[i] = slice(keys[i]);
  }
  ck_assert_int_eq(kv_multi_get(store.view, NULL, slices, KEYS, &result, NULL), KV_OK);
  kv_result_free(result);
}

static void by_scan(void) {
  struct kv_bounds all = {.has_upper = false};
  struct kv_scan *scan = NULL;
  struct kv_slice value;
  ck_assert_int_eq(kv_scan_open(store.view, NULL, &all, &scan, NULL), KV_OK);
  ck_assert_int_eq(kv_scan_first(scan, NULL), KV_OK);
  while (kv_scan_valid(scan)) {
    ck_assert_int_eq(kv_scan_value(scan, &value, NULL), KV_OK);
    ck_assert_int_eq(kv_scan_next(scan, NULL), KV_OK);
  }
  kv_scan_close(scan);
}

static const struct {
  const char *name;
  void (*read)(void);
} paths[] = {
    {"get", by_get}, {"exists", by_exists}, {"multi-get", by_multi_get}, {"scan", by_scan}};
enum { PATHS = sizeof paths / sizeof *paths };

/* Cold, then from the cache. */
START_TEST(reads_look_when_they_load_and_only_then) {
  for (int setting = 0; setting < SETTINGS; setting++) {
    store_reopen(&store);
    kv_cache_set_verify(store.cache, settings[setting]);
    struct counts before = counts_now();
    paths[_i].read();
    expect(since(before), settings[setting] == KV_VERIFY_ALL, paths[_i].name);
    before = counts_now();
    paths[_i].read();
    struct counts again = since(before);
    ck_assert_uint_eq(again.blocks + again.checked + again.skipped, 0);
  }
}
END_TEST

/* Opening looks at filter, fences and properties once a file, at the footer in any case. */
START_TEST(cold_opens_look_at_parts) {
  for (int setting = 0; setting < SETTINGS; setting++) {
    kv_cache_set_verify(store.cache, settings[setting]);
    store_reopen(&store);
    struct counts before = counts_now();
    by_multi_get();
    uint64_t files = kv_view_file_count(store.view), parts = since(before).parts;
    if (settings[setting] == KV_VERIFY_NONE)
      ck_assert_uint_eq(parts, 0);
    else
      ck_assert(parts >= 2 * files && parts <= 3 * files);
    before = counts_now();
    by_multi_get();
    ck_assert_uint_eq(since(before).parts, 0);
  }
}
END_TEST

START_TEST(replay_looks_once_a_row) {
  store_put(&store, "another", "row");
  store_commit(&store);
  for (int setting = 0; setting < SETTINGS; setting++) {
    kv_cache_set_verify(store.cache, settings[setting]);
    store_reopen(&store); /* counts from nothing */
    uint64_t rows = store_stat(&store, KV_STAT_LOG_ROWS_REPLAYED);
    ck_assert_uint_eq(rows, 2);
    ck_assert_uint_eq(counts_now().log, settings[setting] == KV_VERIFY_NONE ? 0 : rows);
  }
}
END_TEST

/* The flush reads back what it wrote, the compaction its inputs and that. */
START_TEST(merges_and_read_back_look_unless_none_is_wanted) {
  for (int setting = 0; setting < SETTINGS; setting++) {
    kv_cache_set_verify(store.cache, settings[setting]);
    bool looks = settings[setting] != KV_VERIFY_NONE;
    store_put(&store, "another", "row");
    store_commit(&store);
    struct counts before = counts_now();
    store_flush(&store);
    struct counts flush = since(before);
    expect(flush, looks, "flush");
    ck_assert_uint_eq(flush.parts > 0, looks);
    store_put(&store, "one more", "row");
    store_commit(&store);
    before = counts_now();
    store_compact(&store);
    expect(since(before), looks, "compaction");
  }
}
END_TEST

static kv_status count_problem(void *ctx, const char *severity, uint64_t file, uint64_t position,
                               const char *text) {
  (void)severity, (void)file, (void)position, (void)text;
  ++*(int *)ctx;
  return KV_OK;
}

/* Also at the parts, which were opened without a look. */
START_TEST(check_looks_in_any_case) {
  for (int setting = 0; setting < SETTINGS; setting++) {
    kv_cache_set_verify(store.cache, settings[setting]);
    store_reopen(&store);
    by_get();
    struct counts before = counts_now();
    int problems = 0;
    ck_assert_int_eq(kv_check(store.view, count_problem, &problems, NULL), KV_OK);
    ck_assert_int_eq(problems, 0);
    struct counts check = since(before);
    ck_assert_uint_gt(check.checked, 0);
    ck_assert_uint_ge(check.parts, 2 * kv_view_file_count(store.view));
  }
}
END_TEST

int main(void) {
  Suite *suite = suite_create("verify");
  TCase *tests = tcase_create("verify");
  tcase_add_checked_fixture(tests, set_up, tear_down);
  tcase_add_loop_test(tests, reads_look_when_they_load_and_only_then, 0, PATHS);
  tcase_add_test(tests, cold_opens_look_at_parts);
  tcase_add_test(tests, replay_looks_once_a_row);
  tcase_add_test(tests, merges_and_read_back_look_unless_none_is_wanted);
  tcase_add_test(tests, check_looks_in_any_case);
  suite_add_tcase(suite, tests);
  return harness_run(suite);
}
