/* What the SQLite that runs may have and the header compiled against may not. */
#ifndef COLFAM_NEWER_H
#define COLFAM_NEWER_H

#include <stdbool.h>

#include "sqlite_api.h"

/* sqlite3_is_interrupted, of SQLite 3.41; false on older ones, which ask by themselves between two rows. */
bool colfam_is_interrupted(sqlite3 *db);

/* sqlite3_module as it is since SQLite 3.44, which calls xIntegrity when iVersion is 4; older ones do not
** look behind what they know. */
struct colfam_module {
  sqlite3_module base;
#if SQLITE_VERSION_NUMBER < 3044000
  int (*xIntegrity)(sqlite3_vtab *vtab, const char *database, const char *table, int flags,
                    char **text);
#endif
};

#endif
