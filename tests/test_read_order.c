/* Orders that call different keys equal: found before a batch is committed, by jobs and by the check; reading
** goes on. Held against what folding the keys says. */
#include <stdio.h>
#include <string.h>

#include "catalog.h"
#include "custom.h"
#include "mem.h"

static struct store store;
static struct kv_comparator *folding;

static uint8_t fold(uint8_t byte) {
  return byte >= 'A' && byte <= 'Z' ? byte | 0x20 : byte;
}

static int compare_folded(void *context, const void *a, int a_size, const void *b, int b_size) {
  const uint8_t *x = a, *y = b;
  (void)context;
  for (int i = 0; i < a_size && i < b_size; i++)
    if (fold(x[i]) != fold(y[i])) return fold(x[i]) - fold(y[i]);
  return a_size - b_size;
}

static void open_store(void) {
  const struct kv_custom_config config = {.name = "folding", .compare = compare_folded};
  struct kv_custom *custom = NULL;
  ck_assert_int_eq(kv_custom_new(&config, &custom, NULL), KV_OK);
  ck_assert_int_eq(kv_custom_comparator(custom, KV_CUSTOM_KEYS, false, &folding, NULL), KV_OK);
  kv_custom_unref(custom);
  store_init(&store, 9, 1 << 20);
  store.config.comparator = folding;
  store_reopen(&store);
}

static void close_store(void) {
  struct kv_err err;
  kv_batch_unref(store.batch); /* both hold the comparator */
  kv_view_unref(store.view);
  kv_family_unref(store.family);
  kv_comparator_unref(folding);
  store.config.comparator = NULL;
  ck_assert_int_eq(kv_family_new(&store.config, &store.family, &err), KV_OK);
  ck_assert_int_eq(kv_batch_new(NULL, &store.batch, &err), KV_OK);
  store.view = NULL;
  store_release(&store);
}

static void expect_fault(kv_status status, const struct kv_err *err) {
  ck_assert_int_eq(status, KV_MISUSE);
  ck_assert_str_eq(err->text,
                   "order folding is not one: its comparator calls different keys equal");
}

static kv_status check_batch(struct kv_err *err) {
  return kv_check_order(store.view, store.batch, err);
}

START_TEST(a_batch_is_told_apart_from_itself) {
  struct kv_err err;
  for (int c = 'a'; c <= 'z'; c++) store_put(&store, (char[]){(char)c, 0}, "1");
  ck_assert_int_eq(check_batch(&err), KV_OK);
  store_put(&store, "a", "again");
  ck_assert_int_eq(check_batch(&err), KV_OK);
  store_put(&store, "Q", "1");
  expect_fault(check_batch(&err), &err);
}
END_TEST

START_TEST(a_batch_is_told_apart_from_the_log) {
  struct kv_err err;
  for (int c = 'a'; c <= 'z'; c++) {
    store_put(&store, (char[]){(char)c, 0}, "1");
    store_commit(&store);
    if (c % 5 == 0) store_rotate(&store);
  }
  store_put(&store, "k", "2");
  store_delete(&store, "l");
  ck_assert_int_eq(check_batch(&err), KV_OK);
  store_delete(&store, "M");
  expect_fault(check_batch(&err), &err);
}
END_TEST

START_TEST(a_batch_is_told_apart_from_the_ends_of_files) {
  struct kv_err err;
  for (int c = 'f'; c <= 'p'; c++) store_put(&store, (char[]){(char)c, 0}, "1");
  store_commit(&store);
  store_flush(&store);
  store_put(&store, "f", "2");
  store_put(&store, "a", "2");
  ck_assert_int_eq(check_batch(&err), KV_OK);
  struct kv_batch_mark mark = kv_batch_mark(store.batch);
  store_put(&store, "F", "2");
  expect_fault(check_batch(&err), &err);
  kv_batch_rollback(store.batch, mark);
  store_put(&store, "P", "2");
  expect_fault(check_batch(&err), &err);
}
END_TEST

START_TEST(jobs_fail_and_reading_goes_on) {
  struct kv_err err;
  struct kv_job *job = NULL;
  store_put(&store, "a", "1");
  store_put(&store, "b", "2");
  store_put(&store, "c", "3");
  store_commit(&store);
  store_flush(&store);
  store_put(&store, "B", "4");
  ck_assert_int_eq(check_batch(&err), KV_OK); /* it is beside a file */
  store_commit(&store);
  store_flush(&store);
  ck_assert_int_eq(kv_job_new(store.view, KV_JOB_COMPACT, &job, &err), KV_OK);
  expect_fault(store_run(job, &err), &err);
  kv_job_free(job);
  ck_assert_uint_eq(store_files(&store), 2);
  store_put(&store, "d", "5");
  store_put(&store, "D", "6");
  store_commit(&store);
  ck_assert_int_eq(kv_job_new(store.view, KV_JOB_FLUSH, &job, &err), KV_OK);
  expect_fault(store_run(job, &err), &err);
  kv_job_free(job);
  ck_assert_uint_eq(store_files(&store), 2);
  static const char *const rows[][2] = {{"a", "1"}, {"b", "2"}, {"B", "4"}, {"d", "5"}, {"D", "6"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    ck_assert_str_eq(store_get(&store, store.view, rows[i][0]), rows[i][1]);
}
END_TEST

static kv_status note_problem(void *ctx, const char *severity, uint64_t file, uint64_t position,
                              const char *text) {
  int *problems = ctx;
  (void)severity, (void)file, (void)position;
  ck_assert_msg(strstr(text, "order folding is not one") != NULL, "%s", text);
  ++*problems;
  return KV_OK;
}

START_TEST(the_check_reports_it) {
  int problems = 0;
  for (int i = 0; i < 2; i++) {
    if (i == 0) store_put(&store, "a", "1");
    if (i == 0) store_put(&store, "z", "1");
    store_put(&store, i ? "Key" : "key", "1");
    store_commit(&store);
    store_flush(&store);
    ck_assert_int_eq(kv_check(store.view, note_problem, &problems, NULL), KV_OK);
    ck_assert_int_eq(problems, i);
  }
}
END_TEST

START_TEST(every_allocation_failing) {
  struct kv_err err;
  store_put(&store, "a", "1");
  store_commit(&store);
  store_put(&store, "b", "1");
  for (uint64_t n = 1;; n++) {
    kv_mem_fail_nth(n, 0);
    kv_status status = check_batch(&err);
    kv_mem_fail_nth(0, 0);
    if (status == KV_OK) break;
    ck_assert_int_eq(status, KV_NOMEM);
  }
}
END_TEST

/* ---- Random keys */

#define KEYS 676 /* of two letters, each in four forms */

struct world {
  struct harness_random random;
  uint8_t log[KEYS];   /* forms that were ever committed, a bit each */
  uint8_t batch[KEYS]; /* forms that are pending */
};

static int form_of(struct world *world, char key[3]) {
  int number = (int)harness_below(&world->random, KEYS);
  int form = harness_below(&world->random, 30) ? 0 : (int)harness_below(&world->random, 4);
  key[0] = (char)((form & 1 ? 'A' : 'a') + number / 26);
  key[1] = (char)((form & 2 ? 'A' : 'a') + number % 26);
  key[2] = 0;
  world->batch[number] |= (uint8_t)(1 << form);
  return number;
}

/* Whether a pending key has another form, pending too or in the log. */
static bool meets(const struct world *world) {
  bool met = false;
  for (int i = 0; i < KEYS; i++) {
    uint8_t all = world->batch[i] | world->log[i];
    if (world->batch[i] && (all & (all - 1))) met = true;
  }
  return met;
}

static void drop_batch(void) {
  struct kv_err err;
  kv_batch_unref(store.batch);
  ck_assert_int_eq(kv_batch_new(kv_family_stats(store.family), &store.batch, &err), KV_OK);
  kv_batch_order_by(store.batch, folding);
}

START_TEST(random_keys_are_judged_as_folding_does) {
  struct world world = {.log = {0}};
  struct kv_err err;
  int refused = 0;
  harness_seed(&world.random, harness_seed_env(5));
  for (int commit = 0; commit < 400; commit++) {
    char key[3];
    memset(world.batch, 0, sizeof world.batch);
    for (size_t i = 1 + harness_below(&world.random, 12); i > 0; i--) {
      (void)form_of(&world, key);
      if (harness_below(&world.random, 4))
        store_put(&store, key, "v");
      else
        store_delete(&store, key);
    }
    kv_status status = check_batch(&err);
    ck_assert_msg(status == (meets(&world) ? KV_MISUSE : KV_OK), "commit %d", commit);
    refused += status != KV_OK;
    if (status != KV_OK) {
      drop_batch();
      continue;
    }
    for (int i = 0; i < KEYS; i++) world.log[i] |= world.batch[i];
    store_commit(&store);
    if (harness_below(&world.random, 20) == 0) store_rotate(&store);
  }
  ck_assert_int_gt(refused, 20);
  ck_assert_int_lt(refused, 380);
  store_flush(&store); /* what is told apart can be merged */
}
END_TEST

int main(void) {
  Suite *suite = suite_create("read: order");
  TCase *tests = tcase_create("order");
  tcase_set_timeout(tests, 30);
  tcase_add_checked_fixture(tests, open_store, close_store);
  tcase_add_test(tests, a_batch_is_told_apart_from_itself);
  tcase_add_test(tests, a_batch_is_told_apart_from_the_log);
  tcase_add_test(tests, a_batch_is_told_apart_from_the_ends_of_files);
  tcase_add_test(tests, jobs_fail_and_reading_goes_on);
  tcase_add_test(tests, the_check_reports_it);
  tcase_add_test(tests, every_allocation_failing);
  tcase_add_test(tests, random_keys_are_judged_as_folding_does);
  suite_add_tcase(suite, tests);
  return harness_run(suite);
}
