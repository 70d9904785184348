/* Pairs of tables for random tests: a colfam table and its twin, an ordinary table with the same columns;
** and random statements that mean the same for both. */
#ifndef HARNESS_PAIRS_H
#define HARNESS_PAIRS_H

#include <sqlite3.h>

#include "harness.h"

enum { PAIR_NUM, PAIR_DOC, PAIR_EXTRA, PAIRS };
#define PAIR_KEYS 160 /* keys of a table, 0..159 */

struct pair {
  const char *names[2]; /* the colfam table has one of them: it is renamed back and forth */
  const char *twin;
  const char *columns;
  const char *order; /* the key, for ORDER BY */
};
extern const struct pair pairs[PAIRS];

/* A statement that writes or reads, with @ for the table's name. The caller frees with sqlite3_free. */
char *pair_write(struct harness_random *random, int pair);
char *pair_read(struct harness_random *random, int pair);
/* `sql` with every @ replaced by the name. The caller frees with sqlite3_free. */
char *pair_sql(const char *sql, const char *name);

#endif
