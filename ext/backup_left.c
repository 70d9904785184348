/* What a backup leaves that is killed: <copy>-colfam-partial, and <copy>-colfam/ with table files. Its
** maker keeps the partial database locked until it has got its name, makes it first and removes it last;
** so when it is there, and not locked, whoever made it is dead, and the directory is its too. It must look
** like it all the same: nothing that backups do not make is removed. Any thread. */
#include <stdbool.h>
#include <string.h>

#include "backup.h"
#include "engine/kv.h"
#include "error.h"
#include "sweep.h"

enum { HEADER_BYTES = 16 };

/* Unless it is known not to be. */
static bool may_be_there(const char *path) {
  bool there = true;
  return kv_env_exists(colfam_backup_env(), path, &there, NULL) != KV_OK || there;
}

/* Empty, the beginning of a database, or the gap that is left where its first page is to come. */
static bool is_partial(const char *path) {
  static const uint8_t gap[HEADER_BYTES], header[HEADER_BYTES] = "SQLite format 3";
  uint8_t bytes[HEADER_BYTES];
  struct kv_range range = {0, HEADER_BYTES, bytes};
  struct kv_read_file *file = NULL;
  uint64_t size = 0;
  if (kv_env_open(colfam_backup_env(), path, &file, &size, NULL) != KV_OK) return false;
  bool read =
      size >= HEADER_BYTES && kv_env_read(colfam_backup_env(), file, &range, 1, NULL) == KV_OK;
  kv_env_close_read(colfam_backup_env(), file);
  return size == 0 ||
         (read && (!memcmp(bytes, gap, HEADER_BYTES) || !memcmp(bytes, header, HEADER_BYTES)));
}

static kv_status refuse_other(void *context, const char *name) {
  (void)context;
  return colfam_sweep_is_table_file(name) ? KV_OK : KV_CANCELED;
}

static bool is_left(const struct colfam_backup_names *names) {
  if (may_be_there(names->database) || !is_partial(names->partial)) return false;
  kv_status status = kv_env_list_dir(colfam_backup_env(), names->dir, refuse_other, NULL, NULL);
  return status == KV_OK || status == KV_MISSING;
}

static kv_status remove_one(void *context, const char *name) {
  const struct colfam_backup_names *names = context;
  char *path = sqlite3_mprintf("%s/%s", names->dir, name);
  kv_status status = path ? kv_env_remove(colfam_backup_env(), path, NULL) : KV_NOMEM;
  sqlite3_free(path);
  return status;
}

/* The partial database goes last: as long as anything is there, it says what that is. */
static void remove_left(struct colfam_backup_names names) {
  kv_status status = kv_env_list_dir(colfam_backup_env(), names.dir, remove_one, &names, NULL);
  if (status == KV_OK) status = kv_env_remove_dir(colfam_backup_env(), names.dir, NULL);
  if (status == KV_OK || status == KV_MISSING)
    status = kv_env_remove(colfam_backup_env(), names.partial, NULL);
  (void)status; /* what cannot be removed is refused as being there */
}

/* A file that did not get as far as to its name. */
static int remove_new(const char *partial) {
  struct kv_file_lock *lock = NULL;
  char *path = sqlite3_mprintf("%s" KV_NEW_SUFFIX, partial);
  if (!path) return SQLITE_NOMEM;
  if (kv_env_lock(colfam_backup_env(), path, &lock, NULL) == KV_OK) {
    if (is_partial(path)) (void)kv_env_remove(colfam_backup_env(), path, NULL);
    kv_env_unlock(colfam_backup_env(), lock);
  }
  sqlite3_free(path);
  return SQLITE_OK;
}

int colfam_backup_clear_left(const struct colfam_backup_names *names, char **message) {
  struct kv_file_lock *lock = NULL;
  kv_status status = kv_env_lock(colfam_backup_env(), names->partial, &lock, NULL);
  if (status == KV_BUSY)
    return colfam_error(message, SQLITE_BUSY, "colfam_backup: another one is making %s",
                        names->database);
  if (status == KV_OK) {
    if (is_left(names)) remove_left(*names);
    kv_env_unlock(colfam_backup_env(), lock);
  }
  return remove_new(names->partial);
}
