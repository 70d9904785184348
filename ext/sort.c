/* See sort.h: a heap sort, which needs no memory. Any thread. */
#include "sort.h"

#include <stdint.h>
#include <string.h>

struct sort {
  uint8_t *items;
  size_t size;
  int (*compare)(const void *context, const void *a, const void *b);
  const void *context;
};

static uint8_t *at(const struct sort *sort, size_t index) {
  return sort->items + index * sort->size;
}

static void swap(const struct sort *sort, size_t a, size_t b) {
  uint8_t kept[COLFAM_SORT_BYTES_MAX];
  memcpy(kept, at(sort, a), sort->size);
  memcpy(at(sort, a), at(sort, b), sort->size);
  memcpy(at(sort, b), kept, sort->size);
}

static void sift_down(const struct sort *sort, size_t root, size_t count) {
  for (size_t child; (child = 2 * root + 1) < count; root = child) {
    if (child + 1 < count && sort->compare(sort->context, at(sort, child), at(sort, child + 1)) < 0)
      child++;
    if (sort->compare(sort->context, at(sort, root), at(sort, child)) >= 0) return;
    swap(sort, root, child);
  }
}

void colfam_sort(void *items, size_t count, size_t size,
                 int (*compare)(const void *context, const void *a, const void *b),
                 const void *context) {
  struct sort sort = {items, size, compare, context};
  for (size_t i = count / 2; i > 0; i--) sift_down(&sort, i - 1, count);
  for (size_t i = count; i > 1; i--) {
    swap(&sort, 0, i - 1);
    sift_down(&sort, 0, i - 1);
  }
}
