/* See harness_model.h. Statements whose outcome depends on the order in which SQLite happens to
** visit rows are left out: no OR in a WHERE; and where the tables are in other orders than their twins no
** change of several keys. */
#include "harness_model.h"

#include <stdbool.h>

#include "harness_sql.h"

const struct model_table model_tables[MODEL_TABLES] = {
    {{"num", "num_b"}, "num_twin", "k INT PRIMARY KEY, v", "WITHOUT ROWID", "k"},
    {{"doc", "doc_b"},
     "doc_twin",
     "a TEXT, b INT, v, PRIMARY KEY(a, b DESC)",
     "WITHOUT ROWID",
     "a, b DESC"},
    {{"seq", "seq_b"}, "seq_twin", "k INTEGER PRIMARY KEY, v", "", "k"},
    {{"extra", "extra_b"}, "extra_twin", "k TEXT PRIMARY KEY, v", "WITHOUT ROWID", "k"},
};

static bool is_number(int pair) {
  return pair == MODEL_NUM || pair == MODEL_SEQ;
}

static unsigned below(struct harness_random *random, unsigned bound) {
  return (unsigned)harness_below(random, bound);
}
static bool chance(struct harness_random *random, unsigned percent) {
  return below(random, 100) < percent;
}

static void append_key(sqlite3_str *text, int pair, unsigned key) {
  if (is_number(pair)) sqlite3_str_appendf(text, "%u", key);
  if (pair == MODEL_EXTRA) sqlite3_str_appendf(text, "'k%03u'", key);
  if (pair == MODEL_DOC) sqlite3_str_appendf(text, "'a%u', %u", key / 16, key % 16);
}

static void append_value(struct harness_random *random, sqlite3_str *text) {
  unsigned kind = below(random, 40);
  if (kind == 0)
    sqlite3_str_appendall(text, "NULL");
  else if (kind == 1)
    sqlite3_str_appendf(text, "%u.5", below(random, 1000));
  else if (kind == 2)
    sqlite3_str_appendf(text, "zeroblob(%u)", below(random, 400));
  else if (kind == 3)
    sqlite3_str_appendf(text, "printf('%%0*d', %u, %u)", 6000, below(random, 100000));
  else
    sqlite3_str_appendf(text, "printf('%%0*d', %u, %u)", 8 + below(random, 300),
                        below(random, 100000));
}

static const char *const column_of[MODEL_TABLES] = {"k", "a = 'a%u' AND b", "k", "k"};

static void append_key_is(sqlite3_str *text, int pair, unsigned key) {
  if (is_number(pair)) sqlite3_str_appendf(text, " WHERE k = %u", key);
  if (pair == MODEL_EXTRA) sqlite3_str_appendf(text, " WHERE k = 'k%03u'", key);
  if (pair == MODEL_DOC)
    sqlite3_str_appendf(text, " WHERE a = 'a%u' AND b = %u", key / 16, key % 16);
}

/* A WHERE clause for one key, some keys or a range. */
static void append_where(struct harness_random *random, sqlite3_str *text, int pair) {
  unsigned key = below(random, MODEL_KEYS), kind = below(random, 4), many = 1 + below(random, 40);
  const char *quote = pair == MODEL_EXTRA ? "'k%03u'" : "%u";
  unsigned base = pair == MODEL_DOC ? key % 16 : key, end = base + below(random, 30);
  sqlite3_str_appendall(text, " WHERE ");
  sqlite3_str_appendf(text, column_of[pair], key / 16);
  if (kind == 0) {
    sqlite3_str_appendall(text, " IN (");
    for (unsigned i = 0; i < many; i++) {
      if (i) sqlite3_str_appendall(text, ",");
      sqlite3_str_appendf(text, quote,
                          pair == MODEL_DOC ? below(random, 16) : below(random, MODEL_KEYS));
    }
    sqlite3_str_appendall(text, ")");
    return;
  }
  sqlite3_str_appendall(text, kind == 1 ? " BETWEEN " : kind == 2 ? " > " : " = ");
  sqlite3_str_appendf(text, quote, base);
  if (kind != 1) return;
  sqlite3_str_appendall(text, " AND ");
  sqlite3_str_appendf(text, quote, end);
}

static const char *mild_conflict(struct harness_random *random) {
  static const char *const modes[] = {"", " OR IGNORE", " OR ABORT", " OR FAIL"};
  return modes[below(random, 4)];
}

static const char *conflict(struct harness_random *random) {
  static const char *const modes[] = {"", "", " OR REPLACE", " OR IGNORE", " OR ABORT", " OR FAIL"};
  return modes[below(random, 6)];
}

static void append_insert(struct harness_random *random, sqlite3_str *text, int pair) {
  unsigned rows = chance(random, 60) ? 1 : 2 + below(random, 8);
  sqlite3_str_appendf(text, "INSERT%s INTO @ VALUES", conflict(random));
  for (unsigned i = 0; i < rows; i++) {
    sqlite3_str_appendall(text, i ? ",(" : "(");
    if (pair == MODEL_SEQ && chance(random, 40))
      sqlite3_str_appendall(text, "NULL");
    else
      append_key(text, pair, below(random, MODEL_KEYS));
    sqlite3_str_appendall(text, ",");
    append_value(random, text);
    sqlite3_str_appendall(text, ")");
  }
}

/* With REPLACE one key only: SQLite computes all new rows of a virtual table before it changes the
** first, those of an ordinary table one by one, and so an UPDATE that replaces rows it has yet to
** visit differs. */
static void append_key_change(struct harness_random *random, sqlite3_str *text, int pair) {
  bool replace = chance(random, 20);
  unsigned key = below(random, MODEL_KEYS);
  sqlite3_str_appendf(text, "UPDATE%s @ SET ", replace ? " OR REPLACE" : mild_conflict(random));
  if (is_number(pair)) sqlite3_str_appendf(text, "k = k + %d", (int)below(random, 7) - 3);
  if (pair == MODEL_EXTRA) sqlite3_str_appendf(text, "k = 'k%03u'", below(random, MODEL_KEYS));
  if (pair == MODEL_DOC && chance(random, 50))
    sqlite3_str_appendf(text, "b = b + 1");
  else if (pair == MODEL_DOC)
    sqlite3_str_appendf(text, "a = 'a%u'", below(random, MODEL_KEYS / 16));
  if (replace || !sql_native())
    append_key_is(text, pair, key);
  else
    append_where(random, text, pair);
}

char *model_write(struct harness_random *random, int pair) {
  sqlite3_str *text = sqlite3_str_new(NULL);
  unsigned kind = below(random, 20);
  if (kind < 10) {
    append_insert(random, text, pair);
  } else if (kind < 13) {
    sqlite3_str_appendf(text, "UPDATE%s @ SET v = ", conflict(random));
    append_value(random, text);
    append_where(random, text, pair);
  } else if (kind < 15) {
    append_key_change(random, text, pair);
  } else if (kind < 16) {
    sqlite3_str_appendf(text, "INSERT OR REPLACE INTO @ SELECT %s FROM @",
                        pair == MODEL_DOC ? "a, b + 1, v"
                        : is_number(pair) ? "k + 2, v"
                                          : "k, v || 'x'");
    append_where(random, text, pair);
    if (!sql_native()) sqlite3_str_appendf(text, " ORDER BY %s", model_tables[pair].order);
  } else {
    sqlite3_str_appendall(text, "DELETE FROM @");
    append_where(random, text, pair);
  }
  return sqlite3_str_finish(text);
}

char *model_read(struct harness_random *random, int pair) {
  static const char *const columns[] = {"*", "count(*)", "v", "sum(length(v))"};
  unsigned kind = below(random, 4);
  sqlite3_str *text = sqlite3_str_new(NULL);
  bool exists = chance(random, 15);
  if (exists)
    sqlite3_str_appendall(text, "SELECT EXISTS(SELECT 1 FROM @");
  else
    sqlite3_str_appendf(text, "SELECT %s FROM @", columns[kind]);
  if (chance(random, 90)) append_where(random, text, pair);
  if (exists)
    sqlite3_str_appendall(text, ")");
  else if (kind == 0 || kind == 2)
    sqlite3_str_appendf(text, " ORDER BY %s%s", pair == MODEL_DOC ? "a, b" : "k",
                        chance(random, 40) ? " DESC" : "");
  return sqlite3_str_finish(text);
}

char *model_sql(const char *sql, const char *name) {
  sqlite3_str *text = sqlite3_str_new(NULL);
  for (const char *p = sql; *p; p++) {
    if (*p == '@')
      sqlite3_str_appendall(text, name);
    else
      sqlite3_str_appendchar(text, 1, *p);
  }
  return sqlite3_str_finish(text);
}
