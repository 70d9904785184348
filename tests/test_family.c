/* Families: options, the set of named files, opening, deletion. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "catalog.h"
#include "mem.h"
#include "view.h"

static struct store store;

static void open_store(void) {
  store_init(&store, 1, 1 << 20);
}

static void close_store(void) {
  store_release(&store);
}

/* One key, one file. */
static uint64_t make_file(const char *key) {
  store_put(&store, key, "value");
  store_commit(&store);
  store_flush(&store);
  return store_run_file(&store, 0)->id;
}

START_TEST(options_out_of_range_are_refused) {
  struct kv_options bad[11];
  struct kv_family *family = NULL;
  struct kv_err err;
  for (int i = 0; i < 11; i++) kv_options_default(&bad[i]);
  bad[0].compression_level = -1;
  bad[1].compression_level = 20;
  bad[2].filter_bits = -1;
  bad[3].filter_bits = 21;
  bad[4].block_bytes = 1023;
  bad[5].block_bytes = 1048577;
  bad[6].memtable_bytes = 16383;
  bad[7].memtable_bytes = 1073741825;
  bad[8].block_bytes = 0;
  bad[9].memtable_bytes = 0;
  bad[10].value_bytes = 1048577;
  for (int i = 0; i < 11; i++) {
    struct kv_family_config config = store.config;
    config.options = bad[i];
    ck_assert_int_eq(kv_family_new(&config, &family, &err), KV_MISUSE);
    ck_assert_ptr_null(family);
    ck_assert_ptr_nonnull(strstr(err.text, "is not in"));
  }
}
END_TEST

START_TEST(options_at_their_bounds_are_taken) {
  struct kv_options edges[2] = {{0, 0, 1024, 16384, 0}, {19, 20, 1048576, 1073741824, 1048576}};
  for (int i = 0; i < 2; i++) {
    struct kv_family_config config = store.config;
    struct kv_family *family = NULL;
    config.options = edges[i];
    ck_assert_int_eq(kv_family_new(&config, &family, NULL), KV_OK);
    struct kv_options got = kv_family_options(family);
    ck_assert_int_eq(got.compression_level, edges[i].compression_level);
    ck_assert_int_eq(got.filter_bits, edges[i].filter_bits);
    ck_assert_uint_eq(got.block_bytes, edges[i].block_bytes);
    ck_assert_uint_eq(got.memtable_bytes, edges[i].memtable_bytes);
    kv_family_unref(family);
  }
}
END_TEST

START_TEST(new_without_memory_leaves_nothing) {
  int64_t blocks = kv_mem_live_blocks();
  struct kv_family_config config = store.config;
  config.like_path = "db";
  for (uint64_t n = 1;; n++) {
    struct kv_family *family = NULL;
    struct kv_err err;
    kv_mem_fail_nth(n, 0);
    kv_status status = kv_family_new(&config, &family, &err);
    kv_mem_fail_nth(0, 0);
    if (status == KV_OK) {
      ck_assert_uint_gt(n, 3);
      kv_family_unref(family);
      break;
    }
    ck_assert_int_eq(status, KV_NOMEM);
    ck_assert_ptr_null(family);
    ck_assert_int_eq(kv_mem_live_blocks(), blocks);
  }
  ck_assert_int_eq(kv_mem_live_blocks(), blocks);
}
END_TEST

START_TEST(paths_are_copied) {
  char dir[] = "some-dir";
  char like[] = "some-db";
  struct kv_family_config config = store.config;
  struct kv_family *family = NULL;
  config.dir = dir;
  config.like_path = like;
  ck_assert_int_eq(kv_family_new(&config, &family, NULL), KV_OK);
  memset(dir, 'x', sizeof dir - 1);
  memset(like, 'x', sizeof like - 1);
  ck_assert_str_eq(kv_family_table_config(family)->dir, "some-dir");
  ck_assert_str_eq(kv_family_table_config(family)->like_path, "some-db");
  kv_family_unref(kv_family_ref(family));
  kv_family_unref(family);
  kv_family_unref(NULL);
}
END_TEST

START_TEST(file_is_opened_when_first_read_and_once) {
  make_file("a");
  make_file("b");
  store_reopen(&store);
  uint64_t before = kv_env_fault_calls(store.env, KV_FAULT_OPEN);
  struct kv_view *other = store_view(&store);
  ck_assert_uint_eq(kv_env_fault_calls(store.env, KV_FAULT_OPEN), before);
  ck_assert_str_eq(store_get(&store, store.view, "a"), "value");
  ck_assert_uint_eq(kv_env_fault_calls(store.env, KV_FAULT_OPEN), before + 1);
  ck_assert_str_eq(store_get(&store, other, "a"), "value");
  ck_assert_str_eq(store_get(&store, store.view, "a"), "value");
  ck_assert_uint_eq(kv_env_fault_calls(store.env, KV_FAULT_OPEN), before + 1);
  ck_assert_str_eq(store_get(&store, other, "b"), "value");
  ck_assert_uint_eq(kv_env_fault_calls(store.env, KV_FAULT_OPEN), before + 2);
  kv_view_unref(other);
}
END_TEST

START_TEST(failed_opening_is_tried_again) {
  make_file("a");
  store_reopen(&store);
  kv_env_fault_set(store.env, KV_FAULT_OPEN, 1, false, KV_IO);
  ck_assert_str_eq(store_get(&store, store.view, "a"), "io");
  ck_assert_str_eq(store_get(&store, store.view, "a"), "value");
}
END_TEST

START_TEST(last_view_closes_the_file_and_empties_the_cache) {
  make_file("a");
  store_reopen(&store);
  ck_assert_str_eq(store_get(&store, store.view, "a"), "value");
  ck_assert_uint_gt(kv_cache_bytes(store.cache), 0);
  struct kv_view *second = kv_view_ref(store.view);
  store_reopen(&store);
  ck_assert_uint_gt(kv_cache_bytes(store.cache), 0);
  kv_view_unref(second);
  ck_assert_uint_eq(kv_cache_bytes(store.cache), 0);
}
END_TEST

static void *get_a(void *view) {
  struct kv_value value;
  memset(&value, 0, sizeof value);
  kv_status status = kv_get(view, NULL, slice("a"), &value, NULL);
  bool right = status == KV_OK && value.found && kv_slice_equal(value.bytes, slice("value"));
  kv_value_release(&value);
  return right ? view : NULL;
}

START_TEST(threads_that_touch_a_file_first_open_it_once) {
  make_file("a");
  for (int round = 0; round < 20; round++) {
    pthread_t threads[4];
    store_reopen(&store);
    uint64_t before = kv_env_fault_calls(store.env, KV_FAULT_OPEN);
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, get_a, store.view);
    for (int i = 0; i < 4; i++) {
      void *right = NULL;
      pthread_join(threads[i], &right);
      ck_assert_ptr_eq(right, store.view);
    }
    ck_assert_uint_eq(kv_env_fault_calls(store.env, KV_FAULT_OPEN), before + 1);
  }
}
END_TEST

static void *churn_views(void *ctx) {
  const struct kv_snapshot *snapshot = ctx;
  for (int i = 0; i < 200; i++) {
    struct catalog_snapshot own = {.catalog = &store.catalog, .state = *snapshot};
    struct kv_log_source source = catalog_source(&own);
    struct kv_view *view = NULL;
    if (kv_view_new(store.family, snapshot, &source, &view, NULL) != KV_OK) return ctx;
    void *right = get_a(view);
    kv_view_unref(view);
    if (!right) return ctx;
  }
  return NULL;
}

START_TEST(threads_make_and_drop_views_of_the_same_files) {
  struct catalog_snapshot snapshot;
  pthread_t threads[4];
  make_file("a");
  make_file("b");
  store_put(&store, "c", "in the log");
  store_commit(&store);
  store_reopen(&store);
  catalog_take(&store.catalog, &snapshot);
  kv_view_unref(store.view);
  for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, churn_views, &snapshot.state);
  for (int i = 0; i < 4; i++) {
    void *wrong = NULL;
    pthread_join(threads[i], &wrong);
    ck_assert_ptr_null(wrong);
  }
  store.view = store_view(&store);
  catalog_drop(&snapshot);
}
END_TEST

START_TEST(known_file_described_in_another_way_is_corrupt) {
  make_file("a");
  struct kv_file_info changed;
  for (int what = 0; what < 7; what++) {
    struct kv_sst *sst = NULL;
    struct kv_err err;
    kv_file_info_init(&changed);
    ck_assert_int_eq(kv_file_info_copy(&changed, store_run_file(&store, 0), &err), KV_OK);
    uint64_t *fields[] = {&changed.bytes, &changed.entries, &changed.tombstones, &changed.checksum,
                          &changed.seq};
    if (what < 5)
      ++*fields[what];
    else
      kv_buf_append_byte(what == 5 ? &changed.smallest : &changed.largest, 'x');
    ck_assert_int_eq(kv_family_sst_ref(store.family, &changed, &sst, &err), KV_CORRUPT);
    char id[32];
    snprintf(id, sizeof id, "%016llx", (unsigned long long)changed.id);
    ck_assert_ptr_nonnull(strstr(err.text, id));
    kv_file_info_release(&changed);
  }
}
END_TEST

START_TEST(many_files_are_found_by_id) {
  struct kv_file_info info;
  struct kv_sst *held[200];
  kv_file_info_init(&info);
  for (uint64_t i = 0; i < 200; i++) {
    info.id = (i * 0x9e3779b97f4a7c15u) >> 1 | 1;
    ck_assert_int_eq(kv_family_sst_ref(store.family, &info, &held[i], NULL), KV_OK);
  }
  for (uint64_t i = 0; i < 200; i++) {
    struct kv_sst *again = NULL;
    info.id = (i * 0x9e3779b97f4a7c15u) >> 1 | 1;
    ck_assert_int_eq(kv_family_sst_ref(store.family, &info, &again, NULL), KV_OK);
    ck_assert_ptr_eq(again, held[i]);
    ck_assert_int_eq(kv_family_remove_file(store.family, info.id, NULL), KV_BUSY);
    kv_family_sst_unref(store.family, again);
    ck_assert_int_eq(kv_family_remove_file(store.family, info.id, NULL), KV_BUSY);
    kv_family_sst_unref(store.family, held[i]);
    ck_assert_int_eq(kv_family_remove_file(store.family, info.id, NULL), KV_OK);
  }
}
END_TEST

START_TEST(named_file_is_not_removed_opened_or_not) {
  uint64_t id = make_file("a");
  struct kv_err err;
  store_reopen(&store);
  ck_assert_int_eq(kv_family_remove_file(store.family, id, &err), KV_BUSY);
  ck_assert_str_eq(store_get(&store, store.view, "a"), "value");
  ck_assert_int_eq(kv_family_remove_file(store.family, id, &err), KV_BUSY);
  ck_assert_uint_eq(store_files(&store), 1);
  ck_assert_uint_eq(store_stat(&store, KV_STAT_FILES_REMOVED), 0);
}
END_TEST

START_TEST(view_keeps_its_files_across_removal_attempts) {
  make_file("a");
  make_file("b");
  struct kv_view *old = kv_view_ref(store.view);
  store_compact(&store);
  ck_assert_uint_eq(store.dropped_count, 2);
  ck_assert_uint_eq(store_files(&store), 3);
  store_sweep(&store);
  ck_assert_str_eq(store_get(&store, old, "a"), "value");
  ck_assert_str_eq(store_get(&store, old, "b"), "value");
  kv_view_unref(old);
  store_sweep(&store);
  ck_assert_uint_eq(store.dropped_count, 0);
  ck_assert_uint_eq(store_files(&store), 1);
  ck_assert_uint_eq(store_stat(&store, KV_STAT_FILES_REMOVED), 2);
}
END_TEST

START_TEST(pinned_value_outlives_its_file) {
  make_file("a");
  struct kv_value value;
  memset(&value, 0, sizeof value);
  ck_assert_int_eq(kv_get(store.view, NULL, slice("a"), &value, NULL), KV_OK);
  store_delete(&store, "a");
  store_commit(&store);
  store_compact(&store);
  store_sweep(&store);
  ck_assert_uint_eq(store_files(&store), 0);
  ck_assert(kv_slice_equal(value.bytes, slice("value")));
  kv_value_release(&value);
}
END_TEST

START_TEST(last_file_takes_the_directory_along) {
  make_file("a");
  make_file("b");
  store_delete(&store, "a");
  store_delete(&store, "b");
  store_commit(&store);
  store_compact(&store);
  ck_assert_uint_eq(kv_view_file_count(store.view), 0);
  /* the directory is gone: it can be removed no more */
  ck_assert_int_eq(kv_env_remove_dir(store.memory, store.config.dir, NULL), KV_MISSING);
  make_file("c");
  ck_assert_str_eq(store_get(&store, store.view, "c"), "value");
}
END_TEST

START_TEST(missing_file_counts_as_removed) {
  struct kv_err err;
  ck_assert_int_eq(kv_family_remove_file(store.family, 12345, &err), KV_OK);
  ck_assert_uint_eq(store_stat(&store, KV_STAT_FILES_REMOVED), 0);
}
END_TEST

START_TEST(removal_that_fails_is_reported_and_can_be_repeated) {
  uint64_t id = make_file("a");
  make_file("b");
  struct kv_err err;
  store_reopen(&store);
  kv_view_unref(store.view);
  kv_env_fault_set(store.env, KV_FAULT_REMOVE, 1, false, KV_IO);
  ck_assert_int_eq(kv_family_remove_file(store.family, id, &err), KV_IO);
  ck_assert_uint_eq(store_files(&store), 2);
  kv_mem_fail_nth(1, 1); /* it needs no memory */
  ck_assert_int_eq(kv_family_remove_file(store.family, id, &err), KV_OK);
  kv_mem_fail_nth(0, 0);
  ck_assert_int_eq(kv_family_remove_file(store.family, id, &err), KV_OK);
  ck_assert_uint_eq(store_files(&store), 1);
  ck_assert_uint_eq(store_stat(&store, KV_STAT_FILES_REMOVED), 1);
  store.view = store_view(&store);
}
END_TEST

START_TEST(new_options_are_for_later_jobs) {
  char key[32];
  uint64_t bytes[2];
  for (int round = 0; round < 2; round++) {
    struct kv_options options = kv_family_options(store.family);
    options.compression_level = round == 0 ? 0 : 9;
    kv_family_set_options(store.family, &options);
    for (int i = 0; i < 500; i++) {
      snprintf(key, sizeof key, "%d-%05d", round, i);
      store_put(&store, key, "a value that compresses, that compresses, that compresses well");
    }
    store_commit(&store);
    store_flush(&store);
    bytes[round] = store_run_file(&store, 0)->bytes;
  }
  ck_assert_uint_lt(bytes[1] * 2, bytes[0]);
  ck_assert_int_eq(kv_family_options(store.family).compression_level, 9);
}
END_TEST

START_TEST(memory_is_that_of_the_log) {
  size_t empty = kv_family_memory(store.family);
  store_put(&store, "a", "value");
  store_commit(&store);
  size_t full = kv_family_memory(store.family);
  ck_assert_uint_gt(full, empty);
  store_flush(&store);
  ck_assert_uint_lt(kv_family_memory(store.family), full);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("family");
  TCase *tests = tcase_create("family");
  tcase_add_checked_fixture(tests, open_store, close_store);
  tcase_add_test(tests, options_out_of_range_are_refused);
  tcase_add_test(tests, options_at_their_bounds_are_taken);
  tcase_add_test(tests, new_without_memory_leaves_nothing);
  tcase_add_test(tests, paths_are_copied);
  tcase_add_test(tests, file_is_opened_when_first_read_and_once);
  tcase_add_test(tests, failed_opening_is_tried_again);
  tcase_add_test(tests, last_view_closes_the_file_and_empties_the_cache);
  tcase_add_test(tests, threads_that_touch_a_file_first_open_it_once);
  tcase_add_test(tests, threads_make_and_drop_views_of_the_same_files);
  tcase_add_test(tests, known_file_described_in_another_way_is_corrupt);
  tcase_add_test(tests, many_files_are_found_by_id);
  tcase_add_test(tests, named_file_is_not_removed_opened_or_not);
  tcase_add_test(tests, view_keeps_its_files_across_removal_attempts);
  tcase_add_test(tests, pinned_value_outlives_its_file);
  tcase_add_test(tests, last_file_takes_the_directory_along);
  tcase_add_test(tests, missing_file_counts_as_removed);
  tcase_add_test(tests, removal_that_fails_is_reported_and_can_be_repeated);
  tcase_add_test(tests, new_options_are_for_later_jobs);
  tcase_add_test(tests, memory_is_that_of_the_log);
  suite_add_tcase(suite, tests);
  return harness_run(suite);
}
