/* Checked messages, whole and in pieces: every width, mixed, split anywhere, at every address. */
#include "stream.h"

#include "batch.h"
#include "harness.h"
#include "mem.h"
#include "table_format.h"

#define SEED 0x5eed
#define PIECES_MAX 8

/* A message out of pieces of given sizes; the last takes the rest. Each stands in an allocation of its own,
** so that a read beside it is seen, and is freed when the next is asked for. */
struct pieces {
  struct kv_slice message;
  size_t sizes[PIECES_MAX];
  size_t count, at;
  size_t offset; /* of the next in the message */
  size_t shift;  /* from an aligned address */
  uint8_t *piece;
  size_t fails_at; /* the piece that is an I/O error, from 1; 0: none */
};

static kv_status next_piece(void *ctx, struct kv_slice *piece, struct kv_err *err) {
  struct pieces *from = ctx;
  kv_free(from->piece);
  from->piece = NULL;
  if (from->fails_at && from->at + 1 == from->fails_at) return kv_fail(err, KV_IO, "no disk");
  size_t left = from->message.size - from->offset;
  size_t size = from->at < from->count ? from->sizes[from->at] : left;
  if (size > left) size = left;
  from->at++;
  if (!size && !left) return KV_OK;
  from->piece = kv_alloc(size + from->shift, 1);
  ck_assert_ptr_nonnull(from->piece);
  memcpy(from->piece + from->shift, from->message.data + from->offset, size);
  from->offset += size;
  *piece = kv_slice_of(from->piece + from->shift, size);
  return KV_OK;
}

static struct kv_stream_source source_of(struct pieces *pieces) {
  return (struct kv_stream_source){next_piece, pieces};
}

/* ---- What is written and read: all widths, arrays of each, bytes between them */

enum { SHORTS = 5, WORDS = 3, LONGS = 6 };
static const char text[] = "between";

static void append_content(struct kv_buf *buf) {
  uint16_t shorts[SHORTS];
  uint32_t words[WORDS];
  uint64_t longs[LONGS];
  for (unsigned i = 0; i < SHORTS; i++) shorts[i] = (uint16_t)(0x8001 + i * 0x101);
  for (unsigned i = 0; i < WORDS; i++) words[i] = 0x80000001 + i * 0x01010101;
  for (unsigned i = 0; i < LONGS; i++) longs[i] = 0x8000000000000001 + i * 0x0101010101010101;
  kv_buf_append_byte(buf, 0xab);
  kv_buf_append_u16s(buf, shorts, SHORTS);
  kv_buf_append_u64s(buf, longs, LONGS);
  kv_buf_append_u16(buf, 0xbeef);
  kv_buf_append_u32s(buf, words, WORDS);
  kv_buf_append(buf, text, sizeof text);
  kv_buf_append_u32(buf, 0xdeadbeef);
  kv_buf_append_u64s(buf, longs, 1);
  kv_buf_append_u64(buf, 0x0123456789abcdef);
}

static void make_message(struct kv_buf *buf) {
  kv_buf_init(buf);
  append_content(buf);
  kv_buf_append_checksum(buf, 0, SEED);
  ck_assert_int_eq(buf->status, KV_OK);
}

/* Whether everything comes back. */
static bool read_content(struct kv_stream_reader *reader) {
  struct kv_buf got, wanted;
  uint16_t shorts[SHORTS];
  uint32_t words[WORDS];
  uint64_t longs[LONGS];
  char bytes[sizeof text];
  kv_buf_init(&got);
  kv_buf_append_byte(&got, kv_stream_u8(reader));
  kv_stream_u16s(reader, shorts, SHORTS);
  kv_buf_append_u16s(&got, shorts, SHORTS);
  kv_stream_u64s(reader, longs, LONGS);
  kv_buf_append_u64s(&got, longs, LONGS);
  kv_buf_append_u16(&got, kv_stream_u16(reader));
  kv_stream_u32s(reader, words, WORDS);
  kv_buf_append_u32s(&got, words, WORDS);
  kv_stream_bytes(reader, bytes, sizeof bytes);
  kv_buf_append(&got, bytes, sizeof bytes);
  kv_buf_append_u32(&got, kv_stream_u32(reader));
  kv_stream_u64s(reader, longs, 1);
  kv_buf_append_u64s(&got, longs, 1);
  kv_buf_append_u64(&got, kv_stream_u64(reader));
  kv_buf_init(&wanted);
  append_content(&wanted);
  bool same = kv_slice_equal(kv_buf_slice(&got), kv_buf_slice(&wanted));
  kv_buf_release(&got);
  kv_buf_release(&wanted);
  return same;
}

static kv_status read_pieces(struct pieces *pieces, bool *same) {
  struct kv_stream_reader reader;
  struct kv_err err = {0};
  kv_stream_reader_init(&reader, source_of(pieces), SEED);
  *same = read_content(&reader);
  kv_status status = kv_stream_reader_finish(&reader, &err);
  if (status != KV_OK) ck_assert_int_eq(err.status, status);
  kv_free(pieces->piece);
  pieces->piece = NULL;
  return status;
}

/* ---- Whole */

START_TEST(whole_message_is_read_at_every_address) {
  struct kv_buf message;
  make_message(&message);
  for (size_t shift = 0; shift < 16; shift++) {
    struct pieces pieces = {.message = kv_buf_slice(&message), .shift = shift};
    bool same;
    ck_assert_int_eq(read_pieces(&pieces, &same), KV_OK);
    ck_assert(same);
  }
  kv_buf_release(&message);
}
END_TEST

START_TEST(whole_arrays_are_read_at_every_offset) {
  uint8_t bytes[24 + 16];
  for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)(i * 37 + 1);
  for (size_t offset = 0; offset <= 16; offset++) {
    struct kv_reader reader;
    uint16_t shorts[12];
    uint32_t words[6];
    uint64_t longs[3];
    kv_reader_init(&reader, kv_slice_of(bytes + offset, 24));
    kv_reader_u16s(&reader, shorts, 12);
    kv_reader_init(&reader, kv_slice_of(bytes + offset, 24));
    kv_reader_u32s(&reader, words, 6);
    kv_reader_init(&reader, kv_slice_of(bytes + offset, 24));
    kv_reader_u64s(&reader, longs, 3);
    ck_assert(!reader.failed);
    for (size_t i = 0; i < 12; i++)
      ck_assert_uint_eq(shorts[i], kv_get_u16(bytes + offset + 2 * i));
    for (size_t i = 0; i < 6; i++) ck_assert_uint_eq(words[i], kv_get_u32(bytes + offset + 4 * i));
    for (size_t i = 0; i < 3; i++) ck_assert_uint_eq(longs[i], kv_get_u64(bytes + offset + 8 * i));
  }
}
END_TEST

START_TEST(whole_array_cut_short_is_zeros_and_a_failure) {
  uint8_t bytes[24] = {1, 2, 3, 4, 5, 6, 7, 8};
  for (size_t size = 0; size < sizeof bytes; size++) {
    struct kv_reader reader;
    uint16_t shorts[12];
    uint32_t words[6];
    uint64_t longs[3] = {1, 1, 1};
    kv_reader_init(&reader, kv_slice_of(bytes, size));
    kv_reader_u64s(&reader, longs, 3);
    ck_assert(reader.failed && !longs[0] && !longs[2]);
    kv_reader_init(&reader, kv_slice_of(bytes, size));
    kv_reader_u32s(&reader, words, 6);
    ck_assert(reader.failed && !words[0] && !words[5]);
    kv_reader_init(&reader, kv_slice_of(bytes, size));
    kv_reader_u16s(&reader, shorts, 12);
    ck_assert(reader.failed && !shorts[0] && !shorts[11]);
  }
  struct kv_reader reader;
  kv_reader_init(&reader, kv_slice_of(NULL, 0));
  kv_reader_u64s(&reader, NULL, 0);
  ck_assert(!reader.failed);
}
END_TEST

START_TEST(array_of_more_bytes_than_there_can_be_is_refused) {
  struct kv_buf buf;
  uint64_t number = 0;
  kv_buf_init(&buf);
  kv_buf_append_u64s(&buf, &number, SIZE_MAX / 4);
  ck_assert_int_eq(buf.status, KV_NOMEM);
  kv_buf_clear(&buf);
  kv_buf_append_u64s(&buf, NULL, 0);
  ck_assert_int_eq(buf.status, KV_OK);
  ck_assert_uint_eq(buf.size, 0);
  kv_buf_release(&buf);
}
END_TEST

START_TEST(checksum_holds_for_the_message_alone) {
  struct kv_buf message;
  make_message(&message);
  struct kv_slice all = kv_buf_slice(&message);
  ck_assert(kv_checksum_holds(all, SEED));
  ck_assert(!kv_checksum_holds(all, SEED + 1));
  for (size_t size = 0; size < all.size; size++)
    ck_assert(!kv_checksum_holds(kv_slice_of(all.data, size), SEED));
  for (size_t bit = 0; bit < all.size * 8; bit++) {
    message.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
    ck_assert(!kv_checksum_holds(all, SEED));
    message.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
  }
  kv_buf_release(&message);
}
END_TEST

START_TEST(checksum_is_not_appended_without_memory) {
  struct kv_buf buf;
  kv_buf_init(&buf);
  kv_buf_append_u64(&buf, 1);
  buf.status = KV_NOMEM;
  ck_assert_uint_eq(kv_buf_append_checksum(&buf, 0, SEED), 0);
  ck_assert_uint_eq(buf.size, 8);
  kv_buf_release(&buf);
}
END_TEST

/* ---- In pieces */

/* Two and three pieces at all places, the checksum split too, empty content on either side apart. */
START_TEST(every_split_gives_the_same) {
  struct kv_buf message;
  make_message(&message);
  for (size_t first = 1; first <= message.size; first++) {
    for (size_t second = 1; second <= message.size; second += 1 + first % 3) {
      struct pieces pieces = {.message = kv_buf_slice(&message),
                              .sizes = {first, second},
                              .count = 2,
                              .shift = first % 9};
      bool same;
      ck_assert_int_eq(read_pieces(&pieces, &same), KV_OK);
      ck_assert(same);
    }
  }
  kv_buf_release(&message);
}
END_TEST

START_TEST(pieces_of_one_size_give_the_same) {
  struct kv_buf message;
  make_message(&message);
  for (size_t size = 1; size < 20; size++) {
    struct kv_stream_reader reader;
    struct pieces pieces = {.message = kv_buf_slice(&message), .count = PIECES_MAX};
    for (size_t i = 0; i < PIECES_MAX; i++) pieces.sizes[i] = size;
    kv_stream_reader_init(&reader, source_of(&pieces), SEED);
    ck_assert(read_content(&reader));
    ck_assert_int_eq(kv_stream_reader_finish(&reader, NULL), KV_OK);
    kv_free(pieces.piece);
  }
  kv_buf_release(&message);
}
END_TEST

START_TEST(message_cut_anywhere_is_refused) {
  struct kv_buf message;
  make_message(&message);
  for (size_t size = 0; size < message.size; size++) {
    struct pieces pieces = {
        .message = kv_slice_of(message.data, size), .sizes = {size / 2}, .count = size > 1};
    bool same;
    ck_assert_int_eq(read_pieces(&pieces, &same), KV_CORRUPT);
  }
  kv_buf_release(&message);
}
END_TEST

START_TEST(message_that_goes_on_is_refused) {
  struct kv_buf message;
  make_message(&message);
  kv_buf_append_byte(&message, 0);
  for (size_t first = 1; first <= message.size; first++) {
    struct pieces pieces = {
        .message = kv_buf_slice(&message), .sizes = {first}, .count = 1, .shift = 0};
    bool same;
    ck_assert_int_eq(read_pieces(&pieces, &same), KV_CORRUPT);
    ck_assert(same);
  }
  kv_buf_release(&message);
}
END_TEST

START_TEST(every_flipped_bit_is_found_in_pieces) {
  struct kv_buf message;
  make_message(&message);
  for (size_t bit = 0; bit < message.size * 8; bit++) {
    message.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
    struct pieces pieces = {
        .message = kv_buf_slice(&message), .sizes = {1 + bit % message.size}, .count = 1};
    bool same;
    ck_assert_int_eq(read_pieces(&pieces, &same), KV_CORRUPT);
    message.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
  }
  kv_buf_release(&message);
}
END_TEST

START_TEST(failing_source_is_the_status_and_zeros) {
  struct kv_buf message;
  make_message(&message);
  for (size_t at = 1; at <= 4; at++) {
    struct pieces pieces = {.message = kv_buf_slice(&message),
                            .sizes = {10, message.size - 14},
                            .count = 2,
                            .fails_at = at};
    bool same;
    ck_assert_int_eq(read_pieces(&pieces, &same), KV_IO);
    ck_assert(same == (at > 2));
  }
  kv_buf_release(&message);
}
END_TEST

START_TEST(empty_message_has_the_checksum_of_nothing) {
  struct kv_buf message;
  kv_buf_init(&message);
  kv_buf_append_byte(&message, 9);
  kv_buf_append_checksum(&message, 1, SEED);
  for (size_t first = 0; first <= 8; first++) {
    struct pieces pieces = {
        .message = kv_slice_of(message.data + 1, 8), .sizes = {first}, .count = first > 0};
    struct kv_stream_reader reader;
    kv_stream_reader_init(&reader, source_of(&pieces), SEED);
    ck_assert_int_eq(kv_stream_reader_finish(&reader, NULL), KV_OK);
    kv_free(pieces.piece);
  }
  kv_buf_release(&message);
}
END_TEST

/* Long enough for wide instructions and for several stripes of the hash's state. */
START_TEST(large_arrays_in_random_pieces) {
  struct harness_random random;
  harness_seed(&random, harness_seed_env(11));
  static uint64_t longs[5000], read[5000];
  for (size_t i = 0; i < 5000; i++) longs[i] = harness_next(&random);
  for (int round = 0; round < 200; round++) {
    size_t n = harness_below(&random, 5000);
    struct kv_buf message;
    kv_buf_init(&message);
    kv_buf_append_u64s(&message, longs, n);
    kv_buf_append_checksum(&message, 0, SEED);
    struct pieces pieces = {.message = kv_buf_slice(&message), .count = PIECES_MAX};
    for (size_t i = 0; i < PIECES_MAX; i++)
      pieces.sizes[i] = 1 + harness_below(&random, message.size);
    struct kv_stream_reader reader;
    kv_stream_reader_init(&reader, source_of(&pieces), SEED);
    kv_stream_u64s(&reader, read, n);
    ck_assert_int_eq(kv_stream_reader_finish(&reader, NULL), KV_OK);
    ck_assert_int_eq(memcmp(read, longs, n * 8), 0);
    kv_free(pieces.piece);
    kv_buf_release(&message);
  }
}
END_TEST

/* ---- Writing in pieces */

struct gathered {
  struct kv_buf bytes;
  size_t pieces;
  size_t fails_at; /* from 1 */
};

static kv_status gather(void *ctx, struct kv_slice piece, struct kv_err *err) {
  struct gathered *to = ctx;
  to->pieces++;
  if (to->pieces == to->fails_at) return kv_fail(err, KV_FULL, "no space");
  kv_buf_append(&to->bytes, piece.data, piece.size);
  return KV_OK;
}

static kv_status write_pieces(struct gathered *to, size_t piece_bytes, int times,
                              struct kv_err *err) {
  struct kv_stream_writer writer;
  kv_stream_writer_init(&writer, (struct kv_stream_sink){gather, to}, piece_bytes, SEED);
  for (int i = 0; i < times; i++) {
    append_content(&writer.waiting);
    kv_stream_drain(&writer);
  }
  kv_status status = kv_stream_writer_finish(&writer, err);
  kv_stream_writer_release(&writer);
  return status;
}

START_TEST(pieces_written_are_the_whole_message) {
  struct kv_buf whole;
  kv_buf_init(&whole);
  for (int i = 0; i < 20; i++) append_content(&whole);
  kv_buf_append_checksum(&whole, 0, SEED);
  for (size_t piece_bytes = 0; piece_bytes < 3000; piece_bytes += 1 + piece_bytes / 3) {
    struct gathered to = {0};
    ck_assert_int_eq(write_pieces(&to, piece_bytes, 20, NULL), KV_OK);
    ck_assert(kv_slice_equal(kv_buf_slice(&to.bytes), kv_buf_slice(&whole)));
    ck_assert_uint_le(to.pieces, piece_bytes ? whole.size / piece_bytes + 1 : 21);
    kv_buf_release(&to.bytes);
  }
  kv_buf_release(&whole);
}
END_TEST

/* Two bytes are read, all but the last of the rest is skipped. */
static void check_skipping(struct kv_slice message, size_t piece_bytes, uint64_t checksum) {
  size_t content = message.size - KV_CHECKSUM_BYTES;
  struct pieces pieces = {.message = message, .count = PIECES_MAX};
  for (size_t i = 0; i < PIECES_MAX; i++) pieces.sizes[i] = piece_bytes;
  struct kv_stream_reader reader;
  kv_stream_reader_init(&reader, source_of(&pieces), SEED);
  ck_assert_uint_eq(kv_stream_u16(&reader), 0x1234);
  kv_stream_skip(&reader, content - 3);
  ck_assert_uint_eq(kv_stream_u8(&reader), 9);
  ck_assert_int_eq(kv_stream_reader_finish(&reader, NULL), KV_OK);
  ck_assert_uint_eq(reader.checksum, checksum);
  kv_free(pieces.piece);
  pieces = (struct pieces){.message = message};
  kv_stream_reader_init(&reader, source_of(&pieces), SEED);
  kv_stream_skip(&reader, message.size + 1);
  ck_assert_int_eq(kv_stream_reader_finish(&reader, NULL), KV_CORRUPT);
  kv_free(pieces.piece);
}

START_TEST(long_bytes_are_written_and_skipped_in_pieces) {
  static uint8_t bytes[3000];
  for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)(i * 7 + i / 251);
  for (size_t piece_bytes = 1; piece_bytes < 4000; piece_bytes += 1 + piece_bytes / 3) {
    struct gathered to = {0};
    struct kv_stream_writer writer;
    kv_stream_writer_init(&writer, (struct kv_stream_sink){gather, &to}, piece_bytes, SEED);
    kv_buf_append_u16(&writer.waiting, 0x1234);
    kv_stream_write(&writer, kv_slice_of(bytes, sizeof bytes));
    kv_stream_write(&writer, kv_slice_of(NULL, 0));
    kv_buf_append_byte(&writer.waiting, 9);
    ck_assert_int_eq(kv_stream_writer_finish(&writer, NULL), KV_OK);
    kv_stream_writer_release(&writer);
    ck_assert_uint_eq(to.pieces, 2 + (sizeof bytes + piece_bytes - 1) / piece_bytes);
    ck_assert_uint_eq(to.bytes.size, 2 + sizeof bytes + 1 + KV_CHECKSUM_BYTES);
    ck_assert(memcmp(to.bytes.data + 2, bytes, sizeof bytes) == 0);
    ck_assert(kv_checksum_holds(kv_buf_slice(&to.bytes), SEED));
    ck_assert_uint_eq(kv_get_u64(to.bytes.data + to.bytes.size - KV_CHECKSUM_BYTES),
                      writer.checksum);
    check_skipping(kv_buf_slice(&to.bytes), piece_bytes, writer.checksum);
    kv_buf_release(&to.bytes);
  }
}
END_TEST

START_TEST(failing_sink_is_asked_no_more) {
  for (size_t at = 1; at <= 3; at++) {
    struct gathered to = {.fails_at = at};
    struct kv_err err;
    ck_assert_int_eq(write_pieces(&to, 1, 5, &err), KV_FULL);
    ck_assert_str_eq(err.text, "no space");
    ck_assert_uint_eq(to.pieces, at);
    kv_buf_release(&to.bytes);
  }
}
END_TEST

START_TEST(writing_without_memory_is_nomem) {
  for (uint64_t n = 1;; n++) {
    struct gathered to = {0};
    ck_assert_int_eq(kv_buf_reserve(&to.bytes, 4096), KV_OK);
    (void)kv_mem_fail_nth(n, 0);
    kv_status status = write_pieces(&to, 100, 5, NULL);
    uint64_t made = kv_mem_fail_nth(0, 0);
    kv_buf_release(&to.bytes);
    if (made < n) {
      ck_assert_int_eq(status, KV_OK);
      break;
    }
    ck_assert_int_eq(status, KV_NOMEM);
  }
}
END_TEST

/* ---- Who reads messages */

static const uint8_t uuid[16] = {1, 2, 3};

START_TEST(log_batch_with_a_wrong_checksum_is_refused) {
  struct kv_stats stats = {0};
  struct kv_batch *batch;
  struct kv_buf encoded;
  struct kv_batch_reader reader;
  kv_buf_init(&encoded);
  ck_assert_int_eq(kv_batch_new(&stats, &batch, NULL), KV_OK);
  ck_assert_int_eq(kv_batch_put(batch, kv_slice_of("key", 3), kv_slice_of("value", 5), false, NULL),
                   KV_OK);
  ck_assert_int_eq(kv_batch_encode(batch, uuid, 7, &encoded, NULL), KV_OK);
  struct kv_slice all = kv_buf_slice(&encoded);
  ck_assert_int_eq(kv_batch_reader_init(&reader, all, uuid, 7, NULL), KV_OK);
  ck_assert_int_eq(kv_batch_reader_init(&reader, all, uuid, 8, NULL), KV_CORRUPT);
  for (size_t i = 1; i <= KV_CHECKSUM_BYTES; i++) {
    encoded.data[encoded.size - i] ^= 0x10;
    ck_assert_int_eq(kv_batch_reader_init(&reader, all, uuid, 7, NULL), KV_CORRUPT);
    encoded.data[encoded.size - i] ^= 0x10;
  }
  kv_buf_release(&encoded);
  kv_batch_unref(batch);
}
END_TEST

START_TEST(stored_block_with_a_wrong_checksum_is_refused) {
  struct kv_table_place place = {.id = 3};
  struct kv_buf out;
  struct kv_stored stored;
  uint64_t checksum;
  kv_buf_init(&out);
  ck_assert_int_eq(kv_stored_append(&out, kv_slice_of("filter, fences, properties, data", 32), 0,
                                    NULL, &place, 99, &checksum, NULL),
                   KV_OK);
  struct kv_slice all = kv_buf_slice(&out);
  ck_assert_int_eq(kv_stored_check(&stored, all, &place, 99, NULL), KV_OK);
  ck_assert_int_eq(kv_stored_check(&stored, all, &place, 98, NULL), KV_CORRUPT);
  for (size_t i = 1; i <= KV_CHECKSUM_BYTES; i++) {
    out.data[out.size - i] ^= 0x10;
    ck_assert_int_eq(kv_stored_check(&stored, all, &place, 99, NULL), KV_CORRUPT);
    out.data[out.size - i] ^= 0x10;
  }
  kv_buf_release(&out);
}
END_TEST

START_TEST(footer_with_a_wrong_checksum_is_refused) {
  struct kv_table_footer footer = {.fences = {100, 50, 1}, .properties = {150, 30, 2}}, parsed;
  footer.filter.offset = 100;
  footer.place.id = 5;
  struct kv_buf out;
  kv_buf_init(&out);
  ck_assert_int_eq(kv_footer_append(&out, &footer, NULL), KV_OK);
  uint64_t size = 180 + out.size;
  struct kv_slice all = kv_buf_slice(&out);
  ck_assert_int_eq(kv_footer_parse(&parsed, all, size, &footer.place, NULL), KV_OK);
  ck_assert_uint_eq(parsed.properties.offset, 150);
  ck_assert_int_eq(kv_footer_parse(&parsed, all, size + 1, &footer.place, NULL), KV_CORRUPT);
  for (size_t i = 9; i <= 8 + KV_CHECKSUM_BYTES; i++) {
    out.data[out.size - i] ^= 0x10;
    ck_assert_int_eq(kv_footer_parse(&parsed, all, size, &footer.place, NULL), KV_CORRUPT);
    out.data[out.size - i] ^= 0x10;
  }
  kv_buf_release(&out);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("stream");
  TCase *tests = tcase_create("stream");
  tcase_add_test(tests, whole_message_is_read_at_every_address);
  tcase_add_test(tests, whole_arrays_are_read_at_every_offset);
  tcase_add_test(tests, whole_array_cut_short_is_zeros_and_a_failure);
  tcase_add_test(tests, array_of_more_bytes_than_there_can_be_is_refused);
  tcase_add_test(tests, checksum_holds_for_the_message_alone);
  tcase_add_test(tests, checksum_is_not_appended_without_memory);
  tcase_add_test(tests, every_split_gives_the_same);
  tcase_add_test(tests, pieces_of_one_size_give_the_same);
  tcase_add_test(tests, message_cut_anywhere_is_refused);
  tcase_add_test(tests, message_that_goes_on_is_refused);
  tcase_add_test(tests, every_flipped_bit_is_found_in_pieces);
  tcase_add_test(tests, failing_source_is_the_status_and_zeros);
  tcase_add_test(tests, empty_message_has_the_checksum_of_nothing);
  tcase_add_test(tests, large_arrays_in_random_pieces);
  tcase_add_test(tests, pieces_written_are_the_whole_message);
  tcase_add_test(tests, long_bytes_are_written_and_skipped_in_pieces);
  tcase_add_test(tests, failing_sink_is_asked_no_more);
  tcase_add_test(tests, writing_without_memory_is_nomem);
  tcase_add_test(tests, log_batch_with_a_wrong_checksum_is_refused);
  tcase_add_test(tests, stored_block_with_a_wrong_checksum_is_refused);
  tcase_add_test(tests, footer_with_a_wrong_checksum_is_refused);
  suite_add_tcase(suite, tests);
  return harness_run(suite);
}
