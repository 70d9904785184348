/* A file system in memory, for databases that have no file and for tests.
**
** Directories and files are nodes of one list, found by their whole path; there are hundreds at
** most. A directory is only a name: files can be created in it and in "", "." and "/", which are
** always there. A node is freed with its last reference: one for being in the list, one for each
** open handle; so a removed file can be read to the end, as on POSIX.
**
** One lock guards the list, the references and the bytes of files being written. The bytes of a
** file that is no longer written never move, and readers opened then copy without the lock.
** Nothing is durable, so syncs do nothing. Any thread; the environment is freed after its
** handles, with its last reference: answers may outlive the database. */
#include "env.h"

#include <string.h>

#include "mem.h"

struct node {
  struct node *next;
  size_t refs;
  bool is_dir;
  bool being_written;
  bool locked;
  struct kv_buf bytes;
  char *path;
};

struct memory_env {
  struct kv_env base;
  int64_t refs; /* atomic */
  struct kv_mutex *lock;
  struct node *nodes;
};

struct memory_file {
  struct memory_env *env;
  struct node *node;
  uint64_t size;        /* of a file open for reading: when it was opened */
  const uint8_t *fixed; /* its bytes when they no longer move, else NULL */
};

static struct memory_env *memory_of(struct kv_env *env) {
  return (struct memory_env *)env;
}

static struct memory_file *written(struct kv_write_file *file) {
  return (struct memory_file *)file;
}

static struct memory_file *reading(struct kv_read_file *file) {
  return (struct memory_file *)file;
}

/* The link that leads to the node of this path, or to the end of the list. Under the lock, as all
** below that take a memory_env and are not in the table. */
static struct node **find(struct memory_env *env, const char *path) {
  struct node **link = &env->nodes;
  while (*link && strcmp((*link)->path, path)) link = &(*link)->next;
  return link;
}

/* Bytes of the path before the name: of its directory, without the slash. */
static size_t parent_size(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? (size_t)(slash - path) : 0;
}

static bool is_root(const char *path, size_t size) {
  return !size || (size == 1 && (*path == '.' || *path == '/'));
}

static bool has_dir(const struct memory_env *env, const char *path, size_t size) {
  if (is_root(path, size)) return true;
  for (const struct node *node = env->nodes; node; node = node->next) {
    if (node->is_dir && !strncmp(node->path, path, size) && !node->path[size]) return true;
  }
  return false;
}

/* The name of a node that lies directly in the directory, or NULL. */
static const char *name_in_dir(const struct node *node, const char *dir) {
  size_t size = strlen(dir);
  size_t parent = parent_size(node->path);
  bool inside = is_root(dir, size) ? is_root(node->path, parent)
                                   : parent == size && !memcmp(node->path, dir, size);
  if (!inside) return NULL;
  return node->path[parent] == '/' ? node->path + parent + 1 : node->path + parent;
}

static char *copy_path(const char *path) {
  size_t size = strlen(path) + 1;
  char *copy = kv_alloc(size, 1);
  if (copy) memcpy(copy, path, size);
  return copy;
}

static struct node *node_new(const char *path, bool is_dir) {
  struct node *node = kv_alloc_zero(1, sizeof *node);
  if (!node) return NULL;
  node->path = copy_path(path);
  if (!node->path) {
    kv_free(node);
    return NULL;
  }
  node->is_dir = is_dir;
  node->refs = 1;
  kv_buf_init(&node->bytes);
  return node;
}

static void node_unref(struct node *node) {
  if (--node->refs) return;
  kv_buf_release(&node->bytes);
  kv_free(node->path);
  kv_free(node);
}

static void add_node(struct memory_env *env, struct node *node) {
  node->next = env->nodes;
  env->nodes = node;
}

static void unlink_node(struct node **link) {
  struct node *node = *link;
  *link = node->next;
  node_unref(node);
}

static kv_status missing(struct kv_err *err, const char *path) {
  return kv_fail(err, KV_MISSING, "%s is not there (in memory)", path);
}

static void close_file(struct memory_file *file) {
  node_unref(file->node);
  kv_free(file);
}

static kv_status check_new(struct memory_env *env, const char *path, struct kv_err *err) {
  if (*find(env, path)) return kv_fail(err, KV_BUSY, "%s exists already (in memory)", path);
  if (!has_dir(env, path, parent_size(path))) {
    return kv_fail(err, KV_MISSING, "the directory of %s is not there (in memory)", path);
  }
  return KV_OK;
}

static kv_status create_file(struct memory_env *env, const char *path, struct memory_file *file,
                             struct kv_err *err) {
  kv_status status = check_new(env, path, err);
  if (status != KV_OK) return status;
  struct node *node = node_new(path, false);
  if (!node) return kv_fail_nomem(err);
  node->being_written = node->locked = true;
  node->refs++;
  add_node(env, node);
  *file = (struct memory_file){.env = env, .node = node};
  return KV_OK;
}

static kv_status memory_create(struct kv_env *base, const char *path, const char *like_path,
                               struct kv_write_file **file, struct kv_err *err) {
  (void)like_path;
  struct memory_env *env = memory_of(base);
  struct memory_file *made = kv_alloc(1, sizeof *made);
  if (!made) return kv_fail_nomem(err);
  kv_mutex_lock(env->lock);
  kv_status status = create_file(env, path, made, err);
  kv_mutex_unlock(env->lock);
  if (status == KV_OK) {
    *file = (struct kv_write_file *)made;
  } else {
    kv_free(made);
  }
  return status;
}

static kv_status memory_append(struct kv_write_file *handle, struct kv_slice bytes,
                               struct kv_err *err) {
  struct memory_file *file = written(handle);
  kv_mutex_lock(file->env->lock);
  kv_buf_append(&file->node->bytes, bytes.data, bytes.size);
  kv_status status = file->node->bytes.status;
  kv_mutex_unlock(file->env->lock);
  return status == KV_OK ? KV_OK : kv_fail_nomem(err);
}

/* A file that lacks an append is abandoned, as on POSIX. */
static kv_status memory_sync(struct kv_write_file *handle, struct kv_err *err) {
  return written(handle)->node->bytes.status == KV_OK ? KV_OK : kv_fail_nomem(err);
}

static void memory_close_write(struct kv_write_file *handle) {
  struct memory_file *file = written(handle);
  struct memory_env *env = file->env;
  kv_mutex_lock(env->lock);
  file->node->being_written = file->node->locked = false;
  close_file(file);
  kv_mutex_unlock(env->lock);
}

static kv_status open_file(struct memory_env *env, const char *path, struct memory_file *file,
                           struct kv_err *err) {
  struct node *node = *find(env, path);
  if (!node) return missing(err, path);
  if (node->is_dir) return kv_fail(err, KV_IO, "%s is not a regular file (in memory)", path);
  node->refs++;
  *file = (struct memory_file){.env = env, .node = node, .size = node->bytes.size};
  if (!node->being_written) file->fixed = node->bytes.data;
  return KV_OK;
}

static kv_status memory_open(struct kv_env *base, const char *path, struct kv_read_file **file,
                             uint64_t *size, struct kv_err *err) {
  struct memory_env *env = memory_of(base);
  struct memory_file *opened = kv_alloc(1, sizeof *opened);
  if (!opened) return kv_fail_nomem(err);
  kv_mutex_lock(env->lock);
  kv_status status = open_file(env, path, opened, err);
  kv_mutex_unlock(env->lock);
  if (status == KV_OK) {
    *file = (struct kv_read_file *)opened;
    *size = opened->size;
  } else {
    kv_free(opened);
  }
  return status;
}

static kv_status copy_ranges(const struct memory_file *file, const uint8_t *data,
                             const struct kv_range *ranges, size_t n, struct kv_err *err) {
  for (size_t i = 0; i < n; i++) {
    uint64_t offset = ranges[i].offset;
    if (offset > file->size || ranges[i].size > file->size - offset) {
      return kv_fail(err, KV_CORRUPT, "%s ends before byte %llu + %zu", file->node->path,
                     (unsigned long long)offset, ranges[i].size);
    }
    if (ranges[i].size) memcpy(ranges[i].into, data + offset, ranges[i].size);
  }
  return KV_OK;
}

static kv_status memory_read(struct kv_read_file *handle, const struct kv_range *ranges, size_t n,
                             struct kv_err *err) {
  const struct memory_file *file = reading(handle);
  if (file->fixed) return copy_ranges(file, file->fixed, ranges, n, err);
  kv_mutex_lock(file->env->lock);
  kv_status status = copy_ranges(file, file->node->bytes.data, ranges, n, err);
  kv_mutex_unlock(file->env->lock);
  return status;
}

static void memory_close_read(struct kv_read_file *handle) {
  struct memory_file *file = reading(handle);
  struct memory_env *env = file->env;
  kv_mutex_lock(env->lock);
  close_file(file);
  kv_mutex_unlock(env->lock);
}

static kv_status lock_node(struct memory_env *env, const char *path, struct memory_file *file,
                           struct kv_err *err) {
  struct node *node = *find(env, path);
  if (!node) return missing(err, path);
  if (node->is_dir) return kv_fail(err, KV_IO, "%s is not a regular file (in memory)", path);
  if (node->locked) return kv_fail(err, KV_BUSY, "%s is locked (in memory)", path);
  node->locked = true;
  node->refs++;
  *file = (struct memory_file){.env = env, .node = node};
  return KV_OK;
}

static kv_status memory_lock(struct kv_env *base, const char *path, struct kv_file_lock **lock,
                             struct kv_err *err) {
  struct memory_env *env = memory_of(base);
  struct memory_file *made = kv_alloc(1, sizeof *made);
  if (!made) return kv_fail_nomem(err);
  kv_mutex_lock(env->lock);
  kv_status status = lock_node(env, path, made, err);
  kv_mutex_unlock(env->lock);
  if (status == KV_OK)
    *lock = (struct kv_file_lock *)made;
  else
    kv_free(made);
  return status;
}

static void memory_unlock(struct kv_file_lock *lock) {
  struct memory_file *file = (struct memory_file *)lock;
  struct memory_env *env = file->env;
  kv_mutex_lock(env->lock);
  file->node->locked = false;
  close_file(file);
  kv_mutex_unlock(env->lock);
}

static kv_status memory_exists(struct kv_env *base, const char *path, bool *there,
                               struct kv_err *err) {
  (void)err;
  struct memory_env *env = memory_of(base);
  kv_mutex_lock(env->lock);
  *there = *find(env, path) || has_dir(env, path, strlen(path));
  kv_mutex_unlock(env->lock);
  return KV_OK;
}

static kv_status rename_node(struct memory_env *env, const char *from, const char *to,
                             struct kv_err *err) {
  struct node *node = *find(env, from);
  if (!node) return missing(err, from);
  if (node->is_dir) return kv_fail(err, KV_IO, "%s is not a regular file (in memory)", from);
  kv_status status = check_new(env, to, err);
  if (status != KV_OK) return status;
  char *path = copy_path(to);
  if (!path) return kv_fail_nomem(err);
  kv_free(node->path);
  node->path = path;
  return KV_OK;
}

static kv_status memory_rename(struct kv_env *base, const char *from, const char *to,
                               struct kv_err *err) {
  struct memory_env *env = memory_of(base);
  kv_mutex_lock(env->lock);
  kv_status status = rename_node(env, from, to, err);
  kv_mutex_unlock(env->lock);
  return status;
}

static kv_status memory_remove(struct kv_env *base, const char *path, struct kv_err *err) {
  struct memory_env *env = memory_of(base);
  kv_status status = KV_OK;
  kv_mutex_lock(env->lock);
  struct node **link = find(env, path);
  if (!*link) {
    status = missing(err, path);
  } else if ((*link)->is_dir) {
    status = kv_fail(err, KV_IO, "cannot remove %s: is a directory (in memory)", path);
  } else {
    unlink_node(link);
  }
  kv_mutex_unlock(env->lock);
  return status;
}

static kv_status make_dir(struct memory_env *env, const char *path, struct kv_err *err) {
  if (has_dir(env, path, strlen(path))) return KV_OK;
  if (*find(env, path)) return kv_fail(err, KV_IO, "%s is not a directory (in memory)", path);
  struct node *node = node_new(path, true);
  if (!node) return kv_fail_nomem(err);
  add_node(env, node);
  return KV_OK;
}

static kv_status memory_make_dir(struct kv_env *base, const char *path, const char *like_path,
                                 struct kv_err *err) {
  (void)like_path;
  struct memory_env *env = memory_of(base);
  kv_mutex_lock(env->lock);
  kv_status status = make_dir(env, path, err);
  kv_mutex_unlock(env->lock);
  return status;
}

static kv_status remove_dir(struct memory_env *env, const char *path, struct kv_err *err) {
  struct node **link = find(env, path);
  if (!*link) return missing(err, path);
  if (!(*link)->is_dir) return kv_fail(err, KV_IO, "%s is not a directory (in memory)", path);
  for (const struct node *node = env->nodes; node; node = node->next) {
    if (name_in_dir(node, path)) return kv_fail(err, KV_BUSY, "%s is not empty (in memory)", path);
  }
  unlink_node(link);
  return KV_OK;
}

static kv_status memory_remove_dir(struct kv_env *base, const char *path, struct kv_err *err) {
  struct memory_env *env = memory_of(base);
  kv_mutex_lock(env->lock);
  kv_status status = remove_dir(env, path, err);
  kv_mutex_unlock(env->lock);
  return status;
}

static kv_status memory_sync_dir(struct kv_env *base, const char *path, struct kv_err *err) {
  struct memory_env *env = memory_of(base);
  kv_mutex_lock(env->lock);
  bool there = has_dir(env, path, strlen(path));
  kv_mutex_unlock(env->lock);
  return there ? KV_OK : missing(err, path);
}

/* The NUL-terminated names in a directory, one after another. */
static kv_status collect_names(struct memory_env *env, const char *path, struct kv_buf *names,
                               struct kv_err *err) {
  if (!has_dir(env, path, strlen(path))) return missing(err, path);
  for (const struct node *node = env->nodes; node; node = node->next) {
    const char *name = name_in_dir(node, path);
    if (name) kv_buf_append(names, name, strlen(name) + 1);
  }
  return names->status == KV_OK ? KV_OK : kv_fail_nomem(err);
}

/* The names are copied first, so that the callback may use the environment. */
static kv_status memory_list_dir(struct kv_env *base, const char *path, kv_list_fn fn, void *ctx,
                                 struct kv_err *err) {
  struct memory_env *env = memory_of(base);
  struct kv_buf names;
  kv_buf_init(&names);
  kv_mutex_lock(env->lock);
  kv_status status = collect_names(env, path, &names, err);
  kv_mutex_unlock(env->lock);
  for (size_t at = 0; status == KV_OK && at < names.size;) {
    const char *name = (const char *)names.data + at;
    at += strlen(name) + 1;
    status = fn(ctx, name);
  }
  kv_buf_release(&names);
  return status;
}

static kv_status memory_random(struct kv_env *env, void *bytes, size_t size, struct kv_err *err) {
  (void)env;
  return kv_env_random(kv_env_posix(), bytes, size, err);
}

static uint64_t memory_now_us(struct kv_env *env) {
  (void)env;
  return kv_env_now_us(kv_env_posix());
}

static void memory_ref(struct kv_env *env) {
  __atomic_add_fetch(&memory_of(env)->refs, 1, __ATOMIC_RELAXED);
}

static void memory_free(struct kv_env *base) {
  struct memory_env *env = memory_of(base);
  if (__atomic_sub_fetch(&env->refs, 1, __ATOMIC_ACQ_REL) > 0) return;
  while (env->nodes) unlink_node(&env->nodes);
  kv_mutex_free(env->lock);
  kv_free(env);
}

kv_status kv_env_memory_new(struct kv_env **env, struct kv_err *err) {
  static const struct kv_env_ops ops = {
      .create = memory_create,
      .append = memory_append,
      .sync = memory_sync,
      .close_write = memory_close_write,
      .open = memory_open,
      .read = memory_read,
      .close_read = memory_close_read,
      .lock = memory_lock,
      .unlock = memory_unlock,
      .exists = memory_exists,
      .rename = memory_rename,
      .remove = memory_remove,
      .make_dir = memory_make_dir,
      .remove_dir = memory_remove_dir,
      .sync_dir = memory_sync_dir,
      .list_dir = memory_list_dir,
      .random = memory_random,
      .now_us = memory_now_us,
      .free = memory_free,
      .ref = memory_ref,
  };
  struct memory_env *made = kv_alloc_zero(1, sizeof *made);
  if (!made) return kv_fail_nomem(err);
  made->base.ops = &ops;
  made->refs = 1;
  kv_status status = kv_mutex_new(&made->lock, err);
  if (status == KV_OK) {
    *env = &made->base;
  } else {
    kv_free(made);
  }
  return status;
}
