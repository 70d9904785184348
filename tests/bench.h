/* Shared by the benches: what is measured beside each other, how it is timed, how it is printed.
**
** A *case* is one table: lanes (one way of one store each) over the same work. Timed lanes run in
** interleaved rounds, each beginning with another lane, so that whatever else the machine does hits all
** alike; the median round counts. What neither waits nor has help from other threads, as reading what is in
** memory, is timed by the thread's own time on a processor, so that a busy machine spoils less. A lane
** gives a checksum of what it has read, which must be the one expected: a bench cannot measure wrong
** answers. Counted lanes hold a number that was counted, not timed.
**
** Everything printed is also appended to $COLFAM_BENCH_OUT, when set, as tab-separated records, from
** which tests/bench_readme.py makes README's table. Anything that fails ends the program. */
#ifndef BENCH_H
#define BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "buf.h"

/* ---- How much */

/* By $COLFAM_BENCH: "check" = small enough for a test, figures mean nothing; "quick"; "full", the default. */
enum bench_scale { BENCH_CHECK, BENCH_QUICK, BENCH_FULL };
enum bench_scale bench_scale(void);
/* Of the three, the one for this run. */
size_t bench_by_scale(size_t check, size_t quick, size_t full);
/* $COLFAM_BENCH_SCALE: rows of the growth part in millions, 0 when not said. */
size_t bench_millions(void);

/* One line: what colfam's engine was built with and runs on. */
void bench_print_build(void);

/* ---- Failing */

/* Prints and exits unless `ok`. */
void bench_need(bool ok, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- Rows. Row i of a set has a key and a value that follow from i alone. */

struct bench_shape {
  size_t key_bytes;   /* 16 at least: the first 16 are random, the rest is text */
  size_t value_bytes; /* text that zstd packs to about a third, its first 8 bytes tell i */
};
/* Keys of rows: all of different numbers differ, and their order is random. */
void bench_fill_key(const struct bench_shape *shape, uint64_t row, uint8_t *key);
void bench_fill_value(const struct bench_shape *shape, uint64_t row, uint8_t *value);

/* What a read gives back of one value: touches both its ends. 0 only for "not there". Sums of them are the
** checksums of lanes. */
uint64_t bench_digest(const void *value, size_t size);

/* Keys to be asked for in rounds of `batches` batches of `batch`; within a batch all differ. */
struct bench_asked {
  struct kv_slice *keys; /* rounds * batches * batch of them */
  uint64_t *rows;        /* the row of each */
  size_t rounds, batches, batch;
  uint8_t *bytes;
};
/* Random rows of [first, first + count), count >= batch. */
void bench_asked_init(struct bench_asked *asked, const struct bench_shape *shape, uint64_t first,
                      uint64_t count, size_t rounds, size_t batches, size_t batch);
void bench_asked_release(struct bench_asked *asked);
/* The sum of the digests of the values of a round's keys. */
uint64_t bench_asked_sum(const struct bench_asked *asked, const struct bench_shape *shape,
                         size_t round);

/* ---- Counting */

double bench_now(void);     /* seconds, monotonic */
double bench_cpu(void);     /* seconds of this thread on a processor */
double bench_cpu_all(void); /* of all threads of the process */
void bench_rest(double seconds);
/* bench_now for what waits or has help from threads, unless $COLFAM_BENCH_CLOCK is "cpu", for indications
** on a busy machine; else bench_cpu. */
double bench_clock(bool waits);
const char *bench_clock_name(bool waits);
uint64_t bench_bytes_written(void);         /* by the process's calls of write, so far */
uint64_t bench_thread_bytes_written(void);  /* by this thread alone */
uint64_t bench_heap_bytes(void);            /* of malloc, in use */
uint64_t bench_rss_max(void);               /* bytes the process has had resident at most */
void bench_rss_reset(void);                 /* from now */
uint64_t bench_disk_bytes(const char *dir); /* of all files below, what they reserve ahead apart */
uint64_t bench_file_bytes(const char *dir, const char *name); /* 0 when there is none */
/* Makes the system forget what it has read of the files below. */
void bench_drop_pages(const char *dir);
/* Calls `measure` in a process of its own, which fills the figures; nothing may be open yet. */
void bench_in_child(void (*measure)(const void *what, double *figures), const void *what,
                    double *figures, size_t count);
/* A fresh directory below the process's own, good until bench_remove_dir. The caller frees. */
char *bench_make_dir(const char *name);
void bench_remove_dir(char *dir);

/* ---- Cases */

#define BENCH_LANES_MAX 40
#define BENCH_ROUNDS_MAX 25
#define BENCH_GOALS_MAX 40

struct bench_lane {
  const char *name;
  /* A round: does the case's operations once, on one of rounds + 1 sets, gives a checksum. NULL: counted, or
  ** not there. */
  uint64_t (*run)(struct bench_lane *lane, size_t set);
  void (*after)(struct bench_lane *lane, size_t set); /* not timed: undoes or verifies; or NULL */
  void *store;                                        /* what run needs */
  const void *with;
  uint64_t (*operation)(void *store, const struct kv_slice *keys, size_t n);
  bool there; /* false: `why` is printed */
  const char *why;
  size_t rounds;
  double samples[BENCH_ROUNDS_MAX]; /* in the case's unit; unsorted until printed */
};

struct bench_goal {
  const char *lane, *against; /* names; against NULL: an absolute limit */
  double at_most;             /* lane <= at_most * against, or lane <= at_most */
};

struct bench_case {
  const char *bench; /* "B1" */
  char title[160];
  const char *unit;
  double unit_seconds; /* 1e-9 for ns */
  double operations;   /* of a round: what its time is divided by */
  bool waits; /* timed by the clock on the wall; else by this thread's time on a processor */
  const uint64_t *expected; /* one a set, or NULL: not held against anything */
  struct bench_lane lanes[BENCH_LANES_MAX];
  size_t lane_count;
  struct bench_goal goals[BENCH_GOALS_MAX];
  size_t goal_count;
};

/* unit: "ns", "us", "ms" or "s" for timed cases, any word for counted ones. */
void bench_case_init(struct bench_case *made, const char *bench, const char *unit,
                     const char *format, ...) __attribute__((format(printf, 4, 5)));
/* Names and texts are borrowed. */
struct bench_lane *bench_add(struct bench_case *to, const char *name,
                             uint64_t (*run)(struct bench_lane *lane, size_t set), void *store,
                             const void *with);
void bench_count(struct bench_case *to, const char *name, double value);
/* A further sample of a lane that times itself; makes the lane when there is none of that name. */
void bench_sample(struct bench_case *to, const char *name, double value);
void bench_not_there(struct bench_case *to, const char *name, const char *why);
/* lane <= at_most * against. Goals of lanes that the case does not have are left out. */
void bench_goal(struct bench_case *to, const char *lane, double at_most, const char *against);
void bench_goal_max(struct bench_case *to, const char *lane, double at_most);
/* Runs all timed lanes in interleaved rounds, one round before that does not count. `expected`: of
** rounds + 1 sets. */
void bench_time(struct bench_case *run, size_t rounds, double operations, const uint64_t *expected);
double bench_median(const struct bench_lane *lane);
/* The lane of that name, or NULL. */
struct bench_lane *bench_find(struct bench_case *in, const char *name);
/* Lanes with median, least and most, colfam's with the ratio to the best peer, and each goal. */
void bench_print(struct bench_case *done);

#endif
