/* Rows as bytes: affinity on the way in, the key of kv_key_append, and a value that keeps the other
** columns and what key bytes lose (integer or real, the sign of zero, what a collation folds). Layout in
** ext/README.md, Row. */
#ifndef COLFAM_ROW_H
#define COLFAM_ROW_H

#include "engine/kv.h"
#include "lend.h"
#include "schema.h"
#include "sqlite_api.h"

/* The value as a datum: text as UTF-8 and blobs are borrowed from it until it changes. SQLITE_NOMEM when
** a conversion to UTF-8 failed. */
int colfam_datum(sqlite3_value *value, struct kv_datum *datum);
/* What storing the value into a column of this affinity makes of it (SQLite's rules for INSERT, done by
** SQLite's own conversions). Borrowed from the value, which it may convert in place. */
int colfam_datum_stored(sqlite3_value *value, enum colfam_affinity affinity,
                        struct kv_datum *datum);

/* What a value keeps of a column: its datum, borrowed, and the type that stands for it. */
struct colfam_stored {
  const struct kv_datum *datum;
  uint64_t type;
};

/* One row between SQL values and bytes. datums[i] belongs to column i, affinity applied. */
struct colfam_row {
  struct kv_datum *datums;
  struct colfam_stored *stored; /* of the value that is being encoded */
  struct kv_buf key;
  struct kv_buf value;
};
int colfam_row_init(struct colfam_row *row, const struct colfam_schema *schema);
void colfam_row_release(struct colfam_row *row);
/* Reads the columns (values[i] = column i) and applies affinities. Values stay borrowed. For a rowid
** table's alias column the datum is left as given. */
int colfam_row_set(struct colfam_row *row, const struct colfam_schema *schema,
                   sqlite3_value **values);
/* UPDATE hands over only what it sets: whether a value column is left as it was, and the datums of such
** columns from the old row's value, borrowed. SQLITE_CORRUPT_VTAB when that is no row of this schema. */
bool colfam_row_is_partial(const struct colfam_schema *schema, sqlite3_value **values);
int colfam_row_complete(struct colfam_row *row, const struct colfam_schema *schema,
                        sqlite3_value **values, struct kv_slice old_value);
/* The first column, in table order, that is NULL though NOT NULL; -1 when all is well. */
int colfam_row_null_column(const struct colfam_row *row, const struct colfam_schema *schema);
/* Encode row->key (from the key columns, or rowid) and row->value. SQLITE_TOOBIG for a key over
** KV_KEY_BYTES_MAX, SQLITE_NOMEM. */
int colfam_row_encode_key(struct colfam_row *row, const struct colfam_schema *schema,
                          sqlite3_int64 rowid);
int colfam_row_encode_value(struct colfam_row *row, const struct colfam_schema *schema);

/* The key of a rowid. */
void colfam_rowid_key(const struct colfam_schema *schema, struct kv_buf *key, sqlite3_int64 rowid);
int colfam_rowid_of_key(const struct colfam_schema *schema, struct kv_slice key,
                        sqlite3_int64 *rowid);

/* What the key needs of a row's value, as a value that has nothing else: its value columns are NULL. It
** serves key columns in the place of the value. false when the bytes are no row (a kv_head_fn). */
bool colfam_row_head(struct kv_slice value, struct kv_buf *head);

/* Column `column` (declared columns only) of a stored row. Text and blob are borrowed from key, value or
** `scratch`, which must be empty. SQLITE_CORRUPT_VTAB when the bytes are no row of this schema. */
int colfam_row_datum(const struct colfam_schema *schema, struct kv_slice key, struct kv_slice value,
                     int column, struct kv_buf *scratch, struct kv_datum *datum);
/* Column `column` (declared columns only) of a stored row becomes the context's result, text and blob in what
** is lent when there is a lender; decodes only that column. SQLITE_CORRUPT_VTAB when the bytes are no row of
** this schema. */
int colfam_row_result(const struct colfam_schema *schema, struct kv_slice key,
                      struct kv_slice value, int column, struct colfam_lender *lender,
                      sqlite3_context *context);
/* A text or blob likewise, as it is. */
void colfam_row_result_bytes(const struct kv_datum *datum, struct colfam_lender *lender,
                             sqlite3_context *context);
/* The same for a value column. When the value lies in a block of the cache that `pin` pins, and not NULL, a
** long text or blob is lent from there. */
int colfam_row_result_of_value(const struct colfam_schema *schema, struct kv_slice value,
                               int column, struct colfam_lender *lender, struct kv_cache_entry *pin,
                               sqlite3_context *context);
/* The same from the key alone. *told is false, and no result set, when the value is needed: for value
** columns, for numbers whose exact form (integer or real) and texts whose spelling only the value tells. */
int colfam_row_result_of_key(const struct colfam_schema *schema, struct kv_slice key, int column,
                             struct colfam_lender *lender, sqlite3_context *context, bool *told);
/* Checks that the bytes are a row of this schema (colfam_check). */
int colfam_row_check(const struct colfam_schema *schema, struct kv_slice key,
                     struct kv_slice value);

#endif
