/* What a process that only reads has to do about the commits of others (engine/README.md, invariant 1,
** Currency): it replays the log rows that it has not seen, each once, and nothing when there are none,
** whatever the others flush and merge meanwhile. The other process is a copy of the extension
** (harness_copies.h); work is counted, not timed. How fast that is: bench_keeping_up. */
#include <stdio.h>

#include "harness_copies.h"
#include "harness_sql.h"

enum { ROW_BYTES = 300, KEYS = 500 };

static sqlite3 *reader, *writer;
static int commits; /* of the writer */

static void set_up_journal(const char *journal) {
  reader = sql_open(sql_path("app.db"));
  sql_okf(reader, "PRAGMA journal_mode = %s", journal);
  sql_ok(reader,
         "CREATE TABLE o(k INTEGER PRIMARY KEY, v);"
         "CREATE VIRTUAL TABLE t USING colfam(k INT PRIMARY KEY, v, memtable_bytes = 16384)");
  writer = copies_open(sql_path("app.db"), 0);
  sql_ok(writer, "PRAGMA synchronous = off");
  commits = 0;
}
static void set_up_wal(void) {
  set_up_journal("wal");
}
static void set_up_delete(void) {
  set_up_journal("delete");
}

static void tear_down(void) {
  sql_close(writer);
  sql_close(reader);
}

static void write_commits(int count) {
  for (int i = 0; i < count; i++, commits++)
    sql_okf(writer,
            "BEGIN; INSERT OR REPLACE INTO t VALUES(%d, printf('%%0*d', %d, %d));"
            "INSERT OR REPLACE INTO o VALUES(%d, printf('%%0*d', %d, %d)); COMMIT",
            commits % KEYS, ROW_BYTES, commits, commits % KEYS, ROW_BYTES, commits);
}

static sqlite3_int64 statistic(const char *name) {
  char *sql =
      sqlite3_mprintf("SELECT value FROM colfam_stats WHERE name = %Q AND table_name = 't'", name);
  sqlite3_int64 value = sql_int(reader, sql);
  sqlite3_free(sql);
  return value;
}

struct work {
  int views, rows;
};

/* What one statement takes; it sees the writer's last row. */
static struct work read_newest(void) {
  sqlite3_int64 views = statistic("views_built"), rows = statistic("log_rows_replayed");
  char *sql = sqlite3_mprintf("SELECT v + 0 FROM t WHERE k = %d", (commits - 1) % KEYS);
  ck_assert_int_eq(sql_int(reader, sql), commits - 1);
  sqlite3_free(sql);
  return (struct work){(int)(statistic("views_built") - views),
                       (int)(statistic("log_rows_replayed") - rows)};
}

static void expect(struct work work, int views, int rows) {
  ck_assert_int_eq(work.views, views);
  ck_assert_int_eq(work.rows, rows);
}

static void same_rows(void) {
  sql_same(reader, "SELECT k, v FROM t ORDER BY k", "SELECT k, v FROM o ORDER BY k");
}

START_TEST(unseen_rows_are_replayed_and_no_others) {
  write_commits(1);
  read_newest();
  for (int count = 1; count <= 8; count++) {
    write_commits(count);
    expect(read_newest(), 1, count);
    expect(read_newest(), 0, 0);
  }
  same_rows();
}
END_TEST

START_TEST(commits_of_other_tables_replay_nothing) {
  write_commits(5);
  read_newest();
  for (int i = 0; i < 5; i++) {
    sql_ok(writer, "INSERT INTO o VALUES(NULL, 'other'); DELETE FROM o WHERE v = 'other'");
    expect(read_newest(), 1, 0);
  }
}
END_TEST

START_TEST(flushes_and_merges_replay_nothing) {
  write_commits(10);
  read_newest();
  sql_ok(writer, "INSERT INTO t(t) VALUES('flush')");
  expect(read_newest(), 1, 0);
  write_commits(3);
  expect(read_newest(), 1, 3);
  sql_ok(writer, "INSERT INTO t(t) VALUES('compact')");
  expect(read_newest(), 1, 0);
  expect(read_newest(), 0, 0);
  same_rows();
}
END_TEST

/* What is in files when the reader comes need not be replayed. */
START_TEST(rows_that_were_flushed_unseen_are_not_replayed) {
  write_commits(4);
  read_newest();
  write_commits(20);
  sql_ok(writer, "INSERT INTO t(t) VALUES('flush')");
  write_commits(2);
  expect(read_newest(), 1, 2);
  same_rows();
}
END_TEST

/* Commits do their own flushes and merges: the log holds some fifty rows. */
START_TEST(no_row_is_replayed_twice_in_a_long_run) {
  int replayed = 0, views = 0, reads = 0;
  write_commits(1);
  read_newest();
  for (int round = 0; round < 300; round++, reads++) {
    write_commits(1 + round % 17);
    struct work work = read_newest();
    ck_assert_int_le(work.rows, 1 + round % 17);
    replayed += work.rows;
    views += work.views;
    if (round % 60 == 0) sql_ok(writer, "INSERT INTO t(t) VALUES('compact')");
  }
  ck_assert_int_eq(views, reads);
  ck_assert_int_le(replayed, commits);
  ck_assert_int_gt(sql_int(reader, "SELECT count(*) FROM t_cffile"), 0);
  same_rows();
}
END_TEST

static void add(Suite *suite, const char *name, SFun set_up) {
  TCase *tc = tcase_create(name);
  tcase_set_timeout(tc, 60);
  tcase_add_checked_fixture(tc, set_up, tear_down);
  tcase_add_test(tc, unseen_rows_are_replayed_and_no_others);
  tcase_add_test(tc, commits_of_other_tables_replay_nothing);
  tcase_add_test(tc, flushes_and_merges_replay_nothing);
  tcase_add_test(tc, rows_that_were_flushed_unseen_are_not_replayed);
  tcase_add_test(tc, no_row_is_replayed_twice_in_a_long_run);
  suite_add_tcase(suite, tc);
}

int main(void) {
  Suite *suite = suite_create("keeping up");
  add(suite, "wal", set_up_wal);
  add(suite, "rollback journal", set_up_delete);
  return harness_run(suite);
}
