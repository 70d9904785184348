/* See colfam.h. A call anchors every table it names first, all at one snapshot (table.h), then asks the
** engine once for all of them.
**
** A result keeps the engine's answers, the encoded keys and the schema, each counted, and the connection's
** colfam_conn with the stores and environments below it: so it outlives tables, transactions and
** sqlite3_close.
** Thread rule: the connection's. */
#include "api.h"

#include <string.h>

#include "api_call.h"
#include "api_orders.h"
#include "error.h"
#include "gather.h"
#include "row.h"

/* Bytes of a key column that had to be made for a caller. */
struct kept {
  struct kept *next;
  int column;
  size_t size;
  uint8_t bytes[];
};

/* The answers to one request. */
struct rows {
  struct colfam_schema *schema; /* a reference */
  struct colfam_gathered gathered;
  size_t first;       /* of the gathered keys among the result's values */
  struct kept **kept; /* lists, one a gathered key; NULL until needed */
};

struct colfam_result {
  struct colfam_conn *conn; /* a reference */
  struct kv_result *values; /* one a key, request after request */
  int count;
  struct rows *rows; /* one a request, in the same memory */
};

/* ---- multi_get */

static struct colfam_result *result_new(struct colfam_call *call) {
  sqlite3_uint64 size = sizeof(struct colfam_result) + sizeof(struct rows) * (size_t)call->count;
  struct colfam_result *result = sqlite3_malloc64(size);
  if (!result) return NULL;
  memset(result, 0, size);
  result->conn = colfam_conn_ref(call->conn);
  result->count = call->count;
  result->rows = (struct rows *)(result + 1);
  return result;
}

static void rows_release(struct rows *rows) {
  for (size_t i = 0; rows->kept && i < rows->gathered.key_count; i++) {
    for (struct kept *kept = rows->kept[i], *next; kept; kept = next) {
      next = kept->next;
      sqlite3_free(kept);
    }
  }
  sqlite3_free(rows->kept);
  colfam_gathered_release(&rows->gathered);
  colfam_schema_unref(rows->schema);
}

static void api_free_result(struct colfam_result *result) {
  if (!result) return;
  kv_result_free(result->values);
  for (int i = 0; i < result->count; i++) rows_release(&result->rows[i]);
  colfam_conn_unref(result->conn);
  sqlite3_free(result);
}

static int gather_rows(struct colfam_call *call, struct colfam_result *result) {
  size_t first = 0;
  for (int i = 0; i < call->count; i++) {
    struct rows *rows = &result->rows[i];
    rows->schema = colfam_schema_ref(call->anchors[i].vtab->schema);
    rows->first = first;
    int rc = colfam_gather(&rows->gathered, call, i);
    if (rc != SQLITE_OK) return rc;
    first += rows->gathered.key_count;
  }
  return SQLITE_OK;
}

static int get_rows(struct colfam_call *call, struct colfam_result *result) {
  struct kv_err err;
  kv_err_init(&err);
  struct kv_request one, *requests = &one;
  if (call->count > 1) requests = sqlite3_malloc64(sizeof *requests * (size_t)call->count);
  if (!requests) return SQLITE_NOMEM;
  for (int i = 0; i < call->count; i++) {
    const struct colfam_anchor *anchor = &call->anchors[i];
    const struct rows *rows = &result->rows[i];
    requests[i] = (struct kv_request){anchor->view, anchor->batch, rows->gathered.keys,
                                      rows->gathered.key_count, rows->schema->label};
  }
  kv_status status = kv_multi_get_many(requests, (size_t)call->count, &result->values, &err);
  if (requests != &one) sqlite3_free(requests);
  return status == KV_OK ? SQLITE_OK : colfam_error_of(&call->message, NULL, status, &err);
}

static int api_multi_get(const struct colfam_api *api, const struct colfam_request *requests,
                         int count, struct colfam_result **result, char **message) {
  struct colfam_call call;
  *result = NULL;
  int rc = colfam_call_begin(&call, api, requests, count);
  struct colfam_result *made = rc == SQLITE_OK ? result_new(&call) : NULL;
  if (rc == SQLITE_OK && !made) rc = SQLITE_NOMEM;
  if (rc == SQLITE_OK) rc = gather_rows(&call, made);
  if (rc == SQLITE_OK) rc = get_rows(&call, made);
  if (rc == SQLITE_OK)
    *result = made;
  else
    api_free_result(made);
  return colfam_call_end(&call, rc, message);
}

/* ---- Results */

/* NULL when there is no such request. */
static struct rows *rows_at(const struct colfam_result *result, int request) {
  return request >= 0 && request < result->count ? &result->rows[request] : NULL;
}

/* The place and value of a row that was found. */
static bool find_row(const struct colfam_result *result, int request, sqlite3_int64 key,
                     size_t *place, struct kv_slice *value) {
  const struct rows *rows = rows_at(result, request);
  *place = rows ? colfam_gathered_place(&rows->gathered, key) : COLFAM_NOWHERE;
  return *place != COLFAM_NOWHERE && kv_result_found(result->values, rows->first + *place, value);
}

static int api_found(const struct colfam_result *result, int request, sqlite3_int64 key) {
  size_t place;
  struct kv_slice value;
  return find_row(result, request, key, &place, &value);
}

static int api_column_count(const struct colfam_result *result, int request) {
  const struct rows *rows = rows_at(result, request);
  return rows ? rows->schema->column_count : 0;
}

static void set_value(struct colfam_value *value, const struct kv_datum *datum) {
  static const int types[] = {[KV_NULL] = SQLITE_NULL,
                              [KV_INTEGER] = SQLITE_INTEGER,
                              [KV_REAL] = SQLITE_FLOAT,
                              [KV_TEXT] = SQLITE_TEXT,
                              [KV_BLOB] = SQLITE_BLOB};
  value->type = types[datum->type];
  if (datum->type == KV_INTEGER) value->integer = datum->integer;
  if (datum->type == KV_REAL) value->real = datum->real;
  if (datum->type < KV_TEXT) return;
  value->size = (sqlite3_int64)datum->bytes.size;
  value->bytes = datum->bytes.size ? datum->bytes.data : NULL;
}

static struct kept *find_kept(const struct rows *rows, size_t place, int column) {
  struct kept *kept = rows->kept ? rows->kept[place] : NULL;
  while (kept && kept->column != column) kept = kept->next;
  return kept;
}

/* Copies bytes that a column's decoding made, for as long as the result lives; once a column. */
static int keep_bytes(struct rows *rows, size_t place, int column, struct kv_slice *bytes) {
  struct kept *kept = find_kept(rows, place, column);
  if (!rows->kept) {
    size_t size = sizeof *rows->kept * rows->gathered.key_count;
    rows->kept = sqlite3_malloc64(size);
    if (!rows->kept) return SQLITE_NOMEM;
    memset(rows->kept, 0, size);
  }
  if (!kept) {
    kept = sqlite3_malloc64(sizeof *kept + bytes->size);
    if (!kept) return SQLITE_NOMEM;
    *kept = (struct kept){rows->kept[place], column, bytes->size};
    memcpy(kept->bytes, bytes->data, bytes->size);
    rows->kept[place] = kept;
  }
  *bytes = kv_slice_of(kept->bytes, kept->size);
  return SQLITE_OK;
}

/* *datum may point into *scratch. */
static int column_datum(const struct rows *rows, size_t place, struct kv_slice row, int column,
                        struct kv_buf *scratch, struct kv_datum *datum) {
  struct kv_slice key = rows->gathered.keys[place];
  if (column == -1 && rows->schema->key_form == COLFAM_KEY_ROWID) {
    sqlite3_int64 rowid = 0;
    int rc = colfam_rowid_of_key(rows->schema, key, &rowid);
    *datum = (struct kv_datum){.type = KV_INTEGER, .integer = rowid};
    return rc;
  }
  if (column < 0 || column >= rows->schema->column_count) return SQLITE_RANGE;
  return colfam_row_datum(rows->schema, key, row, column, scratch, datum);
}

static bool lies_in(const struct kv_buf *scratch, const struct kv_datum *datum) {
  return datum->type >= KV_TEXT && scratch->size && datum->bytes.size &&
         datum->bytes.data >= scratch->data && datum->bytes.data < scratch->data + scratch->size;
}

static int api_column(struct colfam_result *result, int request, sqlite3_int64 key, int column,
                      struct colfam_value *value) {
  struct rows *rows = rows_at(result, request);
  size_t place;
  struct kv_slice row;
  struct kv_datum datum = {.type = KV_NULL};
  struct kv_buf scratch;
  *value = (struct colfam_value){.type = SQLITE_NULL};
  if (!find_row(result, request, key, &place, &row)) return SQLITE_RANGE;
  kv_buf_init(&scratch);
  int rc = column_datum(rows, place, row, column, &scratch, &datum);
  if (rc == SQLITE_OK && lies_in(&scratch, &datum))
    rc = keep_bytes(rows, place, column, &datum.bytes);
  if (rc == SQLITE_OK) set_value(value, &datum);
  kv_buf_release(&scratch);
  return rc;
}

/* ---- Into the caller's memory */

static int fill_room(const struct rows *rows, size_t place, struct kv_slice row, int column,
                     struct kv_buf *scratch, struct colfam_room *room) {
  struct colfam_value *value = &room->value;
  struct kv_datum datum = {.type = KV_NULL};
  kv_buf_clear(scratch);
  int rc = column_datum(rows, place, row, column, scratch, &datum);
  if (rc != SQLITE_OK) return rc;
  set_value(value, &datum);
  if (!value->size) return SQLITE_OK;
  bool fits = room->bytes && value->size <= room->capacity;
  if (fits) memcpy(room->bytes, value->bytes, (size_t)value->size);
  value->bytes = fits ? room->bytes : NULL;
  return SQLITE_OK;
}

/* Each value goes from its block, or from where it is decoded, to its room. */
static int fill_rooms(const struct colfam_result *result, int request,
                      const struct colfam_into *into, int *rc_of) {
  const struct rows *rows = &result->rows[request];
  struct colfam_room *room = into->rooms;
  struct kv_buf scratch;
  int rc = SQLITE_OK;
  kv_buf_init(&scratch);
  for (size_t k = 0; k < rows->gathered.count && rc == SQLITE_OK; k++) {
    size_t place = 0;
    struct kv_slice row;
    bool found = find_row(result, request, (sqlite3_int64)k, &place, &row);
    for (int c = 0; c < into->column_count && rc == SQLITE_OK; c++, room++) {
      room->found = found;
      room->value = (struct colfam_value){.type = SQLITE_NULL};
      if (found) rc = fill_room(rows, place, row, into->columns[c], &scratch, room);
    }
  }
  kv_buf_release(&scratch);
  *rc_of = request;
  return rc;
}

/* A column that the table does not have is found before anything is written. */
static int check_into(const struct colfam_result *result, const struct colfam_into *into,
                      char **message) {
  for (int i = 0; i < result->count; i++) {
    const struct colfam_schema *schema = result->rows[i].schema;
    int lowest = schema->key_form == COLFAM_KEY_ROWID ? -1 : 0;
    for (int c = 0; c < into[i].column_count; c++) {
      if (into[i].columns[c] >= lowest && into[i].columns[c] < schema->column_count) continue;
      return colfam_error(message, SQLITE_RANGE, "table %s has no column %d", schema->label,
                          into[i].columns[c]);
    }
  }
  return SQLITE_OK;
}

static int api_multi_get_into(const struct colfam_api *api, const struct colfam_request *requests,
                              int count, const struct colfam_into *into, char **message) {
  struct colfam_result *result;
  int at = 0;
  int rc = api_multi_get(api, requests, count, &result, message);
  if (rc != SQLITE_OK || !result) return rc;
  char *text = NULL;
  rc = check_into(result, into, &text);
  for (int i = 0; i < count && rc == SQLITE_OK; i++) rc = fill_rooms(result, i, &into[i], &at);
  if (rc != SQLITE_OK && !text)
    colfam_error(&text, rc, "table %s: %s", result->rows[at].schema->label, sqlite3_errstr(rc));
  api_free_result(result);
  if (message)
    *message = text;
  else
    sqlite3_free(text);
  return rc;
}

/* ---- colfam_api(?1) */

static struct api_object *object_of(struct colfam_conn *conn) {
  if (conn->api) return conn->api;
  struct api_object *object = sqlite3_malloc64(sizeof *object);
  if (!object) return NULL;
  *object = (struct api_object){
      .api = {.version = COLFAM_API_VERSION,
              .size = sizeof(struct colfam_api),
              .multi_get = api_multi_get,
              .exists = colfam_api_exists,
              .may_exist = colfam_api_may_exist,
              .found = api_found,
              .column_count = api_column_count,
              .column = api_column,
              .free_result = api_free_result,
              .multi_get_into = api_multi_get_into,
              .probe = colfam_api_probe,
              .probed = colfam_api_probed,
              .go_on = colfam_api_go_on,
              .free_probe = colfam_api_free_probe,
              .register_order = colfam_api_register_order,
              .unregister_order = colfam_api_unregister_order,
              .check_order = colfam_api_check_order},
      .conn = conn,
  };
  conn->api = object;
  return object;
}

void colfam_api_free(struct api_object *object) {
  if (object) kv_buf_release(&object->key_bytes);
  sqlite3_free(object);
}

void colfam_api_function(sqlite3_context *context, int argc, sqlite3_value **argv) {
  (void)argc;
  const struct colfam_api **into = sqlite3_value_pointer(argv[0], COLFAM_API_POINTER);
  if (!into) {
    sqlite3_result_error(context,
                         "colfam_api is for C programs: colfam_api(?1) takes a pointer bound as "
                         "ext/colfam.h says",
                         -1);
    return;
  }
  const struct api_object *object = object_of(sqlite3_user_data(context));
  if (!object) {
    sqlite3_result_error_nomem(context);
    return;
  }
  *into = &object->api;
}
