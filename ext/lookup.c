/* See lookup.h.
**
** Bound key columns are worked off from the left: a list of encoded prefixes, one at first, gets each
** column's value appended; an IN list multiplies it. Then each prefix is a key, or bounds make a range of
** it.
**
** Widening. A comparison with a numeric right side that has a numeric affinity (another table's INTEGER
** column, a CAST) is made on numbers even when the key column is TEXT or has no type: '01', ' 1' and
** '1.0' all equal 1. SQLite does not say which kind of right side an argument comes from. So a number
** against such a key column stands for every text among the keys that spells it: these are looked up
** (find_spellings) by walking the distinct texts between "\t" and ":", where all texts that look like
** numbers begin, under the prefix. SQLite tests each row again.
**
** With bounds, the right side may also be a text that a numeric column holds because it is no number; all
** numbers are below it then, '9' < '+x' among them. So an upper bound that is a text or a number has two
** ranges: the values below it, and behind these the texts that are numbers as a whole, on which the cursor
** leaps from one to the next (colfam_lookup_skip). A bound needs no second range when it is surely compared
** as a text (compares_as_text).
** Thread rule: the connection's. */
#include "lookup.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "numeral.h"
#include "row.h"
#include "table.h"

/* ---- Strings */

size_t colfam_strings_count(const struct colfam_strings *strings) {
  return strings->ends.size / sizeof(size_t);
}

static size_t end_at(const struct colfam_strings *strings, size_t index) {
  size_t end;
  memcpy(&end, strings->ends.data + index * sizeof end, sizeof end);
  return end;
}

struct kv_slice colfam_strings_at(const struct colfam_strings *strings, size_t index) {
  size_t start = index ? end_at(strings, index - 1) : 0;
  size_t end = end_at(strings, index);
  return end == start ? kv_slice_of(NULL, 0)
                      : kv_slice_of(strings->bytes.data + start, end - start);
}

static void strings_clear(struct colfam_strings *strings) {
  kv_buf_clear(&strings->bytes);
  kv_buf_clear(&strings->ends);
}

/* What was appended to `bytes` since the last one becomes a string. */
static void strings_close(struct colfam_strings *strings) {
  kv_buf_append(&strings->ends, &strings->bytes.size, sizeof strings->bytes.size);
}

static void strings_release(struct colfam_strings *strings) {
  kv_buf_release(&strings->bytes);
  kv_buf_release(&strings->ends);
}

static bool strings_ok(const struct colfam_strings *strings) {
  return strings->bytes.status == KV_OK && strings->ends.status == KV_OK;
}

/* ---- Key columns */

static enum colfam_affinity affinity_of(const struct colfam_lookup *lookup, int position) {
  const struct colfam_schema *schema = lookup->vtab->schema;
  if (schema->key_form == COLFAM_KEY_ROWID) return COLFAM_AFF_INTEGER;
  return schema->columns[schema->key_columns[position]].affinity;
}

static struct kv_key_part part_of(const struct colfam_lookup *lookup, int position) {
  return colfam_schema_key_part(lookup->vtab->schema, position);
}

/* A key column and an argument for it. */
struct argument {
  int position;
  enum colfam_affinity affinity;
  struct kv_key_part part;
  struct kv_datum datum; /* as the comparison sees it */
  bool widens;           /* a number against a column whose texts may be compared as numbers */
  double number;         /* when it widens */
  bool bound;            /* came through sqlite3_bind */
};

static int read_argument(const struct colfam_lookup *lookup, int position, sqlite3_value *value,
                         struct argument *argument) {
  enum colfam_affinity affinity = affinity_of(lookup, position);
  int type = sqlite3_value_type(value);
  bool number = type == SQLITE_INTEGER || type == SQLITE_FLOAT;
  *argument = (struct argument){.position = position,
                                .affinity = affinity,
                                .part = part_of(lookup, position),
                                .widens = number && affinity < COLFAM_AFF_NUMERIC};
  argument->datum.type = KV_NULL;
  if (argument->widens) argument->number = sqlite3_value_double(value);
  argument->bound = sqlite3_value_frombind(value);
  if (affinity > COLFAM_AFF_NUMERIC) affinity = COLFAM_AFF_NUMERIC;
  return colfam_datum_stored(value, affinity, &argument->datum);
}

/* ---- Bounds */

/* Appends to buf the prefix and a column. */
static void append_column(struct kv_buf *buf, struct kv_slice prefix, struct kv_key_part part,
                          const struct kv_datum *datum) {
  kv_buf_append(buf, prefix.data, prefix.size);
  kv_key_append(buf, part, datum);
}

/* A bound on the column behind the prefix; datum NULL = none. */
struct bound {
  const struct kv_datum *datum;
  bool open;
};

/* The smallest string above the prefix, the column, and all that may stand behind them: false when there
** is none. Nothing can stand behind the last column. */
static bool to_successor(struct kv_buf *key, struct kv_key_part part) {
  if (!part.last) return kv_key_prefix_successor(key);
  kv_buf_append_byte(key, 0);
  return true;
}

/* The start of the values above the bound (or of all), in the order of bytes. */
static void make_lower(struct kv_buf *key, struct kv_slice prefix, struct kv_key_part part,
                       struct bound bound) {
  kv_buf_clear(key);
  if (!bound.datum) {
    kv_buf_append(key, prefix.data, prefix.size);
    return;
  }
  append_column(key, prefix, part, bound.datum);
  if (bound.open) to_successor(key, part);
}

static bool make_upper(struct kv_buf *key, struct kv_slice prefix, struct kv_key_part part,
                       struct bound bound) {
  kv_buf_clear(key);
  if (!bound.datum) {
    kv_buf_append(key, prefix.data, prefix.size);
    return kv_key_prefix_successor(key);
  }
  append_column(key, prefix, part, bound.datum);
  return bound.open || to_successor(key, part);
}

/* ---- Spellings of numbers */

static int compare_doubles(const void *a, const void *b) {
  double x, y;
  memcpy(&x, a, sizeof x);
  memcpy(&y, b, sizeof y);
  return (x > y) - (x < y);
}

/* Numbers, ascending. */
struct numbers {
  const double *items;
  size_t count;
};

/* Whether one of them is so near that SQLite may find it equal. */
static bool has_number(const struct numbers *numbers, double number) {
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

static const struct kv_datum first_numeral = {.type = KV_TEXT, .bytes = {(const uint8_t *)"\t", 1}};
static const struct kv_datum past_numerals = {.type = KV_TEXT, .bytes = {(const uint8_t *)":", 1}};
static const struct bound numerals_begin = {&first_numeral, false};
static const struct bound numerals_end = {&past_numerals, true};

/* Behind the prefix, the key's column that it stands for; false when the key is damaged or the column is
** no text that spells one of the numbers. */
static bool spells_number(struct colfam_lookup *lookup, struct kv_slice *key, size_t prefix_size,
                          struct kv_key_part part, const struct numbers *numbers, kv_status *status,
                          struct kv_err *err) {
  struct kv_datum datum;
  double number;
  struct kv_slice rest = kv_slice_of(key->data + prefix_size, key->size - prefix_size);
  kv_buf_clear(&lookup->scratch);
  *status = kv_key_decode(&rest, part, &lookup->scratch, &datum, err);
  if (*status != KV_OK) return false;
  key->size -= rest.size;
  return datum.type == KV_TEXT && colfam_numeral(datum.bytes, &number) &&
         has_number(numbers, number);
}

/* To the first key whose column differs from that of `column` (a key cut behind it). */
static kv_status next_column(struct colfam_lookup *lookup, struct kv_scan *scan,
                             struct kv_key_part part, struct kv_slice column, bool *more,
                             struct kv_err *err) {
  *more = true;
  if (part.last) return kv_scan_next(scan, err);
  kv_buf_clear(&lookup->scratch);
  kv_buf_append(&lookup->scratch, column.data, column.size);
  if (lookup->scratch.status != KV_OK) return kv_fail_nomem(err);
  *more = kv_key_prefix_successor(&lookup->scratch);
  return *more ? kv_scan_seek(scan, kv_buf_slice(&lookup->scratch), err) : KV_OK;
}

static kv_status walk_numerals(struct colfam_lookup *lookup, const struct colfam_skip *skip,
                               const struct numbers *numbers, struct kv_err *err) {
  struct kv_scan *scan = skip->scan;
  bool more = true;
  kv_status status = kv_scan_first(scan, err);
  while (status == KV_OK && more && kv_scan_valid(scan)) {
    bool moved;
    status = colfam_skip_text(skip, &moved, err);
    if (status != KV_OK || moved) continue;
    struct kv_slice column = kv_scan_key(scan);
    bool spells =
        spells_number(lookup, &column, skip->prefix_size, skip->part, numbers, &status, err);
    if (status != KV_OK) break;
    if (spells) {
      kv_buf_append(&lookup->next.bytes, column.data, column.size);
      strings_close(&lookup->next);
    }
    status = next_column(lookup, scan, skip->part, column, &more, err);
  }
  return status;
}

/* Appends to `next` the prefix with each text that spells one of the numbers. */
static int find_spellings(struct colfam_lookup *lookup, struct kv_slice prefix,
                          struct kv_key_part part, const struct numbers *numbers) {
  struct kv_buf lower, upper;
  struct kv_scan *scan = NULL;
  struct kv_err err = {0};
  kv_buf_init(&lower);
  kv_buf_init(&upper);
  make_lower(&lower, prefix, part, part.descending ? numerals_end : numerals_begin);
  bool has_upper =
      make_upper(&upper, prefix, part, part.descending ? numerals_begin : numerals_end);
  kv_status status = lower.status == KV_OK && upper.status == KV_OK ? KV_OK : kv_fail_nomem(&err);
  struct kv_bounds bounds = {kv_buf_slice(&lower), kv_buf_slice(&upper), has_upper};
  if (status == KV_OK) status = kv_scan_open(lookup->view, lookup->batch, &bounds, &scan, &err);
  struct colfam_skip skip = {.scan = scan,
                             .bounds = bounds,
                             .prefix_size = prefix.size,
                             .part = part,
                             .scratch = &lookup->scratch};
  if (status == KV_OK) status = walk_numerals(lookup, &skip, numbers, &err);
  kv_scan_close(scan);
  kv_buf_release(&lower);
  kv_buf_release(&upper);
  return status == KV_OK ? SQLITE_OK : colfam_vtab_fail(lookup->vtab, status, &err);
}

/* ---- Equal columns */

static int finish_step(struct colfam_lookup *lookup) {
  struct colfam_strings done = lookup->next;
  lookup->next = lookup->prefixes;
  lookup->prefixes = done;
  return strings_ok(&lookup->prefixes) ? SQLITE_OK : SQLITE_NOMEM;
}

/* Every prefix is continued by the argument. */
static int append_equal(struct colfam_lookup *lookup, const struct argument *argument) {
  int rc = SQLITE_OK;
  strings_clear(&lookup->next);
  for (size_t i = 0; i < colfam_strings_count(&lookup->prefixes) && rc == SQLITE_OK; i++) {
    struct kv_slice prefix = colfam_strings_at(&lookup->prefixes, i);
    append_column(&lookup->next.bytes, prefix, argument->part, &argument->datum);
    strings_close(&lookup->next);
    struct numbers number = {&argument->number, 1};
    if (argument->widens) rc = find_spellings(lookup, prefix, argument->part, &number);
  }
  lookup->widened |= argument->widens;
  return rc == SQLITE_OK ? finish_step(lookup) : rc;
}

/* The list's values under one prefix; numbers that widen are collected on the first pass. */
static int append_list_values(struct colfam_lookup *lookup, int position, sqlite3_value *list,
                              struct kv_slice prefix, struct kv_buf *numbers) {
  sqlite3_value *value;
  int rc = sqlite3_vtab_in_first(list, &value);
  for (; rc == SQLITE_OK && value; rc = sqlite3_vtab_in_next(list, &value)) {
    struct argument argument;
    int read = read_argument(lookup, position, value, &argument);
    if (read != SQLITE_OK) return read;
    if (argument.datum.type == KV_NULL) continue;
    append_column(&lookup->next.bytes, prefix, argument.part, &argument.datum);
    strings_close(&lookup->next);
    if (argument.widens) kv_buf_append(numbers, &argument.number, sizeof argument.number);
  }
  return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static int append_list_under(struct colfam_lookup *lookup, int position, sqlite3_value *list,
                             struct kv_slice prefix) {
  struct kv_buf numbers;
  kv_buf_init(&numbers);
  int rc = append_list_values(lookup, position, list, prefix, &numbers);
  if (rc == SQLITE_OK && numbers.status != KV_OK) rc = SQLITE_NOMEM;
  if (rc == SQLITE_OK && numbers.size) {
    size_t count = numbers.size / sizeof(double);
    qsort(numbers.data, count, sizeof(double), compare_doubles);
    struct numbers sorted = {(const double *)(const void *)numbers.data, count};
    rc = find_spellings(lookup, prefix, part_of(lookup, position), &sorted);
    lookup->widened = true;
  }
  kv_buf_release(&numbers);
  return rc;
}

static int append_list(struct colfam_lookup *lookup, int position, sqlite3_value *list) {
  int rc = SQLITE_OK;
  strings_clear(&lookup->next);
  for (size_t i = 0; i < colfam_strings_count(&lookup->prefixes) && rc == SQLITE_OK; i++)
    rc = append_list_under(lookup, position, list, colfam_strings_at(&lookup->prefixes, i));
  return rc == SQLITE_OK ? finish_step(lookup) : rc;
}

/* ---- Keys */

static int compare_slices(const void *a, const void *b) {
  return kv_slice_compare(*(const struct kv_slice *)a, *(const struct kv_slice *)b);
}

/* Lists of SQLite come sorted. */
static void sort_slices(struct kv_slice *slices, size_t count) {
  for (size_t i = 1; i < count; i++) {
    if (kv_slice_compare(slices[i - 1], slices[i]) <= 0) continue;
    qsort(slices, count, sizeof *slices, compare_slices);
    return;
  }
}

static int make_keys(struct colfam_lookup *lookup) {
  size_t count = colfam_strings_count(&lookup->prefixes);
  kv_buf_clear(&lookup->key_slices);
  if (!kv_buf_extend(&lookup->key_slices, count * sizeof(struct kv_slice))) return SQLITE_NOMEM;
  struct kv_slice *keys = (struct kv_slice *)(void *)lookup->key_slices.data;
  for (size_t i = 0; i < count; i++) keys[i] = colfam_strings_at(&lookup->prefixes, i);
  sort_slices(keys, count);
  size_t distinct = 0;
  for (size_t i = 0; i < count; i++) {
    if (keys[i].size > KV_KEY_BYTES_MAX) continue; /* no row has it */
    if (distinct && kv_slice_equal(keys[distinct - 1], keys[i])) continue;
    keys[distinct++] = keys[i];
  }
  lookup->keys = keys;
  lookup->key_count = distinct;
  return SQLITE_OK;
}

/* ---- Ranges */

/* A range's bounds are the strings `lower` and `lower` + 1 of `next`. */
struct range {
  size_t lower;
  size_t prefix_size; /* bytes of its keys before the column with the bounds */
  bool has_upper;
  bool numerals; /* only texts that are numbers are wanted */
};

static struct range range_at(const struct colfam_lookup *lookup, size_t index) {
  struct range range;
  memcpy(&range, lookup->ranges.data + index * sizeof range, sizeof range);
  return range;
}

struct kv_bounds colfam_lookup_range(const struct colfam_lookup *lookup, size_t index) {
  struct range range = range_at(lookup, index);
  return (struct kv_bounds){colfam_strings_at(&lookup->next, range.lower),
                            colfam_strings_at(&lookup->next, range.lower + 1), range.has_upper};
}

kv_status colfam_lookup_skip(struct colfam_lookup *lookup, size_t index, struct kv_scan *scan,
                             bool backwards, bool *moved, struct kv_err *err) {
  struct range range = range_at(lookup, index);
  *moved = false;
  if (!range.numerals) return KV_OK;
  struct colfam_skip skip = {.scan = scan,
                             .bounds = colfam_lookup_range(lookup, index),
                             .prefix_size = range.prefix_size,
                             .part = lookup->range_part,
                             .backwards = backwards,
                             .scratch = &lookup->scratch};
  return colfam_skip_text(&skip, moved, err);
}

static void keep_string(struct colfam_lookup *lookup, struct kv_slice bytes) {
  kv_buf_append(&lookup->next.bytes, bytes.data, bytes.size);
  strings_close(&lookup->next);
}

/* Values of a column between two bounds, in SQL's order. */
struct interval {
  struct bound lower, upper;
  bool numerals; /* of these, only texts that are numbers */
};

/* Adds the interval as a range, if there can be anything in it. */
static int add_range(struct colfam_lookup *lookup, struct kv_slice prefix,
                     const struct interval *interval) {
  struct kv_buf *key = &lookup->scratch;
  struct kv_key_part part = lookup->range_part;
  struct range range = {.lower = colfam_strings_count(&lookup->next),
                        .prefix_size = prefix.size,
                        .numerals = interval->numerals};
  make_lower(key, prefix, part, part.descending ? interval->upper : interval->lower);
  keep_string(lookup, kv_buf_slice(key));
  range.has_upper =
      make_upper(key, prefix, part, part.descending ? interval->lower : interval->upper);
  keep_string(lookup, kv_buf_slice(key));
  if (key->status != KV_OK || !strings_ok(&lookup->next)) return SQLITE_NOMEM;
  struct kv_slice from = colfam_strings_at(&lookup->next, range.lower);
  if (range.has_upper && kv_slice_compare(from, kv_buf_slice(key)) >= 0) return SQLITE_OK;
  kv_buf_append(&lookup->ranges, &range, sizeof range);
  lookup->range_count++;
  lookup->skips |= range.numerals;
  return lookup->ranges.status == KV_OK ? SQLITE_OK : SQLITE_NOMEM;
}

/* What the arguments of a range mean for its column: one interval, or a second one behind it. */
struct column_bounds {
  struct interval values;
  struct interval numerals;
  bool has_numerals;
};

static bool is_writing(sqlite3 *db) {
  for (sqlite3_stmt *stmt = sqlite3_next_stmt(db, NULL); stmt; stmt = sqlite3_next_stmt(db, stmt))
    if (sqlite3_stmt_busy(stmt) && !sqlite3_stmt_readonly(stmt)) return true;
  return false;
}

/* Whether the text is no numeric column's: these hold no text that is a number. Nor do they hold what was
** just bound, but for `new` in a trigger and `excluded`, when a statement writes. */
static bool compares_as_text(const struct colfam_lookup *lookup, const struct argument *argument) {
  if (colfam_is_numeral(argument->datum.bytes)) return true;
  return argument->bound && !is_writing(lookup->vtab->conn->db);
}

static bool needs_numerals(const struct colfam_lookup *lookup, const struct colfam_plan *plan,
                           const struct argument *upper) {
  if (upper->widens) return true;
  if (upper->affinity >= COLFAM_AFF_NUMERIC || upper->datum.type != KV_TEXT) return false;
  bool beyond = upper->datum.bytes.size && upper->datum.bytes.data[0] >= ':';
  return !beyond && !plan->upper_plain && !compares_as_text(lookup, upper);
}

static int rank_of(kv_type type) {
  return type == KV_REAL ? KV_INTEGER : type;
}

/* A lower bound of texts becomes the stricter one of itself and another; what is below all texts is none. */
static void raise_bound(struct bound *bound, struct bound other, kv_collation collation) {
  if (!other.datum || rank_of(other.datum->type) < KV_TEXT) return;
  int order = rank_of(other.datum->type) - KV_TEXT;
  if (!order) order = kv_text_compare(collation, other.datum->bytes, bound->datum->bytes);
  if (order > 0) *bound = other;
  if (order == 0) bound->open |= other.open;
}

/* Behind the values below the upper bound: the texts that are numbers. */
static void add_numerals(struct column_bounds *bounds, kv_collation collation) {
  struct bound upper = bounds->values.upper;
  bounds->has_numerals = true;
  bounds->numerals = (struct interval){numerals_begin, numerals_end, true};
  raise_bound(&bounds->numerals.lower, (struct bound){upper.datum, !upper.open}, collation);
  raise_bound(&bounds->numerals.lower, bounds->values.lower, collation);
}

static int add_ranges_under(struct colfam_lookup *lookup, struct kv_slice prefix,
                            const struct column_bounds *bounds) {
  bool numerals_first = bounds->has_numerals && lookup->range_part.descending;
  int rc = numerals_first ? add_range(lookup, prefix, &bounds->numerals) : SQLITE_OK;
  if (rc == SQLITE_OK) rc = add_range(lookup, prefix, &bounds->values);
  if (rc == SQLITE_OK && bounds->has_numerals && !numerals_first)
    rc = add_range(lookup, prefix, &bounds->numerals);
  return rc;
}

/* Prefixes are sorted, and none begins with another: so ranges come sorted and apart. */
static int add_ranges(struct colfam_lookup *lookup, const struct column_bounds *bounds) {
  int rc = make_keys(lookup);
  strings_clear(&lookup->next);
  kv_buf_clear(&lookup->ranges);
  for (size_t i = 0; i < lookup->key_count && rc == SQLITE_OK; i++)
    rc = add_ranges_under(lookup, lookup->keys[i], bounds);
  lookup->key_count = 0;
  return rc;
}

/* The argument of a bound. Nothing compares with a NULL. */
static int read_bound(const struct colfam_lookup *lookup, sqlite3_value *value,
                      struct argument *argument, int position, bool *none) {
  int rc = read_argument(lookup, position, value, argument);
  *none = rc == SQLITE_OK && argument->datum.type == KV_NULL;
  return rc;
}

/* A number below text keys: `> 5` may be true of all texts that are no number. */
static int make_ranges(struct colfam_lookup *lookup, const struct colfam_plan *plan,
                       sqlite3_value **argv) {
  struct argument lower, upper;
  struct column_bounds bounds = {.has_numerals = false};
  int rc = SQLITE_OK, position = plan->equal_count;
  bool none = false;
  if (!plan->has_lower && !plan->has_upper) return add_ranges(lookup, &bounds);
  lookup->range_part = part_of(lookup, position);
  if (plan->has_lower) {
    rc = read_bound(lookup, *argv++, &lower, position, &none);
    if (rc != SQLITE_OK || none) return rc;
    bool all = lower.widens && lower.affinity == COLFAM_AFF_TEXT;
    if (!all) bounds.values.lower = (struct bound){&lower.datum, plan->lower_open};
    lookup->widened |= all;
  }
  if (plan->has_upper) {
    rc = read_bound(lookup, *argv++, &upper, position, &none);
    if (rc != SQLITE_OK || none) return rc;
    bounds.values.upper = (struct bound){&upper.datum, plan->upper_open};
    if (needs_numerals(lookup, plan, &upper)) add_numerals(&bounds, lookup->range_part.collation);
  }
  rc = add_ranges(lookup, &bounds);
  lookup->widened |= lookup->skips;
  return rc;
}

/* ---- Public */

static int start(struct colfam_lookup *lookup) {
  lookup->key_count = lookup->range_count = 0;
  lookup->widened = lookup->skips = false;
  strings_clear(&lookup->prefixes);
  strings_close(&lookup->prefixes);
  return strings_ok(&lookup->prefixes) ? SQLITE_OK : SQLITE_NOMEM;
}

static int add_column(struct colfam_lookup *lookup, int position, sqlite3_value *value,
                      bool *none) {
  struct argument argument;
  int rc = read_argument(lookup, position, value, &argument);
  *none = argument.datum.type == KV_NULL;
  return rc == SQLITE_OK && !*none ? append_equal(lookup, &argument) : rc;
}

int colfam_lookup_run(struct colfam_lookup *lookup, const struct colfam_plan *plan,
                      sqlite3_value **argv) {
  bool none = false;
  int rc = start(lookup);
  for (int i = 0; i < plan->equal_count && rc == SQLITE_OK && !none; i++, argv++)
    rc = i == plan->in_at ? append_list(lookup, i, *argv) : add_column(lookup, i, *argv, &none);
  if (rc != SQLITE_OK || none) return rc;
  bool keys = plan->kind == COLFAM_PLAN_GET || plan->kind == COLFAM_PLAN_EXISTS ||
              plan->kind == COLFAM_PLAN_MULTI_GET;
  rc = keys ? make_keys(lookup) : make_ranges(lookup, plan, argv);
  if (rc == SQLITE_OK && lookup->widened)
    kv_stats_add(kv_family_stats(lookup->vtab->table->family), KV_STAT_WIDENED_LOOKUPS, 1);
  return rc;
}

void colfam_lookup_release(struct colfam_lookup *lookup) {
  strings_release(&lookup->prefixes);
  strings_release(&lookup->next);
  kv_buf_release(&lookup->key_slices);
  kv_buf_release(&lookup->ranges);
  kv_buf_release(&lookup->scratch);
}
