/* Data blocks: builder, point lookups through the hash index and by binary search, cursors in both
** directions, and every kind of damaged bytes. */
#include "block.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "code.h"
#include "harness.h"
#include "hash.h"
#include "mem.h"

static struct kv_err err;

#define ok(call) ck_assert_msg((call) == KV_OK, "%s", err.text)

/* ---- A sorted array of entries as the model */

struct item {
  uint8_t key[24];
  size_t key_size;
  uint8_t value[40];
  size_t value_size;
  bool deleted;
};

static struct kv_slice key_of(const struct item *item) {
  return kv_slice_of(item->key, item->key_size);
}

static struct kv_slice value_of(const struct item *item) {
  return kv_slice_of(item->value, item->value_size);
}

static int by_key(const void *a, const void *b) {
  return kv_slice_compare(key_of(a), key_of(b));
}

/* The lookup at once and in steps, which must agree. */
static kv_status get_both_ways(const struct kv_block *block, struct kv_slice key, uint64_t hash,
                               enum kv_block_answer *answer, struct kv_slice *value,
                               struct kv_err *error) {
  kv_status status = kv_block_get(block, key, hash, answer, value, error);
  struct kv_block_search search;
  struct kv_err other;
  struct kv_slice found = {NULL, 0};
  enum kv_block_answer stepped = KV_BLOCK_NONE;
  kv_status step_status = KV_OK;
  int steps = 0;
  kv_block_search_begin(&search, block, key, hash);
  for (; !step_status && search.step != KV_SEARCH_DONE; steps++) {
    ck_assert_int_lt(steps, 64);
    step_status = kv_block_search_step(&search, &other);
  }
  if (!step_status) step_status = kv_block_search_end(&search, &stepped, &found, &other);
  ck_assert_int_eq(step_status, status);
  if (status) {
    ck_assert_str_eq(other.text, error->text);
    return status;
  }
  ck_assert_int_eq(stepped, *answer);
  if (stepped == KV_BLOCK_PUT) ck_assert_ptr_eq(found.data, value->data);
  if (stepped == KV_BLOCK_PUT) ck_assert_uint_eq(found.size, value->size);
  return KV_OK;
}

/* Keys of few letters, so that they share long fronts and are prefixes of each other. */
static void random_item(struct harness_random *random, struct item *item) {
  memset(item, 0, sizeof *item);
  item->key_size = harness_below(random, sizeof item->key + 1);
  for (size_t i = 0; i < item->key_size; i++) item->key[i] = (uint8_t)harness_below(random, 3);
  item->deleted = harness_below(random, 4) == 0;
  item->value_size = item->deleted ? 0 : harness_below(random, sizeof item->value + 1);
  for (size_t i = 0; i < item->value_size; i++) item->value[i] = (uint8_t)harness_next(random);
}

/* Sorted distinct items; returns how many of the n are left. */
static size_t random_items(struct harness_random *random, struct item *items, size_t n) {
  for (size_t i = 0; i < n; i++) random_item(random, &items[i]);
  qsort(items, n, sizeof *items, by_key);
  size_t kept = 0;
  for (size_t i = 0; i < n; i++) {
    if (!kept || by_key(&items[kept - 1], &items[i])) items[kept++] = items[i];
  }
  return kept;
}

static kv_status build(struct kv_block_builder *builder, const struct item *items, size_t n,
                       struct kv_slice *bytes) {
  for (size_t i = 0; i < n; i++) {
    kv_status status =
        kv_block_builder_add(builder, key_of(&items[i]), kv_hash_key(key_of(&items[i])),
                             value_of(&items[i]), items[i].deleted, &err);
    if (status) return status;
  }
  return kv_block_builder_finish(builder, bytes, &err);
}

/* A block with its builder, which owns the bytes. */
struct built {
  struct kv_block_builder builder;
  struct kv_slice bytes;
  struct kv_block block;
};

static void make(struct built *built, const struct item *items, size_t n) {
  kv_block_builder_init(&built->builder);
  ok(build(&built->builder, items, n, &built->bytes));
  ok(kv_block_init(&built->block, built->bytes, &err));
}

static enum kv_block_answer get(const struct kv_block *block, struct kv_slice key,
                                struct kv_slice *value) {
  enum kv_block_answer answer;
  ok(get_both_ways(block, key, kv_hash_key(key), &answer, value, &err));
  return answer;
}

static void expect_item(const struct kv_block *block, const struct item *item) {
  struct kv_slice value;
  enum kv_block_answer answer = get(block, key_of(item), &value);
  ck_assert_int_eq(answer, item->deleted ? KV_BLOCK_DELETED : KV_BLOCK_PUT);
  ck_assert(kv_slice_equal(value, value_of(item)));
}

static void numbered(struct item *item, uint32_t number) {
  memset(item, 0, sizeof *item);
  item->key_size = 4;
  for (int i = 0; i < 4; i++) item->key[i] = (uint8_t)(number >> (24 - 8 * i));
  item->value_size = 1;
  item->value[0] = (uint8_t)number;
}

/* ---- Builder */

START_TEST(keys_not_ascending_are_misuse) {
  struct kv_block_builder builder;
  struct kv_slice none = {0};
  kv_block_builder_init(&builder);
  ok(kv_block_builder_add(&builder, kv_slice_of("b", 1), 0, none, false, &err));
  ck_assert_int_eq(kv_block_builder_add(&builder, kv_slice_of("b", 1), 0, none, false, &err),
                   KV_MISUSE);
  ck_assert_int_eq(kv_block_builder_add(&builder, kv_slice_of("a", 1), 0, none, false, &err),
                   KV_MISUSE);
  ck_assert_int_eq(kv_block_builder_add(&builder, none, 0, none, false, &err), KV_MISUSE);
  ok(kv_block_builder_add(&builder, kv_slice_of("ba", 2), 0, none, false, &err));
  kv_block_builder_release(&builder);
}
END_TEST

START_TEST(tombstone_with_a_value_is_misuse) {
  struct kv_block_builder builder;
  kv_block_builder_init(&builder);
  ck_assert_int_eq(
      kv_block_builder_add(&builder, kv_slice_of("b", 1), 0, kv_slice_of("v", 1), true, &err),
      KV_MISUSE);
  kv_block_builder_release(&builder);
}
END_TEST

START_TEST(block_of_nothing_is_misuse) {
  struct kv_block_builder builder;
  struct kv_slice bytes;
  kv_block_builder_init(&builder);
  ck_assert_int_eq(kv_block_builder_finish(&builder, &bytes, &err), KV_MISUSE);
  kv_block_builder_release(&builder);
}
END_TEST

START_TEST(size_is_what_finish_gives_at_every_count) {
  enum { N = 60 };
  struct harness_random random;
  struct item items[N];
  harness_seed(&random, 1);
  size_t n = random_items(&random, items, N);
  for (size_t i = 1; i <= n; i++) {
    struct kv_block_builder builder;
    struct kv_slice bytes;
    kv_block_builder_init(&builder);
    for (size_t j = 0; j < i; j++) {
      ok(kv_block_builder_add(&builder, key_of(&items[j]), 0, value_of(&items[j]), items[j].deleted,
                              &err));
    }
    size_t size = kv_block_builder_size(&builder);
    ok(kv_block_builder_finish(&builder, &bytes, &err));
    ck_assert_uint_eq(bytes.size, size);
    kv_block_builder_release(&builder);
  }
}
END_TEST

START_TEST(reset_builder_makes_the_same_block_again) {
  struct harness_random random;
  struct item items[50];
  harness_seed(&random, 2);
  size_t n = random_items(&random, items, 50);
  struct built built;
  make(&built, items, n);
  struct kv_buf first;
  kv_buf_init(&first);
  kv_buf_append(&first, built.bytes.data, built.bytes.size);
  kv_block_builder_reset(&built.builder);
  ok(build(&built.builder, items, n, &built.bytes));
  ck_assert(kv_slice_equal(kv_buf_slice(&first), built.bytes));
  kv_buf_release(&first);
  kv_block_builder_release(&built.builder);
}
END_TEST

/* ---- Point lookups */

START_TEST(every_count_finds_its_keys_and_no_others) {
  enum { N = 100 };
  struct item items[2 * N + 1];
  for (uint32_t i = 0; i < 2 * N + 1; i++) numbered(&items[i], i);
  for (uint32_t n = 1; n <= N; n++) {
    struct item odd[N];
    for (uint32_t i = 0; i < n; i++) odd[i] = items[2 * i + 1];
    struct built built;
    make(&built, odd, n);
    for (uint32_t i = 0; i <= 2 * n; i++) {
      struct kv_slice value;
      if (i & 1) {
        expect_item(&built.block, &items[i]);
      } else {
        ck_assert_int_eq(get(&built.block, key_of(&items[i]), &value), KV_BLOCK_NONE);
      }
    }
    kv_block_builder_release(&built.builder);
  }
}
END_TEST

START_TEST(hash_index_ends_at_253_restarts) {
  enum { EDGE = 253 * 16 };
  struct item *items = malloc((EDGE + 1) * sizeof *items);
  for (uint32_t i = 0; i < EDGE + 1; i++) numbered(&items[i], i * 3);
  for (uint32_t n = EDGE; n <= EDGE + 1; n++) {
    struct built built;
    make(&built, items, n);
    ck_assert_uint_eq(built.block.restart_count, n == EDGE ? 253 : 254);
    ck_assert_int_eq(built.block.slot_count != 0, n == EDGE);
    for (uint32_t i = 0; i < n; i++) {
      struct item absent;
      struct kv_slice value;
      numbered(&absent, i * 3 + 1);
      expect_item(&built.block, &items[i]);
      ck_assert_int_eq(get(&built.block, key_of(&absent), &value), KV_BLOCK_NONE);
    }
    kv_block_builder_release(&built.builder);
  }
  free(items);
}
END_TEST

START_TEST(random_keys_agree_with_the_model) {
  enum { N = 300 };
  uint64_t seed = harness_seed_env(3);
  struct harness_random random;
  harness_seed(&random, seed);
  for (int round = 0; round < 40; round++) {
    struct item items[N], asked;
    size_t n = random_items(&random, items, 1 + harness_below(&random, N));
    struct built built;
    make(&built, items, n);
    for (size_t i = 0; i < n; i++) expect_item(&built.block, &items[i]);
    for (int i = 0; i < 300; i++) {
      struct kv_slice value;
      random_item(&random, &asked);
      const struct item *found = bsearch(&asked, items, n, sizeof *items, by_key);
      if (found) {
        expect_item(&built.block, found);
      } else {
        ck_assert_msg(get(&built.block, key_of(&asked), &value) == KV_BLOCK_NONE, "seed %llu",
                      (unsigned long long)seed);
      }
    }
    kv_block_builder_release(&built.builder);
  }
}
END_TEST

/* The same hash for all: more slots and regions than a lookup tries. */
START_TEST(equal_hashes_fall_back_to_binary_search) {
  struct item items[100];
  struct kv_block_builder builder;
  struct kv_slice bytes, value;
  struct kv_block block;
  kv_block_builder_init(&builder);
  for (uint32_t i = 0; i < 100; i++) {
    numbered(&items[i], i * 2);
    ok(kv_block_builder_add(&builder, key_of(&items[i]), 77, value_of(&items[i]), false, &err));
  }
  ok(kv_block_builder_finish(&builder, &bytes, &err));
  ok(kv_block_init(&block, bytes, &err));
  for (uint32_t i = 0; i < 200; i++) {
    struct item asked;
    enum kv_block_answer answer;
    numbered(&asked, i);
    ok(get_both_ways(&block, key_of(&asked), 77, &answer, &value, &err));
    ck_assert_int_eq(answer, i & 1 ? KV_BLOCK_NONE : KV_BLOCK_PUT);
  }
  kv_block_builder_release(&builder);
}
END_TEST

/* Files of before version 4: an index of bytes, of which nothing is read. */
START_TEST(index_of_an_older_block_is_passed_over) {
  struct item items[100];
  struct built built;
  struct kv_block block;
  for (uint32_t i = 0; i < 100; i++) numbered(&items[i], i * 2);
  make(&built, items, 100);
  static uint8_t old[20000];
  size_t size = (size_t)(built.block.slots - built.bytes.data);
  memcpy(old, built.bytes.data, size);
  memset(old + size, 0xfe, 134);
  kv_put_u32(old + size + 134, built.block.restart_count);
  kv_put_u32(old + size + 138, 134);
  ok(kv_block_init(&block, kv_slice_of(old, size + 142), &err));
  ok(kv_block_check_index(&block, &err));
  ck_assert_uint_eq(block.slot_count, 0);
  block = kv_block_of_shape(kv_slice_of(old, size + 142), kv_block_shape(&block));
  for (uint32_t i = 0; i < 200; i++) {
    struct item asked;
    struct kv_slice value;
    numbered(&asked, i);
    ck_assert_int_eq(get(&block, key_of(&asked), &value), i & 1 ? KV_BLOCK_NONE : KV_BLOCK_PUT);
  }
  kv_block_builder_release(&built.builder);
}
END_TEST

/* One probe and one region: hardly a key needs a second one, and none a search. */
START_TEST(index_leads_to_the_region) {
  struct item items[150];
  struct built built;
  uint32_t n = 150, regions = 0, slots = 0;
  for (uint32_t i = 0; i < n; i++) numbered(&items[i], i * 7);
  make(&built, items, n);
  for (uint32_t i = 0; i < n; i++) {
    struct kv_block_search search;
    kv_block_search_begin(&search, &built.block, key_of(&items[i]), kv_hash_key(key_of(&items[i])));
    while (search.step != KV_SEARCH_DONE) ok(kv_block_search_step(&search, &err));
    regions += search.probe.regions;
    slots += search.probe.slots;
    ck_assert(search.hinted);
  }
  ck_assert_uint_eq(regions, n);
  ck_assert_uint_lt(slots, n * 8);
  kv_block_builder_release(&built.builder);
}
END_TEST

START_TEST(empty_slot_ends_the_lookup) {
  struct item item;
  numbered(&item, 5);
  struct built built;
  make(&built, &item, 1);
  ck_assert_uint_eq(built.block.slot_count, 2);
  uint64_t hash = kv_hash_key(key_of(&item));
  enum kv_block_answer answer;
  struct kv_slice value;
  ok(get_both_ways(&built.block, key_of(&item), hash ^ 0x80000000u, &answer, &value, &err));
  ck_assert_int_eq(answer, KV_BLOCK_NONE);
  kv_block_builder_release(&built.builder);
}
END_TEST

START_TEST(empty_and_longest_keys_and_large_values) {
  static uint8_t longest[65536];
  static uint8_t large[3 << 20];
  memset(longest, 7, sizeof longest);
  for (size_t i = 0; i < sizeof large; i++) large[i] = (uint8_t)(i * 7 >> 3);
  struct kv_slice keys[] = {{NULL, 0}, {longest, 65534}, {longest, 65535}, {longest, 65536}};
  struct kv_slice values[] = {{large, sizeof large}, {NULL, 0}, {large, 127}, {large, 128}};
  struct kv_block_builder builder;
  struct kv_slice bytes, value;
  struct kv_block block;
  kv_block_builder_init(&builder);
  for (int i = 0; i < 4; i++) {
    ok(kv_block_builder_add(&builder, keys[i], kv_hash_key(keys[i]), values[i], false, &err));
  }
  ok(kv_block_builder_finish(&builder, &bytes, &err));
  ok(kv_block_init(&block, bytes, &err));
  for (int i = 0; i < 4; i++) {
    ck_assert_int_eq(get(&block, keys[i], &value), KV_BLOCK_PUT);
    ck_assert(kv_slice_equal(value, values[i]));
  }
  ck_assert_int_eq(get(&block, kv_slice_of(longest, 100), &value), KV_BLOCK_NONE);
  kv_block_builder_release(&builder);
}
END_TEST

/* ---- Cursor */

static void expect_at(const struct kv_block_cursor *cursor, const struct item *items, size_t n,
                      size_t at, uint64_t seed) {
  ck_assert_msg(cursor->valid == (at < n), "seed %llu", (unsigned long long)seed);
  if (at >= n) return;
  ck_assert_msg(kv_slice_equal(kv_buf_slice(&cursor->key), key_of(&items[at])), "seed %llu",
                (unsigned long long)seed);
  ck_assert(kv_slice_equal(cursor->value, value_of(&items[at])));
  ck_assert_int_eq(cursor->deleted, items[at].deleted);
}

START_TEST(walks_forward_and_backward) {
  struct item items[100];
  struct harness_random random;
  harness_seed(&random, 5);
  size_t n = random_items(&random, items, 100);
  struct built built;
  make(&built, items, n);
  struct kv_block_cursor cursor;
  kv_block_cursor_init(&cursor);
  kv_block_cursor_set(&cursor, &built.block);
  ck_assert(!cursor.valid);
  size_t at = 0;
  for (ok(kv_block_cursor_first(&cursor, &err)); cursor.valid; at++) {
    expect_at(&cursor, items, n, at, 5);
    ok(kv_block_cursor_next(&cursor, &err));
  }
  ck_assert_uint_eq(at, n);
  for (ok(kv_block_cursor_last(&cursor, &err)); cursor.valid; at--) {
    expect_at(&cursor, items, n, at - 1, 5);
    ok(kv_block_cursor_prev(&cursor, &err));
  }
  ck_assert_uint_eq(at, 0);
  ok(kv_block_cursor_prev(&cursor, &err));
  ok(kv_block_cursor_next(&cursor, &err));
  ck_assert(!cursor.valid);
  kv_block_cursor_release(&cursor);
  kv_block_builder_release(&built.builder);
}
END_TEST

static size_t lower_bound(const struct item *items, size_t n, const struct item *asked) {
  size_t at = 0;
  while (at < n && by_key(&items[at], asked) < 0) at++;
  return at;
}

/* One random move of cursor and model; an ended cursor is at n. */
static size_t random_move(struct harness_random *random, struct kv_block_cursor *cursor,
                          const struct item *items, size_t n, size_t at) {
  struct item asked;
  switch (harness_below(random, 8)) {
    case 0:
      ok(kv_block_cursor_first(cursor, &err));
      return 0;
    case 1:
      ok(kv_block_cursor_last(cursor, &err));
      return n - 1;
    case 2:
      random_item(random, &asked);
      if (harness_below(random, 2)) asked = items[harness_below(random, n)];
      ok(kv_block_cursor_seek(cursor, key_of(&asked), &err));
      return lower_bound(items, n, &asked);
    case 3:
    case 4:
    case 5:
      ok(kv_block_cursor_next(cursor, &err));
      return at < n ? at + 1 : n;
    default:
      ok(kv_block_cursor_prev(cursor, &err));
      return at < n && at ? at - 1 : n;
  }
}

START_TEST(random_moves_agree_with_a_sorted_array) {
  uint64_t seed = harness_seed_env(6);
  struct harness_random random;
  harness_seed(&random, seed);
  for (int round = 0; round < 30; round++) {
    struct item items[120];
    size_t n = random_items(&random, items, 1 + harness_below(&random, 120));
    struct built built;
    make(&built, items, n);
    struct kv_block_cursor cursor;
    kv_block_cursor_init(&cursor);
    kv_block_cursor_set(&cursor, &built.block);
    size_t at = n;
    for (int i = 0; i < 1000; i++) {
      at = random_move(&random, &cursor, items, n, at);
      expect_at(&cursor, items, n, at, seed);
    }
    kv_block_cursor_release(&cursor);
    kv_block_builder_release(&built.builder);
  }
}
END_TEST

/* ---- Damage */

/* Uses a block of unknown bytes in every way: must end, and must not read outside (sanitizers see). */
static void use_everything(const uint8_t *data, size_t size, const struct item *items, size_t n) {
  struct kv_block block;
  if (kv_block_init(&block, kv_slice_of(data, size), &err)) return;
  for (size_t i = 0; i < n; i++) {
    enum kv_block_answer answer;
    struct kv_slice value;
    struct kv_slice key = key_of(&items[i]);
    kv_status status = get_both_ways(&block, key, kv_hash_key(key), &answer, &value, &err);
    ck_assert(status == KV_OK || status == KV_CORRUPT);
  }
  struct kv_block_cursor cursor;
  kv_block_cursor_init(&cursor);
  kv_block_cursor_set(&cursor, &block);
  size_t steps = 0;
  kv_status status = kv_block_cursor_first(&cursor, &err);
  while (!status && cursor.valid) {
    ck_assert_uint_le(steps++, size);
    status = kv_block_cursor_next(&cursor, &err);
  }
  steps = 0;
  status = kv_block_cursor_last(&cursor, &err);
  while (!status && cursor.valid) {
    ck_assert_uint_le(steps++, size);
    status = kv_block_cursor_prev(&cursor, &err);
  }
  status = kv_block_cursor_seek(&cursor, key_of(&items[n / 2]), &err);
  ck_assert(status == KV_OK || status == KV_CORRUPT);
  kv_block_cursor_release(&cursor);
}

START_TEST(every_cut_is_safe) {
  struct item items[40];
  struct harness_random random;
  harness_seed(&random, 7);
  size_t n = random_items(&random, items, 40);
  struct built built;
  make(&built, items, n);
  for (size_t size = 0; size < built.bytes.size; size++) {
    uint8_t *copy = malloc(size + 1);
    memcpy(copy, built.bytes.data, size);
    use_everything(copy, size, items, n);
    memcpy(copy, built.bytes.data + built.bytes.size - size, size);
    use_everything(copy, size, items, n);
    free(copy);
  }
  kv_block_builder_release(&built.builder);
}
END_TEST

START_TEST(every_changed_byte_is_safe) {
  struct item items[40];
  struct harness_random random;
  harness_seed(&random, 8);
  size_t n = random_items(&random, items, 40);
  struct built built;
  make(&built, items, n);
  uint8_t *copy = malloc(built.bytes.size);
  for (size_t at = 0; at < built.bytes.size; at++) {
    static const uint8_t masks[] = {1, 2, 4, 0x10, 0x40, 0x80, 0xff};
    for (size_t m = 0; m < sizeof masks; m++) {
      memcpy(copy, built.bytes.data, built.bytes.size);
      copy[at] ^= masks[m];
      use_everything(copy, built.bytes.size, items, n);
    }
  }
  free(copy);
  kv_block_builder_release(&built.builder);
}
END_TEST

START_TEST(random_bytes_are_safe) {
  uint64_t seed = harness_seed_env(9);
  struct harness_random random;
  struct item items[10];
  harness_seed(&random, seed);
  size_t n = random_items(&random, items, 10);
  for (int round = 0; round < 20000; round++) {
    size_t size = 8 + harness_below(&random, 60);
    uint8_t bytes[68];
    for (size_t i = 0; i < size; i++) bytes[i] = (uint8_t)harness_below(&random, 6);
    kv_put_u32(bytes + size - 8, (uint32_t)(1 + harness_below(&random, 3)));
    kv_put_u32(bytes + size - 4, (uint32_t)harness_below(&random, 8));
    uint8_t *copy = malloc(size);
    memcpy(copy, bytes, size);
    use_everything(copy, size, items, n);
    free(copy);
  }
}
END_TEST

/* A block of one region from hand-written entry bytes, without hash index. */
static kv_status walk(const void *entries, size_t size) {
  uint8_t bytes[64];
  struct kv_block block;
  memcpy(bytes, entries, size);
  kv_put_u32(bytes + size, 0);
  kv_put_u32(bytes + size + 4, 1);
  kv_put_u32(bytes + size + 8, 0);
  kv_status status = kv_block_init(&block, kv_slice_of(bytes, size + 12), &err);
  if (status) return status;
  struct kv_block_cursor cursor;
  kv_block_cursor_init(&cursor);
  kv_block_cursor_set(&cursor, &block);
  status = kv_block_cursor_first(&cursor, &err);
  while (!status && cursor.valid) status = kv_block_cursor_next(&cursor, &err);
  kv_block_cursor_release(&cursor);
  return status;
}

START_TEST(entries_that_cannot_be_are_corrupt) {
  ck_assert_int_eq(walk("\0\1\4kv", 5), KV_OK);
  ck_assert_int_eq(walk("\0\1\1k", 4), KV_OK);
  ck_assert_int_eq(walk("", 0), KV_CORRUPT);               /* no entry at all */
  ck_assert_int_eq(walk("\1\1\4kv", 5), KV_CORRUPT);       /* shares with nothing */
  ck_assert_int_eq(walk("\0\1\2k", 4), KV_CORRUPT);        /* kind 2, reserved */
  ck_assert_int_eq(walk("\0\1\3k", 4), KV_CORRUPT);        /* kind 3, reserved */
  ck_assert_int_eq(walk("\0\1\5kv", 5), KV_CORRUPT);       /* tombstone with a value */
  ck_assert_int_eq(walk("\0\1\10kv", 5), KV_CORRUPT);      /* value past the end */
  ck_assert_int_eq(walk("\0\6\4kv", 5), KV_CORRUPT);       /* key past the end */
  ck_assert_int_eq(walk("\0\1", 2), KV_CORRUPT);           /* ends in the head */
  ck_assert_int_eq(walk("\0\1\4kv\2\0\0", 8), KV_CORRUPT); /* shares more than there is */
  ck_assert_int_eq(walk("\0\377\377\377\377\377\377\377\377\377\1\0", 12), KV_CORRUPT);
  ck_assert_int_eq(walk("\377\377\377\377\377\377\377\377\377\377\377\1\0", 13), KV_CORRUPT);
}
END_TEST

/* Else a step back would go over a region of any size, and a walk back over its square. */
START_TEST(region_of_more_than_16_entries_is_corrupt) {
  uint8_t bytes[128];
  for (uint32_t n = 16; n <= 17; n++) {
    size_t size = 0;
    for (uint8_t i = 0; i < n; i++, size += 4) memcpy(bytes + size, (uint8_t[]){0, 1, 0, i}, 4);
    kv_put_u32(bytes + size, 0);
    kv_put_u32(bytes + size + 4, 1);
    kv_put_u32(bytes + size + 8, 0);
    kv_status expected = n == 16 ? KV_OK : KV_CORRUPT;
    struct kv_block block;
    struct kv_block_cursor cursor;
    enum kv_block_answer answer;
    struct kv_slice value, last = kv_slice_of(bytes + size - 1, 1);
    ok(kv_block_init(&block, kv_slice_of(bytes, size + 12), &err));
    ck_assert_int_eq(get_both_ways(&block, last, 0, &answer, &value, &err), expected);
    kv_block_cursor_init(&cursor);
    kv_block_cursor_set(&cursor, &block);
    ck_assert_int_eq(kv_block_cursor_last(&cursor, &err), expected);
    ck_assert_int_eq(kv_block_cursor_seek(&cursor, last, &err), expected);
    kv_block_cursor_release(&cursor);
  }
}
END_TEST

/* A block of n keys of `key_size` bytes that share all but four, with values of `value_size`. */
static struct kv_block block_of_sizes(struct kv_block_builder *builder, uint32_t n, size_t key_size,
                                      size_t value_size) {
  uint8_t key[1024] = {0}, value[1024] = {0};
  struct kv_block block;
  struct kv_slice bytes;
  kv_block_builder_reset(builder);
  for (uint32_t i = 0; i < n; i++) {
    for (size_t j = 0; j < 4; j++) key[key_size - 4 + j] = (uint8_t)(i >> (24 - 8 * j));
    struct kv_slice of_key = kv_slice_of(key, key_size);
    ok(kv_block_builder_add(builder, of_key, kv_hash_key(of_key), kv_slice_of(value, value_size),
                            false, &err));
  }
  size_t size = kv_block_builder_size(builder);
  ok(kv_block_builder_finish(builder, &bytes, &err));
  ck_assert_uint_eq(bytes.size, size);
  ok(kv_block_init(&block, bytes, &err));
  return block;
}

START_TEST(regions_end_early_where_that_is_cheap) {
  struct kv_block_builder builder;
  kv_block_builder_init(&builder);
  ck_assert_uint_eq(block_of_sizes(&builder, 160, 16, 8).restart_count, 10);
  ck_assert_uint_eq(block_of_sizes(&builder, 160, 16, 125).restart_count, 40);
  ck_assert_uint_eq(block_of_sizes(&builder, 100, 16, 1000).restart_count, 100);
  ck_assert_uint_eq(block_of_sizes(&builder, 160, 1000, 100).restart_count, 10);
  /* by bytes alone it would lose its hash index */
  struct kv_block long_block = block_of_sizes(&builder, 1800, 16, 600);
  ck_assert_uint_eq(long_block.slot_count, 1800 + 1800 / 7 + 1);
  ck_assert_uint_le(long_block.restart_count, 253);
  ck_assert_uint_gt(long_block.restart_count, 200);
  kv_block_builder_release(&builder);
}
END_TEST

START_TEST(shape_and_bytes_are_the_parsed_block_again) {
  struct item items[40];
  for (size_t n = 1; n <= 40; n += 13) {
    for (size_t i = 0; i < n; i++) numbered(&items[i], (uint32_t)i);
    struct built built;
    make(&built, items, n);
    struct kv_block again = kv_block_of_shape(built.bytes, kv_block_shape(&built.block));
    ck_assert_mem_eq(&again.entries, &built.block.entries, sizeof again.entries);
    ck_assert_ptr_eq(again.restarts, built.block.restarts);
    ck_assert_ptr_eq(again.slots, built.block.slots);
    ck_assert_uint_eq(again.restart_count, (n + 15) / 16);
    ck_assert_uint_eq(again.slot_count, n + n / 7 + 1);
    kv_block_builder_release(&built.builder);
  }
}
END_TEST

START_TEST(tails_that_cannot_be_are_corrupt) {
  struct item item;
  numbered(&item, 5);
  struct built built;
  make(&built, &item, 1);
  uint8_t copy[128];
  size_t size = built.bytes.size;
  struct kv_block block;
  static const uint32_t tails[][2] = {
      {0, 2}, {0, 0}, {UINT32_MAX, 2}, {1, UINT32_MAX}, {UINT32_MAX, UINT32_MAX}, {4, 2}, {1, 200}};
  memcpy(copy, built.bytes.data, size);
  for (size_t i = 0; i < sizeof tails / sizeof *tails; i++) {
    kv_put_u32(copy + size - 8, tails[i][0]);
    kv_put_u32(copy + size - 4, tails[i][1]);
    ck_assert_int_eq(kv_block_init(&block, kv_slice_of(copy, size), &err), KV_CORRUPT);
  }
  kv_block_builder_release(&built.builder);
}
END_TEST

START_TEST(hash_index_naming_no_restart_is_corrupt) {
  struct item item;
  numbered(&item, 5);
  struct built built;
  make(&built, &item, 1);
  uint8_t *slots = built.builder.bytes.data + (built.block.slots - built.bytes.data);
  memset(slots, 1, (size_t)built.block.slot_count * 2);
  enum kv_block_answer answer;
  struct kv_slice value;
  ck_assert_int_eq(
      get_both_ways(&built.block, key_of(&item), kv_hash_key(key_of(&item)), &answer, &value, &err),
      KV_CORRUPT);
  ck_assert_ptr_nonnull(strstr(err.text, "restart"));
  kv_block_builder_release(&built.builder);
}
END_TEST

/* ---- Memory */

START_TEST(every_failing_allocation_is_nomem) {
  struct item items[50];
  struct harness_random random;
  harness_seed(&random, 10);
  size_t n = random_items(&random, items, 50);
  kv_status status = KV_NOMEM;
  for (uint64_t nth = 1; status == KV_NOMEM; nth++) {
    struct kv_block_builder builder;
    struct kv_slice bytes;
    struct kv_block block;
    struct kv_block_cursor cursor;
    kv_block_builder_init(&builder);
    kv_block_cursor_init(&cursor);
    kv_mem_fail_nth(nth, 0);
    status = build(&builder, items, n, &bytes);
    if (!status) status = kv_block_init(&block, bytes, &err);
    if (!status) kv_block_cursor_set(&cursor, &block);
    if (!status) status = kv_block_cursor_last(&cursor, &err);
    ck_assert(!status || !cursor.valid);
    kv_mem_fail_nth(0, 0);
    kv_block_cursor_release(&cursor);
    kv_block_builder_release(&builder);
    ck_assert_int_eq(kv_mem_live_blocks(), 0);
    ck_assert_uint_lt(nth, 1000);
  }
  ck_assert_int_eq(status, KV_OK);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("block");
  TCase *tests = tcase_create("block");
  tcase_set_timeout(tests, 60);
  tcase_add_test(tests, keys_not_ascending_are_misuse);
  tcase_add_test(tests, tombstone_with_a_value_is_misuse);
  tcase_add_test(tests, block_of_nothing_is_misuse);
  tcase_add_test(tests, size_is_what_finish_gives_at_every_count);
  tcase_add_test(tests, reset_builder_makes_the_same_block_again);
  tcase_add_test(tests, every_count_finds_its_keys_and_no_others);
  tcase_add_test(tests, hash_index_ends_at_253_restarts);
  tcase_add_test(tests, random_keys_agree_with_the_model);
  tcase_add_test(tests, equal_hashes_fall_back_to_binary_search);
  tcase_add_test(tests, index_of_an_older_block_is_passed_over);
  tcase_add_test(tests, index_leads_to_the_region);
  tcase_add_test(tests, empty_slot_ends_the_lookup);
  tcase_add_test(tests, empty_and_longest_keys_and_large_values);
  tcase_add_test(tests, walks_forward_and_backward);
  tcase_add_test(tests, random_moves_agree_with_a_sorted_array);
  tcase_add_test(tests, every_cut_is_safe);
  tcase_add_test(tests, every_changed_byte_is_safe);
  tcase_add_test(tests, random_bytes_are_safe);
  tcase_add_test(tests, entries_that_cannot_be_are_corrupt);
  tcase_add_test(tests, region_of_more_than_16_entries_is_corrupt);
  tcase_add_test(tests, tails_that_cannot_be_are_corrupt);
  tcase_add_test(tests, regions_end_early_where_that_is_cheap);
  tcase_add_test(tests, shape_and_bytes_are_the_parsed_block_again);
  tcase_add_test(tests, hash_index_naming_no_restart_is_corrupt);
  tcase_add_test(tests, every_failing_allocation_is_nomem);
  suite_add_tcase(suite, tests);
  return harness_run(suite);
}
