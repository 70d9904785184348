/* The registry of stores. A store is found by the canonical path that SQLite gives for the database file;
** in-memory databases by the address of SQLite's own file object, which connections of one shared cache
** have in common. All lists hang below one static SQLite mutex; what is heavier than list work (engine
** calls that touch files, SQL) happens outside of it.
**
** Families live as long as somebody references them: connections keep theirs until they close, so that
** the vtab objects that DDL makes anew find memtables and open files again. */
#include "store.h"

#include <string.h>

#include "error.h"

#define CACHE_BYTES_DEFAULT (64u << 20)

struct family_entry {
  struct family_entry *next;
  uint8_t uuid[16];
  struct kv_family *family;
  int users;
};

struct colfam_store {
  struct colfam_store *next;
  int refs;
  char *path;        /* NULL in memory */
  const void *token; /* in memory: SQLite's file object */
  char *dir;
  struct kv_env *env;
  struct family_entry *families;
  struct colfam_removal *removals;
};

static struct colfam_store *all_stores;
static struct kv_cache *process_cache;

static sqlite3_mutex *registry_mutex(void) {
  return sqlite3_mutex_alloc(SQLITE_MUTEX_STATIC_APP1);
}
static void registry_lock(void) {
  sqlite3_mutex_enter(registry_mutex());
}
static void registry_unlock(void) {
  sqlite3_mutex_leave(registry_mutex());
}

/* Whether table files may lie beside this database; the message says why not. */
static int check_place(sqlite3 *db, const char *database, const char *path, char **message) {
  static const char *const accepted[] = {"unix", "unix-excl", "unix-dotfile"};
  char *vfs = NULL;
  int rc = sqlite3_file_control(db, database, SQLITE_FCNTL_VFSNAME, &vfs);
  /* In memory, and in a temporary database that has not spilled yet, no file is open. */
  if (rc == SQLITE_NOTFOUND && !path) return SQLITE_OK;
  if (rc == SQLITE_OK && !vfs) return SQLITE_NOMEM;
  if (rc != SQLITE_OK) {
    sqlite3_free(vfs);
    return colfam_error(message, SQLITE_ERROR, "cannot tell the VFS of database %s", database);
  }
  bool known = false;
  for (size_t i = 0; i < sizeof accepted / sizeof *accepted; i++)
    known = known || strcmp(vfs, accepted[i]) == 0;
  rc = SQLITE_OK;
  if (!known)
    rc = colfam_error(
        message, SQLITE_ERROR,
        "colfam keeps files beside the database and supports the VFSes unix, unix-excl "
        "and unix-dotfile, not \"%s\"",
        vfs);
  else if (path &&
           (sqlite3_uri_boolean(path, "immutable", 0) || sqlite3_uri_boolean(path, "nolock", 0)))
    rc = colfam_error(message, SQLITE_ERROR,
                      "colfam does not support databases opened with immutable or nolock");
  sqlite3_free(vfs);
  return rc;
}

static void store_free(struct colfam_store *store) {
  while (store->removals) {
    struct colfam_removal *removal = store->removals;
    store->removals = removal->next;
    kv_family_unref(removal->family);
    sqlite3_free(removal);
  }
  kv_env_free(store->env);
  sqlite3_free(store->path);
  sqlite3_free(store->dir);
  sqlite3_free(store);
}

static struct colfam_store *store_new(const char *path, const void *token) {
  struct colfam_store *store = sqlite3_malloc64(sizeof *store);
  if (!store) return NULL;
  memset(store, 0, sizeof *store);
  store->refs = 1;
  store->token = token;
  store->env = kv_env_posix();
  if (path) {
    store->path = sqlite3_mprintf("%s", path);
    store->dir = sqlite3_mprintf("%s-colfam", path);
  } else {
    if (kv_env_memory_new(&store->env, NULL) != KV_OK) store->env = NULL;
    store->dir = sqlite3_mprintf("/memory-colfam");
  }
  if (store->env && store->dir && (store->path || !path)) return store;
  store_free(store);
  return NULL;
}

/* Under the lock: the store found, or `fresh` (may be NULL) put into the list. */
static struct colfam_store *find_or_add(const char *path, const void *token,
                                        struct colfam_store *fresh) {
  for (struct colfam_store *store = all_stores; store; store = store->next) {
    bool same = path ? store->path && strcmp(store->path, path) == 0 : store->token == token;
    if (!same) continue;
    store->refs++;
    return store;
  }
  if (!fresh) return NULL;
  fresh->next = all_stores;
  all_stores = fresh;
  return fresh;
}

static int make_cache(void) {
  registry_lock();
  kv_status status = KV_OK;
  if (!process_cache) status = kv_cache_new(CACHE_BYTES_DEFAULT, &process_cache, NULL);
  registry_unlock();
  return status == KV_OK ? SQLITE_OK : SQLITE_NOMEM;
}

int colfam_store_open(sqlite3 *db, const char *database, struct colfam_store **store,
                      char **message) {
  const char *path = sqlite3_db_filename(db, database);
  void *token = NULL;
  if (path && !path[0]) path = NULL;
  int rc = check_place(db, database, path, message);
  if (rc != SQLITE_OK) return rc;
  if (!path) {
    rc = sqlite3_file_control(db, database, SQLITE_FCNTL_FILE_POINTER, &token);
    if (rc != SQLITE_OK || !token)
      return colfam_error(message, SQLITE_ERROR, "cannot tell the file of database %s", database);
  }
  if (make_cache() != SQLITE_OK) return SQLITE_NOMEM;
  registry_lock();
  *store = find_or_add(path, token, NULL);
  registry_unlock();
  if (*store) return SQLITE_OK;
  struct colfam_store *fresh = store_new(path, token);
  if (!fresh) return SQLITE_NOMEM;
  registry_lock();
  *store = find_or_add(path, token, fresh);
  registry_unlock();
  if (*store != fresh) store_free(fresh);
  return SQLITE_OK;
}

struct colfam_store *colfam_store_ref(struct colfam_store *store) {
  registry_lock();
  store->refs++;
  registry_unlock();
  return store;
}

void colfam_store_unref(struct colfam_store *store) {
  if (!store) return;
  registry_lock();
  bool last = --store->refs == 0 && !(store->path && store->removals);
  if (last) {
    struct colfam_store **link = &all_stores;
    while (*link != store) link = &(*link)->next;
    *link = store->next;
  }
  registry_unlock();
  if (last) store_free(store);
}

struct kv_env *colfam_store_env(struct colfam_store *store) {
  return store->env;
}
const char *colfam_store_dir(const struct colfam_store *store) {
  return store->dir;
}
const char *colfam_store_path(const struct colfam_store *store) {
  return store->path;
}

struct kv_cache *colfam_store_cache(void) {
  registry_lock();
  struct kv_cache *cache = process_cache;
  registry_unlock();
  return cache;
}

static struct family_entry *find_family(struct colfam_store *store, const uint8_t uuid[16]) {
  for (struct family_entry *entry = store->families; entry; entry = entry->next)
    if (memcmp(entry->uuid, uuid, 16) == 0) return entry;
  return NULL;
}

static kv_status new_family(struct colfam_store *store, const uint8_t uuid[16],
                            const struct kv_options *options, struct kv_family **family,
                            struct kv_err *err) {
  struct kv_family_config config = {.env = store->env,
                                    .dir = store->dir,
                                    .like_path = store->path,
                                    .options = *options,
                                    .cache = process_cache};
  memcpy(config.uuid, uuid, 16);
  return kv_family_new(&config, family, err);
}

/* Under the lock: an entry with no user yet. */
static struct family_entry *add_family(struct colfam_store *store, const uint8_t uuid[16],
                                       const struct kv_options *options, kv_status *status,
                                       struct kv_err *err) {
  struct family_entry *entry = sqlite3_malloc64(sizeof *entry);
  *status = entry ? KV_OK : kv_fail_nomem(err);
  if (!entry) return NULL;
  memset(entry, 0, sizeof *entry);
  memcpy(entry->uuid, uuid, 16);
  *status = new_family(store, uuid, options, &entry->family, err);
  if (*status != KV_OK) {
    sqlite3_free(entry);
    return NULL;
  }
  entry->next = store->families;
  store->families = entry;
  return entry;
}

int colfam_store_family(struct colfam_store *store, const uint8_t uuid[16],
                        const struct kv_options *options, struct kv_family **family,
                        char **message) {
  struct kv_err err = {0};
  kv_status status = KV_OK;
  registry_lock();
  struct family_entry *entry = find_family(store, uuid);
  if (!entry) entry = add_family(store, uuid, options, &status, &err);
  if (entry) {
    entry->users++;
    *family = kv_family_ref(entry->family);
  }
  registry_unlock();
  if (!entry) return colfam_error_of(message, NULL, status, &err);
  kv_family_set_options(*family, options);
  return SQLITE_OK;
}

void colfam_store_drop_family(struct colfam_store *store, struct kv_family *family) {
  struct kv_family *registered = NULL;
  registry_lock();
  for (struct family_entry **link = &store->families; *link; link = &(*link)->next) {
    struct family_entry *entry = *link;
    if (entry->family != family) continue;
    if (--entry->users == 0) {
      registered = entry->family;
      *link = entry->next;
      sqlite3_free(entry);
    }
    break;
  }
  registry_unlock();
  kv_family_unref(family);
  if (registered) kv_family_unref(registered);
}

struct colfam_removal *colfam_store_take_removals(struct colfam_store *store) {
  registry_lock();
  struct colfam_removal *list = store->removals;
  store->removals = NULL;
  registry_unlock();
  return list;
}

void colfam_store_give_removal(struct colfam_store *store, struct colfam_removal *removal) {
  registry_lock();
  removal->next = store->removals;
  store->removals = removal;
  registry_unlock();
}

bool colfam_store_has_removals(struct colfam_store *store) {
  registry_lock();
  bool some = store->removals != NULL;
  registry_unlock();
  return some;
}
