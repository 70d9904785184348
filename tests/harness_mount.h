/* File systems of a test's own, which end with its process and are seen by no other. For a test case that
** runs in a process of its own. */
#ifndef HARNESS_MOUNT_H
#define HARNESS_MOUNT_H

#include <stdbool.h>
#include <stddef.h>

/* A file system of so many bytes in memory on this directory. False, and a line that says so, where the
** system does not allow it. */
bool mount_small(const char *dir, size_t bytes);
/* What is below the directory becomes read-only, or as before. */
bool mount_read_only(const char *dir);
void mount_end(const char *dir);

#endif
