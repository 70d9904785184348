/* Slices and growing buffers.
**
** A buffer doubles, so appending n bytes one at a time costs O(n). After a failed growth the bytes
** that are there stay as they were and the status sticks until kv_buf_clear. Any thread; a buffer
** belongs to its owner. */
#include "buf.h"

#include <string.h>

#include "mem.h"

#define BUF_BYTES_MIN 64

size_t kv_slice_shared_prefix(struct kv_slice a, struct kv_slice b) {
  size_t limit = a.size < b.size ? a.size : b.size;
  size_t shared = 0;
  while (limit - shared >= 8 && !memcmp(a.data + shared, b.data + shared, 8)) shared += 8;
  while (shared < limit && a.data[shared] == b.data[shared]) shared++;
  return shared;
}

void kv_buf_release(struct kv_buf *buf) {
  kv_free(buf->data);
  kv_buf_init(buf);
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

kv_status kv_buf_grow(struct kv_buf *buf, size_t more) {
  if (buf->status != KV_OK) return buf->status;
  size_t needed;
  if (__builtin_add_overflow(buf->size, more, &needed)) return buf->status = KV_NOMEM;
  return grow(buf, needed);
}
