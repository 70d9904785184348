/* B8: what it costs a statement to see that its view is still good, and to catch up when another process has
** committed one row: a point read of a colfam table and of the same ordinary one inside a transaction
** (nothing to ask for but the data version), in one of its own, and each after a commit of the other
** process. The check alone is what the read inside a transaction takes above the same one in a transaction
** that has written to the table (nothing, as no row was hit), which keeps its view and asks nothing. */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench_peer.h"
#include "bench_peer_sql.h"

#define STORES 2
#define ROWS 1000
#define READS 500

static const struct bench_peer *const peers[STORES] = {&bench_sqlite, &bench_colfam_sql};
static const struct bench_shape shape = {16, 100};

/* ---- The other process: commits one row of a store for each byte that it gets, and answers with one */

struct other {
  pid_t pid;
  int ask, answer;
};

static void serve(int asked, int answer) {
  sqlite3 *dbs[STORES] = {NULL};
  sqlite3_stmt *writes[STORES];
  char dirs[STORES][512];
  bench_need(read(asked, dirs, sizeof dirs) == sizeof dirs, "no directories");
  for (int i = 0; i < STORES; i++) {
    dbs[i] = bench_sql_open(dirs[i], 0, 0);
    writes[i] = bench_sql_prepare(dbs[i], "INSERT OR REPLACE INTO t VALUES(?1, ?2)");
  }
  uint8_t which, key[16], value[100];
  for (uint64_t row = 0; read(asked, &which, 1) == 1; row++) {
    bench_fill_key(&shape, row % ROWS, key);
    bench_fill_value(&shape, row % ROWS, value);
    sqlite3_bind_blob(writes[which], 1, key, sizeof key, SQLITE_STATIC);
    sqlite3_bind_blob(writes[which], 2, value, sizeof value, SQLITE_STATIC);
    bench_sql_step(writes[which]);
    bench_need(write(answer, &which, 1) == 1, "nobody listens");
  }
  _exit(0);
}

/* Before this process opens anything. */
static void start_other(struct other *other) {
  int asks[2], answers[2];
  bench_need(pipe(asks) == 0 && pipe(answers) == 0, "no pipes");
  other->pid = fork();
  bench_need(other->pid >= 0, "no process");
  if (other->pid == 0) {
    close(asks[1]);
    serve(asks[0], answers[1]);
  }
  close(asks[0]);
  close(answers[1]);
  other->ask = asks[1];
  other->answer = answers[0];
}

static void tell_dirs(const struct other *other, const struct bench_store *stores) {
  char dirs[STORES][512] = {{0}};
  for (int i = 0; i < STORES; i++) strncpy(dirs[i], stores[i].dir, sizeof dirs[i] - 1);
  bench_need(write(other->ask, dirs, sizeof dirs) == sizeof dirs, "the other process has failed");
}

static void commit_there(const struct other *other, uint8_t which) {
  bench_need(write(other->ask, &which, 1) == 1 && read(other->answer, &which, 1) == 1,
             "the other process has failed");
}

static void stop_other(const struct other *other) {
  int status = 1;
  close(other->ask);
  bench_need(waitpid(other->pid, &status, 0) == other->pid && status == 0,
             "the other process has failed");
}

/* ---- Reads */

struct reader {
  sqlite3 *db;
  sqlite3_stmt *statement;
  uint8_t key[16];
};

static void read_row(struct reader *reader, uint64_t row) {
  bench_fill_key(&shape, row % ROWS, reader->key);
  sqlite3_bind_blob(reader->statement, 1, reader->key, sizeof reader->key, SQLITE_STATIC);
  bench_need(bench_sql_step(reader->statement) == (sqlite3_int64)shape.value_bytes, "no row");
}

static double time_reads(struct reader *reader, const char *begin, const char *end, size_t reads) {
  bench_sql(reader->db, begin);
  read_row(reader, 0);
  double begun = bench_cpu();
  for (uint64_t i = 0; i < reads; i++) read_row(reader, i * 7);
  double took = bench_cpu() - begun;
  bench_sql(reader->db, end);
  return took / (double)reads * 1e9;
}

static int compare(const void *a, const void *b) {
  double left = *(const double *)a, right = *(const double *)b;
  return (left > right) - (left < right);
}

/* The one in the middle: each stands alone, so what interrupts it would stand out. */
static double time_after_commits(struct reader *reader, const struct other *other, uint8_t which) {
  static double samples[READS];
  for (uint64_t i = 0; i < READS; i++) {
    commit_there(other, which);
    double begun = bench_cpu();
    read_row(reader, i * 7);
    samples[i] = bench_cpu() - begun;
  }
  qsort(samples, READS, sizeof *samples, compare);
  return samples[READS / 2] * 1e9;
}

/* What asking for the time takes, which is in every single sample. */
static double clock_ns(void) {
  double begun = bench_cpu();
  for (int i = 0; i < READS; i++) (void)bench_cpu();
  return (bench_cpu() - begun) / READS * 1e9;
}

enum { INSIDE, ALONE, AFTER, CASES };

/* ---- The check alone */

#define WRITES_NOTHING "BEGIN; DELETE FROM t WHERE k = x'00'"

static void compare_check(struct reader *reader, size_t rounds) {
  static struct bench_case table;
  struct bench_case *to = &table;
  size_t reads = bench_by_scale(READS, 20000, 50000);
  bench_case_init(to, "B8", "ns", "revalidating an unchanged view, a statement");
  for (size_t round = 0; round < rounds; round++) {
    double with = 0, without = 0;
    for (size_t i = 0; i < 2; i++) {
      if ((i + round) % 2)
        with = time_reads(reader, "BEGIN", "COMMIT", reads);
      else
        without = time_reads(reader, WRITES_NOTHING, "ROLLBACK", reads);
    }
    bench_sample(to, "statement that checks", with);
    bench_sample(to, "statement that does not", without);
    bench_sample(to, "colfam SQL, the check", with - without);
  }
  bench_goal_max(to, "colfam SQL, the check", 50);
  bench_print(to);
}

static void print(struct bench_case *cases) {
  static struct bench_case above;
  for (int i = 0; i < CASES; i++) bench_print(&cases[i]);
  bench_case_init(&above, "B8", "ns", "catching up with another process's commit of one row");
  for (int i = 0; i < STORES; i++) {
    const char *name = peers[i]->name;
    bench_count(&above, name,
                bench_median(bench_find(&cases[AFTER], name)) -
                    bench_median(bench_find(&cases[ALONE], name)));
  }
  bench_goal_max(&above, "colfam SQL", 5000);
  bench_print(&above);
}

int main(void) {
  struct other other;
  struct bench_store stores[STORES];
  struct reader readers[STORES];
  static struct bench_case cases[CASES];
  static const char *const titles[CASES] = {"a point SELECT inside a transaction, of 1000 rows",
                                            "a point SELECT alone, of 1000 rows",
                                            "a point SELECT after another process's commit"};
  start_other(&other);
  for (int i = 0; i < STORES; i++) {
    struct bench_setup setup = {.shape = shape};
    bench_open(&stores[i], peers[i], &setup);
    bench_load(&stores[i], 0, ROWS, ROWS);
    bench_settle(&stores[i]);
    readers[i].db = bench_sql_db(stores[i].handle);
    readers[i].statement = bench_sql_prepare(readers[i].db, "SELECT length(v) FROM t WHERE k = ?1");
  }
  tell_dirs(&other, stores);
  for (int i = 0; i < CASES; i++) bench_case_init(&cases[i], "B8", "ns", "%s", titles[i]);
  size_t rounds = bench_by_scale(1, 7, 15);
  for (size_t round = 0; round < rounds; round++) {
    for (uint8_t turn = 0; turn < STORES; turn++) {
      uint8_t i = (uint8_t)((turn + round) % STORES);
      const char *name = peers[i]->name;
      bench_sample(&cases[INSIDE], name, time_reads(&readers[i], "BEGIN", "COMMIT", READS));
      bench_sample(&cases[ALONE], name, time_reads(&readers[i], "", "", READS));
      bench_sample(&cases[AFTER], name, time_after_commits(&readers[i], &other, i) - clock_ns());
    }
  }
  bench_print_settings(stores, STORES);
  print(cases);
  compare_check(&readers[STORES - 1], rounds);
  stop_other(&other);
  for (int i = 0; i < STORES; i++) {
    sqlite3_finalize(readers[i].statement);
    bench_close(&stores[i]);
  }
  return 0;
}
