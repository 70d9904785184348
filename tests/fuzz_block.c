/* Data blocks. Of any sorted entries: the block gives them back in both directions, by seek and by get. Of
** any bytes: they are refused or walked to an end, nothing outside of them is read, and when they are what
** the builder makes of the entries that they show, all of the above holds. */
#include "block.h"

#include <stdlib.h>
#include <string.h>

#include "apart.h"
#include "code.h"
#include "harness_fuzz.h"
#include "hash.h"

enum { ENTRIES_MAX = 400, ENTRY_BYTES_MIN = 3 };

/* Keys in memory of their own; values borrowed. */
struct entries {
  struct {
    struct kv_buf key;
    struct kv_slice value;
    bool deleted;
    bool apart; /* the value is a reference (apart.h) */
  } items[ENTRIES_MAX];
  size_t count;
};

static void entries_add(struct entries *entries, struct kv_slice key, struct kv_slice value,
                        bool deleted) {
  kv_buf_init(&entries->items[entries->count].key);
  kv_buf_append(&entries->items[entries->count].key, key.data, key.size);
  entries->items[entries->count].value = value;
  entries->items[entries->count].apart = false;
  entries->items[entries->count++].deleted = deleted;
}

static void entries_release(struct entries *entries) {
  for (size_t i = 0; i < entries->count; i++) kv_buf_release(&entries->items[i].key);
}

static struct kv_slice key_at(const struct entries *entries, size_t i) {
  return kv_buf_slice(&entries->items[i].key);
}

/* Gives false when the builder refuses them, which it does when they do not ascend. */
static bool build(const struct entries *entries, struct kv_block_builder *builder,
                  struct kv_slice *block) {
  kv_block_builder_init(builder);
  kv_status status = KV_OK;
  for (size_t i = 0; i < entries->count && !status; i++) {
    struct kv_slice key = key_at(entries, i);
    struct kv_slice value = entries->items[i].value;
    uint64_t hash = kv_hash_key(key);
    status = entries->items[i].apart
                 ? kv_block_builder_add_apart(builder, key, hash, value, NULL)
                 : kv_block_builder_add(builder, key, hash, value, entries->items[i].deleted, NULL);
  }
  size_t size = kv_block_builder_size(builder);
  if (!status) status = kv_block_builder_finish(builder, block, NULL);
  ck_assert(status == KV_OK || status == KV_MISUSE);
  if (!status) ck_assert_uint_eq(block->size, size);
  return !status;
}

/* ---- What must hold of a block that the builder made */

static void expect_at(const struct kv_block_cursor *cursor, const struct entries *entries,
                      size_t i) {
  ck_assert_int_eq(cursor->valid, i < entries->count);
  if (!cursor->valid) return;
  ck_assert(kv_slice_equal(kv_buf_slice(&cursor->key), key_at(entries, i)));
  ck_assert(kv_slice_equal(cursor->value, entries->items[i].value));
  ck_assert_int_eq(cursor->deleted, entries->items[i].deleted);
  ck_assert_int_eq(cursor->apart, entries->items[i].apart);
}

static void expect_get(const struct kv_block *block, const struct entries *entries, size_t i) {
  enum kv_block_answer answer;
  struct kv_slice value, key = key_at(entries, i);
  ck_assert_int_eq(kv_block_get(block, key, kv_hash_key(key), &answer, &value, NULL), KV_OK);
  ck_assert_int_eq(answer, entries->items[i].deleted ? KV_BLOCK_DELETED
                           : entries->items[i].apart ? KV_BLOCK_APART
                                                     : KV_BLOCK_PUT);
  ck_assert(kv_slice_equal(value, entries->items[i].value));
}

/* The same at its place: at once and in steps. */
static void expect_get_at(const struct kv_block *block, const struct entries *entries, size_t i,
                          size_t offset) {
  enum kv_block_answer answer, stepped;
  struct kv_block_search search;
  struct kv_slice value, again, key = key_at(entries, i);
  ck_assert_int_eq(kv_block_get_at(block, key, offset, &answer, &value, NULL), KV_OK);
  ck_assert_int_ne(answer, KV_BLOCK_NONE);
  ck_assert(kv_slice_equal(value, entries->items[i].value));
  kv_block_search_begin_at(&search, block, key, offset);
  ck_assert_int_eq(search.step, KV_SEARCH_DONE);
  ck_assert_int_eq(kv_block_search_end(&search, &stepped, &again, NULL), KV_OK);
  ck_assert(stepped == answer && again.data == value.data);
}

static size_t lower_bound(const struct entries *entries, struct kv_slice key) {
  size_t i = 0;
  while (i < entries->count && kv_slice_compare(key_at(entries, i), key) < 0) i++;
  return i;
}

/* A key that may be there or not. */
static void expect_probe(const struct kv_block *block, struct kv_block_cursor *cursor,
                         const struct entries *entries, struct kv_slice key) {
  size_t i = lower_bound(entries, key);
  ck_assert_int_eq(kv_block_cursor_seek(cursor, key, NULL), KV_OK);
  expect_at(cursor, entries, i);
  if (i < entries->count && kv_slice_equal(key_at(entries, i), key)) return;
  enum kv_block_answer answer;
  struct kv_slice value;
  ck_assert_int_eq(kv_block_get(block, key, kv_hash_key(key), &answer, &value, NULL), KV_OK);
  ck_assert_int_eq(answer, KV_BLOCK_NONE);
}

static void expect_entries(struct kv_slice bytes, const struct entries *entries,
                           struct kv_slice probe) {
  struct kv_block block;
  struct kv_block_cursor cursor;
  ck_assert_int_eq(kv_block_init(&block, bytes, NULL), KV_OK);
  ck_assert_int_eq(kv_block_check_index(&block, NULL), KV_OK);
  kv_block_cursor_init(&cursor);
  kv_block_cursor_set(&cursor, &block);
  ck_assert_int_eq(kv_block_cursor_first(&cursor, NULL), KV_OK);
  for (size_t i = 0; i <= entries->count; i++) {
    expect_at(&cursor, entries, i);
    ck_assert_int_eq(kv_block_cursor_next(&cursor, NULL), KV_OK);
  }
  ck_assert_int_eq(kv_block_cursor_last(&cursor, NULL), KV_OK);
  for (size_t i = entries->count; i-- > 0;) {
    expect_at(&cursor, entries, i);
    expect_get(&block, entries, i);
    expect_get_at(&block, entries, i, cursor.offset);
    ck_assert_int_eq(kv_block_cursor_prev(&cursor, NULL), KV_OK);
  }
  ck_assert(!cursor.valid);
  expect_probe(&block, &cursor, entries, probe);
  kv_block_cursor_release(&cursor);
}

/* ---- Entries from the input: a key is some front of the one before and new bytes */

static void run_built(struct fuzz *in) {
  struct entries entries = {.count = 0};
  struct kv_slice probe = fuzz_slice(in);
  while (fuzz_left(in) && entries.count < ENTRIES_MAX) {
    uint8_t front[600];
    size_t size = 0;
    if (entries.count) {
      struct kv_slice last = key_at(&entries, entries.count - 1);
      size = fuzz_below(in, last.size < 256 ? last.size + 1 : 256);
      if (size) memcpy(front, last.data, size);
    }
    struct kv_slice more = fuzz_slice(in);
    if (more.size) memcpy(front + size, more.data, more.size);
    uint8_t kind = fuzz_byte(in) % 3;
    struct kv_slice value = kind == 1 ? kv_slice_of(NULL, 0) : fuzz_slice(in);
    struct kv_slice key = kv_slice_of(front, size + more.size);
    struct kv_apart apart;
    if (entries.count && kv_slice_compare(key_at(&entries, entries.count - 1), key) >= 0) continue;
    entries_add(&entries, key, value, kind == 1);
    entries.items[entries.count - 1].apart = kind == 2 && kv_apart_parse(value, &apart);
  }
  struct kv_block_builder builder;
  struct kv_slice block;
  if (entries.count) {
    ck_assert(build(&entries, &builder, &block));
    expect_entries(block, &entries, probe);
    kv_block_builder_release(&builder);
  }
  entries_release(&entries);
}

/* ---- Any bytes */

/* Walks forward, keeping what is seen; false after an error. *sound when keys ascend and each entry is what a
** lookup comes to. */
static bool walk(const struct kv_block *block, struct entries *entries, bool *sound) {
  struct kv_slice before = {0};
  *sound = true;
  struct kv_block_cursor cursor;
  kv_block_cursor_init(&cursor);
  kv_block_cursor_set(&cursor, block);
  kv_status status = kv_block_cursor_first(&cursor, NULL);
  while (!status && cursor.valid && entries->count < ENTRIES_MAX) {
    entries_add(entries, kv_buf_slice(&cursor.key), cursor.value, cursor.deleted);
    entries->items[entries->count - 1].apart = cursor.apart;
    struct kv_slice key = key_at(entries, entries->count - 1);
    *sound &= entries->count == 1 || kv_slice_compare(before, key) < 0;
    *sound &= kv_block_cursor_leads_here(&cursor, before, kv_hash_key(key));
    before = key;
    status = kv_block_cursor_next(&cursor, NULL);
  }
  ck_assert(status == KV_OK || status == KV_CORRUPT);
  bool whole = !status && !cursor.valid;
  kv_block_cursor_release(&cursor);
  return whole;
}

/* Each entry once: no order of restarts makes a walk long. */
static void expect_short_walk(const struct kv_block *block, bool backward) {
  struct kv_block_cursor cursor;
  size_t steps = 0;
  kv_block_cursor_init(&cursor);
  kv_block_cursor_set(&cursor, block);
  kv_status status =
      backward ? kv_block_cursor_last(&cursor, NULL) : kv_block_cursor_first(&cursor, NULL);
  for (; !status && cursor.valid; steps++)
    status = backward ? kv_block_cursor_prev(&cursor, NULL) : kv_block_cursor_next(&cursor, NULL);
  ck_assert(status == KV_OK || status == KV_CORRUPT);
  ck_assert_uint_le(steps, block->entries.size / ENTRY_BYTES_MIN);
  kv_block_cursor_release(&cursor);
}

/* Nothing is known but that it answers or fails, with a value inside of the block. */
static void look_up(const struct kv_block *block, struct kv_slice key) {
  enum kv_block_answer answer;
  struct kv_slice value = {0};
  struct kv_block_cursor cursor;
  kv_status status = kv_block_get(block, key, kv_hash_key(key), &answer, &value, NULL);
  ck_assert(status == KV_OK || status == KV_CORRUPT);
  if (!status && (answer == KV_BLOCK_PUT || answer == KV_BLOCK_APART) && value.size)
    ck_assert(value.data >= block->entries.data &&
              value.data + value.size <= block->entries.data + block->entries.size);
  for (size_t offset = 0; offset <= block->entries.size; offset += 1 + key.size) {
    status = kv_block_get_at(block, key, offset, &answer, &value, NULL);
    ck_assert(status == KV_OK || status == KV_CORRUPT);
  }
  kv_block_cursor_init(&cursor);
  kv_block_cursor_set(&cursor, block);
  status = kv_block_cursor_seek(&cursor, key, NULL);
  ck_assert(status == KV_OK || status == KV_CORRUPT);
  kv_block_cursor_release(&cursor);
}

/* Whatever the entries are, an index that can be made is a sound one. */
static void expect_index(const struct kv_block *block) {
  struct kv_block indexed;
  struct kv_buf infos;
  kv_buf_init(&infos);
  if (kv_block_list_keys(block, &infos, NULL) == KV_OK) {
    size_t size = kv_block_indexed_size(block, &infos);
    uint8_t *bytes = malloc(size);
    kv_block_put_index(block, &infos, bytes);
    ck_assert_int_eq(kv_block_init(&indexed, kv_slice_of(bytes, size), NULL), KV_OK);
    ck_assert_int_eq(kv_block_check_index(&indexed, NULL), KV_OK);
    free(bytes);
  }
  kv_buf_release(&infos);
}

static void run_bytes(struct fuzz *in) {
  struct kv_slice probe = fuzz_slice(in), bytes = fuzz_rest(in);
  struct kv_block block;
  struct entries entries = {.count = 0};
  struct kv_block_builder builder;
  struct kv_slice again;
  if (kv_block_init(&block, bytes, NULL)) return;
  (void)!kv_block_check_index(&block, NULL);
  if (kv_block_wants_index(&block)) expect_index(&block);
  bool sound, whole = walk(&block, &entries, &sound);
  for (size_t i = 0; whole && sound && i < entries.count; i++) expect_get(&block, &entries, i);
  expect_short_walk(&block, false);
  expect_short_walk(&block, true);
  look_up(&block, probe);
  for (size_t i = 0; i < entries.count; i++) look_up(&block, key_at(&entries, i));
  if (whole) {
    bool built = build(&entries, &builder, &again);
    if (built && kv_slice_equal(bytes, again)) expect_entries(bytes, &entries, probe);
    kv_block_builder_release(&builder);
  }
  entries_release(&entries);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct fuzz in = fuzz_begin(data, size);
  if (fuzz_byte(&in) & 1) {
    run_bytes(&in);
  } else {
    run_built(&in);
  }
  return 0;
}

/* ---- Seeds: blocks with one and with several restarts */

static void seed_block(size_t count, size_t value_size) {
  struct entries entries = {.count = 0};
  struct kv_block_builder builder;
  struct kv_slice block;
  struct kv_buf input;
  uint8_t value[64] = {0};
  for (size_t i = 0; i < count; i++) {
    uint8_t key[3] = {'k', (uint8_t)(i / 4), (uint8_t)(i % 4)};
    bool deleted = i % 5 == 2;
    entries_add(&entries, kv_slice_of(key, sizeof key - (i % 4 == 0)),
                kv_slice_of(value, deleted ? 0 : value_size), deleted);
  }
  ck_assert(build(&entries, &builder, &block));
  kv_buf_init(&input);
  kv_buf_append_byte(&input, 1);
  fuzz_put_slice(&input, "k\1\1", 3);
  kv_buf_append(&input, block.data, block.size);
  fuzz_seed(kv_buf_slice(&input));
  kv_buf_release(&input);
  kv_block_builder_release(&builder);
  entries_release(&entries);
}

void fuzz_seeds(void) {
  seed_block(1, 0);
  seed_block(5, 3);
  seed_block(40, 1);
  seed_block(3, 60);
  static const char built[] = "\0\2kb\0\1a\0\1v\1\2ab\1\0\1k\0\0\1\1b\0\3abc\2\1c\0\0";
  fuzz_seed(kv_slice_of(built, sizeof built - 1));
}
