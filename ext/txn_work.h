/* Work on files inside a write transaction: jobs of its own, those that waited and are published with it, and
** how much of what is due a commit does itself (engine/README.md, invariants 3, 4 and 8).
** Thread rule: the connection's. */
#ifndef COLFAM_TXN_WORK_H
#define COLFAM_TXN_WORK_H

#include <stdbool.h>

#include "jobs.h"
#include "txn.h"

/* One of a transaction's jobs. */
struct colfam_job {
  struct colfam_job *older;
  struct kv_job *job;
  enum kv_job_kind kind;
  bool takes_batch; /* the run holds the batch as it was at batch_version */
  uint64_t batch_version;
  struct colfam_offer
      *offer; /* that it was before, the job's owner; NULL: made by this transaction */
};

/* What the job that counts changes; NULL without one. */
const struct kv_edit *colfam_work_edit(const struct colfam_txn *txn);
/* Whether that job holds what the transaction has written, so that the log need not. */
bool colfam_work_takes_batch(const struct colfam_txn *txn);
/* Gives the log row its numbers, and its batch. */
void colfam_work_number_row(struct colfam_txn *txn);
int colfam_work_encode_row(struct colfam_txn *txn, char **message);

/* In xSync: does what this commit has to do, and adopts what waits, so that publishing is all that is left.
** */
int colfam_work_do(struct colfam_txn *txn, char **message);
/* Takes finished work that waits for the table and fits. */
int colfam_work_adopt(struct colfam_txn *txn, char **message);
/* Lets an offer go: it is freed, with its files, after the commit. NULL is allowed. */
void colfam_work_forget(struct colfam_txn *txn, struct colfam_offer *offer);
/* After a commit: gives the thread what is due. Without memory or a thread the next commits do it. */
void colfam_work_ahead(struct colfam_table *table);

/* Work that was offered goes back to where it came from, if wanted. */
void colfam_work_free(struct colfam_txn *txn, bool give_back);
void colfam_work_free_stale(struct colfam_txn *txn);

int colfam_work_error(struct colfam_txn *txn, kv_status status, const struct kv_err *err,
                      char **message);

#endif
