/* See harness_answer.h. A row is encoded column by column as a letter for its type, its size and its bytes;
** reals as their bits, so that -0.0 is not 0.0. */
#include "harness_answer.h"

#include <stdlib.h>
#include <string.h>

#include "harness.h"

/* ---- Rows */

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

static void append_row(struct answer *answer, sqlite3_stmt *stmt) {
  for (int i = 0; i < sqlite3_column_count(stmt); i++) append_column(answer->rows, stmt, i);
  if (answer->row_count == answer->row_capacity) {
    answer->row_capacity = answer->row_capacity ? 2 * answer->row_capacity : 64;
    answer->ends = realloc(answer->ends, (size_t)answer->row_capacity * sizeof *answer->ends);
    ck_assert_ptr_nonnull(answer->ends);
  }
  answer->ends[answer->row_count++] = sqlite3_str_length(answer->rows);
}

void answer_init(struct answer *answer) {
  memset(answer, 0, sizeof *answer);
  answer->rows = sqlite3_str_new(NULL);
}

void answer_release(struct answer *answer) {
  sqlite3_free(answer->message);
  if (answer->rows) sqlite3_free(sqlite3_str_finish(answer->rows));
  free(answer->ends);
  memset(answer, 0, sizeof *answer);
}

bool answer_step(struct answer *answer, sqlite3_stmt *stmt, int rows) {
  int rc = SQLITE_ROW;
  for (int i = 0; i < rows && (rc = sqlite3_step(stmt)) == SQLITE_ROW; i++)
    append_row(answer, stmt);
  if (rc == SQLITE_ROW) return true;
  answer_end(answer, sqlite3_db_handle(stmt), rc);
  return false;
}

void answer_end(struct answer *answer, sqlite3 *db, int rc) {
  answer->rc = rc == SQLITE_DONE ? SQLITE_OK : rc;
  answer->message = sqlite3_mprintf("%s", answer->rc ? sqlite3_errmsg(db) : "done");
  answer->changes = sqlite3_changes(db);
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

static struct row *rows_of(const struct answer *answer, bool in_order) {
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

static void append_side(sqlite3_str *text, const char *name, const struct answer *answer,
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
static int first_difference(const struct answer *a, const struct row *x, const struct answer *b,
                            const struct row *y) {
  int i = 0;
  while (i < a->row_count && i < b->row_count && !compare_rows(&x[i], &y[i])) i++;
  return i;
}

static bool same_facts(const struct answer *a, const struct answer *b, bool counted) {
  return a->rc == b->rc && !strcmp(a->message, b->message) &&
         (!counted || a->changes == b->changes) && a->rowid == b->rowid &&
         a->autocommit == b->autocommit && a->row_count == b->row_count;
}

static bool same_rows(const struct row *x, const struct row *y, int count) {
  for (int i = 0; i < count; i++)
    if (compare_rows(&x[i], &y[i])) return false;
  return true;
}

bool answer_same(const struct answer *a, const struct answer *b, bool in_order, bool counted) {
  if (!same_facts(a, b, counted)) return false;
  struct row *x = rows_of(a, in_order), *y = rows_of(b, in_order);
  bool same = same_rows(x, y, a->row_count);
  free(x);
  free(y);
  return same;
}

bool answer_has(const struct answer *all, const struct answer *some, bool in_order) {
  if (some->row_count > all->row_count) return false;
  struct row *x = rows_of(all, in_order), *y = rows_of(some, in_order);
  int at = 0, found = 0;
  while (found < some->row_count && at < all->row_count) {
    if (!compare_rows(&x[at++], &y[found])) {
      found++;
    } else if (in_order) {
      break;
    }
  }
  free(x);
  free(y);
  return found == some->row_count;
}

bool answer_ones(const struct answer *answer) {
  struct row *rows = rows_of(answer, true);
  bool ones = answer->rc == SQLITE_OK;
  for (int i = 0; i < answer->row_count; i++)
    ones = ones && rows[i].size == 3 && !memcmp(rows[i].bytes, "i1|", 3);
  free(rows);
  return ones;
}

char *answer_difference(const char *name, const struct answer *a, const char *other,
                        const struct answer *b, bool in_order) {
  struct row *x = rows_of(a, in_order), *y = rows_of(b, in_order);
  int first = first_difference(a, x, b, y);
  sqlite3_str *text = sqlite3_str_new(NULL);
  append_side(text, name, a, x, first);
  append_side(text, other, b, y, first);
  free(x);
  free(y);
  return sqlite3_str_finish(text);
}
