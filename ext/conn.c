/* See conn.h. */
#include "conn.h"

#include <string.h>

#include "table.h"
#include "txn.h"

struct colfam_conn *colfam_conn_new(sqlite3 *db) {
  struct colfam_conn *conn = sqlite3_malloc64(sizeof *conn);
  if (!conn) return NULL;
  memset(conn, 0, sizeof *conn);
  conn->db = db;
  conn->refs = 1;
  return conn;
}

struct colfam_conn *colfam_conn_ref(struct colfam_conn *conn) {
  conn->refs++;
  return conn;
}

void colfam_conn_unref(void *context) {
  struct colfam_conn *conn = context;
  if (--conn->refs) return;
  while (conn->tables) {
    /* A CREATE that ran out of memory may have left a transaction that SQLite never knew. */
    if (conn->tables->txn) colfam_txn_rollback(conn->tables->txn);
    colfam_table_free(conn->tables);
  }
  sqlite3_free(conn->api);
  sqlite3_free(conn);
}
