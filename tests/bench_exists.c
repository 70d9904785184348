/* B2: is it there? One key at a time and in batches of 100: exactly, by whatever each store has, and by what
** may answer "not known" without a read (RocksDB's KeyMayExist, whose exact form goes on with a get unless
** the value came along). Cached data, one thread; SQL and colfam.h inside a transaction; nanoseconds a key.
** */
#include "bench_peer.h"

#define STORES 7
#define KEYS_A_ROUND 10000

static const struct bench_peer *const peers[STORES] = {
    &bench_rocksdb, &bench_lmdb,          &bench_leveldb,    &bench_sqlite,
    &bench_floor,   &bench_colfam_engine, &bench_colfam_sql,
};
static struct bench_store stores[STORES];
static const struct bench_shape shape = {16, 100};

static bool is_probe(enum bench_kind kind) {
  return kind == BENCH_MAY_EXIST || kind == BENCH_MAY_EXIST_MANY;
}

static void set_goals(struct bench_case *table, bool batched, bool present) {
  static const char *const sides[] = {"colfam C exists", "colfam.h exists", "colfam C may-exist",
                                      "colfam.h may_exist"};
  for (size_t i = 0; i < sizeof sides / sizeof *sides; i++)
    bench_goal_max(table, sides[i], present ? 1000 : batched ? 40 : 100);
  bench_goal(table, "colfam SQL EXISTS", present ? 1.5 : 1.25, "floor EXISTS");
  bench_goal(table, "colfam SQL EXISTS", present ? 1 / 3.0 : 1 / 6.0, "SQLite EXISTS");
}

/* Of the keys of a round. */
static uint64_t there;

/* A filter takes one of a hundred that are not there for one that may be. */
static uint64_t run_probe(struct bench_lane *lane, size_t round) {
  uint64_t count = bench_run_way(lane, round);
  bench_need(count >= there && count <= there + KEYS_A_ROUND / 20, "%s: %zu keys may be there",
             lane->name, (size_t)count);
  return there;
}

static void compare(uint64_t rows, enum bench_kind kind, size_t batch, bool present) {
  size_t rounds = bench_by_scale(2, 5, 9);
  struct bench_asked asked;
  struct bench_case table;
  uint64_t expected[BENCH_ROUNDS_MAX];
  there = present ? KEYS_A_ROUND : 0;
  bench_asked_init(&asked, &shape, present ? 0 : rows, rows, rounds + 1, KEYS_A_ROUND / batch,
                   batch);
  for (size_t i = 0; i <= rounds; i++) expected[i] = there;
  bench_case_init(&table, "B2", "ns", "%s%s key%s of %zu rows", is_probe(kind) ? "may-exist, " : "",
                  present ? "present" : "absent", batch == 1 ? "" : "s in batches of 100",
                  (size_t)rows);
  bench_add_ways(&table, kind, stores, STORES, &asked);
  for (size_t i = 0; is_probe(kind) && i < table.lane_count; i++) table.lanes[i].run = run_probe;
  set_goals(&table, batch > 1, present);
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
    compare(rows, BENCH_MAY_EXIST, 1, present);
    compare(rows, BENCH_MAY_EXIST_MANY, 100, present);
  }
  for (size_t i = 0; i < STORES; i++) bench_close(&stores[i]);
  return 0;
}
