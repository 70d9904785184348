/* See ranges.h.
**
** The right side of a bound may be a text that a numeric column holds because it is no number; all numbers
** are below it then, '9' < '+x' among them. So an upper bound that is a text or a number has two intervals:
** the values below it, and behind these the texts that are numbers as a whole, on which a scan leaps from
** one to the next (colfam_ranges_skip). A bound needs no second one when it is surely compared as a text
** (compares_as_text).
**
** The bounds of a pattern (plan.h) are a text and its successor, made by SQLite from the start of a LIKE or
** GLOB pattern: under NOCASE the first in capitals and the second not, so that all spellings are between
** them byte by byte too. Where keys are not folded, each case of the first letters gets its own interval.
** Patterns also match blobs, by their bytes: one more. */
#include "ranges.h"

#include <string.h>

#include "numeral.h"
#include "skip.h"
#include "spellings.h"

/* ---- Bounds of a column */

void colfam_column_bounds_init(struct colfam_column_bounds *bounds) {
  memset(bounds, 0, sizeof *bounds);
  kv_buf_init(&bounds->pattern_bytes);
}

void colfam_column_bounds_release(struct colfam_column_bounds *bounds) {
  kv_buf_release(&bounds->pattern_bytes);
}

/* A numeric column holds no text that is a number. Nor does it hold what was just bound, but for `new` in a
** trigger and `excluded`, when a statement writes. */
static bool compares_as_text(const struct colfam_argument *argument, bool writing) {
  return colfam_is_numeral(argument->datum.bytes) || (argument->bound && !writing);
}

static bool needs_numerals(const struct colfam_argument *upper, bool plain, bool writing) {
  if (upper->widens) return true;
  if (upper->affinity >= COLFAM_AFF_NUMERIC || upper->datum.type != KV_TEXT) return false;
  bool beyond = upper->datum.bytes.size && upper->datum.bytes.data[0] >= ':';
  return !beyond && !plain && !compares_as_text(upper, writing);
}

static int rank_of(kv_type type) {
  return type == KV_REAL ? KV_INTEGER : type;
}

/* A lower bound of texts becomes the stricter one of itself and another; what is below all texts is none. */
static void raise_bound(struct colfam_bound *bound, struct colfam_bound other,
                        kv_collation collation) {
  if (!other.datum || rank_of(other.datum->type) < KV_TEXT) return;
  int order = rank_of(other.datum->type) - KV_TEXT;
  if (!order) order = kv_text_compare(collation, other.datum->bytes, bound->datum->bytes);
  if (order > 0) *bound = other;
  if (order == 0) bound->open |= other.open;
}

/* Behind the values below the upper bound: the texts that are numbers. */
static void add_numerals(struct colfam_column_bounds *bounds) {
  struct colfam_interval *values = &bounds->intervals[0], *numerals = &bounds->intervals[1];
  struct colfam_bound behind = {values->upper.datum, !values->upper.open};
  bounds->count = 2;
  *numerals = (struct colfam_interval){colfam_numerals_begin, colfam_numerals_end, true};
  raise_bound(&numerals->lower, behind, bounds->part.collation);
  raise_bound(&numerals->lower, values->lower, bounds->part.collation);
}

static void add_pattern(struct colfam_column_bounds *bounds, kv_type type, struct kv_slice start,
                        struct kv_slice end) {
  struct kv_datum *pair = &bounds->pattern[(ptrdiff_t)2 * bounds->count];
  pair[0] = (struct kv_datum){.type = type, .bytes = start};
  pair[1] = (struct kv_datum){.type = type, .bytes = end};
  bounds->intervals[bounds->count++] =
      (struct colfam_interval){{&pair[0], false}, {&pair[1], true}, false};
}

static bool is_letter(uint8_t byte) {
  return (byte >= 'A' && byte <= 'Z') || (byte >= 'a' && byte <= 'z');
}

static uint8_t to_case(uint8_t byte, bool lower) {
  if (!is_letter(byte)) return byte;
  return lower ? byte | 0x20 : byte & 0xdf;
}

/* Texts that begin like `start` in some case of letters: the first `letters` ones in that of the bits of
** `cases`, the others in any. */
static void add_cases(struct colfam_column_bounds *bounds, struct kv_slice start, int letters,
                      unsigned cases, uint8_t *from, uint8_t *to) {
  for (size_t i = 0; i < start.size; i++) {
    bool fixed = letters > 0 && is_letter(start.data[i]);
    if (fixed) letters--;
    bool lower = cases >> letters & 1;
    from[i] = to_case(start.data[i], fixed && lower);
    to[i] = to_case(start.data[i], !fixed || lower);
  }
  to[start.size - 1]++;
  add_pattern(bounds, KV_TEXT, kv_slice_of(from, start.size), kv_slice_of(to, start.size));
}

static int add_all_cases(struct colfam_column_bounds *bounds, struct kv_slice start) {
  int letters = 0;
  for (size_t i = 0; i < start.size && letters < COLFAM_PATTERN_LETTERS_MAX; i++)
    letters += is_letter(start.data[i]);
  unsigned count = 1u << letters;
  uint8_t *at = kv_buf_extend(&bounds->pattern_bytes, count * 2 * start.size);
  if (!at) return SQLITE_NOMEM;
  for (unsigned cases = 0; cases < count; cases++, at += 2 * start.size)
    add_cases(bounds, start, letters, cases, at, at + start.size);
  return SQLITE_OK;
}

/* Under NOCASE the successor of a folded text is not the folded successor. */
static int add_folded(struct colfam_column_bounds *bounds, struct kv_slice start) {
  uint8_t *end = kv_buf_extend(&bounds->pattern_bytes, start.size);
  if (!end) return SQLITE_NOMEM;
  for (size_t i = 0; i < start.size; i++) end[i] = to_case(start.data[i], true);
  end[start.size - 1]++;
  add_pattern(bounds, KV_TEXT, start, kv_slice_of(end, start.size));
  return SQLITE_OK;
}

static bool is_next(struct kv_slice start, struct kv_slice end) {
  size_t last = start.size - 1;
  return memcmp(start.data, end.data, last) == 0 && end.data[last] == start.data[last] + 1;
}

static int set_pattern(struct colfam_column_bounds *bounds) {
  struct kv_slice start = bounds->lower.datum.bytes, end = bounds->upper.datum.bytes;
  int rc = SQLITE_OK;
  if (bounds->part.collation == KV_NOCASE) {
    rc = add_folded(bounds, start);
  } else if (is_next(start, end)) {
    add_pattern(bounds, KV_TEXT, start, end);
  } else {
    rc = add_all_cases(bounds, start);
  }
  add_pattern(bounds, KV_BLOB, start, end);
  return rc;
}

/* `> 5` on a text column may be true of all texts that are no number. */
static bool bounds_nothing(const struct colfam_argument *lower) {
  return lower->widens && lower->affinity == COLFAM_AFF_TEXT;
}

/* In the order of sort keys a text or blob bounds nothing. */
static bool is_unordered(const struct colfam_argument *argument) {
  return argument->part.encoder && argument->datum.type >= KV_TEXT;
}

static void set_values(struct colfam_column_bounds *bounds, const struct colfam_plan *plan,
                       bool writing) {
  struct colfam_interval *values = &bounds->intervals[0];
  bounds->count = 1;
  bounds->widened = plan->has_lower && bounds_nothing(&bounds->lower);
  if (is_unordered(&bounds->lower) || is_unordered(&bounds->upper)) bounds->widened = true;
  if (plan->has_lower && !bounds->widened)
    values->lower = (struct colfam_bound){&bounds->lower.datum, plan->lower_open};
  if (!plan->has_upper || is_unordered(&bounds->upper)) return;
  values->upper = (struct colfam_bound){&bounds->upper.datum, plan->upper_open};
  if (needs_numerals(&bounds->upper, plan->upper_plain, writing)) add_numerals(bounds);
}

int colfam_column_bounds_read(struct colfam_column_bounds *bounds,
                              const struct colfam_schema *schema, const struct colfam_plan *plan,
                              bool writing, sqlite3_value **argv) {
  int rc = SQLITE_OK, position = plan->equal_count;
  bounds->part = colfam_schema_key_part(schema, position);
  bounds->lower.datum.type = bounds->upper.datum.type = KV_BLOB;
  if (plan->has_lower) rc = colfam_argument_read(schema, position, *argv++, &bounds->lower);
  if (plan->has_upper && rc == SQLITE_OK)
    rc = colfam_argument_read(schema, position, *argv++, &bounds->upper);
  /* Nothing compares with a NULL. */
  bool none = bounds->lower.datum.type == KV_NULL || bounds->upper.datum.type == KV_NULL;
  if (rc != SQLITE_OK || none) return rc;
  bool pattern =
      plan->pattern && bounds->lower.datum.type == KV_TEXT && bounds->upper.datum.type == KV_TEXT;
  if (pattern) return set_pattern(bounds);
  set_values(bounds, plan, writing);
  return SQLITE_OK;
}

/* ---- Ranges */

/* A range's bounds are the strings `lower` and `lower` + 1. */
struct range {
  size_t lower;
  size_t prefix_size; /* bytes of its keys before the bounded column */
  bool has_upper;
  bool numerals; /* only texts that are numbers are wanted */
};

static struct range range_at(const struct colfam_ranges *ranges, size_t index) {
  struct range range;
  memcpy(&range, ranges->items.data + index * sizeof range, sizeof range);
  return range;
}

struct kv_bounds colfam_ranges_at(const struct colfam_ranges *ranges, size_t index) {
  struct range range = range_at(ranges, index);
  return (struct kv_bounds){colfam_strings_at(&ranges->strings, range.lower),
                            colfam_strings_at(&ranges->strings, range.lower + 1), range.has_upper};
}

kv_status colfam_ranges_skip(struct colfam_ranges *ranges, size_t index, struct kv_scan *scan,
                             bool backwards, bool *moved, struct kv_err *err) {
  struct range range = range_at(ranges, index);
  *moved = false;
  if (!range.numerals) return KV_OK;
  struct colfam_skip skip = {.scan = scan,
                             .bounds = colfam_ranges_at(ranges, index),
                             .prefix_size = range.prefix_size,
                             .part = ranges->part,
                             .backwards = backwards,
                             .scratch = &ranges->scratch};
  return colfam_skip_text(&skip, moved, err);
}

/* Adds the interval as a range, if there can be anything in it. */
static int add_range(struct colfam_ranges *ranges, struct kv_slice prefix,
                     const struct colfam_interval *interval) {
  struct kv_buf *key = &ranges->scratch;
  struct kv_key_part part = ranges->part;
  struct range range = {.lower = colfam_strings_count(&ranges->strings),
                        .prefix_size = prefix.size,
                        .numerals = interval->numerals};
  colfam_bound_lower(key, prefix, part, part.descending ? interval->upper : interval->lower);
  colfam_strings_add(&ranges->strings, kv_buf_slice(key));
  bool lower_ok = key->status == KV_OK;
  range.has_upper =
      colfam_bound_upper(key, prefix, part, part.descending ? interval->lower : interval->upper);
  colfam_strings_add(&ranges->strings, kv_buf_slice(key));
  if (!lower_ok || key->status != KV_OK || !colfam_strings_ok(&ranges->strings))
    return SQLITE_NOMEM;
  struct kv_slice from = colfam_strings_at(&ranges->strings, range.lower);
  if (range.has_upper && kv_slice_compare(from, kv_buf_slice(key)) >= 0) return SQLITE_OK;
  kv_buf_append(&ranges->items, &range, sizeof range);
  ranges->count++;
  ranges->skips |= range.numerals;
  return ranges->items.status == KV_OK ? SQLITE_OK : SQLITE_NOMEM;
}

static int add_ranges(struct colfam_ranges *ranges, struct kv_slice prefix,
                      const struct colfam_column_bounds *bounds) {
  int rc = SQLITE_OK;
  for (int i = 0; i < bounds->count && rc == SQLITE_OK; i++) {
    int at = ranges->part.descending ? bounds->count - 1 - i : i;
    rc = add_range(ranges, prefix, &bounds->intervals[at]);
  }
  return rc;
}

void colfam_ranges_clear(struct colfam_ranges *ranges) {
  ranges->count = 0;
  ranges->skips = ranges->widened = false;
  colfam_strings_clear(&ranges->strings);
  kv_buf_clear(&ranges->items);
}

int colfam_ranges_make(struct colfam_ranges *ranges, const struct kv_slice *prefixes, size_t count,
                       const struct colfam_column_bounds *bounds) {
  static const struct colfam_interval all;
  int rc = SQLITE_OK;
  colfam_ranges_clear(ranges);
  if (bounds) ranges->part = bounds->part;
  for (size_t i = 0; i < count && rc == SQLITE_OK; i++)
    rc = bounds ? add_ranges(ranges, prefixes[i], bounds) : add_range(ranges, prefixes[i], &all);
  ranges->widened = ranges->skips || (bounds && bounds->widened);
  return rc;
}

size_t colfam_ranges_memory(const struct colfam_ranges *ranges) {
  return colfam_strings_memory(&ranges->strings) + ranges->items.capacity +
         ranges->scratch.capacity;
}

void colfam_ranges_release(struct colfam_ranges *ranges) {
  colfam_strings_release(&ranges->strings);
  kv_buf_release(&ranges->items);
  kv_buf_release(&ranges->scratch);
}
