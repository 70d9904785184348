/* SQLite's own file fails: a VFS of the test makes the nth write, sync or truncation fail, as a full disk or
** a broken one. A script over a colfam table and its ordinary twin is done or undone as a whole; afterwards
** all works. (Failing table files: test_table_faults and others.) */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "harness_sql.h"

/* ---- The VFS: the default one, with files whose writes are counted down */

static int countdown; /* 0 = off */
static int error_code;
static bool stays;

static bool fails(void) {
  if (!countdown || --countdown) return false;
  if (stays) countdown = 1;
  return true;
}

struct file {
  sqlite3_file base;
};

static sqlite3_vfs *real_vfs;

/* The real file lies behind ours. */
static sqlite3_file *real_of(sqlite3_file *file) {
  return (sqlite3_file *)((struct file *)file + 1);
}

static int file_close(sqlite3_file *file) {
  return real_of(file)->pMethods->xClose(real_of(file));
}
static int file_read(sqlite3_file *file, void *into, int count, sqlite3_int64 at) {
  return real_of(file)->pMethods->xRead(real_of(file), into, count, at);
}
static int file_write(sqlite3_file *file, const void *from, int count, sqlite3_int64 at) {
  if (fails()) return error_code;
  return real_of(file)->pMethods->xWrite(real_of(file), from, count, at);
}
static int file_truncate(sqlite3_file *file, sqlite3_int64 size) {
  if (fails()) return error_code;
  return real_of(file)->pMethods->xTruncate(real_of(file), size);
}
static int file_sync(sqlite3_file *file, int flags) {
  if (fails()) return error_code;
  return real_of(file)->pMethods->xSync(real_of(file), flags);
}
static int file_size(sqlite3_file *file, sqlite3_int64 *size) {
  return real_of(file)->pMethods->xFileSize(real_of(file), size);
}
static int file_lock(sqlite3_file *file, int level) {
  return real_of(file)->pMethods->xLock(real_of(file), level);
}
static int file_unlock(sqlite3_file *file, int level) {
  return real_of(file)->pMethods->xUnlock(real_of(file), level);
}
static int file_reserved(sqlite3_file *file, int *held) {
  return real_of(file)->pMethods->xCheckReservedLock(real_of(file), held);
}
static int file_control(sqlite3_file *file, int op, void *argument) {
  return real_of(file)->pMethods->xFileControl(real_of(file), op, argument);
}
static int file_sector(sqlite3_file *file) {
  return real_of(file)->pMethods->xSectorSize(real_of(file));
}
static int file_traits(sqlite3_file *file) {
  return real_of(file)->pMethods->xDeviceCharacteristics(real_of(file));
}
static int file_shm_map(sqlite3_file *file, int page, int size, int extend, void volatile **out) {
  return real_of(file)->pMethods->xShmMap(real_of(file), page, size, extend, out);
}
static int file_shm_lock(sqlite3_file *file, int offset, int n, int flags) {
  return real_of(file)->pMethods->xShmLock(real_of(file), offset, n, flags);
}
static void file_shm_barrier(sqlite3_file *file) {
  real_of(file)->pMethods->xShmBarrier(real_of(file));
}
static int file_shm_unmap(sqlite3_file *file, int remove) {
  return real_of(file)->pMethods->xShmUnmap(real_of(file), remove);
}

static const sqlite3_io_methods file_methods = {
    .iVersion = 2,
    .xClose = file_close,
    .xRead = file_read,
    .xWrite = file_write,
    .xTruncate = file_truncate,
    .xSync = file_sync,
    .xFileSize = file_size,
    .xLock = file_lock,
    .xUnlock = file_unlock,
    .xCheckReservedLock = file_reserved,
    .xFileControl = file_control,
    .xSectorSize = file_sector,
    .xDeviceCharacteristics = file_traits,
    .xShmMap = file_shm_map,
    .xShmLock = file_shm_lock,
    .xShmBarrier = file_shm_barrier,
    .xShmUnmap = file_shm_unmap,
};

static int vfs_open(sqlite3_vfs *vfs, sqlite3_filename name, sqlite3_file *file, int flags,
                    int *out_flags) {
  (void)vfs;
  file->pMethods = NULL;
  int rc = real_vfs->xOpen(real_vfs, name, real_of(file), flags, out_flags);
  if (real_of(file)->pMethods) file->pMethods = &file_methods;
  return rc;
}

/* Under the name of the default one, as others are refused. */
static void register_vfs(void) {
  static sqlite3_vfs failing;
  real_vfs = sqlite3_vfs_find(NULL);
  failing = *real_vfs;
  failing.szOsFile = (int)sizeof(struct file) + real_vfs->szOsFile;
  failing.xOpen = vfs_open;
  failing.pNext = NULL;
  ck_assert_int_eq(sqlite3_vfs_register(&failing, 1), SQLITE_OK);
}

/* ---- Scripts */

static const struct script {
  const char *text, *undo;
} scripts[] = {
    {"BEGIN; INSERT INTO t VALUES(900, 'x'); INSERT INTO o VALUES(900, 'x'); COMMIT",
     "DELETE FROM t WHERE k = 900; DELETE FROM o WHERE k = 900"},
    {"BEGIN; UPDATE t SET v = zeroblob(500); UPDATE o SET v = zeroblob(500);"
     "INSERT INTO t(t) VALUES('flush'); COMMIT",
     "UPDATE t SET v = 1; UPDATE o SET v = 1"},
    {"BEGIN; CREATE VIRTUAL TABLE n USING colfam(k PRIMARY KEY); INSERT INTO n VALUES(1);"
     "INSERT INTO t VALUES(900, 'x'); INSERT INTO o VALUES(900, 'x'); COMMIT",
     "DROP TABLE IF EXISTS n; DELETE FROM t WHERE k = 900; DELETE FROM o WHERE k = 900"},
    {"BEGIN; ALTER TABLE extra RENAME TO n; INSERT INTO t VALUES(900, 'x');"
     "INSERT INTO o VALUES(900, 'x'); COMMIT",
     "ALTER TABLE n RENAME TO extra; DELETE FROM t WHERE k = 900; DELETE FROM o WHERE k = 900"},
    {"BEGIN; DROP TABLE extra; DELETE FROM t WHERE k < 9; DELETE FROM o WHERE k < 9; COMMIT",
     "CREATE VIRTUAL TABLE extra USING colfam(k PRIMARY KEY); INSERT INTO extra VALUES(1);"
     "INSERT INTO t VALUES(3, 3); INSERT INTO o VALUES(3, 3)"},
};
enum { SCRIPTS = sizeof scripts / sizeof *scripts };

static void make_database(bool wal) {
  sqlite3 *db = sql_open(sql_path("app.db"));
  sql_ok(db, wal ? "PRAGMA journal_mode = wal" : "PRAGMA journal_mode = delete");
  sql_ok(db, "CREATE TABLE o(k INT PRIMARY KEY, v) WITHOUT ROWID;"
             "CREATE VIRTUAL TABLE t USING colfam(k INT PRIMARY KEY, v, memtable_bytes = 16384);"
             "WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n WHERE i < 60)"
             "INSERT INTO o SELECT i, 'v' || i FROM n; INSERT INTO t SELECT * FROM o;"
             "CREATE VIRTUAL TABLE extra USING colfam(k PRIMARY KEY); INSERT INTO extra VALUES(1);"
             "INSERT INTO extra(extra) VALUES('flush')");
  sql_close(db);
}

static bool is_io_error(int rc) {
  return (rc & 0xff) == SQLITE_IOERR || (rc & 0xff) == SQLITE_FULL || (rc & 0xff) == SQLITE_ABORT;
}

/* Both twins, here and in a connection of its own; shadow tables beside each colfam table. */
static void check_database(sqlite3 *db) {
  sqlite3 *later = sql_open(sql_path("app.db"));
  for (int i = 0; i < 2; i++) {
    sqlite3 *reader = i ? later : db;
    sql_same(reader, "SELECT * FROM t ORDER BY k", "SELECT * FROM o ORDER BY k");
    sql_rows(reader, "SELECT * FROM colfam_check('t')", "");
    sql_rows(reader,
             "SELECT count(*) - 3 * (SELECT count(*) FROM sqlite_schema WHERE sql LIKE 'CREATE V%')"
             " FROM sqlite_schema WHERE name GLOB '*_cf*'",
             "0");
  }
  sql_close(later);
}

static bool fail_nth(const struct script *script, int n) {
  sqlite3 *db = sql_open(sql_path("app.db"));
  sql_ok(db, "SELECT count(*) FROM t");
  countdown = n;
  stays = n % 2;
  error_code = n % 3 ? SQLITE_IOERR_WRITE : SQLITE_FULL;
  int rc = sqlite3_exec(db, script->text, NULL, NULL, NULL);
  bool unused = countdown > 0 && !(stays && countdown == 1);
  countdown = 0;
  ck_assert_msg(rc == SQLITE_OK || is_io_error(rc), "write %d: %s: code %d: %s", n, script->text,
                rc, sqlite3_errmsg(db));
  if (!sqlite3_get_autocommit(db)) sql_ok(db, "ROLLBACK");
  check_database(db);
  sqlite3_exec(db, script->undo, NULL, NULL, NULL);
  sql_ok(db, "INSERT OR REPLACE INTO t VALUES(1, 1); INSERT OR REPLACE INTO o VALUES(1, 1)");
  check_database(db);
  sql_close(db);
  return !unused;
}

START_TEST(every_write_of_a_script_fails) {
  register_vfs();
  make_database(_i % 2);
  int n = 1;
  while (fail_nth(&scripts[_i / 2], n) && n < 400) n++;
  ck_assert_int_gt(n, 3);
  ck_assert_int_lt(n, 400);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("sql_io_errors");
  TCase *tc = tcase_create("io errors");
  tcase_set_timeout(tc, 120);
  tcase_add_loop_test(tc, every_write_of_a_script_fails, 0, 2 * SCRIPTS);
  suite_add_tcase(suite, tc);
  return harness_run(suite);
}
