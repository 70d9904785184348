/* Preloaded into a program (LD_PRELOAD): system calls on table files are interrupted every second time, as by
** a signal whose handler asks for no restart; writes and reads do only a part of what they are given; all
** clocks run backwards. What SQLite makes of the same is not in question: its own files are left alone.
** How many calls were interrupted is the last word on standard error. Any thread. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static atomic_long calls, interrupted;

static bool is_interrupted(void) {
  if (atomic_fetch_add(&calls, 1) % 2) return false;
  atomic_fetch_add(&interrupted, 1);
  errno = EINTR;
  return true;
}

__attribute__((destructor)) static void tell(void) {
  fprintf(stderr, "interrupted %ld\n", atomic_load(&interrupted));
}

static bool is_table_path(const char *path) {
  return strstr(path, "-colfam") != NULL;
}

static bool is_table_file(int fd) {
  char entry[64], path[4096] = "";
  snprintf(entry, sizeof entry, "/proc/self/fd/%d", fd);
  return readlink(entry, path, sizeof path - 1) > 0 && is_table_path(path);
}

/* A part of it: all of a single byte. */
static size_t part(size_t size) {
  return size - size / 3;
}

ssize_t write(int fd, const void *bytes, size_t size) {
  if (!is_table_file(fd)) return syscall(SYS_write, fd, bytes, size);
  return is_interrupted() ? -1 : syscall(SYS_write, fd, bytes, part(size));
}

ssize_t preadv64(int fd, const struct iovec *ranges, int count, off64_t offset) {
  if (is_interrupted()) return -1;
  return syscall(SYS_pread64, fd, ranges[0].iov_base,
                 count > 1 ? ranges[0].iov_len : part(ranges[0].iov_len), offset);
}

ssize_t preadv(int fd, const struct iovec *ranges, int count, off_t offset) {
  return preadv64(fd, ranges, count, offset);
}

int fsync(int fd) {
  return is_table_file(fd) && is_interrupted() ? -1 : (int)syscall(SYS_fsync, fd);
}

int flock(int fd, int operation) {
  return is_interrupted() ? -1 : (int)syscall(SYS_flock, fd, operation);
}

ssize_t getrandom(void *bytes, size_t size, unsigned flags) {
  return is_interrupted() ? -1 : syscall(SYS_getrandom, bytes, part(size), flags);
}

int open(const char *path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  mode_t mode = flags & O_CREAT ? va_arg(more, mode_t) : 0;
  va_end(more);
  if (is_table_path(path) && is_interrupted()) return -1;
  return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

/* Seconds, less with every look. */
static time_t seconds(void) {
  static atomic_long looks;
  return 2000000000 - 10 * atomic_fetch_add(&looks, 1);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  (void)clock;
  *now = (struct timespec){.tv_sec = seconds()};
  return 0;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
  (void)zone;
  *now = (struct timeval){.tv_sec = seconds()};
  return 0;
}

time_t time(time_t *now) {
  time_t value = seconds();
  if (now) *now = value;
  return value;
}
