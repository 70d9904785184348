/* Keys as text, decoded column by column over the schema's key. What key bytes lose (integer or real) shows
** in its plainest form: 1 for 1.0. Literals can be typed back: text with a NUL byte is written as a cast
** blob. Thread rule: the connection's. */
#include "key_text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void append_hex(sqlite3_str *text, struct kv_slice bytes) {
  static const char digits[] = "0123456789ABCDEF";
  sqlite3_str_appendall(text, "x'");
  for (size_t i = 0; i < bytes.size; i++) {
    sqlite3_str_appendchar(text, 1, digits[bytes.data[i] >> 4]);
    sqlite3_str_appendchar(text, 1, digits[bytes.data[i] & 15]);
  }
  sqlite3_str_appendall(text, "'");
}

static void append_text(sqlite3_str *text, struct kv_slice bytes) {
  if (bytes.size && memchr(bytes.data, 0, bytes.size)) {
    sqlite3_str_appendall(text, "CAST(");
    append_hex(text, bytes);
    sqlite3_str_appendall(text, " AS TEXT)");
    return;
  }
  sqlite3_str_appendchar(text, 1, '\'');
  for (size_t i = 0; i < bytes.size; i++) {
    if (bytes.data[i] == '\'') sqlite3_str_appendchar(text, 1, '\'');
    sqlite3_str_appendchar(text, 1, (char)bytes.data[i]);
  }
  sqlite3_str_appendchar(text, 1, '\'');
}

/* 15 digits when they say it all, else 20. */
static void append_real(sqlite3_str *text, double value) {
  char digits[64];
  if (isinf(value)) {
    sqlite3_str_appendall(text, value < 0 ? "-9.0e+999" : "9.0e+999");
    return;
  }
  sqlite3_snprintf(sizeof digits, digits, "%!.15g", value);
  if (strtod(digits, NULL) != value) sqlite3_snprintf(sizeof digits, digits, "%!.20e", value);
  sqlite3_str_appendall(text, digits);
}

static void append_datum(sqlite3_str *text, const struct kv_datum *datum) {
  switch (datum->type) {
    case KV_NULL:
      sqlite3_str_appendall(text, "NULL");
      break;
    case KV_INTEGER:
      sqlite3_str_appendf(text, "%lld", (sqlite3_int64)datum->integer);
      break;
    case KV_REAL:
      append_real(text, datum->real);
      break;
    case KV_TEXT:
      append_text(text, datum->bytes);
      break;
    case KV_BLOB:
      append_hex(text, datum->bytes);
      break;
  }
}

/* Decodes all columns, with nothing after them, and appends them to `text` unless it is NULL. */
static kv_status walk_columns(sqlite3_str *text, const struct colfam_schema *schema,
                              struct kv_slice key, struct kv_buf *scratch) {
  int count = schema->key_form == COLFAM_KEY_ROWID ? 1 : schema->key_count;
  for (int i = 0; i < count; i++) {
    struct kv_datum datum;
    kv_buf_clear(scratch);
    kv_status status =
        kv_key_decode(&key, colfam_schema_key_part(schema, i), scratch, &datum, NULL);
    if (status != KV_OK) return status;
    if (!text) continue;
    if (i) sqlite3_str_appendall(text, ", ");
    if (schema->encoder && datum.type >= KV_TEXT) datum.type = KV_BLOB; /* a sort key */
    append_datum(text, &datum);
  }
  return key.size ? KV_CORRUPT : KV_OK;
}

int colfam_key_text(const struct colfam_schema *schema, struct kv_slice key, sqlite3_str *text) {
  struct kv_buf scratch;
  kv_buf_init(&scratch);
  kv_status status = walk_columns(NULL, schema, key, &scratch);
  if (status == KV_OK) {
    status = walk_columns(text, schema, key, &scratch);
  } else if (status != KV_NOMEM) {
    sqlite3_str_appendall(text, "damaged key ");
    append_hex(text, key);
    status = KV_OK;
  }
  kv_buf_release(&scratch);
  return status == KV_OK ? sqlite3_str_errcode(text) : SQLITE_NOMEM;
}
