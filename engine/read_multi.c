/* Multi-get: the keys of each request are asked for in batch and memtables and then in one run after another
** (read.c). One key goes the way of a get.
** A result is one object that holds the views, the batches and the pins that keep its bytes.
** Thread rule: any thread for the views; the batches' and the result's owner only. */
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

/* In one piece of memory with what it points to. */
struct kv_result {
  struct owner *owners;
  size_t owner_count;
  struct kv_answer *answers; /* one a key, in the order asked */
  size_t count;
  bool loaded; /* no answer is a reference any more */
};

void kv_result_free(struct kv_result *result) {
  if (!result) return;
  for (size_t i = 0; i < result->count; i++) kv_cache_unpin(result->answers[i].pin);
  for (size_t i = 0; i < result->owner_count; i++) {
    kv_batch_unref(result->owners[i].batch);
    kv_view_unref(result->owners[i].view);
  }
  kv_free(result);
}

static kv_status result_new(const struct kv_request *requests, size_t n, size_t keys,
                            struct kv_result **out, struct kv_err *err) {
  struct kv_result *result = kv_alloc_zero(
      1, sizeof *result + n * sizeof *result->owners + keys * sizeof *result->answers);
  if (!result) return kv_fail_nomem(err);
  result->owners = (struct owner *)(result + 1);
  result->answers = (struct kv_answer *)(result->owners + n);
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

struct kv_cache_entry *kv_result_pin(const struct kv_result *result, size_t index) {
  return result->answers[index].pin;
}

/* ---- Keys of one request */

static struct kv_answer answer_of(const struct kv_lookup *lookup) {
  if (lookup->answer != KV_TABLE_PUT) return (struct kv_answer){.found = false};
  return (struct kv_answer){
      .value = lookup->value, .pin = lookup->pin, .found = true, .apart = lookup->apart};
}

/* A key that is given several times is looked up as often: in one block in hand. */
static kv_status get_many(const struct kv_request *request, struct kv_answer *answers,
                          struct kv_err *err) {
  size_t n = request->count;
  struct kv_lookup *lookups = kv_alloc(n, sizeof *lookups);
  if (!lookups) return kv_fail_nomem(err);
  for (size_t i = 0; i < n; i++) {
    struct kv_slice key = request->keys[i];
    lookups[i] = (struct kv_lookup){.key = key, .hash = kv_hash_key(key)};
  }
  kv_read_memory(request->view, request->batch, lookups, n);
  kv_status status = kv_read_runs_many(request->view, lookups, n, KV_LOOKUP_VALUE, err);
  for (size_t i = 0; i < n; i++) {
    if (status == KV_OK)
      answers[i] = answer_of(&lookups[i]);
    else
      kv_cache_unpin(lookups[i].pin);
  }
  kv_free(lookups);
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

static kv_status name_request(const struct kv_request *request, kv_status status,
                              const struct kv_err *inner, struct kv_err *err) {
  if (status == KV_OK) return status;
  if (request->name && status != KV_NOMEM)
    return kv_fail(err, status, "table %s: %s", request->name, inner->text);
  if (err) *err = *inner;
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
  struct kv_err inner;
  kv_err_init(&inner);
  for (size_t i = 0; i < n && status == KV_OK; answers += requests[i++].count)
    status = name_request(&requests[i], answer_request(&requests[i], answers, &inner), &inner, err);
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
  struct kv_err inner;
  kv_err_init(&inner);
  for (size_t i = 0; i < n && status == KV_OK; answers += requests[i++].count) {
    status = load_values(requests[i].view, requests[i].keys, answers, requests[i].count, &inner);
    status = name_request(&requests[i], status, &inner, err);
  }
  if (status == KV_OK) {
    (*result)->loaded = true;
    return KV_OK;
  }
  kv_result_free(*result);
  *result = NULL;
  return status;
}

static kv_status check_order(const struct kv_request *request, struct kv_err *err) {
  const struct kv_comparator *by = kv_view_comparator(request->view);
  for (size_t i = 1; i < request->count; i++) {
    if (!kv_key_ascends(by, request->keys[i - 1], request->keys[i]))
      return kv_fail(err, KV_MISUSE, "multi-get: key %zu of %zu is not above the one before it", i,
                     request->count);
  }
  return KV_OK;
}

kv_status kv_multi_get(struct kv_view *view, struct kv_batch *batch, const struct kv_slice *keys,
                       size_t n, struct kv_result **result, struct kv_err *err) {
  struct kv_request request = {view, batch, keys, n, NULL};
  *result = NULL;
  kv_status status = check_order(&request, err);
  return status == KV_OK ? kv_multi_get_many(&request, 1, result, err) : status;
}

kv_status kv_multi_get_heads(struct kv_view *view, struct kv_batch *batch,
                             const struct kv_slice *keys, size_t n, struct kv_result **result,
                             struct kv_err *err) {
  struct kv_request request = {view, batch, keys, n, NULL};
  *result = NULL;
  kv_status status = check_order(&request, err);
  return status == KV_OK ? get_heads(&request, 1, result, err) : status;
}

kv_status kv_result_load(struct kv_result *result, const struct kv_slice *keys,
                         struct kv_err *err) {
  if (result->loaded) return KV_OK; /* asked row by row */
  kv_status status = load_values(result->owners[0].view, keys, result->answers, result->count, err);
  result->loaded = status == KV_OK;
  return status;
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
