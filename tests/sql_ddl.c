/* CREATE, DROP and RENAME of colfam tables: options and refusals, transactions and savepoints around DDL,
** odd names, lost data directories, several connections, VACUUM, databases in memory. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness_sql.h"

#define SHADOWS "SELECT count(*) FROM sqlite_master WHERE name GLOB '*_cf*'"
#define SCHEMA "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY name"

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

/* Table files in the database's directory; -1 when there is no directory. */
static int files_on_disk(void) {
  DIR *dir = opendir(sql_path("app.db-colfam"));
  if (!dir) return -1;
  int count = 0;
  for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
    count += strstr(entry->d_name, ".sst") != NULL;
  }
  closedir(dir);
  return count;
}

/* t with rows (1..n, 'v1'..), flushed into one file. */
static void make_table(const char *name, int n) {
  sql_okf(db, "CREATE VIRTUAL TABLE \"%w\" USING colfam(k INT PRIMARY KEY, v TEXT)", name);
  sql_okf(db,
          "WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n WHERE i < %d)"
          "INSERT INTO \"%w\" SELECT i, 'v' || i FROM n",
          n, name);
  sql_okf(db, "INSERT INTO \"%w\"(\"%w\") VALUES('flush')", name, name);
}

/* The statement fails and leaves the schema and the disk as they were. */
static void refused(const char *sql, int code, const char *text) {
  char *before = sql_query(db, SCHEMA);
  int files = files_on_disk();
  sql_fails(db, sql, code, text);
  sql_rows(db, SCHEMA, before);
  ck_assert_int_eq(files_on_disk(), files);
  ck_assert_int_eq(sqlite3_get_autocommit(db), 1);
  sqlite3_free(before);
}

/* ---- Options */

START_TEST(create_takes_every_option_at_its_bounds) {
  static const char *const options[][2] = {
      {"compression", "none"},    {"compression", "zstd:1"},   {"compression", "zstd:19"},
      {"filter_bits", "0"},       {"filter_bits", "20"},       {"block_bytes", "1024"},
      {"block_bytes", "1048576"}, {"memtable_bytes", "16384"}, {"memtable_bytes", "1073741824"},
      {"track_rows", "on"},       {"track_rows", "off"},       {"conflict", "abort"},
      {"conflict", "replace"},    {"comparator", "bytewise"},
  };
  for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
    const char *name = options[i][0], *value = options[i][1];
    sql_okf(db, "CREATE VIRTUAL TABLE t USING colfam(k PRIMARY KEY, v, %s = %s)", name, value);
    char *sql =
        sqlite3_mprintf("SELECT options LIKE '%%%s = %s%%' FROM colfam_families", name, value);
    if (strcmp(name, "comparator")) sql_rows(db, sql, "1");
    sqlite3_free(sql);
    sql_ok(db, "INSERT INTO t VALUES(1, 'a'), (2, 'b'); INSERT INTO t(t) VALUES('flush')");
    reopen();
    sql_rows(db, "SELECT k, v FROM t WHERE k IN (1, 2, 3)", "1|a\n2|b");
    sql_rows(db, "SELECT * FROM colfam_check('t')", "");
    sql_ok(db, "DROP TABLE t");
  }
}
END_TEST

START_TEST(create_without_options_takes_the_defaults) {
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(k PRIMARY KEY)");
  char *options = sql_query(db, "SELECT options FROM colfam_families");
  static const char *const defaults[] = {"compression = zstd:3", "filter_bits = 10",
                                         "block_bytes = 16384",  "memtable_bytes = 4194304",
                                         "track_rows = on",      "conflict = abort"};
  for (size_t i = 0; i < sizeof defaults / sizeof *defaults; i++) {
    ck_assert_msg(strstr(options, defaults[i]) != NULL, "no %s in %s", defaults[i], options);
  }
  sqlite3_free(options);
}
END_TEST

START_TEST(create_option_spellings) {
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(k PRIMARY KEY, Compression=ZSTD , "
             "filter_bits\n=\t7, track_rows = OFF)");
  sql_rows(db,
           "SELECT options LIKE '%compression = zstd:3%filter_bits = 7%track_rows = off%'"
           " FROM colfam_families",
           "1");
}
END_TEST

START_TEST(create_refuses_bad_options_and_lists_what_is_allowed) {
  static const char *const bad[][2] = {
      {"speed = fast", "compression"},
      {"compression = lz4", "zstd"},
      {"compression = zstd:0", "19"},
      {"compression = zstd:20", "19"},
      {"compression = ", "compression"},
      {"filter_bits = -1", "20"},
      {"filter_bits = 21", "20"},
      {"filter_bits = ten", "20"},
      {"filter_bits = 1.5", "20"},
      {"filter_bits = 99999999999999999999", "20"},
      {"block_bytes = 1023", "1024"},
      {"block_bytes = 1048577", "1048576"},
      {"memtable_bytes = 16383", "16384"},
      {"memtable_bytes = 1073741825", "1073741824"},
      {"track_rows = maybe", "on"},
      {"conflict = ignore", "replace"},
      {"value_bytes = 100", "value_bytes"},
      {"comparator = reverse", "comparator"},
      {"comparator = mine", "comparator"},
      {"filter_bits = 5, filter_bits = 6", "filter_bits"},
      {"filter_bits = 5, FILTER_BITS = 5", "filter_bits"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    char *sql =
        sqlite3_mprintf("CREATE VIRTUAL TABLE t USING colfam(k PRIMARY KEY, v, %s)", bad[i][0]);
    refused(sql, SQLITE_ERROR, bad[i][1]);
    sqlite3_free(sql);
  }
}
END_TEST

/* ---- Columns */

START_TEST(create_refuses_clauses_that_sqlite_would_not_enforce) {
  static const char *const bad[][2] = {
      {"k PRIMARY KEY, v CHECK (v > 0)", "CHECK"},
      {"k PRIMARY KEY, v DEFAULT 5", "DEFAULT"},
      {"k PRIMARY KEY, v UNIQUE", "UNIQUE"},
      {"k PRIMARY KEY, v AS (k + 1)", "AS"},
      {"k PRIMARY KEY, v INT GENERATED ALWAYS AS (k + 1) STORED", "GENERATED"},
      {"k PRIMARY KEY, v REFERENCES other(x)", "REFERENCES"},
      {"k PRIMARY KEY, v, UNIQUE(v)", "UNIQUE"},
      {"k PRIMARY KEY, v, CHECK(v > 0)", "CHECK"},
      {"k PRIMARY KEY, v, FOREIGN KEY(v) REFERENCES other(x)", "FOREIGN"},
      {"k INTEGER PRIMARY KEY AUTOINCREMENT, v", "AUTOINCREMENT"},
      {"k PRIMARY KEY ON CONFLICT REPLACE, v", "CONFLICT"},
      {"k TEXT COLLATE NOCASE PRIMARY KEY, v", "NOCASE"},
      {"k TEXT COLLATE RTRIM, v, PRIMARY KEY(k)", "RTRIM"},
      {"k COLLATE nowhere PRIMARY KEY, v", "nowhere"},
      {"k PRIMARY KEY, k", "k"},
      {"k PRIMARY KEY, K", "K"},
      {"k PRIMARY KEY, v PRIMARY KEY", "PRIMARY KEY"},
      {"k PRIMARY KEY, v, PRIMARY KEY(v)", "PRIMARY KEY"},
      {"a, b, PRIMARY KEY(a, c)", "c"},
      {"a, b, PRIMARY KEY(a, a)", "a"},
      {"a, b, PRIMARY KEY()", NULL},
      {"a, b, PRIMARY KEY(a", NULL},
      {"\"k PRIMARY KEY", NULL},
      {"", "column"},
      {"filter_bits = 4", "column"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    char *sql = sqlite3_mprintf("CREATE VIRTUAL TABLE t USING colfam(%s)", bad[i][0]);
    refused(sql, SQLITE_ERROR, bad[i][1]);
    sqlite3_free(sql);
  }
  refused("CREATE VIRTUAL TABLE t USING colfam", SQLITE_ERROR, "column");
}
END_TEST

START_TEST(create_takes_key_forms_and_column_types) {
  static const char *const good[] = {
      "k PRIMARY KEY",
      "k TEXT PRIMARY KEY NOT NULL, v VARCHAR(30) NOT NULL",
      "k INT PRIMARY KEY ASC, v UNSIGNED BIG INT",
      "k INTEGER PRIMARY KEY DESC, v",
      "k INTEGER PRIMARY KEY, v DECIMAL(10, 5)",
      "a, b, c, PRIMARY KEY(c, a DESC)",
      "a, b, PRIMARY KEY(b)",
      "a, b",
      "\"a b\" TEXT, [c d] INT, `e f` REAL, PRIMARY KEY(\"a b\", [c d])",
      "a TEXT COLLATE BINARY, b, PRIMARY KEY(a)",
      "t, v, PRIMARY KEY(t)",
      "k PRIMARY KEY, v TEXT COLLATE NOCASE",
  };
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
    sql_okf(db, "CREATE VIRTUAL TABLE t USING colfam(%s)", good[i]);
    sql_rows(db, "SELECT count(*) FROM t", "0");
    reopen();
    sql_rows(db, "SELECT count(*) FROM t", "0");
    sql_rows(db, "SELECT * FROM colfam_check('t')", "");
    sql_ok(db, "DROP TABLE t");
    sql_rows(db, SHADOWS, "0");
  }
}
END_TEST

START_TEST(create_command_column_gives_way_to_a_column_of_the_tables_name) {
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(t INT PRIMARY KEY, v);"
             "INSERT INTO t VALUES(1, 'a'); INSERT INTO t(colfam_command) VALUES('flush');"
             "INSERT INTO t(t) VALUES(2)");
  sql_rows(db, "SELECT t, v FROM t ORDER BY t", "1|a\n2|NULL");
  sql_rows(db, "SELECT count(*) FROM colfam_files('t')", "1");
}
END_TEST

/* ---- Names that are taken */

START_TEST(create_refuses_a_shadow_name_that_is_taken) {
  static const char *const shadows[] = {"t_cfmeta", "t_cffile", "t_cflog"};
  static const char *const kinds[] = {"CREATE TABLE %s(x)", "CREATE VIEW %s AS SELECT 1 AS x",
                                      "CREATE TABLE base(x); CREATE INDEX %s ON base(x)"};
  for (size_t i = 0; i < 3; i++) {
    for (size_t k = 0; k < 3; k++) {
      sql_okf(db, kinds[k], shadows[i]);
      refused("CREATE VIRTUAL TABLE t USING colfam(k PRIMARY KEY)", SQLITE_ERROR, shadows[i]);
      sql_rows(db, "SELECT count(*) FROM sqlite_master WHERE name = 't'", "0");
      sql_okf(db,
              k == 0   ? "DROP TABLE %s"
              : k == 1 ? "DROP VIEW %s"
                       : "DROP TABLE base",
              shadows[i]);
    }
  }
  sql_ok(db, "CREATE TABLE T_CFLOG(x); INSERT INTO t_cflog VALUES('mine')");
  refused("CREATE VIRTUAL TABLE t USING colfam(k PRIMARY KEY)", SQLITE_ERROR, "t_cflog");
  sql_rows(db, "SELECT x FROM t_cflog", "mine");
  sql_ok(db, "DROP TABLE t_cflog; CREATE VIRTUAL TABLE t USING colfam(k PRIMARY KEY)");
}
END_TEST

START_TEST(create_of_a_table_that_exists) {
  make_table("t", 3);
  refused("CREATE VIRTUAL TABLE t USING colfam(k PRIMARY KEY)", SQLITE_ERROR, "already");
  refused("CREATE TABLE t(x)", SQLITE_ERROR, "already");
  sql_ok(db, "CREATE VIRTUAL TABLE IF NOT EXISTS t USING colfam(other PRIMARY KEY)");
  sql_rows(db, "SELECT count(*) FROM t", "3");
  sql_ok(db, "CREATE TABLE ordinary(x)");
  refused("CREATE VIRTUAL TABLE ordinary USING colfam(k PRIMARY KEY)", SQLITE_ERROR, "already");
}
END_TEST

START_TEST(create_failing_inside_a_transaction_keeps_the_transaction) {
  sql_ok(db, "CREATE TABLE t_cflog(x); BEGIN; INSERT INTO t_cflog VALUES(1)");
  sql_fails(db, "CREATE VIRTUAL TABLE t USING colfam(k PRIMARY KEY)", SQLITE_ERROR, "t_cflog");
  sql_fails(db, "CREATE VIRTUAL TABLE u USING colfam(k PRIMARY KEY, nonsense = 1)", SQLITE_ERROR,
            "nonsense");
  sql_ok(db, "INSERT INTO t_cflog VALUES(2); COMMIT");
  sql_rows(db, "SELECT x FROM t_cflog", "1\n2");
  sql_rows(db, "SELECT count(*) FROM sqlite_master", "1");
}
END_TEST

/* ---- DROP */

START_TEST(drop_takes_shadow_tables_and_files) {
  make_table("t", 100);
  make_table("u", 100);
  sql_rows(db, SHADOWS, "6");
  ck_assert_int_eq(files_on_disk(), 2);
  sql_ok(db, "DROP TABLE t");
  sql_rows(db, SHADOWS, "3");
  sql_fails(db, "SELECT * FROM t", SQLITE_ERROR, "no such table: t");
  sql_ok(db, "INSERT INTO u VALUES(1000, 'x'); INSERT INTO u VALUES(1001, 'x')");
  ck_assert_int_eq(files_on_disk(), 1);
  sql_rows(db, "SELECT count(*) FROM u", "102");
  sql_rows(db, "SELECT * FROM colfam_check('u')", "");
}
END_TEST

START_TEST(drop_and_create_again_starts_empty) {
  make_table("t", 10);
  sql_ok(db, "DROP TABLE t; CREATE VIRTUAL TABLE t USING colfam(a, b, PRIMARY KEY(a, b))");
  sql_rows(db, "SELECT count(*) FROM t", "0");
  sql_ok(db, "INSERT INTO t VALUES(1, 2)");
  reopen();
  sql_rows(db, "SELECT a, b FROM t", "1|2");
  sql_rows(db, "SELECT * FROM colfam_check('t')", "");
}
END_TEST

START_TEST(drop_rolled_back_brings_everything_back) {
  make_table("t", 50);
  sql_ok(db, "INSERT INTO t VALUES(1000, 'logged')");
  sql_ok(db, "BEGIN; DROP TABLE t");
  sql_fails(db, "SELECT * FROM t", SQLITE_ERROR, "no such table");
  sql_ok(db, "ROLLBACK");
  sql_rows(db, "SELECT count(*), max(k) FROM t", "51|1000");
  sql_rows(db, "SELECT * FROM colfam_check('t')", "");
  sql_ok(db, "INSERT INTO t VALUES(1001, 'after')");
  reopen();
  sql_rows(db, "SELECT count(*), max(k) FROM t", "52|1001");
  ck_assert_int_eq(files_on_disk(), 1);
}
END_TEST

START_TEST(drop_after_writes_in_the_same_transaction) {
  make_table("t", 5);
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
  make_table("t", 5);
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
  make_table("t", 5);
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

START_TEST(drop_with_an_open_cursor_is_locked) {
  make_table("t", 5);
  sqlite3_stmt *stmt;
  ck_assert_int_eq(sqlite3_prepare_v2(db, "SELECT k FROM t", -1, &stmt, NULL), SQLITE_OK);
  ck_assert_int_eq(sqlite3_step(stmt), SQLITE_ROW);
  sql_fails(db, "DROP TABLE t", SQLITE_LOCKED, "locked");
  ck_assert_int_eq(sqlite3_step(stmt), SQLITE_ROW);
  sqlite3_finalize(stmt);
  sql_ok(db, "DROP TABLE t");
}
END_TEST

/* ---- CREATE in transactions */

START_TEST(create_rolled_back_leaves_nothing) {
  sql_ok(db, "BEGIN; CREATE VIRTUAL TABLE t USING colfam(k PRIMARY KEY); INSERT INTO t VALUES(1);"
             "INSERT INTO t(t) VALUES('flush')");
  sql_rows(db, "SELECT k FROM t", "1");
  sql_ok(db, "ROLLBACK");
  sql_rows(db, "SELECT count(*) FROM sqlite_master", "0");
  ck_assert_int_le(files_on_disk(), 0);
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(k PRIMARY KEY)");
  sql_rows(db, "SELECT count(*) FROM t", "0");
}
END_TEST

START_TEST(create_and_write_commit_together) {
  sql_ok(db, "CREATE TABLE o(x); BEGIN; CREATE VIRTUAL TABLE t USING colfam(k PRIMARY KEY);"
             "INSERT INTO t VALUES(1), (2); INSERT INTO o VALUES(1); DELETE FROM t WHERE k = 1;"
             "COMMIT");
  reopen();
  sql_rows(db, "SELECT k FROM t", "2");
  sql_ok(db, "BEGIN; CREATE VIRTUAL TABLE u USING colfam(k PRIMARY KEY); COMMIT");
  sql_rows(db, "SELECT * FROM colfam_check('u')", "");
}
END_TEST

START_TEST(create_inside_savepoints) {
  sql_ok(db, "SAVEPOINT a; CREATE VIRTUAL TABLE t USING colfam(k PRIMARY KEY);"
             "INSERT INTO t VALUES(1); SAVEPOINT b; INSERT INTO t VALUES(2); ROLLBACK TO b");
  sql_rows(db, "SELECT k FROM t", "1");
  sql_ok(db, "ROLLBACK TO a");
  sql_fails(db, "SELECT k FROM t", SQLITE_ERROR, "no such table");
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(k PRIMARY KEY, v); INSERT INTO t VALUES(7, 8);"
             "RELEASE a");
  sql_rows(db, "SELECT * FROM t", "7|8");
  reopen();
  sql_rows(db, "SELECT * FROM t", "7|8");
}
END_TEST

/* ---- RENAME */

START_TEST(rename_keeps_rows_files_and_options) {
  make_table("t", 20);
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
  make_table("t", 3);
  sql_ok(db, "CREATE TABLE other(x); CREATE TABLE free_cflog(x)");
  refused("ALTER TABLE t RENAME TO other", SQLITE_ERROR, "already");
  refused("ALTER TABLE t RENAME TO free", SQLITE_ERROR, "free_cflog");
  sql_rows(db, "SELECT count(*) FROM t", "3");
  sql_ok(db, "INSERT INTO t VALUES(4, 'x')");
  reopen();
  sql_rows(db, "SELECT count(*) FROM t", "4");
}
END_TEST

START_TEST(rename_inside_transactions) {
  make_table("t", 3);
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
  make_table("a", 1);
  make_table("b", 2);
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
    make_table(name, 3);
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
  make_table("t", 10);
  make_table("sound", 2);
  close_database();
  harness_remove_tree(sql_path("app.db-colfam"));
  open_database();
  sql_fails(db, "SELECT * FROM t", SQLITE_CANTOPEN, "t");
  sql_ok(db, "CREATE TABLE o(x); INSERT INTO o VALUES(1)");
  sql_ok(db, "DROP TABLE t; DROP TABLE sound");
  sql_rows(db, SHADOWS, "0");
  make_table("t", 4);
  sql_rows(db, "SELECT count(*) FROM t", "4");
  sql_rows(db, "SELECT * FROM colfam_check('t')", "");
}
END_TEST

START_TEST(directory_replaced_by_a_file_or_link_is_an_error_and_drop_works) {
  for (int round = 0; round < 2; round++) {
    make_table("t", 10);
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
  make_table("t", 10);
  char *id = sql_query(db, "SELECT id FROM colfam_files('t')");
  char path[4096];
  snprintf(path, sizeof path, "%s/%s.sst", sql_path("app.db-colfam"), id);
  sqlite3_free(id);
  make_table("sound", 7);
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
    make_table("t", 3);
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
  make_table("t", 30);
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
  make_table("t", 30);
  sql_okf(db, "VACUUM INTO %Q", sql_path("copy.db"));
  sqlite3 *copy = sql_open(sql_path("copy.db"));
  sql_fails(copy, "SELECT * FROM t", SQLITE_CANTOPEN, "copied and moved together");
  sql_ok(copy, "DROP TABLE t");
  sql_rows(copy, "SELECT count(*) FROM sqlite_master", "0");
  sql_close(copy);
  sql_rows(db, "SELECT count(*) FROM t", "30");
}
END_TEST

/* ---- Several connections */

START_TEST(connections_see_each_others_ddl) {
  sqlite3 *other = sql_open(sql_path("app.db"));
  make_table("t", 5);
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
  make_table("t", 500);
  make_table("u", 1);
  sqlite3 *reader = sql_open(sql_path("app.db"));
  sql_ok(reader, "BEGIN");
  sql_rows(reader, "SELECT count(*) FROM t", "500");
  sql_ok(db, "DROP TABLE t; INSERT INTO u VALUES(2, 'x'); INSERT INTO u VALUES(3, 'x')");
  sql_rows(reader, "SELECT count(*), sum(length(v)) FROM t", "500|1892");
  sql_ok(reader, "COMMIT");
  sql_fails(reader, "SELECT count(*) FROM t", SQLITE_ERROR, "no such table");
  sql_close(reader);
  for (int i = 0; i < 4; i++) sql_okf(db, "INSERT INTO u VALUES(%d, 'y')", 10 + i);
  ck_assert_int_eq(files_on_disk(), 1);
}
END_TEST

START_TEST(connections_open_and_close_in_any_order) {
  make_table("t", 3);
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
  make_table("t", 100);
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
  make_table("t", 3);
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

START_TEST(attached_and_temp_tables_are_refused_by_name) {
  sql_okf(db, "ATTACH %Q AS aux", sql_path("aux.db"));
  refused("CREATE VIRTUAL TABLE aux.t USING colfam(k PRIMARY KEY)", SQLITE_ERROR, "attached");
  refused("CREATE VIRTUAL TABLE temp.t USING colfam(k PRIMARY KEY)", SQLITE_ERROR, "temp");
  sql_rows(db, "SELECT count(*) FROM aux.sqlite_master", "0");
  sql_rows(db, "SELECT count(*) FROM temp.sqlite_master", "0");
  make_table("t", 2);
  sql_ok(db, "CREATE TABLE aux.t(x); INSERT INTO aux.t SELECT k FROM main.t");
  sql_rows(db, "SELECT count(*) FROM aux.t", "2");
}
END_TEST

START_TEST(attached_file_with_a_colfam_table_says_how_to_open_it) {
  make_table("t", 2);
  sqlite3 *other = sql_open(":memory:");
  sql_okf(other, "ATTACH %Q AS aux", sql_path("app.db"));
  sql_fails(other, "SELECT * FROM aux.t", SQLITE_ERROR, "attached");
  sql_rows(other, "SELECT count(*) FROM aux.t_cffile", "1");
  sql_close(other);
}
END_TEST

START_TEST(utf16_databases_are_refused) {
  sql_ok(db, "PRAGMA encoding = 'UTF-16le'; CREATE TABLE o(x)");
  refused("CREATE VIRTUAL TABLE t USING colfam(k TEXT PRIMARY KEY)", SQLITE_ERROR, "UTF-16");
}
END_TEST

START_TEST(foreign_vfs_and_lockless_uris_are_refused) {
  char uri[4200];
  sql_ok(db, "CREATE TABLE o(x)");
  snprintf(uri, sizeof uri, "file:%s?nolock=1", sql_path("app.db"));
  sqlite3 *other = sql_open(uri);
  sql_fails(other, "CREATE VIRTUAL TABLE t USING colfam(k PRIMARY KEY)", SQLITE_ERROR, "nolock");
  sql_close(other);
  snprintf(uri, sizeof uri, "file:%s?vfs=unix-none", sql_path("app.db"));
  other = sql_open(uri);
  sql_fails(other, "CREATE VIRTUAL TABLE t USING colfam(k PRIMARY KEY)", SQLITE_ERROR, "unix-none");
  sql_close(other);
  sql_rows(db, "SELECT count(*) FROM sqlite_master", "1");
}
END_TEST

START_TEST(shadow_tables_are_protected_in_defensive_mode) {
  sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
  make_table("t", 3);
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

static void add_create(TCase *tc) {
  tcase_add_test(tc, create_takes_every_option_at_its_bounds);
  tcase_add_test(tc, create_without_options_takes_the_defaults);
  tcase_add_test(tc, create_option_spellings);
  tcase_add_test(tc, create_refuses_bad_options_and_lists_what_is_allowed);
  tcase_add_test(tc, create_refuses_clauses_that_sqlite_would_not_enforce);
  tcase_add_test(tc, create_takes_key_forms_and_column_types);
  tcase_add_test(tc, create_command_column_gives_way_to_a_column_of_the_tables_name);
  tcase_add_test(tc, create_refuses_a_shadow_name_that_is_taken);
  tcase_add_test(tc, create_of_a_table_that_exists);
  tcase_add_test(tc, create_failing_inside_a_transaction_keeps_the_transaction);
  tcase_add_test(tc, create_rolled_back_leaves_nothing);
  tcase_add_test(tc, create_and_write_commit_together);
  tcase_add_test(tc, create_inside_savepoints);
}

static void add_drop_and_rename(TCase *tc) {
  tcase_add_test(tc, drop_takes_shadow_tables_and_files);
  tcase_add_test(tc, drop_and_create_again_starts_empty);
  tcase_add_test(tc, drop_rolled_back_brings_everything_back);
  tcase_add_test(tc, drop_after_writes_in_the_same_transaction);
  tcase_add_test(tc, drop_to_a_savepoint_keeps_what_was_written_before);
  tcase_add_test(tc, drop_then_create_in_one_transaction_both_ways);
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
  tcase_add_test(tc, attached_and_temp_tables_are_refused_by_name);
  tcase_add_test(tc, attached_file_with_a_colfam_table_says_how_to_open_it);
  tcase_add_test(tc, utf16_databases_are_refused);
  tcase_add_test(tc, foreign_vfs_and_lockless_uris_are_refused);
  tcase_add_test(tc, shadow_tables_are_protected_in_defensive_mode);
}

static Suite *suite(void) {
  Suite *s = suite_create("sql_ddl");
  TCase *tc = tcase_create("ddl");
  tcase_add_checked_fixture(tc, open_database, close_database);
  add_create(tc);
  add_drop_and_rename(tc);
  add_damage(tc);
  add_databases(tc);
  suite_add_tcase(s, tc);
  return s;
}

int main(void) {
  return harness_run(suite());
}
