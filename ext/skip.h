/* Walking texts that SQLite takes for numbers, among texts that it does not ('2024-06-02', '3f-a'): at one
** that is none, a scan leaps over all that begin alike and can be none either. */
#ifndef COLFAM_SKIP_H
#define COLFAM_SKIP_H

#include "engine/kv.h"

/* A scan and the key column that is walked. */
struct colfam_skip {
  struct kv_scan *scan;
  struct kv_bounds bounds; /* of the walk, perhaps narrower than the scan's */
  size_t prefix_size;      /* bytes of the keys before the column: the same in all keys walked */
  struct kv_key_part part;
  bool backwards;
  struct kv_buf *scratch;
};

/* Of a scan at a key inside the bounds: *moved is false when the column is a text that is a number as a
** whole (or no text at all). Otherwise the scan moves on, at least to the next key, never past a number nor
** past a key behind the bounds; it may then be there, or not valid. */
kv_status colfam_skip_text(const struct colfam_skip *skip, bool *moved, struct kv_err *err);

/* The same at a key that is not wanted, nor is any that begins with the first `size` bytes of its column: a
** text, none of these bytes NUL. */
kv_status colfam_skip_alike(const struct colfam_skip *skip, size_t size, struct kv_err *err);

/* To the last key below `key`. */
kv_status colfam_seek_below(struct kv_scan *scan, struct kv_slice key, struct kv_err *err);

#endif
