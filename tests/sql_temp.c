/* colfam tables in databases that live in memory: temp, ':memory:' attached, the VFS memdb. Their files
** are in memory too and given back when a table is dropped or compacted. What random statements do on them:
** model_schemas. */
#include <malloc.h>
#include <stdio.h>
#include <unistd.h>

#include "harness_files.h"
#include "harness_sql.h"

static sqlite3 *db;

static void open_main(void) {
  db = sql_open(sql_path("main.db"));
}

static void close_main(void) {
  sql_close(db);
}

static void make_table(const char *schema) {
  sql_okf(db,
          "CREATE VIRTUAL TABLE %s.t USING colfam(k INT PRIMARY KEY, v, compression = none);"
          "INSERT INTO %s.t VALUES(1, 'one'), (2, 'two'); INSERT INTO %s.t(t) VALUES('flush')",
          schema, schema, schema);
}

/* ---- Temp */

START_TEST(temp_table_does_what_a_table_does) {
  make_table("temp");
  sql_ok(db, "INSERT INTO t VALUES(3, 'three'); UPDATE t SET k = 4 WHERE k = 1");
  sql_rows(db, "SELECT * FROM temp.t", "2|two\n3|three\n4|one");
  sql_fails(db, "INSERT INTO t VALUES(3, 'x')", SQLITE_CONSTRAINT_PRIMARYKEY, "t.k");
  sql_fails(db, "INSERT INTO t(t) VALUES('nonsense')", SQLITE_ERROR, "table temp.t: ");
  sql_ok(db, "ALTER TABLE t RENAME TO u; INSERT INTO u(u) VALUES('compact')");
  sql_rows(db, "SELECT count(*) FROM u", "3");
  sql_rows(db, "SELECT * FROM colfam_check('u')", "");
  sql_rows(db, "SELECT level, rows FROM colfam_files('temp.u')", "1|3");
  sql_rows(db, "SELECT table_name, schema, rows FROM colfam_families", "temp.u|temp|3");
  sql_plan(db, "SELECT v FROM u WHERE k IN (1, 2)", "multi-get k");
  sql_rows(db, "SELECT name FROM main.sqlite_master", "");
  ck_assert_int_ne(access(sql_path("main.db-colfam"), F_OK), 0);
}
END_TEST

START_TEST(temp_table_is_gone_with_the_connection) {
  make_table("temp");
  sqlite3 *other = sql_open(sql_path("main.db"));
  sql_fails(other, "SELECT * FROM t", SQLITE_ERROR, "no such table");
  sql_ok(other, "CREATE VIRTUAL TABLE temp.t USING colfam(k)");
  sql_rows(other, "SELECT count(*) FROM t", "0");
  sql_close(other);
  sql_rows(db, "SELECT count(*) FROM t", "2");
  close_main();
  open_main();
  sql_fails(db, "SELECT * FROM t", SQLITE_ERROR, "no such table");
}
END_TEST

START_TEST(temp_table_hides_the_one_of_main) {
  make_table("main");
  make_table("temp");
  sql_ok(db, "DELETE FROM t WHERE k = 1");
  sql_rows(db, "SELECT (SELECT count(*) FROM t), (SELECT count(*) FROM main.t)", "1|2");
  sql_rows(db, "SELECT colfam_may_exist('t', 1) IS 0, colfam_may_exist('main.t', 1) IS 0", "1|0");
  sql_rows(db, "SELECT table_name FROM colfam_families", "main.t\ntemp.t");
  sql_ok(db, "BEGIN; INSERT INTO main.t VALUES(5, 'm'); INSERT INTO t VALUES(5, 't')");
  sql_rows(db, "SELECT (SELECT v FROM t WHERE k = 5), (SELECT v FROM main.t WHERE k = 5)", "t|m");
  sql_ok(db, "ROLLBACK; DROP TABLE t");
  sql_rows(db, "SELECT count(*) FROM t", "2");
  sql_rows(db, "SELECT table_name FROM colfam_families", "t");
}
END_TEST

START_TEST(drop_in_transactions_and_savepoints_and_back) {
  make_table("temp");
  sql_ok(db, "BEGIN; INSERT INTO t VALUES(3, 'three'); DROP TABLE t; ROLLBACK");
  sql_rows(db, "SELECT count(*) FROM t", "2");
  sql_ok(db, "SAVEPOINT a; INSERT INTO t VALUES(3, 'three'); SAVEPOINT b; DROP TABLE t;"
             "CREATE VIRTUAL TABLE temp.t USING colfam(k); INSERT INTO t VALUES(9); ROLLBACK TO b;"
             "INSERT INTO t VALUES(4, 'four'); RELEASE a");
  sql_rows(db, "SELECT group_concat(v) FROM t", "one,two,three,four");
  sql_ok(db, "BEGIN; DROP TABLE t; CREATE VIRTUAL TABLE temp.t USING colfam(k); COMMIT");
  sql_rows(db, "SELECT count(*) FROM t", "0");
  sql_ok(db, "DROP TABLE t");
  sql_rows(db, "SELECT count(*) FROM temp.sqlite_master WHERE name GLOB 't*'", "0");
}
END_TEST

START_TEST(other_temporary_storage_begins_anew) {
  make_table("temp");
  sql_ok(db, "PRAGMA temp_store = memory");
  sql_fails(db, "SELECT * FROM t", SQLITE_ERROR, "no such table");
  make_table("temp");
  sql_ok(db, "INSERT INTO t(t) VALUES('compact'); DROP TABLE t; PRAGMA temp_store = file");
  make_table("temp");
  sql_rows(db, "SELECT count(*) FROM t", "2");
}
END_TEST

START_TEST(temp_database_that_spills_to_disk) {
  make_table("temp");
  sql_ok(db, "PRAGMA temp.cache_size = 10; CREATE TEMP TABLE large(x);"
             "WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n WHERE i < 30)"
             "INSERT INTO large SELECT randomblob(100000) FROM n");
  sql_ok(db, "INSERT INTO t VALUES(3, 'three'); INSERT INTO t(t) VALUES('compact')");
  make_table("main");
  sql_ok(db, "CREATE VIRTUAL TABLE temp.u USING colfam(k); DROP TABLE u; DROP TABLE main.t");
  sql_rows(db, "SELECT group_concat(v) FROM t", "one,two,three");
  sql_ok(db, "DROP TABLE t");
}
END_TEST

/* ---- Memory is given back */

enum { MIB = 1 << 20 };

static size_t in_use(void) {
  return mallinfo2().uordblks + mallinfo2().hblkhd;
}

/* 8 MiB into one file in memory. */
static void fill(const char *schema) {
  sql_okf(db,
          "WITH RECURSIVE n(i) AS (VALUES(100) UNION ALL SELECT i + 1 FROM n WHERE i < 227)"
          "INSERT OR REPLACE INTO %s.t SELECT i, randomblob(65536) FROM n;"
          "INSERT INTO %s.t(t) VALUES('compact')",
          schema, schema);
}

static void check_given_back(const char *schema) {
  make_table(schema);
  sql_okf(db, "DROP TABLE %s.t", schema);
  make_table(schema);
  fill(schema);
  size_t one = in_use();
  for (int i = 0; i < 5; i++) fill(schema);
  ck_assert_uint_lt(in_use(), one + 12 * MIB);
  sql_okf(db, "BEGIN; DROP TABLE %s.t; ROLLBACK", schema);
  sql_okf(db, "DELETE FROM %s.t; INSERT INTO %s.t(t) VALUES('compact')", schema, schema);
  sql_okf(db, "SELECT count(*) FROM %s.t", schema);
  if (one > 8 * MIB) ck_assert_uint_lt(in_use(), one - 4 * MIB);
  for (int i = 0; i < 5; i++) {
    fill(schema);
    sql_okf(db, "DROP TABLE %s.t", schema);
    make_table(schema);
  }
  if (one > 8 * MIB) ck_assert_uint_lt(in_use(), one - 4 * MIB);
}

START_TEST(temp_tables_give_memory_back) {
  check_given_back("temp");
}
END_TEST

START_TEST(tables_in_memory_give_memory_back) {
  sql_ok(db, "ATTACH ':memory:' AS m");
  check_given_back("m");
}
END_TEST

/* The next database in memory mostly gets the address of the last one. */
START_TEST(detached_databases_in_memory_give_memory_back) {
  size_t first = 0;
  for (int i = 0; i < 8; i++) {
    sql_ok(db, "ATTACH ':memory:' AS m");
    make_table("m");
    fill("m");
    sql_rows(db, "SELECT count(*), max(length(v)) FROM m.t", "130|65536");
    sql_ok(db, "DETACH m");
    if (i == 1) first = in_use();
  }
  ck_assert_uint_lt(in_use(), first + 24 * MIB);
}
END_TEST

/* ---- Databases in memory */

START_TEST(attached_databases_in_memory_are_apart) {
  sql_ok(db, "ATTACH ':memory:' AS m; ATTACH '' AS e");
  make_table("m");
  make_table("e");
  sql_ok(db, "DELETE FROM m.t WHERE k = 1; UPDATE e.t SET v = 'e'");
  sql_rows(db, "SELECT * FROM m.t", "2|two");
  sql_rows(db, "SELECT * FROM e.t", "1|e\n2|e");
  sql_ok(db, "DETACH m; ATTACH ':memory:' AS m");
  sql_fails(db, "SELECT * FROM m.t", SQLITE_ERROR, "no such table");
  make_table("m");
  sql_rows(db, "SELECT count(*) FROM m.t", "2");
  sql_rows(db, "SELECT count(*) FROM e.t", "2");
}
END_TEST

START_TEST(main_in_memory_with_a_file_attached) {
  close_main();
  db = sql_open(":memory:");
  sql_okf(db, "ATTACH %Q AS aux", sql_path("aux.db"));
  make_table("main");
  make_table("aux");
  sql_ok(db, "BEGIN; DELETE FROM main.t; DELETE FROM aux.t WHERE k = 1; COMMIT");
  sql_rows(db, "SELECT (SELECT count(*) FROM main.t), (SELECT count(*) FROM aux.t)", "0|1");
  ck_assert_int_eq(files_on_disk(sql_path("aux.db")), 1);
  sql_ok(db, "DROP TABLE aux.t");
  ck_assert_int_eq(files_on_disk(sql_path("aux.db")), 0);
}
END_TEST

START_TEST(memdb_is_private_or_refused) {
  sql_ok(db, "ATTACH 'file:own?vfs=memdb' AS m; ATTACH 'file:own?vfs=memdb' AS n");
  make_table("m");
  make_table("n");
  sql_ok(db, "DELETE FROM m.t WHERE k = 1; INSERT INTO m.t(t) VALUES('compact'); VACUUM m");
  sql_rows(db, "SELECT (SELECT count(*) FROM m.t), (SELECT count(*) FROM n.t)", "1|2");
  sql_ok(db, "DETACH m; DROP TABLE n.t; DETACH n; ATTACH 'file:/shared?vfs=memdb' AS m");
  for (int i = 0; i < 2; i++) {
    sql_fails(db, "CREATE VIRTUAL TABLE m.t USING colfam(k)", SQLITE_ERROR,
              "table m.t: colfam keeps");
    sql_ok(db, i ? "DROP TABLE m.o" : "CREATE TABLE m.o(x)");
  }
  sql_rows(db, "SELECT count(*) FROM m.sqlite_master", "0");
  ck_assert_int_ne(access("/shared-colfam", F_OK), 0);
}
END_TEST

START_TEST(deserialized_database_says_what_is_missing) {
  make_table("main");
  sqlite3_int64 size;
  unsigned char *image = sqlite3_serialize(db, "main", &size, 0);
  ck_assert_ptr_nonnull(image);
  sqlite3 *memory = sql_open(":memory:");
  int flags = SQLITE_DESERIALIZE_FREEONCLOSE | SQLITE_DESERIALIZE_RESIZEABLE;
  ck_assert_int_eq(sqlite3_deserialize(memory, "main", image, size, size, flags), SQLITE_OK);
  sql_fails(memory, "SELECT * FROM t", SQLITE_CANTOPEN, "colfam_backup");
  sql_ok(memory, "DROP TABLE t; CREATE VIRTUAL TABLE t USING colfam(k); INSERT INTO t VALUES(1)");
  sql_ok(memory, "INSERT INTO t(t) VALUES('flush')");
  sql_rows(memory, "SELECT * FROM t", "1");
  sql_close(memory);
  sql_rows(db, "SELECT count(*) FROM t", "2");
}
END_TEST

static TCase *add(Suite *s, const char *name) {
  TCase *tc = tcase_create(name);
  tcase_set_timeout(tc, 120);
  tcase_add_checked_fixture(tc, open_main, close_main);
  suite_add_tcase(s, tc);
  return tc;
}

int main(void) {
  Suite *s = suite_create("sql_temp");
  TCase *tc = add(s, "temp");
  tcase_add_test(tc, temp_table_does_what_a_table_does);
  tcase_add_test(tc, temp_table_is_gone_with_the_connection);
  tcase_add_test(tc, temp_table_hides_the_one_of_main);
  tcase_add_test(tc, drop_in_transactions_and_savepoints_and_back);
  tcase_add_test(tc, other_temporary_storage_begins_anew);
  tcase_add_test(tc, temp_database_that_spills_to_disk);
  tc = add(s, "memory");
  tcase_add_test(tc, temp_tables_give_memory_back);
  tcase_add_test(tc, tables_in_memory_give_memory_back);
  tcase_add_test(tc, detached_databases_in_memory_give_memory_back);
  tc = add(s, "databases");
  tcase_add_test(tc, attached_databases_in_memory_are_apart);
  tcase_add_test(tc, main_in_memory_with_a_file_attached);
  tcase_add_test(tc, memdb_is_private_or_refused);
  tcase_add_test(tc, deserialized_database_says_what_is_missing);
  return harness_run(s);
}
