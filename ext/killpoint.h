/* Named places where the crash tests kill the process. Nothing at all in production builds. */
#ifndef COLFAM_KILLPOINT_H
#define COLFAM_KILLPOINT_H

#ifdef COLFAM_TEST
/* When the environment says COLFAM_KILL=<name>:<n>, the nth arrival at the place raises SIGKILL. */
void colfam_kill_point(const char *name);
#else
static inline void colfam_kill_point(const char *name) {
  (void)name;
}
#endif

#endif
