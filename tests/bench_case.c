/* See bench.h: lanes beside each other, timed in turns, printed and recorded. */
#include "bench.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void bench_case_init(struct bench_case *made, const char *bench, const char *unit,
                     const char *format, ...) {
  static const struct {
    const char *name;
    double seconds;
  } units[] = {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}};
  memset(made, 0, sizeof *made);
  made->bench = bench;
  made->unit = unit;
  made->operations = 1;
  made->unit_seconds = 1;
  for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
    if (strcmp(unit, units[i].name) == 0) made->unit_seconds = units[i].seconds;
  }
  va_list args;
  va_start(args, format);
  vsnprintf(made->title, sizeof made->title, format, args);
  va_end(args);
}

struct bench_lane *bench_find(struct bench_case *in, const char *name) {
  for (size_t i = 0; i < in->lane_count; i++) {
    if (strcmp(in->lanes[i].name, name) == 0) return &in->lanes[i];
  }
  return NULL;
}

struct bench_lane *bench_add(struct bench_case *to, const char *name,
                             uint64_t (*run)(struct bench_lane *lane, size_t round), void *store,
                             const void *with) {
  bench_need(to->lane_count < BENCH_LANES_MAX, "%s: too many lanes", to->title);
  struct bench_lane *lane = &to->lanes[to->lane_count++];
  *lane =
      (struct bench_lane){.name = name, .run = run, .store = store, .with = with, .there = true};
  return lane;
}

void bench_sample(struct bench_case *to, const char *name, double value) {
  struct bench_lane *lane = bench_find(to, name);
  if (!lane) lane = bench_add(to, name, NULL, NULL, NULL);
  bench_need(lane->rounds < BENCH_ROUNDS_MAX, "%s: too many rounds", to->title);
  lane->samples[lane->rounds++] = value;
}

void bench_count(struct bench_case *to, const char *name, double value) {
  bench_sample(to, name, value);
}

void bench_not_there(struct bench_case *to, const char *name, const char *why) {
  if (bench_find(to, name)) return;
  struct bench_lane *lane = bench_add(to, name, NULL, NULL, NULL);
  lane->there = false;
  lane->why = why;
}

void bench_goal(struct bench_case *to, const char *lane, double at_most, const char *against) {
  bench_need(to->goal_count < BENCH_GOALS_MAX, "%s: too many goals", to->title);
  to->goals[to->goal_count++] = (struct bench_goal){lane, against, at_most};
}

void bench_goal_max(struct bench_case *to, const char *lane, double at_most) {
  bench_goal(to, lane, at_most, NULL);
}

/* ---- Timing */

static double time_round(struct bench_case *run, struct bench_lane *lane, size_t set) {
  double begun = bench_clock(run->waits);
  uint64_t sum = lane->run(lane, set);
  double took = bench_clock(run->waits) - begun;
  bench_need(!run->expected || sum == run->expected[set],
             "%s, %s: %s has read something else: %016llx, not %016llx", run->bench, run->title,
             lane->name, (unsigned long long)sum,
             (unsigned long long)(run->expected ? run->expected[set] : 0));
  if (lane->after) lane->after(lane, set);
  return took / run->operations / run->unit_seconds;
}

/* Neighbours, which may share a store, work on different sets in a round: none warms the other's. */
static double take_turn(struct bench_case *run, size_t lane, size_t round, size_t rounds) {
  return time_round(run, &run->lanes[lane], (round + lane) % (rounds + 1));
}

void bench_time(struct bench_case *run, size_t rounds, double operations,
                const uint64_t *expected) {
  bench_need(rounds <= BENCH_ROUNDS_MAX, "%s: too many rounds", run->title);
  run->operations = operations;
  run->expected = expected;
  for (size_t i = 0; i < run->lane_count; i++) {
    if (run->lanes[i].run) take_turn(run, i, rounds, rounds);
  }
  for (size_t round = 0; round < rounds; round++) {
    for (size_t i = 0; i < run->lane_count; i++) {
      size_t at = (i + round) % run->lane_count;
      struct bench_lane *lane = &run->lanes[at];
      if (!lane->run) continue;
      lane->samples[round] = take_turn(run, at, round, rounds);
      lane->rounds = round + 1;
    }
  }
}

static int compare(const void *a, const void *b) {
  double left = *(const double *)a, right = *(const double *)b;
  return (left > right) - (left < right);
}

static void sorted_samples(const struct bench_lane *lane, double *sorted) {
  memcpy(sorted, lane->samples, lane->rounds * sizeof *sorted);
  qsort(sorted, lane->rounds, sizeof *sorted, compare);
}

double bench_median(const struct bench_lane *lane) {
  double sorted[BENCH_ROUNDS_MAX];
  sorted_samples(lane, sorted);
  return lane->rounds ? sorted[lane->rounds / 2] : 0;
}

/* ---- Printing */

static bool begins(const char *text, const char *with) {
  return strncmp(text, with, strlen(with)) == 0;
}

static bool is_colfam(const struct bench_lane *lane) {
  return begins(lane->name, "colfam");
}

/* Neither colfam nor a bound that no store is meant to reach, nor one that does less. */
static bool is_peer(const struct bench_lane *lane) {
  return lane->rounds && !is_colfam(lane) && !begins(lane->name, "floor") &&
         !begins(lane->name, "limit") && !begins(lane->name, "blind");
}

static const struct bench_lane *best_peer(const struct bench_case *done) {
  const struct bench_lane *best = NULL;
  for (size_t i = 0; i < done->lane_count; i++) {
    const struct bench_lane *lane = &done->lanes[i];
    if (is_peer(lane) && (!best || bench_median(lane) < bench_median(best))) best = lane;
  }
  return best;
}

static void print_number(double value) {
  int digits = value >= 100 || value == (double)(long long)value ? 0 : value >= 10 ? 1 : 2;
  printf(" %11.*f", digits, value);
}

static void print_lane(const struct bench_lane *lane, const struct bench_lane *best) {
  double sorted[BENCH_ROUNDS_MAX];
  if (!lane->there) {
    printf("  %-30s %s\n", lane->name, lane->why);
    return;
  }
  sorted_samples(lane, sorted);
  printf("  %-30s", lane->name);
  print_number(bench_median(lane));
  if (lane->rounds > 1) {
    print_number(sorted[0]);
    print_number(sorted[lane->rounds - 1]);
  }
  if (best && is_colfam(lane)) {
    printf("   %.2f : %s", bench_median(lane) / bench_median(best), best->name);
  }
  printf("\n");
}

struct verdict {
  char text[200];
  double reached; /* in the terms of the goal */
  bool met;
};

/* "cost <= 1.25 x floor" from 1 on, else as a speed: ">= 3 x RocksDB". */
static bool judge(struct bench_case *done, const struct bench_goal *goal, struct verdict *verdict) {
  const struct bench_lane *lane = bench_find(done, goal->lane);
  const struct bench_lane *against = goal->against ? bench_find(done, goal->against) : NULL;
  if (!lane || !lane->rounds || (goal->against && (!against || !against->rounds))) return false;
  double ours = bench_median(lane), limit = goal->at_most;
  if (!goal->against) {
    verdict->reached = ours;
    snprintf(verdict->text, sizeof verdict->text, "%s <= %g %s", goal->lane, limit, done->unit);
  } else if (limit >= 1) {
    verdict->reached = ours / bench_median(against);
    snprintf(verdict->text, sizeof verdict->text, "%s <= %.3g x %s", goal->lane, limit,
             goal->against);
  } else {
    verdict->reached = bench_median(against) / ours;
    snprintf(verdict->text, sizeof verdict->text, "%s >= %.3g times as good as %s", goal->lane,
             1 / limit, goal->against);
  }
  verdict->met = ours <= limit * (against ? bench_median(against) : 1);
  return true;
}

/* One record a line: kind, bench, title, unit, name, then numbers. */
static void record(struct bench_case *done, const struct bench_lane *best) {
  const char *path = getenv("COLFAM_BENCH_OUT");
  FILE *file = path ? fopen(path, "a") : NULL;
  if (!file) return;
  for (size_t i = 0; i < done->lane_count; i++) {
    const struct bench_lane *lane = &done->lanes[i];
    if (!lane->rounds) continue;
    fprintf(file, "lane\t%s\t%s\t%s\t%s\t%.6g\t%.6g\t%s\n", done->bench, done->title, done->unit,
            lane->name, bench_median(lane),
            best && is_colfam(lane) ? bench_median(lane) / bench_median(best) : 0,
            best && is_colfam(lane) ? best->name : "");
  }
  for (size_t i = 0; i < done->goal_count; i++) {
    struct verdict verdict;
    if (!judge(done, &done->goals[i], &verdict)) continue;
    fprintf(file, "goal\t%s\t%s\t%s\t%s\t%.6g\t%d\n", done->bench, done->title, done->unit,
            verdict.text, verdict.reached, verdict.met);
  }
  fclose(file);
}

void bench_print(struct bench_case *done) {
  const struct bench_lane *best = best_peer(done);
  char unit[64];
  bool timed = done->unit_seconds < 1;
  snprintf(unit, sizeof unit, "%s%s", done->unit, timed ? bench_clock_name(done->waits) : "");
  printf("\n%s  %s\n  %-30s %11s %11s %11s   : best peer\n", done->bench, done->title, unit,
         "median", "least", "most");
  for (size_t i = 0; i < done->lane_count; i++) print_lane(&done->lanes[i], best);
  for (size_t i = 0; i < done->goal_count; i++) {
    struct verdict verdict;
    if (!judge(done, &done->goals[i], &verdict)) continue;
    printf("  goal %-52s %.3g %s\n", verdict.text, verdict.reached,
           verdict.met ? "met" : "NOT MET");
  }
  fflush(stdout);
  record(done, best);
}
