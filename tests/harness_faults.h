/* Faults on demand below a database in memory: allocations (harness_oom.h), the pager's operations (a VFS
** "colfam-test" over that of harness_disk.h) and those of the table files (the engine's fault environment
** over the same disk). For programs linked with the test build (fault_*.c). One thread. */
#ifndef HARNESS_FAULTS_H
#define HARNESS_FAULTS_H

#include <stdbool.h>
#include <stdint.h>

enum fault_kind {
  FAULT_SQLITE_MEMORY, /* allocations of SQLite and ext/ */
  FAULT_ENGINE_MEMORY, /* of the engine, zstd's among them */
  FAULT_PAGER_IO, /* any operation but unlocking and closing: EIO; a write leaves half of its bytes */
  FAULT_PAGER_LATE,  /* write, sync, truncation and removal do their work and then say EIO */
  FAULT_PAGER_FULL,  /* writes, after half of their bytes, and new files: SQLITE_FULL */
  FAULT_PAGER_OPEN,  /* opening: no descriptor, SQLITE_CANTOPEN */
  FAULT_FILES_IO,    /* any operation of the environment */
  FAULT_FILES_FULL,  /* those that take space */
  FAULT_FILES_OPEN,  /* those that take a descriptor */
  FAULT_FILES_SHORT, /* reads that end early */
  FAULT_FILES_FLIP,  /* reads that give a wrong bit */
  FAULT_KINDS
};

const char *fault_name(enum fault_kind kind);

/* Once, before the first use of SQLite in the program. */
void faults_install(void);
/* The nth operation from now that the kind applies to fails (1 = the next), and with `sticky` all later
** ones. */
void faults_arm(enum fault_kind kind, int n, bool sticky);
/* Switches all failing off; true when something had failed. */
bool faults_disarm(void);
/* Operations of pager and environment together, or allocations of both heaps, since the last call. */
uint64_t faults_operations(void);
uint64_t faults_allocations(void);
/* Files of SQLite and of the environment that are open, and locks that are held. */
int64_t faults_open_handles(void);

#endif
