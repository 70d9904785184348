/* The main of a fuzz target that is built as an ordinary program, by any compiler, for any sanitizer or
** valgrind; libFuzzer brings its own.
**
**   fuzz_<name>                its corpus, tests/corpus/<name>
**   fuzz_<name> FILE...        these inputs
**   fuzz_<name> --seeds DIR    writes its seeds there */
#include <dirent.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness_fuzz.h"

/* ---- Which input it was: told by a signal handler, or by what a sanitizer calls before it ends */

enum { PATH_BYTES = PATH_MAX + 300 };
static char current[PATH_BYTES];

static void tell_current(void) {
  static const char before[] = "input: ";
  ssize_t written = write(STDERR_FILENO, before, sizeof before - 1);
  written += write(STDERR_FILENO, current, strlen(current));
  written += write(STDERR_FILENO, "\n", 1);
  (void)written;
}

static void tell_and_die(int number) {
  tell_current();
  signal(number, SIG_DFL);
  raise(number);
}

void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

static void tell_before_death(void) {
  signal(SIGABRT, tell_and_die);
  if (__sanitizer_set_death_callback) {
    __sanitizer_set_death_callback(tell_current);
  } else {
    signal(SIGSEGV, tell_and_die);
  }
}

/* ---- Inputs */

/* In memory of just its size, so that a read behind it is seen. */
static void run_file(const char *path) {
  snprintf(current, sizeof current, "%s", path);
  FILE *file = fopen(path, "rb");
  ck_assert_msg(file && !fseek(file, 0, SEEK_END), "%s", path);
  size_t size = (size_t)ftell(file);
  rewind(file);
  uint8_t *bytes = malloc(size ? size : 1);
  ck_assert_ptr_nonnull(bytes);
  ck_assert_uint_eq(fread(bytes, 1, size, file), size);
  fclose(file);
  LLVMFuzzerTestOneInput(bytes, size);
  free(bytes);
}

static int run_directory(const char *path) {
  struct dirent **entries;
  int found = scandir(path, &entries, NULL, alphasort), count = 0;
  ck_assert_msg(found > 0, "%s", path);
  for (int i = 0; i < found; i++) {
    char file[PATH_BYTES];
    snprintf(file, sizeof file, "%s/%s", path, entries[i]->d_name);
    if (entries[i]->d_name[0] != '.') {
      run_file(file);
      count++;
    }
    free(entries[i]);
  }
  free(entries);
  return count;
}

int main(int argc, char **argv) {
  const char *slash = strrchr(argv[0], '/'), *name = slash ? slash + 1 : argv[0];
  tell_before_death();
  if (argc == 3 && !strcmp(argv[1], "--seeds")) {
    fuzz_seed_dir = argv[2];
    fuzz_seeds();
    return EXIT_SUCCESS;
  }
  int count = argc - 1;
  if (argc > 1) {
    for (int i = 1; i < argc; i++) run_file(argv[i]);
  } else {
    char corpus[PATH_MAX];
    snprintf(corpus, sizeof corpus, "tests/corpus/%s", name + strlen("fuzz_"));
    count = run_directory(corpus);
  }
  printf("%s: %d inputs, 0 failed\n", name, count);
  return EXIT_SUCCESS;
}
