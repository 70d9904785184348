/* The shared log memory: each way in which a snapshot meets it, damage, other timelines, own commits,
** failing allocations. Random histories are in test_log_model.c. */
#include "log.h"

#include "log_sim.h"

static struct kv_log *the_log;
static struct kv_stats the_stats;
static struct line the_line;

static void setup(void) {
  harness_seed(&random_numbers, 1);
  memset(&the_stats, 0, sizeof the_stats);
  memset(&the_line, 0, sizeof the_line);
  ck_assert_int_eq(kv_log_new(uuid, NULL, NULL, &the_stats, &the_log, NULL), KV_OK);
}

static void teardown(void) {
  kv_log_free(the_log);
  free_rows();
  ck_assert_int_eq(kv_mem_live_blocks(), 0);
}

/* Reads the timeline, checks the window, returns how many rows the source was asked for. */
static int read_rows(const struct line *line) {
  struct source source = {.line = line};
  struct kv_log_window window;
  struct kv_err err = {0};
  kv_status status = read_from(the_log, &source, &window, &err);
  ck_assert_msg(status == KV_OK, "%s", err.text);
  check_window(&window, line);
  kv_log_window_release(&window);
  return source.rows_given;
}

static kv_status read_error(const struct line *line, struct kv_err *err) {
  struct source source = {.line = line};
  struct kv_log_window window;
  kv_status status = read_from(the_log, &source, &window, err);
  kv_log_window_release(&window);
  return status;
}

static uint64_t replayed(void) {
  return kv_stats_get(&the_stats, KV_STAT_LOG_ROWS_REPLAYED);
}

START_TEST(empty_log_asks_nothing) {
  ck_assert_int_eq(read_rows(&the_line), 0);
  append_n(&the_line, 5, 1);
  the_line.flushed = 5;
  ck_assert_int_eq(read_rows(&the_line), 0);
}
END_TEST

START_TEST(held_window_asks_nothing) {
  append_n(&the_line, 5, 1);
  append_n(&the_line, 5, 2);
  ck_assert_int_eq(read_rows(&the_line), 10);
  ck_assert_int_eq(read_rows(&the_line), 0);
  struct line older = the_line;
  older.last = 3;
  ck_assert_int_eq(read_rows(&older), 0);
  the_line.flushed = 7;
  ck_assert_int_eq(read_rows(&the_line), 0);
  ck_assert_uint_eq(replayed(), 10);
}
END_TEST

START_TEST(later_snapshot_replays_unseen_rows_only) {
  append_n(&the_line, 5, 1);
  read_rows(&the_line);
  append_n(&the_line, 2, 1);
  append_n(&the_line, 1, 2);
  ck_assert_int_eq(read_rows(&the_line), 1 + 3);
  ck_assert_uint_eq(replayed(), 8);
  the_line.flushed = 8;
  the_line.deleted = 8;
  append_n(&the_line, 1, 3);
  ck_assert_int_eq(read_rows(&the_line), 1);
  ck_assert_uint_eq(replayed(), 9);
}
END_TEST

START_TEST(memory_wholly_flushed_starts_afresh) {
  append_n(&the_line, 5, 1);
  read_rows(&the_line);
  append_n(&the_line, 5, 2);
  the_line.flushed = the_line.deleted = 8;
  ck_assert_int_eq(read_rows(&the_line), 2);
  ck_assert_int_eq(read_rows(&the_line), 0);
}
END_TEST

START_TEST(generations_begin_anew_when_all_was_flushed) {
  append_n(&the_line, 3, 1);
  append_n(&the_line, 2, 5);
  read_rows(&the_line);
  the_line.flushed = the_line.deleted = 5;
  append_n(&the_line, 2, 1);
  ck_assert_int_eq(read_rows(&the_line), 2);
  append_n(&the_line, 1, 2);
  ck_assert_int_eq(read_rows(&the_line), 1 + 1);
}
END_TEST

START_TEST(rows_beyond_the_snapshot_are_not_asked) {
  append_n(&the_line, 6, 1);
  struct line own = the_line; /* the source shows the own, uncommitted row 6 */
  struct source source = {.line = &own};
  struct kv_log_source calls = {source_open, source_next, &source};
  the_line.last = 5;
  struct kv_log_state state = state_of(&the_line);
  struct kv_log_window window;
  ck_assert_int_eq(kv_log_read(the_log, &state, &calls, &window, NULL), KV_OK);
  check_window(&window, &the_line);
  kv_log_window_release(&window);
  ck_assert_int_eq(source.rows_given, 5);
}
END_TEST

START_TEST(trimmed_past_gets_private_memtables) {
  append_n(&the_line, 5, 1);
  append_n(&the_line, 5, 2);
  struct line old = the_line;
  old.last = 7;
  the_line.flushed = 5;
  read_rows(&the_line);
  kv_log_trim(the_log, 5);
  ck_assert_int_eq(read_rows(&old), 7);
  ck_assert_int_eq(read_rows(&the_line), 0);
  ck_assert_int_eq(read_rows(&old), 7);
  ck_assert_int_eq(read_rows(&the_line), 0);
}
END_TEST

START_TEST(memory_that_serves_nobody_is_replaced) {
  append_n(&the_line, 10, 1);
  struct line old = the_line;
  the_line.flushed = 10;
  append_n(&the_line, 3, 2);
  read_rows(&the_line);
  for (int i = 0; i < 4; i++) ck_assert_int_eq(read_rows(&old), 10);
  ck_assert_int_eq(read_rows(&old), 10);
  ck_assert_int_eq(read_rows(&old), 0);
  ck_assert_int_eq(read_rows(&the_line), 3);
}
END_TEST

START_TEST(trim_drops_whole_generations_and_windows_keep_theirs) {
  append_n(&the_line, 4, 1);
  append_n(&the_line, 4, 2);
  append_n(&the_line, 4, 5);
  struct source source = {.line = &the_line};
  struct kv_log_window window;
  ck_assert_int_eq(read_from(the_log, &source, &window, NULL), KV_OK);
  size_t full = kv_log_bytes(the_log);
  kv_log_trim(the_log, 3);
  ck_assert_uint_eq(kv_log_bytes(the_log), full);
  kv_log_trim(the_log, 9);
  ck_assert_uint_lt(kv_log_bytes(the_log), full);
  check_window(&window, &the_line);
  kv_log_window_release(&window);
  the_line.flushed = 9;
  ck_assert_int_eq(read_rows(&the_line), 0);
  append_n(&the_line, 1, 5);
  ck_assert_int_eq(read_rows(&the_line), 2);
  kv_log_trim(the_log, 100);
  ck_assert_int_eq(read_rows(&the_line), 4);
}
END_TEST

/* An older copy restored: seq goes back and goes on with other commits. */
static struct line restored(uint64_t upto, int more, uint64_t gen) {
  struct line other = the_line;
  other.last = upto;
  append_n(&other, more, gen);
  return other;
}

START_TEST(another_timeline_replaces_memory) {
  append_n(&the_line, 10, 1);
  read_rows(&the_line);
  struct line shorter = restored(4, 3, 1), longer = restored(4, 20, 2);
  ck_assert_int_eq(read_rows(&shorter), 7);
  ck_assert_int_eq(read_rows(&shorter), 0);
  ck_assert_int_eq(read_rows(&longer), 1 + 24); /* one row to see that row 7 is another */
  ck_assert_int_eq(read_rows(&longer), 0);
  ck_assert_int_eq(read_rows(&the_line), 10);
}
END_TEST

START_TEST(another_timeline_after_its_flush) {
  append_n(&the_line, 10, 1);
  read_rows(&the_line);
  struct line other = restored(4, 8, 1);
  other.flushed = other.deleted = 10;
  ck_assert_int_eq(read_rows(&other), 2);
  ck_assert_int_eq(read_rows(&other), 0);
  other.flushed = other.deleted = 4; /* as it was before that flush: rows 5 to 10 are its own */
  ck_assert_int_eq(read_rows(&other), 8);
}
END_TEST

START_TEST(windows_of_an_abandoned_timeline_stay_right) {
  append_n(&the_line, 10, 1);
  struct source source = {.line = &the_line};
  struct kv_log_window window;
  ck_assert_int_eq(read_from(the_log, &source, &window, NULL), KV_OK);
  struct line other = restored(2, 30, 1);
  read_rows(&other);
  check_window(&window, &the_line);
  kv_log_window_release(&window);
}
END_TEST

/* ---- Damage: KV_CORRUPT with the seq, memory unchanged */

static void expect_corrupt(const struct line *bad, const char *part) {
  struct kv_err err = {0};
  ck_assert_int_eq(read_error(bad, &err), KV_CORRUPT);
  ck_assert_msg(strstr(err.text, part) != NULL, "%s", err.text);
}

/* A copy of the timeline whose row `seq` may be changed. */
static struct line with_own_row(uint64_t seq, struct sim_row *row) {
  struct line copy = the_line;
  *row = *the_line.rows[seq];
  copy.rows[seq] = row;
  return copy;
}

static void check_damage(void) {
  struct sim_row row;
  struct line bad = the_line;
  bad.rows[8] = NULL;
  expect_corrupt(&bad, "row 8 is missing");
  bad = with_own_row(10, &row);
  bad.rows[10] = NULL;
  expect_corrupt(&(struct line){.last = 0, .flushed = 1, .rows = {NULL, &row}},
                 "below the flushed");
  bad = with_own_row(8, &row);
  row.row.gen = 0;
  expect_corrupt(&bad, "row 8 has generation 0 after generation 1");
  row.row.gen = 1;
  row.row.seq = 7;
  expect_corrupt(&bad, "row 7 comes where row 8 should");
  row.row.seq = 8;
  row.row.batch.size--;
  expect_corrupt(&bad, "log batch 8");
  row.row.batch.size++;
  row.row.batch.data = the_line.rows[9]->row.batch.data;
  row.row.batch.size = the_line.rows[9]->row.batch.size;
  expect_corrupt(&bad, "log batch 8");
}

START_TEST(damaged_rows_of_a_cold_log_are_named) {
  append_n(&the_line, 10, 1);
  check_damage();
  ck_assert_int_eq(read_rows(&the_line), 10);
}
END_TEST

START_TEST(damaged_rows_of_an_extension_leave_memory_as_it_was) {
  append_n(&the_line, 6, 1);
  read_rows(&the_line);
  struct line before = the_line;
  append_n(&the_line, 4, 1);
  check_damage();
  ck_assert_int_eq(read_rows(&before), 0);
  ck_assert_int_eq(read_rows(&the_line), 1 + 4);
}
END_TEST

START_TEST(newest_row_must_be_the_snapshots) {
  for (int warm = 0; warm < 2; warm++) {
    append_n(&the_line, 3, 1);
    struct source source = {.line = &the_line};
    struct kv_log_source calls = {source_open, source_next, &source};
    struct kv_log_state state = state_of(&the_line);
    state.last_nonce ^= 1;
    struct kv_log_window window;
    struct kv_err err;
    ck_assert_int_eq(kv_log_read(the_log, &state, &calls, &window, &err), KV_CORRUPT);
    ck_assert_ptr_nonnull(strstr(err.text, "another nonce"));
    state.last_seq++;
    ck_assert_int_eq(kv_log_read(the_log, &state, &calls, &window, &err), KV_CORRUPT);
    ck_assert_ptr_nonnull(strstr(err.text, "is missing"));
    read_rows(&the_line);
  }
}
END_TEST

START_TEST(failing_source_passes_its_error_on) {
  append_n(&the_line, 6, 1);
  for (int warm = 0; warm < 2; warm++) {
    for (int nth = 1; nth <= 4; nth++) {
      struct source source = {.line = &the_line, .fail_in = nth};
      struct kv_log_window window;
      struct kv_err err;
      ck_assert_int_eq(read_from(the_log, &source, &window, &err), KV_IO);
      ck_assert_str_eq(err.text, "no row today");
      ck_assert_uint_eq(window.table_count, 0);
    }
    read_rows(&the_line);
    append_n(&the_line, 4, 2);
  }
}
END_TEST

/* ---- Own commits */

static struct kv_log_window window_of(const struct line *line) {
  struct source source = {.line = line};
  struct kv_log_window window;
  ck_assert_int_eq(read_from(the_log, &source, &window, NULL), KV_OK);
  return window;
}

/* Advances `base` by the newest row of the_line (or none) and its flushed mark. */
static kv_status advance(const struct kv_log_window *base, bool with_row,
                         struct kv_log_window *window) {
  const struct kv_log_row *row = with_row ? &the_line.rows[the_line.last]->row : NULL;
  return kv_log_advance(the_log, base, row, the_line.flushed, nonce_at(&the_line, the_line.flushed),
                        window, NULL);
}

static void expect_advance(const struct kv_log_window *base, bool with_row) {
  struct kv_log_window window;
  ck_assert_int_eq(advance(base, with_row, &window), KV_OK);
  check_window(&window, &the_line);
  kv_log_window_release(&window);
  ck_assert_int_eq(read_rows(&the_line), 0);
}

START_TEST(own_commits_need_no_replay) {
  struct kv_log_window base = window_of(&the_line);
  append_n(&the_line, 1, 1);
  expect_advance(&base, true);
  for (int i = 0; i < 10; i++) {
    kv_log_window_release(&base);
    base = window_of(&the_line);
    append(&the_line, 1 + (uint64_t)i / 3);
    expect_advance(&base, true);
  }
  ck_assert_uint_eq(replayed(), 0);
  ck_assert_uint_eq(kv_stats_get(&the_stats, KV_STAT_COMMITS), 11);
  kv_log_window_release(&base);
}
END_TEST

START_TEST(own_publish_moves_the_flushed_mark) {
  append_n(&the_line, 5, 1);
  struct kv_log_window base = window_of(&the_line);
  the_line.flushed = 5;
  append_n(&the_line, 1, 2);
  expect_advance(&base, true);
  kv_log_window_release(&base);
  base = window_of(&the_line);
  the_line.flushed = 6;
  expect_advance(&base, false);
  kv_log_window_release(&base);
  base = window_of(&the_line);
  the_line.flushed = 7;
  append_n(&the_line, 1, 2);
  expect_advance(&base, true); /* the row itself is in files already: not kept in memory */
  kv_log_window_release(&base);
  base = window_of(&the_line);
  append_n(&the_line, 1, 3);
  expect_advance(&base, true);
  kv_log_window_release(&base);
}
END_TEST

START_TEST(foreign_commit_in_between_is_busy) {
  append_n(&the_line, 3, 1);
  struct kv_log_window base = window_of(&the_line), window;
  struct line foreign = the_line;
  append(&foreign, 1);
  read_rows(&foreign);
  append(&the_line, 1); /* another row 4 */
  ck_assert_int_eq(advance(&base, true, &window), KV_BUSY);
  ck_assert_uint_eq(window.table_count, 0);
  ck_assert_int_eq(read_rows(&foreign), 0);
  kv_log_window_release(&base);
}
END_TEST

START_TEST(own_commit_that_another_connection_replayed_already) {
  append_n(&the_line, 3, 1);
  struct kv_log_window base = window_of(&the_line);
  append(&the_line, 1);
  read_rows(&the_line);
  append(&the_line, 1);
  read_rows(&the_line);
  the_line.last = 4;
  expect_advance(&base, true);
  kv_log_window_release(&base);
}
END_TEST

START_TEST(memory_that_ends_elsewhere_is_busy) {
  append_n(&the_line, 3, 1);
  struct kv_log_window base = window_of(&the_line), window;
  struct line other = restored(1, 2, 1);
  read_rows(&other);
  append(&the_line, 1);
  ck_assert_int_eq(advance(&base, true, &window), KV_BUSY);
  ck_assert_int_eq(read_rows(&other), 0);
  kv_log_trim(the_log, 100);
  ck_assert_int_eq(advance(&base, true, &window), KV_BUSY);
  kv_log_window_release(&base);
}
END_TEST

START_TEST(advance_refuses_what_cannot_follow) {
  append_n(&the_line, 4, 1);
  the_line.flushed = 2;
  struct kv_log_window base = window_of(&the_line), window;
  append_n(&the_line, 2, 1);
  ck_assert_int_eq(advance(&base, true, &window), KV_MISUSE);
  the_line.flushed = 1;
  ck_assert_int_eq(advance(&base, false, &window), KV_MISUSE);
  the_line.flushed = 5;
  ck_assert_int_eq(advance(&base, false, &window), KV_MISUSE);
  the_line.flushed = 2;
  struct kv_log_row row = the_line.rows[5]->row;
  row.batch.size--;
  ck_assert_int_eq(kv_log_advance(the_log, &base, &row, 2, 0, &window, NULL), KV_CORRUPT);
  row.batch.size++;
  row.gen = 0;
  ck_assert_int_eq(kv_log_advance(the_log, &base, &row, 2, 0, &window, NULL), KV_CORRUPT);
  the_line.last = 5;
  expect_advance(&base, true);
  kv_log_window_release(&base);
}
END_TEST

/* ---- Memory runs out */

START_TEST(failed_allocation_leaves_a_valid_memory) {
  int failures = 0;
  for (uint64_t nth = 1;; nth++) {
    teardown();
    setup();
    append_n(&the_line, 3, 1);
    struct kv_log_window base = {0}, window = {0};
    struct source cold = {.line = &the_line};
    kv_mem_fail_nth(nth, nth % 2);
    kv_status status = read_from(the_log, &cold, &base, NULL);
    kv_mem_fail_nth(0, 0);
    kv_log_window_release(&base);
    if (status) failures++;
    bool failed = status != KV_OK;
    base = window_of(&the_line);
    append(&the_line, 1 + (uint64_t)_i);
    kv_mem_fail_nth(nth, nth % 2);
    status = advance(&base, true, &window);
    kv_mem_fail_nth(0, 0);
    ck_assert(status == KV_OK || status == KV_NOMEM);
    if (status) ck_assert_int_eq(read_rows(&the_line), 2);
    kv_log_window_release(&window);
    append_n(&the_line, 10, 2);
    append_n(&the_line, 10, 3);
    struct source warm = {.line = &the_line};
    kv_mem_fail_nth(nth, nth % 2);
    kv_status extended = read_from(the_log, &warm, &window, NULL);
    kv_mem_fail_nth(0, 0);
    ck_assert(extended == KV_OK || extended == KV_NOMEM);
    kv_log_window_release(&window);
    kv_log_window_release(&base);
    ck_assert_int_le(read_rows(&the_line), 21);
    ck_assert_int_eq(read_rows(&the_line), 0);
    if (!failed && !status && !extended) break;
  }
  ck_assert_int_gt(failures, 5);
}
END_TEST

START_TEST(new_log_without_memory_leaves_nothing) {
  struct kv_log *log;
  for (uint64_t nth = 1; nth <= 2; nth++) {
    kv_mem_fail_nth(nth, 0);
    ck_assert_int_eq(kv_log_new(uuid, NULL, NULL, NULL, &log, NULL), KV_NOMEM);
    kv_mem_fail_nth(0, 0);
  }
  kv_log_free(NULL);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("log");
  TCase *tests = tcase_create("log");
  tcase_set_timeout(tests, 60);
  tcase_add_checked_fixture(tests, setup, teardown);
  tcase_add_test(tests, empty_log_asks_nothing);
  tcase_add_test(tests, held_window_asks_nothing);
  tcase_add_test(tests, later_snapshot_replays_unseen_rows_only);
  tcase_add_test(tests, memory_wholly_flushed_starts_afresh);
  tcase_add_test(tests, generations_begin_anew_when_all_was_flushed);
  tcase_add_test(tests, rows_beyond_the_snapshot_are_not_asked);
  tcase_add_test(tests, trimmed_past_gets_private_memtables);
  tcase_add_test(tests, memory_that_serves_nobody_is_replaced);
  tcase_add_test(tests, trim_drops_whole_generations_and_windows_keep_theirs);
  tcase_add_test(tests, another_timeline_replaces_memory);
  tcase_add_test(tests, another_timeline_after_its_flush);
  tcase_add_test(tests, windows_of_an_abandoned_timeline_stay_right);
  tcase_add_test(tests, damaged_rows_of_a_cold_log_are_named);
  tcase_add_test(tests, damaged_rows_of_an_extension_leave_memory_as_it_was);
  tcase_add_test(tests, newest_row_must_be_the_snapshots);
  tcase_add_test(tests, failing_source_passes_its_error_on);
  tcase_add_test(tests, own_commits_need_no_replay);
  tcase_add_test(tests, own_publish_moves_the_flushed_mark);
  tcase_add_test(tests, foreign_commit_in_between_is_busy);
  tcase_add_test(tests, own_commit_that_another_connection_replayed_already);
  tcase_add_test(tests, memory_that_ends_elsewhere_is_busy);
  tcase_add_test(tests, advance_refuses_what_cannot_follow);
  tcase_add_loop_test(tests, failed_allocation_leaves_a_valid_memory, 0, 2);
  tcase_add_test(tests, new_log_without_memory_leaves_nothing);
  suite_add_tcase(suite, tests);
  return harness_run(suite);
}
