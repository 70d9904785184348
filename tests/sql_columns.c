/* What CREATE VIRTUAL TABLE promises of columns and keys: types, NOT NULL, names, the rowid and its alias.
** Each statement runs on an ordinary table and on a colfam table of the same columns. */
#include <math.h>
#include <string.h>

#include "harness_both.h"

static sqlite3 *db;

static void open_database(void) {
  db = sql_open(sql_path("columns.db"));
  sql_ok(db, "PRAGMA synchronous = off");
}

static void close_database(void) {
  sql_close(db);
}

static const char *const constants[] = {
    "NULL",
    "0",
    "1",
    "-1",
    "1.0",
    "-0.0",
    "2.5",
    "9223372036854775807",
    "-9223372036854775808",
    "9007199254740993",
    "9223372036854775808.0",
    "-9223372036854775808.0",
    "1e999",
    "-1e999",
    "''",
    "' '",
    "'1'",
    "'01'",
    "' 1 '",
    "'1.0'",
    "'1x'",
    "'1e2'",
    "'abc'",
    "'ABC '",
    "'9223372036854775808'",
    "'a' || char(0) || 'b'",
    "'1' || char(0)",
    "CAST(x'fffe' AS TEXT)",
    "x''",
    "x'31'",
    "x'00ff'",
    "'\xc3\xa4'",
};
enum { CONSTANTS = sizeof constants / sizeof *constants };

/* ---- Types */

static const char *const types[] = {"",
                                    "TEXT",
                                    "INT",
                                    "INTEGER",
                                    "REAL",
                                    "NUMERIC",
                                    "BLOB",
                                    "VARCHAR(10)",
                                    "DATE",
                                    "\"text\"",
                                    "[INT]",
                                    "DOUBLE PRECISION",
                                    "JSON",
                                    "BOOLEAN",
                                    "ANY",
                                    "CHARINT(1)",
                                    "DEC(10, -2)",
                                    "NUM(+1.5)",
                                    "REAL(.5, 3)",
                                    "TEXT(0x10)"};
enum { TYPES = sizeof types / sizeof *types };

static void insert_constants(void) {
  for (int i = 0; i < CONSTANTS; i++)
    bothf(db, "INSERT OR IGNORE INTO @ VALUES(%s, %s, %d)", constants[i], constants[i], i);
}

START_TEST(types_of_values_and_keys) {
  char *columns = sqlite3_mprintf("k %s%s, v %s, i INT, PRIMARY KEY(k%s)", types[_i % TYPES],
                                  strcmp(types[_i % TYPES], "INTEGER") ? "" : "(8)",
                                  types[_i % TYPES], _i < TYPES ? "" : " DESC");
  both_create(db, columns, " WITHOUT ROWID", "");
  if (_i % 2) sql_ok(db, "BEGIN");
  insert_constants();
  if (_i % 2 == 0) sql_ok(db, "INSERT INTO t(t) VALUES('flush')");
  both(db, "SELECT k, v, i FROM @");
  for (int i = 0; i < CONSTANTS; i++) {
    bothf(db, "SELECT i FROM @ WHERE k = %s", constants[i]);
    bothf(db, "SELECT i FROM @ WHERE k > %s AND v >= k", constants[i]);
    bothf(db, "SELECT i FROM @ WHERE k IN (%s, 1, 'abc')", constants[i]);
    bothf(db, "SELECT i FROM @ WHERE v = %s", constants[i]);
    bothf(db, "SELECT i FROM @ WHERE v < %s ORDER BY v, i", constants[i]);
    bothf(db, "UPDATE OR IGNORE @ SET v = %s, k = v WHERE i = %d", constants[i], i);
  }
  both(db, "SELECT k, v, i FROM @");
  if (_i % 2) sql_ok(db, "COMMIT");
  sql_rows(db, "SELECT * FROM colfam_check('t')", "");
  sqlite3_free(columns);
}
END_TEST

/* ---- NOT NULL */

START_TEST(not_null_in_every_conflict_mode) {
  static const char *const modes[] = {"",          "OR ABORT",   "OR FAIL",
                                      "OR IGNORE", "OR REPLACE", "OR ROLLBACK"};
  static const char *const shapes[][2] = {
      {"k PRIMARY KEY, a NOT NULL, b TEXT NOT NULL", " WITHOUT ROWID"},
      {"b, k, a NOT NULL, PRIMARY KEY(k, b DESC)", " WITHOUT ROWID"},
      {"k INTEGER PRIMARY KEY NOT NULL, a NOT NULL, b", ""},
      {"k NOT NULL, a, b NOT NULL", ""},
  };
  for (size_t shape = 0; shape < sizeof shapes / sizeof *shapes; shape++) {
    both_create(db, shapes[shape][0], shapes[shape][1], "");
    both(db, "INSERT INTO @(k, a, b) VALUES(1, 1, 1), (2, 2, 2), (3, 3, 3)");
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
      bool one = !sql_native() && strstr(modes[i], "FAIL"); /* the rows before it stay changed */
      static const char *const rows[] = {"(10, NULL, 1)", "(11, 1, NULL)", "(NULL, 1, 1)",
                                         "(12, 1, 1), (13, NULL, NULL), (14, 1, 1)",
                                         "(1, NULL, 1)"};
      for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        bothf(db, "INSERT %s INTO @(k, a, b) VALUES%s", modes[i], rows[r]);
        both(db, "SELECT k, a, b FROM @ ORDER BY k, b, a");
        both(db, "DELETE FROM @ WHERE k > 9");
      }
      bothf(db, "INSERT %s INTO @ DEFAULT VALUES", modes[i]);
      bothf(db, "UPDATE %s @ SET a = NULL WHERE k = 2", modes[i]);
      bothf(db, "UPDATE %s @ SET b = nullif(b, 2)%s", modes[i], one ? " WHERE k = 2" : "");
      bothf(db, "UPDATE %s @ SET a = nullif(a, 3), b = 9%s", modes[i], one ? " WHERE k = 3" : "");
      both(db, "SELECT k, a, b FROM @ ORDER BY k, b, a");
    }
    both_drop(db);
  }
}
END_TEST

/* SQLite makes NULL of a NaN, wherever it comes from. */
START_TEST(numbers_that_are_none) {
  static const double numbers[] = {NAN, INFINITY, -INFINITY, -0.0, 5e-324};
  both_create(db, "k REAL PRIMARY KEY, a, b REAL", " WITHOUT ROWID", "");
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    int codes[2];
    for (int side = 0; side < 2; side++) {
      char sql[] = "INSERT INTO o VALUES(?1, ?1, ?1)";
      sql[12] = "ot"[side];
      sqlite3_stmt *stmt;
      ck_assert_int_eq(sqlite3_prepare_v2(db, sql, -1, &stmt, NULL), SQLITE_OK);
      sqlite3_bind_double(stmt, 1, numbers[i]);
      sqlite3_step(stmt);
      codes[side] = sqlite3_finalize(stmt);
    }
    ck_assert_int_eq(codes[0], codes[1]);
  }
  both(db, "INSERT INTO @ VALUES(1e999 - 1e999, 1, 2)");
  both(db, "INSERT INTO @ VALUES(7, 1e999 - 1e999, -1e999)");
  both(db, "SELECT k, a, b FROM @");
  both(db, "SELECT k FROM @ WHERE k >= 9e999 OR b IS NULL ORDER BY k");
}
END_TEST

/* ---- Rowids */

static const char *const rowid_shapes[] = {
    "id INTEGER PRIMARY KEY, v",
    "v, id [integer] PRIMARY KEY ASC NOT NULL",
    "id INTEGER, v, PRIMARY KEY(id)",
    "id INTEGER, v, CONSTRAINT named PRIMARY KEY(ID DESC)",
    "id \"INTEGER\" COLLATE NOCASE PRIMARY KEY, v",
    "id INTEGER, v TEXT, PRIMARY KEY('id' COLLATE RTRIM)",
};
enum { ROWID_SHAPES = sizeof rowid_shapes / sizeof *rowid_shapes };

/* What is no integer undoes the whole statement here in every mode: one row a statement. */
START_TEST(rowids_from_every_value_in_every_conflict_mode) {
  static const char *const modes[] = {"", "OR FAIL", "OR IGNORE", "OR REPLACE"};
  both_create(db, rowid_shapes[_i], "", "");
  for (size_t mode = 0; mode < sizeof modes / sizeof *modes; mode++) {
    for (int i = 0; i < CONSTANTS; i++) {
      if (strstr(constants[i], "9223372036854775807")) continue; /* what follows it is random */
      bothf(db, "INSERT %s INTO @(id, v) VALUES(%s, %d)", modes[mode], constants[i], i);
      bothf(db, "INSERT %s INTO @(v, id) VALUES(%d, nullif(1, 1)) RETURNING v", modes[mode], i);
      bothf(db, "UPDATE %s @ SET id = %s WHERE v = 'there is none'", modes[mode], constants[i]);
      bothf(db, "SELECT v FROM @ WHERE id = %s OR rowid > %s", constants[i], constants[i]);
      both(db, "SELECT id, rowid, oid, _rowid_, v FROM @");
    }
    bothf(db, "INSERT %s INTO @(v) SELECT v FROM @ WHERE id < 5", modes[mode]);
    both(db, "DELETE FROM @ WHERE id > 7 OR rowid < -7");
  }
  both(db, "DELETE FROM @");
  both(db, "INSERT INTO @(v) VALUES('first again')");
  both(db, "SELECT id, v FROM @");
}
END_TEST

START_TEST(rowids_that_are_changed) {
  both_create(db, rowid_shapes[_i], "", "");
  both(db, "INSERT INTO @(v) VALUES('a'), ('b'), ('c'), ('d')");
  both(db, "UPDATE @ SET id = id + 10");
  both(db, "UPDATE @ SET id = -id WHERE id = 12");
  both(db, "UPDATE @ SET id = 13.0 WHERE id = 13");
  both(db, "UPDATE @ SET id = '14', v = 'text' WHERE id = 14");
  both(db, "UPDATE @ SET id = 11 WHERE id = 13");
  both(db, "UPDATE OR IGNORE @ SET id = 11 WHERE id = 13");
  both(db, "UPDATE OR REPLACE @ SET id = 11 WHERE id = 13");
  both(db, "UPDATE @ SET rowid = 99 WHERE oid = 11");
  both(db, "UPDATE @ SET id = NULL WHERE id = 99");
  both(db, "UPDATE @ SET id = 'x' WHERE id = 99");
  both(db, "UPDATE @ SET id = 1.5 WHERE id = 99");
  both(db, "SELECT id, v FROM @");
  both(db, "INSERT INTO @(v) VALUES('after 99') RETURNING v");
  both(db, "INSERT INTO @(id, v) VALUES(-9223372036854775808, 'least')");
  both(db, "SELECT id, v FROM @ ORDER BY id DESC");
}
END_TEST

START_TEST(rowids_hidden_and_shadowed) {
  both_create(db, "a, b", "", "");
  both(db, "INSERT INTO @ VALUES(1, 2), (3, 4)");
  both(db, "INSERT INTO @(rowid, a) VALUES(-7, 5), (NULL, 6), (10, 7)");
  both(db, "INSERT INTO @(rowid, a) VALUES(10, 8)");
  both(db, "INSERT INTO @(_rowid_, a) VALUES('x', 8)");
  both(db, "UPDATE @ SET rowid = rowid + 100 WHERE a = 3");
  both(db, "SELECT rowid, a, b FROM @");
  both(db, "DELETE FROM @ WHERE rowid IN (1, 10)");
  both(db, "INSERT INTO @ SELECT * FROM @ ORDER BY rowid");
  both(db, "SELECT oid, a, b FROM @ ORDER BY rowid DESC");
  both_drop(db);
  both_create(db, "rowid TEXT, v", "", "");
  both(db, "INSERT INTO @ VALUES('not a number', 1), (NULL, 2)");
  both(db, "SELECT rowid, _rowid_, oid, v FROM @");
  both(db, "UPDATE @ SET rowid = 'changed' WHERE oid = 1");
  both(db, "SELECT rowid, _rowid_, v FROM @ WHERE rowid = 'changed'");
  both_drop(db);
  both_create(db, "rowid, oid, _rowid_", "", "");
  both(db, "INSERT INTO @ VALUES('a', 'b', 'c'), ('a', 'b', 'c')");
  both(db, "SELECT rowid, oid, _rowid_ FROM @");
  both(db, "DELETE FROM @ WHERE rowid = 'a'");
}
END_TEST

/* Keys that look like the alias and are none take any value. */
START_TEST(keys_that_are_no_rowid) {
  static const char *const columns[] = {
      "k INT PRIMARY KEY, v",
      "k INTEGER PRIMARY KEY DESC, v",
      "k INTEGER(4) PRIMARY KEY, v",
      "k INTEGERS, v, PRIMARY KEY(k)",
      "k BIGINT PRIMARY KEY, v",
      "k INTEGER, v INTEGER, PRIMARY KEY(k, v)",
      "k INTEGER COLLATE BINARY, v INTEGER, PRIMARY KEY(k DESC, v DESC)",
  };
  for (size_t c = 0; c < sizeof columns / sizeof *columns; c++) {
    both_create(db, columns[c], " WITHOUT ROWID", "");
    for (int i = 0; i < CONSTANTS; i++)
      bothf(db, "INSERT INTO @(k, v) VALUES(%s, %d)", constants[i], i);
    both(db, "SELECT k, v FROM @");
    both(db, "SELECT rowid FROM @");
    both_drop(db);
  }
}
END_TEST

/* ---- Names */

static const char *const names[] = {
    "select",
    "two words",
    "quo\"te",
    "apo'strophe",
    "back`tick",
    "brack]et",
    "gr\xc3\xb6\xc3\x9f"
    "e",
    "\xe6\x97\xa5\xe6\x9c\xac",
    "123",
    "percent%s%n",
    "semi;colon, comma)",
    "a.b",
    "-- comment",
    "/* comment",
    "tab\there",
    "constraint",
    "primary key",
    "hidden",
    "",
    " ",
    "strict",
    "flush",
};
enum { NAMES = sizeof names / sizeof *names };

static void use_names(const char *key, const char *value) {
  char *columns =
      sqlite3_mprintf("\"%w\" TEXT NOT NULL PRIMARY KEY, \"%w\" INT NOT NULL", key, value);
  both_create(db, columns, " WITHOUT ROWID", "");
  bothf(db, "INSERT INTO @(\"%w\", \"%w\") VALUES('a', '1'), (2, 2)", key, value);
  bothf(db, "INSERT INTO @(\"%w\", \"%w\") VALUES('a', 3)", key, value);
  bothf(db, "INSERT INTO @(\"%w\") VALUES('b')", key);
  bothf(db, "INSERT INTO @(\"%w\") VALUES(4)", value);
  bothf(db, "UPDATE @ SET \"%w\" = \"%w\" || 'x' WHERE \"%w\" = 'a'", key, value, key);
  bothf(db, "SELECT \"%w\", \"%w\" FROM @ WHERE \"%w\" IN ('1x', '2') ORDER BY \"%w\" DESC", key,
        value, key, key);
  both(db, "SELECT * FROM @");
  sql_same(db, "SELECT name, type, \"notnull\" FROM pragma_table_info('t')",
           "SELECT name, type, \"notnull\" FROM pragma_table_info('o')");
  both_drop(db);
  sqlite3_free(columns);
}

START_TEST(names_of_columns) {
  for (int i = 0; i < NAMES; i++) use_names(names[i], names[(i + 1) % NAMES]);
  char *longest = sqlite3_mprintf("%.*c", 20000, 'n');
  use_names(longest, "v");
  sqlite3_free(longest);
}
END_TEST

START_TEST(names_equal_but_for_case) {
  static const char *const refused[] = {"a, A", "a, b, \"A\"", "[x y], 'X Y'", "k PRIMARY KEY, K"};
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    char *ordinary = sqlite3_mprintf("CREATE TABLE o(%s)", refused[i]);
    char *colfam = sqlite3_mprintf("CREATE VIRTUAL TABLE t USING colfam(%s)", refused[i]);
    sql_fails(db, ordinary, SQLITE_ERROR, "duplicate column name");
    sql_fails(db, colfam, SQLITE_ERROR, "duplicate column name");
    sqlite3_free(ordinary);
    sqlite3_free(colfam);
  }
  both_create(db, "\xc3\xa4 PRIMARY KEY, \xc3\x84", " WITHOUT ROWID", "");
  both(db, "INSERT INTO @(\xc3\x84, \xc3\xa4) VALUES(1, 2)");
  both(db, "SELECT \xc3\xa4, \xc3\x84 FROM @");
}
END_TEST

START_TEST(comments_and_blanks_in_the_arguments) {
  both_create(db,
              "/* first */ k /**/ TEXT -- the key\n PRIMARY\tKEY,\n\n v /* , */ INT NOT /*x*/ NULL,"
              " w -- last, with a comma\n",
              " WITHOUT ROWID", "/* and */, -- an option\n filter_bits /* = 3 */ = 4 -- four\n");
  both(db, "INSERT INTO @ VALUES('a', '1', 2), ('b', NULL, 3)");
  both(db, "INSERT INTO @ VALUES('a', '1', 2)");
  both(db, "SELECT * FROM @");
  sql_rows(db, "SELECT options LIKE '%filter_bits = 4%' FROM colfam_families", "1");
}
END_TEST

/* ---- Many columns */

static char *columns_named(int count) {
  sqlite3_str *text = sqlite3_str_new(NULL);
  for (int i = 0; i < count; i++) sqlite3_str_appendf(text, "%sc%d", i ? ", " : "", i);
  return sqlite3_str_finish(text);
}

/* SQLite hands over no more. */
START_TEST(as_many_columns_as_sqlite_hands_over) {
  enum { MOST = 1994 };
  char *columns = columns_named(MOST), *more = columns_named(MOST + 1);
  char *sql = sqlite3_mprintf("CREATE VIRTUAL TABLE t USING colfam(%s)", more);
  sql_fails(db, sql, SQLITE_ERROR, "too many columns on t");
  both_create(db, columns, "", "");
  both(db, "INSERT INTO @(c0, c1, c1993) VALUES(1, 'one', x'01'), (2, NULL, 5.5)");
  both(db, "UPDATE @ SET c1000 = c1993 WHERE c0 = 1");
  both(db, "SELECT * FROM @");
  both(db, "SELECT rowid, c1000 FROM @ WHERE c1993 > 5");
  sqlite3_free(sql);
  sqlite3_free(columns);
  sqlite3_free(more);
}
END_TEST

/* ---- The command column */

START_TEST(command_column_follows_the_tables_name) {
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(k INT PRIMARY KEY, v);"
             "INSERT INTO t VALUES(1, 'a'); INSERT INTO t(t) VALUES('flush');"
             "ALTER TABLE t RENAME TO v; INSERT INTO v(v, k) VALUES('b', 2);"
             "INSERT INTO v(colfam_command) VALUES('flush')");
  sql_rows(db, "SELECT k, v FROM v", "1|a\n2|b");
  sql_rows(db, "SELECT count(*) FROM colfam_files('v')", "2");
  sql_ok(db, "ALTER TABLE v RENAME TO \"odd name\"; INSERT INTO \"odd name\"(\"odd name\")"
             " VALUES('compact')");
  sql_fails(db, "INSERT INTO \"odd name\"(v) VALUES('flush')", SQLITE_CONSTRAINT_NOTNULL,
            "NOT NULL constraint failed: odd name.k");
  sql_rows(db, "SELECT count(*), sum(rows) FROM colfam_files('\"odd name\"')", "1|2");
  sql_rows(db, "SELECT \"odd name\", k FROM \"odd name\"", "NULL|1\nNULL|2");
}
END_TEST

int main(void) {
  Suite *suite = suite_create("sql_columns");
  TCase *tcase = tcase_create("columns");
  tcase_set_timeout(tcase, 120);
  tcase_add_checked_fixture(tcase, open_database, close_database);
  tcase_add_loop_test(tcase, types_of_values_and_keys, 0, 2 * TYPES);
  tcase_add_test(tcase, not_null_in_every_conflict_mode);
  tcase_add_test(tcase, numbers_that_are_none);
  tcase_add_loop_test(tcase, rowids_from_every_value_in_every_conflict_mode, 0, ROWID_SHAPES);
  tcase_add_loop_test(tcase, rowids_that_are_changed, 0, ROWID_SHAPES);
  tcase_add_test(tcase, rowids_hidden_and_shadowed);
  tcase_add_test(tcase, keys_that_are_no_rowid);
  tcase_add_test(tcase, names_of_columns);
  tcase_add_test(tcase, names_equal_but_for_case);
  tcase_add_test(tcase, comments_and_blanks_in_the_arguments);
  tcase_add_test(tcase, as_many_columns_as_sqlite_hands_over);
  tcase_add_test(tcase, command_column_follows_the_tables_name);
  suite_add_tcase(suite, tcase);
  return harness_run(suite);
}
