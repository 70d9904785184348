/* See txn_work.h. */
#include "txn_work.h"

#include "error.h"
#include "killpoint.h"
#include "worker.h"

/* Runs at which a commit merges itself: with a thread that does it otherwise, and without. */
#define RUNS_HARD_MAX 32
#define RUNS_HARD_MAX_ALONE 20
/* Without a thread: what a commit merges for each byte that it writes, in steps of so many bytes. */
#define MERGE_SHARE 16
#define MERGE_STEP_BYTES (64 << 10)
/* Log and batch of a table, in budgets, that flushes may wait for when too many files are being made. */
#define CROWDED_BUDGETS 8

/* Bytes of a log row beside its batch, at most. */
#define LOG_ROW_OVERHEAD 64

int colfam_work_error(struct colfam_txn *txn, kv_status status, const struct kv_err *err,
                      char **message) {
  return colfam_error_of(message, txn->table->catalog.label, status, err);
}

/* Work that was offered goes back to where it came from, if wanted. */
void colfam_work_free(struct colfam_txn *txn, bool give_back) {
  while (txn->jobs) {
    struct colfam_job *job = txn->jobs;
    txn->jobs = job->older;
    if (job->offer && give_back)
      colfam_jobs_give(txn->table->store, job->offer);
    else if (job->offer)
      colfam_offer_free(job->offer);
    else
      kv_job_free(job->job);
    sqlite3_free(job);
  }
}

void colfam_work_free_stale(struct colfam_txn *txn) {
  while (txn->stale) {
    struct colfam_offer *offer = txn->stale;
    txn->stale = offer->next;
    colfam_offer_free(offer);
  }
}

/* ---- Jobs
**
** A job's output is published by xSync and may have to give way before the commit succeeds: to a compaction
** after a flush, or because it took the batch in and the batch has changed since a COMMIT that failed. The
** jobs of a transaction are a list, the newest is the one that counts; the older ones are kept, since their
** rows may stand in t_cffile until the end. */

const struct kv_edit *colfam_work_edit(const struct colfam_txn *txn) {
  return txn->jobs ? kv_job_edit(txn->jobs->job) : NULL;
}

/* Whether the job that counts holds what the transaction has written, so that the log need not. */
bool colfam_work_takes_batch(const struct colfam_txn *txn) {
  return txn->jobs && txn->jobs->takes_batch &&
         txn->jobs->batch_version == kv_batch_version(txn->batch);
}

/* seq, nonce and generation once; the row count as it is now. */
void colfam_work_number_row(struct colfam_txn *txn) {
  int64_t rows = kv_view_rows(txn->base);
  bool tracked = txn->table->options.track_rows && rows >= 0;
  txn->row.rows = tracked ? rows + kv_batch_rows_delta(txn->batch) : -1;
  if (txn->row.seq) return;
  uint64_t gen = kv_view_gen(txn->base);
  if (gen == 0 || kv_view_gen_bytes(txn->base) >= txn->table->options.kv.memtable_bytes) gen++;
  txn->row.seq = kv_view_log(txn->base)->last_seq + 1;
  txn->row.gen = gen;
  sqlite3_randomness(sizeof txn->row.nonce, &txn->row.nonce);
}

static kv_status run_to_end(struct kv_job *job, struct kv_err *err) {
  bool done = false;
  kv_status status = KV_OK;
  while (status == KV_OK && !done) status = kv_job_step(job, &done, err);
  colfam_kill_point("job");
  return status;
}

/* Runs a job over the base view, with the batch on top when wanted, and puts it in front. */
static kv_status run_job(struct colfam_txn *txn, enum kv_job_kind kind, bool with_batch,
                         struct kv_err *err) {
  struct colfam_job *made = sqlite3_malloc64(sizeof *made);
  if (!made) return kv_fail_nomem(err);
  *made =
      (struct colfam_job){txn->jobs, NULL, kind, with_batch, kv_batch_version(txn->batch), NULL};
  if (with_batch) colfam_work_number_row(txn);
  kv_status status = kv_job_new_commit(txn->base, kind, with_batch ? txn->batch : NULL,
                                       with_batch ? &txn->row : NULL, &made->job, err);
  if (status == KV_OK) status = run_to_end(made->job, err);
  if (status == KV_OK) {
    txn->jobs = made;
    return KV_OK;
  }
  kv_job_free(made->job);
  sqlite3_free(made);
  return status;
}

static bool is_idle(const struct kv_view *base, const struct kv_edit *edit) {
  return !edit->added_count && !edit->removed_count &&
         edit->flushed_seq == kv_view_log(base)->flushed_seq;
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
  if (kv_batch_count(txn->batch)) {
    if (!txn->has_command || kind == KV_JOB_COMPACT) txn->command = kind;
    txn->has_command = true;
    return SQLITE_OK;
  }
  if (done) return SQLITE_OK;
  struct kv_err err = {0};
  kv_status status = run_job(txn, kind, false, &err);
  if (status != KV_OK) return colfam_work_error(txn, status, &err, message);
  if (!txn->jobs->older && is_idle(txn->base, colfam_work_edit(txn))) colfam_work_free(txn, false);
  return SQLITE_OK;
}

/* ---- Offers
**
** Work that waits for this table (jobs.h) is published when its inputs are those of the base view still,
** which is the newest state while the write lock is held. It becomes a job of this transaction like any
** other: xSync may run again, and asks the tables each time. Without a commit it goes back. */

static int offer_fits(struct colfam_txn *txn, const struct colfam_offer *offer, bool *fits,
                      char **message) {
  const struct kv_log_state *base = kv_view_log(txn->base);
  const struct kv_edit *edit = kv_job_edit(offer->job);
  *fits = true;
  if (colfam_is_mutant("publish-recheck")) return SQLITE_OK;
  *fits = kv_job_fits(offer->job, txn->base);
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

static int adopt_kind(struct colfam_txn *txn, enum kv_job_kind kind, char **message) {
  struct colfam_table *table = txn->table;
  struct colfam_offer *offer = colfam_jobs_take(table->store, table->catalog.uuid, kind);
  if (!offer) return SQLITE_OK;
  bool fits = true;
  struct colfam_job *made = sqlite3_malloc64(sizeof *made);
  int rc = made ? offer_fits(txn, offer, &fits, message) : SQLITE_NOMEM;
  if (rc == SQLITE_OK && fits && offer->finished) {
    kv_job_rebase(offer->job, txn->base);
    *made = (struct colfam_job){txn->jobs, offer->job, kind, false, 0, offer};
    txn->jobs = made;
    return SQLITE_OK;
  }
  sqlite3_free(made);
  if (fits)
    colfam_jobs_give(table->store, offer);
  else
    colfam_work_forget(txn, offer);
  return rc;
}

int colfam_work_adopt(struct colfam_txn *txn, char **message) {
  static const enum kv_job_kind kinds[] = {KV_JOB_COMPACT, KV_JOB_FLUSH, KV_JOB_MERGE};
  int rc = SQLITE_OK;
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds && rc == SQLITE_OK && !txn->jobs; i++)
    rc = adopt_kind(txn, kinds[i], message);
  return rc;
}

/* What this commit should do about the log (invariant 8): the job, and whether the batch goes straight into
** its run, without the log: when log and batch together pass twice the budget, or a command came after
** writes. */
struct due {
  bool job;
  bool with_batch;
  enum kv_job_kind kind;
};

/* Whether this process makes files for so many tables at a time that another must wait: a file that is not
** yet named keeps its descriptor. */
static bool is_crowded(uint64_t bytes, uint64_t budget) {
  return bytes < CROWDED_BUDGETS * budget &&
         kv_open_files_are_held(kv_cache_files(colfam_store_cache()));
}

static bool has_many_runs(const struct colfam_txn *txn) {
  size_t most = colfam_worker_threads() > 0 ? RUNS_HARD_MAX : RUNS_HARD_MAX_ALONE;
  return kv_view_run_count(txn->base) >= most;
}

/* Whether flushes and merges can be left to the thread: there is one, and the runs are not too many. */
static bool thread_keeps_up(const struct colfam_txn *txn) {
  return colfam_worker_threads() > 0 && !has_many_runs(txn);
}

/* Commits that go straight into files, one after another, would keep merges from being published: one that
** finds an empty log is logged when a merge is due, unless it is very large. */
static bool gives_way(const struct colfam_txn *txn, uint64_t budget) {
  const struct colfam_table *table = txn->table;
  if (kv_view_log_bytes(txn->base) > 0 || !kv_view_work(txn->base).merge) return false;
  if (kv_batch_data_bytes(txn->batch) >= CROWDED_BUDGETS * budget) return false;
  return !thread_keeps_up(txn) || colfam_jobs_has(table->store, table->catalog.uuid, KV_JOB_MERGE);
}

static struct due due_work(const struct colfam_txn *txn) {
  uint64_t budget = txn->table->options.kv.memtable_bytes;
  uint64_t bytes = kv_view_log_bytes(txn->base) + kv_batch_data_bytes(txn->batch);
  struct kv_work work = kv_view_work(txn->base);
  bool writes = kv_batch_count(txn->batch) > 0;
  struct due due = {.kind = KV_JOB_FLUSH};
  if (txn->jobs) {
    due.kind = txn->jobs->kind;
    due.with_batch = writes && txn->jobs->takes_batch;
    due.job = txn->jobs->takes_batch && !colfam_work_takes_batch(txn);
  } else if (writes && !is_crowded(bytes, budget)) {
    due.with_batch = bytes >= 2 * budget && !gives_way(txn, budget);
    due.job = due.with_batch || work.flush;
    if (!due.with_batch && work.merge && has_many_runs(txn))
      due = (struct due){true, false, KV_JOB_MERGE};
  }
  if (!txn->has_command || colfam_work_takes_batch(txn)) return due;
  bool compact = txn->command == KV_JOB_COMPACT || due.kind == KV_JOB_COMPACT;
  return (struct due){true, writes, compact ? KV_JOB_COMPACT : KV_JOB_FLUSH};
}

int colfam_work_encode_row(struct colfam_txn *txn, char **message) {
  uint64_t seal = kv_log_row_seal(&txn->row);
  bool same = txn->encoded_version == kv_batch_version(txn->batch) && txn->encoded_seal == seal;
  if (txn->encoded.size && same) return SQLITE_OK;
  struct kv_err err = {0};
  kv_buf_clear(&txn->encoded);
  kv_status status = kv_batch_encode_sealed(txn->batch, txn->table->catalog.uuid, txn->row.seq,
                                            seal, &txn->encoded, &err);
  if (status != KV_OK) return colfam_work_error(txn, status, &err, message);
  txn->encoded_version = kv_batch_version(txn->batch);
  txn->encoded_seal = seal;
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
** does a piece of the work itself only at the hard limits: when log and batch pass twice the budget, where
** it first waits for a flush that is under way, or when there are too many runs. Without a thread commits
** share the merging, and leave what is unfinished to the next. */

/* Whether this commit can leave what is due to the thread. */
static bool leaves_work(const struct colfam_txn *txn, const struct due *due) {
  return due->job && !due->with_batch && !txn->jobs && !txn->has_command && thread_keeps_up(txn);
}

/* A log that is too long for want of a flush that is under way. */
static int await_flush(struct colfam_txn *txn, struct due *due, char **message) {
  struct colfam_table *table = txn->table;
  uint64_t budget = table->options.kv.memtable_bytes;
  if (!due->with_batch || txn->jobs || txn->has_command ||
      kv_batch_data_bytes(txn->batch) >= budget ||
      !colfam_worker_has(table->store, table->catalog.uuid, KV_JOB_FLUSH))
    return SQLITE_OK;
  kv_stats_add(kv_family_stats(table->family), KV_STAT_FLUSH_WAITS, 1);
  colfam_worker_wait(table->store, table->catalog.uuid, KV_JOB_FLUSH);
  colfam_worker_fetch(table->store);
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
  uint64_t bytes = MERGE_SHARE * kv_batch_data_bytes(txn->batch);
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
}

static bool shares_merge(const struct colfam_txn *txn) {
  return colfam_worker_threads() == 0 && !txn->jobs && !txn->has_command &&
         kv_batch_count(txn->batch) && kv_view_work(txn->base).merge;
}

/* A failing job is no reason to refuse the commit, as long as nobody asked for it, none stands in t_cffile
** already, and the log is below twice its budget: the next commit tries again. */
int colfam_work_do(struct colfam_txn *txn, char **message) {
  struct due due = due_work(txn);
  int rc = await_flush(txn, &due, message);
  if (rc == SQLITE_OK) rc = spare_length(txn, &due, message);
  if (rc != SQLITE_OK) return rc;
  if (!due.job || leaves_work(txn, &due)) {
    if (shares_merge(txn)) share_merge(txn);
    return colfam_work_adopt(txn, message);
  }
  struct kv_err err = {0};
  kv_status status = run_job(txn, due.kind, due.with_batch, &err);
  bool free_to_fail = !txn->jobs && !txn->has_command;
  uint64_t limit = 2 * txn->table->options.kv.memtable_bytes;
  if (status == KV_OK || (free_to_fail && kv_view_log_bytes(txn->base) < limit)) return SQLITE_OK;
  return colfam_work_error(txn, status, &err, message);
}
