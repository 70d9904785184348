/* Table files in trouble: every byte changed, every cut, blocks and files in the wrong place, hostile
** files with right checksums, every failing allocation and every failing read, write and sync. Answers
** are right data or an error, and a failed writer leaves no file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "code.h"
#include "harness_comparator.h"
#include "harness_table.h"
#include "hash.h"
#include "mem.h"
#include "table_format.h"

static struct stage stage;

static void use_stage(void) {
  stage_init(&stage, 1 << 20);
}

static void drop_stage(void) {
  stage_release(&stage);
}

/* A few dozen rows over several blocks. */
static void small_file(struct rows *rows, int level) {
  struct harness_random random;
  harness_seed(&random, 4);
  rows_random(rows, &random, 60, 10, 40);
  stage.config.compression_level = level;
  stage.config.block_bytes = 400;
  stage_ok(&stage, stage_write(&stage, rows));
}

static void expect_text(const char *part) {
  ck_assert_msg(strstr(stage.err.text, part) != NULL, "\"%s\" lacks \"%s\"", stage.err.text, part);
}

/* ---- Damage */

START_TEST(every_changed_byte_is_an_error) {
  static const uint8_t masks[] = {0x01, 0x80, 0xff};
  for (int level = 0; level <= 3; level += 3) {
    struct rows rows = {0};
    struct kv_buf bytes;
    small_file(&rows, level);
    stage_read_file(&stage, stage.info.id, &bytes);
    for (size_t at = 0; at < bytes.size; at++) {
      uint8_t mask = masks[at % sizeof masks];
      bytes.data[at] ^= mask;
      stage_replace_file(&stage, stage.info.id, kv_buf_slice(&bytes));
      ck_assert_msg(right_or_error(&stage, &rows), "byte %zu of %zu went unseen", at, bytes.size);
      bytes.data[at] ^= mask;
    }
    stage_replace_file(&stage, stage.info.id, kv_buf_slice(&bytes));
    ck_assert(!right_or_error(&stage, &rows));
    kv_buf_release(&bytes);
    rows_release(&rows);
  }
}
END_TEST

/* The manifest's size is cut along, so that the check of sizes does not answer first. */
START_TEST(every_cut_is_an_error) {
  struct rows rows = {0};
  struct kv_buf bytes;
  small_file(&rows, 0);
  stage_read_file(&stage, stage.info.id, &bytes);
  for (size_t size = 0; size < bytes.size; size++) {
    stage_replace_file(&stage, stage.info.id, kv_slice_of(bytes.data, size));
    ck_assert_int_eq(stage_open(&stage), KV_CORRUPT);
    stage.info.bytes = size;
    ck_assert_int_eq(stage_open(&stage), KV_CORRUPT);
    stage_replace_file(&stage, stage.info.id, kv_slice_of(bytes.data + bytes.size - size, size));
    ck_assert_int_eq(stage_open(&stage), KV_CORRUPT);
    stage.info.bytes = bytes.size;
  }
  kv_buf_release(&bytes);
  rows_release(&rows);
}
END_TEST

START_TEST(zeroed_and_longer_files_are_errors) {
  struct rows rows = {0};
  struct kv_buf bytes;
  small_file(&rows, 0);
  stage_read_file(&stage, stage.info.id, &bytes);
  for (size_t at = 0; at < bytes.size; at += 64) {
    struct kv_buf copy;
    kv_buf_init(&copy);
    kv_buf_append(&copy, bytes.data, bytes.size);
    memset(copy.data + at, 0, bytes.size - at < 64 ? bytes.size - at : 64);
    stage_replace_file(&stage, stage.info.id, kv_buf_slice(&copy));
    ck_assert(right_or_error(&stage, &rows));
    kv_buf_release(&copy);
  }
  kv_buf_append(&bytes, "tail", 4);
  stage_replace_file(&stage, stage.info.id, kv_buf_slice(&bytes));
  ck_assert_int_eq(stage_open(&stage), KV_CORRUPT);
  kv_buf_release(&bytes);
  rows_release(&rows);
}
END_TEST

/* Equal rows make blocks of equal size; each is good, but not there. */
START_TEST(swapped_blocks_are_errors) {
  struct rows rows = {0};
  struct kv_buf bytes;
  rows_numbered(&rows, 0, 1, 100, 100);
  stage.config.compression_level = 0;
  stage.config.block_bytes = 1024;
  stage_make(&stage, &rows);
  expect_get(&stage, &rows, rows.items[0].key);
  size_t size = (size_t)stage_stat(&stage, KV_STAT_BLOCK_BYTES_READ);
  stage_close(&stage);
  stage_read_file(&stage, stage.info.id, &bytes);
  uint8_t *first = malloc(size);
  memcpy(first, bytes.data, size);
  memcpy(bytes.data, bytes.data + size, size);
  memcpy(bytes.data + size, first, size);
  free(first);
  stage_replace_file(&stage, stage.info.id, kv_buf_slice(&bytes));
  stage_ok(&stage, stage_open(&stage));
  struct kv_lookup lookup = lookup_of(rows.items[0].key);
  ck_assert_int_eq(kv_table_get(stage.table, &lookup, KV_LOOKUP_VALUE, &stage.err), KV_CORRUPT);
  expect_text("block at 0: bad checksum");
  ck_assert(right_or_error(&stage, &rows));
  kv_buf_release(&bytes);
  rows_release(&rows);
}
END_TEST

START_TEST(file_of_another_store_is_an_error) {
  struct rows rows = {0};
  small_file(&rows, 3);
  stage.config.uuid[3] ^= 1;
  ck_assert_int_eq(stage_open(&stage), KV_CORRUPT);
  expect_text("another store");
  rows_release(&rows);
}
END_TEST

START_TEST(file_under_another_id_is_an_error) {
  struct rows rows = {0};
  struct kv_buf bytes;
  small_file(&rows, 3);
  stage_read_file(&stage, stage.info.id, &bytes);
  stage.info.id ^= 4;
  stage_replace_file(&stage, stage.info.id, kv_buf_slice(&bytes));
  ck_assert_int_eq(stage_open(&stage), KV_CORRUPT);
  expect_text("the file is table");
  kv_buf_release(&bytes);
  rows_release(&rows);
}
END_TEST

START_TEST(manifest_that_disagrees_is_an_error_naming_the_file) {
  struct rows rows = {0};
  small_file(&rows, 3);
  struct kv_file_info good = stage.info;
  uint64_t *fields[] = {&stage.info.bytes, &stage.info.entries, &stage.info.tombstones,
                        &stage.info.checksum};
  static const char *const texts[] = {"bytes, the manifest says", "entry counts", "entry counts",
                                      "checksum"};
  for (int i = 0; i < 4; i++) {
    ++*fields[i];
    ck_assert_int_eq(stage_open(&stage), KV_CORRUPT);
    expect_text(texts[i]);
    expect_text("table ");
    stage.info = good;
  }
  struct kv_buf *bounds[] = {&stage.info.smallest, &stage.info.largest};
  for (int i = 0; i < 2; i++) {
    kv_buf_append_byte(bounds[i], 1);
    ck_assert_int_eq(stage_open(&stage), KV_CORRUPT);
    expect_text("bounds");
    bounds[i]->size--;
  }
  stage_ok(&stage, stage_open(&stage));
  rows_release(&rows);
}
END_TEST

START_TEST(damaged_block_fails_the_iterator_for_good) {
  struct rows rows = {0};
  struct kv_buf bytes;
  small_file(&rows, 0);
  stage_read_file(&stage, stage.info.id, &bytes);
  bytes.data[3] ^= 1;
  stage_replace_file(&stage, stage.info.id, kv_buf_slice(&bytes));
  stage_ok(&stage, stage_open(&stage));
  struct kv_iter *iter;
  stage_ok(&stage, kv_table_iter(stage.table, true, &iter, &stage.err));
  kv_iter_seek_last(iter);
  size_t seen = 0;
  for (; iter->valid; seen++) kv_iter_prev(iter);
  ck_assert_uint_gt(seen, 0);
  ck_assert_uint_lt(seen, rows.count);
  ck_assert_int_eq(iter->status, KV_CORRUPT);
  ck_assert_ptr_nonnull(strstr(iter->err.text, "block at 0"));
  kv_iter_seek_last(iter);
  ck_assert(!iter->valid);
  ck_assert_int_eq(iter->status, KV_CORRUPT);
  kv_iter_free(iter);
  kv_buf_release(&bytes);
  rows_release(&rows);
}
END_TEST

START_TEST(damaged_block_fails_a_multi_get_without_pins) {
  struct rows rows = {0};
  struct kv_buf bytes;
  rows_numbered(&rows, 0, 1, 300, 100);
  stage.config.compression_level = 0;
  stage_ok(&stage, stage_write(&stage, &rows));
  stage_read_file(&stage, stage.info.id, &bytes);
  bytes.data[20000] ^= 1;
  stage_replace_file(&stage, stage.info.id, kv_buf_slice(&bytes));
  stage_ok(&stage, stage_open(&stage));
  kv_cache_set_budget(stage.cache, 0);
  struct kv_lookup lookups[300];
  for (size_t i = 0; i < 300; i++) lookups[i] = lookup_of(rows.items[i].key);
  ck_assert_int_eq(stage_multi_get(&stage, lookups, 300, &stage.err), KV_CORRUPT);
  for (size_t i = 0; i < 300; i++) ck_assert_ptr_null(lookups[i].pin);
  ck_assert_uint_eq(kv_cache_bytes(stage.cache), 0);
  kv_buf_release(&bytes);
  rows_release(&rows);
}
END_TEST

/* ---- Versions and hostile files: tails rebuilt with right checksums */

static struct kv_table_place place_of_stage(void) {
  struct kv_table_place place = {.id = stage.info.id};
  memcpy(place.uuid, stage.config.uuid, sizeof place.uuid);
  return place;
}

/* The file's bytes and its footer, parsed. */
static void take_apart(struct kv_buf *bytes, struct kv_table_footer *footer) {
  struct kv_table_place place = place_of_stage();
  stage_read_file(&stage, stage.info.id, bytes);
  size_t tail = bytes->size < KV_TABLE_FOOTER_BYTES_MAX ? bytes->size : KV_TABLE_FOOTER_BYTES_MAX;
  stage_ok(&stage, kv_footer_parse(footer, kv_slice_of(bytes->data + bytes->size - tail, tail),
                                   bytes->size, &place, &stage.err));
}

/* Writes the file with another footer, and a manifest that believes it. */
static void put_footer(struct kv_buf *bytes, struct kv_table_footer *footer) {
  bytes->size = (size_t)(footer->properties.offset + footer->properties.size);
  stage_ok(&stage, kv_footer_append(bytes, footer, &stage.err));
  stage.info.bytes = bytes->size;
  stage.info.checksum = footer->checksum;
  stage_replace_file(&stage, stage.info.id, kv_buf_slice(bytes));
}

START_TEST(newer_lowest_reader_is_a_version_error) {
  struct rows rows = {0};
  struct kv_buf bytes;
  struct kv_table_footer footer;
  small_file(&rows, 3);
  take_apart(&bytes, &footer);
  footer.lowest_reader = KV_TABLE_VERSION + 1;
  put_footer(&bytes, &footer);
  ck_assert_int_eq(stage_open(&stage), KV_VERSION);
  expect_text("reader of format 6");
  kv_buf_release(&bytes);
  rows_release(&rows);
}
END_TEST

START_TEST(newer_lowest_writer_may_be_read_but_not_merged) {
  struct rows rows = {0};
  struct kv_buf bytes;
  struct kv_table_footer footer;
  small_file(&rows, 3);
  take_apart(&bytes, &footer);
  footer.lowest_writer = KV_TABLE_VERSION + 1;
  put_footer(&bytes, &footer);
  stage_ok(&stage, stage_open(&stage));
  expect_all(&stage, &rows);
  ck_assert_int_eq(kv_table_check_writer(stage.table, &stage.err), KV_VERSION);
  kv_buf_release(&bytes);
  rows_release(&rows);
}
END_TEST

/* Replaces the properties by others, checksummed as they should be. */
static void put_properties(const struct kv_table_properties *properties) {
  struct kv_buf bytes, plain;
  struct kv_table_footer footer;
  take_apart(&bytes, &footer);
  struct kv_table_place place = place_of_stage();
  kv_buf_init(&plain);
  stage_ok(&stage, kv_properties_append(&plain, properties, &stage.err));
  bytes.size = (size_t)footer.properties.offset;
  stage_ok(&stage, kv_stored_append(&bytes, kv_buf_slice(&plain), 0, NULL, &place, bytes.size,
                                    &footer.properties.checksum, &stage.err));
  footer.properties.size = bytes.size - footer.properties.offset;
  put_footer(&bytes, &footer);
  kv_buf_release(&plain);
  kv_buf_release(&bytes);
}

static struct kv_table_properties true_properties(const struct rows *rows) {
  const char *order = kv_order_name(harness_comparator());
  struct kv_table_properties properties = {.entries = rows->count,
                                           .digest = stage.digest.sum,
                                           .smallest = rows->items[0].key,
                                           .largest = rows->items[rows->count - 1].key,
                                           .comparator = kv_slice_of(order, strlen(order))};
  for (size_t i = 0; i < rows->count; i++) {
    properties.tombstones += rows->items[i].deleted;
    properties.key_bytes += rows->items[i].key.size;
    properties.value_bytes += rows->items[i].value.size;
  }
  return properties;
}

START_TEST(verify_sees_wrong_properties) {
  struct rows rows = {0};
  small_file(&rows, 0);
  struct kv_table_properties good = true_properties(&rows), bad;
  put_properties(&good);
  stage_ok(&stage, stage_open(&stage));
  stage_ok(&stage, kv_table_verify(stage.table, NULL, &stage.err));
  uint64_t *fields[] = {&bad.digest, &bad.key_bytes, &bad.value_bytes};
  static const char *const texts[] = {"digest", "raw bytes", "raw bytes"};
  for (int i = 0; i < 3; i++) {
    bad = good;
    ++*fields[i];
    put_properties(&bad);
    stage_ok(&stage, stage_open(&stage));
    ck_assert_int_eq(kv_table_verify(stage.table, NULL, &stage.err), KV_CORRUPT);
    expect_text(texts[i]);
  }
  bad = good;
  bad.entries = ++stage.info.entries;
  put_properties(&bad);
  stage_ok(&stage, stage_open(&stage));
  ck_assert_int_eq(kv_table_verify(stage.table, NULL, &stage.err), KV_CORRUPT);
  expect_text("entry counts");
  rows_release(&rows);
}
END_TEST

START_TEST(reserved_features_are_version_errors) {
  struct rows rows = {0};
  small_file(&rows, 0);
  struct kv_table_properties properties = true_properties(&rows);
  properties.comparator = kv_slice_of("another", 7);
  put_properties(&properties);
  ck_assert_int_eq(stage_open(&stage), KV_VERSION);
  properties = true_properties(&rows);
  properties.holds_values = 2;
  put_properties(&properties);
  ck_assert_int_eq(stage_open(&stage), KV_CORRUPT);
  rows_release(&rows);
}
END_TEST

/* Replaces data block 0 by other plain bytes of the same size. */
static void put_first_block(size_t at, uint8_t mask) {
  struct kv_buf bytes;
  struct kv_table_footer footer;
  struct kv_table_place place = place_of_stage();
  take_apart(&bytes, &footer);
  struct kv_stored stored;
  size_t size = 13;
  while (kv_stored_check(&stored, kv_slice_of(bytes.data, size), &place, 0, NULL)) size++;
  struct kv_buf plain, again;
  uint64_t checksum;
  kv_buf_init(&plain);
  kv_buf_init(&again);
  kv_buf_append(&plain, stored.payload.data, stored.payload.size);
  plain.data[at % plain.size] ^= mask;
  stage_ok(&stage, kv_stored_append(&again, kv_buf_slice(&plain), 0, NULL, &place, 0, &checksum,
                                    &stage.err));
  memcpy(bytes.data, again.data, again.size);
  stage_replace_file(&stage, stage.info.id, kv_buf_slice(&bytes));
  kv_buf_release(&plain);
  kv_buf_release(&again);
  kv_buf_release(&bytes);
}

/* A get of a key that may or may not be there, from a block that may say anything. */
static bool get_is_right(const struct rows *rows, struct kv_slice key) {
  struct kv_lookup lookup = lookup_of(key);
  kv_status status = kv_table_get(stage.table, &lookup, KV_LOOKUP_VALUE, &stage.err);
  ck_assert(status == KV_OK || status == KV_CORRUPT);
  const struct row *row = rows_find(rows, key);
  bool right = !status && lookup.answer == (!row           ? KV_TABLE_NONE
                                            : row->deleted ? KV_TABLE_DELETED
                                                           : KV_TABLE_PUT);
  kv_cache_unpin(lookup.pin);
  return right;
}

/* With a checksum that is right the reader can be told anything: it must not crash, and what verify lets
** pass must be harmless. */
START_TEST(hostile_blocks_do_not_pass_verify_and_answer_wrongly) {
  struct rows rows = {0};
  stage.config.filter_bits = 0;
  small_file(&rows, 0);
  size_t passed = 0;
  for (size_t at = 0; at < 400; at++) {
    put_first_block(at, (uint8_t)(1u << at % 8));
    stage_ok(&stage, stage_open(&stage));
    bool good = kv_table_verify(stage.table, NULL, &stage.err) == KV_OK;
    passed += good;
    for (size_t i = 0; i < rows.count; i++) {
      bool right = get_is_right(&rows, rows.items[i].key);
      ck_assert_msg(right || !good, "byte %zu", at);
      uint8_t absent[32];
      memcpy(absent, rows.items[i].key.data, rows.items[i].key.size);
      absent[rows.items[i].key.size] = 'A';
      right = get_is_right(&rows, kv_slice_of(absent, rows.items[i].key.size + 1));
      ck_assert_msg(right || !good, "byte %zu", at);
    }
    put_first_block(at, (uint8_t)(1u << at % 8));
  }
  ck_assert_uint_le(passed, 30); /* unused buckets of the hash index */
  ck_assert(!right_or_error(&stage, &rows));
  rows_release(&rows);
}
END_TEST

START_TEST(filter_that_denies_a_key_is_seen_by_verify) {
  struct rows rows = {0};
  struct kv_buf bytes, plain;
  struct kv_table_footer footer;
  small_file(&rows, 0);
  struct kv_table_place place = place_of_stage();
  take_apart(&bytes, &footer);
  kv_buf_init(&plain);
  size_t size = (size_t)footer.filter.size - KV_TABLE_TRAILER_BYTES;
  kv_buf_append(&plain, bytes.data + footer.filter.offset, size);
  memset(plain.data + 64, 0, size - 64);
  struct kv_buf stored;
  kv_buf_init(&stored);
  stage_ok(&stage, kv_stored_append(&stored, kv_buf_slice(&plain), 0, NULL, &place,
                                    footer.filter.offset, &footer.filter.checksum, &stage.err));
  memcpy(bytes.data + footer.filter.offset, stored.data, stored.size);
  put_footer(&bytes, &footer);
  stage_ok(&stage, stage_open(&stage));
  ck_assert_int_eq(kv_table_verify(stage.table, NULL, &stage.err), KV_CORRUPT);
  expect_text("filter denies");
  kv_buf_release(&stored);
  kv_buf_release(&plain);
  kv_buf_release(&bytes);
  rows_release(&rows);
}
END_TEST

/* ---- Failing allocations */

/* Everything that a table can be asked, in one go. */
static kv_status ask_everything(const struct rows *rows) {
  kv_status status = stage_open(&stage);
  struct kv_lookup lookup = lookup_of(rows->items[0].key);
  if (!status) status = kv_table_get(stage.table, &lookup, KV_LOOKUP_VALUE, &stage.err);
  kv_cache_unpin(lookup.pin);
  struct kv_lookup lookups[10];
  for (size_t i = 0; i < 10; i++) lookups[i] = lookup_of(rows->items[i * 5].key);
  if (!status) status = stage_multi_get(&stage, lookups, 10, &stage.err);
  for (size_t i = 0; i < 10; i++) {
    if (!status) expect_answer(&lookups[i], &rows->items[i * 5]);
    kv_cache_unpin(lookups[i].pin);
  }
  struct kv_iter *iter = NULL;
  if (!status) status = kv_table_iter(stage.table, false, &iter, &stage.err);
  size_t seen = 0;
  if (iter) {
    for (kv_iter_seek_first(iter); iter->valid; seen++) kv_iter_next(iter);
    status = iter->status;
    if (!status) ck_assert_uint_eq(seen, rows->count);
    kv_iter_free(iter);
  }
  if (!status) status = kv_table_verify(stage.table, NULL, &stage.err);
  stage_close(&stage);
  return status;
}

START_TEST(every_failing_allocation_of_reading_is_nomem) {
  for (int level = 0; level <= 3; level += 3) {
    struct rows rows = {0};
    small_file(&rows, level);
    int64_t before = kv_mem_live_blocks();
    kv_status status = KV_NOMEM;
    for (uint64_t nth = 1; status == KV_NOMEM; nth++) {
      kv_mem_fail_nth(nth, 0);
      status = ask_everything(&rows);
      kv_mem_fail_nth(0, 0);
      ck_assert_int_eq(kv_mem_live_blocks(), before);
      ck_assert_uint_lt(nth, 10000);
    }
    ck_assert_int_eq(status, KV_OK);
    rows_release(&rows);
  }
}
END_TEST

START_TEST(every_failing_allocation_of_writing_is_nomem_and_leaves_no_file) {
  struct rows rows = {0};
  struct harness_random random;
  harness_seed(&random, 4);
  rows_random(&rows, &random, 60, 10, 40);
  stage.config.block_bytes = 400;
  stage.config.dir = "deep/app.db-colfam";
  stage_ok(&stage, kv_env_make_dir(stage.memory, "deep", NULL, &stage.err));
  kv_status status = KV_NOMEM;
  for (uint64_t nth = 1; status == KV_NOMEM; nth++) {
    kv_mem_fail_nth(nth, 0);
    status = stage_write(&stage, &rows);
    kv_mem_fail_nth(0, 0);
    if (status) ck_assert_uint_eq(stage_files(&stage), 0);
    ck_assert_uint_lt(nth, 10000);
  }
  ck_assert_int_eq(status, KV_OK);
  ck_assert_uint_eq(stage_files(&stage), 1);
  stage_ok(&stage, stage_open(&stage));
  expect_all(&stage, &rows);
  rows_release(&rows);
}
END_TEST

/* ---- Failing I/O */

START_TEST(every_failing_operation_of_writing_leaves_no_file) {
  static const kv_status statuses[] = {KV_IO, KV_FULL};
  struct rows rows = {0};
  rows_numbered(&rows, 0, 1, 3000, 200); /* several appends */
  stage.config.compression_level = 0;
  for (int i = 0; i < 2; i++) {
    kv_status status = statuses[i];
    uint64_t nth = 1;
    for (; status == statuses[i]; nth++) {
      (void)kv_env_remove_dir(stage.memory, stage.config.dir, NULL);
      kv_env_fault_set(stage.fault, KV_FAULT_ANY, nth, false, statuses[i]);
      status = stage_write(&stage, &rows);
      kv_env_fault_set(stage.fault, KV_FAULT_ANY, 0, false, KV_OK);
      if (status) ck_assert_uint_eq(stage_files(&stage), 0);
      ck_assert_uint_lt(nth, 100);
    }
    ck_assert_int_eq(status, KV_OK);
    ck_assert_uint_gt(nth, 8); /* create, make_dir, create, appends, sync, twice sync_dir */
    ck_assert_uint_eq(stage_files(&stage), 1);
    stage_ok(&stage, stage_open(&stage));
    expect_all(&stage, &rows);
    stage_close(&stage);
    struct kv_buf path;
    kv_buf_init(&path);
    kv_table_path(&path, stage.config.dir, stage.info.id);
    stage_ok(&stage, kv_env_remove(stage.memory, (char *)path.data, &stage.err));
    kv_buf_release(&path);
  }
  rows_release(&rows);
}
END_TEST

START_TEST(every_failing_read_is_an_error_not_an_answer) {
  static const enum kv_fault_class classes[] = {KV_FAULT_OPEN, KV_FAULT_READ};
  struct rows rows = {0};
  small_file(&rows, 3);
  for (int i = 0; i < 2; i++) {
    kv_status status = KV_IO;
    for (uint64_t nth = 1; status == KV_IO; nth++) {
      kv_cache_drop_owner(stage.cache, 0);
      kv_env_fault_set(stage.fault, classes[i], nth, false, KV_IO);
      status = ask_everything(&rows);
      kv_env_fault_set(stage.fault, classes[i], 0, false, KV_OK);
      ck_assert_uint_lt(nth, 1000);
    }
    ck_assert_int_eq(status, KV_OK);
  }
  rows_release(&rows);
}
END_TEST

START_TEST(table_works_again_after_a_failed_read) {
  struct rows rows = {0};
  small_file(&rows, 3);
  stage_ok(&stage, stage_open(&stage));
  struct kv_lookup lookup = lookup_of(rows.items[0].key);
  kv_env_fault_set(stage.fault, KV_FAULT_READ, 1, false, KV_IO);
  ck_assert_int_eq(kv_table_get(stage.table, &lookup, KV_LOOKUP_VALUE, &stage.err), KV_IO);
  ck_assert_ptr_null(lookup.pin);
  expect_all(&stage, &rows);
  rows_release(&rows);
}
END_TEST

START_TEST(missing_directory_is_made_once_and_its_entry_synced_each_time) {
  struct rows rows = {0};
  rows_numbered(&rows, 0, 1, 10, 10);
  stage_ok(&stage, stage_write(&stage, &rows));
  ck_assert_uint_eq(kv_env_fault_calls(stage.fault, KV_FAULT_MAKE_DIR), 1);
  ck_assert_uint_eq(kv_env_fault_calls(stage.fault, KV_FAULT_SYNC_DIR), 2);
  ck_assert_uint_eq(kv_env_fault_calls(stage.fault, KV_FAULT_SYNC), 1);
  stage_ok(&stage, stage_write(&stage, &rows));
  ck_assert_uint_eq(kv_env_fault_calls(stage.fault, KV_FAULT_MAKE_DIR), 1);
  ck_assert_uint_eq(kv_env_fault_calls(stage.fault, KV_FAULT_SYNC_DIR), 4);
  stage.config.dir = "missing/app.db-colfam";
  ck_assert_int_ne(stage_write(&stage, &rows), KV_OK);
  rows_release(&rows);
}
END_TEST

/* Its maker may have died in between. */
START_TEST(directory_that_somebody_made_and_did_not_sync_is_synced) {
  struct rows rows = {0};
  rows_numbered(&rows, 0, 1, 10, 10);
  stage_ok(&stage, kv_env_make_dir(stage.memory, stage.config.dir, NULL, &stage.err));
  stage_ok(&stage, stage_write(&stage, &rows));
  ck_assert_uint_eq(kv_env_fault_calls(stage.fault, KV_FAULT_MAKE_DIR), 0);
  ck_assert_uint_eq(kv_env_fault_calls(stage.fault, KV_FAULT_SYNC_DIR), 2);
  rows_release(&rows);
}
END_TEST

START_TEST(directory_removed_by_somebody_meanwhile_is_made_again) {
  static const enum kv_fault_class classes[] = {KV_FAULT_CREATE, KV_FAULT_MAKE_DIR};
  struct rows rows = {0};
  rows_numbered(&rows, 0, 1, 10, 10);
  for (int i = 0; i < 2; i++) {
    stage.config.dir = (const char *const[]){"a-colfam", "b-colfam"}[i];
    kv_env_fault_set(stage.fault, classes[i], i ? 1 : 2, false, KV_MISSING);
    stage_ok(&stage, stage_write(&stage, &rows));
  }
  kv_env_fault_set(stage.fault, KV_FAULT_CREATE, 1, true, KV_MISSING);
  ck_assert_int_eq(stage_write(&stage, &rows), KV_MISSING);
  rows_release(&rows);
}
END_TEST

START_TEST(taken_id_is_drawn_again_and_given_up_in_the_end) {
  struct rows rows = {0};
  rows_numbered(&rows, 0, 1, 10, 10);
  kv_env_fault_set(stage.fault, KV_FAULT_CREATE, 2, false, KV_BUSY);
  stage_ok(&stage, stage_write(&stage, &rows));
  ck_assert_uint_eq(kv_env_fault_calls(stage.fault, KV_FAULT_CREATE), 3);
  kv_env_fault_set(stage.fault, KV_FAULT_CREATE, 1, true, KV_BUSY);
  ck_assert_int_eq(stage_write(&stage, &rows), KV_BUSY);
  rows_release(&rows);
}
END_TEST

/* ---- On a real file system */

static char posix_dir[4096];

static void use_posix(struct rows *rows) {
  snprintf(posix_dir, sizeof posix_dir, "%s/app.db-colfam", harness_dir());
  stage.config.env = kv_env_posix();
  stage.config.dir = posix_dir;
  stage_make(&stage, rows);
}

static void use_posix_rows(struct rows *rows) {
  rows_numbered(rows, 0, 1, 1000, 100);
  use_posix(rows);
  expect_all(&stage, rows);
}

START_TEST(posix_file_in_a_new_directory) {
  struct rows rows = {0};
  use_posix_rows(&rows);
  stage.info.id ^= 1;
  ck_assert_int_eq(stage_open(&stage), KV_MISSING);
  rows_release(&rows);
}
END_TEST

/* Changes one byte of the file in place. */
static void change_posix_file(long offset, int whence) {
  struct kv_buf path;
  kv_buf_init(&path);
  kv_table_path(&path, posix_dir, stage.info.id);
  FILE *file = fopen((char *)path.data, "r+b");
  ck_assert_ptr_nonnull(file);
  fseek(file, offset, whence);
  int byte = fgetc(file);
  fseek(file, offset, whence);
  fputc(byte ^ 1, file);
  fclose(file);
  kv_buf_release(&path);
}

START_TEST(file_changed_under_an_open_table_is_seen_by_verify) {
  static const long offsets[] = {100, -10, -100, -300};
  struct rows rows = {0};
  use_posix_rows(&rows);
  for (int i = 0; i < 4; i++) {
    int whence = offsets[i] < 0 ? SEEK_END : SEEK_SET;
    change_posix_file(offsets[i], whence);
    expect_get(&stage, &rows, rows.items[0].key); /* cached, verified when loaded */
    ck_assert_int_eq(kv_table_verify(stage.table, NULL, &stage.err), KV_CORRUPT);
    change_posix_file(offsets[i], whence);
    stage_ok(&stage, kv_table_verify(stage.table, NULL, &stage.err));
  }
  rows_release(&rows);
}
END_TEST

/* A filter of 400 KiB and a value of 1 MiB, both of several pieces. */
static void write_large_parts(struct rows *rows) {
  static uint8_t value[1 << 20];
  rows_numbered(rows, 0, 1, 170000, 3);
  rows_add(rows, kv_slice_of("\xff", 1), kv_slice_of(value, sizeof value), false);
  rows_sort(rows);
  stage.config.filter_bits = 20;
  stage.config.compression_level = 0;
}

START_TEST(large_parts_changed_under_an_open_table_are_seen_by_verify) {
  struct rows rows = {0};
  write_large_parts(&rows);
  use_posix(&rows);
  uint64_t before = stage_stat(&stage, KV_STAT_PART_CHECKSUMS);
  stage_ok(&stage, kv_table_verify(stage.table, NULL, &stage.err));
  ck_assert_uint_eq(stage_stat(&stage, KV_STAT_PART_CHECKSUMS) - before, 3);
  for (long at = -1; at > -(600l << 10); at -= 8191) {
    change_posix_file(at, SEEK_END);
    ck_assert_int_eq(kv_table_verify(stage.table, NULL, &stage.err), KV_CORRUPT);
    change_posix_file(at, SEEK_END);
  }
  stage_ok(&stage, kv_table_verify(stage.table, NULL, &stage.err));
  rows_release(&rows);
}
END_TEST

START_TEST(failing_append_of_a_large_part_leaves_no_file) {
  struct rows rows = {0};
  write_large_parts(&rows);
  kv_status status = KV_FULL;
  uint64_t nth = 1;
  for (; status == KV_FULL; nth++) {
    kv_env_fault_set(stage.fault, KV_FAULT_APPEND, nth, false, KV_FULL);
    status = stage_write(&stage, &rows);
    kv_env_fault_set(stage.fault, KV_FAULT_APPEND, 0, false, KV_OK);
    ck_assert_uint_eq(stage_files(&stage), status == KV_OK);
  }
  ck_assert_int_eq(status, KV_OK);
  ck_assert_uint_gt(nth, 16 + 6); /* pieces of the value and of the filter */
  stage_ok(&stage, stage_open(&stage));
  expect_get(&stage, &rows, rows.items[rows.count - 1].key);
  rows_release(&rows);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("table_faults");
  TCase *tests = tcase_create("table_faults");
  tcase_set_timeout(tests, 120);
  tcase_add_checked_fixture(tests, use_stage, drop_stage);
  tcase_add_test(tests, every_changed_byte_is_an_error);
  tcase_add_test(tests, every_cut_is_an_error);
  tcase_add_test(tests, zeroed_and_longer_files_are_errors);
  tcase_add_test(tests, swapped_blocks_are_errors);
  tcase_add_test(tests, file_of_another_store_is_an_error);
  tcase_add_test(tests, file_under_another_id_is_an_error);
  tcase_add_test(tests, manifest_that_disagrees_is_an_error_naming_the_file);
  tcase_add_test(tests, damaged_block_fails_the_iterator_for_good);
  tcase_add_test(tests, damaged_block_fails_a_multi_get_without_pins);
  tcase_add_test(tests, newer_lowest_reader_is_a_version_error);
  tcase_add_test(tests, newer_lowest_writer_may_be_read_but_not_merged);
  tcase_add_test(tests, verify_sees_wrong_properties);
  tcase_add_test(tests, reserved_features_are_version_errors);
  tcase_add_test(tests, hostile_blocks_do_not_pass_verify_and_answer_wrongly);
  tcase_add_test(tests, filter_that_denies_a_key_is_seen_by_verify);
  tcase_add_test(tests, every_failing_allocation_of_reading_is_nomem);
  tcase_add_test(tests, every_failing_allocation_of_writing_is_nomem_and_leaves_no_file);
  tcase_add_test(tests, every_failing_operation_of_writing_leaves_no_file);
  tcase_add_test(tests, every_failing_read_is_an_error_not_an_answer);
  tcase_add_test(tests, table_works_again_after_a_failed_read);
  tcase_add_test(tests, missing_directory_is_made_once_and_its_entry_synced_each_time);
  tcase_add_test(tests, directory_that_somebody_made_and_did_not_sync_is_synced);
  tcase_add_test(tests, directory_removed_by_somebody_meanwhile_is_made_again);
  tcase_add_test(tests, taken_id_is_drawn_again_and_given_up_in_the_end);
  tcase_add_test(tests, posix_file_in_a_new_directory);
  tcase_add_test(tests, large_parts_changed_under_an_open_table_are_seen_by_verify);
  tcase_add_test(tests, failing_append_of_a_large_part_leaves_no_file);
  tcase_add_test(tests, file_changed_under_an_open_table_is_seen_by_verify);
  suite_add_tcase(suite, tests);
  return harness_run(suite);
}
