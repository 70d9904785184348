/* The tables of the model of transactions: a colfam table and its twin, an ordinary table with the
** same columns; and random statements that mean the same for both. */
#ifndef HARNESS_MODEL_H
#define HARNESS_MODEL_H

#include <sqlite3.h>

#include "harness.h"

enum { MODEL_NUM, MODEL_DOC, MODEL_SEQ, MODEL_EXTRA, MODEL_TABLES };
#define MODEL_KEYS 160 /* keys of a table, 0..159 */

struct model_table {
  const char *names[2]; /* the colfam table has one of them: it is renamed back and forth */
  const char *twin;
  const char *columns;
  const char *kind;  /* of the twin: WITHOUT ROWID or "" */
  const char *order; /* the key, for ORDER BY */
};
extern const struct model_table model_tables[MODEL_TABLES];

/* A statement that writes or reads, with @ for the table's name. The caller frees with
** sqlite3_free. */
char *model_write(struct harness_random *random, int pair);
char *model_read(struct harness_random *random, int pair);
/* `sql` with every @ replaced by the name. The caller frees with sqlite3_free. */
char *model_sql(const char *sql, const char *name);

#endif
