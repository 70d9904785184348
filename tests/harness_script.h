/* A script: a scenario and statements, drawn from a seed, run on a pair of databases, and shortened to the
** little that a difference needs. */
#ifndef HARNESS_SCRIPT_H
#define HARNESS_SCRIPT_H

#include "harness_random_sql.h"

enum { SCRIPT_STATEMENTS = 400 };

struct script {
  struct random_scenario scenario;
  struct random_statement statements[SCRIPT_STATEMENTS];
  bool left_out[SCRIPT_STATEMENTS];
};

void script_draw(struct script *script, uint64_t seed);
void script_release(struct script *script);
/* Runs it in fresh databases; the number of the statement that differed and how (sqlite3_malloc), or
** SCRIPT_STATEMENTS. `errors` counts statements that failed on both sides. */
int script_run(const struct script *script, uint64_t *errors, char **difference);
/* Leaves out statements, and parts of them, as long as a difference stays; takes up to so many seconds.
** `failed` is what script_run returned. */
void script_shrink(struct script *script, int failed, int seconds);
/* As colfam's side ran it, for the sqlite3 shell; what a shell cannot do is a comment. */
void script_print(const struct script *script);

#endif
