/* Values stored apart: what reads touch, what merges carry, what goes, and damage. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "catalog.h"
#include "mem.h"
#include "table_read.h"

#define HEAD_BYTES 4

static struct store store;

/* The first bytes; values that begin with '!' stay with their keys. */
static bool take_head(struct kv_slice value, struct kv_buf *head) {
  if (value.size && value.data[0] == '!') return false;
  size_t size = value.size <= HEAD_BYTES ? value.size / 2 : HEAD_BYTES;
  if (size) kv_buf_append(head, value.data, size);
  return true;
}

static void open_store(void) {
  store_init(&store, 11, 1 << 20);
  store.config.head = take_head;
  store.catalog.table_rows = 0;
  store_reopen(&store);
}

static void close_store(void) {
  store_release(&store);
}

static void set_value_bytes(uint32_t bytes) {
  store.config.options.value_bytes = bytes;
  struct kv_options options = kv_family_options(store.family);
  options.value_bytes = bytes;
  kv_family_set_options(store.family, &options);
}

static void must(kv_status status, const struct kv_err *err) {
  ck_assert_msg(status == KV_OK, "%s", err->text);
}

/* ---- Keys and values by number */

static const char *key_of(int i) {
  static char key[16];
  snprintf(key, sizeof key, "k%05d", i);
  return key;
}

/* As many bytes as asked for, that do not compress well, and tell the row and its version. */
static struct kv_slice value_of(int i, int version, size_t size) {
  static uint8_t value[(2 << 20) + 16];
  struct harness_random random;
  harness_seed(&random, (uint64_t)i * 1000 + (uint64_t)version + 1);
  for (size_t at = 0; at < size; at++) value[at] = (uint8_t)('a' + harness_below(&random, 26));
  return kv_slice_of(value, size);
}

static void put(int i, int version, size_t size) {
  struct kv_err err;
  bool found = false;
  must(kv_exists(store.view, store.batch, slice(key_of(i)), &found, &err), &err);
  must(kv_batch_put(store.batch, slice(key_of(i)), value_of(i, version, size), !found, &err), &err);
}

static void put_many(int first, int end, int version, size_t size) {
  for (int i = first; i < end; i++) put(i, version, size);
  store_commit(&store);
  store_flush(&store);
}

static void expect_value(int i, int version, size_t size) {
  struct kv_value value = {0};
  struct kv_err err;
  must(kv_get(store.view, NULL, slice(key_of(i)), &value, &err), &err);
  ck_assert(value.found && !value.apart);
  ck_assert_msg(kv_slice_equal(value.bytes, value_of(i, version, size)), "row %d", i);
  kv_value_release(&value);
}

static size_t value_files(void) {
  size_t count = 0;
  for (size_t i = 0; i < kv_view_file_count(store.view); i++)
    count += kv_view_file(store.view, i)->level == KV_LEVEL_VALUES;
  return count;
}

static uint64_t value_file_bytes(void) {
  uint64_t bytes = 0;
  for (size_t i = 0; i < kv_view_file_count(store.view); i++)
    if (kv_view_file(store.view, i)->level == KV_LEVEL_VALUES)
      bytes += kv_view_file(store.view, i)->bytes;
  return bytes;
}

/* The nth value file's id. */
static uint64_t value_file(size_t n) {
  for (size_t i = 0; i < kv_view_file_count(store.view); i++)
    if (kv_view_file(store.view, i)->level == KV_LEVEL_VALUES && n-- == 0)
      return kv_view_file(store.view, i)->id;
  return 0;
}

static uint64_t value_bytes_read(void) {
  return store_stat(&store, KV_STAT_VALUE_BYTES_READ);
}

static kv_status note(void *ctx, const char *severity, uint64_t file, uint64_t position,
                      const char *text) {
  char *first = ctx;
  (void)severity, (void)file, (void)position;
  if (!*first) snprintf(first, 256, "%s", text);
  return KV_OK;
}

/* The first problem, or nothing. */
static const char *checked(void) {
  static char first[256];
  struct kv_err err;
  first[0] = 0;
  must(kv_check(store.view, note, first, &err), &err);
  return first;
}

/* ---- Sizes */

enum { SIZES = 8 };

static size_t size_of(int i, uint32_t limit) {
  const size_t sizes[SIZES] = {0,     1,         2,           limit ? limit - 1 : 9,
                               limit, limit + 1, limit + 700, limit * 2};
  return sizes[i % SIZES];
}

static void expect_scan(int count, uint32_t limit, bool backward) {
  struct kv_scan *scan = NULL;
  const struct kv_bounds all = {.has_upper = false};
  struct kv_err err;
  int seen = 0;
  must(kv_scan_open(store.view, NULL, &all, &scan, &err), &err);
  must(backward ? kv_scan_last(scan, &err) : kv_scan_first(scan, &err), &err);
  for (; kv_scan_valid(scan); seen++) {
    int i = backward ? count - 1 - seen : seen;
    struct kv_slice value, again, head = kv_scan_head(scan),
                                  wanted = value_of(i, 0, size_of(i, limit));
    ck_assert(kv_slice_equal(kv_scan_key(scan), slice(key_of(i))));
    ck_assert_uint_le(head.size, wanted.size);
    ck_assert(!head.size || memcmp(head.data, wanted.data, head.size) == 0);
    must(kv_scan_value(scan, &value, &err), &err);
    ck_assert(kv_slice_equal(value, wanted));
    must(kv_scan_value(scan, &again, &err), &err);
    ck_assert_ptr_eq(again.data, value.data);
    must(backward ? kv_scan_prev(scan, &err) : kv_scan_next(scan, &err), &err);
  }
  ck_assert_int_eq(seen, count);
  kv_scan_close(scan);
}

static void expect_multi_get(int count, uint32_t limit) {
  static char texts[64][16];
  struct kv_slice keys[64];
  struct kv_result *result = NULL, *heads = NULL;
  struct kv_err err;
  for (int i = 0; i < count; i++) {
    snprintf(texts[i], sizeof texts[i], "%s", key_of(i));
    keys[i] = slice(texts[i]);
  }
  must(kv_multi_get(store.view, NULL, keys, (size_t)count, &result, &err), &err);
  must(kv_multi_get_heads(store.view, NULL, keys, (size_t)count, &heads, &err), &err);
  for (int pass = 0; pass < 2; pass++) {
    for (int i = 0; i < count; i++) {
      struct kv_slice value, head, wanted = value_of(i, 0, size_of(i, limit));
      ck_assert(kv_result_found(result, (size_t)i, &value));
      ck_assert(kv_slice_equal(value, wanted));
      ck_assert(kv_result_found(heads, (size_t)i, &head));
      ck_assert_uint_le(head.size, wanted.size);
      ck_assert(!head.size || memcmp(head.data, wanted.data, head.size) == 0);
      ck_assert(!pass || head.size == wanted.size);
    }
    must(kv_result_load(heads, keys, &err), &err);
  }
  kv_result_free(heads);
  kv_result_free(result);
}

START_TEST(every_size_around_the_limit) {
  static const uint32_t limits[] = {0, 1, 100, 4096, 1 << 20};
  uint32_t limit = limits[_i];
  int count = limit > 4096 ? SIZES : 6 * SIZES;
  set_value_bytes(limit);
  for (int i = 0; i < count; i++) put(i, 0, size_of(i, limit));
  store_commit(&store);
  expect_scan(count, limit, false);
  for (int round = 0; round < 3; round++) {
    if (round == 0) store_flush(&store);
    if (round == 1) store_compact(&store);
    if (round == 2) store_reopen(&store);
    ck_assert_uint_eq(value_files() > 0, limit > 0);
    expect_scan(count, limit, false);
    expect_scan(count, limit, true);
    expect_multi_get(count, limit);
    for (int i = 0; i < count; i++) expect_value(i, 0, size_of(i, limit));
    ck_assert_str_eq(checked(), "");
  }
}
END_TEST

START_TEST(key_only_work_reads_no_value) {
  struct kv_err err;
  set_value_bytes(100);
  put_many(0, 50, 0, 3000);
  put_many(25, 60, 1, 3000);
  store_reopen(&store);
  for (int i = 0; i < 70; i++) {
    enum kv_may_exist may;
    bool found = false;
    struct kv_value value = {0};
    must(kv_may_exist(store.view, NULL, slice(key_of(i)), &may, NULL, &err), &err);
    must(kv_exists(store.view, NULL, slice(key_of(i)), &found, &err), &err);
    must(kv_get_head(store.view, NULL, slice(key_of(i)), &value, &err), &err);
    ck_assert(found == (i < 60) && value.found == found);
    if (found) ck_assert_uint_eq(kv_value_head(&value).size, HEAD_BYTES);
    kv_value_release(&value);
  }
  struct kv_scan *scan = NULL;
  const struct kv_bounds all = {.has_upper = false};
  must(kv_scan_open(store.view, NULL, &all, &scan, &err), &err);
  must(kv_scan_first(scan, &err), &err);
  while (kv_scan_valid(scan)) must(kv_scan_next(scan, &err), &err);
  kv_scan_close(scan);
  ck_assert_uint_eq(value_bytes_read(), 0);
  expect_value(30, 1, 3000);
  ck_assert_uint_gt(value_bytes_read(), 0);
}
END_TEST

START_TEST(values_that_the_caller_keeps_stay) {
  struct kv_err err;
  char text[300];
  memset(text, '!', sizeof text);
  set_value_bytes(100);
  must(kv_batch_put(store.batch, slice("a"), kv_slice_of(text, sizeof text), 1, &err), &err);
  store_commit(&store);
  store_flush(&store);
  ck_assert_uint_eq(value_files(), 0);
}
END_TEST

START_TEST(multi_get_reads_each_value_block_once_in_grouped_reads) {
  set_value_bytes(100);
  for (int i = 0; i < 48; i++) put(i, 0, size_of(i, 1500));
  store_commit(&store);
  store_flush(&store);
  store_reopen(&store);
  expect_multi_get(48, 1500);
  uint64_t blocks = store_stat(&store, KV_STAT_VALUE_BLOCKS_READ);
  uint64_t reads = kv_env_fault_calls(store.env, KV_FAULT_READ);
  ck_assert_uint_ge(blocks, 30);
  store_reopen(&store);
  expect_multi_get(48, 1500);
  ck_assert_uint_le(kv_env_fault_calls(store.env, KV_FAULT_READ) - reads, 8);
}
END_TEST

/* ---- Merges */

START_TEST(merges_carry_references) {
  set_value_bytes(100);
  put_many(0, 100, 0, 5000);
  put_many(100, 200, 0, 5000);
  uint64_t ids[2] = {value_file(0), value_file(1)}, bytes = value_file_bytes();
  uint64_t before = store_stat(&store, KV_STAT_COMPACT_BYTES_WRITTEN), read = value_bytes_read();
  store_compact(&store);
  ck_assert_uint_eq(kv_view_run_count(store.view), 1);
  ck_assert_uint_eq(value_files(), 2);
  ck_assert_uint_eq(value_file(0), ids[0]);
  ck_assert_uint_eq(value_file(1), ids[1]);
  ck_assert_uint_lt(store_stat(&store, KV_STAT_COMPACT_BYTES_WRITTEN) - before, bytes / 20);
  ck_assert_uint_eq(value_bytes_read(), read);
  for (int i = 0; i < 200; i++) expect_value(i, 0, 5000);
  ck_assert_str_eq(checked(), "");
}
END_TEST

START_TEST(value_files_go_when_nothing_refers_to_them) {
  set_value_bytes(100);
  put_many(0, 20, 0, 5000);
  uint64_t old = value_file(0);
  put_many(0, 20, 1, 5000);
  ck_assert_uint_eq(value_files(), 2);
  struct kv_view *held = kv_view_ref(store.view);
  store_compact(&store);
  ck_assert_uint_eq(value_files(), 1);
  ck_assert_uint_ne(value_file(0), old);
  ck_assert_uint_eq(store_files(&store), 5);
  kv_view_unref(held);
  store_sweep(&store);
  ck_assert_uint_eq(store_files(&store), 2);
  for (int i = 0; i < 20; i++) store_delete(&store, key_of(i));
  store_commit(&store);
  store_compact(&store);
  ck_assert_uint_eq(kv_view_file_count(store.view), 0);
  ck_assert_uint_eq(store_files(&store), 0);
}
END_TEST

START_TEST(mostly_dead_value_files_are_written_anew) {
  set_value_bytes(100);
  put_many(0, 40, 0, 5000);
  uint64_t old = value_file(0);
  put_many(0, 30, 1, 5000);
  store_compact(&store);
  ck_assert_uint_eq(value_files(), 2); /* what is dead is known from now on */
  store_compact(&store);
  ck_assert_uint_eq(value_files(), 2);
  for (size_t i = 0; i < 2; i++) ck_assert_uint_ne(value_file(i), old);
  for (int i = 0; i < 40; i++) expect_value(i, i < 30, 5000);
  ck_assert_str_eq(checked(), "");
  uint64_t written = store_stat(&store, KV_STAT_COMPACT_BYTES_WRITTEN);
  store_compact(&store);
  ck_assert_uint_eq(store_stat(&store, KV_STAT_COMPACT_BYTES_WRITTEN), written);
}
END_TEST

START_TEST(a_changed_limit_holds_from_the_next_compaction_on) {
  set_value_bytes(0);
  put_many(0, 20, 0, 5000);
  ck_assert_uint_eq(value_files(), 0);
  set_value_bytes(100);
  put_many(10, 30, 1, 200);
  ck_assert_uint_eq(value_files(), 1);
  store_compact(&store);
  ck_assert_uint_eq(value_files(), 2);
  set_value_bytes(1000);
  put(50, 0, 10);
  store_commit(&store);
  store_compact(&store); /* brings the small ones back */
  ck_assert_uint_eq(value_files(), 1);
  set_value_bytes(0);
  put(51, 0, 10);
  store_commit(&store);
  store_compact(&store);
  ck_assert_uint_eq(value_files(), 0);
  for (int i = 0; i < 30; i++) expect_value(i, i >= 10, i >= 10 ? 200 : 5000);
}
END_TEST

/* Merges of parts while other files refer to the same value file. */
START_TEST(a_long_history_keeps_every_value) {
  enum { KEYS = 300, ROUNDS = 60 };
  static int versions[KEYS];
  static size_t sizes[KEYS];
  struct harness_random random;
  harness_seed(&random, harness_seed_env(3));
  struct kv_options options = kv_family_options(store.family);
  options.memtable_bytes = 16384;
  kv_family_set_options(store.family, &options);
  set_value_bytes(200);
  store.file_bytes = 4096;
  memset(versions, 0, sizeof versions);
  for (int round = 1; round <= ROUNDS; round++) {
    for (int n = 0; n < 40; n++) {
      int i = (int)harness_below(&random, KEYS);
      sizes[i] = harness_below(&random, 3) ? 100 + harness_below(&random, 800) : 20;
      versions[i] = round;
      put(i, round, sizes[i]);
    }
    store_commit(&store);
    store_flush(&store);
    for (int merges = 0; merges < 3 && kv_view_work(store.view).merge; merges++)
      store_job(&store, KV_JOB_MERGE);
    if (round % 20 == 0) store_compact(&store);
    if (round % 7) continue;
    store_reopen(&store);
    for (int i = 0; i < KEYS; i++)
      if (versions[i]) expect_value(i, versions[i], sizes[i]);
    ck_assert_str_eq(checked(), "");
  }
  uint64_t live = 0;
  for (int i = 0; i < KEYS; i++) live += sizes[i];
  store_compact(&store);
  store_compact(&store);
  ck_assert_uint_lt(value_file_bytes(), 2 * live);
}
END_TEST

START_TEST(of_two_jobs_that_find_a_file_dead_the_second_is_late) {
  struct kv_job *jobs[2];
  struct kv_err err;
  set_value_bytes(100);
  put_many(0, 20, 0, 5000);
  put_many(0, 20, 1, 5000);
  for (int i = 0; i < 2; i++) {
    must(kv_job_new(store.view, KV_JOB_COMPACT, &jobs[i], &err), &err);
    must(store_run(jobs[i], &err), &err);
  }
  uint64_t flushed = kv_view_log(store.view)->flushed_seq;
  must(store_publish(&store, jobs[0], flushed), &err);
  ck_assert_int_eq(store_publish(&store, jobs[1], flushed), KV_BUSY);
  for (int i = 0; i < 20; i++) expect_value(i, 1, 5000);
}
END_TEST

static struct kv_job *start_merge(enum kv_pick_kind kind) {
  struct kv_pick pick = {kind, 0, 1};
  struct kv_job *job;
  struct kv_err err;
  must(kv_job_new_pick(store.view, &pick, &job, &err), &err);
  kv_job_set_file_bytes(job, 1 << 20);
  must(store_run(job, &err), &err);
  return job;
}

static void publish(struct kv_job *job) {
  ck_assert(kv_job_fits(job, store.view));
  ck_assert_int_eq(store_publish(&store, job, kv_view_log(store.view)->flushed_seq), KV_OK);
}

static void delete_many(int first, int end) {
  for (int i = first; i < end; i++) store_delete(&store, key_of(i));
  store_commit(&store);
  store_flush(&store);
  publish(start_merge(KV_PICK_DOWN));
}

/* Each takes half of a value file's references, none knows of the other: the next one that comes by takes the
** file along. */
START_TEST(what_two_merges_leave_to_each_other_goes_with_the_next) {
  struct kv_options options = kv_family_options(store.family);
  set_value_bytes(100);
  put_many(0, 800, 0, 150);
  ck_assert_uint_eq(value_files(), 1);
  options.memtable_bytes = 256;
  options.compression_level = 0;
  options.value_bytes = 100;
  kv_family_set_options(store.family, &options);
  store.file_bytes = 4096;
  store_compact(&store);
  store.file_bytes = 1 << 20;
  ck_assert_uint_ge(kv_view_file_count(store.view), 4);
  const struct kv_file_info *third = kv_view_file(store.view, 2);
  ck_assert_uint_eq(third->level, 2);
  char key[8] = "";
  memcpy(key, third->smallest.data, 6);
  int middle = atoi(key + 1);
  delete_many(middle, 800);
  struct kv_job *right = start_merge(KV_PICK_PUSH);
  delete_many(0, middle);
  publish(start_merge(KV_PICK_PUSH));
  publish(right);
  ck_assert_uint_eq(kv_view_file_count(store.view), 1);
  ck_assert_uint_eq(value_files(), 1);
  put_many(900, 910, 1, 10); /* beside it */
  publish(start_merge(KV_PICK_DOWN));
  ck_assert_uint_eq(value_files(), 1);
  put_many(300, 310, 1, 10);
  publish(start_merge(KV_PICK_DOWN));
  ck_assert_uint_eq(value_files(), 0);
  for (int i = 300; i < 310; i++) expect_value(i, 1, 10);
  ck_assert_str_eq(checked(), "");
}
END_TEST

/* ---- Trouble */

/* A key-only answer is right whatever value files say; a value is right or an error. */
static int failing_gets(int count, size_t size) {
  int failed = 0;
  for (int i = 0; i < count; i++) {
    struct kv_value value = {0};
    struct kv_err err;
    bool found = false;
    must(kv_exists(store.view, NULL, slice(key_of(i)), &found, &err), &err);
    ck_assert(found);
    kv_status status = kv_get(store.view, NULL, slice(key_of(i)), &value, &err);
    if (status == KV_OK) {
      ck_assert(value.found && kv_slice_equal(value.bytes, value_of(i, 0, size)));
    } else {
      ck_assert(status == KV_CORRUPT || status == KV_MISSING);
      failed++;
    }
    kv_value_release(&value);
  }
  return failed;
}

static void flip_bit(uint64_t id, uint64_t at, uint8_t bit, uint64_t size) {
  struct kv_read_file *file = NULL;
  struct kv_write_file *out = NULL;
  struct kv_buf bytes;
  struct kv_err err;
  uint64_t found;
  kv_buf_init(&bytes);
  must(kv_env_open(store.memory, store_path(&store, id), &file, &found, &err), &err);
  ck_assert_uint_eq(found, size);
  struct kv_range range = {0, (size_t)size, kv_buf_extend(&bytes, (size_t)size)};
  must(kv_env_read(store.memory, file, &range, 1, &err), &err);
  kv_env_close_read(store.memory, file);
  bytes.data[at] ^= bit;
  must(kv_env_remove(store.memory, store_path(&store, id), &err), &err);
  must(kv_env_create(store.memory, store_path(&store, id), NULL, &out, &err), &err);
  must(kv_env_append(store.memory, out, kv_buf_slice(&bytes), &err), &err);
  kv_env_close_write(store.memory, out);
  kv_buf_release(&bytes);
}

START_TEST(each_changed_bit_of_a_value_file_is_an_error) {
  set_value_bytes(10);
  put_many(0, 3, 0, 60);
  uint64_t id = value_file(0), size = value_file_bytes();
  for (uint64_t bit = 0; bit < size * 8; bit++) {
    flip_bit(id, bit / 8, (uint8_t)(1 << bit % 8), size);
    store_reopen(&store);
    ck_assert_msg(failing_gets(3, 60) > 0, "bit %llu", (unsigned long long)bit);
    ck_assert_msg(*checked(), "bit %llu", (unsigned long long)bit);
    flip_bit(id, bit / 8, (uint8_t)(1 << bit % 8), size);
  }
  store_reopen(&store);
  ck_assert_int_eq(failing_gets(3, 60), 0);
}
END_TEST

START_TEST(a_value_file_that_is_gone_is_missing) {
  struct kv_err err;
  set_value_bytes(10);
  put_many(0, 3, 0, 60);
  must(kv_env_remove(store.memory, store_path(&store, value_file(0)), &err), &err);
  store_reopen(&store);
  ck_assert_int_eq(failing_gets(3, 60), 3);
  ck_assert(*checked());
}
END_TEST

START_TEST(a_manifest_that_lacks_a_value_file_is_damaged) {
  set_value_bytes(10);
  put_many(0, 3, 0, 60);
  struct catalog *catalog = &store.catalog;
  size_t at = catalog->files[0].level == KV_LEVEL_VALUES ? 0 : 1;
  struct kv_file_info kept = catalog->files[at];
  catalog->files[at] = catalog->files[--catalog->file_count];
  store_reopen(&store);
  ck_assert_int_eq(failing_gets(3, 60), 3);
  ck_assert_ptr_nonnull(strstr(checked(), "which the manifest does not name"));
  catalog->files[catalog->file_count++] = kept;
}
END_TEST

START_TEST(key_and_value_files_are_not_taken_for_each_other) {
  set_value_bytes(10);
  put_many(0, 3, 0, 60);
  for (size_t i = 0; i < 2; i++) {
    uint32_t *level = &store.catalog.files[i].level, kept = *level;
    *level = kept == KV_LEVEL_VALUES ? 0 : KV_LEVEL_VALUES;
    struct kv_snapshot state = {.log = store.catalog.log, .rows = -1};
    state.files = &store.catalog.files[i];
    state.file_count = 1;
    struct catalog_snapshot snapshot;
    struct kv_family *family = NULL;
    struct kv_view *view = NULL;
    struct kv_err err;
    char first[256] = "";
    catalog_take(&store.catalog, &snapshot);
    struct kv_log_source source = catalog_source(&snapshot);
    must(kv_family_new(&store.config, &family, &err), &err);
    must(kv_view_new(family, &state, &source, &view, &err), &err);
    must(kv_check(view, note, first, &err), &err);
    ck_assert_ptr_nonnull(strstr(first, "kind of the file and of the manifest differ"));
    kv_view_unref(view);
    kv_family_unref(family);
    catalog_drop(&snapshot);
    *level = kept;
  }
}
END_TEST

static kv_status try_everything(struct kv_err *err) {
  struct kv_job *job = NULL;
  kv_status status = kv_job_new(store.view, KV_JOB_COMPACT, &job, err);
  if (status != KV_OK) return status;
  kv_job_set_file_bytes(job, 2048);
  status = store_run(job, err);
  kv_job_free(job);
  static char texts[30][16];
  struct kv_slice keys[30];
  for (int i = 0; i < 30; i++) {
    snprintf(texts[i], sizeof texts[i], "%s", key_of(i));
    keys[i] = slice(texts[i]);
  }
  struct kv_result *result = NULL;
  if (status == KV_OK) status = kv_multi_get(store.view, NULL, keys, 30, &result, err);
  for (size_t i = 0; status == KV_OK && i < 30; i++) {
    struct kv_slice value;
    ck_assert(kv_result_found(result, i, &value));
    ck_assert(kv_slice_equal(value, value_of((int)i, i < 20, 400)));
  }
  kv_result_free(result);
  struct kv_value value = {0};
  if (status == KV_OK) status = kv_get(store.view, NULL, slice("k00003"), &value, err);
  kv_value_release(&value);
  return status;
}

static void two_runs(void) {
  set_value_bytes(100);
  put_many(0, 30, 0, 400);
  put_many(0, 20, 1, 400);
  store_compact(&store); /* the first value file is mostly dead now */
  put(100, 0, 300);
  store_commit(&store);
}

START_TEST(every_allocation_failing) {
  two_runs();
  size_t files = store_files(&store);
  for (uint64_t n = 1;; n++) {
    struct kv_err err;
    kv_cache_set_budget(store.cache, 0);
    kv_mem_fail_nth(n, 0);
    kv_status status = try_everything(&err);
    kv_mem_fail_nth(0, 0);
    ck_assert_uint_eq(store_files(&store), files);
    if (status == KV_OK) break;
    ck_assert_int_eq(status, KV_NOMEM);
  }
}
END_TEST

START_TEST(every_io_failing) {
  const enum kv_fault_class classes[] = {KV_FAULT_CREATE, KV_FAULT_APPEND, KV_FAULT_SYNC,
                                         KV_FAULT_OPEN,   KV_FAULT_READ,   KV_FAULT_SYNC_DIR};
  two_runs();
  size_t files = store_files(&store);
  for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
    for (uint64_t n = 1;; n++) {
      struct kv_err err;
      store_reopen(&store);
      kv_env_fault_set(store.env, classes[i], n, false, KV_IO);
      kv_status status = try_everything(&err);
      kv_env_fault_set(store.env, classes[i], 0, false, KV_IO);
      ck_assert_uint_eq(store_files(&store), files);
      if (status == KV_OK) break;
      ck_assert_int_eq(status, KV_IO);
    }
  }
}
END_TEST

/* ---- Memory and checksums */

START_TEST(big_values_do_not_empty_the_cache) {
  set_value_bytes(4096);
  kv_cache_set_budget(store.cache, 256 << 10);
  put_many(0, 3, 0, 900 << 10);
  for (int round = 0; round < 2; round++)
    for (int i = 0; i < 3; i++) expect_value(i, 0, 900 << 10);
  ck_assert_uint_le(kv_cache_bytes(store.cache), 256 << 10);
  ck_assert_uint_gt(kv_cache_bytes(store.cache), 0); /* the block of keys is still there */
  uint64_t read =
      store_stat(&store, KV_STAT_BLOCKS_READ) - store_stat(&store, KV_STAT_VALUE_BLOCKS_READ);
  expect_value(1, 0, 900 << 10);
  ck_assert_uint_eq(
      store_stat(&store, KV_STAT_BLOCKS_READ) - store_stat(&store, KV_STAT_VALUE_BLOCKS_READ),
      read);
}
END_TEST

START_TEST(checksums_are_looked_at_unless_switched_off) {
  set_value_bytes(100);
  put_many(0, 10, 0, 3000);
  for (int verify = 1; verify >= 0; verify--) {
    store_reopen(&store);
    kv_cache_set_verify(store.cache, verify ? KV_VERIFY_ALL : KV_VERIFY_NONE);
    for (int i = 0; i < 10; i++) expect_value(i, 0, 3000);
    uint64_t checked_blocks = store_stat(&store, KV_STAT_CHECKSUMS);
    uint64_t skipped = store_stat(&store, KV_STAT_CHECKSUMS_SKIPPED);
    uint64_t blocks = store_stat(&store, KV_STAT_BLOCKS_READ);
    ck_assert_uint_ge(blocks, 11);
    ck_assert_uint_eq(checked_blocks, verify ? blocks : 0);
    ck_assert_uint_eq(skipped, verify ? 0 : blocks);
  }
}
END_TEST

/* ---- Salvage */

START_TEST(salvage_shows_an_older_value_as_doubtful) {
  struct kv_err err;
  set_value_bytes(100);
  put_many(0, 10, 0, 400);
  uint64_t old = value_file(0);
  put_many(0, 5, 1, 400);
  uint64_t damaged = value_file(0) == old ? value_file(1) : value_file(0);
  must(kv_env_remove(store.memory, store_path(&store, damaged), &err), &err);
  store_reopen(&store);
  struct catalog_snapshot snapshot;
  struct kv_salvage *salvage = NULL;
  catalog_take(&store.catalog, &snapshot);
  struct kv_log_source source = catalog_source(&snapshot);
  struct kv_salvage_input input = {store.family, &snapshot.state, &source, false};
  must(kv_salvage_open(&input, &salvage, &err), &err);
  for (int i = 0;; i++) {
    bool found = false;
    struct kv_salvaged row;
    must(kv_salvage_next(salvage, &found, &row, &err), &err);
    if (!found) {
      ck_assert_int_eq(i, 10);
      break;
    }
    ck_assert(kv_slice_equal(row.key, slice(key_of(i))));
    ck_assert(kv_slice_equal(row.value, value_of(i, 0, 400)));
    ck_assert_int_eq(row.doubtful, i < 5);
  }
  kv_salvage_free(salvage);
  catalog_drop(&snapshot);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("values");
  TCase *tc = tcase_create("values");
  tcase_set_timeout(tc, 60);
  tcase_add_checked_fixture(tc, open_store, close_store);
  tcase_add_loop_test(tc, every_size_around_the_limit, 0, 5);
  tcase_add_test(tc, key_only_work_reads_no_value);
  tcase_add_test(tc, values_that_the_caller_keeps_stay);
  tcase_add_test(tc, multi_get_reads_each_value_block_once_in_grouped_reads);
  tcase_add_test(tc, merges_carry_references);
  tcase_add_test(tc, value_files_go_when_nothing_refers_to_them);
  tcase_add_test(tc, mostly_dead_value_files_are_written_anew);
  tcase_add_test(tc, a_changed_limit_holds_from_the_next_compaction_on);
  tcase_add_test(tc, a_long_history_keeps_every_value);
  tcase_add_test(tc, of_two_jobs_that_find_a_file_dead_the_second_is_late);
  tcase_add_test(tc, what_two_merges_leave_to_each_other_goes_with_the_next);
  tcase_add_test(tc, each_changed_bit_of_a_value_file_is_an_error);
  tcase_add_test(tc, a_value_file_that_is_gone_is_missing);
  tcase_add_test(tc, a_manifest_that_lacks_a_value_file_is_damaged);
  tcase_add_test(tc, key_and_value_files_are_not_taken_for_each_other);
  tcase_add_test(tc, every_allocation_failing);
  tcase_add_test(tc, every_io_failing);
  tcase_add_test(tc, big_values_do_not_empty_the_cache);
  tcase_add_test(tc, checksums_are_looked_at_unless_switched_off);
  tcase_add_test(tc, salvage_shows_an_older_value_as_doubtful);
  suite_add_tcase(suite, tc);
  return harness_run(suite);
}
