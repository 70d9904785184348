/* See spellings.h. The distinct texts between "\t" and ":", where all texts that look like numbers begin,
** are walked; a text that is no number is leapt over with all that begin like it (skip.h). */
#include "spellings.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "numeral.h"
#include "skip.h"

static const struct kv_datum first_numeral = {.type = KV_TEXT, .bytes = {(const uint8_t *)"\t", 1}};
static const struct kv_datum past_numerals = {.type = KV_TEXT, .bytes = {(const uint8_t *)":", 1}};
const struct colfam_bound colfam_numerals_begin = {&first_numeral, false};
const struct colfam_bound colfam_numerals_end = {&past_numerals, true};

static int compare_doubles(const void *a, const void *b) {
  double x, y;
  memcpy(&x, a, sizeof x);
  memcpy(&y, b, sizeof y);
  return (x > y) - (x < y);
}

void colfam_numbers_sort(double *items, size_t count) {
  if (count > 1) qsort(items, count, sizeof *items, compare_doubles);
}

/* Whether one of them is so near that SQLite may find it equal. */
static bool has_number(const struct colfam_numbers *numbers, double number) {
  double slack = isinf(number) ? 0 : fabs(number) * 1e-9;
  size_t low = 0, high = numbers->count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (numbers->items[middle] < number - slack) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low < numbers->count && numbers->items[low] <= number + slack;
}

/* Cuts the key behind the column and says whether that is a text which spells one of the numbers. */
static kv_status spells_number(const struct colfam_spellings *self, struct kv_slice *key,
                               bool *spells, struct kv_err *err) {
  struct kv_datum datum;
  double number;
  size_t prefix_size = self->prefix.size;
  struct kv_slice rest = kv_slice_of(key->data + prefix_size, key->size - prefix_size);
  kv_buf_clear(self->scratch);
  kv_status status = kv_key_decode(&rest, self->part, self->scratch, &datum, err);
  if (status != KV_OK) return status;
  key->size -= rest.size;
  *spells = datum.type == KV_TEXT && colfam_numeral(datum.bytes, &number) &&
            has_number(&self->numbers, number);
  return KV_OK;
}

/* To the first key whose column differs from that of `column` (a key cut behind it). */
static kv_status next_column(const struct colfam_spellings *self, struct kv_scan *scan,
                             struct kv_slice column, bool *more, struct kv_err *err) {
  *more = true;
  if (self->part.last) return kv_scan_next(scan, err);
  kv_buf_clear(self->scratch);
  kv_buf_append(self->scratch, column.data, column.size);
  if (self->scratch->status != KV_OK) return kv_fail_nomem(err);
  *more = kv_key_prefix_successor(self->scratch);
  return *more ? kv_scan_seek(scan, kv_buf_slice(self->scratch), err) : KV_OK;
}

static kv_status walk(const struct colfam_spellings *self, const struct colfam_skip *skip,
                      struct colfam_strings *out, struct kv_err *err) {
  bool more = true;
  kv_status status = kv_scan_first(skip->scan, err);
  while (status == KV_OK && more && kv_scan_valid(skip->scan)) {
    bool moved, spells;
    status = colfam_skip_text(skip, &moved, err);
    if (status != KV_OK || moved) continue;
    struct kv_slice column = kv_scan_key(skip->scan);
    status = spells_number(self, &column, &spells, err);
    if (status != KV_OK) break;
    if (spells) colfam_strings_add(out, column);
    status = next_column(self, skip->scan, column, &more, err);
  }
  return status;
}

kv_status colfam_spellings_find(const struct colfam_spellings *self, struct colfam_strings *out,
                                struct kv_err *err) {
  struct kv_buf lower, upper;
  struct kv_scan *scan = NULL;
  struct kv_key_part part = self->part;
  const struct colfam_bound begin = colfam_numerals_begin, end = colfam_numerals_end;
  kv_buf_init(&lower);
  kv_buf_init(&upper);
  colfam_bound_lower(&lower, self->prefix, part, part.descending ? end : begin);
  bool has_upper = colfam_bound_upper(&upper, self->prefix, part, part.descending ? begin : end);
  kv_status status = lower.status == KV_OK && upper.status == KV_OK ? KV_OK : kv_fail_nomem(err);
  struct kv_bounds bounds = {kv_buf_slice(&lower), kv_buf_slice(&upper), has_upper};
  if (status == KV_OK) status = kv_scan_open(self->view, self->batch, &bounds, &scan, err);
  struct colfam_skip skip = {.scan = scan,
                             .bounds = bounds,
                             .prefix_size = self->prefix.size,
                             .part = part,
                             .scratch = self->scratch};
  if (status == KV_OK) status = walk(self, &skip, out, err);
  kv_scan_close(scan);
  kv_buf_release(&lower);
  kv_buf_release(&upper);
  return status;
}
