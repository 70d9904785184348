/* Whether a commit that SQLite calls rolled back may stand all the same. */
#ifndef COLFAM_DOUBT_H
#define COLFAM_DOUBT_H

#include <stdbool.h>

#include "sqlite_api.h"
#include "table.h"

/* What was known when an edit was written in xSync; zero: none was. */
struct colfam_doubt {
  bool published;
  bool spans;       /* other databases are written to as well, or nobody knows */
  int page_writes;  /* of the connection so far */
  unsigned version; /* the data version */
};

/* Before an edit is written, in each xSync anew. */
int colfam_doubt_note(struct colfam_table *table, struct colfam_doubt *doubt, char **message);
/* In xRollback: whether the edit may have been committed. */
bool colfam_doubt_remains(struct colfam_table *table, const struct colfam_doubt *doubt);

#endif
