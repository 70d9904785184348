/* See apart.h. */
#include "apart.h"

#include <string.h>

#include "code.h"
#include "mem.h"

void kv_apart_append(struct kv_buf *out, const struct kv_apart *apart) {
  kv_buf_append_u64(out, apart->file);
  kv_buf_append_varint(out, apart->block);
  kv_buf_append_varint(out, apart->offset);
  kv_buf_append_varint(out, apart->size);
  if (apart->head.size) kv_buf_append(out, apart->head.data, apart->head.size);
}

bool kv_apart_parse(struct kv_slice bytes, struct kv_apart *apart) {
  struct kv_reader reader;
  kv_reader_init(&reader, bytes);
  apart->file = kv_reader_u64(&reader);
  uint64_t block = kv_reader_varint(&reader), offset = kv_reader_varint(&reader);
  apart->block = (uint32_t)block;
  apart->offset = (uint32_t)offset;
  apart->size = kv_reader_varint(&reader);
  apart->head = kv_reader_bytes(&reader, kv_reader_left(&reader));
  bool possible = apart->file && block <= UINT32_MAX && offset <= UINT32_MAX;
  return !reader.failed && possible && apart->head.size < apart->size;
}

struct kv_slice kv_apart_head(struct kv_slice reference) {
  struct kv_apart apart;
  return kv_apart_parse(reference, &apart) ? apart.head : kv_slice_of(NULL, 0);
}

/* ---- Uses */

void kv_value_uses_release(struct kv_value_uses *uses) {
  kv_free(uses->uses);
  *uses = (struct kv_value_uses){0};
}

/* The place of the first use of a file that is not below `file`. */
static size_t position(const struct kv_value_uses *uses, uint64_t file) {
  size_t low = 0, high = uses->count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (uses->uses[middle].file < file)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static kv_status reserve(struct kv_value_uses *uses, struct kv_err *err) {
  if (uses->count < uses->capacity) return KV_OK;
  size_t capacity = uses->capacity ? 2 * uses->capacity : 4;
  struct kv_value_use *grown = kv_realloc(uses->uses, capacity, sizeof *grown);
  if (!grown) return kv_fail_nomem(err);
  uses->uses = grown;
  uses->capacity = capacity;
  return KV_OK;
}

kv_status kv_value_uses_add(struct kv_value_uses *uses, struct kv_value_use use,
                            struct kv_err *err) {
  size_t at = position(uses, use.file);
  if (at < uses->count && uses->uses[at].file == use.file) {
    uses->uses[at].count += use.count;
    uses->uses[at].bytes += use.bytes;
    return KV_OK;
  }
  kv_status status = reserve(uses, err);
  if (status) return status;
  struct kv_value_use *place = uses->uses + at;
  memmove(place + 1, place, (uses->count++ - at) * sizeof *place);
  *place = use;
  return KV_OK;
}

const struct kv_value_use *kv_value_uses_find(const struct kv_value_uses *uses, uint64_t file) {
  size_t at = position(uses, file);
  return at < uses->count && uses->uses[at].file == file ? &uses->uses[at] : NULL;
}

void kv_value_uses_append(struct kv_buf *out, const struct kv_value_uses *uses) {
  for (size_t i = 0; i < uses->count; i++) {
    kv_buf_append_u64(out, uses->uses[i].file);
    kv_buf_append_varint(out, uses->uses[i].count);
    kv_buf_append_varint(out, uses->uses[i].bytes);
  }
}

kv_status kv_value_uses_parse(struct kv_slice bytes, struct kv_value_uses *uses,
                              struct kv_err *err) {
  struct kv_reader reader;
  kv_reader_init(&reader, bytes);
  uint64_t last = 0;
  while (kv_reader_left(&reader)) {
    struct kv_value_use use = {.file = kv_reader_u64(&reader)};
    use.count = kv_reader_varint(&reader);
    use.bytes = kv_reader_varint(&reader);
    if (reader.failed || use.file <= last || !use.count || use.bytes < use.count)
      return kv_fail(err, KV_CORRUPT, "bad list of value files");
    last = use.file;
    kv_status status = kv_value_uses_add(uses, use, err);
    if (status) return status;
  }
  return KV_OK;
}
