/* What the connections of a process share, however many there are: one block cache, one copy of the log,
** one descriptor a table file, one thread. Forty connections to one database read and write it at the same
** time. */
#include <dirent.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "harness_files.h"
#include "harness_sql.h"

enum { CONNECTIONS = 40, TABLES = 6, ROWS = 4000, EACH_MAX = 250000 };

static sqlite3 *dbs[CONNECTIONS];

static void connect(int i) {
  dbs[i] = sql_open(sql_path("app.db"));
  sql_ok(dbs[i], "PRAGMA cache_size = 20; PRAGMA synchronous = off; PRAGMA busy_timeout = 60000");
}

/* A megabyte in files, 400 KB in the log. */
static void set_up(void) {
  connect(0);
  sql_ok(dbs[0], "PRAGMA journal_mode = wal");
  sql_ok(dbs[0], "CREATE VIRTUAL TABLE t USING colfam(k INT PRIMARY KEY, v, compression = none)");
  for (int i = 0; i < 4; i++)
    sql_okf(dbs[0],
            "WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n WHERE i < %d / 4)"
            "INSERT INTO t SELECT 4 * i + %d, printf('%%0250d', i) FROM n;"
            "INSERT INTO t(t) VALUES('flush')",
            ROWS, i);
  sql_okf(dbs[0], "UPDATE t SET v = 'x' || v WHERE k < %d * 4 / 10", ROWS);
}

static void tear_down(void) {
  for (int i = 0; i < CONNECTIONS; i++)
    if (dbs[i]) sql_close(dbs[i]);
}

static sqlite3_int64 statistic(sqlite3 *db, const char *name) {
  char *sql = sqlite3_mprintf("SELECT max(value) FROM colfam_stats WHERE name = %Q", name);
  sqlite3_int64 value = sql_int(db, sql);
  sqlite3_free(sql);
  return value;
}

static void read_all(sqlite3 *db) {
  char *sql = sqlite3_mprintf("SELECT count(*), sum(length(v)) FROM t WHERE v > ''");
  sqlite3_free(sql_query(db, sql));
  sqlite3_free(sql);
}

/* Descriptors of the process on table files. */
static int table_files_open(void) {
  int count = 0;
  DIR *dir = opendir("/proc/self/fd");
  for (struct dirent *entry; dir && (entry = readdir(dir));) {
    char link[300], path[4200] = "";
    snprintf(link, sizeof link, "/proc/self/fd/%s", entry->d_name);
    if (readlink(link, path, sizeof path - 1) > 0) count += strstr(path, ".sst") != NULL;
  }
  if (dir) closedir(dir);
  return count;
}

#ifdef __SANITIZE_ADDRESS__
#define MEMORY_IS_COUNTED false
#elif defined __SANITIZE_THREAD__
#define MEMORY_IS_COUNTED false
#else
#define MEMORY_IS_COUNTED true
#endif

START_TEST(one_more_connection_costs_little_memory) {
  read_all(dbs[0]);
  sqlite3_int64 cached = statistic(dbs[0], "cache_bytes"),
                log = statistic(dbs[0], "memtable_memory");
  ck_assert_int_gt(cached, ROWS * 200);
  ck_assert_int_gt(log, 50000);
  connect(1);
  read_all(dbs[1]);
  size_t before = mallinfo2().uordblks;
  for (int i = 2; i < CONNECTIONS; i++) {
    connect(i);
    read_all(dbs[i]);
  }
  size_t each = (mallinfo2().uordblks - before) / (CONNECTIONS - 2);
  if (MEMORY_IS_COUNTED) ck_assert_uint_lt(each, EACH_MAX);
  printf("a connection: %zu KiB\n", each / 1024);
  for (int i = 0; i < CONNECTIONS; i++) {
    ck_assert_int_eq(statistic(dbs[i], "cache_bytes"), cached);
    ck_assert_int_eq(statistic(dbs[i], "memtable_memory"), log);
  }
}
END_TEST

START_TEST(a_block_that_one_has_read_is_there_for_all) {
  read_all(dbs[0]);
  for (int i = 1; i < CONNECTIONS; i++) {
    connect(i);
    sqlite3_int64 before = statistic(dbs[0], "blocks_read");
    read_all(dbs[i]);
    ck_assert_int_eq(statistic(dbs[0], "blocks_read"), before);
  }
}
END_TEST

START_TEST(a_table_file_is_open_once) {
  sql_ok(dbs[0], "SELECT colfam_config('cache_bytes', 0)");
  for (int i = 0; i < CONNECTIONS; i++) {
    if (i) connect(i);
    read_all(dbs[i]);
    ck_assert_int_le(table_files_open(), files_on_disk(sql_path("app.db")));
  }
  ck_assert_int_gt(table_files_open(), 0);
}
END_TEST

/* Of the extension: a sanitizer may have its own. */
static int threads_now(void) {
  int count = 0;
  DIR *dir = opendir("/proc/self/task");
  for (struct dirent *entry; dir && (entry = readdir(dir));) {
    char path[300], name[32] = "";
    snprintf(path, sizeof path, "/proc/self/task/%s/comm", entry->d_name);
    FILE *file = fopen(path, "r");
    count += file && fgets(name, sizeof name, file) && strcmp(name, "colfam\n") == 0;
    if (file) fclose(file);
  }
  if (dir) closedir(dir);
  return count;
}

START_TEST(one_thread_works_for_all_of_them) {
  sql_ok(dbs[0], "SELECT colfam_config('threads', 1)");
  for (int i = 0; i < TABLES; i++)
    sql_okf(dbs[0],
            "CREATE VIRTUAL TABLE t%d USING colfam(k INT PRIMARY KEY, v, memtable_bytes = 16384)",
            i);
  for (int round = 0; round < 20; round++)
    for (int i = 0; i < CONNECTIONS; i++) {
      if (!dbs[i]) connect(i);
      sql_okf(dbs[i], "INSERT OR REPLACE INTO t%d VALUES(%d, printf('%%0900d', %d))", i % TABLES,
              i + round, round);
      ck_assert_int_le(threads_now(), 1);
    }
  ck_assert_int_eq(threads_now(), 1);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("shared");
  TCase *tc = tcase_create("shared");
  tcase_set_timeout(tc, 60);
  tcase_add_checked_fixture(tc, set_up, tear_down);
  tcase_add_test(tc, one_more_connection_costs_little_memory);
  tcase_add_test(tc, a_block_that_one_has_read_is_there_for_all);
  tcase_add_test(tc, a_table_file_is_open_once);
  tcase_add_test(tc, one_thread_works_for_all_of_them);
  suite_add_tcase(suite, tc);
  return harness_run(suite);
}
