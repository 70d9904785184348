/* Jobs: a flush (memtables to one run at level 0), a compaction (memtables and runs to one run at level 1)
** and a merge (runs to one run at level 1). A job reads an immutable view and writes new files; what it
** changes it says in an edit, which the caller publishes or not (invariant 3).
**
** Phases, a bounded step at a time:
**
**   MERGE   the newest entry of every key goes to the writer. A tombstone goes along unless nothing older
**           than the output exists: never in a compaction or merge, which take every run, and in a
**           flush only when the view has runs. Outputs are cut by size, so a key is in one file only.
**   VERIFY  every output is opened and read back whole (kv_table_verifier).
**   DONE    entries and digest of what was handed to the writers equal those read back.
**
** A failure ends the job: only kv_job_free is left, which unlinks the outputs. The job keeps its outputs
** locked for as long as it lives, so that nobody takes them for left behind before the caller knows whether
** they are named (invariant 5, Orphans).
** Thread rule: one thread at a time; the view may be shared. */
#include "compact.h"

#include <string.h>

#include "compact_pick.h"
#include "mem.h"
#include "merge.h"
#include "run_iter.h"
#include "view.h"

#define FILE_BYTES_DEFAULT (64u << 20)
#define STEP_BYTES_DEFAULT (1u << 20)

enum phase { PHASE_MERGE, PHASE_VERIFY, PHASE_DONE, PHASE_FAILED };

struct kv_job {
  struct kv_view *view;
  struct kv_batch *batch; /* of the commit that the output takes in, or NULL */
  enum kv_job_kind kind;
  enum phase phase;
  struct kv_table_config config; /* the family's, with its options of when the job began */
  uint64_t file_bytes_max;
  uint64_t step_bytes_max;
  bool keep_tombstones;
  struct kv_iter *input;          /* NULL when there is nothing to do */
  struct kv_table_writer *writer; /* of the output being written, or NULL */
  struct kv_digest emitted;       /* what was handed to writers */
  struct kv_digest read_back;
  uint64_t bytes_written;
  size_t verified;                    /* outputs read back */
  struct kv_table *output;            /* the one being read back, or NULL */
  struct kv_table_verifier *verifier; /* of it */
  uint64_t seq;                       /* of the newest commit in the output */
  struct kv_edit edit;
  struct kv_write_file **handles; /* of edit.added: they hold the locks */
  size_t added_capacity;
  bool files_kept;
  uint64_t entries_done;
  uint64_t entries_total;
};

/* ---- Input */

/* Commits that are in no file yet. */
static bool has_log(const struct kv_job *job) {
  const struct kv_log_state *log = &job->view->log.state;
  if (job->kind == KV_JOB_MERGE) return false;
  return job->batch || log->last_seq != log->flushed_seq;
}

static uint64_t count_tombstones(const struct kv_run *run) {
  uint64_t tombstones = 0;
  for (size_t i = 0; i < run->file_count; i++) tombstones += kv_sst_info(run->files[i])->tombstones;
  return tombstones;
}

static bool has_work(const struct kv_job *job) {
  const struct kv_view *view = job->view;
  if (has_log(job)) return true;
  if (job->kind == KV_JOB_FLUSH || view->run_count == 0) return false;
  return view->run_count > 1 || count_tombstones(&view->runs[0]) > 0;
}

static kv_status open_inputs(const struct kv_job *job, struct kv_iter **inputs, size_t *count,
                             struct kv_err *err) {
  const struct kv_view *view = job->view;
  const struct kv_log_window *log = &view->log;
  size_t runs = job->kind == KV_JOB_FLUSH ? 0 : view->run_count;
  size_t memtables = job->kind == KV_JOB_MERGE ? 0 : log->table_count;
  kv_status status = KV_OK;
  if (job->batch) {
    status = kv_batch_iter(job->batch, &inputs[*count], err);
    if (status == KV_OK) ++*count;
  }
  for (size_t i = 0; i < memtables && status == KV_OK; i++) {
    status = kv_memtable_iter(log->tables[i], log->window, &inputs[*count], err);
    if (status == KV_OK) ++*count;
  }
  for (size_t i = 0; i < runs && status == KV_OK; i++) {
    status = kv_run_iter(&view->runs[i], false, &inputs[*count], err);
    if (status == KV_OK) ++*count;
  }
  return status;
}

static kv_status open_input(struct kv_job *job, struct kv_err *err) {
  size_t count = 0;
  size_t count_max = 1 + job->view->log.table_count + job->view->run_count;
  struct kv_iter **inputs = kv_alloc(count_max, sizeof *inputs);
  if (!inputs) return kv_fail_nomem(err);
  kv_status status = open_inputs(job, inputs, &count, err);
  if (status == KV_OK) {
    status = kv_merge_new(inputs, count, &job->input, err);
  } else {
    for (size_t i = 0; i < count; i++) kv_iter_free(inputs[i]);
  }
  kv_free(inputs);
  return status;
}

/* About how many entries the input has: a compaction reads the files too. */
static uint64_t estimate_entries(const struct kv_job *job) {
  uint64_t entries = kv_view_entries_estimate(job->view);
  if (job->batch) entries += kv_batch_count(job->batch);
  for (size_t i = 0; job->kind == KV_JOB_FLUSH && i < job->view->file_count; i++) {
    entries -= kv_sst_info(job->view->files[i])->entries;
  }
  return entries;
}

/* ---- The edit */

/* A file that only a newer writer may work on is not rewritten. */
static kv_status check_writers(const struct kv_job *job, struct kv_err *err) {
  const struct kv_view *view = job->view;
  size_t count = job->kind == KV_JOB_FLUSH ? 0 : view->file_count;
  kv_status status = KV_OK;
  for (size_t i = 0; i < count && status == KV_OK; i++) {
    struct kv_table *table = NULL;
    status = kv_sst_table(view->files[i], &table, err);
    if (status == KV_OK) status = kv_table_check_writer(table, err);
  }
  return status;
}

static kv_status list_removed(struct kv_job *job, struct kv_err *err) {
  const struct kv_view *view = job->view;
  if (job->kind == KV_JOB_FLUSH || !view->file_count) return KV_OK;
  job->edit.removed = kv_alloc(view->file_count, sizeof *job->edit.removed);
  if (!job->edit.removed) return kv_fail_nomem(err);
  for (size_t i = 0; i < view->file_count; i++) {
    job->edit.removed[i] = kv_sst_info(view->files[i])->id;
  }
  job->edit.removed_count = view->file_count;
  return KV_OK;
}

/* Room for one more output, made before its file is, so that no file is ever without its record. */
static kv_status reserve_added(struct kv_job *job, struct kv_err *err) {
  if (job->edit.added_count < job->added_capacity) return KV_OK;
  size_t capacity = job->added_capacity ? 2 * job->added_capacity : 4;
  struct kv_file_info *added = kv_realloc(job->edit.added, capacity, sizeof *added);
  if (!added) return kv_fail_nomem(err);
  job->edit.added = added;
  struct kv_write_file **handles = kv_realloc(job->handles, capacity, sizeof *handles);
  if (!handles) return kv_fail_nomem(err);
  job->handles = handles;
  job->added_capacity = capacity;
  return KV_OK;
}

/* ---- Output */

static const char *kind_name(const struct kv_job *job) {
  return job->kind == KV_JOB_FLUSH ? "flush" : "compaction";
}

static struct kv_open_files *open_files(const struct kv_job *job) {
  return kv_cache_files(kv_family_cache(job->view->family));
}

static kv_status begin_file(struct kv_job *job, struct kv_err *err) {
  kv_status status = reserve_added(job, err);
  if (status == KV_OK) status = kv_table_writer_new(&job->config, &job->writer, err);
  return status;
}

static kv_status finish_file(struct kv_job *job, struct kv_err *err) {
  struct kv_file_info *info = &job->edit.added[job->edit.added_count];
  struct kv_digest digest = {0, 0};
  kv_file_info_init(info);
  kv_status status = kv_table_writer_finish(job->writer, info, &digest, err);
  if (status != KV_OK) {
    kv_file_info_release(info);
    return status;
  }
  info->level = job->kind == KV_JOB_FLUSH ? 0 : 1;
  info->seq = job->seq;
  job->handles[job->edit.added_count++] = kv_table_writer_take_file(job->writer);
  kv_open_files_hold(open_files(job));
  job->bytes_written += info->bytes;
  kv_table_writer_free(job->writer);
  job->writer = NULL;
  return KV_OK;
}

/* What the writer takes for misuse is then the input's fault: its blocks are checked one by one, not the
** order of all their keys. */
static kv_status add_to_file(struct kv_job *job, const struct kv_iter *entry, struct kv_err *err) {
  struct kv_err inner;
  kv_status status =
      kv_table_writer_add(job->writer, entry->key, entry->value, entry->deleted, &inner);
  if (status == KV_MISUSE)
    return kv_fail(err, KV_CORRUPT, "input of the %s up to commit %llu: %s", kind_name(job),
                   (unsigned long long)job->edit.flushed_seq, inner.text);
  if (status != KV_OK && err) *err = inner;
  return status;
}

static kv_status emit(struct kv_job *job, const struct kv_iter *entry, struct kv_err *err) {
  kv_status status = KV_OK;
  if (!job->writer) status = begin_file(job, err);
  if (status == KV_OK) status = add_to_file(job, entry, err);
  if (status != KV_OK) return status;
  kv_digest_add(&job->emitted, entry->key, entry->value, entry->deleted);
  if (kv_table_writer_bytes(job->writer) < job->file_bytes_max) return KV_OK;
  return finish_file(job, err);
}

static kv_status end_of_input(struct kv_job *job, struct kv_err *err) {
  if (job->input->status != KV_OK) {
    if (err) *err = job->input->err;
    return job->input->status;
  }
  kv_status status = job->writer ? finish_file(job, err) : KV_OK;
  kv_iter_free(job->input);
  job->input = NULL;
  kv_batch_unref(job->batch);
  job->batch = NULL;
  job->phase = PHASE_VERIFY;
  job->entries_total = job->entries_done; /* it was an estimate */
  return status;
}

/* ---- Steps */

static kv_status merge_step(struct kv_job *job, struct kv_err *err) {
  struct kv_iter *input = job->input;
  uint64_t bytes = 0;
  kv_status status = KV_OK;
  while (input->valid && bytes < job->step_bytes_max && status == KV_OK) {
    bytes += input->key.size + input->value.size + 1;
    if (!input->deleted || job->keep_tombstones) status = emit(job, input, err);
    job->entries_done++;
    if (status == KV_OK) kv_iter_next(input);
  }
  if (status == KV_OK && !input->valid) status = end_of_input(job, err);
  return status;
}

static kv_status compare_digests(const struct kv_job *job, struct kv_err *err) {
  const struct kv_digest *emitted = &job->emitted;
  const struct kv_digest *read = &job->read_back;
  if (emitted->entries == read->entries && emitted->sum == read->sum) return KV_OK;
  return kv_fail(
      err, KV_CORRUPT,
      "%s up to commit %llu: %llu entries (sum %016llx) were written, %llu (%016llx) read "
      "back",
      kind_name(job), (unsigned long long)job->edit.flushed_seq,
      (unsigned long long)emitted->entries, (unsigned long long)emitted->sum,
      (unsigned long long)read->entries, (unsigned long long)read->sum);
}

static kv_status open_output(struct kv_job *job, struct kv_err *err) {
  struct kv_family *family = job->view->family;
  kv_status status =
      kv_table_open(&job->config, &job->edit.added[job->verified], kv_family_cache(family),
                    kv_family_stats(family), &job->output, err);
  return status == KV_OK ? kv_table_verifier_new(job->output, &job->verifier, err) : status;
}

static void close_output(struct kv_job *job) {
  kv_table_verifier_free(job->verifier);
  kv_table_close(job->output);
  job->verifier = NULL;
  job->output = NULL;
}

static void end_output(struct kv_job *job) {
  const struct kv_digest *digest = kv_table_verifier_digest(job->verifier);
  job->read_back.entries += digest->entries;
  job->read_back.sum += digest->sum;
  job->verified++;
  close_output(job);
}

/* Reads on in the output that is next. */
static kv_status verify_output(struct kv_job *job, struct kv_err *err) {
  kv_status status = job->verifier ? KV_OK : open_output(job, err);
  if (status != KV_OK) return status;
  uint64_t begun = kv_table_verifier_bytes(job->verifier);
  bool done = false;
  while (status == KV_OK && !done &&
         kv_table_verifier_bytes(job->verifier) - begun < job->step_bytes_max)
    status = kv_table_verifier_step(job->verifier, &done, err);
  if (status == KV_OK && done) end_output(job);
  return status;
}

static void count_job(const struct kv_job *job) {
  struct kv_stats *stats = kv_family_stats(job->view->family);
  if (job->kind == KV_JOB_FLUSH) {
    kv_stats_add(stats, KV_STAT_FLUSHES, 1);
    kv_stats_add(stats, KV_STAT_FLUSH_BYTES, job->bytes_written);
    return;
  }
  uint64_t bytes_read = 0;
  for (size_t i = 0; i < job->view->file_count; i++) {
    bytes_read += kv_sst_info(job->view->files[i])->bytes;
  }
  kv_stats_add(stats, KV_STAT_COMPACTIONS, 1);
  kv_stats_add(stats, KV_STAT_COMPACT_BYTES_READ, bytes_read);
  kv_stats_add(stats, KV_STAT_COMPACT_BYTES_WRITTEN, job->bytes_written);
}

static kv_status verify_step(struct kv_job *job, struct kv_err *err) {
  kv_status status = KV_OK;
  if (job->verified < job->edit.added_count) status = verify_output(job, err);
  if (status != KV_OK || job->verified < job->edit.added_count) return status;
  status = compare_digests(job, err);
  if (status != KV_OK) return status;
  count_job(job);
  job->phase = PHASE_DONE;
  return KV_OK;
}

kv_status kv_job_step(struct kv_job *job, bool *done, struct kv_err *err) {
  kv_status status = KV_OK;
  *done = false;
  switch (job->phase) {
    case PHASE_MERGE:
      status = merge_step(job, err);
      break;
    case PHASE_VERIFY:
      status = verify_step(job, err);
      break;
    case PHASE_DONE:
      break;
    case PHASE_FAILED:
      return kv_fail(err, KV_MISUSE, "a job that failed cannot go on");
  }
  if (status != KV_OK) job->phase = PHASE_FAILED;
  *done = job->phase == PHASE_DONE;
  return status;
}

/* ---- Life */

static void set_config(struct kv_job *job) {
  struct kv_options options = kv_family_options(job->view->family);
  job->config = *kv_family_table_config(job->view->family);
  job->config.compression_level = options.compression_level;
  job->config.filter_bits = options.filter_bits;
  job->config.block_bytes = options.block_bytes;
}

static void set_flushed(struct kv_job *job, const struct kv_log_row *row) {
  const struct kv_view *view = job->view;
  if (job->kind == KV_JOB_MERGE) {
    job->seq = view->run_count ? view->runs[0].seq : 0;
    job->edit.rows = -1;
    kv_job_rebase(job, view);
    return;
  }
  job->edit.flushes = true;
  job->edit.flushed_seq = row ? row->seq : view->log.state.last_seq;
  job->edit.flushed_nonce = row ? row->nonce : view->log.state.last_nonce;
  job->edit.rows = row ? row->rows : view->rows;
  job->seq = job->edit.flushed_seq;
}

static uint64_t input_bytes(const struct kv_job *job) {
  uint64_t bytes = job->view->log.bytes;
  if (job->batch) bytes += kv_batch_data_bytes(job->batch);
  for (size_t i = 0; job->kind != KV_JOB_FLUSH && i < job->view->file_count; i++)
    bytes += kv_sst_info(job->view->files[i])->bytes;
  return bytes;
}

/* Every output keeps a descriptor for its lock until the job's end: there are not many, but large ones. */
static void set_file_bytes(struct kv_job *job) {
  size_t outputs = kv_open_files_limit(open_files(job));
  uint64_t share = input_bytes(job) / outputs;
  job->file_bytes_max = share > FILE_BYTES_DEFAULT ? share : FILE_BYTES_DEFAULT;
}

static kv_status job_start(struct kv_job *job, struct kv_err *err) {
  const struct kv_view *view = job->view;
  if (!has_work(job)) {
    job->phase = PHASE_DONE;
    return KV_OK;
  }
  set_config(job);
  set_file_bytes(job);
  job->keep_tombstones = job->kind == KV_JOB_FLUSH && view->run_count > 0;
  job->entries_total = estimate_entries(job);
  kv_status status = check_writers(job, err);
  if (status == KV_OK) status = list_removed(job, err);
  if (status == KV_OK) status = open_input(job, err);
  if (status == KV_OK) kv_iter_seek_first(job->input);
  return status;
}

kv_status kv_job_new(struct kv_view *view, enum kv_job_kind kind, struct kv_job **job,
                     struct kv_err *err) {
  return kv_job_new_commit(view, kind, NULL, NULL, job, err);
}

kv_status kv_job_new_commit(struct kv_view *view, enum kv_job_kind kind, struct kv_batch *batch,
                            const struct kv_log_row *row, struct kv_job **job, struct kv_err *err) {
  *job = NULL;
  if (row && row->seq <= view->log.state.last_seq)
    return kv_fail(err, KV_MISUSE, "commit %llu is not above the view's last, %llu",
                   (unsigned long long)row->seq, (unsigned long long)view->log.state.last_seq);
  struct kv_job *made = kv_alloc_zero(1, sizeof *made);
  if (!made) return kv_fail_nomem(err);
  made->view = kv_view_ref(view);
  made->kind = kind;
  made->step_bytes_max = STEP_BYTES_DEFAULT;
  if (batch) made->batch = kv_batch_ref(batch);
  set_flushed(made, row);
  kv_status status = job_start(made, err);
  if (status == KV_OK)
    *job = made;
  else
    kv_job_free(made);
  return status;
}

void kv_job_set_file_bytes(struct kv_job *job, uint64_t bytes) {
  job->file_bytes_max = bytes;
}

void kv_job_set_step_bytes(struct kv_job *job, uint64_t bytes) {
  job->step_bytes_max = bytes;
}

void kv_job_progress(const struct kv_job *job, uint64_t *done, uint64_t *total) {
  *done = job->entries_done;
  *total = job->entries_total > job->entries_done ? job->entries_total : job->entries_done;
}

const char *kv_job_phase(const struct kv_job *job) {
  if (job->phase == PHASE_DONE) return "done";
  return job->phase == PHASE_VERIFY ? "verify" : "write";
}

static bool has_inputs(const struct kv_job *job, const struct kv_view *view) {
  for (size_t i = 0; i < job->edit.removed_count; i++) {
    if (!kv_view_names_file(view, job->edit.removed[i])) return false;
  }
  return true;
}

static bool same_flushed(const struct kv_view *a, const struct kv_view *b) {
  const struct kv_log_state *was = &a->log.state;
  const struct kv_log_state *is = &b->log.state;
  return was->flushed_seq == is->flushed_seq && was->flushed_nonce == is->flushed_nonce;
}

/* Runs that were flushed meanwhile are newer than all that a merge has read. */
bool kv_job_fits(const struct kv_job *job, const struct kv_view *view) {
  if (job->kind == KV_JOB_MERGE) return has_inputs(job, view);
  if (!same_flushed(job->view, view)) return false;
  if (job->edit.flushed_seq > view->log.state.last_seq) return false;
  if (job->kind == KV_JOB_FLUSH) return job->keep_tombstones || view->run_count == 0;
  return job->edit.removed_count == view->file_count && has_inputs(job, view);
}

const struct kv_edit *kv_job_edit(const struct kv_job *job) {
  return &job->edit;
}

void kv_job_rebase(struct kv_job *job, const struct kv_view *view) {
  if (job->kind != KV_JOB_MERGE) return;
  job->edit.flushed_seq = view->log.state.flushed_seq;
  job->edit.flushed_nonce = view->log.state.flushed_nonce;
}

void kv_job_keep_files(struct kv_job *job) {
  job->files_kept = true;
}

/* A file that cannot be unlinked now is an orphan, which the sweep finds; nobody waits for it here. */
static void unlink_outputs(struct kv_job *job) {
  for (size_t i = 0; i < job->edit.added_count; i++) {
    kv_status status = kv_family_remove_file(job->view->family, job->edit.added[i].id, NULL);
    (void)status;
  }
}

void kv_job_free(struct kv_job *job) {
  if (!job) return;
  if (job->writer) kv_table_writer_free(job->writer);
  close_output(job);
  kv_iter_free(job->input);
  if (!job->files_kept) unlink_outputs(job);
  for (size_t i = 0; i < job->edit.added_count; i++) {
    kv_env_close_write(job->config.env, job->handles[i]);
    kv_file_info_release(&job->edit.added[i]);
  }
  kv_open_files_release(open_files(job), job->edit.added_count);
  kv_free(job->handles);
  kv_free(job->edit.added);
  kv_free(job->edit.removed);
  kv_batch_unref(job->batch);
  kv_view_unref(job->view);
  kv_free(job);
}

/* ---- What to do next */

static struct kv_shape shape_of(const struct kv_view *view) {
  struct kv_shape shape = {.log_bytes = view->log.bytes,
                           .memtable_bytes = kv_family_options(view->family).memtable_bytes,
                           .run_count = view->run_count};
  for (size_t i = 0; i < view->file_count; i++) {
    const struct kv_file_info *file = kv_sst_info(view->files[i]);
    if (file->seq == view->runs[view->run_count - 1].seq)
      shape.bottom_bytes += file->bytes;
    else
      shape.upper_bytes += file->bytes;
  }
  return shape;
}

enum kv_work kv_view_work(const struct kv_view *view) {
  struct kv_shape shape = shape_of(view);
  return kv_compact_pick(&shape);
}

struct kv_work_ahead kv_view_work_ahead(const struct kv_view *view) {
  struct kv_shape shape = shape_of(view);
  return kv_compact_ahead(&shape);
}
