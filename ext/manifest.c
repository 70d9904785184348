/* See manifest.h. The bytes that are hashed stand in ext/README.md; they are part of the format. */
#include "manifest.h"

static uint64_t hash_numbers(const uint64_t *numbers, size_t count, uint64_t seed) {
  uint8_t bytes[64];
  kv_put_u64s(bytes, numbers, count);
  return kv_hash_seeded(kv_slice_of(bytes, 8 * count), seed);
}

void colfam_manifest_add(struct colfam_manifest *manifest, const struct kv_file_info *file) {
  const uint64_t numbers[] = {file->id,      file->level,      file->seq,     file->bytes,
                              file->entries, file->tombstones, file->checksum};
  uint64_t hash = hash_numbers(numbers, sizeof numbers / sizeof *numbers, 0);
  hash = kv_hash_seeded(kv_buf_slice(&file->smallest), hash);
  manifest->sum += kv_hash_seeded(kv_buf_slice(&file->largest), hash);
  manifest->files++;
  manifest->value_files += file->level == KV_LEVEL_VALUES;
}

struct colfam_manifest colfam_manifest_after(const struct kv_view *view,
                                             const struct kv_edit *edit) {
  struct colfam_manifest manifest = {0};
  for (size_t i = 0; i < kv_view_file_count(view); i++) {
    const struct kv_file_info *file = kv_view_file(view, i);
    if (!kv_edit_removes(edit, file->id)) colfam_manifest_add(&manifest, file);
  }
  for (size_t i = 0; i < edit->added_count; i++) colfam_manifest_add(&manifest, &edit->added[i]);
  return manifest;
}

uint64_t colfam_manifest_seal(const struct colfam_manifest *manifest, const uint8_t uuid[16],
                              const struct colfam_flushed *flushed) {
  const uint64_t numbers[] = {flushed->seq, flushed->nonce, (uint64_t)flushed->rows,
                              manifest->files, manifest->sum};
  return hash_numbers(numbers, sizeof numbers / sizeof *numbers, kv_hash_place(uuid, 0, 0));
}
