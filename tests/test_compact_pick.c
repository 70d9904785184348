/* What is merged: decisions by sizes (compact_pick.h). */
#include "compact_plan.h"

#include <stdio.h>
#include <string.h>

#include "harness.h"

enum { RUNS = 24, MIXED = 60 };

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
      {{{1, 3, 9}, {14}}, {KV_PICK_NONE, 0, 0}},
      /* a large run does not wait, as long as level 1 is not larger */
      {{{1, 3, 9}, {0}}, {KV_PICK_DOWN, 0, 3}},
      {{{1, 3, 9}, {13}}, {KV_PICK_DOWN, 0, 3}},
      {{{2}, {0}}, {KV_PICK_DOWN, 0, 1}},
      {{{2}, {0, 160}}, {KV_PICK_DOWN, 0, 1}},
      {{{1}, {0}}, {KV_PICK_NONE, 0, 0}},
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

/* Pushes, levels and level 0 that are due as well; 1 is what a level may hold. */
START_TEST(tombstones_go_before_what_is_due_as_much) {
  const struct {
    const char *what;
    double level_1, level_2;     /* how full; of level 3 half */
    uint64_t dense_1, dense_2;   /* bytes of files that are mostly tombstones */
    uint64_t young, young_dense; /* runs of level 0, that are mostly tombstones */
    struct kv_pick want;
  } cases[] = {
      {"deeper, less full", 1.9, 0.5, 0, 4, 0, 0, {KV_PICK_PUSH, 1, 1}},
      {"deeper, as full", 1.5, 1.5, 0, 4, 0, 0, {KV_PICK_PUSH, 1, 1}},
      {"nearer, less full", 0.9, 1.4, 4, 0, 0, 0, {KV_PICK_PUSH, 0, 1}},
      {"both dense: the fuller one", 1.1, 1.2, 4, 4, 0, 0, {KV_PICK_PUSH, 1, 1}},
      {"a level of twice its size does not wait", 2.1, 0.5, 0, 4, 0, 0, {KV_PICK_PUSH, 0, 1}},
      {"thin beside what is older", 1.1, 0.3, 0, 4, 0, 0, {KV_PICK_PUSH, 0, 1}},
      {"thin, nothing else due", 1, 0.3, 0, 4, 0, 0, {KV_PICK_PUSH, 1, 1}},
      {"before a tier", 0.9, 0.5, 0, 4, 4, 0, {KV_PICK_PUSH, 5, 1}},
      {"after a tier of many runs", 1.9, 0.5, 0, 4, 8, 0, {KV_PICK_TIER, 0, 8}},
      {"level 0, before a tier", 0.9, 0.1, 0, 0, 3, 2, {KV_PICK_DOWN, 0, 5}},
      {"level 0, before a push", 1.9, 0.1, 0, 0, 0, 1, {KV_PICK_DOWN, 0, 1}},
      {"level 0 behind a level of twice its size", 2.1, 0.1, 0, 0, 0, 1, {KV_PICK_PUSH, 1, 1}},
      {"level 0, few beside what is below", 1, 0.9, 0, 0, 2, 1, {KV_PICK_NONE, 0, 0}},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct kv_run_size runs[RUNS] = {{0}};
    struct kv_shape shape = {.memtable_bytes = 100, .runs = runs};
    for (uint64_t j = 0; j < cases[i].young + cases[i].young_dense; j++) {
      uint64_t tombstones = j < cases[i].young ? 0 : 1400;
      runs[shape.run_count++] = (struct kv_run_size){0, 100, 1500, tombstones, 0};
    }
    double full[] = {cases[i].level_1, cases[i].level_2, 0.5};
    uint64_t dense[] = {cases[i].dense_1, cases[i].dense_2, 0};
    for (uint32_t level = 1; level <= 3; level++) {
      uint64_t bytes = (uint64_t)(full[level - 1] * (double)kv_level_bytes_max(100, level));
      runs[shape.run_count++] = (struct kv_run_size){level, bytes, bytes / 4, 0, dense[level - 1]};
    }
    struct kv_pick pick = kv_compact_pick(&shape);
    ck_assert_msg(pick.kind == cases[i].want.kind && pick.first == cases[i].want.first &&
                      pick.count == cases[i].want.count,
                  "%s: %d %zu %zu", cases[i].what, (int)pick.kind, pick.first, pick.count);
  }
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

/* A level is one run, however few files are written anew; runs of level 0 stand alone. */
START_TEST(small_beside_the_table) {
  enum { MILLION = 1000000 };
  struct kv_run_size sizes[] = {{.level = 0, .entries = 3 * MILLION},
                                {.level = 1, .entries = 30 * MILLION},
                                {.level = 2, .entries = 127 * MILLION}};
  struct kv_layout layout = {.sizes = sizes, .run_count = 3, .entries = 160 * MILLION};
  struct kv_plan plan = {.level = 0};
  ck_assert(kv_plan_is_small(&plan, &layout, 5 * MILLION));
  ck_assert(!kv_plan_is_small(&plan, &layout, 5 * MILLION + 1));
  plan.level = 1;
  ck_assert(!kv_plan_is_small(&plan, &layout, 1));
  layout.entries = sizes[1].entries = 7;
  ck_assert(kv_plan_is_small(&plan, &layout, MILLION - 7));
  ck_assert(!kv_plan_is_small(&plan, &layout, MILLION));
}
END_TEST

/* ---- Deletes, while no more is merged for each flush than a commit without a thread would */

/* Rows and tombstones of runs, the newest first; one level is one run. */
struct mix {
  struct {
    uint32_t level;
    double rows, tombstones;
  } runs[MIXED];
  size_t count;
};

static double size_of(const struct mix *mix, size_t i) {
  return mix->runs[i].rows + mix->runs[i].tombstones / 4; /* they have no value */
}

static void insert_run(struct mix *mix, size_t at, uint32_t level) {
  ck_assert_uint_lt(mix->count, MIXED);
  memmove(&mix->runs[at + 1], &mix->runs[at], (mix->count++ - at) * sizeof *mix->runs);
  memset(&mix->runs[at], 0, sizeof *mix->runs);
  mix->runs[at].level = level;
}

static void drop_run(struct mix *mix, size_t at) {
  memmove(&mix->runs[at], &mix->runs[at + 1], (--mix->count - at) * sizeof *mix->runs);
}

/* This share of one run goes into an older one; as its keys are anywhere, so do the rows that its tombstones
** delete. */
static void pour(struct mix *mix, size_t from, double share, size_t to) {
  double older = 0, rows = mix->runs[from].rows * share, dead = mix->runs[from].tombstones * share;
  for (size_t i = to; i < mix->count; i++) older += mix->runs[i].rows;
  double killed = older > 0 ? dead * mix->runs[to].rows / older : 0;
  if (killed > mix->runs[to].rows) killed = mix->runs[to].rows;
  mix->runs[from].rows -= rows;
  mix->runs[from].tombstones -= dead;
  mix->runs[to].rows += rows - killed;
  mix->runs[to].tombstones += dead - killed;
  if (to + 1 == mix->count) mix->runs[to].tombstones = 0;
}

/* Give what is read, for each of which about as much is written. */
static double merge_down(struct mix *mix, struct kv_pick pick) {
  size_t last = pick.first + pick.count - 1;
  uint32_t next = mix->runs[last].level + 1;
  double share = 1;
  if (last + 1 == mix->count || mix->runs[last + 1].level != next) insert_run(mix, last + 1, next);
  if (pick.kind == KV_PICK_PUSH && size_of(mix, last) > 4) share = 4 / size_of(mix, last);
  double read = share * size_of(mix, last + 1);
  for (size_t i = pick.count; i > 0; i--) {
    read += share * size_of(mix, pick.first + i - 1);
    pour(mix, pick.first + i - 1, share, pick.first + i);
    if (share == 1) drop_run(mix, pick.first + i - 1);
  }
  return read;
}

static double do_pick(struct mix *mix, struct kv_pick pick) {
  if (pick.kind != KV_PICK_TIER) return merge_down(mix, pick);
  double read = size_of(mix, pick.first + pick.count - 1);
  for (; pick.count > 1; pick.count--) {
    read += size_of(mix, pick.first + pick.count - 2);
    pour(mix, pick.first + pick.count - 2, 1, pick.first + pick.count - 1);
    drop_run(mix, pick.first + pick.count - 2);
  }
  return read;
}

static struct kv_pick pick_of(const struct mix *mix) {
  struct kv_run_size runs[MIXED];
  struct kv_shape shape = {.memtable_bytes = 1000, .runs = runs, .run_count = mix->count};
  for (size_t i = 0; i < mix->count; i++) {
    double rows = 1000 * mix->runs[i].rows, tombstones = 1000 * mix->runs[i].tombstones;
    bool dense = mix->runs[i].level && tombstones > rows;
    runs[i] = (struct kv_run_size){mix->runs[i].level, (uint64_t)(rows + tombstones / 4),
                                   (uint64_t)(rows + tombstones), (uint64_t)tombstones, dense};
  }
  return kv_compact_pick(&shape);
}

/* Of each flush this part is tombstones, of rows that are anywhere. Levels do not grow beyond what they may
** have by much, and tombstones do not stay. */
START_TEST(neither_rows_nor_tombstones_wait_for_ever) {
  static const double parts[] = {0, 0.2, 0.45, 0.5, 0.55, 0.8};
  struct mix mix = {.count = 0};
  double merged = 0, debt = 0, fullest = 0, all_dead = 0, deleted = parts[_i];
  int flushes = 3000;
  for (int i = 0; i < flushes; i++) {
    bool loads = i < flushes / 3;
    insert_run(&mix, 0, 0);
    mix.runs[0].rows = loads ? 1 : 1 - deleted;
    mix.runs[0].tombstones = loads ? 0 : 4 * deleted;
    for (debt += 16; debt > 0;) {
      struct kv_pick pick = pick_of(&mix);
      double bytes = pick.kind == KV_PICK_NONE ? debt : do_pick(&mix, pick);
      if (pick.kind != KV_PICK_NONE) merged += bytes;
      debt -= bytes;
    }
    double rows = 0, dead = 0;
    for (size_t j = 0; j < mix.count; j++) {
      rows += mix.runs[j].rows;
      dead += mix.runs[j].tombstones;
      double may = (double)kv_level_bytes_max(1000, mix.runs[j].level) / 1000;
      if (mix.runs[j].level && size_of(&mix, j) / may > fullest) fullest = size_of(&mix, j) / may;
    }
    all_dead += dead / (rows + dead);
  }
  printf("pick: of flushes %.0f %% tombstones: %.1f merged for each, a level %.1f full at most, "
         "%.0f %% of entries tombstones\n",
         100 * deleted, merged / flushes, fullest, 100 * all_dead / flushes);
  ck_assert(merged < 16 * flushes && fullest < 6);
  ck_assert(all_dead < 0.2 * flushes);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("compact_pick");
  TCase *tests = tcase_create("pick");
  tcase_add_test(tests, by_sizes);
  tcase_add_test(tests, tombstones_go_down);
  tcase_add_test(tests, tombstones_go_before_what_is_due_as_much);
  tcase_add_test(tests, levels_have_room_for_ten_times_as_much);
  tcase_add_test(tests, runs_and_rewriting_stay_bounded);
  tcase_add_test(tests, small_beside_the_table);
  tcase_add_loop_test(tests, neither_rows_nor_tombstones_wait_for_ever, 0, 6);
  suite_add_tcase(suite, tests);
  return harness_run(suite);
}
