/* The heap, counted and made to fail on demand, and the arena.
**
** Every allocation is numbered since the last kv_mem_fail_nth, so that a test can walk through all
** of them: for n = 1, 2, ... the nth fails, until one run needs fewer than n. The price while
** nothing is to fail is two relaxed atomic additions and one load.
**
** Arena: a list of chunks, newest first; allocations come only from the newest. A new chunk is as
** large as the whole arena is already, within [4 KiB, 1 MiB], so that sizes double; a larger
** request gets a chunk of just its size. Chunks are in order of age, which is what makes a mark
** one position and a rewind a walk over the chunks since. Any thread for the heap; an arena
** belongs to its owner. */
#include "mem.h"

#include <stdbool.h>
#include <stdlib.h>

#define CHUNK_BYTES_MIN ((size_t)4096)
#define CHUNK_BYTES_MAX ((size_t)1 << 20)
#define ARENA_ALIGN ((size_t)8)

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
  __atomic_sub_fetch(&live_blocks, 1, __ATOMIC_RELAXED);
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

struct kv_arena_chunk {
  struct kv_arena_chunk *older;
  size_t capacity; /* bytes of data[] */
  size_t used;     /* of them; a multiple of ARENA_ALIGN */
  _Alignas(8) uint8_t data[];
};

static bool add_chunk(struct kv_arena *arena, size_t size) {
  size_t total = arena->bytes;
  if (total < CHUNK_BYTES_MIN) total = CHUNK_BYTES_MIN;
  if (total > CHUNK_BYTES_MAX) total = CHUNK_BYTES_MAX;
  if (total - sizeof(struct kv_arena_chunk) < size) total = size + sizeof(struct kv_arena_chunk);
  struct kv_arena_chunk *chunk = kv_alloc(1, total);
  if (!chunk) return false;
  *chunk = (struct kv_arena_chunk){arena->chunks, total - sizeof *chunk, 0};
  arena->chunks = chunk;
  arena->bytes += total;
  return true;
}

static void drop_newest_chunk(struct kv_arena *arena) {
  struct kv_arena_chunk *chunk = arena->chunks;
  arena->chunks = chunk->older;
  arena->bytes -= chunk->capacity + sizeof *chunk;
  kv_free(chunk);
}

void kv_arena_init(struct kv_arena *arena) {
  *arena = (struct kv_arena){0};
}

void kv_arena_release(struct kv_arena *arena) {
  while (arena->chunks) drop_newest_chunk(arena);
}

void *kv_arena_alloc(struct kv_arena *arena, size_t size) {
  if (size > PTRDIFF_MAX / 2) return NULL;
  size = (size + ARENA_ALIGN - 1) & ~(ARENA_ALIGN - 1);
  struct kv_arena_chunk *chunk = arena->chunks;
  if (!chunk || chunk->capacity - chunk->used < size) {
    if (!add_chunk(arena, size)) return NULL;
    chunk = arena->chunks;
  }
  void *memory = chunk->data + chunk->used;
  chunk->used += size;
  return memory;
}

struct kv_arena_mark kv_arena_mark(const struct kv_arena *arena) {
  struct kv_arena_chunk *chunk = arena->chunks;
  return (struct kv_arena_mark){chunk, chunk ? chunk->used : 0};
}

void kv_arena_rewind(struct kv_arena *arena, struct kv_arena_mark mark) {
  while (arena->chunks && arena->chunks != mark.chunk) drop_newest_chunk(arena);
  if (arena->chunks) arena->chunks->used = mark.used;
}
