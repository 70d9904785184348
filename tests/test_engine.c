/* The engine as a whole against a plain array: random puts, deletes, savepoints, rollbacks, commits,
** generations, flushes, compactions (also in steps between other work, and too late), reopening, views held
** over all of that and views built again from old snapshots; every read of every view, with and without the
** pending batch, must say what the array says. COLFAM_SEED sets the first seed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "catalog.h"
#include "compact.h"
#include "mem.h"
#include "view.h"

#define KEYS 2000
#define OLD_VIEWS 4
#define MARKS 4
#define SEEDS 4
#define STEPS 300

/* Version 0 is "not there". */
struct state {
  uint32_t versions[KEYS];
};

/* A view held, what it must show, and the snapshot it can be built from again. */
struct old_view {
  struct kv_view *view;
  struct catalog_snapshot snapshot;
  struct state state;
};

struct world {
  uint64_t seed;
  int step;
  struct harness_random random;
  struct store store;
  struct state committed;
  struct state pending;
  uint32_t last_version;
  struct kv_batch_mark marks[MARKS];
  struct state marked[MARKS];
  size_t mark_count;
  struct old_view old[OLD_VIEWS];
  size_t old_count;
  struct kv_job *job; /* running between other steps */
  uint64_t job_flushed_seq;
  int published, late;
};

#define CHECK(world, condition)                                                               \
  do {                                                                                        \
    if (!(condition))                                                                         \
      ck_abort_msg("seed %llu step %d: %s", (unsigned long long)(world)->seed, (world)->step, \
                   #condition);                                                               \
  } while (0)

static size_t below(struct world *world, size_t bound) {
  return (size_t)harness_below(&world->random, bound);
}

/* ---- Keys and values */

/* Set while keys are in another order: numbers run downwards, what stands behind them does not. */
static bool mirrored;
#define NUMBERED ((int)sizeof "key-00000" - 1)

static int compare_mirrored(const struct kv_comparator *self, struct kv_slice a,
                            struct kv_slice b) {
  (void)self;
  int order = memcmp(b.data, a.data, (size_t)NUMBERED);
  return order ? order : kv_slice_compare(a, b);
}

static size_t key_text(char *out, size_t key) {
  int size = snprintf(out, 64, "key-%05zu", mirrored ? KEYS - 1 - key : key);
  if (key % 7 == 0) size += snprintf(out + size, 40, "-with-a-longer-name-than-others");
  return (size_t)size;
}

/* Not a key of the model, but beside one. */
static size_t absent_text(char *out, size_t key) {
  size_t size = key_text(out, key);
  out[size++] = '!';
  return size;
}

/* In a buffer of its own, good until the next call. */
static struct kv_slice value_of(uint32_t version) {
  static char value[4096];
  size_t fill = version % 50 == 0 ? 3000 : version * 7 % 120;
  size_t size = (size_t)snprintf(value, sizeof value, "%u:", version);
  memset(value + size, (int)('a' + version % 26), fill);
  return kv_slice_of(value, size + fill);
}

static bool is_value(struct kv_slice bytes, uint32_t version) {
  return kv_slice_equal(bytes, value_of(version));
}

/* ---- Reading */

/* What is asked: a view, with or without the batch, and what it must say. */
struct question {
  struct kv_view *view;
  struct kv_batch *batch;
  const struct state *state;
};

static void ask_points(struct world *world, const struct question *q) {
  char text[64];
  for (int i = 0; i < 15; i++) {
    size_t key = below(world, KEYS);
    bool real = below(world, 5) > 0;
    uint32_t version = real ? q->state->versions[key] : 0;
    struct kv_slice bytes = kv_slice_of(text, real ? key_text(text, key) : absent_text(text, key));
    struct kv_value value;
    enum kv_may_exist answer = KV_UNKNOWN;
    bool found = false;
    memset(&value, 0, sizeof value);
    CHECK(world, kv_may_exist(q->view, q->batch, bytes, &answer, NULL, NULL) == KV_OK);
    CHECK(world, answer != (version ? KV_ABSENT : KV_PRESENT));
    CHECK(world, kv_exists(q->view, q->batch, bytes, &found, NULL) == KV_OK);
    CHECK(world, found == (version != 0));
    CHECK(world, kv_get(q->view, q->batch, bytes, &value, NULL) == KV_OK);
    CHECK(world, value.found == (version != 0));
    CHECK(world, !version || is_value(value.bytes, version));
    kv_value_release(&value);
  }
}

static void ask_many(struct world *world, const struct question *q) {
  static const size_t sizes[] = {0, 1, 2, 33, 1000};
  static char texts[1000][64];
  struct kv_slice keys[1000];
  uint32_t versions[1000];
  size_t n = sizes[below(world, 5)];
  size_t count = 0;
  size_t key = below(world, n > 100 ? 2 : KEYS);
  size_t stride = n > 100 ? 2 : 1 + below(world, 60);
  for (; count < n && key < KEYS; key += 1 + below(world, stride)) {
    bool real = below(world, 5) > 0;
    size_t size = real ? key_text(texts[count], key) : absent_text(texts[count], key);
    versions[count] = real ? q->state->versions[key] : 0;
    keys[count] = kv_slice_of(texts[count], size);
    count++;
  }
  struct kv_result *result = NULL;
  CHECK(world, kv_multi_get(q->view, q->batch, keys, count, &result, NULL) == KV_OK);
  for (size_t i = 0; i < count; i++) {
    struct kv_slice value;
    bool found = kv_result_found(result, i, &value);
    CHECK(world, found == (versions[i] != 0));
    CHECK(world, !found || is_value(value, versions[i]));
  }
  kv_result_free(result);
}

/* ---- Scanning: the model's position is -1 or KEYS at an end */

struct walk {
  struct kv_scan *scan;
  const struct state *state;
  int low, high; /* low <= key < high */
  int at;
};

static int go(const struct walk *walk, int at, int by) {
  at += by;
  while (at >= walk->low && at < walk->high && !walk->state->versions[at]) at += by;
  return at;
}

static void expect_row(struct world *world, const struct walk *walk) {
  char text[64];
  bool valid = walk->at >= walk->low && walk->at < walk->high;
  CHECK(world, kv_scan_valid(walk->scan) == valid);
  if (!valid) return;
  size_t size = key_text(text, (size_t)walk->at);
  CHECK(world, kv_slice_equal(kv_scan_key(walk->scan), kv_slice_of(text, size)));
  struct kv_slice value;
  CHECK(world, kv_scan_value(walk->scan, &value, NULL) == KV_OK);
  CHECK(world, is_value(value, walk->state->versions[walk->at]));
}

static void position(struct world *world, struct walk *walk) {
  char text[64];
  switch (below(world, 3)) {
    case 0:
      CHECK(world, kv_scan_first(walk->scan, NULL) == KV_OK);
      walk->at = go(walk, walk->low - 1, 1);
      break;
    case 1:
      CHECK(world, kv_scan_last(walk->scan, NULL) == KV_OK);
      walk->at = go(walk, walk->high, -1);
      break;
    default: {
      int key = (int)below(world, KEYS);
      size_t size = key_text(text, (size_t)key);
      CHECK(world, kv_scan_seek(walk->scan, kv_slice_of(text, size), NULL) == KV_OK);
      walk->at = go(walk, (key > walk->low ? key : walk->low) - 1, 1);
      break;
    }
  }
}

static void random_walk(struct world *world, struct walk *walk, int steps) {
  position(world, walk);
  bool forward = below(world, 2);
  for (int i = 0; i < steps; i++) {
    expect_row(world, walk);
    if (below(world, 8) == 0) forward = !forward;
    if (!kv_scan_valid(walk->scan) || below(world, 60) == 0) {
      position(world, walk);
    } else if (forward) {
      CHECK(world, kv_scan_next(walk->scan, NULL) == KV_OK);
      walk->at = go(walk, walk->at, 1);
    } else {
      CHECK(world, kv_scan_prev(walk->scan, NULL) == KV_OK);
      walk->at = go(walk, walk->at, -1);
    }
  }
}

static void whole_walks(struct world *world, struct walk *walk) {
  CHECK(world, kv_scan_first(walk->scan, NULL) == KV_OK);
  walk->at = go(walk, walk->low - 1, 1);
  for (; kv_scan_valid(walk->scan); walk->at = go(walk, walk->at, 1)) {
    expect_row(world, walk);
    CHECK(world, kv_scan_next(walk->scan, NULL) == KV_OK);
  }
  expect_row(world, walk);
  CHECK(world, kv_scan_last(walk->scan, NULL) == KV_OK);
  walk->at = go(walk, walk->high, -1);
  for (; kv_scan_valid(walk->scan); walk->at = go(walk, walk->at, -1)) {
    expect_row(world, walk);
    CHECK(world, kv_scan_prev(walk->scan, NULL) == KV_OK);
  }
  expect_row(world, walk);
}

static void ask_scan(struct world *world, const struct question *q) {
  char lower[64], upper[64];
  struct walk walk = {.state = q->state, .low = 0, .high = KEYS};
  struct kv_bounds bounds = {.has_upper = below(world, 2)};
  if (below(world, 2)) {
    walk.low = (int)below(world, KEYS);
    bounds.lower = kv_slice_of(lower, key_text(lower, (size_t)walk.low));
  }
  if (bounds.has_upper) {
    walk.high = (int)below(world, KEYS);
    bounds.upper = kv_slice_of(upper, key_text(upper, (size_t)walk.high));
  }
  if (walk.high < walk.low) return;
  CHECK(world, kv_scan_open(q->view, q->batch, &bounds, &walk.scan, NULL) == KV_OK);
  if (below(world, 10) == 0) whole_walks(world, &walk);
  random_walk(world, &walk, 60);
  kv_scan_close(walk.scan);
}

static void ask(struct world *world, struct kv_view *view, struct kv_batch *batch,
                const struct state *state) {
  struct question question = {view, batch, state};
  ask_points(world, &question);
  ask_many(world, &question);
  ask_scan(world, &question);
}

static int64_t count_rows(const struct state *state) {
  int64_t rows = 0;
  for (size_t i = 0; i < KEYS; i++) rows += state->versions[i] != 0;
  return rows;
}

static void ask_current(struct world *world) {
  struct store *store = &world->store;
  ask(world, store->view, store->batch, &world->pending);
  ask(world, store->view, NULL, &world->committed);
  CHECK(world, kv_view_rows(store->view) == count_rows(&world->committed));
}

static void ask_old(struct world *world) {
  if (!world->old_count) return;
  struct old_view *old = &world->old[below(world, world->old_count)];
  ask(world, old->view, NULL, &old->state);
  if (below(world, 3)) return;
  /* the same once more, built from the old snapshot by a family that has moved on */
  struct kv_view *again = NULL;
  struct kv_log_source source = catalog_source(&old->snapshot);
  kv_status status = kv_view_new(world->store.family, &old->snapshot.state, &source, &again, NULL);
  CHECK(world, status == KV_OK);
  ask(world, again, NULL, &old->state);
  kv_view_unref(again);
}

/* ---- Writing */

static void write_key(struct world *world, size_t key, bool deleted) {
  struct store *store = &world->store;
  char text[64];
  uint32_t before = world->pending.versions[key];
  uint32_t version = deleted ? 0 : ++world->last_version;
  struct kv_slice bytes = kv_slice_of(text, key_text(text, key));
  int delta = (version != 0) - (before != 0);
  kv_status status;
  if (deleted)
    status = kv_batch_delete(store->batch, bytes, delta, NULL);
  else
    status = kv_batch_put(store->batch, bytes, value_of(version), delta, NULL);
  CHECK(world, status == KV_OK);
  world->pending.versions[key] = version;
}

static void write_some(struct world *world) {
  size_t n = below(world, 5) ? 1 + below(world, 20) : 100 + below(world, 200);
  size_t key = below(world, KEYS);
  bool in_order = below(world, 2);
  size_t deletes = below(world, 10);
  for (size_t i = 0; i < n; i++) {
    write_key(world, key, below(world, 10) < deletes);
    key = in_order ? (key + 1) % KEYS : below(world, KEYS);
  }
}

static void take_mark(struct world *world) {
  if (world->mark_count == MARKS) return;
  world->marks[world->mark_count] = kv_batch_mark(world->store.batch);
  world->marked[world->mark_count++] = world->pending;
}

/* Values and scans got before a rollback stay as they were. */
static void roll_back(struct world *world) {
  if (!world->mark_count) return;
  struct store *store = &world->store;
  struct kv_value value;
  char text[64];
  size_t key = below(world, KEYS);
  uint32_t version = world->pending.versions[key];
  struct kv_slice bytes = kv_slice_of(text, key_text(text, key));
  struct kv_bounds all = {.has_upper = false};
  struct walk walk = {.low = 0, .high = KEYS};
  struct state before = world->pending;
  memset(&value, 0, sizeof value);
  walk.state = &before;
  CHECK(world, kv_get(store->view, store->batch, bytes, &value, NULL) == KV_OK);
  CHECK(world, kv_scan_open(store->view, store->batch, &all, &walk.scan, NULL) == KV_OK);
  world->mark_count = below(world, world->mark_count);
  kv_batch_rollback(store->batch, world->marks[world->mark_count]);
  world->pending = world->marked[world->mark_count];
  write_some(world);
  CHECK(world, value.found == (version != 0));
  CHECK(world, !version || is_value(value.bytes, version));
  random_walk(world, &walk, 30);
  kv_scan_close(walk.scan);
  kv_value_release(&value);
}

static void commit(struct world *world) {
  store_commit(&world->store);
  world->committed = world->pending;
  world->mark_count = 0;
  if (below(world, 4) == 0) store_rotate(&world->store);
}

/* ---- Views and jobs */

static void hold_view(struct world *world) {
  if (world->old_count == OLD_VIEWS) return;
  struct old_view *old = &world->old[world->old_count++];
  old->view = kv_view_ref(world->store.view);
  old->state = world->committed;
  catalog_take(&world->store.catalog, &old->snapshot);
}

static void drop_view(struct world *world) {
  if (!world->old_count) return;
  size_t at = below(world, world->old_count);
  kv_view_unref(world->old[at].view);
  catalog_drop(&world->old[at].snapshot);
  world->old[at] = world->old[--world->old_count];
  store_sweep(&world->store);
}

static void drop_job(struct world *world) {
  kv_job_free(world->job);
  world->job = NULL;
}

/* Any merge that is allowed, whether it is due or not. */
static struct kv_pick random_pick(struct world *world) {
  const struct kv_layout *layout = world->store.view->layout;
  size_t young = 0;
  if (!layout->run_count) return (struct kv_pick){KV_PICK_NONE, 0, 0};
  while (young < layout->run_count && layout->runs[young].level == 0) young++;
  size_t first = below(world, layout->run_count);
  if (first >= young) return (struct kv_pick){KV_PICK_PUSH, first, 1};
  if (first + 1 == young && below(world, 2)) return (struct kv_pick){KV_PICK_PUSH, first, 1};
  if (below(world, 2)) return (struct kv_pick){KV_PICK_DOWN, first, young - first};
  return (struct kv_pick){KV_PICK_TIER, first, 1 + below(world, young - first)};
}

static void begin_job(struct world *world) {
  struct kv_view *view = world->store.view;
  struct kv_pick pick = random_pick(world);
  switch (below(world, 8)) {
    case 0:
      CHECK(world, kv_job_new(view, KV_JOB_COMPACT, &world->job, NULL) == KV_OK);
      break;
    case 1:
      CHECK(world, kv_job_new(view, KV_JOB_MERGE, &world->job, NULL) == KV_OK);
      break;
    case 2:
    case 3:
      CHECK(world, kv_job_new(view, KV_JOB_FLUSH, &world->job, NULL) == KV_OK);
      break;
    default:
      CHECK(world, kv_job_new_pick(view, &pick, &world->job, NULL) == KV_OK);
  }
}

static void work_on_job(struct world *world) {
  bool done = false;
  if (!world->job) {
    world->job_flushed_seq = kv_view_log(world->store.view)->flushed_seq;
    begin_job(world);
    kv_job_set_file_bytes(world->job, 2048 + below(world, 40000));
    kv_job_set_step_bytes(world->job, 1000 + below(world, 100000));
  }
  for (size_t i = below(world, 6); i > 0 && !done; i--) {
    CHECK(world, kv_job_step(world->job, &done, NULL) == KV_OK);
  }
  if (!done) return;
  kv_status status = store_publish(&world->store, world->job, world->job_flushed_seq);
  CHECK(world, status == KV_OK || status == KV_BUSY);
  world->published += status == KV_OK;
  world->late += status == KV_BUSY;
  world->job = NULL;
}

static void job_at_once(struct world *world, enum kv_job_kind kind) {
  world->store.file_bytes = 1024 + below(world, 60000);
  store_job(&world->store, kind);
}

static void rebuild_view(struct world *world) {
  struct kv_view *view = store_view(&world->store);
  kv_view_unref(world->store.view);
  world->store.view = view;
}

/* So small that there are several levels. */
static void open_again(struct world *world) {
  store_reopen(&world->store);
  struct kv_options options = kv_family_options(world->store.family);
  options.memtable_bytes = 256 << (world->seed % 5);
  kv_family_set_options(world->store.family, &options);
}

static void reopen(struct world *world) {
  while (world->old_count) drop_view(world);
  drop_job(world);
  open_again(world);
  world->pending = world->committed;
  world->mark_count = 0;
}

static kv_status no_problem(void *ctx, const char *severity, uint64_t file, uint64_t position,
                            const char *text) {
  (void)severity, (void)file, (void)position;
  CHECK((struct world *)ctx, !text);
  return KV_OK;
}

static void step(struct world *world) {
  size_t what = below(world, 100);
  if (what < 45)
    write_some(world);
  else if (what < 52)
    take_mark(world);
  else if (what < 58)
    roll_back(world);
  else if (what < 70)
    commit(world);
  else if (what < 75)
    hold_view(world);
  else if (what < 79)
    drop_view(world);
  else if (what < 82)
    rebuild_view(world);
  else if (what < 86)
    job_at_once(world, KV_JOB_FLUSH);
  else if (what < 87)
    job_at_once(world, below(world, 4) ? KV_JOB_MERGE : KV_JOB_COMPACT);
  else if (what < 98)
    work_on_job(world);
  else if (what < 99)
    CHECK(world, kv_check(world->store.view, no_problem, world, NULL) == KV_OK);
  else
    reopen(world);
  ask_current(world);
  ask_old(world);
}

static void run(uint64_t seed, size_t cache_bytes, int filter_bits, int compression,
                const struct kv_comparator *comparator) {
  struct world *world = calloc(1, sizeof *world);
  world->seed = seed;
  harness_seed(&world->random, seed);
  store_init(&world->store, seed, cache_bytes);
  world->store.catalog.table_rows = 0;
  world->store.config.options.filter_bits = filter_bits;
  world->store.config.options.compression_level = compression;
  static const uint32_t value_bytes[] = {0, 1, 60, 4096};
  world->store.config.options.value_bytes = value_bytes[seed / 5 % 4];
  world->store.config.comparator = comparator;
  open_again(world);
  for (world->step = 0; world->step < STEPS; world->step++) step(world);
  reopen(world);
  store_sweep(&world->store);
  /* nothing is left behind: every file is one that the catalog names */
  CHECK(world, store_files(&world->store) == world->store.catalog.file_count);
  CHECK(world, kv_check(world->store.view, no_problem, world, NULL) == KV_OK);
  CHECK(world, world->published > 0);
  store_release(&world->store);
  free(world);
}

START_TEST(random_histories_equal_an_array) {
  uint64_t first = harness_seed_env(1);
  for (uint64_t seed = first; seed < first + SEEDS; seed++) run(seed, 1 << 20, 10, 3, NULL);
}
END_TEST

START_TEST(random_histories_without_cache) {
  uint64_t first = harness_seed_env(101);
  for (uint64_t seed = first; seed < first + SEEDS; seed++) run(seed, 0, 10, 0, NULL);
}
END_TEST

START_TEST(random_histories_without_filter_in_a_small_cache) {
  uint64_t first = harness_seed_env(201);
  for (uint64_t seed = first; seed < first + SEEDS; seed++) run(seed, 8192, 0, 1, NULL);
}
END_TEST

START_TEST(random_histories_under_a_comparator) {
  static struct kv_comparator comparator = {.name = "mirrored", .compare = compare_mirrored};
  uint64_t first = harness_seed_env(301);
  mirrored = true;
  for (uint64_t seed = first; seed < first + 2 * SEEDS; seed++)
    run(seed, 1 << 20, seed % 2 ? 10 : 0, 3, &comparator);
  mirrored = false;
}
END_TEST

int main(void) {
  Suite *suite = suite_create("engine");
  TCase *tests = tcase_create("engine");
  tcase_set_timeout(tests, 60);
  tcase_add_test(tests, random_histories_equal_an_array);
  tcase_add_test(tests, random_histories_without_cache);
  tcase_add_test(tests, random_histories_without_filter_in_a_small_cache);
  tcase_add_test(tests, random_histories_under_a_comparator);
  suite_add_tcase(suite, tests);
  return harness_run(suite);
}
