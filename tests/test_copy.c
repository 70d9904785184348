/* Copying table files: what arrives is what was there and sound, or nothing is left behind, whatever
** fails. */
#include "copy.h"

#include <string.h>

#include "harness_comparator.h"
#include "harness_table.h"
#include "mem.h"

#define FILES 3
#define TO "copy.db-colfam"

static struct stage stage; /* the source */
static struct kv_file_info infos[FILES];
static struct kv_env *below, *to; /* the destination: memory behind faults */
static struct kv_err err;

#define OK(call) ck_assert_msg((call) == KV_OK, "%s", err.text)

static void setup(void) {
  struct harness_random random;
  harness_seed(&random, 11);
  stage_init(&stage, 1 << 20);
  stage.config.compression_level = 0;
  for (int i = 0; i < FILES; i++) {
    struct rows rows = {0};
    rows_random(&rows, &random, i == 1 ? 3000 : 50, 12, i == 1 ? 2000 : 40);
    stage_ok(&stage, stage_write(&stage, &rows));
    kv_file_info_init(&infos[i]);
    OK(kv_file_info_copy(&infos[i], &stage.info, &err));
    rows_release(&rows);
  }
  OK(kv_env_memory_new(&below, &err));
  OK(kv_env_fault_new(below, &to, &err));
}

static void teardown(void) {
  for (int i = 0; i < FILES; i++) kv_file_info_release(&infos[i]);
  kv_env_free(to);
  kv_env_free(below);
  stage_release(&stage);
}

static kv_status new_copy(struct kv_copy **copy) {
  struct kv_copy_config config = {.from_env = stage.fault,
                                  .from_dir = stage.config.dir,
                                  .to_env = to,
                                  .to_dir = TO,
                                  .cache = stage.cache};
  kv_status status = kv_copy_new(&config, copy, &err);
  for (int i = 0; i < FILES && status == KV_OK; i++) {
    status = kv_copy_add(*copy, stage.config.uuid, &infos[i], harness_comparator(), &err);
    if (status != KV_OK) kv_copy_free(*copy);
  }
  return status;
}

static kv_status run(struct kv_copy *copy) {
  bool done = false;
  kv_status status = KV_OK;
  while (status == KV_OK && !done) status = kv_copy_step(copy, &done, &err);
  return status;
}

/* Makes, runs and frees a copy, which is kept when it succeeded. */
static kv_status copy_all(void) {
  struct kv_copy *copy = NULL;
  kv_status status = new_copy(&copy);
  if (status != KV_OK) return status;
  status = run(copy);
  if (status == KV_OK) kv_copy_keep(copy);
  kv_copy_free(copy);
  return status;
}

static kv_status count_name(void *ctx, const char *name) {
  (void)name;
  ++*(size_t *)ctx;
  return KV_OK;
}

/* Names in a directory of the destination; SIZE_MAX when it is not there. */
static size_t count_names(const char *dir) {
  size_t count = 0;
  kv_status status = kv_env_list_dir(below, dir, count_name, &count, NULL);
  return status == KV_OK ? count : SIZE_MAX;
}

static void nothing_is_left(void) {
  ck_assert_uint_eq(count_names("."), 0);
}

static void all_files_are_there_and_sound(void) {
  ck_assert_uint_eq(count_names(TO), FILES);
  for (int i = 0; i < FILES; i++) {
    struct kv_table_config config = stage.config;
    struct kv_stats stats = {{0}};
    struct kv_table *table;
    config.env = below;
    config.dir = TO;
    OK(kv_table_open(&config, &infos[i], stage.cache, &stats, &table, &err));
    OK(kv_table_verify(table, NULL, &err));
    kv_table_close(table);
  }
}

START_TEST(copied_files_are_sound) {
  OK(copy_all());
  all_files_are_there_and_sound();
}
END_TEST

START_TEST(nothing_to_copy_makes_no_directory) {
  struct kv_copy_config config = {.from_env = stage.fault,
                                  .from_dir = stage.config.dir,
                                  .to_env = to,
                                  .to_dir = TO,
                                  .cache = stage.cache};
  struct kv_copy *copy;
  OK(kv_copy_new(&config, &copy, &err));
  OK(run(copy));
  kv_copy_keep(copy);
  kv_copy_free(copy);
  kv_copy_free(NULL);
  nothing_is_left();
}
END_TEST

START_TEST(progress_goes_up_to_the_bytes_of_all_files) {
  struct kv_copy *copy;
  uint64_t done, total, last = 0, sum = 0;
  bool finished = false;
  size_t steps = 0;
  for (int i = 0; i < FILES; i++) sum += infos[i].bytes;
  OK(new_copy(&copy));
  for (; !finished; steps++) {
    OK(kv_copy_step(copy, &finished, &err));
    kv_copy_progress(copy, &done, &total);
    ck_assert_uint_eq(total, sum);
    ck_assert_uint_ge(done, last);
    ck_assert_uint_le(done - last, 1 << 20);
    last = done;
  }
  ck_assert_uint_eq(last, sum);
  ck_assert_uint_gt(steps, 3 * FILES + 2); /* the second file takes several chunks */
  kv_copy_free(copy);
  nothing_is_left();
}
END_TEST

START_TEST(freed_before_the_end_leaves_nothing) {
  for (size_t steps = 0;; steps++) {
    struct kv_copy *copy;
    bool done = false;
    OK(new_copy(&copy));
    for (size_t i = 0; i < steps && !done; i++) OK(kv_copy_step(copy, &done, &err));
    kv_copy_free(copy);
    nothing_is_left();
    if (done) break;
  }
}
END_TEST

START_TEST(what_is_there_is_left_alone) {
  struct kv_write_file *file;
  OK(kv_env_make_dir(below, TO, NULL, &err));
  ck_assert_int_eq(copy_all(), KV_BUSY);
  ck_assert_str_eq(err.text, TO " is there already");
  ck_assert_uint_eq(count_names(TO), 0);
  OK(kv_env_create(below, TO "/other", NULL, &file, &err));
  kv_env_close_write(below, file);
  ck_assert_int_eq(copy_all(), KV_BUSY);
  ck_assert_uint_eq(count_names(TO), 1);
}
END_TEST

START_TEST(file_that_appears_meanwhile_is_left_alone) {
  struct kv_copy *copy;
  struct kv_write_file *file;
  struct kv_buf path;
  bool done;
  OK(new_copy(&copy));
  OK(kv_copy_step(copy, &done, &err));
  kv_buf_init(&path);
  kv_table_path(&path, TO, infos[2].id);
  OK(kv_env_create(below, (const char *)path.data, NULL, &file, &err));
  kv_env_close_write(below, file);
  kv_buf_release(&path);
  ck_assert_int_eq(run(copy), KV_BUSY);
  kv_copy_free(copy);
  ck_assert_uint_eq(count_names(TO), 1);
}
END_TEST

/* ---- Failures */

START_TEST(every_changed_byte_of_a_source_is_found) {
  struct kv_buf bytes;
  stage_read_file(&stage, infos[0].id, &bytes);
  for (size_t at = 0; at < bytes.size; at += 7) {
    bytes.data[at] ^= 0x10;
    stage_replace_file(&stage, infos[0].id, kv_buf_slice(&bytes));
    ck_assert_msg(copy_all() == KV_CORRUPT, "byte %zu went unseen", at);
    nothing_is_left();
    bytes.data[at] ^= 0x10;
  }
  stage_replace_file(&stage, infos[0].id, kv_slice_of(bytes.data, bytes.size - 1));
  ck_assert_int_eq(copy_all(), KV_CORRUPT);
  nothing_is_left();
  stage_replace_file(&stage, infos[0].id, kv_buf_slice(&bytes));
  kv_buf_release(&bytes);
  OK(copy_all());
}
END_TEST

START_TEST(missing_source_is_missing) {
  struct kv_buf path;
  kv_buf_init(&path);
  kv_table_path(&path, stage.config.dir, infos[2].id);
  OK(kv_env_remove(stage.memory, (const char *)path.data, &err));
  kv_buf_release(&path);
  ck_assert_int_eq(copy_all(), KV_MISSING);
  nothing_is_left();
}
END_TEST

/* Every call of the environment fails once. */
static void fail_every_call(struct kv_env *env, kv_status injected) {
  for (uint64_t n = 1;; n++) {
    uint64_t before = kv_env_fault_calls(env, KV_FAULT_ANY);
    kv_env_fault_set(env, KV_FAULT_ANY, n, false, injected);
    kv_status status = copy_all();
    kv_env_fault_set(env, KV_FAULT_ANY, 0, false, KV_OK);
    if (kv_env_fault_calls(env, KV_FAULT_ANY) - before < n) {
      OK(status);
      break;
    }
    ck_assert_int_eq(status, injected);
    ck_assert_int_eq(err.status, injected);
    nothing_is_left();
  }
  all_files_are_there_and_sound();
}

START_TEST(every_failing_call_at_the_destination) {
  fail_every_call(to, KV_FULL);
}
END_TEST

START_TEST(every_failing_call_at_the_source) {
  fail_every_call(stage.fault, KV_IO);
}
END_TEST

START_TEST(full_disk_stays_full) {
  for (uint64_t n = 1;; n++) {
    kv_env_fault_set(to, KV_FAULT_APPEND, n, true, KV_FULL);
    kv_status status = copy_all();
    kv_env_fault_set(to, KV_FAULT_APPEND, 0, false, KV_OK);
    if (status == KV_OK) break;
    ck_assert_int_eq(status, KV_FULL);
    nothing_is_left();
  }
}
END_TEST

START_TEST(every_failing_allocation) {
  int64_t blocks = kv_mem_live_blocks();
  for (uint64_t n = 1;; n++) {
    (void)kv_mem_fail_nth(n, n % 2);
    kv_status status = copy_all();
    uint64_t made = kv_mem_fail_nth(0, 0);
    if (made < n) {
      OK(status);
      break;
    }
    ck_assert_int_eq(status, KV_NOMEM);
    ck_assert_int_eq(kv_mem_live_blocks(), blocks);
    nothing_is_left();
  }
  all_files_are_there_and_sound();
}
END_TEST

int main(void) {
  Suite *suite = suite_create("copy");
  TCase *tc = tcase_create("copy");
  tcase_set_timeout(tc, 60);
  tcase_add_checked_fixture(tc, setup, teardown);
  tcase_add_test(tc, copied_files_are_sound);
  tcase_add_test(tc, nothing_to_copy_makes_no_directory);
  tcase_add_test(tc, progress_goes_up_to_the_bytes_of_all_files);
  tcase_add_test(tc, freed_before_the_end_leaves_nothing);
  tcase_add_test(tc, what_is_there_is_left_alone);
  tcase_add_test(tc, file_that_appears_meanwhile_is_left_alone);
  tcase_add_test(tc, every_changed_byte_of_a_source_is_found);
  tcase_add_test(tc, missing_source_is_missing);
  tcase_add_test(tc, every_failing_call_at_the_destination);
  tcase_add_test(tc, every_failing_call_at_the_source);
  tcase_add_test(tc, full_disk_stays_full);
  tcase_add_test(tc, every_failing_allocation);
  suite_add_tcase(suite, tc);
  return harness_run(suite);
}
