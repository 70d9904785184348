/* Blocks of a file that may be damaged elsewhere (table_read.h). A block under a right checksum is still
** walked to its end before anything of it is believed: its keys must ascend, begin with the fence and end
** below the next one, so that what is missed elsewhere can be told by its keys. Thread rule: any thread. */
#include "mem.h"
#include "table_read_inside.h"

uint32_t kv_table_block_count(const struct kv_table *table) {
  return table->parts.fences.count;
}

struct kv_stretch kv_table_stretch(const struct kv_table *table, uint32_t block) {
  const struct kv_fences *fences = &table->parts.fences;
  bool last = block + 1 == fences->count;
  return (struct kv_stretch){
      .lower = kv_fences_key(fences, block),
      .upper = last ? kv_buf_slice(&table->info.largest) : kv_fences_key(fences, block + 1),
      .closed = last,
      .position = kv_fences_offset(fences, block)};
}

static bool is_in(const struct kv_comparator *by, const struct kv_stretch *stretch,
                  struct kv_slice key) {
  if (by && by->unknown) return true;
  int order = kv_key_compare(by, key, stretch->upper);
  return kv_key_compare(by, key, stretch->lower) >= 0 && (stretch->closed ? order <= 0 : order < 0);
}

/* Walks the block; `last` is room for the key before. */
static kv_status walk(struct kv_block_cursor *cursor, const struct kv_stretch *stretch,
                      struct kv_buf *last, uint64_t *entries, struct kv_err *err) {
  const struct kv_comparator *by = cursor->block.comparator;
  kv_status status = kv_block_cursor_first(cursor, err);
  for (*entries = 0; !status && cursor->valid; ++*entries) {
    struct kv_slice key = kv_buf_slice(&cursor->key);
    bool first = *entries == 0;
    if (!is_in(by, stretch, key) || (first && !kv_slice_equal(key, stretch->lower)) ||
        (!first && !kv_key_ascends(by, kv_buf_slice(last), key)))
      return kv_fail(err, KV_CORRUPT, "keys are not in order");
    kv_buf_clear(last);
    kv_buf_append(last, key.data, key.size);
    if (last->status) return kv_fail_nomem(err);
    status = kv_block_cursor_next(cursor, err);
  }
  return status;
}

kv_status kv_table_rescue(const struct kv_table *table, uint32_t number, uint8_t **bytes,
                          struct kv_block *block, uint64_t *entries, struct kv_err *err) {
  size_t size;
  struct kv_err inner;
  kv_status status = kv_table_read_block(table, number, true, bytes, &size, err);
  if (status) return status;
  struct kv_stretch stretch = kv_table_stretch(table, number);
  struct kv_block_cursor cursor;
  struct kv_buf last;
  kv_buf_init(&last);
  kv_block_cursor_init(&cursor);
  status = kv_table_parse(table, number, kv_slice_of(*bytes, size), block, err);
  if (!status) {
    kv_block_cursor_set(&cursor, block);
    status = walk(&cursor, &stretch, &last, entries, &inner);
    if (status) status = kv_table_fail(table, number, status, &inner, err);
  }
  kv_block_cursor_release(&cursor);
  kv_buf_release(&last);
  if (status) kv_free(*bytes);
  return status;
}
