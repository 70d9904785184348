/* Numbers as bytes and the bounded reader. */
#include "code.h"

#include "harness.h"
#include "mem.h"

static const uint64_t edges[] = {
    0,          1,           0x7f,           0x80,           0x3fff,    0x4000,
    0xffff,     0x10000,     0x1fffff,       0x200000,       0xfffffff, 0x10000000,
    0xffffffff, 0x100000000, 0x7fffffffffff, 0x800000000000, INT64_MAX, (uint64_t)INT64_MAX + 1,
    UINT64_MAX,
};
enum { EDGES = sizeof edges / sizeof edges[0] };

START_TEST(fixed_widths_are_little_endian) {
  uint8_t p[8];
  kv_put_u16(p, 0x0102);
  ck_assert_mem_eq(p, "\x02\x01", 2);
  kv_put_u32(p, 0x01020304);
  ck_assert_mem_eq(p, "\x04\x03\x02\x01", 4);
  kv_put_u64(p, 0x0102030405060708);
  ck_assert_mem_eq(p, "\x08\x07\x06\x05\x04\x03\x02\x01", 8);
  kv_put_u64_be(p, 0x0102030405060708);
  ck_assert_mem_eq(p, "\x01\x02\x03\x04\x05\x06\x07\x08", 8);
}
END_TEST

START_TEST(fixed_widths_round_trip_at_edges) {
  uint8_t p[8];
  for (int i = 0; i < EDGES; i++) {
    kv_put_u16(p, (uint16_t)edges[i]);
    ck_assert_uint_eq(kv_get_u16(p), (uint16_t)edges[i]);
    kv_put_u32(p, (uint32_t)edges[i]);
    ck_assert_uint_eq(kv_get_u32(p), (uint32_t)edges[i]);
    kv_put_u64(p, edges[i]);
    ck_assert_uint_eq(kv_get_u64(p), edges[i]);
    kv_put_u64_be(p, edges[i]);
    ck_assert_uint_eq(kv_get_u64_be(p), edges[i]);
  }
}
END_TEST

START_TEST(prefix64_orders_as_the_key) {
  ck_assert_uint_eq(kv_prefix64(kv_slice_of(NULL, 0)), 0);
  ck_assert_uint_eq(kv_prefix64(kv_slice_of("\x01", 1)), (uint64_t)1 << 56);
  ck_assert_uint_eq(kv_prefix64(kv_slice_of("\x01\x02\x03\x04\x05\x06\x07\x08\x09", 9)),
                    0x0102030405060708);
  struct harness_random random;
  harness_seed(&random, 3);
  for (int i = 0; i < 5000; i++) {
    uint8_t a[12], b[12];
    for (int j = 0; j < 12; j++) a[j] = b[j] = (uint8_t)harness_below(&random, 3);
    b[harness_below(&random, 12)] = (uint8_t)harness_below(&random, 3);
    struct kv_slice x = kv_slice_of(a, harness_below(&random, 13));
    struct kv_slice y = kv_slice_of(b, harness_below(&random, 13));
    if (kv_prefix64(x) < kv_prefix64(y)) ck_assert_int_lt(kv_slice_compare(x, y), 0);
    if (kv_prefix64(x) > kv_prefix64(y)) ck_assert_int_gt(kv_slice_compare(x, y), 0);
  }
}
END_TEST

START_TEST(varint_has_the_known_bytes) {
  uint8_t p[KV_VARINT_BYTES_MAX];
  ck_assert_uint_eq(kv_put_varint(p, 0), 1);
  ck_assert_mem_eq(p, "\x00", 1);
  ck_assert_uint_eq(kv_put_varint(p, 300), 2);
  ck_assert_mem_eq(p, "\xac\x02", 2);
  ck_assert_uint_eq(kv_put_varint(p, UINT64_MAX), 10);
  ck_assert_mem_eq(p, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 10);
}
END_TEST

START_TEST(varint_round_trips_at_every_width) {
  for (int bit = 0; bit < 64; bit++) {
    for (int step = -1; step <= 1; step++) {
      uint64_t value = ((uint64_t)1 << bit) + (uint64_t)(int64_t)step;
      uint8_t p[KV_VARINT_BYTES_MAX];
      size_t size = kv_put_varint(p, value);
      ck_assert_uint_le(size, KV_VARINT_BYTES_MAX);
      ck_assert_uint_eq(size, kv_varint_size(value));
      struct kv_reader reader;
      kv_reader_init(&reader, kv_slice_of(p, size));
      ck_assert_uint_eq(kv_reader_varint(&reader), value);
      ck_assert(!reader.failed);
      ck_assert_uint_eq(kv_reader_left(&reader), 0);
    }
  }
}
END_TEST

START_TEST(varint_too_long_or_too_large_is_refused) {
  static const char *const bad[] = {
      "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02",     /* bit 64 */
      "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", /* 11 bytes */
      "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",     /* unfinished after 10 */
      "\x80",                                         /* unfinished */
  };
  struct kv_reader reader;
  kv_reader_init(&reader, kv_slice_of(bad[_i], strlen(bad[_i])));
  ck_assert_uint_eq(kv_reader_varint(&reader), 0);
  ck_assert(reader.failed);
  ck_assert_uint_eq(kv_reader_left(&reader), 0);
}
END_TEST

/* One of everything, read back in order. */
static void append_all(struct kv_buf *buf) {
  kv_buf_append_byte(buf, 0xab);
  kv_buf_append_u16(buf, 0xbeef);
  kv_buf_append_u32(buf, 0xdeadbeef);
  kv_buf_append_u64(buf, 0x0123456789abcdef);
  kv_buf_append_varint(buf, 1234567);
  kv_buf_append_slice(buf, kv_slice_of("some bytes", 10));
  kv_buf_append_slice(buf, kv_slice_of(NULL, 0));
  kv_buf_append(buf, "raw", 3);
}

/* True when all came back as written. */
static bool read_all(struct kv_reader *reader) {
  bool same = kv_reader_u8(reader) == 0xab;
  same &= kv_reader_u16(reader) == 0xbeef;
  same &= kv_reader_u32(reader) == 0xdeadbeef;
  same &= kv_reader_u64(reader) == 0x0123456789abcdef;
  same &= kv_reader_varint(reader) == 1234567;
  same &= kv_slice_equal(kv_reader_slice(reader), kv_slice_of("some bytes", 10));
  same &= kv_reader_slice(reader).size == 0;
  same &= kv_slice_equal(kv_reader_bytes(reader, 3), kv_slice_of("raw", 3));
  return same && !reader->failed;
}

START_TEST(reader_gives_back_what_was_appended) {
  struct kv_buf buf;
  kv_buf_init(&buf);
  append_all(&buf);
  ck_assert_int_eq(buf.status, KV_OK);
  struct kv_reader reader;
  kv_reader_init(&reader, kv_buf_slice(&buf));
  ck_assert(read_all(&reader));
  ck_assert_uint_eq(kv_reader_left(&reader), 0);
  kv_buf_release(&buf);
}
END_TEST

/* The input stands at the end of its own allocation, so that a read behind it is seen. */
START_TEST(reader_fails_on_every_truncation) {
  struct kv_buf buf;
  kv_buf_init(&buf);
  append_all(&buf);
  for (size_t size = 0; size < buf.size; size++) {
    uint8_t *copy = kv_alloc(size, 1);
    ck_assert_ptr_nonnull(copy);
    memcpy(copy, buf.data, size);
    struct kv_reader reader;
    kv_reader_init(&reader, kv_slice_of(copy, size));
    ck_assert(!read_all(&reader));
    ck_assert(reader.failed);
    ck_assert_uint_eq(kv_reader_left(&reader), 0);
    kv_free(copy);
  }
  kv_buf_release(&buf);
}
END_TEST

START_TEST(reader_survives_random_bytes) {
  uint64_t seed = harness_seed_env(31);
  struct harness_random random;
  harness_seed(&random, seed);
  for (int round = 0; round < 20000; round++) {
    size_t size = harness_below(&random, 40);
    uint8_t *bytes = kv_alloc(size, 1);
    ck_assert_ptr_nonnull(bytes);
    for (size_t i = 0; i < size; i++) bytes[i] = (uint8_t)harness_next(&random);
    struct kv_reader reader;
    kv_reader_init(&reader, kv_slice_of(bytes, size));
    while (kv_reader_left(&reader)) {
      struct kv_slice got = kv_reader_slice(&reader);
      bool inside = !got.size || (got.data >= bytes && got.data + got.size <= bytes + size);
      if (!inside) ck_abort_msg("seed %llu", (unsigned long long)seed);
      (void)kv_reader_varint(&reader);
    }
    kv_free(bytes);
  }
}
END_TEST

START_TEST(reader_stays_failed_and_gives_nothing) {
  struct kv_reader reader;
  kv_reader_init(&reader, kv_slice_of("\x01\x02\x03", 3));
  ck_assert_uint_eq(kv_reader_u32(&reader), 0);
  ck_assert(reader.failed);
  ck_assert_uint_eq(kv_reader_u8(&reader), 0);
  ck_assert_uint_eq(kv_reader_u16(&reader), 0);
  ck_assert_uint_eq(kv_reader_u64(&reader), 0);
  ck_assert_uint_eq(kv_reader_varint(&reader), 0);
  ck_assert_uint_eq(kv_reader_bytes(&reader, 1).size, 0);
  ck_assert_uint_eq(kv_reader_slice(&reader).size, 0);
  ck_assert(reader.failed);
}
END_TEST

START_TEST(reader_refuses_absurd_lengths) {
  struct kv_reader reader;
  kv_reader_init(&reader, kv_slice_of("abc", 3));
  ck_assert_uint_eq(kv_reader_bytes(&reader, UINT64_MAX).size, 0);
  ck_assert(reader.failed);
  kv_reader_init(&reader, kv_slice_of("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01zz", 12));
  ck_assert_uint_eq(kv_reader_slice(&reader).size, 0);
  ck_assert(reader.failed);
  kv_reader_init(&reader, kv_slice_of("abc", 3));
  ck_assert_uint_eq(kv_reader_bytes(&reader, 3).size, 3);
  ck_assert(!reader.failed);
}
END_TEST

START_TEST(reader_of_nothing_is_at_its_end) {
  struct kv_reader reader;
  kv_reader_init(&reader, kv_slice_of(NULL, 0));
  ck_assert_uint_eq(kv_reader_left(&reader), 0);
  ck_assert_uint_eq(kv_reader_bytes(&reader, 0).size, 0);
  ck_assert(!reader.failed);
  ck_assert_uint_eq(kv_reader_u8(&reader), 0);
  ck_assert(reader.failed);
}
END_TEST

START_TEST(appends_without_memory_stick) {
  for (uint64_t n = 1;; n++) {
    struct kv_buf buf;
    kv_buf_init(&buf);
    (void)kv_mem_fail_nth(n, 0);
    append_all(&buf);
    uint64_t made = kv_mem_fail_nth(0, 0);
    kv_status status = buf.status;
    if (status == KV_NOMEM) ck_assert_uint_eq(buf.size, 0);
    kv_buf_release(&buf);
    if (made < n) {
      ck_assert_int_eq(status, KV_OK);
      break;
    }
    ck_assert_int_eq(status, KV_NOMEM);
  }
}
END_TEST

int main(void) {
  Suite *suite = suite_create("code");
  TCase *tests = tcase_create("code");
  tcase_add_test(tests, fixed_widths_are_little_endian);
  tcase_add_test(tests, fixed_widths_round_trip_at_edges);
  tcase_add_test(tests, prefix64_orders_as_the_key);
  tcase_add_test(tests, varint_has_the_known_bytes);
  tcase_add_test(tests, varint_round_trips_at_every_width);
  tcase_add_loop_test(tests, varint_too_long_or_too_large_is_refused, 0, 4);
  tcase_add_test(tests, reader_gives_back_what_was_appended);
  tcase_add_test(tests, reader_fails_on_every_truncation);
  tcase_add_test(tests, reader_survives_random_bytes);
  tcase_add_test(tests, reader_stays_failed_and_gives_nothing);
  tcase_add_test(tests, reader_refuses_absurd_lengths);
  tcase_add_test(tests, reader_of_nothing_is_at_its_end);
  tcase_add_test(tests, appends_without_memory_stick);
  suite_add_tcase(suite, tests);
  return harness_run(suite);
}
