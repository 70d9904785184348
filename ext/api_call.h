/* What the functions of colfam.h share: the object that callers hold, and a call, whose tables are all
** anchored at one snapshot before anything is read. Thread rule: the connection's. */
#ifndef COLFAM_API_CALL_H
#define COLFAM_API_CALL_H

#include <stdbool.h>
#include <stddef.h>

#include "colfam.h"
#include "conn.h"
#include "engine/kv.h"
#include "key_value.h"
#include "sqlite_api.h"
#include "table.h"

struct api_object {
  struct colfam_api api; /* first: what callers see */
  struct colfam_conn *conn;
  struct kv_buf key_bytes; /* memory for the next call that needs keys only until it ends */
};

struct colfam_call {
  struct colfam_conn *conn;
  const struct colfam_request *requests;
  int count;
  struct colfam_anchor *anchors; /* one a request */
  struct colfam_anchor one;      /* memory for the first */
  int anchored;
  struct colfam_key_values values;
  char *message;
};
/* The program calls from outside SQLite, whose values and statements ask for the connection's mutex: held
** until the end, which comes after a failure too. */
int colfam_call_begin(struct colfam_call *call, const struct colfam_api *api,
                      const struct colfam_request *requests, int count);
/* Returns rc; *message (may be NULL) gets the text of it. */
int colfam_call_end(struct colfam_call *call, int rc, char **message);
/* The object's memory for keys, to be given back / gives it back, or memory in its place. */
struct kv_buf colfam_call_take_bytes(const struct colfam_call *call);
void colfam_call_give_bytes(const struct colfam_call *call, struct kv_buf *bytes);
/* An error of the engine in request i. */
int colfam_call_error(struct colfam_call *call, int i, kv_status status, const struct kv_err *err);
/* Appends the encoded key number `k` of request i; not *possible: no row can have it. */
int colfam_call_append_key(struct colfam_call *call, int i, size_t k, struct kv_buf *bytes,
                           bool *possible);

int colfam_api_exists(const struct colfam_api *api, const struct colfam_request *requests,
                      int count, unsigned char *answers, char **message);
int colfam_api_may_exist(const struct colfam_api *api, const struct colfam_request *requests,
                         int count, unsigned char *answers, char **message);
int colfam_api_probe(const struct colfam_api *api, const struct colfam_request *requests, int count,
                     struct colfam_probe **probe, char **message);
int colfam_api_probed(const struct colfam_probe *probe, int request, sqlite3_int64 key);
int colfam_api_go_on(struct colfam_probe *probe, char **message);
void colfam_api_free_probe(struct colfam_probe *probe);

#endif
