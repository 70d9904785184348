/* Memory that runs out on demand, for suites linked statically: SQLite's allocator and the engine's, counted
** apart. For one thread. */
#ifndef HARNESS_OOM_H
#define HARNESS_OOM_H

#include <stdbool.h>
#include <stdint.h>

/* Once, before the first use of SQLite in the program. */
void oom_install(void);

enum oom_heap { OOM_SQLITE, OOM_ENGINE };
/* The nth allocation of the heap from now fails (1 = the next), and with `sticky` every later one. */
void oom_fail_nth(enum oom_heap heap, int n, bool sticky);
/* Switches failing off; true when an allocation had failed. */
bool oom_stop(enum oom_heap heap);
/* Allocations of both heaps since the last call. */
uint64_t oom_count(void);

#endif
