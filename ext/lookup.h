/* From a plan and its arguments to encoded keys and ranges: the first half of xFilter. Arguments get the
** affinity that SQLite's comparison gives them (ext/README.md, Comparisons). Thread rule: the
** connection's. */
#ifndef COLFAM_LOOKUP_H
#define COLFAM_LOOKUP_H

#include <stdbool.h>

#include "byte_strings.h"
#include "engine/kv.h"
#include "plan.h"
#include "ranges.h"
#include "spellings.h"
#include "sqlite_api.h"
#include "vtab.h"

/* Zero-initialise. */
struct colfam_lookup {
  struct colfam_vtab *vtab; /* borrowed for the run */
  struct kv_view *view;
  struct kv_batch *batch;
  /* Result: keys, sorted and distinct, or ranges, sorted and disjoint. */
  bool by_key;
  struct kv_slice *keys;
  size_t key_count;
  struct colfam_ranges ranges;
  bool everything; /* keys that cannot be named are among all */
  bool widened;    /* more was put in than the arguments say: texts that look like numbers */
  /* Work space; keys are borrowed from it. */
  struct colfam_strings prefixes;
  struct colfam_strings next;
  struct colfam_strings list;    /* the values of an IN list, encoded */
  struct colfam_numbers numbers; /* of the list: those that widen */
  struct kv_buf key_slices;      /* kv_slice each */
  struct kv_slice single;        /* the only key, when it was encoded at once */
  struct kv_datum
      plain; /* its only column, when that is a text or blob compared as it is; else NULL */
  struct kv_buf single_bytes;
  struct kv_buf scratch; /* of one key: the bytes of `plain` that are not in it */
  bool spread;           /* some of the others have been used */
};
/* The one key that the plan asks for with these arguments, or none when nothing can match (a NULL argument).
** *told is false, and nothing else done, when the plan or the arguments are not of that kind. SQLITE_NOMEM.
** */
int colfam_lookup_one(struct colfam_lookup *lookup, const struct colfam_plan *plan,
                      sqlite3_value **argv, bool *told);
/* What the plan asks for with any arguments. No key and no range when nothing can match. On failure the
** vtab's message is set, except for SQLITE_NOMEM. */
int colfam_lookup_run(struct colfam_lookup *lookup, const struct colfam_plan *plan,
                      sqlite3_value **argv);
/* Bytes of its work space. */
size_t colfam_lookup_memory(const struct colfam_lookup *lookup);
void colfam_lookup_release(struct colfam_lookup *lookup);

#endif
