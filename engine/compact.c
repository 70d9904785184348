/* Jobs: a flush (memtables to a run), a compaction (memtables and runs to one run) and a merge (of runs, or
** parts of runs, as compact_pick.h has chosen). A job reads an immutable view and writes new files; what it
** changes it says in an edit, which the caller publishes or not (invariant 3).
**
** Phases, a bounded step at a time:
**
**   MERGE   the newest entry of every key goes to the writer. A tombstone goes along only when an older
**           file, which is no input, may have its key. Outputs are cut by size, so a key is in one file only.
**           At its end what the sources had is what was written and what was left out (compact_account.h).
**           Large values go to a value file, a reference to them stays with the key; references of inputs
**           are carried over (compact_values.h).
**   VERIFY  every output is opened and read back whole (kv_table_verifier).
**   DONE    entries and digest of what the writers were given equal those read back.
**
** An output that overlaps nothing goes to a deep level at once, so that keys written in their order are
** written once or twice. A failure ends the job: only kv_job_free is left, which unlinks the outputs. The
** job keeps its outputs locked for as long as it lives, or its caller needs that, so that nobody takes them
** for left behind before the caller knows whether they are named (invariant 5, Orphans). Thread rule: one
** thread at a time; the view may be shared. */
#include "compact.h"

#include <string.h>

#include "compact_account.h"
#include "compact_check.h"
#include "compact_pick.h"
#include "compact_plan.h"
#include "compact_values.h"
#include "mem.h"
#include "merge.h"
#include "run_iter.h"
#include "values.h"
#include "view.h"

#define FILE_BUDGETS 4     /* memtable budgets that an output file holds */
#define FILES_AT_MOST 1024 /* of a table, about; larger tables have larger files */
#define STEP_BYTES_DEFAULT (1u << 20)
#define FAST_LEVEL 1 /* of compression */
#define FILTER_BITS_MAX 20
#define YOUNG_FILTER_BITS 10 /* more than the option says, in small runs above the oldest */
#define DICTIONARY_BYTES ((size_t)16 << 10)
#define VALUE_BLOCK_BYTES ((uint32_t)4096) /* a value is mostly read alone */

enum phase { PHASE_OPEN, PHASE_MERGE, PHASE_VERIFY, PHASE_DONE, PHASE_FAILED };

/* A file that was made. */
struct made_file {
  struct kv_write_file *handle; /* holds the lock; NULL: let go */
  bool kept;                    /* named by the catalog */
};

struct kv_job {
  struct kv_view *view;     /* NULL when let go of */
  struct kv_family *family; /* a reference */
  struct kv_batch *batch;   /* of the commit that the output takes in, or NULL */
  enum kv_job_kind kind;
  enum phase phase;
  struct kv_table_config config; /* the family's, with its options of when the job began */
  int value_level; /* of compression, of value files: these are seldom written again */
  uint64_t memtable_bytes;
  uint64_t file_bytes_max;
  uint64_t step_bytes_max;
  bool meets_files;    /* a flush: older files have keys between its own */
  bool begins;         /* a flush with the batch of a commit: there are no older files */
  bool recompresses;   /* a compaction of one run: it is compressed otherwise */
  struct kv_plan plan; /* of runs; none in a flush */
  struct kv_value_plan values;
  struct kv_value_reader *reader;       /* of values that are written anew, or NULL */
  struct kv_table_writer *value_writer; /* of the value file being written, or NULL */
  struct kv_value_uses referred;        /* by the outputs that are finished */
  struct kv_buf head, reference;        /* of the entry at hand */
  struct kv_iter *input;                /* NULL when there is nothing to do */
  struct kv_drop_check *drops;          /* in tests, or NULL */
  struct kv_table_writer *writer;       /* of the output being written, or NULL */
  struct kv_account account;
  uint64_t bytes_written;
  size_t verified;                    /* outputs read back */
  struct kv_table *output;            /* the one being read back, or NULL */
  struct kv_table_verifier *verifier; /* of it */
  uint64_t seq;                       /* of the newest commit in the output */
  struct kv_edit edit;
  struct made_file *outputs; /* one for each of edit.added */
  size_t added_capacity;
  uint64_t entries_done;
  uint64_t entries_total;
};

/* ---- What to do */

static struct kv_pick pick_of(const struct kv_view *view) {
  struct kv_shape shape = kv_layout_shape(view->layout);
  return kv_compact_pick(&shape);
}

struct kv_work kv_view_work(const struct kv_view *view) {
  uint64_t budget = kv_family_options(view->family).memtable_bytes;
  return (struct kv_work){.flush = view->log.bytes > budget,
                          .merge = pick_of(view).kind != KV_PICK_NONE};
}

/* ---- Input */

/* Commits that are in no file yet. */
static bool has_log(const struct kv_job *job) {
  const struct kv_log_state *log = &job->view->log.state;
  if (job->kind == KV_JOB_MERGE) return false;
  return job->batch || log->last_seq != log->flushed_seq;
}

static bool has_work(const struct kv_job *job) {
  const struct kv_plan *plan = &job->plan;
  if (has_log(job)) return true;
  if (job->kind == KV_JOB_MERGE) return plan->count > 0;
  if (plan->count > 1 || job->values.due || job->recompresses) return true;
  return plan->count == 1 && job->view->layout->sizes[0].tombstones > 0;
}

static kv_status open_inputs(struct kv_job *job, struct kv_iter **inputs, size_t *count,
                             struct kv_err *err) {
  const struct kv_log_window *log = &job->view->log;
  size_t memtables = job->kind == KV_JOB_MERGE ? 0 : log->table_count;
  kv_status status = KV_OK;
  if (job->batch) {
    status = kv_account_batch(&job->account, job->batch, &inputs[*count], err);
    if (status == KV_OK) ++*count;
  }
  for (size_t i = 0; i < memtables && status == KV_OK; i++) {
    status = kv_account_memtable(&job->account, log->tables[i], log->window, &inputs[*count], err);
    if (status == KV_OK) ++*count;
  }
  for (size_t i = 0; i < job->plan.count && status == KV_OK; i++) {
    status = kv_run_iter(&job->plan.parts[i], false, &inputs[*count], err);
    if (status == KV_OK) ++*count;
  }
  return status;
}

static kv_status open_input(struct kv_job *job, struct kv_err *err) {
  size_t count = 0;
  size_t count_max = 1 + job->view->log.table_count + job->plan.count;
  struct kv_iter **inputs = kv_alloc(count_max, sizeof *inputs);
  if (!inputs) return kv_fail_nomem(err);
  kv_status status = open_inputs(job, inputs, &count, err);
  if (status == KV_OK) {
    status = kv_merge_counted(inputs, count, kv_view_comparator(job->view), &job->account.passed,
                              &job->input, err);
  } else {
    for (size_t i = 0; i < count; i++) kv_iter_free(inputs[i]);
  }
  kv_free(inputs);
  return status;
}

static uint64_t estimate_entries(const struct kv_job *job) {
  const struct kv_view *view = job->view;
  uint64_t entries = kv_plan_entries(&job->plan);
  if (job->kind != KV_JOB_MERGE) entries += kv_view_entries_estimate(view) - view->layout->entries;
  if (job->batch) entries += kv_batch_count(job->batch);
  return entries;
}

/* ---- The edit */

/* A file that only a newer writer may work on is not rewritten. */
static kv_status take_in(struct kv_job *job, struct kv_sst *file, struct kv_err *err) {
  struct kv_table *table = NULL;
  kv_status status = kv_sst_table(file, &table, err);
  if (status == KV_OK) kv_account_table(&job->account, table);
  return status == KV_OK ? kv_table_check_writer(table, err) : status;
}

static kv_status list_removed(struct kv_job *job, struct kv_err *err) {
  const struct kv_plan *plan = &job->plan;
  kv_status status = KV_OK;
  size_t removed_max = kv_plan_files(plan) + job->view->layout->value_count;
  job->edit.removed = kv_alloc(removed_max, sizeof *job->edit.removed);
  if (!job->edit.removed) return kv_fail_nomem(err);
  for (size_t i = 0; i < plan->count; i++) {
    const struct kv_run *part = &plan->parts[i];
    for (size_t j = 0; j < part->file_count && status == KV_OK; j++) {
      status = take_in(job, part->files[j], err);
      job->edit.removed[job->edit.removed_count++] = kv_sst_info(part->files[j])->id;
    }
  }
  return status;
}

/* Room for two more outputs, of keys and of values, made before their files are, so that no file is ever
** without its record. */
static kv_status reserve_added(struct kv_job *job, struct kv_err *err) {
  if (job->edit.added_count + 2 <= job->added_capacity) return KV_OK;
  size_t capacity = job->added_capacity ? 2 * job->added_capacity : 4;
  struct kv_file_info *added = kv_realloc(job->edit.added, capacity, sizeof *added);
  if (!added) return kv_fail_nomem(err);
  job->edit.added = added;
  struct made_file *outputs = kv_realloc(job->outputs, capacity, sizeof *outputs);
  if (!outputs) return kv_fail_nomem(err);
  job->outputs = outputs;
  job->added_capacity = capacity;
  return KV_OK;
}

/* ---- Output */

static const char *kind_name(const struct kv_job *job) {
  return job->kind == KV_JOB_FLUSH ? "flush" : "compaction";
}

static struct kv_open_files *open_files(const struct kv_job *job) {
  return kv_cache_files(kv_family_cache(job->family));
}

static kv_status begin_file(struct kv_job *job, bool holds_values, struct kv_err *err) {
  kv_status status = reserve_added(job, err);
  if (status != KV_OK) return status;
  struct kv_table_config config = job->config;
  if (!holds_values) return kv_table_writer_new(&config, &job->writer, err);
  config.holds_values = true;
  config.filter_bits = 0;
  config.compression_level = job->value_level;
  if (config.block_bytes > VALUE_BLOCK_BYTES) config.block_bytes = VALUE_BLOCK_BYTES;
  return kv_table_writer_new(&config, &job->value_writer, err);
}

static kv_status add_referred(struct kv_job *job, struct kv_err *err) {
  const struct kv_value_uses *uses = kv_table_writer_uses(job->writer);
  kv_status status = KV_OK;
  for (size_t i = 0; i < uses->count && status == KV_OK; i++)
    status = kv_value_uses_add(&job->referred, uses->uses[i], err);
  return status;
}

/* The job's writer or value_writer. */
static kv_status finish_file(struct kv_job *job, struct kv_table_writer **writer,
                             struct kv_err *err) {
  bool holds_values = writer == &job->value_writer;
  struct kv_file_info *info = &job->edit.added[job->edit.added_count];
  struct kv_digest digest = {0, 0};
  kv_file_info_init(info);
  kv_status status = holds_values ? KV_OK : add_referred(job, err);
  if (status == KV_OK) status = kv_table_writer_finish(*writer, info, &digest, err);
  if (status != KV_OK) {
    kv_file_info_release(info);
    return status;
  }
  kv_digest_join(&job->account.out, digest);
  info->level = holds_values ? KV_LEVEL_VALUES : job->plan.level;
  info->seq = job->seq;
  job->outputs[job->edit.added_count++] =
      (struct made_file){kv_table_writer_take_file(*writer), false};
  kv_open_files_hold(open_files(job));
  if (!holds_values) job->bytes_written += info->bytes;
  struct kv_stats *stats = kv_family_stats(job->view->family);
  bool flushes = job->kind == KV_JOB_FLUSH;
  kv_stats_add(stats, flushes ? KV_STAT_FLUSH_BYTES : KV_STAT_COMPACT_BYTES_WRITTEN, info->bytes);
  kv_stats_add(stats, KV_STAT_TOMBSTONES_KEPT, info->tombstones);
  kv_table_writer_free(*writer);
  *writer = NULL;
  return KV_OK;
}

/* A file that is as large as it may be ends here. */
static kv_status cut_file(struct kv_job *job, struct kv_table_writer **writer, struct kv_err *err) {
  if (kv_table_writer_bytes(*writer) < job->file_bytes_max) return KV_OK;
  return finish_file(job, writer, err);
}

/* What goes to the writer for a key. */
struct output {
  struct kv_slice key;
  struct kv_slice value; /* or a reference: */
  bool apart;
  bool deleted;
};

static kv_status write_entry(struct kv_table_writer *writer, const struct output *output,
                             struct kv_err *err) {
  if (output->apart) return kv_table_writer_add_apart(writer, output->key, output->value, err);
  return kv_table_writer_add(writer, output->key, output->value, output->deleted, err);
}

/* What the writer takes for misuse is then the input's fault: its blocks are checked one by one, not the
** order of all their keys. */
static kv_status add_to_file(struct kv_job *job, struct kv_table_writer *writer,
                             const struct output *output, struct kv_err *err) {
  struct kv_err inner;
  kv_status status = write_entry(writer, output, &inner);
  if (status == KV_MISUSE)
    return kv_fail(err, KV_CORRUPT, "input of the %s up to commit %llu: %s", kind_name(job),
                   (unsigned long long)job->edit.flushed_seq, inner.text);
  if (status != KV_OK && err) *err = inner;
  return status;
}

/* ---- Values apart */

static kv_status bring_back(struct kv_job *job, struct output *output, struct kv_err *err) {
  struct kv_apart apart;
  if (!kv_apart_parse(output->value, &apart) ||
      !kv_value_plan_rewrites(&job->values, &apart, job->config.value_bytes))
    return KV_OK;
  kv_status status = KV_OK;
  struct kv_slice reference = output->value;
  if (!job->reader) status = kv_value_reader_new(job->view->layout, &job->reader, err);
  if (status == KV_OK)
    status = kv_value_reader_get(job->reader, output->key, &apart, &output->value, err);
  if (status == KV_OK) kv_account_bring_back(&job->account, output->key, reference, output->value);
  output->apart = false;
  kv_stats_add(kv_family_stats(job->view->family), KV_STAT_COMPACT_BYTES_READ, apart.size);
  return status;
}

/* The head of a value that is to be stored apart, into job->head; false when it stays with its key. */
static bool cut_head(struct kv_job *job, struct kv_slice value) {
  uint32_t limit = job->config.value_bytes;
  if (!limit || value.size <= limit) return false;
  kv_buf_clear(&job->head);
  return kv_family_head(job->view->family, value, &job->head) && job->head.size < value.size;
}

/* The value goes to the value file, and a reference takes its place. */
static kv_status store_apart(struct kv_job *job, struct output *output, struct kv_err *err) {
  kv_status status = KV_OK;
  if (job->head.status) return kv_fail_nomem(err);
  if (!job->value_writer) status = begin_file(job, true, err);
  if (status == KV_OK) status = add_to_file(job, job->value_writer, output, err);
  if (status != KV_OK) return status;
  struct kv_apart apart = {.file = kv_table_writer_id(job->value_writer),
                           .size = output->value.size,
                           .head = kv_buf_slice(&job->head)};
  kv_table_writer_position(job->value_writer, &apart.block, &apart.offset);
  kv_buf_clear(&job->reference);
  kv_apart_append(&job->reference, &apart);
  if (job->reference.status) return kv_fail_nomem(err);
  output->value = kv_buf_slice(&job->reference);
  output->apart = true;
  kv_account_refer(&job->account, output->key, output->value);
  return cut_file(job, &job->value_writer, err);
}

static kv_status emit(struct kv_job *job, const struct kv_iter *entry, struct kv_err *err) {
  struct output output = {entry->key, entry->value, entry->apart, entry->deleted};
  kv_status status = output.apart ? bring_back(job, &output, err) : KV_OK;
  if (status == KV_OK && !output.apart && cut_head(job, output.value))
    status = store_apart(job, &output, err);
  if (status == KV_OK && !job->writer) status = begin_file(job, false, err);
  if (status == KV_OK) status = add_to_file(job, job->writer, &output, err);
  return status == KV_OK ? cut_file(job, &job->writer, err) : status;
}

static kv_status drop(struct kv_job *job, const struct kv_iter *entry, struct kv_err *err) {
  kv_account_drop(&job->account, entry);
  kv_stats_add(kv_family_stats(job->view->family), KV_STAT_TOMBSTONES_DROPPED, 1);
  return kv_drop_check_key(&job->drops, job->view, &job->plan, entry->key, err);
}

static kv_status end_of_input(struct kv_job *job, struct kv_err *err) {
  if (job->input->status != KV_OK) {
    if (err) *err = job->input->err;
    return job->input->status;
  }
  kv_status status = job->writer ? finish_file(job, &job->writer, err) : KV_OK;
  if (status == KV_OK && job->value_writer) status = finish_file(job, &job->value_writer, err);
  if (status == KV_OK)
    status = kv_account_check(&job->account, kind_name(job), job->edit.flushed_seq, err);
  if (status == KV_OK)
    job->edit.removed_count += kv_value_plan_dead(&job->values, job->view->layout, &job->referred,
                                                  job->edit.removed + job->edit.removed_count);
  kv_iter_free(job->input);
  job->input = NULL;
  kv_drop_check_free(job->drops);
  job->drops = NULL;
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
    bool goes = !input->deleted || kv_plan_may_hide(&job->plan, job->view->layout, input->key);
    status = goes ? emit(job, input, err) : drop(job, input, err);
    job->entries_done++;
    if (status == KV_OK) kv_iter_next(input);
  }
  if (status == KV_OK && !input->valid) status = end_of_input(job, err);
  return status;
}

static kv_status open_output(struct kv_job *job, struct kv_err *err) {
  struct kv_family *family = job->view->family;
  struct kv_cache *cache = kv_family_cache(family);
  kv_status status = kv_table_open(&job->config, &job->edit.added[job->verified], cache,
                                   kv_family_stats(family), &job->output, err);
  if (status != KV_OK) return status;
  return kv_table_verifier_new(job->output, kv_cache_verifies_merges(cache), &job->verifier, err);
}

static void close_output(struct kv_job *job) {
  kv_table_verifier_free(job->verifier);
  kv_table_close(job->output);
  job->verifier = NULL;
  job->output = NULL;
}

static void end_output(struct kv_job *job) {
  kv_digest_join(&job->account.read, *kv_table_verifier_digest(job->verifier));
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
  bool flushes = job->kind == KV_JOB_FLUSH;
  kv_stats_add(stats, flushes ? KV_STAT_FLUSHES : KV_STAT_COMPACTIONS, 1);
  if (!flushes) kv_stats_add(stats, KV_STAT_COMPACT_BYTES_READ, kv_plan_bytes(&job->plan));
}

/* Where a flush belongs over this view. One that overlaps nothing, as of keys that are written in their
** order, may go below all that it does not meet; what is small is gathered at level 0 first. */
static void place_flush(struct kv_job *job, const struct kv_layout *layout) {
  struct kv_file_info *added = job->edit.added;
  bool stays = job->meets_files || job->begins || job->bytes_written < job->memtable_bytes ||
               kv_edit_overlaps(&job->edit, layout, 0, UINT32_MAX);
  uint32_t level = kv_level_for(job->memtable_bytes, job->bytes_written);
  uint32_t deepest = layout->run_count ? layout->runs[layout->run_count - 1].level : 0;
  for (size_t i = 0; i < job->edit.added_count; i++) {
    if (added[i].level == KV_LEVEL_VALUES) continue;
    added[i].level = stays ? 0 : level > deepest ? level : deepest;
    added[i].seq = stays ? job->seq : kv_layout_young_seq(layout, job->seq);
  }
}

static void place_compaction(struct kv_job *job) {
  uint32_t level = kv_level_for(job->memtable_bytes, job->bytes_written);
  for (size_t i = 0; i < job->edit.added_count; i++)
    if (job->edit.added[i].level != KV_LEVEL_VALUES) job->edit.added[i].level = level;
}

static void place(struct kv_job *job, const struct kv_view *view) {
  if (job->kind == KV_JOB_FLUSH) place_flush(job, view->layout);
  if (job->kind == KV_JOB_COMPACT) place_compaction(job);
}

static kv_status verify_step(struct kv_job *job, struct kv_err *err) {
  kv_status status = KV_OK;
  if (job->verified < job->edit.added_count) status = verify_output(job, err);
  if (status != KV_OK || job->verified < job->edit.added_count) return status;
  status = kv_account_check_read(&job->account, kind_name(job), job->edit.flushed_seq, err);
  if (status != KV_OK) return status;
  count_job(job);
  place(job, job->view);
  job->phase = PHASE_DONE;
  return KV_OK;
}

/* ---- Life */

static void set_config(struct kv_job *job) {
  struct kv_options options = kv_family_options(job->view->family);
  job->config = *kv_family_table_config(job->view->family);
  job->config.compression_level = options.compression_level;
  job->config.filter_bits = options.filter_bits;
  job->config.block_bytes = options.block_bytes;
  job->config.value_bytes = options.value_bytes;
  job->value_level = options.compression_level;
  job->memtable_bytes = options.memtable_bytes;
  job->account.lenient = !kv_cache_verifies_merges(kv_family_cache(job->view->family));
}

static void set_flushed(struct kv_job *job, const struct kv_log_row *row) {
  const struct kv_view *view = job->view;
  if (job->kind == KV_JOB_MERGE) {
    job->seq = kv_plan_seq(&job->plan);
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
  uint64_t bytes = kv_plan_bytes(&job->plan);
  if (job->kind != KV_JOB_MERGE) bytes += job->view->log.bytes;
  if (job->batch) bytes += kv_batch_data_bytes(job->batch);
  return bytes;
}

static uint64_t larger(uint64_t a, uint64_t b) {
  return a > b ? a : b;
}

/* Files are the parts in which levels are merged, so they are small; but every output keeps a descriptor for
** its lock until the job's end, so there are not many. */
static void set_file_bytes(struct kv_job *job) {
  uint64_t input = input_bytes(job);
  uint64_t total = input + job->view->layout->value_file_bytes;
  for (size_t i = 0; i < job->view->run_count; i++) total += job->view->layout->sizes[i].bytes;
  uint64_t limit = kv_open_files_limit(open_files(job));
  if (kv_open_files_are_held(open_files(job))) input = total;
  job->file_bytes_max = larger(FILE_BUDGETS * job->memtable_bytes, total / FILES_AT_MOST);
  job->file_bytes_max = larger(job->file_bytes_max, input / limit);
}

/* Goes to the input's first key. */
static kv_status look_for_files(struct kv_job *job, struct kv_err *err) {
  struct kv_iter *input = job->input;
  struct kv_buf largest;
  kv_buf_init(&largest);
  if (job->kind == KV_JOB_FLUSH && job->view->run_count) {
    kv_iter_seek_last(input);
    if (input->valid) kv_buf_append(&largest, input->key.data, input->key.size);
  }
  kv_account_begin(&job->account);
  kv_iter_seek_first(input);
  if (largest.size && input->valid)
    job->meets_files = kv_layout_meets(job->view->layout, input->key, kv_buf_slice(&largest));
  kv_status status = largest.status ? kv_fail_nomem(err) : KV_OK;
  kv_buf_release(&largest);
  return status;
}

/* Every run may be asked for a key, but most keys are in the largest: bits of a filter serve more the smaller
** the run (Monkey: Dayan, Athanassoulis, Idreos, SIGMOD 2017). */
static void add_filter_bits(struct kv_table_config *config) {
  int bits = config->filter_bits + YOUNG_FILTER_BITS;
  if (config->filter_bits) config->filter_bits = bits < FILTER_BITS_MAX ? bits : FILTER_BITS_MAX;
}

/* What is written again soon is worth little: level 0 that meets files, or for whose commit somebody waits,
** stays plain; what is not among the oldest and large, or by command, is compressed fast. */
static void choose_compression(struct kv_job *job) {
  bool merges = job->kind == KV_JOB_MERGE;
  job->begins = job->kind == KV_JOB_FLUSH && job->batch && !job->view->run_count;
  bool lasts = merges ? kv_plan_lasts(&job->plan, job->view->layout) : job->kind == KV_JOB_COMPACT;
  int *level = &job->config.compression_level;
  job->config.dictionary_bytes = lasts ? DICTIONARY_BYTES : 0;
  if (!lasts && *level > FAST_LEVEL) *level = FAST_LEVEL;
  if (job->meets_files || job->begins || (merges && job->plan.level == 0)) *level = 0;
  bool small = kv_plan_is_small(&job->plan, job->view->layout, job->entries_total);
  if (small && !lasts && (merges || job->meets_files)) add_filter_bits(&job->config);
}

static kv_status job_start(struct kv_job *job, struct kv_err *err) {
  kv_status status = KV_OK;
  if (job->kind == KV_JOB_COMPACT && !has_work(job))
    status =
        kv_plan_recompresses(&job->plan, job->config.compression_level, &job->recompresses, err);
  if (status == KV_OK && !has_work(job)) job->phase = PHASE_DONE;
  if (status != KV_OK || job->phase == PHASE_DONE) return status;
  set_file_bytes(job);
  job->entries_total = estimate_entries(job);
  return list_removed(job, err);
}

/* Whoever makes a job may be in a commit: sorting memtables and opening files is left to whoever steps it. */
static kv_status begin_merge(struct kv_job *job, struct kv_err *err) {
  kv_status status = open_input(job, err);
  if (status == KV_OK) status = look_for_files(job, err);
  if (status != KV_OK) return status;
  choose_compression(job);
  job->phase = PHASE_MERGE;
  return KV_OK;
}

kv_status kv_job_step(struct kv_job *job, bool *done, struct kv_err *err) {
  kv_status status = KV_OK;
  uint64_t faults = kv_custom_faults(job->config.comparator);
  *done = false;
  switch (job->phase) {
    case PHASE_OPEN:
      status = begin_merge(job, err);
      if (status == KV_OK) status = merge_step(job, err);
      break;
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
  if (status == KV_OK) status = kv_custom_check(faults, job->config.comparator, err);
  if (status != KV_OK) job->phase = PHASE_FAILED;
  *done = job->phase == PHASE_DONE;
  return status;
}

/* A job that knows its view. */
static kv_status job_alloc(struct kv_view *view, enum kv_job_kind kind, struct kv_job **job,
                           struct kv_err *err) {
  struct kv_job *made = kv_alloc_zero(1, sizeof *made);
  if (!made) return kv_fail_nomem(err);
  made->view = kv_view_ref(view);
  made->family = kv_family_ref(view->family);
  made->kind = kind;
  made->step_bytes_max = STEP_BYTES_DEFAULT;
  set_config(made);
  *job = made;
  return KV_OK;
}

/* Frees it when it could not be begun. */
static kv_status job_begin(struct kv_job *made, kv_status planned, const struct kv_log_row *row,
                           struct kv_job **job, struct kv_err *err) {
  if (planned == KV_OK) set_flushed(made, row);
  kv_status status = planned == KV_OK ? job_start(made, err) : planned;
  if (status == KV_OK)
    *job = made;
  else
    kv_job_free(made);
  return status;
}

static kv_status plan_values(struct kv_job *job, struct kv_err *err) {
  bool thorough = job->kind == KV_JOB_COMPACT;
  return kv_value_plan_make(&job->values, job->view->layout, &job->plan, thorough, err);
}

static kv_status plan_merge(struct kv_job *job, const struct kv_pick *pick, struct kv_err *err) {
  kv_status status =
      kv_plan_pick(&job->plan, job->view->layout, pick, FILE_BUDGETS * job->memtable_bytes, err);
  return status == KV_OK ? plan_values(job, err) : status;
}

kv_status kv_job_new_pick(struct kv_view *view, const struct kv_pick *pick, struct kv_job **job,
                          struct kv_err *err) {
  struct kv_job *made;
  *job = NULL;
  kv_status status = job_alloc(view, KV_JOB_MERGE, &made, err);
  return status == KV_OK ? job_begin(made, plan_merge(made, pick, err), NULL, job, err) : status;
}

kv_status kv_job_new(struct kv_view *view, enum kv_job_kind kind, struct kv_job **job,
                     struct kv_err *err) {
  return kv_job_new_commit(view, kind, NULL, NULL, job, err);
}

static kv_status make_plan(struct kv_job *job, struct kv_err *err) {
  struct kv_pick pick;
  kv_status status = KV_OK;
  switch (job->kind) {
    case KV_JOB_MERGE:
      pick = pick_of(job->view);
      return plan_merge(job, &pick, err);
    case KV_JOB_COMPACT:
      status = kv_plan_all(&job->plan, job->view->layout, err);
      return status == KV_OK ? plan_values(job, err) : status;
    case KV_JOB_FLUSH:
      break;
  }
  return status;
}

kv_status kv_job_new_commit(struct kv_view *view, enum kv_job_kind kind, struct kv_batch *batch,
                            const struct kv_log_row *row, struct kv_job **job, struct kv_err *err) {
  *job = NULL;
  if (row && row->seq <= view->log.state.last_seq)
    return kv_fail(err, KV_MISUSE, "commit %llu is not above the view's last, %llu",
                   (unsigned long long)row->seq, (unsigned long long)view->log.state.last_seq);
  struct kv_job *made;
  kv_status status = job_alloc(view, kind, &made, err);
  if (status != KV_OK) return status;
  if (batch) made->batch = kv_batch_ref(batch);
  return job_begin(made, make_plan(made, err), row, job, err);
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

static bool same_flushed(const struct kv_view *a, const struct kv_view *b) {
  const struct kv_log_state *was = &a->log.state;
  const struct kv_log_state *is = &b->log.state;
  return was->flushed_seq == is->flushed_seq && was->flushed_nonce == is->flushed_nonce;
}

bool kv_job_fits(const struct kv_job *job, const struct kv_view *view) {
  if (job->kind == KV_JOB_MERGE) return kv_plan_merge_fits(&job->plan, &job->edit, view->layout);
  if (!same_flushed(job->view, view)) return false;
  if (job->edit.flushed_seq > view->log.state.last_seq) return false;
  if (job->kind == KV_JOB_FLUSH || !has_work(job)) return true;
  const struct kv_layout *now = view->layout;
  return kv_plan_files(&job->plan) == now->file_count - now->value_count &&
         kv_plan_inputs_live(&job->plan, &job->edit, now);
}

const struct kv_edit *kv_job_edit(const struct kv_job *job) {
  return &job->edit;
}

void kv_job_rebase(struct kv_job *job, const struct kv_view *view) {
  place(job, view);
  if (job->kind != KV_JOB_MERGE) return;
  job->edit.flushed_seq = view->log.state.flushed_seq;
  job->edit.flushed_nonce = view->log.state.flushed_nonce;
}

void kv_job_let_go(struct kv_job *job) {
  kv_view_unref(job->view);
  job->view = NULL;
}

void kv_job_unlock_files(struct kv_job *job) {
  size_t held = 0;
  for (size_t i = 0; i < job->edit.added_count; i++) {
    if (!job->outputs[i].handle) continue;
    kv_env_close_write(job->config.env, job->outputs[i].handle);
    job->outputs[i].handle = NULL;
    held++;
  }
  kv_open_files_release(open_files(job), held);
}

void kv_job_keep_files(struct kv_job *job) {
  for (size_t i = 0; i < job->edit.added_count; i++) job->outputs[i].kept = true;
}

void kv_job_keep_added(struct kv_job *job, const struct kv_edit *edit) {
  for (size_t i = 0; i < job->edit.added_count; i++)
    for (size_t j = 0; j < edit->added_count; j++)
      if (edit->added[j].id == job->edit.added[i].id) job->outputs[i].kept = true;
}

static bool is_left(const struct kv_job *job, size_t i) {
  if (job->outputs[i].kept) return false;
  return kv_family_remove_file(job->family, job->edit.added[i].id, NULL) != KV_OK;
}

/* Files that cannot be unlinked now are orphans, which the sweep finds. */
void kv_job_free(struct kv_job *job) {
  kv_job_end(job, NULL, NULL);
}

void kv_job_end(struct kv_job *job, void (*left)(void *ctx, uint64_t id), void *ctx) {
  if (!job) return;
  kv_table_writer_free(job->writer);
  kv_table_writer_free(job->value_writer);
  kv_value_reader_free(job->reader);
  kv_value_plan_release(&job->values);
  kv_value_uses_release(&job->referred);
  kv_buf_release(&job->head);
  kv_buf_release(&job->reference);
  close_output(job);
  kv_iter_free(job->input);
  kv_drop_check_free(job->drops);
  for (size_t i = 0; i < job->edit.added_count; i++)
    if (is_left(job, i) && left) left(ctx, job->edit.added[i].id);
  kv_job_unlock_files(job);
  for (size_t i = 0; i < job->edit.added_count; i++) kv_file_info_release(&job->edit.added[i]);
  kv_free(job->outputs);
  kv_free(job->edit.added);
  kv_free(job->edit.removed);
  kv_batch_unref(job->batch);
  kv_plan_release(&job->plan);
  kv_view_unref(job->view);
  kv_family_unref(job->family);
  kv_free(job);
}
