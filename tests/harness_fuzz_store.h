/* For fuzz targets of whole databases: a small one with a colfam table `t` of two files and a log, and
** another, `sound`, beside it, as bytes that a target changes; and all that is done with what came of it.
** */
#ifndef HARNESS_FUZZ_STORE_H
#define HARNESS_FUZZ_STORE_H

#include <sqlite3.h>
#include <stdbool.h>

#include "buf.h"

enum { STORE_FILES_MAX = 8 };

struct store_file {
  char name[48]; /* below the directory */
  struct kv_buf bytes;
};
/* The database file first, then the table files of t, oldest first, then those of sound. */
struct store {
  struct store_file files[STORE_FILES_MAX];
  int count;
  int table_count; /* files of t */
};

/* A copy of a database that is made once a process. */
void fuzz_store_take(struct store *store);
void fuzz_store_release(struct store *store);
/* Makes it all there is in the directory. */
void fuzz_store_write(const struct store *store);

/* A connection to it, with the extension loaded or without. */
sqlite3 *fuzz_store_open(bool with_colfam);
/* What somebody does who knows the format: right checksums and seals for the rows of t's shadow tables and
** for its files; what t_cffile says of a file becomes the file's size and footer's checksum. */
void fuzz_store_seal_files(struct store *store);
void fuzz_store_seal_rows(sqlite3 *db, const struct store *store);

enum store_trust {
  STORE_ROWS, /* every read of t is right or an error, also after a flush and a compaction */
  STORE_TABLE, /* t may have any rows; without a finding of colfam_check all reads of it work and agree */
  STORE_NOTHING /* even the pages may be anything */
};
/* Reads, checks, works on and drops t; closes the connection. Unless STORE_NOTHING, sound stays right and
** DROP works. */
void fuzz_store_examine(sqlite3 *db, enum store_trust trust);

#endif
