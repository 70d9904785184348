/* See harness_victim.h. */
#include "harness_victim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mem.h"

static void must(kv_status status, const struct kv_err *err) {
  if (status != KV_OK) ck_abort_msg("%s: %s", kv_status_name(status), err->text);
}

static void set(struct kv_buf *buf, const void *bytes, size_t size) {
  kv_buf_clear(buf);
  kv_buf_append(buf, bytes, size);
}

/* ---- Making */

static void make_key(struct kv_buf *key, int style, unsigned number,
                     struct harness_random *random) {
  char text[40];
  uint8_t bytes[24] = {0x40};
  int size;
  switch (style) {
    case 0: /* as integers are encoded: an ascending double */
      bytes[0] = 0x20;
      kv_put_u64_be(bytes + 1, 0xc000000000000000 + ((uint64_t)number << 44));
      set(key, bytes, 9);
      break;
    case 1:
      size = snprintf(text, sizeof text, "0user:%05u:x", number * 7);
      set(key, text, (size_t)size);
      break;
    default:
      bytes[1] = (uint8_t)(number * 5);
      for (int i = 2; i < 24; i++) bytes[i] = (uint8_t)harness_next(random);
      set(key, bytes, 2 + harness_below(random, 20));
  }
}

static void make_value(struct kv_buf *value, bool large, struct harness_random *random) {
  kv_buf_clear(value);
  size_t size = harness_below(random, large && harness_below(random, 8) == 0 ? 3000 : 30);
  uint8_t byte = (uint8_t)harness_next(random);
  bool random_bytes = harness_below(random, 2);
  for (size_t i = 0; i < size; i++) {
    if (random_bytes || i % 16 == 0) byte = (uint8_t)harness_next(random);
    kv_buf_append_byte(value, byte);
  }
}

static int rows_delta(struct victim *victim, struct kv_slice key, int present) {
  bool found = false;
  struct kv_err err;
  must(kv_exists(victim->store.view, victim->store.batch, key, &found, &err), &err);
  return present - found;
}

static void write_key(struct victim *victim, size_t at, bool large, bool deletes,
                      struct harness_random *random) {
  struct kv_err err;
  struct kv_slice key = kv_buf_slice(&victim->keys[at]);
  struct kv_batch *batch = victim->store.batch;
  if (deletes && harness_below(random, 3) == 0) {
    must(kv_batch_delete(batch, key, rows_delta(victim, key, 0), &err), &err);
    victim->there[at] = false;
    return;
  }
  make_value(&victim->values[at], large, random);
  must(
      kv_batch_put(batch, key, kv_buf_slice(&victim->values[at]), rows_delta(victim, key, 1), &err),
      &err);
  victim->there[at] = true;
}

/* Writes about one key of `sparse`. */
static void write_some(struct victim *victim, unsigned sparse, bool large, bool deletes,
                       struct harness_random *random) {
  for (size_t i = 0; i < VICTIM_KEYS; i++)
    if (i % 4 != 3 && harness_below(random, sparse) == 0)
      write_key(victim, i, large, deletes, random);
  store_commit(&victim->store);
}

static void write_runs(struct victim *victim, int shape, struct harness_random *random) {
  bool large = shape == 1;
  if (shape == 2) victim->store.file_bytes = 300;
  write_some(victim, 1, large, false, random);
  store_compact(&victim->store);
  if (shape == 0) return;
  for (int run = 0; run < 2; run++) {
    write_some(victim, 3, large, true, random);
    store_flush(&victim->store);
  }
  write_some(victim, 6, large, true, random);
  store_rotate(&victim->store);
  write_some(victim, 8, large, true, random);
}

/* ---- Files */

static void read_file(struct victim *victim, uint64_t id, struct kv_buf *bytes) {
  struct kv_read_file *file = NULL;
  struct kv_err err;
  uint64_t size;
  must(kv_env_open(victim->store.memory, store_path(&victim->store, id), &file, &size, &err), &err);
  struct kv_range range = {0, (size_t)size, kv_buf_extend(bytes, (size_t)size)};
  must(kv_env_read(victim->store.memory, file, &range, 1, &err), &err);
  kv_env_close_read(victim->store.memory, file);
}

static void note_files(struct victim *victim) {
  const struct catalog *catalog = &victim->store.catalog;
  ck_assert_uint_le(catalog->file_count, VICTIM_FILES_MAX);
  for (size_t i = 0; i < catalog->file_count; i++) {
    struct victim_file *file = &victim->files[victim->file_count++];
    struct kv_table_place place = {.id = catalog->files[i].id};
    memcpy(place.uuid, catalog->uuid, sizeof place.uuid);
    file->id = place.id;
    kv_buf_init(&file->bytes);
    read_file(victim, file->id, &file->bytes);
    layout_read(&file->layout, kv_buf_slice(&file->bytes), &place);
  }
}

static void take_infos(struct victim *victim) {
  const struct catalog *catalog = &victim->store.catalog;
  struct kv_err err;
  for (size_t i = 0; i < catalog->file_count; i++) {
    kv_file_info_init(&victim->infos[i]);
    must(kv_file_info_copy(&victim->infos[i], &catalog->files[i], &err), &err);
  }
  victim->info_count = catalog->file_count;
}

static void drop_infos(struct victim *victim) {
  for (size_t i = 0; i < victim->store.catalog.file_count; i++)
    kv_file_info_release(&victim->infos[i]);
}

void victim_make(struct victim *victim, int kind, uint64_t seed, int database) {
  struct harness_random random;
  int keys = kind / 4 % 3, shape = 1 + kind / 12;
  if (seed % 5 == 0) shape = 0;
  harness_seed(&random, seed * 100 + (uint64_t)kind);
  memset(victim, 0, sizeof *victim);
  snprintf(victim->label, sizeof victim->label, "seed %llu, kind %d, database %d",
           (unsigned long long)seed, kind, database);
  store_init(&victim->store, seed, 1 << 20);
  victim->store.catalog.uuid[15] = (uint8_t)('0' + database);
  memcpy(victim->store.config.uuid, victim->store.catalog.uuid, 16);
  victim->store.config.options.compression_level = kind & 1 ? 3 : 0;
  victim->store.config.options.filter_bits = kind & 2 ? 10 : 0;
  victim->store.config.options.block_bytes = 1024;
  victim->store.config.options.value_bytes = seed % 2 ? 12 : 0;
  victim->store.catalog.table_rows = 0;
  store_reopen(&victim->store);
  for (unsigned i = 0; i < VICTIM_KEYS; i++) {
    kv_buf_init(&victim->keys[i]);
    kv_buf_init(&victim->values[i]);
    make_key(&victim->keys[i], keys, i, &random);
  }
  write_runs(victim, shape, &random);
  victim->infos = calloc(victim->store.catalog.file_count + 1, sizeof *victim->infos);
  note_files(victim);
  take_infos(victim);
}

void victim_release(struct victim *victim) {
  drop_infos(victim);
  free(victim->infos);
  for (size_t i = 0; i < victim->file_count; i++) kv_buf_release(&victim->files[i].bytes);
  for (size_t i = 0; i < VICTIM_KEYS; i++) {
    kv_buf_release(&victim->keys[i]);
    kv_buf_release(&victim->values[i]);
  }
  store_release(&victim->store);
}

void victim_put_file(struct victim *victim, uint64_t id, struct kv_slice bytes) {
  struct kv_env *env = victim->store.memory;
  const char *path = store_path(&victim->store, id);
  struct kv_write_file *file;
  struct kv_err err;
  (void)kv_env_remove(env, path, NULL);
  if (!bytes.data) return;
  must(kv_env_create(env, path, NULL, &file, &err), &err);
  must(kv_env_append(env, file, bytes, &err), &err);
  kv_env_close_write(env, file);
}

void victim_restore(struct victim *victim) {
  for (size_t i = 0; i < victim->file_count; i++)
    victim_put_file(victim, victim->files[i].id, kv_buf_slice(&victim->files[i].bytes));
  drop_infos(victim);
  take_infos(victim);
}

/* ---- Reading */

struct reading {
  struct victim *victim;
  struct kv_view *view;
  struct verdict *verdict;
};

/* Counts a failure; only what says "damaged" or "from a later version" is one. */
static void failed(struct verdict *verdict, kv_status status, const char *read,
                   const struct kv_err *err) {
  if (status == KV_MISSING) {
    verdict->missing++;
  } else if (status == KV_CORRUPT || status == KV_VERSION) {
    verdict->errors++;
  } else {
    if (!verdict->misnamed++ && !verdict->wrong)
      snprintf(verdict->what, sizeof verdict->what, "%s: %s: %.200s", read, kv_status_name(status),
               err->text);
  }
}

static void expect(struct verdict *verdict, bool right, const char *read, size_t key) {
  if (right) return;
  if (!verdict->wrong++) snprintf(verdict->what, sizeof verdict->what, "%s: key %zu", read, key);
}

static bool is_right(const struct victim *victim, size_t key, bool found, struct kv_slice value) {
  if (found != victim->there[key]) return false;
  return !found || kv_slice_equal(value, kv_buf_slice(&victim->values[key]));
}

static void read_points(const struct reading *reading) {
  struct victim *victim = reading->victim;
  struct verdict *verdict = reading->verdict;
  for (size_t i = 0; i < VICTIM_KEYS; i++) {
    struct kv_slice key = kv_buf_slice(&victim->keys[i]);
    struct kv_value value;
    struct kv_err err;
    enum kv_may_exist may = KV_UNKNOWN;
    bool found = false;
    memset(&value, 0, sizeof value);
    kv_status status = kv_may_exist(reading->view, NULL, key, &may, NULL, &err);
    if (status)
      failed(verdict, status, "may exist", &err);
    else if (may != KV_UNKNOWN)
      expect(verdict, (may == KV_PRESENT) == victim->there[i], "may exist", i);
    status = kv_exists(reading->view, NULL, key, &found, &err);
    if (status)
      failed(verdict, status, "exists", &err);
    else
      expect(verdict, found == victim->there[i], "exists", i);
    status = kv_get(reading->view, NULL, key, &value, &err);
    if (status)
      failed(verdict, status, "get", &err);
    else
      expect(verdict, is_right(victim, i, value.found, value.bytes), "get", i);
    kv_value_release(&value);
  }
}

/* Keys [from, from + n) at once. */
static void read_group(const struct reading *reading, size_t from, size_t n) {
  struct kv_slice keys[VICTIM_KEYS] = {0};
  struct kv_result *result = NULL;
  struct kv_err err;
  for (size_t i = 0; i < n; i++) keys[i] = kv_buf_slice(&reading->victim->keys[from + i]);
  kv_status status = kv_multi_get(reading->view, NULL, keys, n, &result, &err);
  if (status) failed(reading->verdict, status, "multi-get", &err);
  for (size_t i = 0; !status && i < n; i++) {
    struct kv_slice value = {0};
    bool found = kv_result_found(result, i, &value);
    expect(reading->verdict, is_right(reading->victim, from + i, found, value), "multi-get",
           from + i);
  }
  kv_result_free(result);
}

/* The next key that is there, going on from `at`; VICTIM_KEYS or -1 at the end. */
static int next_there(const struct victim *victim, int at, int step) {
  while (at >= 0 && at < VICTIM_KEYS && !victim->there[at]) at += step;
  return at;
}

static void read_scan(const struct reading *reading, int step) {
  const struct victim *victim = reading->victim;
  const char *name = step > 0 ? "scan" : "scan backwards";
  struct kv_scan *scan = NULL;
  struct kv_bounds all = {.has_upper = false};
  struct kv_err err;
  int at = next_there(victim, step > 0 ? 0 : VICTIM_KEYS - 1, step);
  kv_status status = kv_scan_open(reading->view, NULL, &all, &scan, &err);
  if (!status) status = step > 0 ? kv_scan_first(scan, &err) : kv_scan_last(scan, &err);
  while (!status && kv_scan_valid(scan) && at >= 0 && at < VICTIM_KEYS) {
    struct kv_slice value;
    status = kv_scan_value(scan, &value, &err);
    if (status) break;
    bool right = kv_slice_equal(kv_scan_key(scan), kv_buf_slice(&victim->keys[at])) &&
                 is_right(victim, (size_t)at, true, value);
    expect(reading->verdict, right, name, (size_t)at);
    if (!right) break;
    at = next_there(victim, at + step, step);
    status = step > 0 ? kv_scan_next(scan, &err) : kv_scan_prev(scan, &err);
  }
  if (status)
    failed(reading->verdict, status, name, &err);
  else
    expect(reading->verdict,
           reading->verdict->wrong || (!kv_scan_valid(scan) && (at < 0 || at == VICTIM_KEYS)), name,
           (size_t)VICTIM_KEYS);
  kv_scan_close(scan);
}

static kv_status note_problem(void *ctx, const char *severity, uint64_t file, uint64_t position,
                              const char *text) {
  (void)severity, (void)file, (void)position, (void)text;
  ++*(int *)ctx;
  return KV_OK;
}

static void read_view(const struct reading *reading) {
  struct kv_err err;
  expect(reading->verdict,
         kv_view_rows(reading->view) < 0 ||
             kv_view_rows(reading->view) == reading->victim->store.catalog.table_rows,
         "count", 0);
  read_points(reading);
  read_group(reading, 0, VICTIM_KEYS);
  read_group(reading, 5, 2);
  read_scan(reading, 1);
  read_scan(reading, -1);
  kv_status status = kv_check(reading->view, note_problem, &reading->verdict->problems, &err);
  if (status) failed(reading->verdict, status, "check", &err);
}

void victim_read(struct victim *victim, struct verdict *verdict) {
  struct kv_family *family;
  struct catalog_snapshot snapshot;
  struct reading reading = {.victim = victim, .verdict = verdict};
  struct kv_err err;
  memset(verdict, 0, sizeof *verdict);
  must(kv_family_new(&victim->store.config, &family, &err), &err);
  catalog_take(&victim->store.catalog, &snapshot);
  struct kv_snapshot state = snapshot.state;
  state.files = victim->infos;
  state.file_count = victim->info_count;
  struct kv_log_source source = catalog_source(&snapshot);
  kv_status status = kv_view_new(family, &state, &source, &reading.view, &err);
  if (status) {
    failed(verdict, status, "view", &err);
    verdict->problems++;
  } else {
    read_view(&reading);
  }
  kv_view_unref(reading.view);
  catalog_drop(&snapshot);
  kv_family_unref(family);
}
