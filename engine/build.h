/* What this engine was built with and runs on, for reports of trouble. */
#ifndef KV_BUILD_H
#define KV_BUILD_H

#include <stddef.h>

/* One line: zstd, xxhash and compiler versions, processor and the instruction sets it has that matter
** here. NUL-terminated, cut at `size`. Any thread. */
void kv_build_info(char *text, size_t size);

#endif
