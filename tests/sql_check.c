/* colfam_check: what it finds, and what it leaves alone. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness_numbers.h"

START_TEST(check_finds_nothing_in_sound_tables) {
  numbers_make();
  sql_ok(db, "CREATE VIRTUAL TABLE c USING colfam(a TEXT, b REAL, v BLOB, PRIMARY KEY(a, b DESC));"
             "CREATE VIRTUAL TABLE r USING colfam(v);"
             "CREATE VIRTUAL TABLE empty USING colfam(k PRIMARY KEY);"
             "INSERT INTO c VALUES('a', 1, x'00'), ('a', -0.0, zeroblob(100000)), ('', 1e9, NULL);"
             "INSERT INTO r VALUES(1), (NULL), ('x'), (1.5)");
  static const char *const tables[] = {"t", "c", "r", "empty"};
  for (int round = 0; round < 4; round++) {
    for (size_t i = 0; i < 4; i++) {
      char *sql = sqlite3_mprintf("SELECT * FROM colfam_check(%Q)", tables[i]);
      sql_rows(db, sql, "");
      sqlite3_free(sql);
    }
    if (round == 0) sql_ok(db, "INSERT INTO c(c) VALUES('flush'); DELETE FROM c WHERE a = ''");
    if (round == 1) sql_ok(db, "INSERT INTO c(c) VALUES('compact'); DELETE FROM r");
    if (round == 2) numbers_reopen();
  }
}
END_TEST

START_TEST(check_inside_a_transaction_with_pending_writes) {
  numbers_make();
  sql_ok(db, "BEGIN; INSERT INTO t VALUES(1, 'x'); DELETE FROM t WHERE k > 100");
  sql_rows(db, "SELECT * FROM colfam_check('t')", "");
  sql_rows(db, "SELECT count(*) FROM t", "51");
  sql_ok(db, "COMMIT");
  sql_rows(db, "SELECT * FROM colfam_check('t')", "");
}
END_TEST

START_TEST(check_names_a_missing_file) {
  numbers_make();
  char path[4096];
  snprintf(path, sizeof path, "%s", numbers_file("t"));
  numbers_close();
  ck_assert_int_eq(unlink(path), 0);
  numbers_open();
  sql_rows(db,
           "SELECT DISTINCT severity, text LIKE '%' || (SELECT id FROM colfam_files('t')) ||"
           " '%' FROM colfam_check('t')",
           "error|1");
}
END_TEST

START_TEST(check_reads_the_disk_though_the_file_is_open) {
  numbers_make();
  sql_rows(db, "SELECT count(v) FROM t", "100");
  const char *path = numbers_file("t");
  struct stat info;
  ck_assert_int_eq(stat(path, &info), 0);
  numbers_flip(path, info.st_size - 5);
  sql_rows(db, "SELECT count(*) > 0 FROM colfam_check('t')", "1");
  numbers_flip(path, info.st_size - 5);
  sql_rows(db, "SELECT * FROM colfam_check('t')", "");
  ck_assert_int_eq(unlink(path), 0);
  sql_rows(db, "SELECT count(*) > 0 FROM colfam_check('t')", "1");
}
END_TEST

START_TEST(check_names_a_damaged_file_wherever_the_byte_is) {
  numbers_make();
  struct stat info;
  char path[4096];
  snprintf(path, sizeof path, "%s", numbers_file("t"));
  ck_assert_int_eq(stat(path, &info), 0);
  for (off_t at = 0; at < info.st_size; at += 1 + info.st_size / 40) {
    numbers_close();
    numbers_flip(path, at);
    numbers_open();
    sqlite3_int64 found = sql_int(db, "SELECT count(*) FROM colfam_check('t')");
    ck_assert_msg(found > 0, "byte %d of %d", (int)at, (int)info.st_size);
    numbers_close();
    numbers_flip(path, at);
    numbers_open();
    sql_rows(db, "SELECT * FROM colfam_check('t')", "");
  }
}
END_TEST

START_TEST(check_names_a_truncated_and_a_foreign_file) {
  numbers_make();
  char path[4096], other[4096];
  snprintf(path, sizeof path, "%s", numbers_file("t"));
  sql_ok(db, "CREATE VIRTUAL TABLE o USING colfam(k INT PRIMARY KEY, v TEXT);"
             "INSERT INTO o SELECT * FROM t; INSERT INTO o(o) VALUES('flush')");
  snprintf(other, sizeof other, "%s", numbers_file("o"));
  numbers_close();
  ck_assert_int_eq(rename(other, path), 0);
  numbers_open();
  sql_rows(db, "SELECT count(*) > 0 FROM colfam_check('t')", "1");
  sql_rows(db, "SELECT count(*) > 0 FROM colfam_check('o')", "1");
  numbers_close();
  ck_assert_int_eq(truncate(path, 100), 0);
  numbers_open();
  sql_rows(db, "SELECT count(*) > 0 FROM colfam_check('t')", "1");
}
END_TEST

START_TEST(check_names_a_damaged_log_row_also_when_memory_has_it) {
  sql_trust(db);
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(k PRIMARY KEY, v); INSERT INTO t VALUES(1, 1);"
             "INSERT INTO t VALUES(2, 2); INSERT INTO t VALUES(3, 3)");
  sql_rows(db, "SELECT * FROM colfam_check('t')", "");
  sql_ok(db,
         "UPDATE t_cflog SET batch = substr(batch, 1, length(batch) - 1) || x'55' WHERE seq = 2");
  sql_rows(db, "SELECT count(*) > 0 FROM colfam_check('t')", "1");
  numbers_reopen();
  sql_rows(db, "SELECT severity, file, text LIKE '%2%' FROM colfam_check('t')", "error|NULL|1");
}
END_TEST

START_TEST(check_names_a_missing_log_row) {
  sql_trust(db);
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(k PRIMARY KEY, v); INSERT INTO t VALUES(1, 1);"
             "INSERT INTO t VALUES(2, 2); INSERT INTO t VALUES(3, 3);"
             "DELETE FROM t_cflog WHERE seq = 2");
  sql_rows(db, "SELECT count(*) > 0 FROM colfam_check('t')", "1");
  numbers_reopen();
  sql_rows(db, "SELECT severity FROM colfam_check('t')", "error");
}
END_TEST

START_TEST(check_names_damaged_shadow_rows) {
  static const char *const damages[] = {
      "DELETE FROM t_cfmeta WHERE name = 'uuid'",
      "UPDATE t_cfmeta SET value = 7 WHERE name = 'uuid'",
      "UPDATE t_cfmeta SET value = -1 WHERE name = 'flushed_seq'",
      "DELETE FROM t_cfmeta WHERE name = 'flushed_nonce'",
      "UPDATE t_cfmeta SET value = 'lz4' WHERE name = 'option.compression'",
      "UPDATE t_cffile SET smallest = 'text'",
      "UPDATE t_cffile SET bytes = -1",
      "UPDATE t_cffile SET bytes = bytes + 1",
      "UPDATE t_cffile SET entries = entries + 1",
      "UPDATE t_cffile SET checksum = checksum + 1",
      "UPDATE t_cffile SET id = id + 1",
      "UPDATE t_cffile SET seq = 1000000",
      "UPDATE t_cffile SET level = 100000",
  };
  for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
    numbers_make();
    sql_trust(db);
    sql_okf(db, "%s", damages[i]);
    numbers_reopen();
    sqlite3_int64 found = sql_int(db, "SELECT count(*) FROM colfam_check('t')");
    ck_assert_msg(found > 0, "%s", damages[i]);
    sql_ok(db, "DROP TABLE t");
  }
}
END_TEST

START_TEST(check_names_rows_that_do_not_decode) {
  sql_trust(db);
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(a INT, b INT, v, PRIMARY KEY(a, b));"
             "INSERT INTO t VALUES(1, 2, 'x'); INSERT INTO t VALUES(3, 4, 'y');"
             "PRAGMA writable_schema = on;"
             "UPDATE sqlite_master SET sql = 'CREATE VIRTUAL TABLE t USING colfam(a INT, b INT,"
             " c INT, v, PRIMARY KEY(a, b, c))' WHERE name = 't'");
  numbers_reopen();
  sql_rows(db, "SELECT severity, text LIKE '%does not decode%' FROM colfam_check('t')",
           "error|1\nerror|1");
}
END_TEST

START_TEST(check_leaves_other_tables_and_locks_alone) {
  sql_trust(db);
  numbers_make();
  sql_ok(db, "CREATE VIRTUAL TABLE sound USING colfam(k PRIMARY KEY); INSERT INTO sound VALUES(1);"
             "DELETE FROM t_cfmeta");
  numbers_reopen();
  sql_rows(db, "SELECT count(*) FROM colfam_check('t')", "1");
  sql_rows(db, "SELECT * FROM colfam_check('sound')", "");
  sqlite3 *second = sql_open(sql_path("app.db"));
  sql_ok(second, "INSERT INTO sound VALUES(2)");
  sql_ok(db, "VACUUM");
  sql_close(second);
  sql_rows(db, "SELECT k FROM sound ORDER BY k", "1\n2");
}
END_TEST

int main(void) {
  Suite *suite = suite_create("sql_check");
  TCase *tests = tcase_create("colfam_check");
  tcase_add_checked_fixture(tests, numbers_open, numbers_close);
  tcase_add_test(tests, check_finds_nothing_in_sound_tables);
  tcase_add_test(tests, check_inside_a_transaction_with_pending_writes);
  tcase_add_test(tests, check_names_a_missing_file);
  tcase_add_test(tests, check_reads_the_disk_though_the_file_is_open);
  tcase_add_test(tests, check_names_a_damaged_file_wherever_the_byte_is);
  tcase_add_test(tests, check_names_a_truncated_and_a_foreign_file);
  tcase_add_test(tests, check_names_a_damaged_log_row_also_when_memory_has_it);
  tcase_add_test(tests, check_names_a_missing_log_row);
  tcase_add_test(tests, check_names_damaged_shadow_rows);
  tcase_add_test(tests, check_names_rows_that_do_not_decode);
  tcase_add_test(tests, check_leaves_other_tables_and_locks_alone);
  suite_add_tcase(suite, tests);
  return harness_run(suite);
}
