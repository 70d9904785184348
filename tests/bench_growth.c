/* B7, growth: loading a table in random order, in transactions of 1,000, at 1 and 10 million rows and as
** many as SCALE says for colfam alone, which also does it in one transaction. Each store in a process of its
** own: time a row, bytes written for one byte of row (the log through SQLite in it), bytes on disk, memory.
** */
#include <stdlib.h>

#include "bench_peer.h"

#define EACH 1000
#define CACHE_BYTES ((size_t)64 << 20)

enum figure { NS_A_ROW, BYTES_WRITTEN, DISK_BYTES, RSS_BYTES, FIGURES };

struct growth {
  const struct bench_peer *peer;
  uint64_t rows, each; /* of a transaction */
};
static const struct bench_shape shape = {16, 100};

static void verify(struct bench_store *store, uint64_t rows) {
  struct bench_asked asked;
  const struct bench_peer *peer = store->peer;
  bench_asked_init(&asked, &shape, 0, rows, 1, 1, 1000);
  for (size_t i = 0; i < peer->way_count; i++) {
    if (peer->ways[i].kind != BENCH_GET) continue;
    if (peer->read_begin) peer->read_begin(store->handle);
    uint64_t sum = peer->ways[i].run(store->handle, asked.keys, 1000);
    if (peer->read_end) peer->read_end(store->handle);
    bench_need(sum == bench_asked_sum(&asked, &shape, 0), "%s has lost rows", peer->name);
  }
  bench_asked_release(&asked);
}

static void grow(const void *what, double *figures) {
  const struct growth *growth = what;
  struct bench_setup setup = {.shape = shape, .cache_bytes = CACHE_BYTES};
  struct bench_store store;
  double rows = (double)growth->rows;
  bench_open(&store, growth->peer, &setup);
  bench_rss_reset();
  uint64_t written = bench_bytes_written(), memory = bench_rss_max();
  figures[NS_A_ROW] = bench_load(&store, 0, growth->rows, growth->each) * 1e9 / rows;
  figures[BYTES_WRITTEN] = (double)(bench_bytes_written() - written) / rows /
                           (double)(shape.key_bytes + shape.value_bytes);
  figures[RSS_BYTES] = (double)(bench_rss_max() - memory) / (1 << 20);
  figures[DISK_BYTES] = (double)bench_disk_bytes(store.dir) / rows;
  verify(&store, growth->rows);
  bench_close(&store);
}

static struct bench_case tables[FIGURES];

static void init_tables(uint64_t rows) {
  size_t n = (size_t)rows;
  bench_case_init(&tables[NS_A_ROW], "B7", "ns", "growth: a row, loading %zu rows", n);
  bench_case_init(&tables[BYTES_WRITTEN], "B7", "times", "growth: bytes written a byte, %zu rows",
                  n);
  bench_case_init(&tables[DISK_BYTES], "B7", "bytes", "growth: on disk a row, as loaded, %zu rows",
                  n);
  bench_case_init(&tables[RSS_BYTES], "B7", "MiB", "growth: memory at most, %zu rows", n);
  tables[NS_A_ROW].waits = true;
}

#define ONE "colfam SQL, one transaction"

/* colfam's time a row at the first size, which all others are held against: in small transactions, in one. */
static double first_ns[2];

static void set_goals(void) {
  static const char *const names[] = {"colfam SQL", ONE};
  for (int i = 0; i < 2; i++) {
    const struct bench_lane *lane = bench_find(&tables[NS_A_ROW], names[i]);
    if (!lane) continue;
    if (first_ns[i] == 0) first_ns[i] = bench_median(lane);
    bench_goal_max(&tables[NS_A_ROW], names[i], 2 * first_ns[i]);
    bench_goal_max(&tables[BYTES_WRITTEN], names[i], 12);
    /* Cache; log in memory, twice its budget; a pending batch; and what it is to be above these. */
    bench_goal_max(&tables[RSS_BYTES], names[i], (double)(CACHE_BYTES >> 20) + 8 + i * 64 + 64);
  }
}

static void measure(const struct bench_peer *peer, uint64_t rows, uint64_t each, const char *name) {
  double figures[FIGURES];
  bench_in_child(grow, &(struct growth){peer, rows, each}, figures, FIGURES);
  for (size_t i = 0; i < FIGURES; i++) bench_sample(&tables[i], name, figures[i]);
}

static void compare(uint64_t rows, const struct bench_peer *const *peers, size_t count) {
  init_tables(rows);
  for (size_t i = 0; i < count; i++) {
    measure(peers[i], rows, EACH, peers[i]->name);
    if (peers[i]->colfam) measure(peers[i], rows, rows, ONE);
  }
  set_goals();
  for (size_t i = 0; i < FIGURES; i++) bench_print(&tables[i]);
}

/* SQLite's own tables come last: they are left out where they would take hours. */
int main(void) {
  static const struct bench_peer *const peers[] = {&bench_colfam_sql, &bench_rocksdb,
                                                   &bench_leveldb, &bench_lmdb, &bench_sqlite};
  const uint64_t million = 1000000;
  bool alone = getenv("COLFAM_BENCH_ALONE") != NULL;
  uint64_t first = bench_by_scale(5000, 200000, million);
  compare(first, peers, alone ? 1 : 5);
  if (bench_scale() == BENCH_FULL) compare(10 * million, peers, alone ? 1 : 4);
  if (bench_millions() > 10) compare(bench_millions() * million, peers, 1);
  return 0;
}
