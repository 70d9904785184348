/* Inside of a view, for the engine's own read, job and check modules. Callers see kv.h. */
#ifndef KV_VIEW_H
#define KV_VIEW_H

#include <stddef.h>
#include <stdint.h>

#include "kv.h"
#include "memtable.h"
#include "table_read.h"

/* A file that some view of this process names, opened at most once. Owned by the family's file set;
** references are counted under the family's lock. */
struct kv_sst;
const struct kv_file_info *kv_sst_info(const struct kv_sst *sst);
/* Opens it when first touched; the table lives as long as the sst. */
kv_status kv_sst_table(struct kv_sst *sst, struct kv_table **table, struct kv_err *err);

/* Files of one (level, seq), disjoint and in key order. */
struct kv_run {
  struct kv_sst **files;
  size_t file_count;
  uint32_t level;
  uint64_t seq;
};
/* The file of a run whose [smallest, largest] may hold the key, or NULL. */
struct kv_sst *kv_run_find(const struct kv_run *run, struct kv_slice key);
/* The index of the first file whose largest key is >= key; file_count when there is none. */
size_t kv_run_lower_bound(const struct kv_run *run, struct kv_slice key);

struct kv_view {
  int64_t refs;                 /* atomic */
  struct kv_view *next, **link; /* of the family's, under its lock; link NULL: not among them yet */
  uint64_t made_us;
  struct kv_family *family;
  struct kv_log_window log;
  struct kv_run *runs; /* newest first */
  size_t run_count;
  struct kv_sst **files; /* all, in run order; the runs point into it */
  size_t file_count;
  int64_t rows;
};

/* What views and jobs need of a family; family.c has the struct. */
struct kv_log *kv_family_log(struct kv_family *family);
const struct kv_table_config *kv_family_table_config(
    struct kv_family *family); /* options as at open */
struct kv_cache *kv_family_cache(struct kv_family *family);
/* A view counts among the family's from when it is whole until it is freed. */
void kv_family_add_view(struct kv_family *family, struct kv_view *view);
void kv_family_drop_view(struct kv_family *family, struct kv_view *view);
/* The named file, with one more reference; made when no view names it yet. KV_CORRUPT when the process
** knows the id with another checksum or size. */
kv_status kv_family_sst_ref(struct kv_family *family, const struct kv_file_info *info,
                            struct kv_sst **sst, struct kv_err *err);
void kv_family_sst_unref(struct kv_family *family, struct kv_sst *sst);

#endif
