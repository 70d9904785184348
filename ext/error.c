/* See error.h. Any thread. */
#include "error.h"

/* What most often made a table file missing. */
static const char missing_hint[] =
    " (a database is copied and moved together with its -colfam directory)";

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

/* The old text may be among the arguments that made the new one, so it goes last. */
static int replace_message(char **message, char *text, int rc) {
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

int colfam_error(char **message, int rc, const char *format, ...) {
  va_list args;
  va_start(args, format);
  char *text = sqlite3_vmprintf(format, args);
  va_end(args);
  return replace_message(message, text, rc);
}
