/* Random values as SQL expressions: small pools, so that keys meet, with all that storage and comparison
** may get wrong in them. */
#include <stdarg.h>
#include <string.h>

#include "harness_random_sql.h"

uint64_t random_below(struct random_sql *g, uint64_t bound) {
  return harness_below(&g->random, bound);
}

bool random_once_in(struct random_sql *g, uint64_t n) {
  return random_below(g, n) == 0;
}

const char *random_of(struct random_sql *g, const char *const *texts, size_t count) {
  return texts[random_below(g, count)];
}

void random_add(struct random_sql *g, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  sqlite3_str_vappendf(g->text, format, arguments);
  va_end(arguments);
}

int random_begin(struct random_sql *g) {
  return g->text == g->whole ? sqlite3_str_length(g->text) : -1;
}

void random_end(struct random_sql *g, int begin) {
  struct random_statement *statement = g->statement;
  if (begin < 0 || !statement || statement->span_count == RANDOM_SPANS_MAX) return;
  int end = sqlite3_str_length(g->text);
  if (end > begin) statement->spans[statement->span_count++] = (struct random_span){begin, end};
}

/* The last two are not for rowids: SQLite does not find -2^63 by the real number that equals it. */
static void integer(struct random_sql *g, bool rowid) {
  static const char *const edges[] = {"9007199254740992",
                                      "9007199254740993",
                                      "-9007199254740993",
                                      "-9223372036854775807",
                                      "4294967296",
                                      "65536",
                                      "255",
                                      "-129",
                                      "-9223372036854775808",
                                      "9223372036854775807"};
  if (!random_once_in(g, 8)) {
    random_add(g, "%d", (int)random_below(g, 44) - 6);
    return;
  }
  random_add(g, "%s", random_of(g, edges, sizeof edges / sizeof *edges - (rowid ? 2 : 0)));
}

static void real(struct random_sql *g) {
  static const char *const edges[] = {"0.0",
                                      "-0.0",
                                      "0.1",
                                      "1e300",
                                      "-1e300",
                                      "9e999",
                                      "(9e999 - 9e999)",
                                      "-9e999",
                                      "9007199254740992.0",
                                      "1e-300",
                                      "5e-324",
                                      "-1e-9",
                                      "1e15",
                                      "1e16",
                                      "9223372036854775807.0",
                                      "9007199254740994.0"};
  if (random_once_in(g, 3)) {
    random_add(g, "%s", RANDOM_OF(g, edges));
  } else {
    random_add(g, "%d.%s", (int)random_below(g, 30) - 4, random_once_in(g, 2) ? "0" : "5");
  }
}

static void text(struct random_sql *g, bool rowid) {
  static const char *const edges[] = {"'a'",
                                      "'A'",
                                      "'b'",
                                      "'ab'",
                                      "'aB'",
                                      "'abc'",
                                      "''",
                                      "' '",
                                      "'a '",
                                      "'1'",
                                      "'01'",
                                      "' 1'",
                                      "'1 '",
                                      "'1.0'",
                                      "'1e0'",
                                      "'1e2'",
                                      "'0x10'",
                                      "'10'",
                                      "'2'",
                                      "'-1'",
                                      "'+1'",
                                      "'.5'",
                                      "'0.5'",
                                      "'-0.0'",
                                      "'1e400'",
                                      "'nan'",
                                      "'inf'",
                                      "'zz'",
                                      "'%'",
                                      "'_'",
                                      "'a*'",
                                      "'a%'",
                                      "'a_c'",
                                      "'[a]'",
                                      "'Ab'",
                                      "'é'",
                                      "'ÿ'",
                                      "'1a'",
                                      "'-'",
                                      "'1e'",
                                      "'9223372036854775808'",
                                      "'9007199254740993'",
                                      "'9007199254740993.0'",
                                      "char(0)",
                                      "'a'||char(0)",
                                      "'a'||char(0)||'b'",
                                      "char(0)||char(0)",
                                      "char(0)||'a'",
                                      "CAST(x'ff' AS TEXT)",
                                      "CAST(x'61ff' AS TEXT)",
                                      "CAST(x'c0' AS TEXT)",
                                      "CAST(x'eda080' AS TEXT)",
                                      "CAST(x'6100ff' AS TEXT)",
                                      "CAST(x'fe' AS TEXT)",
                                      "char(65533)",
                                      "char(1114111)",
                                      "char(1)",
                                      "'1'||char(0)",
                                      "'9223372036854775807'"};
  if (random_once_in(g, 3)) {
    static const char letters[] = "abAB12xyz";
    random_add(g, "'%c%d'", letters[random_below(g, 9)], (int)random_below(g, 12));
    return;
  }
  random_add(g, "%s", random_of(g, edges, sizeof edges / sizeof *edges - (rowid ? 1 : 0)));
}

static void blob(struct random_sql *g) {
  static const char *const edges[] = {"x''",     "x'00'",    "x'0000'",           "x'61'",
                                      "x'ff'",   "x'6162'",  "x'00ff'",           "x'31'",
                                      "x'ffff'", "x'ff00'",  "CAST('1' AS BLOB)", "zeroblob(3)",
                                      "x'0001'", "x'616200'"};
  if (random_once_in(g, 2)) {
    random_add(g, "%s", RANDOM_OF(g, edges));
  } else {
    random_add(g, "x'%02x'", (int)random_below(g, 256));
  }
}

static void long_value(struct random_sql *g, int bytes_max) {
  static const char *const forms[] = {"printf('%%.*c', %d, 'x')", "zeroblob(%d)",
                                      "hex(zeroblob(%d))", "'a'||printf('%%.*c', %d, 'y')||char(0)",
                                      "CAST(printf('%%.*c', %d, 'z') AS BLOB)"};
  int bytes = 1 + (int)random_below(g, (uint64_t)bytes_max);
  sqlite3_str_appendf(g->text, RANDOM_OF(g, forms), bytes);
}

/* A third of the numbers come as text, which NUMERIC turns back. */
static void numeric(struct random_sql *g, bool rowid) {
  uint64_t kind = random_below(g, 6);
  if (kind < 2) {
    integer(g, rowid);
  } else if (kind < 4) {
    real(g);
  } else {
    text(g, rowid);
  }
}

static void short_any(struct random_sql *g, bool rowid) {
  switch (random_below(g, 8)) {
    case 0:
    case 1:
    case 2:
      integer(g, rowid);
      break;
    case 3:
      real(g);
      break;
    case 4:
    case 5:
      text(g, rowid);
      break;
    case 6:
      blob(g);
      break;
    default:
      random_add(g, "%s", random_once_in(g, 3) ? "NULL" : "1");
      break;
  }
}

static void short_value(struct random_sql *g, const char *type, bool rowid) {
  if (random_once_in(g, 5) || !*type) {
    short_any(g, rowid);
    return;
  }
  switch (random_affinity(type)) {
    case RANDOM_INTEGER:
      integer(g, rowid);
      break;
    case RANDOM_TEXT:
      text(g, rowid);
      break;
    case RANDOM_REAL:
      real(g);
      break;
    case RANDOM_NUMERIC:
      numeric(g, rowid);
      break;
    default:
      blob(g);
  }
}

static void write_value(struct random_sql *g, const char *type) {
  if (random_once_in(g, 60)) {
    long_value(g, random_once_in(g, 20) ? 1000000 : 3000);
  } else if (random_once_in(g, 16)) {
    random_add(g, "NULL");
  } else {
    short_value(g, type, false);
  }
}

static void write_key(struct random_sql *g, const char *type, bool rowid, bool strict) {
  if (rowid && (!strict || !random_once_in(g, 8))) {
    integer(g, true);
  } else if (!rowid && random_once_in(g, 100)) {
    long_value(g, 1500);
  } else {
    short_value(g, type, rowid);
  }
}

/* Valid UTF-8: what is invalid GLOB takes for U+FFFD, but SQLite's range for it in an ordinary key for
** bytes. */
static void write_pattern(struct random_sql *g, bool glob) {
  static const char *const likes[] = {"'a%'", "'%'",   "'a_'",  "'A%'", "'ab'", "'%b'",
                                      "'1%'", "'x1%'", "'0%'",  "''",   "'é%'", "'_'",
                                      "'-%'", "'b1_'", "'a%c'", "'ab%'"};
  static const char *const globs[] = {"'a*'",    "'*'",   "'a?'",  "'A*'",    "'ab'", "'*b'",
                                      "'[ab]*'", "'1*'",  "'x1*'", "'[^a]*'", "''",   "'?'",
                                      "'a[*]'",  "'b1?'", "'a*c'", "'-*'",    "'é*'"};
  random_add(g, "%s", glob ? RANDOM_OF(g, globs) : RANDOM_OF(g, likes));
}

/* A key column's value in a row inserted lately. */
static bool write_recalled(struct random_sql *g, const struct random_binding *binding) {
  if (!binding->slot || binding->rowid) return false;
  int row = g->recalled_row;
  if (row < 0 && random_once_in(g, 3)) row = (int)random_below(g, RANDOM_ROWS_MAX);
  if (row < 0 || !*g->recent[binding->slot - 1][row]) return false;
  random_add(g, "%s", g->recent[binding->slot - 1][row]);
  return true;
}

static void remember(struct random_sql *g, int slot, int begin) {
  if (!slot || g->written_row < 0) return;
  const char *text = sqlite3_str_value(g->text) + begin;
  char *place = g->recent[slot - 1][g->written_row];
  *place = 0;
  if (strlen(text) < sizeof g->recent[0][0])
    sqlite3_snprintf(sizeof g->recent[0][0], place, "%s", text);
}

static void write_binding(struct random_sql *g, const struct random_binding *binding) {
  int begin = sqlite3_str_length(g->text);
  if (binding->pattern) {
    write_pattern(g, binding->glob);
  } else if (!binding->key) {
    write_value(g, binding->type);
  } else if (!write_recalled(g, binding)) {
    write_key(g, binding->type, binding->rowid, binding->strict);
  }
  remember(g, binding->slot, begin);
}

/* ?n in the statement and the value in its n-th binding, or the value in the statement. */
static void place(struct random_sql *g, const struct random_binding *kind) {
  struct random_statement *statement = g->statement;
  if (!g->bindable || statement->binding_count == RANDOM_BINDINGS_MAX || !random_once_in(g, 5)) {
    write_binding(g, kind);
    return;
  }
  struct random_binding *binding = &statement->bindings[statement->binding_count++];
  *binding = *kind;
  random_add(g, "?%d", statement->binding_count);
  sqlite3_str *outer = g->text;
  g->text = sqlite3_str_new(NULL);
  write_binding(g, kind);
  binding->sql = sqlite3_str_finish(g->text);
  g->text = outer;
}

void random_value(struct random_sql *g, const char *type) {
  place(g, &(struct random_binding){.type = type});
}

void random_key_value(struct random_sql *g, const char *type, bool rowid) {
  place(g,
        &(struct random_binding){
            .type = type, .key = true, .rowid = rowid, .strict = g->strict_mode, .slot = g->slot});
}

int random_slot(const struct random_sql *g, const struct random_table *table, int i) {
  return (int)(table - g->tables) * RANDOM_KEY_MAX + i + 1;
}

void random_key_of(struct random_sql *g, const struct random_table *table, int i) {
  int outer = g->slot;
  g->slot = random_slot(g, table, i);
  random_key_value(g, random_key_type(table, i), false);
  g->slot = outer;
}

void random_recall(struct random_sql *g) {
  if (!random_once_in(g, 3)) g->recalled_row = (int)random_below(g, RANDOM_ROWS_MAX);
}

void random_forget(struct random_sql *g) {
  g->recalled_row = -1;
}

void random_any_value(struct random_sql *g) {
  random_value(g, "");
}

void random_again(struct random_sql *g, const struct random_statement *earlier) {
  struct random_statement *statement = g->statement;
  *statement = *earlier;
  statement->span_count = 0;
  random_add(g, "%s", earlier->sql);
  random_recall(g);
  for (int i = 0; i < statement->binding_count; i++) {
    sqlite3_str *outer = g->text;
    g->text = sqlite3_str_new(NULL);
    write_binding(g, &earlier->bindings[i]);
    statement->bindings[i].sql = sqlite3_str_finish(g->text);
    g->text = outer;
  }
  random_forget(g);
}

void random_pattern(struct random_sql *g, bool glob) {
  place(g, &(struct random_binding){.pattern = true, .glob = glob});
}
