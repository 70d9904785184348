/* colfam_salvage: what a damaged table still has, brought into a new one. Held against lookups by key,
** which read around damage or say that they cannot. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness_damage.h"
#include "harness_sql.h"

static sqlite3 *db;

static void open_database(void) {
  db = sql_open(sql_path("salvage.db"));
  sql_trust(db);
}

static void setup(void) {
  open_database();
  damage_make_tables(db);
  damage_note_rows(db);
  sql_ok(db, "CREATE TABLE truth AS SELECT * FROM t");
}

static void teardown(void) {
  sql_close(db);
}

static void reopen(void) {
  sql_close(db);
  open_database();
}

static void salvage(void) {
  sql_ok(
      db,
      "DROP TABLE IF EXISTS temp.saved; DROP TABLE IF EXISTS temp.good;"
      "DROP TABLE IF EXISTS temp.doubts;"
      "CREATE VIRTUAL TABLE temp.saved USING colfam_salvage(t);"
      "CREATE TEMP TABLE good AS SELECT * FROM saved;"
      "CREATE TEMP TABLE doubts AS SELECT *, colfam_doubtful FROM saved WHERE colfam_doubtful = 1");
}

/* Each key by itself: into temp.by_key, with what a lookup gives; those that fail are left out. */
static void look_up_all(void) {
  sqlite3_stmt *get, *put;
  sql_ok(db, "DROP TABLE IF EXISTS temp.by_key; CREATE TEMP TABLE by_key(k, v)");
  ck_assert_int_eq(sqlite3_prepare_v2(db, "SELECT v FROM t WHERE k = ?1", -1, &get, NULL),
                   SQLITE_OK);
  ck_assert_int_eq(sqlite3_prepare_v2(db, "INSERT INTO temp.by_key VALUES(?1, ?2)", -1, &put, NULL),
                   SQLITE_OK);
  for (int k = 0; k < 310; k++) {
    sqlite3_bind_int(get, 1, k);
    int rc = sqlite3_step(get);
    ck_assert(rc == SQLITE_ROW || rc == SQLITE_DONE || (rc & 0xff) == SQLITE_CORRUPT ||
              (rc & 0xff) == SQLITE_CANTOPEN);
    if (rc == SQLITE_ROW) {
      sqlite3_bind_int(put, 1, k);
      sqlite3_bind_value(put, 2, sqlite3_column_value(get, 0));
      ck_assert_int_eq(sqlite3_step(put), SQLITE_DONE);
      sqlite3_reset(put);
    }
    sqlite3_reset(get);
  }
  sqlite3_finalize(get);
  sqlite3_finalize(put);
}

/* Nothing wrong, nothing that could be read left out, doubtful rows apart. */
static void expect_all_that_can_be_read(void) {
  salvage();
  look_up_all();
  sql_rows(db, "SELECT count(*) FROM (SELECT * FROM good EXCEPT SELECT * FROM truth)", "0");
  sql_rows(db, "SELECT count(*) FROM (SELECT * FROM by_key EXCEPT SELECT * FROM good)", "0");
  sql_rows(db, "SELECT count(*) FROM (SELECT * FROM good EXCEPT SELECT * FROM by_key)", "0");
  sql_rows(db, "SELECT count(*) FROM doubts WHERE k IN (SELECT k FROM good)", "0");
  sql_rows(db, "SELECT count(*) FROM doubts WHERE colfam_doubtful <> 1", "0");
}

/* ---- Files */

struct file {
  char path[4600];
  char bytes[1 << 16];
  size_t size;
};

static void write_file(const struct file *file, size_t flipped) {
  FILE *out = fopen(file->path, "wb");
  ck_assert_ptr_nonnull(out);
  for (size_t i = 0; i < file->size; i++) fputc(file->bytes[i] ^ (i == flipped ? 1 : 0), out);
  fclose(out);
}

static void read_file(int number, struct file *file) {
  char *sql = sqlite3_mprintf("SELECT id FROM colfam_files('t') LIMIT 1 OFFSET %d", number);
  char *id = sql_query(db, sql);
  snprintf(file->path, sizeof file->path, "%s/%s.sst", sql_path("salvage.db-colfam"), id);
  FILE *in = fopen(file->path, "rb");
  ck_assert_ptr_nonnull(in);
  file->size = fread(file->bytes, 1, sizeof file->bytes, in);
  fclose(in);
  sqlite3_free(id);
  sqlite3_free(sql);
}

START_TEST(sound_table_is_brought_over_whole) {
  expect_all_that_can_be_read();
  sql_same(db, "SELECT * FROM good", "SELECT * FROM truth");
  sql_rows(db, "SELECT count(*) FROM doubts", "0");
}
END_TEST

/* A byte every 90 or so, so that every block and every part is hit. */
START_TEST(each_block_of_each_file_damaged) {
  static struct file file;
  read_file(_i, &file);
  for (size_t at = 5; at < file.size; at += 90) {
    write_file(&file, at);
    reopen();
    expect_all_that_can_be_read();
    sql_rows(db,
             "SELECT count(*) > 0 FROM colfam_check('t') WHERE file IS NOT NULL AND"
             " text LIKE 'table file % rows with keys from % may be lost (% in all)'",
             "1");
  }
  write_file(&file, file.size);
  reopen();
  damage_none(db);
}
END_TEST

START_TEST(file_lost) {
  static struct file file;
  read_file(_i, &file);
  unlink(file.path);
  reopen();
  expect_all_that_can_be_read();
  sql_rows(db, "SELECT v FROM good WHERE k = 300", "logged");
  write_file(&file, file.size);
  reopen();
  damage_none(db);
}
END_TEST

START_TEST(check_says_which_rows_are_lost) {
  static struct file file;
  read_file(1, &file);
  unlink(file.path);
  reopen();
  sql_rows(
      db,
      "SELECT severity, position, substr(text, 30) FROM colfam_check('t')"
      " WHERE text LIKE '%may be lost%'",
      sql_reverse()
          ? "error|0|rows with keys from 150 to 1 may be lost (150 entries of this file in all)"
          : "error|0|rows with keys from 1 to 150 may be lost (150 entries of this file in all)");
  write_file(&file, 3);
  reopen();
  sql_rows(db,
           sql_reverse() ? "SELECT count(*), min(text GLOB '*: rows with keys from 150 to below *')"
                           " FROM colfam_check('t') WHERE text LIKE '%may be lost%'"
                         : "SELECT count(*), min(text GLOB '*: rows with keys from 1 to below *')"
                           " FROM colfam_check('t') WHERE text LIKE '%may be lost%'",
           "1|1");
}
END_TEST

/* ---- Shadow tables */

START_TEST(manifest_row_lost_makes_rows_of_files_doubtful) {
  sql_ok(db, "DELETE FROM t_cffile WHERE seq = (SELECT max(seq) FROM t_cffile)");
  reopen();
  salvage();
  sql_rows(db, "SELECT k, v FROM good", "7|logged\n300|logged");
  sql_rows(db, "SELECT v FROM doubts WHERE k = 9", "first 9");
  sql_rows(db, "SELECT count(*) > 100 FROM doubts", "1");
}
END_TEST

START_TEST(log_row_lost_makes_all_older_rows_doubtful) {
  sql_ok(db,
         "UPDATE t_cflog SET batch = zeroblob(30) WHERE seq = (SELECT max(seq) - 1 FROM t_cflog)");
  reopen();
  sql_fails(db, "SELECT * FROM t", SQLITE_CORRUPT_VTAB, "log batch");
  salvage();
  sql_rows(db, "SELECT k, v FROM good", "7|logged");
  sql_rows(db, "SELECT v FROM doubts WHERE k = 9", "second 9");
  sql_rows(db, "SELECT count(*) FROM doubts WHERE k = 300", "0");
}
END_TEST

/* ---- The table itself */

START_TEST(keys_of_every_kind_and_a_new_colfam_table) {
  sql_ok(db, "CREATE VIRTUAL TABLE a USING colfam(x TEXT COLLATE NOCASE, y REAL, z BLOB,"
             " PRIMARY KEY(x, y DESC));"
             "INSERT INTO a VALUES('Ab', 1, x'00'), ('ab', 2.5, NULL), ('c', -1, 'text');"
             "CREATE VIRTUAL TABLE n USING colfam(id INTEGER PRIMARY KEY, v);"
             "INSERT INTO n VALUES(-5, 'a'), (9, NULL);"
             "CREATE VIRTUAL TABLE l USING colfam(line);"
             "INSERT INTO l VALUES('first'), ('second');"
             "CREATE VIRTUAL TABLE temp.sa USING colfam_salvage(main.a);"
             "CREATE VIRTUAL TABLE temp.sn USING colfam_salvage('n');"
             "CREATE VIRTUAL TABLE temp.sl USING colfam_salvage(\"l\")");
  sql_same(db, "SELECT * FROM sa", "SELECT * FROM a");
  sql_same(db, "SELECT rowid, * FROM sn", "SELECT rowid, * FROM n");
  sql_same(db, "SELECT rowid, * FROM sl", "SELECT rowid, * FROM l");
  sql_rows(db, "SELECT typeof(y), typeof(z) FROM sa WHERE x = 'c'", "real|text");
  sql_rows(db, "SELECT count(*) FROM sn WHERE colfam_doubtful IN (0, 1)", "2");
  sql_rows(db, "SELECT count(*) FROM sn WHERE colfam_doubtful = NULL", "0");
  sql_ok(db, "CREATE VIRTUAL TABLE again USING colfam(x TEXT COLLATE NOCASE, y REAL, z BLOB,"
             " PRIMARY KEY(x, y DESC)); INSERT INTO again SELECT * FROM sa");
  sql_same(db, "SELECT * FROM again", "SELECT * FROM a");
}
END_TEST

START_TEST(what_it_refuses) {
  sql_fails(db, "CREATE VIRTUAL TABLE s USING colfam_salvage(t)", SQLITE_ERROR, "temp.s USING");
  sql_fails(db, "CREATE VIRTUAL TABLE temp.s USING colfam_salvage", SQLITE_ERROR, "temp.s USING");
  sql_fails(db, "CREATE VIRTUAL TABLE temp.s USING colfam_salvage(truth)", SQLITE_ERROR,
            "truth is no colfam table");
  sql_fails(db, "CREATE VIRTUAL TABLE temp.s USING colfam_salvage(none)", SQLITE_ERROR,
            "no such table");
  sql_fails(db, "SELECT * FROM colfam_salvage", SQLITE_ERROR, "no such table");
  sql_ok(db, "CREATE VIRTUAL TABLE temp.s USING colfam_salvage(t)");
  sql_fails(db, "INSERT INTO s VALUES(1, 2)", SQLITE_ERROR, "may not be modified");
  sql_ok(db, "BEGIN; INSERT INTO t VALUES(1000, 'pending')");
  sql_fails(db, "SELECT * FROM s", SQLITE_LOCKED, "commit or roll back first");
  sql_ok(db, "ROLLBACK");
  sql_rows(db, "SELECT count(*) FROM s WHERE k = 1000", "0");
}
END_TEST

START_TEST(table_dropped_or_changed_meanwhile) {
  sql_ok(db, "CREATE VIRTUAL TABLE temp.s USING colfam_salvage(t); DROP TABLE t");
  sql_fails(db, "SELECT * FROM s", SQLITE_ERROR, "no such table");
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(other PRIMARY KEY, columns)");
  sql_fails(db, "SELECT * FROM s", SQLITE_ERROR, "has changed since");
  sql_ok(db, "DROP TABLE s; CREATE VIRTUAL TABLE temp.s USING colfam_salvage(t)");
  sql_rows(db, "SELECT count(*) FROM s", "0");
  sql_ok(db, "DROP TABLE t; ALTER TABLE truth ADD COLUMN more; DROP TABLE temp.s");
}
END_TEST

/* Read while others write: one state, and nothing is left open. */
START_TEST(salvage_is_one_state_and_blocks_nobody) {
  sqlite3 *writer = sql_open(sql_path("salvage.db"));
  sqlite3_stmt *stmt;
  sql_ok(db, "CREATE VIRTUAL TABLE temp.s USING colfam_salvage(t)");
  ck_assert_int_eq(sqlite3_prepare_v2(db, "SELECT count(*) FROM s, (SELECT 1)", -1, &stmt, NULL),
                   SQLITE_OK);
  sql_ok(writer, "DELETE FROM t WHERE k < 100; INSERT INTO t(t) VALUES('compact')");
  ck_assert_int_eq(sqlite3_step(stmt), SQLITE_ROW);
  ck_assert_int_eq(sqlite3_column_int(stmt, 0), (int)sql_int(writer, "SELECT count(*) FROM t"));
  sqlite3_finalize(stmt);
  sql_ok(writer, "DELETE FROM t");
  sql_rows(db, "SELECT count(*) FROM s", "0");
  sql_close(writer);
  sql_ok(db, "VACUUM");
}
END_TEST

int main(void) {
  Suite *suite = suite_create("sql_salvage");
  TCase *tc = tcase_create("salvage");
  tcase_add_checked_fixture(tc, setup, teardown);
  tcase_set_timeout(tc, 60);
  tcase_add_test(tc, sound_table_is_brought_over_whole);
  tcase_add_loop_test(tc, each_block_of_each_file_damaged, 0, 2);
  tcase_add_loop_test(tc, file_lost, 0, 2);
  tcase_add_test(tc, check_says_which_rows_are_lost);
  tcase_add_test(tc, manifest_row_lost_makes_rows_of_files_doubtful);
  tcase_add_test(tc, log_row_lost_makes_all_older_rows_doubtful);
  tcase_add_test(tc, keys_of_every_kind_and_a_new_colfam_table);
  tcase_add_test(tc, what_it_refuses);
  tcase_add_test(tc, table_dropped_or_changed_meanwhile);
  tcase_add_test(tc, salvage_is_one_state_and_blocks_nobody);
  suite_add_tcase(suite, tc);
  return harness_run(suite);
}
