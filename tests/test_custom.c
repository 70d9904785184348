/* Orders that an application's function makes: how it is called in each mode, by several threads too,
** what becomes of contexts and copies, and sort keys in keys. */
#include "custom.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "mem.h"

#define OK(call) ck_assert_int_eq(call, KV_OK)

static struct kv_slice slice_of(const char *text) {
  return kv_slice_of(text, strlen(text));
}

static int compare_backwards(void *context, const void *a, int a_size, const void *b, int b_size) {
  const uint8_t *x = a, *y = b;
  (void)context;
  for (int i = 1; i <= a_size && i <= b_size; i++) {
    int order = x[a_size - i] - y[b_size - i];
    if (order) return order;
  }
  return (a_size > b_size) - (a_size < b_size);
}

/* Writes to its copies: whoever is given the engine's own bytes is found out. */
static int compare_and_spoil(void *context, const void *a, int a_size, const void *b, int b_size) {
  int order = compare_backwards(context, a, a_size, b, b_size);
  memset((void *)(uintptr_t)a, '#', (size_t)a_size);
  memset((void *)(uintptr_t)b, '#', (size_t)b_size);
  return order;
}

static struct kv_comparator *comparator_of(const struct kv_custom_config *config,
                                           enum kv_custom_view view, bool descending) {
  struct kv_custom *custom;
  struct kv_comparator *comparator;
  OK(kv_custom_new(config, &custom, NULL));
  OK(kv_custom_comparator(custom, view, descending, &comparator, NULL));
  kv_custom_unref(custom);
  return comparator;
}

static int compare(const struct kv_comparator *comparator, const char *a, const char *b) {
  int order = kv_key_compare(comparator, slice_of(a), slice_of(b));
  return (order > 0) - (order < 0);
}

enum { THREADS = 4, ROUNDS = 5000 };

static int64_t inside, most, opened, closed;

/* A context of a thread that takes no memory. */
static void *open_static(void *context) {
  opened++;
  return context;
}

static void close_static(void *context) {
  ck_assert_ptr_eq(context, &inside);
  closed++;
}

static int compare_own(void *context, const void *a, int a_size, const void *b, int b_size) {
  ck_assert_ptr_eq(context, &inside);
  ck_assert_int_gt(opened, closed);
  return compare_and_spoil(context, a, a_size, b, b_size);
}

/* ---- One thread */

START_TEST(modes_say_the_same) {
  static const char *const keys[] = {"", "a", "ba", "ab", "aab", "a key of more than eight bytes"};
  enum { KEYS = sizeof keys / sizeof *keys };
  for (int threads = KV_CUSTOM_ANY; threads <= KV_CUSTOM_ADAPTIVE; threads++) {
    if (threads == KV_CUSTOM_EACH) continue;
    for (int bytes = -1; bytes <= 64; bytes += bytes < 8 ? 1 : 56) {
      struct kv_comparator *comparator = comparator_of(
          &(struct kv_custom_config){.name = "mode",
                                     .compare = bytes < 0 ? compare_backwards : compare_and_spoil,
                                     .threads = (enum kv_custom_threads)threads,
                                     .copies = bytes >= 0,
                                     .copy_bytes = bytes < 0 ? 0 : bytes},
          KV_CUSTOM_KEYS, false);
      for (int i = 0; i < KEYS; i++)
        for (int k = 0; k < KEYS; k++) {
          struct kv_slice a = slice_of(keys[i]), b = slice_of(keys[k]);
          int wanted = compare_backwards(NULL, a.data, (int)a.size, b.data, (int)b.size);
          ck_assert_int_eq(compare(comparator, keys[i], keys[k]), (wanted > 0) - (wanted < 0));
        }
      kv_comparator_unref(comparator);
    }
  }
}
END_TEST

/* The function knows nothing of searches: same copies, same faults; a context is taken once for all. */
START_TEST(searches_compare_like_single_calls) {
  for (int threads = KV_CUSTOM_ANY; threads <= KV_CUSTOM_ADAPTIVE; threads++)
    for (int copies = 0; copies < 3; copies++)
      for (int down = 0; down < 2; down++) {
        opened = closed = 0;
        struct kv_comparator *comparator = comparator_of(
            &(struct kv_custom_config){.name = "search",
                                       .compare = copies ? compare_and_spoil : compare_backwards,
                                       .context = &inside,
                                       .threads = (enum kv_custom_threads)threads,
                                       .open = open_static,
                                       .close = close_static,
                                       .copies = copies,
                                       .copy_bytes = copies == 2 ? 4 : 0},
            KV_CUSTOM_KEYS, down);
        int up = down ? -1 : 1;
        for (int memory = 0; memory < 2; memory++) {
          struct kv_search search;
          kv_mem_fail_nth(!memory, 1);
          kv_search_begin(&search, comparator);
          ck_assert_int_eq(compare(search.by, "ab", "ba"), up);
          ck_assert_int_eq(compare(search.by, "a long key", "another long key"), -up);
          ck_assert_int_eq(compare(search.by, "ab", "ab"), 0);
          kv_search_end(&search);
          kv_mem_fail_nth(0, 0);
          ck_assert_int_eq(compare(comparator, "ab", "ba"), up);
        }
        if (threads == KV_CUSTOM_EACH)
          ck_assert_int_eq(opened, 2); /* without a seat, and with one */
        kv_comparator_unref(comparator);
        ck_assert_int_eq(closed, opened);
      }
}
END_TEST

START_TEST(searches_by_bytes_are_nothing_special) {
  struct kv_search search;
  kv_search_begin(&search, NULL);
  ck_assert_ptr_null(search.by);
  kv_search_end(&search);
}
END_TEST

static int call_all_equal(void *context, const void *a, int a_size, const void *b, int b_size) {
  (void)context, (void)a, (void)a_size, (void)b, (void)b_size;
  return 0;
}

START_TEST(what_is_called_equal_is_told_apart_by_its_bytes) {
  struct kv_comparator *comparator =
      comparator_of(&(struct kv_custom_config){.name = "equal", .compare = call_all_equal},
                    KV_CUSTOM_KEYS, false);
  ck_assert_int_eq(compare(comparator, "a", "b"), -1);
  ck_assert_int_eq(compare(comparator, "b", "a"), 1);
  ck_assert_int_eq(compare(comparator, "b", "b"), 0);
  kv_comparator_unref(comparator);
}
END_TEST

static void *count_faults(void *comparator) {
  static uint64_t faults;
  faults = kv_custom_faults(comparator);
  return &faults;
}

START_TEST(what_is_called_equal_is_a_fault_of_its_order) {
  struct kv_comparator *comparator =
      comparator_of(&(struct kv_custom_config){.name = "equal", .compare = call_all_equal},
                    KV_CUSTOM_KEYS, false);
  struct kv_err err;
  uint64_t before = kv_custom_faults(comparator);
  compare(comparator, "a", "a");
  OK(kv_custom_check(before, comparator, &err));
  compare(comparator, "a", "b");
  struct kv_search search;
  kv_search_begin(&search, comparator);
  ck_assert_int_eq(compare(search.by, "b", "a"), 1);
  kv_search_end(&search);
  ck_assert_uint_eq(kv_custom_faults(comparator), before + 2);
  ck_assert_int_eq(kv_custom_check(before, comparator, &err), KV_MISUSE);
  ck_assert_str_eq(err.text, "order equal is not one: its comparator calls different keys equal");
  OK(kv_custom_check(kv_custom_faults(comparator), comparator, &err));
  pthread_t thread;
  void *faults = NULL;
  ck_assert_int_eq(pthread_create(&thread, NULL, count_faults, comparator), 0);
  ck_assert_int_eq(pthread_join(thread, &faults), 0);
  ck_assert_uint_eq(*(uint64_t *)faults, before + 2);
  struct kv_comparator *other =
      comparator_of(&(struct kv_custom_config){.name = "sound", .compare = compare_backwards},
                    KV_CUSTOM_KEYS, false);
  ck_assert_uint_eq(kv_custom_faults(other), 0);
  kv_comparator_unref(other);
  kv_comparator_unref(comparator);
}
END_TEST

START_TEST(only_texts_and_blobs_have_content) {
  const struct kv_custom_config config = {.name = "content", .compare = compare_backwards};
  for (int down = 0; down < 2; down++) {
    struct kv_comparator *comparator = comparator_of(&config, KV_CUSTOM_CONTENT, down);
    int up = down ? -1 : 1;
    ck_assert_int_eq(compare(comparator,
                             "\x30"
                             "ab",
                             "\x30"
                             "ba"),
                     up);
    ck_assert_int_eq(compare(comparator,
                             "\x40"
                             "ab",
                             "\x40"
                             "ba"),
                     up);
    ck_assert_int_eq(compare(comparator,
                             "\x30"
                             "ab",
                             "\x40"
                             "ba"),
                     -up);
    ck_assert_int_eq(compare(comparator,
                             "\x20"
                             "ab",
                             "\x20"
                             "ba"),
                     -up);
    ck_assert_int_eq(compare(comparator, "", "\x30"), -up);
    kv_comparator_unref(comparator);
  }
}
END_TEST

static int freed;

static void count_free(void *context) {
  (void)context;
  freed++;
}

START_TEST(the_context_goes_with_the_last_use) {
  struct kv_custom *custom;
  struct kv_comparator *comparator;
  const struct kv_custom_config config = {
      .name = "freed", .compare = compare_backwards, .free = count_free};
  OK(kv_custom_new(&config, &custom, NULL));
  OK(kv_custom_comparator(custom, KV_CUSTOM_KEYS, false, &comparator, NULL));
  ck_assert_int_eq(kv_custom_uses(custom), 2);
  kv_custom_unref(custom);
  ck_assert_int_eq(freed, 0);
  kv_comparator_unref(comparator);
  ck_assert_int_eq(freed, 1);
  ck_assert_int_eq(kv_mem_live_blocks(), 0);
}
END_TEST

START_TEST(a_comparison_needs_no_memory) {
  static uint8_t longest[2][KV_KEY_BYTES_MAX];
  memset(longest[1], 1, sizeof longest[1]);
  for (int threads = KV_CUSTOM_ANY; threads <= KV_CUSTOM_ADAPTIVE; threads++) {
    opened = closed = 0;
    bool own = threads == KV_CUSTOM_EACH;
    struct kv_comparator *comparator =
        comparator_of(&(struct kv_custom_config){.name = "copies",
                                                 .compare = own ? compare_own : compare_and_spoil,
                                                 .context = &inside,
                                                 .threads = (enum kv_custom_threads)threads,
                                                 .open = open_static,
                                                 .close = close_static,
                                                 .copies = true,
                                                 .copy_bytes = 4},
                      KV_CUSTOM_KEYS, false);
    for (int memory = 0; memory < 2; memory++) {
      kv_mem_fail_nth(!memory, 1);
      ck_assert_int_eq(compare(comparator, "a long key", "another long key"), -1);
      ck_assert_int_eq(compare(comparator, "ab", "a long key"), -1);
      ck_assert_int_eq(compare(comparator, "ab", "ba"), 1);
      ck_assert_int_eq(compare(comparator, "", "ba"), -1);
      ck_assert_int_eq(kv_key_compare(comparator, kv_slice_of(longest[0], sizeof longest[0]),
                                      kv_slice_of(longest[1], sizeof longest[1])),
                       -1);
      kv_mem_fail_nth(0, 0);
      for (size_t i = 0; i < sizeof longest[0]; i++)
        ck_assert(longest[0][i] == 0 && longest[1][i] == 1);
      if (own) ck_assert_int_eq(opened - closed, memory);
    }
    ck_assert_uint_eq(kv_custom_faults(comparator), 0);
    kv_comparator_unref(comparator);
    ck_assert_int_eq(opened, closed);
  }
}
END_TEST

/* Such keys stand only in files that somebody has forged. */
START_TEST(keys_longer_than_keys_are_a_fault_without_memory) {
  static uint8_t bytes[KV_KEY_BYTES_MAX + 1];
  struct kv_comparator *comparator = comparator_of(
      &(struct kv_custom_config){.name = "copies", .compare = compare_and_spoil, .copies = true},
      KV_CUSTOM_KEYS, false);
  struct kv_slice longer = kv_slice_of(bytes, sizeof bytes), shorter = slice_of("a");
  kv_mem_fail_nth(1, 1);
  ck_assert_int_lt(kv_key_compare(comparator, longer, shorter), 0);
  ck_assert_uint_eq(kv_custom_faults(comparator), 1);
  ck_assert_int_gt(kv_key_compare(comparator, shorter, longer), 0);
  kv_mem_fail_nth(0, 0);
  ck_assert_uint_eq(kv_custom_faults(comparator), 2);
  ck_assert_int_lt(kv_key_compare(comparator, longer, shorter), 0);
  ck_assert_uint_eq(kv_custom_faults(comparator), 2);
  kv_comparator_unref(comparator);
}
END_TEST

START_TEST(every_failing_allocation_leaves_nothing) {
  const struct kv_custom_config config = {.name = "failing",
                                          .compare = compare_backwards,
                                          .threads = KV_CUSTOM_MUTEX,
                                          .copies = true,
                                          .free = count_free};
  for (uint64_t nth = 1;; nth++) {
    struct kv_custom *custom = NULL;
    kv_mem_fail_nth(nth, 0);
    kv_status status = kv_custom_new(&config, &custom, NULL);
    kv_mem_fail_nth(0, 0);
    if (status == KV_OK) {
      kv_custom_unref(custom);
      break;
    }
    ck_assert_int_eq(status, KV_NOMEM);
    ck_assert_int_eq(kv_mem_live_blocks(), 0);
  }
}
END_TEST

/* ---- Sort keys */

static int encode_doubled(void *context, const void *bytes, int size, void *into, int room) {
  (void)context;
  for (int i = 0; i < size && 2 * size <= room; i++) {
    ((uint8_t *)into)[2 * i] = ((const uint8_t *)bytes)[i];
    ((uint8_t *)into)[2 * i + 1] = 0;
  }
  return 2 * size;
}

START_TEST(sort_keys_of_any_length_stand_in_keys) {
  static uint8_t text[40000];
  struct kv_custom *custom;
  OK(kv_custom_new(&(struct kv_custom_config){.name = "doubled", .encode = encode_doubled}, &custom,
                   NULL));
  for (size_t i = 0; i < sizeof text; i++) text[i] = (uint8_t)(i % 7);
  static const size_t sizes[] = {0, 1, 127, 128, 129, 32767, 32768};
  for (size_t i = 0; i < 4 * sizeof sizes / sizeof *sizes; i++) {
    size_t size = sizes[i / 4];
    struct kv_key_part part = {
        .last = i & 1, .descending = i & 2, .encoder = kv_custom_encoder(custom)};
    struct kv_datum datum = {.type = i & 4 ? KV_BLOB : KV_TEXT, .bytes = kv_slice_of(text, size)},
                    found;
    struct kv_buf key, scratch;
    kv_buf_init(&key);
    kv_buf_init(&scratch);
    kv_key_append(&key, part, &datum);
    OK(key.status);
    struct kv_slice rest = kv_buf_slice(&key);
    OK(kv_key_decode(&rest, part, &scratch, &found, NULL));
    ck_assert_uint_eq(found.bytes.size, 2 * size);
    for (size_t k = 0; k < size; k++)
      ck_assert(found.bytes.data[2 * k] == text[k] && !found.bytes.data[2 * k + 1]);
    kv_buf_release(&key);
    kv_buf_release(&scratch);
  }
  struct kv_buf key;
  kv_buf_init(&key);
  struct kv_datum datum = {.type = KV_TEXT, .bytes = kv_slice_of(text, 32769)};
  kv_key_append(&key, (struct kv_key_part){.last = true, .encoder = kv_custom_encoder(custom)},
                &datum);
  ck_assert_uint_gt(key.size, KV_KEY_BYTES_MAX);
  kv_buf_release(&key);
  kv_custom_unref(custom);
}
END_TEST

/* ---- Several threads */

static void *open_own(void *context) {
  ck_assert_ptr_eq(context, &inside);
  __atomic_add_fetch(&opened, 1, __ATOMIC_RELAXED);
  return calloc(1, sizeof(int64_t));
}

static void close_own(void *context) {
  __atomic_add_fetch(&closed, 1, __ATOMIC_RELAXED);
  free(context);
}

/* Counts in its context without asking anybody: what others do at the same time would be seen. */
static int compare_counting(void *context, const void *a, int a_size, const void *b, int b_size) {
  int64_t *calls = context;
  ++*calls;
  return compare_and_spoil(NULL, a, a_size, b, b_size);
}

static int compare_together(void *context, const void *a, int a_size, const void *b, int b_size) {
  int64_t now = __atomic_add_fetch(&inside, 1, __ATOMIC_RELAXED);
  int64_t before = __atomic_load_n(&most, __ATOMIC_RELAXED);
  (void)context;
  if (now > before) __atomic_store_n(&most, now, __ATOMIC_RELAXED);
  int order = compare_and_spoil(NULL, a, a_size, b, b_size);
  __atomic_sub_fetch(&inside, 1, __ATOMIC_RELAXED);
  return order;
}

static void *compare_often(void *context) {
  const struct kv_comparator *comparator = context;
  for (int i = 0; i < ROUNDS; i++) {
    if (compare(comparator, "ab", "ba") != 1) return NULL;
    if (compare(comparator, "the longer of two keys", "keys") != 1) return NULL;
  }
  return context;
}

/* Others count references meanwhile. */
static void *search_often(void *context) {
  const struct kv_comparator *comparator = context;
  for (int i = 0; i < ROUNDS; i++) {
    struct kv_search search;
    kv_search_begin(&search, kv_comparator_ref(comparator));
    int order = compare(search.by, "ab", "ba");
    kv_search_end(&search);
    kv_comparator_unref(comparator);
    if (order != 1) return NULL;
  }
  return context;
}

static void run_threads(struct kv_comparator *comparator, void *(*work)(void *)) {
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++)
    ck_assert_int_eq(pthread_create(&threads[i], NULL, work, comparator), 0);
  for (int i = 0; i < THREADS; i++) {
    void *result;
    pthread_join(threads[i], &result);
    ck_assert_ptr_eq(result, comparator);
  }
}

START_TEST(threads_compare_in_every_mode) {
  const struct kv_custom_config configs[] = {
      {.compare = compare_together, .threads = KV_CUSTOM_ANY},
      {.compare = compare_counting,
       .threads = KV_CUSTOM_EACH,
       .open = open_own,
       .close = close_own},
      {.compare = compare_counting, .threads = KV_CUSTOM_MUTEX},
      {.compare = compare_counting, .threads = KV_CUSTOM_ADAPTIVE}};
  int64_t calls = 0;
  for (int i = 0; i < 8; i++) {
    struct kv_custom_config config = configs[i / 2];
    bool shared = config.threads >= KV_CUSTOM_MUTEX;
    config.name = "threads";
    config.context = shared ? &calls : &inside;
    config.copies = true;
    config.copy_bytes = i % 2 ? 8 : 0;
    struct kv_comparator *comparator = comparator_of(&config, KV_CUSTOM_KEYS, false);
    calls = 0;
    run_threads(comparator, compare_often);
    run_threads(comparator, search_often);
    if (shared) ck_assert_int_eq(calls, 3 * THREADS * ROUNDS);
    kv_comparator_unref(comparator);
  }
  ck_assert_int_eq(opened, 4 * THREADS); /* each thread, for two sizes of buffers */
  ck_assert_int_eq(closed, opened);
}
END_TEST

/* The thread outlives the order, and uses another one later. */
START_TEST(contexts_end_with_their_order) {
  struct kv_custom_config config = {.name = "short",
                                    .compare = compare_counting,
                                    .threads = KV_CUSTOM_EACH,
                                    .context = &inside,
                                    .copies = true,
                                    .copy_bytes = 8,
                                    .open = open_own,
                                    .close = close_own};
  for (int i = 1; i <= 3; i++) {
    struct kv_comparator *comparator = comparator_of(&config, KV_CUSTOM_KEYS, false);
    ck_assert_int_eq(compare(comparator, "ab", "ba"), 1);
    ck_assert_int_eq(compare(comparator, "ab", "ba"), 1);
    ck_assert_int_eq(opened, i);
    kv_comparator_unref(comparator);
    ck_assert_int_eq(closed, i);
  }
}
END_TEST

int main(void) {
  Suite *suite = suite_create("custom");
  TCase *tests = tcase_create("custom");
  tcase_add_test(tests, modes_say_the_same);
  tcase_add_test(tests, searches_compare_like_single_calls);
  tcase_add_test(tests, searches_by_bytes_are_nothing_special);
  tcase_add_test(tests, what_is_called_equal_is_told_apart_by_its_bytes);
  tcase_add_test(tests, what_is_called_equal_is_a_fault_of_its_order);
  tcase_add_test(tests, only_texts_and_blobs_have_content);
  tcase_add_test(tests, the_context_goes_with_the_last_use);
  tcase_add_test(tests, a_comparison_needs_no_memory);
  tcase_add_test(tests, keys_longer_than_keys_are_a_fault_without_memory);
  tcase_add_test(tests, every_failing_allocation_leaves_nothing);
  tcase_add_test(tests, sort_keys_of_any_length_stand_in_keys);
  tcase_add_test(tests, threads_compare_in_every_mode);
  tcase_add_test(tests, contexts_end_with_their_order);
  suite_add_tcase(suite, tests);
  return harness_run(suite);
}
