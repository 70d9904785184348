/* Damage seen through SQL: one change to a row of a shadow table, or to a table file, at a time, then every
** kind of read, by a fresh connection or by one that has the table in memory. Each read gives the right
** rows or an error of damage, and then colfam_check names it; the other table works.
**
**   COLFAM_SEED=n    other changes
**   COLFAM_STEPS=n   how many: half of them to shadow tables, half to files
**
** What may go unseen, since it carries nothing: rows of t_cflog at or below flushed_seq, and options. The
** newest rows of t_cflog taken away are an earlier state of the database. */
#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness_damage.h"
#include "harness_sql.h"

enum { STEPS = 1200, FILES_MAX = 8, FILE_BYTES_MAX = 1 << 16 };

static sqlite3 *db;     /* reads */
static sqlite3 *writer; /* changes shadow tables; has no extension in use */
static struct harness_random numbers;
static char path[4200];

static struct file {
  char path[4600];
  char bytes[FILE_BYTES_MAX];
  size_t size;
} files[FILES_MAX];
static size_t file_count;

static struct tally { unsigned long long steps, noticed, unseen, earlier; } tally;

static uint64_t below(uint64_t bound) {
  return harness_below(&numbers, bound);
}

static uint64_t steps_wanted(void) {
  const char *steps = getenv("COLFAM_STEPS");
  return steps ? strtoull(steps, NULL, 10) : STEPS;
}

static void reopen(void) {
  if (db) sql_close(db);
  db = sql_open(path);
}

static void read_files(void) {
  char dir[4300];
  snprintf(dir, sizeof dir, "%s-colfam", path);
  DIR *stream = opendir(dir);
  ck_assert_ptr_nonnull(stream);
  for (struct dirent *entry; (entry = readdir(stream)) != NULL;) {
    if (entry->d_name[0] == '.') continue;
    ck_assert_uint_lt(file_count, FILES_MAX);
    struct file *file = &files[file_count++];
    snprintf(file->path, sizeof file->path, "%s/%s", dir, entry->d_name);
    FILE *in = fopen(file->path, "rb");
    ck_assert_ptr_nonnull(in);
    file->size = fread(file->bytes, 1, sizeof file->bytes, in);
    fclose(in);
  }
  closedir(stream);
}

static void setup(void) {
  snprintf(path, sizeof path, "%s/damage.db", harness_memory_dir());
  unlink(path);
  file_count = 0;
  db = NULL;
  tally = (struct tally){0};
  harness_seed(&numbers, harness_seed_env(1));
  reopen();
  damage_make_tables(db);
  damage_note_rows(db);
  read_files();
  writer = sql_open(path);
  sql_trust(writer);
  sql_ok(writer, "PRAGMA synchronous = off; CREATE TABLE kept_cfmeta AS SELECT * FROM t_cfmeta;"
                 "CREATE TABLE kept_cffile AS SELECT * FROM t_cffile;"
                 "CREATE TABLE kept_cflog AS SELECT * FROM t_cflog");
}

static void teardown(void) {
  damage_none(db);
  sql_close(db);
  sql_close(writer);
  if (getenv("COLFAM_STEPS"))
    printf("through SQL: %llu, noticed %llu, carry nothing %llu, an earlier state %llu, wrong "
           "answers 0\n",
           tally.steps, tally.noticed, tally.unseen, tally.earlier);
  fflush(stdout);
}

/* Rows, or the error of a table that is of a later version or whose authorizer seems to hide something. */
static bool check_finds(void) {
  sqlite3_stmt *check;
  ck_assert_int_eq(sqlite3_prepare_v2(db, "SELECT * FROM colfam_check('t')", -1, &check, NULL),
                   SQLITE_OK);
  int rc = sqlite3_step(check);
  sqlite3_finalize(check);
  return rc == SQLITE_ROW || rc == SQLITE_ERROR || rc == SQLITE_AUTH;
}

/* Every read is right or says what it must; the check agrees. */
static bool judge(const char *what) {
  struct damage_verdict verdict;
  if (tally.steps++ % 50 == 0) alarm(60);
  damage_judge(db, &verdict);
  int primary = verdict.code & 0xff;
  bool known = !verdict.failed || verdict.code == SQLITE_CORRUPT_VTAB ||
               primary == SQLITE_CANTOPEN || primary == SQLITE_ERROR || primary == SQLITE_AUTH;
  ck_assert_msg(!verdict.wrong, "%s: wrong rows: %s", what, verdict.what);
  ck_assert_msg(known, "%s: code %d: %s", what, verdict.code, verdict.what);
  if (!verdict.failed) return false;
  ck_assert_msg(check_finds(), "%s: nothing found, but: %s", what, verdict.what);
  return true;
}

/* Writes and jobs on damage: refused with a code that is known, and nothing is left behind. */
static void write_damaged(const char *what) {
  static const char *const writes[] = {
      "INSERT INTO t VALUES(1000, 'new')", "UPDATE t SET v = v || 'x' WHERE k < 50",
      "DELETE FROM t WHERE k % 2", "INSERT INTO t(t) VALUES('flush')",
      "INSERT INTO t(t) VALUES('compact')"};
  sql_ok(db, "BEGIN");
  int rc = sqlite3_exec(db, writes[below(5)], NULL, NULL, NULL);
  int primary = rc & 0xff;
  ck_assert_msg(rc == SQLITE_OK || primary == SQLITE_CORRUPT || primary == SQLITE_CANTOPEN ||
                    primary == SQLITE_ERROR || primary == SQLITE_AUTH || primary == SQLITE_READONLY,
                "%s: code %d: %s", what, rc, sqlite3_errmsg(db));
  if (!sqlite3_get_autocommit(db)) sql_ok(db, "ROLLBACK");
}

/* ---- Shadow tables */

static const char *const values[] = {"NULL",
                                     "-1",
                                     "0",
                                     "1",
                                     "2",
                                     "9223372036854775807",
                                     "-9223372036854775808",
                                     "4294967296",
                                     "2147483648",
                                     "1e300",
                                     "9e999",
                                     "'text'",
                                     "''",
                                     "'9'",
                                     "x''",
                                     "x'00'",
                                     "zeroblob(16)",
                                     "zeroblob(100000)",
                                     "randomblob(16)",
                                     "randomblob(500)"};

static const struct shadow {
  const char *table;
  const char *key;
  const char *columns[9];
  uint64_t count;
  uint64_t rows; /* about how many it has */
} shadows[] = {
    {"t_cfmeta", "name", {"name", "value", "value", "value"}, 4, 16},
    {"t_cffile",
     "id",
     {"id", "level", "seq", "smallest", "largest", "bytes", "entries", "tombstones", "checksum"},
     9,
     2},
    {"t_cflog", "seq", {"seq", "nonce", "gen", "rows", "batch"}, 5, 6},
};

/* A batch or a bound with one bit or byte changed, cut, or longer. */
static char *changed_blob(const char *column) {
  int at = (int)below(40);
  switch (below(4)) {
    case 0:
      return sqlite3_mprintf("CAST(substr(%s, 1, length(%s) - %d) AS BLOB)", column, column,
                             1 + at);
    case 1:
      return sqlite3_mprintf("CAST(%s || x'%02x' AS BLOB)", column, at);
    case 2:
      return sqlite3_mprintf("CAST(substr(%s, 1, %d) || x'%02x' || substr(%s, %d) AS BLOB)", column,
                             at, (int)below(256), column, at + 2);
    default:
      return sqlite3_mprintf("CAST(substr(%s, 1, length(%s) - %d) || x'%02x' AS BLOB)", column,
                             column, at, (int)below(256));
  }
}

static char *hostile_statement(void) {
  const struct shadow *shadow = &shadows[below(3)];
  const char *column = shadow->columns[below(shadow->count)];
  const char *value = values[below(sizeof values / sizeof *values)];
  char where[200];
  snprintf(where, sizeof where, "WHERE %s = (SELECT %s FROM %s LIMIT 1 OFFSET %d)", shadow->key,
           shadow->key, shadow->table, (int)below(shadow->rows));
  char *blob, *sql;
  switch (below(9)) {
    case 0:
      return sqlite3_mprintf("DELETE FROM %s %s", shadow->table, where);
    case 1:
      return sqlite3_mprintf("UPDATE OR REPLACE %s SET %s = %s + %d %s", shadow->table, column,
                             column, below(2) ? 1 : -1, where);
    case 2:
      return sqlite3_mprintf(
          "UPDATE OR REPLACE %s SET %s = (SELECT %s FROM %s LIMIT 1 OFFSET %d) %s", shadow->table,
          column, column, shadow->table, (int)below(shadow->rows), where);
    case 3:
      return sqlite3_mprintf("INSERT OR REPLACE INTO %s(%s, %s) VALUES(%s, %s)", shadow->table,
                             shadow->key, shadow->columns[1], value, value);
    case 4:
    case 5:
      blob = changed_blob(column);
      sql = sqlite3_mprintf("UPDATE OR REPLACE %s SET %s = %s %s", shadow->table, column, blob,
                            where);
      sqlite3_free(blob);
      return sql;
    case 6:
      return sqlite3_mprintf(
          "UPDATE OR REPLACE %s SET %s = (SELECT %s FROM %s WHERE %s > 0 LIMIT 1)", shadow->table,
          column, column, shadow->table, column);
    default:
      return sqlite3_mprintf("UPDATE OR REPLACE %s SET %s = %s %s", shadow->table, column, value,
                             where);
  }
}

static void restore_shadows(void) {
  sql_ok(writer, "BEGIN; DELETE FROM t_cfmeta; INSERT INTO t_cfmeta SELECT * FROM kept_cfmeta;"
                 "DELETE FROM t_cffile; INSERT INTO t_cffile SELECT * FROM kept_cffile;"
                 "DELETE FROM t_cflog; INSERT INTO t_cflog SELECT * FROM kept_cflog; COMMIT");
}

/* Whether the newest commits' rows are gone, so that what is left is older. */
static bool is_earlier(void) {
  return sql_int(writer, "SELECT coalesce((SELECT max(seq) FROM t_cflog), 0) <"
                         " (SELECT max(seq) FROM kept_cflog)");
}

static void change_shadow(void) {
  char *sql = hostile_statement();
  int rc = sqlite3_exec(writer, sql, NULL, NULL, NULL) & 0xff;
  bool refused = rc == SQLITE_CONSTRAINT || rc == SQLITE_MISMATCH;
  ck_assert_msg(rc == SQLITE_OK || refused, "%s: %s", sql, sqlite3_errmsg(writer));
  if (below(4)) reopen();
  if (is_earlier()) {
    struct damage_verdict verdict;
    damage_judge(db, &verdict);
    tally.steps++;
    tally.earlier++;
  } else if (judge(sql)) {
    tally.noticed++;
  } else {
    tally.unseen++;
  }
  if (below(8) == 0) write_damaged(sql);
  damage_others_work(db);
  restore_shadows();
  reopen();
  sqlite3_free(sql);
}

START_TEST(shadow_rows_changed) {
  while (tally.steps < steps_wanted() / 2) change_shadow();
}
END_TEST

/* ---- Files */

static void write_file(const char *name, const char *bytes, size_t size) {
  unlink(name);
  FILE *out = fopen(name, "wb");
  ck_assert_ptr_nonnull(out);
  ck_assert_uint_eq(fwrite(bytes, 1, size, out), size);
  fclose(out);
}

static const char *damage_bytes(char *bytes, size_t *size, const struct file *other) {
  size_t at = below(*size), more = 1 + below(64);
  switch (below(6)) {
    case 0:
      bytes[at] = (char)(bytes[at] ^ 1 << below(8));
      return "a bit";
    case 1:
      *size = at;
      return "cut";
    case 2:
      memset(bytes + *size, (int)below(2), more);
      *size += more;
      return "longer";
    case 3:
      at = at / 512 * 512;
      memset(bytes + at, 0, *size - at < 512 ? *size - at : 512);
      return "a sector of zeros";
    case 4:
      memcpy(bytes, other->bytes, other->size);
      *size = other->size;
      return "another file";
    default:
      if (at < other->size)
        memcpy(bytes + at, other->bytes + at, other->size - at < more ? other->size - at : more);
      if (*size < at + more) *size = at + more;
      return "a stretch of another file";
  }
}

/* t's files are those that its manifest names. */
static bool is_of_t(const struct file *file) {
  char *sql = sqlite3_mprintf("SELECT count(*) FROM colfam_files('t') WHERE id || '.sst' = %Q",
                              strrchr(file->path, '/') + 1);
  bool is = sql_int(db, sql) == 1;
  sqlite3_free(sql);
  return is;
}

static void change_file(void) {
  static char bytes[FILE_BYTES_MAX * 2];
  struct file *file = &files[below(file_count)], *other = &files[below(file_count)];
  if (!is_of_t(file)) return;
  size_t size = file->size;
  memset(bytes, 0, sizeof bytes);
  memcpy(bytes, file->bytes, size);
  const char *what = damage_bytes(bytes, &size, other);
  if (size == file->size && memcmp(bytes, file->bytes, size) == 0) return;
  write_file(file->path, bytes, size);
  reopen();
  ck_assert_msg(judge(what), "%s went unseen", what);
  tally.noticed++;
  if (below(8) == 0) write_damaged(what);
  damage_others_work(db);
  write_file(file->path, file->bytes, file->size);
  reopen();
}

START_TEST(table_files_changed) {
  while (tally.steps < steps_wanted() / 2) change_file();
}
END_TEST

int main(void) {
  Suite *suite = suite_create("sql_damage");
  TCase *tc = tcase_create("damage");
  tcase_add_checked_fixture(tc, setup, teardown);
  tcase_set_timeout(tc, 3600);
  tcase_add_test(tc, shadow_rows_changed);
  tcase_add_test(tc, table_files_changed);
  suite_add_tcase(suite, tc);
  return harness_run(suite);
}
