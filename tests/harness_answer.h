/* What a statement answered: rows with types and bytes, code, message, changes(), last_insert_rowid(),
** whether a transaction is open; and how two answers are compared. */
#ifndef HARNESS_ANSWER_H
#define HARNESS_ANSWER_H

#include <sqlite3.h>
#include <stdbool.h>

struct answer {
  sqlite3_str *rows; /* encoded */
  int *ends;         /* offset behind each row */
  int row_count, row_capacity;
  int rc; /* extended; SQLITE_OK or the error */
  char *message;
  int changes;
  sqlite3_int64 rowid;
  int autocommit;
};

void answer_init(struct answer *answer);
void answer_release(struct answer *answer);
/* Takes up to so many rows more; false when the statement has ended, after answer_end. */
bool answer_step(struct answer *answer, sqlite3_stmt *stmt, int rows);
/* Takes down how it ended. */
void answer_end(struct answer *answer, sqlite3 *db, int rc);

/* All is the same; changes() when it counts. Rows in any order unless `in_order`. */
bool answer_same(const struct answer *a, const struct answer *b, bool in_order, bool counted);
/* The rows of `some` are among those of `all`, or the first of them. */
bool answer_has(const struct answer *all, const struct answer *some, bool in_order);
/* No error, and every row is the integer 1. */
bool answer_ones(const struct answer *answer);
/* Both in short, from the first row that differs; sqlite3_malloc. */
char *answer_difference(const char *name, const struct answer *a, const char *other,
                        const struct answer *b, bool in_order);

#endif
