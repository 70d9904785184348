/* Several processes on one bank (harness_bank.h): three write, flush and compact, two read, in
** journal modes WAL and DELETE. In the first run all end by themselves; in the second some die by
** SIGKILL, which a timer of processor time sends, so that they are at work when they die, and
** others take over from them. Afterwards both tables have the same rows, nothing deleted is back,
** colfam_check finds nothing and no file that the manifest names is missing. Files that a killed
** process left behind lie about until the sweep; without kills in DELETE mode there are none. */
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

#define WRITERS 3
#define READERS 2
#define PROCESSES (WRITERS + READERS)
#define ROUNDS 60       /* of each process */
#define KILLS 16        /* processes that may be killed, in all */
#define DIE_BY_US 60000 /* processor time within which these die, if they still run */

/* In shared memory. */
struct shared {
  struct bank bank;
  atomic_int rounds[PROCESSES]; /* done, by the processes of a place one after the other */
};

struct scene {
  struct shared *shared;
  struct harness_random random;
  pid_t pids[PROCESSES];
  int kills_left;
  int killed;
  int next_writer;
};

/* ---- The children. They fork from a process that has no connection open. */

static void write_round(struct bank_worker *worker) {
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

static void child_main(struct shared *shared, int place, int writer, uint64_t seed, bool dies) {
  struct bank_worker worker = {.bank = &shared->bank, .writer = writer};
  harness_seed(&worker.random, seed);
  if (dies) die_after(1 + (suseconds_t)harness_below(&worker.random, DIE_BY_US));
  bank_open(&worker);
  while (atomic_fetch_add(&shared->rounds[place], 1) < ROUNDS) {
    if (place < WRITERS)
      write_round(&worker);
    else
      read_round(&worker);
    if (harness_below(&worker.random, 12) == 0) bank_reopen(&worker);
  }
  sql_close(worker.db);
  _exit(0);
}

/* ---- The parent */

static void start(struct scene *scene, int place) {
  int writer = place < WRITERS ? scene->next_writer++ : 0;
  ck_assert_int_lt(writer, BANK_WRITERS);
  uint64_t seed = harness_next(&scene->random);
  bool dies = scene->kills_left-- > 0;
  fflush(stdout);
  scene->pids[place] = fork();
  if (scene->pids[place] == 0) child_main(scene->shared, place, writer, seed, dies);
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

static void run(const char *journal, int kills) {
  struct shared *shared =
      mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ck_assert(shared != MAP_FAILED);
  bank_set_up(&shared->bank, journal);
  uint64_t seed = harness_seed_env(1);
  struct scene scene = {.shared = shared, .kills_left = kills};
  harness_seed(&scene.random, seed);
  run_processes(&scene);
  bank_check(&shared->bank);
  sqlite3 *db = sql_open(shared->bank.path);
  sqlite3_int64 named = sql_int(db, "SELECT count(*) FROM family_cffile");
  sql_close(db);
  int there = files_on_disk(shared->bank.path);
  printf("processes, %s: seed %llu, %d killed, %d files without a name\n", journal,
         (unsigned long long)seed, scene.killed, there - (int)named);
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

int main(void) {
  Suite *suite = suite_create("processes");
  TCase *tc = tcase_create("one database");
  tcase_set_timeout(tc, 120);
  tcase_add_loop_test(tc, processes_end_by_themselves, 0, 2);
  tcase_add_loop_test(tc, processes_are_killed, 0, 2);
  suite_add_tcase(suite, tc);
  return harness_run(suite);
}
