/* See harness_both.h. */
#include "harness_both.h"

#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

void both_create(sqlite3 *db, const char *columns, const char *suffix, const char *options) {
  sql_okf(db, "CREATE TABLE o(%s)%s", columns, suffix);
  sql_okf(db, "CREATE VIRTUAL TABLE t USING colfam(%s%s)", columns, options);
}

void both_drop(sqlite3 *db) {
  sql_ok(db, "DROP TABLE o; DROP TABLE t");
}

/* The statement for table `name`. */
static char *statement_for(const char *sql, char name) {
  char *text = sqlite3_mprintf("%s", sql);
  for (char *at = text; *at; at++)
    if (*at == '@') *at = name;
  return text;
}

/* The type's first letter, then the bytes, odd ones as \xx. */
static void append_value(sqlite3_str *rows, sqlite3_stmt *stmt, int column) {
  static const char letters[] = {'?', 'i', 'r', 't', 'b', 'n'};
  int type = sqlite3_column_type(stmt, column);
  const unsigned char *bytes = sqlite3_column_blob(stmt, column);
  int size = sqlite3_column_bytes(stmt, column);
  double real = sqlite3_column_double(stmt, column);
  sqlite3_str_appendf(rows, "%s%c:", column ? " | " : "", letters[type]);
  if (type == SQLITE_FLOAT && real == 0) {
    sqlite3_str_appendall(rows, 1 / real < 0 ? "-0.0" : "0.0");
    return;
  }
  for (int i = 0; i < size; i++) {
    bool plain = bytes[i] >= ' ' && bytes[i] < 0x7f && bytes[i] != '\\';
    sqlite3_str_appendf(rows, plain ? "%c" : "\\%02x", bytes[i]);
  }
}

struct answer {
  int rc;
  int changes;
  sqlite3_int64 rowid;
  char *text; /* message and rows */
};

/* A message names the table. */
static void append_message(sqlite3_str *text, const char *message) {
  for (; *message; message++) {
    bool name = message[0] == ' ' && message[1] == 'o' && message[2] == '.';
    sqlite3_str_appendchar(text, 1, *message);
    if (name) sqlite3_str_appendchar(text, 1, 't');
    message += name;
  }
}

static struct answer run(sqlite3 *db, const char *sql, char name) {
  struct answer answer = {.rc = SQLITE_OK};
  sqlite3_str *text = sqlite3_str_new(NULL);
  char *statement = statement_for(sql, name);
  sqlite3_set_last_insert_rowid(db, 7777);
  sqlite3_stmt *stmt = NULL;
  answer.rc = sqlite3_prepare_v2(db, statement, -1, &stmt, NULL);
  while (answer.rc == SQLITE_OK && (answer.rc = sqlite3_step(stmt)) == SQLITE_ROW) {
    answer.rc = SQLITE_OK;
    for (int i = 0; i < sqlite3_column_count(stmt); i++) append_value(text, stmt, i);
    sqlite3_str_appendchar(text, 1, '\n');
  }
  if (answer.rc != SQLITE_DONE) append_message(text, sqlite3_errmsg(db));
  if (answer.rc != SQLITE_DONE) answer.rc = sqlite3_extended_errcode(db);
  sqlite3_finalize(stmt);
  answer.changes = sqlite3_changes(db);
  answer.rowid = sqlite3_last_insert_rowid(db);
  answer.text = sqlite3_str_finish(text);
  if (!answer.text) answer.text = sqlite3_mprintf("");
  sql_settle_order(sql, answer.text);
  sqlite3_free(statement);
  return answer;
}

int both(sqlite3 *db, const char *sql) {
  struct answer o = run(db, sql, 'o'), t = run(db, sql, 't');
  bool same = o.rc == t.rc && o.changes == t.changes && o.rowid == t.rowid;
  ck_assert_msg(same && strcmp(o.text, t.text) == 0,
                "%.500s\n--- colfam: code %d, changes %d, rowid %lld\n%.1500s\n"
                "--- ordinary: code %d, changes %d, rowid %lld\n%.1500s",
                sql, t.rc, t.changes, t.rowid, t.text, o.rc, o.changes, o.rowid, o.text);
  sqlite3_free(o.text);
  sqlite3_free(t.text);
  return o.rc;
}

int bothf(sqlite3 *db, const char *format, ...) {
  va_list args;
  va_start(args, format);
  char *sql = sqlite3_vmprintf(format, args);
  va_end(args);
  int rc = both(db, sql);
  sqlite3_free(sql);
  return rc;
}
