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
#include "orders_test.h"
#include "reclaim.h"
#include "sweep.h"
#include "txn_work.h"
#include "worker.h"

/* Dead log rows that a commit deletes at the most (invariant 9). */
#define TRIM_ROWS 4
/* This part of the log budget may be added before any is deleted. */
#define TRIM_SHARE 16

static void txn_free(struct colfam_txn *txn, bool give_back) {
  txn->table->txn = NULL;
  txn->table->renamed = false;
  colfam_work_free(txn, give_back);
  colfam_work_free_stale(txn);
  colfam_spill_end(txn);
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
  if (rc != SQLITE_OK) return rc;
  rc = colfam_table_read_meta(table, message);
  if (rc == SQLITE_OK && table->writable) return rc;
  kv_view_unref(*base);
  if (rc != SQLITE_OK) return rc;
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
  kv_status status = colfam_spill_begin(txn, &err);
  rc = status == KV_OK ? colfam_table_data_version(table, &txn->data_version)
                       : colfam_work_error(txn, status, &err, message);
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

int colfam_txn_count_rows(struct colfam_txn *txn, char **message) {
  struct kv_err err;
  kv_err_init(&err);
  kv_status status = kv_count_rows(txn->view, txn->batch, &err);
  return status == KV_OK ? SQLITE_OK : colfam_work_error(txn, status, &err, message);
}

/* ---- Savepoints */

static void drop_savepoints(struct colfam_txn *txn, int index) {
  bool below = false;
  while (txn->savepoint_count && txn->savepoints[txn->savepoint_count - 1].index >= index)
    below = txn->savepoints[--txn->savepoint_count].layer != txn->top || below;
  if (below) colfam_spill_tidy(txn);
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
  txn->savepoints[txn->savepoint_count++] = colfam_spill_mark(txn, index);
}

static void rollback_to(struct colfam_txn *txn, int index) {
  struct colfam_savepoint start = {index, &txn->bottom, txn->bottom.start, 0, 0};
  drop_savepoints(txn, index + 1);
  int count = txn->savepoint_count;
  bool found = count && txn->savepoints[count - 1].index == index;
  colfam_spill_rollback(txn, found ? &txn->savepoints[count - 1] : &start);
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
    const struct kv_edit *edit = job->edit;
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
    rc = colfam_catalog_unpublish(catalog, job->edit, message);
  size_t count = txn->jobs->older ? kv_view_file_count(txn->base) : 0;
  for (size_t i = 0; i < count && rc == SQLITE_OK; i++)
    rc = colfam_catalog_put_file(catalog, kv_view_file(txn->base, i), message);
  return rc;
}

static int publish(struct colfam_txn *txn, char **message) {
  if (!txn->jobs) return SQLITE_OK;
  struct colfam_catalog *catalog = &txn->table->catalog;
  struct colfam_meta meta;
  int rc = check_inputs(txn, &meta, message);
  colfam_kill_point("publish");
  if (rc == SQLITE_OK) rc = colfam_doubt_note(txn->table, &txn->doubt, message);
  if (rc == SQLITE_OK) rc = restore_files(txn, message);
  if (rc == SQLITE_OK)
    rc = colfam_catalog_publish(catalog, &meta, txn->base, colfam_work_edit(txn), message);
  colfam_kill_point("published");
  return rc;
}

static int delete_row(struct colfam_txn *txn, char **message) {
  if (!txn->row_written) return SQLITE_OK;
  int rc = colfam_catalog_delete_log(&txn->table->catalog, txn->row_seq, message);
  if (rc == SQLITE_OK) txn->row_written = false;
  return rc;
}

/* The log row: there when the batch has something that no run holds, else gone. */
static int write_row(struct colfam_txn *txn, char **message) {
  struct colfam_catalog *catalog = &txn->table->catalog;
  if (kv_batch_count(txn->batch) == 0 || colfam_work_takes_batch(txn))
    return delete_row(txn, message);
  colfam_work_number_row(txn);
  int rc = txn->row_seq == txn->row.seq ? SQLITE_OK : delete_row(txn, message);
  if (rc == SQLITE_OK) rc = colfam_work_encode_row(txn, message);
  if (rc != SQLITE_OK) return rc;
  colfam_kill_point("sync-log");
  txn->row_written = true;
  txn->row_seq = txn->row.seq;
  rc = colfam_catalog_put_log(catalog, &txn->row, message);
  colfam_kill_point("sync-logged");
  return rc;
}

/* Deletes dead rows, about as much as the commit adds to the log, and not many more rows than it has: their
** pages are used again for that, so the database file grows by no more than the log has had at most. A row
** too many, once, and from then on freed pages are not those that are used: where SQLite fills them with
** zeros, all is written twice. */
static int trim(struct colfam_txn *txn, char **message) {
  struct colfam_table *table = txn->table;
  uint64_t flushed = kv_view_log(txn->base)->flushed_seq;
  if (txn->jobs) flushed = colfam_work_edit(txn)->flushed_seq;
  if (!table->dead_rows && !txn->jobs) return SQLITE_OK;
  bool logs = kv_batch_count(txn->batch) && !colfam_work_takes_batch(txn);
  int64_t added = (int64_t)colfam_log_row_footprint(txn->encoded.size);
  int64_t behind = (int64_t)(table->options.kv.memtable_bytes / TRIM_SHARE);
  int64_t trimmed = logs ? table->trimmed - added : INT64_MIN / 2;
  uint64_t rows = TRIM_ROWS + (logs ? kv_batch_count(txn->batch) : 0);
  int rc = SQLITE_OK;
  table->dead_rows = true;
  if (behind > added / 2) behind = added / 2;
  for (; rows && trimmed <= -behind && table->dead_rows && rc == SQLITE_OK; rows--) {
    uint64_t bytes;
    rc = colfam_catalog_trim_log(&table->catalog, flushed, &table->dead_rows, &bytes, message);
    trimmed += (int64_t)colfam_log_row_footprint(bytes);
  }
  table->trimmed = logs && table->dead_rows ? trimmed : 0;
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

/* Keys that an application's order does not tell apart are refused before they are written, in test builds.
** */
static int check_order(struct colfam_txn *txn, char **message) {
  if (!COLFAM_ORDERS_TEST_COMMITS) return SQLITE_OK;
  struct kv_err err;
  kv_err_init(&err);
  kv_status status = kv_check_order(txn->base, txn->batch, &err);
  return status == KV_OK ? SQLITE_OK : colfam_work_error(txn, status, &err, message);
}

static int sync_writes(struct colfam_txn *txn, char **message) {
  bool writes = colfam_txn_writes(txn);
  int rc = colfam_txn_count_rows(txn, message);
  if (rc == SQLITE_OK && writes) rc = check_order(txn, message);
  if (rc == SQLITE_OK) rc = colfam_work_do(txn, message);
  /* An INSERT of one row comes last, so that changes() is 1 after every commit of writes. */
  if (rc == SQLITE_OK && (writes || txn->jobs)) rc = trim(txn, message);
  if (rc == SQLITE_OK) rc = publish(txn, message);
  if (rc == SQLITE_OK) rc = write_row(txn, message);
  return rc;
}

static bool has_changes(const struct colfam_txn *txn) {
  return colfam_txn_writes(txn) || txn->jobs || txn->row_written || txn->has_command;
}

/* What this commit sweeps and proves. */
static int sync_removals(struct colfam_txn *txn, char **message) {
  colfam_sweep_queue(txn->table);
  txn->reclaims = txn->jobs || colfam_store_has_removals(txn->table->store);
  return txn->reclaims ? colfam_reclaim_note_journal(txn->table, message) : SQLITE_OK;
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
  if (rc == SQLITE_OK) rc = sync_removals(txn, message);
  colfam_kill_point("synced");
  return rc;
}

/* A command that changed an option, and nothing else. */
static int sync_options(struct colfam_txn *txn, char **message) {
  int rc = find_table(txn, message);
  return rc == SQLITE_OK && !txn->gone ? sync_removals(txn, message) : rc;
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
  while ((offer = colfam_jobs_take_any(host->table->store, uuid))) colfam_work_forget(host, offer);
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
  if (rc == SQLITE_OK && txn) rc = colfam_work_adopt(txn, message);
  if (rc == SQLITE_OK && txn && txn->jobs) rc = check_inputs(txn, &meta, message);
  if (rc == SQLITE_OK && !txn) forget_offers(host, uuid);
  if (rc == SQLITE_OK && txn) return has_changes(txn) ? sync_guest(txn, message) : SQLITE_OK;
  if (rc == SQLITE_OK || ends_commit(rc)) return rc;
  if (txn) colfam_work_free(txn, true);
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
  if (writes)
    rc = sync_table(txn, message);
  else if (txn->options_changed && !txn->dropped)
    rc = sync_options(txn, message);
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
  if (txn->jobs) table->known.sealed = false;
  struct kv_view *next = NULL;
  bool has_row = txn->row_written || (txn->jobs && txn->jobs->takes_batch);
  txn->row.writes = txn->row_written ? txn->batch : NULL;
  if (kv_view_advance(txn->base, has_row ? &txn->row : NULL, colfam_work_edit(txn), &next, NULL) !=
      KV_OK)
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
  if (txn->row_written)
    kv_stats_add(kv_family_stats(table->family), KV_STAT_LOG_BYTES, txn->row.batch.size);
  advance_view(txn);
  if (txn->jobs) {
    const struct kv_edit *edit = colfam_work_edit(txn);
    colfam_work_keep(txn);
    colfam_reclaim_add(table->store, table->family, edit->removed, edit->removed_count);
    colfam_store_want_sweep(table->store);
  }
  colfam_work_ahead(table);
  bool reclaims = txn->reclaims || txn->stale;
  txn_free(txn, false);
  if (reclaims) colfam_reclaim_run(table);
  colfam_kill_point("committed");
}

static void doubt_file(struct colfam_txn *txn, uint64_t id) {
  colfam_reclaim_doubt(txn->table->store, txn->table->family, id);
}

/* The outputs may be named for good. */
static void doubt_files(struct colfam_txn *txn) {
  colfam_store_want_sweep(txn->table->store);
  colfam_work_doubt(txn, doubt_file);
  colfam_spill_doubt(txn, doubt_file);
}

/* What it has published without a commit may be published later. */
static void rollback_table(struct colfam_txn *txn) {
  bool doubtful = colfam_doubt_remains(txn->table, &txn->doubt);
  if (txn->options_changed) txn->table->options_stale = true;
  if (txn->row_written || txn->jobs) colfam_table_forget_view(txn->table);
  if (doubtful) doubt_files(txn);
  txn_free(txn, !doubtful);
}

/* Of a table that the commit has found gone. */
static void drop_changes(struct colfam_txn *txn) {
  if (txn->row_written || txn->jobs) colfam_table_forget_view(txn->table);
  txn_free(txn, false);
}

static void commit_or_drop(struct colfam_txn *txn) {
  struct colfam_table *table = txn->table;
  if (txn->gone)
    drop_changes(txn);
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
    rollback_table(guest);
    if (of_guest->vtab_count == 0) colfam_table_rest(of_guest);
  }
  rollback_table(txn);
}
