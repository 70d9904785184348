/* The manifest and the log are sealed: rows of the shadow tables that somebody deletes, adds or changes by
** hand are noticed by every read, by writes and by colfam_check, in the connection that has the table in
** memory and in a fresh one. What cannot be noticed is the newest commits' own rows deleted: that is an
** earlier state of the database. */
#include <string.h>

#include "harness_damage.h"
#include "harness_sql.h"

static sqlite3 *db;

static void open_database(void) {
  db = sql_open(sql_path("seal.db"));
  sql_trust(db);
}

static void setup(void) {
  open_database();
  damage_make_tables(db);
  damage_note_rows(db);
}

static void teardown(void) {
  sql_close(db);
}

static void reopen(void) {
  sql_close(db);
  open_database();
}

/* After a statement that changes shadow tables every read fails, and so do writes; undone, all is well. */
static void expect_noticed(const char *change, const char *text) {
  for (int fresh = 0; fresh < 2; fresh++) {
    sql_ok(db, "CREATE TABLE kept_meta AS SELECT * FROM t_cfmeta;"
               "CREATE TABLE kept_file AS SELECT * FROM t_cffile;"
               "CREATE TABLE kept_log AS SELECT * FROM t_cflog");
    sql_ok(db, change);
    if (fresh) reopen();
    ck_assert_msg(damage_check(db, SQLITE_CORRUPT_VTAB, text, change) == DAMAGE_READS, "%s",
                  change);
    sql_fails(db, "INSERT INTO t VALUES(1000, 'x')", SQLITE_CORRUPT_VTAB, text);
    sql_fails(db, "INSERT INTO t(t) VALUES('compact')", SQLITE_CORRUPT_VTAB, text);
    char *problems = sql_query(db, "SELECT text FROM colfam_check('t')");
    ck_assert_msg(strstr(problems, text) != NULL, "%s: %s", change, problems);
    sqlite3_free(problems);
    damage_others_work(db);
    sql_ok(db, "DELETE FROM t_cfmeta; INSERT INTO t_cfmeta SELECT * FROM kept_meta;"
               "DELETE FROM t_cffile; INSERT INTO t_cffile SELECT * FROM kept_file;"
               "DELETE FROM t_cflog; INSERT INTO t_cflog SELECT * FROM kept_log;"
               "DROP TABLE kept_meta; DROP TABLE kept_file; DROP TABLE kept_log");
    damage_none(db);
  }
}

static void expect_noticed_in(const char *table, const char *column, const char *row,
                              const char *text) {
  char *change = sqlite3_mprintf("UPDATE %s SET %s = %s + 1 WHERE %s", table, column, column, row);
  expect_noticed(change, text);
  sqlite3_free(change);
}

START_TEST(manifest_row_deleted_or_added) {
  const char *text = "t_cffile: rows here or in _cfmeta are missing, added or changed";
  expect_noticed("DELETE FROM t_cffile WHERE id = (SELECT id FROM t_cffile ORDER BY seq LIMIT 1)",
                 text);
  expect_noticed("DELETE FROM t_cffile WHERE seq = (SELECT max(seq) FROM t_cffile)", text);
  expect_noticed("DELETE FROM t_cffile", text);
  expect_noticed(
      "INSERT INTO t_cffile SELECT 77, level, seq - 1, smallest, largest, bytes, entries, "
      "tombstones, checksum FROM t_cffile LIMIT 1",
      text);
  expect_noticed("INSERT INTO t_cffile SELECT * FROM sound_cffile", text);
}
END_TEST

START_TEST(manifest_column_changed) {
  static const char *const numbers[] = {"id",      "level",      "seq",     "bytes",
                                        "entries", "tombstones", "checksum"};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    expect_noticed_in("t_cffile", numbers[i], "seq = (SELECT max(seq) FROM t_cffile)",
                      "missing, added or changed");
  expect_noticed("UPDATE t_cffile SET largest = largest || x'00'", "t_cffile");
  expect_noticed("UPDATE t_cffile SET smallest = CAST(smallest || x'00' AS BLOB)",
                 "missing, added or changed");
}
END_TEST

START_TEST(manifest_mark_changed) {
  expect_noticed_in("t_cfmeta", "value", "name = 'flushed_nonce'", "missing, added or changed");
  expect_noticed_in("t_cfmeta", "value", "name = 'flushed_rows'", "missing, added or changed");
  expect_noticed_in("t_cfmeta", "value", "name = 'flushed_seq'", "missing, added or changed");
  expect_noticed_in("t_cfmeta", "value", "name = 'seal'", "missing, added or changed");
}
END_TEST

START_TEST(log_column_changed) {
  const char *last = "seq = (SELECT max(seq) FROM t_cflog)";
  expect_noticed_in("t_cflog", "rows", last, "row count");
  expect_noticed_in("t_cflog", "nonce", last, "table t");
}
END_TEST

/* Rows before the newest are read once and then held in memory, proved by their nonces: a fresh process, or
** one that restores, reads them. */
START_TEST(log_row_before_the_newest) {
  static const char *const changes[] = {"UPDATE t_cflog SET rows = rows + 1", "DELETE FROM t_cflog",
                                        "UPDATE t_cflog SET gen = gen - 1",
                                        "UPDATE t_cflog SET nonce = nonce - 1"};
  for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
    sql_ok(db, "CREATE TABLE kept AS SELECT * FROM t_cflog");
    sql_okf(db, "%s WHERE seq = (SELECT max(seq) - 1 FROM t_cflog)", changes[i]);
    reopen();
    ck_assert_int_eq(damage_check(db, SQLITE_CORRUPT_VTAB, "log", changes[i]), DAMAGE_READS);
    sql_ok(db, "DELETE FROM t_cflog; INSERT INTO t_cflog SELECT * FROM kept; DROP TABLE kept");
    reopen();
    damage_none(db);
  }
}
END_TEST

START_TEST(newest_log_row_deleted_is_an_earlier_state) {
  sql_ok(db, "DELETE FROM t_cflog WHERE seq = (SELECT max(seq) FROM t_cflog)");
  reopen();
  sql_rows(db, "SELECT v FROM t WHERE k = 7", "first 7");
  sql_rows(db, "SELECT v FROM t WHERE k = 300", "logged");
  sql_rows(db, "SELECT * FROM colfam_check('t')", "");
}
END_TEST

/* One statement that takes the seal away and moves the mark. */
START_TEST(seal_taken_away) {
  sql_ok(db, "CREATE TABLE kept AS SELECT * FROM t_cfmeta");
  for (int i = 0; i < 2; i++) {
    sql_ok(db, i ? "DELETE FROM t_cfmeta WHERE name = 'seal'"
                 : "UPDATE OR REPLACE t_cfmeta SET name = 'flushed_seq', value = 77"
                   " WHERE name = 'seal'");
    reopen();
    ck_assert_int_eq(damage_check(db, SQLITE_CORRUPT_VTAB, "rows are missing", "no seal"),
                     DAMAGE_READS);
    sql_ok(db, "DELETE FROM t_cfmeta; INSERT INTO t_cfmeta SELECT * FROM kept");
  }
  reopen();
  damage_none(db);
}
END_TEST

/* As a version without seals has left it: it opens, and the next publish seals it. */
START_TEST(table_without_a_seal_gets_one_when_it_publishes) {
  sql_ok(db, "DELETE FROM t_cfmeta WHERE name = 'seal';"
             "UPDATE t_cfmeta SET value = 1 WHERE name = 'lowest_writer'");
  reopen();
  damage_none(db);
  sql_ok(db, "INSERT INTO t VALUES(1001, 'unsealed')");
  sql_rows(db, "SELECT count(*) FROM t_cfmeta WHERE name = 'seal'", "0");
  sql_ok(db, "DELETE FROM t WHERE k = 1001; INSERT INTO t(t) VALUES('flush')");
  sql_rows(db, "SELECT count(*) FROM t_cfmeta WHERE name = 'seal'", "1");
  sql_rows(db, "SELECT value FROM t_cfmeta WHERE name = 'lowest_writer'", "2");
  damage_none(db);
  expect_noticed("DELETE FROM t_cffile WHERE seq = (SELECT max(seq) FROM t_cffile)",
                 "missing, added or changed");
}
END_TEST

/* A row that goes inside the very transaction that publishes. */
START_TEST(manifest_row_deleted_while_a_job_waits_to_be_published) {
  sql_ok(db, "BEGIN; INSERT INTO t(t) VALUES('flush');"
             "DELETE FROM t_cffile WHERE seq = (SELECT min(seq) FROM t_cffile); COMMIT");
  reopen();
  ck_assert_int_eq(damage_check(db, SQLITE_CORRUPT_VTAB, "missing, added or changed", "flush"),
                   DAMAGE_READS);
  damage_others_work(db);
  damage_drop(db);
}
END_TEST

/* The seal follows every way to publish: commands, offers of another table's commit, large transactions,
** failures in between, savepoints. */
START_TEST(seal_follows_every_publish) {
  sql_ok(db, "INSERT INTO t(t) VALUES('compact'); INSERT INTO t VALUES(2000, 'x');"
             "SELECT * FROM colfam_flush('t'); INSERT INTO sound VALUES(9, 'i')");
  reopen();
  sql_rows(db, "SELECT * FROM colfam_check('t')", "");
  sql_ok(db,
         "BEGIN; INSERT INTO t(t) VALUES('flush'); SAVEPOINT a; INSERT INTO t VALUES(2001, 'y');"
         "INSERT INTO t(t) VALUES('compact'); ROLLBACK TO a; INSERT INTO t VALUES(2002, 'z');"
         "INSERT INTO t(t) VALUES('flush'); COMMIT");
  reopen();
  sql_rows(db, "SELECT * FROM colfam_check('t')", "");
  sql_ok(db, "INSERT INTO t(t) VALUES('memtable_bytes=16384');"
             "WITH RECURSIVE n(i) AS (VALUES(3000) UNION ALL SELECT i + 1 FROM n LIMIT 2000)"
             "INSERT INTO t SELECT i, 'many ' || i FROM n");
  reopen();
  sql_rows(db, "SELECT * FROM colfam_check('t')", "");
  sql_rows(db, "SELECT count(*) FROM t WHERE k >= 2000", "2002");
}
END_TEST

/* A table under a known uuid is a renamed one, unless that name still has it: whichever is read first, the
** other is neither shown its rows nor given its writes. */
START_TEST(uuid_of_another_table) {
  const char *is_copied = "its uuid is that of table ";
  sql_ok(db, "CREATE VIRTUAL TABLE a USING colfam(k INTEGER PRIMARY KEY, v);"
             "CREATE VIRTUAL TABLE b USING colfam(k INTEGER PRIMARY KEY, v);"
             "INSERT INTO a VALUES(1, 'of a'); INSERT INTO b VALUES(1, 'of b');"
             "UPDATE b_cfmeta SET value = (SELECT value FROM a_cfmeta WHERE name = 'uuid')"
             " WHERE name = 'uuid'");
  reopen();
  sql_fails(db, "SELECT * FROM b", SQLITE_CORRUPT_VTAB, "missing, added or changed");
  sql_fails(db, "SELECT * FROM a", SQLITE_CORRUPT_VTAB, is_copied);
  reopen();
  for (int i = 0; i < 2; i++) {
    sql_rows(db, "SELECT * FROM a", i ? "1|of a\n2|new" : "1|of a");
    sql_fails(db, "SELECT * FROM b", SQLITE_CORRUPT_VTAB, is_copied);
    sql_fails(db, "SELECT count(*) FROM b", SQLITE_CORRUPT_VTAB, is_copied);
    sql_fails(db, "INSERT INTO b VALUES(2, 'new')", SQLITE_CORRUPT_VTAB, is_copied);
    sql_ok(db, "INSERT OR IGNORE INTO a VALUES(2, 'new')");
  }
  sql_ok(db, "BEGIN; ALTER TABLE a RENAME TO c; ROLLBACK; DROP TABLE b");
  sql_ok(db, "ALTER TABLE a RENAME TO c");
  sql_rows(db, "SELECT * FROM c; SELECT * FROM colfam_check('c')", "1|of a\n2|new");
}
END_TEST

int main(void) {
  Suite *suite = suite_create("sql_seal");
  TCase *tc = tcase_create("seal");
  tcase_add_checked_fixture(tc, setup, teardown);
  tcase_set_timeout(tc, 60);
  tcase_add_test(tc, manifest_row_deleted_or_added);
  tcase_add_test(tc, manifest_column_changed);
  tcase_add_test(tc, manifest_mark_changed);
  tcase_add_test(tc, log_column_changed);
  tcase_add_test(tc, log_row_before_the_newest);
  tcase_add_test(tc, newest_log_row_deleted_is_an_earlier_state);
  tcase_add_test(tc, seal_taken_away);
  tcase_add_test(tc, table_without_a_seal_gets_one_when_it_publishes);
  tcase_add_test(tc, manifest_row_deleted_while_a_job_waits_to_be_published);
  tcase_add_test(tc, seal_follows_every_publish);
  tcase_add_test(tc, uuid_of_another_table);
  suite_add_tcase(suite, tc);
  return harness_run(suite);
}
