/* Random tables and statements that an ordinary table and a colfam table must answer alike: all but
** what README.md's Limits list as forced by SQLite. The text of a statement depends on the seed alone, so a
** script is a list of texts that can be shortened and run again. */
#ifndef HARNESS_RANDOM_SQL_H
#define HARNESS_RANDOM_SQL_H

#include <sqlite3.h>
#include <stdbool.h>

#include "harness.h"

enum { RANDOM_COLUMNS_MAX = 6, RANDOM_KEY_MAX = 3, RANDOM_BINDINGS_MAX = 4 };

struct random_column {
  const char *name;
  const char *type;      /* as declared, "" for none */
  const char *collation; /* of value columns; NULL for BINARY */
  bool not_null;
  bool descending; /* in the key */
};

struct random_table {
  const char *name;
  struct random_column columns[RANDOM_COLUMNS_MAX];
  int column_count;
  int key
      [RANDOM_KEY_MAX]; /* column numbers; the alias for rowid tables, nothing for a hidden rowid */
  int key_count;
  bool rowid;    /* a rowid table, with an alias when key_count is 1 */
  bool replaces; /* conflict = replace; for the ordinary table the key's ON CONFLICT REPLACE */
};

struct random_statement {
  char *sql;                           /* sqlite3_malloc */
  char *bindings[RANDOM_BINDINGS_MAX]; /* SQL expressions for ?1.. */
  int binding_count;
  bool in_order;     /* rows come in one order, told by ORDER BY or by the key */
  bool counted;      /* changes() is comparable */
  bool subject_only; /* flush, compact, check: for the colfam side; must work and give no row */
  bool reopen;       /* close and open the database; sql says so in a comment */
};

struct random_sql {
  struct harness_random random;
  struct random_table tables[2]; /* t and u; r is an ordinary table on both sides */
  sqlite3_str *text;
  struct random_statement *statement; /* being written */
  bool or_allowed;
  bool casts_allowed;
  int list_count; /* IN lists so far: rows found by two of them come in an order of their own */
  bool bindable;
  bool strict_mode; /* the statement's conflict mode undoes all of a failing statement */
  /* One number may equal several texts: ordinary tables then take ORDER BY for granted (SQLite's fault). */
  bool ambiguous;
};

/* Draws the shapes of t and u. */
void random_sql_init(struct random_sql *g, uint64_t seed);
/* CREATE TABLE or CREATE VIRTUAL TABLE of the table; the caller frees. */
char *random_sql_create(struct random_sql *g, int table, bool subject);
/* CREATE TRIGGER on r that writes t. */
char *random_sql_trigger(struct random_sql *g);
/* Draws the next statement. */
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

/* A value for a column of this type, as an expression; or ?n with the value bound. */
void random_value(struct random_sql *g, const char *type);
/* The same for a key column, which never holds long values. For a rowid: never the largest integer, after
** which SQLite chooses rowids at random; and what is no integer only in a strict mode, as others leave
** part of a failing statement in an ordinary table. */
void random_key_value(struct random_sql *g, const char *type, bool rowid);
/* A value of any type. */
void random_any_value(struct random_sql *g);
void random_pattern(struct random_sql *g, bool glob);

/* A condition on the table, whose columns are written `alias`.name. */
void random_condition(struct random_sql *g, const struct random_table *table, const char *alias,
                      int depth);
void random_select(struct random_sql *g);
/* Name and type of the i-th key column; "rowid" for a hidden one. */
const char *random_key_name(const struct random_table *table, int i);
const char *random_key_type(const struct random_table *table, int i);
int random_key_width(const struct random_table *table);
/* The key columns, "alias.a DESC, alias.b", a total order. */
void random_key_order(struct random_sql *g, const struct random_table *table, const char *alias,
                      bool backwards);

#endif
