/* The table's columns as SQLite gets to know them, also when a column's collation is not there. */
#ifndef COLFAM_DECLARE_H
#define COLFAM_DECLARE_H

#include "schema.h"
#include "sqlite_api.h"

/* sqlite3_declare_vtab with the schema's declaration, from xCreate or xConnect. A collation that this
** connection does not know is an error in xCreate, as in CREATE TABLE; in xConnect it becomes one when a
** statement compares by it, as for ordinary tables: others work, DROP among them. */
int colfam_declare(sqlite3 *db, const struct colfam_schema *schema, char **message);

#endif
