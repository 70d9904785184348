/* INSERT INTO t(t) VALUES('flush' | 'compact' | 'option=value'): what is allowed, what errors say, and
** that commands belong to their transaction. */
#include <stdio.h>
#include <string.h>

#include "harness_files.h"
#include "harness_sql.h"

static sqlite3 *db;

static void open_database(void) {
  db = sql_open(sql_path("app.db"));
  sql_rows(db, "PRAGMA journal_mode = wal", "wal");
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(k INT PRIMARY KEY, v);"
             "WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n WHERE i < 100)"
             "INSERT INTO t SELECT i, 'value ' || i FROM n");
}

static void close_database(void) {
  sql_rows(db, "SELECT * FROM colfam_check('t')", "");
  sql_close(db);
}

static void reopen(void) {
  sql_close(db);
  db = sql_open(sql_path("app.db"));
}

static int named_files(void) {
  return (int)sql_int(db, "SELECT count(*) FROM t_cffile");
}

/* The option as colfam_families shows it. */
static void shows(const char *option) {
  char *sql = sqlite3_mprintf("SELECT ', ' || options || ',' LIKE '%%, %q,%%' FROM colfam_families",
                              option);
  char *answer = sql_query(db, sql);
  if (strcmp(answer, "1") != 0) ck_abort_msg("%s is not shown by colfam_families", option);
  sqlite3_free(answer);
  sqlite3_free(sql);
}

static const struct {
  const char *command, *shown, *before;
} changes[] = {
    {"compression=zstd:6", "compression = zstd:6", "compression = zstd:3"},
    {"compression=none", "compression = none", "compression = zstd:3"},
    {"Compression = ZSTD", "compression = zstd:3", "compression = zstd:3"},
    {"filter_bits=0", "filter_bits = 0", "filter_bits = 10"},
    {"FILTER_BITS=20", "filter_bits = 20", "filter_bits = 10"},
    {" filter_bits =\t7 ", "filter_bits = 7", "filter_bits = 10"},
    {"filter_bits=007", "filter_bits = 7", "filter_bits = 10"},
    {"block_bytes=1024", "block_bytes = 1024", "block_bytes = 16384"},
    {"memtable_bytes=16384", "memtable_bytes = 16384", "memtable_bytes = 4194304"},
    {"value_bytes=100", "value_bytes = 100", "value_bytes = 4096"},
    {"value_bytes=0", "value_bytes = 0", "value_bytes = 4096"},
    {"track_rows=off", "track_rows = off", "track_rows = on"},
    {"conflict=replace", "conflict = replace", "conflict = abort"},
};
enum { CHANGES = sizeof changes / sizeof *changes };

static void change(int i) {
  sql_okf(db, "INSERT INTO t(t) VALUES(%Q)", changes[i].command);
}

START_TEST(option_is_changed_and_stays) {
  shows(changes[_i].before);
  change(_i);
  shows(changes[_i].shown);
  reopen();
  shows(changes[_i].shown);
  sql_rows(db,
           "SELECT count(*) FROM t_cfmeta WHERE name LIKE 'option.%'"
           " GROUP BY lower(name) HAVING count(*) > 1",
           "");
  sql_rows(db, "SELECT count(v) FROM t", "100");
}
END_TEST

START_TEST(option_is_rolled_back_with_its_transaction) {
  sql_ok(db, "BEGIN");
  change(_i);
  sql_ok(db, "ROLLBACK");
  shows(changes[_i].before);
  sql_ok(db, "BEGIN; SAVEPOINT s");
  change(_i);
  sql_ok(db, "ROLLBACK TO s; COMMIT");
  shows(changes[_i].before);
  sql_ok(db, "SAVEPOINT s");
  change(_i);
  sql_ok(db, "RELEASE s");
  shows(changes[_i].shown);
  reopen();
  shows(changes[_i].shown);
}
END_TEST

START_TEST(errors_list_what_is_allowed) {
  static const struct {
    const char *command, *text;
  } bad[] = {
      {"vacuum", "table t: unknown command \"vacuum\": flush, compact, or option=value"},
      {"", "unknown command \"\": flush, compact, or option=value"},
      {"flush ", "unknown command \"flush \""},
      {"flush=1", "table t: unknown option flush: the options are compression, filter_bits,"},
      {"=", "unknown option : the options are compression, filter_bits,"},
      {"cache_bytes=1", "unknown option cache_bytes: the options are"},
      {"compression=lz4", "table t: option compression cannot be 'lz4': allowed are none, zstd"},
      {"compression=zstd:20", "allowed are none, zstd, zstd:1 to zstd:19"},
      {"filter_bits=21", "option filter_bits cannot be '21': allowed are 0 to 20"},
      {"filter_bits=-1", "allowed are 0 to 20"},
      {"filter_bits", "unknown command \"filter_bits\""},
      {"filter_bits=", "option filter_bits cannot be '': allowed are 0 to 20"},
      {"filter_bits==1", "cannot be '=1'"},
      {"block_bytes=1000", "allowed are 1024 to 1048576"},
      {"memtable_bytes=99999999999", "allowed are 16384 to 1073741824"},
      {"value_bytes=1048577", "allowed are 0 to 1048576"},
      {"track_rows=maybe", "allowed are on, off"},
      {"conflict=ignore", "allowed are abort, replace"},
      {"comparator=bytewise", "table t: option comparator is fixed at CREATE"},
      {"COMPARATOR=reverse", "option comparator is fixed at CREATE"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    char *sql = sqlite3_mprintf("INSERT INTO t(t) VALUES(%Q)", bad[i].command);
    sql_fails(db, sql, SQLITE_ERROR, bad[i].text);
    sqlite3_free(sql);
  }
  sql_fails(db, "INSERT INTO t(t, k) VALUES('flush', 1)", SQLITE_ERROR, "a command is given by");
  sql_fails(db, "UPDATE t SET t = 'flush'", SQLITE_ERROR, "a command is given by");
  sql_fails(db, "INSERT INTO t(t) VALUES('filter_bits=3'), ('nonsense')", SQLITE_ERROR, "nonsense");
  for (int i = 0; i < CHANGES; i++) shows(changes[i].before);
  ck_assert_int_eq(named_files(), 0);
}
END_TEST

START_TEST(words_in_any_case) {
  sql_ok(db, "INSERT INTO t(t) VALUES('FLUSH')");
  ck_assert_int_eq(named_files(), 1);
  sql_ok(db, "INSERT INTO t VALUES(0, ''); INSERT INTO t(T) VALUES('Compact')");
  ck_assert_int_eq(named_files(), 1);
  sql_rows(db, "SELECT level FROM t_cffile", "1");
}
END_TEST

START_TEST(commands_are_published_with_their_transaction) {
  static const char *const commands[] = {"flush", "compact"};
  sqlite3 *other = sql_open(sql_path("app.db"));
  sql_okf(db, "BEGIN; INSERT INTO t VALUES(1000, 'new'); INSERT INTO t(t) VALUES('%s')",
          commands[_i]);
  sql_rows(other, "SELECT count(*) FROM t_cffile", "0");
  sql_ok(db, "ROLLBACK");
  ck_assert_int_eq(named_files(), 0);
  ck_assert_int_eq(files_on_disk(sql_path("app.db")), 0);
  sql_okf(db, "BEGIN; INSERT INTO t(t) VALUES('%s')", commands[_i]);
  ck_assert_int_eq(files_on_disk(sql_path("app.db")), 1);
  sql_ok(db, "ROLLBACK");
  ck_assert_int_eq(files_on_disk(sql_path("app.db")), 0);
  sql_okf(db, "BEGIN; INSERT INTO t VALUES(1000, 'new'); INSERT INTO t(t) VALUES('%s'); COMMIT",
          commands[_i]);
  ck_assert_int_eq(named_files(), 1);
  sql_rows(other, "SELECT count(*), max(k) FROM t", "101|1000");
  sql_close(other);
}
END_TEST

/* A command is no change of data: ROLLBACK TO undoes the rows, and the work that was asked for may be
** done. */
START_TEST(command_in_a_savepoint_that_is_undone) {
  sql_ok(db, "BEGIN; SAVEPOINT s; DELETE FROM t WHERE k < 50; INSERT INTO t(t) VALUES('compact');"
             "ROLLBACK TO s; INSERT INTO t VALUES(1000, 'new'); COMMIT");
  sql_rows(db, "SELECT count(*), min(k), max(k) FROM t", "101|1|1000");
  reopen();
  sql_rows(db, "SELECT count(*), min(k), max(k) FROM t", "101|1|1000");
}
END_TEST

START_TEST(command_gives_no_rowid_and_no_row) {
  sql_ok(db, "CREATE VIRTUAL TABLE r USING colfam(v); INSERT INTO r VALUES('a')");
  sqlite3_int64 rowid = sqlite3_last_insert_rowid(db);
  sql_ok(db, "INSERT INTO r(r) VALUES('flush'); INSERT INTO r(r) VALUES('filter_bits=3')");
  ck_assert_int_eq(sqlite3_last_insert_rowid(db), rowid);
  sql_rows(db, "SELECT rowid, v FROM r", "1|a");
}
END_TEST

START_TEST(column_of_the_tables_name_moves_the_command) {
  sql_ok(db, "CREATE VIRTUAL TABLE w USING colfam(w PRIMARY KEY); INSERT INTO w(w) VALUES('flush');"
             "INSERT INTO w(colfam_command) VALUES('flush')");
  sql_rows(db, "SELECT w FROM w", "flush");
  sql_rows(db, "SELECT count(*) FROM w_cffile", "1");
}
END_TEST

int main(void) {
  Suite *suite = suite_create("sql_commands");
  TCase *tc = tcase_create("sql_commands");
  tcase_add_checked_fixture(tc, open_database, close_database);
  tcase_add_loop_test(tc, option_is_changed_and_stays, 0, CHANGES);
  tcase_add_loop_test(tc, option_is_rolled_back_with_its_transaction, 0, CHANGES);
  tcase_add_test(tc, errors_list_what_is_allowed);
  tcase_add_test(tc, words_in_any_case);
  tcase_add_loop_test(tc, commands_are_published_with_their_transaction, 0, 2);
  tcase_add_test(tc, command_in_a_savepoint_that_is_undone);
  tcase_add_test(tc, command_gives_no_rowid_and_no_row);
  tcase_add_test(tc, column_of_the_tables_name_moves_the_command);
  suite_add_tcase(suite, tc);
  return harness_run(suite);
}
