/* Texts that SQLite reads as numbers. Any thread. */
#ifndef COLFAM_NUMERAL_H
#define COLFAM_NUMERAL_H

#include <stdbool.h>

#include "engine/kv.h"

/* Whether the text begins like a number as SQLite writes them (blanks, sign, digits, fraction, exponent),
** and that number, to about 12 digits. Never misses a text that SQLite takes as a whole for a number. */
bool colfam_numeral(struct kv_slice text, double *number);

/* The bytes of the longest part at the start of the text that some number begins with; *whole says whether
** the text as a whole is one that SQLite's numeric affinity makes a number of. Exact, but that a NUL behind
** a number ends the text as SQLite 3.53 has it; the reach means nothing then. */
size_t colfam_numeral_reach(struct kv_slice text, bool *whole);
/* Whether it is one for every SQLite: older ones take no text with a NUL for a number. */
bool colfam_is_numeral(struct kv_slice text);

#endif
