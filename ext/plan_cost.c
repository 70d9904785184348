/* See planner.h. Costs are in SQLite's unit, as those that it reckons for its own tables: three for a row of
** a scan, about the logarithm of all rows for finding one. */
#include <math.h>

#include "planner.h"

enum { KEYS_IN_LIST = 25, /* as SQLite assumes */ ROW_COST = 3 };

/* Each column of an equal prefix takes its share of the key's power to tell rows apart; a bound leaves a
** quarter, two of them a 64th, as SQLite reckons. */
static double rows_of_range(const struct colfam_planner *planner, double table_rows) {
  const struct colfam_plan *plan = &planner->plan;
  double left = (double)(planner->key_count - plan->equal_count) / planner->key_count;
  double rows = pow(table_rows, left);
  if (plan->has_lower && plan->has_upper) return fmax(rows / 64, 1);
  return plan->has_lower || plan->has_upper ? fmax(rows / 4, 1) : fmax(rows, 1);
}

/* Keys or prefixes that lists make. */
static double lists_product(const struct colfam_plan *plan) {
  double product = 1;
  for (int i = 0; i < plan->equal_count; i++)
    if (plan->lists >> i & 1) product *= KEYS_IN_LIST;
  return product;
}

/* A list must cost less than two values by themselves, or SQLite runs `k = 1 OR k = 2` as two. */
void colfam_planner_cost(struct colfam_planner *planner, double table_rows) {
  const struct colfam_plan *plan = &planner->plan;
  double seek = 4 + log2(table_rows + 1) / 2;
  double rows = 1, cost = seek;
  switch (plan->kind) {
    case COLFAM_PLAN_SCAN:
      rows = table_rows;
      cost = seek + ROW_COST * rows;
      break;
    case COLFAM_PLAN_COUNT:
      rows = table_rows;
      cost = seek + (planner->may_read_keys ? ROW_COST * rows : rows);
      break;
    case COLFAM_PLAN_RANGE:
      rows = rows_of_range(planner, table_rows);
      cost = seek + ROW_COST * rows;
      if (!plan->lists) break;
      cost *= 1.5;
      rows = fmin(rows * lists_product(plan), table_rows);
      break;
    case COLFAM_PLAN_MULTI_GET:
      rows = fmin(lists_product(plan), table_rows);
      cost = planner->key_only ? seek * 0.75 : seek * 1.5;
      break;
    case COLFAM_PLAN_PACKED:
      rows = fmin(KEYS_IN_LIST, table_rows);
      break;
    case COLFAM_PLAN_EXISTS:
      cost = seek / 2;
      break;
    case COLFAM_PLAN_GET:
      break;
  }
  planner->info->estimatedCost = cost;
  planner->info->estimatedRows = (sqlite3_int64)rows;
}
