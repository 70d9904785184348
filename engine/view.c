/* Views: the files of a snapshot arranged into runs, and the memtables of its log, which are all newer than
** any run: a read that goes batch, memtables, runs and stops at the first answer sees the newest (invariant
** 1). Thread rule: immutable after it is built; references are counted atomically. */
#include "view.h"

#include <string.h>

#include "mem.h"

#define LOG_ENTRY_BYTES 16 /* a small entry, for estimates */

/* ---- Life */

static void view_free(struct kv_view *view) {
  kv_family_drop_view(view->family, view);
  kv_layout_unref(view->layout);
  kv_log_window_release(&view->log);
  kv_family_unref(view->family);
  kv_free(view);
}

static kv_status view_alloc(struct kv_family *family, struct kv_view **out, struct kv_err *err) {
  struct kv_view *view = kv_alloc_zero(1, sizeof *view);
  if (!view) return kv_fail_nomem(err);
  view->refs = 1;
  view->family = kv_family_ref(family);
  *out = view;
  return KV_OK;
}

/* Takes the layout over. */
static void set_layout(struct kv_view *view, struct kv_layout *layout) {
  view->layout = layout;
  view->runs = layout->runs;
  view->run_count = layout->run_count;
  view->files = layout->files;
  view->file_count = layout->file_count;
}

struct kv_view *kv_view_ref(struct kv_view *view) {
  __atomic_add_fetch(&view->refs, 1, __ATOMIC_RELAXED);
  return view;
}

void kv_view_unref(struct kv_view *view) {
  if (view && __atomic_sub_fetch(&view->refs, 1, __ATOMIC_ACQ_REL) == 0) view_free(view);
}

/* ---- Building */

/* A row count that is not the newest commit's, or that the files and the log cannot hold; an entry of the log
** has at least two bytes. */
static kv_status check_rows(const struct kv_view *view, struct kv_err *err) {
  if (view->log.table_count && view->log.rows != view->rows)
    return kv_fail(err, KV_CORRUPT, "the row count is %lld, that of the newest commit %lld",
                   (long long)view->rows, (long long)view->log.rows);
  uint64_t most = view->log.bytes / 2 + view->layout->entries;
  if (view->rows < 0 || (uint64_t)view->rows <= most) return KV_OK;
  return kv_fail(err, KV_CORRUPT, "the row count is %lld, but files and log hold at most %llu",
                 (long long)view->rows, (unsigned long long)most);
}

/* The base's layout, or that of the snapshot's files. */
static kv_status take_layout(struct kv_view *view, const struct kv_view *base,
                             const struct kv_snapshot *snapshot, struct kv_err *err) {
  struct kv_layout *layout = NULL;
  kv_status status = KV_OK;
  if (base)
    layout = kv_layout_ref(base->layout);
  else
    status = kv_layout_new(view->family, snapshot->files, snapshot->file_count,
                           snapshot->log.last_seq, &layout, err);
  if (layout) set_layout(view, layout);
  return status;
}

static kv_status fill(struct kv_view *view, const struct kv_view *base,
                      const struct kv_snapshot *snapshot, const struct kv_log_source *source,
                      struct kv_err *err) {
  struct kv_log *log = kv_family_log(view->family);
  view->rows = snapshot->rows;
  kv_status status = kv_log_read(log, &snapshot->log, source, &view->log, err);
  if (status == KV_OK) status = take_layout(view, base, snapshot, err);
  if (status == KV_OK) status = check_rows(view, err);
  if (status == KV_OK) kv_log_trim(log, snapshot->log.flushed_seq);
  return status;
}

/* base: NULL, or whose files it has. */
static kv_status build(struct kv_family *family, const struct kv_view *base,
                       const struct kv_snapshot *snapshot, const struct kv_log_source *source,
                       struct kv_view **view, struct kv_err *err) {
  struct kv_view *made = NULL;
  *view = NULL;
  kv_status status = view_alloc(family, &made, err);
  if (status != KV_OK) return status;
  status = fill(made, base, snapshot, source, err);
  if (status == KV_OK) {
    kv_stats_add(kv_family_stats(family), KV_STAT_VIEWS_BUILT, 1);
    kv_family_add_view(family, made);
    *view = made;
  } else {
    view_free(made);
  }
  return status;
}

kv_status kv_view_new(struct kv_family *family, const struct kv_snapshot *snapshot,
                      const struct kv_log_source *source, struct kv_view **view,
                      struct kv_err *err) {
  return build(family, NULL, snapshot, source, view, err);
}

kv_status kv_view_follow(const struct kv_view *base, const struct kv_snapshot *snapshot,
                         const struct kv_log_source *source, struct kv_view **view,
                         struct kv_err *err) {
  const struct kv_log_state *known = &base->log.state;
  *view = NULL;
  if (known->flushed_seq != snapshot->log.flushed_seq ||
      known->flushed_nonce != snapshot->log.flushed_nonce)
    return kv_fail(err, KV_MISUSE, "the snapshot's flushed commit is not the base's");
  return build(base->family, base, snapshot, source, view, err);
}

/* The base's layout, or that of the edit. */
static kv_status advance_layout(struct kv_view *view, const struct kv_view *base,
                                const struct kv_edit *edit, struct kv_err *err) {
  struct kv_layout *layout = NULL;
  kv_status status = KV_OK;
  if (edit && (edit->added_count || edit->removed_count))
    status = kv_layout_edit(base->layout, edit, view->log.state.last_seq, &layout, err);
  else
    layout = kv_layout_ref(base->layout);
  if (layout) set_layout(view, layout);
  return status;
}

static kv_status advance(struct kv_view *view, const struct kv_view *base,
                         const struct kv_log_row *row, const struct kv_edit *edit,
                         struct kv_err *err) {
  const struct kv_log_state *old = &base->log.state;
  uint64_t flushed_seq = edit ? edit->flushed_seq : old->flushed_seq;
  uint64_t flushed_nonce = edit ? edit->flushed_nonce : old->flushed_nonce;
  struct kv_log *log = kv_family_log(view->family);
  if (flushed_seq < old->flushed_seq)
    return kv_fail(err, KV_BUSY, "the edit ends at commit %llu, but %llu is flushed already",
                   (unsigned long long)flushed_seq, (unsigned long long)old->flushed_seq);
  view->rows = row ? row->rows : base->rows;
  kv_status status =
      kv_log_advance(log, &base->log, row, flushed_seq, flushed_nonce, &view->log, err);
  if (status == KV_OK) status = advance_layout(view, base, edit, err);
  if (status == KV_OK && edit) kv_log_trim(log, flushed_seq);
  return status;
}

kv_status kv_view_advance(const struct kv_view *base, const struct kv_log_row *row,
                          const struct kv_edit *edit, struct kv_view **view, struct kv_err *err) {
  struct kv_view *made = NULL;
  *view = NULL;
  kv_status status = view_alloc(base->family, &made, err);
  if (status != KV_OK) return status;
  status = advance(made, base, row, edit, err);
  if (status != KV_OK) {
    view_free(made);
    return status;
  }
  kv_family_add_view(base->family, made);
  *view = made;
  return KV_OK;
}

/* ---- Views of a transaction's own work */

static kv_status copy_tables(struct kv_log_window *to, const struct kv_log_window *from,
                             struct kv_err *err) {
  *to = *from;
  to->table_count = 0;
  to->tables = kv_alloc(from->table_count, sizeof *to->tables);
  if (!to->tables) return kv_fail_nomem(err);
  for (; to->table_count < from->table_count; to->table_count++)
    to->tables[to->table_count] = kv_memtable_ref(from->tables[to->table_count]);
  return KV_OK;
}

/* The base's window without the commits that the edit flushes. */
static kv_status overlay_log(struct kv_view *view, const struct kv_view *base,
                             const struct kv_edit *edit, struct kv_err *err) {
  uint64_t seq = edit->flushed_seq, nonce = edit->flushed_nonce;
  if (edit->flushes && seq >= base->log.state.last_seq) {
    view->log = (struct kv_log_window){.state = {seq, nonce, seq, nonce}, .window = {seq, seq}};
    return KV_OK;
  }
  kv_status status = copy_tables(&view->log, &base->log, err);
  if (status != KV_OK || !edit->flushes) return status;
  view->log.state.flushed_seq = view->log.window.flushed_seq = seq;
  view->log.state.flushed_nonce = nonce;
  return KV_OK;
}

kv_status kv_view_overlay(const struct kv_view *base, const struct kv_edit *edit, int64_t rows,
                          struct kv_view **view, struct kv_err *err) {
  struct kv_view *made = NULL;
  *view = NULL;
  kv_status status = view_alloc(base->family, &made, err);
  if (status != KV_OK) return status;
  made->rows = rows;
  status = overlay_log(made, base, edit, err);
  if (status == KV_OK) status = advance_layout(made, base, edit, err);
  if (status != KV_OK) {
    view_free(made);
    return status;
  }
  kv_family_add_view(base->family, made);
  *view = made;
  return KV_OK;
}

static kv_status list_added(struct kv_edit *edit, const struct kv_view *from,
                            const struct kv_view *to, struct kv_err *err) {
  kv_status status = KV_OK;
  for (size_t i = 0; i < to->file_count && status == KV_OK; i++) {
    const struct kv_file_info *file = kv_sst_info(to->files[i]);
    if (kv_view_names_file(from, file->id)) continue;
    kv_file_info_init(&edit->added[edit->added_count]);
    status = kv_file_info_copy(&edit->added[edit->added_count++], file, err);
  }
  return status;
}

void kv_edit_free(struct kv_edit *edit) {
  if (!edit) return;
  for (size_t i = 0; i < edit->added_count; i++) kv_file_info_release(&edit->added[i]);
  kv_free(edit->added);
  kv_free(edit->removed);
  kv_free(edit);
}

kv_status kv_edit_between(const struct kv_view *from, const struct kv_view *to,
                          struct kv_edit **edit, struct kv_err *err) {
  const struct kv_log_state *log = &to->log.state;
  struct kv_edit *made = kv_alloc_zero(1, sizeof *made);
  *edit = NULL;
  if (!made) return kv_fail_nomem(err);
  made->flushes = log->flushed_seq != from->log.state.flushed_seq;
  made->flushed_seq = log->flushed_seq;
  made->flushed_nonce = log->flushed_nonce;
  made->rows = to->rows;
  made->added = kv_alloc(to->file_count, sizeof *made->added);
  made->removed = kv_alloc(from->file_count, sizeof *made->removed);
  kv_status status =
      made->added && made->removed ? list_added(made, from, to, err) : kv_fail_nomem(err);
  for (size_t i = 0; i < from->file_count && status == KV_OK; i++) {
    uint64_t id = kv_sst_info(from->files[i])->id;
    if (!kv_view_names_file(to, id)) made->removed[made->removed_count++] = id;
  }
  if (status == KV_OK)
    *edit = made;
  else
    kv_edit_free(made);
  return status;
}

/* ---- Facts */

const struct kv_log_state *kv_view_log(const struct kv_view *view) {
  return &view->log.state;
}

int64_t kv_view_rows(const struct kv_view *view) {
  return view->rows;
}

uint64_t kv_view_gen(const struct kv_view *view) {
  return view->log.gen;
}

uint64_t kv_view_gen_bytes(const struct kv_view *view) {
  return view->log.gen_bytes;
}

uint64_t kv_view_log_bytes(const struct kv_view *view) {
  return view->log.bytes;
}

bool kv_view_names_file(const struct kv_view *view, uint64_t id) {
  for (size_t i = 0; i < view->file_count; i++)
    if (kv_sst_info(view->files[i])->id == id) return true;
  return false;
}

size_t kv_view_file_count(const struct kv_view *view) {
  return view->file_count;
}

const struct kv_file_info *kv_view_file(const struct kv_view *view, size_t index) {
  return kv_sst_info(view->files[index]);
}

kv_status kv_view_file_raw_bytes(struct kv_view *view, size_t index, uint64_t *raw,
                                 struct kv_err *err) {
  struct kv_table *table;
  kv_status status = kv_sst_table(view->files[index], &table, err);
  if (status == KV_OK) *raw = kv_table_raw_bytes(table);
  return status;
}

uint64_t kv_view_file_reclaimable(const struct kv_view *view, size_t index) {
  const struct kv_file_info *file = kv_sst_info(view->files[index]);
  struct kv_slice smallest = kv_buf_slice(&file->smallest), largest = kv_buf_slice(&file->largest);
  for (size_t i = view->run_count; i > 0; i--) {
    const struct kv_run *run = &view->runs[i - 1];
    if (run->level == file->level && run->seq == file->seq) break;
    if (kv_run_overlap(run, smallest, largest).file_count) return 0;
  }
  return file->tombstones;
}

kv_status kv_view_file_dead_bytes(struct kv_view *view, size_t index, uint64_t *dead,
                                  struct kv_err *err) {
  uint64_t id = kv_sst_info(view->files[index])->id, used = 0;
  struct kv_table *table;
  kv_status status = KV_OK;
  for (size_t i = 0; i < view->file_count - view->layout->value_count && status == KV_OK; i++) {
    status = kv_sst_table(view->files[i], &table, err);
    const struct kv_value_use *use =
        status == KV_OK ? kv_value_uses_find(kv_table_uses(table), id) : NULL;
    if (use) used += use->bytes;
  }
  if (status == KV_OK) status = kv_sst_table(view->files[index], &table, err);
  if (status != KV_OK) return status;
  uint64_t all = kv_table_value_bytes(table);
  *dead = all > used ? all - used : 0;
  return KV_OK;
}

size_t kv_view_run_count(const struct kv_view *view) {
  return view->run_count;
}

uint64_t kv_view_entries_estimate(const struct kv_view *view) {
  return view->log.bytes / LOG_ENTRY_BYTES + view->layout->entries;
}
