/* See run_iter.h. At most one file has an open iterator: the one that holds the current entry. It is kept
** at an end of the run, so that a turn or a seek nearby costs nothing.
** Thread rule: one thread at a time. */
#include "run_iter.h"

#include "mem.h"
#include "table_read.h"

struct run_iter {
  struct kv_iter base;
  const struct kv_run *run;
  bool use_cache;
  size_t file;           /* index of `inner`'s file */
  struct kv_iter *inner; /* NULL before the first seek and after a failure */
};

/* Makes `file` the current one; false after a failure. */
static bool open_file(struct run_iter *iter, size_t file) {
  if (iter->inner && iter->file == file) return true;
  struct kv_table *table = NULL;
  kv_iter_free(iter->inner);
  iter->inner = NULL;
  iter->file = file;
  struct kv_iter *base = &iter->base;
  base->status = kv_sst_table(iter->run->files[file], &table, &base->err);
  if (base->status == KV_OK)
    base->status = kv_table_iter(table, iter->use_cache, &iter->inner, &base->err);
  return base->status == KV_OK;
}

/* Shows the inner entry; false when the inner iterator is at an end. */
static bool show(struct run_iter *iter) {
  struct kv_iter *base = &iter->base;
  const struct kv_iter *inner = iter->inner;
  base->valid = inner->valid;
  if (inner->valid) {
    base->key = inner->key;
    base->value = inner->value;
    base->deleted = inner->deleted;
    base->apart = inner->apart;
    return true;
  }
  if (inner->status != KV_OK) {
    base->status = inner->status;
    base->err = inner->err;
    return true;
  }
  return false;
}

static void go_forward(struct run_iter *iter) {
  while (!show(iter) && iter->file + 1 < iter->run->file_count) {
    if (!open_file(iter, iter->file + 1)) return;
    kv_iter_seek_first(iter->inner);
  }
}

static void go_backward(struct run_iter *iter) {
  while (!show(iter) && iter->file > 0) {
    if (!open_file(iter, iter->file - 1)) return;
    kv_iter_seek_last(iter->inner);
  }
}

static void restart(struct run_iter *iter) {
  iter->base.valid = false;
  iter->base.status = KV_OK;
}

static void run_seek(struct kv_iter *base, struct kv_slice key) {
  struct run_iter *iter = (struct run_iter *)base;
  size_t file = kv_run_lower_bound(iter->run, key);
  restart(iter);
  if (file == iter->run->file_count || !open_file(iter, file)) return;
  kv_iter_seek(iter->inner, key);
  go_forward(iter);
}

static void run_seek_first(struct kv_iter *base) {
  struct run_iter *iter = (struct run_iter *)base;
  restart(iter);
  if (!open_file(iter, 0)) return;
  kv_iter_seek_first(iter->inner);
  go_forward(iter);
}

static void run_seek_last(struct kv_iter *base) {
  struct run_iter *iter = (struct run_iter *)base;
  restart(iter);
  if (!open_file(iter, iter->run->file_count - 1)) return;
  kv_iter_seek_last(iter->inner);
  go_backward(iter);
}

static void run_next(struct kv_iter *base) {
  struct run_iter *iter = (struct run_iter *)base;
  if (!base->valid) return;
  base->valid = false;
  kv_iter_next(iter->inner);
  go_forward(iter);
}

static void run_prev(struct kv_iter *base) {
  struct run_iter *iter = (struct run_iter *)base;
  if (!base->valid) return;
  base->valid = false;
  kv_iter_prev(iter->inner);
  go_backward(iter);
}

static void run_free(struct kv_iter *base) {
  struct run_iter *iter = (struct run_iter *)base;
  kv_iter_free(iter->inner);
  kv_free(iter);
}

static const struct kv_iter_ops run_ops = {run_seek, run_seek_first, run_seek_last,
                                           run_next, run_prev,       run_free};

kv_status kv_run_iter(const struct kv_run *run, bool use_cache, struct kv_iter **iter,
                      struct kv_err *err) {
  *iter = NULL;
  struct run_iter *made = kv_alloc_zero(1, sizeof *made);
  if (!made) return kv_fail_nomem(err);
  made->base.ops = &run_ops;
  made->run = run;
  made->use_cache = use_cache;
  *iter = &made->base;
  return KV_OK;
}
