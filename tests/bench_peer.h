/* The stores that benches compare, behind one small interface: bench_peer_<library>.c, one or more peers
** each. A bench opens the peers that it names and takes from each the ways of reading that it offers of the
** kind the bench is about. Anything that fails ends the program. One thread. */
#ifndef BENCH_PEER_H
#define BENCH_PEER_H

#include "bench.h"

/* How a store is opened. */
struct bench_setup {
  struct bench_shape shape;
  size_t cache_bytes; /* for blocks or pages; 0 = the library's default */
  bool
      replaces; /* SQL: put is INSERT OR REPLACE, as the others' is; else a plain INSERT of new keys */
  bool durable; /* each commit survives power loss; else the last ones may be lost */
  bool
      callback_order; /* keys are compared by a function of the application, which orders as memcmp */
  const char *option; /* NULL or one of colfam's, such as "track_rows = off" */
};

enum bench_kind {
  BENCH_MULTI_GET,   /* n keys together: sum of digests */
  BENCH_GET,         /* one after another: the same sum */
  BENCH_EXISTS,      /* one after another: how many are there */
  BENCH_EXISTS_MANY, /* n keys together: how many are there */
  BENCH_MAY_EXIST, /* one after another: how many are not known to be absent, and no read goes on */
  BENCH_MAY_EXIST_MANY /* n keys together: the same */
};

/* One way to read. */
struct bench_way {
  const char *name; /* of the lane */
  enum bench_kind kind;
  uint64_t (*run)(void *store, const struct kv_slice *keys, size_t n);
};

struct bench_peer {
  const char *name;
  /* How this one is set, its library's version first: printed with the bench. */
  void (*describe)(const void *store, const struct bench_setup *setup, char *text, size_t size);
  bool colfam; /* it is what is measured, not a peer; false for the floor too */
  const struct bench_way *ways;
  size_t way_count;
  void *(*open)(const char *dir, const struct bench_setup *setup);
  void (*close)(void *store);

  /* A transaction. What is put is seen by reads of the same store only when `reads_own` says so. */
  void (*begin)(void *store);
  void (*put)(void *store, struct kv_slice key, struct kv_slice value);
  void (*remove)(void *store, struct kv_slice key);
  void (*commit)(void *store);
  void (*rollback)(void *store);
  bool reads_own;
  /* NULL where there is no such thing. */
  void (*savepoint)(void *store);
  void (*rollback_to)(void *store); /* and the savepoint is gone */

  /* All of it in the best shape for reads. NULL: it always is. */
  void (*settle)(void *store);
  /* Around reads that belong together. NULL: nothing to do. */
  void (*read_begin)(void *store);
  void (*read_end)(void *store);
  /* A handle for the reads of another thread, from malloc: for free when that has ended them. NULL: threads
  ** may share the store's own, for reads. */
  void *(*share)(const void *store);
  /* Rows from the first key >= from on, at most n: sum of digests. */
  uint64_t (*scan)(void *store, struct kv_slice from, size_t n);
};

extern const struct bench_peer bench_rocksdb;      /* a write batch is blind */
extern const struct bench_peer bench_rocksdb_wbwi; /* with an index: WriteBatchWithIndex */
extern const struct bench_peer bench_leveldb;
extern const struct bench_peer bench_lmdb;
extern const struct bench_peer bench_lmdb_mapped;   /* MDB_WRITEMAP: what writes best unsynced */
extern const struct bench_peer bench_sqlite;        /* WITHOUT ROWID */
extern const struct bench_peer bench_sqlite_mapped; /* the file mapped, for reading */
extern const struct bench_peer bench_sqlite_rowid;  /* a rowid and an index */
extern const struct bench_peer bench_floor;         /* bench_floor.h */
extern const struct bench_peer bench_colfam_sql;
extern const struct bench_peer bench_colfam_engine; /* engine/kv.h */

/* ---- Opened */

struct bench_store {
  const struct bench_peer *peer;
  struct bench_setup setup;
  char *dir;
  void *handle;
  bool beside; /* the directory is another's */
};
void bench_open(struct bench_store *store, const struct bench_peer *peer,
                const struct bench_setup *setup);
/* Another handle on what `on` has, which is closed after this one. */
void bench_open_beside(struct bench_store *store, const struct bench_peer *peer,
                       const struct bench_store *on);
void bench_reopen(struct bench_store *store);
void bench_close(struct bench_store *store);
/* Rows [first, first + count) inside a transaction. Seconds that the store took, without those for making
** the rows. */
double bench_put_rows(struct bench_store *store, uint64_t first, uint64_t count);
/* The same in transactions of `each`. */
double bench_load(struct bench_store *store, uint64_t first, uint64_t count, uint64_t each);
void bench_settle(struct bench_store *store);

/* Gets each of the rows [0, count) once, so that what stays in memory is there. */
void bench_warm(struct bench_store *stores, size_t store_count, uint64_t count);

/* A round of a lane made by bench_add_ways. */
uint64_t bench_run_way(struct bench_lane *lane, size_t round);
/* Lanes of a case for every way of the kind that the stores offer, over the keys asked. */
void bench_add_ways(struct bench_case *to, enum bench_kind kind, struct bench_store *stores,
                    size_t count, const struct bench_asked *asked);
/* Prints how each is set, one peer once. */
void bench_print_settings(const struct bench_store *stores, size_t count);
/* The file name of the library that `symbol` is from, which ends in its version. */
const char *bench_library_of(const void *symbol);

#endif
