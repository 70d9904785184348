/* Hashes: part of the format, so their values are pinned. */
#include "hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "code.h"
#include "harness.h"

static const uint8_t uuid[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};

/* XXH3-64 of nothing, from the published test values. */
START_TEST(key_hash_of_nothing_is_xxh3) {
  ck_assert_uint_eq(kv_hash_key(kv_slice_of("", 0)), 0x2d06800538d394c2);
  ck_assert_uint_eq(kv_hash_key(kv_slice_of(NULL, 0)), 0x2d06800538d394c2);
}
END_TEST

START_TEST(seed_zero_is_no_seed) {
  uint8_t bytes[1000];
  for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)(i * 7);
  for (size_t size = 0; size <= sizeof bytes; size += 37) {
    struct kv_slice slice = kv_slice_of(bytes, size);
    ck_assert_uint_eq(kv_hash_seeded(slice, 0), kv_hash_key(slice));
    ck_assert_uint_ne(kv_hash_seeded(slice, 1), kv_hash_key(slice));
  }
}
END_TEST

/* All code paths of XXH3: to 16, to 128, to 240 bytes, and beyond. */
START_TEST(every_flipped_bit_changes_the_hash) {
  static const size_t sizes[] = {1, 3, 8, 16, 17, 128, 129, 240, 241, 700};
  uint8_t bytes[700] = {0};
  size_t size = sizes[_i];
  uint64_t key = kv_hash_key(kv_slice_of(bytes, size));
  uint64_t seeded = kv_hash_seeded(kv_slice_of(bytes, size), 99);
  for (size_t bit = 0; bit < size * 8; bit++) {
    bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
    ck_assert_uint_ne(kv_hash_key(kv_slice_of(bytes, size)), key);
    ck_assert_uint_ne(kv_hash_seeded(kv_slice_of(bytes, size), 99), seeded);
    bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
  }
}
END_TEST

/* Whatever instructions the processor has, at every alignment. */
START_TEST(long_input_hashes_as_the_library_says) {
  static uint8_t bytes[20000];
  for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)(i * i >> 3);
  for (size_t size = 200; size < sizeof bytes - 64; size += 1 + size / 16) {
    struct kv_slice slice = kv_slice_of(bytes + size % 64, size);
    ck_assert_uint_eq(kv_hash_key(slice), XXH3_64bits(slice.data, size));
    ck_assert_uint_eq(kv_hash_seeded(slice, size), XXH3_64bits_withSeed(slice.data, size, size));
  }
}
END_TEST

START_TEST(pieces_hash_as_the_whole) {
  static uint8_t bytes[3000];
  for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)(i * 31 >> 2);
  for (size_t size = 0; size <= sizeof bytes; size += 1 + size / 4) {
    for (size_t first = 0; first <= size; first += 1 + size / 50) {
      struct kv_hash_state state;
      kv_hash_begin(&state, 5);
      kv_hash_add(&state, kv_slice_of(bytes, first));
      kv_hash_add(&state, kv_slice_of(bytes + first, size - first));
      ck_assert_uint_eq(kv_hash_end(&state), kv_hash_seeded(kv_slice_of(bytes, size), 5));
    }
  }
}
END_TEST

START_TEST(place_hash_is_of_its_32_bytes) {
  uint8_t place[32];
  for (int i = 0; i < 16; i++) place[i] = uuid[i];
  kv_put_u64(place + 16, 0x1122334455667788);
  kv_put_u64(place + 24, 4096);
  ck_assert_uint_eq(kv_hash_place(uuid, 0x1122334455667788, 4096),
                    kv_hash_key(kv_slice_of(place, 32)));
}
END_TEST

START_TEST(place_hash_depends_on_store_file_and_offset) {
  uint64_t hash = kv_hash_place(uuid, 5, 6);
  ck_assert_uint_eq(kv_hash_place(uuid, 5, 6), hash);
  ck_assert_uint_ne(kv_hash_place(uuid, 6, 5), hash);
  for (int bit = 0; bit < 64; bit++) {
    ck_assert_uint_ne(kv_hash_place(uuid, 5 ^ (uint64_t)1 << bit, 6), hash);
    ck_assert_uint_ne(kv_hash_place(uuid, 5, 6 ^ (uint64_t)1 << bit), hash);
  }
  for (int i = 0; i < 16; i++) {
    uint8_t other[16];
    for (int j = 0; j < 16; j++) other[j] = uuid[j];
    other[i] ^= 1;
    ck_assert_uint_ne(kv_hash_place(other, 5, 6), hash);
  }
}
END_TEST

/* 2^17 keys into 2^10 bins: no bin far from its 128. */
START_TEST(key_hash_spreads_small_numbers) {
  static int bins[1024];
  for (uint64_t i = 0; i < 1 << 17; i++) {
    uint8_t key[8];
    kv_put_u64_be(key, i);
    bins[kv_hash_key(kv_slice_of(key, 8)) >> 54]++;
  }
  for (int i = 0; i < 1024; i++) {
    ck_assert_int_gt(bins[i], 60);
    ck_assert_int_lt(bins[i], 220);
  }
}
END_TEST

int main(void) {
  Suite *suite = suite_create("hash");
  TCase *tests = tcase_create("hash");
  tcase_add_test(tests, key_hash_of_nothing_is_xxh3);
  tcase_add_test(tests, seed_zero_is_no_seed);
  tcase_add_loop_test(tests, every_flipped_bit_changes_the_hash, 0, 10);
  tcase_add_test(tests, long_input_hashes_as_the_library_says);
  tcase_add_test(tests, pieces_hash_as_the_whole);
  tcase_add_test(tests, place_hash_is_of_its_32_bytes);
  tcase_add_test(tests, place_hash_depends_on_store_file_and_offset);
  tcase_add_test(tests, key_hash_spreads_small_numbers);
  suite_add_tcase(suite, tests);
  return harness_run(suite);
}
