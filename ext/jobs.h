/* Work on tables that belongs to no transaction: flushes and compactions computed outside any lock from
** an immutable view, finished ones waiting for a commit that publishes them, unfinished ones for somebody
** who goes on. They belong to the process: any thread may take one, and then it is its own until given
** back.
**
** What waits names nothing in the database. A commit takes it (txn.h), checks under SQLite's write lock
** that its inputs are still live, and publishes it or lets it go (engine/README.md, invariants 3 and 4).
** A table, found by uuid, has at most one of each kind waiting; closing the last connection to the file
** frees what is left. Thread rule: any thread; the store's lock, never held while a file or SQLite is
** called. */
#ifndef COLFAM_JOBS_H
#define COLFAM_JOBS_H

#include <stdbool.h>

#include "engine/kv.h"
#include "sqlite_api.h"
#include "store.h"

struct colfam_offer {
  struct colfam_offer *next; /* of a list that its owner keeps */
  uint8_t uuid[16];          /* of the table */
  enum kv_job_kind kind;
  bool finished; /* every step is done: it can be published */
  struct kv_job *job;
};

/* A job over the view, not begun. */
kv_status colfam_offer_new(const uint8_t uuid[16], struct kv_view *view, enum kv_job_kind kind,
                           struct colfam_offer **offer, struct kv_err *err);
/* Frees it with its files, unless they were kept (kv_job_keep_files). NULL is allowed. */
void colfam_offer_free(struct colfam_offer *offer);

/* Takes the offer over. What waited of this table and kind is freed. */
void colfam_jobs_give(struct colfam_store *store, struct colfam_offer *offer);
/* The caller's from now on; NULL when none waits. */
struct colfam_offer *colfam_jobs_take(struct colfam_store *store, const uint8_t uuid[16],
                                      enum kv_job_kind kind);
/* The same of any kind. */
struct colfam_offer *colfam_jobs_take_any(struct colfam_store *store, const uint8_t uuid[16]);
bool colfam_jobs_has(struct colfam_store *store, const uint8_t uuid[16], enum kv_job_kind kind);
/* The first table after `uuid` (NULL: at all), in the order of their bytes, that has something waiting. */
bool colfam_jobs_next(struct colfam_store *store, const uint8_t *after, uint8_t uuid[16]);
/* The table is gone: frees what waits for it. */
void colfam_jobs_discard(struct colfam_store *store, const uint8_t uuid[16]);

#endif
