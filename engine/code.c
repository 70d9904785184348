/* Numbers as bytes, and the bounded reader.
**
** Fixed widths are little-endian whatever the machine is; varints are LEB128: seven bits a byte,
** lowest first, the top bit says that more follow. A reader that fails jumps to its end, so a loop
** over what is left ends too. Any thread. */
#include "code.h"

void kv_put_u16(uint8_t *p, uint16_t value) {
  p[0] = (uint8_t)value;
  p[1] = (uint8_t)(value >> 8);
}

void kv_put_u32(uint8_t *p, uint32_t value) {
  kv_put_u16(p, (uint16_t)value);
  kv_put_u16(p + 2, (uint16_t)(value >> 16));
}

void kv_put_u64(uint8_t *p, uint64_t value) {
  kv_put_u32(p, (uint32_t)value);
  kv_put_u32(p + 4, (uint32_t)(value >> 32));
}

void kv_put_u64_be(uint8_t *p, uint64_t value) {
  kv_put_u64(p, __builtin_bswap64(value));
}

uint64_t kv_get_u64_be(const uint8_t *p) {
  return __builtin_bswap64(kv_get_u64(p));
}

uint64_t kv_prefix64(struct kv_slice key) {
  if (key.size >= 8) return kv_get_u64_be(key.data);
  uint8_t padded[8] = {0};
  if (key.size) memcpy(padded, key.data, key.size);
  return kv_get_u64_be(padded);
}

void kv_buf_append_u16(struct kv_buf *buf, uint16_t value) {
  uint8_t *into = kv_buf_extend(buf, 2);
  if (into) kv_put_u16(into, value);
}

void kv_buf_append_u32(struct kv_buf *buf, uint32_t value) {
  uint8_t *into = kv_buf_extend(buf, 4);
  if (into) kv_put_u32(into, value);
}

void kv_buf_append_u64(struct kv_buf *buf, uint64_t value) {
  uint8_t *into = kv_buf_extend(buf, 8);
  if (into) kv_put_u64(into, value);
}

void kv_buf_append_varint(struct kv_buf *buf, uint64_t value) {
  uint8_t *into = kv_buf_extend(buf, kv_varint_size(value));
  if (into) kv_put_varint(into, value);
}

void kv_buf_append_slice(struct kv_buf *buf, struct kv_slice bytes) {
  kv_buf_append_varint(buf, bytes.size);
  kv_buf_append(buf, bytes.data, bytes.size);
}

size_t kv_put_varint(uint8_t *p, uint64_t value) {
  size_t size = 0;
  for (; value >= 0x80; value >>= 7) p[size++] = (uint8_t)(value | 0x80);
  p[size++] = (uint8_t)value;
  return size;
}

size_t kv_varint_size(uint64_t value) {
  size_t bits = 64 - (size_t)__builtin_clzll(value | 1);
  return (bits + 6) / 7;
}

void kv_reader_init(struct kv_reader *reader, struct kv_slice bytes) {
  *reader = (struct kv_reader){bytes.data, bytes.data, false};
  if (bytes.size) reader->end += bytes.size;
}

static void fail(struct kv_reader *reader) {
  reader->failed = true;
  reader->pos = reader->end;
}

/* The next `size` bytes, or NULL after a failure. Only for size > 0. */
static const uint8_t *take(struct kv_reader *reader, size_t size) {
  if (kv_reader_left(reader) < size) {
    fail(reader);
    return NULL;
  }
  const uint8_t *pos = reader->pos;
  reader->pos += size;
  return pos;
}

uint8_t kv_reader_u8(struct kv_reader *reader) {
  const uint8_t *p = take(reader, 1);
  return p ? *p : 0;
}

uint16_t kv_reader_u16(struct kv_reader *reader) {
  const uint8_t *p = take(reader, 2);
  return p ? kv_get_u16(p) : 0;
}

uint32_t kv_reader_u32(struct kv_reader *reader) {
  const uint8_t *p = take(reader, 4);
  return p ? kv_get_u32(p) : 0;
}

uint64_t kv_reader_u64(struct kv_reader *reader) {
  const uint8_t *p = take(reader, 8);
  return p ? kv_get_u64(p) : 0;
}

uint64_t kv_reader_varint(struct kv_reader *reader) {
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 64 && reader->pos < reader->end; shift += 7) {
    uint8_t byte = *reader->pos++;
    if (shift == 63 && byte > 1) break;
    value |= (uint64_t)(byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
  fail(reader);
  return 0;
}

struct kv_slice kv_reader_bytes(struct kv_reader *reader, uint64_t size) {
  if (size > kv_reader_left(reader)) fail(reader);
  if (!size || reader->failed) return kv_slice_of(reader->pos, 0);
  return kv_slice_of(take(reader, (size_t)size), (size_t)size);
}

struct kv_slice kv_reader_slice(struct kv_reader *reader) {
  uint64_t size = kv_reader_varint(reader);
  return kv_reader_bytes(reader, size);
}

size_t kv_reader_left(const struct kv_reader *reader) {
  return (size_t)(reader->end - reader->pos);
}
