/* Two connections to a fresh database with a colfam table `t` and an ordinary table `o` of the same columns,
** (k INT PRIMARY KEY, v), for suites that do the same to both and compare. */
#ifndef HARNESS_TWINS_H
#define HARNESS_TWINS_H

#include "harness_sql.h"

extern sqlite3 *a, *b;

#define TWINS_SCHEMA                                    \
  "CREATE TABLE o(k INT PRIMARY KEY, v) WITHOUT ROWID;" \
  "CREATE VIRTUAL TABLE t USING colfam(k INT PRIMARY KEY, v, memtable_bytes = 16384);"

/* Fixtures. The database also has parent(id) and child(id), a deferred foreign key. twins_close compares,
** opens again, compares again and asks colfam_check. */
void twins_open_delete(void);
void twins_open_wal(void);
void twins_close(void);
/* One more connection, foreign keys on. */
sqlite3 *twins_connect(void);

/* Both tables have the same rows in the eyes of this connection. */
void twins_same(sqlite3 *db);
/* The statement on both tables, written with @ for the table's name. */
void twins_both(sqlite3 *db, const char *sql);
/* Keys first..last into both, k -> 'value <k>'. */
void twins_insert(sqlite3 *db, int first, int last);
/* A half-read SELECT of b: it keeps a's commits out in DELETE mode. To be finalized. */
sqlite3_stmt *twins_reader(const char *table);

#endif
