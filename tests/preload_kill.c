/* Preloaded into a program (LD_PRELOAD): ends it by SIGKILL at a chosen one of its calls that change files,
** or at a chosen moment of its processor time, so that a kill meets every step of a commit and not only those
** that take long. Its standard output is made to go out line by line, so that what it has acknowledged is
** known.
**
** $COLFAM_KILL says when: "before 17", "half 17", "after 17" the 17th call (half: of a write, only the first
** half of its bytes is written), "before 3 fsync" the third one of this name, "within 4000" microseconds. A
** call's name is the last word, on standard error.
** Any thread. */
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

enum how { NEVER, BEFORE, HALF, AFTER };

static enum how how;
static char name[16]; /* of the calls that count; empty: all */
static atomic_long calls_left;

static void die(const char *call) {
  char words[64];
  int size = snprintf(words, sizeof words, "killed at %s\n", call);
  syscall(SYS_write, STDERR_FILENO, words, size);
  kill(getpid(), SIGKILL);
}

static void die_now(int signal) {
  (void)signal;
  kill(getpid(), SIGKILL);
}

static void die_within(long us) {
  struct itimerval timer = {.it_value = {us / 1000000, us % 1000000}};
  signal(SIGPROF, die_now);
  setitimer(ITIMER_PROF, &timer, NULL);
}

__attribute__((constructor)) static void choose(void) {
  static const char *const words[] = {"never", "before", "half", "after"};
  char word[16] = "", digits[16] = "";
  const char *chosen = getenv("COLFAM_KILL");
  setvbuf(stdout, NULL, _IOLBF, 0);
  if (!chosen || sscanf(chosen, "%15s %15s %15s", word, digits, name) < 2) return;
  long number = strtol(digits, NULL, 10);
  atomic_store(&calls_left, number);
  for (int i = BEFORE; i <= AFTER; i++)
    if (strcmp(word, words[i]) == 0) how = (enum how)i;
  if (strcmp(word, "within") == 0) die_within(number);
}

/* Whether the program is to die at the call that begins here. */
static bool begins(const char *call) {
  if (name[0] && strcmp(name, call) != 0) return false;
  bool last = how != NEVER && atomic_fetch_sub(&calls_left, 1) == 1;
  if (last && how == BEFORE) die(call);
  return last;
}

/* What the call has returned. */
static long ends(const char *call, bool last, long result) {
  if (last) die(call);
  return result;
}

static size_t size_of(bool last, size_t size) {
  return last && how == HALF ? size / 2 : size;
}

ssize_t write(int fd, const void *bytes, size_t size) {
  bool last = begins("write");
  return ends("write", last, syscall(SYS_write, fd, bytes, size_of(last, size)));
}

ssize_t pwrite64(int fd, const void *bytes, size_t size, off64_t offset) {
  bool last = begins("pwrite");
  return ends("pwrite", last, syscall(SYS_pwrite64, fd, bytes, size_of(last, size), offset));
}

ssize_t pwrite(int fd, const void *bytes, size_t size, off_t offset) {
  return pwrite64(fd, bytes, size, offset);
}

int fsync(int fd) {
  bool last = begins("fsync");
  return (int)ends("fsync", last, syscall(SYS_fsync, fd));
}

int fdatasync(int fd) {
  bool last = begins("fdatasync");
  return (int)ends("fdatasync", last, syscall(SYS_fdatasync, fd));
}

int ftruncate64(int fd, off64_t size) {
  bool last = begins("ftruncate");
  return (int)ends("ftruncate", last, syscall(SYS_ftruncate, fd, size));
}

int ftruncate(int fd, off_t size) {
  return ftruncate64(fd, size);
}

int unlink(const char *path) {
  bool last = begins("unlink");
  return (int)ends("unlink", last, syscall(SYS_unlinkat, AT_FDCWD, path, 0));
}

int rmdir(const char *path) {
  bool last = begins("rmdir");
  return (int)ends("rmdir", last, syscall(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR));
}

int mkdir(const char *path, mode_t mode) {
  bool last = begins("mkdir");
  return (int)ends("mkdir", last, syscall(SYS_mkdirat, AT_FDCWD, path, mode));
}

int fchmod(int fd, mode_t mode) {
  bool last = begins("fchmod");
  return (int)ends("fchmod", last, syscall(SYS_fchmod, fd, mode));
}

int renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags) {
  bool last = begins("rename");
  return (int)ends("rename", last, syscall(SYS_renameat2, from_dir, from, to_dir, to, flags));
}

/* Only one that makes a file counts. */
static int open_counted(const char *path, int flags, va_list more) {
  if (!(flags & O_CREAT)) return (int)syscall(SYS_openat, AT_FDCWD, path, flags, 0);
  mode_t mode = va_arg(more, mode_t);
  bool last = begins("create");
  return (int)ends("create", last, syscall(SYS_openat, AT_FDCWD, path, flags, mode));
}

int open(const char *path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  int fd = open_counted(path, flags, more);
  va_end(more);
  return fd;
}

int open64(const char *path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  int fd = open_counted(path, flags, more);
  va_end(more);
  return fd;
}
