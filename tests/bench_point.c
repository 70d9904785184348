/* B8: one point SELECT, alone and inside a transaction; and from cold, a fresh process that opens the
** database and asks one key. (What a statement pays to see that its view is still good:
** bench_revalidate.c.) */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench_peer.h"
#include "bench_peer_sql.h"

#define STORES 3
#define READERS (STORES + 1) /* SQLite with its file mapped too */
#define READS 5000

static const struct bench_peer *const peers[STORES] = {&bench_sqlite, &bench_floor,
                                                       &bench_colfam_sql};
static struct bench_store stores[READERS];
static const struct bench_shape shape = {16, 100};

/* A statement each, and a read transaction each: nothing is begun around them. */
static uint64_t read_alone(struct bench_lane *lane, size_t round) {
  const struct bench_store *store = lane->store;
  const struct bench_asked *asked = lane->with;
  return lane->operation(store->handle, asked->keys + round * READS, READS);
}

static void add_alone(struct bench_case *table, const struct bench_asked *asked) {
  bench_add_ways(table, BENCH_GET, stores, READERS, asked);
  for (size_t i = 0; i < table->lane_count; i++) table->lanes[i].run = read_alone;
}

static double median_of(struct bench_case *table, const char *name) {
  return bench_median(bench_find(table, name));
}

static void compare_statements(uint64_t rows) {
  size_t rounds = bench_by_scale(2, 7, 15);
  struct bench_asked asked;
  static struct bench_case alone, inside, above;
  uint64_t expected[BENCH_ROUNDS_MAX];
  bench_asked_init(&asked, &shape, 0, rows, rounds + 1, READS, 1);
  for (size_t i = 0; i <= rounds; i++) expected[i] = bench_asked_sum(&asked, &shape, i);
  bench_case_init(&alone, "B8", "ns", "a point SELECT in a transaction of its own, of %zu rows",
                  (size_t)rows);
  bench_case_init(&inside, "B8", "ns", "a point SELECT inside a transaction, of %zu rows",
                  (size_t)rows);
  add_alone(&alone, &asked);
  bench_add_ways(&inside, BENCH_GET, stores, READERS, &asked);
  bench_time(&alone, rounds, READS, expected);
  bench_time(&inside, rounds, READS, expected);
  bench_print(&alone);
  bench_print(&inside);
  bench_case_init(&above, "B8", "ns", "a point SELECT, above the floor, of %zu rows", (size_t)rows);
  /* The floor has no file to lock: what a transaction of its own takes is taken from the ordinary table. */
  double floor = median_of(&inside, "floor SQL");
  double locks = median_of(&alone, "SQLite") - median_of(&inside, "SQLite");
  bench_count(&above, "colfam SQL inside", median_of(&inside, "colfam SQL") - floor);
  bench_count(&above, "colfam SQL alone", median_of(&alone, "colfam SQL") - floor - locks);
  bench_goal_max(&above, "colfam SQL inside", 300);
  bench_goal_max(&above, "colfam SQL alone", 300);
  bench_print(&above);
  bench_asked_release(&asked);
}

/* ---- From cold */

static const char *own_path;

/* In the fresh process: `bench_point DIR`. */
static int answer_one(const char *dir) {
  sqlite3 *db = bench_sql_open(dir, 0, 0);
  sqlite3_stmt *statement = bench_sql_prepare(db, "SELECT length(v) FROM t WHERE k = ?1");
  uint8_t key[16];
  bench_fill_key(&shape, 5, key);
  sqlite3_bind_blob(statement, 1, key, sizeof key, SQLITE_STATIC);
  bench_need(bench_sql_step(statement) == (sqlite3_int64)shape.value_bytes, "no row");
  sqlite3_finalize(statement);
  sqlite3_close(db);
  return 0;
}

/* What processes that have ended took of processors. */
static double ended_cpu(void) {
  struct rusage usage;
  getrusage(RUSAGE_CHILDREN, &usage);
  return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static double cold_seconds(const struct bench_store *store) {
  bool by_wall = !bench_clock_name(true)[0];
  double begun = by_wall ? bench_now() : ended_cpu();
  pid_t child = fork();
  if (child == 0) {
    execl(own_path, own_path, store->dir, (char *)NULL);
    _exit(127);
  }
  int status = 1;
  bench_need(child > 0 && waitpid(child, &status, 0) == child && status == 0,
             "the fresh process has failed");
  return (by_wall ? bench_now() : ended_cpu()) - begun;
}

/* The log at its budget: what was loaded is in a file, and 4 MiB more in transactions of 100. */
static void fill_log(struct bench_store *store, uint64_t rows) {
  uint64_t more = bench_by_scale(2000, 33000, 33000);
  bench_load(store, rows, more, 100);
}

static void compare_cold(uint64_t rows) {
  size_t rounds = bench_by_scale(2, 9, 15);
  static struct bench_case table, above;
  bench_case_init(&table, "B8", "ms", "a fresh process: open, one point query, close, of %zu rows",
                  (size_t)rows);
  table.waits = true;
  for (size_t i = 0; i < STORES; i++) fill_log(&stores[i], rows);
  for (size_t i = 0; i < rounds * STORES; i++) {
    const struct bench_store *store = &stores[(i + i / STORES) % STORES];
    if (store->peer == &bench_floor) continue;
    bench_sample(&table, store->peer->name, cold_seconds(store) * 1e3);
  }
  bench_print(&table);
  bench_case_init(&above, "B8", "ms", "a fresh process, above the ordinary table's, of %zu rows",
                  (size_t)rows);
  bench_count(&above, "colfam SQL", median_of(&table, "colfam SQL") - median_of(&table, "SQLite"));
  bench_goal_max(&above, "colfam SQL", 20);
  bench_print(&above);
}

int main(int argc, char **argv) {
  if (argc > 1) return answer_one(argv[1]);
  own_path = argv[0];
  struct bench_setup setup = {.shape = shape, .cache_bytes = (size_t)1 << 30};
  uint64_t rows = bench_by_scale(20000, 300000, 1000000);
  for (size_t i = 0; i < STORES; i++) {
    bench_open(&stores[i], peers[i], &setup);
    bench_load(&stores[i], 0, rows, 100000);
    bench_settle(&stores[i]);
  }
  bench_open_beside(&stores[STORES], &bench_sqlite_mapped, &stores[0]);
  bench_warm(stores, READERS, rows);
  bench_print_settings(stores, READERS);
  compare_statements(rows);
  bench_close(&stores[STORES]);
  compare_cold(rows);
  for (size_t i = 0; i < STORES; i++) bench_close(&stores[i]);
  return 0;
}
