/* SQLite's header for every file of ext/: as a loadable extension (the routines come through a pointer
** that colfam.c defines), or directly in static builds (-DSQLITE_CORE). */
#ifndef COLFAM_SQLITE_API_H
#define COLFAM_SQLITE_API_H

#ifdef SQLITE_CORE
#include <sqlite3.h>
#else
#include <sqlite3ext.h>
extern const sqlite3_api_routines *sqlite3_api;
#endif

/* Whether a statement is to be prepared anew; true also where SQLite was built without telling. */
static inline int colfam_statement_expired(sqlite3_stmt *statement) {
#ifdef SQLITE_OMIT_DEPRECATED
  return statement != NULL;
#elif defined(SQLITE_CORE)
  return sqlite3_expired(statement);
#else
  return !sqlite3_api->expired || sqlite3_api->expired(statement);
#endif
}

#endif
