/* See open_files.h. The files that are open and not being read are a ring, the most recently read in front.
** A file is opened outside of the lock, by each of several readers if they come at once: one descriptor is
** kept. It is closed under the lock, so that nobody frees it, or its environment, in between.
** Thread rule: any thread; the lock is held for list work and for closing. */
#include "open_files.h"

#include <string.h>

#include "mem.h"

enum { LIMIT_MIN = 4, LIMIT_MAX = 1000 };

struct kv_open_file {
  struct kv_open_file *prev, *next; /* in the ring */
  struct kv_open_files *files;
  struct kv_env *env;
  kv_open_check_fn check;
  const void *context;
  struct kv_read_file *handle; /* NULL: not open */
  size_t readers;
  char *path; /* behind it */
};

struct kv_open_files {
  struct kv_mutex *lock;
  struct kv_open_file ring; /* its head */
  size_t limit;             /* 0: the process's */
  size_t count;
  size_t held;
};

kv_status kv_open_files_new(struct kv_open_files **files, struct kv_err *err) {
  struct kv_open_files *made = kv_alloc_zero(1, sizeof *made);
  if (!made) return kv_fail_nomem(err);
  kv_status status = kv_mutex_new(&made->lock, err);
  if (status != KV_OK) {
    kv_free(made);
    return status;
  }
  made->ring.prev = made->ring.next = &made->ring;
  *files = made;
  return KV_OK;
}

void kv_open_files_free(struct kv_open_files *files) {
  if (!files) return;
  kv_mutex_free(files->lock);
  kv_free(files);
}

/* ---- Under the lock */

static void ring_insert(struct kv_open_file *file) {
  struct kv_open_file *head = &file->files->ring;
  file->prev = head;
  file->next = head->next;
  head->next->prev = file;
  head->next = file;
}

static void ring_remove(struct kv_open_file *file) {
  file->prev->next = file->next;
  file->next->prev = file->prev;
}

static void close_unread(struct kv_open_file *file) {
  ring_remove(file);
  kv_env_close_read(file->env, file->handle);
  file->handle = NULL;
  file->files->count--;
}

static size_t limit_of(const struct kv_open_files *files) {
  if (files->limit) return files->limit;
  uint64_t share = kv_descriptors_max() / 4;
  if (share < LIMIT_MIN) return LIMIT_MIN;
  return share < LIMIT_MAX ? (size_t)share : LIMIT_MAX;
}

/* Until `keep` are left, or all that are left are being read. Whether it closed any. */
static bool close_down_to(struct kv_open_files *files, size_t keep) {
  size_t before = files->count;
  while (files->count > keep && files->ring.prev != &files->ring) close_unread(files->ring.prev);
  return files->count < before;
}

static void begin_reading(struct kv_open_file *file) {
  if (file->readers++ == 0) ring_remove(file);
}

/* ---- The set */

void kv_open_files_set_limit(struct kv_open_files *files, size_t limit) {
  kv_mutex_lock(files->lock);
  files->limit = limit;
  close_down_to(files, limit_of(files));
  kv_mutex_unlock(files->lock);
}

size_t kv_open_files_limit(struct kv_open_files *files) {
  kv_mutex_lock(files->lock);
  size_t limit = limit_of(files);
  kv_mutex_unlock(files->lock);
  return limit;
}

size_t kv_open_files_count(struct kv_open_files *files) {
  kv_mutex_lock(files->lock);
  size_t count = files->count;
  kv_mutex_unlock(files->lock);
  return count;
}

void kv_open_files_hold(struct kv_open_files *files) {
  kv_mutex_lock(files->lock);
  files->held++;
  kv_mutex_unlock(files->lock);
}

void kv_open_files_release(struct kv_open_files *files, size_t count) {
  kv_mutex_lock(files->lock);
  files->held -= count;
  kv_mutex_unlock(files->lock);
}

bool kv_open_files_are_held(struct kv_open_files *files) {
  kv_mutex_lock(files->lock);
  bool held = files->held >= limit_of(files);
  kv_mutex_unlock(files->lock);
  return held;
}

static bool make_room(struct kv_open_files *files, bool all) {
  kv_mutex_lock(files->lock);
  bool closed = close_down_to(files, all ? 0 : limit_of(files) - 1);
  kv_mutex_unlock(files->lock);
  return closed;
}

/* ---- One file */

kv_status kv_open_file_new(struct kv_open_files *files, struct kv_env *env, const char *path,
                           kv_open_check_fn check, const void *context, struct kv_open_file **file,
                           struct kv_err *err) {
  size_t size = strlen(path) + 1;
  struct kv_open_file *made = kv_alloc_zero(1, sizeof *made + size);
  if (!made) return kv_fail_nomem(err);
  made->files = files;
  made->env = env;
  made->check = check;
  made->context = context;
  made->path = (char *)(made + 1);
  memcpy(made->path, path, size);
  *file = made;
  return KV_OK;
}

/* Others may have used up the process's descriptors: then those of the set are the ones to give up. */
static kv_status open_handle(const struct kv_open_file *file, struct kv_read_file **handle,
                             struct kv_err *err) {
  uint64_t size;
  make_room(file->files, false);
  kv_status status = kv_env_open(file->env, file->path, handle, &size, err);
  if (status == KV_IO && make_room(file->files, true))
    status = kv_env_open(file->env, file->path, handle, &size, err);
  if (status != KV_OK) return status;
  status = file->check(file->context, file->env, *handle, size, err);
  if (status != KV_OK) kv_env_close_read(file->env, *handle);
  return status;
}

static bool read_if_open(struct kv_open_file *file) {
  kv_mutex_lock(file->files->lock);
  bool open = file->handle != NULL;
  if (open) begin_reading(file);
  kv_mutex_unlock(file->files->lock);
  return open;
}

/* Takes the handle over, unless somebody was faster. */
static void adopt(struct kv_open_file *file, struct kv_read_file *handle) {
  struct kv_open_files *files = file->files;
  kv_mutex_lock(files->lock);
  struct kv_read_file *spare = file->handle ? handle : NULL;
  if (!spare) {
    file->handle = handle;
    files->count++;
    ring_insert(file);
  }
  begin_reading(file);
  kv_mutex_unlock(files->lock);
  if (spare) kv_env_close_read(file->env, spare);
}

static void end_reading(struct kv_open_file *file) {
  struct kv_open_files *files = file->files;
  kv_mutex_lock(files->lock);
  if (--file->readers == 0) ring_insert(file);
  close_down_to(files, limit_of(files));
  kv_mutex_unlock(files->lock);
}

kv_status kv_open_file_read_ahead(struct kv_open_file *file, const struct kv_range *ranges,
                                  size_t n, size_t ahead, struct kv_err *err) {
  if (!read_if_open(file)) {
    struct kv_read_file *handle = NULL;
    kv_status status = open_handle(file, &handle, err);
    if (status != KV_OK) return status;
    adopt(file, handle);
  }
  /* The handle stays as long as there are readers. */
  if (ahead > n) kv_env_expect(file->env, file->handle, ranges, ahead);
  kv_status status = kv_env_read(file->env, file->handle, ranges, n, err);
  end_reading(file);
  return status;
}

kv_status kv_open_file_read(struct kv_open_file *file, const struct kv_range *ranges, size_t n,
                            struct kv_err *err) {
  return kv_open_file_read_ahead(file, ranges, n, 0, err);
}

void kv_open_file_free(struct kv_open_file *file) {
  if (!file) return;
  kv_mutex_lock(file->files->lock);
  if (file->handle) close_unread(file);
  kv_mutex_unlock(file->files->lock);
  kv_free(file);
}
