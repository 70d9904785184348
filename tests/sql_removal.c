/* Which table files lie on disk after what: old files go when their drop is durable and nobody can need them
** (engine/README.md, invariant 5), the outputs of jobs that are rolled back go at once. Durability itself is
** not seen here; the number of commits that a journal mode needs is. */
#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "harness_twins.h"

static int files_on_disk(void) {
  DIR *dir = opendir(sql_path("app.db-colfam"));
  int count = 0;
  for (struct dirent *entry; dir && (entry = readdir(dir));) count += entry->d_name[0] != '.';
  if (dir) closedir(dir);
  return count;
}

static int files_named(void) {
  return (int)sql_int(a, "SELECT count(*) FROM t_cffile");
}

static bool is_on_disk(sqlite3_int64 id) {
  char name[64];
  snprintf(name, sizeof name, "app.db-colfam/%016llx.sst", (unsigned long long)id);
  return access(sql_path(name), F_OK) == 0;
}

/* Two files and some log, so that a compaction drops two files. */
static void fill(const char *table) {
  for (int i = 0; i < 3; i++) {
    sql_okf(a,
            "WITH RECURSIVE n(i) AS (VALUES(%d) UNION ALL SELECT i + 1 FROM n WHERE i < %d)"
            "INSERT INTO %s SELECT i, 'value ' || i FROM n",
            100 * i, 100 * i + 50, table);
    if (i < 2) sql_okf(a, "INSERT INTO %s(%s) VALUES('flush')", table, table);
  }
}

static void fill_both(void) {
  fill("t");
  sql_ok(a, "INSERT INTO o SELECT * FROM t");
}

static void one_more_commit(void) {
  twins_both(a, "INSERT OR REPLACE INTO @ VALUES(-1, abs(random()) % 1)");
}

/* ---- By journal mode */

static const char *const modes[] = {"wal", "delete", "truncate", "persist", "memory", "off"};
static const char *const syncs[] = {"off", "normal", "full", "extra"};
#define MODES (sizeof modes / sizeof *modes)
#define SYNCS (sizeof syncs / sizeof *syncs)

START_TEST(old_files_go_with_the_commit_that_the_journal_mode_needs) {
  sql_trust(a);
  const char *mode = modes[(size_t)_i / SYNCS], *sync = syncs[(size_t)_i % SYNCS];
  char *sql = sqlite3_mprintf("PRAGMA journal_mode = %s", mode);
  sql_rows(a, sql, mode);
  sqlite3_free(sql);
  sql_okf(a, "PRAGMA synchronous = %s", sync);
  fill_both();
  ck_assert_int_eq(files_on_disk(), 2);
  sql_ok(a, "INSERT INTO t(t) VALUES('compact')");
  bool waits = strcmp(mode, "truncate") == 0 && strcmp(sync, "normal") == 0;
  ck_assert_int_eq(files_named(), 1);
  ck_assert_int_eq(files_on_disk(), waits ? 3 : 1);
  one_more_commit();
  ck_assert_int_eq(files_on_disk(), 1);
}
END_TEST

/* The journal is then kept and its header overwritten, which is synced; but one that is truncated is not. */
static void compact_under_exclusive_lock(const char *mode, int files) {
  sql_okf(a,
          "PRAGMA journal_mode = %s; PRAGMA synchronous = normal;"
          "PRAGMA locking_mode = exclusive",
          mode);
  fill_both();
  sql_ok(a, "INSERT INTO t(t) VALUES('compact')");
  ck_assert_int_eq(files_on_disk(), files);
  one_more_commit();
  ck_assert_int_eq(files_on_disk(), 1);
  sql_ok(a, "PRAGMA locking_mode = normal");
  twins_same(a);
}

START_TEST(exclusive_locking_makes_a_commit_durable_that_deletes_its_journal) {
  compact_under_exclusive_lock("delete", 1);
}
END_TEST

START_TEST(exclusive_locking_does_not_when_the_journal_is_truncated) {
  compact_under_exclusive_lock("truncate", 3);
}
END_TEST

/* ---- What counts as the next commit */

static void open_truncate(void) {
  twins_open_delete();
  sql_ok(a, "PRAGMA journal_mode = truncate; PRAGMA synchronous = normal;"
            "CREATE VIRTUAL TABLE t2 USING colfam(k INT PRIMARY KEY, v)");
  fill_both();
}

START_TEST(commit_over_several_tables_is_one_commit) {
  fill("t2");
  sql_ok(a, "BEGIN; INSERT INTO t(t) VALUES('compact'); INSERT INTO t2(t2) VALUES('compact');"
            "INSERT INTO t2 VALUES(-1, 1); COMMIT");
  ck_assert_int_eq(files_on_disk(), 6);
  one_more_commit();
  ck_assert_int_eq(files_on_disk(), 2);
}
END_TEST

/* The sweep of that commit finds files that nobody names any more: by its own DROP, which may be undone. */
START_TEST(files_dropped_in_a_commit_that_sweeps_wait_too) {
  fill("t2");
  sql_ok(a, "INSERT INTO t2(t2) VALUES('flush')");
  ck_assert_int_eq(files_on_disk(), 5);
  sql_ok(a, "BEGIN; DROP TABLE t2; INSERT INTO t VALUES(-7, 7); COMMIT;"
            "INSERT INTO o VALUES(-7, 7)");
  ck_assert_int_eq(files_on_disk(), 5);
  one_more_commit();
  ck_assert_int_eq(files_on_disk(), 2);
}
END_TEST

START_TEST(commit_that_writes_nothing_does_not_count) {
  sql_ok(a, "INSERT INTO t(t) VALUES('compact'); DELETE FROM t WHERE 0; DELETE FROM t2 WHERE k = 7;"
            "BEGIN; INSERT INTO t VALUES(-5, 5); ROLLBACK");
  ck_assert_int_eq(files_on_disk(), 3);
  one_more_commit();
  ck_assert_int_eq(files_on_disk(), 1);
}
END_TEST

START_TEST(commit_that_fails_does_not_count) {
  sql_ok(a, "INSERT INTO t(t) VALUES('compact'); BEGIN; INSERT INTO t2 VALUES(1, 1)");
  sqlite3_stmt *reader = twins_reader("o");
  sql_fails(a, "COMMIT", SQLITE_BUSY, NULL);
  sqlite3_finalize(reader);
  sql_ok(a, "ROLLBACK");
  ck_assert_int_eq(files_on_disk(), 3);
  one_more_commit();
  ck_assert_int_eq(files_on_disk(), 1);
}
END_TEST

START_TEST(commit_of_another_connection_counts) {
  sql_ok(a, "INSERT INTO t(t) VALUES('compact')");
  sql_ok(b, "PRAGMA journal_mode = truncate; PRAGMA synchronous = normal;"
            "INSERT INTO t2 VALUES(1, 1)");
  ck_assert_int_eq(files_on_disk(), 1);
}
END_TEST

START_TEST(waiting_removals_outlive_the_connections) {
  sql_ok(a, "INSERT INTO t(t) VALUES('compact')");
  sql_close(a);
  sql_close(b);
  ck_assert_int_eq(files_on_disk(), 3);
  a = twins_connect();
  b = twins_connect();
  one_more_commit();
  ck_assert_int_eq(files_on_disk(), 1);
}
END_TEST

/* ---- Who holds files */

START_TEST(cursor_holds_the_files_that_it_reads) {
  fill_both();
  sqlite3_stmt *cursor;
  ck_assert_int_eq(sqlite3_prepare_v2(a, "SELECT k, v FROM t", -1, &cursor, NULL), SQLITE_OK);
  ck_assert_int_eq(sqlite3_step(cursor), SQLITE_ROW);
  sql_ok(a, "INSERT INTO t(t) VALUES('compact')");
  one_more_commit();
  ck_assert_int_eq(files_on_disk(), 3);
  int rows = 1;
  while (sqlite3_step(cursor) == SQLITE_ROW) rows++;
  ck_assert_int_eq(rows, 153);
  sqlite3_finalize(cursor);
  one_more_commit();
  ck_assert_int_eq(files_on_disk(), 1);
}
END_TEST

START_TEST(snapshot_of_another_connection_holds_files) {
  fill_both();
  sql_ok(b, "BEGIN");
  sql_int(b, "SELECT count(*) FROM o");
  sql_ok(a, "INSERT INTO t(t) VALUES('compact')");
  one_more_commit();
  one_more_commit();
  ck_assert_int_eq(files_on_disk(), 3);
  twins_same(b);
  sql_ok(b, "COMMIT");
  one_more_commit();
  twins_same(b);
  one_more_commit();
  ck_assert_int_eq(files_on_disk(), 1);
}
END_TEST

static sqlite3_int64 statistic(const char *name) {
  char *sql =
      sqlite3_mprintf("SELECT value FROM colfam_stats WHERE name = %Q AND table_name = 't'", name);
  sqlite3_int64 value = sql_int(a, sql);
  sqlite3_free(sql);
  return value;
}

/* What a connection remembers between statements is a cache. */
START_TEST(idle_connections_hold_no_files) {
  sqlite3 *idle[12];
  fill_both();
  for (int i = 0; i < 12; i++) {
    idle[i] = twins_connect();
    twins_same(idle[i]);
  }
  sql_ok(a, "INSERT INTO t(t) VALUES('compact')");
  one_more_commit();
  ck_assert_int_eq(files_on_disk(), 1);
  for (int i = 0; i < 12; i++) {
    twins_same(idle[i]);
    sql_close(idle[i]);
  }
}
END_TEST

START_TEST(idle_connection_and_busy_writer) {
  fill_both();
  for (int i = 0; i < 40; i++) {
    twins_insert(a, 1000 + 10 * i, 1009 + 10 * i);
    if (i % 10 == 0) twins_same(b); /* idle in between */
    sql_ok(a, "INSERT INTO t(t) VALUES('compact')");
    one_more_commit();
    ck_assert_int_le(files_on_disk(), 2);
    ck_assert_int_le(statistic("files_waiting"), 1);
    ck_assert_int_le(statistic("views"), 3);
  }
  twins_same(b);
}
END_TEST

START_TEST(statistics_show_what_a_snapshot_holds) {
  fill_both();
  sql_int(a, "SELECT count(v) FROM t");
  ck_assert_int_eq(statistic("view_pinned_bytes"), 0);
  ck_assert_int_eq(statistic("oldest_view_ms"), 0);
  sqlite3_int64 bytes = sql_int(a, "SELECT sum(bytes) FROM t_cffile");
  sqlite3_stmt *reader = twins_reader("t");
  sql_ok(a, "INSERT INTO t(t) VALUES('compact')");
  one_more_commit();
  ck_assert_int_eq(statistic("view_pinned_bytes"), bytes);
  ck_assert_int_eq(statistic("files_waiting"), 2);
  while (statistic("oldest_view_ms") == 0) {
  }
  sqlite3_finalize(reader);
  one_more_commit();
  one_more_commit();
  ck_assert_int_eq(statistic("view_pinned_bytes"), 0);
  ck_assert_int_eq(statistic("files_waiting"), 0);
  ck_assert_int_eq(files_on_disk(), 1);
}
END_TEST

/* ---- Dropped tables, jobs undone */

START_TEST(dropped_table_takes_its_files_and_the_directory) {
  fill_both();
  sql_ok(a, "BEGIN; DROP TABLE t");
  ck_assert_int_eq(files_on_disk(), 2);
  sql_ok(a, "COMMIT");
  ck_assert_int_eq(files_on_disk(), 0);
  ck_assert_int_ne(access(sql_path("app.db-colfam"), F_OK), 0);
  sql_ok(a, "DROP TABLE o;" TWINS_SCHEMA);
}
END_TEST

START_TEST(dropped_table_read_by_another_connection) {
  fill_both();
  twins_same(b);
  sql_ok(a, "DROP TABLE t; DROP TABLE o;" TWINS_SCHEMA);
  twins_same(b);
  one_more_commit();
  ck_assert_int_eq(files_on_disk(), 0);
}
END_TEST

START_TEST(files_of_an_undone_job_go_at_once) {
  static const char *const undone[] = {
      "BEGIN; INSERT INTO t(t) VALUES('flush'); ROLLBACK",
      "BEGIN; INSERT INTO t(t) VALUES('flush'); INSERT INTO t(t) VALUES('compact'); ROLLBACK",
      "BEGIN; INSERT INTO t(t) VALUES('compact'); DROP TABLE t; ROLLBACK",
      "SAVEPOINT s; ALTER TABLE t RENAME TO u; INSERT INTO u(u) VALUES('compact'); ROLLBACK",
  };
  fill_both();
  for (size_t i = 0; i < sizeof undone / sizeof *undone; i++) {
    sql_ok(a, undone[i]);
    ck_assert_msg(files_on_disk() == 2, "%s", undone[i]);
    twins_same(a);
  }
}
END_TEST

static int refuse(void *unused) {
  (void)unused;
  return 1;
}

START_TEST(files_of_a_vetoed_commit_go_at_once) {
  fill_both();
  sqlite3_commit_hook(a, refuse, NULL);
  sql_fails(a, "INSERT INTO t(t) VALUES('compact')", SQLITE_CONSTRAINT_COMMITHOOK, NULL);
  sqlite3_commit_hook(a, NULL, NULL);
  ck_assert_int_eq(files_on_disk(), 2);
  twins_same(a);
}
END_TEST

START_TEST(files_of_a_closed_transaction_go_at_once) {
  fill_both();
  sql_ok(a, "BEGIN; INSERT INTO t(t) VALUES('compact'); INSERT INTO t VALUES(-9, 1)");
  ck_assert_int_eq(files_on_disk(), 3);
  sql_close(a);
  ck_assert_int_eq(files_on_disk(), 2);
  a = twins_connect();
}
END_TEST

START_TEST(commits_alone_leave_only_named_files) {
  sql_close(b);
  for (int i = 0; i < 60; i++) {
    twins_both(a, "INSERT OR REPLACE INTO @ SELECT count(*) % 37, printf('%03000d', 1) FROM @");
    twins_both(a, "DELETE FROM @ WHERE k = (SELECT max(k) FROM @) AND k > 30");
    /* one more is of a merge that the next commits go on with */
    ck_assert_int_le(files_on_disk() - files_named(), 1);
  }
  ck_assert_int_gt(files_named(), 0);
  sql_close(a);
  a = twins_connect();
  ck_assert_int_eq(files_on_disk(), files_named());
  b = twins_connect();
}
END_TEST

START_TEST(everything_deleted_and_compacted_takes_no_space) {
  twins_insert(a, 1, 20000);
  sql_ok(a, "INSERT INTO t(t) VALUES('compact')");
  ck_assert_int_ge(files_on_disk(), 1);
  twins_both(a, "DELETE FROM @");
  sql_ok(a, "INSERT INTO t(t) VALUES('compact')");
  one_more_commit();
  ck_assert_int_eq(files_on_disk(), 0);
  ck_assert_int_lt(sql_int(a, "SELECT ifnull(sum(length(batch)), 0) FROM t_cflog"), 1000);
}
END_TEST

START_TEST(removed_file_is_the_old_one) {
  fill_both();
  sqlite3_int64 old = sql_int(a, "SELECT id FROM t_cffile ORDER BY seq LIMIT 1");
  ck_assert(is_on_disk(old));
  sql_ok(a, "INSERT INTO t(t) VALUES('compact')");
  ck_assert(!is_on_disk(old));
  ck_assert(is_on_disk(sql_int(a, "SELECT id FROM t_cffile")));
}
END_TEST

static void add_journal_modes(Suite *suite) {
  TCase *tc = tcase_create("journal modes");
  tcase_add_checked_fixture(tc, twins_open_delete, twins_close);
  tcase_add_loop_test(tc, old_files_go_with_the_commit_that_the_journal_mode_needs, 0,
                      (int)(MODES * SYNCS));
  tcase_add_test(tc, exclusive_locking_makes_a_commit_durable_that_deletes_its_journal);
  tcase_add_test(tc, exclusive_locking_does_not_when_the_journal_is_truncated);
  suite_add_tcase(suite, tc);
}

static void add_next_commit(Suite *suite) {
  TCase *tc = tcase_create("the next commit");
  tcase_add_checked_fixture(tc, open_truncate, twins_close);
  tcase_add_test(tc, commit_over_several_tables_is_one_commit);
  tcase_add_test(tc, files_dropped_in_a_commit_that_sweeps_wait_too);
  tcase_add_test(tc, commit_that_writes_nothing_does_not_count);
  tcase_add_test(tc, commit_that_fails_does_not_count);
  tcase_add_test(tc, commit_of_another_connection_counts);
  tcase_add_test(tc, waiting_removals_outlive_the_connections);
  suite_add_tcase(suite, tc);
}

static void add_holders(Suite *suite, const char *name, SFun open) {
  TCase *tc = tcase_create(name);
  tcase_set_timeout(tc, 30);
  tcase_add_checked_fixture(tc, open, twins_close);
  tcase_add_test(tc, cursor_holds_the_files_that_it_reads);
  if (open == twins_open_wal) {
    tcase_add_test(tc, snapshot_of_another_connection_holds_files);
    tcase_add_test(tc, statistics_show_what_a_snapshot_holds);
  }
  tcase_add_test(tc, idle_connections_hold_no_files);
  tcase_add_test(tc, idle_connection_and_busy_writer);
  tcase_add_test(tc, dropped_table_takes_its_files_and_the_directory);
  tcase_add_test(tc, dropped_table_read_by_another_connection);
  tcase_add_test(tc, files_of_an_undone_job_go_at_once);
  tcase_add_test(tc, files_of_a_vetoed_commit_go_at_once);
  tcase_add_test(tc, files_of_a_closed_transaction_go_at_once);
  tcase_add_test(tc, commits_alone_leave_only_named_files);
  tcase_add_test(tc, everything_deleted_and_compacted_takes_no_space);
  tcase_add_test(tc, removed_file_is_the_old_one);
  suite_add_tcase(suite, tc);
}

int main(void) {
  Suite *suite = suite_create("removal of files");
  add_journal_modes(suite);
  add_next_commit(suite);
  add_holders(suite, "rollback journal", twins_open_delete);
  add_holders(suite, "wal", twins_open_wal);
  return harness_run(suite);
}
