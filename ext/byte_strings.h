/* Byte strings one after another in one buffer. Failures stick in the buffers. Any thread, one at a time. */
#ifndef COLFAM_BYTE_STRINGS_H
#define COLFAM_BYTE_STRINGS_H

#include <stdbool.h>

#include "engine/kv.h"

struct colfam_strings { /* zero-initialise */
  struct kv_buf bytes;
  struct kv_buf ends; /* size_t each: offset behind the string */
};
size_t colfam_strings_count(const struct colfam_strings *strings);
/* Borrowed until the next change. */
struct kv_slice colfam_strings_at(const struct colfam_strings *strings, size_t index);
void colfam_strings_clear(struct colfam_strings *strings);
/* What was appended to `bytes` since the last one becomes a string. */
void colfam_strings_close(struct colfam_strings *strings);
void colfam_strings_add(struct colfam_strings *strings, struct kv_slice bytes);
bool colfam_strings_ok(const struct colfam_strings *strings);
size_t colfam_strings_memory(const struct colfam_strings *strings); /* bytes */
void colfam_strings_release(struct colfam_strings *strings);

#endif
