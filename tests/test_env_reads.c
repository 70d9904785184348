/* How many calls of the system a group of reads, or of hints, takes: near ranges share one, what lies between
** them is read too; ranges far apart do not. The program has its own preadv and posix_fadvise in front of the
** library's, and counts. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "env.h"
#include "harness.h"

enum { BYTES = 1 << 20, NEAR = 8192, GROUP = 16 };

static uint8_t content[BYTES], got[BYTES];
static int calls, hints;
static off_t hinted;

ssize_t preadv(int fd, const struct iovec *parts, int count, off_t offset) {
  calls++;
  return syscall(SYS_preadv, fd, parts, (long)count, (long)offset, 0L);
}

int posix_fadvise(int fd, off_t offset, off_t size, int advice) {
  (void)fd, (void)offset;
  hints += advice == POSIX_FADV_WILLNEED;
  hinted += size;
  return 0;
}

static struct kv_read_file *open_content(void) {
  char path[400];
  struct kv_write_file *file;
  struct kv_read_file *reader;
  uint64_t size;
  for (size_t i = 0; i < BYTES; i++) content[i] = (uint8_t)(i * 31 + (i >> 8));
  snprintf(path, sizeof path, "%s/content", harness_dir());
  struct kv_env *env = kv_env_posix();
  ck_assert_int_eq(kv_env_create(env, path, NULL, &file, NULL), KV_OK);
  ck_assert_int_eq(kv_env_append(env, file, kv_slice_of(content, BYTES), NULL), KV_OK);
  kv_env_close_write(env, file);
  ck_assert_int_eq(kv_env_open(env, path, &reader, &size, NULL), KV_OK);
  ck_assert_uint_eq(size, BYTES);
  return reader;
}

/* n ranges of 1,000 bytes with `gap` bytes between them; gives the calls that reading them took. */
static int calls_for(struct kv_read_file *file, size_t n, size_t gap) {
  struct kv_range ranges[64];
  for (size_t i = 0; i < n; i++) {
    size_t offset = i * (1000 + gap);
    ranges[i] = (struct kv_range){offset, 1000, got + offset};
  }
  memset(got, 0, BYTES);
  calls = 0;
  ck_assert_int_eq(kv_env_read(kv_env_posix(), file, ranges, n, NULL), KV_OK);
  for (size_t i = 0; i < n; i++)
    ck_assert_mem_eq(ranges[i].into, content + ranges[i].offset, ranges[i].size);
  return calls;
}

START_TEST(near_ranges_share_a_call) {
  struct kv_read_file *file = open_content();
  ck_assert_int_eq(calls_for(file, 1, 0), 1);
  ck_assert_int_eq(calls_for(file, GROUP, 0), 1);
  ck_assert_int_eq(calls_for(file, GROUP, 1), 1);
  ck_assert_int_eq(calls_for(file, GROUP, NEAR), 1);
  ck_assert_int_eq(calls_for(file, GROUP, NEAR + 1), GROUP);
  ck_assert_int_eq(calls_for(file, 3 * GROUP + 1, 100), 4);
  kv_env_close_read(kv_env_posix(), file);
}
END_TEST

/* n ranges of 1,000 bytes, announced; gives the hints that this took. */
static int hints_for(struct kv_read_file *file, size_t n, size_t gap) {
  struct kv_range ranges[64];
  for (size_t i = 0; i < n; i++) ranges[i] = (struct kv_range){i * (1000 + gap), 1000, NULL};
  calls = hints = 0;
  hinted = 0;
  kv_env_expect(kv_env_posix(), file, ranges, n);
  ck_assert_int_eq(calls, 0);
  return hints;
}

START_TEST(near_ranges_share_a_hint) {
  struct kv_read_file *file = open_content();
  ck_assert_int_eq(hints_for(file, 1, 0), 1);
  ck_assert_int_eq(hints_for(file, GROUP, NEAR), 1);
  ck_assert_int_eq(hinted, GROUP * 1000 + (GROUP - 1) * NEAR);
  ck_assert_int_eq(hints_for(file, GROUP, NEAR + 1), GROUP);
  ck_assert_int_eq(hinted, GROUP * 1000);
  ck_assert_int_eq(hints_for(file, 0, 0), 0);
  kv_env_close_read(kv_env_posix(), file);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("env_reads");
  TCase *tests = tcase_create("posix");
  tcase_add_test(tests, near_ranges_share_a_call);
  tcase_add_test(tests, near_ranges_share_a_hint);
  suite_add_tcase(suite, tests);
  return harness_run(suite);
}
