/* Transactions that are larger than a batch may be (colfam_config('batch_bytes')). What has been written so
** far goes into a run of files that only this transaction names, and an empty batch goes on. All reads see
** the batch, then the view that has these private runs in front of the committed files.
**
** So the state of a transaction is a stack of layers, a view and the batch written over it each. A savepoint
** is a place in the batch of a layer: rolling back to it drops the layers above with their runs. A layer
** below the top keeps of its batch what its newest savepoint needs, in memory when that is little, else as
** an image: a layer beside the stack, with a run of its own, that takes the place of those above at a
** rollback. Layers between which there is no savepoint become one as soon as four of their runs are of like
** size, so that reads ask few. Thread rule: the connection's. */
#ifndef COLFAM_TXN_SPILL_H
#define COLFAM_TXN_SPILL_H

#include <stdbool.h>

#include "engine/kv.h"
#include "sqlite_api.h"

struct colfam_txn;

/* A job that has made private files of a layer, and owns them. */
struct colfam_layer_job {
  struct colfam_layer_job *next;
  struct kv_job *job;
};

struct colfam_layer {
  struct colfam_layer *below;  /* NULL: the bottom */
  struct colfam_layer *images; /* of this layer at savepoints, not on the stack */
  struct colfam_layer *next;   /* image of the same layer */
  struct colfam_layer_job *jobs;
  struct kv_view *view;       /* what is committed and the private runs up to here */
  struct kv_batch *batch;     /* written over it */
  struct kv_batch_mark start; /* of the empty batch */
};

/* A place in a batch. Savepoints ascend by index and up the stack. */
struct colfam_savepoint {
  int index;
  struct colfam_layer *layer;
  struct kv_batch_mark mark;
  uint64_t version; /* of the batch, when the savepoint was made */
  size_t bytes;     /* of the batch, likewise */
};

/* The setting batch_bytes. Any thread. */
#define COLFAM_BATCH_BYTES_MIN 4096
uint64_t colfam_batch_bytes(void);
void colfam_set_batch_bytes(uint64_t bytes);

/* The bottom layer of a transaction that has its base view. */
kv_status colfam_spill_begin(struct colfam_txn *txn, struct kv_err *err);
/* Before a write: spills when the batch is full. A failure leaves everything as it was. */
int colfam_spill_if_full(struct colfam_txn *txn, char **message);
/* Makes the batch a private run now. */
kv_status colfam_spill(struct colfam_txn *txn, struct kv_err *err);
/* Whether there are private runs. */
bool colfam_spill_has(const struct colfam_txn *txn);
/* Whether anything is written. */
bool colfam_txn_writes(const struct colfam_txn *txn);
/* Tells any two states of what is written apart. */
uint64_t colfam_txn_version(const struct colfam_txn *txn);

/* The place to roll back to, now. */
struct colfam_savepoint colfam_spill_mark(const struct colfam_txn *txn, int index);
void colfam_spill_rollback(struct colfam_txn *txn, struct colfam_savepoint *to);
/* Savepoints have gone: what only they needed goes too. */
void colfam_spill_tidy(struct colfam_txn *txn);

/* The commit stands: the files that it names are no longer the layers'. */
void colfam_spill_keep(struct colfam_txn *txn, const struct kv_edit *edit);
/* For all layers' files, when it is not known whether it stands. */
void colfam_spill_doubt(struct colfam_txn *txn, void (*fn)(struct colfam_txn *txn, uint64_t id));
/* Frees all layers, with their files but for those that are kept. */
void colfam_spill_end(struct colfam_txn *txn);

#endif
