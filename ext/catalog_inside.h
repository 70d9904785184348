/* What the catalog*.c files share: the use of a statement from prepared to reset. */
#ifndef COLFAM_CATALOG_INSIDE_H
#define COLFAM_CATALOG_INSIDE_H

#include "catalog.h"

/* The cached statement, reset and unbound. */
int colfam_catalog_prepare(struct colfam_catalog *catalog, enum colfam_sql which,
                           sqlite3_stmt **statement, char **message);
/* Resets a statement; one that failed is prepared again next time: what made it fail may be a view or trigger
** of somebody's, through which it would keep the table's own vtab from ever being disconnected. */
void colfam_catalog_put_back(struct colfam_catalog *catalog, sqlite3_stmt *statement, bool failed);
/* Ends a SELECT's use; rc is what its last step gave. Borrowed bindings are let go. */
int colfam_catalog_finish(struct colfam_catalog *catalog, sqlite3_stmt *statement, int rc,
                          char **message);
/* The row that was stepped to: SQLITE_OK when it has no NULLs. `shadow`: of which shadow table. */
int colfam_catalog_check_nulls(struct colfam_catalog *catalog, const char *shadow,
                               sqlite3_stmt *row, char **message);

#endif
