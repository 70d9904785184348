/* See txn.h. The life of a transaction:
**
**   begin -> writes and savepoints -> sync -> commit
**                    ^                 |
**                    +---- BUSY -------+-> rollback
**
** sync writes: the job's edit, then the log row, then a bounded trim of dead log rows. All of it is
** absolute, so that running it again, or after a ROLLBACK TO that undid it, gives the same rows. The
** write lock is held from begin on, so the base view stays the newest committed state throughout. */
#include "txn.h"

#include <string.h>

#include "error.h"
#include "killpoint.h"
#include "reclaim.h"

/* Dead log rows that a commit deletes (invariant 9). */
#define TRIM_ROWS 4

struct colfam_savepoint {
  int index;
  struct kv_batch_mark mark;
};

static int table_error(struct colfam_txn *txn, kv_status status, const struct kv_err *err,
                       char **message) {
  return colfam_error_of(message, txn->table->catalog.table, status, err);
}

static void txn_free(struct colfam_txn *txn) {
  txn->table->txn = NULL;
  txn->table->renamed = false;
  kv_job_free(txn->job);
  kv_job_free(txn->replaced);
  kv_batch_unref(txn->batch);
  kv_view_unref(txn->base);
  kv_buf_release(&txn->encoded);
  sqlite3_free(txn->savepoints);
  sqlite3_free(txn);
}

/* The base view of a table that may be written to, with the commit's statements prepared. */
static int take_base(struct colfam_table *table, struct kv_view **base, char **message) {
  int rc = colfam_table_view(table, base, message);
  if (rc != SQLITE_OK) return rc;
  if (table->writable)
    rc = colfam_catalog_prepare_writes(&table->catalog, message);
  else
    rc = colfam_error(message, SQLITE_READONLY,
                      "table %s: written by a newer colfam: this library may read it, not write it",
                      table->catalog.table);
  if (rc != SQLITE_OK) kv_view_unref(*base);
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
  if (rc != SQLITE_OK) txn_free(txn);
  return rc;
}

/* ---- Savepoints */

static void drop_savepoints(struct colfam_txn *txn, int index) {
  while (txn->savepoint_count && txn->savepoints[txn->savepoint_count - 1].index >= index)
    txn->savepoint_count--;
}

void colfam_txn_savepoint(struct colfam_txn *txn, int index) {
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

void colfam_txn_release(struct colfam_txn *txn, int index) {
  drop_savepoints(txn, index);
}

void colfam_txn_rollback_to(struct colfam_txn *txn, int index) {
  drop_savepoints(txn, index + 1);
  struct colfam_savepoint to = {index, txn->start};
  int count = txn->savepoint_count;
  if (count && txn->savepoints[count - 1].index == index) to = txn->savepoints[count - 1];
  kv_batch_rollback(txn->batch, to.mark);
  txn->rowid_known = false;
  if (txn->options_changed) txn->table->options_stale = true;
}

/* ---- Jobs */

static kv_status run_job(struct kv_view *view, enum kv_job_kind kind, struct kv_job **job,
                         struct kv_err *err) {
  kv_status status = kv_job_new(view, kind, job, err);
  bool done = false;
  while (status == KV_OK && !done) status = kv_job_step(*job, &done, err);
  colfam_kill_point("job");
  if (status == KV_OK) return KV_OK;
  kv_job_free(*job);
  *job = NULL;
  return status;
}

static bool is_idle(const struct kv_view *base, const struct kv_edit *edit) {
  return !edit->added_count && !edit->removed_count &&
         edit->flushed_seq == kv_view_log(base)->flushed_seq;
}

/* A second command has the same base: after a compaction there is nothing left to do, and a flush gives
** way to a compaction. Its file rows may stand in t_cffile since a COMMIT that failed, so it is remembered
** until the end. */
int colfam_txn_run_job(struct colfam_txn *txn, enum kv_job_kind kind, char **message) {
  if (txn->job && (txn->job_kind == KV_JOB_COMPACT || kind == KV_JOB_FLUSH)) return SQLITE_OK;
  struct kv_err err = {0};
  struct kv_job *job = NULL;
  kv_status status = run_job(txn->base, kind, &job, &err);
  if (status != KV_OK) return table_error(txn, status, &err, message);
  if (is_idle(txn->base, kv_job_edit(job))) {
    kv_job_free(job);
    return SQLITE_OK;
  }
  txn->replaced = txn->job;
  txn->job = job;
  txn->job_kind = kind;
  return SQLITE_OK;
}

/* What a commit owes to the log budget (invariant 8). A failing job is no reason to refuse the commit, as
** long as the log is below twice its budget: the next commit tries again. */
static int do_due_work(struct colfam_txn *txn, char **message) {
  enum kv_work work = kv_view_work(txn->base);
  if (txn->job || work == KV_WORK_NONE) return SQLITE_OK;
  struct kv_err err = {0};
  txn->job_kind = work == KV_WORK_COMPACT ? KV_JOB_COMPACT : KV_JOB_FLUSH;
  kv_status status = run_job(txn->base, txn->job_kind, &txn->job, &err);
  if (status != KV_OK && work == KV_WORK_COMPACT) {
    txn->job_kind = KV_JOB_FLUSH;
    status = run_job(txn->base, KV_JOB_FLUSH, &txn->job, &err);
  }
  uint64_t limit = 2 * txn->table->options.kv.memtable_bytes;
  if (status == KV_OK || kv_view_log_bytes(txn->base) < limit) return SQLITE_OK;
  return table_error(txn, status, &err, message);
}

/* ---- xSync */

/* The inputs are still live when t_cfmeta says what the base view or our own edit says. Only a write to the
** shadow tables from outside can make it otherwise. */
static int check_inputs(struct colfam_txn *txn, char **message) {
  struct colfam_meta meta;
  int rc = colfam_catalog_read_meta(&txn->table->catalog, &meta, message);
  if (rc != SQLITE_OK) return rc;
  const struct kv_log_state *base = kv_view_log(txn->base);
  const struct kv_edit *edit = kv_job_edit(txn->job);
  bool before = meta.flushed_seq == base->flushed_seq && meta.flushed_nonce == base->flushed_nonce;
  bool after = meta.flushed_seq == edit->flushed_seq && meta.flushed_nonce == edit->flushed_nonce;
  if (before || after) return SQLITE_OK;
  return colfam_error(message, SQLITE_CORRUPT_VTAB, "table %s: %s_cfmeta was changed from outside",
                      txn->table->catalog.table, txn->table->catalog.table);
}

static int publish(struct colfam_txn *txn, char **message) {
  if (!txn->job) return SQLITE_OK;
  int rc = check_inputs(txn, message);
  colfam_kill_point("publish");
  if (rc == SQLITE_OK && txn->replaced)
    rc = colfam_catalog_unpublish(&txn->table->catalog, kv_job_edit(txn->replaced), message);
  if (rc == SQLITE_OK)
    rc = colfam_catalog_publish(&txn->table->catalog, kv_job_edit(txn->job), message);
  colfam_kill_point("published");
  return rc;
}

/* seq, nonce and generation, once. */
static void number_row(struct colfam_txn *txn) {
  if (txn->numbered) return;
  const struct kv_log_state *log = kv_view_log(txn->base);
  uint64_t gen = kv_view_gen(txn->base);
  if (gen == 0 || kv_view_gen_bytes(txn->base) >= txn->table->options.kv.memtable_bytes) gen++;
  txn->row.seq = log->last_seq + 1;
  txn->row.gen = gen;
  sqlite3_randomness(sizeof txn->row.nonce, &txn->row.nonce);
  txn->numbered = true;
}

static int encode_row(struct colfam_txn *txn, char **message) {
  if (txn->encoded.size && txn->encoded_version == kv_batch_version(txn->batch)) return SQLITE_OK;
  struct kv_err err = {0};
  kv_buf_clear(&txn->encoded);
  kv_status status =
      kv_batch_encode(txn->batch, txn->table->catalog.uuid, txn->row.seq, &txn->encoded, &err);
  if (status != KV_OK) return table_error(txn, status, &err, message);
  txn->encoded_version = kv_batch_version(txn->batch);
  int64_t rows = kv_view_rows(txn->base);
  bool tracked = txn->table->options.track_rows && rows >= 0;
  txn->row.rows = tracked ? rows + kv_batch_rows_delta(txn->batch) : -1;
  txn->row.batch = kv_buf_slice(&txn->encoded);
  return SQLITE_OK;
}

/* The log row: there when the batch has something, else gone. */
static int write_row(struct colfam_txn *txn, char **message) {
  struct colfam_catalog *catalog = &txn->table->catalog;
  if (kv_batch_count(txn->batch) == 0) {
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
  if (txn->job) flushed = kv_job_edit(txn->job)->flushed_seq;
  if (!table->dead_rows && !txn->job) return SQLITE_OK;
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
  if (may_be_gone || table->renamed) rc = colfam_catalog_find(&table->catalog, &found);
  txn->gone = !found;
  if (rc != SQLITE_OK || found || may_be_gone) return rc;
  return colfam_error(message, SQLITE_CORRUPT_VTAB,
                      "table %s: its shadow tables are not to be found", table->catalog.table);
}

static int sync_writes(struct colfam_txn *txn, char **message) {
  int rc = SQLITE_OK;
  bool writes = kv_batch_count(txn->batch) > 0;
  if (writes) rc = do_due_work(txn, message);
  if (rc == SQLITE_OK) rc = publish(txn, message);
  if (rc == SQLITE_OK) rc = write_row(txn, message);
  if (rc == SQLITE_OK && (writes || txn->job)) rc = trim(txn, message);
  return rc;
}

int colfam_txn_sync(struct colfam_txn *txn, char **message) {
  if (txn->poisoned) return SQLITE_NOMEM;
  if (kv_batch_count(txn->batch) == 0 && !txn->job && !txn->row_written) return SQLITE_OK;
  int rc = find_table(txn, message);
  if (rc == SQLITE_OK && !txn->gone) rc = colfam_table_settle_options(txn->table, message);
  if (rc != SQLITE_OK || txn->gone) return rc;
  colfam_kill_point("sync");
  sqlite3 *db = txn->table->conn->db;
  sqlite3_int64 last_rowid = sqlite3_last_insert_rowid(db);
  rc = sync_writes(txn, message);
  sqlite3_set_last_insert_rowid(db, last_rowid);
  txn->reclaims = txn->job || colfam_reclaim_pending(txn->table->store);
  if (rc == SQLITE_OK && txn->reclaims) rc = colfam_reclaim_note_journal(txn->table, message);
  colfam_kill_point("synced");
  return rc;
}

/* ---- The end */

/* The cached view moves on in place only if nobody else's commit came between (invariant 1). */
static void advance_view(struct colfam_txn *txn) {
  struct colfam_table *table = txn->table;
  unsigned now;
  bool known = colfam_table_data_version(table, &now) == SQLITE_OK;
  if (!txn->row_written && !txn->job) return;
  colfam_table_forget_view(table);
  struct kv_view *next = NULL;
  const struct kv_edit *edit = txn->job ? kv_job_edit(txn->job) : NULL;
  if (kv_view_advance(txn->base, txn->row_written ? &txn->row : NULL, edit, &next, NULL) != KV_OK)
    return;
  if (known && now == txn->data_version + 1)
    colfam_table_set_view(table, next, now);
  else
    kv_view_unref(next);
}

void colfam_txn_commit(struct colfam_txn *txn) {
  struct colfam_table *table = txn->table;
  if (txn->gone) {
    colfam_txn_rollback(txn);
    return;
  }
  colfam_kill_point("commit");
  if (txn->options_changed) table->options_stale = true;
  advance_view(txn);
  if (txn->job) {
    const struct kv_edit *edit = kv_job_edit(txn->job);
    kv_job_keep_files(txn->job);
    colfam_reclaim_add(table->store, table->family, edit->removed, edit->removed_count);
  }
  bool reclaims = txn->reclaims;
  txn_free(txn);
  if (reclaims) colfam_reclaim_run(table);
  colfam_kill_point("committed");
}

void colfam_txn_rollback(struct colfam_txn *txn) {
  if (txn->options_changed) txn->table->options_stale = true;
  txn_free(txn);
}
