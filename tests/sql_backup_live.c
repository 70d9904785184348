/* colfam_backup while threads and another process commit, flush, compact and read all the time: every copy is
** one snapshot of the bank (harness_bank.h), over ordinary and colfam tables, and sound. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness_bank.h"
#include "harness_files.h"
#include "harness_sql.h"

#define COPIES 8
#define WRITERS 2

static struct bank *bank; /* in shared memory */
static atomic_int *stop;

static void set_up(const char *journal) {
  size_t size = sizeof *bank + sizeof *stop;
  void *shared = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ck_assert_ptr_ne(shared, MAP_FAILED);
  bank = shared;
  stop = (atomic_int *)(bank + 1);
  bank_set_up(bank, journal);
}

static void write_until_stopped(struct bank_worker *worker) {
  bank_open(worker);
  while (!atomic_load(stop)) {
    bank_write(worker);
    if (harness_below(&worker->random, 20) == 0)
      sql_ok(worker->db, "INSERT INTO family(family) VALUES('compact')");
    if (harness_below(&worker->random, 30) == 0) bank_reopen(worker);
  }
  sql_close(worker->db);
}

static void *writer_main(void *context) {
  write_until_stopped(context);
  return NULL;
}

static pid_t start_process(struct bank_worker *worker) {
  fflush(stdout);
  pid_t child = fork();
  ck_assert_int_ge(child, 0);
  if (child) return child;
  write_until_stopped(worker);
  _exit(0);
}

/* Opened as it is: a bank of its own, in which no ticket is known to be deleted. */
static void check_copy(const char *path) {
  struct bank copy = {.journal = "wal"};
  snprintf(copy.path, sizeof copy.path, "%s", path);
  bank_check(&copy);
  sqlite3 *db = sql_open(path);
  files_agree(db, "family");
  sql_close(db);
}

/* Copies in rollback journal modes keep writers waiting, nothing else. */
static void copy_many(struct bank_worker *worker) {
  bank_open(worker);
  for (int i = 0; i < COPIES; i++) {
    char name[32];
    snprintf(name, sizeof name, "copy %d.db", i);
    const char *path = sql_path(name);
    if (i % 2) sql_ok(worker->db, "BEGIN; SELECT count(*) FROM family");
    char *sql =
        sqlite3_mprintf("SELECT count(*) FROM colfam_backup(%Q) WHERE phase = 'done'", path);
    sql_rows(worker->db, sql, "1");
    sqlite3_free(sql);
    if (i % 2) sql_ok(worker->db, "COMMIT");
    check_copy(path);
  }
  sql_close(worker->db);
}

static void run(const char *journal) {
  set_up(journal);
  uint64_t seed = harness_seed_env(1);
  printf("backup, %s: seed %llu\n", journal, (unsigned long long)seed);
  struct bank_worker workers[WRITERS + 2];
  for (int i = 0; i < WRITERS + 2; i++) {
    workers[i] = (struct bank_worker){.bank = bank, .writer = i};
    harness_seed(&workers[i].random, seed * 100 + (unsigned)i);
  }
  pid_t child = start_process(&workers[WRITERS]);
  pthread_t threads[WRITERS];
  for (int i = 0; i < WRITERS; i++)
    ck_assert_int_eq(pthread_create(&threads[i], NULL, writer_main, &workers[i]), 0);
  copy_many(&workers[WRITERS + 1]);
  atomic_store(stop, 1);
  for (int i = 0; i < WRITERS; i++) ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
  int status;
  ck_assert_int_eq(waitpid(child, &status, 0), child);
  ck_assert_int_eq(status, 0);
  bank_check(bank);
}

START_TEST(every_copy_is_one_snapshot) {
  static const char *const journals[] = {"wal", "delete"};
  run(journals[_i]);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("backup_live");
  TCase *tc = tcase_create("bank");
  tcase_set_timeout(tc, 300);
  tcase_add_loop_test(tc, every_copy_is_one_snapshot, 0, 2);
  suite_add_tcase(suite, tc);
  return harness_run(suite);
}
