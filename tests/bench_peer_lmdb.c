/* LMDB (bench_peer.h). Keys longer than it takes are stored under their XXH3-128, with the key in front of
** the value, where reads compare it. */
#include "bench_peer.h"

#include <lmdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#define MAP_BYTES ((size_t)64 << 30)

struct lmdb_store {
  MDB_env *env;
  MDB_dbi table;
  MDB_txn *txn;   /* that writes */
  MDB_txn *child; /* a savepoint in it */
  MDB_txn *reader;
  bool hashes;
  XXH128_canonical_t hashed; /* of the key at hand */
  uint8_t *joined;           /* key and value */
  size_t joined_size;
};

static void need(int rc) {
  bench_need(rc == MDB_SUCCESS, "LMDB: %s", mdb_strerror(rc));
}

static void *open_with(const char *dir, const struct bench_setup *setup, unsigned flags) {
  struct lmdb_store *store = calloc(1, sizeof *store);
  need(mdb_env_create(&store->env));
  need(mdb_env_set_mapsize(store->env, MAP_BYTES));
  need(mdb_env_open(store->env, dir, MDB_NORDAHEAD | (setup->durable ? 0 : MDB_NOSYNC) | flags,
                    0644));
  store->hashes = setup->shape.key_bytes > (size_t)mdb_env_get_maxkeysize(store->env);
  MDB_txn *txn;
  need(mdb_txn_begin(store->env, NULL, 0, &txn));
  need(mdb_dbi_open(txn, NULL, 0, &store->table));
  need(mdb_txn_commit(txn));
  return store;
}

static void *open_store(const char *dir, const struct bench_setup *setup) {
  return open_with(dir, setup, 0);
}

static void *open_mapped(const char *dir, const struct bench_setup *setup) {
  return open_with(dir, setup, MDB_WRITEMAP);
}

static void describe(const void *opened, const struct bench_setup *setup, char *text, size_t size) {
  const struct lmdb_store *store = opened;
  unsigned flags = 0;
  need(mdb_env_get_flags(store->env, &flags));
  snprintf(text, size, "%s; map of %zu GiB, no readahead%s%s%s", mdb_version(NULL, NULL, NULL),
           MAP_BYTES >> 30, flags & MDB_WRITEMAP ? ", MDB_WRITEMAP" : "",
           flags & MDB_NOSYNC ? ", MDB_NOSYNC" : "",
           store->hashes ? "; keys are hashed, and compared whole in the value" : "");
  (void)setup;
}

static void close_store(void *opened) {
  struct lmdb_store *store = opened;
  if (store->txn) mdb_txn_abort(store->txn);
  mdb_env_close(store->env);
  free(store->joined);
  free(store);
}

static MDB_val val(struct kv_slice bytes) {
  return (MDB_val){bytes.size, (void *)(uintptr_t)bytes.data};
}

static MDB_val stored_key(struct lmdb_store *store, struct kv_slice key) {
  if (!store->hashes) return val(key);
  XXH128_canonicalFromHash(&store->hashed, XXH3_128bits(key.data, key.size));
  return (MDB_val){sizeof store->hashed, &store->hashed};
}

static MDB_val stored_value(struct lmdb_store *store, struct kv_slice key, struct kv_slice value) {
  if (!store->hashes) return val(value);
  size_t size = key.size + value.size;
  if (size > store->joined_size) {
    store->joined = realloc(store->joined, size);
    store->joined_size = size;
  }
  memcpy(store->joined, key.data, key.size);
  memcpy(store->joined + key.size, value.data, value.size);
  return (MDB_val){size, store->joined};
}

/* ---- Writing */

static void begin(void *opened) {
  struct lmdb_store *store = opened;
  need(mdb_txn_begin(store->env, NULL, 0, &store->txn));
}

static MDB_txn *writer(const struct lmdb_store *store) {
  return store->child ? store->child : store->txn;
}

static void put(void *opened, struct kv_slice key, struct kv_slice value) {
  struct lmdb_store *store = opened;
  MDB_val stored = stored_key(store, key), with = stored_value(store, key, value);
  need(mdb_put(writer(store), store->table, &stored, &with, 0));
}

static void remove_key(void *opened, struct kv_slice key) {
  struct lmdb_store *store = opened;
  MDB_val stored = stored_key(store, key);
  int rc = mdb_del(writer(store), store->table, &stored, NULL);
  need(rc == MDB_NOTFOUND ? MDB_SUCCESS : rc);
}

static void commit(void *opened) {
  struct lmdb_store *store = opened;
  need(mdb_txn_commit(store->txn));
  store->txn = NULL;
}

static void rollback(void *opened) {
  struct lmdb_store *store = opened;
  mdb_txn_abort(store->txn);
  store->txn = NULL;
}

static void savepoint(void *opened) {
  struct lmdb_store *store = opened;
  need(mdb_txn_begin(store->env, store->txn, 0, &store->child));
}

static void rollback_to(void *opened) {
  struct lmdb_store *store = opened;
  mdb_txn_abort(store->child);
  store->child = NULL;
}

/* ---- Reading */

static void read_begin(void *opened) {
  struct lmdb_store *store = opened;
  if (!store->reader) need(mdb_txn_begin(store->env, NULL, MDB_RDONLY, &store->reader));
}

static void read_end(void *opened) {
  struct lmdb_store *store = opened;
  mdb_txn_abort(store->reader);
  store->reader = NULL;
}

static void *share(const void *opened) {
  const struct lmdb_store *store = opened;
  struct lmdb_store *shared = calloc(1, sizeof *shared);
  shared->env = store->env;
  shared->table = store->table;
  shared->hashes = store->hashes;
  return shared;
}

/* The value's own bytes; false when the key is not there. */
static bool find(struct lmdb_store *store, struct kv_slice key, MDB_val *value) {
  MDB_val stored = stored_key(store, key);
  int rc = mdb_get(store->txn ? writer(store) : store->reader, store->table, &stored, value);
  if (rc == MDB_NOTFOUND) return false;
  need(rc);
  if (!store->hashes) return true;
  if (memcmp(value->mv_data, key.data, key.size) != 0) return false;
  value->mv_data = (uint8_t *)value->mv_data + key.size;
  value->mv_size -= key.size;
  return true;
}

static uint64_t get(void *opened, const struct kv_slice *keys, size_t n) {
  uint64_t sum = 0;
  for (size_t i = 0; i < n; i++) {
    MDB_val value;
    if (find(opened, keys[i], &value)) sum += bench_digest(value.mv_data, value.mv_size);
  }
  return sum;
}

static uint64_t exists(void *opened, const struct kv_slice *keys, size_t n) {
  uint64_t count = 0;
  for (size_t i = 0; i < n; i++) {
    MDB_val value;
    count += find(opened, keys[i], &value);
  }
  return count;
}

/* Not for hashed keys, whose order is not that of keys. */
static uint64_t scan(void *opened, struct kv_slice from, size_t n) {
  struct lmdb_store *store = opened;
  MDB_cursor *rows;
  MDB_val key = val(from), value;
  uint64_t sum = 0;
  need(mdb_cursor_open(store->reader, store->table, &rows));
  int rc = mdb_cursor_get(rows, &key, &value, from.size ? MDB_SET_RANGE : MDB_FIRST);
  for (; n && rc == MDB_SUCCESS; n--) {
    sum += bench_digest(value.mv_data, value.mv_size);
    rc = mdb_cursor_get(rows, &key, &value, MDB_NEXT);
  }
  need(rc == MDB_NOTFOUND ? MDB_SUCCESS : rc);
  mdb_cursor_close(rows);
  return sum;
}

/* The same but for how it is opened; a map that is written to has no nested transactions. */
#define LMDB_PEER(text, lanes, opening)                                                     \
  .name = (text), .describe = describe, .ways = (lanes),                                    \
  .way_count = sizeof(lanes) / sizeof *(lanes), .open = (opening), .close = close_store,    \
  .begin = begin, .put = put, .remove = remove_key, .commit = commit, .rollback = rollback, \
  .reads_own = true, .read_begin = read_begin, .read_end = read_end, .share = share, .scan = scan

static const struct bench_way ways[] = {
    {"LMDB", BENCH_MULTI_GET, get},
    {"LMDB", BENCH_GET, get},
    {"LMDB", BENCH_EXISTS, exists},
};
const struct bench_peer bench_lmdb = {LMDB_PEER("LMDB", ways, open_store), .savepoint = savepoint,
                                      .rollback_to = rollback_to};

static const struct bench_way mapped_ways[] = {{"LMDB, WRITEMAP", BENCH_GET, get}};
const struct bench_peer bench_lmdb_mapped = {LMDB_PEER("LMDB, WRITEMAP", mapped_ways, open_mapped)};
