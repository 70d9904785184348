/* See harness_oom.h. SQLite's allocator is wrapped by sqlite3_config; lookaside is off, so that small
** allocations count too. */
#include "harness_oom.h"

#include <sqlite3.h>
#include <stdint.h>
#include <stdlib.h>

#include "engine/mem.h"

static sqlite3_mem_methods real;
static int countdown; /* 0 = off */
static bool stays, failed;
static uint64_t engine_nth;
static uint64_t sqlite_count;

static bool fails(void) {
  sqlite_count++;
  if (!countdown) return false;
  if (--countdown) return false;
  if (stays) countdown = 1;
  failed = true;
  return true;
}

static void *fail_malloc(int size) {
  return fails() ? NULL : real.xMalloc(size);
}

static void *fail_realloc(void *old, int size) {
  return fails() ? NULL : real.xRealloc(old, size);
}

void oom_install(void) {
  int rc = sqlite3_config(SQLITE_CONFIG_GETMALLOC, &real);
  sqlite3_mem_methods wrapped = real;
  wrapped.xMalloc = fail_malloc;
  wrapped.xRealloc = fail_realloc;
  if (!rc) rc = sqlite3_config(SQLITE_CONFIG_MALLOC, &wrapped);
  if (!rc) rc = sqlite3_config(SQLITE_CONFIG_LOOKASIDE, 0, 0);
  if (rc) abort();
}

void oom_fail_nth(enum oom_heap heap, int n, bool sticky) {
  if (heap == OOM_ENGINE) {
    engine_nth = (uint64_t)n;
    kv_mem_fail_nth(engine_nth, sticky);
    return;
  }
  failed = false;
  stays = sticky;
  countdown = n;
}

bool oom_stop(enum oom_heap heap) {
  if (heap == OOM_ENGINE) return kv_mem_fail_nth(0, 0) >= engine_nth;
  countdown = 0;
  return failed;
}

uint64_t oom_count(void) {
  uint64_t count = sqlite_count + kv_mem_fail_nth(0, 0);
  sqlite_count = 0;
  return count;
}
