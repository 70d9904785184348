/* Work that two processes do at once (engine/README.md, invariant 3): the same inputs flushed or merged by
** both, one publishes first, the other's output goes, nothing is lost. First with copies of the extension
** in one process (harness_copies.h), each order by itself; then with processes, where one merges in a loop
** while three commit, which must end and may make none of them fail. */
#include <stdbool.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness_bank.h"
#include "harness_copies.h"
#include "harness_files.h"
#include "harness_sql.h"

enum { COPIES = 3, WRITERS = 3, MERGES = 40, ROUNDS = 60 };

/* ---- Copies: what each computes before either publishes */

static sqlite3 *dbs[COPIES];

static const char *path(void) {
  static char name[4200];
  snprintf(name, sizeof name, "%s/app.db", harness_memory_dir());
  return name;
}

static void both_tables(sqlite3 *db, int first, int last, const char *value) {
  sql_okf(db,
          "BEGIN; WITH RECURSIVE n(i) AS (VALUES(%d) UNION ALL SELECT i + 1 FROM n WHERE i < %d)"
          "INSERT OR REPLACE INTO t SELECT i, %Q || i FROM n;"
          "INSERT OR REPLACE INTO o SELECT k, v FROM t WHERE k BETWEEN %d AND %d; COMMIT",
          first, last, value, first, last);
}

static void delete_from_both(sqlite3 *db, int first, int last) {
  sql_okf(db,
          "BEGIN; DELETE FROM t WHERE k BETWEEN %d AND %d; DELETE FROM o WHERE k BETWEEN %d AND %d;"
          "COMMIT",
          first, last, first, last);
}

static void open_copies(const char *journal) {
  for (int i = 0; i < COPIES; i++) dbs[i] = copies_open(path(), i);
  sql_okf(dbs[0], "PRAGMA journal_mode = %s", journal);
  sql_ok(dbs[0], "CREATE TABLE o(k INTEGER PRIMARY KEY, v);"
                 "CREATE VIRTUAL TABLE t USING colfam(k INT PRIMARY KEY, v)");
  for (int i = 0; i < 4; i++) {
    both_tables(dbs[i % COPIES], 50 * i, 50 * i + 120, "v");
    if (i < 3) sql_ok(dbs[i % COPIES], "INSERT INTO t(t) VALUES('flush')");
  }
  delete_from_both(dbs[0], 100, 180);
}
static void open_copies_wal(void) {
  open_copies("wal");
}
static void open_copies_delete(void) {
  open_copies("delete");
}

static void close_copies(void) {
  for (int i = 0; i < COPIES; i++) sql_close(dbs[i]);
}

static void same_everywhere(void) {
  for (int i = 0; i < COPIES; i++) {
    sql_same(dbs[i], "SELECT k, v FROM t ORDER BY k", "SELECT k, v FROM o ORDER BY k");
    sql_same(dbs[i], "SELECT count(*) FROM t", "SELECT count(*) FROM o");
    sql_rows(dbs[i], "SELECT count(*) FROM t WHERE k BETWEEN 100 AND 180", "0");
    sql_rows(dbs[i], "SELECT * FROM colfam_check('t')", "");
  }
}

/* Each process's next commits: what it had computed is published or goes. */
static void everybody_commits(int first) {
  for (int round = 0; round < 3; round++)
    for (int i = 0; i < COPIES; i++) {
      int copy = (first + i) % COPIES;
      both_tables(dbs[copy], 300 + copy, 300 + copy, "w");
      same_everywhere();
    }
  files_agree(dbs[0], "t");
}

static const char *const computing[] = {"SELECT * FROM colfam_flush('t')",
                                        "SELECT * FROM colfam_compact('t')"};

/* 8 ways to have three processes compute flushes or merges of the same state, 3 that commit first. */
START_TEST(the_same_inputs_by_three) {
  for (int i = 0; i < COPIES; i++) sql_ok(dbs[i], computing[_i >> i & 1]);
  ck_assert_int_gt(files_on_disk(path()), (int)sql_int(dbs[0], "SELECT count(*) FROM t_cffile"));
  same_everywhere();
  everybody_commits(_i / 8);
}
END_TEST

/* The loser has nothing to write any more: its files go with its end, or with the sweep of another. */
START_TEST(loser_that_leaves) {
  sql_ok(dbs[1], computing[_i & 1]);
  sql_ok(dbs[0],
         _i & 2 ? "INSERT INTO t(t) VALUES('compact')" : "INSERT INTO t(t) VALUES('flush')");
  sql_close(dbs[1]);
  dbs[1] = copies_open(path(), 1);
  same_everywhere();
  for (int i = 0; i < 3; i++) both_tables(dbs[0], 300, 300, "w");
  files_agree(dbs[0], "t");
  everybody_commits(0);
}
END_TEST

/* Rows that came between computing and publishing are newer than what is published. */
START_TEST(rows_written_meanwhile_win) {
  for (int i = 0; i < COPIES; i++) sql_ok(dbs[i], computing[_i >> i & 1]);
  both_tables(dbs[1], 0, 90, "newer");
  delete_from_both(dbs[2], 181, 220);
  same_everywhere();
  everybody_commits(_i % COPIES);
  sql_rows(dbs[0], "SELECT count(*) FROM t WHERE v LIKE 'newer%'", "91");
  sql_rows(dbs[0], "SELECT count(*) FROM t WHERE k BETWEEN 181 AND 220", "0");
}
END_TEST

/* ---- Processes */

static atomic_int *running;

/* Those of the three go on until the merging has ended; it waits for the lock like them. */
static void write_beside(struct bank *bank, int number) {
  struct bank_worker worker = {.bank = bank, .writer = number};
  harness_seed(&worker.random, harness_seed_env(1) * 100 + (unsigned)number);
  bank_open(&worker);
  for (int round = 0; round < ROUNDS || atomic_load(running); round++) {
    bank_write(&worker);
    if (round % 50 == 49) bank_reopen(&worker);
  }
  sql_close(worker.db);
  _exit(0);
}

/* By command, and by work that waits for the next commit. */
static void merge_beside(struct bank *bank) {
  struct bank_worker worker = {.bank = bank, .writer = WRITERS};
  harness_seed(&worker.random, harness_seed_env(1));
  bank_open(&worker);
  for (int i = 0; i < MERGES; i++) {
    if (i % 2) {
      sql_ok(worker.db, "SELECT * FROM colfam_compact('family')");
      sql_ok(worker.db, "UPDATE family SET amount = amount WHERE id = 0");
    } else {
      sql_ok(worker.db, "INSERT INTO family(family) VALUES('compact')");
    }
    bank_read(&worker);
  }
  sql_close(worker.db);
  _exit(0);
}

static pid_t start(struct bank *bank, int number) {
  fflush(stdout);
  pid_t pid = fork();
  if (pid == 0 && number < WRITERS) write_beside(bank, number);
  if (pid == 0) merge_beside(bank);
  ck_assert_int_gt(pid, 0);
  return pid;
}

static void expect_good_end(pid_t pid, const char *who) {
  int status;
  ck_assert_int_eq(waitpid(pid, &status, 0), pid);
  ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%s: status %d", who, status);
}

static const char *const journals[] = {"wal", "delete"};

START_TEST(merging_in_a_loop_beside_three_writers) {
  struct bank *bank = mmap(NULL, sizeof *bank + sizeof *running, PROT_READ | PROT_WRITE,
                           MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ck_assert(bank != MAP_FAILED);
  running = (atomic_int *)(bank + 1);
  bank_set_up(bank, journals[_i / 2]);
  sql_use_threads(_i % 2 && FORKS_ARE_FOLLOWED);
  atomic_store(running, 1);
  pid_t writers[WRITERS], merger = start(bank, WRITERS);
  for (int i = 0; i < WRITERS; i++) writers[i] = start(bank, i);
  expect_good_end(merger, "the one that merges");
  atomic_store(running, 0);
  for (int i = 0; i < WRITERS; i++) expect_good_end(writers[i], "a writer");
  bank_check(bank);
  munmap(bank, sizeof *bank + sizeof *running);
}
END_TEST

static void add_copies(Suite *suite, const char *name, SFun open) {
  TCase *tc = tcase_create(name);
  tcase_set_timeout(tc, 60);
  tcase_add_checked_fixture(tc, open, close_copies);
  tcase_add_loop_test(tc, the_same_inputs_by_three, 0, 8 * COPIES);
  tcase_add_loop_test(tc, loser_that_leaves, 0, 4);
  tcase_add_loop_test(tc, rows_written_meanwhile_win, 0, 8);
  suite_add_tcase(suite, tc);
}

int main(void) {
  Suite *suite = suite_create("races");
  add_copies(suite, "copies, wal", open_copies_wal);
  add_copies(suite, "copies, rollback journal", open_copies_delete);
  TCase *tc = tcase_create("processes");
  tcase_set_timeout(tc, 200);
  tcase_add_loop_test(tc, merging_in_a_loop_beside_three_writers, 0, 4);
  suite_add_tcase(suite, tc);
  return harness_run(suite);
}
