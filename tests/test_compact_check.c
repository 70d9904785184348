/* What jobs leave out, and what the check of a view makes of tombstones (compact_check.h, check.c). */
#include "compact_check.h"

#include "catalog.h"
#include "mem.h"

static struct store store;

static void open_store(void) {
  store_init(&store, 6, 1 << 20);
}

static void close_store(void) {
  store_release(&store);
}

/* Keys "k0" to "k8", every second one, in one run. */
static void flush_every_second(const char *value) {
  for (char key[] = "k0"; key[1] <= '8'; key[1] += 2) {
    if (value)
      store_put(&store, key, value);
    else
      store_delete(&store, key);
  }
  store_commit(&store);
  store_flush(&store);
}

static kv_status look(const struct kv_plan *plan, const char *key, struct kv_err *err) {
  struct kv_drop_check *check = NULL;
  kv_status status = kv_drop_check_key(&check, store.view, plan, kv_slice_of(key, 2), err);
  kv_drop_check_free(check);
  return status;
}

START_TEST(older_files_must_not_have_the_key) {
  const struct kv_plan flush = {.count = 0};
  struct kv_err err = {.status = KV_OK};
  flush_every_second("1");
  flush_every_second(NULL);
  ck_assert_int_eq(look(&flush, "k3", &err), KV_OK);
  ck_assert_int_eq(look(&flush, "k9", &err), KV_OK);
  ck_assert_int_eq(look(&flush, "k4", &err), KV_CORRUPT);
  ck_assert_str_eq(err.text, "a merge drops the tombstone of a key that an older file has");
  kv_drops_check(false);
  ck_assert_int_eq(look(&flush, "k4", NULL), KV_OK);
}
END_TEST

/* Newer files may have it, and those that are read. */
START_TEST(newer_files_and_inputs_may_have_it) {
  for (int i = 0; i < 3; i++) flush_every_second("1");
  for (size_t i = 0; i < 3; i++) {
    struct kv_plan plan = {.parts = &store.view->runs[i], .count = 3 - i, .older = 3};
    ck_assert_int_eq(look(&plan, "k4", NULL), KV_OK);
    plan.count--;
    ck_assert_int_eq(look(&plan, "k4", NULL), KV_CORRUPT);
  }
}
END_TEST

START_TEST(no_memory) {
  const struct kv_plan flush = {.count = 0};
  flush_every_second("1");
  kv_status status = KV_NOMEM;
  long nth = 1;
  for (; status == KV_NOMEM; nth++) {
    kv_mem_fail_nth(nth, 0);
    status = look(&flush, "k3", NULL);
    kv_mem_fail_nth(0, 0);
  }
  ck_assert_int_eq(status, KV_OK);
  ck_assert_int_gt(nth, 3);
}
END_TEST

static uint64_t reclaimable(void) {
  uint64_t sum = 0;
  for (size_t i = 0; i < kv_view_file_count(store.view); i++)
    sum += kv_view_file_reclaimable(store.view, i);
  return sum;
}

START_TEST(tombstones_are_counted) {
  flush_every_second("1");
  ck_assert_uint_eq(store_stat(&store, KV_STAT_TOMBSTONES_KEPT), 0);
  flush_every_second(NULL);
  ck_assert_uint_eq(store_stat(&store, KV_STAT_TOMBSTONES_KEPT), 5);
  ck_assert_uint_eq(store_stat(&store, KV_STAT_TOMBSTONES_DROPPED), 0);
  ck_assert_uint_eq(reclaimable(), 0);
  store_compact(&store);
  ck_assert_uint_eq(store_stat(&store, KV_STAT_TOMBSTONES_KEPT), 5);
  ck_assert_uint_eq(store_stat(&store, KV_STAT_TOMBSTONES_DROPPED), 5);
  flush_every_second(NULL); /* nothing is older */
  ck_assert_uint_eq(store_stat(&store, KV_STAT_TOMBSTONES_DROPPED), 10);
}
END_TEST

/* What the tombstones hid has gone another way: they stay for now, and are told. */
START_TEST(tombstones_that_hide_nothing_are_told) {
  struct kv_job *job = NULL;
  struct kv_pick pick = {KV_PICK_TIER, 1, 2};
  flush_every_second("1");
  flush_every_second(NULL);
  flush_every_second(NULL);
  ck_assert_int_eq(kv_job_new_pick(store.view, &pick, &job, NULL), KV_OK);
  ck_assert_int_eq(store_run(job, NULL), KV_OK);
  ck_assert_int_eq(store_publish(&store, job, kv_view_log(store.view)->flushed_seq), KV_OK);
  ck_assert_uint_eq(kv_view_file_count(store.view), 1);
  ck_assert_uint_eq(reclaimable(), 5);
  store_compact(&store);
  ck_assert_uint_eq(kv_view_file_count(store.view), 0);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("compact_check");
  TCase *tests = tcase_create("drops");
  tcase_add_checked_fixture(tests, open_store, close_store);
  tcase_add_test(tests, older_files_must_not_have_the_key);
  tcase_add_test(tests, newer_files_and_inputs_may_have_it);
  tcase_add_test(tests, no_memory);
  tcase_add_test(tests, tombstones_are_counted);
  tcase_add_test(tests, tombstones_that_hide_nothing_are_told);
  suite_add_tcase(suite, tests);
  return harness_run(suite);
}
