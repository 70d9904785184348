/* xUpdate: INSERT, UPDATE, DELETE and the commands of the hidden command column. */
#ifndef COLFAM_UPDATE_H
#define COLFAM_UPDATE_H

#include "sqlite_api.h"

int colfam_update(sqlite3_vtab *vtab, int argc, sqlite3_value **argv, sqlite3_int64 *rowid);

#endif
