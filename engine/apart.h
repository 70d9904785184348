/* Values stored apart from their keys: the reference that stands beside the key in place of the value, and
** the list of value files that a key file's references name (FORMAT.md, Values apart). A value file is a
** table file with the keys and whole values of such entries. A key is in it once, so the key and the file's
** id name the value; the reference tells too where it stands, so that nobody need look for it.
** Thread rule: pure functions; a list belongs to one thread. */
#ifndef KV_APART_H
#define KV_APART_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "buf.h"
#include "status.h"

struct kv_apart {
  uint64_t file;  /* the value file's id */
  uint32_t block; /* in it, and the entry in the block: */
  uint32_t offset;
  uint64_t size;        /* of the value, bytes */
  struct kv_slice head; /* what of it stands beside the key: the caller's choice (kv_head_fn) */
};
void kv_apart_append(struct kv_buf *out, const struct kv_apart *apart);
/* false when the bytes are no reference. The head is borrowed from them. */
bool kv_apart_parse(struct kv_slice bytes, struct kv_apart *apart);
/* Of a sound one, borrowed from it. */
struct kv_slice kv_apart_head(struct kv_slice reference);

/* What refers to one value file. */
struct kv_value_use {
  uint64_t file;
  uint64_t count; /* references */
  uint64_t bytes; /* of their values */
};
/* Sorted by file. Zero-initialise. */
struct kv_value_uses {
  struct kv_value_use *uses; /* owned */
  size_t count, capacity;
};
void kv_value_uses_release(struct kv_value_uses *uses);
kv_status kv_value_uses_add(struct kv_value_uses *uses, struct kv_value_use use,
                            struct kv_err *err);
/* NULL when there is none. */
const struct kv_value_use *kv_value_uses_find(const struct kv_value_uses *uses, uint64_t file);
/* {u64 file, varint count, varint bytes}*. */
void kv_value_uses_append(struct kv_buf *out, const struct kv_value_uses *uses);
/* Adds what the bytes say; KV_CORRUPT unless files ascend and numbers are possible. */
kv_status kv_value_uses_parse(struct kv_slice bytes, struct kv_value_uses *uses,
                              struct kv_err *err);

#endif
