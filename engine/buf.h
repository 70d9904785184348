/* Byte ranges: a borrowed slice and an owned, growing buffer with a sticky status. */
#ifndef KV_BUF_H
#define KV_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
int kv_slice_compare(struct kv_slice a, struct kv_slice b);
bool kv_slice_equal(struct kv_slice a, struct kv_slice b);
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
void kv_buf_init(struct kv_buf *buf);
void kv_buf_release(struct kv_buf *buf);
/* Empties it and forgets the sticky status; keeps the memory. */
void kv_buf_clear(struct kv_buf *buf);
/* Room for `more` bytes beyond size. */
kv_status kv_buf_reserve(struct kv_buf *buf, size_t more);
void kv_buf_append(struct kv_buf *buf, const void *data, size_t size);
void kv_buf_append_byte(struct kv_buf *buf, uint8_t byte);
/* `size` bytes at the end to be written by the caller (uninitialised), or NULL after a failure. */
uint8_t *kv_buf_extend(struct kv_buf *buf, size_t size);
static inline struct kv_slice kv_buf_slice(const struct kv_buf *buf) {
  return (struct kv_slice){buf->data, buf->size};
}

#endif
