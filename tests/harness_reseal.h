/* Makes the checksums of a table file right again after its bytes were changed, so that what is behind the
** checksums is reached: block or part, the footer's handle of it, the footer. Where things are is taken from
** the file as it was. */
#ifndef HARNESS_RESEAL_H
#define HARNESS_RESEAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "table_format.h"
#include "table_write.h"

enum { LAYOUT_STRETCHES_MAX = 200 };
/* A stored block: a data block, or one of the three parts. */
struct stretch {
  size_t offset;
  size_t size;
  int handle; /* offset of its handle's checksum in the footer, -1 for data blocks */
};
struct layout {
  struct kv_table_place place;
  struct stretch stretches[LAYOUT_STRETCHES_MAX];
  size_t count;  /* data blocks, then filter (if any), fences, properties */
  size_t blocks; /* data blocks */
  size_t footer; /* its offset */
  size_t size;
};
/* Of a sound file. */
void layout_read(struct layout *layout, struct kv_slice file, const struct kv_table_place *place);
/* The stretch that has the byte, or NULL in the footer. */
const struct stretch *layout_find(const struct layout *layout, size_t offset);
/* Seals all that may have been changed by a change at `offset`; the file has its old size. */
void layout_reseal(const struct layout *layout, uint8_t *file, size_t offset);
/* What a manifest would say of the file now, as far as it can be read; level and seq stay. */
void layout_describe(const struct layout *layout, const uint8_t *file, struct kv_file_info *info);

#endif
