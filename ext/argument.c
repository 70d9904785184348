/* See argument.h. */
#include "argument.h"

#include "row.h"

static bool widens(enum colfam_affinity affinity, sqlite3_value *value) {
  int type = sqlite3_value_type(value);
  return (type == SQLITE_INTEGER || type == SQLITE_FLOAT) && affinity < COLFAM_AFF_NUMERIC;
}

bool colfam_argument_widens(const struct colfam_schema *schema, int position,
                            sqlite3_value *value) {
  return widens(colfam_schema_key_affinity(schema, position), value);
}

int colfam_argument_read(const struct colfam_schema *schema, int position, sqlite3_value *value,
                         struct colfam_argument *argument) {
  enum colfam_affinity affinity = colfam_schema_key_affinity(schema, position);
  *argument = (struct colfam_argument){.affinity = affinity,
                                       .part = colfam_schema_key_part(schema, position),
                                       .widens = widens(affinity, value)};
  argument->datum.type = KV_NULL;
  if (argument->widens) argument->number = sqlite3_value_double(value);
  argument->bound = sqlite3_value_frombind(value);
  if (affinity > COLFAM_AFF_NUMERIC) affinity = COLFAM_AFF_NUMERIC;
  return colfam_datum_stored(value, affinity, &argument->datum);
}

static void set_column(struct kv_buf *key, struct kv_slice prefix, struct kv_key_part part,
                       const struct kv_datum *datum) {
  kv_buf_clear(key);
  kv_buf_append(key, prefix.data, prefix.size);
  if (datum) kv_key_append(key, part, datum);
}

/* The smallest string above the prefix, the column, and all that may stand behind them: false when there
** is none. Nothing can stand behind the last column. */
static bool to_successor(struct kv_buf *key, struct kv_key_part part) {
  if (!part.last) return kv_key_prefix_successor(key);
  kv_buf_append_byte(key, 0);
  return true;
}

void colfam_bound_lower(struct kv_buf *key, struct kv_slice prefix, struct kv_key_part part,
                        struct colfam_bound bound) {
  set_column(key, prefix, part, bound.datum);
  if (bound.datum && bound.open) to_successor(key, part);
}

bool colfam_bound_upper(struct kv_buf *key, struct kv_slice prefix, struct kv_key_part part,
                        struct colfam_bound bound) {
  set_column(key, prefix, part, bound.datum);
  if (!bound.datum) return kv_key_prefix_successor(key);
  return bound.open || to_successor(key, part);
}
