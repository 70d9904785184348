/* colfam_flush('t') and colfam_compact('t'): a flush or compaction of the newest committed state, computed in
** steps outside any lock and left with the process for its next commit that writes a colfam table of the same
** database file (jobs.h). Nothing here writes to the database. The last row's phase says what became of it:
**
**   done      there was nothing to do
**   pending   computed: the next commit publishes it
**   more      in a rollback journal mode a SELECT keeps writers out while it runs, so a call works for
**             CALL_US at most; the job waits, and the next call goes on with it
**
** The state refers to no table object: DDL may come between two steps. Thread rule: the connection's. */
#include <string.h>

#include "engine/kv.h"
#include "error.h"
#include "jobs.h"
#include "store.h"
#include "table.h"
#include "txn.h"
#include "vtab.h"
#include "work.h"

#define CALL_US 250000
#define STEP_BYTES 262144

struct task {
  sqlite3 *db;
  struct colfam_store *store;
  const void *file;           /* to close the store with */
  char *table;                /* its name, for messages */
  struct colfam_offer *offer; /* NULL once it waits for a commit, or when nothing was to be done */
  bool waits;                 /* work that covers this call waits already */
  uint64_t end_us;            /* of this call's work; 0 = without limit */
};

static void task_end(void *state) {
  struct task *task = state;
  colfam_offer_free(task->offer);
  colfam_store_close(task->store, task->db, task->file);
  sqlite3_free(task->table);
  sqlite3_free(task);
}

/* ---- What there is to do */

/* Whether a waiting job has computed all that a job of this kind over the view would. */
static bool covers(const struct colfam_offer *offer, const struct kv_view *view) {
  const struct kv_edit *edit = kv_job_edit(offer->job);
  const struct kv_log_state *log = kv_view_log(view);
  return offer->finished && edit->flushed_seq == log->last_seq &&
         edit->flushed_nonce == log->last_nonce;
}

/* Looks at what waits for the table: finished work that covers this call stays, unfinished work of the
** kind is taken. */
static void look_at_waiting(struct task *task, const uint8_t uuid[16], struct kv_view *view,
                            enum kv_job_kind kind) {
  static const enum kv_job_kind kinds[] = {KV_JOB_FLUSH, KV_JOB_COMPACT};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    struct colfam_offer *offer = colfam_jobs_take(task->store, uuid, kinds[i]);
    if (!offer) continue;
    bool fits = kv_job_fits(offer->job, view);
    bool serves = offer->kind == kind || offer->kind == KV_JOB_COMPACT;
    task->waits = task->waits || (fits && serves && covers(offer, view));
    if (fits && offer->kind == kind && !offer->finished)
      task->offer = offer;
    else if (fits)
      colfam_jobs_give(task->store, offer);
    else
      colfam_offer_free(offer);
  }
}

static int take_job(struct task *task, const struct colfam_anchor *anchor, enum kv_job_kind kind,
                    char **message) {
  const struct colfam_table *table = anchor->vtab->table;
  struct kv_view *view = table->txn ? table->txn->base : anchor->view; /* what is committed */
  look_at_waiting(task, table->catalog.uuid, view, kind);
  if (task->waits || task->offer) return SQLITE_OK;
  struct kv_err err = {0};
  kv_status status = colfam_offer_new(table->catalog.uuid, view, kind, &task->offer, &err);
  if (status != KV_OK) return colfam_error_of(message, task->table, status, &err);
  kv_job_set_step_bytes(task->offer->job, STEP_BYTES);
  return SQLITE_OK;
}

static int set_limit(struct task *task, struct colfam_table *table, char **message) {
  char journal[16];
  int rc = colfam_table_pragma(table, "journal_mode", journal, sizeof journal, message);
  bool limited = colfam_store_path(task->store) && strcmp(journal, "wal") != 0;
  if (rc == SQLITE_OK && limited) task->end_us = kv_env_now_us(kv_env_posix()) + CALL_US;
  return rc;
}

static int refuse_readonly(const struct colfam_table *table, char **message) {
  if (sqlite3_db_readonly(table->conn->db, table->catalog.database) != 1 && table->writable)
    return SQLITE_OK;
  return colfam_error(message, SQLITE_READONLY,
                      "table %s: cannot be written to, so what is computed could not be published",
                      table->catalog.label);
}

static int fill_task(struct task *task, const struct colfam_anchor *anchor, enum kv_job_kind kind,
                     char **message) {
  struct colfam_table *table = anchor->vtab->table;
  int rc = refuse_readonly(table, message);
  if (rc != SQLITE_OK) return rc;
  task->db = table->conn->db;
  task->table = sqlite3_mprintf("%s", table->catalog.label);
  if (!task->table) return SQLITE_NOMEM;
  rc = colfam_store_open(task->db, table->catalog.database, &task->store, &task->file);
  if (rc == SQLITE_OK) rc = set_limit(task, table, message);
  return rc == SQLITE_OK ? take_job(task, anchor, kind, message) : rc;
}

static int task_begin(struct colfam_conn *conn, const char *name, enum kv_job_kind kind,
                      void **state, char **message) {
  struct colfam_anchor anchor;
  int rc = colfam_anchor_begin(conn, name, &anchor, message);
  if (rc != SQLITE_OK) return rc;
  struct task *task = sqlite3_malloc64(sizeof *task);
  if (task) memset(task, 0, sizeof *task);
  rc = task ? fill_task(task, &anchor, kind, message) : SQLITE_NOMEM;
  colfam_anchor_end(&anchor);
  if (rc == SQLITE_OK) *state = task;
  if (rc != SQLITE_OK && task) task_end(task);
  return rc;
}

static int flush_begin(struct colfam_conn *conn, const char *name, const char *option, void **state,
                       char **message) {
  (void)option;
  return task_begin(conn, name, KV_JOB_FLUSH, state, message);
}

static int compact_begin(struct colfam_conn *conn, const char *name, const char *option,
                         void **state, char **message) {
  (void)option;
  return task_begin(conn, name, KV_JOB_COMPACT, state, message);
}

/* ---- Steps */

static bool is_idle(const struct kv_job *job) {
  const struct kv_edit *edit = kv_job_edit(job);
  uint64_t done, total;
  kv_job_progress(job, &done, &total);
  return !edit->added_count && !edit->removed_count && !total;
}

static void finish(struct task *task, struct colfam_progress *progress, const char *phase) {
  progress->phase = phase;
  progress->finished = true;
  if (!task->offer) return;
  colfam_jobs_give(task->store, task->offer);
  task->offer = NULL;
}

static int task_step(void *state, struct colfam_progress *progress, char **message) {
  struct task *task = state;
  if (task->waits) {
    finish(task, progress, "pending");
    return SQLITE_OK;
  }
  struct kv_job *job = task->offer->job;
  struct kv_err err = {0};
  kv_status status = kv_job_step(job, &task->offer->finished, &err);
  if (status != KV_OK) return colfam_error_of(message, task->table, status, &err);
  kv_job_progress(job, &progress->done, &progress->total);
  progress->phase = kv_job_phase(job);
  if (task->offer->finished && is_idle(job)) {
    progress->finished = true;
  } else if (task->offer->finished) {
    finish(task, progress, "pending");
  } else if (task->end_us && kv_env_now_us(kv_env_posix()) >= task->end_us) {
    finish(task, progress, "more");
  }
  return SQLITE_OK;
}

const struct colfam_work colfam_flush_work = {
    .name = "colfam_flush",
    .argument = "table_name",
    .wanted = "the name of a table: ('t')",
    .direct_only = true,
    .begin = flush_begin,
    .step = task_step,
    .end = task_end,
};

const struct colfam_work colfam_compact_work = {
    .name = "colfam_compact",
    .argument = "table_name",
    .wanted = "the name of a table: ('t')",
    .direct_only = true,
    .begin = compact_begin,
    .step = task_step,
    .end = task_end,
};
