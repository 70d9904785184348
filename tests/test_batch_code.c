/* The encoded log batch: round trips, foreign places, damage of every kind, failing allocations. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "batch.h"
#include "code.h"
#include "harness.h"
#include "hash.h"
#include "key.h"
#include "mem.h"
#include "stream.h"

static const uint8_t uuid[16] = "a store's uuid";
#define SEQ 42u

static struct kv_slice text(const char *string) {
  return kv_slice_of(string, strlen(string));
}

static struct kv_batch *new_batch(void) {
  struct kv_batch *batch;
  ck_assert_int_eq(kv_batch_new(NULL, &batch, NULL), KV_OK);
  return batch;
}

static void encode(struct kv_batch *batch, struct kv_buf *out) {
  ck_assert_int_eq(kv_batch_encode(batch, uuid, SEQ, out, NULL), KV_OK);
}

/* Three entries: "a" deleted, "b" = "value", "c" = "". */
static void encode_sample(struct kv_buf *out) {
  struct kv_batch *batch = new_batch();
  ck_assert_int_eq(kv_batch_put(batch, text("c"), text(""), 1, NULL), KV_OK);
  ck_assert_int_eq(kv_batch_put(batch, text("b"), text("old"), 1, NULL), KV_OK);
  ck_assert_int_eq(kv_batch_delete(batch, text("a"), -1, NULL), KV_OK);
  ck_assert_int_eq(kv_batch_put(batch, text("b"), text("value"), 1, NULL), KV_OK);
  encode(batch, out);
  kv_batch_unref(batch);
}

/* The same entries with a seal. */
static void encode_sealed(struct kv_buf *out, uint64_t seal) {
  struct kv_batch *batch = new_batch();
  ck_assert_int_eq(kv_batch_put(batch, text("b"), text("value"), 1, NULL), KV_OK);
  ck_assert_int_eq(kv_batch_encode_sealed(batch, uuid, SEQ, seal, false, out, NULL), KV_OK);
  kv_batch_unref(batch);
}

static kv_status open_reader(struct kv_batch_reader *reader, struct kv_slice bytes,
                             struct kv_err *err) {
  return kv_batch_reader_init(reader, bytes, uuid, SEQ, err);
}

static void expect_next(struct kv_batch_reader *reader, const char *key, const char *value) {
  kv_status status;
  ck_assert(kv_batch_reader_next(reader, &status, NULL));
  ck_assert_int_eq(status, KV_OK);
  ck_assert(kv_slice_equal(reader->key, text(key)));
  ck_assert_int_eq(reader->deleted, value == NULL);
  ck_assert(kv_slice_equal(reader->value, text(value ? value : "")));
}

static void expect_end(struct kv_batch_reader *reader) {
  kv_status status;
  ck_assert(!kv_batch_reader_next(reader, &status, NULL));
  ck_assert_int_eq(status, KV_OK);
  ck_assert(!kv_batch_reader_next(reader, &status, NULL));
}

/* Seals hand-made content with the checksum of its place. */
static void seal(struct kv_buf *bytes) {
  kv_buf_append_u64(bytes, kv_hash_seeded(kv_buf_slice(bytes), kv_hash_place(uuid, SEQ, 0)));
}

START_TEST(entries_come_back_sorted_once_each) {
  struct kv_buf bytes;
  kv_buf_init(&bytes);
  encode_sample(&bytes);
  struct kv_batch_reader reader;
  ck_assert_int_eq(open_reader(&reader, kv_buf_slice(&bytes), NULL), KV_OK);
  expect_next(&reader, "a", NULL);
  expect_next(&reader, "b", "value");
  expect_next(&reader, "c", "");
  expect_end(&reader);
  kv_buf_release(&bytes);
  ck_assert_int_eq(kv_mem_live_blocks(), 0);
}
END_TEST

START_TEST(layout_is_the_documented_one) {
  struct kv_buf bytes;
  kv_buf_init(&bytes);
  encode_sample(&bytes);
  static const uint8_t expected[] = {0xb1, 0,   3,   1,   1,   'a', 1, 10, 'b',
                                     'v',  'a', 'l', 'u', 'e', 1,   0, 'c'};
  ck_assert_uint_eq(bytes.size, sizeof expected + 8);
  ck_assert_mem_eq(bytes.data, expected, sizeof expected);
  kv_buf_release(&bytes);
}
END_TEST

START_TEST(empty_batch_encodes) {
  struct kv_batch *batch = new_batch();
  struct kv_buf bytes;
  kv_buf_init(&bytes);
  encode(batch, &bytes);
  ck_assert_uint_eq(bytes.size, 11);
  struct kv_batch_reader reader;
  ck_assert_int_eq(open_reader(&reader, kv_buf_slice(&bytes), NULL), KV_OK);
  expect_end(&reader);
  kv_buf_release(&bytes);
  kv_batch_unref(batch);
}
END_TEST

START_TEST(empty_key_is_a_key) {
  struct kv_batch *batch = new_batch();
  ck_assert_int_eq(kv_batch_put(batch, text(""), text("none"), 1, NULL), KV_OK);
  ck_assert_int_eq(kv_batch_put(batch, text("a"), text("1"), 1, NULL), KV_OK);
  struct kv_buf bytes;
  kv_buf_init(&bytes);
  encode(batch, &bytes);
  struct kv_batch_reader reader;
  ck_assert_int_eq(open_reader(&reader, kv_buf_slice(&bytes), NULL), KV_OK);
  expect_next(&reader, "", "none");
  expect_next(&reader, "a", "1");
  expect_end(&reader);
  kv_buf_release(&bytes);
  kv_batch_unref(batch);
}
END_TEST

START_TEST(encoding_appends_to_what_is_there) {
  struct kv_buf bytes;
  kv_buf_init(&bytes);
  kv_buf_append(&bytes, "before", 6);
  encode_sample(&bytes);
  ck_assert_mem_eq(bytes.data, "before", 6);
  struct kv_batch_reader reader;
  struct kv_slice encoded = {bytes.data + 6, bytes.size - 6};
  ck_assert_int_eq(open_reader(&reader, encoded, NULL), KV_OK);
  kv_buf_release(&bytes);
}
END_TEST

START_TEST(large_keys_and_values_round_trip) {
  struct kv_batch *batch = new_batch();
  static uint8_t large[1 << 20];
  for (size_t i = 0; i < sizeof large; i++) large[i] = (uint8_t)(i * 31 >> 3);
  struct kv_slice key = {large, KV_KEY_BYTES_MAX}, value = {large, sizeof large};
  ck_assert_int_eq(kv_batch_put(batch, key, value, 1, NULL), KV_OK);
  struct kv_buf bytes;
  kv_buf_init(&bytes);
  encode(batch, &bytes);
  struct kv_batch_reader reader;
  kv_status status;
  ck_assert_int_eq(open_reader(&reader, kv_buf_slice(&bytes), NULL), KV_OK);
  ck_assert(kv_batch_reader_next(&reader, &status, NULL));
  ck_assert(kv_slice_equal(reader.key, key) && kv_slice_equal(reader.value, value));
  kv_buf_release(&bytes);
  kv_batch_unref(batch);
}
END_TEST

START_TEST(another_place_is_refused) {
  struct kv_buf bytes;
  kv_buf_init(&bytes);
  encode_sample(&bytes);
  struct kv_batch_reader reader;
  struct kv_err err;
  uint8_t other[16];
  memcpy(other, uuid, 16);
  other[15] ^= 1;
  struct kv_slice encoded = kv_buf_slice(&bytes);
  ck_assert_int_eq(kv_batch_reader_init(&reader, encoded, other, SEQ, NULL), KV_CORRUPT);
  ck_assert_int_eq(kv_batch_reader_init(&reader, encoded, uuid, SEQ + 1, &err), KV_CORRUPT);
  ck_assert_str_eq(err.text, "log batch 43: bad checksum");
  kv_status status;
  ck_assert_msg(!kv_batch_reader_next(&reader, &status, NULL), "nothing is handed out");
  kv_buf_release(&bytes);
}
END_TEST

START_TEST(cut_at_every_length_is_refused) {
  struct kv_buf bytes;
  kv_buf_init(&bytes);
  encode_sample(&bytes);
  for (size_t size = 0; size < bytes.size; size++) {
    uint8_t *copy = malloc(size ? size : 1); /* of exact size, for the address sanitizer */
    memcpy(copy, bytes.data, size);
    struct kv_batch_reader reader;
    ck_assert_int_eq(open_reader(&reader, kv_slice_of(copy, size), NULL), KV_CORRUPT);
    free(copy);
  }
  kv_buf_release(&bytes);
}
END_TEST

START_TEST(every_flipped_bit_is_refused) {
  struct kv_buf bytes;
  kv_buf_init(&bytes);
  encode_sample(&bytes);
  for (size_t bit = 0; bit < bytes.size * 8; bit++) {
    bytes.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
    struct kv_batch_reader reader;
    kv_status status = open_reader(&reader, kv_buf_slice(&bytes), NULL);
    ck_assert(status == KV_CORRUPT || (bit < 4 && status == KV_VERSION));
    bytes.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
  }
  kv_buf_release(&bytes);
}
END_TEST

/* Content with a right checksum that no writer makes. */
static const struct {
  const char *what;
  size_t size;
  uint8_t bytes[16];
  kv_status status;
} forged[] = {
    {"format version 0", 3, {0xb0, 0, 0}, KV_CORRUPT},
    {"format version 2, this reads 1", 3, {0xb2, 0, 0}, KV_VERSION},
    {"not a log batch", 3, {0xa1, 0, 0}, KV_CORRUPT},
    {"unknown flags 80", 3, {0xb1, 0x80, 0}, KV_VERSION},
    {"a wrong count", 3, {0xb1, 0, 1}, KV_CORRUPT},
    {"a wrong count", 8, {0xb1, 0, 0xff, 0xff, 0xff, 0xff, 0x0f, 0}, KV_CORRUPT},
    {"a wrong count", 3, {0xb1, 0, 0xff}, KV_CORRUPT},
    {"entries cut short", 5, {0xb1, 0, 1, 1, 0}, KV_CORRUPT},
    {"entries cut short", 6, {0xb1, 0, 1, 1, 4, 'a'}, KV_CORRUPT},
    {"entries cut short", 7, {0xb1, 0, 2, 1, 0, 'a', 1}, KV_CORRUPT},
    {"bytes after the last entry", 7, {0xb1, 0, 1, 1, 0, 'a', 0}, KV_CORRUPT},
    {"keys not ascending", 9, {0xb1, 0, 2, 1, 0, 'b', 1, 0, 'a'}, KV_CORRUPT},
    {"keys not ascending", 9, {0xb1, 0, 2, 1, 0, 'a', 1, 0, 'a'}, KV_CORRUPT},
    {"keys not ascending", 7, {0xb1, 0, 2, 0, 0, 0, 0}, KV_CORRUPT},
    {"a tombstone with a value", 7, {0xb1, 0, 1, 1, 3, 'a', 'v'}, KV_CORRUPT},
    {"a key too large", 7, {0xb1, 0, 1, 0x81, 0x80, 4, 0}, KV_CORRUPT},
    {"a value too large", 10, {0xb1, 0, 1, 0, 0x80, 0x80, 0x80, 0x80, 0x20, 0}, KV_CORRUPT},
};

START_TEST(forged_content_is_refused) {
  struct kv_buf bytes;
  kv_buf_init(&bytes);
  kv_buf_append(&bytes, forged[_i].bytes, forged[_i].size);
  seal(&bytes);
  struct kv_batch_reader reader;
  struct kv_err err;
  ck_assert_int_eq(open_reader(&reader, kv_buf_slice(&bytes), &err), forged[_i].status);
  ck_assert_msg(strstr(err.text, forged[_i].what) != NULL, "%s", err.text);
  ck_assert_ptr_nonnull(strstr(err.text, "log batch 42: "));
  kv_buf_release(&bytes);
}
END_TEST

/* Damage under a right checksum: an error, or entries that keep the promises. */
START_TEST(resealed_damage_never_breaks_the_reader) {
  uint64_t seed = harness_seed_env(3);
  struct harness_random random;
  harness_seed(&random, seed);
  int readable = 0;
  for (int round = 0; round < 50000; round++) {
    struct kv_buf bytes;
    kv_buf_init(&bytes);
    encode_sample(&bytes);
    bytes.size -= 8;
    for (uint64_t flips = 1 + harness_below(&random, 3); flips > 0; flips--) {
      bytes.data[2 + harness_below(&random, bytes.size - 2)] = (uint8_t)harness_next(&random);
    }
    if (!harness_below(&random, 4)) bytes.size -= harness_below(&random, bytes.size - 2);
    seal(&bytes);
    struct kv_batch_reader reader;
    kv_status status = open_reader(&reader, kv_buf_slice(&bytes), NULL);
    if (status == KV_OK)
      readable++;
    else
      ck_assert_int_eq(status, KV_CORRUPT);
    struct kv_slice before = {NULL, 0};
    for (bool first = true; kv_batch_reader_next(&reader, &status, NULL); first = false) {
      bool good = (first || kv_slice_compare(before, reader.key) < 0) &&
                  (!reader.deleted || !reader.value.size);
      if (!good) ck_abort_msg("seed %lu", seed);
      before = reader.key;
    }
    ck_assert_int_eq(status, KV_OK);
    kv_buf_release(&bytes);
  }
  ck_assert_int_gt(readable, 100);
}
END_TEST

/* Bytes that change after they were checked are the caller's fault; still no crash. */
START_TEST(input_changed_after_init_ends_with_corrupt) {
  struct kv_buf bytes;
  kv_buf_init(&bytes);
  encode_sample(&bytes);
  struct kv_batch_reader reader;
  kv_status status;
  ck_assert_int_eq(open_reader(&reader, kv_buf_slice(&bytes), NULL), KV_OK);
  expect_next(&reader, "a", NULL);
  bytes.data[6] = 120;
  ck_assert(!kv_batch_reader_next(&reader, &status, NULL));
  ck_assert_int_eq(status, KV_CORRUPT);
  kv_buf_release(&bytes);
}
END_TEST

START_TEST(encode_without_memory_appends_nothing) {
  int failures = 0;
  for (uint64_t nth = 1;; nth++) {
    struct kv_batch *batch = new_batch();
    for (int i = 0; i < 100; i++) {
      char key[16];
      snprintf(key, sizeof key, "%d", i);
      ck_assert_int_eq(kv_batch_put(batch, text(key), text("value"), 1, NULL), KV_OK);
    }
    struct kv_buf bytes;
    kv_buf_init(&bytes);
    kv_buf_append(&bytes, "before", 6);
    kv_mem_fail_nth(nth, 0);
    kv_status status = kv_batch_encode(batch, uuid, SEQ, &bytes, NULL);
    kv_mem_fail_nth(0, 0);
    if (status) ck_assert_uint_eq(bytes.size, 6);
    kv_buf_release(&bytes);
    kv_batch_unref(batch);
    ck_assert_int_eq(kv_mem_live_blocks(), 0);
    if (status == KV_OK) break;
    ck_assert_int_eq(status, KV_NOMEM);
    failures++;
  }
  ck_assert_int_eq(failures, 4);
}
END_TEST

START_TEST(sealed_batch_is_read_and_its_seal_is_covered) {
  struct kv_buf bytes;
  struct kv_batch_reader reader;
  uint64_t seal = 0;
  kv_buf_init(&bytes);
  encode_sealed(&bytes, 0x1122334455667788);
  ck_assert(kv_batch_seal(kv_buf_slice(&bytes), &seal));
  ck_assert_uint_eq(seal, 0x1122334455667788);
  ck_assert_int_eq(open_reader(&reader, kv_buf_slice(&bytes), NULL), KV_OK);
  expect_next(&reader, "b", "value");
  expect_end(&reader);
  for (size_t i = 0; i < bytes.size; i++) {
    bytes.data[i] ^= 1;
    ck_assert_int_ne(open_reader(&reader, kv_buf_slice(&bytes), NULL), KV_OK);
    bytes.data[i] ^= 1;
  }
  for (size_t size = 0; size < bytes.size; size++) {
    ck_assert_int_ne(open_reader(&reader, kv_slice_of(bytes.data, size), NULL), KV_OK);
    kv_batch_seal(kv_slice_of(bytes.data, size), &seal);
  }
  kv_buf_clear(&bytes);
  encode_sample(&bytes);
  ck_assert(!kv_batch_seal(kv_buf_slice(&bytes), &seal));
  kv_buf_release(&bytes);
}
END_TEST

/* ---- Values apart */

/* Rows with values of words, or of random bytes. */
static struct kv_batch *large_batch(bool words) {
  struct kv_batch *batch = new_batch();
  struct harness_random random;
  harness_seed(&random, 5);
  for (int i = 0; i < 200; i++) {
    char key[16], value[80];
    snprintf(key, sizeof key, "key %d", i);
    for (size_t j = 0; j < sizeof value; j++)
      value[j] =
          words ? "some few letters"[harness_below(&random, 16)] : (char)harness_next(&random);
    ck_assert_int_eq(i % 9
                         ? kv_batch_put(batch, text(key), kv_slice_of(value, sizeof value), 1, NULL)
                         : kv_batch_delete(batch, text(key), -1, NULL),
                     KV_OK);
  }
  return batch;
}

static void encode_large(bool words, bool packs, struct kv_buf *out) {
  struct kv_batch *batch = large_batch(words);
  kv_buf_init(out);
  ck_assert_int_eq(kv_batch_encode_sealed(batch, uuid, SEQ, 7, packs, out, NULL), KV_OK);
  kv_batch_unref(batch);
}

static void expect_same(struct kv_slice plain, struct kv_slice packed) {
  struct kv_batch_reader a, b;
  kv_status status;
  ck_assert_int_eq(open_reader(&a, plain, NULL), KV_OK);
  ck_assert_int_eq(open_reader(&b, packed, NULL), KV_OK);
  ck_assert_uint_eq(a.bytes, plain.size);
  ck_assert_uint_eq(b.bytes, plain.size);
  while (kv_batch_reader_next(&a, &status, NULL)) {
    ck_assert(kv_batch_reader_next(&b, &status, NULL));
    ck_assert(kv_slice_equal(a.key, b.key) && kv_slice_equal(a.value, b.value));
    ck_assert_int_eq(a.deleted, b.deleted);
  }
  expect_end(&b);
  kv_batch_reader_release(&a);
  kv_batch_reader_release(&b);
}

START_TEST(values_are_packed_where_that_saves) {
  for (int words = 0; words < 2; words++) {
    struct kv_buf plain, packed;
    uint64_t seal;
    encode_large(words, false, &plain);
    encode_large(words, true, &packed);
    if (words)
      ck_assert_uint_lt(packed.size, plain.size * 3 / 4);
    else
      ck_assert_uint_eq(packed.size, plain.size);
    ck_assert_uint_eq(packed.data[1], 3);
    ck_assert(kv_batch_seal(kv_buf_slice(&packed), &seal) && seal == 7);
    expect_same(kv_buf_slice(&plain), kv_buf_slice(&packed));
    kv_buf_release(&plain);
    kv_buf_release(&packed);
    ck_assert_int_eq(kv_mem_live_blocks(), 0);
  }
}
END_TEST

START_TEST(small_batches_are_never_packed) {
  struct kv_batch *batch = new_batch();
  static const char value[3000];
  struct kv_buf bytes;
  kv_buf_init(&bytes);
  ck_assert_int_eq(kv_batch_put(batch, text("k"), kv_slice_of(value, sizeof value), 1, NULL),
                   KV_OK);
  ck_assert_int_eq(kv_batch_encode_sealed(batch, uuid, SEQ, 7, true, &bytes, NULL), KV_OK);
  ck_assert_uint_eq(bytes.data[1], 1);
  kv_buf_release(&bytes);
  kv_batch_unref(batch);
}
END_TEST

/* Zeros, which would shrink more than readers believe: they stay as they are. */
START_TEST(what_shrinks_too_far_is_left_as_it_is) {
  struct kv_batch *batch = new_batch();
  static const char value[4 << 20];
  struct kv_batch_reader reader;
  struct kv_buf bytes;
  kv_buf_init(&bytes);
  ck_assert_int_eq(kv_batch_put(batch, text("k"), kv_slice_of(value, sizeof value), 1, NULL),
                   KV_OK);
  ck_assert_int_eq(kv_batch_encode_sealed(batch, uuid, SEQ, 7, true, &bytes, NULL), KV_OK);
  ck_assert_uint_gt(bytes.size, sizeof value);
  ck_assert_int_eq(open_reader(&reader, kv_buf_slice(&bytes), NULL), KV_OK);
  kv_batch_reader_release(&reader);
  kv_buf_release(&bytes);
  kv_batch_unref(batch);
}
END_TEST

/* With a right checksum: refused, or read to the end. */
static void read_resealed(struct kv_buf *bytes) {
  struct kv_batch_reader reader;
  kv_status status;
  bytes->size -= KV_CHECKSUM_BYTES;
  seal(bytes);
  if (open_reader(&reader, kv_buf_slice(bytes), NULL)) return;
  while (kv_batch_reader_next(&reader, &status, NULL)) continue;
  kv_batch_reader_release(&reader);
}

START_TEST(packed_batch_survives_any_damage) {
  struct kv_buf bytes;
  struct kv_batch_reader reader;
  encode_large(true, true, &bytes);
  for (size_t i = 0; i < bytes.size; i++) {
    bytes.data[i] ^= 0x11;
    ck_assert_int_ne(open_reader(&reader, kv_buf_slice(&bytes), NULL), KV_OK);
    if (i < bytes.size - KV_CHECKSUM_BYTES) read_resealed(&bytes);
    bytes.data[i] ^= 0x11;
    bytes.size -= KV_CHECKSUM_BYTES;
    seal(&bytes);
  }
  while (bytes.size > KV_CHECKSUM_BYTES + 2) {
    bytes.size--;
    read_resealed(&bytes);
  }
  kv_buf_release(&bytes);
  ck_assert_int_eq(kv_mem_live_blocks(), 0);
}
END_TEST

/* One entry whose value is said to have so many bytes, and what stands for it. */
static kv_status open_forged(uint64_t size, const char *stored, size_t stored_size) {
  struct kv_batch_reader reader;
  struct kv_buf bytes;
  struct kv_err err = {0};
  kv_buf_init(&bytes);
  kv_buf_append(&bytes, "\xb1\2\1\1", 4);
  kv_buf_append_varint(&bytes, size << 1);
  kv_buf_append(&bytes, "k", 1);
  kv_buf_append(&bytes, stored, stored_size);
  seal(&bytes);
  kv_status status = open_reader(&reader, kv_buf_slice(&bytes), &err);
  if (status == KV_OK) kv_batch_reader_release(&reader);
  kv_buf_release(&bytes);
  return status;
}

START_TEST(values_of_a_wrong_size_are_refused) {
  ck_assert_int_eq(open_forged(5, "value", 5), KV_OK);
  ck_assert_int_eq(open_forged(4, "value", 5), KV_CORRUPT);
  ck_assert_int_eq(open_forged(6, "value", 5), KV_CORRUPT);
  ck_assert_int_eq(open_forged(0, "", 0), KV_OK);
  ck_assert_int_eq(open_forged(1, "", 0), KV_CORRUPT);
  ck_assert_int_eq(open_forged((uint64_t)1 << 30, "value", 5), KV_CORRUPT);
}
END_TEST

START_TEST(packing_and_reading_without_memory) {
  int failures = 0;
  for (uint64_t nth = 1;; nth++) {
    struct kv_batch_reader reader;
    struct kv_buf bytes;
    struct kv_batch *batch = large_batch(true);
    kv_buf_init(&bytes);
    kv_mem_fail_nth(nth, 0);
    kv_status status = kv_batch_encode_sealed(batch, uuid, SEQ, 7, true, &bytes, NULL);
    if (!status) status = open_reader(&reader, kv_buf_slice(&bytes), NULL);
    kv_mem_fail_nth(0, 0);
    if (!status) kv_batch_reader_release(&reader);
    kv_buf_release(&bytes);
    kv_batch_unref(batch);
    ck_assert_int_eq(kv_mem_live_blocks(), 0);
    if (status == KV_OK) break;
    ck_assert_int_eq(status, KV_NOMEM);
    failures++;
  }
  ck_assert_int_gt(failures, 8);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("batch_code");
  TCase *tests = tcase_create("batch_code");
  tcase_set_timeout(tests, 60);
  tcase_add_test(tests, entries_come_back_sorted_once_each);
  tcase_add_test(tests, sealed_batch_is_read_and_its_seal_is_covered);
  tcase_add_test(tests, layout_is_the_documented_one);
  tcase_add_test(tests, empty_batch_encodes);
  tcase_add_test(tests, empty_key_is_a_key);
  tcase_add_test(tests, encoding_appends_to_what_is_there);
  tcase_add_test(tests, large_keys_and_values_round_trip);
  tcase_add_test(tests, another_place_is_refused);
  tcase_add_test(tests, cut_at_every_length_is_refused);
  tcase_add_test(tests, every_flipped_bit_is_refused);
  tcase_add_loop_test(tests, forged_content_is_refused, 0, sizeof forged / sizeof *forged);
  tcase_add_test(tests, resealed_damage_never_breaks_the_reader);
  tcase_add_test(tests, input_changed_after_init_ends_with_corrupt);
  tcase_add_test(tests, encode_without_memory_appends_nothing);
  tcase_add_test(tests, values_are_packed_where_that_saves);
  tcase_add_test(tests, small_batches_are_never_packed);
  tcase_add_test(tests, what_shrinks_too_far_is_left_as_it_is);
  tcase_add_test(tests, packed_batch_survives_any_damage);
  tcase_add_test(tests, values_of_a_wrong_size_are_refused);
  tcase_add_test(tests, packing_and_reading_without_memory);
  suite_add_tcase(suite, tests);
  return harness_run(suite);
}
