/* Table-valued functions that do long work and show progress: name('argument') gives rows (phase, done,
** total, percent, seconds) while the work goes on, and always a last one. A definition says how to begin,
** go on and end; everything SQLite wants of a module is here.
**
** The work goes on only while rows are asked for. Between two pieces SQLite may stop it: an interrupt, a
** progress handler, LIMIT, sqlite3_reset or closing the cursor end it early, and then it must leave
** nothing behind. */
#ifndef COLFAM_WORK_H
#define COLFAM_WORK_H

#include <stdbool.h>
#include <stdint.h>

#include "conn.h"
#include "sqlite_api.h"

/* What a row shows. Zeroed before the first step, kept from step to step. */
struct colfam_progress {
  const char *phase; /* a word in static storage; a row comes out whenever it changes */
  uint64_t done;     /* of total; both 0 when there is nothing to count */
  uint64_t total;
  bool finished; /* set by the last step: the work stands, its row is the last */
};

struct colfam_work {
  const char *name;     /* "colfam_flush" */
  const char *argument; /* the hidden column of the argument: "table_name" */
  const char *option;   /* a second hidden column, which may be left out; NULL: none */
  const char *wanted;   /* for messages: "the name of a table: ('t')" */
  bool direct_only;     /* not for views and triggers */
  /* Checks the argument (a text) and the option (a text, or NULL when it was left out) and makes the
  ** state. On failure returns SQLite's code, may set *message (sqlite3_malloc), and has ended what it
  ** began. */
  int (*begin)(struct colfam_conn *conn, const char *argument, const char *option, void **state,
               char **message);
  /* One bounded piece of some ten milliseconds. On failure returns SQLite's code and may set *message. */
  int (*step)(void *state, struct colfam_progress *progress, char **message);
  /* Called once, after the last step, after a failing one, or early: work that is not finished is undone. */
  void (*end)(void *state);
};
/* `work` is static storage. The module holds a reference to conn. */
int colfam_work_register(struct colfam_conn *conn, const struct colfam_work *work);

extern const struct colfam_work colfam_flush_work;
extern const struct colfam_work colfam_compact_work;
extern const struct colfam_work colfam_backup_work;

#endif
