/* Many keys in one argument: the right side of `colfam_keys = ?` (ext/README.md, Packed keys). Thread rule:
** the connection's. */
#ifndef COLFAM_PACKED_H
#define COLFAM_PACKED_H

#include "byte_strings.h"
#include "key_value.h"
#include "schema.h"
#include "sqlite_api.h"
#include "vtab.h"

/* The argument's keys, encoded, in its order; keys that no row can have are left out. A malformed argument is
** SQLITE_ERROR with the vtab's message set. */
int colfam_packed_read(struct colfam_vtab *vtab, sqlite3_value *argument,
                       struct colfam_strings *keys);

/* Keys being encoded; between packed.c and packed_json.c. */
struct colfam_packing {
  const struct colfam_schema *schema;
  struct colfam_key_values values;
  struct colfam_strings *keys;
  int columns; /* of a key */
  /* The key at hand. */
  int column;
  size_t start;
  bool possible; /* some row may have it */
};
/* The next column of the key: at most `columns` of them, then an end. */
int colfam_packing_add(struct colfam_packing *packing, const struct colfam_value *value);
void colfam_packing_end(struct colfam_packing *packing);

/* A JSON array of keys. When the text is malformed *what says how (static text), and *at, at which byte. */
int colfam_packing_json(struct colfam_packing *packing, struct kv_slice json, const char **what,
                        size_t *at);

#endif
