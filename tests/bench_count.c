/* B3: knowing how many rows there are while writing, in the shape of Spark's state store: 10,000 operations
** a transaction on a store of 10,000 rows, of which a part meets rows that are there. Four loops: put,
** delete, evict by range, merge (read, then put). Processor time, nanoseconds an operation, COMMIT in it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench_peer.h"
#include "bench_peer_sql.h"

static uint64_t operations; /* of a transaction, and rows of the small store */
#define LANES 9

/* How a lane knows the number of rows. */
enum counting {
  NOT_COUNTED,
  COUNTED_BY_STORE, /* it costs the store whatever it does about it */
  COUNTED_BY_GET,   /* the application looks first */
  COUNTED_BY_PROBE
};

struct counter {
  const char *name;
  const struct bench_peer *peer;
  const char *option;
  bool plain_insert;
  enum counting counting;
  struct bench_store store;
};
static struct counter counters[LANES] = {
    {.name = "RocksDB, not counted", .peer = &bench_rocksdb},
    {.name = "RocksDB, get first", .peer = &bench_rocksdb, .counting = COUNTED_BY_GET},
    {.name = "RocksDB, KeyMayExist", .peer = &bench_rocksdb, .counting = COUNTED_BY_PROBE},
    {.name = "SQLite, EXISTS first", .peer = &bench_sqlite, .counting = COUNTED_BY_GET},
    {.name = "LMDB, counts itself", .peer = &bench_lmdb, .counting = COUNTED_BY_STORE},
    {.name = "colfam OR REPLACE, not counted",
     .peer = &bench_colfam_sql,
     .option = "track_rows = off"},
    {.name = "colfam OR REPLACE", .peer = &bench_colfam_sql, .counting = COUNTED_BY_STORE},
    {.name = "colfam INSERT, not counted",
     .peer = &bench_colfam_sql,
     .option = "track_rows = off, conflict = replace",
     .plain_insert = true},
    {.name = "colfam INSERT",
     .peer = &bench_colfam_sql,
     .option = "conflict = replace",
     .plain_insert = true,
     .counting = COUNTED_BY_STORE},
};
static const struct bench_shape shape = {16, 100};

/* One loop over the keys of a transaction. */
struct loop {
  const char *name;
  void (*operate)(struct counter *counter, struct kv_slice key, int64_t *rows);
  bool adds; /* what is not there */
  uint64_t base;
  unsigned rate; /* percent of the keys that are there */
};

static const struct bench_way *way_of(const struct bench_peer *peer, enum bench_kind kind,
                                      size_t nth) {
  for (size_t i = 0; i < peer->way_count; i++) {
    if (peer->ways[i].kind == kind && nth-- == 0) return &peer->ways[i];
  }
  return NULL;
}

static bool is_there(struct counter *counter, struct kv_slice key) {
  const struct bench_way *way =
      way_of(counter->peer, BENCH_EXISTS, counter->counting == COUNTED_BY_PROBE);
  return way->run(counter->store.handle, &key, 1) != 0;
}

static bool looks_first(const struct counter *counter) {
  return counter->counting == COUNTED_BY_GET || counter->counting == COUNTED_BY_PROBE;
}

static struct kv_slice value_of(struct kv_slice key) {
  static uint8_t value[100];
  memcpy(value, key.data, key.size);
  return kv_slice_of(value, sizeof value);
}

static void put(struct counter *counter, struct kv_slice key, int64_t *rows) {
  if (looks_first(counter)) *rows += !is_there(counter, key);
  counter->peer->put(counter->store.handle, key, value_of(key));
}

static void erase(struct counter *counter, struct kv_slice key, int64_t *rows) {
  if (looks_first(counter)) *rows -= is_there(counter, key);
  counter->peer->remove(counter->store.handle, key);
}

/* The get tells whether the row is there: counting adds nothing. */
static void merge(struct counter *counter, struct kv_slice key, int64_t *rows) {
  const struct bench_way *way = way_of(counter->peer, BENCH_GET, 0);
  *rows += way->run(counter->store.handle, &key, 1) == 0;
  counter->peer->put(counter->store.handle, key, value_of(key));
}

/* The i-th key of a round: the first `rate` percent are of the store's rows. */
static uint64_t row_of(const struct loop *loop, size_t round, size_t i) {
  if (i * 100 < (size_t)loop->rate * operations) return (i + round * operations) % loop->base;
  return loop->base + round * operations + i;
}

static uint64_t run_loop(struct bench_lane *lane, size_t round) {
  struct counter *counter = lane->store;
  const struct loop *loop = lane->with;
  int64_t rows = (int64_t)loop->base;
  uint8_t key[16];
  counter->peer->begin(counter->store.handle);
  if (!counter->peer->reads_own && counter->peer->read_begin) {
    counter->peer->read_begin(counter->store.handle);
  }
  for (size_t i = 0; i < operations; i++) {
    bench_fill_key(&shape, row_of(loop, round, i), key);
    loop->operate(counter, kv_slice_of(key, sizeof key), &rows);
  }
  counter->peer->commit(counter->store.handle);
  return (uint64_t)rows;
}

static int64_t expected_rows(const struct loop *loop) {
  int64_t there = (int64_t)operations * loop->rate / 100;
  return (int64_t)loop->base + (loop->adds ? (int64_t)operations - there : -there);
}

static void need_count(struct counter *counter, int64_t rows) {
  if (!counter->peer->colfam) return;
  sqlite3_stmt *ask =
      bench_sql_prepare(bench_sql_db(counter->store.handle), "SELECT count(*) FROM t");
  int64_t counted = bench_sql_step(ask);
  sqlite3_finalize(ask);
  bench_need(counted == rows, "%s: %lld rows, not %lld", counter->name, (long long)counted,
             (long long)rows);
}

/* Back to the store's own rows, and the count held against what it must be. */
static void restore(struct bench_lane *lane, size_t round) {
  struct counter *counter = lane->store;
  const struct loop *loop = lane->with;
  uint8_t key[16];
  need_count(counter, expected_rows(loop));
  counter->peer->begin(counter->store.handle);
  for (size_t i = 0; i < operations; i++) {
    uint64_t row = row_of(loop, round, i);
    bench_fill_key(&shape, row, key);
    struct kv_slice slice = kv_slice_of(key, sizeof key);
    if (row >= loop->base)
      counter->peer->remove(counter->store.handle, slice);
    else if (!loop->adds)
      counter->peer->put(counter->store.handle, slice, value_of(slice));
  }
  counter->peer->commit(counter->store.handle);
}

/* Whether the rows are in files: then a key that is there costs a look. */
static bool looks_in_files(const struct loop *loop) {
  return loop->base > operations && loop->rate > 0;
}

static void set_goals(struct bench_case *table, const struct loop *loop) {
  if (!looks_in_files(loop)) {
    bench_goal(table, "colfam OR REPLACE", 1.1, "colfam OR REPLACE, not counted");
    bench_goal(table, "colfam INSERT", 1.1, "colfam INSERT, not counted");
  }
  if (loop->base > operations) return;
  bench_goal(table, "colfam OR REPLACE", 1 / 3.0, "RocksDB, get first");
  bench_goal(table, "colfam INSERT", 1 / 3.0, "RocksDB, get first");
}

#define PROBE_NS 1000 /* what a key-only probe of a key that is there is to take (bench_exists.c) */

static void print_added(struct bench_case *measured, const struct loop *loop) {
  static struct bench_case table;
  static const char *const names[][2] = {{"colfam OR REPLACE", "colfam OR REPLACE, not counted"},
                                         {"colfam INSERT", "colfam INSERT, not counted"}};
  bench_case_init(&table, "B3", "ns",
                  "what counting adds to a %s, %u %% of keys there, store of %zu rows", loop->name,
                  loop->rate, (size_t)loop->base);
  for (int i = 0; i < 2; i++) {
    bench_count(&table, names[i][0],
                bench_median(bench_find(measured, names[i][0])) -
                    bench_median(bench_find(measured, names[i][1])));
    bench_goal_max(&table, names[i][0], PROBE_NS);
  }
  bench_print(&table);
}

static void compare(const struct loop *loop) {
  size_t rounds = bench_by_scale(1, 5, 7);
  static struct bench_case table;
  bench_case_init(&table, "B3", "ns", "%s, %u %% of keys there, store of %zu rows", loop->name,
                  loop->rate, (size_t)loop->base);
  for (size_t i = 0; i < LANES; i++) {
    bench_add(&table, counters[i].name, run_loop, &counters[i], loop)->after = restore;
  }
  set_goals(&table, loop);
  bench_time(&table, rounds, (double)operations, NULL);
  bench_print(&table);
  if (looks_in_files(loop)) print_added(&table, loop);
}

/* ---- Evicting: one range of keys, as many as `rate` percent of the rows */

/* By key: random keys, so that a share of the first byte's values is that share of the rows. */
static struct kv_slice bound_of(const struct loop *loop, uint8_t *bound) {
  bound[0] = (uint8_t)(loop->rate * 255 / 100);
  return kv_slice_of(bound, 1);
}

/* The keys below the bound, in order, as an application finds them that walks them. */
static struct {
  uint8_t (*keys)[16];
  size_t count;
} evicted;

static int compare_keys(const void *a, const void *b) {
  return memcmp(a, b, sizeof *evicted.keys);
}

static void find_evicted(const struct loop *loop) {
  uint8_t bound[1], key[16];
  struct kv_slice end = bound_of(loop, bound);
  evicted.keys = malloc((size_t)loop->base * sizeof *evicted.keys);
  evicted.count = 0;
  for (uint64_t row = 0; row < loop->base; row++) {
    bench_fill_key(&shape, row, key);
    if (kv_slice_compare(kv_slice_of(key, sizeof key), end) < 0)
      memcpy(evicted.keys[evicted.count++], key, sizeof key);
  }
  qsort(evicted.keys, evicted.count, sizeof *evicted.keys, compare_keys);
}

static uint64_t run_evict(struct bench_lane *lane, size_t round) {
  struct counter *counter = lane->store;
  const struct loop *loop = lane->with;
  uint8_t bound[1];
  struct kv_slice end = bound_of(loop, bound);
  (void)round;
  sqlite3_stmt *evict =
      bench_sql_prepare(bench_sql_db(counter->store.handle), "DELETE FROM t WHERE k < ?1");
  sqlite3_bind_blob(evict, 1, end.data, (int)end.size, SQLITE_STATIC);
  bench_sql_step(evict);
  sqlite3_finalize(evict);
  return 0;
}

/* Without SQL: the range is walked, each of its keys deleted. */
static uint64_t run_walk(struct bench_lane *lane, size_t round) {
  struct counter *counter = lane->store;
  void *handle = counter->store.handle;
  (void)round;
  if (counter->peer->read_begin) counter->peer->read_begin(handle);
  counter->peer->scan(handle, kv_slice_of(NULL, 0), evicted.count);
  if (counter->peer->read_end) counter->peer->read_end(handle);
  counter->peer->begin(handle);
  for (size_t i = 0; i < evicted.count; i++)
    counter->peer->remove(handle, kv_slice_of(evicted.keys[i], sizeof evicted.keys[i]));
  counter->peer->commit(handle);
  return 0;
}

static void restore_evicted(struct bench_lane *lane, size_t round) {
  struct counter *counter = lane->store;
  const struct loop *loop = lane->with;
  (void)round;
  need_count(counter, (int64_t)(loop->base - evicted.count));
  counter->peer->begin(counter->store.handle);
  for (size_t i = 0; i < evicted.count; i++) {
    struct kv_slice key = kv_slice_of(evicted.keys[i], sizeof evicted.keys[i]);
    counter->peer->put(counter->store.handle, key, value_of(key));
  }
  counter->peer->commit(counter->store.handle);
}

static bool has_sql(const struct bench_peer *peer) {
  return peer->colfam || peer == &bench_sqlite;
}

static const char *evicting_name(const struct counter *counter) {
  if (counter->peer->colfam) return counter->name;
  if (counter->peer == &bench_sqlite) return "SQLite";
  return counter->peer == &bench_lmdb ? "LMDB, walked" : "RocksDB, walked";
}

/* Whoever walks counts as he goes. */
static void compare_evictions(const struct loop *loop) {
  static struct bench_case table;
  find_evicted(loop);
  bench_case_init(&table, "B3", "ns", "evict by range, %zu of %zu rows", evicted.count,
                  (size_t)loop->base);
  for (size_t i = 0; i < LANES; i++) {
    const char *name = evicting_name(&counters[i]);
    if (bench_find(&table, name)) continue;
    bench_add(&table, name, has_sql(counters[i].peer) ? run_evict : run_walk, &counters[i], loop)
        ->after = restore_evicted;
  }
  bench_goal(&table, "colfam OR REPLACE", 1.1, "colfam OR REPLACE, not counted");
  bench_goal(&table, "colfam INSERT", 1.1, "colfam INSERT, not counted");
  bench_goal(&table, "colfam OR REPLACE", 1 / 3.0, "RocksDB, walked");
  bench_goal(&table, "colfam INSERT", 1 / 3.0, "RocksDB, walked");
  bench_time(&table, bench_by_scale(1, 5, 7), (double)evicted.count, NULL);
  bench_print(&table);
  free(evicted.keys);
}

static void open_all(uint64_t base) {
  for (size_t i = 0; i < LANES; i++) {
    struct bench_setup setup = {.shape = shape,
                                .cache_bytes = (size_t)256 << 20,
                                .replaces = !counters[i].plain_insert,
                                .option = counters[i].option};
    bench_open(&counters[i].store, counters[i].peer, &setup);
    bench_load(&counters[i].store, 0, base, operations);
    bench_settle(&counters[i].store);
  }
}

static void close_all(void) {
  for (size_t i = 0; i < LANES; i++) bench_close(&counters[i].store);
}

static void print_settings(void) {
  struct bench_store stores[LANES];
  for (size_t i = 0; i < LANES; i++) stores[i] = counters[i].store;
  bench_print_settings(stores, LANES);
}

int main(void) {
  static const unsigned rates[] = {50, 100, 0, 10};
  /* Puts at every rate in the quick form too. */
  size_t put_rates = bench_by_scale(1, 4, 4), rate_count = bench_by_scale(1, 2, 4);
  operations = bench_by_scale(1000, 10000, 10000);
  const struct loop loops[] = {
      {"put", put, true, operations, 0},
      {"delete", erase, false, operations, 0},
      {"merge", merge, true, operations, 0},
  };
  open_all(operations);
  print_settings();
  for (size_t i = 0; i < sizeof loops / sizeof *loops; i++) {
    size_t count = loops[i].operate == put ? put_rates : rate_count;
    for (size_t rate = 0; rate < count; rate++) {
      struct loop loop = loops[i];
      loop.rate = rates[rate];
      compare(&loop);
    }
  }
  for (size_t rate = 0; rate < rate_count; rate++) {
    if (rates[rate] == 0) continue;
    compare_evictions(&(struct loop){"evict", NULL, false, operations, rates[rate]});
  }
  close_all();

  /* Where the rows are in files. */
  uint64_t base = bench_by_scale(3000, 100000, 1000000);
  open_all(base);
  compare(&(struct loop){"put", put, true, base, 0});
  compare(&(struct loop){"put", put, true, base, 100});
  close_all();
  return 0;
}
