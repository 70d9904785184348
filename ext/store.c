/* The registry of stores. A store is found by the canonical path that SQLite gives for the database file;
** in-memory databases by the address of SQLite's own file object, which connections of one shared cache
** have in common. All lists hang below the process's one static lock; what is heavier than list work (engine
** calls that touch files, SQL) happens outside of it.
**
** Families live as long as somebody references them: connections keep theirs until they close, so that
** the vtab objects that DDL makes anew find memtables and open files again. */
#include "store.h"

#include <string.h>

#include "error.h"
#include "jobs.h"
#include "row.h"
#include "shim.h"
#include "worker.h"

#define CACHE_BYTES_DEFAULT (64u << 20)

struct family_entry {
  struct family_entry *next;
  uint8_t uuid[16];
  struct kv_family *family;
  int users;
};

/* A connection and SQLite's file object below one of its schemas, which those of one shared cache have in
** common. */
struct user {
  struct user *next;
  const sqlite3 *db;
  const void *file;
  int refs;
};

struct colfam_store {
  struct colfam_store *next;
  struct user *users;
  bool shared_cache; /* atomic: two of the users have one file object */
  char *path;        /* NULL in memory */
  const void *token; /* in memory: the file object */
  char *dir;
  bool swept; /* no sweep is due */
  struct kv_env *env;
  struct family_entry *families;
  struct colfam_removal *removals;
  struct colfam_offer *offers;
  struct colfam_cached_view *cached;
};

static struct colfam_store *all_stores;
static struct kv_cache *process_cache;

void colfam_store_lock(void) {
  kv_mutex_lock(kv_mutex_process());
}
void colfam_store_unlock(void) {
  kv_mutex_unlock(kv_mutex_process());
}

/* Where a database is. */
struct place {
  const char *path; /* of a file on disk, or NULL */
  const void *file; /* SQLite's file object */
  const char *vfs;  /* that SQLite opened it with */
};

static int refuse_vfs(const char *name, char **message) {
  return colfam_error(
      message, SQLITE_ERROR,
      "colfam keeps files beside the database and supports the VFSes unix, unix-excl "
      "and unix-dotfile, not \"%s\"",
      name);
}

static bool is_accepted(const char *vfs) {
  static const char *const accepted[] = {"unix", "unix-excl", "unix-dotfile"};
  bool known = colfam_shim_env(vfs) != NULL;
  for (size_t i = 0; i < sizeof accepted / sizeof *accepted; i++)
    known = known || strcmp(vfs, accepted[i]) == 0;
  return known;
}

/* Whether table files may lie beside this file; the message says why not. A VFS that passes calls on need
** not say its name when asked for the stack's, so the one that SQLite opened the file with counts too. */
static int check_file(sqlite3 *db, const char *database, const struct place *place,
                      char **message) {
  char *stack = NULL;
  int rc = sqlite3_file_control(db, database, SQLITE_FCNTL_VFSNAME, &stack);
  if (rc == SQLITE_OK && !stack) return SQLITE_NOMEM;
  if (rc != SQLITE_OK)
    rc = colfam_error(message, SQLITE_ERROR, "cannot tell the VFS of database %s", database);
  else if (!is_accepted(place->vfs) || !is_accepted(stack))
    rc = refuse_vfs(is_accepted(place->vfs) ? stack : place->vfs, message);
  else if (sqlite3_uri_boolean(place->path, "immutable", 0) ||
           sqlite3_uri_boolean(place->path, "nolock", 0))
    rc = colfam_error(message, SQLITE_ERROR,
                      "colfam does not support databases opened with immutable or nolock");
  sqlite3_free(stack);
  return rc;
}

/* A database of the VFS memdb is shared by name, or private, as deserialized ones are. SQLite hides the
** name; but the content of a private one can be had without a copy, or it is empty. */
static int refuse_shared_memory(sqlite3 *db, const char *database, char **message) {
  sqlite3_int64 size;
  if (sqlite3_serialize(db, database, &size, SQLITE_SERIALIZE_NOCOPY) || size == 0)
    return SQLITE_OK;
  return colfam_error(
      message, SQLITE_ERROR,
      "colfam keeps the files of a database in memory with its connection, and others "
      "share this one by its name in the VFS \"memdb\": use :memory: or a file");
}

/* Without I/O. Temporary databases and those in memory have no name, but for the VFS memdb in older
** versions of SQLite. */
static int find_place(sqlite3 *db, const char *database, struct place *place) {
  void *file = NULL;
  sqlite3_vfs *vfs = NULL;
  int rc = sqlite3_file_control(db, database, SQLITE_FCNTL_FILE_POINTER, &file);
  if (rc == SQLITE_OK) rc = sqlite3_file_control(db, database, SQLITE_FCNTL_VFS_POINTER, &vfs);
  if (rc != SQLITE_OK || !file || !vfs) return SQLITE_ERROR;
  const char *name = sqlite3_db_filename(db, database);
  bool on_disk = name && name[0] && strcmp(vfs->zName, "memdb") != 0;
  *place = (struct place){on_disk ? name : NULL, file, vfs->zName};
  return SQLITE_OK;
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

static struct colfam_store *store_new(const struct place *place) {
  struct colfam_store *store = sqlite3_malloc64(sizeof *store);
  if (!store) return NULL;
  memset(store, 0, sizeof *store);
  struct kv_env *shim = colfam_shim_env(place->vfs);
  store->env = shim ? shim : kv_env_posix();
  if (place->path) {
    store->path = sqlite3_mprintf("%s", place->path);
    store->dir = sqlite3_mprintf("%s-colfam", place->path);
  } else {
    if (kv_env_memory_new(&store->env, NULL) != KV_OK) store->env = NULL;
    store->token = place->file;
    store->dir = sqlite3_mprintf("/memory-colfam");
  }
  if (store->env && store->dir && (store->path || !place->path)) return store;
  store_free(store);
  return NULL;
}

/* Under the lock, as all on users. */
static void note_sharing(struct colfam_store *store) {
  bool shared = false;
  for (struct user *a = store->users; a; a = a->next)
    for (struct user *b = a->next; b; b = b->next) shared = shared || a->file == b->file;
  __atomic_store_n(&store->shared_cache, shared, __ATOMIC_RELAXED);
}

static bool is_user(const struct user *user, const sqlite3 *db, const void *file) {
  return user->db == db && user->file == file;
}

/* Counts `user` in; one that was counted before stays, and *user becomes NULL. */
static void add_user(struct colfam_store *store, struct user **user) {
  struct user *known = store->users;
  while (known && !is_user(known, (*user)->db, (*user)->file)) known = known->next;
  if (!known) {
    (*user)->next = store->users;
    known = store->users = *user;
    *user = NULL;
    note_sharing(store);
  }
  known->refs++;
}

static void remove_user(struct colfam_store *store, const sqlite3 *db, const void *file) {
  struct user **link = &store->users;
  while (!is_user(*link, db, file)) link = &(*link)->next;
  struct user *user = *link;
  if (--user->refs) return;
  *link = user->next;
  sqlite3_free(user);
  note_sharing(store);
}

static bool is_at(const struct colfam_store *store, const struct place *place) {
  if (place->path) return store->path && strcmp(store->path, place->path) == 0;
  return store->token == place->file;
}

/* Under the lock: the store of the place, or NULL. */
static struct colfam_store *find_store(const struct place *place) {
  struct colfam_store *store = all_stores;
  while (store && !is_at(store, place)) store = store->next;
  return store;
}

struct kv_cache *colfam_store_make_cache(void) {
  colfam_store_lock();
  kv_status status = KV_OK;
  if (!process_cache) status = kv_cache_new(CACHE_BYTES_DEFAULT, &process_cache, NULL);
  struct kv_cache *cache = status == KV_OK ? process_cache : NULL;
  colfam_store_unlock();
  return cache;
}

/* Takes *user over, and *fresh when the process has no such store yet (NULL then: false). */
static bool join_store(const struct place *place, struct user **user, struct colfam_store **fresh,
                       struct colfam_store **out) {
  colfam_store_lock();
  struct colfam_store *store = find_store(place);
  if (!store && *fresh) {
    store = *fresh;
    *fresh = NULL;
    store->next = all_stores;
    all_stores = store;
  }
  if (store) add_user(store, user);
  colfam_store_unlock();
  *out = store;
  return store != NULL;
}

static int join_or_make(const struct place *place, struct user *user, struct colfam_store **store) {
  struct colfam_store *fresh = NULL;
  if (!join_store(place, &user, &fresh, store)) {
    fresh = store_new(place);
    if (fresh) join_store(place, &user, &fresh, store);
    if (fresh) store_free(fresh);
  }
  sqlite3_free(user);
  return *store ? SQLITE_OK : SQLITE_NOMEM;
}

int colfam_store_refuse(sqlite3 *db, const char *database, char **message) {
  struct place place;
  if (find_place(db, database, &place) != SQLITE_OK)
    return colfam_error(message, SQLITE_ERROR, "cannot tell the file of database %s", database);
  if (place.path) return check_file(db, database, &place, message);
  bool memdb = strcmp(place.vfs, "memdb") == 0;
  return memdb ? refuse_shared_memory(db, database, message) : SQLITE_OK;
}

int colfam_store_open(sqlite3 *db, const char *database, struct colfam_store **store,
                      const void **file) {
  struct place place;
  int rc = find_place(db, database, &place);
  if (rc != SQLITE_OK) return rc;
  struct user *user = sqlite3_malloc64(sizeof *user);
  if (!user) return SQLITE_NOMEM;
  *user = (struct user){NULL, db, place.file, 0};
  *file = place.file;
  rc = colfam_store_make_cache() ? SQLITE_OK : SQLITE_NOMEM;
  if (rc == SQLITE_OK) return join_or_make(&place, user, store);
  sqlite3_free(user);
  return rc;
}

bool colfam_store_is_of(const struct colfam_store *store, sqlite3 *db, const char *database) {
  struct place place;
  return find_place(db, database, &place) == SQLITE_OK && is_at(store, &place);
}

static void free_offers(struct colfam_offer *list) {
  while (list) {
    struct colfam_offer *offer = list;
    list = offer->next;
    colfam_offer_free(offer);
  }
}

bool colfam_store_settle(struct colfam_store *store) {
  colfam_store_lock();
  bool last = store->users && !store->users->next && store->users->refs == 1;
  struct colfam_offer *offers = last ? store->offers : NULL;
  if (last) store->offers = NULL;
  colfam_store_unlock();
  free_offers(offers);
  if (last) colfam_worker_forget(store);
  return last;
}

void colfam_store_close(struct colfam_store *store, const sqlite3 *db, const void *file) {
  if (!store) return;
  colfam_store_lock();
  remove_user(store, db, file);
  bool unused = !store->users;
  struct colfam_offer *offers = unused ? store->offers : NULL;
  if (offers) store->offers = NULL;
  bool last = unused && !(store->path && store->removals);
  if (last) {
    struct colfam_store **link = &all_stores;
    while (*link != store) link = &(*link)->next;
    *link = store->next;
  }
  colfam_store_unlock();
  free_offers(offers);
  if (unused) colfam_worker_forget(store);
  if (last) store_free(store);
}

bool colfam_store_shares_cache(struct colfam_store *store) {
  return __atomic_load_n(&store->shared_cache, __ATOMIC_RELAXED);
}

struct colfam_offer **colfam_store_offers(struct colfam_store *store) {
  return &store->offers;
}

void colfam_store_abandon(void) {
  all_stores = NULL;
  process_cache = NULL;
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
  colfam_store_lock();
  struct kv_cache *cache = process_cache;
  colfam_store_unlock();
  return cache;
}

static struct family_entry *find_family(struct colfam_store *store, const uint8_t uuid[16]) {
  for (struct family_entry *entry = store->families; entry; entry = entry->next)
    if (memcmp(entry->uuid, uuid, 16) == 0) return entry;
  return NULL;
}

static kv_status new_family(struct colfam_store *store, const uint8_t uuid[16],
                            const struct kv_options *options,
                            const struct kv_comparator *comparator, struct kv_family **family,
                            struct kv_err *err) {
  struct kv_family_config config = {.env = store->env,
                                    .dir = store->dir,
                                    .like_path = store->path,
                                    .options = *options,
                                    .cache = process_cache,
                                    .head = colfam_row_head,
                                    .comparator = comparator};
  memcpy(config.uuid, uuid, 16);
  return kv_family_new(&config, family, err);
}

/* Under the lock: an entry with no user yet. */
static struct family_entry *add_family(struct colfam_store *store, const uint8_t uuid[16],
                                       const struct kv_options *options,
                                       const struct kv_comparator *comparator, kv_status *status,
                                       struct kv_err *err) {
  struct family_entry *entry = sqlite3_malloc64(sizeof *entry);
  *status = entry ? KV_OK : kv_fail_nomem(err);
  if (!entry) return NULL;
  memset(entry, 0, sizeof *entry);
  memcpy(entry->uuid, uuid, 16);
  *status = new_family(store, uuid, options, comparator, &entry->family, err);
  if (*status != KV_OK) {
    sqlite3_free(entry);
    return NULL;
  }
  entry->next = store->families;
  store->families = entry;
  return entry;
}

int colfam_store_family(struct colfam_store *store, const uint8_t uuid[16],
                        const struct kv_options *options, const struct kv_comparator *comparator,
                        struct kv_family **family, char **message) {
  struct kv_err err = {0};
  kv_status status = KV_OK;
  colfam_store_lock();
  struct family_entry *entry = find_family(store, uuid);
  if (!entry) entry = add_family(store, uuid, options, comparator, &status, &err);
  if (entry) {
    entry->users++;
    *family = kv_family_ref(entry->family);
  }
  colfam_store_unlock();
  if (!entry) return colfam_error_of(message, NULL, status, &err);
  kv_family_set_options(*family, options);
  return SQLITE_OK;
}

void colfam_store_drop_family(struct colfam_store *store, struct kv_family *family) {
  struct kv_family *registered = NULL;
  colfam_store_lock();
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
  colfam_store_unlock();
  kv_family_unref(family);
  if (registered) kv_family_unref(registered);
}

/* ---- Cached views. A slot is emptied by an exchange: whoever gets the view has its reference. Its owner
** puts it back; so does a visitor, unless the owner has put another one there meanwhile. */

void colfam_store_link_cached(struct colfam_store *store, struct colfam_cached_view *cached) {
  colfam_store_lock();
  cached->next = store->cached;
  store->cached = cached;
  colfam_store_unlock();
}

void colfam_store_unlink_cached(struct colfam_store *store, struct colfam_cached_view *cached) {
  colfam_store_lock();
  struct colfam_cached_view **link = &store->cached;
  while (*link != cached) link = &(*link)->next;
  *link = cached->next;
  colfam_store_unlock();
  colfam_cached_set(cached, NULL);
}

void colfam_cached_set(struct colfam_cached_view *cached, struct kv_view *view) {
  kv_view_unref(__atomic_exchange_n(&cached->view, view, __ATOMIC_ACQ_REL));
}

struct kv_view *colfam_cached_take(struct colfam_cached_view *cached) {
  return __atomic_exchange_n(&cached->view, NULL, __ATOMIC_ACQ_REL);
}

struct kv_view *colfam_cached_view(struct colfam_cached_view *cached) {
  struct kv_view *view = colfam_cached_take(cached);
  if (view) colfam_cached_set(cached, kv_view_ref(view));
  return view;
}

static bool put_back(struct colfam_cached_view *cached, struct kv_view *view) {
  struct kv_view *none = NULL;
  return __atomic_compare_exchange_n(&cached->view, &none, view, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_RELAXED);
}

void colfam_cached_give(struct colfam_cached_view *cached, struct kv_view *view) {
  if (!put_back(cached, view)) kv_view_unref(view);
}

/* One that names the file, or has lost its place; NULL when there is none. */
static struct kv_view *take_naming(struct colfam_store *store, uint64_t id) {
  struct kv_view *taken = NULL;
  colfam_store_lock();
  for (struct colfam_cached_view *it = store->cached; it && !taken; it = it->next) {
    struct kv_view *view = __atomic_exchange_n(&it->view, NULL, __ATOMIC_ACQ_REL);
    if (view && (kv_view_names_file(view, id) || !put_back(it, view))) taken = view;
  }
  colfam_store_unlock();
  return taken;
}

void colfam_store_shed(struct colfam_store *store, uint64_t id) {
  struct kv_view *view;
  while ((view = take_naming(store, id))) kv_view_unref(view);
}

bool colfam_store_knows_file(struct colfam_store *store, uint64_t id) {
  bool known = false;
  colfam_store_lock();
  for (struct family_entry *entry = store->families; entry && !known; entry = entry->next)
    known = kv_family_names_file(entry->family, id);
  for (struct colfam_removal *r = store->removals; r && !known; r = r->next) known = r->id == id;
  colfam_store_unlock();
  return known;
}

bool colfam_store_take_sweep(struct colfam_store *store) {
  colfam_store_lock();
  bool due = !store->swept;
  store->swept = true;
  colfam_store_unlock();
  return due;
}

void colfam_store_want_sweep(struct colfam_store *store) {
  colfam_store_lock();
  store->swept = false;
  colfam_store_unlock();
}

struct colfam_removal *colfam_store_take_removals(struct colfam_store *store) {
  colfam_store_lock();
  struct colfam_removal *list = store->removals;
  store->removals = NULL;
  colfam_store_unlock();
  return list;
}

void colfam_store_give_removal(struct colfam_store *store, struct colfam_removal *removal) {
  colfam_store_lock();
  removal->next = store->removals;
  store->removals = removal;
  colfam_store_unlock();
}

bool colfam_store_has_removals(struct colfam_store *store) {
  colfam_store_lock();
  bool some = store->removals != NULL;
  colfam_store_unlock();
  return some;
}

size_t colfam_store_count_removals(struct colfam_store *store, const struct kv_family *family) {
  size_t count = 0;
  colfam_store_lock();
  for (struct colfam_removal *r = store->removals; r; r = r->next) count += r->family == family;
  colfam_store_unlock();
  return count;
}
