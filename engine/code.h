/* Numbers as bytes: little-endian fixed widths, one by one and whole arrays, LEB128 varints, and a bounded
** reader for bytes that come from disk. Every format of the engine and of ext/ is built of these; checksums
** around them: stream.h. */
#ifndef KV_CODE_H
#define KV_CODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "buf.h"

#define KV_VARINT_BYTES_MAX 10 /* a u64 */

static inline uint16_t kv_get_u16(const uint8_t *p) {
  return (uint16_t)(p[0] | p[1] << 8);
}
static inline uint32_t kv_get_u32(const uint8_t *p) {
  return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}
static inline uint64_t kv_get_u64(const uint8_t *p) {
  return (uint64_t)kv_get_u32(p) | (uint64_t)kv_get_u32(p + 4) << 32;
}
static inline void kv_put_u16(uint8_t *p, uint16_t value) {
  p[0] = (uint8_t)value;
  p[1] = (uint8_t)(value >> 8);
}
static inline void kv_put_u32(uint8_t *p, uint32_t value) {
  kv_put_u16(p, (uint16_t)value);
  kv_put_u16(p + 2, (uint16_t)(value >> 16));
}
static inline void kv_put_u64(uint8_t *p, uint64_t value) {
  kv_put_u32(p, (uint32_t)value);
  kv_put_u32(p + 4, (uint32_t)(value >> 32));
}
/* Arrays: one copy where the machine is little-endian too. `p` may stand at any address, also where the
** numbers stand. */
void kv_get_u16s(uint16_t *into, const uint8_t *p, size_t n);
void kv_get_u32s(uint32_t *into, const uint8_t *p, size_t n);
void kv_get_u64s(uint64_t *into, const uint8_t *p, size_t n);
void kv_put_u16s(uint8_t *p, const uint16_t *values, size_t n);
void kv_put_u32s(uint8_t *p, const uint32_t *values, size_t n);
void kv_put_u64s(uint8_t *p, const uint64_t *values, size_t n);
/* Big-endian, for keys and for the 8-byte prefixes of fences. */
void kv_put_u64_be(uint8_t *p, uint64_t value);
static inline uint64_t kv_get_u64_be(const uint8_t *p) {
  return __builtin_bswap64(kv_get_u64(p));
}
/* The first 8 bytes of a key as a big-endian integer, zero-padded: orders as the key does, ties apart. */
static inline uint64_t kv_prefix64(struct kv_slice key) {
  if (key.size >= 8) return kv_get_u64_be(key.data);
  uint64_t prefix = 0;
  for (size_t i = 0; i < key.size; i++) prefix |= (uint64_t)key.data[i] << (56 - 8 * i);
  return prefix;
}

void kv_buf_append_u16(struct kv_buf *buf, uint16_t value);
void kv_buf_append_u32(struct kv_buf *buf, uint32_t value);
void kv_buf_append_u64(struct kv_buf *buf, uint64_t value);
void kv_buf_append_u16s(struct kv_buf *buf, const uint16_t *values, size_t n);
void kv_buf_append_u32s(struct kv_buf *buf, const uint32_t *values, size_t n);
void kv_buf_append_u64s(struct kv_buf *buf, const uint64_t *values, size_t n);
void kv_buf_append_varint(struct kv_buf *buf, uint64_t value);
/* varint length, then the bytes */
void kv_buf_append_slice(struct kv_buf *buf, struct kv_slice bytes);
/* Writes at most KV_VARINT_BYTES_MAX bytes; returns how many. */
size_t kv_put_varint_any(uint8_t *p, uint64_t value);
static inline size_t kv_put_varint(uint8_t *p, uint64_t value) {
  if (value >= 0x80) return kv_put_varint_any(p, value);
  *p = (uint8_t)value;
  return 1;
}
static inline size_t kv_varint_size(uint64_t value) {
  if (value < 0x80) return 1;
  size_t bits = 64 - (size_t)__builtin_clzll(value | 1);
  return (bits + 6) / 7;
}

/* A reader over borrowed bytes. Reading past the end, or a varint longer than 10 bytes or beyond 64
** bits, sets `failed`, and every later read gives 0 or an empty slice: check once at the end. */
struct kv_reader {
  const uint8_t *pos;
  const uint8_t *end;
  bool failed;
};
static inline void kv_reader_init(struct kv_reader *reader, struct kv_slice bytes) {
  *reader =
      (struct kv_reader){bytes.data, bytes.size ? bytes.data + bytes.size : bytes.data, false};
}
static inline size_t kv_reader_left(const struct kv_reader *reader) {
  return (size_t)(reader->end - reader->pos);
}
/* Ends it: as when the bytes had ended. */
void kv_reader_fail(struct kv_reader *reader);
/* The next `size` bytes, size > 0, or NULL after a failure. */
static inline const uint8_t *kv_reader_take(struct kv_reader *reader, size_t size) {
  const uint8_t *pos = reader->pos;
  if (kv_reader_left(reader) < size) {
    kv_reader_fail(reader);
    return NULL;
  }
  reader->pos += size;
  return pos;
}
static inline uint8_t kv_reader_u8(struct kv_reader *reader) {
  const uint8_t *p = kv_reader_take(reader, 1);
  return p ? *p : 0;
}
static inline uint16_t kv_reader_u16(struct kv_reader *reader) {
  const uint8_t *p = kv_reader_take(reader, 2);
  return p ? kv_get_u16(p) : 0;
}
static inline uint32_t kv_reader_u32(struct kv_reader *reader) {
  const uint8_t *p = kv_reader_take(reader, 4);
  return p ? kv_get_u32(p) : 0;
}
static inline uint64_t kv_reader_u64(struct kv_reader *reader) {
  const uint8_t *p = kv_reader_take(reader, 8);
  return p ? kv_get_u64(p) : 0;
}
/* Arrays of n numbers, all zeros after a failure. */
void kv_reader_u16s(struct kv_reader *reader, uint16_t *into, size_t n);
void kv_reader_u32s(struct kv_reader *reader, uint32_t *into, size_t n);
void kv_reader_u64s(struct kv_reader *reader, uint64_t *into, size_t n);
uint64_t kv_reader_varint_any(struct kv_reader *reader);
/* Mostly of one or two bytes. */
static inline uint64_t kv_reader_varint(struct kv_reader *reader) {
  const uint8_t *p = reader->pos;
  size_t left = kv_reader_left(reader);
  if (left && !(p[0] & 0x80)) {
    reader->pos = p + 1;
    return p[0];
  }
  if (left < 2 || p[1] & 0x80) return kv_reader_varint_any(reader);
  reader->pos = p + 2;
  return (p[0] & 0x7f) | (uint64_t)p[1] << 7;
}
/* The next `size` bytes, borrowed from the input. */
static inline struct kv_slice kv_reader_bytes(struct kv_reader *reader, uint64_t size) {
  if (size > kv_reader_left(reader)) kv_reader_fail(reader);
  if (!size || reader->failed) return kv_slice_of(reader->pos, 0);
  return kv_slice_of(kv_reader_take(reader, (size_t)size), (size_t)size);
}
/* varint length, then that many bytes */
struct kv_slice kv_reader_slice(struct kv_reader *reader);

#endif
