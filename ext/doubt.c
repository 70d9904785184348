/* See doubt.h. SQLite calls xRollback after a COMMIT that failed, and yet that commit may stand: when the
** journal's end was reached and could not be told in good order (its directory could not be synced), in WAL
** mode when the frames are in the file and only their sync failed (a recovery finds them), or when journals
** do not tie several databases together and one of them was done.
** In the first case the data version has moved, in the second a page was written, both since xSync; neither
** when the application's hook said no, another table's xSync failed, or other connections were in the way.
** Thread rule: the connection's. */
#include "doubt.h"

#include "error.h"

/* An authorizer may hide the list. */
static int note_span(sqlite3 *db, bool *spans, char **message) {
  sqlite3_stmt *names;
  int rc = sqlite3_prepare_v2(db, "PRAGMA database_list", -1, &names, NULL), writing = 0;
  while (rc == SQLITE_OK && sqlite3_step(names) == SQLITE_ROW) {
    const char *name = (const char *)sqlite3_column_text(names, 1);
    writing += name && sqlite3_txn_state(db, name) == SQLITE_TXN_WRITE;
  }
  if (rc == SQLITE_OK) rc = sqlite3_finalize(names);
  *spans = writing != 1;
  return rc == SQLITE_OK || rc == SQLITE_AUTH ? SQLITE_OK
                                              : colfam_error(message, rc, "%s", sqlite3_errmsg(db));
}

static int count_writes(struct colfam_table *table, int *page_writes, unsigned *version) {
  int highest;
  int rc =
      sqlite3_db_status(table->conn->db, SQLITE_DBSTATUS_CACHE_WRITE, page_writes, &highest, 0);
  return rc == SQLITE_OK ? colfam_table_data_version(table, version) : rc;
}

int colfam_doubt_note(struct colfam_table *table, struct colfam_doubt *doubt, char **message) {
  int rc = note_span(table->conn->db, &doubt->spans, message);
  if (rc != SQLITE_OK) return rc;
  rc = count_writes(table, &doubt->page_writes, &doubt->version);
  doubt->published = rc == SQLITE_OK;
  return rc == SQLITE_OK ? rc : colfam_error(message, rc, "cannot ask for the data version");
}

bool colfam_doubt_remains(struct colfam_table *table, const struct colfam_doubt *doubt) {
  int page_writes;
  unsigned version;
  if (!doubt->published || doubt->spans) return doubt->published;
  return count_writes(table, &page_writes, &version) != SQLITE_OK ||
         page_writes != doubt->page_writes || version != doubt->version;
}
