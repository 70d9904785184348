/* Few descriptors: a process that may have 64 works with 200 table files, and one that has none left gets
** an error that says so, and goes on when there are some again. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "harness_files.h"
#include "harness_sql.h"

#define TABLES 200
#define DESCRIPTORS 64

static sqlite3 *db;
static rlim_t before;

static void limit_descriptors(rlim_t count) {
  struct rlimit limit;
  ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
  if (!before) before = limit.rlim_cur;
  limit.rlim_cur = count;
  ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static void set_up(void) {
  limit_descriptors(DESCRIPTORS);
  db = sql_open(sql_path("app.db"));
  sql_ok(db, "PRAGMA synchronous = off");
}

static void tear_down(void) {
  sql_close(db);
  limit_descriptors(before);
}

static int open_now(void) {
  DIR *dir = opendir("/proc/self/fd");
  int count = 0;
  for (struct dirent *entry; dir && (entry = readdir(dir));) count += entry->d_name[0] != '.';
  if (dir) closedir(dir);
  return count - 1; /* the directory's own */
}

static void make_tables(void) {
  for (int i = 0; i < TABLES; i++)
    sql_okf(db, "CREATE VIRTUAL TABLE t%d USING colfam(k INT PRIMARY KEY, v)", i);
}

static void read_tables(const char *expected) {
  for (int i = 0; i < TABLES; i++) {
    char *sql = sqlite3_mprintf("SELECT group_concat(replace(v, ' of %d', '')) FROM t%d", i, i);
    sql_rows(db, sql, expected);
    sqlite3_free(sql);
    ck_assert_int_lt(open_now(), DESCRIPTORS / 2);
  }
}

/* A file of its own in each table. One commit that did it for all would need the locks of all. */
static void fill_tables(int value) {
  for (int i = 0; i < TABLES; i++)
    sql_okf(db,
            "INSERT INTO t%d VALUES(%d, 'value %d of %d'); INSERT INTO t%d(t%d) VALUES('flush')", i,
            value, value, i, i, i);
}

static const char *const journals[] = {"wal", "delete"};

START_TEST(two_hundred_table_files) {
  sql_okf(db, "PRAGMA journal_mode = %s", journals[_i]);
  make_tables();
  fill_tables(1);
  ck_assert_int_eq(files_on_disk(sql_path("app.db")), TABLES);
  read_tables("value 1");
  fill_tables(2);
  read_tables("value 1,value 2");
  for (int i = 0; i < TABLES; i++) sql_okf(db, "INSERT INTO t%d(t%d) VALUES('compact')", i, i);
  ck_assert_int_eq(files_on_disk(sql_path("app.db")), TABLES);
  read_tables("value 1,value 2");
  for (int i = 0; i < TABLES; i += 20) {
    char *sql = sqlite3_mprintf("SELECT * FROM colfam_check('t%d')", i);
    sql_rows(db, sql, "");
    sqlite3_free(sql);
  }
}
END_TEST

START_TEST(fifty_runs_read_and_merged_at_a_time) {
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(k INT PRIMARY KEY, v)");
  for (int i = 0; i < 50; i++)
    sql_okf(db, "INSERT INTO t VALUES(%d, 'value'); INSERT INTO t(t) VALUES('flush')", i);
  sql_rows(db, "SELECT count(*), count(DISTINCT v) FROM t WHERE k >= 0", "50|1");
  sql_rows(db, "SELECT count(*) FROM t a JOIN t b ON b.k = 49 - a.k WHERE a.v = b.v", "50");
  sql_ok(db, "INSERT INTO t(t) VALUES('compact')");
  sql_rows(db, "SELECT count(*), min(v) FROM t WHERE k >= 0", "50|value");
  files_agree_when_closed(db, "t"); /* the thread may be at work on some until then */
  db = sql_open(sql_path("app.db"));
}
END_TEST

static int take_all(int *taken) {
  int count = 0;
  while ((taken[count] = dup(0)) >= 0) ck_assert_int_lt(++count, DESCRIPTORS);
  return count;
}

START_TEST(none_left_is_an_error_that_says_so) {
  int taken[DESCRIPTORS];
  sql_ok(db, "PRAGMA journal_mode = wal; CREATE TABLE o(x);"
             "CREATE VIRTUAL TABLE t USING colfam(k INT PRIMARY KEY, v);"
             "INSERT INTO t VALUES(1, 'a'); INSERT INTO t(t) VALUES('flush');"
             "INSERT INTO o VALUES(1)");
  sqlite3 *other = sql_open(sql_path("app.db"));
  sql_rows(other, "SELECT x FROM o", "1");
  sql_ok(db, "INSERT INTO t VALUES(2, 'b')");
  int count = take_all(taken);
  sql_fails(db, "SELECT v FROM t WHERE k = 1", SQLITE_IOERR, "Too many open files");
  sql_fails(db, "INSERT INTO t(t) VALUES('flush')", SQLITE_IOERR, "Too many open files");
  sql_ok(db, "INSERT OR REPLACE INTO t VALUES(3, 'c')"); /* which reads nothing */
  sql_rows(db, "SELECT v FROM t WHERE k = 2", "b");
  close(taken[--count]);
  sql_rows(db, "SELECT v FROM t WHERE k = 1", "a");
  while (count) close(taken[--count]);
  sql_ok(db, "INSERT INTO t(t) VALUES('flush')");
  sql_rows(db, "SELECT group_concat(v) FROM t", "a,b,c");
  sql_rows(db, "SELECT * FROM colfam_check('t')", "");
  files_agree(db, "t");
  sql_close(other);
}
END_TEST

/* Work of the thread for many tables at a time keeps the locks of its files until commits publish it. */
START_TEST(the_thread_works_for_all_tables) {
  sql_use_threads(1);
  sqlite3 *own = sql_open(sql_path("app.db"));
  sql_ok(own, "PRAGMA journal_mode = wal; PRAGMA synchronous = off");
  for (int i = 0; i < 100; i++)
    sql_okf(own,
            "CREATE VIRTUAL TABLE t%d USING colfam(k INT PRIMARY KEY, v, memtable_bytes = 16384)",
            i);
  for (int round = 0; round < 8; round++) {
    sql_ok(own, "BEGIN");
    for (int i = 0; i < 100; i++)
      sql_okf(own, "INSERT INTO t%d VALUES(%d, hex(randomblob(4000)))", i, round);
    sql_ok(own, "COMMIT");
    ck_assert_int_lt(open_now(), DESCRIPTORS);
  }
  for (int i = 0; i < 100; i++) {
    char *sql = sqlite3_mprintf("SELECT count(*), sum(length(v)) FROM t%d", i);
    sql_rows(own, sql, "8|64000");
    sqlite3_free(sql);
  }
  sql_close(own);
}
END_TEST

/* COLFAM_ROWS of them, in the order of their keys or not. In order they are never merged: more files than
** there may be descriptors, and savepoints keep runs apart. */
START_TEST(a_transaction_of_many_batches) {
  static const struct {
    int batch_bytes, step;
  } cases[] = {{20480, 1}, {65536, 1}, {4096, 104729}, {65536, 104729}};
  const char *text = getenv("COLFAM_ROWS");
  int rows = text ? atoi(text) : 30000, batch = cases[_i].batch_bytes, parts = 40;
  sql_use_threads(0);
  sql_okf(db,
          "PRAGMA journal_mode = wal; SELECT colfam_config('batch_bytes', %d); CREATE VIRTUAL TABLE"
          " t USING colfam(k INT PRIMARY KEY, v, memtable_bytes = 16384, compression = 'none');"
          "BEGIN",
          batch);
  for (int part = 0; part < parts; part++) {
    sql_okf(db,
            "SAVEPOINT s%d; INSERT INTO t WITH RECURSIVE n(i) AS (SELECT %d UNION ALL SELECT i + 1"
            " FROM n WHERE i < %d) SELECT i * %d %% 1000003, i FROM n",
            part, part * (rows / parts), (part + 1) * (rows / parts) - 1, cases[_i].step);
    ck_assert_int_lt(open_now(), DESCRIPTORS / 2);
  }
  int files = files_on_disk(sql_path("app.db"));
  printf("descriptors: batches of %d, step %d: %d files of one transaction, %d descriptors\n",
         batch, cases[_i].step, files, open_now());
  if (cases[_i].step == 1) ck_assert_int_gt(files, batch == 20480 ? DESCRIPTORS : 8);
  char *expected = sqlite3_mprintf("%d|%d", rows, rows - 1);
  sql_rows(db, "SELECT count(*), max(v) FROM t WHERE k >= 0", expected);
  sql_ok(db, "COMMIT");
  ck_assert_int_lt(open_now(), DESCRIPTORS / 2);
  sql_rows(db, "SELECT count(*), max(v) FROM t WHERE k >= 0", expected);
  sqlite3_free(expected);
  files_agree(db, "t");
  sql_rows(db, "SELECT * FROM colfam_check('t')", "");
}
END_TEST

int main(void) {
  Suite *suite = suite_create("descriptors");
  TCase *tests = tcase_create("descriptors");
  tcase_set_timeout(tests, getenv("COLFAM_ROWS") ? 36000 : 120);
  tcase_add_checked_fixture(tests, set_up, tear_down);
  tcase_add_loop_test(tests, two_hundred_table_files, 0, 2);
  tcase_add_test(tests, fifty_runs_read_and_merged_at_a_time);
  tcase_add_test(tests, none_left_is_an_error_that_says_so);
  tcase_add_test(tests, the_thread_works_for_all_tables);
  tcase_add_loop_test(tests, a_transaction_of_many_batches, 0, 4);
  suite_add_tcase(suite, tests);
  return harness_run(suite);
}
