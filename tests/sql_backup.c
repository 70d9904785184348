/* colfam_backup: the copy is the snapshot, whole and sound, whoever writes meanwhile; and when the work
** ends early or is refused, nothing is left and nothing is lost. Threads and processes that write
** meanwhile: sql_backup_live.c. */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness_files.h"
#include "harness_sql.h"

static sqlite3 *db;

/* Rows in files and in the log, tombstones, several files, an ordinary table, an empty colfam table. */
static void fill(sqlite3 *to) {
  sql_ok(to,
         "CREATE VIRTUAL TABLE t USING colfam(k INT PRIMARY KEY, v, memtable_bytes = 16384);"
         "WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n WHERE i < 2000)"
         "INSERT INTO t SELECT i, printf('value %d %.*c', i, i % 50, 'x') FROM n;"
         "INSERT INTO t(t) VALUES('flush'); DELETE FROM t WHERE k % 10 = 0;"
         "INSERT INTO t(t) VALUES('flush'); UPDATE t SET v = 'in the log' WHERE k < 5;"
         "CREATE VIRTUAL TABLE \"odd 'name\" USING colfam(a TEXT, b, c, PRIMARY KEY(a, b DESC));"
         "INSERT INTO \"odd 'name\" VALUES('x', 1, x'00'), ('x', 2, NULL), ('y', 1.5, 'z');"
         "INSERT INTO \"odd 'name\"(\"odd 'name\") VALUES('flush');"
         "CREATE VIRTUAL TABLE nil USING colfam(line);"
         "CREATE TABLE plain AS SELECT * FROM t; CREATE INDEX by_v ON plain(v)");
}

#define DIGEST                                                                                 \
  "SELECT (SELECT group_concat(k || v) FROM (SELECT * FROM t ORDER BY k)), (SELECT"            \
  " group_concat(a || b || quote(c)) FROM \"odd 'name\"), (SELECT count(*) FROM nil), (SELECT" \
  " group_concat(k || v) FROM plain), (SELECT group_concat(sql) FROM sqlite_schema)"

static void open_database(void) {
  db = sql_open(sql_path("app.db"));
  sql_ok(db, "PRAGMA journal_mode = wal; PRAGMA synchronous = off");
  fill(db);
}

static void close_database(void) {
  sql_close(db);
}

/* The copy at the path is sound and says what the digest was. */
static void copy_is(const char *path, const char *digest) {
  sqlite3 *copy = sql_open(path);
  sql_rows(copy, DIGEST, digest);
  sql_rows(copy, "SELECT * FROM colfam_check('t')", "");
  sql_rows(copy, "SELECT * FROM colfam_check('\"odd ''name\"')", "");
  sql_rows(copy, "SELECT * FROM colfam_check('nil')", "");
  sql_rows(copy, "PRAGMA integrity_check", "ok");
  sqlite3_int64 files = sql_int(copy, "SELECT sum(files) FROM colfam_families");
  ck_assert_int_eq(files_on_disk(sqlite3_db_filename(copy, "main")), files);
  sql_ok(copy, "INSERT INTO t VALUES(-1, 'more'); INSERT INTO t(t) VALUES('compact')");
  sql_rows(copy, "SELECT * FROM colfam_check('t')", "");
  sql_close(copy);
}

static void backup(const char *path) {
  char *sql = sqlite3_mprintf("SELECT phase FROM colfam_backup(%Q) WHERE percent = 100", path);
  char *rows = sql_query(db, sql);
  ck_assert_msg(strstr(rows, "done") != NULL, "%s: %s", path, rows);
  sqlite3_free(rows);
  sqlite3_free(sql);
}

/* Names in the directory of the test, without those of the source. */
static int count_names(void) {
  DIR *dir = opendir(harness_dir());
  int count = 0;
  for (struct dirent *entry; (entry = readdir(dir));)
    count += entry->d_name[0] != '.' && strncmp(entry->d_name, "app.db", 6) != 0;
  closedir(dir);
  return count;
}

/* A statement that has begun the work and given its first row. */
static sqlite3_stmt *begin_backup(const char *path) {
  sqlite3_stmt *statement;
  char *sql = sqlite3_mprintf("SELECT phase FROM colfam_backup(%Q)", path);
  ck_assert_int_eq(sqlite3_prepare_v2(db, sql, -1, &statement, NULL), SQLITE_OK);
  sqlite3_free(sql);
  ck_assert_msg(sqlite3_step(statement) == SQLITE_ROW, "%s", sqlite3_errmsg(db));
  ck_assert_str_eq((const char *)sqlite3_column_text(statement, 0), "files");
  return statement;
}

/* Goes on to the first row of the phase. */
static void go_on_to(sqlite3_stmt *statement, const char *phase) {
  while (strcmp((const char *)sqlite3_column_text(statement, 0), phase) != 0)
    ck_assert_int_eq(sqlite3_step(statement), SQLITE_ROW);
}

static void finish_backup(sqlite3_stmt *statement) {
  int rc;
  bool done = false;
  while ((rc = sqlite3_step(statement)) == SQLITE_ROW)
    done = !strcmp((const char *)sqlite3_column_text(statement, 0), "done");
  ck_assert_msg(rc == SQLITE_DONE && done, "code %d: %s", rc, sqlite3_errmsg(db));
  ck_assert_int_eq(sqlite3_finalize(statement), SQLITE_OK);
}

/* ---- Copies */

START_TEST(copy_is_the_snapshot) {
  static const char *const journals[] = {"wal", "delete", "truncate", "persist", "memory"};
  sql_okf(db, "PRAGMA journal_mode = %s", journals[_i]);
  char *digest = sql_query(db, DIGEST);
  backup(sql_path("copy.db"));
  ck_assert_int_eq(count_names(), 2);
  copy_is(sql_path("copy.db"), digest);
  sql_rows(db, DIGEST, digest);
  sql_rows(db, "SELECT * FROM colfam_check('t')", "");
  ck_assert_int_eq(sqlite3_txn_state(db, NULL), SQLITE_TXN_NONE);
  sqlite3_free(digest);
}
END_TEST

START_TEST(rows_tell_the_phases) {
  char *sql = sqlite3_mprintf("SELECT group_concat(phase, ' ') FROM (SELECT DISTINCT phase FROM "
                              "colfam_backup(%Q))",
                              sql_path("copy.db"));
  sql_rows(db, sql, "files database done");
  sqlite3_free(sql);
  sql = sqlite3_mprintf("SELECT count(*) >= 3, min(done <= total), min(percent BETWEEN 0 AND 100),"
                        " max(seconds) >= 0, min(path = %Q), max(schema) FROM colfam_backup(%Q)",
                        sql_path("two.db"), sql_path("two.db"));
  sql_rows(db, sql, "1|1|1|1|1|NULL");
  sqlite3_free(sql);
}
END_TEST

START_TEST(database_without_colfam_tables) {
  sqlite3 *colfam = db;
  db = sql_open(sql_path("empty.db"));
  backup(sql_path("empty copy.db"));
  sql_ok(db, "CREATE TABLE o(x); INSERT INTO o VALUES(7)");
  backup(sql_path("copy.db"));
  sql_close(db);
  sqlite3 *copy = sql_open(sql_path("copy.db"));
  sql_rows(copy, "SELECT x FROM o", "7");
  sql_close(copy);
  copy = sql_open(sql_path("empty copy.db"));
  sql_rows(copy, "SELECT count(*) FROM sqlite_schema", "0");
  sql_close(copy);
  ck_assert_int_eq(access(sql_path("copy.db-colfam"), F_OK), -1);
  db = colfam;
}
END_TEST

START_TEST(database_in_memory) {
  sqlite3 *file = db;
  db = sql_open(":memory:");
  fill(db);
  char *digest = sql_query(db, DIGEST);
  backup(sql_path("copy.db"));
  sql_close(db);
  copy_is(sql_path("copy.db"), digest);
  sqlite3_free(digest);
  db = file;
}
END_TEST

/* The copied schema, by a copy of its own. */
static void backup_schema(const char *schema, const char *path) {
  char *sql = sqlite3_mprintf(
      "SELECT phase, schema FROM colfam_backup(%Q, %Q) WHERE phase = 'done'", path, schema);
  char *expected = sqlite3_mprintf("done|%s", schema);
  sql_rows(db, sql, expected);
  sqlite3_free(expected);
  sqlite3_free(sql);
}

START_TEST(attached_and_temporary_databases) {
  sqlite3 *main = db;
  char *digest = sql_query(db, DIGEST);
  db = sql_open(sql_path("other.db"));
  sql_okf(db, "ATTACH %Q AS \"the 'other\"", sql_path("app.db"));
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(k PRIMARY KEY); INSERT INTO t VALUES('main');"
             "CREATE VIRTUAL TABLE temp.t USING colfam(k PRIMARY KEY);"
             "INSERT INTO temp.t VALUES('temp'); INSERT INTO temp.t(t) VALUES('flush');"
             "BEGIN; INSERT INTO main.t VALUES('pending')");
  backup_schema("the 'other", sql_path("copy.db"));
  sql_ok(db, "COMMIT");
  backup_schema("temp", sql_path("temp copy.db"));
  backup_schema("main", sql_path("main copy.db"));
  sql_close(db);
  copy_is(sql_path("copy.db"), digest);
  sqlite3 *copy = sql_open(sql_path("temp copy.db"));
  sql_rows(copy, "SELECT * FROM t", "temp");
  sql_rows(copy, "SELECT * FROM colfam_check('t')", "");
  sql_close(copy);
  copy = sql_open(sql_path("main copy.db"));
  sql_rows(copy, "SELECT * FROM t", "main\npending");
  sql_close(copy);
  db = main;
  sqlite3_free(digest);
}
END_TEST

/* A copy has the uuids of its source. */
START_TEST(copy_attached_beside_its_source) {
  backup(sql_path("copy.db"));
  sql_okf(db, "ATTACH %Q AS copy", sql_path("copy.db"));
  sql_same(db, "SELECT * FROM copy.t", "SELECT * FROM main.t");
  sql_ok(db, "BEGIN; DELETE FROM copy.t WHERE k > 100; INSERT INTO main.t VALUES(-1, 'main');"
             "UPDATE copy.t SET v = 'copy' WHERE k = 1; COMMIT;"
             "INSERT INTO copy.t(t) VALUES('compact'); INSERT INTO main.t(t) VALUES('compact')");
  sql_rows(db, "SELECT count(*), min(k), max(k) FROM copy.t", "90|1|99");
  sql_rows(db, "SELECT count(*), min(k), max(k) FROM main.t", "1801|-1|1999");
  sql_rows(db, "SELECT a.v, b.v FROM copy.t AS a JOIN main.t AS b USING(k) WHERE k = 1",
           "copy|in the log");
  sql_rows(db,
           "SELECT * FROM colfam_check('copy.t') UNION ALL SELECT * FROM colfam_check('main.t')",
           "");
  backup_schema("copy", sql_path("second.db"));
  sql_ok(db, "DETACH copy");
  sqlite3 *second = sql_open(sql_path("second.db"));
  sql_rows(second, "SELECT count(*) FROM t", "90");
  sql_close(second);
}
END_TEST

START_TEST(connections_that_may_not_write) {
  sqlite3 *writing = db;
  char *digest = sql_query(db, DIGEST);
  sql_ok(db, "PRAGMA journal_mode = delete");
  sql_ok(db, "PRAGMA query_only = on");
  backup(sql_path("one.db"));
  char *uri = sqlite3_mprintf("file:%s?mode=ro", sql_path("app.db"));
  db = sql_open(uri);
  backup(sql_path("two.db"));
  sql_close(db);
  db = writing;
  sql_ok(db, "PRAGMA query_only = off; PRAGMA locking_mode = exclusive; UPDATE plain SET v = v");
  backup(sql_path("three.db"));
  sql_ok(db, "PRAGMA locking_mode = normal; SELECT 1 FROM plain");
  copy_is(sql_path("one.db"), digest);
  copy_is(sql_path("two.db"), digest);
  copy_is(sql_path("three.db"), digest);
  sqlite3_free(uri);
  sqlite3_free(digest);
}
END_TEST

/* A commit of another connection to the same shared cache is seen by all of them at once. */
START_TEST(shared_cache_ends_it_or_copies_one_state) {
  char *uri = sqlite3_mprintf("file:%s?cache=shared", sql_path("app.db"));
  close_database();
  db = sql_open(uri);
  sqlite3 *other = sql_open(uri);
  char *digest = sql_query(db, DIGEST);
  backup(sql_path("copy.db"));
  copy_is(sql_path("copy.db"), digest);
  sqlite3_stmt *statement = begin_backup(sql_path("second.db"));
  int wrote = sqlite3_exec(other, "UPDATE t SET v = 'other'", NULL, NULL, NULL);
  int rc;
  while ((rc = sqlite3_step(statement)) == SQLITE_ROW) {
  }
  sqlite3_finalize(statement);
  ck_assert_msg(wrote == SQLITE_OK ? (rc & 0xff) == SQLITE_LOCKED : rc == SQLITE_DONE,
                "write %d, backup %d", wrote, rc);
  sql_close(other);
  sql_close(db);
  sqlite3_free(digest);
  sqlite3_free(uri);
  db = sql_open(sql_path("app.db"));
}
END_TEST

START_TEST(large_values_take_many_steps) {
  sql_ok(db, "CREATE VIRTUAL TABLE large USING colfam(k INT PRIMARY KEY, v, compression = none);"
             "WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n WHERE i < 12)"
             "INSERT INTO large SELECT i, randomblob(1000000) FROM n;"
             "INSERT INTO large(large) VALUES('flush')");
  char *digest = sql_query(db, "SELECT k, hex(substr(v, 1, 99)) FROM large");
  backup(sql_path("copy.db"));
  sqlite3 *copy = sql_open(sql_path("copy.db"));
  sql_rows(copy, "SELECT k, hex(substr(v, 1, 99)) FROM large", digest);
  sql_rows(copy, "SELECT * FROM colfam_check('large')", "");
  sql_close(copy);
  sqlite3_free(digest);
}
END_TEST

START_TEST(copy_of_a_copy_and_lives_apart) {
  char *digest = sql_query(db, DIGEST);
  backup(sql_path("copy.db"));
  sqlite3 *source = db;
  db = sql_open(sql_path("copy.db"));
  backup(sql_path("second.db"));
  sql_ok(db, "DELETE FROM t; INSERT INTO t(t) VALUES('compact'); INSERT INTO t VALUES(1, 1)");
  sql_ok(db, "DROP TABLE \"odd 'name\"");
  sql_close(db);
  db = source;
  sql_rows(db, DIGEST, digest);
  copy_is(sql_path("second.db"), digest);
  sqlite3_free(digest);
}
END_TEST

START_TEST(modes_are_those_of_the_source) {
  static const mode_t modes[] = {0600, 0640, 0664};
  struct stat info;
  char path[4200];
  mode_t mask = umask(_i ? 0077 : 0022);
  ck_assert_int_eq(chmod(sql_path("app.db"), modes[_i]), 0);
  backup(sql_path("copy.db"));
  umask(mask);
  ck_assert_int_eq(stat(sql_path("copy.db"), &info), 0);
  ck_assert_uint_eq(info.st_mode & 0777, modes[_i]);
  ck_assert_int_eq(stat(sql_path("copy.db-colfam"), &info), 0);
  ck_assert_uint_eq(info.st_mode & 0777, modes[_i] | 0700 | (modes[_i] & 0044) >> 2);
  char *id = sql_query(db, "SELECT id FROM colfam_files('t') LIMIT 1");
  snprintf(path, sizeof path, "%s-colfam/%s.sst", sql_path("copy.db"), id);
  sqlite3_free(id);
  ck_assert_int_eq(stat(path, &info), 0);
  ck_assert_uint_eq(info.st_mode & 0777, modes[_i]);
}
END_TEST

/* ---- Names */

START_TEST(names_as_they_are_typed) {
  static const char *const names[] = {"it's \"here\".db", "höhe ☃.db",   "no suffix",     "-dash",
                                      "percent%41?x=1#y", "a.db-colfam", "./dot/../up.db"};
  char *digest = sql_query(db, DIGEST);
  ck_assert_int_eq(chdir(harness_dir()), 0);
  ck_assert_int_eq(mkdir("dot", 0755), 0);
  backup(names[_i]);
  copy_is(sql_path(names[_i]), digest);
  sqlite3_free(digest);
}
END_TEST

START_TEST(directory_behind_a_link) {
  char *digest = sql_query(db, DIGEST);
  ck_assert_int_eq(mkdir(sql_path("real"), 0755), 0);
  ck_assert_int_eq(symlink("real", sql_path("link")), 0);
  backup(sql_path("link/copy.db"));
  ck_assert_int_eq(access(sql_path("real/copy.db-colfam"), F_OK), 0);
  copy_is(sql_path("link/copy.db"), digest);
  sqlite3_free(digest);
}
END_TEST

static void refused(const char *path, const char *text) {
  char *sql = sqlite3_mprintf("SELECT * FROM colfam_backup(%Q)", path);
  int before = count_names();
  sql_fails(db, sql, SQLITE_ERROR, text);
  ck_assert_int_eq(count_names(), before);
  ck_assert_int_eq(sqlite3_txn_state(db, NULL), SQLITE_TXN_NONE);
  sqlite3_free(sql);
}

START_TEST(what_is_there_is_not_touched) {
  static const char *const suffixes[] = {"",
                                         "-colfam",
                                         "-journal",
                                         "-wal",
                                         "-colfam-partial",
                                         "-colfam-partial.new",
                                         "-colfam-partial-journal",
                                         "-colfam-partial-wal"};
  for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
    char name[64];
    snprintf(name, sizeof name, "x%zu.db%s", i, suffixes[i]);
    int file = open(sql_path(name), O_CREAT | O_WRONLY, 0600);
    ck_assert_int_eq(write(file, "keep", 4), 4);
    close(file);
    char path[4096];
    snprintf(path, sizeof path, "%.*s", (int)(strlen(sql_path(name)) - strlen(suffixes[i])),
             sql_path(name));
    refused(path, "is there already: name another file");
    struct stat info;
    ck_assert_int_eq(stat(sql_path(name), &info), 0);
    ck_assert_int_eq(info.st_size, 4);
  }
  refused(sql_path("app.db"), "app.db is there already");
  refused(harness_dir(), "is there already");
  ck_assert_int_eq(mkdir(sql_path("d.db-colfam"), 0755), 0);
  refused(sql_path("d.db"), "d.db-colfam is there already");
  ck_assert_int_eq(symlink("nowhere", sql_path("link.db")), 0);
  refused(sql_path("link.db"), "link.db is there already");
  ck_assert_int_eq(symlink("nowhere", sql_path("l.db-colfam")), 0);
  refused(sql_path("l.db"), "l.db-colfam is there already");
  sql_rows(db, "PRAGMA integrity_check", "ok");
}
END_TEST

START_TEST(paths_that_are_none) {
  refused("", "\"\" names no file");
  refused(":memory:", "\":memory:\" names no file");
  refused("file:copy.db", "is a URI: name the file by its path");
  char missing[4096], long_name[6000];
  snprintf(missing, sizeof missing, "%s/copy.db", sql_path("none"));
  memset(long_name, 'x', sizeof long_name - 1);
  long_name[sizeof long_name - 1] = 0;
  char *sql = sqlite3_mprintf("SELECT * FROM colfam_backup(%Q)", missing);
  sql_fails(db, sql, SQLITE_CANTOPEN, "cannot create");
  sqlite3_free(sql);
  sql = sqlite3_mprintf("SELECT * FROM colfam_backup(%Q)", long_name);
  ck_assert_int_ne(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
  sqlite3_free(sql);
  static const char *const calls[][2] = {
      {"SELECT * FROM colfam_backup", "colfam_backup needs the path of the copy"},
      {"SELECT * FROM colfam_backup(NULL)", "needs a text"},
      {"SELECT * FROM colfam_backup(7)", "needs a text"},
      {"SELECT * FROM colfam_backup('x', NULL)", "needs a text"},
      {"SELECT * FROM colfam_backup('x', 'none')", "no such database: none"},
      {"SELECT * FROM colfam_backup('x', '')", "no such database: "},
      {"SELECT * FROM colfam_backup('x', 'main', 1)", "too many arguments"},
  };
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
    sql_fails(db, calls[i][0], SQLITE_ERROR, calls[i][1]);
  ck_assert_int_eq(count_names(), 0);
}
END_TEST

START_TEST(not_for_views_and_triggers) {
  char *sql = sqlite3_mprintf("CREATE VIEW w AS SELECT * FROM colfam_backup(%Q)", sql_path("w.db"));
  sql_ok(db, sql);
  sql_fails(db, "SELECT * FROM w", SQLITE_ERROR, "unsafe use of virtual table");
  ck_assert_int_eq(count_names(), 0);
  sqlite3_free(sql);
}
END_TEST

/* ---- Transactions */

START_TEST(refused_inside_a_transaction_that_writes) {
  static const char *const begins[] = {"BEGIN; INSERT INTO t VALUES(-5, 'pending')",
                                       "BEGIN; INSERT INTO plain VALUES(1, 1)", "BEGIN IMMEDIATE",
                                       "SAVEPOINT s; DELETE FROM t"};
  for (size_t i = 0; i < sizeof begins / sizeof *begins; i++) {
    sql_ok(db, begins[i]);
    char *sql = sqlite3_mprintf("SELECT * FROM colfam_backup(%Q)", sql_path("copy.db"));
    sql_fails(db, sql, SQLITE_ERROR,
              "inside a transaction that writes to database main: COMMIT first");
    sqlite3_free(sql);
    sql_ok(db, "ROLLBACK");
  }
  char *sql =
      sqlite3_mprintf("CREATE TABLE l AS SELECT * FROM colfam_backup(%Q)", sql_path("c.db"));
  sql_fails(db, sql, SQLITE_ERROR, "inside a transaction that writes");
  sqlite3_free(sql);
  ck_assert_int_eq(count_names(), 0);
}
END_TEST

START_TEST(log_into_another_database) {
  char *sql =
      sqlite3_mprintf("CREATE TEMP TABLE l AS SELECT * FROM colfam_backup(%Q)", sql_path("c.db"));
  sql_ok(db, sql);
  sqlite3_free(sql);
  sql_rows(db, "SELECT phase FROM l ORDER BY rowid DESC LIMIT 1", "done");
}
END_TEST

START_TEST(copies_the_snapshot_of_the_transaction) {
  char *digest = sql_query(db, DIGEST);
  sqlite3 *other = sql_open(sql_path("app.db"));
  sql_ok(db, "BEGIN; SELECT 1 FROM sqlite_schema");
  sql_ok(other, "DELETE FROM t; INSERT INTO t(t) VALUES('compact'); DELETE FROM plain;"
                "DROP TABLE nil; INSERT INTO t VALUES(1, 1)");
  backup(sql_path("copy.db"));
  sql_ok(db, "COMMIT");
  sql_close(other);
  copy_is(sql_path("copy.db"), digest);
  sqlite3_free(digest);
}
END_TEST

/* Files of the snapshot leave the database while they are copied, and the disk when the work is done. */
START_TEST(others_write_and_compact_between_two_rows) {
  char *digest = sql_query(db, DIGEST);
  sqlite3 *other = sql_open(sql_path("app.db"));
  sqlite3_stmt *statement = begin_backup(sql_path("copy.db"));
  for (int i = 0; i < 5; i++) {
    sql_ok(other, "UPDATE t SET v = v || 'later'; INSERT INTO t(t) VALUES('compact')");
    sql_ok(other, "UPDATE plain SET v = v || 'later'; PRAGMA wal_checkpoint");
  }
  sql_ok(other, "DROP TABLE \"odd 'name\"; ALTER TABLE t RENAME TO renamed");
  finish_backup(statement);
  copy_is(sql_path("copy.db"), digest);
  sql_ok(db, "SELECT count(*) FROM renamed");
  for (int i = 0; i < 3; i++) sql_ok(other, "UPDATE renamed SET v = 1 WHERE k = 1");
  files_agree(other, "renamed");
  sql_close(other);
  sqlite3_free(digest);
}
END_TEST

static void written_meanwhile(const char *sql, bool undo) {
  sqlite3_stmt *statement = begin_backup(sql_path("copy.db"));
  sql_ok(db, sql);
  int rc;
  while ((rc = sqlite3_step(statement)) == SQLITE_ROW) {
  }
  ck_assert_int_eq(rc & 0xff, SQLITE_LOCKED);
  ck_assert_ptr_nonnull(strstr(sqlite3_errmsg(db), "was written to by this connection meanwhile"));
  sqlite3_finalize(statement);
  if (undo) sql_ok(db, "ROLLBACK");
  ck_assert_int_eq(count_names(), 0);
  sql_rows(db, "SELECT * FROM colfam_check('t')", "");
}

START_TEST(own_writes_meanwhile_end_it) {
  written_meanwhile("INSERT INTO t VALUES(-7, 'own')", false);
  written_meanwhile("UPDATE plain SET v = 1 WHERE k = 1", false);
  written_meanwhile("BEGIN; INSERT INTO t VALUES(-8, 'own')", true);
  written_meanwhile("DELETE FROM t; INSERT INTO t(t) VALUES('compact'); INSERT INTO t VALUES(1, 1)",
                    false);
}
END_TEST

START_TEST(reads_meanwhile_do_not_matter) {
  char *digest = sql_query(db, DIGEST);
  sqlite3_stmt *statement = begin_backup(sql_path("copy.db"));
  sql_rows(db, DIGEST, digest);
  sql_ok(db, "BEGIN; SELECT count(*) FROM t; COMMIT; BEGIN; SELECT count(*) FROM t; ROLLBACK;"
             "CREATE TEMP TABLE x(y); INSERT INTO x VALUES(1)");
  finish_backup(statement);
  copy_is(sql_path("copy.db"), digest);
  sqlite3_free(digest);
}
END_TEST

/* ---- Ends */

static int stop_after(void *left) {
  return --*(int *)left <= 0;
}

START_TEST(ended_early_leaves_nothing) {
  sqlite3_stmt *statement = begin_backup(sql_path("copy.db"));
  ck_assert_int_gt(count_names(), 0);
  ck_assert_int_eq(access(sql_path("copy.db"), F_OK), -1);
  sqlite3_finalize(statement);
  ck_assert_int_eq(count_names(), 0);
  statement = begin_backup(sql_path("copy.db"));
  go_on_to(statement, "database");
  ck_assert_int_gt(count_names(), 0);
  ck_assert_int_eq(sqlite3_reset(statement), SQLITE_OK);
  ck_assert_int_eq(count_names(), 0);
  ck_assert_int_eq(sqlite3_step(statement), SQLITE_ROW);
  sqlite3_interrupt(db);
  ck_assert_int_eq(sqlite3_step(statement), SQLITE_INTERRUPT);
  sqlite3_finalize(statement);
  ck_assert_int_eq(count_names(), 0);
  char *sql = sqlite3_mprintf("SELECT * FROM colfam_backup(%Q) LIMIT 2", sql_path("copy.db"));
  sql_ok(db, sql);
  ck_assert_int_eq(count_names(), 0);
  sqlite3_free(sql);
  backup(sql_path("copy.db"));
}
END_TEST

START_TEST(progress_handler_stops_it_anywhere) {
  char *sql = sqlite3_mprintf("SELECT * FROM colfam_backup(%Q)", sql_path("copy.db"));
  int rc = SQLITE_INTERRUPT;
  for (int n = 1; rc == SQLITE_INTERRUPT; n++) {
    int left = n;
    sqlite3_progress_handler(db, 1, stop_after, &left);
    rc = sqlite3_exec(db, sql, NULL, NULL, NULL);
    sqlite3_progress_handler(db, 0, NULL, NULL);
    if (rc == SQLITE_INTERRUPT && access(sql_path("copy.db"), F_OK) == 0) break;
    if (rc == SQLITE_INTERRUPT) ck_assert_int_eq(count_names(), 0);
  }
  /* The name was given before the last row: what comes after that stops the statement only. */
  char *digest = sql_query(db, DIGEST);
  copy_is(sql_path("copy.db"), digest);
  sqlite3_free(digest);
  sqlite3_free(sql);
}
END_TEST

/* The process dies at the first row of the phase. */
static void die_at(const char *phase, const char *source, const char *target) {
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    db = sql_open(source);
    sqlite3_stmt *statement = begin_backup(target);
    go_on_to(statement, phase);
    _exit(0);
  }
  int status;
  ck_assert_int_eq(waitpid(child, &status, 0), child);
  ck_assert_int_eq(status, 0);
}

static void remove_copy(void) {
  ck_assert_int_eq(unlink(sql_path("copy.db")), 0);
  harness_remove_tree(sql_path("copy.db-colfam"));
}

START_TEST(killed_leaves_no_copy_or_a_whole_one) {
  char *digest = sql_query(db, DIGEST);
  char source[4096], target[4096];
  snprintf(source, sizeof source, "%s", sql_path("app.db"));
  snprintf(target, sizeof target, "%s", sql_path("copy.db"));
  static const char *const phases[] = {"files", "database"};
  for (int i = 0; i < 2; i++) {
    die_at(phases[i], source, target);
    ck_assert_int_eq(access(target, F_OK), -1);
    ck_assert_int_eq(count_names(), 2);
    sql_rows(db, "SELECT * FROM colfam_check('t')", "");
    if (i) backup(target);
    if (i) copy_is(target, digest);
    if (i) remove_copy();
  }
  die_at("done", source, target);
  copy_is(sql_path("copy.db"), digest);
  sqlite3_free(digest);
}
END_TEST

/* ---- Trouble */

static void fails_and_leaves_nothing(int code, const char *text) {
  char *sql = sqlite3_mprintf("SELECT * FROM colfam_backup(%Q)", sql_path("copy.db"));
  sql_fails(db, sql, code, text);
  sqlite3_free(sql);
  ck_assert_int_eq(count_names(), 0);
  ck_assert_int_eq(sqlite3_txn_state(db, NULL), SQLITE_TXN_NONE);
}

static void table_file(const char *name, char *path, size_t size) {
  char *sql = sqlite3_mprintf("SELECT id FROM colfam_files(%Q) ORDER BY bytes DESC LIMIT 1", name);
  char *id = sql_query(db, sql);
  snprintf(path, size, "%s-colfam/%s.sst", sql_path("app.db"), id);
  sqlite3_free(id);
  sqlite3_free(sql);
}

START_TEST(damaged_files_are_not_copied) {
  char path[4200], byte;
  table_file("t", path, sizeof path);
  int file = open(path, O_RDWR);
  struct stat info;
  ck_assert_int_eq(fstat(file, &info), 0);
  for (off_t at = 0; at < info.st_size; at += info.st_size / 9) {
    ck_assert_int_eq(pread(file, &byte, 1, at), 1);
    byte ^= 4;
    ck_assert_int_eq(pwrite(file, &byte, 1, at), 1);
    fails_and_leaves_nothing(SQLITE_CORRUPT_VTAB, "colfam_backup: table ");
    byte ^= 4;
    ck_assert_int_eq(pwrite(file, &byte, 1, at), 1);
  }
  ck_assert_int_eq(ftruncate(file, info.st_size - 1), 0);
  fails_and_leaves_nothing(SQLITE_CORRUPT_VTAB, "colfam_backup: table ");
  close(file);
  ck_assert_int_eq(unlink(path), 0);
  fails_and_leaves_nothing(SQLITE_CANTOPEN, "colfam_backup: cannot open ");
}
END_TEST

START_TEST(damaged_shadow_rows_are_an_error) {
  sql_trust(db);
  sql_ok(db, "UPDATE \"odd 'name_cfmeta\" SET value = 'x' WHERE name = 'flushed_seq'");
  close_database();
  db = sql_open(sql_path("app.db"));
  fails_and_leaves_nothing(SQLITE_CORRUPT_VTAB, "colfam_backup: table odd 'name: ");
  sql_ok(db, "DROP TABLE \"odd 'name\"");
  backup(sql_path("copy.db"));
}
END_TEST

/* No file may grow beyond the limit: in the table files, and in the database. */
START_TEST(full_disk_is_an_error_and_leaves_nothing) {
  struct stat database, file;
  char path[4200];
  sql_ok(db, "PRAGMA wal_checkpoint(TRUNCATE)");
  table_file("t", path, sizeof path);
  ck_assert_int_eq(stat(path, &file), 0);
  ck_assert_int_eq(stat(sql_path("app.db"), &database), 0);
  ck_assert_int_gt(database.st_size, file.st_size);
  signal(SIGXFSZ, SIG_IGN);
  const rlim_t limits[] = {1, (rlim_t)file.st_size - 1, (rlim_t)file.st_size + 1,
                           (rlim_t)database.st_size - 1};
  struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};
  for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
    limit.rlim_cur = limits[i];
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    char *sql = sqlite3_mprintf("SELECT * FROM colfam_backup(%Q)", sql_path("copy.db"));
    int rc = sqlite3_exec(db, sql, NULL, NULL, NULL);
    limit.rlim_cur = RLIM_INFINITY;
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    /* SQLite calls a file that is too large an I/O error. */
    ck_assert_msg((rc & 0xff) == SQLITE_FULL || (rc & 0xff) == SQLITE_IOERR, "code %d", rc);
    ck_assert_ptr_nonnull(strstr(sqlite3_errmsg(db), "copy.db-"));
    ck_assert_int_eq(count_names(), 0);
    sqlite3_free(sql);
  }
  backup(sql_path("copy.db"));
}
END_TEST

START_TEST(copy_without_its_directory_says_so) {
  backup(sql_path("copy.db"));
  ck_assert_int_eq(rename(sql_path("copy.db-colfam"), sql_path("moved")), 0);
  sqlite3 *copy = sql_open(sql_path("copy.db"));
  sql_fails(copy, "SELECT count(v) FROM t", SQLITE_CANTOPEN, "colfam_backup");
  sql_rows(copy, "SELECT count(*) FROM plain", "1800");
  sql_ok(copy, "DROP TABLE t");
  sql_close(copy);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("backup");
  TCase *tc = tcase_create("copies");
  tcase_set_timeout(tc, 60);
  tcase_add_checked_fixture(tc, open_database, close_database);
  tcase_add_loop_test(tc, copy_is_the_snapshot, 0, 5);
  tcase_add_test(tc, rows_tell_the_phases);
  tcase_add_test(tc, database_without_colfam_tables);
  tcase_add_test(tc, database_in_memory);
  tcase_add_test(tc, attached_and_temporary_databases);
  tcase_add_test(tc, copy_attached_beside_its_source);
  tcase_add_test(tc, connections_that_may_not_write);
  tcase_add_test(tc, shared_cache_ends_it_or_copies_one_state);
  tcase_add_test(tc, large_values_take_many_steps);
  tcase_add_test(tc, copy_of_a_copy_and_lives_apart);
  tcase_add_loop_test(tc, modes_are_those_of_the_source, 0, 3);
  tcase_add_loop_test(tc, names_as_they_are_typed, 0, 7);
  tcase_add_test(tc, directory_behind_a_link);
  tcase_add_test(tc, what_is_there_is_not_touched);
  tcase_add_test(tc, paths_that_are_none);
  tcase_add_test(tc, not_for_views_and_triggers);
  suite_add_tcase(suite, tc);
  TCase *ends = tcase_create("transactions and ends");
  tcase_set_timeout(ends, 60);
  tcase_add_checked_fixture(ends, open_database, close_database);
  tcase_add_test(ends, refused_inside_a_transaction_that_writes);
  tcase_add_test(ends, log_into_another_database);
  tcase_add_test(ends, copies_the_snapshot_of_the_transaction);
  tcase_add_test(ends, others_write_and_compact_between_two_rows);
  tcase_add_test(ends, own_writes_meanwhile_end_it);
  tcase_add_test(ends, reads_meanwhile_do_not_matter);
  tcase_add_test(ends, ended_early_leaves_nothing);
  tcase_add_test(ends, progress_handler_stops_it_anywhere);
  tcase_add_test(ends, killed_leaves_no_copy_or_a_whole_one);
  tcase_add_test(ends, damaged_files_are_not_copied);
  tcase_add_test(ends, damaged_shadow_rows_are_an_error);
  tcase_add_test(ends, full_disk_is_an_error_and_leaves_nothing);
  tcase_add_test(ends, copy_without_its_directory_says_so);
  suite_add_tcase(suite, ends);
  return harness_run(suite);
}
