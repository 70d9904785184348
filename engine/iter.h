/* The iterator over sorted entries that batch, memtable, table and merge implement. It shows
** tombstones; hiding them is the reader's work (read.c).
** State machine: new -> (seek_first | seek_last | seek) -> next/prev while valid. At an end `valid` is
** false and stays so until the next seek. An error makes it invalid, with `status` and `err` filled and
** kept: check status when valid turns false. key and value are borrowed until the next move. */
#ifndef KV_ITER_H
#define KV_ITER_H

#include <stdbool.h>

#include "buf.h"
#include "status.h"

struct kv_iter;
struct kv_iter_ops {
  void (*seek)(struct kv_iter *iter, struct kv_slice key); /* to the first entry >= key */
  void (*seek_first)(struct kv_iter *iter);
  void (*seek_last)(struct kv_iter *iter);
  void (*next)(struct kv_iter *iter);
  void (*prev)(struct kv_iter *iter);
  void (*free)(struct kv_iter *iter);
};
struct kv_iter {
  const struct kv_iter_ops *ops;
  bool valid;
  bool deleted; /* the entry is a tombstone: value is empty */
  bool apart;   /* value is a reference to it (apart.h) */
  struct kv_slice key;
  struct kv_slice value;
  kv_status status;
  struct kv_err err;
};

static inline void kv_iter_seek(struct kv_iter *iter, struct kv_slice key) {
  iter->ops->seek(iter, key);
}
static inline void kv_iter_seek_first(struct kv_iter *iter) {
  iter->ops->seek_first(iter);
}
static inline void kv_iter_seek_last(struct kv_iter *iter) {
  iter->ops->seek_last(iter);
}
static inline void kv_iter_next(struct kv_iter *iter) {
  iter->ops->next(iter);
}
static inline void kv_iter_prev(struct kv_iter *iter) {
  iter->ops->prev(iter);
}
static inline void kv_iter_free(struct kv_iter *iter) {
  if (iter) iter->ops->free(iter);
}

#endif
