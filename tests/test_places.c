/* Places: parts that stay where they are, chunks, walks, marks and rewinds, bounds, failing allocations. */
#include "places.h"

#include <string.h>

#include "harness.h"
#include "mem.h"

/* ck_assert for hot loops: that one writes to the runner's pipe each time. */
static void must(bool condition) {
  if (!condition) ck_abort();
}

static uint32_t add(struct kv_places *places, size_t size) {
  uint32_t place = KV_PLACE_NONE;
  must(kv_places_add(places, size, &place, NULL) == KV_OK);
  return place;
}

static uint8_t *fill(struct kv_places *places, uint32_t place, uint8_t byte, size_t size) {
  return memset(kv_place_at(places, place), byte, size);
}

static bool all_are(const uint8_t *bytes, size_t size, uint8_t byte) {
  for (size_t i = 0; i < size; i++) {
    if (bytes[i] != byte) return false;
  }
  return true;
}

static void free_all(struct kv_places *places) {
  kv_places_release(places);
  ck_assert_uint_eq(places->bytes, 0);
  ck_assert_uint_eq(places->end, KV_PLACE_FIRST);
  ck_assert_int_eq(kv_mem_live_blocks(), 0);
}

START_TEST(release_of_unused_does_nothing) {
  struct kv_places places;
  kv_places_init(&places);
  ck_assert_uint_eq(places.bytes, 0);
  kv_places_rewind(&places, places.end);
  kv_places_release(&places);
  ck_assert_uint_eq(kv_places_from(&places, KV_PLACE_FIRST), places.end);
  free_all(&places);
}
END_TEST

/* Every part is filled with its own byte; at the end all must stand, and a walk must meet each in turn. */
START_TEST(parts_stay_good_and_are_walked_in_turn) {
  enum { N = 3000 };
  static uint32_t at[N];
  static uint8_t *parts[N];
  static size_t sizes[N];
  struct harness_random random;
  struct kv_places places;
  kv_places_init(&places);
  harness_seed(&random, 11);
  for (int i = 0; i < N; i++) {
    sizes[i] = 1 + harness_below(&random, i % 50 ? 300 : 20000 + (size_t)i * 10);
    at[i] = add(&places, sizes[i]);
    ck_assert_uint_ge(at[i], i ? at[i - 1] + 1 : KV_PLACE_FIRST);
    parts[i] = fill(&places, at[i], i & 0xff, sizes[i]);
    must((uintptr_t)parts[i] % KV_PLACE_BYTES == 0);
  }
  uint32_t place = kv_places_from(&places, KV_PLACE_FIRST);
  for (int i = 0; i < N; i++) {
    must(kv_place_at(&places, at[i]) == parts[i]);
    must(all_are(parts[i], sizes[i], i & 0xff));
    must(place == at[i]);
    place = kv_places_next(&places, place, sizes[i]);
  }
  ck_assert_uint_eq(place, places.end);
  free_all(&places);
}
END_TEST

START_TEST(chunks_are_an_eighth_of_the_whole_at_most) {
  struct kv_places places;
  size_t seen = 0;
  int chunks = 0;
  kv_places_init(&places);
  while (places.bytes < (size_t)8 << 20) {
    add(&places, 64);
    if (places.bytes == seen) continue;
    size_t chunk = places.bytes - seen;
    ck_assert_uint_ge(chunk, 2048);
    if (seen) ck_assert_uint_le(chunk, (seen + 16384) / 8 + 64);
    seen = places.bytes;
    chunks++;
  }
  ck_assert_int_lt(chunks, 90);
  free_all(&places);
}
END_TEST

START_TEST(a_large_part_has_a_chunk_of_its_size) {
  struct kv_places places;
  size_t size = (size_t)3 << 20;
  kv_places_init(&places);
  uint8_t *large = fill(&places, add(&places, size), 7, size);
  ck_assert_uint_lt(places.bytes, size + 100);
  fill(&places, add(&places, 8), 8, 8);
  ck_assert_uint_eq(large[size - 1], 7);
  ck_assert_uint_lt(places.end, KV_PLACE_FIRST + 1024);
  free_all(&places);
}
END_TEST

/* Each takes no more places than a chunk has: 16 GiB of values fit, whatever their size. */
START_TEST(large_parts_take_few_places) {
  struct kv_places places;
  size_t size = (size_t)1 << 20, total = 0;
  kv_places_init(&places);
  for (int i = 0; i < 100; i++, total += size) add(&places, size);
  ck_assert_uint_lt((places.end - KV_PLACE_FIRST) * KV_PLACE_BYTES, total);
  ck_assert_uint_lt(places.bytes, total + total / 4);
  free_all(&places);
}
END_TEST

START_TEST(the_limit_refuses_and_changes_nothing) {
  struct kv_places places;
  struct kv_err err;
  uint32_t place = 99;
  kv_places_init(&places);
  places.limit = KV_PLACE_FIRST + 10;
  add(&places, 36);
  size_t bytes = places.bytes;
  ck_assert_int_eq(kv_places_add(&places, 5, &place, &err), KV_MISUSE);
  ck_assert_ptr_nonnull(strstr(err.text, "16 GiB"));
  ck_assert_int_eq(kv_places_add(&places, (size_t)1 << 40, &place, &err), KV_MISUSE);
  ck_assert_uint_eq(place, 99);
  ck_assert_uint_eq(places.bytes, bytes);
  ck_assert_uint_eq(add(&places, 4), KV_PLACE_FIRST + 9);
  free_all(&places);
}
END_TEST

/* The last chunk ends at 2^32. */
START_TEST(chunks_of_the_highest_places) {
  ck_assert_uint_eq(kv_place_chunk(KV_PLACE_FIRST), 0);
  ck_assert_uint_eq(kv_place_chunk(KV_PLACE_FIRST + 511), 0);
  ck_assert_uint_eq(kv_place_chunk(KV_PLACE_FIRST + 512), 1);
  ck_assert_uint_eq(kv_place_chunk(2 * KV_PLACE_FIRST - 1), 7);
  ck_assert_uint_eq(kv_place_chunk(2 * KV_PLACE_FIRST), 8);
  ck_assert_uint_eq(kv_place_chunk(UINT32_MAX), KV_PLACES_CHUNKS - 1);
}
END_TEST

/* An end that was in the rest of a chunk, which a later part had no room in, is an end there again. */
START_TEST(rewind_frees_what_came_after_the_mark) {
  struct kv_places places;
  kv_places_init(&places);
  uint8_t *kept = fill(&places, add(&places, 100), 5, 100);
  uint32_t mark = places.end;
  size_t bytes = places.bytes;
  uint32_t next = add(&places, 16);
  ck_assert_uint_eq(next, mark);
  kv_places_rewind(&places, mark);
  uint32_t large = add(&places, 3000);
  ck_assert_uint_gt(large, mark);
  ck_assert_uint_eq(kv_places_from(&places, mark), large);
  for (int i = 0; i < 1000; i++) add(&places, 500);
  ck_assert_uint_gt(places.bytes, bytes);
  kv_places_rewind(&places, mark);
  ck_assert_uint_eq(places.bytes, bytes);
  ck_assert_uint_eq(kept[99], 5);
  ck_assert_uint_eq(add(&places, 16), next);
  free_all(&places);
}
END_TEST

START_TEST(nested_marks_rewind_in_turn) {
  struct kv_places places;
  uint32_t marks[50], parts[50];
  size_t bytes[50];
  kv_places_init(&places);
  for (int i = 0; i < 50; i++) {
    marks[i] = places.end;
    bytes[i] = places.bytes;
    parts[i] = add(&places, i % 3 ? 700 : 2048);
    fill(&places, parts[i], (uint8_t)i, 700);
  }
  for (int i = 49; i >= 0; i--) {
    kv_places_rewind(&places, marks[i]);
    ck_assert_uint_eq(places.end, marks[i]);
    ck_assert_uint_eq(places.bytes, bytes[i]);
    if (i) ck_assert_uint_eq(kv_place_at(&places, parts[i - 1])[699], i - 1);
  }
  free_all(&places);
}
END_TEST

START_TEST(failed_allocation_changes_nothing) {
  struct kv_places places;
  uint32_t place;
  kv_places_init(&places);
  kv_mem_fail_nth(1, 0);
  ck_assert_int_eq(kv_places_add(&places, 10, &place, NULL), KV_NOMEM);
  ck_assert_uint_eq(places.bytes, 0);
  uint32_t first = add(&places, 10);
  size_t bytes = places.bytes;
  kv_mem_fail_nth(1, 0);
  ck_assert_int_eq(kv_places_add(&places, 100000, &place, NULL), KV_NOMEM);
  kv_mem_fail_nth(0, 0);
  ck_assert_uint_eq(places.bytes, bytes);
  ck_assert_uint_eq(add(&places, 8), first + 3);
  free_all(&places);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("places");
  TCase *tests = tcase_create("places");
  tcase_add_test(tests, release_of_unused_does_nothing);
  tcase_add_test(tests, parts_stay_good_and_are_walked_in_turn);
  tcase_add_test(tests, chunks_are_an_eighth_of_the_whole_at_most);
  tcase_add_test(tests, a_large_part_has_a_chunk_of_its_size);
  tcase_add_test(tests, large_parts_take_few_places);
  tcase_add_test(tests, the_limit_refuses_and_changes_nothing);
  tcase_add_test(tests, chunks_of_the_highest_places);
  tcase_add_test(tests, rewind_frees_what_came_after_the_mark);
  tcase_add_test(tests, nested_marks_rewind_in_turn);
  tcase_add_test(tests, failed_allocation_changes_nothing);
  suite_add_tcase(suite, tests);
  return harness_run(suite);
}
