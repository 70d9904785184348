/* The fault environment: what fails when, and what a failed call leaves. */
#include <pthread.h>
#include <string.h>

#include "env.h"
#include "harness.h"
#include "mem.h"

#define OK(call) ck_assert_int_eq(call, KV_OK)

static struct kv_env *below, *env;
static struct kv_write_file *writer; /* of "w" */
static struct kv_read_file *reader;  /* of "r", 5 bytes */
static struct kv_err err;

static void setup(void) {
  OK(kv_env_memory_new(&below, NULL));
  OK(kv_env_fault_new(below, &env, NULL));
  struct kv_write_file *file;
  OK(kv_env_create(env, "r", NULL, &file, NULL));
  OK(kv_env_append(env, file, kv_slice_of("bytes", 5), NULL));
  kv_env_close_write(env, file);
  uint64_t size;
  OK(kv_env_open(env, "r", &reader, &size, NULL));
  OK(kv_env_create(env, "w", NULL, &writer, NULL));
}

static void teardown(void) {
  kv_env_close_write(env, writer);
  kv_env_close_read(env, reader);
  kv_env_free(env);
  kv_env_free(below);
  ck_assert_int_eq(kv_mem_live_blocks(), 0);
}

static kv_status count_name(void *ctx, const char *name) {
  *(size_t *)ctx += strlen(name);
  return KV_OK;
}

static kv_status create_and_close(void) {
  struct kv_write_file *file;
  kv_status status = kv_env_create(env, "c", NULL, &file, &err);
  if (status != KV_OK) return status;
  kv_env_close_write(env, file);
  return kv_env_remove(below, "c", NULL);
}

static kv_status open_and_close(void) {
  struct kv_read_file *file;
  uint64_t size;
  kv_status status = kv_env_open(env, "r", &file, &size, &err);
  if (status == KV_OK) kv_env_close_read(env, file);
  return status;
}

static kv_status lock_and_unlock(void) {
  struct kv_file_lock *lock;
  kv_status status = kv_env_lock(env, "r", &lock, &err);
  if (status == KV_OK) kv_env_unlock(env, lock);
  return status;
}

static kv_status remove_new(void) {
  struct kv_write_file *file;
  OK(kv_env_create(below, "x", NULL, &file, NULL));
  kv_env_close_write(below, file);
  kv_status status = kv_env_remove(env, "x", &err);
  if (status != KV_OK) OK(kv_env_remove(below, "x", NULL));
  return status;
}

static kv_status exists(void) {
  bool there;
  return kv_env_exists(env, "r", &there, &err);
}

/* There and back. */
static kv_status rename_file(void) {
  kv_status status = kv_env_rename(env, "r", "s", &err);
  if (status == KV_OK) OK(kv_env_rename(below, "s", "r", NULL));
  return status;
}

static kv_status make_dir(void) {
  kv_status status = kv_env_make_dir(env, "d", NULL, &err);
  if (status == KV_OK) OK(kv_env_remove_dir(below, "d", NULL));
  return status;
}

/* One call of the class, repeatable. */
static kv_status call(enum kv_fault_class cls) {
  uint8_t bytes[5];
  size_t names = 0;
  struct kv_range range = {0, 5, bytes};
  switch (cls) {
    case KV_FAULT_CREATE:
      return create_and_close();
    case KV_FAULT_APPEND:
      return kv_env_append(env, writer, kv_slice_of("0123456789", 10), &err);
    case KV_FAULT_SYNC:
      return kv_env_sync(env, writer, &err);
    case KV_FAULT_OPEN:
      return open_and_close();
    case KV_FAULT_READ:
      return kv_env_read(env, reader, &range, 1, &err);
    case KV_FAULT_REMOVE:
      return remove_new();
    case KV_FAULT_MAKE_DIR:
      return make_dir();
    case KV_FAULT_SYNC_DIR:
      return kv_env_sync_dir(env, ".", &err);
    case KV_FAULT_LIST_DIR:
      return kv_env_list_dir(env, ".", count_name, &names, &err);
    case KV_FAULT_LOCK:
      return lock_and_unlock();
    case KV_FAULT_EXISTS:
      return exists();
    case KV_FAULT_RENAME:
      return rename_file();
    case KV_FAULT_RANDOM:
      return kv_env_random(env, bytes, 5, &err);
    default:
      return KV_MISUSE;
  }
}

static bool takes_space(int cls) {
  return cls == KV_FAULT_CREATE || cls == KV_FAULT_APPEND || cls == KV_FAULT_SYNC ||
         cls == KV_FAULT_MAKE_DIR || cls == KV_FAULT_RENAME;
}

static bool takes_descriptor(int cls) {
  return cls == KV_FAULT_CREATE || cls == KV_FAULT_OPEN || cls == KV_FAULT_LOCK ||
         cls == KV_FAULT_SYNC_DIR || cls == KV_FAULT_LIST_DIR;
}

static bool counts(int group, int cls) {
  return group == cls || group == KV_FAULT_ANY || (group == KV_FAULT_SPACE && takes_space(cls)) ||
         (group == KV_FAULT_DESCRIPTORS && takes_descriptor(cls)) ||
         (group == KV_FAULT_FLIP && cls == KV_FAULT_READ);
}

START_TEST(calls_are_counted_in_their_class_and_its_groups) {
  enum kv_fault_class cls = (enum kv_fault_class)_i;
  uint64_t before[KV_FAULT_CLASSES];
  for (int i = 0; i < KV_FAULT_CLASSES; i++) {
    before[i] = kv_env_fault_calls(env, (enum kv_fault_class)i);
  }
  OK(call(cls));
  OK(call(cls));
  for (int i = 0; i < KV_FAULT_CLASSES; i++) {
    uint64_t moved = kv_env_fault_calls(env, (enum kv_fault_class)i) - before[i];
    ck_assert_uint_eq(moved, counts(i, _i) ? 2 : 0);
  }
}
END_TEST

START_TEST(nth_call_of_a_class_fails_once) {
  enum kv_fault_class cls = (enum kv_fault_class)_i;
  OK(call(cls));
  kv_env_fault_set(env, cls, 2, false, KV_FULL);
  OK(call(cls));
  ck_assert_int_eq(call(cls), KV_FULL);
  ck_assert_int_eq(err.status, KV_FULL);
  ck_assert(!strncmp(err.text, "injected failure of ", 20));
  OK(call(cls));
}
END_TEST

START_TEST(sticky_fault_fails_until_switched_off) {
  enum kv_fault_class cls = (enum kv_fault_class)_i;
  kv_env_fault_set(env, cls, 1, true, KV_IO);
  for (int i = 0; i < 3; i++) ck_assert_int_eq(call(cls), KV_IO);
  kv_env_fault_set(env, cls, 0, false, KV_OK);
  OK(call(cls));
}
END_TEST

START_TEST(fault_of_one_class_leaves_the_others) {
  kv_env_fault_set(env, (enum kv_fault_class)_i, 1, true, KV_IO);
  for (int i = 0; i < KV_FAULT_ANY; i++) {
    ck_assert_int_eq(call((enum kv_fault_class)i), i == _i ? KV_IO : KV_OK);
  }
}
END_TEST

START_TEST(any_counts_over_classes) {
  kv_env_fault_set(env, KV_FAULT_ANY, 1 + (uint64_t)_i, false, KV_IO);
  for (int i = 0; i < KV_FAULT_ANY; i++) {
    ck_assert_int_eq(call((enum kv_fault_class)i), i == _i ? KV_IO : KV_OK);
  }
}
END_TEST

START_TEST(group_fails_where_it_counts) {
  for (int group = KV_FAULT_SPACE; group <= KV_FAULT_DESCRIPTORS; group++) {
    kv_env_fault_set(env, (enum kv_fault_class)group, 1, true, KV_FULL);
    ck_assert_int_eq(call((enum kv_fault_class)_i), counts(group, _i) ? KV_FULL : KV_OK);
    kv_env_fault_set(env, (enum kv_fault_class)group, 0, false, KV_OK);
  }
}
END_TEST

START_TEST(class_goes_before_any) {
  kv_env_fault_set(env, KV_FAULT_ANY, 1, true, KV_IO);
  kv_env_fault_set(env, KV_FAULT_SYNC, 1, true, KV_FULL);
  ck_assert_int_eq(call(KV_FAULT_SYNC), KV_FULL);
  ck_assert_int_eq(call(KV_FAULT_READ), KV_IO);
}
END_TEST

static void assert_written(const char *text) {
  struct kv_read_file *file;
  uint64_t size;
  uint8_t bytes[100];
  OK(kv_env_open(below, "w", &file, &size, NULL));
  ck_assert_uint_eq(size, strlen(text));
  struct kv_range range = {0, size, bytes};
  OK(kv_env_read(below, file, &range, 1, NULL));
  ck_assert_mem_eq(bytes, text, size);
  kv_env_close_read(below, file);
}

START_TEST(failed_append_leaves_half_of_its_bytes) {
  OK(call(KV_FAULT_APPEND));
  kv_env_fault_set(env, KV_FAULT_APPEND, 1, false, KV_FULL);
  ck_assert_int_eq(call(KV_FAULT_APPEND), KV_FULL);
  assert_written("012345678901234");
}
END_TEST

START_TEST(failed_read_fills_half_of_each_range) {
  uint8_t bytes[6] = {0};
  struct kv_range ranges[] = {{0, 2, bytes}, {1, 4, bytes + 2}};
  kv_env_fault_set(env, KV_FAULT_READ, 1, false, KV_CORRUPT);
  ck_assert_int_eq(kv_env_read(env, reader, ranges, 2, &err), KV_CORRUPT);
  ck_assert_mem_eq(bytes, "b\0yt\0\0", 6);
}
END_TEST

static int bits_of(uint8_t byte) {
  return __builtin_popcount(byte);
}

START_TEST(flipped_read_has_one_wrong_bit) {
  uint8_t bytes[5], seen[5] = {0};
  struct kv_range ranges[] = {{0, 2, bytes}, {2, 3, bytes + 2}};
  kv_env_fault_set(env, KV_FAULT_FLIP, 1, true, KV_OK);
  for (int i = 0; i < 1000; i++) {
    int wrong = 0;
    OK(kv_env_read(env, reader, ranges, 2, &err));
    for (int j = 0; j < 5; j++) {
      uint8_t change = bytes[j] ^ (uint8_t) "bytes"[j];
      wrong += bits_of(change);
      seen[j] |= change;
    }
    ck_assert_int_eq(wrong, 1);
  }
  for (int j = 0; j < 5; j++) ck_assert_int_eq(seen[j], 0xff);
  kv_env_fault_set(env, KV_FAULT_FLIP, 0, false, KV_OK);
  OK(kv_env_read(env, reader, ranges, 2, &err));
  ck_assert_mem_eq(bytes, "bytes", 5);
}
END_TEST

START_TEST(handles_are_counted) {
  struct kv_file_lock *lock;
  struct kv_read_file *file;
  uint64_t size;
  ck_assert_int_eq(kv_env_fault_handles(env), 2);
  OK(kv_env_lock(env, "r", &lock, NULL));
  OK(kv_env_open(env, "r", &file, &size, NULL));
  ck_assert_int_eq(kv_env_open(env, "none", &file, &size, NULL), KV_MISSING);
  ck_assert_int_eq(kv_env_fault_handles(env), 4);
  kv_env_unlock(env, lock);
  kv_env_close_read(env, file);
  ck_assert_int_eq(kv_env_fault_handles(env), 2);
}
END_TEST

START_TEST(failed_calls_do_nothing) {
  struct kv_write_file *file;
  struct kv_read_file *opened;
  uint64_t size;
  kv_env_fault_set(env, KV_FAULT_ANY, 1, true, KV_IO);
  ck_assert_int_eq(kv_env_create(env, "new", NULL, &file, NULL), KV_IO);
  ck_assert_int_eq(kv_env_open(below, "new", &opened, &size, NULL), KV_MISSING);
  ck_assert_int_eq(kv_env_rename(env, "r", "s", NULL), KV_IO);
  ck_assert_int_eq(kv_env_remove(env, "r", NULL), KV_IO);
  OK(kv_env_open(below, "r", &opened, &size, NULL));
  kv_env_close_read(below, opened);
  ck_assert_int_eq(kv_env_make_dir(env, "dir", NULL, NULL), KV_IO);
  ck_assert_int_eq(kv_env_sync_dir(below, "dir", NULL), KV_MISSING);
  OK(kv_env_make_dir(below, "dir", NULL, NULL));
  ck_assert_int_eq(kv_env_remove_dir(env, "dir", NULL), KV_IO);
  OK(kv_env_sync_dir(below, "dir", NULL));
  size_t names = 0;
  ck_assert_int_eq(kv_env_list_dir(env, ".", count_name, &names, NULL), KV_IO);
  ck_assert_uint_eq(names, 0);
}
END_TEST

START_TEST(failures_below_come_through) {
  struct kv_read_file *file;
  struct kv_write_file *made;
  uint64_t size;
  ck_assert_int_eq(kv_env_open(env, "none", &file, &size, &err), KV_MISSING);
  ck_assert_int_eq(kv_env_create(env, "r", NULL, &made, &err), KV_BUSY);
  ck_assert_int_eq(kv_env_remove_dir(env, "none", &err), KV_MISSING);
  uint8_t bytes[6];
  struct kv_range range = {0, 6, bytes};
  ck_assert_int_eq(kv_env_read(env, reader, &range, 1, &err), KV_CORRUPT);
}
END_TEST

enum { THREADS = 4, ROUNDS = 2000 };

static void *read_often(void *failures) {
  for (int i = 0; i < ROUNDS; i++) {
    uint8_t bytes[5];
    struct kv_range range = {0, 5, bytes};
    kv_status status = kv_env_read(env, reader, &range, 1, NULL);
    if (status != KV_OK) __atomic_add_fetch((int *)failures, 1, __ATOMIC_RELAXED);
  }
  return NULL;
}

START_TEST(one_of_many_threads_meets_the_fault) {
  int failures = 0;
  uint64_t before = kv_env_fault_calls(env, KV_FAULT_READ);
  kv_env_fault_set(env, KV_FAULT_READ, THREADS * ROUNDS / 2, false, KV_IO);
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++) {
    ck_assert_int_eq(pthread_create(&threads[i], NULL, read_often, &failures), 0);
  }
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  ck_assert_int_eq(failures, 1);
  ck_assert_uint_eq(kv_env_fault_calls(env, KV_FAULT_READ) - before, THREADS * ROUNDS);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("env_fault");
  TCase *tests = tcase_create("fault");
  tcase_add_checked_fixture(tests, setup, teardown);
  tcase_add_loop_test(tests, calls_are_counted_in_their_class_and_its_groups, 0, KV_FAULT_ANY);
  tcase_add_loop_test(tests, nth_call_of_a_class_fails_once, 0, KV_FAULT_ANY);
  tcase_add_loop_test(tests, sticky_fault_fails_until_switched_off, 0, KV_FAULT_ANY);
  tcase_add_loop_test(tests, fault_of_one_class_leaves_the_others, 0, KV_FAULT_ANY);
  tcase_add_loop_test(tests, any_counts_over_classes, 0, KV_FAULT_ANY);
  tcase_add_loop_test(tests, group_fails_where_it_counts, 0, KV_FAULT_ANY);
  tcase_add_test(tests, class_goes_before_any);
  tcase_add_test(tests, failed_read_fills_half_of_each_range);
  tcase_add_test(tests, flipped_read_has_one_wrong_bit);
  tcase_add_test(tests, handles_are_counted);
  tcase_add_test(tests, failed_append_leaves_half_of_its_bytes);
  tcase_add_test(tests, failed_calls_do_nothing);
  tcase_add_test(tests, failures_below_come_through);
  tcase_add_test(tests, one_of_many_threads_meets_the_fault);
  suite_add_tcase(suite, tests);
  return harness_run(suite);
}
