/* See harness_damage.h. */
#include "harness_damage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void damage_make_tables(sqlite3 *db) {
  sql_ok(db,
         "CREATE VIRTUAL TABLE t USING colfam(k INT PRIMARY KEY, v TEXT, block_bytes = 1024);"
         "CREATE VIRTUAL TABLE sound USING colfam(k INT PRIMARY KEY, v TEXT);"
         "WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n LIMIT 150)"
         "INSERT INTO t SELECT i, 'first ' || i FROM n; INSERT INTO t(t) VALUES('flush');"
         "UPDATE t SET v = 'second ' || k WHERE k % 3 = 0; DELETE FROM t WHERE k % 10 = 0;"
         "INSERT INTO t VALUES(200, printf('%.*c', 3000, 'x')); INSERT INTO t(t) VALUES('flush');"
         "INSERT INTO t VALUES(300, 'logged'); UPDATE t SET v = 'logged' WHERE k = 7;"
         "INSERT INTO sound VALUES(1, 'a'), (2, 'b'); INSERT INTO sound(sound) VALUES('flush')");
}

static const char *const reads[] = {
    "SELECT k, v FROM t",
    "SELECT k, v FROM t ORDER BY k DESC",
    "SELECT v FROM t WHERE k = 9",
    "SELECT v FROM t WHERE k = 10",
    "SELECT v FROM t WHERE k = 7",
    "SELECT k, v FROM t WHERE k IN (1, 3, 30, 64, 149, 200, 300, 999)",
    "SELECT count(*) FROM t",
    "SELECT EXISTS (SELECT 1 FROM t WHERE k = 148), EXISTS (SELECT 1 FROM t WHERE k = 1000)",
    "SELECT k FROM t WHERE k BETWEEN 60 AND 75",
    "SELECT min(k), max(k) FROM t",
    "SELECT k, v FROM t WHERE colfam_keys = '[3, 10, 64, 148, 300, 999]'",
    "SELECT count(*), count(v), sum(k) FROM t WHERE k > 0",
};
_Static_assert(sizeof reads / sizeof *reads == DAMAGE_READS, "as the header says");

static char *right_rows[DAMAGE_READS];

static void free_right_rows(void) {
  for (int i = 0; i < DAMAGE_READS; i++) sqlite3_free(right_rows[i]);
}

void damage_note_rows(sqlite3 *db) {
  if (!right_rows[0]) atexit(free_right_rows);
  for (int i = 0; i < DAMAGE_READS; i++) {
    sqlite3_free(right_rows[i]);
    right_rows[i] = sql_query(db, reads[i]);
  }
}

/* The rows as sql_query gives them, or NULL with the extended code. */
static char *try_query(sqlite3 *db, const char *sql, int *rc) {
  sqlite3_stmt *stmt = NULL;
  sqlite3_str *rows = sqlite3_str_new(NULL);
  int count = 0;
  *rc = sqlite3_prepare_v2(db, sql, -1, &stmt, NULL);
  while (*rc == SQLITE_OK && (*rc = sqlite3_step(stmt)) == SQLITE_ROW) {
    for (int i = 0; i < sqlite3_column_count(stmt); i++)
      sqlite3_str_appendf(rows, "%s%s", i ? "|" : count ? "\n" : "", sqlite3_column_text(stmt, i));
    count++;
    *rc = SQLITE_OK;
  }
  sqlite3_finalize(stmt);
  char *text = sqlite3_str_finish(rows);
  if (*rc == SQLITE_DONE) return text ? text : sqlite3_mprintf("");
  sqlite3_free(text);
  return NULL;
}

int damage_check(sqlite3 *db, int code, const char *name, const char *what) {
  int failed = 0;
  for (int i = 0; i < DAMAGE_READS; i++) {
    int rc;
    char *rows = try_query(db, reads[i], &rc);
    if (rows) {
      ck_assert_msg(!strcmp(rows, right_rows[i]), "%s: %s: wrong rows:\n%s", what, reads[i], rows);
    } else {
      const char *message = sqlite3_errmsg(db);
      ck_assert_msg(!code || rc == code, "%s: %s: code %d: %s", what, reads[i], rc, message);
      ck_assert_msg(strstr(message, "table t") && strstr(message, name), "%s: %s", what, message);
      failed++;
    }
    sqlite3_free(rows);
  }
  return failed;
}

void damage_judge(sqlite3 *db, struct damage_verdict *verdict) {
  *verdict = (struct damage_verdict){0};
  for (int i = 0; i < DAMAGE_READS; i++) {
    int rc;
    char *rows = try_query(db, reads[i], &rc);
    if (!rows) {
      verdict->failed++;
      verdict->code = rc;
      if (!verdict->wrong)
        snprintf(verdict->what, sizeof verdict->what, "%s: %s", reads[i], sqlite3_errmsg(db));
    } else if (strcmp(rows, right_rows[i]) == 0) {
      verdict->right++;
    } else if (!verdict->wrong++) {
      snprintf(verdict->what, sizeof verdict->what, "%s: %.300s", reads[i], rows);
    }
    sqlite3_free(rows);
  }
}

void damage_others_work(sqlite3 *db) {
  sql_rows(db, "SELECT k, v FROM sound WHERE k IN (1, 2, 3)", "1|a\n2|b");
  sql_rows(db, "SELECT count(*) FROM sqlite_master WHERE name GLOB 't_cf*'", "3");
  sql_rows(db, "SELECT * FROM colfam_check('sound')", "");
}

void damage_none(sqlite3 *db) {
  ck_assert_int_eq(damage_check(db, 0, "", "restored"), 0);
  sql_rows(db, "SELECT * FROM colfam_check('t')", "");
}

void damage_drop(sqlite3 *db) {
  sql_ok(db, "DROP TABLE t");
  sql_rows(db, "SELECT count(*) FROM sqlite_master WHERE name GLOB 't_cf*'", "0");
  sql_rows(db, "SELECT * FROM colfam_check('sound')", "");
  sql_ok(db, "INSERT INTO sound VALUES(3, 'c'); INSERT INTO sound(sound) VALUES('compact')");
  sql_rows(db, "SELECT count(*) FROM sound", "3");
}
