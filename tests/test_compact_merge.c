/* Merges: jobs over runs, or parts of runs, that leave the log alone, so that flushes may be recorded while
** they run; and the levels that they make. */
#include <stdio.h>

#include "catalog.h"
#include "compact.h"
#include "table_read.h"
#include "view.h"

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

static void finish_pick(struct kv_pick pick, struct kv_job **job) {
  struct kv_err err = {.status = KV_OK};
  ck_assert_int_eq(kv_job_new_pick(store.view, &pick, job, &err), KV_OK);
  ck_assert_msg(store_run(*job, &err) == KV_OK, "%s", err.text);
}

static void publish(struct kv_job *job) {
  ck_assert(kv_job_fits(job, store.view));
  ck_assert_int_eq(store_publish(&store, job, kv_view_log(store.view)->flushed_seq), KV_OK);
}

static void merge(struct kv_pick pick) {
  struct kv_job *job = NULL;
  finish_pick(pick, &job);
  publish(job);
}

/* All of level 0 into level 1. */
static struct kv_pick all_down(void) {
  size_t young = 0;
  while (young < store.view->run_count && store.view->runs[young].level == 0) young++;
  return (struct kv_pick){KV_PICK_DOWN, 0, young};
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
  merge(all_down());
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
  struct kv_job *job = NULL;
  finish_pick(all_down(), &job);
  put_many(10, 20, "3");
  store_delete(&store, "k00030");
  store_commit(&store);
  store_flush(&store);
  publish(job);
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
  finish_pick(all_down(), &second);
  finish_pick(all_down(), &first);
  publish(first);
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

/* ---- Levels */

/* `n` rows of one flush, small enough files that a level has several. */
static void flush_rows(const char *prefix, int first, int end, const char *value) {
  char key[32];
  for (int i = first; i < end; i++) {
    snprintf(key, sizeof key, "%s%05d", prefix, i);
    if (value)
      store_put(&store, key, value);
    else
      store_delete(&store, key);
  }
  store_commit(&store);
  store_flush(&store);
}

static void expect_sound(void) {
  struct kv_view *view = store_view(&store); /* what it says is sound too */
  kv_view_unref(view);
}

static void use_small_files(void) {
  struct kv_options options = kv_family_options(store.family);
  options.memtable_bytes = 512;
  options.compression_level = 0;
  kv_family_set_options(store.family, &options);
}

/* Level 1 with the rows, in many files. */
static void fill_level_1(int rows, const char *value) {
  put_many(0, rows, value);
  store_commit(&store);
  store.file_bytes = 1024;
  store_compact(&store);
  store.file_bytes = 0;
  use_small_files();
  ck_assert_uint_eq(store.view->run_count, 1);
  ck_assert_uint_eq(store.view->runs[0].level, 1);
  ck_assert_uint_gt(store.view->runs[0].file_count, 4);
}

START_TEST(merging_down_rewrites_what_overlaps_only) {
  fill_level_1(3000, "old");
  size_t files = store.view->file_count;
  flush_rows("k", 10, 12, "new");
  uint64_t before = store_stat(&store, KV_STAT_COMPACT_BYTES_READ);
  struct kv_pick pick = all_down();
  struct kv_job *job = NULL;
  finish_pick(pick, &job);
  ck_assert_uint_eq(kv_job_edit(job)->removed_count, 2);
  publish(job);
  ck_assert_uint_lt(store_stat(&store, KV_STAT_COMPACT_BYTES_READ) - before, 8 * 1024);
  ck_assert_uint_ge(store.view->file_count, files);
  ck_assert_str_eq(store_get(&store, store.view, "k00011"), "new");
  ck_assert_str_eq(store_get(&store, store.view, "k00012"), "old");
  expect_sound();
}
END_TEST

START_TEST(tier_stays_on_level_0_in_its_place) {
  use_small_files();
  flush_rows("k", 0, 10, "1");
  flush_rows("k", 2, 10, "2");
  flush_rows("k", 4, 10, NULL);
  flush_rows("k", 6, 10, "4");
  flush_rows("k", 8, 10, "5");
  merge((struct kv_pick){KV_PICK_TIER, 1, 3});
  ck_assert_uint_eq(store.view->run_count, 3);
  ck_assert_uint_eq(store.view->runs[1].level, 0);
  ck_assert_uint_eq(store.view->runs[1].seq, 4);
  ck_assert_uint_eq(store.view->layout->sizes[1].tombstones, 2); /* k4, k5 hide what is older */
  const char *want[] = {"1", "1", "2", "2", "-", "-", "4", "4", "5", "5"};
  for (int i = 0; i < 10; i++) {
    char key[16];
    snprintf(key, sizeof key, "k%05d", i);
    ck_assert_str_eq(store_get(&store, store.view, key), want[i]);
  }
}
END_TEST

START_TEST(tombstones_go_where_nothing_older_overlaps) {
  fill_level_1(3000, "old");
  flush_rows("k", 100, 200, NULL);
  flush_rows("z", 0, 100, NULL); /* beside everything */
  ck_assert_uint_eq(store.view->run_count, 2);
  ck_assert_uint_eq(store.view->layout->sizes[0].tombstones, 100);
  merge(all_down());
  ck_assert_str_eq(store_get(&store, store.view, "k00150"), "-");
  for (size_t i = 0; i < store.view->run_count; i++)
    ck_assert_uint_eq(store.view->layout->sizes[i].tombstones, 0);
}
END_TEST

START_TEST(push_takes_a_file_and_what_is_under_it) {
  fill_level_1(3000, "a value of some length, for several files");
  for (size_t left = store.view->file_count; left;) {
    merge((struct kv_pick){KV_PICK_PUSH, 0, 1});
    size_t now = store.view->runs[0].level == 1 ? store.view->runs[0].file_count : 0;
    ck_assert_uint_lt(now, left);
    left = now;
  }
  ck_assert_uint_eq(store.view->run_count, 1);
  ck_assert_uint_eq(store.view->runs[0].level, 2);
  char key[32];
  for (int i = 0; i < 3000; i++) {
    snprintf(key, sizeof key, "k%05d", i);
    ck_assert_str_ne(store_get(&store, store.view, key), "-");
  }
}
END_TEST

START_TEST(keys_in_their_order_go_to_the_bottom_at_once) {
  use_small_files();
  for (int i = 0; i < 50; i++) flush_rows("k", 100 * i, 100 * i + 100, "a value of some length");
  ck_assert_uint_eq(store.view->run_count, 1);
  ck_assert_uint_ge(store.view->runs[0].level, 1);
  ck_assert_uint_eq(store_stat(&store, KV_STAT_COMPACTIONS), 0);
  /* older runs of level 0 beside it: theirs is the order of seqs */
  flush_rows("k", 10, 12, "over");
  flush_rows("z", 0, 100, "a value of some length");
  expect_sound();
  ck_assert_uint_eq(store.view->runs[0].level, 0);
  ck_assert_str_eq(store_get(&store, store.view, "k00010"), "over");
  ck_assert_str_eq(store_get(&store, store.view, "z00010"), "a value of some length");
}
END_TEST

START_TEST(two_merges_that_meet_nowhere_both_fit) {
  fill_level_1(3000, "old");
  flush_rows("j", 0, 2, "left");
  merge(all_down());
  struct kv_job *push = NULL, *down = NULL;
  finish_pick((struct kv_pick){KV_PICK_PUSH, 0, 1}, &push); /* the left end */
  flush_rows("k", 990, 995, "right");
  finish_pick(all_down(), &down);
  publish(down);
  publish(push);
  ck_assert_str_eq(store_get(&store, store.view, "k00990"), "right");
  ck_assert_str_eq(store_get(&store, store.view, "j00001"), "left");
  ck_assert_str_eq(store_get(&store, store.view, "k00001"), "old");
}
END_TEST

START_TEST(output_over_files_that_came_meanwhile_does_not_fit) {
  use_small_files();
  flush_rows("a", 0, 4, "1");
  flush_rows("a", 0, 4, "2");
  flush_rows("m", 0, 3, "3");
  struct kv_job *job = NULL;
  finish_pick(all_down(), &job); /* from a to m */
  flush_rows("f", 0, 100, "between them, and at once on level 1");
  ck_assert_uint_eq(store.view->runs[store.view->run_count - 1].level, 1);
  ck_assert(!kv_job_fits(job, store.view));
  kv_job_free(job);
  merge(all_down());
  ck_assert_str_eq(store_get(&store, store.view, "a00001"), "2");
  ck_assert_str_eq(store_get(&store, store.view, "f00001"), "between them, and at once on level 1");
  ck_assert_str_eq(store_get(&store, store.view, "m00001"), "3");
}
END_TEST

static uint64_t compression_of_run(size_t run) {
  struct kv_table *table = NULL;
  ck_assert_int_eq(kv_sst_table(store.view->runs[run].files[0], &table, NULL), KV_OK);
  return kv_table_compression(table);
}

static uint64_t filter_bits_of_run(size_t run) {
  struct kv_table *table = NULL;
  ck_assert_int_eq(kv_sst_table(store.view->runs[run].files[0], &table, NULL), KV_OK);
  return kv_table_filter_bits(table);
}

static void set_filter_bits(int bits) {
  struct kv_options options = kv_family_options(store.family);
  options.filter_bits = bits;
  kv_family_set_options(store.family, &options);
}

START_TEST(younger_runs_have_more_filter_bits) {
  flush_rows("a", 0, 100, "the first");
  ck_assert_uint_eq(filter_bits_of_run(0), 10);
  flush_rows("a", 5, 7, "over");
  ck_assert_uint_eq(filter_bits_of_run(0), 20);
  flush_rows("a", 50, 70, "over");
  merge((struct kv_pick){KV_PICK_TIER, 0, 2});
  ck_assert_uint_eq(filter_bits_of_run(0), 20);
  merge(all_down());
  ck_assert_uint_eq(filter_bits_of_run(0), 20);
  merge((struct kv_pick){KV_PICK_PUSH, 0, 1});
  ck_assert_uint_eq(filter_bits_of_run(0), 10);
  set_filter_bits(18);
  flush_rows("a", 0, 5, "the most there are");
  ck_assert_uint_eq(filter_bits_of_run(0), 20);
  set_filter_bits(0);
  flush_rows("a", 0, 5, "none");
  ck_assert_uint_eq(filter_bits_of_run(0), 0);
}
END_TEST

START_TEST(outputs_are_compressed_as_long_as_they_last) {
  struct kv_options options = kv_family_options(store.family);
  options.compression_level = 7;
  kv_family_set_options(store.family, &options);
  flush_rows("a", 0, 100, "the first");
  ck_assert_uint_eq(compression_of_run(0), 1);
  flush_rows("c", 0, 100, "beside it");
  ck_assert_uint_eq(compression_of_run(0), 1);
  flush_rows("b", 0, 100, "between");
  ck_assert_uint_eq(compression_of_run(0), 1);
  flush_rows("a", 5, 7, "over");
  ck_assert_uint_eq(compression_of_run(0), 0);
  flush_rows("a", 50, 70, "over");
  merge((struct kv_pick){KV_PICK_TIER, 0, 2});
  ck_assert_uint_eq(compression_of_run(0), 0);
  merge(all_down());
  ck_assert_uint_eq(compression_of_run(0), 1);
  merge((struct kv_pick){KV_PICK_PUSH, 0, 1});
  ck_assert_uint_eq(store.view->runs[store.view->run_count - 1].level, 2);
  ck_assert_uint_eq(compression_of_run(store.view->run_count - 1), 7);
  flush_rows("a", 0, 10, "over");
  store_compact(&store);
  ck_assert_uint_eq(compression_of_run(0), 7);
}
END_TEST

/* Files that were in the way of a flush have gone when it is recorded. */
START_TEST(plain_outputs_stay_on_level_0) {
  use_small_files();
  flush_rows("m", 0, 4, "1");
  flush_rows("m", 0, 4, NULL);
  put_many(0, 100, "before them");
  store_put(&store, "z", "behind them");
  store_commit(&store);
  struct kv_job *job = NULL;
  ck_assert_int_eq(kv_job_new(store.view, KV_JOB_FLUSH, &job, NULL), KV_OK);
  ck_assert_int_eq(store_run(job, NULL), KV_OK);
  merge(all_down());
  ck_assert_uint_eq(store.view->run_count, 0);
  kv_job_rebase(job, store.view);
  publish(job);
  ck_assert_uint_eq(first_file()->level, 0);
  ck_assert_str_eq(store_get(&store, store.view, "k00099"), "before them");
  ck_assert_str_eq(store_get(&store, store.view, "m00001"), "-");
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
  tcase_add_test(tests, merging_down_rewrites_what_overlaps_only);
  tcase_add_test(tests, tier_stays_on_level_0_in_its_place);
  tcase_add_test(tests, tombstones_go_where_nothing_older_overlaps);
  tcase_add_test(tests, push_takes_a_file_and_what_is_under_it);
  tcase_add_test(tests, keys_in_their_order_go_to_the_bottom_at_once);
  tcase_add_test(tests, two_merges_that_meet_nowhere_both_fit);
  tcase_add_test(tests, younger_runs_have_more_filter_bits);
  tcase_add_test(tests, outputs_are_compressed_as_long_as_they_last);
  tcase_add_test(tests, plain_outputs_stay_on_level_0);
  tcase_add_test(tests, output_over_files_that_came_meanwhile_does_not_fit);
  suite_add_tcase(suite, tests);
  return harness_run(suite);
}
