/* The account of jobs: whatever a source, the merge or the job itself does to an entry, the job fails, names
** both numbers and leaves no file; and random histories of jobs of every kind hold.
**
** This program is linked so that calls of kv_run_iter, kv_memtable_iter_counted, kv_batch_iter_counted,
** kv_merge_counted and kv_account_drop come here first (Makefile, --wrap): what they make can then be
** dressed as an iterator that loses, doubles or changes the nth entry or ends before it.
** COLFAM_MUTANT=merge-entry or =tombstone-dropped does one of these to the random histories, which must then
** fail (tests/mutants.sh). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "catalog.h"
#include "compact_account.h"
#include "mem.h"
#include "merge.h"
#include "run_iter.h"
#include "view.h"

/* ---- Faulty iterators */

enum place { NOWHERE, RUN, MEMTABLE, BATCH, MERGE, DROP };
enum fault { LOSE, DOUBLE, CHANGE_VALUE, CHANGE_KIND, END_EARLY, FAULTS };

/* What is done where: to the nth entry that an iterator of the place moves to. */
static struct {
  enum place place;
  enum fault fault;
  int nth; /* counts down from call to call; the fault is at 0 */
} plan;

struct faulty {
  struct kv_iter base;
  struct kv_iter *inner;
  bool repeats; /* the next move stays */
  char value[64];
};

static void copy(struct faulty *self) {
  const struct kv_iter *inner = self->inner;
  self->base.valid = inner->valid;
  self->base.deleted = inner->deleted;
  self->base.apart = inner->apart;
  self->base.key = inner->key;
  self->base.value = inner->value;
  self->base.status = inner->status;
  self->base.err = inner->err;
}

static void change_value(struct faulty *self) {
  struct kv_iter *base = &self->base;
  size_t size = base->value.size < sizeof self->value ? base->value.size : sizeof self->value;
  if (base->deleted || base->apart || !size) {
    plan.nth = 1; /* the next one then */
    return;
  }
  memcpy(self->value, base->value.data, size);
  self->value[size / 2] ^= 4;
  base->value = kv_slice_of(self->value, size);
}

static void spoil(struct faulty *self) {
  if (!self->base.valid || plan.nth-- != 0) return;
  switch (plan.fault) {
    case LOSE:
      kv_iter_next(self->inner);
      copy(self);
      break;
    case DOUBLE:
      self->repeats = true;
      break;
    case CHANGE_VALUE:
      change_value(self);
      break;
    case CHANGE_KIND:
      self->base.deleted = !self->base.deleted;
      self->base.apart = false;
      if (self->base.deleted) self->base.value = kv_slice_of(NULL, 0);
      break;
    case END_EARLY:
    case FAULTS:
      self->base.valid = false;
      break;
  }
}

static struct faulty *of(struct kv_iter *base) {
  return (struct faulty *)base;
}

static void faulty_seek(struct kv_iter *base, struct kv_slice key) {
  kv_iter_seek(of(base)->inner, key);
  copy(of(base));
}

static void faulty_seek_first(struct kv_iter *base) {
  kv_iter_seek_first(of(base)->inner);
  copy(of(base));
  spoil(of(base));
}

static void faulty_seek_last(struct kv_iter *base) {
  kv_iter_seek_last(of(base)->inner);
  copy(of(base));
}

static void faulty_next(struct kv_iter *base) {
  struct faulty *self = of(base);
  if (!self->repeats) kv_iter_next(self->inner);
  self->repeats = false;
  copy(self);
  spoil(self);
}

static void faulty_prev(struct kv_iter *base) {
  kv_iter_prev(of(base)->inner);
  copy(of(base));
}

static void faulty_free(struct kv_iter *base) {
  kv_iter_free(of(base)->inner);
  kv_free(base);
}

static const struct kv_iter_ops faulty_ops = {faulty_seek, faulty_seek_first, faulty_seek_last,
                                              faulty_next, faulty_prev,       faulty_free};

/* Puts a faulty iterator in the place of one of the planned place. */
static kv_status dress(enum place place, kv_status status, struct kv_iter **iter) {
  if (status != KV_OK || plan.place != place || plan.nth < 0) return status;
  struct faulty *made = kv_alloc_zero(1, sizeof *made);
  ck_assert_ptr_nonnull(made);
  made->base.ops = &faulty_ops;
  made->inner = *iter;
  *iter = &made->base;
  return KV_OK;
}

kv_status __real_kv_run_iter(const struct kv_run *run, bool use_cache, struct kv_iter **iter,
                             struct kv_err *err);
kv_status __wrap_kv_run_iter(const struct kv_run *run, bool use_cache, struct kv_iter **iter,
                             struct kv_err *err);
kv_status __wrap_kv_run_iter(const struct kv_run *run, bool use_cache, struct kv_iter **iter,
                             struct kv_err *err) {
  return dress(RUN, __real_kv_run_iter(run, use_cache, iter, err), iter);
}

kv_status __real_kv_memtable_iter_counted(struct kv_memtable *table, struct kv_window window,
                                          struct kv_digest *passed, struct kv_iter **iter,
                                          struct kv_err *err);
kv_status __wrap_kv_memtable_iter_counted(struct kv_memtable *table, struct kv_window window,
                                          struct kv_digest *passed, struct kv_iter **iter,
                                          struct kv_err *err);
kv_status __wrap_kv_memtable_iter_counted(struct kv_memtable *table, struct kv_window window,
                                          struct kv_digest *passed, struct kv_iter **iter,
                                          struct kv_err *err) {
  return dress(MEMTABLE, __real_kv_memtable_iter_counted(table, window, passed, iter, err), iter);
}

kv_status __real_kv_batch_iter_counted(struct kv_batch *batch, struct kv_digest *shown,
                                       struct kv_iter **iter, struct kv_err *err);
kv_status __wrap_kv_batch_iter_counted(struct kv_batch *batch, struct kv_digest *shown,
                                       struct kv_iter **iter, struct kv_err *err);
kv_status __wrap_kv_batch_iter_counted(struct kv_batch *batch, struct kv_digest *shown,
                                       struct kv_iter **iter, struct kv_err *err) {
  return dress(BATCH, __real_kv_batch_iter_counted(batch, shown, iter, err), iter);
}

kv_status __real_kv_merge_counted(struct kv_iter **sources, size_t n,
                                  const struct kv_comparator *comparator, struct kv_digest *passed,
                                  struct kv_iter **iter, struct kv_err *err);
kv_status __wrap_kv_merge_counted(struct kv_iter **sources, size_t n,
                                  const struct kv_comparator *comparator, struct kv_digest *passed,
                                  struct kv_iter **iter, struct kv_err *err);
kv_status __wrap_kv_merge_counted(struct kv_iter **sources, size_t n,
                                  const struct kv_comparator *comparator, struct kv_digest *passed,
                                  struct kv_iter **iter, struct kv_err *err) {
  return dress(MERGE, __real_kv_merge_counted(sources, n, comparator, passed, iter, err), iter);
}

void __real_kv_account_drop(struct kv_account *account, const struct kv_iter *entry);
void __wrap_kv_account_drop(struct kv_account *account, const struct kv_iter *entry);
void __wrap_kv_account_drop(struct kv_account *account, const struct kv_iter *entry) {
  if (plan.place != DROP || plan.nth-- != 0) __real_kv_account_drop(account, entry);
}

/* ---- Jobs over a store */

static struct store store;

static void open_store(void) {
  plan.place = NOWHERE;
  store_init(&store, 8, 1 << 20);
}

static void close_store(void) {
  plan.place = NOWHERE;
  store_release(&store);
}

static void put_many(const char *prefix, int first, int end, const char *value) {
  char key[32];
  for (int i = first; i < end; i++) {
    snprintf(key, sizeof key, "%s%05d", prefix, i);
    store_put(&store, key, value);
  }
}

static void delete_many(const char *prefix, int first, int end) {
  char key[32];
  for (int i = first; i < end; i++) {
    snprintf(key, sizeof key, "%s%05d", prefix, i);
    store_delete(&store, key);
  }
}

/* Runs and memtables that hide entries of each other, in several commits each, and a pending batch; all have
** tombstones. */
static void fill_store(void) {
  put_many("k", 0, 100, "bottom");
  store_commit(&store);
  store_flush(&store);
  for (int run = 0; run < 2; run++) {
    put_many("k", 50 + run, 150, "newer");
    delete_many("k", 10 + run * 5, 20);
    store_commit(&store);
    store_flush(&store);
  }
  for (int commit = 0; commit < 4; commit++) {
    if (commit % 2) store_rotate(&store);
    put_many("k", 75 - commit, 80, "log");
    delete_many("k", 140 + commit, 145);
    store_commit(&store);
  }
  put_many("k", 70, 90, "pending");
  delete_many("k", 0, 8);
}

static size_t young_runs(void) {
  const struct kv_layout *layout = store.view->layout;
  size_t count = 0;
  while (count < layout->run_count && layout->runs[count].level == 0) count++;
  return count;
}

/* A merge takes all of level 0, due or not. */
static kv_status begin(enum kv_job_kind kind, struct kv_job **job, struct kv_err *err) {
  const struct kv_log_state *log = kv_view_log(store.view);
  struct kv_log_row row = {.seq = log->last_seq + 1, .nonce = 7, .gen = 99, .rows = -1};
  struct kv_pick tier = {KV_PICK_TIER, 0, young_runs()};
  if (kind == KV_JOB_MERGE && tier.count > 1) return kv_job_new_pick(store.view, &tier, job, err);
  if (kind == KV_JOB_MERGE) return kv_job_new(store.view, kind, job, err);
  return kv_job_new_commit(store.view, kind, store.batch, &row, job, err);
}

/* From beginning to end; its files are not kept. */
static kv_status try_job(enum kv_job_kind kind, struct kv_err *err) {
  struct kv_job *job = NULL;
  kv_status status = begin(kind, &job, err);
  if (status != KV_OK) return status;
  kv_job_set_file_bytes(job, 1024);
  status = store_run(job, err);
  ck_assert(status == KV_OK || kv_job_step(job, &(bool){false}, NULL) == KV_MISUSE);
  kv_job_free(job);
  return status;
}

static void expect_found(enum kv_job_kind kind, enum place place, enum fault fault, int nth) {
  struct kv_err err = {.status = KV_OK};
  size_t files = store_files(&store);
  plan.place = place;
  plan.fault = fault;
  plan.nth = nth;
  kv_status status = try_job(kind, &err);
  plan.place = NOWHERE;
  ck_assert_msg(plan.nth < 0, "job %d, place %d: entry %d was never reached", kind, place, nth);
  ck_assert_msg(status == KV_CORRUPT, "job %d, place %d, fault %d, entry %d: %s %s", kind, place,
                fault, nth, kv_status_name(status), err.text);
  /* the writer has seen one twice itself */
  bool twice = fault == DOUBLE && strstr(err.text, "not ascending");
  ck_assert_msg(twice || strstr(err.text, "went in"), "%s", err.text);
  ck_assert_ptr_nonnull(strstr(err.text, "up to commit"));
  ck_assert_uint_eq(store_files(&store), files);
}

static void expect_all_found(enum kv_job_kind kind, enum place place) {
  static const int entries[] = {0, 1, 5, 12};
  for (int fault = 0; fault < FAULTS; fault++)
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++)
      expect_found(kind, place, (enum fault)fault, entries[i]);
}

START_TEST(a_fault_of_a_source_is_found) {
  fill_store();
  expect_all_found(KV_JOB_FLUSH, MEMTABLE);
  expect_all_found(KV_JOB_FLUSH, BATCH);
  expect_all_found(KV_JOB_COMPACT, MEMTABLE);
  expect_all_found(KV_JOB_COMPACT, BATCH);
  expect_all_found(KV_JOB_COMPACT, RUN);
  expect_all_found(KV_JOB_MERGE, RUN);
  struct kv_err err;
  ck_assert_int_eq(try_job(KV_JOB_COMPACT, &err), KV_OK);
}
END_TEST

START_TEST(a_fault_of_the_merge_is_found) {
  fill_store();
  expect_all_found(KV_JOB_FLUSH, MERGE);
  expect_all_found(KV_JOB_COMPACT, MERGE);
  expect_all_found(KV_JOB_MERGE, MERGE);
}
END_TEST

START_TEST(a_fault_of_the_only_source_is_found) {
  put_many("k", 0, 100, "value");
  delete_many("k", 3, 8);
  store_commit(&store);
  expect_all_found(KV_JOB_FLUSH, MERGE);
  expect_all_found(KV_JOB_FLUSH, MEMTABLE);
  store_flush(&store);
  struct kv_options options = kv_family_options(store.family);
  options.compression_level = options.compression_level ? 0 : 3;
  kv_family_set_options(store.family, &options);
  expect_all_found(KV_JOB_COMPACT, RUN);
  expect_all_found(KV_JOB_COMPACT, MERGE);
}
END_TEST

START_TEST(a_tombstone_left_out_uncounted_is_found) {
  fill_store();
  expect_found(KV_JOB_COMPACT, DROP, LOSE, 0);
  expect_found(KV_JOB_COMPACT, DROP, LOSE, 9);
}
END_TEST

START_TEST(a_changed_value_that_goes_apart_is_found) {
  struct kv_options options = kv_family_options(store.family);
  options.value_bytes = 20;
  kv_family_set_options(store.family, &options);
  put_many("k", 0, 50, "a value of more than twenty bytes");
  store_commit(&store);
  expect_found(KV_JOB_FLUSH, MEMTABLE, CHANGE_VALUE, 3);
  expect_found(KV_JOB_FLUSH, MEMTABLE, LOSE, 3);
  store_flush(&store);
  put_many("k", 20, 30, "another of more than twenty bytes");
  store_commit(&store);
  expect_found(KV_JOB_COMPACT, RUN, LOSE, 3);
  expect_found(KV_JOB_COMPACT, RUN, CHANGE_KIND, 3);
  expect_found(KV_JOB_COMPACT, MERGE, LOSE, 25);
}
END_TEST

START_TEST(the_text_says_whose_account_it_is_and_both_numbers) {
  struct kv_err err = {.status = KV_OK};
  put_many("k", 0, 10, "1");
  store_commit(&store);
  put_many("k", 5, 10, "2");
  store_commit(&store);
  plan.place = MEMTABLE;
  plan.fault = LOSE;
  plan.nth = 2;
  struct kv_job *job = NULL;
  ck_assert_int_eq(kv_job_new(store.view, KV_JOB_FLUSH, &job, &err), KV_OK);
  ck_assert_int_eq(store_run(job, &err), KV_CORRUPT);
  kv_job_free(job);
  ck_assert_msg(strstr(err.text, "flush up to commit 2: 15 entries (sum "), "%s", err.text);
  ck_assert_msg(strstr(err.text, "went in, 14 ("), "%s", err.text);
  ck_assert_msg(strstr(err.text, "came out: 9 were written, 5 left out"), "%s", err.text);
}
END_TEST

/* A memtable of which a view sees a part: the versions outside are on neither side. */
START_TEST(parts_of_memtables_hold) {
  struct kv_view *views[6];
  struct kv_err err;
  for (int i = 0; i < 6; i++) {
    put_many("k", i, 20 + i, i % 2 ? "odd" : "even");
    delete_many("k", 2 * i, 2 * i + 3);
    store_commit(&store);
    if (i == 2) store_flush(&store);
    views[i] = kv_view_ref(store.view);
  }
  for (int i = 0; i < 6; i++) {
    struct kv_job *job = NULL;
    ck_assert_int_eq(kv_job_new(views[i], KV_JOB_FLUSH, &job, &err), KV_OK);
    ck_assert_msg(store_run(job, &err) == KV_OK, "view %d: %s", i, err.text);
    kv_job_free(job);
    kv_view_unref(views[i]);
  }
}
END_TEST

START_TEST(damage_is_written_on_where_nobody_looks_for_it) {
  struct kv_err err;
  fill_store();
  kv_cache_set_verify(store.cache, KV_VERIFY_NONE);
  plan.place = RUN;
  plan.fault = CHANGE_VALUE;
  plan.nth = 3;
  ck_assert_msg(try_job(KV_JOB_COMPACT, &err) == KV_OK, "%s", err.text);
  ck_assert_int_lt(plan.nth, 0);
  kv_cache_set_verify(store.cache, KV_VERIFY_MERGES);
  expect_found(KV_JOB_COMPACT, RUN, CHANGE_VALUE, 3);
}
END_TEST

/* ---- Random histories */

static void spoil_next_job(struct harness_random *random) {
  const char *mutant = getenv("COLFAM_MUTANT");
  plan.place = NOWHERE;
  if (!mutant) return;
  if (strcmp(mutant, "merge-entry") == 0) plan.place = MERGE;
  if (strcmp(mutant, "tombstone-dropped") == 0) plan.place = DROP;
  plan.fault = LOSE;
  plan.nth = (int)harness_below(random, 3);
}

static void write_some(struct harness_random *random, int keys) {
  static const char *const values[] = {"", "1",
                                       "a value of some length, above what stays with keys"};
  char key[32];
  for (size_t i = 0; i < 40; i++) {
    snprintf(key, sizeof key, "k%05d", (int)harness_below(random, (size_t)keys));
    if (harness_below(random, 4))
      store_put(&store, key, values[harness_below(random, 3)]);
    else
      store_delete(&store, key);
  }
}

static void random_job(struct harness_random *random) {
  static const enum kv_job_kind kinds[] = {KV_JOB_FLUSH, KV_JOB_FLUSH, KV_JOB_MERGE,
                                           KV_JOB_COMPACT};
  enum kv_job_kind kind = kinds[harness_below(random, 4)];
  struct kv_err err = {.status = KV_OK};
  spoil_next_job(random);
  kv_status status = try_job(kind, &err);
  ck_assert_msg(status == KV_OK, "%s", err.text);
  spoil_next_job(random);
  store.file_bytes = 512 + harness_below(random, 4096);
  store_job(&store, kind);
  plan.place = NOWHERE;
}

static void run_history(uint64_t seed) {
  static const uint32_t limits[] = {0, 20, 4096};
  struct harness_random random;
  harness_seed(&random, seed);
  struct kv_options options = kv_family_options(store.family);
  options.memtable_bytes = 512 << harness_below(&random, 4);
  for (int step = 0; step < 120; step++) {
    options.value_bytes = limits[harness_below(&random, 3)];
    kv_family_set_options(store.family, &options);
    write_some(&random, step < 60 ? 500 : 60);
    if (harness_below(&random, 3)) store_commit(&store);
    if (harness_below(&random, 4) == 0) store_rotate(&store);
    if (harness_below(&random, 2)) random_job(&random);
  }
}

START_TEST(random_jobs_hold) {
  uint64_t first = harness_seed_env(1);
  for (uint64_t seed = first; seed < first + 4; seed++) {
    if (seed > first) {
      close_store();
      open_store();
    }
    run_history(seed);
  }
}
END_TEST

int main(void) {
  Suite *suite = suite_create("compact: account");
  TCase *tests = tcase_create("account");
  tcase_set_timeout(tests, 30);
  tcase_add_checked_fixture(tests, open_store, close_store);
  tcase_add_test(tests, a_fault_of_a_source_is_found);
  tcase_add_test(tests, a_fault_of_the_merge_is_found);
  tcase_add_test(tests, a_fault_of_the_only_source_is_found);
  tcase_add_test(tests, a_tombstone_left_out_uncounted_is_found);
  tcase_add_test(tests, a_changed_value_that_goes_apart_is_found);
  tcase_add_test(tests, the_text_says_whose_account_it_is_and_both_numbers);
  tcase_add_test(tests, parts_of_memtables_hold);
  tcase_add_test(tests, damage_is_written_on_where_nobody_looks_for_it);
  tcase_add_test(tests, random_jobs_hold);
  suite_add_tcase(suite, tests);
  return harness_run(suite);
}
