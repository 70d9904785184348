/* The files of a manifest arranged into runs: immutable, reference-counted, shared by all views between two
** changes of the manifest.
**
** A run is a set of files that are disjoint by key. Level 0 has one run for each seq, made by flushes and
** large commits, the newest first; every deeper level is one run, older than all levels above it. So runs
** are totally ordered, and of two entries of one key that of the earlier run is newer. Thread rule:
** immutable once made; references are atomic, and the files' are counted under the family's lock. */
#ifndef KV_LAYOUT_H
#define KV_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kv.h"
#include "table_read.h"

/* A file that some view of this process names, opened at most once. Owned by the family's file set;
** references are counted under the family's lock. */
struct kv_sst;
const struct kv_file_info *kv_sst_info(const struct kv_sst *sst);
const struct kv_comparator *kv_sst_comparator(const struct kv_sst *sst); /* the family's */
/* Opens it when first touched; the table lives as long as the sst. */
kv_status kv_sst_table(struct kv_sst *sst, struct kv_table **table, struct kv_err *err);
struct kv_table *kv_sst_opened(const struct kv_sst *sst); /* NULL until then */

/* What a run has, for those who decide by sizes. */
struct kv_run_size {
  uint32_t level;
  uint64_t bytes;
  uint64_t entries;
  uint64_t tombstones;
  uint64_t dense_bytes; /* of files that have more tombstones than other entries */
};

/* The bounds of a file, as far as most comparisons need them. */
struct kv_run_fence {
  uint64_t smallest, largest; /* kv_key_prefix of them */
};
/* In key order. */
struct kv_run {
  struct kv_sst **files;
  const struct kv_run_fence *fences; /* one a file; NULL: no key is looked for in it */
  size_t file_count;
  uint32_t level;
  uint64_t seq;                           /* the newest commit that any of its files covers */
  const struct kv_comparator *comparator; /* the family's */
};
/* The file of a run whose [smallest, largest] may hold the key, or NULL. */
struct kv_sst *kv_run_find(const struct kv_run *run, struct kv_slice key);
/* The index of the first file whose largest key is >= key; file_count when there is none. */
size_t kv_run_lower_bound(const struct kv_run *run, struct kv_slice key);
/* The files that may hold keys from smallest to largest, both included; none: file_count 0. */
struct kv_run kv_run_overlap(const struct kv_run *run, struct kv_slice smallest,
                             struct kv_slice largest);
/* Keys of a run that has files. */
struct kv_slice kv_run_smallest(const struct kv_run *run);
struct kv_slice kv_run_largest(const struct kv_run *run);
/* Whether a file has more tombstones than other entries. */
bool kv_file_is_dense(const struct kv_file_info *file);

struct kv_layout {
  int64_t refs; /* atomic */
  struct kv_family *family;
  struct kv_run *runs; /* newest first */
  struct kv_run_size *sizes;
  size_t run_count;
  struct kv_sst **files; /* all, in run order; the runs point into it and into: */
  struct kv_run_fence *fences;
  size_t file_count;
  struct kv_sst **values; /* the value files, the last of `files`, by id */
  size_t value_count;
  uint64_t value_file_bytes; /* of these */
  uint64_t entries;          /* of the others */
};
/* NULL when there is none of that id. */
struct kv_sst *kv_layout_value_file(const struct kv_layout *layout, uint64_t id);
/* KV_CORRUPT when the manifest contradicts itself (files of one run overlap, a file above last_seq, an id
** twice). The family is borrowed and must outlive the layout. */
kv_status kv_layout_new(struct kv_family *family, const struct kv_file_info *files, size_t count,
                        uint64_t last_seq, struct kv_layout **layout, struct kv_err *err);
/* The base without the files that the edit removes, with those that it adds; KV_BUSY when the base lacks one
** of the former. */
kv_status kv_layout_edit(const struct kv_layout *base, const struct kv_edit *edit,
                         uint64_t last_seq, struct kv_layout **layout, struct kv_err *err);
struct kv_layout *kv_layout_ref(struct kv_layout *layout);
void kv_layout_unref(struct kv_layout *layout);

/* The named file, with one more reference; made when no view names it yet. KV_CORRUPT when the process
** knows the id with another checksum or size. */
kv_status kv_family_sst_ref(struct kv_family *family, const struct kv_file_info *info,
                            struct kv_sst **sst, struct kv_err *err);
void kv_family_sst_unref(struct kv_family *family, struct kv_sst *sst);

#endif
