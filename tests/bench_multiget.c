/* B1: many keys at once. Cached data, one thread; SQL inside a transaction; microseconds a batch. */
#include <stdio.h>
#include <stdlib.h>

#include "bench_peer.h"

#define STORES 6

static const struct bench_peer *const peers[STORES] = {
    &bench_rocksdb, &bench_lmdb, &bench_leveldb, &bench_sqlite, &bench_floor, &bench_colfam_engine,
};
static struct bench_store stores[STORES + 1];
#define ALL (STORES + 1)

struct data {
  struct bench_shape shape;
  uint64_t rows;
};

static void load(const struct data *data) {
  struct bench_setup setup = {.shape = data->shape, .cache_bytes = (size_t)2 << 30};
  for (size_t i = 0; i < ALL; i++) {
    bench_open(&stores[i], i < STORES ? peers[i] : &bench_colfam_sql, &setup);
    bench_load(&stores[i], 0, data->rows, 100000);
    bench_settle(&stores[i]);
  }
  bench_warm(stores, ALL, data->rows);
}

static void unload(void) {
  for (size_t i = 0; i < ALL; i++) bench_close(&stores[i]);
}

/* LMDB's lane where its keys are hashed (bench_peer_lmdb.c). */
#define HASHED "LMDB, hashed key"

/* What is asked of present keys; absent ones have limits of their own. What is asked of C is asked of the
** engine, and of colfam.h inside the application's transaction. */
static void set_goals(struct bench_case *table, const struct data *data, bool present) {
  static const char *const sides[] = {"colfam C", "colfam.h"};
  bool long_keys = data->shape.key_bytes > 100;
  bool big_values = data->shape.value_bytes > 4096;
  if (!present) {
    for (int i = 0; i < 2; i++) bench_goal(table, sides[i], 1 / 4.0, "RocksDB batched");
    bench_goal(table, "colfam SQL IN", 1.1, "floor IN");
    bench_goal(table, "colfam SQL packed", 1 / 2.0, "RocksDB batched");
    return;
  }
  for (int i = 0; i < 2; i++) {
    bench_goal(table, sides[i], long_keys ? (big_values ? 1 / 2.0 : 1 / 3.0) : 1 / 4.0,
               "RocksDB batched");
    if (big_values) continue;
    bench_goal(table, sides[i],
               long_keys             ? 1 / 1.5
               : data->rows > 100000 ? 1 / 3.0
                                     : 1,
               long_keys ? HASHED : "LMDB");
  }
  bench_goal(table, "colfam SQL IN", long_keys ? 1.25 : 1.3, "floor IN");
  bench_goal(table, "colfam SQL IN", long_keys || data->rows > 100000 ? 1 / 2.5 : 1 / 1.5,
             "SQLite IN");
  bench_goal(table, "colfam SQL packed", long_keys ? (big_values ? 1 / 1.5 : 1 / 2.0) : 1 / 3.0,
             "RocksDB batched");
}

static void compare(const struct data *data, size_t batch, bool present) {
  size_t rounds = bench_by_scale(2, 5, 9);
  struct bench_asked asked;
  struct bench_case table;
  uint64_t expected[BENCH_ROUNDS_MAX];
  size_t keys = bench_by_scale(200, 2000, 2000), batches = keys > batch ? keys / batch : 1;
  bench_asked_init(&asked, &data->shape, present ? 0 : data->rows, data->rows, rounds + 1, batches,
                   batch);
  for (size_t i = 0; i <= rounds; i++) {
    expected[i] = present ? bench_asked_sum(&asked, &data->shape, i) : 0;
  }
  bench_case_init(&table, "B1", "us", "%zu %s keys of %zu B, values of %zu B, of %zu rows", batch,
                  present ? "present" : "absent", data->shape.key_bytes, data->shape.value_bytes,
                  (size_t)data->rows);
  bench_add_ways(&table, BENCH_MULTI_GET, stores, ALL, &asked);
  if (data->shape.key_bytes > 511) bench_find(&table, "LMDB")->name = HASHED;
  set_goals(&table, data, present);
  bench_time(&table, rounds, (double)batches, expected);
  bench_print(&table);
  bench_asked_release(&asked);
}

static void drop_pages(struct bench_lane *lane, size_t set) {
  (void)set;
  bench_drop_pages(((struct bench_store *)lane->store)->dir);
}

/* Nothing stays in the engine's cache: each block is read and unpacked again, shared or not. From the disk:
** the system's cache is emptied too. */
static void compare_cold(const struct data *data, bool from_disk) {
  struct bench_store cold;
  struct bench_setup setup = {.shape = data->shape, .cache_bytes = 0};
  size_t rounds = bench_by_scale(2, 5, 9);
  struct bench_asked asked;
  struct bench_case table;
  uint64_t expected[BENCH_ROUNDS_MAX];
  bench_open(&cold, &bench_colfam_engine, &setup);
  bench_load(&cold, 0, data->rows, 100000);
  bench_settle(&cold);
  bench_asked_init(&asked, &data->shape, 0, data->rows, rounds + 1, 1, 1000);
  for (size_t i = 0; i <= rounds; i++) expected[i] = bench_asked_sum(&asked, &data->shape, i);
  bench_case_init(&table, "B1", "us", "1000 keys of %zu B, values of %zu B, of %zu rows, %s",
                  data->shape.key_bytes, data->shape.value_bytes, (size_t)data->rows,
                  from_disk ? "from the disk" : "no cache");
  bench_add_ways(&table, BENCH_MULTI_GET, &cold, 1, &asked);
  for (size_t i = 0; from_disk && i < table.lane_count; i++) table.lanes[i].after = drop_pages;
  table.waits = from_disk;
  bench_goal(&table, "colfam C", 1 / 3.0, "colfam C get loop");
  bench_time(&table, rounds, 1, expected);
  bench_print(&table);
  bench_asked_release(&asked);
  bench_close(&cold);
}

static void run(const struct data *data, bool all_batches) {
  load(data);
  bench_print_settings(stores, ALL);
  compare(data, 100, true);
  if (all_batches) {
    compare(data, 10, true);
    compare(data, 1000, true);
    compare(data, 100, false);
  }
  unload();
}

int main(void) {
  static const struct data cases[] = {
      {{1024, 256}, 10000},   {{1024, 1024}, 10000},  {{1024, 4096}, 10000},
      {{1024, 16384}, 10000}, {{1024, 65536}, 10000}, {{16, 256}, 10000},
  };
  size_t last = sizeof cases / sizeof *cases - 1;
  for (size_t i = 0; i <= last; i++) {
    struct data data = cases[i];
    bool heavy = data.shape.value_bytes > 4096;
    data.rows = bench_by_scale(heavy ? 100 : 1000, heavy ? 2000 : data.rows, data.rows);
    run(&data, i == 0 || i == last);
  }
  struct data many = {{16, 100}, bench_by_scale(5000, 200000, 1000000)};
  run(&many, true);
  compare_cold(&many, true);
  struct data few = {{16, 100}, bench_by_scale(1000, 10000, 10000)};
  compare_cold(&few, false);
  return 0;
}
