/* Bad input: statements that must be refused, files that are damaged, missing, foreign or no files.
** An error that names table and file, or the right rows; never other rows, a crash or a hang; other
** tables go on working; DROP works; with the old bytes back, the table works again. */
#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness_damage.h"
#include "harness_sql.h"

static sqlite3 *db;

static void open_database(void) {
  db = sql_open(sql_path("bad.db"));
}

static void close_database(void) {
  sql_close(db);
}

static void reopen(void) {
  close_database();
  open_database();
}

/* ---- Files of the data directory */

struct file {
  char path[4300];
  char *bytes;
  size_t size;
};

static void file_read(struct file *file) {
  FILE *stream = fopen(file->path, "rb");
  ck_assert_msg(stream != NULL, "%s", file->path);
  fseek(stream, 0, SEEK_END);
  file->size = (size_t)ftell(stream);
  rewind(stream);
  file->bytes = malloc(file->size + 1);
  ck_assert_ptr_nonnull(file->bytes);
  ck_assert_uint_eq(fread(file->bytes, 1, file->size, stream), file->size);
  fclose(stream);
}

/* Gives the file other contents, as a new file: what is open stays as it was. */
static void write_bytes(const char *path, const char *bytes, size_t size) {
  unlink(path);
  FILE *stream = fopen(path, "wb");
  ck_assert_msg(stream != NULL, "%s", path);
  ck_assert_uint_eq(fwrite(bytes, 1, size, stream), size);
  fclose(stream);
}

static void file_restore(const struct file *file) {
  write_bytes(file->path, file->bytes, file->size);
}

/* The table's newest file (0) or an older one. */
static void file_of(const char *table, int number, struct file *file) {
  char *sql = sqlite3_mprintf("SELECT id FROM colfam_files(%Q) LIMIT 1 OFFSET %d", table, number);
  char *id = sql_query(db, sql);
  ck_assert_int_eq(strlen(id), 16);
  snprintf(file->path, sizeof file->path, "%s/%s.sst", sql_path("bad.db-colfam"), id);
  sqlite3_free(id);
  sqlite3_free(sql);
  file_read(file);
}

static const char *id_of(const struct file *file) {
  static char id[17];
  memcpy(id, strrchr(file->path, '/') + 1, 16);
  return id;
}

/* ---- Statements */

START_TEST(clauses_that_are_not_supported_are_named) {
  static const char *const bad[][2] = {
      {"k PRIMARY KEY, v CHECK (v > 0)", "CHECK"},
      {"k PRIMARY KEY, v INT DEFAULT 5", "DEFAULT"},
      {"k PRIMARY KEY, v UNIQUE", "UNIQUE"},
      {"k PRIMARY KEY, v GENERATED ALWAYS AS (k)", "GENERATED"},
      {"k PRIMARY KEY, v REFERENCES other(x)", "REFERENCES"},
      {"k PRIMARY KEY, v, UNIQUE(k, v)", "UNIQUE"},
      {"k PRIMARY KEY, v, CHECK(k <> v)", "CHECK"},
      {"k PRIMARY KEY, v, FOREIGN KEY(v) REFERENCES other", "FOREIGN"},
      {"k INTEGER PRIMARY KEY AUTOINCREMENT", "AUTOINCREMENT"},
      {"k PRIMARY KEY ON CONFLICT IGNORE", "CONFLICT"},
      {"k COLLATE german PRIMARY KEY", "german"},
      {"k, PRIMARY KEY(k COLLATE rtrim)", "rtrim"},
      {"k PRIMARY KEY, v, value_bytes = 1048577", "value_bytes"},
      {"k PRIMARY KEY, v, comparator = nobodys", "comparator nobodys is not registered"},
      {"k PRIMARY KEY, v, comparator = 'a b'", "comparator"},
      {"k PRIMARY KEY, v, no_such_option = 1", "no_such_option"},
      {"k PRIMARY KEY, v, filter_bits = many", "filter_bits"},
      {"k PRIMARY KEY, v, filter_bits = 1, filter_bits = 1", "filter_bits"},
      {"k PRIMARY KEY, v, path = '/etc/passwd'", "path"},
  };
  sql_ok(db, "CREATE TABLE ordinary(x); BEGIN; INSERT INTO ordinary VALUES(1)");
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    char *sql = sqlite3_mprintf("CREATE VIRTUAL TABLE t USING colfam(%s)", bad[i][0]);
    sql_fails(db, sql, SQLITE_ERROR, bad[i][1]);
    sqlite3_free(sql);
  }
  sql_ok(db, "COMMIT");
  sql_rows(db, "SELECT name FROM sqlite_master", "ordinary");
  sql_rows(db, "SELECT count(*) FROM ordinary", "1");
}
END_TEST

START_TEST(null_keys_are_refused_in_sqlites_words) {
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(a TEXT, b INT, v NOT NULL, w, PRIMARY KEY(a, b));"
             "CREATE VIRTUAL TABLE u USING colfam(k PRIMARY KEY, v);"
             "INSERT INTO t VALUES('x', 1, 2, 3); INSERT INTO u VALUES(1, 2)");
  static const char *const bad[][2] = {
      {"INSERT INTO u VALUES(NULL, 1)", "NOT NULL constraint failed: u.k"},
      {"INSERT INTO u(v) VALUES(1)", "NOT NULL constraint failed: u.k"},
      {"INSERT INTO u DEFAULT VALUES", "NOT NULL constraint failed: u.k"},
      {"INSERT OR REPLACE INTO u VALUES(3, 3), (NULL, 1)", "NOT NULL constraint failed: u.k"},
      {"UPDATE u SET k = NULL", "NOT NULL constraint failed: u.k"},
      {"UPDATE OR REPLACE u SET k = NULL", "NOT NULL constraint failed: u.k"},
      {"INSERT INTO t VALUES(NULL, 1, 2, 3)", "NOT NULL constraint failed: t.a"},
      {"INSERT INTO t VALUES('x', NULL, 2, 3)", "NOT NULL constraint failed: t.b"},
      {"INSERT INTO t VALUES('x', 2, NULL, 3)", "NOT NULL constraint failed: t.v"},
      {"UPDATE t SET b = NULL", "NOT NULL constraint failed: t.b"},
      {"UPDATE t SET v = NULL", "NOT NULL constraint failed: t.v"},
      {"INSERT INTO u SELECT max(k), 1 FROM u WHERE 0", "NOT NULL constraint failed: u.k"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    sql_fails(db, bad[i][0], SQLITE_CONSTRAINT_NOTNULL, bad[i][1]);
    sql_rows(db, "SELECT * FROM t", "x|1|2|3");
    sql_rows(db, "SELECT * FROM u", "1|2");
  }
  sql_ok(db, "INSERT OR IGNORE INTO u VALUES(NULL, 1), (2, 2); UPDATE OR IGNORE t SET a = NULL");
  sql_rows(db, "SELECT * FROM u", "1|2\n2|2");
}
END_TEST

START_TEST(statements_that_sqlite_refuses_leave_the_table_alone) {
  damage_make_tables(db);
  damage_note_rows(db);
  static const char *const bad[] = {
      "INSERT INTO t VALUES(1)",
      "INSERT INTO t VALUES(1, 2, 3)",
      "INSERT INTO t(nothing) VALUES(1)",
      "INSERT INTO t VALUES(1, 'taken')",
      "INSERT INTO t VALUES(1000, 'new'), (1, 'taken')",
      "UPDATE t SET nothing = 1",
      "UPDATE t SET k = 5",
      "SELECT nothing FROM t",
      "SELECT rowid FROM t",
      "CREATE INDEX i ON t(v)",
      "CREATE TRIGGER r AFTER INSERT ON t BEGIN SELECT 1; END",
      "ALTER TABLE t ADD COLUMN w",
      "ALTER TABLE t RENAME COLUMN v TO w",
      "ALTER TABLE t DROP COLUMN v",
      "INSERT INTO t VALUES(1, 2) ON CONFLICT(k) DO NOTHING",
      "DELETE FROM t RETURNING k",
      "UPDATE t SET v = 1 RETURNING k",
      "INSERT INTO t(t) VALUES('no such command')",
      "INSERT INTO t(t) VALUES('filter_bits=99')",
      "INSERT INTO t(t) VALUES('comparator=reverse')",
      "INSERT INTO t(t) VALUES(x'00')",
      "INSERT INTO t(t) VALUES('')",
      "CREATE VIRTUAL TABLE t USING colfam(k PRIMARY KEY)",
      "SELECT * FROM colfam_files('nothing')",
      "SELECT * FROM colfam_check(5)",
      "SELECT colfam_may_exist('nothing', 1)",
      "SELECT colfam_may_exist('t')",
      "SELECT colfam_may_exist('t', 1, 2)",
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    ck_assert_msg(sqlite3_exec(db, bad[i], NULL, NULL, NULL) != SQLITE_OK, "%s works", bad[i]);
    ck_assert_msg(strlen(sqlite3_errmsg(db)) > 10, "%s: %s", bad[i], sqlite3_errmsg(db));
  }
  damage_none(db);
}
END_TEST

/* ---- Files */

/* The damage is seen by a fresh connection; then the table works again. */
static int damaged(const struct file *file, const char *bytes, size_t size, const char *what) {
  close_database();
  write_bytes(file->path, bytes, size);
  open_database();
  return damage_check(db, SQLITE_CORRUPT_VTAB, id_of(file), what);
}

static void restored(const struct file *file) {
  close_database();
  file_restore(file);
  open_database();
}

/* Flips a bit at `offset`; says how many reads noticed. */
static int flipped(const struct file *file, char *bytes, size_t offset, int bit) {
  char what[100];
  snprintf(what, sizeof what, "bit %d of byte %zu of %zu flipped", bit, offset, file->size);
  memcpy(bytes, file->bytes, file->size);
  bytes[offset] = (char)(bytes[offset] ^ 1 << bit);
  return damaged(file, bytes, file->size, what);
}

/* What a damaged table does with writes and jobs: fails, or works. */
static void write_damaged(const char *what) {
  static const char *const writes[] = {
      "INSERT INTO t VALUES(1, 'taken')", "INSERT OR REPLACE INTO t VALUES(2, 'first 2')",
      "UPDATE t SET v = v WHERE k = 33",  "INSERT INTO t(t) VALUES('flush')",
      "SELECT * FROM colfam_check('t')",  "INSERT INTO t(t) VALUES('compact')"};
  for (size_t i = 0; i < sizeof writes / sizeof *writes; i++) {
    int rc = sqlite3_exec(db, writes[i], NULL, NULL, NULL);
    bool known = rc == SQLITE_OK || rc == SQLITE_CORRUPT_VTAB || rc == SQLITE_CONSTRAINT_PRIMARYKEY;
    ck_assert_msg(known, "%s: %s: code %d: %s", what, writes[i], rc, sqlite3_errmsg(db));
  }
  damage_check(db, SQLITE_CORRUPT_VTAB, "", what);
}

/* Offsets: every one of the last 200 bytes (index, properties, footer), and a spread of the
** rest. */
START_TEST(file_with_flipped_bits_gives_right_rows_or_an_error) {
  struct file file;
  struct harness_random random;
  uint64_t seed = harness_seed_env(7);
  harness_seed(&random, seed);
  damage_make_tables(db);
  damage_note_rows(db);
  file_of("t", _i, &file);
  char *bytes = malloc(file.size);
  ck_assert_ptr_nonnull(bytes);
  int noticed = 0, tries = 0;
  for (size_t offset = 0; offset < file.size; tries++) {
    noticed += flipped(&file, bytes, offset, (int)harness_below(&random, 8)) > 0;
    bool tail = offset + 200 > file.size;
    offset += tail ? 1 : 1 + harness_below(&random, 40);
  }
  ck_assert_msg(noticed > tries * 9 / 10, "seed %llu: %d of %d noticed", (unsigned long long)seed,
                noticed, tries);
  damage_others_work(db);
  restored(&file);
  damage_none(db);
  free(bytes);
  free(file.bytes);
}
END_TEST

/* A compaction must not launder damage: it fails, and the old files stay. */
START_TEST(file_with_flipped_bits_is_never_merged) {
  struct file file;
  damage_make_tables(db);
  damage_note_rows(db);
  file_of("t", 1, &file);
  char *bytes = malloc(file.size);
  ck_assert_ptr_nonnull(bytes);
  for (size_t offset = 3; offset < file.size; offset += file.size / 13) {
    if (!flipped(&file, bytes, offset, 4)) continue;
    sql_fails(db, "INSERT INTO t(t) VALUES('compact')", SQLITE_CORRUPT_VTAB, id_of(&file));
    ck_assert_int_gt(sql_int(db, "SELECT count(*) FROM colfam_check('t')"), 0);
    damage_others_work(db);
    restored(&file);
    damage_none(db);
  }
  free(bytes);
  free(file.bytes);
}
END_TEST

START_TEST(file_of_another_length_is_refused) {
  struct file file;
  damage_make_tables(db);
  damage_note_rows(db);
  file_of("t", 0, &file);
  char *longer = calloc(1, file.size + 5000);
  ck_assert_ptr_nonnull(longer);
  memcpy(longer, file.bytes, file.size);
  for (size_t size = 0; size < file.size; size += 1 + size / 3) {
    ck_assert_int_ge(damaged(&file, file.bytes, size, "cut"), 5);
    write_damaged("cut");
    restored(&file);
  }
  for (size_t extra = 1; extra < 5000; extra *= 7)
    ck_assert_int_ge(damaged(&file, longer, file.size + extra, "longer"), 5);
  damage_others_work(db);
  restored(&file);
  damage_none(db);
  free(longer);
  free(file.bytes);
}
END_TEST

/* Blocks moved within a file keep their own checksum, but not their place. */
START_TEST(file_with_stretches_swapped_or_zeroed) {
  struct file file;
  damage_make_tables(db);
  damage_note_rows(db);
  file_of("t", 1, &file);
  char *bytes = malloc(file.size);
  ck_assert_ptr_nonnull(bytes);
  size_t piece = file.size / 8;
  for (size_t i = 0; i < 7; i++) {
    memcpy(bytes, file.bytes, file.size);
    memcpy(bytes + i * piece, file.bytes + (i + 1) * piece, piece);
    memcpy(bytes + (i + 1) * piece, file.bytes + i * piece, piece);
    ck_assert_int_gt(damaged(&file, bytes, file.size, "swapped"), 0);
    memcpy(bytes, file.bytes, file.size);
    memset(bytes + i * piece, 0, piece);
    ck_assert_int_gt(damaged(&file, bytes, file.size, "zeroed"), 0);
  }
  restored(&file);
  damage_none(db);
  free(bytes);
  free(file.bytes);
}
END_TEST

/* Sound files under another name: of the same table, of another one, of another database. */
START_TEST(file_that_is_sound_but_foreign) {
  struct file newer, older, other;
  damage_make_tables(db);
  damage_note_rows(db);
  file_of("t", 0, &newer);
  file_of("t", 1, &older);
  file_of("sound", 0, &other);
  close_database();
  file_restore(&newer);
  write_bytes(newer.path, older.bytes, older.size);
  write_bytes(older.path, newer.bytes, newer.size);
  open_database();
  ck_assert_int_ge(damage_check(db, SQLITE_CORRUPT_VTAB, "manifest", "files swapped"), 5);
  restored(&newer);
  restored(&older);
  damage_none(db);
  ck_assert_int_ge(damaged(&newer, other.bytes, other.size, "another table's file"), 5);
  damage_others_work(db);
  restored(&newer);
  ck_assert_int_ge(damaged(&older, "SQLite format 3", 16, "no table file"), 5);
  restored(&older);
  damage_none(db);
  damage_drop(db);
  free(newer.bytes);
  free(older.bytes);
  free(other.bytes);
}
END_TEST

START_TEST(file_damaged_in_the_open_is_noticed_or_not_needed) {
  struct file file;
  damage_make_tables(db);
  damage_note_rows(db);
  file_of("t", 1, &file);
  reopen();
  int fd = open(file.path, O_RDWR);
  ck_assert_int_ge(fd, 0);
  sql_rows(db, "SELECT v FROM t WHERE k = 1", "first 1");
  for (off_t offset = 0; offset < (off_t)file.size; offset += 16)
    ck_assert_int_eq(pwrite(fd, "damage", 6, offset), 6);
  ck_assert_int_gt(damage_check(db, SQLITE_CORRUPT_VTAB, id_of(&file), "overwritten"), 0);
  ck_assert_int_eq(ftruncate(fd, 10), 0);
  ck_assert_int_gt(damage_check(db, SQLITE_CORRUPT_VTAB, id_of(&file), "cut while open"), 0);
  close(fd);
  damage_others_work(db);
  restored(&file);
  damage_none(db);
  free(file.bytes);
}
END_TEST

/* ---- Missing and replaced */

/* Reads that need the file fail and name it; point reads of the log go on. */
static void missing(const char *name, const char *what) {
  ck_assert_int_ge(damage_check(db, SQLITE_CANTOPEN, name, what), 5);
  sql_ok(db, "CREATE TABLE IF NOT EXISTS ordinary(x); INSERT INTO ordinary VALUES(1)");
}

START_TEST(file_missing_is_an_error_of_its_own_and_comes_back) {
  struct file file;
  damage_make_tables(db);
  damage_note_rows(db);
  for (int number = 0; number < 2; number++) {
    file_of("t", number, &file);
    close_database();
    ck_assert_int_eq(unlink(file.path), 0);
    open_database();
    missing(id_of(&file), "missing");
    damage_others_work(db);
    sql_fails(db, "INSERT INTO t(t) VALUES('compact')", SQLITE_CANTOPEN, id_of(&file));
    file_restore(&file); /* the same connection finds it */
    damage_none(db);
    free(file.bytes);
  }
  damage_drop(db);
}
END_TEST

static void replace_by(const char *path, int kind) {
  switch (kind) {
    case 0:
      ck_assert_int_eq(mkdir(path, 0700), 0);
      break;
    case 1:
      ck_assert_int_eq(mkfifo(path, 0600), 0);
      break;
    case 2:
      ck_assert_int_eq(symlink("/etc/passwd", path), 0);
      break;
    case 3:
      ck_assert_int_eq(symlink("/nowhere/at/all", path), 0);
      break;
    default:
      write_bytes(path, "", 0);
  }
}

/* Not followed, not waited for. */
START_TEST(file_replaced_by_what_is_no_file) {
  struct file file;
  damage_make_tables(db);
  damage_note_rows(db);
  file_of("t", 1, &file);
  for (int kind = 0; kind < 5; kind++) {
    close_database();
    remove(file.path);
    replace_by(file.path, kind);
    open_database();
    int failed = damage_check(db, 0, id_of(&file), "replaced");
    ck_assert_int_ge(failed, 5);
    damage_others_work(db);
  }
  close_database();
  remove(file.path);
  file_restore(&file);
  open_database();
  damage_none(db);
  free(file.bytes);
}
END_TEST

START_TEST(file_replaced_by_what_is_no_file_then_drop) {
  struct file file;
  damage_make_tables(db);
  file_of("t", 1, &file);
  close_database();
  remove(file.path);
  replace_by(file.path, _i);
  open_database();
  damage_drop(db);
  ck_assert_int_eq(access("/etc/passwd", F_OK), 0);
  free(file.bytes);
}
END_TEST

/* The directory itself: away, a file, a FIFO, a link elsewhere; then back. */
START_TEST(directory_replaced_then_back) {
  char path[4096], away[4200];
  damage_make_tables(db);
  damage_note_rows(db);
  snprintf(path, sizeof path, "%s", sql_path("bad.db-colfam"));
  snprintf(away, sizeof away, "%s-away", path);
  for (int kind = 0; kind < 6; kind++) {
    close_database();
    ck_assert_int_eq(rename(path, away), 0);
    if (kind < 5) replace_by(path, kind);
    open_database();
    int rc = sqlite3_exec(db, "SELECT k, v FROM t", NULL, NULL, NULL);
    ck_assert_msg(rc == SQLITE_CANTOPEN || rc == SQLITE_IOERR, "kind %d: code %d", kind, rc);
    ck_assert_ptr_nonnull(strstr(sqlite3_errmsg(db), "table t"));
    ck_assert_ptr_nonnull(strstr(sqlite3_errmsg(db), "bad.db-colfam"));
    sql_ok(db, "CREATE TABLE IF NOT EXISTS ordinary(x); INSERT INTO ordinary VALUES(1)");
    rc = sqlite3_exec(db, "INSERT INTO t(t) VALUES('compact')", NULL, NULL, NULL);
    ck_assert_int_ne(rc, SQLITE_OK);
    rc = sqlite3_exec(db, "SELECT * FROM sound", NULL, NULL, NULL);
    ck_assert_int_ne(rc, SQLITE_OK);
    close_database();
    remove(path);
    ck_assert_int_eq(rename(away, path), 0);
    open_database();
    damage_none(db);
    damage_others_work(db);
  }
  damage_drop(db);
}
END_TEST

START_TEST(directory_replaced_then_drop_and_create_work) {
  char path[4096];
  damage_make_tables(db);
  snprintf(path, sizeof path, "%s", sql_path("bad.db-colfam"));
  close_database();
  harness_remove_tree(path);
  if (_i < 5) replace_by(path, _i);
  open_database();
  sql_ok(db, "DROP TABLE t; DROP TABLE sound");
  sql_rows(db, "SELECT count(*) FROM sqlite_master", "0");
  if (_i < 5) remove(path);
  damage_make_tables(db);
  damage_note_rows(db);
  damage_none(db);
}
END_TEST

static void add_files(TCase *tc) {
  tcase_add_loop_test(tc, file_with_flipped_bits_gives_right_rows_or_an_error, 0, 2);
  tcase_add_test(tc, file_with_flipped_bits_is_never_merged);
  tcase_add_test(tc, file_of_another_length_is_refused);
  tcase_add_test(tc, file_with_stretches_swapped_or_zeroed);
  tcase_add_test(tc, file_that_is_sound_but_foreign);
  tcase_add_test(tc, file_damaged_in_the_open_is_noticed_or_not_needed);
  tcase_add_test(tc, file_missing_is_an_error_of_its_own_and_comes_back);
  tcase_add_test(tc, file_replaced_by_what_is_no_file);
  tcase_add_loop_test(tc, file_replaced_by_what_is_no_file_then_drop, 0, 5);
  tcase_add_test(tc, directory_replaced_then_back);
  tcase_add_loop_test(tc, directory_replaced_then_drop_and_create_work, 0, 6);
}

static Suite *suite(void) {
  Suite *s = suite_create("sql_badinput");
  TCase *tc = tcase_create("badinput");
  tcase_add_checked_fixture(tc, open_database, close_database);
  tcase_set_timeout(tc, 60);
  tcase_add_test(tc, clauses_that_are_not_supported_are_named);
  tcase_add_test(tc, null_keys_are_refused_in_sqlites_words);
  tcase_add_test(tc, statements_that_sqlite_refuses_leave_the_table_alone);
  add_files(tc);
  suite_add_tcase(s, tc);
  return s;
}

int main(void) {
  return harness_run(suite());
}
