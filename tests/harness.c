/* See harness.h. */
#include "harness.h"

#include <ftw.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct temp_dir {
  char path[PATH_MAX];
  pid_t owner;
};
static struct temp_dir disk, memory;

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

static void remove_temp_dirs(void) {
  if (disk.owner == getpid()) harness_remove_tree(disk.path);
  if (memory.owner == getpid()) harness_remove_tree(memory.path);
}

static const char *dir_below(struct temp_dir *dir, const char *base) {
  static bool at_exit;
  if (dir->owner == getpid()) return dir->path;
  snprintf(dir->path, sizeof dir->path, "%s/colfam-XXXXXX", base);
  if (!mkdtemp(dir->path)) {
    perror(dir->path);
    exit(EXIT_FAILURE);
  }
  if (!at_exit) atexit(remove_temp_dirs);
  at_exit = true;
  dir->owner = getpid();
  return dir->path;
}

const char *harness_dir(void) {
  const char *base = getenv("TMPDIR");
  return dir_below(&disk, base ? base : "/tmp");
}

const char *harness_memory_dir(void) {
  return access("/dev/shm", W_OK) == 0 ? dir_below(&memory, "/dev/shm") : harness_dir();
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
