/* What the process has of one database file: its environment, its directory of table files, the families
** of its tables and the queue of files to remove. Shared by all connections to that file.
** Thread rule: any thread; one process-wide lock, never held while SQLite or a file is called. */
#ifndef COLFAM_STORE_H
#define COLFAM_STORE_H

#include <stdbool.h>

#include "engine/kv.h"
#include "schema.h"
#include "sqlite_api.h"

struct colfam_store;

/* Refuses with a message what must be refused: files of an unknown VFS, immutable, nolock, and databases in
** memory that are shared by name. Other databases in memory and temporary ones, which keep their files
** there too, may have any VFS. */
int colfam_store_refuse(sqlite3 *db, const char *database, char **message);
/* The store of a schema's database that is not refused, to be closed once for every time it was opened,
** with the *file given here. */
int colfam_store_open(sqlite3 *db, const char *database, struct colfam_store **store,
                      const void **file);
/* Ends the work of the background when the caller's use of the store is the last one: no job names a file
** then. Whether it is. */
bool colfam_store_settle(struct colfam_store *store);
/* The last user's leaving frees the work that waits (jobs.h). A store of a file with removals waiting
** outlives its last user: the next connection goes on. */
void colfam_store_close(struct colfam_store *store, const sqlite3 *db, const void *file);
/* Whether it is still the schema's: another file may have been attached under the name. Without I/O. */
bool colfam_store_is_of(const struct colfam_store *store, sqlite3 *db, const char *database);
/* Whether connections that have it open are of one SQLite shared cache. There only the locks on shadow
** tables keep snapshots apart, so every statement has to read them. */
bool colfam_store_shares_cache(struct colfam_store *store);

struct kv_env *colfam_store_env(struct colfam_store *store);
const char *colfam_store_dir(const struct colfam_store *store);
/* The database file's path, or NULL in memory. */
const char *colfam_store_path(const struct colfam_store *store);

/* The family of a table, made when the process has none; one reference for the caller, given back with
** colfam_store_drop_family. options are set on it; the comparator (NULL: bytewise) is that of the first
** caller, with a reference. */
int colfam_store_family(struct colfam_store *store, const uint8_t uuid[16],
                        const struct kv_options *options, const struct kv_comparator *comparator,
                        struct kv_family **family, char **message);
void colfam_store_drop_family(struct colfam_store *store, struct kv_family *family);

/* In a forked child, whose other threads are gone with whatever locks they had: nothing that the parent made
** is looked at again. Called with the lock held. */
void colfam_store_abandon(void);

/* The process's block cache, borrowed; NULL before the first store was opened. */
struct kv_cache *colfam_store_cache(void);
/* The same, made when there is none yet; NULL when memory is out. */
struct kv_cache *colfam_store_make_cache(void);

/* Files whose rows have left t_cffile and that wait for the proof of invariant 5 (reclaim.h). */
struct colfam_removal {
  struct colfam_removal *next;
  struct kv_family *family; /* a reference */
  uint64_t id;
  bool proved; /* no snapshot of any process can need it; only views of this process may */
  bool left;   /* a commit has succeeded that left it unnamed */
  bool older;  /* and that was before the xSync of some later transaction */
  bool
      doubtful; /* found in the directory or left by a failed commit: somebody may be at work on it */
  bool found;   /* by a sweep, or left by a failed commit */
  bool unnamed;   /* no t_cffile names the file, as the last xSync saw them: no proof without */
  int wal_frames; /* nLog of the first checkpoint call after the drop; -1 not known yet */
};
/* A connection's cached view of a table, among those of the store while it is linked. It is only a cache:
** whoever needs that a file goes may take it away at any time, so its owner asks for it each time. */
struct colfam_cached_view {
  struct colfam_cached_view *next;
  struct kv_view *view; /* atomic; NULL: none */
};
void colfam_store_link_cached(struct colfam_store *store, struct colfam_cached_view *cached);
void colfam_store_unlink_cached(struct colfam_store *store, struct colfam_cached_view *cached);
/* For the owner: the view with a reference for the caller, or NULL / another one, taken over; NULL empties
** it. */
struct kv_view *colfam_cached_view(struct colfam_cached_view *cached);
void colfam_cached_set(struct colfam_cached_view *cached, struct kv_view *view);
/* For a look that is over before the owner does anything else: the cached view itself, or NULL, to be given
** back. */
struct kv_view *colfam_cached_take(struct colfam_cached_view *cached);
void colfam_cached_give(struct colfam_cached_view *cached, struct kv_view *view);
/* Takes all cached views away that name the file. */
void colfam_store_shed(struct colfam_store *store, uint64_t id);
/* Whether a view of any table of this process names the file, or it waits for its removal. */
bool colfam_store_knows_file(struct colfam_store *store, uint64_t id);
/* A sweep of the directory (sweep.h) is due at first, and when wanted. Taking it says whether, and that
** it is being done. */
bool colfam_store_take_sweep(struct colfam_store *store);
void colfam_store_want_sweep(struct colfam_store *store);
/* Takes the whole list away / gives one back (front), so that it is worked on without the lock. */
struct colfam_removal *colfam_store_take_removals(struct colfam_store *store);
void colfam_store_give_removal(struct colfam_store *store, struct colfam_removal *removal);
bool colfam_store_has_removals(struct colfam_store *store);
/* Those queued with the family. */
size_t colfam_store_count_removals(struct colfam_store *store, const struct kv_family *family);

/* Work that waits for a commit, for jobs.c alone: the list, looked at under the lock. */
struct colfam_offer;
void colfam_store_lock(void);
void colfam_store_unlock(void);
struct colfam_offer **colfam_store_offers(struct colfam_store *store);

#endif
