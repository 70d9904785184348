/* The engine's public face: column families, views, reads and jobs. Usable without SQLite.
**
** A family is one sorted key space. The engine keeps no log and no manifest: the caller's *catalog* does
** (in ext/ the shadow tables), and tells the engine by a kv_snapshot what a transaction sees. The engine
** turns it into an immutable, reference-counted kv_view, answers reads over (view, batch), and runs jobs
** that write files and give back an edit for the catalog to record. Everything here is a cache of the
** catalog (engine/README.md, invariant 1) or an immutable file (invariant 2).
**
** Thread rule: families, views and caches may be shared by threads; batches, iterators, results and jobs
** belong to one thread at a time. */
#ifndef KV_KV_H
#define KV_KV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "batch.h"
#include "buf.h"
#include "build.h"
#include "cache.h"
#include "code.h"
#include "compare.h"
#include "copy.h"
#include "custom.h"
#include "env.h"
#include "hash.h"
#include "key.h"
#include "log.h"
#include "stats.h"
#include "status.h"
#include "table_write.h"

/* ---- Families */

struct kv_options {
  int compression_level;   /* zstd 1..19; 0 = none */
  int filter_bits;         /* 0..20 bits a key; 0 = no filter */
  uint32_t block_bytes;    /* 1024..1048576 */
  uint64_t memtable_bytes; /* 16384..1073741824: the log budget; jobs and callers rotate by it */
  uint32_t value_bytes;    /* 0..1048576: files keep larger values apart from keys; 0 = none */
};
/* The defaults of the SQL options. */
void kv_options_default(struct kv_options *options);

/* What of a value is to stand beside the key when the value is stored apart: appends it to `head`, shorter
** than the value. false: such a value stays with its key. For any bytes, from any thread. */
typedef bool (*kv_head_fn)(struct kv_slice value, struct kv_buf *head);

struct kv_family_config {
  struct kv_env *env;    /* one that counts references gets one, any other outlives the family */
  const char *dir;       /* directory of the database's table files; copied */
  const char *like_path; /* the database file, whose mode files take, or NULL; copied */
  uint8_t uuid[16];      /* of this table */
  struct kv_options options;
  struct kv_cache *cache;                 /* takes a reference */
  const struct kv_comparator *comparator; /* the order of keys; NULL: bytewise. Takes a reference */
  kv_head_fn head;                        /* NULL: nothing of a value stands beside its key */
};

struct kv_family;
/* Touches no file. Starts with one reference. */
kv_status kv_family_new(const struct kv_family_config *config, struct kv_family **family,
                        struct kv_err *err);
struct kv_family *kv_family_ref(struct kv_family *family);
void kv_family_unref(struct kv_family *family);
struct kv_stats *kv_family_stats(struct kv_family *family);
const struct kv_comparator *kv_family_comparator(const struct kv_family *family);
/* A copy of the options / new options for jobs that start later. */
struct kv_options kv_family_options(struct kv_family *family);
void kv_family_set_options(struct kv_family *family, const struct kv_options *options);
/* Memory of memtables held by the family, bytes. */
size_t kv_family_memory(struct kv_family *family);
/* The views of the family that somebody in this process holds. */
struct kv_view_facts {
  uint64_t count;
  uint64_t
      oldest_us; /* since the oldest was made of those that are behind the newest; 0: none is */
  uint64_t pinned_bytes; /* of files that such views name and the newest does not */
};
void kv_family_view_facts(struct kv_family *family, struct kv_view_facts *facts);
/* Whether a view of this process names the file. */
bool kv_family_names_file(struct kv_family *family, uint64_t id);
/* Unlinks a table file, when no view of this process names it (KV_BUSY otherwise). A file that is gone
** already is KV_OK. When it was the directory's last file the directory goes too. The caller has the
** proof of invariant 5. */
kv_status kv_family_remove_file(struct kv_family *family, uint64_t id, struct kv_err *err);

/* ---- Views */

/* What the catalog's tables say inside one SQLite snapshot. Borrowed for the call. */
struct kv_snapshot {
  struct kv_log_state log;
  int64_t rows; /* of the newest row, or at flushed_seq without rows; -1 unknown */
  const struct kv_file_info *files; /* any order */
  size_t file_count;
};

/* An immutable state of a family: files + memtables + upper seq. Files are opened when first touched. */
struct kv_view;
/* Builds the view of a snapshot; asks `source` for the log rows that memory lacks. KV_CORRUPT when the
** manifest contradicts itself (files of one run overlap, file above last_seq, ids twice). */
kv_status kv_view_new(struct kv_family *family, const struct kv_snapshot *snapshot,
                      const struct kv_log_source *source, struct kv_view **view,
                      struct kv_err *err);
/* The same of a snapshot that is known to have the files and the flushed commit of `base`, which are not read
** then but shared: snapshot->files is not looked at. */
kv_status kv_view_follow(const struct kv_view *base, const struct kv_snapshot *snapshot,
                         const struct kv_log_source *source, struct kv_view **view,
                         struct kv_err *err);
struct kv_view *kv_view_ref(struct kv_view *view);
void kv_view_unref(struct kv_view *view);

struct kv_edit;
/* The view after an own commit: `row` (or NULL) and `edit` (or NULL) on top of base; edit is already
** durable in the catalog. Any failure means only: build the next view with kv_view_new. */
kv_status kv_view_advance(const struct kv_view *base, const struct kv_log_row *row,
                          const struct kv_edit *edit, struct kv_view **view, struct kv_err *err);

/* The view of a transaction that has work of its own which nobody else may see yet: `edit`, which no catalog
** names, on top of base, and this many rows. Nothing that is shared changes. */
kv_status kv_view_overlay(const struct kv_view *base, const struct kv_edit *edit, int64_t rows,
                          struct kv_view **view, struct kv_err *err);

const struct kv_log_state *kv_view_log(const struct kv_view *view);
int64_t kv_view_rows(const struct kv_view *view); /* -1 unknown */
uint64_t kv_view_gen(const struct kv_view *view); /* generation of the newest log row, else 0 */
/* Encoded bytes of that generation and of all, as with values that are not compressed. */
uint64_t kv_view_gen_bytes(const struct kv_view *view);
uint64_t kv_view_log_bytes(const struct kv_view *view);
bool kv_view_names_file(const struct kv_view *view, uint64_t id);
size_t kv_view_file_count(const struct kv_view *view);
/* Newest run first, files of a run in key order; then the value files, whose level is KV_LEVEL_VALUES.
** Borrowed from the view. */
const struct kv_file_info *kv_view_file(const struct kv_view *view, size_t index);
/* Raw bytes of the keys and values in it, before compression; opens the file when not yet touched. */
kv_status kv_view_file_raw_bytes(struct kv_view *view, size_t index, uint64_t *raw,
                                 struct kv_err *err);
/* Of a value file, how many of its values' bytes no key refers to, before compression; opens all files. */
kv_status kv_view_file_dead_bytes(struct kv_view *view, size_t index, uint64_t *dead,
                                  struct kv_err *err);
/* Tombstones of a key file that hide nothing, since no older file overlaps it; the next merge of it drops
** them. */
uint64_t kv_view_file_reclaimable(const struct kv_view *view, size_t index);
size_t kv_view_run_count(const struct kv_view *view);
/* Entries for planners: those of all files, and the log's bytes counted as small entries. */
uint64_t kv_view_entries_estimate(const struct kv_view *view);

/* ---- Reads. batch may be NULL everywhere. Every read: KV_CORRUPT, KV_IO, KV_MISSING or KV_NOMEM on
** trouble, never "not found" (invariant 7). */

/* A value with what keeps its bytes alive. Zero-initialise; release always allowed. */
struct kv_value {
  bool found;
  struct kv_slice bytes; /* borrowed from the owners below until release */
  bool apart;            /* bytes are a reference; only kv_get_head leaves it so */
  struct kv_view *view;
  struct kv_batch *batch;
  struct kv_cache_entry *pin;
};
void kv_value_release(struct kv_value *value);
kv_status kv_get(struct kv_view *view, struct kv_batch *batch, struct kv_slice key,
                 struct kv_value *value, struct kv_err *err);
/* The same without reading a value that is stored apart; kv_value_load reads it, for the same key. */
kv_status kv_get_head(struct kv_view *view, struct kv_batch *batch, struct kv_slice key,
                      struct kv_value *value, struct kv_err *err);
kv_status kv_value_load(struct kv_value *value, struct kv_slice key, struct kv_err *err);
/* What is at hand of it: the value, or its head (kv_head_fn). */
struct kv_slice kv_value_head(const struct kv_value *value);

/* The answers of a multi-get: one owner object, values pinned, not copied. */
struct kv_result;
/* n keys, ascending in the family's order and distinct (else KV_MISUSE); keys are not kept. One key goes the
** way of a get. */
kv_status kv_multi_get(struct kv_view *view, struct kv_batch *batch, const struct kv_slice *keys,
                       size_t n, struct kv_result **result, struct kv_err *err);

/* Keys of one family, in any order, also several times the same. Borrowed for the call. */
struct kv_request {
  struct kv_view *view;
  struct kv_batch *batch; /* or NULL */
  const struct kv_slice *keys;
  size_t count;
  const char *name; /* of the family, for error texts; or NULL */
};
/* Several families at once, each at its view: all requests or none. Keys are numbered over all of them. */
kv_status kv_multi_get_many(const struct kv_request *requests, size_t n, struct kv_result **result,
                            struct kv_err *err);
/* kv_multi_get without reading values that are stored apart; kv_result_load reads these, in grouped reads,
** for the same keys. */
kv_status kv_multi_get_heads(struct kv_view *view, struct kv_batch *batch,
                             const struct kv_slice *keys, size_t n, struct kv_result **result,
                             struct kv_err *err);
kv_status kv_result_load(struct kv_result *result, const struct kv_slice *keys, struct kv_err *err);
/* Whether keys[index] was found, and its value, or its head when that was not loaded; borrowed until free. */
bool kv_result_found(const struct kv_result *result, size_t index, struct kv_slice *value);
/* The block of the cache that has the value, pinned as long as the result lives; NULL when it is elsewhere.
** */
struct kv_cache_entry *kv_result_pin(const struct kv_result *result, size_t index);
void kv_result_free(struct kv_result *result);

/* A place of the caller's for one value. */
struct kv_room {
  void *bytes;     /* may be NULL when capacity is 0 */
  size_t capacity; /* bytes */
  bool found;      /* out */
  size_t size; /* out: of the value. Over the capacity: nothing was written, ask again with more */
};
/* The same into rooms[i] for the ith key, counted over all requests; nothing is kept. */
kv_status kv_multi_get_into(const struct kv_request *requests, size_t n, struct kv_room *rooms,
                            struct kv_err *err);

enum kv_may_exist { KV_ABSENT, KV_PRESENT, KV_UNKNOWN };
/* Where a read goes on after UNKNOWN, in the same view: all that is newer than this run is known not to have
** the key, and the filter of its file has let it through. */
struct kv_resume {
  size_t run;
};
/* Key-may-exist: ABSENT is proved by filters and fences, PRESENT by batch, memtable or a cached block, and
** no block is read. resume may be NULL. */
kv_status kv_may_exist(struct kv_view *view, struct kv_batch *batch, struct kv_slice key,
                       enum kv_may_exist *answer, struct kv_resume *resume, struct kv_err *err);
/* Exact: the probe, continued when unknown. */
kv_status kv_exists(struct kv_view *view, struct kv_batch *batch, struct kv_slice key, bool *found,
                    struct kv_err *err);
/* The get and the exists of a key that a probe left UNKNOWN, from where it stopped. */
kv_status kv_get_resume(struct kv_view *view, struct kv_slice key, struct kv_resume resume,
                        struct kv_value *value, struct kv_err *err);
kv_status kv_exists_resume(struct kv_view *view, struct kv_slice key, struct kv_resume resume,
                           bool *found, struct kv_err *err);
/* The same for n keys, in any order, also several times the same; answers[i] for keys[i], one pass over the
** filters of a run. resumes (may be NULL): set where the answer is UNKNOWN. */
kv_status kv_may_exist_many(struct kv_view *view, struct kv_batch *batch,
                            const struct kv_slice *keys, size_t n, enum kv_may_exist *answers,
                            struct kv_resume *resumes, struct kv_err *err);
kv_status kv_exists_many(struct kv_view *view, struct kv_batch *batch, const struct kv_slice *keys,
                         size_t n, bool *found, struct kv_err *err);
/* Makes the UNKNOWN ones among the answers of kv_may_exist_many exact. */
kv_status kv_exists_many_resume(struct kv_view *view, const struct kv_slice *keys, size_t n,
                                enum kv_may_exist *answers, const struct kv_resume *resumes,
                                struct kv_err *err);

/* Looks whether the keys of the batch's puts that are not counted are there in the view that it is written
** over (batch.h): all of them or, after a failure, none. */
kv_status kv_count_rows(struct kv_view *view, struct kv_batch *batch, struct kv_err *err);

/* KV_MISUSE when the family's order is an application's comparator that calls a key of the batch equal to
** another of it, of the log or at an end of a file (custom.h); other keys are compared when they are merged.
** To be asked before the batch is committed; costs nothing without a comparator. */
kv_status kv_check_order(struct kv_view *view, struct kv_batch *batch, struct kv_err *err);

/* A scan over the live rows of (view, batch) with lower <= key < upper, both directions. The batch's part
** is fixed when opened. */
struct kv_scan;
struct kv_bounds {
  struct kv_slice lower; /* empty = from the first key; both in the family's order */
  struct kv_slice upper; /* used when has_upper */
  bool has_upper;
};
/* Holds references to view and batch; copies the bounds. Not positioned: call first, last or seek. */
kv_status kv_scan_open(struct kv_view *view, struct kv_batch *batch, const struct kv_bounds *bounds,
                       struct kv_scan **scan, struct kv_err *err);
void kv_scan_close(struct kv_scan *scan);
kv_status kv_scan_first(struct kv_scan *scan, struct kv_err *err);
kv_status kv_scan_last(struct kv_scan *scan, struct kv_err *err);
/* To the first row >= key inside the bounds. */
kv_status kv_scan_seek(struct kv_scan *scan, struct kv_slice key, struct kv_err *err);
/* Only while valid. */
kv_status kv_scan_next(struct kv_scan *scan, struct kv_err *err);
kv_status kv_scan_prev(struct kv_scan *scan, struct kv_err *err);
bool kv_scan_valid(const struct kv_scan *scan);
struct kv_slice kv_scan_key(const struct kv_scan *scan); /* borrowed until the next move */
/* What is at hand of the value without reading one that is stored apart: all of it, or its head; likewise. */
struct kv_slice kv_scan_head(const struct kv_scan *scan);
/* The value, read when it is stored apart; likewise. */
kv_status kv_scan_value(struct kv_scan *scan, struct kv_slice *value, struct kv_err *err);

/* ---- Jobs (invariant 3: optimistic; the caller publishes the edit) */

/* What a job changes in the catalog: rows to add to and remove from t_cffile, and the new flushed mark.
** Owned by the job. */
struct kv_edit {
  struct kv_file_info *added;
  size_t added_count;
  uint64_t *removed; /* file ids */
  size_t removed_count;
  bool
      flushes; /* the three below say how far the log is flushed; else they change nothing in the catalog */
  uint64_t flushed_seq;
  uint64_t flushed_nonce;
  int64_t rows; /* at flushed_seq; -1 unknown */
};
/* Whether the file is among the removed ones. */
bool kv_edit_removes(const struct kv_edit *edit, uint64_t id);
/* What leads from one view to another of its family that was made from it by overlays, the caller's: only
** what the former lacks, and has too much. */
kv_status kv_edit_between(const struct kv_view *from, const struct kv_view *to,
                          struct kv_edit **edit, struct kv_err *err);
void kv_edit_free(struct kv_edit *edit); /* NULL is allowed */

enum kv_job_kind {
  KV_JOB_FLUSH,   /* every memtable of the view becomes one run */
  KV_JOB_COMPACT, /* every memtable and every run of the view becomes one run without tombstones */
  KV_JOB_MERGE /* the runs, or parts of them, whose merging is due most (compact_pick.h), if any; the log
                  is left alone, so that flushes may be recorded while it runs */
};
struct kv_job;
/* Holds a reference to the view. */
kv_status kv_job_new(struct kv_view *view, enum kv_job_kind kind, struct kv_job **job,
                     struct kv_err *err);
/* The same for a large commit that is about to be made: `batch` is the newest input, and the run ends at
** `row` (its seq above the view's last, its nonce and rows; its batch is not read), which then needs no
** log. The job refers to the batch until its input is read; it must not change between. batch and row
** NULL: kv_job_new. */
kv_status kv_job_new_commit(struct kv_view *view, enum kv_job_kind kind, struct kv_batch *batch,
                            const struct kv_log_row *row, struct kv_job **job, struct kv_err *err);
/* A merge of all runs of level 0 that are newer than commit `seq`, if there are several: those that a
** transaction has written for itself. */
kv_status kv_job_new_gather(struct kv_view *view, uint64_t seq, struct kv_job **job,
                            struct kv_err *err);
/* A merge of the newest runs among these, if there are four or more of like size; *oldest is the seq of the
** oldest that is read. NULL when there are not. */
kv_status kv_job_new_tier(struct kv_view *view, uint64_t seq, uint64_t *oldest, struct kv_job **job,
                          struct kv_err *err);
/* A bounded piece of work (about 1 MiB of input, or of output read back). *done when the output is
** written, synced and read back; entries and digest of the inputs are then those of what was written and what
** was left out (KV_CORRUPT otherwise). After a failure only free. */
kv_status kv_job_step(struct kv_job *job, bool *done, struct kv_err *err);
/* Key and value bytes that one step works through (1 MiB when not set). */
void kv_job_set_step_bytes(struct kv_job *job, uint64_t bytes);
/* Entries worked through and in all, for progress rows. */
void kv_job_progress(const struct kv_job *job, uint64_t *done, uint64_t *total);
/* "write" or "verify", what the next step does, or "done"; static. */
const char *kv_job_phase(const struct kv_job *job);
/* Whether the job's inputs are still live in a later view of its family, so that its edit can be recorded
** there: every file that it read is named at the same level, its output overlaps no other file where it
** goes, for a flush or a compaction the same commit is flushed, for a compaction no other file is named. That
** its last commit is still the view's, which nonces tell, is the caller's to check. */
bool kv_job_fits(const struct kv_job *job, const struct kv_view *view);
/* To be recorded over this view, which it fits: the edit of a merge takes the view's flushed mark, that of a
** flush the level where its files belong. */
void kv_job_rebase(struct kv_job *job, const struct kv_view *view);
/* The edit of a finished job. With nothing to do it adds and removes nothing and flushed_* are the
** view's. */
const struct kv_edit *kv_job_edit(const struct kv_job *job);
/* A finished job lets go of its view, which would keep files: from then on only its edit may be asked for. */
void kv_job_let_go(struct kv_job *job);
/* A finished job lets go of the locks on its files, and the descriptors: nobody can take them for left behind
** as long as the job lives, which is the caller's to know (invariant 5). */
void kv_job_unlock_files(struct kv_job *job);
/* The edit is durable in the catalog: the files are no longer the job's. */
void kv_job_keep_files(struct kv_job *job);
/* The same for those of its files that another edit adds, which the job's has become part of. */
void kv_job_keep_added(struct kv_job *job, const struct kv_edit *edit);
/* Unlinks the job's files unless kept. */
void kv_job_free(struct kv_job *job);
/* The same, and tells of each file that could not go, because a view names it or for another reason. */
void kv_job_end(struct kv_job *job, void (*left)(void *ctx, uint64_t id), void *ctx);

/* For tests: all jobs of the process look for each deleted key that they leave out in the older files, by
** reading; KV_CORRUPT when one has it. Off at first. */
void kv_drops_check(bool on);

/* What is due, a pure function of sizes (compact_pick.h): by threads meanwhile, or in commits. */
struct kv_work {
  bool flush; /* KV_JOB_FLUSH: the log is over its budget */
  bool merge; /* KV_JOB_MERGE */
};
struct kv_work kv_view_work(const struct kv_view *view);

/* ---- Damage: reading around it */

/* What of a file cannot be read, as far as its keys tell: lower <= key < upper, or <= upper when closed. */
struct kv_lost {
  uint64_t file;
  uint64_t position; /* of the first block in it; 0 too when nothing of the file can be read */
  struct kv_slice lower, upper;
  bool closed;
  uint64_t entries; /* of the file, that are in such stretches; tombstones included */
};
/* A status other than KV_OK ends the survey. Slices are borrowed for the call. */
typedef kv_status (*kv_lost_fn)(void *ctx, const struct kv_lost *lost);
/* Reads every block of every file of the view. */
kv_status kv_survey(struct kv_view *view, kv_lost_fn fn, void *ctx, struct kv_err *err);

/* The rows that a damaged state still has, in key order: of each key the newest version that can be read.
** When a newer one may have been in what cannot be read, the row is doubtful: it may be older than what was
** there, or deleted. What a filter denies was not there. */
struct kv_salvage;
struct kv_salvage_input {
  struct kv_family *family;
  const struct kv_snapshot *snapshot;
  const struct kv_log_source *source; /* a row that is missing or damaged hides all older ones */
  bool files_doubtful; /* the manifest may lack files: all of them are older than one */
};
/* KV_CORRUPT when the manifest contradicts itself: what is newer cannot be told then. */
kv_status kv_salvage_open(const struct kv_salvage_input *input, struct kv_salvage **salvage,
                          struct kv_err *err);
struct kv_salvaged {
  struct kv_slice key, value; /* borrowed until the next call */
  bool doubtful;
};
/* false: there are no more. After a failure only free. */
kv_status kv_salvage_next(struct kv_salvage *salvage, bool *found, struct kv_salvaged *row,
                          struct kv_err *err);
void kv_salvage_free(struct kv_salvage *salvage); /* NULL is allowed */

/* ---- Check */

/* One problem; texts are borrowed for the call. file is 0 for problems of no file. A status other than
** KV_OK stops the check. */
typedef kv_status (*kv_problem_fn)(void *ctx, const char *severity, uint64_t file,
                                   uint64_t position, const char *text);
/* Reads everything: every file of the view (kv_table_verify), order and overlap of runs, memtables, that
** a full scan equals the row count when it is known, and that gets agree with it (check.c). Damage is
** reported and is no failure of the call. */
kv_status kv_check(struct kv_view *view, kv_problem_fn report, void *ctx, struct kv_err *err);

#endif
