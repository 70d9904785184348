/* Opens table files and answers single lookups (FORMAT.md, Table file); table_read_multi.c has
** the batched form.
** Opening reads the footer, then filter, fences and properties in one grouped read, and holds them; the file
** itself is open only while the process can keep it so (open_files.h); data
** blocks come through the cache and are verified once, when loaded, unless the cache says otherwise: then
** what is in a block is taken as it comes, and its structure alone is checked.
** Invariant 7 (engine/README.md): a failure is a status, never KV_TABLE_NONE.
** Nothing is allocated by a length that was not verified: stored sizes are bounded by the file's size,
** plain sizes by the stored ones (table_format.h).
** Thread rule: an open table is read-only; any thread. */
#include "table_read.h"

#include <inttypes.h>
#include <string.h>

#include "code.h"
#include "mem.h"
#include "table_read_inside.h"

#define CACHE_LINE 64

/* ---- Parts */

/* The stored bytes of one part, aligned so that a filter's lines are cache lines. */
struct part_read {
  void *memory;
  uint8_t *bytes;
};

static kv_status start_part(struct part_read *part, const struct kv_table_handle *handle,
                            struct kv_range *range, struct kv_err *err) {
  part->memory = kv_alloc((size_t)handle->size + CACHE_LINE, 1);
  if (!part->memory) return kv_fail_nomem(err);
  uintptr_t start = (uintptr_t)part->memory;
  part->bytes = (uint8_t *)part->memory + (CACHE_LINE - start % CACHE_LINE) % CACHE_LINE;
  *range = (struct kv_range){handle->offset, (size_t)handle->size, part->bytes};
  return KV_OK;
}

/* Makes the plain bytes of a part, in place when stored plain. */
static kv_status finish_part(struct part_read *part, const struct kv_table_handle *handle,
                             const struct kv_table *table, bool verify, struct kv_slice *plain,
                             struct kv_err *err) {
  struct kv_stored stored;
  const struct kv_table_place *place = &table->place;
  struct kv_slice bytes = kv_slice_of(part->bytes, (size_t)handle->size);
  kv_stats_add(table->stats, KV_STAT_PART_CHECKSUMS, verify);
  kv_status status = verify ? kv_stored_check(&stored, bytes, place, handle->offset, err)
                            : kv_stored_parse(&stored, bytes, place, handle->offset, err);
  if (status) return status;
  if (stored.checksum != handle->checksum) return kv_table_wrong_part(table, handle, err);
  *plain = stored.payload;
  if (!stored.compressed) return KV_OK;
  uint8_t *memory = kv_alloc(stored.raw_size, 1);
  if (!memory) return kv_fail_nomem(err);
  status = kv_stored_decode(&stored, memory, place, handle->offset, err);
  kv_free(part->memory);
  part->memory = part->bytes = memory;
  *plain = kv_slice_of(memory, stored.raw_size);
  return status;
}

static kv_status name_table(const struct kv_table_place *place, kv_status status,
                            const struct kv_err *inner, struct kv_err *err) {
  if (status == KV_NOMEM) return kv_fail_nomem(err);
  return kv_fail(err, status, "table %016" PRIx64 ": %s", place->id, inner->text);
}

static kv_status take_dictionary(struct kv_table_parts *parts, struct kv_err *err) {
  struct kv_slice dictionary = parts->properties.dictionary;
  if (!dictionary.size) return KV_OK;
  parts->unpacking = kv_unpacking_new(dictionary);
  if (!parts->unpacking) return kv_fail_nomem(err);
  parts->memory += kv_unpacking_memory(parts->unpacking);
  return KV_OK;
}

/* Understands the plain bytes of filter, fences and properties. */
static kv_status parse_parts(struct kv_table_parts *parts, const struct kv_slice plain[3],
                             const struct kv_table_place *place,
                             const struct kv_comparator *comparator, struct kv_err *err) {
  struct kv_err inner;
  kv_status status = kv_filter_init(&parts->filter, plain[0], &inner);
  if (!status) status = kv_properties_parse(&parts->properties, comparator, plain[2], &inner);
  parts->fences.comparator = comparator;
  if (!status) {
    status = kv_fences_init(&parts->fences, plain[1], parts->footer.filter.offset,
                            parts->properties.smallest, parts->properties.largest, &inner);
  }
  if (!status) status = kv_value_uses_parse(parts->properties.value_files, &parts->uses, &inner);
  if (!status) status = take_dictionary(parts, &inner);
  return status ? name_table(place, status, &inner, err) : KV_OK;
}

/* The end of a file, which has the footer in it, into tail[KV_TABLE_FOOTER_BYTES_MAX]. */
static struct kv_range tail_of(uint64_t file_size, uint8_t *tail) {
  size_t size =
      file_size < KV_TABLE_FOOTER_BYTES_MAX ? (size_t)file_size : KV_TABLE_FOOTER_BYTES_MAX;
  return (struct kv_range){file_size - size, size, tail};
}

kv_status kv_table_footer_load(struct kv_table_footer *footer, const struct kv_table *table,
                               struct kv_err *err) {
  uint8_t tail[KV_TABLE_FOOTER_BYTES_MAX];
  struct kv_range range = tail_of(table->info.bytes, tail);
  kv_status status = range.size ? kv_open_file_read(table->file, &range, 1, err) : KV_OK;
  if (status) return status;
  return kv_footer_parse(footer, kv_slice_of(tail, range.size), table->info.bytes, &table->place,
                         err);
}

kv_status kv_table_wrong_part(const struct kv_table *table, const struct kv_table_handle *handle,
                              struct kv_err *err) {
  return kv_fail(err, KV_CORRUPT, "table %016" PRIx64 ": part at %" PRIu64 " is not the footer's",
                 table->place.id, handle->offset);
}

kv_status kv_table_parts_load(struct kv_table_parts *parts, const struct kv_table *table,
                              bool verify, struct kv_err *err) {
  memset(parts, 0, sizeof *parts);
  kv_status status = kv_table_footer_load(&parts->footer, table, err);
  if (status) return status;
  const struct kv_table_handle *handles[3] = {&parts->footer.filter, &parts->footer.fences,
                                              &parts->footer.properties};
  struct part_read reads[3] = {0};
  struct kv_range ranges[3];
  struct kv_slice plain[3] = {0};
  int first = handles[0]->size ? 0 : 1;
  for (int i = first; i < 3 && !status; i++) {
    status = start_part(&reads[i], handles[i], &ranges[i], err);
  }
  if (!status) status = kv_open_file_read(table->file, ranges + first, (size_t)(3 - first), err);
  for (int i = first; i < 3 && !status; i++) {
    status = finish_part(&reads[i], handles[i], table, verify, &plain[i], err);
    parts->memory += plain[i].size;
  }
  parts->filter_memory = reads[0].memory;
  parts->fence_memory = reads[1].memory;
  parts->property_memory = reads[2].memory;
  if (!status) status = parse_parts(parts, plain, &table->place, table->comparator, err);
  if (status) kv_table_parts_release(parts);
  return status;
}

void kv_table_parts_release(struct kv_table_parts *parts) {
  kv_fences_release(&parts->fences);
  kv_value_uses_release(&parts->uses);
  kv_unpacking_free(parts->unpacking);
  kv_free(parts->filter_memory);
  kv_free(parts->fence_memory);
  kv_free(parts->property_memory);
  memset(parts, 0, sizeof *parts);
}

/* ---- Open and close */

static kv_status disagrees(const struct kv_table *table, const char *what, struct kv_err *err) {
  return kv_fail(err, KV_CORRUPT, "table %016" PRIx64 ": %s of the file and of the manifest differ",
                 table->place.id, what);
}

static kv_status compare_with_manifest(const struct kv_table *table, struct kv_err *err) {
  const struct kv_table_properties *found = &table->parts.properties;
  const struct kv_file_info *info = &table->info;
  if (table->parts.footer.checksum != info->checksum) return disagrees(table, "checksum", err);
  if (found->entries != info->entries || found->tombstones != info->tombstones) {
    return disagrees(table, "entry counts", err);
  }
  if (found->holds_values != (info->level == KV_LEVEL_VALUES)) {
    return disagrees(table, "kind", err);
  }
  if (!kv_slice_equal(found->smallest, kv_buf_slice(&info->smallest)) ||
      !kv_slice_equal(found->largest, kv_buf_slice(&info->largest))) {
    return disagrees(table, "bounds", err);
  }
  return KV_OK;
}

/* Whether a file is the one that the manifest names, by its size and, when it is opened again, its footer. */
static kv_status check_opened(const void *context, struct kv_env *env, struct kv_read_file *file,
                              uint64_t size, struct kv_err *err) {
  const struct kv_table *table = context;
  if (size != table->info.bytes) {
    return kv_fail(err, KV_CORRUPT,
                   "table %016" PRIx64 ": %" PRIu64 " bytes, the manifest says %" PRIu64,
                   table->place.id, size, table->info.bytes);
  }
  if (!table->known) return KV_OK;
  uint8_t tail[KV_TABLE_FOOTER_BYTES_MAX];
  struct kv_range range = tail_of(size, tail);
  struct kv_table_footer footer;
  kv_status status = range.size ? kv_env_read(env, file, &range, 1, err) : KV_OK;
  if (!status)
    status = kv_footer_parse(&footer, kv_slice_of(tail, range.size), size, &table->place, err);
  if (status) return status;
  return footer.checksum == table->info.checksum ? KV_OK : disagrees(table, "checksum", err);
}

static kv_status name_file(struct kv_table *table, const struct kv_table_config *config,
                           struct kv_err *err) {
  struct kv_buf path;
  kv_buf_init(&path);
  kv_table_path(&path, config->dir, table->info.id);
  kv_status status = path.status ? kv_fail_nomem(err)
                                 : kv_open_file_new(kv_cache_files(table->cache), config->env,
                                                    (const char *)path.data, check_opened, table,
                                                    &table->file, err);
  kv_buf_release(&path);
  return status;
}

static kv_status open_table(struct kv_table *table, const struct kv_table_config *config,
                            struct kv_err *err) {
  kv_status status = name_file(table, config, err);
  if (!status) {
    status = kv_table_parts_load(&table->parts, table, kv_cache_verifies_merges(table->cache), err);
  }
  if (!status) status = compare_with_manifest(table, err);
  table->known = status == KV_OK;
  return status;
}

kv_status kv_table_open(const struct kv_table_config *config, const struct kv_file_info *info,
                        struct kv_cache *cache, struct kv_stats *stats, struct kv_table **table,
                        struct kv_err *err) {
  struct kv_table *made = kv_alloc_zero(1, sizeof *made);
  if (!made) return kv_fail_nomem(err);
  kv_decompressors_ref();
  made->cache = cache;
  made->stats = stats;
  made->comparator = config->comparator;
  made->owner = kv_cache_new_owner(cache);
  memcpy(made->place.uuid, config->uuid, sizeof made->place.uuid);
  made->place.id = info->id;
  kv_file_info_init(&made->info);
  kv_status status = kv_file_info_copy(&made->info, info, err);
  if (!status) status = open_table(made, config, err);
  if (status) {
    kv_table_close(made);
    return status;
  }
  *table = made;
  return KV_OK;
}

void kv_table_close(struct kv_table *table) {
  if (!table) return;
  kv_cache_drop_owner(table->cache, table->owner);
  kv_open_file_free(table->file);
  kv_table_parts_release(&table->parts);
  kv_file_info_release(&table->info);
  kv_decompressors_unref();
  kv_free(table);
}

uint64_t kv_table_id(const struct kv_table *table) {
  return table->place.id;
}

uint64_t kv_table_raw_bytes(const struct kv_table *table) {
  return table->parts.properties.key_bytes + table->parts.properties.value_bytes;
}

struct kv_digest kv_table_digest(const struct kv_table *table) {
  return (struct kv_digest){table->parts.properties.entries, table->parts.properties.digest};
}

uint64_t kv_table_compression(const struct kv_table *table) {
  return table->parts.properties.compression_level;
}

uint64_t kv_table_filter_bits(const struct kv_table *table) {
  return table->parts.properties.filter_bits;
}

uint64_t kv_table_value_bytes(const struct kv_table *table) {
  return table->parts.properties.value_bytes;
}

const struct kv_value_uses *kv_table_uses(const struct kv_table *table) {
  return &table->parts.uses;
}

size_t kv_table_memory(const struct kv_table *table) {
  const struct kv_fences *fences = &table->parts.fences;
  return table->parts.memory + (fences->prefixes ? fences->count * sizeof *fences->prefixes : 0);
}

const struct kv_filter *kv_table_filter(const struct kv_table *table) {
  return &table->parts.filter;
}

kv_status kv_table_check_writer(const struct kv_table *table, struct kv_err *err) {
  uint32_t lowest = table->parts.footer.lowest_writer;
  if (lowest <= KV_TABLE_VERSION) return KV_OK;
  return kv_fail(err, KV_VERSION,
                 "table %016" PRIx64 ": needs a writer of format %" PRIu32
                 ", this program writes %d",
                 table->place.id, lowest, KV_TABLE_VERSION);
}

/* ---- Data blocks */

kv_status kv_table_fail(const struct kv_table *table, uint32_t block, kv_status status,
                        const struct kv_err *inner, struct kv_err *err) {
  if (status == KV_NOMEM) return kv_fail_nomem(err);
  return kv_fail(err, status, "table %016" PRIx64 ": block at %" PRIu64 ": %s", table->place.id,
                 kv_fences_offset(&table->parts.fences, block), inner->text);
}

/* Counts a block that was read, and looks at its checksum. */
static kv_status take_block(const struct kv_table *table, uint32_t block, bool verify,
                            const uint8_t *stored, struct kv_err *err) {
  const struct kv_fences *fences = &table->parts.fences;
  size_t size = kv_fences_size(fences, block);
  kv_stats_add(table->stats, KV_STAT_BLOCKS_READ, 1);
  kv_stats_add(table->stats, KV_STAT_BLOCK_BYTES_READ, size);
  if (table->info.level == KV_LEVEL_VALUES) {
    kv_stats_add(table->stats, KV_STAT_VALUE_BLOCKS_READ, 1);
    kv_stats_add(table->stats, KV_STAT_VALUE_BYTES_READ, size);
  }
  kv_stats_add(table->stats, verify ? KV_STAT_CHECKSUMS : KV_STAT_CHECKSUMS_SKIPPED, 1);
  if (!verify) return KV_OK;
  return kv_stored_verify(kv_slice_of(stored, size), &table->place, kv_fences_offset(fences, block),
                          err);
}

/* What the trailer of a stored block says; counted, its checksum looked at. */
static kv_status open_stored(const struct kv_table *table, uint32_t block, bool verify,
                             const uint8_t *stored, struct kv_stored *parsed, struct kv_err *err) {
  const struct kv_fences *fences = &table->parts.fences;
  struct kv_slice bytes = kv_slice_of(stored, kv_fences_size(fences, block));
  kv_status status = take_block(table, block, verify, stored, err);
  if (!status)
    status = kv_stored_parse(parsed, bytes, &table->place, kv_fences_offset(fences, block), err);
  parsed->unpacking = table->parts.unpacking;
  return status;
}

static kv_status decode(const struct kv_table *table, uint32_t block,
                        const struct kv_stored *stored, uint8_t *into, struct kv_err *err) {
  if (!into) return kv_fail_nomem(err);
  uint64_t offset = kv_fences_offset(&table->parts.fences, block);
  return kv_stored_decode(stored, into, &table->place, offset, err);
}

/* Takes `stored`; *bytes from kv_alloc. */
static kv_status take_and_decode(const struct kv_table *table, uint32_t block, bool verify,
                                 uint8_t *stored, uint8_t **bytes, size_t *size,
                                 struct kv_err *err) {
  struct kv_stored parsed;
  uint8_t *plain = stored;
  kv_status status = open_stored(table, block, verify, stored, &parsed, err);
  if (!status && parsed.compressed) {
    plain = kv_alloc(parsed.raw_size, 1);
    status = decode(table, block, &parsed, plain, err);
    kv_free(stored);
  }
  if (status) {
    kv_free(plain);
    return status;
  }
  *bytes = plain;
  *size = parsed.raw_size;
  return KV_OK;
}

/* Takes `stored`; fills the content but for its note. */
static kv_status decode_for_cache(const struct kv_table *table, uint32_t block, uint8_t *stored,
                                  struct kv_cache_content *content, struct kv_err *err) {
  struct kv_stored parsed;
  bool verify = kv_cache_verifies_reads(table->cache);
  content->bytes = NULL;
  kv_status status = open_stored(table, block, verify, stored, &parsed, err);
  if (!status) {
    content->size = parsed.raw_size;
    content->bytes = kv_cache_alloc(table->cache, parsed.raw_size);
    status = decode(table, block, &parsed, content->bytes, err);
  }
  kv_free(stored);
  if (status && content->bytes) kv_cache_free(table->cache, content->bytes, content->size);
  return status;
}

/* Gives a block without a hash index one. Of one that turns out to be damaged lookups will say so. */
static kv_status add_index(const struct kv_table *table, struct kv_cache_content *content,
                           struct kv_block *parsed, struct kv_err *err) {
  struct kv_buf infos;
  kv_buf_init(&infos);
  kv_status status = kv_block_list_keys(parsed, &infos, err);
  size_t size = kv_block_indexed_size(parsed, &infos);
  uint8_t *bytes = status ? NULL : kv_cache_alloc(table->cache, size);
  if (!status && !bytes) status = kv_fail_nomem(err);
  if (bytes) {
    kv_block_put_index(parsed, &infos, bytes);
    kv_cache_free(table->cache, content->bytes, content->size);
    content->bytes = bytes;
    content->size = size;
    status = kv_block_init(parsed, kv_slice_of(bytes, size), err);
  }
  kv_buf_release(&infos);
  return status == KV_CORRUPT ? KV_OK : status;
}

/* Values are looked up by place. */
static bool wants_index(const struct kv_table *table, const struct kv_block *parsed) {
  return !table->parts.properties.holds_values && kv_block_wants_index(parsed);
}

kv_status kv_table_adopt(const struct kv_table *table, uint32_t block, uint8_t *stored,
                         struct kv_cache_entry **entry, struct kv_err *err) {
  struct kv_cache_content content;
  struct kv_block parsed;
  kv_status status = decode_for_cache(table, block, stored, &content, err);
  if (status) return status;
  status = kv_table_parse(table, block, kv_slice_of(content.bytes, content.size), &parsed, err);
  if (!status && wants_index(table, &parsed)) status = add_index(table, &content, &parsed, err);
  if (!status) {
    content.note = kv_block_shape(&parsed);
    status = kv_cache_insert(table->cache, table->owner, block, &content, entry, err);
  }
  if (status) kv_cache_free(table->cache, content.bytes, content.size);
  return status;
}

/* The block as it is stored; *stored from kv_alloc. */
static kv_status read_stored(const struct kv_table *table, uint32_t block, uint8_t **stored,
                             struct kv_err *err) {
  struct kv_range range = {kv_fences_offset(&table->parts.fences, block),
                           kv_fences_size(&table->parts.fences, block), NULL};
  range.into = kv_alloc(range.size, 1);
  if (!range.into) return kv_fail_nomem(err);
  kv_status status = kv_open_file_read(table->file, &range, 1, err);
  if (status)
    kv_free(range.into);
  else
    *stored = range.into;
  return status;
}

kv_status kv_table_read_block(const struct kv_table *table, uint32_t block, bool verify,
                              uint8_t **bytes, size_t *size, struct kv_err *err) {
  uint8_t *stored;
  kv_status status = read_stored(table, block, &stored, err);
  return status ? status : take_and_decode(table, block, verify, stored, bytes, size, err);
}

struct kv_cache_entry *kv_table_cached(const struct kv_table *table, uint32_t block) {
  struct kv_cache_entry *entry = kv_cache_lookup(table->cache, table->owner, block);
  kv_stats_add(table->stats, entry ? KV_STAT_CACHE_HITS : KV_STAT_CACHE_MISSES, 1);
  return entry;
}

/* One data block into the cache, pinned. */
static kv_status read_into_cache(const struct kv_table *table, uint32_t block,
                                 struct kv_cache_entry **entry, struct kv_err *err) {
  uint8_t *stored;
  kv_status status = read_stored(table, block, &stored, err);
  return status ? status : kv_table_adopt(table, block, stored, entry, err);
}

kv_status kv_table_load(const struct kv_table *table, uint32_t block, struct kv_cache_entry **entry,
                        struct kv_err *err) {
  *entry = kv_table_cached(table, block);
  return *entry ? KV_OK : read_into_cache(table, block, entry, err);
}

struct kv_block kv_table_block(const struct kv_table *table, const struct kv_cache_entry *entry) {
  const struct kv_cache_content *content = kv_cache_content(entry);
  struct kv_block block =
      kv_block_of_shape(kv_slice_of(content->bytes, content->size), content->note);
  block.comparator = table->comparator;
  return block;
}

kv_status kv_table_parse(const struct kv_table *table, uint32_t block, struct kv_slice bytes,
                         struct kv_block *parsed, struct kv_err *err) {
  struct kv_err inner;
  kv_status status = kv_block_init(parsed, bytes, &inner);
  parsed->comparator = table->comparator;
  return status ? kv_table_fail(table, block, status, &inner, err) : KV_OK;
}

/* ---- Lookups */

bool kv_table_in_bounds(const struct kv_table *table, struct kv_slice key) {
  return kv_key_compare(table->comparator, key, kv_buf_slice(&table->info.smallest)) >= 0 &&
         kv_key_compare(table->comparator, key, kv_buf_slice(&table->info.largest)) <= 0;
}

bool kv_table_may_have(const struct kv_table *table, struct kv_slice key, uint64_t hash) {
  return kv_table_in_bounds(table, key) && kv_filter_may_contain(&table->parts.filter, hash);
}

/* The same, counted. */
static bool may_have(const struct kv_table *table, const struct kv_lookup *lookup) {
  bool is_in_bounds = lookup->table && lookup->table == table;
  if (!is_in_bounds && !kv_table_in_bounds(table, lookup->key)) return false;
  if (!table->parts.filter.lines) return true;
  kv_stats_add(table->stats, KV_STAT_FILTER_CHECKS, 1);
  if (kv_filter_may_contain(&table->parts.filter, lookup->hash)) return true;
  kv_stats_add(table->stats, KV_STAT_FILTER_USEFUL, 1);
  return false;
}

void kv_table_answer(const struct kv_table *table, struct kv_cache_entry *entry,
                     enum kv_block_answer answer, enum kv_lookup_mode mode,
                     struct kv_lookup *lookup) {
  if (answer == KV_BLOCK_DELETED) lookup->answer = KV_TABLE_DELETED;
  if (answer == KV_BLOCK_NONE && table->parts.filter.lines)
    kv_stats_add(table->stats, KV_STAT_FILTER_FALSE_POSITIVES, 1);
  if (answer != KV_BLOCK_PUT && answer != KV_BLOCK_APART) return;
  lookup->answer = KV_TABLE_PUT;
  lookup->apart = answer == KV_BLOCK_APART;
  if (mode == KV_LOOKUP_VALUE)
    lookup->pin = entry;
  else
    lookup->value = (struct kv_slice){0};
}

uint32_t kv_table_block_of(const struct kv_table *table, const struct kv_lookup *lookup) {
  if (lookup->at) return lookup->at->block;
  return kv_fences_find(&table->parts.fences, lookup->key, 0);
}

static kv_status find_in_block(const struct kv_table *table, uint32_t block,
                               struct kv_cache_entry *entry, struct kv_lookup *lookup,
                               enum kv_lookup_mode mode, struct kv_err *err) {
  struct kv_block parsed = kv_table_block(table, entry);
  struct kv_err inner;
  enum kv_block_answer answer;
  struct kv_slice key = lookup->key;
  kv_status status =
      lookup->at
          ? kv_block_get_at(&parsed, key, lookup->at->offset, &answer, &lookup->value, &inner)
          : kv_block_get(&parsed, key, lookup->hash, &answer, &lookup->value, &inner);
  if (status) return kv_table_fail(table, block, status, &inner, err);
  kv_table_answer(table, entry, answer, mode, lookup);
  return KV_OK;
}

kv_status kv_table_get(struct kv_table *table, struct kv_lookup *lookup, enum kv_lookup_mode mode,
                       struct kv_err *err) {
  lookup->answer = KV_TABLE_NONE;
  lookup->apart = false;
  lookup->value = (struct kv_slice){0};
  lookup->pin = NULL;
  if (!lookup->passed && !may_have(table, lookup)) return KV_OK;
  uint32_t block = kv_table_block_of(table, lookup);
  struct kv_cache_entry *entry = kv_table_cached(table, block);
  if (!entry) lookup->missed = true;
  if (!entry && mode == KV_LOOKUP_CACHED) return KV_OK;
  kv_status status = entry ? KV_OK : read_into_cache(table, block, &entry, err);
  if (status) return status;
  status = find_in_block(table, block, entry, lookup, mode, err);
  if (!lookup->pin) kv_cache_unpin(entry);
  return status;
}

kv_status kv_table_probe(struct kv_table *table, struct kv_slice key, uint64_t hash,
                         enum kv_table_probe *answer, struct kv_err *err) {
  static const enum kv_table_probe answers[] = {[KV_TABLE_NONE] = KV_PROBE_NONE,
                                                [KV_TABLE_PUT] = KV_PROBE_PUT,
                                                [KV_TABLE_DELETED] = KV_PROBE_DELETED};
  struct kv_lookup lookup = {.key = key, .hash = hash};
  kv_status status = kv_table_get(table, &lookup, KV_LOOKUP_CACHED, err);
  *answer = lookup.missed ? KV_PROBE_UNKNOWN : answers[lookup.answer];
  return status;
}
