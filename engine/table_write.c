/* The writer of table files (FORMAT.md, Table file): cuts entries into data blocks, collects fences and
** key hashes on the way, and ends with filter, fences, properties and footer.
**
** Stored blocks gather in `out` and go to the file in large appends; `written` counts those too that are
** still in `out`, so it is the offset of the next block.
** Memory: one block, `out`, 8 bytes a key for the filter, the first key of each block; where a dictionary
** may be, half a megabyte of blocks at first.
** Invariant 2 (engine/README.md): a random id taken by exclusive creation; the file is synced, then its
** directory and that one's entry, before anybody learns of it. After a failure the writer refuses everything.
** Thread rule: one thread at a time. */
#include "table_write.h"

#include <inttypes.h>
#include <string.h>

#include "block.h"
#include "code.h"
#include "filter.h"
#include "hash.h"
#include "key.h"
#include "mem.h"
#include "table_format.h"

#define APPEND_BYTES ((size_t)256 << 10)
#define ENTRY_HEAD_BYTES_MAX 20 /* varints, restart and bucket of one entry, roughly */
#define CREATE_ATTEMPTS 8

/* ---- File infos, paths */

void kv_file_info_init(struct kv_file_info *info) {
  memset(info, 0, sizeof *info);
  kv_buf_init(&info->smallest);
  kv_buf_init(&info->largest);
}

void kv_file_info_release(struct kv_file_info *info) {
  kv_buf_release(&info->smallest);
  kv_buf_release(&info->largest);
}

kv_status kv_file_info_copy(struct kv_file_info *to, const struct kv_file_info *from,
                            struct kv_err *err) {
  struct kv_file_info copy = *from;
  kv_buf_init(&copy.smallest);
  kv_buf_init(&copy.largest);
  kv_buf_append(&copy.smallest, from->smallest.data, from->smallest.size);
  kv_buf_append(&copy.largest, from->largest.data, from->largest.size);
  if (copy.smallest.status || copy.largest.status) {
    kv_file_info_release(&copy);
    return kv_fail_nomem(err);
  }
  *to = copy;
  return KV_OK;
}

void kv_table_path(struct kv_buf *path, const char *dir, uint64_t id) {
  static const char digits[] = "0123456789abcdef";
  kv_buf_append(path, dir, strlen(dir));
  kv_buf_append_byte(path, '/');
  for (int shift = 60; shift >= 0; shift -= 4) {
    kv_buf_append_byte(path, (uint8_t)digits[id >> shift & 15]);
  }
  kv_buf_append(path, ".sst", sizeof ".sst");
}

/* ---- Writer */

struct kv_table_writer {
  struct kv_table_config config;
  struct kv_table_place place;
  struct kv_buf path;
  struct kv_write_file *file;
  struct kv_compressor *compressor; /* NULL without compression */
  bool holds_back;                  /* blocks are kept until it is decided about a dictionary */
  struct kv_buf held;               /* plain bytes of such blocks, one behind the other */
  struct kv_buf held_keys;          /* ... and their first keys */
  struct kv_buf held_ends;          /* size_t: in held and in held_keys, for each */
  struct kv_buf dictionary;
  struct kv_block_builder block;
  struct kv_fence_builder fences;
  struct kv_buf first_key; /* of the block being built */
  size_t entry;            /* byte of the last entry in it */
  struct kv_buf smallest;
  struct kv_buf largest; /* last key of the blocks before */
  struct kv_buf hashes;  /* u64 a key, native; empty without filter */
  struct kv_buf out;
  uint64_t written;
  struct kv_table_properties properties;
  struct kv_value_uses uses;
  struct kv_digest digest;
  bool created;  /* the file is there and ours to unlink */
  bool finished; /* ... and kept */
  bool failed;
};

static kv_status random_id(struct kv_env *env, uint64_t *id, struct kv_err *err) {
  do {
    uint8_t bytes[8];
    kv_status status = kv_env_random(env, bytes, sizeof bytes, err);
    if (status) return status;
    *id = kv_get_u64(bytes) >> 1;
  } while (!*id);
  return KV_OK;
}

/* The entry too, each time: whoever made the directory may have died before it was durable. */
kv_status kv_table_sync_dir(const struct kv_table_config *config, struct kv_err *err) {
  kv_status status = kv_env_sync_dir(config->env, config->dir, err);
  if (status) return status;
  const char *slash = strrchr(config->dir, '/');
  if (!slash) return kv_env_sync_dir(config->env, ".", err);
  struct kv_buf parent;
  kv_buf_init(&parent);
  size_t size = slash == config->dir ? 1 : (size_t)(slash - config->dir);
  kv_buf_append(&parent, config->dir, size);
  kv_buf_append_byte(&parent, 0);
  status = parent.status ? kv_fail_nomem(err)
                         : kv_env_sync_dir(config->env, (const char *)parent.data, err);
  kv_buf_release(&parent);
  return status;
}

static kv_status create_once(struct kv_table_writer *writer, struct kv_err *err) {
  const struct kv_table_config *config = &writer->config;
  kv_status status = random_id(config->env, &writer->place.id, err);
  if (status) return status;
  kv_buf_clear(&writer->path);
  kv_table_path(&writer->path, config->dir, writer->place.id);
  if (writer->path.status) return kv_fail_nomem(err);
  return kv_env_create(config->env, (const char *)writer->path.data, config->like_path,
                       &writer->file, err);
}

/* An id that is taken is drawn again; a directory that is missing is made, again when somebody who removed
** the last file of another table takes it away meanwhile. */
static kv_status create_file(struct kv_table_writer *writer, struct kv_err *err) {
  bool has_dir = true;
  kv_status status = KV_BUSY;
  for (int i = 0; i < CREATE_ATTEMPTS && (status == KV_BUSY || status == KV_MISSING); i++) {
    const struct kv_table_config *config = &writer->config;
    if (has_dir)
      status = KV_OK;
    else
      status = kv_env_make_dir(config->env, config->dir, config->like_path, err);
    if (status == KV_OK) status = create_once(writer, err);
    has_dir = status != KV_MISSING;
  }
  writer->created = status == KV_OK;
  return status;
}

static void init_writer(struct kv_table_writer *writer, const struct kv_table_config *config) {
  writer->config = *config;
  memcpy(writer->place.uuid, config->uuid, sizeof writer->place.uuid);
  kv_block_builder_init(&writer->block);
  writer->block.comparator = config->comparator;
  writer->block.leaves_index = config->compression_level > 0;
  kv_fence_builder_init(&writer->fences);
  struct kv_buf *bufs[] = {&writer->path,      &writer->first_key, &writer->smallest,
                           &writer->largest,   &writer->hashes,    &writer->out,
                           &writer->held,      &writer->held_keys, &writer->held_ends,
                           &writer->dictionary};
  for (size_t i = 0; i < sizeof bufs / sizeof *bufs; i++) kv_buf_init(bufs[i]);
}

kv_status kv_table_writer_new(const struct kv_table_config *config, struct kv_table_writer **writer,
                              struct kv_err *err) {
  if (config->compression_level < 0 || config->compression_level > 19 || config->filter_bits < 0 ||
      config->filter_bits > 20) {
    return kv_fail(err, KV_MISUSE, "table: compression level %d or %d filter bits out of range",
                   config->compression_level, config->filter_bits);
  }
  struct kv_table_writer *made = kv_alloc_zero(1, sizeof *made);
  if (!made) return kv_fail_nomem(err);
  init_writer(made, config);
  kv_status status = KV_OK;
  if (config->compression_level > 0) {
    made->compressor = kv_compressor_new();
    if (!made->compressor) status = kv_fail_nomem(err);
    made->holds_back = config->dictionary_bytes && !config->holds_values;
  }
  if (!status) status = create_file(made, err);
  if (status) {
    kv_table_writer_free(made);
    return status;
  }
  *writer = made;
  return KV_OK;
}

void kv_table_writer_free(struct kv_table_writer *writer) {
  if (!writer) return;
  if (writer->created && !writer->finished) {
    (void)kv_env_remove(writer->config.env, (const char *)writer->path.data, NULL);
  }
  if (writer->file) kv_env_close_write(writer->config.env, writer->file);
  kv_compressor_free(writer->compressor);
  kv_block_builder_release(&writer->block);
  kv_fence_builder_release(&writer->fences);
  kv_buf_release(&writer->path);
  kv_buf_release(&writer->first_key);
  kv_buf_release(&writer->smallest);
  kv_buf_release(&writer->largest);
  kv_buf_release(&writer->hashes);
  kv_buf_release(&writer->out);
  kv_buf_release(&writer->held);
  kv_buf_release(&writer->held_keys);
  kv_buf_release(&writer->held_ends);
  kv_buf_release(&writer->dictionary);
  kv_value_uses_release(&writer->uses);
  kv_free(writer);
}

uint64_t kv_table_writer_id(const struct kv_table_writer *writer) {
  return writer->place.id;
}

uint64_t kv_table_writer_bytes(const struct kv_table_writer *writer) {
  return writer->written + writer->held.size;
}

static kv_status flush_out(struct kv_table_writer *writer, struct kv_err *err) {
  if (!writer->out.size) return KV_OK;
  kv_status status =
      kv_env_append(writer->config.env, writer->file, kv_buf_slice(&writer->out), err);
  kv_buf_clear(&writer->out);
  return status;
}

static kv_status take_piece(void *ctx, struct kv_slice piece, struct kv_err *err) {
  const struct kv_table_writer *writer = ctx;
  return kv_env_append(writer->config.env, writer->file, piece, err);
}

/* A large block that stays plain goes to the file uncopied: a filter, a large value. */
static kv_status store_large(struct kv_table_writer *writer, struct kv_slice raw,
                             struct kv_table_handle *handle, struct kv_err *err) {
  kv_status status = flush_out(writer, err);
  handle->offset = writer->written;
  handle->size = raw.size + KV_TABLE_TRAILER_BYTES;
  if (!status)
    status = kv_stored_write((struct kv_stream_sink){take_piece, writer}, raw, &writer->place,
                             writer->written, &handle->checksum, err);
  writer->written += handle->size;
  return status;
}

/* Stores one block at the end of the file. */
static kv_status store(struct kv_table_writer *writer, struct kv_slice raw, int level,
                       struct kv_table_handle *handle, struct kv_err *err) {
  if (level == 0 && raw.size >= APPEND_BYTES) return store_large(writer, raw, handle, err);
  size_t before = writer->out.size;
  kv_status status = kv_stored_append(&writer->out, raw, level, writer->compressor, &writer->place,
                                      writer->written, &handle->checksum, err);
  if (status) return status;
  handle->offset = writer->written;
  handle->size = writer->out.size - before;
  writer->written += handle->size;
  return writer->out.size < APPEND_BYTES ? KV_OK : flush_out(writer, err);
}

static kv_status set_key(struct kv_buf *to, struct kv_slice key, struct kv_err *err) {
  kv_buf_clear(to);
  kv_buf_append(to, key.data, key.size);
  return to->status ? kv_fail_nomem(err) : KV_OK;
}

static kv_status store_block(struct kv_table_writer *writer, struct kv_slice raw,
                             struct kv_slice first_key, struct kv_err *err) {
  struct kv_table_handle handle;
  kv_status status = store(writer, raw, writer->config.compression_level, &handle, err);
  if (status) return status;
  return kv_fence_builder_add(&writer->fences, first_key, handle.offset, (size_t)handle.size, err);
}

/* ---- A dictionary
**
** The first blocks are held back as its sample. It pays when it makes them smaller by a tenth, its own bytes
** counted, since blocks take half as long again to decompress. */

#define SAMPLE_BYTES ((size_t)512 << 10)
#define SAMPLE_SHARE 32 /* a dictionary is at most so small a part of its sample */
#define TRIED_BLOCKS 8

struct held {
  size_t raw_end, key_end;
};

static size_t held_count(const struct kv_table_writer *writer) {
  return writer->held_ends.size / sizeof(struct held);
}

static void held_block(const struct kv_table_writer *writer, size_t i, struct kv_slice *raw,
                       struct kv_slice *key) {
  const struct held *ends = (const struct held *)(const void *)writer->held_ends.data;
  struct held from = i ? ends[i - 1] : (struct held){0, 0};
  *raw = kv_slice_of(writer->held.data + from.raw_end, ends[i].raw_end - from.raw_end);
  *key = kv_slice_of(writer->held_keys.data + from.key_end, ends[i].key_end - from.key_end);
}

static kv_status hold_back(struct kv_table_writer *writer, struct kv_slice raw,
                           struct kv_err *err) {
  kv_buf_append(&writer->held, raw.data, raw.size);
  kv_buf_append(&writer->held_keys, writer->first_key.data, writer->first_key.size);
  struct held ends = {writer->held.size, writer->held_keys.size};
  kv_buf_append(&writer->held_ends, &ends, sizeof ends);
  bool failed = writer->held.status || writer->held_keys.status || writer->held_ends.status;
  return failed ? kv_fail_nomem(err) : KV_OK;
}

/* What some of the blocks take as the compressor is now, with what stays plain. */
static kv_status try_blocks(struct kv_table_writer *writer, size_t *packed, size_t *raw_size,
                            struct kv_err *err) {
  size_t count = held_count(writer), step = count / TRIED_BLOCKS + 1;
  kv_status status = KV_OK;
  *packed = *raw_size = 0;
  for (size_t i = 0; i < count && !status; i += step) {
    struct kv_slice raw, key;
    struct kv_buf out;
    uint64_t checksum;
    held_block(writer, i, &raw, &key);
    kv_buf_init(&out);
    status = kv_stored_append(&out, raw, writer->config.compression_level, writer->compressor,
                              &writer->place, 0, &checksum, err);
    *packed += out.size;
    *raw_size += raw.size;
    kv_buf_release(&out);
  }
  return status;
}

/* The compressor gets the dictionary when it pays. */
static kv_status try_dictionary(struct kv_table_writer *writer, struct kv_err *err) {
  struct kv_buf *dictionary = &writer->dictionary;
  size_t room = writer->held.size / SAMPLE_SHARE, without, with, raw;
  if (room > writer->config.dictionary_bytes) room = writer->config.dictionary_bytes;
  kv_status status = kv_dictionary_pick(kv_buf_slice(&writer->held), room, dictionary, err);
  if (status || !dictionary->size) return status;
  status = try_blocks(writer, &without, &raw, err);
  if (!status)
    status = kv_compressor_use(writer->compressor, kv_buf_slice(dictionary),
                               writer->config.compression_level, err);
  if (!status) status = try_blocks(writer, &with, &raw, err);
  if (status) return status;
  size_t share = raw * dictionary->size / writer->held.size;
  if ((with + share) * 10 <= without * 9) return KV_OK;
  kv_buf_clear(dictionary);
  return kv_compressor_use(writer->compressor, kv_slice_of(NULL, 0), 0, err);
}

/* Writes what was held back. */
static kv_status decide(struct kv_table_writer *writer, struct kv_err *err) {
  writer->holds_back = false;
  kv_status status = try_dictionary(writer, err);
  for (size_t i = 0; i < held_count(writer) && !status; i++) {
    struct kv_slice raw, key;
    held_block(writer, i, &raw, &key);
    status = store_block(writer, raw, key, err);
  }
  kv_buf_release(&writer->held);
  kv_buf_release(&writer->held_keys);
  kv_buf_release(&writer->held_ends);
  return status;
}

static kv_status cut_block(struct kv_table_writer *writer, struct kv_err *err) {
  struct kv_slice raw;
  kv_status status = kv_block_builder_finish(&writer->block, &raw, err);
  if (status) return status;
  if (!writer->holds_back)
    status = store_block(writer, raw, kv_buf_slice(&writer->first_key), err);
  else
    status = hold_back(writer, raw, err);
  if (!status && writer->held.size >= SAMPLE_BYTES) status = decide(writer, err);
  if (status) return status;
  status = set_key(&writer->largest, kv_buf_slice(&writer->block.last_key), err);
  kv_block_builder_reset(&writer->block);
  return status;
}

/* Sizes, and order where the block builder cannot see it: between blocks. */
static kv_status check_entry(const struct kv_table_writer *writer, struct kv_slice key,
                             struct kv_slice value, bool deleted, struct kv_err *err) {
  if (key.size > KV_KEY_BYTES_MAX || value.size > KV_TABLE_VALUE_BYTES_MAX ||
      (deleted && value.size)) {
    return kv_fail(err, KV_MISUSE, "table: an entry of %zu key and %zu value bytes", key.size,
                   value.size);
  }
  if (!writer->block.count && writer->properties.entries &&
      !kv_key_ascends(writer->config.comparator, kv_buf_slice(&writer->largest), key)) {
    return kv_fail(err, KV_MISUSE, "table: keys are not ascending at entry %" PRIu64,
                   writer->properties.entries);
  }
  return KV_OK;
}

/* Starts a block for the key when there is none, or the one there is would grow too big. */
static kv_status start_block(struct kv_table_writer *writer, struct kv_slice key, size_t entry_size,
                             struct kv_err *err) {
  if (writer->block.count &&
      kv_block_builder_size(&writer->block) + entry_size > writer->config.block_bytes) {
    kv_status status = cut_block(writer, err);
    if (status) return status;
  }
  return writer->block.count ? KV_OK : set_key(&writer->first_key, key, err);
}

/* A put, a tombstone, or a value that is a reference. */
enum kind { PUT, TOMBSTONE, APART };

static kv_status count_entry(struct kv_table_writer *writer, struct kv_slice key, uint64_t hash,
                             struct kv_slice value, enum kind kind, struct kv_err *err) {
  struct kv_table_properties *properties = &writer->properties;
  struct kv_apart apart;
  properties->entries++;
  properties->tombstones += kind == TOMBSTONE;
  properties->key_bytes += key.size;
  properties->value_bytes += value.size;
  kv_digest_add_hashed(&writer->digest, hash, value, kind != PUT);
  if (kind != APART) return KV_OK;
  if (!kv_apart_parse(value, &apart)) return kv_fail(err, KV_MISUSE, "table: no reference");
  return kv_value_uses_add(&writer->uses, (struct kv_value_use){apart.file, 1, apart.size}, err);
}

static kv_status add_to_block(struct kv_block_builder *block, struct kv_slice key, uint64_t hash,
                              struct kv_slice value, enum kind kind, struct kv_err *err) {
  return kind == APART ? kv_block_builder_add_apart(block, key, hash, value, err)
                       : kv_block_builder_add(block, key, hash, value, kind == TOMBSTONE, err);
}

static kv_status add_entry(struct kv_table_writer *writer, struct kv_slice key,
                           struct kv_slice value, enum kind kind, struct kv_err *err) {
  uint64_t hash = kv_hash_key(key);
  kv_status status = start_block(writer, key, ENTRY_HEAD_BYTES_MAX + key.size + value.size, err);
  if (!status) status = check_entry(writer, key, value, kind == TOMBSTONE, err);
  writer->entry = writer->block.bytes.size;
  if (!status) status = add_to_block(&writer->block, key, hash, value, kind, err);
  if (!status && !writer->properties.entries) status = set_key(&writer->smallest, key, err);
  if (status) return status;
  if (writer->config.filter_bits) {
    kv_buf_append(&writer->hashes, &hash, sizeof hash);
    if (writer->hashes.status) return kv_fail_nomem(err);
  }
  return count_entry(writer, key, hash, value, kind, err);
}

static kv_status refuse(struct kv_err *err) {
  return kv_fail(err, KV_MISUSE, "table: the writer has failed or finished");
}

static kv_status add(struct kv_table_writer *writer, struct kv_slice key, struct kv_slice value,
                     enum kind kind, struct kv_err *err) {
  if (writer->failed || writer->finished) return refuse(err);
  kv_status status = add_entry(writer, key, value, kind, err);
  writer->failed = status != KV_OK;
  return status;
}

kv_status kv_table_writer_add(struct kv_table_writer *writer, struct kv_slice key,
                              struct kv_slice value, bool deleted, struct kv_err *err) {
  return add(writer, key, value, deleted ? TOMBSTONE : PUT, err);
}

kv_status kv_table_writer_add_apart(struct kv_table_writer *writer, struct kv_slice key,
                                    struct kv_slice reference, struct kv_err *err) {
  return add(writer, key, reference, APART, err);
}

void kv_table_writer_position(const struct kv_table_writer *writer, uint32_t *block,
                              uint32_t *offset) {
  *block = (uint32_t)(writer->fences.sizes.size / 4);
  *offset = (uint32_t)writer->entry;
}

const struct kv_value_uses *kv_table_writer_uses(const struct kv_table_writer *writer) {
  return &writer->uses;
}

/* ---- Finish */

static kv_status store_filter(struct kv_table_writer *writer, struct kv_table_handle *handle,
                              struct kv_err *err) {
  *handle = (struct kv_table_handle){.offset = writer->written};
  if (!writer->config.filter_bits) return KV_OK;
  struct kv_buf filter;
  kv_buf_init(&filter);
  kv_status status =
      kv_filter_build((const uint64_t *)(const void *)writer->hashes.data,
                      (size_t)writer->properties.entries, writer->config.filter_bits, &filter, err);
  if (!status) status = store(writer, kv_buf_slice(&filter), 0, handle, err);
  kv_buf_release(&filter);
  return status;
}

static kv_status store_fences(struct kv_table_writer *writer, struct kv_table_handle *handle,
                              struct kv_err *err) {
  struct kv_buf fences;
  kv_buf_init(&fences);
  kv_status status = kv_fence_builder_finish(&writer->fences, &fences, err);
  if (!status) {
    status = store(writer, kv_buf_slice(&fences), writer->config.compression_level, handle, err);
  }
  kv_buf_release(&fences);
  return status;
}

static kv_status store_properties(struct kv_table_writer *writer, struct kv_table_handle *handle,
                                  struct kv_err *err) {
  struct kv_table_properties *properties = &writer->properties;
  properties->digest = writer->digest.sum;
  properties->compression_level = (uint64_t)writer->config.compression_level;
  properties->filter_bits = (uint64_t)writer->config.filter_bits;
  properties->block_bytes = writer->config.block_bytes;
  properties->value_threshold = writer->uses.count ? writer->config.value_bytes : 0;
  properties->holds_values = writer->config.holds_values;
  properties->dictionary = kv_buf_slice(&writer->dictionary);
  properties->smallest = kv_buf_slice(&writer->smallest);
  properties->largest = kv_buf_slice(&writer->largest);
  const char *name = kv_order_name(writer->config.comparator);
  properties->comparator = kv_slice_of(name, strlen(name));
  struct kv_buf bytes, uses;
  kv_buf_init(&bytes);
  kv_buf_init(&uses);
  kv_value_uses_append(&uses, &writer->uses);
  properties->value_files = kv_buf_slice(&uses);
  kv_status status =
      uses.status ? kv_fail_nomem(err) : kv_properties_append(&bytes, properties, err);
  if (!status) status = store(writer, kv_buf_slice(&bytes), 0, handle, err);
  kv_buf_release(&uses);
  kv_buf_release(&bytes);
  return status;
}

static kv_status end_blocks(struct kv_table_writer *writer, struct kv_err *err) {
  kv_status status = cut_block(writer, err);
  if (!status && writer->holds_back) status = decide(writer, err);
  if (status || !writer->compressor) return status;
  return kv_compressor_use(writer->compressor, kv_slice_of(NULL, 0), 0, err);
}

static kv_status write_tail(struct kv_table_writer *writer, uint64_t *checksum,
                            struct kv_err *err) {
  struct kv_table_footer footer = {.place = writer->place};
  kv_status status = end_blocks(writer, err);
  footer.lowest_reader =
      writer->dictionary.size ? KV_TABLE_VERSION_DICTIONARY : KV_TABLE_VERSION_PLAIN;
  footer.lowest_writer = footer.lowest_reader;
  if (!status) status = store_filter(writer, &footer.filter, err);
  if (!status) status = store_fences(writer, &footer.fences, err);
  if (!status) status = store_properties(writer, &footer.properties, err);
  if (!status) status = kv_footer_append(&writer->out, &footer, err);
  if (status) return status;
  writer->written += KV_TABLE_FOOTER_BYTES;
  *checksum = footer.checksum;
  return flush_out(writer, err);
}

static kv_status fill_info(const struct kv_table_writer *writer, uint64_t checksum,
                           struct kv_file_info *info, struct kv_err *err) {
  kv_status status = set_key(&info->smallest, kv_buf_slice(&writer->smallest), err);
  if (!status) status = set_key(&info->largest, kv_buf_slice(&writer->largest), err);
  info->id = writer->place.id;
  info->bytes = writer->written;
  info->entries = writer->properties.entries;
  info->tombstones = writer->properties.tombstones;
  info->checksum = checksum;
  return status;
}

static kv_status finish(struct kv_table_writer *writer, struct kv_file_info *info,
                        struct kv_err *err) {
  if (!writer->block.count) return kv_fail(err, KV_MISUSE, "table: no entries");
  uint64_t checksum = 0;
  kv_status status = write_tail(writer, &checksum, err);
  if (!status) status = kv_env_sync(writer->config.env, writer->file, err);
  if (!status) status = kv_table_sync_dir(&writer->config, err);
  return status ? status : fill_info(writer, checksum, info, err);
}

kv_status kv_table_writer_finish(struct kv_table_writer *writer, struct kv_file_info *info,
                                 struct kv_digest *digest, struct kv_err *err) {
  if (writer->failed || writer->finished) return refuse(err);
  kv_status status = finish(writer, info, err);
  writer->failed = status != KV_OK;
  writer->finished = status == KV_OK;
  if (!status && digest) *digest = writer->digest;
  return status;
}

struct kv_write_file *kv_table_writer_take_file(struct kv_table_writer *writer) {
  struct kv_write_file *file = writer->file;
  writer->file = NULL;
  return file;
}
