/* See harness_table.h. */
#include "harness_table.h"

#include <stdlib.h>
#include <string.h>

#include "code.h"
#include "harness_comparator.h"
#include "hash.h"
#include "mem.h"

/* ---- Rows */

static struct kv_slice copy_of(struct kv_slice bytes) {
  uint8_t *copy = malloc(bytes.size + 1);
  if (bytes.size) memcpy(copy, bytes.data, bytes.size);
  return kv_slice_of(copy, bytes.size);
}

static void free_slice(struct kv_slice slice) {
  free((void *)(uintptr_t)slice.data);
}

static void free_row(struct row *row) {
  free_slice(row->key);
  free_slice(row->value);
}

void rows_add(struct rows *rows, struct kv_slice key, struct kv_slice value, bool deleted) {
  bool full = !(rows->count & (rows->count - 1)); /* 0 or a power of two: capacity doubles */
  if (full) rows->items = realloc(rows->items, (2 * rows->count + 1) * sizeof *rows->items);
  rows->items[rows->count++] = (struct row){copy_of(key), copy_of(value), deleted, false};
}

void rows_release(struct rows *rows) {
  for (size_t i = 0; i < rows->count; i++) free_row(&rows->items[i]);
  free(rows->items);
  *rows = (struct rows){0};
}

struct kv_slice random_key(struct harness_random *random, uint8_t *into, size_t key_max) {
  size_t size = harness_below(random, key_max + 1);
  for (size_t i = 0; i < size; i++) into[i] = (uint8_t)('a' + harness_below(random, 4));
  return kv_slice_of(into, size);
}

static int by_key(const void *a, const void *b) {
  return harness_compare(((const struct row *)a)->key, ((const struct row *)b)->key);
}

void rows_sort(struct rows *rows) {
  if (rows->count) qsort(rows->items, rows->count, sizeof *rows->items, by_key);
}

void rows_random(struct rows *rows, struct harness_random *random, size_t n, size_t key_max,
                 size_t value_max) {
  uint8_t *key = malloc(key_max + 1), *value = malloc(value_max + 1);
  for (size_t i = 0; i < n; i++) {
    struct kv_slice k = random_key(random, key, key_max);
    bool deleted = harness_below(random, 5) == 0;
    size_t size = deleted ? 0 : harness_below(random, value_max + 1);
    uint64_t letters = harness_below(random, 2) ? 256 : 2;
    for (size_t j = 0; j < size; j++) value[j] = (uint8_t)harness_below(random, letters);
    rows_add(rows, k, kv_slice_of(value, size), deleted);
  }
  free(key);
  free(value);
  rows_sort(rows);
  size_t kept = 0;
  for (size_t i = 0; i < rows->count; i++) {
    if (kept && !by_key(&rows->items[kept - 1], &rows->items[i])) {
      free_row(&rows->items[i]);
    } else {
      rows->items[kept++] = rows->items[i];
    }
  }
  rows->count = kept;
}

void rows_numbered(struct rows *rows, uint64_t first, uint64_t step, size_t n, size_t value_size) {
  uint8_t *value = malloc(value_size + 8);
  for (size_t i = 0; i < n; i++) {
    uint8_t key[8];
    uint64_t number = first + i * step, word = number;
    kv_put_u64_be(key, number);
    for (size_t j = 0; j < value_size; j += 8) {
      word = word * 0x5851f42d4c957f2du + 1;
      kv_put_u64(value + j, word ^ word >> 29);
    }
    rows_add(rows, kv_slice_of(key, 8), kv_slice_of(value, value_size), false);
  }
  free(value);
  rows_sort(rows);
}

size_t rows_lower_bound(const struct rows *rows, struct kv_slice key) {
  size_t low = 0, high = rows->count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (harness_compare(rows->items[middle].key, key) < 0) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

const struct row *rows_find(const struct rows *rows, struct kv_slice key) {
  size_t at = rows_lower_bound(rows, key);
  bool found = at < rows->count && kv_slice_equal(rows->items[at].key, key);
  return found ? &rows->items[at] : NULL;
}

/* ---- Recorder: passes everything on and notes what is read. One a process; its readers are the
** environment's below. */

static struct recorder recorded;
static struct kv_env *recorded_below;

struct recorder *recorder(void) {
  return &recorded;
}

static kv_status record_create(struct kv_env *env, const char *path, const char *like_path,
                               struct kv_write_file **file, struct kv_err *err) {
  (void)env;
  return kv_env_create(recorded_below, path, like_path, file, err);
}

static kv_status record_append(struct kv_write_file *file, struct kv_slice bytes,
                               struct kv_err *err) {
  return kv_env_append(recorded_below, file, bytes, err);
}

static kv_status record_sync(struct kv_write_file *file, struct kv_err *err) {
  return kv_env_sync(recorded_below, file, err);
}

static void record_close_write(struct kv_write_file *file) {
  kv_env_close_write(recorded_below, file);
}

static kv_status record_open(struct kv_env *env, const char *path, struct kv_read_file **file,
                             uint64_t *size, struct kv_err *err) {
  (void)env;
  return kv_env_open(recorded_below, path, file, size, err);
}

static kv_status record_read(struct kv_read_file *file, const struct kv_range *ranges, size_t n,
                             struct kv_err *err) {
  uint64_t bytes = 0;
  for (size_t i = 0; i < n; i++) {
    bytes += ranges[i].size;
    if (i) ck_assert_uint_ge(ranges[i].offset, ranges[i - 1].offset + ranges[i - 1].size);
  }
  __atomic_add_fetch(&recorded.calls, 1, __ATOMIC_RELAXED);
  __atomic_add_fetch(&recorded.ranges, n, __ATOMIC_RELAXED);
  __atomic_add_fetch(&recorded.bytes, bytes, __ATOMIC_RELAXED);
  uint64_t largest = __atomic_load_n(&recorded.largest_call, __ATOMIC_RELAXED);
  if (bytes > largest) __atomic_store_n(&recorded.largest_call, bytes, __ATOMIC_RELAXED);
  return kv_env_read(recorded_below, file, ranges, n, err);
}

static void record_expect(struct kv_read_file *file, const struct kv_range *ranges, size_t n) {
  recorded.hints++;
  recorded.expected += n;
  kv_env_expect(recorded_below, file, ranges, n);
}

static void record_close_read(struct kv_read_file *file) {
  kv_env_close_read(recorded_below, file);
}

static kv_status record_lock(struct kv_env *env, const char *path, struct kv_file_lock **lock,
                             struct kv_err *err) {
  (void)env;
  return kv_env_lock(recorded_below, path, lock, err);
}

static void record_unlock(struct kv_file_lock *lock) {
  kv_env_unlock(recorded_below, lock);
}

static kv_status record_exists(struct kv_env *env, const char *path, bool *there,
                               struct kv_err *err) {
  (void)env;
  return kv_env_exists(recorded_below, path, there, err);
}

static kv_status record_rename(struct kv_env *env, const char *from, const char *to,
                               struct kv_err *err) {
  (void)env;
  return kv_env_rename(recorded_below, from, to, err);
}

static kv_status record_remove(struct kv_env *env, const char *path, struct kv_err *err) {
  (void)env;
  return kv_env_remove(recorded_below, path, err);
}

static kv_status record_make_dir(struct kv_env *env, const char *path, const char *like_path,
                                 struct kv_err *err) {
  (void)env;
  return kv_env_make_dir(recorded_below, path, like_path, err);
}

static kv_status record_sync_dir(struct kv_env *env, const char *path, struct kv_err *err) {
  (void)env;
  return kv_env_sync_dir(recorded_below, path, err);
}

static kv_status record_random(struct kv_env *env, void *bytes, size_t size, struct kv_err *err) {
  (void)env;
  return kv_env_random(recorded_below, bytes, size, err);
}

static const struct kv_env_ops recorder_ops = {
    .create = record_create,
    .append = record_append,
    .sync = record_sync,
    .close_write = record_close_write,
    .open = record_open,
    .expect = record_expect,
    .read = record_read,
    .close_read = record_close_read,
    .lock = record_lock,
    .unlock = record_unlock,
    .exists = record_exists,
    .rename = record_rename,
    .remove = record_remove,
    .make_dir = record_make_dir,
    .sync_dir = record_sync_dir,
    .random = record_random,
};
static struct kv_env recorder_env = {&recorder_ops};

/* ---- Stage */

void stage_init(struct stage *stage, size_t cache_budget) {
  memset(stage, 0, sizeof *stage);
  stage_ok(stage, kv_env_memory_new(&stage->memory, &stage->err));
  recorded_below = stage->memory;
  recorded = (struct recorder){0};
  stage_ok(stage, kv_env_fault_new(&recorder_env, &stage->fault, &stage->err));
  stage_ok(stage, kv_cache_new(cache_budget, &stage->cache, &stage->err));
  stage->config = (struct kv_table_config){.env = stage->fault,
                                           .dir = "app.db-colfam",
                                           .uuid = "0123456789abcde",
                                           .comparator = harness_comparator(),
                                           .compression_level = 3,
                                           .filter_bits = 10,
                                           .block_bytes = 4096};
  kv_file_info_init(&stage->info);
}

void stage_close(struct stage *stage) {
  kv_table_close(stage->table);
  stage->table = NULL;
}

void stage_release(struct stage *stage) {
  stage_close(stage);
  kv_file_info_release(&stage->info);
  kv_cache_unref(stage->cache);
  kv_env_free(stage->fault);
  kv_env_free(stage->memory);
  ck_assert_int_eq(kv_mem_live_blocks(), 0);
}

kv_status stage_write(struct stage *stage, const struct rows *rows) {
  struct kv_table_writer *writer;
  kv_status status = kv_table_writer_new(&stage->config, &writer, &stage->err);
  if (status) return status;
  for (size_t i = 0; i < rows->count && !status; i++) {
    const struct row *row = &rows->items[i];
    status = row->apart
                 ? kv_table_writer_add_apart(writer, row->key, row->value, &stage->err)
                 : kv_table_writer_add(writer, row->key, row->value, row->deleted, &stage->err);
  }
  if (!status) {
    status = kv_table_writer_finish(writer, &stage->info, &stage->digest, &stage->err);
  }
  kv_table_writer_free(writer);
  return status;
}

kv_status stage_open(struct stage *stage) {
  stage_close(stage);
  return kv_table_open(&stage->config, &stage->info, stage->cache, &stage->stats, &stage->table,
                       &stage->err);
}

void stage_make(struct stage *stage, const struct rows *rows) {
  stage_ok(stage, stage_write(stage, rows));
  stage_ok(stage, stage_open(stage));
}

uint64_t stage_stat(const struct stage *stage, enum kv_stat stat) {
  return kv_stats_get(&stage->stats, stat);
}

static kv_status count_name(void *ctx, const char *name) {
  (void)name;
  ++*(size_t *)ctx;
  return KV_OK;
}

size_t stage_files(struct stage *stage) {
  size_t count = 0;
  kv_status status =
      kv_env_list_dir(stage->memory, stage->config.dir, count_name, &count, &stage->err);
  return status == KV_MISSING ? 0 : count;
}

static void path_of(struct stage *stage, uint64_t id, struct kv_buf *path) {
  kv_buf_init(path);
  kv_table_path(path, stage->config.dir, id);
}

void stage_read_file(struct stage *stage, uint64_t id, struct kv_buf *bytes) {
  struct kv_buf path;
  struct kv_read_file *file;
  uint64_t size;
  path_of(stage, id, &path);
  stage_ok(stage, kv_env_open(stage->memory, (char *)path.data, &file, &size, &stage->err));
  kv_buf_init(bytes);
  struct kv_range range = {0, (size_t)size, kv_buf_extend(bytes, (size_t)size)};
  stage_ok(stage, kv_env_read(stage->memory, file, &range, 1, &stage->err));
  kv_env_close_read(stage->memory, file);
  kv_buf_release(&path);
}

void stage_replace_file(struct stage *stage, uint64_t id, struct kv_slice bytes) {
  struct kv_buf path;
  struct kv_write_file *file;
  path_of(stage, id, &path);
  (void)kv_env_remove(stage->memory, (char *)path.data, NULL);
  stage_ok(stage, kv_env_create(stage->memory, (char *)path.data, NULL, &file, &stage->err));
  stage_ok(stage, kv_env_append(stage->memory, file, bytes, &stage->err));
  kv_env_close_write(stage->memory, file);
  kv_buf_release(&path);
}

/* ---- Expectations */

struct kv_lookup lookup_of(struct kv_slice key) {
  return (struct kv_lookup){.key = key, .hash = kv_hash_key(key)};
}

kv_status stage_multi_get(struct stage *stage, struct kv_lookup *lookups, size_t n,
                          struct kv_err *err) {
  struct kv_slice smallest = kv_buf_slice(&stage->info.smallest);
  struct kv_slice largest = kv_buf_slice(&stage->info.largest);
  for (size_t i = 0; i < n; i++) {
    bool inside = harness_compare(lookups[i].key, smallest) >= 0 &&
                  harness_compare(lookups[i].key, largest) <= 0;
    lookups[i].table = inside ? stage->table : NULL;
  }
  return kv_table_multi_get(lookups, n, KV_LOOKUP_VALUE, err);
}

static bool is_answer(const struct kv_lookup *lookup, const struct row *row) {
  if (!row) return lookup->answer == KV_TABLE_NONE && !lookup->pin;
  if (row->deleted) return lookup->answer == KV_TABLE_DELETED && !lookup->pin;
  return lookup->answer == KV_TABLE_PUT && lookup->pin && lookup->apart == row->apart &&
         kv_slice_equal(lookup->value, row->value);
}

void expect_answer(const struct kv_lookup *lookup, const struct row *row) {
  ck_assert_msg(is_answer(lookup, row), "answer %d for a key that is %s", lookup->answer,
                !row           ? "absent"
                : row->deleted ? "deleted"
                               : "there");
}

void expect_get(struct stage *stage, const struct rows *rows, struct kv_slice key) {
  struct kv_lookup lookup = lookup_of(key);
  stage_ok(stage, kv_table_get(stage->table, &lookup, KV_LOOKUP_VALUE, &stage->err));
  expect_answer(&lookup, rows_find(rows, key));
  kv_cache_unpin(lookup.pin);
}

static bool shows(const struct kv_iter *iter, const struct row *row) {
  return kv_slice_equal(iter->key, row->key) && kv_slice_equal(iter->value, row->value) &&
         iter->deleted == row->deleted && iter->apart == row->apart;
}

/* A whole scan; false when it ended with an error, which must be after right rows only. */
static bool scan_right(struct stage *stage, const struct rows *rows, bool use_cache,
                       bool backward) {
  struct kv_iter *iter;
  if (kv_table_iter(stage->table, use_cache, &iter, &stage->err)) return false;
  size_t seen = 0;
  if (backward) {
    kv_iter_seek_last(iter);
  } else {
    kv_iter_seek_first(iter);
  }
  for (; iter->valid; seen++) {
    ck_assert_uint_lt(seen, rows->count);
    ck_assert(shows(iter, &rows->items[backward ? rows->count - 1 - seen : seen]));
    if (backward) {
      kv_iter_prev(iter);
    } else {
      kv_iter_next(iter);
    }
  }
  bool right = iter->status == KV_OK;
  if (right) ck_assert_uint_eq(seen, rows->count);
  if (!right) stage->err = iter->err;
  kv_iter_free(iter);
  return right;
}

void expect_all(struct stage *stage, const struct rows *rows) {
  for (size_t i = 0; i < rows->count; i++) expect_get(stage, rows, rows->items[i].key);
  for (int way = 0; way < 4; way++) {
    ck_assert_msg(scan_right(stage, rows, way & 1, way & 2), "%s", stage->err.text);
  }
  struct kv_digest digest;
  stage_ok(stage, kv_table_verify(stage->table, &digest, &stage->err));
  ck_assert_uint_eq(digest.entries, stage->digest.entries);
  ck_assert_uint_eq(digest.sum, stage->digest.sum);
}

static bool get_right(struct stage *stage, const struct row *row) {
  struct kv_lookup lookup = lookup_of(row->key);
  if (kv_table_get(stage->table, &lookup, KV_LOOKUP_VALUE, &stage->err)) return false;
  ck_assert(is_answer(&lookup, row));
  kv_cache_unpin(lookup.pin);
  return true;
}

bool right_or_error(struct stage *stage, const struct rows *rows) {
  if (stage_open(stage)) return true;
  bool error = kv_table_verify(stage->table, NULL, &stage->err) != KV_OK;
  for (size_t i = 0; i < rows->count; i++) {
    if (!get_right(stage, &rows->items[i])) error = true;
  }
  for (int way = 0; way < 4; way++) {
    if (!scan_right(stage, rows, way & 1, way & 2)) error = true;
  }
  stage_close(stage);
  return error;
}
