/* See lend.h. The last holder to let go frees a piece of memory. */
#include "lend.h"

#include "sqlite_api.h"

static void let_go(struct colfam_lent *lent) {
  if (lent && --lent->holders == 0) sqlite3_free(lent);
}

uint8_t *colfam_lend_other(struct colfam_lender *lender, size_t size) {
  if (size > COLFAM_LENT_BYTES_MAX) return NULL;
  size_t i = 0;
  while (i < COLFAM_LENT_COUNT && lender->lent[i] && lender->lent[i]->holders > 1) i++;
  if (i == COLFAM_LENT_COUNT) return NULL;
  if (!lender->lent[i]) {
    lender->lent[i] = sqlite3_malloc64(sizeof *lender->lent[i]);
    if (!lender->lent[i]) return NULL;
  }
  lender->lent[i]->holders = 2;
  return lender->lent[i]->bytes;
}

void colfam_lent_back(void *bytes) {
  let_go((struct colfam_lent *)(void *)((char *)bytes - offsetof(struct colfam_lent, bytes)));
}

void colfam_lender_release(struct colfam_lender *lender) {
  for (size_t i = 0; i < COLFAM_LENT_COUNT; i++) {
    let_go(lender->lent[i]);
    lender->lent[i] = NULL;
  }
}
