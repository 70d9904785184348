/* Inside of a view, for the engine's own read, job and check modules. Callers see kv.h. */
#ifndef KV_VIEW_H
#define KV_VIEW_H

#include <stddef.h>
#include <stdint.h>

#include "kv.h"
#include "layout.h"
#include "memtable.h"

struct kv_view {
  int64_t refs;                 /* atomic */
  struct kv_view *next, **link; /* of the family's, under its lock; link NULL: not among them yet */
  uint64_t made_us;
  struct kv_family *family;
  struct kv_log_window log;
  struct kv_layout *layout; /* its runs and files: */
  struct kv_run *runs;      /* newest first */
  size_t run_count;
  struct kv_sst **files; /* all, in run order */
  size_t file_count;
  int64_t rows;
};

/* What views and jobs need of a family; family.c has the struct. */
struct kv_log *kv_family_log(struct kv_family *family);
const struct kv_table_config *kv_family_table_config(
    struct kv_family *family); /* options as at open */
struct kv_cache *kv_family_cache(struct kv_family *family);
/* kv_head_fn of the family. */
bool kv_family_head(const struct kv_family *family, struct kv_slice value, struct kv_buf *head);
/* A view counts among the family's from when it is whole until it is freed. */
void kv_family_add_view(struct kv_family *family, struct kv_view *view);
void kv_family_drop_view(struct kv_family *family, struct kv_view *view);

static inline const struct kv_comparator *kv_view_comparator(const struct kv_view *view) {
  return kv_family_table_config(view->family)->comparator;
}

#endif
