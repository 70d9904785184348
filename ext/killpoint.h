/* Named places where the crash tests kill the process, and named rules that they switch off to see that they
** find it. Nothing at all in production builds. */
#ifndef COLFAM_KILLPOINT_H
#define COLFAM_KILLPOINT_H

#include <stdbool.h>

#ifdef COLFAM_TEST
/* When the environment says COLFAM_KILL=<name>:<n>, the nth arrival at the place raises SIGKILL. */
void colfam_kill_point(const char *name);
/* Whether the environment says COLFAM_MUTANT=<name>: the rule of that name is off. */
bool colfam_is_mutant(const char *name);
static inline bool colfam_is_test_build(void) {
  return true;
}
#else
static inline bool colfam_is_test_build(void) {
  return false;
}
static inline void colfam_kill_point(const char *name) {
  (void)name;
}
static inline bool colfam_is_mutant(const char *name) {
  (void)name;
  return false;
}
#endif

#endif
