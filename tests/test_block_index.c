/* The hash index of a block that was left out by its writer and is made by a reader (block.h). */
#include <stdio.h>
#include <stdlib.h>

#include "block.h"
#include "hash.h"
#include "harness.h"
#include "mem.h"

static struct kv_err err;

static struct kv_slice key_of(uint32_t number, char text[16]) {
  return kv_slice_of(text, (size_t)snprintf(text, 16, "key%06u", number));
}

static struct kv_slice build(struct kv_block_builder *builder, uint32_t rows, bool leaves_index) {
  struct kv_slice bytes;
  kv_block_builder_init(builder);
  builder->leaves_index = leaves_index;
  for (uint32_t i = 0; i < rows; i++) {
    char text[16];
    struct kv_slice key = key_of(i * 7, text);
    struct kv_slice value = kv_slice_of("a value of some length", i % 22);
    ck_assert_int_eq(kv_block_builder_add(builder, key, kv_hash_key(key), value, false, &err),
                     KV_OK);
  }
  ck_assert_int_eq(kv_block_builder_finish(builder, &bytes, &err), KV_OK);
  return bytes;
}

static void expect_rows(const struct kv_block *block, uint32_t rows) {
  for (uint32_t i = 0; i < rows * 7; i += 1 + rows / 50) {
    char text[16];
    struct kv_slice key = key_of(i, text), value;
    enum kv_block_answer answer;
    ck_assert_int_eq(kv_block_get(block, key, kv_hash_key(key), &answer, &value, &err), KV_OK);
    ck_assert_int_eq(answer, i % 7 ? KV_BLOCK_NONE : KV_BLOCK_PUT);
  }
}

/* It is the one that the writer would have made. */
static void expect_same_index(uint32_t rows) {
  struct kv_block_builder whole, bare;
  struct kv_slice wanted = build(&whole, rows, false), bytes = build(&bare, rows, true);
  struct kv_block block, before;
  struct kv_buf infos;
  kv_buf_init(&infos);
  ck_assert_int_eq(kv_block_init(&before, wanted, &err), KV_OK);
  ck_assert_int_eq(kv_block_init(&block, bytes, &err), KV_OK);
  ck_assert(!kv_block_wants_index(&before));
  ck_assert(kv_block_wants_index(&block));
  ck_assert_uint_lt(bytes.size, wanted.size);
  expect_rows(&block, rows);
  ck_assert_int_eq(kv_block_list_keys(&block, &infos, &err), KV_OK);
  size_t size = kv_block_indexed_size(&block, &infos);
  uint8_t *made = malloc(size);
  kv_block_put_index(&block, &infos, made);
  ck_assert(kv_slice_equal(kv_slice_of(made, size), wanted));
  free(made);
  kv_buf_release(&infos);
  kv_block_builder_release(&whole);
  kv_block_builder_release(&bare);
}

START_TEST(it_is_the_index_that_was_left_out) {
  for (uint32_t rows = 1; rows < 4000; rows = rows * 3 / 2 + 1) expect_same_index(rows);
  ck_assert_int_eq(kv_mem_live_blocks(), 0);
}
END_TEST

START_TEST(blocks_of_too_many_regions_want_none) {
  struct kv_block_builder builder;
  struct kv_block block;
  struct kv_slice bytes = build(&builder, 254 * 16, true);
  ck_assert_int_eq(kv_block_init(&block, bytes, &err), KV_OK);
  ck_assert(!kv_block_wants_index(&block));
  expect_rows(&block, 254 * 16);
  kv_block_builder_release(&builder);
}
END_TEST

START_TEST(damaged_entries_make_no_index) {
  struct kv_block_builder builder;
  struct kv_block block;
  struct kv_buf infos;
  struct kv_slice bytes = build(&builder, 100, true);
  kv_buf_init(&infos);
  ck_assert_int_eq(kv_block_init(&block, bytes, &err), KV_OK);
  builder.bytes.data[0] = 0x7f; /* shares bytes of a key that is not there */
  ck_assert_int_eq(kv_block_list_keys(&block, &infos, &err), KV_CORRUPT);
  kv_buf_release(&infos);
  kv_block_builder_release(&builder);
}
END_TEST

/* An entry that is named by its place is the key's only when every byte is. */
START_TEST(long_keys_differ_in_the_middle_too) {
  struct kv_block_builder builder;
  struct kv_slice bytes, value;
  struct kv_block block;
  enum kv_block_answer answer;
  uint8_t text[1000];
  memset(text, 'k', sizeof text);
  struct kv_slice key = kv_slice_of(text, sizeof text);
  kv_block_builder_init(&builder);
  ck_assert_int_eq(
      kv_block_builder_add(&builder, key, kv_hash_key(key), kv_slice_of("v", 1), false, &err),
      KV_OK);
  ck_assert_int_eq(kv_block_builder_finish(&builder, &bytes, &err), KV_OK);
  ck_assert_int_eq(kv_block_init(&block, bytes, &err), KV_OK);
  ck_assert_int_eq(kv_block_get_at(&block, key, 0, &answer, &value, &err), KV_OK);
  ck_assert_int_eq(answer, KV_BLOCK_PUT);
  for (size_t i = 0; i < sizeof text; i++) {
    text[i]++;
    ck_assert_int_eq(kv_block_get_at(&block, key, 0, &answer, &value, &err), KV_OK);
    ck_assert_int_eq(answer, KV_BLOCK_NONE);
    text[i]--;
  }
  kv_block_builder_release(&builder);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("block_index");
  TCase *tests = tcase_create("block_index");
  tcase_add_test(tests, long_keys_differ_in_the_middle_too);
  tcase_add_test(tests, it_is_the_index_that_was_left_out);
  tcase_add_test(tests, blocks_of_too_many_regions_want_none);
  tcase_add_test(tests, damaged_entries_make_no_index);
  suite_add_tcase(suite, tests);
  return harness_run(suite);
}
