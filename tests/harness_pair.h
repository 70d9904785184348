/* Two databases that run the same statements: the oracle, whose tables are ordinary, and the subject, whose
** tables are colfam's. */
#ifndef HARNESS_PAIR_H
#define HARNESS_PAIR_H

#include "harness_answer.h"
#include "harness_random_sql.h"

enum { PAIR_ORACLE, PAIR_SUBJECT, PAIR_KEPT = 16 };

/* A query under way. The oracle's counts as many rows and reads none of them. */
struct pair_cursor {
  sqlite3_stmt *stmts[2];
  struct answer expected; /* all rows, as they were at the opening */
  struct answer got;
  bool in_order;
};

struct pair_kept {
  char *sql;
  sqlite3_stmt *stmts[2];
};

struct pair {
  sqlite3 *dbs[2];
  char paths[2][4096]; /* "-aux" is added for the attached ones */
  const struct random_scenario *scenario;
  struct answer answers[2];
  struct pair_cursor cursors[RANDOM_CURSORS_MAX];
  struct pair_kept kept[PAIR_KEPT];
  int kept_next;
  int errors; /* statements that failed alike */
};

/* Fresh databases with the scenario's setup. */
void pair_open(struct pair *pair, const char *name, const struct random_scenario *scenario);
void pair_close(struct pair *pair);
/* Runs the statement; false and what differs (sqlite3_malloc) when the sides disagree or what must hold for
** the subject does not. */
bool pair_run(struct pair *pair, const struct random_statement *statement, char **difference);

#endif
