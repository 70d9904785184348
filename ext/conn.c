/* See conn.h. */
#include "conn.h"

#include <string.h>

#include "api.h"
#include "error.h"
#include "table.h"
#include "txn.h"
#include "worker.h"

struct colfam_conn *colfam_conn_new(sqlite3 *db) {
  struct colfam_conn *conn = sqlite3_malloc64(sizeof *conn);
  if (!conn) return NULL;
  memset(conn, 0, sizeof *conn);
  if (!colfam_worker_come()) {
    sqlite3_free(conn);
    return NULL;
  }
  conn->db = db;
  conn->fork_number = colfam_worker_fork_number();
  conn->refs = 1;
  return conn;
}

struct colfam_conn *colfam_conn_ref(struct colfam_conn *conn) {
  conn->refs++;
  return conn;
}

void colfam_conn_unref(void *context) {
  struct colfam_conn *conn = context;
  if (--conn->refs || colfam_conn_is_inherited(conn)) return;
  while (conn->tables) {
    /* A CREATE that ran out of memory may have left a transaction that SQLite never knew. */
    if (conn->tables->txn) colfam_txn_rollback(conn->tables->txn);
    colfam_table_free(conn->tables);
  }
  colfam_api_free(conn->api);
  sqlite3_free(conn);
  colfam_worker_leave();
}

bool colfam_conn_is_inherited(const struct colfam_conn *conn) {
  return conn->fork_number != colfam_worker_fork_number();
}

int colfam_conn_refuse_fork(const struct colfam_conn *conn, char **message) {
  if (!colfam_conn_is_inherited(conn)) return SQLITE_OK;
  return colfam_error(
      message, SQLITE_MISUSE,
      "this connection was opened before fork(): a child process has to open its own");
}

void colfam_conn_restrict(struct colfam_conn *conn) {
  conn->readonly = true;
}

int colfam_conn_refuse(const struct colfam_conn *conn, const char *what, char **message) {
  if (!conn->readonly) return SQLITE_OK;
  return colfam_error(message, SQLITE_READONLY,
                      "%s: colfam was loaded read-only on this connection: existing tables can be "
                      "read, nothing else",
                      what);
}

/* ---- From the connection back to its context: SQLite keeps it as a function's */

#define POINTER_TYPE "colfam_conn"

/* No SQL text can make such a pointer. */
static void connection_function(sqlite3_context *context, int argc, sqlite3_value **argv) {
  (void)argc;
  struct colfam_conn **into = sqlite3_value_pointer(argv[0], POINTER_TYPE);
  if (into) *into = sqlite3_user_data(context);
}

int colfam_conn_register(struct colfam_conn *conn) {
  return sqlite3_create_function_v2(conn->db, "colfam_connection", 1,
                                    SQLITE_UTF8 | SQLITE_DIRECTONLY, colfam_conn_ref(conn),
                                    connection_function, NULL, NULL, colfam_conn_unref);
}

struct colfam_conn *colfam_conn_of(sqlite3 *db) {
  struct colfam_conn *conn = NULL;
  sqlite3_stmt *statement = NULL;
  if (sqlite3_prepare_v2(db, "SELECT colfam_connection(?1)", -1, &statement, NULL) == SQLITE_OK &&
      sqlite3_bind_pointer(statement, 1, &conn, POINTER_TYPE, NULL) == SQLITE_OK)
    sqlite3_step(statement);
  sqlite3_finalize(statement);
  /* sqlite3_open fails after an automatic extension that leaves an error behind: a statement that works
  ** clears it. */
  if (sqlite3_prepare_v2(db, "SELECT 1", -1, &statement, NULL) == SQLITE_OK)
    sqlite3_finalize(statement);
  return conn;
}
