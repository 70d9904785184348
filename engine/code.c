/* Numbers as bytes, and the bounded reader.
**
** Fixed widths are little-endian whatever the machine is; varints are LEB128: seven bits a byte,
** lowest first, the top bit says that more follow. A reader that fails jumps to its end, so a loop
** over what is left ends too. Any thread. */
#include "code.h"

/* ---- Arrays */

#define IS_LITTLE (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__)

static void copy(void *to, const void *from, size_t size) {
  if (size && to != from) memcpy(to, from, size);
}

void kv_get_u16s(uint16_t *into, const uint8_t *p, size_t n) {
  if (IS_LITTLE)
    copy(into, p, n * 2);
  else
    for (size_t i = 0; i < n; i++) into[i] = kv_get_u16(p + i * 2);
}

void kv_get_u32s(uint32_t *into, const uint8_t *p, size_t n) {
  if (IS_LITTLE)
    copy(into, p, n * 4);
  else
    for (size_t i = 0; i < n; i++) into[i] = kv_get_u32(p + i * 4);
}

void kv_get_u64s(uint64_t *into, const uint8_t *p, size_t n) {
  if (IS_LITTLE)
    copy(into, p, n * 8);
  else
    for (size_t i = 0; i < n; i++) into[i] = kv_get_u64(p + i * 8);
}

void kv_put_u16s(uint8_t *p, const uint16_t *values, size_t n) {
  if (IS_LITTLE)
    copy(p, values, n * 2);
  else
    for (size_t i = 0; i < n; i++) kv_put_u16(p + i * 2, values[i]);
}

void kv_put_u32s(uint8_t *p, const uint32_t *values, size_t n) {
  if (IS_LITTLE)
    copy(p, values, n * 4);
  else
    for (size_t i = 0; i < n; i++) kv_put_u32(p + i * 4, values[i]);
}

void kv_put_u64s(uint8_t *p, const uint64_t *values, size_t n) {
  if (IS_LITTLE)
    copy(p, values, n * 8);
  else
    for (size_t i = 0; i < n; i++) kv_put_u64(p + i * 8, values[i]);
}

void kv_put_u64_be(uint8_t *p, uint64_t value) {
  kv_put_u64(p, __builtin_bswap64(value));
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

/* Room for n numbers, or NULL after a failure. */
static uint8_t *extend_array(struct kv_buf *buf, size_t n, size_t width) {
  size_t size;
  if (__builtin_mul_overflow(n, width, &size)) {
    buf->status = KV_NOMEM;
    return NULL;
  }
  return kv_buf_extend(buf, size);
}

void kv_buf_append_u16s(struct kv_buf *buf, const uint16_t *values, size_t n) {
  uint8_t *into = extend_array(buf, n, 2);
  if (into) kv_put_u16s(into, values, n);
}

void kv_buf_append_u32s(struct kv_buf *buf, const uint32_t *values, size_t n) {
  uint8_t *into = extend_array(buf, n, 4);
  if (into) kv_put_u32s(into, values, n);
}

void kv_buf_append_u64s(struct kv_buf *buf, const uint64_t *values, size_t n) {
  uint8_t *into = extend_array(buf, n, 8);
  if (into) kv_put_u64s(into, values, n);
}

void kv_buf_append_varint(struct kv_buf *buf, uint64_t value) {
  uint8_t *into = kv_buf_extend(buf, kv_varint_size(value));
  if (into) kv_put_varint(into, value);
}

void kv_buf_append_slice(struct kv_buf *buf, struct kv_slice bytes) {
  kv_buf_append_varint(buf, bytes.size);
  kv_buf_append(buf, bytes.data, bytes.size);
}

size_t kv_put_varint_any(uint8_t *p, uint64_t value) {
  size_t size = 0;
  for (; value >= 0x80; value >>= 7) p[size++] = (uint8_t)(value | 0x80);
  p[size++] = (uint8_t)value;
  return size;
}

void kv_reader_fail(struct kv_reader *reader) {
  reader->failed = true;
  reader->pos = reader->end;
}

static void zero(void *into, size_t size) {
  if (size) memset(into, 0, size);
}

/* The bytes of n numbers, or NULL after a failure. */
static const uint8_t *take_array(struct kv_reader *reader, size_t n, size_t width) {
  if (n <= kv_reader_left(reader) / width) return kv_reader_take(reader, n * width);
  kv_reader_fail(reader);
  return NULL;
}

void kv_reader_u16s(struct kv_reader *reader, uint16_t *into, size_t n) {
  const uint8_t *from = take_array(reader, n, 2);
  if (from)
    kv_get_u16s(into, from, n);
  else
    zero(into, n * 2);
}

void kv_reader_u32s(struct kv_reader *reader, uint32_t *into, size_t n) {
  const uint8_t *from = take_array(reader, n, 4);
  if (from)
    kv_get_u32s(into, from, n);
  else
    zero(into, n * 4);
}

void kv_reader_u64s(struct kv_reader *reader, uint64_t *into, size_t n) {
  const uint8_t *from = take_array(reader, n, 8);
  if (from)
    kv_get_u64s(into, from, n);
  else
    zero(into, n * 8);
}

uint64_t kv_reader_varint_any(struct kv_reader *reader) {
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 64 && reader->pos < reader->end; shift += 7) {
    uint8_t byte = *reader->pos++;
    if (shift == 63 && byte > 1) break;
    value |= (uint64_t)(byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
  kv_reader_fail(reader);
  return 0;
}

struct kv_slice kv_reader_slice(struct kv_reader *reader) {
  uint64_t size = kv_reader_varint(reader);
  return kv_reader_bytes(reader, size);
}
