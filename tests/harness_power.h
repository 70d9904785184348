/* What a disk (harness_disk.h) may hold after a crash: walks over its log and makes, at each point, states
** that are allowed there.
**
** Durable is what was synced: the content of a file with the file, an entry with its directory. All else may
** be there or not: a write whole, not at all, or some of its 512-byte sectors; an entry or its removal, of
** each name so far and no further. */
#ifndef HARNESS_POWER_H
#define HARNESS_POWER_H

#include "harness.h"
#include "harness_disk.h"

enum power_kind {
  POWER_KILL,   /* the process dies: everything is kept */
  POWER_PREFIX, /* the operations up to some one, at least up to the last sync */
  POWER_LOST,   /* nothing is kept that was not synced */
  POWER_MIXED /* each file for itself: all, nothing, a first part, or any sectors; the last write torn */
};

enum { POWER_MARKS = 8 };

struct power_file;
struct power_names {
  size_t *files;
  const char **names;
  size_t count;
};

struct power {
  const struct disk *disk;
  size_t at; /* operations taken */
  size_t last_sync;
  uint64_t marks[POWER_MARKS]; /* what was marked last */
  struct power_file *files;    /* by number */
  struct power_names durable;
  size_t *entry_ops; /* links and unlinks that are not durable */
  size_t entry_op_count;
  /* A rollback journal loses a last part only. SQLite counts on that below synchronous=FULL: it writes the
  ** journal's header before its only sync. */
  bool journal_in_order;
};

void power_start(struct power *power, const struct disk *disk, bool journal_in_order);
void power_stop(struct power *power);
/* Takes the next operation; false at the end. */
bool power_step(struct power *power);
/* One state of this point; *entries_kept: all entries are as they were. The caller unrefs it. What is random
** on it is the same for all states. */
struct disk *power_state(const struct power *power, enum power_kind kind,
                         struct harness_random *random, bool *entries_kept);
/* Puts bytes into a digest. */
uint64_t power_mix(uint64_t digest, const void *bytes, size_t size);
/* Of names and contents: of a state, of a disk as it is now; of one content, which remembers it. */
uint64_t power_digest(const struct disk *state);
uint64_t power_digest_now(const struct disk *disk);
uint64_t power_image_digest(struct disk_image *image);

/* One log of what was done up to a point, and what was then done on the state that a kill there left: the
** computer did not stop in between, so that what was not durable is not yet. A disk to walk over, that lasts
** as long as both others and is freed by power_join_free. */
struct disk *power_join(const struct disk *before, size_t at, const struct disk *after);
void power_join_free(struct disk *joined);

#endif
