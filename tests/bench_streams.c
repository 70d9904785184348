/* B6: arrays of numbers behind a checksum. The limit is one hash over the bytes and one copy; byte by byte is
** what a careless reader does. */
#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "bench.h"
#include "code.h"
#include "hash.h"

struct stream {
  size_t count; /* numbers */
  size_t times; /* a round */
  uint8_t *bytes;
  uint64_t *numbers; /* read into */
};

static uint64_t last_of(const struct stream *stream) {
  return stream->numbers[0] + 31 * stream->numbers[stream->count - 1];
}

static uint64_t hash_only(struct bench_lane *lane, size_t round) {
  const struct stream *stream = lane->with;
  (void)round;
  uint64_t sum = 0;
  for (size_t i = 0; i < stream->times; i++) {
    sum ^= XXH3_64bits_withSeed(stream->bytes, stream->count * 8, i);
    memcpy(stream->numbers, stream->bytes, stream->count * 8);
    __asm__ volatile("" : : "r"(stream->numbers), "r"(sum) : "memory");
  }
  return last_of(stream);
}

static uint64_t one_by_one(struct bench_lane *lane, size_t round) {
  const struct stream *stream = lane->with;
  (void)round;
  for (size_t i = 0; i < stream->times; i++) {
    struct kv_reader reader;
    struct kv_slice bytes = kv_slice_of(stream->bytes, stream->count * 8);
    kv_reader_init(&reader, bytes);
    uint64_t sum = kv_hash_seeded(bytes, i);
    for (size_t j = 0; j < stream->count; j++) stream->numbers[j] = kv_reader_u64(&reader);
    __asm__ volatile("" : : "r"(stream->numbers), "r"(sum) : "memory");
    bench_need(!reader.failed, "the stream ends early");
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
    XXH3_64bits_reset_withSeed(&state, i);
    kv_reader_init(&reader, kv_slice_of(stream->bytes, stream->count * 8));
    for (size_t j = 0; j < stream->count * 8; j++) {
      uint8_t byte = kv_reader_u8(&reader);
      feed(&state, &byte, 1);
      ((uint8_t *)stream->numbers)[j] = byte;
    }
    uint64_t sum = XXH3_64bits_digest(&state);
    __asm__ volatile("" : : "r"(stream->numbers), "r"(sum) : "memory");
  }
  return last_of(stream);
}

static void compare(size_t count) {
  size_t numbers_a_round = bench_by_scale(10000, 1000000, 4000000);
  size_t rounds = bench_by_scale(2, 7, 15);
  struct stream stream = {count, numbers_a_round / count / 4 + 1, malloc(count * 8),
                          malloc(count * 8)};
  for (size_t i = 0; i < count; i++) kv_put_u64(stream.bytes + i * 8, i * 0x9e3779b97f4a7c15u);
  static struct bench_case table;
  uint64_t expected[BENCH_ROUNDS_MAX];
  for (size_t i = 0; i <= rounds; i++) {
    expected[i] = kv_get_u64(stream.bytes) + 31 * kv_get_u64(stream.bytes + count * 8 - 8);
  }
  bench_case_init(&table, "B6", "ns", "an array of %zu numbers behind its checksum", count);
  bench_add(&table, "limit: one hash, one copy", hash_only, NULL, &stream);
  bench_not_there(&table, "colfam bulk reader", "not there yet");
  bench_add(&table, "colfam one by one", one_by_one, NULL, &stream);
  bench_add(&table, "byte by byte", byte_by_byte, NULL, &stream);
  bench_goal(&table, "colfam bulk reader", count >= 1000 ? 1.15 : 3, "limit: one hash, one copy");
  bench_time(&table, rounds, (double)stream.times, expected);
  bench_print(&table);
  free(stream.bytes);
  free(stream.numbers);
}

int main(void) {
  compare(10);
  compare(1000);
  compare(100000);
  return 0;
}
