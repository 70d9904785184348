/* See harness_mount.h. */
#include "harness_mount.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "harness.h"

static bool refused(const char *what) {
  printf("no mounting here (%s: %s)\n", what, strerror(errno));
  return false;
}

/* Mounts of this process from now on are not seen outside. */
static bool go_apart(void) {
  static pid_t apart;
  if (apart == getpid()) return true;
  if (unshare(CLONE_NEWNS)) return refused("unshare");
  if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL)) return refused("private mounts");
  apart = getpid();
  return true;
}

bool mount_small(const char *dir, size_t bytes) {
  char options[64];
  snprintf(options, sizeof options, "size=%zu", bytes);
  if (!go_apart()) return false;
  return mount("tmpfs", dir, "tmpfs", 0, options) == 0 || refused("tmpfs");
}

bool mount_read_only(const char *dir) {
  if (!go_apart()) return false;
  if (mount(dir, dir, NULL, MS_BIND, NULL)) return refused("bind");
  return mount(NULL, dir, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL) == 0 ||
         refused("read-only");
}

void mount_end(const char *dir) {
  ck_assert_int_eq(umount2(dir, MNT_DETACH), 0);
}
