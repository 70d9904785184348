/* xBestIndex: from constraints to one of the engine's calls. The plan travels to xFilter in idxNum (a
** pure bit code below) and to people in idxStr, in plain words (ext/README.md, Plans). */
#ifndef COLFAM_PLAN_H
#define COLFAM_PLAN_H

#include <stdbool.h>

#include "sqlite_api.h"
#include "vtab.h"

enum colfam_plan_kind {
  COLFAM_PLAN_SCAN,
  COLFAM_PLAN_RANGE,     /* equal prefix and/or bounds */
  COLFAM_PLAN_GET,       /* the whole key by = */
  COLFAM_PLAN_MULTI_GET, /* the whole key, some of its columns by IN lists */
  COLFAM_PLAN_EXISTS,    /* as GET, no value column used */
  COLFAM_PLAN_COUNT,     /* no column used as far as SQLite tells, no constraint: count(*) */
  COLFAM_PLAN_PACKED     /* many keys in one argument: colfam_keys = ? */
};

/* What a plan binds at most; key columns behind these are left to SQLite. */
enum { COLFAM_PLAN_COLUMNS_MAX = 31, COLFAM_PLAN_LIST_COLUMNS_MAX = 11 };

/* What xFilter gets; argv order: the equal columns in key order, the lower bound, the upper bound; or the
** packed keys. */
struct colfam_plan {
  enum colfam_plan_kind kind;
  int equal_count;            /* leading key columns bound by = or by an IN list */
  unsigned lists;             /* bit i: key column i by an IN list handed over as a whole */
  bool has_lower, lower_open; /* bound on the next key column; open: > or < */
  bool has_upper, upper_open;
  bool upper_plain; /* a text that is compared as a text for sure: a literal */
  bool
      pattern; /* the bounds may be SQLite's, from the start of a LIKE or GLOB pattern (ranges.c) */
  bool backwards; /* ORDER BY key DESC consumed */
  /* ORDER BY was consumed counting the first order_from key columns as constant. They are, but for a
  ** number compared with a text key, which may stand for several texts (lookup.h). */
  int order_from;
};
int colfam_plan_encode(const struct colfam_plan *plan);
void colfam_plan_decode(int idx_num, struct colfam_plan *plan);

int colfam_best_index(sqlite3_vtab *vtab, sqlite3_index_info *info);

#endif
