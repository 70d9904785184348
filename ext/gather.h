/* The first step of every read through colfam.h: the keys of a request, encoded, in the order in which they
** were asked for. Those that no row can have are left out; every key knows its place among the rest. Thread
** rule: the connection's. */
#ifndef COLFAM_GATHER_H
#define COLFAM_GATHER_H

#include <stddef.h>
#include <stdint.h>

#include "api_call.h"
#include "engine/kv.h"

#define COLFAM_NOWHERE SIZE_MAX /* the place of a key that no row can have */

struct colfam_gathered {
  struct kv_buf bytes; /* of the encoded keys */
  size_t count;        /* keys asked for */
  size_t *places;      /* of each in `keys`, or COLFAM_NOWHERE; owns the memory of `keys` too */
  struct kv_slice *keys;
  size_t key_count;
  size_t one_place; /* memory for one: the struct stays where it is */
  struct kv_slice one_key;
};
/* Request i of the call, into zeros, but for `bytes`, which may have memory. Released by the caller, after a
** failure too. */
int colfam_gather(struct colfam_gathered *gathered, struct colfam_call *call, int i);
/* Nothing may have been gathered: all zeros. */
void colfam_gathered_release(struct colfam_gathered *gathered);
/* The place of key number k; COLFAM_NOWHERE also when there is no such number. */
size_t colfam_gathered_place(const struct colfam_gathered *gathered, sqlite3_int64 k);

#endif
