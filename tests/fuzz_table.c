/* Table files: footer, properties, fences, filter and blocks together. Any sorted entries: the file gives
** them back by get, multi-get and scans. Any bytes, with right checksums put wherever the file says that
** one is: they are refused, or read without a crash or a hang; and what is verified reads the same on every
** path and makes a sound file when it is written again. */
#include <stdlib.h>
#include <string.h>

#include "harness_comparator.h"
#include "harness_fuzz_seal.h"
#include "harness_table.h"
#include "mem.h"

enum { ROWS_MAX = 500, FILE_ID = 0x5eed, CACHE_BYTES = 1 << 20 };

/* ---- Reading on every path */

static void expect_multi_get(struct stage *stage, const struct rows *rows) {
  struct kv_lookup *lookups = calloc(rows->count + 1, sizeof *lookups);
  for (size_t i = 0; i < rows->count; i++) lookups[i] = lookup_of(rows->items[i].key);
  stage_ok(stage, stage_multi_get(stage, lookups, rows->count, &stage->err));
  for (size_t i = 0; i < rows->count; i++) {
    expect_answer(&lookups[i], &rows->items[i]);
    kv_cache_unpin(lookups[i].pin);
  }
  free(lookups);
}

static void expect_seek(struct stage *stage, const struct rows *rows, struct kv_slice key) {
  struct kv_iter *iter;
  stage_ok(stage, kv_table_iter(stage->table, true, &iter, &stage->err));
  kv_iter_seek(iter, key);
  size_t at = rows_lower_bound(rows, key);
  ck_assert_msg(iter->status == KV_OK, "%s", iter->err.text);
  ck_assert_int_eq(iter->valid, at < rows->count);
  if (iter->valid) ck_assert(kv_slice_equal(iter->key, rows->items[at].key));
  kv_iter_free(iter);
}

static void expect_rows(struct stage *stage, const struct rows *rows, struct kv_slice probe) {
  expect_all(stage, rows);
  expect_multi_get(stage, rows);
  expect_get(stage, rows, probe);
  expect_seek(stage, rows, probe);
}

/* ---- Entries from the input: a key is some front of the one before and new bytes */

static void take_rows(struct fuzz *in, struct rows *rows) {
  while (fuzz_left(in) && rows->count < ROWS_MAX) {
    struct kv_slice last = rows->count ? rows->items[rows->count - 1].key : kv_slice_of(NULL, 0);
    uint8_t bytes[600];
    size_t size = fuzz_below(in, last.size < 256 ? last.size + 1 : 256);
    if (size) memcpy(bytes, last.data, size);
    struct kv_slice more = fuzz_slice(in);
    if (more.size) memcpy(bytes + size, more.data, more.size);
    struct kv_slice key = kv_slice_of(bytes, size + more.size);
    uint8_t kind = fuzz_byte(in) % 3;
    struct kv_slice value = kind == 1 ? kv_slice_of(NULL, 0) : fuzz_slice(in);
    struct kv_apart apart;
    if (rows->count && harness_compare(last, key) >= 0) continue;
    rows_add(rows, key, value, kind == 1);
    rows->items[rows->count - 1].apart = kind == 2 && kv_apart_parse(value, &apart);
  }
}

static void run_built(struct fuzz *in, struct stage *stage) {
  static const int levels[] = {0, 1, 3, 9}, bits[] = {0, 1, 10, 20};
  struct rows rows = {0};
  uint8_t config = fuzz_byte(in);
  stage->config.compression_level = levels[config & 3];
  stage->config.filter_bits = bits[config >> 2 & 3];
  stage->config.block_bytes = config & 16 ? 4096 : 64;
  struct kv_slice probe = fuzz_slice(in);
  take_rows(in, &rows);
  if (rows.count) {
    stage_make(stage, &rows);
    expect_rows(stage, &rows, probe);
  }
  rows_release(&rows);
}

/* ---- Any bytes */

static const struct kv_table_place place = {"0123456789abcde", FILE_ID};

/* The manifest agrees with the file, as far as that says anything. */
static void describe(struct kv_slice file, struct kv_file_info *info) {
  struct kv_table_footer footer;
  struct kv_table_properties properties;
  struct kv_stored stored;
  info->id = FILE_ID;
  info->bytes = file.size;
  size_t size = file.size < KV_TABLE_FOOTER_BYTES_MAX ? file.size : KV_TABLE_FOOTER_BYTES_MAX;
  struct kv_slice tail = kv_slice_of(file.data + file.size - size, size);
  if (kv_footer_parse(&footer, tail, file.size, &place, NULL)) return;
  info->checksum = footer.checksum;
  const struct kv_table_handle *handle = &footer.properties;
  struct kv_slice part = kv_slice_of(file.data + handle->offset, (size_t)handle->size);
  if (kv_stored_check(&stored, part, &place, handle->offset, NULL) || stored.compressed) return;
  if (kv_properties_parse(&properties, NULL, stored.payload, NULL)) return;
  if (properties.holds_values) info->level = KV_LEVEL_VALUES;
  info->entries = properties.entries;
  info->tombstones = properties.tombstones;
  kv_buf_append(&info->smallest, properties.smallest.data, properties.smallest.size);
  kv_buf_append(&info->largest, properties.largest.data, properties.largest.size);
}

/* What a scan shows until its end, an error, or ROWS_MAX. */
static bool scan(struct stage *stage, bool use_cache, bool backward, struct rows *rows) {
  struct kv_iter *iter;
  if (kv_table_iter(stage->table, use_cache, &iter, NULL)) return false;
  if (backward) {
    kv_iter_seek_last(iter);
  } else {
    kv_iter_seek_first(iter);
  }
  while (iter->valid && rows->count < ROWS_MAX) {
    rows_add(rows, iter->key, iter->value, iter->deleted);
    rows->items[rows->count - 1].apart = iter->apart;
    if (backward) {
      kv_iter_prev(iter);
    } else {
      kv_iter_next(iter);
    }
  }
  bool whole = iter->status == KV_OK && !iter->valid;
  kv_iter_free(iter);
  return whole;
}

static void look_up(struct stage *stage, struct kv_slice key) {
  struct kv_lookup lookup = lookup_of(key);
  enum kv_table_probe probe;
  kv_status status = kv_table_get(stage->table, &lookup, KV_LOOKUP_VALUE, NULL);
  if (!status) kv_cache_unpin(lookup.pin);
  (void)!kv_table_probe(stage->table, key, lookup.hash, &probe, NULL);
}

/* Nothing is known, but reading ends. */
static void read_unsound(struct stage *stage, struct kv_slice probe) {
  look_up(stage, probe);
  for (int way = 0; way < 4; way++) {
    struct rows rows = {0};
    scan(stage, way & 1, way & 2, &rows);
    for (size_t i = 0; i < rows.count; i++) look_up(stage, rows.items[i].key);
    rows_release(&rows);
  }
}

static void read_sound(struct stage *stage, struct kv_slice probe) {
  struct rows rows = {0};
  bool whole = scan(stage, false, false, &rows);
  if (whole) {
    expect_rows(stage, &rows, probe);
    kv_file_info_release(&stage->info);
    kv_file_info_init(&stage->info);
    stage_make(stage, &rows);
    expect_rows(stage, &rows, probe);
  }
  ck_assert(whole || rows.count == ROWS_MAX);
  rows_release(&rows);
}

static void run_bytes(struct fuzz *in, struct stage *stage, bool sealed) {
  struct kv_slice probe = fuzz_slice(in), rest = fuzz_rest(in);
  struct kv_buf file;
  kv_buf_init(&file);
  kv_buf_append(&file, rest.data, rest.size);
  if (sealed) fuzz_seal_table(&file, &place);
  stage_ok(stage, kv_env_make_dir(stage->config.env, stage->config.dir, NULL, &stage->err));
  stage_replace_file(stage, FILE_ID, kv_buf_slice(&file));
  describe(kv_buf_slice(&file), &stage->info);
  kv_buf_release(&file);
  if (stage_open(stage)) return;
  if (kv_table_verify(stage->table, &stage->digest, &stage->err)) {
    read_unsound(stage, probe);
  } else {
    read_sound(stage, probe);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct fuzz in = fuzz_begin(data, size);
  struct stage stage;
  stage_init(&stage, CACHE_BYTES);
  uint8_t mode = fuzz_byte(&in) % 4;
  if (mode == 3) {
    run_built(&in, &stage);
  } else {
    run_bytes(&in, &stage, mode);
  }
  stage_release(&stage);
  return 0;
}

/* ---- Seeds: files with and without filter and compression, of one block and of several */

/* Every fourth value of `apart` is a reference. */
static void seed_file(int level, int filter_bits, size_t count, size_t value_size, bool apart) {
  struct stage stage;
  struct rows rows = {0};
  struct kv_buf file, input, reference;
  kv_buf_init(&reference);
  stage_init(&stage, CACHE_BYTES);
  stage.config.compression_level = level;
  stage.config.filter_bits = filter_bits;
  stage.config.block_bytes = 64;
  uint8_t value[100] = {0};
  for (size_t i = 0; i < count; i++) {
    uint8_t key[2] = {'k', (uint8_t)i};
    bool deleted = i % 4 == 1;
    bool refers = apart && i % 4 == 0;
    kv_buf_clear(&reference);
    kv_apart_append(
        &reference,
        &(struct kv_apart){
            .file = 5 + i, .offset = 7, .size = 1000, .head = kv_slice_of("head", i % 5)});
    rows_add(&rows, kv_slice_of(key, 2),
             refers ? kv_buf_slice(&reference) : kv_slice_of(value, deleted ? 0 : value_size),
             deleted);
    rows.items[i].apart = refers;
  }
  stage_make(&stage, &rows);
  stage_read_file(&stage, stage.info.id, &file);
  kv_buf_init(&input);
  kv_buf_append_byte(&input, 1);
  fuzz_put_slice(&input, "k\1", 2);
  kv_buf_append(&input, file.data, file.size);
  fuzz_seed(kv_buf_slice(&input));
  kv_buf_release(&input);
  kv_buf_release(&reference);
  kv_buf_release(&file);
  rows_release(&rows);
  stage_release(&stage);
}

void fuzz_seeds(void) {
  seed_file(0, 0, 1, 0, false);
  seed_file(0, 10, 3, 2, false);
  seed_file(0, 0, 12, 20, false);
  seed_file(3, 10, 5, 100, false);
  seed_file(0, 0, 12, 3, true);
  static const char built[] = "\3\26\2kb\0\1a\0\1v\1\2ab\1\0\1k\0\0\1\1b\0\3abc\2\1c\0\0";
  fuzz_seed(kv_slice_of(built, sizeof built - 1));
}
