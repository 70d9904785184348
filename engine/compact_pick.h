/* What work a table needs: pure functions, sizes in, decision out. */
#ifndef KV_COMPACT_PICK_H
#define KV_COMPACT_PICK_H

#include <stddef.h>
#include <stdint.h>

#include "kv.h"
#include "layout.h"

struct kv_shape {
  uint64_t memtable_bytes;        /* the budget of the log */
  const struct kv_run_size *runs; /* newest first: those of level 0, then the levels */
  size_t run_count;
};

enum kv_pick_kind {
  KV_PICK_NONE,
  KV_PICK_TIER, /* runs first..first+count of level 0 become one of level 0 */
  KV_PICK_DOWN, /* the same runs, of which the last is the oldest of level 0, become part of level 1 */
  KV_PICK_PUSH /* some of run `first` becomes part of the next level; of level 0 it is the oldest run */
};
struct kv_pick {
  enum kv_pick_kind kind;
  size_t first;
  size_t count;
};
/* The work on files that is due most. Level 0 is size-tiered: four runs or more of like size become one, so
** that there are few, of sizes that grow geometrically; when it is as large as level 1 may be, or not much
** smaller than it is, it is merged into level 1. With eight runs or more that comes before all else. A level
** that is larger than it may be gives files to the next, which may be ten times as large.
** What is mostly tombstones, runs of level 0 or files of a level, counts as too large by one more than it is,
** as long as it has one entry for each 16 that it may hide: so it goes before what is due as much, and waits
** for a level of twice the size it may have. Otherwise it goes down when nothing else is due. It ends where
** nothing older is. A run of level 0 of two budgets or more, which a large transaction has made without
** compression, does not wait for others either, unless level 1 is larger than level 0. */
struct kv_pick kv_compact_pick(const struct kv_shape *shape);
/* The tier that begins with the newest run, of the `young` newest, all of level 0; or nothing. Runs that are
** larger by a quarter count as alike. */
struct kv_pick kv_compact_pick_newest(const struct kv_shape *shape, size_t young);
/* How large a level below 0 may be, bytes. */
uint64_t kv_level_bytes_max(uint64_t memtable_bytes, uint32_t level);
/* The first level below 0 that may be as large as this. */
uint32_t kv_level_for(uint64_t memtable_bytes, uint64_t bytes);

#endif
