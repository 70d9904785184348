/* The account of a job: every entry of its sources goes to a file, is an older version that is passed over,
** or is left out, and what goes to files can be read back. Held against each other are numbers of entries and
** digests that were made in different places (digest.h):
**
**   in       table files: the manifest's number and the digest in their properties, made by who wrote them.
**            Memtables: all versions in the view's window, summed up when they came in.
**            The batch of a commit: the number that it has, and the digest of what its iterator shows.
**            And the forms that entries take on: a reference for a value that goes apart, the value for a
**            reference that comes back.
**   dropped  versions that memtables and the merge pass over, tombstones left out, forms given up
**   out      what the writers of the files were given
**   read     what is in the files
**
** in = dropped + out, and out = read. Thread rule: one thread. */
#ifndef KV_COMPACT_ACCOUNT_H
#define KV_COMPACT_ACCOUNT_H

#include <stdbool.h>

#include "batch.h"
#include "digest.h"
#include "iter.h"
#include "log.h"
#include "status.h"
#include "table_read.h"

/* Zero-initialise. */
struct kv_account {
  bool lenient; /* checksums are switched off: damage of sources is written on, so in may differ */
  struct kv_digest in;
  struct kv_digest shown; /* by the batch's iterator */
  uint64_t batch_entries;
  struct kv_digest dropped;
  struct kv_digest passed; /* dropped by memtables and the merge */
  struct kv_digest out;
  struct kv_digest read;
};
void kv_account_table(struct kv_account *account, const struct kv_table *table);
/* Iterators over the sources in memory; the account must outlive them. */
kv_status kv_account_batch(struct kv_account *account, struct kv_batch *batch,
                           struct kv_iter **iter, struct kv_err *err);
kv_status kv_account_memtable(struct kv_account *account, struct kv_memtable *table,
                              struct kv_window window, struct kv_iter **iter, struct kv_err *err);
/* From here on the iterators go through all of the sources, once. */
void kv_account_begin(struct kv_account *account);
/* An entry that is left out. */
void kv_account_drop(struct kv_account *account, const struct kv_iter *entry);
/* A value that comes back in the place of a reference to it, and the other way round, beside the value, which
** goes to a file too. */
void kv_account_bring_back(struct kv_account *account, struct kv_slice key,
                           struct kv_slice reference, struct kv_slice value);
void kv_account_refer(struct kv_account *account, struct kv_slice key, struct kv_slice reference);
/* Whether all that went in has come out, and can be read. KV_CORRUPT if not; `kind` and `seq` say whose
** account it is. */
kv_status kv_account_check(const struct kv_account *account, const char *kind, uint64_t seq,
                           struct kv_err *err);
kv_status kv_account_check_read(const struct kv_account *account, const char *kind, uint64_t seq,
                                struct kv_err *err);

#endif
