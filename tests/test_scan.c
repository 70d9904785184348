/* Scans: bounds, both directions, turns, tombstones, failures. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "catalog.h"
#include "mem.h"

static struct store store;

static void open_store(void) {
  store_init(&store, 5, 1 << 20);
}

static void close_store(void) {
  store_release(&store);
}

/* Even keys k00..k98 live: spread over two runs, two memtables and the batch; odd ones deleted again. */
static void spread(void) {
  char key[32];
  for (int place = 0; place < 5; place++) {
    for (int i = 0; i < 100; i++) {
      snprintf(key, sizeof key, "k%02d", i);
      if (i % 2 == 1 && i % 10 == place * 2 + 1) store_put(&store, key, "dead");
      if (i % 2 == 1 && i % 10 == place * 2 - 1) store_delete(&store, key);
      if (i % 2 == 0 && i % 10 == place * 2) store_put(&store, key, key);
    }
    if (place == 4) break;
    store_commit(&store);
    if (place < 2) store_flush(&store);
    store_rotate(&store);
  }
  for (int i = 9; i < 100; i += 10) {
    snprintf(key, sizeof key, "k%02d", i);
    store_delete(&store, key);
  }
}

static struct kv_scan *open_scan(const char *lower, const char *upper) {
  struct kv_bounds bounds = {.lower = slice(lower), .has_upper = upper != NULL};
  if (upper) bounds.upper = slice(upper);
  struct kv_scan *scan = NULL;
  struct kv_err err = {.status = KV_OK};
  kv_status status = kv_scan_open(store.view, store.batch, &bounds, &scan, &err);
  ck_assert_msg(status == KV_OK, "%s", err.text);
  ck_assert(!kv_scan_valid(scan));
  return scan;
}

/* The current row's number; -1 at an end. */
static int current(struct kv_scan *scan) {
  char digits[3] = "";
  if (!kv_scan_valid(scan)) return -1;
  struct kv_slice key = kv_scan_key(scan);
  struct kv_slice value;
  ck_assert_int_eq(kv_scan_value(scan, &value, NULL), KV_OK);
  ck_assert(kv_slice_equal(key, value));
  ck_assert_uint_eq(key.size, 3);
  memcpy(digits, key.data + 1, 2);
  return (int)strtol(digits, NULL, 10);
}

/* Rows from..to (even numbers), or none when from > to. */
static void expect_rows(struct kv_scan *scan, int from, int to) {
  ck_assert_int_eq(kv_scan_first(scan, NULL), KV_OK);
  for (int i = from; i <= to; i += 2) {
    ck_assert_int_eq(current(scan), i);
    ck_assert_int_eq(kv_scan_next(scan, NULL), KV_OK);
  }
  ck_assert_int_eq(current(scan), -1);
  ck_assert_int_eq(kv_scan_last(scan, NULL), KV_OK);
  for (int i = to; i >= from; i -= 2) {
    ck_assert_int_eq(current(scan), i);
    ck_assert_int_eq(kv_scan_prev(scan, NULL), KV_OK);
  }
  ck_assert_int_eq(current(scan), -1);
}

START_TEST(bounds_both_ways) {
  const struct {
    const char *lower, *upper;
    int from, to;
  } cases[] = {
      {"", NULL, 0, 98},      {"k00", NULL, 0, 98}, {"k01", NULL, 2, 98}, {"k98", NULL, 98, 98},
      {"k99", NULL, 2, 0},    {"z", NULL, 2, 0},    {"", "k00", 2, 0},    {"", "", 2, 0},
      {"", "k01", 0, 0},      {"", "k99", 0, 98},   {"", "z", 0, 98},     {"k10", "k20", 10, 18},
      {"k11", "k21", 12, 20}, {"k11", "k12", 2, 0}, {"k12", "k12", 2, 0}, {"k12", "k120", 12, 12},
      {"k50", "k40", 2, 0},   {"z", "a", 2, 0},     {"a", "b", 2, 0},     {"k3", "k4", 30, 38},
  };
  spread();
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct kv_scan *scan = open_scan(cases[i].lower, cases[i].upper);
    expect_rows(scan, cases[i].from, cases[i].to);
    kv_scan_close(scan);
  }
  ck_assert_uint_eq(store_stat(&store, KV_STAT_SCANS), sizeof cases / sizeof *cases);
}
END_TEST

START_TEST(scan_over_nothing) {
  struct kv_scan *scan = open_scan("", NULL);
  expect_rows(scan, 2, 0);
  kv_scan_close(scan);
  kv_scan_close(NULL);
}
END_TEST

START_TEST(seek_stays_inside_the_bounds) {
  const struct {
    const char *key;
    int want;
  } cases[] = {{"", 20},    {"k05", 20}, {"k20", 20}, {"k21", 22}, {"k38", 38},
               {"k39", -1}, {"k40", -1}, {"k50", -1}, {"z", -1}};
  spread();
  struct kv_scan *scan = open_scan("k20", "k40");
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    ck_assert_int_eq(kv_scan_seek(scan, slice(cases[i].key), NULL), KV_OK);
    ck_assert_int_eq(current(scan), cases[i].want);
  }
  kv_scan_close(scan);
}
END_TEST

START_TEST(turns_at_every_row) {
  spread();
  struct kv_scan *scan = open_scan("k10", "k30");
  for (int i = 10; i < 30; i += 2) {
    char key[32];
    snprintf(key, sizeof key, "k%02d", i);
    ck_assert_int_eq(kv_scan_seek(scan, slice(key), NULL), KV_OK);
    if (i < 28) {
      ck_assert_int_eq(kv_scan_next(scan, NULL), KV_OK);
      ck_assert_int_eq(current(scan), i + 2);
      ck_assert_int_eq(kv_scan_prev(scan, NULL), KV_OK);
    }
    ck_assert_int_eq(current(scan), i);
    ck_assert_int_eq(kv_scan_prev(scan, NULL), KV_OK);
    ck_assert_int_eq(current(scan), i > 10 ? i - 2 : -1);
    if (i == 10) continue;
    ck_assert_int_eq(kv_scan_next(scan, NULL), KV_OK);
    ck_assert_int_eq(current(scan), i);
  }
  kv_scan_close(scan);
}
END_TEST

START_TEST(move_without_a_row_is_misuse) {
  struct kv_err err;
  spread();
  struct kv_scan *scan = open_scan("k10", "k12");
  ck_assert_int_eq(kv_scan_next(scan, &err), KV_MISUSE);
  ck_assert_int_eq(kv_scan_prev(scan, &err), KV_MISUSE);
  ck_assert_int_eq(kv_scan_first(scan, &err), KV_OK);
  ck_assert_int_eq(kv_scan_next(scan, &err), KV_OK);
  ck_assert_int_eq(kv_scan_next(scan, &err), KV_MISUSE);
  ck_assert_int_eq(kv_scan_last(scan, &err), KV_OK);
  ck_assert_int_eq(current(scan), 10);
  kv_scan_close(scan);
}
END_TEST

START_TEST(bounds_are_copied) {
  char lower[] = "k10";
  char upper[] = "k20";
  spread();
  struct kv_scan *scan = open_scan(lower, upper);
  memset(lower, 'z', 3);
  memset(upper, 'a', 3);
  expect_rows(scan, 10, 18);
  kv_scan_close(scan);
}
END_TEST

START_TEST(later_writes_and_rollbacks_do_not_show) {
  char key[32];
  spread();
  struct kv_batch_mark mark = kv_batch_mark(store.batch);
  for (int i = 1; i < 100; i += 2) {
    snprintf(key, sizeof key, "k%02d", i);
    if (i < 50) store_put(&store, key, key);
  }
  kv_batch_rollback(store.batch, mark);
  struct kv_scan *scan = open_scan("", NULL);
  ck_assert_int_eq(kv_scan_first(scan, NULL), KV_OK);
  for (int i = 0; i <= 98; i += 2) {
    ck_assert_int_eq(current(scan), i);
    snprintf(key, sizeof key, "k%02d", i);
    store_delete(&store, key); /* the scan's own row, and the next odd one comes */
    snprintf(key, sizeof key, "k%02d", i + 1);
    store_put(&store, key, key);
    ck_assert_int_eq(kv_scan_next(scan, NULL), KV_OK);
  }
  kv_batch_rollback(store.batch, mark);
  store_commit(&store);
  store_compact(&store);
  store_reopen(&store);
  expect_rows(scan, 0, 98);
  kv_scan_close(scan);
}
END_TEST

START_TEST(files_are_opened_when_reached) {
  char key[32];
  for (int i = 0; i < 400; i++) {
    snprintf(key, sizeof key, "k%04d", i);
    store_put(&store, key, "a value of some length, for many files");
  }
  store_commit(&store);
  store.file_bytes = 1024;
  store_compact(&store);
  ck_assert_uint_gt(store_files(&store), 2);
  store_reopen(&store);
  uint64_t opened = kv_env_fault_calls(store.env, KV_FAULT_OPEN);
  struct kv_scan *scan = open_scan("", NULL);
  ck_assert_uint_eq(kv_env_fault_calls(store.env, KV_FAULT_OPEN), opened);
  ck_assert_int_eq(kv_scan_first(scan, NULL), KV_OK);
  ck_assert_uint_eq(kv_env_fault_calls(store.env, KV_FAULT_OPEN), opened + 1);
  int rows = 0;
  for (; kv_scan_valid(scan); rows++) ck_assert_int_eq(kv_scan_next(scan, NULL), KV_OK);
  ck_assert_int_eq(rows, 400);
  ck_assert_uint_eq(kv_env_fault_calls(store.env, KV_FAULT_OPEN), opened + store_files(&store));
  ck_assert_int_eq(kv_scan_last(scan, NULL), KV_OK);
  for (; kv_scan_valid(scan); rows--) ck_assert_int_eq(kv_scan_prev(scan, NULL), KV_OK);
  ck_assert_int_eq(rows, 0);
  kv_scan_close(scan);
  /* a run that lies outside the bounds is not opened at all */
  store_reopen(&store);
  opened = kv_env_fault_calls(store.env, KV_FAULT_OPEN);
  scan = open_scan("l", NULL);
  ck_assert_int_eq(kv_scan_first(scan, NULL), KV_OK);
  kv_scan_close(scan);
  ck_assert_uint_eq(kv_env_fault_calls(store.env, KV_FAULT_OPEN), opened);
}
END_TEST

/* ---- Ten rows beside a million deleted keys */

#define DELETED 1000000

static void delete_a_million(void) {
  char key[32];
  for (int i = 0; i < 10; i++) {
    snprintf(key, sizeof key, "m%d", i);
    store_put(&store, key, key);
  }
  for (int i = 0; i < DELETED; i++) {
    snprintf(key, sizeof key, "%c%06d", i % 2 ? 'n' : 'k', i / 2);
    store_delete(&store, key);
  }
}

static void expect_ten_rows(void) {
  struct kv_scan *scan = open_scan("m", "n");
  int rows = 0;
  ck_assert_int_eq(kv_scan_first(scan, NULL), KV_OK);
  for (; kv_scan_valid(scan); rows++) ck_assert_int_eq(kv_scan_next(scan, NULL), KV_OK);
  ck_assert_int_eq(rows, 10);
  ck_assert_int_eq(kv_scan_last(scan, NULL), KV_OK);
  for (; kv_scan_valid(scan); rows--) ck_assert_int_eq(kv_scan_prev(scan, NULL), KV_OK);
  ck_assert_int_eq(rows, 0);
  ck_assert_int_eq(kv_scan_seek(scan, slice("m9"), NULL), KV_OK);
  ck_assert_int_eq(kv_scan_next(scan, NULL), KV_OK);
  ck_assert(!kv_scan_valid(scan));
  kv_scan_close(scan);
}

START_TEST(short_range_beside_a_million_tombstones_is_bounded) {
  store_put(&store, "a", "an older run around them keeps the tombstones");
  store_put(&store, "z", "its other end");
  store_commit(&store);
  store_flush(&store);
  delete_a_million();
  store_commit(&store);
  store_flush(&store);
  ck_assert_uint_gt(store_run_file(&store, 0)->tombstones, DELETED - 1);
  ck_assert_str_eq(store_get(&store, store.view, "m3"), "m3");
  uint64_t read = store_stat(&store, KV_STAT_BLOCKS_READ) + store_stat(&store, KV_STAT_CACHE_HITS);
  for (int i = 0; i < 100; i++) expect_ten_rows();
  uint64_t blocks =
      store_stat(&store, KV_STAT_BLOCKS_READ) + store_stat(&store, KV_STAT_CACHE_HITS) - read;
  ck_assert_uint_le(blocks, 100 * 12); /* the tombstones fill thousands */
}
END_TEST

/* ---- Failures */

/* Reads everything both ways; a failure ends it and is the answer. */
static kv_status read_all(struct kv_view *view, struct kv_batch *batch, int *rows,
                          struct kv_err *err) {
  const struct kv_bounds all = {.lower = slice("k"), .upper = slice("l"), .has_upper = true};
  struct kv_scan *scan = NULL;
  *rows = 0;
  kv_status status = kv_scan_open(view, batch, &all, &scan, err);
  if (status != KV_OK) return status;
  status = kv_scan_first(scan, err);
  for (; status == KV_OK && kv_scan_valid(scan); ++*rows) status = kv_scan_next(scan, err);
  if (status == KV_OK) status = kv_scan_last(scan, err);
  for (; status == KV_OK && kv_scan_valid(scan); ++*rows) status = kv_scan_prev(scan, err);
  if (status == KV_OK) status = kv_scan_seek(scan, slice("k50"), err);
  if (status == KV_OK) status = kv_scan_prev(scan, err);
  if (status != KV_OK) ck_assert(!kv_scan_valid(scan));
  kv_scan_close(scan);
  return status;
}

START_TEST(every_allocation_failing) {
  int rows = 0;
  spread();
  store_commit(&store);
  for (uint64_t n = 1;; n++) {
    struct kv_err err;
    store_reopen(&store);
    store_put(&store, "k00", "k00");
    kv_mem_fail_nth(n, 0);
    kv_status status = read_all(store.view, store.batch, &rows, &err);
    kv_mem_fail_nth(0, 0);
    if (status == KV_OK) {
      ck_assert_uint_gt(n, 10);
      break;
    }
    ck_assert_int_eq(status, KV_NOMEM);
    ck_assert_int_eq(read_all(store.view, store.batch, &rows, &err), KV_OK);
    ck_assert_int_eq(rows, 100);
  }
}
END_TEST

START_TEST(every_io_failing) {
  int rows = 0;
  spread();
  store_commit(&store);
  for (uint64_t n = 1;; n++) {
    struct kv_err err;
    store_reopen(&store);
    kv_env_fault_set(store.env, KV_FAULT_ANY, n, false, KV_IO);
    kv_status status = read_all(store.view, NULL, &rows, &err);
    kv_env_fault_set(store.env, KV_FAULT_ANY, 0, false, KV_IO);
    if (status == KV_OK) {
      ck_assert_uint_gt(n, 4);
      break;
    }
    ck_assert_int_eq(status, KV_IO);
    ck_assert_int_eq(read_all(store.view, NULL, &rows, &err), KV_OK);
    ck_assert_int_eq(rows, 100);
  }
}
END_TEST

/* An open scan that met an error goes on after the next positioning. */
START_TEST(scan_recovers_after_an_error) {
  struct kv_err err;
  char key[32];
  for (int i = 0; i < 400; i++) {
    snprintf(key, sizeof key, "k%04d", i);
    store_put(&store, key, "a value of some length, for many files");
  }
  store_commit(&store);
  store.file_bytes = 1024;
  store_compact(&store);
  store_reopen(&store);
  struct kv_scan *scan = open_scan("", NULL);
  ck_assert_int_eq(kv_scan_first(scan, &err), KV_OK);
  kv_env_fault_set(store.env, KV_FAULT_ANY, 1, true, KV_IO);
  kv_status status = KV_OK;
  while (status == KV_OK && kv_scan_valid(scan)) status = kv_scan_next(scan, &err);
  ck_assert_int_eq(status, KV_IO);
  ck_assert(!kv_scan_valid(scan));
  ck_assert_int_eq(kv_scan_next(scan, &err), KV_MISUSE);
  ck_assert_int_eq(kv_scan_last(scan, &err), KV_IO);
  kv_env_fault_set(store.env, KV_FAULT_ANY, 0, false, KV_IO);
  ck_assert_int_eq(kv_scan_last(scan, &err), KV_OK);
  ck_assert(kv_slice_equal(kv_scan_key(scan), slice("k0399")));
  kv_scan_close(scan);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("scan");
  TCase *tests = tcase_create("scan");
  tcase_set_timeout(tests, 30);
  tcase_add_checked_fixture(tests, open_store, close_store);
  tcase_add_test(tests, bounds_both_ways);
  tcase_add_test(tests, scan_over_nothing);
  tcase_add_test(tests, seek_stays_inside_the_bounds);
  tcase_add_test(tests, turns_at_every_row);
  tcase_add_test(tests, move_without_a_row_is_misuse);
  tcase_add_test(tests, bounds_are_copied);
  tcase_add_test(tests, later_writes_and_rollbacks_do_not_show);
  tcase_add_test(tests, files_are_opened_when_reached);
  tcase_add_test(tests, short_range_beside_a_million_tombstones_is_bounded);
  tcase_add_test(tests, every_allocation_failing);
  tcase_add_test(tests, every_io_failing);
  tcase_add_test(tests, scan_recovers_after_an_error);
  suite_add_tcase(suite, tests);
  return harness_run(suite);
}
