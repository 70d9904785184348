/* See txn_work.h. */
#include "txn_work.h"

#include <string.h>

#include "error.h"
#include "killpoint.h"
#include "reclaim.h"
#include "sweep.h"
#include "worker.h"

/* Runs at which a commit merges itself: with a thread that does it otherwise, and without. */
#define RUNS_HARD_MAX 32
#define RUNS_HARD_MAX_ALONE 20
/* Merges that one commit does for that, at most. */
#define RELIEF_MERGES_MAX 8
/* Without a thread: what a commit merges for each byte that it writes, in steps of so many bytes. */
#define MERGE_SHARE 16
#define MERGE_STEP_BYTES (64 << 10)
/* Log and batch of a table, in budgets, that flushes may wait for when too many files are being made. */
#define CROWDED_BUDGETS 8

/* Bytes of a log row beside its batch, at most. */
#define LOG_ROW_OVERHEAD 64
/* SQLite's default size */
#define PAGE_BYTES 4096
/* Of twice the log budget, by which the database file may grow, this part of one is for other shadow tables.
** */
#define MANIFEST_SHARE 8

int colfam_work_error(struct colfam_txn *txn, kv_status status, const struct kv_err *err,
                      char **message) {
  return colfam_error_of(message, txn->table->catalog.label, status, err);
}

/* ---- Jobs
**
** A job's output is published by xSync and may have to give way before the commit succeeds: to a compaction
** after a flush, or because it took the batch in and the batch has changed since a COMMIT that failed. The
** jobs of a transaction are a list, the newest is the one that counts; the older ones are kept, since their
** rows may stand in t_cffile until the end. */

/* No commit has named it. */
static void queue_file(void *context, uint64_t id) {
  struct colfam_table *table = context;
  colfam_reclaim_unnamed(table->store, table->family, id);
}

void colfam_work_end_job(struct colfam_txn *txn, struct kv_job *job) {
  kv_job_end(job, queue_file, txn->table);
}

static void free_part(struct colfam_txn *txn, struct colfam_part *part, bool give_back) {
  if (part->offer && give_back)
    colfam_jobs_give(txn->table->store, part->offer);
  else if (part->offer)
    colfam_offer_free(part->offer);
  else
    colfam_work_end_job(txn, part->job);
  sqlite3_free(part);
}

static void free_job(struct colfam_txn *txn, struct colfam_job *job, bool give_back) {
  while (job->parts) {
    struct colfam_part *part = job->parts;
    job->parts = part->older;
    free_part(txn, part, give_back);
  }
  kv_edit_free(job->joined_edit);
  sqlite3_free(job);
}

void colfam_work_free(struct colfam_txn *txn, bool give_back) {
  while (txn->jobs) {
    struct colfam_job *job = txn->jobs;
    txn->jobs = job->older;
    free_job(txn, job, give_back);
  }
}

void colfam_work_free_stale(struct colfam_txn *txn) {
  while (txn->stale) {
    struct colfam_offer *offer = txn->stale;
    txn->stale = offer->next;
    colfam_offer_free(offer);
  }
}

const struct kv_edit *colfam_work_edit(const struct colfam_txn *txn) {
  return txn->jobs ? txn->jobs->edit : NULL;
}

void colfam_work_keep(struct colfam_txn *txn) {
  const struct kv_edit *edit = colfam_work_edit(txn);
  for (struct colfam_part *part = txn->jobs->parts; part; part = part->older)
    kv_job_keep_added(part->job, edit);
  colfam_spill_keep(txn, edit);
}

void colfam_work_doubt(struct colfam_txn *txn, void (*fn)(struct colfam_txn *txn, uint64_t id)) {
  for (struct colfam_job *job = txn->jobs; job; job = job->older)
    for (struct colfam_part *part = job->parts; part; part = part->older) {
      const struct kv_edit *edit = kv_job_edit(part->job);
      kv_job_keep_files(part->job);
      for (size_t i = 0; i < edit->added_count; i++) fn(txn, edit->added[i].id);
    }
}

bool colfam_work_takes_batch(const struct colfam_txn *txn) {
  return txn->jobs && txn->jobs->takes_batch && txn->jobs->version == colfam_txn_version(txn);
}

uint64_t colfam_work_nonce(struct colfam_txn *txn) {
  while (!txn->row.nonce) sqlite3_randomness(sizeof txn->row.nonce, &txn->row.nonce);
  return txn->row.nonce;
}

/* Nonce and generation once; the row count as it is now; seq that of the newest private run, if there is
** one. */
void colfam_work_number_row(struct colfam_txn *txn) {
  int64_t rows = kv_view_rows(txn->view);
  bool tracked = txn->table->options.track_rows && rows >= 0;
  txn->row.rows = tracked ? rows + kv_batch_rows_delta(txn->batch) : -1;
  txn->row.seq = kv_view_log(txn->view)->last_seq + !colfam_spill_has(txn);
  txn->row.nonce = colfam_work_nonce(txn);
  if (txn->row.gen) return;
  txn->row.gen = kv_view_gen(txn->base);
  if (txn->row.gen == 0 || kv_view_gen_bytes(txn->base) >= txn->table->options.kv.memtable_bytes)
    txn->row.gen++;
}

/* What this commit should do about the log (invariant 8): the job, and whether the batch goes straight into
** its run, without the log: when log and batch together pass twice the budget, or a command came after
** writes. */
struct due {
  bool job;
  bool with_batch;
  enum kv_job_kind kind;
};

/* ---- Composing
**
** What a commit records is put together part by part: merges that were done ahead, what is due, and merges
** that the commit does itself. Each is made over what those before it come to, or fits there. */

struct composing {
  struct colfam_txn *txn;
  struct colfam_job *made;
  struct kv_view *view; /* what all parts come to, but for the newest while it is not `shown` */
  bool shown;
};

static kv_status begin_composing(struct composing *composing, struct colfam_txn *txn,
                                 enum kv_job_kind kind, bool takes_batch, struct kv_err *err) {
  struct colfam_job *made = sqlite3_malloc64(sizeof *made);
  if (!made) return kv_fail_nomem(err);
  *made = (struct colfam_job){
      .kind = kind, .takes_batch = takes_batch, .version = colfam_txn_version(txn)};
  *composing = (struct composing){txn, made, kv_view_ref(txn->view), true};
  return KV_OK;
}

/* The view over which the next part is made. */
static kv_status show(struct composing *composing, struct kv_err *err) {
  struct kv_view *view;
  if (composing->shown) return KV_OK;
  const struct kv_edit *edit = kv_job_edit(composing->made->parts->job);
  int64_t rows =
      composing->made->takes_batch && edit->flushes ? edit->rows : kv_view_rows(composing->view);
  kv_status status = kv_view_overlay(composing->view, edit, rows, &view, err);
  if (status != KV_OK) return status;
  kv_view_unref(composing->view);
  composing->view = view;
  composing->shown = true;
  return KV_OK;
}

/* Takes job or offer over, whatever happens. */
static kv_status put_part(struct composing *composing, struct kv_job *job,
                          struct colfam_offer *offer, struct kv_err *err) {
  struct colfam_part *part = sqlite3_malloc64(sizeof *part);
  if (part) {
    *part = (struct colfam_part){composing->made->parts, job, offer};
    composing->made->parts = part;
    composing->shown = false;
    return KV_OK;
  }
  if (offer)
    colfam_jobs_give(composing->txn->table->store, offer);
  else
    kv_job_free(job);
  return kv_fail_nomem(err);
}

static bool is_idle(const struct kv_view *base, const struct kv_edit *edit) {
  return !edit->added_count && !edit->removed_count &&
         edit->flushed_seq == kv_view_log(base)->flushed_seq;
}

/* The row count at the commit up to which the parts flush. */
static int64_t flushed_rows(const struct composing *composing, int64_t otherwise) {
  if (composing->made->takes_batch) return composing->txn->row.rows;
  for (const struct colfam_part *part = composing->made->parts; part; part = part->older)
    if (kv_job_edit(part->job)->flushes) return kv_job_edit(part->job)->rows;
  return otherwise;
}

/* Several parts, or what was spilled, as one edit. */
static kv_status join_parts(struct composing *composing, struct kv_err *err) {
  struct colfam_job *made = composing->made;
  kv_status status = show(composing, err);
  if (status == KV_OK)
    status = kv_edit_between(composing->txn->base, composing->view, &made->joined_edit, err);
  if (status != KV_OK) return status;
  made->joined_edit->rows = flushed_rows(composing, made->joined_edit->rows);
  made->edit = made->joined_edit;
  return KV_OK;
}

/* What was composed becomes the job that counts, if there is anything to it. */
static kv_status end_composing(struct composing *composing, kv_status status, struct kv_err *err) {
  struct colfam_txn *txn = composing->txn;
  struct colfam_job *made = composing->made;
  bool spilled = colfam_spill_has(txn);
  if (status == KV_OK && made->parts && !made->parts->older && !spilled)
    made->edit = kv_job_edit(made->parts->job);
  else if (status == KV_OK && (made->parts || spilled))
    status = join_parts(composing, err);
  kv_view_unref(composing->view);
  if (status != KV_OK || !made->edit) {
    free_job(txn, made, true);
    return status;
  }
  made->older = txn->jobs;
  txn->jobs = made;
  return KV_OK;
}

static kv_status run_to_end(struct kv_job *job, struct kv_err *err) {
  bool done = false;
  kv_status status = KV_OK;
  while (status == KV_OK && !done) status = kv_job_step(job, &done, err);
  colfam_kill_point("job");
  return status;
}

/* Runs a job to its end and puts it on. */
static kv_status put_job(struct composing *composing, kv_status status, struct kv_job *job,
                         struct kv_err *err) {
  if (status == KV_OK) status = run_to_end(job, err);
  if (status == KV_OK) return put_part(composing, job, NULL, err);
  kv_job_free(job);
  return status;
}

/* The job that is due, with the batch on top when wanted. */
static kv_status put_due(struct composing *composing, const struct due *due, struct kv_err *err) {
  struct colfam_txn *txn = composing->txn;
  struct kv_job *job = NULL;
  kv_status status = show(composing, err);
  if (status != KV_OK) return status;
  if (due->with_batch) colfam_work_number_row(txn);
  status = kv_job_new_commit(composing->view, due->kind, due->with_batch ? txn->batch : NULL,
                             due->with_batch ? &txn->row : NULL, &job, err);
  return put_job(composing, status, job, err);
}

/* A job over what is committed. */
static kv_status run_command(struct colfam_txn *txn, enum kv_job_kind kind, struct kv_err *err) {
  struct composing composing;
  struct due due = {true, false, kind};
  kv_status status = begin_composing(&composing, txn, kind, false, err);
  if (status != KV_OK) return status;
  return end_composing(&composing, put_due(&composing, &due, err), err);
}

/* Whether the job that counts has done what the command asks for. One that was offered may have been computed
** from an older view than the base. */
static bool has_done(const struct colfam_txn *txn, enum kv_job_kind kind) {
  return txn->jobs && colfam_work_edit(txn)->flushes &&
         (txn->jobs->kind == KV_JOB_COMPACT || kind == KV_JOB_FLUSH) &&
         colfam_work_edit(txn)->flushed_seq >= kv_view_log(txn->base)->last_seq;
}

/* Without pending writes the job runs at once. Else xSync runs it, over all that the commit brings. A second
** command has the same base: only a compaction has still to do after a flush. */
int colfam_txn_command(struct colfam_txn *txn, enum kv_job_kind kind, char **message) {
  bool done = has_done(txn, kind);
  if (colfam_txn_writes(txn)) {
    if (!txn->has_command || kind == KV_JOB_COMPACT) txn->command = kind;
    txn->has_command = true;
    return SQLITE_OK;
  }
  if (done) return SQLITE_OK;
  struct kv_err err = {0};
  kv_status status = run_command(txn, kind, &err);
  if (status != KV_OK) return colfam_work_error(txn, status, &err, message);
  if (txn->jobs->older || !is_idle(txn->base, colfam_work_edit(txn))) return SQLITE_OK;
  /* Files go only with a commit that writes something: the job's flushed mark as it was. */
  colfam_sweep_queue(txn->table);
  if (!colfam_store_has_removals(txn->table->store)) colfam_work_free(txn, false);
  return SQLITE_OK;
}

/* ---- Offers
**
** Work that waits for this table (jobs.h) is published when its inputs are those of the base view still,
** which is the newest state while the write lock is held. It becomes part of a job of this transaction like
** any other: xSync may run again, and asks the tables each time. Without a commit it goes back. */

static int offer_fits(const struct composing *composing, const struct colfam_offer *offer,
                      bool *fits, char **message) {
  struct colfam_txn *txn = composing->txn;
  const struct kv_log_state *base = kv_view_log(txn->base);
  const struct kv_edit *edit = kv_job_edit(offer->job);
  *fits = true;
  if (colfam_is_mutant("publish-recheck")) return SQLITE_OK;
  *fits = kv_job_fits(offer->job, composing->view);
  if (!*fits || !edit->flushes || edit->flushed_seq == base->flushed_seq) return SQLITE_OK;
  return colfam_catalog_has_commit(&txn->table->catalog, edit->flushed_seq, edit->flushed_nonce,
                                   fits, message);
}

/* Freed, with its files, after the commit. */
void colfam_work_forget(struct colfam_txn *txn, struct colfam_offer *offer) {
  if (!offer) return;
  offer->next = txn->stale;
  txn->stale = offer;
}

/* Puts the offer of this kind on, if there is one that is finished and fits there. */
static int adopt_kind(struct composing *composing, enum kv_job_kind kind, char **message) {
  struct colfam_txn *txn = composing->txn;
  struct colfam_table *table = txn->table;
  struct kv_err err = {0};
  bool fits = true;
  struct colfam_offer *offer = colfam_jobs_take(table->store, table->catalog.uuid, kind);
  if (!offer) return SQLITE_OK;
  kv_status status = show(composing, &err);
  int rc = status == KV_OK ? offer_fits(composing, offer, &fits, message)
                           : colfam_work_error(txn, status, &err, message);
  if (rc == SQLITE_OK && fits && offer->finished) {
    kv_job_rebase(offer->job, composing->view);
    if (!composing->made->parts) composing->made->kind = kind;
    status = put_part(composing, offer->job, offer, &err);
    return status == KV_OK ? SQLITE_OK : colfam_work_error(txn, status, &err, message);
  }
  if (fits)
    colfam_jobs_give(table->store, offer);
  else
    colfam_work_forget(txn, offer);
  return rc;
}

/* A compaction, or a flush and a merge. */
static int adopt_all(struct composing *composing, char **message) {
  int rc = adopt_kind(composing, KV_JOB_COMPACT, message);
  if (rc == SQLITE_OK && !composing->made->parts) rc = adopt_kind(composing, KV_JOB_FLUSH, message);
  if (rc == SQLITE_OK && (!composing->made->parts || composing->made->kind != KV_JOB_COMPACT))
    rc = adopt_kind(composing, KV_JOB_MERGE, message);
  return rc;
}

/* Ends it after the step whose code is given. */
static int finish_composing(struct composing *composing, int rc, char **message) {
  struct kv_err err = {0};
  kv_status status = end_composing(composing, rc == SQLITE_OK ? KV_OK : KV_MISUSE, &err);
  if (rc != SQLITE_OK || status == KV_OK) return rc;
  return colfam_work_error(composing->txn, status, &err, message);
}

static bool has_offers(const struct colfam_txn *txn) {
  struct colfam_store *store = txn->table->store;
  const uint8_t *uuid = txn->table->catalog.uuid;
  return colfam_jobs_has(store, uuid, KV_JOB_MERGE) || colfam_jobs_has(store, uuid, KV_JOB_FLUSH) ||
         colfam_jobs_has(store, uuid, KV_JOB_COMPACT);
}

int colfam_work_adopt(struct colfam_txn *txn, char **message) {
  struct composing composing;
  struct kv_err err = {0};
  if (txn->jobs || !has_offers(txn)) return SQLITE_OK;
  kv_status status = begin_composing(&composing, txn, KV_JOB_FLUSH, false, &err);
  if (status != KV_OK) return colfam_work_error(txn, status, &err, message);
  return finish_composing(&composing, adopt_all(&composing, message), message);
}

/* ---- What is due */

/* Whether this process makes files for so many tables at a time that another must wait: a file that is not
** yet named keeps its descriptor. */
static bool is_crowded(uint64_t bytes, uint64_t budget) {
  return bytes < CROWDED_BUDGETS * budget &&
         kv_open_files_are_held(kv_cache_files(colfam_store_cache()));
}

static bool has_many_runs(const struct kv_view *view) {
  size_t most = colfam_worker_threads() > 0 ? RUNS_HARD_MAX : RUNS_HARD_MAX_ALONE;
  return kv_view_run_count(view) >= most;
}

/* Whether flushes and merges can be left to the thread: there is one, and the runs are not too many. */
static bool thread_keeps_up(const struct colfam_txn *txn) {
  return colfam_worker_threads() > 0 && !has_many_runs(txn->base);
}

uint64_t colfam_log_row_footprint(uint64_t bytes) {
  uint64_t row = bytes + LOG_ROW_OVERHEAD;
  return row + (row < PAGE_BYTES / 2 ? row * row / PAGE_BYTES : PAGE_BYTES / 4);
}

/* What the log will take of the database file with `batch` more bytes, as if all its rows were alike. */
static uint64_t log_footprint(const struct colfam_txn *txn, uint64_t batch) {
  const struct kv_log_state *log = kv_view_log(txn->base);
  uint64_t rows = log->last_seq - log->flushed_seq + 1;
  return rows * colfam_log_row_footprint((kv_view_log_bytes(txn->base) + batch) / rows);
}

static struct due due_work(const struct colfam_txn *txn) {
  uint64_t budget = txn->table->options.kv.memtable_bytes;
  uint64_t batch = kv_batch_data_bytes(txn->batch);
  uint64_t bytes = kv_view_log_bytes(txn->base) + batch;
  struct kv_work work = kv_view_work(txn->base);
  bool writes = kv_batch_count(txn->batch) > 0;
  struct due due = {.kind = KV_JOB_FLUSH};
  if (txn->jobs) {
    due.kind = txn->jobs->kind;
    due.with_batch = writes && txn->jobs->takes_batch;
    due.job = txn->jobs->takes_batch && !colfam_work_takes_batch(txn);
  } else if (writes && !is_crowded(bytes, budget)) {
    bool full = log_footprint(txn, batch) >= 2 * budget - budget / MANIFEST_SHARE;
    /* This commit's own flush makes room enough for little. */
    due.with_batch = full && (batch >= budget / 2 || colfam_worker_threads() > 0);
    due.job = full || work.flush;
    if (!due.with_batch && work.merge && has_many_runs(txn->base))
      due = (struct due){true, false, KV_JOB_MERGE};
  }
  if (!txn->has_command || colfam_work_takes_batch(txn)) return due;
  bool compact = txn->command == KV_JOB_COMPACT || due.kind == KV_JOB_COMPACT;
  return (struct due){true, writes, compact ? KV_JOB_COMPACT : KV_JOB_FLUSH};
}

int colfam_work_encode_row(struct colfam_txn *txn, char **message) {
  uint64_t seal = kv_log_row_seal(&txn->row);
  bool same = txn->encoded_version == colfam_txn_version(txn) && txn->encoded_seal == seal &&
              txn->encoded_seq == txn->row.seq;
  if (txn->encoded.size && same) return SQLITE_OK;
  struct kv_err err = {0};
  kv_buf_clear(&txn->encoded);
  bool packs = txn->table->options.kv.compression_level > 0;
  kv_status status = kv_batch_encode_sealed(txn->batch, txn->table->catalog.uuid, txn->row.seq,
                                            seal, packs, &txn->encoded, &err);
  if (status != KV_OK) return colfam_work_error(txn, status, &err, message);
  txn->encoded_version = colfam_txn_version(txn);
  txn->encoded_seal = seal;
  txn->encoded_seq = txn->row.seq;
  txn->row.batch = kv_buf_slice(&txn->encoded);
  return SQLITE_OK;
}

/* A log row longer than SQLite takes (sqlite3_limit) goes straight into a run, as a transaction of many small
** rows must. */
static int spare_length(struct colfam_txn *txn, struct due *due, char **message) {
  if (due->with_batch || kv_batch_count(txn->batch) == 0 || colfam_work_takes_batch(txn))
    return SQLITE_OK;
  colfam_work_number_row(txn);
  int rc = colfam_work_encode_row(txn, message);
  size_t limit = (size_t)sqlite3_limit(txn->table->conn->db, SQLITE_LIMIT_LENGTH, -1);
  if (rc == SQLITE_OK && txn->encoded.size + LOG_ROW_OVERHEAD > limit)
    due->job = due->with_batch = true;
  return rc;
}

/* ---- The thread
**
** It computes what is due from the newest committed view (worker.h), and a later commit adopts it. A commit
** does a piece of the work itself only at the hard limits, and is counted for it (commit_helps): when the log
** passes twice the budget, or when there are too many runs, where it first waits for what is under way.
** Without a thread commits share the merging, and leave what is unfinished to the next. */

static uint64_t now_us(const struct colfam_txn *txn) {
  return kv_env_now_us(colfam_store_env(txn->table->store));
}

static void count_help(const struct colfam_txn *txn, uint64_t begun_us) {
  struct kv_stats *stats = kv_family_stats(txn->table->family);
  kv_stats_add(stats, KV_STAT_COMMIT_HELPS, 1);
  kv_stats_add(stats, KV_STAT_COMMIT_HELP_US, now_us(txn) - begun_us);
}

/* Whether this commit can leave what is due to the thread. */
static bool leaves_work(const struct colfam_txn *txn, const struct due *due) {
  return due->job && !due->with_batch && !txn->jobs && !txn->has_command && thread_keeps_up(txn);
}

/* Work of this kind that the thread has under way is waited for. */
static bool await(struct colfam_txn *txn, enum kv_job_kind kind) {
  struct colfam_table *table = txn->table;
  if (!colfam_worker_has(table->store, table->catalog.uuid, kind)) return false;
  uint64_t begun_us = now_us(txn);
  colfam_worker_wait(table->store, table->catalog.uuid, kind);
  colfam_worker_fetch(table->store);
  count_help(txn, begun_us);
  return true;
}

/* A log that is too long for want of a flush that is under way, or has just ended. */
static int await_flush(struct colfam_txn *txn, struct due *due, char **message) {
  struct colfam_table *table = txn->table;
  if (!due->with_batch || txn->jobs || txn->has_command ||
      kv_batch_data_bytes(txn->batch) >= table->options.kv.memtable_bytes)
    return SQLITE_OK;
  if (await(txn, KV_JOB_FLUSH))
    kv_stats_add(kv_family_stats(table->family), KV_STAT_FLUSH_WAITS, 1);
  else if (!colfam_jobs_has(table->store, table->catalog.uuid, KV_JOB_FLUSH))
    return SQLITE_OK;
  int rc = colfam_work_adopt(txn, message);
  if (txn->jobs) due->job = due->with_batch = false;
  return rc;
}

static void give_work(struct colfam_table *table, struct kv_view *view, enum kv_job_kind kind) {
  const uint8_t *uuid = table->catalog.uuid;
  struct colfam_offer *offer = NULL;
  if (colfam_worker_has(table->store, uuid, kind) || colfam_jobs_has(table->store, uuid, kind))
    return;
  if (colfam_offer_new(uuid, view, kind, &offer, NULL) == KV_OK)
    (void)colfam_worker_give(table->store, offer);
}

/* After a commit. Without memory or a thread the next commits do the work. */
void colfam_work_ahead(struct colfam_table *table) {
  struct kv_view *view = colfam_worker_threads() > 0 ? colfam_cached_view(&table->cached) : NULL;
  if (!view) return;
  struct kv_work work = kv_view_work(view);
  if (work.flush) give_work(table, view, KV_JOB_FLUSH);
  if (work.merge) give_work(table, view, KV_JOB_MERGE);
  kv_view_unref(view);
}

/* The merge that waits for somebody who goes on, or a new one; NULL when it cannot be begun now. */
static struct colfam_offer *take_merge(struct colfam_txn *txn) {
  struct colfam_table *table = txn->table;
  const uint8_t *uuid = table->catalog.uuid;
  struct colfam_offer *offer = colfam_jobs_take(table->store, uuid, KV_JOB_MERGE);
  if (offer && kv_job_fits(offer->job, txn->base)) return offer;
  colfam_work_forget(txn, offer);
  if (colfam_offer_new(uuid, txn->base, KV_JOB_MERGE, &offer, NULL) != KV_OK) return NULL;
  kv_job_set_step_bytes(offer->job, MERGE_STEP_BYTES);
  return offer;
}

/* This commit's share. What fails is begun anew by the next commit. */
static void share_merge(struct colfam_txn *txn) {
  uint64_t bytes = MERGE_SHARE * kv_batch_data_bytes(txn->batch), begun_us = now_us(txn);
  struct colfam_offer *offer = take_merge(txn);
  kv_status status = KV_OK;
  if (!offer) return;
  for (uint64_t done = 0; done <= bytes && !offer->finished && status == KV_OK;
       done += MERGE_STEP_BYTES)
    status = kv_job_step(offer->job, &offer->finished, NULL);
  if (status == KV_OK)
    colfam_jobs_give(txn->table->store, offer);
  else
    colfam_work_forget(txn, offer);
  count_help(txn, begun_us);
}

static bool shares_merge(const struct colfam_txn *txn) {
  return colfam_worker_threads() == 0 && !txn->jobs && !txn->has_command &&
         kv_batch_count(txn->batch) && kv_view_work(txn->base).merge;
}

/* ---- Doing it */

/* Merges until there are few runs again. */
static kv_status relieve(struct composing *composing, struct kv_err *err) {
  uint64_t begun_us = now_us(composing->txn);
  int merges = 0;
  kv_status status = show(composing, err);
  while (status == KV_OK && merges < RELIEF_MERGES_MAX && has_many_runs(composing->view) &&
         kv_view_work(composing->view).merge) {
    struct kv_job *job = NULL;
    status = kv_job_new(composing->view, KV_JOB_MERGE, &job, err);
    status = put_job(composing, status, job, err);
    if (status == KV_OK) status = show(composing, err);
    merges++;
  }
  if (merges) count_help(composing->txn, begun_us);
  return status;
}

/* What is due, and what makes the runs few again. */
static kv_status help(struct composing *composing, const struct due *due, struct kv_err *err) {
  struct colfam_txn *txn = composing->txn;
  uint64_t begun_us = now_us(txn);
  kv_status status = due->kind == KV_JOB_MERGE ? KV_OK : put_due(composing, due, err);
  if (due->kind == KV_JOB_FLUSH && kv_view_work(txn->base).flush) count_help(txn, begun_us);
  return status == KV_OK ? relieve(composing, err) : status;
}

/* What waits is adopted, what is due is done over it; alone when it takes the place of something, or is asked
** for. *failed: of what is due itself, no statement on shadow tables. */
static int put_all(struct composing *composing, const struct due *due, bool *failed,
                   char **message) {
  struct colfam_txn *txn = composing->txn;
  struct kv_err err = {0};
  bool alone = txn->jobs || txn->has_command;
  if (!alone && has_many_runs(txn->base)) (void)await(txn, KV_JOB_MERGE);
  int rc = alone ? SQLITE_OK : adopt_all(composing, message);
  if (rc != SQLITE_OK) return rc;
  kv_status status = alone ? put_due(composing, due, &err) : help(composing, due, &err);
  *failed = status != KV_OK;
  return *failed ? colfam_work_error(txn, status, &err, message) : SQLITE_OK;
}

static int do_due(struct colfam_txn *txn, const struct due *due, bool *failed, char **message) {
  struct composing composing;
  struct kv_err err = {0};
  *failed = true;
  kv_status status = begin_composing(&composing, txn, due->kind, due->with_batch, &err);
  if (status != KV_OK) return colfam_work_error(txn, status, &err, message);
  *failed = false;
  int rc = put_all(&composing, due, failed, message);
  return finish_composing(&composing, rc, message);
}

/* Private runs of level 0 become one, so that the commit is one run; those in key order have gone below and
** stay as they are. The thread, if there is one, does that after the commit. */
static kv_status gather(struct composing *composing, struct kv_err *err) {
  struct kv_job *job = NULL;
  if (colfam_worker_threads() > 0) return KV_OK;
  uint64_t committed = kv_view_log(composing->txn->base)->last_seq;
  kv_status status = kv_job_new_gather(composing->view, committed, &job, err);
  if (status != KV_OK || kv_job_edit(job)->removed_count)
    return put_job(composing, status, job, err);
  kv_job_free(job);
  return KV_OK;
}

static int put_spilled(struct composing *composing, char **message) {
  struct colfam_txn *txn = composing->txn;
  struct kv_err err = {0};
  struct due compaction = {true, false, KV_JOB_COMPACT};
  kv_status status;
  int rc = SQLITE_OK;
  if (composing->made->kind == KV_JOB_COMPACT) {
    status = put_due(composing, &compaction, &err);
  } else {
    status = gather(composing, &err);
    if (status == KV_OK) rc = adopt_kind(composing, KV_JOB_MERGE, message);
    if (status == KV_OK && rc == SQLITE_OK) status = relieve(composing, &err);
  }
  return status == KV_OK ? rc : colfam_work_error(txn, status, &err, message);
}

/* The rest of the batch follows what was spilled; all of it is recorded together. */
static int do_spilled(struct colfam_txn *txn, char **message) {
  struct composing composing;
  struct kv_err err = {0};
  bool compacts = txn->has_command && txn->command == KV_JOB_COMPACT;
  for (const struct colfam_job *job = txn->jobs; job; job = job->older)
    compacts = compacts || job->kind == KV_JOB_COMPACT;
  if (colfam_work_takes_batch(txn)) return SQLITE_OK;
  kv_status status = kv_batch_count(txn->batch) ? colfam_spill(txn, &err) : KV_OK;
  if (status == KV_OK)
    status = begin_composing(&composing, txn, compacts ? KV_JOB_COMPACT : KV_JOB_FLUSH, true, &err);
  if (status != KV_OK) return colfam_work_error(txn, status, &err, message);
  colfam_work_number_row(txn);
  return finish_composing(&composing, put_spilled(&composing, message), message);
}

/* Whether the commit may do without the job: nobody asked for it, none stands in t_cffile already, the log is
** below twice its budget and stays bounded. Then the next commit tries again. But an order that is none
** (kv_check_order) is no better then, and is told at once. */
static bool may_fail(const struct colfam_txn *txn) {
  uint64_t budget = txn->table->options.kv.memtable_bytes;
  uint64_t log = kv_view_log_bytes(txn->base);
  return !txn->jobs && !txn->has_command && log < 2 * budget &&
         log + kv_batch_data_bytes(txn->batch) < CROWDED_BUDGETS * budget;
}

int colfam_work_do(struct colfam_txn *txn, char **message) {
  if (colfam_spill_has(txn)) return do_spilled(txn, message);
  struct due due = due_work(txn);
  int rc = await_flush(txn, &due, message);
  if (rc == SQLITE_OK) rc = spare_length(txn, &due, message);
  if (rc != SQLITE_OK) return rc;
  if (shares_merge(txn)) share_merge(txn);
  if (!due.job || leaves_work(txn, &due)) return colfam_work_adopt(txn, message);
  bool failed;
  bool needed = !may_fail(txn);
  rc = do_due(txn, &due, &failed, message);
  if (!failed || needed || rc == SQLITE_MISUSE) return rc;
  sqlite3_free(*message);
  *message = NULL;
  return SQLITE_OK;
}
