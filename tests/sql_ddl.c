/* DROP and RENAME of colfam tables, alone and in transactions; odd names, lost data directories, several
** connections, VACUUM, databases in memory and databases that are refused. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "harness_ddl.h"

static sqlite3 *db;

static void open_database(void) {
  db = sql_open(sql_path("app.db"));
}

static void close_database(void) {
  sql_close(db);
}

static void reopen(void) {
  close_database();
  open_database();
}

/* ---- DROP */

START_TEST(drop_takes_shadow_tables_and_files) {
  ddl_make_table(db, "t", 100);
  ddl_make_table(db, "u", 100);
  sql_rows(db, SHADOWS, "6");
  ck_assert_int_eq(ddl_files(), 2);
  sql_ok(db, "DROP TABLE t");
  sql_rows(db, SHADOWS, "3");
  sql_fails(db, "SELECT * FROM t", SQLITE_ERROR, "no such table: t");
  sql_ok(db, "INSERT INTO u VALUES(1000, 'x'); INSERT INTO u VALUES(1001, 'x')");
  ck_assert_int_eq(ddl_files(), 1);
  sql_rows(db, "SELECT count(*) FROM u", "102");
  sql_rows(db, "SELECT * FROM colfam_check('u')", "");
}
END_TEST

START_TEST(drop_and_create_again_starts_empty) {
  ddl_make_table(db, "t", 10);
  sql_ok(db, "DROP TABLE t; CREATE VIRTUAL TABLE t USING colfam(a, b, PRIMARY KEY(a, b))");
  sql_rows(db, "SELECT count(*) FROM t", "0");
  sql_ok(db, "INSERT INTO t VALUES(1, 2)");
  reopen();
  sql_rows(db, "SELECT a, b FROM t", "1|2");
  sql_rows(db, "SELECT * FROM colfam_check('t')", "");
}
END_TEST

START_TEST(drop_rolled_back_brings_everything_back) {
  ddl_make_table(db, "t", 50);
  sql_ok(db, "INSERT INTO t VALUES(1000, 'logged')");
  sql_ok(db, "BEGIN; DROP TABLE t");
  sql_fails(db, "SELECT * FROM t", SQLITE_ERROR, "no such table");
  sql_ok(db, "ROLLBACK");
  sql_rows(db, "SELECT count(*), max(k) FROM t", "51|1000");
  sql_rows(db, "SELECT * FROM colfam_check('t')", "");
  sql_ok(db, "INSERT INTO t VALUES(1001, 'after')");
  reopen();
  sql_rows(db, "SELECT count(*), max(k) FROM t", "52|1001");
  ck_assert_int_eq(ddl_files(), 1);
}
END_TEST

START_TEST(drop_after_writes_in_the_same_transaction) {
  ddl_make_table(db, "t", 5);
  sql_ok(db, "BEGIN; INSERT INTO t VALUES(10, 'x'); DROP TABLE t; ROLLBACK");
  sql_rows(db, "SELECT count(*) FROM t", "5");
  sql_ok(db,
         "BEGIN; INSERT INTO t VALUES(10, 'x'); DELETE FROM t WHERE k = 1; DROP TABLE t; COMMIT");
  sql_rows(db, SHADOWS, "0");
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(k PRIMARY KEY)");
  sql_rows(db, "SELECT count(*) FROM t", "0");
}
END_TEST

START_TEST(drop_to_a_savepoint_keeps_what_was_written_before) {
  ddl_make_table(db, "t", 5);
  sql_ok(db, "BEGIN; INSERT INTO t VALUES(10, 'x'); SAVEPOINT s; INSERT INTO t VALUES(11, 'y');"
             "DROP TABLE t; ROLLBACK TO s");
  sql_rows(db, "SELECT count(*), max(k) FROM t", "6|10");
  sql_ok(db, "INSERT INTO t VALUES(12, 'z'); COMMIT");
  sql_rows(db, "SELECT count(*), max(k) FROM t", "7|12");
  reopen();
  sql_rows(db, "SELECT k FROM t WHERE k > 5", "10\n12");
  sql_rows(db, "SELECT * FROM colfam_check('t')", "");
}
END_TEST

START_TEST(drop_then_create_in_one_transaction_both_ways) {
  ddl_make_table(db, "t", 5);
  sql_ok(db, "BEGIN; DROP TABLE t; CREATE VIRTUAL TABLE t USING colfam(k INT PRIMARY KEY, v, w);"
             "INSERT INTO t VALUES(1, 2, 3)");
  sql_rows(db, "SELECT * FROM t", "1|2|3");
  sql_ok(db, "ROLLBACK");
  sql_rows(db, "SELECT count(*), max(v) FROM t", "5|v5");
  sql_ok(db, "BEGIN; DROP TABLE t; CREATE VIRTUAL TABLE t USING colfam(k INT PRIMARY KEY, v, w);"
             "INSERT INTO t VALUES(1, 2, 3); COMMIT");
  sql_rows(db, "SELECT * FROM t", "1|2|3");
  reopen();
  sql_rows(db, "SELECT * FROM t", "1|2|3");
  sql_rows(db, "SELECT * FROM colfam_check('t')", "");
}
END_TEST

/* The application's own thing of that name is neither written nor in the way; the files stay. */
START_TEST(drop_beside_something_named_colfam_drops) {
  static const char *const things[][2] = {
      {"CREATE TABLE colfam_drops(dropped)", "DROP TABLE colfam_drops"},
      {"CREATE TABLE Colfam_Drops(other UNIQUE NOT NULL)", "DROP TABLE colfam_drops"},
      {"CREATE TABLE other(x); CREATE VIEW colfam_drops AS SELECT x AS dropped FROM other;"
       "CREATE TRIGGER r INSTEAD OF INSERT ON colfam_drops BEGIN INSERT INTO other VALUES(1); END",
       "DROP VIEW colfam_drops"},
  };
  for (size_t i = 0; i < sizeof things / sizeof *things; i++) {
    ddl_make_table(db, "t", 3);
    int files = ddl_files();
    sql_ok(db, things[i][0]);
    sql_fails(db, "BEGIN; INSERT INTO t VALUES(9, 'x'); DROP TABLE t", SQLITE_LOCKED, NULL);
    sql_rows(db, "SELECT count(*) FROM t", "4");
    sql_ok(db, "ROLLBACK; BEGIN; DROP TABLE t; ROLLBACK; INSERT INTO t VALUES(4, 'x');"
               "SAVEPOINT s; DROP TABLE t; ROLLBACK TO s; INSERT INTO t VALUES(5, 'x'); RELEASE s");
    sql_rows(db, "SELECT count(*) FROM t", "5");
    sql_rows(db, "SELECT * FROM colfam_check('t')", "");
    sql_ok(db, "DROP TABLE t");
    sql_rows(db, SHADOWS, "0");
    sql_rows(db, "SELECT count(*) FROM colfam_drops", "0");
    ck_assert_int_eq(ddl_files(), files);
    sql_ok(db, things[i][1]);
  }
  ddl_make_table(db, "t", 3);
  int files = ddl_files();
  sql_rows(db, "SELECT rowid, * FROM colfam_drops ORDER BY dropped", "");
  sql_rows(db, "SELECT k FROM t WHERE k NOT IN (SELECT dropped FROM colfam_drops) LIMIT 1", "1");
  sql_ok(db, "UPDATE colfam_drops SET dropped = 1; DELETE FROM colfam_drops");
  sql_ok(db, "DROP TABLE t; CREATE VIRTUAL TABLE t USING colfam(k); INSERT INTO t VALUES(1)");
  ck_assert_int_lt(ddl_files(), files);
}
END_TEST

START_TEST(drop_with_an_open_cursor_is_locked) {
  ddl_make_table(db, "t", 5);
  sqlite3_stmt *stmt;
  ck_assert_int_eq(sqlite3_prepare_v2(db, "SELECT k FROM t", -1, &stmt, NULL), SQLITE_OK);
  ck_assert_int_eq(sqlite3_step(stmt), SQLITE_ROW);
  sql_fails(db, "DROP TABLE t", SQLITE_LOCKED, "locked");
  ck_assert_int_eq(sqlite3_step(stmt), SQLITE_ROW);
  sqlite3_finalize(stmt);
  sql_ok(db, "DROP TABLE t");
}
END_TEST

/* ---- RENAME */

START_TEST(rename_keeps_rows_files_and_options) {
  ddl_make_table(db, "t", 20);
  sql_ok(db, "INSERT INTO t VALUES(100, 'logged'); INSERT INTO t(t) VALUES('filter_bits=3');"
             "ALTER TABLE t RENAME TO u");
  sql_rows(db, "SELECT count(*), max(k) FROM u", "21|100");
  sql_fails(db, "SELECT * FROM t", SQLITE_ERROR, "no such table");
  sql_rows(db, "SELECT name FROM sqlite_master WHERE name GLOB '*_cf*' ORDER BY 1",
           "u_cffile\nu_cflog\nu_cfmeta");
  sql_ok(db, "INSERT INTO u VALUES(101, 'x'); INSERT INTO u(u) VALUES('flush');"
             "CREATE VIRTUAL TABLE t USING colfam(k PRIMARY KEY); INSERT INTO t VALUES(1)");
  reopen();
  sql_rows(db, "SELECT count(*), max(k) FROM u", "22|101");
  sql_rows(db, "SELECT count(*) FROM t", "1");
  sql_rows(db, "SELECT options LIKE '%filter_bits = 3%' FROM colfam_families WHERE rows = 22", "1");
  sql_rows(db, "SELECT * FROM colfam_check('u')", "");
}
END_TEST

START_TEST(rename_to_a_name_that_is_taken) {
  ddl_make_table(db, "t", 3);
  sql_ok(db, "CREATE TABLE other(x); CREATE TABLE free_cflog(x)");
  ddl_refused(db, "ALTER TABLE t RENAME TO other", SQLITE_ERROR, "already");
  ddl_refused(db, "ALTER TABLE t RENAME TO free", SQLITE_ERROR, "free_cflog");
  sql_rows(db, "SELECT count(*) FROM t", "3");
  sql_ok(db, "INSERT INTO t VALUES(4, 'x')");
  reopen();
  sql_rows(db, "SELECT count(*) FROM t", "4");
}
END_TEST

START_TEST(rename_inside_transactions) {
  ddl_make_table(db, "t", 3);
  sql_ok(db, "BEGIN; INSERT INTO t VALUES(4, 'a'); ALTER TABLE t RENAME TO u;"
             "INSERT INTO u VALUES(5, 'b')");
  sql_rows(db, "SELECT max(k) FROM u", "5");
  sql_ok(db, "ROLLBACK");
  sql_rows(db, "SELECT count(*), max(k) FROM t", "3|3");
  sql_ok(db, "BEGIN; INSERT INTO t VALUES(4, 'a'); ALTER TABLE t RENAME TO u;"
             "INSERT INTO u VALUES(5, 'b'); COMMIT");
  sql_rows(db, "SELECT count(*), max(k) FROM u", "5|5");
  sql_ok(db, "BEGIN; SAVEPOINT s; INSERT INTO u VALUES(6, 'c'); ALTER TABLE u RENAME TO w;"
             "ROLLBACK TO s; INSERT INTO u VALUES(7, 'd'); COMMIT");
  reopen();
  sql_rows(db, "SELECT k FROM u WHERE k > 3", "4\n5\n7");
  sql_rows(db, "SELECT * FROM colfam_check('u')", "");
}
END_TEST

START_TEST(rename_swap_of_two_tables) {
  ddl_make_table(db, "a", 1);
  ddl_make_table(db, "b", 2);
  sql_ok(db, "BEGIN; ALTER TABLE a RENAME TO x; ALTER TABLE b RENAME TO a;"
             "ALTER TABLE x RENAME TO b; INSERT INTO a VALUES(10, 'a'); COMMIT");
  sql_rows(db, "SELECT (SELECT count(*) FROM a), (SELECT count(*) FROM b)", "3|1");
  reopen();
  sql_rows(db, "SELECT (SELECT count(*) FROM a), (SELECT count(*) FROM b)", "3|1");
}
END_TEST

/* ---- Odd names */

START_TEST(names_of_every_kind_live_through_everything) {
  static const char *const names[] = {
      "two words", "quo\"te",   "apo'strophe", "back`tick",   "brack]et",     "größe",
      "日本",      "select",    "123",         "percent%s%n", "semi;colon",   "dot.ted",
      "UPPER",     "a_cflog_b", "-- comment",  "tab\there",   "slash/../name"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    const char *name = names[i];
    ddl_make_table(db, name, 3);
    sql_okf(db, "INSERT INTO \"%w\" VALUES(9, 'x')", name);
    reopen();
    char *sql = sqlite3_mprintf("SELECT count(*), max(k) FROM \"%w\"", name);
    sql_rows(db, sql, "4|9");
    sqlite3_free(sql);
    char *check = sqlite3_mprintf("SELECT t.table_name, c.* FROM colfam_families t,"
                                  " colfam_check(t.table_name) c");
    sql_rows(db, check, "");
    sqlite3_free(check);
    sql_okf(db, "ALTER TABLE \"%w\" RENAME TO \"%w!\"", name, name);
    sql_okf(db, "INSERT INTO \"%w!\" VALUES(10, 'y')", name);
    sql_okf(db, "DROP TABLE \"%w!\"", name);
    sql_rows(db, "SELECT count(*) FROM sqlite_master", "0");
  }
}
END_TEST

START_TEST(names_of_columns_that_need_quotes) {
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(\"a \"\"b\" TEXT, [select] INT, `x``y`, "
             "'single' REAL, PRIMARY KEY(\"a \"\"b\", [select]));"
             "INSERT INTO t(\"a \"\"b\", \"select\", \"x`y\", single) VALUES('k', 1, 2, 3)");
  sql_rows(db, "SELECT * FROM t WHERE \"a \"\"b\" = 'k' AND \"select\" = 1", "k|1|2|3.0");
  sql_rows(db, "SELECT name FROM pragma_table_info('t')", "a \"b\nselect\nx`y\nsingle");
}
END_TEST

/* ---- The data directory */

START_TEST(directory_missing_then_drop_works) {
  ddl_make_table(db, "t", 10);
  ddl_make_table(db, "sound", 2);
  close_database();
  harness_remove_tree(sql_path("app.db-colfam"));
  open_database();
  sql_fails(db, "SELECT * FROM t", SQLITE_CANTOPEN, "t");
  sql_ok(db, "CREATE TABLE o(x); INSERT INTO o VALUES(1)");
  sql_ok(db, "DROP TABLE t; DROP TABLE sound");
  sql_rows(db, SHADOWS, "0");
  ddl_make_table(db, "t", 4);
  sql_rows(db, "SELECT count(*) FROM t", "4");
  sql_rows(db, "SELECT * FROM colfam_check('t')", "");
}
END_TEST

START_TEST(directory_replaced_by_a_file_or_link_is_an_error_and_drop_works) {
  for (int round = 0; round < 2; round++) {
    ddl_make_table(db, "t", 10);
    close_database();
    harness_remove_tree(sql_path("app.db-colfam"));
    if (round == 0) {
      int file = open(sql_path("app.db-colfam"), O_CREAT | O_WRONLY, 0600);
      ck_assert_int_ge(file, 0);
      close(file);
    } else {
      ck_assert_int_eq(symlink("/nowhere/at/all", sql_path("app.db-colfam")), 0);
    }
    open_database();
    ck_assert_int_ne(sqlite3_exec(db, "SELECT * FROM t", NULL, NULL, NULL), SQLITE_OK);
    sql_ok(db, "DROP TABLE t");
    sql_rows(db, SHADOWS, "0");
    ck_assert_int_eq(unlink(sql_path("app.db-colfam")), 0);
  }
}
END_TEST

START_TEST(damaged_file_hurts_only_its_own_table) {
  ddl_make_table(db, "t", 10);
  char *id = sql_query(db, "SELECT id FROM colfam_files('t')");
  char path[4096];
  snprintf(path, sizeof path, "%s/%s.sst", sql_path("app.db-colfam"), id);
  sqlite3_free(id);
  ddl_make_table(db, "sound", 7);
  close_database();
  ck_assert_int_eq(truncate(path, 20), 0);
  open_database();
  sql_fails(db, "SELECT * FROM t", SQLITE_CORRUPT_VTAB, "table t");
  sql_fails(db, "SELECT * FROM t WHERE k = 1", SQLITE_CORRUPT_VTAB, "table t");
  sql_rows(db, "SELECT count(*), max(v) FROM sound", "7|v7");
  sql_ok(db, "INSERT INTO sound VALUES(100, 'x'); DROP TABLE t");
  sql_rows(db, "SELECT count(*) FROM sound", "8");
  sql_rows(db, "SELECT * FROM colfam_check('sound')", "");
}
END_TEST

START_TEST(damaged_or_missing_shadow_tables_then_drop_works) {
  static const char *const damages[] = {
      "DELETE FROM t_cfmeta",
      "UPDATE t_cfmeta SET value = 'x'",
      "DROP TABLE t_cfmeta",
      "DROP TABLE t_cffile",
      "DROP TABLE t_cflog",
      "DROP TABLE t_cflog; CREATE TABLE t_cflog(a)",
      "UPDATE t_cffile SET smallest = 7, id = 'x' || id WHERE 0; UPDATE t_cffile SET level = 'x'",
  };
  for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
    ddl_make_table(db, "t", 3);
    sql_trust(db);
    sql_ok(db, damages[i]);
    reopen();
    ck_assert_int_ne(sqlite3_exec(db, "SELECT * FROM t", NULL, NULL, NULL), SQLITE_OK);
    sql_ok(db, "DROP TABLE t");
    sql_rows(db, "SELECT count(*) FROM sqlite_master", "0");
  }
}
END_TEST

/* ---- VACUUM and copies */

START_TEST(vacuum_and_integrity_check_with_colfam_tables) {
  ddl_make_table(db, "t", 30);
  sql_ok(db, "INSERT INTO t VALUES(100, 'logged'); VACUUM");
  sql_rows(db, "SELECT count(*), max(k) FROM t", "31|100");
  sql_ok(db, "INSERT INTO t VALUES(101, 'x'); VACUUM; ANALYZE; REINDEX");
  sql_rows(db, "PRAGMA integrity_check", "ok");
  reopen();
  sql_rows(db, "SELECT count(*), max(k) FROM t", "32|101");
  sql_rows(db, "SELECT * FROM colfam_check('t')", "");
}
END_TEST

START_TEST(vacuum_into_copy_says_what_is_missing_and_drop_works_there) {
  ddl_make_table(db, "t", 30);
  sql_okf(db, "VACUUM INTO %Q", sql_path("copy.db"));
  sqlite3 *copy = sql_open(sql_path("copy.db"));
  sql_fails(copy, "SELECT * FROM t", SQLITE_CANTOPEN, "copy it with colfam_backup");
  sql_ok(copy, "DROP TABLE t");
  sql_rows(copy, "SELECT count(*) FROM sqlite_master", "0");
  sql_close(copy);
  sql_rows(db, "SELECT count(*) FROM t", "30");
}
END_TEST

/* ---- Several connections */

START_TEST(connections_see_each_others_ddl) {
  sqlite3 *other = sql_open(sql_path("app.db"));
  ddl_make_table(db, "t", 5);
  sql_rows(other, "SELECT count(*) FROM t", "5");
  sql_ok(other, "INSERT INTO t VALUES(6, 'other')");
  sql_rows(db, "SELECT count(*), max(v) FROM t", "6|v5");
  sql_ok(db, "ALTER TABLE t RENAME TO u; INSERT INTO u VALUES(7, 'x')");
  sql_rows(other, "SELECT count(*) FROM u", "7");
  sql_fails(other, "SELECT count(*) FROM t", SQLITE_ERROR, "no such table");
  sql_ok(other, "DROP TABLE u; CREATE VIRTUAL TABLE u USING colfam(a PRIMARY KEY, b);"
                "INSERT INTO u VALUES(1, 2)");
  sql_rows(db, "SELECT * FROM u", "1|2");
  sql_ok(db, "DROP TABLE u");
  sql_fails(other, "SELECT * FROM u", SQLITE_ERROR, "no such table");
  sql_close(other);
}
END_TEST

START_TEST(connections_reading_in_wal_while_the_table_is_dropped) {
  sql_ok(db, "PRAGMA journal_mode = wal");
  ddl_make_table(db, "t", 500);
  ddl_make_table(db, "u", 1);
  sqlite3 *reader = sql_open(sql_path("app.db"));
  sql_ok(reader, "BEGIN");
  sql_rows(reader, "SELECT count(*) FROM t", "500");
  sql_ok(db, "DROP TABLE t; INSERT INTO u VALUES(2, 'x'); INSERT INTO u VALUES(3, 'x')");
  sql_rows(reader, "SELECT count(*), sum(length(v)) FROM t", "500|1892");
  sql_ok(reader, "COMMIT");
  sql_fails(reader, "SELECT count(*) FROM t", SQLITE_ERROR, "no such table");
  sql_close(reader);
  for (int i = 0; i < 4; i++) sql_okf(db, "INSERT INTO u VALUES(%d, 'y')", 10 + i);
  ck_assert_int_eq(ddl_files(), 1);
}
END_TEST

START_TEST(connections_open_and_close_in_any_order) {
  ddl_make_table(db, "t", 3);
  for (int i = 0; i < 20; i++) {
    sqlite3 *a = sql_open(sql_path("app.db")), *b = sql_open(sql_path("app.db"));
    sql_okf(a, "INSERT INTO t VALUES(%d, 'a')", 100 + i);
    sql_rows(b, "SELECT max(v) FROM t WHERE k > 50", "a");
    sql_close(i % 2 ? a : b);
    sql_close(i % 2 ? b : a);
  }
  sql_rows(db, "SELECT count(*) FROM t", "23");
}
END_TEST

/* ---- Kinds of databases */

START_TEST(reopen_finds_log_files_and_deletes) {
  ddl_make_table(db, "t", 100);
  sql_ok(db, "DELETE FROM t WHERE k % 2; UPDATE t SET v = 'new' WHERE k = 50");
  for (int i = 0; i < 3; i++) {
    reopen();
    sql_rows(db, "SELECT count(*), sum(k) FROM t", "50|2550");
    sql_rows(db, "SELECT v FROM t WHERE k IN (50, 51, 52)", "new\nv52");
    if (i == 0) sql_ok(db, "INSERT INTO t(t) VALUES('flush')");
    if (i == 1) sql_ok(db, "INSERT INTO t(t) VALUES('compact')");
  }
}
END_TEST

START_TEST(read_only_connections_read_and_are_refused_writes) {
  ddl_make_table(db, "t", 3);
  sql_ok(db, "INSERT INTO t VALUES(4, 'logged')");
  sqlite3 *reader;
  ck_assert_int_eq(sqlite3_open_v2(sql_path("app.db"), &reader, SQLITE_OPEN_READONLY, NULL),
                   SQLITE_OK);
  ck_assert_int_eq(sql_load(reader, NULL), SQLITE_OK);
  sql_rows(reader, "SELECT count(*), max(v) FROM t", "4|v3");
  sql_rows(reader, "SELECT v FROM t WHERE k IN (1, 4)", "v1\nlogged");
  sql_rows(reader, "SELECT * FROM colfam_check('t')", "");
  sql_fails(reader, "INSERT INTO t VALUES(5, 'x')", SQLITE_READONLY, "readonly");
  sql_fails(reader, "DROP TABLE t", SQLITE_READONLY, "readonly");
  sql_fails(reader, "CREATE VIRTUAL TABLE u USING colfam(k PRIMARY KEY)", SQLITE_READONLY, NULL);
  sql_close(reader);
  sql_ok(db, "PRAGMA query_only = on");
  sql_fails(db, "INSERT INTO t VALUES(5, 'x')", SQLITE_READONLY, "readonly");
  sql_rows(db, "SELECT count(*) FROM t", "4");
}
END_TEST

START_TEST(memory_and_temporary_databases_keep_files_nowhere) {
  static const char *const paths[] = {":memory:", "", "file:shared?mode=memory&cache=shared"};
  for (size_t i = 0; i < 3; i++) {
    sqlite3 *memory = sql_open(paths[i]);
    sql_ok(memory,
           "CREATE VIRTUAL TABLE t USING colfam(k INT PRIMARY KEY, v);"
           "INSERT INTO t VALUES(1, 'a'), (2, 'b'); INSERT INTO t(t) VALUES('flush');"
           "DELETE FROM t WHERE k = 1; INSERT INTO t(t) VALUES('compact');"
           "ALTER TABLE t RENAME TO u; SAVEPOINT s; DROP TABLE u; ROLLBACK TO s; RELEASE s");
    sql_rows(memory, "SELECT * FROM u", "2|b");
    sql_rows(memory, "SELECT * FROM colfam_check('u')", "");
    sql_ok(memory, "DROP TABLE u");
    sql_close(memory);
  }
  ck_assert_int_eq(access(":memory:-colfam", F_OK), -1);
  ck_assert_int_eq(access("-colfam", F_OK), -1);
}
END_TEST

START_TEST(memory_databases_of_one_process_are_apart) {
  sqlite3 *a = sql_open(":memory:"), *b = sql_open(":memory:");
  sql_ok(a, "CREATE VIRTUAL TABLE t USING colfam(k PRIMARY KEY); INSERT INTO t VALUES('a')");
  sql_ok(b, "CREATE VIRTUAL TABLE t USING colfam(k PRIMARY KEY); INSERT INTO t VALUES('b')");
  sql_rows(a, "SELECT k FROM t", "a");
  sql_rows(b, "SELECT k FROM t", "b");
  sql_close(a);
  sql_rows(b, "SELECT k FROM t", "b");
  sql_close(b);
}
END_TEST

START_TEST(utf16_databases_are_refused) {
  sql_ok(db, "PRAGMA encoding = 'UTF-16le'; CREATE TABLE o(x)");
  ddl_refused(db, "CREATE VIRTUAL TABLE t USING colfam(k TEXT PRIMARY KEY)", SQLITE_ERROR,
              "UTF-16");
}
END_TEST

START_TEST(foreign_vfs_and_lockless_uris_are_refused) {
  char uri[4200];
  sql_ok(db, "CREATE TABLE o(x)");
  snprintf(uri, sizeof uri, "file:%s?nolock=1", sql_path("app.db"));
  sqlite3 *other = sql_open(uri);
  sql_fails(other, "CREATE VIRTUAL TABLE t USING colfam(k PRIMARY KEY)", SQLITE_ERROR,
            "table t: colfam does not support databases opened with immutable or nolock");
  sql_close(other);
  snprintf(uri, sizeof uri, "file:%s?vfs=unix-none", sql_path("app.db"));
  other = sql_open(uri);
  sql_fails(
      other, "CREATE VIRTUAL TABLE t USING colfam(k PRIMARY KEY)", SQLITE_ERROR,
      "table t: colfam keeps files beside the database and supports the VFSes unix, unix-excl "
      "and unix-dotfile, not \"unix-none\"");
  sql_close(other);
  sql_rows(db, "SELECT count(*) FROM sqlite_master", "1");
}
END_TEST

START_TEST(shadow_tables_are_protected_in_defensive_mode) {
  sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
  ddl_make_table(db, "t", 3);
  sql_rows(db, "SELECT DISTINCT type FROM pragma_table_list WHERE name GLOB 't_cf*'", "shadow");
  sql_fails(db, "DELETE FROM t_cflog", SQLITE_ERROR, "may not be modified");
  sql_fails(db, "DROP TABLE t_cfmeta", SQLITE_ERROR, "may not be dropped");
  sql_ok(db, "INSERT INTO t VALUES(4, 'x'); INSERT INTO t(t) VALUES('compact');"
             "ALTER TABLE t RENAME TO u; INSERT INTO u VALUES(5, 'x')");
  sql_rows(db, "SELECT count(*) FROM u", "5");
  sql_ok(db, "DROP TABLE u");
  sql_rows(db, SHADOWS, "0");
}
END_TEST

static void add_drop_and_rename(TCase *tc) {
  tcase_add_test(tc, drop_takes_shadow_tables_and_files);
  tcase_add_test(tc, drop_and_create_again_starts_empty);
  tcase_add_test(tc, drop_rolled_back_brings_everything_back);
  tcase_add_test(tc, drop_after_writes_in_the_same_transaction);
  tcase_add_test(tc, drop_to_a_savepoint_keeps_what_was_written_before);
  tcase_add_test(tc, drop_then_create_in_one_transaction_both_ways);
  tcase_add_test(tc, drop_beside_something_named_colfam_drops);
  tcase_add_test(tc, drop_with_an_open_cursor_is_locked);
  tcase_add_test(tc, rename_keeps_rows_files_and_options);
  tcase_add_test(tc, rename_to_a_name_that_is_taken);
  tcase_add_test(tc, rename_inside_transactions);
  tcase_add_test(tc, rename_swap_of_two_tables);
  tcase_add_test(tc, names_of_every_kind_live_through_everything);
  tcase_add_test(tc, names_of_columns_that_need_quotes);
}

static void add_damage(TCase *tc) {
  tcase_add_test(tc, directory_missing_then_drop_works);
  tcase_add_test(tc, directory_replaced_by_a_file_or_link_is_an_error_and_drop_works);
  tcase_add_test(tc, damaged_file_hurts_only_its_own_table);
  tcase_add_test(tc, damaged_or_missing_shadow_tables_then_drop_works);
  tcase_add_test(tc, vacuum_and_integrity_check_with_colfam_tables);
  tcase_add_test(tc, vacuum_into_copy_says_what_is_missing_and_drop_works_there);
}

static void add_databases(TCase *tc) {
  tcase_add_test(tc, connections_see_each_others_ddl);
  tcase_add_test(tc, connections_reading_in_wal_while_the_table_is_dropped);
  tcase_add_test(tc, connections_open_and_close_in_any_order);
  tcase_add_test(tc, reopen_finds_log_files_and_deletes);
  tcase_add_test(tc, read_only_connections_read_and_are_refused_writes);
  tcase_add_test(tc, memory_and_temporary_databases_keep_files_nowhere);
  tcase_add_test(tc, memory_databases_of_one_process_are_apart);
  tcase_add_test(tc, utf16_databases_are_refused);
  tcase_add_test(tc, foreign_vfs_and_lockless_uris_are_refused);
  tcase_add_test(tc, shadow_tables_are_protected_in_defensive_mode);
}

static Suite *suite(void) {
  Suite *s = suite_create("sql_ddl");
  TCase *tc = tcase_create("ddl");
  tcase_add_checked_fixture(tc, open_database, close_database);
  add_drop_and_rename(tc);
  add_damage(tc);
  add_databases(tc);
  suite_add_tcase(s, tc);
  return s;
}

int main(void) {
  return harness_run(suite());
}
