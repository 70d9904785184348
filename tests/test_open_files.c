/* The set of open files: how many descriptors it keeps, who is closed first, that a file opened again is
** looked at, and what happens when the process has no descriptor left. */
#include "open_files.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "harness.h"
#include "mem.h"

#define OK(call) ck_assert_msg((call) == KV_OK, "%s", err.text)
#define FILES 12

static struct kv_env *env;
static struct kv_open_files *set;
static struct kv_open_file *files[FILES];
static struct kv_err err;
static int checks; /* atomic: how often a file was opened and looked at */
static uint64_t wanted_size;

static kv_status look(const void *context, struct kv_env *its_env, struct kv_read_file *file,
                      uint64_t size, struct kv_err *error) {
  (void)its_env, (void)file;
  ck_assert_ptr_eq(context, &checks);
  __atomic_add_fetch(&checks, 1, __ATOMIC_RELAXED);
  return size == wanted_size ? KV_OK : kv_fail(error, KV_CORRUPT, "another file");
}

static void path_of(int i, char *path) {
  snprintf(path, 20, "file%d", i);
}

static void setup(void) {
  env = kv_env_posix();
  checks = 0;
  wanted_size = 8;
  ck_assert_int_eq(chdir(harness_dir()), 0);
  OK(kv_open_files_new(&set, &err));
  for (int i = 0; i < FILES; i++) {
    char path[20];
    path_of(i, path);
    unlink(path);
    struct kv_write_file *file;
    uint64_t content = (uint64_t)i;
    OK(kv_env_create(env, path, NULL, &file, &err));
    OK(kv_env_append(env, file, kv_slice_of(&content, sizeof content), &err));
    kv_env_close_write(env, file);
    OK(kv_open_file_new(set, env, path, look, &checks, &files[i], &err));
  }
}

static void teardown(void) {
  for (int i = 0; i < FILES; i++) kv_open_file_free(files[i]);
  ck_assert_uint_eq(kv_open_files_count(set), 0);
  kv_open_files_free(set);
  ck_assert_int_eq(kv_mem_live_blocks(), 0);
}

static kv_status try_read(int i) {
  uint64_t content = UINT64_MAX;
  struct kv_range range = {0, sizeof content, (uint8_t *)&content};
  kv_status status = kv_open_file_read(files[i], &range, 1, &err);
  if (status == KV_OK) ck_assert_uint_eq(content, (uint64_t)i);
  return status;
}

static void read_file(int i) {
  OK(try_read(i));
}

/* Reads it; whether it had to be opened for that. */
static bool had_to_open(int i) {
  int before = checks;
  read_file(i);
  return checks > before;
}

START_TEST(nothing_is_open_before_it_is_read) {
  ck_assert_uint_eq(kv_open_files_count(set), 0);
  ck_assert(had_to_open(3));
  ck_assert_uint_eq(kv_open_files_count(set), 1);
  ck_assert(!had_to_open(3));
}
END_TEST

START_TEST(least_recently_read_is_closed_first) {
  kv_open_files_set_limit(set, 3);
  for (int i = 0; i < 3; i++) read_file(i);
  read_file(0);
  ck_assert(had_to_open(3)); /* in 1's place */
  ck_assert_uint_eq(kv_open_files_count(set), 3);
  ck_assert(!had_to_open(2));
  ck_assert(!had_to_open(0));
  ck_assert(had_to_open(1));
}
END_TEST

START_TEST(lower_limit_closes_at_once) {
  for (int i = 0; i < FILES; i++) read_file(i);
  ck_assert_uint_eq(kv_open_files_count(set), FILES);
  kv_open_files_set_limit(set, 1);
  ck_assert_uint_eq(kv_open_files_count(set), 1);
  for (int i = 0; i < FILES; i++) read_file(i);
  ck_assert_uint_eq(kv_open_files_count(set), 1);
}
END_TEST

START_TEST(limit_is_a_share_of_the_processs) {
  struct rlimit before, limit;
  ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
  limit = before;
  limit.rlim_cur = 40;
  ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
  ck_assert_uint_eq(kv_open_files_limit(set), 10);
  for (int i = 0; i < FILES; i++) read_file(i);
  ck_assert_uint_eq(kv_open_files_count(set), 10);
  limit.rlim_cur = 8;
  ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
  ck_assert_uint_eq(kv_open_files_limit(set), 4);
  ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
}
END_TEST

START_TEST(file_opened_again_must_be_the_same) {
  kv_open_files_set_limit(set, 1);
  read_file(0);
  read_file(1);
  ck_assert_int_eq(truncate("file0", 4), 0);
  ck_assert_int_eq(try_read(0), KV_CORRUPT);
  ck_assert_str_eq(err.text, "another file");
  ck_assert_uint_eq(kv_open_files_count(set), 0); /* it had made room */
  read_file(1);
  ck_assert_int_eq(unlink("file0"), 0);
  ck_assert_int_eq(try_read(0), KV_MISSING);
  read_file(1);
}
END_TEST

START_TEST(read_that_fails_lets_go_of_the_file) {
  uint8_t byte;
  struct kv_range beyond = {8, 1, &byte};
  ck_assert_int_eq(kv_open_file_read(files[0], &beyond, 1, &err), KV_CORRUPT);
  kv_open_files_set_limit(set, 1);
  read_file(1);
  ck_assert_uint_eq(kv_open_files_count(set), 1);
}
END_TEST

/* Takes all descriptors but `spare`. */
static int take_descriptors(int *taken, int max, int spare) {
  int count = 0;
  while (count < max && (taken[count] = dup(0)) >= 0) count++;
  for (; spare; spare--) close(taken[--count]);
  return count;
}

START_TEST(no_descriptor_left_is_an_error_and_passes) {
  struct rlimit limit;
  int taken[64];
  ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
  rlim_t before = limit.rlim_cur;
  limit.rlim_cur = 64;
  ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
  int count = take_descriptors(taken, 64, 0);
  ck_assert_int_eq(try_read(0), KV_IO);
  ck_assert_ptr_nonnull(strstr(err.text, "Too many open files"));
  close(taken[--count]);
  /* One descriptor serves all files, those of the set make room for each other. */
  for (int i = 0; i < FILES; i++) read_file(i);
  ck_assert_uint_eq(kv_open_files_count(set), 1);
  while (count) close(taken[--count]);
  for (int i = 0; i < FILES; i++) read_file(i);
  ck_assert_uint_eq(kv_open_files_count(set), FILES);
  limit.rlim_cur = before;
  ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
}
END_TEST

static void *read_many(void *argument) {
  struct harness_random random;
  harness_seed(&random, (uint64_t)(size_t)argument);
  for (int i = 0; i < 3000; i++) read_file((int)harness_below(&random, FILES));
  return NULL;
}

START_TEST(threads_read_more_files_than_may_be_open) {
  pthread_t threads[4];
  kv_open_files_set_limit(set, 2);
  for (size_t i = 0; i < 4; i++)
    ck_assert_int_eq(pthread_create(&threads[i], NULL, read_many, (void *)(i + 1)), 0);
  for (size_t i = 0; i < 4; i++) pthread_join(threads[i], NULL);
  ck_assert_uint_le(kv_open_files_count(set), 2);
}
END_TEST

START_TEST(making_fails_at_every_allocation) {
  struct kv_open_files *made = NULL;
  kv_status status = KV_NOMEM;
  for (uint64_t nth = 1; status == KV_NOMEM; nth++) {
    kv_mem_fail_nth(nth, 0);
    status = kv_open_files_new(&made, &err);
    kv_mem_fail_nth(0, 0);
  }
  OK(status);
  struct kv_open_file *file = NULL;
  kv_mem_fail_nth(1, 0);
  ck_assert_int_eq(kv_open_file_new(made, env, "x", look, NULL, &file, &err), KV_NOMEM);
  kv_mem_fail_nth(1, 0);
  ck_assert_int_eq(try_read(0), KV_NOMEM);
  kv_mem_fail_nth(0, 0);
  read_file(0);
  kv_open_file_free(NULL);
  kv_open_files_free(NULL);
  kv_open_files_free(made);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("open_files");
  TCase *tests = tcase_create("set");
  tcase_set_timeout(tests, 60);
  tcase_add_checked_fixture(tests, setup, teardown);
  tcase_add_test(tests, nothing_is_open_before_it_is_read);
  tcase_add_test(tests, least_recently_read_is_closed_first);
  tcase_add_test(tests, lower_limit_closes_at_once);
  tcase_add_test(tests, limit_is_a_share_of_the_processs);
  tcase_add_test(tests, file_opened_again_must_be_the_same);
  tcase_add_test(tests, read_that_fails_lets_go_of_the_file);
  tcase_add_test(tests, no_descriptor_left_is_an_error_and_passes);
  tcase_add_test(tests, threads_read_more_files_than_may_be_open);
  tcase_add_test(tests, making_fails_at_every_allocation);
  suite_add_tcase(suite, tests);
  return harness_run(suite);
}
