/* See harness.h. */
#include "harness.h"

#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char temp_dir[PATH_MAX];
static pid_t temp_owner;

int harness_run(Suite *suite) {
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_NORMAL);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

static int remove_entry(const char *path, const struct stat *info, int type, struct FTW *where) {
  (void)info, (void)type, (void)where;
  return remove(path);
}

void harness_remove_tree(const char *path) {
  nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static void remove_temp_dir(void) {
  if (temp_owner == getpid()) harness_remove_tree(temp_dir);
}

const char *harness_dir(void) {
  if (temp_owner == getpid()) return temp_dir;
  const char *base = getenv("TMPDIR");
  snprintf(temp_dir, sizeof temp_dir, "%s/colfam-XXXXXX", base ? base : "/tmp");
  if (!mkdtemp(temp_dir)) {
    perror(temp_dir);
    exit(EXIT_FAILURE);
  }
  if (!temp_owner) atexit(remove_temp_dir);
  temp_owner = getpid();
  return temp_dir;
}

void harness_seed(struct harness_random *random, uint64_t seed) {
  random->state = seed * 0x9e3779b97f4a7c15u + 0x1234567;
  if (!random->state) random->state = 1;
  for (int i = 0; i < 4; i++) harness_next(random);
}

uint64_t harness_next(struct harness_random *random) {
  uint64_t x = random->state;
  x ^= x >> 12;
  x ^= x << 25;
  x ^= x >> 27;
  random->state = x;
  return x * 0x2545f4914f6cdd1du;
}

uint64_t harness_below(struct harness_random *random, uint64_t bound) {
  return bound ? harness_next(random) % bound : 0;
}

uint64_t harness_seed_env(uint64_t fallback) {
  const char *text = getenv("COLFAM_SEED");
  return text ? strtoull(text, NULL, 10) : fallback;
}
