/* B7, growth: loading a table in random order, in transactions of 1,000, at 1 and 10 million rows and as
** many as SCALE says for colfam alone, which also does it in one transaction. One run each, no rounds: a
** load is long, and its parts are printed as it goes. Each store in a process of its own, which keeps
** nothing of a row: time a row; processor time a row of all threads, with what the store still owes; bytes
** written for one byte of row, likewise; bytes on disk; memory. What is owed after the last commit (merges
** under way or due) is paid before it is counted, by small commits and waiting, until nothing more is
** written; the time of that is not in the time a row. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench_peer.h"
#include "bench_peer_sql.h"

#define EACH 1000
#define CACHE_BYTES ((size_t)64 << 20)
#define MEMTABLE_BYTES ((size_t)4 << 20) /* colfam's default */
#define MILLION 1000000

enum figure {
  NS_A_ROW,
  CPU_A_ROW,
  WRITTEN, /* all, by calls of write: WAL and checkpoints too */
  COUNTED, /* colfam's statistics: files and log */
  DISK_BYTES,
  DATABASE_BYTES,
  RSS_BYTES,
  FIGURES
};

struct growth {
  const struct bench_peer *peer;
  uint64_t rows;
  bool at_once; /* in one transaction; else EACH in each */
};
static const struct bench_shape shape = {16, 100};
#define ROW_BYTES ((double)(shape.key_bytes + shape.value_bytes))

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

/* ---- Loading */

static void print_progress(const struct growth *growth, uint64_t done, double part_ns) {
  if (bench_scale() == BENCH_CHECK) return;
  printf("  %s, %zu of %zu rows: %.0f ns a row of these, %.1f GB written, %.0f MiB at most\n",
         growth->peer->name, (size_t)done, (size_t)growth->rows, part_ns,
         (double)bench_bytes_written() / 1e9, (double)bench_rss_max() / (1 << 20));
  fflush(stdout);
}

/* A line each tenth, or each million rows where that is more often. */
static double put_parts(struct bench_store *store, const struct growth *growth) {
  double took = 0;
  uint64_t part = growth->rows / 10 < MILLION ? growth->rows / 10 : MILLION;
  for (uint64_t done = 0; done < growth->rows; done += part) {
    if (part > growth->rows - done) part = growth->rows - done;
    double seconds =
        growth->at_once ? bench_put_rows(store, done, part) : bench_load(store, done, part, EACH);
    took += seconds;
    print_progress(growth, done + part, seconds * 1e9 / (double)part);
  }
  return took;
}

static double load(struct bench_store *store, const struct growth *growth) {
  if (!growth->at_once) return put_parts(store, growth);
  double begun = bench_clock(true);
  store->peer->begin(store->handle);
  double took = bench_clock(true) - begun + put_parts(store, growth);
  begun = bench_clock(true);
  store->peer->commit(store->handle);
  return took + bench_clock(true) - begun;
}

/* Until nothing has been written for a while. */
static void await_quiet(void) {
  double rest = bench_scale() == BENCH_CHECK ? 0.005 : 0.1;
  uint64_t before = bench_bytes_written();
  for (int quiet = 0; quiet < 10; quiet++) {
    bench_rest(rest);
    uint64_t now = bench_bytes_written();
    if (now != before) quiet = 0;
    before = now;
  }
}

/* A commit of one row more hands out, or does, what is due. */
static void pay_debt(struct bench_store *store, uint64_t rows) {
  uint64_t before;
  do {
    before = bench_bytes_written();
    bench_load(store, rows++, 1, 1);
    await_quiet();
  } while (bench_bytes_written() - before > MEMTABLE_BYTES / 4);
}

static double counted_bytes(const struct bench_store *store) {
  if (store->peer != &bench_colfam_sql) return 0;
  sqlite3_stmt *ask =
      bench_sql_prepare(bench_sql_db(store->handle),
                        "SELECT sum(value) FROM colfam_stats WHERE table_name = 't' AND name IN"
                        " ('log_bytes', 'flush_bytes', 'compact_bytes_written')");
  sqlite3_int64 bytes = bench_sql_step(ask);
  sqlite3_finalize(ask);
  return (double)bytes;
}

static void grow(const void *what, double *figures) {
  const struct growth *growth = what;
  struct bench_setup setup = {.shape = shape, .cache_bytes = CACHE_BYTES};
  struct bench_store store;
  double rows = (double)growth->rows;
  bench_open(&store, growth->peer, &setup);
  bench_print_settings(&store, 1);
  bench_rss_reset();
  uint64_t written = bench_bytes_written(), memory = bench_rss_max();
  double worked = bench_cpu_all();
  figures[NS_A_ROW] = load(&store, growth) * 1e9 / rows;
  pay_debt(&store, growth->rows);
  figures[CPU_A_ROW] = (bench_cpu_all() - worked) * 1e9 / rows;
  figures[WRITTEN] = (double)(bench_bytes_written() - written) / rows / ROW_BYTES;
  figures[COUNTED] = counted_bytes(&store) / rows / ROW_BYTES;
  figures[RSS_BYTES] = (double)(bench_rss_max() - memory) / (1 << 20);
  figures[DISK_BYTES] = (double)bench_disk_bytes(store.dir) / rows;
  figures[DATABASE_BYTES] = (double)bench_file_bytes(store.dir, "app.db") / (1 << 20);
  verify(&store, growth->rows);
  bench_close(&store);
}

/* ---- Tables */

static struct bench_case tables[FIGURES];

static void init_tables(uint64_t rows, const char *how) {
  size_t n = (size_t)rows;
  static const struct {
    const char *unit, *title;
  } kinds[FIGURES] = {
      [NS_A_ROW] = {"ns", "a row, loading"},
      [CPU_A_ROW] = {"ns", "processor time a row, all threads, merges to the end, loading"},
      [WRITTEN] = {"times", "bytes written a byte, WAL and checkpoints too, loading"},
      [COUNTED] = {"times", "bytes of files and log a byte, by colfam_stats, loading"},
      [DISK_BYTES] = {"bytes", "on disk a row, merges to the end, loading"},
      [DATABASE_BYTES] = {"MiB", "database file, without the table's files, loading"},
      [RSS_BYTES] = {"MiB", "memory at most, loading"},
  };
  for (size_t i = 0; i < FIGURES; i++)
    bench_case_init(&tables[i], "B7", kinds[i].unit, "growth: %s %zu rows in %s", kinds[i].title, n,
                    how);
  tables[NS_A_ROW].waits = true;
}

/* colfam's times a row at the first size, which all others are held against. */
struct first {
  double ns, cpu;
};

static void set_goals(struct first *first, bool at_once) {
  const char *name = bench_colfam_sql.name;
  if (first->ns == 0) {
    first->ns = bench_median(bench_find(&tables[NS_A_ROW], name));
    first->cpu = bench_median(bench_find(&tables[CPU_A_ROW], name));
  }
  bench_goal_max(&tables[NS_A_ROW], name, 2 * first->ns);
  bench_goal_max(&tables[CPU_A_ROW], name, 2 * first->cpu);
  bench_goal_max(&tables[WRITTEN], name, 12);
  bench_goal_max(&tables[COUNTED], name, 12);
  bench_goal_max(&tables[DATABASE_BYTES], name, 2 * MEMTABLE_BYTES >> 20);
  /* Cache; log in memory, twice its budget; a pending batch; and what it is to be above these. */
  size_t budgets = CACHE_BYTES + 2 * MEMTABLE_BYTES + (at_once ? (size_t)64 << 20 : 0);
  bench_goal_max(&tables[RSS_BYTES], name, (double)(budgets >> 20) + 64);
}

static void measure(const struct bench_peer *peer, uint64_t rows, bool at_once) {
  double figures[FIGURES];
  bench_in_child(grow, &(struct growth){peer, rows, at_once}, figures, FIGURES);
  for (size_t i = 0; i < FIGURES; i++) {
    bool only_here = i == COUNTED || i == DATABASE_BYTES;
    if (!only_here || peer->colfam) bench_count(&tables[i], peer->name, figures[i]);
  }
}

static void compare(uint64_t rows, bool at_once, const struct bench_peer *const *peers,
                    size_t count) {
  static struct first firsts[2];
  init_tables(rows, at_once ? "one transaction" : "transactions of 1000");
  for (size_t i = 0; i < count; i++) measure(peers[i], rows, at_once);
  set_goals(&firsts[at_once], at_once);
  for (size_t i = 0; i < FIGURES; i++) bench_print(&tables[i]);
}

/* SQLite's own tables come last: they are left out where they would take hours. */
int main(void) {
  static const struct bench_peer *const peers[] = {&bench_colfam_sql, &bench_rocksdb,
                                                   &bench_leveldb, &bench_lmdb, &bench_sqlite};
  bool alone = getenv("COLFAM_BENCH_ALONE") != NULL;
  uint64_t sizes[3] = {bench_by_scale(5000, 200000, MILLION)};
  size_t count = 1;
  if (bench_scale() == BENCH_FULL) sizes[count++] = 10 * MILLION;
  if (bench_millions() * MILLION > sizes[count - 1]) sizes[count++] = bench_millions() * MILLION;
  for (size_t i = 0; i < count; i++)
    compare(sizes[i], false, peers, alone || i == 2 ? 1 : i == 1 ? 4 : 5);
  for (size_t i = 0; i < count; i++) compare(sizes[i], true, peers, 1);
  return 0;
}
