/* The check: nothing to say of a sound store, every kind of damage found and named. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "catalog.h"
#include "mem.h"
#include "view.h"

static struct store store;

/* What the check reported. */
struct report {
  int problems;
  uint64_t file; /* of the first */
  char text[512];
  kv_status answer; /* what the callback returns */
};

static void open_store(void) {
  store_init(&store, 7, 1 << 20);
  store.catalog.table_rows = 0;
  store_reopen(&store);
}

static void close_store(void) {
  store_release(&store);
}

static kv_status note(void *ctx, const char *severity, uint64_t file, uint64_t position,
                      const char *text) {
  struct report *report = ctx;
  ck_assert_str_eq(severity, "error");
  ck_assert_uint_eq(position, 0);
  if (report->problems++ == 0) {
    report->file = file;
    snprintf(report->text, sizeof report->text, "%s", text);
  }
  return report->answer;
}

static struct report checked(void) {
  struct report report = {.answer = KV_OK};
  struct kv_err err = {.status = KV_OK};
  kv_status status = kv_check(store.view, note, &report, &err);
  ck_assert_msg(status == KV_OK, "%s", err.text);
  return report;
}

static void expect_sound(void) {
  struct report report = checked();
  ck_assert_msg(report.problems == 0, "%s", report.text);
}

static void put_many(int first, int end, const char *value) {
  char key[32];
  for (int i = first; i < end; i++) {
    snprintf(key, sizeof key, "k%05d", i);
    if (value)
      store_put(&store, key, value);
    else
      store_delete(&store, key);
  }
}

/* A bottom run of several files, a run with tombstones above, two memtables. */
static void fill(void) {
  put_many(0, 200, "bottom");
  store_commit(&store);
  store.file_bytes = 1024;
  store_compact(&store);
  put_many(50, 100, "newer");
  put_many(100, 120, NULL);
  store_commit(&store);
  store_flush(&store);
  put_many(110, 115, "again");
  put_many(300, 310, "log");
  store_commit(&store);
  store_rotate(&store);
  put_many(0, 5, NULL);
  store_commit(&store);
}

START_TEST(sound_store_gives_no_report) {
  expect_sound();
  store_put(&store, "a", "1");
  store_commit(&store);
  expect_sound();
  fill();
  ck_assert_uint_gt(kv_view_run_count(store.view), 1);
  expect_sound();
  store_reopen(&store);
  expect_sound();
  store_flush(&store);
  expect_sound();
  store_compact(&store);
  expect_sound();
}
END_TEST

START_TEST(untracked_count_is_no_problem) {
  fill();
  store.catalog.table_rows = -1;
  store_commit(&store);
  expect_sound();
}
END_TEST

START_TEST(wrong_row_count_is_reported) {
  fill();
  int64_t right = kv_view_rows(store.view);
  store.catalog.table_rows++;
  store_commit(&store);
  struct report report = checked();
  ck_assert_int_eq(report.problems, 1);
  ck_assert_uint_eq(report.file, 0);
  char want[100];
  snprintf(want, sizeof want, "the row count is %lld, a scan finds %lld rows", (long long)right + 1,
           (long long)right);
  ck_assert_str_eq(report.text, want);
}
END_TEST

/* Bounds in memory that keep gets, but not scans, from a run of several files: a comparator has no prefixes
** but 0. */
START_TEST(get_that_misses_a_key_is_reported) {
  fill();
  enum { FILES_MAX = 100 };
  struct kv_run *run = &store.view->runs[1];
  struct kv_run_fence *fences = (struct kv_run_fence *)(uintptr_t)run->fences, right[FILES_MAX];
  size_t files = run->file_count;
  ck_assert(files > 1 && files <= FILES_MAX);
  memcpy(right, fences, files * sizeof *fences);
  store.catalog.table_rows = -1;
  for (size_t i = 0; i < files; i++) fences[i] = (struct kv_run_fence){UINT64_MAX, UINT64_MAX};
  struct report report = checked();
  memcpy(fences, right, files * sizeof *fences);
  ck_assert_int_eq(report.problems, 1);
  ck_assert_str_eq(report.text, "a get does not find the newest entry of a key, which is there");
  expect_sound();
}
END_TEST

START_TEST(every_flipped_byte_is_reported_with_its_file) {
  put_many(0, 60, "value");
  store_commit(&store);
  store_flush(&store);
  put_many(20, 30, NULL);
  store_commit(&store);
  store_flush(&store);
  for (size_t run = 0; run < 2; run++) {
    uint64_t id = store_run_file(&store, run)->id;
    int64_t bytes = (int64_t)store_run_file(&store, run)->bytes;
    for (int64_t at = 0; at < bytes; at++) {
      kv_view_unref(store.view);
      store_flip(&store, id, at);
      store.view = store_view(&store);
      struct report report = checked();
      ck_assert_msg(report.problems == 1, "byte %lld: %d", (long long)at, report.problems);
      ck_assert_uint_eq(report.file, id);
      kv_view_unref(store.view);
      store_flip(&store, id, at);
      store.view = store_view(&store);
    }
  }
  expect_sound();
}
END_TEST

START_TEST(damage_behind_an_open_table_and_a_warm_cache_is_found) {
  put_many(0, 60, "value");
  store_commit(&store);
  store_flush(&store);
  uint64_t id = store_run_file(&store, 0)->id;
  ck_assert_str_eq(store_get(&store, store.view, "k00003"), "value");
  kv_env_fault_set(store.env, KV_FAULT_READ, 1, true, KV_IO);
  struct report report = checked();
  kv_env_fault_set(store.env, KV_FAULT_READ, 0, false, KV_IO);
  ck_assert_int_eq(report.problems, 1);
  ck_assert_uint_eq(report.file, id);
  expect_sound();
}
END_TEST

START_TEST(missing_file_is_reported_and_the_check_goes_on) {
  fill();
  uint64_t first = store_run_file(&store, 0)->id;
  uint64_t second = store_run_file(&store, 1)->id;
  store_reopen(&store);
  ck_assert_int_eq(kv_env_remove(store.memory, store_path(&store, first), NULL), KV_OK);
  ck_assert_int_eq(kv_env_remove(store.memory, store_path(&store, second), NULL), KV_OK);
  struct report report = checked();
  ck_assert_int_eq(report.problems, 2);
  ck_assert_uint_eq(report.file, first);
}
END_TEST

START_TEST(manifest_that_disagrees_with_its_file_is_reported) {
  put_many(0, 10, "value");
  store_commit(&store);
  store_flush(&store);
  kv_view_unref(store.view);
  kv_buf_append_byte(&store.catalog.files[0].largest, 'x');
  store.view = store_view(&store);
  struct report report = checked();
  ck_assert_int_eq(report.problems, 1);
  ck_assert_uint_eq(report.file, store.catalog.files[0].id);
}
END_TEST

START_TEST(callers_status_stops_the_check) {
  fill();
  store_reopen(&store);
  for (size_t i = 0; i < kv_view_file_count(store.view); i++) {
    const char *path = store_path(&store, kv_view_file(store.view, i)->id);
    ck_assert_int_eq(kv_env_remove(store.memory, path, NULL), KV_OK);
  }
  struct report report = {.answer = KV_CANCELED};
  ck_assert_int_eq(kv_check(store.view, note, &report, NULL), KV_CANCELED);
  ck_assert_int_eq(report.problems, 1);
}
END_TEST

START_TEST(every_allocation_failing) {
  fill();
  for (uint64_t n = 1;; n++) {
    struct report report = {.answer = KV_OK};
    struct kv_err err;
    store_reopen(&store);
    kv_mem_fail_nth(n, 0);
    kv_status status = kv_check(store.view, note, &report, &err);
    kv_mem_fail_nth(0, 0);
    ck_assert_msg(report.problems == 0, "%s", report.text);
    if (status == KV_OK) {
      ck_assert_uint_gt(n, 50);
      break;
    }
    ck_assert_int_eq(status, KV_NOMEM);
  }
}
END_TEST

START_TEST(every_io_failing_is_reported) {
  fill();
  for (uint64_t n = 1;; n++) {
    struct report report = {.answer = KV_OK};
    struct kv_err err;
    store_reopen(&store);
    kv_env_fault_set(store.env, KV_FAULT_ANY, n, false, KV_IO);
    kv_status status = kv_check(store.view, note, &report, &err);
    kv_env_fault_set(store.env, KV_FAULT_ANY, 0, false, KV_IO);
    ck_assert_int_eq(status, KV_OK);
    if (report.problems == 0) {
      ck_assert_uint_gt(n, 10);
      break;
    }
    ck_assert_int_eq(report.problems, 1);
  }
}
END_TEST

int main(void) {
  Suite *suite = suite_create("check");
  TCase *tests = tcase_create("check");
  tcase_set_timeout(tests, 30);
  tcase_add_checked_fixture(tests, open_store, close_store);
  tcase_add_test(tests, sound_store_gives_no_report);
  tcase_add_test(tests, untracked_count_is_no_problem);
  tcase_add_test(tests, wrong_row_count_is_reported);
  tcase_add_test(tests, get_that_misses_a_key_is_reported);
  tcase_add_test(tests, every_flipped_byte_is_reported_with_its_file);
  tcase_add_test(tests, damage_behind_an_open_table_and_a_warm_cache_is_found);
  tcase_add_test(tests, missing_file_is_reported_and_the_check_goes_on);
  tcase_add_test(tests, manifest_that_disagrees_with_its_file_is_reported);
  tcase_add_test(tests, callers_status_stops_the_check);
  tcase_add_test(tests, every_allocation_failing);
  tcase_add_test(tests, every_io_failing_is_reported);
  suite_add_tcase(suite, tests);
  return harness_run(suite);
}
