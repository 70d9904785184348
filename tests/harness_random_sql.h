/* Random tables and statements that an ordinary table and a colfam table must answer alike: all but
** what README.md's Limits list as forced by SQLite. The text of a statement depends on the seed alone, so a
** script is a list of texts that can be shortened and run again. */
#ifndef HARNESS_RANDOM_SQL_H
#define HARNESS_RANDOM_SQL_H

#include <sqlite3.h>
#include <stdbool.h>

#include "harness.h"

enum {
  RANDOM_COLUMNS_MAX = 6,
  RANDOM_KEY_MAX = 3,
  RANDOM_BINDINGS_MAX = 4,
  RANDOM_SPANS_MAX = 48,
  RANDOM_SETUPS_MAX = 12,
  RANDOM_KEPT_MAX = 8,
  RANDOM_CURSORS_MAX = 3,
  RANDOM_ROWS_MAX = 12
};

struct random_column {
  const char *name;
  const char *type;      /* as declared, "" for none */
  const char *collation; /* NULL for BINARY */
  bool not_null;
  bool descending; /* in the key */
};

struct random_table {
  const char *name;
  const char *schema; /* main, aux or temp; names alone are enough to find a table */
  struct random_column columns[RANDOM_COLUMNS_MAX];
  int column_count;
  int key
      [RANDOM_KEY_MAX]; /* column numbers; the alias for rowid tables, nothing for a hidden rowid */
  int key_count;
  bool rowid;    /* a rowid table, with an alias when key_count is 1 */
  bool replaces; /* conflict = replace; for the ordinary table the key's ON CONFLICT REPLACE */
};

enum random_kind {
  RANDOM_BOTH,        /* on both sides, whose answers are compared */
  RANDOM_UPKEEP,      /* on colfam's side: must work, give no row and leave all rows as they are */
  RANDOM_VACUUM,      /* the same outside of transactions, all cursors closed */
  RANDOM_SETTING,     /* on both sides outside of transactions, all cursors closed */
  RANDOM_RECREATE,    /* on both sides DROP TABLE, all cursors closed, and CREATE by setup `rows` */
  RANDOM_RENAME,      /* on both sides to another name, all cursors closed, and back */
  RANDOM_HOLDS,       /* on colfam's side: every row must be the integer 1 */
  RANDOM_REOPEN,      /* closes and opens the databases; the SQL is a comment */
  RANDOM_CURSOR_OPEN, /* keeps the query open after `rows` rows */
  RANDOM_CURSOR_STEP, /* `rows` more rows, which must be those that were there at the opening */
  RANDOM_CURSOR_CLOSE, /* likewise to the end, or as it is when `rows` is 0 */
};

/* A value that comes by ?n, and what a statement that is used again draws it from. */
struct random_binding {
  char *sql; /* expression, sqlite3_malloc */
  const char *type;
  bool key, rowid, strict; /* see random_key_value */
  bool pattern, glob;
  int slot; /* see random_sql.slot */
};

/* A stretch of the text that may be left out. */
struct random_span {
  int begin, end;
};

struct random_statement {
  enum random_kind kind;
  char *sql; /* sqlite3_malloc */
  struct random_binding bindings[RANDOM_BINDINGS_MAX];
  int binding_count;
  struct random_span spans[RANDOM_SPANS_MAX]; /* inner ones before those around them */
  int span_count;
  bool in_order; /* rows come in one order, told by ORDER BY or by the key */
  bool counted;  /* changes() is comparable */
  bool kept;     /* prepared once, for all statements of the same text */
  int cursor;    /* which one */
  int rows;
  const char *table; /* that the cursor reads */
};

/* What is run before the statements. */
struct random_setup {
  char *sql[2];    /* for oracle and subject, sqlite3_malloc */
  bool each_time;  /* after every opening: what lives in the temp schema */
  bool not_needed; /* left out by shrinking */
};

/* How the databases of a script are opened. */
struct random_scenario {
  const char *journal_mode;
  const char *synchronous;
  const char *settings; /* a PRAGMA more */
  bool on_disk;         /* else in memory, where there is such a directory */
  bool attached;
  struct random_setup setups[RANDOM_SETUPS_MAX];
  int setup_count;
};

struct random_sql {
  struct harness_random random;
  struct random_table tables[2]; /* t and u; r is an ordinary table on both sides */
  bool view;                     /* there is a view w of t and r */
  sqlite3_str *text;
  sqlite3_str *whole;                 /* of the statement; `text` may be a part of it */
  struct random_statement *statement; /* being written */
  const struct random_statement *kept[RANDOM_KEPT_MAX]; /* to be used again */
  int kept_count;
  bool cursors[RANDOM_CURSORS_MAX]; /* open */
  /* As far as is known when no statement rolled back. */
  bool in_transaction, begun;
  int savepoints;
  /* Keys inserted lately, so that other statements hit them: a text for each key column of t and of u. */
  char recent[2 * RANDOM_KEY_MAX][RANDOM_ROWS_MAX][40];
  int slot;         /* which key column the next values are for, from 1 on; 0 = none */
  int recalled_row; /* all values are those of this row; -1 = each its own */
  int written_row;  /* values written become this row; -1 = none */
  bool or_allowed;
  bool casts_allowed;
  bool own_rows; /* no other table may be read */
  bool bindable;
  bool strict_mode; /* the statement's conflict mode undoes all of a failing statement */
  /* One number may equal several texts: ordinary tables then take ORDER BY for granted (SQLite's fault). */
  bool ambiguous;
};

/* Draws the shapes of t and u and all else that is fixed for a script. */
void random_sql_init(struct random_sql *g, uint64_t seed, struct random_scenario *scenario);
void random_scenario_release(struct random_scenario *scenario);
/* Draws the next statement. Statements drawn before must stay where they are. */
void random_sql_next(struct random_sql *g, struct random_statement *statement);
/* The whole table in key order. */
void random_sql_whole(struct random_sql *g, int table, struct random_statement *statement);
void random_statement_release(struct random_statement *statement);

/* ---- For harness_random_*.c */

uint64_t random_below(struct random_sql *g, uint64_t bound);
/* True once in n. */
bool random_once_in(struct random_sql *g, uint64_t n);
const char *random_of(struct random_sql *g, const char *const *texts, size_t count);
#define RANDOM_OF(g, texts) random_of(g, texts, sizeof(texts) / sizeof *(texts))
void random_add(struct random_sql *g, const char *format, ...);
/* What is added from here to random_end may be left out. */
int random_begin(struct random_sql *g);
void random_end(struct random_sql *g, int begin);

/* A value for a column of this type, as an expression; or ?n with the value bound. */
void random_value(struct random_sql *g, const char *type);
/* The same for a key column, which never holds long values. For a rowid: never the largest integer, after
** which SQLite chooses rowids at random; and what is no integer only in a strict mode, as others leave
** part of a failing statement in an ordinary table. */
void random_key_value(struct random_sql *g, const char *type, bool rowid);
/* The same for the i-th column of the table's key, in a condition. */
void random_key_of(struct random_sql *g, const struct random_table *table, int i);
int random_slot(const struct random_sql *g, const struct random_table *table, int i);
/* Values up to random_forget are those of one row inserted lately, or not. */
void random_recall(struct random_sql *g);
void random_forget(struct random_sql *g);
/* A value of any type. */
void random_any_value(struct random_sql *g);
void random_pattern(struct random_sql *g, bool glob);
/* The earlier statement again, with other values bound. */
void random_again(struct random_sql *g, const struct random_statement *earlier);

/* A condition on the table, whose columns are written `alias`.name. */
void random_condition(struct random_sql *g, const struct random_table *table, const char *alias,
                      int depth);
void random_select(struct random_sql *g);
/* A query of one table, which is returned. */
const struct random_table *random_select_one(struct random_sql *g);
/* Window functions, common tables, views and other queries over queries. */
void random_analysis(struct random_sql *g);
/* What must hold for one table alone. */
void random_relation(struct random_sql *g);
/* INSERT, UPDATE, DELETE. */
void random_write(struct random_sql *g);

/* Either table, t more often. */
const struct random_table *random_table(struct random_sql *g);
/* "t" or "main.t". */
const char *random_name(struct random_sql *g, const struct random_table *table);
const char *random_column_name(struct random_sql *g, const struct random_table *table);
bool random_is_key(const struct random_table *table, int column);
/* Name and type of the i-th key column; "rowid" for a hidden one. */
const char *random_key_name(const struct random_table *table, int i);
const char *random_key_type(const struct random_table *table, int i);
int random_key_width(const struct random_table *table);
/* By SQLite's rules for the names of types. */
enum random_affinity { RANDOM_BLOB, RANDOM_TEXT, RANDOM_INTEGER, RANDOM_REAL, RANDOM_NUMERIC };
enum random_affinity random_affinity(const char *type);
/* The key columns, "alias.a DESC, alias.b", a total order. */
void random_key_order(struct random_sql *g, const struct random_table *table, const char *alias,
                      bool backwards);

#endif
