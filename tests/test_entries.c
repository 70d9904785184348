/* Entries: what they hold, the index under good, bad and equal tags, rollbacks as exact opposites of pushes,
** bounded moves, failing allocations. */
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

static void setup(struct kv_entries *entries) {
  kv_entries_init(entries);
}

static void teardown(struct kv_entries *entries) {
  kv_entries_release(entries);
  ck_assert_uint_eq(kv_entries_bytes(entries), 0);
  ck_assert_int_eq(kv_mem_live_blocks(), 0);
}

static struct kv_slice number_key(const uint64_t *number) {
  return kv_slice_of(number, sizeof *number);
}

/* Pushes a key that is a number, under a tag of the test's choice. */
static kv_status push(struct kv_entries *entries, uint64_t number, uint32_t tag) {
  enum kv_entry_before before;
  return kv_entries_push(entries, (uint64_t)tag << 32, number_key(&number), kv_slice_of("v", 1),
                         false, &before, NULL);
}

static uint32_t find(const struct kv_entries *entries, uint64_t number, uint32_t tag) {
  struct kv_entry entry;
  uint32_t place = kv_entries_find(entries, number_key(&number), tag, &entry);
  if (place != KV_PLACE_NONE) must(kv_slice_equal(entry.key, number_key(&number)));
  return place;
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

/* What rollbacks ask for; the tag function is the test's. */
static tag_fn hashed_by;
static uint64_t test_hash(struct kv_slice key) {
  uint64_t number;
  memcpy(&number, key.data, sizeof number);
  return (uint64_t)hashed_by(number) << 32;
}

static void use_tags(struct kv_entries *entries, tag_fn tag_of) {
  hashed_by = tag_of;
  entries->hash = test_hash;
}

START_TEST(empty_finds_nothing) {
  struct kv_entries entries;
  setup(&entries);
  ck_assert_uint_eq(find(&entries, 7, 7), KV_PLACE_NONE);
  kv_entries_rollback(&entries, kv_entries_mark(&entries), false);
  kv_entries_rollback(&entries, (struct kv_entries_mark){0}, true);
  teardown(&entries);
}
END_TEST

static void expect_entry(struct kv_entries *entries, struct kv_slice key, struct kv_slice value,
                         bool deleted, uint32_t older) {
  struct kv_entry entry;
  uint32_t place = kv_entries_find(entries, key, kv_entry_tag(kv_hash_key(key)), &entry);
  ck_assert_uint_ne(place, KV_PLACE_NONE);
  ck_assert(kv_slice_equal(entry.key, key));
  ck_assert(kv_slice_equal(entry.value, value));
  ck_assert_int_eq(entry.deleted, deleted);
  ck_assert_uint_eq(entry.older, older);
  ck_assert(!entry.undone);
}

/* Sizes on both sides of what a header's numbers take one, two and three bytes for. */
START_TEST(entries_read_as_they_were_pushed) {
  static uint8_t bytes[70000];
  const size_t key_sizes[] = {0, 1, 31, 32, 4095, 4096, 65536};
  const size_t value_sizes[] = {0, 1, 63, 64, 8191, 8192, 70000};
  struct kv_entries entries;
  setup(&entries);
  for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)(i * 37 + i / 256);
  for (size_t k = 0; k < 7; k++) {
    struct kv_slice key = {bytes, key_sizes[k]}, none = {NULL, 0};
    uint64_t hash = kv_hash_key(key);
    uint32_t older = KV_PLACE_NONE;
    struct kv_entry found;
    for (size_t v = 0; v < 7; v++) {
      struct kv_slice value = {bytes + 1, value_sizes[v]};
      enum kv_entry_before before;
      value.size = value.size < sizeof bytes ? value.size : sizeof bytes - 1;
      must(kv_entries_push(&entries, hash, key, value, false, &before, NULL) == KV_OK);
      ck_assert_int_eq(before, v ? KV_ENTRY_OVER_TOMBSTONE : KV_ENTRY_NEW);
      expect_entry(&entries, key, value, false, older);
      older = kv_entries_find(&entries, key, kv_entry_tag(hash), &found);
      must(kv_entries_push(&entries, hash, key, none, true, &before, NULL) == KV_OK);
      ck_assert_int_eq(before, KV_ENTRY_OVER_PUT);
      expect_entry(&entries, key, none, true, older);
      older = kv_entries_find(&entries, key, kv_entry_tag(hash), &found);
    }
    ck_assert_uint_eq(entries.live, k + 1);
  }
  teardown(&entries);
}
END_TEST

/* Numbers that recur, so that entries hang together by `older`; `newest` is the model. */
static void check_all(const struct kv_entries *entries, const uint32_t *newest, uint64_t numbers,
                      tag_fn tag_of) {
  uint32_t live = 0;
  for (uint64_t n = 0; n < numbers; n++) {
    must(find(entries, n, tag_of(n)) == newest[n]);
    live += newest[n] != KV_PLACE_NONE;
  }
  ck_assert_uint_eq(entries->live, live);
  ck_assert_uint_eq(entries->live_bytes, live * (sizeof(uint64_t) + 1));
}

enum { NUMBERS = 1500, STEPS = 6000 };
struct pushed {
  uint64_t number;
  uint32_t older;
  struct kv_entries_mark before;
};

/* The walk shows exactly what is pushed and not undone, oldest first. */
static void check_walk(const struct kv_entries *entries, const struct pushed *pushed,
                       uint32_t count) {
  struct kv_entries_walk walk = kv_entries_walk(entries, KV_PLACE_FIRST);
  for (uint32_t i = 0; i < count; i++) {
    must(kv_entries_step(&walk));
    must(kv_slice_equal(walk.entry.key, number_key(&pushed[i].number)));
    must(walk.entry.older == pushed[i].older);
  }
  must(!kv_entries_step(&walk));
}

START_TEST(rollbacks_undo_pushes_exactly_under_any_tags) {
  tag_fn tag_of = tag_fns[_i % 4];
  bool keep = _i / 4;
  uint64_t seed = harness_seed_env(11);
  struct harness_random random;
  harness_seed(&random, seed);
  struct kv_entries entries;
  setup(&entries);
  use_tags(&entries, tag_of);
  static uint32_t newest[NUMBERS];
  static struct pushed pushed[STEPS];
  memset(newest, 0, sizeof newest);
  uint32_t count = 0;
  for (int step = 0; step < STEPS; step++) {
    if (harness_below(&random, 8) || !count) {
      uint64_t n = harness_below(&random, NUMBERS);
      pushed[count++] = (struct pushed){n, newest[n], kv_entries_mark(&entries)};
      must(push(&entries, n, tag_of(n)) == KV_OK);
      uint32_t place = find(&entries, n, tag_of(n));
      ck_assert_msg(kv_entries_at(&entries, place).older == newest[n], "seed %lu", seed);
      newest[n] = place;
    } else {
      uint64_t undone = 1 + harness_below(&random, harness_below(&random, 9) ? 12 : 600);
      uint32_t to = undone < count ? count - (uint32_t)undone : 0;
      kv_entries_rollback(&entries, pushed[to].before, keep && harness_below(&random, 3));
      while (count > to) {
        count--;
        newest[pushed[count].number] = pushed[count].older;
      }
    }
    ck_assert_uint_eq(entries.count, count);
    if (step % 250 == 0) check_all(&entries, newest, NUMBERS, tag_of);
    if (step % 250 == 0) check_walk(&entries, pushed, count);
  }
  check_all(&entries, newest, NUMBERS, tag_of);
  check_walk(&entries, pushed, count);
  kv_entries_rollback(&entries, (struct kv_entries_mark){0}, false);
  ck_assert_uint_eq(kv_entries_bytes(&entries), 0);
  memset(newest, 0, sizeof newest);
  check_all(&entries, newest, NUMBERS, tag_of);
  teardown(&entries);
}
END_TEST

/* One by one, so that slots move back into every kind of gap. */
START_TEST(every_slot_taken_out_alone_leaves_the_others_found) {
  enum { COUNT = 600 };
  tag_fn tag_of = tag_fns[_i];
  struct kv_slots slots;
  struct kv_slots_walk walk;
  kv_slots_init(&slots);
  for (uint32_t n = 1; n <= COUNT; n++) must(kv_slots_insert(&slots, tag_of(n), n));
  for (uint32_t out = 1; out <= COUNT; out++) {
    uint32_t victim = out * 7 % COUNT + 1; /* each once: 7 and COUNT share no divisor */
    uint32_t *slot = kv_slots_first(&slots, tag_of(victim), &walk);
    while (slot && *slot != victim) slot = kv_slots_next(&walk);
    must(slot != NULL);
    kv_slots_remove(&slots, &walk, slot);
    ck_assert_uint_eq(slots.used, COUNT - out);
    for (uint32_t n = 1; n <= COUNT; n++) {
      bool gone = false;
      for (uint32_t i = 1; i <= out && !gone; i++) gone = i * 7 % COUNT + 1 == n;
      slot = kv_slots_first(&slots, tag_of(n), &walk);
      while (slot && *slot != n) slot = kv_slots_next(&walk);
      must(gone == !slot);
      if (out % 50) n += 13;
    }
  }
  kv_slots_release(&slots);
  ck_assert_int_eq(kv_mem_live_blocks(), 0);
}
END_TEST

START_TEST(equal_tags_do_not_inflate_the_directory) {
  struct kv_entries entries;
  setup(&entries);
  for (uint64_t n = 0; n < 4000; n++) ck_assert_int_eq(push(&entries, n, 42), KV_OK);
  ck_assert_uint_le(entries.slots.depth, 6);
  ck_assert_uint_lt(entries.slots.bytes, 400000);
  teardown(&entries);
}
END_TEST

START_TEST(a_million_pushes_move_one_segment_at_most) {
  enum { COUNT = 1000000 };
  struct kv_entries entries;
  setup(&entries);
  size_t most = 0;
  size_t index_bytes_sum = 0, samples = 0;
  for (uint64_t n = 0; n < COUNT; n++) {
    must(push(&entries, n, good_tag(n)) == KV_OK);
    if (entries.slots.moved > most) most = entries.slots.moved;
    if (n >= 100000 && n % 50000 == 0) {
      index_bytes_sum += entries.slots.bytes / (n + 1);
      samples++;
    }
  }
  ck_assert_uint_gt(most, 0);
  ck_assert_uint_le(most, SEGMENT_MOVES_MAX);
  ck_assert_uint_le(index_bytes_sum / samples, 12);
  for (uint64_t n = 0; n < COUNT; n += 997) {
    uint32_t place = find(&entries, n, good_tag(n));
    ck_assert(kv_slice_equal(kv_entries_at(&entries, place).key, number_key(&n)));
  }
  ck_assert_uint_eq(find(&entries, COUNT, good_tag(COUNT)), KV_PLACE_NONE);
  teardown(&entries);
}
END_TEST

START_TEST(limit_refuses_and_changes_nothing) {
  struct kv_entries entries;
  setup(&entries);
  for (uint64_t n = 0; n < 19; n++) ck_assert_int_eq(push(&entries, n, good_tag(n)), KV_OK);
  struct kv_entries_mark mark = kv_entries_mark(&entries);
  ck_assert_int_eq(push(&entries, 19, good_tag(19)), KV_OK);
  uint32_t third = find(&entries, 3, good_tag(3));
  entries.places.limit = entries.places.end + 1;
  ck_assert_int_eq(push(&entries, 20, good_tag(20)), KV_MISUSE);
  ck_assert_int_eq(push(&entries, 3, good_tag(3)), KV_MISUSE);
  ck_assert_uint_eq(find(&entries, 20, good_tag(20)), KV_PLACE_NONE);
  ck_assert_uint_eq(find(&entries, 3, good_tag(3)), third);
  entries.places.limit += 2;
  kv_entries_rollback(&entries, mark, false);
  ck_assert_int_eq(push(&entries, 3, good_tag(3)), KV_OK);
  ck_assert_uint_eq(find(&entries, 3, good_tag(3)), mark.place);
  teardown(&entries);
}
END_TEST

/* Each push meets a failing allocation first, wherever it makes one. */
START_TEST(failed_allocation_changes_nothing) {
  enum { COUNT = 3000 };
  tag_fn tag_of = tag_fns[_i];
  static uint32_t places[COUNT];
  struct kv_entries entries;
  setup(&entries);
  int failures = 0;
  for (uint64_t n = 0; n < COUNT; n++) {
    for (uint64_t nth = 1;; nth++) {
      kv_mem_fail_nth(nth, 0);
      kv_status status = push(&entries, n, tag_of(n));
      kv_mem_fail_nth(0, 0);
      if (status == KV_OK) break;
      failures++;
      ck_assert_int_eq(status, KV_NOMEM);
      ck_assert_uint_eq(entries.count, n);
      ck_assert_uint_eq(find(&entries, n, tag_of(n)), KV_PLACE_NONE);
      if (n) ck_assert_uint_eq(find(&entries, n - 1, tag_of(n - 1)), places[n - 1]);
    }
    places[n] = find(&entries, n, tag_of(n));
  }
  ck_assert_int_gt(failures, 10);
  for (uint64_t n = 0; n < COUNT; n++) ck_assert_uint_eq(find(&entries, n, tag_of(n)), places[n]);
  teardown(&entries);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("entries");
  TCase *tests = tcase_create("entries");
  tcase_set_timeout(tests, 60);
  tcase_add_test(tests, empty_finds_nothing);
  tcase_add_test(tests, entries_read_as_they_were_pushed);
  tcase_add_loop_test(tests, rollbacks_undo_pushes_exactly_under_any_tags, 0, 8);
  tcase_add_loop_test(tests, every_slot_taken_out_alone_leaves_the_others_found, 0, 4);
  tcase_add_test(tests, equal_tags_do_not_inflate_the_directory);
  tcase_add_test(tests, a_million_pushes_move_one_segment_at_most);
  tcase_add_test(tests, limit_refuses_and_changes_nothing);
  tcase_add_loop_test(tests, failed_allocation_changes_nothing, 0, 4);
  suite_add_tcase(suite, tests);
  return harness_run(suite);
}
