/* See gather.h. The bytes move while they grow: where keys begin is set when all are there. Texts and blobs
** that are the whole key, as most are, take a short way. */
#include "gather.h"

static int gathered_init(struct colfam_gathered *gathered, size_t count) {
  kv_buf_clear(&gathered->bytes);
  gathered->count = count;
  gathered->places = &gathered->one_place;
  gathered->keys = &gathered->one_key;
  if (count <= 1) return SQLITE_OK;
  size_t each = sizeof *gathered->places + sizeof *gathered->keys;
  gathered->places = sqlite3_malloc64(each * (sqlite3_uint64)count);
  if (!gathered->places) return SQLITE_NOMEM;
  gathered->keys = (struct kv_slice *)(void *)(gathered->places + count);
  return SQLITE_OK;
}

/* What was appended from `start` on is the next key. */
static void take_key(struct colfam_gathered *gathered, size_t k, size_t start) {
  gathered->keys[gathered->key_count] = kv_slice_of(NULL, gathered->bytes.size - start);
  gathered->places[k] = gathered->key_count++;
}

static int append_key(struct colfam_gathered *gathered, struct colfam_call *call, int i, size_t k) {
  bool possible;
  size_t start = gathered->bytes.size;
  gathered->places[k] = COLFAM_NOWHERE;
  int rc = colfam_call_append_key(call, i, k, &gathered->bytes, &possible);
  if (rc == SQLITE_OK && possible)
    take_key(gathered, k, start);
  else
    gathered->bytes.size = start;
  return rc;
}

/* Whether texts and blobs are the table's whole key. */
static bool are_keys(const struct colfam_schema *schema, const struct colfam_keys *keys) {
  return keys->columns == 1 && colfam_schema_is_plain(schema, SQLITE_TEXT);
}

/* A text or blob that makes a key of few bytes. */
static inline bool is_short(const struct colfam_value *value) {
  return (value->type == SQLITE_TEXT || value->type == SQLITE_BLOB) && value->size > 0 &&
         value->size < KV_KEY_BYTES_MAX / 4 && value->bytes;
}

static int append_bytes(struct colfam_gathered *gathered, struct kv_key_part part,
                        const struct colfam_value *value, size_t k) {
  struct kv_datum datum = {.type = value->type == SQLITE_TEXT ? KV_TEXT : KV_BLOB,
                           .bytes = kv_slice_of(value->bytes, (size_t)value->size)};
  size_t start = gathered->bytes.size;
  kv_key_append(&gathered->bytes, part, &datum);
  take_key(gathered, k, start);
  return gathered->bytes.status == KV_OK ? SQLITE_OK : SQLITE_NOMEM;
}

int colfam_gather(struct colfam_gathered *gathered, struct colfam_call *call, int i) {
  const struct colfam_keys *keys = &call->requests[i].keys;
  const struct colfam_schema *schema = call->anchors[i].vtab->schema;
  bool plain = are_keys(schema, keys);
  struct kv_key_part part = plain ? colfam_schema_key_part(schema, 0) : (struct kv_key_part){0};
  int rc = gathered_init(gathered, (size_t)keys->count);
  for (size_t k = 0; k < gathered->count && rc == SQLITE_OK; k++)
    rc = plain && is_short(&keys->values[k]) ? append_bytes(gathered, part, &keys->values[k], k)
                                             : append_key(gathered, call, i, k);
  size_t at = 0;
  for (size_t k = 0; k < gathered->key_count && rc == SQLITE_OK; k++) {
    gathered->keys[k].data = gathered->bytes.data + at;
    at += gathered->keys[k].size;
  }
  return rc;
}

void colfam_gathered_release(struct colfam_gathered *gathered) {
  kv_buf_release(&gathered->bytes);
  if (gathered->places != &gathered->one_place) sqlite3_free(gathered->places);
}

size_t colfam_gathered_place(const struct colfam_gathered *gathered, sqlite3_int64 k) {
  bool is_one = k >= 0 && (sqlite3_uint64)k < gathered->count;
  return is_one ? gathered->places[k] : COLFAM_NOWHERE;
}
