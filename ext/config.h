/* The settings of the process, colfam_config (README.md, Settings). */
#ifndef COLFAM_CONFIG_H
#define COLFAM_CONFIG_H

#include "sqlite_api.h"

/* The SQL function of one argument, a setting's name, or two, the name and its new value. Gives the value
** that is then in force; names and values that there are not are errors that list what there is. */
void colfam_config_function(sqlite3_context *context, int argc, sqlite3_value **argv);

#endif
