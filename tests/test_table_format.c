/* The decoders of table files below the checksums: stored blocks, fences, properties, footer, on good,
** cut, changed and contradictory input. */
#include "table_format.h"

#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "code.h"
#include "harness.h"
#include "hash.h"
#include "mem.h"

static struct kv_err err;
static const struct kv_table_place place = {.uuid = "0123456789abcde", .id = 0x1234};

#define ok(call) ck_assert_msg((call) == KV_OK, "%s", err.text)

/* ---- Stored blocks */

static void store(struct kv_buf *out, struct kv_slice raw, int level, uint64_t offset) {
  uint64_t checksum;
  struct kv_compressor *zstd = kv_compressor_new();
  kv_buf_init(out);
  ok(kv_stored_append(out, raw, level, zstd, &place, offset, &checksum, &err));
  ck_assert_uint_eq(checksum, kv_get_u64(out->data + out->size - 8));
  kv_compressor_free(zstd);
}

/* Makes the trailer's checksum right again. */
static void seal(struct kv_buf *stored, uint64_t offset) {
  uint64_t seed = kv_hash_place(place.uuid, place.id, offset);
  kv_put_u64(stored->data + stored->size - 8,
             kv_hash_seeded(kv_slice_of(stored->data, stored->size - 8), seed));
}

static kv_status check(const struct kv_buf *bytes, uint64_t offset, struct kv_stored *stored) {
  return kv_stored_check(stored, kv_buf_slice(bytes), &place, offset, &err);
}

START_TEST(stored_blocks_of_every_size_come_back) {
  static uint8_t raw[70000], back[70000];
  struct harness_random random;
  harness_seed(&random, 1);
  for (size_t size = 0; size <= sizeof raw; size += 1 + size / 3) {
    for (int kind = 0; kind < 4; kind++) {
      for (size_t i = 0; i < size; i++) {
        raw[i] = kind & 1 ? (uint8_t)harness_next(&random) : (uint8_t)(i / 100);
      }
      struct kv_buf bytes;
      struct kv_stored stored;
      store(&bytes, kv_slice_of(raw, size), kind & 2 ? 3 : 0, 77);
      ok(check(&bytes, 77, &stored));
      ck_assert_uint_eq(stored.raw_size, size);
      ok(kv_stored_decode(&stored, back, &place, 77, &err));
      ck_assert_int_eq(memcmp(raw, back, size), 0);
      kv_buf_release(&bytes);
    }
  }
}
END_TEST

START_TEST(compressed_only_when_it_saves_an_eighth) {
  uint8_t raw[8000];
  struct harness_random random;
  harness_seed(&random, 2);
  for (size_t noise = 0; noise <= sizeof raw; noise += 500) {
    memset(raw, 0, sizeof raw);
    for (size_t i = 0; i < noise; i++) raw[i] = (uint8_t)harness_next(&random);
    struct kv_buf bytes;
    struct kv_stored stored;
    store(&bytes, kv_slice_of(raw, sizeof raw), 3, 0);
    ok(check(&bytes, 0, &stored));
    if (stored.compressed) ck_assert_uint_le(stored.payload.size, sizeof raw - sizeof raw / 8);
    ck_assert_int_eq(stored.compressed, noise < 7000);
    kv_buf_release(&bytes);
  }
}
END_TEST

START_TEST(stored_block_in_another_place_is_corrupt) {
  struct kv_buf bytes;
  struct kv_stored stored;
  store(&bytes, kv_slice_of("hello", 5), 0, 100);
  ok(check(&bytes, 100, &stored));
  ck_assert_int_eq(check(&bytes, 101, &stored), KV_CORRUPT);
  struct kv_table_place other = place;
  other.id++;
  ck_assert_int_eq(kv_stored_check(&stored, kv_buf_slice(&bytes), &other, 100, &err), KV_CORRUPT);
  other = place;
  other.uuid[15] = 1;
  ck_assert_int_eq(kv_stored_check(&stored, kv_buf_slice(&bytes), &other, 100, &err), KV_CORRUPT);
  kv_buf_release(&bytes);
}
END_TEST

START_TEST(every_cut_and_change_of_a_stored_block_is_corrupt) {
  uint8_t raw[500] = {0};
  for (int level = 0; level <= 3; level += 3) {
    struct kv_buf bytes;
    struct kv_stored stored;
    store(&bytes, kv_slice_of(raw, sizeof raw), level, 5);
    for (size_t size = 0; size < bytes.size; size++) {
      struct kv_slice cut = kv_slice_of(bytes.data, size);
      ck_assert_int_eq(kv_stored_check(&stored, cut, &place, 5, &err), KV_CORRUPT);
    }
    for (size_t bit = 0; bit < bytes.size * 8; bit++) {
      bytes.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
      ck_assert_int_eq(check(&bytes, 5, &stored), KV_CORRUPT);
      bytes.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    kv_buf_release(&bytes);
  }
}
END_TEST

/* Trailers that lie under a right checksum. */
START_TEST(stored_sizes_that_lie_are_corrupt) {
  static const uint32_t sizes[] = {0, 1, 499, 501, 1 << 20, 0x40100001, UINT32_MAX};
  uint8_t raw[500] = {0};
  for (int level = 0; level <= 3; level += 3) {
    struct kv_buf bytes;
    struct kv_stored stored;
    store(&bytes, kv_slice_of(raw, sizeof raw), level, 5);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
      kv_put_u32(bytes.data + bytes.size - 12, sizes[i]);
      seal(&bytes, 5);
      ck_assert_int_eq(check(&bytes, 5, &stored), KV_CORRUPT);
    }
    kv_put_u32(bytes.data + bytes.size - 12, sizeof raw);
    for (int compression = 3; compression < 256; compression++) {
      bytes.data[bytes.size - 13] = (uint8_t)compression;
      seal(&bytes, 5);
      ck_assert_int_eq(check(&bytes, 5, &stored), KV_CORRUPT);
    }
    kv_buf_release(&bytes);
  }
}
END_TEST

/* Changed frames under a right checksum: never more than the stated size (the sanitizer sees the end of
** `back`), and an error or 500 bytes. */
START_TEST(hostile_frames_stay_in_their_room) {
  uint8_t raw[500];
  for (size_t i = 0; i < sizeof raw; i++) raw[i] = (uint8_t)(i * i / 90);
  struct kv_buf bytes;
  store(&bytes, kv_slice_of(raw, sizeof raw), 3, 5);
  uint8_t *back = malloc(sizeof raw);
  for (size_t at = 0; at < bytes.size - 13; at++) {
    for (int bit = 0; bit < 8; bit++) {
      struct kv_stored stored;
      bytes.data[at] ^= (uint8_t)(1 << bit);
      seal(&bytes, 5);
      kv_status status = check(&bytes, 5, &stored);
      if (!status) {
        ck_assert_uint_eq(stored.raw_size, sizeof raw);
        status = kv_stored_decode(&stored, back, &place, 5, &err);
      }
      ck_assert(status == KV_OK || status == KV_CORRUPT);
      bytes.data[at] ^= (uint8_t)(1 << bit);
    }
  }
  free(back);
  kv_buf_release(&bytes);
}
END_TEST

/* One that has seen damage too. */
START_TEST(decompressors_are_kept_while_referred_to) {
  uint8_t raw[500] = {0}, back[500];
  struct kv_buf bytes;
  struct kv_stored good, bad;
  store(&bytes, kv_slice_of(raw, sizeof raw), 3, 5);
  ok(check(&bytes, 5, &good));
  bad = good;
  bad.payload.size /= 2;
  int64_t blocks = kv_mem_live_blocks();
  kv_decompressors_ref();
  kv_decompressors_ref();
  ok(kv_stored_decode(&good, back, &place, 5, &err));
  kv_mem_fail_nth(0, 0);
  ck_assert_int_eq(kv_stored_decode(&bad, back, &place, 5, &err), KV_CORRUPT);
  back[7] = 1;
  ok(kv_stored_decode(&good, back, &place, 5, &err));
  ck_assert_mem_eq(raw, back, sizeof raw);
  ck_assert_uint_eq(kv_mem_fail_nth(0, 0), 0);
  kv_decompressors_unref();
  ck_assert_int_eq(kv_mem_live_blocks(), blocks + 1);
  kv_decompressors_unref();
  ck_assert_int_eq(kv_mem_live_blocks(), blocks);
  ok(kv_stored_decode(&good, back, &place, 5, &err));
  ck_assert_int_eq(kv_mem_live_blocks(), blocks);
  kv_buf_release(&bytes);
}
END_TEST

/* Zeros shrink to next to nothing: the writer pads what the reader would not believe. */
START_TEST(block_of_zeros_is_padded_to_what_it_may_hold) {
  static const size_t sizes[] = {100, 64 << 10, (64 << 10) + 1, 1 << 20, (20 << 20) + 7};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    uint8_t *raw = calloc(1, sizes[i]), *back = malloc(sizes[i]);
    struct kv_buf bytes;
    struct kv_stored stored;
    store(&bytes, kv_slice_of(raw, sizes[i]), 3, 5);
    ck_assert_uint_lt(bytes.size, 100 + sizes[i] / KV_PACKED_RATIO_MAX);
    ok(check(&bytes, 5, &stored));
    ok(kv_stored_decode(&stored, back, &place, 5, &err));
    ck_assert_int_eq(memcmp(raw, back, sizes[i]), 0);
    free(raw);
    free(back);
    kv_buf_release(&bytes);
  }
}
END_TEST

/* The frame alone, as no writer leaves it: refused before any memory is asked for. */
START_TEST(block_that_holds_more_than_its_size_justifies_is_refused) {
  size_t size = 20 << 20;
  uint8_t *raw = calloc(1, size);
  struct kv_buf bytes;
  struct kv_stored stored;
  store(&bytes, kv_slice_of(raw, size), 3, 5);
  size_t frame = 0;
  while (memcmp(bytes.data + frame, "\x50\x2a\x4d\x18", 4) != 0) frame++;
  memmove(bytes.data + frame, bytes.data + bytes.size - 13, 13);
  bytes.size = frame + 13;
  seal(&bytes, 5);
  ck_assert_int_eq(check(&bytes, 5, &stored), KV_CORRUPT);
  ck_assert_ptr_nonnull(strstr(err.text, "more bytes than its size can hold"));
  free(raw);
  kv_buf_release(&bytes);
}
END_TEST

START_TEST(stored_block_above_the_limit_is_full) {
  struct kv_buf out;
  uint64_t checksum;
  kv_buf_init(&out);
  struct kv_slice huge = {(const uint8_t *)"", KV_TABLE_RAW_BYTES_MAX + 1};
  ck_assert_int_eq(kv_stored_append(&out, huge, 0, NULL, &place, 0, &checksum, &err), KV_FULL);
  ck_assert_uint_eq(out.size, 0);
}
END_TEST

/* ---- Fences */

enum { FENCES = 40 };

/* Keys "k00" .. "k39", blocks of 100 + i bytes. */
static void fence_key(uint32_t i, uint8_t key[3]) {
  key[0] = 'k';
  key[1] = (uint8_t)('0' + i / 10);
  key[2] = (uint8_t)('0' + i % 10);
}

static uint64_t build_fences(struct kv_buf *out) {
  struct kv_fence_builder builder;
  uint64_t offset = 0;
  kv_fence_builder_init(&builder);
  kv_buf_init(out);
  for (uint32_t i = 0; i < FENCES; i++) {
    uint8_t key[3];
    fence_key(i, key);
    ok(kv_fence_builder_add(&builder, kv_slice_of(key, 3), offset, 100 + i, &err));
    offset += 100 + i;
  }
  ok(kv_fence_builder_finish(&builder, out, &err));
  kv_fence_builder_release(&builder);
  return offset;
}

static const struct kv_slice smallest = {(const uint8_t *)"k00", 3};
static const struct kv_slice largest = {(const uint8_t *)"k399", 4};

START_TEST(fences_come_back_and_find) {
  struct kv_buf bytes;
  struct kv_fences fences = {0};
  uint64_t end = build_fences(&bytes), offset = 0;
  ok(kv_fences_init(&fences, kv_buf_slice(&bytes), end, smallest, largest, &err));
  ck_assert_uint_eq(fences.count, FENCES);
  ck_assert_uint_eq(fences.skip, 1);
  for (uint32_t i = 0; i < FENCES; i++) {
    uint8_t key[4] = {0};
    fence_key(i, key);
    ck_assert(kv_slice_equal(kv_fences_key(&fences, i), kv_slice_of(key, 3)));
    ck_assert_uint_eq(kv_fences_offset(&fences, i), offset);
    ck_assert_uint_eq(kv_fences_size(&fences, i), 100 + i);
    offset += 100 + i;
    for (uint32_t from = 0; from <= i; from++) {
      ck_assert_uint_eq(kv_fences_find(&fences, kv_slice_of(key, 3), from), i);
      ck_assert_uint_eq(kv_fences_find(&fences, kv_slice_of(key, 4), from), i);
    }
  }
  kv_fences_release(&fences);
  kv_buf_release(&bytes);
}
END_TEST

/* Keys whose prefixes are equal are told apart by their bytes. */
START_TEST(fences_with_equal_prefixes_find) {
  struct kv_fence_builder builder;
  struct kv_buf bytes;
  struct kv_fences fences = {0};
  uint8_t key[12] = "a";
  kv_fence_builder_init(&builder);
  kv_buf_init(&bytes);
  ok(kv_fence_builder_add(&builder, kv_slice_of(key, 1), 0, 10, &err));
  for (size_t i = 0; i < 50; i++) {
    memset(key, 0, sizeof key);
    key[0] = 'b';
    key[11] = (uint8_t)i;
    ok(kv_fence_builder_add(&builder, kv_slice_of(key, 12), 10 + i * 10, 10, &err));
  }
  ok(kv_fence_builder_finish(&builder, &bytes, &err));
  ok(kv_fences_init(&fences, kv_buf_slice(&bytes), 510, kv_slice_of("a", 1), kv_slice_of("c", 1),
                    &err));
  for (size_t i = 0; i < 50; i++) {
    key[11] = (uint8_t)i;
    ck_assert_uint_eq(kv_fences_find(&fences, kv_slice_of(key, 12), 0), i + 1);
  }
  ck_assert_uint_eq(kv_fences_find(&fences, kv_slice_of("b", 1), 0), 0);
  ck_assert_uint_eq(kv_fences_find(&fences, kv_slice_of("c", 1), 0), 50);
  kv_fences_release(&fences);
  kv_fence_builder_release(&builder);
  kv_buf_release(&bytes);
}
END_TEST

START_TEST(every_cut_of_fences_is_corrupt) {
  struct kv_buf bytes;
  struct kv_fences fences = {0};
  uint64_t end = build_fences(&bytes);
  for (size_t size = 0; size < bytes.size; size++) {
    uint8_t *copy = malloc(size + 1);
    memcpy(copy, bytes.data, size);
    ck_assert_int_eq(kv_fences_init(&fences, kv_slice_of(copy, size), end, smallest, largest, &err),
                     KV_CORRUPT);
    free(copy);
  }
  kv_buf_release(&bytes);
}
END_TEST

/* A change is refused, or it changed only the letters of a key and left the order. */
START_TEST(every_changed_bit_of_fences_is_refused_or_harmless) {
  struct kv_buf bytes;
  uint64_t end = build_fences(&bytes);
  size_t keys_at = bytes.size - (size_t)FENCES * 3;
  for (size_t bit = 0; bit < bytes.size * 8; bit++) {
    struct kv_fences fences = {0};
    bytes.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
    kv_status status = kv_fences_init(&fences, kv_buf_slice(&bytes), end, smallest, largest, &err);
    bool in_lengths = bit / 8 >= keys_at - (size_t)FENCES * 4;
    if (bit / 8 < keys_at && !in_lengths) ck_assert_int_eq(status, KV_CORRUPT);
    if (!status) {
      for (uint32_t i = 0; i < FENCES; i++) {
        uint8_t key[3];
        fence_key(i, key);
        ck_assert_uint_lt(kv_fences_find(&fences, kv_slice_of(key, 3), 0), FENCES);
      }
      kv_fences_release(&fences);
    }
    bytes.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
  }
  kv_buf_release(&bytes);
}
END_TEST

START_TEST(fences_that_contradict_the_bounds_are_corrupt) {
  struct kv_buf bytes;
  struct kv_fences fences = {0};
  uint64_t end = build_fences(&bytes);
  struct kv_slice all = kv_buf_slice(&bytes);
  ck_assert_int_eq(kv_fences_init(&fences, all, end + 1, smallest, largest, &err), KV_CORRUPT);
  ck_assert_int_eq(kv_fences_init(&fences, all, end, kv_slice_of("k", 1), largest, &err),
                   KV_CORRUPT);
  ck_assert_int_eq(kv_fences_init(&fences, all, end, smallest, kv_slice_of("k38", 3), &err),
                   KV_CORRUPT);
  kv_buf_release(&bytes);
}
END_TEST

START_TEST(fence_keys_above_the_limit_are_full) {
  struct kv_fence_builder builder;
  kv_fence_builder_init(&builder);
  struct kv_slice huge = {(const uint8_t *)"", KV_TABLE_RAW_BYTES_MAX + 1};
  ck_assert_int_eq(kv_fence_builder_add(&builder, huge, 0, 1, &err), KV_FULL);
  kv_fence_builder_release(&builder);
}
END_TEST

/* ---- Properties */

static struct kv_table_properties some_properties(void) {
  return (struct kv_table_properties){.entries = 1000,
                                      .tombstones = 10,
                                      .key_bytes = UINT64_MAX,
                                      .value_bytes = 3,
                                      .digest = 0x123456789abcdef,
                                      .compression_level = 3,
                                      .filter_bits = 10,
                                      .block_bytes = 16384,
                                      .smallest = kv_slice_of("a", 1),
                                      .largest = kv_slice_of("zz", 2),
                                      .value_files = kv_slice_of("a list", 6),
                                      .value_threshold = 4096,
                                      .comparator = kv_slice_of("bytewise", 8)};
}

START_TEST(properties_come_back) {
  struct kv_table_properties in = some_properties(), out;
  struct kv_buf bytes;
  kv_buf_init(&bytes);
  ok(kv_properties_append(&bytes, &in, &err));
  ok(kv_properties_parse(&out, NULL, kv_buf_slice(&bytes), &err));
  ck_assert_uint_eq(out.entries, in.entries);
  ck_assert_uint_eq(out.tombstones, in.tombstones);
  ck_assert_uint_eq(out.key_bytes, in.key_bytes);
  ck_assert_uint_eq(out.value_bytes, in.value_bytes);
  ck_assert_uint_eq(out.digest, in.digest);
  ck_assert_uint_eq(out.compression_level, in.compression_level);
  ck_assert_uint_eq(out.filter_bits, in.filter_bits);
  ck_assert_uint_eq(out.block_bytes, in.block_bytes);
  ck_assert_uint_eq(out.value_threshold, in.value_threshold);
  ck_assert_uint_eq(out.holds_values, 0);
  ck_assert(kv_slice_equal(out.value_files, in.value_files));
  ck_assert(kv_slice_equal(out.smallest, in.smallest));
  ck_assert(kv_slice_equal(out.largest, in.largest));
  kv_buf_release(&bytes);
}
END_TEST

START_TEST(unknown_property_is_passed_over) {
  struct kv_table_properties in = some_properties(), out;
  struct kv_buf bytes;
  kv_buf_init(&bytes);
  kv_buf_append_varint(&bytes, 99999);
  kv_buf_append_slice(&bytes, kv_slice_of("later", 5));
  ok(kv_properties_append(&bytes, &in, &err));
  ok(kv_properties_parse(&out, NULL, kv_buf_slice(&bytes), &err));
  ck_assert_uint_eq(out.entries, in.entries);
  kv_buf_release(&bytes);
}
END_TEST

START_TEST(cut_and_doubled_properties_are_corrupt) {
  struct kv_table_properties in = some_properties(), out;
  in.value_files.size = 0; /* the last, and may be missing */
  struct kv_buf bytes;
  kv_buf_init(&bytes);
  ok(kv_properties_append(&bytes, &in, &err));
  for (size_t size = 0; size < bytes.size; size++) {
    ck_assert_int_eq(kv_properties_parse(&out, NULL, kv_slice_of(bytes.data, size), &err),
                     KV_CORRUPT);
  }
  ok(kv_properties_append(&bytes, &in, &err));
  ck_assert_int_eq(kv_properties_parse(&out, NULL, kv_buf_slice(&bytes), &err), KV_CORRUPT);
  kv_buf_release(&bytes);
}
END_TEST

START_TEST(changed_properties_are_safe) {
  struct kv_table_properties in = some_properties(), out;
  struct kv_buf bytes;
  kv_buf_init(&bytes);
  ok(kv_properties_append(&bytes, &in, &err));
  for (size_t at = 0; at < bytes.size; at++) {
    for (int value = 0; value < 256; value++) {
      uint8_t *copy = malloc(bytes.size);
      memcpy(copy, bytes.data, bytes.size);
      copy[at] = (uint8_t)value;
      if (!kv_properties_parse(&out, NULL, kv_slice_of(copy, bytes.size), &err)) {
        ck_assert_int_le(kv_slice_compare(out.smallest, out.largest), 0);
        ck_assert_uint_le(out.tombstones, out.entries);
      }
      free(copy);
    }
  }
  kv_buf_release(&bytes);
}
END_TEST

static kv_status reparse(const struct kv_table_properties *in) {
  struct kv_table_properties out;
  struct kv_buf bytes;
  kv_buf_init(&bytes);
  ok(kv_properties_append(&bytes, in, &err));
  kv_status status = kv_properties_parse(&out, NULL, kv_buf_slice(&bytes), &err);
  kv_buf_release(&bytes);
  return status;
}

START_TEST(contradicting_properties_are_corrupt) {
  struct kv_table_properties in = some_properties();
  in.entries = 0;
  in.tombstones = 0;
  ck_assert_int_eq(reparse(&in), KV_CORRUPT);
  in = some_properties();
  in.tombstones = 1001;
  ck_assert_int_eq(reparse(&in), KV_CORRUPT);
  in = some_properties();
  in.largest = kv_slice_of("", 0);
  ck_assert_int_eq(reparse(&in), KV_CORRUPT);
}
END_TEST

/* ---- Footer */

static struct kv_table_footer some_footer(void) {
  return (struct kv_table_footer){.filter = {1000, 100, 1},
                                  .fences = {1100, 200, 2},
                                  .properties = {1300, 50, 3},
                                  .place = place,
                                  .lowest_reader = 1,
                                  .lowest_writer = 1};
}

static kv_status parse(struct kv_table_footer *out, const struct kv_buf *bytes, uint64_t size) {
  return kv_footer_parse(out, kv_buf_slice(bytes), size, &place, &err);
}

static void append_footer(struct kv_buf *bytes, struct kv_table_footer *footer) {
  kv_buf_init(bytes);
  ok(kv_footer_append(bytes, footer, &err));
  ck_assert_uint_eq(bytes->size, KV_TABLE_FOOTER_BYTES);
}

START_TEST(footer_comes_back) {
  struct kv_table_footer in = some_footer(), out;
  struct kv_buf bytes;
  append_footer(&bytes, &in);
  ok(parse(&out, &bytes, 1350 + KV_TABLE_FOOTER_BYTES));
  ck_assert_uint_eq(out.filter.offset, 1000);
  ck_assert_uint_eq(out.fences.checksum, 2);
  ck_assert_uint_eq(out.properties.size, 50);
  ck_assert_uint_eq(out.checksum, in.checksum);
  ck_assert_uint_eq(out.place.id, place.id);
  kv_buf_release(&bytes);
}
END_TEST

START_TEST(footer_elsewhere_is_corrupt) {
  struct kv_table_footer in = some_footer(), out;
  struct kv_buf bytes;
  append_footer(&bytes, &in);
  ck_assert_int_eq(parse(&out, &bytes, 1351 + KV_TABLE_FOOTER_BYTES), KV_CORRUPT);
  kv_buf_release(&bytes);
}
END_TEST

START_TEST(every_cut_and_changed_bit_of_a_footer_is_corrupt) {
  struct kv_table_footer in = some_footer(), out;
  struct kv_buf bytes;
  uint64_t size = 1350 + KV_TABLE_FOOTER_BYTES;
  append_footer(&bytes, &in);
  for (size_t cut = 0; cut < bytes.size; cut++) {
    struct kv_slice tail = kv_slice_of(bytes.data + bytes.size - cut, cut);
    ck_assert_int_eq(kv_footer_parse(&out, tail, size, &place, &err), KV_CORRUPT);
    struct kv_slice head = kv_slice_of(bytes.data, cut);
    ck_assert_int_eq(kv_footer_parse(&out, head, size, &place, &err), KV_CORRUPT);
  }
  for (size_t bit = 0; bit < bytes.size * 8; bit++) {
    bytes.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
    ck_assert_int_eq(parse(&out, &bytes, size), KV_CORRUPT);
    bytes.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
  }
  kv_buf_release(&bytes);
}
END_TEST

/* Handles that overlap, leave gaps, wrap around or are missing, under a right checksum. */
START_TEST(handles_that_do_not_fill_the_file_are_corrupt) {
  static const struct kv_table_handle bad[][2] = {
      {{1000, 99, 1}, {1100, 200, 2}},          {{1000, 101, 1}, {1100, 200, 2}},
      {{1000, 100, 1}, {1101, 200, 2}},         {{1000, UINT64_MAX, 1}, {999, 301, 2}},
      {{UINT64_MAX, 1101, 1}, {1100, 200, 2}},  {{1000, 300, 1}, {1300, 0, 2}},
      {{0, 100, 1}, {UINT64_MAX - 99, 1400, 2}}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    struct kv_table_footer in = some_footer(), out;
    struct kv_buf bytes;
    in.filter = bad[i][0];
    in.fences = bad[i][1];
    append_footer(&bytes, &in);
    ck_assert_int_eq(parse(&out, &bytes, 1350 + KV_TABLE_FOOTER_BYTES), KV_CORRUPT);
    ck_assert_ptr_nonnull(strstr(err.text, "handles"));
    kv_buf_release(&bytes);
  }
}
END_TEST

/* A later version's longer footer: told to be newer, not called damage. */
START_TEST(longer_footer_of_a_newer_version_is_a_version_error) {
  struct kv_table_footer in = some_footer(), out;
  struct kv_buf bytes, longer;
  in.lowest_reader = 7;
  append_footer(&bytes, &in);
  kv_buf_init(&longer);
  kv_buf_append(&longer, "some more fields", 16);
  kv_buf_append(&longer, bytes.data, bytes.size);
  uint8_t *end = longer.data + longer.size;
  kv_put_u32(end - 32, (uint32_t)longer.size);
  uint64_t seed = kv_hash_place(place.uuid, place.id, 1350);
  kv_put_u64(end - 16, kv_hash_seeded(kv_slice_of(longer.data, longer.size - 16), seed));
  ck_assert_int_eq(parse(&out, &longer, 1350 + longer.size), KV_VERSION);
  kv_buf_release(&bytes);
  kv_buf_release(&longer);
}
END_TEST

/* ---- Memory */

/* Compresses, and reads again; the compressor works in memory of the library's own heap, so it may fail. */
static kv_status store_and_decode(struct kv_buf *out) {
  static uint8_t raw[3000], again[3000];
  uint64_t checksum;
  struct kv_stored stored;
  struct kv_compressor *zstd = kv_compressor_new();
  if (!zstd) return KV_NOMEM;
  kv_status status =
      kv_stored_append(out, kv_slice_of(raw, sizeof raw), 3, zstd, &place, 0, &checksum, &err);
  kv_compressor_free(zstd);
  if (!status) status = kv_stored_check(&stored, kv_buf_slice(out), &place, 0, &err);
  ck_assert(status || stored.compressed);
  return status ? status : kv_stored_decode(&stored, again, &place, 0, &err);
}

/* Builds all parts; any step may fail. */
static kv_status build_all(struct kv_buf *out, struct kv_fence_builder *fences) {
  struct kv_table_properties properties = some_properties();
  struct kv_table_footer footer = some_footer();
  struct kv_fences parsed = {0};
  kv_status status = store_and_decode(out);
  if (!status) status = kv_properties_append(out, &properties, &err);
  if (!status) status = kv_footer_append(out, &footer, &err);
  if (!status) status = kv_fence_builder_add(fences, kv_slice_of("k", 1), 0, 9, &err);
  size_t start = out->size;
  if (!status) status = kv_fence_builder_finish(fences, out, &err);
  if (status) return status;
  struct kv_slice k = kv_slice_of("k", 1);
  struct kv_slice bytes = kv_slice_of(out->data + start, out->size - start);
  status = kv_fences_init(&parsed, bytes, 9, k, k, &err);
  if (!status) kv_fences_release(&parsed);
  return status;
}

START_TEST(every_failing_allocation_is_nomem) {
  kv_status status = KV_NOMEM;
  for (uint64_t nth = 1; status == KV_NOMEM; nth++) {
    struct kv_buf out;
    struct kv_fence_builder fences;
    kv_buf_init(&out);
    kv_fence_builder_init(&fences);
    kv_mem_fail_nth(nth, 0);
    status = build_all(&out, &fences);
    kv_mem_fail_nth(0, 0);
    kv_buf_release(&out);
    kv_fence_builder_release(&fences);
    ck_assert_int_eq(kv_mem_live_blocks(), 0);
    ck_assert_uint_lt(nth, 100);
  }
  ck_assert_int_eq(status, KV_OK);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("table_format");
  TCase *tests = tcase_create("table_format");
  tcase_set_timeout(tests, 60);
  tcase_add_test(tests, stored_blocks_of_every_size_come_back);
  tcase_add_test(tests, compressed_only_when_it_saves_an_eighth);
  tcase_add_test(tests, stored_block_in_another_place_is_corrupt);
  tcase_add_test(tests, every_cut_and_change_of_a_stored_block_is_corrupt);
  tcase_add_test(tests, stored_sizes_that_lie_are_corrupt);
  tcase_add_test(tests, hostile_frames_stay_in_their_room);
  tcase_add_test(tests, decompressors_are_kept_while_referred_to);
  tcase_add_test(tests, block_of_zeros_is_padded_to_what_it_may_hold);
  tcase_add_test(tests, block_that_holds_more_than_its_size_justifies_is_refused);
  tcase_add_test(tests, stored_block_above_the_limit_is_full);
  tcase_add_test(tests, fences_come_back_and_find);
  tcase_add_test(tests, fences_with_equal_prefixes_find);
  tcase_add_test(tests, every_cut_of_fences_is_corrupt);
  tcase_add_test(tests, every_changed_bit_of_fences_is_refused_or_harmless);
  tcase_add_test(tests, fences_that_contradict_the_bounds_are_corrupt);
  tcase_add_test(tests, fence_keys_above_the_limit_are_full);
  tcase_add_test(tests, properties_come_back);
  tcase_add_test(tests, unknown_property_is_passed_over);
  tcase_add_test(tests, cut_and_doubled_properties_are_corrupt);
  tcase_add_test(tests, changed_properties_are_safe);
  tcase_add_test(tests, contradicting_properties_are_corrupt);
  tcase_add_test(tests, footer_comes_back);
  tcase_add_test(tests, footer_elsewhere_is_corrupt);
  tcase_add_test(tests, every_cut_and_changed_bit_of_a_footer_is_corrupt);
  tcase_add_test(tests, handles_that_do_not_fill_the_file_are_corrupt);
  tcase_add_test(tests, longer_footer_of_a_newer_version_is_a_version_error);
  tcase_add_test(tests, every_failing_allocation_is_nomem);
  suite_add_tcase(suite, tests);
  return harness_run(suite);
}
