/* See stream.h. The reader hashes what it has read of a piece when it leaves the piece, in one call; a
** message of one piece is hashed at once, without a state. So bulk reading costs one pass of the hash and
** one copy. Thread rule: a stream belongs to one thread; the rest are pure functions. */
#include "stream.h"

#include <string.h>

/* ---- Whole */

uint64_t kv_buf_append_checksum(struct kv_buf *buf, size_t start, uint64_t seed) {
  if (buf->status) return 0;
  uint64_t checksum = kv_hash_seeded(kv_slice_of(buf->data + start, buf->size - start), seed);
  kv_buf_append_u64(buf, checksum);
  return checksum;
}

bool kv_checksum_holds(struct kv_slice message, uint64_t seed) {
  if (message.size < KV_CHECKSUM_BYTES) return false;
  struct kv_slice content = kv_slice_of(message.data, message.size - KV_CHECKSUM_BYTES);
  return kv_hash_seeded(content, seed) == kv_get_u64(content.data + content.size);
}

/* ---- Writing in pieces */

void kv_stream_writer_init(struct kv_stream_writer *writer, struct kv_stream_sink sink,
                           size_t piece_bytes, uint64_t seed) {
  kv_buf_init(&writer->waiting);
  writer->sink = sink;
  writer->piece_bytes = piece_bytes;
  kv_hash_begin(&writer->hash, seed);
  writer->status = KV_OK;
}

void kv_stream_writer_release(struct kv_stream_writer *writer) {
  kv_buf_release(&writer->waiting);
}

static void hand_over(struct kv_stream_writer *writer, struct kv_slice piece) {
  if (writer->status == KV_OK && piece.size)
    writer->status = writer->sink.take(writer->sink.ctx, piece, &writer->err);
}

static void hand_over_waiting(struct kv_stream_writer *writer) {
  if (writer->status == KV_OK && writer->waiting.status != KV_OK)
    writer->status = kv_fail_nomem(&writer->err);
  hand_over(writer, kv_buf_slice(&writer->waiting));
  kv_buf_clear(&writer->waiting);
}

static void hash_waiting(struct kv_stream_writer *writer) {
  kv_hash_add(&writer->hash, kv_buf_slice(&writer->waiting));
}

void kv_stream_drain(struct kv_stream_writer *writer) {
  if (writer->waiting.status == KV_OK && writer->waiting.size < writer->piece_bytes) return;
  hash_waiting(writer);
  hand_over_waiting(writer);
}

void kv_stream_write(struct kv_stream_writer *writer, struct kv_slice bytes) {
  hash_waiting(writer);
  hand_over_waiting(writer);
  for (size_t at = 0, size; at < bytes.size; at += size) {
    size = bytes.size - at < writer->piece_bytes ? bytes.size - at : writer->piece_bytes;
    struct kv_slice piece = kv_slice_of(bytes.data + at, size);
    kv_hash_add(&writer->hash, piece);
    hand_over(writer, piece);
  }
}

kv_status kv_stream_writer_finish(struct kv_stream_writer *writer, struct kv_err *err) {
  hash_waiting(writer);
  writer->checksum = kv_hash_end(&writer->hash);
  kv_buf_append_u64(&writer->waiting, writer->checksum);
  hand_over_waiting(writer);
  return writer->status ? kv_fail(err, writer->status, "%s", writer->err.text) : KV_OK;
}

/* ---- Reading in pieces */

/* What was read of the piece and is in no hash yet. */
static struct kv_slice unhashed(const struct kv_stream_reader *reader) {
  return kv_slice_of(reader->unhashed, (size_t)(reader->piece.pos - reader->unhashed));
}

static void hash_piece(struct kv_stream_reader *reader) {
  struct kv_slice bytes = unhashed(reader);
  if (!bytes.size) return;
  if (!reader->hashing) kv_hash_begin(&reader->hash, reader->seed);
  reader->hashing = true;
  kv_hash_add(&reader->hash, bytes);
}

/* The next piece; false at the end and after a failure. The piece before has been hashed. */
static bool next_piece(struct kv_stream_reader *reader) {
  struct kv_slice piece = {0};
  if (reader->status == KV_OK)
    reader->status = reader->source.next(reader->source.ctx, &piece, &reader->err);
  if (reader->status != KV_OK) piece = kv_slice_of(NULL, 0);
  kv_reader_init(&reader->piece, piece);
  reader->unhashed = piece.data;
  return piece.size > 0;
}

void kv_stream_reader_init(struct kv_stream_reader *reader, struct kv_stream_source source,
                           uint64_t seed) {
  reader->source = source;
  reader->seed = seed;
  reader->hashing = false;
  reader->status = KV_OK;
  (void)next_piece(reader);
}

/* Copies as many bytes as the message has, or passes over them (NULL); gives how many. `hashed`: they are
** part of what the checksum covers. */
static size_t read_split(struct kv_stream_reader *reader, uint8_t *into, size_t size, bool hashed) {
  size_t done = 0;
  while (done < size) {
    size_t left = kv_reader_left(&reader->piece);
    size_t part = left < size - done ? left : size - done;
    const uint8_t *from = part ? kv_reader_take(&reader->piece, part) : NULL;
    if (into && part) memcpy(into + done, from, part);
    done += part;
    if (done == size) break;
    if (hashed) hash_piece(reader);
    if (!next_piece(reader)) break;
  }
  return done;
}

/* The same. Mostly the piece has them all. */
static inline size_t read_bytes(struct kv_stream_reader *reader, uint8_t *into, size_t size,
                                bool hashed) {
  if (kv_reader_left(&reader->piece) < size || !size) return read_split(reader, into, size, hashed);
  const uint8_t *from = kv_reader_take(&reader->piece, size);
  if (into) memcpy(into, from, size);
  return size;
}

/* Whether there were as many. */
static bool read_hashed(struct kv_stream_reader *reader, void *into, size_t size) {
  if (read_bytes(reader, into, size, true) == size) return true;
  if (reader->status == KV_OK)
    reader->status = kv_fail(&reader->err, KV_CORRUPT, "the message is cut short");
  return false;
}

void kv_stream_bytes(struct kv_stream_reader *reader, void *into, size_t size) {
  if (!read_hashed(reader, into, size)) memset(into, 0, size);
}

void kv_stream_skip(struct kv_stream_reader *reader, size_t size) {
  (void)read_hashed(reader, NULL, size);
}

uint8_t kv_stream_u8(struct kv_stream_reader *reader) {
  uint8_t value;
  kv_stream_bytes(reader, &value, sizeof value);
  return value;
}

uint16_t kv_stream_u16(struct kv_stream_reader *reader) {
  uint16_t value;
  kv_stream_u16s(reader, &value, 1);
  return value;
}

uint32_t kv_stream_u32(struct kv_stream_reader *reader) {
  uint32_t value;
  kv_stream_u32s(reader, &value, 1);
  return value;
}

uint64_t kv_stream_u64(struct kv_stream_reader *reader) {
  uint64_t value;
  kv_stream_u64s(reader, &value, 1);
  return value;
}

void kv_stream_u16s(struct kv_stream_reader *reader, uint16_t *into, size_t n) {
  kv_stream_bytes(reader, into, n * sizeof *into);
  kv_get_u16s(into, (const uint8_t *)into, n);
}

void kv_stream_u32s(struct kv_stream_reader *reader, uint32_t *into, size_t n) {
  kv_stream_bytes(reader, into, n * sizeof *into);
  kv_get_u32s(into, (const uint8_t *)into, n);
}

void kv_stream_u64s(struct kv_stream_reader *reader, uint64_t *into, size_t n) {
  kv_stream_bytes(reader, into, n * sizeof *into);
  kv_get_u64s(into, (const uint8_t *)into, n);
}

static uint64_t hash_so_far(struct kv_stream_reader *reader) {
  if (!reader->hashing) return kv_hash_seeded(unhashed(reader), reader->seed);
  hash_piece(reader);
  return kv_hash_end(&reader->hash);
}

kv_status kv_stream_reader_finish(struct kv_stream_reader *reader, struct kv_err *err) {
  uint8_t stated[KV_CHECKSUM_BYTES];
  uint64_t found = hash_so_far(reader);
  size_t size = read_bytes(reader, stated, sizeof stated, false);
  bool more = kv_reader_left(&reader->piece) > 0 || next_piece(reader);
  if (reader->status) return kv_fail(err, reader->status, "%s", reader->err.text);
  if (size < sizeof stated) return kv_fail(err, KV_CORRUPT, "the message is cut short");
  reader->checksum = kv_get_u64(stated);
  if (reader->checksum != found) return kv_fail(err, KV_CORRUPT, "bad checksum");
  return more ? kv_fail(err, KV_CORRUPT, "bytes behind the message") : KV_OK;
}
