/* Random histories of several connections on one shared log memory against the simulated log: old snapshots,
** own, foreign and flushing commits, trims, restored older copies, failures, commits in the middle of a
** read; and the same with threads. */
#include <pthread.h>

#include "log.h"
#include "log_sim.h"

enum { CONNECTIONS = 4, HELD = 5, STEPS = 900 };

struct held {
  struct line line;
  struct kv_log_window window;
  bool used;
};
struct world {
  struct kv_log *log;
  struct kv_stats stats;
  struct line now;
  struct line backup;
  struct line snapshots[CONNECTIONS];
  struct held held[HELD];
  uint64_t gen;
  int advanced; /* own commits adopted, and not */
  int refused;
  int between; /* commits made in the middle of a read */
};

static uint64_t below(uint64_t bound) {
  return harness_below(&random_numbers, bound);
}

static void commit_between(void *ctx);

/* Reads a snapshot, sometimes with failures first, sometimes with commits of others in the middle. */
static void read_snapshot(struct world *world, const struct line *line, bool interruptible,
                          struct kv_log_window *window) {
  struct line copy = *line; /* `now` may move below it */
  struct source source = {.line = &copy};
  uint64_t trouble = below(8);
  if (trouble == 0) kv_mem_fail_nth(1 + below(30), (int)below(2));
  if (trouble == 1) source.fail_in = 1 + (int)below(6);
  if (trouble < 5 && interruptible) {
    source.between_in = 1 + (int)below(4);
    source.between = commit_between;
    source.between_ctx = world;
  }
  kv_status status = read_from(world->log, &source, window, NULL);
  kv_mem_fail_nth(0, 0);
  if (status) {
    must(trouble == 0 ? status == KV_NOMEM : trouble == 1 && status == KV_IO);
    source.fail_in = source.between_in = 0;
    must(read_from(world->log, &source, window, NULL) == KV_OK);
  }
  check_window(window, &copy);
}

/* Moves the flushed mark somewhere up, sometimes deletes dead rows. */
static void flush_some(struct line *line) {
  line->flushed += below(line->last - line->flushed + 1);
  if (below(2)) line->deleted = line->flushed - (line->flushed ? below(2) : 0);
}

/* A commit of this process: base window, row and flushed mark, then the advance. */
static void own_commit(struct world *world) {
  struct kv_log_window base, window;
  read_snapshot(world, &world->now, false, &base);
  bool with_row = below(8) != 0;
  if (!below(8)) world->gen++;
  if (with_row) append(&world->now, world->gen);
  if (!below(6)) flush_some(&world->now);
  const struct line *now = &world->now;
  const struct kv_log_row *row = with_row ? &now->rows[now->last]->row : NULL;
  if (!below(10)) kv_mem_fail_nth(1 + below(12), 0);
  kv_status status = kv_log_advance(world->log, &base, row, now->flushed,
                                    nonce_at(now, now->flushed), &window, NULL);
  kv_mem_fail_nth(0, 0);
  kv_log_window_release(&base);
  must(status == KV_OK || status == KV_BUSY || status == KV_NOMEM);
  if (status == KV_OK) {
    check_window(&window, now);
    kv_log_window_release(&window);
    world->advanced++;
  } else {
    world->refused++;
  }
  if (!below(3)) kv_log_trim(world->log, now->flushed);
}

static void foreign_commit(struct world *world) {
  if (!below(8)) world->gen++;
  append(&world->now, world->gen);
  if (!below(6)) flush_some(&world->now);
}

static void commit_between(void *ctx) {
  struct world *world = ctx;
  kv_mem_fail_nth(0, 0);
  if (world->now.last > ROWS_MAX - 50) return;
  own_commit(world);
  world->between++;
}

static void read_some(struct world *world) {
  struct line *snapshot = &world->snapshots[below(CONNECTIONS)];
  if (below(3)) *snapshot = world->now;
  struct held *held = &world->held[below(HELD)];
  if (held->used) {
    check_window(&held->window, &held->line);
    kv_log_window_release(&held->window);
  }
  held->line = *snapshot;
  held->used = true;
  read_snapshot(world, snapshot, true, &held->window);
}

/* Restores the older copy, whose dead rows are as they were then. */
static void restore_or_back_up(struct world *world) {
  if (below(3)) {
    world->backup = world->now;
    return;
  }
  world->now = world->backup;
  const struct line *now = &world->now;
  world->gen = now->last ? now->rows[now->last]->row.gen : 1;
}

static void step(struct world *world) {
  uint64_t kind = below(100);
  if (kind < 35 && world->now.last < ROWS_MAX - 50)
    own_commit(world);
  else if (kind < 45 && world->now.last < ROWS_MAX - 50)
    foreign_commit(world);
  else if (kind < 85)
    read_some(world);
  else if (kind < 97)
    kv_log_trim(world->log, world->now.flushed);
  else
    restore_or_back_up(world);
}

START_TEST(random_histories_show_each_snapshot_its_own_rows) {
  static struct world world;
  uint64_t seed = harness_seed_env(300 + (uint64_t)_i);
  printf("log model, seed %lu\n", seed);
  harness_seed(&random_numbers, seed);
  memset(&world, 0, sizeof world);
  world.gen = 1;
  ck_assert_int_eq(kv_log_new(uuid, NULL, NULL, &world.stats, &world.log, NULL), KV_OK);
  for (int i = 0; i < STEPS; i++) step(&world);
  kv_log_free(world.log);
  for (int i = 0; i < HELD; i++) {
    if (!world.held[i].used) continue;
    check_window(&world.held[i].window, &world.held[i].line);
    kv_log_window_release(&world.held[i].window);
  }
  ck_assert_int_gt(world.advanced, 100);
  ck_assert_int_gt(world.refused, 0);
  ck_assert_int_gt(world.between, 10);
  ck_assert_uint_eq(kv_stats_get(&world.stats, KV_STAT_COMMITS) > 0, 1);
  free_rows();
  ck_assert_int_eq(kv_mem_live_blocks(), 0);
}
END_TEST

/* ---- Threads: the simulated log has SQLite's write lock, the memory has its own */

enum { THREADS = 4, ROUNDS = 150 };
struct shared {
  struct kv_log *log;
  pthread_mutex_t write_lock; /* guards now, the random numbers and all_rows */
  struct line now;
};

static void threaded_commit(struct shared *shared) {
  pthread_mutex_lock(&shared->write_lock);
  struct source source = {.line = &shared->now};
  struct kv_log_window base, window;
  must(read_from(shared->log, &source, &base, NULL) == KV_OK);
  append(&shared->now, 1 + shared->now.last / 20);
  if (!below(10)) flush_some(&shared->now);
  struct line after = shared->now;
  pthread_mutex_unlock(&shared->write_lock);
  /* like xCommit: the lock is open, another thread may come first */
  kv_status status = kv_log_advance(shared->log, &base, &after.rows[after.last]->row, after.flushed,
                                    nonce_at(&after, after.flushed), &window, NULL);
  must(status == KV_OK || status == KV_BUSY);
  if (status == KV_OK) {
    check_window(&window, &after);
    kv_log_window_release(&window);
  }
  kv_log_window_release(&base);
  kv_log_trim(shared->log, after.flushed);
}

static void *work(void *argument) {
  struct shared *shared = argument;
  struct line *snapshot = malloc(sizeof *snapshot);
  for (int round = 0; round < ROUNDS; round++) {
    if (round % 3 == 0) threaded_commit(shared);
    pthread_mutex_lock(&shared->write_lock);
    if (round % 5) *snapshot = shared->now;
    pthread_mutex_unlock(&shared->write_lock);
    if (!round) continue;
    struct source source = {.line = snapshot};
    struct kv_log_window window;
    must(read_from(shared->log, &source, &window, NULL) == KV_OK);
    check_window(&window, snapshot);
    kv_log_window_release(&window);
  }
  free(snapshot);
  return NULL;
}

START_TEST(threads_share_one_memory) {
  static struct shared shared;
  harness_seed(&random_numbers, harness_seed_env(9));
  pthread_mutex_init(&shared.write_lock, NULL);
  ck_assert_int_eq(kv_log_new(uuid, NULL, NULL, NULL, &shared.log, NULL), KV_OK);
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, work, &shared);
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  kv_log_free(shared.log);
  pthread_mutex_destroy(&shared.write_lock);
  free_rows();
  ck_assert_int_eq(kv_mem_live_blocks(), 0);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("log_model");
  TCase *tests = tcase_create("log_model");
  tcase_set_timeout(tests, 120);
  tcase_add_loop_test(tests, random_histories_show_each_snapshot_its_own_rows, 0, 8);
  tcase_add_test(tests, threads_share_one_memory);
  suite_add_tcase(suite, tests);
  return harness_run(suite);
}
