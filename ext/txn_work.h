/* Work on files inside a write transaction: jobs of its own, those that waited and are published with it, and
** how much of what is due a commit does itself (engine/README.md, invariants 3, 4 and 8).
** Thread rule: the connection's. */
#ifndef COLFAM_TXN_WORK_H
#define COLFAM_TXN_WORK_H

#include <stdbool.h>

#include "jobs.h"
#include "txn.h"

/* A job whose result a commit records. */
struct colfam_part {
  struct colfam_part *older; /* what it was put on */
  struct kv_job *job;
  struct colfam_offer *offer; /* its owner; NULL: made by this transaction */
};

/* What a commit would record: one job, or several, each fitting over those before it, over what the
** transaction has spilled. */
struct colfam_job {
  struct colfam_job *older;
  struct colfam_part *parts; /* newest first; none when only what was spilled is recorded */
  enum kv_job_kind kind;
  bool takes_batch; /* what was written up to `version` is in the files */
  uint64_t version;
  const struct kv_edit *edit;  /* the only part's own, or: */
  struct kv_edit *joined_edit; /* owned */
};

/* What the job that counts changes; NULL without one. */
const struct kv_edit *colfam_work_edit(const struct colfam_txn *txn);
/* Whether that job holds what the transaction has written, so that the log need not. */
bool colfam_work_takes_batch(const struct colfam_txn *txn);
/* The nonce of this transaction's commit. */
uint64_t colfam_work_nonce(struct colfam_txn *txn);
/* Gives the log row its numbers, and its batch. */
void colfam_work_number_row(struct colfam_txn *txn);
int colfam_work_encode_row(struct colfam_txn *txn, char **message);

/* What a log row of a batch of so many bytes takes of the database file, about: one that is not small leaves
** a quarter of a page free. */
uint64_t colfam_log_row_footprint(uint64_t bytes);

/* In xSync: does what this commit has to do, and adopts what waits, so that publishing is all that is left.
** */
int colfam_work_do(struct colfam_txn *txn, char **message);
/* Takes finished work that waits for the table and fits. */
int colfam_work_adopt(struct colfam_txn *txn, char **message);
/* Lets an offer go: it is freed, with its files, after the commit. NULL is allowed. */
void colfam_work_forget(struct colfam_txn *txn, struct colfam_offer *offer);
/* After a commit: gives the thread what is due. Without memory or a thread the next commits do it. */
void colfam_work_ahead(struct colfam_table *table);

/* The commit stands: the files that it names are no longer the jobs'. */
void colfam_work_keep(struct colfam_txn *txn);
/* For all files of jobs, when it is not known whether it stands. */
void colfam_work_doubt(struct colfam_txn *txn, void (*fn)(struct colfam_txn *txn, uint64_t id));
/* Work that was offered goes back to where it came from, if wanted. */
void colfam_work_free(struct colfam_txn *txn, bool give_back);
/* Frees a job; of its files those that somebody still reads go later. */
void colfam_work_end_job(struct colfam_txn *txn, struct kv_job *job);
void colfam_work_free_stale(struct colfam_txn *txn);

int colfam_work_error(struct colfam_txn *txn, kv_status status, const struct kv_err *err,
                      char **message);

#endif
