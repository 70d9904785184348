/* A store to damage, and its model: a few dozen keys over several runs and a log, in memory. It is read in
** every way by a family opened for it, so that nothing of what was sound is in memory; each answer must be
** right or an error. */
#ifndef HARNESS_VICTIM_H
#define HARNESS_VICTIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "catalog.h"
#include "harness_reseal.h"

enum { VICTIM_KEYS = 44, VICTIM_FILES_MAX = 16, VICTIM_KINDS = 24 };

struct victim_file {
  uint64_t id;
  struct kv_buf bytes;
  struct layout layout;
};
struct victim {
  struct store store;
  struct kv_buf keys[VICTIM_KEYS];   /* ascending; every fourth is never written */
  struct kv_buf values[VICTIM_KEYS]; /* what is there now */
  bool there[VICTIM_KEYS];
  struct victim_file files[VICTIM_FILES_MAX]; /* as they are sound */
  size_t file_count;
  struct kv_file_info *infos; /* the manifest: of the same order, to be changed by who likes */
  size_t info_count;
  char label[80]; /* for messages */
};
/* The kind says compression, filter, keys (integers, texts, blobs), and whether there are large values and
** runs of several files; the seed the rest. `database` is the number of the uuid. */
void victim_make(struct victim *victim, int kind, uint64_t seed, int database);
void victim_release(struct victim *victim);

/* The file's bytes on the disk; data NULL: no file. */
void victim_put_file(struct victim *victim, uint64_t id, struct kv_slice bytes);
/* Files and manifest as they were. */
void victim_restore(struct victim *victim);

struct verdict {
  int errors;     /* reads that failed with damage */
  int missing;    /* reads that said that the file is gone */
  int problems;   /* rows of the check */
  int wrong;      /* answers that are not the model's */
  int misnamed;   /* statuses that are not for damage */
  char what[300]; /* the first wrong or misnamed one */
};
/* Opens the store as it stands now and reads all of it, then checks it. */
void victim_read(struct victim *victim, struct verdict *verdict);

#endif
