/* Messages: numbers, arrays and bytes with their checksum, a u64, behind them.
**
** One that is whole in memory is verified first, and then read with a kv_reader (code.h): nothing is believed
** before its checksum was found right. One that is too large for that goes through a stream, in pieces: its
** arrays are copied from piece to piece, numbers may stand in two of them, and the checksum runs along; what
** was read may be believed once `finish` has said that it holds. Both are of the same bytes. */
#ifndef KV_STREAM_H
#define KV_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "buf.h"
#include "code.h"
#include "hash.h"
#include "status.h"

#define KV_CHECKSUM_BYTES ((size_t)8)

/* Appends the checksum of what the buffer has from `start` on, and gives it; nothing after a failure. */
uint64_t kv_buf_append_checksum(struct kv_buf *buf, size_t start, uint64_t seed);
/* Whether `message` ends with the checksum of what stands before it. */
bool kv_checksum_holds(struct kv_slice message, uint64_t seed);

/* ---- Writing in pieces */

struct kv_stream_sink {
  /* Takes the next bytes of the message; they are borrowed for the call. */
  kv_status (*take)(void *ctx, struct kv_slice piece, struct kv_err *err);
  void *ctx;
};
/* A buffer in front of a sink: the message is appended to `waiting` by what code.h and buf.h have, and
** kv_stream_drain called now and then; long bytes go past the buffer, uncopied. Failures stick: finish gives
** the first. */
struct kv_stream_writer {
  struct kv_buf waiting; /* not hashed, and not with the sink yet */
  struct kv_stream_sink sink;
  size_t piece_bytes;
  struct kv_hash_state hash;
  uint64_t checksum; /* from finish on */
  kv_status status;
  struct kv_err err;
};
void kv_stream_writer_init(struct kv_stream_writer *writer, struct kv_stream_sink sink,
                           size_t piece_bytes, uint64_t seed);
void kv_stream_writer_release(struct kv_stream_writer *writer);
/* Hands over what waits, from piece_bytes on. */
void kv_stream_drain(struct kv_stream_writer *writer);
/* Hands over what waits, and these bytes in pieces of piece_bytes. */
void kv_stream_write(struct kv_stream_writer *writer, struct kv_slice bytes);
/* Ends the message with its checksum, and hands over all. */
kv_status kv_stream_writer_finish(struct kv_stream_writer *writer, struct kv_err *err);

/* ---- Reading in pieces */

struct kv_stream_source {
  /* The next piece, of any size, borrowed until the next call; an empty one is the end. */
  kv_status (*next)(void *ctx, struct kv_slice *piece, struct kv_err *err);
  void *ctx;
};
/* After a failure, or behind the end, all numbers are 0: ask once, at finish. */
struct kv_stream_reader {
  struct kv_stream_source source;
  struct kv_reader piece;
  const uint8_t *unhashed; /* in the piece: from here to its pos */
  uint64_t seed;
  bool hashing; /* pieces went before this one: hash has them */
  struct kv_hash_state hash;
  uint64_t checksum; /* that the message ends with: from finish on */
  kv_status status;
  struct kv_err err;
};
/* Asks for the first piece. */
void kv_stream_reader_init(struct kv_stream_reader *reader, struct kv_stream_source source,
                           uint64_t seed);
uint8_t kv_stream_u8(struct kv_stream_reader *reader);
uint16_t kv_stream_u16(struct kv_stream_reader *reader);
uint32_t kv_stream_u32(struct kv_stream_reader *reader);
uint64_t kv_stream_u64(struct kv_stream_reader *reader);
void kv_stream_u16s(struct kv_stream_reader *reader, uint16_t *into, size_t n);
void kv_stream_u32s(struct kv_stream_reader *reader, uint32_t *into, size_t n);
void kv_stream_u64s(struct kv_stream_reader *reader, uint64_t *into, size_t n);
void kv_stream_bytes(struct kv_stream_reader *reader, void *into, size_t size);
/* Passes over bytes, for their checksum alone. */
void kv_stream_skip(struct kv_stream_reader *reader, size_t size);
/* Reads the checksum that stands where the reader is and holds it against what was read. KV_CORRUPT when they
** differ, or when the message has ended before, or goes on behind it. */
kv_status kv_stream_reader_finish(struct kv_stream_reader *reader, struct kv_err *err);

#endif
