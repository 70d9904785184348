/* Shared by the SQL suites: databases with the extension loaded, statements that must work or must fail,
** answers as one text. Every helper fails the running test with the SQL and SQLite's message. */
#ifndef HARNESS_SQL_H
#define HARNESS_SQL_H

#include <sqlite3.h>
#include <stdbool.h>

#include "harness.h"

/* The extension: $COLFAM_SO, else the macro COLFAM_SO, else build/colfam.so. With -DSQLITE_CORE
** it is linked statically and nothing is loaded. */
const char *sql_extension(void);
int sql_load(sqlite3 *db, char **message);
/* For connections loaded later: 1 lets the extension have its thread. At first it has none here, so that what
** lies on disk after a commit is known; $COLFAM_THREADS gives it one in any suite. */
void sql_use_threads(int threads);

/* ThreadSanitizer cannot follow a child that starts threads. */
#ifdef __SANITIZE_THREAD__
#define FORKS_ARE_FOLLOWED 0
#else
#define FORKS_ARE_FOLLOWED 1
#endif

/* <harness_dir()>/<name>; good until the thread's fourth next call. */
const char *sql_path(const char *name);
/* A read-write connection with the extension loaded; ":memory:" and "" as SQLite means them. With
** $COLFAM_DEFENSIVE it is in defensive mode and trusts no schema; $COLFAM_SQLITE is the version it must
** be. */
sqlite3 *sql_open(const char *path);
/* Undoes that: for tests that write shadow tables, or triggers and views that use colfam tables. */
void sql_trust(sqlite3 *db);
/* Fails when a statement was left open. */
void sql_close(sqlite3 *db);

/* All statements of the text must work; rows are thrown away. */
void sql_ok(sqlite3 *db, const char *sql);
/* The same for a text in sqlite3_mprintf's format. */
void sql_okf(sqlite3 *db, const char *format, ...);
/* The text must fail with this code (an extended code, or a primary one when code < 256) and a message
** that has `text` in it (NULL: any). */
void sql_fails(sqlite3 *db, const char *sql, int code, const char *text);

/* The rows: joined by '\n', columns by '|', NULL as NULL, blobs as x'..', all else as SQLite's text.
** The caller frees with sqlite3_free. */
char *sql_query(sqlite3 *db, const char *sql);
/* Tables are in another order with $COLFAM_TEST_COMPARATOR (make check-orders): not native, for what
** only the columns' own order has (plans, counters of what they read); reverse, which has the same plans. */
bool sql_native(void);
bool sql_reverse(void);
bool sql_has_ranges(void); /* either */
bool sql_calls(void);      /* ordered by a comparator */
/* There rows come in another order when no ORDER BY says which, and LIMIT chooses others. */
bool sql_keeps_order(const char *sql);
bool sql_chooses_rows(const char *sql);
/* Makes such an answer comparable, in place: its lines, and what group_concat has joined, are sorted; of
** chosen rows their number is left. */
void sql_settle_order(const char *sql, char *rows);
/* The rows must be these. */
void sql_rows(sqlite3 *db, const char *sql, const char *expected);
/* Both texts must give the same rows. */
void sql_same(sqlite3 *db, const char *sql, const char *other);
sqlite3_int64 sql_int(sqlite3 *db, const char *sql);
/* The EXPLAIN QUERY PLAN of the statement must have `text` in it; a range only where keys have such. */
void sql_plan(sqlite3 *db, const char *sql, const char *text);

#endif
