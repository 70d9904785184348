/* Shadow tables with hostile rows: whatever users write into them outside defensive mode, the table fails or
** answers, never crashes or hangs, and other tables and DROP work. */
#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "harness_damage.h"
#include "harness_sql.h"

static sqlite3 *db;

static void open_database(void) {
  db = sql_open(sql_path("bad.db"));
  sql_trust(db);
  sql_ok(db, "PRAGMA synchronous = off");
}

static void close_database(void) {
  sql_close(db);
}

static void reopen(void) {
  close_database();
  open_database();
}

/* The database and its table files, to go back to. */
enum { SAVED_MAX = 16 };

static struct saved {
  char path[4400];
  char *bytes;
  size_t size;
} saved[SAVED_MAX];
static int saved_count;

static void save_file(const char *path) {
  ck_assert_int_lt(saved_count, SAVED_MAX);
  struct saved *file = &saved[saved_count++];
  snprintf(file->path, sizeof file->path, "%s", path);
  FILE *stream = fopen(path, "rb");
  ck_assert_msg(stream != NULL, "%s", path);
  fseek(stream, 0, SEEK_END);
  file->size = (size_t)ftell(stream);
  rewind(stream);
  file->bytes = malloc(file->size + 1);
  ck_assert_ptr_nonnull(file->bytes);
  ck_assert_uint_eq(fread(file->bytes, 1, file->size, stream), file->size);
  fclose(stream);
}

static void save_database(void) {
  close_database();
  save_file(sql_path("bad.db"));
  DIR *dir = opendir(sql_path("bad.db-colfam"));
  ck_assert_ptr_nonnull(dir);
  for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
    char path[4400];
    snprintf(path, sizeof path, "%s/%s", sql_path("bad.db-colfam"), entry->d_name);
    if (entry->d_name[0] != '.') save_file(path);
  }
  closedir(dir);
  open_database();
}

static void restore_database(void) {
  close_database();
  harness_remove_tree(sql_path("bad.db-journal"));
  harness_remove_tree(sql_path("bad.db-colfam"));
  ck_assert_int_eq(mkdir(sql_path("bad.db-colfam"), 0700), 0);
  for (int i = 0; i < saved_count; i++) {
    FILE *stream = fopen(saved[i].path, "wb");
    ck_assert_msg(stream != NULL, "%s", saved[i].path);
    ck_assert_uint_eq(fwrite(saved[i].bytes, 1, saved[i].size, stream), saved[i].size);
    fclose(stream);
  }
  open_database();
}

static void free_saved(void) {
  while (saved_count) free(saved[--saved_count].bytes);
}

static const char *const hostile_values[] = {"NULL",
                                             "-1",
                                             "0",
                                             "1",
                                             "2",
                                             "9223372036854775807",
                                             "-9223372036854775808",
                                             "1e300",
                                             "-0.0",
                                             "'text'",
                                             "''",
                                             "x''",
                                             "x'00'",
                                             "zeroblob(100000)",
                                             "randomblob(16)",
                                             "randomblob(500)",
                                             "4294967296",
                                             "2147483648",
                                             "9e999",
                                             "'9'",
                                             "zeroblob(16)",
                                             "3",
                                             "'zstd:99'",
                                             "'reverse'"};

static const struct {
  const char *table;
  const char *columns[10];
  int count;
} shadows[] = {
    {"t_cfmeta", {"name", "value", "value", "value"}, 4},
    {"t_cffile",
     {"id", "level", "seq", "smallest", "largest", "bytes", "entries", "tombstones", "checksum"},
     9},
    {"t_cflog", {"seq", "nonce", "gen", "rows", "batch"}, 5},
};

/* One value set, changed a little, copied from another row, or rows deleted or doubled. */
static char *hostile_statement(struct harness_random *random) {
  uint64_t shadow = harness_below(random, 3);
  const char *table = shadows[shadow].table;
  const char *column =
      shadows[shadow].columns[harness_below(random, (uint64_t)shadows[shadow].count)];
  const char *value =
      hostile_values[harness_below(random, sizeof hostile_values / sizeof *hostile_values)];
  const char *key = shadow == 0 ? "name" : shadow == 1 ? "id" : "seq";
  int row = (int)harness_below(random, shadow == 0 ? 14 : 3);
  char where[200];
  snprintf(where, sizeof where, "WHERE %s = (SELECT %s FROM %s LIMIT 1 OFFSET %d)", key, key, table,
           row);
  switch (harness_below(random, 8)) {
    case 0:
      return sqlite3_mprintf("DELETE FROM %s %s", table, where);
    case 1:
      return sqlite3_mprintf("UPDATE OR REPLACE %s SET %s = %s + %d %s", table, column, column,
                             (int)harness_below(random, 5) - 2, where);
    case 2:
      return sqlite3_mprintf(
          "UPDATE OR REPLACE %s SET %s = (SELECT %s FROM %s LIMIT 1 OFFSET 1) %s", table, column,
          column, table, where);
    case 3:
      return sqlite3_mprintf("INSERT OR REPLACE INTO %s(%s, %s) VALUES(%s, %s)", table, key,
                             strcmp(column, key) ? column : shadows[shadow].columns[1], value,
                             value);
    case 4:
      return sqlite3_mprintf("UPDATE OR REPLACE %s SET %s = substr(%s, 1, length(%s) - %d) %s",
                             table, column, column, column, 1 + (int)harness_below(random, 9),
                             where);
    default:
      return sqlite3_mprintf("UPDATE OR REPLACE %s SET %s = %s %s", table, column, value, where);
  }
}

static const char *const uses[] = {"SELECT count(*), max(v) FROM t",
                                   "SELECT v FROM t WHERE k IN (1, 2, 3, 300)",
                                   "SELECT v FROM t WHERE k = 9",
                                   "SELECT count(*) FROM t",
                                   "SELECT * FROM colfam_check('t')",
                                   "SELECT * FROM colfam_files('t')",
                                   "SELECT * FROM colfam_families",
                                   "SELECT * FROM colfam_stats",
                                   "SELECT colfam_may_exist('t', 5)",
                                   "INSERT INTO t VALUES(400, 'new')",
                                   "UPDATE t SET v = 'x' WHERE k = 300",
                                   "DELETE FROM t WHERE k = 7",
                                   "INSERT INTO t(t) VALUES('flush')",
                                   "INSERT INTO t(t) VALUES('compact')",
                                   "INSERT INTO t(t) VALUES('filter_bits=8')",
                                   "ALTER TABLE t RENAME TO t2",
                                   "ALTER TABLE t2 RENAME TO t",
                                   "BEGIN; INSERT INTO t VALUES(401, 'x'); ROLLBACK"};

/* The table may have any rows now; what it may not is crash, hang or hurt others. */
static void use_hostile_table(struct harness_random *random, const char *hostile) {
  for (int i = 0; i < 8; i++) {
    const char *use = uses[harness_below(random, sizeof uses / sizeof *uses)];
    int rc = sqlite3_exec(db, use, NULL, NULL, NULL);
    int code = rc & 0xff;
    bool known = code == SQLITE_OK || code == SQLITE_CORRUPT || code == SQLITE_CANTOPEN ||
                 code == SQLITE_ERROR || code == SQLITE_CONSTRAINT;
    ck_assert_msg(known, "%s: %s: code %d: %s", hostile, use, rc, sqlite3_errmsg(db));
    if (!sqlite3_get_autocommit(db)) sql_ok(db, "ROLLBACK");
  }
  sql_rows(db, "SELECT k, v FROM sound WHERE k IN (1, 2, 3)", "1|a\n2|b");
}

START_TEST(shadow_rows_that_are_hostile_do_no_harm) {
  struct harness_random random;
  uint64_t seed = harness_seed_env(1) * 1000 + (uint64_t)_i;
  harness_seed(&random, seed);
  damage_make_tables(db);
  damage_note_rows(db);
  save_database();
  for (int round = 0; round < 60; round++) {
    char *hostile = hostile_statement(&random);
    if (harness_below(&random, 2)) sql_ok(db, "SELECT count(*) FROM t");
    int rc = sqlite3_exec(db, hostile, NULL, NULL, NULL);
    ck_assert_msg(
        rc == SQLITE_OK || (rc & 0xff) == SQLITE_CONSTRAINT || (rc & 0xff) == SQLITE_MISMATCH,
        "%s: %s", hostile, sqlite3_errmsg(db));
    if (harness_below(&random, 2)) reopen();
    use_hostile_table(&random, hostile);
    if (harness_below(&random, 3) == 0) {
      reopen();
      use_hostile_table(&random, hostile);
    }
    rc = sqlite3_exec(db, "DROP TABLE IF EXISTS t; DROP TABLE IF EXISTS t2", NULL, NULL, NULL);
    ck_assert_msg(rc == SQLITE_OK, "seed %llu: DROP after %s: %s", (unsigned long long)seed,
                  hostile, sqlite3_errmsg(db));
    sql_rows(db, "SELECT k, v FROM sound WHERE k IN (1, 2, 3)", "1|a\n2|b");
    restore_database();
    sqlite3_free(hostile);
  }
  damage_none(db);
  free_saved();
}
END_TEST

/* Adds 1 to a byte of a log row's batch; false when it has no such byte. */
static bool change_batch(sqlite3_int64 seq, int offset) {
  sqlite3_blob *blob;
  ck_assert_int_eq(sqlite3_blob_open(db, "main", "t_cflog", "batch", seq, 1, &blob), SQLITE_OK);
  bool there = offset < sqlite3_blob_bytes(blob);
  unsigned char byte;
  if (there) {
    ck_assert_int_eq(sqlite3_blob_read(blob, &byte, 1, offset), SQLITE_OK);
    byte++;
    ck_assert_int_eq(sqlite3_blob_write(blob, &byte, 1, offset), SQLITE_OK);
  }
  sqlite3_blob_close(blob);
  return there;
}

/* A log row's batch is checked as a whole; so no read of the table works. Its first byte is its format's
** version. */
START_TEST(log_batch_with_a_changed_byte_is_an_error) {
  damage_make_tables(db);
  damage_note_rows(db);
  sql_ok(db, "CREATE TABLE kept AS SELECT * FROM t_cflog");
  sqlite3_int64 last = sql_int(db, "SELECT max(seq) FROM kept");
  for (sqlite3_int64 seq = last - 1; seq <= last; seq++) {
    int offset = 0;
    for (; change_batch(seq, offset); offset++) {
      reopen();
      int code = offset ? SQLITE_CORRUPT_VTAB : SQLITE_ERROR;
      ck_assert_int_eq(damage_check(db, code, "log batch", "log batch changed"), DAMAGE_READS);
      damage_others_work(db);
      sql_ok(db, "UPDATE t_cflog SET batch = (SELECT batch FROM kept WHERE seq = t_cflog.seq)");
      reopen();
    }
    ck_assert_int_gt(offset, 10);
  }
  damage_none(db);
}
END_TEST

/* The error names table and shadow table; what it quotes is short and valid UTF-8. */
START_TEST(option_row_with_a_bad_value_is_an_error_in_valid_text) {
  static const char *const bad[][2] = {
      {"'zstd:99'", "table t: t_cfmeta: option compression cannot be 'zstd:99': allowed are none,"},
      {"CAST(x'66f0ff8078' AS TEXT)", "option compression cannot be 'f???x': allowed"},
      {"x'fe'", "option compression cannot be '?': allowed"},
      {"NULL", "option compression cannot be '': allowed"},
      {"replace(hex(zeroblob(40)), '0', 'é')", "ééé': allowed"},
  };
  damage_make_tables(db);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    sql_okf(db, "UPDATE t_cfmeta SET value = %s WHERE name = 'option.compression'", bad[i][0]);
    sql_fails(db, "SELECT * FROM t", SQLITE_CORRUPT_VTAB, bad[i][1]);
    ck_assert_int_lt((int)strlen(sqlite3_errmsg(db)), 300);
    reopen();
    sql_fails(db, "INSERT INTO t VALUES(1, 2)", SQLITE_CORRUPT_VTAB, bad[i][1]);
  }
  damage_others_work(db);
  sql_ok(db, "DROP TABLE t");
}
END_TEST

static Suite *suite(void) {
  Suite *s = suite_create("sql_badshadow");
  TCase *tc = tcase_create("badshadow");
  tcase_add_checked_fixture(tc, open_database, close_database);
  tcase_set_timeout(tc, 60);
  tcase_add_loop_test(tc, shadow_rows_that_are_hostile_do_no_harm, 0, 8);
  tcase_add_test(tc, log_batch_with_a_changed_byte_is_an_error);
  tcase_add_test(tc, option_row_with_a_bad_value_is_an_error_in_valid_text);
  suite_add_tcase(s, tc);
  return s;
}

int main(void) {
  return harness_run(suite());
}
