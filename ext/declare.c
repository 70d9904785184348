/* See declare.h. sqlite3_declare_vtab refuses a declaration with an unknown collation, though SQLite keeps
** nothing of the collation but its name. So such a name is made known while SQLite reads the declaration, and
** unknown again behind it: no statement is ever compiled with it in between. SQLite forgets a collation only
** while no statement runs; with one running (xCreate is in one) the error stays.
** Thread rule: the connection's, whose mutex SQLite holds around xConnect. */
#include "declare.h"

#include <string.h>

static int compare_nothing(void *unused, int a_size, const void *a, int b_size, const void *b) {
  (void)unused, (void)a_size, (void)a, (void)b_size, (void)b;
  return 0;
}

static bool is_running(sqlite3 *db) {
  for (sqlite3_stmt *stmt = sqlite3_next_stmt(db, NULL); stmt; stmt = sqlite3_next_stmt(db, stmt))
    if (sqlite3_stmt_busy(stmt)) return true;
  return false;
}

/* *known: whether a statement with it can be prepared. SQLite asks the application for it, too. */
static int find_collation(sqlite3 *db, const char *name, bool *known) {
  sqlite3_stmt *stmt = NULL;
  char *sql = sqlite3_mprintf("SELECT '' = '' COLLATE \"%w\"", name);
  if (!sql) return SQLITE_NOMEM;
  int rc = sqlite3_prepare_v2(db, sql, -1, &stmt, NULL);
  *known = rc == SQLITE_OK;
  sqlite3_finalize(stmt);
  sqlite3_free(sql);
  return (rc & 0xff) == SQLITE_ERROR ? SQLITE_OK : rc;
}

/* *made: it was not known, and is now. */
static int make_known(sqlite3 *db, const char *name, bool *made) {
  bool known = true;
  int rc = find_collation(db, name, &known);
  if (rc != SQLITE_OK || known) return rc;
  rc = sqlite3_create_collation(db, name, SQLITE_UTF8, NULL, compare_nothing);
  *made = rc == SQLITE_OK;
  return rc;
}

/* made[i]: by column i. */
static int declare_with_all_known(sqlite3 *db, const struct colfam_schema *schema, bool *made) {
  int rc = SQLITE_OK;
  for (int i = 0; i < schema->column_count && rc == SQLITE_OK; i++)
    if (schema->columns[i].collation) rc = make_known(db, schema->columns[i].collation, &made[i]);
  if (rc == SQLITE_OK) rc = sqlite3_declare_vtab(db, schema->declaration);
  for (int i = 0; i < schema->column_count; i++) {
    if (!made[i]) continue;
    int forgotten =
        sqlite3_create_collation(db, schema->columns[i].collation, SQLITE_UTF8, NULL, NULL);
    if (rc == SQLITE_OK) rc = forgotten;
  }
  return rc;
}

int colfam_declare(sqlite3 *db, const struct colfam_schema *schema, char **message) {
  int rc = sqlite3_declare_vtab(db, schema->declaration);
  if (rc == SQLITE_OK) return rc;
  *message = sqlite3_mprintf("%s", sqlite3_errmsg(db));
  if ((rc & 0xff) != SQLITE_ERROR || is_running(db)) return rc;
  bool *made = sqlite3_malloc64((size_t)schema->column_count);
  if (!made) return SQLITE_NOMEM;
  memset(made, 0, (size_t)schema->column_count);
  rc = declare_with_all_known(db, schema, made);
  sqlite3_free(made);
  if (rc != SQLITE_OK) return rc;
  sqlite3_free(*message);
  *message = NULL;
  return SQLITE_OK;
}
