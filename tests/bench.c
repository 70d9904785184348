/* See bench.h: rows, what is asked for, counting. Cases are in bench_case.c. */
#include "bench.h"

#include <dirent.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "build.h"
#include "harness.h"

/* ---- How much */

enum bench_scale bench_scale(void) {
  const char *text = getenv("COLFAM_BENCH");
  if (text && strcmp(text, "check") == 0) return BENCH_CHECK;
  return text && strcmp(text, "quick") == 0 ? BENCH_QUICK : BENCH_FULL;
}

size_t bench_by_scale(size_t check, size_t quick, size_t full) {
  const size_t sizes[] = {check, quick, full};
  return sizes[bench_scale()];
}

size_t bench_millions(void) {
  const char *text = getenv("COLFAM_BENCH_SCALE");
  return text ? strtoull(text, NULL, 10) : 0;
}

void bench_print_build(void) {
  char text[300];
  kv_build_info(text, sizeof text);
  printf("%s; %ld processors\n", text, sysconf(_SC_NPROCESSORS_ONLN));
}

void bench_need(bool ok, const char *format, ...) {
  if (ok) return;
  va_list args;
  va_start(args, format);
  fflush(stdout);
  vfprintf(stderr, format, args);
  va_end(args);
  fputc('\n', stderr);
  exit(EXIT_FAILURE);
}

/* ---- Rows */

/* A bijection of 64 bits: different numbers stay different. */
static uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

#define WORDS 1024
#define WORD_BYTES_MAX 9
#define WORD_ROOM 16 /* copied whole where there is room: faster than what it has */

struct vocabulary {
  uint8_t bytes[WORDS][WORD_ROOM];
  uint8_t sizes[WORDS];
};

static const struct vocabulary *words(void) {
  static struct vocabulary made;
  if (made.sizes[0]) return &made;
  struct harness_random random;
  harness_seed(&random, 1);
  for (int i = 0; i < WORDS; i++) {
    uint8_t size = (uint8_t)(3 + harness_below(&random, WORD_BYTES_MAX - 2));
    for (int j = 0; j < size; j++) made.bytes[i][j] = (uint8_t)('a' + harness_below(&random, 26));
    made.bytes[i][size] = ' ';
    made.sizes[i] = (uint8_t)(size + 1);
  }
  return &made;
}

static void fill_text(uint64_t seed, uint8_t *into, size_t size) {
  const struct vocabulary *all = words();
  for (size_t at = 0; at < size;) {
    seed += 0x9e3779b97f4a7c15u;
    size_t word = mix(seed) % WORDS;
    if (size - at >= WORD_ROOM)
      memcpy(into + at, all->bytes[word], WORD_ROOM);
    else
      memcpy(into + at, all->bytes[word], size - at);
    at += all->sizes[word];
  }
}

void bench_fill_key(const struct bench_shape *shape, uint64_t row, uint8_t *key) {
  uint64_t halves[2] = {mix(row + 1), mix(row ^ 0x9e3779b97f4a7c15u)};
  memcpy(key, halves, sizeof halves);
  fill_text(row, key + sizeof halves, shape->key_bytes - sizeof halves);
}

void bench_fill_value(const struct bench_shape *shape, uint64_t row, uint8_t *value) {
  static const char digits[] = "0123456789abcdef";
  size_t i = 0;
  for (uint64_t left = mix(row); i < 8 && i < shape->value_bytes; i++, left >>= 4) {
    value[i] = (uint8_t)digits[left & 15];
  }
  fill_text(~row, value + i, shape->value_bytes - i);
}

uint64_t bench_digest(const void *value, size_t size) {
  uint64_t first = 0, last = 0;
  size_t part = size < sizeof first ? size : sizeof first;
  memcpy(&first, value, part);
  memcpy(&last, (const uint8_t *)value + size - part, part);
  return mix(first + 31 * last + size) | 1;
}

/* A number without a factor in common with `count`, so that its multiples visit all of them. */
static uint64_t stride(struct harness_random *random, uint64_t count) {
  for (;;) {
    uint64_t step = 1 + harness_below(random, count), a = count, b = step;
    while (b) {
      uint64_t rest = a % b;
      a = b, b = rest;
    }
    if (a == 1) return step;
  }
}

void bench_asked_init(struct bench_asked *asked, const struct bench_shape *shape, uint64_t first,
                      uint64_t count, size_t rounds, size_t batches, size_t batch) {
  size_t all = rounds * batches * batch;
  *asked = (struct bench_asked){
      calloc(all, sizeof *asked->keys), calloc(all, sizeof *asked->rows), rounds, batches, batch,
      malloc(all * shape->key_bytes)};
  bench_need(asked->keys && asked->rows && asked->bytes, "no memory for %zu keys", all);
  struct harness_random random;
  harness_seed(&random, harness_seed_env(7));
  for (size_t i = 0, at = 0, step = 0; i < all; i++) {
    if (i % batch == 0) step = stride(&random, count), at = harness_below(&random, count);
    at = (at + step) % count;
    uint8_t *key = asked->bytes + i * shape->key_bytes;
    bench_fill_key(shape, first + at, key);
    asked->rows[i] = first + at;
    asked->keys[i] = kv_slice_of(key, shape->key_bytes);
  }
}

void bench_asked_release(struct bench_asked *asked) {
  free(asked->keys);
  free(asked->rows);
  free(asked->bytes);
}

uint64_t bench_asked_sum(const struct bench_asked *asked, const struct bench_shape *shape,
                         size_t round) {
  uint8_t *value = malloc(shape->value_bytes);
  size_t count = asked->batches * asked->batch;
  uint64_t sum = 0;
  for (size_t i = round * count; i < (round + 1) * count; i++) {
    bench_fill_value(shape, asked->rows[i], value);
    sum += bench_digest(value, shape->value_bytes);
  }
  free(value);
  return sum;
}

/* ---- Counting */

static double clock_seconds(clockid_t which) {
  struct timespec time;
  clock_gettime(which, &time);
  return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

double bench_now(void) {
  return clock_seconds(CLOCK_MONOTONIC);
}

double bench_cpu(void) {
  return clock_seconds(CLOCK_THREAD_CPUTIME_ID);
}

double bench_cpu_all(void) {
  return clock_seconds(CLOCK_PROCESS_CPUTIME_ID);
}

void bench_rest(double seconds) {
  struct timespec time = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
  nanosleep(&time, NULL);
}

static bool by_wall(bool waits) {
  const char *text = getenv("COLFAM_BENCH_CLOCK");
  return waits && !(text && strcmp(text, "cpu") == 0);
}

double bench_clock(bool waits) {
  return by_wall(waits) ? bench_now() : bench_cpu();
}

const char *bench_clock_name(bool waits) {
  return by_wall(waits) ? "" : " of processor time";
}

/* The number behind `name` in one of the kernel's files about this process. */
static uint64_t own_fact(const char *path, const char *name) {
  char line[256];
  uint64_t value = 0;
  FILE *file = fopen(path, "r");
  bench_need(file, "%s cannot be read", path);
  while (fgets(line, sizeof line, file)) {
    if (strncmp(line, name, strlen(name)) == 0) value = strtoull(line + strlen(name), NULL, 10);
  }
  fclose(file);
  return value;
}

uint64_t bench_thread_bytes_written(void) {
  return own_fact("/proc/thread-self/io", "wchar:");
}

uint64_t bench_bytes_written(void) {
  return own_fact("/proc/self/io", "wchar:");
}

uint64_t bench_heap_bytes(void) {
  struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

uint64_t bench_rss_max(void) {
  return own_fact("/proc/self/status", "VmHWM:") * 1024;
}

void bench_rss_reset(void) {
  FILE *file = fopen("/proc/self/clear_refs", "w");
  if (!file) return;
  fputs("5", file);
  fclose(file);
}

/* All files below. */
static void each_file(const char *dir, void (*fn)(const char *path, uint64_t *sum), uint64_t *sum) {
  DIR *open = opendir(dir);
  bench_need(open, "%s cannot be read", dir);
  for (struct dirent *entry; (entry = readdir(open));) {
    char path[4096];
    struct stat info;
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
    snprintf(path, sizeof path, "%s/%s", dir, entry->d_name);
    if (lstat(path, &info) != 0) continue;
    if (S_ISDIR(info.st_mode))
      each_file(path, fn, sum);
    else
      fn(path, sum);
  }
  closedir(open);
}

static void add_size(const char *path, uint64_t *sum) {
  struct stat info;
  if (lstat(path, &info) != 0) return;
  uint64_t size = (uint64_t)info.st_size, held = (uint64_t)info.st_blocks * 512;
  *sum += size < held ? size : held;
}

uint64_t bench_disk_bytes(const char *dir) {
  uint64_t sum = 0;
  each_file(dir, add_size, &sum);
  return sum;
}

uint64_t bench_file_bytes(const char *dir, const char *name) {
  char path[4096];
  uint64_t size = 0;
  snprintf(path, sizeof path, "%s/%s", dir, name);
  add_size(path, &size);
  return size;
}

static void forget(const char *path, uint64_t *unused) {
  (void)unused;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  (void)!fsync(fd);
  (void)!posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  close(fd);
}

void bench_drop_pages(const char *dir) {
  each_file(dir, forget, NULL);
}

void bench_in_child(void (*measure)(const void *what, double *figures), const void *what,
                    double *figures, size_t count) {
  size_t size = count * sizeof *figures;
  double *shared = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  int status = 1;
  bench_need(shared != MAP_FAILED, "no memory to share");
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    measure(what, shared);
    exit(EXIT_SUCCESS);
  }
  bench_need(child > 0 && waitpid(child, &status, 0) == child && status == 0,
             "a process has failed");
  memcpy(figures, shared, size);
  munmap(shared, size);
}

char *bench_make_dir(const char *name) {
  static int number;
  char path[4096];
  snprintf(path, sizeof path, "%s/%s-%d", harness_dir(), name, number++);
  bench_need(mkdir(path, 0755) == 0, "%s cannot be made", path);
  return strdup(path);
}

void bench_remove_dir(char *dir) {
  harness_remove_tree(dir);
  free(dir);
}
