/* See error.h. Any thread. */
#include "error.h"

#include <stdbool.h>

/* What most often made a table file missing. */
static const char missing_hint[] = " (the files of a database are in its -colfam directory: copy "
                                   "it with colfam_backup, move both together)";

int colfam_code(kv_status status) {
  switch (status) {
    case KV_OK:
      return SQLITE_OK;
    case KV_NOMEM:
      return SQLITE_NOMEM;
    case KV_IO:
      return SQLITE_IOERR;
    case KV_FULL:
      return SQLITE_FULL;
    case KV_BUSY:
      return SQLITE_BUSY;
    case KV_CORRUPT:
      return SQLITE_CORRUPT_VTAB;
    case KV_DENIED:
    case KV_MISSING:
      return SQLITE_CANTOPEN;
    case KV_MISUSE:
      return SQLITE_MISUSE;
    case KV_CANCELED:
      return SQLITE_INTERRUPT;
    case KV_VERSION:
      return SQLITE_ERROR;
  }
  return SQLITE_ERROR;
}

/* How many bytes the UTF-8 character at p has; 0 when there is none. Does not look behind a zero byte. */
static int character_bytes(const unsigned char *p) {
  if (*p < 0x80) return 1;
  int bytes = *p >= 0xf0 ? 4 : *p >= 0xe0 ? 3 : 2;
  unsigned lowest = bytes == 4 ? 0x10000 : bytes == 3 ? 0x800 : 0x80;
  unsigned code = *p & (0x7fu >> bytes);
  if (*p < 0xc0 || *p >= 0xf8) return 0;
  for (int i = 1; i < bytes; i++) {
    if ((p[i] & 0xc0) != 0x80) return 0;
    code = code << 6 | (p[i] & 0x3f);
  }
  bool surrogate = code >= 0xd800 && code < 0xe000;
  return code >= lowest && code <= 0x10ffff && !surrogate ? bytes : 0;
}

/* What is quoted may come from disk or be cut in the middle of a character: nobody's terminal or decoder
** should suffer. */
static void make_text(char *text) {
  for (unsigned char *p = (unsigned char *)text; *p;) {
    int bytes = character_bytes(p);
    if (!bytes) *p = '?';
    p += bytes ? bytes : 1;
  }
}

/* The old text may be among the arguments that made the new one, so it goes last. */
static int replace_message(char **message, char *text, int rc) {
  if (text) make_text(text);
  sqlite3_free(*message);
  *message = text;
  return text ? rc : SQLITE_NOMEM;
}

int colfam_error_of(char **message, const char *table, kv_status status, const struct kv_err *err) {
  const char *text = err && err->text[0] ? err->text : kv_status_name(status);
  const char *hint = status == KV_MISSING ? missing_hint : "";
  char *whole = table ? sqlite3_mprintf("table %s: %s%s", table, text, hint)
                      : sqlite3_mprintf("%s%s", text, hint);
  return replace_message(message, whole, colfam_code(status));
}

char *colfam_label(const char *database, const char *table) {
  bool is_main = sqlite3_stricmp(database, "main") == 0;
  return is_main ? sqlite3_mprintf("%s", table) : sqlite3_mprintf("%s.%s", database, table);
}

/* Without memory, what a connection says at that moment may belong to another call. */
int colfam_error_list(char **message, int rc, const char *format, va_list args) {
  if (rc == SQLITE_NOMEM) return replace_message(message, NULL, rc);
  return replace_message(message, sqlite3_vmprintf(format, args), rc);
}

int colfam_error(char **message, int rc, const char *format, ...) {
  va_list args;
  va_start(args, format);
  rc = colfam_error_list(message, rc, format, args);
  va_end(args);
  return rc;
}

/* The text goes first: setting it resets the code. */
void colfam_result_error(sqlite3_context *context, int rc, char *message) {
  if (message) sqlite3_result_error(context, message, -1);
  sqlite3_result_error_code(context, rc);
  sqlite3_free(message);
}
