/* colfam's engine alone, through engine/kv.h: the catalog is in memory and there is no log, so what it writes
** is not durable, and writing is not compared by it; reads and batches are (bench_peer.h). */
#include "bench_peer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kv.h"

struct engine_store {
  struct kv_cache *cache;
  struct kv_family *family;
  struct kv_view *view;
  struct kv_batch *batch;
  struct kv_batch_mark mark;
  uint64_t seq, gen;
  uint8_t uuid[16];
  bool writes; /* between begin and its end */
};

static void need(kv_status status, const struct kv_err *err) {
  bench_need(status == KV_OK, "colfam's engine: %s", err->text);
}

static void *open_store(const char *dir, const struct bench_setup *setup) {
  struct engine_store *store = calloc(1, sizeof *store);
  struct kv_family_config config = {.env = kv_env_posix(), .dir = dir};
  struct kv_snapshot empty = {.rows = -1};
  struct kv_log_source none = {0};
  struct kv_err err;
  need(kv_cache_new(setup->cache_bytes, &store->cache, &err), &err);
  kv_options_default(&config.options);
  config.cache = store->cache;
  need(kv_family_new(&config, &store->family, &err), &err);
  need(kv_view_new(store->family, &empty, &none, &store->view, &err), &err);
  store->gen = 1;
  return store;
}

static void describe(const void *opened, const struct bench_setup *setup, char *text, size_t size) {
  const struct engine_store *store = opened;
  struct kv_options options = kv_family_options(store->family);
  (void)setup;
  snprintf(
      text, size,
      "engine/kv.h of this tree, no log; memtable %llu MiB, filter and compression as by default",
      (unsigned long long)options.memtable_bytes >> 20);
}

static void drop_batch(struct engine_store *store) {
  kv_batch_unref(store->batch);
  store->batch = NULL;
  store->writes = false;
}

static void close_store(void *opened) {
  struct engine_store *store = opened;
  if (store->batch) drop_batch(store);
  kv_view_unref(store->view);
  kv_family_unref(store->family);
  kv_cache_unref(store->cache);
  free(store);
}

/* ---- Writing */

static void begin(void *opened) {
  struct engine_store *store = opened;
  struct kv_err err;
  need(kv_batch_new(kv_family_stats(store->family), &store->batch, &err), &err);
  store->writes = true;
}

static void put(void *opened, struct kv_slice key, struct kv_slice value) {
  struct kv_err err;
  need(kv_batch_put(((struct engine_store *)opened)->batch, key, value, 0, &err), &err);
}

static void remove_key(void *opened, struct kv_slice key) {
  struct kv_err err;
  need(kv_batch_delete(((struct engine_store *)opened)->batch, key, 0, &err), &err);
}

static void rollback(void *opened) {
  drop_batch(opened);
}

static void savepoint(void *opened) {
  struct engine_store *store = opened;
  store->mark = kv_batch_mark(store->batch);
}

static void rollback_to(void *opened) {
  struct engine_store *store = opened;
  kv_batch_rollback(store->batch, store->mark);
}

static void advance(struct engine_store *store, const struct kv_log_row *row,
                    const struct kv_edit *edit) {
  struct kv_view *next = NULL;
  struct kv_err err;
  need(kv_view_advance(store->view, row, edit, &next, &err), &err);
  kv_view_unref(store->view);
  store->view = next;
}

static void remove_files(struct engine_store *store, const uint64_t *ids, size_t count) {
  struct kv_err err;
  for (size_t i = 0; i < count; i++) {
    kv_status status = kv_family_remove_file(store->family, ids[i], &err);
    bench_need(status == KV_OK || status == KV_BUSY, "colfam's engine: %s", err.text);
  }
}

/* batch and row NULL: of what is committed. */
static void run_job(struct engine_store *store, enum kv_job_kind kind, struct kv_batch *batch,
                    const struct kv_log_row *row) {
  struct kv_job *job = NULL;
  struct kv_err err;
  need(kv_job_new_commit(store->view, kind, batch, row, &job, &err), &err);
  for (bool done = false; !done;) need(kv_job_step(job, &done, &err), &err);
  kv_job_keep_files(job);
  const struct kv_edit *edit = kv_job_edit(job);
  size_t removed = edit->removed_count;
  uint64_t *ids = malloc((removed + 1) * sizeof *ids);
  for (size_t i = 0; i < removed; i++) ids[i] = edit->removed[i];
  advance(store, row, edit);
  kv_job_free(job); /* its view names them */
  remove_files(store, ids, removed);
  free(ids);
}

static void commit_as_file(struct engine_store *store, struct kv_log_row *row) {
  run_job(store, KV_JOB_FLUSH, store->batch, row);
}

static void commit_to_log(struct engine_store *store, struct kv_log_row *row) {
  struct kv_buf encoded;
  struct kv_err err;
  kv_buf_init(&encoded);
  need(kv_batch_encode(store->batch, store->uuid, row->seq, &encoded, &err), &err);
  row->batch = kv_buf_slice(&encoded);
  advance(store, row, NULL);
  kv_buf_release(&encoded);
}

static void commit(void *opened) {
  struct engine_store *store = opened;
  uint64_t budget = kv_family_options(store->family).memtable_bytes;
  struct kv_work work = kv_view_work(store->view);
  if (kv_view_gen_bytes(store->view) > budget) store->gen++;
  struct kv_log_row row = {.seq = ++store->seq, .nonce = store->seq, .gen = store->gen, .rows = -1};
  if (kv_batch_data_bytes(store->batch) > budget)
    commit_as_file(store, &row);
  else
    commit_to_log(store, &row);
  drop_batch(store);
  if (work.flush) run_job(store, KV_JOB_FLUSH, NULL, NULL);
  if (work.merge) run_job(store, KV_JOB_MERGE, NULL, NULL);
}

static void settle(void *opened) {
  run_job(opened, KV_JOB_COMPACT, NULL, NULL);
}

/* ---- Reading: of what is committed, and inside a transaction of its writes too */

static uint64_t get(void *opened, const struct kv_slice *keys, size_t n) {
  struct engine_store *store = opened;
  uint64_t sum = 0;
  struct kv_err err;
  for (size_t i = 0; i < n; i++) {
    struct kv_value value = {0};
    need(kv_get(store->view, store->batch, keys[i], &value, &err), &err);
    if (value.found) sum += bench_digest(value.bytes.data, value.bytes.size);
    kv_value_release(&value);
  }
  return sum;
}

static struct kv_result *look_up(struct engine_store *store, const struct kv_slice *keys,
                                 size_t n) {
  struct kv_request request = {store->view, store->batch, keys, n, NULL};
  struct kv_result *result = NULL;
  struct kv_err err;
  need(kv_multi_get_many(&request, 1, &result, &err), &err);
  return result;
}

static uint64_t multi_get(void *opened, const struct kv_slice *keys, size_t n) {
  struct kv_result *result = look_up(opened, keys, n);
  uint64_t sum = 0;
  for (size_t i = 0; i < n; i++) {
    struct kv_slice value;
    if (kv_result_found(result, i, &value)) sum += bench_digest(value.data, value.size);
  }
  kv_result_free(result);
  return sum;
}

static uint64_t exists_many(void *opened, const struct kv_slice *keys, size_t n) {
  struct engine_store *store = opened;
  bool *found = malloc(n * sizeof *found);
  uint64_t count = 0;
  struct kv_err err;
  need(kv_exists_many(store->view, store->batch, keys, n, found, &err), &err);
  for (size_t i = 0; i < n; i++) count += found[i];
  free(found);
  return count;
}

static uint64_t exists(void *opened, const struct kv_slice *keys, size_t n) {
  struct engine_store *store = opened;
  uint64_t count = 0;
  struct kv_err err;
  for (size_t i = 0; i < n; i++) {
    bool found;
    need(kv_exists(store->view, store->batch, keys[i], &found, &err), &err);
    count += found;
  }
  return count;
}

static uint64_t may_exist(void *opened, const struct kv_slice *keys, size_t n) {
  struct engine_store *store = opened;
  uint64_t count = 0;
  struct kv_err err;
  for (size_t i = 0; i < n; i++) {
    enum kv_may_exist answer;
    need(kv_may_exist(store->view, store->batch, keys[i], &answer, NULL, &err), &err);
    count += answer != KV_ABSENT;
  }
  return count;
}

static uint64_t may_exist_many(void *opened, const struct kv_slice *keys, size_t n) {
  struct engine_store *store = opened;
  enum kv_may_exist *answers = malloc(n * sizeof *answers);
  uint64_t count = 0;
  struct kv_err err;
  need(kv_may_exist_many(store->view, store->batch, keys, n, answers, NULL, &err), &err);
  for (size_t i = 0; i < n; i++) count += answers[i] != KV_ABSENT;
  free(answers);
  return count;
}

static uint64_t scan(void *opened, struct kv_slice from, size_t n) {
  struct engine_store *store = opened;
  struct kv_bounds bounds = {.lower = from};
  struct kv_scan *rows = NULL;
  struct kv_err err;
  uint64_t sum = 0;
  need(kv_scan_open(store->view, store->batch, &bounds, &rows, &err), &err);
  need(kv_scan_first(rows, &err), &err);
  for (; n && kv_scan_valid(rows); n--) {
    struct kv_slice value;
    need(kv_scan_value(rows, &value, &err), &err);
    sum += bench_digest(value.data, value.size);
    need(kv_scan_next(rows, &err), &err);
  }
  kv_scan_close(rows);
  return sum;
}

static const struct bench_way ways[] = {
    {"colfam C", BENCH_MULTI_GET, multi_get},
    {"colfam C get loop", BENCH_MULTI_GET, get},
    {"colfam C", BENCH_GET, get},
    {"colfam C exists", BENCH_EXISTS, exists},
    {"colfam C exists", BENCH_EXISTS_MANY, exists_many},
    {"colfam C may-exist", BENCH_MAY_EXIST, may_exist},
    {"colfam C may-exist", BENCH_MAY_EXIST_MANY, may_exist_many},
};
const struct bench_peer bench_colfam_engine = {
    .name = "colfam C",
    .describe = describe,
    .colfam = true,
    .ways = ways,
    .way_count = sizeof ways / sizeof *ways,
    .open = open_store,
    .close = close_store,
    .begin = begin,
    .put = put,
    .remove = remove_key,
    .commit = commit,
    .rollback = rollback,
    .reads_own = true,
    .savepoint = savepoint,
    .rollback_to = rollback_to,
    .settle = settle,
    .scan = scan,
};
