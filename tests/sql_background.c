/* What applications do to a database while the background thread works on it, with threads and processes
** beside: journal modes switched, checkpoints, exclusive locking, older copies put back, readers that never
** pause. A row is written to a colfam table and an ordinary one alike; both must be the same at every look,
** and no call of the application's may fail that would not fail without colfam. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness_files.h"
#include "harness_sql.h"

#define READERS 12
#define MERGES 60 /* beside the readers */
#define ROWS 300

static sqlite3 *db;

static void set_up(void) {
  sql_use_threads(1);
  db = sql_open(sql_path("app.db"));
  sql_ok(db, "PRAGMA journal_mode = wal; PRAGMA synchronous = off;"
             "CREATE TABLE o(k INTEGER PRIMARY KEY, v);"
             "CREATE VIRTUAL TABLE t USING colfam(k INT PRIMARY KEY, v, memtable_bytes = 16384)");
}

static void tear_down(void) {
  sql_close(db);
}

static void write_row(sqlite3 *to, int i) {
  sql_okf(to,
          "BEGIN IMMEDIATE; INSERT OR REPLACE INTO t VALUES(%d, printf('%%0500d', %d));"
          "INSERT OR REPLACE INTO o VALUES(%d, printf('%%0500d', %d)); COMMIT",
          i % ROWS, i, i % ROWS, i);
}

static void write_rows(int first, int count) {
  for (int i = first; i < first + count; i++) write_row(db, i);
}

#define SAME                                                                         \
  "SELECT (SELECT group_concat(k || ' ' || v) FROM (SELECT * FROM t ORDER BY k)) IS" \
  " (SELECT group_concat(k || ' ' || v) FROM (SELECT * FROM o ORDER BY k))"          \
  " AND (SELECT count(*) FROM t) = (SELECT count(*) FROM o)"

static void same_rows(sqlite3 *by) {
  ck_assert_int_eq(sql_int(by, SAME), 1);
}

static void is_sound(void) {
  same_rows(db);
  sql_rows(db, "SELECT * FROM colfam_check('t')", "");
  files_named_are_there(db, "t");
}

static sqlite3_int64 statistic(const char *name) {
  char *sql =
      sqlite3_mprintf("SELECT value FROM colfam_stats WHERE name = %Q AND table_name = 't'", name);
  sqlite3_int64 value = sql_int(db, sql);
  sqlite3_free(sql);
  return value;
}

/* ---- The application's own pragmas */

START_TEST(journal_modes_are_switched) {
  static const char *const modes[] = {"delete", "wal", "truncate", "persist", "wal", "memory"};
  for (int i = 0; i < 24; i++) {
    const char *mode = modes[i % 6];
    char *sql = sqlite3_mprintf("PRAGMA journal_mode = %s", mode);
    write_rows(100 * i, 70); /* the thread is in the middle of something */
    sql_rows(db, sql, mode);
    sqlite3_free(sql);
    same_rows(db);
  }
  is_sound();
}
END_TEST

START_TEST(log_of_sqlite_is_truncated) {
  for (int i = 0; i < 40; i++) {
    write_rows(100 * i, 50);
    sql_rows(db, "PRAGMA wal_checkpoint(truncate)", "0|0|0");
  }
  is_sound();
}
END_TEST

START_TEST(locking_becomes_exclusive_and_normal_again) {
  for (int i = 0; i < 10; i++) {
    write_rows(100 * i, 50);
    sql_ok(db, "PRAGMA locking_mode = exclusive");
    write_rows(100 * i + 50, 50);
    sql_ok(db, "PRAGMA locking_mode = normal");
    same_rows(db);
    sqlite3 *other = sql_open(sql_path("app.db"));
    sqlite3_busy_timeout(other, 60000);
    same_rows(other);
    write_row(other, i);
    sql_close(other);
  }
  is_sound();
}
END_TEST

/* Merged anew while the thread reads the files that go. */
START_TEST(last_connection_leaves_only_named_files) {
  for (int i = 0; i < 30; i++) {
    write_rows(100 * i, 70);
    sql_ok(db, "INSERT INTO t(t) VALUES('compact')");
    sql_close(db);
    db = sql_open(sql_path("app.db"));
    files_agree(db, "t");
  }
}
END_TEST

static sqlite3 *open_exclusively(void) {
  sqlite3 *made;
  ck_assert_int_eq(sqlite3_open_v2(sql_path("app.db"), &made, SQLITE_OPEN_READWRITE, "unix-excl"),
                   SQLITE_OK);
  ck_assert_int_eq(sql_load(made, NULL), SQLITE_OK);
  sql_ok(made, "PRAGMA synchronous = off; PRAGMA busy_timeout = 60000");
  return made;
}

/* A process has the file for itself; its connections share it as ever. */
START_TEST(vfs_unix_excl) {
  sql_close(db);
  db = open_exclusively();
  sqlite3 *other = open_exclusively();
  write_rows(0, 400);
  for (int i = 400; i < 700; i++) {
    write_row(i % 3 ? db : other, i);
    if (i % 20 == 0) same_rows(i % 40 ? db : other);
  }
  sql_ok(other, "INSERT INTO t(t) VALUES('compact')");
  same_rows(other);
  sql_close(other);
  is_sound();
}
END_TEST

/* ---- Older copies */

/* By the backup interface, over the live database; the files of the copy are put back with it. */
START_TEST(older_copy_over_the_live_database) {
  char command[10000];
  write_rows(0, 200);
  sql_okf(db, "SELECT * FROM colfam_backup(%Q)", sql_path("kept.db"));
  for (int round = 0; round < 4; round++) {
    write_rows(1000 * (round + 1), 150);
    snprintf(command, sizeof command, "cp '%s'/* '%s'/", sql_path("kept.db-colfam"),
             sql_path("app.db-colfam"));
    ck_assert_int_eq(system(command), 0);
    sqlite3 *from = sql_open(sql_path("kept.db"));
    sqlite3_backup *backup = sqlite3_backup_init(db, "main", from, "main");
    ck_assert_ptr_nonnull(backup);
    ck_assert_int_eq(sqlite3_backup_step(backup, -1), SQLITE_DONE);
    ck_assert_int_eq(sqlite3_backup_finish(backup), SQLITE_OK);
    sql_close(from);
    same_rows(db);
    sql_rows(db, "SELECT count(*), max(v) = printf('%0500d', 199) FROM t WHERE k >= 0", "200|1");
    write_rows(5000 + 1000 * round, 90);
    is_sound();
  }
}
END_TEST

/* The database alone, beside a directory that has gone on: the files that it names are gone. It says so,
** other tables work, and it can be dropped. */
START_TEST(older_database_beside_a_newer_directory) {
  char command[10000];
  sql_rows(db, "PRAGMA journal_mode = delete", "delete");
  write_rows(0, 200);
  sql_ok(db, "INSERT INTO t(t) VALUES('compact')");
  snprintf(command, sizeof command, "cp '%s' '%s'", sql_path("app.db"), sql_path("kept.db"));
  ck_assert_int_eq(system(command), 0);
  char *id = sql_query(db, "SELECT id FROM colfam_files('t') LIMIT 1");
  snprintf(command, sizeof command, "%s-colfam/%s.sst", sql_path("app.db"), id);
  sqlite3_free(id);
  write_rows(1000, 200);
  sql_ok(db, "INSERT INTO t(t) VALUES('compact')");
  /* the thread may hold a view of it for a while */
  for (int i = 0; i < 1000 && access(command, F_OK) == 0; i++) write_rows(2000 + i, 1);
  ck_assert_int_ne(access(command, F_OK), 0);
  sql_close(db);
  ck_assert_int_eq(rename(sql_path("kept.db"), sql_path("app.db")), 0);
  db = sql_open(sql_path("app.db"));
  sql_fails(db, "SELECT count(v) FROM t", SQLITE_CANTOPEN, "colfam_backup");
  sql_rows(db, "SELECT count(*) FROM o", "200");
  sql_ok(db, "DROP TABLE t; CREATE VIRTUAL TABLE t USING colfam(k INT PRIMARY KEY, v);"
             "INSERT INTO t SELECT * FROM o; INSERT INTO t(t) VALUES('flush');"
             "INSERT INTO t(t) VALUES('compact'); UPDATE t SET v = v WHERE k = 1");
  is_sound();
}
END_TEST

/* ---- Readers */

struct reader {
  pthread_t thread;
  sqlite3 *connection;
};
static atomic_bool stop;
static atomic_int looks;

/* Two statements in a transaction, again and again: somebody always reads. */
static void *read_on(void *argument) {
  const struct reader *reader = argument;
  while (!atomic_load(&stop)) {
    sql_ok(reader->connection, "BEGIN");
    same_rows(reader->connection);
    same_rows(reader->connection);
    sql_ok(reader->connection, "COMMIT");
    atomic_fetch_add(&looks, 1);
  }
  return NULL;
}

static const char *const journals[] = {"wal", "delete", "truncate", "persist"};

START_TEST(queue_of_removals_shrinks_beside_twelve_readers) {
  struct reader readers[READERS];
  sqlite3_int64 most = 0;
  sql_okf(db, "PRAGMA journal_mode = %s; PRAGMA synchronous = normal; PRAGMA busy_timeout = 120000",
          journals[_i]);
  write_rows(0, 40);
  atomic_store(&stop, false);
  for (int i = 0; i < READERS; i++) {
    readers[i].connection = sql_open(sql_path("app.db"));
    sqlite3_busy_timeout(readers[i].connection, 120000);
    ck_assert_int_eq(pthread_create(&readers[i].thread, NULL, read_on, &readers[i]), 0);
  }
  int gone = 0; /* merges after which fewer waited than were dropped */
  for (int i = 0; i < MERGES; i++) {
    write_row(db, i);
    sql_ok(db, "INSERT INTO t(t) VALUES('compact')");
    sqlite3_int64 waiting = statistic("files_waiting");
    gone += waiting < i;
    if (waiting > most) most = waiting;
  }
  atomic_store(&stop, true);
  for (int i = 0; i < READERS; i++) pthread_join(readers[i].thread, NULL);
  for (int i = 0; i < READERS; i++) sql_close(readers[i].connection);
  printf("twelve readers, %s: %d looks, at most %lld of %d dropped files waited\n", journals[_i],
         atomic_load(&looks), most, MERGES);
  ck_assert_int_gt(gone, MERGES / 2);
  ck_assert_int_lt(most, MERGES / 2);
  for (int i = 0; i < 3; i++) write_row(db, i);
  ck_assert_int_eq(statistic("files_waiting"), 0);
  is_sound();
}
END_TEST

/* A process that flushes and merges, and one that may only read. */
static void write_as_another(const char *path) {
  sqlite3 *own = sql_open(path);
  sqlite3_busy_timeout(own, 120000);
  sql_ok(own, "PRAGMA synchronous = off");
  for (int i = 0; i < 400; i++) {
    write_row(own, i);
    if (i % 40 == 0) sql_ok(own, "INSERT INTO t(t) VALUES('compact')");
  }
  sql_close(own);
  _exit(0);
}

START_TEST(read_only_connection_beside_a_process_that_writes) {
  const char *path = sql_path("app.db");
  sql_close(db);
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) write_as_another(path);
  sqlite3 *reader;
  ck_assert_int_eq(sqlite3_open_v2(path, &reader, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
  ck_assert_int_eq(sql_load(reader, NULL), SQLITE_OK);
  sqlite3_busy_timeout(reader, 120000);
  int status = 0, seen = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    same_rows(reader);
    seen++;
  }
  ck_assert_int_eq(status, 0);
  ck_assert_int_gt(seen, 0);
  same_rows(reader);
  sql_rows(reader, "SELECT count(*) FROM t", "300");
  sql_fails(reader, "INSERT INTO t VALUES(1, 1)", SQLITE_READONLY, NULL);
  sql_close(reader);
  db = sql_open(path);
  is_sound();
}
END_TEST

int main(void) {
  Suite *suite = suite_create("background");
  TCase *tests = tcase_create("background");
  tcase_set_timeout(tests, 200);
  tcase_add_checked_fixture(tests, set_up, tear_down);
  tcase_add_test(tests, journal_modes_are_switched);
  tcase_add_test(tests, log_of_sqlite_is_truncated);
  tcase_add_test(tests, locking_becomes_exclusive_and_normal_again);
  tcase_add_test(tests, last_connection_leaves_only_named_files);
  tcase_add_test(tests, vfs_unix_excl);
  tcase_add_test(tests, older_copy_over_the_live_database);
  tcase_add_test(tests, older_database_beside_a_newer_directory);
  tcase_add_loop_test(tests, queue_of_removals_shrinks_beside_twelve_readers, 0, 4);
  if (FORKS_ARE_FOLLOWED) tcase_add_test(tests, read_only_connection_beside_a_process_that_writes);
  suite_add_tcase(suite, tests);
  return harness_run(suite);
}
