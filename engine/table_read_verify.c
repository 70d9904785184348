/* Reads a whole table file and checks all that it claims: checksums of parts and of every block, order of
** keys, first keys against fences, hash indexes, filter, counts, bounds and digest. Data blocks are read
** past the cache, so that what is on disk now is judged, not what was read before. Thread rule: any thread.
** */
#include <inttypes.h>
#include <string.h>

#include "hash.h"
#include "mem.h"
#include "table_read_inside.h"

/* What the entries read so far add up to. */
struct kv_table_verifier {
  const struct kv_table *table;
  bool checksums; /* are looked at */
  uint32_t next;  /* block */
  struct kv_buf last_key;
  struct kv_block_cursor cursor;
  struct kv_digest digest;
  struct kv_value_uses uses;
  uint64_t tombstones;
  uint64_t key_bytes;
  uint64_t value_bytes;
};

static kv_status fault(const struct kv_table_verifier *verify, uint32_t block, const char *what,
                       struct kv_err *err) {
  const struct kv_table *table = verify->table;
  return kv_fail(err, KV_CORRUPT,
                 "table %016" PRIx64 ": block at %" PRIu64 ": entry %" PRIu64 " of the file: %s",
                 table->place.id, kv_fences_offset(&table->parts.fences, block),
                 verify->digest.entries, what);
}

/* A point lookup of the entry under the cursor must find this very entry. */
static kv_status check_lookup(const struct kv_table_verifier *verify, uint32_t block, uint64_t hash,
                              struct kv_err *err) {
  const struct kv_block_cursor *cursor = &verify->cursor;
  if (!kv_filter_may_contain(&verify->table->parts.filter, hash)) {
    return fault(verify, block, "the filter denies it", err);
  }
  if (cursor->block.comparator && cursor->block.comparator->unknown) return KV_OK;
  if (kv_block_cursor_leads_here(cursor, kv_buf_slice(&verify->last_key), hash)) return KV_OK;
  return fault(verify, block, "a lookup misses it", err);
}

/* A value file has whole values; other files list what they refer to. */
static kv_status count_reference(struct kv_table_verifier *verify, uint32_t block,
                                 struct kv_err *err) {
  struct kv_apart apart;
  bool expected = !verify->table->parts.properties.holds_values;
  if (!expected || !kv_apart_parse(verify->cursor.value, &apart))
    return fault(verify, block, "a reference where there must be none", err);
  return kv_value_uses_add(&verify->uses, (struct kv_value_use){apart.file, 1, apart.size}, err);
}

static kv_status check_entry(struct kv_table_verifier *verify, uint32_t block, struct kv_err *err) {
  const struct kv_block_cursor *cursor = &verify->cursor;
  struct kv_slice key = kv_buf_slice(&cursor->key);
  if (verify->digest.entries &&
      !kv_key_ascends(verify->table->comparator, kv_buf_slice(&verify->last_key), key)) {
    return fault(verify, block, "keys are not ascending", err);
  }
  uint64_t hash = kv_hash_key(key);
  kv_status status = check_lookup(verify, block, hash, err);
  if (status) return status;
  kv_buf_clear(&verify->last_key);
  kv_buf_append(&verify->last_key, key.data, key.size);
  if (verify->last_key.status) return kv_fail_nomem(err);
  verify->tombstones += cursor->deleted;
  verify->key_bytes += key.size;
  verify->value_bytes += cursor->value.size;
  kv_digest_add_hashed(&verify->digest, hash, cursor->value, cursor->deleted || cursor->apart);
  return cursor->apart ? count_reference(verify, block, err) : KV_OK;
}

/* All entries of one parsed block. */
static kv_status check_entries(struct kv_table_verifier *verify, uint32_t block,
                               const struct kv_block *parsed, struct kv_err *err) {
  struct kv_block_cursor *cursor = &verify->cursor;
  struct kv_err inner;
  kv_block_cursor_set(cursor, parsed);
  kv_status status = kv_block_check_index(parsed, &inner);
  if (!status) status = kv_block_cursor_first(cursor, &inner);
  if (!status && !kv_slice_equal(kv_buf_slice(&cursor->key),
                                 kv_fences_key(&verify->table->parts.fences, block))) {
    return fault(verify, block, "the first key is not the fence", err);
  }
  while (!status && cursor->valid) {
    kv_status entry_status = check_entry(verify, block, err);
    if (entry_status) return entry_status;
    status = kv_block_cursor_next(cursor, &inner);
  }
  return status ? kv_table_fail(verify->table, block, status, &inner, err) : KV_OK;
}

static kv_status check_block(struct kv_table_verifier *verify, uint32_t block, struct kv_err *err) {
  uint8_t *bytes;
  size_t size;
  kv_status status =
      kv_table_read_block(verify->table, block, verify->checksums, &bytes, &size, err);
  if (status) return status;
  struct kv_block parsed;
  status = kv_table_parse(verify->table, block, kv_slice_of(bytes, size), &parsed, err);
  if (!status) status = check_entries(verify, block, &parsed, err);
  kv_free(bytes);
  return status;
}

static bool same_uses(const struct kv_value_uses *a, const struct kv_value_uses *b) {
  return a->count == b->count &&
         (!a->count || memcmp(a->uses, b->uses, a->count * sizeof *a->uses) == 0);
}

static kv_status check_totals(const struct kv_table_verifier *verify, struct kv_err *err) {
  const struct kv_table *table = verify->table;
  const struct kv_table_properties *wanted = &table->parts.properties;
  const char *what = NULL;
  if (verify->digest.entries != wanted->entries || verify->tombstones != wanted->tombstones) {
    what = "entry counts";
  } else if (verify->key_bytes != wanted->key_bytes || verify->value_bytes != wanted->value_bytes) {
    what = "raw bytes";
  } else if (verify->digest.sum != wanted->digest) {
    what = "digest";
  } else if (!same_uses(&verify->uses, &table->parts.uses)) {
    what = "value files";
  } else if (!kv_slice_equal(kv_buf_slice(&verify->last_key), wanted->largest)) {
    what = "largest key";
  }
  if (!what) return KV_OK;
  return kv_fail(err, KV_CORRUPT, "table %016" PRIx64 ": %s of entries and properties differ",
                 table->place.id, what);
}

/* ---- Parts
**
** What the table holds of its file was checked when it was opened. The file still says the same when its
** footer, which has the checksums of all parts, is the same, and each part has its checksum. */

/* A part of the file, read in pieces. */
struct part_pieces {
  const struct kv_table *table;
  uint64_t offset, left;
  uint8_t room[KV_STORED_PIECE_BYTES];
};

static kv_status next_piece(void *ctx, struct kv_slice *piece, struct kv_err *err) {
  struct part_pieces *pieces = ctx;
  size_t size = pieces->left < sizeof pieces->room ? (size_t)pieces->left : sizeof pieces->room;
  struct kv_range range = {pieces->offset, size, pieces->room};
  kv_status status = size ? kv_open_file_read(pieces->table->file, &range, 1, err) : KV_OK;
  pieces->offset += size;
  pieces->left -= size;
  *piece = kv_slice_of(pieces->room, size);
  return status;
}

static kv_status check_part(struct part_pieces *pieces, const struct kv_table_handle *handle,
                            struct kv_err *err) {
  const struct kv_table *table = pieces->table;
  uint64_t checksum = 0;
  if (!handle->size) return KV_OK;
  pieces->offset = handle->offset;
  pieces->left = handle->size;
  kv_stats_add(table->stats, KV_STAT_PART_CHECKSUMS, 1);
  kv_status status =
      kv_stored_verify_pieces((struct kv_stream_source){next_piece, pieces}, handle->size,
                              &table->place, handle->offset, &checksum, err);
  if (!status && checksum != handle->checksum) status = kv_table_wrong_part(table, handle, err);
  return status;
}

static kv_status check_parts(const struct kv_table *table, bool checksums, struct kv_err *err) {
  struct kv_table_footer footer;
  kv_status status = kv_table_footer_load(&footer, table, err);
  if (!status && footer.checksum != table->parts.footer.checksum)
    status = kv_fail(err, KV_CORRUPT, "table %016" PRIx64 ": the footer changed", table->place.id);
  if (status || !checksums) return status;
  struct part_pieces *pieces = kv_alloc(1, sizeof *pieces);
  if (!pieces) return kv_fail_nomem(err);
  pieces->table = table;
  status = check_part(pieces, &footer.filter, err);
  if (!status) status = check_part(pieces, &footer.fences, err);
  if (!status) status = check_part(pieces, &footer.properties, err);
  kv_free(pieces);
  return status;
}

/* ---- In pieces */

kv_status kv_table_verifier_new(struct kv_table *table, bool checksums,
                                struct kv_table_verifier **verifier, struct kv_err *err) {
  struct kv_table_verifier *made = kv_alloc_zero(1, sizeof *made);
  if (!made) return kv_fail_nomem(err);
  made->table = table;
  made->checksums = checksums;
  kv_buf_init(&made->last_key);
  kv_block_cursor_init(&made->cursor);
  kv_status status = check_parts(table, checksums, err);
  if (status == KV_OK)
    *verifier = made;
  else
    kv_table_verifier_free(made);
  return status;
}

kv_status kv_table_verifier_step(struct kv_table_verifier *verifier, bool *done,
                                 struct kv_err *err) {
  bool more = verifier->next < verifier->table->parts.fences.count;
  *done = !more;
  return more ? check_block(verifier, verifier->next++, err) : check_totals(verifier, err);
}

const struct kv_digest *kv_table_verifier_digest(const struct kv_table_verifier *verifier) {
  return &verifier->digest;
}

uint64_t kv_table_verifier_bytes(const struct kv_table_verifier *verifier) {
  return verifier->key_bytes + verifier->value_bytes;
}

void kv_table_verifier_free(struct kv_table_verifier *verifier) {
  if (!verifier) return;
  kv_block_cursor_release(&verifier->cursor);
  kv_buf_release(&verifier->last_key);
  kv_value_uses_release(&verifier->uses);
  kv_free(verifier);
}

kv_status kv_table_verify(struct kv_table *table, struct kv_digest *digest, struct kv_err *err) {
  struct kv_table_verifier *verifier = NULL;
  bool done = false;
  kv_status status = kv_table_verifier_new(table, true, &verifier, err);
  while (status == KV_OK && !done) status = kv_table_verifier_step(verifier, &done, err);
  if (status == KV_OK && digest) *digest = verifier->digest;
  kv_table_verifier_free(verifier);
  return status;
}
