/* The entry points. Loading registers modules and functions on one connection; the library stays loaded
** (it owns process-wide state). Loading it again on the same connection changes nothing, but that
** sqlite3_colfam_readonly_init restricts it. */
#include "colfam.h"

#include "sqlite_api.h"

#ifndef SQLITE_CORE
SQLITE_EXTENSION_INIT1
#endif

#include "conn.h"
#include "drop.h"
#include "engine/kv.h"
#include "killpoint.h"
#include "vtab.h"

#define LOWEST_SQLITE 3038000

/* Static builds are called by sqlite3_auto_extension, which takes every other code for a failure. */
#ifdef SQLITE_CORE
#define LOADED SQLITE_OK
#else
#define LOADED SQLITE_OK_LOAD_PERMANENTLY
#endif

static const char too_old[] = "colfam needs SQLite 3.38 or newer, this is %s";

#ifdef SQLITE_CORE
static int take_api(const sqlite3_api_routines *api, char **message) {
  (void)api;
  if (sqlite3_libversion_number() >= LOWEST_SQLITE) return SQLITE_OK;
  *message = sqlite3_mprintf(too_old, sqlite3_libversion());
  return SQLITE_ERROR;
}
#else
/* Every connection of the process calls SQLite through the one pointer: it is set once, and threads that
** load at the same time see it set. A second copy of SQLite in the process cannot be served, nor an old
** one: what it does not know is not even in its table. */
static int take_api(const sqlite3_api_routines *api, char **message) {
  const sqlite3_api_routines *known = __atomic_load_n(&sqlite3_api, __ATOMIC_ACQUIRE);
  if (api->libversion_number() < LOWEST_SQLITE) {
    *message = api->mprintf(too_old, api->libversion());
    return SQLITE_ERROR;
  }
  if (!known &&
      __atomic_compare_exchange_n(&sqlite3_api, &known, api, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
    return SQLITE_OK;
  if (known == api) return SQLITE_OK;
  *message = api->mprintf("another copy of SQLite in this process has loaded colfam already");
  return SQLITE_ERROR;
}
#endif

static int register_all(sqlite3 *db, int readonly) {
  struct colfam_conn *conn = colfam_conn_new(db);
  if (!conn) return SQLITE_NOMEM;
  if (readonly) colfam_conn_restrict(conn);
  int rc = sqlite3_create_module_v2(db, "colfam", &colfam_module.base, colfam_conn_ref(conn),
                                    colfam_conn_unref);
  if (rc == SQLITE_OK && !readonly) rc = colfam_drops_register(conn);
  if (rc == SQLITE_OK) rc = colfam_functions_register(conn);
  if (rc == SQLITE_OK) rc = colfam_conn_register(conn);
  colfam_conn_unref(conn);
  return rc;
}

/* Of the two ways to load, the restricted one wins for the rest of the connection's life. */
static int load_again(struct colfam_conn *conn, int readonly, char **message) {
  if (readonly) colfam_conn_restrict(conn);
  if (!conn->readonly || readonly) return SQLITE_OK;
  *message = sqlite3_mprintf("colfam was loaded read-only on this connection: open another one");
  return SQLITE_ERROR;
}

static int load(sqlite3 *db, char **message, const sqlite3_api_routines *api, int readonly) {
  if (take_api(api, message) != SQLITE_OK) return SQLITE_ERROR;
  if (colfam_is_test_build()) kv_drops_check(true);
  struct colfam_conn *conn = colfam_conn_of(db);
  int rc = conn ? load_again(conn, readonly, message) : register_all(db, readonly);
  return rc == SQLITE_OK ? LOADED : rc;
}

__attribute__((visibility("default"))) int sqlite3_colfam_init(sqlite3 *db, char **message,
                                                               const sqlite3_api_routines *api) {
  return load(db, message, api, 0);
}

__attribute__((visibility("default"))) int sqlite3_colfam_readonly_init(
    sqlite3 *db, char **message, const sqlite3_api_routines *api) {
  return load(db, message, api, 1);
}
