/* Module arguments: the text between the parentheses of CREATE VIRTUAL TABLE, as SQLite hands it over. What
** is refused has a message; what is accepted declares the columns that the same text, less its options,
** gives an ordinary table, and options that read back as they are. Also any text as a command that changes
** an option. */
#include <stdlib.h>
#include <string.h>

#include "ext/declare.h"
#include "ext/schema.h"
#include "ext/token.h"
#include "harness_fuzz.h"

static sqlite3 *db;

/* ---- A module that keeps what colfam makes of its arguments */

static struct colfam_schema *schema;
static char *ordinary; /* the statement that creates the ordinary table */

static bool is_option(const char *argument) {
  struct colfam_token name, sign;
  const char *at = colfam_token_next(argument, &name);
  colfam_token_next(at, &sign);
  return colfam_token_is_name(&name) && colfam_token_is(&sign, "=");
}

static char *write_ordinary(int argc, const char *const *argv) {
  sqlite3_str *sql = sqlite3_str_new(NULL);
  const char *before = "CREATE TABLE o(";
  for (int i = 3; i < argc; i++) {
    if (is_option(argv[i])) continue;
    sqlite3_str_appendf(sql, "%s%s", before, argv[i]);
    before = ", ";
  }
  sqlite3_str_appendf(sql, ")%s", schema->key_form == COLFAM_KEY_ROWID ? "" : " WITHOUT ROWID");
  return sqlite3_str_finish(sql);
}

static int create(sqlite3 *database, void *context, int argc, const char *const *argv,
                  sqlite3_vtab **vtab, char **message) {
  (void)context;
  int rc = colfam_schema_new(argc, argv, &schema, message);
  ck_assert_int_eq(rc == SQLITE_OK, schema != NULL);
  if (rc != SQLITE_OK) {
    ck_assert(rc == SQLITE_ERROR && *message && **message);
    return rc;
  }
  rc = colfam_declare(database, schema, message);
  if (rc != SQLITE_OK) return rc;
  ordinary = write_ordinary(argc, argv);
  *vtab = calloc(1, sizeof **vtab);
  return *vtab ? SQLITE_OK : SQLITE_NOMEM;
}

static int disconnect(sqlite3_vtab *vtab) {
  free(vtab);
  return SQLITE_OK;
}

static int no_plan(sqlite3_vtab *vtab, sqlite3_index_info *info) {
  (void)vtab, (void)info;
  return SQLITE_CONSTRAINT;
}

static const sqlite3_module spy = {.xCreate = create,
                                   .xConnect = create,
                                   .xBestIndex = no_plan,
                                   .xDisconnect = disconnect,
                                   .xDestroy = disconnect};

static void open_database(void) {
  ck_assert_int_eq(sqlite3_open(":memory:", &db), SQLITE_OK);
  fuzz_close_at_exit(db);
  ck_assert_int_eq(sqlite3_create_module(db, "spy", &spy, NULL), SQLITE_OK);
}

/* ---- What must hold of an accepted text */

static bool is_key(int column) {
  for (int i = 0; i < schema->key_count; i++)
    if (schema->key_columns[i] == column) return true;
  return column == schema->rowid_column;
}

static void expect_column(int column) {
  const char *name = schema->columns[column].name, *types[2], *collations[2];
  const char *const tables[2] = {"t", "o"};
  int not_null[2], key[2], automatic;
  for (int i = 0; i < 2; i++)
    ck_assert_msg(
        sqlite3_table_column_metadata(db, "main", tables[i], name, &types[i], &collations[i],
                                      &not_null[i], &key[i], &automatic) == SQLITE_OK,
        "%s: %s", ordinary, sqlite3_errmsg(db));
  ck_assert_msg(!types[0] == !types[1] && (!types[0] || !sqlite3_stricmp(types[0], types[1])),
                "%s: type %s, not %s", ordinary, types[0], types[1]);
  ck_assert_msg(!sqlite3_stricmp(collations[0], collations[1]), "%s: collation %s", ordinary,
                collations[0]);
  ck_assert_msg(not_null[0] == not_null[1] || column == schema->rowid_column, "%s: NOT NULL %d",
                ordinary, not_null[0]);
  ck_assert_msg(is_key(column) == key[1], "%s: key %d", ordinary, key[1]);
}

/* Words that SQLite reserves are names here without quotes, too. */
static bool is_about_keyword(const char *message) {
  const char *word = "near \"", *end;
  if (strncmp(message, word, strlen(word)) != 0) return false;
  word = message + strlen(word);
  end = strchr(word, '"');
  return end && !strcmp(end, "\": syntax error") && sqlite3_keyword_check(word, (int)(end - word));
}

static void expect_columns(void) {
  sqlite3_stmt *stmt;
  int rc = sqlite3_exec(db, ordinary, NULL, NULL, NULL);
  if (rc != SQLITE_OK && is_about_keyword(sqlite3_errmsg(db))) return;
  ck_assert_msg(rc == SQLITE_OK, "%s: %s", ordinary, sqlite3_errmsg(db));
  ck_assert_int_eq(sqlite3_prepare_v2(db, "SELECT * FROM o", -1, &stmt, NULL), SQLITE_OK);
  ck_assert_int_eq(sqlite3_column_count(stmt), schema->column_count);
  for (int i = 0; i < schema->column_count; i++) {
    ck_assert_str_eq(sqlite3_column_name(stmt, i), schema->columns[i].name);
    expect_column(i);
  }
  sqlite3_finalize(stmt);
}

static void expect_options_same(const struct colfam_options *a, const struct colfam_options *b) {
  char x[64], y[64];
  for (int i = 0; colfam_options_get(a, i, x) && colfam_options_get(b, i, y); i++)
    ck_assert_str_eq(x, y);
}

static void expect_options_read_back(const struct colfam_options *options) {
  struct colfam_options again;
  char value[64];
  const char *name;
  colfam_options_default(&again);
  for (int i = 0; (name = colfam_options_get(options, i, value)); i++) {
    char *message = NULL;
    ck_assert(colfam_options_known(name));
    ck_assert_msg(colfam_options_set(&again, name, value, &message) == SQLITE_OK, "%s", message);
  }
  expect_options_same(options, &again);
}

static void run_create(const char *text) {
  char *sql = sqlite3_mprintf("CREATE VIRTUAL TABLE t USING spy(%s)", text);
  sqlite3_stmt *stmt = NULL;
  ck_assert_int_eq(sqlite3_exec(db, "SAVEPOINT input", NULL, NULL, NULL), SQLITE_OK);
  int rc = sqlite3_prepare_v2(db, sql, -1, &stmt, NULL);
  if (rc == SQLITE_OK) rc = sqlite3_step(stmt);
  sqlite3_finalize(stmt);
  sqlite3_free(sql);
  if (rc == SQLITE_DONE && schema) {
    expect_columns();
    expect_options_read_back(&schema->options);
  }
  ck_assert_int_eq(sqlite3_exec(db, "ROLLBACK TO input; RELEASE input", NULL, NULL, NULL),
                   SQLITE_OK);
  colfam_schema_unref(schema);
  sqlite3_free(ordinary);
  schema = NULL;
  ordinary = NULL;
}

/* ---- A command's text */

static void run_change(const char *text) {
  struct colfam_options options;
  const char *name = NULL;
  char value[64], *message = NULL;
  colfam_options_default(&options);
  int rc = colfam_options_change(&options, text, &name, value, &message);
  if (rc == SQLITE_MISUSE) ck_assert(!strchr(text, '='));
  if (rc == SQLITE_ERROR) ck_assert(message && *message);
  if (rc == SQLITE_OK) {
    struct colfam_options again;
    colfam_options_default(&again);
    ck_assert_int_eq(colfam_options_set(&again, name, value, &message), SQLITE_OK);
    expect_options_same(&options, &again);
    expect_options_read_back(&options);
  }
  sqlite3_free(message);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct fuzz in = fuzz_begin(data, size);
  bool change = fuzz_byte(&in) == '=';
  struct kv_slice rest = fuzz_rest(&in);
  char *text = sqlite3_mprintf("%.*s", (int)rest.size, rest.size ? (const char *)rest.data : "");
  if (!db) open_database();
  if (change) {
    run_change(text);
  } else {
    run_create(text);
  }
  sqlite3_free(text);
  return 0;
}

/* ---- Seeds: the first byte is '=' for a command */

void fuzz_seeds(void) {
  static const char *const seeds[] = {
      " k PRIMARY KEY, v",
      " device TEXT, at INTEGER, kind TEXT NOT NULL, payload BLOB, PRIMARY KEY (device, at DESC),"
      " compression = zstd, filter_bits = 10",
      " id INTEGER PRIMARY KEY, body VARCHAR(10, 2) COLLATE NOCASE",
      " \"a b\" DOUBLE PRECISION CONSTRAINT c NOT NULL, [k] COLLATE RTRIM, CONSTRAINT p PRIMARY"
      " KEY(k COLLATE NOCASE, \"a b\")",
      " line TEXT, block_bytes='1024', memtable_bytes=16384, track_rows = off, conflict=replace",
      " a INT PRIMARY KEY DESC, t, colfam_command, comparator=bytewise, value_bytes=4096",
      " a UNIQUE",
      " a DEFAULT 1",
      " a CHECK(a>0)",
      " a AS (b)",
      " WITHOUT ROWID",
      "=compression=zstd:6",
      "= filter_bits = 0 ",
      "=comparator=reverse",
      "=flush"};
  for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++)
    fuzz_seed(kv_slice_of(seeds[i], strlen(seeds[i])));
}
