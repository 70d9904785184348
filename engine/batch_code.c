/* The encoded log batch: what one commit writes into t_cflog (FORMAT.md, Log batch).
**
**   byte     0xb1: 0xb0 marks a log batch, the low four bits are the format version, 1
**   byte     flags, 1: there is a seal, 2: values apart; any other set bit is a feature that this version
**            cannot read
**   u64      seal, only with its flag
**   varint   number of entries
**   entries  in ascending order of distinct keys, each
**              varint   key size, at most KV_KEY_BYTES_MAX
**              varint   value size * 2 + (1 for a tombstone, whose value is empty)
**              key bytes, value bytes (with flag 2 not here)
**   values   with flag 2: of all entries, as they are or, when that is shorter, as one zstd frame
**   u64      kv_hash_seeded(all bytes before, kv_hash_place(uuid, seq, 0)), little-endian
**
** Keys are often random; values compress twice as well without them, and faster. The seed binds the bytes to
** their table and log row, so that a row copied elsewhere is refused. The reader trusts nothing: all of it is
** walked and checked before the first entry is handed out. */
#include "batch.h"

#include <inttypes.h>

#include "batch_inside.h"
#include "compress.h"
#include "hash.h"
#include "key.h"
#include "mem.h"
#include "stream.h"

#define MAGIC 0xb0u
#define VERSION 1u
#define FLAG_SEAL 1u
#define FLAG_APART 2u
#define SEAL_BYTES ((size_t)8)
#define BYTES_MIN ((size_t)3 + KV_CHECKSUM_BYTES) /* magic, flags, a count of 0 */

/* ---- Writing */

#define HEADER_BYTES_MAX ((size_t)(2 + SEAL_BYTES + KV_VARINT_BYTES_MAX))
#define ENTRY_BYTES_MAX \
  ((size_t)(3 + 5)) /* beyond key and value: two varints within their limits */

/* Keys and values of this many bytes and more are worth packing: a row of SQLite's that is shorter shares its
** page with others. */
#define PACK_BYTES_MIN ((size_t)4 << 10)

size_t kv_batch_entry_bytes(struct kv_slice key, struct kv_slice value) {
  return kv_varint_size(key.size) + kv_varint_size((uint64_t)value.size << 1) + key.size +
         value.size;
}

/* The value to `values`, which may be `out`. */
static void append_entry(struct kv_buf *out, struct kv_buf *values, const struct kv_iter *entry) {
  kv_buf_append_varint(out, entry->key.size);
  kv_buf_append_varint(out, (uint64_t)entry->value.size << 1 | entry->deleted);
  kv_buf_append(out, entry->key.data, entry->key.size);
  kv_buf_append(values, entry->value.data, entry->value.size);
}

static void append_header(struct kv_buf *out, const uint64_t *seal, bool apart, uint64_t count) {
  kv_buf_append_byte(out, MAGIC | VERSION);
  kv_buf_append_byte(out, (seal ? FLAG_SEAL : 0) | (apart ? FLAG_APART : 0));
  if (seal) kv_buf_append_u64(out, *seal);
  kv_buf_append_varint(out, count);
}

static size_t encoded_max(const struct kv_entries *entries) {
  size_t frame = HEADER_BYTES_MAX + KV_CHECKSUM_BYTES;
  return frame + entries->live_bytes + entries->live * ENTRY_BYTES_MAX;
}

/* The values behind the entries; `out` has room for them as they are. */
static kv_status append_values(struct kv_buf *out, const struct kv_buf *values,
                               struct kv_err *err) {
  bool packed = false;
  kv_status status = values->status ? kv_fail_nomem(err) : KV_OK;
  if (!status) status = kv_pack(kv_buf_slice(values), out, &packed, err);
  if (!status && !packed) kv_buf_append(out, values->data, values->size);
  return status;
}

/* What was reserved holds all but a packed frame that was begun. */
static kv_status append_entries(struct kv_buf *out, struct kv_iter *iter, bool apart,
                                struct kv_err *err) {
  struct kv_buf values;
  kv_status status = KV_OK;
  kv_buf_init(&values);
  for (kv_iter_seek_first(iter); iter->valid; kv_iter_next(iter))
    append_entry(out, apart ? &values : out, iter);
  if (apart) status = append_values(out, &values, err);
  kv_buf_release(&values);
  return status;
}

static kv_status encode(struct kv_batch *batch, const uint8_t uuid[16], uint64_t seq,
                        const uint64_t *seal, bool packs, struct kv_buf *out, struct kv_err *err) {
  struct kv_iter *iter;
  kv_status status = kv_batch_iter_bytewise(batch, &iter, err);
  if (status) return status;
  size_t start = out->size;
  bool apart = packs && batch->entries.live_bytes >= PACK_BYTES_MIN;
  if (kv_buf_reserve(out, encoded_max(&batch->entries))) status = kv_fail_nomem(err);
  if (!status) append_header(out, seal, apart, batch->entries.live);
  if (!status) status = append_entries(out, iter, apart, err);
  kv_iter_free(iter);
  if (status)
    out->size = start;
  else
    kv_buf_append_checksum(out, start, kv_hash_place(uuid, seq, 0));
  return status;
}

kv_status kv_batch_encode(struct kv_batch *batch, const uint8_t uuid[16], uint64_t seq,
                          struct kv_buf *out, struct kv_err *err) {
  return encode(batch, uuid, seq, NULL, false, out, err);
}

kv_status kv_batch_encode_sealed(struct kv_batch *batch, const uint8_t uuid[16], uint64_t seq,
                                 uint64_t seal, bool packs, struct kv_buf *out,
                                 struct kv_err *err) {
  return encode(batch, uuid, seq, &seal, packs, out, err);
}

/* ---- Reading */

static kv_status damaged(struct kv_err *err, uint64_t seq, const char *what) {
  return kv_fail(err, KV_CORRUPT, "log batch %" PRIu64 ": %s", seq, what);
}

static kv_status check_frame(struct kv_slice encoded, const uint8_t uuid[16], uint64_t seq,
                             struct kv_err *err) {
  if (encoded.size < BYTES_MIN) return damaged(err, seq, "too short");
  if ((encoded.data[0] & 0xf0u) != MAGIC) return damaged(err, seq, "not a log batch");
  if ((encoded.data[0] & 0x0fu) > VERSION) {
    return kv_fail(err, KV_VERSION, "log batch %" PRIu64 ": format version %u, this reads %u", seq,
                   encoded.data[0] & 0x0fu, VERSION);
  }
  if (uuid && !kv_checksum_holds(encoded, kv_hash_place(uuid, seq, 0)))
    return damaged(err, seq, "bad checksum");
  if (encoded.data[0] != (MAGIC | VERSION)) return damaged(err, seq, "format version 0");
  if (encoded.data[1] & ~(FLAG_SEAL | FLAG_APART)) {
    return kv_fail(err, KV_VERSION, "log batch %" PRIu64 ": unknown flags %02x", seq,
                   encoded.data[1]);
  }
  return KV_OK;
}

/* The next value; one that stands apart is not looked at. */
static struct kv_slice take_value(struct kv_batch_reader *reader, struct kv_reader *in,
                                  uint64_t size) {
  if (!reader->apart) return kv_reader_bytes(in, size);
  uint64_t at = reader->values_read;
  reader->values_read += size;
  return kv_slice_of(reader->values ? reader->values + at : NULL, size);
}

/* Reads the entry at `pos`; NULL, or what is wrong with it. Its key must be above the last one's unless it is
** the `first`. */
static const char *read_entry(struct kv_batch_reader *reader, bool first) {
  struct kv_reader in = {reader->pos, reader->end, false};
  uint64_t key_size = kv_reader_varint(&in);
  uint64_t word = kv_reader_varint(&in);
  if (key_size > KV_KEY_BYTES_MAX) return "a key too large";
  if (word >> 1 > KV_ENTRY_VALUE_MAX) return "a value too large";
  if ((word & 1) && word != 1) return "a tombstone with a value";
  struct kv_slice key = kv_reader_bytes(&in, key_size);
  struct kv_slice value = take_value(reader, &in, word >> 1);
  if (in.failed) return "entries cut short";
  if (!first && kv_slice_compare(reader->key, key) >= 0) return "keys not ascending";
  reader->pos = in.pos;
  reader->left--;
  reader->key = key;
  reader->value = value;
  reader->deleted = word & 1;
  return NULL;
}

/* Reads all entries; what follows them are the values. */
static const char *check_entries(struct kv_batch_reader *reader) {
  const char *wrong = NULL;
  for (bool first = true; !wrong && reader->left; first = false) wrong = read_entry(reader, first);
  if (!wrong && !reader->apart && reader->pos != reader->end) wrong = "bytes after the last entry";
  return wrong;
}

/* Where the values are that stand apart behind the entries; *walked has read these. */
static kv_status find_values(struct kv_batch_reader *reader, const struct kv_batch_reader *walked,
                             uint64_t seq, struct kv_err *err) {
  struct kv_slice stored = kv_slice_of(walked->pos, (size_t)(walked->end - walked->pos));
  uint64_t size = walked->values_read;
  reader->end = walked->pos;
  reader->bytes += size - stored.size;
  reader->values = stored.data;
  if (stored.size == size) return KV_OK;
  if (stored.size > size || !kv_may_unpack_to(size, stored.size))
    return damaged(err, seq, "values of a wrong size");
  reader->values = reader->unpacked = kv_alloc(1, size);
  if (!reader->unpacked) return kv_fail_nomem(err);
  bool sound;
  kv_status status = kv_decompress(stored, NULL, reader->unpacked, size, &sound, err);
  if (!status && !sound) status = damaged(err, seq, "values that do not decompress");
  if (status) kv_batch_reader_release(reader);
  return status;
}

/* The part between the flags and the count. */
static size_t seal_size(struct kv_slice encoded) {
  return encoded.data[1] & FLAG_SEAL ? SEAL_BYTES : 0;
}

bool kv_batch_seal(struct kv_slice encoded, uint64_t *seal) {
  if (encoded.size < BYTES_MIN + SEAL_BYTES || encoded.data[0] != (MAGIC | VERSION)) return false;
  if (!seal_size(encoded)) return false;
  *seal = kv_get_u64(encoded.data + 2);
  return true;
}

size_t kv_batch_frame_bytes(struct kv_slice encoded) {
  struct kv_reader in;
  kv_reader_init(&in, encoded);
  kv_reader_bytes(&in, 2 + seal_size(encoded));
  kv_reader_varint(&in);
  return (size_t)(in.pos - encoded.data) + KV_CHECKSUM_BYTES;
}

kv_status kv_batch_reader_init(struct kv_batch_reader *reader, struct kv_slice encoded,
                               const uint8_t uuid[16], uint64_t seq, struct kv_err *err) {
  *reader = (struct kv_batch_reader){0};
  kv_status status = check_frame(encoded, uuid, seq, err);
  if (status) return status;
  struct kv_reader in;
  kv_reader_init(&in, kv_slice_of(encoded.data + 2, encoded.size - 2 - KV_CHECKSUM_BYTES));
  kv_reader_bytes(&in, seal_size(encoded));
  uint64_t count = kv_reader_varint(&in);
  if (in.failed || count > kv_reader_left(&in) / 2) return damaged(err, seq, "a wrong count");
  struct kv_batch_reader start = {.pos = in.pos,
                                  .end = in.end,
                                  .left = count,
                                  .apart = encoded.data[1] & FLAG_APART,
                                  .bytes = encoded.size};
  struct kv_batch_reader walked = start;
  const char *wrong = check_entries(&walked);
  if (wrong) return damaged(err, seq, wrong);
  if (start.apart) status = find_values(&start, &walked, seq, err);
  if (!status) *reader = start;
  return status;
}

void kv_batch_reader_release(struct kv_batch_reader *reader) {
  kv_free(reader->unpacked);
  reader->unpacked = NULL;
}

bool kv_batch_reader_next(struct kv_batch_reader *reader, kv_status *status, struct kv_err *err) {
  *status = KV_OK;
  if (!reader->left) return false;
  /* the order was checked by init */
  const char *wrong = read_entry(reader, true);
  if (!wrong) return true;
  *status = kv_fail(err, KV_CORRUPT, "log batch: %s", wrong);
  return false;
}
