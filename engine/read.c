/* Point reads: get, multi-get, key-may-exist, exists.
**
** All of them ask the same places in the same order, newest first: the pending batch, the memtables, the
** runs. Each place answers put, deleted or "not here"; the first of the former two ends the search, so
** that a tombstone hides every older value, and a failure ends it too: what a damaged place would have
** said is never guessed (invariant 7). A key is hashed once and the hash used at every place.
** Values are not copied: a result holds the view, the batch and the pins that keep their bytes.
** Thread rule: any thread for the view; the batch's and the result's owner only. */
#include <string.h>

#include "mem.h"
#include "view.h"

/* ---- One key */

/* What batch and memtables know of a key. */
static enum kv_batch_answer find_in_memory(const struct kv_view *view, const struct kv_batch *batch,
                                           struct kv_slice key, uint64_t hash,
                                           struct kv_slice *value) {
  enum kv_batch_answer answer = KV_BATCH_NONE;
  if (batch) answer = kv_batch_get(batch, key, hash, value);
  const struct kv_log_window *log = &view->log;
  for (size_t i = 0; i < log->table_count && answer == KV_BATCH_NONE; i++) {
    answer = kv_memtable_get(log->tables[i], log->window, key, hash, value);
  }
  return answer;
}

/* What the runs from from_run on know of lookup->key; its answer is NONE when none has it. */
static kv_status find_in_runs(const struct kv_view *view, size_t from_run, struct kv_lookup *lookup,
                              struct kv_err *err) {
  kv_status status = KV_OK;
  lookup->answer = KV_TABLE_NONE;
  for (size_t run = from_run; run < view->run_count && lookup->answer == KV_TABLE_NONE; run++) {
    struct kv_sst *file = kv_run_find(&view->runs[run], lookup->key);
    if (!file) continue;
    struct kv_table *table = NULL;
    status = kv_sst_table(file, &table, err);
    if (status == KV_OK) status = kv_table_get(table, lookup, err);
    if (status != KV_OK) break;
  }
  return status;
}

void kv_value_release(struct kv_value *value) {
  if (value->pin) kv_cache_unpin(value->pin);
  if (value->batch) kv_batch_unref(value->batch);
  kv_view_unref(value->view);
  memset(value, 0, sizeof *value);
}

static void hold(struct kv_value *value, struct kv_view *view, struct kv_batch *batch,
                 struct kv_slice bytes, struct kv_cache_entry *pin) {
  value->found = true;
  value->bytes = bytes;
  value->view = kv_view_ref(view);
  value->batch = batch ? kv_batch_ref(batch) : NULL;
  value->pin = pin;
}

static kv_status get_one(struct kv_view *view, struct kv_batch *batch, struct kv_slice key,
                         struct kv_value *value, struct kv_err *err) {
  struct kv_slice bytes = {NULL, 0};
  struct kv_lookup lookup = {.key = key, .hash = kv_hash_key(key)};
  enum kv_batch_answer answer = find_in_memory(view, batch, key, lookup.hash, &bytes);
  if (answer == KV_BATCH_PUT) hold(value, view, batch, bytes, NULL);
  if (answer != KV_BATCH_NONE) return KV_OK;
  kv_status status = find_in_runs(view, 0, &lookup, err);
  if (status == KV_OK && lookup.answer == KV_TABLE_PUT)
    hold(value, view, NULL, lookup.value, lookup.pin);
  return status;
}

kv_status kv_get(struct kv_view *view, struct kv_batch *batch, struct kv_slice key,
                 struct kv_value *value, struct kv_err *err) {
  kv_value_release(value);
  kv_stats_add(kv_family_stats(view->family), KV_STAT_GETS, 1);
  return get_one(view, batch, key, value, err);
}

/* ---- Many keys */

struct kv_answer {
  struct kv_slice value;
  struct kv_cache_entry *pin;
  bool found;
};

struct kv_result {
  struct kv_view *view;
  struct kv_batch *batch;
  struct kv_answer *answers; /* one a key, in the order asked */
  size_t count;
};

void kv_result_free(struct kv_result *result) {
  if (!result) return;
  for (size_t i = 0; result->answers && i < result->count; i++) {
    if (result->answers[i].pin) kv_cache_unpin(result->answers[i].pin);
  }
  kv_free(result->answers);
  if (result->batch) kv_batch_unref(result->batch);
  kv_view_unref(result->view);
  kv_free(result);
}

static kv_status result_new(struct kv_view *view, struct kv_batch *batch, size_t n,
                            struct kv_result **out, struct kv_err *err) {
  struct kv_result *result = kv_alloc_zero(1, sizeof *result);
  if (!result) return kv_fail_nomem(err);
  result->view = kv_view_ref(view);
  result->batch = batch ? kv_batch_ref(batch) : NULL;
  result->answers = kv_alloc_zero(n, sizeof *result->answers);
  result->count = n;
  if (!result->answers) {
    kv_result_free(result);
    return kv_fail_nomem(err);
  }
  *out = result;
  return KV_OK;
}

bool kv_result_found(const struct kv_result *result, size_t index, struct kv_slice *value) {
  const struct kv_answer *answer = &result->answers[index];
  if (value) *value = answer->value;
  return answer->found;
}

/* Takes the answers of looked-up keys over into the result. */
static void take_answers(struct kv_result *result, const struct kv_lookup *lookups, size_t n) {
  for (size_t i = 0; i < n; i++) {
    if (lookups[i].answer != KV_TABLE_PUT) continue;
    result->answers[lookups[i].position] =
        (struct kv_answer){.value = lookups[i].value, .pin = lookups[i].pin, .found = true};
  }
}

/* How many of the n sorted keys at `lookups` are at or below `largest`. */
static size_t count_through(const struct kv_comparator *by, const struct kv_lookup *lookups,
                            size_t n, struct kv_slice largest) {
  size_t i = 0;
  while (i < n && kv_key_compare(by, lookups[i].key, largest) <= 0) i++;
  return i;
}

/* Asks one run for the whole group, each of its files once for the keys in its range. */
static kv_status ask_run(struct kv_result *result, const struct kv_run *run,
                         struct kv_lookup *group, size_t n, struct kv_err *err) {
  size_t keys = 0;
  for (size_t i = 0; i < n; i += keys ? keys : 1) {
    struct kv_sst *file = kv_run_find(run, group[i].key);
    struct kv_table *table = NULL;
    keys = 0;
    if (!file) continue;
    kv_status status = kv_sst_table(file, &table, err);
    if (status != KV_OK) return status;
    keys =
        count_through(run->comparator, group + i, n - i, kv_buf_slice(&kv_sst_info(file)->largest));
    status = kv_table_multi_get(table, group + i, keys, err);
    if (status != KV_OK) return status;
    take_answers(result, group + i, keys);
  }
  return KV_OK;
}

/* Leaves in the group the keys that no place has answered yet. */
static size_t keep_unanswered(struct kv_lookup *group, size_t n) {
  size_t left = 0;
  for (size_t i = 0; i < n; i++) {
    if (group[i].answer == KV_TABLE_NONE) group[left++] = group[i];
  }
  return left;
}

/* Answers what batch and memtables know and gathers the other keys in `group`. */
static size_t ask_memory(struct kv_result *result, const struct kv_slice *keys,
                         struct kv_lookup *group) {
  size_t left = 0;
  for (size_t i = 0; i < result->count; i++) {
    struct kv_answer *answer = &result->answers[i];
    uint64_t hash = kv_hash_key(keys[i]);
    switch (find_in_memory(result->view, result->batch, keys[i], hash, &answer->value)) {
      case KV_BATCH_PUT:
        answer->found = true;
        break;
      case KV_BATCH_DELETED:
        break;
      case KV_BATCH_NONE:
        group[left++] = (struct kv_lookup){.key = keys[i], .hash = hash, .position = i};
        break;
    }
    if (!answer->found) answer->value = kv_slice_of(NULL, 0);
  }
  return left;
}

static kv_status get_many(struct kv_result *result, const struct kv_slice *keys,
                          struct kv_err *err) {
  struct kv_lookup *group = kv_alloc(result->count, sizeof *group);
  if (!group) return kv_fail_nomem(err);
  kv_status status = KV_OK;
  const struct kv_view *view = result->view;
  size_t left = ask_memory(result, keys, group);
  for (size_t run = 0; run < view->run_count && left > 0 && status == KV_OK; run++) {
    status = ask_run(result, &view->runs[run], group, left, err);
    if (status == KV_OK) left = keep_unanswered(group, left);
  }
  kv_free(group);
  return status;
}

static kv_status get_single(struct kv_result *result, struct kv_slice key, struct kv_err *err) {
  struct kv_value value;
  memset(&value, 0, sizeof value);
  kv_status status = get_one(result->view, result->batch, key, &value, err);
  if (status == KV_OK && value.found) {
    result->answers[0] = (struct kv_answer){.value = value.bytes, .pin = value.pin, .found = true};
    value.pin = NULL;
  }
  kv_value_release(&value);
  return status;
}

static kv_status check_keys(const struct kv_comparator *by, const struct kv_slice *keys, size_t n,
                            struct kv_err *err) {
  for (size_t i = 1; i < n; i++) {
    if (!kv_key_ascends(by, keys[i - 1], keys[i]))
      return kv_fail(err, KV_MISUSE, "multi-get: key %zu of %zu is not above the one before it", i,
                     n);
  }
  return KV_OK;
}

kv_status kv_multi_get(struct kv_view *view, struct kv_batch *batch, const struct kv_slice *keys,
                       size_t n, struct kv_result **result, struct kv_err *err) {
  struct kv_result *made = NULL;
  *result = NULL;
  kv_status status = check_keys(kv_view_comparator(view), keys, n, err);
  if (status == KV_OK) status = result_new(view, batch, n, &made, err);
  if (status != KV_OK) return status;
  kv_stats_add(kv_family_stats(view->family), KV_STAT_MULTI_GETS, 1);
  kv_stats_add(kv_family_stats(view->family), KV_STAT_MULTI_GET_KEYS, n);
  if (n == 1)
    status = get_single(made, keys[0], err);
  else if (n > 1)
    status = get_many(made, keys, err);
  if (status == KV_OK)
    *result = made;
  else
    kv_result_free(made);
  return status;
}

/* ---- Existence */

/* Asks the runs without reading a block. */
static kv_status probe_runs(const struct kv_view *view, struct kv_slice key, uint64_t hash,
                            enum kv_may_exist *answer, size_t *run, struct kv_err *err) {
  *answer = KV_ABSENT;
  for (*run = 0; *run < view->run_count; ++*run) {
    struct kv_sst *file = kv_run_find(&view->runs[*run], key);
    if (!file) continue;
    struct kv_table *table = NULL;
    enum kv_table_probe probe = KV_PROBE_UNKNOWN;
    kv_status status = kv_sst_table(file, &table, err);
    if (status == KV_OK) status = kv_table_probe(table, key, hash, &probe, err);
    if (status != KV_OK) return status;
    if (probe == KV_PROBE_NONE) continue;
    if (probe == KV_PROBE_PUT) *answer = KV_PRESENT;
    if (probe == KV_PROBE_UNKNOWN) *answer = KV_UNKNOWN;
    break;
  }
  return KV_OK;
}

/* The probe, counted. *run is where a get goes on after UNKNOWN. */
static kv_status probe_key(const struct kv_view *view, const struct kv_batch *batch,
                           struct kv_slice key, uint64_t hash, enum kv_may_exist *answer,
                           size_t *run, struct kv_err *err) {
  static const enum kv_stat stats[] = {[KV_ABSENT] = KV_STAT_PROBE_ABSENT,
                                       [KV_PRESENT] = KV_STAT_PROBE_PRESENT,
                                       [KV_UNKNOWN] = KV_STAT_PROBE_UNKNOWN};
  kv_status status = KV_OK;
  *run = 0;
  enum kv_batch_answer memory = find_in_memory(view, batch, key, hash, NULL);
  if (memory == KV_BATCH_NONE)
    status = probe_runs(view, key, hash, answer, run, err);
  else
    *answer = memory == KV_BATCH_PUT ? KV_PRESENT : KV_ABSENT;
  kv_stats_add(kv_family_stats(view->family), KV_STAT_PROBES, 1);
  if (status != KV_OK)
    *answer = KV_UNKNOWN;
  else
    kv_stats_add(kv_family_stats(view->family), stats[*answer], 1);
  return status;
}

kv_status kv_may_exist(struct kv_view *view, struct kv_batch *batch, struct kv_slice key,
                       enum kv_may_exist *answer, struct kv_resume *resume, struct kv_err *err) {
  size_t run = 0;
  kv_status status = probe_key(view, batch, key, kv_hash_key(key), answer, &run, err);
  if (resume) resume->run = run;
  return status;
}

kv_status kv_exists(struct kv_view *view, struct kv_batch *batch, struct kv_slice key, bool *found,
                    struct kv_err *err) {
  enum kv_may_exist answer = KV_UNKNOWN;
  struct kv_lookup lookup = {.key = key, .hash = kv_hash_key(key)};
  size_t run = 0;
  *found = false;
  kv_status status = probe_key(view, batch, key, lookup.hash, &answer, &run, err);
  if (status == KV_OK && answer == KV_UNKNOWN) {
    status = find_in_runs(view, run, &lookup, err);
    if (status == KV_OK && lookup.answer == KV_TABLE_PUT) answer = KV_PRESENT;
    if (status == KV_OK && lookup.pin) kv_cache_unpin(lookup.pin);
  }
  *found = status == KV_OK && answer == KV_PRESENT;
  return status;
}
