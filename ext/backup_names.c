/* See backup.h. Whether a database is there is asked without opening it: to open and close a database file
** of this process would drop SQLite's locks on it. Any thread. */
#include <stdbool.h>
#include <string.h>

#include "backup.h"
#include "engine/kv.h"
#include "error.h"
#include "shim.h"

struct kv_env *colfam_backup_env(void) {
  struct kv_env *shim = colfam_shim_env(colfam_shim_copy_vfs());
  return shim ? shim : kv_env_posix();
}

static int refuse_path(const char *path, char **message) {
  if (!*path || strcmp(path, ":memory:") == 0)
    return colfam_error(message, SQLITE_ERROR, "colfam_backup: \"%s\" names no file", path);
  if (strncmp(path, "file:", 5) == 0)
    return colfam_error(
        message, SQLITE_ERROR,
        "colfam_backup: \"%s\" is a URI: name the file by its path (./%s for a file "
        "that is called so)",
        path, path);
  return SQLITE_OK;
}

static int refuse_existing(const char *path, char **message) {
  struct kv_err err = {0};
  bool there = false;
  kv_status status = kv_env_exists(colfam_backup_env(), path, &there, &err);
  if (status != KV_OK)
    return colfam_error(message, colfam_code(status), "colfam_backup: %s", err.text);
  if (!there) return SQLITE_OK;
  return colfam_error(message, SQLITE_ERROR,
                      "colfam_backup: %s is there already: name another file, or remove it", path);
}

/* As SQLite will see it when the copy is opened. */
static int full_path(const char *path, char **full, char **message) {
  sqlite3_vfs *vfs = sqlite3_vfs_find(colfam_shim_copy_vfs());
  if (!vfs) return colfam_error(message, SQLITE_ERROR, "colfam_backup: SQLite has no VFS \"unix\"");
  char *made = sqlite3_malloc64((sqlite3_uint64)vfs->mxPathname + 1);
  if (!made) return SQLITE_NOMEM;
  int rc = vfs->xFullPathname(vfs, path, vfs->mxPathname + 1, made);
  if ((rc & 0xff) == SQLITE_OK) {
    *full = made;
    return SQLITE_OK;
  }
  sqlite3_free(made);
  return colfam_error(message, rc, "colfam_backup: cannot tell the full path of %s", path);
}

static int make_names(struct colfam_backup_names *names, const char *path, char **message) {
  int rc = full_path(path, &names->database, message);
  if (rc != SQLITE_OK) return rc;
  const char *slash = strrchr(names->database, '/');
  int parent = slash > names->database ? (int)(slash - names->database) : 1;
  names->dir = sqlite3_mprintf("%s-colfam", names->database);
  names->partial = sqlite3_mprintf("%s-colfam-partial", names->database);
  names->parent = sqlite3_mprintf("%.*s", parent, names->database);
  return names->dir && names->partial && names->parent ? SQLITE_OK : SQLITE_NOMEM;
}

/* A journal of an older file of this name would be played into the copy. */
static int refuse_all_existing(const struct colfam_backup_names *names, char **message) {
  static const char *const suffixes[] = {"",
                                         "-colfam",
                                         "-journal",
                                         "-wal",
                                         "-colfam-partial",
                                         ("-colfam-partial" KV_NEW_SUFFIX),
                                         "-colfam-partial-journal",
                                         "-colfam-partial-wal"};
  int rc = SQLITE_OK;
  for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes && rc == SQLITE_OK; i++) {
    char *path = sqlite3_mprintf("%s%s", names->database, suffixes[i]);
    rc = path ? refuse_existing(path, message) : SQLITE_NOMEM;
    sqlite3_free(path);
  }
  return rc;
}

int colfam_backup_names_init(struct colfam_backup_names *names, const char *path, char **message) {
  int rc = refuse_path(path, message);
  /* As it was given, too: a link may lead to a file that is not there. */
  if (rc == SQLITE_OK) rc = refuse_existing(path, message);
  if (rc == SQLITE_OK) rc = make_names(names, path, message);
  if (rc == SQLITE_OK) rc = colfam_backup_clear_left(names, message);
  if (rc == SQLITE_OK) rc = refuse_all_existing(names, message);
  return rc;
}

void colfam_backup_names_release(struct colfam_backup_names *names) {
  sqlite3_free(names->database);
  sqlite3_free(names->dir);
  sqlite3_free(names->partial);
  sqlite3_free(names->parent);
  memset(names, 0, sizeof *names);
}
