/* Where a backup goes: the names it makes. */
#ifndef COLFAM_BACKUP_H
#define COLFAM_BACKUP_H

#include "engine/kv.h"
#include "sqlite_api.h"

/* Where all of a copy is made. */
struct kv_env *colfam_backup_env(void);

/* All are full paths, sqlite3_malloc. Zero-initialise; release always allowed. */
struct colfam_backup_names {
  char *database; /* what was asked for */
  char *dir;      /* of its table files */
  char *partial;  /* the database until it is complete */
  char *parent;   /* the directory that all of them lie in */
};
/* Makes the names for a path. Refuses with a message what is no plain path, and any name that stands for
** something already: also a journal that SQLite would take for the copy's. Makes nothing; removes what a
** backup to the same path has left that was killed. */
int colfam_backup_names_init(struct colfam_backup_names *names, const char *path, char **message);
/* That removing: a partial database that nobody works on any more, and the directory of table files beside
** it. What may be something else stays and is no failure; a backup that is at work is SQLITE_BUSY. */
int colfam_backup_clear_left(const struct colfam_backup_names *names, char **message);
void colfam_backup_names_release(struct colfam_backup_names *names);

#endif
