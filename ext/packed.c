/* See packed.h. */
#include "packed.h"

#include "colfam.h"
#include "conn.h"

int colfam_packing_add(struct colfam_packing *packing, const struct colfam_value *value) {
  return colfam_key_append_value(&packing->values, &packing->keys->bytes, packing->schema,
                                 packing->column++, value, &packing->possible);
}

void colfam_packing_end(struct colfam_packing *packing) {
  struct kv_buf *bytes = &packing->keys->bytes;
  if (packing->possible && bytes->size - packing->start <= KV_KEY_BYTES_MAX) {
    colfam_strings_close(packing->keys);
  } else {
    bytes->size = packing->start;
  }
  packing->start = bytes->size;
  packing->column = 0;
  packing->possible = true;
}

/* ---- A blob: for each value its length in 4 bytes, little-endian, and its bytes */

static int bad_blob(struct colfam_vtab *vtab, const char *what, size_t at) {
  return colfam_vtab_error(vtab, SQLITE_ERROR, "table %s: colfam_keys: %s at byte %llu of the blob",
                           vtab->schema->label, what, (unsigned long long)at);
}

static int read_blob(struct colfam_vtab *vtab, struct colfam_packing *packing,
                     struct kv_slice blob) {
  struct kv_reader reader;
  int rc = SQLITE_OK;
  kv_reader_init(&reader, blob);
  while (kv_reader_left(&reader) && rc == SQLITE_OK) {
    size_t at = blob.size - kv_reader_left(&reader);
    uint32_t size = kv_reader_u32(&reader);
    if (reader.failed) return bad_blob(vtab, "a length that is cut off", at);
    struct kv_slice bytes = kv_reader_bytes(&reader, size);
    if (reader.failed) return bad_blob(vtab, "a length beyond the end", at);
    bool plain = colfam_schema_key_affinity(vtab->schema, packing->column) == COLFAM_AFF_BLOB;
    struct colfam_value value = {.type = plain ? SQLITE_BLOB : SQLITE_TEXT,
                                 .bytes = bytes.data,
                                 .size = (sqlite3_int64)bytes.size};
    rc = colfam_packing_add(packing, &value);
    if (packing->column == packing->columns) colfam_packing_end(packing);
  }
  if (rc == SQLITE_OK && packing->column)
    return bad_blob(vtab, "a key with too few values", blob.size);
  return rc;
}

/* ---- A pointer to struct colfam_keys */

static int read_pointer(struct colfam_vtab *vtab, struct colfam_packing *packing,
                        const struct colfam_keys *keys) {
  int rc = SQLITE_OK;
  const struct colfam_value *value = keys->values;
  if (keys->columns != packing->columns)
    return colfam_vtab_error(vtab, SQLITE_ERROR,
                             "table %s: colfam_keys: keys of %d values, but the key has %d columns",
                             vtab->schema->label, keys->columns, packing->columns);
  for (sqlite3_int64 i = 0; i < keys->count && rc == SQLITE_OK; i++) {
    for (int column = 0; column < packing->columns && rc == SQLITE_OK; column++)
      rc = colfam_packing_add(packing, value++);
    colfam_packing_end(packing);
  }
  if (rc != SQLITE_MISUSE) return rc;
  return colfam_vtab_error(vtab, SQLITE_ERROR,
                           "table %s: colfam_keys: a colfam_value that is no value",
                           vtab->schema->label);
}

/* ---- All forms */

static int read_json(struct colfam_vtab *vtab, struct colfam_packing *packing,
                     struct kv_slice json) {
  const char *what = NULL;
  size_t at = 0;
  int rc = colfam_packing_json(packing, json, &what, &at);
  if (!what) return rc;
  return colfam_vtab_error(vtab, rc, "table %s: colfam_keys: %s at byte %llu of the JSON text",
                           vtab->schema->label, what, (unsigned long long)at);
}

static int read_keys(struct colfam_vtab *vtab, struct colfam_packing *packing,
                     sqlite3_value *argument) {
  const struct colfam_keys *keys = sqlite3_value_pointer(argument, COLFAM_KEYS_POINTER);
  if (keys) return read_pointer(vtab, packing, keys);
  int type = sqlite3_value_type(argument);
  if (type == SQLITE_NULL) return SQLITE_OK;
  if (type != SQLITE_TEXT && type != SQLITE_BLOB)
    return colfam_vtab_error(vtab, SQLITE_ERROR,
                             "table %s: colfam_keys is a JSON array, a blob or a pointer, not a "
                             "number",
                             vtab->schema->label);
  const void *bytes =
      type == SQLITE_TEXT ? sqlite3_value_text(argument) : sqlite3_value_blob(argument);
  size_t size = (size_t)sqlite3_value_bytes(argument);
  if (!bytes && (size || type == SQLITE_TEXT)) return SQLITE_NOMEM;
  struct kv_slice slice = kv_slice_of(bytes, size);
  return type == SQLITE_TEXT ? read_json(vtab, packing, slice) : read_blob(vtab, packing, slice);
}

int colfam_packed_read(struct colfam_vtab *vtab, sqlite3_value *argument,
                       struct colfam_strings *keys) {
  struct colfam_packing packing = {.schema = vtab->schema,
                                   .values = {.db = vtab->conn->db},
                                   .keys = keys,
                                   .columns = colfam_key_columns(vtab->schema),
                                   .possible = true};
  colfam_strings_clear(keys);
  int rc = read_keys(vtab, &packing, argument);
  colfam_key_values_release(&packing.values);
  if (rc != SQLITE_OK) return rc;
  return colfam_strings_ok(keys) ? SQLITE_OK : SQLITE_NOMEM;
}
