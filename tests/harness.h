/* Shared by every Check program: one main shape, a fresh temporary directory, a seeded generator. */
#ifndef HARNESS_H
#define HARNESS_H

#include <check.h>
#include <stdint.h>

/* Runs the suite and returns main's exit code. CK_FORK as Check does by default. */
int harness_run(Suite *suite);

/* A fresh directory below $TMPDIR or /tmp, removed with everything in it when the process that asked for
** it exits normally or by exit(); the path stays valid for the process. */
const char *harness_dir(void);
/* The same in memory, where the system has a directory there. */
const char *harness_memory_dir(void);

/* Removes a directory tree; links are not followed. */
void harness_remove_tree(const char *path);

/* xorshift64*: the same seed gives the same numbers everywhere. */
struct harness_random {
  uint64_t state;
};
void harness_seed(struct harness_random *random, uint64_t seed);
uint64_t harness_next(struct harness_random *random);
/* 0 .. bound-1 */
uint64_t harness_below(struct harness_random *random, uint64_t bound);
/* $COLFAM_SEED when set, else `fallback`; printed by the caller on failure. */
uint64_t harness_seed_env(uint64_t fallback);

#endif
