/* Copies table files into a directory of their own, in bounded steps, each file verified when it is
** there: all of them or none. Where the files come from and go to may be different environments.
** Thread rule: one thread at a time. */
#ifndef KV_COPY_H
#define KV_COPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cache.h"
#include "env.h"
#include "status.h"
#include "table_write.h"

struct kv_copy_config {
  struct kv_env *from_env; /* environments and cache are borrowed as long as the copy lives */
  const char *from_dir;    /* texts are copied */
  struct kv_env *to_env;
  const char *to_dir;    /* must not be there; made, and its parent synced, for the first file */
  const char *like_path; /* in to_env: the file whose mode directory and files take, or NULL */
  struct kv_cache *cache;
};

struct kv_copy;
/* Touches no file. */
kv_status kv_copy_new(const struct kv_copy_config *config, struct kv_copy **copy,
                      struct kv_err *err);
/* One more file to copy, of the table `uuid`, whose keys are in the comparator's order; info is copied,
** and the comparator (NULL: bytewise) gets a reference. Before the first step. */
kv_status kv_copy_add(struct kv_copy *copy, const uint8_t uuid[16], const struct kv_file_info *info,
                      const struct kv_comparator *comparator, struct kv_err *err);
/* A bounded piece of work (about 1 MiB). *done when all files are written, synced, read back and found to be
** what their infos say, and the directory is synced. KV_BUSY when the directory or a file in it is there
** already; KV_CORRUPT, KV_MISSING for a bad source. After a failure only free. */
kv_status kv_copy_step(struct kv_copy *copy, bool *done, struct kv_err *err);
/* Bytes copied, and in all. */
void kv_copy_progress(const struct kv_copy *copy, uint64_t *done, uint64_t *total);
/* Files and directory are no longer the copy's. */
void kv_copy_keep(struct kv_copy *copy);
/* Unlinks what it made unless kept: never what was there. NULL is allowed. */
void kv_copy_free(struct kv_copy *copy);

#endif
