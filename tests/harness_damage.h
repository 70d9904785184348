/* A table to damage and a sound one beside it, for the suites of bad input: a read gives the right
** rows or an error that names the table; the other table goes on working. */
#ifndef HARNESS_DAMAGE_H
#define HARNESS_DAMAGE_H

#include "harness_sql.h"

/* t: two files of small blocks and a log, k INT PRIMARY KEY and v; sound: a file of two rows. */
void damage_make_tables(sqlite3 *db);
/* Notes what all reads of t give now. */
void damage_note_rows(sqlite3 *db);
enum { DAMAGE_READS = 12 };
/* Every read of t gives the rows noted, or fails with this extended code (0: any) and a message
** that names the table and has `name` in it. Returns how many failed; `what` is for the message of
** the test. */
int damage_check(sqlite3 *db, int code, const char *name, const char *what);
/* The same without an opinion: what the reads gave. */
struct damage_verdict {
  int right;
  int wrong;
  int failed;
  int code;       /* of the last failure, extended */
  char what[400]; /* the first wrong read with its rows, else the last failure's message */
};
void damage_judge(sqlite3 *db, struct damage_verdict *verdict);
/* All reads of t are right, and it checks sound. */
void damage_none(sqlite3 *db);
/* The sound table works, and t's shadow tables are there. */
void damage_others_work(sqlite3 *db);
/* t can be dropped; the sound table works on. */
void damage_drop(sqlite3 *db);

#endif
