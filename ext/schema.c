/* The schema of a table: what schema_parse.c read, checked and worked out: affinities, the form of the
** key, and the declaration that SQLite gets. Any thread. */
#include "schema.h"

#include <string.h>

#include "error.h"
#include "orders.h"
#include "orders_test.h"
#include "schema_parse.h"
#include "token.h"

enum { COLUMNS_MAX = 2000 }; /* SQLite's default limit, hidden columns included */

static const char hidden_key_name[] = "colfam_key";
static const char command_name[] = "colfam_command";
static const char keys_name[] = "colfam_keys";

enum { COLLATIONS = 3 };
static const char *const collation_names[COLLATIONS] = {
    [KV_BINARY] = "BINARY", [KV_NOCASE] = "NOCASE", [KV_RTRIM] = "RTRIM"};

static int find_column(const struct colfam_schema *schema, const char *name) {
  for (int i = 0; i < schema->column_count; i++)
    if (sqlite3_stricmp(schema->columns[i].name, name) == 0) return i;
  return -1;
}

/* ---- Columns */

static bool contains(const char *type, const char *word) {
  size_t size = strlen(word);
  for (; *type; type++)
    if (sqlite3_strnicmp(type, word, (int)size) == 0) return true;
  return false;
}

/* SQLite's rules, in their order (datatype3.html, 3.1). */
static enum colfam_affinity affinity_of_type(const char *type) {
  if (!*type) return COLFAM_AFF_BLOB;
  if (contains(type, "INT")) return COLFAM_AFF_INTEGER;
  if (contains(type, "CHAR") || contains(type, "CLOB") || contains(type, "TEXT"))
    return COLFAM_AFF_TEXT;
  if (contains(type, "BLOB")) return COLFAM_AFF_BLOB;
  if (contains(type, "REAL") || contains(type, "FLOA") || contains(type, "DOUB"))
    return COLFAM_AFF_REAL;
  return COLFAM_AFF_NUMERIC;
}

/* A type that begins with a quote is what the quotes hold: "INTEGER" is INTEGER. */
static bool is_integer_type(const char *type) {
  struct colfam_token token;
  colfam_token_next(type, &token);
  size_t quotes = token.kind == COLFAM_TOKEN_QUOTED ? 1 : 0;
  if (!quotes) return sqlite3_stricmp(type, "INTEGER") == 0;
  return token.size == 9 && sqlite3_strnicmp(token.text + 1, "INTEGER", 7) == 0;
}

static int check_column(const struct colfam_schema *schema, int i, char **message) {
  const char *name = schema->columns[i].name;
  if (find_column(schema, name) != i)
    return colfam_schema_fail(schema, message, "duplicate column name: %s", name);
  if (sqlite3_strnicmp(name, "colfam_", 7) == 0)
    return colfam_schema_fail(
        schema, message,
        "column name %s: names that begin with colfam_ are for hidden columns: choose another",
        name);
  return SQLITE_OK;
}

static int check_columns(const struct colfam_schema *schema, char **message) {
  int rc = SQLITE_OK;
  if (!schema->column_count)
    return colfam_schema_fail(schema, message, "no columns: a table needs at least one");
  for (int i = 0; i < schema->column_count && rc == SQLITE_OK; i++)
    rc = check_column(schema, i, message);
  return rc;
}

/* ---- Key */

static int set_key_column(struct colfam_schema *schema, const struct colfam_key_word *word,
                          char **message) {
  int number = find_column(schema, word->column);
  if (number < 0)
    return colfam_schema_fail(schema, message, "PRIMARY KEY names no column: %s", word->column);
  struct colfam_column *column = &schema->columns[number];
  if (column->key_index >= 0)
    return colfam_schema_fail(schema, message, "PRIMARY KEY names column %s twice: write it once",
                              column->name);
  column->key_index = schema->key_count;
  column->descending = word->descending;
  schema->key_columns[schema->key_count++] = number;
  return SQLITE_OK;
}

/* Of a name that sorts as SQLite's own; -1 for others. */
static int find_collation(const char *name) {
  for (int i = 0; i < COLLATIONS; i++)
    if (sqlite3_stricmp(name, collation_names[i]) == 0) return i;
  return -1;
}

/* An ordinary table with two collations would tell keys apart by the one that PRIMARY KEY names, and compare
** the column by its own: one encoded key cannot serve both. */
static int set_key_collation(struct colfam_schema *schema, const struct colfam_key_word *word,
                             char **message) {
  struct colfam_column *column = &schema->columns[find_column(schema, word->column)];
  const char *declared = column->collation ? column->collation : collation_names[KV_BINARY];
  const char *used = word->collation ? word->collation : declared;
  int collation = find_collation(used);
  if (collation < 0)
    return colfam_schema_fail(schema, message,
                              "key column %s: COLLATE %s is not supported on keys: use BINARY, "
                              "NOCASE or RTRIM, or a key column that stores a sort key",
                              column->name, used);
  if (sqlite3_stricmp(used, declared) != 0)
    return colfam_schema_fail(schema, message,
                              "key column %s: COLLATE %s in PRIMARY KEY, but %s in the column, is "
                              "not supported: write COLLATE %s behind the column's type",
                              column->name, used, declared, used);
  column->key_collation = (kv_collation)collation;
  return SQLITE_OK;
}

static bool is_rowid_alias(const struct colfam_schema *schema, const struct colfam_key_words *key) {
  return schema->key_count == 1 && !key->column_descending &&
         is_integer_type(schema->columns[schema->key_columns[0]].type);
}

static void set_rowid_form(struct colfam_schema *schema) {
  schema->key_form = COLFAM_KEY_ROWID;
  if (!schema->key_count) return;
  schema->rowid_column = schema->key_columns[0];
  schema->columns[schema->rowid_column].key_index = -1;
  schema->columns[schema->rowid_column].descending = false;
  schema->key_count = 0;
}

static int set_key(struct colfam_schema *schema, const struct colfam_key_words *key,
                   char **message) {
  schema->key_columns = sqlite3_malloc64(sizeof(int) * ((size_t)key->count + 1));
  if (!schema->key_columns) return SQLITE_NOMEM;
  for (int i = 0; i < key->count; i++) {
    int rc = set_key_column(schema, &key->words[i], message);
    if (rc != SQLITE_OK) return rc;
  }
  if (!schema->key_count || is_rowid_alias(schema, key)) {
    set_rowid_form(schema);
    return SQLITE_OK;
  }
  bool plain = schema->key_count == 1 && !key->words[0].descending;
  schema->key_form = plain ? COLFAM_KEY_COLUMN : COLFAM_KEY_HIDDEN;
  int rc = SQLITE_OK;
  for (int i = 0; i < schema->key_count && rc == SQLITE_OK; i++) {
    schema->columns[schema->key_columns[i]].not_null = true;
    rc = set_key_collation(schema, &key->words[i], message);
  }
  return rc;
}

/* Reverse order is the other direction of each column. */
static void set_direction(struct colfam_schema *schema) {
  schema->reverse = strcmp(schema->options.comparator, "reverse") == 0;
  for (int i = 0; i < schema->key_count; i++)
    schema->columns[schema->key_columns[i]].descending ^= schema->reverse;
}

/* ---- Numbers of columns */

static int set_numbers(struct colfam_schema *schema, char **message) {
  int values = 0;
  for (int i = 0; i < schema->column_count; i++) {
    struct colfam_column *column = &schema->columns[i];
    bool is_value = column->key_index < 0 && i != schema->rowid_column;
    column->value_index = is_value ? values++ : -1;
  }
  schema->value_count = values;
  int count = schema->column_count;
  if (schema->key_form == COLFAM_KEY_HIDDEN) schema->hidden_key = count++;
  schema->command_column = count++;
  schema->keys_column = count++;
  if (count <= COLUMNS_MAX) return SQLITE_OK;
  return colfam_schema_fail(schema, message, "too many columns: %d, at most %d are allowed",
                            schema->column_count, COLUMNS_MAX - (count - schema->column_count));
}

/* ---- Declaration */

/* The table's own name (FTS5's convention), unless a column or SQLite needs that name. */
static const char *name_of_command(const struct colfam_schema *schema) {
  static const char *const taken[] = {"rowid", "oid", "_rowid_", hidden_key_name, keys_name};
  for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
    if (sqlite3_stricmp(schema->table, taken[i]) == 0) return command_name;
  return find_column(schema, schema->table) < 0 ? schema->table : command_name;
}

static void declare_column(const struct colfam_schema *schema, int i, sqlite3_str *sql) {
  const struct colfam_column *column = &schema->columns[i];
  bool is_key = i == schema->rowid_column ||
                (schema->key_form == COLFAM_KEY_COLUMN && column->key_index == 0);
  sqlite3_str_appendf(sql, "\"%w\" %s", column->name, column->type);
  if (column->collation) sqlite3_str_appendf(sql, " COLLATE \"%w\"", column->collation);
  if (column->not_null || i == schema->rowid_column) sqlite3_str_appendall(sql, " NOT NULL");
  if (is_key) sqlite3_str_appendall(sql, " PRIMARY KEY");
  sqlite3_str_appendall(sql, ", ");
}

/* Key columns are declared NOT NULL, as SQLite does itself for WITHOUT ROWID tables, and the rowid's alias
** too: SQLite seeks min() of columns that are never NULL only. A writable virtual table WITHOUT ROWID may
** have one key column only: composite keys get a hidden one. */
static int declare(struct colfam_schema *schema) {
  sqlite3_str *sql = sqlite3_str_new(NULL);
  sqlite3_str_appendall(sql, "CREATE TABLE x(");
  for (int i = 0; i < schema->column_count; i++) declare_column(schema, i, sql);
  if (schema->key_form == COLFAM_KEY_HIDDEN)
    sqlite3_str_appendf(sql, "%s HIDDEN BLOB NOT NULL PRIMARY KEY, ", hidden_key_name);
  sqlite3_str_appendf(sql, "\"%w\" HIDDEN, %s HIDDEN)", name_of_command(schema), keys_name);
  if (schema->key_form != COLFAM_KEY_ROWID) sqlite3_str_appendall(sql, " WITHOUT ROWID");
  schema->declaration = sqlite3_str_finish(sql);
  return schema->declaration ? SQLITE_OK : SQLITE_NOMEM;
}

/* ---- Public */

static int build(struct colfam_schema *schema, struct colfam_key_words *key, int argc,
                 const char *const *argv, char **message) {
  int rc = colfam_schema_parse(schema, key, argc, argv, message);
  if (rc == SQLITE_OK) rc = check_columns(schema, message);
  for (int i = 0; i < schema->column_count && rc == SQLITE_OK; i++) {
    schema->columns[i].affinity = affinity_of_type(schema->columns[i].type);
    schema->columns[i].key_index = -1;
  }
  if (rc == SQLITE_OK) rc = set_key(schema, key, message);
  colfam_orders_test_default(schema);
  set_direction(schema);
  if (rc == SQLITE_OK) rc = set_numbers(schema, message);
  return rc == SQLITE_OK ? declare(schema) : rc;
}

static void free_key_words(struct colfam_key_words *key) {
  for (int i = 0; i < key->count; i++) {
    sqlite3_free(key->words[i].column);
    sqlite3_free(key->words[i].collation);
  }
  sqlite3_free(key->words);
}

int colfam_schema_new(int argc, const char *const *argv, struct colfam_schema **out,
                      char **message) {
  *out = NULL;
  struct colfam_schema *schema = sqlite3_malloc64(sizeof *schema);
  if (!schema) return SQLITE_NOMEM;
  memset(schema, 0, sizeof *schema);
  schema->refs = 1;
  schema->rowid_column = schema->hidden_key = -1;
  colfam_options_default(&schema->options);
  struct colfam_key_words key = {0};
  schema->table = sqlite3_mprintf("%s", argc > 2 ? argv[2] : "");
  schema->label = colfam_label(argc > 1 ? argv[1] : "main", schema->table ? schema->table : "");
  int rc = schema->table && schema->label ? build(schema, &key, argc, argv, message) : SQLITE_NOMEM;
  free_key_words(&key);
  if (rc == SQLITE_OK) {
    *out = schema;
  } else {
    colfam_schema_unref(schema);
  }
  return rc;
}

struct colfam_schema *colfam_schema_ref(struct colfam_schema *schema) {
  schema->refs++;
  return schema;
}

void colfam_schema_unref(struct colfam_schema *schema) {
  if (!schema || --schema->refs) return;
  for (int i = 0; i < schema->column_count; i++) {
    sqlite3_free(schema->columns[i].name);
    sqlite3_free(schema->columns[i].type);
    sqlite3_free(schema->columns[i].collation);
  }
  sqlite3_free(schema->columns);
  sqlite3_free(schema->key_columns);
  sqlite3_free(schema->table);
  sqlite3_free(schema->label);
  sqlite3_free(schema->declaration);
  kv_custom_unref(schema->custom);
  sqlite3_free(schema);
}

/* ---- Order */

/* Rowids are numbers, which no registered order orders. */
enum colfam_order_kind colfam_schema_order(struct colfam_schema *schema) {
  if (colfam_options_are_native(&schema->options) || schema->key_form == COLFAM_KEY_ROWID)
    return COLFAM_ORDER_NATIVE;
  char *message = NULL;
  (void)colfam_schema_find_order(schema, &message);
  sqlite3_free(message);
  return schema->encoder ? COLFAM_ORDER_ENCODED : COLFAM_ORDER_CALLED;
}

int colfam_schema_find_order(struct colfam_schema *schema, char **message) {
  if (colfam_options_are_native(&schema->options) || schema->custom) return SQLITE_OK;
  struct kv_custom *custom = colfam_order_find(schema->options.comparator);
  if (!custom)
    return colfam_error(message, SQLITE_ERROR,
                        "table %s: its comparator %s is not registered in this process: programs "
                        "register it with register_order of colfam.h",
                        schema->label, schema->options.comparator);
  schema->custom = custom;
  schema->encoder = kv_custom_encoder(custom);
  schema->ascending = !schema->encoder && schema->key_count == 1;
  return SQLITE_OK;
}

int colfam_schema_comparator(const struct colfam_schema *schema,
                             struct kv_comparator **comparator) {
  *comparator = NULL;
  bool called = schema->custom && !schema->encoder && schema->key_form != COLFAM_KEY_ROWID;
  if (!called) return SQLITE_OK;
  bool single = schema->ascending;
  bool down = single && schema->columns[schema->key_columns[0]].descending;
  kv_status status = kv_custom_comparator(
      schema->custom, single ? KV_CUSTOM_CONTENT : KV_CUSTOM_KEYS, down, comparator, NULL);
  return status == KV_OK ? SQLITE_OK : SQLITE_NOMEM;
}

enum colfam_affinity colfam_schema_key_affinity(const struct colfam_schema *schema, int i) {
  if (schema->key_form == COLFAM_KEY_ROWID) return COLFAM_AFF_INTEGER;
  return schema->columns[schema->key_columns[i]].affinity;
}

const char *colfam_schema_key_collation(const struct colfam_schema *schema, int i) {
  return collation_names[colfam_schema_key_part(schema, i).collation];
}
