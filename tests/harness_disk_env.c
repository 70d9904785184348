/* The environment over the disk in memory (harness_disk.h), with the operations that the POSIX one makes.
** Handles keep their disk. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness_disk.h"

enum { NAME_MAX_BYTES = 256 };

/* One for all kinds of handles. */
struct handle {
  struct disk_handle handle; /* first */
  bool has_lock;
  struct disk *disk;
  struct disk_file *file;
  uint64_t size; /* of a file open for reading: when it was opened */
};

/* The programs that load the extension have none of the engine's functions. */
static kv_status fail(struct kv_err *err, kv_status status, const char *what, const char *path) {
  if (!err) return status;
  err->status = status;
  snprintf(err->text, sizeof err->text, "%s: %s", path, what);
  return status;
}

static void release(struct disk_handle *base) {
  struct handle *handle = (struct handle *)base;
  if (handle->has_lock) handle->file->locked = false;
  disk_drop_handle(base);
  disk_file_unref(handle->file);
  disk_unref(handle->disk);
  free(handle);
}

static void take_lock(struct handle *handle) {
  handle->file->locked = true;
  handle->has_lock = true;
}

static struct handle *handle_new(struct disk *disk, struct disk_file *file) {
  struct handle *handle = calloc(1, sizeof *handle);
  if (!handle) return NULL;
  disk->refs++;
  file->refs++;
  *handle = (struct handle){.disk = disk, .file = file, .size = file->image->size};
  disk_add_handle(&handle->handle, release);
  return handle;
}

static void handle_free(struct handle *handle) {
  release(&handle->handle);
}

static kv_status create(struct kv_env *env, const char *path, const char *like_path,
                        struct kv_write_file **out, struct kv_err *err) {
  disk_called();
  (void)env, (void)like_path;
  struct disk *disk = disk_mounted();
  const char *name = disk_name(path);
  char parent[NAME_MAX_BYTES];
  if (disk_find(disk, name)) return fail(err, KV_BUSY, "exists already", path);
  if (!disk_has_dir(disk, disk_parent(name, parent, sizeof parent)))
    return fail(err, KV_MISSING, "its directory is not there", path);
  char made[NAME_MAX_BYTES];
  snprintf(made, sizeof made, "%s%s", name, KV_NEW_SUFFIX);
  if (disk_find(disk, made)) return fail(err, KV_BUSY, "exists already", made);
  struct handle *handle = handle_new(disk, disk_create(disk, made, false));
  if (!handle) return fail(err, KV_NOMEM, "no memory", path);
  take_lock(handle);
  disk_rename(disk, made, name);
  *out = (struct kv_write_file *)handle;
  return KV_OK;
}

static kv_status append(struct kv_write_file *file, struct kv_slice bytes, struct kv_err *err) {
  disk_called();
  (void)err;
  struct handle *handle = (struct handle *)file;
  disk_write(handle->disk, handle->file, handle->file->image->size, bytes.data, bytes.size);
  return KV_OK;
}

/* A copy's files are called after it. */
static bool is_copy(const char *name) {
  return strncmp(name, "copy", 4) == 0;
}

static const char *name_of(const struct disk *disk, const struct disk_file *file) {
  for (size_t i = 0; i < disk->entry_count; i++)
    if (disk->entries[i].file == file) return disk->entries[i].name;
  return "";
}

static kv_status sync_file(struct kv_write_file *file, struct kv_err *err) {
  disk_called();
  (void)err;
  const struct handle *handle = (struct handle *)file;
  const char *rule = is_copy(name_of(handle->disk, handle->file)) ? "copy-sync" : "sync";
  if (!disk_is_mutant(rule)) disk_sync(handle->disk, handle->file);
  return KV_OK;
}

static void close_write(struct kv_write_file *file) {
  disk_called();
  handle_free((struct handle *)file);
}

static kv_status find_file(const char *path, struct disk_file **file, struct kv_err *err) {
  *file = disk_find(disk_mounted(), disk_name(path));
  if (!*file) return fail(err, KV_MISSING, "is not there", path);
  return (*file)->is_dir ? fail(err, KV_IO, "is a directory", path) : KV_OK;
}

static kv_status open_file(struct kv_env *env, const char *path, struct kv_read_file **out,
                           uint64_t *size, struct kv_err *err) {
  disk_called();
  (void)env;
  struct disk_file *file;
  kv_status status = find_file(path, &file, err);
  if (status != KV_OK) return status;
  struct handle *handle = handle_new(disk_mounted(), file);
  if (!handle) return fail(err, KV_NOMEM, "no memory", path);
  *size = handle->size;
  *out = (struct kv_read_file *)handle;
  return KV_OK;
}

static kv_status read_ranges(struct kv_read_file *file, const struct kv_range *ranges, size_t n,
                             struct kv_err *err) {
  disk_called();
  const struct handle *handle = (struct handle *)file;
  for (size_t i = 0; i < n; i++) {
    if (ranges[i].offset > handle->size || ranges[i].size > handle->size - ranges[i].offset)
      return fail(err, KV_CORRUPT, "read past the end", "a table file");
    if (ranges[i].size)
      memcpy(ranges[i].into, handle->file->image->bytes + ranges[i].offset, ranges[i].size);
  }
  return KV_OK;
}

static void close_read(struct kv_read_file *file) {
  disk_called();
  handle_free((struct handle *)file);
}

static kv_status lock_file(struct kv_env *env, const char *path, struct kv_file_lock **lock,
                           struct kv_err *err) {
  disk_called();
  (void)env;
  struct disk_file *file;
  kv_status status = find_file(path, &file, err);
  if (status != KV_OK) return status;
  if (file->locked) return fail(err, KV_BUSY, "is locked", path);
  struct handle *handle = handle_new(disk_mounted(), file);
  if (!handle) return fail(err, KV_NOMEM, "no memory", path);
  take_lock(handle);
  *lock = (struct kv_file_lock *)handle;
  return KV_OK;
}

static void unlock_file(struct kv_file_lock *lock) {
  disk_called();
  handle_free((struct handle *)lock);
}

static kv_status exists(struct kv_env *env, const char *path, bool *there, struct kv_err *err) {
  disk_called();
  (void)env, (void)err;
  const char *name = disk_name(path);
  *there = !*name || disk_find(disk_mounted(), name);
  return KV_OK;
}

static kv_status rename_file(struct kv_env *env, const char *from, const char *to,
                             struct kv_err *err) {
  disk_called();
  (void)env;
  struct disk_file *file;
  kv_status status = find_file(from, &file, err);
  if (status != KV_OK) return status;
  if (disk_find(disk_mounted(), disk_name(to))) return fail(err, KV_BUSY, "exists already", to);
  disk_rename(disk_mounted(), disk_name(from), disk_name(to));
  return KV_OK;
}

static kv_status remove_file(struct kv_env *env, const char *path, struct kv_err *err) {
  disk_called();
  (void)env;
  struct disk_file *file;
  kv_status status = find_file(path, &file, err);
  if (status == KV_OK) disk_remove(disk_mounted(), disk_name(path));
  return status;
}

static kv_status make_dir(struct kv_env *env, const char *path, const char *like_path,
                          struct kv_err *err) {
  disk_called();
  (void)env, (void)like_path;
  const char *name = disk_name(path);
  if (disk_has_dir(disk_mounted(), name)) return KV_OK;
  if (disk_find(disk_mounted(), name)) return fail(err, KV_IO, "is not a directory", path);
  disk_create(disk_mounted(), name, true);
  return KV_OK;
}

/* What lies in the directory behind its name and a slash; NULL for all else. */
static const char *name_in_dir(const char *name, const char *dir) {
  char parent[NAME_MAX_BYTES];
  if (strcmp(disk_parent(name, parent, sizeof parent), dir) != 0) return NULL;
  return *dir ? name + strlen(dir) + 1 : name;
}

static kv_status remove_dir(struct kv_env *env, const char *path, struct kv_err *err) {
  disk_called();
  (void)env;
  struct disk *disk = disk_mounted();
  const char *name = disk_name(path);
  if (!disk_has_dir(disk, name)) return fail(err, KV_MISSING, "is not there", path);
  for (size_t i = 0; i < disk->entry_count; i++)
    if (name_in_dir(disk->entries[i].name, name)) return fail(err, KV_BUSY, "is not empty", path);
  disk_remove(disk, name);
  return KV_OK;
}

/* Which sync of a directory it is. That of table files comes right before the one of its parent; the other
** syncs of that are the extension's to switch off. */
static const char *sync_dir_rule(const char *name) {
  static bool after_files, after_copy;
  bool is_parent = !*name && after_files;
  after_files = *name != 0;
  if (is_parent) return after_copy ? "copy-sync-parent" : "sync-parent";
  after_copy = is_copy(name);
  if (!*name) return "";
  return after_copy ? "copy-sync-dir" : "sync-dir";
}

static kv_status sync_dir(struct kv_env *env, const char *path, struct kv_err *err) {
  disk_called();
  (void)env;
  const char *name = disk_name(path);
  if (!disk_has_dir(disk_mounted(), name)) return fail(err, KV_MISSING, "is not there", path);
  if (!disk_is_mutant(sync_dir_rule(name))) disk_sync_dir(disk_mounted(), name);
  return KV_OK;
}

/* The names are gathered first, so that the callback may use the environment. */
static kv_status list_dir(struct kv_env *env, const char *path, kv_list_fn fn, void *context,
                          struct kv_err *err) {
  disk_called();
  (void)env;
  const struct disk *disk = disk_mounted();
  const char *dir = disk_name(path);
  if (!disk_has_dir(disk, dir)) return fail(err, KV_MISSING, "is not there", path);
  size_t count = 0;
  char **names = calloc(disk->entry_count + 1, sizeof *names);
  for (size_t i = 0; names && i < disk->entry_count; i++) {
    const char *name = name_in_dir(disk->entries[i].name, dir);
    if (name) names[count++] = strdup(name);
  }
  kv_status status = names ? KV_OK : fail(err, KV_NOMEM, "no memory", path);
  for (size_t i = 0; i < count; i++) {
    if (status == KV_OK) status = fn(context, names[i]);
    free(names[i]);
  }
  free(names);
  return status;
}

static kv_status random_bytes(struct kv_env *env, void *bytes, size_t size, struct kv_err *err) {
  (void)env, (void)err;
  disk_random(disk_mounted(), bytes, size);
  return KV_OK;
}

/* A clock that moves with each look at it. */
static uint64_t now_us(struct kv_env *env) {
  static uint64_t now;
  (void)env;
  return ++now;
}

static void free_env(struct kv_env *env) {
  (void)env;
}

static const struct kv_env_ops disk_ops = {
    .create = create,
    .append = append,
    .sync = sync_file,
    .close_write = close_write,
    .open = open_file,
    .read = read_ranges,
    .close_read = close_read,
    .lock = lock_file,
    .unlock = unlock_file,
    .exists = exists,
    .rename = rename_file,
    .remove = remove_file,
    .make_dir = make_dir,
    .remove_dir = remove_dir,
    .sync_dir = sync_dir,
    .list_dir = list_dir,
    .random = random_bytes,
    .now_us = now_us,
    .free = free_env,
};

struct kv_env *disk_env(void) {
  static struct kv_env env = {&disk_ops};
  return &env;
}
