/* B2: is it there? One key at a time and in batches of 100. Cached data, one thread; SQL inside a
** transaction; nanoseconds a key. */
#include "bench_peer.h"

#define STORES 7
#define KEYS_A_ROUND 10000

static const struct bench_peer *const peers[STORES] = {
    &bench_rocksdb, &bench_lmdb,          &bench_leveldb,    &bench_sqlite,
    &bench_floor,   &bench_colfam_engine, &bench_colfam_sql,
};
static struct bench_store stores[STORES];
static const struct bench_shape shape = {16, 100};

static void set_goals(struct bench_case *table, bool batched, bool present) {
  if (present) {
    bench_goal_max(table, "colfam C exists", 1000);
    bench_goal(table, "colfam SQL EXISTS", 1.5, "floor EXISTS");
    bench_goal(table, "colfam SQL EXISTS", 1 / 3.0, "SQLite EXISTS");
  } else {
    bench_goal_max(table, "colfam C exists", batched ? 40 : 100);
    bench_goal_max(table, "colfam.h exists", 40);
    bench_goal(table, "colfam SQL EXISTS", 1.25, "floor EXISTS");
    bench_goal(table, "colfam SQL EXISTS", 1 / 6.0, "SQLite EXISTS");
  }
}

static void compare(uint64_t rows, enum bench_kind kind, size_t batch, bool present) {
  size_t rounds = bench_by_scale(2, 5, 9);
  struct bench_asked asked;
  struct bench_case table;
  uint64_t expected[BENCH_ROUNDS_MAX];
  bench_asked_init(&asked, &shape, present ? 0 : rows, rows, rounds + 1, KEYS_A_ROUND / batch,
                   batch);
  for (size_t i = 0; i <= rounds; i++) expected[i] = present ? KEYS_A_ROUND : 0;
  bench_case_init(&table, "B2", "ns", "%s key%s of %zu rows", present ? "present" : "absent",
                  kind == BENCH_EXISTS ? "" : "s in batches of 100", (size_t)rows);
  bench_add_ways(&table, kind, stores, STORES, &asked);
  set_goals(&table, kind == BENCH_EXISTS_MANY, present);
  bench_time(&table, rounds, KEYS_A_ROUND, expected);
  bench_print(&table);
  bench_asked_release(&asked);
}

int main(void) {
  struct bench_setup setup = {.shape = shape, .cache_bytes = (size_t)1 << 30};
  uint64_t rows = bench_by_scale(20000, 300000, 1000000);
  for (size_t i = 0; i < STORES; i++) {
    bench_open(&stores[i], peers[i], &setup);
    bench_load(&stores[i], 0, rows, 100000);
    bench_settle(&stores[i]);
  }
  bench_warm(stores, STORES, rows);
  bench_print_settings(stores, STORES);
  for (int present = 0; present < 2; present++) {
    compare(rows, BENCH_EXISTS, 1, present);
    compare(rows, BENCH_EXISTS_MANY, 100, present);
  }
  for (size_t i = 0; i < STORES; i++) bench_close(&stores[i]);
  return 0;
}
