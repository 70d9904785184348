/* The merging iterator over array sources, held against the sorted union of the newest entries. */
#include "harness.h"
#include "harness_comparator.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mem.h"
#include "merge.h"

#define KEY_COUNT 64
#define SOURCES_MAX 12

/* An iterator over an array, which may be told to fail. */
struct entry {
  char key[8];
  char value[24];
  bool deleted;
};
struct array_iter {
  struct kv_iter base;
  struct entry *entries;
  size_t count;
  size_t at;
  int fail_in; /* moves until one fails; 0 = never */
};

static int live_iters;

static void show(struct array_iter *iter, bool in_range) {
  struct kv_iter *base = &iter->base;
  base->valid = in_range;
  base->status = KV_OK;
  if (iter->fail_in > 0 && --iter->fail_in == 0) {
    base->valid = false;
    base->status = kv_fail(&base->err, KV_IO, "source failed on purpose");
    return;
  }
  if (!in_range) return;
  struct entry *entry = &iter->entries[iter->at];
  base->key = kv_slice_of(entry->key, strlen(entry->key));
  base->value = kv_slice_of(entry->value, entry->deleted ? 0 : strlen(entry->value));
  base->deleted = entry->deleted;
}

static void array_seek(struct kv_iter *base, struct kv_slice key) {
  struct array_iter *iter = (struct array_iter *)base;
  iter->at = 0;
  while (iter->at < iter->count) {
    const char *text = iter->entries[iter->at].key;
    if (kv_slice_compare(kv_slice_of(text, strlen(text)), key) >= 0) break;
    iter->at++;
  }
  show(iter, iter->at < iter->count);
}

static void array_first(struct kv_iter *base) {
  struct array_iter *iter = (struct array_iter *)base;
  iter->at = 0;
  show(iter, iter->count > 0);
}

static void array_last(struct kv_iter *base) {
  struct array_iter *iter = (struct array_iter *)base;
  iter->at = iter->count - 1;
  show(iter, iter->count > 0);
}

static void array_next(struct kv_iter *base) {
  struct array_iter *iter = (struct array_iter *)base;
  if (!base->valid) return;
  iter->at++;
  show(iter, iter->at < iter->count);
}

static void array_prev(struct kv_iter *base) {
  struct array_iter *iter = (struct array_iter *)base;
  if (!base->valid) return;
  show(iter, iter->at-- > 0);
}

static void array_free(struct kv_iter *base) {
  struct array_iter *iter = (struct array_iter *)base;
  free(iter->entries);
  free(iter);
  live_iters--;
}

static const struct kv_iter_ops array_ops = {array_seek, array_first, array_last,
                                             array_next, array_prev,  array_free};

/* "b=1 c d=2": c is a tombstone. Keys ascend. */
static struct kv_iter *source(const char *text) {
  struct array_iter *iter = calloc(1, sizeof *iter);
  iter->base.ops = &array_ops;
  iter->entries = calloc(KEY_COUNT, sizeof *iter->entries);
  live_iters++;
  char copy[512];
  snprintf(copy, sizeof copy, "%s", text);
  for (char *word = strtok(copy, " "); word; word = strtok(NULL, " ")) {
    struct entry *entry = &iter->entries[iter->count++];
    char *equals = strchr(word, '=');
    entry->deleted = !equals;
    if (equals) {
      *equals = 0;
      snprintf(entry->value, sizeof entry->value, "%s", equals + 1);
    }
    snprintf(entry->key, sizeof entry->key, "%s", word);
  }
  return &iter->base;
}

static struct kv_iter *merge(struct kv_iter **sources, size_t n) {
  struct kv_iter *iter = NULL;
  struct kv_err err;
  ck_assert_int_eq(kv_merge_new(sources, n, harness_comparator(), &iter, &err), KV_OK);
  return iter;
}

static struct kv_iter *merge3(const char *a, const char *b, const char *c) {
  struct kv_iter *sources[3] = {source(a), source(b), source(c)};
  return merge(sources, 3);
}

static struct kv_slice text(const char *bytes) {
  return kv_slice_of(bytes, strlen(bytes));
}

/* The current entry as "key=value", "key" for a tombstone, "" at an end. */
static const char *current(const struct kv_iter *iter) {
  static char out[64];
  if (!iter->valid) return iter->status == KV_OK ? "" : "failed";
  snprintf(out, sizeof out, "%.*s%s%.*s", (int)iter->key.size, (const char *)iter->key.data,
           iter->deleted ? "" : "=", (int)iter->value.size,
           iter->value.size ? (const char *)iter->value.data : "");
  return out;
}

static void expect_walk(struct kv_iter *iter, bool backward, const char *want) {
  char got[512] = "";
  size_t size = 0;
  if (backward)
    kv_iter_seek_last(iter);
  else
    kv_iter_seek_first(iter);
  while (iter->valid) {
    size += (size_t)snprintf(got + size, sizeof got - size, "%s ", current(iter));
    if (backward)
      kv_iter_prev(iter);
    else
      kv_iter_next(iter);
  }
  ck_assert_int_eq(iter->status, KV_OK);
  ck_assert_str_eq(got, want);
}

START_TEST(no_source_is_empty_both_ways) {
  struct kv_iter *iter = merge(NULL, 0);
  expect_walk(iter, false, "");
  expect_walk(iter, true, "");
  kv_iter_seek(iter, text("a"));
  ck_assert(!iter->valid);
  kv_iter_next(iter);
  kv_iter_prev(iter);
  ck_assert(!iter->valid);
  kv_iter_free(iter);
}
END_TEST

START_TEST(one_source_is_handed_on) {
  struct kv_iter *only = source("a=1 b c=3");
  struct kv_iter *iter = merge(&only, 1);
  ck_assert_ptr_eq(iter, only);
  expect_walk(iter, true, "c=3 b a=1 ");
  kv_iter_free(iter);
}
END_TEST

START_TEST(empty_sources_beside_a_full_one) {
  struct kv_iter *iter = merge3("", "a=1 b=2", "");
  expect_walk(iter, false, "a=1 b=2 ");
  expect_walk(iter, true, "b=2 a=1 ");
  kv_iter_free(iter);
}
END_TEST

START_TEST(newest_of_equal_keys_is_shown_once) {
  struct kv_iter *iter = merge3("b=new d", "a=mid b=mid c=mid", "a=old b=old c=old d=old e=old");
  expect_walk(iter, false, "a=mid b=new c=mid d e=old ");
  expect_walk(iter, true, "e=old d c=mid b=new a=mid ");
  kv_iter_free(iter);
}
END_TEST

START_TEST(seek_to_equal_between_before_and_past) {
  struct kv_iter *iter = merge3("b=1 d=1", "b=2 c=2", "f=3");
  const char *cases[][2] = {{"a", "b=1"}, {"b", "b=1"}, {"bb", "c=2"}, {"d", "d=1"},
                            {"e", "f=3"}, {"f", "f=3"}, {"g", ""},     {"", "b=1"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    kv_iter_seek(iter, text(cases[i][0]));
    ck_assert_str_eq(current(iter), cases[i][1]);
  }
  kv_iter_free(iter);
}
END_TEST

START_TEST(turns_at_every_place) {
  struct kv_iter *iter = merge3("b=1 e=1", "a=2 b=2 d=2 e=2", "b=3 c=3");
  const char *all[] = {"a=2", "b=1", "c=3", "d=2", "e=1"};
  for (int i = 0; i < 5; i++) {
    kv_iter_seek_first(iter);
    for (int n = 0; n < i; n++) kv_iter_next(iter);
    ck_assert_str_eq(current(iter), all[i]);
    kv_iter_prev(iter);
    ck_assert_str_eq(current(iter), i > 0 ? all[i - 1] : "");
    if (i == 0) continue;
    kv_iter_next(iter);
    ck_assert_str_eq(current(iter), all[i]);
    kv_iter_next(iter);
    ck_assert_str_eq(current(iter), i < 4 ? all[i + 1] : "");
  }
  kv_iter_seek_last(iter);
  kv_iter_next(iter);
  ck_assert_str_eq(current(iter), "");
  kv_iter_free(iter);
}
END_TEST

START_TEST(an_end_stays_until_the_next_seek) {
  struct kv_iter *iter = merge3("a=1", "b=2", "c=3");
  kv_iter_seek(iter, text("x"));
  kv_iter_prev(iter);
  kv_iter_next(iter);
  ck_assert_str_eq(current(iter), "");
  kv_iter_seek_first(iter);
  ck_assert_str_eq(current(iter), "a=1");
  kv_iter_free(iter);
}
END_TEST

/* Each move that a failing source takes part in fails the merge, until a seek finds it well again. */
START_TEST(failure_of_a_source_ends_the_merge_until_the_next_seek) {
  for (size_t bad = 0; bad < 3; bad++) {
    for (int fail_in = 1; fail_in < 30; fail_in++) {
      struct kv_iter *sources[3] = {source("a=1 d=1 g=1"), source("b=2 e=2 h=2"),
                                    source("c=3 d=3 f=3")};
      ((struct array_iter *)sources[bad])->fail_in = fail_in;
      struct kv_iter *iter = merge(sources, 3);
      kv_iter_seek_first(iter);
      for (int n = 0; n < 5 && iter->valid; n++) kv_iter_next(iter);
      for (int n = 0; n < 3 && iter->valid; n++) kv_iter_prev(iter);
      for (int n = 0; n < 3 && iter->valid; n++) kv_iter_next(iter);
      if (((struct array_iter *)sources[bad])->fail_in == 0) {
        ck_assert(!iter->valid);
        ck_assert_int_eq(iter->status, KV_IO);
        ck_assert_str_eq(iter->err.text, "source failed on purpose");
        kv_iter_next(iter);
        kv_iter_prev(iter);
        ck_assert_int_eq(iter->status, KV_IO);
      }
      ((struct array_iter *)sources[bad])->fail_in = 0;
      expect_walk(iter, false, "a=1 b=2 c=3 d=1 e=2 f=3 g=1 h=2 ");
      kv_iter_free(iter);
    }
  }
  ck_assert_int_eq(live_iters, 0);
}
END_TEST

START_TEST(new_without_memory_frees_the_sources) {
  int64_t blocks = kv_mem_live_blocks();
  for (uint64_t n = 1;; n++) {
    struct kv_iter *sources[2] = {source("a=1"), source("b=2")};
    struct kv_iter *iter = NULL;
    struct kv_err err;
    kv_mem_fail_nth(n, 0);
    kv_status status = kv_merge_new(sources, 2, harness_comparator(), &iter, &err);
    kv_mem_fail_nth(0, 0);
    if (status == KV_OK) {
      ck_assert_uint_gt(n, 1);
      kv_iter_free(iter);
      break;
    }
    ck_assert_int_eq(status, KV_NOMEM);
    ck_assert_ptr_null(iter);
    ck_assert_int_eq(live_iters, 0);
  }
  ck_assert_int_eq(live_iters, 0);
  ck_assert_int_eq(kv_mem_live_blocks(), blocks);
}
END_TEST

START_TEST(turn_without_memory_fails_and_recovers) {
  struct kv_iter *iter = merge3("a=1 c=1", "b=2", "d=3");
  kv_iter_seek(iter, text("c"));
  kv_mem_fail_nth(1, 0);
  kv_iter_prev(iter);
  kv_mem_fail_nth(0, 0);
  ck_assert(!iter->valid);
  ck_assert_int_eq(iter->status, KV_NOMEM);
  kv_iter_seek(iter, text("c"));
  kv_iter_prev(iter);
  ck_assert_str_eq(current(iter), "b=2");
  kv_iter_free(iter);
}
END_TEST

/* ---- Random moves against an array */

struct model {
  struct entry entries[KEY_COUNT]; /* newest entry of each key */
  bool present[KEY_COUNT];
};

static void key_text(char *out, size_t key) {
  snprintf(out, 8, "k%02zu", key);
}

static struct kv_iter *random_source(struct harness_random *random, struct model *model, size_t n) {
  struct array_iter *iter = (struct array_iter *)source("");
  size_t density = 1 + harness_below(random, 8);
  for (size_t key = 0; key < KEY_COUNT; key++) {
    if (harness_below(random, 8) >= density) continue;
    struct entry *entry = &iter->entries[iter->count++];
    key_text(entry->key, key);
    entry->deleted = harness_below(random, 4) == 0;
    if (!entry->deleted) snprintf(entry->value, sizeof entry->value, "s%zu", n);
    if (!model->present[key]) model->entries[key] = *entry;
    model->present[key] = true;
  }
  return &iter->base;
}

/* The model's position: -1 or KEY_COUNT at an end. */
static int model_move(const struct model *model, int at, int by) {
  at += by;
  while (at >= 0 && at < KEY_COUNT && !model->present[at]) at += by;
  return at;
}

static bool shows(const struct kv_iter *iter, const struct entry *entry) {
  return kv_slice_equal(iter->key, text(entry->key)) && iter->deleted == entry->deleted &&
         kv_slice_equal(iter->value, text(entry->value));
}

static void expect_at(const struct kv_iter *iter, const struct model *model, int at,
                      uint64_t seed) {
  bool valid = at >= 0 && at < KEY_COUNT;
  if (iter->valid == valid && (!valid || shows(iter, &model->entries[at]))) return;
  ck_abort_msg("seed %llu: \"%s\" at %d", (unsigned long long)seed, current(iter), at);
}

static int random_seek(struct kv_iter *iter, const struct model *model,
                       struct harness_random *random) {
  char key[8];
  switch (harness_below(random, 4)) {
    case 0:
      kv_iter_seek_first(iter);
      return model_move(model, -1, 1);
    case 1:
      kv_iter_seek_last(iter);
      return model_move(model, KEY_COUNT, -1);
    default: {
      size_t at = harness_below(random, KEY_COUNT + 1);
      key_text(key, at);
      kv_iter_seek(iter, text(key));
      return model_move(model, (int)at - 1, 1);
    }
  }
}

static void random_moves(uint64_t seed) {
  struct harness_random random;
  struct model model;
  struct kv_iter *sources[SOURCES_MAX];
  memset(&model, 0, sizeof model);
  harness_seed(&random, seed);
  size_t n = harness_below(&random, SOURCES_MAX + 1);
  for (size_t i = 0; i < n; i++) sources[i] = random_source(&random, &model, i);
  struct kv_iter *iter = merge(sources, n);
  int at = random_seek(iter, &model, &random);
  for (int step = 0; step < 400; step++) {
    expect_at(iter, &model, at, seed);
    if (!iter->valid || harness_below(&random, 20) == 0) {
      at = random_seek(iter, &model, &random);
    } else if (harness_below(&random, 2)) {
      kv_iter_next(iter);
      at = model_move(&model, at, 1);
    } else {
      kv_iter_prev(iter);
      at = model_move(&model, at, -1);
    }
  }
  kv_iter_free(iter);
}

START_TEST(random_moves_equal_a_sorted_array) {
  uint64_t first = harness_seed_env(1);
  for (uint64_t seed = first; seed < first + 300; seed++) random_moves(seed);
  ck_assert_int_eq(live_iters, 0);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("merge");
  TCase *tests = tcase_create("merge");
  tcase_add_test(tests, no_source_is_empty_both_ways);
  tcase_add_test(tests, one_source_is_handed_on);
  tcase_add_test(tests, empty_sources_beside_a_full_one);
  tcase_add_test(tests, newest_of_equal_keys_is_shown_once);
  tcase_add_test(tests, seek_to_equal_between_before_and_past);
  tcase_add_test(tests, turns_at_every_place);
  tcase_add_test(tests, an_end_stays_until_the_next_seek);
  tcase_add_test(tests, failure_of_a_source_ends_the_merge_until_the_next_seek);
  tcase_add_test(tests, new_without_memory_frees_the_sources);
  tcase_add_test(tests, turn_without_memory_fails_and_recovers);
  tcase_add_test(tests, random_moves_equal_a_sorted_array);
  suite_add_tcase(suite, tests);
  return harness_run(suite);
}
