/* Rows of shadow tables, changed as anybody can who may write to the database file: values set, blobs
** patched, rows deleted, doubled and moved. By somebody who does not know the checksums: rows of the table
** are right or an error, but for what cannot be noticed (the newest commits taken away; the seal taken
** away). By somebody who does: the table fails or answers, and answers alike on every path when it is
** checked as sound. Other tables and DROP work. */
#include <string.h>

#include "harness_fuzz_store.h"
#include "harness_fuzz.h"
#include "harness_sql.h"

static const struct shadow {
  const char *name, *key;
  const char *columns[9];
  int count;
} shadows[] = {
    {"t_cfmeta", "name", {"name", "value"}, 2},
    {"t_cffile",
     "id",
     {"id", "level", "seq", "smallest", "largest", "bytes", "entries", "tombstones", "checksum"},
     9},
    {"t_cflog", "seq", {"seq", "nonce", "gen", "rows", "batch"}, 5},
};

/* ---- One change */

struct change {
  const struct shadow *shadow;
  const char *column;
  int row; /* in the order of keys */
};

static sqlite3_stmt *prepare(sqlite3 *db, char *sql) {
  sqlite3_stmt *stmt;
  ck_assert_msg(sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) == SQLITE_OK, "%s: %s", sql,
                sqlite3_errmsg(db));
  sqlite3_free(sql);
  return stmt;
}

/* A change that a constraint of the shadow table refuses changes nothing. */
static void finish(sqlite3_stmt *stmt) {
  int rc = sqlite3_step(stmt);
  ck_assert_msg(rc == SQLITE_DONE || (rc & 0xff) == SQLITE_CONSTRAINT || rc == SQLITE_MISMATCH,
                "%s: %d", sqlite3_sql(stmt), rc);
  sqlite3_finalize(stmt);
}

static char *where(const struct change *change) {
  const struct shadow *shadow = change->shadow;
  return sqlite3_mprintf("WHERE %s = (SELECT %s FROM %s ORDER BY 1 LIMIT 1 OFFSET %d)", shadow->key,
                         shadow->key, shadow->name, change->row);
}

static void set_value(sqlite3 *db, const struct change *change, const struct kv_datum *value) {
  char *row = where(change);
  sqlite3_stmt *stmt = prepare(db, sqlite3_mprintf("UPDATE OR REPLACE %s SET %s = ?1 %s",
                                                   change->shadow->name, change->column, row));
  fuzz_bind(stmt, 1, value);
  finish(stmt);
  sqlite3_free(row);
}

static void add_to_value(sqlite3 *db, const struct change *change, int8_t number) {
  char *row = where(change);
  finish(
      prepare(db, sqlite3_mprintf("UPDATE OR REPLACE %s SET %s = %s + %d %s", change->shadow->name,
                                  change->column, change->column, number, row)));
  sqlite3_free(row);
}

/* The blob with some bytes in other places: the front up to `at`, these, and what is behind as many. */
static void patch(sqlite3 *db, const struct change *change, size_t at, struct kv_slice bytes,
                  bool cut) {
  char *row = where(change);
  sqlite3_stmt *stmt = prepare(
      db,
      sqlite3_mprintf("UPDATE OR REPLACE %s SET %s = CAST(CAST(substr(CAST(%s AS BLOB), 1, %d)"
                      " AS TEXT) || CAST(?1 AS TEXT) || CAST(substr(CAST(%s AS BLOB), %d) AS TEXT)"
                      " AS BLOB) %s",
                      change->shadow->name, change->column, change->column, (int)at, change->column,
                      cut ? 1000000 : (int)(at + bytes.size) + 1, row));
  sqlite3_bind_blob(stmt, 1, bytes.size ? (const char *)bytes.data : "", (int)bytes.size,
                    SQLITE_STATIC);
  finish(stmt);
  sqlite3_free(row);
}

static void copy_value(sqlite3 *db, const struct change *change, int from) {
  char *row = where(change);
  const struct shadow *shadow = change->shadow;
  finish(prepare(
      db, sqlite3_mprintf(
              "UPDATE OR REPLACE %s SET %s = (SELECT %s FROM %s ORDER BY %s LIMIT 1 OFFSET"
              " %d) %s",
              shadow->name, change->column, change->column, shadow->name, shadow->key, from, row)));
  sqlite3_free(row);
}

static void delete_row(sqlite3 *db, const struct change *change) {
  char *row = where(change);
  finish(prepare(db, sqlite3_mprintf("DELETE FROM %s %s", change->shadow->name, row)));
  sqlite3_free(row);
}

static void double_row(sqlite3 *db, const struct change *change, const struct kv_datum *key) {
  char *row = where(change);
  const struct shadow *shadow = change->shadow;
  sqlite3_str *columns = sqlite3_str_new(db);
  for (int i = 1; i < shadow->count; i++) sqlite3_str_appendf(columns, ", %s", shadow->columns[i]);
  char *list = sqlite3_str_finish(columns);
  sqlite3_stmt *stmt =
      prepare(db, sqlite3_mprintf("INSERT OR REPLACE INTO %s SELECT ?1%s FROM %s %s", shadow->name,
                                  list, shadow->name, row));
  fuzz_bind(stmt, 1, key);
  finish(stmt);
  sqlite3_free(list);
  sqlite3_free(row);
}

static void make_change(struct fuzz *in, sqlite3 *db) {
  struct change change;
  struct kv_datum datum;
  uint8_t op = fuzz_byte(in);
  change.shadow = &shadows[op % 3];
  change.row = fuzz_byte(in) % 16;
  change.column = change.shadow->columns[fuzz_byte(in) % change.shadow->count];
  switch (op / 3 % 7) {
    case 0:
      fuzz_datum(in, &datum);
      set_value(db, &change, &datum);
      break;
    case 1:
      add_to_value(db, &change, (int8_t)fuzz_byte(in));
      break;
    case 2:
    case 3: {
      size_t at = fuzz_byte(in);
      patch(db, &change, at, fuzz_slice(in), op / 3 % 7 == 3);
      break;
    }
    case 4:
      copy_value(db, &change, fuzz_byte(in) % 16);
      break;
    case 5:
      delete_row(db, &change);
      break;
    default:
      fuzz_datum(in, &datum);
      double_row(db, &change, &datum);
  }
}

/* ---- What can be noticed */

/* All that says which commits there were: log rows by number, and the seal. */
static char *unnoticed(sqlite3 *db) {
  return sql_query(db, "SELECT group_concat(seq) FROM (SELECT seq FROM t_cflog ORDER BY seq)"
                       " UNION ALL SELECT typeof(value) FROM t_cfmeta WHERE name = 'seal'");
}

static enum store_trust change_rows(struct fuzz *in, sqlite3 *db) {
  char *before = unnoticed(db);
  sql_ok(db, "BEGIN");
  for (int i = 0; i < 8 && fuzz_left(in); i++) make_change(in, db);
  sql_ok(db, "COMMIT");
  char *after = unnoticed(db);
  bool noticed = !strcmp(before, after);
  sqlite3_free(before);
  sqlite3_free(after);
  return noticed ? STORE_ROWS : STORE_TABLE;
}

enum flags { SEALED = 1, WARM = 2 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct fuzz in = fuzz_begin(data, size);
  uint8_t flags = fuzz_byte(&in);
  struct store store;
  fuzz_store_take(&store);
  fuzz_store_write(&store);
  sqlite3 *db = flags & WARM ? fuzz_store_open(true) : NULL;
  if (db) sql_ok(db, "SELECT * FROM t");
  sqlite3 *writer = fuzz_store_open(false);
  enum store_trust trust = change_rows(&in, writer);
  if (flags & SEALED) {
    fuzz_store_seal_rows(writer, &store);
    trust = STORE_TABLE;
  }
  sql_close(writer);
  fuzz_store_examine(db ? db : fuzz_store_open(true), trust);
  fuzz_store_release(&store);
  return 0;
}

/* ---- Seeds: every kind of change, in every table */

void fuzz_seeds(void) {
  for (uint8_t op = 0; op < 21; op++) {
    uint8_t input[] = {op % 4, op, 1, op, 3, 5, 1, 2, 3, 4, 5};
    fuzz_seed(kv_slice_of(input, sizeof input));
  }
}
