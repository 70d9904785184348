/* Another process in this one: a copy of the extension, which knows nothing of the first one's memory. */
#ifndef HARNESS_COPIES_H
#define HARNESS_COPIES_H

#include <sqlite3.h>

/* A connection that has loaded copy number `copy` (0 to 9), made when it is wanted first; background
** thread off. */
sqlite3 *copies_open(const char *path, int copy);

#endif
