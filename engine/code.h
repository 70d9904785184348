/* Numbers as bytes: little-endian fixed widths and LEB128 varints, and a bounded reader for bytes that
** come from disk. Every format of the engine and of ext/ is built of these. */
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
void kv_put_u16(uint8_t *p, uint16_t value);
void kv_put_u32(uint8_t *p, uint32_t value);
void kv_put_u64(uint8_t *p, uint64_t value);
/* Big-endian, for keys and for the 8-byte prefixes of fences. */
void kv_put_u64_be(uint8_t *p, uint64_t value);
uint64_t kv_get_u64_be(const uint8_t *p);
/* The first 8 bytes of a key as a big-endian integer, zero-padded: orders as the key does, ties apart. */
uint64_t kv_prefix64(struct kv_slice key);

void kv_buf_append_u16(struct kv_buf *buf, uint16_t value);
void kv_buf_append_u32(struct kv_buf *buf, uint32_t value);
void kv_buf_append_u64(struct kv_buf *buf, uint64_t value);
void kv_buf_append_varint(struct kv_buf *buf, uint64_t value);
/* varint length, then the bytes */
void kv_buf_append_slice(struct kv_buf *buf, struct kv_slice bytes);
/* Writes at most KV_VARINT_BYTES_MAX bytes; returns how many. */
size_t kv_put_varint(uint8_t *p, uint64_t value);
size_t kv_varint_size(uint64_t value);

/* A reader over borrowed bytes. Reading past the end, or a varint longer than 10 bytes or beyond 64
** bits, sets `failed`, and every later read gives 0 or an empty slice: check once at the end. */
struct kv_reader {
  const uint8_t *pos;
  const uint8_t *end;
  bool failed;
};
void kv_reader_init(struct kv_reader *reader, struct kv_slice bytes);
uint8_t kv_reader_u8(struct kv_reader *reader);
uint16_t kv_reader_u16(struct kv_reader *reader);
uint32_t kv_reader_u32(struct kv_reader *reader);
uint64_t kv_reader_u64(struct kv_reader *reader);
uint64_t kv_reader_varint(struct kv_reader *reader);
/* The next `size` bytes, borrowed from the input. */
struct kv_slice kv_reader_bytes(struct kv_reader *reader, uint64_t size);
/* varint length, then that many bytes */
struct kv_slice kv_reader_slice(struct kv_reader *reader);
size_t kv_reader_left(const struct kv_reader *reader);

#endif
