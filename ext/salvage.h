/* CREATE VIRTUAL TABLE temp.saved USING colfam_salvage(t): the rows of a damaged table that can still be read
** (salvage.c, README.md). */
#ifndef COLFAM_SALVAGE_H
#define COLFAM_SALVAGE_H

#include "conn.h"

int colfam_salvage_register(struct colfam_conn *conn);

#endif
