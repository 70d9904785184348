/* Cursors: xOpen only allocates; xFilter takes the view, gathers the keys, makes one engine call; the rest
** hands out. A cursor owns references to all that it reads, so it stays safe across any write, commit or
** rollback, and shows none of what is written after xFilter. */
#ifndef COLFAM_CURSOR_H
#define COLFAM_CURSOR_H

#include "sqlite_api.h"
#include "vtab.h"

int colfam_cursor_open(sqlite3_vtab *vtab, sqlite3_vtab_cursor **cursor);
int colfam_cursor_close(sqlite3_vtab_cursor *cursor);
int colfam_cursor_filter(sqlite3_vtab_cursor *cursor, int idx_num, const char *idx_str, int argc,
                         sqlite3_value **argv);
int colfam_cursor_next(sqlite3_vtab_cursor *cursor);
int colfam_cursor_eof(sqlite3_vtab_cursor *cursor);
int colfam_cursor_column(sqlite3_vtab_cursor *cursor, sqlite3_context *context, int column);
int colfam_cursor_rowid(sqlite3_vtab_cursor *cursor, sqlite3_int64 *rowid);

/* Closed cursors that a vtab keeps. */
void colfam_cursor_free_spares(struct colfam_vtab *vtab);

#endif
