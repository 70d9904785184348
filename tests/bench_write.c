/* B7, transactions: 1, 100 and 1,000 random rows committed to a table that has many, synced and not; bytes
** written a commit; the longest commits; how far the database file has grown. By the clock on the wall, the
** background thread at work beside. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench_peer.h"
#include "bench_peer_sql.h"

#define WRITERS 8
#define COMMITS_MAX 20000 /* of a writer and case */

struct writer {
  const char *name;
  const struct bench_peer *peer; /* NULL: the log alone, a row of an ordinary table */
  size_t cache_bytes;
  struct bench_store store;
  sqlite3 *log;
  sqlite3_stmt *append;
  uint64_t next;               /* row to be written */
  double commits[COMMITS_MAX]; /* seconds that COMMIT took */
  size_t commit_count;
  uint64_t written;    /* bytes, over these, by the thread that commits */
  uint64_t background; /* bytes of all flushes and compactions when the case began */
};
static struct writer writers[WRITERS] = {
    {.name = "SQLite, default cache", .peer = &bench_sqlite},
    {.name = "SQLite, 256 MB cache", .peer = &bench_sqlite, .cache_bytes = (size_t)256 << 20},
    {.name = "RocksDB", .peer = &bench_rocksdb, .cache_bytes = (size_t)256 << 20},
    {.name = "LevelDB", .peer = &bench_leveldb, .cache_bytes = (size_t)256 << 20},
    {.name = "LMDB", .peer = &bench_lmdb, .cache_bytes = (size_t)256 << 20},
    {.name = "LMDB, WRITEMAP", .peer = &bench_lmdb_mapped, .cache_bytes = (size_t)256 << 20},
    {.name = "colfam SQL", .peer = &bench_colfam_sql},
    {.name = "limit: log append alone"},
};
static const struct bench_shape shape = {16, 100};

struct job {
  size_t transactions; /* a round */
  size_t rows;         /* of a transaction */
  uint8_t *rows_bytes; /* keys and values of a transaction */
};

#define ROW_BYTES (shape.key_bytes + shape.value_bytes)

static void fill_rows(struct writer *writer, const struct job *job) {
  uint8_t *at = job->rows_bytes;
  for (size_t i = 0; i < job->rows; i++, at += ROW_BYTES) {
    bench_fill_key(&shape, writer->next + i, at);
    bench_fill_value(&shape, writer->next + i, at + shape.key_bytes);
  }
  writer->next += job->rows;
}

static double put_rows(struct writer *writer, const struct job *job) {
  const struct bench_peer *peer = writer->peer;
  void *handle = writer->store.handle;
  peer->begin(handle);
  for (size_t i = 0; i < job->rows; i++) {
    const uint8_t *row = job->rows_bytes + i * ROW_BYTES;
    peer->put(handle, kv_slice_of(row, shape.key_bytes),
              kv_slice_of(row + shape.key_bytes, shape.value_bytes));
  }
  double begun = bench_clock(true);
  peer->commit(handle);
  return bench_clock(true) - begun;
}

static double append_rows(struct writer *writer, const struct job *job) {
  sqlite3_bind_blob(writer->append, 1, job->rows_bytes, (int)(job->rows * ROW_BYTES),
                    SQLITE_STATIC);
  double begun = bench_clock(true);
  bench_sql_step(writer->append);
  return bench_clock(true) - begun;
}

/* Making the rows is in the time of all: about 0.2 us each. */
static uint64_t run_round(struct bench_lane *lane, size_t round) {
  struct writer *writer = lane->store;
  const struct job *job = lane->with;
  (void)round;
  uint64_t written = bench_thread_bytes_written();
  for (size_t i = 0; i < job->transactions; i++) {
    fill_rows(writer, job);
    double took = writer->peer ? put_rows(writer, job) : append_rows(writer, job);
    if (writer->commit_count < COMMITS_MAX) writer->commits[writer->commit_count++] = took;
  }
  writer->written += bench_thread_bytes_written() - written;
  return 0;
}

static int compare_seconds(const void *a, const void *b) {
  double left = *(const double *)a, right = *(const double *)b;
  return (left > right) - (left < right);
}

static double quantile(struct writer *writer, double part) {
  qsort(writer->commits, writer->commit_count, sizeof *writer->commits, compare_seconds);
  return writer->commits[(size_t)((double)(writer->commit_count - 1) * part)];
}

static uint64_t background_bytes(const struct writer *writer) {
  if (!writer->peer || !writer->peer->colfam) return 0;
  sqlite3_stmt *ask =
      bench_sql_prepare(bench_sql_db(writer->store.handle),
                        "SELECT sum(value) FROM colfam_stats WHERE table_name = 't' AND name IN"
                        " ('flush_bytes', 'compact_bytes_written')");
  uint64_t bytes = (uint64_t)bench_sql_step(ask);
  sqlite3_finalize(ask);
  return bytes;
}

#define QUANTILE_SAMPLES 1000

/* The 99.9th percentile, of so many that it is not simply the longest; else that. What LMDB writes through
** its map is not counted. */
static void print_longest(const struct job *job, const char *setting) {
  static struct bench_case longest;
  size_t samples = writers[0].commit_count;
  bench_case_init(&longest, "B7", "ms", "%s of COMMIT of %zu rows, %s, %zu commits",
                  samples >= QUANTILE_SAMPLES ? "p99.9" : "the longest", job->rows, setting,
                  samples);
  longest.waits = true;
  for (size_t i = 0; i < WRITERS; i++) {
    double part = samples >= QUANTILE_SAMPLES ? 0.999 : 1;
    bench_count(&longest, writers[i].name, quantile(&writers[i], part) * 1e3);
  }
  bench_goal(&longest, "colfam SQL", 1, "SQLite, default cache");
  bench_print(&longest);
}

/* What the writers have counted meanwhile. */
static void print_counts(const struct job *job, const char *setting) {
  static struct bench_case bytes;
  bench_case_init(&bytes, "B7", "bytes", "written a commit of %zu rows by its thread, %s",
                  job->rows, setting);
  for (size_t i = 0; i < WRITERS; i++) {
    struct writer *writer = &writers[i];
    uint64_t background = background_bytes(writer) - writer->background;
    double commits = (double)writer->commit_count;
    if (writer->peer != &bench_lmdb_mapped)
      bench_count(&bytes, writer->name, (double)writer->written / commits);
    if (background) {
      bench_count(&bytes, "colfam flushes, compactions", (double)background / commits);
    }
  }
  if (job->rows == 100) bench_goal_max(&bytes, "colfam SQL", 30000);
  bench_print(&bytes);
}

static void set_goals(struct bench_case *table, size_t rows, bool durable) {
  if (rows == 1) {
    bench_goal(table, "colfam SQL", durable ? 1 : 1 / 1.5, "SQLite, default cache");
  } else if (durable) {
    bench_goal(table, "colfam SQL", rows == 100 ? 1 / 10.0 : 1 / 20.0, "SQLite, default cache");
  } else {
    bench_goal(table, "colfam SQL", 1 / 25.0, "SQLite, default cache");
    bench_goal(table, "colfam SQL", 1 / 20.0, "SQLite, 256 MB cache");
  }
}

static void compare(size_t rows, size_t transactions, size_t table_rows, bool durable) {
  struct job job = {transactions, rows, malloc(rows * ROW_BYTES)};
  const char *setting = durable ? "synchronous FULL" : "synchronous NORMAL";
  static struct bench_case table;
  bench_case_init(&table, "B7", "us", "a transaction of %zu random rows, %s, table of %zu", rows,
                  setting, table_rows);
  table.waits = true;
  for (size_t i = 0; i < WRITERS; i++) {
    writers[i].commit_count = 0;
    writers[i].written = 0;
    writers[i].background = background_bytes(&writers[i]);
    bench_add(&table, writers[i].name, run_round, &writers[i], &job);
  }
  set_goals(&table, rows, durable);
  bench_time(&table, bench_by_scale(2, 5, 9), (double)transactions, NULL);
  bench_print(&table);
  print_counts(&job, setting);
  print_longest(&job, setting);
  free(job.rows_bytes);
}

/* ---- Stores */

static void open_log(struct writer *writer, bool durable) {
  if (!writer->store.dir) writer->store.dir = bench_make_dir("log");
  writer->log = bench_sql_open(writer->store.dir, 0, durable);
  bench_sql(writer->log, "CREATE TABLE IF NOT EXISTS l(seq INTEGER PRIMARY KEY, batch BLOB)");
  writer->append = bench_sql_prepare(writer->log, "INSERT INTO l(batch) VALUES(?1)");
}

static void close_log(struct writer *writer) {
  sqlite3_finalize(writer->append);
  sqlite3_close(writer->log);
}

static void open_all(uint64_t rows) {
  for (size_t i = 0; i < WRITERS; i++) {
    struct writer *writer = &writers[i];
    struct bench_setup setup = {.shape = shape, .cache_bytes = (size_t)256 << 20};
    writer->next = rows;
    if (!writer->peer) {
      open_log(writer, false);
      continue;
    }
    bench_open(&writer->store, writer->peer, &setup);
    bench_load(&writer->store, 0, rows, 100000);
    bench_settle(&writer->store);
    writer->store.setup.cache_bytes = writer->cache_bytes;
    bench_reopen(&writer->store);
  }
}

static void make_durable(void) {
  for (size_t i = 0; i < WRITERS; i++) {
    writers[i].store.setup.durable = true;
    if (writers[i].peer) {
      bench_reopen(&writers[i].store);
      continue;
    }
    close_log(&writers[i]);
    open_log(&writers[i], true);
  }
}

/* Each store must have what was written: the row after the first that a case wrote, and the last. */
static void verify(uint64_t rows) {
  for (size_t i = 0; i < WRITERS; i++) {
    const struct bench_peer *peer = writers[i].peer;
    for (size_t way = 0; peer && way < peer->way_count; way++) {
      struct bench_asked asked;
      if (peer->ways[way].kind != BENCH_GET) continue;
      bench_asked_init(&asked, &shape, rows, writers[i].next - rows, 1, 1, 1000);
      if (peer->read_begin) peer->read_begin(writers[i].store.handle);
      uint64_t sum = peer->ways[way].run(writers[i].store.handle, asked.keys, 1000);
      if (peer->read_end) peer->read_end(writers[i].store.handle);
      bench_need(sum == bench_asked_sum(&asked, &shape, 0), "%s has lost rows", writers[i].name);
      bench_asked_release(&asked);
    }
  }
}

static void print_settings(void) {
  struct bench_store stores[WRITERS];
  size_t count = 0;
  for (size_t i = 0; i < WRITERS; i++)
    if (writers[i].peer) stores[count++] = writers[i].store;
  bench_print_settings(stores, count);
}

/* The log's rows are deleted there, and their pages used again. */
static void print_growth(uint64_t rows) {
  static struct bench_case table;
  bench_case_init(&table, "B7", "MiB", "database file after all of these, table of %zu",
                  (size_t)rows);
  for (size_t i = 0; i < WRITERS; i++) {
    uint64_t bytes = bench_file_bytes(writers[i].store.dir, "app.db");
    if (bytes && writers[i].peer != &bench_sqlite)
      bench_count(&table, writers[i].name, (double)bytes / (1 << 20));
  }
  bench_goal_max(&table, "colfam SQL", 2 * 4); /* twice the budget of the log */
  bench_print(&table);
}

int main(void) {
  uint64_t rows = bench_by_scale(5000, 200000, 1000000);
  open_all(rows);
  print_settings();
  /* In this order: a commit also removes dead rows of the log, and those of large commits are large. */
  compare(100, bench_by_scale(5, 170, 500), rows, false);
  compare(1000, bench_by_scale(2, 10, 120), rows, false);
  compare(1, bench_by_scale(20, 500, 2000), rows, false);
  make_durable();
  print_settings();
  compare(100, bench_by_scale(2, 20, 120), rows, true);
  compare(1000, bench_by_scale(1, 3, 100), rows, true);
  compare(1, bench_by_scale(5, 170, 500), rows, true);
  verify(rows);
  print_growth(rows);
  for (size_t i = 0; i < WRITERS; i++) {
    if (writers[i].peer)
      bench_close(&writers[i].store);
    else
      close_log(&writers[i]);
  }
  bench_remove_dir(writers[WRITERS - 1].store.dir);
  return 0;
}
