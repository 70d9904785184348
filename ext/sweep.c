/* See sweep.h. */
#include "sweep.h"

#include <string.h>

#include "reclaim.h"

enum {
  NAME_DIGITS = 16,
  FILES_MAX = 4096 /* that one sweep queues; more wait for the next */
};

/* The id in "<16 hex digits, lower case>.sst"; 0 for other names. */
static uint64_t id_of_name(const char *name) {
  static const char digits[] = "0123456789abcdef";
  uint64_t id = 0;
  if (strlen(name) != NAME_DIGITS + 4 || strcmp(name + NAME_DIGITS, ".sst") != 0) return 0;
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

static kv_status queue_name(void *context, const char *name) {
  struct sweep *sweep = context;
  struct colfam_store *store = sweep->table->store;
  uint64_t id = id_of_name(name);
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
  struct kv_buf path;
  struct kv_file_lock *lock = NULL;
  kv_buf_init(&path);
  kv_table_path(&path, colfam_store_dir(store), id);
  kv_status status = path.status;
  if (status == KV_OK)
    status = kv_env_lock(colfam_store_env(store), (const char *)path.data, &lock, NULL);
  if (status == KV_OK) kv_env_unlock(colfam_store_env(store), lock);
  kv_buf_release(&path);
  return status == KV_OK || status == KV_MISSING;
}
