/* See bench_floor.h. The hash table is open-addressing over pointers to rows, hash first; rows lie one after
** another in large pieces of memory, as they came. */
#include "bench_floor.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#define PIECE_BYTES ((size_t)1 << 20)

struct row {
  uint64_t hash;
  uint32_t key_size, value_size;
  bool removed;
  uint8_t *value; /* beside the key, or of its own once replaced by a longer one */
  uint8_t key[];
};

struct floor_table {
  sqlite3_vtab base;
  sqlite3 *db;
  struct row **slots; /* a power of two */
  size_t slot_count;
  struct row **rows; /* in the order they came */
  size_t row_count, row_room;
  uint8_t *piece; /* memory for the next rows */
  size_t piece_left;
  void **pieces;
  size_t piece_count;
};

enum plan { SCAN, GET, LIST, POINTER };

struct floor_cursor {
  sqlite3_vtab_cursor base;
  struct row **found; /* or the table's rows */
  size_t found_count, found_room, at;
};

/* ---- The hash table */

static void *take(struct floor_table *table, size_t size) {
  size = (size + 7) & ~(size_t)7;
  if (size > table->piece_left) {
    size_t piece = size > PIECE_BYTES ? size : PIECE_BYTES;
    table->pieces = realloc(table->pieces, (table->piece_count + 1) * sizeof *table->pieces);
    table->piece = malloc(piece);
    table->pieces[table->piece_count++] = table->piece;
    table->piece_left = piece;
  }
  uint8_t *taken = table->piece;
  table->piece += size;
  table->piece_left -= size;
  return taken;
}

static struct row **find_slot(const struct floor_table *table, struct kv_slice key, uint64_t hash) {
  size_t mask = table->slot_count - 1;
  size_t at = hash & mask;
  while (table->slots[at]) {
    const struct row *row = table->slots[at];
    if (row->hash == hash && row->key_size == key.size &&
        memcmp(row->key, key.data, key.size) == 0) {
      break;
    }
    at = (at + 1) & mask;
  }
  return &table->slots[at];
}

static struct row *find(const struct floor_table *table, struct kv_slice key) {
  struct row *row = *find_slot(table, key, XXH3_64bits(key.data, key.size));
  return row && !row->removed ? row : NULL;
}

static void grow(struct floor_table *table) {
  free(table->slots);
  table->slot_count = table->slot_count ? table->slot_count * 2 : 1024;
  table->slots = calloc(table->slot_count, sizeof *table->slots);
  for (size_t i = 0; i < table->row_count; i++) {
    struct row *row = table->rows[i];
    *find_slot(table, kv_slice_of(row->key, row->key_size), row->hash) = row;
  }
}

static void set_value(struct floor_table *table, struct row *row, struct kv_slice value) {
  if (value.size > row->value_size) row->value = take(table, value.size);
  memcpy(row->value, value.data, value.size);
  row->value_size = (uint32_t)value.size;
  row->removed = false;
}

static void add_row(struct floor_table *table, struct row **slot, struct kv_slice key,
                    uint64_t hash, struct kv_slice value) {
  struct row *row = take(table, sizeof *row + key.size + value.size);
  *row = (struct row){hash, (uint32_t)key.size, (uint32_t)value.size, false, NULL};
  memcpy(row->key, key.data, key.size);
  row->value = row->key + key.size;
  memcpy(row->value, value.data, value.size);
  *slot = row;
  if (table->row_count == table->row_room) {
    table->row_room = table->row_room ? table->row_room * 2 : 1024;
    table->rows = realloc(table->rows, table->row_room * sizeof *table->rows);
  }
  table->rows[table->row_count++] = row;
  if (table->row_count * 2 > table->slot_count) grow(table);
}

/* ---- The virtual table */

static int floor_connect(sqlite3 *db, void *context, int argc, const char *const *argv,
                         sqlite3_vtab **vtab, char **message) {
  (void)context, (void)argc, (void)argv, (void)message;
  struct floor_table *table = calloc(1, sizeof *table);
  table->db = db;
  grow(table);
  *vtab = &table->base;
  sqlite3_vtab_config(db, SQLITE_VTAB_CONSTRAINT_SUPPORT, 1);
  return sqlite3_declare_vtab(
      db, "CREATE TABLE x(k BLOB PRIMARY KEY, v BLOB, keys HIDDEN) WITHOUT ROWID");
}

static int floor_disconnect(sqlite3_vtab *vtab) {
  struct floor_table *table = (struct floor_table *)vtab;
  for (size_t i = 0; i < table->piece_count; i++) free(table->pieces[i]);
  free(table->pieces);
  free(table->rows);
  free(table->slots);
  free(table);
  return SQLITE_OK;
}

static int floor_best_index(sqlite3_vtab *vtab, sqlite3_index_info *info) {
  (void)vtab;
  info->estimatedCost = 1e9;
  for (int i = 0; i < info->nConstraint; i++) {
    int column = info->aConstraint[i].iColumn;
    if (!info->aConstraint[i].usable || info->aConstraint[i].op != SQLITE_INDEX_CONSTRAINT_EQ ||
        column == 1) {
      continue;
    }
    info->aConstraintUsage[i].argvIndex = 1;
    info->aConstraintUsage[i].omit = 1;
    info->estimatedCost = 1;
    info->estimatedRows = 1;
    info->idxNum = GET;
    if (column == 2)
      info->idxNum = POINTER;
    else if (sqlite3_vtab_in(info, i, 1))
      info->idxNum = LIST;
    else
      info->idxFlags = SQLITE_INDEX_SCAN_UNIQUE;
    return SQLITE_OK;
  }
  return SQLITE_OK;
}

static int floor_open(sqlite3_vtab *vtab, sqlite3_vtab_cursor **cursor) {
  (void)vtab;
  struct floor_cursor *made = calloc(1, sizeof *made);
  *cursor = &made->base;
  return made ? SQLITE_OK : SQLITE_NOMEM;
}

static int floor_close(sqlite3_vtab_cursor *cursor) {
  free(((struct floor_cursor *)cursor)->found);
  free(cursor);
  return SQLITE_OK;
}

static void look_up(struct floor_cursor *cursor, struct kv_slice key) {
  struct row *row = find((const struct floor_table *)cursor->base.pVtab, key);
  if (!row) return;
  if (cursor->found_count == cursor->found_room) {
    cursor->found_room = cursor->found_room ? cursor->found_room * 2 : 16;
    cursor->found = realloc(cursor->found, cursor->found_room * sizeof *cursor->found);
  }
  cursor->found[cursor->found_count++] = row;
}

static struct kv_slice bytes_of(sqlite3_value *value) {
  const void *data = sqlite3_value_blob(value);
  return kv_slice_of(data, (size_t)sqlite3_value_bytes(value));
}

static void look_up_list(struct floor_cursor *cursor, sqlite3_value *list) {
  sqlite3_value *value = NULL;
  int rc = sqlite3_vtab_in_first(list, &value);
  for (; rc == SQLITE_OK && value; rc = sqlite3_vtab_in_next(list, &value)) {
    look_up(cursor, bytes_of(value));
  }
}

static void look_up_pointer(struct floor_cursor *cursor, sqlite3_value *pointer) {
  const struct bench_key_list *list = sqlite3_value_pointer(pointer, BENCH_KEYS_POINTER);
  for (size_t i = 0; list && i < list->count; i++) look_up(cursor, list->keys[i]);
}

static int floor_filter(sqlite3_vtab_cursor *opened, int plan, const char *text, int argc,
                        sqlite3_value **argv) {
  (void)text, (void)argc;
  struct floor_cursor *cursor = (struct floor_cursor *)opened;
  cursor->at = cursor->found_count = 0;
  if (plan == GET) look_up(cursor, bytes_of(argv[0]));
  if (plan == LIST) look_up_list(cursor, argv[0]);
  if (plan == POINTER) look_up_pointer(cursor, argv[0]);
  if (plan != SCAN) return SQLITE_OK;
  const struct floor_table *table = (const struct floor_table *)opened->pVtab;
  cursor->found = realloc(cursor->found, (table->row_count + 1) * sizeof *cursor->found);
  cursor->found_room = table->row_count + 1;
  for (size_t i = 0; i < table->row_count; i++) {
    if (!table->rows[i]->removed) cursor->found[cursor->found_count++] = table->rows[i];
  }
  return SQLITE_OK;
}

static int floor_next(sqlite3_vtab_cursor *cursor) {
  ((struct floor_cursor *)cursor)->at++;
  return SQLITE_OK;
}

static int floor_eof(sqlite3_vtab_cursor *opened) {
  const struct floor_cursor *cursor = (const struct floor_cursor *)opened;
  return cursor->at >= cursor->found_count;
}

static int floor_column(sqlite3_vtab_cursor *opened, sqlite3_context *context, int column) {
  const struct floor_cursor *cursor = (const struct floor_cursor *)opened;
  const struct row *row = cursor->found[cursor->at];
  if (column == 0)
    sqlite3_result_blob(context, row->key, (int)row->key_size, SQLITE_STATIC);
  else if (column == 1)
    sqlite3_result_blob(context, row->value, (int)row->value_size, SQLITE_STATIC);
  return SQLITE_OK;
}

static int floor_rowid(sqlite3_vtab_cursor *cursor, sqlite3_int64 *rowid) {
  (void)cursor;
  *rowid = 0;
  return SQLITE_ERROR;
}

/* DELETE (argc 1), or INSERT; an UPDATE that keeps the key replaces its value. */
static int floor_update(sqlite3_vtab *vtab, int argc, sqlite3_value **argv, sqlite3_int64 *rowid) {
  (void)rowid;
  struct floor_table *table = (struct floor_table *)vtab;
  struct kv_slice key = bytes_of(argc == 1 ? argv[0] : argv[2]);
  uint64_t hash = XXH3_64bits(key.data, key.size);
  struct row **slot = find_slot(table, key, hash);
  if (argc == 1) {
    if (*slot) (*slot)->removed = true;
    return SQLITE_OK;
  }
  bool is_insert = sqlite3_value_type(argv[0]) == SQLITE_NULL;
  if (!*slot) {
    add_row(table, slot, key, hash, bytes_of(argv[3]));
    return SQLITE_OK;
  }
  bool replaces = !is_insert || sqlite3_vtab_on_conflict(table->db) == SQLITE_REPLACE;
  if (!(*slot)->removed && !replaces) return SQLITE_CONSTRAINT;
  set_value(table, *slot, bytes_of(argv[3]));
  return SQLITE_OK;
}

/* Lets rows be written in transactions that are never rolled back. */
static int floor_begin(sqlite3_vtab *vtab) {
  (void)vtab;
  return SQLITE_OK;
}

static const sqlite3_module floor_module = {
    .iVersion = 1,
    .xCreate = floor_connect,
    .xConnect = floor_connect,
    .xBestIndex = floor_best_index,
    .xDisconnect = floor_disconnect,
    .xDestroy = floor_disconnect,
    .xOpen = floor_open,
    .xClose = floor_close,
    .xFilter = floor_filter,
    .xNext = floor_next,
    .xEof = floor_eof,
    .xColumn = floor_column,
    .xRowid = floor_rowid,
    .xUpdate = floor_update,
    .xBegin = floor_begin,
    .xCommit = floor_begin,
};

/* ---- Keys by a pointer: SELECT key FROM bench_keys(?) */

struct keys_cursor {
  sqlite3_vtab_cursor base;
  const struct bench_key_list *list;
  size_t at;
};

static int keys_connect(sqlite3 *db, void *context, int argc, const char *const *argv,
                        sqlite3_vtab **vtab, char **message) {
  (void)context, (void)argc, (void)argv, (void)message;
  *vtab = calloc(1, sizeof **vtab);
  return sqlite3_declare_vtab(db, "CREATE TABLE x(key BLOB, pointer HIDDEN)");
}

static int keys_disconnect(sqlite3_vtab *vtab) {
  free(vtab);
  return SQLITE_OK;
}

static int keys_best_index(sqlite3_vtab *vtab, sqlite3_index_info *info) {
  (void)vtab;
  for (int i = 0; i < info->nConstraint; i++) {
    if (info->aConstraint[i].iColumn != 1 || !info->aConstraint[i].usable) continue;
    info->aConstraintUsage[i].argvIndex = 1;
    info->aConstraintUsage[i].omit = 1;
    info->estimatedRows = 100;
    info->estimatedCost = 100;
    return SQLITE_OK;
  }
  return SQLITE_CONSTRAINT;
}

static int keys_open(sqlite3_vtab *vtab, sqlite3_vtab_cursor **cursor) {
  (void)vtab;
  struct keys_cursor *made = calloc(1, sizeof *made);
  *cursor = &made->base;
  return made ? SQLITE_OK : SQLITE_NOMEM;
}

static int keys_close(sqlite3_vtab_cursor *cursor) {
  free(cursor);
  return SQLITE_OK;
}

static int keys_filter(sqlite3_vtab_cursor *opened, int plan, const char *text, int argc,
                       sqlite3_value **argv) {
  (void)plan, (void)text, (void)argc;
  struct keys_cursor *cursor = (struct keys_cursor *)opened;
  cursor->list = sqlite3_value_pointer(argv[0], BENCH_KEYS_POINTER);
  cursor->at = 0;
  return SQLITE_OK;
}

static int keys_next(sqlite3_vtab_cursor *cursor) {
  ((struct keys_cursor *)cursor)->at++;
  return SQLITE_OK;
}

static int keys_eof(sqlite3_vtab_cursor *opened) {
  const struct keys_cursor *cursor = (const struct keys_cursor *)opened;
  return !cursor->list || cursor->at >= cursor->list->count;
}

static int keys_column(sqlite3_vtab_cursor *opened, sqlite3_context *context, int column) {
  const struct keys_cursor *cursor = (const struct keys_cursor *)opened;
  struct kv_slice key = cursor->list->keys[cursor->at];
  if (column == 0) sqlite3_result_blob(context, key.data, (int)key.size, SQLITE_STATIC);
  return SQLITE_OK;
}

static int keys_rowid(sqlite3_vtab_cursor *cursor, sqlite3_int64 *rowid) {
  *rowid = (sqlite3_int64)((struct keys_cursor *)cursor)->at;
  return SQLITE_OK;
}

static const sqlite3_module keys_module = {
    .iVersion = 0,
    .xConnect = keys_connect,
    .xBestIndex = keys_best_index,
    .xDisconnect = keys_disconnect,
    .xOpen = keys_open,
    .xClose = keys_close,
    .xFilter = keys_filter,
    .xNext = keys_next,
    .xEof = keys_eof,
    .xColumn = keys_column,
    .xRowid = keys_rowid,
};

int bench_floor_register(sqlite3 *db) {
  int rc = sqlite3_create_module(db, "bench_floor", &floor_module, NULL);
  return rc ? rc : sqlite3_create_module(db, "bench_keys", &keys_module, NULL);
}
