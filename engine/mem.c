/* The heap, counted and made to fail on demand.
**
** Every allocation is numbered since the last kv_mem_fail_nth, so that a test can walk through all
** of them: for n = 1, 2, ... the nth fails, until one run needs fewer than n. The price while
** nothing is to fail is two relaxed atomic additions and one load. Any thread. */
#include "mem.h"

#include <stdlib.h>

static uint64_t allocations; /* since the last kv_mem_fail_nth */
static uint64_t fail_number; /* the number of the allocation that fails; 0 = none */
static int fail_sticky;
static int64_t live_blocks;

/* Numbers one allocation; true when it is to fail. */
static bool must_fail(void) {
  uint64_t number = __atomic_add_fetch(&allocations, 1, __ATOMIC_RELAXED);
  uint64_t fail = __atomic_load_n(&fail_number, __ATOMIC_RELAXED);
  if (!fail || number < fail) return false;
  return number == fail || __atomic_load_n(&fail_sticky, __ATOMIC_RELAXED);
}

/* count * size, at least 1, into *bytes; false when no object can be that large. */
static bool multiply(size_t count, size_t size, size_t *bytes) {
  if (__builtin_mul_overflow(count, size, bytes) || *bytes > PTRDIFF_MAX) return false;
  if (!*bytes) *bytes = 1;
  return true;
}

static void *counted(void *memory) {
  if (memory) __atomic_add_fetch(&live_blocks, 1, __ATOMIC_RELAXED);
  return memory;
}

bool kv_mem_enter(void) {
  if (must_fail()) return false;
  __atomic_add_fetch(&live_blocks, 1, __ATOMIC_RELAXED);
  return true;
}

void kv_mem_leave(void) {
  __atomic_sub_fetch(&live_blocks, 1, __ATOMIC_RELAXED);
}

void *kv_alloc(size_t count, size_t size) {
  size_t bytes;
  if (must_fail() || !multiply(count, size, &bytes)) return NULL;
  return counted(malloc(bytes));
}

void *kv_alloc_zero(size_t count, size_t size) {
  size_t bytes;
  if (must_fail() || !multiply(count, size, &bytes)) return NULL;
  return counted(calloc(1, bytes));
}

void *kv_realloc(void *old, size_t count, size_t size) {
  if (!old) return kv_alloc(count, size);
  size_t bytes;
  if (must_fail() || !multiply(count, size, &bytes)) return NULL;
  return realloc(old, bytes);
}

void kv_free(void *memory) {
  if (!memory) return;
  kv_mem_leave();
  free(memory);
}

uint64_t kv_mem_fail_nth(uint64_t n, int sticky) {
  __atomic_store_n(&fail_sticky, sticky, __ATOMIC_RELAXED);
  __atomic_store_n(&fail_number, n, __ATOMIC_RELAXED);
  return __atomic_exchange_n(&allocations, 0, __ATOMIC_RELAXED);
}

int64_t kv_mem_live_blocks(void) {
  return __atomic_load_n(&live_blocks, __ATOMIC_RELAXED);
}
