/* Reading t_cflog: the newest row, rows as the engine's source, and whether the manifest is still the one that
** is known, so that a view needs nothing but these rows. */
#include "catalog.h"

#include "catalog_inside.h"

int colfam_catalog_seal_is(struct colfam_catalog *catalog, uint64_t seal, bool *same,
                           char **message) {
  sqlite3_stmt *statement;
  *same = false;
  int rc = colfam_catalog_prepare(catalog, COLFAM_SQL_SEAL, &statement, message);
  if (rc != SQLITE_OK) return rc;
  rc = sqlite3_step(statement);
  *same = rc == SQLITE_ROW && sqlite3_column_type(statement, 0) == SQLITE_INTEGER &&
          (uint64_t)sqlite3_column_int64(statement, 0) == seal;
  return colfam_catalog_finish(catalog, statement, rc, message);
}

int colfam_catalog_read_last(struct colfam_catalog *catalog, struct kv_snapshot *snapshot,
                             char **message) {
  sqlite3_stmt *statement;
  int rc = colfam_catalog_prepare(catalog, COLFAM_SQL_LAST, &statement, message);
  if (rc != SQLITE_OK) return rc;
  rc = sqlite3_step(statement);
  int taken = rc == SQLITE_ROW ? colfam_catalog_check_nulls(catalog, "cflog", statement, message)
                               : SQLITE_OK;
  if (rc == SQLITE_ROW &&
      sqlite3_column_int64(statement, 0) > (sqlite3_int64)snapshot->log.flushed_seq) {
    snapshot->log.last_seq = (uint64_t)sqlite3_column_int64(statement, 0);
    snapshot->log.last_nonce = (uint64_t)sqlite3_column_int64(statement, 1);
    snapshot->rows = sqlite3_column_int64(statement, 2);
    if (snapshot->rows < -1) snapshot->rows = -1;
  }
  rc = colfam_catalog_finish(catalog, statement, rc, message);
  return taken != SQLITE_OK ? taken : rc;
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
  if (!reader->open) return KV_OK;
  int rc = sqlite3_step(statement);
  if (rc == SQLITE_DONE) return KV_OK;
  if (rc == SQLITE_ROW)
    rc = colfam_catalog_check_nulls(reader->catalog, "cflog", statement, &reader->message);
  if (rc != SQLITE_OK) return source_fail(reader, rc, err);
  row->seq = (uint64_t)sqlite3_column_int64(statement, 0);
  row->nonce = (uint64_t)sqlite3_column_int64(statement, 1);
  row->gen = (uint64_t)sqlite3_column_int64(statement, 2);
  row->rows = sqlite3_column_int64(statement, 3);
  const void *bytes = sqlite3_column_blob(statement, 4);
  row->batch = kv_slice_of(bytes, (size_t)sqlite3_column_bytes(statement, 4));
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
