/* Ranges of keys: of every prefix of bound columns, the values of the next column between bounds.
** Thread rule: the connection's. */
#ifndef COLFAM_RANGES_H
#define COLFAM_RANGES_H

#include "argument.h"
#include "byte_strings.h"
#include "engine/kv.h"
#include "plan.h"
#include "schema.h"
#include "sqlite_api.h"

struct colfam_ranges { /* zero-initialise */
  size_t count;
  bool skips;                    /* of some range only the texts that are numbers are wanted */
  bool widened;                  /* there is more in them than the arguments say */
  struct kv_key_part part;       /* the column that is bounded */
  struct colfam_strings strings; /* two of them belong to a range */
  struct kv_buf items;           /* struct range of ranges.c each */
  struct kv_buf scratch;
};

/* What the arguments of a plan's bounds mean for the column behind the equal ones. */
struct colfam_interval {
  struct colfam_bound lower, upper;
  bool numerals; /* of these, only texts that are numbers */
};
enum {
  COLFAM_PATTERN_LETTERS_MAX = 3,
  COLFAM_INTERVALS_MAX = (1 << COLFAM_PATTERN_LETTERS_MAX) + 1
};
struct colfam_column_bounds {
  struct kv_key_part part;                                /* the column */
  struct colfam_interval intervals[COLFAM_INTERVALS_MAX]; /* in the order of values */
  int count;                                              /* 0: nothing can match */
  bool widened; /* more is in them than the arguments say */
  /* What the intervals borrow. */
  struct colfam_argument lower, upper;
  struct kv_datum pattern[2 * COLFAM_INTERVALS_MAX]; /* the bounds of each */
  struct kv_buf pattern_bytes;
};
/* `writing`: a statement that writes may be asking. Release it always. */
void colfam_column_bounds_init(struct colfam_column_bounds *bounds);
int colfam_column_bounds_read(struct colfam_column_bounds *bounds,
                              const struct colfam_schema *schema, const struct colfam_plan *plan,
                              bool writing, sqlite3_value **argv);
void colfam_column_bounds_release(struct colfam_column_bounds *bounds);

/* The ranges of these prefixes, sorted, none of which begins with another. `bounds` NULL: all keys that
** begin so. */
int colfam_ranges_make(struct colfam_ranges *ranges, const struct kv_slice *prefixes, size_t count,
                       const struct colfam_column_bounds *bounds);
void colfam_ranges_clear(struct colfam_ranges *ranges);
struct kv_bounds colfam_ranges_at(const struct colfam_ranges *ranges, size_t index);
/* Moves the scan, at a key of the range, past a text that is not wanted (skip.h). *moved is false at a key
** that is wanted. */
kv_status colfam_ranges_skip(struct colfam_ranges *ranges, size_t index, struct kv_scan *scan,
                             bool backwards, bool *moved, struct kv_err *err);
size_t colfam_ranges_memory(const struct colfam_ranges *ranges); /* bytes */
void colfam_ranges_release(struct colfam_ranges *ranges);

#endif
