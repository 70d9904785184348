/* A recursive-descent reader of column definitions in SQLite's own grammar: one module argument is one
** column, one table constraint (or several, as SQLite's grammar has it) or one option. What SQLite would
** accept in a virtual table's declaration and then not enforce is refused here by name. Any thread. */
#include "schema_parse.h"

#include <string.h>

#include "error.h"
#include "token.h"

struct parser {
  const char *at;            /* behind the current token */
  struct colfam_token token; /* the current one */
  struct colfam_schema *schema;
  struct colfam_key_words *key;
  unsigned options_seen; /* by index of colfam_options_get */
  bool constraint_seen;  /* of the table: no column may follow */
  char **message;
};

int colfam_schema_fail(const struct colfam_schema *schema, char **message, const char *format,
                       ...) {
  va_list args;
  va_start(args, format);
  char *text = sqlite3_vmprintf(format, args);
  va_end(args);
  if (!text) return SQLITE_NOMEM;
  int rc = colfam_error(message, SQLITE_ERROR, "table %s: %s", schema->table, text);
  sqlite3_free(text);
  return rc;
}

int colfam_schema_grow(void **items, int count, size_t size) {
  char *grown = *items;
  if ((count & (count - 1)) == 0) { /* full at 0, 1, 2, 4, ... elements */
    grown = sqlite3_realloc64(*items, size * (count ? 2 * (size_t)count : 1));
    if (!grown) return SQLITE_NOMEM;
  }
  *items = grown;
  memset(grown + size * (size_t)count, 0, size);
  return SQLITE_OK;
}

/* ---- Words */

static void next(struct parser *parser) {
  parser->at = colfam_token_next(parser->at, &parser->token);
}

static bool at(const struct parser *parser, const char *word) {
  return colfam_token_is(&parser->token, word);
}

static bool at_end(const struct parser *parser) {
  return parser->token.kind == COLFAM_TOKEN_END;
}

static bool skip(struct parser *parser, const char *word) {
  bool found = at(parser, word);
  if (found) next(parser);
  return found;
}

static bool next_is(const struct parser *parser, const char *word) {
  struct colfam_token token;
  colfam_token_next(parser->at, &token);
  return colfam_token_is(&token, word);
}

static int unexpected(struct parser *parser, const char *expected) {
  if (at_end(parser))
    return colfam_schema_fail(parser->schema, parser->message,
                              "syntax error at the end: expected %s", expected);
  return colfam_schema_fail(parser->schema, parser->message,
                            "syntax error near \"%.*s\": expected %s", (int)parser->token.size,
                            parser->token.text, expected);
}

/* Clauses that are refused by name. */
struct refusal {
  const char *word;
  const char *clause;
  const char *instead;
};
static const struct refusal refusals[] = {
    {"CHECK", "CHECK", "test the values before the INSERT"},
    {"DEFAULT", "DEFAULT", "give the value in each INSERT"},
    {"UNIQUE", "UNIQUE",
     "make the columns the PRIMARY KEY, or keep them in a second table whose key they are"},
    {"GENERATED", "GENERATED", "compute the column in a view"},
    {"AS", "AS (a generated column)", "compute the column in a view"},
    {"REFERENCES", "REFERENCES", "test with EXISTS in the same transaction"},
    {"FOREIGN", "FOREIGN KEY", "test with EXISTS in the same transaction"},
    {"DEFERRABLE", "DEFERRABLE", "leave it out"},
    {"AUTOINCREMENT", "AUTOINCREMENT", "leave it out: a NULL key becomes the largest rowid plus 1"},
    {"ON", "ON CONFLICT", "write INSERT OR REPLACE, OR IGNORE and so on, or the option conflict"},
};

static const struct refusal *find_refusal(const struct parser *parser) {
  for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++)
    if (at(parser, refusals[i].word)) return &refusals[i];
  return NULL;
}

/* SQLite reserves the words of its constraints: unquoted they are no names. */
static bool at_name(const struct parser *parser) {
  static const char *const words[] = {"CONSTRAINT", "PRIMARY", "NOT", "NULL", "COLLATE"};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (at(parser, words[i])) return false;
  return !find_refusal(parser) && colfam_token_is_name(&parser->token);
}

static int take_name(struct parser *parser, const char *expected, char **name) {
  if (!at_name(parser)) return unexpected(parser, expected);
  sqlite3_free(*name);
  *name = colfam_token_name(&parser->token);
  if (!*name) return SQLITE_NOMEM;
  next(parser);
  return SQLITE_OK;
}

/* ---- Refusals */

static int refuse(struct parser *parser, const char *clause, const char *instead) {
  return colfam_schema_fail(parser->schema, parser->message, "%s is not supported: %s", clause,
                            instead);
}

/* What stands here cannot: says why, or that something else is expected. */
static int refuse_here(struct parser *parser, const char *expected) {
  const struct refusal *refusal = find_refusal(parser);
  if (refusal) return refuse(parser, refusal->clause, refusal->instead);
  return unexpected(parser, expected);
}

/* ---- Keys */

/* Takes over the word's texts. */
static int add_key_word(struct parser *parser, struct colfam_key_word word) {
  struct colfam_key_words *key = parser->key;
  void *words = key->words;
  if (!word.column || colfam_schema_grow(&words, key->count, sizeof *key->words) != SQLITE_OK) {
    sqlite3_free(word.column);
    sqlite3_free(word.collation);
    return SQLITE_NOMEM;
  }
  key->words = words;
  key->words[key->count++] = word;
  return SQLITE_OK;
}

/* [ASC | DESC] */
static bool take_order(struct parser *parser) {
  return !skip(parser, "ASC") && skip(parser, "DESC");
}

/* Behind PRIMARY, in both places where it can stand. */
static int begin_key(struct parser *parser) {
  next(parser);
  if (!skip(parser, "KEY")) return unexpected(parser, "KEY");
  if (parser->key->declared)
    return colfam_schema_fail(parser->schema, parser->message, "more than one PRIMARY KEY");
  parser->key->declared = true;
  return SQLITE_OK;
}

/* name [COLLATE name] [ASC | DESC] */
static int parse_key_column(struct parser *parser) {
  struct colfam_key_word word = {.column = NULL};
  int rc = take_name(parser, "a column name", &word.column);
  if (rc == SQLITE_OK && skip(parser, "COLLATE"))
    rc = take_name(parser, "a collation", &word.collation);
  if (rc == SQLITE_OK) {
    word.descending = take_order(parser);
    return add_key_word(parser, word);
  }
  sqlite3_free(word.column);
  sqlite3_free(word.collation);
  return rc;
}

/* PRIMARY KEY (a, b DESC) */
static int parse_table_key(struct parser *parser) {
  int rc = begin_key(parser);
  if (rc != SQLITE_OK) return rc;
  if (!at(parser, "(")) return unexpected(parser, "(");
  do {
    next(parser);
    rc = parse_key_column(parser);
    if (rc != SQLITE_OK) return rc;
  } while (at(parser, ","));
  if (!skip(parser, ")")) return unexpected(parser, ", or )");
  return SQLITE_OK;
}

static int parse_column_key(struct parser *parser, const struct colfam_column *column) {
  int rc = begin_key(parser);
  if (rc != SQLITE_OK) return rc;
  struct colfam_key_word word = {.column = sqlite3_mprintf("%s", column->name),
                                 .descending = take_order(parser)};
  parser->key->column_descending = word.descending;
  return add_key_word(parser, word);
}

/* ---- Columns */

static bool is_number(const struct colfam_token *token) {
  return token->kind == COLFAM_TOKEN_WORD && *token->text >= '0' && *token->text <= '9';
}

static int skip_signed_number(struct parser *parser) {
  if (!skip(parser, "+")) skip(parser, "-");
  bool digits = is_number(&parser->token);
  if (digits) next(parser);
  if (skip(parser, ".") && is_number(&parser->token)) {
    digits = true;
    next(parser);
  }
  return digits ? SQLITE_OK : unexpected(parser, "a number");
}

/* (n) or (n, m); *end is behind it. */
static int skip_type_size(struct parser *parser, const char **end) {
  next(parser);
  int rc = skip_signed_number(parser);
  if (rc == SQLITE_OK && skip(parser, ",")) rc = skip_signed_number(parser);
  if (rc != SQLITE_OK) return rc;
  if (!at(parser, ")")) return unexpected(parser, ")");
  *end = parser->at;
  next(parser);
  return SQLITE_OK;
}

/* SQLite would hide a column whose type has this word. */
static int refuse_hidden(struct parser *parser, const char *type) {
  if (sqlite3_strlike("%hidden%", type, 0) != 0) return SQLITE_OK;
  return refuse(parser, "a type with the word HIDDEN", "leave it out");
}

static int parse_type(struct parser *parser, struct colfam_column *column) {
  const char *start = parser->token.text, *end = start;
  while (at_name(parser)) {
    end = parser->at;
    next(parser);
  }
  if (end > start && at(parser, "(")) {
    int rc = skip_type_size(parser, &end);
    if (rc != SQLITE_OK) return rc;
  }
  column->type = sqlite3_mprintf("%.*s", (int)(end - start), start);
  return column->type ? refuse_hidden(parser, column->type) : SQLITE_NOMEM;
}

/* SQLite refuses a collation that it does not know, when it gets the declaration. */
static int parse_collation(struct parser *parser, struct colfam_column *column) {
  next(parser);
  if (column->collation)
    return colfam_schema_fail(parser->schema, parser->message,
                              "column %s has two collations: write only the last", column->name);
  return take_name(parser, "a collation", &column->collation);
}

/* [CONSTRAINT name], whose name SQLite does not keep either. */
static int skip_constraint_name(struct parser *parser) {
  if (!skip(parser, "CONSTRAINT")) return SQLITE_OK;
  if (!at_name(parser)) return unexpected(parser, "a constraint name");
  next(parser);
  return SQLITE_OK;
}

static int parse_column_constraint(struct parser *parser, struct colfam_column *column) {
  int rc = skip_constraint_name(parser);
  if (rc != SQLITE_OK || at_end(parser)) return rc;
  if (at(parser, "PRIMARY")) return parse_column_key(parser, column);
  if (at(parser, "COLLATE")) return parse_collation(parser, column);
  if (skip(parser, "NULL")) return SQLITE_OK;
  if (skip(parser, "NOT")) {
    column->not_null = true;
    return skip(parser, "NULL") ? SQLITE_OK : unexpected(parser, "NULL");
  }
  return refuse_here(parser, "NOT NULL, PRIMARY KEY, COLLATE or the end of the column");
}

static int parse_column(struct parser *parser) {
  struct colfam_schema *schema = parser->schema;
  void *columns = schema->columns;
  int rc = colfam_schema_grow(&columns, schema->column_count, sizeof *schema->columns);
  if (rc != SQLITE_OK) return rc;
  schema->columns = columns;
  struct colfam_column *column = &schema->columns[schema->column_count++];
  rc = take_name(parser, "a column or an option", &column->name);
  if (rc == SQLITE_OK) rc = parse_type(parser, column);
  while (rc == SQLITE_OK && !at_end(parser)) rc = parse_column_constraint(parser, column);
  return rc;
}

/* ---- Options */

static int note_option(struct parser *parser, const char *name) {
  char value[64];
  const char *known;
  for (int i = 0; (known = colfam_options_get(&parser->schema->options, i, value)); i++) {
    if (sqlite3_stricmp(known, name) != 0) continue;
    if (parser->options_seen >> i & 1)
      return colfam_schema_fail(parser->schema, parser->message, "option %s is given twice", known);
    parser->options_seen |= 1u << i;
  }
  return SQLITE_OK;
}

/* The rest of the argument: one quoted text, or words and signs without the blanks around signs. */
static char *take_value(struct parser *parser) {
  if (parser->token.kind == COLFAM_TOKEN_QUOTED) {
    char *value = colfam_token_name(&parser->token);
    next(parser);
    return value;
  }
  sqlite3_str *value = sqlite3_str_new(NULL);
  bool after_word = false;
  while (!at_end(parser)) {
    bool word = parser->token.kind == COLFAM_TOKEN_WORD;
    if (word && after_word) sqlite3_str_appendchar(value, 1, ' ');
    sqlite3_str_append(value, parser->token.text, (int)parser->token.size);
    after_word = word;
    next(parser);
  }
  int rc = sqlite3_str_errcode(value);
  char *text = sqlite3_str_finish(value);
  return text || rc != SQLITE_OK ? text : sqlite3_mprintf("");
}

static int set_option(struct parser *parser, const char *name, const char *value) {
  int rc = note_option(parser, name);
  if (rc != SQLITE_OK) return rc;
  char *text = NULL;
  rc = colfam_options_set(&parser->schema->options, name, value, &text);
  if (text) rc = colfam_schema_fail(parser->schema, parser->message, "%s", text);
  sqlite3_free(text);
  return rc;
}

static int parse_option(struct parser *parser) {
  char *name = NULL;
  int rc = take_name(parser, "an option", &name);
  if (rc != SQLITE_OK) return rc;
  next(parser); /* = */
  char *value = take_value(parser);
  rc = value ? SQLITE_OK : SQLITE_NOMEM;
  if (rc == SQLITE_OK && !at_end(parser)) rc = unexpected(parser, "the end of the option");
  if (rc == SQLITE_OK) rc = set_option(parser, name, value);
  sqlite3_free(value);
  sqlite3_free(name);
  return rc;
}

/* ---- Arguments */

static int parse_table_constraints(struct parser *parser) {
  int rc = SQLITE_OK;
  while (rc == SQLITE_OK && !at_end(parser)) {
    rc = skip_constraint_name(parser);
    if (rc != SQLITE_OK || at_end(parser)) break;
    rc = at(parser, "PRIMARY") ? parse_table_key(parser)
                               : refuse_here(parser, "PRIMARY KEY or the end of the argument");
  }
  return rc;
}

static bool at_table_constraint(const struct parser *parser) {
  return at(parser, "CONSTRAINT") || at(parser, "PRIMARY") || find_refusal(parser);
}

static bool ends_behind(const struct parser *parser) {
  struct colfam_token token;
  colfam_token_next(parser->at, &token);
  return token.kind == COLFAM_TOKEN_END;
}

static int parse_argument(struct parser *parser) {
  next(parser);
  if (colfam_token_is_name(&parser->token) && next_is(parser, "=")) return parse_option(parser);
  if (at(parser, "STRICT") && ends_behind(parser))
    return refuse(parser, "STRICT", "leave it out (a column of this name is written in quotes)");
  if (at(parser, "WITHOUT") && next_is(parser, "ROWID"))
    return refuse(parser, "WITHOUT ROWID",
                  "leave it out: every PRIMARY KEY but INTEGER PRIMARY KEY means it");
  if (at_table_constraint(parser)) {
    parser->constraint_seen = true;
    return parse_table_constraints(parser);
  }
  if (parser->constraint_seen)
    return unexpected(parser, "an option (columns stand before PRIMARY KEY (...))");
  return parse_column(parser);
}

int colfam_schema_parse(struct colfam_schema *schema, struct colfam_key_words *key, int argc,
                        const char *const *argv, char **message) {
  struct parser parser = {.schema = schema, .key = key, .message = message};
  for (int i = 3; i < argc; i++) {
    parser.at = argv[i];
    int rc = parse_argument(&parser);
    if (rc != SQLITE_OK) return rc;
  }
  return SQLITE_OK;
}
