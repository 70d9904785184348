/* The shadow tables of one table and the statements on them: t_cfmeta, t_cffile, t_cflog (ext/README.md,
** Shadow tables). What is read here is hostile input: users can write shadow tables outside defensive
** mode.
** Statements are prepared once, left reset after every use, and finalized by colfam_catalog_close. */
#ifndef COLFAM_CATALOG_H
#define COLFAM_CATALOG_H

#include <stdbool.h>

#include "engine/kv.h"
#include "manifest.h"
#include "schema.h"
#include "sqlite_api.h"

enum colfam_sql {
  COLFAM_SQL_PROBE,      /* no table: has anything expired? */
  COLFAM_SQL_META,       /* all of t_cfmeta */
  COLFAM_SQL_FILES,      /* all of t_cffile */
  COLFAM_SQL_LAST,       /* newest log row */
  COLFAM_SQL_OLDEST,     /* oldest log row, and the size of its batch */
  COLFAM_SQL_ROWS,       /* log rows in a range of seq */
  COLFAM_SQL_TAIL,       /* log rows from a seq on, and the manifest's seal */
  COLFAM_SQL_LOG_PUT,    /* from here on they write */
  COLFAM_SQL_LOG_DELETE, /* one row */
  COLFAM_SQL_FILE_PUT,
  COLFAM_SQL_FILE_DELETE,
  COLFAM_SQL_META_PUT,
  COLFAM_SQL_COUNT
};

struct colfam_catalog {
  sqlite3 *db;
  char *database;
  char *table;
  char *label; /* for messages: t, aux.t */
  uint8_t uuid[16];
  bool stale; /* the statements were prepared under an authorizer that has things ignored */
  sqlite3_stmt *statements[COLFAM_SQL_COUNT];
};

/* Names are copied. Reads nothing. */
int colfam_catalog_init(struct colfam_catalog *catalog, sqlite3 *db, const char *database,
                        const char *table);
/* Finalizes the statements; they are prepared again when needed. */
void colfam_catalog_close(struct colfam_catalog *catalog);
void colfam_catalog_release(struct colfam_catalog *catalog);
/* New name for the same table, copied; closes the statements. Nothing is changed without memory. */
int colfam_catalog_set_name(struct colfam_catalog *catalog, const char *table);
/* Whether what was prepared may be out of date, as after sqlite3_set_authorizer or DDL: asked by a statement
** that costs next to nothing. */
int colfam_catalog_probe(struct colfam_catalog *catalog, bool *fresh, char **message);
/* Prepares what a commit uses anew, so that an authorizer's refusal comes now and not at COMMIT. */
int colfam_catalog_prepare_all(struct colfam_catalog *catalog, char **message);

/* DDL, in the caller's transaction. create fails with a clear message when a table of such a name is
** there, and leaves nothing behind. uuid is filled. */
int colfam_catalog_create(struct colfam_catalog *catalog, const struct colfam_options *options,
                          char **message);
int colfam_catalog_drop(struct colfam_catalog *catalog, char **message);
int colfam_catalog_rename(struct colfam_catalog *catalog, const char *table, char **message);
/* Whether the shadow tables of catalog->uuid are there, under the name known or another: DDL that a ROLLBACK
** TO undoes gives a table back its older name without a word. The catalog takes the name found. */
int colfam_catalog_find(struct colfam_catalog *catalog, bool *found, char **message);
/* Visits the names of all tables of a schema that end in `suffix`; a code other than SQLITE_OK ends it. */
int colfam_catalog_each(sqlite3 *db, const char *database, const char *suffix,
                        int (*visit)(void *context, const char *name), void *context,
                        char **message);

/* What t_cfmeta says. */
struct colfam_meta {
  uint8_t uuid[16];
  struct colfam_flushed flushed;
  bool sealed; /* else written before there were seals */
  uint64_t seal;
  bool writable; /* lowest_writer is not above our format */
  struct colfam_options options;
};
/* SQLITE_CORRUPT_VTAB for damaged or missing rows, SQLITE_ERROR for a newer format. */
int colfam_catalog_read_meta(struct colfam_catalog *catalog, struct colfam_meta *meta,
                             char **message);

/* The snapshot of the current transaction; files are owned by it. The transaction's own log row is above
** last_seq only while xSync has run, when nobody asks (txn.h). */
struct colfam_snapshot {
  struct kv_snapshot snapshot;
  struct kv_file_info *files;
};
int colfam_catalog_read_snapshot(struct colfam_catalog *catalog, const struct colfam_meta *meta,
                                 struct colfam_snapshot *out, char **message);
void colfam_snapshot_release(struct colfam_snapshot *snapshot);
/* The end of the log, if the manifest has a certain seal, which covers uuid, flushed commit and all rows of
** t_cffile. */
struct colfam_tail {
  bool
      whole; /* the seal is that one, and these are all rows from the first on; there is at least one */
  struct kv_log_row rows[8];
  size_t count;
  struct kv_buf bytes; /* their batches */
};
/* Rows of seq >= from. Release it in any case. */
int colfam_catalog_read_tail(struct colfam_catalog *catalog, uint64_t from, uint64_t seal,
                             struct colfam_tail *tail, char **message);
void colfam_tail_release(struct colfam_tail *tail);

/* A kv_log_source over the rows from..last_seq of the snapshot. Close it after use. */
struct colfam_log_reader {
  struct colfam_catalog *catalog;
  uint64_t last_seq;
  const struct colfam_tail *tail; /* NULL, or rows that need not be asked for again */
  size_t tail_next;               /* of them, while rows come from there */
  bool open;                      /* ... from the statement */
  int rc;        /* SQLite's code of a failure, which the engine's statuses are too few for */
  char *message; /* its text */
};
struct kv_log_source colfam_log_source(struct colfam_log_reader *reader);
void colfam_log_reader_close(struct colfam_log_reader *reader);

/* Whether t_cflog has the commit `seq`, and it is the one that the nonce names. */
int colfam_catalog_has_commit(struct colfam_catalog *catalog, uint64_t seq, uint64_t nonce,
                              bool *has, char **message);

/* Ids in t_cffile, unchecked, for DROP: never fails for damage, gives what it can read. */
void colfam_catalog_file_ids(struct colfam_catalog *catalog, uint64_t **ids, size_t *count);

/* Writes, absolute and repeatable (invariant 6). */
int colfam_catalog_put_log(struct colfam_catalog *catalog, const struct kv_log_row *row,
                           char **message);
int colfam_catalog_delete_log(struct colfam_catalog *catalog, uint64_t seq, char **message);
/* Deletes the oldest row when it is dead; *bytes is the size of its batch. */
int colfam_catalog_trim_log(struct colfam_catalog *catalog, uint64_t flushed_seq, bool *deleted,
                            uint64_t *bytes, char **message);
int colfam_catalog_put_file(struct colfam_catalog *catalog, const struct kv_file_info *info,
                            char **message);
/* Records an edit over the view that it was made for or fits, and seals the manifest; meta is what t_cfmeta
** says now. */
int colfam_catalog_publish(struct colfam_catalog *catalog, const struct colfam_meta *meta,
                           const struct kv_view *base, const struct kv_edit *edit, char **message);
/* Deletes the rows of the files that an edit adds. */
int colfam_catalog_unpublish(struct colfam_catalog *catalog, const struct kv_edit *edit,
                             char **message);
int colfam_catalog_put_option(struct colfam_catalog *catalog, const char *name, const char *value,
                              char **message);

#endif
