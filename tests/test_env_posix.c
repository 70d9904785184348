/* What only the POSIX environment has to do: modes, links, devices, limits, broken handles. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "env.h"
#include "harness.h"
#include "mem.h"

#define OK(call) ck_assert_int_eq(call, KV_OK)

static struct kv_env *env;
static struct kv_err err;

static void setup(void) {
  env = kv_env_posix();
  ck_assert_int_eq(chdir(harness_dir()), 0);
}

static void teardown(void) {
  ck_assert_int_eq(kv_mem_live_blocks(), 0);
}

static void put(const char *path, const char *text) {
  struct kv_write_file *file;
  OK(kv_env_create(env, path, NULL, &file, &err));
  OK(kv_env_append(env, file, kv_slice_of(text, strlen(text)), &err));
  kv_env_close_write(env, file);
}

static int mode_of(const char *path) {
  struct stat info;
  ck_assert_int_eq(lstat(path, &info), 0);
  return info.st_mode & 07777;
}

/* The descriptor that the next open will get: the lowest that is free. */
static int next_fd(void) {
  int fd = dup(0);
  if (fd < 0) fd = open("/dev/null", O_RDONLY);
  ck_assert_int_ge(fd, 0);
  close(fd);
  return fd;
}

static kv_status open_status(const char *path) {
  struct kv_read_file *file;
  uint64_t size;
  kv_status status = kv_env_open(env, path, &file, &size, &err);
  if (status == KV_OK) kv_env_close_read(env, file);
  return status;
}

START_TEST(create_takes_the_mode_of_the_file_it_is_to_be_like) {
  static const mode_t modes[] = {0600, 0640, 0644, 0660, 0666, 0444};
  put("like", "");
  umask(077);
  for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
    ck_assert_int_eq(chmod("like", modes[i]), 0);
    struct kv_write_file *file;
    OK(kv_env_create(env, "made", "like", &file, &err));
    OK(kv_env_append(env, file, kv_slice_of("x", 1), &err));
    kv_env_close_write(env, file);
    ck_assert_int_eq(mode_of("made"), modes[i]);
    OK(kv_env_remove(env, "made", &err));
  }
}
END_TEST

START_TEST(create_without_a_model_follows_the_umask) {
  umask(022);
  put("a", "");
  ck_assert_int_eq(mode_of("a"), 0644);
  umask(077);
  put("b", "");
  ck_assert_int_eq(mode_of("b"), 0600);
}
END_TEST

START_TEST(create_like_a_missing_file_makes_nothing) {
  struct kv_write_file *file;
  ck_assert_int_eq(kv_env_create(env, "made", "none", &file, &err), KV_MISSING);
  ck_assert_ptr_nonnull(strstr(err.text, "none"));
  ck_assert_int_eq(open_status("made"), KV_MISSING);
  ck_assert_int_eq(kv_env_make_dir(env, "made", "none", &err), KV_MISSING);
  ck_assert_int_eq(open_status("made"), KV_MISSING);
}
END_TEST

START_TEST(create_does_not_follow_links) {
  ck_assert_int_eq(symlink("target", "link"), 0);
  struct kv_write_file *file;
  ck_assert_int_eq(kv_env_create(env, "link", NULL, &file, &err), KV_BUSY);
  ck_assert_int_eq(open_status("target"), KV_MISSING);
}
END_TEST

START_TEST(handles_are_closed_on_exec) {
  struct kv_write_file *writer;
  int fd = next_fd();
  OK(kv_env_create(env, "a", NULL, &writer, &err));
  ck_assert_int_eq(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
  struct kv_read_file *reader;
  uint64_t size;
  fd = next_fd();
  OK(kv_env_open(env, "a", &reader, &size, &err));
  ck_assert_int_eq(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
  kv_env_close_write(env, writer);
  kv_env_close_read(env, reader);
}
END_TEST

static kv_status do_nothing(void *ctx, const char *name) {
  (void)name;
  return ctx ? KV_CANCELED : KV_OK;
}

START_TEST(no_handle_is_left_open) {
  int fd = next_fd();
  put("a", "bytes");
  put("like", "");
  OK(open_status("a"));
  ck_assert_int_eq(open_status("none"), KV_MISSING);
  ck_assert_int_eq(open_status("."), KV_IO);
  OK(kv_env_make_dir(env, "d", "like", &err));
  OK(kv_env_sync_dir(env, "d", &err));
  OK(kv_env_list_dir(env, ".", do_nothing, NULL, &err));
  ck_assert_int_eq(kv_env_list_dir(env, ".", do_nothing, &fd, &err), KV_CANCELED);
  ck_assert_int_eq(next_fd(), fd);
}
END_TEST

START_TEST(open_refuses_links) {
  put("a", "bytes");
  ck_assert_int_eq(symlink("a", "link"), 0);
  ck_assert_int_eq(open_status("link"), KV_IO);
  ck_assert_ptr_nonnull(strstr(err.text, "link"));
}
END_TEST

/* A FIFO nobody writes to would keep a plain open waiting for ever. */
START_TEST(open_refuses_what_is_no_regular_file) {
  ck_assert_int_eq(mkfifo("fifo", 0600), 0);
  ck_assert_int_eq(open_status("fifo"), KV_IO);
  ck_assert_ptr_nonnull(strstr(err.text, "not a regular file"));
  ck_assert_int_eq(open_status("/dev/null"), KV_IO);
  ck_assert_int_eq(open_status("."), KV_IO);
  struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "socket"};
  int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  ck_assert_int_ge(fd, 0);
  ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
  ck_assert_int_eq(open_status("socket"), KV_IO);
  close(fd);
}
END_TEST

START_TEST(file_cut_after_opening_is_corrupt) {
  put("a", "0123456789");
  struct kv_read_file *file;
  uint64_t size;
  OK(kv_env_open(env, "a", &file, &size, &err));
  ck_assert_int_eq(truncate("a", 4), 0);
  uint8_t bytes[10];
  struct kv_range ranges[] = {{0, 3, bytes}, {3, 3, bytes + 3}};
  OK(kv_env_read(env, file, ranges, 1, &err));
  ck_assert_int_eq(kv_env_read(env, file, ranges, 2, &err), KV_CORRUPT);
  ck_assert_ptr_nonnull(strstr(err.text, "a ends before"));
  kv_env_close_read(env, file);
}
END_TEST

/* The limit lets a part of the write through first: a short write, then the refusal. */
START_TEST(write_over_the_size_limit_is_full_and_abandons_the_file) {
  struct rlimit limit = {1000, RLIM_INFINITY};
  signal(SIGXFSZ, SIG_IGN);
  struct kv_write_file *file;
  OK(kv_env_create(env, "a", NULL, &file, &err));
  ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
  static const char bytes[1500];
  ck_assert_int_eq(kv_env_append(env, file, kv_slice_of(bytes, sizeof bytes), &err), KV_FULL);
  ck_assert_int_eq(err.status, KV_FULL);
  limit.rlim_cur = RLIM_INFINITY;
  ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
  struct stat info;
  ck_assert_int_eq(stat("a", &info), 0);
  ck_assert_int_eq(info.st_size, 1000);
  ck_assert_int_eq(kv_env_append(env, file, kv_slice_of(bytes, 1), &err), KV_IO);
  ck_assert_int_eq(kv_env_append(env, file, kv_slice_of(bytes, 0), &err), KV_IO);
  ck_assert_int_eq(kv_env_sync(env, file, &err), KV_IO);
  ck_assert_ptr_nonnull(strstr(err.text, "abandoned"));
  kv_env_close_write(env, file);
}
END_TEST

START_TEST(lock_goes_with_the_process_that_has_it) {
  int ready[2];
  ck_assert_int_eq(pipe(ready), 0);
  pid_t child = fork();
  if (child == 0) {
    struct kv_write_file *file;
    (void)!write(ready[1], kv_env_create(env, "a", NULL, &file, NULL) == KV_OK ? "y" : "n", 1);
    pause();
  }
  char answer;
  ck_assert_int_eq(read(ready[0], &answer, 1), 1);
  ck_assert_int_eq(answer, 'y');
  struct kv_file_lock *lock;
  ck_assert_int_eq(kv_env_lock(env, "a", &lock, &err), KV_BUSY);
  kill(child, SIGKILL);
  ck_assert_int_eq(waitpid(child, NULL, 0), child);
  OK(kv_env_lock(env, "a", &lock, &err));
  kv_env_unlock(env, lock);
  close(ready[0]);
  close(ready[1]);
}
END_TEST

START_TEST(lock_follows_no_link) {
  put("a", "x");
  ck_assert_int_eq(symlink("a", "link"), 0);
  struct kv_file_lock *lock;
  ck_assert_int_eq(kv_env_lock(env, "link", &lock, &err), KV_IO);
}
END_TEST

/* The handle is taken away below the environment, so that the system refuses each call. */
START_TEST(refused_write_is_io) {
  struct kv_write_file *file;
  int fd = next_fd();
  OK(kv_env_create(env, "a", NULL, &file, &err));
  close(fd);
  ck_assert_int_eq(kv_env_append(env, file, kv_slice_of("x", 1), &err), KV_IO);
  ck_assert_ptr_nonnull(strstr(err.text, strerror(EBADF)));
  kv_env_close_write(env, file);
}
END_TEST

START_TEST(refused_sync_is_io_and_abandons_the_file) {
  struct kv_write_file *file;
  int fd = next_fd();
  OK(kv_env_create(env, "a", NULL, &file, &err));
  OK(kv_env_append(env, file, kv_slice_of("x", 1), &err));
  close(fd);
  ck_assert_int_eq(kv_env_sync(env, file, &err), KV_IO);
  ck_assert_ptr_nonnull(strstr(err.text, "cannot sync a"));
  ck_assert_int_eq(open("a", O_WRONLY), fd);
  ck_assert_int_eq(kv_env_sync(env, file, &err), KV_IO);
  ck_assert_ptr_nonnull(strstr(err.text, "abandoned"));
  kv_env_close_write(env, file);
}
END_TEST

START_TEST(refused_read_is_io) {
  put("a", "0123456789");
  struct kv_read_file *file;
  uint64_t size;
  int fd = next_fd();
  OK(kv_env_open(env, "a", &file, &size, &err));
  close(fd);
  uint8_t bytes[10];
  struct kv_range ranges[] = {{0, 3, bytes}, {5, 3, bytes + 3}};
  ck_assert_int_eq(kv_env_read(env, file, ranges, 2, &err), KV_IO);
  kv_env_close_read(env, file);
}
END_TEST

START_TEST(make_dir_gives_search_where_there_is_reading) {
  static const int modes[][2] = {{0600, 0700}, {0640, 0750}, {0644, 0755},
                                 {0660, 0770}, {0666, 0777}, {0444, 0755}};
  put("like", "");
  umask(077);
  for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
    ck_assert_int_eq(chmod("like", (mode_t)modes[i][0]), 0);
    OK(kv_env_make_dir(env, "d", "like", &err));
    ck_assert_int_eq(mode_of("d"), modes[i][1]);
    OK(kv_env_remove_dir(env, "d", &err));
  }
  OK(kv_env_make_dir(env, "d", NULL, &err));
  ck_assert_int_eq(mode_of("d"), 0700);
}
END_TEST

START_TEST(make_dir_refuses_links_and_others) {
  OK(kv_env_make_dir(env, "d", NULL, &err));
  ck_assert_int_eq(symlink("d", "link"), 0);
  ck_assert_int_eq(symlink("nowhere", "dangling"), 0);
  ck_assert_int_eq(mkfifo("fifo", 0600), 0);
  ck_assert_int_eq(kv_env_make_dir(env, "link", NULL, &err), KV_DENIED);
  ck_assert_ptr_nonnull(strstr(err.text, "link is a symbolic link"));
  ck_assert_int_eq(kv_env_make_dir(env, "dangling", NULL, &err), KV_DENIED);
  ck_assert_int_eq(kv_env_make_dir(env, "fifo", NULL, &err), KV_IO);
  ck_assert_int_eq(kv_env_make_dir(env, "none/d", NULL, &err), KV_MISSING);
}
END_TEST

/* Also for a file that is there, of the right kind: what is behind the link belongs to somebody else. */
START_TEST(directory_that_is_a_link_is_denied) {
  struct kv_write_file *made = NULL;
  struct kv_file_lock *lock = NULL;
  OK(kv_env_make_dir(env, "d", NULL, &err));
  put("d/a", "bytes");
  ck_assert_int_eq(symlink("d", "link"), 0);
  ck_assert_int_eq(open_status("link/a"), KV_DENIED);
  ck_assert_ptr_nonnull(strstr(err.text, "link is a symbolic link"));
  ck_assert_int_eq(kv_env_create(env, "link/b", NULL, &made, &err), KV_DENIED);
  ck_assert_int_eq(kv_env_lock(env, "link/a", &lock, &err), KV_DENIED);
  ck_assert_int_eq(kv_env_remove(env, "link/a", &err), KV_DENIED);
  ck_assert_int_eq(open_status("d/a"), KV_OK);
}
END_TEST

/* A group may share a database in a directory whose files get that group. */
START_TEST(make_dir_keeps_the_bit_that_hands_on_the_group) {
  put("like", "");
  ck_assert_int_eq(chmod("like", 0660), 0);
  ck_assert_int_eq(chmod(".", 02770), 0);
  OK(kv_env_make_dir(env, "d", "like", &err));
  struct stat info;
  ck_assert_int_eq(stat("d", &info), 0);
  ck_assert_int_eq(info.st_mode & 07777, 02770);
}
END_TEST

START_TEST(list_dir_refuses_links_and_files) {
  put("a", "");
  ck_assert_int_eq(symlink(".", "link"), 0);
  ck_assert_int_eq(kv_env_list_dir(env, "link", do_nothing, NULL, &err), KV_IO);
  ck_assert_int_eq(kv_env_list_dir(env, "a", do_nothing, NULL, &err), KV_IO);
}
END_TEST

START_TEST(sync_dir_of_a_file_is_io) {
  put("a", "");
  ck_assert_int_eq(kv_env_sync_dir(env, "a", &err), KV_IO);
}
END_TEST

START_TEST(too_many_open_files_is_io) {
  put("a", "bytes");
  struct rlimit limit;
  ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
  rlim_t usual = limit.rlim_cur;
  limit.rlim_cur = (rlim_t)next_fd();
  ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
  kv_status opened = open_status("a");
  struct kv_write_file *file;
  kv_status created = kv_env_create(env, "b", NULL, &file, &err);
  kv_status listed = kv_env_list_dir(env, ".", do_nothing, NULL, &err);
  kv_status synced = kv_env_sync_dir(env, ".", &err);
  limit.rlim_cur = usual;
  ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
  ck_assert_int_eq(opened, KV_IO);
  ck_assert_int_eq(created, KV_IO);
  ck_assert_int_eq(listed, KV_IO);
  ck_assert_int_eq(synced, KV_IO);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("env_posix");
  TCase *tests = tcase_create("posix");
  tcase_add_checked_fixture(tests, setup, teardown);
  tcase_add_test(tests, create_takes_the_mode_of_the_file_it_is_to_be_like);
  tcase_add_test(tests, create_without_a_model_follows_the_umask);
  tcase_add_test(tests, create_like_a_missing_file_makes_nothing);
  tcase_add_test(tests, create_does_not_follow_links);
  tcase_add_test(tests, handles_are_closed_on_exec);
  tcase_add_test(tests, no_handle_is_left_open);
  tcase_add_test(tests, open_refuses_links);
  tcase_add_test(tests, open_refuses_what_is_no_regular_file);
  tcase_add_test(tests, file_cut_after_opening_is_corrupt);
  tcase_add_test(tests, write_over_the_size_limit_is_full_and_abandons_the_file);
  tcase_add_test(tests, lock_goes_with_the_process_that_has_it);
  tcase_add_test(tests, lock_follows_no_link);
  tcase_add_test(tests, refused_write_is_io);
  tcase_add_test(tests, refused_sync_is_io_and_abandons_the_file);
  tcase_add_test(tests, refused_read_is_io);
  tcase_add_test(tests, make_dir_gives_search_where_there_is_reading);
  tcase_add_test(tests, make_dir_refuses_links_and_others);
  tcase_add_test(tests, directory_that_is_a_link_is_denied);
  tcase_add_test(tests, make_dir_keeps_the_bit_that_hands_on_the_group);
  tcase_add_test(tests, list_dir_refuses_links_and_files);
  tcase_add_test(tests, sync_dir_of_a_file_is_io);
  tcase_add_test(tests, too_many_open_files_is_io);
  suite_add_tcase(suite, tests);
  return harness_run(suite);
}
