/* A catalog in memory, for the engine's own tests: t_cflog and t_cffile as arrays, with snapshots; and a
** store around it (memory environment behind a fault environment, cache, family, current view, pending
** batch) that commits, flushes, compacts and reopens as ext/ does.
** Its own memory comes from libc, so that counted allocation failures hit the engine only. */
#ifndef CATALOG_H
#define CATALOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "compact.h"
#include "harness.h"
#include "kv.h"

/* ---- The catalog */

struct catalog {
  uint8_t uuid[16];
  struct kv_log_row *rows; /* of every commit ever; their batches are owned */
  size_t row_count;
  uint64_t purged_seq; /* rows at or below it are deleted for new snapshots */
  struct kv_file_info *files;
  size_t file_count;
  struct kv_log_state log;
  int64_t table_rows;
  uint64_t gen;
  struct harness_random random; /* nonces */
};

/* What a transaction sees: stays good while the catalog goes on. */
struct catalog_snapshot {
  const struct catalog *catalog;
  struct kv_snapshot state; /* its files are owned */
  uint64_t purged_seq;
  size_t next; /* the source's position */
  size_t rows_read;
};

void catalog_init(struct catalog *catalog, uint64_t seed);
void catalog_release(struct catalog *catalog);
void catalog_take(const struct catalog *catalog, struct catalog_snapshot *snapshot);
void catalog_drop(struct catalog_snapshot *snapshot);
/* Reads the snapshot's log rows; borrows the snapshot. */
struct kv_log_source catalog_source(struct catalog_snapshot *snapshot);
/* Appends the batch as the next log row; the row's batch is borrowed from the catalog for good. */
struct kv_log_row catalog_commit(struct catalog *catalog, struct kv_batch *batch);
/* Records an edit made from a view with `flushed_seq`; KV_BUSY when its inputs are no longer live. */
kv_status catalog_publish(struct catalog *catalog, const struct kv_edit *edit,
                          uint64_t flushed_seq);

/* ---- The store */

struct store {
  struct kv_env *memory;
  struct kv_env *env; /* the fault environment around it */
  struct kv_cache *cache;
  struct kv_family *family;
  struct kv_family_config config;
  struct catalog catalog;
  struct kv_view *view;
  struct kv_batch *batch;
  uint64_t file_bytes; /* where jobs cut their files; 0 = as they come */
  uint64_t *dropped;   /* files that no row names any more and that wait for their views */
  size_t dropped_count;
};

void store_init(struct store *store, uint64_t seed, size_t cache_bytes);
/* Also proves that no memory is left over. */
void store_release(struct store *store);
/* Closes the family and opens it again; the pending batch is lost. No other view may be held. */
void store_reopen(struct store *store);
/* A new view of what the catalog says now. */
struct kv_view *store_view(struct store *store);
/* Into the pending batch. Rows are counted when catalog.table_rows is set to 0 at the beginning. */
void store_put(struct store *store, const char *key, const char *value);
void store_delete(struct store *store, const char *key);
/* Commits the pending batch (also an empty one) and advances the view. */
void store_commit(struct store *store);
/* Begins the next memtable generation with the next commit. */
void store_rotate(struct store *store);
/* Runs a job to its end and publishes it. */
void store_job(struct store *store, enum kv_job_kind kind);
void store_flush(struct store *store);
void store_compact(struct store *store);
/* Steps until done or a failure. */
kv_status store_run(struct kv_job *job, struct kv_err *err);
/* Publishes a finished job made from a view with `flushed_seq`, or KV_BUSY; frees it. */
kv_status store_publish(struct store *store, struct kv_job *job, uint64_t flushed_seq);
/* Removes dropped files that no view names. */
void store_sweep(struct store *store);
/* Table files in the directory. */
size_t store_files(struct store *store);
uint64_t store_stat(const struct store *store, enum kv_stat stat);
/* The first file of a run (0 = newest), and its path (static storage). */
const struct kv_file_info *store_run_file(struct store *store, size_t run);
const char *store_path(const struct store *store, uint64_t id);
/* Flips a bit of a file's byte, which must not be open; -1 counts from the end. */
void store_flip(struct store *store, uint64_t id, int64_t offset);

struct kv_slice slice(const char *text);
/* "value", "-" when there is none, or the status's name. */
const char *store_get(struct store *store, struct kv_view *view, const char *key);

#endif
