/* Point reads: the places that all of them ask, and the get; multi-get is in read_multi.c, key-may-exist and
** exists in read_probe.c.
**
** All of them ask the same places in the same order, newest first: the pending batch, the memtables, the
** runs. Each place answers put, deleted or "not here"; the first of the former two ends the search, so
** that a tombstone hides every older value, and a failure ends it too: what a damaged place would have
** said is never guessed (invariant 7). A key is hashed once and the hash used at every place.
** Values are not copied: a result holds the view, the batch and the pins that keep their bytes.
** Thread rule: any thread for the view; the batch's and the result's owner only. */
#include "read_inside.h"

#include <string.h>

#include "hash.h"
#include "values.h"

/* ---- Places */

/* Of the memtables, newest first. */
static enum kv_batch_answer ask_log(const struct kv_log_window *log, struct kv_slice key,
                                    uint64_t hash, struct kv_slice *value) {
  enum kv_batch_answer answer = KV_BATCH_NONE;
  for (size_t i = 0; i < log->table_count && answer == KV_BATCH_NONE; i++)
    answer = kv_memtable_get(log->tables[i], log->window, key, hash, value);
  return answer;
}

static const enum kv_table_answer answers[] = {[KV_BATCH_NONE] = KV_TABLE_NONE,
                                               [KV_BATCH_PUT] = KV_TABLE_PUT,
                                               [KV_BATCH_DELETED] = KV_TABLE_DELETED};

static void ask_one(const struct kv_view *view, const struct kv_batch *batch,
                    struct kv_lookup *lookup) {
  enum kv_batch_answer answer = KV_BATCH_NONE;
  if (batch) answer = kv_batch_get(batch, lookup->key, lookup->hash, &lookup->value);
  if (answer == KV_BATCH_NONE)
    answer = ask_log(&view->log, lookup->key, lookup->hash, &lookup->value);
  lookup->answer = answers[answer];
}

/* Lookups whose loads from memory overlap. */
struct group {
  struct kv_lookup *lookups[KV_ENTRIES_GROUP];
  struct kv_slice keys[KV_ENTRIES_GROUP];
  uint64_t hashes[KV_ENTRIES_GROUP];
  enum kv_batch_answer answers[KV_ENTRIES_GROUP];
  struct kv_slice values[KV_ENTRIES_GROUP];
  size_t count;
};

static void add_to_group(struct group *group, struct kv_lookup *lookup) {
  group->lookups[group->count] = lookup;
  group->keys[group->count] = lookup->key;
  group->answers[group->count] = KV_BATCH_NONE;
  group->hashes[group->count++] = lookup->hash;
}

/* Hands out what a place has answered; those without an answer stay. */
static void take_answers(struct group *group) {
  size_t count = group->count;
  group->count = 0;
  for (size_t i = 0; i < count; i++) {
    struct kv_lookup *lookup = group->lookups[i];
    lookup->answer = answers[group->answers[i]];
    if (group->answers[i] == KV_BATCH_NONE)
      add_to_group(group, lookup);
    else
      lookup->value = group->values[i];
  }
}

static void ask_group(const struct kv_view *view, const struct kv_batch *batch,
                      struct group *group) {
  const struct kv_log_window *log = &view->log;
  if (batch) {
    kv_batch_get_many(batch, group->keys, group->hashes, group->count, group->answers,
                      group->values);
    take_answers(group);
  }
  for (size_t i = 0; i < log->table_count && group->count; i++) {
    kv_memtable_get_many(log->tables[i], log->window, group->keys, group->hashes, group->count,
                         group->answers, group->values);
    take_answers(group);
  }
}

void kv_read_memory(const struct kv_view *view, const struct kv_batch *batch,
                    struct kv_lookup *lookups, size_t n) {
  if (!batch && !view->log.table_count) return;
  if (n == 1) {
    ask_one(view, batch, lookups);
    return;
  }
  for (size_t i = 0; i < n;) {
    struct group group;
    for (group.count = 0; i < n && group.count < KV_ENTRIES_GROUP; i++)
      add_to_group(&group, &lookups[i]);
    ask_group(view, batch, &group);
  }
}

/* Whether no older run need be asked. */
static bool is_settled(const struct kv_lookup *lookup, enum kv_lookup_mode mode) {
  return lookup->answer != KV_TABLE_NONE || (lookup->missed && mode == KV_LOOKUP_CACHED);
}

/* Runs whose filters are asked together, so that their loads overlap. */
#define RUN_GROUP ((size_t)12)

enum said { UNASKED, DENIED, PASSED };

/* The file of each run that may have the key, or NULL; and what its filter says, if it is open. */
struct run_group {
  struct kv_sst *files[RUN_GROUP];
  enum said said[RUN_GROUP];
};

/* The filter that is to be asked for a file, or NULL. */
static const struct kv_filter *filter_of(struct kv_sst *file) {
  const struct kv_table *table = file ? kv_sst_opened(file) : NULL;
  const struct kv_filter *filter = table ? kv_table_filter(table) : NULL;
  return filter && filter->lines ? filter : NULL;
}

/* The file of a run that may have the key, or NULL. Where comparisons are calls of a function, a single
** file's filter says sooner than its bounds that it has not. */
static struct kv_sst *file_for(const struct kv_run *run, struct kv_slice key) {
  bool filter_first = run->comparator && run->file_count == 1 && filter_of(run->files[0]);
  return filter_first ? run->files[0] : kv_run_find(run, key);
}

/* Of the runs from lookup->run on; says how many. */
static size_t ask_filters(const struct kv_view *view, const struct kv_lookup *lookup,
                          struct run_group *group) {
  size_t left = view->run_count - lookup->run, count = left < RUN_GROUP ? left : RUN_GROUP;
  size_t asked = 0, runs[RUN_GROUP] = {0};
  const struct kv_filter *filters[RUN_GROUP];
  uint64_t hashes[RUN_GROUP];
  bool maybe[RUN_GROUP];
  for (size_t i = 0; i < count; i++) {
    group->files[i] = file_for(&view->runs[lookup->run + i], lookup->key);
    group->said[i] = UNASKED;
    const struct kv_filter *filter = filter_of(group->files[i]);
    if (!filter || (i == 0 && lookup->passed)) continue;
    filters[asked] = filter;
    hashes[asked] = lookup->hash;
    runs[asked++] = i;
  }
  kv_filter_may_contain_many(filters, hashes, asked, maybe);
  for (size_t i = 0; i < asked; i++) group->said[runs[i]] = maybe[i] ? PASSED : DENIED;
  return count;
}

static kv_status read_file(struct kv_sst *file, struct kv_lookup *lookup, enum kv_lookup_mode mode,
                           struct kv_err *err) {
  struct kv_table *table = NULL;
  kv_status status = kv_sst_table(file, &table, err);
  lookup->table = table;
  if (status == KV_OK) status = kv_table_get(table, lookup, mode, err);
  lookup->passed = false;
  return status;
}

static void count_filters(const struct kv_view *view, const uint64_t *counts) {
  struct kv_stats *stats = kv_family_stats(view->family);
  uint64_t checks = counts[DENIED] + counts[PASSED];
  if (checks) kv_stats_add(stats, KV_STAT_FILTER_CHECKS, checks);
  if (counts[DENIED]) kv_stats_add(stats, KV_STAT_FILTER_USEFUL, counts[DENIED]);
}

/* The only run that is left: its file asks the filter itself. */
static kv_status read_last_run(const struct kv_view *view, struct kv_lookup *lookup,
                               enum kv_lookup_mode mode, struct kv_err *err) {
  struct kv_sst *file = file_for(&view->runs[lookup->run], lookup->key);
  kv_status status = file ? read_file(file, lookup, mode, err) : KV_OK;
  if (!file || !is_settled(lookup, mode)) lookup->run++;
  return status;
}

/* Counts as if the filters were asked one after another: none behind the run that answers. */
kv_status kv_read_runs(const struct kv_view *view, struct kv_lookup *lookup,
                       enum kv_lookup_mode mode, struct kv_err *err) {
  if (lookup->run + 1 == view->run_count) return read_last_run(view, lookup, mode, err);
  kv_status status = KV_OK;
  struct run_group group = {{NULL}, {UNASKED}};
  uint64_t counts[] = {[UNASKED] = 0, [DENIED] = 0, [PASSED] = 0};
  for (size_t at = 0, count = 0; lookup->run < view->run_count && status == KV_OK; lookup->run++) {
    if (at == count) {
      count = ask_filters(view, lookup, &group);
      at = 0;
    }
    struct kv_sst *file = group.files[at];
    enum said said = group.said[at++];
    counts[said]++;
    if (!file || said == DENIED) continue;
    lookup->passed |= said == PASSED;
    status = read_file(file, lookup, mode, err);
    if (is_settled(lookup, mode)) break;
  }
  count_filters(view, counts);
  return status;
}

/* Gives the lookups that the run is to answer their tables; says how many these are. */
static kv_status route(const struct kv_run *run, size_t number, struct kv_lookup *lookups, size_t n,
                       enum kv_lookup_mode mode, size_t *routed, struct kv_err *err) {
  kv_status status = KV_OK;
  *routed = 0;
  for (size_t i = 0; i < n && status == KV_OK; i++) {
    struct kv_lookup *lookup = &lookups[i];
    lookup->table = NULL;
    if (number < lookup->run || is_settled(lookup, mode)) continue;
    lookup->run = number;
    struct kv_sst *file = file_for(run, lookup->key);
    if (!file) continue;
    status = kv_sst_table(file, &lookup->table, err);
    ++*routed;
  }
  return status;
}

kv_status kv_read_runs_many(const struct kv_view *view, struct kv_lookup *lookups, size_t n,
                            enum kv_lookup_mode mode, struct kv_err *err) {
  kv_status status = KV_OK;
  for (size_t run = 0; run < view->run_count && status == KV_OK; run++) {
    size_t routed;
    status = route(&view->runs[run], run, lookups, n, mode, &routed, err);
    if (status != KV_OK || !routed) continue;
    status = kv_table_multi_get(lookups, n, mode, err);
    for (size_t i = 0; i < n; i++) {
      if (lookups[i].table) lookups[i].passed = false;
    }
  }
  return status;
}

/* ---- One key */

void kv_value_release(struct kv_value *value) {
  if (value->pin) kv_cache_unpin(value->pin);
  if (value->batch) kv_batch_unref(value->batch);
  kv_view_unref(value->view);
  memset(value, 0, sizeof *value);
}

/* Of view, batch and pin those that keep the bytes, or are needed to get them. */
static void hold(struct kv_value *value, struct kv_view *view, struct kv_batch *batch,
                 struct kv_slice bytes, struct kv_cache_entry *pin) {
  value->found = true;
  value->bytes = bytes;
  value->view = view ? kv_view_ref(view) : NULL;
  value->batch = batch ? kv_batch_ref(batch) : NULL;
  value->pin = pin;
}

kv_status kv_value_load(struct kv_value *value, struct kv_slice key, struct kv_err *err) {
  if (!value->apart || !value->view) return KV_OK;
  struct kv_cache_entry *pin = NULL;
  struct kv_slice bytes;
  kv_status status = kv_values_get(value->view->layout, key, value->bytes, &bytes, &pin, err);
  if (status != KV_OK) return status;
  kv_cache_unpin(value->pin);
  value->bytes = bytes;
  value->pin = pin;
  value->apart = false;
  return KV_OK;
}

struct kv_slice kv_value_head(const struct kv_value *value) {
  return value->apart ? kv_apart_head(value->bytes) : value->bytes;
}

/* From lookup->run on. */
static kv_status get_from_runs(struct kv_view *view, struct kv_lookup *lookup,
                               struct kv_value *value, struct kv_err *err) {
  kv_status status = kv_read_runs(view, lookup, KV_LOOKUP_VALUE, err);
  if (status == KV_OK && lookup->answer == KV_TABLE_PUT)
    hold(value, lookup->apart ? view : NULL, NULL, lookup->value, lookup->pin);
  value->apart = value->found && lookup->apart;
  return status;
}

kv_status kv_read_get(struct kv_view *view, struct kv_batch *batch, struct kv_slice key,
                      struct kv_value *value, struct kv_err *err) {
  struct kv_slice bytes = {NULL, 0};
  uint64_t hash = kv_hash_key(key);
  enum kv_batch_answer answer = KV_BATCH_NONE;
  if (batch) answer = kv_batch_get(batch, key, hash, &bytes);
  if (answer == KV_BATCH_PUT) hold(value, NULL, batch, bytes, NULL);
  if (answer != KV_BATCH_NONE) return KV_OK;
  answer = ask_log(&view->log, key, hash, &bytes);
  if (answer == KV_BATCH_PUT) hold(value, view, NULL, bytes, NULL);
  if (answer != KV_BATCH_NONE) return KV_OK;
  struct kv_lookup lookup = {.key = key, .hash = hash};
  return get_from_runs(view, &lookup, value, err);
}

kv_status kv_get_head(struct kv_view *view, struct kv_batch *batch, struct kv_slice key,
                      struct kv_value *value, struct kv_err *err) {
  if (value->found) kv_value_release(value);
  kv_stats_add(kv_family_stats(view->family), KV_STAT_GETS, 1);
  return kv_read_get(view, batch, key, value, err);
}

/* A head that was got with `status` becomes the whole value. */
static kv_status complete(kv_status status, struct kv_slice key, struct kv_value *value,
                          struct kv_err *err) {
  if (status == KV_OK) status = kv_value_load(value, key, err);
  if (status != KV_OK) kv_value_release(value);
  return status;
}

kv_status kv_get(struct kv_view *view, struct kv_batch *batch, struct kv_slice key,
                 struct kv_value *value, struct kv_err *err) {
  return complete(kv_get_head(view, batch, key, value, err), key, value, err);
}

kv_status kv_get_resume(struct kv_view *view, struct kv_slice key, struct kv_resume resume,
                        struct kv_value *value, struct kv_err *err) {
  struct kv_lookup lookup = {
      .key = key, .hash = kv_hash_key(key), .run = resume.run, .passed = true};
  kv_value_release(value);
  kv_stats_add(kv_family_stats(view->family), KV_STAT_GETS, 1);
  return complete(get_from_runs(view, &lookup, value, err), key, value, err);
}
