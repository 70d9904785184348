/* Memory while a table grows to many times what it may keep in memory: loading it in small commits, or in one
** transaction, merging all of it by command, and reading it through take a bounded amount, with the thread
** and without. COLFAM_ROWS is how many rows the one transaction has. What the process took at most is the
** operating system's word (VmHWM); sanitizers keep memory of their own, so there only the rows count. And
** the log in the database file stays as small beside a table that nobody writes. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness_sql.h"

/* 15 MB of rows beside a log of 128 KiB and a cache of 1 MiB. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { COMMITS = 50, GROWTH_KB = 1 << 20 };
#else
enum { COMMITS = 150, GROWTH_KB = 6 << 10 };
#endif
enum { BUDGET = 131072, ROWS = 500, VALUE_BYTES = 200, BATCH = 1 << 20 };

static sqlite3 *db;

static long resident_most_kb(void) {
  char line[200];
  long kb = 0;
  FILE *file = fopen("/proc/self/status", "r");
  ck_assert_ptr_nonnull(file);
  while (fgets(line, sizeof line, file))
    if (strncmp(line, "VmHWM:", 6) == 0) sscanf(line + 6, "%ld", &kb);
  fclose(file);
  ck_assert_int_gt(kb, 0);
  return kb;
}

static void open_db(int threads) {
  sql_use_threads(threads);
  db = sql_open(sql_path("footprint.db"));
  sql_ok(db, "PRAGMA synchronous = off; SELECT colfam_config('cache_bytes', 1048576);"
             "CREATE VIRTUAL TABLE t USING colfam(k INT PRIMARY KEY, v, memtable_bytes = 131072)");
}

static void open_alone(void) {
  open_db(0);
}

static void open_with_thread(void) {
  open_db(1);
}

static void close_db(void) {
  sql_close(db);
  sql_use_threads(0);
}

/* Keys in no order, each once; values that no compression makes shorter. */
static void load_from(int first, int commits) {
  for (int i = first; i < first + commits; i++)
    sql_okf(db,
            "INSERT INTO t WITH RECURSIVE n(i) AS (SELECT %d UNION ALL SELECT i + 1 FROM n WHERE i"
            " < %d) SELECT (i * 2654435761) & 0xffffffff, randomblob(%d) FROM n",
            i * ROWS, i * ROWS + ROWS - 1, VALUE_BYTES);
}

static void read_all(sqlite3_int64 rows) {
  ck_assert_int_eq(sql_int(db, "SELECT sum(length(v)) FROM t"), rows * VALUE_BYTES);
  ck_assert_int_eq(
      sql_int(db, "SELECT count(*) FROM (SELECT k FROM t WHERE v > x'' ORDER BY k DESC)"), rows);
}

START_TEST(many_times_the_budget_takes_bounded_memory) {
  static const char *const phases[] = {"loading", "merging", "reading"};
  load_from(0, COMMITS / 10);
  read_all(COMMITS / 10 * ROWS);
  sql_ok(db, "DELETE FROM t; INSERT INTO t(t) VALUES('compact')");
  long before = resident_most_kb();
  for (int phase = 0; phase < 3; phase++) {
    if (phase == 0) load_from(0, COMMITS);
    if (phase == 1) sql_ok(db, "INSERT INTO t(t) VALUES('compact')");
    if (phase == 2) read_all(COMMITS * ROWS);
    long growth = resident_most_kb() - before;
    printf("footprint: %ld KiB more after %s\n", growth, phases[phase]);
    ck_assert_msg(growth < GROWTH_KB, "%s took %ld KiB", phases[phase], growth);
  }
  ck_assert_int_gt(sql_int(db, "SELECT sum(bytes) FROM colfam_files('t')"),
                   COMMITS * ROWS * VALUE_BYTES);
  sql_rows(db, "SELECT * FROM colfam_check('t')", "");
}
END_TEST

static sqlite3_int64 rows_of_transaction(void) {
  const char *text = getenv("COLFAM_ROWS");
  return text ? strtoll(text, NULL, 10) : 20 * BATCH / (VALUE_BYTES + 8);
}

/* Twenty batches, in parts: each within a savepoint, every fourth rolled back and every fifth deleted again;
** read in between. */
START_TEST(one_transaction_of_many_batches_takes_bounded_memory) {
  sqlite3_int64 rows = rows_of_transaction(), parts = 40, kept = 0, spills;
  load_from(0, COMMITS / 10);
  sql_okf(db,
          "DELETE FROM t; INSERT INTO t(t) VALUES('compact'); SELECT"
          " colfam_config('batch_bytes', %d); BEGIN; SAVEPOINT whole",
          BATCH);
  long before = resident_most_kb();
  for (sqlite3_int64 part = 0; part < parts; part++) {
    sqlite3_int64 first = part * rows / parts, last = (part + 1) * rows / parts - 1;
    sql_okf(db,
            "SAVEPOINT s; INSERT INTO t WITH RECURSIVE n(i) AS (SELECT %lld UNION ALL SELECT i + 1"
            " FROM n WHERE i < %lld) SELECT (i * 2654435761) & 0xffffffff, randomblob(%d) FROM n",
            first, last, VALUE_BYTES);
    bool goes = part % 4 == 3;
    if (part % 5 == 4)
      sql_okf(db,
              "DELETE FROM t WHERE k IN (WITH RECURSIVE n(i) AS (SELECT %lld UNION ALL SELECT"
              " i + 1 FROM n WHERE i < %lld) SELECT (i * 2654435761) & 0xffffffff FROM n)",
              first, last);
    else if (!goes)
      kept += last - first + 1;
    sql_ok(db, goes ? "ROLLBACK TO s; RELEASE s" : "RELEASE s");
    ck_assert_int_eq(sql_int(db, "SELECT count(*) FROM t"), kept);
    ck_assert_int_eq(sql_int(db, "SELECT length(v) FROM t WHERE k = 0"), VALUE_BYTES);
  }
  read_all(kept);
  long writing = resident_most_kb() - before;
  spills = sql_int(db, "SELECT sum(value) FROM colfam_stats WHERE name = 'spills'");
  sql_ok(db, "COMMIT");
  long growth = resident_most_kb() - before;
  printf("footprint: %lld rows in one transaction: %lld batches of %d KiB, %ld KiB more, %ld after "
         "COMMIT\n",
         kept, spills, BATCH >> 10, writing, growth);
  ck_assert_int_ge(spills, 15);
  ck_assert_int_lt(growth, GROWTH_KB);
  read_all(kept);
  ck_assert_int_le(sql_int(db, "SELECT count(DISTINCT seq) FROM t_cffile WHERE level = 0"), 1);
  sql_rows(db, "SELECT * FROM colfam_check('t')", "");
}
END_TEST

/* A table that is written once keeps its row in its log; that of the other is trimmed all the same. */
START_TEST(idle_table_beside_a_busy_one) {
  sql_ok(db, "CREATE VIRTUAL TABLE idle USING colfam(k INT PRIMARY KEY, v);"
             "INSERT INTO idle VALUES(1, 'kept')");
  for (int part = 0; part < 5; part++) {
    load_from(part * 10, 10);
    ck_assert_int_le(sql_int(db, "SELECT log_bytes FROM colfam_families WHERE table_name = 't'"),
                     2 * BUDGET + ROWS * (VALUE_BYTES + 20));
    ck_assert_int_lt(sql_int(db, "SELECT page_count * page_size FROM pragma_page_count,"
                                 " pragma_page_size"),
                     16 * BUDGET);
  }
  sql_rows(db, "SELECT * FROM idle", "1|kept");
  sql_rows(db, "SELECT rows, files FROM colfam_families WHERE table_name = 'idle'", "1|0");
}
END_TEST

static sqlite3_int64 database_bytes(void) {
  return sql_int(db, "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size");
}

/* What a commit writes at most, bytes of rows: small ones, as much as the log may have, and what goes
** straight into files; 0: for a time one, then the other. */
static const struct {
  const char *journal;
  int most_bytes;
} loads[] = {{"wal", 4096},    {"wal", BUDGET},    {"wal", 4 * BUDGET},    {"wal", 0},
             {"delete", 4096}, {"delete", BUDGET}, {"delete", 4 * BUDGET}, {"delete", 0}};

/* Puts, overwrites and deletes of random keys in commits of any size up to the load's. */
static void commit_mixed(struct harness_random *rnd, int most_bytes) {
  int rows = 1 + (int)harness_below(rnd, (uint64_t)most_bytes / (VALUE_BYTES + 10));
  int from = (int)harness_below(rnd, 1000000);
  if (harness_below(rnd, 4) == 0)
    sql_okf(db, "DELETE FROM t WHERE k IN (SELECT k FROM t WHERE k > %d LIMIT %d)", from, rows);
  else
    sql_okf(db,
            "INSERT OR REPLACE INTO t WITH RECURSIVE n(i) AS (SELECT %d UNION ALL SELECT i + 1 FROM"
            " n LIMIT %d) SELECT (i * 48271) %% 1000003, randomblob(%d) FROM n",
            from, rows, VALUE_BYTES);
}

/* The database file has the log and the manifest. What a thread has flushed meanwhile is dead a little later
** than what a commit flushes itself: there it may be three. */
START_TEST(the_database_file_grows_by_twice_the_log_budget) {
  struct harness_random rnd;
  harness_seed(&rnd, harness_seed_env(8));
  sql_okf(db, "PRAGMA journal_mode = %s", loads[_i].journal);
  sqlite3_int64 before = database_bytes(), growth = 0, written = 0, log = 0;
  int commits = 0;
  for (; written < 60 * BUDGET; commits++) {
    int most = loads[_i].most_bytes, turn = commits % 640;
    commit_mixed(&rnd, most ? most : turn < 600 ? 1024 : turn < 620 ? BUDGET : BUDGET / 8);
    sqlite3_int64 bytes =
        sql_int(db, "SELECT log_bytes FROM colfam_families WHERE table_name = 't'");
    if (bytes > log) log = bytes;
    sqlite3_int64 now = database_bytes() - before;
    if (now > growth) growth = now;
    written = sql_int(db, "SELECT sum(value) FROM colfam_stats WHERE name IN ('log_bytes',"
                          " 'flush_bytes')");
  }
  printf("footprint: %s, %d commits of up to %d bytes: the database file grew by %.2f log budgets, "
         "the log had %.2f\n",
         loads[_i].journal, commits, loads[_i].most_bytes, (double)growth / BUDGET,
         (double)log / BUDGET);
  bool alone = sql_int(db, "SELECT colfam_config('threads')") == 0;
  ck_assert_msg(growth <= (alone ? 2 : 3) * BUDGET, "%.2f log budgets", (double)growth / BUDGET);
}
END_TEST

static void add(Suite *suite, const char *name, void (*open)(void)) {
  TCase *tc = tcase_create(name);
  tcase_add_checked_fixture(tc, open, close_db);
  tcase_set_timeout(tc, getenv("COLFAM_ROWS") ? 36000 : 60);
  tcase_add_test(tc, many_times_the_budget_takes_bounded_memory);
  tcase_add_test(tc, one_transaction_of_many_batches_takes_bounded_memory);
  tcase_add_test(tc, idle_table_beside_a_busy_one);
  tcase_add_loop_test(tc, the_database_file_grows_by_twice_the_log_budget, 0, 8);
  suite_add_tcase(suite, tc);
}

int main(void) {
  Suite *suite = suite_create("sql_footprint");
  add(suite, "alone", open_alone);
  add(suite, "with the thread", open_with_thread);
  return harness_run(suite);
}
