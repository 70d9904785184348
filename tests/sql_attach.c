/* colfam tables in attached databases: DETACH right after any use, files attached under other names, twice,
** as copies and read-only, DROP without main's lock, removal by the schema's own journal mode, names and
** places. What random statements do on them: model_schemas. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness_files.h"
#include "harness_sql.h"

static sqlite3 *db;

static void attach(const char *file, const char *name) {
  sql_okf(db, "ATTACH %Q AS %s", sql_path(file), name);
}

/* aux.t with rows (1, 'v1') to (n, 'vn'), flushed. */
static void make_table(const char *schema, int n) {
  sql_okf(db,
          "CREATE VIRTUAL TABLE %s.t USING colfam(k INT PRIMARY KEY, v);"
          "WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n WHERE i < %d)"
          "INSERT INTO %s.t SELECT i, 'v' || i FROM n; INSERT INTO %s.t(t) VALUES('flush')",
          schema, n, schema, schema);
}

static void open_all(void) {
  db = sql_open(sql_path("main.db"));
  attach("aux.db", "aux");
}

static void close_all(void) {
  sql_close(db);
}

static int aux_files(void) {
  return files_on_disk(sql_path("aux.db"));
}

/* ---- DETACH and ATTACH */

START_TEST(detach_right_after_any_use) {
  static const char *const uses[] = {
      "SELECT * FROM aux.t",
      "INSERT INTO aux.t VALUES(100, 'x')",
      "UPDATE aux.t SET v = 'y' WHERE k < 3; DELETE FROM aux.t WHERE k = 3",
      "INSERT INTO aux.t(t) VALUES('compact')",
      "INSERT INTO aux.t(t) VALUES('filter_bits=3')",
      "BEGIN; INSERT INTO aux.t VALUES(101, 'x'); ROLLBACK",
      "SAVEPOINT s; INSERT INTO aux.t VALUES(102, 'x'); ROLLBACK TO s; RELEASE s",
      "SELECT * FROM colfam_families; SELECT * FROM colfam_stats",
      "SELECT * FROM colfam_files('aux.t'); SELECT * FROM colfam_check('aux.t')",
      "SELECT colfam_may_exist('aux.t', 1)",
      "CREATE VIRTUAL TABLE aux.u USING colfam(k PRIMARY KEY); ALTER TABLE aux.u RENAME TO w",
      "BEGIN; DROP TABLE aux.w; ROLLBACK",
      "DROP TABLE aux.w",
      "PRAGMA aux.integrity_check",
      "VACUUM aux",
  };
  make_table("aux", 20);
  for (size_t i = 0; i < sizeof uses / sizeof *uses; i++) {
    sql_ok(db, uses[i]);
    sql_ok(db, "DETACH aux");
    attach("aux.db", "aux");
    ck_assert_ptr_null(sqlite3_next_stmt(db, NULL));
  }
  sql_rows(db, "SELECT count(*), sum(k < 3 AND v = 'y') FROM aux.t", "20|2");
}
END_TEST

START_TEST(an_open_cursor_keeps_it_attached) {
  sqlite3_stmt *cursor;
  make_table("aux", 3);
  ck_assert_int_eq(sqlite3_prepare_v2(db, "SELECT k FROM aux.t", -1, &cursor, NULL), SQLITE_OK);
  ck_assert_int_eq(sqlite3_step(cursor), SQLITE_ROW);
  sql_fails(db, "DETACH aux", SQLITE_ERROR, "locked");
  ck_assert_int_eq(sqlite3_step(cursor), SQLITE_ROW);
  ck_assert_int_eq(sqlite3_column_int(cursor, 0), 2);
  sqlite3_reset(cursor);
  sql_ok(db, "DETACH aux");
  ck_assert_int_eq(sqlite3_step(cursor), SQLITE_ERROR);
  ck_assert_int_eq(sqlite3_finalize(cursor), SQLITE_ERROR);
}
END_TEST

START_TEST(attached_again_under_another_name) {
  make_table("aux", 3);
  sql_ok(db, "DETACH aux");
  attach("aux.db", "other");
  sql_ok(db, "INSERT INTO other.t VALUES(4, 'v4')");
  sql_rows(db, "SELECT * FROM t WHERE k IN (1, 4)", "1|v1\n4|v4");
  sql_rows(db, "SELECT table_name, schema, rows FROM colfam_families", "other.t|other|4");
}
END_TEST

START_TEST(another_file_under_the_same_name) {
  make_table("aux", 3);
  sql_ok(db, "SELECT * FROM aux.t; DETACH aux");
  attach("second.db", "aux");
  sql_fails(db, "SELECT * FROM aux.t", SQLITE_ERROR, "no such table");
  make_table("aux", 2);
  sql_rows(db, "SELECT count(*) FROM aux.t", "2");
  sql_ok(db, "DETACH aux");
  attach("aux.db", "aux");
  sql_rows(db, "SELECT count(*) FROM aux.t", "3");
}
END_TEST

static void copy(const char *from, const char *to) {
  char command[9000];
  snprintf(command, sizeof command, "cp -r '%s' '%s' && cp -r '%s-colfam' '%s-colfam'",
           sql_path(from), sql_path(to), sql_path(from), sql_path(to));
  ck_assert_int_eq(system(command), 0);
}

START_TEST(copies_with_one_uuid_work_each_by_itself) {
  make_table("aux", 3);
  sql_ok(db, "SELECT * FROM aux.t");
  copy("aux.db", "copy.db");
  attach("copy.db", "copy");
  sql_ok(db,
         "INSERT INTO aux.t VALUES(4, 'aux'); INSERT INTO copy.t VALUES(4, 'copy'), (5, 'copy')");
  sql_rows(db, "SELECT * FROM aux.t WHERE k > 3", "4|aux");
  sql_rows(db, "SELECT * FROM copy.t WHERE k > 3", "4|copy\n5|copy");
  sql_ok(db, "BEGIN; DELETE FROM aux.t WHERE k = 1; UPDATE copy.t SET v = 'both'; COMMIT");
  sql_ok(db, "INSERT INTO aux.t(t) VALUES('compact'); INSERT INTO copy.t(t) VALUES('compact')");
  sql_rows(db, "SELECT * FROM aux.t", "2|v2\n3|v3\n4|aux");
  sql_rows(db, "SELECT group_concat(k || v) FROM copy.t", "1both,2both,3both,4both,5both");
  sql_ok(db, "DROP TABLE aux.t");
  sql_rows(db, "SELECT count(*) FROM copy.t", "5");
  sql_rows(db, "SELECT * FROM colfam_check('copy.t')", "");
}
END_TEST

START_TEST(a_copy_attached_in_its_place) {
  make_table("aux", 3);
  copy("aux.db", "copy.db");
  sql_ok(db, "INSERT INTO aux.t VALUES(4, 'newer'); DETACH aux");
  attach("copy.db", "aux");
  sql_rows(db, "SELECT max(k) FROM aux.t", "3");
  sql_ok(db, "INSERT INTO aux.t VALUES(9, 'copy'); DETACH aux");
  attach("aux.db", "aux");
  sql_rows(db, "SELECT max(k) FROM aux.t", "4");
}
END_TEST

START_TEST(one_file_under_two_names) {
  sql_ok(db, "PRAGMA aux.journal_mode = wal");
  make_table("aux", 3);
  attach("aux.db", "again");
  sql_ok(db, "INSERT INTO aux.t VALUES(4, 'v4')");
  sql_rows(db, "SELECT count(*) FROM again.t", "4");
  sql_ok(db, "BEGIN; INSERT INTO again.t VALUES(5, 'v5')");
  sql_rows(db, "SELECT count(*) FROM aux.t", "4");
  sql_rows(db, "SELECT count(*) FROM again.t", "5");
  sql_fails(db, "INSERT INTO aux.t VALUES(6, 'v6')", SQLITE_BUSY, "locked");
  sql_ok(db, "COMMIT; INSERT INTO again.t(t) VALUES('compact'); INSERT INTO aux.t VALUES(6, 'v6')");
  sql_rows(db, "SELECT count(*) FROM again.t", "6");
  sql_ok(db, "DETACH aux; INSERT INTO t VALUES(7, 'v7'); DROP TABLE again.t");
  ck_assert_int_eq(aux_files(), 0);
}
END_TEST

START_TEST(the_main_file_attached_too) {
  make_table("main", 3);
  attach("main.db", "twin");
  sql_ok(db, "INSERT INTO twin.t VALUES(4, 'v4')");
  sql_rows(db, "SELECT count(*) FROM main.t", "4");
  sql_ok(db, "INSERT INTO main.t VALUES(5, 'v5'); DELETE FROM twin.t WHERE k = 1");
  sql_rows(db, "SELECT min(k), max(k) FROM main.t", "2|5");
  sql_ok(db, "DETACH twin");
  sql_rows(db, "SELECT * FROM colfam_check('t')", "");
}
END_TEST

START_TEST(attached_read_only) {
  make_table("aux", 3);
  sql_ok(db, "INSERT INTO aux.t VALUES(4, 'logged'); DETACH aux");
  sql_okf(db, "ATTACH 'file:%s?mode=ro' AS aux", sql_path("aux.db"));
  sql_rows(db, "SELECT count(*), max(v) FROM aux.t", "4|v3");
  sql_fails(db, "INSERT INTO aux.t VALUES(5, 'x')", SQLITE_READONLY, "readonly");
  sql_fails(db, "DROP TABLE aux.t", SQLITE_READONLY, "readonly");
  sql_rows(db, "SELECT * FROM colfam_check('aux.t')", "");
  make_table("main", 1);
  sql_ok(db, "INSERT INTO main.t SELECT k + 10, v FROM aux.t; DETACH aux");
  sql_rows(db, "SELECT count(*) FROM t", "5");
}
END_TEST

START_TEST(attach_and_detach_inside_a_transaction) {
  make_table("main", 2);
  make_table("aux", 2);
  sql_ok(db, "BEGIN; INSERT INTO main.t VALUES(3, 'v3')");
  attach("second.db", "later");
  make_table("later", 2);
  sql_fails(db, "DETACH later", SQLITE_ERROR, "locked");
  sql_ok(db, "DETACH aux; SAVEPOINT s; DELETE FROM later.t; ROLLBACK TO s; COMMIT; DETACH later");
  sql_rows(db, "SELECT count(*) FROM t", "3");
  attach("second.db", "aux");
  sql_rows(db, "SELECT count(*) FROM aux.t", "2");
}
END_TEST

START_TEST(main_under_another_name) {
  ck_assert_int_eq(sqlite3_db_config(db, SQLITE_DBCONFIG_MAINDBNAME, "app"), SQLITE_OK);
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(k INT PRIMARY KEY); INSERT INTO app.t VALUES(1)");
  sql_rows(db,
           "SELECT colfam_may_exist('t', 1), colfam_may_exist('main.t', 1),"
           " colfam_may_exist('app.t', 1)",
           "1|1|1");
  sql_rows(db, "SELECT table_name, schema, rows FROM colfam_families", "app.t|app|1");
  sql_ok(db, "INSERT INTO t(t) VALUES('flush'); BEGIN; INSERT INTO main.t VALUES(2)");
  sql_ok(db, "SAVEPOINT s; DROP TABLE t; ROLLBACK TO s; COMMIT");
  sql_rows(db, "SELECT count(*) FROM main.t", "2");
  sql_ok(db, "ALTER TABLE t RENAME TO u; DROP TABLE u");
  ck_assert_int_eq(files_on_disk(sql_path("main.db")), 0);
}
END_TEST

/* SQLite frees a shared schema with its last connection only. */
START_TEST(attached_in_a_shared_cache) {
  char *sql = sqlite3_mprintf("ATTACH 'file:%s?cache=shared' AS aux", sql_path("aux.db"));
  sqlite3 *other = sql_open(sql_path("other.db"));
  sql_ok(db, "DETACH aux");
  sql_ok(db, sql);
  sql_ok(other, sql);
  make_table("aux", 3);
  sql_rows(other, "SELECT count(*) FROM aux.t", "3");
  sql_ok(other, "INSERT INTO aux.t VALUES(4, 'v4'); INSERT INTO aux.t(t) VALUES('compact')");
  sql_rows(db, "SELECT count(*) FROM aux.t", "4");
  sql_ok(db, "BEGIN; DELETE FROM aux.t WHERE k = 1");
  sql_rows(other, "SELECT count(*) FROM aux.t", "4");
  sql_ok(db, "COMMIT");
  sql_rows(other, "SELECT count(*) FROM aux.t", "3");
  sql_ok(other, "DETACH aux");
  sql_rows(db, "SELECT count(*) FROM aux.t", "3");
  sql_ok(other, sql);
  sql_rows(other, "SELECT count(*) FROM aux.t", "3");
  sqlite3_free(sql);
  sql_close(other);
  sql_ok(db, "DROP TABLE aux.t");
  ck_assert_int_eq(aux_files(), 0);
}
END_TEST

/* ---- Commits over several databases */

START_TEST(a_commit_spans_all_databases) {
  static const char *const names[] = {"main", "aux", "temp"};
  for (int i = 0; i < 3; i++) make_table(names[i], 1);
  sql_ok(db,
         "BEGIN; UPDATE main.t SET v = 'm'; UPDATE aux.t SET v = 'a'; UPDATE temp.t SET v = 't';"
         "SAVEPOINT s; DELETE FROM main.t; DELETE FROM aux.t; DELETE FROM temp.t; ROLLBACK TO s;"
         "COMMIT");
  sql_rows(db, "SELECT v FROM main.t UNION ALL SELECT v FROM aux.t UNION ALL SELECT v FROM temp.t",
           "m\na\nt");
  sql_ok(db, "BEGIN; DELETE FROM main.t; DELETE FROM aux.t; DELETE FROM temp.t; ROLLBACK");
  close_all();
  open_all();
  sql_rows(db, "SELECT v FROM main.t UNION ALL SELECT v FROM aux.t", "m\na");
}
END_TEST

START_TEST(a_busy_database_keeps_all_back) {
  make_table("main", 1);
  make_table("aux", 1);
  sqlite3 *reader = sql_open(sql_path("aux.db"));
  sql_ok(reader, "BEGIN; SELECT * FROM t");
  sql_ok(db, "BEGIN; DELETE FROM main.t; DELETE FROM aux.t; INSERT INTO main.t(t) VALUES('flush')");
  sql_fails(db, "COMMIT", SQLITE_BUSY, "locked");
  sql_ok(db, "INSERT INTO main.t VALUES(7, 'seven')");
  sql_ok(reader, "COMMIT");
  sql_ok(db, "COMMIT");
  sql_rows(db, "SELECT * FROM main.t", "7|seven");
  sql_rows(reader, "SELECT count(*) FROM t", "0");
  sql_close(reader);
}
END_TEST

/* A VFS that takes the place of unix: while failing_wal is set, nothing can be written to a file that is
** called so. */
static sqlite3_vfs *real_vfs;
static const char *failing_wal;
static sqlite3_io_methods wal_methods;
static int (*real_write)(sqlite3_file *, const void *, int, sqlite3_int64);

static int write_or_fail(sqlite3_file *file, const void *bytes, int amount, sqlite3_int64 offset) {
  return failing_wal ? SQLITE_IOERR_WRITE : real_write(file, bytes, amount, offset);
}

static int open_watched(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags,
                        int *out) {
  (void)vfs;
  int rc = real_vfs->xOpen(real_vfs, name, file, flags, out);
  if (rc == SQLITE_OK && failing_wal && name && strstr(name, failing_wal)) {
    wal_methods = *file->pMethods;
    real_write = wal_methods.xWrite;
    wal_methods.xWrite = write_or_fail;
    file->pMethods = &wal_methods;
  }
  return rc;
}

static void watch_wal(sqlite3_vfs *vfs, const char *name) {
  real_vfs = sqlite3_vfs_find("unix");
  *vfs = *real_vfs;
  vfs->pNext = NULL;
  vfs->xOpen = open_watched;
  ck_assert_int_eq(sqlite3_vfs_register(vfs, 1), SQLITE_OK);
  failing_wal = name;
  close_all();
  open_all();
  sql_ok(db, "PRAGMA main.journal_mode = wal; PRAGMA aux.journal_mode = wal");
}

/* SQLite commits file by file in WAL mode. When the second one fails it calls all rolled back, and the
** first is not: the colfam tables in it must have what the ordinary ones have, with their files. */
START_TEST(a_commit_that_fails_half_way) {
  static sqlite3_vfs vfs;
  make_table("main", 3);
  make_table("aux", 3);
  sql_ok(db, "CREATE TABLE main.o(k); INSERT INTO o SELECT k FROM main.t; CREATE TABLE aux.o(k)");
  sql_ok(db, "INSERT INTO aux.o SELECT k FROM aux.t; PRAGMA main.journal_mode = wal;"
             "PRAGMA aux.journal_mode = wal");
  watch_wal(&vfs, _i ? "main.db-wal" : "aux.db-wal");
  sql_ok(db, "SELECT * FROM main.t, aux.t; BEGIN");
  sql_ok(db, "INSERT INTO main.t VALUES(4, 'v4'); INSERT INTO main.t(t) VALUES('compact');"
             "INSERT INTO aux.t VALUES(4, 'v4'); INSERT INTO aux.t(t) VALUES('compact');"
             "INSERT INTO main.o VALUES(4); INSERT INTO aux.o VALUES(4)");
  sql_fails(db, "COMMIT", SQLITE_IOERR, NULL);
  failing_wal = NULL;
  ck_assert_int_eq(sqlite3_get_autocommit(db), 1);
  ck_assert_int_eq(sql_int(db, "SELECT count(*) FROM main.o"), _i ? 3 : 4);
  for (int i = 0; i < 2; i++) {
    sql_same(db, "SELECT k FROM main.t ORDER BY k", "SELECT k FROM main.o ORDER BY k");
    sql_same(db, "SELECT k FROM aux.t ORDER BY k", "SELECT k FROM aux.o ORDER BY k");
    sql_rows(db, "SELECT f.schema, c.* FROM colfam_families f, colfam_check(f.table_name) c", "");
    sql_ok(db, "INSERT INTO main.t VALUES(5, 'v5'); INSERT INTO aux.t VALUES(5, 'v5');"
               "INSERT INTO main.o VALUES(5); INSERT INTO aux.o VALUES(5)");
    sql_ok(db, "DELETE FROM main.t WHERE k = 5; DELETE FROM aux.t WHERE k = 5;"
               "DELETE FROM main.o WHERE k = 5; DELETE FROM aux.o WHERE k = 5");
    if (i == 0) {
      close_all();
      open_all();
    }
  }
  ck_assert_int_eq(aux_files(), 1);
  sqlite3_vfs_unregister(&vfs);
}
END_TEST

/* ---- Backup */

START_TEST(each_database_is_backed_up) {
  make_table("aux", 6);
  make_table("temp", 7);
  sql_ok(db, "ATTACH ':memory:' AS m");
  make_table("m", 8);
  static const char *const names[] = {"aux", "temp", "m"};
  for (int i = 0; i < 3; i++) {
    char file[32], expected[16];
    snprintf(file, sizeof file, "copy%d.db", i);
    snprintf(expected, sizeof expected, "%d", 6 + i);
    sql_okf(db, "SELECT * FROM colfam_backup(%Q, %Q)", sql_path(file), names[i]);
    attach(file, "copy");
    sql_rows(db, "SELECT count(*) FROM copy.t", expected);
    sql_rows(db, "SELECT * FROM colfam_check('copy.t')", "");
    sql_ok(db, "INSERT INTO copy.t VALUES(99, 'x'); DETACH copy");
  }
}
END_TEST

/* ---- DROP */

START_TEST(drop_leaves_main_alone) {
  make_table("main", 1);
  make_table("aux", 2);
  make_table("temp", 2);
  sqlite3 *writer = sql_open(sql_path("main.db"));
  for (int i = 0; i < 2; i++) {
    sql_ok(writer, i ? "BEGIN EXCLUSIVE" : "BEGIN IMMEDIATE");
    sql_ok(db, "BEGIN; INSERT INTO aux.t VALUES(9, 'x'); INSERT INTO temp.t VALUES(9, 'x')");
    sql_ok(db, "DROP TABLE aux.t; DROP TABLE temp.t; ROLLBACK");
    sql_ok(writer, "ROLLBACK");
    sql_rows(db, "SELECT count(*) FROM aux.t UNION ALL SELECT count(*) FROM temp.t", "2\n2");
  }
  sql_ok(writer, "BEGIN EXCLUSIVE");
  sql_ok(db, "BEGIN; INSERT INTO aux.t VALUES(9, 'x'); DROP TABLE aux.t; DROP TABLE temp.t");
  ck_assert_int_eq(sqlite3_txn_state(db, "main"), SQLITE_TXN_NONE);
  sql_ok(db, "COMMIT");
  ck_assert_int_eq(aux_files(), 0);
  sql_ok(writer, "ROLLBACK");
  sql_close(writer);
  sql_rows(db, "SELECT count(*) FROM t", "1");
}
END_TEST

START_TEST(drop_beside_a_read_only_main) {
  make_table("aux", 2);
  close_all();
  char uri[4200];
  snprintf(uri, sizeof uri, "file:%s?mode=ro", sql_path("main.db"));
  db = sql_open(uri);
  attach("aux.db", "aux");
  make_table("temp", 2);
  sql_ok(db, "DROP TABLE aux.t; DROP TABLE t");
  ck_assert_int_eq(aux_files(), 0);
}
END_TEST

/* With the table in temp made by this very DROP, and there before. */
START_TEST(drop_in_a_savepoint_undone_beyond_its_writes) {
  make_table("aux", 1);
  for (int i = 0; i < 2; i++) {
    sql_ok(db, "BEGIN; INSERT INTO aux.t VALUES(2, 'kept'); SAVEPOINT a");
    sql_ok(db,
           "INSERT INTO aux.t VALUES(3, 'undone'); SAVEPOINT b; INSERT INTO aux.t VALUES(4, 'b')");
    sql_ok(db, "DROP TABLE aux.t; ROLLBACK TO a; COMMIT");
    sql_rows(db, "SELECT * FROM aux.t", "1|v1\n2|kept");
    sql_ok(db, "DELETE FROM aux.t WHERE k = 2");
    sql_ok(db, "CREATE VIRTUAL TABLE aux.u USING colfam(k PRIMARY KEY); DROP TABLE aux.u");
  }
  sql_ok(db, "BEGIN; INSERT INTO aux.t VALUES(2, 'kept'); SAVEPOINT a; DROP TABLE aux.t");
  sql_ok(db, "ROLLBACK TO a; INSERT INTO aux.t VALUES(5, 'more'); COMMIT");
  sql_rows(db, "SELECT k FROM aux.t", "1\n2\n5");
}
END_TEST

START_TEST(drop_while_the_name_in_temp_is_taken) {
  make_table("aux", 2);
  make_table("main", 2);
  sql_ok(db, "CREATE TEMP TABLE colfam_drops(dropped); BEGIN; INSERT INTO aux.t VALUES(3, 'v3')");
  sql_fails(db, "DROP TABLE aux.t", SQLITE_LOCKED, NULL);
  sql_ok(db, "COMMIT");
  sql_rows(db, "SELECT count(*) FROM aux.t", "3");
  sql_ok(db, "BEGIN; DROP TABLE aux.t; ROLLBACK; DROP TABLE main.t; DROP TABLE aux.t");
  sql_rows(db, "SELECT count(*) FROM temp.colfam_drops", "0");
  ck_assert_int_eq(aux_files(), 1);
  ck_assert_int_eq(files_on_disk(sql_path("main.db")), 0);
}
END_TEST

START_TEST(the_table_in_temp_stays_while_it_is_needed) {
  make_table("aux", 2);
  sql_ok(db, "BEGIN; INSERT INTO aux.t VALUES(3, 'v3'); SAVEPOINT s; DROP TABLE aux.t");
  sql_fails(db, "DROP TABLE temp.colfam_drops", SQLITE_LOCKED, NULL);
  sql_ok(db, "ROLLBACK TO s; COMMIT");
  sql_rows(db, "SELECT count(*) FROM aux.t", "3");
  sql_ok(db, "DROP TABLE aux.t; DROP TABLE temp.colfam_drops");
  sql_fails(db, "CREATE VIRTUAL TABLE x USING colfam_drops", SQLITE_ERROR, "no module for tables");
  make_table("aux", 2);
  sql_ok(db, "DROP TABLE aux.t");
  ck_assert_int_eq(aux_files(), 0);
}
END_TEST

/* A compaction's old file and a dropped table's go with the commit that the mode of their own database
** needs, whatever main's is. */
START_TEST(files_go_as_the_schemas_own_journal_says) {
  static const char *const modes[] = {"wal", "delete", "truncate", "persist", "memory", "off"};
  sql_okf(db, "PRAGMA main.journal_mode = %s", modes[5 - _i]);
  sql_okf(db, "PRAGMA aux.journal_mode = %s", modes[_i]);
  make_table("main", 1);
  make_table("aux", 3);
  sql_ok(db, "INSERT INTO aux.t VALUES(4, 'v4'); INSERT INTO aux.t(t) VALUES('compact')");
  ck_assert_int_eq(aux_files(), 1);
  sqlite3 *reader = sql_open(sql_path("aux.db"));
  if (_i == 0) {
    sql_ok(reader, "BEGIN; SELECT * FROM t");
    sql_ok(db, "INSERT INTO aux.t VALUES(5, 'v5'); INSERT INTO aux.t(t) VALUES('compact')");
    sql_ok(db, "INSERT INTO main.t VALUES(5, 'v5')");
    ck_assert_int_eq(aux_files(), 2);
    sql_rows(reader, "SELECT count(*) FROM t", "4");
    sql_ok(reader, "COMMIT; SELECT * FROM t");
    sql_ok(db, "INSERT INTO aux.t VALUES(6, 'v6')");
    ck_assert_int_eq(aux_files(), 1);
  }
  sql_close(reader);
  sql_ok(db, "DROP TABLE aux.t");
  ck_assert_int_eq(aux_files(), 0);
  ck_assert_int_eq(files_on_disk(sql_path("main.db")), 1);
}
END_TEST

/* ---- Names */

START_TEST(names_are_resolved_as_sqlite_does) {
  attach("second.db", "\"od.d\"");
  sql_ok(db, "CREATE VIRTUAL TABLE aux.\"a b\" USING colfam(k INT PRIMARY KEY);"
             "CREATE VIRTUAL TABLE \"od.d\".\"a b\" USING colfam(k INT PRIMARY KEY);"
             "INSERT INTO aux.\"a b\" VALUES(1); INSERT INTO \"od.d\".\"a b\" VALUES(2)");
  static const char *const probe = "SELECT colfam_may_exist('\"a b\"', 1),"
                                   " colfam_may_exist('aux.\"a b\"', 1),"
                                   " colfam_may_exist('\"od.d\".[a b]', 2)";
  sql_rows(db, probe, "1|1|1");
  sql_ok(db, "CREATE VIRTUAL TABLE main.\"A B\" USING colfam(k INT PRIMARY KEY)");
  sql_rows(db, probe, "0|1|1");
  sql_ok(db, "CREATE VIRTUAL TABLE temp.\"a b\" USING colfam(k INT PRIMARY KEY);"
             "INSERT INTO temp.\"a b\" VALUES(1)");
  sql_rows(db, probe, "1|1|1");
  sql_rows(db, "SELECT table_name FROM colfam_families WHERE schema = 'main'", "main.\"A B\"");
  sql_rows(db, "SELECT f.table_name, c.* FROM colfam_families f, colfam_check(f.table_name) c", "");
  sql_ok(db, "DROP TABLE temp.\"a b\"; CREATE TEMP VIEW \"a b\" AS SELECT 1");
  sql_fails(db, probe, SQLITE_ERROR, "no colfam table");
  sql_fails(db, "SELECT colfam_may_exist('sqlite_master', 1)", SQLITE_ERROR, "no colfam table");
  sql_rows(db, "SELECT table_name, schema FROM colfam_families",
           "\"A B\"|main\naux.\"a b\"|aux\n\"od.d\".\"a b\"|od.d");
  sql_rows(db, "SELECT DISTINCT schema FROM colfam_stats WHERE name = 'memtable_memory' ORDER BY 1",
           "aux\nmain\nod.d");
  sql_fails(db, "SELECT colfam_may_exist('nothing', 1)", SQLITE_ERROR, "no such table: nothing");
  sql_fails(db, "SELECT colfam_may_exist('aux.nothing', 1)", SQLITE_ERROR, "no such table");
}
END_TEST

START_TEST(messages_name_the_schema) {
  sql_trust(db);
  sql_fails(db, "CREATE VIRTUAL TABLE aux.t USING colfam(k PRIMARY KEY, nonsense = 1)",
            SQLITE_ERROR, "table aux.t: ");
  make_table("aux", 2);
  sql_fails(db, "INSERT INTO aux.t(t) VALUES('nonsense')", SQLITE_ERROR, "table aux.t: ");
  sql_fails(db, "INSERT INTO aux.t VALUES(1, 'x')", SQLITE_CONSTRAINT_PRIMARYKEY,
            "UNIQUE constraint failed: t.k");
  sql_fails(db, "SELECT colfam_may_exist('aux.t')", SQLITE_ERROR, NULL);
  sql_ok(db, "DELETE FROM aux.t_cfmeta WHERE name = 'uuid'");
  sql_fails(db, "SELECT * FROM aux.t", SQLITE_CORRUPT_VTAB, "table aux.t: t_cfmeta");
}
END_TEST

/* ---- Copies without the directory */

START_TEST(vacuum_of_each_database) {
  make_table("main", 5);
  make_table("aux", 6);
  sql_ok(db, "INSERT INTO aux.t VALUES(7, 'logged'); VACUUM; VACUUM main; VACUUM aux");
  sql_rows(db, "SELECT (SELECT count(*) FROM main.t), (SELECT count(*) FROM aux.t)", "5|7");
  sql_ok(db,
         "INSERT INTO aux.t VALUES(8, 'v8'); INSERT INTO aux.t(t) VALUES('compact'); VACUUM aux");
  sql_rows(db, "SELECT count(*) FROM aux.t", "8");
}
END_TEST

START_TEST(vacuum_into_takes_the_rows_that_are_in_files_not_along) {
  make_table("aux", 6);
  sql_okf(db, "VACUUM aux INTO %Q", sql_path("copy.db"));
  attach("copy.db", "copy");
  sql_fails(db, "SELECT * FROM copy.t", SQLITE_CANTOPEN, "colfam_backup");
  sql_fails(db, "SELECT * FROM copy.t", SQLITE_CANTOPEN, "table copy.t: ");
  sql_rows(db, "SELECT count(*) FROM aux.t", "6");
  sql_ok(db, "DROP TABLE copy.t");
  sql_rows(db, "SELECT count(*) FROM copy.sqlite_master", "0");
  sql_rows(db, "SELECT count(*) FROM aux.t", "6");
}
END_TEST

/* ---- Places */

static int pass_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *out) {
  (void)vfs;
  return real_vfs->xOpen(real_vfs, name, file, flags, out);
}

/* It does not say its name when asked: its files are the real one's. */
static void register_pass_through(sqlite3_vfs *vfs, const char *name) {
  real_vfs = sqlite3_vfs_find("unix");
  *vfs = *real_vfs;
  vfs->zName = name;
  vfs->pNext = NULL;
  vfs->xOpen = pass_open;
  ck_assert_int_eq(sqlite3_vfs_register(vfs, 0), SQLITE_OK);
}

START_TEST(other_vfses_are_refused_by_name) {
  static sqlite3_vfs vfs;
  register_pass_through(&vfs, "passthrough");
  static const char *const names[] = {"passthrough", "unix-none"};
  for (int i = 0; i < 2; i++) {
    sql_okf(db, "ATTACH 'file:%s?vfs=%s' AS odd", sql_path("odd.db"), names[i]);
    sql_fails(db, "CREATE VIRTUAL TABLE odd.t USING colfam(k PRIMARY KEY)", SQLITE_ERROR, names[i]);
    sql_rows(db, "SELECT count(*) FROM odd.sqlite_master", "0");
    sql_ok(db, "DETACH odd");
  }
  ck_assert_int_ne(access(sql_path("odd.db-colfam"), F_OK), 0);
  make_table("aux", 2);
  sql_ok(db, "DETACH aux");
  sql_okf(db, "ATTACH 'file:%s?vfs=passthrough' AS aux", sql_path("aux.db"));
  sql_fails(db, "SELECT * FROM aux.t", SQLITE_ERROR, "table aux.t: colfam keeps files");
  sql_ok(db, "DROP TABLE aux.t");
  sqlite3_vfs_unregister(&vfs);
}
END_TEST

START_TEST(accepted_vfses_work_attached) {
  static const char *const names[] = {"unix", "unix-excl", "unix-dotfile"};
  for (int i = 0; i < 3; i++) {
    sql_okf(db, "ATTACH 'file:%s?vfs=%s' AS odd", sql_path("odd.db"), names[i]);
    make_table("odd", 2);
    sql_rows(db, "SELECT count(*) FROM odd.t", "2");
    sql_ok(db, "DROP TABLE odd.t; DETACH odd");
  }
}
END_TEST

START_TEST(immutable_and_nolock_are_refused) {
  make_table("aux", 2);
  sql_ok(db, "DETACH aux");
  static const char *const flags[] = {"immutable", "nolock"};
  for (int i = 0; i < 2; i++) {
    sql_okf(db, "ATTACH 'file:%s?%s=1' AS aux", sql_path("aux.db"), flags[i]);
    sql_fails(db, "SELECT * FROM aux.t", SQLITE_ERROR, "immutable or nolock");
    sql_ok(db, "DETACH aux");
  }
  attach("aux.db", "aux");
  sql_rows(db, "SELECT count(*) FROM aux.t", "2");
}
END_TEST

static TCase *add(Suite *s, const char *name) {
  TCase *tc = tcase_create(name);
  tcase_add_checked_fixture(tc, open_all, close_all);
  suite_add_tcase(s, tc);
  return tc;
}

static void add_files(TCase *tc) {
  tcase_add_test(tc, detach_right_after_any_use);
  tcase_add_test(tc, an_open_cursor_keeps_it_attached);
  tcase_add_test(tc, attached_again_under_another_name);
  tcase_add_test(tc, another_file_under_the_same_name);
  tcase_add_test(tc, copies_with_one_uuid_work_each_by_itself);
  tcase_add_test(tc, a_copy_attached_in_its_place);
  tcase_add_test(tc, one_file_under_two_names);
  tcase_add_test(tc, the_main_file_attached_too);
  tcase_add_test(tc, attached_read_only);
  tcase_add_test(tc, attach_and_detach_inside_a_transaction);
  tcase_add_test(tc, main_under_another_name);
  tcase_add_test(tc, attached_in_a_shared_cache);
  tcase_add_test(tc, a_commit_spans_all_databases);
  tcase_add_test(tc, a_busy_database_keeps_all_back);
  tcase_add_loop_test(tc, a_commit_that_fails_half_way, 0, 2);
  tcase_add_test(tc, each_database_is_backed_up);
}

static void add_drop(TCase *tc) {
  tcase_add_test(tc, drop_leaves_main_alone);
  tcase_add_test(tc, drop_beside_a_read_only_main);
  tcase_add_test(tc, drop_in_a_savepoint_undone_beyond_its_writes);
  tcase_add_test(tc, drop_while_the_name_in_temp_is_taken);
  tcase_add_test(tc, the_table_in_temp_stays_while_it_is_needed);
  tcase_add_loop_test(tc, files_go_as_the_schemas_own_journal_says, 0, 6);
}

static void add_places(TCase *tc) {
  tcase_add_test(tc, names_are_resolved_as_sqlite_does);
  tcase_add_test(tc, messages_name_the_schema);
  tcase_add_test(tc, vacuum_of_each_database);
  tcase_add_test(tc, vacuum_into_takes_the_rows_that_are_in_files_not_along);
  tcase_add_test(tc, other_vfses_are_refused_by_name);
  tcase_add_test(tc, accepted_vfses_work_attached);
  tcase_add_test(tc, immutable_and_nolock_are_refused);
}

int main(void) {
  Suite *s = suite_create("sql_attach");
  add_files(add(s, "files"));
  add_drop(add(s, "drop"));
  add_places(add(s, "places"));
  return harness_run(s);
}
