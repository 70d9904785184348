/* See killpoint.h. One counter a process: the tests kill single-threaded writers. */
#include "killpoint.h"

#ifdef COLFAM_TEST
#include <signal.h>
#include <stdlib.h>
#include <string.h>

void colfam_kill_point(const char *name) {
  static long hits;
  const char *wanted = getenv("COLFAM_KILL");
  size_t length = strlen(name);
  if (!wanted || strncmp(wanted, name, length) != 0 || wanted[length] != ':') return;
  if (++hits == strtol(wanted + length + 1, NULL, 10)) raise(SIGKILL);
}

bool colfam_is_mutant(const char *name) {
  const char *mutant = getenv("COLFAM_MUTANT");
  return mutant && strcmp(mutant, name) == 0;
}
#else
/* A translation unit needs a declaration. */
typedef int colfam_kill_point_unused;
#endif
