/* `make soak`: several processes, two threads in each, on one bank (harness_bank.h), killed at random, for
** SOAK_SECONDS (600). All the while sums are exact and snapshots stand still; the directory and the memory
** of the processes stay bounded; at the end one writer leaves nothing but the files that are named. Not a
** part of the tests: it takes as long as it is told. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "harness_bank.h"
#include "harness_files.h"
#include "harness_sql.h"

#define PROCESSES 4
#define SECONDS 600
#define FILES_MAX 200
#define RESIDENT_MAX (256 << 20)  /* of one process */
#define DATABASE_MAX (256u << 20) /* with its log */

struct shared {
  struct bank bank;
  atomic_long commits, reads;
};

struct soak {
  struct shared *shared;
  struct harness_random random;
  pid_t pids[PROCESSES];
  long kills;
  int files_most;
  long resident_most;
  long long database_most;
};

static void rest(long milliseconds) {
  struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000};
  nanosleep(&time, NULL);
}

/* ---- A process: the main thread writes, the other one reads. */

struct reader {
  struct bank_worker worker;
  struct shared *shared;
};

static void *read_on(void *argument) {
  struct reader *reader = argument;
  bank_open(&reader->worker);
  for (;;) {
    if (harness_below(&reader->worker.random, 4) == 0)
      bank_read_snapshot(&reader->worker);
    else
      bank_read(&reader->worker);
    atomic_fetch_add(&reader->shared->reads, 1);
    if (harness_below(&reader->worker.random, 50) == 0) bank_reopen(&reader->worker);
  }
  return NULL;
}

static void process_main(struct shared *shared, int place, uint64_t seed) {
  struct bank_worker worker = {.bank = &shared->bank, .writer = place};
  static struct reader reader;
  pthread_t thread;
  reader = (struct reader){{.bank = &shared->bank}, shared};
  harness_seed(&worker.random, seed);
  harness_seed(&reader.worker.random, seed + 1);
  bank_open(&worker);
  if (pthread_create(&thread, NULL, read_on, &reader)) _exit(4);
  for (;;) {
    bank_write(&worker);
    atomic_fetch_add(&shared->commits, 1);
    uint64_t what = harness_below(&worker.random, 200);
    if (what == 0) sql_ok(worker.db, "INSERT INTO family(family) VALUES('flush')");
    if (what == 1) sql_ok(worker.db, "INSERT INTO family(family) VALUES('compact')");
    if (what == 2) bank_reopen(&worker);
    /* With readers that never pause SQLite cannot start its log anew by itself. */
    if (what == 3) sql_ok(worker.db, "PRAGMA wal_checkpoint(truncate)");
  }
}

/* ---- The parent. It opens the database only when the processes are dead. */

static void start(struct soak *soak, int place) {
  uint64_t seed = harness_next(&soak->random);
  fflush(stdout);
  soak->pids[place] = fork();
  if (soak->pids[place] == 0) process_main(soak->shared, place, seed);
  ck_assert_int_gt(soak->pids[place], 0);
}

static void kill_one(struct soak *soak, int place) {
  int status;
  kill(soak->pids[place], SIGKILL);
  ck_assert_int_eq(waitpid(soak->pids[place], &status, 0), soak->pids[place]);
  ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "process %d: wait status %d",
                place, status);
  soak->kills++;
}

static long resident(pid_t pid) {
  char path[64];
  long pages = 0;
  snprintf(path, sizeof path, "/proc/%d/statm", (int)pid);
  FILE *file = fopen(path, "r");
  if (file && fscanf(file, "%*s %ld", &pages) != 1) pages = 0;
  if (file) fclose(file);
  return pages * sysconf(_SC_PAGESIZE);
}

static long long size_of(const char *path, const char *suffix) {
  char full[4200];
  struct stat info;
  snprintf(full, sizeof full, "%s%s", path, suffix);
  return stat(full, &info) ? 0 : (long long)info.st_size;
}

static void look(struct soak *soak) {
  const char *path = soak->shared->bank.path;
  int files = files_on_disk(path);
  long long database = size_of(path, "") + size_of(path, "-wal");
  if (files > soak->files_most) soak->files_most = files;
  if (database > soak->database_most) soak->database_most = database;
  for (int place = 0; place < PROCESSES; place++) {
    long now = resident(soak->pids[place]);
    if (now > soak->resident_most) soak->resident_most = now;
  }
  ck_assert_int_le(soak->files_most, FILES_MAX);
  ck_assert_int_le(soak->resident_most, RESIDENT_MAX);
  ck_assert_int_le(soak->database_most, DATABASE_MAX);
}

static void finish(struct soak *soak) {
  for (int place = 0; place < PROCESSES; place++) kill_one(soak, place);
  sql_use_threads(0); /* which would have files in hand */
  bank_check(&soak->shared->bank);
  sqlite3 *db = sql_open(soak->shared->bank.path);
  for (int i = 0; i < 3; i++)
    sql_ok(db, "UPDATE family SET amount = amount WHERE id = 1; INSERT INTO family(family) "
               "VALUES('flush')");
  files_agree_when_closed(db, "family");
}

static void soak_for(struct soak *soak, const char *journal, long seconds) {
  time_t end = time(NULL) + seconds;
  bank_set_up(&soak->shared->bank, journal);
  for (int place = 0; place < PROCESSES; place++) start(soak, place);
  while (time(NULL) < end) {
    rest(50 + (long)harness_below(&soak->random, 1000));
    look(soak);
    int place = (int)harness_below(&soak->random, PROCESSES);
    kill_one(soak, place);
    start(soak, place);
  }
  finish(soak);
  printf("soak, %s: %ld s, %ld commits, %ld reads, %ld kills, at most %d files, %lld KiB of "
         "database, %ld KiB resident\n",
         journal, seconds, atomic_load(&soak->shared->commits), atomic_load(&soak->shared->reads),
         soak->kills, soak->files_most, soak->database_most / 1024, soak->resident_most / 1024);
}

static long seconds_wanted(void) {
  const char *text = getenv("SOAK_SECONDS");
  long seconds = text ? strtol(text, NULL, 10) : SECONDS;
  return seconds > 0 ? seconds : SECONDS;
}

static const char *const journals[] = {"wal", "delete"};

/* Half of the time for each journal mode. */
START_TEST(exact_and_bounded_all_along) {
  struct soak soak = {.shared = mmap(NULL, sizeof *soak.shared, PROT_READ | PROT_WRITE,
                                     MAP_SHARED | MAP_ANONYMOUS, -1, 0)};
  ck_assert(soak.shared != MAP_FAILED);
  uint64_t seed = harness_seed_env((uint64_t)time(NULL));
  printf("soak: seed %llu\n", (unsigned long long)seed);
  harness_seed(&soak.random, seed);
  sql_use_threads(1);
  soak_for(&soak, journals[_i], (seconds_wanted() + 1) / 2);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("soak");
  TCase *tests = tcase_create("soak");
  tcase_set_timeout(tests, (double)seconds_wanted() + 300);
  tcase_add_loop_test(tests, exact_and_bounded_all_along, 0, 2);
  suite_add_tcase(suite, tests);
  return harness_run(suite);
}
