/* See salvage_run.h. A file that does not open (its footer, fences, filter or properties are damaged, or it
** is gone) is one hole between the bounds that the manifest knows. Neighbouring blocks that cannot be read
** are one hole. Blocks are read past the cache and proved whole before their first entry is shown. Thread
** rule: one thread at a time. */
#include "salvage_run.h"

#include <string.h>

#include "mem.h"

void kv_salvage_run_init(struct kv_salvage_run *run, struct kv_family *family,
                         const struct kv_run *of) {
  memset(run, 0, sizeof *run);
  run->family = family;
  run->run = of;
  run->file = of->file_count; /* before the first */
  kv_block_cursor_init(&run->cursor);
}

void kv_salvage_run_release(struct kv_salvage_run *run) {
  for (size_t i = 0; i < run->hole_count; i++) {
    kv_buf_release(&run->holes[i].lower);
    kv_buf_release(&run->holes[i].upper);
  }
  for (size_t i = 0; i < run->kept_count; i++) kv_table_close(run->kept[i]);
  kv_table_close(run->table);
  kv_block_cursor_release(&run->cursor);
  kv_free(run->bytes);
  kv_free(run->kept);
  kv_free(run->holes);
  memset(run, 0, sizeof *run);
}

static bool is_damage(kv_status status) {
  return status != KV_OK && status != KV_NOMEM;
}

/* ---- Holes */

static kv_status add_hole(struct kv_salvage_run *run, const struct kv_stretch *stretch,
                          struct kv_err *err) {
  if (!run->holes || run->hole_count == run->hole_capacity) {
    size_t capacity = run->hole_capacity ? run->hole_capacity * 2 : 4;
    struct kv_hole *holes = kv_realloc(run->holes, capacity, sizeof *holes);
    if (!holes) return kv_fail_nomem(err);
    run->holes = holes;
    run->hole_capacity = capacity;
  }
  struct kv_hole *hole = &run->holes[run->hole_count++];
  memset(hole, 0, sizeof *hole);
  hole->table = run->table;
  hole->file = kv_sst_info(run->run->files[run->file])->id;
  hole->position = stretch->position;
  hole->closed = stretch->closed;
  kv_buf_append(&hole->lower, stretch->lower.data, stretch->lower.size);
  kv_buf_append(&hole->upper, stretch->upper.data, stretch->upper.size);
  return hole->lower.status || hole->upper.status ? kv_fail_nomem(err) : KV_OK;
}

/* The block's hole, joined to that of the block before. */
static kv_status add_block_hole(struct kv_salvage_run *run, uint32_t block, struct kv_err *err) {
  struct kv_stretch stretch = kv_table_stretch(run->table, block);
  struct kv_hole *last = run->hole_count ? &run->holes[run->hole_count - 1] : NULL;
  if (!last || last->table != run->table ||
      !kv_slice_equal(kv_buf_slice(&last->upper), stretch.lower))
    return add_hole(run, &stretch, err);
  kv_buf_clear(&last->upper);
  kv_buf_append(&last->upper, stretch.upper.data, stretch.upper.size);
  last->closed = stretch.closed;
  return last->upper.status ? kv_fail_nomem(err) : KV_OK;
}

static bool is_past(const struct kv_salvage_run *run, const struct kv_hole *hole,
                    struct kv_slice key) {
  int order = kv_key_compare(run->run->comparator, key, kv_buf_slice(&hole->upper));
  return hole->closed ? order > 0 : order >= 0;
}

bool kv_salvage_run_hides(struct kv_salvage_run *run, struct kv_slice key, uint64_t hash) {
  while (run->passed < run->hole_count && is_past(run, &run->holes[run->passed], key))
    run->passed++;
  if (run->passed == run->hole_count) return false;
  const struct kv_hole *hole = &run->holes[run->passed];
  if (kv_key_compare(run->run->comparator, key, kv_buf_slice(&hole->lower)) < 0) return false;
  return !hole->table || kv_table_may_have(hole->table, key, hash);
}

/* ---- Files */

/* The current table is done with; its filter is needed on when it has holes. */
static kv_status leave_table(struct kv_salvage_run *run, struct kv_err *err) {
  struct kv_table *table = run->table;
  run->table = NULL;
  if (!table) return KV_OK;
  if (!run->hole_count || run->holes[run->hole_count - 1].table != table) {
    kv_table_close(table);
    return KV_OK;
  }
  struct kv_table **kept = kv_realloc(run->kept, run->kept_count + 1, sizeof(struct kv_table *));
  if (!kept) {
    run->table = table;
    return kv_fail_nomem(err);
  }
  run->kept = kept;
  kept[run->kept_count++] = table;
  return KV_OK;
}

static kv_status enter_file(struct kv_salvage_run *run, struct kv_err *err) {
  const struct kv_file_info *info = kv_sst_info(run->run->files[run->file]);
  struct kv_family *family = run->family;
  run->next_block = 0;
  run->read = 0;
  kv_status status = kv_table_open(kv_family_table_config(family), info, kv_family_cache(family),
                                   kv_family_stats(family), &run->table, err);
  if (!is_damage(status)) return status;
  run->table = NULL;
  struct kv_stretch whole = {.lower = kv_buf_slice(&info->smallest),
                             .upper = kv_buf_slice(&info->largest),
                             .closed = true};
  return add_hole(run, &whole, err);
}

static kv_status enter_block(struct kv_salvage_run *run, struct kv_err *err) {
  struct kv_block block;
  uint64_t entries;
  kv_free(run->bytes);
  run->bytes = NULL;
  uint8_t *bytes = NULL;
  uint32_t number = run->next_block++;
  kv_status status = kv_table_rescue(run->table, number, &bytes, &block, &entries, err);
  if (is_damage(status)) return add_block_hole(run, number, err);
  if (status) return status;
  run->bytes = bytes;
  run->read += entries;
  kv_block_cursor_set(&run->cursor, &block);
  return kv_block_cursor_first(&run->cursor, err);
}

static size_t next_file(const struct kv_salvage_run *run) {
  return run->file == run->run->file_count ? 0 : run->file + 1;
}

/* One block or one file further. */
static kv_status go_on(struct kv_salvage_run *run, bool *more, struct kv_err *err) {
  *more = true;
  if (run->table && run->next_block < kv_table_block_count(run->table))
    return enter_block(run, err);
  kv_status status = leave_table(run, err);
  if (status) return status;
  *more = next_file(run) < run->run->file_count;
  if (!*more) return KV_OK;
  run->file = next_file(run);
  return enter_file(run, err);
}

kv_status kv_salvage_run_next(struct kv_salvage_run *run, struct kv_err *err) {
  bool more = true;
  kv_status status = run->cursor.valid ? kv_block_cursor_next(&run->cursor, err) : KV_OK;
  while (!status && more && !run->cursor.valid) status = go_on(run, &more, err);
  return status;
}
