/* Included before every file of engine/ and ext/ by `make lint`, for clang-tidy only, so that its
** analyzer knows what it cannot see from one file: a failure's status is the one given to kv_fail
** or colfam_error, and what the allocator and the buffers begin with. Memory from kv_alloc counts
** as written: it is filled by calls that the analyzer does not see either. */
#ifndef LINT_H
#define LINT_H

#include <stdlib.h>

#include "engine/buf.h"
#include "engine/mem.h"
#include "engine/status.h"
#include "ext/error.h"

#define kv_fail(err, status, ...) ((void)kv_fail((err), (status), __VA_ARGS__), (status))
#define kv_fail_nomem(err) ((void)kv_fail_nomem(err), KV_NOMEM)
#define colfam_error(message, rc, ...) ((void)colfam_error((message), (rc), __VA_ARGS__), (rc))
#define kv_alloc(count, size) calloc((count), (size))
#define kv_alloc_zero(count, size) calloc((count), (size))
#define kv_realloc(old, count, size) realloc((old), (count) * (size))
#define kv_free(memory) free(memory)
#define kv_buf_init(buf) ((void)(*(buf) = (struct kv_buf){0}))

#endif
