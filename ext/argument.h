/* The right side of a comparison with a key column, as the comparison sees it, and bounds of it in the
** order of encoded keys. Thread rule: the connection's. */
#ifndef COLFAM_ARGUMENT_H
#define COLFAM_ARGUMENT_H

#include <stdbool.h>

#include "engine/kv.h"
#include "schema.h"
#include "sqlite_api.h"

struct colfam_argument {
  enum colfam_affinity affinity; /* of the key column */
  struct kv_key_part part;
  struct kv_datum datum; /* as the comparison sees it; borrowed from the value */
  bool widens;           /* a number against a column whose texts may be compared as numbers */
  double number;         /* when it widens */
  bool bound;            /* came through sqlite3_bind */
};
/* Whether it would widen. An argument is read once: as the text that it is converted to in its place a real
** may be of type TEXT from then on (one that SQLite keeps as an integer). So this is asked before. */
bool colfam_argument_widens(const struct colfam_schema *schema, int position, sqlite3_value *value);
/* For key column `position`. */
int colfam_argument_read(const struct colfam_schema *schema, int position, sqlite3_value *value,
                         struct colfam_argument *argument);

/* A bound on a key column; datum NULL = none. */
struct colfam_bound {
  const struct kv_datum *datum;
  bool open;
};
/* Sets key to where the values above the bound (or all) begin behind the prefix, in the order of bytes. */
void colfam_bound_lower(struct kv_buf *key, struct kv_slice prefix, struct kv_key_part part,
                        struct colfam_bound bound);
/* Sets key to what is behind the values below the bound; false when nothing is. */
bool colfam_bound_upper(struct kv_buf *key, struct kv_slice prefix, struct kv_key_part part,
                        struct colfam_bound bound);

#endif
