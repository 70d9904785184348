/* The only door to the heap. Sizes are multiplied here, with overflow checks; NOMEM is an answer.
** Thread rule: all functions may be called from any thread. */
#ifndef KV_MEM_H
#define KV_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* count * size bytes, uninitialised; NULL on overflow or when memory is out. A request of 0 bytes gives
** a pointer that may be freed. The owner frees with kv_free. */
void *kv_alloc(size_t count, size_t size);
/* As kv_alloc, zeroed. */
void *kv_alloc_zero(size_t count, size_t size);
/* As realloc: on NULL the old memory still stands and is still owned by the caller. */
void *kv_realloc(void *old, size_t count, size_t size);
/* NULL is allowed. */
void kv_free(void *memory);
/* Counts an allocation whose memory comes from elsewhere; false when it is to fail. And its end. */
bool kv_mem_enter(void);
void kv_mem_leave(void);

/* Asks the processor for the line at `at`, of which nothing is read: it may be any address. The empty
** statement is an effect: gcc drops calls of functions that only prefetch. */
static inline void kv_prefetch(const void *at) {
  __builtin_prefetch(at);
  __asm__ volatile("");
}

/* For tests: the nth allocation from now fails (1 = the next), and when `sticky` is not 0 every later
** one too; n = 0 switches it off. Returns how many allocations were made since the last call. */
uint64_t kv_mem_fail_nth(uint64_t n, int sticky);
/* For tests: blocks allocated and not yet freed. */
int64_t kv_mem_live_blocks(void);

#endif
