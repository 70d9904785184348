/* Slices and growing buffers.
**
** A buffer doubles, so appending n bytes one at a time costs O(n). After a failed growth the bytes
** that are there stay as they were and the status sticks until kv_buf_clear. Any thread; a buffer
** belongs to its owner. */
#include "buf.h"

#include <string.h>

#include "mem.h"

#define BUF_BYTES_MIN 64

int kv_slice_compare(struct kv_slice a, struct kv_slice b) {
  size_t shared = a.size < b.size ? a.size : b.size;
  int order = shared ? memcmp(a.data, b.data, shared) : 0;
  if (order) return order;
  return (a.size > b.size) - (a.size < b.size);
}

bool kv_slice_equal(struct kv_slice a, struct kv_slice b) {
  return a.size == b.size && (!a.size || !memcmp(a.data, b.data, a.size));
}

size_t kv_slice_shared_prefix(struct kv_slice a, struct kv_slice b) {
  size_t limit = a.size < b.size ? a.size : b.size;
  size_t shared = 0;
  while (limit - shared >= 8 && !memcmp(a.data + shared, b.data + shared, 8)) shared += 8;
  while (shared < limit && a.data[shared] == b.data[shared]) shared++;
  return shared;
}

void kv_buf_init(struct kv_buf *buf) {
  *buf = (struct kv_buf){0};
}

void kv_buf_release(struct kv_buf *buf) {
  kv_free(buf->data);
  kv_buf_init(buf);
}

void kv_buf_clear(struct kv_buf *buf) {
  buf->size = 0;
  buf->status = KV_OK;
}

/* Makes the capacity at least `needed`; doubles where size_t allows. */
static kv_status grow(struct kv_buf *buf, size_t needed) {
  size_t capacity = buf->capacity <= SIZE_MAX / 2 ? buf->capacity * 2 : needed;
  if (capacity < needed) capacity = needed;
  if (capacity < BUF_BYTES_MIN) capacity = BUF_BYTES_MIN;
  uint8_t *data = kv_realloc(buf->data, capacity, 1);
  if (!data) return buf->status = KV_NOMEM;
  buf->data = data;
  buf->capacity = capacity;
  return KV_OK;
}

kv_status kv_buf_reserve(struct kv_buf *buf, size_t more) {
  if (buf->status != KV_OK) return buf->status;
  if (buf->data && buf->capacity - buf->size >= more) return KV_OK;
  size_t needed;
  if (__builtin_add_overflow(buf->size, more, &needed)) return buf->status = KV_NOMEM;
  return grow(buf, needed);
}

void kv_buf_append(struct kv_buf *buf, const void *data, size_t size) {
  uint8_t *into = kv_buf_extend(buf, size);
  if (into && size) memcpy(into, data, size);
}

void kv_buf_append_byte(struct kv_buf *buf, uint8_t byte) {
  uint8_t *into = kv_buf_extend(buf, 1);
  if (into) *into = byte;
}

uint8_t *kv_buf_extend(struct kv_buf *buf, size_t size) {
  if (kv_buf_reserve(buf, size) != KV_OK) return NULL;
  uint8_t *into = buf->data + buf->size;
  buf->size += size;
  return into;
}
