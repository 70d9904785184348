/* What a dictionary gives and takes: one table file of the same rows with one and without, as a merge into
** the last level writes it: bytes a row, writing, a get and a scan that decompress every block they touch
** (no cache; the system's has the file), and a get from cached blocks, where there must be no difference.
** Processor time, nanoseconds. Rows of text that is semi-compressible, and of short fields that repeat. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "hash.h"
#include "table_read.h"

#define DICTIONARY_BYTES ((size_t)16 << 10) /* as compact.c has it */
#define BLOCK_BYTES 16384
#define LEVEL 3
#define GETS 2000
#define SIDES 2
#define CACHED_BYTES ((size_t)1 << 30)

static const char *const names[SIDES] = {"colfam, without a dictionary",
                                         "colfam, with a dictionary"};
static const struct bench_shape shape = {16, 100};

/* ---- Rows, in the order of their keys */

struct row {
  uint8_t key[16];
  uint64_t number;
};

static int compare_rows(const void *a, const void *b) {
  return memcmp(a, b, sizeof((const struct row *)a)->key);
}

static struct row *make_rows(size_t count) {
  struct row *rows = malloc(count * sizeof *rows);
  bench_need(rows, "no memory for %zu rows", count);
  for (size_t i = 0; i < count; i++) {
    bench_fill_key(&shape, i, rows[i].key);
    rows[i].number = i;
  }
  qsort(rows, count, sizeof *rows, compare_rows);
  return rows;
}

/* A value of a row: text, or fields of a record. */
typedef size_t (*filling)(uint64_t row, uint8_t *value);

static size_t fill_text(uint64_t row, uint8_t *value) {
  bench_fill_value(&shape, row, value);
  return shape.value_bytes;
}

static size_t fill_record(uint64_t row, uint8_t *value) {
  static const char *const states[] = {"open", "closed", "pending", "refused"};
  int size = snprintf((char *)value, 256,
                      "{\"id\": %llu, \"state\": \"%s\", \"amount\": %llu, \"currency\": \"EUR\"}",
                      (unsigned long long)row, states[row % 4],
                      (unsigned long long)(row * 2654435761u % 100000));
  return (size_t)size;
}

/* ---- Files */

struct side {
  struct kv_table_config config;
  struct kv_file_info info;
  struct kv_stats stats;
  struct kv_cache *caches[2]; /* one that keeps nothing, one that keeps all */
  struct kv_table *tables[2];
};

static void need(kv_status status, const struct kv_err *err) {
  bench_need(status == KV_OK, "colfam's engine: %s", err->text);
}

/* Seconds that the writer took, without those for making the rows. */
static double write_file(struct side *side, const struct row *rows, size_t count, filling fill) {
  struct kv_table_writer *writer;
  struct kv_err err;
  uint8_t value[256];
  double took = 0;
  need(kv_table_writer_new(&side->config, &writer, &err), &err);
  for (size_t i = 0; i < count; i++) {
    size_t size = fill(rows[i].number, value);
    double begun = bench_cpu();
    need(kv_table_writer_add(writer, kv_slice_of(rows[i].key, sizeof rows[i].key),
                             kv_slice_of(value, size), false, &err),
         &err);
    took += bench_cpu() - begun;
  }
  double begun = bench_cpu();
  need(kv_table_writer_finish(writer, &side->info, NULL, &err), &err);
  took += bench_cpu() - begun;
  kv_table_writer_free(writer);
  return took;
}

static void remove_file(struct side *side) {
  struct kv_buf path;
  struct kv_err err;
  kv_buf_init(&path);
  kv_table_path(&path, side->config.dir, side->info.id);
  need(kv_env_remove(side->config.env, (const char *)path.data, &err), &err);
  kv_buf_release(&path);
  kv_file_info_release(&side->info);
  kv_file_info_init(&side->info);
}

static void open_file(struct side *side) {
  struct kv_err err;
  side->info.seq = 1;
  for (int i = 0; i < 2; i++) {
    need(kv_cache_new(i ? CACHED_BYTES : 0, &side->caches[i], &err), &err);
    need(kv_table_open(&side->config, &side->info, side->caches[i], &side->stats, &side->tables[i],
                       &err),
         &err);
  }
}

static void close_file(struct side *side) {
  for (int i = 0; i < 2; i++) {
    kv_table_close(side->tables[i]);
    kv_cache_unref(side->caches[i]);
  }
  remove_file(side);
}

/* ---- Reading */

static uint64_t get_rows(struct kv_table *table, const struct bench_asked *asked, size_t round) {
  uint64_t sum = 0;
  struct kv_err err;
  for (size_t i = round * GETS; i < (round + 1) * GETS; i++) {
    struct kv_lookup lookup = {
        .key = asked->keys[i], .hash = kv_hash_key(asked->keys[i]), .table = table};
    need(kv_table_get(table, &lookup, KV_LOOKUP_VALUE, &err), &err);
    bench_need(lookup.answer == KV_TABLE_PUT, "a row is missing");
    sum += bench_digest(lookup.value.data, lookup.value.size);
    if (lookup.pin) kv_cache_unpin(lookup.pin);
  }
  return sum;
}

static uint64_t get_cold(struct bench_lane *lane, size_t round) {
  return get_rows(((struct side *)lane->store)->tables[0], lane->with, round);
}

static uint64_t get_cached(struct bench_lane *lane, size_t round) {
  return get_rows(((struct side *)lane->store)->tables[1], lane->with, round);
}

static uint64_t scan(struct bench_lane *lane, size_t round) {
  struct side *side = lane->store;
  struct kv_iter *rows;
  struct kv_err err;
  uint64_t sum = 0;
  (void)round;
  need(kv_table_iter(side->tables[0], false, &rows, &err), &err);
  for (kv_iter_seek_first(rows); rows->valid; kv_iter_next(rows))
    sum += bench_digest(rows->value.data, rows->value.size);
  need(rows->status, &rows->err);
  kv_iter_free(rows);
  return sum;
}

/* ---- Tables */

static struct side sides[SIDES];

static void time_lanes(struct bench_case *table,
                       uint64_t (*run)(struct bench_lane *lane, size_t set),
                       const struct bench_asked *asked, double operations,
                       const uint64_t *expected) {
  for (int i = 0; i < SIDES; i++) bench_add(table, names[i], run, &sides[i], asked);
  bench_time(table, asked->rounds - 1, operations, expected);
  bench_print(table);
}

static void compare_reads(const char *what, size_t count, filling fill) {
  static struct bench_case table;
  struct bench_asked asked;
  uint64_t gets[BENCH_ROUNDS_MAX] = {0}, scans[BENCH_ROUNDS_MAX], all = 0;
  uint8_t value[256];
  size_t rounds = bench_by_scale(2, 5, 9);
  bench_asked_init(&asked, &shape, 0, count, rounds + 1, GETS, 1);
  for (size_t i = 0; i < (rounds + 1) * GETS; i++)
    gets[i / GETS] += bench_digest(value, fill(asked.rows[i], value));
  for (size_t i = 0; i < count; i++) all += bench_digest(value, fill(i, value));
  for (size_t i = 0; i <= rounds; i++) scans[i] = all;
  bench_case_init(&table, "B7", "ns", "dictionary, %s: a get that decompresses, of %zu rows", what,
                  count);
  time_lanes(&table, get_cold, &asked, GETS, gets);
  bench_case_init(&table, "B7", "ns", "dictionary, %s: a get from cached blocks, of %zu rows", what,
                  count);
  time_lanes(&table, get_cached, &asked, GETS, gets);
  bench_case_init(&table, "B7", "ns", "dictionary, %s: a row, scan that decompresses, of %zu rows",
                  what, count);
  time_lanes(&table, scan, &asked, (double)count, scans);
  bench_asked_release(&asked);
}

static void compare_writing(const char *what, const struct row *rows, size_t count, filling fill) {
  static struct bench_case writing, sizes;
  size_t rounds = bench_by_scale(1, 5, 5);
  bench_case_init(&writing, "B7", "ns", "dictionary, %s: a row, writing a file of %zu rows", what,
                  count);
  bench_case_init(&sizes, "B7", "bytes", "dictionary, %s: on disk a row, of %zu rows", what, count);
  for (size_t round = 0; round < rounds; round++) {
    for (size_t i = 0; i < SIDES; i++) {
      size_t at = (i + round) % SIDES;
      if (round) remove_file(&sides[at]);
      double took = write_file(&sides[at], rows, count, fill);
      bench_sample(&writing, names[at], took * 1e9 / (double)count);
    }
  }
  for (size_t i = 0; i < SIDES; i++)
    bench_count(&sizes, names[i], (double)sides[i].info.bytes / (double)count);
  bench_print(&writing);
  bench_print(&sizes);
}

int main(void) {
  static const struct {
    const char *name;
    filling fill;
  } kinds[] = {{"text", fill_text}, {"records", fill_record}};
  size_t count = bench_by_scale(5000, 100000, 1000000);
  char *dir = bench_make_dir("dictionary");
  struct row *rows = make_rows(count);
  bench_print_build();
  printf("one file, zstd:%d, blocks of %d bytes, 10 filter bits; a dictionary of %zu bytes\n",
         LEVEL, BLOCK_BYTES, DICTIONARY_BYTES);
  for (size_t i = 0; i < SIDES; i++)
    sides[i].config = (struct kv_table_config){.env = kv_env_posix(),
                                               .dir = dir,
                                               .compression_level = LEVEL,
                                               .filter_bits = 10,
                                               .block_bytes = BLOCK_BYTES,
                                               .dictionary_bytes = i ? DICTIONARY_BYTES : 0};
  for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++) {
    compare_writing(kinds[kind].name, rows, count, kinds[kind].fill);
    for (size_t i = 0; i < SIDES; i++) open_file(&sides[i]);
    compare_reads(kinds[kind].name, count, kinds[kind].fill);
    for (size_t i = 0; i < SIDES; i++) close_file(&sides[i]);
  }
  free(rows);
  bench_remove_dir(dir);
  return 0;
}
