/* See compact_account.h. */
#include "compact_account.h"

#include <inttypes.h>

void kv_account_table(struct kv_account *account, const struct kv_table *table) {
  kv_digest_join(&account->in, kv_table_digest(table));
}

kv_status kv_account_batch(struct kv_account *account, struct kv_batch *batch,
                           struct kv_iter **iter, struct kv_err *err) {
  account->batch_entries = kv_batch_count(batch);
  return kv_batch_iter_counted(batch, &account->shown, iter, err);
}

kv_status kv_account_memtable(struct kv_account *account, struct kv_memtable *table,
                              struct kv_window window, struct kv_iter **iter, struct kv_err *err) {
  kv_digest_join(&account->in, kv_memtable_digest(table, window));
  return kv_memtable_iter_counted(table, window, &account->passed, iter, err);
}

void kv_account_begin(struct kv_account *account) {
  account->shown = account->passed = (struct kv_digest){0, 0};
}

void kv_account_drop(struct kv_account *account, const struct kv_iter *entry) {
  kv_digest_add(&account->dropped, entry->key, entry->value, entry->deleted || entry->apart);
}

void kv_account_bring_back(struct kv_account *account, struct kv_slice key,
                           struct kv_slice reference, struct kv_slice value) {
  kv_digest_add(&account->dropped, key, reference, true);
  kv_digest_add(&account->in, key, value, false);
}

void kv_account_refer(struct kv_account *account, struct kv_slice key, struct kv_slice reference) {
  kv_digest_add(&account->in, key, reference, true);
}

kv_status kv_account_check(const struct kv_account *account, const char *kind, uint64_t seq,
                           struct kv_err *err) {
  struct kv_digest in = account->in, dropped = account->dropped, accounted;
  kv_digest_join(&in, (struct kv_digest){account->batch_entries, account->shown.sum});
  kv_digest_join(&dropped, account->passed);
  accounted = dropped;
  kv_digest_join(&accounted, account->out);
  if (account->lenient || kv_digest_equal(in, accounted)) return KV_OK;
  return kv_fail(err, KV_CORRUPT,
                 "%s up to commit %" PRIu64 ": %" PRIu64 " entries (sum %016" PRIx64
                 ") went in, %" PRIu64 " (%016" PRIx64 ") came out: %" PRIu64
                 " were written, %" PRIu64 " left out",
                 kind, seq, in.entries, in.sum, accounted.entries, accounted.sum,
                 account->out.entries, dropped.entries);
}

kv_status kv_account_check_read(const struct kv_account *account, const char *kind, uint64_t seq,
                                struct kv_err *err) {
  if (kv_digest_equal(account->out, account->read)) return KV_OK;
  return kv_fail(err, KV_CORRUPT,
                 "%s up to commit %" PRIu64 ": %" PRIu64 " entries (sum %016" PRIx64
                 ") were written, %" PRIu64 " (%016" PRIx64 ") read back",
                 kind, seq, account->out.entries, account->out.sum, account->read.entries,
                 account->read.sum);
}
