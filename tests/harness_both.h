/* One statement on an ordinary table `o` and a colfam table `t` of the same columns in one database: both
** must answer alike. */
#ifndef HARNESS_BOTH_H
#define HARNESS_BOTH_H

#include "harness_sql.h"

/* Makes both; `suffix` stands behind the ordinary table's columns (" WITHOUT ROWID" or ""), `options` behind
** the colfam table's ("" or ", filter_bits = 3"). */
void both_create(sqlite3 *db, const char *columns, const char *suffix, const char *options);
void both_drop(sqlite3 *db);
/* A statement, written with @ for the table's name: the same rows in the same order, bit for bit and type for
** type, the same extended code, message, changes() and last_insert_rowid(). Returns the code. */
int both(sqlite3 *db, const char *sql);
/* The same for a text in sqlite3_mprintf's format. */
int bothf(sqlite3 *db, const char *format, ...);

#endif
