/* The merging iterator (merge.h).
**
** A binary heap of the sources that have a current entry, ordered by (key, age) when moving forward and
** by (key descending, age) when moving backward: the root is the entry shown. Entries of older sources
** with the shown key stay in the heap until the next move passes over them; as everything between them
** and the root is equal to both, one of them is then a child of the root.
**
** Invariant while valid, forward: every source stands at its first entry >= the shown key (at its end
** when it has none); backward: at its last entry <= the shown key. A change of direction re-establishes
** it by seeking every source.
** Thread rule: one thread at a time. */
#include "merge.h"

#include <stdint.h>

#include "mem.h"

struct merge {
  struct kv_iter base;
  const struct kv_comparator *comparator;
  struct kv_iter **sources; /* newest first, owned */
  size_t source_count;
  size_t *heap; /* indices of sources; room for all */
  size_t heap_size;
  struct kv_digest *passed; /* the caller's, or NULL */
  bool backward;
  struct kv_buf pivot; /* the shown key while sources are sought again */
};

/* Ends the iteration with the failure of a source. */
static void fail(struct merge *merge, const struct kv_iter *source) {
  merge->base.valid = false;
  merge->base.status = source->status;
  merge->base.err = source->err;
}

/* Whether source a is to be shown before source b. */
static bool before(const struct merge *merge, size_t a, size_t b) {
  int order = kv_key_compare(merge->comparator, merge->sources[a]->key, merge->sources[b]->key);
  if (order == 0) return a < b;
  return merge->backward ? order > 0 : order < 0;
}

static void sift_down(struct merge *merge, size_t at) {
  size_t *heap = merge->heap;
  size_t moved = heap[at];
  for (;;) {
    size_t child = 2 * at + 1;
    if (child >= merge->heap_size) break;
    if (child + 1 < merge->heap_size && before(merge, heap[child + 1], heap[child])) child++;
    if (!before(merge, heap[child], moved)) break;
    heap[at] = heap[child];
    at = child;
  }
  heap[at] = moved;
}

/* Shows the root, or the end. */
static void show(struct merge *merge) {
  struct kv_iter *base = &merge->base;
  base->valid = merge->heap_size > 0;
  if (!base->valid) return;
  const struct kv_iter *top = merge->sources[merge->heap[0]];
  base->key = top->key;
  base->value = top->value;
  base->deleted = top->deleted;
  base->apart = top->apart;
}

/* Builds the heap from wherever the sources stand now. */
static void build(struct merge *merge) {
  merge->heap_size = 0;
  for (size_t i = 0; i < merge->source_count; i++) {
    const struct kv_iter *source = merge->sources[i];
    if (source->valid) {
      merge->heap[merge->heap_size++] = i;
    } else if (source->status != KV_OK) {
      fail(merge, source);
      return;
    }
  }
  for (size_t i = merge->heap_size / 2; i > 0; i--) sift_down(merge, i - 1);
  show(merge);
}

/* Moves the source at heap position `at` one on; false when it failed. */
static bool step(struct merge *merge, size_t at) {
  struct kv_iter *source = merge->sources[merge->heap[at]];
  if (merge->backward)
    kv_iter_prev(source);
  else
    kv_iter_next(source);
  if (!source->valid) {
    if (source->status != KV_OK) {
      fail(merge, source);
      return false;
    }
    merge->heap[at] = merge->heap[--merge->heap_size];
    if (at == merge->heap_size) return true;
  }
  sift_down(merge, at);
  return true;
}

static bool pass(struct merge *merge, size_t at) {
  const struct kv_iter *source = merge->sources[merge->heap[at]];
  if (merge->passed)
    kv_digest_add(merge->passed, source->key, source->value, source->deleted || source->apart);
  return step(merge, at);
}

/* Passes over the older entries of the shown key; false when a source failed. */
static bool pass_older(struct merge *merge) {
  for (size_t child = 1; child <= 2; child++) {
    while (child < merge->heap_size &&
           kv_slice_equal(merge->sources[merge->heap[child]]->key, merge->base.key)) {
      if (!pass(merge, child)) return false;
    }
  }
  return true;
}

static void advance(struct merge *merge) {
  if (pass_older(merge) && step(merge, 0)) show(merge);
}

static void restart(struct merge *merge, bool backward) {
  merge->backward = backward;
  merge->base.valid = false;
  merge->base.status = KV_OK;
}

/* Remembers the shown key where no move of a source changes it. */
static bool keep_pivot(struct merge *merge) {
  kv_buf_clear(&merge->pivot);
  kv_buf_append(&merge->pivot, merge->base.key.data, merge->base.key.size);
  if (merge->pivot.status == KV_OK) return true;
  merge->base.valid = false;
  merge->base.status = kv_fail_nomem(&merge->base.err);
  return false;
}

static void turn_forward(struct merge *merge) {
  if (!keep_pivot(merge)) return;
  struct kv_slice pivot = kv_buf_slice(&merge->pivot);
  restart(merge, false);
  for (size_t i = 0; i < merge->source_count; i++) {
    struct kv_iter *source = merge->sources[i];
    kv_iter_seek(source, pivot);
    if (source->valid && kv_slice_equal(source->key, pivot)) kv_iter_next(source);
  }
  build(merge);
}

static void turn_backward(struct merge *merge) {
  if (!keep_pivot(merge)) return;
  struct kv_slice pivot = kv_buf_slice(&merge->pivot);
  restart(merge, true);
  for (size_t i = 0; i < merge->source_count; i++) {
    struct kv_iter *source = merge->sources[i];
    kv_iter_seek(source, pivot);
    if (source->valid)
      kv_iter_prev(source);
    else if (source->status == KV_OK)
      kv_iter_seek_last(source);
  }
  build(merge);
}

static void merge_next(struct kv_iter *iter) {
  struct merge *merge = (struct merge *)iter;
  if (!iter->valid) return;
  if (merge->backward)
    turn_forward(merge);
  else
    advance(merge);
}

static void merge_prev(struct kv_iter *iter) {
  struct merge *merge = (struct merge *)iter;
  if (!iter->valid) return;
  if (merge->backward)
    advance(merge);
  else
    turn_backward(merge);
}

static void merge_seek(struct kv_iter *iter, struct kv_slice key) {
  struct merge *merge = (struct merge *)iter;
  restart(merge, false);
  for (size_t i = 0; i < merge->source_count; i++) kv_iter_seek(merge->sources[i], key);
  build(merge);
}

static void merge_seek_first(struct kv_iter *iter) {
  struct merge *merge = (struct merge *)iter;
  restart(merge, false);
  for (size_t i = 0; i < merge->source_count; i++) kv_iter_seek_first(merge->sources[i]);
  build(merge);
}

static void merge_seek_last(struct kv_iter *iter) {
  struct merge *merge = (struct merge *)iter;
  restart(merge, true);
  for (size_t i = 0; i < merge->source_count; i++) kv_iter_seek_last(merge->sources[i]);
  build(merge);
}

static void merge_free(struct kv_iter *iter) {
  struct merge *merge = (struct merge *)iter;
  for (size_t i = 0; i < merge->source_count; i++) kv_iter_free(merge->sources[i]);
  kv_buf_release(&merge->pivot);
  kv_free(merge->heap);
  kv_free(merge->sources);
  kv_free(merge);
}

static const struct kv_iter_ops merge_ops = {merge_seek, merge_seek_first, merge_seek_last,
                                             merge_next, merge_prev,       merge_free};

static struct merge *merge_alloc(size_t n) {
  struct merge *merge = kv_alloc_zero(1, sizeof *merge);
  if (!merge) return NULL;
  merge->base.ops = &merge_ops;
  kv_buf_init(&merge->pivot);
  merge->sources = kv_alloc(n, sizeof *merge->sources);
  merge->heap = kv_alloc(n, sizeof *merge->heap);
  if (merge->sources && merge->heap) return merge;
  merge_free(&merge->base);
  return NULL;
}

kv_status kv_merge_new(struct kv_iter **sources, size_t n, const struct kv_comparator *comparator,
                       struct kv_iter **iter, struct kv_err *err) {
  return kv_merge_counted(sources, n, comparator, NULL, iter, err);
}

/* One source has nothing that is passed over. */
kv_status kv_merge_counted(struct kv_iter **sources, size_t n,
                           const struct kv_comparator *comparator, struct kv_digest *passed,
                           struct kv_iter **iter, struct kv_err *err) {
  *iter = NULL;
  if (n == 1) {
    *iter = sources[0];
    return KV_OK;
  }
  struct merge *merge = merge_alloc(n);
  if (!merge) {
    for (size_t i = 0; i < n; i++) kv_iter_free(sources[i]);
    return kv_fail_nomem(err);
  }
  for (size_t i = 0; i < n; i++) merge->sources[i] = sources[i];
  merge->source_count = n;
  merge->comparator = comparator;
  merge->passed = passed;
  *iter = &merge->base;
  return KV_OK;
}
