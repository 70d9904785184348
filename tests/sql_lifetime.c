/* What the process keeps between and beyond connections: connections opened and closed in any order,
** one database under several paths, a database file deleted, made again or put back from a copy, fork
** without exec, two copies of the extension in one process. All of that memory is a cache: answers must
** not depend on it. */
#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness_copies.h"
#include "harness_files.h"
#include "harness_sql.h"

#define SCHEMA                                          \
  "CREATE TABLE o(k INT PRIMARY KEY, v) WITHOUT ROWID;" \
  "CREATE VIRTUAL TABLE t USING colfam(k INT PRIMARY KEY, v, memtable_bytes = 16384);"

static sqlite3 *open_new(const char *path, const char *journal) {
  sqlite3 *db = sql_open(path);
  sql_okf(db, "PRAGMA journal_mode = %s", journal);
  sql_ok(db, SCHEMA);
  return db;
}

/* In one transaction. */
static void insert(sqlite3 *db, int first, int last, const char *value) {
  bool alone = sqlite3_get_autocommit(db);
  if (alone) sql_ok(db, "BEGIN IMMEDIATE");
  for (int i = 0; i < 2; i++)
    sql_okf(db,
            "WITH RECURSIVE n(i) AS (VALUES(%d) UNION ALL SELECT i + 1 FROM n WHERE i < %d)"
            "INSERT OR REPLACE INTO %s SELECT i, %Q || i || ' ' || hex(randomblob(20)) FROM n",
            first, last, i ? "o" : "t", value);
  sql_ok(db, "DELETE FROM o; INSERT INTO o SELECT * FROM t");
  if (alone) sql_ok(db, "COMMIT");
}

static void flush(sqlite3 *db) {
  sql_ok(db, "INSERT INTO t(t) VALUES('flush')");
}

static void compact(sqlite3 *db) {
  sql_ok(db, "INSERT INTO t(t) VALUES('compact')");
}

/* In one snapshot. */
static void same(sqlite3 *db) {
  sql_ok(db, "SAVEPOINT same");
  sql_same(db, "SELECT k, v FROM t ORDER BY k", "SELECT k, v FROM o ORDER BY k");
  sql_same(db, "SELECT count(*) FROM t", "SELECT count(*) FROM o");
  sql_ok(db, "RELEASE same");
}

static void commit_often(sqlite3 *db) {
  for (int i = 0; i < 3; i++) insert(db, -1, -1, "c");
}

/* ---- Opening and closing */

static int open_handles(void) {
  DIR *dir = opendir("/proc/self/fd");
  int count = 0;
  while (readdir(dir)) count++;
  closedir(dir);
  return count;
}

#define PLACES 5

/* One step of opening, closing, writing or reading at a random place. */
static void step(struct harness_random *random, sqlite3 **places, const char *const *paths) {
  int at = (int)harness_below(random, PLACES);
  uint64_t what = harness_below(random, 6);
  if (!places[at]) {
    places[at] = sql_open(paths[harness_below(random, 3)]);
    if (!sql_int(places[at], "SELECT count(*) FROM sqlite_schema WHERE name = 't'"))
      sql_ok(places[at], SCHEMA);
  } else if (what < 3) {
    sql_close(places[at]);
    places[at] = NULL;
  } else if (what < 5) {
    int first = (int)harness_below(random, 100);
    insert(places[at], first, first + 30, "v");
  } else {
    compact(places[at]);
    same(places[at]);
  }
}

static void close_all(sqlite3 **places, const char *const *paths) {
  for (int i = 0; i < PLACES; i++)
    if (places[i]) sql_close(places[i]);
  for (int i = 0; i < 2; i++) {
    sqlite3 *db = sql_open(paths[i]);
    if (sql_int(db, "SELECT count(*) FROM sqlite_schema WHERE name = 't'")) same(db);
    sql_close(db);
  }
}

START_TEST(connections_come_and_go_in_any_order) {
  char first[4200], second[4200];
  snprintf(first, sizeof first, "%s", sql_path("first.db"));
  snprintf(second, sizeof second, "%s", sql_path("second.db"));
  const char *const paths[] = {first, second, ":memory:"};
  struct harness_random random;
  harness_seed(&random, harness_seed_env(3));
  int handles = open_handles();
  sqlite3_int64 memory = 0;
  for (int round = 0; round < 10; round++) {
    sqlite3 *places[PLACES] = {NULL};
    for (int i = 0; i < 60; i++) step(&random, places, paths);
    close_all(places, paths);
    ck_assert_int_eq(open_handles(), handles);
    if (round == 0) memory = sqlite3_memory_used();
    ck_assert_int_eq(sqlite3_memory_used(), memory);
  }
}
END_TEST

START_TEST(loaded_and_closed_200_times) {
  char path[4200];
  snprintf(path, sizeof path, "%s", sql_path("app.db"));
  sql_close(open_new(path, "wal"));
  for (int i = 0; i < 200; i++) {
    sqlite3 *a = sql_open(path), *b = sql_open(path), *c = sql_open(":memory:");
    sql_okf(a, "INSERT INTO t VALUES(%d, %d); INSERT INTO o VALUES(%d, %d)", i, i, i, i);
    if (i % 10 == 9) compact(b);
    sqlite3 *order[][3] = {{a, b, c}, {b, c, a}, {c, a, b}, {c, b, a}};
    same(i % 2 ? a : b);
    for (int j = 0; j < 3; j++) sql_close(order[i % 4][j]);
  }
  ck_assert_int_eq(files_on_disk(path), 1);
}
END_TEST

/* What a connection has of a table goes when another connection drops it. */
START_TEST(tables_dropped_by_another_connection) {
  sqlite3 *a = open_new(sql_path("app.db"), "wal"), *b = sql_open(sql_path("app.db"));
  sql_ok(a, "PRAGMA synchronous = off");
  sqlite3_int64 memory = 0;
  for (int i = 0; i < 150; i++) {
    sql_okf(a,
            "CREATE VIRTUAL TABLE t%d USING colfam(k INT PRIMARY KEY); INSERT INTO t%d VALUES(7)",
            i, i);
    char *sql = sqlite3_mprintf("SELECT k FROM t%d WHERE k IN (SELECT 7 FROM t UNION SELECT 7)", i);
    sql_rows(b, sql, "7");
    sqlite3_free(sql);
    sql_okf(a, "DROP TABLE t%d", i);
    if (i == 50) memory = sqlite3_memory_used();
  }
  ck_assert_int_lt(sqlite3_memory_used() - memory, 10000);
  sql_close(b);
  sql_close(a);
}
END_TEST

/* ---- SQLite's shared cache */

static sqlite3 *open_shared(void) {
  char uri[4200];
  snprintf(uri, sizeof uri, "file:%s?cache=shared", sql_path("app.db"));
  return sql_open(uri);
}

START_TEST(snapshots_of_a_shared_cache_are_kept_by_locks) {
  sqlite3 *a = open_shared(), *b = open_shared();
  sql_okf(a, "PRAGMA journal_mode = %s;" SCHEMA, _i ? "delete" : "wal");
  insert(a, 1, 3, "v");
  same(b);
  sql_ok(b, "BEGIN");
  same(b);
  sql_fails(a, "INSERT INTO t VALUES(9, 'a')", SQLITE_LOCKED, "locked");
  sql_fails(a, "INSERT INTO t(t) VALUES('compact')", SQLITE_LOCKED, "locked");
  sql_rows(b, "SELECT max(k) FROM t", "3");
  sql_ok(b, "COMMIT");
  insert(a, 9, 9, "v");
  compact(a);
  same(b);
  sql_rows(b, "SELECT max(k) FROM t", "9");
  sql_close(a);
  sql_close(b);
}
END_TEST

/* The reader of uncommitted rows may see them, but not for ever. */
START_TEST(uncommitted_rows_of_a_shared_cache_are_not_kept) {
  sqlite3 *a = open_shared(), *b = open_shared();
  sql_trust(a);
  sql_ok(a, SCHEMA);
  insert(a, 1, 3, "v");
  sql_ok(b, "PRAGMA read_uncommitted = on");
  for (int i = 0; i < 3; i++) {
    sql_ok(a, "BEGIN; INSERT INTO t VALUES(9, 'a'); INSERT INTO o VALUES(9, 'a');"
              "INSERT OR REPLACE INTO t_cflog SELECT seq + 1, 77, gen, rows, batch FROM t_cflog"
              " ORDER BY seq DESC LIMIT 1");
    sqlite3_exec(b, "SELECT count(*) FROM t", NULL, NULL, NULL);
    sql_ok(a, "ROLLBACK");
    same(b);
    insert(a, 10 + i, 12 + i, "v");
    same(b);
  }
  sql_close(b);
  sql_close(a);
}
END_TEST

/* ---- One file under several paths */

START_TEST(one_database_under_several_paths) {
  const char *journal = _i ? "delete" : "wal";
  char path[4200], link[4200], dir_link[4200];
  snprintf(path, sizeof path, "%s", sql_path("app.db"));
  snprintf(link, sizeof link, "%s", sql_path("link.db"));
  snprintf(dir_link, sizeof dir_link, "%s", sql_path("dir"));
  ck_assert_int_eq(chdir(harness_dir()), 0);
  ck_assert_int_eq(symlink(path, link), 0);
  ck_assert_int_eq(symlink(harness_dir(), dir_link), 0);
  sqlite3 *dbs[] = {open_new(path, journal), sql_open(link),         sql_open("app.db"),
                    sql_open("./app.db"),    sql_open("dir/app.db"), sql_open("file:app.db")};
  for (int round = 0; round < 5; round++) {
    for (int i = 0; i < 6; i++) {
      insert(dbs[i], 10 * i + round, 10 * i + 40, "v");
      flush(dbs[i]);
      same(dbs[(i + 1) % 6]);
    }
    compact(dbs[round]);
    for (int i = 0; i < 6; i++) same(dbs[i]);
  }
  commit_often(dbs[0]);
  for (int i = 0; i < 6; i++) same(dbs[i]);
  commit_often(dbs[0]);
  files_agree(dbs[5], "t");
  for (int i = 0; i < 6; i++) sql_close(dbs[i]);
  ck_assert_int_ne(access("link.db-colfam", F_OK), 0);
  ck_assert_int_eq(chdir("/"), 0);
}
END_TEST

/* ---- Another database under the same path */

static void run_command(const char *format, const char *path) {
  char *command = sqlite3_mprintf(format, path, path, path, path, path, path);
  ck_assert_int_eq(system(command), 0);
  sqlite3_free(command);
}

START_TEST(database_deleted_and_made_again) {
  const char *journal = _i & 1 ? "delete" : "wal";
  bool files_stay = _i & 2, connection_stays = _i & 4;
  char path[4200];
  snprintf(path, sizeof path, "%s", sql_path("app.db"));
  sqlite3 *old = NULL;
  for (int round = 0; round < 4; round++) {
    sqlite3 *db = open_new(path, journal);
    insert(db, 0, 300, "v");
    flush(db);
    insert(db, 100 * round, 100 * round + 50, "w");
    same(db);
    if (old) same(old);
    if (round % 2) compact(db);
    same(db);
    if (old) sql_close(old);
    old = db;
    if (!connection_stays) sql_close(db), old = NULL;
    run_command(files_stay ? "rm -f '%s' '%s-wal' '%s-shm'"
                           : "rm -rf '%s' '%s-wal' '%s-shm' "
                             "'%s-colfam'",
                path);
  }
  if (old) sql_close(old);
}
END_TEST

/* Files dropped since the copy was made are wanted again. A connection that reads keeps their removal
** waiting, across the closing of all connections. */
START_TEST(database_put_back_from_an_older_copy) {
  const char *journal = _i ? "truncate" : "wal";
  char path[4200];
  snprintf(path, sizeof path, "%s", sql_path("app.db"));
  sqlite3 *db = open_new(path, journal);
  sql_ok(db, "PRAGMA synchronous = normal");
  insert(db, 0, 300, "v");
  flush(db);
  insert(db, 100, 200, "w");
  flush(db);
  if (!_i) sql_ok(db, "PRAGMA wal_checkpoint(truncate)");
  run_command("cp -r '%s' '%s-copy' && cp -r '%s-colfam' '%s-kept'", path);
  sqlite3 *reader = sql_open(path);
  if (!_i) {
    sql_ok(reader, "BEGIN");
    same(reader);
  }
  compact(db);
  same(reader);
  sql_close(db);
  sqlite3_close(reader);
  run_command("rm -rf '%s' '%s-colfam' '%s-wal' '%s-shm' &&  mv '%s-copy' '%s'", path);
  run_command("mv '%s-kept' '%s-colfam'", path);
  db = sql_open(path);
  commit_often(db);
  files_named_are_there(db, "t");
  same(db);
  sql_close(db);
}
END_TEST

/* The same by SQLite's own backup into the live database, while the process keeps a connection. */
START_TEST(database_overwritten_by_a_backup) {
  char path[4200], kept[4200];
  snprintf(path, sizeof path, "%s", sql_path("app.db"));
  snprintf(kept, sizeof kept, "%s", sql_path("kept.db"));
  sqlite3 *db = open_new(path, "wal");
  insert(db, 0, 300, "v");
  flush(db);
  insert(db, 100, 200, "w");
  sql_okf(db, "VACUUM INTO %Q", kept);
  run_command("cp -r '%s-colfam' '%s-kept'", path);
  sqlite3 *reader = sql_open(path);
  sql_ok(reader, "BEGIN");
  same(reader);
  insert(db, 150, 400, "x");
  compact(db);
  insert(db, 500, 600, "y");
  same(db);
  sql_ok(reader, "COMMIT");
  run_command("cp '%s-kept'/* '%s-colfam/'", path);
  sqlite3 *from = sql_open(kept);
  sqlite3_backup *backup = sqlite3_backup_init(db, "main", from, "main");
  ck_assert_ptr_nonnull(backup);
  ck_assert_int_eq(sqlite3_backup_step(backup, -1), SQLITE_DONE);
  ck_assert_int_eq(sqlite3_backup_finish(backup), SQLITE_OK);
  sql_close(from);
  same(db);
  same(reader);
  commit_often(db);
  files_named_are_there(db, "t");
  same(db);
  same(reader);
  sql_close(reader);
  sql_close(db);
}
END_TEST

/* ---- Fork without exec */

START_TEST(child_that_uses_nothing_ends_well) {
  char path[4200];
  snprintf(path, sizeof path, "%s", sql_path("app.db"));
  sqlite3 *db = open_new(path, _i ? "delete" : "wal");
  insert(db, 0, 300, "v");
  flush(db);
  sql_ok(db, "BEGIN");
  insert(db, 100, 200, "w");
  pid_t pid = fork();
  if (pid == 0) exit(0);
  int status;
  ck_assert_int_eq(waitpid(pid, &status, 0), pid);
  ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  compact(db);
  sql_ok(db, "COMMIT");
  same(db);
  files_agree(db, "t");
  sql_close(db);
}
END_TEST

static void use_own_connection(const char *path) {
  sqlite3 *db = sql_open(path);
  sqlite3_busy_timeout(db, 60000);
  for (int i = 0; i < 20; i++) {
    same(db);
    insert(db, 10 * i, 10 * i + 20, "child");
    compact(db);
  }
  sql_close(db);
}

/* SQLite allows it when all connections are closed; the store of the parent is there all the same. */
START_TEST(child_that_opens_after_all_were_closed) {
  char path[4200];
  snprintf(path, sizeof path, "%s", sql_path("app.db"));
  sqlite3 *db = open_new(path, _i ? "truncate" : "wal");
  insert(db, 0, 300, "v");
  compact(db);
  sql_close(db);
  pid_t pid = fork();
  if (pid == 0) {
    use_own_connection(path);
    _exit(0);
  }
  use_own_connection(path);
  int status;
  ck_assert_int_eq(waitpid(pid, &status, 0), pid);
  ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  db = sql_open(path);
  same(db);
  files_named_are_there(db, "t");
  sql_close(db);
}
END_TEST

/* ---- Two copies of the extension in one process */

START_TEST(copies_write_in_turn) {
  char path[4200];
  snprintf(path, sizeof path, "%s", sql_path("app.db"));
  sqlite3 *dbs[] = {open_new(path, _i ? "delete" : "wal"), NULL};
  dbs[1] = copies_open(path, 0);
  struct harness_random random;
  harness_seed(&random, harness_seed_env(4));
  for (int i = 0; i < 120; i++) {
    sqlite3 *db = dbs[harness_below(&random, 2)];
    int first = (int)harness_below(&random, 300);
    insert(db, first, first + (int)harness_below(&random, 60), "v");
    if (harness_below(&random, 8) == 0) flush(db);
    if (harness_below(&random, 20) == 0) compact(db);
    same(dbs[harness_below(&random, 2)]);
  }
  commit_often(dbs[0]);
  commit_often(dbs[1]);
  commit_often(dbs[0]);
  sql_close(dbs[0]);
  files_agree_when_closed(dbs[1], "t");
}
END_TEST

/* Copy 2 compacts below a cursor of copy 1, which has opened no file but the first, and which outlives
** a COMMIT of its own connection: of the cursor's files none may go. */
START_TEST(cursor_of_one_copy_and_files_dropped_by_the_other) {
  char path[4200];
  snprintf(path, sizeof path, "%s", sql_path("app.db"));
  sqlite3 *one = open_new(path, "wal"), *two = copies_open(path, 0);
  for (int i = 0; i < 6; i++) {
    insert(one, 100 * i, 100 * i + 99, "v");
    flush(one);
  }
  sqlite3_int64 rows = sql_int(one, "SELECT count(*) FROM t");
  sql_ok(one, "BEGIN");
  sqlite3_stmt *cursor;
  ck_assert_int_eq(sqlite3_prepare_v2(one, "SELECT k FROM t ORDER BY k", -1, &cursor, NULL),
                   SQLITE_OK);
  ck_assert_int_eq(sqlite3_step(cursor), SQLITE_ROW);
  if (_i) sql_ok(one, "INSERT INTO o VALUES(-5, 5); INSERT INTO t VALUES(-5, 5)");
  sql_ok(one, _i == 2 ? "ROLLBACK" : "COMMIT");
  for (int i = 0; i < 4; i++) {
    compact(two);
    commit_often(two);
    insert(two, 50 * i, 50 * i + 5, "w");
    flush(two);
  }
  sqlite3_int64 read = 1;
  while (sqlite3_step(cursor) == SQLITE_ROW) read++;
  ck_assert_msg(sqlite3_finalize(cursor) == SQLITE_OK, "%s", sqlite3_errmsg(one));
  ck_assert_int_eq(read, rows);
  same(one);
  same(two);
  sql_close(one);
  sql_close(two);
}
END_TEST

/* In a rollback journal mode the cursor keeps the other's commits out. */
START_TEST(cursor_of_one_copy_holds_up_the_other) {
  char path[4200];
  snprintf(path, sizeof path, "%s", sql_path("app.db"));
  sqlite3 *one = open_new(path, "delete"), *two = copies_open(path, 0);
  insert(one, 0, 100, "v");
  flush(one);
  insert(one, 50, 150, "w");
  sql_ok(one, "BEGIN");
  sqlite3_stmt *cursor;
  ck_assert_int_eq(sqlite3_prepare_v2(one, "SELECT k FROM t", -1, &cursor, NULL), SQLITE_OK);
  ck_assert_int_eq(sqlite3_step(cursor), SQLITE_ROW);
  sql_ok(one, "INSERT INTO t VALUES(500, 5); INSERT INTO o VALUES(500, 5); COMMIT");
  sql_fails(two, "INSERT INTO t(t) VALUES('compact')", SQLITE_BUSY, NULL);
  int read = 1;
  while (sqlite3_step(cursor) == SQLITE_ROW) read++;
  ck_assert_int_eq(sqlite3_finalize(cursor), SQLITE_OK);
  ck_assert_int_eq(read, 151);
  compact(two);
  same(one);
  same(two);
  files_agree(two, "t");
  sql_close(one);
  sql_close(two);
}
END_TEST

static void add(Suite *suite, const char *name, const TTest *test, int times) {
  TCase *tc = tcase_create(name);
  tcase_set_timeout(tc, 60);
  tcase_add_loop_test(tc, test, 0, times);
  suite_add_tcase(suite, tc);
}

int main(void) {
  Suite *suite = suite_create("lifetime");
  add(suite, "opening", connections_come_and_go_in_any_order, 1);
  add(suite, "opening often", loaded_and_closed_200_times, 1);
  add(suite, "dropping", tables_dropped_by_another_connection, 1);
  add(suite, "shared cache", snapshots_of_a_shared_cache_are_kept_by_locks, 2);
  add(suite, "uncommitted", uncommitted_rows_of_a_shared_cache_are_not_kept, 1);
  add(suite, "paths", one_database_under_several_paths, 2);
  add(suite, "made again", database_deleted_and_made_again, 8);
  add(suite, "put back", database_put_back_from_an_older_copy, 2);
  add(suite, "overwritten", database_overwritten_by_a_backup, 1);
  add(suite, "fork", child_that_uses_nothing_ends_well, 2);
  add(suite, "fork and open", child_that_opens_after_all_were_closed, 2);
  add(suite, "copies", copies_write_in_turn, 2);
  add(suite, "cursors and copies", cursor_of_one_copy_and_files_dropped_by_the_other, 3);
  add(suite, "copies and journals", cursor_of_one_copy_holds_up_the_other, 1);
  return harness_run(suite);
}
