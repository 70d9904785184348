/* Compression with a dictionary: picking one, texts that come back, and table files that have one where it
** pays. */
#include <stdio.h>

#include "code.h"
#include "compress.h"
#include "harness_table.h"
#include "mem.h"
#include "table_read_inside.h"

#define WORDS 600
#define DICTIONARY_BYTES ((size_t)16 << 10)

static struct stage stage;
static struct kv_err err;

static void open_stage(void) {
  stage_init(&stage, 8 << 20);
}

static void close_stage(void) {
  stage_release(&stage);
}

/* ---- Texts */

static size_t put_word(uint64_t number, uint8_t *into, size_t room) {
  struct harness_random random;
  harness_seed(&random, 77 + number % WORDS);
  size_t size = 4 + harness_below(&random, 6);
  if (size > room) size = room;
  for (size_t i = 0; i < size; i++) into[i] = (uint8_t)('a' + harness_below(&random, 26));
  return size;
}

static void put_words(struct harness_random *random, uint8_t *into, size_t size) {
  for (size_t at = 0; at < size;) at += put_word(harness_next(random), into + at, size - at);
}

static void add_rows(struct rows *rows, size_t count, bool words) {
  struct harness_random random;
  harness_seed(&random, 5);
  for (size_t i = 0; i < count; i++) {
    uint8_t key[8], value[80];
    kv_put_u64_be(key, i * 1000);
    if (words) {
      put_words(&random, value, sizeof value);
    } else {
      for (size_t j = 0; j < sizeof value; j++) value[j] = (uint8_t)harness_next(&random);
    }
    rows_add(rows, kv_slice_of(key, sizeof key), kv_slice_of(value, sizeof value), false);
  }
}

/* ---- Picking */

START_TEST(a_dictionary_is_picked_of_what_repeats) {
  static uint8_t sample[100000];
  static const char phrase[] = "/a phrase that is there again and again, with noise between/";
  struct harness_random random;
  harness_seed(&random, 1);
  for (size_t i = 0; i < sizeof sample; i++) sample[i] = (uint8_t)harness_next(&random);
  for (size_t i = 0; i + 500 < sizeof sample; i += 500) memcpy(sample + i, phrase, sizeof phrase);
  struct kv_buf picked;
  kv_buf_init(&picked);
  kv_buf_append(&picked, "before", 6);
  ck_assert_int_eq(kv_dictionary_pick(kv_slice_of(sample, sizeof sample), 2000, &picked, &err),
                   KV_OK);
  ck_assert_uint_gt(picked.size, 6 + 32);
  ck_assert_uint_le(picked.size, 6 + 2000);
  ck_assert_mem_eq(picked.data, "before", 6);
  /* The first pick stands at the end. */
  bool found = false;
  const uint8_t *last = picked.data + picked.size - 32;
  for (size_t i = 0; i + 20 < sizeof phrase; i++) found |= !memcmp(last + 4, phrase + i, 20);
  ck_assert(found);
  kv_buf_release(&picked);
}
END_TEST

START_TEST(little_gives_no_dictionary) {
  static const uint8_t sample[5000];
  for (size_t size = 0; size < 200; size++) {
    for (size_t room = 0; room < 100; room += 7) {
      struct kv_buf picked;
      kv_buf_init(&picked);
      ck_assert_int_eq(kv_dictionary_pick(kv_slice_of(sample, size), room, &picked, &err), KV_OK);
      ck_assert_uint_le(picked.size, room);
      kv_buf_release(&picked);
    }
  }
}
END_TEST

/* ---- Texts with a dictionary */

struct text {
  struct kv_buf dictionary;
  struct kv_compressor *compressor;
  uint8_t raw[3000];
  uint8_t packed[3000];
  size_t size;
};

static kv_status pack(struct text *text) {
  static uint8_t sample[60000];
  struct harness_random random;
  harness_seed(&random, 3);
  put_words(&random, sample, sizeof sample);
  put_words(&random, text->raw, sizeof text->raw);
  kv_buf_init(&text->dictionary);
  text->compressor = kv_compressor_new();
  kv_status status = text->compressor ? KV_OK : kv_fail_nomem(&err);
  if (!status)
    status = kv_dictionary_pick(kv_slice_of(sample, sizeof sample), 4096, &text->dictionary, &err);
  if (!status)
    status = kv_compressor_use(text->compressor, kv_buf_slice(&text->dictionary), 3, &err);
  if (status) return status;
  return kv_compress(text->compressor, kv_slice_of(text->raw, sizeof text->raw), 3, text->packed,
                     sizeof text->packed, &text->size, &err);
}

static void release(struct text *text) {
  kv_compressor_free(text->compressor);
  kv_buf_release(&text->dictionary);
}

/* With the first bytes of the dictionary, or none. */
static kv_status unpack(const struct text *text, size_t dictionary, bool *right) {
  uint8_t back[sizeof text->raw];
  bool sound = false;
  struct kv_unpacking *unpacking = NULL;
  if (dictionary) {
    unpacking = kv_unpacking_new(kv_slice_of(text->dictionary.data, dictionary));
    if (!unpacking) return kv_fail_nomem(&err);
  }
  kv_status status = kv_decompress(kv_slice_of(text->packed, text->size), unpacking, back,
                                   sizeof back, &sound, &err);
  *right = sound && !memcmp(back, text->raw, sizeof back);
  kv_unpacking_free(unpacking);
  return status;
}

START_TEST(a_text_comes_back_with_its_dictionary_only) {
  struct text text;
  bool right;
  size_t plain;
  ck_assert_int_eq(pack(&text), KV_OK);
  ck_assert(kv_compressor_has_dictionary(text.compressor));
  ck_assert_int_eq(unpack(&text, text.dictionary.size, &right), KV_OK);
  ck_assert(right);
  ck_assert_int_eq(unpack(&text, 0, &right), KV_OK);
  ck_assert(!right);
  ck_assert_int_eq(unpack(&text, 100, &right), KV_OK);
  ck_assert(!right);
  size_t with = text.size;
  ck_assert_int_eq(kv_compressor_use(text.compressor, kv_slice_of(NULL, 0), 3, &err), KV_OK);
  ck_assert(!kv_compressor_has_dictionary(text.compressor));
  ck_assert_int_eq(kv_compress(text.compressor, kv_slice_of(text.raw, sizeof text.raw), 3,
                               text.packed, sizeof text.packed, &plain, &err),
                   KV_OK);
  ck_assert_uint_lt(with * 10, plain * 9);
  ck_assert_int_eq(kv_compress(text.compressor, kv_slice_of(text.raw, sizeof text.raw), 3,
                               text.packed, 100, &plain, &err),
                   KV_OK);
  ck_assert_uint_eq(plain, 0);
  release(&text);
}
END_TEST

START_TEST(every_failing_allocation_is_nomem) {
  int64_t blocks = kv_mem_live_blocks();
  for (uint64_t n = 1;; n++) {
    struct text text;
    bool right = false;
    kv_mem_fail_nth(n, 0);
    kv_status status = pack(&text);
    if (!status) status = unpack(&text, text.dictionary.size, &right);
    bool done = kv_mem_fail_nth(0, 0) < n;
    ck_assert_int_eq(status, done ? KV_OK : KV_NOMEM);
    ck_assert(right == done);
    release(&text);
    ck_assert_int_eq(kv_mem_live_blocks(), blocks);
    if (done) break;
  }
}
END_TEST

/* ---- Table files */

static const struct kv_table_parts *parts(void) {
  return &stage.table->parts;
}

static uint64_t bytes_without(const struct rows *rows) {
  stage.config.dictionary_bytes = 0;
  stage_make(&stage, rows);
  ck_assert_uint_eq(parts()->properties.dictionary.size, 0);
  ck_assert_uint_eq(parts()->footer.lowest_reader, 4);
  stage.config.dictionary_bytes = DICTIONARY_BYTES;
  return stage.info.bytes;
}

/* One that is decided upon in its middle, and one at its end. */
START_TEST(a_file_has_a_dictionary_where_it_pays) {
  struct rows rows = {0};
  add_rows(&rows, _i ? 3000 : 12000, true);
  uint64_t without = bytes_without(&rows);
  stage_make(&stage, &rows);
  ck_assert_uint_gt(parts()->properties.dictionary.size, 0);
  ck_assert_uint_le(parts()->properties.dictionary.size, DICTIONARY_BYTES);
  ck_assert_uint_eq(parts()->footer.lowest_reader, 5);
  ck_assert_uint_eq(parts()->footer.lowest_writer, 5);
  ck_assert_uint_lt(stage.info.bytes * 100, without * 95);
  expect_all(&stage, &rows);
  rows_release(&rows);
}
END_TEST

START_TEST(a_file_has_none_where_it_does_not_pay) {
  struct rows rows = {0};
  add_rows(&rows, 8000, false);
  uint64_t without = bytes_without(&rows);
  stage_make(&stage, &rows);
  ck_assert_uint_eq(parts()->properties.dictionary.size, 0);
  ck_assert_uint_eq(parts()->footer.lowest_reader, 4);
  ck_assert_uint_eq(stage.info.bytes, without);
  expect_all(&stage, &rows);
  rows_release(&rows);
  rows = (struct rows){0};
  add_rows(&rows, 8000, true);
  stage.config.compression_level = 0;
  stage_make(&stage, &rows);
  ck_assert_uint_eq(parts()->properties.dictionary.size, 0);
  expect_all(&stage, &rows);
  rows_release(&rows);
}
END_TEST

START_TEST(damage_anywhere_is_seen) {
  struct rows rows = {0};
  struct kv_buf bytes;
  add_rows(&rows, 1500, true);
  stage.config.dictionary_bytes = DICTIONARY_BYTES;
  stage_make(&stage, &rows);
  ck_assert_uint_gt(parts()->properties.dictionary.size, 0);
  stage_read_file(&stage, stage.info.id, &bytes);
  for (size_t at = 0; at < bytes.size; at += 997) {
    bytes.data[at] ^= 0x10;
    stage_replace_file(&stage, stage.info.id, kv_buf_slice(&bytes));
    ck_assert_msg(right_or_error(&stage, &rows), "byte %zu of %zu went unseen", at, bytes.size);
    bytes.data[at] ^= 0x10;
  }
  kv_buf_release(&bytes);
  rows_release(&rows);
}
END_TEST

/* As another writer could have made them, under right checksums. */
START_TEST(what_contradicts_itself_is_corrupt) {
  static uint8_t large[KV_TABLE_DICTIONARY_BYTES_MAX + 1];
  struct text text;
  struct kv_table_place place = {{1}, 7};
  struct kv_stored stored;
  struct kv_buf out;
  uint64_t checksum;
  ck_assert_int_eq(pack(&text), KV_OK);
  kv_buf_init(&out);
  ck_assert_int_eq(kv_stored_append(&out, kv_slice_of(text.raw, sizeof text.raw), 3,
                                    text.compressor, &place, 0, &checksum, &err),
                   KV_OK);
  ck_assert_int_eq(kv_stored_check(&stored, kv_buf_slice(&out), &place, 0, &err), KV_OK);
  ck_assert(stored.wants_dictionary);
  ck_assert_int_eq(kv_stored_decode(&stored, text.packed, &place, 0, &err), KV_CORRUPT);
  ck_assert_ptr_nonnull(strstr(err.text, "dictionary"));
  release(&text);
  kv_buf_clear(&out);
  struct kv_table_properties properties = {.entries = 1,
                                           .smallest = kv_slice_of("a", 1),
                                           .largest = kv_slice_of("b", 1),
                                           .comparator = kv_slice_of("bytewise", 8),
                                           .dictionary = kv_slice_of(large, sizeof large)};
  struct kv_table_properties parsed;
  ck_assert_int_eq(kv_properties_append(&out, &properties, &err), KV_OK);
  ck_assert_int_eq(kv_properties_parse(&parsed, NULL, kv_buf_slice(&out), &err), KV_CORRUPT);
  properties.dictionary.size--;
  kv_buf_clear(&out);
  ck_assert_int_eq(kv_properties_append(&out, &properties, &err), KV_OK);
  ck_assert_int_eq(kv_properties_parse(&parsed, NULL, kv_buf_slice(&out), &err), KV_OK);
  ck_assert_uint_eq(parsed.dictionary.size, KV_TABLE_DICTIONARY_BYTES_MAX);
  kv_buf_release(&out);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("compress");
  TCase *alone = tcase_create("dictionaries"), *files = tcase_create("files");
  tcase_add_test(alone, a_dictionary_is_picked_of_what_repeats);
  tcase_add_test(alone, little_gives_no_dictionary);
  tcase_add_test(alone, a_text_comes_back_with_its_dictionary_only);
  tcase_add_test(alone, every_failing_allocation_is_nomem);
  tcase_add_test(alone, what_contradicts_itself_is_corrupt);
  suite_add_tcase(suite, alone);
  tcase_add_checked_fixture(files, open_stage, close_stage);
  tcase_set_timeout(files, 60);
  tcase_add_loop_test(files, a_file_has_a_dictionary_where_it_pays, 0, 2);
  tcase_add_test(files, a_file_has_none_where_it_does_not_pay);
  tcase_add_test(files, damage_anywhere_is_seen);
  suite_add_tcase(suite, files);
  return harness_run(suite);
}
