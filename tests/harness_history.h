/* Histories for the power loss tests (crash_power.c): what applications do, in numbered commits, on a disk in
** memory (harness_disk.h). Each ordinary table plain<x> has a colfam twin family<x> that takes the same
** statements; row 0 of the first pair of a database file is the number of the commit. */
#ifndef HARNESS_HISTORY_H
#define HARNESS_HISTORY_H

#include "harness.h"
#include "harness_disk.h"

enum { HISTORY_COMMITS = 40, HISTORY_SCHEMAS = 2 };

enum history_kind {
  HISTORY_MIXED, /* all kinds of writes, jobs by command and by work that waits; one more pair at times */
  HISTORY_SAVEPOINTS, /* nested, released and rolled back, around all of that */
  HISTORY_TABLES,     /* many pairs, made, dropped, renamed; VACUUM */
  HISTORY_ATTACHED,   /* commits over two database files */
  HISTORY_EXCLUSIVE,  /* locking_mode = exclusive */
  HISTORY_BACKUP,     /* colfam_backup in between */
  HISTORY_SWITCHING,  /* journal modes and checkpoints of all kinds between commits */
  HISTORY_PLAIN,      /* no ROLLBACK: for journal_mode = off, where that is not defined */
  HISTORY_KINDS
};
const char *history_kind_name(enum history_kind kind);

/* What the log is marked with. */
enum history_mark {
  MARK_ATTEMPTED,    /* COMMIT of this number begins */
  MARK_ACKNOWLEDGED, /* it has returned: it survives the process */
  MARK_DURABLE,      /* and what was promised about power loss: it stays, */
  MARK_ENTRIES, /* or stays once the directory has been written, which SQLite does not ask for */
  MARK_COPY,    /* the copy of this commit is complete */
  HISTORY_MARKS
};

struct history {
  const char *journal, *synchronous; /* to begin with */
  enum history_kind kind;
  uint64_t seed;
  struct harness_random random;
  uint64_t rows[HISTORY_COMMITS + 2][HISTORY_SCHEMAS]; /* digest of the tables after each commit */
  struct disk *disk;
  char where[240]; /* what is being done, for messages */
};

/* Runs it: the disk then has the whole log. */
void history_run(struct history *history);
void history_release(struct history *history);

/* Schemas in use, by name: main, and maybe aux. */
size_t history_schema_count(const struct history *history);
extern const char *const history_schemas[HISTORY_SCHEMAS];

/* The mounted disk's databases; sets_journal: with the journal mode of the beginning. */
sqlite3 *history_open(const struct history *history, bool sets_journal);
/* Any file of the disk, as it is. */
sqlite3 *history_open_file(const struct history *history, const char *name);
void history_close(const struct history *history, sqlite3 *db);
void history_set_journal(const struct history *history, sqlite3 *db);

/* What a schema's tables hold: that all pairs are the same is checked. */
struct history_state {
  uint64_t commit; /* 0: no table yet */
  uint64_t rows;   /* digest */
};
struct history_state history_look(const struct history *history, sqlite3 *db, const char *schema);

/* The first commit of a file, or one more after commit n: without COMMIT. */
void history_write_more(const struct history *history, sqlite3 *db, const char *schema, uint64_t n);
void history_mark_commit(const struct history *history, sqlite3 *db, struct disk *disk, uint64_t n);

/* SQL that must work; wrong ends the test. */
void history_wrong(const struct history *history, const char *format, ...)
    __attribute__((format(printf, 2, 3), noreturn));
void history_exec(const struct history *history, sqlite3 *db, const char *format, ...);
sqlite3_stmt *history_prepare(const struct history *history, sqlite3 *db, const char *format, ...);
void history_finish(const struct history *history, sqlite3_stmt *statement);
/* Rows that must not be there: the first one is shown. */
void history_no_rows(const struct history *history, sqlite3 *db, const char *format, ...);

#endif
