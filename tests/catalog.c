/* See catalog.h. */
#include "catalog.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness_comparator.h"
#include "mem.h"

#define DIR "db-colfam"

/* Checks at the price of a comparison: Check's own asserts write to a file each time. */
static void must(kv_status status, const struct kv_err *err) {
  if (status != KV_OK) ck_abort_msg("%s: %s", kv_status_name(status), err->text);
}

/* ---- The catalog */

void catalog_init(struct catalog *catalog, uint64_t seed) {
  memset(catalog, 0, sizeof *catalog);
  harness_seed(&catalog->random, seed);
  memcpy(catalog->uuid, "catalog-uuid-001", sizeof catalog->uuid);
  catalog->table_rows = -1;
  catalog->gen = 1;
}

static void free_files(struct kv_file_info *files, size_t count) {
  for (size_t i = 0; i < count; i++) kv_file_info_release(&files[i]);
  free(files);
}

void catalog_release(struct catalog *catalog) {
  for (size_t i = 0; i < catalog->row_count; i++) {
    free((void *)(uintptr_t)catalog->rows[i].batch.data);
  }
  free(catalog->rows);
  free_files(catalog->files, catalog->file_count);
}

static void copy_file(struct kv_file_info *to, const struct kv_file_info *from) {
  struct kv_err err;
  kv_file_info_init(to);
  must(kv_file_info_copy(to, from, &err), &err);
}

void catalog_take(const struct catalog *catalog, struct catalog_snapshot *snapshot) {
  memset(snapshot, 0, sizeof *snapshot);
  snapshot->catalog = catalog;
  snapshot->purged_seq = catalog->purged_seq;
  struct kv_file_info *files = calloc(catalog->file_count + 1, sizeof *files);
  for (size_t i = 0; i < catalog->file_count; i++) copy_file(&files[i], &catalog->files[i]);
  snapshot->state = (struct kv_snapshot){.log = catalog->log,
                                         .rows = catalog->table_rows,
                                         .files = files,
                                         .file_count = catalog->file_count};
}

void catalog_drop(struct catalog_snapshot *snapshot) {
  free_files((struct kv_file_info *)(uintptr_t)snapshot->state.files, snapshot->state.file_count);
}

/* Row n of the catalog has seq n + 1. */
static kv_status source_open(void *ctx, uint64_t from, struct kv_err *err) {
  struct catalog_snapshot *snapshot = ctx;
  (void)err;
  uint64_t first = from > snapshot->purged_seq ? from : snapshot->purged_seq + 1;
  snapshot->next = first - 1;
  return KV_OK;
}

static kv_status source_next(void *ctx, struct kv_log_row *row, bool *found, struct kv_err *err) {
  struct catalog_snapshot *snapshot = ctx;
  (void)err;
  *found = snapshot->next < snapshot->state.log.last_seq;
  if (!*found) return KV_OK;
  *row = snapshot->catalog->rows[snapshot->next++];
  snapshot->rows_read++;
  return KV_OK;
}

struct kv_log_source catalog_source(struct catalog_snapshot *snapshot) {
  return (struct kv_log_source){.open = source_open, .next = source_next, .ctx = snapshot};
}

static struct kv_slice encode(struct catalog *catalog, struct kv_batch *batch, uint64_t seq) {
  struct kv_buf encoded;
  struct kv_err err;
  kv_buf_init(&encoded);
  must(kv_batch_encode(batch, catalog->uuid, seq, &encoded, &err), &err);
  uint8_t *bytes = malloc(encoded.size);
  memcpy(bytes, encoded.data, encoded.size);
  struct kv_slice copy = kv_slice_of(bytes, encoded.size);
  kv_buf_release(&encoded);
  return copy;
}

struct kv_log_row catalog_commit(struct catalog *catalog, struct kv_batch *batch) {
  uint64_t seq = catalog->log.last_seq + 1;
  if (catalog->table_rows >= 0) catalog->table_rows += kv_batch_rows_delta(batch);
  struct kv_log_row row = {.seq = seq,
                           .nonce = harness_next(&catalog->random),
                           .gen = catalog->gen,
                           .rows = catalog->table_rows,
                           .batch = encode(catalog, batch, seq)};
  catalog->rows = realloc(catalog->rows, (catalog->row_count + 1) * sizeof *catalog->rows);
  catalog->rows[catalog->row_count++] = row;
  catalog->log.last_seq = seq;
  catalog->log.last_nonce = row.nonce;
  return row;
}

static size_t find_file(const struct catalog *catalog, uint64_t id) {
  size_t i = 0;
  while (i < catalog->file_count && catalog->files[i].id != id) i++;
  return i;
}

kv_status catalog_publish(struct catalog *catalog, const struct kv_edit *edit,
                          uint64_t flushed_seq) {
  if (edit->flushes && catalog->log.flushed_seq != flushed_seq) return KV_BUSY;
  for (size_t i = 0; i < edit->removed_count; i++) {
    if (find_file(catalog, edit->removed[i]) == catalog->file_count) return KV_BUSY;
  }
  for (size_t i = 0; i < edit->removed_count; i++) {
    size_t at = find_file(catalog, edit->removed[i]);
    kv_file_info_release(&catalog->files[at]);
    catalog->files[at] = catalog->files[--catalog->file_count];
  }
  size_t count = catalog->file_count + edit->added_count;
  catalog->files = realloc(catalog->files, (count + 1) * sizeof *catalog->files);
  for (size_t i = 0; i < edit->added_count; i++) {
    copy_file(&catalog->files[catalog->file_count++], &edit->added[i]);
  }
  if (!edit->flushes) return KV_OK;
  catalog->purged_seq = catalog->log.flushed_seq; /* some dead rows stay */
  catalog->log.flushed_seq = edit->flushed_seq;
  catalog->log.flushed_nonce = edit->flushed_nonce;
  return KV_OK;
}

/* ---- The store */

static void open_family(struct store *store) {
  struct kv_err err;
  must(kv_family_new(&store->config, &store->family, &err), &err);
  must(kv_batch_new(kv_family_stats(store->family), &store->batch, &err), &err);
  kv_batch_order_by(store->batch, store->config.comparator);
  store->view = store_view(store);
}

static void close_family(struct store *store) {
  kv_view_unref(store->view);
  kv_batch_unref(store->batch);
  kv_family_unref(store->family);
}

void store_init(struct store *store, uint64_t seed, size_t cache_bytes) {
  struct kv_err err;
  memset(store, 0, sizeof *store);
  kv_drops_check(true);
  catalog_init(&store->catalog, seed);
  must(kv_env_memory_new(&store->memory, &err), &err);
  must(kv_env_fault_new(store->memory, &store->env, &err), &err);
  must(kv_cache_new(cache_bytes, &store->cache, &err), &err);
  store->config.env = store->env;
  store->config.dir = DIR;
  memcpy(store->config.uuid, store->catalog.uuid, sizeof store->config.uuid);
  kv_options_default(&store->config.options);
  store->config.options.block_bytes = 1024;
  store->config.cache = store->cache;
  store->config.comparator = harness_comparator();
  open_family(store);
}

void store_release(struct store *store) {
  close_family(store);
  kv_cache_unref(store->cache);
  catalog_release(&store->catalog);
  kv_env_free(store->env);
  kv_env_free(store->memory);
  free(store->dropped);
  ck_assert_int_eq(kv_mem_live_blocks(), 0);
}

void store_reopen(struct store *store) {
  close_family(store);
  open_family(store);
}

struct kv_view *store_view(struct store *store) {
  struct catalog_snapshot snapshot;
  struct kv_view *view = NULL;
  struct kv_err err = {.status = KV_OK};
  catalog_take(&store->catalog, &snapshot);
  struct kv_log_source source = catalog_source(&snapshot);
  kv_status status = kv_view_new(store->family, &snapshot.state, &source, &view, &err);
  ck_assert_msg(status == KV_OK, "view: %s", err.text);
  catalog_drop(&snapshot);
  return view;
}

/* The change of the row count when `key` comes to be there or not. */
static int rows_delta(struct store *store, const char *key, int present) {
  bool found = false;
  struct kv_err err;
  if (store->catalog.table_rows < 0) return 0;
  must(kv_exists(store->view, store->batch, slice(key), &found, &err), &err);
  return present - found;
}

void store_put(struct store *store, const char *key, const char *value) {
  struct kv_err err;
  int delta = rows_delta(store, key, 1);
  must(kv_batch_put(store->batch, slice(key), slice(value), delta, &err), &err);
}

void store_delete(struct store *store, const char *key) {
  struct kv_err err;
  int delta = rows_delta(store, key, 0);
  must(kv_batch_delete(store->batch, slice(key), delta, &err), &err);
}

static void advance(struct store *store, const struct kv_log_row *row, const struct kv_edit *edit) {
  struct kv_view *next = NULL;
  struct kv_err err = {.status = KV_OK};
  kv_status status = kv_view_advance(store->view, row, edit, &next, &err);
  ck_assert_msg(status == KV_OK || status == KV_BUSY, "advance: %s", err.text);
  if (status == KV_BUSY) next = store_view(store);
  kv_view_unref(store->view);
  store->view = next;
}

void store_commit(struct store *store) {
  struct kv_err err;
  struct kv_log_row row = catalog_commit(&store->catalog, store->batch);
  advance(store, &row, NULL);
  kv_batch_unref(store->batch);
  must(kv_batch_new(kv_family_stats(store->family), &store->batch, &err), &err);
  kv_batch_order_by(store->batch, store->config.comparator);
}

void store_rotate(struct store *store) {
  store->catalog.gen++;
}

kv_status store_run(struct kv_job *job, struct kv_err *err) {
  kv_status status = KV_OK;
  for (bool done = false; !done && status == KV_OK;) status = kv_job_step(job, &done, err);
  return status;
}

static void remember_dropped(struct store *store, const struct kv_edit *edit) {
  size_t count = store->dropped_count + edit->removed_count;
  if (edit->removed_count == 0) return;
  store->dropped = realloc(store->dropped, count * sizeof *store->dropped);
  memcpy(store->dropped + store->dropped_count, edit->removed,
         edit->removed_count * sizeof *store->dropped);
  store->dropped_count = count;
}

kv_status store_publish(struct store *store, struct kv_job *job, uint64_t flushed_seq) {
  const struct kv_edit *edit = kv_job_edit(job);
  kv_job_rebase(job, store->view);
  kv_status status = KV_BUSY;
  if (kv_job_fits(job, store->view)) status = catalog_publish(&store->catalog, edit, flushed_seq);
  if (status == KV_OK) {
    remember_dropped(store, edit);
    kv_job_keep_files(job);
    advance(store, NULL, edit);
  }
  kv_job_free(job);
  store_sweep(store);
  return status;
}

void store_job(struct store *store, enum kv_job_kind kind) {
  struct kv_job *job = NULL;
  struct kv_err err = {.status = KV_OK};
  must(kv_job_new(store->view, kind, &job, &err), &err);
  if (store->file_bytes) kv_job_set_file_bytes(job, store->file_bytes);
  must(store_run(job, &err), &err);
  must(store_publish(store, job, kv_view_log(store->view)->flushed_seq), &err);
}

void store_flush(struct store *store) {
  store_job(store, KV_JOB_FLUSH);
}

void store_compact(struct store *store) {
  store_job(store, KV_JOB_COMPACT);
}

void store_sweep(struct store *store) {
  size_t left = 0;
  for (size_t i = 0; i < store->dropped_count; i++) {
    struct kv_err err = {.status = KV_OK};
    kv_status status = kv_family_remove_file(store->family, store->dropped[i], &err);
    ck_assert_msg(status == KV_OK || status == KV_BUSY, "remove: %s", err.text);
    if (status == KV_BUSY) store->dropped[left++] = store->dropped[i];
  }
  store->dropped_count = left;
}

static kv_status count_name(void *ctx, const char *name) {
  size_t *count = ctx;
  if (strstr(name, ".sst")) ++*count;
  return KV_OK;
}

size_t store_files(struct store *store) {
  size_t count = 0;
  kv_status status = kv_env_list_dir(store->memory, DIR, count_name, &count, NULL);
  ck_assert(status == KV_OK || status == KV_MISSING);
  return count;
}

uint64_t store_stat(const struct store *store, enum kv_stat stat) {
  return kv_stats_get(kv_family_stats(store->family), stat);
}

const struct kv_file_info *store_run_file(struct store *store, size_t run) {
  size_t at = 0;
  for (; run > 0; run--) {
    uint64_t seq = kv_view_file(store->view, at)->seq;
    while (kv_view_file(store->view, at)->seq == seq) at++;
  }
  return kv_view_file(store->view, at);
}

const char *store_path(const struct store *store, uint64_t id) {
  static char path[128];
  snprintf(path, sizeof path, "%s/%016llx.sst", store->config.dir, (unsigned long long)id);
  return path;
}

static uint8_t *read_file(struct store *store, const char *path, uint64_t *size) {
  struct kv_read_file *file = NULL;
  ck_assert_int_eq(kv_env_open(store->memory, path, &file, size, NULL), KV_OK);
  uint8_t *bytes = malloc(*size);
  struct kv_range range = {.offset = 0, .size = *size, .into = bytes};
  ck_assert_int_eq(kv_env_read(store->memory, file, &range, 1, NULL), KV_OK);
  kv_env_close_read(store->memory, file);
  return bytes;
}

void store_flip(struct store *store, uint64_t id, int64_t offset) {
  const char *path = store_path(store, id);
  uint64_t size = 0;
  uint8_t *bytes = read_file(store, path, &size);
  bytes[offset < 0 ? (int64_t)size + offset : offset] ^= 0x10;
  struct kv_write_file *file = NULL;
  ck_assert_int_eq(kv_env_remove(store->memory, path, NULL), KV_OK);
  ck_assert_int_eq(kv_env_create(store->memory, path, NULL, &file, NULL), KV_OK);
  ck_assert_int_eq(kv_env_append(store->memory, file, kv_slice_of(bytes, size), NULL), KV_OK);
  kv_env_close_write(store->memory, file);
  free(bytes);
}

struct kv_slice slice(const char *text) {
  return kv_slice_of(text, strlen(text));
}

const char *store_get(struct store *store, struct kv_view *view, const char *key) {
  static char out[128];
  struct kv_value value;
  struct kv_err err;
  memset(&value, 0, sizeof value);
  kv_status status = kv_get(view, store->batch, slice(key), &value, &err);
  if (status != KV_OK) return kv_status_name(status);
  snprintf(out, sizeof out, "%.*s", (int)(value.found ? value.bytes.size : 1),
           value.found ? (const char *)value.bytes.data : "-");
  kv_value_release(&value);
  return out;
}
