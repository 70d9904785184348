/* Statuses and error text.
**
** The text is formatted where the facts are known, into the caller's buffer: reporting a failure
** never allocates, so it works when memory is out. Text that is too long is cut between two UTF-8
** characters, because readers above SQLite decode it strictly. Any thread; the buffer belongs to
** the caller. */
#include "status.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* Drops the UTF-8 character that the end of the buffer cut in two, if there is one. */
static void drop_partial_character(char *text) {
  size_t size = strlen(text);
  size_t start = size;
  while (start && size - start < 4 && (text[start - 1] & 0xc0) == 0x80) start--;
  if (!start) return;
  unsigned char lead = (unsigned char)text[start - 1];
  size_t whole = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1;
  if (size - (start - 1) < whole) text[start - 1] = '\0';
}

kv_status kv_fail(struct kv_err *err, kv_status status, const char *format, ...) {
  if (!err) return status;
  va_list args;
  va_start(args, format);
  int wanted = vsnprintf(err->text, sizeof err->text, format, args);
  va_end(args);
  if (wanted < 0) err->text[0] = '\0';
  if (wanted >= (int)sizeof err->text) drop_partial_character(err->text);
  err->status = status;
  return status;
}

kv_status kv_fail_nomem(struct kv_err *err) {
  return kv_fail(err, KV_NOMEM, "out of memory");
}

const char *kv_status_name(kv_status status) {
  switch (status) {
    case KV_OK:
      return "ok";
    case KV_NOMEM:
      return "nomem";
    case KV_IO:
      return "io";
    case KV_DENIED:
      return "denied";
    case KV_FULL:
      return "full";
    case KV_BUSY:
      return "busy";
    case KV_CORRUPT:
      return "corrupt";
    case KV_MISSING:
      return "missing";
    case KV_MISUSE:
      return "misuse";
    case KV_CANCELED:
      return "canceled";
    case KV_VERSION:
      return "version";
  }
  return "unknown";
}
