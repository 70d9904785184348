/* Random statements on ordinary tables and on colfam tables of the same shape, which must answer alike
** (README.md, Limits, has the exceptions). A scenario is a script of statements on two tables of random
** shapes and an ordinary one.
**
**   COLFAM_SEED=n    first scenario
**   COLFAM_STEPS=n   statements in all
**
** A difference is shown with the shortest script found that still has one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "harness_pair.h"
#include "harness_sql.h"

enum { STATEMENTS = 400, SHRINK_SECONDS = 30 };

struct script {
  char *creates[2][2]; /* of t and u, for oracle and subject */
  char *trigger;       /* NULL for none */
  const char *journal_mode;
  struct random_statement statements[STATEMENTS];
  bool left_out[STATEMENTS];
};

/* Shared with the processes that run the scenarios. */
static struct totals {
  uint64_t statements;
  uint64_t errors;
} * totals;

static uint64_t first_seed;

/* ---- Scripts */

static void script_draw(struct script *script, uint64_t seed) {
  struct random_sql g;
  memset(script, 0, sizeof *script);
  random_sql_init(&g, seed);
  for (int i = 0; i < 2; i++) {
    uint64_t state = g.random.state;
    script->creates[i][0] = random_sql_create(&g, i, false);
    g.random.state = state;
    script->creates[i][1] = random_sql_create(&g, i, true);
  }
  static const char *const journal_modes[] = {"memory", "wal", "delete", "persist"};
  script->journal_mode = RANDOM_OF(&g, journal_modes);
  if (random_once_in(&g, 4)) script->trigger = random_sql_trigger(&g);
  for (int i = 0; i < STATEMENTS; i++) {
    if (i % 50 >= 48 || i >= STATEMENTS - 2) {
      random_sql_whole(&g, i % 2, &script->statements[i]);
    } else {
      random_sql_next(&g, &script->statements[i]);
    }
  }
}

static void script_release(struct script *script) {
  sqlite3_free(script->trigger);
  for (int i = 0; i < 2; i++) {
    sqlite3_free(script->creates[i][0]);
    sqlite3_free(script->creates[i][1]);
  }
  for (int i = 0; i < STATEMENTS; i++) random_statement_release(&script->statements[i]);
}

static void create_tables(struct pair *pair, const struct script *script) {
  pair_ok(pair, "CREATE TABLE r(i INTEGER PRIMARY KEY, x TEXT, y, z REAL);"
                "INSERT INTO r VALUES(1, 'a', 1, 1.0), (2, 'b', 'a', 2.5), (3, '1', '1', 3.0),"
                " (4, '01', 1.0, -0.0), (5, NULL, NULL, NULL), (6, 'ab', x'61', 1e300),"
                " (7, ' 1', 40, 40.0), (8, 'x1', '1.0', 0.5), (9, char(0), 'ab', 9),"
                " (12, '12', 12, 12), (13, 'A1', 'b2', '+x'), (14, '10', 5, '12ab')");
  for (int i = 0; i < 2; i++) {
    sql_ok(pair->oracle, script->creates[i][0]);
    sql_ok(pair->subject, script->creates[i][1]);
  }
  if (script->trigger) pair_ok(pair, script->trigger);
}

/* Runs it in fresh databases; the number of the statement that differed, or STATEMENTS. */
static int script_run(const struct script *script, uint64_t *errors, char **difference) {
  struct pair pair;
  pair_open(&pair, "differential", script->journal_mode);
  create_tables(&pair, script);
  int i = 0;
  *difference = NULL;
  while (i < STATEMENTS &&
         (script->left_out[i] || pair_run(&pair, &script->statements[i], difference)))
    i++;
  *errors = (uint64_t)pair.constraint_errors;
  pair_close(&pair);
  return i;
}

/* ---- Shrinking */

static void leave_out(struct script *script, int first, int count, bool out) {
  for (int i = first; i < first + count && i < STATEMENTS; i++) script->left_out[i] = out;
}

static bool still_differs(const struct script *script) {
  uint64_t errors;
  char *difference;
  int at = script_run(script, &errors, &difference);
  sqlite3_free(difference);
  return at < STATEMENTS;
}

/* Leaves out shorter and shorter stretches as long as a difference stays. */
static void script_shrink(struct script *script, int failed) {
  time_t end = time(NULL) + SHRINK_SECONDS;
  leave_out(script, failed + 1, STATEMENTS, true);
  for (int size = (failed + 1) / 2; size >= 1; size /= 2) {
    for (int i = 0; i <= failed && time(NULL) < end; i += size) {
      bool kept[STATEMENTS];
      memcpy(kept, script->left_out, sizeof kept);
      leave_out(script, i, size, true);
      if (!still_differs(script)) memcpy(script->left_out, kept, sizeof kept);
    }
  }
}

static void print_script(const struct script *script) {
  printf("PRAGMA journal_mode = %s;\n", script->journal_mode);
  for (int i = 0; i < 2; i++) printf("%s;\n", script->creates[i][1]);
  if (script->trigger) printf("%s;\n", script->trigger);
  for (int i = 0; i < STATEMENTS; i++) {
    const struct random_statement *statement = &script->statements[i];
    if (script->left_out[i]) continue;
    printf("%s;\n", statement->sql);
    for (int k = 0; k < statement->binding_count; k++)
      printf("  -- ?%d = %s\n", k + 1, statement->bindings[k]);
  }
}

static void report(struct script *script, uint64_t seed, int failed, const char *difference) {
  printf("COLFAM_SEED=%llu: statement %d: %s\n%s", (unsigned long long)seed, failed,
         script->statements[failed].sql, difference);
  script_shrink(script, failed);
  uint64_t errors;
  char *after;
  script_run(script, &errors, &after);
  printf("Shortened:\n");
  print_script(script);
  printf("%s\n", after ? after : "");
  fflush(stdout);
  sqlite3_free(after);
}

/* ---- Tests */

START_TEST(ordinary_and_colfam_tables_answer_alike) {
  static struct script script;
  uint64_t seed = first_seed + (uint64_t)_i, errors;
  char *difference;
  script_draw(&script, seed);
  int failed = script_run(&script, &errors, &difference);
  totals->statements += (uint64_t)failed;
  totals->errors += errors;
  if (failed < STATEMENTS) report(&script, seed, failed, difference);
  sqlite3_free(difference);
  script_release(&script);
  ck_assert_msg(failed == STATEMENTS, "seed %llu: statement %d differs", (unsigned long long)seed,
                failed);
}
END_TEST

static Suite *suite(int scenarios) {
  Suite *s = suite_create("sql_differential");
  TCase *tc = tcase_create("differential");
  tcase_set_timeout(tc, 120);
  tcase_add_loop_test(tc, ordinary_and_colfam_tables_answer_alike, 0, scenarios);
  suite_add_tcase(s, tc);
  return s;
}

int main(void) {
  const char *steps = getenv("COLFAM_STEPS");
  long wanted = steps ? strtol(steps, NULL, 10) : 40000;
  first_seed = harness_seed_env(1);
  totals = mmap(NULL, sizeof *totals, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (totals == MAP_FAILED) return EXIT_FAILURE;
  int result = harness_run(suite((int)((wanted + STATEMENTS - 1) / STATEMENTS)));
  printf("differential: %llu statements from seed %llu, %llu of them errors on both sides\n",
         (unsigned long long)totals->statements, (unsigned long long)first_seed,
         (unsigned long long)totals->errors);
  return result;
}
