/* See txn_spill.h. A run is written when the batch is full, and somewhat before at the start of a statement:
** then its savepoint is at the batch's end and simply moves on to the new layer, and nothing needs to be kept
** for it. Runs get seqs above the last commit's, in their order; the commit takes that of the newest. */
#include "txn_spill.h"

#include <string.h>

#include "killpoint.h"
#include "txn.h"
#include "txn_work.h"

/* Of the batch's budget: how full a batch is spilled before its first write behind a savepoint, and how much
** of one a savepoint keeps in memory. */
#define EARLY(budget) ((budget) - (budget) / 4)
#define KEPT(budget) ((budget) / 8)

static uint64_t batch_bytes = 67108864;

uint64_t colfam_batch_bytes(void) {
  return __atomic_load_n(&batch_bytes, __ATOMIC_RELAXED);
}

void colfam_set_batch_bytes(uint64_t bytes) {
  __atomic_store_n(&batch_bytes, bytes, __ATOMIC_RELAXED);
}

bool colfam_spill_has(const struct colfam_txn *txn) {
  return txn->top->below != NULL;
}

bool colfam_txn_writes(const struct colfam_txn *txn) {
  return colfam_spill_has(txn) || kv_batch_count(txn->batch) > 0;
}

uint64_t colfam_txn_version(const struct colfam_txn *txn) {
  return (txn->moves << 40) + kv_batch_version(txn->batch);
}

static void set_top(struct colfam_txn *txn, struct colfam_layer *layer) {
  txn->top = layer;
  txn->view = layer->view;
  txn->batch = layer->batch;
  txn->moves++;
}

/* ---- Layers */

static void layer_release(struct colfam_txn *txn, struct colfam_layer *layer) {
  while (layer->images) {
    struct colfam_layer *image = layer->images;
    layer->images = image->next;
    layer_release(txn, image);
    sqlite3_free(image);
  }
  kv_batch_unref(layer->batch);
  kv_view_unref(layer->view); /* before the files that it names */
  while (layer->jobs) {
    struct colfam_layer_job *job = layer->jobs;
    layer->jobs = job->next;
    colfam_work_end_job(txn, job->job);
    sqlite3_free(job);
  }
}

static void layer_free(struct colfam_txn *txn, struct colfam_layer *layer) {
  layer_release(txn, layer);
  sqlite3_free(layer);
}

static kv_status new_batch(const struct colfam_txn *txn, struct colfam_layer *layer,
                           struct kv_err *err) {
  struct kv_family *family = txn->table->family;
  kv_status status = kv_batch_new(kv_family_stats(family), &layer->batch, err);
  if (status != KV_OK) return status;
  kv_batch_order_by(layer->batch, kv_family_comparator(family));
  layer->start = kv_batch_mark(layer->batch);
  return KV_OK;
}

kv_status colfam_spill_begin(struct colfam_txn *txn, struct kv_err *err) {
  txn->bottom.view = kv_view_ref(txn->base);
  kv_status status = new_batch(txn, &txn->bottom, err);
  if (status == KV_OK) set_top(txn, &txn->bottom);
  return status;
}

/* Runs the job to its end; the layer owns it then. Frees it after a failure. Its files need no lock: only who
** has SQLite's write lock judges what is left behind, and that is this transaction; its own sweep leaves
** what a view names. */
static kv_status add_job(struct colfam_layer *layer, kv_status status, struct kv_job *job,
                         struct kv_err *err) {
  struct colfam_layer_job *made = NULL;
  bool done = false;
  while (status == KV_OK && !done) status = kv_job_step(job, &done, err);
  if (status == KV_OK && !(made = sqlite3_malloc64(sizeof *made))) status = kv_fail_nomem(err);
  if (status != KV_OK) {
    kv_job_free(job);
    return status;
  }
  kv_job_let_go(job);
  kv_job_unlock_files(job);
  *made = (struct colfam_layer_job){layer->jobs, job};
  layer->jobs = made;
  return KV_OK;
}

/* The committed log becomes a run of its own, so that private runs have only files below them. *view is the
** view to go on with, referenced. */
static kv_status flush_log(struct colfam_layer *layer, struct kv_view *base, struct kv_view **view,
                           struct kv_err *err) {
  const struct kv_log_state *log = kv_view_log(base);
  struct kv_job *job = NULL;
  *view = NULL;
  if (log->last_seq == log->flushed_seq) {
    *view = kv_view_ref(base);
    return KV_OK;
  }
  kv_status status = kv_job_new(base, KV_JOB_FLUSH, &job, err);
  status = add_job(layer, status, job, err);
  return status == KV_OK ? kv_view_overlay(base, kv_job_edit(job), kv_view_rows(base), view, err)
                         : status;
}

static kv_status write_run(struct colfam_txn *txn, struct colfam_layer *layer, struct kv_view *base,
                           struct kv_batch *batch, struct kv_err *err) {
  int64_t rows = kv_view_rows(base);
  struct kv_log_row row = {.seq = kv_view_log(base)->last_seq + 1,
                           .nonce = colfam_work_nonce(txn),
                           .rows = rows < 0 ? -1 : rows + kv_batch_rows_delta(batch)};
  struct kv_job *job = NULL;
  kv_status status = kv_job_new_commit(base, KV_JOB_FLUSH, batch, &row, &job, err);
  status = add_job(layer, status, job, err);
  colfam_kill_point("spill");
  return status == KV_OK ? kv_view_overlay(base, kv_job_edit(job), row.rows, &layer->view, err)
                         : status;
}

/* A layer over `below` as it is now. */
static kv_status make_layer(struct colfam_txn *txn, struct colfam_layer *below,
                            struct colfam_layer **layer, struct kv_err *err) {
  struct kv_view *base = NULL;
  struct colfam_layer *made = sqlite3_malloc64(sizeof *made);
  if (!made) return kv_fail_nomem(err);
  memset(made, 0, sizeof *made);
  made->below = below;
  kv_status status = kv_count_rows(below->view, below->batch, err);
  if (status == KV_OK) status = flush_log(made, below->view, &base, err);
  if (status == KV_OK) status = write_run(txn, made, base, below->batch, err);
  if (status == KV_OK) status = new_batch(txn, made, err);
  kv_view_unref(base);
  if (status == KV_OK)
    *layer = made;
  else
    layer_free(txn, made);
  return status;
}

/* ---- Savepoints */

struct colfam_savepoint colfam_spill_mark(const struct colfam_txn *txn, int index) {
  return (struct colfam_savepoint){index, txn->top, kv_batch_mark(txn->batch),
                                   kv_batch_version(txn->batch), kv_batch_bytes(txn->batch)};
}

/* The newest savepoint in the layer's batch, or NULL. */
static struct colfam_savepoint *newest_in(const struct colfam_txn *txn,
                                          const struct colfam_layer *layer) {
  for (int i = txn->savepoint_count; i > 0; i--)
    if (txn->savepoints[i - 1].layer == layer) return &txn->savepoints[i - 1];
  return NULL;
}

/* Savepoints at one place of a layer's batch move to the start of another layer, which has that state. */
static void move_savepoints(struct colfam_txn *txn, const struct colfam_layer *from,
                            uint64_t version, struct colfam_layer *to) {
  for (int i = 0; i < txn->savepoint_count; i++) {
    struct colfam_savepoint *savepoint = &txn->savepoints[i];
    if (savepoint->layer != from || savepoint->version != version) continue;
    savepoint->layer = to;
    savepoint->mark = to->start;
    savepoint->version = kv_batch_version(to->batch);
    savepoint->bytes = 0;
  }
}

static void free_unused_images(struct colfam_txn *txn, struct colfam_layer *layer) {
  struct colfam_layer **link = &layer->images;
  while (*link) {
    struct colfam_layer *image = *link;
    if (newest_in(txn, image)) {
      link = &image->next;
    } else {
      *link = image->next;
      layer_free(txn, image);
    }
  }
}

/* A layer below the top needs its batch up to its newest savepoint only. */
static void tidy_layer(struct colfam_txn *txn, struct colfam_layer *layer) {
  const struct colfam_savepoint *newest = newest_in(txn, layer);
  kv_batch_rollback(layer->batch, newest ? newest->mark : layer->start);
  free_unused_images(txn, layer);
}

void colfam_spill_tidy(struct colfam_txn *txn) {
  for (struct colfam_layer *layer = txn->top->below; layer; layer = layer->below)
    tidy_layer(txn, layer);
}

static bool is_on_stack(const struct colfam_txn *txn, const struct colfam_layer *layer) {
  const struct colfam_layer *at = txn->top;
  while (at && at != layer) at = at->below;
  return at != NULL;
}

static void unwind(struct colfam_txn *txn, const struct colfam_layer *layer) {
  struct colfam_layer *at = txn->top;
  if (at == layer) return;
  while (at != layer) {
    struct colfam_layer *below = at->below;
    layer_free(txn, at);
    at = below;
  }
  set_top(txn, at);
}

/* The image takes the place of what is above its layer. */
static void push_image(struct colfam_txn *txn, struct colfam_layer *image) {
  struct colfam_layer **link = &image->below->images;
  unwind(txn, image->below);
  while (*link != image) link = &(*link)->next;
  *link = image->next;
  image->next = NULL;
  set_top(txn, image);
}

void colfam_spill_rollback(struct colfam_txn *txn, struct colfam_savepoint *to) {
  if (is_on_stack(txn, to->layer))
    unwind(txn, to->layer);
  else
    push_image(txn, to->layer);
  kv_batch_rollback(txn->batch, to->mark);
  to->version = kv_batch_version(txn->batch);
  colfam_spill_tidy(txn);
}

/* ---- Spilling */

/* What savepoints need of a layer that has got another one above it. What cannot be written stays in memory.
** */
static void save_images(struct colfam_txn *txn, struct colfam_layer *layer) {
  struct colfam_savepoint *newest;
  size_t kept = KEPT(colfam_batch_bytes());
  tidy_layer(txn, layer);
  while ((newest = newest_in(txn, layer)) && newest->bytes > kept) {
    struct colfam_layer *image;
    if (make_layer(txn, layer, &image, NULL) != KV_OK) return;
    image->next = layer->images;
    layer->images = image;
    move_savepoints(txn, layer, newest->version, image);
    tidy_layer(txn, layer);
  }
}

/* ---- Layers become one */

static bool has_state(const struct colfam_txn *txn, const struct colfam_layer *layer) {
  return layer->images || newest_in(txn, layer) || !layer->below;
}

/* The newest layer below the top to which a savepoint may lead back. */
static struct colfam_layer *newest_needed(const struct colfam_txn *txn) {
  struct colfam_layer *layer = txn->top->below;
  while (layer && !has_state(txn, layer)) layer = layer->below;
  return layer;
}

static bool is_named(const struct kv_view *view, const struct kv_edit *edit) {
  for (size_t i = 0; i < edit->added_count; i++)
    if (kv_view_names_file(view, edit->added[i].id)) return true;
  return false;
}

/* Jobs of which no file is needed any more go, with the files. */
static void end_jobs(struct colfam_txn *txn, struct colfam_layer *layer) {
  struct colfam_layer_job **link = &layer->jobs;
  while (*link) {
    struct colfam_layer_job *job = *link;
    if (is_named(layer->view, kv_job_edit(job->job))) {
      link = &job->next;
    } else {
      *link = job->next;
      colfam_work_end_job(txn, job->job);
      sqlite3_free(job);
    }
  }
}

/* The layers below the top, down to the first that ends below commit `oldest`, become part of it. */
static void absorb(struct colfam_txn *txn, uint64_t oldest) {
  struct colfam_layer *top = txn->top;
  while (kv_view_log(top->below->view)->last_seq >= oldest) {
    struct colfam_layer *layer = top->below;
    struct colfam_layer_job **link = &top->jobs;
    while (*link) link = &(*link)->next;
    *link = layer->jobs;
    layer->jobs = NULL;
    top->below = layer->below;
    layer_free(txn, layer);
  }
  end_jobs(txn, top);
}

/* Merges runs of like size that no savepoint keeps apart. What cannot be merged stays as it is. */
static void join_layers(struct colfam_txn *txn) {
  struct colfam_layer *top = txn->top;
  for (kv_status status = KV_OK; status == KV_OK;) {
    struct kv_view *view = NULL;
    struct kv_job *job = NULL;
    uint64_t oldest, needed = kv_view_log(newest_needed(txn)->view)->last_seq;
    status = kv_job_new_tier(top->view, needed, &oldest, &job, NULL);
    if (status != KV_OK || !job) return;
    status = add_job(top, status, job, NULL);
    if (status == KV_OK)
      status = kv_view_overlay(top->view, kv_job_edit(job), kv_view_rows(top->view), &view, NULL);
    if (status != KV_OK) return;
    kv_view_unref(top->view);
    top->view = view;
    set_top(txn, top);
    absorb(txn, oldest);
  }
}

kv_status colfam_spill(struct colfam_txn *txn, struct kv_err *err) {
  struct colfam_layer *below = txn->top;
  struct colfam_layer *layer = NULL;
  kv_status status = make_layer(txn, below, &layer, err);
  if (status != KV_OK) return status;
  kv_stats_add(kv_family_stats(txn->table->family), KV_STAT_SPILLS, 1);
  move_savepoints(txn, below, kv_batch_version(below->batch), layer);
  set_top(txn, layer);
  save_images(txn, below);
  join_layers(txn);
  return KV_OK;
}

/* Whether nothing has been written since the newest savepoint. */
static bool is_at_savepoint(const struct colfam_txn *txn) {
  const struct colfam_savepoint *newest = newest_in(txn, txn->top);
  return newest && newest->version == kv_batch_version(txn->batch);
}

int colfam_spill_if_full(struct colfam_txn *txn, char **message) {
  uint64_t bytes = kv_batch_bytes(txn->batch), budget = colfam_batch_bytes();
  if (bytes < EARLY(budget) || kv_batch_count(txn->batch) == 0) return SQLITE_OK;
  if (bytes < budget && !is_at_savepoint(txn)) return SQLITE_OK;
  struct kv_err err = {0};
  kv_status status = colfam_spill(txn, &err);
  return status == KV_OK ? SQLITE_OK : colfam_work_error(txn, status, &err, message);
}

/* ---- The end */

void colfam_spill_keep(struct colfam_txn *txn, const struct kv_edit *edit) {
  for (struct colfam_layer *layer = txn->top; layer->below; layer = layer->below)
    for (struct colfam_layer_job *job = layer->jobs; job; job = job->next)
      kv_job_keep_added(job->job, edit);
}

static void doubt_job(struct colfam_txn *txn, struct kv_job *job,
                      void (*fn)(struct colfam_txn *txn, uint64_t id)) {
  const struct kv_edit *edit = kv_job_edit(job);
  kv_job_keep_files(job);
  for (size_t i = 0; i < edit->added_count; i++) fn(txn, edit->added[i].id);
}

void colfam_spill_doubt(struct colfam_txn *txn, void (*fn)(struct colfam_txn *txn, uint64_t id)) {
  for (struct colfam_layer *layer = txn->top; layer->below; layer = layer->below)
    for (struct colfam_layer_job *job = layer->jobs; job; job = job->next)
      doubt_job(txn, job->job, fn);
}

void colfam_spill_end(struct colfam_txn *txn) {
  if (txn->top) unwind(txn, &txn->bottom);
  layer_release(txn, &txn->bottom);
}
