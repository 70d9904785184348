/* Entries: positions, the index under good, bad and equal tags, pops as exact opposites of pushes, bounded
** moves, failing allocations. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "entries.h"
#include "harness.h"
#include "hash.h"
#include "mem.h"

#define SEGMENT_MOVES_MAX 768u

/* ck_assert for hot loops: that one writes to the runner's pipe each time. */
static void must(bool condition) {
  if (!condition) ck_abort();
}

struct fixture {
  struct kv_entries entries;
  struct kv_arena arena;
};

static void setup(struct fixture *f) {
  kv_entries_init(&f->entries);
  kv_arena_init(&f->arena);
}

static void teardown(struct fixture *f) {
  kv_entries_release(&f->entries);
  kv_arena_release(&f->arena);
  ck_assert_int_eq(kv_mem_live_blocks(), 0);
}

static struct kv_slice number_key(const uint64_t *number) {
  return kv_slice_of(number, sizeof *number);
}

/* Pushes a key that is a number, under a tag of the test's choice. */
static kv_status push(struct fixture *f, uint64_t number, uint32_t tag) {
  struct kv_slice value = kv_slice_of("v", 1);
  struct kv_entry *entry = kv_arena_alloc(&f->arena, kv_entry_bytes(number_key(&number), value));
  if (!entry) return KV_NOMEM;
  kv_entry_fill(entry, (uint64_t)tag << 32, number_key(&number), value, false);
  return kv_entries_push(&f->entries, entry, NULL);
}

static uint32_t find(const struct fixture *f, uint64_t number, uint32_t tag) {
  return kv_entries_find(&f->entries, number_key(&number), tag);
}

static uint32_t good_tag(uint64_t number) {
  return kv_entry_tag(kv_hash_key(number_key(&number)));
}
static uint32_t equal_tag(uint64_t number) {
  (void)number;
  return 0xabcdef01;
}
/* All tags begin alike: early splits leave one half empty. */
static uint32_t low_tag(uint64_t number) {
  return (uint32_t)(number * 2654435761u) >> 20;
}
/* All tags end alike. */
static uint32_t high_tag(uint64_t number) {
  return (uint32_t)(number * 2654435761u) & 0xfff00000;
}

typedef uint32_t (*tag_fn)(uint64_t number);
static const tag_fn tag_fns[] = {good_tag, equal_tag, low_tag, high_tag};

START_TEST(empty_finds_nothing) {
  struct fixture f;
  setup(&f);
  ck_assert_uint_eq(find(&f, 7, 7), KV_NO_POSITION);
  teardown(&f);
}
END_TEST

START_TEST(entry_keeps_what_it_was_filled_with) {
  uint64_t memory[8];
  struct kv_entry *entry = (struct kv_entry *)memory;
  kv_entry_fill(entry, 0x1122334455667788u, kv_slice_of("key", 3), kv_slice_of("value", 5), false);
  ck_assert_uint_eq(entry->tag, 0x11223344);
  ck_assert_uint_eq(entry->older, KV_NO_POSITION);
  ck_assert(kv_slice_equal(kv_entry_key(entry), kv_slice_of("key", 3)));
  ck_assert(kv_slice_equal(kv_entry_value(entry), kv_slice_of("value", 5)));
  ck_assert(!entry->deleted);
  kv_entry_fill(entry, 0, kv_slice_of(NULL, 0), kv_slice_of(NULL, 0), true);
  ck_assert_uint_eq(kv_entry_key(entry).size, 0);
  ck_assert_uint_eq(kv_entry_value(entry).size, 0);
  ck_assert(entry->deleted);
}
END_TEST

/* Numbers that recur, so that positions hang together by `older`; `newest` is the model. */
static void check_all(const struct fixture *f, const uint32_t *newest, uint64_t numbers,
                      tag_fn tag_of) {
  uint32_t live = 0;
  for (uint64_t n = 0; n < numbers; n++) {
    must(find(f, n, tag_of(n)) == newest[n]);
    live += newest[n] != KV_NO_POSITION;
  }
  ck_assert_uint_eq(f->entries.live, live);
}

START_TEST(pops_undo_pushes_exactly_under_any_tags) {
  tag_fn tag_of = tag_fns[_i];
  enum { NUMBERS = 1500, STEPS = 6000 };
  uint64_t seed = harness_seed_env(11);
  struct harness_random random;
  harness_seed(&random, seed);
  struct fixture f;
  setup(&f);
  static uint32_t newest[NUMBERS];
  static uint64_t pushed[STEPS];
  memset(newest, 0xff, sizeof newest);
  uint32_t count = 0;
  for (int step = 0; step < STEPS; step++) {
    if (harness_below(&random, 4) || !count) {
      uint64_t n = harness_below(&random, NUMBERS);
      must(push(&f, n, tag_of(n)) == KV_OK);
      ck_assert_msg(kv_entries_at(&f.entries, count)->older == newest[n], "seed %lu", seed);
      newest[n] = count;
      pushed[count++] = n;
    } else {
      for (uint64_t pops = 1 + harness_below(&random, 10); pops && count; pops--) {
        uint64_t n = pushed[--count];
        newest[n] = kv_entries_at(&f.entries, count)->older;
        kv_entries_pop(&f.entries);
      }
    }
    ck_assert_uint_eq(f.entries.count, count);
    if (step % 500 == 0) check_all(&f, newest, NUMBERS, tag_of);
  }
  check_all(&f, newest, NUMBERS, tag_of);
  while (f.entries.count) kv_entries_pop(&f.entries);
  memset(newest, 0xff, sizeof newest);
  check_all(&f, newest, NUMBERS, tag_of);
  teardown(&f);
}
END_TEST

START_TEST(equal_tags_do_not_inflate_the_directory) {
  struct fixture f;
  setup(&f);
  for (uint64_t n = 0; n < 4000; n++) ck_assert_int_eq(push(&f, n, 42), KV_OK);
  ck_assert_uint_le(f.entries.depth, 6);
  ck_assert_uint_lt(f.entries.bytes, 400000);
  teardown(&f);
}
END_TEST

START_TEST(a_million_pushes_move_one_segment_at_most) {
  enum { COUNT = 1000000 };
  struct fixture f;
  setup(&f);
  size_t most = 0;
  size_t index_bytes_sum = 0, samples = 0;
  for (uint64_t n = 0; n < COUNT; n++) {
    must(push(&f, n, good_tag(n)) == KV_OK);
    if (f.entries.moved > most) most = f.entries.moved;
    if (n >= 100000 && n % 50000 == 0) {
      size_t blocks = 64;
      while (blocks < n + 1) blocks *= 2;
      index_bytes_sum += (f.entries.bytes - blocks * sizeof(void *)) / (n + 1);
      samples++;
    }
  }
  ck_assert_uint_gt(most, 0);
  ck_assert_uint_le(most, SEGMENT_MOVES_MAX);
  ck_assert_uint_le(index_bytes_sum / samples, 12);
  for (uint64_t n = 0; n < COUNT; n += 997) ck_assert_uint_eq(find(&f, n, good_tag(n)), n);
  ck_assert_uint_eq(find(&f, COUNT, good_tag(COUNT)), KV_NO_POSITION);
  teardown(&f);
}
END_TEST

START_TEST(limit_refuses_and_changes_nothing) {
  struct fixture f;
  setup(&f);
  f.entries.limit = 20;
  for (uint64_t n = 0; n < 20; n++) ck_assert_int_eq(push(&f, n, good_tag(n)), KV_OK);
  ck_assert_int_eq(push(&f, 20, good_tag(20)), KV_MISUSE);
  ck_assert_int_eq(push(&f, 3, good_tag(3)), KV_MISUSE);
  ck_assert_uint_eq(find(&f, 20, good_tag(20)), KV_NO_POSITION);
  ck_assert_uint_eq(find(&f, 3, good_tag(3)), 3);
  kv_entries_pop(&f.entries);
  ck_assert_int_eq(push(&f, 3, good_tag(3)), KV_OK);
  ck_assert_uint_eq(find(&f, 3, good_tag(3)), 19);
  teardown(&f);
}
END_TEST

/* Each push meets a failing allocation first, wherever it makes one. */
START_TEST(failed_allocation_changes_nothing) {
  enum { COUNT = 3000 };
  tag_fn tag_of = tag_fns[_i];
  struct fixture f;
  setup(&f);
  int failures = 0;
  for (uint64_t n = 0; n < COUNT; n++) {
    for (uint64_t nth = 1;; nth++) {
      kv_mem_fail_nth(nth, 0);
      kv_status status = push(&f, n, tag_of(n));
      kv_mem_fail_nth(0, 0);
      if (status == KV_OK) break;
      failures++;
      ck_assert_int_eq(status, KV_NOMEM);
      ck_assert_uint_eq(f.entries.count, n);
      ck_assert_uint_eq(find(&f, n, tag_of(n)), KV_NO_POSITION);
      if (n) ck_assert_uint_eq(find(&f, n - 1, tag_of(n - 1)), n - 1);
    }
  }
  ck_assert_int_gt(failures, 10);
  for (uint64_t n = 0; n < COUNT; n++) ck_assert_uint_eq(find(&f, n, tag_of(n)), n);
  teardown(&f);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("entries");
  TCase *tests = tcase_create("entries");
  tcase_set_timeout(tests, 60);
  tcase_add_test(tests, empty_finds_nothing);
  tcase_add_test(tests, entry_keeps_what_it_was_filled_with);
  tcase_add_loop_test(tests, pops_undo_pushes_exactly_under_any_tags, 0, 4);
  tcase_add_test(tests, equal_tags_do_not_inflate_the_directory);
  tcase_add_test(tests, a_million_pushes_move_one_segment_at_most);
  tcase_add_test(tests, limit_refuses_and_changes_nothing);
  tcase_add_loop_test(tests, failed_allocation_changes_nothing, 0, 4);
  suite_add_tcase(suite, tests);
  return harness_run(suite);
}
