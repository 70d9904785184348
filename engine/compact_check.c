/* See compact_check.h. Older than what a plan reads are the files of its runs that it does not read, and
** those of the runs behind its newest one; without files among its inputs, all. */
#include "compact_check.h"

#include "mem.h"
#include "table_read.h"

struct kv_drop_check {
  const struct kv_layout *layout;
  struct kv_iter **older; /* one a file */
  size_t count;
};

static bool checks; /* atomic */

void kv_drops_check(bool on) {
  __atomic_store_n(&checks, on, __ATOMIC_RELAXED);
}

void kv_drop_check_free(struct kv_drop_check *check) {
  if (!check) return;
  for (size_t i = 0; i < check->count; i++) kv_iter_free(check->older[i]);
  kv_free(check->older);
  kv_free(check);
}

static size_t newest_run(const struct kv_layout *layout, const struct kv_plan *plan) {
  size_t run = 0;
  if (!plan->count) return 0;
  while (layout->runs[run].level != plan->parts[0].level ||
         layout->runs[run].seq != plan->parts[0].seq)
    run++;
  return run;
}

static kv_status add_file(struct kv_drop_check *check, struct kv_sst *file, struct kv_err *err) {
  struct kv_table *table = NULL;
  kv_status status = kv_sst_table(file, &table, err);
  if (status == KV_OK) status = kv_table_iter(table, false, &check->older[check->count], err);
  if (status == KV_OK) check->count++;
  return status;
}

static kv_status add_older(struct kv_drop_check *check, const struct kv_plan *plan,
                           struct kv_err *err) {
  const struct kv_layout *layout = check->layout;
  kv_status status = KV_OK;
  for (size_t i = newest_run(layout, plan); i < layout->run_count; i++)
    for (size_t j = 0; j < layout->runs[i].file_count && status == KV_OK; j++)
      if (!kv_plan_reads(plan, layout->runs[i].files[j]))
        status = add_file(check, layout->runs[i].files[j], err);
  return status;
}

static kv_status make(struct kv_drop_check **check, const struct kv_layout *layout,
                      const struct kv_plan *plan, struct kv_err *err) {
  struct kv_drop_check *made = kv_alloc_zero(1, sizeof *made);
  if (!made) return kv_fail_nomem(err);
  made->layout = layout;
  made->older = kv_alloc(layout->file_count, sizeof(struct kv_iter *));
  kv_status status = made->older ? add_older(made, plan, err) : kv_fail_nomem(err);
  if (status == KV_OK)
    *check = made;
  else
    kv_drop_check_free(made);
  return status;
}

kv_status kv_drop_check_key(struct kv_drop_check **check, const struct kv_view *view,
                            const struct kv_plan *plan, struct kv_slice key, struct kv_err *err) {
  if (!__atomic_load_n(&checks, __ATOMIC_RELAXED)) return KV_OK;
  kv_status status = *check ? KV_OK : make(check, view->layout, plan, err);
  if (status != KV_OK) return status;
  for (size_t i = 0; i < (*check)->count; i++) {
    struct kv_iter *iter = (*check)->older[i];
    kv_iter_seek(iter, key);
    if (iter->status != KV_OK) {
      if (err) *err = iter->err;
      return iter->status;
    }
    if (iter->valid && kv_slice_equal(iter->key, key))
      return kv_fail(err, KV_CORRUPT,
                     "a merge drops the tombstone of a key that an older file has");
  }
  return KV_OK;
}
