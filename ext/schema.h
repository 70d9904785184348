/* What CREATE VIRTUAL TABLE says: columns, key, options. A pure function of the module's arguments, the
** same in xCreate and xConnect; touches no database. */
#ifndef COLFAM_SCHEMA_H
#define COLFAM_SCHEMA_H

#include <stdbool.h>

#include "engine/kv.h"
#include "sqlite_api.h"

/* SQLite's column affinities. */
enum colfam_affinity {
  COLFAM_AFF_BLOB, /* none */
  COLFAM_AFF_TEXT,
  COLFAM_AFF_NUMERIC,
  COLFAM_AFF_INTEGER,
  COLFAM_AFF_REAL
};

struct colfam_column {
  char *name;
  char *type;      /* as written, "" without one */
  char *collation; /* declared, NULL without one; of value columns any that SQLite knows */
  enum colfam_affinity affinity;
  bool not_null;   /* declared, or a key column of a table that is not a rowid table */
  int key_index;   /* position in the key, -1 for value columns; -1 too for the rowid alias */
  int value_index; /* position among the value columns, -1 for key columns and the rowid alias */
  bool descending; /* in the key */
  kv_collation key_collation; /* of key columns: what `collation` names */
};

enum colfam_key_form {
  COLFAM_KEY_ROWID, /* rowid table: the key is the rowid; rowid_column is its alias or -1 */
  COLFAM_KEY_COLUMN, /* one ascending key column, declared as the PRIMARY KEY of a WITHOUT ROWID table */
  COLFAM_KEY_HIDDEN /* composite or descending: a hidden BLOB column with the encoded key is it */
};

/* README.md, Options; the engine's and the SQL side's own. */
struct colfam_options {
  struct kv_options kv;
  bool track_rows;
  bool conflict_replace;
  char comparator[64]; /* bytewise, reverse, or the name of a registered order (orders.h) */
};
void colfam_options_default(struct colfam_options *options);
/* Whether keys need no registered order. */
bool colfam_options_are_native(const struct colfam_options *options);
/* Whether this version has an option of that name (ASCII case ignored). */
bool colfam_options_known(const char *name);
/* Sets one option by name; unknown names and bad values give SQLITE_ERROR with a message that lists what is
** allowed. */
int colfam_options_set(struct colfam_options *options, const char *name, const char *value,
                       char **message);
/* The same for a command's text "name=value", blanks allowed around both. What is fixed at CREATE is refused.
** *name (static) and value are how t_cfmeta has it. */
int colfam_options_change(struct colfam_options *options, const char *text, const char **name,
                          char value[64], char **message);
/* The i-th option's name and its value as text for t_cfmeta ("zstd:3"); NULL past the last. */
const char *colfam_options_get(const struct colfam_options *options, int index, char value[64]);

struct colfam_schema {
  int refs;
  char *table;                   /* the table's name */
  char *label;                   /* the same for messages: t, aux.t */
  struct colfam_column *columns; /* as declared; hidden columns come after them in the vtab */
  int column_count;
  int value_count; /* value columns */
  enum colfam_key_form key_form;
  int *key_columns; /* column numbers in key order; empty for rowid tables */
  int key_count;
  int rowid_column;   /* the alias, or -1 */
  int hidden_key;     /* vtab column number of the encoded key, or -1 */
  int command_column; /* vtab column number of the command column */
  int keys_column;    /* vtab column number of colfam_keys, which takes packed keys in a WHERE */
  struct colfam_options options;
  bool reverse;                     /* comparator: each key column is in the other direction */
  struct kv_custom *custom;         /* a use of the registered order, once found */
  const struct kv_encoder *encoder; /* its, of texts and blobs in the key */
  bool
      ascending; /* in bytes, whatever is declared: a comparator gets the content of the one column */
  char *declaration; /* for sqlite3_declare_vtab */
};
/* argv as SQLite gives it to xCreate/xConnect (module, database, table, arguments...). Names are unquoted,
** types kept as written. On failure *message is set (sqlite3_malloc). Refusals name the clause and say
** what to write instead. */
int colfam_schema_new(int argc, const char *const *argv, struct colfam_schema **schema,
                      char **message);
/* A schema starts with one reference. References are counted by the connection's thread. */
struct colfam_schema *colfam_schema_ref(struct colfam_schema *schema);
void colfam_schema_unref(struct colfam_schema *schema); /* NULL is allowed */
/* What the table's comparator says of the order of its keys. */
enum colfam_order_kind {
  COLFAM_ORDER_NATIVE,  /* that of the columns, as they are declared or reversed */
  COLFAM_ORDER_ENCODED, /* column by column too, but texts and blobs by their sort keys */
  COLFAM_ORDER_CALLED /* known by comparing keys alone; or not known, as nobody has registered it yet */
};
enum colfam_order_kind colfam_schema_order(struct colfam_schema *schema);
/* Finds the registered order that the table needs, once; before keys are encoded. SQLITE_ERROR when it is not
** registered or cannot be for such keys. */
int colfam_schema_find_order(struct colfam_schema *schema, char **message);
/* The engine's comparator for the keys: NULL when they are in memcmp order. One reference for the caller. */
int colfam_schema_comparator(const struct colfam_schema *schema, struct kv_comparator **comparator);
/* How key column i (0-based in the key) is encoded; for rowid tables i = 0 is the rowid. */
static inline struct kv_key_part colfam_schema_key_part(const struct colfam_schema *schema, int i) {
  if (schema->key_form == COLFAM_KEY_ROWID)
    return (struct kv_key_part){.last = true, .descending = schema->reverse};
  const struct colfam_column *column = &schema->columns[schema->key_columns[i]];
  return (struct kv_key_part){.descending = column->descending && !schema->ascending,
                              .last = i == schema->key_count - 1,
                              .collation = column->key_collation,
                              .encoder = schema->encoder};
}
/* Whether the only column of the key, of this type, is compared as it is. */
static inline bool colfam_schema_is_plain(const struct colfam_schema *schema, int type) {
  if (schema->key_count != 1 || schema->encoder) return false;
  const struct colfam_column *column = &schema->columns[schema->key_columns[0]];
  bool as_it_is =
      type == SQLITE_BLOB || (type == SQLITE_TEXT && column->affinity <= COLFAM_AFF_TEXT);
  return as_it_is && column->key_collation == KV_BINARY;
}
/* Its affinity. */
enum colfam_affinity colfam_schema_key_affinity(const struct colfam_schema *schema, int i);
/* The name of key column i's collation: a comparison with another one says nothing about the key's order. */
const char *colfam_schema_key_collation(const struct colfam_schema *schema, int i);

#endif
