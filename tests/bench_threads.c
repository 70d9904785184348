/* B1 with several threads: each asks for random keys of its own, in batches of 100, of one table that all of
** them share. What a batch costs its thread, which is more than alone where threads get in each other's way;
** and what all of them do together, by the clock, which is at best what the processors give. Cached data. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench_peer.h"

enum { STORES = 3, THREADS_MAX = 8, BATCH = 100, BATCHES = 100 };

static const struct bench_peer *const peers[STORES] = {&bench_rocksdb, &bench_lmdb,
                                                       &bench_colfam_engine};
static const char *const names[STORES] = {"RocksDB batched", "LMDB", "colfam C"};
static const char *const alone[STORES] = {"RocksDB batched, one thread", "LMDB, one thread",
                                          "colfam C, one thread"};
static const struct bench_shape shape = {16, 100};
static struct bench_store stores[STORES];

/* One thread's part of a round. */
struct worker {
  pthread_t thread;
  pthread_barrier_t *start;
  struct bench_lane lane; /* its store is `own` */
  struct bench_store own; /* a handle for this thread */
  size_t set;
  uint64_t sum;
  double seconds; /* on a processor */
};

static void *work(void *arg) {
  struct worker *worker = arg;
  pthread_barrier_wait(worker->start);
  double begun = bench_cpu();
  worker->sum = bench_run_way(&worker->lane, worker->set);
  worker->seconds = bench_cpu() - begun;
  return NULL;
}

static const struct bench_way *way_of(size_t store) {
  const struct bench_peer *peer = peers[store];
  for (size_t i = 0; i < peer->way_count; i++) {
    const struct bench_way *way = &peer->ways[i];
    if (way->kind == BENCH_MULTI_GET && strcmp(way->name, names[store]) == 0) return way;
  }
  bench_need(false, "no way is called %s", names[store]);
  return NULL;
}

/* What a round took: of each thread on the average, and of all by the clock. */
struct took {
  double cpu, wall;
};

static struct took run_round(size_t store, size_t threads, size_t round,
                             const struct bench_asked *asked, const uint64_t *expected) {
  static struct worker workers[THREADS_MAX];
  pthread_barrier_t start;
  struct took took = {0, 0};
  pthread_barrier_init(&start, NULL, (unsigned)threads + 1);
  for (size_t i = 0; i < threads; i++) {
    struct worker *worker = &workers[i];
    *worker = (struct worker){.start = &start, .own = stores[store]};
    if (peers[store]->share) worker->own.handle = peers[store]->share(stores[store].handle);
    worker->lane =
        (struct bench_lane){.store = &worker->own, .with = asked, .operation = way_of(store)->run};
    worker->set = (round * threads + i) % asked->rounds;
    pthread_create(&worker->thread, NULL, work, worker);
  }
  double begun = bench_now();
  pthread_barrier_wait(&start);
  for (size_t i = 0; i < threads; i++) {
    struct worker *worker = &workers[i];
    pthread_join(worker->thread, NULL);
    bench_need(worker->sum == expected[worker->set], "%s has read something else", names[store]);
    took.cpu += worker->seconds / (double)threads;
    if (peers[store]->share) free(worker->own.handle);
  }
  took.wall = bench_now() - begun;
  pthread_barrier_destroy(&start);
  return took;
}

static void compare(size_t threads, const struct bench_asked *asked, const uint64_t *expected,
                    double medians[STORES]) {
  size_t rounds = bench_by_scale(2, 9, 15);
  struct bench_case cost, together;
  bench_case_init(&cost, "B1", "us", "100 present keys of 16 B, %zu threads: of each thread",
                  threads);
  bench_case_init(&together, "B1", "us", "100 present keys of 16 B, %zu threads: all together",
                  threads);
  together.waits = true;
  for (size_t i = 0; i < STORES; i++) run_round(i, threads, rounds, asked, expected);
  for (size_t round = 0; round < rounds; round++) {
    for (size_t i = 0; i < STORES; i++) {
      size_t store = (i + round) % STORES;
      struct took took = run_round(store, threads, round, asked, expected);
      bench_sample(&cost, names[store], took.cpu * 1e6 / BATCHES);
      bench_sample(&together, names[store], took.wall * 1e6 / (double)(BATCHES * threads));
    }
  }
  for (size_t i = 0; i < STORES; i++) {
    if (threads == 1) medians[i] = bench_median(bench_find(&cost, names[i]));
    if (threads > 1) bench_count(&cost, alone[i], medians[i]);
  }
  bench_goal(&cost, "colfam C", 1 / 4.0, "RocksDB batched");
  bench_goal(&cost, "colfam C", 1 / 3.0, "LMDB");
  bench_goal(&cost, "colfam C", 1.25, "colfam C, one thread");
  bench_goal(&together, "colfam C", 1 / 4.0, "RocksDB batched");
  bench_goal(&together, "colfam C", 1 / 3.0, "LMDB");
  bench_print(&cost);
  bench_print(&together);
}

int main(void) {
  static const size_t threads[] = {1, 2, 8};
  struct bench_setup setup = {.shape = shape, .cache_bytes = (size_t)2 << 30};
  uint64_t rows = bench_by_scale(20000, 300000, 1000000);
  size_t sets = 4 * THREADS_MAX;
  uint64_t expected[4 * THREADS_MAX];
  double medians[STORES];
  struct bench_asked asked;
  for (size_t i = 0; i < STORES; i++) {
    bench_open(&stores[i], peers[i], &setup);
    bench_load(&stores[i], 0, rows, 100000);
    bench_settle(&stores[i]);
  }
  bench_warm(stores, STORES, rows);
  bench_print_settings(stores, STORES);
  bench_asked_init(&asked, &shape, 0, rows, sets, BATCHES, BATCH);
  for (size_t i = 0; i < sets; i++) expected[i] = bench_asked_sum(&asked, &shape, i);
  for (size_t i = 0; i < sizeof threads / sizeof *threads; i++)
    compare(threads[i], &asked, expected, medians);
  bench_asked_release(&asked);
  for (size_t i = 0; i < STORES; i++) bench_close(&stores[i]);
  return 0;
}
