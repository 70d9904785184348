/* See harness_fuzz_seal.h; the layouts are FORMAT.md's. */
#include "harness_fuzz_seal.h"

#include <string.h>

#include "code.h"
#include "hash.h"

static bool is_inside(const struct kv_buf *file, uint64_t offset, uint64_t size) {
  return size <= file->size && offset <= file->size - size;
}

static uint64_t seal_stored(struct kv_buf *file, const struct kv_table_place *place,
                            uint64_t offset, uint64_t size) {
  if (size < KV_TABLE_TRAILER_BYTES || !is_inside(file, offset, size)) return 0;
  struct kv_slice covered = kv_slice_of(file->data + offset, (size_t)size - 8);
  uint64_t checksum = kv_hash_seeded(covered, kv_hash_place(place->uuid, place->id, offset));
  kv_put_u64(file->data + offset + size - 8, checksum);
  return checksum;
}

static void seal_data(struct kv_buf *file, const struct kv_table_place *place,
                      const uint8_t *handle) {
  const size_t least = 4 + KV_TABLE_TRAILER_BYTES;
  uint64_t offset = kv_get_u64(handle), size = kv_get_u64(handle + 8);
  if (size < least || !is_inside(file, offset, size)) return;
  const uint8_t *fences = file->data + offset;
  uint64_t count = kv_get_u32(fences);
  bool compressed = fences[size - KV_TABLE_TRAILER_BYTES];
  if (compressed || count > (size - least) / 12) return;
  for (uint64_t i = 0; i < count; i++)
    seal_stored(file, place, kv_get_u64(fences + 4 + 8 * i),
                kv_get_u32(fences + 4 + 8 * count + 4 * i));
}

uint64_t fuzz_seal_table(struct kv_buf *file, const struct kv_table_place *place) {
  if (file->size < KV_TABLE_FOOTER_BYTES) return 0;
  size_t offset = file->size - KV_TABLE_FOOTER_BYTES;
  uint8_t *footer = file->data + offset;
  memcpy(footer + 72, place->uuid, sizeof place->uuid);
  kv_put_u64(footer + 88, place->id);
  kv_put_u32(footer + 96, KV_TABLE_FOOTER_BYTES);
  memcpy(footer + 120, "colfamST", 8);
  seal_data(file, place, footer + 24);
  for (int i = 0; i < 3; i++) {
    uint8_t *handle = footer + 24 * (size_t)i;
    kv_put_u64(handle + 16, seal_stored(file, place, kv_get_u64(handle), kv_get_u64(handle + 8)));
  }
  uint64_t checksum =
      kv_hash_seeded(kv_slice_of(footer, 112), kv_hash_place(place->uuid, place->id, offset));
  kv_put_u64(footer + 112, checksum);
  return checksum;
}

void fuzz_seal_batch(struct kv_buf *batch, const uint8_t uuid[16], uint64_t seq, uint64_t seal) {
  if (batch->size < 8) return;
  if (batch->size >= 18 && (batch->data[1] & 1)) kv_put_u64(batch->data + 2, seal);
  struct kv_slice covered = kv_slice_of(batch->data, batch->size - 8);
  kv_put_u64(batch->data + covered.size, kv_hash_seeded(covered, kv_hash_place(uuid, seq, 0)));
}
