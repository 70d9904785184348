/* Table-valued functions whose rows are gathered at once: a definition says the columns and how to gather,
** everything SQLite wants of a module is here. All are eponymous-only and read-only. */
#ifndef COLFAM_TVF_H
#define COLFAM_TVF_H

#include <stdbool.h>

#include "conn.h"
#include "list.h"
#include "sqlite_api.h"

struct colfam_tvf {
  const char *name;
  const char *columns; /* as in CREATE TABLE: "id TEXT, level INTEGER" */
  int column_count;
  bool takes_table; /* name('t'): the argument is the hidden column table_name, and must be given */
  bool direct_only; /* not for views and triggers */
  /* Appends all rows; `table` is the argument or NULL. On failure returns the code and may set *message
  ** (sqlite3_malloc). */
  int (*gather)(struct colfam_conn *conn, const char *table, struct colfam_list *list,
                char **message);
};
/* `tvf` is static storage. The module holds a reference to conn. */
int colfam_tvf_register(struct colfam_conn *conn, const struct colfam_tvf *tvf);

extern const struct colfam_tvf colfam_stats_tvf;
extern const struct colfam_tvf colfam_families_tvf;
extern const struct colfam_tvf colfam_files_tvf;
extern const struct colfam_tvf colfam_check_tvf;

#endif
