/* What the writer and the reader of table files share: stored blocks, fences, properties and the footer
** (FORMAT.md, Table file). Private to the table_*.c files.
** Thread rule: pure functions over the caller's bytes. */
#ifndef KV_TABLE_FORMAT_H
#define KV_TABLE_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "buf.h"
#include "compare.h"
#include "compress.h"
#include "status.h"
#include "stream.h"

#define KV_TABLE_VERSION 5            /* the newest that this program reads */
#define KV_TABLE_VERSION_DICTIONARY 5 /* what it writes: with a dictionary */
#define KV_TABLE_VERSION_PLAIN 4      /* ... and without */
#define KV_TABLE_TRAILER_BYTES 13
#define KV_STORED_PIECE_BYTES ((size_t)64 << 10) /* of what is written or verified in pieces */
#define KV_TABLE_FOOTER_BYTES 128
#define KV_TABLE_DICTIONARY_BYTES_MAX ((size_t)64 << 10)
#define KV_TABLE_FOOTER_BYTES_MAX 512 /* a later version's footer may be as long */
#define KV_TABLE_VALUE_BYTES_MAX ((size_t)1 << 30)
#define KV_TABLE_RAW_BYTES_MAX (KV_TABLE_VALUE_BYTES_MAX + ((size_t)1 << 20)) /* of any block */

/* Whose bytes they are; with the offset this seeds every checksum. */
struct kv_table_place {
  uint8_t uuid[16];
  uint64_t id;
};

/* ---- Stored block: payload, u8 compression, u32 raw size, u64 checksum */

/* Appends `raw`, which will stand at `offset` of the file, compressed at `level` (0: not) when that saves
** an eighth, and then padded to what the ratio asks for. *checksum as in the trailer. KV_FULL above
** KV_TABLE_RAW_BYTES_MAX. */
kv_status kv_stored_append(struct kv_buf *out, struct kv_slice raw, int level,
                           struct kv_compressor *compressor, const struct kv_table_place *place,
                           uint64_t offset, uint64_t *checksum, struct kv_err *err);

/* The same, uncompressed, past any buffer: for what is too large to be copied. */
kv_status kv_stored_write(struct kv_stream_sink sink, struct kv_slice raw,
                          const struct kv_table_place *place, uint64_t offset, uint64_t *checksum,
                          struct kv_err *err);
/* Looks at the checksum of `size` stored bytes that come in pieces, and gives it. */
kv_status kv_stored_verify_pieces(struct kv_stream_source source, uint64_t size,
                                  const struct kv_table_place *place, uint64_t offset,
                                  uint64_t *checksum, struct kv_err *err);

/* A stored block whose checksum was found right; payload is borrowed from the stored bytes. */
struct kv_stored {
  struct kv_slice payload;
  size_t raw_size; /* bounded by KV_TABLE_RAW_BYTES_MAX and the stored size */
  bool compressed;
  bool wants_dictionary;
  const struct kv_unpacking
      *unpacking; /* the file's dictionary: set by who decodes, NULL at first */
  uint64_t checksum;
};
kv_status kv_stored_check(struct kv_stored *stored, struct kv_slice bytes,
                          const struct kv_table_place *place, uint64_t offset, struct kv_err *err);
/* Its two halves: the checksum; and the trailer, of bytes that may be damaged. */
kv_status kv_stored_verify(struct kv_slice bytes, const struct kv_table_place *place,
                           uint64_t offset, struct kv_err *err);
kv_status kv_stored_parse(struct kv_stored *stored, struct kv_slice bytes,
                          const struct kv_table_place *place, uint64_t offset, struct kv_err *err);
/* Gives the raw_size plain bytes to `into`, exactly. */
kv_status kv_stored_decode(const struct kv_stored *stored, uint8_t *into,
                           const struct kv_table_place *place, uint64_t offset, struct kv_err *err);

/* ---- Fences: where each data block begins */

struct kv_fence_builder {
  struct kv_buf offsets;  /* u64 each */
  struct kv_buf sizes;    /* u32 each, stored bytes */
  struct kv_buf key_ends; /* u32 each */
  struct kv_buf keys;     /* first keys, one behind the other */
};
void kv_fence_builder_init(struct kv_fence_builder *builder);
void kv_fence_builder_release(struct kv_fence_builder *builder);
kv_status kv_fence_builder_add(struct kv_fence_builder *builder, struct kv_slice first_key,
                               uint64_t offset, size_t stored_size, struct kv_err *err);
kv_status kv_fence_builder_finish(const struct kv_fence_builder *builder, struct kv_buf *out,
                                  struct kv_err *err);

/* Fences over borrowed bytes. All keys of the file share skip bytes, so the prefixes begin behind them. */
struct kv_fences {
  const struct kv_comparator *comparator; /* set before init; NULL: bytewise */
  uint32_t count;
  size_t skip;
  uint64_t *prefixes; /* kv_prefix64 of the first keys without their shared front; owned */
  const uint8_t *offsets, *sizes, *key_ends, *keys;
};
/* From a zeroed struct, but for its comparator. The blocks must fill the file from 0 to data_end and
** their first keys ascend, from smallest and up to largest. KV_CORRUPT, KV_NOMEM. */
kv_status kv_fences_init(struct kv_fences *fences, struct kv_slice bytes, uint64_t data_end,
                         struct kv_slice smallest, struct kv_slice largest, struct kv_err *err);
void kv_fences_release(struct kv_fences *fences);
struct kv_slice kv_fences_key(const struct kv_fences *fences, uint32_t block);
uint64_t kv_fences_offset(const struct kv_fences *fences, uint32_t block);
size_t kv_fences_size(const struct kv_fences *fences, uint32_t block); /* stored bytes */
/* The last block >= from whose first key is <= key; smallest <= key <= largest and the first key of
** `from` is <= key. */
uint32_t kv_fences_find(const struct kv_fences *fences, struct kv_slice key, uint32_t from);
/* The same from block 0 for n keys, whose searches go on side by side. */
void kv_fences_find_many(const struct kv_fences *fences, const struct kv_slice *keys, size_t n,
                         uint32_t *blocks);

/* ---- Properties: tagged, so that a later version may add some */

struct kv_table_properties {
  uint64_t entries; /* tombstones included */
  uint64_t tombstones;
  uint64_t key_bytes; /* raw */
  uint64_t value_bytes;
  uint64_t digest; /* kv_digest's sum */
  uint64_t compression_level;
  uint64_t filter_bits;
  uint64_t block_bytes;
  uint64_t value_threshold;    /* values larger than this were stored apart; 0 = none are */
  uint64_t holds_values;       /* 1: a value file */
  struct kv_slice value_files; /* kv_value_uses_append's bytes */
  struct kv_slice dictionary;  /* of data blocks; size 0: there is none */
  struct kv_slice smallest, largest;
  struct kv_slice comparator;
};
kv_status kv_properties_append(struct kv_buf *out, const struct kv_table_properties *properties,
                               struct kv_err *err);
/* Slices are borrowed from bytes. KV_VERSION when the file uses what this program lacks, or is in
** another order than the comparator's. */
kv_status kv_properties_parse(struct kv_table_properties *properties,
                              const struct kv_comparator *comparator, struct kv_slice bytes,
                              struct kv_err *err);

/* ---- Footer */

struct kv_table_handle {
  uint64_t offset;
  uint64_t size;     /* stored bytes; 0 = there is none */
  uint64_t checksum; /* as in the stored block's trailer */
};
struct kv_table_footer {
  struct kv_table_handle filter, fences, properties;
  struct kv_table_place place;
  uint32_t lowest_reader;
  uint32_t lowest_writer;
  uint64_t checksum;
};
/* Appends KV_TABLE_FOOTER_BYTES; fills footer->checksum. */
kv_status kv_footer_append(struct kv_buf *out, struct kv_table_footer *footer, struct kv_err *err);
/* `tail` is the end of a file of file_size bytes: KV_TABLE_FOOTER_BYTES_MAX of it, or the whole file.
** `expected` is whose file it should be. */
kv_status kv_footer_parse(struct kv_table_footer *footer, struct kv_slice tail, uint64_t file_size,
                          const struct kv_table_place *expected, struct kv_err *err);

#endif
