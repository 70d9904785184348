/* Encoded keys for people: SQL literals, joined by ", ". */
#ifndef COLFAM_KEY_TEXT_H
#define COLFAM_KEY_TEXT_H

#include "engine/kv.h"
#include "schema.h"
#include "sqlite_api.h"

/* Appends the key's columns as SQL literals ('it''s', 7, x'00FF'), texts as their collation folds them (the
** literal is equal to what was stored); bytes that are no key of this schema as "damaged key x'..'".
** SQLITE_NOMEM, or the string's own error. */
int colfam_key_text(const struct colfam_schema *schema, struct kv_slice key, sqlite3_str *text);

#endif
