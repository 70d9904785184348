/* Jobs: when there is work, flush and compaction, splitting, verification, failures. */
#include <stdio.h>
#include <string.h>

#include "catalog.h"
#include "mem.h"
#include "table_read.h"

static struct store store;

static void open_store(void) {
  store_init(&store, 6, 1 << 20);
}

static void close_store(void) {
  store_release(&store);
}

static void put_many(const char *prefix, int first, int end, const char *value) {
  char key[32];
  for (int i = first; i < end; i++) {
    snprintf(key, sizeof key, "%s%05d", prefix, i);
    store_put(&store, key, value);
  }
}

static const struct kv_file_info *file(size_t index) {
  return kv_view_file(store.view, index);
}

/* ---- What to do */

START_TEST(view_says_when_work_is_due) {
  struct kv_options options = kv_family_options(store.family);
  options.memtable_bytes = 16384;
  kv_family_set_options(store.family, &options);
  int merges = 0;
  for (int round = 0; round < 300; round++) {
    put_many("k", round % 7 * 1000, round % 7 * 1000 + 20 + round,
             "a value of about fifty bytes, so that the log grows");
    store_commit(&store);
    struct kv_work work = kv_view_work(store.view);
    ck_assert_int_eq(work.flush, kv_view_log_bytes(store.view) > 16384);
    if (work.flush) store_flush(&store);
    work = kv_view_work(store.view);
    ck_assert(!work.flush);
    if (work.merge) store_job(&store, KV_JOB_MERGE);
    merges += work.merge;
    ck_assert_uint_lt(kv_view_run_count(store.view), 12);
  }
  ck_assert_int_gt(merges, 5);
}
END_TEST

/* ---- Flush */

START_TEST(flush_makes_one_run_of_every_generation) {
  put_many("a", 0, 100, "1");
  store_commit(&store);
  store_rotate(&store);
  put_many("a", 50, 150, "2");
  store_delete(&store, "a00000");
  store_commit(&store);
  store_flush(&store);
  ck_assert_uint_eq(kv_view_run_count(store.view), 1);
  ck_assert_uint_eq(kv_view_file_count(store.view), 1);
  ck_assert_uint_eq(file(0)->level, 0);
  ck_assert_uint_eq(file(0)->seq, 2);
  ck_assert_uint_eq(file(0)->entries, 149); /* with nothing older the tombstone is of no use */
  ck_assert_uint_eq(file(0)->tombstones, 0);
  ck_assert_uint_eq(kv_view_log(store.view)->flushed_seq, 2);
  ck_assert_uint_eq(kv_view_log(store.view)->flushed_nonce, kv_view_log(store.view)->last_nonce);
  ck_assert_str_eq(store_get(&store, store.view, "a00000"), "-");
  ck_assert_str_eq(store_get(&store, store.view, "a00049"), "1");
  ck_assert_str_eq(store_get(&store, store.view, "a00050"), "2");
  ck_assert_uint_eq(store_stat(&store, KV_STAT_FLUSHES), 1);
  ck_assert_uint_eq(store_stat(&store, KV_STAT_FLUSH_BYTES), file(0)->bytes);
}
END_TEST

START_TEST(flush_keeps_tombstones_that_may_hide_something) {
  put_many("a", 0, 10, "1");
  store_commit(&store);
  store_flush(&store);
  store_delete(&store, "a00003");
  store_delete(&store, "a00003, never there");
  store_delete(&store, "never there, and beside the run");
  store_commit(&store);
  store_flush(&store);
  ck_assert_uint_eq(kv_view_run_count(store.view), 2);
  ck_assert_uint_eq(file(0)->tombstones, 2);
  ck_assert_str_eq(store_get(&store, store.view, "a00003"), "-");
  ck_assert_str_eq(store_get(&store, store.view, "a00004"), "1");
}
END_TEST

static const struct kv_edit *finished(enum kv_job_kind kind, struct kv_job **job) {
  struct kv_err err = {.status = KV_OK};
  ck_assert_int_eq(kv_job_new(store.view, kind, job, &err), KV_OK);
  ck_assert_msg(store_run(*job, &err) == KV_OK, "%s", err.text);
  return kv_job_edit(*job);
}

/* Nothing added, nothing removed, the mark where the view has it. */
static void expect_nothing_to_do(enum kv_job_kind kind) {
  struct kv_job *job = NULL;
  uint64_t done = 9, total = 9;
  const struct kv_edit *edit = finished(kind, &job);
  ck_assert_uint_eq(edit->added_count, 0);
  ck_assert_uint_eq(edit->removed_count, 0);
  ck_assert_uint_eq(edit->flushed_seq, kv_view_log(store.view)->flushed_seq);
  ck_assert_uint_eq(edit->flushed_nonce, kv_view_log(store.view)->flushed_nonce);
  ck_assert_int_eq(edit->rows, kv_view_rows(store.view));
  kv_job_progress(job, &done, &total);
  ck_assert_uint_eq(done, 0);
  ck_assert_uint_eq(total, 0);
  kv_job_free(job);
}

/* A job that takes the pending batch in, as the commit 100. */
static struct kv_job *run_with_batch(enum kv_job_kind kind) {
  struct kv_log_row row = {.seq = 100, .nonce = 77, .gen = 9, .rows = 1234};
  struct kv_err err;
  struct kv_job *job = NULL;
  ck_assert_int_eq(kv_job_new_commit(store.view, kind, store.batch, &row, &job, &err), KV_OK);
  ck_assert_int_eq(store_run(job, &err), KV_OK);
  return job;
}

START_TEST(flush_with_a_batch_covers_its_commit) {
  put_many("a", 0, 100, "1");
  store_commit(&store);
  store_flush(&store);
  put_many("a", 50, 60, "2");
  store_commit(&store);
  put_many("b", 0, 10, "3");
  store_delete(&store, "a00000");
  store_delete(&store, "a00055");
  struct kv_job *job = run_with_batch(KV_JOB_FLUSH);
  const struct kv_edit *edit = kv_job_edit(job);
  ck_assert_uint_eq(edit->flushed_seq, 100);
  ck_assert_uint_eq(edit->flushed_nonce, 77);
  ck_assert_int_eq(edit->rows, 1234);
  ck_assert_uint_eq(edit->removed_count, 0);
  ck_assert_uint_eq(edit->added_count, 1);
  ck_assert_uint_eq(edit->added[0].seq, 100);
  ck_assert_uint_eq(edit->added[0].entries, 21);
  ck_assert_uint_eq(edit->added[0].tombstones, 2);
  kv_job_free(job);
  ck_assert_uint_eq(store_files(&store), 1);
}
END_TEST

/* Somebody waits for it; the merge that is due then compresses it. */
START_TEST(a_first_flush_with_a_batch_is_plain_and_goes_down_next) {
  struct kv_options options = kv_family_options(store.family);
  options.memtable_bytes = 16384;
  kv_family_set_options(store.family, &options);
  put_many("a", 0, 5000, "the same value");
  struct kv_job *job = run_with_batch(KV_JOB_FLUSH);
  const struct kv_edit *edit = kv_job_edit(job);
  struct kv_view *next = NULL;
  uint64_t bytes = 0;
  for (size_t i = 0; i < edit->added_count; i++) {
    ck_assert_uint_eq(edit->added[i].level, 0);
    bytes += edit->added[i].bytes;
  }
  ck_assert_uint_ge(bytes, 5000 * 16);
  ck_assert_int_eq(kv_view_overlay(store.view, edit, 5000, &next, NULL), KV_OK);
  ck_assert(kv_view_work(next).merge);
  kv_view_unref(next);
  kv_job_free(job);
}
END_TEST

START_TEST(compaction_with_a_batch_takes_everything) {
  put_many("a", 0, 100, "1");
  store_commit(&store);
  store_flush(&store);
  put_many("a", 90, 110, "2");
  store_delete(&store, "a00000");
  struct kv_job *job = run_with_batch(KV_JOB_COMPACT);
  const struct kv_edit *edit = kv_job_edit(job);
  ck_assert_uint_eq(edit->removed_count, 1);
  ck_assert_uint_eq(edit->added_count, 1);
  ck_assert_uint_eq(edit->added[0].entries, 109);
  ck_assert_uint_eq(edit->added[0].tombstones, 0);
  kv_job_free(job);
}
END_TEST

START_TEST(commit_below_the_view_is_misuse) {
  store_put(&store, "a", "1");
  store_commit(&store);
  struct kv_log_row row = {.seq = kv_view_log(store.view)->last_seq};
  struct kv_err err;
  struct kv_job *job = NULL;
  ck_assert_int_eq(kv_job_new_commit(store.view, KV_JOB_FLUSH, store.batch, &row, &job, &err),
                   KV_MISUSE);
  ck_assert_ptr_null(job);
}
END_TEST

START_TEST(flush_without_log_rows_does_nothing) {
  expect_nothing_to_do(KV_JOB_FLUSH);
  store_put(&store, "a", "1");
  store_commit(&store);
  store_flush(&store);
  store_put(&store, "a", "2");
  store_commit(&store);
  store_flush(&store);
  expect_nothing_to_do(KV_JOB_FLUSH);
  ck_assert_uint_eq(store_stat(&store, KV_STAT_FLUSHES), 2);
}
END_TEST

START_TEST(flush_of_empty_commits_only_moves_the_mark) {
  struct kv_job *job = NULL;
  store_commit(&store);
  store_commit(&store);
  const struct kv_edit *edit = finished(KV_JOB_FLUSH, &job);
  ck_assert_uint_eq(edit->added_count, 0);
  ck_assert_uint_eq(edit->flushed_seq, 2);
  kv_job_free(job);
  store_flush(&store);
  ck_assert_uint_eq(kv_view_file_count(store.view), 0);
  ck_assert_uint_eq(kv_view_log(store.view)->flushed_seq, 2);
}
END_TEST

START_TEST(flush_sees_only_its_view) {
  struct kv_job *job = NULL;
  store_put(&store, "a", "1");
  store_commit(&store);
  ck_assert_int_eq(kv_job_new(store.view, KV_JOB_FLUSH, &job, NULL), KV_OK);
  uint64_t flushed = kv_view_log(store.view)->flushed_seq;
  store_put(&store, "a", "2");
  store_put(&store, "b", "2");
  store_commit(&store);
  ck_assert_int_eq(store_run(job, NULL), KV_OK);
  const struct kv_edit *edit = kv_job_edit(job);
  ck_assert_uint_eq(edit->added_count, 1);
  ck_assert_uint_eq(edit->added[0].entries, 1);
  ck_assert_uint_eq(edit->flushed_seq, 1);
  /* and is published over the newer state */
  ck_assert_int_eq(catalog_publish(&store.catalog, edit, flushed), KV_OK);
  struct kv_view *next = NULL;
  ck_assert_int_eq(kv_view_advance(store.view, NULL, edit, &next, NULL), KV_OK);
  kv_job_keep_files(job);
  kv_job_free(job);
  kv_view_unref(store.view);
  store.view = next;
  ck_assert_str_eq(store_get(&store, next, "a"), "2");
  ck_assert_str_eq(store_get(&store, next, "b"), "2");
  store_reopen(&store);
  ck_assert_str_eq(store_get(&store, store.view, "a"), "2");
}
END_TEST

/* ---- Compaction */

START_TEST(compaction_makes_one_clean_run_of_everything) {
  put_many("a", 0, 100, "1");
  store_commit(&store);
  store_flush(&store);
  put_many("a", 50, 150, "2");
  for (int i = 0; i < 10; i++) {
    char key[32];
    snprintf(key, sizeof key, "a%05d", i);
    store_delete(&store, key);
  }
  store_commit(&store);
  store_flush(&store);
  store_put(&store, "a00020", "3");
  store_delete(&store, "a00149");
  store_commit(&store);
  uint64_t bytes = file(0)->bytes + file(1)->bytes;
  store_compact(&store);
  ck_assert_uint_eq(kv_view_run_count(store.view), 1);
  ck_assert_uint_eq(file(0)->level, 1);
  ck_assert_uint_eq(file(0)->seq, 3);
  ck_assert_uint_eq(file(0)->entries, 139);
  ck_assert_uint_eq(file(0)->tombstones, 0);
  ck_assert_uint_eq(store_files(&store), 1);
  ck_assert_str_eq(store_get(&store, store.view, "a00009"), "-");
  ck_assert_str_eq(store_get(&store, store.view, "a00010"), "1");
  ck_assert_str_eq(store_get(&store, store.view, "a00020"), "3");
  ck_assert_str_eq(store_get(&store, store.view, "a00050"), "2");
  ck_assert_str_eq(store_get(&store, store.view, "a00149"), "-");
  ck_assert_uint_eq(store_stat(&store, KV_STAT_COMPACTIONS), 1);
  ck_assert_uint_eq(store_stat(&store, KV_STAT_COMPACT_BYTES_READ), bytes);
  ck_assert_uint_eq(store_stat(&store, KV_STAT_COMPACT_BYTES_WRITTEN), file(0)->bytes);
}
END_TEST

START_TEST(compaction_of_what_is_all_deleted_only_removes) {
  struct kv_job *job = NULL;
  put_many("a", 0, 100, "1");
  store_commit(&store);
  store_flush(&store);
  char key[32];
  for (int i = 0; i < 100; i++) {
    snprintf(key, sizeof key, "a%05d", i);
    store_delete(&store, key);
  }
  store_commit(&store);
  const struct kv_edit *edit = finished(KV_JOB_COMPACT, &job);
  ck_assert_uint_eq(edit->added_count, 0);
  ck_assert_uint_eq(edit->removed_count, 1);
  ck_assert_uint_eq(edit->removed[0], file(0)->id);
  ck_assert_uint_eq(edit->flushed_seq, 2);
  kv_job_free(job);
  store_compact(&store);
  ck_assert_uint_eq(kv_view_file_count(store.view), 0);
  ck_assert_uint_eq(store_files(&store), 0);
  ck_assert_str_eq(store_get(&store, store.view, "a00001"), "-");
  expect_nothing_to_do(KV_JOB_COMPACT);
}
END_TEST

/* Compressed as the option says: a flush has done it faster. */
START_TEST(compaction_of_a_clean_single_run_does_nothing) {
  struct kv_options options = kv_family_options(store.family);
  expect_nothing_to_do(KV_JOB_COMPACT);
  put_many("a", 0, 10, "1");
  store_commit(&store);
  options.compression_level = 1;
  kv_family_set_options(store.family, &options);
  store_flush(&store);
  expect_nothing_to_do(KV_JOB_COMPACT);
  options.compression_level = 3;
  kv_family_set_options(store.family, &options);
  store_put(&store, "b", "1");
  store_commit(&store);
  store_compact(&store);
  expect_nothing_to_do(KV_JOB_COMPACT);
  ck_assert_uint_eq(store_stat(&store, KV_STAT_COMPACTIONS), 1);
}
END_TEST

START_TEST(compaction_of_a_run_compressed_otherwise_compresses_it) {
  put_many("a", 0, 10, "1");
  store_commit(&store);
  store_flush(&store);
  uint64_t id = kv_view_file(store.view, 0)->id;
  store_compact(&store);
  ck_assert_uint_ne(kv_view_file(store.view, 0)->id, id);
  ck_assert_str_eq(store_get(&store, store.view, "a00003"), "1");
  expect_nothing_to_do(KV_JOB_COMPACT);
}
END_TEST

/* Only another program's flush can leave it, or a later format; it is cleaned all the same. */
START_TEST(compaction_of_a_single_run_with_tombstones_cleans_it) {
  put_many("a", 0, 10, "1");
  store_commit(&store);
  store_flush(&store);
  store_delete(&store, "a00001");
  store_commit(&store);
  store_flush(&store);
  kv_view_unref(store.view);
  struct catalog *catalog = &store.catalog;
  size_t older = catalog->files[0].tombstones ? 1 : 0;
  kv_file_info_release(&catalog->files[older]);
  catalog->files[older] = catalog->files[--catalog->file_count];
  store.view = store_view(&store);
  ck_assert_uint_eq(file(0)->tombstones, 1);
  store_compact(&store);
  ck_assert_uint_eq(kv_view_file_count(store.view), 0);
}
END_TEST

/* ---- Splitting and stepping */

START_TEST(output_is_split_into_disjoint_files) {
  char value[64];
  struct harness_random random;
  harness_seed(&random, 9);
  for (int round = 0; round < 2; round++) {
    for (int i = 0; i < 2000; i++) {
      snprintf(value, sizeof value, "%016llx%016llx", (unsigned long long)harness_next(&random),
               (unsigned long long)harness_next(&random));
      put_many("k", i, i + 1, value);
    }
    store_commit(&store);
    store.file_bytes = 8192;
    store_job(&store, round ? KV_JOB_COMPACT : KV_JOB_FLUSH);
    ck_assert_uint_eq(kv_view_run_count(store.view), 1);
    ck_assert_uint_gt(kv_view_file_count(store.view), 5);
    uint64_t entries = 0;
    for (size_t i = 0; i < kv_view_file_count(store.view); i++) {
      entries += file(i)->entries;
      ck_assert_uint_lt(file(i)->bytes, 8192 + 4096);
      ck_assert_uint_eq(file(i)->seq, (uint64_t)round + 1);
    }
    ck_assert_uint_eq(entries, 2000);
    ck_assert_uint_eq(store_files(&store), kv_view_file_count(store.view));
  }
}
END_TEST

START_TEST(a_step_is_bounded) {
  struct kv_job *job = NULL;
  uint64_t done = 0, total = 0, before = 0;
  bool finish = false;
  put_many("k", 0, 1000, "123456789");
  store_commit(&store);
  ck_assert_int_eq(kv_job_new(store.view, KV_JOB_FLUSH, &job, NULL), KV_OK);
  kv_job_set_step_bytes(job, 160);
  int steps = 0;
  while (!finish) {
    ck_assert_int_eq(kv_job_step(job, &finish, NULL), KV_OK);
    kv_job_progress(job, &done, &total);
    ck_assert_uint_le(done - before, 10);
    ck_assert_uint_le(done, total);
    before = done;
    steps++;
  }
  ck_assert_int_ge(steps, 101);
  ck_assert_uint_eq(done, 1000);
  ck_assert_uint_eq(total, 1000);
  finish = false;
  ck_assert_int_eq(kv_job_step(job, &finish, NULL), KV_OK); /* a finished job stays finished */
  ck_assert(finish);
  kv_job_free(job);
}
END_TEST

/* Blocks are read back one by one, so that a step is at most one over what it may be. */
START_TEST(reading_back_is_bounded_by_steps_too) {
  char value[201];
  memset(value, 'v', 200);
  value[200] = 0;
  for (int bytes = 1; bytes <= 100000; bytes = bytes == 1 ? 20000 : bytes + 80000) {
    struct kv_job *job = NULL;
    bool finish = false;
    put_many("k", 0, 2000, value);
    store_commit(&store);
    ck_assert_int_eq(kv_job_new(store.view, KV_JOB_FLUSH, &job, NULL), KV_OK);
    kv_job_set_file_bytes(job, 4096);
    while (strcmp(kv_job_phase(job), "write") == 0)
      ck_assert_int_eq(kv_job_step(job, &finish, NULL), KV_OK);
    kv_job_set_step_bytes(job, (uint64_t)bytes);
    uint64_t blocks = kv_stats_get(kv_family_stats(store.family), KV_STAT_BLOCKS_READ);
    for (uint64_t before = blocks; !finish; before = blocks) {
      ck_assert_int_eq(kv_job_step(job, &finish, NULL), KV_OK);
      blocks = kv_stats_get(kv_family_stats(store.family), KV_STAT_BLOCKS_READ);
      ck_assert_uint_le(blocks - before, (uint64_t)(1 + bytes / 500));
    }
    kv_job_free(job);
    ck_assert_uint_eq(store_files(&store), 0);
  }
}
END_TEST

START_TEST(tombstones_that_go_are_bounded_by_steps_too) {
  struct kv_job *job = NULL;
  bool finish = false;
  char key[32];
  for (int i = 0; i < 5000; i++) {
    snprintf(key, sizeof key, "k%05d", i);
    store_delete(&store, key);
  }
  store_commit(&store);
  ck_assert_int_eq(kv_job_new(store.view, KV_JOB_FLUSH, &job, NULL), KV_OK);
  kv_job_set_step_bytes(job, 700);
  int steps = 0;
  for (; !finish; steps++) ck_assert_int_eq(kv_job_step(job, &finish, NULL), KV_OK);
  ck_assert_int_ge(steps, 50);
  ck_assert_uint_eq(kv_job_edit(job)->added_count, 0);
  kv_job_free(job);
}
END_TEST

/* ---- Ownership of the outputs */

START_TEST(files_go_with_the_job_unless_kept) {
  struct kv_job *job = NULL;
  put_many("k", 0, 500, "value");
  store_commit(&store);
  finished(KV_JOB_FLUSH, &job);
  ck_assert_uint_eq(store_files(&store), 1);
  kv_job_free(job);
  ck_assert_uint_eq(store_files(&store), 0);
  kv_job_free(NULL);
}
END_TEST

START_TEST(unfinished_job_leaves_no_file) {
  struct kv_job *job = NULL;
  bool done = false;
  put_many("k", 0, 500, "value");
  store_commit(&store);
  ck_assert_int_eq(kv_job_new(store.view, KV_JOB_FLUSH, &job, NULL), KV_OK);
  kv_job_set_step_bytes(job, 1000);
  kv_job_set_file_bytes(job, 1024);
  for (int i = 0; i < 3; i++) ck_assert_int_eq(kv_job_step(job, &done, NULL), KV_OK);
  ck_assert(!done);
  ck_assert_uint_gt(store_files(&store), 0);
  kv_job_free(job);
  ck_assert_uint_eq(store_files(&store), 0);
}
END_TEST

START_TEST(files_that_a_view_names_are_not_unlinked) {
  struct kv_job *job = NULL;
  struct kv_view *next = NULL;
  put_many("k", 0, 50, "value");
  store_commit(&store);
  const struct kv_edit *edit = finished(KV_JOB_FLUSH, &job);
  ck_assert_int_eq(catalog_publish(&store.catalog, edit, 0), KV_OK);
  ck_assert_int_eq(kv_view_advance(store.view, NULL, edit, &next, NULL), KV_OK);
  kv_job_free(job);
  ck_assert_uint_eq(store_files(&store), 1);
  kv_view_unref(store.view);
  store.view = next;
  ck_assert_str_eq(store_get(&store, next, "k00007"), "value");
}
END_TEST

START_TEST(of_two_jobs_over_one_view_the_second_is_late) {
  struct kv_job *first = NULL;
  struct kv_job *second = NULL;
  put_many("k", 0, 50, "value");
  store_commit(&store);
  store_flush(&store);
  put_many("k", 0, 50, "newer");
  store_commit(&store);
  uint64_t flushed = kv_view_log(store.view)->flushed_seq;
  const struct kv_edit *late = finished(KV_JOB_COMPACT, &second);
  finished(KV_JOB_COMPACT, &first);
  kv_job_free(first);
  store_compact(&store);
  ck_assert_int_eq(catalog_publish(&store.catalog, late, flushed), KV_BUSY);
  struct kv_view *view = NULL;
  ck_assert_int_eq(kv_view_advance(store.view, NULL, late, &view, NULL), KV_BUSY);
  kv_job_free(second);
  store_sweep(&store);
  ck_assert_uint_eq(store_files(&store), 1);
  ck_assert_str_eq(store_get(&store, store.view, "k00007"), "newer");
}
END_TEST

/* ---- What was written is what is read back */

static void step_past_merge(struct kv_job *job) {
  bool done = false;
  while (kv_job_edit(job)->added_count == 0) {
    ck_assert_int_eq(kv_job_step(job, &done, NULL), KV_OK);
    ck_assert(!done);
  }
}

START_TEST(output_damaged_before_it_is_read_back_fails_the_job) {
  put_many("k", 0, 20, "value");
  store_commit(&store);
  for (int64_t at = 0;; at++) {
    struct kv_job *job = NULL;
    struct kv_err err;
    bool done = false;
    ck_assert_int_eq(kv_job_new(store.view, KV_JOB_FLUSH, &job, NULL), KV_OK);
    step_past_merge(job);
    const struct kv_file_info *info = &kv_job_edit(job)->added[0];
    bool past = at >= (int64_t)info->bytes;
    if (!past) store_flip(&store, info->id, at);
    kv_status status = kv_job_step(job, &done, &err);
    ck_assert_int_eq(done, past);
    if (past) {
      ck_assert_int_eq(status, KV_OK);
      kv_job_free(job);
      break;
    }
    ck_assert(status == KV_CORRUPT || status == KV_VERSION);
    ck_assert_int_eq(kv_job_step(job, &done, &err), KV_MISUSE);
    kv_job_free(job);
    ck_assert_uint_eq(store_files(&store), 0);
  }
}
END_TEST

START_TEST(output_gone_before_it_is_read_back_fails_the_job) {
  struct kv_job *job = NULL;
  bool done = false;
  put_many("k", 0, 20, "value");
  store_commit(&store);
  ck_assert_int_eq(kv_job_new(store.view, KV_JOB_FLUSH, &job, NULL), KV_OK);
  step_past_merge(job);
  const char *path = store_path(&store, kv_job_edit(job)->added[0].id);
  ck_assert_int_eq(kv_env_remove(store.memory, path, NULL), KV_OK);
  ck_assert_int_eq(kv_job_step(job, &done, NULL), KV_MISSING);
  kv_job_free(job);
}
END_TEST

/* ---- Failures */

static void two_runs_and_a_log(void) {
  put_many("k", 0, 100, "bottom");
  store_commit(&store);
  store_flush(&store);
  put_many("k", 50, 150, "newer");
  store_commit(&store);
  store_flush(&store);
  put_many("k", 75, 80, "log");
  store_delete(&store, "k00001");
  store_commit(&store);
}

static void expect_contents(void) {
  ck_assert_str_eq(store_get(&store, store.view, "k00000"), "bottom");
  ck_assert_str_eq(store_get(&store, store.view, "k00001"), "-");
  ck_assert_str_eq(store_get(&store, store.view, "k00050"), "newer");
  ck_assert_str_eq(store_get(&store, store.view, "k00075"), "log");
  ck_assert_str_eq(store_get(&store, store.view, "k00149"), "newer");
}

/* A job from beginning to end; its files are not kept. */
static kv_status try_job(enum kv_job_kind kind, struct kv_err *err) {
  struct kv_job *job = NULL;
  kv_status status = kv_job_new(store.view, kind, &job, err);
  if (status != KV_OK) {
    ck_assert_ptr_null(job);
    return status;
  }
  kv_job_set_file_bytes(job, 1024);
  status = store_run(job, err);
  kv_job_free(job);
  return status;
}

START_TEST(every_allocation_failing) {
  two_runs_and_a_log();
  for (int kind = KV_JOB_FLUSH; kind <= KV_JOB_COMPACT; kind++) {
    for (uint64_t n = 1;; n++) {
      struct kv_err err;
      kv_mem_fail_nth(n, 0);
      kv_status status = try_job((enum kv_job_kind)kind, &err);
      kv_mem_fail_nth(0, 0);
      ck_assert_uint_eq(store_files(&store), 2);
      if (status == KV_OK) {
        ck_assert_uint_gt(n, 20);
        break;
      }
      ck_assert_int_eq(status, KV_NOMEM);
    }
    expect_contents();
  }
}
END_TEST

static void fail_every_call(enum kv_job_kind kind, enum kv_fault_class cls, bool sticky,
                            kv_status want) {
  for (uint64_t n = 1;; n++) {
    struct kv_err err;
    store_reopen(&store);
    kv_env_fault_set(store.env, cls, n, sticky, want);
    kv_status status = try_job(kind, &err);
    kv_env_fault_set(store.env, cls, 0, false, want);
    if (status == KV_OK) break;
    ck_assert_int_eq(status, want);
    if (!sticky) ck_assert_uint_eq(store_files(&store), 2);
  }
}

START_TEST(every_io_failing) {
  const enum kv_fault_class classes[] = {KV_FAULT_CREATE,  KV_FAULT_APPEND, KV_FAULT_SYNC,
                                         KV_FAULT_OPEN,    KV_FAULT_READ,   KV_FAULT_MAKE_DIR,
                                         KV_FAULT_SYNC_DIR};
  two_runs_and_a_log();
  for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
    for (int sticky = 0; sticky < 2; sticky++) {
      fail_every_call(KV_JOB_FLUSH, classes[i], sticky, KV_IO);
      fail_every_call(KV_JOB_COMPACT, classes[i], sticky, i % 2 ? KV_IO : KV_FULL);
    }
  }
  expect_contents();
  store_compact(&store);
  expect_contents();
}
END_TEST

START_TEST(damaged_input_fails_the_compaction) {
  struct kv_err err;
  two_runs_and_a_log();
  uint64_t id = store_run_file(&store, 1)->id;
  kv_view_unref(store.view);
  store_flip(&store, id, 3);
  store.view = store_view(&store);
  ck_assert_int_eq(try_job(KV_JOB_FLUSH, &err), KV_OK); /* reads no file */
  ck_assert_int_eq(try_job(KV_JOB_COMPACT, &err), KV_CORRUPT);
  char text[32];
  snprintf(text, sizeof text, "%016llx", (unsigned long long)id);
  ck_assert_ptr_nonnull(strstr(err.text, text));
  ck_assert_uint_eq(store_files(&store), 2);
}
END_TEST

START_TEST(inputs_are_read_past_the_cache) {
  put_many("k", 0, 1000, "value");
  store_commit(&store);
  store_flush(&store);
  store_put(&store, "k", "1");
  store_commit(&store);
  store_reopen(&store);
  struct kv_job *job = NULL;
  finished(KV_JOB_COMPACT, &job);
  kv_job_free(job);
  ck_assert_uint_eq(kv_cache_bytes(store.cache), 0);
}
END_TEST

static kv_status lock_output(const struct kv_job *job) {
  struct kv_buf path;
  struct kv_file_lock *lock = NULL;
  kv_buf_init(&path);
  kv_table_path(&path, store.config.dir, kv_job_edit(job)->added[0].id);
  kv_status status = kv_env_lock(store.env, (const char *)path.data, &lock, NULL);
  if (status == KV_OK) kv_env_unlock(store.env, lock);
  kv_buf_release(&path);
  return status;
}

START_TEST(outputs_are_locked_as_long_as_the_job_lives) {
  put_many("k", 0, 100, "value");
  store_commit(&store);
  struct kv_job *job = NULL;
  finished(KV_JOB_FLUSH, &job);
  ck_assert_int_eq(lock_output(job), KV_BUSY);
  kv_job_keep_files(job);
  ck_assert_int_eq(lock_output(job), KV_BUSY);
  kv_job_free(job);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("compact");
  TCase *tests = tcase_create("compact");
  tcase_set_timeout(tests, 30);
  tcase_add_checked_fixture(tests, open_store, close_store);
  tcase_add_test(tests, view_says_when_work_is_due);
  tcase_add_test(tests, flush_makes_one_run_of_every_generation);
  tcase_add_test(tests, flush_keeps_tombstones_that_may_hide_something);
  tcase_add_test(tests, flush_with_a_batch_covers_its_commit);
  tcase_add_test(tests, a_first_flush_with_a_batch_is_plain_and_goes_down_next);
  tcase_add_test(tests, compaction_with_a_batch_takes_everything);
  tcase_add_test(tests, commit_below_the_view_is_misuse);
  tcase_add_test(tests, flush_without_log_rows_does_nothing);
  tcase_add_test(tests, flush_of_empty_commits_only_moves_the_mark);
  tcase_add_test(tests, flush_sees_only_its_view);
  tcase_add_test(tests, compaction_makes_one_clean_run_of_everything);
  tcase_add_test(tests, compaction_of_what_is_all_deleted_only_removes);
  tcase_add_test(tests, compaction_of_a_clean_single_run_does_nothing);
  tcase_add_test(tests, compaction_of_a_run_compressed_otherwise_compresses_it);
  tcase_add_test(tests, compaction_of_a_single_run_with_tombstones_cleans_it);
  tcase_add_test(tests, output_is_split_into_disjoint_files);
  tcase_add_test(tests, a_step_is_bounded);
  tcase_add_test(tests, reading_back_is_bounded_by_steps_too);
  tcase_add_test(tests, tombstones_that_go_are_bounded_by_steps_too);
  tcase_add_test(tests, files_go_with_the_job_unless_kept);
  tcase_add_test(tests, unfinished_job_leaves_no_file);
  tcase_add_test(tests, files_that_a_view_names_are_not_unlinked);
  tcase_add_test(tests, of_two_jobs_over_one_view_the_second_is_late);
  tcase_add_test(tests, output_damaged_before_it_is_read_back_fails_the_job);
  tcase_add_test(tests, output_gone_before_it_is_read_back_fails_the_job);
  tcase_add_test(tests, every_allocation_failing);
  tcase_add_test(tests, every_io_failing);
  tcase_add_test(tests, damaged_input_fails_the_compaction);
  tcase_add_test(tests, inputs_are_read_past_the_cache);
  tcase_add_test(tests, outputs_are_locked_as_long_as_the_job_lives);
  suite_add_tcase(suite, tests);
  return harness_run(suite);
}
