/* See harness_pair.h. A row is encoded column by column as a letter for its type, its size and its bytes;
** reals as their bits, so that -0.0 is not 0.0. */
#include "harness_pair.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness_sql.h"

/* ---- Answers */

static void answer_reset(struct pair_answer *answer) {
  sqlite3_free(answer->message);
  if (answer->rows) sqlite3_free(sqlite3_str_finish(answer->rows));
  free(answer->ends);
  memset(answer, 0, sizeof *answer);
}

static void append_bytes(sqlite3_str *rows, char letter, const void *bytes, int size) {
  sqlite3_str_appendf(rows, "%c%d:", letter, size);
  if (size) sqlite3_str_append(rows, bytes, size);
}

static void append_column(sqlite3_str *rows, sqlite3_stmt *stmt, int column) {
  double real;
  sqlite3_uint64 bits;
  switch (sqlite3_column_type(stmt, column)) {
    case SQLITE_NULL:
      sqlite3_str_appendall(rows, "NULL");
      break;
    case SQLITE_INTEGER:
      sqlite3_str_appendf(rows, "i%lld", sqlite3_column_int64(stmt, column));
      break;
    case SQLITE_FLOAT:
      real = sqlite3_column_double(stmt, column);
      memcpy(&bits, &real, sizeof bits);
      sqlite3_str_appendf(rows, "r%.17g(%016llx)", real, bits);
      break;
    case SQLITE_TEXT:
      append_bytes(rows, 't', sqlite3_column_text(stmt, column),
                   sqlite3_column_bytes(stmt, column));
      break;
    default:
      append_bytes(rows, 'b', sqlite3_column_blob(stmt, column),
                   sqlite3_column_bytes(stmt, column));
  }
  sqlite3_str_appendchar(rows, 1, '|');
}

static void append_row(struct pair_answer *answer, sqlite3_stmt *stmt) {
  for (int i = 0; i < sqlite3_column_count(stmt); i++) append_column(answer->rows, stmt, i);
  if (answer->row_count == answer->row_capacity) {
    answer->row_capacity = answer->row_capacity ? 2 * answer->row_capacity : 64;
    answer->ends = realloc(answer->ends, (size_t)answer->row_capacity * sizeof *answer->ends);
    ck_assert_ptr_nonnull(answer->ends);
  }
  answer->ends[answer->row_count++] = sqlite3_str_length(answer->rows);
}

static int bind(sqlite3 *db, sqlite3_stmt *stmt, const struct random_statement *statement) {
  for (int i = 0; i < statement->binding_count; i++) {
    char *sql = sqlite3_mprintf("SELECT %s", statement->bindings[i]);
    sqlite3_stmt *value = NULL;
    int rc = sqlite3_prepare_v2(db, sql, -1, &value, NULL);
    sqlite3_free(sql);
    if (rc == SQLITE_OK) sqlite3_step(value);
    if (rc == SQLITE_OK) rc = sqlite3_bind_value(stmt, i + 1, sqlite3_column_value(value, 0));
    sqlite3_finalize(value);
    if (rc != SQLITE_OK) return rc;
  }
  return SQLITE_OK;
}

static void answer_run(struct pair_answer *answer, sqlite3 *db,
                       const struct random_statement *statement) {
  answer_reset(answer);
  answer->rows = sqlite3_str_new(NULL);
  sqlite3_stmt *stmt = NULL;
  int rc = sqlite3_prepare_v2(db, statement->sql, -1, &stmt, NULL);
  if (rc == SQLITE_OK) rc = bind(db, stmt, statement);
  while (rc == SQLITE_OK && (rc = sqlite3_step(stmt)) == SQLITE_ROW) {
    append_row(answer, stmt);
    rc = SQLITE_OK;
  }
  answer->rc = rc == SQLITE_DONE ? SQLITE_OK : rc;
  answer->message = sqlite3_mprintf("%s", sqlite3_errmsg(db));
  sqlite3_finalize(stmt);
  answer->changes = statement->counted ? sqlite3_changes(db) : 0;
  answer->rowid = sqlite3_last_insert_rowid(db);
  answer->autocommit = sqlite3_get_autocommit(db);
}

/* ---- Comparing */

struct row {
  const char *bytes;
  int size;
};

static int compare_rows(const void *a, const void *b) {
  const struct row *x = a, *y = b;
  int common = x->size < y->size ? x->size : y->size;
  int order = memcmp(x->bytes, y->bytes, (size_t)common);
  return order ? order : x->size - y->size;
}

static struct row *rows_of(const struct pair_answer *answer, bool in_order) {
  size_t count = (size_t)answer->row_count;
  struct row *rows = malloc((count + 1) * sizeof *rows);
  ck_assert_ptr_nonnull(rows);
  const char *bytes = sqlite3_str_value(answer->rows);
  int begin = 0;
  for (size_t i = 0; i < count; i++) {
    rows[i] = (struct row){bytes + begin, answer->ends[i] - begin};
    begin = answer->ends[i];
  }
  if (!in_order) qsort(rows, count, sizeof *rows, compare_rows);
  return rows;
}

static void append_sample(sqlite3_str *text, const struct row *row) {
  for (int i = 0; i < row->size && i < 200; i++) {
    unsigned char c = (unsigned char)row->bytes[i];
    sqlite3_str_appendf(text, c < 32 || c > 126 ? "\\x%02x" : "%c", c);
  }
  sqlite3_str_appendf(text, row->size > 200 ? "...\n" : "\n");
}

static void append_side(sqlite3_str *text, const char *name, const struct pair_answer *answer,
                        const struct row *rows, int first) {
  sqlite3_str_appendf(text, "  %s: %d rows, code %d (%s), changes %d, last rowid %lld, %s\n", name,
                      answer->row_count, answer->rc, answer->message, answer->changes,
                      answer->rowid, answer->autocommit ? "autocommit" : "in a transaction");
  for (int i = first; i < answer->row_count && i < first + 5; i++) {
    sqlite3_str_appendf(text, "    row %d: ", i);
    append_sample(text, &rows[i]);
  }
}

/* The first row that differs; the number of rows when none does. */
static int first_difference(const struct pair_answer *a, const struct row *x,
                            const struct pair_answer *b, const struct row *y) {
  int i = 0;
  while (i < a->row_count && i < b->row_count && !compare_rows(&x[i], &y[i])) i++;
  return i;
}

static bool same_facts(const struct pair_answer *a, const struct pair_answer *b) {
  return a->rc == b->rc && !strcmp(a->message, b->message) && a->changes == b->changes &&
         a->rowid == b->rowid && a->autocommit == b->autocommit && a->row_count == b->row_count;
}

static bool compare(struct pair *pair, bool in_order, char **difference) {
  const struct pair_answer *a = &pair->answers[0], *b = &pair->answers[1];
  struct row *x = rows_of(a, in_order), *y = rows_of(b, in_order);
  int first = first_difference(a, x, b, y);
  bool same = same_facts(a, b) && first == a->row_count;
  if (!same) {
    sqlite3_str *text = sqlite3_str_new(NULL);
    append_side(text, "ordinary", a, x, first);
    append_side(text, "colfam", b, y, first);
    *difference = sqlite3_str_finish(text);
  }
  free(x);
  free(y);
  return same;
}

/* ---- The pair */

static void configure(sqlite3 *db, const char *journal_mode) {
  sqlite3_extended_result_codes(db, 1);
  sql_okf(db, "PRAGMA synchronous = off; PRAGMA journal_mode = %s", journal_mode);
}

static void open_both(struct pair *pair) {
  ck_assert_int_eq(sqlite3_open(pair->oracle_path, &pair->oracle), SQLITE_OK);
  pair->subject = sql_open(pair->subject_path);
  configure(pair->oracle, pair->journal_mode);
  configure(pair->subject, pair->journal_mode);
}

static void close_both(struct pair *pair) {
  sql_close(pair->oracle);
  sql_close(pair->subject);
}

void pair_open(struct pair *pair, const char *name, const char *journal_mode) {
  memset(pair, 0, sizeof *pair);
  pair->journal_mode = journal_mode;
  snprintf(pair->oracle_path, sizeof pair->oracle_path, "%s/%s-oracle.db", harness_dir(), name);
  snprintf(pair->subject_path, sizeof pair->subject_path, "%s/%s-subject.db", harness_dir(), name);
  open_both(pair);
}

static void remove_database(const char *path) {
  static const char *const endings[] = {"", "-colfam", "-wal", "-shm", "-journal"};
  for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
    char name[4200];
    snprintf(name, sizeof name, "%s%s", path, endings[i]);
    harness_remove_tree(name);
  }
}

void pair_close(struct pair *pair) {
  close_both(pair);
  for (int i = 0; i < 2; i++) answer_reset(&pair->answers[i]);
  remove_database(pair->oracle_path);
  remove_database(pair->subject_path);
}

void pair_ok(struct pair *pair, const char *sql) {
  sql_ok(pair->oracle, sql);
  sql_ok(pair->subject, sql);
}

static bool run_on_subject(struct pair *pair, const struct random_statement *statement,
                           char **difference) {
  struct pair_answer *answer = &pair->answers[1];
  answer_run(answer, pair->subject, statement);
  if (answer->rc == SQLITE_OK && !answer->row_count) return true;
  struct row *rows = rows_of(answer, true);
  sqlite3_str *text = sqlite3_str_new(NULL);
  append_side(text, "colfam", answer, rows, 0);
  *difference = sqlite3_str_finish(text);
  free(rows);
  return false;
}

bool pair_run(struct pair *pair, const struct random_statement *statement, char **difference) {
  *difference = NULL;
  if (statement->subject_only) return run_on_subject(pair, statement, difference);
  if (statement->reopen) {
    close_both(pair);
    open_both(pair);
    return true;
  }
  answer_run(&pair->answers[0], pair->oracle, statement);
  answer_run(&pair->answers[1], pair->subject, statement);
  pair->constraint_errors += pair->answers[0].rc != SQLITE_OK;
  return compare(pair, statement->in_order, difference);
}
