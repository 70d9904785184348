/* Counting the rows that puts without a look have added (batch.h): their keys are looked for below the
** batch, some thousands together, in memory first; those that memory does not know then in the runs, each
** block once, without a value. Thread rule: any thread for the view; the batch's owner only. */
#include "hash.h"
#include "mem.h"
#include "read_inside.h"

/* The keys of one call. */
struct counting {
  bool found[KV_UNCOUNTED_MAX];
  struct kv_lookup *lookups; /* of those that memory does not know; position: the key's */
  size_t count;
};

/* Of `n` lookups at `from`, those without an answer move to the end of the ones before. */
static void keep_unknown(struct counting *counting, const struct kv_lookup *from, size_t n) {
  for (size_t i = 0; i < n; i++) {
    counting->found[from[i].position] = from[i].answer == KV_TABLE_PUT;
    if (from[i].answer != KV_TABLE_NONE) continue;
    struct kv_lookup *into = &counting->lookups[counting->count++];
    if (into != &from[i]) *into = from[i];
  }
}

static void look_in_memory(const struct kv_view *view, const struct kv_batch *batch,
                           struct counting *counting, size_t n) {
  struct kv_slice keys[KV_ENTRIES_GROUP];
  uint64_t hashes[KV_ENTRIES_GROUP];
  for (size_t first = 0; first < n; first += KV_ENTRIES_GROUP) {
    size_t count = n - first < KV_ENTRIES_GROUP ? n - first : KV_ENTRIES_GROUP;
    struct kv_lookup *lookups = &counting->lookups[first];
    kv_batch_uncounted_keys(batch, first, count, keys, hashes);
    for (size_t i = 0; i < count; i++)
      lookups[i] = (struct kv_lookup){.key = keys[i], .hash = hashes[i], .position = first + i};
    kv_read_memory(view, NULL, lookups, count);
    keep_unknown(counting, lookups, count);
  }
}

static kv_status look_in_runs(const struct kv_view *view, struct counting *counting,
                              struct kv_err *err) {
  if (!counting->count) return KV_OK;
  kv_status status =
      kv_read_runs_many(view, counting->lookups, counting->count, KV_LOOKUP_KEY, err);
  for (size_t i = 0; i < counting->count; i++)
    counting->found[counting->lookups[i].position] = counting->lookups[i].answer == KV_TABLE_PUT;
  return status;
}

static void count_probes(const struct kv_view *view, const struct counting *counting, size_t n) {
  size_t missed = 0, present = 0;
  for (size_t i = 0; i < n; i++) present += counting->found[i];
  for (size_t i = 0; i < counting->count; i++) {
    missed += counting->lookups[i].missed;
    present -= counting->lookups[i].missed && counting->found[counting->lookups[i].position];
  }
  kv_read_count_probes(view, n, missed, present);
}

/* Nothing is below the batch. */
static kv_status count_all(const struct kv_view *view, struct kv_batch *batch, size_t n,
                           struct kv_err *err) {
  static const bool found[KV_UNCOUNTED_MAX];
  kv_read_count_probes(view, n, 0, 0);
  return kv_batch_count_rows(batch, found, err);
}

static kv_status count_one(struct kv_view *view, struct kv_batch *batch, struct kv_err *err) {
  struct kv_slice key;
  uint64_t hash;
  bool found;
  kv_batch_uncounted_keys(batch, 0, 1, &key, &hash);
  kv_status status = kv_exists(view, NULL, key, &found, err);
  return status == KV_OK ? kv_batch_count_rows(batch, &found, err) : status;
}

kv_status kv_count_rows(struct kv_view *view, struct kv_batch *batch, struct kv_err *err) {
  size_t n = kv_batch_uncounted(batch);
  if (!n) return KV_OK;
  if (!view->run_count && !view->log.table_count) return count_all(view, batch, n, err);
  if (n == 1) return count_one(view, batch, err);
  struct counting counting;
  counting.count = 0;
  counting.lookups = kv_alloc(n, sizeof *counting.lookups);
  if (!counting.lookups) return kv_fail_nomem(err);
  look_in_memory(view, batch, &counting, n);
  kv_status status = look_in_runs(view, &counting, err);
  if (status == KV_OK) count_probes(view, &counting, n);
  if (status == KV_OK) status = kv_batch_count_rows(batch, counting.found, err);
  kv_free(counting.lookups);
  return status;
}
