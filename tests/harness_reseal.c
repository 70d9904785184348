/* See harness_reseal.h. */
#include "harness_reseal.h"

#include <string.h>

#include "code.h"
#include "harness.h"
#include "hash.h"

enum { CHECKSUM_BYTES = 8, FOOTER_CHECKSUM = 112 };

static void add(struct layout *layout, uint64_t offset, uint64_t size, int handle) {
  if (!size) return;
  ck_assert_uint_lt(layout->count, LAYOUT_STRETCHES_MAX);
  layout->stretches[layout->count++] = (struct stretch){(size_t)offset, (size_t)size, handle};
}

/* Fences that are stored plain: the files of these tests are small or not compressed at all, except for
** their data blocks; a compressed part is decompressed first. */
static void add_blocks(struct layout *layout, struct kv_slice file,
                       const struct kv_table_footer *footer) {
  struct kv_stored stored;
  struct kv_buf plain;
  struct kv_slice part =
      kv_slice_of(file.data + footer->fences.offset, (size_t)footer->fences.size);
  kv_buf_init(&plain);
  ck_assert_int_eq(kv_stored_check(&stored, part, &layout->place, footer->fences.offset, NULL),
                   KV_OK);
  uint8_t *bytes = kv_buf_extend(&plain, stored.raw_size);
  ck_assert_int_eq(kv_stored_decode(&stored, bytes, &layout->place, footer->fences.offset, NULL),
                   KV_OK);
  uint32_t count = kv_get_u32(bytes);
  for (uint32_t i = 0; i < count; i++)
    add(layout, kv_get_u64(bytes + 4 + 8 * i), kv_get_u32(bytes + 4 + 8 * count + 4 * i), -1);
  kv_buf_release(&plain);
}

void layout_read(struct layout *layout, struct kv_slice file, const struct kv_table_place *place) {
  struct kv_table_footer footer;
  size_t tail =
      file.size < KV_TABLE_FOOTER_BYTES_MAX ? file.size : (size_t)KV_TABLE_FOOTER_BYTES_MAX;
  memset(layout, 0, sizeof *layout);
  layout->place = *place;
  layout->size = file.size;
  layout->footer = file.size - KV_TABLE_FOOTER_BYTES;
  ck_assert_int_eq(kv_footer_parse(&footer, kv_slice_of(file.data + file.size - tail, tail),
                                   file.size, place, NULL),
                   KV_OK);
  add_blocks(layout, file, &footer);
  layout->blocks = layout->count;
  add(layout, footer.filter.offset, footer.filter.size, 16);
  add(layout, footer.fences.offset, footer.fences.size, 40);
  add(layout, footer.properties.offset, footer.properties.size, 64);
}

const struct stretch *layout_find(const struct layout *layout, size_t offset) {
  for (size_t i = 0; i < layout->count; i++) {
    const struct stretch *stretch = &layout->stretches[i];
    if (offset >= stretch->offset && offset < stretch->offset + stretch->size) return stretch;
  }
  return NULL;
}

static uint64_t sum(const struct layout *layout, const uint8_t *file, size_t offset, size_t size) {
  uint64_t seed = kv_hash_place(layout->place.uuid, layout->place.id, offset);
  return kv_hash_seeded(kv_slice_of(file + offset, size), seed);
}

void layout_reseal(const struct layout *layout, uint8_t *file, size_t offset) {
  const struct stretch *stretch = layout_find(layout, offset);
  uint8_t *footer = file + layout->footer;
  if (stretch) {
    size_t covered = stretch->size - CHECKSUM_BYTES;
    uint64_t checksum = sum(layout, file, stretch->offset, covered);
    kv_put_u64(file + stretch->offset + covered, checksum);
    if (stretch->handle >= 0) kv_put_u64(footer + stretch->handle, checksum);
  }
  kv_put_u64(footer + FOOTER_CHECKSUM, sum(layout, file, layout->footer, FOOTER_CHECKSUM));
}

void layout_describe(const struct layout *layout, const uint8_t *file, struct kv_file_info *info) {
  const struct stretch *part = &layout->stretches[layout->count - 1];
  struct kv_stored stored;
  struct kv_table_properties properties;
  info->checksum = kv_get_u64(file + layout->footer + FOOTER_CHECKSUM);
  info->bytes = layout->size;
  if (kv_stored_check(&stored, kv_slice_of(file + part->offset, part->size), &layout->place,
                      part->offset, NULL) ||
      stored.compressed || kv_properties_parse(&properties, NULL, stored.payload, NULL))
    return;
  info->entries = properties.entries;
  info->tombstones = properties.tombstones;
  kv_buf_clear(&info->smallest);
  kv_buf_append(&info->smallest, properties.smallest.data, properties.smallest.size);
  kv_buf_clear(&info->largest);
  kv_buf_append(&info->largest, properties.largest.data, properties.largest.size);
}
