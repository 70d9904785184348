/* For tests of table files: rows as a model, and a stage around one file: memory environment behind a
** recording one behind a fault environment, cache, counters. Its own memory comes from libc, so that
** counted allocation failures hit the engine only. */
#ifndef HARNESS_TABLE_H
#define HARNESS_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "harness.h"
#include "table_read.h"

/* ---- Rows, sorted by key in the order that the test is run under */

struct row {
  struct kv_slice key, value; /* owned */
  bool deleted;
  bool apart; /* the value is a reference (apart.h) */
};
struct rows {
  struct row *items;
  size_t count;
};
/* Copies key and value; the caller keeps the order. */
void rows_add(struct rows *rows, struct kv_slice key, struct kv_slice value, bool deleted);
void rows_release(struct rows *rows);
/* Into the order of the test's keys (harness_comparator.h). */
void rows_sort(struct rows *rows);
/* About n rows with distinct keys of up to key_max bytes of a small alphabet, values up to value_max
** bytes, some of them compressible, every fifth a tombstone. */
void rows_random(struct rows *rows, struct harness_random *random, size_t n, size_t key_max,
                 size_t value_max);
/* n rows with 8-byte big-endian keys first, first + step, ... and values of value_size bytes. */
void rows_numbered(struct rows *rows, uint64_t first, uint64_t step, size_t n, size_t value_size);
/* A random key as rows_random makes them, in `into` (key_max bytes). */
struct kv_slice random_key(struct harness_random *random, uint8_t *into, size_t key_max);
/* The first row >= key, or count. */
size_t rows_lower_bound(const struct rows *rows, struct kv_slice key);
const struct row *rows_find(const struct rows *rows, struct kv_slice key);

/* ---- Stage */

struct stage {
  struct kv_env *memory;
  struct kv_env *fault; /* what the tables use */
  struct kv_cache *cache;
  struct kv_stats stats;
  struct kv_table_config config; /* dir "app.db-colfam", which is missing at first */
  struct kv_file_info info;      /* of the file written last */
  struct kv_digest digest;       /* likewise */
  struct kv_table *table;        /* NULL or open */
  struct kv_err err;
};
void stage_init(struct stage *stage, size_t cache_budget);
void stage_release(struct stage *stage);
/* Writes the rows as one file. */
kv_status stage_write(struct stage *stage, const struct rows *rows);
/* Opens the file written last, closing what was open. */
kv_status stage_open(struct stage *stage);
void stage_close(struct stage *stage);
/* Both, which must succeed. */
void stage_make(struct stage *stage, const struct rows *rows);
uint64_t stage_stat(const struct stage *stage, enum kv_stat stat);
/* Files in the directory. */
size_t stage_files(struct stage *stage);

/* What grouped reads asked for since it was set to 0: calls, ranges, their bytes; what was announced. */
struct recorder {
  size_t hints;
  size_t expected; /* ranges */
  size_t calls;
  size_t ranges;
  uint64_t bytes;
  uint64_t largest_call; /* bytes */
};
struct recorder *recorder(void);

/* The bytes of a stored file, and a file replaced by other bytes under an id. */
void stage_read_file(struct stage *stage, uint64_t id, struct kv_buf *bytes);
void stage_replace_file(struct stage *stage, uint64_t id, struct kv_slice bytes);

/* ---- What a table must answer. `ok` ones fail the test on any error. */

struct kv_lookup lookup_of(struct kv_slice key);
/* kv_table_multi_get of values; keys out of the file's bounds get no table, as a run would give them none. */
kv_status stage_multi_get(struct stage *stage, struct kv_lookup *lookups, size_t n,
                          struct kv_err *err);
void expect_answer(const struct kv_lookup *lookup, const struct row *row);
void expect_get(struct stage *stage, const struct rows *rows, struct kv_slice key);
/* Every row by get, both scans, verify. */
void expect_all(struct stage *stage, const struct rows *rows);
/* Reads everything of a file that may be damaged in every way: right data or an error. Returns whether
** anything reported an error. */
bool right_or_error(struct stage *stage, const struct rows *rows);

#define stage_ok(stage, call) ck_assert_msg((call) == KV_OK, "%s", (stage)->err.text)

#endif
