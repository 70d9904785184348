/* Keys from values, as `column = ?` compares them when the value is bound: for functions and C programs that
** name a key. */
#ifndef COLFAM_KEY_VALUE_H
#define COLFAM_KEY_VALUE_H

#include <stdbool.h>

#include "colfam.h"
#include "engine/kv.h"
#include "schema.h"
#include "sqlite_api.h"

/* How many values a key has. */
int colfam_key_columns(const struct colfam_schema *schema);
/* Appends key column i. *possible is cleared when no row can have such a key; its bytes mean nothing then. */
int colfam_key_append_sql(struct kv_buf *key, const struct colfam_schema *schema, int i,
                          sqlite3_value *value, bool *possible);

/* Values of a C program. Zero-initialise but for db; release always allowed. */
struct colfam_key_values {
  sqlite3 *db;
  sqlite3_stmt *echo; /* SELECT ?1, which makes an SQL value where SQLite has to convert one */
};
void colfam_key_values_release(struct colfam_key_values *values);
/* The same for a C value; SQLITE_MISUSE for one that is none. */
int colfam_key_append_value(struct colfam_key_values *values, struct kv_buf *key,
                            const struct colfam_schema *schema, int i,
                            const struct colfam_value *value, bool *possible);
/* The number that SQLite reads from a text. */
int colfam_key_values_real(struct colfam_key_values *values, struct kv_slice text, double *real);

#endif
