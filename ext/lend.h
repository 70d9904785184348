/* Results on loan. SQLite copies a transient result into memory that it allocates for it and frees with the
** statement: dear for a statement that reads one row. What is lent it takes as it is, and gives back when it
** lets go of the value, however long after the cursor that is. Thread rule: the connection's. */
#ifndef COLFAM_LEND_H
#define COLFAM_LEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/kv.h"

enum { COLFAM_LENT_COUNT = 4, COLFAM_LENT_BYTES_MAX = 1024 };

/* Has one or two holders: the lender that made it, and SQLite. */
struct colfam_lent {
  int holders;
  uint8_t bytes[COLFAM_LENT_BYTES_MAX];
};

/* Zero-initialise. */
struct colfam_lender {
  struct colfam_lent *lent[COLFAM_LENT_COUNT];
  unsigned next; /* where the search begins: the one that came back first */
};
/* colfam_lend where the next one will not do. */
uint8_t *colfam_lend_other(struct colfam_lender *lender, size_t size);
/* A long value may be lent where it is, in a block of the cache, which one more pin keeps there: true when
** `bytes`, which lie in the block that `pin` pins (or NULL: in none), are to be set as a result with
** colfam_pinned_back as destructor. False: too short for that, or too many are lent. Any thread. */
bool colfam_lend_pinned(struct kv_cache_entry *pin, const void *bytes, size_t size);
void colfam_pinned_back(void *bytes);

/* `size` bytes, to be filled and set as a result with colfam_lent_back as destructor; NULL when they are too
** many, when all are lent already, or without memory. */
static inline uint8_t *colfam_lend(struct colfam_lender *lender, size_t size) {
  unsigned at = lender->lent[lender->next] ? lender->next : 0;
  struct colfam_lent *lent = lender->lent[at];
  if (!lent || lent->holders > 1 || size > COLFAM_LENT_BYTES_MAX)
    return colfam_lend_other(lender, size);
  lender->next = (at + 1) % COLFAM_LENT_COUNT;
  lent->holders = 2;
  return lent->bytes;
}
void colfam_lent_back(void *bytes);
/* What is still lent is freed when it comes back. */
void colfam_lender_release(struct colfam_lender *lender);

#endif
