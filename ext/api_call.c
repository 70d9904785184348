/* See api_call.h. */
#include "api_call.h"

#include <string.h>

#include "error.h"

enum { KEPT_BYTES_MAX = 65536 };

static struct colfam_conn *conn_of(const struct colfam_api *api) {
  return ((const struct api_object *)api)->conn;
}

static int check_request(const struct colfam_request *request, char **message) {
  const struct colfam_keys *keys = &request->keys;
  if (!request->table) return colfam_error(message, SQLITE_MISUSE, "a request names no table");
  if (keys->count >= 0 && keys->columns > 0 && (keys->values || !keys->count)) return SQLITE_OK;
  return colfam_error(message, SQLITE_MISUSE, "table %s: %lld keys of %d columns cannot be",
                      request->table, keys->count, keys->columns);
}

static int check_columns(const struct colfam_call *call, int i, char **message) {
  const struct colfam_schema *schema = call->anchors[i].vtab->schema;
  int given = call->requests[i].keys.columns, columns = colfam_key_columns(schema);
  if (given == columns) return SQLITE_OK;
  return colfam_error(message, SQLITE_ERROR, "the key of table %s has %d columns, %d values given",
                      schema->label, columns, given);
}

static int anchor_all(struct colfam_call *call) {
  int rc = SQLITE_OK;
  for (int i = 0; i < call->count && rc == SQLITE_OK; i++) {
    const struct colfam_request *request = &call->requests[i];
    rc = check_request(request, &call->message);
    if (rc == SQLITE_OK)
      rc = colfam_anchor_begin(call->conn, request->table, &call->anchors[i], &call->message);
    if (rc != SQLITE_OK) return rc;
    call->anchored = i + 1;
    rc = check_columns(call, i, &call->message);
  }
  return rc;
}

int colfam_call_begin(struct colfam_call *call, const struct colfam_api *api,
                      const struct colfam_request *requests, int count) {
  memset(call, 0, sizeof *call);
  call->conn = conn_of(api);
  sqlite3_mutex_enter(sqlite3_db_mutex(call->conn->db));
  call->requests = requests;
  call->count = count;
  call->values.db = call->conn->db;
  if (count < 0) return SQLITE_MISUSE;
  call->anchors =
      count <= 1 ? &call->one : sqlite3_malloc64(sizeof *call->anchors * (sqlite3_uint64)count);
  return call->anchors ? anchor_all(call) : SQLITE_NOMEM;
}

int colfam_call_end(struct colfam_call *call, int rc, char **message) {
  for (int i = 0; i < call->anchored; i++) colfam_anchor_end(&call->anchors[i]);
  if (call->anchors != &call->one) sqlite3_free(call->anchors);
  colfam_key_values_release(&call->values);
  if (message) {
    *message = rc == SQLITE_OK ? NULL : call->message;
    if (rc != SQLITE_OK && !*message) *message = sqlite3_mprintf("%s", sqlite3_errstr(rc));
  }
  if (!message || rc == SQLITE_OK) sqlite3_free(call->message);
  sqlite3_mutex_leave(sqlite3_db_mutex(call->conn->db));
  return rc;
}

struct kv_buf colfam_call_take_bytes(const struct colfam_call *call) {
  struct kv_buf bytes = call->conn->api->key_bytes;
  kv_buf_init(&call->conn->api->key_bytes);
  return bytes;
}

void colfam_call_give_bytes(const struct colfam_call *call, struct kv_buf *bytes) {
  struct kv_buf *spare = &call->conn->api->key_bytes;
  if (spare->data || bytes->capacity > KEPT_BYTES_MAX) {
    kv_buf_release(bytes);
    return;
  }
  *spare = *bytes;
  kv_buf_init(bytes);
}

int colfam_call_error(struct colfam_call *call, int i, kv_status status, const struct kv_err *err) {
  return colfam_error_of(&call->message, call->anchors[i].vtab->schema->label, status, err);
}

int colfam_call_append_key(struct colfam_call *call, int i, size_t k, struct kv_buf *bytes,
                           bool *possible) {
  const struct colfam_keys *keys = &call->requests[i].keys;
  const struct colfam_schema *schema = call->anchors[i].vtab->schema;
  const struct colfam_value *values = keys->values + k * (size_t)keys->columns;
  size_t start = bytes->size;
  int rc = SQLITE_OK;
  *possible = true;
  for (int c = 0; c < keys->columns && rc == SQLITE_OK && *possible; c++)
    rc = colfam_key_append_value(&call->values, bytes, schema, c, &values[c], possible);
  if (bytes->size - start > KV_KEY_BYTES_MAX) *possible = false;
  if (rc == SQLITE_MISUSE)
    return colfam_error(&call->message, rc, "table %s: key %lld has something that is no value",
                        schema->label, (long long)k);
  return rc;
}
