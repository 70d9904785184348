/* The rows of a damaged state, and where it cannot be read (kv.h, Damage).
**
** Sources are in the order in which reads ask them, newest first: the rows of the log in pieces, the runs.
** Between pieces of the log there is a gap where a row is missing or damaged: a source without entries that
** may hide every key; another stands before the files when the manifest may lack some. All sources go
** through the keys side by side; of equal keys the newest source's entry counts, and it is doubtful when a
** source before it has a gap or a hole where its key would be (invariant 7: what may be an older value is
** never shown as the value). Thread rule: one thread at a time. */
#include <string.h>

#include "hash.h"
#include "mem.h"
#include "salvage_run.h"
#include "values.h"

enum kind { GAP, LOG, RUN };

struct source {
  enum kind kind;
  struct kv_iter *iter;      /* LOG */
  struct kv_salvage_run run; /* RUN */
};

struct kv_salvage {
  struct kv_family *family;
  struct kv_view *view;   /* the files alone */
  struct source *sources; /* newest first */
  size_t count, capacity;
  struct kv_memtable *piece; /* of the log, being read */
  struct kv_value_reader *values;
  struct kv_buf key; /* shown last */
  bool started;
};

/* ---- Sources, added oldest first and turned round in the end */

static kv_status add_source(struct kv_salvage *salvage, enum kind kind, struct source **out,
                            struct kv_err *err) {
  if (salvage->count == salvage->capacity) {
    size_t capacity = salvage->capacity ? salvage->capacity * 2 : 8;
    struct source *sources = kv_realloc(salvage->sources, capacity, sizeof *sources);
    if (!sources) return kv_fail_nomem(err);
    salvage->sources = sources;
    salvage->capacity = capacity;
  }
  *out = &salvage->sources[salvage->count++];
  memset(*out, 0, sizeof **out);
  (*out)->kind = kind;
  return KV_OK;
}

static kv_status add_gap(struct kv_salvage *salvage, struct kv_err *err) {
  struct source *source;
  return add_source(salvage, GAP, &source, err);
}

static kv_status add_runs(struct kv_salvage *salvage, struct kv_err *err) {
  kv_status status = KV_OK;
  for (size_t i = salvage->view->run_count; i > 0 && !status; i--) {
    struct source *source;
    status = add_source(salvage, RUN, &source, err);
    if (!status) kv_salvage_run_init(&source->run, salvage->family, &salvage->view->runs[i - 1]);
  }
  return status;
}

/* What was read of the log since the last gap becomes a source. */
static kv_status end_piece(struct kv_salvage *salvage, struct kv_window window,
                           struct kv_err *err) {
  struct source *source;
  if (!salvage->piece) return KV_OK;
  kv_status status = add_source(salvage, LOG, &source, err);
  if (!status) status = kv_memtable_iter(salvage->piece, window, &source->iter, err);
  kv_memtable_unref(salvage->piece);
  salvage->piece = NULL;
  return status;
}

static kv_status add_row(struct kv_salvage *salvage, const struct kv_log_row *row,
                         struct kv_err *err) {
  const struct kv_table_config *config = kv_family_table_config(salvage->family);
  kv_status status = kv_log_row_check(row, err);
  if (!status && !salvage->piece)
    status = kv_memtable_new(row->gen, config->comparator, &salvage->piece, err);
  if (status) return status;
  return kv_memtable_add(salvage->piece, row->seq, row->batch, config->uuid, NULL, err);
}

static kv_status break_log(struct kv_salvage *salvage, struct kv_window window,
                           struct kv_err *err) {
  kv_status status = end_piece(salvage, window, err);
  return status ? status : add_gap(salvage, err);
}

static kv_status add_log(struct kv_salvage *salvage, const struct kv_log_state *log,
                         const struct kv_log_source *from, struct kv_err *err) {
  struct kv_window window = {log->flushed_seq, log->last_seq};
  uint64_t expected = log->flushed_seq + 1;
  bool found = log->last_seq > log->flushed_seq;
  kv_status status = found ? from->open(from->ctx, expected, err) : KV_OK;
  while (!status && found && expected <= log->last_seq) {
    struct kv_log_row row;
    status = from->next(from->ctx, &row, &found, err);
    if (status || !found) break;
    if (row.seq != expected) status = break_log(salvage, window, err);
    expected = row.seq + 1;
    if (!status) status = add_row(salvage, &row, err);
    if (status && status != KV_NOMEM) status = break_log(salvage, window, err);
  }
  if (status == KV_NOMEM) return status;
  status = end_piece(salvage, window, err);
  return !status && expected <= log->last_seq ? add_gap(salvage, err) : status;
}

static void turn_round(struct kv_salvage *salvage) {
  for (size_t i = 0, k = salvage->count; i + 1 < k; i++) {
    struct source kept = salvage->sources[i];
    salvage->sources[i] = salvage->sources[--k];
    salvage->sources[k] = kept;
  }
}

static kv_status view_of_files(const struct kv_salvage_input *input, struct kv_view **view,
                               struct kv_err *err) {
  struct kv_snapshot files = *input->snapshot;
  files.log.last_seq = files.log.flushed_seq;
  files.log.last_nonce = files.log.flushed_nonce;
  files.rows = -1;
  return kv_view_new(input->family, &files, input->source, view, err);
}

static kv_status start(struct kv_salvage *salvage, const struct kv_salvage_input *input,
                       struct kv_err *err) {
  kv_status status = view_of_files(input, &salvage->view, err);
  if (!status) status = kv_value_reader_new(salvage->view->layout, &salvage->values, err);
  if (!status) status = add_runs(salvage, err);
  if (!status && input->files_doubtful) status = add_gap(salvage, err);
  if (!status) status = add_log(salvage, &input->snapshot->log, input->source, err);
  if (!status) turn_round(salvage);
  return status;
}

kv_status kv_salvage_open(const struct kv_salvage_input *input, struct kv_salvage **salvage,
                          struct kv_err *err) {
  *salvage = NULL;
  struct kv_salvage *made = kv_alloc_zero(1, sizeof *made);
  if (!made) return kv_fail_nomem(err);
  kv_buf_init(&made->key);
  made->family = kv_family_ref(input->family);
  kv_status status = start(made, input, err);
  if (status)
    kv_salvage_free(made);
  else
    *salvage = made;
  return status;
}

void kv_salvage_free(struct kv_salvage *salvage) {
  if (!salvage) return;
  for (size_t i = 0; i < salvage->count; i++) {
    struct source *source = &salvage->sources[i];
    kv_iter_free(source->iter);
    if (source->kind == RUN) kv_salvage_run_release(&source->run);
  }
  kv_memtable_unref(salvage->piece);
  kv_free(salvage->sources);
  kv_buf_release(&salvage->key);
  kv_value_reader_free(salvage->values);
  kv_view_unref(salvage->view);
  kv_family_unref(salvage->family);
  kv_free(salvage);
}

/* ---- Moves */

struct entry {
  struct kv_slice key, value;
  bool deleted;
  bool apart;
};

static bool current(const struct source *source, struct entry *entry) {
  if (source->kind == RUN && source->run.cursor.valid) {
    const struct kv_block_cursor *cursor = &source->run.cursor;
    *entry =
        (struct entry){kv_buf_slice(&cursor->key), cursor->value, cursor->deleted, cursor->apart};
    return true;
  }
  if (source->kind == LOG && source->iter->valid) {
    *entry = (struct entry){source->iter->key, source->iter->value, source->iter->deleted, false};
    return true;
  }
  return false;
}

static kv_status move(struct source *source, bool first, struct kv_err *err) {
  if (source->kind == RUN) return kv_salvage_run_next(&source->run, err);
  if (source->kind == GAP) return KV_OK;
  if (first)
    kv_iter_seek_first(source->iter);
  else
    kv_iter_next(source->iter);
  if (source->iter->status != KV_OK && err) *err = source->iter->err;
  return source->iter->status;
}

/* All sources on their first entry, or past the key shown last. */
static kv_status move_on(struct kv_salvage *salvage, struct kv_err *err) {
  const struct kv_buf *key = &salvage->key;
  struct kv_slice shown = kv_slice_of(key->data, key->data ? key->size : 0);
  kv_status status = KV_OK;
  for (size_t i = 0; i < salvage->count && !status; i++) {
    struct entry entry;
    bool first = !salvage->started;
    if (first || (current(&salvage->sources[i], &entry) && kv_slice_equal(entry.key, shown)))
      status = move(&salvage->sources[i], first, err);
  }
  salvage->started = true;
  return status;
}

/* The newest source of the lowest key; count when there is none. */
static size_t lowest(const struct kv_salvage *salvage, struct entry *found) {
  const struct kv_comparator *by = kv_family_table_config(salvage->family)->comparator;
  size_t best = salvage->count;
  for (size_t i = 0; i < salvage->count; i++) {
    struct entry entry;
    if (!current(&salvage->sources[i], &entry)) continue;
    if (best < salvage->count && kv_key_compare(by, entry.key, found->key) >= 0) continue;
    best = i;
    *found = entry;
  }
  return best;
}

static bool is_hidden(struct kv_salvage *salvage, size_t before, struct kv_slice key) {
  uint64_t hash = kv_hash_key(key);
  for (size_t i = 0; i < before; i++) {
    struct source *source = &salvage->sources[i];
    if (source->kind == GAP) return true;
    if (source->kind == RUN && kv_salvage_run_hides(&source->run, key, hash)) return true;
  }
  return false;
}

/* The entry of the next older source that has its key; false when there is none. */
static bool older(const struct kv_salvage *salvage, size_t *source, struct entry *entry) {
  struct kv_slice key = entry->key;
  while (++*source < salvage->count)
    if (current(&salvage->sources[*source], entry) && kv_slice_equal(entry->key, key)) return true;
  return false;
}

/* Reads the value when it is stored apart. Where that cannot be read an older version of the row is looked
** at, which then is doubtful; *found is false when there is none, or a deletion. */
static kv_status take_value(struct kv_salvage *salvage, size_t source, struct entry *entry,
                            bool *doubtful, bool *found, struct kv_err *err) {
  struct kv_apart apart;
  *doubtful = false;
  *found = true;
  while (*found && entry->apart) {
    struct kv_slice reference = entry->value;
    kv_status status = KV_CORRUPT;
    if (kv_apart_parse(reference, &apart))
      status = kv_value_reader_get(salvage->values, entry->key, &apart, &entry->value, err);
    if (status == KV_NOMEM || status == KV_OK) return status;
    *doubtful = true;
    *found = older(salvage, &source, entry) && !entry->deleted;
  }
  return KV_OK;
}

/* To the next key, and the newest entry of it; *source is the count at the end. */
static kv_status next_key(struct kv_salvage *salvage, size_t *source, struct entry *entry,
                          struct kv_err *err) {
  kv_status status = move_on(salvage, err);
  if (status) return status;
  *source = lowest(salvage, entry);
  if (*source == salvage->count) return KV_OK;
  kv_buf_clear(&salvage->key);
  kv_buf_append(&salvage->key, entry->key.data, entry->key.size);
  return salvage->key.status ? kv_fail_nomem(err) : KV_OK;
}

kv_status kv_salvage_next(struct kv_salvage *salvage, bool *found, struct kv_salvaged *row,
                          struct kv_err *err) {
  struct entry entry = {.deleted = true};
  *found = false;
  while (!*found) {
    size_t source = 0;
    bool doubtful = false;
    kv_status status = next_key(salvage, &source, &entry, err);
    if (status || source == salvage->count) return status;
    if (entry.deleted) continue;
    bool hidden = is_hidden(salvage, source, entry.key);
    status = take_value(salvage, source, &entry, &doubtful, found, err);
    if (status) return status;
    *row = (struct kv_salvaged){entry.key, entry.value, hidden || doubtful};
  }
  return KV_OK;
}

/* ---- Survey */

static kv_status tell_lost(const struct kv_salvage_run *run, uint64_t entries, kv_lost_fn fn,
                           void *ctx) {
  kv_status status = KV_OK;
  for (size_t i = 0; i < run->hole_count && !status; i++) {
    const struct kv_hole *hole = &run->holes[i];
    struct kv_lost lost = {
        hole->file,   hole->position, kv_buf_slice(&hole->lower), kv_buf_slice(&hole->upper),
        hole->closed, entries};
    status = fn(ctx, &lost);
  }
  return status;
}

static kv_status survey_file(struct kv_family *family, struct kv_sst *file, kv_lost_fn fn,
                             void *ctx, struct kv_err *err) {
  struct kv_run alone = {
      .files = &file, .file_count = 1, .comparator = kv_family_table_config(family)->comparator};
  struct kv_salvage_run run;
  kv_salvage_run_init(&run, family, &alone);
  kv_status status = KV_OK;
  do status = kv_salvage_run_next(&run, err);
  while (!status && run.cursor.valid);
  uint64_t all = kv_sst_info(file)->entries;
  if (!status) status = tell_lost(&run, all > run.read ? all - run.read : 0, fn, ctx);
  kv_salvage_run_release(&run);
  return status;
}

kv_status kv_survey(struct kv_view *view, kv_lost_fn fn, void *ctx, struct kv_err *err) {
  kv_status status = KV_OK;
  for (size_t i = 0; i < view->file_count && !status; i++)
    status = survey_file(view->family, view->files[i], fn, ctx, err);
  return status;
}
