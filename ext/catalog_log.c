/* Reading t_cflog: rows as the engine's source, and the tail, by which a view follows commits of others. */
#include "catalog.h"

#include <string.h>

#include "catalog_inside.h"

#define TAIL_ROWS_MAX (sizeof((struct colfam_tail *)0)->rows / sizeof(struct kv_log_row))

/* The row that was stepped to; its batch is borrowed. What is not 0 is not NULL, which saves asking. */
static int take_row(struct colfam_catalog *catalog, sqlite3_stmt *from, struct kv_log_row *row,
                    char **message) {
  row->seq = (uint64_t)sqlite3_column_int64(from, 0);
  row->nonce = (uint64_t)sqlite3_column_int64(from, 1);
  row->gen = (uint64_t)sqlite3_column_int64(from, 2);
  row->rows = sqlite3_column_int64(from, 3);
  row->writes = NULL;
  const void *bytes = sqlite3_column_blob(from, 4);
  row->batch = kv_slice_of(bytes, (size_t)sqlite3_column_bytes(from, 4));
  if (row->seq && row->nonce && row->gen && row->rows && bytes) return SQLITE_OK;
  return colfam_catalog_check_nulls(catalog, "cflog", from, message);
}

/* ---- The tail */

/* The row that was stepped to. *same: it comes with the seal. */
static int take_tail_row(struct colfam_catalog *catalog, sqlite3_stmt *from, uint64_t seal,
                         struct colfam_tail *tail, bool *same, char **message) {
  struct kv_log_row *row = &tail->rows[tail->count];
  *same = sqlite3_column_type(from, 5) == SQLITE_INTEGER &&
          (uint64_t)sqlite3_column_int64(from, 5) == seal;
  if (!*same) return SQLITE_OK;
  int rc = take_row(catalog, from, row, message);
  if (rc != SQLITE_OK) return rc;
  kv_buf_append(&tail->bytes, row->batch.data, row->batch.size);
  tail->count++;
  return tail->bytes.status == KV_OK ? SQLITE_OK : SQLITE_NOMEM;
}

/* The batches stand one behind the other, in what no longer moves. */
static void point_at_batches(struct colfam_tail *tail) {
  const uint8_t *at = tail->bytes.data;
  for (size_t i = 0; i < tail->count; i++) {
    tail->rows[i].batch.data = at;
    if (at) at += tail->rows[i].batch.size;
  }
}

int colfam_catalog_read_tail(struct colfam_catalog *catalog, uint64_t from, uint64_t seal,
                             struct colfam_tail *tail, char **message) {
  sqlite3_stmt *statement;
  tail->count = 0;
  tail->whole = false;
  kv_buf_init(&tail->bytes);
  int rc = colfam_catalog_prepare(catalog, COLFAM_SQL_TAIL, &statement, message);
  if (rc != SQLITE_OK) return rc;
  sqlite3_bind_int64(statement, 1, (sqlite3_int64)from);
  sqlite3_bind_int64(statement, 2, (sqlite3_int64)TAIL_ROWS_MAX + 1);
  int taken = SQLITE_OK;
  bool same = true;
  while (taken == SQLITE_OK && same && (rc = sqlite3_step(statement)) == SQLITE_ROW) {
    same = tail->count < TAIL_ROWS_MAX;
    if (same) taken = take_tail_row(catalog, statement, seal, tail, &same, message);
  }
  rc = colfam_catalog_finish(catalog, statement, rc, message);
  point_at_batches(tail);
  tail->whole = same && tail->count;
  return taken != SQLITE_OK ? taken : rc;
}

void colfam_tail_release(struct colfam_tail *tail) {
  kv_buf_release(&tail->bytes);
}

/* ---- Rows */

/* The engine only carries it: rc and message are what the reader's owner gives back. */
static kv_status source_fail(struct colfam_log_reader *reader, int rc, struct kv_err *err) {
  reader->rc = rc;
  return kv_fail(err, rc == SQLITE_NOMEM ? KV_NOMEM : KV_IO, "reading %s_cflog: %s",
                 reader->catalog->label,
                 reader->message ? reader->message : sqlite3_errmsg(reader->catalog->db));
}

static kv_status source_open(void *ctx, uint64_t from, struct kv_err *err) {
  struct colfam_log_reader *reader = ctx;
  colfam_log_reader_close(reader);
  if (reader->tail && from >= reader->tail->rows[0].seq) {
    reader->tail_next = 0;
    while (reader->tail_next < reader->tail->count &&
           reader->tail->rows[reader->tail_next].seq < from)
      reader->tail_next++;
    return KV_OK;
  }
  reader->tail = NULL;
  sqlite3_stmt *statement;
  int rc = colfam_catalog_prepare(reader->catalog, COLFAM_SQL_ROWS, &statement, &reader->message);
  if (rc != SQLITE_OK) return source_fail(reader, rc, err);
  sqlite3_bind_int64(statement, 1, (sqlite3_int64)from);
  sqlite3_bind_int64(statement, 2, (sqlite3_int64)reader->last_seq);
  reader->open = true;
  return KV_OK;
}

static kv_status source_next(void *ctx, struct kv_log_row *row, bool *found, struct kv_err *err) {
  struct colfam_log_reader *reader = ctx;
  sqlite3_stmt *statement = reader->catalog->statements[COLFAM_SQL_ROWS];
  *found = false;
  if (reader->tail && reader->tail_next < reader->tail->count) {
    *row = reader->tail->rows[reader->tail_next++];
    *found = true;
  }
  if (!reader->open) return KV_OK;
  int rc = sqlite3_step(statement);
  if (rc == SQLITE_DONE) return KV_OK;
  if (rc == SQLITE_ROW) rc = take_row(reader->catalog, statement, row, &reader->message);
  if (rc != SQLITE_OK) return source_fail(reader, rc, err);
  *found = true;
  return KV_OK;
}

struct kv_log_source colfam_log_source(struct colfam_log_reader *reader) {
  return (struct kv_log_source){source_open, source_next, reader};
}

void colfam_log_reader_close(struct colfam_log_reader *reader) {
  if (reader->open)
    colfam_catalog_put_back(reader->catalog, reader->catalog->statements[COLFAM_SQL_ROWS],
                            reader->rc != SQLITE_OK);
  reader->open = false;
  sqlite3_free(reader->message);
  reader->message = NULL;
}

int colfam_catalog_has_commit(struct colfam_catalog *catalog, uint64_t seq, uint64_t nonce,
                              bool *has, char **message) {
  sqlite3_stmt *statement;
  *has = false;
  int rc = colfam_catalog_prepare(catalog, COLFAM_SQL_ROWS, &statement, message);
  if (rc != SQLITE_OK) return rc;
  sqlite3_bind_int64(statement, 1, (sqlite3_int64)seq);
  sqlite3_bind_int64(statement, 2, (sqlite3_int64)seq);
  rc = sqlite3_step(statement);
  *has = rc == SQLITE_ROW && (uint64_t)sqlite3_column_int64(statement, 1) == nonce;
  return colfam_catalog_finish(catalog, statement, rc, message);
}
