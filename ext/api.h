/* What colfam.h offers to C programs. */
#ifndef COLFAM_API_H
#define COLFAM_API_H

#include "sqlite_api.h"

/* colfam_api(?1): hands the connection's struct colfam_api out through a bound pointer. */
void colfam_api_function(sqlite3_context *context, int argc, sqlite3_value **argv);
/* With the connection; NULL when nobody has asked. */
struct api_object;
void colfam_api_free(struct api_object *object);

#endif
