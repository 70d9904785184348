/* The parts of a table file outside its data blocks (FORMAT.md, Table file): the trailer of stored
** blocks, fences, properties and footer, encoded and decoded side by side.
** Invariants: nothing from a file is believed before its checksum is right, and even then every length
** and offset is bounded before use; zstd never gets more room than the stated size, which is bounded by the
** bytes that are stored.
** Thread rule: pure functions. */
#include "table_format.h"

#include <inttypes.h>
#include <string.h>
#include <zstd.h>

#include "hash.h"
#include "mem.h"
#include "stream.h"

/* ---- Stored block */

enum compression { STORED_RAW, STORED_ZSTD, STORED_DICTIONARY };
#define SKIPPABLE_HEADER_BYTES ((size_t)8)

static uint64_t place_seed(const struct kv_table_place *place, uint64_t offset) {
  return kv_hash_place(place->uuid, place->id, offset);
}

/* Appends the compressed bytes, or leaves `out` as it was when they save less than an eighth. */
static kv_status append_compressed(struct kv_buf *out, struct kv_slice raw, int level,
                                   struct kv_compressor *compressor, bool *done,
                                   struct kv_err *err) {
  size_t before = out->size, room = raw.size - raw.size / 8, size;
  uint8_t *into = kv_buf_extend(out, room);
  if (!into) return kv_fail_nomem(err);
  kv_status status = kv_compress(compressor, raw, level, into, room, &size, err);
  *done = size > 0;
  out->size = before + size;
  return status;
}

/* The payload is filled up with a frame that decompression skips, until it justifies the raw size. */
static void append_padding(struct kv_buf *out, size_t start, size_t raw_size) {
  size_t stored = out->size - start + KV_TABLE_TRAILER_BYTES;
  size_t wanted = (raw_size + KV_PACKED_RATIO_MAX - 1) / KV_PACKED_RATIO_MAX;
  if (raw_size <= KV_PACKED_RAW_BYTES_FREE || stored >= wanted) return;
  size_t zeros =
      wanted - stored > SKIPPABLE_HEADER_BYTES ? wanted - stored - SKIPPABLE_HEADER_BYTES : 0;
  kv_buf_append_u32(out, ZSTD_MAGIC_SKIPPABLE_START);
  kv_buf_append_u32(out, (uint32_t)zeros);
  uint8_t *room = kv_buf_extend(out, zeros);
  if (room) memset(room, 0, zeros);
}

static kv_status check_size(struct kv_slice raw, const struct kv_table_place *place,
                            struct kv_err *err) {
  if (raw.size <= KV_TABLE_RAW_BYTES_MAX) return KV_OK;
  return kv_fail(err, KV_FULL, "table %016" PRIx64 ": a block of %zu bytes is too large", place->id,
                 raw.size);
}

static void append_trailer(struct kv_buf *out, uint8_t how, struct kv_slice raw) {
  kv_buf_append_byte(out, how);
  kv_buf_append_u32(out, (uint32_t)raw.size);
}

kv_status kv_stored_append(struct kv_buf *out, struct kv_slice raw, int level,
                           struct kv_compressor *compressor, const struct kv_table_place *place,
                           uint64_t offset, uint64_t *checksum, struct kv_err *err) {
  if (check_size(raw, place, err)) return KV_FULL;
  size_t start = out->size;
  bool compressed = false;
  uint8_t how = STORED_RAW;
  if (level > 0) {
    kv_status status = append_compressed(out, raw, level, compressor, &compressed, err);
    if (status) return status;
  }
  if (compressed) how = kv_compressor_has_dictionary(compressor) ? STORED_DICTIONARY : STORED_ZSTD;
  if (compressed)
    append_padding(out, start, raw.size);
  else
    kv_buf_append(out, raw.data, raw.size);
  append_trailer(out, how, raw);
  *checksum = kv_buf_append_checksum(out, start, place_seed(place, offset));
  return out->status ? kv_fail_nomem(err) : KV_OK;
}

kv_status kv_stored_write(struct kv_stream_sink sink, struct kv_slice raw,
                          const struct kv_table_place *place, uint64_t offset, uint64_t *checksum,
                          struct kv_err *err) {
  struct kv_stream_writer writer;
  if (check_size(raw, place, err)) return KV_FULL;
  kv_stream_writer_init(&writer, sink, KV_STORED_PIECE_BYTES, place_seed(place, offset));
  kv_stream_write(&writer, raw);
  append_trailer(&writer.waiting, STORED_RAW, raw);
  kv_status status = kv_stream_writer_finish(&writer, err);
  *checksum = writer.checksum;
  kv_stream_writer_release(&writer);
  return status;
}

static kv_status bad_block(const struct kv_table_place *place, uint64_t offset, const char *what,
                           struct kv_err *err) {
  return kv_fail(err, KV_CORRUPT, "table %016" PRIx64 ": block at %" PRIu64 ": %s", place->id,
                 offset, what);
}

kv_status kv_stored_verify(struct kv_slice bytes, const struct kv_table_place *place,
                           uint64_t offset, struct kv_err *err) {
  if (bytes.size < KV_TABLE_TRAILER_BYTES) return bad_block(place, offset, "too short", err);
  if (kv_checksum_holds(bytes, place_seed(place, offset))) return KV_OK;
  return bad_block(place, offset, "bad checksum", err);
}

kv_status kv_stored_verify_pieces(struct kv_stream_source source, uint64_t size,
                                  const struct kv_table_place *place, uint64_t offset,
                                  uint64_t *checksum, struct kv_err *err) {
  struct kv_stream_reader reader;
  struct kv_err inner;
  if (size < KV_TABLE_TRAILER_BYTES) return bad_block(place, offset, "too short", err);
  kv_stream_reader_init(&reader, source, place_seed(place, offset));
  kv_stream_skip(&reader, (size_t)size - KV_CHECKSUM_BYTES);
  kv_status status = kv_stream_reader_finish(&reader, &inner);
  *checksum = reader.checksum;
  if (status == KV_CORRUPT) return bad_block(place, offset, inner.text, err);
  return status ? kv_fail(err, status, "%s", inner.text) : KV_OK;
}

kv_status kv_stored_check(struct kv_stored *stored, struct kv_slice bytes,
                          const struct kv_table_place *place, uint64_t offset, struct kv_err *err) {
  kv_status status = kv_stored_verify(bytes, place, offset, err);
  return status ? status : kv_stored_parse(stored, bytes, place, offset, err);
}

kv_status kv_stored_parse(struct kv_stored *stored, struct kv_slice bytes,
                          const struct kv_table_place *place, uint64_t offset, struct kv_err *err) {
  if (bytes.size < KV_TABLE_TRAILER_BYTES) return bad_block(place, offset, "too short", err);
  size_t payload_size = bytes.size - KV_TABLE_TRAILER_BYTES;
  const uint8_t *trailer = bytes.data + payload_size;
  stored->payload = kv_slice_of(bytes.data, payload_size);
  stored->raw_size = kv_get_u32(trailer + 1);
  stored->compressed = trailer[0] != STORED_RAW;
  stored->wants_dictionary = trailer[0] == STORED_DICTIONARY;
  stored->unpacking = NULL;
  stored->checksum = kv_get_u64(trailer + 5);
  if (trailer[0] > STORED_DICTIONARY) return bad_block(place, offset, "unknown compression", err);
  if (stored->raw_size > KV_TABLE_RAW_BYTES_MAX) return bad_block(place, offset, "too large", err);
  if (!stored->compressed && stored->raw_size != payload_size) {
    return bad_block(place, offset, "wrong size", err);
  }
  if (!kv_may_unpack_to(stored->raw_size, bytes.size)) {
    return bad_block(place, offset, "more bytes than its size can hold", err);
  }
  if (stored->compressed &&
      ZSTD_getFrameContentSize(bytes.data, payload_size) != stored->raw_size) {
    return bad_block(place, offset, "wrong compressed size", err);
  }
  return KV_OK;
}

kv_status kv_stored_decode(const struct kv_stored *stored, uint8_t *into,
                           const struct kv_table_place *place, uint64_t offset,
                           struct kv_err *err) {
  if (!stored->compressed) {
    if (stored->raw_size) memcpy(into, stored->payload.data, stored->raw_size);
    return KV_OK;
  }
  if (stored->wants_dictionary && !stored->unpacking) {
    return bad_block(place, offset, "its dictionary is not there", err);
  }
  const struct kv_unpacking *unpacking = stored->wants_dictionary ? stored->unpacking : NULL;
  bool sound;
  kv_status status = kv_decompress(stored->payload, unpacking, into, stored->raw_size, &sound, err);
  if (status || sound) return status;
  return bad_block(place, offset, "cannot be decompressed", err);
}

/* ---- Fences: u32 count, u64 offset[count], u32 size[count], u32 key_end[count], keys */

void kv_fence_builder_init(struct kv_fence_builder *builder) {
  kv_buf_init(&builder->offsets);
  kv_buf_init(&builder->sizes);
  kv_buf_init(&builder->key_ends);
  kv_buf_init(&builder->keys);
}

void kv_fence_builder_release(struct kv_fence_builder *builder) {
  kv_buf_release(&builder->offsets);
  kv_buf_release(&builder->sizes);
  kv_buf_release(&builder->key_ends);
  kv_buf_release(&builder->keys);
}

kv_status kv_fence_builder_add(struct kv_fence_builder *builder, struct kv_slice first_key,
                               uint64_t offset, size_t stored_size, struct kv_err *err) {
  if (builder->keys.size + first_key.size > KV_TABLE_RAW_BYTES_MAX) {
    return kv_fail(err, KV_FULL, "table: first keys of blocks take more than %zu bytes",
                   KV_TABLE_RAW_BYTES_MAX);
  }
  kv_buf_append(&builder->keys, first_key.data, first_key.size);
  kv_buf_append_u64(&builder->offsets, offset);
  kv_buf_append_u32(&builder->sizes, (uint32_t)stored_size);
  kv_buf_append_u32(&builder->key_ends, (uint32_t)builder->keys.size);
  bool failed = builder->keys.status || builder->offsets.status || builder->sizes.status ||
                builder->key_ends.status;
  return failed ? kv_fail_nomem(err) : KV_OK;
}

kv_status kv_fence_builder_finish(const struct kv_fence_builder *builder, struct kv_buf *out,
                                  struct kv_err *err) {
  kv_buf_append_u32(out, (uint32_t)(builder->sizes.size / 4));
  kv_buf_append(out, builder->offsets.data, builder->offsets.size);
  kv_buf_append(out, builder->sizes.data, builder->sizes.size);
  kv_buf_append(out, builder->key_ends.data, builder->key_ends.size);
  kv_buf_append(out, builder->keys.data, builder->keys.size);
  return out->status ? kv_fail_nomem(err) : KV_OK;
}

static uint32_t key_end(const struct kv_fences *fences, uint32_t block) {
  return kv_get_u32(fences->key_ends + (size_t)block * 4);
}

static inline struct kv_slice key_of(const struct kv_fences *fences, uint32_t block) {
  uint32_t start = block ? key_end(fences, block - 1) : 0;
  return kv_slice_of(fences->keys + start, key_end(fences, block) - start);
}

struct kv_slice kv_fences_key(const struct kv_fences *fences, uint32_t block) {
  return key_of(fences, block);
}

uint64_t kv_fences_offset(const struct kv_fences *fences, uint32_t block) {
  return kv_get_u64(fences->offsets + (size_t)block * 8);
}

size_t kv_fences_size(const struct kv_fences *fences, uint32_t block) {
  return kv_get_u32(fences->sizes + (size_t)block * 4);
}

/* Finds the arrays in the bytes. */
static bool split_fences(struct kv_fences *fences, struct kv_slice bytes, uint32_t *key_bytes) {
  struct kv_reader reader;
  kv_reader_init(&reader, bytes);
  fences->count = kv_reader_u32(&reader);
  fences->offsets = kv_reader_bytes(&reader, (uint64_t)fences->count * 8).data;
  fences->sizes = kv_reader_bytes(&reader, (uint64_t)fences->count * 4).data;
  fences->key_ends = kv_reader_bytes(&reader, (uint64_t)fences->count * 4).data;
  bool has_all = fences->offsets && fences->sizes && fences->key_ends;
  if (reader.failed || !fences->count || !has_all) return false;
  fences->keys = reader.pos;
  *key_bytes = (uint32_t)kv_reader_left(&reader);
  return kv_reader_left(&reader) <= KV_TABLE_RAW_BYTES_MAX;
}

/* Key ends ascend up to the end of the bytes, keys ascend, blocks follow each other without a gap. */
static bool fences_in_order(const struct kv_fences *fences, uint32_t key_bytes, uint64_t data_end) {
  uint32_t last_end = 0;
  uint64_t offset = 0;
  for (uint32_t i = 0; i < fences->count; i++) {
    uint32_t end = key_end(fences, i);
    if (end < last_end || end > key_bytes || kv_fences_offset(fences, i) != offset) return false;
    last_end = end;
    offset += kv_fences_size(fences, i);
    if (i && !kv_key_ascends(fences->comparator, kv_fences_key(fences, i - 1),
                             kv_fences_key(fences, i))) {
      return false;
    }
  }
  return last_end == key_bytes && offset == data_end;
}

/* low <= high */
static bool is_not_above(const struct kv_comparator *by, struct kv_slice low,
                         struct kv_slice high) {
  return kv_slice_equal(low, high) || kv_key_ascends(by, low, high);
}

static struct kv_slice without_front(struct kv_slice key, size_t skip) {
  return skip ? kv_slice_of(key.data + skip, key.size - skip) : key;
}

kv_status kv_fences_init(struct kv_fences *fences, struct kv_slice bytes, uint64_t data_end,
                         struct kv_slice smallest, struct kv_slice largest, struct kv_err *err) {
  const struct kv_comparator *by = fences->comparator;
  uint32_t key_bytes;
  if (!split_fences(fences, bytes, &key_bytes) || !fences_in_order(fences, key_bytes, data_end)) {
    return kv_fail(err, KV_CORRUPT, "bad fences");
  }
  if (!kv_slice_equal(kv_fences_key(fences, 0), smallest) ||
      !is_not_above(by, kv_fences_key(fences, fences->count - 1), largest)) {
    return kv_fail(err, KV_CORRUPT, "fences disagree with the bounds");
  }
  if (by) return KV_OK;
  fences->skip = kv_slice_shared_prefix(smallest, largest);
  fences->prefixes = kv_alloc(fences->count, sizeof *fences->prefixes);
  if (!fences->prefixes) return kv_fail_nomem(err);
  for (uint32_t i = 0; i < fences->count; i++) {
    fences->prefixes[i] = kv_prefix64(without_front(kv_fences_key(fences, i), fences->skip));
  }
  return KV_OK;
}

void kv_fences_release(struct kv_fences *fences) {
  kv_free(fences->prefixes);
  fences->prefixes = NULL;
}

/* The same as kv_fences_find by the comparator alone. */
static uint32_t find_ordered(const struct kv_fences *fences, struct kv_slice key, uint32_t from) {
  uint32_t low = from, high = fences->count;
  struct kv_search search;
  kv_search_begin(&search, fences->comparator);
  while (high - low > 1) {
    uint32_t middle = low + (high - low) / 2;
    bool above = kv_key_compare(search.by, key_of(fences, middle), key) > 0;
    high = above ? middle : high;
    low = above ? low : middle;
  }
  kv_search_end(&search);
  return low;
}

uint32_t kv_fences_find(const struct kv_fences *fences, struct kv_slice key, uint32_t from) {
  if (fences->comparator) return find_ordered(fences, key, from);
  uint64_t prefix = kv_prefix64(without_front(key, fences->skip));
  uint32_t low = from, high = fences->count;
  while (high - low > 1) {
    uint32_t middle = low + (high - low) / 2;
    uint64_t fence = fences->prefixes[middle];
    bool above = fence > prefix;
    if (fence == prefix) above = kv_slice_compare(kv_fences_key(fences, middle), key) > 0;
    if (above) {
      high = middle;
    } else {
      low = middle;
    }
  }
  return low;
}

#define SIDE_BY_SIDE 16

/* The last block whose prefix is <= each prefix, or 0. No step depends on a comparison but by arithmetic:
** nothing is guessed, and the loads of all searches overlap. */
static void find_prefixes(const struct kv_fences *fences, const uint64_t *prefixes, size_t n,
                          uint32_t *blocks) {
  const uint64_t *found[SIDE_BY_SIDE];
  for (size_t i = 0; i < n; i++) found[i] = fences->prefixes;
  for (uint32_t left = fences->count; left > 1;) {
    uint32_t half = left / 2;
    for (size_t i = 0; i < n; i++) found[i] += half & -(uint32_t)(found[i][half] <= prefixes[i]);
    left -= half;
  }
  for (size_t i = 0; i < n; i++) blocks[i] = (uint32_t)(found[i] - fences->prefixes);
}

/* At most SIDE_BY_SIDE. What equal prefixes leave open is found by the keys. */
static void find_some(const struct kv_fences *fences, const struct kv_slice *keys, size_t n,
                      uint32_t *blocks) {
  uint64_t prefixes[SIDE_BY_SIDE];
  for (size_t i = 0; i < n; i++) prefixes[i] = kv_prefix64(without_front(keys[i], fences->skip));
  find_prefixes(fences, prefixes, n, blocks);
  for (size_t i = 0; i < n; i++) {
    if (fences->prefixes[blocks[i]] == prefixes[i]) blocks[i] = kv_fences_find(fences, keys[i], 0);
  }
}

void kv_fences_find_many(const struct kv_fences *fences, const struct kv_slice *keys, size_t n,
                         uint32_t *blocks) {
  for (size_t i = 0; i < n && fences->comparator; i++) blocks[i] = find_ordered(fences, keys[i], 0);
  for (size_t i = 0; i < n && !fences->comparator; i += SIDE_BY_SIDE)
    find_some(fences, keys + i, n - i < SIDE_BY_SIDE ? n - i : SIDE_BY_SIDE, blocks + i);
}

/* ---- Properties: {varint tag, varint length, bytes}*, numbers as varints */

#define ORDER_SHOWN_MAX ((size_t)64)

enum property {
  PROPERTY_ENTRIES = 1,
  PROPERTY_TOMBSTONES,
  PROPERTY_KEY_BYTES,
  PROPERTY_VALUE_BYTES,
  PROPERTY_DIGEST,
  PROPERTY_COMPRESSION_LEVEL,
  PROPERTY_FILTER_BITS,
  PROPERTY_BLOCK_BYTES,
  PROPERTY_VALUE_THRESHOLD,
  PROPERTY_SMALLEST,
  PROPERTY_LARGEST,
  PROPERTY_COMPARATOR, /* all up to here are there */
  PROPERTY_VALUE_FILES,
  PROPERTY_HOLDS_VALUES,
  PROPERTY_DICTIONARY
};

static uint64_t *number_of(struct kv_table_properties *p, uint64_t tag) {
  switch (tag) {
    case PROPERTY_ENTRIES:
      return &p->entries;
    case PROPERTY_TOMBSTONES:
      return &p->tombstones;
    case PROPERTY_KEY_BYTES:
      return &p->key_bytes;
    case PROPERTY_VALUE_BYTES:
      return &p->value_bytes;
    case PROPERTY_DIGEST:
      return &p->digest;
    case PROPERTY_COMPRESSION_LEVEL:
      return &p->compression_level;
    case PROPERTY_FILTER_BITS:
      return &p->filter_bits;
    case PROPERTY_BLOCK_BYTES:
      return &p->block_bytes;
    case PROPERTY_VALUE_THRESHOLD:
      return &p->value_threshold;
    case PROPERTY_HOLDS_VALUES:
      return &p->holds_values;
    default:
      return NULL;
  }
}

static struct kv_slice *bytes_of(struct kv_table_properties *p, uint64_t tag) {
  switch (tag) {
    case PROPERTY_SMALLEST:
      return &p->smallest;
    case PROPERTY_LARGEST:
      return &p->largest;
    case PROPERTY_COMPARATOR:
      return &p->comparator;
    case PROPERTY_VALUE_FILES:
      return &p->value_files;
    case PROPERTY_DICTIONARY:
      return &p->dictionary;
    default:
      return NULL;
  }
}

kv_status kv_properties_append(struct kv_buf *out, const struct kv_table_properties *properties,
                               struct kv_err *err) {
  struct kv_table_properties copy = *properties;
  for (uint64_t tag = PROPERTY_ENTRIES; tag <= PROPERTY_DICTIONARY; tag++) {
    uint8_t number[KV_VARINT_BYTES_MAX];
    const uint64_t *value = number_of(&copy, tag);
    bool empty = value ? !*value : !bytes_of(&copy, tag)->size;
    if (tag > PROPERTY_COMPARATOR && empty) continue;
    kv_buf_append_varint(out, tag);
    kv_buf_append_slice(
        out, value ? kv_slice_of(number, kv_put_varint(number, *value)) : *bytes_of(&copy, tag));
  }
  return out->status ? kv_fail_nomem(err) : KV_OK;
}

#define REQUIRED ((2u << PROPERTY_COMPARATOR) - 2)

/* Reads the tagged list; tags that are not known are passed over. */
static bool read_properties(struct kv_table_properties *properties, struct kv_slice bytes) {
  struct kv_reader reader;
  kv_reader_init(&reader, bytes);
  uint32_t seen = 0;
  while (!reader.failed && kv_reader_left(&reader)) {
    uint64_t tag = kv_reader_varint(&reader);
    struct kv_slice value = kv_reader_slice(&reader);
    uint64_t *number = number_of(properties, tag);
    if (number) {
      struct kv_reader inner;
      kv_reader_init(&inner, value);
      *number = kv_reader_varint(&inner);
      if (inner.failed || kv_reader_left(&inner)) return false;
    } else if (bytes_of(properties, tag)) {
      *bytes_of(properties, tag) = value;
    } else {
      continue;
    }
    if (seen >> tag & 1) return false;
    seen |= 1u << tag;
  }
  return !reader.failed && (seen & REQUIRED) == REQUIRED;
}

static kv_status check_order(const struct kv_comparator *by, struct kv_slice found,
                             struct kv_err *err) {
  const char *name = kv_order_name(by);
  if ((by && by->unknown) || kv_slice_equal(found, kv_slice_of(name, strlen(name)))) return KV_OK;
  return kv_fail(err, KV_VERSION, "keys are in order \"%.*s\", not \"%s\"",
                 (int)(found.size < ORDER_SHOWN_MAX ? found.size : ORDER_SHOWN_MAX),
                 (const char *)found.data, name);
}

kv_status kv_properties_parse(struct kv_table_properties *properties,
                              const struct kv_comparator *comparator, struct kv_slice bytes,
                              struct kv_err *err) {
  memset(properties, 0, sizeof *properties);
  if (!read_properties(properties, bytes)) return kv_fail(err, KV_CORRUPT, "bad properties");
  kv_status status = check_order(comparator, properties->comparator, err);
  if (status) return status;
  if (properties->dictionary.size > KV_TABLE_DICTIONARY_BYTES_MAX) {
    return kv_fail(err, KV_CORRUPT, "a dictionary of %zu bytes", properties->dictionary.size);
  }
  bool apart = properties->value_files.size != 0;
  if (properties->holds_values > 1 || (apart && properties->holds_values)) {
    return kv_fail(err, KV_CORRUPT, "neither keys nor values");
  }
  if (!properties->entries || properties->tombstones > properties->entries ||
      !is_not_above(comparator, properties->smallest, properties->largest)) {
    return kv_fail(err, KV_CORRUPT, "properties contradict each other");
  }
  return KV_OK;
}

/* ---- Footer. The last FIXED_BYTES are the same in every version, so that any program can tell whose
** file it is and whether it may read it. */

#define FIXED_BYTES 56
static const char footer_magic[8] = {'c', 'o', 'l', 'f', 'a', 'm', 'S', 'T'};

static void append_handle(struct kv_buf *out, const struct kv_table_handle *handle) {
  const uint64_t numbers[3] = {handle->offset, handle->size, handle->checksum};
  kv_buf_append_u64s(out, numbers, 3);
}

kv_status kv_footer_append(struct kv_buf *out, struct kv_table_footer *footer, struct kv_err *err) {
  size_t start = out->size;
  uint64_t offset = footer->properties.offset + footer->properties.size;
  append_handle(out, &footer->filter);
  append_handle(out, &footer->fences);
  append_handle(out, &footer->properties);
  kv_buf_append(out, footer->place.uuid, sizeof footer->place.uuid);
  kv_buf_append_u64(out, footer->place.id);
  kv_buf_append_u32(out, KV_TABLE_FOOTER_BYTES);
  kv_buf_append_u32(out, footer->lowest_reader);
  kv_buf_append_u32(out, footer->lowest_writer);
  kv_buf_append_u32(out, 0);
  footer->checksum = kv_buf_append_checksum(out, start, place_seed(&footer->place, offset));
  kv_buf_append(out, footer_magic, sizeof footer_magic);
  return out->status ? kv_fail_nomem(err) : KV_OK;
}

static void read_handle(struct kv_reader *reader, struct kv_table_handle *handle) {
  uint64_t numbers[3];
  kv_reader_u64s(reader, numbers, 3);
  *handle = (struct kv_table_handle){numbers[0], numbers[1], numbers[2]};
}

/* Filter, fences, properties and footer follow each other to the end; sizes cannot overflow because each
** is compared with what is left. */
static bool handles_fill(const struct kv_table_footer *footer, uint64_t end) {
  const struct kv_table_handle *handles[] = {&footer->properties, &footer->fences, &footer->filter};
  for (int i = 0; i < 3; i++) {
    if (handles[i]->offset > end || end - handles[i]->offset != handles[i]->size) return false;
    end = handles[i]->offset;
  }
  return footer->properties.size && footer->fences.size;
}

static kv_status check_owner(const struct kv_table_place *found,
                             const struct kv_table_place *expected, struct kv_err *err) {
  if (memcmp(found->uuid, expected->uuid, sizeof found->uuid)) {
    return kv_fail(err, KV_CORRUPT, "table %016" PRIx64 ": the file belongs to another store",
                   expected->id);
  }
  if (found->id != expected->id) {
    return kv_fail(err, KV_CORRUPT, "table %016" PRIx64 ": the file is table %016" PRIx64,
                   expected->id, found->id);
  }
  return KV_OK;
}

/* Whether the checksum before the magic is that of the footer, which is seeded with its offset. */
static bool footer_holds(const uint8_t *end, size_t size, const struct kv_table_place *place,
                         uint64_t file_size) {
  struct kv_slice covered = kv_slice_of(end - size, size - sizeof footer_magic);
  return kv_checksum_holds(covered, place_seed(place, file_size - size));
}

/* Reads what every version has. *size is the footer's. */
static kv_status parse_fixed(struct kv_table_footer *footer, struct kv_slice tail,
                             uint64_t file_size, const struct kv_table_place *expected,
                             size_t *size, struct kv_err *err) {
  const uint8_t *end = tail.data + tail.size;
  if (tail.size < FIXED_BYTES || memcmp(end - 8, footer_magic, sizeof footer_magic)) {
    return kv_fail(err, KV_CORRUPT, "table %016" PRIx64 ": no table file (%" PRIu64 " bytes)",
                   expected->id, file_size);
  }
  struct kv_reader reader;
  kv_reader_init(&reader, kv_slice_of(end - FIXED_BYTES, FIXED_BYTES));
  memcpy(footer->place.uuid, kv_reader_bytes(&reader, 16).data, 16);
  footer->place.id = kv_reader_u64(&reader);
  *size = kv_reader_u32(&reader);
  footer->lowest_reader = kv_reader_u32(&reader);
  footer->lowest_writer = kv_reader_u32(&reader);
  kv_reader_u32(&reader);
  footer->checksum = kv_reader_u64(&reader);
  if (*size < FIXED_BYTES || *size > tail.size ||
      !footer_holds(end, *size, &footer->place, file_size)) {
    return kv_fail(err, KV_CORRUPT, "table %016" PRIx64 ": footer: bad checksum", expected->id);
  }
  return KV_OK;
}

kv_status kv_footer_parse(struct kv_table_footer *footer, struct kv_slice tail, uint64_t file_size,
                          const struct kv_table_place *expected, struct kv_err *err) {
  size_t size = 0;
  kv_status status = parse_fixed(footer, tail, file_size, expected, &size, err);
  if (!status) status = check_owner(&footer->place, expected, err);
  if (status) return status;
  if (footer->lowest_reader > KV_TABLE_VERSION) {
    return kv_fail(err, KV_VERSION,
                   "table %016" PRIx64 ": needs a reader of format %" PRIu32
                   ", this program reads up to %d",
                   expected->id, footer->lowest_reader, KV_TABLE_VERSION);
  }
  struct kv_reader reader;
  kv_reader_init(&reader, kv_slice_of(tail.data + tail.size - size, size));
  read_handle(&reader, &footer->filter);
  read_handle(&reader, &footer->fences);
  read_handle(&reader, &footer->properties);
  if (size < KV_TABLE_FOOTER_BYTES || reader.failed || !handles_fill(footer, file_size - size)) {
    return kv_fail(err, KV_CORRUPT, "table %016" PRIx64 ": footer: bad handles", expected->id);
  }
  return KV_OK;
}
