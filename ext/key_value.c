/* See key_value.h. Most values are of a type that their column's affinity leaves alone, and go straight into
** the key; texts for numeric columns and numbers for TEXT columns are converted by SQLite itself, so that
** they become what this very SQLite would compare.
** Thread rule: the connection's. */
#include "key_value.h"

#include "row.h"

int colfam_key_columns(const struct colfam_schema *schema) {
  return schema->key_form == COLFAM_KEY_ROWID ? 1 : schema->key_count;
}

/* What a comparison applies: the INTEGER and REAL affinities are NUMERIC there. */
static enum colfam_affinity affinity_of(const struct colfam_schema *schema, int i) {
  if (schema->key_form == COLFAM_KEY_ROWID) return COLFAM_AFF_NUMERIC;
  enum colfam_affinity affinity = schema->columns[schema->key_columns[i]].affinity;
  return affinity > COLFAM_AFF_NUMERIC ? COLFAM_AFF_NUMERIC : affinity;
}

static int append(struct kv_buf *key, const struct colfam_schema *schema, int i,
                  const struct kv_datum *datum, bool *possible) {
  bool number = datum->type == KV_INTEGER || datum->type == KV_REAL;
  if (datum->type == KV_NULL || (schema->key_form == COLFAM_KEY_ROWID && !number))
    *possible = false;
  if (*possible) kv_key_append(key, colfam_schema_key_part(schema, i), datum);
  return key->status == KV_OK ? SQLITE_OK : SQLITE_NOMEM;
}

int colfam_key_append_sql(struct kv_buf *key, const struct colfam_schema *schema, int i,
                          sqlite3_value *value, bool *possible) {
  struct kv_datum datum = {.type = KV_NULL};
  int rc = colfam_datum_stored(value, affinity_of(schema, i), &datum);
  return rc == SQLITE_OK ? append(key, schema, i, &datum, possible) : rc;
}

/* ---- Values of a C program */

void colfam_key_values_release(struct colfam_key_values *values) {
  sqlite3_finalize(values->echo);
  values->echo = NULL;
}

static int bind(sqlite3_stmt *stmt, const struct colfam_value *value) {
  if (value->type == SQLITE_INTEGER) return sqlite3_bind_int64(stmt, 1, value->integer);
  if (value->type == SQLITE_FLOAT) return sqlite3_bind_double(stmt, 1, value->real);
  return sqlite3_bind_text64(stmt, 1, value->size ? value->bytes : "", (sqlite3_uint64)value->size,
                             SQLITE_STATIC, SQLITE_UTF8);
}

static int echo(struct colfam_key_values *values, const struct colfam_value *value) {
  int rc = SQLITE_OK;
  if (!values->echo) rc = sqlite3_prepare_v2(values->db, "SELECT ?1", -1, &values->echo, NULL);
  if (rc == SQLITE_OK) rc = bind(values->echo, value);
  return rc == SQLITE_OK ? sqlite3_step(values->echo) : rc;
}

/* The statement's own value, not a copy: a copy has no connection, which conversions ask for. */
static int append_converted(struct colfam_key_values *values, struct kv_buf *key,
                            const struct colfam_schema *schema, int i,
                            const struct colfam_value *value, bool *possible) {
  int rc = echo(values, value);
  if (rc == SQLITE_ROW)
    rc = colfam_key_append_sql(key, schema, i, sqlite3_column_value(values->echo, 0), possible);
  sqlite3_reset(values->echo);
  return rc;
}

static bool is_value(const struct colfam_value *value) {
  bool bytes = value->type == SQLITE_TEXT || value->type == SQLITE_BLOB;
  if (bytes) return value->size >= 0 && (value->bytes || !value->size);
  return value->type == SQLITE_INTEGER || value->type == SQLITE_FLOAT || value->type == SQLITE_NULL;
}

static struct kv_datum datum_of(const struct colfam_value *value) {
  struct kv_datum datum = {.type = KV_NULL};
  if (value->type == SQLITE_INTEGER) {
    datum = (struct kv_datum){.type = KV_INTEGER, .integer = value->integer};
  } else if (value->type == SQLITE_FLOAT && value->real == value->real) {
    datum = (struct kv_datum){.type = KV_REAL, .real = value->real};
  } else if (value->type == SQLITE_TEXT || value->type == SQLITE_BLOB) {
    datum.type = value->type == SQLITE_TEXT ? KV_TEXT : KV_BLOB;
    datum.bytes = kv_slice_of(value->bytes, (size_t)value->size);
  }
  return datum;
}

static bool needs_conversion(const struct colfam_value *value, enum colfam_affinity affinity) {
  if (value->type == SQLITE_TEXT) return affinity == COLFAM_AFF_NUMERIC;
  bool number = value->type == SQLITE_INTEGER || value->type == SQLITE_FLOAT;
  return number && affinity == COLFAM_AFF_TEXT;
}

int colfam_key_append_value(struct colfam_key_values *values, struct kv_buf *key,
                            const struct colfam_schema *schema, int i,
                            const struct colfam_value *value, bool *possible) {
  if (!is_value(value)) return SQLITE_MISUSE;
  if (needs_conversion(value, affinity_of(schema, i)))
    return append_converted(values, key, schema, i, value, possible);
  struct kv_datum datum = datum_of(value);
  return append(key, schema, i, &datum, possible);
}

int colfam_key_values_real(struct colfam_key_values *values, struct kv_slice text, double *real) {
  struct colfam_value value = {
      .type = SQLITE_TEXT, .bytes = text.data, .size = (sqlite3_int64)text.size};
  int rc = echo(values, &value);
  if (rc != SQLITE_ROW) return rc;
  *real = sqlite3_column_double(values->echo, 0);
  sqlite3_reset(values->echo);
  return SQLITE_OK;
}
