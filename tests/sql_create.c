/* CREATE VIRTUAL TABLE: options, commands and refusals, names that are taken, transactions and
** savepoints around it. */
#include <string.h>

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

/* ---- Options */

START_TEST(create_takes_every_option_at_its_bounds) {
  static const char *const options[][2] = {
      {"compression", "none"},    {"compression", "zstd:1"},   {"compression", "zstd:19"},
      {"filter_bits", "0"},       {"filter_bits", "20"},       {"block_bytes", "1024"},
      {"block_bytes", "1048576"}, {"memtable_bytes", "16384"}, {"memtable_bytes", "1073741824"},
      {"track_rows", "on"},       {"track_rows", "off"},       {"conflict", "abort"},
      {"conflict", "replace"},    {"comparator", "bytewise"},  {"value_bytes", "0"},
      {"value_bytes", "1"},       {"value_bytes", "1048576"},
  };
  for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
    const char *name = options[i][0], *value = options[i][1];
    sql_okf(db, "CREATE VIRTUAL TABLE t USING colfam(k PRIMARY KEY, v, %s = %s)", name, value);
    char *sql =
        sqlite3_mprintf("SELECT options LIKE '%%%s = %s%%' FROM colfam_families", name, value);
    if (sql_native() || strcmp(name, "comparator") != 0) sql_rows(db, sql, "1");
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
  static const char *const defaults[] = {
      "compression = zstd:3", "filter_bits = 10", "block_bytes = 16384", "memtable_bytes = 4194304",
      "track_rows = on",      "conflict = abort", "value_bytes = 4096",  "comparator = bytewise"};
  size_t count = sizeof defaults / sizeof *defaults - !sql_native();
  for (size_t i = 0; i < count; i++) {
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
      {"value_bytes = 1048577", "0 to 1048576"},
      {"value_bytes = never", "0 to 1048576"},
      {"comparator = '1st'", "allowed are bytewise, reverse"},
      {"comparator = mine", "comparator mine is not registered"},
      {"filter_bits = 5, filter_bits = 6", "filter_bits"},
      {"filter_bits = 5, FILTER_BITS = 5", "filter_bits"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    char *sql =
        sqlite3_mprintf("CREATE VIRTUAL TABLE t USING colfam(k PRIMARY KEY, v, %s)", bad[i][0]);
    ddl_refused(db, sql, SQLITE_ERROR, bad[i][1]);
    sqlite3_free(sql);
  }
}
END_TEST

START_TEST(command_errors_name_table_and_option) {
  static const char *const bad[][2] = {
      {"'value_bytes=-1'", "table t: option value_bytes cannot be '-1': allowed are 0 to 1048576"},
      {"'comparator=reverse'", "table t: option comparator is fixed at CREATE"},
      {"'filter_bits=99'", "table t: option filter_bits cannot be '99': allowed are 0 to 20"},
      {"'speed=fast'", "table t: unknown option speed: the options are compression,"},
      {"'faster'", "table t: unknown command \"faster\""},
      {"CAST(x'6fff3d31' AS TEXT)", "table t: unknown option o?: the options are"},
      {"CAST(x'636f6e666c6963743dc3a9edbfbfc08078' AS TEXT)",
       "table t: option conflict cannot be '\xc3\xa9?????x': allowed are abort, replace"},
  };
  ddl_make_table(db, "t", 3);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    char *sql = sqlite3_mprintf("INSERT INTO t(t) VALUES(%s)", bad[i][0]);
    ddl_refused(db, sql, SQLITE_ERROR, bad[i][1]);
    sqlite3_free(sql);
  }
  sql_rows(db, "SELECT count(*) FROM t", "3");
}
END_TEST

/* A row beside it would get lost without a word. */
START_TEST(command_stands_alone_in_an_insert) {
  static const char *const bad[] = {
      "UPDATE t SET t = 'flush'",
      "UPDATE t SET t = 'nonsense', v = 'x' WHERE k = 2",
      "INSERT INTO t(t, k, v) VALUES('flush', 'new', 1)",
      "INSERT INTO t(t, v) VALUES('compact', 1)",
      "INSERT OR REPLACE INTO t(k, t) VALUES(1, 'filter_bits=5')",
      "INSERT INTO t(k, v, t) VALUES(7, 'ordinary', NULL), (8, 'x', 'flush')",
  };
  static const char *const tables[] = {"k INT PRIMARY KEY, v", "k INTEGER PRIMARY KEY, v",
                                       "k INT, v, PRIMARY KEY(k DESC)", "k, v"};
  for (size_t f = 0; f < sizeof tables / sizeof *tables; f++) {
    sql_okf(db, "CREATE VIRTUAL TABLE t USING colfam(%s)", tables[f]);
    sql_ok(db, "INSERT INTO t VALUES(1, 'a'), (2, 'b')");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
      sql_fails(db, bad[i], SQLITE_ERROR, "table t: a command is given by an INSERT");
    sql_rows(db, "SELECT k, v FROM t ORDER BY k", "1|a\n2|b");
    sql_rows(db, "SELECT count(*) FROM colfam_files('t')", "0");
    sql_ok(db,
           "INSERT INTO t(t, k, v) VALUES('flush', NULL, NULL); UPDATE t SET v = 'c', t = NULL");
    sql_rows(db, "SELECT count(*) FROM colfam_files('t')", "1");
    sql_rows(db, "SELECT DISTINCT v FROM t", "c");
    sql_ok(db, "DROP TABLE t");
  }
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(v); INSERT INTO t VALUES('a')");
  sql_fails(db, "INSERT INTO t(rowid, t) VALUES(5, 'flush')", SQLITE_ERROR, "a command is given");
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
      {"k TEXT, v, PRIMARY KEY(k COLLATE NOCASE)", "NOCASE"},
      {"k COLLATE nowhere PRIMARY KEY, v", "nowhere"},
      {"k PRIMARY KEY, v COLLATE nowhere", "no such collation sequence: nowhere"},
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
    ddl_refused(db, sql, SQLITE_ERROR, bad[i][1]);
    sqlite3_free(sql);
  }
  ddl_refused(db, "CREATE VIRTUAL TABLE t USING colfam", SQLITE_ERROR, "column");
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
      "k TEXT COLLATE NOCASE PRIMARY KEY, v",
      "k COLLATE RTRIM, v, PRIMARY KEY(v, k COLLATE rtrim DESC)",
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
      ddl_refused(db, "CREATE VIRTUAL TABLE t USING colfam(k PRIMARY KEY)", SQLITE_ERROR,
                  shadows[i]);
      sql_rows(db, "SELECT count(*) FROM sqlite_master WHERE name = 't'", "0");
      sql_okf(db,
              k == 0   ? "DROP TABLE %s"
              : k == 1 ? "DROP VIEW %s"
                       : "DROP TABLE base",
              shadows[i]);
    }
  }
  sql_ok(db, "CREATE TABLE T_CFLOG(x); INSERT INTO t_cflog VALUES('mine')");
  ddl_refused(db, "CREATE VIRTUAL TABLE t USING colfam(k PRIMARY KEY)", SQLITE_ERROR, "t_cflog");
  sql_rows(db, "SELECT x FROM t_cflog", "mine");
  sql_ok(db, "DROP TABLE t_cflog; CREATE VIRTUAL TABLE t USING colfam(k PRIMARY KEY)");
}
END_TEST

START_TEST(create_of_a_table_that_exists) {
  ddl_make_table(db, "t", 3);
  ddl_refused(db, "CREATE VIRTUAL TABLE t USING colfam(k PRIMARY KEY)", SQLITE_ERROR, "already");
  ddl_refused(db, "CREATE TABLE t(x)", SQLITE_ERROR, "already");
  sql_ok(db, "CREATE VIRTUAL TABLE IF NOT EXISTS t USING colfam(other PRIMARY KEY)");
  sql_rows(db, "SELECT count(*) FROM t", "3");
  sql_ok(db, "CREATE TABLE ordinary(x)");
  ddl_refused(db, "CREATE VIRTUAL TABLE ordinary USING colfam(k PRIMARY KEY)", SQLITE_ERROR,
              "already");
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

START_TEST(create_refuses_the_name_that_drop_needs) {
  ddl_refused(db, "CREATE VIRTUAL TABLE colfam_drops USING colfam(k PRIMARY KEY)", SQLITE_ERROR,
              "table colfam_drops: colfam needs this name for itself");
  ddl_refused(db, "CREATE VIRTUAL TABLE Colfam_Drops USING colfam(k PRIMARY KEY)", SQLITE_ERROR,
              "Colfam_Drops");
  ddl_make_table(db, "t", 3);
  ddl_refused(db, "ALTER TABLE t RENAME TO colfam_drops", SQLITE_ERROR, "needs this name");
  sql_rows(db, "SELECT count(*) FROM t", "3");
}
END_TEST

/* ---- CREATE in transactions */

START_TEST(create_rolled_back_leaves_nothing) {
  sql_ok(db, "BEGIN; CREATE VIRTUAL TABLE t USING colfam(k PRIMARY KEY); INSERT INTO t VALUES(1);"
             "INSERT INTO t(t) VALUES('flush')");
  sql_rows(db, "SELECT k FROM t", "1");
  sql_ok(db, "ROLLBACK");
  sql_rows(db, "SELECT count(*) FROM sqlite_master", "0");
  ck_assert_int_le(ddl_files(), 0);
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

static void add_create(TCase *tc) {
  tcase_add_test(tc, create_takes_every_option_at_its_bounds);
  tcase_add_test(tc, create_without_options_takes_the_defaults);
  tcase_add_test(tc, create_option_spellings);
  tcase_add_test(tc, create_refuses_bad_options_and_lists_what_is_allowed);
  tcase_add_test(tc, command_errors_name_table_and_option);
  tcase_add_test(tc, command_stands_alone_in_an_insert);
  tcase_add_test(tc, create_refuses_clauses_that_sqlite_would_not_enforce);
  tcase_add_test(tc, create_takes_key_forms_and_column_types);
  tcase_add_test(tc, create_command_column_gives_way_to_a_column_of_the_tables_name);
  tcase_add_test(tc, create_refuses_a_shadow_name_that_is_taken);
  tcase_add_test(tc, create_refuses_the_name_that_drop_needs);
  tcase_add_test(tc, create_of_a_table_that_exists);
  tcase_add_test(tc, create_failing_inside_a_transaction_keeps_the_transaction);
  tcase_add_test(tc, create_rolled_back_leaves_nothing);
  tcase_add_test(tc, create_and_write_commit_together);
  tcase_add_test(tc, create_inside_savepoints);
}

static Suite *suite(void) {
  Suite *s = suite_create("sql_create");
  TCase *tc = tcase_create("create");
  tcase_add_checked_fixture(tc, open_database, close_database);
  add_create(tc);
  suite_add_tcase(s, tc);
  return s;
}

int main(void) {
  return harness_run(suite());
}
