/* LevelDB through its C API (bench_peer.h). */
#include "bench_peer.h"

#include <leveldb/c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILTER_BITS 10

struct leveldb_store {
  leveldb_t *db;
  leveldb_options_t *options;
  leveldb_cache_t *cache;
  leveldb_filterpolicy_t *filter;
  leveldb_comparator_t *order;
  leveldb_readoptions_t *read;
  leveldb_writeoptions_t *write;
  leveldb_writebatch_t *batch;
};

static void need(char *error) {
  bench_need(!error, "LevelDB: %s", error);
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

static void *open_store(const char *dir, const struct bench_setup *setup) {
  struct leveldb_store *store = calloc(1, sizeof *store);
  char *error = NULL;
  store->options = leveldb_options_create();
  store->cache = leveldb_cache_create_lru(setup->cache_bytes);
  store->filter = leveldb_filterpolicy_create_bloom(FILTER_BITS);
  leveldb_options_set_create_if_missing(store->options, 1);
  leveldb_options_set_cache(store->options, store->cache);
  leveldb_options_set_filter_policy(store->options, store->filter);
  if (setup->callback_order) {
    store->order = leveldb_comparator_create(NULL, nothing, compare_keys, order_name);
    leveldb_options_set_comparator(store->options, store->order);
  }
  store->read = leveldb_readoptions_create();
  store->write = leveldb_writeoptions_create();
  leveldb_writeoptions_set_sync(store->write, setup->durable);
  store->db = leveldb_open(store->options, dir, &error);
  need(error);
  return store;
}

static void describe(const void *opened, const struct bench_setup *setup, char *text, size_t size) {
  (void)opened, (void)setup;
  snprintf(text, size,
           "LevelDB %d.%d, C API; Bloom filter of %d bits, Snappy, LRU block cache; write buffer 4"
           " MiB, one background thread",
           leveldb_major_version(), leveldb_minor_version(), FILTER_BITS);
}

static void close_store(void *opened) {
  struct leveldb_store *store = opened;
  if (store->batch) leveldb_writebatch_destroy(store->batch);
  leveldb_close(store->db);
  leveldb_options_destroy(store->options);
  leveldb_cache_destroy(store->cache);
  leveldb_filterpolicy_destroy(store->filter);
  if (store->order) leveldb_comparator_destroy(store->order);
  leveldb_readoptions_destroy(store->read);
  leveldb_writeoptions_destroy(store->write);
  free(store);
}

static const char *text(struct kv_slice bytes) {
  return (const char *)bytes.data;
}

static void begin(void *opened) {
  struct leveldb_store *store = opened;
  if (!store->batch) store->batch = leveldb_writebatch_create();
}

static void put(void *opened, struct kv_slice key, struct kv_slice value) {
  struct leveldb_store *store = opened;
  leveldb_writebatch_put(store->batch, text(key), key.size, text(value), value.size);
}

static void remove_key(void *opened, struct kv_slice key) {
  struct leveldb_store *store = opened;
  leveldb_writebatch_delete(store->batch, text(key), key.size);
}

static void rollback(void *opened) {
  struct leveldb_store *store = opened;
  leveldb_writebatch_clear(store->batch);
}

static void commit(void *opened) {
  struct leveldb_store *store = opened;
  char *error = NULL;
  leveldb_write(store->db, store->write, store->batch, &error);
  need(error);
  rollback(store);
}

static void settle(void *opened) {
  struct leveldb_store *store = opened;
  leveldb_compact_range(store->db, NULL, 0, NULL, 0);
}

static uint64_t get(void *opened, const struct kv_slice *keys, size_t n) {
  struct leveldb_store *store = opened;
  uint64_t sum = 0;
  for (size_t i = 0; i < n; i++) {
    char *error = NULL;
    size_t size;
    char *value = leveldb_get(store->db, store->read, text(keys[i]), keys[i].size, &size, &error);
    need(error);
    if (value) sum += bench_digest(value, size);
    leveldb_free(value);
  }
  return sum;
}

static uint64_t exists(void *opened, const struct kv_slice *keys, size_t n) {
  uint64_t count = 0;
  for (size_t i = 0; i < n; i++) count += get(opened, &keys[i], 1) != 0;
  return count;
}

static uint64_t scan(void *opened, struct kv_slice from, size_t n) {
  struct leveldb_store *store = opened;
  leveldb_iterator_t *rows = leveldb_create_iterator(store->db, store->read);
  uint64_t sum = 0;
  if (from.size)
    leveldb_iter_seek(rows, text(from), from.size);
  else
    leveldb_iter_seek_to_first(rows);
  for (; n && leveldb_iter_valid(rows); n--, leveldb_iter_next(rows)) {
    size_t size;
    const char *value = leveldb_iter_value(rows, &size);
    sum += bench_digest(value, size);
  }
  char *error = NULL;
  leveldb_iter_get_error(rows, &error);
  need(error);
  leveldb_iter_destroy(rows);
  return sum;
}

static const struct bench_way ways[] = {
    {"LevelDB", BENCH_MULTI_GET, get},
    {"LevelDB", BENCH_GET, get},
    {"LevelDB", BENCH_EXISTS, exists},
};
const struct bench_peer bench_leveldb = {
    .name = "LevelDB",
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
    .settle = settle,
    .scan = scan,
};
