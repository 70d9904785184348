/* Memory for decoded blocks, in regions as large as a huge page. Blocks that lie spread over ordinary pages
** cost a lookup as much for finding their pages as for reading them. Thread rule: any thread. */
#ifndef KV_POOL_H
#define KV_POOL_H

#include <stddef.h>
#include <stdint.h>

#include "status.h"

struct kv_pool;

kv_status kv_pool_new(struct kv_pool **pool, struct kv_err *err);
/* All that was taken has been given back. NULL is allowed. */
void kv_pool_free(struct kv_pool *pool);
/* size bytes, uninitialised; NULL when memory is out. Counted, and made to fail by tests, as kv_alloc is. */
uint8_t *kv_pool_take(struct kv_pool *pool, size_t size);
/* `size` as it was taken. NULL is allowed. */
void kv_pool_give(struct kv_pool *pool, uint8_t *bytes, size_t size);
/* Bytes of the regions held now. */
size_t kv_pool_bytes(struct kv_pool *pool);

#endif
