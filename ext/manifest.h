/* The seal of a manifest: one number in t_cfmeta that says which rows t_cffile has and what t_cfmeta says of
** the flushed log, so that rows which are missing, added or changed are noticed (ext/README.md, Shadow
** tables). It does not depend on the order of the rows.
** Thread rule: pure functions. */
#ifndef COLFAM_MANIFEST_H
#define COLFAM_MANIFEST_H

#include <stdint.h>

#include "engine/kv.h"

struct colfam_manifest {
  uint64_t files;
  uint64_t sum;         /* of the rows' hashes, modulo 2^64 */
  uint64_t value_files; /* of `files`; not in the seal: each row's hash has its level */
};
void colfam_manifest_add(struct colfam_manifest *manifest, const struct kv_file_info *file);
/* The files of a view after an edit was recorded over it. */
struct colfam_manifest colfam_manifest_after(const struct kv_view *view,
                                             const struct kv_edit *edit);

/* What t_cfmeta says of the log that is in files. */
struct colfam_flushed {
  uint64_t seq;
  uint64_t nonce;
  int64_t rows;
};
uint64_t colfam_manifest_seal(const struct colfam_manifest *manifest, const uint8_t uuid[16],
                              const struct colfam_flushed *flushed);

#endif
