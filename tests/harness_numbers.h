/* A database with a table of even numbers, for suites about looking inside. */
#ifndef HARNESS_NUMBERS_H
#define HARNESS_NUMBERS_H

#include <sys/types.h>

#include "harness_sql.h"

extern sqlite3 *db;

/* Fixtures: app.db, without tables. */
void numbers_open(void);
void numbers_close(void);
void numbers_reopen(void);
/* A table t(k INTEGER PRIMARY KEY-like, v) with even keys 2..200 in one file. */
void numbers_make(void);
/* The path of a file of the table: good until the next call. */
const char *numbers_file(const char *table);
void numbers_flip(const char *path, off_t position);

#endif
