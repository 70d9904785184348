/* See jobs.h. The store keeps the list; everything here is list work under its lock, and freeing outside of
** it, since a job that is freed unlinks files. */
#include "jobs.h"

#include <string.h>

kv_status colfam_offer_new(const uint8_t uuid[16], struct kv_view *view, enum kv_job_kind kind,
                           struct colfam_offer **offer, struct kv_err *err) {
  *offer = NULL;
  struct colfam_offer *made = sqlite3_malloc64(sizeof *made);
  if (!made) return kv_fail_nomem(err);
  memset(made, 0, sizeof *made);
  memcpy(made->uuid, uuid, sizeof made->uuid);
  made->kind = kind;
  kv_status status = kv_job_new(view, kind, &made->job, err);
  if (status == KV_OK)
    *offer = made;
  else
    sqlite3_free(made);
  return status;
}

void colfam_offer_free(struct colfam_offer *offer) {
  if (!offer) return;
  kv_job_free(offer->job);
  sqlite3_free(offer);
}

/* Under the lock: the link to it, or to the end. */
static struct colfam_offer **find_offer(struct colfam_store *store, const uint8_t uuid[16],
                                        enum kv_job_kind kind) {
  struct colfam_offer **link = colfam_store_offers(store);
  while (*link && ((*link)->kind != kind || memcmp((*link)->uuid, uuid, 16) != 0))
    link = &(*link)->next;
  return link;
}

static struct colfam_offer *unlink_offer(struct colfam_store *store, const uint8_t uuid[16],
                                         enum kv_job_kind kind) {
  struct colfam_offer **link = find_offer(store, uuid, kind);
  struct colfam_offer *found = *link;
  if (found) *link = found->next;
  return found;
}

void colfam_jobs_give(struct colfam_store *store, struct colfam_offer *offer) {
  colfam_store_lock();
  struct colfam_offer *replaced = unlink_offer(store, offer->uuid, offer->kind);
  struct colfam_offer **list = colfam_store_offers(store);
  offer->next = *list;
  *list = offer;
  colfam_store_unlock();
  colfam_offer_free(replaced);
}

struct colfam_offer *colfam_jobs_take(struct colfam_store *store, const uint8_t uuid[16],
                                      enum kv_job_kind kind) {
  colfam_store_lock();
  struct colfam_offer *found = unlink_offer(store, uuid, kind);
  colfam_store_unlock();
  return found;
}

struct colfam_offer *colfam_jobs_take_any(struct colfam_store *store, const uint8_t uuid[16]) {
  static const enum kv_job_kind kinds[] = {KV_JOB_FLUSH, KV_JOB_COMPACT, KV_JOB_MERGE};
  struct colfam_offer *found = NULL;
  for (size_t i = 0; !found && i < sizeof kinds / sizeof *kinds; i++)
    found = colfam_jobs_take(store, uuid, kinds[i]);
  return found;
}

bool colfam_jobs_has(struct colfam_store *store, const uint8_t uuid[16], enum kv_job_kind kind) {
  colfam_store_lock();
  bool has = *find_offer(store, uuid, kind) != NULL;
  colfam_store_unlock();
  return has;
}

bool colfam_jobs_next(struct colfam_store *store, const uint8_t *after, uint8_t uuid[16]) {
  const uint8_t *first = NULL;
  colfam_store_lock();
  for (struct colfam_offer *o = *colfam_store_offers(store); o; o = o->next) {
    bool behind = !after || memcmp(o->uuid, after, 16) > 0;
    if (behind && (!first || memcmp(o->uuid, first, 16) < 0)) first = o->uuid;
  }
  if (first) memmove(uuid, first, 16);
  colfam_store_unlock();
  return first != NULL;
}

void colfam_jobs_discard(struct colfam_store *store, const uint8_t uuid[16]) {
  struct colfam_offer *offer;
  while ((offer = colfam_jobs_take_any(store, uuid))) colfam_offer_free(offer);
}
