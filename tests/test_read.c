/* Point reads: every place a key can be in, every way to ask, counters, failures. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "catalog.h"
#include "mem.h"
#include "view.h"

static struct store store;

static void open_store(void) {
  store_init(&store, 3, 1 << 20);
}

static void close_store(void) {
  store_release(&store);
}

/* ---- Every way to ask for one key */

static const char *by_multi_get(struct kv_view *view, struct kv_batch *batch, const char *key) {
  static char out[128];
  struct kv_slice keys[2] = {slice(key), slice("~~~~~~")};
  struct kv_result *result = NULL;
  struct kv_slice value;
  kv_status status = kv_multi_get(view, batch, keys, 2, &result, NULL);
  if (status != KV_OK) return kv_status_name(status);
  bool found = kv_result_found(result, 0, &value);
  snprintf(out, sizeof out, "%.*s", (int)(found ? value.size : 1),
           found ? (const char *)value.data : "-");
  ck_assert(!kv_result_found(result, 1, NULL));
  kv_result_free(result);
  return out;
}

static const char *by_scan(struct kv_view *view, struct kv_batch *batch, const char *key) {
  static char out[128];
  struct kv_scan *scan = NULL;
  const struct kv_bounds all = {.has_upper = false};
  kv_status status = kv_scan_open(view, batch, &all, &scan, NULL);
  if (status == KV_OK) status = kv_scan_seek(scan, slice(key), NULL);
  snprintf(out, sizeof out, "-");
  struct kv_slice value;
  if (status == KV_OK && kv_scan_valid(scan) && kv_slice_equal(kv_scan_key(scan), slice(key))) {
    status = kv_scan_value(scan, &value, NULL);
    if (status == KV_OK)
      snprintf(out, sizeof out, "%.*s", (int)value.size, (const char *)value.data);
  }
  kv_scan_close(scan);
  return status == KV_OK ? out : kv_status_name(status);
}

static void expect_existence(struct kv_view *view, struct kv_batch *batch, const char *key,
                             bool there) {
  bool found = !there;
  enum kv_may_exist answer = KV_UNKNOWN;
  ck_assert_int_eq(kv_may_exist(view, batch, slice(key), &answer, NULL, NULL), KV_OK);
  ck_assert_int_ne(answer, there ? KV_ABSENT : KV_PRESENT);
  ck_assert_int_eq(kv_exists(view, batch, slice(key), &found, NULL), KV_OK);
  ck_assert_int_eq(found, there);
}

/* want: a value, or "-" for not there. */
static void expect(const char *key, const char *want) {
  expect_existence(store.view, store.batch, key, strcmp(want, "-") != 0);
  ck_assert_str_eq(store_get(&store, store.view, key), want);
  ck_assert_str_eq(by_multi_get(store.view, store.batch, key), want);
  ck_assert_str_eq(by_scan(store.view, store.batch, key), want);
  expect_existence(store.view, store.batch, key, strcmp(want, "-") != 0);
}

/* ---- Every shortcut x {put, tombstone} x {batch, memtable, L0, deeper} */

enum place { BATCH, MEMTABLE, OLDER_MEMTABLE, NEWEST_RUN, MIDDLE_RUN, BOTTOM_RUN, PLACES };

/* Writes "key" (put or deleted) at one place and the opposite at every older place; other keys around it
** make every place's files overlap. */
static void write_place(enum place place, enum place at, bool deleted) {
  char text[32];
  bool here = place == at;
  snprintf(text, sizeof text, "place %d", place);
  store_put(&store, "a", text);
  store_put(&store, "z", text);
  if (place < at) return; /* newer places know nothing */
  if (here ? deleted : !deleted)
    store_delete(&store, "key");
  else
    store_put(&store, "key", here ? "right" : "older");
}

static void build_places(enum place at, bool deleted) {
  for (int place = PLACES - 1; place >= 0; place--) {
    write_place((enum place)place, at, deleted);
    if (place == BATCH) break;
    store_commit(&store);
    if (place == BOTTOM_RUN) store_compact(&store);
    if (place == MIDDLE_RUN || place == NEWEST_RUN) store_flush(&store);
    if (place == OLDER_MEMTABLE) store_rotate(&store);
  }
}

START_TEST(newest_place_answers_every_question) {
  store_release(&store);
  for (int filter_bits = 0; filter_bits <= 10; filter_bits += 10) {
    for (int at = 0; at < 2 * PLACES; at++) {
      for (size_t cache = 0; cache <= 1 << 20; cache += 1 << 20) {
        store_init(&store, 3, cache);
        struct kv_options options = kv_family_options(store.family);
        options.filter_bits = filter_bits;
        kv_family_set_options(store.family, &options);
        bool deleted = at >= PLACES;
        build_places((enum place)(at % PLACES), deleted);
        expect("key", deleted ? "-" : "right");
        expect("a", "place 0");
        expect("never", "-");
        store_reopen(&store); /* the pending batch goes */
        if (at % PLACES != BATCH) expect("key", deleted ? "-" : "right");
        store_release(&store);
      }
    }
  }
  open_store();
}
END_TEST

START_TEST(key_only_in_the_third_run_under_overlapping_files) {
  store_put(&store, "key", "deep");
  store_put(&store, "a", "0");
  store_commit(&store);
  store_flush(&store);
  for (int run = 0; run < 2; run++) {
    store_put(&store, "a", "1");
    store_put(&store, "z", "1");
    store_commit(&store);
    store_flush(&store);
  }
  ck_assert_uint_eq(kv_view_run_count(store.view), 3);
  expect("key", "deep");
  expect("b", "-");
}
END_TEST

START_TEST(empty_key_and_empty_value) {
  store_put(&store, "", "of the empty key");
  store_put(&store, "empty", "");
  expect("", "of the empty key");
  store_commit(&store);
  struct kv_value value;
  memset(&value, 0, sizeof value);
  for (int place = 0; place < 2; place++) {
    ck_assert_int_eq(kv_get(store.view, NULL, slice("empty"), &value, NULL), KV_OK);
    ck_assert(value.found);
    ck_assert_uint_eq(value.bytes.size, 0);
    kv_value_release(&value);
    expect("", "of the empty key");
    store_flush(&store);
  }
}
END_TEST

/* ---- Values outlive what they came from */

START_TEST(pending_value_outlives_rollback_and_batch) {
  struct kv_value value;
  struct kv_result *result = NULL;
  struct kv_slice bytes;
  struct kv_slice keys[2] = {slice("a"), slice("b")};
  memset(&value, 0, sizeof value);
  struct kv_batch_mark mark = kv_batch_mark(store.batch);
  store_put(&store, "a", "pending value of a");
  ck_assert_int_eq(kv_get(store.view, store.batch, slice("a"), &value, NULL), KV_OK);
  ck_assert_int_eq(kv_multi_get(store.view, store.batch, keys, 2, &result, NULL), KV_OK);
  kv_batch_rollback(store.batch, mark);
  for (int i = 0; i < 1000; i++) store_put(&store, "a", "something else altogether");
  store_commit(&store);
  ck_assert(kv_slice_equal(value.bytes, slice("pending value of a")));
  ck_assert(kv_result_found(result, 0, &bytes));
  ck_assert(kv_slice_equal(bytes, slice("pending value of a")));
  ck_assert(!kv_result_found(result, 1, &bytes));
  kv_value_release(&value);
  kv_value_release(&value);
  kv_result_free(result);
  kv_result_free(NULL);
}
END_TEST

START_TEST(values_outlive_view_family_and_cache_budget) {
  struct kv_value value[2];
  struct kv_result *result = NULL;
  struct kv_slice bytes;
  struct kv_slice keys[2] = {slice("file"), slice("log")};
  memset(value, 0, sizeof value);
  store_put(&store, "file", "value in a file");
  store_commit(&store);
  store_flush(&store);
  store_put(&store, "log", "value in the log");
  store_commit(&store);
  ck_assert_int_eq(kv_get(store.view, NULL, keys[0], &value[0], NULL), KV_OK);
  ck_assert_int_eq(kv_get(store.view, NULL, keys[1], &value[1], NULL), KV_OK);
  ck_assert_int_eq(kv_multi_get(store.view, NULL, keys, 2, &result, NULL), KV_OK);
  kv_cache_set_budget(store.cache, 0);
  store_delete(&store, "log");
  store_commit(&store);
  store_compact(&store);
  store_reopen(&store);
  ck_assert(kv_slice_equal(value[0].bytes, slice("value in a file")));
  ck_assert(kv_slice_equal(value[1].bytes, slice("value in the log")));
  ck_assert(kv_result_found(result, 0, &bytes) && kv_slice_equal(bytes, value[0].bytes));
  ck_assert(kv_result_found(result, 1, &bytes) && kv_slice_equal(bytes, value[1].bytes));
  kv_value_release(&value[0]);
  kv_value_release(&value[1]);
  kv_result_free(result);
  ck_assert_uint_eq(kv_cache_bytes(store.cache), 0);
}
END_TEST

/* ---- Multi-get */

#define KEYS 1000

static char key_texts[KEYS][8];

static const char *key_at(size_t i) {
  snprintf(key_texts[i], sizeof key_texts[i], "k%05zu", i % 100000);
  return key_texts[i];
}

static void put_range(size_t first, size_t end, size_t step, const char *value) {
  for (size_t i = first; i < end; i += step) store_put(&store, key_at(i), value);
}

START_TEST(multi_get_of_no_key) {
  struct kv_result *result = NULL;
  ck_assert_int_eq(kv_multi_get(store.view, store.batch, NULL, 0, &result, NULL), KV_OK);
  kv_result_free(result);
  ck_assert_uint_eq(store_stat(&store, KV_STAT_MULTI_GETS), 1);
  ck_assert_uint_eq(store_stat(&store, KV_STAT_MULTI_GET_KEYS), 0);
}
END_TEST

START_TEST(multi_get_of_unsorted_or_equal_keys_is_misuse) {
  struct kv_slice keys[3] = {slice("a"), slice("c"), slice("b")};
  struct kv_result *result = NULL;
  struct kv_err err;
  ck_assert_int_eq(kv_multi_get(store.view, NULL, keys, 3, &result, &err), KV_MISUSE);
  ck_assert_ptr_null(result);
  ck_assert_ptr_nonnull(strstr(err.text, "key 2 of 3"));
  keys[2] = slice("c");
  ck_assert_int_eq(kv_multi_get(store.view, NULL, keys, 3, &result, &err), KV_MISUSE);
  ck_assert_uint_eq(store_stat(&store, KV_STAT_MULTI_GETS), 0);
}
END_TEST

START_TEST(multi_get_of_one_key_goes_the_get_way) {
  struct kv_slice key = slice("a");
  struct kv_slice value;
  for (int place = 0; place < 3; place++) {
    struct kv_result *result = NULL;
    if (place == 0) store_put(&store, "a", "1");
    if (place == 1) store_commit(&store);
    if (place == 2) store_flush(&store);
    ck_assert_int_eq(kv_multi_get(store.view, store.batch, &key, 1, &result, NULL), KV_OK);
    ck_assert(kv_result_found(result, 0, &value));
    ck_assert(kv_slice_equal(value, slice("1")));
    kv_result_free(result);
  }
  ck_assert_uint_eq(store_stat(&store, KV_STAT_MULTI_GETS), 3);
  ck_assert_uint_eq(store_stat(&store, KV_STAT_MULTI_GET_KEYS), 3);
  ck_assert_uint_eq(store_stat(&store, KV_STAT_MULTI_GET_FILTER_PASSES), 0);
  ck_assert_uint_eq(store_stat(&store, KV_STAT_GETS), 0);
}
END_TEST

/* 100 keys over 4 runs: one filter pass a run, no block looked into or read twice. */
START_TEST(multi_get_of_100_over_4_runs_counts) {
  struct kv_slice keys[100];
  struct kv_result *result = NULL;
  struct kv_slice value;
  for (size_t run = 0; run < 4; run++) {
    put_range(run, KEYS, 4, "a value of some length, so that there are many blocks");
    store_put(&store, key_at(0), "0");
    store_put(&store, key_at(KEYS - 1), "999");
    store_commit(&store);
    store_flush(&store);
  }
  store_reopen(&store);
  for (size_t i = 0; i < 100; i++) keys[i] = slice(key_at(i * 9 + 1));
  ck_assert_int_eq(kv_multi_get(store.view, NULL, keys, 100, &result, NULL), KV_OK);
  for (size_t i = 0; i < 100; i++) ck_assert(kv_result_found(result, i, &value));
  kv_result_free(result);
  uint64_t blocks = store_stat(&store, KV_STAT_MULTI_GET_BLOCKS);
  ck_assert_uint_eq(store_stat(&store, KV_STAT_MULTI_GETS), 1);
  ck_assert_uint_eq(store_stat(&store, KV_STAT_MULTI_GET_KEYS), 100);
  ck_assert_uint_eq(store_stat(&store, KV_STAT_MULTI_GET_FILTER_PASSES), 4);
  ck_assert_uint_eq(store_stat(&store, KV_STAT_BLOCKS_READ), blocks);
  ck_assert_uint_eq(store_stat(&store, KV_STAT_CHECKSUMS), blocks);
  uint64_t false_positives = store_stat(&store, KV_STAT_FILTER_FALSE_POSITIVES);
  ck_assert_uint_eq(blocks + store_stat(&store, KV_STAT_MULTI_GET_BLOCKS_SHARED),
                    100 + false_positives);
  /* keys found in a newer run are not asked of an older one */
  ck_assert_uint_eq(
      store_stat(&store, KV_STAT_FILTER_CHECKS) - store_stat(&store, KV_STAT_FILTER_USEFUL),
      100 + false_positives);
  ck_assert_uint_lt(store_stat(&store, KV_STAT_FILTER_CHECKS), 400);
  ck_assert_uint_eq(store_stat(&store, KV_STAT_GETS), 0);
}
END_TEST

START_TEST(multi_get_again_reads_no_block) {
  struct kv_slice keys[100];
  put_range(0, KEYS, 1, "value");
  store_commit(&store);
  store_flush(&store);
  for (size_t i = 0; i < 100; i++) keys[i] = slice(key_at(i * 9));
  uint64_t read = 0;
  for (int round = 0; round < 2; round++) {
    struct kv_result *result = NULL;
    ck_assert_int_eq(kv_multi_get(store.view, NULL, keys, 100, &result, NULL), KV_OK);
    kv_result_free(result);
    if (round == 0) read = store_stat(&store, KV_STAT_BLOCKS_READ);
  }
  ck_assert_uint_eq(store_stat(&store, KV_STAT_BLOCKS_READ), read);
}
END_TEST

START_TEST(keys_answered_in_memory_touch_no_file) {
  struct kv_slice keys[2] = {slice("a"), slice("b")};
  struct kv_result *result = NULL;
  store_put(&store, "a", "old");
  store_put(&store, "b", "old");
  store_commit(&store);
  store_flush(&store);
  store_reopen(&store);
  store_put(&store, "a", "new");
  store_commit(&store);
  store_delete(&store, "b");
  uint64_t opened = kv_env_fault_calls(store.env, KV_FAULT_OPEN);
  ck_assert_int_eq(kv_multi_get(store.view, store.batch, keys, 2, &result, NULL), KV_OK);
  struct kv_slice value;
  ck_assert(kv_result_found(result, 0, &value) && kv_slice_equal(value, slice("new")));
  ck_assert(!kv_result_found(result, 1, &value));
  kv_result_free(result);
  ck_assert_uint_eq(kv_env_fault_calls(store.env, KV_FAULT_OPEN), opened);
}
END_TEST

START_TEST(run_of_many_files_opens_those_that_hold_keys) {
  struct kv_slice keys[4] = {slice("j"), slice(key_at(100)), slice(key_at(101)), slice("m")};
  struct kv_result *result = NULL;
  struct kv_slice value;
  put_range(0, KEYS, 1, "a value of some length, so that there are many files");
  store_commit(&store);
  store.file_bytes = 2048;
  store_compact(&store);
  ck_assert_uint_gt(kv_view_file_count(store.view), 3);
  ck_assert_uint_eq(kv_view_run_count(store.view), 1);
  store_reopen(&store);
  uint64_t opened = kv_env_fault_calls(store.env, KV_FAULT_OPEN);
  ck_assert_int_eq(kv_multi_get(store.view, NULL, keys, 4, &result, NULL), KV_OK);
  ck_assert(!kv_result_found(result, 0, &value));
  ck_assert(kv_result_found(result, 1, &value));
  ck_assert(kv_result_found(result, 2, &value));
  ck_assert(!kv_result_found(result, 3, &value));
  kv_result_free(result);
  ck_assert_uint_le(kv_env_fault_calls(store.env, KV_FAULT_OPEN), opened + 2);
  for (size_t i = 0; i < KEYS; i += 7)
    ck_assert_str_ne(store_get(&store, store.view, key_at(i)), "-");
}
END_TEST

/* ---- Key-may-exist */

START_TEST(probe_reads_no_block_and_a_get_goes_on_where_it_ended) {
  enum kv_may_exist answer;
  struct kv_resume resume = {.run = 99};
  for (size_t run = 0; run < 3; run++) {
    put_range(run, 300, 3, "value");
    store_put(&store, key_at(0), "x");
    store_put(&store, key_at(300), "x");
    store_commit(&store);
    store_flush(&store);
  }
  store_reopen(&store);
  ck_assert_int_eq(kv_may_exist(store.view, NULL, slice(key_at(4)), &answer, &resume, NULL), KV_OK);
  ck_assert_int_eq(answer, KV_UNKNOWN);
  ck_assert_uint_le(resume.run, 1);
  ck_assert_int_eq(kv_may_exist(store.view, NULL, slice("zz"), &answer, NULL, NULL), KV_OK);
  ck_assert_int_eq(answer, KV_ABSENT);
  ck_assert_uint_eq(store_stat(&store, KV_STAT_BLOCKS_READ), 0);
  ck_assert_uint_eq(store_stat(&store, KV_STAT_PROBES), 2);
  ck_assert_uint_eq(store_stat(&store, KV_STAT_PROBE_UNKNOWN), 1);
  ck_assert_uint_eq(store_stat(&store, KV_STAT_PROBE_ABSENT), 1);
  ck_assert_str_eq(store_get(&store, store.view, key_at(4)), "value");
  ck_assert_int_eq(kv_may_exist(store.view, NULL, slice(key_at(4)), &answer, NULL, NULL), KV_OK);
  ck_assert_int_eq(answer, KV_PRESENT);
  ck_assert_uint_eq(store_stat(&store, KV_STAT_PROBE_PRESENT), 1);
  ck_assert_uint_eq(store_stat(&store, KV_STAT_GETS), 1);
}
END_TEST

START_TEST(absent_keys_are_mostly_proved_by_the_filter) {
  put_range(0, KEYS, 2, "value");
  store_commit(&store);
  store_flush(&store);
  store_reopen(&store);
  int absent = 0;
  for (size_t i = 1; i < KEYS - 2; i += 2) {
    enum kv_may_exist answer;
    ck_assert_int_eq(kv_may_exist(store.view, NULL, slice(key_at(i)), &answer, NULL, NULL), KV_OK);
    ck_assert_int_ne(answer, KV_PRESENT);
    absent += answer == KV_ABSENT;
  }
  ck_assert_int_gt(absent, 480);
  ck_assert_uint_eq(store_stat(&store, KV_STAT_BLOCKS_READ), 0);
  ck_assert_uint_eq(store_stat(&store, KV_STAT_FILTER_USEFUL), (uint64_t)absent);
}
END_TEST

START_TEST(existing_key_is_never_absent) {
  store_release(&store);
  for (size_t cache = 0; cache <= 1 << 20; cache += 1 << 20) {
    for (int bits = 0; bits <= 20; bits += 5) {
      store_init(&store, 4, cache);
      struct kv_options options = kv_family_options(store.family);
      options.filter_bits = bits;
      kv_family_set_options(store.family, &options);
      put_range(0, 500, 1, "value");
      store_commit(&store);
      store_flush(&store);
      store_reopen(&store);
      for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < 500; i++) expect_existence(store.view, NULL, key_at(i), true);
      }
      store_release(&store);
    }
  }
  open_store();
}
END_TEST

START_TEST(exists_counts_one_probe) {
  bool found = false;
  store_put(&store, "a", "1");
  store_put(&store, "c", "1");
  store_commit(&store);
  store_flush(&store);
  store_reopen(&store);
  ck_assert_int_eq(kv_exists(store.view, NULL, slice("a"), &found, NULL), KV_OK);
  ck_assert(found);
  ck_assert_uint_eq(store_stat(&store, KV_STAT_PROBES), 1);
  ck_assert_uint_eq(store_stat(&store, KV_STAT_PROBE_UNKNOWN), 1);
  ck_assert_uint_eq(store_stat(&store, KV_STAT_GETS), 0);
  ck_assert_uint_eq(store_stat(&store, KV_STAT_BLOCKS_READ), 1);
  ck_assert_int_eq(kv_exists(store.view, NULL, slice("a"), &found, NULL), KV_OK);
  ck_assert_uint_eq(store_stat(&store, KV_STAT_PROBE_PRESENT), 1);
  ck_assert_uint_eq(store_stat(&store, KV_STAT_BLOCKS_READ), 1);
}
END_TEST

/* ---- Failures: never an older value, never "not there" */

/* "v1" deep, "v2" in the newest run; nothing open. */
static void two_versions(void) {
  store_put(&store, "key", "v1");
  store_put(&store, "a", "v1");
  store_commit(&store);
  store_flush(&store);
  store_put(&store, "key", "v2");
  store_put(&store, "a", "v2");
  store_commit(&store);
  store_flush(&store);
}

static void expect_failure(const char *want) {
  bool found = true;
  ck_assert_str_eq(store_get(&store, store.view, "key"), want);
  ck_assert_str_eq(by_multi_get(store.view, NULL, "key"), want);
  ck_assert_str_eq(by_scan(store.view, NULL, "key"), want);
  kv_status status = kv_exists(store.view, NULL, slice("key"), &found, NULL);
  ck_assert_str_eq(kv_status_name(status), want);
  ck_assert(!found);
}

START_TEST(flipped_byte_in_the_newest_run_is_an_error) {
  two_versions();
  uint64_t id = store_run_file(&store, 0)->id;
  uint64_t bytes = store_run_file(&store, 0)->bytes;
  for (int64_t at = 0; at < (int64_t)bytes; at++) {
    kv_view_unref(store.view);
    store_flip(&store, id, at);
    store.view = store_view(&store);
    const char *got = store_get(&store, store.view, "key");
    ck_assert_msg(!strcmp(got, "v2") || !strcmp(got, "corrupt") || !strcmp(got, "version"),
                  "byte %lld: %s", (long long)at, got);
    kv_view_unref(store.view);
    store_flip(&store, id, at);
    store.view = store_view(&store);
  }
  store_reopen(&store);
  ck_assert_str_eq(store_get(&store, store.view, "key"), "v2");
}
END_TEST

START_TEST(flipped_byte_of_the_block_fails_every_read) {
  two_versions();
  uint64_t id = store_run_file(&store, 0)->id;
  store_reopen(&store);
  kv_view_unref(store.view);
  store_flip(&store, id, 2);
  store.view = store_view(&store);
  expect_failure("corrupt");
  struct kv_value value;
  struct kv_err err;
  char text[32];
  memset(&value, 0, sizeof value);
  ck_assert_int_eq(kv_get(store.view, NULL, slice("key"), &value, &err), KV_CORRUPT);
  snprintf(text, sizeof text, "%016llx", (unsigned long long)id);
  ck_assert_ptr_nonnull(strstr(err.text, text));
}
END_TEST

START_TEST(io_error_in_the_newest_run_fails_every_read) {
  two_versions();
  store_reopen(&store);
  kv_env_fault_set(store.env, KV_FAULT_ANY, 1, true, KV_IO);
  expect_failure("io");
  kv_env_fault_set(store.env, KV_FAULT_ANY, 0, false, KV_IO);
  expect("key", "v2");
}
END_TEST

START_TEST(missing_file_is_missing_not_damage) {
  two_versions();
  uint64_t id = store_run_file(&store, 0)->id;
  store_reopen(&store);
  ck_assert_int_eq(kv_env_remove(store.memory, store_path(&store, id), NULL), KV_OK);
  expect_failure("missing");
  /* keys outside the file are not concerned */
  store_put(&store, "zzz", "fine");
  store_commit(&store);
  ck_assert_str_eq(store_get(&store, store.view, "zzz"), "fine");
}
END_TEST

/* Some keys in each place, so that an operation passes through all of them. */
static void all_places(void) {
  put_range(0, 60, 3, "bottom");
  store_commit(&store);
  store_flush(&store);
  put_range(1, 60, 3, "newer");
  store_put(&store, key_at(0), "newer");
  store_put(&store, key_at(59), "newer");
  store_commit(&store);
  store_flush(&store);
  store_put(&store, key_at(2), "log");
  store_commit(&store);
  store_reopen(&store);
  store_put(&store, key_at(5), "batch");
}

static struct kv_slice some_keys[40];

static size_t make_keys(void) {
  for (size_t i = 0; i < 40; i++) some_keys[i] = slice(key_at(i));
  return 40;
}

/* One of the operations; KV_OK only with the right answer. */
static kv_status operate(int operation, struct kv_err *err) {
  struct kv_value value;
  struct kv_result *result = NULL;
  struct kv_slice bytes;
  enum kv_may_exist answer = KV_UNKNOWN;
  bool found = false;
  kv_status status = KV_OK;
  memset(&value, 0, sizeof value);
  switch (operation) {
    case 0:
      status = kv_get(store.view, store.batch, slice(key_at(3)), &value, err);
      if (status == KV_OK) ck_assert(kv_slice_equal(value.bytes, slice("bottom")));
      kv_value_release(&value);
      break;
    case 1:
      status = kv_multi_get(store.view, store.batch, some_keys, make_keys(), &result, err);
      for (size_t i = 0; i < 40 && status == KV_OK; i++) {
        const char *want = i == 2                 ? "log"
                           : i == 5               ? "batch"
                           : i == 0 || i % 3 == 1 ? "newer"
                           : i % 3 == 0           ? "bottom"
                                                  : NULL;
        ck_assert_int_eq(kv_result_found(result, i, &bytes), want != NULL);
        if (want) ck_assert(kv_slice_equal(bytes, slice(want)));
      }
      kv_result_free(result);
      break;
    case 2:
      status = kv_exists(store.view, store.batch, slice(key_at(6)), &found, err);
      ck_assert_int_eq(found, status == KV_OK);
      break;
    default:
      status = kv_may_exist(store.view, store.batch, slice(key_at(9)), &answer, NULL, err);
      ck_assert_int_ne(answer, KV_ABSENT);
      break;
  }
  return status;
}

START_TEST(every_allocation_failing) {
  all_places();
  for (int operation = 0; operation < 4; operation++) {
    for (uint64_t n = 1;; n++) {
      struct kv_err err;
      store_reopen(&store);
      store_put(&store, key_at(5), "batch");
      kv_mem_fail_nth(n, 0);
      kv_status status = operate(operation, &err);
      kv_mem_fail_nth(0, 0);
      ck_assert_int_eq(operate(operation, NULL), KV_OK);
      if (status == KV_OK) {
        ck_assert_uint_gt(n, 1);
        break;
      }
      ck_assert_int_eq(status, KV_NOMEM);
    }
  }
}
END_TEST

START_TEST(every_io_failing) {
  all_places();
  for (int operation = 0; operation < 4; operation++) {
    for (uint64_t n = 1;; n++) {
      struct kv_err err;
      store_reopen(&store);
      store_put(&store, key_at(5), "batch");
      kv_env_fault_set(store.env, KV_FAULT_ANY, n, false, KV_IO);
      kv_status status = operate(operation, &err);
      kv_env_fault_set(store.env, KV_FAULT_ANY, 0, false, KV_IO);
      ck_assert_int_eq(operate(operation, NULL), KV_OK);
      if (status == KV_OK) {
        ck_assert_uint_gt(n, 2);
        break;
      }
      ck_assert_int_eq(status, KV_IO);
    }
  }
}
END_TEST

int main(void) {
  Suite *suite = suite_create("read");
  TCase *tests = tcase_create("read");
  tcase_add_checked_fixture(tests, open_store, close_store);
  tcase_add_test(tests, newest_place_answers_every_question);
  tcase_add_test(tests, key_only_in_the_third_run_under_overlapping_files);
  tcase_add_test(tests, empty_key_and_empty_value);
  tcase_add_test(tests, pending_value_outlives_rollback_and_batch);
  tcase_add_test(tests, values_outlive_view_family_and_cache_budget);
  tcase_add_test(tests, multi_get_of_no_key);
  tcase_add_test(tests, multi_get_of_unsorted_or_equal_keys_is_misuse);
  tcase_add_test(tests, multi_get_of_one_key_goes_the_get_way);
  tcase_add_test(tests, multi_get_of_100_over_4_runs_counts);
  tcase_add_test(tests, multi_get_again_reads_no_block);
  tcase_add_test(tests, keys_answered_in_memory_touch_no_file);
  tcase_add_test(tests, run_of_many_files_opens_those_that_hold_keys);
  tcase_add_test(tests, probe_reads_no_block_and_a_get_goes_on_where_it_ended);
  tcase_add_test(tests, absent_keys_are_mostly_proved_by_the_filter);
  tcase_add_test(tests, existing_key_is_never_absent);
  tcase_add_test(tests, exists_counts_one_probe);
  tcase_add_test(tests, flipped_byte_in_the_newest_run_is_an_error);
  tcase_add_test(tests, flipped_byte_of_the_block_fails_every_read);
  tcase_add_test(tests, io_error_in_the_newest_run_fails_every_read);
  tcase_add_test(tests, missing_file_is_missing_not_damage);
  tcase_add_test(tests, every_allocation_failing);
  tcase_add_test(tests, every_io_failing);
  suite_add_tcase(suite, tests);
  return harness_run(suite);
}
