/* The write transaction of one table: the pending batch, its savepoints, and what xSync, xCommit and
** xRollback do with it (ext/README.md, Transaction map).
**
** Its base view is taken at the first write, under SQLite's write lock: nobody can commit before it ends,
** so reads inside it are base view + batch and never look at the shadow tables, where its own rows may
** already stand (engine/README.md, invariants 1 Own row and 3 Own publish). What does not fit into the batch
** goes into private files (txn_spill.h).
**
** A commit that writes also publishes the work that waits for its database file (jobs.h). Work on a table
** that the transaction does not write begins a transaction of that table as a guest: SQLite does not know
** of it, so it gets its callbacks from its host, the transaction that began it. */
#ifndef COLFAM_TXN_H
#define COLFAM_TXN_H

#include <stdbool.h>

#include "engine/kv.h"
#include "doubt.h"
#include "sqlite_api.h"
#include "table.h"
#include "txn_spill.h"

struct colfam_txn {
  struct colfam_table *table;
  struct kv_view *base; /* what is committed */
  struct colfam_layer bottom, *top;
  struct kv_view
      *view; /* of the top, what reads see below the batch: the base until something is spilled */
  struct kv_batch *batch; /* of the top */
  uint64_t moves;         /* changes of the top */
  unsigned data_version;  /* under the write lock */

  struct colfam_savepoint *savepoints;
  int savepoint_count, savepoint_capacity;

  bool created;         /* CREATE VIRTUAL TABLE is part of this transaction */
  bool dropped;         /* DROP TABLE is, so far: DROP in a savepoint can be rolled back (drop.h) */
  bool options_changed; /* by a command: what memory holds may be undone */
  bool poisoned;        /* a savepoint could not be recorded: only ROLLBACK is left */

  /* The next rowid to assign; 0 = not known. */
  bool rowid_known;
  sqlite3_int64 rowid_max;

  struct colfam_job *jobs; /* newest first; the newest's edit is published by xSync */
  struct colfam_offer
      *stale;              /* taken to be published, but their inputs are gone: freed at the end */
  struct colfam_txn *host; /* a guest's; NULL: SQLite calls */
  bool has_command;        /* flush or compact was asked for after writes: xSync runs it */
  enum kv_job_kind command;

  /* Fixed when first needed, kept until the end (invariant 1); seq follows the private runs. */
  struct kv_log_row row;
  struct kv_buf encoded;
  uint64_t encoded_version;
  uint64_t encoded_seal;
  uint64_t encoded_seq;
  bool row_written; /* a row may stand in t_cflog, at: */
  uint64_t row_seq;
  struct colfam_doubt doubt;
  bool reclaims; /* the last xSync noted what this commit proves for removals */
  bool gone;     /* the last xSync found no shadow tables: nothing is committed */
};

/* Begins it when the table has none. xBegin and xCreate call this under SQLite's write lock. */
int colfam_txn_begin(struct colfam_table *table, bool created, char **message);
/* xSync: writes everything in absolute terms; may be called again after more writes. */
int colfam_txn_sync(struct colfam_txn *txn, char **message);
/* xCommit: memory follows; cannot fail. Frees the transaction. */
void colfam_txn_commit(struct colfam_txn *txn);
/* xRollback. Frees the transaction. */
void colfam_txn_rollback(struct colfam_txn *txn);

/* Looks up the keys of what was put without a look (kv_batch_put_uncounted), so that the batch's row count is
** right. */
int colfam_txn_count_rows(struct colfam_txn *txn, char **message);

/* Savepoints by SQLite's index (the mark of exactly that index, or the start of the transaction). */
void colfam_txn_savepoint(struct colfam_txn *txn, int index);
void colfam_txn_release(struct colfam_txn *txn, int index);
void colfam_txn_rollback_to(struct colfam_txn *txn, int index);

/* The commands flush and compact: what they do goes out with this commit and includes what the transaction
** writes. */
int colfam_txn_command(struct colfam_txn *txn, enum kv_job_kind kind, char **message);

#endif
