/* The line that colfam_debug() shows. Versions of libraries are those of the running library where it
** tells (zstd, xxhash when not inlined), instruction sets those of the running processor. */
#include "build.h"

#include <stdio.h>
#include <xxhash.h>
#include <zstd.h>

#if defined(__clang__)
#define COMPILER "clang " __clang_version__
#elif defined(__GNUC__)
#define COMPILER "gcc " __VERSION__
#else
#define COMPILER "unknown compiler"
#endif

#if defined(__x86_64__)
static const char *processor(void) {
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f")) return "x86-64 sse4.2 avx2 avx512";
  if (__builtin_cpu_supports("avx2")) return "x86-64 sse4.2 avx2";
  if (__builtin_cpu_supports("sse4.2")) return "x86-64 sse4.2";
  return "x86-64";
}
#elif defined(__aarch64__)
static const char *processor(void) {
  return "aarch64 neon";
}
#else
static const char *processor(void) {
  return "other processor";
}
#endif

void kv_build_info(char *text, size_t size) {
  unsigned xxhash = XXH_VERSION_NUMBER;
  snprintf(text, size, "zstd %s; xxhash %u.%u.%u; %s; %s", ZSTD_versionString(), xxhash / 10000,
           xxhash / 100 % 100, xxhash % 100, COMPILER, processor());
}
