/* From the engine's statuses to SQLite's codes: the one place. */
#ifndef COLFAM_ERROR_H
#define COLFAM_ERROR_H

#include <stdarg.h>

#include "engine/kv.h"
#include "sqlite_api.h"

/* SQLITE_OK, NOMEM, IOERR, FULL, BUSY, CORRUPT_VTAB, CANTOPEN (a missing file), MISUSE, INTERRUPT, ERROR. */
int colfam_code(kv_status status);

/* Replaces *message (sqlite3_malloc memory or NULL) by "table <name>: <engine's text>" and returns the
** code. name may be NULL. */
int colfam_error_of(char **message, const char *table, kv_status status, const struct kv_err *err);

/* How messages call a table: t, or aux.t outside the main database; sqlite3_malloc memory, NULL without. */
char *colfam_label(const char *database, const char *table);

/* Replaces *message by a formatted text (sqlite3_vmprintf) and returns rc; SQLITE_NOMEM when that fails. The
** old message may be among the arguments. Every message is valid UTF-8, whatever was quoted in it. With
** SQLITE_NOMEM *message becomes NULL: SQLite says "out of memory". */
int colfam_error(char **message, int rc, const char *format, ...);
int colfam_error_list(char **message, int rc, const char *format, va_list args);

/* The result of an SQL function: the code, and the message (or NULL), which is taken over. */
void colfam_result_error(sqlite3_context *context, int rc, char *message);

#endif
