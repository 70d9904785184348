/* Multi-get: the keys of each request are asked for in order, each once, of batch and memtables and then of one
** run after another (read.c); the answers are handed out by the caller's positions. One key goes the way of a
** get.
** A result is one object that holds the views, the batches and the pins that keep its bytes.
** Thread rule: any thread for the views; the batches' and the result's owner only. */
#include <stdlib.h>
#include <string.h>

#include "hash.h"
#include "mem.h"
#include "read_inside.h"
#include "values.h"

struct kv_answer {
  struct kv_slice value;
  struct kv_cache_entry *pin;
  bool found;
  bool apart; /* the value is a reference */
};

/* What keeps the bytes of one request's answers. */
struct owner {
  struct kv_view *view;
  struct kv_batch *batch; /* or NULL */
};

struct kv_result {
  struct owner *owners;
  size_t owner_count;
  struct kv_answer *answers; /* one a key, in the order asked */
  size_t count;
};

void kv_result_free(struct kv_result *result) {
  if (!result) return;
  for (size_t i = 0; i < result->count; i++) kv_cache_unpin(result->answers[i].pin);
  for (size_t i = 0; i < result->owner_count; i++) {
    kv_batch_unref(result->owners[i].batch);
    kv_view_unref(result->owners[i].view);
  }
  kv_free(result->answers);
  kv_free(result->owners);
  kv_free(result);
}

static kv_status result_new(const struct kv_request *requests, size_t n, size_t keys,
                            struct kv_result **out, struct kv_err *err) {
  struct kv_result *result = kv_alloc_zero(1, sizeof *result);
  if (!result) return kv_fail_nomem(err);
  result->owners = kv_alloc(n, sizeof *result->owners);
  result->answers = kv_alloc_zero(keys, sizeof *result->answers);
  if (!result->owners || !result->answers) {
    kv_result_free(result);
    return kv_fail_nomem(err);
  }
  result->count = keys;
  for (; result->owner_count < n; result->owner_count++) {
    const struct kv_request *request = &requests[result->owner_count];
    result->owners[result->owner_count] = (struct owner){
        kv_view_ref(request->view), request->batch ? kv_batch_ref(request->batch) : NULL};
  }
  *out = result;
  return KV_OK;
}

bool kv_result_found(const struct kv_result *result, size_t index, struct kv_slice *value) {
  const struct kv_answer *answer = &result->answers[index];
  if (value) *value = answer->apart ? kv_apart_head(answer->value) : answer->value;
  return answer->found;
}

/* ---- Order */

/* A key that was asked for; NULL instead of an array of them: the keys are in order and distinct. */
struct asked {
  const struct kv_comparator *by;
  uint64_t prefix; /* kv_key_prefix of the key */
  struct kv_slice key;
  size_t index;
};

static bool is_ascending(const struct kv_request *request, size_t *first_not) {
  const struct kv_comparator *by = kv_view_comparator(request->view);
  for (*first_not = 1; *first_not < request->count; ++*first_not) {
    if (!kv_key_ascends(by, request->keys[*first_not - 1], request->keys[*first_not])) return false;
  }
  return true;
}

static int compare_asked(const void *a, const void *b) {
  const struct asked *left = a, *right = b;
  if (left->prefix != right->prefix) return left->prefix < right->prefix ? -1 : 1;
  return kv_key_compare(left->by, left->key, right->key);
}

static kv_status sort_keys(const struct kv_request *request, struct asked **sorted,
                           struct kv_err *err) {
  const struct kv_comparator *by = kv_view_comparator(request->view);
  size_t first_not;
  *sorted = NULL;
  if (is_ascending(request, &first_not)) return KV_OK;
  struct asked *asked = kv_alloc(request->count, sizeof *asked);
  if (!asked) return kv_fail_nomem(err);
  for (size_t i = 0; i < request->count; i++) {
    struct kv_slice key = request->keys[i];
    asked[i] = (struct asked){by, kv_key_prefix(by, key), key, i};
  }
  qsort(asked, request->count, sizeof *asked, compare_asked);
  *sorted = asked;
  return KV_OK;
}

static bool is_repeated(const struct asked *sorted, size_t i) {
  return i > 0 && compare_asked(&sorted[i - 1], &sorted[i]) == 0;
}

/* ---- Keys of one request */

static struct kv_lookup hashed(struct kv_slice key) {
  return (struct kv_lookup){.key = key, .hash = kv_hash_key(key)};
}

/* One lookup for each distinct key, in order; how many. */
static size_t make_lookups(const struct kv_request *request, const struct asked *sorted,
                           struct kv_lookup *lookups) {
  size_t count = 0;
  for (size_t i = 0; i < request->count; i++) {
    if (!sorted)
      lookups[count++] = hashed(request->keys[i]);
    else if (!is_repeated(sorted, i))
      lookups[count++] = hashed(sorted[i].key);
  }
  return count;
}

static struct kv_answer answer_of(const struct kv_lookup *lookup) {
  if (lookup->answer != KV_TABLE_PUT) return (struct kv_answer){.found = false};
  return (struct kv_answer){
      .value = lookup->value, .pin = lookup->pin, .found = true, .apart = lookup->apart};
}

/* To the positions of the keys; the pins go over to the answers. */
static void hand_out(const struct kv_request *request, const struct asked *sorted,
                     const struct kv_lookup *lookups, struct kv_answer *answers) {
  const struct kv_lookup *lookup = lookups;
  for (size_t i = 0; i < request->count; i++) {
    if (!sorted) {
      answers[i] = answer_of(&lookups[i]);
    } else if (is_repeated(sorted, i)) {
      answers[sorted[i].index] = answer_of(lookup - 1);
      if (lookup[-1].pin) kv_cache_pin(lookup[-1].pin);
    } else {
      answers[sorted[i].index] = answer_of(lookup++);
    }
  }
}

static kv_status get_many(const struct kv_request *request, struct kv_answer *answers,
                          struct kv_err *err) {
  struct asked *sorted;
  kv_status status = sort_keys(request, &sorted, err);
  if (status != KV_OK) return status;
  struct kv_lookup *lookups = kv_alloc(request->count, sizeof *lookups);
  size_t count = 0;
  if (lookups) {
    count = make_lookups(request, sorted, lookups);
    kv_read_memory(request->view, request->batch, lookups, count);
    status = kv_read_runs_many(request->view, lookups, count, KV_LOOKUP_VALUE, err);
  } else {
    status = kv_fail_nomem(err);
  }
  if (status == KV_OK) {
    hand_out(request, sorted, lookups, answers);
  } else {
    for (size_t i = 0; i < count; i++) kv_cache_unpin(lookups[i].pin);
  }
  kv_free(lookups);
  kv_free(sorted);
  return status;
}

static kv_status get_single(const struct kv_request *request, struct kv_answer *answer,
                            struct kv_err *err) {
  struct kv_value value;
  memset(&value, 0, sizeof value);
  kv_status status = kv_read_get(request->view, request->batch, request->keys[0], &value, err);
  if (status == KV_OK && value.found) {
    *answer = (struct kv_answer){
        .value = value.bytes, .pin = value.pin, .found = true, .apart = value.apart};
    value.pin = NULL;
  }
  kv_value_release(&value);
  return status;
}

static kv_status answer_request(const struct kv_request *request, struct kv_answer *answers,
                                struct kv_err *err) {
  struct kv_stats *stats = kv_family_stats(request->view->family);
  kv_stats_add(stats, KV_STAT_MULTI_GETS, 1);
  kv_stats_add(stats, KV_STAT_MULTI_GET_KEYS, request->count);
  if (request->count == 0) return KV_OK;
  return request->count == 1 ? get_single(request, answers, err) : get_many(request, answers, err);
}

/* ---- Values apart */

static size_t count_apart(const struct kv_answer *answers, size_t n) {
  size_t count = 0;
  for (size_t i = 0; i < n; i++) count += answers[i].apart;
  return count;
}

static void gather_asks(const struct kv_answer *answers, const struct kv_slice *keys, size_t n,
                        struct kv_value_ask *asks) {
  for (size_t i = 0; i < n; i++) {
    if (!answers[i].apart) continue;
    *asks++ = (struct kv_value_ask){.key = keys[i], .reference = answers[i].value, .position = i};
  }
}

/* The references among the answers become values. */
static kv_status load_values(const struct kv_view *view, const struct kv_slice *keys,
                             struct kv_answer *answers, size_t n, struct kv_err *err) {
  size_t count = count_apart(answers, n);
  if (!count) return KV_OK;
  struct kv_value_ask *asks = kv_alloc(count, sizeof *asks);
  if (!asks) return kv_fail_nomem(err);
  gather_asks(answers, keys, n, asks);
  kv_status status = kv_values_get_many(view->layout, asks, count, err);
  for (size_t i = 0; i < count && status == KV_OK; i++) {
    struct kv_answer *answer = &answers[asks[i].position];
    kv_cache_unpin(answer->pin);
    *answer = (struct kv_answer){.value = asks[i].value, .pin = asks[i].pin, .found = true};
  }
  kv_free(asks);
  return status;
}

/* ---- Public */

static kv_status get_heads(const struct kv_request *requests, size_t n, struct kv_result **result,
                           struct kv_err *err) {
  struct kv_result *made = NULL;
  size_t keys = 0;
  *result = NULL;
  for (size_t i = 0; i < n; i++) keys += requests[i].count;
  kv_status status = result_new(requests, n, keys, &made, err);
  if (status != KV_OK) return status;
  struct kv_answer *answers = made->answers;
  for (size_t i = 0; i < n && status == KV_OK; answers += requests[i++].count)
    status = answer_request(&requests[i], answers, err);
  if (status == KV_OK)
    *result = made;
  else
    kv_result_free(made);
  return status;
}

kv_status kv_multi_get_many(const struct kv_request *requests, size_t n, struct kv_result **result,
                            struct kv_err *err) {
  kv_status status = get_heads(requests, n, result, err);
  struct kv_answer *answers = status == KV_OK ? (*result)->answers : NULL;
  for (size_t i = 0; i < n && status == KV_OK; answers += requests[i++].count)
    status = load_values(requests[i].view, requests[i].keys, answers, requests[i].count, err);
  if (status == KV_OK) return KV_OK;
  kv_result_free(*result);
  *result = NULL;
  return status;
}

static kv_status check_order(const struct kv_request *request, struct kv_err *err) {
  size_t first_not;
  if (is_ascending(request, &first_not)) return KV_OK;
  return kv_fail(err, KV_MISUSE, "multi-get: key %zu of %zu is not above the one before it",
                 first_not, request->count);
}

kv_status kv_multi_get(struct kv_view *view, struct kv_batch *batch, const struct kv_slice *keys,
                       size_t n, struct kv_result **result, struct kv_err *err) {
  struct kv_request request = {view, batch, keys, n};
  *result = NULL;
  kv_status status = check_order(&request, err);
  return status == KV_OK ? kv_multi_get_many(&request, 1, result, err) : status;
}

kv_status kv_multi_get_heads(struct kv_view *view, struct kv_batch *batch,
                             const struct kv_slice *keys, size_t n, struct kv_result **result,
                             struct kv_err *err) {
  struct kv_request request = {view, batch, keys, n};
  *result = NULL;
  kv_status status = check_order(&request, err);
  return status == KV_OK ? get_heads(&request, 1, result, err) : status;
}

kv_status kv_result_load(struct kv_result *result, const struct kv_slice *keys,
                         struct kv_err *err) {
  return load_values(result->owners[0].view, keys, result->answers, result->count, err);
}

kv_status kv_multi_get_into(const struct kv_request *requests, size_t n, struct kv_room *rooms,
                            struct kv_err *err) {
  struct kv_result *result;
  kv_status status = kv_multi_get_many(requests, n, &result, err);
  if (status != KV_OK) return status;
  for (size_t i = 0; i < result->count; i++) {
    const struct kv_answer *answer = &result->answers[i];
    rooms[i].found = answer->found;
    rooms[i].size = answer->found ? answer->value.size : 0;
    if (rooms[i].size && rooms[i].size <= rooms[i].capacity)
      memcpy(rooms[i].bytes, answer->value.data, rooms[i].size);
  }
  kv_result_free(result);
  return KV_OK;
}
