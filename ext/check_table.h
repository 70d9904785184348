/* What PRAGMA integrity_check and quick_check ask of a table, and colfam_check('t') (check_table.c). */
#ifndef COLFAM_CHECK_TABLE_H
#define COLFAM_CHECK_TABLE_H

#include "sqlite_api.h"

/* xIntegrity, which SQLite has since 3.44. Problems become *text (sqlite3_malloc), one a line; NULL when
** all is sound. flags 0 (integrity_check): as colfam_check, but for the shadow tables' own b-trees, which
** SQLite checks itself. 1 (quick_check): the manifest, every file's own description of itself, and the
** log; no block of a file is read. */
int colfam_integrity(sqlite3_vtab *vtab, const char *database, const char *table, int flags,
                     char **text);

#endif
