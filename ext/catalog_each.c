/* The names of a schema's tables (catalog.h). An authorizer that has the reading ignored is noticed, as in
** catalog.c.
** Thread rule: the connection's. */
#include <string.h>

#include "catalog.h"
#include "error.h"

static int unreadable(char **message) {
  return colfam_error(message, SQLITE_AUTH,
                      "not authorized: the application's authorizer ignores reading of the schema");
}

int colfam_catalog_each(sqlite3 *db, const char *database, const char *suffix,
                        int (*visit)(void *context, const char *name), void *context,
                        char **message) {
  char *sql = sqlite3_mprintf("SELECT type, name FROM \"%w\".sqlite_schema", database);
  if (!sql) return SQLITE_NOMEM;
  sqlite3_stmt *names;
  size_t tail = strlen(suffix);
  int rc = sqlite3_prepare_v2(db, sql, -1, &names, NULL), visited = SQLITE_OK;
  sqlite3_free(sql);
  while (rc == SQLITE_OK && visited == SQLITE_OK && (rc = sqlite3_step(names)) == SQLITE_ROW) {
    const char *type = (const char *)sqlite3_column_text(names, 0);
    const char *name = (const char *)sqlite3_column_text(names, 1);
    size_t length = name ? strlen(name) : 0;
    rc = SQLITE_OK;
    if (!type || !name)
      visited = unreadable(message);
    else if (strcmp(type, "table") == 0 && length >= tail &&
             sqlite3_stricmp(name + length - tail, suffix) == 0)
      visited = visit(context, name);
  }
  if (rc == SQLITE_DONE && !sqlite3_column_count(names)) visited = unreadable(message);
  if (rc == SQLITE_DONE) rc = SQLITE_OK;
  if (rc != SQLITE_OK) colfam_error(message, rc, "%s", sqlite3_errmsg(db));
  sqlite3_finalize(names);
  return visited != SQLITE_OK ? visited : rc;
}
