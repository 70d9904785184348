/* See newer.h. SQLite only ever appends to its table of functions, so what follows the header's last entry is
** where the next version has its first new one. Thread rule: as SQLite's function. */
#include "newer.h"

#if SQLITE_VERSION_NUMBER >= 3041000

bool colfam_is_interrupted(sqlite3 *db) {
  return sqlite3_libversion_number() >= 3041000 && sqlite3_is_interrupted(db);
}

#elif !defined(SQLITE_CORE) && SQLITE_VERSION_NUMBER >= 3040000

struct api_of_3_41 {
  sqlite3_api_routines of_3_40;
  int (*is_interrupted)(sqlite3 *);
};

bool colfam_is_interrupted(sqlite3 *db) {
  if (sqlite3_libversion_number() < 3041000) return false;
  return ((const struct api_of_3_41 *)sqlite3_api)->is_interrupted(db) != 0;
}

#else

bool colfam_is_interrupted(sqlite3 *db) {
  (void)db;
  return false;
}

#endif
