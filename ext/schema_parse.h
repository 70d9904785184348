/* From the words of CREATE VIRTUAL TABLE to columns, key and options: the first half of colfam_schema_new
** (schema.c does the rest). */
#ifndef COLFAM_SCHEMA_PARSE_H
#define COLFAM_SCHEMA_PARSE_H

#include "schema.h"

/* The PRIMARY KEY as written. */
struct colfam_key_word {
  char *column;
  char *collation; /* NULL: the column's own */
  bool descending;
};
struct colfam_key_words {
  bool declared;
  bool column_descending; /* `a INTEGER PRIMARY KEY DESC`, which SQLite makes no rowid alias */
  struct colfam_key_word *words;
  int count;
};

/* Fills columns (name, type, collation, not_null), options and *key from argv[3..]. Whatever the outcome,
** the schema and the key words are to be freed by the caller. */
int colfam_schema_parse(struct colfam_schema *schema, struct colfam_key_words *key, int argc,
                        const char *const *argv, char **message);

/* SQLITE_ERROR with "table t: " and the formatted text. */
int colfam_schema_fail(const struct colfam_schema *schema, char **message, const char *format, ...);

/* Grows an array for one more element, which is zeroed; *items is unchanged on SQLITE_NOMEM. */
int colfam_schema_grow(void **items, int count, size_t size);

#endif
