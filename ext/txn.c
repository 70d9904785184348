/* See txn.h. The life of a transaction:
**
**   begin -> writes and savepoints -> sync -> commit
**                    ^                 |
**                    +---- BUSY -------+-> rollback
**
** sync writes: a bounded trim of dead log rows, then the job's edit, then the log row. All of it is
** absolute, so that running it again, or after a ROLLBACK TO that undid it, gives the same rows. The
** write lock is held from begin on, so the base view stays the newest committed state throughout. */
#include "txn.h"

#include <string.h>

#include "error.h"
#include "jobs.h"
#include "killpoint.h"
#include "reclaim.h"
#include "sweep.h"
#include "worker.h"

/* Dead log rows that a commit deletes (invariant 9). */
#define TRIM_ROWS 4
#define RUNS_HARD_MAX 32 /* with a thread that merges them; without, kv_view_work says */
/* Log and batch of a table, in budgets, that flushes may wait for when too many files are being made. */
#define CROWDED_BUDGETS 8

/* Bytes of a log row beside its batch, at most. */
#define LOG_ROW_OVERHEAD 64

struct colfam_savepoint {
  int index;
  struct kv_batch_mark mark;
};

struct colfam_job {
  struct colfam_job *older;
  struct kv_job *job;
  enum kv_job_kind kind;
  bool takes_batch; /* the run holds the batch as it was at batch_version */
  uint64_t batch_version;
  struct colfam_offer
      *offer; /* that it was before, the job's owner; NULL: made by this transaction */
};

static int table_error(struct colfam_txn *txn, kv_status status, const struct kv_err *err,
                       char **message) {
  return colfam_error_of(message, txn->table->catalog.label, status, err);
}

/* Work that was offered goes back to where it came from, if wanted. */
static void free_jobs(struct colfam_txn *txn, bool give_back) {
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

static void free_stale(struct colfam_txn *txn) {
  while (txn->stale) {
    struct colfam_offer *offer = txn->stale;
    txn->stale = offer->next;
    colfam_offer_free(offer);
  }
}

static void txn_free(struct colfam_txn *txn, bool give_back) {
  txn->table->txn = NULL;
  txn->table->renamed = false;
  free_jobs(txn, give_back);
  free_stale(txn);
  kv_batch_unref(txn->batch);
  kv_view_unref(txn->base);
  kv_buf_release(&txn->encoded);
  sqlite3_free(txn->savepoints);
  sqlite3_free(txn);
}

/* Prepares the commit's statements when they may be out of date. */
static int renew_statements(struct colfam_table *table, bool *fresh, char **message) {
  int rc = colfam_catalog_probe(&table->catalog, fresh, message);
  return rc == SQLITE_OK && *fresh ? colfam_catalog_prepare_all(&table->catalog, message) : rc;
}

/* The base view of a table that may be written to, with the commit's statements prepared. Under a new
** authorizer all is read again: what it hides must not be missed when it comes to writing. */
static int take_base(struct colfam_table *table, struct kv_view **base, char **message) {
  bool fresh;
  int rc = renew_statements(table, &fresh, message);
  if (rc != SQLITE_OK) return rc;
  if (fresh) colfam_table_forget_view(table);
  rc = colfam_table_view(table, base, message);
  if (rc != SQLITE_OK || table->writable) return rc;
  kv_view_unref(*base);
  return colfam_error(message, SQLITE_READONLY,
                      "table %s: written by a newer colfam: this library may read it, not write it",
                      table->catalog.label);
}

/* The same in the middle of a transaction. */
static int check_access(struct colfam_table *table, char **message) {
  bool fresh;
  struct colfam_meta meta;
  struct colfam_snapshot snapshot;
  int rc = renew_statements(table, &fresh, message);
  if (rc != SQLITE_OK || !fresh) return rc;
  rc = colfam_catalog_read_meta(&table->catalog, &meta, message);
  if (rc == SQLITE_OK)
    rc = colfam_catalog_read_snapshot(&table->catalog, &meta, &snapshot, message);
  if (rc == SQLITE_OK) colfam_snapshot_release(&snapshot);
  return rc;
}

int colfam_txn_begin(struct colfam_table *table, bool created, char **message) {
  if (table->txn) return SQLITE_OK;
  struct kv_view *base;
  int rc = take_base(table, &base, message);
  if (rc != SQLITE_OK) return rc;
  struct colfam_txn *txn = sqlite3_malloc64(sizeof *txn);
  if (!txn) {
    kv_view_unref(base);
    return SQLITE_NOMEM;
  }
  memset(txn, 0, sizeof *txn);
  txn->table = table;
  txn->base = base;
  txn->created = created;
  kv_buf_init(&txn->encoded);
  table->txn = txn;
  struct kv_err err = {0};
  kv_status status = kv_batch_new(kv_family_stats(table->family), &txn->batch, &err);
  if (status == KV_OK) txn->start = kv_batch_mark(txn->batch);
  rc = status == KV_OK ? colfam_table_data_version(table, &txn->data_version)
                       : table_error(txn, status, &err, message);
  if (rc != SQLITE_OK) txn_free(txn, false);
  return rc;
}

/* The next guest of the host among the tables from *table on, which moves behind it. */
static struct colfam_txn *next_guest(const struct colfam_txn *host, struct colfam_table **table) {
  while (*table) {
    struct colfam_txn *txn = (*table)->txn;
    *table = (*table)->next;
    if (txn && txn->host == host) return txn;
  }
  return NULL;
}

/* ---- Savepoints */

static void drop_savepoints(struct colfam_txn *txn, int index) {
  while (txn->savepoint_count && txn->savepoints[txn->savepoint_count - 1].index >= index)
    txn->savepoint_count--;
}

static void push_savepoint(struct colfam_txn *txn, int index) {
  drop_savepoints(txn, index);
  if (txn->savepoint_count == txn->savepoint_capacity) {
    int capacity = txn->savepoint_capacity ? 2 * txn->savepoint_capacity : 16;
    struct colfam_savepoint *grown =
        sqlite3_realloc64(txn->savepoints, (sqlite3_uint64)capacity * sizeof *grown);
    if (!grown) {
      txn->poisoned = true;
      return;
    }
    txn->savepoints = grown;
    txn->savepoint_capacity = capacity;
  }
  txn->savepoints[txn->savepoint_count++] =
      (struct colfam_savepoint){index, kv_batch_mark(txn->batch)};
}

static void rollback_to(struct colfam_txn *txn, int index) {
  drop_savepoints(txn, index + 1);
  struct colfam_savepoint to = {index, txn->start};
  int count = txn->savepoint_count;
  if (count && txn->savepoints[count - 1].index == index) to = txn->savepoints[count - 1];
  kv_batch_rollback(txn->batch, to.mark);
  txn->rowid_known = false;
  if (txn->options_changed) txn->table->options_stale = true;
}

static void with_guests(struct colfam_txn *txn, int index,
                        void (*apply)(struct colfam_txn *txn, int index)) {
  struct colfam_table *table = txn->table->conn->tables;
  struct colfam_txn *guest;
  if (colfam_conn_is_inherited(txn->table->conn)) return;
  apply(txn, index);
  while ((guest = next_guest(txn, &table))) apply(guest, index);
}

void colfam_txn_savepoint(struct colfam_txn *txn, int index) {
  with_guests(txn, index, push_savepoint);
}

void colfam_txn_release(struct colfam_txn *txn, int index) {
  with_guests(txn, index, drop_savepoints);
}

void colfam_txn_rollback_to(struct colfam_txn *txn, int index) {
  with_guests(txn, index, rollback_to);
}

/* ---- Jobs
**
** A job's output is published by xSync and may have to give way before the commit succeeds: to a compaction
** after a flush, or because it took the batch in and the batch has changed since a COMMIT that failed. The
** jobs of a transaction are a list, the newest is the one that counts; the older ones are kept, since their
** rows may stand in t_cffile until the end. */

static const struct kv_edit *edit_of(const struct colfam_txn *txn) {
  return txn->jobs ? kv_job_edit(txn->jobs->job) : NULL;
}

/* Whether the job that counts holds what the transaction has written, so that the log need not. */
static bool takes_batch(const struct colfam_txn *txn) {
  return txn->jobs && txn->jobs->takes_batch &&
         txn->jobs->batch_version == kv_batch_version(txn->batch);
}

/* seq, nonce and generation once; the row count as it is now. */
static void number_row(struct colfam_txn *txn) {
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
  if (with_batch) number_row(txn);
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
  return txn->jobs && edit_of(txn)->flushes &&
         (txn->jobs->kind == KV_JOB_COMPACT || kind == KV_JOB_FLUSH) &&
         edit_of(txn)->flushed_seq >= kv_view_log(txn->base)->last_seq;
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
  if (status != KV_OK) return table_error(txn, status, &err, message);
  if (!txn->jobs->older && is_idle(txn->base, edit_of(txn))) free_jobs(txn, false);
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
  if (fits) {
    colfam_jobs_give(table->store, offer);
  } else {
    offer->next = txn->stale;
    txn->stale = offer;
  }
  return rc;
}

static int adopt_offers(struct colfam_txn *txn, char **message) {
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

/* Whether flushes and merges can be left to the thread: there is one, and the runs are not too many. */
static bool thread_keeps_up(const struct colfam_txn *txn) {
  return colfam_worker_threads() > 0 && kv_view_run_count(txn->base) < RUNS_HARD_MAX;
}

static struct due due_work(const struct colfam_txn *txn) {
  uint64_t budget = txn->table->options.kv.memtable_bytes;
  uint64_t bytes = kv_view_log_bytes(txn->base) + kv_batch_data_bytes(txn->batch);
  enum kv_work work = kv_view_work(txn->base);
  bool writes = kv_batch_count(txn->batch) > 0;
  bool compacts = work == KV_WORK_COMPACT && !thread_keeps_up(txn);
  struct due due = {.kind = compacts ? KV_JOB_COMPACT : KV_JOB_FLUSH};
  if (txn->jobs) {
    due.kind = txn->jobs->kind;
    due.with_batch = writes && txn->jobs->takes_batch;
    due.job = txn->jobs->takes_batch && !takes_batch(txn);
  } else if (writes && !is_crowded(bytes, budget)) {
    due.with_batch = bytes >= 2 * budget;
    due.job = due.with_batch || work != KV_WORK_NONE;
  }
  if (!txn->has_command || takes_batch(txn)) return due;
  bool compact = txn->command == KV_JOB_COMPACT || due.kind == KV_JOB_COMPACT;
  return (struct due){true, writes, compact ? KV_JOB_COMPACT : KV_JOB_FLUSH};
}

static int encode_row(struct colfam_txn *txn, char **message) {
  uint64_t seal = kv_log_row_seal(&txn->row);
  bool same = txn->encoded_version == kv_batch_version(txn->batch) && txn->encoded_seal == seal;
  if (txn->encoded.size && same) return SQLITE_OK;
  struct kv_err err = {0};
  kv_buf_clear(&txn->encoded);
  kv_status status = kv_batch_encode_sealed(txn->batch, txn->table->catalog.uuid, txn->row.seq,
                                            seal, &txn->encoded, &err);
  if (status != KV_OK) return table_error(txn, status, &err, message);
  txn->encoded_version = kv_batch_version(txn->batch);
  txn->encoded_seal = seal;
  txn->row.batch = kv_buf_slice(&txn->encoded);
  return SQLITE_OK;
}

/* A log row longer than SQLite takes (sqlite3_limit) goes straight into a run, as a transaction of many small
** rows must. */
static int spare_length(struct colfam_txn *txn, struct due *due, char **message) {
  if (due->with_batch || kv_batch_count(txn->batch) == 0 || takes_batch(txn)) return SQLITE_OK;
  number_row(txn);
  int rc = encode_row(txn, message);
  size_t limit = (size_t)sqlite3_limit(txn->table->conn->db, SQLITE_LIMIT_LENGTH, -1);
  if (rc == SQLITE_OK && txn->encoded.size + LOG_ROW_OVERHEAD > limit)
    due->job = due->with_batch = true;
  return rc;
}

/* ---- The thread
**
** It computes what is due from the newest committed view (worker.h), and a later commit adopts it. A commit
** does a piece of the work itself only at the hard limits: when log and batch pass twice the budget, where
** it first waits for a flush that is under way, or when there are RUNS_HARD_MAX runs. */

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
  int rc = adopt_offers(txn, message);
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
static void work_ahead(struct colfam_table *table) {
  struct kv_view *view = colfam_worker_threads() > 0 ? colfam_cached_view(&table->cached) : NULL;
  if (!view) return;
  struct kv_work_ahead work = kv_view_work_ahead(view);
  if (work.flush) give_work(table, view, KV_JOB_FLUSH);
  if (work.merge) give_work(table, view, KV_JOB_MERGE);
  kv_view_unref(view);
}

/* A failing job is no reason to refuse the commit, as long as nobody asked for it, none stands in t_cffile
** already, and the log is below twice its budget: the next commit tries again. */
static int do_due_work(struct colfam_txn *txn, char **message) {
  struct due due = due_work(txn);
  int rc = await_flush(txn, &due, message);
  if (rc == SQLITE_OK) rc = spare_length(txn, &due, message);
  if (rc != SQLITE_OK) return rc;
  if (!due.job || leaves_work(txn, &due)) return adopt_offers(txn, message);
  struct kv_err err = {0};
  kv_status status = run_job(txn, due.kind, due.with_batch, &err);
  bool free_to_fail = !txn->jobs && !txn->has_command;
  if (status != KV_OK && free_to_fail && due.kind == KV_JOB_COMPACT)
    status = run_job(txn, KV_JOB_FLUSH, due.with_batch, &err);
  uint64_t limit = 2 * txn->table->options.kv.memtable_bytes;
  if (status == KV_OK || (free_to_fail && kv_view_log_bytes(txn->base) < limit)) return SQLITE_OK;
  return table_error(txn, status, &err, message);
}

/* ---- xSync */

/* The inputs are still live when t_cfmeta says what the base view or one of our own edits says. Only a write
** to the shadow tables from outside can make it otherwise. */
static int check_inputs(struct colfam_txn *txn, struct colfam_meta *meta, char **message) {
  int rc = colfam_catalog_read_meta(&txn->table->catalog, meta, message);
  if (rc != SQLITE_OK) return rc;
  const struct kv_log_state *base = kv_view_log(txn->base);
  const struct colfam_flushed *now = &meta->flushed;
  bool known = now->seq == base->flushed_seq && now->nonce == base->flushed_nonce;
  for (const struct colfam_job *job = txn->jobs; job && !known; job = job->older) {
    const struct kv_edit *edit = kv_job_edit(job->job);
    known = now->seq == edit->flushed_seq && now->nonce == edit->flushed_nonce;
  }
  if (known) return SQLITE_OK;
  return colfam_error(message, SQLITE_CORRUPT_VTAB, "table %s: %s_cfmeta was changed from outside",
                      txn->table->catalog.label, txn->table->catalog.table);
}

/* Takes back what older jobs may have put into t_cffile and taken from it. */
static int restore_files(struct colfam_txn *txn, char **message) {
  struct colfam_catalog *catalog = &txn->table->catalog;
  int rc = SQLITE_OK;
  for (struct colfam_job *job = txn->jobs->older; job && rc == SQLITE_OK; job = job->older)
    rc = colfam_catalog_unpublish(catalog, kv_job_edit(job->job), message);
  size_t count = txn->jobs->older ? kv_view_file_count(txn->base) : 0;
  for (size_t i = 0; i < count && rc == SQLITE_OK; i++)
    rc = colfam_catalog_put_file(catalog, kv_view_file(txn->base, i), message);
  return rc;
}

/* Whether more than one database is written to, or nobody knows: an authorizer may hide the list. */
static int note_span(struct colfam_txn *txn, char **message) {
  sqlite3 *db = txn->table->conn->db;
  sqlite3_stmt *names;
  int rc = sqlite3_prepare_v2(db, "PRAGMA database_list", -1, &names, NULL), writing = 0;
  while (rc == SQLITE_OK && sqlite3_step(names) == SQLITE_ROW) {
    const char *name = (const char *)sqlite3_column_text(names, 1);
    writing += name && sqlite3_txn_state(db, name) == SQLITE_TXN_WRITE;
  }
  if (rc == SQLITE_OK) rc = sqlite3_finalize(names);
  txn->spans = writing != 1;
  return rc == SQLITE_OK || rc == SQLITE_AUTH ? SQLITE_OK
                                              : colfam_error(message, rc, "%s", sqlite3_errmsg(db));
}

static int publish(struct colfam_txn *txn, char **message) {
  if (!txn->jobs) return SQLITE_OK;
  struct colfam_catalog *catalog = &txn->table->catalog;
  struct colfam_meta meta;
  int rc = note_span(txn, message);
  if (rc == SQLITE_OK) rc = check_inputs(txn, &meta, message);
  colfam_kill_point("publish");
  if (rc == SQLITE_OK) rc = restore_files(txn, message);
  if (rc == SQLITE_OK)
    rc = colfam_catalog_publish(catalog, &meta, txn->base, edit_of(txn), message);
  colfam_kill_point("published");
  return rc;
}

/* The log row: there when the batch has something that no run holds, else gone. */
static int write_row(struct colfam_txn *txn, char **message) {
  struct colfam_catalog *catalog = &txn->table->catalog;
  if (kv_batch_count(txn->batch) == 0 || takes_batch(txn)) {
    if (!txn->row_written) return SQLITE_OK;
    int rc = colfam_catalog_delete_log(catalog, txn->row.seq, message);
    if (rc == SQLITE_OK) txn->row_written = false;
    return rc;
  }
  number_row(txn);
  int rc = encode_row(txn, message);
  colfam_kill_point("sync-log");
  txn->row_written = true;
  if (rc == SQLITE_OK) rc = colfam_catalog_put_log(catalog, &txn->row, message);
  colfam_kill_point("sync-logged");
  return rc;
}

static int trim(struct colfam_txn *txn, char **message) {
  struct colfam_table *table = txn->table;
  uint64_t flushed = kv_view_log(txn->base)->flushed_seq;
  if (txn->jobs) flushed = edit_of(txn)->flushed_seq;
  if (!table->dead_rows && !txn->jobs) return SQLITE_OK;
  int deleted = 0;
  int rc = colfam_catalog_trim_log(&table->catalog, flushed, TRIM_ROWS, &deleted, message);
  if (rc == SQLITE_OK) table->dead_rows = deleted == TRIM_ROWS;
  return rc;
}

/* DDL of this transaction may have been undone with its savepoint, or have moved the table: then the shadow
** tables are asked where it is. */
static int find_table(struct colfam_txn *txn, char **message) {
  struct colfam_table *table = txn->table;
  bool found = true, may_be_gone = txn->created || txn->dropped;
  int rc = SQLITE_OK;
  if (may_be_gone || table->renamed) rc = colfam_catalog_find(&table->catalog, &found, message);
  txn->gone = !found;
  if (rc != SQLITE_OK || found || may_be_gone) return rc;
  return colfam_error(message, SQLITE_CORRUPT_VTAB,
                      "table %s: its shadow tables are not to be found", table->catalog.label);
}

static int sync_writes(struct colfam_txn *txn, char **message) {
  int rc = SQLITE_OK;
  bool writes = kv_batch_count(txn->batch) > 0;
  rc = do_due_work(txn, message);
  /* An INSERT of one row comes last, so that changes() is 1 after every commit of writes. */
  if (rc == SQLITE_OK && (writes || txn->jobs)) rc = trim(txn, message);
  if (rc == SQLITE_OK) rc = publish(txn, message);
  if (rc == SQLITE_OK) rc = write_row(txn, message);
  return rc;
}

static bool has_changes(const struct colfam_txn *txn) {
  return kv_batch_count(txn->batch) || txn->jobs || txn->row_written || txn->has_command;
}

static int sync_table(struct colfam_txn *txn, char **message) {
  int rc = find_table(txn, message);
  if (rc == SQLITE_OK && !txn->gone) rc = check_access(txn->table, message);
  if (rc == SQLITE_OK && !txn->gone) rc = colfam_table_settle_options(txn->table, message);
  if (rc != SQLITE_OK || txn->gone) return rc;
  colfam_kill_point("sync");
  sqlite3 *db = txn->table->conn->db;
  sqlite3_int64 last_rowid = sqlite3_last_insert_rowid(db);
  rc = sync_writes(txn, message);
  sqlite3_set_last_insert_rowid(db, last_rowid);
  colfam_sweep_queue(txn->table);
  txn->reclaims = txn->jobs || colfam_store_has_removals(txn->table->store);
  if (rc == SQLITE_OK && txn->reclaims) rc = colfam_reclaim_note_journal(txn->table, message);
  colfam_kill_point("synced");
  return rc;
}

/* ---- Guests */

/* A table that no vtab object uses must not hold statements: closing the connection would fail. */
static int sync_guest(struct colfam_txn *guest, char **message) {
  int rc = guest->poisoned ? SQLITE_NOMEM : sync_table(guest, message);
  if (guest->table->vtab_count == 0) colfam_catalog_close(&guest->table->catalog);
  return rc;
}

/* What guests have published may stand or be undone by now: it is written again. */
static int sync_guests(const struct colfam_txn *host, char **message) {
  struct colfam_table *table = host->table->conn->tables;
  struct colfam_txn *guest;
  int rc = SQLITE_OK;
  while (rc == SQLITE_OK && (guest = next_guest(host, &table)))
    if (has_changes(guest)) rc = sync_guest(guest, message);
  return rc;
}

/* The transaction on the table, begun when there is none; NULL when the table is gone. */
static int transaction_on(struct colfam_txn *host, const uint8_t uuid[16], struct colfam_txn **txn,
                          char **message) {
  const struct colfam_table *own = host->table;
  struct colfam_table *table;
  *txn = NULL;
  int rc = colfam_table_by_uuid(own->conn, own->catalog.database, uuid, &table, message);
  if (rc != SQLITE_OK || !table) return rc;
  if (!table->txn) {
    rc = colfam_txn_begin(table, false, message);
    if (rc == SQLITE_OK) table->txn->host = host;
    if (rc != SQLITE_OK) colfam_table_rest(table);
  }
  *txn = table->txn;
  return rc;
}

static void forget_offers(struct colfam_txn *host, const uint8_t uuid[16]) {
  struct colfam_offer *offer;
  while ((offer = colfam_jobs_take_any(host->table->store, uuid))) {
    offer->next = host->stale;
    host->stale = offer;
  }
}

/* Codes after which SQLite has rolled back, or is about to: they end the commit (invariant 6). */
static bool ends_commit(int rc) {
  int primary = rc & 0xff;
  return primary == SQLITE_NOMEM || primary == SQLITE_IOERR || primary == SQLITE_FULL ||
         primary == SQLITE_INTERRUPT;
}

/* A table in trouble keeps its offers and does not fail the commit of another, as long as nothing of it has
** been written. One that has changes of its own sees to its offers itself. */
static int publish_for(struct colfam_txn *host, const uint8_t uuid[16], char **message) {
  struct colfam_txn *txn;
  struct colfam_meta meta;
  int rc = transaction_on(host, uuid, &txn, message);
  if (txn && has_changes(txn)) return SQLITE_OK;
  if (rc == SQLITE_OK && txn) rc = adopt_offers(txn, message);
  if (rc == SQLITE_OK && txn && txn->jobs) rc = check_inputs(txn, &meta, message);
  if (rc == SQLITE_OK && !txn) forget_offers(host, uuid);
  if (rc == SQLITE_OK && txn) return has_changes(txn) ? sync_guest(txn, message) : SQLITE_OK;
  if (rc == SQLITE_OK || ends_commit(rc)) return rc;
  if (txn) free_jobs(txn, true);
  sqlite3_free(*message);
  *message = NULL;
  return SQLITE_OK;
}

/* Publishes what waits for other tables of the same file. In a shared cache somebody may have locked their
** shadow tables, and a commit must not fail for that (invariant 4). */
static int publish_others(struct colfam_txn *host, char **message) {
  const struct colfam_table *own = host->table;
  uint8_t uuid[16];
  const uint8_t *after = NULL;
  int rc = SQLITE_OK;
  if (colfam_store_shares_cache(own->store)) return SQLITE_OK;
  while (rc == SQLITE_OK && colfam_jobs_next(own->store, after, uuid)) {
    after = uuid;
    if (memcmp(uuid, own->catalog.uuid, sizeof uuid) != 0) rc = publish_for(host, uuid, message);
  }
  return rc;
}

int colfam_txn_sync(struct colfam_txn *txn, char **message) {
  int rc = colfam_conn_refuse_fork(txn->table->conn, message);
  if (rc != SQLITE_OK) return rc;
  if (txn->poisoned) return SQLITE_NOMEM;
  bool writes = has_changes(txn);
  if (writes) colfam_worker_fetch(txn->table->store);
  if (writes) rc = sync_table(txn, message);
  if (rc != SQLITE_OK || txn->host) return rc;
  rc = sync_guests(txn, message);
  if (rc == SQLITE_OK && writes && !txn->gone) rc = publish_others(txn, message);
  return rc;
}

/* ---- The end */

/* The cached view moves on in place only if nobody else's commit came between (invariant 1). */
static void advance_view(struct colfam_txn *txn) {
  struct colfam_table *table = txn->table;
  unsigned now;
  bool known = colfam_table_data_version(table, &now) == SQLITE_OK;
  if (!txn->row_written && !txn->jobs) return;
  colfam_table_forget_view(table);
  struct kv_view *next = NULL;
  bool has_row = txn->row_written || (txn->jobs && txn->jobs->takes_batch);
  if (kv_view_advance(txn->base, has_row ? &txn->row : NULL, edit_of(txn), &next, NULL) != KV_OK)
    return;
  if (known && now == txn->data_version + 1)
    colfam_table_set_view(table, next, now);
  else
    kv_view_unref(next);
}

static void commit_table(struct colfam_txn *txn) {
  struct colfam_table *table = txn->table;
  colfam_kill_point("commit");
  if (txn->options_changed) table->options_stale = true;
  advance_view(txn);
  if (txn->jobs) {
    const struct kv_edit *edit = edit_of(txn);
    kv_job_keep_files(txn->jobs->job);
    colfam_reclaim_add(table->store, table->family, edit->removed, edit->removed_count);
    colfam_store_want_sweep(table->store);
  }
  work_ahead(table);
  bool reclaims = txn->reclaims || txn->stale;
  txn_free(txn, false);
  if (reclaims) colfam_reclaim_run(table);
  colfam_kill_point("committed");
}

/* A COMMIT over several databases that fails half way rolls back those too whose commit stands already, when
** journals do not tie them together (WAL): the outputs may be named for good. */
static void doubt_files(struct colfam_txn *txn) {
  for (const struct colfam_job *job = txn->jobs; job; job = job->older) {
    const struct kv_edit *edit = kv_job_edit(job->job);
    kv_job_keep_files(job->job);
    for (size_t i = 0; i < edit->added_count; i++)
      colfam_reclaim_doubt(txn->table->store, txn->table->family, edit->added[i].id);
  }
}

/* give_back: what it has published without a commit may be published later. */
static void rollback_table(struct colfam_txn *txn, bool give_back) {
  if (txn->options_changed) txn->table->options_stale = true;
  if (txn->row_written || txn->jobs) colfam_table_forget_view(txn->table);
  if (txn->spans) doubt_files(txn);
  txn_free(txn, give_back && !txn->spans);
}

static void commit_or_drop(struct colfam_txn *txn) {
  struct colfam_table *table = txn->table;
  if (txn->gone)
    rollback_table(txn, false);
  else
    commit_table(txn);
  if (table->vtab_count == 0) colfam_table_rest(table);
}

void colfam_txn_commit(struct colfam_txn *txn) {
  if (colfam_conn_is_inherited(txn->table->conn)) return;
  struct colfam_table *table = txn->table->conn->tables;
  struct colfam_txn *guest;
  while ((guest = next_guest(txn, &table))) commit_or_drop(guest);
  commit_or_drop(txn);
}

void colfam_txn_rollback(struct colfam_txn *txn) {
  if (colfam_conn_is_inherited(txn->table->conn)) return;
  struct colfam_table *table = txn->table->conn->tables;
  struct colfam_txn *guest;
  while ((guest = next_guest(txn, &table))) {
    struct colfam_table *of_guest = guest->table;
    rollback_table(guest, true);
    if (of_guest->vtab_count == 0) colfam_table_rest(of_guest);
  }
  rollback_table(txn, true);
}
