/* Rows of ranges in order, for a cursor. Thread rule: the connection's. */
#ifndef COLFAM_WALK_H
#define COLFAM_WALK_H

#include <stdbool.h>

#include "engine/kv.h"
#include "ranges.h"
#include "schema.h"

struct colfam_track;

struct colfam_walk { /* zero-initialise */
  /* Set before the start, borrowed until the end. */
  struct kv_view *view;
  struct kv_batch *batch;
  struct colfam_ranges *ranges;
  const struct colfam_schema *schema;
  bool backwards;
  int order_from; /* rows are ordered by their keys without that many columns at the front */

  struct colfam_track *tracks;
  size_t count;
  size_t current; /* the track whose row it is; `count` at the end */
  bool is_plain;  /* one range, all rows of it */
};
/* Fixes what it sees; reads nothing yet. After a failure only release. */
kv_status colfam_walk_open(struct colfam_walk *walk, struct kv_err *err);
/* To the first row. */
kv_status colfam_walk_start(struct colfam_walk *walk, struct kv_err *err);
kv_status colfam_walk_next(struct colfam_walk *walk, struct kv_err *err);
bool colfam_walk_valid(const struct colfam_walk *walk);
struct kv_slice colfam_walk_key(const struct colfam_walk *walk);  /* borrowed until the next move */
struct kv_slice colfam_walk_head(const struct colfam_walk *walk); /* kv_scan_head, kv_scan_value */
kv_status colfam_walk_value(struct colfam_walk *walk, struct kv_slice *value, struct kv_err *err);
void colfam_walk_release(struct colfam_walk *walk);

/* Moves *key behind its first `columns` columns. */
kv_status colfam_key_cut(const struct colfam_schema *schema, int columns, struct kv_slice *key,
                         struct kv_err *err);

#endif
