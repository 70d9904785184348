/* See gather.h. The bytes move while they grow: where keys begin is set when all are there. */
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

static int append_key(struct colfam_gathered *gathered, struct colfam_call *call, int i, size_t k) {
  bool possible;
  size_t start = gathered->bytes.size;
  gathered->places[k] = COLFAM_NOWHERE;
  int rc = colfam_call_append_key(call, i, k, &gathered->bytes, &possible);
  if (rc != SQLITE_OK || !possible) {
    gathered->bytes.size = start;
    return rc;
  }
  gathered->keys[gathered->key_count] = kv_slice_of(NULL, gathered->bytes.size - start);
  gathered->places[k] = gathered->key_count++;
  return SQLITE_OK;
}

int colfam_gather(struct colfam_gathered *gathered, struct colfam_call *call, int i) {
  int rc = gathered_init(gathered, (size_t)call->requests[i].keys.count);
  for (size_t k = 0; k < gathered->count && rc == SQLITE_OK; k++)
    rc = append_key(gathered, call, i, k);
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
