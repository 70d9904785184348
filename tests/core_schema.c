/* CREATE VIRTUAL TABLE's arguments: what is read from them, what is refused and how, and that SQLite sees the
** same columns as in an ordinary table of the same text. */
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "ext/schema.h"
#include "ext/token.h"
#include "harness_oom.h"
#include "harness_sql.h"

enum { ARGUMENTS_MAX = 12 };

/* Splits "a|b|c" into module arguments behind module, database and table name. */
struct arguments {
  const char *argv[ARGUMENTS_MAX];
  int argc;
  char text[1024];
};

static void split(struct arguments *arguments, const char *table, const char *text) {
  snprintf(arguments->text, sizeof arguments->text, "%s", text);
  arguments->argv[0] = "colfam";
  arguments->argv[1] = "main";
  arguments->argv[2] = table;
  arguments->argc = 3;
  for (char *at = arguments->text; at && *at;) {
    ck_assert_int_lt(arguments->argc, ARGUMENTS_MAX);
    arguments->argv[arguments->argc++] = at;
    at = strchr(at, '|');
    if (at) *at++ = 0;
  }
}

static int parse(const char *table, const char *text, struct colfam_schema **schema,
                 char **message) {
  struct arguments arguments;
  split(&arguments, table, text);
  *message = NULL;
  return colfam_schema_new(arguments.argc, arguments.argv, schema, message);
}

/* Must be accepted. */
static struct colfam_schema *accept(const char *table, const char *text) {
  struct colfam_schema *schema;
  char *message;
  int rc = parse(table, text, &schema, &message);
  ck_assert_msg(rc == SQLITE_OK, "%s: %s", text, message);
  ck_assert_ptr_null(message);
  return schema;
}

static void check_refused(const char *text, const char *part) {
  struct colfam_schema *schema;
  char *message;
  int rc = parse("t", text, &schema, &message);
  ck_assert_msg(rc == SQLITE_ERROR, "%s: code %d", text, rc);
  ck_assert_ptr_null(schema);
  ck_assert_msg(message && strncmp(message, "table t: ", 9) == 0, "%s: %s", text, message);
  ck_assert_msg(strstr(message, part) != NULL, "%s: no '%s' in: %s", text, part, message);
  sqlite3_free(message);
}

/* ---- Words */

START_TEST(tokens_of_every_kind) {
  static const struct {
    const char *text;
    enum colfam_token_kind kind;
    const char *name;
  } cases[] = {
      {"  abc ", COLFAM_TOKEN_WORD, "abc"},
      {"/* x */ -- y\n _1$ ", COLFAM_TOKEN_WORD, "_1$"},
      {"\"a\"\"b\" c", COLFAM_TOKEN_QUOTED, "a\"b"},
      {"[a]]", COLFAM_TOKEN_QUOTED, "a"},
      {"`a``b`", COLFAM_TOKEN_QUOTED, "a`b"},
      {"'it''s'", COLFAM_TOKEN_QUOTED, "it's"},
      {"''", COLFAM_TOKEN_QUOTED, ""},
      {"(a", COLFAM_TOKEN_SIGN, "("},
      {"\xc3\xa4x", COLFAM_TOKEN_WORD, "\xc3\xa4x"},
      {"'open", COLFAM_TOKEN_BAD, NULL},
      {"[open", COLFAM_TOKEN_BAD, NULL},
      {"", COLFAM_TOKEN_END, NULL},
      {" -- all comment", COLFAM_TOKEN_END, NULL},
      {"/* never closed", COLFAM_TOKEN_END, NULL},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct colfam_token token;
    colfam_token_next(cases[i].text, &token);
    ck_assert_int_eq(token.kind, cases[i].kind);
    if (!cases[i].name) continue;
    char *name = colfam_token_name(&token);
    ck_assert_str_eq(name, cases[i].name);
    sqlite3_free(name);
  }
}
END_TEST

/* ---- Columns */

START_TEST(affinity_of_types) {
  static const struct {
    const char *type;
    enum colfam_affinity affinity;
  } cases[] = {
      {"", COLFAM_AFF_BLOB},           {"BLOB", COLFAM_AFF_BLOB},
      {"blob text", COLFAM_AFF_TEXT},  {"Integer", COLFAM_AFF_INTEGER},
      {"BIGINT", COLFAM_AFF_INTEGER},  {"FLOATING POINT", COLFAM_AFF_INTEGER},
      {"CHARINT", COLFAM_AFF_INTEGER}, {"VARCHAR(10, 2)", COLFAM_AFF_TEXT},
      {"clob", COLFAM_AFF_TEXT},       {"REAL", COLFAM_AFF_REAL},
      {"double", COLFAM_AFF_REAL},     {"FLOA", COLFAM_AFF_REAL},
      {"REALBLOB", COLFAM_AFF_BLOB},   {"DECIMAL(10,5)", COLFAM_AFF_NUMERIC},
      {"STRING", COLFAM_AFF_NUMERIC},  {"DATETIME", COLFAM_AFF_NUMERIC},
      {"''", COLFAM_AFF_NUMERIC},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[64];
    snprintf(text, sizeof text, "a %s", cases[i].type);
    struct colfam_schema *schema = accept("t", text);
    ck_assert_msg(schema->columns[0].affinity == cases[i].affinity, "%s", text);
    ck_assert_str_eq(schema->columns[0].type, cases[i].type);
    colfam_schema_unref(schema);
  }
}
END_TEST

START_TEST(columns_are_numbered) {
  struct colfam_schema *schema = accept("t", "v1|k1 TEXT|v2 NOT NULL|k2|PRIMARY KEY(k2 DESC, k1)");
  ck_assert_int_eq(schema->column_count, 4);
  ck_assert_int_eq(schema->key_count, 2);
  ck_assert_int_eq(schema->key_columns[0], 3);
  ck_assert_int_eq(schema->key_columns[1], 1);
  ck_assert_int_eq(schema->columns[0].value_index, 0);
  ck_assert_int_eq(schema->columns[1].value_index, -1);
  ck_assert_int_eq(schema->columns[2].value_index, 1);
  ck_assert_int_eq(schema->columns[1].key_index, 1);
  ck_assert(schema->columns[3].descending && !schema->columns[1].descending);
  ck_assert(schema->columns[1].not_null && schema->columns[3].not_null);
  ck_assert(!schema->columns[0].not_null && schema->columns[2].not_null);
  ck_assert_int_eq(schema->hidden_key, 4);
  ck_assert_int_eq(schema->command_column, 5);
  ck_assert_int_eq(schema->keys_column, 6);
  struct kv_key_part first = colfam_schema_key_part(schema, 0);
  struct kv_key_part last = colfam_schema_key_part(schema, 1);
  ck_assert(first.descending && !first.last && !last.descending && last.last);
  colfam_schema_unref(schema);
}
END_TEST

/* ---- Keys */

START_TEST(forms_of_keys) {
  static const struct {
    const char *text;
    enum colfam_key_form form;
    int rowid_column;
    int key_count;
  } cases[] = {
      {"a|b", COLFAM_KEY_ROWID, -1, 0},
      {"a|b INTEGER PRIMARY KEY", COLFAM_KEY_ROWID, 1, 0},
      {"a integer primary key asc", COLFAM_KEY_ROWID, 0, 0},
      {"a INTEGER|PRIMARY KEY(a)", COLFAM_KEY_ROWID, 0, 0},
      {"a INTEGER|PRIMARY KEY(A DESC)", COLFAM_KEY_ROWID, 0, 0},
      {"a [INTEGER] PRIMARY KEY", COLFAM_KEY_ROWID, 0, 0},
      {"a INTEGER|PRIMARY KEY('a' COLLATE BINARY)", COLFAM_KEY_ROWID, 0, 0},
      {"a INTEGER PRIMARY KEY DESC", COLFAM_KEY_HIDDEN, -1, 1},
      {"a INTEGER(5) PRIMARY KEY", COLFAM_KEY_COLUMN, -1, 1},
      {"a INT PRIMARY KEY", COLFAM_KEY_COLUMN, -1, 1},
      {"a PRIMARY KEY", COLFAM_KEY_COLUMN, -1, 1},
      {"a TEXT|PRIMARY KEY(a)", COLFAM_KEY_COLUMN, -1, 1},
      {"a TEXT|PRIMARY KEY(a DESC)", COLFAM_KEY_HIDDEN, -1, 1},
      {"a INTEGER|b INTEGER|PRIMARY KEY(a, b)", COLFAM_KEY_HIDDEN, -1, 2},
      {"a TEXT|PRIMARY KEY(a)|filter_bits = 3", COLFAM_KEY_COLUMN, -1, 1},
      {"a TEXT CONSTRAINT c PRIMARY KEY NOT NULL", COLFAM_KEY_COLUMN, -1, 1},
      {"a TEXT|CONSTRAINT c PRIMARY KEY(a)", COLFAM_KEY_COLUMN, -1, 1},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct colfam_schema *schema = accept("t", cases[i].text);
    ck_assert_msg(schema->key_form == cases[i].form, "%s", cases[i].text);
    ck_assert_msg(schema->rowid_column == cases[i].rowid_column, "%s", cases[i].text);
    ck_assert_msg(schema->key_count == cases[i].key_count, "%s", cases[i].text);
    colfam_schema_unref(schema);
  }
}
END_TEST

START_TEST(collations_of_keys) {
  static const struct {
    const char *text;
    kv_collation collation;
  } cases[] = {
      {"a TEXT PRIMARY KEY", KV_BINARY},
      {"a TEXT COLLATE NoCase PRIMARY KEY", KV_NOCASE},
      {"a TEXT PRIMARY KEY COLLATE \"rtrim\"", KV_RTRIM},
      {"a COLLATE 'nocase' NOT NULL|PRIMARY KEY(a DESC)", KV_NOCASE},
      {"a COLLATE [binary]|PRIMARY KEY(a)", KV_BINARY},
      {"a COLLATE NOCASE|b COLLATE german|PRIMARY KEY(a COLLATE nocase)", KV_NOCASE},
      {"a|PRIMARY KEY(a COLLATE Binary)", KV_BINARY},
      {"a INTEGER COLLATE NOCASE PRIMARY KEY", KV_BINARY},
      {"a INTEGER|PRIMARY KEY(a COLLATE nowhere)", KV_BINARY},
  };
  static const char *const names[] = {"BINARY", "NOCASE", "RTRIM"};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct colfam_schema *schema = accept("t", cases[i].text);
    kv_collation collation = cases[i].collation;
    ck_assert_msg(colfam_schema_key_part(schema, 0).collation == collation, "%s", cases[i].text);
    ck_assert_str_eq(colfam_schema_key_collation(schema, 0), names[collation]);
    colfam_schema_unref(schema);
  }
}
END_TEST

START_TEST(rowid_key_part_is_ascending_and_last) {
  struct colfam_schema *schema = accept("t", "a");
  struct kv_key_part part = colfam_schema_key_part(schema, 0);
  ck_assert(!part.descending && part.last);
  colfam_schema_unref(schema);
}
END_TEST

/* ---- Refusals */

START_TEST(refused_clauses_say_what_to_write) {
  static const struct {
    const char *text;
    const char *part;
  } cases[] = {
      {"a CHECK (a > 0)", "CHECK is not supported: test the values"},
      {"a|CHECK (a > 0)", "CHECK is not supported"},
      {"a DEFAULT 5", "DEFAULT is not supported: give the value"},
      {"a INT UNIQUE", "UNIQUE is not supported: make the columns the PRIMARY KEY"},
      {"a|UNIQUE(a)", "UNIQUE is not supported"},
      {"a|b AS (a + 1)", "generated column) is not supported: compute"},
      {"a|b INT GENERATED ALWAYS AS (a)", "GENERATED is not supported: compute"},
      {"a REFERENCES b(c)", "REFERENCES is not supported: test with EXISTS"},
      {"a|FOREIGN KEY(a) REFERENCES b", "FOREIGN KEY is not supported"},
      {"a INTEGER PRIMARY KEY AUTOINCREMENT", "AUTOINCREMENT is not supported: leave it out"},
      {"a PRIMARY KEY ON CONFLICT REPLACE", "ON CONFLICT is not supported: write INSERT OR"},
      {"a NOT NULL ON CONFLICT IGNORE", "ON CONFLICT is not supported"},
      {"a|PRIMARY KEY(a) ON CONFLICT FAIL", "ON CONFLICT is not supported"},
      {"a|STRICT", "STRICT is not supported: leave it out"},
      {"a|without rowid", "WITHOUT ROWID is not supported: leave it out"},
      {"a TEXT HIDDEN", "HIDDEN is not supported"},
      {"a TEXT COLLATE german PRIMARY KEY",
       "key column a: COLLATE german is not supported on keys: use BINARY, NOCASE or RTRIM, or"},
      {"a COLLATE german|b|PRIMARY KEY(b, a)", "key column a: COLLATE german is not supported"},
      {"a|b|PRIMARY KEY(a, b COLLATE german)", "key column b: COLLATE german is not supported"},
      {"a|PRIMARY KEY(a COLLATE nocase)",
       "COLLATE nocase in PRIMARY KEY, but BINARY in the column, is not supported: write COLLATE "
       "nocase behind the column's type"},
      {"a COLLATE RTRIM|PRIMARY KEY(a COLLATE BINARY)", "COLLATE BINARY in PRIMARY KEY, but RTRIM"},
      {"a COLLATE NOCASE COLLATE RTRIM", "column a has two collations: write only the last"},
      {"", "no columns"},
      {"filter_bits = 3", "no columns"},
      {"a|A", "duplicate column name: A"},
      {"a|PRIMARY KEY(b)", "PRIMARY KEY names no column: b"},
      {"a|PRIMARY KEY(a, a)", "PRIMARY KEY names column a twice"},
      {"a PRIMARY KEY|b PRIMARY KEY", "more than one PRIMARY KEY"},
      {"a PRIMARY KEY|PRIMARY KEY(a)", "more than one PRIMARY KEY"},
      {"colfam_key", "names that begin with colfam_ are for hidden columns"},
      {"colfam_Command", "names that begin with colfam_"},
      {"a VARCHAR(max)", "syntax error near \"max\": expected a number"},
      {"a INT(1,2,3)", "syntax error near \",\": expected )"},
      {"a NOT", "syntax error at the end: expected NULL"},
      {"a NOT DEFERRABLE", "DEFERRABLE is not supported: leave it out"},
      {"a PRIMARY", "expected KEY"},
      {"a|PRIMARY KEY a", "expected ("},
      {"a|PRIMARY KEY(a", "expected , or )"},
      {"a|PRIMARY KEY()", "expected a column name"},
      {"a|PRIMARY KEY(lower(a))", "expected , or )"},
      {"a|CONSTRAINT", "expected a constraint name"},
      {"a COLLATE", "expected a collation"},
      {"1a", "syntax error near \"1a\": expected a column or an option"},
      {"a 'open", "syntax error near \"'open\""},
      {"a + b", "syntax error near \"+\""},
      {"a|PRIMARY KEY(a)|b", "syntax error near \"b\": expected an option (columns stand before"},
      {" ", "syntax error at the end: expected a column or an option"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    check_refused(cases[i].text, cases[i].part);
}
END_TEST

START_TEST(too_many_columns_are_refused) {
  enum { COLUMNS = 2000 };
  static char names[COLUMNS][16];
  static const char *argv[COLUMNS + 3] = {"colfam", "main", "t"};
  for (int i = 0; i < COLUMNS; i++) {
    snprintf(names[i], sizeof names[i], "c%d", i);
    argv[3 + i] = names[i];
  }
  struct colfam_schema *schema = NULL;
  char *message = NULL;
  ck_assert_int_eq(colfam_schema_new(COLUMNS + 1, argv, &schema, &message), SQLITE_OK);
  ck_assert_int_eq(schema->command_column, COLUMNS - 2);
  ck_assert_int_eq(schema->keys_column, COLUMNS - 1);
  colfam_schema_unref(schema);
  ck_assert_int_eq(colfam_schema_new(COLUMNS + 2, argv, &schema, &message), SQLITE_ERROR);
  ck_assert_ptr_nonnull(strstr(message, "too many columns: 1999, at most 1998 are allowed"));
  sqlite3_free(message);
}
END_TEST

/* ---- Options */

START_TEST(options_are_read_anywhere_and_in_any_dress) {
  struct colfam_schema *schema =
      accept("t", "compression=zstd : 7|a|Filter_Bits = 0|block_bytes='1024'|PRIMARY KEY(a)|"
                  "memtable_bytes = 1073741824 -- most|track_rows=OFF|conflict = \"replace\"");
  ck_assert_int_eq(schema->options.kv.compression_level, 7);
  ck_assert_int_eq(schema->options.kv.filter_bits, 0);
  ck_assert_uint_eq(schema->options.kv.block_bytes, 1024);
  ck_assert_uint_eq(schema->options.kv.memtable_bytes, 1073741824);
  ck_assert(!schema->options.track_rows && schema->options.conflict_replace);
  colfam_schema_unref(schema);
}
END_TEST

START_TEST(bad_options_list_what_is_allowed) {
  static const struct {
    const char *text;
    const char *part;
  } cases[] = {
      {"a|color = red", "unknown option color: the options are compression, filter_bits,"},
      {"a|compression = lz4", "compression cannot be 'lz4': allowed are none, zstd, zstd:1 to"},
      {"a|compression = zstd:20", "allowed are none, zstd"},
      {"a|compression = zstd:", "cannot be 'zstd:'"},
      {"a|compression =", "cannot be ''"},
      {"a|filter_bits = 21", "filter_bits cannot be '21': allowed are 0 to 20"},
      {"a|filter_bits = -1", "cannot be '-1'"},
      {"a|filter_bits = 1.5", "cannot be '1.5'"},
      {"a|block_bytes = 1023", "allowed are 1024 to 1048576"},
      {"a|block_bytes = 10 24", "cannot be '10 24'"},
      {"a|memtable_bytes = 99999999999999999999", "allowed are 16384 to 1073741824"},
      {"a|comparator = 7up", "allowed are bytewise, reverse and names of registered orders"},
      {"a|value_bytes = 1e3", "option value_bytes cannot be '1e3': allowed are 0 to 1048576"},
      {"a|track_rows = maybe", "allowed are on, off"},
      {"a|conflict = ignore", "allowed are abort, replace"},
      {"a|filter_bits = 5|FILTER_BITS = 5", "option filter_bits is given twice"},
      {"a|filter_bits = '5' 6", "syntax error near \"6\": expected the end of the option"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    check_refused(cases[i].text, cases[i].part);
}
END_TEST

START_TEST(options_survive_a_round_trip) {
  struct colfam_options options, copy;
  char value[64], *message = NULL;
  const char *name;
  colfam_options_default(&options);
  colfam_options_default(&copy);
  options.kv = (struct kv_options){0, 20, 1048576, 16384, 7};
  options.track_rows = false;
  options.conflict_replace = true;
  int count = 0;
  for (; (name = colfam_options_get(&options, count, value)); count++)
    ck_assert_int_eq(colfam_options_set(&copy, name, value, &message), SQLITE_OK);
  ck_assert_int_eq(count, 8);
  ck_assert_int_eq(copy.kv.compression_level, 0);
  ck_assert_int_eq(copy.kv.filter_bits, 20);
  ck_assert_uint_eq(copy.kv.block_bytes, 1048576);
  ck_assert_uint_eq(copy.kv.memtable_bytes, 16384);
  ck_assert_uint_eq(copy.kv.value_bytes, 7);
  ck_assert(!copy.track_rows && copy.conflict_replace);
  ck_assert_ptr_null(colfam_options_get(&options, -1, value));
}
END_TEST

/* ---- Declarations, as SQLite sees them */

START_TEST(columns_look_as_in_an_ordinary_table) {
  static const char *const definitions[] = {
      "a, b",
      "a INTEGER PRIMARY KEY, b TEXT NOT NULL",
      "a TEXT PRIMARY KEY, b VARCHAR( 10 , -2 ) NULL",
      "\"a b\" TEXT PRIMARY KEY, [c\"d] \"some type\", 'e' `x y`, \"f\"\"g\"",
      "a /* note */ INT UNSIGNED -- more\n NOT NULL, b COLLATE NOCASE",
      "a CONSTRAINT x NOT NULL CONSTRAINT y, b",
      "select_ TEXT, key BLOB, a INTEGER, PRIMARY KEY(a)",
      "\"select\" TEXT, \"\" INT",
      "a TEXT COLLATE binary PRIMARY KEY",
      "a TEXT COLLATE nocase, b, PRIMARY KEY(a)",
      "\xc3\xa4 TEXT, _b, c$d",
      "generated, a CONSTRAINT generated CONSTRAINT x NOT NULL CONSTRAINT y",
  };
  sqlite3 *db = sql_open(sql_path("app.db"));
  for (size_t i = 0; i < sizeof definitions / sizeof *definitions; i++) {
    char *ordinary = sqlite3_mprintf(
        "CREATE TABLE o(%s)%s", definitions[i],
        strstr(definitions[i], "TEXT PRIMARY") || strstr(definitions[i], "TEXT COLLATE")
            ? " WITHOUT ROWID"
            : "");
    sql_ok(db, ordinary);
    sql_okf(db, "CREATE VIRTUAL TABLE t USING colfam(%s)", definitions[i]);
    sql_same(db, "SELECT cid, name, type, \"notnull\", pk FROM pragma_table_info('t')",
             "SELECT cid, name, type, \"notnull\" OR pk, pk FROM pragma_table_info('o')");
    sql_ok(db, "DROP TABLE o; DROP TABLE t");
    sqlite3_free(ordinary);
  }
  sql_close(db);
}
END_TEST

START_TEST(composite_keys_have_a_hidden_one) {
  sqlite3 *db = sql_open(sql_path("app.db"));
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(a, b TEXT, c, PRIMARY KEY(b, a DESC))");
  sql_rows(db, "SELECT name, type, \"notnull\", pk, hidden FROM pragma_table_xinfo('t')",
           "a||1|0|0\nb|TEXT|1|0|0\nc||0|0|0\ncolfam_key|BLOB|1|1|1\nt||0|0|1\n"
           "colfam_keys||0|0|1");
  sql_close(db);
}
END_TEST

START_TEST(command_column_gives_way_to_other_names) {
  static const struct {
    const char *table;
    const char *columns;
    const char *command;
  } cases[] = {
      {"t", "a", "t"},
      {"t", "T", "colfam_command"},
      {"rowid", "a", "colfam_command"},
      {"OID", "a", "colfam_command"},
      {"colfam_key", "a", "colfam_command"},
      {"colfam_keys", "a", "colfam_command"},
      {"odd \"name", "a", "odd \"name"},
  };
  sqlite3 *db = sql_open(sql_path("app.db"));
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    sql_okf(db, "CREATE VIRTUAL TABLE \"%w\" USING colfam(%s)", cases[i].table, cases[i].columns);
    char *sql = sqlite3_mprintf("SELECT name FROM pragma_table_xinfo(%Q) WHERE hidden = 1 LIMIT 1",
                                cases[i].table);
    sql_rows(db, sql, cases[i].command);
    sqlite3_free(sql);
    sql_okf(db, "DROP TABLE \"%w\"", cases[i].table);
  }
  sql_close(db);
}
END_TEST

/* ---- Random definitions: what we accept SQLite accepts too, and sees alike */

static void append_piece(sqlite3_str *text, struct harness_random *random) {
  static const char *const pieces[] = {
      "a",          "b",
      "\"c d\"",    "[e]",
      "INTEGER",    "TEXT",
      "BLOB",       "varchar",
      "(10)",       "(",
      ")",          "(1,2)",
      ",",          "NOT NULL",
      "NULL",       "PRIMARY KEY",
      "(a)",        "(b)",
      "CONSTRAINT", "x",
      "DESC",       "COLLATE NOCASE",
      "generated",  "CHECK (a > 1)",
      "UNIQUE",     "DEFAULT (1,2)",
      "AS (b)",     "GENERATED ALWAYS AS (1)",
      "CONSTRAINT", "ON CONFLICT FAIL",
      "COLLATE",    "binary",
      "/* c */ d",  "real",
      "'q'",        "ASC",
      "(a, b)",     "(b DESC)",
  };
  size_t count = sizeof pieces / sizeof *pieces;
  sqlite3_str_appendf(text, "%s ", pieces[harness_below(random, count)]);
}

/* SQLite drops empty module arguments before anybody sees them. */
static bool has_empty_argument(const char *definition) {
  size_t size = strlen(definition);
  return definition[0] == ',' || strstr(definition, ", , ") ||
         strcmp(definition + size - 2, ", ") == 0;
}

static char *random_definition(struct harness_random *random) {
  sqlite3_str *text = sqlite3_str_new(NULL);
  int pieces = 1 + (int)harness_below(random, 9);
  for (int p = 0; p < pieces; p++) append_piece(text, random);
  return sqlite3_str_finish(text);
}

/* What an ordinary table takes and a colfam table does not is refused by name. */
static bool is_refusal(const char *message) {
  return strstr(message, "is not supported") || strstr(message, "two collations") ||
         strstr(message, "names column");
}

/* Whether both took it. */
static bool compare_definition(sqlite3 *db, const char *definition) {
  char *ordinary = sqlite3_mprintf("CREATE TABLE o(%s)", definition), *message = NULL;
  char *subject = sqlite3_mprintf("CREATE VIRTUAL TABLE t USING colfam(%s)", definition);
  sql_ok(db, "BEGIN");
  bool right = sqlite3_exec(db, ordinary, NULL, NULL, NULL) == SQLITE_OK;
  bool accepted = sqlite3_exec(db, subject, NULL, NULL, &message) == SQLITE_OK;
  ck_assert_msg(right || !accepted, "an ordinary table refuses: %s", definition);
  ck_assert_msg(accepted || !right || is_refusal(message), "%s: %s", definition, message);
  if (accepted)
    sql_same(db, "SELECT name, type FROM pragma_table_info('t')",
             "SELECT name, type FROM pragma_table_info('o')");
  sql_ok(db, "ROLLBACK");
  sqlite3_free(message);
  sqlite3_free(ordinary);
  sqlite3_free(subject);
  return accepted;
}

START_TEST(random_definitions) {
  struct harness_random random;
  harness_seed(&random, harness_seed_env(77));
  sqlite3 *db = sql_open(sql_path("app.db"));
  sql_ok(db, "PRAGMA synchronous = OFF");
  int accepted = 0;
  for (int i = 0; i < 20000; i++) {
    char *definition = random_definition(&random);
    if (!has_empty_argument(definition)) accepted += compare_definition(db, definition);
    sqlite3_free(definition);
  }
  ck_assert_int_gt(accepted, 500);
  sql_close(db);
}
END_TEST

/* ---- Memory */

START_TEST(every_allocation_fails) {
  static const char *const texts[] = {
      "a TEXT NOT NULL COLLATE NOCASE|b|c INT|PRIMARY KEY(b, c DESC)|filter_bits = 4",
      "a INTEGER PRIMARY KEY|b",
      "a|color = red",
      "a CHECK(a)",
      "a|PRIMARY KEY(z)",
  };
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    bool failed = true;
    for (int n = 1; failed; n++) {
      struct colfam_schema *schema = NULL;
      char *message;
      sqlite3_int64 before = sqlite3_memory_used();
      oom_fail_nth(OOM_SQLITE, n, n % 2);
      int rc = parse("t", texts[i], &schema, &message);
      failed = oom_stop(OOM_SQLITE);
      ck_assert_int_eq(rc == SQLITE_OK, schema != NULL);
      if (failed) ck_assert_msg(rc == SQLITE_NOMEM, "%s: %d: code %d", texts[i], n, rc);
      colfam_schema_unref(schema);
      sqlite3_free(message);
      ck_assert_int_eq(sqlite3_memory_used(), before);
    }
  }
}
END_TEST

static int compare_equal(void *unused, int a_size, const void *a, int b_size, const void *b) {
  (void)unused, (void)a_size, (void)a, (void)b_size, (void)b;
  return 0;
}

/* Whatever fails on the way, a collation that was not there is not there afterwards. */
START_TEST(every_allocation_fails_when_a_collation_is_missing) {
  sqlite3 *db = sql_open(sql_path("missing.db"));
  sqlite3_create_collation(db, "mine", SQLITE_UTF8, NULL, compare_equal);
  sqlite3_create_collation(db, "ours", SQLITE_UTF8, NULL, compare_equal);
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(a COLLATE mine, b COLLATE ours, c COLLATE mine);"
             "INSERT INTO t VALUES(1, 2, 3)");
  sql_close(db);
  bool failed = true;
  for (int n = 1; failed; n++) {
    db = sql_open(sql_path("missing.db"));
    sql_rows(db, "SELECT count(*) FROM sqlite_master WHERE name = 't'", "1");
    oom_fail_nth(OOM_SQLITE, n, n % 2);
    int rc = sqlite3_exec(db, "SELECT * FROM t", NULL, NULL, NULL);
    failed = oom_stop(OOM_SQLITE);
    ck_assert_msg(rc == SQLITE_OK || (rc & 0xff) == SQLITE_NOMEM, "%d: %s", n, sqlite3_errmsg(db));
    sql_fails(db, "SELECT 1 ORDER BY 'x' COLLATE mine", SQLITE_ERROR, "no such collation");
    sql_fails(db, "SELECT 1 ORDER BY 'x' COLLATE ours", SQLITE_ERROR, "no such collation");
    sql_rows(db, "SELECT a, b, c FROM t", "1|2|3");
    sql_close(db);
  }
}
END_TEST

int main(void) {
  oom_install();
  Suite *suite = suite_create("core_schema");
  TCase *tcase = tcase_create("schema");
  tcase_set_timeout(tcase, 60);
  tcase_add_test(tcase, tokens_of_every_kind);
  tcase_add_test(tcase, affinity_of_types);
  tcase_add_test(tcase, columns_are_numbered);
  tcase_add_test(tcase, forms_of_keys);
  tcase_add_test(tcase, collations_of_keys);
  tcase_add_test(tcase, rowid_key_part_is_ascending_and_last);
  tcase_add_test(tcase, refused_clauses_say_what_to_write);
  tcase_add_test(tcase, too_many_columns_are_refused);
  tcase_add_test(tcase, options_are_read_anywhere_and_in_any_dress);
  tcase_add_test(tcase, bad_options_list_what_is_allowed);
  tcase_add_test(tcase, options_survive_a_round_trip);
  tcase_add_test(tcase, columns_look_as_in_an_ordinary_table);
  tcase_add_test(tcase, composite_keys_have_a_hidden_one);
  tcase_add_test(tcase, command_column_gives_way_to_other_names);
  tcase_add_test(tcase, random_definitions);
  tcase_add_test(tcase, every_allocation_fails);
  tcase_add_test(tcase, every_allocation_fails_when_a_collation_is_missing);
  suite_add_tcase(suite, tcase);
  return harness_run(suite);
}
