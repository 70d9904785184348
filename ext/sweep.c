/* See sweep.h. */
#include "sweep.h"

#include <string.h>

#include "killpoint.h"
#include "reclaim.h"

enum {
  NAME_DIGITS = 16,
  FILES_MAX = 4096 /* that one sweep queues; more wait for the next */
};

#define SUFFIX ".sst"

/* The id in "<16 hex digits, lower case>", followed by this; 0 for other names. */
static uint64_t id_of_name(const char *name, const char *suffix) {
  static const char digits[] = "0123456789abcdef";
  uint64_t id = 0;
  if (strlen(name) <= NAME_DIGITS || strcmp(name + NAME_DIGITS, suffix) != 0) return 0;
  for (int i = 0; i < NAME_DIGITS; i++) {
    const char *digit = strchr(digits, name[i]);
    if (!digit) return 0;
    id = id << 4 | (uint64_t)(digit - digits);
  }
  return id >> 63 ? 0 : id;
}

struct sweep {
  struct colfam_table *table;
  int count;
};

static kv_status lock_file(struct colfam_store *store, const struct kv_buf *path,
                           struct kv_file_lock **lock) {
  if (path->status != KV_OK) return path->status;
  return kv_env_lock(colfam_store_env(store), (const char *)path->data, lock, NULL);
}

/* A file that never got its name: nobody can want it, but for a process that has not locked it yet, and that
** one makes another when this one is gone. */
static void remove_new(struct colfam_store *store, const char *name) {
  struct kv_env *env = colfam_store_env(store);
  const char *dir = colfam_store_dir(store);
  struct kv_buf path;
  struct kv_file_lock *lock = NULL;
  kv_buf_init(&path);
  kv_buf_append(&path, dir, strlen(dir));
  kv_buf_append_byte(&path, '/');
  kv_buf_append(&path, name, strlen(name) + 1);
  if (lock_file(store, &path, &lock) == KV_OK) {
    (void)kv_env_remove(env, (const char *)path.data, NULL);
    kv_env_unlock(env, lock);
  }
  kv_buf_release(&path);
}

static kv_status queue_name(void *context, const char *name) {
  struct sweep *sweep = context;
  struct colfam_store *store = sweep->table->store;
  if (id_of_name(name, SUFFIX KV_NEW_SUFFIX)) remove_new(store, name);
  uint64_t id = id_of_name(name, SUFFIX);
  if (!id || colfam_store_knows_file(store, id)) return KV_OK;
  if (sweep->count++ == FILES_MAX) return KV_CANCELED;
  colfam_reclaim_doubt(store, sweep->table->family, id);
  return KV_OK;
}

void colfam_sweep_queue(struct colfam_table *table) {
  struct colfam_store *store = table->store;
  struct sweep sweep = {table, 0};
  if (!colfam_store_take_sweep(store)) return;
  kv_status status =
      kv_env_list_dir(colfam_store_env(store), colfam_store_dir(store), queue_name, &sweep, NULL);
  if (status != KV_OK && status != KV_MISSING) colfam_store_want_sweep(store);
}

bool colfam_sweep_is_left(struct colfam_store *store, uint64_t id) {
  if (colfam_is_mutant("sweep-lock")) return true;
  struct kv_buf path;
  struct kv_file_lock *lock = NULL;
  kv_buf_init(&path);
  kv_table_path(&path, colfam_store_dir(store), id);
  kv_status status = lock_file(store, &path, &lock);
  if (status == KV_OK) kv_env_unlock(colfam_store_env(store), lock);
  kv_buf_release(&path);
  return status == KV_OK || status == KV_MISSING;
}

bool colfam_sweep_is_table_file(const char *name) {
  return id_of_name(name, SUFFIX) || id_of_name(name, SUFFIX KV_NEW_SUFFIX);
}
