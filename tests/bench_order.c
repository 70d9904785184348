/* B5: another order of keys than the native one. How much a comparator of the application costs in others,
** and what colfam's orders cost, each beside the same store in its native order. Processor time,
** nanoseconds. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench_peer.h"
#include "bench_peer_sql.h"
#include "colfam.h"

#define GETS 10000

/* One order of one store; the first of each peer is its native one. */
struct ordered {
  const char *name;
  const struct bench_peer *peer;
  bool callback;
  const char *option;
  const char *native; /* the lane to be held against, NULL for that one */
  double at_most;     /* of the native one's time; 0: no goal */
  bool there;
  struct bench_store store;
};
static struct ordered orders[] = {
    {.name = "RocksDB", .peer = &bench_rocksdb},
    {.name = "RocksDB, callback", .peer = &bench_rocksdb, .callback = true},
    {.name = "LevelDB", .peer = &bench_leveldb},
    {.name = "LevelDB, callback", .peer = &bench_leveldb, .callback = true},
    {.name = "colfam, bytewise", .peer = &bench_colfam_sql},
    {.name = "colfam, reverse",
     .peer = &bench_colfam_sql,
     .option = "comparator = reverse",
     .native = "colfam, bytewise",
     .at_most = 1.05},
    {.name = "colfam, sort-key encoder",
     .peer = &bench_colfam_sql,
     .option = "comparator = bench_encoder",
     .native = "colfam, bytewise",
     .at_most = 1.05},
    {.name = "colfam, callback",
     .peer = &bench_colfam_sql,
     .option = "comparator = bench_callback",
     .native = "colfam, bytewise",
     .at_most = 1.25},
};
#define ORDERS (sizeof orders / sizeof *orders)
static const struct bench_shape shape = {16, 100};

static int encode_same(void *context, const void *bytes, int size, void *into, int room) {
  (void)context;
  if (size && size <= room) memcpy(into, bytes, (size_t)size);
  return size;
}

static int compare_bytes(void *context, const void *a, int a_size, const void *b, int b_size) {
  (void)context;
  int order = memcmp(a, b, (size_t)(a_size < b_size ? a_size : b_size));
  return order ? order : a_size - b_size;
}

/* For the process: the connection may go. */
static void register_orders(void) {
  const struct colfam_order registered[] = {
      {.size = sizeof *registered, .name = "bench_encoder", .encode = encode_same},
      {.size = sizeof *registered, .name = "bench_callback", .compare = compare_bytes}};
  const struct colfam_api *api = NULL;
  char *dir = bench_make_dir("orders");
  sqlite3 *db = bench_sql_open(dir, 0, 0);
  sqlite3_stmt *statement = bench_sql_prepare(db, "SELECT colfam_api(?1)");
  sqlite3_bind_pointer(statement, 1, (void *)&api, COLFAM_API_POINTER, NULL);
  bench_sql_step(statement);
  sqlite3_finalize(statement);
  for (size_t i = 0; i < sizeof registered / sizeof *registered; i++)
    bench_need(api->register_order(api, &registered[i], NULL) == SQLITE_OK, "no order %s",
               registered[i].name);
  sqlite3_close(db);
  bench_remove_dir(dir);
}

/* Whether this version takes the option. */
static bool takes(const char *option) {
  char *dir = bench_make_dir("option");
  sqlite3 *db = bench_sql_open(dir, 0, 0);
  char *sql =
      sqlite3_mprintf("CREATE VIRTUAL TABLE t USING colfam(k BLOB PRIMARY KEY, %s)", option);
  bool taken = sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK;
  sqlite3_free(sql);
  sqlite3_close(db);
  bench_remove_dir(dir);
  return taken;
}

static void open_all(uint64_t rows, size_t round, struct bench_case *puts) {
  for (size_t i = 0; i < ORDERS; i++) {
    struct ordered *ordered = &orders[(i + round) % ORDERS];
    struct bench_setup setup = {.shape = shape,
                                .cache_bytes = (size_t)1 << 30,
                                .callback_order = ordered->callback,
                                .option = ordered->option};
    ordered->there = !ordered->option || takes(ordered->option);
    if (!ordered->there) {
      bench_not_there(puts, ordered->name, "not there yet");
      continue;
    }
    bench_open(&ordered->store, ordered->peer, &setup);
    double took = bench_load(&ordered->store, 0, rows, 1000);
    bench_sample(puts, ordered->name, took * 1e9 / (double)rows);
    bench_settle(&ordered->store);
  }
}

static void close_all(void) {
  for (size_t i = 0; i < ORDERS; i++) {
    if (orders[i].there) bench_close(&orders[i].store);
  }
}

static void set_goals(struct bench_case *table) {
  for (size_t i = 0; i < ORDERS; i++) {
    if (orders[i].native) bench_goal(table, orders[i].name, orders[i].at_most, orders[i].native);
  }
}

static void compare_gets(uint64_t rows) {
  size_t rounds = bench_by_scale(2, 5, 9);
  static struct bench_case table;
  struct bench_asked asked;
  uint64_t expected[BENCH_ROUNDS_MAX];
  bench_asked_init(&asked, &shape, 0, rows, rounds + 1, GETS, 1);
  for (size_t i = 0; i <= rounds; i++) expected[i] = bench_asked_sum(&asked, &shape, i);
  bench_case_init(&table, "B5", "ns", "a random get by order, of %zu rows", (size_t)rows);
  for (size_t i = 0; i < ORDERS; i++) {
    if (!orders[i].there) {
      bench_not_there(&table, orders[i].name, "not there yet");
      continue;
    }
    size_t at = table.lane_count;
    bench_warm(&orders[i].store, 1, rows);
    bench_add_ways(&table, BENCH_GET, &orders[i].store, 1, &asked);
    table.lanes[at].name = orders[i].name;
    table.lane_count = at + 1; /* of the ways to get a key the first */
  }
  set_goals(&table);
  bench_time(&table, rounds, GETS, expected);
  bench_print(&table);
  bench_asked_release(&asked);
}

static void print_settings(void) {
  struct bench_store stores[ORDERS];
  size_t count = 0;
  for (size_t i = 0; i < ORDERS; i++)
    if (orders[i].there) stores[count++] = orders[i].store;
  bench_print_settings(stores, count);
}

int main(void) {
  uint64_t rows = bench_by_scale(5000, 100000, 1000000);
  size_t rounds = bench_by_scale(1, 5, 5);
  static struct bench_case puts;
  register_orders();
  bench_case_init(&puts, "B5", "ns", "a put by order, %zu rows in transactions of 1000",
                  (size_t)rows);
  puts.waits = true;
  for (size_t round = 0; round < rounds; round++) {
    open_all(rows, round, &puts);
    if (round + 1 < rounds) close_all();
  }
  print_settings();
  set_goals(&puts);
  bench_print(&puts);
  compare_gets(rows);
  close_all();
  return 0;
}
