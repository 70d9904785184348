/* The entry point. Loading registers modules and functions on one connection; the library stays loaded
** (it owns process-wide state). Loading it again on the same connection changes nothing. */
#include "colfam.h"

#include "sqlite_api.h"

#ifndef SQLITE_CORE
SQLITE_EXTENSION_INIT1
#endif

#include "conn.h"
#include "drop.h"
#include "vtab.h"

#define LOWEST_SQLITE 3038000

/* Static builds are called by sqlite3_auto_extension, which takes every other code for a failure. */
#ifdef SQLITE_CORE
#define LOADED SQLITE_OK
#else
#define LOADED SQLITE_OK_LOAD_PERMANENTLY
#endif

#ifndef SQLITE_CORE
/* Every connection of the process calls SQLite through the one pointer: it is set once, and threads that
** load at the same time see it set. A second copy of SQLite in the process cannot be served. */
static int take_api(const sqlite3_api_routines *api, char **message) {
  const sqlite3_api_routines *known = __atomic_load_n(&sqlite3_api, __ATOMIC_ACQUIRE);
  if (!known &&
      __atomic_compare_exchange_n(&sqlite3_api, &known, api, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
    return SQLITE_OK;
  if (known == api) return SQLITE_OK;
  *message = api->mprintf("another copy of SQLite in this process has loaded colfam already");
  return SQLITE_ERROR;
}
#endif

static int can_prepare(sqlite3 *db, const char *sql) {
  sqlite3_stmt *statement = NULL;
  int rc = sqlite3_prepare_v2(db, sql, -1, &statement, NULL);
  sqlite3_finalize(statement);
  return rc == SQLITE_OK;
}

/* A statement that works follows the one that may fail: sqlite3_open fails after an automatic extension
** that leaves an error behind on the connection. */
static int is_loaded(sqlite3 *db) {
  int loaded = can_prepare(db, "SELECT colfam_version()");
  return can_prepare(db, "SELECT 1") && loaded;
}

__attribute__((visibility("default"))) int sqlite3_colfam_init(sqlite3 *db, char **message,
                                                               const sqlite3_api_routines *api) {
#ifdef SQLITE_CORE
  (void)api;
#else
  if (take_api(api, message) != SQLITE_OK) return SQLITE_ERROR;
#endif
  if (sqlite3_libversion_number() < LOWEST_SQLITE) {
    *message =
        sqlite3_mprintf("colfam needs SQLite 3.38 or newer, this is %s", sqlite3_libversion());
    return SQLITE_ERROR;
  }
  if (is_loaded(db)) return LOADED;
  struct colfam_conn *conn = colfam_conn_new(db);
  if (!conn) return SQLITE_NOMEM;
  int rc = sqlite3_create_module_v2(db, "colfam", &colfam_module, colfam_conn_ref(conn),
                                    colfam_conn_unref);
  if (rc == SQLITE_OK) rc = colfam_drops_register(conn);
  if (rc == SQLITE_OK) rc = colfam_functions_register(conn);
  colfam_conn_unref(conn);
  return rc == SQLITE_OK ? LOADED : rc;
}
