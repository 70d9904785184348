/* Rows as bytes, against what ordinary tables store: SQL functions of this suite encode their arguments as a
** row and give one column back. Damaged bytes are noticed or decode to something, and never read outside. */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "engine/mem.h"
#include "ext/numeral.h"
#include "ext/row.h"
#include "harness_oom.h"
#include "harness_sql.h"

static struct colfam_schema *make_schema(int count, const char *const *columns) {
  const char *argv[16] = {"colfam", "main", "t"};
  for (int i = 0; i < count; i++) argv[3 + i] = columns[i];
  struct colfam_schema *schema = NULL;
  char *message = NULL;
  int rc = colfam_schema_new(3 + count, argv, &schema, &message);
  ck_assert_msg(rc == SQLITE_OK, "%s", message);
  return schema;
}

/* ---- Functions over the schema in hand */

static struct colfam_schema *current;

static int encode(struct colfam_row *row, sqlite3_value **values) {
  int rc = colfam_row_init(row, current);
  if (rc == SQLITE_OK) rc = colfam_row_set(row, current, values);
  if (rc == SQLITE_OK) rc = colfam_row_encode_key(row, current, 42);
  return rc == SQLITE_OK ? colfam_row_encode_value(row, current) : rc;
}

/* stored(column, c0, c1, ...): the column of the encoded row, from the key alone where that tells it. */
static void stored(sqlite3_context *context, int argc, sqlite3_value **argv) {
  ck_assert_int_eq(argc, 1 + current->column_count);
  struct colfam_row row;
  int column = sqlite3_value_int(argv[0]);
  int rc = encode(&row, argv + 1);
  struct kv_slice key = kv_buf_slice(&row.key), value = kv_buf_slice(&row.value);
  bool told = false;
  if (rc == SQLITE_OK) rc = colfam_row_check(current, key, value);
  if (rc == SQLITE_OK) rc = colfam_row_result_of_key(current, key, column, NULL, context, &told);
  if (rc == SQLITE_OK && !told) rc = colfam_row_result(current, key, value, column, NULL, context);
  if (rc != SQLITE_OK) sqlite3_result_error_code(context, rc);
  colfam_row_release(&row);
}

/* row_bytes(part, c0, ...): key (0) or value (1) as a blob. */
static void row_bytes(sqlite3_context *context, int argc, sqlite3_value **argv) {
  (void)argc;
  struct colfam_row row;
  int rc = encode(&row, argv + 1);
  struct kv_buf *part = sqlite3_value_int(argv[0]) ? &row.value : &row.key;
  if (rc == SQLITE_OK)
    sqlite3_result_blob(context, part->size ? (const char *)part->data : "", (int)part->size,
                        SQLITE_TRANSIENT);
  else
    sqlite3_result_error_code(context, rc);
  colfam_row_release(&row);
}

/* bits(x): type and bits, so that -0.0 is not 0.0. */
static void bits(sqlite3_context *context, int argc, sqlite3_value **argv) {
  (void)argc;
  double real = sqlite3_value_double(argv[0]);
  uint64_t number;
  memcpy(&number, &real, sizeof number);
  char *text =
      sqlite3_value_type(argv[0]) == SQLITE_FLOAT
          ? sqlite3_mprintf("real %llx", number)
          : sqlite3_mprintf("%d %s", sqlite3_value_type(argv[0]), sqlite3_value_text(argv[0]));
  sqlite3_result_text(context, text, -1, sqlite3_free);
}

static sqlite3 *open_plain(void) {
  sqlite3 *db;
  ck_assert_int_eq(sqlite3_open(":memory:", &db), SQLITE_OK);
  sqlite3_create_function(db, "stored", -1, SQLITE_UTF8, NULL, stored, NULL, NULL);
  sqlite3_create_function(db, "row_bytes", -1, SQLITE_UTF8, NULL, row_bytes, NULL, NULL);
  sqlite3_create_function(db, "bits", 1, SQLITE_UTF8, NULL, bits, NULL, NULL);
  return db;
}

static void close_plain(sqlite3 *db) {
  ck_assert_int_eq(sqlite3_close(db), SQLITE_OK);
  colfam_schema_unref(current);
  current = NULL;
}

/* ---- Affinity: every constant through every type, as key and as value */

static const char *const types[] = {"", "BLOB", "TEXT", "INTEGER", "REAL", "NUMERIC"};
enum { TYPES = sizeof types / sizeof *types };

static const char *const constants[] = {
    "NULL",
    "0",
    "1",
    "-1",
    "127",
    "128",
    "-128",
    "-129",
    "32767",
    "32768",
    "-32769",
    "8388607",
    "-8388609",
    "2147483648",
    "-2147483649",
    "140737488355327",
    "140737488355328",
    "-140737488355329",
    "9223372036854775807",
    "-9223372036854775808",
    "9007199254740993",
    "0.0",
    "-0.0",
    "1.0",
    "-1.0",
    "2.5",
    "1e300",
    "-1e-300",
    "9007199254740992.0",
    "9223372036854775807.0",
    "9223372036854774784.0",
    "-9223372036854775808.0",
    "1e999",
    "-1e999",
    "140737488355328.0",
    "1e15",
    "123456789012345678.0",
    "0.1",
    "1.0e-5",
    "''",
    "' '",
    "'abc'",
    "'1'",
    "' 1 '",
    "'1x'",
    "'01'",
    "'+1'",
    "'1e3'",
    "'1E+2'",
    "'1e'",
    "'1.'",
    "'.5'",
    "'.'",
    "'-'",
    "'0x10'",
    "'1_000'",
    "'9223372036854775807'",
    "'9223372036854775808'",
    "'-9223372036854775808'",
    "'1e400'",
    "'123456789012345678901234567890'",
    "'3.0'",
    "'-0'",
    "'-0.0'",
    "'1' || char(0)",
    "'nan'",
    "'inf'",
    "x''",
    "x'31'",
    "x'00ff'",
    "zeroblob(3)",
    "'\xc3\xa4\xf0\x9f\x98\x80'",
    "CAST(x'fffe41' AS TEXT)",
    "'9007199254740993'",
    "'0.1000000000000000055511151231257827'",
};
enum { CONSTANTS = sizeof constants / sizeof *constants };

static void compare_stored(sqlite3 *db, const char *constant, int column, const char *values) {
  char *subject = sqlite3_mprintf("SELECT bits(stored(%d, %s)), typeof(stored(%d, %s))", column,
                                  values, column, values);
  char *ordinary = sqlite3_mprintf("SELECT bits(c), typeof(c) FROM o WHERE c IS NOT 'never'");
  char *a = sql_query(db, subject), *b = sql_query(db, ordinary);
  ck_assert_msg(strcmp(a, b) == 0, "%s: %s, ordinary: %s", constant, a, b);
  sqlite3_free(a);
  sqlite3_free(b);
  sqlite3_free(subject);
  sqlite3_free(ordinary);
}

START_TEST(values_are_stored_as_ordinary_tables_do) {
  sqlite3 *db = open_plain();
  char column[32];
  snprintf(column, sizeof column, "c %s", types[_i]);
  current = make_schema(2, (const char *const[]){"k PRIMARY KEY", column});
  for (int i = 0; i < CONSTANTS; i++) {
    sql_okf(db, "DROP TABLE IF EXISTS o; CREATE TABLE o(c %s); INSERT INTO o VALUES(%s)", types[_i],
            constants[i]);
    char *values = sqlite3_mprintf("'k', %s", constants[i]);
    compare_stored(db, constants[i], 1, values);
    sqlite3_free(values);
  }
  close_plain(db);
}
END_TEST

static const char *const collations[] = {"BINARY", "NOCASE", "RTRIM"};
enum { COLLATIONS = sizeof collations / sizeof *collations };

/* Texts that collations fold. */
static const char *const folded[] = {
    "'ABC'",
    "'aBc'",
    "'Z[a]'",
    "'A' || char(0)",
    "'A' || char(0) || 'bC'",
    "'abc  '",
    "' AB C '",
    "'\xc3\x84x'",
    "CAST(x'41fffe20' AS TEXT)",
    "char(0) || ' '",
    "'1E5'",
    "'  '",
    "x'4142'",
};
enum { FOLDED = sizeof folded / sizeof *folded };

static void check_stored_key(sqlite3 *db, const char *column, const char *constant) {
  sql_okf(db,
          "DROP TABLE IF EXISTS o; CREATE TABLE o(%s PRIMARY KEY) WITHOUT ROWID;"
          "INSERT INTO o VALUES(%s)",
          column, constant);
  char *values = sqlite3_mprintf("%s, 'V'", constant);
  compare_stored(db, constant, 0, values);
  sqlite3_free(values);
}

START_TEST(keys_are_stored_as_ordinary_tables_do) {
  sqlite3 *db = open_plain();
  char column[64];
  snprintf(column, sizeof column, "c %s COLLATE %s", types[_i % TYPES], collations[_i / TYPES]);
  /* Last ascending, last descending, first, behind another that is folded: each has its own bytes. */
  const char *const shapes[][3] = {{column, "v", "PRIMARY KEY(c)"},
                                   {column, "v", "PRIMARY KEY(c DESC)"},
                                   {column, "v", "PRIMARY KEY(c, v)"},
                                   {column, "v COLLATE NOCASE", "PRIMARY KEY(v, c)"}};
  for (size_t shape = 0; shape < sizeof shapes / sizeof *shapes; shape++) {
    current = make_schema(3, shapes[shape]);
    bool is_key = current->key_form != COLFAM_KEY_ROWID;
    for (int i = 1; is_key && i < CONSTANTS; i++) check_stored_key(db, column, constants[i]);
    for (int i = 0; is_key && i < FOLDED; i++) check_stored_key(db, column, folded[i]);
    colfam_schema_unref(current);
  }
  current = NULL;
  close_plain(db);
}
END_TEST

/* Whether the key alone tells the column. */
static void told(sqlite3_context *context, int argc, sqlite3_value **argv) {
  (void)argc;
  struct colfam_row row;
  bool is = false;
  ck_assert_int_eq(encode(&row, argv), SQLITE_OK);
  int rc = colfam_row_result_of_key(current, kv_buf_slice(&row.key), 0, NULL, context, &is);
  ck_assert_int_eq(rc, SQLITE_OK);
  sqlite3_result_int(context, is);
  colfam_row_release(&row);
}

START_TEST(keys_tell_a_text_when_no_other_folds_alike) {
  static const char *const expected[COLLATIONS] = {"1|1|1|1|1|1|1|1", "0|0|1|1|1|1|0|1",
                                                   "0|0|0|0|0|1|0|0"};
  sqlite3 *db = open_plain();
  sqlite3_create_function(db, "told", -1, SQLITE_UTF8, NULL, told, NULL, NULL);
  char column[64];
  snprintf(column, sizeof column, "c COLLATE %s PRIMARY KEY", collations[_i]);
  current = make_schema(1, (const char *const[]){column});
  sql_rows(db,
           "SELECT told('a'), told('Z'), told('12-[\xc3\x84 '), told(''), told('1' || char(0)),"
           " told(x'41'), told('1' || char(0, 0)), told('@`{')",
           expected[_i]);
  close_plain(db);
}
END_TEST

/* ---- The order of keys against SQLite's own functions */

static struct kv_slice random_text(struct harness_random *random, uint8_t *bytes) {
  static const uint8_t alphabet[] = {0,   ' ', ' ', '1', '@', 'A',  'B',  'Z',  '[', '_',
                                     '`', 'a', 'b', 'z', '{', 0x7f, 0xc3, 0x84, 0xff};
  size_t size = harness_below(random, 6);
  for (size_t i = 0; i < size; i++) bytes[i] = alphabet[harness_below(random, sizeof alphabet)];
  return kv_slice_of(bytes, size);
}

static int order_of_keys(struct kv_key_part part, struct kv_slice a, struct kv_slice b) {
  struct kv_datum x = {.type = KV_TEXT, .bytes = a}, y = {.type = KV_TEXT, .bytes = b};
  struct kv_buf left, right;
  kv_buf_init(&left);
  kv_buf_init(&right);
  kv_key_append(&left, part, &x);
  kv_key_append(&right, part, &y);
  int order = kv_slice_compare(kv_buf_slice(&left), kv_buf_slice(&right));
  kv_buf_release(&left);
  kv_buf_release(&right);
  return part.descending ? -order : order;
}

static int sign(int x) {
  return (x > 0) - (x < 0);
}

START_TEST(order_of_folded_keys_is_sqlites) {
  uint64_t seed = harness_seed_env(61);
  struct harness_random random;
  harness_seed(&random, seed);
  sqlite3 *db = open_plain();
  char sql[100];
  snprintf(sql, sizeof sql, "SELECT (?1 > ?2 COLLATE %s) - (?1 < ?2 COLLATE %s)", collations[_i],
           collations[_i]);
  sqlite3_stmt *stmt;
  ck_assert_int_eq(sqlite3_prepare_v2(db, sql, -1, &stmt, NULL), SQLITE_OK);
  for (int round = 0; round < 100000; round++) {
    uint8_t bytes[2][8] = {{0}};
    struct kv_slice a = random_text(&random, bytes[0]), b = random_text(&random, bytes[1]);
    sqlite3_bind_text(stmt, 1, (const char *)a.data, (int)a.size, SQLITE_STATIC);
    sqlite3_bind_text(stmt, 2, (const char *)b.data, (int)b.size, SQLITE_STATIC);
    ck_assert_int_eq(sqlite3_step(stmt), SQLITE_ROW);
    int order = sqlite3_column_int(stmt, 0);
    struct kv_key_part part = {
        .descending = round & 1, .last = round >> 1 & 1, .collation = (kv_collation)_i};
    bool same = sign(order_of_keys(part, a, b)) == order &&
                sign(kv_text_compare(part.collation, a, b)) == order;
    if (!same) ck_abort_msg("seed %llu, round %d", (unsigned long long)seed, round);
    sqlite3_reset(stmt);
  }
  sqlite3_finalize(stmt);
  close_plain(db);
}
END_TEST

/* ---- Layout */

static void check_bytes(sqlite3 *db, const char *arguments, const char *expected) {
  char *sql = sqlite3_mprintf("SELECT row_bytes(1, %s)", arguments);
  sql_rows(db, sql, expected);
  sqlite3_free(sql);
}

START_TEST(layout_of_values) {
  sqlite3 *db = open_plain();
  current = make_schema(3, (const char *const[]){"k PRIMARY KEY", "a", "b"});
  check_bytes(db, "'k', NULL, NULL", "x'040000'");
  check_bytes(db, "'k', 0, 1", "x'040809'");
  check_bytes(db, "'k', 5, -2", "x'04010105fe'");
  check_bytes(db, "'k', 1000, 70000", "x'040203e803701101'");
  check_bytes(db, "'k', 'ab', x'cd'", "x'04110e6162cd'");
  check_bytes(db, "'k', 1.0, ''", "x'04070d000000000000f03f'");
  /* The key's fix-ups: 1.0 and -0.0 where the bytes say 1 and 0. */
  check_bytes(db, "1, NULL, NULL", "x'040000'");
  check_bytes(db, "1.0, NULL, NULL", "x'0501010000'");
  check_bytes(db, "-0.0, NULL, NULL", "x'0501020000'");
  check_bytes(db, "2.5, NULL, NULL", "x'040000'");
  colfam_schema_unref(current);
  current =
      make_schema(6, (const char *const[]){"a", "b", "c", "d", "e", "PRIMARY KEY(a,b,c,d,e)"});
  check_bytes(db, "1, 1, 1, 1, 1", "x'00'");
  check_bytes(db, "1, 1.0, -0.0, 1, 1", "x'010124'");
  check_bytes(db, "1, 1, 1, 1, 1.0", "x'01020001'");
  colfam_schema_unref(current);
  /* Texts that the key folds are behind the values. */
  current = make_schema(
      4, (const char *const[]){"a COLLATE NOCASE", "v", "b COLLATE RTRIM", "PRIMARY KEY(a, b)"});
  check_bytes(db, "'ab', 5, 'B'", "x'020105'");
  check_bytes(db, "'aB', 5, 'B'", "x'0501030111056142'");
  check_bytes(db, "'ab', 5, 'B '", "x'05010c0111054220'");
  check_bytes(db, "'A', NULL, ' '", "x'07010f000f0f4120'");
  check_bytes(db, "x'41', NULL, 1.0", "x'03010400'");
  close_plain(db);
}
END_TEST

START_TEST(rowid_tables_have_no_key_columns) {
  sqlite3 *db = open_plain();
  current = make_schema(2, (const char *const[]){"id INTEGER PRIMARY KEY", "v"});
  check_bytes(db, "7, 'x'", "x'020f78'");
  sql_rows(db, "SELECT stored(0, 7, 'x'), stored(1, 7, 'x')", "42|x");
  struct kv_buf key;
  kv_buf_init(&key);
  static const sqlite3_int64 rowids[] = {0, 1, -1, INT64_MAX, INT64_MIN, 9007199254740993};
  for (size_t i = 0; i < sizeof rowids / sizeof *rowids; i++) {
    sqlite3_int64 rowid = 5;
    kv_buf_clear(&key);
    colfam_rowid_key(current, &key, rowids[i]);
    ck_assert_int_eq(colfam_rowid_of_key(current, kv_buf_slice(&key), &rowid), SQLITE_OK);
    ck_assert_int_eq(rowid, rowids[i]);
    ck_assert_int_eq(colfam_rowid_of_key(current, kv_slice_of(key.data, key.size - 1), &rowid),
                     SQLITE_CORRUPT_VTAB);
  }
  ck_assert_int_eq(colfam_rowid_of_key(current,
                                       kv_slice_of("\x30"
                                                   "7",
                                                   2),
                                       &(sqlite3_int64){0}),
                   SQLITE_CORRUPT_VTAB);
  kv_buf_release(&key);
  close_plain(db);
}
END_TEST

START_TEST(null_columns_are_found_in_table_order) {
  struct kv_datum datums[4] = {
      {.type = KV_NULL}, {.type = KV_NULL}, {.type = KV_NULL}, {.type = KV_INTEGER}};
  struct colfam_row row = {.datums = datums};
  struct colfam_schema *schema =
      make_schema(5, (const char *const[]){"a", "b NOT NULL", "c", "d", "PRIMARY KEY(d, c)"});
  ck_assert_int_eq(colfam_row_null_column(&row, schema), 1);
  datums[1].type = KV_BLOB;
  ck_assert_int_eq(colfam_row_null_column(&row, schema), 2);
  datums[2].type = KV_TEXT;
  ck_assert_int_eq(colfam_row_null_column(&row, schema), -1);
  colfam_schema_unref(schema);
  schema = make_schema(2, (const char *const[]){"id INTEGER PRIMARY KEY NOT NULL", "v"});
  ck_assert_int_eq(colfam_row_null_column(&row, schema), -1);
  colfam_schema_unref(schema);
}
END_TEST

START_TEST(keys_over_the_limit_are_too_big) {
  sqlite3 *db = open_plain();
  current = make_schema(1, (const char *const[]){"k PRIMARY KEY"});
  sql_rows(db, "SELECT length(row_bytes(0, zeroblob(65535)))", "65536");
  sql_fails(db, "SELECT row_bytes(0, zeroblob(65536))", SQLITE_TOOBIG, NULL);
  close_plain(db);
}
END_TEST

/* key_capacity(c0, ...): bytes that the key's buffer has grown to, whether or not the key fits. */
static void key_capacity(sqlite3_context *context, int argc, sqlite3_value **argv) {
  (void)argc;
  struct colfam_row row;
  int rc = encode(&row, argv);
  ck_assert(rc == SQLITE_OK || rc == SQLITE_TOOBIG);
  sqlite3_result_int64(context, (sqlite3_int64)row.key.capacity);
  colfam_row_release(&row);
}

START_TEST(keys_far_over_the_limit_are_not_copied) {
  sqlite3 *db = open_plain();
  sqlite3_create_function(db, "key_capacity", -1, SQLITE_UTF8, NULL, key_capacity, NULL, NULL);
  current = make_schema(
      3, (const char *const[]){"a COLLATE NOCASE", "b COLLATE RTRIM", "PRIMARY KEY(a, b DESC)"});
  sql_rows(db,
           "SELECT key_capacity(zeroblob(9000000), 1) < 200000,"
           " key_capacity(printf('%.*c', 9000000, 'A'), 1) < 200000,"
           " key_capacity(1, zeroblob(9000000)) < 200000,"
           " key_capacity(1, 'b' || printf('%*s', 9000000, '')) < 200000",
           "1|1|1|1");
  close_plain(db);
}
END_TEST

/* ---- Damage */

static void read_all(sqlite3_context *context, struct kv_slice key, struct kv_slice value,
                     bool sound) {
  for (int i = 0; i < current->column_count; i++) {
    int rc = colfam_row_result(current, key, value, i, NULL, context);
    ck_assert(rc == SQLITE_OK || rc == SQLITE_CORRUPT_VTAB);
    if (sound) ck_assert_int_eq(rc, SQLITE_OK);
  }
}

/* A copy of exactly this size, so that a sanitizer sees each step too far. */
static void read_exact(sqlite3_context *context, struct kv_slice key, struct kv_slice value) {
  uint8_t *key_copy = sqlite3_malloc64(key.size + 1),
          *value_copy = sqlite3_malloc64(value.size + 1);
  memcpy(key_copy + 1, key.data, key.size);
  memcpy(value_copy + 1, value.data, value.size);
  struct kv_slice k = kv_slice_of(key_copy + 1, key.size),
                  v = kv_slice_of(value_copy + 1, value.size);
  read_all(context, k, v, colfam_row_check(current, k, v) == SQLITE_OK);
  sqlite3_free(key_copy);
  sqlite3_free(value_copy);
}

/* damaged(c0, ...): the row cut at every place and with every bit flipped. */
static void damaged(sqlite3_context *context, int argc, sqlite3_value **argv) {
  (void)argc;
  struct colfam_row row;
  ck_assert_int_eq(encode(&row, argv), SQLITE_OK);
  struct kv_slice key = kv_buf_slice(&row.key), value = kv_buf_slice(&row.value);
  ck_assert_int_eq(colfam_row_check(current, key, value), SQLITE_OK);
  for (size_t size = 0; size < value.size; size++) {
    struct kv_slice cut = kv_slice_of(value.data, size);
    ck_assert_int_eq(colfam_row_check(current, key, cut), SQLITE_CORRUPT_VTAB);
    read_exact(context, key, cut);
  }
  for (size_t size = 0; size < key.size; size++)
    read_exact(context, kv_slice_of(key.data, size), value);
  for (size_t bit = 0; bit < 8 * value.size; bit++) {
    row.value.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
    read_exact(context, key, value);
    row.value.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
  }
  for (size_t bit = 0; bit < 8 * key.size; bit++) {
    row.key.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
    read_exact(context, key, value);
    row.key.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
  }
  colfam_row_release(&row);
  sqlite3_result_int(context, 1);
}

START_TEST(damaged_rows_are_noticed_or_decode) {
  sqlite3 *db = open_plain();
  sqlite3_create_function(db, "damaged", -1, SQLITE_UTF8, NULL, damaged, NULL, NULL);
  current = make_schema(6, (const char *const[]){"a", "b TEXT", "c REAL", "d INTEGER NOT NULL", "e",
                                                 "PRIMARY KEY(a DESC, e)"});
  sql_rows(db, "SELECT damaged(1.0, 'text', 2.5, 300, -0.0)", "1");
  sql_rows(db, "SELECT damaged('a' || char(0) || 'b', NULL, 1, 1, x'00')", "1");
  sql_rows(db, "SELECT damaged(9007199254740993, zeroblob(300), 1, -70000, 'e')", "1");
  colfam_schema_unref(current);
  current = make_schema(2, (const char *const[]){"id INTEGER PRIMARY KEY", "v"});
  sql_rows(db, "SELECT damaged(1, 'text')", "1");
  colfam_schema_unref(current);
  current = make_schema(5, (const char *const[]){"a COLLATE NOCASE", "v", "b COLLATE RTRIM", "c",
                                                 "PRIMARY KEY(b DESC, c, a)"});
  sql_rows(db, "SELECT damaged('aB' || char(0) || 'C', 'v', 'B  ', -0.0)", "1");
  close_plain(db);
}
END_TEST

static void check_not_sound(const char *key, size_t key_size, const char *value,
                            size_t value_size) {
  int rc = colfam_row_check(current, kv_slice_of(key, key_size), kv_slice_of(value, value_size));
  ck_assert_int_eq(rc, SQLITE_CORRUPT_VTAB);
}

START_TEST(rows_of_another_form_are_not_sound) {
  current = make_schema(2, (const char *const[]){"k PRIMARY KEY", "v NOT NULL"});
  check_not_sound("\x30k", 2, "\x02\x00", 2);     /* NULL in v */
  check_not_sound("\x30k", 2, "\x04\x08\x08", 3); /* a column too many */
  check_not_sound("\x30k", 2, "\x00", 1);         /* one too few */
  check_not_sound("\x30k", 2, "\x02\x08\x00", 3); /* a byte left over */
  check_not_sound("\x30k", 2, "\x02\x0a", 2);     /* types that are not used */
  check_not_sound("\x30k", 2, "\x02\x0b", 2);
  check_not_sound("\x10", 1, "\x02\x08", 2);          /* NULL key */
  check_not_sound("\x30k", 2, "\x03\x01\x01\x08", 4); /* a text with a fix-up */
  check_not_sound("\x30k", 2, "\x03\x00\x08", 3);     /* no fix-up announced as one */
  check_not_sound("\x30k", 2, "\x03\x01\x04\x08", 4); /* of a second key column */
  check_not_sound("\x30k", 2, "\x03\x02\x00\x01\x08", 5);
  colfam_schema_unref(current);
  current = make_schema(1, (const char *const[]){"v"});
  check_not_sound("\x30k", 2, "\x02\x08", 2); /* no rowid */
  colfam_schema_unref(current);
  current = make_schema(1, (const char *const[]){"k COLLATE NOCASE PRIMARY KEY"});
  check_not_sound("\x30K", 2, "\x00", 1); /* not folded */
  check_not_sound("\x30k", 2,
                  "\x03\x01\x03\x0f"
                  "X",
                  5); /* the text of another key */
  check_not_sound("\x30k", 2,
                  "\x03\x01\x03\x0f"
                  "k",
                  5); /* a text that is the key's own */
  check_not_sound("\x30k", 2,
                  "\x03\x01\x03\x0e"
                  "K",
                  5);                             /* a blob */
  check_not_sound("\x30k", 2, "\x01\x01\x03", 3); /* no text */
  check_not_sound("\x30k", 2,
                  "\x02\x0f"
                  "K",
                  3); /* a text and no fix-up */
  check_not_sound("\x40k", 2,
                  "\x03\x01\x03\x0f"
                  "K",
                  5); /* for a blob */
  check_not_sound("\x30"
                  "1",
                  2,
                  "\x03\x01\x03\x0f"
                  "1",
                  5);
  colfam_schema_unref(current);
  current = NULL;
}
END_TEST

/* ---- Memory */

START_TEST(every_allocation_fails) {
  static const char *const sql =
      "SELECT stored(0, 'A' || char(0), 12.5, 7), stored(1, 'a', 12.5, 7), row_bytes(1, 1.0, 2, 3)";
  sqlite3 *db = open_plain();
  current =
      make_schema(4, (const char *const[]){"a COLLATE NOCASE", "b TEXT", "c", "PRIMARY KEY(a, b)"});
  for (int heap = 0; heap < 2; heap++) {
    bool failed = true;
    for (int n = 1; failed; n++) {
      int64_t blocks = kv_mem_live_blocks();
      sqlite3_stmt *stmt = NULL;
      ck_assert_int_eq(sqlite3_prepare_v2(db, sql, -1, &stmt, NULL), SQLITE_OK);
      oom_fail_nth((enum oom_heap)heap, n, false);
      int rc = sqlite3_step(stmt);
      failed = oom_stop((enum oom_heap)heap);
      ck_assert_msg(rc == (failed ? SQLITE_NOMEM : SQLITE_ROW) || rc == SQLITE_ROW, "%d: %d", n,
                    rc);
      sqlite3_finalize(stmt);
      ck_assert_int_eq(kv_mem_live_blocks(), blocks);
    }
  }
  close_plain(db);
}
END_TEST

/* ---- Texts that look like numbers */

START_TEST(numerals_are_recognised) {
  static const struct {
    const char *text;
    bool is;
    double number;
  } cases[] = {
      {"1", true, 1},
      {" \t\n\v\f\r+01.50e+1 ", true, 15},
      {"-.5", true, -0.5},
      {"5.", true, 5},
      {"1e3", true, 1000},
      {"1e", true, 1},
      {"12abc", true, 12},
      {"", false, 0},
      {".", false, 0},
      {"-", false, 0},
      {"abc", false, 0},
      {" ", false, 0},
      {"+-1", false, 0},
      {"e5", false, 0},
      {"1e400", true, INFINITY},
      {"-1e400", true, -INFINITY},
      {"1e-400", true, 0},
      {"0e99999999999", true, 0},
      {"9223372036854775807", true, 0x1p63},
      {"1e99999999999999999999", true, INFINITY},
      {"0x10", true, 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    double number = 0;
    bool is = colfam_numeral(kv_slice_of(cases[i].text, strlen(cases[i].text)), &number);
    ck_assert_msg(is == cases[i].is, "%s", cases[i].text);
    if (is && !isinf(cases[i].number))
      ck_assert_msg(fabs(number - cases[i].number) <= fabs(cases[i].number) * 1e-12, "%s: %g",
                    cases[i].text, number);
    if (is && isinf(cases[i].number)) ck_assert_msg(number == cases[i].number, "%s", cases[i].text);
  }
}
END_TEST

/* Whether SQLite takes the text for a number: below the text in a column of a numeric type, or not. */
static bool is_number_to_sqlite(sqlite3_stmt *stmt, const char *text, size_t size) {
  sqlite3_bind_text(stmt, 1, text, (int)size, SQLITE_STATIC);
  ck_assert_int_eq(sqlite3_step(stmt), SQLITE_ROW);
  bool below = sqlite3_column_int(stmt, 0);
  sqlite3_reset(stmt);
  return below;
}

/* All texts of up to six bytes that matter. What a number can begin with is one itself, or with a digit
** more. */
START_TEST(numerals_reach_as_far_as_sqlite_says) {
  static const char letters[] = {' ', '\r', '-', '.', '1', 'E', 'x', '\0'};
  enum { LETTERS = sizeof letters, SIZE_MAX_TRIED = 6 };
  sqlite3 *db = open_plain();
  sqlite3_stmt *stmt;
  ck_assert_int_eq(sqlite3_exec(db, "CREATE TABLE e(n INTEGER); INSERT INTO e VALUES('')", 0, 0, 0),
                   SQLITE_OK);
  ck_assert_int_eq(sqlite3_prepare_v2(db, "SELECT ?1 < n FROM e", -1, &stmt, NULL), SQLITE_OK);
  int texts = 1;
  for (size_t size = 0; size <= SIZE_MAX_TRIED; size++, texts *= LETTERS) {
    for (int code = 0; code < texts; code++) {
      char text[SIZE_MAX_TRIED + 1];
      size_t begins = 0;
      for (size_t i = 0, left = (size_t)code; i < size; i++, left /= LETTERS)
        text[i] = letters[left % LETTERS];
      bool whole, expected = is_number_to_sqlite(stmt, text, size);
      size_t reach = colfam_numeral_reach(kv_slice_of(text, size), &whole);
      bool surely = colfam_is_numeral(kv_slice_of(text, size));
      ck_assert_msg(surely <= expected && expected <= whole, "'%.*s'", (int)size, text);
      ck_assert_msg(surely == whole || memchr(text, 0, size), "'%.*s'", (int)size, text);
      if (whole) continue;
      for (size_t part = size; part > reach || (part == reach && !begins); part--) {
        char last = text[part];
        begins |= is_number_to_sqlite(stmt, text, part);
        text[part] = '1';
        begins |= is_number_to_sqlite(stmt, text, part + 1);
        text[part] = last;
        ck_assert_msg(begins == (part == reach), "'%.*s': %zu", (int)size, text, reach);
        if (!part) break;
      }
    }
  }
  sqlite3_finalize(stmt);
  sqlite3_close(db);
}
END_TEST

/* Against SQLite's own reading of random spellings. */
START_TEST(numerals_are_near_what_sqlite_reads) {
  static const char *const starts[] = {"", " ", "+", "-", "000", "\t-"};
  static const char *const ends[] = {"",      " ", "e5", "E-300",  "e+300",
                                     "e-310", ".", ".0", ".000001"};
  struct harness_random random;
  uint64_t seed = harness_seed_env(5);
  harness_seed(&random, seed);
  sqlite3 *db = open_plain();
  sqlite3_stmt *stmt;
  ck_assert_int_eq(sqlite3_prepare_v2(db, "SELECT CAST(?1 AS REAL)", -1, &stmt, NULL), SQLITE_OK);
  for (int i = 0; i < 20000; i++) {
    char text[400];
    size_t size = (size_t)snprintf(text, sizeof text, "%s", starts[harness_below(&random, 6)]);
    size_t digits = harness_below(&random, 8) ? 1 + harness_below(&random, 25) : 330;
    while (digits--) text[size++] = (char)('0' + harness_below(&random, 10));
    size +=
        (size_t)snprintf(text + size, sizeof text - size, "%s", ends[harness_below(&random, 9)]);
    double number;
    ck_assert(colfam_numeral(kv_slice_of(text, size), &number));
    sqlite3_bind_text(stmt, 1, text, (int)size, SQLITE_STATIC);
    ck_assert_int_eq(sqlite3_step(stmt), SQLITE_ROW);
    double expected = sqlite3_column_double(stmt, 0);
    bool near = number == expected || fabs(number - expected) <= fabs(expected) * 1e-12;
    ck_assert_msg(near, "seed %llu: %s: %.17g, not %.17g", (unsigned long long)seed, text, number,
                  expected);
    sqlite3_reset(stmt);
  }
  sqlite3_finalize(stmt);
  ck_assert_int_eq(sqlite3_close(db), SQLITE_OK);
}
END_TEST

int main(void) {
  oom_install();
  Suite *suite = suite_create("core_row");
  TCase *tcase = tcase_create("row");
  tcase_set_timeout(tcase, 60);
  tcase_add_loop_test(tcase, values_are_stored_as_ordinary_tables_do, 0, TYPES);
  tcase_add_loop_test(tcase, keys_are_stored_as_ordinary_tables_do, 0, TYPES * COLLATIONS);
  tcase_add_loop_test(tcase, keys_tell_a_text_when_no_other_folds_alike, 0, COLLATIONS);
  tcase_add_loop_test(tcase, order_of_folded_keys_is_sqlites, 0, COLLATIONS);
  tcase_add_test(tcase, layout_of_values);
  tcase_add_test(tcase, rowid_tables_have_no_key_columns);
  tcase_add_test(tcase, null_columns_are_found_in_table_order);
  tcase_add_test(tcase, keys_over_the_limit_are_too_big);
  tcase_add_test(tcase, keys_far_over_the_limit_are_not_copied);
  tcase_add_test(tcase, damaged_rows_are_noticed_or_decode);
  tcase_add_test(tcase, rows_of_another_form_are_not_sound);
  tcase_add_test(tcase, every_allocation_fails);
  tcase_add_test(tcase, numerals_are_recognised);
  tcase_add_test(tcase, numerals_are_near_what_sqlite_reads);
  tcase_add_test(tcase, numerals_reach_as_far_as_sqlite_says);
  suite_add_tcase(suite, tcase);
  return harness_run(suite);
}
