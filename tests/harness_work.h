/* For suites about work that waits for a commit: tables t, o (harness_twins.h) and u. */
#ifndef HARNESS_WORK_H
#define HARNESS_WORK_H

#include "harness_twins.h"

/* The distinct phases that a call such as colfam_flush('t') shows. */
void work_phases(sqlite3 *db, const char *call, const char *expected);
/* Files in t_cffile, and all in the directory. */
int work_named_files(sqlite3 *db, const char *table);
int work_files_on_disk(void);
/* A second colfam table, whose commits have nothing to do with t; and such a commit. */
void work_make_u(void);
void work_write_u(sqlite3 *db);
/* Tables u, and t with fifty rows whose flush has been computed by `a` and waits. */
void work_flush_pending(void);
/* t is sound, has the rows of o, and its files are the only ones. */
void work_is_sound(sqlite3 *db);

#endif
