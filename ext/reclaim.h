/* Removing table files by proof (engine/README.md, invariant 5): a file goes only when its drop is durable
** and no snapshot can need it. Files wait in the store's queue; every commit of a colfam table moves it on.
** What is still queued when the process ends stays on disk as an orphan, which a later process sweeps
** (sweep.h). */
#ifndef COLFAM_RECLAIM_H
#define COLFAM_RECLAIM_H

#include <stdbool.h>

#include "engine/kv.h"
#include "store.h"
#include "table.h"

/* Queues files whose t_cffile rows a commit has just removed. Out of memory leaves orphans, nothing worse. */
void colfam_reclaim_add(struct colfam_store *store, struct kv_family *family, const uint64_t *ids,
                        size_t count);
/* Queues a file of which is not known whether a t_cffile names it: the next xSync sees. */
void colfam_reclaim_doubt(struct colfam_store *store, struct kv_family *family, uint64_t id);

/* Queues a file that no commit has named and that only a view of this process keeps: there is nothing to
** prove. */
void colfam_reclaim_unnamed(struct colfam_store *store, struct kv_family *family, uint64_t id);

/* Inside xSync: remembers journal mode, locking mode and synchronous, which decide what a commit proves, and
** lets go of removals whose files some t_cffile of the database names (again). */
int colfam_reclaim_note_journal(struct colfam_table *table, char **message);
/* Inside xCommit: takes the proof as far as it goes and removes what is proved. Cannot fail. */
void colfam_reclaim_run(struct colfam_table *table);
/* Tries again to remove what is proved and was held only by a view of this process. */
void colfam_reclaim_retry(struct colfam_store *store);

#endif
