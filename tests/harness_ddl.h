/* Shared by the suites on DDL: tables with rows in a file, statements
** that must leave nothing behind. */
#ifndef HARNESS_DDL_H
#define HARNESS_DDL_H

#include "harness_sql.h"

#define SHADOWS "SELECT count(*) FROM sqlite_master WHERE name GLOB '*_cf*'"

/* Table files in the directory of the database sql_path("app.db"); -1 when there is no directory. */
int ddl_files(void);
/* A table (k INT PRIMARY KEY, v TEXT) with rows (1, 'v1') to (n, 'vn'), flushed into one file. */
void ddl_make_table(sqlite3 *db, const char *name, int n);
/* The statement fails and leaves the schema and the disk as they were. */
void ddl_refused(sqlite3 *db, const char *sql, int code, const char *text);

#endif
