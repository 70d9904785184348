/* xUpdate: INSERT, UPDATE, DELETE and the commands of the hidden command column. */
#ifndef COLFAM_UPDATE_H
#define COLFAM_UPDATE_H

#include "sqlite_api.h"
#include "vtab.h"

int colfam_update(sqlite3_vtab *vtab, int argc, sqlite3_value **argv, sqlite3_int64 *rowid);
/* Frees what the first write of this vtab object made. */
void colfam_update_release(struct colfam_vtab *vtab);

#endif
