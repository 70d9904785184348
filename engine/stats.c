/* Counters and what they are called. The counters are plain words, touched only by relaxed
** atomics: each is exact, and no order between two of them is promised. Any thread. */
#include "stats.h"

static const struct kv_stat_info infos[] = {
    [KV_STAT_GETS] = {"gets", "calls", "single-key lookups"},
    [KV_STAT_MULTI_GETS] = {"multi_gets", "calls", "batched lookups"},
    [KV_STAT_MULTI_GET_KEYS] = {"multi_get_keys", "keys", "keys asked in batched lookups"},
    [KV_STAT_MULTI_GET_FILTER_PASSES] =
        {"multi_get_filter_passes", "passes",
         "groups of keys probed together against one file's filter"},
    [KV_STAT_MULTI_GET_BLOCKS] = {"multi_get_blocks", "blocks",
                                  "distinct blocks looked into by batched lookups"},
    [KV_STAT_MULTI_GET_BLOCKS_SHARED] = {"multi_get_blocks_shared", "keys",
                                         "keys that found their block already in hand"},
    [KV_STAT_PROBES] = {"probes", "calls", "key-may-exist and exists calls"},
    [KV_STAT_PROBE_ABSENT] = {"probe_absent", "keys", "probes answered absent without a block"},
    [KV_STAT_PROBE_PRESENT] = {"probe_present", "keys", "probes answered present"},
    [KV_STAT_PROBE_UNKNOWN] = {"probe_unknown", "keys", "probes that only a read could answer"},
    [KV_STAT_SCANS] = {"scans", "iterators", "ordered scans opened"},
    [KV_STAT_FILTER_CHECKS] = {"filter_checks", "checks", "one key against one filter"},
    [KV_STAT_FILTER_USEFUL] = {"filter_useful", "checks", "filters that answered absent"},
    [KV_STAT_FILTER_FALSE_POSITIVES] = {"filter_false_positives", "checks",
                                        "filters that said maybe where the block had no such key"},
    [KV_STAT_BLOCKS_READ] = {"blocks_read", "blocks", "data blocks read from files"},
    [KV_STAT_BLOCK_BYTES_READ] = {"block_bytes_read", "bytes", "stored bytes of the blocks read"},
    [KV_STAT_CHECKSUMS] = {"checksums", "checks", "block checksums verified"},
    [KV_STAT_CHECKSUMS_SKIPPED] = {"checksums_skipped", "checks",
                                   "blocks loaded while verify_checksums let them pass"},
    [KV_STAT_PART_CHECKSUMS] = {"part_checksums", "checks",
                                "checksums of filters, fences and properties verified"},
    [KV_STAT_LOG_CHECKSUMS] = {"log_checksums", "checks", "checksums of log rows verified"},
    [KV_STAT_VALUE_BLOCKS_READ] = {"value_blocks_read", "blocks",
                                   "of the blocks read, those of values stored apart"},
    [KV_STAT_VALUE_BYTES_READ] = {"value_bytes_read", "bytes", "stored bytes of these"},
    [KV_STAT_CACHE_HITS] = {"cache_hits", "blocks", "blocks found in the cache"},
    [KV_STAT_CACHE_MISSES] = {"cache_misses", "blocks", "blocks not found in the cache"},
    [KV_STAT_VIEWS_BUILT] = {"views_built", "views", "views made from shadow tables"},
    [KV_STAT_LOG_ROWS_REPLAYED] = {"log_rows_replayed", "rows", "log rows replayed into memory"},
    [KV_STAT_BATCH_PUTS] = {"batch_puts", "keys", "keys put into write batches"},
    [KV_STAT_BATCH_DELETES] = {"batch_deletes", "keys", "keys deleted in write batches"},
    [KV_STAT_BATCH_OVERWRITES] = {"batch_overwrites", "keys", "writes to a key already pending"},
    [KV_STAT_BATCH_ROLLBACKS] = {"batch_rollbacks", "calls", "batches or savepoints rolled back"},
    [KV_STAT_COMMITS] = {"commits", "commits", "log rows adopted by this process's own commits"},
    [KV_STAT_LOG_BYTES] = {"log_bytes", "bytes",
                           "encoded batches that own commits wrote to the log in the database"},
    [KV_STAT_FLUSHES] = {"flushes", "jobs", "memtable generations written to files"},
    [KV_STAT_FLUSH_BYTES] = {"flush_bytes", "bytes", "file bytes written by flushes"},
    [KV_STAT_COMPACTIONS] = {"compactions", "jobs", "compactions finished"},
    [KV_STAT_COMPACT_BYTES_READ] = {"compact_bytes_read", "bytes", "bytes read by compactions"},
    [KV_STAT_COMPACT_BYTES_WRITTEN] = {"compact_bytes_written", "bytes",
                                       "file bytes written by compactions"},
    [KV_STAT_TOMBSTONES_DROPPED] = {"tombstones_dropped", "keys",
                                    "deleted keys that flushes and compactions left out"},
    [KV_STAT_TOMBSTONES_KEPT] = {"tombstones_kept", "keys",
                                 "deleted keys that they wrote: something older may have them"},
    [KV_STAT_FILES_REMOVED] = {"files_removed", "files", "files deleted after their last use"},
    [KV_STAT_ORPHANS_REMOVED] = {"orphans_removed", "files",
                                 "of these, files that no manifest named: left behind"},
    [KV_STAT_FLUSH_WAITS] = {"flush_waits", "commits",
                             "commits that waited for the thread's flush, the log being too long"},
    [KV_STAT_SPILLS] = {"spills", "batches",
                        "batches over batch_bytes that a transaction wrote to files of its own"},
    [KV_STAT_COMMIT_HELPS] = {"commit_helps", "commits",
                              "commits that flushed or merged themselves, or waited for it"},
    [KV_STAT_COMMIT_HELP_US] = {"commit_help_us", "microseconds", "time spent in these"},
    [KV_STAT_WIDENED_LOOKUPS] = {"widened_lookups", "lookups",
                                 "SQL lookups that had to read a superset of what they asked"},
};
_Static_assert(sizeof infos / sizeof infos[0] == KV_STAT_COUNT, "every counter has a name");

uint64_t kv_stats_get(const struct kv_stats *stats, enum kv_stat stat) {
  return __atomic_load_n(&stats->counters[stat], __ATOMIC_RELAXED);
}

const struct kv_stat_info *kv_stat_info(enum kv_stat stat) {
  return &infos[stat];
}
