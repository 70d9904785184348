/* Keys. Two rows: memcmp order of their keys is SQLite's own order of the rows, and what is decoded is equal
** to what was encoded. Any bytes: what is accepted is the one encoding of what it decodes to. */
#include <string.h>

#include "harness_fuzz.h"

enum { COLUMNS_MAX = 3 };

struct shape {
  struct kv_key_part parts[COLUMNS_MAX];
  int count;
};

static void take_shape(struct fuzz *in, struct shape *shape) {
  memset(shape, 0, sizeof *shape);
  shape->count = 1 + (int)fuzz_below(in, COLUMNS_MAX);
  for (int i = 0; i < shape->count; i++) {
    uint8_t byte = fuzz_byte(in);
    shape->parts[i].descending = byte & 1;
    shape->parts[i].collation = (kv_collation)((byte >> 1) % 3);
    shape->parts[i].last = i == shape->count - 1;
  }
}

/* ---- SQLite's order */

static int ask(sqlite3_stmt *stmt, const struct kv_datum *a, const struct kv_datum *b) {
  fuzz_bind(stmt, 1, a);
  fuzz_bind(stmt, 2, b);
  ck_assert_int_eq(sqlite3_step(stmt), SQLITE_ROW);
  int answer = sqlite3_column_int(stmt, 0);
  sqlite3_reset(stmt);
  return answer;
}

static sqlite3_stmt *comparison(kv_collation collation) {
  static sqlite3 *db;
  static sqlite3_stmt *stmts[3];
  static const char *const names[] = {"BINARY", "NOCASE", "RTRIM"};
  if (stmts[collation]) return stmts[collation];
  if (!db) {
    ck_assert_int_eq(sqlite3_open(":memory:", &db), SQLITE_OK);
    fuzz_close_at_exit(db);
  }
  char *sql = sqlite3_mprintf("SELECT (?1 COLLATE %s > ?2) - (?1 COLLATE %s < ?2)",
                              names[collation], names[collation]);
  ck_assert_int_eq(sqlite3_prepare_v2(db, sql, -1, &stmts[collation], NULL), SQLITE_OK);
  sqlite3_free(sql);
  return stmts[collation];
}

static int compare_values(kv_collation collation, const struct kv_datum *a,
                          const struct kv_datum *b) {
  if (a->type == KV_NULL || b->type == KV_NULL) return (b->type == KV_NULL) - (a->type == KV_NULL);
  return ask(comparison(collation), a, b);
}

static int compare_rows(const struct shape *shape, const struct kv_datum *a,
                        const struct kv_datum *b) {
  for (int i = 0; i < shape->count; i++) {
    int order = compare_values(shape->parts[i].collation, &a[i], &b[i]);
    if (order) return shape->parts[i].descending ? -order : order;
  }
  return 0;
}

/* ---- Two rows */

static void take_row(struct fuzz *in, const struct shape *shape, struct kv_datum *row,
                     struct kv_buf *key) {
  kv_buf_init(key);
  for (int i = 0; i < shape->count; i++) {
    fuzz_datum(in, &row[i]);
    kv_key_append(key, shape->parts[i], &row[i]);
  }
  ck_assert_int_eq(key->status, KV_OK);
}

static void expect_decodes(const struct shape *shape, struct kv_slice key,
                           const struct kv_datum *row) {
  struct kv_buf scratch;
  kv_buf_init(&scratch);
  for (int i = 0; i < shape->count; i++) {
    struct kv_datum datum;
    struct kv_err err;
    kv_buf_clear(&scratch);
    ck_assert_msg(kv_key_decode(&key, shape->parts[i], &scratch, &datum, &err) == KV_OK, "%s",
                  err.text);
    ck_assert_int_eq(compare_values(shape->parts[i].collation, &row[i], &datum), 0);
    if (datum.type == KV_TEXT) ck_assert(kv_text_is_folded(shape->parts[i].collation, datum.bytes));
  }
  ck_assert_uint_eq(key.size, 0);
  kv_buf_release(&scratch);
}

static int sign(int order) {
  return (order > 0) - (order < 0);
}

/* b begins with a part of a if and only if it is between that and its successor. */
static void expect_successor(struct fuzz *in, struct kv_slice a, struct kv_slice b) {
  struct kv_buf end;
  kv_buf_init(&end);
  struct kv_slice prefix = kv_slice_of(a.data, fuzz_below(in, a.size + 1));
  kv_buf_append(&end, prefix.data, prefix.size);
  bool bounded = kv_key_prefix_successor(&end);
  bool within =
      kv_slice_compare(b, prefix) >= 0 && (!bounded || kv_slice_compare(b, kv_buf_slice(&end)) < 0);
  ck_assert_int_eq(within, kv_slice_shared_prefix(prefix, b) == prefix.size);
  kv_buf_release(&end);
}

static void run_rows(struct fuzz *in, const struct shape *shape) {
  struct kv_datum a[COLUMNS_MAX], b[COLUMNS_MAX];
  struct kv_buf key_a, key_b;
  take_row(in, shape, a, &key_a);
  take_row(in, shape, b, &key_b);
  struct kv_slice x = kv_buf_slice(&key_a), y = kv_buf_slice(&key_b);
  ck_assert_int_eq(sign(kv_slice_compare(x, y)), compare_rows(shape, a, b));
  expect_decodes(shape, x, a);
  expect_decodes(shape, y, b);
  expect_successor(in, x, y);
  kv_buf_release(&key_a);
  kv_buf_release(&key_b);
}

/* ---- Any bytes */

static void run_bytes(struct fuzz *in, const struct shape *shape) {
  struct kv_slice key = fuzz_rest(in), rest = key;
  struct kv_buf scratch, again;
  kv_buf_init(&scratch);
  kv_buf_init(&again);
  kv_status status = KV_OK;
  for (int i = 0; i < shape->count && !status; i++) {
    struct kv_datum datum;
    kv_buf_clear(&scratch);
    status = kv_key_decode(&rest, shape->parts[i], &scratch, &datum, NULL);
    if (!status) kv_key_append(&again, shape->parts[i], &datum);
  }
  ck_assert(status == KV_OK || status == KV_CORRUPT);
  if (!status) ck_assert(kv_slice_equal(key, kv_buf_slice(&again)));
  kv_buf_release(&scratch);
  kv_buf_release(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct fuzz in = fuzz_begin(data, size);
  bool bytes = fuzz_byte(&in) & 1;
  struct shape shape;
  take_shape(&in, &shape);
  if (bytes) {
    run_bytes(&in, &shape);
  } else {
    run_rows(&in, &shape);
  }
  return 0;
}

/* ---- Seeds: each kind of value beside each, in shapes of every kind; and their keys */

static void seed_rows(uint8_t shape, const char *a, size_t a_size, const char *b, size_t b_size) {
  struct kv_buf input;
  kv_buf_init(&input);
  kv_buf_append(&input, (const uint8_t[]){0, 1, shape, 0}, 4);
  for (int i = 0; i < 2; i++) {
    kv_buf_append(&input, a, a_size);
    kv_buf_append(&input, b, b_size);
  }
  fuzz_seed(kv_buf_slice(&input));
  kv_buf_release(&input);
}

static void seed_key(uint8_t shape, const struct kv_datum *datum) {
  struct kv_buf input;
  struct kv_key_part part = {.descending = shape & 1,
                             .collation = (kv_collation)((shape >> 1) % 3)};
  kv_buf_init(&input);
  kv_buf_append(&input, (const uint8_t[]){1, 1, shape, shape}, 4);
  kv_key_append(&input, part, datum);
  part.last = true;
  kv_key_append(&input, part, datum);
  fuzz_seed(kv_buf_slice(&input));
  kv_buf_release(&input);
}

void fuzz_seeds(void) {
  static const struct kv_datum data[] = {
      {.type = KV_NULL},
      {.type = KV_INTEGER, .integer = (1LL << 53) + 1},
      {.type = KV_REAL, .real = -0.5},
      {.type = KV_TEXT, .bytes = {(const uint8_t *)"ab\0c", 4}},
      {.type = KV_BLOB, .bytes = {(const uint8_t *)"\0\377", 2}},
  };
  for (uint8_t shape = 0; shape < 6; shape++) {
    seed_rows(shape, "\3\6", 2, "\5\6", 2);
    seed_rows(shape, "\6\3aB ", 5, "\7\1\0", 3);
    for (size_t i = 0; i < sizeof data / sizeof *data; i++) seed_key(shape, &data[i]);
  }
}
