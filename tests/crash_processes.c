/* Several processes on one bank (harness_bank.h): four write, flush and compact, two read, in
** journal modes WAL and DELETE. In the first run all end by themselves; in the second some die by
** SIGKILL, which a timer of processor time sends, so that they are at work when they die, and
** others take over from them. Half of the processes spill what they write at a time. Afterwards both tables
** have the same rows, nothing deleted is back, colfam_check finds nothing and no file that the manifest
** names is missing. Files that a killed process left behind lie about until the sweep; without kills in
** DELETE mode there are none. In the third every process dies soon, 200 in all, with the thread and without:
** one writer later no such file is left. */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness_bank.h"
#include "harness_files.h"
#include "harness_sql.h"

#define WRITERS 4
#define READERS 2
#define PROCESSES (WRITERS + READERS)
#define ROUNDS 60       /* of each process */
#define KILLS 16        /* processes that may be killed, in all */
#define DIE_BY_US 60000 /* processor time within which these die, if they still run */

/* Of those that leave files behind; four runs of it make 200. */
#define MANY_KILLS 50
#define MANY_ROUNDS 1000000 /* until that many are dead */
#define SOON_US 25000

#define THREADS FORKS_ARE_FOLLOWED

/* In shared memory. */
struct shared {
  struct bank bank;
  atomic_int rounds[PROCESSES]; /* done, by the processes of a place one after the other */
  atomic_int rounds_max;
  atomic_int spills; /* of those that have not died */
  int die_by_us;
};

struct scene {
  struct shared *shared;
  struct harness_random random;
  pid_t pids[PROCESSES];
  int kills_left;
  int killed;
};

/* ---- The children. They fork from a process that has no connection open. */

/* More than a batch may have, where that is little: it becomes private files. */
static void write_much(struct bank_worker *worker) {
  bool undone = harness_below(&worker->random, 4) == 0;
  sql_okf(
      worker->db,
      "BEGIN IMMEDIATE; UPDATE plain SET note = note || ''; UPDATE family SET note = note || '';"
      " SAVEPOINT s; DELETE FROM family; ROLLBACK TO s; UPDATE family SET amount = amount + 0;"
      " %s",
      undone ? "ROLLBACK" : "COMMIT");
}

static void write_round(struct bank_worker *worker) {
  if (harness_below(&worker->random, 8) == 0) write_much(worker);
  bank_write(worker);
  uint64_t what = harness_below(&worker->random, 12);
  if (what == 0) sql_ok(worker->db, "INSERT INTO family(family) VALUES('flush')");
  if (what == 1) sql_ok(worker->db, "INSERT INTO family(family) VALUES('compact')");
}

static void read_round(struct bank_worker *worker) {
  if (harness_below(&worker->random, 3) == 0)
    bank_read_snapshot(worker);
  else
    bank_read(worker);
}

static void die(int signal) {
  (void)signal;
  kill(getpid(), SIGKILL);
}

static void die_after(suseconds_t work_us) {
  struct itimerval timer = {.it_value = {0, work_us}};
  signal(SIGPROF, die);
  ck_assert_int_eq(setitimer(ITIMER_PROF, &timer, NULL), 0);
}

static void child_main(struct shared *shared, int place, uint64_t seed, bool dies) {
  struct bank_worker worker = {.bank = &shared->bank, .writer = place < WRITERS ? place : 0};
  harness_seed(&worker.random, seed);
  if (dies) die_after(1 + (suseconds_t)harness_below(&worker.random, (uint64_t)shared->die_by_us));
  bank_open(&worker);
  if (harness_below(&worker.random, 2))
    sql_ok(worker.db, "SELECT colfam_config('batch_bytes', 4096)");
  while (atomic_fetch_add(&shared->rounds[place], 1) < atomic_load(&shared->rounds_max)) {
    if (place < WRITERS)
      write_round(&worker);
    else
      read_round(&worker);
    if (harness_below(&worker.random, 12) == 0) bank_reopen(&worker);
  }
  sqlite3_int64 spills =
      sql_int(worker.db, "SELECT sum(value) FROM colfam_stats WHERE name = 'spills'");
  atomic_fetch_add(&shared->spills, (int)spills);
  sql_close(worker.db);
  _exit(0);
}

/* ---- The parent */

static void start(struct scene *scene, int place) {
  uint64_t seed = harness_next(&scene->random);
  bool dies = scene->kills_left-- > 0;
  fflush(stdout);
  scene->pids[place] = fork();
  if (scene->pids[place] == 0) child_main(scene->shared, place, seed, dies);
  ck_assert_int_gt(scene->pids[place], 0);
}

/* Waits for a process to end; one that was killed is followed by another. */
static void reap(struct scene *scene) {
  int status;
  pid_t pid;
  while ((pid = waitpid(-1, &status, 0)) < 0) ck_assert_int_eq(errno, EINTR);
  int place = 0;
  while (scene->pids[place] != pid) ck_assert_int_lt(++place, PROCESSES);
  scene->pids[place] = 0;
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) {
    scene->killed++;
    if (scene->killed == MANY_KILLS) atomic_store(&scene->shared->rounds_max, ROUNDS);
    start(scene, place);
    return;
  }
  ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%s %d: wait status %d",
                place < WRITERS ? "writer" : "reader", place, status);
}

static bool some_run(const struct scene *scene) {
  for (int place = 0; place < PROCESSES; place++)
    if (scene->pids[place]) return true;
  return false;
}

static void run_processes(struct scene *scene) {
  for (int place = 0; place < PROCESSES; place++) start(scene, place);
  while (some_run(scene)) reap(scene);
}

static struct shared *share(const char *journal, int rounds, int die_by_us) {
  struct shared *shared =
      mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ck_assert(shared != MAP_FAILED);
  bank_set_up(&shared->bank, journal);
  shared->die_by_us = die_by_us;
  atomic_store(&shared->rounds_max, rounds);
  return shared;
}

static void run(const char *journal, int kills) {
  struct shared *shared = share(journal, ROUNDS, DIE_BY_US);
  uint64_t seed = harness_seed_env(1);
  struct scene scene = {.shared = shared, .kills_left = kills};
  harness_seed(&scene.random, seed);
  run_processes(&scene);
  bank_check(&shared->bank);
  sqlite3 *db = sql_open(shared->bank.path);
  sqlite3_int64 named = sql_int(db, "SELECT count(*) FROM family_cffile");
  sql_close(db);
  int there = files_on_disk(shared->bank.path);
  printf("processes, %s: seed %llu, %d killed, %d batches spilled, %d files without a name\n",
         journal, (unsigned long long)seed, scene.killed, atomic_load(&shared->spills),
         there - (int)named);
  if (!kills) ck_assert_int_gt(atomic_load(&shared->spills), 10);
  if (!kills && strcmp(journal, "delete") == 0) ck_assert_int_eq(there, named);
  munmap(shared, sizeof *shared);
}

static const char *const journals[] = {"wal", "delete"};

START_TEST(processes_end_by_themselves) {
  run(journals[_i], 0);
}
END_TEST

START_TEST(processes_are_killed) {
  run(journals[_i], KILLS);
}
END_TEST

/* Every process that begins dies soon, at any place, with work of its own or of its thread half done, while
** others are at work. Then one writer commits, and only named files are left. */
static void kill_many(const char *journal) {
  struct shared *shared = share(journal, MANY_ROUNDS, SOON_US);
  uint64_t seed = harness_seed_env(7);
  struct scene scene = {.shared = shared, .kills_left = MANY_KILLS};
  harness_seed(&scene.random, seed);
  run_processes(&scene);
  ck_assert_int_eq(scene.killed, MANY_KILLS);
  int left = files_on_disk(shared->bank.path);
  sql_use_threads(0); /* which would have files in hand */
  bank_check(&shared->bank);
  sqlite3 *db = sql_open(shared->bank.path);
  for (int i = 0; i < 3; i++)
    sql_ok(db, "UPDATE family SET amount = amount WHERE id = 1; INSERT INTO family(family) "
               "VALUES('flush')");
  files_agree_when_closed(db, "family");
  printf("random kills, %s: seed %llu, %d killed, %d files before the last writer, %d after\n",
         journal, (unsigned long long)seed, scene.killed, left, files_on_disk(shared->bank.path));
  munmap(shared, sizeof *shared);
}

START_TEST(killed_at_random_nothing_is_left_behind) {
  sql_use_threads(0);
  kill_many(journals[_i]);
}
END_TEST

START_TEST(killed_at_random_with_the_thread_nothing_is_left_behind) {
  sql_use_threads(THREADS);
  kill_many(journals[_i]);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("processes");
  TCase *tc = tcase_create("one database");
  tcase_set_timeout(tc, 120);
  tcase_add_loop_test(tc, processes_end_by_themselves, 0, 2);
  tcase_add_loop_test(tc, processes_are_killed, 0, 2);
  tcase_add_loop_test(tc, killed_at_random_nothing_is_left_behind, 0, 2);
  tcase_add_loop_test(tc, killed_at_random_with_the_thread_nothing_is_left_behind, 0, 2);
  suite_add_tcase(suite, tc);
  return harness_run(suite);
}
