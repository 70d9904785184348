/* See harness_comparator.h. */
#include "harness_comparator.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int (*compare_function)(const struct kv_comparator *self, struct kv_slice a,
                                struct kv_slice b);

static int compare_forwards(const struct kv_comparator *self, struct kv_slice a,
                            struct kv_slice b) {
  (void)self;
  return kv_slice_compare(a, b);
}

static int compare_reverse(const struct kv_comparator *self, struct kv_slice a, struct kv_slice b) {
  (void)self;
  return kv_slice_compare(b, a);
}

static int compare_backwards(const struct kv_comparator *self, struct kv_slice a,
                             struct kv_slice b) {
  (void)self;
  for (size_t i = 1; i <= a.size && i <= b.size; i++) {
    int order = a.data[a.size - i] - b.data[b.size - i];
    if (order) return order;
  }
  return (a.size > b.size) - (a.size < b.size);
}

const struct kv_comparator *harness_comparator(void) {
  static struct kv_comparator all[] = {
      {.name = "test-forwards", .compare = compare_forwards, .refs = 1},
      {.name = "reverse", .compare = compare_reverse, .refs = 1},
      {.name = "test-backwards", .compare = compare_backwards, .refs = 1}};
  const char *name = getenv("COLFAM_TEST_COMPARATOR");
  for (size_t i = 0; name && i < sizeof all / sizeof *all; i++)
    if (!strcmp(name, all[i].name)) return &all[i];
  return NULL;
}

int harness_compare(struct kv_slice a, struct kv_slice b) {
  return kv_key_compare(harness_comparator(), a, b);
}

bool harness_ascends(void) {
  const struct kv_comparator *comparator = harness_comparator();
  return !comparator || comparator->compare == compare_forwards;
}

static struct kv_slice key_of(const char *word) {
  return kv_slice_of(word, strcspn(word, "=-"));
}

static int compare_words(const void *a, const void *b) {
  return harness_compare(key_of(*(char *const *)a), key_of(*(char *const *)b));
}

const char *harness_in_order(const char *words) {
  static char texts[4][512];
  static int next;
  char copy[512], *all[128] = {NULL}, *rest = copy, *text = texts[next++ % 4], *end = text;
  size_t count = 0;
  snprintf(copy, sizeof copy, "%s", words);
  for (char *word; count < 128 && (word = strtok_r(rest, " ", &rest));) all[count++] = word;
  qsort(all, count, sizeof *all, compare_words);
  *text = 0;
  for (size_t i = 0; i < count; i++) end += sprintf(end, i ? " %s" : "%s", all[i]);
  return text;
}
