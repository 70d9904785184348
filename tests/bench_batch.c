/* B4: one big transaction of small keys with the value 'xxx' that reads its own writes: puts, gets of pending
** keys, a savepoint rolled back, memory, each at sizes that differ a thousandfold and more, and whether a
** put stays what it is; by its own thread's processor time. The longest single put, by the clock on the
** wall: what is spilled is waited for. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench_peer.h"

#define STORES 8
#define GETS 10000
#define ROLLBACKS 200
#define PUTS_UNDONE 10

static const struct bench_peer *const peers[STORES] = {
    &bench_rocksdb_wbwi, &bench_rocksdb, &bench_lmdb,          &bench_leveldb,
    &bench_sqlite,       &bench_floor,   &bench_colfam_engine, &bench_colfam_sql,
};
static struct bench_store stores[STORES];

/* What cannot read its own writes is no peer of what can. */
static const char *lane_of(const struct bench_peer *peer) {
  if (peer == &bench_rocksdb) return "blind batch, RocksDB";
  if (peer == &bench_leveldb) return "blind batch, LevelDB";
  return peer->name;
}

static const struct bench_shape shape = {16, 3};
static const struct kv_slice value = {(const uint8_t *)"xxx", 3};

/* colfam's puts at each size, which are to be the same. */
static struct bench_case flat;

/* What one store takes for one size of the transaction. */
struct tables {
  struct bench_case put, get, rollback, memory;
};

static void put_rows(const struct bench_store *store, uint64_t first, uint64_t count) {
  uint8_t key[16];
  for (uint64_t i = first; i < first + count; i++) {
    bench_fill_key(&shape, i, key);
    store->peer->put(store->handle, kv_slice_of(key, sizeof key), value);
  }
}

/* What making the keys takes: subtracted. */
static double time_keys(uint64_t count) {
  uint8_t key[16];
  volatile uint8_t sink;
  double begun = bench_cpu();
  for (uint64_t i = 0; i < count; i++) {
    bench_fill_key(&shape, i, key);
    sink = key[0];
  }
  (void)sink;
  return bench_cpu() - begun;
}

static void measure_put(struct tables *tables, const struct bench_store *store, uint64_t count) {
  uint64_t heap = bench_heap_bytes();
  double own = time_keys(count), begun = bench_cpu();
  store->peer->begin(store->handle);
  put_rows(store, 0, count);
  double took = bench_cpu() - begun - own;
  double payload = (double)(count * (shape.key_bytes + shape.value_bytes));
  double held = (double)bench_heap_bytes() - (double)heap - payload;
  bench_sample(&tables->put, lane_of(store->peer), took * 1e9 / (double)count);
  if (store->peer != &bench_floor) {
    bench_sample(&tables->memory, lane_of(store->peer), held / (double)count);
  }
}

static const struct bench_way *way_to_get(const struct bench_peer *peer) {
  for (size_t i = 0; i < peer->way_count; i++) {
    if (peer->ways[i].kind == BENCH_GET) return &peer->ways[i];
  }
  return NULL;
}

static void measure_get(struct tables *tables, const struct bench_store *store,
                        const struct bench_asked *asked, size_t round) {
  if (!store->peer->reads_own) return;
  double begun = bench_cpu();
  uint64_t sum = way_to_get(store->peer)->run(store->handle, asked->keys + round * GETS, GETS);
  double took = bench_cpu() - begun;
  bench_need(sum == GETS * bench_digest(value.data, value.size), "%s has read something else",
             store->peer->name);
  bench_sample(&tables->get, lane_of(store->peer), took * 1e9 / GETS);
}

static void roll_back(const struct bench_store *store, uint64_t first) {
  store->peer->savepoint(store->handle);
  put_rows(store, first, PUTS_UNDONE);
  store->peer->rollback_to(store->handle);
}

/* What took seconds is not done again in the next round. */
#define SLOW_US 1e6

/* After it the rows written since must be gone. */
static void measure_rollback(struct tables *tables, const struct bench_store *store,
                             uint64_t count) {
  const struct bench_lane *before = bench_find(&tables->rollback, lane_of(store->peer));
  if (!store->peer->savepoint || (before && bench_median(before) > SLOW_US)) return;
  double begun = bench_cpu(), took = 0;
  size_t times = 0;
  for (; times < ROLLBACKS && took < 0.5; took = bench_cpu() - begun) {
    roll_back(store, count + times++ * PUTS_UNDONE);
  }
  bench_sample(&tables->rollback, lane_of(store->peer), took * 1e6 / (double)times);
  if (!store->peer->reads_own) return;
  uint8_t key[16];
  bench_fill_key(&shape, count, key);
  struct kv_slice undone = kv_slice_of(key, sizeof key);
  bench_need(way_to_get(store->peer)->run(store->handle, &undone, 1) == 0,
             "%s has kept what was rolled back", store->peer->name);
}

static void init_tables(struct tables *tables, size_t count) {
  bench_case_init(&tables->put, "B4", "ns", "a put, transaction of %zu", count);
  bench_case_init(&tables->get, "B4", "ns", "a get of a pending key, transaction of %zu", count);
  bench_case_init(&tables->rollback, "B4", "us",
                  "savepoint, 10 puts, rollback to it, transaction of %zu", count);
  bench_case_init(&tables->memory, "B4", "bytes",
                  "memory beyond keys and values, an entry, transaction of %zu", count);
}

static void print_tables(struct tables *tables, size_t count) {
  bench_goal_max(&tables->put, "colfam C", count <= 100000 ? 120 : 150);
  bench_goal(&tables->put, "colfam SQL", 1.2, "floor");
  bench_goal_max(&tables->get, "colfam C", count <= 100000 ? 100 : count <= 1000000 ? 300 : 400);
  bench_goal(&tables->get, "colfam SQL", 1.2, "floor");
  bench_goal_max(&tables->rollback, "colfam C", 2);
  bench_goal_max(&tables->rollback, "colfam SQL", 6);
  bench_goal_max(&tables->memory, "colfam C", 24);
  bench_print(&tables->put);
  bench_print(&tables->get);
  bench_print(&tables->rollback);
  bench_print(&tables->memory);
}

static void open_all(void) {
  struct bench_setup setup = {.shape = shape, .cache_bytes = (size_t)4 << 30, .replaces = true};
  for (size_t i = 0; i < STORES; i++) bench_open(&stores[i], peers[i], &setup);
}

static void close_all(void) {
  for (size_t i = 0; i < STORES; i++) bench_close(&stores[i]);
}

static const char *const flat_lanes[] = {"colfam C", "colfam SQL"};

/* What a put takes at a size, kept for the last table; the large ones are held against 100,000. */
static void note_flat(struct tables *tables, size_t count) {
  static char names[16][64];
  static const char *middle[2];
  static size_t used;
  for (int i = 0; i < 2; i++) {
    char *name = names[used++];
    snprintf(name, sizeof names[0], "%s, of %zu", flat_lanes[i], count);
    bench_count(&flat, name, bench_median(bench_find(&tables->put, flat_lanes[i])));
    if (count == 100000) middle[i] = name;
    if (count > 100000) bench_goal(&flat, name, 1.5, middle[i]);
  }
}

/* Fresh stores a round: some keep the memory of the last one. */
static void compare(uint64_t count, size_t rounds) {
  static struct tables tables;
  struct bench_asked asked;
  bench_asked_init(&asked, &shape, 0, count, rounds, GETS, 1);
  init_tables(&tables, (size_t)count);
  for (size_t round = 0; round < rounds; round++) {
    open_all();
    if (round == 0 && flat.lane_count == 0) bench_print_settings(stores, STORES);
    for (size_t i = 0; i < STORES; i++) {
      const struct bench_store *store = &stores[(i + round) % STORES];
      measure_put(&tables, store, count);
      measure_get(&tables, store, &asked, round);
      measure_rollback(&tables, store, count);
      store->peer->rollback(store->handle);
    }
    close_all();
  }
  print_tables(&tables, (size_t)count);
  note_flat(&tables, (size_t)count);
  bench_asked_release(&asked);
}

/* ---- The longest put */

static void measure_longest(struct bench_case *table, const struct bench_store *store,
                            uint64_t count) {
  double longest = 0;
  store->peer->begin(store->handle);
  for (uint64_t i = 0; i < count; i++) {
    double begun = bench_clock(true);
    put_rows(store, i, 1);
    double took = bench_clock(true) - begun;
    if (took > longest) longest = took;
  }
  bench_sample(table, store->peer->name, longest * 1e3);
  store->peer->rollback(store->handle);
}

static void compare_longest(uint64_t count, size_t rounds) {
  static struct bench_case table;
  bench_case_init(&table, "B4", "ms", "the longest single put of %zu", (size_t)count);
  table.waits = true;
  for (size_t round = 0; round < rounds; round++) {
    open_all();
    for (size_t i = 0; i < STORES; i++) {
      const struct bench_store *store = &stores[(i + round) % STORES];
      if (store->peer->colfam) measure_longest(&table, store, count);
    }
    close_all();
  }
  bench_goal_max(&table, "colfam C", 20);
  bench_goal_max(&table, "colfam SQL", 50);
  bench_print(&table);
}

int main(void) {
  static const uint64_t full[] = {1000, 10000, 100000, 1000000, 10000000};
  static const uint64_t quick[] = {1000, 10000, 100000, 300000};
  const uint64_t *sizes = bench_scale() == BENCH_FULL ? full : quick;
  size_t count = bench_by_scale(1, 4, 5), rounds = bench_by_scale(1, 5, 5);
  bench_case_init(&flat, "B4", "ns", "a put, by the size of the transaction");
  for (size_t i = 0; i < count; i++) compare(sizes[i], rounds);
  bench_print(&flat);
  compare_longest(sizes[count - 1], rounds);
  return 0;
}
