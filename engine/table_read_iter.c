/* The iterator over one table file: a cursor in the current data block, which it keeps pinned, and steps
** to the neighbour block at either end of it. Every data block has at least one entry, so one step is
** enough. With use_cache=false it owns the plain bytes of its block instead.
** A failure is kept: the iterator stays invalid with its status, whatever is called later.
** Thread rule: one thread at a time; the table must outlive it. */
#include <string.h>

#include "mem.h"
#include "table_read_inside.h"

struct table_iter {
  struct kv_iter base; /* first: the ops cast back */
  const struct kv_table *table;
  bool use_cache;
  bool loaded;    /* the cursor stands on `block` */
  uint32_t block; /* when loaded */
  struct kv_cache_entry *entry;
  uint8_t *bytes;
  struct kv_block_cursor cursor;
};

static void unload(struct table_iter *iter) {
  kv_cache_unpin(iter->entry);
  kv_free(iter->bytes);
  iter->entry = NULL;
  iter->bytes = NULL;
  iter->loaded = false;
  iter->base.valid = false;
}

static kv_status load_parsed(struct table_iter *iter, uint32_t block, struct kv_block *parsed) {
  struct kv_err *err = &iter->base.err;
  kv_status status;
  if (iter->use_cache) {
    status = kv_table_load(iter->table, block, &iter->entry, err);
    if (!status) *parsed = kv_table_block(iter->table, iter->entry);
  } else {
    size_t size;
    status = kv_table_read_block(iter->table, block, kv_cache_verifies_merges(iter->table->cache),
                                 &iter->bytes, &size, err);
    if (!status)
      status = kv_table_parse(iter->table, block, kv_slice_of(iter->bytes, size), parsed, err);
  }
  return status;
}

static kv_status load(struct table_iter *iter, uint32_t block) {
  if (iter->loaded && iter->block == block) return KV_OK;
  unload(iter);
  struct kv_block parsed;
  kv_status status = load_parsed(iter, block, &parsed);
  if (status) return status;
  kv_block_cursor_set(&iter->cursor, &parsed);
  iter->block = block;
  iter->loaded = true;
  return KV_OK;
}

/* Shows the cursor's entry, or fails for good; base.err has the text by then. */
static void settle(struct table_iter *iter, kv_status status) {
  iter->base.valid = !status && iter->cursor.valid;
  if (status) {
    iter->base.status = status;
    unload(iter);
  } else if (iter->base.valid) {
    iter->base.deleted = iter->cursor.deleted;
    iter->base.apart = iter->cursor.apart;
    iter->base.key = kv_buf_slice(&iter->cursor.key);
    iter->base.value = iter->cursor.value;
  }
}

typedef kv_status (*cursor_move)(struct kv_block_cursor *cursor, struct kv_err *err);

/* A move inside the current block; its errors get the file's name. */
static kv_status move_in_block(struct table_iter *iter, cursor_move move) {
  struct kv_err inner;
  kv_status status = move(&iter->cursor, &inner);
  return status ? kv_table_fail(iter->table, iter->block, status, &inner, &iter->base.err) : KV_OK;
}

static kv_status enter(struct table_iter *iter, uint32_t block, cursor_move move) {
  kv_status status = load(iter, block);
  return status ? status : move_in_block(iter, move);
}

static uint32_t block_count(const struct table_iter *iter) {
  return iter->table->parts.fences.count;
}

static void iter_seek_first(struct kv_iter *base) {
  struct table_iter *iter = (struct table_iter *)base;
  if (base->status) return;
  settle(iter, enter(iter, 0, kv_block_cursor_first));
}

static void iter_seek_last(struct kv_iter *base) {
  struct table_iter *iter = (struct table_iter *)base;
  if (base->status) return;
  settle(iter, enter(iter, block_count(iter) - 1, kv_block_cursor_last));
}

static kv_status seek_in_file(struct table_iter *iter, struct kv_slice key) {
  uint32_t block = kv_fences_find(&iter->table->parts.fences, key, 0);
  kv_status status = load(iter, block);
  if (status) return status;
  struct kv_err inner;
  status = kv_block_cursor_seek(&iter->cursor, key, &inner);
  if (status) return kv_table_fail(iter->table, block, status, &inner, &iter->base.err);
  if (iter->cursor.valid || block + 1 == block_count(iter)) return KV_OK;
  return enter(iter, block + 1, kv_block_cursor_first);
}

static void iter_seek(struct kv_iter *base, struct kv_slice key) {
  struct table_iter *iter = (struct table_iter *)base;
  if (base->status) return;
  const struct kv_comparator *by = iter->table->comparator;
  if (kv_key_compare(by, key, kv_buf_slice(&iter->table->info.smallest)) <= 0) {
    iter_seek_first(base);
  } else if (kv_key_compare(by, key, kv_buf_slice(&iter->table->info.largest)) > 0) {
    base->valid = false;
  } else {
    settle(iter, seek_in_file(iter, key));
  }
}

static void iter_next(struct kv_iter *base) {
  struct table_iter *iter = (struct table_iter *)base;
  if (!base->valid) return;
  kv_status status = move_in_block(iter, kv_block_cursor_next);
  if (!status && !iter->cursor.valid && iter->block + 1 < block_count(iter)) {
    status = enter(iter, iter->block + 1, kv_block_cursor_first);
  }
  settle(iter, status);
}

static void iter_prev(struct kv_iter *base) {
  struct table_iter *iter = (struct table_iter *)base;
  if (!base->valid) return;
  kv_status status = move_in_block(iter, kv_block_cursor_prev);
  if (!status && !iter->cursor.valid && iter->block > 0) {
    status = enter(iter, iter->block - 1, kv_block_cursor_last);
  }
  settle(iter, status);
}

static void iter_free(struct kv_iter *base) {
  struct table_iter *iter = (struct table_iter *)base;
  unload(iter);
  kv_block_cursor_release(&iter->cursor);
  kv_free(iter);
}

static const struct kv_iter_ops table_iter_ops = {
    .seek = iter_seek,
    .seek_first = iter_seek_first,
    .seek_last = iter_seek_last,
    .next = iter_next,
    .prev = iter_prev,
    .free = iter_free,
};

kv_status kv_table_iter(struct kv_table *table, bool use_cache, struct kv_iter **iter,
                        struct kv_err *err) {
  struct table_iter *made = kv_alloc_zero(1, sizeof *made);
  if (!made) return kv_fail_nomem(err);
  made->base.ops = &table_iter_ops;
  made->table = table;
  made->use_cache = use_cache;
  kv_block_cursor_init(&made->cursor);
  *iter = &made->base;
  return KV_OK;
}
