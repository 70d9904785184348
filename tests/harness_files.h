/* The table files of a colfam table against its manifest. */
#ifndef HARNESS_FILES_H
#define HARNESS_FILES_H

#include <sqlite3.h>

/* Table files in <database>-colfam. */
int files_on_disk(const char *database);
/* Every file that t_cffile names is on disk. */
void files_named_are_there(sqlite3 *db, const char *table);
/* And no other is, when this is the database's only colfam table and no merge is under way. */
void files_agree(sqlite3 *db, const char *table);
/* The same where a merge may be under way, whose files have no name yet: it ends with the last connection
** of the process, which must be this one and is closed. */
void files_agree_when_closed(sqlite3 *db, const char *table);

#endif
