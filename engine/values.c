/* See values.h. Thread rule: any thread for the layout; a reader's owner only. */
#include "values.h"

#include <string.h>

#include "mem.h"

static kv_status bad_reference(uint64_t file, const char *what, struct kv_err *err) {
  return kv_fail(err, KV_CORRUPT, "value file %016llx: %s", (unsigned long long)file, what);
}

static kv_status find_table(const struct kv_layout *layout, uint64_t id, struct kv_table **table,
                            struct kv_err *err) {
  struct kv_sst *file = kv_layout_value_file(layout, id);
  if (!file) return bad_reference(id, "a key refers to it, the manifest does not name it", err);
  return kv_sst_table(file, table, err);
}

static const struct kv_slice none = {NULL, 0};

/* What a value file says is what the reference says. */
static kv_status check_found(const struct kv_apart *apart, bool found, struct kv_slice value,
                             struct kv_err *err) {
  if (!found) return bad_reference(apart->file, "the value of a key is not in it", err);
  if (value.size == apart->size) return KV_OK;
  return bad_reference(apart->file, "the value of a key has another size", err);
}

static bool is_value(const struct kv_lookup *lookup) {
  return lookup->answer == KV_TABLE_PUT && !lookup->apart;
}

static kv_status parse(struct kv_slice reference, struct kv_apart *apart, struct kv_err *err) {
  return kv_apart_parse(reference, apart) ? KV_OK : kv_fail(err, KV_CORRUPT, "no reference");
}

/* Asks for the value in the table: where the reference says, if that is within it. */
static struct kv_lookup lookup_of(struct kv_table *table, struct kv_slice key,
                                  const struct kv_apart *apart) {
  bool possible = apart->block < kv_table_block_count(table);
  return (struct kv_lookup){
      .key = key, .table = possible ? table : NULL, .passed = true, .at = apart};
}

kv_status kv_values_get(const struct kv_layout *layout, struct kv_slice key,
                        struct kv_slice reference, struct kv_slice *value,
                        struct kv_cache_entry **pin, struct kv_err *err) {
  struct kv_apart apart;
  struct kv_table *table = NULL;
  struct kv_lookup lookup = {.table = NULL};
  kv_status status = parse(reference, &apart, err);
  if (status == KV_OK) status = find_table(layout, apart.file, &table, err);
  if (status == KV_OK) lookup = lookup_of(table, key, &apart);
  if (lookup.table) status = kv_table_get(table, &lookup, KV_LOOKUP_VALUE, err);
  if (status == KV_OK) status = check_found(&apart, is_value(&lookup), lookup.value, err);
  if (status == KV_OK) {
    *value = lookup.value;
    *pin = lookup.pin;
  } else if (lookup.pin) {
    kv_cache_unpin(lookup.pin);
  }
  return status;
}

/* ---- Many */

/* What the ask's reference says, and where to look for it. */
static kv_status begin_ask(const struct kv_layout *layout, const struct kv_value_ask *ask,
                           struct kv_apart *apart, struct kv_lookup *lookup, struct kv_err *err) {
  struct kv_table *table = NULL;
  kv_status status = parse(ask->reference, apart, err);
  if (status == KV_OK) status = find_table(layout, apart->file, &table, err);
  if (status == KV_OK) *lookup = lookup_of(table, ask->key, apart);
  return status;
}

static kv_status ask_all(const struct kv_layout *layout, const struct kv_value_ask *asks, size_t n,
                         struct kv_apart *aparts, struct kv_lookup *lookups, struct kv_err *err) {
  kv_status status = KV_OK;
  for (size_t i = 0; i < n && status == KV_OK; i++)
    status = begin_ask(layout, &asks[i], &aparts[i], &lookups[i], err);
  if (status == KV_OK) status = kv_table_multi_get(lookups, n, KV_LOOKUP_VALUE, err);
  if (status != KV_OK) return status;
  for (size_t i = 0; i < n && status == KV_OK; i++)
    status = check_found(&aparts[i], is_value(&lookups[i]), lookups[i].value, err);
  for (size_t i = 0; i < n && status != KV_OK; i++) kv_cache_unpin(lookups[i].pin);
  return status;
}

kv_status kv_values_get_many(const struct kv_layout *layout, struct kv_value_ask *asks, size_t n,
                             struct kv_err *err) {
  struct kv_apart *aparts = kv_alloc(n, sizeof *aparts);
  struct kv_lookup *lookups = kv_alloc(n, sizeof *lookups);
  kv_status status =
      aparts && lookups ? ask_all(layout, asks, n, aparts, lookups, err) : kv_fail_nomem(err);
  for (size_t i = 0; i < n && status == KV_OK; i++) {
    asks[i].value = lookups[i].value;
    asks[i].pin = lookups[i].pin;
  }
  kv_free(aparts);
  kv_free(lookups);
  return status;
}

/* ---- Past the cache */

struct kv_value_reader {
  const struct kv_layout *layout;
  uint64_t file; /* the block at hand; without bytes there is none */
  uint32_t block;
  uint8_t *bytes;
  struct kv_block_cursor cursor;
};

kv_status kv_value_reader_new(const struct kv_layout *layout, struct kv_value_reader **reader,
                              struct kv_err *err) {
  struct kv_value_reader *made = kv_alloc_zero(1, sizeof *made);
  if (!made) return kv_fail_nomem(err);
  made->layout = layout;
  kv_block_cursor_init(&made->cursor);
  *reader = made;
  return KV_OK;
}

static void forget_block(struct kv_value_reader *reader) {
  kv_free(reader->bytes);
  reader->bytes = NULL;
}

void kv_value_reader_free(struct kv_value_reader *reader) {
  if (!reader) return;
  forget_block(reader);
  kv_block_cursor_release(&reader->cursor);
  kv_free(reader);
}

static kv_status read_block(struct kv_value_reader *reader, const struct kv_apart *apart,
                            struct kv_err *err) {
  struct kv_table *table = NULL;
  struct kv_block block;
  uint64_t entries;
  if (reader->bytes && reader->file == apart->file && reader->block == apart->block) return KV_OK;
  forget_block(reader);
  kv_status status = find_table(reader->layout, apart->file, &table, err);
  if (status != KV_OK) return status;
  if (apart->block >= kv_table_block_count(table)) return check_found(apart, false, none, err);
  uint8_t *bytes;
  status = kv_table_rescue(table, apart->block, &bytes, &block, &entries, err);
  if (status != KV_OK) return status;
  reader->bytes = bytes;
  reader->file = apart->file;
  reader->block = apart->block;
  kv_block_cursor_set(&reader->cursor, &block);
  return KV_OK;
}

kv_status kv_value_reader_get(struct kv_value_reader *reader, struct kv_slice key,
                              const struct kv_apart *apart, struct kv_slice *value,
                              struct kv_err *err) {
  struct kv_block_cursor *cursor = &reader->cursor;
  kv_status status = read_block(reader, apart, err);
  if (status == KV_OK) status = kv_block_cursor_place(cursor, apart->offset, err);
  if (status != KV_OK) return status;
  bool found = cursor->valid && !cursor->deleted && !cursor->apart &&
               kv_slice_equal(kv_buf_slice(&cursor->key), key);
  *value = cursor->value;
  return check_found(apart, found, *value, err);
}
