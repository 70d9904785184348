/* From a plan and its arguments to encoded keys and ranges: the first half of xFilter. Arguments get the
** affinity that SQLite's comparison gives them (ext/README.md, Comparisons). */
#ifndef COLFAM_LOOKUP_H
#define COLFAM_LOOKUP_H

#include <stdbool.h>

#include "engine/kv.h"
#include "plan.h"
#include "skip.h"
#include "sqlite_api.h"
#include "vtab.h"

/* Byte strings one after another. Failures stick in the buffers. */
struct colfam_strings {
  struct kv_buf bytes;
  struct kv_buf ends; /* size_t each: offset behind the string */
};
size_t colfam_strings_count(const struct colfam_strings *strings);
struct kv_slice colfam_strings_at(const struct colfam_strings *strings, size_t index);

/* Zero-initialise. */
struct colfam_lookup {
  struct colfam_vtab *vtab; /* borrowed for the run */
  struct kv_view *view;
  struct kv_batch *batch;
  /* Result. Keys for get, multi-get and exists: sorted, distinct. Ranges for the others: sorted,
  ** disjoint. */
  struct kv_slice *keys;
  size_t key_count;
  size_t range_count;
  bool widened; /* more was put in than the arguments say: texts that look like numbers */
  bool skips;   /* of some range only the texts that are numbers are wanted */
  /* Work space; keys and ranges are borrowed from it. */
  struct colfam_strings prefixes;
  struct colfam_strings next;
  struct kv_buf key_slices; /* kv_slice each */
  struct kv_buf ranges;     /* struct range of lookup.c each; two strings of `next` belong to one */
  struct kv_key_part range_part; /* the column that ranges are bounded on */
  struct kv_buf scratch;
};
/* What the plan asks for with these arguments. No key and no range when nothing can match (a NULL
** argument). On failure the vtab's message is set, except for SQLITE_NOMEM. */
int colfam_lookup_run(struct colfam_lookup *lookup, const struct colfam_plan *plan,
                      sqlite3_value **argv);
struct kv_bounds colfam_lookup_range(const struct colfam_lookup *lookup, size_t index);
/* Moves the scan, at a key of the range, past a text that is not wanted (skip.h). *moved is false at a key
** that is wanted. */
kv_status colfam_lookup_skip(struct colfam_lookup *lookup, size_t index, struct kv_scan *scan,
                             bool backwards, bool *moved, struct kv_err *err);
void colfam_lookup_release(struct colfam_lookup *lookup);

#endif
