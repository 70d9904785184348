/* B7, a table: loading it in transactions of 1,000 and in one, its size, then a full scan, ranges and random
** gets. Loading by the clock on the wall, reading by processor time; nanoseconds a row. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench_peer.h"

#define STORES 9
#define READERS (STORES + 1) /* SQLite with its file mapped too */
#define RANGE_ROWS 100
#define RANGES 200
#define GETS 5000

static const struct bench_peer *const peers[STORES] = {
    &bench_sqlite,      &bench_sqlite_rowid, &bench_rocksdb,       &bench_leveldb,    &bench_lmdb,
    &bench_lmdb_mapped, &bench_floor,        &bench_colfam_engine, &bench_colfam_sql,
};
static struct bench_store stores[READERS];
static const struct bench_shape shape = {16, 100};

/* Rows in key order, to know what a range must give. */
struct ordered_row {
  uint8_t key[16];
  uint64_t digest;
};
static struct ordered_row *ordered;

static int compare_rows(const void *a, const void *b) {
  return memcmp(a, b, sizeof((const struct ordered_row *)a)->key);
}

static void order_rows(uint64_t rows) {
  uint8_t value[256];
  ordered = malloc((size_t)rows * sizeof *ordered);
  for (uint64_t i = 0; i < rows; i++) {
    bench_fill_key(&shape, i, ordered[i].key);
    bench_fill_value(&shape, i, value);
    ordered[i].digest = bench_digest(value, shape.value_bytes);
  }
  qsort(ordered, rows, sizeof *ordered, compare_rows);
}

static uint64_t sum_from(const uint8_t *key, uint64_t rows, size_t count) {
  uint64_t low = 0, high = rows, sum = 0;
  while (low < high) {
    uint64_t middle = (low + high) / 2;
    if (memcmp(ordered[middle].key, key, sizeof ordered->key) < 0)
      low = middle + 1;
    else
      high = middle;
  }
  for (; count && low < rows; count--, low++) sum += ordered[low].digest;
  return sum;
}

/* ---- Loading */

static const struct bench_setup setup = {.shape = {16, 100}, .cache_bytes = (size_t)1 << 30};

static void set_loading_goals(struct bench_case *table) {
  static const char *const others[] = {"RocksDB", "LevelDB", "LMDB", "LMDB, WRITEMAP"};
  bench_goal(table, "colfam SQL", 2, "floor");
  bench_goal(table, "colfam SQL", 1 / 13.0, "SQLite");
  for (size_t i = 0; i < 4; i++) bench_goal(table, "colfam SQL", 1, others[i]);
}

/* The engine alone has no log, so that its loading would be no comparison. The stores of the last round
** stay. */
static void compare_loading(uint64_t rows, uint64_t each, size_t rounds) {
  static struct bench_case table;
  bench_case_init(&table, "B7", "ns", "a row, loading %zu rows in %s", (size_t)rows,
                  each < rows ? "transactions of 1000" : "one transaction");
  table.waits = true;
  for (size_t round = 0; round < rounds; round++) {
    for (size_t i = 0; i < STORES; i++) {
      struct bench_store *store = &stores[(i + round) % STORES];
      bench_open(store, peers[(i + round) % STORES], &setup);
      double took = bench_load(store, 0, rows, each);
      if (store->peer != &bench_colfam_engine) {
        bench_sample(&table, store->peer->name, took * 1e9 / (double)rows);
      }
      if (round + 1 < rounds) bench_close(store);
    }
  }
  set_loading_goals(&table);
  bench_print(&table);
}

static void close_all(void) {
  for (size_t i = 0; i < STORES; i++) bench_close(&stores[i]);
}

/* ---- Sizes */

static void compare_sizes(uint64_t rows) {
  static struct bench_case table;
  bench_case_init(&table, "B7", "bytes", "on disk a row of %zu, after compaction, %zu rows",
                  shape.key_bytes + shape.value_bytes, (size_t)rows);
  for (size_t i = 0; i < STORES; i++) {
    bench_settle(&stores[i]);
    if (stores[i].peer == &bench_floor) continue;
    bench_count(&table, stores[i].peer->name,
                (double)bench_disk_bytes(stores[i].dir) / (double)rows);
  }
  bench_goal_max(&table, "colfam SQL", 60);
  bench_print(&table);
}

/* ---- Reading */

static uint64_t scan_all(struct bench_lane *lane, size_t round) {
  struct bench_store *store = lane->store;
  (void)round;
  if (store->peer->read_begin) store->peer->read_begin(store->handle);
  uint64_t sum = store->peer->scan(store->handle, kv_slice_of(NULL, 0), SIZE_MAX);
  if (store->peer->read_end) store->peer->read_end(store->handle);
  return sum;
}

static uint64_t scan_range(void *opened, const struct kv_slice *keys, size_t n) {
  struct bench_store *store = opened;
  uint64_t sum = 0;
  for (size_t i = 0; i < n; i++) {
    sum += store->peer->scan(store->handle, keys[i], RANGE_ROWS);
  }
  return sum;
}

static uint64_t scan_ranges(struct bench_lane *lane, size_t round) {
  struct bench_store *store = lane->store;
  const struct bench_asked *asked = lane->with;
  if (store->peer->read_begin) store->peer->read_begin(store->handle);
  uint64_t sum = scan_range(store, asked->keys + round * RANGES, RANGES);
  if (store->peer->read_end) store->peer->read_end(store->handle);
  return sum;
}

static void compare_scans(uint64_t rows, size_t rounds) {
  static struct bench_case table;
  uint64_t expected[BENCH_ROUNDS_MAX];
  for (size_t i = 0; i <= rounds; i++) expected[i] = sum_from((const uint8_t[16]){0}, rows, rows);
  bench_case_init(&table, "B7", "ns", "a row, full scan of %zu rows", (size_t)rows);
  for (size_t i = 0; i < READERS; i++) {
    bench_add(&table, stores[i].peer->name, scan_all, &stores[i], NULL);
  }
  bench_goal(&table, "colfam SQL", 1.5, "floor");
  bench_goal_max(&table, "colfam C", 70);
  bench_time(&table, rounds, (double)rows, expected);
  bench_print(&table);
}

static void compare_ranges(uint64_t rows, size_t rounds) {
  static struct bench_case table;
  uint64_t expected[BENCH_ROUNDS_MAX] = {0};
  struct bench_asked asked;
  bench_asked_init(&asked, &shape, 0, rows, rounds + 1, RANGES, 1);
  for (size_t i = 0; i < (rounds + 1) * RANGES; i++) {
    expected[i / RANGES] += sum_from(asked.keys[i].data, rows, RANGE_ROWS);
  }
  bench_case_init(&table, "B7", "us", "a range of %d rows, of %zu rows", RANGE_ROWS, (size_t)rows);
  for (size_t i = 0; i < READERS; i++) {
    if (stores[i].peer == &bench_floor) continue;
    bench_add(&table, stores[i].peer->name, scan_ranges, &stores[i], &asked);
  }
  bench_goal_max(&table, "colfam SQL", 20);
  bench_goal_max(&table, "colfam C", 8);
  bench_time(&table, rounds, RANGES, expected);
  bench_print(&table);
  bench_asked_release(&asked);
}

static void compare_gets(uint64_t rows, size_t rounds) {
  static struct bench_case table;
  uint64_t expected[BENCH_ROUNDS_MAX];
  struct bench_asked asked;
  bench_asked_init(&asked, &shape, 0, rows, rounds + 1, GETS, 1);
  for (size_t i = 0; i <= rounds; i++) expected[i] = bench_asked_sum(&asked, &shape, i);
  bench_case_init(&table, "B7", "ns", "a random get inside a transaction, of %zu rows",
                  (size_t)rows);
  bench_add_ways(&table, BENCH_GET, stores, READERS, &asked);
  bench_goal(&table, "colfam SQL", 1.4, "floor SQL");
  bench_goal_max(&table, "colfam C", 1000);
  bench_goal_max(&table, "colfam.h", 1000);
  bench_time(&table, rounds, GETS, expected);
  bench_print(&table);
  bench_asked_release(&asked);
}

int main(void) {
  uint64_t rows = bench_by_scale(5000, 100000, 1000000);
  size_t rounds = bench_by_scale(2, 5, 9);
  compare_loading(rows, 1000, bench_by_scale(1, 5, 5));
  close_all();
  compare_loading(rows, rows, bench_by_scale(1, 5, 5));
  order_rows(rows);
  compare_sizes(rows);
  bench_open_beside(&stores[STORES], &bench_sqlite_mapped, &stores[0]);
  bench_warm(stores, READERS, rows);
  compare_scans(rows, rounds);
  compare_ranges(rows, rounds);
  compare_gets(rows, rounds);
  bench_print_settings(stores, READERS);
  bench_close(&stores[STORES]);
  close_all();
  free(ordered);
  return 0;
}
