/* What the SQLite that runs may have and the header compiled against may not. */
#ifndef COLFAM_NEWER_H
#define COLFAM_NEWER_H

#include <stdbool.h>

#include "sqlite_api.h"

/* sqlite3_is_interrupted, of SQLite 3.41; false on older ones, which ask by themselves between two rows. */
bool colfam_is_interrupted(sqlite3 *db);

#endif
