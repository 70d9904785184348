/* The entries of one run, in key order, passing over what cannot be read and remembering where that was. */
#ifndef KV_SALVAGE_RUN_H
#define KV_SALVAGE_RUN_H

#include "view.h"

/* A stretch of keys that the run may have had: lower <= key < upper, or <= upper when closed. */
struct kv_hole {
  struct kv_buf lower, upper;
  bool closed;
  uint64_t file;
  uint64_t position;
  const struct kv_table *table; /* whose filter says more; NULL: nothing of the file can be read */
};

struct kv_salvage_run {
  struct kv_family *family;
  const struct kv_run *run; /* borrowed from a view */
  size_t file;              /* the current one */
  struct kv_table *table;   /* its; NULL: not opened or unreadable */
  uint32_t next_block;
  uint8_t *bytes; /* of the current block */
  struct kv_block_cursor cursor;
  uint64_t read; /* entries of the blocks of this file that could be read */
  /* Holes so far, ascending. Tables with holes are kept for their filters. */
  struct kv_hole *holes;
  size_t hole_count, hole_capacity;
  size_t passed; /* holes before it are below every key still to come */
  struct kv_table **kept;
  size_t kept_count;
};
void kv_salvage_run_init(struct kv_salvage_run *run, struct kv_family *family,
                         const struct kv_run *of);
void kv_salvage_run_release(struct kv_salvage_run *run);
/* To the next entry, or the first: run->cursor, not valid at the end. Damage is passed over; any status is a
** lack of memory. */
kv_status kv_salvage_run_next(struct kv_salvage_run *run, struct kv_err *err);
/* Whether the run may have had the key where it cannot be read. Asked for ascending keys that are not above
** the current entry. */
bool kv_salvage_run_hides(struct kv_salvage_run *run, struct kv_slice key, uint64_t hash);

#endif
