/* The sweep of orphans: files in a database's directory that no t_cffile names and nobody works on, left by
** processes that died, by commits that failed half way and by drops whose proof never came. It feeds the
** queue of reclaim.h, which judges under the write lock and removes by proof (engine/README.md, invariant 5).
** Thread rule: the connection's. */
#ifndef COLFAM_SWEEP_H
#define COLFAM_SWEEP_H

#include <stdbool.h>
#include <stdint.h>

#include "store.h"
#include "table.h"

/* Inside xSync: queues, as doubtful, the table files of the directory that this process knows nothing of,
** when a sweep is due. A directory that cannot be read is no failure: the sweep stays due. */
void colfam_sweep_queue(struct colfam_table *table);
/* Whether nobody holds the lock of the file (engine/env.h): its maker has ended, one way or another. Files
** are locked from the moment that they have their name, so this never becomes false again. */
bool colfam_sweep_is_left(struct colfam_store *store, uint64_t id);

/* Whether a table file is called so, or one that has not got its name yet. */
bool colfam_sweep_is_table_file(const char *name);

#endif
