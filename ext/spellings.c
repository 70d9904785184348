/* See spellings.h. The distinct texts between "\t" and ":", where all texts that look like numbers begin,
** are walked; a text that is no number is leapt over with all that begin like it (skip.h). So is one whose
** first digits are those of other numbers: what follows them changes little but the power of ten ('0013', and
** all that begins so, is not 12, nor 1.2, nor 120). */
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

/* ---- Numbers */

static double double_at(const struct kv_buf *buf, size_t index) {
  double number;
  memcpy(&number, buf->data + index * sizeof number, sizeof number);
  return number;
}

static int compare_doubles(const void *a, const void *b) {
  double x, y;
  memcpy(&x, a, sizeof x);
  memcpy(&y, b, sizeof y);
  return (x > y) - (x < y);
}

static void sort(struct kv_buf *buf) {
  size_t count = buf->size / sizeof(double);
  if (count > 1) qsort(buf->data, count, sizeof(double), compare_doubles);
}

/* Whether one of them is between the two. */
static bool has_between(const struct kv_buf *buf, double from, double to) {
  size_t low = 0, high = buf->size / sizeof(double);
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (double_at(buf, middle) < from) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low < buf->size / sizeof(double) && double_at(buf, low) <= to;
}

void colfam_numbers_clear(struct colfam_numbers *numbers) {
  kv_buf_clear(&numbers->items);
  kv_buf_clear(&numbers->mantissas);
}

void colfam_numbers_add(struct colfam_numbers *numbers, double number) {
  kv_buf_append(&numbers->items, &number, sizeof number);
}

/* How far a number may be off from what its digits say; has_number allows less. */
static const double slack = 1e-8;

static void add_mantissa(struct kv_buf *mantissas, double number) {
  double mantissa = fabs(number) / pow(10, floor(log10(fabs(number))));
  /* 9.99999999 may be spelled 10, and 1 be spelled 0.999999999999. */
  double other = mantissa < 1 + slack ? mantissa * 10 : mantissa / 10;
  kv_buf_append(mantissas, &mantissa, sizeof mantissa);
  if (mantissa < 1 + slack || mantissa > 10 * (1 - slack))
    kv_buf_append(mantissas, &other, sizeof other);
}

kv_status colfam_numbers_close(struct colfam_numbers *numbers) {
  size_t count = numbers->items.size / sizeof(double);
  bool all = true;
  for (size_t i = 0; i < count && all; i++) {
    double size = fabs(double_at(&numbers->items, i));
    all = size > 1e-300 && size < 1e300;
    if (all) add_mantissa(&numbers->mantissas, size);
  }
  if (!all) kv_buf_clear(&numbers->mantissas);
  sort(&numbers->items);
  sort(&numbers->mantissas);
  return numbers->items.status == KV_OK ? numbers->mantissas.status : KV_NOMEM;
}

size_t colfam_numbers_memory(const struct colfam_numbers *numbers) {
  return numbers->items.capacity + numbers->mantissas.capacity;
}

void colfam_numbers_release(struct colfam_numbers *numbers) {
  kv_buf_release(&numbers->items);
  kv_buf_release(&numbers->mantissas);
}

/* Whether one of them is so near that SQLite may find it equal. */
static bool has_number(const struct colfam_numbers *numbers, double number) {
  double off = isinf(number) ? 0 : fabs(number) * 1e-9;
  return has_between(&numbers->items, number - off, number + off);
}

/* ---- Digits that tell */

enum { DIGITS_MAX = 15 };

/* The digits of a text up to some place, as a number from 1 to 10 and what the next digit adds at most. */
struct digits {
  int count; /* behind leading zeros */
  double value, step;
};

static void add_digit(struct digits *digits, int digit) {
  if (!digits->count && !digit) return;
  digits->step = digits->count++ ? digits->step / 10 : 1;
  digits->value += digit * digits->step;
}

static bool may_spell(const struct colfam_numbers *numbers, const struct digits *digits) {
  double off = digits->value * slack;
  if (!digits->count || digits->count > DIGITS_MAX) return true;
  return has_between(&numbers->mantissas, digits->value - off, digits->value + digits->step + off);
}

/* Bytes at the text's start with which no spelling of any of the numbers begins; 0 when there are none. */
static size_t foreign_start(const struct colfam_numbers *numbers, struct kv_slice text) {
  struct digits digits = {0};
  if (!numbers->mantissas.size) return 0;
  for (size_t at = 0; at < text.size; at++) {
    uint8_t byte = text.data[at];
    if (byte == 'e' || byte == 'E' || !byte) return 0;
    if (byte < '0' || byte > '9') continue; /* blank, sign, point; or it is no number */
    add_digit(&digits, byte - '0');
    if (!may_spell(numbers, &digits)) return at + 1;
  }
  return 0;
}

/* ---- The walk */

/* The column of the scan's key; *key is cut behind it. */
static kv_status decode(const struct colfam_spellings *self, struct kv_slice *key,
                        struct kv_datum *datum, struct kv_err *err) {
  size_t prefix_size = self->prefix.size;
  struct kv_slice rest = kv_slice_of(key->data + prefix_size, key->size - prefix_size);
  kv_buf_clear(self->scratch);
  kv_status status = kv_key_decode(&rest, self->part, self->scratch, datum, err);
  if (status == KV_OK) key->size -= rest.size;
  return status;
}

/* Past texts that by their first digits spell none of the numbers, or that are no numbers. */
static kv_status skip_others(const struct colfam_spellings *self, const struct colfam_skip *skip,
                             bool *moved, struct kv_err *err) {
  struct kv_datum datum;
  struct kv_slice key = kv_scan_key(skip->scan);
  kv_status status = decode(self, &key, &datum, err);
  if (status != KV_OK) return status;
  size_t foreign = datum.type == KV_TEXT ? foreign_start(self->numbers, datum.bytes) : 0;
  *moved = foreign != 0;
  return foreign ? colfam_skip_alike(skip, foreign, err) : colfam_skip_text(skip, moved, err);
}

static bool spells_number(const struct colfam_spellings *self, const struct kv_datum *datum) {
  double number;
  return datum->type == KV_TEXT && colfam_numeral(datum->bytes, &number) &&
         has_number(self->numbers, number);
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
  bool more = true, moved;
  kv_status status = kv_scan_first(skip->scan, err);
  while (status == KV_OK && more && kv_scan_valid(skip->scan)) {
    struct kv_datum datum;
    status = skip_others(self, skip, &moved, err);
    if (status != KV_OK || moved) continue;
    struct kv_slice column = kv_scan_key(skip->scan);
    status = decode(self, &column, &datum, err);
    if (status != KV_OK) break;
    if (spells_number(self, &datum)) colfam_strings_add(out, column);
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
