/* Whether a process that only reads keeps up with one that writes 10,000 rows a second: a child commits
** rows numbered 1, 2, ... at that pace, in transactions of 1, 10, 100 and 1,000 rows; the parent asks for
** the newest row again and again. Printed: rows a second, how far what was read lay behind what was
** committed when the statement began (nothing, when it keeps up), what a statement took, and what of it
** the reader's processor worked. The table flushes and merges all along. It fails when a statement misses
** a row that was committed before it began. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "harness_sql.h"

enum { ROWS_A_SECOND = 10000, SAMPLES_MAX = 1000000 };

struct shared {
  atomic_long committed; /* the newest row */
  atomic_int done;
};

/* $COLFAM_BENCH as for the other benches. */
static long rows_wanted(void) {
  const char *scale = getenv("COLFAM_BENCH");
  return scale && strcmp(scale, "check") == 0 ? ROWS_A_SECOND / 2 : 4 * ROWS_A_SECOND;
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void rest_until(double when) {
  double left = when - now();
  if (left <= 0) return;
  struct timespec time = {(time_t)left, (long)((left - (double)(time_t)left) * 1e9)};
  nanosleep(&time, NULL);
}

static void write_rows(struct shared *shared, const char *path, int rows) {
  sqlite3 *db = sql_open(path);
  sqlite3_stmt *insert;
  sql_ok(db, "PRAGMA synchronous = normal; PRAGMA busy_timeout = 60000");
  ck_assert_int_eq(
      sqlite3_prepare_v2(db, "INSERT INTO t VALUES(?1, printf('%0100d', ?1))", -1, &insert, NULL),
      SQLITE_OK);
  double begun = now();
  for (long row = 0; row < rows_wanted();) {
    sql_ok(db, "BEGIN IMMEDIATE");
    for (int i = 0; i < rows; i++) {
      sqlite3_bind_int64(insert, 1, ++row);
      ck_assert_int_eq(sqlite3_step(insert), SQLITE_DONE);
      sqlite3_reset(insert);
    }
    sql_ok(db, "COMMIT");
    atomic_store(&shared->committed, row);
    rest_until(begun + (double)row / ROWS_A_SECOND);
  }
  sqlite3_finalize(insert);
  sql_close(db);
  atomic_store(&shared->done, 1);
  _exit(0);
}

static int compare(const void *a, const void *b) {
  double left = *(const double *)a, right = *(const double *)b;
  return (left > right) - (left < right);
}

static double cpu_seconds(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

struct result {
  int reads;
  long behind; /* rows, at most */
  double seconds, cpu;
};

/* Every millisecond, so that the writer has a processor too. */
static struct result read_on(struct shared *shared, const char *path, double *samples) {
  struct result result = {0, 0, now(), cpu_seconds()};
  sqlite3 *db = sql_open(path);
  sqlite3_stmt *newest;
  sql_ok(db, "PRAGMA busy_timeout = 60000");
  ck_assert_int_eq(sqlite3_prepare_v2(db, "SELECT max(k) FROM t", -1, &newest, NULL), SQLITE_OK);
  while (!atomic_load(&shared->done) && result.reads < SAMPLES_MAX) {
    long committed = atomic_load(&shared->committed);
    double begun = now();
    ck_assert_int_eq(sqlite3_step(newest), SQLITE_ROW);
    long behind = committed - (long)sqlite3_column_int64(newest, 0);
    sqlite3_reset(newest);
    samples[result.reads++] = now() - begun;
    if (behind > result.behind) result.behind = behind;
    rest_until(begun + 0.001);
  }
  sqlite3_finalize(newest);
  result.seconds = now() - result.seconds;
  result.cpu = cpu_seconds() - result.cpu;
  sql_close(db);
  return result;
}

static const int sizes[] = {1, 10, 100, 1000};

START_TEST(reader_beside_a_writer) {
  struct shared *shared =
      mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  double *samples = malloc(SAMPLES_MAX * sizeof *samples);
  ck_assert(shared != MAP_FAILED && samples);
  sql_use_threads(1);
  const char *path = sql_path("app.db");
  sqlite3 *db = sql_open(path);
  sql_ok(db, "PRAGMA journal_mode = wal; CREATE VIRTUAL TABLE t USING colfam(k INT PRIMARY KEY, v,"
             " memtable_bytes = 1048576)");
  sql_close(db);
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) write_rows(shared, path, sizes[_i]);
  struct result result = read_on(shared, path, samples);
  int status;
  ck_assert_int_eq(waitpid(child, &status, 0), child);
  ck_assert_int_eq(status, 0);
  qsort(samples, (size_t)result.reads, sizeof *samples, compare);
  printf("%4d rows a commit: %.0f rows/s; reader %d statements, %ld rows behind, middle %.0f us, "
         "99 of "
         "100 below %.0f us, longest %.1f ms, %.0f %% of a processor\n",
         sizes[_i], (double)atomic_load(&shared->committed) / result.seconds, result.reads,
         result.behind, samples[result.reads / 2] * 1e6, samples[result.reads * 99 / 100] * 1e6,
         samples[result.reads - 1] * 1e3, 100 * result.cpu / result.seconds);
  ck_assert_int_eq(result.behind, 0);
  free(samples);
  munmap(shared, sizeof *shared);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("keeping up");
  TCase *tests = tcase_create("keeping up");
  tcase_set_timeout(tests, 100);
  tcase_add_loop_test(tests, reader_beside_a_writer, 0, (int)(sizeof sizes / sizeof *sizes));
  suite_add_tcase(suite, tests);
  return harness_run(suite);
}
