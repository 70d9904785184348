/* Settings of the database and of the connection: the same workload on a colfam table and on its ordinary
** twin gives the same rows under each, in this connection and in one that comes later. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness_sql.h"

static sqlite3 *db;

/* ---- The workload; @ is the twin's name */

static const char *const workload[] = {
    "INSERT INTO @ SELECT value, 'value ' || value, NULL FROM json_each('[1,2,3,5,8,13,21,34]')",
    "INSERT OR IGNORE INTO @ VALUES(2, 'other', 1), (9, 'Nine', 2)",
    "INSERT OR REPLACE INTO @ VALUES(3, 'three', x'00ff'), (NULL, 'auto', 1.5)",
    "BEGIN",
    "UPDATE @ SET k = k + 100, v = upper(v) WHERE k > 8",
    "SAVEPOINT s",
    "DELETE FROM @",
    "ROLLBACK TO s",
    "INSERT INTO @ SELECT k + 1000, v, w FROM @ ORDER BY k",
    "COMMIT",
    "DELETE FROM @ WHERE k BETWEEN 1000 AND 1005",
    "BEGIN",
    "INSERT INTO @ VALUES(7777, zeroblob(3000), 1)",
    "ROLLBACK",
};

static const char *const queries[] = {
    "SELECT * FROM @ ORDER BY k",
    "SELECT * FROM @ ORDER BY k DESC",
    "SELECT k, typeof(w), v FROM @ WHERE k IN (2, 9, 101, 1008) ORDER BY k",
    "SELECT count(*), min(k), max(k) FROM @",
    "SELECT k FROM @ WHERE v LIKE 'VALUE%' ORDER BY k",
    "SELECT k FROM @ WHERE v GLOB 'value*' ORDER BY k",
    "SELECT count(*) FROM @ WHERE EXISTS (SELECT 1 FROM @ AS i WHERE i.k = @.k + 1000)",
};

static char *text_for(const char *text, char table) {
  char *sql = sqlite3_mprintf("%s", text);
  for (char *p = sql; *p; p++) {
    if (*p == '@') *p = table;
  }
  return sql;
}

static void on_both(const char *text) {
  for (int i = 0; i < (strchr(text, '@') ? 2 : 1); i++) {
    char *sql = text_for(text, "to"[i]);
    sql_ok(db, sql);
    sqlite3_free(sql);
  }
}

static void same(const char *about) {
  for (size_t i = 0; i < sizeof queries / sizeof *queries; i++) {
    char *mine = text_for(queries[i], 't'), *his = text_for(queries[i], 'o');
    char *got = sql_query(db, mine), *expected = sql_query(db, his);
    ck_assert_msg(!strcmp(got, expected), "%s: %s\n%s\nnot\n%s", about, mine, got, expected);
    sqlite3_free(got);
    sqlite3_free(expected);
    sqlite3_free(mine);
    sqlite3_free(his);
  }
  sql_rows(db, "SELECT * FROM colfam_check('t')", "");
}

static void create_tables(void) {
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(k INTEGER PRIMARY KEY, v TEXT, w,"
             " memtable_bytes = 16384); CREATE TABLE o(k INTEGER PRIMARY KEY, v TEXT, w)");
}

static void work(const char *about) {
  for (size_t i = 0; i < sizeof workload / sizeof *workload; i++) {
    on_both(workload[i]);
    if (sqlite3_get_autocommit(db)) same(about);
  }
  sql_ok(db, "INSERT INTO t(t) VALUES('flush')");
  same(about);
  on_both("UPDATE @ SET v = v || '+' WHERE k % 2");
  sql_ok(db, "INSERT INTO t(t) VALUES('compact')");
  same(about);
  on_both("INSERT INTO @(v) VALUES('last')");
}

static void remove_database(void) {
  harness_remove_tree(sql_path("app.db-colfam"));
  remove(sql_path("app.db"));
  remove(sql_path("app.db-wal"));
  remove(sql_path("app.db-shm"));
}

static void reopen(void) {
  sql_close(db);
  db = sql_open(sql_path("app.db"));
}

static void everything_under(const char *pragma) {
  remove_database();
  db = sql_open(sql_path("app.db"));
  sql_ok(db, pragma);
  create_tables();
  work(pragma);
  reopen();
  same(pragma);
  sql_ok(db, pragma);
  on_both("DELETE FROM @ WHERE k < 5");
  same(pragma);
  sql_ok(db, "ALTER TABLE t RENAME TO u; ALTER TABLE u RENAME TO t; VACUUM");
  same(pragma);
  sql_ok(db, "DROP TABLE t");
  sql_rows(db, "SELECT count(*) FROM sqlite_schema", "1");
  sql_close(db);
}

static const char *const pragmas[] = {
    "PRAGMA case_sensitive_like = on",
    "PRAGMA reverse_unordered_selects = on",
    "PRAGMA recursive_triggers = on",
    "PRAGMA foreign_keys = on; PRAGMA defer_foreign_keys = on",
    "PRAGMA cell_size_check = on",
    "PRAGMA secure_delete = on",
    "PRAGMA secure_delete = fast",
    "PRAGMA auto_vacuum = full",
    "PRAGMA auto_vacuum = incremental",
    "PRAGMA page_size = 512",
    "PRAGMA page_size = 1024; PRAGMA journal_mode = wal",
    "PRAGMA page_size = 16384",
    "PRAGMA page_size = 65536; PRAGMA journal_mode = wal",
    "PRAGMA locking_mode = exclusive",
    "PRAGMA locking_mode = exclusive; PRAGMA journal_mode = wal",
    "PRAGMA journal_mode = wal; PRAGMA locking_mode = exclusive",
    "PRAGMA temp_store = memory",
    "PRAGMA temp_store = file",
    "PRAGMA mmap_size = 1000000",
    "PRAGMA cache_size = 0",
    "PRAGMA cache_size = 1; PRAGMA cache_spill = 1",
    "PRAGMA cache_size = -1; PRAGMA journal_mode = wal",
    "PRAGMA synchronous = off",
    "PRAGMA synchronous = normal; PRAGMA journal_mode = wal",
    "PRAGMA synchronous = full; PRAGMA journal_mode = wal",
    "PRAGMA synchronous = extra",
    "PRAGMA journal_mode = truncate",
    "PRAGMA journal_mode = persist",
    "PRAGMA journal_mode = memory",
    "PRAGMA journal_size_limit = 0; PRAGMA journal_mode = wal; PRAGMA wal_autocheckpoint = 1",
    "PRAGMA legacy_alter_table = on",
    "PRAGMA legacy_file_format = on",
    "PRAGMA writable_schema = on",
    "PRAGMA automatic_index = off",
    "PRAGMA fullfsync = on; PRAGMA checkpoint_fullfsync = on",
    "PRAGMA ignore_check_constraints = on",
    "PRAGMA full_column_names = on",
    "PRAGMA short_column_names = off",
    "PRAGMA empty_result_callbacks = on",
    "PRAGMA count_changes = on",
    "PRAGMA trusted_schema = off",
    "PRAGMA threads = 4",
    "PRAGMA read_uncommitted = on",
    "PRAGMA soft_heap_limit = 1",
    "PRAGMA encoding = 'UTF-8'; PRAGMA user_version = 7; PRAGMA application_id = 9",
};

START_TEST(workload_under_a_pragma) {
  everything_under(pragmas[_i]);
}
END_TEST

/* ---- Journal modes changed with tables there */

START_TEST(journal_and_locking_change_between_writes) {
  static const char *const changes[] = {"PRAGMA journal_mode = wal",
                                        "PRAGMA locking_mode = exclusive",
                                        "PRAGMA journal_mode = truncate",
                                        "PRAGMA locking_mode = normal",
                                        "PRAGMA journal_mode = persist",
                                        "PRAGMA journal_mode = wal",
                                        "PRAGMA wal_checkpoint = truncate",
                                        "PRAGMA journal_mode = off",
                                        "PRAGMA journal_mode = memory",
                                        "PRAGMA journal_mode = delete",
                                        "PRAGMA page_size = 8192; VACUUM",
                                        "PRAGMA auto_vacuum = 1; VACUUM",
                                        "PRAGMA incremental_vacuum",
                                        "PRAGMA optimize",
                                        "PRAGMA shrink_memory",
                                        "ANALYZE",
                                        "REINDEX",
                                        "PRAGMA schema_version = 1000"};
  remove_database();
  db = sql_open(sql_path("app.db"));
  create_tables();
  work("start");
  for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
    sql_ok(db, changes[i]);
    same(changes[i]);
    on_both("INSERT INTO @(v) SELECT v || '.' FROM @ WHERE k < 10 ORDER BY k");
    sql_ok(db, "INSERT INTO t(t) VALUES('compact')");
    same(changes[i]);
    on_both("DELETE FROM @ WHERE k % 3 = 0");
    same(changes[i]);
  }
  sql_ok(db, "PRAGMA locking_mode = normal; SELECT count(*) FROM t");
  reopen();
  same("after all");
  sql_close(db);
}
END_TEST

/* ---- sqlite3_db_config */

START_TEST(workload_under_a_configuration) {
  static const struct {
    int what, value;
  } configs[] = {
      {SQLITE_DBCONFIG_DEFENSIVE, 1},
      {SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0},
      {SQLITE_DBCONFIG_ENABLE_VIEW, 0},
      {SQLITE_DBCONFIG_ENABLE_TRIGGER, 0},
      {SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1},
      {SQLITE_DBCONFIG_DQS_DML, 0},
      {SQLITE_DBCONFIG_DQS_DDL, 0},
      {SQLITE_DBCONFIG_LEGACY_ALTER_TABLE, 1},
      {SQLITE_DBCONFIG_LEGACY_FILE_FORMAT, 1},
      {SQLITE_DBCONFIG_ENABLE_FKEY, 1},
      {SQLITE_DBCONFIG_ENABLE_QPSG, 1},
      {SQLITE_DBCONFIG_TRIGGER_EQP, 1},
      {SQLITE_DBCONFIG_WRITABLE_SCHEMA, 1},
  };
  remove_database();
  db = sql_open(sql_path("app.db"));
  int now;
  if (_i < 13) sqlite3_db_config(db, configs[_i].what, configs[_i].value, &now);
  if (_i == 13) sqlite3_db_config(db, SQLITE_DBCONFIG_LOOKASIDE, NULL, 0, 0);
  sql_ok(db, _i % 2 ? "PRAGMA journal_mode = wal" : "PRAGMA synchronous = off");
  create_tables();
  work("configuration");
  sql_ok(db, "ALTER TABLE t RENAME TO \"odd name\"; ALTER TABLE \"odd name\" RENAME TO t");
  same("configuration");
  reopen();
  same("configuration");
  sql_ok(db, "DROP TABLE t");
  sql_close(db);
}
END_TEST

START_TEST(database_reset_and_used_again) {
  remove_database();
  db = sql_open(sql_path("app.db"));
  create_tables();
  work("before");
  for (int i = 0; i < 2; i++) {
    sqlite3_db_config(db, SQLITE_DBCONFIG_RESET_DATABASE, 1, NULL);
    sql_ok(db, "VACUUM");
    sqlite3_db_config(db, SQLITE_DBCONFIG_RESET_DATABASE, 0, NULL);
    sql_rows(db, "SELECT count(*) FROM sqlite_schema", "0");
    create_tables();
    sql_rows(db, "SELECT count(*) FROM t", "0");
    work("after");
  }
  reopen();
  same("after");
  sql_close(db);
}
END_TEST

/* ---- Ways to open */

START_TEST(workload_under_open_flags) {
  static const int flags[] = {SQLITE_OPEN_NOMUTEX,     SQLITE_OPEN_FULLMUTEX,
                              SQLITE_OPEN_SHAREDCACHE, SQLITE_OPEN_PRIVATECACHE,
                              SQLITE_OPEN_NOFOLLOW,    SQLITE_OPEN_EXRESCODE};
  remove_database();
  char path[4096];
  ck_assert_ptr_nonnull(realpath(harness_dir(), path));
  strncat(path, "/app.db", sizeof path - strlen(path) - 1);
  int rc = sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | flags[_i], NULL);
  ck_assert_int_eq(rc, SQLITE_OK);
  ck_assert_int_eq(sql_load(db, NULL), SQLITE_OK);
  create_tables();
  work("flags");
  reopen();
  same("flags");
  sql_close(db);
}
END_TEST

static sqlite3 *open_read_only(void) {
  char uri[4200];
  sqlite3 *reader;
  snprintf(uri, sizeof uri, "file:%s?mode=ro", sql_path("app.db"));
  ck_assert_int_eq(sqlite3_open_v2(uri, &reader, SQLITE_OPEN_READWRITE | SQLITE_OPEN_URI, NULL),
                   SQLITE_OK);
  ck_assert_int_eq(sql_load(reader, NULL), SQLITE_OK);
  return reader;
}

static void check_read_only(sqlite3 *reader) {
  static const char *const writes[] = {"INSERT INTO @ VALUES(5000, 1, 1)", "DELETE FROM @",
                                       "UPDATE @ SET v = 1", "DROP TABLE @",
                                       "ALTER TABLE @ RENAME TO renamed"};
  for (size_t i = 0; i < sizeof writes / sizeof *writes; i++) {
    int codes[2];
    for (int j = 0; j < 2; j++) {
      char *sql = text_for(writes[i], "to"[j]);
      codes[j] = sqlite3_exec(reader, sql, NULL, NULL, NULL);
      sqlite3_free(sql);
    }
    ck_assert_msg(codes[0] == codes[1] && codes[0] != SQLITE_OK, "%s: %d, not %d", writes[i],
                  codes[0], codes[1]);
  }
  sql_fails(reader, "INSERT INTO t(t) VALUES('compact')", SQLITE_READONLY, NULL);
  sql_fails(reader, "CREATE VIRTUAL TABLE n USING colfam(k PRIMARY KEY)", SQLITE_READONLY, NULL);
  sql_same(reader, "SELECT * FROM t ORDER BY k", "SELECT * FROM o ORDER BY k");
  sql_rows(reader, "SELECT * FROM colfam_check('t')", "");
}

START_TEST(read_only_by_uri) {
  remove_database();
  db = sql_open(sql_path("app.db"));
  sql_ok(db, _i ? "PRAGMA journal_mode = wal" : "PRAGMA journal_mode = delete");
  create_tables();
  work("before");
  sqlite3 *reader = open_read_only();
  check_read_only(reader);
  on_both("INSERT INTO @(v) VALUES('later')");
  sql_ok(db, "INSERT INTO t(t) VALUES('compact')");
  check_read_only(reader);
  sql_close(reader);
  sql_close(db);
}
END_TEST

/* In a child that may not write: the file, and then the directory too. */
static int read_without_permission(const char *path) {
  if (geteuid() == 0 && (setgid(65534) || setuid(65534))) return 10;
  sqlite3 *reader;
  if (sqlite3_open(path, &reader) != SQLITE_OK) return 11;
  if (sql_load(reader, NULL) != SQLITE_OK) return 12;
  check_read_only(reader);
  return sqlite3_close(reader) == SQLITE_OK ? 0 : 13;
}

START_TEST(read_only_by_permission) {
  remove_database();
  db = sql_open(sql_path("app.db"));
  create_tables();
  work("before");
  sql_close(db);
  chmod(sql_path("app.db"), 0444);
  chmod(harness_dir(), _i ? 0555 : 0755);
  const char *path = sql_path("app.db");
  pid_t child = fork();
  if (child == 0) _exit(read_without_permission(path));
  int status;
  ck_assert_int_eq(waitpid(child, &status, 0), child);
  ck_assert_int_eq(status, 0);
  chmod(harness_dir(), 0755);
  chmod(sql_path("app.db"), 0644);
}
END_TEST

START_TEST(query_only_before_and_inside_a_transaction) {
  remove_database();
  db = sql_open(sql_path("app.db"));
  create_tables();
  work("before");
  sql_ok(db, "PRAGMA query_only = on");
  sql_fails(db, "INSERT INTO t VALUES(5000, 1, 1)", SQLITE_READONLY, NULL);
  sql_fails(db, "DROP TABLE t", SQLITE_READONLY, NULL);
  sql_fails(db, "INSERT INTO t(t) VALUES('flush')", SQLITE_READONLY, NULL);
  same("query_only");
  sql_ok(db, "PRAGMA query_only = off; BEGIN");
  on_both("INSERT INTO @ VALUES(5000, 1, 1)");
  sql_ok(db, "PRAGMA query_only = on");
  same("query_only");
  sql_fails(db, "COMMIT", SQLITE_READONLY, NULL);
  ck_assert_int_eq(sqlite3_get_autocommit(db), 1);
  sql_ok(db, "PRAGMA query_only = off");
  same("query_only");
  on_both("INSERT INTO @ VALUES(5000, 1, 1)");
  same("query_only");
  sql_close(db);
}
END_TEST

/* ---- trusted_schema (README, Limits) */

START_TEST(trusted_schema_decides_over_views_and_triggers) {
  remove_database();
  db = sql_open(sql_path("app.db"));
  create_tables();
  sql_ok(db, "INSERT INTO t VALUES(1, 'a', 1); CREATE TABLE source(x);"
             "CREATE VIEW v AS SELECT k FROM t; CREATE TEMP VIEW tv AS SELECT k FROM main.t;"
             "CREATE TRIGGER r AFTER INSERT ON source BEGIN INSERT INTO t(v) VALUES(new.x); END;"
             "CREATE VIEW through AS SELECT 1 AS x;"
             "CREATE TRIGGER i INSTEAD OF INSERT ON through BEGIN"
             "  INSERT INTO t(v) VALUES(new.x); END");
  for (int trusted = 0; trusted < 2; trusted++) {
    sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, trusted, NULL);
    static const char *const refused[] = {"SELECT * FROM v", "INSERT INTO source VALUES('x')",
                                          "INSERT INTO through VALUES('x')",
                                          "SELECT * FROM tv JOIN v USING (k)"};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
      if (trusted)
        sql_ok(db, refused[i]);
      else
        sql_fails(db, refused[i], SQLITE_ERROR, "unsafe use of virtual table \"t\"");
    }
    sql_ok(db, "SELECT * FROM tv; SELECT * FROM t; INSERT INTO t(v) VALUES('y');"
               "WITH c AS (SELECT k FROM t) SELECT * FROM c; SELECT * FROM (SELECT k FROM t)");
  }
  sql_ok(db, "DROP TRIGGER r; CREATE TEMP TRIGGER tr AFTER INSERT ON main.source BEGIN"
             "  INSERT INTO t(v) VALUES(new.x); END; INSERT INTO source VALUES('x')");
  sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
  sql_fails(db, "INSERT INTO source VALUES('x')", SQLITE_ERROR, "unsafe use");
  sql_fails(db, "CREATE TABLE g(x, y AS (colfam_may_exist('t', x)))", SQLITE_ERROR, NULL);
  sql_close(db);
}
END_TEST

/* ---- Names that other DDL meets */

START_TEST(renaming_other_tables_with_views_over_colfam_tables) {
  for (int legacy = 0; legacy < 2; legacy++) {
    remove_database();
    db = sql_open(sql_path("app.db"));
    sql_trust(db);
    sql_ok(db, legacy ? "PRAGMA legacy_alter_table = on" : "PRAGMA legacy_alter_table = off");
    create_tables();
    work("views");
    sql_ok(db, "CREATE VIEW v AS SELECT t.k, o.v FROM t JOIN o USING (k);"
               "CREATE TABLE plain(x); CREATE TRIGGER r AFTER INSERT ON plain BEGIN"
               "  INSERT INTO t(v) SELECT new.x FROM v LIMIT 1; END;"
               "ALTER TABLE plain RENAME TO simple; ALTER TABLE simple RENAME COLUMN x TO y;"
               "ALTER TABLE simple ADD COLUMN z; INSERT INTO simple VALUES('new', 1);"
               "DELETE FROM t WHERE v = 'new'");
    same("views");
    sql_ok(db, "DROP TRIGGER r; ALTER TABLE t RENAME TO u");
    if (!legacy) sql_same(db, "SELECT k, v FROM v ORDER BY k", "SELECT k, v FROM o ORDER BY k");
    sql_ok(db, "ALTER TABLE u RENAME TO t; SELECT * FROM v");
    same("views");
    sql_close(db);
  }
}
END_TEST

/* xConnect parses and declares, nothing else. */
START_TEST(tables_without_shadow_tables_still_list_and_drop) {
  remove_database();
  db = sql_open(sql_path("app.db"));
  sql_trust(db);
  create_tables();
  work("before");
  static const char *const damages[] = {"DROP TABLE t_cflog", "DROP TABLE t_cffile",
                                        "DROP TABLE t_cfmeta", "DELETE FROM t_cfmeta",
                                        "UPDATE t_cfmeta SET value = x'00'"};
  for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
    sql_ok(db, "SAVEPOINT s");
    sql_trust(db);
    sql_ok(db, damages[i]);
    sql_ok(db, "RELEASE s");
    reopen();
    sql_rows(db, "SELECT type FROM pragma_table_list WHERE name = 't'", "virtual");
    sql_rows(db, "SELECT name FROM pragma_table_info('t')", "k\nv\nw");
    ck_assert_int_ne(sqlite3_exec(db, "SELECT * FROM t", NULL, NULL, NULL), SQLITE_OK);
    ck_assert_int_ne(sqlite3_exec(db, "INSERT INTO t VALUES(1, 1, 1)", NULL, NULL, NULL),
                     SQLITE_OK);
    sql_ok(db, "DROP TABLE t; DROP TABLE o");
    sql_rows(db, "SELECT count(*) FROM sqlite_schema", "0");
    create_tables();
    sql_ok(db, "INSERT INTO t VALUES(1, 1, 1)");
  }
  sql_close(db);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("sql_settings");
  TCase *tc = tcase_create("settings");
  tcase_set_timeout(tc, 60);
  tcase_add_loop_test(tc, workload_under_a_pragma, 0, sizeof pragmas / sizeof *pragmas);
  tcase_add_test(tc, journal_and_locking_change_between_writes);
  tcase_add_loop_test(tc, workload_under_a_configuration, 0, 14);
  tcase_add_test(tc, database_reset_and_used_again);
  tcase_add_loop_test(tc, workload_under_open_flags, 0, 6);
  tcase_add_loop_test(tc, read_only_by_uri, 0, 2);
  tcase_add_loop_test(tc, read_only_by_permission, 0, 2);
  tcase_add_test(tc, query_only_before_and_inside_a_transaction);
  tcase_add_test(tc, trusted_schema_decides_over_views_and_triggers);
  tcase_add_test(tc, renaming_other_tables_with_views_over_colfam_tables);
  tcase_add_test(tc, tables_without_shadow_tables_still_list_and_drop);
  suite_add_tcase(suite, tc);
  return harness_run(suite);
}
