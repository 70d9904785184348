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

#endif
