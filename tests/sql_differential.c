/* Random statements on ordinary tables and on colfam tables of the same shape, which must answer alike
** (exceptions: README.md, Limits, and ext/README.md). A scenario is a script of statements on two tables of
** random shapes and an ordinary one.
**
**   COLFAM_SEED=n    first scenario
**   COLFAM_STEPS=n   statements in all
**   COLFAM_JOBS=n    processes (default: one a processor)
**
** A difference is shown with the shortest script found that still has one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness_script.h"

enum { SHRINK_SECONDS = 60, STEPS = 300000 };

/* Shared with the processes that run the scenarios. */
static struct totals {
  uint64_t statements;
  uint64_t errors;
} * totals;

static uint64_t first_seed;

static void report(struct script *script, uint64_t seed, int failed, const char *difference) {
  printf("COLFAM_SEED=%llu: statement %d: %s\n%s", (unsigned long long)seed, failed,
         script->statements[failed].sql, difference);
  fflush(stdout);
  script_shrink(script, failed, SHRINK_SECONDS);
  uint64_t errors;
  char *after;
  script_run(script, &errors, &after);
  printf("Shortened:\n");
  script_print(script);
  printf("%s\n", after ? after : "");
  fflush(stdout);
  sqlite3_free(after);
}

START_TEST(ordinary_and_colfam_tables_answer_alike) {
  static struct script script;
  uint64_t seed = first_seed + (uint64_t)_i, errors;
  char *difference;
  script_draw(&script, seed);
  int failed = script_run(&script, &errors, &difference);
  __atomic_fetch_add(&totals->statements, (uint64_t)failed, __ATOMIC_RELAXED);
  __atomic_fetch_add(&totals->errors, errors, __ATOMIC_RELAXED);
  if (failed < SCRIPT_STATEMENTS) report(&script, seed, failed, difference);
  sqlite3_free(difference);
  script_release(&script);
  ck_assert_msg(failed == SCRIPT_STATEMENTS, "seed %llu: statement %d differs",
                (unsigned long long)seed, failed);
}
END_TEST

static Suite *suite(int first, int last) {
  Suite *s = suite_create("sql_differential");
  TCase *tc = tcase_create("differential");
  tcase_set_timeout(tc, 2 * SHRINK_SECONDS);
  tcase_add_loop_test(tc, ordinary_and_colfam_tables_answer_alike, first, last);
  suite_add_tcase(s, tc);
  return s;
}

/* One process for each share of the scenarios. */
static int run_shares(int scenarios, int shares) {
  int result = EXIT_SUCCESS, status;
  for (int i = 0; i < shares; i++) {
    int first = scenarios * i / shares, last = scenarios * (i + 1) / shares;
    pid_t pid = fork();
    if (pid < 0) return EXIT_FAILURE;
    if (pid == 0) exit(harness_run(suite(first, last)));
  }
  while (wait(&status) > 0)
    if (status != 0) result = EXIT_FAILURE;
  return result;
}

static long number_env(const char *name, long otherwise) {
  const char *text = getenv(name);
  return text ? strtol(text, NULL, 10) : otherwise;
}

int main(void) {
  long wanted = number_env("COLFAM_STEPS", STEPS);
  first_seed = harness_seed_env(1);
  totals = mmap(NULL, sizeof *totals, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (totals == MAP_FAILED) return EXIT_FAILURE;
  int result = run_shares((int)((wanted + SCRIPT_STATEMENTS - 1) / SCRIPT_STATEMENTS),
                          (int)number_env("COLFAM_JOBS", sysconf(_SC_NPROCESSORS_ONLN)));
  printf("differential: %llu statements from seed %llu, %llu of them errors on both sides\n",
         (unsigned long long)totals->statements, (unsigned long long)first_seed,
         (unsigned long long)totals->errors);
  return result;
}
