/* Rows as bytes. Any values into a column of every type, collation and place in the key: what is decoded is
** what an ordinary table of the same columns stores, type and bits. Any bytes: what the check accepts decodes
** in every column, its key is the key of what it decodes to, and key and value agree where the key alone
** tells. */
#include "ext/row.h"

#include <math.h>
#include <string.h>

#include "harness_fuzz.h"

enum { COLUMNS_MAX = 6 };

/* `suffix` makes the ordinary table of the same kind. */
static const struct shape {
  const char *columns[COLUMNS_MAX];
  const char *suffix;
} shapes[] = {
    {{"k PRIMARY KEY", "v"}, "WITHOUT ROWID"},
    {{"k INT PRIMARY KEY", "v TEXT", "w REAL"}, "WITHOUT ROWID"},
    {{"k TEXT PRIMARY KEY", "v INTEGER", "w BLOB"}, "WITHOUT ROWID"},
    {{"k REAL PRIMARY KEY", "v NUMERIC NOT NULL"}, "WITHOUT ROWID"},
    {{"k BLOB PRIMARY KEY"}, "WITHOUT ROWID"},
    {{"k TEXT COLLATE NOCASE PRIMARY KEY", "v"}, "WITHOUT ROWID"},
    {{"k COLLATE RTRIM PRIMARY KEY", "v"}, "WITHOUT ROWID"},
    {{"a", "b COLLATE NOCASE", "c REAL", "v", "PRIMARY KEY(c DESC, a, b)"}, "WITHOUT ROWID"},
    {{"v TEXT", "a NUMERIC", "b", "PRIMARY KEY(b DESC, a DESC)"}, "WITHOUT ROWID"},
    {{"a COLLATE RTRIM", "b COLLATE NOCASE", "v", "PRIMARY KEY(a, b DESC)"}, "WITHOUT ROWID"},
    {{"a", "b", "c", "d", "e", "PRIMARY KEY(e, d, c, b, a)"}, "WITHOUT ROWID"},
    {{"id INTEGER PRIMARY KEY", "v", "w TEXT NOT NULL"}, ""},
    {{"v", "w REAL", "x INT"}, ""},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

/* ---- Per shape: the schema, and statements on an ordinary table */

static struct table {
  struct colfam_schema *schema;
  sqlite3_stmt *insert, *select, *delete, *encode;
} tables[SHAPES];

static sqlite3 *db;
static const struct table *current;
static struct colfam_row encoded; /* by the function encode, of the current table */
static bool is_encoded;

static void encode(sqlite3_context *context, int argc, sqlite3_value **argv) {
  const struct colfam_schema *schema = current->schema;
  ck_assert_int_eq(argc - 1, schema->column_count);
  ck_assert_int_eq(colfam_row_init(&encoded, schema), SQLITE_OK);
  is_encoded = true;
  ck_assert_int_eq(colfam_row_set(&encoded, schema, argv + 1), SQLITE_OK);
  ck_assert_int_eq(colfam_row_encode_key(&encoded, schema, sqlite3_value_int64(argv[0])),
                   SQLITE_OK);
  ck_assert_int_eq(colfam_row_encode_value(&encoded, schema), SQLITE_OK);
  sqlite3_result_int(context, colfam_row_null_column(&encoded, schema));
}

static void drop_encoded(void) {
  if (is_encoded) colfam_row_release(&encoded);
  is_encoded = false;
}

static sqlite3_stmt *prepare(char *sql) {
  sqlite3_stmt *stmt;
  ck_assert_msg(sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) == SQLITE_OK, "%s: %s", sql,
                sqlite3_errmsg(db));
  sqlite3_free(sql);
  return stmt;
}

static void open_database(void) {
  ck_assert_int_eq(sqlite3_open(":memory:", &db), SQLITE_OK);
  fuzz_close_at_exit(db);
  sqlite3_create_function(db, "encode", -1, SQLITE_UTF8, NULL, encode, NULL, NULL);
}

static char *join_columns(const struct shape *shape) {
  sqlite3_str *text = sqlite3_str_new(NULL);
  for (int i = 0; i < COLUMNS_MAX && shape->columns[i]; i++)
    sqlite3_str_appendf(text, "%s%s", i ? ", " : "", shape->columns[i]);
  return sqlite3_str_finish(text);
}

static struct colfam_schema *make_schema(const struct shape *shape) {
  const char *argv[3 + COLUMNS_MAX] = {"colfam", "main", "t"};
  int count = 3;
  for (int i = 0; i < COLUMNS_MAX && shape->columns[i]; i++) argv[count++] = shape->columns[i];
  struct colfam_schema *schema = NULL;
  char *message = NULL;
  int rc = colfam_schema_new(count, argv, &schema, &message);
  ck_assert_msg(rc == SQLITE_OK, "%s", message);
  return schema;
}

static const struct table *table_of(size_t index) {
  struct table *table = &tables[index];
  if (table->schema) return table;
  if (!db) open_database();
  char *columns = join_columns(&shapes[index]);
  char *create =
      sqlite3_mprintf("CREATE TABLE o%d(%s) %s", (int)index, columns, shapes[index].suffix);
  ck_assert_int_eq(sqlite3_exec(db, create, NULL, NULL, NULL), SQLITE_OK);
  sqlite3_free(create);
  sqlite3_free(columns);
  table->schema = make_schema(&shapes[index]);
  static const char marks[] = "?2, ?3, ?4, ?5, ?6";
  int size = 4 * table->schema->column_count - 2;
  table->insert = prepare(sqlite3_mprintf("INSERT INTO o%d VALUES(%.*s)", (int)index, size, marks));
  table->select = prepare(sqlite3_mprintf("SELECT * FROM o%d", (int)index));
  table->delete = prepare(sqlite3_mprintf("DELETE FROM o%d", (int)index));
  table->encode = prepare(sqlite3_mprintf("SELECT encode(?1, %.*s)", size, marks));
  return table;
}

/* ---- Values */

static void bind_row(sqlite3_stmt *stmt, const struct kv_datum *row, int count) {
  sqlite3_reset(stmt);
  for (int i = 0; i < count; i++) fuzz_bind(stmt, i + 2, &row[i]);
}

/* -0.0 is not 0.0. */
static bool same_datum(const struct kv_datum *a, const struct kv_datum *b) {
  return a->type == b->type && a->integer == b->integer && a->real == b->real &&
         signbit(a->real) == signbit(b->real) && kv_slice_equal(a->bytes, b->bytes);
}

/* Every column of the encoded row is the ordinary one's. */
static void expect_stored(const struct table *table) {
  ck_assert_int_eq(sqlite3_step(table->select), SQLITE_ROW);
  struct kv_slice key = kv_buf_slice(&encoded.key), value = kv_buf_slice(&encoded.value);
  ck_assert_int_eq(colfam_row_check(table->schema, key, value), SQLITE_OK);
  for (int i = 0; i < table->schema->column_count; i++) {
    struct kv_datum stored, ordinary;
    struct kv_buf scratch;
    kv_buf_init(&scratch);
    ck_assert_int_eq(colfam_row_datum(table->schema, key, value, i, &scratch, &stored), SQLITE_OK);
    ck_assert_int_eq(colfam_datum(sqlite3_column_value(table->select, i), &ordinary), SQLITE_OK);
    ck_assert_msg(same_datum(&stored, &ordinary), "column %d: type %d, ordinary %d", i, stored.type,
                  ordinary.type);
    kv_buf_release(&scratch);
  }
}

static void run_values(struct fuzz *in, const struct table *table) {
  struct kv_datum row[COLUMNS_MAX];
  int count = table->schema->column_count;
  for (int i = 0; i < count; i++) fuzz_datum(in, &row[i]);
  bind_row(table->insert, row, count);
  int rc = sqlite3_step(table->insert);
  ck_assert(rc == SQLITE_DONE || rc == SQLITE_CONSTRAINT || rc == SQLITE_MISMATCH);
  current = table;
  bind_row(table->encode, row, count);
  sqlite3_bind_int64(table->encode, 1, sqlite3_last_insert_rowid(db));
  ck_assert_int_eq(sqlite3_step(table->encode), SQLITE_ROW);
  int null_column = sqlite3_column_int(table->encode, 0);
  if (rc != SQLITE_MISMATCH) ck_assert_int_eq(null_column >= 0, rc == SQLITE_CONSTRAINT);
  if (rc == SQLITE_DONE) expect_stored(table);
  drop_encoded();
  sqlite3_reset(table->encode);
  sqlite3_reset(table->insert);
  sqlite3_reset(table->select);
  sqlite3_step(table->delete);
  sqlite3_reset(table->delete);
}

/* ---- Any bytes */

struct bytes {
  const struct colfam_schema *schema;
  struct kv_slice key, value;
};

static void expect_accepted(const struct bytes *row) {
  const struct colfam_schema *schema = row->schema;
  struct kv_buf key, scratch;
  kv_buf_init(&key);
  kv_buf_init(&scratch);
  for (int i = 0; i < schema->column_count + schema->key_count; i++) {
    int key_index = i - schema->column_count;
    int column = key_index < 0 ? i : schema->key_columns[key_index];
    struct kv_datum datum;
    kv_buf_clear(&scratch);
    int rc = colfam_row_datum(schema, row->key, row->value, column, &scratch, &datum);
    ck_assert_int_eq(rc, SQLITE_OK);
    if (key_index >= 0) kv_key_append(&key, colfam_schema_key_part(schema, key_index), &datum);
  }
  if (schema->key_form == COLFAM_KEY_ROWID) {
    sqlite3_int64 rowid;
    ck_assert_int_eq(colfam_rowid_of_key(schema, row->key, &rowid), SQLITE_OK);
    colfam_rowid_key(schema, &key, rowid);
  }
  ck_assert(kv_slice_equal(row->key, kv_buf_slice(&key)));
  kv_buf_release(&key);
  kv_buf_release(&scratch);
}

static void run_bytes(struct fuzz *in, const struct table *table) {
  struct bytes row = {.schema = table->schema, .key = fuzz_slice(in), .value = fuzz_rest(in)};
  int checked = colfam_row_check(row.schema, row.key, row.value);
  ck_assert(checked == SQLITE_OK || checked == SQLITE_CORRUPT_VTAB);
  if (checked == SQLITE_OK) expect_accepted(&row);
  for (int i = 0; i < row.schema->column_count; i++) {
    struct kv_datum datum;
    struct kv_buf scratch;
    kv_buf_init(&scratch);
    int rc = colfam_row_datum(row.schema, row.key, row.value, i, &scratch, &datum);
    ck_assert(rc == SQLITE_OK || rc == SQLITE_CORRUPT_VTAB);
    kv_buf_release(&scratch);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct fuzz in = fuzz_begin(data, size);
  bool bytes = fuzz_byte(&in) & 1;
  const struct table *table = table_of(fuzz_below(&in, SHAPES));
  if (bytes) {
    run_bytes(&in, table);
  } else {
    run_values(&in, table);
  }
  return 0;
}

/* ---- Seeds: rows of each shape, and their bytes */

static void seed_bytes(size_t index, const struct kv_datum *row) {
  struct kv_buf input;
  current = table_of(index);
  bind_row(current->encode, row, current->schema->column_count);
  sqlite3_bind_int64(current->encode, 1, 42);
  ck_assert_int_eq(sqlite3_step(current->encode), SQLITE_ROW);
  kv_buf_init(&input);
  kv_buf_append(&input, (const uint8_t[]){1, (uint8_t)index}, 2);
  fuzz_put_slice(&input, encoded.key.data, encoded.key.size);
  kv_buf_append(&input, encoded.value.data, encoded.value.size);
  fuzz_seed(kv_buf_slice(&input));
  kv_buf_release(&input);
  drop_encoded();
  sqlite3_reset(current->encode);
}

void fuzz_seeds(void) {
  static const char numbers[] = "\3\1\5\2\1\7\5\1\3\11",
                    texts[] = "\6\3aB \10\1\7\2\0\1\10\11\6\1A";
  for (size_t i = 0; i < SHAPES; i++) {
    struct kv_buf input;
    kv_buf_init(&input);
    for (int which = 0; which < 2; which++) {
      kv_buf_clear(&input);
      kv_buf_append(&input, (const uint8_t[]){0, (uint8_t)i}, 2);
      kv_buf_append(&input, which ? numbers : texts, (which ? sizeof numbers : sizeof texts) - 1);
      fuzz_seed(kv_buf_slice(&input));
      struct kv_datum row[COLUMNS_MAX];
      struct fuzz in = fuzz_begin(input.data + 2, input.size - 2);
      for (int column = 0; column < COLUMNS_MAX; column++) fuzz_datum(&in, &row[column]);
      seed_bytes(i, row);
    }
    kv_buf_release(&input);
  }
}
