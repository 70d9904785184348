/* Files that are open while they are read, and as many of them afterwards as the process may keep:
** descriptors are few. One that was closed to make room is opened again by its next reader, who first looks
** whether it is still the same file.
** Thread rule: any thread. */
#ifndef KV_OPEN_FILES_H
#define KV_OPEN_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "env.h"
#include "status.h"

struct kv_open_files; /* the set; one a process */
struct kv_open_file;  /* one of its files, open or not */

kv_status kv_open_files_new(struct kv_open_files **files, struct kv_err *err);
void kv_open_files_free(struct kv_open_files *files); /* without files; NULL is allowed */
/* How many may stay open; the least recently read are closed first. 0, as at the start: a quarter of the
** descriptors that the process may have. */
void kv_open_files_set_limit(struct kv_open_files *files, size_t limit);
size_t kv_open_files_limit(struct kv_open_files *files);
/* Open now; over the limit only by those that are being read. */
size_t kv_open_files_count(struct kv_open_files *files);

/* Files that were written and keep their descriptor, for the lock, until their fate is known: counted here,
** and not closed by anybody else. Whether there are as many as may stay open: then no work should begin
** that can wait. */
void kv_open_files_hold(struct kv_open_files *files);
void kv_open_files_release(struct kv_open_files *files, size_t count);
bool kv_open_files_are_held(struct kv_open_files *files);

/* Says whether a file that was just opened is the right one; its failure is the reader's. */
typedef kv_status (*kv_open_check_fn)(const void *context, struct kv_env *env,
                                      struct kv_read_file *file, uint64_t size, struct kv_err *err);
/* Opens nothing yet. The path is copied; env and context must outlive the file. */
kv_status kv_open_file_new(struct kv_open_files *files, struct kv_env *env, const char *path,
                           kv_open_check_fn check, const void *context, struct kv_open_file **file,
                           struct kv_err *err);
/* kv_env_expect of the first `ahead` ranges, when that is more than n, then kv_env_read of n. */
kv_status kv_open_file_read_ahead(struct kv_open_file *file, const struct kv_range *ranges,
                                  size_t n, size_t ahead, struct kv_err *err);
/* kv_env_read. */
kv_status kv_open_file_read(struct kv_open_file *file, const struct kv_range *ranges, size_t n,
                            struct kv_err *err);
void kv_open_file_free(struct kv_open_file *file); /* that nobody reads; NULL is allowed */

#endif
