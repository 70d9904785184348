/* Whether keys that are to be committed are told apart from each other, and from those that stand in memory,
** by the order that an application's function makes (custom.h). Looking a key up compares bytes alone, so
** that this has to be asked. Two keys that the function calls equal are neighbours: the sort of the batch
** compares them, or the search for the place of one among the others. Of files the ends are asked, which a
** flush will compare; the merge sees what is between them. Thread rule: any thread for the view; the batch's
** owner only. */
#include "custom.h"
#include "mem.h"
#include "read_inside.h"

struct places {
  struct kv_iter **iters; /* of memtables */
  size_t count;
};

static kv_status open_places(const struct kv_log_window *log, struct places *places,
                             struct kv_err *err) {
  kv_status status = KV_OK;
  places->count = 0;
  places->iters = kv_alloc(log->table_count, sizeof(struct kv_iter *));
  if (!places->iters) return kv_fail_nomem(err);
  for (size_t i = 0; i < log->table_count && status == KV_OK; i++) {
    status = kv_memtable_iter(log->tables[i], log->window, &places->iters[i], err);
    places->count += status == KV_OK;
  }
  return status;
}

static void close_places(struct places *places) {
  for (size_t i = 0; i < places->count; i++) kv_iter_free(places->iters[i]);
  kv_free(places->iters);
}

static kv_status seek_all(const struct kv_view *view, struct kv_batch *batch,
                          const struct places *places, struct kv_err *err) {
  struct kv_iter *keys = NULL;
  kv_status status = kv_batch_iter(batch, &keys, err);
  if (status != KV_OK) return status;
  for (kv_iter_seek_first(keys); keys->valid; kv_iter_next(keys)) {
    for (size_t i = 0; i < places->count; i++) kv_iter_seek(places->iters[i], keys->key);
    for (size_t i = 0; i < view->run_count; i++) (void)kv_run_find(&view->runs[i], keys->key);
  }
  kv_iter_free(keys);
  return KV_OK;
}

kv_status kv_check_order(struct kv_view *view, struct kv_batch *batch, struct kv_err *err) {
  const struct kv_comparator *by = kv_view_comparator(view);
  struct places places;
  if (!by) return KV_OK;
  uint64_t before = kv_custom_faults(by);
  kv_status status = open_places(&view->log, &places, err);
  if (status == KV_OK) status = seek_all(view, batch, &places, err);
  close_places(&places);
  return status == KV_OK ? kv_custom_check(before, by, err) : status;
}
