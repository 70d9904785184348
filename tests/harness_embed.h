/* What every way of embedding must show: one scenario, given the way to open a connection. */
#ifndef HARNESS_EMBED_H
#define HARNESS_EMBED_H

#include <sqlite3.h>

/* `open` gives a connection with colfam in it. Create, insert, IN-list, EXISTS, savepoint, rollback, an
** atomic commit with an ordinary table, close, reopen, drop. */
void embed_scenario(sqlite3 *(*open)(const char *path));

#endif
