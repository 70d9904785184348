/* RocksDB through its C API: a blind write batch, and as a second peer WriteBatchWithIndex (bench_peer.h). */
#include "bench_peer.h"

#include <rocksdb/c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BATCH_MAX 1024 /* keys of a multi-get at a time */
#define FILTER_BITS 10

struct rocksdb_store {
  rocksdb_t *db;
  rocksdb_column_family_handle_t *family;
  rocksdb_options_t *options;
  rocksdb_cache_t *cache;
  rocksdb_comparator_t *order;
  rocksdb_readoptions_t *read;
  rocksdb_writeoptions_t *write;
  rocksdb_writebatch_t *batch;
  rocksdb_writebatch_wi_t *indexed; /* instead of batch */
};

static void need(char *error) {
  bench_need(!error, "RocksDB: %s", error);
}

static int compare_keys(void *state, const char *a, size_t a_size, const char *b, size_t b_size) {
  (void)state;
  return kv_slice_compare(kv_slice_of(a, a_size), kv_slice_of(b, b_size));
}

static const char *order_name(void *state) {
  (void)state;
  return "bench";
}

static void nothing(void *state) {
  (void)state;
}

static void set_tables(struct rocksdb_store *store, const struct bench_setup *setup) {
  rocksdb_block_based_table_options_t *tables = rocksdb_block_based_options_create();
  store->cache = rocksdb_cache_create_lru(setup->cache_bytes);
  rocksdb_block_based_options_set_block_cache(tables, store->cache);
  rocksdb_block_based_options_set_filter_policy(
      tables, rocksdb_filterpolicy_create_bloom_full(FILTER_BITS));
  rocksdb_options_set_block_based_table_factory(store->options, tables);
  rocksdb_block_based_options_destroy(tables);
}

static void *open_store(const char *dir, const struct bench_setup *setup) {
  struct rocksdb_store *store = calloc(1, sizeof *store);
  char *error = NULL;
  store->options = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(store->options, 1);
  rocksdb_options_set_compression(store->options, rocksdb_zstd_compression);
  set_tables(store, setup);
  if (setup->callback_order) {
    store->order = rocksdb_comparator_create(NULL, nothing, compare_keys, order_name);
    rocksdb_options_set_comparator(store->options, store->order);
  }
  store->read = rocksdb_readoptions_create();
  store->write = rocksdb_writeoptions_create();
  rocksdb_writeoptions_set_sync(store->write, setup->durable);
  const char *name = "default";
  const rocksdb_options_t *options = store->options;
  store->db =
      rocksdb_open_column_families(store->options, dir, 1, &name, &options, &store->family, &error);
  need(error);
  return store;
}

static void describe(const void *opened, const struct bench_setup *setup, char *text, size_t size) {
  const struct rocksdb_store *store = opened;
  (void)setup;
  snprintf(text, size,
           "%s, C API; Bloom filter of %d bits, zstd, LRU block cache; write buffer %zu MiB, %d at"
           " most, %d background jobs",
           bench_library_of((const void *)(uintptr_t)rocksdb_open), FILTER_BITS,
           rocksdb_options_get_write_buffer_size(store->options) >> 20,
           rocksdb_options_get_max_write_buffer_number(store->options),
           rocksdb_options_get_max_background_jobs(store->options));
}

static void describe_indexed(const void *opened, const struct bench_setup *setup, char *text,
                             size_t size) {
  describe(opened, setup, text, size);
  size_t used = strlen(text);
  snprintf(text + used, size - used, "; WriteBatchWithIndex, keys overwritten");
}

static void *open_indexed(const char *dir, const struct bench_setup *setup) {
  struct rocksdb_store *store = open_store(dir, setup);
  store->indexed = rocksdb_writebatch_wi_create(0, 1);
  return store;
}

static void close_store(void *opened) {
  struct rocksdb_store *store = opened;
  if (store->batch) rocksdb_writebatch_destroy(store->batch);
  if (store->indexed) rocksdb_writebatch_wi_destroy(store->indexed);
  rocksdb_column_family_handle_destroy(store->family);
  rocksdb_close(store->db);
  rocksdb_options_destroy(store->options);
  if (store->order) rocksdb_comparator_destroy(store->order);
  rocksdb_cache_destroy(store->cache);
  rocksdb_readoptions_destroy(store->read);
  rocksdb_writeoptions_destroy(store->write);
  free(store);
}

/* ---- Writing */

static const char *text(struct kv_slice bytes) {
  return (const char *)bytes.data;
}

static void begin(void *opened) {
  struct rocksdb_store *store = opened;
  if (!store->batch) store->batch = rocksdb_writebatch_create();
}

static void put(void *opened, struct kv_slice key, struct kv_slice value) {
  struct rocksdb_store *store = opened;
  rocksdb_writebatch_put(store->batch, text(key), key.size, text(value), value.size);
}

static void remove_key(void *opened, struct kv_slice key) {
  struct rocksdb_store *store = opened;
  rocksdb_writebatch_delete(store->batch, text(key), key.size);
}

static void rollback(void *opened) {
  struct rocksdb_store *store = opened;
  rocksdb_writebatch_destroy(store->batch);
  store->batch = NULL;
}

static void commit(void *opened) {
  struct rocksdb_store *store = opened;
  char *error = NULL;
  rocksdb_write(store->db, store->write, store->batch, &error);
  need(error);
  rollback(store);
}

static void savepoint(void *opened) {
  struct rocksdb_store *store = opened;
  rocksdb_writebatch_set_save_point(store->batch);
}

static void rollback_to(void *opened) {
  struct rocksdb_store *store = opened;
  char *error = NULL;
  rocksdb_writebatch_rollback_to_save_point(store->batch, &error);
  need(error);
}

static void settle(void *opened) {
  struct rocksdb_store *store = opened;
  rocksdb_flushoptions_t *options = rocksdb_flushoptions_create();
  char *error = NULL;
  rocksdb_flush(store->db, options, &error);
  need(error);
  rocksdb_flushoptions_destroy(options);
  rocksdb_compact_range(store->db, NULL, 0, NULL, 0);
}

static void indexed_begin(void *opened) {
  (void)opened;
}

static void indexed_put(void *opened, struct kv_slice key, struct kv_slice value) {
  struct rocksdb_store *store = opened;
  rocksdb_writebatch_wi_put(store->indexed, text(key), key.size, text(value), value.size);
}

static void indexed_remove(void *opened, struct kv_slice key) {
  struct rocksdb_store *store = opened;
  rocksdb_writebatch_wi_delete(store->indexed, text(key), key.size);
}

/* Clear keeps the memory: a new one does not. */
static void indexed_rollback(void *opened) {
  struct rocksdb_store *store = opened;
  rocksdb_writebatch_wi_destroy(store->indexed);
  store->indexed = rocksdb_writebatch_wi_create(0, 1);
}

static void indexed_commit(void *opened) {
  struct rocksdb_store *store = opened;
  char *error = NULL;
  rocksdb_write_writebatch_wi(store->db, store->write, store->indexed, &error);
  need(error);
  indexed_rollback(store);
}

static void indexed_savepoint(void *opened) {
  struct rocksdb_store *store = opened;
  rocksdb_writebatch_wi_set_save_point(store->indexed);
}

static void indexed_rollback_to(void *opened) {
  struct rocksdb_store *store = opened;
  char *error = NULL;
  rocksdb_writebatch_wi_rollback_to_save_point(store->indexed, &error);
  need(error);
}

/* ---- Reading */

static uint64_t digest_pinned(rocksdb_pinnableslice_t *value) {
  if (!value) return 0;
  size_t size;
  const char *bytes = rocksdb_pinnableslice_value(value, &size);
  uint64_t digest = bench_digest(bytes, size);
  rocksdb_pinnableslice_destroy(value);
  return digest;
}

static uint64_t get(void *opened, const struct kv_slice *keys, size_t n) {
  struct rocksdb_store *store = opened;
  uint64_t sum = 0;
  for (size_t i = 0; i < n; i++) {
    char *error = NULL;
    sum += digest_pinned(
        rocksdb_get_pinned(store->db, store->read, text(keys[i]), keys[i].size, &error));
    need(error);
  }
  return sum;
}

/* At most BATCH_MAX keys; values are NULL where there is none. */
static void fetch(struct rocksdb_store *store, const struct kv_slice *keys, size_t n,
                  rocksdb_pinnableslice_t **values) {
  const char *data[BATCH_MAX];
  size_t sizes[BATCH_MAX];
  char *errors[BATCH_MAX];
  for (size_t i = 0; i < n; i++) {
    data[i] = text(keys[i]);
    sizes[i] = keys[i].size;
  }
  rocksdb_batched_multi_get_cf(store->db, store->read, store->family, n, data, sizes, values,
                               errors, false);
  for (size_t i = 0; i < n; i++) need(errors[i]);
}

static size_t part_of(size_t left) {
  return left < BATCH_MAX ? left : BATCH_MAX;
}

static uint64_t multi_get(void *opened, const struct kv_slice *keys, size_t n) {
  rocksdb_pinnableslice_t *values[BATCH_MAX];
  uint64_t sum = 0;
  for (size_t at = 0; at < n; at += BATCH_MAX) {
    size_t part = part_of(n - at);
    fetch(opened, keys + at, part, values);
    for (size_t i = 0; i < part; i++) sum += digest_pinned(values[i]);
  }
  return sum;
}

static uint64_t exists_many(void *opened, const struct kv_slice *keys, size_t n) {
  rocksdb_pinnableslice_t *values[BATCH_MAX];
  uint64_t count = 0;
  for (size_t at = 0; at < n; at += BATCH_MAX) {
    size_t part = part_of(n - at);
    fetch(opened, keys + at, part, values);
    for (size_t i = 0; i < part; i++) {
      count += values[i] != NULL;
      if (values[i]) rocksdb_pinnableslice_destroy(values[i]);
    }
  }
  return count;
}

static uint64_t exists_by_get(void *opened, const struct kv_slice *keys, size_t n) {
  uint64_t count = 0;
  for (size_t i = 0; i < n; i++) count += get(opened, &keys[i], 1) != 0;
  return count;
}

/* *found: it has come with the value, and no get is needed to be sure. */
static bool may_exist(struct rocksdb_store *store, struct kv_slice key, bool *found) {
  char *value = NULL;
  size_t size;
  unsigned char value_found = 0;
  bool may = rocksdb_key_may_exist(store->db, store->read, text(key), key.size, &value, &size, NULL,
                                   0, &value_found);
  free(value);
  *found = value_found;
  return may;
}

static uint64_t exists_by_probe(void *opened, const struct kv_slice *keys, size_t n) {
  uint64_t count = 0;
  for (size_t i = 0; i < n; i++) {
    bool found, may = may_exist(opened, keys[i], &found);
    count += may && (found || get(opened, &keys[i], 1) != 0);
  }
  return count;
}

static uint64_t may_exist_alone(void *opened, const struct kv_slice *keys, size_t n) {
  uint64_t count = 0;
  for (size_t i = 0; i < n; i++) {
    bool found;
    count += may_exist(opened, keys[i], &found);
  }
  return count;
}

static uint64_t indexed_get(void *opened, const struct kv_slice *keys, size_t n) {
  struct rocksdb_store *store = opened;
  uint64_t sum = 0;
  for (size_t i = 0; i < n; i++) {
    char *error = NULL;
    size_t size;
    char *value = rocksdb_writebatch_wi_get_from_batch_and_db(
        store->indexed, store->db, store->read, text(keys[i]), keys[i].size, &size, &error);
    need(error);
    if (value) sum += bench_digest(value, size);
    free(value);
  }
  return sum;
}

static uint64_t scan(void *opened, struct kv_slice from, size_t n) {
  struct rocksdb_store *store = opened;
  rocksdb_iterator_t *rows = rocksdb_create_iterator(store->db, store->read);
  uint64_t sum = 0;
  if (from.size)
    rocksdb_iter_seek(rows, text(from), from.size);
  else
    rocksdb_iter_seek_to_first(rows);
  for (; n && rocksdb_iter_valid(rows); n--, rocksdb_iter_next(rows)) {
    size_t size;
    const char *value = rocksdb_iter_value(rows, &size);
    sum += bench_digest(value, size);
  }
  char *error = NULL;
  rocksdb_iter_get_error(rows, &error);
  need(error);
  rocksdb_iter_destroy(rows);
  return sum;
}

static const struct bench_way ways[] = {
    {"RocksDB batched", BENCH_MULTI_GET, multi_get},
    {"RocksDB get loop", BENCH_MULTI_GET, get},
    {"RocksDB", BENCH_GET, get},
    {"RocksDB get", BENCH_EXISTS, exists_by_get},
    {"RocksDB KeyMayExist", BENCH_EXISTS, exists_by_probe},
    {"RocksDB batched", BENCH_EXISTS_MANY, exists_many},
    {"RocksDB KeyMayExist", BENCH_MAY_EXIST, may_exist_alone},
};
const struct bench_peer bench_rocksdb = {
    .name = "RocksDB",
    .describe = describe,
    .ways = ways,
    .way_count = sizeof ways / sizeof *ways,
    .open = open_store,
    .close = close_store,
    .begin = begin,
    .put = put,
    .remove = remove_key,
    .commit = commit,
    .rollback = rollback,
    .savepoint = savepoint,
    .rollback_to = rollback_to,
    .settle = settle,
    .scan = scan,
};

static const struct bench_way indexed_ways[] = {{"RocksDB indexed batch", BENCH_GET, indexed_get}};
const struct bench_peer bench_rocksdb_wbwi = {
    .name = "RocksDB indexed batch",
    .describe = describe_indexed,
    .ways = indexed_ways,
    .way_count = sizeof indexed_ways / sizeof *indexed_ways,
    .open = open_indexed,
    .close = close_store,
    .begin = indexed_begin,
    .put = indexed_put,
    .remove = indexed_remove,
    .commit = indexed_commit,
    .rollback = indexed_rollback,
    .reads_own = true,
    .savepoint = indexed_savepoint,
    .rollback_to = indexed_rollback_to,
    .settle = settle,
    .scan = scan,
};
