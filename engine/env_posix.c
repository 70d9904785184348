/* The operating system: the only file with system calls and the only one that knows pthreads.
**
** Files are created exclusively, written once and never opened for writing again. A file whose write or
** sync failed is abandoned: what the kernel kept of it is unknown (a second fsync may report success
** although pages were dropped), so every later call on it fails. Reading trusts nothing about the path:
** links are not followed, neither the last name of it nor the directory that the file lies in, so that a
** path below a data directory leads nowhere else; and O_NONBLOCK keeps the open of a FIFO or a device from
** waiting until fstat has shown that it is no regular file.
**
** What root makes beside a database belongs to the database's owner, as the files that SQLite makes there
** do: else its owner could not read them.
**
** The lock of a file is flock's: it belongs to the open file, not to the process, so that two handles of
** one process exclude each other too, and the kernel lets it go when the process dies. Where a file system
** has no such lock, files are made without, and taking it fails. Any thread; a write file by one thread at
** a time. */
#include "env.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "mem.h"

#define MERGED_RANGES_MAX 16 /* ranges that one preadv fills */
#define GAP_BYTES_MAX 8192   /* between two of them, read and thrown away: cheaper than a call */

struct posix_file {
  int fd;
  bool abandoned; /* a write or sync failed */
  uint64_t size;  /* of a file open for reading */
  char path[];    /* for error text */
};

static struct posix_file *written(struct kv_write_file *file) {
  return (struct posix_file *)file;
}

static struct posix_file *reading(struct kv_read_file *file) {
  return (struct posix_file *)file;
}

/* The failure of a system call, in the environment's terms. */
static kv_status refuse(struct kv_err *err, const char *verb, const char *path, int error) {
  kv_status status = KV_IO;
  switch (error) {
    case ENOMEM:
      status = KV_NOMEM;
      break;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      status = KV_FULL;
      break;
    case EACCES:
    case EPERM:
    case EROFS:
      status = KV_DENIED;
      break;
    case ENOENT:
      status = KV_MISSING;
      break;
    case EEXIST:
    case ENOTEMPTY:
      status = KV_BUSY;
      break;
    default:
      break;
  }
  return kv_fail(err, status, "cannot %s %s: %s", verb, path, strerror(error));
}

static int open_retrying(const char *path, int flags, mode_t mode) {
  int fd;
  do fd = open(path, flags | O_CLOEXEC | O_NOCTTY, mode);
  while (fd < 0 && errno == EINTR);
  return fd;
}

static int sync_retrying(int fd) {
  int result;
  do result = fsync(fd);
  while (result < 0 && errno == EINTR);
  return result;
}

static struct posix_file *file_new(const char *path) {
  size_t size = strlen(path) + 1;
  struct posix_file *file = kv_alloc_zero(1, sizeof *file + size);
  if (file) memcpy(file->path, path, size);
  return file;
}

/* The owner and the permissions that a new file takes over: those of like_path's file, else `mode`. */
static kv_status look_at_like(const char *like_path, mode_t mode, struct stat *like,
                              struct kv_err *err) {
  *like = (struct stat){.st_mode = mode};
  if (like_path && stat(like_path, like)) return refuse(err, "look at", like_path, errno);
  like->st_mode &= 0777;
  return KV_OK;
}

/* The umask must not take away what the database file grants; a directory keeps the bit by which its files
** get its group. An owner that cannot be set is no failure. */
static kv_status make_like(int fd, const char *path, const struct stat *like, struct kv_err *err) {
  struct stat made;
  if (fstat(fd, &made)) return refuse(err, "look at", path, errno);
  if (geteuid() == 0 && fchown(fd, like->st_uid, like->st_gid)) errno = 0;
  if (fchmod(fd, like->st_mode | (made.st_mode & S_ISGID)))
    return refuse(err, "set the mode of", path, errno);
  return KV_OK;
}

/* The directory that the path leads through last must be none that is only linked to. */
static kv_status refuse_linked_dir(const char *path, struct kv_err *err) {
  char dir[PATH_MAX];
  const char *slash = strrchr(path, '/');
  size_t size = slash ? (size_t)(slash - path) : 0;
  struct stat info;
  if (!size || size >= sizeof dir)
    return KV_OK; /* too long a path is an error of the call itself */
  memcpy(dir, path, size);
  dir[size] = 0;
  if (lstat(dir, &info) || !S_ISLNK(info.st_mode)) return KV_OK;
  return kv_fail(err, KV_DENIED, "%s is a symbolic link, which is not followed", dir);
}

static int lock_retrying(int fd) {
  int result;
  do result = flock(fd, LOCK_EX | LOCK_NB);
  while (result < 0 && errno == EINTR);
  return result;
}

/* Where a file system does not know how to rename without replacing, a second name is made first. */
static kv_status posix_rename(struct kv_env *env, const char *from, const char *to,
                              struct kv_err *err) {
  (void)env;
  if (!renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE)) return KV_OK;
  if (errno == ENOENT) return refuse(err, "rename", from, errno);
  if (errno != EINVAL && errno != ENOSYS) return refuse(err, "rename a file to", to, errno);
  if (link(from, to)) return refuse(err, "rename a file to", to, errno);
  return unlink(from) ? refuse(err, "remove", from, errno) : KV_OK;
}

/* Locked and with its mode under the name that nobody looks at. Somebody may take it for left behind all the
** same, before it is locked, and remove it: then it counts as one that was there already. */
static kv_status settle_new(const struct posix_file *file, const struct stat *like,
                            struct kv_err *err) {
  struct stat info;
  bool taken = lock_retrying(file->fd) && errno == EWOULDBLOCK;
  if (!taken && fstat(file->fd, &info)) return refuse(err, "look at", file->path, errno);
  if (taken || !info.st_nlink)
    return kv_fail(err, KV_BUSY, "%s was removed while it was made", file->path);
  return like ? make_like(file->fd, file->path, like, err) : KV_OK;
}

/* As <path>.new, in `made`; renamed when all is well, so that under its own name it is locked from the
** first. */
static kv_status open_new(struct posix_file *file, const char *made, const char *like_path,
                          struct kv_err *err) {
  struct stat like;
  kv_status status = look_at_like(like_path, 0644, &like, err);
  if (status == KV_OK) status = refuse_linked_dir(file->path, err);
  if (status != KV_OK) return status;
  file->fd = open_retrying(made, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, like.st_mode);
  if (file->fd < 0) return refuse(err, "create", file->path, errno);
  status = settle_new(file, like_path ? &like : NULL, err);
  if (status == KV_OK) status = posix_rename(NULL, made, file->path, err);
  if (status == KV_OK) return KV_OK;
  if (status != KV_MISSING) unlink(made);
  close(file->fd);
  return status;
}

static kv_status create_file(struct posix_file *file, const char *like_path, struct kv_err *err) {
  struct kv_buf made;
  kv_buf_init(&made);
  kv_buf_append(&made, file->path, strlen(file->path));
  kv_buf_append(&made, KV_NEW_SUFFIX, sizeof KV_NEW_SUFFIX);
  kv_status status =
      made.status ? kv_fail_nomem(err) : open_new(file, (const char *)made.data, like_path, err);
  kv_buf_release(&made);
  return status;
}

static kv_status posix_create(struct kv_env *env, const char *path, const char *like_path,
                              struct kv_write_file **file, struct kv_err *err) {
  (void)env;
  struct posix_file *made = file_new(path);
  if (!made) return kv_fail_nomem(err);
  kv_status status = create_file(made, like_path, err);
  if (status == KV_OK) {
    *file = (struct kv_write_file *)made;
  } else {
    kv_free(made);
  }
  return status;
}

static kv_status check_usable(const struct posix_file *file, struct kv_err *err) {
  if (!file->abandoned) return KV_OK;
  return kv_fail(err, KV_IO, "%s was abandoned after a failed write", file->path);
}

static kv_status posix_append(struct kv_write_file *handle, struct kv_slice bytes,
                              struct kv_err *err) {
  struct posix_file *file = written(handle);
  kv_status status = check_usable(file, err);
  while (status == KV_OK && bytes.size) {
    ssize_t done = write(file->fd, bytes.data, bytes.size);
    if (done > 0) {
      bytes = kv_slice_of(bytes.data + done, bytes.size - (size_t)done);
    } else if (done == 0 || errno != EINTR) {
      file->abandoned = true;
      status = refuse(err, "write", file->path, done ? errno : EIO);
    }
  }
  return status;
}

static kv_status posix_sync(struct kv_write_file *handle, struct kv_err *err) {
  struct posix_file *file = written(handle);
  kv_status status = check_usable(file, err);
  if (status != KV_OK || !sync_retrying(file->fd)) return status;
  file->abandoned = true;
  return kv_fail(err, KV_IO, "cannot sync %s: %s", file->path, strerror(errno));
}

static void file_close(struct posix_file *file) {
  close(file->fd);
  kv_free(file);
}

static void posix_close_write(struct kv_write_file *file) {
  file_close(written(file));
}

static kv_status open_regular(struct posix_file *file, struct kv_err *err) {
  kv_status status = refuse_linked_dir(file->path, err);
  if (status != KV_OK) return status;
  file->fd = open_retrying(file->path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);
  if (file->fd < 0) return refuse(err, "open", file->path, errno);
  struct stat info;
  if (fstat(file->fd, &info)) {
    status = refuse(err, "look at", file->path, errno);
  } else if (!S_ISREG(info.st_mode)) {
    status = kv_fail(err, KV_IO, "%s is not a regular file", file->path);
  } else {
    file->size = (uint64_t)info.st_size;
  }
  if (status != KV_OK) close(file->fd);
  return status;
}

static kv_status posix_open(struct kv_env *env, const char *path, struct kv_read_file **file,
                            uint64_t *size, struct kv_err *err) {
  (void)env;
  struct posix_file *opened = file_new(path);
  if (!opened) return kv_fail_nomem(err);
  kv_status status = open_regular(opened, err);
  if (status == KV_OK) {
    *file = (struct kv_read_file *)opened;
    *size = opened->size;
  } else {
    kv_free(opened);
  }
  return status;
}

static kv_status ends_early(const struct posix_file *file, const struct kv_range *range,
                            struct kv_err *err) {
  return kv_fail(err, KV_CORRUPT, "%s ends before byte %llu + %zu", file->path,
                 (unsigned long long)range->offset, range->size);
}

/* How many ranges from the first on are near enough to each other; *bytes is from the first to the last. */
static size_t neighbours(const struct kv_range *ranges, size_t n, size_t *bytes) {
  size_t count = 1;
  *bytes = ranges[0].size;
  for (; count < n && count < MERGED_RANGES_MAX; count++) {
    uint64_t end = ranges[0].offset + *bytes;
    if (ranges[count].offset < end || ranges[count].offset - end > GAP_BYTES_MAX) break;
    *bytes += (size_t)(ranges[count].offset - end) + ranges[count].size;
  }
  return count;
}

/* Lets the kernel start on every group before the first is waited for. */
static void posix_expect(struct kv_read_file *handle, const struct kv_range *ranges, size_t n) {
  const struct posix_file *file = reading(handle);
  size_t bytes, count;
  for (size_t i = 0; i < n; i += count) {
    count = neighbours(ranges + i, n - i, &bytes);
    (void)posix_fadvise(file->fd, (off_t)ranges[i].offset, (off_t)bytes, POSIX_FADV_WILLNEED);
  }
}

/* Moves the vector behind `done` bytes; returns its first unfilled element. */
static struct iovec *advance(struct iovec *vec, size_t done) {
  /* The kernel gives no more than was asked for, which the analyzer does not know. NOLINTNEXTLINE */
  while (done && done >= vec->iov_len) done -= vec++->iov_len;
  if (done) {
    vec->iov_base = (uint8_t *)vec->iov_base + done;
    vec->iov_len -= done;
  }
  return vec;
}

/* Fills `n` neighbours, `bytes` in all with what lies between them. */
static kv_status read_merged(const struct posix_file *file, const struct kv_range *ranges, size_t n,
                             size_t bytes, struct kv_err *err) {
  uint8_t gap[GAP_BYTES_MAX]; /* nobody reads it */
  struct iovec vec[2 * MERGED_RANGES_MAX], *next = vec, *end = vec;
  uint64_t offset = ranges[0].offset, at = offset;
  for (size_t i = 0; i < n; i++) {
    if (ranges[i].offset > at) *end++ = (struct iovec){&gap[0], (size_t)(ranges[i].offset - at)};
    *end++ = (struct iovec){ranges[i].into, ranges[i].size};
    at = ranges[i].offset + ranges[i].size;
  }
  while (bytes) {
    ssize_t done = preadv(file->fd, next, (int)(end - next), (off_t)offset);
    if (done == 0) return ends_early(file, &ranges[0], err);
    if (done < 0 && errno != EINTR) return refuse(err, "read", file->path, errno);
    if (done < 0) continue;
    next = advance(next, (size_t)done);
    offset += (size_t)done;
    bytes -= (size_t)done;
  }
  return KV_OK;
}

/* What cannot be read may lie between them. */
static kv_status read_each(const struct posix_file *file, const struct kv_range *ranges, size_t n,
                           struct kv_err *err) {
  kv_status status = KV_OK;
  for (size_t i = 0; i < n && status == KV_OK; i++)
    status = read_merged(file, &ranges[i], 1, ranges[i].size, err);
  return status;
}

static kv_status posix_read(struct kv_read_file *handle, const struct kv_range *ranges, size_t n,
                            struct kv_err *err) {
  const struct posix_file *file = reading(handle);
  for (size_t i = 0; i < n; i++) {
    if (ranges[i].offset > file->size || ranges[i].size > file->size - ranges[i].offset) {
      return ends_early(file, &ranges[i], err);
    }
  }
  while (n) {
    size_t bytes;
    size_t count = neighbours(ranges, n, &bytes);
    kv_status status = read_merged(file, ranges, count, bytes, err);
    if (status == KV_IO && count > 1) status = read_each(file, ranges, count, err);
    if (status != KV_OK) return status;
    ranges += count;
    n -= count;
  }
  return KV_OK;
}

static void posix_close_read(struct kv_read_file *file) {
  file_close(reading(file));
}

static kv_status lock_opened(const struct posix_file *file, struct kv_err *err) {
  struct stat info;
  if (lock_retrying(file->fd)) {
    if (errno == EWOULDBLOCK) return kv_fail(err, KV_BUSY, "%s is locked", file->path);
    return refuse(err, "lock", file->path, errno == ENOENT ? EIO : errno);
  }
  if (fstat(file->fd, &info)) return refuse(err, "look at", file->path, errno);
  return info.st_nlink ? KV_OK : refuse(err, "lock", file->path, ENOENT);
}

static kv_status posix_lock(struct kv_env *env, const char *path, struct kv_file_lock **lock,
                            struct kv_err *err) {
  struct kv_read_file *file = NULL;
  uint64_t size;
  kv_status status = posix_open(env, path, &file, &size, err);
  if (status != KV_OK) return status;
  status = lock_opened(reading(file), err);
  if (status == KV_OK)
    *lock = (struct kv_file_lock *)file;
  else
    posix_close_read(file);
  return status;
}

static void posix_unlock(struct kv_file_lock *lock) {
  file_close((struct posix_file *)lock);
}

static kv_status posix_exists(struct kv_env *env, const char *path, bool *there,
                              struct kv_err *err) {
  (void)env;
  struct stat info;
  *there = lstat(path, &info) == 0;
  if (*there || errno == ENOENT || errno == ENOTDIR) return KV_OK;
  return refuse(err, "look at", path, errno);
}

static kv_status posix_remove(struct kv_env *env, const char *path, struct kv_err *err) {
  (void)env;
  kv_status status = refuse_linked_dir(path, err);
  if (status != KV_OK) return status;
  return unlink(path) ? refuse(err, "remove", path, errno) : KV_OK;
}

/* Gives a directory that was just made its owner and mode, through a handle: the path could be a link by
** now. */
static kv_status settle_dir(const char *path, const struct stat *like, struct kv_err *err) {
  int fd = open_retrying(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
  if (fd < 0) return refuse(err, "open", path, errno);
  kv_status status = make_like(fd, path, like, err);
  close(fd);
  return status;
}

static kv_status check_dir(const char *path, struct kv_err *err) {
  struct stat info;
  if (lstat(path, &info)) return refuse(err, "look at", path, errno);
  if (S_ISDIR(info.st_mode)) return KV_OK;
  if (S_ISLNK(info.st_mode))
    return kv_fail(err, KV_DENIED, "%s is a symbolic link, which is not followed", path);
  return kv_fail(err, KV_IO, "%s is not a directory", path);
}

static kv_status posix_make_dir(struct kv_env *env, const char *path, const char *like_path,
                                struct kv_err *err) {
  (void)env;
  struct stat like;
  kv_status status = look_at_like(like_path, 0644, &like, err);
  if (status != KV_OK) return status;
  /* Search where there is reading; the owner, who is to create files in it, has every right. */
  like.st_mode |= (like.st_mode & 0444) >> 2 | S_IRWXU;
  if (mkdir(path, like.st_mode)) {
    return errno == EEXIST ? check_dir(path, err) : refuse(err, "make directory", path, errno);
  }
  if (like_path) status = settle_dir(path, &like, err);
  if (status != KV_OK) rmdir(path);
  return status;
}

static kv_status posix_remove_dir(struct kv_env *env, const char *path, struct kv_err *err) {
  (void)env;
  return rmdir(path) ? refuse(err, "remove directory", path, errno) : KV_OK;
}

static kv_status posix_sync_dir(struct kv_env *env, const char *path, struct kv_err *err) {
  (void)env;
  int fd = open_retrying(path, O_RDONLY | O_DIRECTORY, 0);
  if (fd < 0) return refuse(err, "open directory", path, errno);
  kv_status status = KV_OK;
  /* EINVAL: this file system has nothing to sync in a directory. */
  if (sync_retrying(fd) && errno != EINVAL) {
    status = kv_fail(err, KV_IO, "cannot sync directory %s: %s", path, strerror(errno));
  }
  close(fd);
  return status;
}

static kv_status walk(DIR *dir, const char *path, kv_list_fn fn, void *ctx, struct kv_err *err) {
  for (;;) {
    errno = 0;
    const struct dirent *entry = readdir(dir);
    if (!entry) return errno ? refuse(err, "list", path, errno) : KV_OK;
    if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
    kv_status status = fn(ctx, entry->d_name);
    if (status != KV_OK) return status;
  }
}

static kv_status posix_list_dir(struct kv_env *env, const char *path, kv_list_fn fn, void *ctx,
                                struct kv_err *err) {
  (void)env;
  int fd = open_retrying(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
  if (fd < 0) return refuse(err, "open directory", path, errno);
  DIR *dir = fdopendir(fd);
  if (!dir) {
    kv_status status = refuse(err, "list", path, errno);
    close(fd);
    return status;
  }
  kv_status status = walk(dir, path, fn, ctx, err);
  closedir(dir);
  return status;
}

static kv_status posix_random(struct kv_env *env, void *bytes, size_t size, struct kv_err *err) {
  (void)env;
  uint8_t *into = bytes;
  while (size) {
    ssize_t done = getrandom(into, size, 0);
    if (done < 0 && errno != EINTR) return refuse(err, "get", "random bytes", errno);
    if (done < 0) continue;
    into += done;
    size -= (size_t)done;
  }
  return KV_OK;
}

static uint64_t posix_now_us(struct kv_env *env) {
  (void)env;
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static void posix_free(struct kv_env *env) {
  (void)env;
}

struct kv_env *kv_env_posix(void) {
  static const struct kv_env_ops ops = {
      .create = posix_create,
      .append = posix_append,
      .sync = posix_sync,
      .close_write = posix_close_write,
      .open = posix_open,
      .expect = posix_expect,
      .read = posix_read,
      .close_read = posix_close_read,
      .lock = posix_lock,
      .unlock = posix_unlock,
      .exists = posix_exists,
      .rename = posix_rename,
      .remove = posix_remove,
      .make_dir = posix_make_dir,
      .remove_dir = posix_remove_dir,
      .sync_dir = posix_sync_dir,
      .list_dir = posix_list_dir,
      .random = posix_random,
      .now_us = posix_now_us,
      .free = posix_free,
  };
  static struct kv_env env = {&ops};
  return &env;
}

uint64_t kv_descriptors_max(void) {
  struct rlimit limit;
  return getrlimit(RLIMIT_NOFILE, &limit) ? 0 : (uint64_t)limit.rlim_cur;
}

#ifdef __SANITIZE_ADDRESS__
#define IS_WATCHED 1
#elif defined(__has_feature)
#define IS_WATCHED __has_feature(address_sanitizer)
#else
#define IS_WATCHED 0
#endif

#if IS_WATCHED || !defined(MADV_HUGEPAGE)
#define HAS_REGIONS false
#define HUGE_ADVICE 0
#else
#define HAS_REGIONS true
#define HUGE_ADVICE MADV_HUGEPAGE
#endif

bool kv_has_regions(void) {
  return HAS_REGIONS;
}

/* Maps twice as much and gives back what lies outside of the aligned half. */
void *kv_region_new(void) {
  uint8_t *mapped =
      mmap(NULL, 2 * KV_REGION_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return NULL;
  size_t before = -(uintptr_t)mapped % KV_REGION_BYTES;
  if (before) munmap(mapped, before);
  munmap(mapped + before + KV_REGION_BYTES, KV_REGION_BYTES - before);
  return mapped + before;
}

void kv_region_make_huge(void *region) {
  if (HAS_REGIONS) madvise(region, KV_REGION_BYTES, HUGE_ADVICE);
}

void kv_memory_make_huge(void *memory, size_t size) {
  size_t before = -(uintptr_t)memory % KV_REGION_BYTES;
  if (!HAS_REGIONS || size < before + KV_REGION_BYTES) return;
  madvise((uint8_t *)memory + before, (size - before) / KV_REGION_BYTES * KV_REGION_BYTES,
          HUGE_ADVICE);
}

void kv_region_free(void *region) {
  munmap(region, KV_REGION_BYTES);
}

struct kv_mutex {
  pthread_mutex_t lock;
};

struct kv_mutex *kv_mutex_process(void) {
  static struct kv_mutex mutex = {PTHREAD_MUTEX_INITIALIZER};
  return &mutex;
}

kv_status kv_mutex_new(struct kv_mutex **mutex, struct kv_err *err) {
  struct kv_mutex *made = kv_alloc(1, sizeof *made);
  if (!made) return kv_fail_nomem(err);
  if (pthread_mutex_init(&made->lock, NULL)) {
    kv_free(made);
    return kv_fail_nomem(err);
  }
  *mutex = made;
  return KV_OK;
}

void kv_mutex_free(struct kv_mutex *mutex) {
  if (!mutex) return;
  pthread_mutex_destroy(&mutex->lock);
  kv_free(mutex);
}

void kv_mutex_lock(struct kv_mutex *mutex) {
  pthread_mutex_lock(&mutex->lock);
}

void kv_mutex_unlock(struct kv_mutex *mutex) {
  pthread_mutex_unlock(&mutex->lock);
}

#define SPINS 200

void kv_mutex_lock_adaptive(struct kv_mutex *mutex) {
  for (int i = 0; i < SPINS; i++) {
    if (!pthread_mutex_trylock(&mutex->lock)) return;
#ifdef __x86_64__
    __builtin_ia32_pause();
#endif
  }
  pthread_mutex_lock(&mutex->lock);
}

struct kv_cond {
  pthread_cond_t cond;
};

kv_status kv_cond_new(struct kv_cond **cond, struct kv_err *err) {
  struct kv_cond *made = kv_alloc(1, sizeof *made);
  if (!made) return kv_fail_nomem(err);
  if (pthread_cond_init(&made->cond, NULL)) {
    kv_free(made);
    return kv_fail_nomem(err);
  }
  *cond = made;
  return KV_OK;
}

void kv_cond_free(struct kv_cond *cond) {
  if (!cond) return;
  pthread_cond_destroy(&cond->cond);
  kv_free(cond);
}

void kv_cond_wait(struct kv_cond *cond, struct kv_mutex *mutex) {
  pthread_cond_wait(&cond->cond, &mutex->lock);
}

void kv_cond_broadcast(struct kv_cond *cond) {
  pthread_cond_broadcast(&cond->cond);
}

/* Destroying it would wait for the waiters. */
void kv_cond_reset(struct kv_cond *cond) {
  cond->cond = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
}

struct kv_thread {
  pthread_t id;
  void (*run)(void *context);
  void *context;
};

static void *run_thread(void *arg) {
  const struct kv_thread *thread = arg;
  thread->run(thread->context);
  return NULL;
}

/* A new thread has the mask of the one that makes it. */
static int start_without_signals(struct kv_thread *thread) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int error = pthread_create(&thread->id, NULL, run_thread, thread);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return error;
}

kv_status kv_thread_start(const char *name, void (*run)(void *context), void *context,
                          struct kv_thread **thread, struct kv_err *err) {
  struct kv_thread *made = kv_alloc(1, sizeof *made);
  if (!made) return kv_fail_nomem(err);
  *made = (struct kv_thread){.run = run, .context = context};
  int error = start_without_signals(made);
  if (!error) {
    (void)pthread_setname_np(made->id, name);
    *thread = made;
    return KV_OK;
  }
  kv_free(made);
  return kv_fail(err, KV_IO, "cannot start a thread: %s", strerror(error));
}

void kv_thread_join(struct kv_thread *thread) {
  pthread_join(thread->id, NULL);
  kv_free(thread);
}

/* The key is made by the first thread that keeps something. Not a thread-local variable: leak checkers lose
** their way in those of libraries that are loaded at run time. */
static struct {
  pthread_once_t once;
  pthread_key_t key;
  bool made; /* atomic */
  void (*leave)(void *value);
} values = {.once = PTHREAD_ONCE_INIT};

static void leave_thread(void *value) {
  __atomic_load_n(&values.leave, __ATOMIC_RELAXED)(value);
}

static void make_key(void) {
  bool made = !pthread_key_create(&values.key, leave_thread);
  __atomic_store_n(&values.made, made, __ATOMIC_RELEASE);
}

static bool has_key(void) {
  return __atomic_load_n(&values.made, __ATOMIC_ACQUIRE);
}

void *kv_thread_value(void) {
  return has_key() ? pthread_getspecific(values.key) : NULL;
}

bool kv_thread_set_value(void *value, void (*leave)(void *value)) {
  __atomic_store_n(&values.leave, leave, __ATOMIC_RELAXED);
  pthread_once(&values.once, make_key);
  return has_key() && !pthread_setspecific(values.key, value);
}

kv_status kv_at_fork(void (*before)(void), void (*in_parent)(void), void (*in_child)(void),
                     struct kv_err *err) {
  return pthread_atfork(before, in_parent, in_child) ? kv_fail_nomem(err) : KV_OK;
}
