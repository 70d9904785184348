/* Counters that move exactly when the thing happens, on single and batched paths alike. One struct a
** family; relaxed atomics, any thread. */
#ifndef KV_STATS_H
#define KV_STATS_H

#include <stddef.h>
#include <stdint.h>

enum kv_stat {
  KV_STAT_GETS,                    /* single-key lookups */
  KV_STAT_MULTI_GETS,              /* multi-get calls */
  KV_STAT_MULTI_GET_KEYS,          /* keys asked in them */
  KV_STAT_MULTI_GET_FILTER_PASSES, /* groups of keys probed against one filter: one a file and call */
  KV_STAT_MULTI_GET_BLOCKS,        /* distinct blocks looked into by multi-gets */
  KV_STAT_MULTI_GET_BLOCKS_SHARED, /* keys that found their block already in hand */
  KV_STAT_PROBES,                  /* key-may-exist and exists calls */
  KV_STAT_PROBE_ABSENT,            /* answered without reading a block */
  KV_STAT_PROBE_PRESENT,
  KV_STAT_PROBE_UNKNOWN,
  KV_STAT_SCANS,                  /* iterators opened */
  KV_STAT_FILTER_CHECKS,          /* one key against one filter */
  KV_STAT_FILTER_USEFUL,          /* answered "absent" */
  KV_STAT_FILTER_FALSE_POSITIVES, /* said "maybe", the block had no such key */
  KV_STAT_BLOCKS_READ,            /* data blocks read from files */
  KV_STAT_BLOCK_BYTES_READ,       /* stored bytes of these */
  KV_STAT_CHECKSUMS,              /* checksums verified, of these */
  KV_STAT_CHECKSUMS_SKIPPED,      /* blocks taken without */
  KV_STAT_PART_CHECKSUMS,         /* of filters, fences and properties, verified */
  KV_STAT_LOG_CHECKSUMS,          /* of log rows, verified */
  KV_STAT_VALUE_BLOCKS_READ,      /* of BLOCKS_READ, those of value files */
  KV_STAT_VALUE_BYTES_READ,       /* stored bytes of these */
  KV_STAT_CACHE_HITS,
  KV_STAT_CACHE_MISSES,
  KV_STAT_VIEWS_BUILT, /* views made from shadow tables */
  KV_STAT_LOG_ROWS_REPLAYED,
  KV_STAT_BATCH_PUTS,
  KV_STAT_BATCH_DELETES,
  KV_STAT_BATCH_OVERWRITES, /* of a key already pending */
  KV_STAT_BATCH_ROLLBACKS,
  KV_STAT_COMMITS,   /* log rows adopted by this process's own commits */
  KV_STAT_LOG_BYTES, /* SQL side: of encoded batches in log rows that this process has committed */
  KV_STAT_FLUSHES,
  KV_STAT_FLUSH_BYTES, /* file bytes written */
  KV_STAT_COMPACTIONS,
  KV_STAT_COMPACT_BYTES_READ,
  KV_STAT_COMPACT_BYTES_WRITTEN,
  KV_STAT_TOMBSTONES_DROPPED, /* by jobs, which had nothing older under them */
  KV_STAT_TOMBSTONES_KEPT,    /* that jobs wrote again, or for the first time */
  KV_STAT_FILES_REMOVED,
  KV_STAT_ORPHANS_REMOVED, /* of these, files that nobody had named */
  KV_STAT_FLUSH_WAITS,     /* SQL side: commits that waited for a flush of the thread */
  KV_STAT_SPILLS,          /* SQL side: batches that a transaction has written to private files */
  KV_STAT_COMMIT_HELPS, /* SQL side: commits that did work on files that the thread does otherwise */
  KV_STAT_COMMIT_HELP_US,  /* time in it, and in waiting */
  KV_STAT_WIDENED_LOOKUPS, /* SQL side: lookups that had to read a superset */
  KV_STAT_COUNT
};

struct kv_stats {
  uint64_t counters[KV_STAT_COUNT];
};

struct kv_stat_info {
  const char *name; /* snake_case, as SQL shows it */
  const char *unit; /* "calls", "keys", "bytes", ... */
  const char *text; /* one line */
};

static inline void kv_stats_add(struct kv_stats *stats, enum kv_stat stat, uint64_t n) {
  __atomic_add_fetch(&stats->counters[stat], n, __ATOMIC_RELAXED);
}
uint64_t kv_stats_get(const struct kv_stats *stats, enum kv_stat stat);
/* Static storage; never NULL for stat < KV_STAT_COUNT. */
const struct kv_stat_info *kv_stat_info(enum kv_stat stat);

#endif
