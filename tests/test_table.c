/* Table files: what is written is what is read, by every read path, and the counters that go with it. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "code.h"
#include "harness_table.h"
#include "hash.h"
#include "mem.h"

static struct stage stage;

static void use_stage(void) {
  stage_init(&stage, 4 << 20);
}

static void drop_stage(void) {
  stage_release(&stage);
}

/* ---- Writing and reading back */

START_TEST(random_rows_under_every_option) {
  static const int levels[] = {0, 1, 19};
  static const int bits[] = {0, 1, 10, 20};
  static const uint32_t sizes[] = {1024, 4096, 65536};
  uint64_t seed = harness_seed_env(1);
  struct harness_random random;
  harness_seed(&random, seed);
  for (int i = 0; i < 36; i++) {
    stage.config.compression_level = levels[i % 3];
    stage.config.filter_bits = bits[i / 3 % 4];
    stage.config.block_bytes = sizes[i / 12];
    struct rows rows = {0};
    rows_random(&rows, &random, 1 + harness_below(&random, 1500), 30, 200);
    stage_make(&stage, &rows);
    expect_all(&stage, &rows);
    for (int j = 0; j < 500; j++) {
      uint8_t key[30];
      expect_get(&stage, &rows, random_key(&random, key, 30));
    }
    rows_release(&rows);
  }
}
END_TEST

START_TEST(info_says_what_the_file_is) {
  struct rows rows = {0};
  rows_add(&rows, kv_slice_of("a", 1), kv_slice_of("12", 2), false);
  rows_add(&rows, kv_slice_of("b", 1), kv_slice_of("", 0), true);
  rows_add(&rows, kv_slice_of("cc", 2), kv_slice_of("345", 3), false);
  stage_make(&stage, &rows);
  ck_assert_uint_ne(stage.info.id, 0);
  ck_assert_uint_eq(stage.info.id >> 63, 0);
  ck_assert_uint_eq(kv_table_id(stage.table), stage.info.id);
  ck_assert_uint_eq(stage.info.entries, 3);
  ck_assert_uint_eq(stage.info.tombstones, 1);
  ck_assert_uint_eq(kv_table_raw_bytes(stage.table), 9);
  ck_assert_uint_gt(kv_table_memory(stage.table), 0);
  ck_assert(kv_slice_equal(kv_buf_slice(&stage.info.smallest), kv_slice_of("a", 1)));
  ck_assert(kv_slice_equal(kv_buf_slice(&stage.info.largest), kv_slice_of("cc", 2)));
  ck_assert_int_eq(kv_table_check_writer(stage.table, &stage.err), KV_OK);
  struct kv_buf bytes;
  stage_read_file(&stage, stage.info.id, &bytes);
  ck_assert_uint_eq(stage.info.bytes, bytes.size);
  kv_buf_release(&bytes);
  rows_release(&rows);
}
END_TEST

START_TEST(writer_tells_its_id_and_bytes) {
  struct kv_table_writer *writer;
  stage.config.compression_level = 0;
  stage_ok(&stage, kv_table_writer_new(&stage.config, &writer, &stage.err));
  uint64_t last = 0;
  for (uint32_t i = 0; i < 1000; i++) {
    uint8_t key[8], value[100] = {0};
    kv_put_u64_be(key, i);
    stage_ok(&stage, kv_table_writer_add(writer, kv_slice_of(key, 8), kv_slice_of(value, 100),
                                         false, &stage.err));
    ck_assert_uint_ge(kv_table_writer_bytes(writer), last);
    last = kv_table_writer_bytes(writer);
  }
  ck_assert_uint_ge(last, 100000);
  uint64_t id = kv_table_writer_id(writer);
  stage_ok(&stage, kv_table_writer_finish(writer, &stage.info, NULL, &stage.err));
  ck_assert_uint_eq(stage.info.id, id);
  ck_assert_uint_eq(kv_table_writer_bytes(writer), stage.info.bytes);
  kv_table_writer_free(writer);
  ck_assert_uint_eq(stage_files(&stage), 1);
}
END_TEST

START_TEST(keys_of_every_length) {
  static uint8_t key[65536];
  struct rows rows = {0};
  memset(key, 'k', sizeof key);
  for (size_t size = 0; size <= 300; size++) {
    bool deleted = size % 5 == 4;
    rows_add(&rows, kv_slice_of(key, size), kv_slice_of(key, deleted ? 0 : size % 7), deleted);
  }
  for (size_t size = 65530; size <= 65536; size++) {
    rows_add(&rows, kv_slice_of(key, size), kv_slice_of("v", 1), false);
  }
  key[65535] = 'l';
  rows_add(&rows, kv_slice_of(key, 65536), kv_slice_of("", 0), false);
  stage.config.block_bytes = 1024;
  stage_make(&stage, &rows);
  expect_all(&stage, &rows);
  for (size_t size = 301; size < 65530; size += 4999) {
    expect_get(&stage, &rows, kv_slice_of(key, size));
  }
  rows_release(&rows);
}
END_TEST

START_TEST(one_row_of_an_empty_key) {
  struct rows rows = {0};
  rows_add(&rows, kv_slice_of(NULL, 0), kv_slice_of(NULL, 0), false);
  stage_make(&stage, &rows);
  expect_all(&stage, &rows);
  expect_get(&stage, &rows, kv_slice_of("x", 1));
  rows_release(&rows);
}
END_TEST

/* Large values: each in a block of its own, and a neighbour is read without it. */
START_TEST(values_up_to_16_mib) {
  static const size_t sizes[] = {0,    1,    31,    32,    127,     128,      4000,
                                 4096, 4097, 16383, 16384, 1 << 20, 16 << 20, 5};
  enum { N = sizeof sizes / sizeof *sizes };
  for (int level = 0; level <= 3; level += 3) {
    struct rows rows = {0};
    for (size_t i = 0; i < N; i++) rows_numbered(&rows, i, 1, 1, sizes[i]);
    stage.config.compression_level = level;
    stage_make(&stage, &rows);
    recorder()->bytes = 0;
    expect_get(&stage, &rows, rows.items[N - 1].key);
    ck_assert_uint_lt(recorder()->bytes, 4096);
    expect_all(&stage, &rows);
    rows_release(&rows);
  }
}
END_TEST

START_TEST(compressible_values_take_little_room) {
  struct rows rows = {0};
  static uint8_t zeros[1 << 20];
  rows_add(&rows, kv_slice_of("a", 1), kv_slice_of(zeros, sizeof zeros), false);
  stage_make(&stage, &rows);
  ck_assert_uint_lt(stage.info.bytes, 2000);
  expect_all(&stage, &rows);
  stage.config.compression_level = 0;
  stage_make(&stage, &rows);
  ck_assert_uint_gt(stage.info.bytes, sizeof zeros);
  rows_release(&rows);
}
END_TEST

START_TEST(block_size_is_kept) {
  struct rows rows = {0};
  rows_numbered(&rows, 0, 1, 3000, 40);
  stage.config.compression_level = 0;
  stage.config.block_bytes = 2048;
  stage_make(&stage, &rows);
  expect_get(&stage, &rows, rows.items[1500].key);
  uint64_t size = stage_stat(&stage, KV_STAT_BLOCK_BYTES_READ);
  ck_assert_uint_le(size, 2048 + 13);
  ck_assert_uint_ge(size, 1900);
  rows_release(&rows);
}
END_TEST

START_TEST(digest_is_a_sum_in_any_order) {
  struct kv_digest a = {0}, b = {0}, c = {0};
  kv_digest_add(&a, kv_slice_of("k", 1), kv_slice_of("v", 1), false);
  kv_digest_add(&a, kv_slice_of("l", 1), kv_slice_of("", 0), true);
  kv_digest_add(&b, kv_slice_of("l", 1), kv_slice_of("", 0), true);
  kv_digest_add(&b, kv_slice_of("k", 1), kv_slice_of("v", 1), false);
  kv_digest_add(&c, kv_slice_of("l", 1), kv_slice_of("", 0), false);
  kv_digest_add(&c, kv_slice_of("k", 1), kv_slice_of("v", 1), false);
  ck_assert_uint_eq(a.sum, b.sum);
  ck_assert_uint_eq(a.entries, 2);
  ck_assert_uint_ne(a.sum, c.sum);
}
END_TEST

START_TEST(path_is_16_hex_digits) {
  struct kv_buf path;
  kv_buf_init(&path);
  kv_table_path(&path, "d/e", 0x12abcdef);
  ck_assert_str_eq((char *)path.data, "d/e/0000000012abcdef.sst");
  ck_assert_uint_eq(path.size, strlen("d/e/0000000012abcdef.sst") + 1);
  kv_buf_release(&path);
}
END_TEST

/* ---- Misuse */

static kv_status add(struct kv_table_writer *writer, const char *key, bool deleted) {
  return kv_table_writer_add(writer, kv_slice_of(key, strlen(key)),
                             kv_slice_of("v", deleted ? 0 : 1), deleted, &stage.err);
}

START_TEST(keys_not_ascending_are_misuse_in_a_block_and_between_blocks) {
  for (uint32_t size = 1; size <= 4096; size += 4095) {
    struct kv_table_writer *writer;
    stage.config.block_bytes = size;
    stage_ok(&stage, kv_table_writer_new(&stage.config, &writer, &stage.err));
    stage_ok(&stage, add(writer, "b", false));
    ck_assert_int_eq(add(writer, "b", false), KV_MISUSE);
    ck_assert_int_eq(add(writer, "c", false), KV_MISUSE); /* failed for good */
    ck_assert_int_eq(kv_table_writer_finish(writer, &stage.info, NULL, &stage.err), KV_MISUSE);
    kv_table_writer_free(writer);
    ck_assert_uint_eq(stage_files(&stage), 0);
  }
}
END_TEST

START_TEST(entries_out_of_range_are_misuse) {
  static uint8_t bytes[65537];
  struct kv_slice keys[] = {{bytes, 65537}, {bytes, 1}, {bytes, 1}};
  struct kv_slice values[] = {{bytes, 0}, {bytes, ((size_t)1 << 30) + 1}, {bytes, 1}};
  for (int i = 0; i < 3; i++) {
    struct kv_table_writer *writer;
    stage_ok(&stage, kv_table_writer_new(&stage.config, &writer, &stage.err));
    ck_assert_int_eq(kv_table_writer_add(writer, keys[i], values[i], i == 2, &stage.err),
                     KV_MISUSE);
    kv_table_writer_free(writer);
  }
  ck_assert_uint_eq(stage_files(&stage), 0);
}
END_TEST

START_TEST(options_out_of_range_are_misuse) {
  struct kv_table_writer *writer;
  struct kv_table_config config = stage.config;
  config.compression_level = 20;
  ck_assert_int_eq(kv_table_writer_new(&config, &writer, &stage.err), KV_MISUSE);
  config.compression_level = -1;
  ck_assert_int_eq(kv_table_writer_new(&config, &writer, &stage.err), KV_MISUSE);
  config = stage.config;
  config.filter_bits = 21;
  ck_assert_int_eq(kv_table_writer_new(&config, &writer, &stage.err), KV_MISUSE);
}
END_TEST

START_TEST(file_of_nothing_is_misuse_and_goes) {
  struct kv_table_writer *writer;
  stage_ok(&stage, kv_table_writer_new(&stage.config, &writer, &stage.err));
  ck_assert_uint_eq(stage_files(&stage), 1);
  ck_assert_int_eq(kv_table_writer_finish(writer, &stage.info, NULL, &stage.err), KV_MISUSE);
  kv_table_writer_free(writer);
  ck_assert_uint_eq(stage_files(&stage), 0);
  kv_table_writer_free(NULL);
}
END_TEST

START_TEST(finished_writer_refuses_more) {
  struct kv_table_writer *writer;
  stage_ok(&stage, kv_table_writer_new(&stage.config, &writer, &stage.err));
  stage_ok(&stage, add(writer, "b", false));
  stage_ok(&stage, kv_table_writer_finish(writer, &stage.info, NULL, &stage.err));
  ck_assert_int_eq(add(writer, "c", false), KV_MISUSE);
  ck_assert_int_eq(kv_table_writer_finish(writer, &stage.info, NULL, &stage.err), KV_MISUSE);
  kv_table_writer_free(writer);
  ck_assert_uint_eq(stage_files(&stage), 1);
}
END_TEST

START_TEST(missing_file_is_missing_not_corrupt) {
  struct rows rows = {0};
  rows_numbered(&rows, 1, 1, 10, 10);
  stage_ok(&stage, stage_write(&stage, &rows));
  stage.info.id ^= 1;
  ck_assert_int_eq(stage_open(&stage), KV_MISSING);
  rows_release(&rows);
}
END_TEST

/* ---- Iterator against a sorted array */

static void expect_at(const struct kv_iter *iter, const struct rows *rows, size_t at,
                      uint64_t seed) {
  ck_assert_int_eq(iter->status, KV_OK);
  ck_assert_msg(iter->valid == (at < rows->count), "seed %llu", (unsigned long long)seed);
  if (at >= rows->count) return;
  const struct row *row = &rows->items[at];
  ck_assert_msg(kv_slice_equal(iter->key, row->key), "seed %llu", (unsigned long long)seed);
  ck_assert(kv_slice_equal(iter->value, row->value));
  ck_assert_int_eq(iter->deleted, row->deleted);
}

/* One random move of iterator and model; an ended iterator is at count. */
static size_t random_move(struct harness_random *random, struct kv_iter *iter,
                          const struct rows *rows, size_t at) {
  uint8_t bytes[12];
  struct kv_slice key = random_key(random, bytes, sizeof bytes);
  size_t n = rows->count;
  switch (harness_below(random, 16)) {
    case 0:
      kv_iter_seek_first(iter);
      return 0;
    case 1:
      kv_iter_seek_last(iter);
      return n - 1;
    case 2:
      key = rows->items[harness_below(random, n)].key;
      kv_iter_seek(iter, key);
      return rows_lower_bound(rows, key);
    case 3:
      kv_iter_seek(iter, key);
      return rows_lower_bound(rows, key);
    case 4:
    case 5:
    case 6:
    case 7:
    case 8:
    case 9:
      kv_iter_next(iter);
      return at < n ? at + 1 : n;
    default:
      kv_iter_prev(iter);
      return at < n && at ? at - 1 : n;
  }
}

START_TEST(random_moves_agree_with_a_sorted_array) {
  uint64_t seed = harness_seed_env(2);
  struct harness_random random;
  harness_seed(&random, seed);
  for (int round = 0; round < 10; round++) {
    struct rows rows = {0};
    rows_random(&rows, &random, 1 + harness_below(&random, 400), 12, 60);
    stage.config.block_bytes = 256;
    kv_cache_set_budget(stage.cache, round & 1 ? 4 << 20 : 0);
    stage_make(&stage, &rows);
    struct kv_iter *iter;
    stage_ok(&stage, kv_table_iter(stage.table, round & 2, &iter, &stage.err));
    ck_assert(!iter->valid);
    size_t at = rows.count;
    for (int i = 0; i < 4000; i++) {
      at = random_move(&random, iter, &rows, at);
      expect_at(iter, &rows, at, seed);
    }
    kv_iter_free(iter);
    rows_release(&rows);
  }
}
END_TEST

START_TEST(seek_outside_the_bounds) {
  struct rows rows = {0};
  rows_numbered(&rows, 100, 10, 100, 50);
  stage_make(&stage, &rows);
  struct kv_iter *iter;
  stage_ok(&stage, kv_table_iter(stage.table, true, &iter, &stage.err));
  kv_iter_seek(iter, kv_slice_of(NULL, 0));
  expect_at(iter, &rows, 0, 0);
  kv_iter_prev(iter);
  ck_assert(!iter->valid);
  kv_iter_next(iter);
  ck_assert(!iter->valid);
  kv_iter_seek(iter, kv_slice_of("\xff", 1));
  ck_assert(!iter->valid);
  kv_iter_prev(iter);
  ck_assert(!iter->valid);
  kv_iter_seek_last(iter);
  expect_at(iter, &rows, 99, 0);
  kv_iter_free(iter);
  rows_release(&rows);
}
END_TEST

START_TEST(iterator_past_the_cache_leaves_it_empty) {
  struct rows rows = {0};
  rows_numbered(&rows, 0, 1, 500, 100);
  stage_make(&stage, &rows);
  struct kv_iter *iter;
  stage_ok(&stage, kv_table_iter(stage.table, false, &iter, &stage.err));
  for (kv_iter_seek_first(iter); iter->valid;) kv_iter_next(iter);
  kv_iter_free(iter);
  ck_assert_uint_eq(kv_cache_bytes(stage.cache), 0);
  ck_assert_uint_eq(stage_stat(&stage, KV_STAT_CACHE_MISSES), 0);
  ck_assert_uint_gt(stage_stat(&stage, KV_STAT_BLOCKS_READ), 10);
  rows_release(&rows);
}
END_TEST

/* ---- Probes */

START_TEST(probe_reads_no_block) {
  struct rows rows = {0};
  rows_numbered(&rows, 0, 2, 500, 100);
  rows.items[7].deleted = true;
  rows.items[7].value.size = 0;
  stage_make(&stage, &rows);
  recorder()->calls = 0;
  enum kv_table_probe answer;
  size_t unknown = 0;
  for (uint64_t i = 0; i < 1100; i++) {
    uint8_t key[8];
    kv_put_u64_be(key, i);
    struct kv_slice k = kv_slice_of(key, 8);
    stage_ok(&stage, kv_table_probe(stage.table, k, kv_hash_key(k), &answer, &stage.err));
    if (rows_find(&rows, k)) ck_assert_int_eq(answer, KV_PROBE_UNKNOWN);
    if (i >= 999) ck_assert_int_eq(answer, KV_PROBE_NONE);
    unknown += answer == KV_PROBE_UNKNOWN;
  }
  ck_assert_uint_ge(unknown, 500);
  ck_assert_uint_le(unknown, 530);
  ck_assert_uint_eq(recorder()->calls, 0);
  expect_all(&stage, &rows);
  recorder()->calls = 0;
  for (size_t i = 0; i < rows.count; i++) {
    struct kv_slice k = rows.items[i].key;
    stage_ok(&stage, kv_table_probe(stage.table, k, kv_hash_key(k), &answer, &stage.err));
    ck_assert_int_eq(answer, i == 7 ? KV_PROBE_DELETED : KV_PROBE_PUT);
  }
  ck_assert_uint_eq(recorder()->calls, 0);
  rows_release(&rows);
}
END_TEST

START_TEST(probe_in_a_cached_block_sees_an_absent_key) {
  struct rows rows = {0};
  rows_numbered(&rows, 0, 2, 10, 10);
  stage.config.filter_bits = 0;
  stage_make(&stage, &rows);
  expect_get(&stage, &rows, rows.items[0].key);
  uint8_t key[8];
  enum kv_table_probe answer;
  kv_put_u64_be(key, 3);
  struct kv_slice k = kv_slice_of(key, 8);
  stage_ok(&stage, kv_table_probe(stage.table, k, kv_hash_key(k), &answer, &stage.err));
  ck_assert_int_eq(answer, KV_PROBE_NONE);
  ck_assert_uint_eq(stage_stat(&stage, KV_STAT_FILTER_CHECKS), 0);
  ck_assert_uint_eq(stage_stat(&stage, KV_STAT_FILTER_FALSE_POSITIVES), 0);
  rows_release(&rows);
}
END_TEST

/* ---- Batched lookups */

/* Sorted distinct keys as lookups: rows of `asked`. */
static struct kv_lookup *lookups_of(const struct rows *asked) {
  struct kv_lookup *lookups = calloc(asked->count + 1, sizeof *lookups);
  for (size_t i = 0; i < asked->count; i++) {
    lookups[i] = lookup_of(asked->items[i].key);
    lookups[i].position = i;
  }
  return lookups;
}

static void expect_multi_get(const struct rows *rows, const struct rows *asked) {
  struct kv_lookup *lookups = lookups_of(asked);
  stage_ok(&stage, stage_multi_get(&stage, lookups, asked->count, &stage.err));
  for (size_t i = 0; i < asked->count; i++) {
    expect_answer(&lookups[i], rows_find(rows, asked->items[i].key));
    ck_assert_uint_eq(lookups[i].position, i);
    kv_cache_unpin(lookups[i].pin);
  }
  free(lookups);
}

START_TEST(multi_get_equals_get_equals_model) {
  uint64_t seed = harness_seed_env(3);
  struct harness_random random;
  harness_seed(&random, seed);
  for (int round = 0; round < 60; round++) {
    struct rows rows = {0}, asked = {0};
    stage.config.filter_bits = round % 3 * 5;
    stage.config.block_bytes = round % 2 ? 512 : 8192;
    kv_cache_set_budget(stage.cache, round % 5 ? 4 << 20 : round % 2 * 3000);
    rows_random(&rows, &random, 1 + harness_below(&random, 600), 12, 60);
    stage_make(&stage, &rows);
    rows_random(&asked, &random, harness_below(&random, 300), 12, 1);
    expect_multi_get(&rows, &asked);
    for (size_t i = 0; i < asked.count; i++) expect_get(&stage, &rows, asked.items[i].key);
    expect_multi_get(&rows, &rows);
    rows_release(&rows);
    rows_release(&asked);
  }
}
END_TEST

START_TEST(multi_get_of_none_and_one) {
  struct rows rows = {0}, one = {0};
  rows_numbered(&rows, 0, 1, 100, 50);
  rows_numbered(&one, 5, 1, 1, 0);
  stage_make(&stage, &rows);
  stage_ok(&stage, stage_multi_get(&stage, NULL, 0, &stage.err));
  expect_multi_get(&rows, &one);
  rows_release(&rows);
  rows_release(&one);
}
END_TEST

START_TEST(multi_get_counts_what_it_does) {
  struct rows rows = {0}, asked = {0};
  rows_numbered(&rows, 0, 2, 5000, 100); /* even numbers below 10000 */
  rows_numbered(&asked, 0, 10, 100, 0);  /* a hundred of them below 1000 */
  rows_numbered(&asked, 10001, 1, 50, 0);
  stage.config.compression_level = 0;
  stage_make(&stage, &rows);
  recorder()->calls = 0;
  recorder()->bytes = 0;
  expect_multi_get(&rows, &asked);
  uint64_t blocks = stage_stat(&stage, KV_STAT_MULTI_GET_BLOCKS);
  ck_assert_uint_ge(blocks, 10); /* 500 rows of 120 bytes, 4 KiB a block */
  ck_assert_uint_le(blocks, 20);
  ck_assert_uint_eq(stage_stat(&stage, KV_STAT_MULTI_GET_FILTER_PASSES), 1);
  ck_assert_uint_eq(stage_stat(&stage, KV_STAT_FILTER_CHECKS), 100);
  ck_assert_uint_eq(stage_stat(&stage, KV_STAT_FILTER_USEFUL), 0);
  ck_assert_uint_eq(stage_stat(&stage, KV_STAT_MULTI_GET_BLOCKS_SHARED), 100 - blocks);
  ck_assert_uint_eq(stage_stat(&stage, KV_STAT_BLOCKS_READ), blocks);
  ck_assert_uint_eq(stage_stat(&stage, KV_STAT_CHECKSUMS), blocks);
  ck_assert_uint_eq(stage_stat(&stage, KV_STAT_CACHE_MISSES), blocks);
  ck_assert_uint_eq(stage_stat(&stage, KV_STAT_CACHE_HITS), 0);
  ck_assert_uint_eq(stage_stat(&stage, KV_STAT_BLOCK_BYTES_READ), recorder()->bytes);
  ck_assert_uint_eq(recorder()->calls, 1);
  ck_assert_uint_eq(recorder()->ranges - 1 - 3, blocks); /* and those of open */
  expect_multi_get(&rows, &asked);
  ck_assert_uint_eq(stage_stat(&stage, KV_STAT_CACHE_HITS), blocks);
  ck_assert_uint_eq(stage_stat(&stage, KV_STAT_BLOCKS_READ), blocks);
  ck_assert_uint_eq(recorder()->calls, 1);
  rows_release(&rows);
  rows_release(&asked);
}
END_TEST

/* Blocks in the cache and others stand side by side, with more keys than are looked up in one go. */
START_TEST(multi_get_reads_only_what_is_not_cached) {
  struct rows rows = {0}, some = {0};
  rows_numbered(&rows, 0, 1, 4000, 100);
  rows_numbered(&some, 500, 1, 300, 0);
  rows_numbered(&some, 1500, 400, 6, 0);
  stage_make(&stage, &rows);
  expect_multi_get(&rows, &some);
  uint64_t first = stage_stat(&stage, KV_STAT_MULTI_GET_BLOCKS);
  expect_multi_get(&rows, &rows);
  uint64_t all = stage_stat(&stage, KV_STAT_MULTI_GET_BLOCKS) - first;
  ck_assert_uint_gt(all, first + 64);
  ck_assert_uint_eq(stage_stat(&stage, KV_STAT_CACHE_HITS), first);
  ck_assert_uint_eq(stage_stat(&stage, KV_STAT_CACHE_MISSES), all);
  ck_assert_uint_eq(stage_stat(&stage, KV_STAT_BLOCKS_READ), all);
  rows_release(&rows);
  rows_release(&some);
}
END_TEST

START_TEST(absent_keys_are_stopped_by_the_filter) {
  struct rows rows = {0}, asked = {0};
  rows_numbered(&rows, 0, 2, 5000, 20);
  rows_numbered(&asked, 1, 2, 4999, 0);
  stage_make(&stage, &rows);
  expect_multi_get(&rows, &asked);
  uint64_t useful = stage_stat(&stage, KV_STAT_FILTER_USEFUL);
  uint64_t wrong = stage_stat(&stage, KV_STAT_FILTER_FALSE_POSITIVES);
  ck_assert_uint_eq(useful + wrong, 4999);
  ck_assert_uint_le(wrong, 150);
  for (size_t i = 0; i < asked.count; i++) expect_get(&stage, &rows, asked.items[i].key);
  ck_assert_uint_eq(stage_stat(&stage, KV_STAT_FILTER_USEFUL), 2 * useful);
  ck_assert_uint_eq(stage_stat(&stage, KV_STAT_FILTER_FALSE_POSITIVES), 2 * wrong);
  ck_assert_uint_eq(stage_stat(&stage, KV_STAT_MULTI_GET_FILTER_PASSES), 1);
  rows_release(&rows);
  rows_release(&asked);
}
END_TEST

/* Of a long list so many blocks are asked for ahead, and only one is in hand that is not needed yet. */
START_TEST(multi_get_reads_in_bounded_rounds) {
  struct rows rows = {0};
  rows_numbered(&rows, 0, 1, 10, 3 << 20);
  stage.config.compression_level = 0;
  stage_make(&stage, &rows);
  *recorder() = (struct recorder){0};
  expect_multi_get(&rows, &rows);
  ck_assert_uint_eq(recorder()->calls, 10);
  ck_assert_uint_eq(recorder()->hints, 3); /* the last round has one block */
  ck_assert_uint_eq(recorder()->expected, 9);
  ck_assert_uint_eq(stage_stat(&stage, KV_STAT_CACHE_MISSES), 10);
  ck_assert_uint_eq(stage_stat(&stage, KV_STAT_CACHE_HITS), 0);
  ck_assert_uint_le(recorder()->largest_call, (3 << 20) + 4096);
  rows_release(&rows);
}
END_TEST

/* A round is announced at once, and read in pieces of 128 KiB as it is needed. */
START_TEST(multi_get_reads_in_pieces) {
  struct rows rows = {0};
  rows_numbered(&rows, 0, 1, 10000, 100);
  stage.config.compression_level = 0;
  stage_make(&stage, &rows);
  *recorder() = (struct recorder){0};
  expect_multi_get(&rows, &rows);
  size_t blocks = stage_stat(&stage, KV_STAT_MULTI_GET_BLOCKS);
  ck_assert_uint_eq(recorder()->hints, 1);
  ck_assert_uint_eq(recorder()->expected, blocks);
  ck_assert_uint_eq(recorder()->ranges, blocks);
  ck_assert_uint_ge(recorder()->calls, recorder()->bytes / ((128 << 10) + 4096));
  ck_assert_uint_le(recorder()->calls, recorder()->bytes / (128 << 10) + 1);
  ck_assert_uint_le(recorder()->largest_call, (128 << 10) + 4096);
  *recorder() = (struct recorder){0};
  expect_multi_get(&rows, &rows);
  ck_assert_uint_eq(recorder()->hints + recorder()->calls, 0);
  rows_release(&rows);
}
END_TEST

START_TEST(multi_get_of_70000_keys) {
  struct rows rows = {0}, asked = {0};
  rows_numbered(&rows, 0, 3, 60000, 30);
  rows_numbered(&asked, 0, 2, 70000, 0);
  stage_make(&stage, &rows);
  expect_multi_get(&rows, &asked);
  ck_assert_uint_le(stage_stat(&stage, KV_STAT_BLOCKS_READ),
                    stage_stat(&stage, KV_STAT_MULTI_GET_BLOCKS));
  rows_release(&rows);
  rows_release(&asked);
}
END_TEST

/* ---- Reads are bounded */

START_TEST(open_reads_only_the_tail) {
  struct rows rows = {0};
  rows_numbered(&rows, 0, 1, 20000, 200);
  stage_ok(&stage, stage_write(&stage, &rows));
  ck_assert_uint_gt(stage.info.bytes, 4000000);
  *recorder() = (struct recorder){0};
  stage_ok(&stage, stage_open(&stage));
  ck_assert_uint_eq(recorder()->calls, 2);
  ck_assert_uint_lt(recorder()->bytes, 60000);
  rows_release(&rows);
}
END_TEST

START_TEST(get_reads_one_block_once) {
  struct rows rows = {0};
  rows_numbered(&rows, 0, 2, 20000, 200);
  stage_make(&stage, &rows);
  *recorder() = (struct recorder){0};
  for (int i = 0; i < 3; i++) expect_get(&stage, &rows, rows.items[777].key);
  ck_assert_uint_eq(recorder()->calls, 1);
  ck_assert_uint_eq(recorder()->ranges, 1);
  ck_assert_uint_le(recorder()->bytes, 4096 + 13);
  ck_assert_uint_eq(stage_stat(&stage, KV_STAT_BLOCKS_READ), 1);
  ck_assert_uint_eq(stage_stat(&stage, KV_STAT_CHECKSUMS), 1);
  ck_assert_uint_eq(stage_stat(&stage, KV_STAT_CACHE_HITS), 2);
  ck_assert_uint_eq(stage_stat(&stage, KV_STAT_CACHE_MISSES), 1);
  ck_assert_uint_eq(stage_stat(&stage, KV_STAT_FILTER_CHECKS), 3);
  expect_get(&stage, &rows, kv_slice_of("", 0));
  expect_get(&stage, &rows, kv_slice_of("\xff", 1));
  ck_assert_uint_eq(stage_stat(&stage, KV_STAT_FILTER_CHECKS), 3);
  ck_assert_uint_eq(recorder()->calls, 1);
  rows_release(&rows);
}
END_TEST

START_TEST(closed_table_leaves_the_cache) {
  struct rows rows = {0};
  rows_numbered(&rows, 0, 1, 2000, 100);
  stage_make(&stage, &rows);
  expect_all(&stage, &rows);
  ck_assert_uint_gt(kv_cache_bytes(stage.cache), 100000);
  struct kv_lookup lookup = lookup_of(rows.items[5].key);
  stage_ok(&stage, kv_table_get(stage.table, &lookup, KV_LOOKUP_VALUE, &stage.err));
  stage_close(&stage);
  expect_answer(&lookup, &rows.items[5]);
  kv_cache_unpin(lookup.pin);
  ck_assert_uint_eq(kv_cache_bytes(stage.cache), 0);
  rows_release(&rows);
}
END_TEST

/* ---- Threads */

static struct rows shared_rows;

static void *read_shared(void *arg) {
  struct harness_random random;
  harness_seed(&random, (uint64_t)(uintptr_t)arg);
  for (int i = 0; i < 300; i++) {
    struct kv_lookup lookups[20];
    struct kv_err err;
    size_t at = harness_below(&random, shared_rows.count - 100);
    for (size_t j = 0; j < 20; j++) lookups[j] = lookup_of(shared_rows.items[at + 5 * j].key);
    if (stage_multi_get(&stage, lookups, 20, &err)) return arg;
    for (size_t j = 0; j < 20; j++) {
      bool right = lookups[j].answer == KV_TABLE_PUT &&
                   kv_slice_equal(lookups[j].value, shared_rows.items[at + 5 * j].value);
      kv_cache_unpin(lookups[j].pin);
      if (!right) return arg;
    }
  }
  return NULL;
}

START_TEST(threads_read_one_table) {
  enum { THREADS = 4 };
  pthread_t threads[THREADS];
  rows_numbered(&shared_rows, 0, 1, 5000, 100);
  kv_cache_set_budget(stage.cache, 100000);
  stage_make(&stage, &shared_rows);
  for (uintptr_t i = 0; i < THREADS; i++) {
    pthread_create(&threads[i], NULL, read_shared, (void *)(i + 1));
  }
  for (int i = 0; i < THREADS; i++) {
    void *failed;
    pthread_join(threads[i], &failed);
    ck_assert_ptr_null(failed);
  }
  rows_release(&shared_rows);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("table");
  TCase *tests = tcase_create("table");
  tcase_set_timeout(tests, 120);
  tcase_add_checked_fixture(tests, use_stage, drop_stage);
  tcase_add_test(tests, random_rows_under_every_option);
  tcase_add_test(tests, info_says_what_the_file_is);
  tcase_add_test(tests, writer_tells_its_id_and_bytes);
  tcase_add_test(tests, keys_of_every_length);
  tcase_add_test(tests, one_row_of_an_empty_key);
  tcase_add_test(tests, values_up_to_16_mib);
  tcase_add_test(tests, compressible_values_take_little_room);
  tcase_add_test(tests, block_size_is_kept);
  tcase_add_test(tests, digest_is_a_sum_in_any_order);
  tcase_add_test(tests, path_is_16_hex_digits);
  tcase_add_test(tests, keys_not_ascending_are_misuse_in_a_block_and_between_blocks);
  tcase_add_test(tests, entries_out_of_range_are_misuse);
  tcase_add_test(tests, options_out_of_range_are_misuse);
  tcase_add_test(tests, file_of_nothing_is_misuse_and_goes);
  tcase_add_test(tests, finished_writer_refuses_more);
  tcase_add_test(tests, missing_file_is_missing_not_corrupt);
  tcase_add_test(tests, random_moves_agree_with_a_sorted_array);
  tcase_add_test(tests, seek_outside_the_bounds);
  tcase_add_test(tests, iterator_past_the_cache_leaves_it_empty);
  tcase_add_test(tests, probe_reads_no_block);
  tcase_add_test(tests, probe_in_a_cached_block_sees_an_absent_key);
  tcase_add_test(tests, multi_get_equals_get_equals_model);
  tcase_add_test(tests, multi_get_of_none_and_one);
  tcase_add_test(tests, multi_get_counts_what_it_does);
  tcase_add_test(tests, multi_get_reads_only_what_is_not_cached);
  tcase_add_test(tests, absent_keys_are_stopped_by_the_filter);
  tcase_add_test(tests, multi_get_reads_in_bounded_rounds);
  tcase_add_test(tests, multi_get_reads_in_pieces);
  tcase_add_test(tests, multi_get_of_70000_keys);
  tcase_add_test(tests, open_reads_only_the_tail);
  tcase_add_test(tests, get_reads_one_block_once);
  tcase_add_test(tests, closed_table_leaves_the_cache);
  tcase_add_test(tests, threads_read_one_table);
  suite_add_tcase(suite, tests);
  return harness_run(suite);
}
