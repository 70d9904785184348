/* Views: what makes a manifest sound, the order of runs, snapshots, advancing. */
#include <stdio.h>
#include <string.h>

#include "catalog.h"
#include "mem.h"
#include "view.h"

static struct store store;

static void open_store(void) {
  store_init(&store, 2, 1 << 20);
}

static void close_store(void) {
  store_release(&store);
}

/* ---- Manifests made by hand: nothing opens these files */

struct row {
  uint64_t id;
  uint32_t level;
  uint64_t seq;
  const char *smallest;
  const char *largest;
};

static void make_infos(const struct row *rows, size_t n, struct kv_file_info *infos) {
  for (size_t i = 0; i < n; i++) {
    kv_file_info_init(&infos[i]);
    infos[i].id = rows[i].id;
    infos[i].level = rows[i].level;
    infos[i].seq = rows[i].seq;
    infos[i].entries = 10;
    kv_buf_append(&infos[i].smallest, rows[i].smallest, strlen(rows[i].smallest));
    kv_buf_append(&infos[i].largest, rows[i].largest, strlen(rows[i].largest));
  }
}

static void release_infos(struct kv_file_info *infos, size_t n) {
  for (size_t i = 0; i < n; i++) kv_file_info_release(&infos[i]);
}

static int64_t row_count; /* that snapshots claim */

static kv_status view_of(const struct kv_file_info *infos, size_t n, uint64_t last_seq,
                         struct kv_view **view, struct kv_err *err) {
  struct catalog_snapshot none;
  memset(&none, 0, sizeof none);
  none.catalog = &store.catalog;
  struct kv_log_source source = catalog_source(&none);
  struct kv_snapshot snapshot = {
      .log = {.flushed_seq = last_seq, .last_seq = last_seq}, .rows = row_count, .files = infos};
  snapshot.file_count = n;
  return kv_view_new(store.family, &snapshot, &source, view, err);
}

static struct kv_view *sound_view(const struct row *rows, size_t n) {
  struct kv_file_info infos[16];
  struct kv_view *view = NULL;
  memset(infos, 0, sizeof infos);
  struct kv_err err = {.status = KV_OK};
  make_infos(rows, n, infos);
  kv_status status = view_of(infos, n, 100, &view, &err);
  ck_assert_msg(status == KV_OK, "%s", err.text);
  release_infos(infos, n);
  return view;
}

START_TEST(more_rows_than_files_and_log_can_hold_are_refused) {
  struct kv_view *view = NULL;
  struct kv_err err = {.status = KV_OK};
  row_count = 7;
  ck_assert_int_eq(view_of(NULL, 0, 100, &view, &err), KV_CORRUPT);
  ck_assert_ptr_nonnull(strstr(err.text, "row count is 7"));
  ck_assert_ptr_null(view);
  row_count = 0;
}
END_TEST

START_TEST(empty_snapshot_has_nothing) {
  struct kv_view *view = sound_view(NULL, 0);
  ck_assert_uint_eq(kv_view_file_count(view), 0);
  ck_assert_uint_eq(kv_view_run_count(view), 0);
  ck_assert_uint_eq(kv_view_entries_estimate(view), 0);
  ck_assert_uint_eq(kv_view_gen(view), 0);
  ck_assert_uint_eq(kv_view_gen_bytes(view), 0);
  ck_assert_uint_eq(kv_view_log_bytes(view), 0);
  ck_assert_int_eq(kv_view_rows(view), 0);
  ck_assert_uint_eq(kv_view_log(view)->last_seq, 100);
  ck_assert(!kv_view_work(view).flush && !kv_view_work(view).merge);
  kv_view_unref(view);
  kv_view_unref(NULL);
}
END_TEST

START_TEST(files_in_any_order_become_runs_newest_first) {
  const struct row rows[] = {{11, 1, 5, "m", "p"}, {12, 0, 9, "a", "z"}, {13, 1, 5, "a", "f"},
                             {14, 0, 7, "c", "d"}, {15, 1, 5, "q", "z"}, {16, 0, 7, "e", "x"}};
  const uint64_t want[] = {12, 14, 16, 13, 11, 15};
  struct harness_random random;
  harness_seed(&random, 5);
  for (int round = 0; round < 50; round++) {
    struct row shuffled[6];
    memcpy(shuffled, rows, sizeof rows);
    for (size_t i = 5; i > 0; i--) {
      size_t other = harness_below(&random, i + 1);
      struct row kept = shuffled[i];
      shuffled[i] = shuffled[other];
      shuffled[other] = kept;
    }
    struct kv_view *view = sound_view(shuffled, 6);
    ck_assert_uint_eq(kv_view_run_count(view), 3);
    for (size_t i = 0; i < 6; i++) ck_assert_uint_eq(kv_view_file(view, i)->id, want[i]);
    ck_assert_uint_eq(view->runs[0].file_count, 1);
    ck_assert_uint_eq(view->runs[1].file_count, 2);
    ck_assert_uint_eq(view->runs[2].file_count, 3);
    ck_assert_uint_eq(view->runs[2].level, 1);
    ck_assert_uint_eq(kv_view_entries_estimate(view), 60);
    kv_view_unref(view);
  }
}
END_TEST

START_TEST(file_of_a_run_is_found_by_key) {
  const struct row rows[] = {{1, 0, 5, "b", "d"}, {2, 0, 5, "f", "f"}, {3, 0, 5, "h", "k"}};
  const struct {
    const char *key;
    uint64_t id;
    size_t lower;
  } cases[] = {{"", 0, 0},   {"a", 0, 0}, {"b", 1, 0},  {"c", 1, 0}, {"d", 1, 0},
               {"d0", 0, 1}, {"e", 0, 1}, {"f", 2, 1},  {"g", 0, 2}, {"h", 3, 2},
               {"i", 3, 2},  {"k", 3, 2}, {"k0", 0, 3}, {"z", 0, 3}};
  struct kv_view *view = sound_view(rows, 3);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct kv_sst *file = kv_run_find(&view->runs[0], slice(cases[i].key));
    ck_assert_uint_eq(file ? kv_sst_info(file)->id : 0, cases[i].id);
    ck_assert_uint_eq(kv_run_lower_bound(&view->runs[0], slice(cases[i].key)), cases[i].lower);
  }
  kv_view_unref(view);
}
END_TEST

START_TEST(manifest_that_contradicts_itself_is_corrupt) {
  const struct {
    struct row rows[2];
    const char *text;
  } cases[] = {
      {{{1, 0, 5, "a", "m"}, {2, 0, 5, "m", "z"}}, "overlap"},
      {{{1, 0, 5, "a", "z"}, {2, 0, 5, "b", "c"}}, "overlap"},
      {{{1, 1, 5, "a", "m"}, {2, 1, 6, "m", "z"}}, "overlap"},
      {{{1, 0, 5, "a", "c"}, {2, 2, 6, "m", "z"}},
       "0000000000000002 of level 2 covers commit 6, but above it 0000000000000001 of level 0 ends "
       "at commit 5"},
      {{{1, 0, 5, "a", "c"}, {1, 0, 5, "a", "c"}}, "named twice"},
      {{{1, 0, 5, "a", "c"}, {1, 0, 6, "a", "c"}}, "in two ways"},
      {{{1, 0, 5, "a", "c"}, {2, 0, 6, "d", "c"}}, "0000000000000002 has its smallest key above"},
      {{{1, 0, 5, "a", "c"}, {2, 0, 101, "a", "c"}}, "covers commit 101, but the last is 100"},
      {{{0, 0, 5, "a", "c"}, {2, 0, 6, "a", "c"}}, "no file id"},
      {{{1, 0, 5, "a", "c"}, {1ull << 63, 0, 6, "a", "c"}}, "8000000000000000 is no file id"},
  };
  kv_view_unref(sound_view(cases[0].rows, 1)); /* the file set keeps its room */
  int64_t blocks = kv_mem_live_blocks();
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct kv_file_info infos[2];
    struct kv_view *view = NULL;
    struct kv_err err;
    make_infos(cases[i].rows, 2, infos);
    ck_assert_int_eq(view_of(infos, 2, 100, &view, &err), KV_CORRUPT);
    ck_assert_ptr_null(view);
    ck_assert_msg(strstr(err.text, cases[i].text) != NULL, "case %zu: %s", i, err.text);
    release_infos(infos, 2);
    ck_assert_int_eq(kv_mem_live_blocks(), blocks);
  }
}
END_TEST

START_TEST(overlap_names_both_files) {
  const struct row rows[] = {{0xabc, 0, 5, "a", "m"}, {0xdef, 0, 5, "k", "z"}};
  struct kv_file_info infos[2];
  struct kv_view *view = NULL;
  struct kv_err err;
  make_infos(rows, 2, infos);
  ck_assert_int_eq(view_of(infos, 2, 100, &view, &err), KV_CORRUPT);
  ck_assert_ptr_nonnull(strstr(err.text, "0000000000000abc and 0000000000000def"));
  release_infos(infos, 2);
}
END_TEST

/* ---- Building */

static void fill(void) {
  store_put(&store, "a", "1");
  store_put(&store, "b", "1");
  store_commit(&store);
  store_flush(&store);
  store_put(&store, "b", "2");
  store_commit(&store);
  store_flush(&store);
  store_put(&store, "c", "3");
  store_commit(&store);
  store_rotate(&store);
  store_put(&store, "d", "4");
  store_commit(&store);
}

START_TEST(new_without_memory_leaves_nothing) {
  struct catalog_snapshot snapshot;
  fill();
  store_reopen(&store);
  kv_view_unref(store.view);
  catalog_take(&store.catalog, &snapshot);
  struct kv_log_source source = catalog_source(&snapshot);
  int failures = 0;
  for (uint64_t n = 1;; n++) {
    struct kv_err err;
    store.view = NULL;
    kv_mem_fail_nth(n, 0);
    kv_status status = kv_view_new(store.family, &snapshot.state, &source, &store.view, &err);
    kv_mem_fail_nth(0, 0);
    if (status == KV_OK) break;
    ck_assert_int_eq(status, KV_NOMEM);
    ck_assert_ptr_null(store.view);
    failures++;
  }
  ck_assert_int_gt(failures, 5);
  ck_assert_str_eq(store_get(&store, store.view, "b"), "2");
  ck_assert_str_eq(store_get(&store, store.view, "d"), "4");
  catalog_drop(&snapshot);
}
END_TEST

static kv_status bad_open(void *ctx, uint64_t from, struct kv_err *err) {
  (void)ctx, (void)from;
  return kv_fail(err, KV_IO, "the log cannot be read");
}

START_TEST(failing_source_fails_the_view) {
  struct catalog_snapshot snapshot;
  struct kv_view *view = NULL;
  struct kv_err err;
  fill();
  store_reopen(&store);
  kv_view_unref(store.view);
  kv_family_unref(store.family);
  ck_assert_int_eq(kv_family_new(&store.config, &store.family, NULL), KV_OK);
  catalog_take(&store.catalog, &snapshot);
  struct kv_log_source source = catalog_source(&snapshot);
  source.open = bad_open;
  ck_assert_int_eq(kv_view_new(store.family, &snapshot.state, &source, &view, &err), KV_IO);
  ck_assert_str_eq(err.text, "the log cannot be read");
  catalog_drop(&snapshot);
  store.view = store_view(&store);
  ck_assert_str_eq(store_get(&store, store.view, "d"), "4");
}
END_TEST

START_TEST(views_of_one_snapshot_replay_the_log_once) {
  fill();
  store_reopen(&store);
  uint64_t replayed = store_stat(&store, KV_STAT_LOG_ROWS_REPLAYED);
  uint64_t built = store_stat(&store, KV_STAT_VIEWS_BUILT);
  ck_assert_uint_eq(replayed, 2);
  ck_assert_uint_eq(built, 1);
  struct kv_view *again = store_view(&store);
  ck_assert_uint_eq(store_stat(&store, KV_STAT_LOG_ROWS_REPLAYED), replayed);
  ck_assert_uint_eq(store_stat(&store, KV_STAT_VIEWS_BUILT), built + 1);
  kv_view_unref(again);
}
END_TEST

static kv_status follow(struct catalog_snapshot *now, struct kv_view *base, struct kv_view **view) {
  struct kv_log_source source = catalog_source(now);
  struct kv_snapshot snapshot = now->state;
  snapshot.files = NULL; /* is not looked at */
  return kv_view_follow(base, &snapshot, &source, view, NULL);
}

static kv_status follow_now(struct kv_view *base, struct kv_view **view) {
  struct catalog_snapshot now;
  catalog_take(&store.catalog, &now);
  kv_status status = follow(&now, base, view);
  catalog_drop(&now);
  return status;
}

START_TEST(following_view_has_the_newer_rows_over_the_same_files) {
  fill();
  store_flush(&store);
  struct kv_view *base = kv_view_ref(store.view), *view;
  store_put(&store, "a", "8");
  store_commit(&store);
  ck_assert_int_eq(follow_now(base, &view), KV_OK);
  ck_assert_str_eq(store_get(&store, view, "a"), "8");
  ck_assert_str_eq(store_get(&store, base, "a"), "1");
  ck_assert_uint_eq(kv_view_file_count(view), kv_view_file_count(base));
  ck_assert_ptr_eq(kv_view_file(view, 0), kv_view_file(base, 0));
  kv_view_unref(view);
  store_flush(&store);
  ck_assert_int_eq(follow_now(base, &view), KV_MISUSE);
  kv_view_unref(base);
}
END_TEST

START_TEST(following_without_memory_changes_nothing) {
  fill();
  store_flush(&store);
  struct kv_view *base = kv_view_ref(store.view), *view;
  struct catalog_snapshot now;
  store_put(&store, "a", "8");
  store_commit(&store);
  catalog_take(&store.catalog, &now);
  for (uint64_t n = 1;; n++) {
    (void)kv_mem_fail_nth(n, 0);
    kv_status status = follow(&now, base, &view);
    uint64_t made = kv_mem_fail_nth(0, 0);
    if (status == KV_OK) kv_view_unref(view);
    if (made < n) break;
    ck_assert_int_eq(status, KV_NOMEM);
    ck_assert_ptr_null(view);
  }
  catalog_drop(&now);
  kv_view_unref(base);
}
END_TEST

START_TEST(view_stays_as_it_was_while_the_store_goes_on) {
  fill();
  struct kv_view *old = kv_view_ref(store.view);
  store_put(&store, "b", "5");
  store_delete(&store, "a");
  store_commit(&store);
  store_flush(&store);
  store_compact(&store);
  ck_assert_str_eq(store_get(&store, old, "a"), "1");
  ck_assert_str_eq(store_get(&store, old, "b"), "2");
  ck_assert_str_eq(store_get(&store, store.view, "a"), "-");
  ck_assert_str_eq(store_get(&store, store.view, "b"), "5");
  kv_view_unref(old);
}
END_TEST

START_TEST(old_snapshot_is_rebuilt_from_its_own_rows) {
  struct catalog_snapshot snapshot;
  fill();
  catalog_take(&store.catalog, &snapshot);
  struct kv_view *keeper = kv_view_ref(store.view); /* as the connection would: keeps the files */
  store_put(&store, "c", "6");
  store_commit(&store);
  store_flush(&store);
  store_put(&store, "c", "7");
  store_commit(&store);
  struct kv_view *old = NULL;
  struct kv_err err = {.status = KV_OK};
  struct kv_log_source source = catalog_source(&snapshot);
  kv_status status = kv_view_new(store.family, &snapshot.state, &source, &old, &err);
  ck_assert_msg(status == KV_OK, "%s", err.text);
  ck_assert_str_eq(store_get(&store, old, "c"), "3");
  ck_assert_str_eq(store_get(&store, old, "d"), "4");
  ck_assert_str_eq(store_get(&store, store.view, "c"), "7");
  kv_view_unref(old);
  kv_view_unref(keeper);
  catalog_drop(&snapshot);
}
END_TEST

/* ---- Advancing */

static void expect_same(const struct kv_view *a, const struct kv_view *b) {
  ck_assert_uint_eq(kv_view_file_count(a), kv_view_file_count(b));
  ck_assert_uint_eq(kv_view_run_count(a), kv_view_run_count(b));
  for (size_t i = 0; i < kv_view_file_count(a); i++) {
    ck_assert_ptr_eq(kv_view_file(a, i), kv_view_file(b, i));
  }
  ck_assert_int_eq(memcmp(kv_view_log(a), kv_view_log(b), sizeof(struct kv_log_state)), 0);
  ck_assert_int_eq(kv_view_rows(a), kv_view_rows(b));
  ck_assert_uint_eq(kv_view_gen(a), kv_view_gen(b));
  ck_assert_uint_eq(kv_view_gen_bytes(a), kv_view_gen_bytes(b));
  ck_assert_uint_eq(kv_view_log_bytes(a), kv_view_log_bytes(b));
  ck_assert_uint_eq(kv_view_entries_estimate(a), kv_view_entries_estimate(b));
}

START_TEST(advanced_view_equals_one_built_anew) {
  store.catalog.table_rows = 0;
  for (int i = 0; i < 40; i++) {
    char key[32];
    snprintf(key, sizeof key, "%d", i % 13);
    store_put(&store, key, "x");
    if (i % 5 == 0) store_delete(&store, "3");
    store_commit(&store);
    if (i % 4 == 3) store_rotate(&store);
    if (i % 7 == 6) store_flush(&store);
    if (i % 17 == 16) store_compact(&store);
    struct kv_view *anew = store_view(&store);
    expect_same(store.view, anew);
    kv_view_unref(anew);
  }
}
END_TEST

START_TEST(own_commits_are_not_replayed) {
  uint64_t replayed = store_stat(&store, KV_STAT_LOG_ROWS_REPLAYED);
  store_put(&store, "a", "1");
  store_commit(&store);
  store_commit(&store);
  ck_assert_uint_eq(store_stat(&store, KV_STAT_LOG_ROWS_REPLAYED), replayed);
  ck_assert_uint_eq(store_stat(&store, KV_STAT_COMMITS), 2);
  ck_assert_str_eq(store_get(&store, store.view, "a"), "1");
}
END_TEST

START_TEST(row_and_edit_in_one_commit) {
  struct kv_job *job = NULL;
  struct kv_view *next = NULL;
  struct kv_err err = {.status = KV_OK};
  fill();
  ck_assert_int_eq(kv_job_new(store.view, KV_JOB_COMPACT, &job, &err), KV_OK);
  ck_assert_int_eq(store_run(job, &err), KV_OK);
  struct kv_batch_mark empty = kv_batch_mark(store.batch);
  store_put(&store, "e", "8");
  struct kv_log_row row = catalog_commit(&store.catalog, store.batch);
  const struct kv_edit *edit = kv_job_edit(job);
  uint64_t flushed = kv_view_log(store.view)->flushed_seq;
  ck_assert_int_eq(catalog_publish(&store.catalog, edit, flushed), KV_OK);
  ck_assert_int_eq(kv_view_advance(store.view, &row, edit, &next, &err), KV_OK);
  kv_job_keep_files(job);
  kv_job_free(job);
  struct kv_view *anew = store_view(&store);
  expect_same(next, anew);
  kv_view_unref(anew);
  kv_view_unref(store.view);
  store.view = next;
  ck_assert_uint_eq(kv_view_file_count(next), 1);
  kv_batch_rollback(store.batch, empty);
  ck_assert_str_eq(store_get(&store, next, "e"), "8");
  ck_assert_str_eq(store_get(&store, next, "b"), "2");
}
END_TEST

START_TEST(edit_over_other_files_or_an_older_mark_is_busy) {
  fill();
  struct kv_view *view = NULL;
  struct kv_err err;
  uint64_t unknown = 77;
  struct kv_edit edit = {.removed = &unknown, .removed_count = 1};
  edit.flushed_seq = kv_view_log(store.view)->last_seq;
  edit.flushed_nonce = kv_view_log(store.view)->last_nonce;
  ck_assert_int_eq(kv_view_advance(store.view, NULL, &edit, &view, &err), KV_BUSY);
  ck_assert_ptr_nonnull(strstr(err.text, "removes 1 files, the view has 0"));
  edit.removed_count = 0;
  edit.flushed_seq = 0;
  ck_assert_int_eq(kv_view_advance(store.view, NULL, &edit, &view, &err), KV_BUSY);
  ck_assert_ptr_nonnull(strstr(err.text, "flushed already"));
  ck_assert_ptr_null(view);
}
END_TEST

START_TEST(advance_without_memory_leaves_the_base_and_can_be_replaced) {
  struct kv_err err;
  fill();
  int failures = 0;
  struct kv_batch_mark empty = kv_batch_mark(store.batch);
  store_put(&store, "e", "9");
  struct kv_log_row row = catalog_commit(&store.catalog, store.batch);
  for (uint64_t n = 1;; n++) {
    struct kv_view *next = NULL;
    kv_mem_fail_nth(n, 0);
    kv_status status = kv_view_advance(store.view, &row, NULL, &next, &err);
    kv_mem_fail_nth(0, 0);
    ck_assert_str_eq(store_get(&store, store.view, "d"), "4");
    if (status == KV_OK) {
      kv_view_unref(store.view);
      store.view = next;
      break;
    }
    ck_assert_int_eq(status, KV_NOMEM);
    ck_assert_ptr_null(next);
    failures++;
  }
  ck_assert_int_gt(failures, 1);
  kv_batch_rollback(store.batch, empty);
  ck_assert_str_eq(store_get(&store, store.view, "e"), "9");
}
END_TEST

START_TEST(facts_of_files) {
  uint64_t raw = 0;
  struct kv_err err;
  fill();
  store_reopen(&store);
  ck_assert_int_eq(kv_view_file_raw_bytes(store.view, 1, &raw, &err), KV_OK);
  ck_assert_uint_eq(raw, 4);
  store_reopen(&store);
  kv_env_fault_set(store.env, KV_FAULT_OPEN, 1, false, KV_IO);
  ck_assert_int_eq(kv_view_file_raw_bytes(store.view, 0, &raw, &err), KV_IO);
}
END_TEST

START_TEST(rows_and_generations_follow_the_log) {
  store.catalog.table_rows = 0;
  store_put(&store, "a", "1");
  store_put(&store, "b", "1");
  store_commit(&store);
  ck_assert_int_eq(kv_view_rows(store.view), 2);
  uint64_t bytes = kv_view_gen_bytes(store.view);
  ck_assert_uint_eq(kv_view_gen(store.view), 1);
  ck_assert_uint_gt(bytes, 0);
  store_rotate(&store);
  store_delete(&store, "a");
  store_commit(&store);
  ck_assert_int_eq(kv_view_rows(store.view), 1);
  ck_assert_uint_eq(kv_view_gen(store.view), 2);
  ck_assert_uint_eq(kv_view_log_bytes(store.view), bytes + kv_view_gen_bytes(store.view));
  store_flush(&store);
  ck_assert_int_eq(kv_view_rows(store.view), 1);
  ck_assert_uint_eq(kv_view_log_bytes(store.view), 0);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("view");
  TCase *tests = tcase_create("view");
  tcase_add_checked_fixture(tests, open_store, close_store);
  tcase_add_test(tests, empty_snapshot_has_nothing);
  tcase_add_test(tests, more_rows_than_files_and_log_can_hold_are_refused);
  tcase_add_test(tests, files_in_any_order_become_runs_newest_first);
  tcase_add_test(tests, file_of_a_run_is_found_by_key);
  tcase_add_test(tests, manifest_that_contradicts_itself_is_corrupt);
  tcase_add_test(tests, overlap_names_both_files);
  tcase_add_test(tests, new_without_memory_leaves_nothing);
  tcase_add_test(tests, failing_source_fails_the_view);
  tcase_add_test(tests, views_of_one_snapshot_replay_the_log_once);
  tcase_add_test(tests, following_view_has_the_newer_rows_over_the_same_files);
  tcase_add_test(tests, following_without_memory_changes_nothing);
  tcase_add_test(tests, view_stays_as_it_was_while_the_store_goes_on);
  tcase_add_test(tests, old_snapshot_is_rebuilt_from_its_own_rows);
  tcase_add_test(tests, advanced_view_equals_one_built_anew);
  tcase_add_test(tests, own_commits_are_not_replayed);
  tcase_add_test(tests, row_and_edit_in_one_commit);
  tcase_add_test(tests, edit_over_other_files_or_an_older_mark_is_busy);
  tcase_add_test(tests, advance_without_memory_leaves_the_base_and_can_be_replaced);
  tcase_add_test(tests, facts_of_files);
  tcase_add_test(tests, rows_and_generations_follow_the_log);
  suite_add_tcase(suite, tests);
  return harness_run(suite);
}
