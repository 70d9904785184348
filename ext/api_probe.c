/* exists, may_exist and probes of colfam.h: one call of the engine a request. A probe keeps the keys, with
** the views that it was made in, so that it can go on where it stopped: what it found in the pending batch
** it keeps as an answer. Thread rule: the connection's. */
#include <string.h>

#include "error.h"
#include "gather.h"
#include "schema.h"

/* The keys of one request, and what is known of each. */
struct keys {
  struct colfam_gathered gathered;
  struct kv_resume *resumes;  /* owns the memory of what follows */
  enum kv_may_exist *answers; /* or, of an exists: */
  bool *found;
  struct kv_view *view; /* a reference, while a probe may go on */
  struct colfam_schema *schema;
  struct { /* memory for one key: the struct stays where it is */
    struct kv_resume resume;
    enum kv_may_exist answer;
    bool found;
  } one;
};

static void release_keys(struct keys *keys) {
  colfam_gathered_release(&keys->gathered);
  if (keys->resumes != &keys->one.resume) sqlite3_free(keys->resumes);
  kv_view_unref(keys->view);
  colfam_schema_unref(keys->schema);
}

/* `bytes`: memory for the keys, or none. */
static int gather_keys(struct colfam_call *call, int i, struct kv_buf bytes, struct keys *keys) {
  size_t each = sizeof *keys->resumes + sizeof *keys->answers + sizeof *keys->found;
  memset(keys, 0, sizeof *keys);
  keys->gathered.bytes = bytes;
  int rc = colfam_gather(&keys->gathered, call, i);
  if (rc != SQLITE_OK) return rc;
  size_t count = keys->gathered.key_count;
  keys->resumes = &keys->one.resume;
  keys->answers = &keys->one.answer;
  keys->found = &keys->one.found;
  if (count <= 1) return SQLITE_OK;
  keys->resumes = sqlite3_malloc64(each * (sqlite3_uint64)count);
  if (!keys->resumes) return SQLITE_NOMEM;
  keys->answers = (enum kv_may_exist *)(void *)(keys->resumes + count);
  keys->found = (bool *)(keys->answers + count);
  return SQLITE_OK;
}

/* ---- Answers at once */

static int exists_in(struct colfam_call *call, int i, struct keys *keys, unsigned char *answers) {
  const struct colfam_anchor *anchor = &call->anchors[i];
  struct kv_err err;
  kv_err_init(&err);
  kv_status status = kv_exists_many(anchor->view, anchor->batch, keys->gathered.keys,
                                    keys->gathered.key_count, keys->found, &err);
  if (status != KV_OK) return colfam_call_error(call, i, status, &err);
  for (size_t k = 0; k < keys->gathered.count; k++) {
    size_t place = keys->gathered.places[k];
    bool found = place != COLFAM_NOWHERE && keys->found[place];
    answers[k] = found ? COLFAM_PRESENT : COLFAM_ABSENT;
  }
  return SQLITE_OK;
}

static int probe_in(struct colfam_call *call, int i, struct keys *keys) {
  const struct colfam_anchor *anchor = &call->anchors[i];
  struct kv_err err;
  kv_err_init(&err);
  kv_status status =
      kv_may_exist_many(anchor->view, anchor->batch, keys->gathered.keys, keys->gathered.key_count,
                        keys->answers, keys->resumes, &err);
  return status == KV_OK ? SQLITE_OK : colfam_call_error(call, i, status, &err);
}

static unsigned char answer_at(const struct keys *keys, sqlite3_int64 k) {
  static const unsigned char answers[] = {
      [KV_ABSENT] = COLFAM_ABSENT, [KV_PRESENT] = COLFAM_PRESENT, [KV_UNKNOWN] = COLFAM_UNKNOWN};
  size_t place = colfam_gathered_place(&keys->gathered, k);
  return place == COLFAM_NOWHERE ? COLFAM_ABSENT : answers[keys->answers[place]];
}

static int may_exist_in(struct colfam_call *call, int i, struct keys *keys,
                        unsigned char *answers) {
  int rc = probe_in(call, i, keys);
  for (size_t k = 0; k < keys->gathered.count && rc == SQLITE_OK; k++)
    answers[k] = answer_at(keys, (sqlite3_int64)k);
  return rc;
}

typedef int (*answer_fn)(struct colfam_call *call, int i, struct keys *keys,
                         unsigned char *answers);

static int answer_all(const struct colfam_api *api, const struct colfam_request *requests,
                      int count, answer_fn answer, unsigned char *answers, char **message) {
  struct colfam_call call;
  int rc = colfam_call_begin(&call, api, requests, count);
  for (int i = 0; i < count && rc == SQLITE_OK; i++) {
    struct keys keys;
    rc = gather_keys(&call, i, colfam_call_take_bytes(&call), &keys);
    if (rc == SQLITE_OK) rc = answer(&call, i, &keys, answers);
    answers += keys.gathered.count;
    colfam_call_give_bytes(&call, &keys.gathered.bytes);
    release_keys(&keys);
  }
  return colfam_call_end(&call, rc, message);
}

int colfam_api_exists(const struct colfam_api *api, const struct colfam_request *requests,
                      int count, unsigned char *answers, char **message) {
  return answer_all(api, requests, count, exists_in, answers, message);
}

int colfam_api_may_exist(const struct colfam_api *api, const struct colfam_request *requests,
                         int count, unsigned char *answers, char **message) {
  return answer_all(api, requests, count, may_exist_in, answers, message);
}

/* ---- Probes */

struct colfam_probe {
  struct colfam_conn *conn; /* a reference */
  int count;
  struct keys requests[];
};

void colfam_api_free_probe(struct colfam_probe *probe) {
  if (!probe) return;
  for (int i = 0; i < probe->count; i++) release_keys(&probe->requests[i]);
  colfam_conn_unref(probe->conn);
  sqlite3_free(probe);
}

static int probe_request(struct colfam_call *call, struct colfam_probe *probe) {
  static const struct kv_buf none = {.data = NULL};
  int i = probe->count++;
  struct keys *keys = &probe->requests[i];
  int rc = gather_keys(call, i, none, keys);
  if (rc == SQLITE_OK) rc = probe_in(call, i, keys);
  if (rc != SQLITE_OK) return rc;
  keys->view = kv_view_ref(call->anchors[i].view);
  keys->schema = colfam_schema_ref(call->anchors[i].vtab->schema);
  return SQLITE_OK;
}

int colfam_api_probe(const struct colfam_api *api, const struct colfam_request *requests, int count,
                     struct colfam_probe **probe, char **message) {
  struct colfam_call call;
  struct colfam_probe *made = NULL;
  *probe = NULL;
  int rc = colfam_call_begin(&call, api, requests, count);
  if (rc == SQLITE_OK) {
    made = sqlite3_malloc64(sizeof *made + sizeof *made->requests * (sqlite3_uint64)count);
    rc = made ? SQLITE_OK : SQLITE_NOMEM;
  }
  if (made) {
    made->conn = colfam_conn_ref(call.conn);
    made->count = 0;
  }
  for (int i = 0; i < count && rc == SQLITE_OK; i++) rc = probe_request(&call, made);
  if (rc == SQLITE_OK)
    *probe = made;
  else
    colfam_api_free_probe(made);
  return colfam_call_end(&call, rc, message);
}

int colfam_api_probed(const struct colfam_probe *probe, int request, sqlite3_int64 key) {
  if (request < 0 || request >= probe->count) return COLFAM_ABSENT;
  return answer_at(&probe->requests[request], key);
}

int colfam_api_go_on(struct colfam_probe *probe, char **message) {
  int rc = SQLITE_OK;
  char *text = NULL;
  for (int i = 0; i < probe->count && rc == SQLITE_OK; i++) {
    struct keys *keys = &probe->requests[i];
    struct kv_err err;
    kv_err_init(&err);
    kv_status status =
        kv_exists_many_resume(keys->view, keys->gathered.keys, keys->gathered.key_count,
                              keys->answers, keys->resumes, &err);
    if (status != KV_OK) rc = colfam_error_of(&text, keys->schema->label, status, &err);
  }
  if (message)
    *message = text;
  else
    sqlite3_free(text);
  return rc;
}
