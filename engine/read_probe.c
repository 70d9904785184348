/* Key-may-exist and exists: the places of read.c, asked for the key alone. A probe reads no block and stops
** where one would have to be read; an exists goes on there. A list of one key goes the way of one key.
** Thread rule: any thread for the view; the batch's owner only. */
#include <string.h>

#include "hash.h"
#include "mem.h"
#include "read_inside.h"

#define SMALL_COUNT 64 /* of keys whose lookups need no memory of their own */

static enum kv_may_exist answer_of(const struct kv_lookup *lookup, enum kv_lookup_mode mode) {
  if (lookup->missed && mode == KV_LOOKUP_CACHED) return KV_UNKNOWN;
  return lookup->answer == KV_TABLE_PUT ? KV_PRESENT : KV_ABSENT;
}

void kv_read_count_probes(const struct kv_view *view, size_t n, size_t missed, size_t present) {
  struct kv_stats *stats = kv_family_stats(view->family);
  kv_stats_add(stats, KV_STAT_PROBES, n);
  if (missed) kv_stats_add(stats, KV_STAT_PROBE_UNKNOWN, missed);
  if (present) kv_stats_add(stats, KV_STAT_PROBE_PRESENT, present);
  if (n > missed + present) kv_stats_add(stats, KV_STAT_PROBE_ABSENT, n - missed - present);
}

/* ---- One key */

static kv_status probe(const struct kv_view *view, const struct kv_batch *batch,
                       struct kv_lookup *lookup, enum kv_lookup_mode mode,
                       enum kv_may_exist *answer, struct kv_err *err) {
  kv_status status = KV_OK;
  lookup->hash = kv_hash_key(lookup->key);
  kv_read_memory(view, batch, lookup, 1);
  if (lookup->answer == KV_TABLE_NONE) status = kv_read_runs(view, lookup, mode, err);
  *answer = status == KV_OK ? answer_of(lookup, mode) : KV_UNKNOWN;
  bool there = !lookup->missed && *answer == KV_PRESENT;
  if (status == KV_OK) kv_read_count_probes(view, 1, lookup->missed, there);
  return status;
}

kv_status kv_may_exist(struct kv_view *view, struct kv_batch *batch, struct kv_slice key,
                       enum kv_may_exist *answer, struct kv_resume *resume, struct kv_err *err) {
  struct kv_lookup lookup = {.key = key};
  kv_status status = probe(view, batch, &lookup, KV_LOOKUP_CACHED, answer, err);
  if (resume) resume->run = lookup.run;
  return status;
}

kv_status kv_exists(struct kv_view *view, struct kv_batch *batch, struct kv_slice key, bool *found,
                    struct kv_err *err) {
  struct kv_lookup lookup = {.key = key};
  enum kv_may_exist answer;
  kv_status status = probe(view, batch, &lookup, KV_LOOKUP_KEY, &answer, err);
  *found = status == KV_OK && answer == KV_PRESENT;
  return status;
}

kv_status kv_exists_resume(struct kv_view *view, struct kv_slice key, struct kv_resume resume,
                           bool *found, struct kv_err *err) {
  struct kv_lookup lookup = {
      .key = key, .hash = kv_hash_key(key), .run = resume.run, .passed = true};
  kv_status status = kv_read_runs(view, &lookup, KV_LOOKUP_KEY, err);
  *found = status == KV_OK && lookup.answer == KV_TABLE_PUT;
  return status;
}

/* ---- Many keys */

/* The lookups of one call. */
struct many {
  struct kv_lookup *lookups;
  struct kv_lookup *memory; /* NULL: small */
  struct kv_lookup small[SMALL_COUNT];
};

static kv_status init_many(struct many *many, size_t n, struct kv_err *err) {
  many->memory = NULL;
  many->lookups = many->small;
  if (n <= SMALL_COUNT) return KV_OK;
  many->lookups = many->memory = kv_alloc(n, sizeof *many->memory);
  return many->memory ? KV_OK : kv_fail_nomem(err);
}

/* Probes all keys, counted; the lookups hold what was found. */
static kv_status probe_many(const struct kv_view *view, const struct kv_batch *batch,
                            const struct kv_slice *keys, size_t n, enum kv_lookup_mode mode,
                            struct many *many, struct kv_err *err) {
  kv_status status = init_many(many, n, err);
  if (status != KV_OK) return status;
  size_t missed = 0, present = 0;
  for (size_t i = 0; i < n; i++)
    many->lookups[i] = (struct kv_lookup){.key = keys[i], .hash = kv_hash_key(keys[i])};
  kv_read_memory(view, batch, many->lookups, n);
  status = kv_read_runs_many(view, many->lookups, n, mode, err);
  for (size_t i = 0; i < n && status == KV_OK; i++) {
    missed += many->lookups[i].missed;
    present += !many->lookups[i].missed && many->lookups[i].answer == KV_TABLE_PUT;
  }
  if (status == KV_OK) kv_read_count_probes(view, n, missed, present);
  return status;
}

kv_status kv_may_exist_many(struct kv_view *view, struct kv_batch *batch,
                            const struct kv_slice *keys, size_t n, enum kv_may_exist *answers,
                            struct kv_resume *resumes, struct kv_err *err) {
  if (n == 1) return kv_may_exist(view, batch, keys[0], answers, resumes, err);
  struct many many;
  kv_status status = probe_many(view, batch, keys, n, KV_LOOKUP_CACHED, &many, err);
  for (size_t i = 0; i < n; i++) {
    bool known = status == KV_OK;
    answers[i] = known ? answer_of(&many.lookups[i], KV_LOOKUP_CACHED) : KV_UNKNOWN;
    if (resumes) resumes[i].run = known ? many.lookups[i].run : 0;
  }
  kv_free(many.memory);
  return status;
}

kv_status kv_exists_many(struct kv_view *view, struct kv_batch *batch, const struct kv_slice *keys,
                         size_t n, bool *found, struct kv_err *err) {
  if (n == 1) return kv_exists(view, batch, keys[0], found, err);
  struct many many;
  kv_status status = probe_many(view, batch, keys, n, KV_LOOKUP_KEY, &many, err);
  for (size_t i = 0; i < n; i++)
    found[i] = status == KV_OK && many.lookups[i].answer == KV_TABLE_PUT;
  kv_free(many.memory);
  return status;
}

kv_status kv_exists_many_resume(struct kv_view *view, const struct kv_slice *keys, size_t n,
                                enum kv_may_exist *answers, const struct kv_resume *resumes,
                                struct kv_err *err) {
  struct many many;
  size_t left = 0;
  kv_status status = init_many(&many, n, err);
  for (size_t i = 0; i < n && status == KV_OK; i++) {
    if (answers[i] != KV_UNKNOWN) continue;
    many.lookups[left++] = (struct kv_lookup){.key = keys[i],
                                              .hash = kv_hash_key(keys[i]),
                                              .position = i,
                                              .run = resumes[i].run,
                                              .passed = true};
  }
  if (status == KV_OK) status = kv_read_runs_many(view, many.lookups, left, KV_LOOKUP_KEY, err);
  for (size_t i = 0; i < left && status == KV_OK; i++)
    answers[many.lookups[i].position] = answer_of(&many.lookups[i], KV_LOOKUP_KEY);
  kv_free(many.memory);
  return status;
}
