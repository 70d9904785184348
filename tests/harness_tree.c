/* See harness_tree.h. Nothing is opened but regular files. */
#include "harness_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness.h"

/* FNV-1a. */
static uint64_t hash_file(const char *path) {
  uint64_t hash = 0xcbf29ce484222325u;
  unsigned char bytes[4096];
  ssize_t size;
  int file = open(path, O_RDONLY | O_NOFOLLOW);
  while (file >= 0 && (size = read(file, bytes, sizeof bytes)) > 0)
    for (ssize_t i = 0; i < size; i++) hash = (hash ^ bytes[i]) * 0x100000001b3u;
  if (file >= 0) close(file);
  return hash;
}

static void print_entry(FILE *out, const char *path, const struct stat *info) {
  char target[4096] = "";
  bool has_size = S_ISREG(info->st_mode) || S_ISLNK(info->st_mode);
  ck_assert(!S_ISLNK(info->st_mode) || readlink(path, target, sizeof target - 1) >= 0);
  fprintf(out, "%s mode %o owner %u.%u size %lld time %lld.%09ld content %016" PRIx64 " %s\n", path,
          (unsigned)info->st_mode, info->st_uid, info->st_gid,
          has_size ? (long long)info->st_size : 0, (long long)info->st_mtim.tv_sec,
          info->st_mtim.tv_nsec, S_ISREG(info->st_mode) ? hash_file(path) : 0, target);
}

static void print_tree(FILE *out, const char *path, const char *but) {
  struct dirent **names;
  int count = scandir(path, &names, NULL, alphasort);
  ck_assert_int_ge(count, 0);
  for (int i = 0; i < count; i++) {
    const char *name = names[i]->d_name;
    char entry[4096];
    struct stat info;
    bool left_out = but && strncmp(name, but, strlen(but)) == 0;
    if (!left_out && strcmp(name, ".") != 0 && strcmp(name, "..") != 0) {
      ck_assert_int_lt(snprintf(entry, sizeof entry, "%s/%s", path, name), (int)sizeof entry);
      ck_assert_int_eq(lstat(entry, &info), 0);
      print_entry(out, entry, &info);
      if (S_ISDIR(info.st_mode)) print_tree(out, entry, NULL);
    }
    free(names[i]);
  }
  free(names);
}

char *tree_lines(const char *path, const char *but) {
  char *lines = NULL;
  size_t size;
  FILE *out = open_memstream(&lines, &size);
  ck_assert_ptr_nonnull(out);
  print_tree(out, path, but);
  ck_assert_int_eq(fclose(out), 0);
  return lines;
}

void tree_is(const char *path, const char *but, char *before) {
  char *now = tree_lines(path, but);
  ck_assert_msg(strcmp(now, before) == 0, "%s was\n%sand is\n%s", path, before, now);
  free(now);
  free(before);
}
