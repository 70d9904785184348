/* DROP TABLE inside transactions. SQLite takes a dropped virtual table out of the transaction at once, and
** a ROLLBACK or ROLLBACK TO may bring it back: files may go only when the DROP has committed, and pending
** writes of before must still be committed when it was undone. So xDestroy makes another virtual table,
** colfam_drops, join the transaction (by a nested INSERT): its callbacks carry what the dropped tables left
** behind. It is eponymous, and for tables outside main made in temp by the first DROP of the connection. */
#ifndef COLFAM_DROP_H
#define COLFAM_DROP_H

#include <stdbool.h>

#include "conn.h"
#include "sqlite_api.h"
#include "table.h"

/* Registers colfam_drops on the connection. */
int colfam_drops_register(struct colfam_conn *conn);
/* Called by xDestroy before the shadow tables go: remembers the table's files. While the application has a
** table or view named colfam_drops there, files stay behind as orphans, and a table with pending writes
** cannot be dropped. */
int colfam_drops_add(struct colfam_table *table, char **message);
/* Whether the transaction in progress has dropped it. */
bool colfam_drops_has(const struct colfam_conn *conn, const struct colfam_table *table);

#endif
