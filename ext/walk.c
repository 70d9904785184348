/* See walk.h. In key order one scan goes over all ranges and leaps the gaps. When rows are ordered without
** the first columns of their keys, ranges that begin with the same ones get a scan for themselves, and the
** scans are merged. */
#include "walk.h"

#include <string.h>

#include "skip.h"

/* A scan over the ranges first..end-1. */
struct colfam_track {
  struct kv_scan *scan;
  size_t first, end;
  size_t range; /* the range it is in, counted from where it began */
};

kv_status colfam_key_cut(const struct colfam_schema *schema, int columns, struct kv_slice *key,
                         struct kv_err *err) {
  struct kv_buf scratch;
  struct kv_datum datum;
  kv_status status = KV_OK;
  kv_buf_init(&scratch);
  for (int i = 0; i < columns && status == KV_OK; i++) {
    kv_buf_clear(&scratch);
    status = kv_key_decode(key, colfam_schema_key_part(schema, i), &scratch, &datum, err);
  }
  kv_buf_release(&scratch);
  return status;
}

/* ---- One track */

/* Behind the bounds of a range. */
static bool is_past(const struct kv_bounds *bounds, struct kv_slice key) {
  return bounds->has_upper && kv_slice_compare(key, bounds->upper) >= 0;
}

static bool is_before(const struct kv_bounds *bounds, struct kv_slice key) {
  return kv_slice_compare(key, bounds->lower) < 0;
}

/* Over the gap before the range. */
static kv_status enter(struct kv_scan *scan, const struct kv_bounds *bounds, bool backwards,
                       struct kv_err *err) {
  return backwards ? colfam_seek_below(scan, bounds->upper, err)
                   : kv_scan_seek(scan, bounds->lower, err);
}

/* Moves on to the next row that is in a range and wanted; at the end the scan is not valid or no range is
** left. */
static kv_status settle(const struct colfam_walk *walk, struct colfam_track *track,
                        struct kv_err *err) {
  struct kv_scan *scan = track->scan;
  bool backwards = walk->backwards, moved = true;
  kv_status status = KV_OK;
  /* The scan's own bounds are those of a single range. */
  if (track->end - track->first == 1 && !walk->ranges->skips) return KV_OK;
  while (status == KV_OK && moved && kv_scan_valid(scan) && track->range < track->end) {
    size_t range = backwards ? track->first + track->end - 1 - track->range : track->range;
    struct kv_bounds bounds = colfam_ranges_at(walk->ranges, range);
    bool before = is_before(&bounds, kv_scan_key(scan)), past = is_past(&bounds, kv_scan_key(scan));
    if (backwards ? before : past) {
      track->range++;
    } else if (before || past) {
      status = enter(scan, &bounds, backwards, err);
    } else {
      status = colfam_ranges_skip(walk->ranges, range, scan, backwards, &moved, err);
    }
  }
  return status;
}

static bool is_valid(const struct colfam_track *track) {
  return track->range < track->end && kv_scan_valid(track->scan);
}

static kv_status open_track(struct colfam_walk *walk, size_t first, size_t end,
                            struct kv_err *err) {
  struct colfam_track *track = &walk->tracks[walk->count];
  struct kv_bounds all = colfam_ranges_at(walk->ranges, first);
  struct kv_bounds last = colfam_ranges_at(walk->ranges, end - 1);
  all.upper = last.upper;
  all.has_upper = last.has_upper;
  *track = (struct colfam_track){NULL, first, end, first};
  kv_status status = kv_scan_open(walk->view, walk->batch, &all, &track->scan, err);
  if (status == KV_OK) walk->count++;
  return status;
}

static kv_status start_track(struct colfam_walk *walk, struct colfam_track *track,
                             struct kv_err *err) {
  kv_status status =
      walk->backwards ? kv_scan_last(track->scan, err) : kv_scan_first(track->scan, err);
  return status == KV_OK ? settle(walk, track, err) : status;
}

/* ---- Merge */

static kv_status compare(const struct colfam_walk *walk, size_t a, size_t b, int *order,
                         struct kv_err *err) {
  struct kv_slice x = kv_scan_key(walk->tracks[a].scan), y = kv_scan_key(walk->tracks[b].scan);
  kv_status status = colfam_key_cut(walk->schema, walk->order_from, &x, err);
  if (status == KV_OK) status = colfam_key_cut(walk->schema, walk->order_from, &y, err);
  *order = status == KV_OK ? kv_slice_compare(x, y) : 0;
  if (walk->backwards) *order = -*order;
  return status;
}

static kv_status choose(struct colfam_walk *walk, struct kv_err *err) {
  size_t best = walk->count;
  for (size_t i = 0; i < walk->count; i++) {
    int order = -1;
    if (!is_valid(&walk->tracks[i])) continue;
    if (best < walk->count) {
      kv_status status = compare(walk, i, best, &order, err);
      if (status != KV_OK) return status;
    }
    if (order < 0) best = i;
  }
  walk->current = best;
  return KV_OK;
}

/* Behind the ranges that begin with the same `order_from` columns as the first one. */
static kv_status end_of_group(const struct colfam_walk *walk, size_t first, size_t *end,
                              struct kv_err *err) {
  struct kv_slice group = colfam_ranges_at(walk->ranges, first).lower, rest = group;
  kv_status status = colfam_key_cut(walk->schema, walk->order_from, &rest, err);
  group.size -= rest.size;
  for (*end = first + 1; status == KV_OK && *end < walk->ranges->count; ++*end) {
    struct kv_slice lower = colfam_ranges_at(walk->ranges, *end).lower;
    if (kv_slice_shared_prefix(lower, group) < group.size) break;
  }
  return status;
}

static kv_status count_groups(const struct colfam_walk *walk, size_t *groups, struct kv_err *err) {
  kv_status status = KV_OK;
  *groups = 0;
  for (size_t at = 0; at < walk->ranges->count && status == KV_OK; ++*groups)
    status = end_of_group(walk, at, &at, err);
  return status;
}

/* ---- Public */

kv_status colfam_walk_open(struct colfam_walk *walk, struct kv_err *err) {
  size_t ranges = walk->ranges->count, groups = 1, end = ranges;
  if (!ranges) return KV_OK;
  walk->is_plain = ranges == 1 && !walk->ranges->skips;
  kv_status status = walk->order_from ? count_groups(walk, &groups, err) : KV_OK;
  if (status != KV_OK) return status;
  walk->tracks = sqlite3_malloc64(sizeof *walk->tracks * groups);
  if (!walk->tracks) return kv_fail_nomem(err);
  for (size_t first = 0; first < ranges && status == KV_OK; first = end) {
    if (walk->order_from) status = end_of_group(walk, first, &end, err);
    if (status == KV_OK) status = open_track(walk, first, end, err);
  }
  return status;
}

kv_status colfam_walk_start(struct colfam_walk *walk, struct kv_err *err) {
  kv_status status = KV_OK;
  for (size_t i = 0; i < walk->count && status == KV_OK; i++)
    status = start_track(walk, &walk->tracks[i], err);
  return status == KV_OK ? choose(walk, err) : status;
}

kv_status colfam_walk_next(struct colfam_walk *walk, struct kv_err *err) {
  struct colfam_track *track = &walk->tracks[walk->current];
  kv_status status =
      walk->backwards ? kv_scan_prev(track->scan, err) : kv_scan_next(track->scan, err);
  if (walk->is_plain) {
    walk->current = !kv_scan_valid(track->scan);
    return status;
  }
  if (status == KV_OK) status = settle(walk, track, err);
  return status == KV_OK ? choose(walk, err) : status;
}

bool colfam_walk_valid(const struct colfam_walk *walk) {
  return walk->current < walk->count;
}

struct kv_slice colfam_walk_key(const struct colfam_walk *walk) {
  return kv_scan_key(walk->tracks[walk->current].scan);
}

struct kv_slice colfam_walk_head(const struct colfam_walk *walk) {
  return kv_scan_head(walk->tracks[walk->current].scan);
}

kv_status colfam_walk_value(struct colfam_walk *walk, struct kv_slice *value, struct kv_err *err) {
  return kv_scan_value(walk->tracks[walk->current].scan, value, err);
}

void colfam_walk_release(struct colfam_walk *walk) {
  for (size_t i = 0; i < walk->count; i++) kv_scan_close(walk->tracks[i].scan);
  sqlite3_free(walk->tracks);
  walk->tracks = NULL;
  walk->count = walk->current = 0;
}
