/* See row.h. A row is a key (engine/FORMAT.md, Keys) and a value:
**
**   varint  2 * bytes of the types + (1 when fix-ups follow)
**  [varint  bytes of the fix-ups, then the fix-ups]
**   types   one varint for each value column, in table order, then for each key column with fix-up 3, in
**           key order; as in SQLite's records: 0 NULL, 1 to 6 an integer of 1, 2, 3, 4, 6, 8 bytes,
**           7 a real, 8 the integer 0, 9 the integer 1, 12 + 2n a blob and 13 + 2n a text of n bytes
**   payload the columns' bytes in the same order, little-endian
**
** Fix-ups say what the key lost, two bits for each key column in key order, from the low bits of the first
** byte on, zero bytes at the end left out: 0 as the key decodes, 1 a real although the key decodes to an
** integer, 2 the real -0.0, 3 a text that the key has folded, or a text or blob that has a sort key
** there: it is behind the value columns. So each row has one encoding. A rowid table's rowid is in the key
** only. Any thread. */
#include "row.h"

#include <math.h>
#include <string.h>

enum { FIX_NONE, FIX_REAL, FIX_NEGATIVE_ZERO, FIX_BYTES };
enum { TYPE_NULL = 0, TYPE_INT64 = 6, TYPE_REAL = 7, TYPE_ZERO = 8, TYPE_ONE = 9, TYPE_BYTES = 12 };

static const uint8_t fixed_size[TYPE_BYTES] = {0, 1, 2, 3, 4, 6, 8, 8, 0, 0, 0, 0};

/* ---- From SQL values */

static inline int datum_of_bytes(sqlite3_value *value, kv_type type, struct kv_datum *datum) {
  const void *bytes = type == KV_TEXT ? sqlite3_value_text(value) : sqlite3_value_blob(value);
  size_t size = (size_t)sqlite3_value_bytes(value);
  if (!bytes && (size || type == KV_TEXT)) return SQLITE_NOMEM;
  *datum = (struct kv_datum){.type = type, .bytes = kv_slice_of(bytes, size)};
  return SQLITE_OK;
}

static inline int datum_of_type(sqlite3_value *value, int type, struct kv_datum *datum) {
  switch (type) {
    case SQLITE_INTEGER:
      *datum = (struct kv_datum){.type = KV_INTEGER, .integer = sqlite3_value_int64(value)};
      return SQLITE_OK;
    case SQLITE_FLOAT:
      *datum = (struct kv_datum){.type = KV_REAL, .real = sqlite3_value_double(value)};
      return SQLITE_OK;
    case SQLITE_TEXT:
      return datum_of_bytes(value, KV_TEXT, datum);
    case SQLITE_BLOB:
      return datum_of_bytes(value, KV_BLOB, datum);
    default:
      *datum = (struct kv_datum){.type = KV_NULL};
      return SQLITE_OK;
  }
}

int colfam_datum(sqlite3_value *value, struct kv_datum *datum) {
  return datum_of_type(value, sqlite3_value_type(value), datum);
}

static bool fits_int64(double real) {
  return real >= -0x1p63 && real < 0x1p63 && real == trunc(real);
}

/* SQLite leaves the real -2^63 alone (ticket 3922). */
static void integer_if_equal(struct kv_datum *datum) {
  if (datum->type != KV_REAL || !fits_int64(datum->real) || datum->real == -0x1p63) return;
  *datum = (struct kv_datum){.type = KV_INTEGER, .integer = (int64_t)datum->real};
}

/* A REAL column loses the sign of zero, as SQLite stores its whole numbers as integers. */
static void real_if_number(struct kv_datum *datum) {
  if (datum->type == KV_INTEGER)
    *datum = (struct kv_datum){.type = KV_REAL, .real = (double)datum->integer};
  if (datum->type == KV_REAL && datum->real == 0) datum->real = 0;
}

static inline int datum_of_affinity(sqlite3_value *value, enum colfam_affinity affinity,
                                    struct kv_datum *datum) {
  int type = sqlite3_value_type(value);
  if (type == SQLITE_BLOB) return datum_of_bytes(value, KV_BLOB, datum);
  if (affinity == COLFAM_AFF_TEXT && (type == SQLITE_INTEGER || type == SQLITE_FLOAT))
    return datum_of_bytes(value, KV_TEXT, datum);
  bool numeric = affinity >= COLFAM_AFF_NUMERIC;
  if (numeric && type == SQLITE_TEXT) type = sqlite3_value_numeric_type(value);
  int rc = datum_of_type(value, type, datum);
  if (rc != SQLITE_OK || !numeric) return rc;
  integer_if_equal(datum);
  if (affinity == COLFAM_AFF_REAL) real_if_number(datum);
  return SQLITE_OK;
}

int colfam_datum_stored(sqlite3_value *value, enum colfam_affinity affinity,
                        struct kv_datum *datum) {
  return datum_of_affinity(value, affinity, datum);
}

int colfam_row_init(struct colfam_row *row, const struct colfam_schema *schema) {
  memset(row, 0, sizeof *row);
  kv_buf_init(&row->key);
  kv_buf_init(&row->value);
  size_t stored_max = (size_t)schema->column_count + (size_t)schema->key_count;
  row->datums = sqlite3_malloc64(sizeof *row->datums * (size_t)schema->column_count);
  row->stored = sqlite3_malloc64(sizeof *row->stored * stored_max);
  return row->datums && row->stored ? SQLITE_OK : SQLITE_NOMEM;
}

void colfam_row_release(struct colfam_row *row) {
  sqlite3_free(row->datums);
  sqlite3_free(row->stored);
  kv_buf_release(&row->key);
  kv_buf_release(&row->value);
  row->datums = NULL;
  row->stored = NULL;
}

int colfam_row_set(struct colfam_row *row, const struct colfam_schema *schema,
                   sqlite3_value **values) {
  int rc = SQLITE_OK;
  for (int i = 0; i < schema->column_count && rc == SQLITE_OK; i++) {
    rc = i == schema->rowid_column
             ? colfam_datum(values[i], &row->datums[i])
             : datum_of_affinity(values[i], schema->columns[i].affinity, &row->datums[i]);
  }
  return rc;
}

int colfam_row_null_column(const struct colfam_row *row, const struct colfam_schema *schema) {
  for (int i = 0; i < schema->column_count; i++) {
    bool may_be_null = !schema->columns[i].not_null || i == schema->rowid_column;
    if (!may_be_null && row->datums[i].type == KV_NULL) return i;
  }
  return -1;
}

/* ---- To bytes */

void colfam_rowid_key(const struct colfam_schema *schema, struct kv_buf *key, sqlite3_int64 rowid) {
  struct kv_datum datum = {.type = KV_INTEGER, .integer = rowid};
  kv_key_append(key, colfam_schema_key_part(schema, 0), &datum);
}

/* Told before the bytes are copied; spaces that RTRIM drops do not count. */
static bool is_too_long(struct kv_key_part part, const struct kv_datum *datum) {
  bool trimmed = datum->type == KV_TEXT && part.collation == KV_RTRIM;
  return datum->bytes.size > KV_KEY_BYTES_MAX && !trimmed;
}

int colfam_row_encode_key(struct colfam_row *row, const struct colfam_schema *schema,
                          sqlite3_int64 rowid) {
  kv_buf_clear(&row->key);
  if (schema->key_form == COLFAM_KEY_ROWID) colfam_rowid_key(schema, &row->key, rowid);
  for (int i = 0; i < schema->key_count; i++) {
    struct kv_key_part part = colfam_schema_key_part(schema, i);
    const struct kv_datum *datum = &row->datums[schema->key_columns[i]];
    if (is_too_long(part, datum)) return SQLITE_TOOBIG;
    kv_key_append(&row->key, part, datum);
    if (row->key.size > KV_KEY_BYTES_MAX) return SQLITE_TOOBIG;
  }
  return row->key.status == KV_OK ? SQLITE_OK : SQLITE_NOMEM;
}

/* Whether the key has a sort key in the value's place. */
static bool is_encoded(const struct colfam_schema *schema, const struct kv_datum *datum) {
  return schema->encoder && datum->type >= KV_TEXT;
}

/* Whether a key column can need a fix-up when its bytes decode to this. */
static bool can_be_fixed(const struct colfam_schema *schema, const struct colfam_column *column,
                         const struct kv_datum *decoded) {
  if (is_encoded(schema, decoded)) return true;
  if (decoded->type == KV_TEXT) return kv_text_is_ambiguous(column->key_collation, decoded->bytes);
  if (decoded->type != KV_INTEGER) return false;
  if (column->affinity == COLFAM_AFF_BLOB) return true;
  bool whole = column->affinity == COLFAM_AFF_INTEGER || column->affinity == COLFAM_AFF_NUMERIC;
  return whole && decoded->integer == INT64_MIN;
}

static inline int fix_of(const struct colfam_schema *schema, const struct colfam_column *column,
                         const struct kv_datum *datum) {
  if (is_encoded(schema, datum)) return FIX_BYTES;
  if (datum->type == KV_TEXT)
    return kv_text_is_folded(column->key_collation, datum->bytes) ? FIX_NONE : FIX_BYTES;
  if (column->affinity == COLFAM_AFF_REAL || datum->type != KV_REAL || !fits_int64(datum->real))
    return FIX_NONE;
  return datum->real == 0 && signbit(datum->real) ? FIX_NEGATIVE_ZERO : FIX_REAL;
}

static int fix_of_key_column(const struct colfam_row *row, const struct colfam_schema *schema,
                             int i) {
  int column = schema->key_columns[i];
  return fix_of(schema, &schema->columns[column], &row->datums[column]);
}

static size_t put_fixes(uint8_t *into, const struct colfam_row *row,
                        const struct colfam_schema *schema, size_t size) {
  size_t start = kv_put_varint(into, size);
  uint8_t *fixes = into + start;
  memset(fixes, 0, size);
  for (int i = 0; i < schema->key_count && (size_t)i / 4 < size; i++)
    fixes[i / 4] |= (uint8_t)(fix_of_key_column(row, schema, i) << (i % 4 * 2));
  return start + size;
}

static uint64_t type_of_integer(int64_t value) {
  if (value == 0 || value == 1) return value ? TYPE_ONE : TYPE_ZERO;
  for (uint64_t type = 1; type < TYPE_INT64; type++) {
    int64_t limit = (int64_t)1 << (8 * fixed_size[type] - 1);
    if (value >= -limit && value < limit) return type;
  }
  return TYPE_INT64;
}

static uint64_t type_of(const struct kv_datum *datum) {
  switch (datum->type) {
    case KV_NULL:
      return TYPE_NULL;
    case KV_INTEGER:
      return type_of_integer(datum->integer);
    case KV_REAL:
      return TYPE_REAL;
    case KV_TEXT:
      return TYPE_BYTES + 1 + 2 * (uint64_t)datum->bytes.size;
    case KV_BLOB:
      return TYPE_BYTES + 2 * (uint64_t)datum->bytes.size;
  }
  return TYPE_NULL;
}

static inline uint64_t payload_size(uint64_t type) {
  return type < TYPE_BYTES ? fixed_size[type] : (type - TYPE_BYTES) / 2;
}

static size_t put_payload(uint8_t *into, const struct colfam_stored *stored) {
  const struct kv_datum *datum = stored->datum;
  size_t size = payload_size(stored->type);
  uint64_t number = (uint64_t)datum->integer;
  uint8_t bytes[8];
  if (stored->type >= TYPE_BYTES) {
    if (size) memcpy(into, datum->bytes.data, size);
    return size;
  }
  if (stored->type == TYPE_REAL) memcpy(&number, &datum->real, sizeof number);
  kv_put_u64(bytes, number);
  memcpy(into, bytes, size);
  return size;
}

/* Bytes of a value's parts, and how many columns have a type and a payload. */
struct extent {
  int count;
  size_t fixes;
  size_t types;
  size_t payload;
};

static inline void store(struct colfam_row *row, const struct kv_datum *datum,
                         struct extent *extent) {
  uint64_t type = type_of(datum);
  row->stored[extent->count++] = (struct colfam_stored){datum, type};
  extent->types += kv_varint_size(type);
  extent->payload += payload_size(type);
}

/* Fix-ups reach to the last key column that has one. */
static inline struct extent measure(struct colfam_row *row, const struct colfam_schema *schema) {
  struct extent extent = {0};
  for (int i = 0; i < schema->column_count; i++)
    if (schema->columns[i].value_index >= 0) store(row, &row->datums[i], &extent);
  for (int i = 0; i < schema->key_count; i++) {
    int fix = fix_of_key_column(row, schema, i);
    if (fix) extent.fixes = (size_t)i / 4 + 1;
    if (fix == FIX_BYTES) store(row, &row->datums[schema->key_columns[i]], &extent);
  }
  return extent;
}

int colfam_row_encode_value(struct colfam_row *row, const struct colfam_schema *schema) {
  struct extent extent = measure(row, schema);
  uint64_t header = 2 * (uint64_t)extent.types + (extent.fixes != 0);
  size_t before = kv_varint_size(header);
  if (extent.fixes) before += kv_varint_size(extent.fixes) + extent.fixes;
  kv_buf_clear(&row->value);
  uint8_t *types = kv_buf_extend(&row->value, before + extent.types + extent.payload);
  if (!types) return SQLITE_NOMEM;
  types += kv_put_varint(types, header);
  if (extent.fixes) types += put_fixes(types, row, schema, extent.fixes);
  uint8_t *payload = types + extent.types;
  for (int i = 0; i < extent.count; i++) {
    types += kv_put_varint(types, row->stored[i].type);
    payload += put_payload(payload, &row->stored[i]);
  }
  return SQLITE_OK;
}

/* ---- From bytes */

/* A value's parts, borrowed. */
struct parts {
  struct kv_slice fixes;
  struct kv_slice types;
  struct kv_slice payload;
};

static inline bool split_value(struct kv_slice value, struct parts *parts) {
  struct kv_reader reader;
  kv_reader_init(&reader, value);
  uint64_t header = kv_reader_varint(&reader);
  bool fixed = header & 1;
  parts->fixes = fixed ? kv_reader_slice(&reader) : kv_slice_of(NULL, 0);
  if (reader.failed || header >> 1 > kv_reader_left(&reader)) return false;
  parts->types = kv_slice_of(reader.pos, (size_t)(header >> 1));
  reader.pos += parts->types.size;
  parts->payload = kv_slice_of(reader.pos, kv_reader_left(&reader));
  return fixed == (parts->fixes.size != 0);
}

/* Walks a value's columns in order. */
struct column_reader {
  struct kv_reader types;
  struct kv_reader payload;
  uint64_t type; /* of the current column */
  struct kv_slice bytes;
};

static inline void read_columns(struct column_reader *reader, const struct parts *parts) {
  kv_reader_init(&reader->types, parts->types);
  kv_reader_init(&reader->payload, parts->payload);
}

static inline bool next_column(struct column_reader *reader) {
  uint64_t type = kv_reader_varint(&reader->types);
  if (reader->types.failed || type == TYPE_BYTES - 2 || type == TYPE_BYTES - 1) return false;
  reader->type = type;
  reader->bytes = kv_reader_bytes(&reader->payload, payload_size(type));
  return !reader->payload.failed;
}

static int64_t integer_of_bytes(struct kv_slice bytes) {
  uint8_t wide[8];
  bool negative = bytes.data[bytes.size - 1] & 0x80;
  memset(wide, negative ? 0xff : 0, sizeof wide);
  memcpy(wide, bytes.data, bytes.size);
  return (int64_t)kv_get_u64(wide);
}

static inline struct kv_datum datum_of_column(const struct column_reader *reader) {
  uint64_t type = reader->type;
  struct kv_datum datum = {.type = KV_NULL};
  if (type == TYPE_NULL) return datum;
  if (type >= TYPE_BYTES) {
    datum.type = type & 1 ? KV_TEXT : KV_BLOB;
    datum.bytes = reader->bytes;
  } else if (type == TYPE_REAL) {
    uint64_t bits = kv_get_u64(reader->bytes.data);
    datum.type = KV_REAL;
    memcpy(&datum.real, &bits, sizeof bits);
  } else {
    datum.type = KV_INTEGER;
    datum.integer = type >= TYPE_ZERO ? (int64_t)type - TYPE_ZERO : integer_of_bytes(reader->bytes);
  }
  return datum;
}

/* The datum of a type by its number. */
static inline bool stored_datum(const struct parts *parts, int index, struct kv_datum *datum) {
  struct column_reader reader;
  read_columns(&reader, parts);
  for (int i = 0; i <= index; i++)
    if (!next_column(&reader)) return false;
  *datum = datum_of_column(&reader);
  return true;
}

static inline bool value_datum(struct kv_slice value, int index, struct kv_datum *datum) {
  struct parts parts;
  return split_value(value, &parts) && stored_datum(&parts, index, datum);
}

static bool is_kept(const struct colfam_schema *schema, sqlite3_value **values, int column) {
  return schema->columns[column].value_index >= 0 && sqlite3_value_nochange(values[column]);
}

bool colfam_row_is_partial(const struct colfam_schema *schema, sqlite3_value **values) {
  for (int i = 0; i < schema->column_count; i++)
    if (is_kept(schema, values, i)) return true;
  return false;
}

int colfam_row_complete(struct colfam_row *row, const struct colfam_schema *schema,
                        sqlite3_value **values, struct kv_slice old_value) {
  struct parts parts;
  struct column_reader reader;
  if (!split_value(old_value, &parts)) return SQLITE_CORRUPT_VTAB;
  read_columns(&reader, &parts);
  for (int i = 0; i < schema->column_count; i++) {
    if (schema->columns[i].value_index < 0) continue;
    if (!next_column(&reader)) return SQLITE_CORRUPT_VTAB;
    if (is_kept(schema, values, i)) row->datums[i] = datum_of_column(&reader);
  }
  return SQLITE_OK;
}

static int fix_at(struct kv_slice fixes, int key_index) {
  size_t byte = (size_t)key_index / 4;
  return byte < fixes.size ? fixes.data[byte] >> (key_index % 4 * 2) & 3 : FIX_NONE;
}

static bool read_kept_bytes(const struct colfam_schema *schema, const struct parts *parts,
                            int key_index, struct kv_datum *datum) {
  int index = schema->value_count;
  for (int i = 0; i < key_index; i++) index += fix_at(parts->fixes, i) == FIX_BYTES;
  kv_type type = datum->type;
  return stored_datum(parts, index, datum) && datum->type == type;
}

/* Makes of what a key column decodes to what was stored. */
static bool apply_fix(const struct colfam_schema *schema, const struct parts *parts, int key_index,
                      struct kv_datum *datum) {
  switch (fix_at(parts->fixes, key_index)) {
    case FIX_REAL:
      if (datum->type != KV_INTEGER) return false;
      *datum = (struct kv_datum){.type = KV_REAL, .real = (double)datum->integer};
      return true;
    case FIX_NEGATIVE_ZERO:
      if (datum->type != KV_INTEGER || datum->integer) return false;
      *datum = (struct kv_datum){.type = KV_REAL, .real = -0.0};
      return true;
    case FIX_BYTES:
      return datum->type >= KV_TEXT && read_kept_bytes(schema, parts, key_index, datum);
    default:
      return !is_encoded(schema, datum);
  }
}

static kv_status key_datum(const struct colfam_schema *schema, struct kv_slice key, int key_index,
                           struct kv_buf *scratch, struct kv_datum *datum) {
  kv_status status = KV_OK;
  for (int i = 0; i <= key_index && status == KV_OK; i++) {
    kv_buf_clear(scratch);
    status = kv_key_decode(&key, colfam_schema_key_part(schema, i), scratch, datum, NULL);
  }
  return status;
}

int colfam_rowid_of_key(const struct colfam_schema *schema, struct kv_slice key,
                        sqlite3_int64 *rowid) {
  struct kv_datum datum;
  struct kv_buf scratch;
  kv_buf_init(&scratch);
  kv_status status = kv_key_decode(&key, colfam_schema_key_part(schema, 0), &scratch, &datum, NULL);
  kv_buf_release(&scratch);
  if (status != KV_OK || datum.type != KV_INTEGER) return SQLITE_CORRUPT_VTAB;
  *rowid = datum.integer;
  return SQLITE_OK;
}

/* ---- Without the value columns */

static size_t count_texts(struct kv_slice fixes) {
  size_t count = 0;
  for (size_t i = 0; i < fixes.size * 4; i++) count += fix_at(fixes, (int)i) == FIX_BYTES;
  return count;
}

static size_t count_columns(const struct parts *parts) {
  struct column_reader reader;
  size_t count = 0;
  read_columns(&reader, parts);
  while (kv_reader_left(&reader.types) && next_column(&reader)) count++;
  return count;
}

/* The texts of key columns stand last, behind `values` value columns. Without texts there are no types. */
static bool append_head(struct kv_buf *head, const struct parts *parts, size_t values,
                        bool has_texts) {
  struct column_reader reader;
  read_columns(&reader, parts);
  for (size_t i = 0; i < values; i++)
    if (!next_column(&reader)) return false;
  if (!has_texts) values = 0;
  struct kv_slice types = kv_reader_bytes(&reader.types, kv_reader_left(&reader.types));
  struct kv_slice payload = kv_reader_bytes(&reader.payload, kv_reader_left(&reader.payload));
  bool fixed = parts->fixes.size != 0;
  kv_buf_append_varint(head, 2 * (values + types.size) + fixed);
  if (fixed) kv_buf_append_slice(head, parts->fixes);
  uint8_t *nulls = kv_buf_extend(head, values);
  if (nulls && values) memset(nulls, TYPE_NULL, values);
  if (types.size) kv_buf_append(head, types.data, types.size);
  if (payload.size) kv_buf_append(head, payload.data, payload.size);
  return true;
}

bool colfam_row_head(struct kv_slice value, struct kv_buf *head) {
  struct parts parts;
  if (!split_value(value, &parts)) return false;
  size_t texts = count_texts(parts.fixes), columns = count_columns(&parts);
  if (columns < texts) return false;
  return append_head(head, &parts, columns - texts, texts != 0);
}

/* ---- To SQL values */

static void set_bytes(const struct kv_datum *datum, const void *bytes, sqlite3_destructor_type back,
                      sqlite3_context *context) {
  if (datum->type == KV_TEXT)
    sqlite3_result_text64(context, bytes, datum->bytes.size, back, SQLITE_UTF8);
  else
    sqlite3_result_blob64(context, bytes, datum->bytes.size, back);
}

void colfam_row_result_bytes(const struct kv_datum *datum, struct colfam_lender *lender,
                             sqlite3_context *context) {
  size_t size = datum->bytes.size;
  uint8_t *lent = lender && size ? colfam_lend(lender, size) : NULL;
  if (lent)
    set_bytes(datum, memcpy(lent, datum->bytes.data, size), colfam_lent_back, context);
  else
    set_bytes(datum, size ? (const void *)datum->bytes.data : "", SQLITE_TRANSIENT, context);
}

static void set_result(struct colfam_lender *lender, sqlite3_context *context,
                       const struct kv_datum *datum) {
  switch (datum->type) {
    case KV_NULL:
      sqlite3_result_null(context);
      break;
    case KV_INTEGER:
      sqlite3_result_int64(context, datum->integer);
      break;
    case KV_REAL:
      sqlite3_result_double(context, datum->real);
      break;
    case KV_TEXT:
    case KV_BLOB:
      colfam_row_result_bytes(datum, lender, context);
      break;
  }
}

/* value is NULL when only the key is at hand. */
static int key_column_datum(const struct colfam_schema *schema, struct kv_slice key,
                            const struct kv_slice *value, int column, struct kv_buf *scratch,
                            struct kv_datum *datum, bool *told) {
  const struct colfam_column *self = &schema->columns[column];
  struct parts parts;
  kv_status status = key_datum(schema, key, self->key_index, scratch, datum);
  if (status == KV_OK && can_be_fixed(schema, self, datum)) {
    if (!value) {
      *told = false;
    } else if (!split_value(*value, &parts) || !apply_fix(schema, &parts, self->key_index, datum)) {
      status = KV_CORRUPT;
    }
  }
  if (self->affinity == COLFAM_AFF_REAL) real_if_number(datum);
  if (status == KV_NOMEM) return SQLITE_NOMEM;
  return status == KV_OK ? SQLITE_OK : SQLITE_CORRUPT_VTAB;
}

static int rowid_datum(const struct colfam_schema *schema, struct kv_slice key,
                       struct kv_datum *datum) {
  sqlite3_int64 rowid = 0;
  int rc = colfam_rowid_of_key(schema, key, &rowid);
  *datum = (struct kv_datum){.type = KV_INTEGER, .integer = rowid};
  return rc;
}

int colfam_row_datum(const struct colfam_schema *schema, struct kv_slice key, struct kv_slice value,
                     int column, struct kv_buf *scratch, struct kv_datum *datum) {
  bool told = true;
  int index = schema->columns[column].value_index;
  *datum = (struct kv_datum){.type = KV_NULL};
  if (column == schema->rowid_column) return rowid_datum(schema, key, datum);
  if (index < 0) return key_column_datum(schema, key, &value, column, scratch, datum, &told);
  return value_datum(value, index, datum) ? SQLITE_OK : SQLITE_CORRUPT_VTAB;
}

/* A text or blob of a table of sort keys stands with the value: the type in the key says so already. */
static bool stands_with_value(const struct colfam_schema *schema, struct kv_slice key, int column) {
  return schema->encoder && schema->columns[column].key_index == 0 && key.size &&
         kv_key_has_content(key.data[0]);
}

int colfam_row_result_of_key(const struct colfam_schema *schema, struct kv_slice key, int column,
                             struct colfam_lender *lender, sqlite3_context *context, bool *told) {
  struct kv_datum datum = {.type = KV_NULL};
  struct kv_buf scratch;
  *told = schema->columns[column].value_index < 0 && !stands_with_value(schema, key, column);
  if (!*told) return SQLITE_OK;
  kv_buf_init(&scratch);
  int rc = column == schema->rowid_column
               ? rowid_datum(schema, key, &datum)
               : key_column_datum(schema, key, NULL, column, &scratch, &datum, told);
  if (rc == SQLITE_OK && *told) set_result(lender, context, &datum);
  kv_buf_release(&scratch);
  return rc;
}

int colfam_row_result_of_value(const struct colfam_schema *schema, struct kv_slice value,
                               int column, struct colfam_lender *lender, struct kv_cache_entry *pin,
                               sqlite3_context *context) {
  struct kv_datum datum;
  if (!value_datum(value, schema->columns[column].value_index, &datum)) return SQLITE_CORRUPT_VTAB;
  bool bytes = datum.type == KV_TEXT || datum.type == KV_BLOB;
  if (bytes && colfam_lend_pinned(pin, datum.bytes.data, datum.bytes.size))
    set_bytes(&datum, datum.bytes.data, colfam_pinned_back, context);
  else
    set_result(lender, context, &datum);
  return SQLITE_OK;
}

int colfam_row_result(const struct colfam_schema *schema, struct kv_slice key,
                      struct kv_slice value, int column, struct colfam_lender *lender,
                      sqlite3_context *context) {
  struct kv_datum datum;
  struct kv_buf scratch;
  kv_buf_init(&scratch);
  int rc = colfam_row_datum(schema, key, value, column, &scratch, &datum);
  if (rc == SQLITE_OK) set_result(lender, context, &datum);
  kv_buf_release(&scratch);
  return rc;
}

/* ---- Check */

/* The fix-up stands where one can, is needed, and what it makes of the datum has these bytes in the key. */
static kv_status check_fix(const struct colfam_schema *schema, const struct parts *parts, int i,
                           struct kv_datum *datum, struct kv_slice bytes, struct kv_buf *scratch) {
  const struct colfam_column *column = &schema->columns[schema->key_columns[i]];
  int fix = fix_at(parts->fixes, i);
  if (fix == FIX_NONE) return is_encoded(schema, datum) ? KV_CORRUPT : KV_OK;
  if (!can_be_fixed(schema, column, datum) || !apply_fix(schema, parts, i, datum))
    return KV_CORRUPT;
  if (fix_of(schema, column, datum) != fix) return KV_CORRUPT;
  kv_buf_clear(scratch);
  kv_key_append(scratch, colfam_schema_key_part(schema, i), datum);
  if (scratch->status != KV_OK) return scratch->status;
  return kv_slice_equal(kv_buf_slice(scratch), bytes) ? KV_OK : KV_CORRUPT;
}

/* And the last byte of the fix-ups has one. */
static kv_status check_key(const struct colfam_schema *schema, struct kv_slice key,
                           const struct parts *parts, struct kv_buf *scratch) {
  struct kv_slice fixes = parts->fixes;
  if (fixes.size > ((size_t)schema->key_count + 3) / 4) return KV_CORRUPT;
  if (fixes.size && !fixes.data[fixes.size - 1]) return KV_CORRUPT;
  for (int i = 0; i < schema->key_count; i++) {
    struct kv_datum datum;
    struct kv_slice bytes = key;
    kv_buf_clear(scratch);
    kv_status status =
        kv_key_decode(&key, colfam_schema_key_part(schema, i), scratch, &datum, NULL);
    if (status != KV_OK) return status;
    bytes.size -= key.size;
    if (datum.type == KV_NULL) return KV_CORRUPT;
    status = check_fix(schema, parts, i, &datum, bytes, scratch);
    if (status != KV_OK) return status;
  }
  for (int i = schema->key_count; (size_t)i < fixes.size * 4; i++)
    if (fix_at(fixes, i)) return KV_CORRUPT;
  return KV_OK;
}

static bool values_sound(const struct colfam_schema *schema, const struct parts *parts) {
  struct column_reader reader;
  read_columns(&reader, parts);
  for (int i = 0; i < schema->column_count; i++) {
    if (schema->columns[i].value_index < 0) continue;
    if (!next_column(&reader)) return false;
    if (schema->columns[i].not_null && reader.type == TYPE_NULL) return false;
  }
  for (int i = 0; i < schema->key_count; i++)
    if (fix_at(parts->fixes, i) == FIX_BYTES && !next_column(&reader)) return false;
  return !kv_reader_left(&reader.types) && !kv_reader_left(&reader.payload);
}

int colfam_row_check(const struct colfam_schema *schema, struct kv_slice key,
                     struct kv_slice value) {
  struct parts parts;
  sqlite3_int64 rowid;
  if (!split_value(value, &parts) || !values_sound(schema, &parts)) return SQLITE_CORRUPT_VTAB;
  if (schema->key_form == COLFAM_KEY_ROWID) {
    return parts.fixes.size ? SQLITE_CORRUPT_VTAB : colfam_rowid_of_key(schema, key, &rowid);
  }
  struct kv_buf scratch;
  kv_buf_init(&scratch);
  kv_status status = check_key(schema, key, &parts, &scratch);
  kv_buf_release(&scratch);
  if (status == KV_NOMEM) return SQLITE_NOMEM;
  return status == KV_OK ? SQLITE_OK : SQLITE_CORRUPT_VTAB;
}
