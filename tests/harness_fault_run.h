/* Scenarios whose every operation and allocation fails, one after another: what they are, and what makes a
** run of one and judges it. See fault_sql.c. */
#ifndef HARNESS_FAULT_RUN_H
#define HARNESS_FAULT_RUN_H

#include <sqlite3.h>
#include <stdbool.h>

#include "harness_faults.h"

enum { SCENARIO_STEPS = 14 };

/* Texts may say $KEY for the type of keys and $WITH for options of colfam tables; key(i) is the i-th key and
** path(name) the path of a file on the disk. Tables t and o, n and m are a colfam table and its ordinary
** twin. */
struct scenario {
  const char *name;
  const char *setup; /* what the disk has before; NULL: nothing */
  const char *crash; /* the process then dies in the middle of this */
  const char
      *prepare;  /* done by the connection before anything fails; NULL: it is opened under faults */
  bool attaches; /* the connection has aux.db too, as x */
  /* Each one statement, NULL behind the last. "api" is a call of colfam.h instead. */
  const char *steps[SCENARIO_STEPS];
};

/* How a scenario is varied. */
struct variant {
  const char *journal;
  const char *pragmas;
  const char *key; /* type of keys */
  const char *with;
};

struct fault_totals {
  unsigned long long operations, allocations; /* of the run without a failure */
  unsigned long long io, memory;              /* runs with a failure */
};

/* All kinds of faults, at each place, once and sticky; a wrong outcome fails the running test. */
void fault_run(const struct scenario *scenario, const struct variant *variant,
               struct fault_totals *totals);

#endif
