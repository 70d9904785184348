/* B6: arrays of numbers with their checksum, read whole and in pieces. The limit is one hash over the bytes,
** by the same call, and one copy, as reading into the caller's array must make; the hash alone stands beside
** it. Byte by byte is what a careless reader does. Processor time, nanoseconds an array in memory. */
#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "bench.h"
#include "stream.h"

#define SEED 6
#define PIECE_BYTES ((size_t)64 << 10)

struct stream {
  size_t count;      /* numbers */
  size_t times;      /* a round */
  uint8_t *bytes;    /* the numbers and their checksum */
  uint64_t *numbers; /* read into */
};

static uint64_t last_of(const struct stream *stream) {
  return stream->numbers[0] + 31 * stream->numbers[stream->count - 1];
}

/* What was read is not taken for unused. */
static void used(const struct stream *stream, uint64_t sum) {
  __asm__ volatile("" : : "r"(stream->numbers), "r"(sum) : "memory");
}

static struct kv_slice content_of(const struct stream *stream) {
  return kv_slice_of(stream->bytes, stream->count * 8);
}

static struct kv_slice message_of(const struct stream *stream) {
  return kv_slice_of(stream->bytes, stream->count * 8 + KV_CHECKSUM_BYTES);
}

/* Its sum is made to be what the others give: nothing is read into the array. */
static uint64_t hash_alone(struct bench_lane *lane, size_t round) {
  const struct stream *stream = lane->with;
  (void)round;
  for (size_t i = 0; i < stream->times; i++) used(stream, kv_hash_seeded(content_of(stream), SEED));
  return kv_get_u64(stream->bytes) + 31 * kv_get_u64(stream->bytes + stream->count * 8 - 8);
}

static uint64_t hash_and_copy(struct bench_lane *lane, size_t round) {
  const struct stream *stream = lane->with;
  struct kv_slice content = content_of(stream);
  (void)round;
  for (size_t i = 0; i < stream->times; i++) {
    uint64_t sum = kv_hash_seeded(content, SEED);
    memcpy(stream->numbers, content.data, content.size);
    used(stream, sum);
  }
  return last_of(stream);
}

static uint64_t bulk(struct bench_lane *lane, size_t round) {
  const struct stream *stream = lane->with;
  (void)round;
  size_t good = 0;
  for (size_t i = 0; i < stream->times; i++) {
    struct kv_reader reader;
    bool holds = kv_checksum_holds(message_of(stream), SEED);
    kv_reader_init(&reader, content_of(stream));
    kv_reader_u64s(&reader, stream->numbers, stream->count);
    used(stream, holds);
    good += holds && !reader.failed;
  }
  bench_need(good == stream->times, "the message does not hold");
  return last_of(stream);
}

static kv_status next_piece(void *ctx, struct kv_slice *piece, struct kv_err *err) {
  struct kv_slice *left = ctx;
  (void)err;
  *piece = kv_slice_of(left->data, left->size < PIECE_BYTES ? left->size : PIECE_BYTES);
  *left = kv_slice_of(left->data + piece->size, left->size - piece->size);
  return KV_OK;
}

static uint64_t bulk_in_pieces(struct bench_lane *lane, size_t round) {
  const struct stream *stream = lane->with;
  (void)round;
  for (size_t i = 0; i < stream->times; i++) {
    struct kv_slice left = message_of(stream);
    struct kv_stream_reader reader;
    kv_stream_reader_init(&reader, (struct kv_stream_source){next_piece, &left}, SEED);
    kv_stream_u64s(&reader, stream->numbers, stream->count);
    kv_status status = kv_stream_reader_finish(&reader, NULL);
    used(stream, status);
    bench_need(status == KV_OK, "the message does not hold");
  }
  return last_of(stream);
}

static uint64_t one_by_one(struct bench_lane *lane, size_t round) {
  const struct stream *stream = lane->with;
  (void)round;
  for (size_t i = 0; i < stream->times; i++) {
    struct kv_reader reader;
    bool holds = kv_checksum_holds(message_of(stream), SEED);
    kv_reader_init(&reader, content_of(stream));
    for (size_t j = 0; j < stream->count; j++) {
      stream->numbers[j] = kv_reader_u64(&reader);
      __asm__ volatile("" : : : "memory"); /* as between other reads: no loop of vectors */
    }
    used(stream, holds);
    bench_need(holds && !reader.failed, "the message does not hold");
  }
  return last_of(stream);
}

/* By a pointer that the compiler cannot see through, as a call into another library is. */
static XXH_errorcode (*volatile feed)(XXH3_state_t *, const void *, size_t) = XXH3_64bits_update;

static uint64_t byte_by_byte(struct bench_lane *lane, size_t round) {
  const struct stream *stream = lane->with;
  (void)round;
  for (size_t i = 0; i < stream->times; i++) {
    struct kv_reader reader;
    XXH3_state_t state;
    XXH3_INITSTATE(&state);
    XXH3_64bits_reset_withSeed(&state, SEED);
    kv_reader_init(&reader, kv_slice_of(stream->bytes, stream->count * 8));
    for (size_t j = 0; j < stream->count * 8; j++) {
      uint8_t byte = kv_reader_u8(&reader);
      feed(&state, &byte, 1);
      ((uint8_t *)stream->numbers)[j] = byte;
    }
    uint64_t sum = XXH3_64bits_digest(&state);
    used(stream, sum);
  }
  return last_of(stream);
}

static void compare(size_t count) {
  size_t numbers_a_round = bench_by_scale(10000, 1000000, 4000000);
  size_t rounds = bench_by_scale(2, 7, 15);
  struct stream stream = {count, numbers_a_round / count / 4 + 1,
                          malloc(count * 8 + KV_CHECKSUM_BYTES), malloc(count * 8)};
  for (size_t i = 0; i < count; i++) kv_put_u64(stream.bytes + i * 8, i * 0x9e3779b97f4a7c15u);
  kv_put_u64(stream.bytes + count * 8, kv_hash_seeded(content_of(&stream), SEED));
  static struct bench_case table;
  uint64_t expected[BENCH_ROUNDS_MAX];
  for (size_t i = 0; i <= rounds; i++) {
    expected[i] = kv_get_u64(stream.bytes) + 31 * kv_get_u64(stream.bytes + count * 8 - 8);
  }
  bench_case_init(&table, "B6", "ns", "an array of %zu numbers behind its checksum", count);
  bench_add(&table, "limit: the hash alone", hash_alone, NULL, &stream);
  bench_add(&table, "limit: one hash, one copy", hash_and_copy, NULL, &stream);
  bench_add(&table, "colfam bulk", bulk, NULL, &stream);
  bench_add(&table, "colfam bulk, in pieces", bulk_in_pieces, NULL, &stream);
  bench_add(&table, "colfam one by one", one_by_one, NULL, &stream);
  bench_add(&table, "byte by byte", byte_by_byte, NULL, &stream);
  double goal = count >= 1000 ? 1.15 : 3;
  bench_goal(&table, "colfam bulk", goal, "limit: one hash, one copy");
  bench_goal(&table, "colfam bulk, in pieces", goal, "limit: one hash, one copy");
  bench_time(&table, rounds, (double)stream.times, expected);
  bench_print(&table);
  free(stream.bytes);
  free(stream.numbers);
}

int main(void) {
  bench_print_build();
  compare(10);
  compare(1000);
  compare(100000);
  return 0;
}
