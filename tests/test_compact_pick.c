/* What is merged: decisions by sizes (compact_pick.h). */
#include "compact_pick.h"
#include <string.h>

#include "harness.h"

enum { RUNS = 24 };

/* Sizes of level 0 from the newest, a 0 at the end; of levels 1 to 3, 0: not there. A budget of 1 lets level
** 1 have 16 bytes, level 2 160 and level 3 1,600. */
struct tree {
  uint64_t young[RUNS];
  uint64_t levels[3];
};

static struct kv_shape shape_of(const struct tree *tree, struct kv_run_size *runs) {
  struct kv_shape shape = {.memtable_bytes = 1, .runs = runs};
  for (size_t i = 0; i < RUNS && tree->young[i]; i++)
    runs[shape.run_count++] =
        (struct kv_run_size){.bytes = tree->young[i], .entries = tree->young[i]};
  for (uint32_t i = 0; i < 3; i++)
    if (tree->levels[i])
      runs[shape.run_count++] = (struct kv_run_size){
          .level = i + 1, .bytes = tree->levels[i], .entries = tree->levels[i]};
  return shape;
}

START_TEST(by_sizes) {
  const struct {
    struct tree tree;
    struct kv_pick want;
  } cases[] = {
      {{{0}, {0}}, {KV_PICK_NONE, 0, 0}},
      {{{1, 1, 1}, {0}}, {KV_PICK_NONE, 0, 0}},
      {{{1, 1, 1}, {16, 160, 90000}}, {KV_PICK_PUSH, 5, 1}},
      /* four alike, and all that are not larger than what is before them */
      {{{1, 1, 1, 1}, {0}}, {KV_PICK_DOWN, 0, 4}},
      {{{1, 1, 1, 1}, {10}}, {KV_PICK_TIER, 0, 4}},
      {{{1, 1, 1, 1}, {8}}, {KV_PICK_DOWN, 0, 4}},
      {{{1, 1, 1, 1, 9}, {0}}, {KV_PICK_TIER, 0, 4}},
      {{{1, 1, 1, 1, 4}, {0}}, {KV_PICK_DOWN, 0, 5}},
      {{{1, 3, 3, 3, 3}, {2}}, {KV_PICK_DOWN, 1, 4}},
      {{{1, 3, 9}, {0}}, {KV_PICK_NONE, 0, 0}},
      /* level 0 is as large as level 1 may be */
      {{{7, 8}, {16, 1}}, {KV_PICK_NONE, 0, 0}},
      {{{8, 8}, {16, 1}}, {KV_PICK_DOWN, 0, 2}},
      {{{1, 16}, {16, 1}}, {KV_PICK_PUSH, 1, 1}}, /* large by itself: in pieces */
      {{{20, 20, 20, 20}, {5}}, {KV_PICK_DOWN, 0, 4}},
      {{{20, 20, 20, 20}, {500}}, {KV_PICK_PUSH, 4, 1}},
      {{{20, 20, 20, 20}, {16, 1}}, {KV_PICK_DOWN, 0, 4}},
      /* the level that is too large by the most */
      {{{1}, {16, 160, 1600}}, {KV_PICK_NONE, 0, 0}},
      {{{1}, {17, 160, 1600}}, {KV_PICK_PUSH, 1, 1}},
      {{{1}, {17, 200, 1600}}, {KV_PICK_PUSH, 2, 1}},
      {{{1}, {16, 160, 1601}}, {KV_PICK_PUSH, 3, 1}},
      {{{1, 1, 1, 1}, {17, 160}}, {KV_PICK_PUSH, 4, 1}},
      /* many runs come first */
      {{{1, 1, 1, 1, 20, 20, 20, 20}, {900, 160}}, {KV_PICK_TIER, 0, 4}},
      {{{1, 2, 4, 20, 20, 20, 20, 90}, {900, 160}}, {KV_PICK_TIER, 3, 4}},
      {{{1, 1, 1, 20, 20, 20, 90}, {900, 160}}, {KV_PICK_PUSH, 7, 1}},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct kv_run_size runs[RUNS + 3];
    struct kv_shape shape = shape_of(&cases[i].tree, runs);
    struct kv_pick pick = kv_compact_pick(&shape);
    const struct kv_pick *want = &cases[i].want;
    ck_assert_msg(
        pick.kind == want->kind && (want->kind == KV_PICK_NONE ||
                                    (pick.first == want->first && pick.count == want->count)),
        "case %zu: %d %zu %zu", i, (int)pick.kind, pick.first, pick.count);
  }
}
END_TEST

START_TEST(tombstones_go_down) {
  struct kv_run_size runs[] = {{.level = 0, .bytes = 2, .entries = 100, .tombstones = 51},
                               {.level = 1, .bytes = 9, .entries = 800},
                               {.level = 2, .bytes = 9, .entries = 16}};
  struct kv_shape shape = {.memtable_bytes = 1, .runs = runs, .run_count = 3};
  ck_assert_int_eq(kv_compact_pick(&shape).kind, KV_PICK_DOWN);
  runs[0].tombstones = 50; /* not most of it */
  ck_assert_int_eq(kv_compact_pick(&shape).kind, KV_PICK_NONE);
  runs[0].tombstones = 51;
  runs[1].entries = 832; /* few beside what is below */
  ck_assert_int_eq(kv_compact_pick(&shape).kind, KV_PICK_NONE);
  runs[1].dense_bytes = 1;
  struct kv_pick pick = kv_compact_pick(&shape);
  ck_assert_int_eq(pick.kind, KV_PICK_PUSH);
  ck_assert_uint_eq(pick.first, 1);
  shape.run_count = 2; /* nothing older */
  ck_assert_int_eq(kv_compact_pick(&shape).kind, KV_PICK_NONE);
}
END_TEST

START_TEST(levels_have_room_for_ten_times_as_much) {
  ck_assert_uint_eq(kv_level_bytes_max(4 << 20, 1), 64 << 20);
  ck_assert_uint_eq(kv_level_bytes_max(4 << 20, 3), 100 * (64ull << 20));
  ck_assert_uint_ge(kv_level_bytes_max(1 << 30, 64), UINT64_MAX / 10); /* as much as there is */
  ck_assert_uint_eq(kv_level_for(4 << 20, 0), 1);
  ck_assert_uint_eq(kv_level_for(4 << 20, 64 << 20), 1);
  ck_assert_uint_eq(kv_level_for(4 << 20, (64 << 20) + 1), 2);
  ck_assert_uint_eq(kv_level_for(1 << 14, 6ull << 30), 6);
}
END_TEST

/* Flushes of one size, for as long as it takes to fill three levels; merging is done by sizes alone, nothing
** is overwritten. What is written for each flush stays bounded, and so do the runs of level 0. */
START_TEST(runs_and_rewriting_stay_bounded) {
  struct tree tree = {{0}, {0}};
  uint64_t flushes = 1500, written = 0;
  size_t most = 0;
  for (uint64_t i = 0; i < flushes; i++) {
    memmove(tree.young + 1, tree.young, (RUNS - 1) * sizeof *tree.young);
    tree.young[0] = 1;
    written++;
    for (int round = 0;; round++) {
      struct kv_run_size runs[RUNS + 3];
      struct kv_shape shape = shape_of(&tree, runs);
      struct kv_pick pick = kv_compact_pick(&shape);
      size_t young = 0;
      while (tree.young[young]) young++;
      if (young > most) most = young;
      if (pick.kind == KV_PICK_NONE) break;
      ck_assert_int_lt(round, 100);
      uint64_t bytes = 0;
      if (pick.kind == KV_PICK_PUSH) {
        ck_assert_uint_ge(pick.first, young);
        uint64_t *from = &tree.levels[runs[pick.first].level - 1];
        ck_assert_ptr_ne(from, &tree.levels[2]);
        uint64_t part = *from < 4 ? *from : 4; /* a file, and its share of the next level */
        written += part + from[1] * part / *from;
        *from -= part;
        from[1] += part;
        continue;
      }
      for (size_t j = 0; j < pick.count; j++) bytes += tree.young[pick.first + j];
      memmove(tree.young + pick.first, tree.young + pick.first + pick.count,
              (RUNS - pick.first - pick.count) * sizeof *tree.young);
      memset(tree.young + RUNS - pick.count, 0, pick.count * sizeof *tree.young);
      if (pick.kind == KV_PICK_DOWN) {
        written += bytes + tree.levels[0];
        tree.levels[0] += bytes;
        continue;
      }
      memmove(tree.young + pick.first + 1, tree.young + pick.first,
              (RUNS - pick.first - 1) * sizeof *tree.young);
      tree.young[pick.first] = bytes;
      written += bytes;
    }
  }
  ck_assert_uint_lt(most, 9);
  ck_assert_uint_gt(tree.levels[2], flushes / 2);
  ck_assert_uint_lt(written, 18 * flushes);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("compact_pick");
  TCase *tests = tcase_create("pick");
  tcase_add_test(tests, by_sizes);
  tcase_add_test(tests, tombstones_go_down);
  tcase_add_test(tests, levels_have_room_for_ten_times_as_much);
  tcase_add_test(tests, runs_and_rewriting_stay_bounded);
  suite_add_tcase(suite, tests);
  return harness_run(suite);
}
