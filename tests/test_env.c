/* What every environment promises, asked of POSIX, memory and fault (wrapped around memory), and
** what only the one in memory does. */
#include "env.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "harness.h"
#include "mem.h"

enum { POSIX, MEMORY, FAULT, KINDS };

/* An environment with an empty directory in it. */
struct place {
  struct kv_env *env;
  struct kv_env *below; /* of the fault environment */
  char dir[300];
  char path[400]; /* the last made by at() */
};

static struct place place;

#define OK(call) ck_assert_int_eq(call, KV_OK)

static void enter(int kind) {
  struct kv_err err;
  place = (struct place){0};
  snprintf(place.dir, sizeof place.dir, "%s/env", harness_dir());
  if (kind == POSIX) place.env = kv_env_posix();
  if (kind == MEMORY) OK(kv_env_memory_new(&place.env, &err));
  if (kind == FAULT) {
    OK(kv_env_memory_new(&place.below, &err));
    OK(kv_env_fault_new(place.below, &place.env, &err));
  }
  OK(kv_env_make_dir(place.env, place.dir, NULL, &err));
}

static void leave(void) {
  kv_env_free(place.env);
  kv_env_free(place.below);
  ck_assert_int_eq(kv_mem_live_blocks(), 0);
}

static const char *at(const char *name) {
  snprintf(place.path, sizeof place.path, "%s/%s", place.dir, name);
  return place.path;
}

static struct kv_write_file *create(const char *name) {
  struct kv_write_file *file;
  OK(kv_env_create(place.env, at(name), NULL, &file, NULL));
  return file;
}

static void append(struct kv_write_file *file, const char *text) {
  OK(kv_env_append(place.env, file, kv_slice_of(text, strlen(text)), NULL));
}

static void put(const char *name, const char *text) {
  struct kv_write_file *file = create(name);
  append(file, text);
  OK(kv_env_sync(place.env, file, NULL));
  kv_env_close_write(place.env, file);
}

static struct kv_read_file *open_file(const char *name, uint64_t *size) {
  struct kv_read_file *file;
  OK(kv_env_open(place.env, at(name), &file, size, NULL));
  return file;
}

static kv_status read_at(struct kv_read_file *file, uint64_t offset, size_t size, void *into) {
  struct kv_range range = {offset, size, into};
  struct kv_err err = {KV_OK, ""};
  kv_status status = kv_env_read(place.env, file, &range, 1, &err);
  ck_assert_int_eq(err.status, status);
  return status;
}

/* Asserts that the file holds exactly the text. */
static void assert_file(struct kv_read_file *file, uint64_t size, const char *text) {
  char bytes[200];
  ck_assert_uint_eq(size, strlen(text));
  OK(read_at(file, 0, size, bytes));
  ck_assert_mem_eq(bytes, text, size);
}

static void assert_content(const char *name, const char *text) {
  uint64_t size;
  struct kv_read_file *file = open_file(name, &size);
  assert_file(file, size, text);
  kv_env_close_read(place.env, file);
}

static kv_status open_status(const char *name) {
  struct kv_read_file *file;
  uint64_t size;
  struct kv_err err;
  kv_status status = kv_env_open(place.env, at(name), &file, &size, &err);
  if (status == KV_OK) kv_env_close_read(place.env, file);
  return status;
}

START_TEST(file_reads_back_what_was_appended) {
  enter(_i);
  struct kv_write_file *file = create("a");
  append(file, "hello ");
  append(file, "");
  append(file, "world");
  OK(kv_env_sync(place.env, file, NULL));
  kv_env_close_write(place.env, file);
  OK(kv_env_sync_dir(place.env, place.dir, NULL));
  assert_content("a", "hello world");
  OK(kv_env_remove(place.env, at("a"), NULL));
  leave();
}
END_TEST

static kv_status lock_status(const char *name) {
  struct kv_file_lock *lock;
  struct kv_err err = {KV_OK, ""};
  kv_status status = kv_env_lock(place.env, at(name), &lock, &err);
  ck_assert_int_eq(err.status, status);
  if (status == KV_OK) kv_env_unlock(place.env, lock);
  return status;
}

START_TEST(file_is_locked_until_its_maker_closes_it) {
  enter(_i);
  struct kv_write_file *file = create("a");
  ck_assert_int_eq(lock_status("a"), KV_BUSY);
  append(file, "x");
  OK(kv_env_sync(place.env, file, NULL));
  ck_assert_int_eq(lock_status("a"), KV_BUSY);
  assert_content("a", "x");
  kv_env_close_write(place.env, file);
  ck_assert_int_eq(lock_status("a"), KV_OK);
  ck_assert_int_eq(lock_status("a"), KV_OK);
  leave();
}
END_TEST

START_TEST(lock_excludes_and_readers_do_not_care) {
  enter(_i);
  put("a", "hello");
  struct kv_file_lock *lock;
  OK(kv_env_lock(place.env, at("a"), &lock, NULL));
  ck_assert_int_eq(lock_status("a"), KV_BUSY);
  assert_content("a", "hello");
  OK(kv_env_remove(place.env, at("a"), NULL));
  ck_assert_int_eq(lock_status("a"), KV_MISSING);
  put("a", "another");
  ck_assert_int_eq(lock_status("a"), KV_OK);
  kv_env_unlock(place.env, lock);
  leave();
}
END_TEST

START_TEST(only_files_that_are_there_are_locked) {
  enter(_i);
  ck_assert_int_eq(lock_status("nothing"), KV_MISSING);
  OK(kv_env_make_dir(place.env, at("d"), NULL, NULL));
  ck_assert_int_eq(lock_status("d"), KV_IO);
  leave();
}
END_TEST

START_TEST(empty_file_has_no_bytes) {
  enter(_i);
  put("a", "");
  uint64_t size = 99;
  struct kv_read_file *file = open_file("a", &size);
  ck_assert_uint_eq(size, 0);
  char byte;
  OK(read_at(file, 0, 0, NULL));
  ck_assert_int_eq(read_at(file, 0, 1, &byte), KV_CORRUPT);
  OK(kv_env_read(place.env, file, NULL, 0, NULL));
  kv_env_close_read(place.env, file);
  leave();
}
END_TEST

START_TEST(create_of_existing_file_is_busy) {
  enter(_i);
  put("a", "first");
  struct kv_write_file *file;
  struct kv_err err;
  ck_assert_int_eq(kv_env_create(place.env, at("a"), NULL, &file, &err), KV_BUSY);
  ck_assert_int_eq(err.status, KV_BUSY);
  ck_assert_ptr_nonnull(strstr(err.text, "env/a"));
  ck_assert_int_eq(kv_env_create(place.env, place.dir, NULL, &file, &err), KV_BUSY);
  assert_content("a", "first");
  leave();
}
END_TEST

START_TEST(what_is_not_there_is_missing) {
  enter(_i);
  struct kv_write_file *file;
  struct kv_err err;
  ck_assert_int_eq(open_status("none"), KV_MISSING);
  ck_assert_int_eq(kv_env_remove(place.env, at("none"), &err), KV_MISSING);
  ck_assert_ptr_nonnull(strstr(err.text, "env/none"));
  ck_assert_int_eq(kv_env_create(place.env, at("none/a"), NULL, &file, &err), KV_MISSING);
  ck_assert_int_eq(kv_env_remove_dir(place.env, at("none"), &err), KV_MISSING);
  ck_assert_int_eq(kv_env_sync_dir(place.env, at("none"), &err), KV_MISSING);
  ck_assert_int_eq(kv_env_list_dir(place.env, at("none"), NULL, NULL, &err), KV_MISSING);
  leave();
}
END_TEST

START_TEST(files_and_directories_are_not_confused) {
  enter(_i);
  put("a", "text");
  struct kv_err err;
  ck_assert_int_eq(kv_env_make_dir(place.env, at("a"), NULL, &err), KV_IO);
  ck_assert_int_eq(kv_env_remove_dir(place.env, at("a"), &err), KV_IO);
  ck_assert_int_eq(kv_env_remove(place.env, place.dir, &err), KV_IO);
  OK(kv_env_make_dir(place.env, at("d"), NULL, &err));
  ck_assert_int_eq(open_status("d"), KV_IO);
  assert_content("a", "text");
  leave();
}
END_TEST

START_TEST(removed_file_is_read_to_the_end_by_who_has_it_open) {
  enter(_i);
  put("a", "still here");
  uint64_t size, again_size;
  struct kv_read_file *file = open_file("a", &size);
  OK(kv_env_remove(place.env, at("a"), NULL));
  ck_assert_int_eq(open_status("a"), KV_MISSING);
  put("a", "another");
  struct kv_read_file *again = open_file("a", &again_size);
  assert_file(file, size, "still here");
  assert_file(again, again_size, "another");
  kv_env_close_read(place.env, file);
  kv_env_close_read(place.env, again);
  leave();
}
END_TEST

START_TEST(file_being_written_reads_what_it_had_when_opened) {
  enter(_i);
  struct kv_write_file *file = create("a");
  append(file, "first");
  uint64_t size;
  struct kv_read_file *reader = open_file("a", &size);
  for (int i = 0; i < 1000; i++) append(file, "more and more");
  assert_file(reader, size, "first");
  char byte;
  ck_assert_int_eq(read_at(reader, 5, 1, &byte), KV_CORRUPT);
  kv_env_close_write(place.env, file);
  assert_file(reader, size, "first");
  kv_env_close_read(place.env, reader);
  leave();
}
END_TEST

START_TEST(file_removed_while_written_is_gone_when_closed) {
  enter(_i);
  struct kv_write_file *file = create("a");
  append(file, "first");
  OK(kv_env_remove(place.env, at("a"), NULL));
  append(file, "second");
  OK(kv_env_sync(place.env, file, NULL));
  kv_env_close_write(place.env, file);
  ck_assert_int_eq(open_status("a"), KV_MISSING);
  leave();
}
END_TEST

START_TEST(read_past_the_end_is_corrupt) {
  enter(_i);
  put("a", "0123456789");
  uint64_t size;
  char bytes[20];
  struct kv_read_file *file = open_file("a", &size);
  OK(read_at(file, 9, 1, bytes));
  ck_assert_int_eq(bytes[0], '9');
  OK(read_at(file, 10, 0, bytes));
  ck_assert_int_eq(read_at(file, 10, 1, bytes), KV_CORRUPT);
  ck_assert_int_eq(read_at(file, 0, 11, bytes), KV_CORRUPT);
  ck_assert_int_eq(read_at(file, 11, 0, bytes), KV_CORRUPT);
  ck_assert_int_eq(read_at(file, UINT64_MAX, 2, bytes), KV_CORRUPT);
  ck_assert_int_eq(read_at(file, 1, SIZE_MAX, bytes), KV_CORRUPT);
  ck_assert_int_eq(read_at(file, (uint64_t)INT64_MAX, 1, bytes), KV_CORRUPT);
  kv_env_close_read(place.env, file);
  leave();
}
END_TEST

enum { BIG = 200000, RANGES = 60 };
static uint8_t content[BIG], got[BIG];

static void put_big(struct harness_random *random) {
  for (size_t i = 0; i < BIG; i++) content[i] = (uint8_t)harness_next(random);
  struct kv_write_file *file = create("big");
  for (size_t done = 0; done < BIG;) {
    size_t size = 1 + harness_below(random, 5000);
    if (size > BIG - done) size = BIG - done;
    OK(kv_env_append(place.env, file, kv_slice_of(content + done, size), NULL));
    done += size;
  }
  kv_env_close_write(place.env, file);
}

/* Sorted ranges, many adjoining, some far apart, some empty, into a buffer where nothing else may change. */
START_TEST(groups_of_ranges_are_filled_exactly) {
  uint64_t seed = harness_seed_env(51);
  struct harness_random random;
  harness_seed(&random, seed);
  enter(_i);
  put_big(&random);
  uint64_t size;
  struct kv_read_file *file = open_file("big", &size);
  for (int round = 0; round < 300; round++) {
    struct kv_range ranges[RANGES];
    static uint8_t expected[BIG];
    memset(got, 0xee, BIG);
    memset(expected, 0xee, BIG);
    size_t n = 0, offset = harness_below(&random, 100);
    while (n < RANGES) {
      size_t bytes = harness_below(&random, 600);
      ranges[n++] = (struct kv_range){offset, bytes, got + offset};
      memcpy(expected + offset, content + offset, bytes);
      offset += bytes + (harness_below(&random, 4) ? 0 : 1 + harness_below(&random, 500));
      if (offset < BIG / 2 && harness_below(&random, 15) == 0)
        offset += 8000 + harness_below(&random, 400);
    }
    OK(kv_env_read(place.env, file, ranges, n, NULL));
    if (memcmp(got, expected, BIG)) ck_abort_msg("seed %llu", (unsigned long long)seed);
  }
  kv_env_close_read(place.env, file);
  leave();
}
END_TEST

START_TEST(one_bad_range_fails_the_group) {
  struct harness_random random;
  harness_seed(&random, 1);
  enter(_i);
  put_big(&random);
  uint64_t size;
  struct kv_read_file *file = open_file("big", &size);
  struct kv_range ranges[] = {{0, 10, got}, {10, 20, got + 10}, {BIG - 5, 6, got + 50}};
  struct kv_err err;
  ck_assert_int_eq(kv_env_read(place.env, file, ranges, 3, &err), KV_CORRUPT);
  ck_assert_ptr_nonnull(strstr(err.text, "99995 + 6"));
  OK(kv_env_read(place.env, file, ranges, 2, &err));
  kv_env_close_read(place.env, file);
  leave();
}
END_TEST

static bool exists(const char *name) {
  bool there = !strcmp(name, "none");
  OK(kv_env_exists(place.env, at(name), &there, NULL));
  return there;
}

START_TEST(exists_tells_of_files_and_directories) {
  enter(_i);
  ck_assert(!exists("none"));
  ck_assert(!exists("no dir/none"));
  put("a", "");
  ck_assert(exists("a"));
  OK(kv_env_make_dir(place.env, at("d"), NULL, NULL));
  ck_assert(exists("d"));
  OK(kv_env_remove(place.env, at("a"), NULL));
  ck_assert(!exists("a"));
  leave();
}
END_TEST

static kv_status rename_status(const char *from, const char *to) {
  char old[400];
  struct kv_err err = {KV_OK, ""};
  snprintf(old, sizeof old, "%s", at(from));
  kv_status status = kv_env_rename(place.env, old, at(to), &err);
  ck_assert_int_eq(err.status, status);
  return status;
}

START_TEST(renamed_file_keeps_its_bytes_and_readers) {
  enter(_i);
  uint64_t size;
  put("a", "hello");
  struct kv_read_file *file = open_file("a", &size);
  ck_assert_int_eq(rename_status("a", "b"), KV_OK);
  ck_assert_int_eq(open_status("a"), KV_MISSING);
  assert_content("b", "hello");
  assert_file(file, size, "hello");
  kv_env_close_read(place.env, file);
  put("a", "other");
  OK(kv_env_remove(place.env, at("b"), NULL));
  assert_content("a", "other");
  leave();
}
END_TEST

START_TEST(rename_takes_no_name_that_is_taken) {
  enter(_i);
  put("a", "one");
  put("b", "two");
  OK(kv_env_make_dir(place.env, at("d"), NULL, NULL));
  ck_assert_int_eq(rename_status("a", "b"), KV_BUSY);
  ck_assert_int_eq(rename_status("a", "d"), KV_BUSY);
  ck_assert_int_eq(rename_status("a", "a"), KV_BUSY);
  ck_assert_int_eq(rename_status("none", "c"), KV_MISSING);
  assert_content("a", "one");
  assert_content("b", "two");
  ck_assert_int_eq(rename_status("a", "d/a"), KV_OK);
  assert_content("d/a", "one");
  leave();
}
END_TEST

START_TEST(make_dir_twice_is_ok) {
  enter(_i);
  OK(kv_env_make_dir(place.env, at("d"), NULL, NULL));
  put("d/a", "inside");
  OK(kv_env_make_dir(place.env, at("d"), NULL, NULL));
  assert_content("d/a", "inside");
  leave();
}
END_TEST

START_TEST(remove_dir_only_when_empty) {
  enter(_i);
  struct kv_err err;
  OK(kv_env_make_dir(place.env, at("d"), NULL, NULL));
  put("d/a", "inside");
  put("dd", "beside");
  ck_assert_int_eq(kv_env_remove_dir(place.env, at("d"), &err), KV_BUSY);
  ck_assert_int_eq(err.status, KV_BUSY);
  OK(kv_env_remove(place.env, at("d/a"), NULL));
  OK(kv_env_remove_dir(place.env, at("d"), &err));
  ck_assert_int_eq(kv_env_remove_dir(place.env, at("d"), &err), KV_MISSING);
  leave();
}
END_TEST

/* Names seen, as one letter each. */
struct names {
  char seen[20];
  size_t n;
  size_t stop_at; /* 0 = never */
};

static kv_status note_name(void *ctx, const char *name) {
  struct names *names = ctx;
  ck_assert_uint_eq(strlen(name), 1);
  names->seen[names->n++] = name[0];
  if (names->n == names->stop_at) return KV_CANCELED;
  return KV_OK;
}

static bool saw(const struct names *names, char name) {
  return memchr(names->seen, name, names->n) != NULL;
}

START_TEST(list_dir_gives_names_of_this_directory_only) {
  enter(_i);
  put("a", "1");
  put("b", "2");
  OK(kv_env_make_dir(place.env, at("d"), NULL, NULL));
  put("d/c", "3");
  struct names names = {.n = 0};
  OK(kv_env_list_dir(place.env, place.dir, note_name, &names, NULL));
  ck_assert_uint_eq(names.n, 3);
  ck_assert(saw(&names, 'a') && saw(&names, 'b') && saw(&names, 'd'));
  names.n = 0;
  OK(kv_env_list_dir(place.env, at("d"), note_name, &names, NULL));
  ck_assert_uint_eq(names.n, 1);
  ck_assert(saw(&names, 'c'));
  leave();
}
END_TEST

START_TEST(list_dir_stops_with_the_callbacks_status) {
  enter(_i);
  put("a", "1");
  put("b", "2");
  put("c", "3");
  struct names names = {.stop_at = 2};
  ck_assert_int_eq(kv_env_list_dir(place.env, place.dir, note_name, &names, NULL), KV_CANCELED);
  ck_assert_uint_eq(names.n, 2);
  leave();
}
END_TEST

static kv_status remove_name(void *ctx, const char *name) {
  ++*(int *)ctx;
  return kv_env_remove(place.env, at(name), NULL);
}

START_TEST(list_dir_callback_may_remove) {
  enter(_i);
  put("a", "1");
  put("b", "2");
  int count = 0;
  OK(kv_env_list_dir(place.env, place.dir, remove_name, &count, NULL));
  ck_assert_int_eq(count, 2);
  OK(kv_env_remove_dir(place.env, place.dir, NULL));
  leave();
}
END_TEST

START_TEST(random_bytes_differ) {
  enter(_i);
  uint8_t a[1000] = {0}, b[1000] = {0};
  OK(kv_env_random(place.env, a, sizeof a, NULL));
  OK(kv_env_random(place.env, b, sizeof b, NULL));
  ck_assert(memcmp(a, b, sizeof a));
  ck_assert(memcmp(a, b, 16));
  ck_assert(memcmp(a, a + 500, 500));
  b[0] = 77;
  OK(kv_env_random(place.env, b, 0, NULL));
  ck_assert_uint_eq(b[0], 77);
  leave();
}
END_TEST

START_TEST(clock_does_not_go_back) {
  enter(_i);
  uint64_t first = kv_env_now_us(place.env);
  for (int i = 0; i < 1000; i++) {
    uint64_t now = kv_env_now_us(place.env);
    ck_assert_uint_ge(now, first);
    first = now;
  }
  leave();
}
END_TEST

/* Everything that allocates, once; the first failure's status. Leaves no handle and no file. */
static kv_status use_everything(struct kv_err *err) {
  struct kv_write_file *writer;
  kv_status status = kv_env_create(place.env, at("x"), NULL, &writer, err);
  if (status != KV_OK) return status;
  status = kv_env_append(place.env, writer, kv_slice_of("bytes", 5), err);
  if (status == KV_OK) status = kv_env_sync(place.env, writer, err);
  kv_env_close_write(place.env, writer);
  struct kv_read_file *reader;
  uint64_t size;
  if (status == KV_OK) status = kv_env_open(place.env, at("x"), &reader, &size, err);
  if (status == KV_OK) kv_env_close_read(place.env, reader);
  struct names names = {.n = 0};
  if (status == KV_OK) {
    status = kv_env_list_dir(place.env, place.dir, note_name, &names, err);
  }
  if (status == KV_OK) status = kv_env_make_dir(place.env, at("y"), NULL, err);
  if (status == KV_OK) status = kv_env_remove_dir(place.env, at("y"), err);
  char from[400];
  snprintf(from, sizeof from, "%s", at("x"));
  if (status == KV_OK) {
    status = kv_env_rename(place.env, from, at("z"), err);
    if (status == KV_OK) OK(kv_env_remove(place.env, at("z"), NULL));
    if (status == KV_OK) return status;
  }
  OK(kv_env_remove(place.env, at("x"), NULL));
  return status;
}

START_TEST(every_failed_allocation_is_nomem_and_leaks_nothing) {
  enter(_i);
  int64_t before = kv_mem_live_blocks();
  for (uint64_t n = 1;; n++) {
    struct kv_err err = {KV_OK, ""};
    (void)kv_mem_fail_nth(n, 0);
    kv_status status = use_everything(&err);
    uint64_t made = kv_mem_fail_nth(0, 0);
    ck_assert_int_eq(kv_mem_live_blocks(), before);
    if (made < n) {
      OK(status);
      break;
    }
    ck_assert_int_eq(status, KV_NOMEM);
    ck_assert_int_eq(err.status, KV_NOMEM);
  }
  leave();
}
END_TEST

START_TEST(new_environments_without_memory_are_nomem) {
  for (uint64_t n = 1; n <= 2; n++) {
    struct kv_env *env;
    struct kv_err err;
    (void)kv_mem_fail_nth(n, 0);
    ck_assert_int_eq(kv_env_memory_new(&env, &err), KV_NOMEM);
    ck_assert_int_eq(err.status, KV_NOMEM);
  }
  struct kv_env *env;
  (void)kv_mem_fail_nth(1, 0);
  ck_assert_int_eq(kv_env_fault_new(kv_env_posix(), &env, NULL), KV_NOMEM);
  struct kv_mutex *mutex;
  (void)kv_mem_fail_nth(1, 0);
  ck_assert_int_eq(kv_mutex_new(&mutex, NULL), KV_NOMEM);
  (void)kv_mem_fail_nth(0, 0);
  ck_assert_int_eq(kv_mem_live_blocks(), 0);
}
END_TEST

START_TEST(free_of_nothing_and_of_posix_does_nothing) {
  kv_env_free(NULL);
  kv_env_free(kv_env_posix());
  kv_mutex_free(NULL);
  uint8_t byte;
  OK(kv_env_random(kv_env_posix(), &byte, 1, NULL));
}
END_TEST

START_TEST(memory_has_a_root_without_making_it) {
  enter(MEMORY);
  struct kv_write_file *file;
  static const char *const paths[] = {"a", "/b", "./c"};
  for (int i = 0; i < 3; i++) {
    OK(kv_env_create(place.env, paths[i], NULL, &file, NULL));
    kv_env_close_write(place.env, file);
  }
  OK(kv_env_make_dir(place.env, "d", NULL, NULL));
  OK(kv_env_create(place.env, "d/e", NULL, &file, NULL));
  kv_env_close_write(place.env, file);
  struct names names = {.n = 0};
  OK(kv_env_list_dir(place.env, "/", note_name, &names, NULL));
  ck_assert_uint_eq(names.n, 4);
  ck_assert(saw(&names, 'a') && saw(&names, 'b') && saw(&names, 'c') && saw(&names, 'd'));
  OK(kv_env_sync_dir(place.env, ".", NULL));
  leave();
}
END_TEST

START_TEST(memory_file_that_lacks_an_append_cannot_be_synced) {
  enter(MEMORY);
  struct kv_write_file *file = create("a");
  (void)kv_mem_fail_nth(1, 0);
  ck_assert_int_eq(kv_env_append(place.env, file, kv_slice_of("x", 1), NULL), KV_NOMEM);
  (void)kv_mem_fail_nth(0, 0);
  ck_assert_int_eq(kv_env_append(place.env, file, kv_slice_of("y", 1), NULL), KV_NOMEM);
  ck_assert_int_eq(kv_env_sync(place.env, file, NULL), KV_NOMEM);
  kv_env_close_write(place.env, file);
  leave();
}
END_TEST

START_TEST(memory_frees_what_was_left_in_it) {
  enter(MEMORY);
  put("a", "left");
  OK(kv_env_make_dir(place.env, at("d"), NULL, NULL));
  put("d/b", "left too");
  leave();
}
END_TEST

enum { THREADS = 4, ROUNDS = 300 };

/* Own files made and removed while all read the shared one. Asserts only by its result: Check's are
** for the main thread. */
static void *churn(void *arg) {
  struct kv_env *env = place.env;
  char path[400];
  snprintf(path, sizeof path, "%s/own%d", place.dir, *(const int *)arg);
  for (int i = 0; i < ROUNDS; i++) {
    struct kv_write_file *writer;
    struct kv_read_file *reader;
    uint64_t size;
    char bytes[8];
    struct kv_range range = {0, 5, (uint8_t *)bytes};
    if (kv_env_create(env, path, NULL, &writer, NULL) != KV_OK) return arg;
    if (kv_env_append(env, writer, kv_slice_of("bytes", 5), NULL) != KV_OK) return arg;
    if (kv_env_open(env, path, &reader, &size, NULL) != KV_OK) return arg;
    kv_env_close_write(env, writer);
    if (kv_env_remove(env, path, NULL) != KV_OK) return arg;
    if (kv_env_read(env, reader, &range, 1, NULL) != KV_OK) return arg;
    kv_env_close_read(env, reader);
    if (memcmp(bytes, "bytes", 5)) return arg;
    if (kv_env_open(env, place.path, &reader, &size, NULL) != KV_OK) return arg;
    if (kv_env_read(env, reader, &range, 1, NULL) != KV_OK) return arg;
    kv_env_close_read(env, reader);
    if (memcmp(bytes, "share", 5)) return arg;
  }
  return NULL;
}

START_TEST(threads_share_an_environment) {
  enter(_i);
  put("shared", "shared");
  pthread_t threads[THREADS];
  int numbers[THREADS];
  for (int i = 0; i < THREADS; i++) {
    numbers[i] = i;
    ck_assert_int_eq(pthread_create(&threads[i], NULL, churn, &numbers[i]), 0);
  }
  for (int i = 0; i < THREADS; i++) {
    void *failed;
    pthread_join(threads[i], &failed);
    ck_assert_ptr_null(failed);
  }
  leave();
}
END_TEST

static int in_the_making; /* the number of the file that its maker has in hand; 0 = none */

static void *make_files(void *arg) {
  for (int i = 1; i <= 3000; i++) {
    char path[400];
    struct kv_write_file *file;
    snprintf(path, sizeof path, "%s/%d", place.dir, i);
    __atomic_store_n(&in_the_making, i, __ATOMIC_SEQ_CST);
    if (kv_env_create(place.env, path, NULL, &file, NULL) != KV_OK) return arg;
    if (kv_env_remove(place.env, path, NULL) != KV_OK) return arg;
    __atomic_store_n(&in_the_making, 0, __ATOMIC_SEQ_CST);
    kv_env_close_write(place.env, file);
  }
  __atomic_store_n(&in_the_making, -1, __ATOMIC_SEQ_CST);
  return NULL;
}

/* Whoever gets the lock of a file may take it for left behind: never while it is being made. */
START_TEST(file_is_locked_from_its_first_moment) {
  enter(_i);
  pthread_t maker;
  static int marker;
  __atomic_store_n(&in_the_making, 0, __ATOMIC_SEQ_CST);
  ck_assert_int_eq(pthread_create(&maker, NULL, make_files, &marker), 0);
  for (int number; (number = __atomic_load_n(&in_the_making, __ATOMIC_SEQ_CST)) >= 0;) {
    char path[400];
    struct kv_file_lock *lock;
    snprintf(path, sizeof path, "%s/%d", place.dir, number);
    if (!number || kv_env_lock(place.env, path, &lock, NULL) != KV_OK) continue;
    ck_assert_int_ne(__atomic_load_n(&in_the_making, __ATOMIC_SEQ_CST), number);
    kv_env_unlock(place.env, lock);
  }
  void *failed;
  pthread_join(maker, &failed);
  ck_assert_ptr_null(failed);
  leave();
}
END_TEST

int main(void) {
  Suite *suite = suite_create("env");
  TCase *all = tcase_create("every environment");
  tcase_add_loop_test(all, file_reads_back_what_was_appended, 0, KINDS);
  tcase_add_loop_test(all, file_is_locked_until_its_maker_closes_it, 0, KINDS);
  tcase_add_loop_test(all, lock_excludes_and_readers_do_not_care, 0, KINDS);
  tcase_add_loop_test(all, only_files_that_are_there_are_locked, 0, KINDS);
  tcase_add_loop_test(all, empty_file_has_no_bytes, 0, KINDS);
  tcase_add_loop_test(all, create_of_existing_file_is_busy, 0, KINDS);
  tcase_add_loop_test(all, what_is_not_there_is_missing, 0, KINDS);
  tcase_add_loop_test(all, files_and_directories_are_not_confused, 0, KINDS);
  tcase_add_loop_test(all, removed_file_is_read_to_the_end_by_who_has_it_open, 0, KINDS);
  tcase_add_loop_test(all, file_being_written_reads_what_it_had_when_opened, 0, KINDS);
  tcase_add_loop_test(all, file_removed_while_written_is_gone_when_closed, 0, KINDS);
  tcase_add_loop_test(all, read_past_the_end_is_corrupt, 0, KINDS);
  tcase_add_loop_test(all, groups_of_ranges_are_filled_exactly, 0, KINDS);
  tcase_add_loop_test(all, one_bad_range_fails_the_group, 0, KINDS);
  tcase_add_loop_test(all, exists_tells_of_files_and_directories, 0, KINDS);
  tcase_add_loop_test(all, renamed_file_keeps_its_bytes_and_readers, 0, KINDS);
  tcase_add_loop_test(all, rename_takes_no_name_that_is_taken, 0, KINDS);
  tcase_add_loop_test(all, make_dir_twice_is_ok, 0, KINDS);
  tcase_add_loop_test(all, remove_dir_only_when_empty, 0, KINDS);
  tcase_add_loop_test(all, list_dir_gives_names_of_this_directory_only, 0, KINDS);
  tcase_add_loop_test(all, list_dir_stops_with_the_callbacks_status, 0, KINDS);
  tcase_add_loop_test(all, list_dir_callback_may_remove, 0, KINDS);
  tcase_add_loop_test(all, random_bytes_differ, 0, KINDS);
  tcase_add_loop_test(all, clock_does_not_go_back, 0, KINDS);
  tcase_add_loop_test(all, every_failed_allocation_is_nomem_and_leaks_nothing, 0, KINDS);
  tcase_add_loop_test(all, threads_share_an_environment, 0, KINDS);
  tcase_add_loop_test(all, file_is_locked_from_its_first_moment, 0, KINDS);
  tcase_add_test(all, new_environments_without_memory_are_nomem);
  tcase_add_test(all, free_of_nothing_and_of_posix_does_nothing);
  suite_add_tcase(suite, all);
  TCase *memory = tcase_create("memory");
  tcase_add_test(memory, memory_has_a_root_without_making_it);
  tcase_add_test(memory, memory_file_that_lacks_an_append_cannot_be_synced);
  tcase_add_test(memory, memory_frees_what_was_left_in_it);
  suite_add_tcase(suite, memory);
  return harness_run(suite);
}
