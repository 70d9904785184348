/* See skip.h. A text that is no number has a longest part that a number can begin with: '2024' of
** '2024-06-02'. All texts that begin with that part and the byte behind it ('2024-') are no numbers; their
** keys begin alike too, in whatever direction the column is ordered, and are a zone without numbers. A
** text that ends where a number could go on (' ', '1e') is a zone by itself.
**
** A zone often holds but one key, and a step is cheaper than a seek: so one step first. Any thread, one at
** a time for a scan. */
#include "skip.h"

#include <string.h>

#include "numeral.h"

/* The first `size` bytes of a key, which no number's key has. */
struct zone {
  size_t size; /* 0: the key is a number's */
  bool alone;  /* the zone is this key only: others that begin so may be numbers */
};

static kv_status find_zone(const struct colfam_skip *skip, struct kv_slice key, struct zone *zone,
                           struct kv_err *err) {
  struct kv_datum datum;
  struct kv_slice rest = kv_slice_of(key.data + skip->prefix_size, key.size - skip->prefix_size);
  bool ended = !skip->part.last || skip->part.descending, whole;
  *zone = (struct zone){0};
  kv_buf_clear(skip->scratch);
  kv_status status = kv_key_decode(&rest, skip->part, skip->scratch, &datum, err);
  if (status != KV_OK || datum.type != KV_TEXT) return status;
  size_t reach = colfam_numeral_reach(datum.bytes, &whole);
  if (whole) return KV_OK;
  if (reach == datum.bytes.size) {
    *zone = (struct zone){key.size - rest.size, !ended};
    return KV_OK;
  }
  /* The type's byte, what a number begins with (no byte of which is escaped), the byte behind. */
  bool escaped = ended && datum.bytes.data[reach] == 0;
  zone->size = skip->prefix_size + 1 + reach + 1 + escaped;
  return KV_OK;
}

kv_status colfam_seek_below(struct kv_scan *scan, struct kv_slice key, struct kv_err *err) {
  kv_status status = kv_scan_seek(scan, key, err);
  if (status != KV_OK) return status;
  return kv_scan_valid(scan) ? kv_scan_prev(scan, err) : kv_scan_last(scan, err);
}

static kv_status step(const struct colfam_skip *skip, struct kv_err *err) {
  return skip->backwards ? kv_scan_prev(skip->scan, err) : kv_scan_next(skip->scan, err);
}

static bool is_in_zone(const struct colfam_skip *skip) {
  if (!kv_scan_valid(skip->scan)) return false;
  struct kv_slice key = kv_scan_key(skip->scan), zone = kv_buf_slice(skip->scratch);
  return key.size >= zone.size && memcmp(key.data, zone.data, zone.size) == 0;
}

/* The zone may go on behind the bounds. */
static kv_status leave_zone(const struct colfam_skip *skip, struct kv_err *err) {
  const struct kv_bounds *bounds = &skip->bounds;
  struct kv_slice zone = kv_buf_slice(skip->scratch);
  if (skip->backwards) {
    bool cut = kv_slice_compare(zone, bounds->lower) < 0;
    return colfam_seek_below(skip->scan, cut ? bounds->lower : zone, err);
  }
  if (!kv_key_prefix_successor(skip->scratch)) return KV_OK;
  struct kv_slice behind = kv_buf_slice(skip->scratch);
  bool cut = bounds->has_upper && kv_slice_compare(bounds->upper, behind) < 0;
  return kv_scan_seek(skip->scan, cut ? bounds->upper : behind, err);
}

/* To a key behind those of the zone that the current key is in. */
static kv_status pass_zone(const struct colfam_skip *skip, struct zone zone, struct kv_err *err) {
  kv_buf_clear(skip->scratch);
  kv_buf_append(skip->scratch, kv_scan_key(skip->scan).data, zone.size);
  if (skip->scratch->status != KV_OK) return kv_fail_nomem(err);
  kv_status status = step(skip, err);
  if (status != KV_OK || zone.alone || !is_in_zone(skip)) return status;
  return leave_zone(skip, err);
}

kv_status colfam_skip_text(const struct colfam_skip *skip, bool *moved, struct kv_err *err) {
  struct zone zone;
  kv_status status = find_zone(skip, kv_scan_key(skip->scan), &zone, err);
  *moved = status == KV_OK && zone.size;
  return *moved ? pass_zone(skip, zone, err) : status;
}

kv_status colfam_skip_alike(const struct colfam_skip *skip, size_t size, struct kv_err *err) {
  return pass_zone(skip, (struct zone){skip->prefix_size + 1 + size, false}, err);
}
