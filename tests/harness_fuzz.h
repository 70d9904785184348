/* Shared by the fuzz targets: what a target defines, and how it takes values from an input. A target asserts
** with Check's ck_assert, outside of any Check runner: a failed assertion ends the process and says which.
** Nothing here but fuzz_seed depends on a format, so a corpus outlives changes of it where it can. */
#ifndef HARNESS_FUZZ_H
#define HARNESS_FUZZ_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "buf.h"
#include "harness.h"
#include "key.h"

/* ---- What fuzz_<name>.c defines */

/* Runs one input and asserts what must hold; returns 0. Leaves nothing behind that the next one sees. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
/* Hands the first inputs of a corpus to fuzz_seed, made by the code as it is. */
void fuzz_seeds(void);

/* ---- An input, taken from the front; behind its end there are zeros and empty slices */

struct fuzz {
  const uint8_t *pos;
  const uint8_t *end;
};
struct fuzz fuzz_begin(const uint8_t *data, size_t size);
size_t fuzz_left(const struct fuzz *in);
uint8_t fuzz_byte(struct fuzz *in);
uint64_t fuzz_number(struct fuzz *in, int bytes); /* little-endian */
/* 0 .. bound-1, of one byte; of four when bound > 256. */
size_t fuzz_below(struct fuzz *in, size_t bound);
/* A byte with the length, then so many bytes, fewer at the end; borrowed. */
struct kv_slice fuzz_slice(struct fuzz *in);
struct kv_slice fuzz_rest(struct fuzz *in);
/* A value of any type; texts and blobs are borrowed, from the input or a constant. */
void fuzz_datum(struct fuzz *in, struct kv_datum *datum);
/* A NaN becomes NULL, as SQLite makes it. Texts and blobs are borrowed by the statement. */
void fuzz_bind(sqlite3_stmt *stmt, int index, const struct kv_datum *datum);

/* For a database that serves all inputs: its statements are finalized and it is closed when the process ends,
** so that leak checkers see what was really lost. */
void fuzz_close_at_exit(sqlite3 *db);

/* ---- Seeds */

/* Appends what fuzz_slice takes: at most 255 bytes. */
void fuzz_put_slice(struct kv_buf *out, const void *bytes, size_t size);
/* Writes one seed; only under --seeds (harness_fuzz_main.c). */
void fuzz_seed(struct kv_slice bytes);
extern const char *fuzz_seed_dir;

#endif
