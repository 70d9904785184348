/* Two databases that run the same statements: the oracle, whose tables are ordinary, and the subject, whose
** tables are colfam's. Answers are compared: rows with types and bytes, order, codes, messages, changes(),
** last_insert_rowid(). */
#ifndef HARNESS_PAIR_H
#define HARNESS_PAIR_H

#include "harness_random_sql.h"

struct pair_answer {
  int rc; /* extended; SQLITE_OK or the error */
  char *message;
  sqlite3_str *rows; /* encoded */
  int *ends;         /* offset behind each row */
  int row_count, row_capacity;
  int changes;
  sqlite3_int64 rowid;
  int autocommit;
};

struct pair {
  sqlite3 *oracle, *subject;
  char oracle_path[4096], subject_path[4096];
  const char *journal_mode;
  struct pair_answer answers[2];
  int constraint_errors; /* statements that failed alike */
};

/* Fresh databases below harness_dir(). */
void pair_open(struct pair *pair, const char *name, const char *journal_mode);
void pair_close(struct pair *pair);
/* Both sides must run this. */
void pair_ok(struct pair *pair, const char *sql);
/* Runs the statement on both; false and what differs (sqlite3_malloc) when they disagree. */
bool pair_run(struct pair *pair, const struct random_statement *statement, char **difference);

#endif
