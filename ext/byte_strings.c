/* See byte_strings.h. */
#include "byte_strings.h"

#include <string.h>

size_t colfam_strings_count(const struct colfam_strings *strings) {
  return strings->ends.size / sizeof(size_t);
}

static size_t end_at(const struct colfam_strings *strings, size_t index) {
  size_t end;
  memcpy(&end, strings->ends.data + index * sizeof end, sizeof end);
  return end;
}

struct kv_slice colfam_strings_at(const struct colfam_strings *strings, size_t index) {
  size_t start = index ? end_at(strings, index - 1) : 0;
  size_t end = end_at(strings, index);
  return end == start ? kv_slice_of(NULL, 0)
                      : kv_slice_of(strings->bytes.data + start, end - start);
}

void colfam_strings_clear(struct colfam_strings *strings) {
  kv_buf_clear(&strings->bytes);
  kv_buf_clear(&strings->ends);
}

void colfam_strings_close(struct colfam_strings *strings) {
  kv_buf_append(&strings->ends, &strings->bytes.size, sizeof strings->bytes.size);
}

void colfam_strings_add(struct colfam_strings *strings, struct kv_slice bytes) {
  kv_buf_append(&strings->bytes, bytes.data, bytes.size);
  colfam_strings_close(strings);
}

bool colfam_strings_ok(const struct colfam_strings *strings) {
  return strings->bytes.status == KV_OK && strings->ends.status == KV_OK;
}

size_t colfam_strings_memory(const struct colfam_strings *strings) {
  return strings->bytes.capacity + strings->ends.capacity;
}

void colfam_strings_release(struct colfam_strings *strings) {
  kv_buf_release(&strings->bytes);
  kv_buf_release(&strings->ends);
}
