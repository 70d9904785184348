/* Merges: jobs that make one run of all runs and leave the log alone, so that flushes may be recorded while
** they run; and what a thread should do meanwhile (kv_compact_ahead). */
#include <stdio.h>

#include "catalog.h"
#include "compact_pick.h"

static struct store store;

static void open_store(void) {
  store_init(&store, 6, 1 << 20);
}

static void close_store(void) {
  store_release(&store);
}

static void put_many(int first, int end, const char *value) {
  char key[32];
  for (int i = first; i < end; i++) {
    snprintf(key, sizeof key, "k%05d", i);
    store_put(&store, key, value);
  }
}

static void finish_merge(struct kv_job **job) {
  struct kv_err err = {.status = KV_OK};
  ck_assert_int_eq(kv_job_new(store.view, KV_JOB_MERGE, job, &err), KV_OK);
  ck_assert_msg(store_run(*job, &err) == KV_OK, "%s", err.text);
}

static void expect_nothing_to_do(void) {
  struct kv_job *job = NULL;
  finish_merge(&job);
  const struct kv_edit *edit = kv_job_edit(job);
  ck_assert_uint_eq(edit->added_count, 0);
  ck_assert_uint_eq(edit->removed_count, 0);
  ck_assert(!edit->flushes);
  kv_job_free(job);
}

static const struct kv_file_info *first_file(void) {
  return kv_view_file(store.view, 0);
}

static void commit_and_flush(const char *value) {
  put_many(0, 50, value);
  store_commit(&store);
  store_flush(&store);
}

START_TEST(merge_makes_one_clean_run_below_the_log) {
  commit_and_flush("old");
  store_delete(&store, "k00003");
  store_commit(&store);
  store_flush(&store);
  store_put(&store, "k00004", "in the log");
  store_commit(&store);
  struct kv_log_state log = *kv_view_log(store.view);
  store_job(&store, KV_JOB_MERGE);
  ck_assert_uint_eq(kv_view_run_count(store.view), 1);
  ck_assert_uint_eq(first_file()->seq, 2);
  ck_assert_uint_eq(first_file()->level, 1);
  ck_assert_uint_eq(first_file()->tombstones, 0);
  ck_assert_mem_eq(&log, kv_view_log(store.view), sizeof log);
  ck_assert_str_eq(store_get(&store, store.view, "k00003"), "-");
  ck_assert_str_eq(store_get(&store, store.view, "k00004"), "in the log");
  store_reopen(&store);
  ck_assert_str_eq(store_get(&store, store.view, "k00003"), "-");
  ck_assert_str_eq(store_get(&store, store.view, "k00004"), "in the log");
  expect_nothing_to_do();
}
END_TEST

START_TEST(flush_is_recorded_while_a_merge_runs) {
  commit_and_flush("1");
  commit_and_flush("2");
  struct kv_job *merge = NULL;
  finish_merge(&merge);
  put_many(10, 20, "3");
  store_delete(&store, "k00030");
  store_commit(&store);
  store_flush(&store);
  ck_assert(kv_job_fits(merge, store.view));
  ck_assert_int_eq(store_publish(&store, merge, 0), KV_OK);
  ck_assert_uint_eq(kv_view_run_count(store.view), 2);
  ck_assert_uint_eq(kv_view_log(store.view)->flushed_seq, 3);
  for (int round = 0; round < 2; round++) {
    ck_assert_str_eq(store_get(&store, store.view, "k00009"), "2");
    ck_assert_str_eq(store_get(&store, store.view, "k00010"), "3");
    ck_assert_str_eq(store_get(&store, store.view, "k00030"), "-");
    store_reopen(&store);
  }
}
END_TEST

START_TEST(of_two_merges_the_second_is_late) {
  commit_and_flush("1");
  commit_and_flush("2");
  struct kv_job *first = NULL;
  struct kv_job *second = NULL;
  finish_merge(&second);
  finish_merge(&first);
  ck_assert_int_eq(store_publish(&store, first, 0), KV_OK);
  ck_assert(!kv_job_fits(second, store.view));
  ck_assert_int_eq(store_publish(&store, second, 0), KV_BUSY);
  ck_assert_uint_eq(store_files(&store), 1);
  ck_assert_str_eq(store_get(&store, store.view, "k00007"), "2");
}
END_TEST

START_TEST(merge_of_nothing_or_one_clean_run_does_nothing) {
  expect_nothing_to_do();
  put_many(0, 50, "1");
  store_commit(&store);
  expect_nothing_to_do(); /* the log is not its business */
  store_flush(&store);
  expect_nothing_to_do();
}
END_TEST

START_TEST(work_ahead_by_sizes) {
  const struct {
    struct kv_shape shape;
    bool flush, merge;
  } cases[] = {
      {{0, 100, 0, 0, 0}, false, false},
      {{100, 100, 3, 10, 1000}, false, false}, /* too few runs */
      {{101, 100, 0, 0, 0}, true, false},
      {{0, 100, 4, 1000, 499}, false, false}, /* not yet half */
      {{0, 100, 4, 1000, 500}, false, true},
      {{101, 100, 4, 1000, 500}, true, true},
      {{0, 100, 7, 100000, 10}, false, false},
      {{0, 100, 8, 100000, 10}, false, true},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct kv_work_ahead work = kv_compact_ahead(&cases[i].shape);
    ck_assert_int_eq(work.flush, cases[i].flush);
    ck_assert_int_eq(work.merge, cases[i].merge);
  }
}
END_TEST

int main(void) {
  Suite *suite = suite_create("compact: merges");
  TCase *tests = tcase_create("merges");
  tcase_add_checked_fixture(tests, open_store, close_store);
  tcase_add_test(tests, merge_makes_one_clean_run_below_the_log);
  tcase_add_test(tests, flush_is_recorded_while_a_merge_runs);
  tcase_add_test(tests, of_two_merges_the_second_is_late);
  tcase_add_test(tests, merge_of_nothing_or_one_clean_run_does_nothing);
  tcase_add_test(tests, work_ahead_by_sizes);
  suite_add_tcase(suite, tests);
  return harness_run(suite);
}
