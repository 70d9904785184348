/* Byte ranges: a borrowed slice and an owned, growing buffer with a sticky status. */
#ifndef KV_BUF_H
#define KV_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "status.h"

/* Borrowed bytes; whoever hands one out says until when. data may be NULL when size is 0. */
struct kv_slice {
  const uint8_t *data;
  size_t size; /* bytes */
};

static inline struct kv_slice kv_slice_of(const void *data, size_t size) {
  return (struct kv_slice){(const uint8_t *)data, size};
}
/* memcmp order, a prefix before what it begins: <0, 0, >0. This is the order of keys. */
static inline int kv_slice_compare(struct kv_slice a, struct kv_slice b) {
  size_t shared = a.size < b.size ? a.size : b.size;
  int order = shared ? memcmp(a.data, b.data, shared) : 0;
  return order ? order : (a.size > b.size) - (a.size < b.size);
}
static inline bool kv_slice_equal(struct kv_slice a, struct kv_slice b) {
  return a.size == b.size && (!a.size || !memcmp(a.data, b.data, a.size));
}
/* Bytes that a and b have in common at the front. */
size_t kv_slice_shared_prefix(struct kv_slice a, struct kv_slice b);

/* Owned bytes. Builders append and check `status` once at the end: after a failed append every further
** append does nothing and `size` keeps its value. */
struct kv_buf {
  uint8_t *data;
  size_t size;
  size_t capacity;
  kv_status status; /* KV_OK or KV_NOMEM */
};
static inline void kv_buf_init(struct kv_buf *buf) {
  *buf = (struct kv_buf){0};
}
void kv_buf_release(struct kv_buf *buf);
/* Empties it and forgets the sticky status; keeps the memory. */
static inline void kv_buf_clear(struct kv_buf *buf) {
  buf->size = 0;
  buf->status = KV_OK;
}
/* Makes room for `more` bytes beyond size where there is none, or gives the sticky status. */
kv_status kv_buf_grow(struct kv_buf *buf, size_t more);
/* Room for `more` bytes beyond size. */
static inline kv_status kv_buf_reserve(struct kv_buf *buf, size_t more) {
  bool fits = buf->status == KV_OK && buf->data && buf->capacity - buf->size >= more;
  return fits ? KV_OK : kv_buf_grow(buf, more);
}
/* `size` bytes at the end to be written by the caller (uninitialised), or NULL after a failure. */
static inline uint8_t *kv_buf_extend(struct kv_buf *buf, size_t size) {
  if (kv_buf_reserve(buf, size) != KV_OK) return NULL;
  uint8_t *into = buf->data + buf->size;
  buf->size += size;
  return into;
}
static inline void kv_buf_append(struct kv_buf *buf, const void *data, size_t size) {
  uint8_t *into = kv_buf_extend(buf, size);
  if (into && size) memcpy(into, data, size);
}
static inline void kv_buf_append_byte(struct kv_buf *buf, uint8_t byte) {
  uint8_t *into = kv_buf_extend(buf, 1);
  if (into) *into = byte;
}
static inline struct kv_slice kv_buf_slice(const struct kv_buf *buf) {
  return (struct kv_slice){buf->data, buf->size};
}

#endif
